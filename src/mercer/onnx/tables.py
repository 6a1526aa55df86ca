"""Raw tables as numbers: what ``TablePreparer`` does, as a graph."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer.onnx.dates import cycles, days
from mercer.onnx.graph import TEXT, Graph, Value
from mercer.onnx.inputs import Inputs, no_text
from mercer.preparation import TablePreparer
from mercer.preparation.calendar import PARTS
from mercer.preparation.label_parts import Several
from mercer.preparation.labels import OneHot
from mercer.preparation.numeric import _BEND, _FAR, Numbers, Values
from mercer.preparation.quantities import Quantities
from mercer.preparation.recognition import TRUTH, TRUTHS
from mercer.preparation.texts import Texts

__all__ = ["prepared", "prepared_type"]

_BLANKS = (("", ""), (" ", ""), ("", " "), (" ", " "))  # before and behind words of booleans
_SHORT = (np.dtype(np.float32), np.dtype(bool), np.dtype(np.int8), np.dtype(np.int16))


def prepared(graph: Graph, preparer: TablePreparer, inputs: Inputs) -> Value:
    """``preparer.transform`` of a table, (n, m).

    Labels are texts, where an empty one that was not met at fit is missing; dates are int64
    microseconds since 1970, where the least integer is missing.
    """
    if preparer.sparse_scaler_ is not None:
        x = inputs.matrix(graph)
        result: Value = graph.op("Div", x, preparer.sparse_scaler_.scale_.astype(x.dtype))
        return graph.cast(result, prepared_type(preparer, inputs))
    kept = preparer._kept_
    pieces = [_numbers(graph, preparer.numbers_, _block(graph, preparer, inputs))]
    at = len(preparer.numbers_.names([""] * len(preparer._number_places_)))
    for place, part in preparer.parts_:
        width = len(part.names(""))
        if kept[at : at + width].any():
            pieces.append(_part(graph, preparer, place, part, inputs))
        else:  # left out, and so need not be made
            pieces.append(graph.zeros(pieces[0], width, np.float64))
        at += width
    for place in preparer._places("date"):
        pieces.append(cycles(graph, _dates(graph, preparer, place, inputs)))
        at += len(PARTS)
    joined = graph.joined(pieces)
    if not kept.all():
        joined = graph.columns(joined, np.flatnonzero(kept).tolist())
    return graph.cast(joined, prepared_type(preparer, inputs))


def prepared_type(preparer: TablePreparer, inputs: Inputs) -> np.dtype:
    """The type of the output."""
    if preparer._dtype_ is not None:
        return np.dtype(preparer._dtype_)
    if preparer.sparse_scaler_ is not None:
        return inputs.common_type
    numbers = [inputs.dtype(place) for place in preparer._places("number")]
    is_short = bool(numbers) and all(dtype in _SHORT for dtype in numbers)
    is_short &= not preparer._places("date")
    return np.dtype(np.float32 if is_short else np.float64)


def _block(graph: Graph, preparer: TablePreparer, inputs: Inputs) -> Value:
    """The numbers that are treated as such, then the days of the dates, in float64; (n, p)."""
    plain = preparer._number_places_[: -len(preparer._places("date")) or None]
    if len(inputs.values) == 1 and len(plain) == inputs.widths[0]:
        return graph.cast(_number(graph, inputs.values[0], preparer, 0), np.float64)
    columns = []
    for place in plain:
        columns.append(
            graph.cast(_number(graph, inputs.column(graph, place), preparer, place), np.float64)
        )
    for place in preparer._places("date"):
        columns.append(days(graph, _dates(graph, preparer, place, inputs)))
    if not columns:
        return graph.zeros(inputs.values[0], 0, np.float64)
    return graph.joined(columns)


def _number(graph: Graph, value: Value, preparer: TablePreparer, place: int) -> Value:
    """Numbers (n, w), those of booleans for texts."""
    if value.dtype != TEXT:
        return value
    if preparer.formats_[place] != TRUTH:
        raise no_text(preparer._names()[place], preparer.formats_[place])
    known = {
        text.join(blanks): number
        for word, number in TRUTHS.items()
        for text in (word, word.capitalize(), word.upper())
        for blanks in _BLANKS
    }
    known |= {"1": 1.0, "0": 0.0}  # as `feed` writes booleans
    return graph.op(
        "LabelEncoder",
        value,
        dtype=np.float32,
        keys_strings=list(known),
        values_floats=list(known.values()),
        default_float=np.nan,
    )


def _dates(graph: Graph, preparer: TablePreparer, place: int, inputs: Inputs) -> Value:
    """Microseconds since 1970, (n, 1)."""
    value = inputs.column(graph, place)
    if value.dtype != np.int64:
        raise ValueError(
            f"column {preparer._names()[place]!r} must be given as int64, microseconds since 1970, "
            f"for dates; the input is {value.dtype}."
        )
    return value


# Numbers.


def _numbers(graph: Graph, numbers: Numbers, block: Value) -> Value:
    """``Numbers.transform`` of a matrix of float64."""
    if not len(numbers.centre):
        return block
    z = graph.op("Div", graph.op("Sub", block, numbers.centre), numbers.unit)
    if numbers.treatment == "robust":
        z = graph.op("Clip", z, -_FAR, _FAR)
        curve = graph.op("Mul", z, 1.0 / _BEND)
        curve = graph.op("Sqrt", graph.op("Add", graph.op("Mul", curve, curve), 1.0))
        z = _chosen(graph, numbers.binary, z, graph.op("Div", z, curve))
    elif numbers.treatment == "quantile":
        z = _chosen(graph, numbers.binary, z, _ranks(graph, numbers.tables, block))
    z = graph.op("Div", graph.op("Sub", z, numbers.mean), numbers.deviation)
    middle = graph.constant(np.where(numbers.binary, 0.5, 0.0))
    unknown = graph.op("IsNaN", block, dtype=bool)
    z = graph.op("Where", unknown, middle, z, dtype=np.float64)
    if not len(numbers.marked):
        return z
    marks = graph.cast(graph.columns(unknown, numbers.marked.tolist()), np.float64)
    return graph.joined([z, marks])


def _chosen(graph: Graph, which: NDArray[np.bool_], yes: Value, no: Value) -> Value:
    """The columns of one matrix where ``which`` says so, else of the other."""
    if not which.any():
        return no
    result: Value = graph.op("Where", graph.constant(which), yes, no, dtype=yes.dtype)
    return result


def _ranks(graph: Graph, tables: list[tuple[NDArray, NDArray]], x: Value) -> Value:
    """``np.interp`` of every column in its own table, whose piece is found by halving."""
    bits = max(len(values) for values, _ in tables).bit_length()
    size, p = 1 << bits, len(tables)
    knots = np.full((p, size), np.inf)  # the first is below all, those to fill up above all
    levels, slopes = np.zeros((p, size)), np.zeros((p, size))
    for j, (values, ranks) in enumerate(tables):
        n = len(values)
        knots[j, 0], knots[j, 1 : n + 1] = -np.inf, values
        levels[j, 0], levels[j, 1 : n + 1] = ranks[0], ranks
        slopes[j, 1:n] = np.diff(ranks) / np.diff(values)
    starts = np.where(np.isfinite(knots), knots, 0.0)
    places = graph.constant(size * np.arange(p, dtype=np.int64))
    at = graph.op("Add", graph.zeros(x, p, np.int64), places)
    all_knots = graph.constant(knots.ravel())
    for bit in reversed(range(bits)):
        ahead = graph.op("Add", at, 1 << bit)
        knot = graph.op("Gather", all_knots, ahead, dtype=np.float64, axis=0)
        passed = graph.op("GreaterOrEqual", x, knot, dtype=bool)
        at = graph.op("Where", passed, ahead, at, dtype=np.int64)
    start, level, slope = (
        graph.op("Gather", graph.constant(table.ravel()), at, dtype=np.float64, axis=0)
        for table in (starts, levels, slopes)
    )
    return graph.op("Add", graph.op("Mul", graph.op("Sub", x, start), slope), level)


# Labels.


def _part(graph: Graph, preparer: TablePreparer, place: int, part: Any, inputs: Inputs) -> Value:
    """Columns (n, width) in float64 that a part makes of its column."""
    column, name = inputs.column(graph, place), preparer._names()[place]
    if isinstance(part, Values):
        wide = graph.cast(_number(graph, column, preparer, place), np.float64)
        return graph.cast(graph.op("Equal", wide, part.values[None], dtype=bool), np.float64)
    parts = part.parts if isinstance(part, Several) else [part]
    if any(isinstance(inner, (Texts, Quantities)) for inner in parts):
        raise ValueError(
            f"column {name!r} must hold numbers, labels or dates; it holds texts, whose words and "
            "numbers ONNX cannot read; convert them before the fit, or fit a TablePreparer of "
            "labels='codes'."
        )
    joined: Value = graph.joined([_of_labels(graph, inner, column, name) for inner in parts])
    return joined


def _of_labels(graph: Graph, part: Any, column: Value, name: str) -> Value:
    """Columns (n, width) of indicators, codes or counts of labels."""
    places = _places(graph, part.texts, column, name)
    if isinstance(part, OneHot):
        return _indicators(graph, part, places)
    codes = part.codes / part.unit if hasattr(part, "unit") else part.codes[:, None]
    flat = graph.op("Squeeze", places, [1])
    return graph.op(
        "Gather", graph.constant(codes.astype(np.float64)), flat, dtype=np.float64, axis=0
    )


def _indicators(graph: Graph, part: OneHot, places: Value) -> Value:
    """Columns (n, width) of ``OneHot.transform``."""
    n = len(part.texts)
    wanted = graph.constant(np.array([part.places()]))
    is_one = graph.cast(graph.op("Equal", places, wanted, dtype=bool), np.float64)
    if not part.unknown:
        return is_one
    # The place of a missing cell is the last: one that the fit met has a column.
    unknown = graph.op(
        "Equal" if part.missing else "GreaterOrEqual",
        places,
        graph.constant(np.array([[n]])),
        dtype=bool,
    )
    value = graph.constant(np.array([[part.unknown]]))
    result: Value = graph.op("Where", unknown, value, is_one, dtype=np.float64)
    return result


def _places(graph: Graph, texts: list[str], column: Value, name: str) -> Value:
    """Places of labels, (n, 1): len(texts) for one that was not met, then that of no label."""
    if column.dtype.kind in "iub":
        column = graph.cast(column, TEXT)
    elif column.dtype != TEXT:
        raise ValueError(f"column {name!r} must be given as texts, for labels; got {column.dtype}.")
    known = list(texts) if "" in texts else [*texts, ""]
    numbers = [*range(len(texts)), *([] if "" in texts else [len(texts) + 1])]
    return graph.op(
        "LabelEncoder",
        column,
        dtype=np.int64,
        keys_strings=known,
        values_int64s=numbers,
        default_int64=len(texts),
    )
