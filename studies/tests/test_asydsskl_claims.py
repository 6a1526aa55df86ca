"""Rules and figures of the AsyDSSKL study on hand-made records: known numbers, known verdicts."""

from __future__ import annotations

import doctest

import pytest

from mercer.plots import save_figure
from mercer_studies.asydsskl import claims, page, summary, tables
from mercer_studies.asydsskl import figures as asydsskl
from mercer_studies.claims import HELD, NOT_HELD, NOT_TESTED, PARTLY, judge

CHOSEN = {"gamma": 0.5, "alpha": 1e-3, "alpha_squared": 1e-3, "C": 10.0}


def data(name="toy", task="classification", **changes):
    found = {"name": name, "paper_name": name, "task": task, "kind": "whole", "d": 10}
    return {**found, "stand_in_for": None, "n_train": 900, "n_test": 100, **changes}


def score(error, task):
    return {
        "test": {"accuracy": 1 - error}
        if task == "classification"
        else {"relative_rmse": error, "mse": error}
    }


def record(task, method, *, about=None, error=0.1, **changes):
    about = about or data()
    found = {
        "record": "mercer reproduce",
        "paper": "asydsskl",
        "protocol": "fair",
        "scale": "tiny",
        "data": about,
        "data_name": about["name"],
        "task": task,
        "method": method,
        "label": method,
        "seed": 0,
        "rows": 800,
        "size": None,
        "warnings": [],
    }
    return {**found, "score": score(error, about["task"]), **changes}


def curve(method, seconds, errors, size=50, about=None, **changes):
    course = {"seconds": seconds, "error": errors, "size": [size] * len(errors)}
    course["objective"] = list(errors)
    more = {"course": course, "model_size": size, "chosen": CHOSEN, "capped": False}
    own = {"objective": 0.5, "seconds": {"fit": seconds[-1]}, "figures": [1], **more, **changes}
    return record("curve", method, about=about, error=errors[-1], **own)


def answer(method, slope, size):
    points = [{"n": n, "seconds": slope * n} for n in (100, 1000)]
    own = {"model_size": size, "slope": slope, "curve": points, "seconds": {"predict": 1.0}}
    return record("answers", method, figures=[1], **own)


def threads(method, seconds):
    points = [{"tau": t, "seconds": s, "pace": s or 1.0} for t, s in seconds.items()]
    return record("measured", method, figures=[2], curve=points, n_features=40)


def delays(step_size, loops):
    points = [{"tau": tau, "loops": value} for tau, value in loops.items()]
    return record(
        "delayed", "asydsskl", figures=[2], step_size=step_size, curve=points, n_features=12
    )


def wrong(method, errors, task="classification"):
    return [
        record(
            "robust",
            method,
            about=data(task=task),
            error=error,
            share=share,
            protocol="robustness",
            figures=["robustness"],
        )
        for share, error in errors.items()
    ]


def verdict(name, records):
    [judged] = [j for j in judge(claims.CLAIMS, records) if j.claim.name == name]
    return judged.verdict


FAST = curve("asydsskl", [1.0, 2.0], [0.2, 0.1])


@pytest.mark.parametrize(
    ("rival", "expected"),
    [
        (curve("svc", [4.0, 8.0], [0.2, 0.1], 400), HELD),
        (curve("svc", [0.5, 4.0], [0.09, 0.05], 400), NOT_HELD),
        (curve("svc", [1.0, 2.0, 4.0], [0.3, 0.05, 0.05], 400), PARTLY),
        (curve("doubly", [1.0, 4.0], [0.1995, 0.0995], 400), HELD),  # a tie
    ],
)
def test_training_is_judged_by_who_is_best_for_a_time(rival, expected):
    assert verdict("accuracy-for-time", [FAST, rival]) == expected
    assert verdict("mse-for-time", [FAST, rival]) == NOT_TESTED


def test_times_before_the_first_model_of_the_paper_do_not_count():
    early = curve("svc", [1e-3, 8.0], [0.3, 0.1])
    budgets, first = claims.leaders([FAST, early], ("svc",))
    assert budgets[0] == 1.0
    assert set(first) == {"asydsskl"}
    assert claims.leaders([FAST], ("svc",)) == ([], [])


def test_class_numbers_are_judged_by_their_mean_squared_error():
    about = data(task="regression")
    ours = curve("asydsskl", [1.0, 2.0], [3.0, 2.0], about=about)
    worse = curve("svc", [1.0, 2.0], [3.1, 1.99], about=about)
    better = curve("svc", [1.0, 2.0], [1.5, 1.4], about=about)
    assert verdict("mse-for-time", [ours, worse]) == HELD
    assert verdict("mse-for-time", [ours, better]) == NOT_HELD
    assert verdict("accuracy-for-time", [ours, better]) == NOT_TESTED


def test_a_minute_is_a_minute():
    best = curve("svc", [5.0], [0.1], 400)
    for seconds, error, expected in (
        (59.0, 0.105, HELD),
        (59.0, 0.125, PARTLY),
        (59.0, 0.2, NOT_HELD),
        (61.0, 0.1, NOT_HELD),
    ):
        assert verdict("a-minute", [curve("asydsskl", [seconds], [error]), best]) == expected


@pytest.mark.parametrize(("size", "expected"), [(200, HELD), (300, PARTLY), (500, NOT_HELD)])
def test_compact_is_less_than_half_of_the_support_vectors(size, expected):
    ours = curve("asydsskl", [1.0], [0.1], size)
    assert verdict("compact", [ours, curve("svc", [1.0], [0.1], 400)]) == expected


def test_steps_are_compared_with_coordinate_descent_by_objectives():
    def run(method, seconds, objective, size=50):
        found = curve(method, seconds, [0.1] * len(seconds), size)
        found["course"]["objective"] = objective
        return found

    ours = run("asydsskl", [1.0, 2.0], [0.5, 0.4])
    assert verdict("steps", [ours, run("working-set", [1.0, 2.0], [0.6, 0.399])]) == HELD
    assert verdict("steps", [ours, run("working-set", [0.1, 0.2], [0.4, 0.3])]) == NOT_HELD
    assert verdict("steps", [ours, run("working-set", [1.0, 1.5], [0.6, 0.3])]) == PARTLY
    assert verdict("steps", [ours, run("working-set", [1.5, 4.0], [0.6, 0.3])]) == HELD
    assert verdict("steps", [ours]) == NOT_TESTED
    none = [run(method, [1.0], [0.5], size=0) for method in ("asydsskl", "working-set")]
    assert verdict("steps", none) == NOT_TESTED
    assert verdict("compact", [none[0], curve("svc", [1.0], [0.1], 400)]) == NOT_TESTED


def test_answers_are_judged_by_their_slopes():
    ours = answer("asydsskl", 1e-6, 50)
    rivals = [answer("libsvm-p", 8e-6, 400), answer("svc", 4e-5, 400)]
    assert verdict("testing-time", [ours, *rivals]) == HELD
    assert verdict("testing-size", [ours, *rivals]) == HELD  # 8 times for 8 times the size
    assert verdict("testing-time", [ours, answer("svc", 5e-7, 400)]) == PARTLY
    odd = answer("doubly", 5e-4, 400)
    assert verdict("testing-size", [ours, odd]) == NOT_HELD


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        ({1: 2.0, 2: 1.1}, HELD),
        ({1: 2.0, 2: 1.5}, PARTLY),
        ({1: 2.0, 2: 1.9}, NOT_HELD),
        ({1: 2.0, 2: None}, NOT_TESTED),
        ({1: 2.0}, NOT_TESTED),
    ],
)
def test_threads_are_judged_by_the_time_to_the_target(seconds, expected):
    assert verdict("threads", [threads("asydsskl", seconds)]) == expected


def test_a_busy_machine_does_not_tell_how_much_threads_help():
    run = threads("asydsskl", {1: 2.0, 2: 1.0})
    assert verdict("threads", [run]) == HELD
    assert verdict("threads", [run | {"remark": "shared with other work"}]) == NOT_TESTED


def test_delays_are_judged_by_the_shortest_steps():
    short = delays(0.1, {0: 10.0, 16: 10.5, 64: None})
    long = delays(1.0, {0: 2.0, 16: None})
    assert verdict("delays", [short, long]) == HELD
    assert verdict("delays", [delays(0.1, {0: 10.0, 16: 20.0}), delays(1.0, {0: 2, 16: 2})]) == (
        PARTLY
    )
    assert verdict("delays", [delays(0.1, {0: 10.0, 16: None})]) == NOT_HELD
    assert verdict("delays", [delays(0.1, {0: None, 16: None})]) == NOT_TESTED


def test_losses_are_judged_by_the_most_wrong_targets_and_by_none():
    convex = wrong("logistic", {0.0: 0.1, 0.4: 0.3})
    for errors, robust, free in (
        ({0.0: 0.1, 0.4: 0.15}, HELD, HELD),
        ({0.0: 0.12, 0.4: 0.29}, PARTLY, PARTLY),
        ({0.0: 0.2, 0.4: 0.31}, NOT_HELD, NOT_HELD),
    ):
        records = convex + wrong("sigmoid", errors)
        assert verdict("robustness", records) == robust
        assert verdict("right-targets", records) == free
    assert verdict("robustness", convex) == NOT_TESTED


def test_runs_that_failed_count_for_nothing():
    failed = {**curve("svc", [0.1], [0.0]), "failed": "no memory."}
    assert verdict("accuracy-for-time", [FAST, failed]) == NOT_TESTED


# --- figures and tables ----------------------------------------------------------------------

STUDY = [
    FAST,
    curve("svc", [0.5, 4.0], [0.3, 0.05], 400),
    curve("asydsskl", [1.0, 2.0], [3.0, 2.0], about=data("numbers", "regression")),
    answer("asydsskl", 1e-6, 50),
    answer("svc", 4e-5, 400),
    threads("asydsskl", {1: 2.0, 2: 1.1}),
    delays(0.1, {0: 10.0, 16: 10.5, 64: None}),
    delays(1.0, {0: 2.0, 16: None, 64: None}),
    *wrong("squared", {0.0: 0.3, 0.4: 3.0}, "regression"),
    *wrong("correntropy", {0.0: 0.3, 0.4: 0.4}, "regression"),
]


@pytest.mark.parametrize(
    "draw", [asydsskl.figure1, asydsskl.answers, asydsskl.figure2, asydsskl.robustness]
)
def test_figures_are_drawn_and_want_records(draw, tmp_path):
    save_figure(draw(STUDY), tmp_path / "figure.png")
    with pytest.raises(ValueError, match="records must hold runs of"):
        draw([])


def test_panels_show_what_was_recorded():
    [classes, numbers] = asydsskl.figure1(STUDY).axes
    assert [len(classes.lines), len(numbers.lines)] == [2, 1]
    assert classes.lines[0].get_xydata().tolist() == [[1.0, 0.2], [2.0, 0.1]]
    assert (classes.get_ylabel(), numbers.get_ylabel()) == ("wrong classes", "mean squared error")
    _, lower = asydsskl.figure2(STUDY).axes
    crosses = [line.get_xdata() for line in lower.lines if line.get_marker() == "x"]
    assert sorted(x for found in crosses for x in found) == [16, 64, 64]


def test_tables_hold_every_run():
    counts = {table["caption"]: len(table["rows"]) for table in tables.measured(STUDY)}
    assert list(counts.values()) == [3, 2, 2, 2, 2]
    for table in tables.measured(STUDY):
        assert {len(row) for row in table["rows"]} == {len(table["head"])}


def test_sentences_follow_the_records():
    lower = curve("working-set", [1.0, 2.0], [0.2, 0.05])
    said = summary.shows([FAST, lower, *wrong("squared", {0.0: 0.3, 0.4: 3.0}, "regression")])
    assert said[0].startswith("Coordinate descent ends at a lower objective than AsyDSSKL on 1 of")
    assert "10 (squared)" in said[-1]
    [same] = summary.shows([FAST, curve("working-set", [1.0, 2.0], [0.2, 0.1])])
    assert "on 0 of 1 data sets" in same


def test_sentence_counts_methods_that_end_before_their_time():
    some = data("some", n_train=1000)
    runs = [
        curve("asydsskl", [1.0], [0.2], cap=8.0, rows=900),
        curve("svc", [1.0], [0.2], cap=8.0, rows=900, capped=True),
        curve("svc", [1.0], [0.2], about=some, cap=90.0, rows=800),
    ]
    assert summary.shows(runs)[0] == (
        "Methods that end before their limit of time: 1 of 2 within 8 s on toy (all 900 training "
        "rows), 1 of 1 within 90 s on some (800 of 1,000 training rows)."
    )


@pytest.mark.parametrize(
    "module", [claims, page, summary, tables, asydsskl], ids=lambda m: m.__name__
)
def test_documented_examples(module):
    assert doctest.testmod(module).failed == 0
