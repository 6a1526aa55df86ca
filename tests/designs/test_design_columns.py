"""Laws of designs made of the columns of others."""

import numpy as np
import pytest
from scipy import sparse

from mercer.designs import Binned, Dense, Lazy, Sparse, columns, select, side_by_side
from mercer.maps import RandomFourier

N = 40


def every_kind(rng, dtype=np.float64):
    Z = rng.normal(size=(N, 9)).astype(dtype)
    Z[rng.random(Z.shape) < 0.5] = 0
    codes = rng.integers(4, size=(5, N)).astype(np.uint8)
    offsets = np.array([0, 4, 7, 11, 15, 19])  # the second grid has one column less: missing codes
    return [
        Dense(Z),
        Sparse(sparse.csr_array(Z)),
        Binned(codes, offsets, scale=0.5, dtype=dtype, missing=True),
    ]


@pytest.fixture(params=range(3), ids=["dense", "sparse", "binned"])
def design(request, rng, dtype):
    return every_kind(rng, dtype)[request.param]


@pytest.mark.parametrize("some", [[0], [1, 4, 5, 8], [], list(range(9))], ids=str)
def test_selected_columns_are_those_of_the_design(design, some, rng):
    chosen = select(design, some)
    assert type(chosen) is type(design)
    assert chosen.dtype == design.dtype
    np.testing.assert_array_equal(chosen.block(np.arange(len(some))), design.toarray()[:, some])
    w, v = rng.normal(size=len(some)), rng.normal(size=N)
    truth = design.toarray()[:, some].astype(np.float64)
    np.testing.assert_allclose(chosen.matvec(w), truth @ w, atol=1e-5)
    np.testing.assert_allclose(chosen.rmatvec(v), truth.T @ v, atol=1e-5)


def test_a_selection_of_a_selection_is_a_selection(design):
    once = select(select(design, [0, 2, 5, 6, 8]), [1, 2, 4])
    np.testing.assert_array_equal(once.toarray(), design.toarray()[:, [2, 5, 8]])


def test_selected_bins_hold_their_grids_alone(rng):
    binned = every_kind(rng)[2]
    assert select(binned, [5, 6, 12]).n_grids == 2


@pytest.mark.parametrize(("code", "n_bins"), [(np.uint8, 256), (np.uint16, 65_536)])
def test_bins_are_selected_of_grids_that_use_every_code_of_their_type(code, n_bins, rng):
    codes = rng.integers(n_bins, size=(2, N)).astype(code)
    codes[:, 0] = n_bins - 1
    binned = Binned(codes, np.array([0, n_bins, 2 * n_bins]), scale=1.0)
    some = np.union1d(codes[0, ::2], n_bins + codes[1, ::3].astype(int))
    np.testing.assert_array_equal(select(binned, some).toarray(), binned.block(some))


def test_selecting_columns_of_a_lazy_design_computes_them(rng):
    X = rng.normal(size=(N, 3))
    fourier = RandomFourier(n_components=8, random_state=0).fit(X)
    chosen = select(Lazy(X, fourier, 8), [1, 7])
    np.testing.assert_allclose(chosen.toarray(), fourier.transform(X)[:, [1, 7]], rtol=1e-12)


@pytest.mark.parametrize("some", [[1, 1], [3, 2]], ids=str)
def test_columns_out_of_order_are_refused(design, some):
    with pytest.raises(ValueError, match="columns must be increasing"):
        select(design, some)


def test_designs_side_by_side_have_the_columns_of_all(design, rng, dtype):
    other = next(d for d in every_kind(rng, dtype) if type(d) is type(design))
    both = side_by_side([design, other])
    assert type(both) is type(design)
    np.testing.assert_array_equal(both.toarray(), np.hstack([design.toarray(), other.toarray()]))
    assert side_by_side([design]) is design


def test_codes_of_two_widths_go_side_by_side(rng):
    narrow = Binned(
        rng.integers(256, size=(2, N)).astype(np.uint8), [0, 255, 511], 1.0, missing=True
    )
    wide = Binned(rng.integers(300, size=(1, N)).astype(np.uint16), [0, 300], 1.0)
    both = side_by_side([narrow, wide])
    assert both.codes.dtype == np.uint16
    np.testing.assert_array_equal(both.toarray(), np.hstack([narrow.toarray(), wide.toarray()]))


def test_a_mixture_becomes_sparse(rng):
    designs = every_kind(rng)
    mixed = side_by_side(designs)
    assert isinstance(mixed, Sparse)
    np.testing.assert_allclose(mixed.toarray(), np.hstack([d.toarray() for d in designs]))


def test_examples_run(check_examples):
    check_examples(columns)
