"""Support vector machines on features: the hinge's objective is that of scikit-learn's machines."""

import numpy as np
import pytest
from sklearn.svm import SVC, LinearSVC

from mercer import (
    DoublySGDClassifier,
    KernelClassifier,
    LocalKernelClassifier,
    SparseKernelClassifier,
    maps,
    persistence,
)
from mercer.designs import Dense
from mercer.distributed import Here, Shard
from mercer.distributed.fitting import fit_machine
from mercer.losses import Hinge
from mercer.penalties import L1, L2
from mercer.problem import Problem
from mercer.solvers import AsyncSVRG, Smoothing

RNG = np.random.default_rng(0)
X = RNG.normal(size=(120, 3))
Y = np.where(np.sin(2 * X[:, 0]) + X[:, 1] + 0.4 * RNG.normal(size=120) > 0, 1.0, -1.0)
ALPHA, N = 1e-2, 120


def mean_hinge(responses, weights=None):
    return np.average(np.maximum(0, 1 - Y * responses), weights=weights)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("feature_map", ["linear", "fourier", "binning", "nystroem", "exact"])
def test_the_objective_is_that_of_libsvm_on_the_gram_matrix_within_tol(feature_map, weighted):
    weights = RNG.uniform(0.2, 2, size=N) if weighted else np.ones(N)
    model = KernelClassifier(feature_map, loss="hinge", alpha=ALPHA, tol=1e-4, random_state=0)
    model.set_params(scale=False).fit(X, Y, weights)
    map_ = model.feature_map_
    K = map_.kernel_(X) if feature_map == "exact" else map_.transform(X) @ map_.transform(X).T
    K = np.asarray(K.todense()) if hasattr(K, "todense") else K
    twin = SVC(kernel="precomputed", C=1 / (weights.sum() * ALPHA), tol=1e-8).fit(K, Y, weights)
    a, few = twin.dual_coef_[0], twin.support_
    least = mean_hinge(twin.decision_function(K), weights) + ALPHA / 2 * (
        a @ K[np.ix_(few, few)] @ a
    )
    w = model.map_coef_
    norm = w @ K @ w if feature_map == "exact" and not map_.whiten else w @ w
    ours = mean_hinge(model.decision_function(X), weights) + ALPHA / 2 * norm
    constant = 1 - abs(np.average(Y, weights=weights))
    assert model.converged_
    assert model.solver_ == "smoothing"
    assert -1e-6 <= ours - least <= 1e-4 * constant


def test_linear_machines_without_intercept_are_those_of_liblinear():
    settings = {"scale": False, "fit_intercept": False}
    model = KernelClassifier("linear", loss="hinge", alpha=ALPHA, tol=1e-6, **settings).fit(X, Y)
    twin = LinearSVC(
        loss="hinge", C=1 / (N * ALPHA), fit_intercept=False, tol=1e-8, max_iter=10**6
    ).fit(X, Y)
    np.testing.assert_allclose(model.coef_, twin.coef_[0], atol=1e-3)


@pytest.mark.parametrize("penalty", [L2(0.05), L1(0.02)], ids=repr)
@pytest.mark.parametrize("outputs", [None, 2])
def test_the_gap_is_below_tol_and_bounds_what_a_sharper_solution_gains(penalty, outputs):
    Y_ = Y if outputs is None else np.column_stack([Y, -np.sign(X[:, 2])])
    problem = Problem(Dense(X), Y_, Hinge(), penalty)
    constant = np.max(problem.value(problem.initial()))
    rough, sharp = (Smoothing(tol=tol).solve(problem) for tol in (1e-2, 1e-5))
    assert rough.criterion == sharp.criterion == "duality gap"
    assert rough.optimality <= 1e-2
    assert sharp.optimality <= 1e-5
    gain = problem.value(rough.coef) - problem.value(sharp.coef)
    assert gain <= 1e-2 * constant * (outputs or 1)


@pytest.mark.parametrize("feature_map", ["binning", "fourier"])
def test_balanced_classes_and_weighted_ones_reach_the_gap(feature_map):
    weights = np.where(Y > 0, 5.0, 1.0)
    settings = {"loss": "hinge", "n_components": 16, "random_state": 0, "tol": 1e-3}
    KernelClassifier(feature_map, class_weight="balanced", **settings).fit(X, Y)
    assert KernelClassifier(feature_map, **settings).fit(X, Y, weights).optimality_ <= 1e-3


def test_all_rows_of_a_class_on_the_right_side_need_no_weights():
    one = Problem(Dense(X), np.ones(N), Hinge(), L2(0.1))
    result = Smoothing().solve(one)
    assert result.converged
    np.testing.assert_allclose(result.coef, [0, 0, 0, 1])


def test_one_leaf_is_the_exact_machine():
    settings = {"loss": "hinge", "gamma": 0.5, "alpha": ALPHA, "tol": 1e-5}
    exact = KernelClassifier("exact", kernel="laplacian", **settings).fit(X, Y)
    local = LocalKernelClassifier("laplacian", leaf_size=500, n_trees=1, **settings).fit(X, Y)
    responses = [each.decision_function(X) for each in (exact, local)]
    np.testing.assert_allclose(responses[0], responses[1], atol=2e-2)


def test_many_machines_fit_the_model_of_one():
    model = KernelClassifier("fourier", loss="hinge", alpha=ALPHA, tol=1e-5, random_state=0)
    expected = model.fit(X, Y).decision_function(X)
    engine = Here([Shard(x, y) for x, y in zip(np.split(X, 2), np.split(Y, 2), strict=True)])
    np.testing.assert_allclose(fit_machine(model, engine).decision_function(X), expected, atol=1e-2)


def test_classes_probabilities_paths_and_files_work(tmp_path):
    labels = np.array(["a", "b", "c"])[np.digitize(X[:, 0], [-0.5, 0.5])]
    settings = {"loss": "hinge", "alphas": [1e-3, 1e-2], "random_state": 0}
    model = KernelClassifier("fourier", **settings).fit(X, labels)
    assert model.score(X, labels) > 0.9
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1)
    persistence.save(model, tmp_path / "model.skops")
    again = persistence.load(tmp_path / "model.skops")
    np.testing.assert_array_equal(again.decision_function(X), model.decision_function(X))


def test_models_of_steps_of_a_length_refuse_the_kink():
    model = DoublySGDClassifier(loss="hinge", max_iter=1)
    with pytest.raises(ValueError, match=r"loss must be one of bounded curvature.*'hinge'"):
        model.fit(X, Y)
    model = KernelClassifier("fourier", loss=Hinge().smoothed(0.5), solver=AsyncSVRG())
    with pytest.raises(ValueError, match=r"AsyncSVRG needs one of the losses"):
        model.set_params(penalty="l1").fit(X, Y)


def test_a_sparse_model_refuses_the_kink():
    with pytest.raises(ValueError, match=r"'hinge'"):
        SparseKernelClassifier(maps.RandomFourier(n_components=50), loss="hinge").fit(X, Y)
