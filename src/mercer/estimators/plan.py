"""Arrangements of a fit that its caller makes, beside the parameters of the estimator."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

__all__ = ["FitPlan", "HeldOut", "fit_planned"]

Model = TypeVar("Model")


@dataclass
class HeldOut:
    """Rows that a first solution leaves out, and its responses to them."""

    rows: NDArray[np.int64]  # (h,)
    # tolerance of the solution of all rows, from the responses (h, k)
    tol: Callable[[NDArray[np.float64]], float]
    # (h, k) of the first solution
    responses: NDArray[np.float64] | None = field(init=False, default=None)
    coef: NDArray | None = field(init=False, default=None)  # of the first solution


@dataclass(frozen=True)
class FitPlan:
    """Arrangements of one fit; by default as ``fit`` makes them."""

    # Fit probabilities by another fit to half of the rows; False: the caller calibrates responses.
    calibrates: bool = True
    # Conjugate gradients solve without these rows first.
    first_without: HeldOut | None = None
    start: NDArray | None = None  # coefficients to begin with; a solution is kept


def fit_planned(
    model: Model,
    X: Any,
    y: NDArray,
    weights: NDArray | None,
    plan: FitPlan,
    offset: NDArray | None = None,
) -> Model:
    """Fit an estimator to rows by a plan, which concerns kernel machines alone."""
    estimator: Any = model
    if hasattr(estimator, "_fit_planned"):
        estimator._fit_planned(X, y, weights, plan, offset)
    else:
        beside = {"sample_weight": weights, "offset": offset}
        estimator.fit(X, y, **{k: v for k, v in beside.items() if v is not None})
    return model
