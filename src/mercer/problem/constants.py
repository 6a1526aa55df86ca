"""The best response where all rows share one."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from mercer.losses import Loss

__all__ = ["best_constant"]

_BISECTIONS, _ROUNDS = 60, 100


def best_constant(
    loss: Loss, y: NDArray, start: NDArray, mean: Callable[[NDArray], NDArray]
) -> NDArray:
    """The constant responses of every output with the least mean loss.

    Parameters
    ----------
    loss : Loss
        The nearest minimum below ``start`` is taken where it is not convex.
    y : ndarray of shape (n,) or (n, k)
    start : ndarray of shape () or (k,)
        ``loss.start``, which is the best one for classification and a quadratic loss.
    mean : callable
        Averages over rows with their weights.
    """
    if loss.is_classification or loss.quadratic:
        return start
    y = y.astype(np.float64, copy=False)

    def slope_at(constant: NDArray) -> NDArray:
        return mean(loss.gradient(np.broadcast_to(constant, y.shape), y))

    if loss.convex:
        low, high = y.min(axis=0), y.max(axis=0)
        for _ in range(_BISECTIONS):
            middle = 0.5 * (low + high)
            rises = slope_at(middle) > 0
            low, high = np.where(rises, low, middle), np.where(rises, middle, high)
        return 0.5 * (low + high)
    best = start.astype(np.float64)
    for _ in range(_ROUNDS):  # minima of parabolas that lie above the loss and touch it
        slope = slope_at(best)
        bend = mean(loss.model_curvature(np.broadcast_to(best, y.shape), y))
        best = best - np.divide(slope, bend, out=np.zeros_like(slope), where=bend > 0)
    return best
