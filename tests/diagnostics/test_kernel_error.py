"""Kernel errors are what dense linear algebra says they are (T-D3)."""

import importlib

import numpy as np
import pytest
from scipy import sparse

import mercer.diagnostics
from mercer.designs import Dense, Lazy
from mercer.diagnostics import kernel_error
from mercer.kernels import Gaussian, Laplacian, Linear, NGram
from mercer.maps import IdentityMap, Nystroem, RandomBinning, RandomFourier


@pytest.fixture(params=[30, 150])
def rows(request, rng):
    """As many that all eigenvalues are computed, and as many that one is."""
    return rng.normal(size=(request.param, 3))


def by_definition(K, Z):
    Z = Z.toarray() if sparse.issparse(Z) else np.asarray(Z)
    E = K - Z @ Z.T
    spectral = np.linalg.norm(E, 2) / np.linalg.norm(K, 2)
    return spectral, np.linalg.norm(E) / np.linalg.norm(K)


def test_examples_run(check_examples):
    check_examples(importlib.import_module("mercer.diagnostics.kernel_error"))


@pytest.mark.parametrize(
    "feature_map",
    [
        RandomFourier("laplacian", 0.5, n_components=50, random_state=0),
        RandomBinning("laplacian", 0.5, n_components=50, random_state=0),
        Nystroem("laplacian", 0.5, n_components=20, random_state=0),
    ],
    ids=lambda m: type(m).__name__,
)
def test_every_form_of_the_features_has_the_error_of_the_dense_matrices(rows, feature_map):
    kernel = Laplacian(0.5)
    K, Z = kernel(rows), feature_map.fit(rows).transform(rows)
    spectral, frobenius = by_definition(K, Z)
    for truth, features in [
        (K, Z),
        ((kernel, rows), Z),
        ((kernel, rows), feature_map),
        (K, feature_map.design(rows)),
        (K, sparse.csr_matrix(Z)),
        (K, Lazy(rows, feature_map, Z.shape[1], rows.dtype)),
    ]:
        found = kernel_error(truth, features)
        assert found.n_rows == len(rows)
        assert found.spectral == pytest.approx(spectral, rel=1e-5)
        assert found.frobenius == pytest.approx(frobenius, rel=1e-12)


def test_single_precision_is_enough(rows):
    kernel = Gaussian(0.3)
    feature_map = RandomFourier(kernel, n_components=50, random_state=0).fit(rows)
    exact = kernel_error((kernel, rows), feature_map)
    single = rows.astype(np.float32)
    K, Z = kernel(single), feature_map.transform(single)
    lazy = Lazy(single, feature_map, 50, single.dtype)
    for truth, features in [((kernel, single), feature_map), (K, Z), (K, lazy)]:
        found = kernel_error(truth, features)
        assert found.spectral == pytest.approx(exact.spectral, rel=1e-4)
        assert found.frobenius == pytest.approx(exact.frobenius, rel=1e-5)


def test_exact_features_have_no_error(rows):
    found = kernel_error((Linear(), rows), IdentityMap().fit(rows))
    assert found.spectral <= found.frobenius * np.sqrt(3) < 1e-14


def test_no_features_have_error_one(rows):
    found = kernel_error(Gaussian(1.0)(rows), np.zeros((len(rows), 1)))
    assert found.spectral == pytest.approx(1.0, rel=1e-9)
    assert found.frobenius == pytest.approx(1.0, rel=1e-12)


def test_the_spectral_norm_is_at_most_the_frobenius_norm(rows):
    K = Gaussian(0.5)(rows)
    for D in (1, 10, 100):
        Z = RandomFourier(gamma=0.5, n_components=D, random_state=0).fit_transform(rows)
        found = kernel_error(K, Z)
        assert found.spectral * np.linalg.norm(K, 2) <= found.frobenius * np.linalg.norm(K)


def test_repeated_rows_and_equal_eigenvalues_are_no_obstacle():
    K, Z = np.eye(100), np.zeros((100, 2))
    assert kernel_error(K, Z).spectral == pytest.approx(1.0)
    assert kernel_error(np.ones((100, 100)), np.ones((100, 1))).spectral == 0.0


@pytest.mark.rounding
def test_is_the_same_every_time(rng):
    K, Z = Gaussian(1.0)(rng.normal(size=(200, 4))), rng.normal(size=(200, 5))
    assert kernel_error(K, Z) == kernel_error(K, Z)


def test_scale_of_the_kernel_comes_from_its_rows(rows):
    resolved = kernel_error((Gaussian().resolve(rows), rows), np.ones((len(rows), 1)))
    assert kernel_error(("gaussian", rows), np.ones((len(rows), 1))) == resolved


def test_texts_have_kernels_too():
    texts = ["one two three", "two three four", "five"]
    assert kernel_error((NGram(), texts), np.zeros((3, 1))).spectral == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("truth", "features", "error", "message"),
    [
        (np.eye(3)[:2], np.eye(3), ValueError, r"square kernel matrix.*got shape \(2, 3\)"),
        (np.triu(np.ones((3, 3))), np.eye(3), ValueError, "must be a symmetric kernel matrix"),
        (np.zeros((3, 3)), np.eye(3), ValueError, "truth must not be zero everywhere"),
        (np.eye(3), np.eye(4), ValueError, "features must have the 3 rows of the kernel; got 4"),
        (np.eye(3), Dense(np.eye(4)), ValueError, "the 3 rows of the kernel; got 4"),
        (np.eye(3), IdentityMap().fit(np.eye(3)), ValueError, "must be a pair .* feature map"),
        (sparse.eye_array(3, format="csr"), np.eye(3), TypeError, "dense kernel matrix"),
        (np.full((2, 2), np.nan), np.eye(2), ValueError, "Input truth contains NaN"),
        (np.eye(2), np.full((2, 2), np.inf), ValueError, "Input features contains inf"),
    ],
)
def test_what_makes_no_sense_is_refused_in_one_sentence(truth, features, error, message):
    with pytest.raises(error, match=message):
        kernel_error(truth, features)


def test_memory_is_estimated_first():
    with pytest.raises(MemoryError, match="kernel matrix needs"):
        kernel_error((Gaussian(1.0), np.zeros((2**22, 1))), np.zeros((2**22, 1)))


def test_the_package_names_everything():
    assert set(mercer.diagnostics.__all__) <= set(dir(mercer.diagnostics))
