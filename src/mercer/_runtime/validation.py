"""Checks of settings, weights and groups: a failure is one sentence with name, rule and value."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from inspect import signature
from math import isfinite
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_array, check_consistent_length

from mercer._runtime.arrays import Matrix
from mercer._runtime.messages import shown
from mercer._runtime.numerals import EXACT
from mercer._runtime.rows import Data, PreparedRows, is_sparse
from mercer._runtime.sparse import OF_DATES, canonical_csr, holds_dates, refuse_foreign

FLOATS = (np.float64, np.float32)
_FEW_NUMBERS = 2**16  # of rows up to which scikit-learn's checks take longer than what they check
_TOO_MANY = 2**63  # what no loop and no index can count


def positive_integer(value: Any, name: str) -> int:
    """``value`` as an int of at least 1."""
    return integer(value, name, least=1)


def integer(value: Any, name: str, least: int) -> int:
    """``value`` as an int of at least ``least``."""
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, Integral):
        raise TypeError(f"{name} must be an integer; got {shown(value)}.")
    if value < least:
        raise ValueError(f"{name} must be at least {least}; got {shown(value)}.")
    number = int(value)
    if number >= _TOO_MANY:
        raise ValueError(f"{name} must be below 2**63; got one of {number.bit_length()} bits.")
    return number


def real_number(value: Any, name: str) -> float:
    """``value`` as a float, which may be infinite or NaN."""
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, Real):
        raise TypeError(f"{name} must be a number; got {shown(value)}.")
    try:
        return float(value)
    except OverflowError:
        raise ValueError(f"{name} must be a number within the range of floats.") from None


def number_at_least_0(value: Any, name: str) -> float:
    """``value`` as a finite float of at least 0."""
    number = real_number(value, name)
    if not 0 <= number < np.inf:
        raise ValueError(f"{name} must be at least 0 and finite; got {shown(value)}.")
    return number


def positive_number(value: Any, name: str) -> float:
    """``value`` as a finite float above 0."""
    number = real_number(value, name)
    if not (np.isfinite(number) and number > 0):
        raise ValueError(f"{name} must be positive and finite; got {shown(value)}.")
    return number


def flag(value: Any, name: str) -> bool:
    """``value`` as a bool."""
    if not isinstance(value, (bool, np.bool_)):
        raise TypeError(f"{name} must be True or False; got {shown(value)}.")
    return bool(value)


def is_name(value: Any, name: str) -> bool:
    """Whether ``value`` is this string; arrays would rather compare their elements."""
    return isinstance(value, str) and value == name


def is_listed(values: Any) -> bool:
    """Whether there are things in ``values``, one after another; a string is one thing."""
    if isinstance(values, np.ndarray):
        return values.ndim == 1
    return isinstance(values, Iterable) and not isinstance(values, (str, bytes))


def name_from(value: Any, names: Iterable[str], name: str) -> str:
    """``value`` if it is one of ``names``."""
    names = list(names)
    if not (isinstance(value, str) and value in names):
        raise ValueError(
            f"{name} must be one of {', '.join(map(repr, names))}; got {shown(value)}."
        )
    return value


def check_function(value: Any, name: str, *arguments: str) -> None:
    """Raise for what cannot be called with these arguments, as far as its signature tells."""
    if not (callable(value) and _takes(value, len(arguments))):
        of = " and ".join(arguments)
        raise TypeError(f"{name} must be a function of {of}; got {shown(value)}.")


def _takes(function: Callable[..., Any], n_arguments: int) -> bool:
    """Whether a function may be called with so many arguments; some in C have no signature."""
    try:
        parameters = signature(function)
    except ValueError:
        return True
    try:
        parameters.bind(*range(n_arguments))
    except TypeError:
        return False
    return True


def scale_of_distance(gamma: Any) -> float | str | tuple[float, ...]:
    """``gamma`` as a positive float, a tuple of them (one per input), "scale" or "median"."""
    if isinstance(gamma, str):
        if gamma not in ("scale", "median"):
            raise ValueError(
                "gamma must be a positive number, an array with one per input, 'scale' or "
                f"'median'; got {shown(gamma)}."
            )
        return gamma
    if isinstance(gamma, np.ndarray) and not gamma.ndim:
        gamma = gamma.item()
    if isinstance(gamma, Real) and not isinstance(gamma, (bool, np.bool_)):
        return positive_number(gamma, "gamma")
    values = np.asarray(gamma)
    if values.dtype.kind not in "iuf":
        raise TypeError(
            "gamma must be a positive number, an array with one per input, 'scale' or 'median'; "
            f"got {shown(gamma)}."
        )
    if values.ndim != 1 or not len(values):
        raise ValueError(
            f"gamma must have one dimension, an entry per input; got shape {values.shape}."
        )
    bad = ~(np.isfinite(values) & (values > 0))
    if bad.any():
        at = int(np.argmax(bad))
        raise ValueError(
            f"gamma must be positive and finite for every input; got {values[at]} for input {at}."
        )
    return tuple(values.astype(np.float64).tolist())


def matrix(X: Any, name: str = "X") -> Matrix:
    """``X`` as a finite C-ordered array or canonical CSR, float32 or float64."""
    X = canonical_csr(X.together() if isinstance(X, PreparedRows) else X, name)
    try:
        return check_array(X, accept_sparse="csr", dtype=FLOATS, order="C", input_name=name)
    except (TypeError, ValueError, OverflowError) as error:
        reason = str(error).partition("\n")[0].rstrip(".:")
        kind = TypeError if isinstance(error, TypeError) else ValueError
        raise kind(f"{name} must be a matrix of finite numbers; {reason}.") from None


def is_plain(X: Any, estimator: Any) -> bool:
    """True if scikit-learn's ``validate_data`` would return X as it is: 2 µs instead of 0.1 ms.

    X is a C-ordered array of few rows of finite floats, a column per input of a fitted estimator
    without names of columns.
    """
    return (
        type(X) is np.ndarray
        and X.ndim == 2
        and X.shape[1] == getattr(estimator, "n_features_in_", None)  # none of texts
        and X.dtype.char in "fd"
        and X.dtype.isnative
        and 0 < X.size <= _FEW_NUMBERS
        and X.flags.c_contiguous
        and "feature_names_in_" not in vars(estimator)
        and isfinite(np.vdot(X, X))  # finite squares: no warning if the sum overflows
    )


def float_type(X: Data) -> np.dtype:
    """The dtype of the numbers that stand for checked data: float64 for texts."""
    return np.dtype(np.float64) if X.dtype.kind == "O" else X.dtype


def column_indices(columns: Any, n_columns: int, name: str = "columns") -> np.ndarray:
    """``columns`` as a one-dimensional int64 array with entries in [0, n_columns)."""
    index = np.asarray(columns)
    if index.ndim != 1 or (index.dtype.kind not in "iu" and len(index)):
        raise TypeError(
            f"{name} must be a one-dimensional array of integers; got {shown(columns)}."
        )
    index = index.astype(np.int64)
    outside = (index < 0) | (index >= n_columns)
    if outside.any():
        raise ValueError(
            f"{name} must be at least 0 and below {n_columns}; got {index[np.argmax(outside)]}."
        )
    return index


def check_reach(X: Any, limit: float) -> None:
    """Raise for data, array or CSR, so large that arguments of cosines overflow to NaN."""
    values = X.data if is_sparse(X) else X
    if not values.size:
        return
    # A sum of squares takes one pass, and is no less than the largest, but for its rounding; it may
    # overflow to infinity.
    if isinstance(values, np.ndarray) and float(np.vdot(values, values)) ** 0.5 < limit / 2:
        return
    reach = max(float(values.max()), -float(values.min()))
    if reach > limit:
        raise ValueError(
            f"X must stay below {limit:.3g} for the frequencies of this map, in {X.dtype}; "
            f"got {reach:.3g}."
        )


def numbers(values: Any, name: str) -> Any:
    """``values``, as floats where they are objects, if they are numbers at all; None is left."""
    if values is None:
        return None
    refuse_foreign(values, name)
    array = np.asarray(values)
    if array.dtype.kind in "OUS":
        known = np.where(missing_of(array), np.nan, array) if array.dtype == object else array
        try:
            array = values = known.astype(np.float64)
        except (TypeError, ValueError, OverflowError) as error:
            if holds_dates(array):
                raise TypeError(f"{name} must hold numbers; got dates: {OF_DATES}.") from None
            raise TypeError(f"{name} must hold numbers; {str(error).rstrip('.')}.") from None
    if not (array.ndim or isinstance(values, Real)):
        raise ValueError(f"{name} must have a dimension for the rows; got {values!r:.60}.")
    return values


def missing_of(values: Any) -> NDArray[np.bool_]:
    """True for NaN, NaT, None and pandas.NA; the shape of ``values``."""
    array = np.asarray(values)
    if array.dtype.kind in "mM":
        return np.isnat(array)
    if array.dtype.kind in "fc":
        return np.isnan(array)
    if array.dtype.kind != "O":
        return np.zeros(array.shape, dtype=bool)
    return np.array([*map(_is_missing, array.ravel().tolist())], dtype=bool).reshape(array.shape)


def _is_missing(value: Any) -> bool:
    """Whether an object differs from itself, or says of pandas.NA that it cannot tell."""
    if value is None:
        return True
    differs = value != value
    if isinstance(differs, (bool, np.bool_)):
        return bool(differs)
    return type(value).__name__ == "NAType"


def refuse_missing(values: Any, name: str, what: str) -> None:
    """Raise a ValueError that counts the rows whose entry, a ``what``, is missing."""
    missing = missing_of(values)
    if missing.ndim and missing.any():
        rows = np.unique(np.nonzero(missing)[0])
        which = "this row" if len(rows) == 1 else "these rows"
        end = "" if missing.sum() == 1 else "s"
        raise ValueError(
            f"{name} has {missing.sum()} missing {what}{end}, the first in row {rows[0]}; "
            f"drop {which}."
        )


def checked_weights(sample_weight: ArrayLike, n_rows: int) -> NDArray:
    """A copy of the weights in float64, refused if they are no weights of so many rows."""
    weights = np.array(sample_weight, dtype=np.float64)
    if weights.shape != (n_rows,):
        raise ValueError(
            f"sample_weight must have one entry for each of {n_rows} rows; "
            f"got shape {weights.shape}."
        )
    if not (np.all(np.isfinite(weights)) and np.all(weights >= 0) and np.any(weights > 0)):
        raise ValueError(
            "sample_weight must be finite, not negative and not all zero; "
            f"got values from {weights.min()} to {weights.max()}."
        )
    return weights


def check_weights(sample_weight: Any, X: Any) -> NDArray | None:
    """Weights as a float64 array, refused if negative or all zero, or None."""
    if sample_weight is None:
        return None
    sample_weight = numbers(sample_weight, "sample_weight")
    n_rows = X.shape[0] if hasattr(X, "shape") else len(X)
    if isinstance(sample_weight, Real):  # the same for all
        sample_weight = np.full(n_rows, sample_weight)
    weights = check_array(
        sample_weight, ensure_2d=False, dtype=np.float64, input_name="sample_weight"
    )
    return checked_weights(weights, n_rows)


def check_offset(offset: Any, n_rows: int) -> NDArray[np.float64] | None:
    """Numbers (n,) to add to responses, in float64, or None; a number stands for all rows."""
    if offset is None:
        return None
    given = numbers(offset, "offset")
    given = np.full(n_rows, given) if np.ndim(given) == 0 else given
    checked: NDArray[np.float64] = check_array(
        given, ensure_2d=False, dtype=np.float64, ensure_min_samples=0, input_name="offset"
    )
    if checked.shape != (n_rows,):
        raise ValueError(
            f"offset must have a number for each of the {n_rows} rows of X; got an array of shape "
            f"{checked.shape}."
        )
    return checked


@contextmanager
def recorded(model: Any, offset: Any) -> Iterator[None]:
    """Record in a model, after its fit or the interrupt of it, whether it took an offset."""
    vars(model).pop("_has_offset_", None)
    try:
        yield
    finally:
        if offset is not None:
            vars(model)["_has_offset_"] = True


def has_offset(model: Any) -> bool:
    """Whether a model was fitted with an offset; False of files without the record."""
    return bool(vars(model).get("_has_offset_", False))


def without_record(model: Any) -> Any:
    """A model that shares all attributes but the record of an offset."""
    other = object.__new__(type(model))
    vars(other).update({k: v for k, v in vars(model).items() if k != "_has_offset_"})
    return other


def require_offset(model: Any, offset: Any) -> None:
    """Raise where the offset is left out of a model that was fitted with one."""
    if offset is None and has_offset(model):
        raise ValueError(
            f"offset must be given, as {type(model).__name__} was fitted with one: the known parts "
            "of these rows, or offset=0 for predictions without them, such as rates; got None."
        )


def plus_offset(values: NDArray, offset: Any, sign: float = 1.0) -> NDArray:
    """Values (n, ...) plus the offset of their rows, if there is one, in their type."""
    checked = check_offset(offset, len(values))
    if checked is None:
        return values
    summed: NDArray = (values.T + (sign * checked).astype(values.dtype)).T
    return summed


def counted(weights: NDArray | None) -> NDArray | None:
    """Weights, scaled up to their effective number, (Σw)² / Σw², if their sum is below it."""
    if weights is None:
        return None
    largest = weights.max()
    shares = weights / largest
    return as_counts(weights, largest, shares.sum(), np.square(shares).sum())


def as_counts(weights: NDArray, largest: float, total: float, squares: float) -> NDArray:
    """``counted`` of some weights, by the largest of all and the sums of w and w² in its units."""
    rows = total / squares  # that the largest weight counts for at least
    return weights if rows <= largest else weights / largest * rows


def weighted_mean(values: NDArray, weights: NDArray | None) -> NDArray:
    """The mean of rows by their weights, or the plain one for None."""
    mean: NDArray = np.mean(values, axis=0) if weights is None else weights @ values / weights.sum()
    return mean


def group_codes(groups: Any, X: Any) -> NDArray[np.int64] | None:
    """The group of every row of X as a number from 0 on, or None.

    A ValueError or TypeError for groups that do not sort, are missing, or are not one per row.
    """
    if groups is None:
        return None
    if not isinstance(groups, np.ma.MaskedArray) and holds_dates(np.asarray(groups)):
        groups = _numbers_of_days(groups)
    refuse_foreign(groups, "groups")
    labels = check_array(
        exact_labels(groups),
        ensure_2d=False,
        dtype=None,
        ensure_all_finite=False,
        ensure_min_samples=0,
        input_name="groups",
    )
    if labels.ndim != 1 and labels.shape[1:] != (1,):
        raise ValueError(f"groups must have shape (n,), one per row; got shape {labels.shape}.")
    labels = labels.ravel()
    check_consistent_length(X, labels)
    lacking = np.flatnonzero(missing_of(labels))
    if len(lacking):
        raise ValueError(f"groups must hold a group for every row; that of row {lacking[0]} lacks.")
    try:
        _, codes = np.unique(labels, return_inverse=True)
    except TypeError:
        raise TypeError(
            f"groups must hold labels that sort, all numbers or all texts; got {shown(groups)}."
        ) from None
    return codes


def exact_labels(labels: Any) -> Any:
    """Labels of rows as an array in which no two whole numbers become one float, or as given."""
    if isinstance(labels, np.ma.MaskedArray):
        return labels
    array = np.asarray(labels)
    if array.dtype.kind == "f" and isinstance(labels, (list, tuple)):
        cells = np.asarray(labels, dtype=object)
        beyond = (isinstance(c, int) and abs(c) > EXACT for c in cells.ravel().tolist())
        return cells if any(beyond) else labels
    return array if array.dtype.kind in "iu" else labels


def _numbers_of_days(days: Any) -> NDArray:
    """Days, times or spans as whole numbers in their order, or as the objects that they are."""
    array = np.asarray(days)
    if array.dtype.kind not in "mM":
        return array
    counts = array.astype(np.int64)
    missing = np.isnat(array)
    if not missing.any():
        return counts
    objects = counts.astype(object)
    objects[missing] = None
    return objects
