"""The comparison: equal terms, a test part that decides nothing, a record for every fit."""

from __future__ import annotations

import errno
import json
import os
import time
from dataclasses import replace

import numpy as np
import pytest
from sklearn.kernel_ridge import KernelRidge
from sklearn.metrics.pairwise import laplacian_kernel
from typer.testing import CliRunner

from mercer import plots
from mercer.cli.app import app
from mercer.compare import comparison as compare
from mercer.compare import memory, methods, metrics, records, rivals, selection
from mercer.datasets import Dataset


def toy(task="classification", n=160, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, 3)).astype(np.float32)
    y = X[:, 0] * X[:, 1]
    if task == "classification":
        y = (y > 0).astype(int) + (X[:, 2] > 0.3)
    test = n // 4
    return Dataset("toy", task, X[test:], y[test:], X[:test], y[:test])


SMALL = compare.Plan(sizes=(8, 32), n_jobs=1, selection_rows=60)


@pytest.fixture(scope="module")
def found():
    return compare.compare(toy(), SMALL)


# --- equal terms -----------------------------------------------------------------------------


def test_every_method_has_a_record_for_each_size(found):
    sizes = [(r["method"], r["size"]) for r in found.records]
    assert sizes == [
        ("linear", None),
        *((name, size) for name in ("binning", "fourier", "nystroem") for size in (8, 32)),
        ("exact", None),
    ]


def test_record_is_plain_and_complete(found):
    for record in found.records:
        assert json.loads(json.dumps(records.plain(record))) == records.plain(record)
        assert 0 <= record["score"]["accuracy"] <= 1
        assert min(record["seconds"].values()) > 0
        assert record["model_bytes"] > 0
        assert record["data"]["kind"] == "whole"
        assert "40 test rows" in record["data"]["split"]
        assert {"versions", "machine", "seed", "selection", "settings"} <= set(record)
    assert len({record["run"] for record in found.records}) == 1


def test_methods_share_loss_scaling_rows_and_grids(found):
    for name in ("loss", "scale"):
        assert len({record["settings"][name] for record in found.records}) == 1
    assert len({json.dumps(record["selection"]) for record in found.records}) == 1


@pytest.mark.parametrize("name", [n for n in methods.METHODS if n not in methods.DEFAULT])
def test_every_other_method_can_be_asked_for(name):
    plan = compare.Plan((name,), sizes=(8,), n_jobs=1, selection_rows=60)
    [record] = compare.compare(toy("regression"), plan).records
    assert (record["method"], record["size"]) == (name, 8)
    assert record["n_features"] <= 8
    assert np.isfinite(record["score"]["relative_rmse"])
    assert methods.METHODS[name].cost(8, 100, 3, 1) < 1


def test_default_methods_are_few_and_every_name_is_in_the_help_and_in_the_message():
    assert compare.Plan().methods == ("linear", "binning", "fourier", "nystroem", "exact")
    said = CliRunner().invoke(app, ["compare", "--help"], env={"COLUMNS": "200"}).stdout
    said = " ".join(said.replace("│", " ").split())
    for name in methods.METHODS:
        assert name in said
    with pytest.raises(ValueError, match=r"nystroem-rpcholesky.*got 'rpcholesky'"):
        compare.Plan(methods=("rpcholesky",))


@pytest.mark.parametrize("name", ["fourier-qmc", "tefm-s", "exact"])
def test_inputs_that_need_no_scaling_are_taken_as_they_are(name):
    data = toy("regression")
    settings = {"size": 8, "kernel": "gaussian", "gamma": 0.5, "alpha": 0.1, "seed": 0}
    made = [
        methods.METHODS[name].estimator("regression", n_jobs=1, scale=scale, **settings)
        for scale in (True, False)
    ]
    plain = (data.X - data.X.mean(axis=0)) / data.X.std(axis=0)
    scaled, as_is = made[0].fit(data.X, data.y), made[1].fit(plain, data.y)
    np.testing.assert_allclose(scaled.predict(data.X), as_is.predict(plain), rtol=1e-3, atol=1e-4)
    assert as_is.scaler_ is None


def test_sizes_of_a_method_share_one_choice(found):
    for name in ("binning", "fourier", "nystroem"):
        chosen = [r["choice"] for r in found.records if r["method"] == name]
        assert chosen[0] == chosen[1]


def test_same_seed_gives_the_same_scores(found):
    again = compare.compare(toy(), SMALL)
    assert [r["score"] for r in again.records] == [r["score"] for r in found.records]
    assert [r["settings"] for r in again.records] == [r["settings"] for r in found.records]


def test_test_part_decides_nothing(found):
    data = toy()
    rng = np.random.default_rng(1)
    other = Dataset(
        data.name, data.task, data.X, data.y, rng.normal(size=(9, 3)), rng.integers(0, 3, 9)
    )
    again = compare.compare(other, SMALL)
    for one, two in zip(found.records, again.records, strict=True):
        assert one["settings"] == two["settings"]
        assert one["choice"]["error"] == two["choice"]["error"]
        assert one["score"] != two["score"]


def test_regression_is_scored_by_relative_error_and_r2():
    plan = compare.Plan(("linear", "exact"), n_jobs=1, selection_rows=60)
    linear, exact = (r["score"] for r in compare.compare(toy("regression"), plan).records)
    assert set(linear) == {"relative_rmse", "r2"}
    assert exact["relative_rmse"] < linear["relative_rmse"]


def test_set_without_a_test_part_is_split_by_the_seed():
    data = toy()
    whole = Dataset(data.name, data.task, data.X, data.y)
    plan = compare.Plan(("linear",), n_jobs=1)
    record = compare.compare(whole, plan).records[0]
    assert record["data"]["n_train"] + record["data"]["n_test"] == len(data.y)
    assert "random_state=0" in record["data"]["split"]


def test_sample_and_stand_in_are_named_in_each_record():
    data = toy()
    parts = data.X, data.y, data.X_test, data.y_test
    plan = compare.Plan(("linear",), n_jobs=1)
    sample = Dataset("s", data.task, *parts, is_sample=True, stand_in_for="big")
    other = Dataset("s", data.task, *parts, stand_in_for="big")
    kinds = [compare.compare(d, plan).records[0]["data"]["kind"] for d in (sample, other)]
    assert kinds == ["sample", "stand-in"]


def test_progress_never_goes_back_and_ends_at_one():
    shares = []
    compare.compare(
        toy(), compare.Plan(n_jobs=1, sizes=(8,)), on_progress=lambda share, _: shares.append(share)
    )
    assert shares == sorted(shares)
    assert shares[-1] == 1


def test_exact_is_left_out_with_a_reason_where_rows_are_many():
    plan = compare.Plan(("linear", "exact"), n_jobs=1, exact_rows=50)
    result = compare.compare(toy(), plan)
    assert [r["method"] for r in result.records] == ["linear"]
    assert result.notes == [
        "exact is left out: 120 training rows are more than 50, and its time grows with their cube."
    ]


def test_exact_is_left_out_where_memory_is_short(monkeypatch):
    monkeypatch.setattr(compare, "available_memory", lambda: 1000)
    plan = compare.Plan(("linear", "exact"), n_jobs=1)
    assert "kernel matrix needs" in compare.compare(toy(), plan).notes[0]


def test_landmarks_never_outnumber_rows():
    result = compare.compare(toy(), compare.Plan(("nystroem",), sizes=(8, 500), n_jobs=1))
    assert [r["size"] for r in result.records] == [8]
    assert "120" in result.notes[0]


def test_fast_plan_keeps_what_is_asked_for():
    plan = compare.Plan.fast(seed=3, sizes=(7,))
    assert (plan.seed, plan.sizes) == (3, (7,))
    assert plan.selection_rows < compare.Plan().selection_rows


# --- tables as they are ----------------------------------------------------------------------


def mixed(n=160, seed=0):
    """A data set of a number with gaps, a label, a date and nothing else."""
    rng = np.random.default_rng(seed)
    X = np.empty((n, 3), dtype=object)
    X[:, 0] = rng.uniform(-1, 1, n)
    X[:, 1] = rng.choice(["red", "blue"], n)
    X[:, 2] = (np.datetime64("2020-01-01") + rng.integers(0, 900, n)).astype(object)
    y = X[:, 0].astype(float) + (X[:, 1] == "red")
    X[::9, 0], X[::7, 1] = None, None
    return Dataset("mixed", "regression", X[40:], y[40:], X[:40], y[:40])


class Seen:
    """Predicts zeros where it is given texts and gaps."""

    def fit(self, X, y):
        self.cells = {type(cell) for cell in X[:, 1]}
        return self

    def predict(self, X):
        return np.zeros(len(X)) if self.cells == {str, type(None)} else None


def test_methods_get_numbers_of_a_raw_table_and_contenders_the_table(monkeypatch):
    monkeypatch.setattr(rivals, "_OnCodes", lambda *_: Seen())
    monkeypatch.setattr(rivals.Contender, "is_installed", True)
    monkeypatch.setattr(rivals.Contender, "load", lambda self: None)
    plan = compare.Plan(("linear", "lightgbm"), n_jobs=1)
    linear, seen = compare.compare(mixed(), plan).records
    assert linear["score"]["r2"] > 0.3
    assert seen["score"]["relative_rmse"] == 1
    assert (seen["method"], seen["label"], seen["rival"]) == ("lightgbm", "LightGBM", True)


def test_test_rows_teach_nothing_of_how_columns_become_numbers():
    data = mixed()
    other = Dataset("mixed", "regression", data.X, data.y, data.X_test.copy(), data.y_test)
    other.X_test[:, 0] = 1e6
    fitted = [compare._as_numbers(d.split(), d.task, 0).X_train for d in (data, other)]
    np.testing.assert_array_equal(*fitted)


@pytest.mark.parametrize("task", ["classification", "regression"])
@pytest.mark.parametrize("name", rivals.RIVALS)
def test_rivals_take_tables_as_they_are(name, task):
    pytest.importorskip(rivals.RIVALS[name].module)
    data = mixed(400)
    y = data.y if task == "regression" else np.where(data.y > 0.5, "high", "low")
    model = rivals.RIVALS[name].estimator(task, seed=0, n_jobs=1).fit(data.X, y)
    new = data.X_test.copy()
    new[0, 1] = "a colour that was not met"
    predicted = model.predict(new)
    assert predicted.shape == (40,)
    if task == "classification":
        assert set(predicted) <= {"high", "low"}
    else:
        assert np.corrcoef(predicted[1:], data.y_test[1:])[0, 1] > 0.8


def test_automatic_model_stands_beside_the_methods():
    plan = compare.Plan(("auto", "linear"), n_jobs=1)
    linear, auto = compare.compare(toy("regression"), plan).records
    assert (linear["method"], auto["method"]) == ("linear", "auto")
    assert auto["rival"] is False
    assert auto["score"]["relative_rmse"] < linear["score"]["relative_rmse"]
    assert json.loads(json.dumps(records.plain(auto)))["model_bytes"] > 0
    assert plots.compare_figure([linear, auto]).axes


def test_rival_that_refuses_is_a_note(monkeypatch):
    def refuse(*_, **__):
        raise RuntimeError("no such table")

    monkeypatch.setattr(rivals.Contender, "is_installed", True)
    monkeypatch.setattr(rivals.Contender, "load", lambda self: None)
    monkeypatch.setattr(rivals._OnCodes, "fit", refuse)
    result = compare.compare(toy(), compare.Plan(("linear", "xgboost"), n_jobs=1))
    assert [r["method"] for r in result.records] == ["linear"]
    assert result.notes == ["XGBoost is left out: no such table"]


def test_rival_that_is_not_installed_is_refused_by_name(monkeypatch):
    monkeypatch.setattr(rivals.Contender, "is_installed", False)
    assert rivals.installed() == ()
    with pytest.raises(ValueError, match=r"'catboost' where it is installed"):
        compare.Plan(("catboost",))


def test_few_rows_are_left_to_one_thread(monkeypatch):
    seen = []
    monkeypatch.setattr(compare, "n_threads", lambda n_jobs: seen.append(n_jobs) or 1)
    for n_jobs in (None, 2):
        compare.compare(toy(), compare.Plan(("linear",), n_jobs=n_jobs))
    assert seen == [1, 2]


# --- choosing --------------------------------------------------------------------------------


def searched(monkeypatch, errors):
    """What is chosen when the validation error is a function of the exponents of γ and α."""
    data = toy("regression")
    chosen = selection.Selection(data.X, data.y, "regression", seed=0, max_rows=60)
    monkeypatch.setattr(chosen, "_path", lambda m, k, i, alphas: [errors(i, j) for j in alphas])
    choice = chosen.choose(methods.METHODS["binning"])
    return np.log2(choice.gamma_multiple), np.log10(choice.alpha_multiple)


@pytest.mark.filterwarnings("ignore:.*of the bins of these rows")  # some gammas are large
def test_choice_is_the_best_that_was_tried_on_the_validation_part(monkeypatch):
    data = toy("regression", 400)
    chosen = selection.Selection(data.X, data.y, "regression", seed=0, max_rows=200)
    tried = {}
    plain = chosen._path

    def path(method, kernel, i, alphas):
        for j, error in zip(alphas, plain(method, kernel, i, alphas), strict=True):
            tried[i, j] = error
            yield error

    monkeypatch.setattr(chosen, "_path", path)
    choice = chosen.choose(methods.METHODS["binning"])
    at = round(np.log2(choice.gamma_multiple)), round(np.log10(choice.alpha_multiple))
    assert choice.error == tried[at] <= 1.01 * min(tried.values())
    assert choice.n_tried == len(tried) >= 9


def test_search_follows_an_error_that_falls(monkeypatch):
    assert searched(monkeypatch, lambda i, j: 1 + abs(i - 5) + abs(j)) == (5, 0)


def test_search_ends_where_an_error_falls_for_ever(monkeypatch):
    gamma, alpha = searched(monkeypatch, lambda i, j: 2.0 ** (j - i))
    assert 2 < gamma < 20
    assert -20 < alpha < -2


def test_near_ties_go_to_the_larger_alpha(monkeypatch):
    def errors(i, j):
        return 2 if j > 0 else 1.009 + abs(i - 1) if j == 0 else 1.0 + abs(i - 1)

    assert searched(monkeypatch, errors) == (1, 0)


def test_perfect_scores_go_to_the_largest_alpha_near(monkeypatch):
    assert searched(monkeypatch, lambda i, j: 0.0 if j < 1 else 1.0)[1] == 0


def test_validation_rows_are_not_fitted():
    X = np.arange(100.0)[:, None]
    chosen = selection.Selection(X, X[:, 0], "regression", seed=0, max_rows=1000)
    fitted, held = set(chosen._fit[1]), set(chosen._held[1])
    assert (len(fitted), len(held)) == (80, 20)
    assert not fitted & held


def test_series_is_validated_on_its_last_rows():
    X = np.arange(100.0)[:, None]
    chosen = selection.Selection(X, X[:, 0], "regression", seed=0, max_rows=1000, is_series=True)
    assert max(chosen._fit[1]) < min(chosen._held[1]) == 80


# --- the exact entrant -----------------------------------------------------------------------


def exact(kernel, gamma, alpha):
    settings = {"kernel": kernel, "gamma": gamma, "alpha": alpha}
    return methods.METHODS["exact"].estimator("regression", size=None, seed=0, n_jobs=1, **settings)


def test_exact_method_is_kernel_ridge():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    y = rng.normal(size=(60, 2))
    y -= y.mean(axis=0)
    ours = exact("laplacian", 0.4, 0.01).fit(X, y)
    scaled = (X - X.mean(axis=0)) / X.std(axis=0)
    K = laplacian_kernel(scaled, gamma=0.4)
    # An intercept that is not penalised: the dual coefficients sum to zero.
    system = np.block(
        [[K + 0.6 * np.eye(60), np.ones((60, 1))], [np.ones((1, 60)), np.zeros((1, 1))]]
    )
    solved = np.linalg.solve(system, np.vstack([y, np.zeros((1, 2))]))
    np.testing.assert_allclose(ours.map_coef_.T, solved[:-1], atol=1e-10)
    np.testing.assert_allclose(ours.intercept_, solved[-1], atol=1e-10)
    np.testing.assert_allclose(ours.predict(X), K @ solved[:-1] + solved[-1], atol=1e-10)


def test_exact_method_equals_scikit_learn_where_no_intercept_is_needed():
    X = np.concatenate([np.linspace(0.1, 2, 30), -np.linspace(0.1, 2, 30)])[:, None]
    y = X[:, 0] ** 3
    ours = exact("gaussian", 0.5, 0.1 / 60).fit(X, y)
    theirs = KernelRidge(alpha=0.1, kernel="rbf", gamma=0.5).fit(X / X.std(), y)
    np.testing.assert_allclose(ours.predict(X), theirs.predict(X / X.std()), atol=1e-8)


def test_many_grids_approach_the_exact_method():
    data = toy("regression", 200)
    settings = {"kernel": "laplacian", "gamma": 0.3, "alpha": 0.001, "seed": 0, "n_jobs": 1}
    exact, grids = (
        methods.METHODS[name]
        .estimator("regression", size=size, **settings)
        .fit(data.X, data.y)
        .predict(data.X_test)
        for name, size in (("exact", None), ("binning", 4000))
    )
    assert np.sqrt(np.mean((exact - grids) ** 2)) < 0.02


# --- examples --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "module",
    [compare, memory, methods, metrics, plots.base, plots.compare, records, rivals, selection],
    ids=lambda module: module.__name__,
)
def test_examples_run(module, check_examples):
    check_examples(module)


# --- the command -----------------------------------------------------------------------------


@pytest.fixture
def table(tmp_path):
    data = toy(n=120)
    rows = [",".join(map(str, [*x, y])) for x, y in zip(data.X.tolist(), data.y, strict=True)]
    path = tmp_path / "points.csv"
    path.write_text("\n".join(["a,b,c,kind", *rows]))
    return path


def test_command_prints_a_table_and_writes_figure_and_records(table, tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "150")
    monkeypatch.setattr(rivals, "installed", lambda: ())
    out = tmp_path / "results"
    command = ["compare", str(table), "--target", "kind", "--sizes", "8,16", "--out", str(out)]
    for run in (1, 2):
        done = CliRunner().invoke(app, command)
        assert done.exit_code == 0, done.output
        assert len(records.read(out / "compare-points.jsonl")) == 9 * run
    for word in (
        "automatic",
        "linear",
        "random binning",
        "random Fourier",
        "Nyström",
        "exact",
        "memory",
    ):
        assert word in done.stdout
    assert str(out / "compare-points.png") in done.stdout
    assert (out / "compare-points.png").read_bytes().startswith(b"\x89PNG")
    assert sorted(path.name for path in out.iterdir()) == [
        "compare-points.jsonl",
        "compare-points.png",
    ]


def test_interrupted_command_keeps_the_fits_that_are_done(table, tmp_path, monkeypatch):
    plain = compare._fit

    def stop(method, size, *rest):
        if size == 16:
            raise KeyboardInterrupt
        return plain(method, size, *rest)

    monkeypatch.setattr(compare, "_fit", stop)
    out = tmp_path / "results"
    command = ["compare", str(table), "--target", "kind", "--sizes", "8,16", "--out", str(out)]
    done = CliRunner().invoke(app, command)
    assert done.exit_code == 130
    assert f"2 fits that were done are in {out}" in done.stderr
    assert [r["method"] for r in records.read(out / "compare-points.jsonl")] == [
        "linear",
        "binning",
    ]
    assert [path.name for path in out.iterdir()] == ["compare-points.jsonl"]


def test_command_shows_the_table_even_if_the_figure_cannot_be_written(table, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.chdir(table.parent)
    monkeypatch.setattr(plots, "save_figure", full)
    done = CliRunner().invoke(
        app, ["compare", table.name, "--target", "kind", "--methods", "linear"]
    )
    assert done.exit_code == 1
    assert "linear" in done.stdout


def test_settings_of_the_exact_machine_are_chosen_on_fewer_rows(monkeypatch):
    exact = replace(methods.METHODS["exact"], choice_rows=50)
    monkeypatch.setitem(methods.METHODS, "exact", exact)
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (200, 2))
    data = Dataset("product", "regression", X, X[:, 0] * X[:, 1])
    found = compare.compare(data, compare.Plan(methods=("linear", "exact"), selection_rows=100))
    assert [r["choice"]["n_fitted"] for r in found.records] == [100, 50]


def test_a_rival_that_takes_longer_than_all_the_rest_says_so(monkeypatch):
    class Slow:
        def fit(self, X, y):
            time.sleep(1.0)
            return self

        def predict(self, X):
            return np.zeros(len(X))

    monkeypatch.setattr(rivals.Contender, "estimator", lambda self, *args, **how: Slow())
    monkeypatch.setattr(rivals.Contender, "load", lambda self: None)
    monkeypatch.setattr(rivals.Contender, "is_installed", True)
    monkeypatch.setattr(compare.pickle, "dumps", lambda model: b"")
    rng = np.random.default_rng(0)
    data = Dataset("noise", "regression", rng.normal(size=(60, 2)), rng.normal(size=60))
    found = compare.compare(data, compare.Plan(methods=("linear", "lightgbm")))
    assert "LightGBM took 1 s, longer than all before it" in found.notes[-1]


@pytest.mark.parametrize("task", ["classification", "regression"])
def test_copies_of_rows_are_left_out_before_a_split(task):
    once = toy(task)
    once = Dataset("toy", task, once.X, once.y)
    twice = Dataset("toy", task, np.concatenate([once.X] * 2), np.tile(once.y, 2))
    plan = compare.Plan(("linear", "exact"), n_jobs=1)
    wanted, result = compare.compare(once, plan), compare.compare(twice, plan)
    assert [r["score"] for r in result.records] == [r["score"] for r in wanted.records]
    assert result.notes == [
        "120 of 240 rows are left out: copies of others, which tests would have seen."
    ]
