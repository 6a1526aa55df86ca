"""Many at once: threads, forks, worker processes and writers of one file do as one alone does."""

from __future__ import annotations

import gc
import os
import pickle
import subprocess
import sys
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import joblib
import numpy as np
import pytest

from _faults import COMMANDS, finish, halves, prepare, start
from mercer import (
    DualKernelSVC,
    KernelClassifier,
    KernelRegressor,
    SparseKernelRegressor,
    datasets,
    maps,
    persistence,
)
from mercer.solvers import BlockCoordinateDescent

FITS = {
    "binning": lambda: KernelRegressor(n_components=32, random_state=0, n_jobs=2),
    "fourier": lambda: KernelRegressor("fourier", n_components=64, random_state=0, n_jobs=2),
    "exact": lambda: KernelRegressor("exact", n_jobs=2),
    "perceptron": lambda: KernelRegressor("perceptron", n_components=32, random_state=0, n_jobs=2),
    "logistic": lambda: KernelClassifier(loss="logistic", n_components=32, random_state=0),
    "sparse": lambda: SparseKernelRegressor(max_rounds=2, n_new=32, random_state=0, n_jobs=1),
    "pairs": lambda: DualKernelSVC(n_jobs=2),
    "tefm": lambda: KernelRegressor("tefm", n_components=8, random_state=0, n_jobs=2),
}


def data(labels=False):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 3))
    y = np.sin(2 * X[:, 0]) + X[:, 1]
    return X, y > 0 if labels else y


def fitted(name):
    """What a fitted machine says of its own rows."""
    X, y = data(labels=name in ("logistic", "pairs"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = FITS[name]().fit(X, y)
    return model.decision_function(X) if hasattr(model, "decision_function") else model.predict(X)


def test_eight_fits_in_threads_are_what_they_are_alone():
    alone = {name: fitted(name) for name in FITS}
    with ThreadPoolExecutor(8) as pool:
        for name, together in zip(FITS, pool.map(fitted, FITS), strict=True):
            np.testing.assert_allclose(together, alone[name], rtol=1e-9, atol=1e-12, err_msg=name)


@pytest.mark.parametrize("name", FITS)
def test_one_model_predicts_in_many_threads_as_in_one(name):
    """Each thread has rows of its own; none waits for another to have predicted first."""
    X, y = data(labels=name in ("logistic", "pairs"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = FITS[name]().fit(X, y)
    answers = model.decision_function if hasattr(model, "decision_function") else model.predict
    parts = [X[first : first + 12] for first in range(16)]
    together = pickle.loads(pickle.dumps(model))  # of which nothing is known yet
    predict = getattr(together, answers.__name__)
    begin = threading.Barrier(8)

    def work(thread):
        begin.wait()
        return [predict(part) for part in parts[thread::8] for _ in range(5)]

    with ThreadPoolExecutor(8) as pool:
        for thread, found in enumerate(pool.map(work, range(8))):
            alone = [answers(part) for part in parts[thread::8] for _ in range(5)]
            np.testing.assert_array_equal(found, alone)


FORKED = """
import os, sys, warnings
warnings.simplefilter("ignore")
sys.path[:0] = sys.argv[1:]
import numpy as np
from test_faults_together import FITS, data, fitted

X, _ = data()
model = FITS["fourier"]().fit(*data())
before, alone = model.predict(X), fitted("binning")
child = os.fork()
if not child:
    same = np.array_equal(model.predict(X), before) and np.allclose(fitted("binning"), alone)
    os._exit(0 if same else 3)
_, status = os.waitpid(child, 0)
assert np.array_equal(model.predict(X), before)
sys.exit(os.waitstatus_to_exitcode(status))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_fork_after_a_fit_can_predict_and_fit():
    arguments = [sys.executable, "-c", FORKED, str(Path(__file__).parent), *sys.path]
    child = subprocess.run(arguments, capture_output=True, text=True, timeout=300, check=False)
    assert child.returncode == 0, child.stderr


def test_workers_of_joblib_return_the_models_of_one_process():
    names = ["binning", "exact", "sparse", "pairs"]
    alone = {name: fitted(name) for name in names}
    there = joblib.Parallel(n_jobs=2)(joblib.delayed(fitted)(name) for name in names)
    for name, answers in zip(names, there, strict=True):
        np.testing.assert_allclose(answers, alone[name], rtol=1e-9, atol=1e-12, err_msg=name)


def test_model_pickled_in_another_process_answers_alike(tmp_path):
    X, y = data()
    model = KernelRegressor(n_components=16, random_state=0).fit(X, y)
    (tmp_path / "model.pickle").write_bytes(pickle.dumps(model))
    np.save(tmp_path / "X.npy", X)
    code = (
        "import pickle, numpy as np\n"
        "model = pickle.load(open('model.pickle', 'rb'))\n"
        "np.save('answer.npy', model.predict(np.load('X.npy')))"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=environment, check=True)
    np.testing.assert_array_equal(np.load(tmp_path / "answer.npy"), model.predict(X))


def test_collecting_garbage_all_the_time_changes_nothing():
    alone = {name: fitted(name) for name in ("binning", "sparse", "pairs")}
    threshold = gc.get_threshold()
    gc.set_threshold(20, 2, 2)
    try:
        for name, answers in alone.items():
            np.testing.assert_allclose(fitted(name), answers, rtol=1e-12, err_msg=name)
    finally:
        gc.set_threshold(*threshold)


# --- writers of one file ---------------------------------------------------------------------


def test_model_file_of_many_writers_is_always_whole(tmp_path):
    X, y = data()
    models = [KernelRegressor(n_components=8, random_state=seed).fit(X, y) for seed in range(3)]
    answers = [model.predict(X[:5]).tolist() for model in models]
    path = tmp_path / "m.skops"
    persistence.save(models[0], path)
    stop = threading.Event()

    def write(model):
        while not stop.is_set():
            persistence.save(model, path)

    with ThreadPoolExecutor(3) as pool:
        writers = [pool.submit(write, model) for model in models]
        try:
            for _ in range(10):
                assert persistence.load(path).predict(X[:5]).tolist() in answers
        finally:
            stop.set()
        for writer in writers:
            writer.result()
    assert list(tmp_path.iterdir()) == [path]


def test_two_mappings_of_one_table_at_once_are_both_whole(tmp_path):
    prepare(tmp_path, n=3000)
    table = datasets.read(tmp_path / "waves.parquet", "y")
    for attempt in range(5):
        place = tmp_path / f"mapped {attempt}"
        with ThreadPoolExecutor(4) as pool:
            jobs = [
                pool.submit(datasets.memory_mapped, tmp_path / "waves.parquet", "y", folder=place)
                for _ in range(4)
            ]
            for job in jobs:
                np.testing.assert_array_equal(job.result().X, table.X)
        assert sorted(path.name[:2] for path in place.iterdir()) == ["X-", "y-"]


def test_two_fits_with_one_checkpoint_end_in_the_same_model(tmp_path):
    X, y = data()

    def fit(_):
        solver = BlockCoordinateDescent(
            block_size=20, checkpoint=tmp_path, checkpoint_every=1, tol=1e-8, max_iter=500
        )
        map_ = maps.ExactKernel(gamma=0.5)
        return KernelRegressor(map_, solver=solver, alpha=1e-3).fit(X, y).predict(X)

    with ThreadPoolExecutor(2) as pool:
        one, other = pool.map(fit, range(2))
    np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


@pytest.mark.slow
def test_commands_that_add_to_one_record_file_mix_no_lines(tmp_path):
    prepare(tmp_path, n=200)
    children = [start(tmp_path, COMMANDS["compare"]) for _ in range(2)]
    for child in children:
        assert finish(child).status == 0
    assert halves(tmp_path) == []
    lines = (tmp_path / "results" / "compare-waves.jsonl").read_text().splitlines()
    assert len(lines) == 2 * 3
