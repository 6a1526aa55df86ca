"""Laws of Newton's steps of joint losses on functions of the kernel."""

import numpy as np
import pytest

from mercer import losses
from mercer.designs import KernelColumns
from mercer.kernels import Gaussian
from mercer.penalties import RKHSNorm
from mercer.problem import Problem
from mercer.solvers import RowNewton, joint_steps, row_equations, row_newton
from mercer.solvers.joint_steps import joint_step, suits_functions
from mercer.solvers.row_equations import Curvature, RowKernel, shifted_inverse

CASES = pytest.mark.parametrize(
    ("weighted", "fit_intercept"), [(False, True), (True, True), (True, False)]
)
AT_ONCE, NEVER = 0.0, np.inf  # products that a factor is worth


def machine(rng, n=40, ridge=1e-3, weighted=False, fit_intercept=True, dtype=np.float64):
    """Three classes that overlap; a fifth of the rows counts for nothing if ``weighted``."""
    X = rng.normal(size=(n, 3)).astype(dtype)
    logs = np.column_stack([2 * X[:, 0], np.sin(3 * X[:, 1]), X[:, 2] - 1])
    y = np.eye(3)[(logs + rng.gumbel(size=(n, 3))).argmax(axis=1)]
    weights = rng.choice([0.0, 0.3, 1.0, 2.0, 3.0], size=n) if weighted else None
    K = KernelColumns(X, Gaussian(0.5))
    return Problem(K, y, losses.Multinomial(), RKHSNorm(ridge / n, K), weights, fit_intercept)


@CASES
def test_the_factor_solves_the_equations_of_equal_curvature(weighted, fit_intercept, rng):
    problem = machine(rng, weighted=weighted, fit_intercept=fit_intercept)
    K = problem.design.toarray()
    s = np.ones(40) if problem.weights is None else problem.weights
    S = np.diag(s) - fit_intercept * np.outer(s, s) / s.sum()
    v = rng.normal(size=(40, 3)) * (s > 0)[:, None]
    v -= np.outer(s, v.sum(axis=0)) / s.sum()
    found = shifted_inverse(problem, K.copy(), 0.01)(v)
    np.testing.assert_allclose(found, np.linalg.solve(0.01 * np.eye(40) + S @ K, v), atol=1e-9)


@pytest.mark.parametrize("worth", [AT_ONCE, NEVER])
@CASES
def test_a_step_solves_the_equations_of_all_rows_and_classes(
    weighted, fit_intercept, worth, rng, monkeypatch
):
    monkeypatch.setattr(row_equations, "_WORTH", worth)
    problem = machine(rng, ridge=0.01, weighted=weighted, fit_intercept=fit_intercept)
    K, y, ridge = problem.design.toarray(), problem.y.astype(np.float64), 0.01
    curvature = Curvature(problem, rng.normal(size=(40, 3)), y)
    # Column by column: the matrix of δ → n alpha δ + W' K δ.
    columns = []
    for place in range(120):
        unit = np.eye(1, 120, place).reshape(40, 3)
        columns.append((ridge * unit + curvature.free(K @ unit)).ravel())
    residual = rng.normal(size=(40, 3))
    truth = np.linalg.solve(np.column_stack(columns), residual.ravel()).reshape(40, 3)
    kernel = RowKernel(problem, problem.penalty.alpha)
    change, linear = joint_step(problem, kernel, curvature, residual, 1e-9, 500)
    np.testing.assert_allclose(change, truth, atol=1e-6 * np.abs(truth).max())
    np.testing.assert_allclose(linear, K @ truth, atol=1e-6 * np.abs(truth).max())


@pytest.mark.parametrize("worth", [AT_ONCE, row_equations._WORTH, NEVER])
@CASES
def test_functions_and_coefficients_give_one_solution(
    weighted, fit_intercept, worth, rng, monkeypatch
):
    monkeypatch.setattr(row_equations, "_WORTH", worth)
    problem = machine(rng, 90, 0.03, weighted, fit_intercept)
    solver, ways = RowNewton(tol=1e-9), []
    for suits in (suits_functions, lambda _: False):
        monkeypatch.setattr(row_newton, "suits_functions", suits)
        path = solver.solve_path(problem, [0.3 / 90, 0.03 / 90, 3e-3 / 90])
        assert all(result.converged for result in path)
        ways.append(np.stack([result.coef for result in path]))
    np.testing.assert_allclose(ways[0], ways[1], atol=1e-6 * np.abs(ways[1]).max())


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_one_factor_serves_classes_and_steps_and_leaves_few_products(dtype, rng, monkeypatch):
    monkeypatch.setattr(row_equations, "_WORTH", AT_ONCE)
    counts = {"products": 0, "factors": 0}

    def counted(owner, method, name):
        plain = getattr(owner, method)

        def call(*given):
            counts[name] += 1
            return plain(*given)

        monkeypatch.setattr(owner, method, call)

    counted(RowKernel, "product", "products")
    counted(row_equations, "shifted_inverse", "factors")
    result = RowNewton(tol=1e-2).solve(machine(rng, 400, 1e-3, dtype=dtype))
    assert result.converged
    assert counts["factors"] <= 3
    assert counts["products"] <= 20 * result.n_iter


def test_no_factor_is_made_before_products_have_taken_its_time(rng, monkeypatch):
    monkeypatch.setattr(row_equations, "_WORTH", 0.25)
    monkeypatch.setattr(row_equations, "shifted_inverse", lambda *given: lambda v: given[2] * v)
    problem = machine(rng)
    kernel = RowKernel(problem, problem.penalty.alpha)
    shifts = [0.1] * 9 + [0.001] + [0.1] * 4
    found = [kernel.shifted(problem, shift) for shift in shifts]
    assert found[:3] == [None] * 3  # products of 40 rows and 3 outputs are worth a factor from 4 on
    assert [inverse(1) for inverse in found[3:]] == [0.1] * 6 + [0.001] * 4 + [0.1]
    assert all(inverse is found[3] for inverse in found[3:9])


def test_many_rows_have_steps_in_their_coefficients(rng, monkeypatch):
    problem = machine(rng)
    assert suits_functions(problem)
    monkeypatch.setattr(joint_steps, "_MOST_ROWS", 39)
    assert not suits_functions(problem)
    monkeypatch.undo()
    monkeypatch.setattr(joint_steps, "available_memory", lambda: 8 * 40**2)
    assert not suits_functions(problem)
