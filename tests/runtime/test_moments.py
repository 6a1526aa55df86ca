"""Moments of rows: added parts are all rows, and scalers are scikit-learn's."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.preprocessing import MaxAbsScaler, StandardScaler

from mercer import kernels
from mercer._runtime.moments import Moments
from mercer._runtime.rows import PreparedRows

NAMES = "n_rows", "weight", "mean", "squares", "low", "high"


@pytest.fixture
def rows(rng):
    """Columns around 0, far from 0, constant, tiny, and of zeros."""
    X = rng.normal(size=(300, 5))
    X[:, 1] += 1e3
    X[:, 2], X[:, 4] = 7.1, 0.0
    X[:, 3] *= 1e-9
    return X, rng.uniform(size=300) * (rng.random(300) < 0.8)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_parts_added_are_all_rows(rows, form, weighted):
    X, w = rows
    w = w if weighted else np.ones(300)
    parts = [Moments.of(form(X[a:b]), w[a:b]) for a, b in ((0, 5), (5, 200), (200, 300))]
    total, whole = parts[0] + parts[1] + parts[2], Moments.of(form(X), w)
    for name in NAMES:
        ours, wanted = getattr(total, name), getattr(whole, name)
        np.testing.assert_allclose(ours, wanted, rtol=1e-12, atol=1e-12, err_msg=name)
    mean = np.average(X, axis=0, weights=w)
    np.testing.assert_allclose(total.mean, mean, rtol=1e-14, atol=1e-14)
    variance = np.average(np.square(X - mean), axis=0, weights=w)
    np.testing.assert_allclose(total.variance, variance, rtol=1e-9, atol=1e-17)


@pytest.mark.parametrize("chunk", [2**10, 2**25])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_standard_scalers_are_scikit_learns(rows, weighted, kind, chunk, monkeypatch):
    monkeypatch.setattr("mercer._runtime.arrays.chunk_bytes", lambda: chunk)
    X, w = rows[0].astype(kind), rows[1] if weighted else None
    ours = Moments.of(PreparedRows(X), w).standard_scaler(weighted)
    wanted = StandardScaler().fit(X, sample_weight=w)
    assert vars(ours).keys() == vars(wanted).keys()
    # With weights scikit-learn rounds means of float32 rows to float32.
    tol = 1e-5 if weighted and kind == np.float32 else 1e-9
    for name in ("mean_", "var_", "scale_", "n_samples_seen_", "n_features_in_"):
        np.testing.assert_allclose(
            getattr(ours, name), getattr(wanted, name), rtol=tol, atol=1e-15, err_msg=name
        )


def test_scalers_of_sparse_rows_are_scikit_learns(rows):
    S = sparse.csr_array(rows[0].astype(np.float32))
    ours, wanted = Moments.of(S).max_abs_scaler(S.dtype), MaxAbsScaler().fit(S)
    assert vars(ours).keys() == vars(wanted).keys()
    np.testing.assert_array_equal(ours.scale_, wanted.scale_)
    assert ours.scale_.dtype == wanted.scale_.dtype


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_the_deviation_of_all_entries_makes_gamma(rows, form):
    X, w = rows
    deviation = np.sqrt(np.average(np.square(X - np.average(X, weights=np.c_[[w] * 5].T)),
                                   weights=np.c_[[w] * 5].T))  # fmt: skip
    moments = Moments.of(form(X), w)
    np.testing.assert_allclose(moments.deviation, deviation, rtol=1e-12)
    kernel = kernels.Gaussian("scale").resolve(form(X), sample_weight=w)
    np.testing.assert_allclose(kernel.gamma, 1 / (5 * deviation**2), rtol=1e-12)


def test_constant_matrices_have_no_deviation():
    assert Moments.of(np.full((50, 3), 0.1)).deviation == 0


def test_moments_of_wide_sparse_rows_take_time_by_stored_entries():
    wide = sparse.csr_array((np.ones(2000), (np.arange(2000), np.arange(2000) * 100)))
    assert wide.shape == (2000, 199_901)
    moments = Moments.of(wide)  # in one chunk: a pass over all columns for each row is 10^8 steps
    assert moments.high.sum() == 2000
