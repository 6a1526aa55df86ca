"""The best intercept, and the best response where all rows share one."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from mercer.losses import Loss

__all__ = ["best_constant", "best_intercept"]

_STEPS = 100
_BALANCED = 1e-13  # mean derivative, relative to the mean of absolute ones, that counts as zero


def best_intercept(
    loss: Loss,
    y: NDArray,
    linear: NDArray,
    start: float,
    mean: Callable[[NDArray], NDArray],
) -> float:
    """The b of the least mean convex loss of ``linear`` + b: Newton's method, else bisection."""
    if loss.quadratic:
        return float(mean(y - linear))
    low, high, b, stride = -np.inf, np.inf, start, 1.0
    for _ in range(_STEPS):
        slopes = loss.gradient(linear + b, y)
        slope = float(mean(slopes))
        if abs(slope) <= _BALANCED * float(mean(np.abs(slopes))):
            break
        low, high = (low, b) if slope > 0 else (b, high)
        bend = float(mean(loss.hessian(linear + b, y)))
        guess = b - slope / bend if bend > 0 else np.nan
        if not low < guess < high or abs(guess - b) > 10 * stride:
            bounded = np.isfinite(low) and np.isfinite(high)
            guess = 0.5 * (low + high) if bounded else b - np.copysign(stride, slope)
            stride *= 2.0
        if guess == b:
            break
        b = guess
    return float(b)


def best_constant(
    loss: Loss, y: NDArray, start: NDArray, mean: Callable[[NDArray], NDArray]
) -> NDArray:
    """The constant responses of every output with the least mean loss.

    The nearest minimum below ``start`` is taken where the loss is not convex. ``start`` is
    ``loss.start``, the best one for classification and a quadratic loss; ``mean`` averages over
    rows with their weights.
    """
    if (loss.is_classification or loss.quadratic) and not loss.of_rows:
        return start
    y = y.astype(np.float64, copy=False)
    best = np.asarray(start, dtype=np.float64)
    if loss.convex:
        outputs = zip(y.reshape(len(y), -1).T, best.reshape(-1), strict=True)
        each = [best_intercept(loss, column, 0 * column, float(b), mean) for column, b in outputs]
        return np.reshape(each, best.shape)
    for _ in range(_STEPS):  # minima of parabolas that lie above the loss and touch it
        constant = np.broadcast_to(best, y.shape)
        slope = mean(loss.gradient(constant, y))
        bend = mean(loss.model_curvature(constant, y))
        best = best - np.divide(slope, bend, out=np.zeros_like(slope), where=bend > 0)
    return best
