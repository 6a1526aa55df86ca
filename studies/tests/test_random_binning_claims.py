"""Verdicts follow from records: a claim can fail, hold in part, and stay untested."""

from __future__ import annotations

import doctest

import pytest

import _records as made
from mercer_studies.claims import HELD, NOT_HELD, NOT_TESTED, PARTLY, Claim, Finding, judge
from mercer_studies.random_binning import claims, comparison, reference, summary


def verdict(name, records):
    [judged] = [j for j in judge(claims.CLAIMS, records) if j.claim.name == name]
    return judged.verdict


def over_gamma(test, train, seconds=(1.0, 1.0, 1.0, 1.0)):
    gammas = (0.1, 1.0, 10.0, 100.0)
    return [
        made.record(gamma=gamma, test=test[i], train=train[i], fit=seconds[i])
        for i, gamma in enumerate(gammas)
    ]


def beside(ours, theirs, sizes=(8, 64), **changes):
    found = []
    for i, size in enumerate(sizes):
        found.append(made.record(size=size, test=ours[i], fit=0.01 * size, **changes))
        for rival in ("fourier", "nystroem", "blocks"):
            found.append(made.record(rival, size=size, test=theirs[i], fit=size, **changes))
    return found


def test_nothing_is_tested_without_records():
    assert {judged.verdict for judged in judge(claims.CLAIMS, [])} == {NOT_TESTED}


def test_claims_have_names_of_their_own_and_a_rule():
    assert len({claim.name for claim in claims.CLAIMS}) == len(claims.CLAIMS)
    assert {claim.figure for claim in claims.CLAIMS} == {2, 3, 4, 5, 6}
    assert all(claim.text.endswith(".") and claim.rule.endswith(".") for claim in claims.CLAIMS)


@pytest.mark.parametrize(
    ("shares", "said"),
    [
        ([HELD] * 4 + [NOT_HELD], HELD),
        ([HELD] * 3 + [NOT_HELD], PARTLY),
        ([PARTLY], PARTLY),
        ([PARTLY] + [NOT_HELD] * 3, NOT_HELD),
        ([NOT_HELD, NOT_TESTED], NOT_HELD),
        ([NOT_TESTED], NOT_TESTED),
        ([], NOT_TESTED),
    ],
)
def test_verdict_over_data_sets_goes_by_the_share_that_holds(shares, said):
    def decide(records):
        return [Finding(str(i), "fair", one, "") for i, one in enumerate(shares)]

    [judged] = judge([Claim("c", 1, "Text.", "Rule.", decide)], [])
    assert judged.verdict == said


@pytest.mark.parametrize(("bins", "said"), [(41, HELD), (60, PARTLY)])
def test_example_is_judged_by_its_number_of_bins(bins, said):
    assert verdict("sparse-example", [made.example(bins=bins)]) == said


def test_example_with_other_than_one_bin_a_grid_is_not_held():
    example = made.example()
    example["example"]["nnz"] += 1
    assert verdict("sparse-example", [example]) == NOT_HELD


@pytest.mark.parametrize(
    ("test", "train", "together", "apart"),
    [
        ((0.4, 0.3, 0.2, 0.5), (0.4, 0.2, 0.1, 0.0), HELD, HELD),
        ((0.4, 0.3, 0.2, 0.5), (0.4, 0.2, 0.3, 0.3), PARTLY, PARTLY),
        ((0.4, 0.3, 0.2, 0.2), (0.1, 0.2, 0.3, 0.3), NOT_HELD, NOT_HELD),
        ((0.2, 0.3, 0.4, 0.5), (0.2, 0.1, 0.0, 0.0), NOT_TESTED, HELD),
        ((0.5, 0.4, 0.3, 0.2), (0.5, 0.4, 0.3, 0.2), HELD, NOT_TESTED),
    ],
)
def test_errors_fall_together_up_to_the_best_gamma_and_part_beyond(test, train, together, apart):
    records = over_gamma(test, train)
    assert verdict("together", records) == together
    assert verdict("apart", records) == apart


@pytest.mark.parametrize(
    ("seconds", "cheap", "slower"),
    [
        ((1.0, 1.5, 1.9, 4.0), HELD, HELD),
        ((1.0, 2.0, 4.0, 8.0), PARTLY, HELD),
        ((1.0, 3.0, 6.0, 2.0), NOT_HELD, NOT_HELD),
        ((4.0, 3.0, 2.0, 1.0), HELD, NOT_HELD),
    ],
)
def test_training_time_is_judged_at_the_best_gamma_and_against_the_bins(seconds, cheap, slower):
    records = over_gamma((0.4, 0.3, 0.2, 0.5), (0.4, 0.3, 0.1, 0.0), seconds)
    assert verdict("cheap", records) == cheap
    assert verdict("slower", records) == slower


@pytest.mark.parametrize(
    ("errors", "said"),
    [
        ((0.4, 0.2, 0.1, 0.05), HELD),
        ((0.4, 0.1, 0.1, 0.1), PARTLY),
        ((0.1, 0.2, 0.3, 0.4), NOT_HELD),
    ],
)
def test_error_falls_along_a_line_or_bends_or_grows(errors, said):
    sizes = (8, 16, 32, 64)
    records = [made.record(size=R, test=e) for R, e in zip(sizes, errors, strict=True)]
    assert verdict("straight", records) == said


@pytest.mark.parametrize(("train", "said"), [(0.001, HELD), (0.05, PARTLY), (0.3, NOT_HELD)])
def test_memorising_is_judged_by_the_least_training_error(train, said):
    assert verdict("memorises", [made.record(train=train), made.record(train=0.5)]) == said


@pytest.mark.parametrize(
    ("ours", "theirs", "said"),
    [
        ((0.1, 0.1), (0.3, 0.2), HELD),
        ((0.1, 0.1), (0.2, 0.3), PARTLY),  # the advantage grows
        ((0.1, 0.3), (0.2, 0.2), PARTLY),  # first at half of the sizes
        ((0.3, 0.3), (0.2, 0.2), NOT_HELD),
    ],
)
def test_being_best_can_hold_hold_in_part_and_fail(ours, theirs, said):
    assert verdict("best", beside(ours, theirs)) == said


@pytest.mark.parametrize(("worse", "said"), [(1.5, HELD), (0.5, NOT_HELD)])
def test_equal_terms_are_judged_by_means_over_seeds(worse, said):
    assert verdict("small-sizes", made.fair(worse=worse)) == said


def test_protocols_are_judged_apart():
    runs = beside((0.1, 0.1), (0.2, 0.15)) + made.fair(worse=0.5)
    [judged] = [j for j in judge(claims.CLAIMS, runs) if j.claim.name == "small-sizes"]
    assert judged.under("published").verdict == HELD
    assert judged.under("fair").verdict == NOT_HELD
    assert judged.verdict == PARTLY


@pytest.mark.parametrize(
    ("ours", "said"), [(0.205, HELD), (0.209, HELD), (0.23, PARTLY), (0.3, NOT_HELD)]
)
def test_nearness_to_the_exact_kernel_is_judged_at_the_largest_size(ours, said):
    exact = made.record("exact", size=None, test=0.2)
    assert verdict("exact", [made.record(size=8, test=0.9), made.record(test=ours), exact]) == said


def test_exact_kernel_on_a_sample_is_named_in_the_numbers():
    exact = made.record("exact", size=None, test=0.2, rows=100)
    [judged] = [j for j in judge(claims.CLAIMS, [made.record(), exact]) if j.claim.name == "exact"]
    assert "on 100 of 1,000 rows" in judged.findings[0].numbers


def test_rivals_that_reach_our_error_are_priced_exactly():
    equal = beside((0.1, 0.1), (0.1, 0.1))
    assert verdict("time", equal) == HELD  # a hundred times the time for the same error
    assert verdict("memory", equal) == NOT_HELD  # the same memory
    [judged] = [j for j in judge(claims.CLAIMS, equal) if j.claim.name == "time"]
    assert "over" not in judged.findings[0].numbers


def test_rivals_that_never_reach_our_error_give_lower_bounds():
    short = beside((0.1, 0.1), (0.2, 0.2), sizes=(64, 80))
    assert verdict("memory", short) == NOT_TESTED
    far = [*short, made.record("fourier", size=4096, test=0.2, fit=1.0)]
    assert verdict("memory", far) == HELD


@pytest.mark.parametrize(("power", "said"), [(1.0, HELD), (2.0, NOT_HELD)])
def test_linear_time_is_judged_by_the_power(power, said):
    records = [made.record(size=size, fit=1e-3 * size**power) for size in (8, 16, 32)]
    assert verdict("linear", records) == said


def test_exact_kernel_too_large_needs_a_failure_for_want_of_memory():
    about = made.data("covtype")
    records = [made.record(data=about)]
    failed = {"data_name": "covtype", "failed": "there is not enough memory."}
    fitted = made.record("exact", size=None, data=about, rows=1000)
    assert verdict("too-large", records) == NOT_TESTED
    assert verdict("too-large", [*records, failed]) == HELD
    assert verdict("too-large", [*records, fitted]) == NOT_HELD


# --- the authors' points ---------------------------------------------------------------------


@pytest.fixture
def points(tmp_path):
    path = tmp_path / "points.csv"
    path.write_text(made.csv_of(made.POINTS))
    return path


def test_reference_joins_training_and_test_part_of_a_fit(points):
    first, second, *_ = reference.read_reference(points)
    assert first["score"] == {"train": {"accuracy": 0.99}, "test": {"accuracy": 0.97}}
    assert (first["n_features"], first["n_features_joint"]) == (1400, 1500)
    assert (first["figures"], second["figures"]) == ((3, 4), (5,))


def test_reference_takes_sigma_of_the_rivals_for_one_over_gamma(points):
    found = {point["method"]: point for point in reference.read_reference(points)}
    assert found["binning"]["gamma"] == 1.12
    assert found["fourier"]["gamma"] == 0.5
    assert found["exact"]["size"] is None
    assert found["exact"]["stored_per_row"] == 1000


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "must have the columns"),
        ("a,b\n1,2\n", "figure is missing"),
        (made.csv_of([]), "has none"),
        (made.csv_of([("fig9", *made.POINTS[0][1:])]), "line 2: not a point of a figure"),
        (made.csv_of([(*made.POINTS[0][:8], "much", 1, 1)]), "line 2: not a point"),
        (made.csv_of([(*made.POINTS[0][:3], "all", *made.POINTS[0][4:])]), "split is 'all'"),
    ],
)
def test_wrong_reference_file_is_one_sentence(tmp_path, text, said):
    path = tmp_path / "wrong.csv"
    path.write_text(text)
    with pytest.raises(ValueError, match=said) as error:
        reference.read_reference(path)
    assert "\n" not in str(error.value)


def test_reference_that_is_no_text_is_one_sentence(tmp_path):
    path = tmp_path / "wrong.csv"
    path.write_bytes(b"\xff\xfe\x00\x81")
    with pytest.raises(ValueError, match="must be a CSV file"):
        reference.read_reference(path)


def test_claims_can_be_put_to_the_authors_points(points):
    found = {
        j.claim.name: j.verdict for j in judge(claims.CLAIMS, reference.read_reference(points))
    }
    assert found["exact"] == HELD
    assert found["sparse-example"] == NOT_TESTED


@pytest.mark.parametrize(
    ("error", "task", "said"),
    [
        (0.035, "classification", "near"),
        (0.015, "classification", "better"),
        (0.05, "classification", "worse"),
        (0.205, "regression", "near"),
        (0.19, "regression", "better"),
        (0.21, "regression", "worse"),
    ],
)
def test_scores_are_near_within_a_point_or_three_per_cent(error, task, said):
    theirs = made.record(test=0.03 if task == "classification" else 0.2, data=made.data(task=task))
    ours = made.record(test=error, data=made.data(task=task))
    [row] = comparison.comparison([ours], [theirs])
    assert row.verdict == said


def test_bins_are_compared_at_the_same_gamma():
    runs = [made.record(gamma=1.0, test=0.1), made.record(gamma=2.0, test=0.2)]
    theirs = made.record(gamma=2.0, test=0.1, n_features_joint=7)
    [row] = comparison.comparison(runs, [theirs])
    assert row.gammas == (1.0, 2.0)
    assert row.columns == (runs[1]["n_features_joint"], 7)


@pytest.mark.parametrize(("name", "compared"), [("letter", 0.9), ("mnist", 0.95)])
def test_letter_is_compared_without_the_class_the_authors_lost(name, compared):
    about = made.data(name)
    ours, theirs = made.record(data=about), made.record(data=about)
    ours["score"]["test"] = {"accuracy": 0.95, "accuracy_without_last": 0.9}
    [row] = comparison.comparison([ours], [theirs])
    assert row.ours == 0.95
    assert row.like_theirs == compared


@pytest.mark.parametrize("kind", ["stand-in", "generated"])
def test_other_data_are_not_compared(kind):
    about = made.data(kind=kind)
    assert comparison.comparison([made.record(data=about)], [made.record()]) == []


# --- sentences and tables --------------------------------------------------------------------


def simulated(reached):
    curve = [{"tau": tau, "rounds": rounds} for tau, rounds in ((1, 80), *reached.items())]
    about = {"kind": "simulated", "mode": "safe", "curve": curve, "omega": 8, "n_features": 800}
    return made.record(**about, predicted=[1.0, *(0.9 * tau for tau in reached)])


def test_sentences_count_where_random_binning_leads():
    assert summary.shows(made.fair(worse=1.5))[1] == (
        "On equal terms random binning has the least error in 3 of 3 cases."
    )
    assert summary.shows(made.fair(worse=0.5, seeds=(0,))) == [
        "Runs on equal terms have one seed, and the exact kernel one.",
        "On equal terms random binning has the least error in 0 of 3 cases; not on toy at R = 16, "
        "toy at R = 64, toy at R = 256.",
    ]


def test_sentence_says_what_all_rows_would_cost_the_exact_kernel():
    runs = [
        made.record("exact", size=None, gamma=gamma, rows=rows, fit=fit)
        for gamma, rows, fit in ((0.5, 100, 1.0), (1.0, 100, 1.0), (1.0, 200, 8.0))
    ]
    assert summary.shows(runs) == [
        "The exact kernel is fitted to 200 of 1,000 training rows of toy (all would take about "
        "17 min by rows^3.0, from 100 rows on)."
    ]
    assert not summary.shows([run | {"data": made.data(n_train=200)} for run in runs])


def test_sentences_compare_rounds_with_the_guarantee():
    assert summary.shows([simulated({2: 40, 4: 40})]) == [
        "Simulated processors with safe steps on random binning reach 0.56 to 1.11 times S(τ), at "
        "least S(τ) in 1 of 2 cases."
    ]


@pytest.mark.parametrize(
    ("high", "said"), [(0.2, "is below it at every R"), (50.0, "exceeds it from R = 4 on")]
)
def test_sentences_say_where_theorem_1_fails(high, said):
    course = {"grids": [2, 4], "objectives": [[0.1, high], [0.1, high]]}
    run = made.record(protocol="theorem", course=course, start=0.5, kappa=2.0)
    run |= {"exact": {"objective": 0.1, "norm": 1.0}}
    [sentence] = summary.shows([run])
    assert said in sentence


def test_tables_have_a_row_for_every_method_and_every_simulation():
    errors, speed = summary.tables([*made.fair(seeds=(0, 1)), simulated({2: None})])
    assert errors["head"] == ["data", "method", "16", "64", "256", "whole kernel"]
    assert errors["rows"][0][:3] == ["toy", "random binning", "5.25 ± 0.18 %"]
    assert speed["rows"] == [
        ["simulated", "toy", "random binning", "safe steps", "100", "80 rounds", "2: –", "2: 1.8"]
    ]


def test_examples_of_the_sentences_run():
    assert doctest.testmod(summary).failed == 0
