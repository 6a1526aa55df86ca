"""Scores of predictions on a test part."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

__all__ = ["accuracy", "r2", "relative_rmse", "scores"]


def accuracy(y: ArrayLike, predicted: ArrayLike) -> float:
    """Share of rows whose class is predicted.

    >>> accuracy(["a", "b", "b", "a"], ["a", "b", "a", "a"])
    0.75
    """
    y, predicted = _pair(y, predicted)
    return float(np.mean(y == predicted))


def relative_rmse(y: ArrayLike, predicted: ArrayLike) -> float:
    """``‖y − ŷ‖ / ‖y‖`` for (n,) or (n, k): 0 is perfect and 1 is what predicting zero gives.

    It is infinite when ``y`` is all zero and ``predicted`` is not.

    >>> relative_rmse([3.0, 4.0], [0.0, 0.0])
    1.0
    """
    y, predicted = _pair(y, predicted)
    error = float(np.linalg.norm(np.asarray(y - predicted, dtype=np.float64)))
    size = float(np.linalg.norm(np.asarray(y, dtype=np.float64)))
    if size == 0:
        return 0.0 if error == 0 else float("inf")
    return error / size


def r2(y: ArrayLike, predicted: ArrayLike) -> float:
    """Coefficient of determination: 1 is perfect and 0 is what predicting the mean of ``y`` gives.

    Several outputs, of shape (n, k), count by their variance.

    >>> r2([1.0, 2.0, 3.0], [2.0, 2.0, 2.0])
    0.0
    """
    y, predicted = _pair(y, predicted)
    y = np.asarray(y, dtype=np.float64)
    left = float(np.sum((y - predicted) ** 2))
    spread = float(np.sum((y - y.mean(axis=0)) ** 2))
    if spread == 0:
        return 1.0 if left == 0 else float("-inf")
    return 1.0 - left / spread


def scores(task: str, y: ArrayLike, predicted: ArrayLike) -> dict[str, float]:
    """Every score that suits the task, the first one leading.

    >>> scores("classification", [0, 1], [0, 1])
    {'accuracy': 1.0}
    """
    if task == "classification":
        return {"accuracy": accuracy(y, predicted)}
    return {"relative_rmse": relative_rmse(y, predicted), "r2": r2(y, predicted)}


def _pair(y: ArrayLike, predicted: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    y, predicted = np.asarray(y), np.asarray(predicted)
    if y.shape != predicted.shape:
        raise ValueError(
            f"y and predicted must have the same shape; got {y.shape} and {predicted.shape}."
        )
    if len(y) == 0:
        raise ValueError("y must have at least one row; got none.")
    return y, predicted
