"""Classes as the targets of losses, and responses as classes."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import compute_sample_weight

from mercer import losses
from mercer.estimators.inputs import check_weights
from mercer.losses import Loss

__all__ = [
    "class_weights",
    "classification_loss",
    "coded",
    "loss_for",
    "regression_loss",
    "signs",
    "unit_of",
    "winners",
]


def coded(y: Any) -> tuple[NDArray, NDArray[np.int64]]:
    """The sorted classes, of which there are two or more, and each row's place among them."""
    classes, labels = np.unique(y, return_inverse=True)
    if len(classes) < 2:
        raise ValueError(
            f"y must hold at least two classes; got one class, {classes.tolist()[0]!r}."
        )
    return classes, labels


def signs(labels: NDArray, n_classes: int) -> NDArray[np.float64]:
    """1 for the class of a row and -1 for others, (n, k); of two classes the second, (n,)."""
    is_class = labels == 1 if n_classes == 2 else labels[:, None] == np.arange(n_classes)
    return np.where(is_class, 1.0, -1.0)


def winners(responses: NDArray) -> NDArray[np.int64]:
    """The class of the largest response, the first of equal ones; (n,) are those of two classes."""
    return (responses > 0).astype(np.int64) if responses.ndim == 1 else responses.argmax(axis=1)


def class_weights(
    class_weight: dict | str | None, sample_weight: Any, X: Any, y: Any
) -> NDArray | None:
    """Weights of the rows by themselves and by their class, or None."""
    weights = check_weights(sample_weight, X)
    if class_weight is None:
        return weights
    by_class = compute_sample_weight(class_weight, y)
    return by_class if weights is None else weights * by_class


def regression_loss(loss: str | Loss) -> Loss:
    """The loss by name or itself, refused if it is one for classes."""
    loss = losses.get(loss)
    if loss.is_classification:
        raise ValueError(f"loss must be one for regression; got {loss.name!r}.")
    return loss


def unit_of(loss: Loss, target: NDArray, weights: NDArray | None) -> float:
    """The loss's typical second derivative for these targets, in units of the squared loss's."""
    return loss.unit(target, partial(np.average, axis=0, weights=weights))


def loss_for(loss: Loss, n_classes: int) -> Loss:
    """The loss, or that of one response where one is enough."""
    return losses.get("logistic") if loss.joint and n_classes == 2 else loss


def classification_loss(loss: str | Loss) -> Loss:
    """The loss by name or itself, refused unless it is quadratic or one for classes."""
    loss = losses.get(loss)
    if not loss.is_classification and not loss.quadratic:
        raise ValueError(f"loss must be one for classification; got {loss.name!r}.")
    return loss
