"""Small ridge regressions: solutions of the normal equations, memory, and what rounding leaves."""

import tracemalloc

import numpy as np
import pytest

from mercer.equations.small_ridge import kernel_ridge, refined_kernel_ridge, ridge_regressions


@pytest.fixture
def machine(rng):
    """The Gaussian kernel matrix of some rows in float32, and targets (n, 2)."""
    X = rng.normal(size=(120, 3))
    matrix = np.exp(-0.1 * ((X[:, None] - X) ** 2).sum(axis=2))
    return matrix.astype(np.float32), np.sin(X[:, :2])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_coefficients_solve_the_shifted_system(machine, dtype):
    matrix, target = machine[0].astype(dtype), machine[1].astype(dtype)
    before = matrix.copy()
    coef = kernel_ridge(matrix, target, 0.1)
    expected = np.linalg.solve(matrix + 0.1 * np.eye(len(matrix)), target)
    np.testing.assert_allclose(coef, expected, rtol=1e-3 if dtype == np.float32 else 1e-10)
    np.testing.assert_array_equal(matrix, before)


@pytest.mark.parametrize("ridge", [1.0, 5e-3, 1e-5])
def test_refined_coefficients_keep_responses_at_every_ridge(machine, ridge):
    matrix, target = machine
    wide = matrix.astype(np.float64)
    expected = wide @ np.linalg.solve(wide + ridge * np.eye(len(wide)), target)
    responses = wide @ refined_kernel_ridge(matrix, target, ridge)
    np.testing.assert_allclose(responses, expected, atol=2e-4)


def test_a_factor_in_float64_takes_one_copy_of_the_matrix(rng):
    n = 600
    matrix, target = np.eye(n, dtype=np.float32), rng.normal(size=(n, 1))
    refined_kernel_ridge(matrix, target, 1e-6)
    tracemalloc.start()
    refined_kernel_ridge(matrix, target, 1e-6)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1.5 * 8 * n**2


@pytest.mark.parametrize("shape", [(30, 80), (80, 30)])
def test_features_give_the_ridge_regression_by_the_smaller_gram_matrix(shape, rng):
    Z, target = rng.normal(size=shape), rng.normal(size=(shape[0], 2))
    ridges = [0.1, 10.0]
    for ridge, coef in zip(ridges, ridge_regressions(Z, target, ridges), strict=True):
        normal = Z.T @ Z + ridge * np.eye(shape[1])
        np.testing.assert_allclose(coef, np.linalg.solve(normal, Z.T @ target), rtol=1e-8)


def test_a_matrix_that_rounding_makes_indefinite_has_no_coefficients():
    matrix = np.ones((3, 3))
    assert kernel_ridge(matrix - 0.1 * np.eye(3), np.ones((3, 1)), 0.0) is None
    with pytest.raises(np.linalg.LinAlgError, match="not positive definite to rounding"):
        list(ridge_regressions(np.zeros((4, 3)), np.ones((4, 1)), [-1.0]))
