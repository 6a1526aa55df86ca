"""Classes as the targets of losses, and responses as classes."""

from __future__ import annotations

import warnings
from functools import partial
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import compute_sample_weight

from mercer import losses
from mercer._runtime.messages import shown
from mercer._runtime.sparse import holds_dates
from mercer.estimators.inputs import check_weights
from mercer.losses import Loss

__all__ = [
    "are_classes",
    "check_class_weight",
    "check_labels",
    "class_weights",
    "classification_loss",
    "coded",
    "loss_for",
    "regression_loss",
    "signs",
    "unit_of",
    "warn_of_small_classes",
    "winners",
]

_MOST_CLASSES = 20  # whole numbers with more distinct values are a quantity
_FEW_ROWS = 10  # a class of fewer rows is hardly learned
_MANY_CLASSES = 100  # with few rows each, the target is seldom one of classes


def are_classes(distinct: NDArray, counts: NDArray) -> bool:
    """True if a target is taken for classes, False if it is taken for a quantity.

    Texts and booleans are classes. Numbers are if they are whole and either at most two, such as 0
    and 1, or at most 20 whose median number of rows is at least 10. The median lets a rare class
    pass beside frequent ones; the mean would let a quantity pass of which one value, such as 0, is
    frequent.

    Parameters
    ----------
    distinct : ndarray of shape (m,)
        Different values of the target.
    counts : ndarray of shape (m,)
        Rows of every value.
    """
    if distinct.dtype.kind not in "iuf":
        return True
    if (distinct != np.floor(distinct)).any():
        return False
    return len(distinct) <= 2 or (len(distinct) <= _MOST_CLASSES and not have_few_rows(counts))


def have_few_rows(counts: NDArray) -> bool:
    """True if the median class has fewer than 10 rows."""
    return float(np.median(counts)) < _FEW_ROWS


def are_too_many(counts: NDArray) -> bool:
    """True for more than 100 classes of which the median one has fewer than 10 rows."""
    return len(counts) > _MANY_CLASSES and have_few_rows(counts)


def warn_of_small_classes(distinct: NDArray, counts: NDArray) -> None:
    """Warn of more than 100 classes with few rows each, before hours are spent on them."""
    if not are_too_many(counts):
        return
    is_number = distinct.dtype.kind in "iuf"
    remedy = ": AutoKernelRegressor, or --task regression, takes numbers as they are"
    warnings.warn(
        f"the target holds {len(distinct)} classes with {np.median(counts):g} rows each in the "
        f"median, too few to learn most of them{remedy if is_number else ''}.",
        UserWarning,
        stacklevel=3,
    )


def check_labels(model: str, y: Any) -> None:
    """Raise unless ``y`` has one label for every row; ``model`` is the classifier's name."""
    shape: tuple[int, ...] = y.shape if hasattr(y, "shape") else ()
    if not shape and isinstance(y, (list, tuple)) and y and isinstance(y[0], (list, tuple)):
        shape = (len(y), len(y[0]))
    if len(shape) == 2 and shape[1] > 1:
        raise ValueError(
            f"y must have one label for every row; got {shape[1]} columns, for each of which "
            f"sklearn.multioutput.MultiOutputClassifier({model}()) fits a model."
        )
    if len(shape) < 2 and holds_dates(y):
        raise TypeError(
            "y must hold labels; got dates: derive labels from them, such as weekdays, or numbers "
            "for a regressor, such as days since a first date."
        )


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
    check_class_weight(class_weight, np.unique(y))
    by_class = compute_sample_weight(class_weight, y)
    return by_class if weights is None else weights * by_class


def check_class_weight(class_weight: Any, classes: NDArray) -> None:
    """Raise unless weights are numbers of at least 0, positive for two classes or more.

    A weight of 0 leaves the rows of a class out.
    """
    if isinstance(class_weight, str) and class_weight == "balanced":
        return
    if not isinstance(class_weight, dict):
        raise ValueError(
            f"class_weight must be None, 'balanced' or a dict; got {shown(class_weight)}."
        )
    for label, weight in class_weight.items():
        is_number = isinstance(weight, Real) and not isinstance(weight, (bool, np.bool_))
        if not (is_number and 0 <= weight < np.inf):
            raise ValueError(
                "class_weight must hold finite numbers of at least 0; got "
                f"{shown(weight)} for class {shown(label)}."
            )
    if len(classes) > 1 and sum(class_weight.get(c, 1) > 0 for c in classes.tolist()) < 2:
        raise ValueError(
            "class_weight must be positive for at least two classes of y; got "
            f"{shown(class_weight)}."
        )


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
