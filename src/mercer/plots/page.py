"""A page of HTML that needs no other file: its sections, tables and figures."""

from __future__ import annotations

import io
import os
import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from html import escape
from itertools import count
from typing import Any

from mercer import __version__
from mercer.persistence import write_atomically
from mercer.plots.base import AIDS, BLUE, ORANGE, new_figure

__all__ = ["Section", "code", "details", "list_of", "paragraph", "table", "write_html"]

_LETTERS = 120  # of a cell
_FEW_COLUMNS = 5  # of a table whose cells may be broken into lines
# Colours of figures that follow the page into the dark.
_COLOURS = {
    "#000000": "--ink",
    "#ffffff": "--paper",
    "#e3e3e3": "--line",
    AIDS: "--quiet",
    BLUE: "--blue",
    ORANGE: "--orange",
}
_STYLE = """
:root { color-scheme: light dark; --paper: #ffffff; --ink: #1b1f24; --quiet: #5b636d;
  --line: #dfe3e8; --soft: #f4f6f8; --blue: #0072b2; --orange: #d55e00; }
@media (prefers-color-scheme: dark) { :root { --paper: #14171b; --ink: #e6e9ed; --quiet: #a3abb5;
  --line: #353b43; --soft: #1d2126; --blue: #5db4e8; --orange: #f08a3c; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink);
  font: 16px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; }
main { max-width: 68rem; margin: 0 auto; padding: 1.5rem 1rem 4rem; }
h1 { font-size: 1.7rem; line-height: 1.2; margin: 0.5rem 0; overflow-wrap: anywhere; }
h2 { font-size: 1.2rem; margin: 2.5rem 0 0.5rem; padding-top: 0.7rem;
  border-top: 1px solid var(--line); }
p, ul { margin: 0.5rem 0; max-width: 46rem; overflow-wrap: anywhere; }
ul { padding-left: 1.2rem; }
.quiet, figcaption { color: var(--quiet); font-size: 0.88rem; }
.cards { display: grid; gap: 0.75rem; margin: 1.2rem 0; padding: 0;
  grid-template-columns: repeat(auto-fit, minmax(9.5rem, 1fr)); }
.cards div { background: var(--soft); border-radius: 0.5rem; padding: 0.7rem 0.9rem; }
.cards dt { color: var(--quiet); font-size: 0.82rem; }
.cards dd { margin: 0; font-size: 1.25rem; font-weight: 600; overflow-wrap: anywhere; }
.figures { display: grid; gap: 1rem 2rem; align-items: start;
  grid-template-columns: repeat(auto-fit, minmax(min(100%, 24rem), 1fr)); }
figure { margin: 0.8rem 0; min-width: 0; }
figure svg { display: block; width: 100%; height: auto; max-width: 34rem; }
figure svg text { fill: var(--ink); }
.wide { overflow-x: auto; margin: 0.6rem 0; }
table { border-collapse: collapse; font-size: 0.9rem; }
th, td { text-align: left; vertical-align: top; padding: 0.3rem 1rem 0.3rem 0;
  border-bottom: 1px solid var(--line); }
td { overflow-wrap: break-word; max-width: 24rem; }
th { color: var(--quiet); font-weight: 600; }
.many td { white-space: nowrap; max-width: none; }
.number { text-align: right; font-variant-numeric: tabular-nums; }
@media (max-width: 30rem) { th, td { padding-right: 0.6rem; }
  table:not(.many) td { max-width: 12rem; } }
details { margin: 0.6rem 0; }
summary { cursor: pointer; color: var(--blue); }
pre { background: var(--soft); border-radius: 0.5rem; padding: 0.8rem 1rem; overflow-x: auto;
  font: 0.85rem/1.5 ui-monospace, Menlo, Consolas, monospace; }
"""


class Section:
    """A heading and its content in HTML; empty sections are left out of the page."""

    def __init__(self, title: str, *parts: str):
        self.title = title
        self.parts = list(parts)
        self.figures: list[Callable[[int], str]] = []  # HTML of a figure from its number
        self.below: list[str] = []

    def add(self, *parts: str) -> None:
        """Append parts that are HTML already."""
        self.parts += parts

    def draw(
        self, draw: Callable[[Any], object], caption: str, width: float = 4.4, height: float = 3.4
    ) -> None:
        """Add a figure, which a function draws on axes when the page is written."""
        self.figures.append(lambda number: _picture(draw, caption, number, width, height))

    def html(self, numbers: Iterator[int]) -> str:
        """The section: parts, figures side by side, and the content below them."""
        if not (self.parts or self.figures or self.below):
            return ""
        drawn = "".join(figure(next(numbers)) for figure in self.figures)
        figures = f'<div class="figures">{drawn}</div>' if self.figures else ""
        body = "\n".join([*self.parts, figures, *self.below])
        return f"<section><h2>{escape(self.title)}</h2>\n{body}</section>"


def write_html(
    path: str | os.PathLike[str],
    title: str,
    kind: str,
    cards: Iterable[tuple[str, str]],
    sections: Iterable[Section],
    note: str = "",
) -> None:
    """Write a page atomically: title, kind with time and version, facts in boxes, and sections."""
    lead = f"{kind} of {datetime.now(UTC):%Y-%m-%d %H:%M} UTC by mercer {__version__}{note}"
    boxes = "".join(
        f"<div><dt>{escape(name)}</dt><dd>{escape(value)}</dd></div>" for name, value in cards
    )
    numbers = count(1)
    body = "\n".join(section.html(numbers) for section in sections)
    html = f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="generator" content="mercer">
<title>{escape(_visible(title))}</title>
<style>{_STYLE}</style>
</head>
<body><main>
<h1>{escape(_visible(title))}</h1>
<p class="quiet">{escape(lead)}</p>
<dl class="cards">{boxes}</dl>
{body}
</main></body>
</html>
"""
    write_atomically(path, lambda file: file.write(html.encode()))


def paragraph(text: str, quiet: bool = False) -> str:
    """A paragraph of plain text."""
    kind = ' class="quiet"' if quiet else ""
    return f"<p{kind}>{escape(_visible(text))}</p>"


def list_of(texts: Iterable[str]) -> str:
    """A list of plain texts."""
    return "<ul>" + "".join(f"<li>{escape(_visible(text))}</li>" for text in texts) + "</ul>"


def code(text: str) -> str:
    """Lines of code."""
    return f"<pre><code>{escape(text)}</code></pre>"


def details(summary: str, html: str) -> str:
    """HTML that opens with a click."""
    return f"<details><summary>{escape(summary)}</summary>{html}</details>"


def table(headings: Sequence[str], rows: Iterable[Sequence[Any]], most: int = 200) -> str:
    """A table of texts and numbers, at most so many rows of it; floats have four digits."""
    rows = [list(row) for row in rows]
    numeric = [all(_is_number(row[j]) for row in rows) for j in range(len(headings))]
    kinds = [' class="number"' if right else "" for right in numeric]
    lines = ["".join(f"<th{k}>{escape(h)}</th>" for h, k in zip(headings, kinds, strict=True))]
    for row in rows[:most]:
        cells = (f"<td{k}>{escape(_cell(v))}</td>" for v, k in zip(row, kinds, strict=True))
        lines.append("".join(cells))
    if len(rows) > most:
        lines.append(f'<td colspan="{len(headings)}">and {len(rows) - most} more</td>')
    body = "\n".join(f"<tr>{line}</tr>" for line in lines)
    kind = ' class="many"' if len(headings) > _FEW_COLUMNS else ""
    return f'<div class="wide"><table{kind}>{body}</table></div>'


def _picture(
    draw: Callable[[Any], object], caption: str, number: int, width: float, height: float
) -> str:
    """Drawing of a function on axes, as SVG with a caption; ``number`` makes its ids unique."""
    from matplotlib import rc_context

    file = io.StringIO()
    # Texts stay texts: read aloud, searched and copied. Names may have letters of any script.
    with warnings.catch_warnings(), rc_context({"svg.fonttype": "none", "svg.hashsalt": "mercer"}):
        warnings.filterwarnings("ignore", r"Glyph \d+ ")
        figure = new_figure(width, height)
        draw(figure.add_subplot())
        nobody = {"Date": None, "Creator": None, "Format": None, "Type": None}
        figure.savefig(file, format="svg", transparent=True, metadata=nobody, dpi=160)
    label = escape(_visible(caption))
    svg = _inline(file.getvalue(), f"f{number}", label)
    return f"<figure>{svg}<figcaption>{label}</figcaption></figure>"


def _inline(svg: str, prefix: str, label: str) -> str:
    """An SVG file as part of a page: names of its own, and colours of the page."""
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r'(\bid="|url\(#|href="#)', rf"\g<1>{prefix}-", svg)
    for colour, name in _COLOURS.items():
        svg = re.sub(rf"(fill|stroke): {colour}\b", rf"\1: var({name})", svg, flags=re.IGNORECASE)
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    return svg.replace("<svg", f'<svg role="img" aria-label="{label}"', 1)


def _visible(text: str) -> str:
    """A text without control characters."""
    return "".join(c if c.isprintable() else " " for c in text)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return "–" if value != value else f"{value:.4g}"
    text = _visible(str(value))
    return text if len(text) <= _LETTERS else text[:_LETTERS] + "…"
