"""Kernel matrices of the core, against NumPy and SciPy in higher precision."""

from __future__ import annotations

import numpy as np
import pytest

from _core_twins import LEVELS, run_at_level
from mercer import _core

pytestmark = pytest.mark.rounding

PARAMETER = 2.5
OF_SQUARES = {
    "sqeuclidean": lambda s: s,
    "gaussian": lambda s: np.exp(-s),
    "exponential": lambda s: np.exp(-np.sqrt(s)),
    "matern_3_2": lambda s: (1 + np.sqrt(3 * s)) * np.exp(-np.sqrt(3 * s)),
    "matern_5_2": lambda s: (1 + np.sqrt(5 * s) + 5 * s / 3) * np.exp(-np.sqrt(5 * s)),
    "rational": lambda s: 1 / (1 + s),
    "rational_power": lambda s: (1 + s / PARAMETER) ** -PARAMETER,
}
DIRECT = {
    "cityblock": lambda t: t.sum(axis=-1),
    "laplacian": lambda t: np.exp(-t.sum(axis=-1)),
    "cauchy": lambda t: 1 / (1 + t**2).prod(axis=-1),
}
NAMES = [*OF_SQUARES, *DIRECT]
DISTANCES = ("sqeuclidean", "cityblock")

# rows of X and of Y, inputs
SHAPES = [(1, 1, 1), (5, 7, 3), (97, 100, 54), (13, 33, 300), (300, 40, 1), (100, 17, 129)]


def twin(name, X, Y, scale, parameter=PARAMETER):
    t = np.abs(X.astype(np.longdouble)[:, None] - Y.astype(np.longdouble)) * scale
    if name == "rational_power":
        return (1 + (t**2).sum(axis=-1) / parameter) ** -np.longdouble(parameter)
    return DIRECT[name](t) if name in DIRECT else OF_SQUARES[name]((t**2).sum(axis=-1))


def kernel(name, X, Y, scale, parameter=PARAMETER, n_threads=2):
    out = np.full((len(X), len(Y)), np.nan, X.dtype)
    centre = Y.mean(axis=0, dtype=np.float64) if len(Y) else np.zeros(X.shape[1])
    assert _core.kernel_block(name, X, Y, centre, scale, parameter, out, n_threads)
    return out


def problem(rng, n, m, d, dtype):
    X, Y = rng.normal(size=(n, d)), rng.normal(size=(m, d))
    return X.astype(dtype), Y.astype(dtype), rng.uniform(0.5, 1.5, d) / np.sqrt(d)


@pytest.mark.parametrize(("n", "m", "d"), SHAPES)
@pytest.mark.parametrize("name", NAMES)
def test_float64_is_right_to_a_few_units(rng, name, n, m, d):
    X, Y, scale = problem(rng, n, m, d, np.float64)
    exact = twin(name, X, Y, scale).astype(float)
    rtol = 3e-14 if d > 1 or name in DIRECT else 1e-9  # for what a square of close rows loses
    np.testing.assert_allclose(kernel(name, X, Y, scale), exact, rtol=rtol)


@pytest.mark.parametrize("offset", [0.0, 1000.0])
@pytest.mark.parametrize("spread", [0.1, 1.0, 3.0, 30.0])
@pytest.mark.parametrize("name", [name for name in NAMES if name not in DISTANCES])
def test_float32_is_right_to_a_millionth_at_every_scale(rng, name, spread, offset):
    for n, m, d in [(60, 50, 3), (60, 50, 54), (40, 30, 500)]:
        X, Y, scale = problem(rng, n, m, d, np.float32)
        Y[: m // 2] = X[: m // 2] + rng.normal(size=(m // 2, d)) * 0.01 / spread  # near ones too
        X, Y, scale = X + np.float32(offset), Y + np.float32(offset), scale * spread
        exact = twin(name, X, Y, scale)
        assert np.abs(kernel(name, X, Y, scale) - exact).max() < 1e-6


@pytest.mark.parametrize("name", NAMES)
def test_equal_rows_are_exactly_alike_and_the_matrix_is_symmetric(rng, dtype, name):
    for n, d in [(130, 5), (50, 200)]:
        X, _, scale = problem(rng, n, 1, d, dtype)
        X[n // 2] = X[3]
        K = kernel(name, X, X.copy(), scale)
        alike = 0.0 if name in DISTANCES else 1.0
        assert (K.diagonal() == alike).all()
        assert K[n // 2, 3] == alike
        np.testing.assert_array_equal(K, K.T)
        np.testing.assert_array_equal(K[n // 2], K[3])


@pytest.mark.parametrize("name", list(OF_SQUARES))
def test_close_rows_far_out_keep_their_digits(rng, name):
    X, _, scale = problem(rng, 40, 1, 30, np.float64)
    X = np.round(X * 2**20) / 2**20 * 2**10
    Y = X + np.round(rng.normal(size=X.shape)) * 2.0**-20
    Y[0] = -X[0]  # so that no centre helps
    K, exact = kernel(name, X, Y, scale), twin(name, X, Y, scale).astype(float)
    np.testing.assert_allclose(K.diagonal()[1:], exact.diagonal()[1:], rtol=1e-13)
    if name == "sqeuclidean":
        np.testing.assert_allclose(K, exact, rtol=1e-8)


@pytest.mark.parametrize("name", NAMES)
def test_neither_threads_nor_other_rows_matter(rng, name):
    X, Y, scale = problem(rng, 250, 70, 140, np.float64)
    K = kernel(name, X, Y, scale, n_threads=1)
    np.testing.assert_array_equal(kernel(name, X, Y, scale, n_threads=3), K)
    some = kernel(name, X[101:104], Y[:7], scale, n_threads=1)
    np.testing.assert_allclose(some, K[101:104, :7], rtol=1e-13)


def test_exponentials_are_accurate_until_they_vanish():
    x = np.concatenate([np.geomspace(1e-300, 1, 500), np.linspace(1, 707, 5000)])
    zero, one = np.zeros((1, 1)), np.ones(1)
    decay = kernel("laplacian", x[:, None], zero, one)[:, 0]
    np.testing.assert_allclose(decay, np.exp(-x.astype(np.longdouble)).astype(float), rtol=4e-16)
    far = np.array([[709.0], [745.0], [1e10], [1e308]])
    np.testing.assert_array_equal(kernel("laplacian", far, zero, one), np.zeros((4, 1)))
    narrow = x[x < 86].astype(np.float32)
    decay = kernel("laplacian", narrow[:, None], zero.astype(np.float32), one)[:, 0]
    np.testing.assert_allclose(decay, np.exp(-narrow.astype(np.float64)), rtol=2e-7)


@pytest.mark.parametrize("name", ["gaussian", "rational"])
@pytest.mark.parametrize("longest", [3.0, 20.0, 60.0])
def test_a_few_long_rows_of_float32_are_as_right_as_all(rng, name, longest):
    n, d = 640, 54
    X = rng.normal(size=(n, d))
    X *= 1.1 / np.linalg.norm(X, axis=1)[:, None]
    X[:30] *= np.sqrt(longest) / 1.1
    Y = X + rng.normal(size=(n, d)) * 10.0 ** rng.uniform(-4, -1, (n, 1))
    X, Y = X.astype(np.float32), Y.astype(np.float32)
    exact = kernel(name, X.astype(np.float64), Y.astype(np.float64), np.ones(d))
    assert np.abs(kernel(name, X, Y, np.ones(d)) - exact).max() < 1e-6
    square = kernel(name, X, X, np.ones(d))
    np.testing.assert_array_equal(square, square.T)


@pytest.mark.parametrize("parameter", [1e-6, 0.5, 1.0, 30.0, 1e6, 1e15])
def test_rational_powers_are_accurate_for_every_exponent(parameter):
    root = np.geomspace(1e-8, 1e3, 2000)
    K = kernel("rational_power", root[:, None], np.zeros((1, 1)), np.ones(1), parameter)[:, 0]
    s = root.astype(np.longdouble) ** 2
    exponent = parameter * np.log1p(s / np.longdouble(parameter))
    seen = exponent < 700
    tolerance = 1e-15 * (1 + exponent[seen]).astype(float)
    assert (abs(K[seen] / np.exp(-exponent[seen]) - 1) < tolerance).all()


@pytest.mark.parametrize("name", NAMES)
def test_far_rows_have_no_kernel_and_overflow_is_told(dtype, name):
    far = np.array([[0.0], [1e18]], dtype)
    K = kernel(name, far, far, np.ones(1))
    if name not in DISTANCES:
        assert K[0, 1] < 1e-17
    X = np.array([[float(np.finfo(dtype).max)], [-float(np.finfo(dtype).max)]], dtype)
    out = np.empty((2, 2), dtype)
    fits = _core.kernel_block(name, X, X, np.zeros(1), np.ones(1), 2.5, out, 1)
    assert fits == (name in DIRECT or dtype == np.float32)
    if fits and name not in DISTANCES:
        np.testing.assert_allclose(out, np.eye(2), rtol=0, atol=1e-30)


@pytest.mark.parametrize(("n", "m", "d"), [(0, 3, 4), (3, 0, 4), (3, 4, 0)])
@pytest.mark.parametrize("name", ["gaussian", "laplacian", "cauchy"])
def test_empty_axes_are_no_special_case(dtype, name, n, m, d):
    K = kernel(name, np.zeros((n, d), dtype), np.zeros((m, d), dtype), np.ones(d))
    np.testing.assert_array_equal(K, np.ones((n, m)))


def test_levels_agree_to_rounding():
    code = f"""
rng = np.random.default_rng(0)
X, Y = rng.normal(size=(30, 150)), rng.normal(size=(25, 150))
result = []
for name in {NAMES!r}:
    out = np.empty((30, 25))
    _core.kernel_block(name, X, Y, Y.mean(axis=0), np.full(150, 0.1), 2.5, out, 2)
    result += out.ravel().tolist()
"""
    results = [run_at_level(level, code) for level in LEVELS]
    for result in results[1:]:
        np.testing.assert_allclose(result, results[0], rtol=1e-13)


def test_a_wrong_argument_is_named(rng):
    X, Y, scale = problem(rng, 4, 5, 3, np.float64)
    centre, out = np.zeros(3), np.empty((4, 5))
    with pytest.raises(ValueError, match=r"kernel must be one of sqeuclidean, .*; got linear\."):
        _core.kernel_block("linear", X, Y, centre, scale, 1.0, out, 1)
    with pytest.raises(TypeError, match=r"Y must have dtype float64; got float32\."):
        _core.kernel_block("gaussian", X, Y.astype(np.float32), centre, scale, 1.0, out, 1)
    with pytest.raises(ValueError, match=r"Y must have shape \(5, 3\); got \(5, 2\)\."):
        _core.kernel_block("gaussian", X, Y[:, :2].copy(), centre, scale, 1.0, out, 1)
    with pytest.raises(ValueError, match=r"scale must have shape \(3\); got \(2\)\."):
        _core.kernel_block("gaussian", X, Y, centre, scale[:2], 1.0, out, 1)
    with pytest.raises(ValueError, match=r"out must have shape \(4, 5\); got \(5, 4\)\."):
        _core.kernel_block("gaussian", X, Y, centre, scale, 1.0, np.empty((5, 4)), 1)
