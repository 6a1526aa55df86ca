"""Random matrices that keep inner products: Gaussian and Hadamard sketches (T-F4)."""

import numpy as np
import pytest
import scipy.stats
from scipy import sparse
from scipy.linalg import hadamard

from _covering import pairwise
from mercer.designs import Binned, Dense, Sparse
from mercer.maps.sketch import GaussianSketch, HadamardSketch, PassingGaussianSketch, sketch_from

pytestmark = pytest.mark.rounding

GAUSSIANS = [GaussianSketch, PassingGaussianSketch]
KINDS = [*GAUSSIANS, HadamardSketch]


def whole(sketch):
    return sketch.rows(0, sketch.size)


def gathered(sketch, F, step, design=Dense):
    """F.T @ S, from pieces of ``step`` rows."""
    total = np.zeros((F.shape[1], sketch.n_components))
    for start in range(0, F.shape[0], step):
        sketch.add(total, design(F[start : start + step]), start)
    return total


@pytest.mark.parametrize(("size", "m"), [(1, 1), (2, 2), (8, 3), (8, 8), (13, 5), (5, 13), (64, 1)])
def test_a_hadamard_sketch_is_signs_times_columns_of_a_hadamard_matrix(size, m):
    sketch = HadamardSketch(3, size, m)
    S = whole(sketch)
    order = sketch.order
    assert order >= max(size, m)
    assert order < 2 * max(size, m)
    signs = np.sign(S[:, :1] * hadamard(order)[:size, sketch.positions[:1]])
    assert len(np.unique(sketch.positions)) == m
    np.testing.assert_allclose(
        S, signs * hadamard(order)[:size, sketch.positions] / np.sqrt(m), atol=1e-15
    )


@pytest.mark.parametrize(("order", "m"), [(8, 3), (64, 64), (64, 10)])
def test_columns_of_a_hadamard_sketch_are_orthogonal_of_one_length(order, m):
    S = whole(HadamardSketch(7, order, m))
    np.testing.assert_allclose(S.T @ S, order / m * np.eye(m), atol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("size", "m"), [(6, 2), (8, 5)])
def test_a_sketch_is_an_isometry_on_average(kind, size, m):
    squares = np.array([S @ S.T for S in (whole(kind(key, size, m)) for key in range(4000))])
    error = squares.std(axis=0) / np.sqrt(len(squares))
    off = abs(squares.mean(axis=0) - np.eye(size))
    assert (off <= 5 * error + 1e-12).all()


@pytest.mark.parametrize("kind", GAUSSIANS)
def test_entries_of_a_gaussian_sketch_are_normal_of_variance_one_over_its_columns(kind):
    S = whole(kind(1, 2000, 51)) * np.sqrt(51)
    assert abs(S.mean()) < 5 / np.sqrt(S.size)
    assert abs(np.mean(S**2) - 1) < 5 * np.sqrt(2 / S.size)
    assert abs(np.mean(S**4) - 3) < 5 * np.sqrt(96 / S.size)
    assert scipy.stats.kstest(S.ravel(), "norm").pvalue > 1e-3
    correlations = np.corrcoef(np.hstack([S, S**2]), rowvar=False) - np.eye(102)
    assert abs(correlations).max() < 6 / np.sqrt(2000)


@pytest.mark.parametrize("kind", KINDS)
def test_rows_and_columns_are_the_same_however_asked(kind):
    sketch = kind(5, 100, 7)
    S = whole(sketch)
    np.testing.assert_array_equal(sketch.rows(31, 60), S[31:60])
    np.testing.assert_array_equal(sketch.columns(np.array([6, 0, 0])), S[:, [6, 0, 0]])
    assert sketch.columns(np.array([], dtype=int)).shape == (100, 0)
    larger = whole(kind(5, 128, 7))
    np.testing.assert_array_equal(larger[:100], S)
    assert abs(whole(kind(6, 100, 7)) - S).max() > 0.1


@pytest.mark.parametrize(
    ("kind", "n", "step", "dtype"),
    pairwise(KINDS, [1, 3, 64, 100, 129], [1, 4, 32, 256], [np.float32, np.float64]),
    ids=str,
)
def test_gathered_in_pieces_is_the_product_with_the_whole(kind, n, step, rng, dtype):
    F = rng.normal(size=(n, 6)).astype(dtype)
    sketch = kind(5, n, 9, n_threads=2)
    expected = F.T.astype(np.float64) @ whole(sketch)
    tolerance = 1e-12 if dtype == np.float64 else 2e-6
    scale = 1 + abs(expected).max()
    for design in (Dense, lambda piece: Sparse(sparse.csr_array(piece))):
        total = gathered(sketch, F, step, design)
        np.testing.assert_allclose(total, expected, atol=tolerance * scale)


def test_pieces_of_any_length_add_up(rng):
    F = rng.normal(size=(100, 3))
    sketch = HadamardSketch(5, 100, 9)
    np.testing.assert_allclose(gathered(sketch, F, 13), F.T @ whole(sketch), atol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("size", "m"), [(1, 1), (10, 3), (16, 16), (3, 20)])
def test_projected_rows_are_the_product_with_the_whole(kind, size, m, rng, dtype):
    F = rng.normal(size=(21, size)).astype(dtype)
    sketch = kind(5, size, m, n_threads=2)
    expected = F.astype(np.float64) @ whole(sketch)
    before = F.copy()
    for piece in (Dense(F), Sparse(sparse.csr_array(F))):
        Z = sketch.project(piece)
        assert Z.dtype == dtype
        np.testing.assert_allclose(Z, expected, atol=1e-12 if dtype == np.float64 else 1e-5)
    np.testing.assert_array_equal(F, before)


@pytest.mark.parametrize("kind", KINDS)
def test_binned_rows_are_gathered_and_projected_without_a_dense_form(kind, rng, monkeypatch):
    codes = rng.integers(0, 4, size=(5, 40)).astype(np.uint8)
    design = Binned(codes, np.arange(0, 24, 4), 0.5)
    F = design.toarray()
    monkeypatch.setattr(Binned, "toarray", lambda self: 1 / 0)
    monkeypatch.setattr(Binned, "tocsr", lambda self: 1 / 0)
    sketch = kind(5, 20, 9)
    np.testing.assert_allclose(sketch.project(design), F @ whole(sketch), atol=1e-12)
    along_rows = kind(5, 40, 9)
    total = np.zeros((20, 9))
    along_rows.add(total, design, 0)
    np.testing.assert_allclose(total, F.T @ whole(along_rows), atol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_expanded_coefficients_are_the_product_with_the_whole(kind, rng):
    sketch = kind(5, 30, 4)
    for shape in ((4,), (4, 3)):
        coef = rng.normal(size=shape)
        np.testing.assert_allclose(sketch.expand(coef), whole(sketch) @ coef, atol=1e-14)
    assert sketch.expand(coef.astype(np.float32)).dtype == np.float32


@pytest.mark.parametrize("kind", KINDS)
def test_small_memory_changes_nothing(kind, rng, monkeypatch):
    F = rng.normal(size=(20, 50))
    sketch = kind(5, 50, 12)
    expected = sketch.project(Dense(F)), sketch.project(Sparse(F)), sketch.expand(np.ones(12))
    monkeypatch.setattr(
        "mercer.maps.sketch.row_chunks",
        lambda n, *_: (slice(i, min(n, i + 7)) for i in range(0, n, 7)),
    )
    actual = sketch.project(Dense(F)), sketch.project(Sparse(F)), sketch.expand(np.ones(12))
    for mine, theirs in zip(actual, expected, strict=True):
        np.testing.assert_allclose(mine, theirs, atol=1e-13)


def test_unknown_sketches_are_refused():
    with pytest.raises(ValueError, match="sketch must be one of 'gaussian', 'srht'; got 'fjlt'"):
        sketch_from("fjlt")
