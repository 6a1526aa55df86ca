"""Laws of compact features, random mixtures of many features (T-F7)."""

import pickle

import numpy as np
import pytest

from mercer import KernelRegressor
from mercer.kernels import Gaussian
from mercer.maps import RandomBinning, RandomFourier, SubspaceEmbedding
from mercer_studies.tefm.compact import CompactFeatures
from mercer_studies.tefm.grid import method_at


@pytest.fixture
def X(rng):
    return rng.normal(size=(40, 4))


def smooth_data(seed, n=200, d=5):
    return np.random.default_rng(seed).normal(size=(n, d))


def mean_errors(map_, X, K, n_seeds):
    errors = []
    for seed in range(n_seeds):
        Z = map_.set_params(random_state=seed).fit_transform(X)
        errors.append(np.linalg.norm(K - Z @ Z.T))
    return np.mean(errors)


@pytest.mark.parametrize("sketch", ["gaussian", "srht"])
def test_mixtures_keep_inner_products_on_average(sketch, X):
    base = RandomFourier("laplacian", gamma=0.3, n_components=10, random_state=0)
    F = base.fit_transform(X[:6])
    drawn = []
    for seed in range(2000):
        G = CompactFeatures(base, 4, sketch=sketch, random_state=seed).fit_transform(X[:6])
        drawn.append(G @ G.T)
    drawn, expected = np.array(drawn), F @ F.T
    variance = drawn.var(axis=0)
    assert (abs(drawn.mean(axis=0) - expected) <= 5 * np.sqrt(variance / 2000)).all()
    if sketch == "gaussian":
        squares = np.diag(expected)
        law = (expected**2 + np.outer(squares, squares)) / 4
        np.testing.assert_allclose(variance, law, rtol=0.25)


def test_mixtures_are_worse_than_as_many_features_and_much_worse_than_leading_directions():
    X = smooth_data(6)
    K = Gaussian(0.1)(X)
    few = mean_errors(RandomFourier(gamma=0.1, n_components=40, form="pair"), X, K, 10)
    leading = mean_errors(SubspaceEmbedding(n_components=40, gamma=0.1), X, K, 10)
    for sketch in ("gaussian", "srht"):
        mixed = mean_errors(CompactFeatures(n_components=40, gamma=0.1, sketch=sketch), X, K, 10)
        assert leading < few < mixed


@pytest.mark.parametrize("sketch", ["gaussian", "srht"])
def test_blocks_designs_and_folded_models_are_the_features(sketch, X):
    for base in ("fourier", RandomBinning(gamma=0.3, n_components=9)):
        map_ = CompactFeatures(base, 6, sketch=sketch, random_state=1)
        Z = map_.fit_transform(X)
        np.testing.assert_allclose(map_.transform_block(X, [3, 1]), Z[:, [3, 1]], atol=1e-12)
        np.testing.assert_allclose(map_.design(X).toarray(), Z, atol=1e-12)
        model = KernelRegressor(map_, scale=False, random_state=1).fit(X, X[:, 0])
        responses = model.feature_map_.transform(X) @ model.map_coef_ + model.intercept_
        np.testing.assert_allclose(model.predict(X), responses, atol=1e-10)


def test_pickles_hold_no_frequencies(X):
    wide = np.hstack([X] * 50)
    mixed = CompactFeatures(n_components=100, n_base=4000, random_state=0).fit(wide)
    assert len(pickle.dumps(mixed)) < 5000


def test_the_method_of_the_study_is_this_map():
    map_ = method_at("comp", 12).feature_map("gaussian", 0.5, 12)
    assert repr(map_) == repr(CompactFeatures(kernel="gaussian", gamma=0.5, n_components=12))
