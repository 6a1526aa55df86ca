"""Walsh-Hadamard transforms, against SciPy's matrices."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.linalg import hadamard

from _core_twins import LEVELS, run_at_level
from _covering import pairwise
from mercer import _core

pytestmark = pytest.mark.rounding

LENGTHS = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096]


def tolerance(dtype, length):
    """Rounding of sums of ``length`` standard normal numbers."""
    return 8 * np.finfo(dtype).eps * np.sqrt(length) * np.log2(2 * length)


@pytest.mark.parametrize("length", LENGTHS)
def test_rows_are_multiplied_by_the_matrix(rng, dtype, length):
    a = rng.normal(size=(11, length)).astype(dtype)
    expected = a.astype(np.float64) @ hadamard(length)
    for n_threads in (1, 3):
        found = a.copy()
        _core.hadamard(found, n_threads)
        np.testing.assert_allclose(found, expected, rtol=0, atol=tolerance(dtype, length))


@pytest.mark.parametrize(
    ("length", "width", "dtype"),
    pairwise(LENGTHS, [1, 3, 64, 101], [np.float32, np.float64]),
    ids=str,
)
def test_columns_are_multiplied_by_the_matrix(rng, dtype, length, width):
    a = rng.normal(size=(length, width)).astype(dtype)
    expected = hadamard(length) @ a.astype(np.float64)
    for n_threads in (1, 3):
        found = a.copy()
        _core.hadamard_columns(found, n_threads)
        np.testing.assert_allclose(found, expected, rtol=0, atol=tolerance(dtype, length))


@pytest.mark.parametrize("length", [2**15, 2**19])
def test_lengths_beyond_the_caches_are_pieces_and_then_across_the_pieces(rng, dtype, length):
    a = rng.normal(size=(2, length)).astype(dtype)
    pieces = a.reshape(2, -1, 1024) @ hadamard(1024).astype(dtype)
    expected = np.einsum("ij,mjk->mik", hadamard(length // 1024).astype(dtype), pieces)
    rows, columns = a.copy(), np.ascontiguousarray(a.T)
    _core.hadamard(rows, 2)
    _core.hadamard_columns(columns, 2)
    np.testing.assert_allclose(rows, expected.reshape(a.shape), atol=tolerance(dtype, length))
    np.testing.assert_array_equal(columns.T, rows)


@pytest.mark.parametrize("length", [1, 2, 8, 64, 4096, 2**16])
def test_twice_is_the_length_times_the_identity(rng, dtype, length):
    a = rng.integers(-3, 4, (3, length)).astype(dtype)  # sums of integers are exact
    twice = a.copy()
    _core.hadamard(twice, 2)
    _core.hadamard(twice, 2)
    np.testing.assert_array_equal(twice, length * a)


def test_the_transform_of_a_unit_vector_is_a_row_of_signs(dtype):
    a = np.eye(64, dtype=dtype)
    _core.hadamard(a, 1)
    np.testing.assert_array_equal(a, hadamard(64))


@pytest.mark.parametrize("shape", [(0, 8), (7, 1)])
def test_nothing_to_do_is_no_special_case(dtype, shape):
    a = np.ones(shape, dtype)
    _core.hadamard(a, 2)
    np.testing.assert_array_equal(a, np.ones(shape))
    _core.hadamard_columns(a.T.copy(), 2)


def test_threads_and_neighbours_make_no_difference(rng, dtype):
    a = rng.normal(size=(37, 512)).astype(dtype)
    alone, together = a.copy(), a.copy()
    for i in range(37):
        _core.hadamard(alone[i : i + 1], 1)
    _core.hadamard(together, 3)
    np.testing.assert_array_equal(alone, together)
    columns = np.ascontiguousarray(a.T)
    _core.hadamard_columns(columns, 3)
    np.testing.assert_array_equal(columns.T, together)


def test_levels_agree_to_the_last_bit():
    code = """
rows = np.random.default_rng(0).normal(size=(5, 2048)).astype(np.float32)
columns = np.ascontiguousarray(rows.T)
_core.hadamard(rows, 1)
_core.hadamard_columns(columns, 2)
result = rows.tolist() + columns.T.tolist()
"""
    results = [run_at_level(level, code) for level in LEVELS]
    assert all(result == results[0] for result in results[1:])


@pytest.mark.parametrize(
    ("function", "a", "error", "message"),
    [
        ("hadamard", np.ones((4, 6)), ValueError, r"a must have a power of two of columns; got 6"),
        ("hadamard", np.ones((4, 0)), ValueError, r"a must have a power of two of columns; got 0"),
        ("hadamard_columns", np.ones((6, 4)), ValueError, r"a power of two of rows; got 6\."),
        ("hadamard", np.ones(4), ValueError, r"a must have two axes; got 1\."),
        ("hadamard", np.ones((4, 4), np.int64), TypeError, r"must have dtype float32 or float64"),
        ("hadamard", np.ones((8, 8))[:, ::2], ValueError, r"a must be C-contiguous; got a strided"),
        ("hadamard_columns", np.frombuffer(bytes(64)).reshape(2, 4), ValueError, "be writable"),
    ],
)
def test_a_wrong_argument_is_named(function, a, error, message):
    with pytest.raises(error, match=message):
        getattr(_core, function)(a, 1)


def fastfood_problem(rng, n, d, n_blocks, length, m, dtype):
    order = np.argsort(rng.random((n_blocks, length)), axis=1).astype(np.uint32)
    numbers = (
        rng.normal(size=(n, d)),
        rng.normal(size=(n_blocks, d)),
        rng.normal(size=(n_blocks, length)),
        rng.normal(size=m) / length,
        rng.uniform(0, 2 * np.pi, m),
    )
    X, factors, gains, lengths, phases = (part.astype(dtype) for part in numbers)
    return X, factors, order, gains, lengths, phases


def projections(X, factors, order, gains, lengths):
    n_blocks, length = order.shape
    H = hadamard(length)
    padded = np.zeros((len(X), length))
    blocks = []
    for b in range(n_blocks):
        padded[:, : X.shape[1]] = X.astype(np.float64) * factors[b]
        blocks.append((padded @ H)[:, order[b]] * gains[b] @ H)
    return np.hstack(blocks)[:, : len(lengths)] * lengths


@pytest.mark.parametrize("n_threads", [1, 3])
@pytest.mark.parametrize(
    ("n", "d", "n_blocks", "length", "m"),
    [
        (1, 1, 1, 1, 1),
        (3, 1, 7, 1, 5),
        (50, 3, 9, 4, 33),
        (100, 20, 4, 32, 127),
        (37, 200, 2, 256, 400),
        (17, 1000, 3, 1024, 2050),
    ],
)
def test_fastfood_features_are_cosines_of_its_products(
    rng, dtype, n, d, n_blocks, length, m, n_threads
):
    *parts, phases = fastfood_problem(rng, n, d, n_blocks, length, m, dtype)
    x = projections(*parts)
    out, pairs = np.full((n, m), np.nan, dtype), np.full((n, 2 * m), np.nan, dtype)
    _core.fastfood(*parts, phases, 0.5, out, n_threads)
    _core.fastfood(*parts, None, 0.5, pairs, n_threads)
    atol = np.finfo(dtype).eps * (4 + 20 * np.log2(2 * length) * max(abs(x).max(), 1))
    np.testing.assert_allclose(out, 0.5 * np.cos(x + phases), rtol=0, atol=atol)
    np.testing.assert_allclose(pairs[:, ::2], 0.5 * np.cos(x), rtol=0, atol=atol)
    np.testing.assert_allclose(pairs[:, 1::2], 0.5 * np.sin(x), rtol=0, atol=atol)


def test_a_fastfood_row_does_not_depend_on_its_neighbours(rng, dtype):
    *parts, phases = fastfood_problem(rng, 40, 20, 4, 32, 100, dtype)
    whole, one = np.empty((40, 100), dtype), np.empty((1, 100), dtype)
    _core.fastfood(*parts, phases, 0.5, whole, 3)
    for i in (0, 17, 39):
        _core.fastfood(parts[0][i : i + 1], *parts[1:], phases, 0.5, one, 1)
        np.testing.assert_array_equal(one[0], whole[i])


def test_a_wrong_fastfood_argument_is_named(rng):
    X, factors, order, gains, lengths, phases = fastfood_problem(rng, 4, 3, 2, 4, 7, np.float64)
    out = np.empty((4, 7))
    with pytest.raises(ValueError, match=r"order must be below its number of columns; got 4\."):
        _core.fastfood(X, factors, order + np.uint32(1), gains, lengths, phases, 1.0, out, 1)
    with pytest.raises(ValueError, match=r"order must have a power of two .* or more; got 2\."):
        _core.fastfood(X, factors, order[:, :2].copy(), gains, lengths, phases, 1.0, out, 1)
    with pytest.raises(ValueError, match=r"lengths must have no more entries than order; got 9\."):
        _core.fastfood(X, factors, order, gains, np.ones(9), phases, 1.0, out, 1)
    with pytest.raises(ValueError, match=r"gains must have shape \(2, 4\); got \(1, 4\)\."):
        _core.fastfood(X, factors, order, gains[:1], lengths, phases, 1.0, out, 1)
    with pytest.raises(ValueError, match=r"out must have shape \(4, 14\); got \(4, 7\)\."):
        _core.fastfood(X, factors, order, gains, lengths, None, 1.0, out, 1)
    with pytest.raises(TypeError, match=r"phases must have dtype float64; got float32\."):
        _core.fastfood(X, factors, order, gains, lengths, phases.astype(np.float32), 1.0, out, 1)
