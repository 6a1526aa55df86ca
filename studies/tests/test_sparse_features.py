"""The sparse features study: exact kernels, the cells of its tables, its figure, what is run."""

from __future__ import annotations

import doctest
from dataclasses import replace

import numpy as np
import pytest

from mercer import kernels
from mercer.compare import records
from mercer.datasets import DataError
from mercer.losses import SquaredHinge
from mercer.maps import RandomPerceptron
from mercer_studies import runner, sparse_features, timing
from mercer_studies.papers import Selected, get
from mercer_studies.report import build
from mercer_studies.sparse_features import course, data, exact, fits, grid, plan
from mercer_studies.sparse_features.figures import allowed


@pytest.fixture(scope="module")
def regression():
    return data.load(grid.SOURCES["generated-regression"], n_jobs=1)


@pytest.fixture(scope="module")
def classes():
    return data.load(grid.SOURCES["generated-classes"], n_jobs=1)


@pytest.fixture(autouse=True)
def _once(monkeypatch):
    monkeypatch.setattr(timing, "QUICK", 0.0)


def table(loaded, family, kernel="gaussian", lam_n=1.0, size=48, **changes):
    settings = {"rows": None, "test_rows": None, "n_new": 16, "width_rows": 60, "width_size": 16}
    size = None if family == "kernel" else size
    settings |= {"family": family, "kernel": kernel, "lam_n": lam_n, "size": size, "seed": 0}
    with records.quiet():
        return fits.table(loaded, **{**settings, **changes})


# --- exact kernels ---------------------------------------------------------------------------


def squared_hinge_objective(K, y, lam, coef, b):
    f = K @ coef
    return 0.5 * lam * coef @ f + np.mean(np.maximum(0, 1 - y * (f + b)) ** 2)


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("lam", [1e-3, 0.1])
def test_squared_hinge_machine_is_at_a_minimum(lam, fit_intercept, rng):
    X = rng.normal(size=(60, 2))
    y = np.where(X[:, 0] * X[:, 1] + 0.3 * rng.normal(size=60) > 0, 1.0, -1.0)
    K = kernels.Gaussian(1.0)(X)
    found = exact.squared_hinge(K, y, lam, fit_intercept)
    f = K @ found.coef + found.intercept
    slopes = -2 * y * np.maximum(0, 1 - y * f) / len(y)
    np.testing.assert_allclose(lam * found.coef, -slopes, atol=1e-10)
    assert abs(slopes.sum()) < 1e-10 or not fit_intercept
    assert found.norm == pytest.approx(np.sqrt(found.coef @ K @ found.coef))
    least = squared_hinge_objective(K, y, lam, found.coef, found.intercept)
    for _ in range(5):
        other = found.coef + 1e-2 * rng.normal(size=60)
        assert squared_hinge_objective(K, y, lam, other, found.intercept) > least
    assert np.all(found.coef[y * f >= 1] == 0)  # no support vectors


def test_ridge_machine_is_kernel_ridge_with_a_free_constant(rng):
    X, y = rng.normal(size=(40, 3)), rng.normal(size=40) + 5
    K = kernels.Laplacian(0.5)(X)
    found = exact.ridge(K, y, 0.02)
    responses = K @ found.coef + found.intercept
    np.testing.assert_allclose(0.02 * 40 * found.coef, y - responses, atol=1e-9)
    assert found.coef.sum() == pytest.approx(0, abs=1e-9)


# --- cells of the tables ---------------------------------------------------------------------


@pytest.mark.parametrize("kernel", grid.KERNELS)
@pytest.mark.parametrize("task", ["regression", "classes"])
def test_random_features_come_near_the_exact_kernel(kernel, task, request):
    loaded = request.getfixturevalue(task)
    whole, few, many = (
        table(loaded, "kernel", kernel),
        table(loaded, "rf", kernel, size=4),
        table(loaded, "rf", kernel, size=600),
    )

    def wrong(run):
        score = run["score"]["test"]
        return score.get("relative_rmse", 1 - score.get("accuracy", 0.0))

    assert abs(wrong(many) - wrong(whole)) < abs(wrong(few) - wrong(whole))
    assert (few["model_size"], many["model_size"]) == (4, 600)
    assert 0 < whole["model_size"] <= 320
    assert whole["gamma"] == few["gamma"] == many["gamma"]


def test_sparse_model_drops_features_the_more_the_larger_lambda_is(classes):
    runs = [table(classes, "sparse", "laplacian", lam_n) for lam_n in grid.LAMBDAS]
    sizes = [run["model_size"] for run in runs]
    assert sizes == sorted(sizes)
    assert sizes[0] < sizes[-1] <= 48
    assert {run["n_drawn"] for run in runs} <= {32, 48}  # two idle rounds end the search


def test_errors_of_regressions_are_relative_and_on_responses_between_0_and_1(regression):
    run = table(regression, "rf")
    some = regression.subset(None, None)
    assert (some.y.min(), some.y.max()) == (0, 1)
    ratio = run["score"]["test"]["rmse"] / run["score"]["test"]["relative_rmse"]
    assert ratio == pytest.approx(np.sqrt(np.mean(some.y_test**2)))


def test_width_is_chosen_on_training_rows_and_serves_all_families(classes):
    width = classes.width("gaussian", None, 60, 16)
    assert width.multiple in {2.0**i for i in data._EXPONENTS}
    assert width is classes.width("gaussian", None, 60, 16)
    assert classes.width("perceptron", None, 60, 16).gamma is None


def test_folds_of_a_series_are_blocks_of_it(classes, monkeypatch):
    seen = []

    def error(self, kernel, gamma, X, y, size):
        seen.append(X)
        return gamma

    monkeypatch.setattr(data.Loaded, "_error", error)
    for is_series in (False, True):
        rows = replace(classes._data, is_series=is_series)
        loaded = data.Loaded(classes.source, rows, classes._parts, 1)
        loaded.width("gaussian", 50, 20, 4)
        shuffled, some = seen.pop(), loaded.subset(50, 1)
        assert np.array_equal(shuffled, some.X[:20]) is not is_series
        assert np.array_equal(np.sort(shuffled, axis=0), np.sort(some.X[:20], axis=0))
        places = [np.flatnonzero(~(some.X - row).any(axis=1))[0] for row in shuffled]
        at = np.random.default_rng(0).permutation(len(classes._parts.y_train))[places]
        assert np.all(np.diff(at) > 0) == is_series


def test_few_rows_are_a_part_of_many(classes):
    few, many = classes.subset(30, 10), classes.subset(60, 20)
    assert few.X.shape == (30, 4)
    np.testing.assert_array_equal(few.y, many.y[:30])
    np.testing.assert_array_equal(few.y_test, many.y_test[:10])


# --- the figure ------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def figure(classes):
    common = {"rows": None, "test_rows": None, "lam_n": 1.0, "seed": 0}
    sizes = {"sparse": {"size": 400, "n_new": 40}, "boosting": {"size": 20, "n_new": 1}}
    with records.quiet():
        found = {
            name: course.search(classes, method=f"{name}-perceptron", **size, **common)
            for name, size in sizes.items()
        }
        return {"level": course.level(classes, **common), **found}


@pytest.mark.parametrize("name", ["sparse", "boosting"])
def test_objective_never_rises_and_begins_at_an_empty_model(name, figure):
    found = figure[name]["course"]
    assert (found["drawn"][0], found["active"][0], found["objective"][0]) == (0, 0, 1.0)
    assert np.all(np.diff(found["objective"]) <= 1e-12)
    assert len({len(values) for values in found.values()}) == 1
    assert found["error"][-1] == pytest.approx(1 - figure[name]["score"]["test"]["accuracy"])


def test_search_keeps_the_bound_and_reaches_the_level_of_the_kernel(figure):
    level, found = figure["level"], figure["sparse"]["course"]
    assert np.all(found["objective"] <= allowed(level, found["drawn"]))
    assert found["objective"][-1] <= 1.05 * level["objective"]


def test_level_is_norm_and_loss_of_the_exact_kernel(classes, figure):
    some = classes.subset(None, None)
    K, level = kernels.get("perceptron").resolve(some.X)(some.X.astype(float)), figure["level"]
    machine = exact.squared_hinge(K, some.y, level["alpha"], False)
    loss = SquaredHinge().value(K @ machine.coef, some.y).mean()
    assert level["objective"] == pytest.approx(level["alpha"] * machine.norm + loss)


def test_perceptron_kernel_is_the_mean_product_of_the_features_of_the_bound(classes):
    some = classes.subset(40, 1)
    map_ = RandomPerceptron(20_000, scale=False, random_state=0).fit(some.X)
    Z = map_.transform(some.X)
    assert np.abs(Z).max() == 1.0  # B of the bound
    K = kernels.get("perceptron").resolve(some.X)(some.X.astype(float))
    np.testing.assert_allclose(Z @ Z.T / 20_000, K, atol=5 / np.sqrt(20_000))


# --- the whole study -------------------------------------------------------------------------


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    path = tmp_path_factory.mktemp("study") / "runs.jsonl"
    stages, notes = plan.stages(Selected("tiny", n_jobs=1))
    assert notes == []
    quick = timing.QUICK
    timing.QUICK = 0.0
    try:
        runner.run("sparse-features", stages, path, common={"scale": "tiny"}, n_jobs=1)
    finally:
        timing.QUICK = quick
    return records.read(path)


def test_no_run_fails_and_every_cell_has_the_fields_of_the_tables(tiny):
    for record in tiny:
        assert "failed" not in record
        assert record["data"]["kind"] == "generated"
        if record["task"] == "figure":
            continue
        assert record["model_size"] > 0 or record["family"] == "sparse"
        assert {"fit", "predict", "choose"} <= set(record["seconds"])
        assert {"added", "peak", "kind"} == set(record["memory"])
    assert len({record["key"] for record in tiny}) == len(tiny)


def test_every_set_has_three_kernels_three_families_and_four_lambdas(tiny):
    for name in ("generated-regression", "generated-classes"):
        own = [r for r in tiny if r["data_name"] == name and r["task"] == "table"]
        found = {(r["method"], r["lam_n"]) for r in own}
        single = {(f"{f}-{k}", 1.0) for f in ("kernel", "rf") for k in grid.KERNELS}
        assert found == single | {
            (f"sparse-{k}", lam) for k in grid.KERNELS for lam in grid.LAMBDAS
        }


def test_page_has_both_tables_and_the_figure(tiny):
    built = build(tiny)
    assert built.html.count("<img ") == 3
    assert "Sparse-RF at every λ" in built.html
    assert list(built.figures) == ["table-1-as-a-figure", "table-2-as-a-figure", "figure-1"]


@pytest.mark.parametrize(
    ("selected", "stages"),
    [
        (Selected("tiny", tables=(1,)), ["generated-regression, table"]),
        (Selected("tiny", tables=(2,)), ["generated-classes, table"]),
        (Selected("tiny", figures=(1,)), ["generated-classes, figure"]),
        (
            Selected("tiny", tables=(2,), figures=(1,)),
            ["generated-classes, table", "generated-classes, figure"],
        ),
    ],
)
def test_table_and_figure_ask_for_their_own_runs_alone(selected, stages):
    assert [stage.name for stage in plan.stages(selected)[0]] == stages


def test_laptop_study_has_the_sets_of_the_paper_or_says_what_stands_in():
    found, notes = plan.stages(Selected("laptop"))
    names = {stage.name.partition(",")[0] for stage in found if stage.name.endswith("table")}
    assert names == {"cpu", "house-16h", "cod-rna-train", "ijcnn1-train", "covtype-sample"}
    assert "house-16h stands in for Census." in notes
    assert sum(cell.cost for stage in found for cell in stage.cells([])) < 1500


def test_paper_scale_has_the_papers_features_and_all_rows():
    found, _ = plan.stages(Selected("paper", tables=(1, 2)))
    cells = [cell for stage in found for cell in stage.cells([])]
    assert {cell.settings["size"] for cell in cells} == {None, 10_000}
    rf = [cell for cell in cells if cell.settings["family"] == "rf"]
    assert {cell.settings["rows"] for cell in rf} == {None}


def test_missing_data_leave_out_their_set(tmp_path, monkeypatch):
    def refuse(source, n_jobs=None):
        raise DataError(f"the data set {source.name!r} is not at hand")

    monkeypatch.setattr(plan._Plan, "load", staticmethod(refuse))
    stages, _ = plan.stages(Selected("tiny", tables=(1, 2)))
    outcome = runner.run("sparse-features", stages, tmp_path / "runs.jsonl")
    assert (outcome.records, len(outcome.notes)) == ([], 2)


def test_what_the_paper_does_not_have_is_refused():
    paper = get("sparse-features")
    for selected, sentence in (
        (Selected(protocols=("fair",)), "--protocol has no 'fair' for sparse-features"),
        (Selected(figures=(2,)), "there are 1"),
        (Selected(tables=(3,)), "--table has no 3 for sparse-features; there are 1, 2"),
        (Selected(datasets=("cup",)), "did you mean cpu"),
    ):
        with pytest.raises(ValueError, match=sentence):
            paper.check(selected)
    with pytest.raises(ValueError, match="--reference must be left out for sparse-features"):
        paper.page.reference("points.csv")


@pytest.mark.parametrize(
    "module", [data, exact, grid, plan, sparse_features], ids=lambda m: m.__name__
)
def test_examples(module):
    assert doctest.testmod(module).failed == 0
