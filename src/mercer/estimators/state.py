"""Checks of fitted models: scaler, map, coefficients and classes fit each other."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.preprocessing import MaxAbsScaler, StandardScaler

from mercer._runtime.state import State, is_array, is_finite
from mercer.kernels.precomputed import Precomputed
from mercer.maps import FeatureMap

__all__ = ["check_classes", "check_coefficients", "check_map", "check_path", "check_scaler"]


def check_map(model: Any) -> None:
    """Refuse a map that is not as its fit left it, or takes other rows than model and scaler."""
    state = State(model)
    map_ = state.instance("feature_map_", FeatureMap)
    map_._check_state()
    if map_.takes_text:
        state.instance("scaler_", type(None))
        return
    d = map_.n_features_in_
    if isinstance(vars(map_).get("kernel_"), Precomputed):
        d -= 1  # the last column is the number of the row
        places = map_.landmarks_[:, -1]
        fit = bool(((places >= 0) & (places < d) & (places == np.round(places))).all())
        state.check("feature_map_", f"have landmarks with numbers from 0 to {d - 1}", fit)
    state.check("n_features_in_", f"be {d}", state.integer("n_features_in_") == d)
    check_scaler(model)


def check_scaler(model: Any) -> None:
    """Refuse a scaler that is not as its fit left it."""
    kinds = (StandardScaler, MaxAbsScaler, type(None))
    scaler, d = State(model).instance("scaler_", kinds), model.n_features_in_
    if scaler is None:
        return
    state = State(scaler)
    state.check("n_features_in_", f"be {d}", state.integer("n_features_in_") == d)
    # That of sparse rows has their dtype.
    state.check("scale_", "be positive", (state.array("scale_", (d,), "fd") > 0).all())
    is_standard = isinstance(scaler, StandardScaler)
    if is_standard:
        state.array("mean_", (d,), "d")
    # Without a copy it would write on the rows that it is given.
    for name in ("copy", "with_mean", "with_std") if is_standard else ("copy",):
        state.check(name, "be True", state.flag(name))


def check_coefficients(
    model: Any, name: str, n: int, dtypes: str = "fd", intercept: str = "intercept_"
) -> tuple[int, ...]:
    """Refuse coefficients, n of each output, or intercepts that do not fit; the outputs' shape."""
    state = State(model)
    outputs: tuple[int | None, ...] = () if np.ndim(state.value(name)) == 1 else (None,)
    shape = state.array(name, (*outputs, n), dtypes).shape[:-1]
    state.numbers(intercept, shape)
    return shape


def check_path(model: Any) -> None:
    """Refuse a path of alphas whose parts do not fit each other."""
    state = State(model)
    path = state.instance("path_", dict)
    sizes = dict.fromkeys(("alpha", "n_iter", "converged", "optimality"), ())
    sizes |= {"coef": model.map_coef_.shape, "intercept": model.map_coef_.shape[:-1]}
    alphas = path.get("alpha")
    p = len(alphas) if is_array(alphas, (None,)) else 0
    fit = all(is_array(path.get(name), (p, *size), "fdl?") for name, size in sizes.items())
    weights = [path.get(name) for name in ("coef", "intercept")]
    fit = fit and all(each.dtype.kind == "f" and is_finite(each) for each in weights)
    state.check("path_", "hold arrays with an entry for every alpha", p and fit)


def check_classes(model: Any, outputs: tuple[int, ...]) -> None:
    """Refuse ``classes_`` that are not one for every output, or two for a single one."""
    state, n_classes = State(model), outputs[0] if outputs else 2
    classes = state.value("classes_")
    fit = isinstance(classes, np.ndarray) and classes.shape == (n_classes,) and n_classes >= 2
    state.check("classes_", f"be an array of {n_classes} labels", fit and is_finite(classes))
