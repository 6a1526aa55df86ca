"""Weights count rows: small ones, such as shares that sum to 1, are scaled to their number."""

import numpy as np
import pytest

from mercer import (
    AutoKernelRegressor,
    DoublySGDRegressor,
    KernelClassifier,
    KernelRegressor,
    LocalKernelRegressor,
    SparseKernelClassifier,
    SparseKernelRegressor,
)
from mercer._runtime.validation import counted
from mercer.distributed import Here, Shard
from mercer.distributed.fitting import fit_machine
from mercer.unsupervised import KernelKMeans, OneClassKernel

RNG = np.random.default_rng(0)
X = RNG.normal(size=(120, 2))
Y = np.sin(2 * X[:, 0]) + 0.1 * RNG.normal(size=120)
W = RNG.uniform(0.5, 1.5, 120)
REGRESSORS = [
    KernelRegressor("exact"),
    KernelRegressor("fourier", n_components=40, random_state=0),
    KernelRegressor("fourier", loss="huber", n_components=40, random_state=0),
    KernelRegressor("exact", alphas=[1e-2, 1e-4], random_state=0),
    LocalKernelRegressor(leaf_size=60, random_state=0),
    SparseKernelRegressor(n_new=16, max_rounds=2, random_state=0),
    DoublySGDRegressor(max_iter=3, block_size=16, random_state=0),
    KernelClassifier("nystroem", n_components=30, random_state=0),
    KernelClassifier("exact", class_weight={False: 1e-3, True: 2e-3}),
    SparseKernelClassifier(n_new=16, max_rounds=2, random_state=0),
]


def answers(model, weights):
    is_classifier = "Classifier" in type(model).__name__
    model.fit(X, Y > 0 if is_classifier else Y, sample_weight=weights)
    return model.decision_function(X) if is_classifier else model.predict(X)


@pytest.mark.parametrize("model", REGRESSORS, ids=lambda m: type(m).__name__)
def test_a_factor_of_small_weights_changes_no_fit(model):
    few = answers(model, W / W.sum())
    for factor in (0.5, 1e-6, 1e-300):
        np.testing.assert_allclose(answers(model, factor * W), few, atol=1e-4)


def test_equal_weights_of_any_size_below_1_are_no_weights():
    without = KernelRegressor("exact").fit(X, Y)
    shares = KernelRegressor("exact").fit(X, Y, np.full(120, 1 / 120))
    assert shares.alpha_ == pytest.approx(without.alpha_)
    for new, old in zip(shares.predict(X, True), without.predict(X, True), strict=True):
        np.testing.assert_allclose(new, old, rtol=1e-6)


def test_standard_deviations_of_shares_are_those_of_the_effective_rows():
    stds = [
        KernelRegressor("exact").fit(X, Y, factor * W).predict(X, return_std=True)[1]
        for factor in (1e-5, 0.9 * W.sum() / np.square(W).sum())
    ]
    np.testing.assert_allclose(stds[0], stds[1], rtol=1e-6)


def test_weights_of_at_least_1_stay_counts_of_rows():
    weights = np.array([1.0, 3.0, 2.0, 0.0, 1.0])
    np.testing.assert_array_equal(counted(weights), weights)
    np.testing.assert_allclose(counted(1e-310 * weights), weights * 7 / 15, rtol=1e-5)
    assert counted(None) is None


def test_a_factor_of_small_weights_changes_no_fit_over_many_machines():
    def fitted(factor):
        shards = [Shard(X[i::3], Y[i::3], factor * W[i::3]) for i in range(3)]
        return fit_machine(
            KernelRegressor("fourier", n_components=40, random_state=0), Here(shards)
        )

    local = KernelRegressor("fourier", n_components=40, random_state=0).fit(X, Y, W / W.sum())
    for factor in (1 / W.sum(), 1e-200):
        model = fitted(factor)
        assert model.alpha_ == pytest.approx(local.alpha_)
        np.testing.assert_allclose(model.predict(X), local.predict(X), atol=1e-5)


def test_a_factor_of_small_weights_changes_no_model_without_targets():
    for factor in (1e-3, 1e-9):
        one, other = (OneClassKernel(0.1, held_out=0.3, random_state=0) for _ in range(2))
        few, fewer = one.fit(X, sample_weight=0.5 * W), other.fit(X, sample_weight=factor * W)
        np.testing.assert_allclose(fewer.p_values(X), few.p_values(X))
    labels = [
        KernelKMeans(2, random_state=0).fit(X, sample_weight=factor * W).predict(X)
        for factor in (0.5, 1e-9)
    ]
    np.testing.assert_array_equal(*labels)


def test_a_factor_of_weights_changes_no_automatic_model():
    models = [AutoKernelRegressor(random_state=0).fit(X, Y, factor * W) for factor in (1e-6, 0.5)]
    one, other = (model.predict(X) for model in models)
    np.testing.assert_allclose(one, other, atol=1e-4)
