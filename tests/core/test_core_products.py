"""Products with binned matrices, against the same matrix in CSR form."""

from __future__ import annotations

import numpy as np
import pytest

from _core_twins import LEVELS, binned_csr, run_at_level
from _covering import pairwise
from mercer import _core

pytestmark = pytest.mark.rounding

CODE_TYPES = [np.uint8, np.uint16, np.uint32]
# rows, grids, outputs
SHAPES = [(1, 1, None), (1000, 5, None), (40_000, 9, None), (900, 7, 1), (900, 6, 3), (700, 9, 26)]


class Matrix:
    """Random codes with some grids of one bin; with ``missing`` some of no bin at all."""

    def __init__(self, rng, n, n_grids, code_type, missing):
        n_bins = rng.integers(0 if missing else 1, 250, n_grids)
        self.offsets = np.concatenate([[0], np.cumsum(n_bins)]).astype(np.int64)
        spare = 5 if missing else 0
        self.codes = np.stack([rng.integers(0, b + spare, n) for b in n_bins]).astype(code_type)
        self.missing = missing
        self.dense_form = binned_csr(self.codes, self.offsets)

    def operand(self, rng, axis, k, dtype):
        length = self.dense_form.shape[axis]
        return rng.normal(size=(length,) if k is None else (length, k)).astype(dtype)

    def times(self, function, operand, length, scale=0.3, n_threads=1):
        out = np.full((length, *operand.shape[1:]), np.nan, operand.dtype)
        function(self.codes, self.offsets, operand, out, scale, self.missing, n_threads)
        return out


def assert_close(actual, expected):
    tolerance = 2e-5 if actual.dtype == np.float32 else 1e-13
    np.testing.assert_allclose(actual, expected, rtol=0, atol=tolerance * np.abs(expected).max())


@pytest.mark.parametrize(
    ("shape", "code_type", "missing", "dtype", "n_threads"),
    pairwise(SHAPES, CODE_TYPES, [False, True], [np.float32, np.float64], [1, 3]),
    ids=str,
)
def test_products_are_those_of_the_csr_form(rng, shape, code_type, missing, dtype, n_threads):
    n, n_grids, k = shape
    Z = Matrix(rng, n, n_grids, code_type, missing)
    w, v = Z.operand(rng, 1, k, dtype), Z.operand(rng, 0, k, dtype)
    csr, (n, n_columns) = Z.dense_form, Z.dense_form.shape
    Zv = csr.T @ v.astype(float)
    expected = 0.3 * (csr @ w.astype(float)), 0.3 * Zv, 0.3 * (csr @ Zv)
    if n_columns:
        assert_close(Z.times(_core.binned_matvec, w, n, 0.3, n_threads), expected[0] + 0.0)
        assert_close(Z.times(_core.binned_rmatvec, v, n_columns, 0.3, n_threads), expected[1])
    assert_close(Z.times(_core.binned_gram_matvec, v, n, 0.3, n_threads), expected[2] + 0.0)


@pytest.mark.parametrize("k", [1, 2, 4, 5, 7, 8, 15, 16, 17, 31, 100])
def test_every_number_of_outputs_is_served(rng, dtype, k):
    Z = Matrix(rng, 300, 6, np.uint16, False)
    w, v = Z.operand(rng, 1, k, dtype), Z.operand(rng, 0, k, dtype)
    assert_close(Z.times(_core.binned_matvec, w, 300), 0.3 * (Z.dense_form @ w.astype(float)))
    Zv = Z.dense_form.T @ v.astype(float)
    assert_close(Z.times(_core.binned_rmatvec, v, len(Zv)), 0.3 * Zv)


def test_many_bins_need_no_room_for_all_outputs_at_once(rng, dtype):
    n_bins = 30_000
    offsets = np.arange(4, dtype=np.int64) * n_bins
    codes = rng.integers(0, n_bins, (3, 500)).astype(np.uint16)
    v = rng.normal(size=(500, 40)).astype(dtype)
    out = np.empty((3 * n_bins, 40), dtype)
    _core.binned_rmatvec(codes, offsets, v, out, 1.0, False, 1)
    assert_close(out, binned_csr(codes, offsets).T @ v.astype(float))


@pytest.mark.parametrize("n", [40_000, 40_001])
@pytest.mark.parametrize("n_bins", [3, 511, 5000])
def test_one_frequent_bin_among_others_is_summed_like_them(rng, dtype, n, n_bins):
    codes = np.minimum(rng.integers(0, n_bins, (3, n)), rng.integers(0, n_bins, (3, n)) // 2)
    codes[1] = 0
    codes, offsets = codes.astype(np.uint16), np.arange(4) * n_bins
    v = rng.normal(size=n).astype(dtype)
    out = np.empty(3 * n_bins, dtype)
    _core.binned_rmatvec(codes, offsets, v, out, 1.0, False, 1)
    assert_close(out, binned_csr(codes, offsets).T @ v.astype(float))


def test_long_float32_sums_over_rows_keep_their_digits():
    n = 2**25 + 2  # in float32 a sum of ones would stop at 2**24
    codes, offsets = np.zeros((1, n), np.uint8), np.array([0, 1])
    out = np.empty(1, np.float32)
    _core.binned_rmatvec(codes, offsets, np.ones(n, np.float32), out, 1.0, False, 1)
    assert out[0] == n


@pytest.mark.parametrize("function", [_core.binned_rmatvec, _core.binned_gram_matvec])
@pytest.mark.parametrize("n_threads", [1, 3])
def test_equal_thread_counts_give_equal_bits(rng, function, n_threads):
    Z = Matrix(rng, 5000, 40, np.uint16, False)
    v = Z.operand(rng, 0, None, np.float32)
    length = Z.dense_form.shape[1] if function is _core.binned_rmatvec else 5000
    runs = [Z.times(function, v, length, n_threads=n_threads) for _ in range(3)]
    np.testing.assert_array_equal(runs[0], runs[1])
    np.testing.assert_array_equal(runs[0], runs[2])


def test_nothing_in_gives_zeros(dtype):
    codes, offsets = np.empty((3, 0), np.uint16), np.array([0, 2, 5, 6])
    out = np.full(6, np.nan, dtype)
    _core.binned_rmatvec(codes, offsets, np.empty(0, dtype), out, 1.0, False, 2)
    np.testing.assert_array_equal(out, np.zeros(6))
    _core.binned_matvec(codes, offsets, out, np.empty(0, dtype), 1.0, False, 2)
    codes, offsets = np.empty((0, 4), np.uint16), np.array([0])
    out = np.full(4, np.nan, dtype)
    _core.binned_matvec(codes, offsets, np.empty(0, dtype), out, 1.0, False, 2)
    np.testing.assert_array_equal(out, np.zeros(4))


def test_levels_agree_to_rounding():
    code = """
rng = np.random.default_rng(0)
offsets, codes = np.arange(9) * 50, rng.integers(0, 50, (8, 700)).astype(np.uint16)
result = []
for k in (1, 13):
    w, v = rng.normal(size=(400, k)), rng.normal(size=(700, k))
    for product, operand, length in [(_core.binned_matvec, w, 700), (_core.binned_rmatvec, v, 400),
                                     (_core.binned_gram_matvec, v, 700)]:
        out = np.empty((length, k))
        product(codes, offsets, operand, out, 1.0, False, 1)
        result += out.ravel().tolist()
"""
    results = [run_at_level(level, code) for level in LEVELS]
    for result in results[1:]:
        np.testing.assert_allclose(result, results[0], rtol=1e-12, atol=1e-12)


def test_a_wrong_argument_is_named(rng):
    Z = Matrix(rng, 20, 3, np.uint8, False)
    w, out = Z.operand(rng, 1, None, np.float64), np.empty(20)
    arguments = 1.0, False, 1
    with pytest.raises(TypeError, match=r"codes must have dtype uint8 or uint16 or uint32; got "):
        _core.binned_matvec(Z.codes.astype(int), Z.offsets, w, out, *arguments)
    with pytest.raises(ValueError, match=r"w must have shape \(\d+\); got \(20\)\."):
        _core.binned_matvec(Z.codes, Z.offsets, out, out, *arguments)
    with pytest.raises(ValueError, match=r"out must have shape \(20\); got \(19\)\."):
        _core.binned_matvec(Z.codes, Z.offsets, w, out[:19].copy(), *arguments)
    with pytest.raises(TypeError, match=r"out must have dtype float64; got float32\."):
        _core.binned_matvec(Z.codes, Z.offsets, w, out.astype(np.float32), *arguments)
    with pytest.raises(ValueError, match=r"out must have one axis; got 2\."):
        _core.binned_matvec(Z.codes, Z.offsets, w, out[:, None], *arguments)
    with pytest.raises(ValueError, match=r"v must have one or two axes; got 3\."):
        _core.binned_rmatvec(Z.codes, Z.offsets, np.zeros((20, 1, 1)), w, *arguments)
    with pytest.raises(ValueError, match="offsets must rise from 0 to the number of columns"):
        _core.binned_matvec(Z.codes, Z.offsets[::-1].copy(), w, out, *arguments)
