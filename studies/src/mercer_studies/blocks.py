"""Parts of a report, of which ``html`` makes a web page and ``markdown`` a text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Badge:
    """A verdict: ``kind`` is "good", "fair", "bad" or "none" and gives the colour."""

    kind: str
    text: str


@dataclass(frozen=True)
class Small:
    """A remark beside a text, in small letters."""

    text: str


Inline = object
"""A str, a number, a Badge, a Small, or a tuple of them, which is set in a row."""


@dataclass(frozen=True)
class Paragraph:
    """A paragraph; ``soft`` sets it in small letters."""

    text: Inline
    soft: bool = False


@dataclass(frozen=True)
class Heading:
    """A heading within a section."""

    text: str


@dataclass(frozen=True)
class Items:
    """A list; ``in_a_row`` for short items."""

    items: Sequence[Inline]
    in_a_row: bool = False


@dataclass(frozen=True)
class Facts:
    """Names and what there is to say of each."""

    pairs: Sequence[tuple[str, str]]


@dataclass(frozen=True)
class Code:
    """Commands."""

    lines: Sequence[str]


@dataclass(frozen=True)
class Table:
    """A table."""

    caption: str
    head: Sequence[str]
    rows: Iterable[Sequence[Inline]]  # the first cell names its row
    numbers: Iterable[int] = ()  # columns that are set flush right


@dataclass(frozen=True)
class Shown:
    """A figure."""

    title: str
    figure: Figure
    alt: str  # content of the figure, for readers who do not see it
    caption: str  # explanation of the figure


@dataclass(frozen=True)
class Details:
    """Parts that a web page shows on demand."""

    summary: Inline
    parts: Sequence[object]


@dataclass(frozen=True)
class Section:
    """A part of the report with a heading; ``name`` is its anchor."""

    name: str
    title: str
    parts: Sequence[object]
