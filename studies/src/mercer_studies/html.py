"""Small parts of a web page that stands alone: no script, no font and no image from elsewhere."""

from __future__ import annotations

import base64
import io
from collections.abc import Iterable, Sequence
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Html", "badge", "details", "document", "image", "paragraph", "section", "table"]


class Html(str):
    """Text that is HTML already and is not escaped again."""

    __slots__ = ()


def _text(value: object) -> str:
    return value if isinstance(value, Html) else escape(str(value))


def badge(kind: str, text: str) -> Html:
    """A word in a colour, for people who see it and for those who do not.

    Parameters
    ----------
    kind : {"good", "fair", "bad", "none"}
    text : str

    Examples
    --------
    >>> badge("good", "held")
    '<span class="badge good">held</span>'
    """
    return Html(f'<span class="badge {escape(kind)}">{_text(text)}</span>')


def paragraph(*parts: object, kind: str = "") -> Html:
    """A paragraph of parts; what is no ``Html`` is escaped.

    Examples
    --------
    >>> paragraph("a < b")
    '<p>a &lt; b</p>'
    """
    attribute = f' class="{escape(kind)}"' if kind else ""
    return Html(f"<p{attribute}>{''.join(_text(part) for part in parts)}</p>")


def table(
    caption: str, head: Sequence[str], rows: Iterable[Sequence[object]], numbers: Iterable[int] = ()
) -> Html:
    """A table that scrolls by itself where the page is narrow.

    Parameters
    ----------
    caption : str
    head : sequence of str
    rows : iterable of sequence
        The first cell names its row; cells that are no ``Html`` are escaped.
    numbers : iterable of int, default=()
        Columns that are set flush right.

    Examples
    --------
    >>> "<caption>Ages</caption>" in table("Ages", ["name", "age"], [["Ada", 36]], numbers=[1])
    True
    """
    right = set(numbers)

    def cell(tag: str, scope: str, column: int, value: object) -> str:
        kind = ' class="number"' if column in right else ""
        return f"<{tag}{scope}{kind}>{_text(value)}</{tag}>"

    titles = "".join(cell("th", ' scope="col"', i, title) for i, title in enumerate(head))
    lines = [
        "<tr>"
        + cell("th", ' scope="row"', 0, row[0])
        + "".join(cell("td", "", i, value) for i, value in enumerate(row[1:], start=1))
        + "</tr>"
        for row in rows
    ]
    label = escape(caption, quote=True)
    return Html(
        f'<div class="scroll" role="region" aria-label="{label}" tabindex="0"><table>'
        f"<caption>{_text(caption)}</caption><thead><tr>{titles}</tr></thead>"
        f"<tbody>{''.join(lines)}</tbody></table></div>"
    )


def details(summary: object, *parts: object) -> Html:
    """Parts that are shown on demand.

    Examples
    --------
    >>> details("more", "text")
    '<details><summary>more</summary>text</details>'
    """
    inner = "".join(_text(part) for part in parts)
    return Html(f"<details><summary>{_text(summary)}</summary>{inner}</details>")


def section(name: str, title: str, *parts: object) -> Html:
    """A part of the page with a heading that can be linked to.

    Examples
    --------
    >>> section("data", "Data", paragraph("None."))
    '<section id="data"><h2>Data</h2><p>None.</p></section>'
    """
    inner = "".join(_text(part) for part in parts)
    return Html(f'<section id="{escape(name)}"><h2>{_text(title)}</h2>{inner}</section>')


def image(figure: Figure, alt: str, caption: str) -> Html:
    """A figure as PNG within the page.

    Parameters
    ----------
    figure : matplotlib.figure.Figure
    alt : str
        What it shows, for those who do not see it.
    caption : str

    Returns
    -------
    Html
        It keeps a readable width and scrolls by itself where the page is narrow.
    """
    file = io.BytesIO()
    figure.savefig(file, format="png", dpi=160)
    content = base64.b64encode(file.getvalue()).decode("ascii")
    width, height = (round(96 * inches) for inches in figure.get_size_inches())
    return Html(
        f'<figure><div class="scroll" tabindex="0" role="region" aria-label="{escape(alt)}">'
        f'<img src="data:image/png;base64,{content}" alt="{escape(alt)}" width="{width}" '
        f'height="{height}"></div><figcaption>{_text(caption)}</figcaption></figure>'
    )


def document(title: str, *parts: object) -> str:
    """The whole page.

    Parameters
    ----------
    title : str
    *parts : str or Html

    Examples
    --------
    >>> document("Nothing", paragraph("No.")).splitlines()[0]
    '<!DOCTYPE html>'
    """
    body = "\n".join(_text(part) for part in parts)
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="generator" content="mercer">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f"<title>{escape(title)}</title>\n<style>\n{_STYLE}</style>\n</head>\n"
        f"<body>\n<main>\n{body}\n</main>\n</body>\n</html>\n"
    )


_STYLE = """\
:root { color-scheme: light dark; --text: #1d2126; --soft: #5a636e; --page: #ffffff;
  --panel: #f5f6f8; --line: #d9dde2; --link: #0b5cad;
  --good: #17693a; --good-page: #dff3e6; --fair: #7a4d00; --fair-page: #fdefd2;
  --bad: #a01c1c; --bad-page: #fbe0df; --none: #4b5560; --none-page: #e8eaee; }
@media (prefers-color-scheme: dark) {
  :root { --text: #e7eaee; --soft: #a3adb8; --page: #14171b; --panel: #1d2127; --line: #373e47;
    --link: #7fb8f5; --good: #8fdcaa; --good-page: #163a25; --fair: #f2c878;
    --fair-page: #43310d; --bad: #f5a5a2; --bad-page: #4c1b1b; --none: #c3cad2;
    --none-page: #2d343c; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--page); color: var(--text);
  font: 1rem/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "Liberation Sans", sans-serif; }
main { max-width: 72rem; margin: 0 auto; padding: 1.5rem 1.25rem 4rem; }
h1 { font-size: clamp(1.5rem, 4vw, 2.2rem); line-height: 1.2; margin: 0.5rem 0; }
h2 { font-size: 1.35rem; margin: 3rem 0 0.75rem; padding-top: 0.75rem;
  border-top: 1px solid var(--line); }
h3 { font-size: 1.05rem; margin: 1.75rem 0 0.25rem; }
p { max-width: 46rem; margin: 0.5rem 0; overflow-wrap: break-word; }
p.soft, figcaption, .rule { color: var(--soft); font-size: 0.9rem; }
.rule { display: block; margin-top: 0.25rem; min-width: 13rem; max-width: 34rem; font-weight: 400; }
a { color: var(--link); }
nav ul, ul.counts { list-style: none; padding: 0; margin: 1rem 0; display: flex; flex-wrap: wrap;
  gap: 0.5rem 1.25rem; }
.scroll { overflow-x: auto; max-width: 100%; }
.scroll:focus-visible { outline: 2px solid var(--link); outline-offset: 2px; }
table { border-collapse: collapse; margin: 1rem 0; font-size: 0.9rem; line-height: 1.4; }
caption { caption-side: top; text-align: left; color: var(--soft); padding-bottom: 0.4rem; }
th, td { text-align: left; vertical-align: top; padding: 0.4rem 0.9rem 0.4rem 0;
  border-bottom: 1px solid var(--line); }
thead th { border-bottom: 2px solid var(--line); font-weight: 600; vertical-align: bottom; }
tbody th { font-weight: 500; }
td:last-child:not(.number) { min-width: 15rem; }
.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
.badge { display: inline-block; padding: 0.05rem 0.6rem; border-radius: 1rem; font-size: 0.85rem;
  font-weight: 600; white-space: nowrap; }
.good { color: var(--good); background: var(--good-page); }
.fair { color: var(--fair); background: var(--fair-page); }
.bad { color: var(--bad); background: var(--bad-page); }
.none { color: var(--none); background: var(--none-page); }
details { margin: 0.35rem 0; padding: 0.35rem 0.9rem; background: var(--panel);
  border-radius: 0.5rem; }
summary { cursor: pointer; padding: 0.25rem 0; }
figure { margin: 1rem 0 2rem; }
img { display: block; width: 100%; min-width: 44rem; height: auto; background: #ffffff;
  border-radius: 0.4rem; padding: 0.4rem; }
figcaption { margin-top: 0.5rem; max-width: 46rem; }
pre { background: var(--panel); padding: 0.8rem 1rem; border-radius: 0.5rem; overflow-x: auto;
  font-size: 0.9rem; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: 0.3rem 1.25rem; margin: 1rem 0; }
dt { color: var(--soft); }
dd { margin: 0; overflow-wrap: anywhere; }
@media (max-width: 40rem) { main { padding: 1rem 0.9rem 3rem; } dl { grid-template-columns: 1fr; }
  dd { margin-bottom: 0.5rem; } }
@media print { details { break-inside: avoid; } .scroll { overflow: visible; }
  img { min-width: 0; } }
"""
