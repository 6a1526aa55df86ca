"""The AsyDSSKL study: machines, curves, answers, threads, wrong targets, what is run."""

from __future__ import annotations

import doctest
import time
from dataclasses import replace

import numpy as np
import pytest

from mercer.compare import records
from mercer.kernels import Gaussian
from mercer.losses import Squared
from mercer.penalties import L1
from mercer.problem import Problem
from mercer.solvers import PairwiseCD, polished
from mercer_studies import asydsskl, runner
from mercer_studies.asydsskl import (
    curves,
    data,
    grid,
    machines,
    plan,
    prediction,
    robustness,
    shapes,
    speed,
    tables,
)
from mercer_studies.papers import Selected, get
from mercer_studies.report import build

CHOSEN = data.Chosen(0.5, 1.0, 1e-3, 1e-3, 10.0, 0.0)
SIZES = {"rows": None, "test_rows": None, "fitted": 200, "n_new": 24, "n_rounds": 2, "seed": 0}


@pytest.fixture(scope="module")
def classes():
    loaded = data.load(grid.SOURCES["generated-classes"], n_jobs=1)
    loaded._known["chosen", None, 200] = CHOSEN
    return loaded


@pytest.fixture(scope="module")
def numbers():
    loaded = data.load(grid.SOURCES["generated-regression"], n_jobs=1)
    loaded._known["chosen", None, 200] = CHOSEN
    return loaded


def course(loaded, method, **changes):
    with records.quiet():
        return curves.course(loaded, method=method, **{**SIZES, "cap": 1.0, **changes})


# --- data ------------------------------------------------------------------------------------


def test_class_numbers_have_mean_0_and_deviation_1_and_errors_their_own_units(numbers):
    some = numbers.subset(None, None)
    assert some.y.mean() == pytest.approx(0, abs=1e-12)
    assert some.y.std() == pytest.approx(1)
    nothing = data.error_of("regression", some, np.zeros(len(some.y_test)))
    assert nothing == pytest.approx(some.spread**2 * np.mean(some.y_test**2))
    assert data.score_of("regression", some, nothing)["relative_rmse"] == pytest.approx(1)


def test_settings_are_chosen_once_on_training_rows(numbers, monkeypatch):
    monkeypatch.setattr(data, "ALPHAS", (1e-2, 1e-3))
    loaded = data.load(grid.SOURCES["generated-regression"], n_jobs=1)
    loaded._parts = replace(loaded._parts, y_test=np.full_like(loaded._parts.y_test, np.nan))
    chosen = loaded.chosen(None, 120)
    assert chosen is loaded.chosen(None, 120)
    assert chosen.multiple in {2.0**i for i in data._EXPONENTS}
    assert {chosen.alpha, chosen.alpha_squared} <= {1e-2, 1e-3}
    assert chosen.C in data.STRENGTHS


def test_what_stands_in_for_other_data_says_so(classes):
    assert classes.describe()["kind"] == "generated"
    for source, kind, other in (
        (grid.SOURCES["w8a-train"], "stand-in", "rcv1"),
        (grid.SOURCES["sector"], "stand-in", "aloi"),
        (grid.SOURCES["mnist"], "sample", "mnist8m"),
    ):
        found = data.Loaded(source, classes._data, classes._parts).describe()
        assert (found["kind"], found["stand_in_for"]) == (kind, other)


# --- figure 1 --------------------------------------------------------------------------------


@pytest.mark.parametrize("method", grid.METHODS)
def test_curves_come_down_and_time_goes_on(classes, numbers, method):
    for loaded in (classes, numbers):
        if method not in grid.methods_for(loaded.task):
            continue
        run = course(loaded, method)
        seconds, errors = run["course"]["seconds"], run["course"]["error"]
        assert len(seconds) == len(errors) == len(run["course"]["size"])
        assert method == "svc" or seconds == sorted(seconds)
        some = loaded.subset(None, None)
        worst = data.error_of(loaded.task, some, np.full(len(some.y_test), -0.1))
        assert errors[-1] < 0.7 * worst
        assert run["seconds"]["fit"] == seconds[-1]
        found = run["score"]["test"]
        last = found["mse"] if loaded.task == "regression" else 1 - found["accuracy"]
        assert last == pytest.approx(errors[-1])


def test_machines_of_this_library_and_of_scikit_learn_agree(classes, numbers):
    for loaded in (classes, numbers):
        ours, theirs = course(loaded, "libsvm-p"), course(loaded, "svc")
        assert ours["course"]["error"][-1] == pytest.approx(theirs["course"]["error"][-1], rel=0.1)
        assert ours["model_size"] == pytest.approx(theirs["model_size"], rel=0.1)


def test_forms_of_the_steps_come_to_the_objective_of_coordinate_descent(classes):
    best = course(classes, "working-set")["objective"]
    for method in ("asydsskl", "asydsskl-own"):
        assert course(classes, method)["objective"] < 1.3 * best


@pytest.mark.parametrize("method", ["asydsskl", "asydsskl-own"])
def test_polish_leaves_no_more_features_and_no_larger_objective(classes, method):
    run = course(classes, method)
    assert run["polished"]["model_size"] <= run["model_size"]
    assert run["polished"]["error"] <= run["course"]["error"][-1] + 0.05
    assert "polished" not in course(classes, "working-set")
    some, inner = classes.subset(None, None), machines.inner_solver(method, 1)
    with records.quiet():
        found = machines.selected(some.X, some.y, 0.5, classes.loss, 1e-2, inner, 24, 1, 0)
    given = {"y": some.y, "loss": classes.loss, "penalty": L1(1e-2)}
    after = polished(found, lambda design: Problem(design, **given))
    values = [Problem(each.design, **given).value(each.coef) for each in (found, after)]
    assert values[1] <= values[0]


def test_a_curve_is_cut_off_when_its_time_is_up(classes):
    run = course(classes, "doubly", cap=1e-3)
    assert run["capped"]
    assert len(run["course"]["seconds"]) == 1
    assert course(classes, "asydsskl", cap=1e-6)["n_drawn"] == 24
    assert not course(classes, "libsvm-p")["capped"]


def test_slow_judging_does_not_count(classes):
    grown = curves._Course(classes, classes.subset(None, None), cap=1e9)
    zeros = np.zeros(len(grown.some.y_test))

    def slowly():
        time.sleep(0.3)
        return zeros, 3

    while not grown.points["seconds"]:
        grown.watched(slowly)
    assert grown.seconds < 0.3
    assert grown.points["size"] == [3]


def test_answers_are_those_of_the_model(classes):
    some = classes.subset(None, None)
    kernel = Gaussian(0.5)
    solved = PairwiseCD(n_jobs=1).solve(
        machines.dual_of("classification", some.y, 10.0), kernel, some.X
    )
    model, size = prediction._model(classes, some, CHOSEN, "libsvm-p", 8, 1, 0)
    expected = kernel(some.X_test, some.X) @ solved.coef + solved.intercept
    np.testing.assert_allclose(model(some.X_test), expected, atol=1e-5)
    assert size == np.count_nonzero(solved.coef)


@pytest.mark.parametrize("method", ["asydsskl", "svc", "asygcd", "doubly"])
def test_answers_are_timed_for_every_count(classes, method, monkeypatch):
    monkeypatch.setattr(prediction, "_TURNS", 1)
    with records.quiet():
        run = prediction.answers(classes, method=method, counts=(50, 200), **SIZES)
    assert [point["n"] for point in run["curve"]] == [50, 200]
    assert all(point["seconds"] > 0 for point in run["curve"])
    assert run["score"]["test"]["accuracy"] > 0.7


# --- figure 2 --------------------------------------------------------------------------------


def test_threads_are_measured_to_what_one_has_after_half_its_loops(classes, monkeypatch):
    monkeypatch.setattr(speed, "_TURNS", 1)
    run = speed.measured(
        classes, method="asydsskl", taus=(1, 2), rows=None, fitted=200, size=16, loops=6, seed=0
    )
    assert [point["tau"] for point in run["curve"]] == [1, 2]
    assert run["target"] < run["start"]
    alone, both = run["curve"]
    assert 0 < alone["seconds"] < 6.5 * alone["pace"]
    for point in (alone, both):
        assert point["objective"] <= run["start"]
        assert (point["seconds"] is None) == (point["objective"] > run["target"])


def test_long_steps_fail_under_delays_that_short_ones_bear(numbers):
    settings = {"rows": 100, "fitted": 200, "size": 12, "loops": 8, "draws": 1, "seed": 0}
    numbers._known["chosen", 100, 200] = CHOSEN
    short, long = (
        speed.delayed(numbers, step_size=gamma, taus=(0, 60), **settings) for gamma in (1.0, 64.0)
    )
    assert [point["loops"] is None for point in long["curve"]][1]
    assert short["target"] == long["target"]


@pytest.mark.parametrize("kind", ["classes", "numbers"])
def test_measured_gaps_stay_below_the_rate_that_is_proved_of_convex_losses_alone(kind, request):
    loaded = request.getfixturevalue(kind)
    loaded._known["chosen", 100, 200] = CHOSEN
    run = speed.delayed(
        loaded,
        step_size=0.5,
        taus=(0, 8),
        rows=100,
        fitted=200,
        size=12,
        loops=6,
        draws=1,
        seed=0,
    )
    course, steps = run["course"], run["step_allowed"]
    assert steps[0] >= steps[1]
    assert course["gap"][0] == pytest.approx(run["start"] - (10 * run["target"] - run["start"]) / 9)
    if kind == "numbers":  # correntropy
        assert set(course) == {"gap"}
        return
    assert 0 < steps[1] < 0.5
    for name in ("allowed", "allowed_short"):
        assert np.all(np.array(course["gap"]) <= course[name])
        assert np.all(np.diff(course[name]) < 0)


def test_a_falling_curve_crosses_a_value_between_its_points():
    assert speed._crossing([0, 1, 2], [4.0, 2.0, 1.0], 3.0) == 0.5
    assert speed._crossing([0, 1], [4.0, 2.0], 5.0) == 0
    assert speed._crossing([0, 1], [4.0, 2.0], 1.0) is None


# --- wrong targets ---------------------------------------------------------------------------


@pytest.mark.parametrize("task", ["classification", "regression"])
def test_so_many_targets_are_wrong_and_by_so_much(task, rng):
    y = (
        np.where(rng.random(200) < 0.5, 1.0, -1.0)
        if task == "classification"
        else rng.normal(size=200)
    )
    changed = robustness.corrupted(task, y, 0.3, seed=1)
    assert np.sum(changed != y) == 60
    if task == "regression":
        up = (changed - y)[changed != y]
        assert up.min() >= 5
        assert up.max() <= 15
    else:
        assert np.array_equal(changed[changed != y], -y[changed != y])
    np.testing.assert_array_equal(changed, robustness.corrupted(task, y, 0.3, seed=1))


def test_correntropy_bears_wrong_targets_that_squared_loss_does_not(numbers, monkeypatch):
    monkeypatch.setattr(robustness, "ALPHAS", (1e-2, 1e-3))
    numbers._known["width", None, 200] = (0.5, 1.0)

    def error(loss, share):
        settings = {"rows": None, "test_rows": None, "fitted": 200, "size": 24, "seed": 0}
        run = robustness.robust(numbers, loss=loss, share=share, solver="working-set", **settings)
        return run["score"]["test"]["relative_rmse"]

    assert error("correntropy", 0.3) < 0.3 * error("squared", 0.3)
    assert error("correntropy", 0.0) < 1.3 * error("squared", 0.0)


# --- full shapes -----------------------------------------------------------------------------


@pytest.mark.parametrize("name", shapes.SHAPES)
def test_made_up_rows_have_the_shape_and_one_round_is_timed(name):
    X, y = shapes.made_up(name, 1e-4)
    _, n, d = shapes.SHAPES[name]
    assert X.shape == (round(n * 1e-4), d)
    assert np.isfinite(y).all()
    again, _ = shapes.made_up(name, 1e-4)
    assert (abs(X - again)).max() == 0


def test_time_of_a_shape_has_its_phases():
    run = shapes.timed(shape="SUSY", share=1e-4, n_new=8, n_jobs=1, seed=0)
    assert run["rows"] == 500
    assert "score" not in run
    assert run["seconds"]["fit"] >= run["seconds"]["solve"] > 0


# --- the study -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    path = tmp_path_factory.mktemp("asydsskl") / "runs.jsonl"
    patch = pytest.MonkeyPatch()
    few = replace(
        grid.SCALES["tiny"],
        fitted=120,
        n_new=12,
        cap=0.1,
        speed_size=8,
        speed_loops=3,
        delay_loops=3,
        delays=(0, 4),
        robust_size=12,
    )
    patch.setitem(grid.SCALES, "tiny", few)
    patch.setattr(data, "ALPHAS", (1e-2, 1e-3))
    patch.setattr(data, "STRENGTHS", (1.0,))
    patch.setattr(robustness, "ALPHAS", (1e-2, 1e-3))
    patch.setattr(speed, "_TURNS", 1)
    with patch.context():
        stages, _ = plan.stages(Selected("tiny", n_jobs=1))
        found = runner.run("asydsskl", stages, path, common={"scale": "tiny"}, n_jobs=1).records
    patch.undo()
    return found


def test_tiny_study_runs_everything(tiny):
    assert not [record["failed"] for record in tiny if "failed" in record]
    tasks = {record["task"] for record in tiny}
    assert tasks == {"curve", "answers", "measured", "delayed", "robust", "shape"}
    shown = {(r["data_name"], r["method"]) for r in tiny if r["task"] == "curve"}
    assert len(shown) == sum(
        len(grid.methods_for(grid.SOURCES[name].task)) for name in grid.SCALES["tiny"].curve_data
    )
    assert records.plain(tiny) == tiny


def test_tiny_study_is_drawn_and_reported(tiny):
    report = build(tiny)
    names = ["figure-1-a-to-f", "figure-1-g-and-h", "figure-2", "wrong-targets"]
    assert list(report.figures) == names
    assert "Wrong targets" in report.html
    assert "how many times faster" in report.html
    assert len(tables.measured(tiny)) == 6


@pytest.mark.parametrize(
    ("selected", "kinds"),
    [
        (Selected("tiny", figures=(1,)), {"training", "answers"}),
        (Selected("tiny", figures=(2,)), {"threads"}),
        (Selected("tiny", protocols=("robustness",)), {"wrong targets"}),
        (Selected("tiny", protocols=("fair",)), {"training", "answers", "threads"}),
        (Selected("laptop"), {"training", "answers", "threads", "wrong targets"}),
    ],
)
def test_parts_of_the_study_can_be_asked_for(selected, kinds):
    stages, _ = plan.stages(selected)
    assert {stage.name.split(", ")[1] for stage in stages} == kinds


def test_figure_1_is_run_on_any_declared_set():
    selected = Selected("laptop", figures=(1,), datasets=("cod-rna-train",))
    assert [stage.name for stage in plan.stages(selected)[0]] == ["cod-rna-train, training"]


def test_one_data_set_can_be_asked_for():
    stages, notes = plan.stages(Selected("laptop", datasets=("mnist",)))
    assert [stage.name for stage in stages] == ["mnist, training"]
    assert any("12000 of its 60000" in note for note in notes)
    everything = plan.stages(Selected("laptop"))[1]
    assert "w8a-train stands in for RCV1." in everything


def test_what_the_paper_does_not_have_is_refused():
    with pytest.raises(ValueError, match="--figure has no 3 for asydsskl; there are 1, 2"):
        get("asydsskl").check(Selected(figures=(3,)))
    with pytest.raises(ValueError, match="--protocol has no 'published' for asydsskl"):
        get("asydsskl").check(Selected(protocols=("published",)))
    with pytest.raises(ValueError, match="--reference must be left out for asydsskl"):
        get("asydsskl").page.reference("points.csv")


def test_sparse_models_without_a_feature_answer_their_constant(rng):
    X, y = rng.normal(size=(40, 2)), np.full(40, 3.0)
    inner = machines.inner_solver("working-set", 1)
    found = machines.selected(X, y, 1.0, Squared(), 10.0, inner, 4, 1, 0)
    assert found.n_active == 0
    np.testing.assert_allclose(machines.responses_of(found, X[:5]), 3.0, rtol=1e-5)


@pytest.mark.parametrize(
    "module",
    [asydsskl, curves, data, grid, machines, plan, prediction, robustness, shapes, speed, tables],
    ids=lambda m: m.__name__,
)
def test_documented_examples(module):
    found = doctest.testmod(module)
    assert found.failed == 0
