"""Nyström features: never more than the kernel, exact on the landmarks (T-F10)."""

import numpy as np
import pytest
import sklearn.kernel_approximation
from scipy import sparse

import mercer.maps.nystroem
from mercer._runtime.random import Slot, distinct
from mercer.kernels import Gaussian, Laplacian, Product
from mercer.maps import Nystroem
from test_maps_base import MapLaws


class NystroemLaws(MapLaws):
    def assert_same_map(self, one, other, X):
        # Rounding turns the eigenvectors of nearly equal eigenvalues; inner products do not move.
        Z, Y = one.transform(X), other.transform(X)
        assert Z.dtype == Y.dtype
        np.testing.assert_allclose(Z @ Z.T, Y @ Y.T, atol=1e-9 if Z.dtype == np.float64 else 1e-5)


class TestNystroem(NystroemLaws):
    def make(self, **settings):
        return Nystroem(gamma=0.3, n_components=12, random_state=1, **settings)


class TestNystroemOfTheLaplacian(NystroemLaws):
    def make(self, **settings):
        return Nystroem("laplacian", gamma=0.3, n_components=15, random_state=1, **settings)


def polynomial(X, Y):
    products = X @ Y.T
    if sparse.issparse(products):
        products = products.toarray()
    return (1.0 + 0.1 * products) ** 2


class ChosenLandmarks(NystroemLaws):
    landmarks = "uniform"

    def make(self, **settings):
        return Nystroem(
            gamma=0.3, n_components=12, landmarks=self.landmarks, random_state=1, **settings
        )


class TestClusterCentres(ChosenLandmarks):
    landmarks = "kmeans"


class TestLeverage(ChosenLandmarks):
    landmarks = "leverage"


class TestRandomlyPivotedCholesky(ChosenLandmarks):
    landmarks = "rpcholesky"


class TestKernelAgainstLandmarks(NystroemLaws):
    may_be_lazy = False  # its design never holds the kernel

    def make(self, **settings):
        return Nystroem(gamma=0.3, n_components=12, whiten=False, random_state=1, **settings)


class TestNystroemOfAFunction(NystroemLaws):
    has_gamma = False

    def make(self, **settings):
        return Nystroem(polynomial, n_components=8, random_state=1, **settings)


def test_examples_run(check_examples):
    check_examples(mercer.maps.nystroem)


@pytest.mark.parametrize("n_components", [1, 5, 20, 39])
def test_never_exceeds_the_kernel_and_is_exact_on_landmarks(kernel, n_components, X):
    fitted = Nystroem(kernel, n_components=n_components, random_state=0).fit(X)
    Z, L = fitted.transform(X), fitted.transform(fitted.landmarks_)
    K = kernel(X)
    assert np.linalg.eigvalsh(K - Z @ Z.T).min() > -1e-9
    np.testing.assert_allclose(L @ L.T, kernel(fitted.landmarks_), atol=1e-9)
    np.testing.assert_allclose(Z @ L.T, kernel(X, fitted.landmarks_), atol=1e-7)


def test_all_rows_as_landmarks_give_the_kernel_itself(kernel, X):
    for fitted in (
        Nystroem(kernel, n_components=40),
        Nystroem(kernel),
        Nystroem(kernel, "scale", 40, X),
    ):
        Z = fitted.fit_transform(X)
        np.testing.assert_allclose(Z @ Z.T, kernel(X), atol=1e-9)


def test_error_falls_as_landmarks_are_added(kernel, X):
    K = kernel(X)
    errors = []
    for n_components in range(1, 40, 4):
        Z = Nystroem(kernel, n_components=n_components, random_state=0).fit_transform(X)
        errors.append(np.trace(K - Z @ Z.T))
    assert (np.diff(errors) <= 1e-9).all()


def test_approximation_equals_that_of_scikit_learn_with_the_same_landmarks(X):
    peer = sklearn.kernel_approximation.Nystroem(gamma=0.3, n_components=15, random_state=0).fit(X)
    mine = Nystroem(gamma=0.3, landmarks=peer.components_).fit(X)
    Z, P = mine.transform(X), peer.transform(X)
    np.testing.assert_allclose(Z @ Z.T, P @ P.T, atol=1e-9)


def test_ridge_on_features_is_ridge_in_the_span_of_the_landmarks(X, y):
    kernel, strength = Laplacian(0.3), 0.7
    fitted = Nystroem(kernel, landmarks=X[20:35]).fit(X)
    Z = fitted.transform(X)
    w = np.linalg.solve(Z.T @ Z + strength * np.eye(Z.shape[1]), Z.T @ y)
    K_nm, K_mm = kernel(X, fitted.landmarks_), kernel(fitted.landmarks_)
    alpha = np.linalg.solve(K_nm.T @ K_nm + strength * K_mm, K_nm.T @ y)
    np.testing.assert_allclose(Z @ w, K_nm @ alpha, atol=1e-8)


def test_redundant_landmarks_leave_no_columns(X):
    landmarks = np.vstack([X[:6], X[:6], X[3:4], X[7:8]])
    fitted = Nystroem(Gaussian(0.3), landmarks=landmarks).fit(X)
    assert fitted.n_features_out_ == 6
    assert fitted.normalization_.shape == (14, 6)
    Z = fitted.transform(X)
    unique = Nystroem(Gaussian(0.3), landmarks=X[:6]).fit_transform(X)
    np.testing.assert_allclose(Z @ Z.T, unique @ unique.T, atol=1e-9)


def test_float32_loses_nothing_to_small_eigenvalues():
    X = np.linspace(0, 1, 200, dtype=np.float32)[:, None]
    Z = Nystroem(Gaussian(1.0), n_components=50, random_state=0).fit_transform(X)
    assert Z.dtype == np.float32
    np.testing.assert_allclose(Z @ Z.T, Gaussian(1.0)(X), atol=2e-6)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_triangle_is_multiplied_by_in_half_the_work(dtype, monkeypatch):
    X = np.random.default_rng(4).normal(size=(200, 6)).astype(dtype)
    map_ = Nystroem(gamma=0.3, n_components=15, random_state=0).fit(X)
    assert mercer.maps.nystroem._is_triangle(map_.normalization_)
    expected = map_.kernel_(X, map_.landmarks_) @ map_.normalization_
    np.testing.assert_allclose(map_.transform(X), expected, atol=1e4 * np.finfo(dtype).eps)
    monkeypatch.setattr(mercer.maps.nystroem, "_is_triangle", lambda weights: False)
    np.testing.assert_allclose(map_.transform(X), expected, atol=1e4 * np.finfo(dtype).eps)


def test_landmarks_are_distinct_rows_and_the_first_of_more(X):
    for m in (1, 7, 20, 39, 40):
        rows = distinct(5, 40, m, Slot.LANDMARK)
        assert len(np.unique(rows)) == m
        assert rows.min() >= 0
        assert rows.max() < 40
        if m < 40:
            np.testing.assert_array_equal(rows, distinct(5, 40, 39, Slot.LANDMARK)[:m])
    fitted = Nystroem(n_components=7, random_state=0).fit(X)
    assert all((landmark == X).all(axis=1).any() for landmark in fitted.landmarks_)


def test_every_row_is_equally_likely_to_be_a_landmark():
    counts = np.zeros(10)
    for key in range(4000):
        counts[distinct(key, 10, 3, Slot.LANDMARK)] += 1
    expected, deviation = 1200, np.sqrt(4000 * 0.3 * 0.7)
    assert abs(counts - expected).max() < 5 * deviation


def test_landmarks_of_millions_of_rows_are_cheap():
    rows = distinct(5, 10**12, 100, Slot.LANDMARK)
    assert len(np.unique(rows)) == 100


def test_sparse_landmarks_and_sparse_data_mix(X, X_csr):
    expected = Nystroem(Gaussian(0.3), landmarks=X[:9]).fit_transform(X)
    for landmarks in (X[:9], X_csr[:9]):
        for data in (X, X_csr):
            Z = Nystroem(Gaussian(0.3), landmarks=landmarks).fit_transform(data)
            np.testing.assert_allclose(Z @ Z.T, expected @ expected.T, atol=1e-10)


def test_kernels_without_samplers_work(X):
    kernel = Product(lambda t: 1 / (1 + t), lambda t: -1 / (1 + t) ** 2, gamma=0.3)
    Z = Nystroem(kernel).fit_transform(X)
    np.testing.assert_allclose(Z @ Z.T, kernel(X), atol=1e-9)
    Z = Nystroem(polynomial).fit_transform(X)
    np.testing.assert_allclose(Z @ Z.T, polynomial(X, X), atol=1e-9)


def test_more_components_than_rows_are_clipped_with_a_warning(X):
    with pytest.warns(UserWarning, match="n_components=100 exceeds the 40 rows of X: every row"):
        fitted = Nystroem(gamma=0.3, n_components=100).fit(X)
    assert fitted.landmarks_.shape == (40, 4)


@pytest.mark.rounding
def test_rows_are_chunked_without_changing_the_result(X, monkeypatch):
    fitted = Nystroem(gamma=0.3, n_components=12, random_state=0).fit(X)
    whole = fitted.transform(X)
    monkeypatch.setattr(
        mercer.maps.nystroem,
        "row_chunks",
        lambda n, *_: (slice(i, min(n, i + 7)) for i in range(0, n, 7)),
    )
    np.testing.assert_allclose(fitted.transform(X), whole, atol=1e-12)


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"n_components": 0}, ValueError, "n_components must be at least 1; got 0"),
        ({"whiten": 1}, TypeError, "whiten must be True or False; got 1"),
        ({"n_components": 1.5}, TypeError, "n_components must be an integer; got 1.5"),
        ({"landmarks": "best"}, ValueError, "landmarks must be one of 'uniform', .*; got 'best'"),
        ({"landmarks": np.zeros((3, 2))}, ValueError, "as many columns as X, 4; got 2"),
        ({"landmarks": [[np.nan] * 4]}, ValueError, "Input landmarks contains NaN"),
        (
            {"landmarks": np.zeros((3, 4)), "n_components": 5},
            ValueError,
            "n_components must be left out beside an array of landmarks, .* 3; got 5",
        ),
        ({"kernel": lambda X, Y: -np.ones((len(X), len(Y)))}, ValueError, "positive definite"),
        ({"kernel": lambda X, Y: np.tanh(X @ Y.T - 1)}, ValueError, "positive definite; .* -"),
        ({"kernel": lambda X, Y: np.zeros((len(X), len(Y)))}, ValueError, "positive definite"),
        ({"kernel": polynomial, "gamma": 2.0}, ValueError, "gamma must be left out"),
        ({"kernel": "sigmoid"}, ValueError, "kernel must be one of 'gaussian', .*; got 'sigmoid'"),
        ({"gamma": -1.0}, ValueError, "gamma must be positive and finite; got -1.0"),
        ({"random_state": -1}, ValueError, "random_state must be at least 0; got -1"),
        ({"n_jobs": 0}, ValueError, "n_jobs must not be 0"),
    ],
)
def test_bad_settings_are_refused_in_one_sentence(settings, error, message, X):
    with pytest.raises(error, match=message):
        Nystroem(**settings).fit(X)


def test_landmarks_that_would_not_fit_are_refused(X, monkeypatch):
    monkeypatch.setattr("mercer.maps.nystroem.check_setting", lambda *args: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        Nystroem(n_components=5).fit(X)
