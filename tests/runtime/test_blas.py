"""Factors that let other threads of Python go on."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from mercer._runtime import threads as _blas
from mercer._runtime.threads import cholesky_in_place, inverse_in_place, one_blas_thread

pytestmark = pytest.mark.rounding


@pytest.fixture(params=[False, True], ids=["lapack", "scipy"])
def any_way(request, monkeypatch):
    """With LAPACK's routine itself, and where its integers are not C's."""
    if request.param:
        monkeypatch.setattr(_blas, "_lapack", lambda name: None)


def spd(n, dtype, seed=0):
    root = np.random.default_rng(seed).normal(size=(n, n + 5))
    return (root @ root.T / n + 0.1 * np.eye(n)).astype(dtype)


@pytest.mark.usefixtures("any_way")
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n", [1, 2, 37, 300])
def test_the_upper_triangle_becomes_the_factor(n, dtype):
    matrix = spd(n, dtype)
    expected = np.linalg.cholesky(matrix.astype(np.float64)).T
    below = np.tril(matrix, -1)
    assert cholesky_in_place(matrix)
    np.testing.assert_allclose(np.triu(matrix), expected, atol=50 * np.finfo(dtype).eps)
    np.testing.assert_array_equal(np.tril(matrix, -1), below)


@pytest.mark.usefixtures("any_way")
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n", [1, 2, 37, 300])
def test_a_matrix_becomes_its_inverse(n, dtype):
    matrix = spd(n, dtype)
    expected = np.linalg.inv(matrix.astype(np.float64))
    assert inverse_in_place(matrix)
    np.testing.assert_array_equal(matrix, matrix.T)
    np.testing.assert_allclose(matrix, expected, atol=500 * np.finfo(dtype).eps)


@pytest.mark.usefixtures("any_way")
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_matrix_without_an_inverse_is_told(dtype):
    assert not inverse_in_place(np.array([[1.0, 2.0], [2.0, 1.0]], dtype=dtype))


@pytest.mark.usefixtures("any_way")
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_matrix_without_a_factor_is_told(dtype):
    matrix = np.array([[1.0, 2.0], [2.0, 1.0]], dtype=dtype)
    assert not cholesky_in_place(matrix)


@pytest.mark.parametrize("matrix", [np.ones((2, 3)), np.asfortranarray(np.eye(3)[:, :2])])
def test_matrices_have_to_be_square_and_in_order(matrix):
    with pytest.raises(ValueError, match="matrix must be square and C-contiguous"):
        cholesky_in_place(matrix)


def test_threads_of_python_do_not_disturb_each_other():
    matrices = [spd(200, np.float64, seed) for seed in range(12)]
    expected = [np.linalg.cholesky(matrix).T for matrix in matrices]
    with one_blas_thread(), ThreadPoolExecutor(3) as pool:
        assert all(pool.map(cholesky_in_place, matrices))
    for matrix, factor in zip(matrices, expected, strict=True):
        np.testing.assert_allclose(np.triu(matrix), factor, atol=1e-12)
