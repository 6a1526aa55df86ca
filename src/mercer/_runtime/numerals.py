"""Rules of written numbers: points between thousands, and digits that are codes."""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Collection, Iterable, Sequence
from typing import Any

__all__ = [
    "EXACT",
    "are_names",
    "are_thousands",
    "float_of",
    "is_code",
    "warn_of_thousands",
    "with_point",
]

# Apostrophes, blanks and the Arabic separator of thousands, which locales use beside , and .
BETWEEN = "'\u2019\u066c\u0020\u00a0\u202f\u2009"
# Whole numbers with groups of three digits or, as in India, of two before the last three.
GROUPED = rf"(?:\d{{1,3}}(?:[{BETWEEN},]\d{{3}})+|\d{{1,2}}(?:,\d{{2}})*,\d{{3}})"
EXACT = 2**53  # up to which float64 holds every whole number

_CODE = re.compile(r"\s*[+\-\u2212]?0\d+(?:[.,]\d+)?\s*")
# A number below 1000, or points between its thousands; with a unit or without.
_POINTED = re.compile(r"[^\d.,]*(?:[1-9]\d{0,2}(?P<groups>(?:\.\d{3})+)|0|[1-9]\d{0,2})[^\d.,]*")
_BETWEEN_THOUSANDS = re.compile(rf"[.\s{BETWEEN}]")
_GROUPS = re.compile(f"[,{BETWEEN}]")


def is_code(text: str) -> bool:
    """Whether a digit follows a leading zero, as in post codes, accounts and phone numbers."""
    return _CODE.fullmatch(text) is not None


def are_names(whole: Sequence[int], counts: Sequence[int]) -> bool:
    """Whether different whole numbers, some not held by float64, name something.

    ``counts`` are the rows of each. Float64 would make one of two numbers, or most rows share
    theirs with another; numbers of single rows, such as times in nanoseconds, are quantities.
    """
    floats = [float_of(value) for value in whole]
    if all(value == known for value, known in zip(whole, floats, strict=True)):
        return False
    shared = sum(count for count in counts if count > 1)
    return len(set(floats)) < len(floats) or 2 * shared > sum(counts)


def float_of(value: Any) -> float:
    """A number as a float, infinite beyond the range."""
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def are_thousands(texts: Iterable[str]) -> bool:
    """Whether the points of numbers stand between thousands, as in "1.001" beside "999".

    Every point has three digits behind it and no leading zero, and some numbers without a point are
    below 1000: rounded fractions have shorter ones among them, or a point in all.
    """
    has_point = has_none = False
    for text in texts:
        match = _POINTED.fullmatch(text)
        if match is None:
            return False
        has_point |= match["groups"] is not None
        has_none |= match["groups"] is None
    return has_point and has_none


def without_groups(text: str) -> str:
    """A number with a decimal point, without its thousands separators."""
    return _GROUPS.sub("", text)


def with_point(text: str) -> str:
    """A number with a decimal comma, without its thousands separators and with a decimal point."""
    return _BETWEEN_THOUSANDS.sub("", text).replace(",", ".")


def warn_of_thousands(texts: Collection[str], place: str) -> None:
    """Say that points were read as between thousands, where they might be decimal ones."""
    if are_thousands(texts) and all(text.count(".") < 2 for text in texts):
        pointed = next(text.strip() for text in texts if "." in text)
        plain = next(text.strip() for text in texts if "." not in text)
        warnings.warn(
            f"{place} holds {pointed!r} beside {plain!r}: points are read as between thousands, "
            f"{pointed!r} as {pointed.replace('.', '')!r}; convert the column to numbers if they "
            "are decimal points.",
            UserWarning,
            stacklevel=2,
        )
