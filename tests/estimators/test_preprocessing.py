"""Rows and the parts between these and a design: one way for all machines."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.preprocessing import MaxAbsScaler, StandardScaler

import mercer
from mercer._runtime import rows as _rows
from mercer._runtime.rows import PreparedRows
from mercer.estimators.preprocessing import Preprocessing, TrainingSample, fit_scaler
from mercer.maps import RandomFourier

MODELS = {
    "kernel": mercer.KernelRegressor("fourier", n_components=16, random_state=0),
    "sparse": mercer.SparseKernelRegressor(n_new=16, max_rounds=2, random_state=0),
    "steps": mercer.DoublySGDRegressor(max_iter=3, block_size=8, random_state=0),
    "dual": mercer.DualKernelSVC(n_jobs=1),
}


def data(kind):
    rng = np.random.default_rng(0)
    X, weights = rng.normal(size=(60, 3)), rng.integers(0, 3, 60).astype(float)
    return (sparse.csr_array(X) if kind == "csr" else X), X[:, 0] > 0, weights


@pytest.mark.rounding
@pytest.mark.parametrize("kind", ["array", "csr"])
@pytest.mark.parametrize("scale", [True, False])
@pytest.mark.parametrize("large", [True, False])
@pytest.mark.parametrize("name", MODELS)
def test_rows_without_weight_are_as_if_not_there(name, large, scale, kind, monkeypatch):
    X, y, weights = data(kind)
    rows = np.flatnonzero(weights)
    model = MODELS[name].set_params(scale=scale)
    expected = model.fit(X[rows], y[rows], weights[rows]).predict(X)
    if large:  # then rows are read and scaled a few at a time, or together at the end
        monkeypatch.setattr(_rows, "_LARGE", 0)
    np.testing.assert_allclose(model.fit(X, y, weights).predict(X), expected, rtol=1e-9)


@pytest.mark.rounding
def test_steps_go_on_with_large_rows_that_have_a_weight(monkeypatch):
    X, y, weights = data("array")
    model, rows = MODELS["steps"], np.flatnonzero(weights)
    expected = model.fit(X, y).partial_fit(X[rows], y[rows], weights[rows]).predict(X)
    monkeypatch.setattr(_rows, "_LARGE", 0)
    predicted = model.fit(X, y).partial_fit(X, y, weights).predict(X)
    np.testing.assert_allclose(predicted, expected, rtol=1e-9)


@pytest.mark.rounding
def test_prepared_rows_are_scaled_as_given_ones():
    X = data("array")[0]
    prepared, scaled = Preprocessing.fitted(
        RandomFourier(n_components=4), TrainingSample(X, X[:, 0]), True
    )
    np.testing.assert_allclose(scaled, StandardScaler().fit_transform(X), rtol=1e-12, atol=1e-14)
    np.testing.assert_array_equal(prepared.scaled(PreparedRows(X)), scaled)
    np.testing.assert_array_equal(prepared.scaled_rows(PreparedRows(X))[3:5], scaled[3:5])
    assert prepared.feature_map.n_features_out_ == 4
    assert Preprocessing(None).scaled(X) is X


def test_rows_take_their_targets_and_weights_along():
    X, y, weights = data("array")
    some = TrainingSample(X, y, weights).taken(weights > 1)
    np.testing.assert_array_equal(some.X, X[weights > 1])
    np.testing.assert_array_equal(some.target, y[weights > 1])
    assert (some.weights == 2).all()
    assert some.weighted() is some
    assert len(TrainingSample(X, y, weights).weighted()) == np.count_nonzero(weights)
    assert TrainingSample(X, y).taken([0, 1]).weights is None


def test_scalers_are_those_of_scikit_learn():
    X, _, weights = data("csr")
    assert isinstance(fit_scaler(X, None, True), MaxAbsScaler)
    assert fit_scaler(X, None, False) is None
    dense = fit_scaler(X.toarray(), weights, True)
    np.testing.assert_allclose(
        dense.mean_, StandardScaler().fit(X.toarray(), sample_weight=weights).mean_
    )
    with pytest.warns(UserWarning, match="the inputs' scales differ by a factor of"):
        fit_scaler(X.toarray() * [1, 1e4, 1], weights, False)
