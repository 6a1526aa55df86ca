"""Claims, figures and tables of the block coordinate descent study, on hand-made records."""

from __future__ import annotations

import doctest

import numpy as np
import pytest

from mercer.plots import save_figure
from mercer_studies.block_descent import claims, page, reference, summary, tables
from mercer_studies.block_descent import figures as plots
from mercer_studies.claims import HELD, NOT_HELD, NOT_TESTED, PARTLY, judge

STARS = 5.0  # √mean square of the test stars


def data(name="toy", stars=False):
    task = "regression" if stars else "classification"
    found = {"name": name, "paper_name": None, "task": task, "kind": "whole", "d": 9}
    return {**found, "stand_in_for": None, "n_train": 1000, "n_test": 100}


def score(error, stars):
    if stars:
        return {"test": {"relative_rmse": error / STARS, "rmse": error}}
    return {"test": {"accuracy": 1 - error}}


def record(task, method, about, error, **changes):
    found = {
        "record": "mercer reproduce",
        "paper": "block-descent",
        "key": "-".join(map(str, (task, method, about["name"], *sorted(map(str, changes))))),
        "protocol": "fair",
        "task": task,
        "method": method,
        "data": about,
        "data_name": about["name"],
        "fitted_rows": 1000,
        "n_features": 100,
        "n_outputs": 3,
        "n_inputs": 9.0,
        "block_size": 50,
        "seed": 0,
        "size": None,
        "chosen": {"gamma": 0.5, "alpha": 1e-3},
        "warnings": [],
    }
    return {**found, "score": score(error, about["task"] == "regression"), **changes}


def curve(method, errors, *, epoch=1.0, later=None, about=None, phases=None):
    """Errors after whole epochs, of which the first takes ``epoch`` seconds."""
    later = epoch if later is None else later
    seconds = [epoch + later * i for i in range(len(errors))]
    points = {"epoch": [float(i + 1) for i in range(len(errors))], "seconds": seconds}
    points |= {"error": list(errors), "residual": [0.1] * len(errors)}
    times = {"fit": seconds[-1], "first_epoch": epoch}
    phases = phases or {"generate": 0.1, "solve": 0.1}
    own = {"course": points, "seconds": times, "figures": [1, 3]}
    own["phases"] = {"first": phases, "later": phases}
    return record("curve", method, about or data(), errors[-1], **own)


def sizes(method, curves, *, about=None, long=True):
    """A run for every p, of these errors after epochs."""
    found = []
    for p, errors in curves.items():
        run = curve(method, errors, about=about)
        run |= {"task": "sizes", "size": p, "phases": None, "figures": [2, 4] if long else [2]}
        found.append(run)
    return found


def path(method, ratio):
    seconds = {"fit": ratio, "one": 1.0, "path": ratio}
    return record(
        "path",
        method,
        data(),
        0.1,
        ratio=ratio,
        alphas=[1e-3] * 8,
        away=1e-12,
        seconds=seconds,
        figures=["path"],
    )


def rate(method, measured, condition=10.0, strength="theory", close=9):
    constants = {"smallest": 1.0, "largest": condition, "effective": 8 * condition}
    return record(
        "rates",
        method,
        data(),
        0.1,
        gaps=[1e-1, 1e-2, 1e-3, 1e-4],
        measured=measured,
        predicted=[100.0, 200.0, 300.0, 400.0],
        predicted_old=[10.0, 20.0, 30.0, 40.0],
        condition=condition,
        strength=strength,
        close=close,
        away=1e-7,
        accelerated={"measured": [1, 2, 3, None], "close": 5, "away": 1e-8},
        figures=["Table 2"],
        **constants,
    )


def verdict(name, records):
    [judged] = [j for j in judge(claims.CLAIMS, records) if j.claim.name == name]
    return judged.verdict


# --- claims ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("errors", "seconds", "expected"),
    [([0.3, 0.2, 0.1], 9.0, HELD), ([0.3, 0.2, 0.1], 0.5, PARTLY), ([0.3, 0.2, 0.16], 9, NOT_HELD)],
)
def test_the_full_kernel_is_judged_after_three_epochs(errors, seconds, expected):
    others = [curve("nystroem", [0.2, 0.15]), curve("features", [0.2, 0.18])]
    exact = curve("exact", [*errors, 0.01], epoch=seconds)
    assert verdict("lowest-error", [exact, *others]) == expected
    assert verdict("lowest-error", others) == NOT_TESTED


@pytest.mark.parametrize(("later", "expected"), [((0.4, 0.4), HELD), ((0.4, 0.9), PARTLY)])
def test_later_epochs_are_compared_with_the_first(later, expected):
    runs = [
        curve(method, [0.2, 0.1, 0.1], epoch=1.0, later=each)
        for method, each in zip(("nystroem", "features"), later, strict=True)
    ]
    assert verdict("later-epochs", runs) == expected
    one = [curve("nystroem", [0.2])]
    assert verdict("later-epochs", one) == NOT_TESTED


def test_a_tenth_of_the_columns_is_the_nearest_size():
    exact = curve("exact", [0.1])
    for error, expected in ((0.101, HELD), (0.109, PARTLY), (0.2, NOT_HELD)):
        runs = sizes("nystroem", {10: [0.5], 120: [error], 500: [0.05]})
        assert verdict("a-tenth", [exact, *runs]) == expected


def test_both_must_come_near_the_full_kernel():
    exact = curve("exact", [0.1])
    for errors, expected in (((0.105, 0.11), HELD), ((0.105, 0.2), PARTLY), ((0.2, 0.2), NOT_HELD)):
        runs = sizes("nystroem", {10: [0.5], 100: [errors[0]]})
        runs += sizes("features", {10: [0.5], 100: [errors[1]]})
        assert verdict("approach", [exact, *runs]) == expected


def test_strings_are_judged_on_texts_alone():
    for stars, expected in ((False, NOT_TESTED), (True, HELD)):
        about = data(stars=stars)
        runs = sizes("nystroem", {10: [0.9], 100: [0.8]}, about=about)
        runs += sizes("features", {10: [1.2], 100: [0.9]}, about=about)
        assert verdict("strings", runs) == expected
    about = data(stars=True)
    worse = sizes("nystroem", {10: [1.5], 100: [0.8]}, about=about)
    assert verdict("strings", worse + runs[2:]) == PARTLY


def test_five_epochs_are_alike_first_and_apart_last():
    def runs(small, large, rf=(0.3, 0.1)):
        long = [0.9] * 4
        ours = sizes("nystroem", {10: [*long, small, 0.0], 100: [*long, large, 0.0]})
        theirs = sizes("features", {10: [*long, rf[0], 0.0], 100: [*long, rf[1], 0.0]})
        return ours + theirs

    assert verdict("five-epochs", runs(0.31, 0.2)) == HELD
    assert verdict("five-epochs", runs(0.5, 0.2)) == PARTLY
    assert verdict("five-epochs", runs(0.5, 0.05)) == NOT_HELD


def test_patience_is_a_later_settling_and_a_better_end():
    slow, quick = [0.5, 0.4, 0.3, 0.1], [0.2, 0.2, 0.2, 0.2]
    for ours, theirs, expected in (
        (slow, quick, HELD),
        ([0.1] * 4, quick, PARTLY),
        ([0.5, 0.4, 0.3, 0.3], quick, NOT_HELD),
    ):
        runs = sizes("nystroem", {10: ours}) + sizes("features", {10: theirs})
        assert verdict("patience", runs) == expected
    short = sizes("nystroem", {10: slow}, long=False) + sizes("features", {10: quick}, long=False)
    assert verdict("patience", short) == NOT_TESTED


def test_the_end_is_judged_size_by_size():
    theirs = sizes("features", {10: [0.3], 50: [0.2], 100: [0.1]})
    for errors, expected in (
        ((0.3, 0.15, 0.1019), HELD),
        ((0.3, 0.15, 0.2), PARTLY),
        ((0.3, 0.3, 0.2), NOT_HELD),
    ):
        ours = sizes("nystroem", dict(zip((10, 50, 100), ([e] for e in errors), strict=True)))
        assert verdict("in-the-end", ours + theirs) == expected


def test_linear_models_are_judged_by_their_errors():
    line = record("linear", "linear", data(), 0.2, seconds={"fit": 1.0})
    for error, expected in ((0.14, HELD), (0.18, PARTLY), (0.25, NOT_HELD)):
        assert verdict("not-linear", [line, curve("exact", [error])]) == expected


@pytest.mark.parametrize(("exact", "expected"), [(0.1, HELD), (0.25, PARTLY), (0.5, NOT_HELD)])
def test_blocks_are_ranked_by_the_sums_of_their_phases(exact, expected):
    times = {"exact": exact, "nystroem": 0.3, "features": 0.2}
    runs = [curve(m, [0.1], phases={"generate": s / 2, "solve": s / 2}) for m, s in times.items()]
    assert verdict("cheapest-block", runs) == expected


def test_generation_is_alike_for_numbers_and_cheap_for_hashing():
    def runs(kernel, other, stars):
        times = {"nystroem": kernel, "features": other}
        about = data(stars=stars)
        phases = ({"generate": s, "solve": 0.1} for s in times.values())
        return [curve(m, [0.1], about=about, phases=next(phases)) for m in times]

    assert verdict("generation", runs(0.3, 0.25, stars=False)) == HELD
    assert verdict("generation", runs(0.3, 0.1, stars=False)) == PARTLY
    assert verdict("generation", runs(0.9, 0.1, stars=False)) == NOT_HELD
    assert verdict("generation", runs(0.9, 0.1, stars=True)) == HELD
    assert verdict("generation", runs(0.1, 0.2, stars=True)) == NOT_HELD


def test_generation_and_gram_matrix_are_half_of_a_block():
    half = {"generate": 0.2, "gram": 0.3, "solve": 0.4}
    less = {"generate": 0.1, "gram": 0.1, "solve": 0.4}
    both = [curve("nystroem", [0.1], phases=half), curve("features", [0.1], phases=half)]
    assert verdict("dominant", both) == HELD
    assert verdict("dominant", [both[0], curve("features", [0.1], phases=less)]) == PARTLY
    assert verdict("dominant", [curve("features", [0.1], phases=less)]) == NOT_HELD


@pytest.mark.parametrize(
    ("ratios", "expected"), [((1.5, 1.9), HELD), ((1.5, 2.1), PARTLY), ((3, 4), NOT_HELD)]
)
def test_a_path_costs_less_than_two(ratios, expected):
    runs = [path(m, r) for m, r in zip(("exact", "nystroem"), ratios, strict=True)]
    assert verdict("path", runs) == expected


def test_conditions_are_judged_by_epochs_at_the_strength_of_the_theory():
    easy = [rate("exact", [1, 2, 4, 6]), rate("features", [1, 2, 3, 6])]
    hard = rate("nystroem", [9, 20, 80, 90], condition=1e4)
    assert verdict("conditions", [*easy, hard]) == HELD
    assert verdict("conditions", [*easy, rate("nystroem", [1, 2, 3, 4], 1e4)]) == PARTLY
    assert verdict("conditions", [*easy, rate("nystroem", [1, 2, 3, 4])]) == NOT_HELD
    endless = rate("nystroem", [9, 20, None, None], condition=1e4)
    assert verdict("conditions", [*easy, endless]) == HELD
    chosen = rate("nystroem", [1, 1, 1, 1], strength="chosen")
    assert verdict("conditions", [*easy, hard, chosen]) == HELD


def test_no_epoch_may_exceed_the_bound():
    assert verdict("theorem", [rate("exact", [1, 2, 300, None])]) == HELD
    assert verdict("theorem", [rate("exact", [1, 2, 301, None])]) == NOT_HELD
    assert verdict("theorem", [rate("exact", [None] * 4)]) == NOT_TESTED


def test_direct_solutions_must_be_come_near():
    good, bad = rate("exact", [1, 2, 3, 4]), rate("nystroem", [1, 2, 3, 4], close=None)
    assert verdict("direct", [good]) == HELD
    assert verdict("direct", [good, bad]) == PARTLY
    assert verdict("direct", [bad]) == NOT_HELD


def test_runs_that_failed_count_for_nothing():
    failed = {**rate("exact", [1, 2, 3, 4]), "failed": "no memory."}
    assert verdict("direct", [failed]) == NOT_TESTED


# --- figures and tables ----------------------------------------------------------------------

STUDY = [
    *(curve(m, [0.3, 0.2, 0.1]) for m in ("exact", "nystroem", "features")),
    *(curve(m, [3.0, 2.0], about=data("texts", stars=True)) for m in ("exact", "features")),
    record("linear", "linear", data(), 0.2, seconds={"fit": 1.0}),
    *sizes("nystroem", {10: [0.3, 0.2], 100: [0.2, 0.1]}),
    *sizes("features", {10: [0.3, 0.25], 100: [0.2, 0.15]}),
    *(path(m, 1.5) for m in ("exact", "nystroem")),
    rate("exact", [1, 2, 3, None], close=None),
]


@pytest.mark.parametrize(
    "draw", [plots.figure1, plots.figure2, plots.figure3, plots.figure4], ids=lambda d: d.__name__
)
def test_figures_are_drawn_and_want_records(draw, tmp_path):
    save_figure(draw(STUDY), tmp_path / "figure.png")
    with pytest.raises(ValueError, match="records must hold runs of"):
        draw([])


def test_panels_show_what_was_recorded():
    [numbers, texts] = plots.figure1(STUDY).axes
    assert [len(numbers.lines), len(texts.lines)] == [6, 4]  # a line and its stars
    line, stars = numbers.lines[:2]
    assert line.get_xydata().tolist() == [[1.0, 0.3], [2.0, 0.2], [3.0, 0.1]]
    assert stars.get_marker() == "*"
    assert (numbers.get_ylabel(), texts.get_ylabel()) == ("wrong classes", "RMSE of stars")
    [panel] = plots.figure2(STUDY).axes
    levels = [line.get_ydata()[0] for line in panel.lines if line.get_linestyle() in ("--", ":")]
    assert levels == pytest.approx([0.1, 0.2])
    heights = [bar.get_height() for bar in plots.figure3(STUDY).axes[0].patches]
    assert sum(heights) == pytest.approx(6 * 200.0)
    upper, lower = plots.figure4(STUDY).axes
    assert lower.lines[0].get_xydata().tolist() == [[10, 0.2], [100, 0.1]]
    assert len(upper.lines) == 4


def test_errors_of_epochs_between_points_are_not_known():
    run = curve("exact", [0.3, 0.2])
    assert plots.error_at(run, 2) == plots.error_at(run) == 0.2
    assert np.isnan(plots.error_at(run, 5))


def test_tables_hold_every_run_and_the_papers_numbers():
    found = {table["caption"].split(":")[0]: table for table in tables.measured(STUDY)}
    assert [len(table["rows"]) for table in found.values()] == [14, 1, 5, 8, 6, 10, 4, 2]
    for table in found.values():
        assert {len(row) for row in table["rows"]} == {len(table["head"])}
    for row, known in zip(found["Table 3"]["rows"], reference.PAPER_DATA, strict=False):
        assert row[-2] == row[-1] == f"{known.terabytes:.2f} TB"


@pytest.mark.parametrize(
    "module", [claims, page, tables, plots, reference], ids=lambda module: module.__name__
)
def test_documented_examples(module):
    assert doctest.testmod(module).failed == 0


# --- sentences -------------------------------------------------------------------------------


def test_sentences_are_computed_from_the_records():
    rates = [rate("nystroem", [1, 2, 3, 4], close=None) | {"epochs": 3000}]
    rates[0] |= {"predicted": [5.0, 200.0, None, None]}
    slow, fast = (sizes("nystroem", {64: [0.2, error]})[0] for error in (0.1, 0.08))
    runs = [*rates, slow, fast | {"task": "accelerated"}, path("exact", 2.5), path("features", 1.4)]
    assert summary.shows(runs) == [
        "Theorem 4.1 is tighter than the older equation 7 in 1 of 2 cases.",
        "Combining the changes of the last epochs takes the epochs to the direct solution at λ = "
        "ln n / n, Nyström, from more than 3,000 to 5 on toy.",
        "It takes the test error of Nyström on toy at p = 64 at the end from 10.00 % to 8.00 %.",
        "8 λ at once cost 1.40 times one at the least (random features, toy) and 2.50 times at the "
        "most (full kernel, toy).",
    ]


def test_sentence_says_what_the_papers_features_would_cost():
    runs = sizes("features", {1024: [0.2], 2048: [0.1]})
    for run, seconds in zip(runs, (10.0, 20.0), strict=True):
        run |= {"seconds": {"fit": seconds}, "fitted_rows": 5000}
        run["data"] = {**run["data"], "n_train": 5000}
    assert summary.shows(runs) == [
        "Figures 1 to 4 have all 5,000 training rows of toy; random features reach p = 2,048 in 20 "
        "s, and p = 16,384 would take about 3 min, as seconds grow like p^1.0."
    ]
    assert not summary.shows([run | {"fitted_rows": 4000} for run in runs])


def test_example_of_the_sentences_runs():
    assert doctest.testmod(summary).failed == 0
