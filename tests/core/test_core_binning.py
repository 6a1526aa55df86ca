"""Bin codes: float64 indices, keys, dictionaries, hashed columns."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from _core_twins import LEVELS, Grids, buffers, hashed, numbers_in_order, run_at_level
from mercer import _core

pytestmark = pytest.mark.rounding

# rows, inputs, grids, gamma: one row, row by row, one tile, edges counted, codes computed
SHAPES = [
    (1, 5, 7, 1.0),
    (9, 3, 4, 2.0),
    (70, 1, 3, 5.0),
    (600, 54, 5, 0.1),
    (2300, 8, 33, 1.0),
    (400, 6, 5, 30.0),
    (300, 3, 2, 1e5),
]


def rough_data(rng, n, d, dtype):
    """Zeros, ties, ordinary numbers and the largest there are."""
    X = rng.normal(size=(n, d))
    X[:, ::2] = np.round(X[:, ::2], 1)
    X[rng.random((n, d)) < 0.3] = 0.0
    if n > 20:
        limits = np.finfo(dtype)
        X[3, 0], X[4, 0], X[5, -1], X[6, -1] = limits.max, limits.min, limits.tiny, -0.0
    return X.astype(dtype)


def inserted(grids, X, n_threads=1, code_type=np.uint32, index=np.int32):
    table = _core.BinTable(len(grids.shifts))
    codes = np.empty((len(grids.shifts), X.shape[0]), code_type)
    assert table.insert(0, buffers(X, index), *grids.arguments, codes, n_threads)
    return table, codes


@pytest.mark.parametrize("n_threads", [1, 3])
@pytest.mark.parametrize(("n", "d", "n_grids", "gamma"), SHAPES)
def test_numbers_and_keys_are_those_of_float64_indices(rng, n, d, n_grids, gamma, dtype, n_threads):
    X, grids = rough_data(rng, n, d, dtype), Grids(rng, n_grids, d, gamma)
    table, codes = inserted(grids, X, n_threads)
    expected = [numbers_in_order(keys) for keys in grids.keys(X)]
    np.testing.assert_array_equal(codes, [numbers for numbers, _ in expected])
    np.testing.assert_array_equal(table.keys(), np.concatenate([keys for _, keys in expected]))
    np.testing.assert_array_equal(table.n_bins, [len(keys) for _, keys in expected])


@pytest.mark.parametrize("index", [np.int32, np.int64])
@pytest.mark.parametrize(("n", "d", "n_grids", "gamma"), SHAPES)
def test_sparse_equals_dense_bit_for_bit(rng, n, d, n_grids, gamma, dtype, index):
    X, grids = rough_data(rng, n, d, dtype), Grids(rng, n_grids, d, gamma)
    dense_table, dense = inserted(grids, X)
    table, codes = inserted(grids, sparse.csr_array(X), 2, index=index)
    np.testing.assert_array_equal(codes, dense)
    np.testing.assert_array_equal(table.keys(), dense_table.keys())


def test_distinct_keys_are_distinct_boxes(rng):
    X, grids = rng.normal(size=(3000, 4)), Grids(rng, 3, 4)
    for keys, codes in zip(grids.keys(X), grids.codes(X), strict=True):
        assert len(np.unique(keys)) == len(np.unique(codes, axis=0))


@settings(max_examples=60, deadline=None)
@given(
    width=st.floats(1e-3, 1e3),
    shift=st.floats(0, 1, exclude_max=True),
    first=st.integers(-6, 3),
    steps=st.integers(0, 8),
    single=st.booleans(),
)
def test_numbers_at_the_edges_of_bins_fall_as_in_numpy(width, shift, first, steps, single):
    dtype = np.float32 if single else np.float64
    edges = ((np.arange(first, first + steps + 1) + shift) * width).astype(dtype)
    X = [edges]
    for direction in (-np.inf, np.inf):
        near = edges
        for _ in range(5):
            near = np.nextafter(near, dtype(direction))
            X.append(near)
    X = np.tile(np.concatenate(X), 4)[:, None]
    grids = Grids(np.random.default_rng(0), 1, 1)
    grids.inverse_widths[:], grids.shifts[:] = 1 / width, shift
    _, codes = inserted(grids, X)
    np.testing.assert_array_equal(codes[0], numbers_in_order(grids.codes(X)[0, :, 0])[0])


def test_shifts_near_one_and_numbers_near_zero_fall_as_in_numpy():
    X = np.concatenate([s * np.geomspace(1e-320, 1.0, 300) for s in (-1.0, 1.0)])[:, None]
    grids = Grids(np.random.default_rng(0), 3, 1)
    grids.inverse_widths[:], grids.shifts[:, 0] = 1.0, [1 - 2.0**-53, 0.0, 2.0**-60]
    _, codes = inserted(grids, X)
    for row, indices in zip(codes, grids.codes(X)[:, :, 0], strict=True):
        np.testing.assert_array_equal(row, numbers_in_order(indices)[0])


@pytest.mark.parametrize("code_type", [np.uint8, np.uint16, np.uint32])
def test_lookup_finds_what_was_inserted_and_counts_the_rest(rng, dtype, code_type):
    X, grids = rough_data(rng, 500, 3, dtype), Grids(rng, 6, 3, 0.3)
    table, codes = inserted(grids, X[:300], code_type=code_type)
    n_bins = table.n_bins.copy()
    found = np.empty((6, 500), code_type)
    n_unknown = table.lookup(0, X, *grids.arguments, found, 2)
    keys = np.split(table.keys(), np.cumsum(n_bins)[:-1])
    known = np.array([np.isin(a, b) for a, b in zip(grids.keys(X), keys, strict=True)])
    assert n_unknown == np.count_nonzero(~known) > 0
    np.testing.assert_array_equal(found[:, :300], codes)
    np.testing.assert_array_equal(found == n_bins[:, None], ~known)
    np.testing.assert_array_equal(table.n_bins, n_bins)


def test_many_grids_tell_numbers_at_edges_apart_where_float32_does_not(rng):
    """Numbers that round to one float32 lie on both sides of edges."""
    grids = Grids(rng, 40, 2, 0.3)
    edges = ((np.arange(-3, 4) + grids.shifts[:, :1]) / grids.inverse_widths[:, :1]).ravel()
    steps = np.arange(-4, 5) * 2.0**-40
    X = np.column_stack([np.add.outer(edges, steps).ravel(), np.resize([0.0, -0.0, 1e-300], 2520)])
    _, codes = inserted(grids, X)
    expected = [numbers_in_order(keys)[0] for keys in grids.keys(X)]
    np.testing.assert_array_equal(codes, expected)
    rounded = [numbers_in_order(keys)[0] for keys in grids.keys(X.astype(np.float32))]
    assert not np.array_equal(codes, rounded)


@pytest.mark.parametrize("sparse_rows", [False, True])
@pytest.mark.parametrize(
    ("n", "n_grids", "k"), [(3, 7, 1), (700, 33, 1), (2300, 4, 3), (70, 6, 19)]
)
def test_products_without_codes_are_those_of_codes_bit_for_bit(
    rng, dtype, n, n_grids, k, sparse_rows
):
    X, grids = rough_data(rng, n, 4, dtype), Grids(rng, n_grids, 4, 0.3)
    table, _ = inserted(grids, X[: n // 2 + 1])
    w = rng.normal(size=(int(table.n_bins.sum()), k)).astype(dtype)
    w = w[:, 0].copy() if k == 1 else w
    codes = np.empty((n_grids, n), np.uint16)
    n_unknown = table.lookup(0, X, *grids.arguments, codes, 1)
    offsets = np.concatenate([[0], np.cumsum(table.n_bins)])
    expected, out = np.empty((n, *w.shape[1:]), dtype), np.zeros((n, *w.shape[1:]), dtype)
    _core.binned_matvec(codes, offsets, w, expected, 1.0, True, 1)
    rows = buffers(sparse.csr_array(X), np.int32) if sparse_rows else X
    for n_threads in (1, 3):
        out[...] = 0
        assert table.add_matvec(0, rows, *grids.arguments, w, out, n_threads) == n_unknown
        np.testing.assert_array_equal(out, expected)
    if n_grids > 4:
        out[...] = 0
        for start, stop in ((0, 4), (4, n_grids)):
            part = [parameters[start:stop] for parameters in grids.arguments]
            table.add_matvec(start, rows, *part, w, out, 2)
        np.testing.assert_array_equal(out, expected)
    with pytest.raises(ValueError, match="first_grid must be a multiple of 4; got 1"):
        table.add_matvec(1, X, *[part[1:2] for part in grids.arguments], w, out, 1)


def test_a_table_comes_back_from_its_keys(rng):
    X, grids = rng.normal(size=(400, 3)), Grids(rng, 5, 3)
    table, codes = inserted(grids, X)
    again = _core.BinTable.from_keys(table.keys(), table.n_bins, 2)
    found = np.empty_like(codes)
    assert again.lookup(0, X, *grids.arguments, found, 1) == 0
    np.testing.assert_array_equal(found, codes)
    np.testing.assert_array_equal(again.keys(), table.keys())


def test_a_table_is_filled_grid_by_grid_and_batch_by_batch(rng):
    X, grids = rng.normal(size=(400, 3)), Grids(rng, 5, 3)
    table, codes = inserted(grids, X)
    other, pieces = _core.BinTable(5), np.empty_like(codes)
    for g in range(5):
        parameters = [part[g : g + 1] for part in grids.arguments]
        for rows in (slice(0, 150), slice(150, 400)):
            out = np.empty((1, rows.stop - rows.start), np.uint32)
            assert other.insert(g, X[rows], *parameters, out, 1)
            pieces[g, rows] = out
    np.testing.assert_array_equal(pieces, codes)
    np.testing.assert_array_equal(other.keys(), table.keys())


@pytest.mark.parametrize("n_threads", [1, 2])
def test_too_many_bins_for_the_codes_are_reported(rng, n_threads):
    X = np.arange(70_000.0)[:, None]
    grids = Grids(rng, 2, 1)
    grids.inverse_widths[:] = [[1.0], [0.5]]
    table, codes = _core.BinTable(2), np.empty((2, 70_000), np.uint16)
    assert not table.insert(0, X, *grids.arguments, codes, n_threads)
    wide = codes.astype(np.uint32)
    assert table.insert(0, X, *grids.arguments, wide, n_threads)
    np.testing.assert_array_equal(wide[0], np.arange(70_000))
    assert table.n_bins[0] == 70_000
    with pytest.raises(ValueError, match="codes must be wide enough for every bin"):
        table.lookup(0, X, *grids.arguments, codes, n_threads)


def test_all_values_of_a_code_but_one_number_bins(rng):
    grids = Grids(rng, 1, 1)
    grids.inverse_widths[:] = 1.0
    X = np.arange(256.0)[:, None]
    codes = np.empty((1, 255), np.uint8)
    assert _core.BinTable(1).insert(0, X[:255], *grids.arguments, codes, 1)
    codes = np.empty((1, 256), np.uint8)
    assert not _core.BinTable(1).insert(0, X, *grids.arguments, codes, 1)


@pytest.mark.parametrize(
    ("code_type", "n_columns"),
    [(np.uint8, 256), (np.uint8, 2), (np.uint16, 5000), (np.uint32, 10**6)],
)
@pytest.mark.parametrize("n", [4, 700])
def test_hashed_columns_are_a_function_of_the_key(rng, dtype, code_type, n_columns, n):
    X, grids = rough_data(rng, n, 5, dtype), Grids(rng, 6, 5)
    expected = hashed(grids.keys(X), n_columns)
    for data in (X, sparse.csr_array(X)):
        codes = np.empty((6, n), code_type)
        _core.bin_hashed(buffers(data), *grids.arguments, n_columns, codes, 2)
        np.testing.assert_array_equal(codes, expected)


def test_hashed_columns_are_used_evenly(rng):
    X, grids = rng.normal(size=(20_000, 3)), Grids(rng, 1, 3, 40.0)
    codes = np.empty((1, len(X)), np.uint16)
    _core.bin_hashed(X, *grids.arguments, 500, codes, 1)
    counts = np.bincount(hashed(np.unique(grids.keys(X)[0]), 500).astype(int), minlength=500)
    mean = counts.mean()
    assert ((counts - mean) ** 2 / mean).sum() < 500 + 5 * np.sqrt(2 * 500)  # chi-squared


@pytest.mark.parametrize("n", [0, 1])
def test_few_rows_and_no_inputs_are_no_special_case(rng, dtype, n):
    for d in (0, 1):
        X, grids = np.zeros((n, d), dtype), Grids(rng, 3, d)
        for data in (X, sparse.csr_array(X)):
            table, codes = inserted(grids, data)
            assert codes.shape == (3, n)
            np.testing.assert_array_equal(table.n_bins, np.full(3, n))


def test_many_grids_of_little_data(rng):
    X, grids = rng.normal(size=(12, 2)), Grids(rng, 20_000, 2)
    _, codes = inserted(grids, X, 2)
    for g in (0, 7777, 19_999):
        np.testing.assert_array_equal(codes[g], numbers_in_order(grids.keys(X)[g])[0])


def test_levels_agree_bit_for_bit(rng):
    code = """
rng = np.random.default_rng(0)
result = []
for n, d, gamma in [(1, 9, 1.0), (1500, 20, 0.3), (1500, 3, 60.0)]:
    for dtype in (np.float32, np.float64):
        X = rng.normal(size=(n, d)).astype(dtype)
        grids = (1 / rng.gamma(2, 1 / gamma, (7, d)), rng.random((7, d)),
                 rng.integers(0, 2**64, (7, d), dtype=np.uint64))
        table, codes = _core.BinTable(7), np.empty((7, n), np.uint32)
        table.insert(0, X, *grids, codes, 1)
        stored = (X.ravel(), np.tile(np.arange(d), n), np.arange(0, n * d + 1, d), d)
        again = np.empty_like(codes)
        assert table.lookup(0, stored, *grids, again, 1) == 0 and (again == codes).all()
        columns = np.empty((7, n), np.uint16)
        _core.bin_hashed(X, *grids, 999, columns, 1)
        mixed = [int(part.sum(dtype=np.uint64)) for part in (codes, columns, table.keys())]
        result += [*mixed, *codes[:, -20:].ravel().tolist()]
"""
    results = [run_at_level(level, code) for level in LEVELS]
    assert all(result == results[0] for result in results)


def test_a_wrong_argument_is_named(rng):
    X, grids = rng.normal(size=(10, 3)), Grids(rng, 2, 3)
    table, codes = _core.BinTable(2), np.empty((2, 10), np.uint16)
    with pytest.raises(TypeError, match=r"X must have dtype float32 or float64; got int64\."):
        table.insert(0, X.astype(int), *grids.arguments, codes, 1)
    with pytest.raises(ValueError, match=r"X must be C-contiguous; got a strided array\."):
        table.insert(0, np.asfortranarray(X), *grids.arguments, codes, 1)
    with pytest.raises(ValueError, match=r"shifts must have shape \(2, 3\); got \(1, 3\)\."):
        table.insert(0, X, grids.inverse_widths, grids.shifts[:1], grids.multipliers, codes, 1)
    with pytest.raises(ValueError, match=r"codes must have shape \(2, 10\); got \(2, 9\)\."):
        table.lookup(0, X, *grids.arguments, codes[:, :9].copy(), 1)
    with pytest.raises(TypeError, match=r"codes must have dtype uint8 or uint16 or uint32; got "):
        table.insert(0, X, *grids.arguments, codes.astype(np.int16), 1)
    with pytest.raises(ValueError, match=r"first_grid must leave room for 2 of 2 grids; got 1\."):
        table.insert(1, X, *grids.arguments, codes, 1)
    with pytest.raises(ValueError, match=r"n_columns must be at least 1 and fit the codes; got 70"):
        _core.bin_hashed(X, *grids.arguments, 70_000, codes, 1)
    codes.flags.writeable = False
    with pytest.raises(ValueError, match=r"codes must be writable; got a read-only array\."):
        table.insert(0, X, *grids.arguments, codes, 1)


def test_a_broken_sparse_matrix_is_refused(rng):
    S, grids = sparse.csr_array(rng.normal(size=(10, 3))), Grids(rng, 2, 3)
    codes = np.empty((2, 10), np.uint16)
    table = _core.BinTable(2)
    data, indices, indptr, d = buffers(S)
    with pytest.raises(ValueError, match="indices must be below the number of columns"):
        table.insert(0, (data, indices + 1, indptr, d), *grids.arguments, codes, 1)
    with pytest.raises(ValueError, match="indices must be below the number of columns"):
        table.insert(0, (data, indices - 1, indptr, d), *grids.arguments, codes, 1)
    with pytest.raises(ValueError, match="indptr must rise from 0"):
        table.insert(0, (data, indices, indptr + 1, d), *grids.arguments, codes, 1)
    with pytest.raises(ValueError, match="indptr must rise from 0"):
        table.insert(0, (data, indices, indptr[::-1].copy(), d), *grids.arguments, codes, 1)
    with pytest.raises(TypeError, match="indptr must have dtype int32; got int64"):
        table.insert(0, (data, indices, indptr.astype(np.int64), d), *grids.arguments, codes, 1)


def test_keys_that_make_no_table_are_refused():
    keys, n_bins = np.array([1, 2, 2], np.uint64), np.array([1, 2])
    with pytest.raises(ValueError, match="keys must be distinct within a grid"):
        _core.BinTable.from_keys(keys, n_bins)
    for wrong in ([1, 1], [1, 3], [-1, 4]):
        with pytest.raises(ValueError, match="keys must have as many entries as n_bins says"):
            _core.BinTable.from_keys(keys, np.array(wrong))


def test_read_only_data_are_accepted(rng):
    X, grids = rng.normal(size=(10, 3)), Grids(rng, 2, 3)
    _, expected = inserted(grids, X)
    X.flags.writeable = False
    np.testing.assert_array_equal(inserted(grids, X)[1], expected)


@pytest.mark.parametrize("far", [1.0, 1e3, 1e6])
def test_codes_of_steep_inputs_are_those_of_float64_at_every_edge(rng, far):
    # Numbers on the edges themselves and a step beside them, where float32 alone would err.
    n, grids = 1500, Grids(rng, 4, 3, 2.0)
    X = rng.uniform(-far, far, (n, 3)).astype(np.float32)
    for g in range(4):
        rows = slice(300 * g, 300 * g + 200)
        indices = np.floor(X[rows] * grids.inverse_widths[g] - grids.shifts[g])
        X[rows] = ((indices + grids.shifts[g]) / grids.inverse_widths[g]).astype(np.float32)
        X[300 * g : 300 * g + 50] = np.nextafter(X[300 * g : 300 * g + 50], np.float32(np.inf))
    table, codes = inserted(grids, X)
    expected = [numbers_in_order(keys) for keys in grids.keys(X)]
    np.testing.assert_array_equal(codes, [numbers for numbers, _ in expected])
    np.testing.assert_array_equal(table.keys(), np.concatenate([keys for _, keys in expected]))
    for code_type, n_columns in [(np.uint8, 200), (np.uint16, 4096), (np.uint32, 70_001)]:
        columns = np.empty((4, n), code_type)
        _core.bin_hashed(X, *grids.arguments, n_columns, columns, 1)
        np.testing.assert_array_equal(columns, hashed(grids.keys(X), n_columns))


def test_keys_that_share_a_place_in_the_table_are_told_apart(rng):
    # The table's own hash inverted: seven places that hundreds of keys want each.
    inverse = pow(0x9E3779B97F4A7C15, -1, 2**64)
    keys = np.array([(i % 7 << 60 | i) * inverse % 2**64 for i in range(3000)], np.uint64)
    table = _core.BinTable.from_keys(keys, np.array([3000]))
    np.testing.assert_array_equal(table.keys(), keys)
    with pytest.raises(ValueError, match="keys must be distinct within a grid"):
        _core.BinTable.from_keys(np.append(keys, keys[-1]), np.array([3001]))


@pytest.mark.parametrize("n", [127, 128, 511, 513, 1100])
def test_columns_beyond_the_last_row_are_not_touched(rng, n):
    X, grids = rng.normal(size=(n, 3)).astype(np.float32), Grids(rng, 2, 3)
    codes = np.full((3, n), 7777, np.uint16)
    _core.bin_hashed(X, *grids.arguments, 500, codes[:2], 1)
    np.testing.assert_array_equal(codes[:2], hashed(grids.keys(X), 500))
    np.testing.assert_array_equal(codes[2], np.full(n, 7777))


@pytest.mark.parametrize("code_type", [np.uint8, np.uint16, np.uint32])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("d", [1, 3, 8])
def test_bins_counted_as_cells_are_numbered_as_by_keys(rng, d, dtype, code_type):
    n, n_grids = 3000, 20
    X = rng.normal(size=(n, d)).astype(dtype)
    inverse_widths = rng.uniform(0.05, 0.3 if d > 1 else 4, (n_grids, d))
    shifts = rng.random((n_grids, d))
    multipliers = rng.integers(0, 2**64, (n_grids, d), dtype=np.uint64)
    grids = inverse_widths, shifts, multipliers
    codes, table = np.empty((n_grids, n), code_type), _core.BinTable(n_grids)
    assert table.insert(0, X, *grids, codes, 2)
    for g in range(n_grids):
        boxes = np.floor(X.astype(np.float64) * inverse_widths[g] - shifts[g])
        first, inverse = np.unique(boxes, axis=0, return_index=True, return_inverse=True)[1:]
        np.testing.assert_array_equal(codes[g], np.argsort(np.argsort(first))[inverse.ravel()])
    by_keys = _core.BinTable(n_grids)  # a few rows at a time have no cells
    for start in range(0, n, 8):
        part = np.empty((n_grids, len(X[start : start + 8])), code_type)
        assert by_keys.insert(0, X[start : start + 8], *grids, part, 1)
    np.testing.assert_array_equal(table.keys(), by_keys.keys())
    again = np.empty_like(codes)
    assert table.insert(0, X, *grids, again, 1)
    np.testing.assert_array_equal(again, codes)
    holes = X.copy()
    holes[::7, 0] = np.nan  # bins mean nothing then, but they are bins
    assert table.insert(0, holes, *grids, again.astype(np.uint32), 1)


def test_more_cells_than_codes_are_reported(rng):
    X = rng.random((4000, 2)).astype(np.float32)
    grids = np.full((1, 2), 20.0), rng.random((1, 2)), rng.integers(0, 2**64, (1, 2), np.uint64)
    codes = np.empty((1, 4000), np.uint8)
    assert not _core.BinTable(1).insert(0, X, *grids, codes, 1)
    assert _core.BinTable(1).insert(0, X, *grids, codes.astype(np.uint16), 1)
