"""An interrupt at any moment of any fit: it acts soon, and what is left is a model or none."""

from __future__ import annotations

import random
import signal
import threading
import time

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from mercer import (
    AutoKernelClassifier,
    AutoKernelRegressor,
    DoublySGDClassifier,
    DoublySGDRegressor,
    DualKernelSVC,
    GradientScaler,
    KernelClassifier,
    KernelRegressor,
    SparseKernelClassifier,
    SparseKernelRegressor,
    TablePreparer,
    maps,
)
from mercer.solvers import (
    BlockCoordinateDescent,
    ConjugateGradient,
    CoordinateDescent,
    DoublySGD,
    PairwiseCD,
    Solver,
    WorkingSet,
)

pytestmark = pytest.mark.filterwarnings("ignore")

_ENDLESS = {"tol": 1e-14, "max_iter": 10**7}
_L1 = {"loss": "squared_hinge", "penalty": "l1", "alpha": 1e-7, **_ENDLESS}
FITS = {
    "cg": lambda: KernelRegressor(solver="cg", alpha=1e-9, **_ENDLESS),
    "cholesky": lambda: KernelRegressor("fourier", n_components=500, solver="cholesky"),
    "exact": lambda: KernelRegressor("exact", solver="cholesky"),
    "exact, cg": lambda: KernelRegressor("exact", solver="cg", alpha=1e-9, **_ENDLESS),
    "blocks": lambda: KernelRegressor("exact", solver="block", alpha=1e-9, **_ENDLESS),
    "newton": lambda: KernelClassifier(loss="logistic", alpha=1e-9, **_ENDLESS),
    "coordinates": lambda: KernelClassifier(solver="cd", **_L1),
    "coordinates in threads": lambda: KernelClassifier(solver="cd", n_jobs=2, **_L1),
    "async": lambda: KernelClassifier(loss="logistic", solver="async", alpha=1e-7, **_ENDLESS),
    "nystroem": lambda: KernelRegressor(maps.Nystroem(landmarks="kmeans", n_components=100)),
    "gammas": lambda: KernelRegressor(gamma_path=[0.1, 1.0], alphas=[1e-6, 1e-4]),
    "tefm": lambda: KernelRegressor("tefm", n_components=10),
    "sparse": lambda: SparseKernelRegressor(max_rounds=10**6, alpha=1e-9),
    "sparse labels": lambda: SparseKernelClassifier("binning", max_rounds=10**6, alpha=1e-9),
    "steps": lambda: DoublySGDRegressor(max_iter=10**6),
    "steps of labels": lambda: DoublySGDClassifier(max_iter=10**6),
    "pairs": lambda: DualKernelSVC(C=1e6, tol=1e-9),
    "automatic": lambda: AutoKernelRegressor(),
    "automatic labels": lambda: AutoKernelClassifier(),
    "scales": lambda: GradientScaler(rounds=50),
    "preparer": lambda: TablePreparer("quantile"),
}


def data(n, d, labels):
    rng = np.random.default_rng(d)
    X = rng.normal(size=(n, d))
    y = np.sin(X[:, 0]) + 0.5 * rng.normal(size=n)
    return X, np.where(y > 0, "up", "down") if labels else y


def interrupted(fit, seconds):
    """Whether an interrupt after so many seconds ended a fit, and the processor time it took."""
    sent = []

    def send():
        sent.append(time.process_time())
        signal.raise_signal(signal.SIGINT)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    timer = threading.Timer(seconds, send)
    try:
        timer.start()
        fit()
        timer.join()
        time.sleep(0.01)
    except KeyboardInterrupt:
        return True, time.process_time() - sent[0]
    finally:
        timer.join()
        signal.signal(signal.SIGINT, before)
    return False, 0.0


def answer(model, X):
    """What a machine says of rows, or None if it says that it is not fitted."""
    try:
        return (model.predict if hasattr(model, "predict") else model.transform)(X)
    except NotFittedError:
        return None


def takes_labels(model):
    return hasattr(model, "classes_") or type(model).__name__.endswith(("Classifier", "SVC"))


@pytest.mark.parametrize("name", FITS)
def test_interrupted_fit_leaves_a_model_or_none(name):
    draw = random.Random(name)
    for seconds in (draw.uniform(0, 0.02), draw.uniform(0.02, 0.2)):
        model = FITS[name]()
        X, y = data(600, 4, takes_labels(model))
        interrupted(lambda model=model, X=X, y=y: model.fit(X, y), seconds)
        said = answer(model, X)
        if said is not None and said.dtype.kind == "f":
            assert np.isfinite(said).all()


@pytest.mark.parametrize("name", FITS)
def test_interrupted_fit_mixes_nothing_with_an_earlier_one(name, monkeypatch):
    model = FITS[name]()
    first, second = data(60, 3, takes_labels(model)), data(300, 3, takes_labels(model))
    quick = {"max_iter": 3, "max_rounds": 2, "random_state": 0}
    known = model.get_params()
    model.set_params(**{key: value for key, value in quick.items() if key in known}).fit(*first)
    before = answer(model, first[0])
    model.set_params(**{key: known[key] for key in quick if key in known})

    def stop(*_, **__):
        raise KeyboardInterrupt

    # All is prepared for the new rows, and nothing is solved.
    for solver in (Solver, BlockCoordinateDescent, ConjugateGradient, CoordinateDescent):
        monkeypatch.setattr(solver, "solve", stop)
        monkeypatch.setattr(solver, "solve_path", stop)
    monkeypatch.setattr(WorkingSet, "solve", stop)
    monkeypatch.setattr(DoublySGD, "step", stop)
    monkeypatch.setattr(PairwiseCD, "prepare", stop)
    try:
        model.fit(*second)
    except KeyboardInterrupt:
        after = answer(model, first[0])
        assert after is None or np.array_equal(after, before)


def test_interrupt_acts_soon_whatever_the_solver_does():
    # A single step on so many rows takes far less than ten seconds of processor time.
    for name in ("cg", "cholesky", "blocks", "newton", "coordinates", "async", "sparse", "steps"):
        model = FITS[name]()
        X, y = data(20_000, 5, takes_labels(model))
        hit, seconds = interrupted(lambda model=model, X=X, y=y: model.fit(X, y), 0.3)
        assert not hit or seconds < 10.0, name


def test_handler_that_raises_ends_a_fit_with_its_own_exception():
    class Stop(Exception):
        pass

    def stop(*_):
        raise Stop

    model = FITS["cg"]()
    X, y = data(2000, 4, labels=False)
    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, 0.1)
    try:
        with pytest.raises(Stop):
            model.fit(X, y)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert answer(model, X) is None
    assert np.isfinite(model.set_params(max_iter=2).fit(X, y).predict(X)).all()


def test_interrupt_in_a_callback_leaves_the_last_iterate():
    class Impatient:
        def __init__(self):
            self.steps = 0

        def setup(self, estimator, context):
            pass

        def teardown(self, estimator, context):
            pass

        def on_fit_task_begin(self, estimator, context, **_):
            pass

        def on_fit_task_end(self, estimator, context, **_):
            self.steps += 1
            if self.steps == 3:
                raise KeyboardInterrupt

    model = FITS["cg"]().set_callbacks(Impatient())
    X, y = data(300, 4, labels=False)
    with pytest.raises(KeyboardInterrupt, match="holds the last iterate"):
        model.fit(X, y)
    assert np.isfinite(model.predict(X)).all()


def test_an_interrupt_between_strengths_leaves_the_model_of_those_before(monkeypatch):
    X = np.random.default_rng(0).normal(size=(60, 3))
    model = KernelRegressor("fourier", alphas=[1e-4, 1e-2, 1.0], solver="cg", random_state=0)
    step, calls = ConjugateGradient.step, []

    def interrupted(self, problem, state):
        calls.append(problem)
        if len(calls) == 4:
            raise KeyboardInterrupt
        return step(self, problem, state)

    monkeypatch.setattr(ConjugateGradient, "step", interrupted)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, X[:, 0])
    assert len(calls) == 4
    assert model.path_["seconds"].shape == (3,)
    assert np.isfinite(model.predict(X)).all()
