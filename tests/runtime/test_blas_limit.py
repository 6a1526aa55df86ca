"""BLAS runs on one thread while mercer computes, and afterwards on as many as before."""

import os
import signal
import threading
from contextlib import ExitStack

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from mercer import (
    AutoKernelClassifier,
    AutoKernelRegressor,
    DoublySGDRegressor,
    DualKernelSVC,
    KernelClassifier,
    KernelRegressor,
    TablePreparer,
    maps,
)
from mercer._runtime import threads
from mercer._runtime.threads import one_blas_thread, tile_threads
from mercer.unsupervised import KernelKMeans, KernelPCA, OneClassKernel


def counts():
    return {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"}


@pytest.fixture(autouse=True)
def _two_threads():
    with threadpool_limits(2, user_api="blas"):
        yield
        assert counts() == {2}


# -- the limit -------------------------------------------------------------------------------


def test_the_number_of_threads_is_restored_after_the_last_context():
    with one_blas_thread():
        with one_blas_thread(1):
            assert counts() == {1}
        assert counts() == {1}
    assert counts() == {2}


@pytest.mark.parametrize("first_out", [0, 1])
def test_a_context_in_another_thread_keeps_the_limit(first_out):
    may_leave, inside = [threading.Event(), threading.Event()], threading.Barrier(3, timeout=20)

    def work(number):
        with one_blas_thread():
            inside.wait()
            may_leave[number].wait(20)

    workers = [threading.Thread(target=work, args=(number,)) for number in range(2)]
    for worker in workers:
        worker.start()
    inside.wait()
    for number in (first_out, 1 - first_out):
        assert counts() == {1}
        may_leave[number].set()
        workers[number].join()
    assert counts() == {2}


def test_an_error_ends_the_limit():
    with pytest.raises(KeyboardInterrupt), one_blas_thread():
        raise KeyboardInterrupt
    assert counts() == {2}


def test_a_limit_of_the_user_stays_and_bounds_the_tiles(monkeypatch):
    monkeypatch.setattr(threads, "n_threads", lambda n_jobs=None: n_jobs or 8)
    with one_blas_thread():
        assert tile_threads() == 2  # as many as BLAS had
    with threadpool_limits(1, user_api="blas"):
        with one_blas_thread():
            assert tile_threads() == 1
        assert counts() == {1}


def test_a_number_that_the_user_sets_meanwhile_stays():
    with ExitStack() as outer:
        with one_blas_thread():
            outer.enter_context(threadpool_limits(3, user_api="blas"))
        assert counts() == {3}
        threadpool_limits(2, user_api="blas")
        outer.pop_all()


def test_inner_contexts_cannot_take_more_threads_than_outer_ones(monkeypatch):
    monkeypatch.setattr(threads, "n_threads", lambda n_jobs=None: n_jobs or 8)
    with threadpool_limits(8, user_api="blas"), one_blas_thread(3):
        with one_blas_thread(8):
            assert tile_threads() == 3
        with one_blas_thread(2):
            assert tile_threads() == 2
        with one_blas_thread(None):
            assert tile_threads() == 3


@pytest.mark.skipif(not hasattr(os, "register_at_fork"), reason="no forks here")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_a_forked_process_does_not_wait_for_a_thread_of_its_parent():
    with threads._LIMIT._lock:  # a thread enters or leaves in this moment
        child = os.fork()
        if not child:
            signal.alarm(20)
            with one_blas_thread():
                os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


# -- the doors -------------------------------------------------------------------------------


class Seen:
    """A Gaussian kernel that records the threads of BLAS when it is called."""

    def __init__(self):
        self.numbers = set()

    def __call__(self, X, Y):
        self.numbers |= counts()
        apart = np.square(X[:, None] - Y).sum(axis=2)
        return np.exp(-0.5 * apart)


X = np.random.default_rng(0).normal(size=(60, 2))
y = np.sin(X[:, 0])
DOORS = {
    "regressor": lambda k: KernelRegressor("exact", kernel=k).fit(X, y).predict,
    "classifier": lambda k: KernelClassifier("exact", kernel=k).fit(X, y > 0).predict_proba,
    "deviations": lambda k: (
        lambda rows: KernelRegressor("exact", kernel=k).fit(X, y).predict(rows, return_std=True)
    ),
    "samples": lambda k: KernelRegressor("exact", kernel=k).fit(X, y).sample_y,
    "landmarks": lambda k: KernelRegressor("nystroem", kernel=k, n_components=9).fit(X, y).predict,
    "map": lambda k: maps.Nystroem(k, n_components=9).fit(X).transform,
    "dual": lambda k: DualKernelSVC(kernel=k).fit(X, y > 0).decision_function,
    "components": lambda k: KernelPCA(2, kernel=k).fit(X).transform,
    "clusters": lambda k: KernelKMeans(2, kernel=k).fit(X).predict,
    "outliers": lambda k: OneClassKernel(kernel=k).fit(X).score_samples,
}


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.filterwarnings("ignore")
def test_fits_and_predictions_hold_the_limit(door, monkeypatch):
    kernel, blas_calls = Seen(), []
    enter = threads._LIMIT.enter
    monkeypatch.setattr(threads._LIMIT, "enter", lambda: (blas_calls.append(0), enter()))
    predict = DOORS[door](kernel)
    n_of_fit = len(blas_calls)
    predict(np.repeat(X, 20, axis=0))
    assert 0 < n_of_fit < len(blas_calls) or door == "deviations"
    assert 1 in kernel.numbers


@pytest.mark.parametrize("model", [AutoKernelRegressor, AutoKernelClassifier])
def test_automatic_fits_hold_the_limit(model, monkeypatch):
    seen = set()
    search = model._search_and_fit

    def watched(self, *given):
        seen.update(counts())
        search(self, *given)

    monkeypatch.setattr(model, "_search_and_fit", watched)
    model(random_state=0, time_budget=1).fit(X, y if model is AutoKernelRegressor else y > 0)
    assert seen == {1}


def test_preparation_and_batches_hold_the_limit(monkeypatch):
    seen = []
    enter = threads._LIMIT.enter
    monkeypatch.setattr(threads._LIMIT, "enter", lambda: (seen.append(0), enter()))
    for fit in (
        lambda: TablePreparer().fit(X),
        lambda: KernelRegressor("fourier", n_components=9).partial_fit(X, y).predict(X),
        lambda: DoublySGDRegressor().partial_fit(X, y),
    ):
        seen.clear()
        fit()
        assert seen
