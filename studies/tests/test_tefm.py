"""The TEFM study: kernel errors, regressions on equal terms, times, and what is run."""

from __future__ import annotations

import doctest
from dataclasses import replace

import numpy as np
import pytest

from mercer import kernels
from mercer.compare import records
from mercer.datasets import DataError, Dataset
from mercer_studies import inputs, measures, runner, tefm, timing
from mercer_studies.papers import Selected, get
from mercer_studies.report import build
from mercer_studies.tefm import data, fits, grid, plan
from mercer_studies.tefm import page as tefm_page


@pytest.fixture(scope="module")
def loaded():
    return data.load(grid.SOURCES["generated-regression"], n_jobs=1)


@pytest.fixture(autouse=True)
def _once(monkeypatch):
    monkeypatch.setattr(timing, "QUICK", 0.0)


def regression(loaded, method="rks", size=16, seed=0, **changes):
    settings = {"rows": None, "reference": 16, "selection_rows": 80, **changes}
    return fits.ridge(loaded, method=method, size=size, seed=seed, **settings)


# --- kernel matrices -------------------------------------------------------------------------


def test_width_of_the_kernel_is_the_median_distance(loaded):
    kernel, X, K = loaded.kernel_matrix(150)
    distances = np.sqrt(((X[:, None] - X) ** 2).sum(axis=2))
    median = np.median(distances[np.triu_indices(len(X), 1)])
    assert kernel.gamma == pytest.approx(1 / (2 * median**2), rel=0.05)
    np.testing.assert_allclose(K, np.exp(-kernel.gamma * distances**2), atol=1e-12)


@pytest.mark.parametrize("method", ["rks", "comp", "tefm-g", "tefm-s", "nystroem"])
def test_error_of_a_map_is_that_of_its_inner_products(method, loaded):
    found = fits.approximation(loaded, method=method, size=12, seed=3, rows=100)
    kernel, X, K = loaded.kernel_matrix(100)
    map_ = grid.METHODS[method].feature_map("gaussian", kernel.gamma, 12)
    Z = map_.set_params(random_state=3).fit_transform(X)
    left = np.linalg.eigvalsh(K - Z @ Z.T)
    spectral = np.abs(left).max() / np.linalg.eigvalsh(K).max()
    frobenius = np.linalg.norm(K - Z @ Z.T) / np.linalg.norm(K)
    assert found["score"]["kernel"]["spectral"] == pytest.approx(spectral, rel=1e-4)
    assert found["score"]["kernel"]["frobenius"] == pytest.approx(frobenius, rel=1e-6)
    assert found["rows"] == 100
    assert found["n_base"] == (48 if method in ("comp", "tefm-g", "tefm-s") else None)


def test_base_of_squares_has_the_square_of_the_features(loaded):
    found = fits.approximation(loaded, method="tefm-square", size=10, seed=0, rows=100)
    assert (found["n_features"], found["n_base"]) == (10, 100)


@pytest.mark.parametrize("method", ["rks", "tefm-g", "tefm-s", "comp"])
def test_theorems_allow_what_is_measured(method, loaded):
    found = fits.approximation(loaded, method=method, size=12, seed=1, rows=100)
    theory, spectral = found["theory"], found["score"]["kernel"]["spectral"]
    assert (theory["spectral"] is None) == (method == "comp")
    assert theory["spectral"] is None or spectral <= theory["spectral"]
    assert -1e-9 <= theory["excess"] <= theory["allowed_excess"]


def test_least_loss_of_the_kernel_is_that_of_its_regression(loaded):
    K, known = loaded.kernel_matrix(100)[2], loaded.spectrum(100)
    a = np.linalg.solve(K + 100 * known.alpha * np.eye(100), known.y)
    residuals = known.y - K @ a
    least = 0.5 * known.alpha * a @ K @ a + 0.5 * np.mean(residuals**2)
    assert known.least == pytest.approx(least)
    assert known.norm == pytest.approx(np.linalg.norm(K, 2), rel=1e-5)


def test_theorems_take_the_first_of_several_responses(loaded):
    y = loaded._parts.y_train
    parts = replace(loaded._parts, y_train=np.column_stack([y, -(y**2)]))
    several = data.Loaded(loaded.source, loaded._data, parts)
    np.testing.assert_array_equal(several.spectrum(50).y, loaded.spectrum(50).y)


def test_random_fourier_features_are_pairs_of_norm_one():
    map_ = grid.METHODS["rks"].feature_map("gaussian", 0.5, 8).fit(np.eye(3))
    assert (map_.transform(np.eye(3)) ** 2).sum(axis=1) == pytest.approx(np.ones(3))


# --- regressions -----------------------------------------------------------------------------


def test_regression_is_ridge_on_centred_responses(loaded):
    found = regression(loaded, seed=2)
    some = loaded.subset(None)
    map_ = grid.METHODS["rks"].feature_map("gaussian", found["gamma"], 16)
    map_.set_params(random_state=2)
    Z, Z_test = map_.fit_transform(some.X), map_.transform(some.X_test)
    centre = some.y.mean()
    w = np.linalg.solve(Z.T @ Z + found["lam_n"] * np.eye(16), Z.T @ (some.y - centre))
    error = np.linalg.norm(Z_test @ w + centre - some.y_test) / np.linalg.norm(some.y_test)
    assert found["score"]["test"]["relative_rmse"] == pytest.approx(error, rel=1e-6)
    assert found["alpha"] * len(some.y) == pytest.approx(found["lam_n"])


def test_exact_kernel_is_kernel_ridge(loaded):
    found = regression(loaded, fits.EXACT, None)
    some = loaded.subset(None)
    kernel = kernels.Gaussian(found["gamma"])
    centre = some.y.mean()
    K = kernel(some.X) + found["lam_n"] * np.eye(len(some.y))
    predicted = kernel(some.X_test, some.X) @ np.linalg.solve(K, some.y - centre) + centre
    error = np.linalg.norm(predicted - some.y_test) / np.linalg.norm(some.y_test)
    assert found["score"]["test"]["relative_rmse"] == pytest.approx(error, rel=1e-6)


def test_settings_are_chosen_on_training_rows_and_serve_all_sizes_and_seeds(loaded):
    other = data.Loaded(loaded.source, loaded._data, loaded._parts, 1)
    other._parts = replace(loaded._parts, y_test=np.flip(loaded._parts.y_test))
    one, two = (regression(each, "tefm-g") for each in (loaded, other))
    again = regression(loaded, "tefm-g", size=8, seed=5)
    assert one["choice"]["error"] == two["choice"]["error"]
    assert one["score"]["test"] != two["score"]["test"]
    for name in ("gamma", "alpha"):
        assert one[name] == two[name] == again[name]


def test_few_rows_leave_the_test_part_whole(loaded):
    found = regression(loaded, rows=90)
    assert found["rows"] == 90
    assert loaded.subset(90).X_test.shape == loaded.subset(None).X_test.shape


def test_times_have_features_and_solution_apart():
    found = fits.times(method="tefm-s", rows=60, n_base=32, size=8, inputs=3, seed=0, n_jobs=1)
    assert {"features", "solve", "fit"} <= set(found["seconds"])
    assert found["n_features"] == 8
    assert found["data"]["kind"] == "generated"


# --- data ------------------------------------------------------------------------------------


def test_responses_are_what_is_said_of_them(monkeypatch):
    y = np.array([[1.0, 10.0], [2.0, 20.0], [4.0, 60.0], [9.0, 30.0]])
    whole = Dataset("ujiindoorloc", "regression", np.eye(4, dtype=np.float32), y, np.eye(4), y)
    monkeypatch.setattr(data.datasets, "load", lambda name: whole)
    found = data.load(grid.SOURCES[grid.STAND_IN])
    some = found.subset(None)
    assert len(some.y) == 3  # a random part of the training rows, not the official split
    assert some.y.mean() == pytest.approx(0)
    about = found.describe()
    assert (about["kind"], about["stand_in_for"]) == ("stand-in", "slice-localization")
    assert "from its mean" in about["note"]
    logarithms = data.load(replace(grid.SOURCES["cpu"], response="log(1 + y)")).subset(None)
    np.testing.assert_allclose(np.expm1(logarithms.y), y)


def test_set_that_is_missing_has_a_stand_in_and_a_sentence(monkeypatch):
    names = {}
    for at_hand in (False, True):
        monkeypatch.setattr(plan, "is_at_hand", lambda source, known=at_hand: known)
        found, notes = plan.stages(Selected("laptop"))
        names[at_hand] = {stage.name.partition(",")[0] for stage in found}
        assert any("stands in for it" in note for note in notes) is not at_hand
    assert names[False] - names[True] == {grid.STAND_IN}
    assert names[True] - names[False] == {"slice-localization"}


def test_missing_set_can_be_asked_for(monkeypatch):
    monkeypatch.setattr(plan, "is_at_hand", lambda source: False)
    found, _ = plan.stages(Selected("laptop", datasets=("slice-localization",), figures=(2,)))
    assert [stage.name for stage in found] == ["slice-localization, regression"]


def test_missing_data_leave_out_their_set(tmp_path, monkeypatch):
    def refuse(source, n_jobs=None):
        raise DataError(f"the data set {source.name!r} is not at hand")

    monkeypatch.setattr(plan._Plan, "load", staticmethod(refuse))
    stages, _ = plan.stages(Selected("tiny", figures=(1, 2)))
    outcome = runner.run("tefm", stages, tmp_path / "runs.jsonl")
    assert (outcome.records, len(outcome.notes)) == ([], 2)


# --- the whole study -------------------------------------------------------------------------


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    path = tmp_path_factory.mktemp("study") / "runs.jsonl"
    stages, notes = plan.stages(Selected("tiny", n_jobs=1))
    assert notes == []
    quick = timing.QUICK
    timing.QUICK = 0.0
    try:
        runner.run("tefm", stages, path, common={"scale": "tiny"}, n_jobs=1)
    finally:
        timing.QUICK = quick
    return records.read(path)


def runs(found, figure, method):
    return [
        run
        for run in found
        if run["protocol"] == "fair" and figure in run["figures"] and run["method"] == method
    ]


def test_no_run_fails_and_every_record_has_what_readers_need(tiny):
    for record in tiny:
        assert "failed" not in record
        assert {"key", "paper", "protocol", "figures", "method", "label", "seconds"} <= set(record)
        assert record["data"]["kind"] == "generated"
    assert len({record["key"] for record in tiny}) == len(tiny)


def test_figure_1_has_every_method_at_every_size_and_seed(tiny):
    scale = grid.SCALES["tiny"]
    for method in (*grid.PAPERS, *grid.VARIANTS, *grid.OURS):
        found = {(run["size"], run["seed"]) for run in runs(tiny, 1, method)}
        assert {(size, seed) for size in scale.sizes for seed in scale.kernel_seeds} <= found
    sizes = {run["size"] for run in runs(tiny, 1, "rks")}
    assert {4 * size for size in scale.sizes} <= sizes
    assert {size**2 for size in scale.square_sizes} <= sizes
    assert {run["size"] for run in runs(tiny, 1, "tefm-square")} == set(scale.square_sizes)


def test_figure_2_has_every_method_and_the_exact_kernel_once(tiny):
    scale = grid.SCALES["tiny"]
    for method in (*grid.PAPERS, *grid.OURS):
        found = {(run["size"], run["seed"]) for run in runs(tiny, 2, method)}
        assert {(size, seed) for size in scale.sizes for seed in scale.ridge_seeds} <= found
    assert len(runs(tiny, 2, fits.EXACT)) == 1


def test_embedding_has_less_error_than_random_features_of_its_size(tiny):
    errors = {
        method: np.mean(
            [
                run["score"]["kernel"]["spectral"]
                for run in runs(tiny, 1, method)
                if run["size"] == 32
            ]
        )
        for method in ("rks", "tefm-g", "tefm-s")
    }
    assert max(errors["tefm-g"], errors["tefm-s"]) < 0.8 * errors["rks"]


def test_page_has_every_figure_and_no_word_on_numbers_of_the_authors(tiny):
    built = build(tiny)
    assert built.html.count("<img ") == 5
    assert "who leads at equal seconds" in built.html
    assert 'id="beside"' not in built.html
    assert "as published" not in built.html
    with pytest.raises(ValueError, match="reference must be left out for tefm"):
        build(tiny, "points.csv")
    names = ["figure-1", "theorems-1-to-3", "figure-2", "figure-3", "table-1"]
    assert list(built.figures) == names


@pytest.mark.parametrize(("figure", "stages"), [(1, ["kernel"]), (2, ["regression"])])
def test_figure_asks_for_its_own_runs_alone(figure, stages):
    found, _ = plan.stages(Selected("tiny", figures=(figure,)))
    assert [stage.name.partition(", ")[2] for stage in found] == stages


def test_laptop_study_fits_into_twenty_minutes(monkeypatch):
    monkeypatch.setattr(plan, "is_at_hand", lambda source: True)
    found, _ = plan.stages(Selected("laptop"))
    assert sum(cell.cost for stage in found for cell in stage.cells([])) < 1200


def test_paper_scale_has_the_papers_rows():
    found, notes = plan.stages(Selected("paper", figures=(1,)))
    rows = {
        stage.name.partition(",")[0]: {cell.settings["rows"] for cell in stage.cells([])}
        for stage in found
    }
    assert rows["cpu"] == {6554}
    assert rows["mnist"] == {6006}
    assert notes == []


def test_what_the_paper_does_not_have_is_refused():
    paper = get("tefm")
    for selected, sentence in (
        (Selected(protocols=("published",)), "--protocol has no 'published' for tefm"),
        (Selected(figures=(4,)), "there are 1, 2, 3"),
        (Selected(datasets=("mnst",)), "did you mean mnist"),
    ):
        with pytest.raises(ValueError, match=sentence):
            paper.check(selected)


@pytest.mark.parametrize(
    "module",
    [data, fits, grid, inputs, measures, plan, tefm, tefm_page, timing],
    ids=lambda m: m.__name__,
)
def test_examples(module):
    assert doctest.testmod(module).failed == 0
