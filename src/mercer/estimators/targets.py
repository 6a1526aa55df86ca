"""Targets of a fit: numbers, classes or several labels, which losses see as numbers.

``NumericTarget``, ``ClassTarget`` and ``IndicatorTarget`` share one interface: checks of y, the
encoded target and its loss, strata of held-out rows, the score of responses, and predictions from
responses.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from numbers import Real
from typing import Any, ClassVar, TypeAlias

import numpy as np
from numpy.typing import DTypeLike, NDArray
from sklearn.utils import compute_sample_weight
from sklearn.utils.multiclass import check_classification_targets

from mercer import losses
from mercer._runtime.messages import shown
from mercer._runtime.rows import Data, is_sparse
from mercer._runtime.sparse import holds_dates
from mercer._runtime.validation import exact_labels, name_from, refuse_missing
from mercer.estimators.inputs import check_weights, checked_pair, numbers
from mercer.estimators.tensors import labels_of
from mercer.losses import Loss

__all__ = [
    "ClassTarget",
    "IndicatorTarget",
    "NumericTarget",
    "Target",
    "are_classes",
    "check_class_weight",
    "checked_labels",
    "class_weights",
    "coded",
    "refuse_class_weight",
    "signs",
    "unit_of_widths",
    "warn_of_small_classes",
    "winners",
]

_MOST_CLASSES = 20  # whole numbers with more distinct values are a quantity
_NORMAL = 0.6745  # median absolute value of the standard normal law
_ONE_EACH = "sklearn.multioutput.MultiOutputClassifier"  # fits a model to each column of y
_FEW_ROWS = 10  # a class of fewer rows is hardly learned
_MANY_CLASSES = 100  # with few rows each, the target is seldom one of classes


@dataclass(frozen=True, eq=False)
class NumericTarget:
    """Numbers (n,) or (n, k): a model is fitted to their differences from ``mean``."""

    loss: Loss
    # () or (k,), in the type of responses; 0 without an intercept and for logarithms of y.
    mean: NDArray

    scoring: ClassVar[str] = "loss"

    @classmethod
    def of(cls, model: Any) -> NumericTarget:
        """The target of a fitted model."""
        return cls(model._loss_, model._target_mean_)

    @staticmethod
    def checked(
        model: Any, X: Any, y: Any, sample_weight: Any, **options: Any
    ) -> tuple[Data, NDArray, NDArray | None]:
        """X, y and the weights of a fit; ``options`` go to ``validate_data``."""
        y = numbers(y, "y")
        refuse_missing(y, "y", "value")
        X, y = checked_pair(model, X, y, multi_output=True, y_numeric=True, **options)
        return X, y, check_weights(sample_weight, X)

    @classmethod
    def less_offset(
        cls, model: Any, y: NDArray, offset: NDArray | None
    ) -> tuple[NDArray, NDArray | None]:
        """Targets without the offset, and the offset that the loss has to add to responses."""
        if offset is None:
            return y, None
        loss = cls.loss_of(model)
        if loss.link == "identity":  # the loss depends on y - u alone
            return (np.asarray(y, dtype=np.float64).T - offset).T, None
        _refuse_offset(model, loss, model._takes_offset)
        return y, offset

    @classmethod
    def learned(cls, model: Any, y: NDArray, weights: NDArray | None) -> NumericTarget:
        """The target of an unfitted model and all its y."""
        loss = cls.loss_of(model)
        if isinstance(model.loss, str):
            loss = loss.scaled(_unit_of_widths(y, weights) if loss.residual else 1.0)
        dtype = np.dtype(np.float32 if np.asarray(y).dtype.char in "ef" else np.float64)
        # Most losses of a regression depend on the residual alone: solving for the centred target
        # is the same problem, and a target far from zero keeps its digits in float32.
        if not (model.fit_intercept and loss.link == "identity"):
            return cls(loss, np.zeros((), dtype))
        with np.errstate(over="ignore", invalid="ignore"):
            # In rows: sums of columns that lie apart round differently.
            mean = np.average(np.ascontiguousarray(y, np.float64), 0, weights)
            return cls(loss, np.asarray(mean, dtype=dtype))

    @staticmethod
    def loss_of(model: Any) -> Loss:
        """The loss of the settings, refused if it is one for classes."""
        loss = losses.get(model.loss)
        if loss.is_classification:
            raise ValueError(f"loss must be one for regression; got {loss.name!r}.")
        return loss

    def encoded(self, y: NDArray, dtype: DTypeLike, size: float | None = None) -> NDArray:
        """Numbers as the loss takes them, in the type of X; a ValueError out of its range.

        ``size`` is the sum of squares of the centred numbers where ``y`` holds only their ends.
        """
        y = np.asarray(y, dtype=np.float64)
        with np.errstate(over="ignore", invalid="ignore"):
            centred = y - self.mean
            size = float(np.sum(np.square(centred))) if size is None else size
            rounded, mean = centred.astype(dtype), np.asarray(self.mean).astype(dtype)
        if not np.isfinite(size):
            raise ValueError(
                "y must have finite sums of squares in float64; its largest value is "
                f"{np.abs(y).max():.3g}."
            )
        if size < np.finfo(np.float64).tiny and np.any(centred):
            raise ValueError(
                "y must have sums of squares above 0 in float64; its largest difference from a "
                f"constant is {np.abs(centred).max():.3g}."
            )
        if not (np.all(np.isfinite(rounded)) and np.all(np.isfinite(mean))):
            raise ValueError(
                f"y must be within the range of {rounded.dtype}, the type of X; its largest value "
                f"is {np.abs(y).max():.3g}."
            )
        if self.loss.link != "identity":
            self.loss.check_target(rounded)
        return rounded

    def attributes(self) -> dict[str, Any]:
        """Fitted attributes of a model, from which ``of`` makes the target."""
        return {"_target_mean_": self.mean, "_loss_": self.loss}

    @staticmethod
    def strata(target: NDArray) -> NDArray | None:
        """Classes whose shares held-out rows keep: numbers have none."""
        return None

    def score(self, responses: NDArray, rows: Any) -> float:
        """Minus the weighted mean loss of responses to ``rows``; greater is better."""
        return -_mean_loss(self.loss, responses, rows)

    def predictions(self, responses: Any) -> Any:
        """Means, quantiles or expectiles; the largest float for means beyond it, with a warning."""
        predicted = self.loss.means(responses)
        if self.loss.link == "identity":
            return predicted
        beyond = np.isinf(predicted)
        if np.any(beyond):
            largest = np.finfo(predicted.dtype).max
            warnings.warn(
                f"{np.count_nonzero(beyond)} of {predicted.size} predicted means are beyond the "
                f"range of {predicted.dtype}, and {largest:.2g} stands for them: their rows are "
                "far from those of the fit, or alpha is too small.",
                UserWarning,
                stacklevel=3,
            )
            predicted[beyond] = largest
        return predicted


@dataclass(frozen=True, eq=False)
class ClassTarget:
    """Labels (n,): a model has a response for the second of two classes, else one for each."""

    loss: Loss
    classes: NDArray  # sorted labels
    scoring: str = "loss"  # or "accuracy"

    @classmethod
    def of(cls, model: Any) -> ClassTarget:
        """The target of a fitted model."""
        target = cls(model._loss_, model.classes_, getattr(model, "scoring", "loss"))
        values = vars(model).get("_values_")
        return target if values is None else IndicatorTarget(**vars(target), values=values)

    @staticmethod
    def checked(
        model: Any, X: Any, y: Any, sample_weight: Any, **options: Any
    ) -> tuple[Data, NDArray, NDArray | None]:
        """X, y and the weights of a fit; ``options`` go to ``validate_data``."""
        name, takes_several = type(model).__name__, getattr(model, "_takes_indicators", False)
        y = checked_labels(name, y, takes_several)
        if takes_several and len(getattr(y, "shape", ())) == 2 and y.shape[1] > 1:
            refuse_class_weight(model)
            X, y = checked_pair(model, X, y, multi_output=True, **options)
            return X, y, check_weights(sample_weight, X)
        X, y = checked_pair(model, X, y, **options)
        check_classification_targets(y)
        return X, y, class_weights(model.class_weight, sample_weight, X, y)

    @staticmethod
    def less_offset(
        model: Any, y: NDArray, offset: NDArray | None
    ) -> tuple[NDArray, NDArray | None]:
        """The labels, and the offset that the loss has to add to responses."""
        if offset is not None:
            loss = losses.get(model.loss)
            two = loss.has_proba and len(coded(y)[0]) == 2
            _refuse_offset(model, loss, model._takes_offset and two)
        return y, offset

    @classmethod
    def learned(cls, model: Any, y: NDArray, weights: NDArray | None) -> ClassTarget:
        """The target of an unfitted model and all its y."""
        if y.ndim == 2:
            of_label = vars(cls.of_classes(model, np.arange(2)))
            settings = of_label | {"classes": np.arange(y.shape[1])}
            return IndicatorTarget(**settings, values=np.array([0, 1], dtype=y.dtype))
        return cls.of_classes(model, coded(y)[0])

    @classmethod
    def of_classes(cls, model: Any, classes: NDArray) -> ClassTarget:
        """The target of an unfitted model whose classes are known."""
        loss = losses.get(model.loss)
        if not loss.is_classification and not loss.quadratic:
            raise ValueError(f"loss must be one for classification; got {loss.name!r}.")
        if loss.joint and len(classes) == 2:  # for which one response is enough
            loss = losses.get("logistic")
        scoring = name_from(getattr(model, "scoring", "loss"), ("loss", "accuracy"), "scoring")
        return cls(loss, classes, scoring)

    def encoded(self, y: NDArray, dtype: DTypeLike) -> NDArray:
        """-1 and 1 in one column or one per class, or class indicators, in the type of X."""
        labels, n_classes = np.searchsorted(self.classes, y), len(self.classes)
        if self.loss.joint:
            return (labels[:, None] == np.arange(n_classes)).astype(dtype)
        return signs(labels, n_classes, dtype)

    def attributes(self) -> dict[str, Any]:
        """Fitted attributes of a model, from which ``of`` makes the target."""
        return {
            "classes_": self.classes,
            "_loss_": self.loss,
            "_target_mean_": np.zeros((), np.float32),
        }

    @staticmethod
    def strata(target: NDArray) -> NDArray | None:
        """Classes whose shares held-out rows keep, (n,)."""
        return winners(target)

    def score(self, responses: NDArray, rows: Any) -> Any:
        """Minus the weighted mean loss of responses to ``rows``, or the share of right classes."""
        if self.scoring == "loss":
            return -_mean_loss(self.loss, responses, rows)
        right = winners(responses) == winners(rows.target)
        return float(np.average(right, weights=rows.weights))

    def predictions(self, responses: Any) -> NDArray:
        """Labels of the largest responses; ties go to the first class."""
        labels: NDArray = labels_of(self.classes, winners(responses))
        return labels


@dataclass(frozen=True, eq=False)
class IndicatorTarget(ClassTarget):
    """Several labels per row, (n, L) of 0 and 1: a model has a response for each label.

    ``classes`` (L,) are the numbers of the columns.
    """

    values: Any = None  # 0 and 1 in the type of y

    def encoded(self, y: NDArray, dtype: DTypeLike) -> NDArray:
        """-1 and 1 in a column per label, in the type of X."""
        one = np.ones((), dtype)
        return np.where(y == 1, one, -one)

    def attributes(self) -> dict[str, Any]:
        """Fitted attributes of a model, from which ``of`` makes the target."""
        return super().attributes() | {"_values_": self.values}

    @staticmethod
    def strata(target: NDArray) -> NDArray | None:
        """None: no strata keep the shares of all labels."""
        return None

    def score(self, responses: NDArray, rows: Any) -> NDArray[np.float64]:
        """A score per label, (L,), as that of a classifier of this label."""
        if self.scoring == "loss":
            loss, target = rows.loss(self.loss), rows.target.astype(np.float64)
            values = -loss.value(responses.astype(np.float64), target)
        else:
            values = (responses > 0) == (rows.target > 0)
        return np.asarray(np.average(values, axis=0, weights=rows.weights))

    def predictions(self, responses: Any) -> NDArray:
        """Indicators of the labels with a response above 0."""
        labels: NDArray = labels_of(self.values, (responses > 0).astype(np.int64))
        return labels


Target: TypeAlias = NumericTarget | ClassTarget


def _refuse_offset(model: Any, loss: Loss, takes: bool) -> None:
    """Raise where a model cannot add an offset to the responses within its loss."""
    if not takes or getattr(model, "device", None) is not None:
        raise ValueError(
            f"offset must be None for loss {loss.name!r} of a {type(model).__name__}, of more than "
            "two classes and on a device; a KernelRegressor with any loss and a KernelClassifier "
            "with loss='logistic' take it on the processor."
        )


def _unit_of_widths(y: NDArray, weights: NDArray | None) -> float:
    """``unit_of_widths`` of all targets."""
    columns = np.asarray(y, dtype=np.float64).reshape(len(y), -1)
    weights = np.ones(len(y)) if weights is None else weights
    with np.errstate(over="ignore", invalid="ignore"):
        far = np.abs(columns - _medians(columns, weights))
        squares = np.square(columns - np.average(columns, 0, weights))
        return unit_of_widths(_medians(far, weights), np.sqrt(np.average(squares, 0, weights)))


def _medians(columns: NDArray, weights: NDArray) -> NDArray[np.float64]:
    """Weighted medians of the columns (n, k)."""
    order = np.argsort(columns, axis=0, kind="stable")
    sums = np.cumsum(weights[order], axis=0)
    places = [np.searchsorted(column, 0.5 * column[-1]) for column in sums.T]
    rows = np.take_along_axis(order, np.array(places)[None], axis=0)
    return np.take_along_axis(columns, rows, axis=0)[0]


def unit_of_widths(middles: NDArray, deviations: NDArray) -> float:
    """Spread of the targets, the unit of the widths of losses that are given by name.

    From median absolute deviations from the median (k,) the standard deviation of a normal law; the
    standard deviation (k,) itself where that is 0. The largest over the outputs, and 1 for
    constants: a loss that is too wide errs less than one that is too narrow, which fits a constant.
    """
    unit = float(np.max(np.where(middles > 0, middles / _NORMAL, deviations)))
    return unit if 0 < unit < np.inf else 1.0


def _mean_loss(loss: Loss, responses: NDArray, rows: Any) -> float:
    """Weighted mean loss of responses to some rows; losses of several outputs add up."""
    loss, target = rows.loss(loss), rows.target.astype(np.float64)
    values = loss.value(responses.astype(np.float64), target)
    values = values if values.ndim == 1 else values.sum(axis=1)
    return float(np.average(values, weights=rows.weights))


def are_classes(distinct: NDArray, counts: NDArray) -> bool:
    """True if a target is taken for classes, False if it is taken for a quantity.

    Texts and booleans are classes. Numbers are if they are whole and either at most two, such as 0
    and 1, or at most 20 whose median number of rows, of ``counts``, is at least 10. The median lets
    a rare class pass beside frequent ones; the mean would let pass a quantity with one frequent
    value, such as 0.
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
    """True for more than 100 classes with a median of fewer than 10 rows."""
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


def checked_labels(model: str, y: Any, takes_several: bool = False) -> Any:
    """Labels of rows, objects as numbers if they are; errors name ``model``.

    Several columns are returned as an array of 0 and 1 if the model ``takes_several``.
    """
    shape: tuple[int, ...] = y.shape if hasattr(y, "shape") else ()
    if not shape and isinstance(y, (list, tuple)) and y and np.ndim(y[0]) == 1:
        shape = (len(y), len(y[0]))
    if len(shape) == 2 and shape[1] > 1:
        if takes_several:
            return _indicators(model, y)
        raise ValueError(
            f"y must have one label for every row; got {shape[1]} columns, for each of which "
            f"{_ONE_EACH}({model}()) fits a model."
        )
    if len(shape) < 2 and holds_dates(y):
        raise TypeError(
            "y must hold labels; got dates: derive labels from them, such as weekdays, or numbers "
            "for a regressor, such as days since a first date."
        )
    y = exact_labels(y)
    array = np.asarray(y)
    refuse_missing(array, "y", "label")
    if array.dtype == object and all(isinstance(label, Real) for label in array.ravel().tolist()):
        y = np.asarray(exact_labels(array.tolist()))
        if y.dtype == object:
            largest = shown(max(y.ravel(), key=abs))
            raise ValueError(
                f"y must hold whole numbers that int64 or uint64 holds; got {largest}: give such "
                "labels as texts."
            )
    return y


def _indicators(model: str, y: Any) -> NDArray:
    """Several columns of 0 and 1 as an array (n, L)."""
    try:
        array = y.toarray() if is_sparse(y) else np.asarray(y)
    except ValueError:
        raise ValueError(
            "y must have as many columns in every row; got lists of different lengths, which "
            "sklearn.preprocessing.MultiLabelBinarizer turns into columns of 0 and 1."
        ) from None
    refuse_missing(array, "y", "label")
    if array.dtype == object and all(isinstance(label, Real) for label in array.ravel().tolist()):
        array = np.array(array.tolist())
    is_other = ~np.isin(array, (0, 1)) | (array.dtype.kind not in "biuf")
    if is_other.any():
        row, column = np.argwhere(is_other)[0]
        raise ValueError(
            "y must hold 0 and 1 alone where it has several columns, one per label; got "
            f"{shown(array[row, column])} in column {column}: {_ONE_EACH}({model}()) takes columns "
            "of other labels."
        )
    return array


def refuse_class_weight(model: Any) -> None:
    """Raise if a model of several labels per row has weights of classes."""
    if model.class_weight is not None:
        raise ValueError(
            "class_weight must be None where y has several columns; got "
            f"{shown(model.class_weight)}, which {_ONE_EACH}({type(model).__name__}"
            "(class_weight=...)) applies to each column."
        )


def coded(y: Any) -> tuple[NDArray, NDArray[np.int64]]:
    """Two or more sorted classes, and each row's place among them."""
    classes, labels = np.unique(y, return_inverse=True)
    if len(classes) < 2:
        raise ValueError(
            f"y must hold at least two classes; got one class, {classes.tolist()[0]!r}."
        )
    return classes, labels


def signs(labels: NDArray, n_classes: int, dtype: DTypeLike = np.float64) -> NDArray:
    """1 for the class of a row and -1 for others, (n, k); of two classes the second, (n,)."""
    is_class = labels == 1 if n_classes == 2 else labels[:, None] == np.arange(n_classes)
    one = np.ones((), dtype)
    return np.where(is_class, one, -one)


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
    """Raise unless weights are numbers of at least 0, positive for two classes or more."""
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
