"""Local kernel machines through files: the same models in less memory, and what is left of them."""

import os
import pickle
import subprocess
import sys
import tempfile

import numpy as np
import pytest

from mercer import (
    LocalKernelClassifier,
    LocalKernelRegressor,
    config_context,
    datasets,
    persistence,
)
from mercer.engines.files import InFiles
from mercer.maps.grafting import grafted, top_of_tree
from mercer.maps.partition import forest, grown, grown_in_core
from mercer.solvers.forest import Part
from mercer.solvers.out_of_core import _Kept
from test_local import classes, waves

N = 3000
SETTINGS = {"gamma": 0.5, "leaf_size": 100, "n_trees": 12, "random_state": 0, "n_jobs": 1}


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """Where temporary files go, and nothing else."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr("mercer._runtime.rows._LARGE", 2**10)
    return tmp_path


def memory(monkeypatch, bytes_of_row=160, n=N):
    """As if there were so much memory for a row: in arrays a fit would take some 800 bytes."""
    monkeypatch.setattr("mercer.estimators.local.available_memory", lambda: bytes_of_row * n)


def mapped(X, folder):
    path = folder / "X.npy"
    np.save(path, X)
    return np.load(path, mmap_mode="r")


def is_mapped(array):
    """Whether an array is, or looks at, a memory map."""
    return isinstance(array, np.memmap) or (array.base is not None and is_mapped(array.base))


# --- trees that grow in parts ----------------------------------------------------------------


@pytest.mark.parametrize("overlap", [0.0, 0.05, 0.2])
@pytest.mark.parametrize("node_size", [120, 400, 5000])
def test_trees_that_grow_in_parts_are_the_trees(node_size, overlap):
    X = np.random.default_rng(0).normal(size=(1500, 3)).astype(np.float32)
    wanted, members = grown(X, 60, 2, overlap, 7, 1)
    trees, leaves = [], []
    for number in range(2):
        top, nodes = top_of_tree(X, node_size, number, overlap, 7, 1)
        parts = []
        for route, node in zip(top.routes(X), nodes, strict=True):
            part, of_part = grown_in_core(
                X[route.rows], 60, np.array([number]), overlap, 7, 1, node
            )
            parts.append(part)
            leaves += [route.rows[of_part.of(leaf)] for leaf in range(len(of_part))]
        trees.append(grafted(top, parts))
    found = forest(trees)
    for name, array in vars(wanted).items():
        np.testing.assert_array_equal(getattr(found, name), array, err_msg=name)
    np.testing.assert_array_equal(np.concatenate(leaves), members.order)


# --- the same model --------------------------------------------------------------------------


@pytest.mark.rounding
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("loss", ["squared", "huber"])
def test_a_fit_through_files_is_the_fit_if_the_sample_is_all_rows(
    loss, weighted, dtype, folder, monkeypatch
):
    n, leaf_size = (N, 100) if loss == "squared" else (N // 8, 25)
    X, y = waves(n, dtype=dtype)
    y = np.column_stack([y, y[::-1]]) if weighted else y
    weights = np.random.default_rng(1).uniform(0, 2, n).round(1) if weighted else None
    settings = {**SETTINGS, "loss": loss, "alpha": 1e-3, "tol": 1e-6, "leaf_size": leaf_size}
    whole = LocalKernelRegressor(**settings).fit(X, y, weights)
    memory(monkeypatch, 300, n)
    monkeypatch.setattr("mercer.solvers.forest._BOOKKEEPING", 600.0)  # nodes are small
    filed = LocalKernelRegressor(**settings).fit(mapped(X, folder), y, weights)
    assert is_mapped(filed.map_coef_)
    for name, array in vars(whole.feature_map_.partition_).items():
        found = getattr(filed.feature_map_.partition_, name)
        np.testing.assert_allclose(found, array, atol=1e-5, err_msg=name)
    assert filed.n_leaves_ == whole.n_leaves_
    assert filed.n_iter_ == whole.n_iter_
    new = waves(200, seed=1, dtype=dtype)[0]
    np.testing.assert_allclose(filed.predict(new), whole.predict(new), atol=1e-4)


@pytest.mark.parametrize("loss", ["squared", "multinomial"])
def test_classes_are_told_apart_through_files(loss, folder, monkeypatch):
    X, y = classes(N)
    settings = {**SETTINGS, "loss": loss, "n_trees": 3, "class_weight": "balanced"}
    whole = LocalKernelClassifier(**settings).fit(X, y)
    memory(monkeypatch, 140)
    filed = LocalKernelClassifier(**settings).fit(mapped(X, folder), y)
    assert is_mapped(filed.feature_map_.landmarks_)
    new = waves(3000, seed=1)[0]
    assert (filed.predict(new) == whole.predict(new)).mean() > 0.97


def test_cuts_of_a_sample_are_about_as_good(folder, monkeypatch):
    X, y = waves(N)
    whole = LocalKernelRegressor(**SETTINGS).fit(X, y)
    memory(monkeypatch, 120)
    monkeypatch.setattr("mercer.solvers.out_of_core.SAMPLE", 300)
    filed = LocalKernelRegressor(**SETTINGS).fit(mapped(X, folder), y)
    new, truth = waves(1000, seed=1)
    assert filed.score(new, truth) > whole.score(new, truth) - 0.01
    sizes = np.diff(filed.feature_map_.members_.starts)
    assert 1 <= sizes.min() <= sizes.max() <= 100


def test_rows_that_are_alike_end_in_balanced_leaves(folder, monkeypatch):
    X, y = waves(N)
    X[: N // 2] = 1.0
    memory(monkeypatch)
    filed = LocalKernelRegressor(**SETTINGS).fit(mapped(X, folder), y)
    assert np.diff(filed.feature_map_.members_.starts).max() <= 100
    assert np.isfinite(filed.predict(X)).all()


def test_arrays_in_memory_go_through_files_as_well(monkeypatch):
    X, y = waves(N)
    memory(monkeypatch)
    model = LocalKernelRegressor(**SETTINGS).fit(X, y)
    assert is_mapped(model.feature_map_.landmarks_)
    assert model.score(X, y) > 0.9


def test_a_parquet_file_is_fitted_through_files(folder, monkeypatch):
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    X, y = waves(N, dtype=np.float32)
    columns = {"a": X[:, 0], "b": X[:, 1], "target": y}
    parquet.write_table(pyarrow.table(columns), folder / "waves.parquet")
    table = datasets.memory_mapped(folder / "waves.parquet", "target")
    memory(monkeypatch)
    filed = LocalKernelRegressor(**SETTINGS).fit(table.X, table.y)
    assert is_mapped(filed.feature_map_.landmarks_)
    arrays = LocalKernelRegressor(**SETTINGS).fit(X, y)
    np.testing.assert_array_equal(filed.predict(X), arrays.predict(X))


# --- files -----------------------------------------------------------------------------------


def test_files_are_gone_and_the_model_can_be_copied_and_saved(folder, monkeypatch):
    X, y = waves(N)
    memory(monkeypatch)
    model = LocalKernelRegressor(**SETTINGS).fit(X, y)
    assert os.listdir(folder) == []
    persistence.save(model, folder / "m.skops")
    for again in (persistence.load(folder / "m.skops"), pickle.loads(pickle.dumps(model))):
        np.testing.assert_array_equal(again.predict(X), model.predict(X))


_BOUNDED = """
import sys, threading, time
import numpy as np
import mercer
from mercer._runtime.machine import held_memory

X, y = np.load(sys.argv[1], mmap_mode="r"), np.load(sys.argv[2])
model = mercer.LocalKernelRegressor(gamma=0.05, leaf_size=100, n_trees=1, random_state=0, n_jobs=1)
model.fit(np.array(X[:3000]), y[:3000]).predict(X[:100])  # what code takes is there now
most, done, before = [0], [], held_memory()

def look():
    while not done:
        most[0] = max(most[0], held_memory() - before)
        time.sleep(0.002)

watcher = threading.Thread(target=look, daemon=True)
watcher.start()
with mercer.config_context(max_memory=int(sys.argv[3])):
    model.fit(X, y)
done.append(True)
watcher.join()
print(most[0], type(model.feature_map_.landmarks_.base).__name__, model.score(X[:5000], y[:5000]))
"""


def test_memory_stays_within_the_bound(folder):
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(300_000, 20)).astype(np.float32)
    np.save(folder / "X.npy", X)
    np.save(folder / "y.npy", np.sin(5 * X[:, 0]) + X[:, 1])
    bound = 24 * 2**20  # as much as the rows
    arguments = [folder / "X.npy", folder / "y.npy", bound]
    command = [sys.executable, "-c", _BOUNDED, *map(str, arguments)]
    told = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
    assert told[1] == "memmap"
    assert int(told[0]) < bound
    assert float(told[2]) > 0.8


def test_memory_for_no_two_leaves_is_refused_in_a_sentence(folder):
    X, y = waves(N, d=200)
    model = LocalKernelRegressor(leaf_size=60, random_state=0, n_jobs=1)
    with (
        config_context(max_memory="1MB"),
        pytest.raises(MemoryError, match=r"a node of two leaves of 60 rows needs .*would fit\."),
    ):
        model.fit(mapped(X, folder), y)


@pytest.mark.skipif(os.name == "nt", reason="a file that is mapped stays")
def test_coefficients_that_were_only_looked_at_leave_no_files(folder):
    kept, X = _Kept(folder, 2, 1, np.dtype(np.float32)), np.ones((4, 2), np.float32)
    leaf = np.arange(4), np.array([4]), np.arange(4.0)[None, :, None], np.full((1, 1, 1), 4.0)
    kept.add(Part(None, *leaf, np.zeros(1), 1, X))
    files = set(os.listdir(folder))
    for _ in range(3):
        np.testing.assert_array_equal(kept.model(1, ())[2].ravel(), np.arange(5))
    assert set(os.listdir(folder)) == files


# --- stopping --------------------------------------------------------------------------------


class _StopAfter:
    """A callback that stops after some calls."""

    def __init__(self, n):
        self.n, self.seen = n, 0

    def setup(self, estimator, context): ...

    def teardown(self, estimator, context): ...

    def on_fit_task_begin(self, estimator, context): ...

    def on_fit_task_end(self, estimator, context):
        self.seen += context.task_name == "iteration"
        return self.seen >= self.n


def interrupting(monkeypatch, after):
    """Interrupt instead of solving a node after some."""
    import mercer.solvers.forest as module

    left, original = [after], module.solve_leaves

    def solve(*args, **kwargs):
        if not left[0]:
            raise KeyboardInterrupt
        left[0] -= 1
        return original(*args, **kwargs)

    monkeypatch.setattr(module, "solve_leaves", solve)


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("after", [0, 2, 9])
def test_an_interrupt_leaves_whole_trees_or_means(after, fit_intercept, folder, monkeypatch):
    X, y = waves(N)
    memory(monkeypatch)
    interrupting(monkeypatch, after)
    model = LocalKernelRegressor(fit_intercept=fit_intercept, **SETTINGS)
    with pytest.raises(KeyboardInterrupt, match="the trees finished so far"):
        model.fit(X, y)
    assert os.listdir(folder) == []
    if after < 9:
        assert len(model.feature_map_.partition_.roots) == 1
    assert not model.converged_
    score = pickle.loads(pickle.dumps(model)).score(X, y)
    if after == 0:
        assert -0.1 < score < 0.5 or not fit_intercept  # means of the nodes
    elif after == 2:
        assert 0.1 < score < 0.9
        assert model.optimality_ == 1.0
    else:
        assert score > 0.9
        assert model.optimality_ < 1e-3


def test_an_interrupt_while_a_solved_node_is_dropped_leaves_means_for_the_others(monkeypatch):
    X, y = waves(N)
    memory(monkeypatch)
    drop = InFiles.done

    def stop(engine, number):
        drop(engine, number)
        raise KeyboardInterrupt

    monkeypatch.setattr(InFiles, "done", stop)
    model = LocalKernelRegressor(**SETTINGS)
    with pytest.raises(KeyboardInterrupt, match="the trees finished so far"):
        model.fit(X, y)
    assert model.score(X, y) > 0


def test_an_interrupt_before_the_first_leaf_leaves_no_model_and_no_files(folder, monkeypatch):
    X, y = waves(N)
    memory(monkeypatch)

    def stop(*args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr("mercer.solvers.forest._Split.__call__", stop)
    model = LocalKernelRegressor(**SETTINGS)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, y)
    assert os.listdir(folder) == []
    assert not hasattr(model, "map_coef_")


def test_a_callback_stops_after_a_node_and_a_monitor_sees_the_leaves_fill(monkeypatch):
    X, y = waves(N)
    memory(monkeypatch)
    monitor = pytest.importorskip("sklearn.callback").ScoringMonitor(scoring="r2")
    settings = {**SETTINGS, "n_trees": 6}
    model = LocalKernelRegressor(**settings).set_callbacks(monitor).fit(X, y)
    scores = [row["r2"] for row in monitor.get_logs().data if row["task_name"] == "iteration"]
    assert len(scores) > len(model.feature_map_.partition_.roots)
    assert scores[0] < 0.9 < scores[-1] == model.score(X, y)
    stopped = LocalKernelRegressor(**settings).set_callbacks(_StopAfter(len(scores) // 2))
    stopped.fit(X, y)
    assert 1 <= len(stopped.feature_map_.partition_.roots) < 6
    assert not stopped.converged_
    assert stopped.score(X, y) > 0.9


def test_posteriors_of_fits_through_files_are_refused_in_a_sentence(folder, monkeypatch):
    X, y = waves(N)
    memory(monkeypatch, 300)
    model = LocalKernelRegressor(**SETTINGS).fit(mapped(X, folder), y)
    assert is_mapped(model.map_coef_)
    with pytest.raises(ValueError, match="return_std=True needs a model fitted in memory"):
        model.predict(X[:5], return_std=True)
