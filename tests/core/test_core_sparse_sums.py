"""Kernels of rows most of whose numbers are alike, which few inputs tell apart."""

from __future__ import annotations

import numpy as np
import pytest

from _core_twins import LEVELS, run_at_level
from mercer import _core

ERROR = 2e-5  # of entries, as of all in float32 where speed counts


def rows(rng, n, d, share, usual=0.0, spread=1.0):
    """Rows of which a share of the numbers are not the usual ones."""
    X = rng.normal(size=(n, d)) * (rng.uniform(size=(n, d)) < share) * spread + usual
    return X.astype(np.float32)


def twin(X, Y, scale):
    x, y = (np.asarray(part, np.float64) * scale for part in (X, Y))
    return np.exp(-np.abs(x[:, None] - y).sum(axis=2))


def block(X, Y, scale, n_threads=2):
    out = np.empty((len(X), len(Y)), np.float32)
    centre = Y.mean(axis=0, dtype=np.float64)
    assert _core.kernel_block("laplacian", X, Y, centre, scale, 1.0, out, n_threads, True)
    return out


@pytest.mark.parametrize("usual", [0.0, 3.0])
@pytest.mark.parametrize("share", [0.0, 0.02, 0.3, 0.6])
@pytest.mark.parametrize(("n", "m", "d"), [(1, 40, 16), (130, 1, 40), (130, 200, 97)])
def test_blocks_are_those_of_all_inputs(rng, n, m, d, share, usual):
    scale = rng.uniform(0.1, 2.0, d) / max(1.0, share * d)
    X, Y = rows(rng, n, d, share, usual), rows(rng, m, d, share, usual)
    np.testing.assert_allclose(block(X, Y, scale), twin(X, Y, scale), rtol=0, atol=ERROR)


def test_dense_rows_beside_sparse_ones(rng):
    X, Y, scale = rows(rng, 60, 50, 1.0), rows(rng, 90, 50, 0.1), np.full(50, 0.05)
    np.testing.assert_allclose(block(X, Y, scale), twin(X, Y, scale), rtol=0, atol=ERROR)


@pytest.mark.parametrize("far", [1e2, 1e5, 1e30])
def test_close_rows_far_out_keep_their_digits(rng, far):
    X, scale = rows(rng, 200, 30, 0.1), np.ones(30)
    X[0] = X[1] = X[2] = far * rng.normal(size=30).astype(np.float32)
    X[1, 3] *= 1 + 1e-6
    X[2, 4] = -X[2, 4]
    expected = twin(X, X, scale)
    assert expected[0, 1] > 0.1 if far < 1e4 else True
    np.testing.assert_allclose(block(X, X, scale), expected, rtol=0, atol=ERROR)


def test_other_rows_on_the_left_do_not_matter(rng):
    X, Y, scale = rows(rng, 100, 60, 0.1), rows(rng, 300, 60, 0.1), np.full(60, 0.1)
    whole = block(X, Y, scale)
    np.testing.assert_array_equal(block(X[7:8], Y, scale, 1), whole[7:8])
    np.testing.assert_array_equal(block(X[50:], Y, scale, 3), whole[50:])


def test_products_and_16_bit_numbers_are_those_of_the_block(rng):
    X, scale = rows(rng, 400, 70, 0.05), np.full(70, 0.2)
    w, K = rng.normal(size=(400, 3)), twin(X, X, scale)
    sums, centre = np.zeros((400, 3)), X.mean(axis=0, dtype=np.float64)
    arguments = "laplacian", X, None, centre, scale, 1.0, w, sums
    assert _core.kernel_product(*arguments, None, None, 2, True)
    size = np.abs(w).sum(axis=0)
    assert np.all(np.abs(sums - K @ w) <= ERROR * size)
    numbers = np.empty(_core.fixed_kernel_size(400), np.uint16)
    assert _core.fixed_kernel("laplacian", X, centre, scale, 1.0, numbers, 2)
    sums = np.zeros((400, 3))
    _core.fixed_product(numbers, w.astype(np.float32), sums, 2)
    assert np.all(np.abs(sums - K @ w) <= (ERROR + 1 / 65535) * size)


def test_levels_agree_to_rounding():
    code = """
rng = np.random.default_rng(0)
X = (rng.normal(size=(150, 40)) * (rng.uniform(size=(150, 40)) < 0.1)).astype(np.float32)
out = np.empty((150, 150), np.float32)
_core.kernel_block("laplacian", X, X, np.zeros(40), np.ones(40), 1.0, out, 2, True)
result = out.ravel().tolist()
"""
    first, *others = [run_at_level(level, code) for level in LEVELS]
    for other in others:
        np.testing.assert_allclose(other, first, rtol=0, atol=ERROR)
