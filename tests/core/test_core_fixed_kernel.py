"""Kernel matrices of fixed-point numbers, and blocks of matrices, against plain products."""

from __future__ import annotations

import numpy as np
import pytest

from _core_twins import LEVELS, run_at_level
from mercer import _core
from test_core_kernels import NAMES, PARAMETER, kernel, problem

pytestmark = pytest.mark.rounding

BOUNDED = [name for name in NAMES if name not in ("sqeuclidean", "cityblock")]

# Of rows of a type: the numbers, half their distance with what entries are right to before they are
# rounded, and what sums of so many terms lose.
KINDS = {np.float32: (np.uint16, 65535), np.float64: (np.uint32, 2**31 - 1)}
ERRORS = {np.float32: 0.5 / 65535 + 2e-5 + 2e-6, np.float64: 0.5 / (2**31 - 1) + 1e-13}


def fixed(name, X, scale, n_threads=2):
    numbers = np.empty(_core.fixed_kernel_size(len(X)), KINDS[X.dtype.type][0])
    centre = X.mean(axis=0, dtype=np.float64)
    assert _core.fixed_kernel(name, X, centre, scale, PARAMETER, numbers, n_threads)
    return numbers


def product(numbers, w, n_threads=2):
    out = np.ones(w.shape)
    _core.fixed_product(numbers, w, out, n_threads)
    return out - 1


@pytest.mark.parametrize(
    ("n", "d", "k"), [(1, 1, 1), (33, 3, 2), (96, 5, 7), (500, 130, 27), (1700, 9, 1)]
)
@pytest.mark.parametrize("name", BOUNDED)
@pytest.mark.parametrize("dtype", KINDS)
def test_products_are_those_of_the_matrix(rng, dtype, name, n, d, k):
    X, _, scale = problem(rng, n, 1, d, dtype)
    w = rng.normal(size=(n, k)).astype(dtype)
    size = np.abs(w).sum(axis=0)
    expected = kernel(name, X, X, scale).astype(float) @ w.astype(float)
    numbers = fixed(name, X, scale)
    assert np.all(np.abs(product(numbers, w) - expected) <= ERRORS[dtype] * size)


@pytest.mark.parametrize("dtype", KINDS)
def test_rounding_is_that_of_independent_errors(rng, dtype):
    X, _, scale = problem(rng, 800, 1, 4, dtype)
    numbers = fixed("laplacian", X, scale)
    errors = product(numbers, np.eye(800, dtype=dtype))
    np.testing.assert_array_equal(errors, errors.T)
    errors -= kernel("laplacian", X, X, scale)
    norm = np.abs(np.linalg.eigvalsh(errors)).max()
    assert norm == pytest.approx(2 / KINDS[dtype][1] * np.sqrt(800 / 12), rel=0.25)


@pytest.mark.parametrize(("dtype", "near"), [(np.float32, 1e-3), (np.float64, 1e-11)])
def test_threads_change_rounding_alone(rng, dtype, near):
    X, _, scale = problem(rng, 2000, 1, 5, dtype)
    w = rng.normal(size=(2000, 3)).astype(dtype)
    one = fixed("gaussian", X, scale, 1)
    np.testing.assert_array_equal(fixed("gaussian", X, scale, 3), one)
    np.testing.assert_array_equal(product(one, w, 3), product(one, w, 3))
    np.testing.assert_allclose(product(one, w, 3), product(one, w, 1), atol=near)


def test_rows_too_large_for_squares_are_reported():
    X, numbers = np.full((3, 2), 3e38, np.float32), np.empty(_core.fixed_kernel_size(3), np.uint16)
    X[0] = -X[0]
    assert not _core.fixed_kernel("gaussian", X, np.zeros(2), np.ones(2) * 1e150, 1.0, numbers, 1)


@pytest.mark.parametrize(
    ("dtype", "number", "near"), [("float32", "uint16", 1e-3), ("float64", "uint32", 1e-7)]
)
def test_all_levels_agree(dtype, number, near):
    code = f"""
rng = np.random.default_rng(0)
result = []
for n, d, k in ((1, 1, 1), (130, 7, 5)):
    X = rng.normal(size=(n, d)).astype("{dtype}")
    numbers = np.empty(_core.fixed_kernel_size(n), "{number}")
    w, out = rng.normal(size=(n, k)).astype("{dtype}"), np.zeros((n, k))
    _core.fixed_kernel("laplacian", X, np.zeros(d), np.ones(d) / d, 1.0, numbers, 2)
    _core.fixed_product(numbers, w, out, 2)
    result += out.ravel().tolist()
"""
    results = [run_at_level(level, code) for level in LEVELS]
    for result in results[1:]:
        np.testing.assert_allclose(result, results[0], atol=near)


def test_a_wrong_argument_is_named(rng):
    X, numbers = np.zeros((4, 2), np.float32), np.zeros(_core.fixed_kernel_size(4), np.uint16)
    kernel_of = (X, np.zeros(2), np.ones(2), 1.0)
    with pytest.raises(ValueError, match=r"kernel must have values in \[0, 1\]; got cityblock"):
        _core.fixed_kernel("cityblock", *kernel_of, numbers, 1)
    with pytest.raises(ValueError, match="fixed must have shape"):
        _core.fixed_kernel("gaussian", *kernel_of, numbers[1:], 1)
    w = np.ones((97, 1), np.float32)
    with pytest.raises(ValueError, match="fixed must have shape"):
        _core.fixed_product(numbers, w, np.zeros((97, 1)), 1)
    with pytest.raises(ValueError, match="out must have shape"):
        _core.fixed_product(numbers, w[:4], np.zeros((4, 2)), 1)
    with pytest.raises(ValueError, match="n must be at most"):
        _core.fixed_kernel_size(2**60)
    with pytest.raises((TypeError, ValueError), match="fixed must"):  # of rows of another type
        _core.fixed_kernel("gaussian", X.astype(float), *kernel_of[1:], numbers, 1)
    with pytest.raises((TypeError, ValueError), match="fixed must"):
        _core.fixed_product(numbers, np.ones((4, 1)), np.zeros((4, 1)), 1)


@pytest.mark.parametrize("shape", [(1, 1, 1), (3, 7, 2), (5, 300, 11)])
def test_blocks_are_multiplied_one_by_one(shape, rng):
    count, side, k = shape
    M = rng.normal(size=(count, side, side)).astype(np.float32)
    weights = rng.normal(size=(count, k, side))
    results = []
    for threads in (1, 3):
        out = np.ones((count, side, k))
        _core.held_blocks(M, weights, out, threads)
        expected = 1 + M.astype(float) @ weights.transpose(0, 2, 1)
        np.testing.assert_allclose(out, expected, rtol=1e-12, atol=1e-11)
        results.append(out)
    np.testing.assert_array_equal(*results)
    with pytest.raises(ValueError, match="weights must have shape"):
        _core.held_blocks(M, np.ones((count, k, side + 1)), out, 1)
