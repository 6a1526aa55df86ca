"""Cholesky's factor block by block is LAPACK's."""

import numpy as np
import pytest

import mercer.equations.factor as factorisation
from mercer.equations.factor import lower, lower_in_place

pytestmark = pytest.mark.rounding


@pytest.mark.parametrize("side", [1, 2, 7, 8, 9, 40])
@pytest.mark.parametrize("block", [1, 3, 8, 100])
def test_the_factor_in_place_is_the_factor(side, block):
    A = np.random.default_rng(0).normal(size=(side, side + 2))
    matrix = A @ A.T
    expected = np.linalg.cholesky(matrix)
    assert lower_in_place(matrix, block)
    np.testing.assert_allclose(matrix, expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("block", [1, 3, 8, 100])
@pytest.mark.parametrize("bad", [0, 4, 9])
def test_a_matrix_without_a_factor_comes_back_whole(block, bad):
    A = np.random.default_rng(0).normal(size=(10, 12))
    matrix = A @ A.T
    matrix[bad, bad] = -1.0
    before = matrix.copy()
    assert not lower_in_place(matrix, block)
    assert np.array_equal(matrix, before)


def test_large_matrices_are_factorised_block_by_block_and_stay(monkeypatch):
    monkeypatch.setattr(factorisation, "_TILED", 5)
    A = np.random.default_rng(0).normal(size=(9, 9))
    matrix = A @ A.T + np.eye(9)
    before = matrix.copy()
    np.testing.assert_allclose(lower(matrix), np.linalg.cholesky(before), rtol=1e-12, atol=1e-13)
    assert np.array_equal(matrix, before)
    with pytest.raises(np.linalg.LinAlgError, match="positive definite"):
        lower(-before)
