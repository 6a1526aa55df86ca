"""Numbers in texts that hold more than a number: units, ranges, bounds, several quantities."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from mercer._runtime.numerals import without_groups
from mercer._runtime.state import State
from mercer.preparation.columns import Labels
from mercer.preparation.numeric import Numbers
from mercer.preparation.recognition import CODES, MONEY, is_nothing

__all__ = ["Quantities"]

_SHARE = 0.6  # least share of the rows whose texts have a common form
_RARE = 0.002  # share of the rows below which a form is not read
_MOST_FORMS = 40
_MOST_NUMBERS = 4  # numbers in a text
_MOST_LETTERS = 24  # letters beside the numbers; a text of more is a sentence
_QUANTITIES = 3  # read from a text at most, each with its width if it is a range
_KNOWN = 0.05  # least share of the rows that have a quantity
_LEAST_VALUES = 3  # different numbers, below which the label alone says as much

_DECIMAL_COMMA = re.compile(r"(?<=\d),(?=\d(?!\d))")
_NUMBER = re.compile(
    r"(?<![\w.])[-\u2212]?(?:\d{1,3}(?:[,'\u2019]\d{2,3})+|\d+)(?:\.\d+)?(?:e[-+]?\d+(?!\w))?|(?<!\w)\.\d+"
)
_WORDS = ("rs", "ca", "approx", "about", "over", "under", "up to", "from", "min", "max")
_BEFORE = "|".join([*map(re.escape, MONEY), *map(str.lower, CODES), *(rf"{w}\.?" for w in _WORDS)])
_START = re.compile(rf"[\s~<>\u2264\u2265\u2248=+(]*(?:{_BEFORE})?\s*#")
# Dates, times, versions and numbers of no one thing.
_NOT_A_QUANTITY = re.compile(r"#\s?[-/.:]\s?#\s?[-/.:]\s?#|#:#|#\.\d|#\s#")
_MARKS = re.escape(MONEY)
_TO = re.compile(rf"[a-z%. {_MARKS}]{{0,8}}(?:-|\u2013|\u2014|\bto\b)[\s{_MARKS}]*")  # of a range
_UNIT = re.compile(r"\s*([a-z\u00b5%]+(?:[./ ]{1,2}[a-z]+)?)")
_THOUSANDS = {
    **dict.fromkeys(("k", "thousand"), 1e3),
    **dict.fromkeys(("lac", "lacs", "lakh", "lakhs"), 1e5),
    **dict.fromkeys(("m", "mn", "mio", "million", "millions"), 1e6),
    **dict.fromkeys(("cr", "crore", "crores"), 1e7),
    **dict.fromkeys(("b", "bn", "billion", "billions"), 1e9),
}
# Units of one dimension; numbers become multiples of the commonest unit of the column.
_DIMENSIONS: tuple[dict[str, float], ...] = (
    {"mm": 0.001, "cm": 0.01, "m": 1.0, "km": 1000.0, "in": 0.0254, "inch": 0.0254}
    | {"inches": 0.0254, "ft": 0.3048, "feet": 0.3048, "mi": 1609.344, "miles": 1609.344},
    {"mg": 1e-6, "g": 0.001, "gr": 0.001, "kg": 1.0, "kgs": 1.0, "lb": 0.453592, "lbs": 0.453592}
    | {"oz": 0.0283495},
    {"ml": 0.001, "cl": 0.01, "l": 1.0, "ltr": 1.0, "litre": 1.0, "liter": 1.0, "gal": 3.78541},
    {"kb": 1.0, "mb": 1e3, "gb": 1e6, "tb": 1e9},
    {"sec": 1.0, "min": 60.0, "mins": 60.0, "h": 3600.0, "hr": 3600.0, "hrs": 3600.0}
    | {"hour": 3600.0, "hours": 3600.0, "day": 86400.0, "days": 86400.0, "week": 604800.0}
    | {"weeks": 604800.0, "month": 2629746.0, "months": 2629746.0, "year": 31556952.0}
    | {"years": 31556952.0, "yr": 31556952.0, "yrs": 31556952.0},
    {"bhp": 745.7, "hp": 745.7, "ps": 735.5, "kw": 1000.0},
    {"sqft": 0.092903, "sqfeet": 0.092903, "sqm": 1.0, "sqmeter": 1.0, "sqyards": 0.836127}
    | {"acre": 4046.86, "acres": 4046.86, "hectare": 1e4, "ha": 1e4},
)


@dataclass
class Quantities:
    """Numbers that most texts of a column begin with, such as "23.4 kmpl" or "2100 - 2850".

    A text is read if its form, the text with ``#`` for every number, is one of the common forms of
    the column, or a number alone. A range gives its middle and its width, "1.2 Lacs" the product,
    and units of one dimension are converted to the commonest one. A text that cannot be read is a
    missing number. ``numbers`` scales the numbers found.
    """

    numbers: Numbers
    forms: list[str] = field(default_factory=list)  # that are read, the commonest first
    units: list[str] = field(default_factory=list)  # commonest unit of each quantity
    kept: NDArray[np.int64] = field(default_factory=lambda: np.arange(0))  # which become columns

    def check_state(self) -> None:
        """Refuse attributes that no fit leaves."""
        state = State(self)
        for name in ("forms", "units"):
            texts = state.instance(name, list)
            state.check(name, "hold texts alone", all(isinstance(text, str) for text in texts))
        state.check("units", f"hold {_QUANTITIES} texts", len(self.units) == _QUANTITIES)
        kept = state.array("kept", (None,), "l", 0, 2 * _QUANTITIES - 1)
        state.instance("numbers", Numbers).check_state(len(kept))

    def fit_transform(self, labels: Labels, rows: NDArray[np.int64]) -> NDArray[np.float64] | None:
        """Columns (n, m) of the numbers, quantiles from ``rows``; None if most texts have none."""
        counts = np.bincount(labels.codes[labels.codes >= 0], minlength=len(labels.texts))
        self.forms = _common_forms([_folded(text) for text in labels.texts], counts)
        if not self.forms:
            return None
        found = self._found(labels.texts)
        self.units = [_commonest_unit(found, counts, which) for which in range(_QUANTITIES)]
        values = self._values(found)[labels.codes]
        shares = np.isfinite(values).mean(axis=0)
        varied = np.array([len(np.unique(v[np.isfinite(v)])) >= _LEAST_VALUES for v in values.T])
        self.kept = np.flatnonzero((shares >= _KNOWN) & varied)
        return self.numbers.fit_transform(values[:, self.kept], rows) if len(self.kept) else None

    def transform(self, labels: Labels) -> NDArray[np.float64]:
        """(n, m) for the texts of n rows."""
        values = self._values(self._found(labels.texts))[labels.codes]
        return self.numbers.transform(values[:, self.kept])

    def names(self, name: str) -> list[str]:
        """Names of the columns that the part makes."""
        parts = []
        for which in self.kept.tolist():
            place, is_width = which % _QUANTITIES, which >= _QUANTITIES
            unit = self.units[place] or f"number {place + 1}"
            parts.append(f"{name}:{unit}{' width' if is_width else ''}")
        return self.numbers.names(parts)

    def _found(self, texts: Sequence[str]) -> list[list[_Quantity]]:
        """Quantities of every text, none if its form is not known."""
        known = {*self.forms, "#"}
        folded = [_folded(text) for text in texts]
        return [_read(text) if _form(text) in known else [] for text in folded]

    def _values(self, found: Sequence[list[_Quantity]]) -> NDArray[np.float64]:
        """(texts + 1, 2 quantities): middles, then widths; the last row is for missing cells."""
        values = np.full((len(found) + 1, 2 * _QUANTITIES), np.nan)
        for row, quantities in zip(values, found, strict=False):
            for place, quantity in enumerate(quantities[:_QUANTITIES]):
                factor = _factor(quantity.unit, self.units[place])
                row[place] = factor * (quantity.low + quantity.high) / 2
                row[_QUANTITIES + place] = factor * (quantity.high - quantity.low)
        return values


@dataclass(frozen=True)
class _Quantity:
    """A number or a range, and its unit."""

    low: float
    high: float
    unit: str


def _folded(text: str) -> str:
    return _DECIMAL_COMMA.sub(".", " ".join(text.lower().split()))


def _form(text: str) -> str:
    return _NUMBER.sub("#", text)


def _common_forms(texts: Sequence[str], counts: NDArray) -> list[str]:
    """Forms of quantities that many rows have; none if few rows have one of them."""
    rows: dict[str, int] = {}
    total = 0
    for text, count in zip(texts, counts.tolist(), strict=True):
        if not is_nothing(text):
            total += count
            if not _has_code(text):
                form = _form(text)
                rows[form] = rows.get(form, 0) + count
    common = sorted((f for f in rows if rows[f] >= _RARE * total), key=lambda f: (-rows[f], f))
    common = [form for form in common if _is_quantity(form)][:_MOST_FORMS]
    return common if common and sum(rows[f] for f in common) >= _SHARE * total else []


def _is_quantity(form: str) -> bool:
    """Whether texts of a form begin with a number and say little else."""
    n_letters = sum(letter.isalpha() for letter in form)
    fits = 1 <= form.count("#") <= _MOST_NUMBERS and n_letters <= _MOST_LETTERS
    return fits and _START.match(form) is not None and _NOT_A_QUANTITY.search(form) is None


def _has_code(text: str) -> bool:
    """Whether a number begins with 0 and another digit, as postal codes do."""
    return any(len(t) > 1 and t[0] == "0" and t[1].isdigit() for t in _NUMBER.findall(text))


def _read(text: str) -> list[_Quantity]:
    """Quantities of a text of a common form."""
    matches = list(_NUMBER.finditer(text))
    ends = [match.start() for match in matches[1:]] + [len(text)]
    found, low = [], None
    for match, end in zip(matches, ends, strict=True):
        value = float(without_groups(match[0]).replace("\u2212", "-"))
        after = text[match.end() : end]
        if low is None and end < len(text) and _TO.fullmatch(after):
            low = value
            continue
        unit = _UNIT.match(after)
        first = value if low is None else min(low, value)
        found.append(_Quantity(first, max(first, value), _unit_of(unit[1] if unit else "")))
        low = None
    return found


def _unit_of(words: str) -> str:
    """The unit in one or two words: both where these are one unit, as sq. ft are."""
    joined = re.sub(r"[. ]", "", words)
    if joined in _THOUSANDS or any(joined in units for units in _DIMENSIONS):
        return joined
    return next(iter(re.split(r"[./ ]", words)))


def _commonest_unit(found: Sequence[list[_Quantity]], counts: NDArray, which: int) -> str:
    rows: dict[str, int] = {}
    for quantities, count in zip(found, counts.tolist(), strict=True):
        if len(quantities) > which:
            unit = quantities[which].unit
            rows[unit] = rows.get(unit, 0) + count
    return max(rows, key=lambda unit: (rows[unit], unit), default="")


def _factor(unit: str, commonest: str) -> float:
    """Factor of a unit to the commonest one, 1 for bare numbers; NaN for other dimensions."""
    is_bare = not unit and any(commonest in units for units in _DIMENSIONS)
    if unit == commonest or is_bare:
        return 1.0
    for units in _DIMENSIONS:
        if unit in units and commonest in units:
            return units[unit] / units[commonest]
    if unit in _THOUSANDS or commonest in _THOUSANDS:
        return _THOUSANDS.get(unit, 1.0) / _THOUSANDS.get(commonest, 1.0)
    return np.nan if any(unit in units for units in _DIMENSIONS) else 1.0
