"""Laws of the direct solution of kernel machines: all rows, and the span of landmarks."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.kernel_ridge import KernelRidge

import mercer.equations.factor
from _machines import KERNEL, data, dense_responses, exact, restricted
from mercer.designs import Dense, KernelColumns
from mercer.equations import equations
from mercer.equations.factor import Factor
from mercer.losses import Squared
from mercer.maps import Nystroem
from mercer.penalties import L2, RKHSNorm
from mercer.problem import Problem
from mercer.solvers import Cholesky


@pytest.fixture(params=[False, True], ids=["unweighted", "weighted"])
def weights(request, rng):
    weights = rng.uniform(0, 3, size=40)
    weights[5] = 0.0
    return weights if request.param else None


@pytest.fixture(params=[True, False], ids=["intercept", "no intercept"])
def fit_intercept(request):
    return request.param


@pytest.mark.parametrize("n_outputs", [0, 3])
@pytest.mark.parametrize("machine", [exact, restricted])
def test_machines_are_solved_to_their_equations(machine, n_outputs, weights, fit_intercept, rng):
    problem = machine(rng, n_outputs=n_outputs, weights=weights, fit_intercept=fit_intercept)
    result = Cholesky(tol=1e-9).solve(problem)
    assert result.converged
    np.testing.assert_allclose(problem.responses(result.coef), dense_responses(problem), atol=1e-7)


def test_the_machine_of_all_rows_is_stationary(weights, fit_intercept, rng):
    problem = exact(rng, weights=weights, fit_intercept=fit_intercept)
    theta = Cholesky().solve(problem).coef
    a = theta[:-1] if fit_intercept else theta
    s = np.ones(40) if weights is None else weights / weights.mean()
    residual = problem.y - problem.responses(theta)
    # (K + n alpha / S) a = y - b, multiplied by S; and the weights add up to zero.
    left = s * residual - problem.n_rows * problem.penalty.alpha * a
    assert np.linalg.norm(left) <= 1e-8 * np.linalg.norm(problem.y)
    if fit_intercept:
        assert abs(a.sum()) <= 1e-10


def test_equations_of_float32_rows_are_solved_as_products_see_them(weights, fit_intercept, rng):
    # Entries of columns and of products may be rounded differently.
    problem = exact(rng, alpha=1e-5, weights=weights, fit_intercept=fit_intercept, dtype=np.float32)
    block = problem.design.block
    noise = 1e-6 * np.abs(rng.normal(size=(40, 40))).astype(np.float32)
    problem.design.block = lambda columns: block(columns) + (noise + noise.T)[:, columns]
    result = Cholesky(tol=1e-4).solve(problem)
    assert result.optimality < 2e-5


def test_the_machine_of_all_rows_is_kernel_ridge(rng):
    problem = exact(rng, n_outputs=2, fit_intercept=False)
    X, y = data(np.random.default_rng(20240607), n_outputs=2)
    np.testing.assert_array_equal(problem.y, y)
    peer = KernelRidge(alpha=40 * 1e-2, kernel="rbf", gamma=KERNEL.gamma).fit(X, y)
    coef = Cholesky().solve(problem).coef
    np.testing.assert_allclose(coef, peer.dual_coef_, atol=1e-10)


def test_the_norm_of_the_function_is_that_of_ridge_on_an_exact_finite_map(rng):
    from mercer.kernels import Linear

    X, y = rng.normal(size=(30, 3)), rng.normal(size=30)
    design = KernelColumns(X, Linear())
    kernel = Problem(design, y, Squared(), RKHSNorm(0.05, design))
    ridge = Problem(Dense(X), y, Squared(), L2(0.05))
    theta, w = Cholesky(tol=1e-6).solve(kernel).coef, Cholesky(tol=1e-9).solve(ridge).coef
    np.testing.assert_allclose(X.T @ theta[:-1], w[:-1], atol=1e-10)
    np.testing.assert_allclose(theta[-1], w[-1], atol=1e-10)


def test_all_rows_for_landmarks_make_the_machine_of_all_rows(weights, fit_intercept, rng):
    problem = exact(rng, weights=weights, fit_intercept=fit_intercept)
    X = problem.design._left[:]
    design = KernelColumns(X, KERNEL, landmarks=X.copy())
    penalty = RKHSNorm(1e-2, design.landmark_design())
    twin = Problem(design, problem.y, Squared(), penalty, weights, fit_intercept)
    responses = [one.responses(Cholesky(tol=1e-6).solve(one).coef) for one in (problem, twin)]
    np.testing.assert_allclose(*responses, atol=1e-6)


@pytest.mark.parametrize("alpha", [1e-2, 1e-6, 1e-9])
def test_landmarks_without_whitening_predict_as_with_it(alpha, rng):
    X, y = data(rng, n=200)
    whitened = Nystroem(KERNEL, n_components=60, random_state=0).fit(X)
    ridge = Problem(whitened.design(X), y, Squared(), L2(alpha))
    design = KernelColumns(X, KERNEL, landmarks=whitened.landmarks_)
    raw = Problem(design, y, Squared(), RKHSNorm(alpha, design.landmark_design()))
    responses = [
        problem.responses(Cholesky(tol=1e-5).solve(problem).coef) for problem in (ridge, raw)
    ]
    np.testing.assert_allclose(*responses, atol=1e-6)


def test_jitter_costs_squares_of_the_weights(rng):
    problem = restricted(rng, jitter=0.5)
    result = Cholesky(tol=1e-9).solve(problem)
    np.testing.assert_allclose(problem.responses(result.coef), dense_responses(problem), atol=1e-9)


def test_the_form_of_the_other_machine_is_refused(rng):
    for problem, form in ((restricted(rng), "dual"), (exact(rng), "primal")):
        with pytest.raises(ValueError, match=f"for one of landmarks; got '{form}'"):
            Cholesky(form=form).solve(problem)


def test_float32_landmarks_under_a_weak_penalty_lose_little(rng):
    X, y = data(rng, n=300)
    values = []
    for dtype in (np.float64, np.float32):
        design = KernelColumns(X.astype(dtype), KERNEL, landmarks=X[:80].astype(dtype))
        penalty = RKHSNorm(1e-7, design.landmark_design())
        problem = Problem(design, y, Squared(), penalty)
        coef = Cholesky().solve(problem).coef.astype(np.float64)
        system = equations(problem)
        system.start(system.from_theta(coef))
        values.append(float(system.values().sum()))
    np.testing.assert_allclose(values[1], values[0], rtol=1e-3)


@pytest.mark.parametrize("machine", [exact, restricted])
def test_a_path_is_the_separate_solutions(machine, rng):
    problem = machine(rng, n_outputs=2)
    alphas = [1e-1, 1e-2, 1e-4]
    for alpha, result in zip(alphas, Cholesky(tol=1e-6).solve_path(problem, alphas), strict=True):
        alone = problem.with_penalty(replace(problem.penalty, alpha=alpha))
        np.testing.assert_allclose(
            alone.responses(result.coef),
            alone.responses(Cholesky(tol=1e-6).solve(alone).coef),
            atol=1e-10,
        )


def test_a_path_makes_its_matrix_once(monkeypatch, rng):
    problem = exact(rng)
    made = []
    block = KernelColumns.block

    def counted(design, columns):
        made.append(len(columns))
        return block(design, columns)

    monkeypatch.setattr(KernelColumns, "block", counted)
    Cholesky().solve_path(problem, [1e-1, 1e-2, 1e-3])
    assert sum(made) == problem.n_rows


def test_the_matrix_of_all_rows_is_refused_where_it_does_not_fit(monkeypatch, rng):
    problem = exact(rng)
    monkeypatch.setattr("mercer._runtime.arrays.available_memory", lambda: 10)
    with pytest.raises(MemoryError, match=r"the kernel matrix of 40 rows .* use solver='block'"):
        Cholesky().solve(problem)


# -- factors ---------------------------------------------------------------------------------


@pytest.fixture(params=[False, True], ids=["copied", "in place"])
def overwrite(request, monkeypatch):
    monkeypatch.setattr(mercer.equations.factor, "_IN_PLACE", 1)
    return request.param


@pytest.mark.parametrize("rank", [20, 12], ids=["regular", "singular"])
def test_a_factor_is_the_pseudo_inverse(rank, overwrite, rng):
    half = rng.normal(size=(20, rank))
    matrix = half @ half.T
    inverse = np.linalg.pinv(matrix, hermitian=True)
    factor = Factor(matrix.copy(), overwrite)
    assert factor.regular == (rank == 20)
    rows = rng.normal(size=(5, 20))
    np.testing.assert_allclose(factor.solve(rows.T), inverse @ rows.T, rtol=1e-6, atol=1e-8)
    norms = np.einsum("ij,jk,ik->i", rows, inverse, rows)
    np.testing.assert_allclose(factor.sqnorms(rows), norms, rtol=1e-6)
    np.testing.assert_allclose(factor.inverse_diagonal(), np.diag(inverse), rtol=1e-6)


def test_a_factor_in_place_takes_no_memory(overwrite, rng):
    matrix = rng.normal(size=(50, 50))
    matrix = matrix @ matrix.T
    factor = Factor(matrix, overwrite)
    assert np.shares_memory(factor._factor, matrix) == overwrite


def test_a_matrix_that_has_no_factor_comes_back_whole(overwrite, rng):
    matrix = rng.normal(size=(20, 20))
    matrix = matrix @ matrix.T
    matrix[15, 15] = -1.0
    values, vectors = np.linalg.eigh(matrix)
    kept = values > 0
    expected = (vectors[:, kept] / values[kept]) @ vectors[:, kept].T
    np.testing.assert_allclose(Factor(matrix, overwrite).solve(np.eye(20)), expected, atol=1e-6)
