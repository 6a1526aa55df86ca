"""Tables that memory has no room to treat: read in pieces, fitted through files, the same model."""

import os
import subprocess
import sys
import tempfile

import numpy as np
import pytest
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline

from mercer import (
    AutoKernelClassifier,
    AutoKernelRegressor,
    GradientScaler,
    KernelRegressor,
    LocalKernelRegressor,
    TablePreparer,
)
from mercer._runtime.rows import PreparedRows
from mercer.auto.tuning import TUNING


@pytest.fixture
def table(tmp_path, monkeypatch):
    """A memory map of numbers of which some are missing, and waves along it."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr("mercer._runtime.rows._LARGE", 2**10)
    rng = np.random.default_rng(0)
    X = rng.uniform(-3, 3, size=(2500, 3))
    X[:, 2] = np.exp(X[:, 2])
    X[rng.uniform(size=2500) < 0.05, 1] = np.nan
    np.save(tmp_path / "X.npy", X)
    y = np.sin(X[:, 0]) + np.where(np.isnan(X[:, 1]), 1.0, 0.2 * X[:, 1])
    return np.load(tmp_path / "X.npy", mmap_mode="r"), y


@pytest.fixture
def no_room(monkeypatch):
    """As if memory had no room for a treated table."""
    monkeypatch.setattr("mercer.preparation.pieces.available_memory", lambda: 200_000)


@pytest.mark.parametrize("numbers", ["robust", "standard", "quantile"])
@pytest.mark.parametrize("dtype", [None, "float32"])
def test_rows_are_treated_when_they_are_read(numbers, dtype, table, monkeypatch):
    X, y = table
    settings = {"numbers": numbers, "dtype": dtype, "max_integers": 5, "random_state": 0}
    whole = TablePreparer(**settings).fit_transform(np.array(X), y)
    monkeypatch.setattr("mercer.preparation.pieces.available_memory", lambda: 200_000)
    preparer = TablePreparer(**settings)
    pieces = preparer.fit_transform(X, y)
    assert isinstance(pieces, PreparedRows)
    assert (pieces.shape, pieces.dtype, pieces.nbytes) == (whole.shape, whole.dtype, whole.nbytes)
    for rows in (slice(0, 70), np.array([3, 2499, 4])):
        np.testing.assert_array_equal(pieces[rows], whole[rows])
    np.testing.assert_array_equal(preparer.transform(X)[5:9], whole[5:9])
    scaler = GradientScaler(random_state=0).fit(whole, y)
    by_pieces = GradientScaler(random_state=0).fit(pieces, y)
    np.testing.assert_array_equal(by_pieces.matrix_, scaler.matrix_)
    np.testing.assert_array_equal(by_pieces.transform(pieces)[7:9], scaler.transform(whole)[7:9])


def test_a_sample_tells_the_columns_of_many_rows(table, monkeypatch):
    X, y = table
    whole = TablePreparer(random_state=0).fit_transform(np.array(X), y)
    monkeypatch.setattr("mercer.preparation.pieces.available_memory", lambda: 200_000)
    monkeypatch.setattr("mercer.preparation.pieces._SAMPLE", 500)
    sampled = TablePreparer(random_state=0).fit_transform(X, y)[:]
    assert sampled.shape == whole.shape
    assert 0 < np.abs(sampled - whole).max() < 0.5


def test_frames_and_words_are_refused_where_they_do_not_fit(table, no_room, monkeypatch):
    pandas = pytest.importorskip("pandas")
    monkeypatch.setattr("mercer._runtime.arrays.available_memory", lambda: 100_000)
    X, y = table
    with pytest.raises(MemoryError, match="the treatment of 2500 rows of 3 columns needs"):
        TablePreparer().fit(pandas.DataFrame(np.array(X)), y)


def test_other_estimators_get_all_rows_or_a_sentence(table, no_room, monkeypatch):
    X, y = table
    model = make_pipeline(TablePreparer(), Ridge()).fit(X, y)
    assert model.score(X, y) > 0.1
    monkeypatch.setattr("mercer._runtime.arrays.available_memory", lambda: 50_000)
    with pytest.raises(MemoryError, match="a prepared copy of 2500 rows of 4 inputs needs"):
        model.predict(X)


@pytest.mark.parametrize(
    "model",
    [
        LocalKernelRegressor(gamma=0.5, leaf_size=200, scale=False),
        KernelRegressor("binning", scale=False),
    ],
)
def test_models_go_through_the_rows_behind_a_preparer(model, table, no_room):
    X, y = table
    model = model.set_params(random_state=0)
    pipeline = make_pipeline(TablePreparer(dtype="float64"), model).fit(X, y)
    arrays = TablePreparer(dtype="float64").fit(np.array(X[:200]), y[:200])
    arrays.__dict__.update(vars(pipeline[0]))
    twin = model.fit(np.asarray(arrays._transformed(np.array(X))), y)
    np.testing.assert_allclose(pipeline.predict(X), twin.predict(arrays._transformed(X[:])), 1e-6)


def test_an_automatic_model_of_such_a_table_is_that_of_the_array(table, no_room, monkeypatch):
    X, y = table
    monkeypatch.setattr(TUNING, "exact_rows", 500)  # so that leaves are solved
    filed = AutoKernelRegressor(random_state=0).fit(X, y)
    machine = filed.kernel_machine_
    assert isinstance(machine, LocalKernelRegressor)
    assert isinstance(machine.feature_map_.landmarks_.base, np.memmap)
    guesses = filed.predict(X)
    monkeypatch.undo()
    monkeypatch.setattr(TUNING, "exact_rows", 500)
    arrays = AutoKernelRegressor(random_state=0).fit(np.array(X), y)
    assert arrays.best_settings_ == filed.best_settings_
    error = np.sqrt(np.mean((guesses - arrays.predict(X)) ** 2))
    assert error < 0.05 * y.std()


def test_classes_are_told_apart_from_such_a_table(table, no_room, monkeypatch):
    X, y = table
    monkeypatch.setattr(TUNING, "exact_rows", 500)
    labels = np.where(y > 0, "up", "down")
    model = AutoKernelClassifier(random_state=0).fit(X, labels)
    assert model.score(X, labels) > 0.9
    assert model.predict_proba(X).shape == (2500, 2)


_BOUNDED = """
import sys, threading, time
import numpy as np
import mercer
from mercer._runtime.machine import held_memory
from mercer.auto.tuning import TUNING
from mercer.auto.tuning import TUNING

X, y = np.load(sys.argv[1], mmap_mode="r"), np.load(sys.argv[2])
model = mercer.AutoKernelRegressor(random_state=0, n_jobs=1)
most_exact, TUNING.exact_rows = TUNING.exact_rows, 1000
model.fit(np.array(X[:3000]), y[:3000]).predict(X[:100])  # modules of a fit are loaded now
TUNING.exact_rows = most_exact
TUNING.fewer_trees = TUNING.fewest_trees = 1  # one takes the memory of four
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
print(most[0], model.score(np.array(X[:3000]), y[:3000]))
"""


@pytest.mark.slow
def test_memory_stays_within_the_bound(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(220_000, 16)).astype(np.float32)
    np.save(tmp_path / "X.npy", X)
    np.save(tmp_path / "y.npy", np.sin(5 * X[:, 0]) + X[:, 1])  # no noise: leaves are in float64
    bound = 100 * 2**20  # while it is treated in memory, a table takes 107 MB
    arguments = [tmp_path / "X.npy", tmp_path / "y.npy", bound]
    command = [sys.executable, "-c", _BOUNDED, *map(str, arguments)]
    returned = {
        "MALLOC_MMAP_THRESHOLD_": "65536",
        "MALLOC_ARENA_MAX": "1",
    }  # what is freed, at once
    environment = {**os.environ, **returned}
    run = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    told = run.stdout.split()
    assert int(told[0]) < bound
    assert float(told[1]) > 0.95
