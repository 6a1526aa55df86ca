"""Coefficients: of the features of a map, and of the inputs where these are the features."""

import copy
import warnings

import numpy as np
import pytest
from scipy import sparse
from sklearn.feature_selection import RFE, SelectFromModel

from mercer import (
    DoublySGDRegressor,
    KernelClassifier,
    KernelRegressor,
    LocalKernelRegressor,
    SparseKernelRegressor,
)
from mercer.maps import RandomFourier

MODELS = {
    "binning": lambda: KernelRegressor(n_components=8, random_state=0),
    "exact": lambda: KernelRegressor("exact"),
    "local": lambda: LocalKernelRegressor(leaf_size=20, n_trees=2, random_state=0),
    "sparse": lambda: SparseKernelRegressor(n_new=8, max_rounds=2, random_state=0),
    "stream": lambda: DoublySGDRegressor(max_iter=2, random_state=0),
}


def table(n=60, n_outputs=1, dtype=np.float64):
    """Inputs of unlike scales and far from zero, with targets that are almost linear in them."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 4)) * [1.0, 100.0, 1e-3, 1.0] + [0.0, 500.0, 2.0, -3.0]
    Y = (X - X.mean(axis=0)) / X.std(axis=0) @ rng.normal(size=(4, n_outputs)) + 7
    return X.astype(dtype), Y[:, 0] if n_outputs == 1 else Y


# -- of the inputs ---------------------------------------------------------------------------


@pytest.mark.parametrize("scale", [True, False])
@pytest.mark.parametrize("n_outputs", [1, 2])
@pytest.mark.filterwarnings("ignore:the inputs' scales differ")
def test_a_linear_model_is_its_coefficients_of_the_inputs_as_given(scale, n_outputs):
    X, y = table(n_outputs=n_outputs)
    model = KernelRegressor("linear", scale=scale, tol=1e-8).fit(X, y)
    assert model.coef_.shape == (*y.shape[1:], 4)
    np.testing.assert_allclose(X @ model.coef_.T + model.intercept_, model.predict(X), rtol=1e-9)
    assert np.array_equal(model.coef_, model.map_coef_) != scale


def test_float32_inputs_have_coefficients_with_the_digits_of_their_means():
    X, y = table(dtype=np.float32)
    model = KernelRegressor("linear").fit(X, y)
    np.testing.assert_allclose(X @ model.coef_ + model.intercept_, model.predict(X), rtol=1e-4)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_decisions_of_a_linear_classifier_are_its_coefficients(n_classes):
    X, y = table()
    labels = np.digitize(y, np.quantile(y, np.arange(1, n_classes) / n_classes))
    model = KernelClassifier("linear", loss="logistic", fit_intercept=True).fit(X, labels)
    responses = X @ model.coef_.T + model.intercept_
    np.testing.assert_allclose(responses, model.decision_function(X), atol=1e-9)


def test_coefficients_of_sparse_inputs_are_of_the_inputs_as_given():
    X = sparse.csr_array(np.random.default_rng(0).integers(-1, 9, size=(60, 5)).clip(0) * 1.5)
    y = X.sum(axis=1) + 3
    model = KernelRegressor("linear").fit(X, y)
    np.testing.assert_allclose(X @ model.coef_ + model.intercept_, model.predict(X), rtol=1e-9)


def test_writing_into_coefficients_of_the_inputs_does_not_change_the_model():
    X, y = table()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = KernelRegressor("linear", scale=False).fit(X, y)
    before = model.predict(X)
    model.coef_[:] = 0
    np.testing.assert_array_equal(model.predict(X), before)
    with pytest.raises(AttributeError):
        model.coef_ = np.zeros(4)


def test_linear_models_of_a_path_have_coefficients_of_the_inputs():
    X, y = table()
    model = KernelRegressor("linear", alphas=[1e-3, 1.0]).fit(X, y).at_alpha(1.0)
    np.testing.assert_allclose(X @ model.coef_ + model.intercept_, model.predict(X), rtol=1e-9)


def test_generic_tools_select_inputs_by_a_linear_model():
    X, y = table()
    X[:, 1] = np.random.default_rng(1).normal(size=len(X))  # irrelevant
    model = KernelRegressor("linear")
    assert not RFE(model, n_features_to_select=3).fit(X, y).support_[1]
    assert not SelectFromModel(model, threshold=0.05).fit(X, y).get_support()[1]


# -- of the features of a map ----------------------------------------------------------------


@pytest.mark.parametrize("kind", MODELS)
def test_coefficients_of_a_map_have_a_name_of_their_own(kind):
    X, y = table()
    model = MODELS[kind]()
    assert not hasattr(model, "coef_")
    assert not hasattr(model, "intercept_")
    model.fit(X, y)
    with pytest.raises(AttributeError, match=r"^coef_ needs a linear feature_map, .* map_coef_"):
        _ = model.coef_
    assert model.map_coef_.size


def test_responses_are_features_times_coefficients():
    X, y = table()
    model = KernelRegressor(RandomFourier(n_components=16, random_state=0)).fit(X, y)
    Z = model.feature_map_.transform(model.scaler_.transform(X))
    np.testing.assert_allclose(Z @ model.map_coef_ + model.intercept_, model.predict(X))


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize("selector", [SelectFromModel, RFE])
def test_generic_tools_do_not_take_features_for_inputs(kind, selector):
    X, y = table()
    with pytest.raises((ValueError, AttributeError), match=r"coef_.*feature_importances_"):
        selector(MODELS[kind](), importance_getter="auto").fit(X, y).transform(X)


def test_copies_whose_coefficients_and_intercepts_differ_in_shape_are_refused():
    X = np.random.default_rng(0).normal(size=(50, 3))
    model = KernelRegressor("linear").fit(X, X[:, 0])
    vars(model)["map_coef_"] = model.map_coef_[None]
    with pytest.raises(ValueError, match="_intercept_ of a fitted KernelRegressor must"):
        copy.copy(model)
