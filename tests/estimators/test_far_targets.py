"""Targets far from zero, such as seconds since 1970: constants keep their digits."""

import numpy as np
import pytest

from mercer import (
    AutoKernelRegressor,
    DoublySGDRegressor,
    KernelRegressor,
    LocalKernelRegressor,
    SparseKernelRegressor,
)
from mercer.distributed import Here, Shard
from mercer.distributed.fitting import fit_machine

FAR = 1.7e9  # seconds, where float32 has steps of 128
MODELS = [
    KernelRegressor("exact"),
    KernelRegressor("exact", loss="huber"),
    KernelRegressor("exact", alphas=[1e-2, 1e-4]),
    KernelRegressor("fourier", n_components=50, random_state=0),
    KernelRegressor("binning", n_components=50, random_state=0),
    LocalKernelRegressor(leaf_size=60, random_state=0),
    SparseKernelRegressor(n_new=16, max_rounds=2, random_state=0),
    DoublySGDRegressor(max_iter=3, block_size=16, random_state=0),
]
every_model = pytest.mark.parametrize("model", MODELS, ids=lambda m: type(m).__name__)


def rows(n=150):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 2)).astype(np.float32)
    return X, 50 * np.sin(X[:, 0].astype(np.float64)) + rng.normal(size=n)


@every_model
def test_targets_plus_a_constant_give_predictions_plus_the_constant(model):
    X, y = rows()
    for target in (y, np.column_stack([y, 2 * y])):
        near = model.fit(X, target).predict(X)
        far = model.fit(X, target + FAR).predict(X)
        assert near.dtype == far.dtype == np.float64
        np.testing.assert_allclose(far - FAR, near, atol=0.05 * y.std())


@every_model
def test_predictions_have_the_longer_type_of_rows_and_targets(model):
    X, y = rows()
    for x_type, y_type in ((np.float32,) * 2, (np.float64, np.float32), (np.float32, int)):
        predicted = model.fit(X.astype(x_type), y.astype(y_type)).predict(X.astype(x_type))
        is_short = x_type == y_type == np.float32
        assert predicted.dtype == (np.float32 if is_short else np.float64)


def test_a_warm_start_of_far_targets_goes_on_from_the_last_coefficients():
    X, y = rows()
    model = KernelRegressor("fourier", n_components=50, random_state=0, solver="newton-cg")
    model.set_params(loss="huber", warm_start=True).fit(X, y + FAR)
    assert model.fit(X, y + FAR).n_iter_ == 1


def test_far_targets_are_learned_over_many_machines():
    X, y = rows()
    engine = Here([Shard(X[i::3], y[i::3] + FAR) for i in range(3)])
    model = fit_machine(KernelRegressor("fourier", n_components=50, random_state=0), engine)
    predicted = model.predict(X)
    assert predicted.dtype == np.float64
    assert np.square(predicted - FAR - y).mean() < 0.1 * y.var()


def test_intervals_of_far_targets_hold_their_coverage():
    X, y = rows(200)
    model = AutoKernelRegressor(random_state=0).fit(X, y + FAR)
    low, high = model.predict_interval(X, 0.9).T
    assert np.mean((low <= y + FAR) & (y + FAR <= high)) >= 0.85
    assert np.median(high - low) < y.std()
    assert len(np.unique(model.predict(X, [0.5]))) > 150
