"""Normal equations in pieces of rows: equal to those in one piece, in little memory."""

import tracemalloc
import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from _systems import make
from mercer.designs import Lazy
from mercer.equations import NormalEquations, equations, equations_of
from mercer.losses import Squared
from mercer.maps import RandomFourier
from mercer.penalties import L2
from mercer.problem import Problem
from mercer.solvers import BlockCoordinateDescent

BLOCKS = [np.arange(0, 9), np.arange(9, 15)]


def lazy(rng, n=300, n_outputs=2, n_columns=15, dtype=np.float64, weights=None):
    """A problem whose features are generated at each use."""
    X = rng.normal(size=(n, 3)).astype(dtype)
    map_ = RandomFourier(gamma=0.3, n_components=n_columns, random_state=0).fit(X)
    y = rng.normal(size=(n, n_outputs)) + X[:, :1]
    return Problem(Lazy(X, map_, n_columns, dtype, n_jobs=1), y, Squared(), L2(1e-3), weights)


def steps(problem, room):
    """Every number that an epoch computes with so many bytes for the columns of a block."""
    system = equations_of(problem, np.array([0.1, 0.01]), 2)
    system.hold(room)
    system.start(np.ones(system.shape))
    system.begin_change()
    found = []
    for J in BLOCKS:
        block = system.block(J)
        found += [block.rhs, block.gram]
        system.move(block, np.linalg.solve(block.matrix(0.1), block.rhs))
    system.end_change(2)
    found += [span.gram for span in system.spans(None)]
    system.combine(None, [(0.5 * np.eye(system.width), None)] * 2)
    residual = system.current_residual(BLOCKS)
    return [*found, residual, system.values(), system.relative(residual), *system.state.values()]


@pytest.mark.parametrize("room", [0, 5000, 20_000], ids="{} bytes".format)
@pytest.mark.parametrize("kind", ["lazy", "features", "nystroem"])
@pytest.mark.parametrize("weighted", [False, True], ids=["", "weighted"])
def test_an_epoch_in_pieces_equals_one_in_one_piece(kind, room, weighted, rng, monkeypatch):
    n = 300 if kind == "lazy" else 44
    weights = rng.uniform(0.5, 1.5, n) if weighted else None
    if kind == "lazy":
        problem = lazy(rng, weights=weights)
    else:
        problem = make(kind, rng, weights=weights, n_outputs=2)
    whole = steps(problem, np.inf)
    monkeypatch.setattr("mercer._runtime.arrays.CHUNK_BYTES", 1000)
    for one, other in zip(steps(problem, room), whole, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12)


def fit(problem, **settings):
    settings = {"block_size": 9, "max_iter": 100} | settings
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return BlockCoordinateDescent(**settings).solve(problem)


def test_states_are_float32_for_large_float32_problems_alone(rng, monkeypatch):
    kinds = {dtype: lazy(rng, dtype=dtype) for dtype in (np.float32, np.float64)}
    assert equations(kinds[np.float32]).kind == np.float64
    monkeypatch.setattr("mercer.equations.normal._LARGE", 100)
    for dtype, problem in kinds.items():
        system = equations(problem)
        system.start(np.zeros(system.shape))
        system.begin_change()
        assert {system.kind, system.state["rows0"].dtype, system.journal["rows0"].dtype} == {
            np.dtype(dtype)
        }


@pytest.mark.parametrize("accelerated", [False, True])
def test_a_float32_state_reaches_a_small_residual(accelerated, rng, monkeypatch):
    problem = lazy(rng, n=3000, n_outputs=5, dtype=np.float32)
    settings = {"tol": 1e-6, "accelerated": accelerated}
    wide = fit(problem, **settings)
    monkeypatch.setattr("mercer.equations.normal._LARGE", 100)
    found = fit(problem, **settings)
    assert found.converged
    assert abs(found.n_iter - wide.n_iter) <= 1
    assert equations(problem).relative(equations(problem).residual(found.coef)).max() < 4e-6
    np.testing.assert_allclose(found.coef, wide.coef, atol=2e-5 * np.abs(wide.coef).max())


def test_a_fit_with_a_float32_state_resumes(rng, monkeypatch, tmp_path):
    monkeypatch.setattr("mercer.equations.normal._LARGE", 100)
    problem = lazy(rng, dtype=np.float32)
    settings = {"tol": 1e-5, "checkpoint": tmp_path, "checkpoint_every": 1}
    whole = fit(problem, tol=1e-5)

    def stop(state):
        return state.iteration == 2

    solver = BlockCoordinateDescent(block_size=9, max_iter=100, **settings)
    solver.solve(problem, None, stop)
    np.testing.assert_array_equal(fit(problem, **settings).coef, whole.coef)


def test_an_epoch_takes_few_arrays_of_outputs(rng, monkeypatch):
    n, n_outputs = 20_000, 160
    monkeypatch.setattr("mercer.equations.normal._LARGE", 100)
    monkeypatch.setattr("mercer.solvers.block.solver._HELD", 0.0)
    monkeypatch.setattr("mercer._runtime.arrays.CHUNK_BYTES", 2**18)
    problem = lazy(rng, n, n_outputs, 200, np.float32)
    settings = {"block_size": 100, "max_iter": 1, "tol": 0.0, "hold": 0}
    fit(problem, **settings)
    tracemalloc.start()
    fit(problem, **settings)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    # The state and the change of the epoch; columns of a block would take two thirds of an array.
    assert peak < 2.5 * 4 * n * n_outputs


def test_a_block_need_not_fit_into_memory(rng, monkeypatch):
    problem = lazy(rng, n=5000, n_columns=100)
    settings = {"block_size": 50, "max_iter": 5, "tol": 0.0, "accelerated": False}
    expected = fit(problem, **settings)
    held = []
    hold = NormalEquations.hold
    monkeypatch.setattr(NormalEquations, "available_memory", lambda self: 1_000_000)
    monkeypatch.setattr(NormalEquations, "hold", lambda self, n: (held.append(n), hold(self, n)))
    found = fit(problem, **settings)
    assert held
    assert held[0] < 8 * 5000 * 50
    np.testing.assert_allclose(found.coef, expected.coef, rtol=1e-9, atol=1e-12)
