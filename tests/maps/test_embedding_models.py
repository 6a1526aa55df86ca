"""Models on subspace embeddings, over every base."""

import copy
import pickle

import numpy as np
import pytest

from mercer import KernelClassifier, KernelRegressor, maps, persistence
from mercer.estimators.machine import KernelMachine
from mercer.kernels import Laplacian
from mercer.maps import HashedNGrams, RandomFourier, SubspaceEmbedding


def test_every_map_by_name_is_a_base(X):
    for name in maps._NAMES:
        map_ = SubspaceEmbedding(name, 3, random_state=0)
        if not map_.takes_text:
            assert map_.fit_transform(X).shape == (40, 3)
            kernel = map_.stated_kernel()
            if kernel is not None and kernel.gamma is not None:
                assert map_.with_gamma(0.5).fit(X).kernel_.gamma == 0.5
            KernelRegressor(map_, random_state=0).fit(X, X[:, 0]).predict(X)


@pytest.mark.rounding
def test_texts_are_data_where_the_base_takes_them(tmp_path):
    texts = ["the cat sat", "the cat ran", "a dog sat", "a dog ran far", "the cat", "dogs run"]
    base = HashedNGrams(256, random_state=0)
    F = base.fit_transform(texts).toarray()
    for map_ in (SubspaceEmbedding(base, 6), SubspaceEmbedding("ngrams", 6, n_base=256)):
        assert map_.takes_text
        Z = map_.set_params(random_state=0).fit_transform(texts)
        assert Z.dtype == np.float64
        np.testing.assert_allclose(map_.transform_block(texts, [4, 2]), Z[:, [4, 2]], atol=1e-12)
        np.testing.assert_allclose(map_.design(texts).array, Z, atol=1e-12)
        if map_.base is base:
            np.testing.assert_allclose(Z @ Z.T, F @ F.T, atol=1e-10)
        model = KernelClassifier(map_, random_state=0).fit(texts, [0, 0, 1, 1, 0, 1])
        persistence.save(model, tmp_path / "model.skops")
        again = persistence.load(tmp_path / "model.skops")
        np.testing.assert_array_equal(again.predict(texts), model.predict(texts))


@pytest.mark.rounding
def test_models_with_this_map_predict_through_the_base(X, y, X_csr, tmp_path):
    labels = np.where(y > 0, "up", "down")
    for data in (X, X_csr, X.astype(np.float32)):
        model = KernelRegressor(
            "tefm", kernel="laplacian", gamma=0.2, n_components=8, random_state=0
        )
        model.fit(data, y)
        Z = model.feature_map_.transform(model._preprocessing.scaled(data))
        responses = Z @ model.map_coef_ + model.intercept_
        tolerance = 1e-10 if data.dtype == np.float64 else 1e-4
        np.testing.assert_allclose(model.predict(data), responses, atol=tolerance)
        assert model.feature_map_.kernel_ == Laplacian(0.2)
        persistence.save(model, tmp_path / "model.skops")
        again = persistence.load(tmp_path / "model.skops")
        np.testing.assert_array_equal(again.predict(data), model.predict(data))
    settings = {"n_components": 8, "random_state": 0}
    classifier = KernelClassifier("tefm", gamma_path=[0.1, 0.3], **settings).fit(X, labels)
    assert classifier.gamma_path_["gamma"].tolist() == [0.1, 0.3]
    assert classifier.score(X, labels) > 0.6
    map_ = maps.get("tefm", n_components=8)
    inside = KernelClassifier(map_, random_state=0).fit(X, labels)
    assert isinstance(inside.feature_map_.kernel_.gamma, float)


def test_models_know_the_scale_of_a_map_in_a_map(X, y):
    weights = np.arange(40.0)
    base = RandomFourier(n_components=20)
    model = KernelRegressor(SubspaceEmbedding(base, 5), random_state=0).fit(X, y, weights)
    expected = KernelRegressor(base, random_state=0).fit(X, y, weights)
    assert model.feature_map_.kernel_ == expected.feature_map_.kernel_
    path = KernelRegressor(SubspaceEmbedding(base, 5), gamma_path=[0.1, 0.3], random_state=0)
    assert path.fit(X, y).feature_map_.kernel_.gamma in (0.1, 0.3)


@pytest.mark.rounding
def test_prediction_folds_unless_there_are_more_responses_than_features(X, monkeypatch):
    targets = np.random.default_rng(0).normal(size=(40, 7))
    few, many = (
        KernelRegressor("tefm", n_components=m, random_state=0).fit(X, targets) for m in (3, 9)
    )
    expected = few.predict(X), many.predict(X)
    monkeypatch.setattr(SubspaceEmbedding, "_project", lambda self, piece: 1 / 0)
    np.testing.assert_array_equal(many.predict(X), expected[1])
    with pytest.raises(ZeroDivisionError):
        few.predict(X)


def saved_and_read(model, path):
    persistence.save(model, path)
    return persistence.load(path)


def pickled(model, path):
    return pickle.loads(pickle.dumps(model))


@pytest.mark.parametrize("again", [saved_and_read, pickled])
@pytest.mark.parametrize("outputs", [None, 3])
@pytest.mark.parametrize("dtype", ["f", "d"])
def test_a_file_has_the_base_and_its_weights_and_predicts_to_the_bit(
    again, outputs, dtype, tmp_path
):
    X = np.random.default_rng(0).normal(size=(90, 3)).astype(dtype)
    y = np.sin(X[:, 0]) if outputs is None else np.sin(X)
    model = KernelRegressor("tefm", n_components=40, alphas=[0.1, 1e-3], random_state=0).fit(X, y)
    read = again(model, tmp_path / "model.skops")
    twice = again(read, tmp_path / "again.skops")
    assert isinstance(model.feature_map_, SubspaceEmbedding)
    assert isinstance(read.feature_map_, RandomFourier)
    assert read.map_coef_.shape[-1] == 160
    for other in (read, twice, copy.copy(model)):
        np.testing.assert_array_equal(other.predict(X), model.predict(X))
        old, new = (m.at_alpha(0.1).predict(X) for m in (model, other))
        np.testing.assert_array_equal(new, old)


def test_a_file_takes_kilobytes(tmp_path):
    X = np.random.default_rng(0).normal(size=(400, 3))
    model = KernelRegressor("tefm", n_components=256, random_state=0).fit(X, X[:, 0])
    assert model.feature_map_.basis_.nbytes > 2_000_000
    assert len(pickle.dumps(model)) < 20_000
    assert persistence.save(model, tmp_path / "model.skops") < 25_000


def test_a_file_with_the_basis_loads(X, y, tmp_path, monkeypatch):
    model = KernelRegressor("tefm", n_components=8, random_state=0).fit(X, y)
    with monkeypatch.context() as patch:  # as version 0.2 wrote it
        patch.delattr(KernelMachine, "__getstate__")
        old = saved_and_read(model, tmp_path / "model.skops")
        assert isinstance(old.feature_map_, SubspaceEmbedding)
    np.testing.assert_array_equal(old.predict(X), model.predict(X))


def test_a_file_keeps_the_basis_where_more_than_predictions_needs_it(X, y, tmp_path):
    path, targets = tmp_path / "model.skops", np.random.default_rng(0).normal(size=(40, 7))
    many = KernelRegressor("tefm", n_components=3, random_state=0).fit(X, targets)
    sure = KernelRegressor("tefm", n_components=8, posterior=True, random_state=0).fit(X, y)
    for model in (many, sure):
        read = saved_and_read(model, path)
        assert isinstance(read.feature_map_, SubspaceEmbedding)
        np.testing.assert_array_equal(read.predict(X), model.predict(X))
    np.testing.assert_array_equal(read.predict(X, return_std=True)[1], sure.predict(X, True)[1])


def test_a_warm_start_of_a_file_fits_the_map_again(X, y):
    model = KernelRegressor("tefm", n_components=8, warm_start=True, random_state=0).fit(X, y)
    again = pickled(model, None).fit(X, y)
    assert isinstance(again.feature_map_, SubspaceEmbedding)
    np.testing.assert_allclose(again.predict(X), model.predict(X), atol=1e-6)


def test_a_file_of_a_subspace_of_an_exact_kernel_has_no_posterior(X, y):
    model = KernelRegressor(SubspaceEmbedding("exact", 8), random_state=0).fit(X, y)
    for each in (model, pickled(model, None)):
        with pytest.raises(ValueError, match=r"return_std=True needs"):
            each.predict(X, return_std=True)
