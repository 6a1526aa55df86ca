"""Every public estimator and map of mercer, small enough for a case, with values to draw from."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
from hypothesis import strategies as st
from sklearn.base import BaseEstimator, is_classifier, is_regressor

import mercer
from mercer import kernels, losses, maps, penalties, solvers

# What cannot do without arguments; whatever is new and can is found by itself.
_NEEDED: dict[str, dict[str, Any]] = {
    "Halfspaces": {"directions": np.eye(3), "thresholds": np.zeros(3)},
    "Members": {"feature_map": maps.RandomFourier(8, random_state=0), "places": [1, 3]},
}
_QUICK = {"time_budget": 2.0, "max_rounds": 3, "random_state": 0}
_MAPS = ("binning", "fourier", "fastfood", "nystroem", "exact", "linear", "perceptron")
_KERNELS = ("gaussian", "laplacian", "exponential", "cauchy", "matern", "rational_quadratic")

_numbers = st.one_of(
    st.sampled_from([1e-6, 0.01, 0.3, 1.0, 10.0]), st.integers(-12, 6).map(lambda e: 10.0**e)
)
_gammas = st.one_of(st.sampled_from(["scale", "median", 0.5]), _numbers)
_MAP_OBJECTS = (
    lambda g: maps.RandomBinning(gamma=g, n_components=16),
    lambda g: maps.RandomBinning(gamma=g, n_components=16, bins=8),
    lambda g: maps.RandomFourier(gamma=g, n_components=16, form="pair"),
    lambda g: maps.RandomFourier("laplacian", gamma=g, n_components=16, sampling="qmc"),
    lambda g: maps.Fastfood(gamma=g, n_components=16),
    lambda g: maps.Nystroem(gamma=g, n_components=6, whiten=False),
    lambda g: maps.SubspaceEmbedding(gamma=g, n_components=6),
    lambda g: maps.RandomPerceptron(n_components=8),
)
_map_objects = st.builds(lambda make, gamma: make(gamma), st.sampled_from(_MAP_OBJECTS), _gammas)
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "feature_map": st.one_of(st.sampled_from([*_MAPS, "tefm"]), _map_objects),
    "base": st.sampled_from(["fourier", "fastfood", "binning"]),
    "kernel": st.sampled_from([None, *_KERNELS, kernels.Matern(0.5, nu=2.5), kernels.Linear()]),
    "gamma": _gammas,
    "n_components": st.integers(1, 40),
    "leaf_size": st.sampled_from([2, 3, 8, 1000]),
    "n_trees": st.integers(1, 3),
    "overlap": st.sampled_from([0.0, 0.05, 0.25]),
    "n_base": st.sampled_from([None, 16, 64]),
    "n_new": st.integers(1, 16),
    "bins": st.sampled_from(["exact", 1, 2, 16, 300]),
    "loss": st.sampled_from(sorted(losses.names())),
    "penalty": st.sampled_from(sorted(penalties.names())),
    "alpha": _numbers,
    "alphas": st.sampled_from([None, [1e-4, 1e-2], [1.0]]),
    "gamma_path": st.sampled_from([None, [0.1, 1.0]]),
    "l1_ratio": st.sampled_from([None, 0.0, 0.5, 1.0]),
    "C": _numbers,
    "solver": st.sampled_from(["auto", *solvers.SOLVERS, "pairs"]),
    "preconditioned": st.booleans(),
    "class_weight": st.sampled_from([None, "balanced"]),
    "fit_intercept": st.booleans(),
    "scale": st.booleans(),
    "whiten": st.booleans(),
    "warm_start": st.booleans(),
    "landmarks": st.sampled_from(["uniform", "kmeans", "leverage", "rpcholesky"]),
    "form": st.sampled_from(["phase", "pair"]),
    "sampling": st.sampled_from(["iid", "orthogonal", "qmc"]),
    "sketch": st.sampled_from(["gaussian", "srht"]),
    "selection": st.sampled_from(["auto", "holdout", "loo"]),
    "tol": st.sampled_from([1e-2, 1e-6, 0.0]),
    "max_iter": st.sampled_from([1, 3, 100]),
    "max_rounds": st.integers(1, 4),
    "batch_size": st.sampled_from([None, 1, 8]),
    "block_size": st.sampled_from([None, 1, 8]),
    "n_jobs": st.sampled_from([1, 2, 3]),
    "numbers": st.sampled_from(["robust", "standard", "quantile"]),
    "max_integers": st.sampled_from([0, 10]),
    "random_state": st.integers(0, 2**32 - 1),
}


def names() -> list[str]:
    """Public classes that fit, found in the package."""
    classes = [name for name in mercer.__all__ if inspect.isclass(getattr(mercer, name))]
    found = [name for name in classes if issubclass(getattr(mercer, name), BaseEstimator)]
    return found + [name for name in maps.__all__ if _is_map(getattr(maps, name))]


def class_of(name: str) -> Any:
    """The class of a name."""
    return getattr(maps if name in maps.__all__ else mercer, name)


def settings_of(name: str) -> dict[str, Any]:
    """Settings that make it possible and quick."""
    known = inspect.signature(class_of(name)).parameters
    quick = {key: value for key, value in _QUICK.items() if key in known}
    if name not in _NEEDED and "n_components" in known:
        quick["n_components"] = 16
        if known["n_components"].default is None:  # a machine, some of whose maps have none
            del quick["n_components"]
    return {**quick, **_NEEDED.get(name, {})}


def draw_settings(draw: Any, name: str, most: int) -> dict[str, Any]:
    """The quick settings with up to ``most`` others drawn."""
    chosen = settings_of(name)
    known = [key for key in inspect.signature(class_of(name)).parameters if key in VALUES]
    for key in draw(st.lists(st.sampled_from(known), max_size=most, unique=True)) if known else []:
        chosen[key] = draw(VALUES[key])
    return chosen


def made(name: str, settings: dict[str, Any]) -> Any:
    """The estimator or map."""
    return class_of(name)(**settings)


def kind(machine: Any) -> str:
    """What it does with targets: classification, regression, or nothing."""
    if is_classifier(machine):
        return "classification"
    return "regression" if is_regressor(machine) else "none"


def answers(machine: Any) -> list[str]:
    """Its methods that take rows alone and answer with numbers or labels."""
    methods = ("predict", "decision_function", "predict_proba", "transform", "predict_interval")
    return [method for method in methods if hasattr(machine, method)]


def _is_map(value: Any) -> bool:
    return (
        inspect.isclass(value)
        and issubclass(value, maps.FeatureMap)
        and value is not maps.FeatureMap
    )
