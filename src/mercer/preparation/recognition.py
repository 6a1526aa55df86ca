"""Numbers, dates and time spans that a table holds as text."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date

import numpy as np
from numpy.typing import NDArray

from mercer._runtime.numerals import (
    BETWEEN,
    GROUPED,
    are_thousands,
    is_code,
    with_point,
    without_groups,
)

__all__ = [
    "CODES",
    "COMMA",
    "FORMATS",
    "MONEY",
    "TRUTH",
    "TRUTHS",
    "Unit",
    "format_of",
    "is_date",
    "is_nothing",
    "read_as",
    "unit_of",
]

_SAMPLE = 1000  # different texts that have to agree on a format
_NOTHING = frozenset({"", "?", "-", "na", "n/a", "nan", "null", "none", "nat", "<na>", "#n/a"})

_SIGN = r"(?P<sign>[+\-\u2212]?)"
_POINT = r"(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?"
_COMMAS = rf"{GROUPED}(?:\.\d*)?"  # 1,234.5
_DECIMAL_COMMA = rf"(?:\d{{1,3}}(?:[.{BETWEEN}]\d{{3}})+|\d+)(?:,\d*)?"  # 1.234,5
COMMA = ", 1.234,5"  # end of the names of formats with a decimal comma
MONEY = "$€£¥₹₩₽₺"
CODES = ("USD", "EUR", "GBP", "CHF", "JPY", "CNY", "INR", "CAD", "AUD", "SEK", "NOK", "DKK", "PLN")
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_CLOCK = (
    r"(?:[T ,]\s*(?P<hour>\d{1,2}):(?P<minute>\d{2})(?::(?P<second>\d{2})(?P<part>\.\d{1,9})?)?"
    r"\s*(?P<half>[AaPp]\.?[Mm]\.?)?\s*(?P<zone>Z|UTC|GMT|[+-]\d{2}:?\d{2})?)?"
)
_WEEKDAY = r"(?:(?:mon|tue|wed|thu|fri|sat|sun)[a-z]*,?\s+)?"
_NAME = rf"(?P<name>{'|'.join(_MONTHS)})[a-z]*\.?"
_UNITS = {"w": 604800, "d": 86400, "h": 3600, "m": 60, "s": 1, "ms": 1e-3, "us": 1e-6}
_SPAN = re.compile(
    r"(\d+(?:\.\d+)?)\s*"
    r"(weeks?|w|days?|d|hours?|hrs?|hr|h|minutes?|mins?|min|m|seconds?|secs?|sec|s|ms|us)"
    r"(?:\s*,?\s*(?:and\s+)?)",
    re.IGNORECASE,
)
_TIMES = re.compile(
    r"(?P<sign>-?)(?:(?P<days>\d+)\s*days?,?\s*)?\+?"
    r"(?P<hours>\d{1,3}):(?P<minutes>[0-5]\d)(?::(?P<seconds>[0-5]\d(?:\.\d+)?))?"
)
_ISO_SPAN = re.compile(
    r"(?P<sign>-?)P(?:(?P<days>\d+(?:\.\d+)?)D)?"
    r"(?:T(?:(?P<hours>\d+(?:\.\d+)?)H)?(?:(?P<minutes>\d+(?:\.\d+)?)M)?"
    r"(?:(?P<seconds>\d+(?:\.\d+)?)S)?)?"
)
TRUTH = "true or false"  # name of the format of booleans
TRUTHS = dict.fromkeys(("true", "yes", "y", "t"), 1.0)  # numbers of its words
TRUTHS |= dict.fromkeys(("false", "no", "n", "f"), 0.0)


def format_of(texts: Sequence[str]) -> str:
    """The key of ``FORMATS`` that the texts have in common, or "" for none: then they are labels.

    ``texts`` are the different ones of a column; texts for nothing ("NA", "?", …) do not count. Of
    many a sample spread over all decides. Texts with a digit behind a leading zero are labels.
    """
    present = [text for text in texts if not is_nothing(text)]
    if not present or any(map(is_code, present)):
        return ""
    step = max(1, len(present) // _SAMPLE)
    sample = present[::step][:_SAMPLE]
    # Most formats are refused by one text.
    for name, read in FORMATS.items():
        if read(sample[:1])[0] is not None and all(known is not None for known in read(sample)):
            has_points = f"{name}{COMMA}" in FORMATS and name != "percent"
            return f"{name}{COMMA}" if has_points and are_thousands(present) else name
    return ""


def read_as(texts: Sequence[str], name: str) -> NDArray:
    """The texts in a format: float64, or datetime64[us] for dates; NaN or NaT for all others."""
    values = FORMATS[name](texts)
    if is_date(name):
        known = ["NaT" if value is None else value for value in values]
        return np.array(known, dtype="datetime64[us]")
    return np.array([np.nan if value is None else value for value in values])


def is_date(name: str) -> bool:
    """Whether texts of this format are dates."""
    return name.startswith("date")


@dataclass(frozen=True)
class Unit:
    """The unit of a format, and how numbers without it are read."""

    bare: str  # format of numbers without the unit
    factor: float = 1.0  # of a number in this unit
    word: str = ""  # for texts with the unit; "" where a number without it is as clear
    sign: str = ""  # behind a number


def unit_of(name: str) -> Unit | None:
    """The unit of a format: percent, a currency or seconds; None for numbers and dates."""
    if name == "time span":
        return Unit("number", word="time spans", sign=" s")
    unit, comma, manner = name.partition(", ")
    if unit == "percent":
        return Unit(f"number{comma}{manner}", 0.01, "percentages", " %")
    return Unit(f"number{comma}{manner}") if unit in (*MONEY, *CODES) else None


def is_nothing(text: str) -> bool:
    """True if a text marks a missing cell."""
    return text.strip().lower() in _NOTHING


_Reader = Callable[[Sequence[str]], list]


def _numbers(unit: str, body: str, factor: float, tidy: Callable[[str], str]) -> _Reader:
    """A reader of numbers with a unit before or behind them."""
    inner = rf"{_SIGN}\s*(?P<body>{body})"
    around = rf"{_SIGN}\s*{unit}\s*(?P<body>{body})", rf"{_SIGN}\s*(?P<body>{body})\s*{unit}"

    def read(texts: Sequence[str]) -> list[float | None]:
        patterns = [re.compile(text) for text in ((inner,) if not unit else around)]
        return [_number(text, patterns, factor, tidy) for text in texts]

    return read


def _number(
    text: str, patterns: Sequence[re.Pattern[str]], factor: float, tidy: Callable[[str], str]
) -> float | None:
    text = text.strip()
    negative = text.startswith("(") and text.endswith(")")  # as accountants write it
    if negative:
        text = text[1:-1].strip()
    for pattern in patterns:
        match = pattern.fullmatch(text)
        if match is None:
            continue
        body = tidy(match["body"])
        if len(body) > 1 and body[0] == "0" and body[1].isdigit():
            return None  # a code, as those of the post are
        value = float(body) * factor
        if np.isinf(value):
            return None
        return -value if negative or match["sign"] in ("-", "\u2212") else value
    return None


def _plain(body: str) -> str:
    return body


def _truths(texts: Sequence[str]) -> list[float | None]:
    return [TRUTHS.get(text.strip().lower()) for text in texts]


def _spans(texts: Sequence[str]) -> list[float | None]:
    return [_span(text.strip()) for text in texts]


def _span(text: str) -> float | None:
    """Seconds of a time span such as 1:30:00, 2 days 03:00:00, 2h 30min or PT5M."""
    match = _TIMES.fullmatch(text) or (_ISO_SPAN.fullmatch(text) if len(text) > 2 else None)
    if match is not None:
        parts = ((part, match[part]) for part in ("days", "hours", "minutes", "seconds"))
        seconds = sum(float(value) * _UNITS[part[0]] for part, value in parts if value)
        return -seconds if match["sign"] else seconds
    if not text or not text[0].isdigit():
        return None
    end, seconds = 0, 0.0
    for piece in _SPAN.finditer(text):
        if piece.start() != end:
            return None
        unit = piece[2].lower()
        seconds += float(piece[1]) * _UNITS[unit if unit in _UNITS else unit[0]]
        end = piece.end()
    return seconds if end == len(text) else None


def _dates(*patterns: str) -> _Reader:
    """A reader of dates, as texts that NumPy reads, of one order of day, month and year."""

    def read(texts: Sequence[str]) -> list[np.datetime64 | None]:
        compiled = [re.compile(_WEEKDAY + text + _CLOCK, re.IGNORECASE) for text in patterns]
        return [_date(text.strip(), compiled) for text in texts]

    return read


def _date(text: str, patterns: Sequence[re.Pattern[str]]) -> np.datetime64 | None:
    match = next((m for m in (p.fullmatch(text) for p in patterns) if m is not None), None)
    if match is None:
        return None
    found = match.groupdict()
    year = int(found["year"])
    if len(found["year"]) == 2:
        year += 2000 if year < 69 else 1900  # as POSIX has it
    if found.get("week"):
        return _monday(year, int(found["week"]))
    name, quarter = found.get("name"), found.get("quarter")
    if quarter:
        month = 3 * int(quarter) - 2
    else:
        month = _MONTHS.index(name.lower()) + 1 if name else int(found["month"])
    hour = int(found["hour"] or 0)
    half = (found["half"] or "").lower()[:1]
    if half:
        if not 1 <= hour <= 12:
            return None
        hour = hour % 12 + (12 if half == "p" else 0)
    try:
        day = f"{year:04d}-{month:02d}-{int(found.get('day') or 1):02d}"
        clock = f"{hour:02d}:{int(found['minute'] or 0):02d}:{int(found['second'] or 0):02d}"
        moment = np.datetime64(f"{day}T{clock}{(found['part'] or '')[:7]}", "us")
    except ValueError:
        return None
    zone = found["zone"]
    if zone and zone[0] in "+-":
        minutes = 60 * int(zone[1:3]) + int(zone[-2:])
        moment -= np.timedelta64(minutes if zone[0] == "+" else -minutes, "m")
    return moment


def _monday(year: int, week: int) -> np.datetime64 | None:
    """The first day of a week as ISO 8601 counts them."""
    try:
        return np.datetime64(date.fromisocalendar(year, week, 1), "us")
    except ValueError:
        return None


def _formats() -> Iterator[tuple[str, _Reader]]:
    """All formats, in the order they are tried."""
    bodies = {
        "": (_POINT, _plain),
        ", 1,234.5": (f"(?:{_COMMAS}|{_POINT})", without_groups),
        COMMA: (_DECIMAL_COMMA, with_point),
    }
    yield TRUTH, _truths
    for manner, (body, tidy) in bodies.items():
        yield f"number{manner}", _numbers("", body, 1.0, tidy)
    for manner, (body, tidy) in bodies.items():
        yield f"percent{manner}", _numbers("%", body, 0.01, tidy)
    for currency in (*MONEY, *CODES):
        unit = re.escape(currency)
        for manner, (body, tidy) in bodies.items():
            yield f"{currency}{manner}", _numbers(unit, body, 1.0, tidy)
    year, month, day = r"(?P<year>\d{4})", r"(?P<month>\d{1,2})", r"(?P<day>\d{1,2})"
    short = r"(?P<year>\d{4}|\d{2})"
    yield "date, year first", _dates(rf"{year}([-/.]){month}\2{day}", rf"{year}-{month}")
    yield "date, day first, with points", _dates(rf"{day}\.{month}\.{short}")
    yield "date, month first", _dates(rf"{month}([-/]){day}\2{short}")
    yield "date, day first", _dates(rf"{day}([-/]){month}\2{short}")
    yield (
        "date, month by name",
        _dates(
            rf"{day}(?:st|nd|rd|th)?[-\s./]*{_NAME}[-\s.,/]*{short}",
            rf"{_NAME}[-\s.]*{day}(?:st|nd|rd|th)?,?\s+{short}",
            rf"{_NAME}[-\s.,]*{year}",
        ),
    )
    quarter, week = r"Q(?P<quarter>[1-4])", r"W(?P<week>\d{1,2})"
    yield "date, quarter", _dates(rf"{year}[-\s/]?{quarter}", rf"{quarter}[-\s/]?{year}")
    yield "date, week", _dates(rf"{year}[-\s/]?{week}", rf"{week}[-\s/]?{year}")
    yield "time span", _spans


# What the texts of a column may be, by name, and how they are read: None for what is not so.
FORMATS: dict[str, _Reader] = dict(_formats())
