"""A table by columns: numbers, labels and dates, whatever library it comes from."""

from __future__ import annotations

import re
import warnings
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import date, time, timedelta
from decimal import Decimal
from numbers import Real
from typing import Any

import narwhals as nw
import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils.validation import check_array, validate_data

from mercer._runtime.messages import shown, too_large
from mercer._runtime.numerals import EXACT, are_names, warn_of_thousands
from mercer._runtime.rows import FarRows
from mercer._runtime.sparse import canonical_csr, floats_of
from mercer._runtime.validation import is_plain
from mercer.preparation.frames import columns_of, frame_of, in_order
from mercer.preparation.recognition import (
    COMMA,
    Unit,
    format_of,
    is_date,
    is_nothing,
    read_as,
    unit_of,
)

__all__ = ["Labels", "Reading", "TableColumns", "checked_table", "column_names", "read"]

_SHORT = ("f2", "f4", "i1", "i2", "u1", "u2", "b1")  # held exactly by float32
_MOST_DIGITS = 10**4000  # Python refuses to write whole numbers of more than 4300 digits
_WHOLE = re.compile(r"\s*[+-]?\d{1,4000}\s*")
_SHORT_TYPES = (nw.Float32, nw.Int8, nw.Int16, nw.UInt8, nw.UInt16, nw.Boolean)


@dataclass(frozen=True)
class Reading:
    """Kinds and formats of the columns of a table, as the first reading found them."""

    kinds: list[str]  # "number", "label" or "date"
    formats: list[str]  # of cells that were texts, "" for all others
    unused: frozenset[int] = frozenset()  # places of columns that are not read

    @property
    def is_plain(self) -> bool:
        """Whether all columns were numbers, none of them written as texts."""
        return set(self.kinds) <= {"number"} and not any(self.formats)


@dataclass(frozen=True)
class Labels:
    """A column of labels: the different ones as texts, and which each row has, -1 for none."""

    texts: list[str]
    codes: NDArray[np.int64]

    def numbered(self, known: Mapping[str, int]) -> NDArray[np.int64]:
        """Number of every row's label: len(known) if it is not there, -1 for none."""
        places = [known.get(text, len(known)) for text in self.texts]
        return np.array([*places, -1], dtype=np.int64)[self.codes]


@dataclass
class TableColumns:
    """The columns of a table by kind; labels and dates have their places in it."""

    names: list[str]  # of all columns of the table
    numbers: NDArray  # (n, p), NaN where nothing is known
    places: NDArray[np.int64]  # of these p columns in the table
    labels: dict[int, Labels] = field(default_factory=dict)
    dates: dict[int, NDArray] = field(default_factory=dict)  # datetime64[us], (n,)
    formats: dict[int, str] = field(default_factory=dict)  # in which texts were read as other kinds

    @property
    def n_rows(self) -> int:
        """n."""
        return len(self.numbers)

    def number(self, place: int) -> NDArray:
        """The column of numbers of that place in the table."""
        return self.numbers[:, int(np.flatnonzero(self.places == place)[0])]

    def reading(self) -> Reading:
        """Kind and format of every column of the table."""
        kinds = dict.fromkeys(self.places.tolist(), "number")
        kinds |= dict.fromkeys(self.labels, "label") | dict.fromkeys(self.dates, "date")
        places = range(len(kinds))
        return Reading([kinds[i] for i in places], [self.formats.get(i, "") for i in places])


def checked_table(estimator: Any, X: Any, reset: bool) -> Any:
    """A frame of narwhals, an array or a CSR matrix; refused if empty, complex or infinite.

    The estimator learns its width and names if ``reset``; else columns of a frame are found by
    their names, and those of an array have to be as many.
    """
    if isinstance(X, FarRows):
        return X.checked_for(estimator, reset)
    if isinstance(X, TableColumns):  # checked before they were read
        return X
    if not reset and is_plain(X, estimator):
        return X
    frame = frame_of(X)
    if frame is not None:
        names = getattr(estimator, "feature_names_in_", None)
        if not reset and names is not None and all(isinstance(n, str) for n in frame.columns):
            frame = in_order(frame, names.tolist(), getattr(estimator, "_unused_columns", list))
        if reset or names is None or frame.columns != names.tolist():
            validate_data(estimator, frame.to_native(), reset=reset, skip_check_array=True)
        if not all(frame.shape):
            check_array(np.empty(frame.shape, dtype=np.bool_), dtype=None, estimator=estimator)
        return frame
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
    X = canonical_csr(X, rounds=False)
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
    if isinstance(X, FarRows) and X.names is not None:
        return X.names
    is_frame = isinstance(X, nw.DataFrame)
    return [str(name) for name in X.columns] if is_frame else [f"x{j}" for j in range(X.shape[1])]


def read(X: Any, names: list[str], like: Reading | None = None) -> TableColumns:
    """The columns of a frame or of an array, each as the kind it is or, where given, has to be.

    ``names`` are what messages call the columns, ``like`` is how the table was read when it was met
    first. A column that is of no use, or cannot be what it was before, is refused.
    """
    is_plain = isinstance(X, np.ndarray) and X.dtype.kind in "biuf"
    if is_plain and (not _may_be_names(X) if like is None else like.is_plain):
        return TableColumns(names, _floats(X), np.arange(X.shape[1]))
    numbers, places = [], []
    columns = TableColumns(names, np.empty((len(X), 0)), np.empty(0, dtype=np.int64))
    for place, column in enumerate(columns_of(X)):
        if like is not None and place in like.unused:
            value, is_text = _nothing(like.kinds[place], len(X)), False
        else:
            value, is_text = _as_numbers_or_more(column, names[place])
        if like is not None and place not in like.unused:
            value = _as_before(value, like.kinds[place], like.formats[place], names[place], column)
        elif like is None and is_text and isinstance(value, Labels):
            value, columns.formats[place] = _recognised(value, names[place])
        elif like is None and not isinstance(value, Labels) and _may_be_names(value):
            value = _names(column, value)
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


def _may_be_names(numbers: NDArray) -> bool:
    """Whether float64 cannot hold all whole numbers of the size of some of these."""
    if numbers.dtype.kind not in "iuf" or numbers.dtype.itemsize < 8 or not numbers.size:
        return False
    return bool(np.fmax.reduce(numbers, axis=None) > EXACT) or bool(
        np.fmin.reduce(numbers, axis=None) < -EXACT
    )


def _names(column: Any, numbers: NDArray) -> Any:
    """Labels of whole numbers that float64 does not hold and that name something; else numbers."""
    kind = getattr(column.dtype, "kind", "")
    if kind == "f" or (isinstance(column, nw.Series) and column.dtype.is_float()):
        return numbers
    missing = np.isnan(numbers)
    cells = column.to_list() if isinstance(column, nw.Series) else column.tolist()
    present = [cell for cell, gone in zip(cells, missing.tolist(), strict=True) if not gone]
    if np.isinf(numbers).any() or any(cell != int(cell) for cell in present):
        return numbers
    whole = list(map(int, present))
    return _labels(whole, missing) if _are_names(whole) else numbers


def _are_names(whole: list[int]) -> bool:
    counts = Counter(whole)
    return are_names(list(counts), list(counts.values()))


def _floats(numbers: NDArray) -> NDArray:
    """Numbers as floats, float32 if exact."""
    short = numbers.dtype.str[1:] in _SHORT
    return numbers.astype(np.float32 if short else np.float64, copy=False)


def _as_numbers_or_more(column: Any, name: str) -> tuple[Any, bool]:
    """A column as numbers (float32 if exact), dates or Labels; and if texts are to be parsed."""
    if isinstance(column, nw.Series):
        return _of_series(column, name)
    if column.dtype.kind in "biuf":
        return _floats(column), False
    if column.dtype.kind == "M":
        return column.astype("datetime64[us]"), False
    if column.dtype.kind == "m":
        return _seconds(column), False
    if column.dtype.kind in "OUS":
        return _of_objects(column.tolist(), name), True
    raise _useless(name, str(column.dtype))


def _of_series(column: nw.Series, name: str) -> tuple[Any, bool]:
    """Values of a column of a frame, and whether they are labels."""
    dtype = column.dtype
    if dtype.is_numeric() or dtype == nw.Boolean:
        numbers = (column if dtype == nw.Float64 else column.cast(nw.Float64)).to_numpy()
        return numbers.astype(np.float32 if dtype in _SHORT_TYPES else np.float64), False
    if dtype in (nw.Datetime, nw.Date):
        if getattr(dtype, "time_zone", None):
            column = column.dt.convert_time_zone("UTC").dt.replace_time_zone(None)
        return column.cast(nw.Datetime("us")).to_numpy().astype("datetime64[us]"), False
    if dtype == nw.Duration:
        return column.dt.total_microseconds().cast(nw.Float64).to_numpy() / 1e6, False
    if dtype.is_nested():
        raise _useless(name, str(dtype))
    if dtype == nw.Unknown:  # a column of zeros only, as pandas has them without storing zeros
        native = column.to_native()
        kind = getattr(native, "dtype", getattr(native, "type", dtype))
        values = np.asarray(native)
        if values.dtype.kind not in "biuf":
            raise _useless(name, str(kind))
        return _floats(values), False
    if dtype in (nw.Categorical, nw.Enum):  # called labels by whom the table is from
        return _of_categories(column), False
    return _of_objects(column.to_list(), name), True


def _of_categories(column: nw.Series) -> Labels:
    """Labels of categories; of pandas, only categories that rows have are looked up."""
    missing, native = (gone := column.is_null()).to_numpy(), column.to_native()
    if not hasattr(getattr(native, "array", None), "categories"):
        return _labels(column.filter(~gone).to_list(), missing)
    codes = native.array.codes[~missing].tolist()
    known = {code: native.array.categories[code] for code in set(codes)}
    return _labels([known[code] for code in codes], missing)


def _of_objects(values: list, name: str) -> Labels | NDArray:
    """Python objects as numbers, dates or Labels, whatever they all are."""
    types = set(map(type, values))
    if types <= {str, type(None)}:  # which nearly all are: no cell is looked at but once
        missing = np.array([value is None for value in values], dtype=bool)
    else:
        missing = np.fromiter(map(_is_nothing, values), bool, len(values))
        types = {type(value) for value, gone in zip(values, missing, strict=True) if not gone}
    types.discard(type(None))
    present = [value for value, gone in zip(values, missing.tolist(), strict=True) if not gone]
    if types and all(issubclass(t, (Real, Decimal)) for t in types):
        numbers = np.full(len(values), np.nan)
        numbers[~missing] = floats = floats_of(present)
        if np.isinf(floats).any():
            _refuse_too_large(present, np.flatnonzero(~missing), floats, name)
        return numbers
    if types and all(issubclass(t, (date, np.datetime64)) for t in types):
        dates = np.full(len(values), "NaT", dtype="datetime64[us]")
        dates[~missing] = [_instant(value) for value in present]
        return dates
    if types and all(issubclass(t, (timedelta, np.timedelta64)) for t in types):
        spans = np.full(len(values), "NaT", dtype="timedelta64[us]")
        spans[~missing] = np.array(present, dtype="timedelta64[us]")
        return _seconds(spans)
    if types == {time}:
        clock = np.full(len(values), np.nan)
        clock[~missing] = [
            3600.0 * t.hour + 60.0 * t.minute + t.second + 1e-6 * t.microsecond for t in present
        ]
        return clock
    foreign = [t for t in types if not issubclass(t, (str, bytes, Real, Decimal, date))]
    if foreign:
        raise TypeError(
            f"X must hold numbers, strings or dates, and an argument must be a string or a "
            f"number; column {name!r} holds a {foreign[0].__name__}."
        )
    if not types:
        return np.full(len(values), np.nan)
    return _labels(present, missing)


def _refuse_too_large(present: list, rows: NDArray, floats: NDArray, name: str) -> None:
    """Raise for a finite number that overflows as a float."""
    for place in np.flatnonzero(np.isinf(floats)).tolist():
        if present[place] != float(floats[place]):
            raise ValueError(too_large("X", int(rows[place]), name))


def _labels(present: list, missing: NDArray[np.bool_]) -> Labels:
    """Label number of each row, -1 for missing cells."""
    kept = dict.fromkeys(present)
    texts = list(dict.fromkeys(_text(value) for value in kept))
    place = {text: i for i, text in enumerate(texts)}
    code = {value: place[_text(value)] for value in kept}
    codes = np.full(len(missing), -1, dtype=np.int64)
    codes[~missing] = np.fromiter(map(code.__getitem__, present), np.int64, len(present))
    return Labels(texts, codes)


def _recognised(labels: Labels, column: str) -> tuple[Any, str]:
    """Numbers or dates that the texts stand for, and their format; else the labels and ""."""
    name = format_of(labels.texts)
    if name.endswith(COMMA):
        present = [text for text in labels.texts if not is_nothing(text)]
        warn_of_thousands(present, f"column {column!r}")
    if not name:
        return labels, ""
    values = _in_format(labels, name)
    if name == "number" and _may_be_names(values):
        whole = [int(text) if _WHOLE.fullmatch(text) else None for text in labels.texts]
        rows = [whole[code] for code in labels.codes.tolist() if code >= 0]
        if _are_names([number for number in rows if number is not None]):
            return labels, ""
    return values, name


def _in_format(labels: Labels, name: str) -> NDArray:
    """Numbers or dates of every row, missing for texts without a form."""
    nothing = np.array(["NaT"], dtype="datetime64[us]") if is_date(name) else np.array([np.nan])
    return np.concatenate([read_as(labels.texts, name), nothing])[labels.codes]


def _as_before(value: Any, kind: str, form: str, name: str, column: Any) -> Any:
    """A column, read as ``value``, as the kind it was when the table was met first."""
    is_labels = isinstance(value, Labels)
    met = "label" if is_labels else "date" if value.dtype.kind == "M" else "number"
    if met == kind == "number" and (unit := unit_of(form)) and not _holds_spans(column):
        return _in_unit(value, unit, name)
    if met == kind:
        return value
    if met == "number" and np.isnan(value).all():  # nothing is known of any row
        return _nothing(kind, len(value))
    if kind == "label" and met == "number":
        missing = np.isnan(value)
        cells = column.to_list() if isinstance(column, nw.Series) else column.tolist()
        # Floats would make one label of two whole numbers beyond 2**53.
        return _labels([c for c, gone in zip(cells, missing, strict=True) if not gone], missing)
    wrong = f"{met}s"
    if is_labels:
        known = form or format_of(value.texts)
        if known and is_date(known) == (kind == "date"):
            _refuse_unit(value, form, known, name)
            read_now = _in_format_or_bare(value, known, name)
            unread = np.isnat(read_now) if kind == "date" else np.isnan(read_now)
            text = _wrong_text(value, unread)
            if text is None or not unread.all():
                _warn_of(text, kind, name)
                return read_now
        wrong = _first_wrong(value, kind)
    raise ValueError(f"column {name!r} must hold {kind}s, as it did at fit; it holds {wrong}.")


def _nothing(kind: str, n: int) -> Labels | NDArray:
    """A column of missing cells."""
    if kind == "label":
        return Labels([], np.full(n, -1))
    return np.full(n, "NaT", dtype="datetime64[us]") if kind == "date" else np.full(n, np.nan)


def _holds_spans(column: Any) -> bool:
    """Whether cells are time spans, whose unit is known, and not numbers."""
    if isinstance(column, nw.Series):
        return bool(column.dtype == nw.Duration)
    if column.dtype.kind != "O":
        return bool(column.dtype.kind == "m")
    return any(isinstance(value, (timedelta, np.timedelta64)) for value in column.tolist())


def _in_unit(numbers: NDArray, unit: Unit, name: str) -> NDArray:
    """Numbers without the unit that the texts of the fit had, in that unit."""
    known = numbers[np.isfinite(numbers)]
    if len(known) and unit.word:
        shown_number = f"{known[0]:g}"
        warnings.warn(
            f"column {name!r} held {unit.word} at fit and holds plain numbers, such as "
            f"{shown_number}, which are read as {shown_number}{unit.sign}.",
            UserWarning,
            stacklevel=2,
        )
    return numbers * unit.factor if unit.factor != 1.0 else numbers


def _in_format_or_bare(labels: Labels, form: str, name: str) -> NDArray:
    """Numbers or dates of every row, also of texts without the unit of the format."""
    values = _in_format(labels, form)
    unit = unit_of(form)
    if unit is None or not np.isnan(values).any():
        return values
    bare = np.where(np.isnan(values), _in_format(labels, unit.bare), np.nan)
    return np.where(np.isnan(values), _in_unit(bare, unit, name), values)


def _refuse_unit(labels: Labels, form: str, known: str, name: str) -> None:
    """Raise if texts are percentages where the fit met plain numbers."""
    unit = unit_of(known)
    if not form and unit is not None and unit.factor != 1.0:
        text = next(text for text in labels.texts if not is_nothing(text))
        raise ValueError(
            f"column {name!r} must hold plain numbers, as it did at fit; it holds {unit.word}, "
            f"such as {shown(text)}: write them as numbers in the unit of the fit."
        )


def _first_wrong(labels: Labels, kind: str) -> str:
    """The first cell that is no number or date, and its row."""
    for row, code in enumerate(labels.codes.tolist()):
        text = labels.texts[code] if code >= 0 else ""
        form = "" if is_nothing(text) else format_of([text])
        if not is_nothing(text) and (not form or is_date(form) != (kind == "date")):
            return f"{shown(text)} in row {row}"
    return "labels"


def _wrong_text(labels: Labels, unread: NDArray[np.bool_]) -> str | None:
    """A text that could not be read and does not mark a missing cell, or None."""
    texts = (labels.texts[code] for code in np.unique(labels.codes[unread]) if code >= 0)
    return next((text for text in texts if not is_nothing(text)), None)


def _warn_of(wrong: str | None, kind: str, name: str) -> None:
    """Say which text of a column is not in the format of the fit, if one is not."""
    if wrong is not None:
        warnings.warn(
            f"column {name!r} holds {shown(wrong)}, which is no {kind} as at fit; such cells count "
            "as missing.",
            UserWarning,
            stacklevel=2,
        )


def _text(value: Any) -> str:
    """The name of a label: the same for 1, 1.0 and "1", another one for each other number."""
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    if not isinstance(value, Real) or isinstance(value, (bool, np.bool_)):
        return str(value)
    with suppress(OverflowError, ValueError):  # of infinity
        if (whole := int(value)) == value:  # type: ignore[call-overload]
            return str(whole) if abs(whole) < _MOST_DIGITS else hex(whole)
    with suppress(OverflowError):  # of fractions of large numbers
        if (number := float(value)) == value:
            return str(number)
    return str(value)


def _instant(value: Any) -> np.datetime64:
    if getattr(value, "tzinfo", None) is not None:
        value = value.replace(tzinfo=None) - value.utcoffset()
    return np.datetime64(value, "us")


def _seconds(spans: NDArray) -> NDArray[np.float64]:
    return spans.astype("timedelta64[us]") / np.timedelta64(1, "s")


def _is_nothing(value: Any) -> bool:
    """True for None and for objects that do not equal themselves, such as NaN."""
    try:
        return value is None or bool(value != value)
    except (TypeError, ValueError, ArithmeticError):  # of pandas.NA and of Decimal("sNaN")
        return not isinstance(value, (list, dict, np.ndarray))


def _useless(name: str, kind: str) -> TypeError:
    return TypeError(
        f"X must hold numbers, strings, booleans or dates; column {name!r} holds {kind}."
    )
