"""The random binning study: the paper's fit, the fair one, and what is run for which figure."""

from __future__ import annotations

import doctest
from dataclasses import replace

import numpy as np
import pytest

from mercer import kernels
from mercer.compare import records
from mercer.datasets import DataError
from mercer.maps import RandomBinning
from mercer_studies import inputs, random_binning, runner, timing
from mercer_studies.papers import Selected, get
from mercer_studies.random_binning import data, fits, grid, plan, theorem
from mercer_studies.theory import binning_bound

LAM_N = 0.01


@pytest.fixture(scope="module")
def regression():
    return data.load(grid.SOURCES["generated-regression"], n_jobs=1)


@pytest.fixture(scope="module")
def classes():
    return data.load(grid.SOURCES["generated-classes"], n_jobs=1)


@pytest.fixture(autouse=True)
def _once(monkeypatch):
    monkeypatch.setattr(timing, "QUICK", 0.0)


def published(loaded, method="binning", size=16, gamma=1.12, rows=None):
    with records.quiet():
        return fits.published(loaded, method=method, size=size, gamma=gamma, seed=0, rows=rows)


# --- theorem 1 -------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["regression", "classes"])
def test_grids_stay_below_theorem_1_and_near_the_kernel_machine(kind, request):
    loaded = request.getfixturevalue(kind)
    run = theorem.theorem(loaded, gamma=1.0, rows=120, n_grids=8, n_trials=2)
    level, objectives = run["exact"]["objective"], np.array(run["course"]["objectives"])
    assert objectives.shape == (2, 8)
    assert np.all(np.diff(objectives) <= 1e-9)
    assert np.all(objectives <= run["start"])
    gap, norm = run["start"] - level, run["exact"]["norm"]
    allowed = level + binning_bound(run["course"]["grids"], gap, norm, run["kappa"])
    assert np.all(objectives.mean(axis=0) <= allowed)
    assert 1 <= run["kappa"] <= 120


# --- the paper's fit -------------------------------------------------------------------------


def plain_conjugate_gradients(Z, Y):
    """(ZᵀZ + λI) w = Zᵀy for every column of Y: from zero, to 1e-3 of ‖Zᵀy‖, 50 iterations."""
    out = np.zeros((Z.shape[1], Y.shape[1]))
    for w, y in zip(out.T, Y.T, strict=True):
        r = Z.T @ y
        p, goal, rr = r.copy(), 1e-3 * np.linalg.norm(r), r @ r
        for _ in range(50):
            if np.sqrt(rr) <= goal:
                break
            q = Z.T @ (Z @ p) + LAM_N * p
            a = rr / (p @ q)
            w += a * p
            r -= a * q
            before, rr = rr, r @ r
            p = r + rr / before * p
    return out


@pytest.mark.parametrize(("size", "gamma"), [(8, 0.3), (32, 1.12), (32, 10.0)])
def test_published_binning_is_plain_conjugate_gradients_on_the_targets_as_they_are(
    size, gamma, regression
):
    X, X_test = regression.scaled.X_train, regression.scaled.X_test
    map_ = RandomBinning(gamma=gamma, n_components=size, random_state=0)
    Z = map_.fit_transform(X)
    y, y_test = regression.raw.y_train, regression.raw.y_test
    w = plain_conjugate_gradients(Z, y[:, None])[:, 0]
    found = published(regression, size=size, gamma=gamma)
    with records.quiet():
        error = np.linalg.norm(map_.transform(X_test) @ w - y_test) / np.linalg.norm(y_test)
    assert found["score"]["test"]["relative_rmse"] == pytest.approx(error, rel=1e-3)
    assert found["lam_n"] == LAM_N
    assert found["alpha"] * len(y) == pytest.approx(LAM_N)


def test_published_classes_are_one_against_the_rest(classes):
    X, X_test = classes.scaled.X_train, classes.scaled.X_test
    map_ = RandomBinning(gamma=1.12, n_components=32, random_state=0)
    Z = map_.fit_transform(X)
    Y = np.where(classes.raw.y_train[:, None] == np.arange(3), 1.0, -1.0)
    responses = map_.transform(X_test) @ plain_conjugate_gradients(Z, Y)
    found = published(classes, size=32)["score"]["test"]
    y = classes.raw.y_test
    assert found["accuracy"] == np.mean(responses.argmax(axis=1) == y)
    assert found["accuracy_without_last"] == np.mean(responses[:, :2].argmax(axis=1) == y)


def test_joint_columns_count_the_bins_of_training_and_test_rows(regression):
    found = published(regression, size=8)
    map_ = RandomBinning(gamma=1.12, n_components=8, random_state=0)
    both = np.concatenate([regression.scaled.X_train, regression.scaled.X_test])
    assert found["n_features"] == map_.fit(regression.scaled.X_train).n_features_out_
    assert found["n_features_joint"] == map_.fit(both).n_features_out_
    assert 8 < found["n_features"] < found["n_features_joint"]


def test_exact_rival_is_kernel_ridge_with_centred_targets(regression):
    X, y = regression.scaled.X_train, regression.raw.y_train
    kernel = kernels.Exponential(0.5)
    dual = np.linalg.solve(kernel(X) + LAM_N * np.eye(len(X)), y - y.mean())
    predicted = kernel(regression.scaled.X_test, X) @ dual + y.mean()
    y_test = regression.raw.y_test
    error = np.linalg.norm(predicted - y_test) / np.linalg.norm(y_test)
    found = published(regression, "exact", None, 0.5)
    assert found["score"]["test"]["relative_rmse"] == pytest.approx(error)
    assert found["stored_per_row"] == len(X)


@pytest.mark.parametrize("method", ["fourier", "nystroem", "blocks"])
def test_rivals_come_near_the_exact_kernel_with_size(method, regression):
    exact = published(regression, "exact", None, 0.5)["score"]["test"]["relative_rmse"]
    small, large = (
        published(regression, method, size, 0.5)["score"]["test"]["relative_rmse"]
        for size in (4, 300)
    )
    assert abs(large - exact) < abs(small - exact)


@pytest.mark.parametrize("method", ["binning", "fourier", "nystroem", "blocks"])
def test_rivals_centre_the_targets_and_binning_does_not(method, regression):
    predicted = []
    for shift in (0.0, 100.0):
        moved = data.Loaded(regression.source, regression._data, regression.raw, 1)
        moved.targets = regression.targets + shift
        if method == "blocks":
            fit = fits._by_blocks(moved, 16, 0.5, 0)
        else:
            with records.quiet():
                fit = fits._by_map(moved, method, 16, 0.5, 0)
        predicted.append(fit.test - shift)
    assert np.allclose(*predicted, atol=1e-6) is (method != "binning")


def test_some_rows_keep_scaling_and_test_part(regression):
    some = regression.with_rows(50)
    assert some.scaled.X_train.shape[0] == len(some.targets) == 50
    np.testing.assert_array_equal(some.scaled.X_test, regression.scaled.X_test)
    found = published(regression, "exact", None, 0.5, rows=50)
    assert found["rows"] == 50
    assert found["data"]["n_train"] == regression.raw.X_train.shape[0]


# --- data ------------------------------------------------------------------------------------


def test_scalings_are_what_they_are_called():
    rng = np.random.default_rng(0)
    train, test = rng.normal(3, 2, (50, 3)), rng.normal(3, 2, (20, 3))
    found = {name: inputs.scaled(train, test, name) for name in inputs.INPUTS}
    assert np.array_equal(found["as is"][0], train)
    assert np.abs(np.concatenate(found["max-abs"])).max(axis=0) == pytest.approx(np.ones(3))
    assert found["[0,1]"][0].min(axis=0) == pytest.approx(np.zeros(3), abs=1e-12)
    assert found["[-1,1]"][0].max(axis=0) == pytest.approx(np.ones(3))
    assert found["standard"][0].std(axis=0) == pytest.approx(np.ones(3))
    assert found["/255"][1] == pytest.approx(test / 255)
    with pytest.raises(ValueError, match="inputs must be one of as is, max-abs"):
        inputs.scaled(train, test, "unit")


def test_constant_inputs_stay_finite():
    for name in inputs.INPUTS:
        for part in inputs.scaled(np.zeros((4, 2)), np.zeros((3, 2)), name):
            assert np.isfinite(part).all()


def test_letter_has_as_many_training_rows_as_in_the_paper():
    loaded = data.load(grid.SOURCES["letter"])
    assert loaded.raw.X_train.shape == (10_500, 16)
    assert loaded.raw.X_test.shape == (5_000, 16)
    assert "10500 of the training rows" in loaded.describe()["split"]
    assert np.abs(loaded.scaled.X_train).max() == 1.0


# --- on equal terms --------------------------------------------------------------------------


@pytest.mark.parametrize("method", list(fits.FAIR))
def test_fair_fit_chooses_on_the_training_part_alone(method, regression):
    settings = {"method": method, "size": None if method == "exact" else 8, "seed": 1}
    settings |= {"rows": None, "selection_rows": 60}
    other = data.Loaded(regression.source, regression._data, regression.raw, 1)
    other.raw = replace(regression.raw, y_test=np.flip(regression.raw.y_test))
    with records.quiet():
        one, two = (fits.fair(loaded, **settings) for loaded in (regression, other))
    assert one["choice"]["kernel"] == "laplacian"
    assert (one["gamma"], one["alpha"]) == (two["gamma"], two["alpha"])
    assert one["choice"]["error"] == two["choice"]["error"]
    assert one["score"]["train"] == two["score"]["train"]
    assert one["score"]["test"] != two["score"]["test"]
    assert one["seconds"]["choose"] > 0


# --- the whole study -------------------------------------------------------------------------


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    path = tmp_path_factory.mktemp("study") / "runs.jsonl"
    selected = Selected("tiny", datasets=("generated-regression",), n_jobs=1)
    stages, notes = plan.stages(selected)
    assert notes == []
    quick = timing.QUICK
    timing.QUICK = 0.0
    try:
        runner.run("random-binning", stages, path, common={"scale": "tiny"}, n_jobs=1)
    finally:
        timing.QUICK = quick
    return records.read(path)


def runs(found, protocol, method, figure=None):
    return [
        record
        for record in found
        if record["protocol"] == protocol
        and record["method"] == method
        and (figure is None or figure in record["figures"])
    ]


def test_every_record_has_what_readers_need(tiny):
    always = {"record", "format", "paper", "key", "protocol", "scale", "figures", "run", "data"}
    always |= {"method", "label", "size", "gamma", "n_features", "warnings", "seed"}
    scored = {"alpha", "lam_n", "n_features_joint", "score", "seconds", "n_iter", "converged"}
    scored |= {"optimality", "stored_per_row", "memory", "rows"}
    for record in tiny:
        assert always <= set(record)
        assert "failed" not in record
        if record["protocol"] in ("example", "parallel", "theorem"):
            continue
        assert scored <= set(record)
        assert set(record["score"]) == {"train", "test"}
        assert {"choose", "features", "solve", "fit", "predict"} <= set(record["seconds"])
        assert record["data"]["kind"] == "generated"
        assert (record.get("choice") is not None) == (record["protocol"] == "fair")
    assert len({record["key"] for record in tiny}) == len(tiny)


def test_sweep_covers_the_grid_and_curves_cover_the_sizes(tiny):
    sweep = runs(tiny, "published", "binning", 3)
    assert {record["gamma"] for record in sweep} == set(grid.SCALES["tiny"].gammas)
    assert {record["size"] for record in sweep} == {32}
    curves = {(r["size"], r["gamma"]) for r in runs(tiny, "published", "binning", 4)}
    window = grid.SOURCES["generated-regression"].window
    assert curves == {(size, gamma) for size in (8, 16, 32) for gamma in window}


def test_rivals_have_the_exact_kernels_best_width_at_every_size(tiny):
    exact = runs(tiny, "published", "exact", 5)
    best = min(exact, key=lambda record: record["score"]["test"]["relative_rmse"])
    for method in grid.RIVALS:
        found = runs(tiny, "published", method, 5)
        assert {record["gamma"] for record in found} == {best["gamma"]}
        assert [record["size"] for record in found] == [8, 16, 32]


def test_fair_runs_cover_methods_sizes_and_seeds(tiny):
    for method in fits.FAIR:
        found = {(r["size"], r["seed"]) for r in runs(tiny, "fair", method, 5)}
        several = {(size, seed) for size in (8, 32) for seed in (0, 1)}
        assert found == ({(None, 0)} if method == "exact" else several)


def test_training_error_falls_with_gamma(tiny):
    sweep = sorted(runs(tiny, "published", "binning", 3), key=lambda record: record["gamma"])
    errors = [record["score"]["train"]["relative_rmse"] for record in sweep]
    assert errors[-1] < 0.1 * errors[0]


def test_example_has_one_bin_a_row_and_grid_and_nearly_the_papers_columns(tiny):
    [record] = runs(tiny, "example", "binning", 2)
    example = record["example"]
    indices = np.array(example["indices"])
    assert indices.shape == (200, 10)
    assert (example["rows"], example["nnz"]) == (200, 2000)
    assert abs(example["D"] - 395) <= 2
    assert example["kappa_bar"] == example["D"] / 10
    assert len(np.unique(indices)) == example["D"] == indices.max() + 1


@pytest.mark.parametrize(
    ("figure", "methods"),
    [
        (2, set()),
        (3, {"binning", "exact"}),
        (4, {"binning"}),
        (5, {"binning", "exact", "fourier", "nystroem", "blocks"}),
        (6, {"binning", "fourier"}),
    ],
)
def test_figure_asks_for_its_own_runs_alone(figure, methods):
    stages, _ = plan.stages(Selected("laptop", figures=(figure,), datasets=("letter",)))
    cells = [cell for stage in stages for cell in stage.cells([])]
    assert {c.settings["method"] for c in cells if c.settings["protocol"] != "example"} == methods


def test_laptop_study_starts_with_quick_sets_and_fits_into_an_hour():
    found, notes = plan.stages(Selected("laptop"))
    costs = {}
    for stage in found[1:]:
        costs[stage.name] = costs.get(stage.name, 0) + sum(c.cost for c in stage.cells([]))
    assert sum(costs.values()) < 3600
    published = [cost for name, cost in costs.items() if "," not in name]
    assert np.mean(published[:4]) < np.mean(published[-4:]) / 2
    assert any("mnist: the exact kernel is fitted to 4000" in note for note in notes)
    keys = [cell.key for stage in found for cell in stage.cells([])]
    assert len(keys) > 1000


def test_paper_scale_declares_the_papers_sets_and_sizes():
    found, _ = plan.stages(Selected("paper", protocols=("published",)))
    assert {"census", "covtype", "susy", "acoustic", "mnist"} <= {stage.name for stage in found}
    cells = [cell for stage in found if stage.name == "mnist" for cell in stage.cells([])]
    sizes = {(c.settings["method"], c.settings["size"]) for c in cells}
    assert {("binning", 1024), ("fourier", 32_768), ("nystroem", 32_768)} <= sizes
    gammas = {c.settings["gamma"] for c in cells if c.settings["size"] == 8}
    assert set(grid.GAMMAS) <= gammas


def test_missing_data_leave_out_their_set(tmp_path, monkeypatch):
    def refuse(source, n_jobs=None):
        raise DataError(f"the data set {source.name!r} is not at hand")

    monkeypatch.setattr(plan._Plan, "load", staticmethod(refuse))
    stages, _ = plan.stages(Selected("tiny", figures=(3,)))
    outcome = runner.run("random-binning", stages, tmp_path / "runs.jsonl")
    assert outcome.records == []
    assert len(outcome.notes) == 2


@pytest.mark.parametrize(
    ("selected", "sentence"),
    [
        (Selected("huge"), "--scale has no 'huge'"),
        (Selected(protocols=("fare",)), "did you mean fair"),
        (Selected(figures=(7,)), "--figure has no 7 for random-binning; there are 2, 3, 4, 5, 6"),
        (Selected(datasets=("leter",)), "did you mean letter"),
    ],
)
def test_what_the_paper_does_not_have_is_refused(selected, sentence):
    with pytest.raises(ValueError, match=sentence):
        get("random-binning").check(selected)


@pytest.mark.parametrize("module", [data, plan, random_binning], ids=lambda m: m.__name__)
def test_examples(module):
    assert doctest.testmod(module).failed == 0
