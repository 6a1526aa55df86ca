"""The penalty ``RKHSNorm`` of a kernel model: the norm of its own map's landmarks and kernel."""

import numpy as np
import pytest

from mercer import KernelClassifier, KernelRegressor
from mercer.designs import KernelColumns
from mercer.distributed import Here, Shard
from mercer.distributed.fitting import fit_machine
from mercer.maps import Nystroem
from mercer.penalties import RKHSNorm

RNG = np.random.default_rng(0)
X, NEW = RNG.normal(size=(80, 3)), RNG.normal(size=(20, 3))
Y = np.sin(X[:, 0]) + 0.1 * RNG.normal(size=80)
SETTINGS = {"scale": False, "tol": 1e-9, "random_state": 0}


def by_hand(machine, feature_map, penalty, y, **settings):
    """The model of landmarks, and of their kernel matrix, which are given."""
    kernel = settings.pop("kernel", None) or "gaussian"
    drawn = Nystroem(kernel, settings["gamma"], 15, random_state=0).fit(X)
    landmarks = X if feature_map == "exact" else drawn.landmarks_
    map_ = Nystroem(drawn.kernel_, landmarks=landmarks, whiten=False)
    matrix = KernelColumns(landmarks, drawn.kernel_)
    settings |= {"penalty": RKHSNorm(penalty.alpha, matrix, penalty.jitter), "gamma": "scale"}
    return machine(map_, **settings, **SETTINGS).fit(X, y)


@pytest.mark.parametrize("feature_map", ["nystroem", "exact"])
@pytest.mark.parametrize("kernel", ["gaussian", "laplacian"])
@pytest.mark.parametrize("jitter", [0.0, 0.1])
def test_the_norm_follows_gamma_and_kernel_as_landmarks_given_by_hand(feature_map, kernel, jitter):
    penalty, predictions = RKHSNorm(1e-2, jitter=jitter), []
    for gamma in (0.1, 1.0):
        settings = {"kernel": kernel, "gamma": gamma}
        n_components = {"n_components": 15} if feature_map == "nystroem" else {}
        model = KernelRegressor(
            feature_map, penalty=penalty, **settings, **n_components, **SETTINGS
        ).fit(X, Y)
        expected = by_hand(KernelRegressor, feature_map, penalty, Y, **settings).predict(NEW)
        np.testing.assert_allclose(model.predict(NEW), expected, atol=1e-6)
        assert model.alpha_ == 1e-2
        predictions.append(expected)
    assert abs(predictions[0] - predictions[1]).max() > 0.01


@pytest.mark.parametrize("loss", ["logistic", "squared_hinge"])
@pytest.mark.parametrize("feature_map", ["nystroem", "exact"])
def test_the_norm_follows_gamma_for_losses_that_are_not_quadratic(loss, feature_map):
    penalty, settings = RKHSNorm(1e-2, jitter=0.1), {"gamma": 0.5, "loss": loss}
    n_components = {"n_components": 15} if feature_map == "nystroem" else {}
    model = KernelClassifier(
        feature_map, kernel="gaussian", penalty=penalty, **settings, **n_components, **SETTINGS
    ).fit(X, Y > 0)
    expected = by_hand(KernelClassifier, feature_map, penalty, Y > 0, **settings)
    responses = model.decision_function(NEW)
    np.testing.assert_allclose(responses, expected.decision_function(NEW), atol=1e-4)


@pytest.mark.parametrize("feature_map", ["nystroem", "exact", "fourier", "binning"])
def test_the_norm_without_jitter_is_the_penalty_l2(feature_map):
    settings = {"gamma": 0.5, "n_components": None if feature_map == "exact" else 20} | SETTINGS
    named = KernelRegressor(feature_map, alpha=1e-2, **settings).fit(X, Y)
    model = KernelRegressor(feature_map, penalty=RKHSNorm(1e-2), **settings).fit(X, Y)
    np.testing.assert_allclose(model.predict(X), named.predict(X), atol=1e-9)


def test_a_path_of_gammas_takes_the_norm_at_each_gamma():
    penalty = RKHSNorm(1e-2, jitter=0.1)
    settings = {"kernel": "gaussian", "penalty": penalty, "n_components": 15} | SETTINGS
    chosen = KernelRegressor("nystroem", gamma_path=[0.01, 0.3], **settings).fit(X, Y)
    gamma = chosen.feature_map_.kernel_.gamma
    expected = by_hand(KernelRegressor, "nystroem", penalty, Y, gamma=gamma)
    np.testing.assert_allclose(chosen.predict(NEW), expected.predict(NEW), atol=1e-6)


@pytest.mark.parametrize("jitter", [0.0, 0.1])
def test_the_norm_over_many_machines_is_that_of_one(jitter):
    landmarks = X[:15]
    map_ = Nystroem(gamma=0.5, landmarks=landmarks, whiten=False)
    model = KernelRegressor(map_, penalty=RKHSNorm(1e-2, jitter=jitter), **SETTINGS)
    expected = model.fit(X, Y).predict(NEW)
    engine = Here([Shard(x, y) for x, y in zip(np.split(X, 2), np.split(Y, 2), strict=True)])
    np.testing.assert_allclose(fit_machine(model, engine).predict(NEW), expected, atol=1e-5)


def test_jitter_is_refused_for_features_without_landmarks():
    model = KernelRegressor("fourier", penalty=RKHSNorm(1e-2, jitter=0.1))
    with pytest.raises(ValueError, match=r"penalty must have jitter=0 .*; got RKHSNorm.*Four"):
        model.fit(X, Y)
