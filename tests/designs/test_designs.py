"""Every design is the same matrix as the array it stands for."""

import numpy as np
import pytest
from scipy import sparse

from mercer.designs import Binned, Dense, Lazy, Local, Sparse
from mercer.designs.binned import BlockWeights
from mercer.designs.local import LeafBlock
from mercer.kernels import Laplacian

pytestmark = pytest.mark.rounding

N, D = 37, 11


class _Columns:
    """A map whose features are given."""

    def __init__(self, Z):
        self.Z = Z

    def transform_block(self, X, columns):
        return self.Z[np.asarray(X[:, 0], dtype=int)][:, columns]


def _binned(rng, dtype, missing):
    sizes = np.array([4, 5, 2])
    high = sizes + (1 if missing else 0)
    codes = np.stack([rng.integers(0, h, size=N) for h in high]).astype(np.uint8)
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    return Binned(codes, offsets, 0.5, dtype, missing)


def _truth_of_binned(design):
    Z = np.zeros(design.shape, dtype=design.dtype)
    for grid, row in enumerate(design.codes):
        size = design.offsets[grid + 1] - design.offsets[grid]
        for i, code in enumerate(row):
            if code < size:
                Z[i, design.offsets[grid] + code] = design.scale
    return Z


def _case(name, dtype):
    rng = np.random.default_rng(0)
    Z = (rng.normal(size=(N, D)) * (rng.random((N, D)) < 0.6)).astype(dtype)
    if name == "dense":
        return Dense(Z), Z
    if name == "sparse":
        return Sparse(sparse.csr_array(Z)), Z
    if name == "lazy":
        X = np.arange(N, dtype=dtype)[:, None]
        return Lazy(X, _Columns(Z), D, dtype, block_size=4), Z
    if name == "local":
        return _local(Z)
    design = _binned(rng, dtype, "missing" in name)
    return design, _truth_of_binned(design)


def _local(X):
    """Two leaves of four and three landmarks that share some of the rows, and one without rows."""
    shares = np.linspace(0, 1, N)
    members = [np.array([0, 4, 7, 5]), np.array([4, 2, 9]), np.array([1])]
    rows = [np.arange(N - 3), np.arange(N // 2, N), np.arange(0)]
    firsts, leaves = [0, 4, 7], zip(range(3), rows, members, strict=True)
    blocks = [LeafBlock(i, r, shares[r], m, firsts[i]) for i, r, m in leaves]
    Z = np.zeros((N, D), dtype=X.dtype)
    for b in blocks:
        own = Laplacian(0.3)(X[b.rows], X[b.members]) if len(b.rows) else np.zeros((0, 1))
        Z[b.rows, b.columns] = b.shares[:, None] * own
        Z[b.rows, 8 + b.leaf] = b.shares
    return Local(X, Laplacian(0.3), X, blocks, 8, 3), Z


CASES = ["dense", "sparse", "lazy", "binned", "binned-missing"]
CASES += ["local"]


@pytest.fixture(params=CASES)
def name(request):
    return request.param


@pytest.fixture(params=[np.float32, np.float64])
def case(name, request):
    design, truth = _case(name, request.param)
    return design, truth, 1e-5 if request.param == np.float32 else 1e-12


@pytest.mark.parametrize("k", [None, 1, 3, 17])
def test_products_equal_those_of_the_array(case, k):
    design, Z, tol = case
    rng = np.random.default_rng(1)
    w = rng.normal(size=(Z.shape[1],) if k is None else (Z.shape[1], k))
    v = rng.normal(size=(N,) if k is None else (N, k))
    for got, expected in [
        (design.matvec(w), Z @ w),
        (design.rmatvec(v), Z.T @ v),
        (design.gram_matvec(v), Z @ (Z.T @ v)),
    ]:
        assert got.dtype == design.dtype
        np.testing.assert_allclose(got, expected, rtol=tol, atol=10 * tol)


def test_columns_norms_and_gram_equal_those_of_the_array(case):
    design, Z, tol = case
    weights = np.random.default_rng(2).random(N)
    np.testing.assert_array_equal(design.toarray(), Z)
    np.testing.assert_array_equal(design.tocsr().toarray(), Z)
    np.testing.assert_array_equal(design.block([3, 0, 10]), Z[:, [3, 0, 10]])
    Z = Z.astype(np.float64)
    np.testing.assert_allclose(design.column_sqnorms(), (Z**2).sum(0), rtol=tol)
    np.testing.assert_allclose(design.column_sqnorms(weights), weights @ Z**2, rtol=tol)
    np.testing.assert_allclose(design.gram(), Z.T @ Z, rtol=tol, atol=tol)
    weighted = (Z.T * weights) @ Z
    np.testing.assert_allclose(design.gram(weights), weighted, rtol=tol, atol=10 * tol)


@pytest.mark.parametrize("with_zeros", [False, True])
def test_products_of_columns_are_parts_of_the_gram_matrix(case, with_zeros):
    design, Z, tol = case
    rng = np.random.default_rng(3)
    weights = rng.random(N) * (rng.random(N) < 0.5 if with_zeros else 1.0)
    Z, left, right = Z.astype(np.float64), np.array([7, 2, 9]), np.array([4, 7, 5, 0, 6])
    for h in (None, weights):
        gram = Z.T @ (Z if h is None else Z * h[:, None])
        for others in (None, right):
            found = design.products(left, others, h)
            expected = gram[np.ix_(left, left if others is None else others)]
            assert found.dtype == np.float64
            np.testing.assert_allclose(found, expected, rtol=tol, atol=tol)


@pytest.mark.parametrize("rows", [None, np.array([2, 3, 30])])
def test_lists_of_columns_are_their_entries(case, rows):
    design, Z, tol = case
    columns = np.array([1, 4, 5, 10])
    Z = Z[slice(None) if rows is None else rows][:, columns].astype(np.float64)
    lists = design.lists(columns, rows)
    w, v = np.arange(1.0, 5.0), np.linspace(-1.0, 1.0, len(Z))
    np.testing.assert_allclose(lists.times(w, len(Z)), Z @ w, rtol=tol, atol=tol)
    np.testing.assert_allclose(lists.transposed_times(v), Z.T @ v, rtol=tol, atol=tol)


def test_products_of_bins_with_rounded_weights_are_those_of_the_rounded_weights():
    rng = np.random.default_rng(4)
    codes = rng.integers(6, size=(3, 2000)).astype(np.uint8)  # the last code lacks a column
    design = Binned(codes, np.arange(4) * 5, 0.5, missing=True)
    weights = rng.random(2000) * (rng.random(2000) < 0.8)
    rounded, left = BlockWeights.of(weights), np.array([11, 0, 4])
    assert rounded.values.sum() == pytest.approx(weights.sum())
    assert np.all((rounded.values == 0) == (weights == 0))
    for right in (None, np.array([1, 14])):
        exact = design.products(left, right, rounded.values)
        np.testing.assert_allclose(design.products(left, right, rounded), exact, rtol=1e-12)


@pytest.mark.parametrize("index", [slice(5, 20), np.array([3, 3, 1]), np.arange(N) % 2 == 0])
def test_rows_are_rows_of_the_array(case, index):
    design, Z, _ = case
    part = design.rows(index)
    np.testing.assert_array_equal(part.toarray(), Z[index])
    assert part.shape == Z[index].shape


def test_no_rows_is_a_design_too(case):
    design, Z, _ = case
    empty = design.rows(slice(0, 0))
    assert empty.matvec(np.ones(Z.shape[1])).shape == (0,)
    np.testing.assert_array_equal(empty.rmatvec(np.ones(0)), np.zeros(Z.shape[1]))


def test_long_float32_sums_keep_their_digits():
    Z = np.full((400_000, 2), 0.1, dtype=np.float32)
    v = np.full(len(Z), 0.1, dtype=np.float32)
    expected = len(Z) * float(np.float32(0.1)) ** 2
    codes = np.zeros((1, len(Z)), dtype=np.uint8)
    binned = Binned(codes, [0, 1], float(np.float32(0.1)), np.float32)
    for design in (Dense(Z), Sparse(Z), binned):
        np.testing.assert_allclose(design.rmatvec(v), expected, rtol=5e-5, err_msg=repr(design))
        np.testing.assert_allclose(design.column_sqnorms(), expected, rtol=3e-6)


def test_wrong_shapes_are_refused_in_one_sentence(case):
    design, _, _ = case
    with pytest.raises(ValueError, match=r"w must have 11 rows .* got shape \(4,\)"):
        design.matvec(np.ones(4))
    with pytest.raises(ValueError, match="v must have 37 rows"):
        design.rmatvec(np.ones((4, 2)))


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: Dense(np.ones(3)), ValueError, "array must have two dimensions"),
        (lambda: Dense(np.ones((3, 2), dtype=int)), TypeError, "float32 or float64"),
        (lambda: Sparse([["a"], ["b"]]), TypeError, "float32 or float64"),
        (lambda: Sparse(np.full((2, 1), None)), TypeError, "float32 or float64"),
        (
            lambda: Binned(np.zeros((2, 3), np.uint8), [0, 1], 1.0),
            ValueError,
            r"codes must have shape \(R, n\)",
        ),
        (
            lambda: Binned(np.array([[0, 1], [0, 3]], np.uint8), [0, 2, 5], 1.0),
            ValueError,
            "codes must be smaller .* grid 1 has a larger one",
        ),
    ],
)
def test_what_is_no_matrix_is_refused(make, error, message):
    with pytest.raises(error, match=message):
        make()


def test_views_name_the_solvers_that_need_none():
    design, _ = _case("lazy", np.float64)
    with pytest.raises(NotImplementedError, match="cholesky, cg, newton-cg"):
        design.views()
    assert set(_case("binned", np.float64)[0].views()) == {"codes", "offsets", "scale"}


def test_a_gram_matrix_that_does_not_fit_says_so():
    wide = Sparse(sparse.csr_array((2, 10_000_000), dtype=np.float64))
    with pytest.raises(MemoryError, match=r"Gram matrix of .* columns needs .*; use an iterative"):
        wide.gram()
