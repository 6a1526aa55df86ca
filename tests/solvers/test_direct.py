"""Laws of the direct solver, and what every solver of ridge problems has in common with it."""

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.exceptions import ConvergenceWarning

import mercer.solvers.base
import mercer.solvers.conjugate_gradient
import mercer.solvers.direct
import mercer.solvers.newton
from _problems import RIDGE, N, designs, make, ridge_solution, targets
from mercer.designs import Dense, Lazy, Sparse
from mercer.equations import NormalMatrix, matrix_of
from mercer.equations.factor import Factor
from mercer.losses import Squared
from mercer.penalties import L2
from mercer.problem import Problem
from mercer.solvers import Cholesky
from mercer.solvers.base import Clock
from mercer.solvers.direct import _distance


@pytest.fixture(params=RIDGE, ids=repr)
def ridge(request):
    return request.param


@pytest.fixture(params=[False, True], ids=["unweighted", "weighted"])
def weights(request, rng):
    return rng.uniform(0, 3, size=N) if request.param else None


@pytest.fixture(params=[True, False], ids=["intercept", "no intercept"])
def fit_intercept(request):
    return request.param


@pytest.mark.rounding
@pytest.mark.parametrize("n_outputs", [0, 1, 3])
def test_ridge_solvers_agree_with_the_dense_solution(ridge, n_outputs, weights, fit_intercept, rng):
    problem = make(Squared(), rng, n_outputs, weights=weights, fit_intercept=fit_intercept)
    result = ridge.solve(problem)
    np.testing.assert_allclose(result.coef, ridge_solution(problem), atol=1e-10)
    assert result.converged
    assert result.optimality == pytest.approx(problem.optimality(result.coef), abs=1e-13)


def test_ridge_solvers_take_every_design(ridge, weights, rng):
    for design in designs(rng):
        y = targets(Squared(), 2, rng)
        problem = Problem(design, y, Squared(), L2(0.05), weights)
        np.testing.assert_allclose(ridge.solve(problem).coef, ridge_solution(problem), atol=1e-9)


@pytest.mark.parametrize("form", ["primal", "dual"])
def test_strengths_of_a_path_are_solved_as_if_alone(form, rng):
    problem = make(Squared(), rng, 2)
    alphas = [1e-3, 1e-1, 1e-5]
    solver = Cholesky(form=form)
    for alpha, result in zip(alphas, solver.solve_path(problem, alphas), strict=True):
        alone = problem.with_penalty(L2(alpha))
        assert result.converged
        assert result.optimality == pytest.approx(alone.optimality(result.coef), abs=1e-13)
        np.testing.assert_allclose(result.coef, solver.solve(alone).coef, atol=1e-9)


@pytest.mark.rounding
def test_ridge_with_fewer_rows_than_columns(ridge, fit_intercept, rng):
    Z, y = rng.normal(size=(12, 40)), rng.normal(size=(12, 2)) + 3
    problem = Problem(Dense(Z), y, Squared(), L2(0.1), None, fit_intercept)
    np.testing.assert_allclose(ridge.solve(problem).coef, ridge_solution(problem), atol=1e-9)


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    n=st.integers(1, 12),
    d=st.integers(1, 12),
    log_alpha=st.floats(-4, 2),
    fit_intercept=st.booleans(),
)
@pytest.mark.parametrize("solver", RIDGE, ids=repr)
def test_gradient_vanishes_at_the_ridge_solution(solver, seed, n, d, log_alpha, fit_intercept):
    rng = np.random.default_rng(seed)
    Z, y = rng.normal(size=(n, d)), rng.normal(size=n)
    problem = Problem(Dense(Z), y, Squared(), L2(10**log_alpha), None, fit_intercept)
    with warnings.catch_warnings():
        # One row, or none that differs: all that is left is rounding.
        warnings.simplefilter("ignore", ConvergenceWarning)
        theta = solver.solve(problem).coef
    gradient = problem.gradient(theta)
    size = (
        np.abs(NormalMatrix(problem).matrix(problem.penalty.alpha)).max() * np.abs(theta).max()
        + np.abs(y).max()
    )
    np.testing.assert_allclose(gradient, 0, atol=1e-9 * size)


def test_kernel_ridge_equals_ridge_on_an_exact_finite_map(rng):
    X, y = rng.normal(size=(20, 3)), rng.normal(size=20)
    alpha, n = 0.05, 20
    dual = np.linalg.solve(X @ X.T + n * alpha * np.eye(n), y)
    assert np.linalg.norm((X @ X.T + n * alpha * np.eye(n)) @ dual - y) <= 1e-8 * np.linalg.norm(y)
    problem = Problem(Dense(X), y, Squared(), L2(alpha), fit_intercept=False)
    for form in ("primal", "dual"):
        coef = Cholesky(form=form).solve(problem).coef
        np.testing.assert_allclose(coef, X.T @ dual, atol=1e-12)


@pytest.mark.parametrize("form", ["primal", "dual"])
def test_dependent_columns_without_penalty_give_the_shortest_solution(form, rng):
    Z = rng.normal(size=(20, 3))
    Z = np.column_stack([Z, Z[:, 0], np.zeros(20)])
    y = rng.normal(size=20)
    problem = Problem(Dense(Z), y, Squared(), L2(0.0), fit_intercept=False)
    coef = Cholesky(form=form).solve(problem).coef
    np.testing.assert_allclose(coef, np.linalg.lstsq(Z, y)[0], atol=1e-10)


@pytest.mark.parametrize(("n", "d"), [(200, 6), (20, 60)], ids=["primal", "dual"])
def test_cholesky_of_a_float32_design_is_as_exact_as_its_products(n, d, rng):
    Z = rng.normal(size=(n, d)).astype(np.float32)
    Z[:, 5] = Z[:, 4] + np.float32(1e-3) * Z[:, 5]
    problem = Problem(Dense(Z), rng.normal(size=n), Squared(), L2(1e-6))
    result = Cholesky().solve(problem)
    assert result.coef.dtype == np.float32
    assert result.optimality <= 1e-4


@pytest.mark.parametrize("form", ["primal", "dual", "singular"])
def test_distance_counts_shifts_of_weights_by_the_penalty_and_of_the_intercept(form, rng):
    # Columns so small that the penalty alone bounds the weights, centred for the intercept.
    X = 1e-6 * rng.normal(size=(N, 3))
    y = rng.normal(size=N)
    problem = Problem(Dense(X - X.mean(axis=0)), y, Squared(), L2(0.1))
    theta = Cholesky(form="primal").solve(problem).coef
    theta += [0.4, 0.0, 0.0, 0.3]
    downhill = -problem.at(theta).gradient
    matrices = matrix_of(problem, "dual" if form == "dual" else "primal")
    factor = Factor(matrices.matrix(0.1))
    factor.regular = form != "singular"
    distance = _distance(problem, downhill, matrices, factor)
    assert distance == pytest.approx(np.sqrt(0.1 * 0.4**2 + 0.3**2) / y.std())


def test_a_solution_too_far_from_the_minimum_is_said_to_have_stalled(monkeypatch, rng):
    problem = make(Squared(), rng)
    assert Cholesky().solve(problem).converged
    monkeypatch.setattr(mercer.solvers.direct, "_distance", lambda *_: 0.5)
    with pytest.warns(ConvergenceWarning, match="stalled .* up to 0.5 of the targets' spread"):
        Cholesky().solve(problem)


def test_a_step_that_raises_the_gradient_is_not_taken(rng):
    problem = make(Squared(), rng)
    best = Cholesky().solve(problem).coef
    state = Cholesky().init(problem, best, Clock())
    before = state.optimality
    assert not Cholesky()._offer(state, best + 1.0)
    assert state.x is best
    assert state.optimality == before


def test_lazy_designs_are_solved_like_dense_ones(rng):
    class Columns:
        def transform_block(self, X, columns):
            return np.cos(X @ np.ones((X.shape[1], 1)) * (1 + np.asarray(columns)))

    X, y = rng.normal(size=(N, 2)), rng.normal(size=N)
    lazy = Problem(Lazy(X, Columns(), 6), y, Squared(), L2(0.1))
    dense = Problem(Dense(lazy.design.toarray()), y, Squared(), L2(0.1))
    truth = ridge_solution(dense)
    for solver in RIDGE:
        np.testing.assert_allclose(solver.solve(lazy).coef, truth, atol=1e-9)


def test_sparse_designs_with_wide_indices_are_solved(rng):
    design = designs(rng)[1]
    design.matrix.indices = design.matrix.indices.astype(np.int64)
    design.matrix.indptr = design.matrix.indptr.astype(np.int64)
    problem = Problem(Sparse(design.matrix), rng.normal(size=N), Squared(), L2(0.1))
    for solver in RIDGE:
        np.testing.assert_allclose(solver.solve(problem).coef, ridge_solution(problem), atol=1e-9)


def test_cholesky_refuses_what_does_not_fit(monkeypatch, rng):
    monkeypatch.setattr("mercer._runtime.arrays.available_memory", lambda: 10)
    with pytest.raises(MemoryError, match=r"needs .* available; use"):
        Cholesky().solve(make(Squared(), rng))


def test_examples_run(check_examples):
    check_examples(mercer.solvers.direct)
