"""Columns of PyArrow whose texts are numbers: decimal commas, thousands, codes."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from mercer._runtime.numerals import BETWEEN, EXACT, GROUPED, are_thousands, warn_of_thousands

from .arrow import pyarrow

__all__ = [
    "as_numbers",
    "cells_as_numbers",
    "hold_codes",
    "hold_names",
    "hold_thousands",
    "may_be_beyond",
    "may_be_thousands",
    "may_hold_codes",
    "text_among_numbers",
    "whole_as_text",
]

_COMMA = rf"^[+-]?(?:(?:\d{{1,3}}(?:[.{BETWEEN}]\d{{3}})+|\d+)(?:,\d*)?|,\d+)$"  # 1.234,5
_POINT = rf"^[+-]?(?:{GROUPED}|\d+)(?:\.\d*)?$"  # 1,234.5
_THOUSANDS = r"^[+-]?\d{1,3}(?:\.\d{3})*$"
_NUMBER = r"^[+-]?(?:\d+[.,]?\d*|[.,]\d+)(?:[eE][+-]?\d+)?$"
_CODE = r"^\s*[+-]?0\d+([.,]\d+)?\s*$"
_STARTS = re.compile(r"[+-]?0\d")  # of codes, the first three characters
_PIECE = 1 << 18  # bytes of text that are scanned at a time, a share of a processor's cache
_LOOK = 1000  # numbers of a column that may tell already
_REACH = 64  # bytes behind the start of a cell that tell whether it is a code
_SIGNS = np.isin(np.arange(256), np.frombuffer(b"+-", np.uint8))
# Bytes beside a cell: delimiters, ends of lines, quotes and blanks; the last of a byte order mark.
_BESIDE = np.isin(np.arange(256), np.frombuffer(b',;\t\n\r" \xbf', np.uint8))


def as_numbers(column: Any, decimal: str, place: str) -> Any:
    """A column of texts as numbers if all cells are numbers without leading zeros.

    ``place`` names the column in the warning that points are read as between thousands.
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
    for form, tidy in ((_POINT, _without_groups), (_COMMA, _with_points)):
        fits = compute.match_substring_regex(text, form)
        if compute.all(compute.fill_null(fits, True)).as_py():
            return tidy(text).cast(arrow.float64())
    return column


def cells_as_numbers(column: Any, decimal: str) -> Any:
    """A column of texts, with points for decimal commas, as floats if all cells are numbers."""
    arrow, compute = pyarrow(), pyarrow("compute")
    text = compute.utf8_trim_whitespace(column)
    if decimal == ",":
        fits = compute.fill_null(compute.match_substring_regex(text, _COMMA), False)
        text = compute.if_else(fits, _with_points(text), text)
    try:
        return text.cast(arrow.float64())
    except arrow.ArrowInvalid:
        return text


def whole_as_text(column: Any) -> Any:
    """A column of numbers, as texts if they are whole and some are beyond 2**53.

    Float64 holds few such numbers, but they may be names.
    """
    arrow, compute, types = pyarrow(), pyarrow("compute"), pyarrow().types
    kind = column.type
    if not (types.is_decimal(kind) or types.is_int64(kind) or types.is_uint64(kind)):
        return column
    ends = [end.as_py() or 0 for end in compute.min_max(column).values()]
    if max(map(abs, ends)) <= EXACT:
        return column
    try:
        whole = column.cast(arrow.decimal256(76, 0)) if types.is_decimal(kind) else column
    except arrow.ArrowInvalid:  # of fractions
        return column
    return arrow.array([None if cell is None else str(cell) for cell in whole.to_pylist()])


def may_be_beyond(values: np.ndarray) -> bool:
    """True if floats are whole and some are so large that they may be another whole number."""
    size = np.abs(values[np.isfinite(values)])
    return bool((size >= EXACT).any() and (size == np.floor(size)).all())


def hold_names(column: Any) -> bool:
    """Whether a column of texts has nothing but whole numbers, some of them beyond 2**53."""
    compute = pyarrow("compute")
    text = compute.utf8_trim_whitespace(column)
    fits = compute.fill_null(compute.match_substring_regex(text, r"^[+-]?\d+$"), True)
    return bool(compute.all(fits).as_py())


def hold_codes(column: Any) -> bool:
    """Whether some text of a column has a digit behind a leading zero."""
    compute = pyarrow("compute")
    text = compute.utf8_ltrim_whitespace(column)
    starts = compute.utf8_slice_codeunits(text, 0, 3)
    suspect = [start for start in _different(starts) if _STARTS.match(start)]
    if not suspect:
        return False
    text = text.filter(compute.is_in(starts, pyarrow().array(suspect, starts.type)))
    return bool(compute.any(compute.match_substring_regex(text, _CODE)).as_py())


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
    """True if all values have three decimals or are whole and below 1000, and both occur."""
    start = values[:_LOOK]
    if not _have_three_decimals(start[np.isfinite(start)]):
        return False
    present = values[np.isfinite(values)]
    whole = present == np.floor(present)
    return bool(whole.any() and not whole.all()) and _have_three_decimals(present)


def _have_three_decimals(numbers: np.ndarray) -> bool:
    """Whether numbers are whole and below 1000, or have three decimals between 1 and 1000."""
    size = np.abs(numbers)
    fits = np.abs(size * 1000 - np.rint(size * 1000)) <= 1e-6
    return bool((fits & (size < 1000) & ((size > 1) | (size == np.floor(size)))).all())


def may_hold_codes(stream: Any) -> bool:
    """True if a cell, or a quoted part of one, has a digit behind a leading zero."""
    text = np.full(_REACH + _PIECE, ord("\n"), np.uint8)
    while n_read := stream.readinto(text[_REACH:]):
        end = _REACH + n_read
        if _holds_code(text, end - _REACH):
            return True
        text[:_REACH] = text[end - _REACH : end].copy()
    text[_REACH:] = ord("\n")
    return _holds_code(text, _REACH)


def _holds_code(text: np.ndarray, stop: int) -> bool:
    """Whether a cell that starts at bytes 2 to ``stop`` + 1 may be a code."""
    is_digit = (text[: stop + _REACH] - ord("0")) < 10  # bytes below "0" wrap around
    is_start = text[2 : stop + 2] == ord("0")
    is_start &= is_digit[3 : stop + 3]
    is_start &= ~is_digit[1 : stop + 1]
    is_start &= text[1 : stop + 1] != ord(".")
    if not is_start.any():
        return False
    at = np.flatnonzero(is_start) + 2
    before, further = text[at - 1], text[at - 2]
    at = at[_BESIDE[before] | (_SIGNS[before] & _BESIDE[further])] + 1
    has_point = np.zeros(at.size, bool)
    for _ in range(_REACH - 4):
        at += 1
        byte = text[at]
        ends = _BESIDE[byte] & ((byte != ord(" ")) | _BESIDE[text[at + 1]])
        if ends.any():
            return True
        is_point = byte == ord(".")
        goes_on = is_digit[at] | (is_point & ~has_point)
        at, has_point = at[goes_on], (has_point | is_point)[goes_on]
        if not at.size:
            return False
    return True


def hold_thousands(column: Any) -> bool:
    """Whether the points of a column of texts stand between thousands."""
    compute = pyarrow("compute")
    for part in (column[:_LOOK], column):
        text = compute.utf8_trim_whitespace(part)
        fits = compute.match_substring_regex(text, _THOUSANDS)
        if not compute.all(compute.fill_null(fits, True)).as_py():
            return False
    return are_thousands(_different(text))


def _different(text: Any) -> list[str]:
    return [cell for cell in pyarrow("compute").unique(text).to_pylist() if cell is not None]


def _with_points(text: Any) -> Any:
    """Numbers with a decimal comma as numbers with a decimal point and no other separator."""
    compute = pyarrow("compute")
    text = compute.replace_substring_regex(text, f"[.{BETWEEN}]", "")
    return compute.replace_substring(text, ",", ".")


def _without_groups(text: Any) -> Any:
    """Numbers with a decimal point and no other separator."""
    return pyarrow("compute").replace_substring_regex(text, f"[,{BETWEEN}]", "")
