"""Columns of PyArrow whose texts are numbers: decimal commas, thousands, codes."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer._runtime.numerals import are_thousands, warn_of_thousands

from .arrow import pyarrow

__all__ = [
    "as_numbers",
    "cells_as_numbers",
    "hold_codes",
    "hold_thousands",
    "may_be_thousands",
    "may_hold_codes",
    "text_among_numbers",
]

_COMMA = r"^[+-]?(?:(?:\d{1,3}(?:\.\d{3})+|\d+)(?:,\d*)?|,\d+)$"  # 1.234,5
_THOUSANDS = r"^[+-]?\d{1,3}(?:\.\d{3})*$"
_NUMBER = r"^[+-]?(?:\d+[.,]?\d*|[.,]\d+)(?:[eE][+-]?\d+)?$"
_CODE = r"^\s*[+-]?0\d+([.,]\d+)?\s*$"
_PIECE = 1 << 24  # bytes of text that are scanned at a time
_SIGNS = np.isin(np.arange(256), np.frombuffer(b"+-", np.uint8))
_DIGITS = np.isin(np.arange(256), np.frombuffer(b"0123456789", np.uint8))
# Bytes before the first one of a cell: delimiters, ends of lines, quotes and blanks.
_BEFORE = np.isin(np.arange(256), np.frombuffer(b',;\t\n\r" \xbf', np.uint8))


def as_numbers(column: Any, decimal: str, place: str) -> Any:
    """A column of texts as whole numbers or floats where all cells are numbers, else as it is.

    Cells with a digit behind a leading zero are no numbers. ``place`` names the column in the
    warning that points are read as between thousands.
    """
    arrow, compute = pyarrow(), pyarrow("compute")
    if hold_codes(column):
        return column
    text = compute.utf8_trim_whitespace(column)
    if decimal == ",":
        fits = compute.match_substring_regex(text, _COMMA)
        if not compute.all(compute.fill_null(fits, True)).as_py():
            return column
        text = _with_points(text)
    elif hold_thousands(text):
        warn_of_thousands(_different(text), place)
        text = compute.replace_substring(text, ".", "")
    for kind in (arrow.int64(), arrow.float64()):
        try:
            return text.cast(kind)
        except arrow.ArrowInvalid:
            continue
    return column


def cells_as_numbers(column: Any, decimal: str) -> Any:
    """A column of texts as floats if all cells are numbers, else as texts.

    Cells with a decimal comma, where the file has one, get a point in either case.
    """
    arrow, compute = pyarrow(), pyarrow("compute")
    text = compute.utf8_trim_whitespace(column)
    if decimal == ",":
        fits = compute.fill_null(compute.match_substring_regex(text, _COMMA), False)
        text = compute.if_else(fits, _with_points(text), text)
    try:
        return text.cast(arrow.float64())
    except arrow.ArrowInvalid:
        return text


def hold_codes(column: Any) -> bool:
    """Whether some text of a column has a digit behind a leading zero."""
    compute = pyarrow("compute")
    found = compute.any(compute.match_substring_regex(column, _CODE)).as_py()
    return bool(found)


def text_among_numbers(column: Any) -> tuple[int, str] | None:
    """The row, from 1 on, and the first text of a column that holds numbers, too."""
    compute = pyarrow("compute")
    text = compute.utf8_trim_whitespace(column)
    is_number = compute.fill_null(compute.match_substring_regex(text, _NUMBER), True)
    known = compute.and_(is_number, compute.is_valid(text))
    if not compute.any(known).as_py():
        return None
    row = compute.index(is_number, False).as_py()
    return None if row < 0 else (row + 1, str(column[row].as_py()))


def may_be_thousands(values: np.ndarray) -> bool:
    """Whether numbers may have been written with points between thousands, NaN aside.

    Numbers with three decimals, and whole ones below 1000, are both there, and no others.
    """
    present = np.abs(values[np.isfinite(values)])
    whole = present == np.floor(present)
    if whole.all() or not whole.any():
        return False
    fractions = present[~whole]
    if not ((present[whole] < 1000).all() and (fractions > 1).all() and (fractions < 1000).all()):
        return False
    return bool(np.allclose(fractions * 1000, np.rint(fractions * 1000), rtol=0, atol=1e-6))


def may_hold_codes(stream: Any) -> bool:
    """Whether a delimited text holds a cell that begins with a zero and another digit."""
    last = b"\n\n"
    while piece := stream.read(_PIECE):
        text = np.frombuffer(last + piece, np.uint8)
        zeros = np.flatnonzero((text[2:-1] == ord("0")) & _DIGITS[text[3:]]) + 2
        before, further = text[zeros - 1], text[zeros - 2]
        if (_BEFORE[before] | (_SIGNS[before] & _BEFORE[further])).any():
            return True
        last = (last + piece)[-3:]
    return False


def hold_thousands(column: Any) -> bool:
    """Whether the points of a column of texts stand between thousands."""
    compute = pyarrow("compute")
    text = compute.utf8_trim_whitespace(column)
    fits = compute.match_substring_regex(text, _THOUSANDS)
    return bool(compute.all(compute.fill_null(fits, True)).as_py()) and are_thousands(
        _different(text)
    )


def _different(text: Any) -> list[str]:
    return [cell for cell in pyarrow("compute").unique(text).to_pylist() if cell is not None]


def _with_points(text: Any) -> Any:
    """Numbers with a decimal comma as numbers with a decimal point and no other separator."""
    compute = pyarrow("compute")
    return compute.replace_substring(compute.replace_substring(text, ".", ""), ",", ".")
