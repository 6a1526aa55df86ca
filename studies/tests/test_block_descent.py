"""The block coordinate descent study: data, systems, curves, rates, paths, what is run."""

from __future__ import annotations

import doctest
from dataclasses import replace

import numpy as np
import pytest

from mercer.compare import records
from mercer.datasets import DataError
from mercer.kernels import Gaussian, Linear, NGram
from mercer_studies import block_descent, runner
from mercer_studies.block_descent import course, data, grid, paths, plan, rates, systems
from mercer_studies.papers import Selected, get
from mercer_studies.report import build

SYSTEM = {"rows": 200, "test_rows": None, "fitted": 100, "jitter": 1e-2, "seed": 0}


@pytest.fixture(scope="module")
def classes():
    loaded = data.load(grid.SOURCES["generated-classes"], n_jobs=1)
    loaded._known["chosen", 100] = data.Chosen(Gaussian(0.3), 0.3, 1e-3)
    return loaded


@pytest.fixture(scope="module")
def reviews():
    loaded = data.load(grid.SOURCES["generated-reviews"], n_jobs=1)
    loaded._known["chosen", 100] = data.Chosen(Linear(), None, 1e-3)
    return loaded


def size_of(method):
    return None if method == "exact" else 60


# --- data ------------------------------------------------------------------------------------


def test_counts_of_n_grams_have_the_inner_products_of_the_string_kernel(reviews):
    texts = reviews.subset(60, 5).texts
    train, again = data.counted(texts, texts[:7])
    kernel = NGram(data.ORDERS, stop_words=data.STOP_WORDS)
    np.testing.assert_allclose((train @ train.T).toarray(), kernel(texts), atol=1e-6)
    np.testing.assert_allclose((again @ train.T).toarray(), kernel(texts[:7], texts), atol=1e-6)


def test_classes_are_signs_with_a_column_for_each_or_one_for_two(classes):
    some = classes.subset(50, 20)
    assert some.Y.shape == (50, 3)
    assert set(np.unique(some.Y)) == {-1.0, 1.0}
    np.testing.assert_array_equal(some.Y.argmax(axis=1), some.y)
    two = data._signs(np.array([0, 1, 1]), 2)
    np.testing.assert_array_equal(two, [-1, 1, 1])


def test_errors_are_wrong_classes_or_of_the_stars(classes, reviews):
    some = classes.subset(50, 20)
    right = np.where(some.y_test[:, None] == np.arange(3), 1.0, -1.0)
    assert classes.error(some, right) == 0
    assert classes.error(some, -right) == 1
    some = reviews.subset(50, 20)
    sure = np.where(some.y_test[:, None] == np.arange(4), 1.0, -1.0)
    assert reviews.error(some, sure) == pytest.approx(0, abs=1e-4)
    assert reviews.likeliest(some, sure) == 0
    assert classes.likeliest(classes.subset(50, 20), right) is None
    middle = np.zeros((20, 4))  # all stars are as likely: their mean is the answer
    expected = np.sqrt(np.mean((some.values.mean() - some.values[some.y_test]) ** 2))
    assert reviews.error(some, middle) == pytest.approx(expected)
    found = reviews.score(some, expected)
    assert found["rmse"] == expected
    size = np.sqrt(np.mean(some.values[some.y_test] ** 2.0))
    assert found["relative_rmse"] == pytest.approx(expected / size)
    off = np.sqrt(np.mean((some.values[0] - some.values[some.y_test]) ** 2.0))
    assert reviews.likeliest(some, middle - 0.1 * np.arange(4)) == pytest.approx(off)


def test_settings_are_chosen_once_on_training_rows(monkeypatch):
    monkeypatch.setattr(data, "ALPHAS", (1e-1, 1e-3))
    loaded = data.load(grid.SOURCES["generated-classes"], n_jobs=1)
    parts = loaded._parts
    loaded._parts = replace(parts, y_test=np.full_like(parts.y_test, parts.y_test[0]))
    chosen = loaded.chosen(120)
    assert chosen is loaded.chosen(120)
    assert chosen.alpha in (1e-1, 1e-3)
    assert chosen.kernel == Gaussian(chosen.gamma)


def test_of_settings_that_do_as_well_the_strongest_is_taken(monkeypatch):
    loaded = data.load(grid.SOURCES["generated-reviews"], n_jobs=1)
    monkeypatch.setattr(loaded, "_error_of", lambda *_: 1.0)
    assert loaded.chosen(40).alpha == max(data.ALPHAS)


def test_what_stands_in_for_other_data_says_so(classes, reviews):
    assert classes.describe()["kind"] == reviews.describe()["kind"] == "generated"
    for name, like, other in (("mnist", classes, "CIFAR-10"), (data.REVIEWS, reviews, "Yelp")):
        found = data.Loaded(grid.SOURCES[name], like._data, like._parts).describe()
        assert (found["kind"], found["stand_in_for"]) == ("stand-in", other)


def test_reviews_that_are_not_there_are_asked_for_by_name(tmp_path, monkeypatch):
    monkeypatch.setenv("MERCER_DATA", str(tmp_path))
    with pytest.raises(DataError, match=r"there is no imdb_reviews_train\.parquet"):
        data.load(grid.SOURCES[data.REVIEWS])


# --- systems ---------------------------------------------------------------------------------


@pytest.mark.parametrize("method", grid.METHODS)
@pytest.mark.parametrize("name", ["classes", "reviews"])
def test_every_system_tends_to_the_solution_of_its_equations(name, method, request):
    """The algorithms' equations, written out, with nλ and with the jitter of Nyström."""
    loaded = request.getfixturevalue(name)
    made = systems.prepared(loaded, method=method, size=size_of(method), **SYSTEM)
    n, alpha = 200, made.chosen.alpha
    Z, Y = made.problem.design.toarray().astype(np.float64), made.some.Y.astype(np.float64)
    if method == "exact":
        coef = np.linalg.solve(Z + n * alpha * np.eye(n), Y)
    elif method == "nystroem":
        M = made.problem.penalty.matrix.toarray() + 1e-2 * np.eye(60)
        coef = np.linalg.solve(Z.T @ Z + n * alpha * M, Z.T @ Y)
    else:
        coef = np.linalg.solve(Z.T @ Z + n * alpha * np.eye(60), Z.T @ Y)
    one_block = systems.solver_of(10**6, made.problem, 1, seed=0)
    with records.quiet():
        found = one_block.solve(made.problem).coef
    answers, expected = made.responses(found), made.responses(coef)
    assert np.linalg.norm(answers - expected) <= 1e-5 * np.linalg.norm(expected)


def test_the_solver_is_the_papers(classes):
    made = systems.prepared(classes, method="exact", size=None, **SYSTEM)
    solver = systems.solver_of(64, made.problem, 3, seed=1)
    assert not solver.accelerated
    assert solver.shuffle
    assert (solver.block_size, solver.max_iter, solver.tol) == (64, 3, 0.0)
    assert solver.hold == 0
    few = systems.prepared(classes, method="nystroem", size=20, **SYSTEM)
    assert systems.solver_of(64, few.problem, 3, seed=1).hold == "auto"


# --- curves ----------------------------------------------------------------------------------


def curve(loaded, method, **changes):
    settings = {**SYSTEM, "size": size_of(method), "block_size": 32, "epochs": 3, "cap": 60.0}
    with records.quiet():
        return course.course(loaded, method=method, **{**settings, "every": "block", **changes})


@pytest.mark.parametrize("method", grid.METHODS)
def test_curves_have_a_point_after_every_block_and_objectives_fall(reviews, method):
    run = curve(reviews, method)
    blocks = -(-(200 if method == "exact" else 60) // 32)
    found = run["course"]
    assert run["n_blocks"] == blocks
    np.testing.assert_allclose(found["epoch"], np.arange(1, 3 * blocks + 1) / blocks)
    assert {len(values) for values in found.values()} == {3 * blocks}
    assert found["seconds"] == sorted(found["seconds"])
    fall = np.diff(found["objective"])
    assert method == "exact" or np.all(fall <= 1e-9)  # its own quadratic is another one
    assert found["error"][-1] < found["error"][0]
    assert run["score"]["test"]["rmse"] == found["error"][-1]
    assert run["seconds"]["first_epoch"] == found["seconds"][blocks - 1]
    assert set(run["phases"]) == {"first", "later"}
    assert {"generate", "solve", "update"} <= set(run["phases"]["first"])


def test_points_of_epochs_are_those_of_their_last_blocks(reviews):
    often, seldom = (curve(reviews, "nystroem", every=e)["course"] for e in ("block", "epoch"))
    assert seldom["epoch"] == [1.0, 2.0, 3.0]
    np.testing.assert_allclose(often["error"][1::2], seldom["error"], rtol=1e-9)


def test_a_curve_is_cut_off_when_its_time_is_up(reviews):
    run = curve(reviews, "features", cap=0.0)
    assert run["capped"]
    assert len(run["course"]["error"]) == 1
    assert not curve(reviews, "features")["capped"]


def test_a_linear_model_is_ridge_regression_on_the_inputs(classes):
    run = course.linear(classes, rows=200, test_rows=None, fitted=100)
    some = classes.subset(200, None)
    X = np.column_stack([some.X, np.ones(200)]).astype(np.float64)
    penalty = 200 * run["chosen"]["alpha"] * np.diag([1.0] * 4 + [0.0])
    coef = np.linalg.solve(X.T @ X + penalty, X.T @ some.Y)
    responses = np.column_stack([some.X_test, np.ones(len(some.y_test))]) @ coef
    assert 1 - run["score"]["test"]["accuracy"] == pytest.approx(
        classes.error(some, responses), abs=0.03
    )


# --- rates and paths -------------------------------------------------------------------------


@pytest.mark.parametrize("method", grid.METHODS)
def test_rates_wait_for_the_direct_solution(reviews, method):
    run = rates.rates(
        reviews,
        method=method,
        size=None if method == "exact" else 30,
        block_size=10,
        epochs=150,
        strength="theory",
        **{**SYSTEM, "rows": 80, "jitter": 0.1},
    )
    assert run["chosen"]["alpha"] == pytest.approx(np.log(80) / 80)
    waited = run["measured"]
    assert None not in waited
    assert waited == sorted(waited)
    assert all(ours <= most for ours, most in zip(waited, run["predicted"], strict=True))
    assert run["close"] is not None
    assert run["away"] <= rates.CLOSE
    assert run["accelerated"]["close"] is not None
    assert run["condition"] == pytest.approx(run["largest"] / run["smallest"])


def test_epochs_that_were_not_enough_are_none(classes):
    run = rates.rates(
        classes,
        method="nystroem",
        size=30,
        block_size=10,
        epochs=2,
        strength="chosen",
        **{**SYSTEM, "rows": 80},
    )
    assert run["chosen"]["alpha"] == 1e-3
    assert run["measured"][-1] is None
    assert run["close"] is None
    assert run["epochs_done"] == 2


@pytest.mark.parametrize("method", grid.METHODS)
def test_the_chosen_strength_of_a_path_is_solved_as_alone(reviews, method):
    run = paths.path(
        reviews, method=method, size=size_of(method), block_size=32, epochs=2, n_alphas=4, **SYSTEM
    )
    assert run["away"] <= 1e-9
    assert len(run["errors"]) == len(run["alphas"]) == 4
    assert run["alphas"] == sorted(run["alphas"], reverse=True)
    assert run["ratio"] == run["seconds"]["path"] / run["seconds"]["one"]


# --- the plan --------------------------------------------------------------------------------


def names_of(**selected):
    return [stage.name for stage in plan.stages(Selected(**selected))[0]]


def test_stages_are_what_figures_and_tables_need():
    laptop = names_of(scale="laptop")
    assert laptop[:4] == ["mnist, curves", "mnist, sizes", "mnist, paths", "mnist, rates"]
    assert all(name.endswith("curves") for name in names_of(scale="laptop", figures=(1, 3)))
    assert all(name.endswith("sizes") for name in names_of(scale="laptop", figures=(4,)))
    assert all(name.endswith("rates") for name in names_of(scale="laptop", tables=(2,)))
    assert names_of(scale="laptop", datasets=("mnist",), figures=(1,)) == ["mnist, curves"]


def test_stand_ins_and_left_out_rows_are_said():
    notes = plan.stages(Selected("laptop"))[1]
    assert "mnist stands in for CIFAR-10." in notes
    assert "imdb-reviews stands in for Yelp." in notes
    assert "mnist: 10000 of its 60000 training rows are fitted." in notes


def test_runs_differ_in_their_settings():
    for scale in grid.SCALES:
        stages, _ = plan.stages(Selected(scale))
        keys = [cell.key for stage in stages for cell in stage.cells([])]
        assert len(keys) == len(set(keys)) > 0


def test_unknown_parts_are_refused():
    for wrong, said in (({"figures": (6,)}, "--figure has no 6"), ({"tables": (4,)}, "--table")):
        with pytest.raises(ValueError, match=said):
            get("block-descent").check(Selected(**wrong))


def test_the_tiny_study_makes_its_page(tmp_path):
    found = get("block-descent")
    stages, _ = found.stages(Selected("tiny", datasets=("generated-reviews",), n_jobs=1))
    outcome = runner.run(found.name, stages, tmp_path / "runs.jsonl", n_jobs=1)
    assert not [record["failed"] for record in outcome.records if "failed" in record]
    assert not [w for record in outcome.records for w in record["warnings"]]
    report = build([{**record, "scale": "tiny"} for record in outcome.records])
    assert report.n_failed == 0
    assert sorted(report.figures) == ["figure-1", "figure-2", "figure-3", "figure-4"]
    for word in ("40.56 TB", "theorem 4.1", "random features"):
        assert word in report.html


@pytest.mark.parametrize(
    "module", [block_descent, data, grid, plan], ids=lambda module: module.__name__
)
def test_documented_examples(module):
    assert doctest.testmod(module).failed == 0
