"""Cosine features, against NumPy in higher precision."""

from __future__ import annotations

import numpy as np
import pytest

from _core_twins import LEVELS, run_at_level
from mercer import _core

pytestmark = pytest.mark.rounding

# rows, inputs, frequencies
SHAPES = [(1, 1, 1), (5, 3, 7), (97, 54, 100), (200, 600, 65), (300, 1, 40), (13, 257, 33)]


def arguments(X, frequencies):
    return X.astype(np.longdouble) @ frequencies.astype(np.longdouble).T


def problem(rng, n, d, m, dtype):
    X, frequencies = rng.normal(size=(n, d)), rng.normal(size=(m, d)) / np.sqrt(max(d, 1))
    phases = rng.uniform(0, 2 * np.pi, m)
    return X.astype(dtype), frequencies.astype(dtype), phases.astype(dtype)


def tolerance(dtype, largest):
    """Rounding of an argument up to ``largest`` and of the cosine itself."""
    return np.finfo(dtype).eps * (4 + 2 * float(largest))


@pytest.mark.parametrize("n_threads", [1, 3])
@pytest.mark.parametrize(("n", "d", "m"), SHAPES)
def test_blocks_are_scaled_cosines_of_products(rng, n, d, m, dtype, n_threads):
    X, frequencies, phases = problem(rng, n, d, m, dtype)
    x = arguments(X, frequencies) + phases
    out = np.full((n, m), np.nan, dtype)
    _core.cosine_block(X, frequencies, phases, 0.5, out, n_threads)
    np.testing.assert_allclose(out, 0.5 * np.cos(x), rtol=0, atol=tolerance(dtype, abs(x).max()))


@pytest.mark.parametrize("k", [1, 3])
@pytest.mark.parametrize(("n", "d", "m"), SHAPES)
def test_products_are_those_of_the_block_and_depend_on_nothing_else(rng, n, d, m, k, dtype):
    X, frequencies, phases = problem(rng, n, d, m, dtype)
    block, weights = np.empty((n, m), dtype), rng.normal(size=(m, k))
    _core.cosine_block(X, frequencies, phases, 0.5, block, 1)
    sums = np.ones((n, k))
    _core.cosine_product(X, frequencies, phases, 0.5, weights, sums, 3)
    expected = 1 + block.astype(np.float64) @ weights
    np.testing.assert_allclose(sums, expected, rtol=0, atol=1e-14 * np.abs(weights).sum())
    for part in (slice(0, 1), slice(n // 2, None)):
        alone = np.ones((n, k))[part]
        _core.cosine_product(X[part], frequencies, phases, 0.5, weights, alone, 1)
        np.testing.assert_array_equal(alone, sums[part])


@pytest.mark.parametrize("n_threads", [1, 3])
@pytest.mark.parametrize(("n", "d", "m"), SHAPES)
def test_pairs_are_cosines_and_sines_side_by_side(rng, n, d, m, dtype, n_threads):
    X, frequencies, _ = problem(rng, n, d, m, dtype)
    x = arguments(X, frequencies)
    out = np.full((n, 2 * m), np.nan, dtype)
    _core.cosine_pairs(X, frequencies, 0.5, out, n_threads)
    atol = tolerance(dtype, abs(x).max())
    np.testing.assert_allclose(out[:, ::2], 0.5 * np.cos(x), rtol=0, atol=atol)
    np.testing.assert_allclose(out[:, 1::2], 0.5 * np.sin(x), rtol=0, atol=atol)


@pytest.mark.parametrize("n_threads", [1, 2])
def test_ready_made_products_give_the_same_features(rng, dtype, n_threads):
    X, frequencies, phases = problem(rng, 40, 6, 37, dtype)
    x = arguments(X, frequencies)
    values, pairs = x.astype(dtype), np.full((40, 74), np.nan, dtype)
    _core.cosine_pairs_from(values, 0.5, pairs, n_threads)
    _core.cosine_inplace(values, phases, 0.5, n_threads)
    atol = tolerance(dtype, abs(x).max() + 7)
    np.testing.assert_allclose(values, 0.5 * np.cos(x + phases), rtol=0, atol=atol)
    np.testing.assert_allclose(pairs[:, ::2], 0.5 * np.cos(x), rtol=0, atol=atol)
    np.testing.assert_allclose(pairs[:, 1::2], 0.5 * np.sin(x), rtol=0, atol=atol)


@pytest.mark.parametrize(
    ("dtype", "largest", "bound"),
    [(np.float64, 1e5, 1e-14), (np.float64, 1e6, 1e-14), (np.float32, 1e4, 3e-7)],
)
def test_cosines_and_sines_are_accurate_to_a_few_units(rng, dtype, largest, bound):
    x = rng.uniform(-largest, largest, (10, 20_000)).astype(dtype)
    x[0, :1000] = np.arange(1000) * np.pi / 2  # the zeros of both
    exact = x.astype(np.longdouble)
    cosines, pairs = x.copy(), np.empty((10, 40_000), dtype)
    _core.cosine_inplace(cosines, np.zeros(20_000, dtype), 1.0, 1)
    _core.cosine_pairs_from(x, 1.0, pairs, 1)
    assert np.abs(cosines - np.cos(exact)).max() < bound
    assert np.abs(pairs[:, ::2] - np.cos(exact)).max() < bound
    assert np.abs(pairs[:, 1::2] - np.sin(exact)).max() < bound


def test_huge_arguments_stay_between_minus_one_and_one(dtype):
    large = np.geomspace(1, float(np.finfo(dtype).max) / 2, 5000).astype(dtype)
    x = np.concatenate([large, -large, np.array([np.inf, -np.inf, np.nan], dtype)])[None]
    values, pairs = x.copy(), np.empty((1, 2 * x.size), dtype)
    _core.cosine_inplace(values, np.zeros(x.size, dtype), 1.0, 1)
    _core.cosine_pairs_from(x, 1.0, pairs, 1)
    assert (np.abs(values) <= 1).all()
    assert (np.abs(pairs) <= 1).all()
    out = np.empty((1, 1), dtype)
    _core.cosine_block(large[-1:, None], large[-1:, None], np.zeros(1, dtype), 1.0, out, 1)
    assert abs(out[0, 0]) <= 1


def test_the_cosine_of_zero_is_exactly_one(dtype):
    out = np.empty((3, 8), dtype)
    _core.cosine_pairs(np.zeros((3, 2), dtype), np.ones((4, 2), dtype), 1.0, out, 1)
    np.testing.assert_array_equal(out, np.tile([1.0, 0.0], (3, 4)))


@pytest.mark.parametrize(("n", "d", "m"), [(0, 3, 4), (3, 4, 0), (3, 0, 4)])
def test_empty_axes_are_no_special_case(rng, dtype, n, d, m):
    X, frequencies, phases = problem(rng, n, d, m, dtype)
    out, pairs = np.full((n, m), np.nan, dtype), np.full((n, 2 * m), np.nan, dtype)
    _core.cosine_block(X, frequencies, phases, 1.0, out, 2)
    _core.cosine_pairs(X, frequencies, 1.0, pairs, 2)
    sums = np.zeros((n, 2))
    _core.cosine_product(X, frequencies, phases, 1.0, np.ones((m, 2)), sums, 2)
    np.testing.assert_allclose(sums, np.repeat(out.sum(axis=1)[:, None], 2, axis=1), rtol=1e-6)
    if d == 0:
        np.testing.assert_allclose(out, np.tile(np.cos(phases), (n, 1)), atol=1e-6)
        np.testing.assert_array_equal(pairs, np.tile([1.0, 0.0], (n, m)))


def test_a_row_does_not_depend_on_its_neighbours(rng, dtype):
    X, frequencies, phases = problem(rng, 101, 300, 70, dtype)
    whole, one = np.empty((101, 70), dtype), np.empty((1, 70), dtype)
    _core.cosine_block(X, frequencies, phases, 1.0, whole, 2)
    for i in (0, 50, 100):
        _core.cosine_block(X[i : i + 1], frequencies, phases, 1.0, one, 1)
        np.testing.assert_array_equal(one[0], whole[i])


def test_levels_agree_to_rounding():
    code = """
rng = np.random.default_rng(0)
X, F, b = rng.normal(size=(50, 300)), rng.normal(size=(40, 300)) / 17, rng.uniform(0, 6, 40)
block, pairs = np.empty((50, 40)), np.empty((50, 80))
_core.cosine_block(X, F, b, 1.0, block, 1)
_core.cosine_pairs(X, F, 1.0, pairs, 1)
result = [*block.ravel().tolist(), *pairs.ravel().tolist()]
"""
    results = [run_at_level(level, code) for level in LEVELS]
    for result in results[1:]:
        np.testing.assert_allclose(result, results[0], rtol=0, atol=1e-13)


def test_a_wrong_argument_is_named(rng):
    X, frequencies, phases = problem(rng, 4, 3, 5, np.float64)
    out = np.empty((4, 5))
    with pytest.raises(TypeError, match=r"frequencies must have dtype float64; got float32\."):
        _core.cosine_block(X, frequencies.astype(np.float32), phases, 1.0, out, 1)
    with pytest.raises(ValueError, match=r"frequencies must have shape \(5, 3\); got \(5, 2\)\."):
        _core.cosine_block(X, frequencies[:, :2].copy(), phases, 1.0, out, 1)
    with pytest.raises(ValueError, match=r"phases must have shape \(5\); got \(4\)\."):
        _core.cosine_block(X, frequencies, phases[:4], 1.0, out, 1)
    with pytest.raises(ValueError, match=r"out must have shape \(4, 10\); got \(4, 5\)\."):
        _core.cosine_pairs(X, frequencies, 1.0, out, 1)
    with pytest.raises(ValueError, match=r"weights must have shape \(5, 1\); got \(4, 1\)\."):
        _core.cosine_product(X, frequencies, phases, 1.0, np.ones((4, 1)), out[:, :1].copy(), 1)
    with pytest.raises(ValueError, match=r"phases must have shape \(5\); got \(4\)\."):
        _core.cosine_inplace(out, phases[:4], 1.0, 1)
