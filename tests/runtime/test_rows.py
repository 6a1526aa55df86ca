"""Rows that are prepared when they are read: the same numbers, never all at once."""

import numpy as np
import pytest
from scipy import sparse

from mercer._runtime.rows import PreparedRows, is_large, is_sparse, selected
from mercer.kernels import Gaussian, Laplacian, Perceptron


def halved(rows):
    return 0.5 * rows


@pytest.fixture(params=[False, True], ids=["dense", "csr"])
def data(request, X):
    return sparse.csr_array(X) if request.param else X


def array(rows):
    return rows.toarray() if sparse.issparse(rows) else rows


def test_selections_are_those_of_the_prepared_matrix(data):
    rows, whole = PreparedRows(data, halved), 0.5 * data
    assert (rows.shape, rows.dtype, rows.ndim, len(rows)) == (whole.shape, whole.dtype, 2, 40)
    assert is_sparse(rows) == sparse.issparse(data)
    for index in (slice(3, 9), np.array([7, 0, 7]), np.arange(40) % 3 == 0, slice(None)):
        np.testing.assert_array_equal(array(rows[index]), array(whole[index]))
        taken = rows.taken(index)
        np.testing.assert_array_equal(array(taken[:]), array(whole[index]))
        np.testing.assert_array_equal(array(taken.taken([1])[:]), array(whole[index][[1]]))
    np.testing.assert_array_equal(array(rows.together()), array(whole))
    assert rows.nbytes == (data.nbytes if isinstance(data, np.ndarray) else rows.nbytes)
    assert rows.taken(slice(0, 20)).nbytes == rows.nbytes // 2


def test_steps_follow_one_another(X):
    rows = PreparedRows(X).then(halved).then(np.square).taken([5, 3])
    np.testing.assert_array_equal(rows[:], np.square(0.5 * X)[[5, 3]])


def test_nothing_is_read_before_it_is_asked_for(X):
    asked = []

    def prepare(rows):
        asked.append(len(rows))
        return rows

    rows = PreparedRows(X, prepare).taken(np.arange(30)).then(halved)
    assert asked == []
    _ = rows[4:9]
    assert asked == [5]


def test_all_rows_together_are_refused_where_they_would_not_fit(X, monkeypatch):
    monkeypatch.setattr("mercer._runtime.arrays.available_memory", lambda: 100)
    with pytest.raises(MemoryError, match=r"a prepared copy of 40 rows of 4 inputs needs 1.2 kB"):
        PreparedRows(X).together()


def test_only_large_matrices_are_worked_through_in_pieces(data, monkeypatch):
    assert not is_large(data)
    np.testing.assert_array_equal(array(selected(data, [2, 1])), array(data[[2, 1]]))
    assert not isinstance(selected(data, [2, 1]), PreparedRows)
    monkeypatch.setattr("mercer._runtime.rows._LARGE", 0)
    assert is_large(data)
    assert not is_large(np.array(["some", "texts"], dtype=object))
    some = selected(data, [2, 1])
    assert isinstance(some, PreparedRows)
    np.testing.assert_array_equal(array(some[:]), array(data[[2, 1]]))
    np.testing.assert_array_equal(array(selected(some, [1])[:]), array(data[[1]]))


@pytest.mark.parametrize(
    "kernel",
    [
        Gaussian("scale"),
        Laplacian("median"),
        Gaussian("scale") + 0.5 * Laplacian(),
        Gaussian([1.0, 2.0, 3.0, 4.0]),
        Perceptron(),
    ],
    ids=repr,
)
@pytest.mark.parametrize("weighted", [False, True])
def test_scales_follow_from_rows_as_from_the_matrix(kernel, weighted, data, monkeypatch):
    weights = np.arange(40.0) if weighted else None
    expected = kernel.resolve(0.5 * data, weights)
    monkeypatch.setattr("mercer._runtime.arrays.CHUNK_BYTES", 500)
    found = kernel.resolve(PreparedRows(data, halved), weights)
    assert found.is_resolved
    np.testing.assert_allclose(
        found(0.5 * array(data)[:5]), expected(0.5 * array(data)[:5]), atol=1e-14
    )
