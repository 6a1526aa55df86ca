"""The core's bitmaps and sweeps against the plainest code that does the same."""

import numpy as np
import pytest
from scipy import sparse

from mercer import _core

pytestmark = pytest.mark.rounding

SIZES = [(70, np.uint8), (1500, np.uint16), (1024, np.uint32)]


def indicator(codes, n_bins):
    """The dense (n, R n_bins) matrix of zeros and ones."""
    return np.concatenate([codes_[:, None] == np.arange(n_bins) for codes_ in codes], axis=1) * 1.0


def bitmaps(codes, offsets, columns, order=None):
    n_rows = codes.shape[1] if order is None else len(order)
    bits = np.empty((len(columns), -(-n_rows // 512) * 8), dtype=np.uint64)
    _core.bit_columns(codes, offsets, columns, order, bits, 2)
    return bits


@pytest.mark.parametrize(("n", "dtype"), SIZES)
def test_products_of_bitmaps_are_gram_matrices(n, dtype, rng):
    codes = rng.integers(7, size=(5, n)).astype(dtype)  # 6 is in no bin
    offsets, Z = np.arange(6) * 6, indicator(codes, 6)
    columns = np.sort(rng.choice(30, 21, replace=False))
    for order in (None, rng.permutation(n)[: n - 3].astype(np.uint32)):
        some = (Z if order is None else Z[order])[:, columns]
        bits = bitmaps(codes, offsets, columns, order)
        weights = rng.integers(2**24, size=bits.shape[1] // 8).astype(np.uint32)
        for w in (None, weights):
            rows = np.ones(len(some)) if w is None else np.repeat(w, 512)[: len(some)]
            expected = 0.5 * (some.T * rows) @ some
            out = np.empty((21, 21))
            _core.bit_products(bits, bits, w, 0.5, out, 2)
            np.testing.assert_array_equal(out, expected)
            side = np.empty((5, 16))
            _core.bit_products(bits[:5].copy(), bits[5:].copy(), w, 0.5, side, 2)
            np.testing.assert_array_equal(side, expected[:5, 5:])


def test_bitmaps_refuse_columns_out_of_order_and_rows_that_are_not_there():
    codes, offsets = np.zeros((1, 4), dtype=np.uint8), np.array([0, 3])
    out = np.empty((2, 8), dtype=np.uint64)
    with pytest.raises(ValueError, match="ascend"):
        _core.bit_columns(codes, offsets, np.array([1, 0]), None, out, 1)
    with pytest.raises(ValueError, match="ascend"):
        _core.bit_columns(codes, offsets, np.array([1, 3]), None, out, 1)
    with pytest.raises(ValueError, match="order"):
        _core.bit_columns(codes, offsets, np.array([0, 1]), np.array([4], np.uint32), out, 1)


def plain_sweep(Z, l1, l2, w, slope, h):
    """One sweep over the columns of a quadratic model."""
    n = len(Z)
    for j in range(Z.shape[1]):
        curvature = (h * Z[:, j]) @ Z[:, j] / n
        if not curvature > 0:
            continue
        target = curvature * w[j] - Z[:, j] @ slope / n
        new = np.sign(target) * max(abs(target) - l1[j], 0) / (curvature + l2[j])
        slope += (new - w[j]) * h * Z[:, j]
        w[j] = new


@pytest.mark.parametrize("n_threads", [1, 3])
@pytest.mark.parametrize("curved", [False, True])
def test_sweeps_over_columns_are_plain_descent(n_threads, curved, rng):
    n = 5000
    codes = rng.integers(4, size=(3, n)).astype(np.uint8)
    Z = 0.5 * indicator(codes, 4)
    l1, l2 = rng.uniform(0, 0.01, size=12), rng.uniform(0, 0.1, size=12)
    h = rng.uniform(0.5, 2.0, size=n) if curved else np.ones(n)
    curvature = h @ Z**2 / n
    start = rng.normal(size=n)
    w, slope = np.zeros(12), start.copy()
    for _ in range(2):
        plain_sweep(Z, l1, l2, w, slope, h)
    given = h if curved else None
    lists = [np.flatnonzero(column).astype(np.uint32) for column in Z.T]
    starts = np.cumsum([0] + [len(rows) for rows in lists])
    for bounds in (np.arange(13), np.arange(4) * 4):
        for values, scale in ((None, 0.5), (np.full(starts[-1], 0.25), 2.0)):
            own, moved = np.zeros(12), start.copy()
            args = (l1, l2, curvature, own, moved, given, 2, 0.0, n_threads)
            _core.descend_columns(
                starts, np.concatenate(lists), values, scale, bounds, np.arange(12), *args
            )
            np.testing.assert_allclose(own, w, atol=1e-12)
            np.testing.assert_allclose(moved, slope, atol=1e-11)


@pytest.mark.parametrize(("n", "dtype"), SIZES)
def test_lists_of_bins_are_their_rows_and_products_with_them_those_of_the_columns(n, dtype, rng):
    codes = rng.integers(7, size=(5, n)).astype(dtype)  # 6 is in no bin
    offsets, Z = np.arange(6) * 6, indicator(codes, 6)
    columns = np.sort(rng.choice(30, 21, replace=False))
    for order in (None, np.flatnonzero(rng.random(n) < 0.6).astype(np.uint32)):
        some = 0.5 * (Z if order is None else Z[order])[:, columns]
        starts, rows = np.empty(22, np.int64), np.empty(5 * len(some), np.uint32)
        _core.bin_lists(codes, offsets, columns, order, starts, rows, 2)
        expected = [np.flatnonzero(column) for column in some.T]
        assert starts.tolist() == np.cumsum([0] + [len(rows) for rows in expected]).tolist()
        np.testing.assert_array_equal(rows[: starts[-1]], np.concatenate(expected))
        lists = (starts, rows[: starts[-1]].copy(), None, 0.5)
        w, v = rng.normal(size=21), rng.normal(size=len(some))
        at = np.array([20, 3, 4])
        for order_, columns_ in ((None, np.arange(21)), (at, at)):
            out, sums = np.ones(len(some)), np.empty(len(columns_))
            _core.list_product(*lists, order_, w[: len(columns_)].copy(), out)
            np.testing.assert_allclose(out, 1 + some[:, columns_] @ w[: len(columns_)], atol=1e-12)
            _core.list_sums(*lists, order_, v, sums)
            np.testing.assert_allclose(sums, some[:, columns_].T @ v, atol=1e-11)


@pytest.mark.parametrize("centred", [False, True])
@pytest.mark.parametrize("curved", [False, True])
def test_a_face_step_solves_the_equations_of_the_columns(centred, curved, rng):
    n, at = 60, np.array([5, 0, 2])
    Z = sparse.random_array((n, 6), density=0.5, format="csc", random_state=rng)
    Z.sort_indices()
    h = rng.uniform(0.0, 2.0, size=n) if curved else None
    rows = np.ones(n) if h is None else h
    z = 0.5 * Z.toarray()[:, at]
    moves = z - (rows @ z) / np.sum(rows) if centred else z
    hessian = moves.T @ (rows[:, None] * moves) / n + 0.01 * np.eye(3)
    slope, step, moved = rng.normal(size=3), np.empty(3), np.empty(n)
    lists = (Z.indptr.astype(np.int64), Z.indices.astype(np.uint32), Z.data, 0.5)
    quadratic = (at, 0.01, centred, np.diag(hessian).copy(), slope, h)
    _core.face_step(*lists, *quadratic, 20, 1e-28, step, moved)
    np.testing.assert_allclose(step, -np.linalg.solve(hessian, slope), rtol=1e-9)
    np.testing.assert_allclose(moved, z @ step, atol=1e-12 * np.max(np.abs(moved)))


def test_sweeps_without_waiting_keep_slopes_that_belong_to_the_weights(rng):
    n = 4000
    codes = rng.integers(50, size=(4, n)).astype(np.uint8)
    Z = indicator(codes, 50)
    lists = [np.flatnonzero(column).astype(np.uint32) for column in Z.T]
    starts = np.cumsum([0] + [len(rows) for rows in lists])
    w, start = np.zeros(200), rng.normal(size=n)
    slope = start.copy()
    l1 = np.full(200, 1e-4)
    _core.descend_async(
        starts, np.concatenate(lists), None, 1.0, l1, 0 * l1, Z.sum(0) / n, w, slope, None, 5, 4
    )
    assert np.any(w)
    np.testing.assert_allclose(slope, start + Z @ w, atol=1e-10)


def test_lists_refuse_arrays_without_room():
    codes, offsets = np.zeros((1, 4), dtype=np.uint8), np.array([0, 3])
    starts, rows = np.empty(3, np.int64), np.empty(3, np.uint32)
    with pytest.raises(ValueError, match="rows must have room for 4 entries; got 3"):
        _core.bin_lists(codes, offsets, np.array([0, 1]), None, starts, rows, 1)
    with pytest.raises(ValueError, match="ascend"):
        _core.bin_lists(codes, offsets, np.array([1, 0]), None, starts, rows, 1)


def test_sweeps_refuse_rows_and_columns_that_are_not_there():
    one, starts = np.ones(1), np.array([0, 1])
    rest = (np.array([0, 1]), None, one, one, one, one.copy(), np.zeros(2), None, 1, 0.0, 1)
    with pytest.raises(ValueError, match="rows"):
        _core.descend_columns(starts, np.array([2], np.uint32), None, 1.0, *rest)
    with pytest.raises(ValueError, match="starts"):
        _core.descend_columns(np.array([0, 2]), np.array([1], np.uint32), None, 1.0, *rest)
