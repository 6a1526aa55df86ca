"""Data frames of any library, by way of narwhals."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from mercer._runtime.messages import shown
from mercer.datasets.arrow import plain_column, plain_table

__all__ = ["frame_of", "in_order", "rows_of"]

_SHOWN = 5  # missing columns that a message names


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


def _with_plain_types(frame: nw.DataFrame) -> nw.DataFrame:
    """A frame of PyArrow, or of pandas with columns of PyArrow, without types that few take."""
    table = frame.to_native()
    if frame.implementation.is_pyarrow():
        plain = plain_table(table)
        return frame if plain is table else nw.from_native(plain, eager_only=True)
    if frame.implementation.is_pandas():
        places = [i for i, kind in enumerate(table.dtypes) if hasattr(kind, "pyarrow_dtype")]
        changed = {}
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
