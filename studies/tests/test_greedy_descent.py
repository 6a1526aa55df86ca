"""Laws of asynchronous greedy coordinate descent: the plain algorithm, other threads, gaps."""

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from mercer.designs import Dense
from mercer.kernels import Callable, Gaussian
from mercer.losses import SquaredHinge
from mercer.penalties import L2
from mercer.problem import Problem
from mercer.solvers import BoxDual, NewtonCG
from mercer_studies.asydsskl.greedy import AsyncGreedyCD

KERNEL = Gaussian(0.3)
DUALS = {
    "hinge": lambda y: BoxDual.hinge(y, 3.0),
    "squared_hinge": lambda y: BoxDual.squared_hinge(y, 3.0),
    "weighted": lambda y: BoxDual.hinge(y, np.linspace(0, 4, len(y))),
    "weighted squares": lambda y: BoxDual.squared_hinge(y, np.linspace(0, 4, len(y))),
}


def two_classes(n=300, d=3, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    y = np.where(np.sin(2 * X[:, 0]) + X[:, 1] + 0.3 * rng.normal(size=n) > 0.2, 1.0, -1.0)
    return X, y


def greedy(K, dual, n_updates):
    """The paper's descent with one thread, as plainly as can be."""
    b = np.zeros(len(K))
    for _ in range(n_updates):
        h = K @ b + dual.extra * b + dual.linear
        i = np.argmax(np.abs(np.clip(b - h, dual.lower, dual.upper) - b))
        to = b[i] - h[i] / (K[i, i] + dual.extra[i])
        b[i] = np.clip(to, dual.lower[i], dual.upper[i])
    return b


@pytest.mark.parametrize("name", DUALS)
def test_greedy_descent_with_one_variable_at_a_time_is_the_plain_algorithm(name):
    X, y = two_classes(120)
    dual, K = DUALS[name](y), KERNEL(X)
    solver = AsyncGreedyCD(tol=0.0, max_iter=60, block_size=1, n_jobs=1, dtype="float64")
    with pytest.warns(ConvergenceWarning):
        found = solver.solve(dual, KERNEL, X)
    assert found.n_iter == 60
    np.testing.assert_allclose(found.b, greedy(K, dual, 60), atol=1e-10)


@pytest.mark.parametrize("name", DUALS)
@pytest.mark.parametrize("block_size", [1, 2, 16])
def test_one_thread_never_raises_the_objective_and_reaches_any_gap(name, block_size):
    X, y = two_classes()
    dual = DUALS[name](y)
    solver = AsyncGreedyCD(tol=1e-9, block_size=block_size, n_jobs=1, dtype="float64")
    values = []
    found = solver.solve(
        dual, KERNEL, X, lambda state: values.append(dual.value(state.b, state.sums))
    )
    objective = [row.objective for row in found.trace]
    assert len(values) == len(objective) - 1 > 3
    assert np.all(np.diff(objective) <= 1e-12)
    assert found.converged
    assert -1e-9 < found.dual_gap <= 1e-6 * found.objective
    np.testing.assert_allclose(found.sums, KERNEL(X) @ found.coef, atol=1e-8)
    assert np.all((found.b >= dual.lower) & (found.b <= dual.upper))


@pytest.mark.parametrize("block_size", [1, 16])
@pytest.mark.parametrize("n_jobs", [2, 3])
@pytest.mark.parametrize("partition", ["random", "kmeans"])
def test_more_threads_reach_the_same_objective(n_jobs, partition, block_size):
    X, y = two_classes(800)
    dual = BoxDual.hinge(y, 3.0)
    one = AsyncGreedyCD(tol=1e-6, n_jobs=1, dtype="float64").solve(dual, KERNEL, X)
    more = AsyncGreedyCD(
        tol=1e-6,
        block_size=block_size,
        n_jobs=n_jobs,
        partition=partition,
        dtype="float64",
        random_state=0,
    ).solve(dual, KERNEL, X)
    assert more.converged
    assert more.objective == pytest.approx(one.objective, rel=1e-6)
    np.testing.assert_allclose(more.sums, KERNEL(X) @ more.coef, atol=1e-8)
    np.testing.assert_allclose(more.sums, one.sums, atol=1e-4)


def test_squared_hinge_without_intercept_is_newton_on_the_primal():
    X, y = two_classes(150)
    C, K = 2.0, KERNEL(X) + 1e-10 * np.eye(150)
    found = AsyncGreedyCD(tol=1e-10, n_jobs=1).solve(BoxDual.squared_hinge(y, C), "precomputed", K)
    # f = K c with |f|^2 = c'Kc is linear in the rows of the Cholesky factor of K.
    problem = Problem(
        Dense(np.linalg.cholesky(K)), y, SquaredHinge(), L2(1 / (C * 150)), None, False
    )
    primal = NewtonCG(tol=1e-12, max_iter=200).solve(problem)
    np.testing.assert_allclose(problem.responses(primal.coef), found.sums, atol=1e-6)
    assert C * 150 * problem.value(primal.coef) == pytest.approx(found.objective, rel=1e-9)


def test_problems_on_one_machine_share_kernel_rows():
    X, y = two_classes()
    machine = AsyncGreedyCD(n_jobs=1).prepare(KERNEL, X)
    first = machine.solve(BoxDual.hinge(y, 3.0))
    again = machine.solve(BoxDual.hinge(y, 3.0))
    assert first.n_rows_made > 0 == again.n_rows_made
    np.testing.assert_array_equal(first.b, again.b)


@pytest.mark.parametrize("n_jobs", [1, 3])
def test_errors_of_a_kernel_function_are_passed_on(n_jobs):
    X, y = two_classes(800)
    calls = []

    def kernel(A, B):
        calls.append(len(A))
        if len(calls) > 40:
            raise ZeroDivisionError("no kernel today")
        return KERNEL(A, B)

    with pytest.raises(ZeroDivisionError, match="no kernel today"):
        AsyncGreedyCD(n_jobs=n_jobs).solve(BoxDual.hinge(y), Callable(kernel), X)


def test_settings_and_problems_that_make_no_sense_are_refused():
    X, y = two_classes(20)
    with pytest.raises(ValueError, match="block_size must be at least 1"):
        AsyncGreedyCD(block_size=0)
    with pytest.raises(ValueError, match="partition must be one of"):
        AsyncGreedyCD(partition="even")
    with pytest.raises(ValueError, match="kmeans"):
        AsyncGreedyCD(partition="kmeans").solve(BoxDual.hinge(y), "precomputed", KERNEL(X))
    with pytest.raises(ValueError, match="one variable a row"):
        AsyncGreedyCD().solve(BoxDual.epsilon_insensitive(y, 3.0, 0.1), KERNEL, X)
