"""A table by columns: numbers, labels and dates, whatever library it comes from."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import date, timedelta
from decimal import Decimal
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils.validation import check_array, validate_data

from mercer._sparse import sound

__all__ = ["Columns", "Labels", "checked_table", "column_names", "read"]

_SHORT = ("f2", "f4", "i1", "i2", "u1", "u2", "b1")  # held exactly by float32


@dataclass(frozen=True)
class Labels:
    """A column of labels: the different ones as texts, and which each row has, -1 for none."""

    texts: list[str]
    codes: NDArray[np.int64]

    def numbered(self, known: list[str]) -> NDArray[np.int64]:
        """Places in ``known`` of every row's label: len(known) if it is not there, -1 for none."""
        place = {text: i for i, text in enumerate(known)}
        places = [place.get(text, len(known)) for text in self.texts]
        return np.array([*places, -1], dtype=np.int64)[self.codes]


@dataclass
class Columns:
    """The columns of a table by kind, those of labels and dates by their places in it."""

    names: list[str]  # of all columns of the table
    numbers: NDArray  # (n, p), NaN where nothing is known
    places: NDArray[np.int64]  # of these p columns in the table
    labels: dict[int, Labels] = field(default_factory=dict)
    dates: dict[int, NDArray] = field(default_factory=dict)  # datetime64[us], (n,)

    @property
    def n_rows(self) -> int:
        """n."""
        return len(self.numbers)

    def kinds(self) -> list[str]:
        """ "number", "label" or "date" for every column of the table."""
        kinds = dict.fromkeys(self.places.tolist(), "number")
        kinds |= dict.fromkeys(self.labels, "label") | dict.fromkeys(self.dates, "date")
        return [kinds[place] for place in range(len(kinds))]


def checked_table(estimator: Any, X: Any, reset: bool) -> Any:
    """A frame as it is, or an array or CSR matrix; refused if it is empty, complex or infinite.

    The estimator learns its width and names if ``reset``, else they have to agree.
    """
    if _is_frame(X):
        validate_data(estimator, X, reset=reset, skip_check_array=True)
        check_array(np.empty(X.shape, dtype=np.bool_), dtype=None, estimator=estimator)
        return X
    if not (sparse.issparse(X) or hasattr(X, "dtype")):
        with suppress(ValueError):  # lists of rows: numbers stay numbers beside strings
            values = np.asarray(X)
            X = np.asarray(X, dtype=object) if values.dtype.kind in "US" else values
    kind = getattr(X, "dtype", np.dtype(object)).kind
    if isinstance(X, np.ma.MaskedArray):
        raise TypeError("X must not be masked; NaN or None may stand for what is missing.")
    if kind in "OUSMm" and not sparse.issparse(X):
        validate_data(estimator, X, reset=reset, dtype=None, ensure_all_finite=False)
        return np.asarray(X)
    X = sound(X)
    return validate_data(
        estimator,
        X,
        reset=reset,
        accept_sparse="csr",
        dtype="numeric",
        ensure_all_finite=not sparse.issparse(X) and "allow-nan",
    )


def column_names(X: Any) -> list[str]:
    """Names of the columns of a frame, or x0, x1 and so on."""
    return (
        [str(name) for name in X.columns] if _is_frame(X) else [f"x{j}" for j in range(X.shape[1])]
    )


def _is_frame(X: Any) -> bool:
    """Whether X is a table of pandas or polars."""
    return type(X).__module__.partition(".")[0] in ("pandas", "polars") and (
        hasattr(X, "shape") and hasattr(X, "columns")  # which a query and a column have not both
    )


def read(X: Any, names: list[str], kinds: list[str] | None = None) -> Columns:
    """The columns of a frame or of an array, each as the kind it is or, where given, has to be.

    ``names`` are what messages call the columns, ``kinds`` what they were when the table was met
    first. A column that is of no use, or cannot be what it was before, is refused.
    """
    all_numbers = kinds is None or all(kind == "number" for kind in kinds)
    if all_numbers and isinstance(X, np.ndarray) and X.dtype.kind in "biuf":
        return Columns(names, _floats(X), np.arange(X.shape[1]))
    numbers, places = [], []
    columns = Columns(names, np.empty((len(X), 0)), np.empty(0, dtype=np.int64))
    for place, column in enumerate(_each(X)):
        value = _as_numbers_or_more(column, names[place])
        if kinds is not None:
            value = _as_kind(value, kinds[place], names[place])
        if isinstance(value, Labels):
            columns.labels[place] = value
        elif value.dtype.kind == "M":
            columns.dates[place] = value
        else:
            numbers.append(value)
            places.append(place)
    if numbers:
        columns.numbers = np.column_stack(numbers)
        columns.places = np.array(places, dtype=np.int64)
    return columns


def _each(X: Any) -> Iterator[Any]:
    """The columns of a frame or an array."""
    if not _is_frame(X):
        yield from X.T
    elif type(X).__module__.startswith("polars"):
        yield from X.get_columns()
    else:
        for place in range(X.shape[1]):
            yield X.iloc[:, place]


def _floats(numbers: NDArray) -> NDArray:
    """Numbers as floats: float32 where these hold them exactly."""
    short = numbers.dtype.str[1:] in _SHORT
    return numbers.astype(np.float32 if short else np.float64, copy=False)


def _as_numbers_or_more(column: Any, name: str) -> Any:
    """A column as numbers, of float32 where these hold them exactly, dates or Labels."""
    module = type(column).__module__
    if module.startswith("polars"):
        return _of_polars(column, name)
    if module.startswith("pandas"):
        return _of_pandas(column, name)
    if column.dtype.kind in "biuf":
        return _floats(column)
    if column.dtype.kind == "M":
        return column.astype("datetime64[us]")
    if column.dtype.kind == "m":
        return _seconds(column)
    if column.dtype.kind in "OUS":
        values = column.astype(object)
        missing = np.fromiter(map(_is_nothing, values.tolist()), bool, len(values))
        return _of_objects(values, missing, name)
    raise _useless(name, str(column.dtype))


def _of_pandas(column: Any, name: str) -> Any:
    dtype = column.dtype
    if str(dtype) == "category":
        texts = [_text(value) for value in column.cat.categories.tolist()]
        return Labels(texts, column.cat.codes.to_numpy().astype(np.int64))
    kind = getattr(dtype, "kind", "O")
    if kind in "biuf":
        short = getattr(dtype, "itemsize", 8) <= 2 or str(dtype) == "float32"
        return column.to_numpy(dtype=np.float32 if short else np.float64, na_value=np.nan)
    if kind == "M":
        return column.to_numpy(dtype="datetime64[us]")
    if kind == "m":
        return _seconds(column.to_numpy(dtype="timedelta64[us]"))
    if kind == "O":
        missing = column.isna().to_numpy(dtype=bool)
        return _of_objects(column.astype(object).to_numpy(), missing, name)
    raise _useless(name, str(dtype))


def _of_polars(column: Any, name: str) -> Any:
    polars, dtype = sys.modules["polars"], column.dtype
    if dtype == polars.Duration:
        column = column.dt.total_microseconds() / 1e6
        dtype = column.dtype
    if dtype.is_numeric() or dtype in (polars.Boolean, polars.Null):
        short = str(dtype) in ("Float32", "Int8", "Int16", "UInt8", "UInt16", "Boolean")
        numbers = column.cast(polars.Float64).to_numpy()
        return numbers.astype(np.float32 if short else np.float64)
    if dtype in (polars.Date, polars.Datetime):
        return column.cast(polars.Datetime("us")).to_numpy().astype("datetime64[us]")
    if dtype.is_nested() or dtype in (polars.Binary, polars.Object):
        raise _useless(name, str(dtype))
    values = np.empty(len(column), dtype=object)
    values[:] = column.cast(polars.String).to_list()
    return _of_objects(values, column.is_null().to_numpy(), name)


def _of_objects(values: NDArray, missing: NDArray[np.bool_], name: str) -> Any:
    """Python objects as numbers, dates or Labels, whatever they all are."""
    present = values[~missing].tolist()
    types = set(map(type, present))
    if types and all(issubclass(t, (Real, Decimal)) for t in types):
        numbers = np.full(len(values), np.nan)
        numbers[~missing] = np.array(present, dtype=np.float64)
        return numbers
    if types and all(issubclass(t, (date, np.datetime64)) for t in types):
        dates = np.full(len(values), "NaT", dtype="datetime64[us]")
        dates[~missing] = [_instant(value) for value in present]
        return dates
    if types and all(issubclass(t, (timedelta, np.timedelta64)) for t in types):
        spans = np.full(len(values), "NaT", dtype="timedelta64[us]")
        spans[~missing] = np.array(present, dtype="timedelta64[us]")
        return _seconds(spans)
    foreign = [t for t in types if not issubclass(t, (str, bytes, Real, Decimal, date))]
    if foreign:
        raise TypeError(
            f"X must hold numbers, strings or dates, and an argument must be a string or a "
            f"number; column {name!r} holds a {foreign[0].__name__}."
        )
    if not types:
        return np.full(len(values), np.nan)
    return _labels(values, missing)


def _labels(values: NDArray, missing: NDArray[np.bool_]) -> Labels:
    listed = values.tolist()
    kept = dict.fromkeys(values[~missing].tolist())
    texts = list(dict.fromkeys(_text(value) for value in kept))
    place = {text: i for i, text in enumerate(texts)}
    code = {value: place[_text(value)] for value in kept}
    codes = np.fromiter((code.get(value, -1) for value in listed), np.int64, len(listed))
    codes[missing] = -1
    return Labels(texts, codes)


def _as_kind(value: Any, kind: str, name: str) -> Any:
    """A column as the kind it was when the table was met first."""
    is_labels = isinstance(value, Labels)
    met = "label" if is_labels else "date" if value.dtype.kind == "M" else "number"
    if met == kind:
        return value
    if met == "number" and np.isnan(value).all():  # nothing is known of any row
        if kind == "date":
            return np.full(len(value), "NaT", dtype="datetime64[us]")
        return Labels([], np.full(len(value), -1))
    if kind == "label" and met == "number":
        return _labels(value.astype(object), np.isnan(value))
    if is_labels:
        try:
            if kind == "number":
                table = np.array([*map(float, value.texts), np.nan])
            else:
                table = np.array([*value.texts, "NaT"], dtype="datetime64[us]")
            return table[value.codes]
        except ValueError:
            pass
    raise ValueError(f"column {name!r} must hold {kind}s, as it did at fit; it holds {met}s.")


def _text(value: Any) -> str:
    """The name of a label: the same for 1, 1.0 and "1"."""
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    if isinstance(value, Real) and not isinstance(value, (bool, np.bool_)):
        number = float(value)
        return str(int(number)) if number.is_integer() else str(number)
    return str(value)


def _instant(value: Any) -> np.datetime64:
    if getattr(value, "tzinfo", None) is not None:
        value = value.replace(tzinfo=None) - value.utcoffset()
    return np.datetime64(value, "us")


def _seconds(spans: NDArray) -> NDArray[np.float64]:
    return spans.astype("timedelta64[us]") / np.timedelta64(1, "s")


def _is_nothing(value: Any) -> bool:
    """Whether an object stands for nothing: None and what does not equal itself."""
    try:
        return value is None or bool(value != value)
    except (TypeError, ValueError):  # pandas.NA will not say
        return not isinstance(value, (list, dict, np.ndarray))


def _useless(name: str, kind: str) -> TypeError:
    return TypeError(
        f"X must hold numbers, strings, booleans or dates; column {name!r} holds {kind}."
    )
