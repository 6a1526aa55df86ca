"""Models on subspace embeddings and compact features, over every base."""

import numpy as np
import pytest

from mercer import KernelClassifier, KernelRegressor, maps, persistence
from mercer.kernels import Laplacian
from mercer.maps import CompactFeatures, HashedNGrams, RandomFourier, SubspaceEmbedding


def test_every_map_by_name_is_a_base(X):
    for name in maps._NAMES:
        for make in (SubspaceEmbedding, CompactFeatures):
            map_ = make(name, 3, random_state=0)
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
    for map_ in (SubspaceEmbedding(base, 6), CompactFeatures("ngrams", 6, n_base=64)):
        assert map_.takes_text
        Z = map_.set_params(random_state=0).fit_transform(texts)
        assert Z.dtype == np.float64
        np.testing.assert_allclose(map_.transform_block(texts, [4, 2]), Z[:, [4, 2]], atol=1e-12)
        np.testing.assert_allclose(map_.design(texts).array, Z, atol=1e-12)
        if isinstance(map_, SubspaceEmbedding):
            np.testing.assert_allclose(Z @ Z.T, F @ F.T, atol=1e-10)
        model = KernelClassifier(map_, random_state=0).fit(texts, [0, 0, 1, 1, 0, 1])
        persistence.save(model, tmp_path / "model.skops")
        again = persistence.load(tmp_path / "model.skops")
        np.testing.assert_array_equal(again.predict(texts), model.predict(texts))


@pytest.mark.rounding
@pytest.mark.parametrize("name", ["tefm", "compact"])
def test_models_with_these_maps_predict_through_the_base(name, X, y, X_csr, tmp_path):
    labels = np.where(y > 0, "up", "down")
    for data in (X, X_csr, X.astype(np.float32)):
        model = KernelRegressor(name, kernel="laplacian", gamma=0.2, n_components=8, random_state=0)
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
    classifier = KernelClassifier(name, gamma_path=[0.1, 0.3], **settings).fit(X, labels)
    assert classifier.gamma_path_["gamma"].tolist() == [0.1, 0.3]
    assert classifier.score(X, labels) > 0.6
    map_ = maps.get(name, n_components=8)
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
