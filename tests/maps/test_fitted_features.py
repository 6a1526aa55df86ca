"""Features of fitted models: products with the coefficients are the responses of the model."""

import pickle

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.cluster import KMeans
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline

from mercer import (
    AutoKernelRegressor,
    KernelClassifier,
    KernelRegressor,
    LocalKernelRegressor,
    SparseKernelRegressor,
    TablePreparer,
    persistence,
)
from mercer.maps import as_features, fitted
from mercer.unsupervised import KernelKMeans, KernelPCA, OneClassKernel

_RNG = np.random.default_rng(0)
X = _RNG.normal(size=(150, 3)) * [1.0, 5.0, 0.2] + 5  # a scaler changes them
NEW = _RNG.normal(size=(40, 3)) * [1.0, 5.0, 0.2] + 5
y = np.sin(X[:, 0]) + X[:, 1] / 5
NAMES = ["exact", "nystroem", "fourier", "binning", "fastfood", "tefm", "linear"]


def dense(features):
    return features.toarray() if sparse.issparse(features) else features


def product(features, model, rows):
    return features.transform(rows) @ model.map_coef_.T + model._intercept_


@pytest.mark.parametrize("scale", [True, False])
@pytest.mark.parametrize("name", NAMES)
def test_features_times_coefficients_are_predictions(name, scale):
    model = KernelRegressor(name, scale=scale, alpha=1e-2, random_state=0).fit(X, y)
    found = product(as_features(model), model, NEW)
    np.testing.assert_allclose(found, model.predict(NEW), rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("name", NAMES)
def test_features_times_coefficients_are_decision_values(name):
    model = KernelClassifier(name, alpha=1e-2, random_state=0).fit(X, y > y.mean())
    found = product(as_features(model), model, NEW)
    np.testing.assert_allclose(found, model.decision_function(NEW), rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize(
    "model", [LocalKernelRegressor(random_state=0), SparseKernelRegressor(random_state=0)]
)
def test_other_machines_have_features_too(model):
    model = clone(model).fit(X, y)
    found = product(as_features(model), model, NEW)
    np.testing.assert_allclose(found, model.predict(NEW), rtol=1e-6, atol=1e-8)


def test_texts_have_features():
    texts = ["red wine", "white wine", "black tea", "green tea"] * 5
    model = KernelRegressor("ngrams").fit(texts, np.tile([1.0, 2.0, 3.0, 4.0], 5))
    np.testing.assert_allclose(product(as_features(model), model, texts), model.predict(texts))


def frame_and_target():
    table = pd.DataFrame({"size": X[:, 0], "colour": np.where(X[:, 1] > 5, "red", "blue")})
    return table, y


def test_steps_of_a_pipeline_stay_in_front():
    table, target = frame_and_target()
    machine = KernelRegressor("nystroem", random_state=0)
    model = make_pipeline(TablePreparer(), machine).fit(table, target)
    features = as_features(model)
    found = product(features, machine, table)
    np.testing.assert_allclose(found, model.predict(table), rtol=1e-6)
    labels = make_pipeline(features, KMeans(3, n_init=1, random_state=0)).fit_predict(table)
    assert len(set(labels)) == 3
    np.testing.assert_allclose(product(features, machine, table), found)


def test_automatic_models_have_features_or_refuse_in_one_sentence():
    model = AutoKernelRegressor(time_budget=2, random_state=0).fit(X, y)
    members = model.explained_members()[0]
    if len(members) == 1:
        machine = model.kernel_machine_
        expected = members[0][1].predict(X)
        found = product(as_features(model), machine, X)
        np.testing.assert_allclose(found, expected, atol=1e-3)  # rows are float32 there
    model.explained_members = lambda: (members * 2, "")
    with pytest.raises(ValueError, match=r"one kernel machine; AutoKernelRegressor is a mean of"):
        as_features(model)


@pytest.mark.parametrize("name", NAMES)
def test_other_estimators_take_the_features_as_their_map(name):
    model = KernelRegressor(name, random_state=0).fit(X, y)
    features = as_features(model)
    before = dense(features.transform(NEW))
    kinds = [KernelKMeans(2), KernelPCA(1)]
    if name != "linear":  # scaled inputs surround the origin
        kinds.append(OneClassKernel(0.2))
    for kind in kinds:
        fit = clone(kind).set_params(feature_map=features, random_state=0).fit(NEW)
        np.testing.assert_array_equal(dense(fit.feature_map_.transform(NEW)), before)
    np.testing.assert_array_equal(dense(features.transform(NEW)), before)


def test_clones_fits_and_files_keep_the_features(tmp_path):
    features = as_features(KernelRegressor("fourier", random_state=0).fit(X, y))
    pca = KernelPCA(1, feature_map=features).fit(X)
    persistence.save(pca, tmp_path / "pca.skops")
    copies = (clone(features), clone(features).fit(NEW), pickle.loads(pickle.dumps(features)))
    for copy in (*copies, persistence.load(tmp_path / "pca.skops").feature_map_):
        np.testing.assert_array_equal(copy.transform(NEW), features.transform(NEW))
        np.testing.assert_array_equal(
            copy.transform_block(NEW, [3, 1]), copy.transform(NEW)[:, [3, 1]]
        )


def test_columns_are_those_of_the_model():
    table = pd.DataFrame(X, columns=["a", "b", "c"])
    features = as_features(KernelRegressor("fourier", random_state=0).fit(table, y))
    with pytest.raises(ValueError, match="feature names"):
        clone(features).fit(table[["c", "b", "a"]])
    with pytest.raises(ValueError, match="feature names"):
        features.transform(table[["a", "b"]])


@pytest.mark.parametrize("model", [Ridge().fit(X, y), make_pipeline(Ridge()).fit(X, y)])
def test_models_without_a_map_are_refused(model):
    with pytest.raises(ValueError, match=r"must be a kernel machine with a feature map.*got Ridge"):
        as_features(model)


def test_unfitted_models_say_so():
    with pytest.raises(NotFittedError):
        as_features(KernelRegressor())


def test_unfitted_maps_say_so():
    with pytest.raises(NotFittedError):
        fitted.FittedFeatures(KernelRegressor("fourier")._stated_map()).transform(X)


def test_examples_run(check_examples):
    check_examples(fitted)
