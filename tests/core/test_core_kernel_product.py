"""Products of kernel matrices that are never held, against those of the matrix."""

from __future__ import annotations

import numpy as np
import pytest

from _core_twins import LEVELS, run_at_level
from _covering import pairwise
from mercer import _core
from test_core_kernels import DIRECT, NAMES, PARAMETER, kernel, problem, twin

pytestmark = pytest.mark.rounding

# rows of X and of Y, inputs, weights of a row
SHAPES = [(1, 1, 1, 1), (5, 7, 3, 2), (97, 100, 54, 5), (40, 300, 7, 13), (400, 110, 130, 30)]


def product(name, X, Y, scale, w, *, both=None, n_threads=2, single=False):
    """K w, and with ``both`` K' both as well."""
    landmarks = X if Y is None else Y
    out = np.ones((len(X), w.shape[1]))
    other = None if both is None else np.ones((len(landmarks), w.shape[1]))
    centre = landmarks.mean(axis=0, dtype=np.float64) if len(landmarks) else np.zeros(X.shape[1])
    assert _core.kernel_product(
        name, X, Y, centre, scale, PARAMETER, w, out, both, other, n_threads, single
    )
    return out - 1 if both is None else (out - 1, other - 1)


def weights(rng, n, k, dtype):
    return rng.normal(size=(n, k)).astype(dtype)


def error(got, K, w):
    """Against the largest that a product could be."""
    return np.abs(got - K.astype(float) @ w).max() / np.abs(w).sum(axis=0).max() / max(1, K.max())


TYPES = [(np.float64, np.float64, 1e-13), (np.float32, np.float64, 1e-6)]
TYPES.append((np.float32, np.float32, 2e-6))


@pytest.mark.parametrize(("name", "shape", "types"), pairwise(NAMES, SHAPES, TYPES), ids=str)
def test_products_are_those_of_the_matrix(rng, name, shape, types):
    (n, m, d, k), (dtype, of_weights, tol) = shape, types
    X, Y, scale = problem(rng, n, m, d, dtype)
    K = kernel(name, X, Y, scale)
    w, v = weights(rng, m, k, of_weights), weights(rng, n, k, of_weights)
    one, other = product(name, X, Y, scale, w, both=v)
    assert error(one, K, w) < tol
    assert error(other, K.T, v) < tol
    one_way = product(name, X, Y, scale, w)
    from_exponentials = name == "laplacian" and dtype == np.float64  # of the rows, not of pairs
    rounding = 1e-14 * np.abs(w).sum() if from_exponentials else 0.0
    np.testing.assert_allclose(one_way, one, rtol=0, atol=rounding)
    assert error(product(name, X, None, scale, v), kernel(name, X, X, scale), v) < tol


@pytest.mark.parametrize(
    ("length", "shape", "dtype"),
    pairwise(
        [0.0, 0.3, 5.0, 15.9, 40.0, 70.0, 3000.0],
        [(31, 60, 2), (60, 80, 1), (100, 50, 40), (70, 33, 700)],
        [np.float32, np.float64],
    ),
    ids=str,
)
def test_laplacians_keep_their_digits_whatever_rows_are_long(rng, dtype, shape, length):
    """Those of short rows are products of exponentials; equal rows and far ones are among them."""
    n, m, d = shape
    X, Y, _ = problem(rng, n, m, d, dtype)
    Y[:20] = X[:20]
    Y[20:30] = X[20:30] + np.asarray(1e-4 * rng.normal(size=(10, d)), dtype)
    longest = max(np.abs(X - Y.mean(axis=0)).sum(axis=1).max(), 1.0)
    scale = np.full(d, max(length, 1e-9) / float(longest))
    w, v = weights(rng, m, 2, np.float64), weights(rng, n, 2, np.float64)
    got, other = product("laplacian", X, Y, scale, w, both=v, single=True)
    K = twin("laplacian", X, Y, scale).astype(float)
    tol = 3e-14 if dtype == np.float64 else 5e-6
    assert error(got, K, w) < tol
    assert error(other, K.T, v) < tol


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_same_threads_give_the_same_numbers(rng, dtype):
    X, Y, scale = problem(rng, 1500, 900, 5, dtype)
    w, v = weights(rng, 900, 3, dtype), weights(rng, 1500, 3, dtype)
    for n_threads in (1, 2, 3):
        first = product("gaussian", X, Y, scale, w, both=v, n_threads=n_threads)
        again = product("gaussian", X, Y, scale, w, both=v, n_threads=n_threads)
        np.testing.assert_array_equal(first[0], again[0])
        np.testing.assert_array_equal(first[1], again[1])
        symmetric = [product("gaussian", X, None, scale, v, n_threads=n_threads) for _ in range(2)]
        np.testing.assert_array_equal(*symmetric)
    one_way = [product("gaussian", X, Y, scale, w, n_threads=t) for t in (1, 3)]
    np.testing.assert_allclose(*one_way, rtol=1e-5 if dtype == np.float32 else 1e-12)


@pytest.mark.parametrize(
    ("name", "length", "far"),
    pairwise(
        [n for n in NAMES if n not in ("sqeuclidean", "cityblock")],
        [1.0, 15.0, 47.0, 300.0, 3000.0],
        [0.0, 0.05],
    ),
)
def test_single_precision_is_right_to_two_hundred_thousandths(rng, name, length, far):
    """Rows of any length, near ones among them, all of them long or a few."""
    for n, d in [(60, 1), (60, 7), (60, 150)]:
        X, Y, _ = problem(rng, n, n, d, np.float32)
        X = X[::-1].copy()
        long = rng.random(n) < far
        X[long] *= 10
        Y = X + Y * 10.0 ** rng.uniform(-5, 0, (n, 1))
        typical = np.square(X[~long]).sum(axis=1).max()
        scale = np.full(d, np.sqrt(length / float(typical)))
        X, Y = (X + 5).astype(np.float32), (Y + 5).astype(np.float32)
        out = np.empty((n, n), np.float32)
        centre = Y.mean(axis=0, dtype=np.float64)
        assert _core.kernel_block(name, X, Y, centre, scale, PARAMETER, out, 1, True)
        assert np.abs(out - twin(name, X, Y, scale)).max() < 2e-5


@pytest.mark.parametrize(
    ("n", "m", "d", "k"), [(0, 3, 4, 1), (3, 0, 4, 2), (3, 4, 0, 1), (3, 4, 2, 0)]
)
def test_empty_axes_are_no_special_case(rng, dtype, n, m, d, k):
    X, Y, w = np.zeros((n, d), dtype), np.zeros((m, d), dtype), weights(rng, m, k, dtype)
    got = product("gaussian", X, Y, np.ones(d), w)
    np.testing.assert_allclose(got, np.ones((n, m)) @ w, rtol=1e-6)


def test_overflow_is_told(dtype):
    far = np.array([[1e300], [-1e300]]) if dtype == np.float64 else None
    if far is not None:
        out = np.zeros((2, 1))
        arguments = (np.zeros(1), np.ones(1), 1.0, np.ones((2, 1)), out, None, None, 1)
        assert not _core.kernel_product("gaussian", far, None, *arguments)
        assert _core.kernel_product("laplacian", far, None, *arguments)


def test_levels_agree_to_rounding():
    code = f"""
rng = np.random.default_rng(0)
X, Y = rng.normal(size=(230, 150)), rng.normal(size=(125, 150))
result = []
for name in {[name for name in NAMES if name in DIRECT or name == "gaussian"]!r}:
    for k in (1, 3, 14):
        w, v = rng.normal(size=(125, k)), rng.normal(size=(230, k))
        out, other, own = np.zeros((230, k)), np.zeros((125, k)), np.zeros((230, k))
        rest = (Y.mean(axis=0), np.full(150, 0.1), 2.5)
        _core.kernel_product(name, X, Y, *rest, w, out, v, other, 2)
        _core.kernel_product(name, X, None, *rest, v, own, None, None, 2)
        result += out.ravel().tolist() + other.ravel().tolist() + own.ravel().tolist()
"""
    results = [run_at_level(level, code) for level in LEVELS]
    for result in results[1:]:
        np.testing.assert_allclose(result, results[0], rtol=1e-10, atol=1e-11)


def test_a_wrong_argument_is_named(rng):
    X, Y, scale = problem(rng, 4, 5, 3, np.float64)
    rest = (np.zeros(3), scale, 1.0)
    w, out = np.ones((5, 2)), np.zeros((4, 2))
    with pytest.raises(TypeError, match=r"w must have dtype float64; got float32\."):
        _core.kernel_product("gaussian", X, Y, *rest, w.astype(np.float32), out, None, None, 1)
    with pytest.raises(ValueError, match=r"w must have shape \(5, 2\); got \(4, 2\)\."):
        _core.kernel_product("gaussian", X, Y, *rest, w[:4], out, None, None, 1)
    with pytest.raises(ValueError, match=r"out must have shape \(4, 2\); got \(5, 2\)\."):
        _core.kernel_product("gaussian", X, Y, *rest, w, w.copy(), None, None, 1)
    with pytest.raises(ValueError, match=r"v must have shape \(4, 2\); got \(5, 2\)\."):
        _core.kernel_product("gaussian", X, Y, *rest, w, out, w, w.copy(), 1)


GRAMS = [(1, 1), (7, 3), (300, 33), (1100, 97), (130, 500)]


@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
@pytest.mark.parametrize(("n", "d"), GRAMS)
def test_inner_products_of_columns_are_those_of_the_matrix(rng, dtype, n, d, weighted):
    Z = rng.normal(size=(n, d)).astype(dtype)
    weights = rng.random(n) if weighted else None
    exact = Z.T.astype(float) @ (Z * (1.0 if weights is None else weights[:, None]))
    found = []
    for n_threads in (1, 3):
        for transposed in (False, True):
            out = np.ones((d, d))
            Z_ = np.ascontiguousarray(Z.T) if transposed else Z
            _core.gram(Z_, transposed, weights, out, n_threads)
            found.append(out)
    tol = np.square(Z).sum(axis=0).max() * (1e-6 if dtype == np.float32 else 1e-15)
    np.testing.assert_allclose(found[0] - 1, exact, rtol=0, atol=max(tol, 1e-15))
    np.testing.assert_array_equal(found[0], found[0].T)
    for other in found[1:]:
        np.testing.assert_array_equal(other, found[0])


def test_inner_products_of_no_rows_or_columns_are_none():
    for shape in [(0, 3), (3, 0)]:
        out = np.ones((shape[1], shape[1]))
        _core.gram(np.zeros(shape), False, None, out, 2)
        np.testing.assert_array_equal(out, np.ones_like(out))


def test_a_gram_matrix_of_another_shape_is_named():
    with pytest.raises(ValueError, match=r"out must have shape \(2, 2\); got \(3, 3\)\."):
        _core.gram(np.ones((3, 2)), False, None, np.ones((3, 3)), 1)
    with pytest.raises(ValueError, match=r"weights must have shape \(3\); got \(2\)\."):
        _core.gram(np.ones((3, 2)), False, np.ones(2), np.ones((2, 2)), 1)


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize(
    "shape", [(1, 1, 1), (5, 7, 2), (67, 1030, 11), (130, 33, 3), (64, 2050, 6)]
)
def test_a_held_matrix_is_multiplied_in_float64(shape, transposed):
    n, p, k = shape
    rng = np.random.default_rng(0)
    M = rng.normal(size=(n, p)).astype(np.float32)
    weights = rng.normal(size=(n, k) if transposed else (k, p))
    before = rng.normal(size=(k, p) if transposed else (n, k))
    wide = M.astype(np.float64)
    expected = before + (weights.T @ wide if transposed else wide @ weights.T)
    results = []
    for threads in (1, 2, 3):
        out = before.copy()
        _core.held_product(M, transposed, weights, out, threads)
        np.testing.assert_allclose(out, expected, rtol=1e-12, atol=1e-11)
        results.append(out)
    assert all(np.array_equal(results[0], other) for other in results)


@pytest.mark.parametrize(
    "shape", [(1, 1, 1), (5, 7, 2), (67, 1030, 11), (130, 33, 3), (64, 2050, 6)]
)
def test_a_held_matrix_is_multiplied_in_float32_where_weights_are(shape):
    n, p, k = shape
    rng = np.random.default_rng(0)
    M, weights = rng.normal(size=(n, p)).astype(np.float32), rng.normal(size=(k, p))
    weights = weights.astype(np.float32)
    before = rng.normal(size=(n, k))
    expected = before + M.astype(np.float64) @ weights.T.astype(np.float64)
    results = []
    for threads in (1, 2, 3):
        out = before.copy()
        _core.held_product(M, False, weights, out, threads)
        np.testing.assert_allclose(out, expected, atol=2e-6 * np.sqrt(p))
        results.append(out)
    assert all(np.array_equal(results[0], other) for other in results)
    if p > 1:  # a coarse sum is not the fine one
        assert not np.array_equal(results[0], expected)


def test_weights_by_columns_are_float64():
    with pytest.raises(TypeError, match="weights"):
        _core.held_product(
            np.ones((2, 3), np.float32), True, np.ones((2, 1), np.float32), np.ones((1, 3)), 1
        )


def test_a_held_matrix_refuses_weights_of_another_shape():
    with pytest.raises(ValueError, match="weights"):
        _core.held_product(np.ones((2, 3), np.float32), False, np.ones((1, 2)), np.ones((2, 1)), 1)


@pytest.mark.parametrize(("n", "d"), [(1, 2), (7, 3), (130, 5), (300, 1)])
def test_weighted_differences_are_summed_up_along_every_input(rng, dtype, n, d):
    weights = rng.normal(size=(n, n)).astype(dtype)
    weights = np.triu(weights) + np.triu(weights, 1).T
    columns = rng.normal(size=(d, n)).astype(dtype)
    wide, exact = weights.astype(float), columns.astype(float)
    apart = np.abs(exact[:, :, None] - exact[:, None, :])
    found = []
    for n_threads in (1, 3):
        half, out = np.triu(weights), np.ones(d)  # the lower triangle is not read
        _core.distance_sums(half, columns, out, n_threads)
        found.append(out)
    tol = n**1.5 * (3e-6 if dtype == np.float32 else 1e-14)
    np.testing.assert_allclose(found[0] - 1, np.einsum("ij,aij->a", wide, apart), rtol=0, atol=tol)
    np.testing.assert_array_equal(found[1], found[0])


def test_weights_of_differences_are_a_square_as_large_as_the_columns():
    with pytest.raises(ValueError, match=r"weights must have shape \(3, 3\); got \(3, 2\)\."):
        _core.distance_sums(np.ones((3, 2)), np.ones((1, 3)), np.ones(1), 1)
    with pytest.raises(ValueError, match=r"columns must have shape \(1, 3\); got \(1, 2\)\."):
        _core.distance_sums(np.ones((3, 3)), np.ones((1, 2)), np.ones(1), 1)
