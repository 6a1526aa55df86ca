"""A row is predicted as it is among many rows, after quick checks, from current attributes."""

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
import sklearn
from scipy import sparse
from sklearn.utils.fixes import parse_version
from sklearn.utils.validation import validate_data

import mercer
from mercer import (
    KernelClassifier,
    KernelRegressor,
    LocalKernelRegressor,
    SparseKernelRegressor,
    maps,
)
from mercer._runtime.validation import is_plain
from mercer.designs.local import FEW_ROWS
from mercer.estimators.preprocessing import Preprocessing

MODELS = {
    "binned": lambda: KernelRegressor(n_components=32, random_state=0),
    "hashed": lambda: KernelRegressor(maps.RandomBinning(n_components=8, bins=64, random_state=0)),
    "fourier": lambda: KernelRegressor("fourier", n_components=32, random_state=0),
    "classes": lambda: KernelClassifier(n_components=32, random_state=0),
    "exact": lambda: KernelRegressor("exact"),
    "compact": lambda: KernelRegressor("tefm", n_components=8, random_state=0),
    "local": lambda: LocalKernelRegressor(leaf_size=60, n_trees=2, random_state=0),
    "sparse": lambda: SparseKernelRegressor(max_rounds=2, random_state=0),
    "few bins": lambda: SparseKernelRegressor("binning", max_rounds=2, random_state=0),
}


def data(dtype=np.float64, n=200):
    X = np.random.default_rng(0).normal(size=(n, 3)).astype(dtype)
    return X, X[:, 0] + np.sin(2 * X[:, 1])


def fitted(name, dtype=np.float64):
    X, y = data(dtype)
    return MODELS[name]().fit(X, np.digitize(y, [-1, 1]) if name == "classes" else y)


def answers(model, X):
    return model.decision_function(X) if hasattr(model, "classes_") else model.predict(X)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", MODELS)
def test_rows_one_by_one_are_predicted_as_all_together(name, dtype):
    model, (X, _) = fitted(name, dtype), data(dtype)
    together = answers(model, X)
    one_by_one = np.concatenate([answers(model, X[i : i + 1]) for i in range(40)])
    assert one_by_one.dtype == together.dtype == dtype
    tol = 1e-12 if dtype == np.float64 else 2e-5
    np.testing.assert_allclose(one_by_one, together[:40], rtol=tol, atol=tol)


@pytest.mark.parametrize("name", MODELS)
def test_predictions_are_the_design_times_the_coefficients(name):
    model, (X, _) = fitted(name), data()
    if name == "local":
        X = X[: FEW_ROWS + 4]
    design = model.feature_map_.design(model.scaler_.transform(X))
    expected = design.toarray() @ model.map_coef_.T + model._intercept_
    for n in (1, FEW_ROWS, len(X)):
        np.testing.assert_allclose(answers(model, X[:n]), expected[:n], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", MODELS)
def test_rows_in_any_form_are_predicted_alike(name):
    model, (X, _) = fitted(name), data()
    few = X[:7]
    expected = answers(model, few)
    for form in (few.tolist(), np.asfortranarray(few), np.repeat(few, 2, axis=0)[::2]):
        np.testing.assert_allclose(answers(model, form), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("name", MODELS)
def test_rows_that_are_no_numbers_are_refused(name, bad):
    model, (X, _) = fitted(name), data()
    X = X[:1].copy()
    X[0, 1] = bad
    with pytest.raises(ValueError, match="X contains"):
        model.predict(X)
    with pytest.raises(ValueError, match="features"):
        model.predict(data()[0][:1, :2])
    with pytest.raises(ValueError, match="minimum of 1 is required"):
        model.predict(data()[0][:0])


# --- what is looked at quickly -------------------------------------------------------------------


class Two:
    """Stands for an estimator of two inputs."""

    n_features_in_ = 2


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_plain_rows_are_those_that_validation_returns_as_they_are(dtype):
    X = np.ones((3, 2), dtype)
    model = KernelRegressor(n_components=4).fit(data()[0][:, :2], data()[1])
    assert is_plain(X, Two())
    assert validate_data(model, X, reset=False, order="C") is X


@pytest.mark.parametrize(
    "X",
    [
        [[1.0, 2.0]],
        np.ones((3, 3)),
        np.ones(2),
        np.ones((0, 2)),
        np.ones((3, 2), int),
        np.ones((3, 2), np.float16),
        np.ones((3, 2), ">f8"),
        np.ones((3, 2), order="F"),
        np.ones((3, 4))[:, ::2],
        np.array([[1.0, np.nan]]),
        np.array([[1e308, -1e308]]),  # finite, but for validation itself to say
        np.ma.masked_array(np.ones((3, 2))),
        pd.DataFrame(np.ones((3, 2))),
        sparse.csr_array(np.ones((3, 2))),
        np.ones((2**16, 2)),
        None,
    ],
)
def test_everything_else_goes_to_validation(X):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert not is_plain(X, Two())


def test_names_of_columns_are_missed_as_before():
    X, y = data()
    model = KernelRegressor(n_components=4, random_state=0).fit(pd.DataFrame(X).add_prefix("x"), y)
    with pytest.warns(UserWarning, match="does not have valid feature names"):
        model.predict(X[:1])


@pytest.mark.skipif(
    parse_version(sklearn.__version__) < parse_version("1.8"),
    reason="scalers of earlier versions round float32 otherwise",
)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rows_are_scaled_to_the_bits_of_the_scaler(dtype):
    model, (X, _) = fitted("binned", dtype), data(dtype)
    scaled = Preprocessing(model.scaler_).scaled(X)
    np.testing.assert_array_equal(scaled, model.scaler_.transform(X))
    assert scaled.dtype == dtype
    assert not np.shares_memory(scaled, X)


def test_memory_is_asked_for_where_little_of_it_may_be_taken():
    model, (X, _) = fitted("hashed"), data()
    with (
        mercer.config_context(max_memory=5),
        pytest.raises(MemoryError, match=r"1 rows .* needs .* are available"),
    ):
        model.predict(X[:1])


def test_free_memory_is_not_looked_up_for_a_row(monkeypatch):
    model, (X, _) = fitted("hashed"), data()
    expected = model.predict(X[:1])
    monkeypatch.setattr("mercer._runtime.arrays.available_memory", lambda: 0)
    with pytest.raises(MemoryError):
        model.predict(X[:1])
    monkeypatch.setattr("mercer._runtime.arrays._LITTLE", 2**20)
    np.testing.assert_array_equal(model.predict(X[:1]), expected)


# --- predictions follow the fitted attributes ----------------------------------------------------


@pytest.mark.parametrize("name", ["binned", "fourier", "exact", "local"])
def test_predictions_follow_coefficients_that_were_replaced_or_written_into(name):
    model, (X, _) = fitted(name), data()
    before = model.predict(X[:5]) - model.intercept_
    model.map_coef_ = 2.0 * model.map_coef_
    np.testing.assert_allclose(model.predict(X[:5]) - model.intercept_, 2 * before)
    model.map_coef_ *= 2.0
    for _ in range(2):
        np.testing.assert_allclose(model.predict(X[:5]) - model.intercept_, 4 * before)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_mean_landmark_is_computed_at_the_first_prediction_alone(monkeypatch, dtype):
    model, X = fitted("exact", dtype), data(dtype)[0]
    expected = model.predict(X[:1])
    monkeypatch.setattr("mercer.designs.kernel.centre_of_rows", None)
    np.testing.assert_array_equal(model.predict(X[:1]), expected)


def test_predictions_follow_landmarks_that_were_replaced_or_written_into():
    model, (X, _) = fitted("exact"), data()
    model.predict(X[:1])
    map_ = model.feature_map_
    map_.landmarks_ = 5.0 + 2.0 * map_.landmarks_
    for _ in range(2):
        again = pickle.loads(pickle.dumps(model))  # a copy has cached nothing
        np.testing.assert_array_equal(model.predict(X[:3]), again.predict(X[:3]))
        map_.landmarks_ = map_.landmarks_[:, ::-1].copy()
    map_.landmarks_ -= 3.0
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_allclose(model.predict(X[:3]), again.predict(X[:3]), rtol=1e-12)


def test_rows_that_are_large_when_scaled_are_predicted():
    X, y = data()
    model = KernelRegressor("fourier", n_components=8, random_state=0).fit(1e-100 * X, y)
    large = np.full((1, 3), 1e150)
    assert is_plain(large, model)
    assert np.isfinite(model.predict(large)).all()


def test_few_rows_that_are_far_from_all_others_raise_a_warning():
    model, (X, _) = fitted("binned"), data()
    with pytest.warns(UserWarning, match="of the bins of these rows were not met at fit"):
        model.predict(100.0 + X[:2])


def test_a_model_of_texts_refuses_numbers_in_a_sentence():
    model = KernelRegressor("exact", kernel="ngram").fit(["ab", "cd"] * 9, np.arange(18.0))
    with pytest.raises((TypeError, ValueError), match=r"^X must"):
        model.predict(np.ones((2, 3)))
