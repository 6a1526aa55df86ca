"""Block coordinate descent over shards and over all rows, for tests of both."""

from __future__ import annotations

import warnings
from functools import partial

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from _shards import UNEVEN, N, cut, inputs, pair, target
from mercer import losses, maps, penalties, solvers
from mercer.designs import KernelColumns
from mercer.distributed import Here, Run
from mercer.distributed.parts import DesignFacts, DesignPart
from mercer.distributed.problem import RemoteDesign, RemoteProblem
from mercer.estimators.preprocessing import Preprocessing
from mercer.problem import Problem

KINDS = ("features", "nystroem", "exact")
ALPHAS = [0.3, 0.02, 0.1]
EDGES = [np.linspace(0, N, q + 1).astype(int).tolist() for q in range(1, 9)]


def make(kind, rng, n_outputs=0, **settings):
    """The problem of all rows and the one over shards; landmarks of "nystroem" are 25 rows."""
    if kind == "exact":
        return _exact(rng, n_outputs, **settings)
    if kind == "features":
        return pair(rng, losses.Squared(), n_outputs, **settings)
    landmarks = maps.Nystroem("gaussian", gamma=0.3, n_components=25, whiten=False, random_state=0)

    def penalty(map_):
        return penalties.RKHSNorm(0.02, KernelColumns(map_.landmarks_, map_.kernel_), 0.1)

    return pair(rng, losses.Squared(), n_outputs, name=landmarks, penalty=penalty, **settings)


def _exact(
    rng,
    n_outputs=0,
    *,
    weights=None,
    edges=UNEVEN,
    sparse=False,
    fit_intercept=True,
    dtype=np.float64,
    engine=None,
):
    X = inputs(rng, sparse).astype(dtype)
    y, coding = target(rng, X, losses.Squared(), n_outputs)
    counted = np.ones(N, dtype=bool) if weights is None else weights > 0
    kept = None if weights is None else weights[counted]
    map_ = maps.ExactKernel("gaussian", gamma=0.3).fit(X[counted])
    design, loss = KernelColumns(X[counted], map_.kernel_), losses.Squared()
    penalty = penalties.RKHSNorm(0.02, design)
    local = Problem(design, coding.apply(y)[counted], loss, penalty, kept, fit_intercept)
    mean_weight = 1.0 if kept is None else float(kept.mean())
    prepared = Preprocessing(None, map_)
    n = int(counted.sum())
    facts = DesignFacts(prepared, coding, loss, n, mean_weight, dtype, fit_intercept)
    engine = (engine or partial(Here, n_workers=2))(cut(X, y, weights, edges))
    remote = RemoteDesign(facts)
    penalty = penalties.RKHSNorm(0.02, remote)
    return local, RemoteProblem(Run(engine, DesignPart, facts), facts, penalty, remote)


def some_weights(rng):
    weights = rng.uniform(0.5, 3.0, size=N)
    weights[::7] = 0.0
    return weights


def descend(problem, n_epochs=4, alphas=ALPHAS, block_size=7, callback=None, **settings):
    """So many epochs of the plain form, for several strengths."""
    settings = {"tol": 0.0, "accelerated": False} | settings
    solver = solvers.BlockCoordinateDescent(max_iter=n_epochs, block_size=block_size, **settings)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return solver.solve_path(problem, alphas, callback)


def run_of(problem, **settings):
    """Results, and the run of the equations at the end."""
    runs = []
    results = descend(problem, callback=lambda state: runs.append(state.system.run), **settings)
    return results, runs[-1]


def assert_same(results, expected, tolerance=1e-10):
    for one, other in zip(results, expected, strict=True):
        assert one.n_iter == other.n_iter
        scale = np.abs(other.coef).max()
        np.testing.assert_allclose(one.coef, other.coef, rtol=0, atol=tolerance * scale)


def spoilt(value):
    """A state whose matrices are off by one."""
    if isinstance(value, tuple):
        each = map(spoilt, value)
        return tuple(each) if type(value) is tuple else type(value)(*each)
    return value + 1.0 if np.ndim(value) == 2 else value


def interrupting(after):
    def callback(state):
        if state.n_blocks >= after:
            raise KeyboardInterrupt

    return callback
