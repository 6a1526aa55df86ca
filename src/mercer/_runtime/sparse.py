"""Rows from outside: no sparse matrix reaches compiled code before its indices were looked at."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import suppress
from datetime import date, timedelta
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from mercer._runtime.arrays import check_memory
from mercer._runtime.messages import shown, too_large
from mercer._runtime.numerals import EXACT, float_of

__all__ = [
    "OF_DATES",
    "canonical_csr",
    "check_shape",
    "compressed",
    "floats_of",
    "holds_dates",
    "refuse_foreign",
]

OF_DATES = "derive numbers from them, such as days since a first date"  # the remedy in errors

# Bytes that the scale, the norm and so on of a row or column take, and how many need no question.
_BYTES = 32.0
_FEW = 1 << 20
# Numbers that SciPy's routines cannot add, and the type that holds them.
_WIDER = {"e": np.float32, "g": np.float64, "O": np.float64}


def canonical_csr(X: Any, name: str = "X", rounds: bool = True) -> Any:
    """``X`` or, where it is sparse, its canonical CSR matrix, a copy; errors call it ``name``.

    SciPy's compiled routines read and write wherever the indices of a matrix point, so that they
    are checked first, and flags for sorted or unique entries are not believed. Masks and dates are
    refused. Numbers that float64 rounds to one are a warning unless not ``rounds``.
    """
    if not sparse.issparse(X):
        refuse_foreign(X, name)
        _refuse_too_large(X, name)
        if rounds:
            _warn_of_rounding(X, name)
        return X
    if X.ndim != 2:
        raise ValueError(f"{name} must have two dimensions; got shape {X.shape}.")
    check_shape(X.shape, name)
    if X.format not in _FORMATS:
        raise TypeError(f"{name} must be of a format of scipy.sparse; got {X.format!r}.")
    matrix = _FORMATS[X.format](X, name)
    if not matrix.has_canonical_format:
        matrix = matrix.copy()
        matrix.sum_duplicates()
    return matrix


def floats_of(values: list) -> NDArray[np.float64]:
    """Numbers of Python as floats, those beyond the range of floats as infinity."""
    try:
        with np.errstate(over="ignore"):
            return np.array(values, dtype=np.float64)
    except OverflowError:
        return np.array([float_of(value) for value in values])


def _refuse_too_large(X: Any, name: str) -> None:
    """Raise a ValueError for a Python number beyond the range of floats, with its place."""
    columns = getattr(X, "dtypes", None)  # of a table
    kinds = [getattr(X, "dtype", None), *(columns if np.iterable(columns) else ())]
    if not isinstance(X, (list, tuple)) and object not in kinds:
        return
    try:
        cells = np.asarray(X, dtype=object)
        cells.astype(np.float64)
        return
    except (TypeError, ValueError):  # scikit-learn says what is wrong
        return
    except OverflowError:
        if cells.ndim != 2:
            return
    floats = floats_of(cells.ravel().tolist()).reshape(cells.shape)
    row, place = np.argwhere(np.isinf(floats))[0].tolist()
    column = f"x{place}" if columns is None else str(X.columns[place])
    raise ValueError(too_large(name, row, column))


def _warn_of_rounding(X: Any, name: str) -> None:
    """Warn if a column of a dense table holds two whole numbers that are one float64."""
    for column, values in _columns_of_integers(X):
        if not values.size or max(int(values.max()), -int(values.min())) <= EXACT:
            continue
        found = np.unique(values)
        same = np.flatnonzero(np.diff(found.astype(np.float64)) == 0.0)
        if len(same):
            one, other = found[same[0] : same[0] + 2].tolist()
            warnings.warn(
                f"column {column!r} of {name} holds whole numbers beyond 2**53 that float64 "
                f"rounds to one, such as {one} and {other}; subtract an offset from the column, "
                "or leave it out if it numbers the rows.",
                UserWarning,
                stacklevel=4,
            )
            return


def _columns_of_integers(X: Any) -> Iterator[tuple[str, NDArray]]:
    """Names and values of the columns of 64-bit integers."""
    if isinstance(X, (list, tuple)):
        with suppress(Exception):  # scikit-learn says what is wrong
            X = np.asarray(X)
    if isinstance(X, np.ndarray):
        if X.ndim == 2 and X.dtype.kind in "iu" and X.dtype.itemsize == 8:
            yield from ((f"x{j}", X[:, j]) for j in range(X.shape[1]))
        return
    kinds = getattr(X, "dtypes", None)  # of a table
    if np.iterable(kinds) and hasattr(X, "columns"):
        for column, kind in zip(X.columns, kinds, strict=True):
            if str(kind).lower() in ("int64", "uint64"):
                values = np.asarray(X[column])
                if values.dtype.kind in "iu":  # not so where cells are missing
                    yield str(column), values


def refuse_foreign(values: Any, name: str) -> None:
    """Raise a TypeError for masks and dates, which NumPy would turn into unrelated numbers."""
    if isinstance(values, np.ma.MaskedArray):
        raise TypeError(f"{name} must not be masked; fill it in, or leave those rows out.")
    columns = getattr(values, "dtypes", None)  # of a table; a column has one
    for dtype in [getattr(values, "dtype", None), *(columns if np.iterable(columns) else ())]:
        kind = getattr(dtype, "kind", None)
        if kind in ("M", "m", "V"):
            remedy = "" if kind == "V" else f": {OF_DATES}"
            raise TypeError(f"{name} must hold numbers; got dtype {dtype}{remedy}.")


def holds_dates(values: Any) -> bool:
    """True for an array or a list of dates, times or time spans; the first object decides."""
    dtype = getattr(values, "dtype", None)
    kind = getattr(dtype, "kind", None)
    is_temporal = getattr(dtype, "is_temporal", None)  # of polars
    if kind in ("M", "m") or (callable(is_temporal) and is_temporal()):
        return True
    if not (kind == "O" or isinstance(values, (list, tuple))):
        return False
    first = values[0] if isinstance(values, (list, tuple)) and values else None
    if kind == "O":
        first = next(iter(np.asarray(values).flat), None)
    return isinstance(first, (date, timedelta, np.datetime64, np.timedelta64))


def check_shape(shape: tuple[int, int], name: str) -> None:
    """Raise if a few numbers for every row and column of such a matrix would not fit."""
    if max(shape) > _FEW:
        check_memory(
            _BYTES * max(shape),
            f"{name} with {shape[0]} rows and {shape[1]} columns",
            "leave out those without an entry",
        )


def compressed(
    kind: str,
    data: Any,
    indices: Any,
    indptr: Any,
    shape: tuple[int, int],
    name: str = "X",
    flavour: str = "array",
) -> Any:
    """A "csr", "csc" or "bsr" matrix of uncopied arrays, of either of SciPy's interfaces."""
    data = _numbers(data, name, n_dimensions=3 if kind == "bsr" else 1)
    words, (n_major, n_minor) = ("row", "column"), _in_blocks(data, shape, name)
    if kind == "csc":
        words, (n_major, n_minor) = ("column", "row"), (n_minor, n_major)
    pointers = _pointers(indptr, n_major, name, words[0])
    indices, end = _integers(indices, f"{name}.indices"), int(pointers[-1])
    if len(indices) != len(data) or end > len(data):
        raise ValueError(
            f"{name} must have an index for every entry and an indptr that ends with them; got "
            f"{len(indices)} indices for {len(data)} entries and an indptr that ends at {end}."
        )
    _check_within(indices[:end], n_minor, name, words[1])
    # Made of nothing, for the constructor would look at all indices and copy long ones.
    blocks = {"blocksize": data.shape[1:]} if kind == "bsr" else {}
    made = getattr(sparse, f"{kind}_{flavour}")(shape, dtype=data.dtype, **blocks)
    made.data, made.indices, made.indptr = data[:end], indices[:end], pointers
    return made


def _in_blocks(data: NDArray, shape: tuple[int, int], name: str) -> tuple[int, int]:
    """The shape, counted in blocks where the entries are some."""
    if data.ndim == 1:
        return shape
    (n, d), (height, width) = shape, data.shape[1:]
    if not height or not width or n % height or d % width:
        raise ValueError(
            f"{name} must have blocks that divide its shape {shape}; got some of shape "
            f"{data.shape[1:]}."
        )
    return n // height, d // width


def _pointers(indptr: Any, n_major: int, name: str, word: str) -> NDArray:
    """The start and end of every row, or column."""
    pointers = _integers(indptr, f"{name}.indptr")
    if len(pointers) != n_major + 1:
        raise ValueError(
            f"{name}.indptr must have {n_major + 1} entries, one more than there are {word}s; "
            f"got {len(pointers)}."
        )
    if pointers[0] != 0:
        raise ValueError(f"{name}.indptr must start at 0; got {pointers[0]}.")
    falls = pointers[1:] < pointers[:-1]
    if falls.any():
        at = int(np.argmax(falls))
        raise ValueError(
            f"{name}.indptr must never fall; got {pointers[at]} and then {pointers[at + 1]} for "
            f"{word} {at}."
        )
    return pointers


def _from_compressed(X: Any, name: str) -> sparse.csr_array:
    made = compressed(X.format, X.data, X.indices, X.indptr, X.shape, name, _flavour(X))
    return made.tocsr()


def _from_coo(X: Any, name: str) -> sparse.csr_array:
    data = _numbers(X.data, name)
    return _from_entries(X, name, data, [_integers(c, f"{name}.coords") for c in X.coords])


def _from_dok(X: Any, name: str) -> sparse.csr_array:
    places = np.array(list(X.keys())).reshape(-1, 2)
    if not len(places):
        places = places.astype(np.int64)
    data = _numbers(np.fromiter(X.values(), dtype=X.dtype, count=len(places)), name)
    return _from_entries(X, name, data, [_integers(c, f"the keys of {name}") for c in places.T])


def _from_entries(X: Any, name: str, data: NDArray, places: list[NDArray]) -> sparse.csr_array:
    """Numbers at places, which may repeat."""
    if any(len(place) != len(data) for place in places):
        raise ValueError(
            f"{name} must have a row and a column for every entry; got "
            f"{' and '.join(str(len(place)) for place in places)} for {len(data)}."
        )
    for place, length, word in zip(places, X.shape, ("row", "column"), strict=True):
        _check_within(place, length, name, word)
    return _container(X, "coo")((data, tuple(places)), shape=X.shape).tocsr()


def _from_lil(X: Any, name: str) -> sparse.csr_array:
    counts = np.array([len(row) for row in X.rows], dtype=np.int64)
    if len(counts) != X.shape[0] or counts.tolist() != [len(row) for row in X.data]:
        raise ValueError(
            f"{name} must have a list of columns and one of numbers, equally long, for each of its "
            f"{X.shape[0]} rows."
        )
    # The number at the end makes empty lists integers, too.
    columns = np.array([*chain.from_iterable(X.rows), 0])[:-1]
    data = np.array([*chain.from_iterable(X.data), 0], dtype=X.dtype)[:-1]
    pointers = np.concatenate([[0], np.cumsum(counts)])
    return compressed("csr", data, columns, pointers, X.shape, name, _flavour(X))


def _from_dia(X: Any, name: str) -> sparse.csr_array:
    data, offsets = _numbers(X.data, name, n_dimensions=2), _integers(X.offsets, f"{name}.offsets")
    if len(offsets) != len(data) or len(np.unique(offsets)) != len(offsets):
        raise ValueError(
            f"{name} must have one offset for each of its {len(data)} diagonals, no two of them "
            f"equal; got {shown(offsets.tolist())}."
        )
    inside = (offsets > -X.shape[0]) & (offsets < X.shape[1])
    return _container(X, "dia")((data[inside], offsets[inside]), shape=X.shape).tocsr()


_FORMATS = dict.fromkeys(("csr", "csc", "bsr"), _from_compressed)
_FORMATS |= {"coo": _from_coo, "dok": _from_dok, "lil": _from_lil, "dia": _from_dia}


def _flavour(X: Any) -> str:
    return "array" if isinstance(X, sparse.sparray) else "matrix"


def _container(X: Any, kind: str) -> Any:
    """The class of a format with the interface of X."""
    return getattr(sparse, f"{kind}_{_flavour(X)}")


def _integers(values: Any, name: str) -> NDArray:
    """Indices as an array of signed integers of this machine."""
    integers = np.asarray(values)
    if integers.ndim != 1 or integers.dtype.kind not in "iu":
        raise TypeError(
            f"{name} must be a 1-dimensional array of integers; got shape "
            f"{integers.shape} and dtype {integers.dtype}."
        )
    if integers.dtype in (np.int32, np.int64):
        return integers
    if integers.dtype.kind == "u" and len(integers) and integers.max() > np.iinfo(np.int64).max:
        raise ValueError(f"{name} must be below 2**63; got {integers.max()}.")
    return integers.astype(np.int64)


def _numbers(values: Any, name: str, n_dimensions: int = 1) -> NDArray:
    """Entries in a type that SciPy's routines know."""
    numbers = np.asarray(values)
    if numbers.ndim != n_dimensions or numbers.dtype.kind not in "biufcO":
        raise TypeError(
            f"{name}.data must be a {n_dimensions}-dimensional array of numbers; got shape "
            f"{numbers.shape} and dtype {numbers.dtype}."
        )
    if numbers.dtype.char in _WIDER:
        try:
            return numbers.astype(_WIDER[numbers.dtype.char])
        except (TypeError, ValueError):
            raise TypeError(f"{name}.data must be numbers; got objects that are none.") from None
    return numbers.astype(numbers.dtype.newbyteorder("="), copy=False)


def _check_within(index: NDArray, length: int, name: str, word: str) -> None:
    # A negative number is a large one without its sign, so that one look tells both.
    if len(index) and index.view(f"u{index.dtype.itemsize}").max() >= length:
        bad = index[np.argmax((index < 0) | (index >= length))]
        raise ValueError(
            f"{name} must have {word} indices of at least 0 and below {length}; got {bad}."
        )
