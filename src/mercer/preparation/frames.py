"""Data frames of any library, by way of narwhals."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from mercer._runtime.messages import shown

__all__ = ["columns_of", "frame_of", "in_order", "plain_numbers", "rows_of"]

_SHOWN = 5  # missing columns that a message names
_SHORT = frozenset(map(np.dtype, ("f4", "i1", "i2", "u1", "u2", "?")))  # float32 holds these
_NUMBERS = _SHORT.union(map(np.dtype, ("f8", "i4", "i8", "u4", "u8")))


def frame_of(X: Any) -> nw.DataFrame | None:
    """X as a frame of narwhals, lazy ones collected; None if no library of frames made it."""
    if isinstance(X, nw.DataFrame):
        return _with_plain_types(X)
    if isinstance(X, np.ndarray):
        return None
    try:
        frame = nw.from_native(X, pass_through=True)
    except nw.exceptions.DuplicateError:
        names = [str(name) for name in X.columns]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"X must name every column once; {twice!r} stands twice.") from None
    if isinstance(frame, nw.LazyFrame):
        frame = frame.collect()
    return _with_plain_types(frame) if isinstance(frame, nw.DataFrame) else None


def plain_numbers(X: Any, names: list[str]) -> NDArray | None:
    """Numbers (n, d) of a frame of pandas or Polars, float32 if exact; None if checks are needed.

    They are not if the frame has exactly these columns in this order, each of numbers or booleans
    of NumPy's types, has rows, and has no infinite number.
    """
    library = type(X).__module__.partition(".")[0]
    if type(X) is not getattr(sys.modules.get(library), "DataFrame", None) or not len(X):
        return None
    if list(X.columns) != names:
        return None
    if library == "pandas" and all(map(_is_plain, kinds := X.dtypes.tolist())):
        values = X.to_numpy(np.float64)
        values = values.astype(np.float32) if _SHORT.issuperset(kinds) else values
    elif library == "polars" and set(map(str, X.dtypes)) == {"Float64"}:
        values = X.to_numpy()
    else:
        return None
    return None if np.isinf(values).any() else np.ascontiguousarray(values)


def columns_of(table: Any) -> Iterator[Any]:
    """The columns of an array or a frame; arrays of pandas' columns in types that NumPy has.

    Series of narwhals take four times as long for one row.
    """
    if not (isinstance(table, nw.DataFrame) and table.implementation.is_pandas()):
        yield from table.iter_columns() if isinstance(table, nw.DataFrame) else table.T
        return
    native = table.to_native()
    for name, kind in zip(table.columns, native.dtypes.tolist(), strict=True):
        if _is_plain(kind) or kind == "datetime64[us]":
            yield native[name].to_numpy()
        elif kind in ("object", "str"):
            yield native[name].to_numpy(dtype=object)
        else:
            yield table.get_column(name)


def _is_plain(kind: object) -> bool:
    """Whether a dtype of pandas is one of NumPy's numbers; others take long to hash."""
    return isinstance(kind, np.dtype) and kind in _NUMBERS


def _with_plain_types(frame: nw.DataFrame) -> nw.DataFrame:
    """A frame of PyArrow, or of pandas with columns of PyArrow, without types that few take."""
    table = frame.to_native()
    if frame.implementation.is_pyarrow():
        from mercer.datasets.arrow import plain_table  # which no other table needs

        plain = plain_table(table)
        return frame if plain is table else nw.from_native(plain, eager_only=True)
    if frame.implementation.is_pandas():
        places = [i for i, kind in enumerate(table.dtypes) if hasattr(kind, "pyarrow_dtype")]
        changed = {}
        if places:
            from mercer.datasets.arrow import plain_column  # which no other table needs
        for name in (table.columns[place] for place in places):
            cells = table[name].array
            column = cells.__arrow_array__()
            plain = plain_column(column)
            if plain is not column:
                changed[name] = type(cells)(plain)
        return nw.from_native(table.assign(**changed), eager_only=True) if changed else frame
    return frame


def in_order(
    frame: nw.DataFrame, names: Sequence[str], unused: Callable[[], Sequence[str]] = list
) -> nw.DataFrame:
    """Columns of the fit in order; absent ``unused`` ones become NaN, others are a ValueError."""
    present = set(frame.columns)
    lacking = [name for name in names if name not in present]
    if lacking:
        spared = set(unused())
        fill = [nw.lit(float("nan")).alias(name) for name in lacking if name in spared]
        lacking = [name for name in lacking if name not in spared]
        frame = frame.with_columns(*fill) if fill and not lacking else frame
    if lacking:
        more = f" and {len(lacking) - _SHOWN} more" if len(lacking) > _SHOWN else ""
        raise ValueError(
            f"X must have the columns of the fit; it lacks {shown(lacking[:_SHOWN])}{more}."
        )
    return frame if frame.columns == list(names) else frame.select(*names)


def rows_of(table: Any, rows: NDArray) -> Any:
    """Some rows of a frame of narwhals, an array or a CSR matrix."""
    return table[rows]
