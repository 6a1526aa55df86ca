"""A report as a web page that stands alone: no script, no font and no image from elsewhere."""

from __future__ import annotations

import base64
import io
from collections.abc import Iterable, Sequence
from functools import singledispatch
from html import escape

from mercer_studies import blocks


def document(title: str, parts: Sequence[object]) -> str:
    """The whole page, with links to its sections before the first of them.

    >>> document("Nothing", [blocks.Paragraph("No.")]).splitlines()[0]
    '<!DOCTYPE html>'
    """
    sections = [part for part in parts if isinstance(part, blocks.Section)]
    links = "".join(f'<li><a href="#{one.name}">{escape(one.title)}</a></li>' for one in sections)
    lead = [render(part) for part in parts if not isinstance(part, blocks.Section)]
    body = "\n".join(
        [
            f"<h1>{escape(title)}</h1>",
            *lead,
            f'<nav aria-label="Contents"><ul>{links}</ul></nav>',
            *map(render, sections),
        ]
    )
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="generator" content="mercer">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f"<title>{escape(title)}</title>\n<style>\n{_STYLE}</style>\n</head>\n"
        f"<body>\n<main>\n{body}\n</main>\n</body>\n</html>\n"
    )


def _inline(value: object) -> str:
    if isinstance(value, tuple):
        return " ".join(map(_inline, value))
    if isinstance(value, blocks.Badge):
        return f'<span class="badge {escape(value.kind)}">{escape(value.text)}</span>'
    if isinstance(value, blocks.Small):
        return f'<span class="rule">{escape(value.text)}</span>'
    return escape(str(value))


@singledispatch
def render(block: object) -> str:
    """HTML of a block."""
    raise TypeError(f"there is no HTML of {type(block).__name__}.")


@render.register
def _(block: blocks.Paragraph) -> str:
    kind = ' class="soft"' if block.soft else ""
    return f"<p{kind}>{_inline(block.text)}</p>"


@render.register
def _(block: blocks.Heading) -> str:
    return f"<h3>{_inline(block.text)}</h3>"


@render.register
def _(block: blocks.Items) -> str:
    kind = ' class="counts"' if block.in_a_row else ""
    return f"<ul{kind}>{_each('li', block.items)}</ul>"


@render.register
def _(block: blocks.Facts) -> str:
    pairs = (_each("dt", [name]) + _each("dd", [text]) for name, text in block.pairs)
    return f"<dl>{''.join(pairs)}</dl>"


@render.register
def _(block: blocks.Code) -> str:
    return "<pre>" + "\n".join(map(escape, block.lines)) + "</pre>"


@render.register
def _(block: blocks.Table) -> str:
    """A table that scrolls by itself where the page is narrow."""
    right = set(block.numbers)

    def cell(tag: str, scope: str, column: int, value: object) -> str:
        kind = ' class="number"' if column in right else ""
        return f"<{tag}{scope}{kind}>{_inline(value)}</{tag}>"

    titles = "".join(cell("th", ' scope="col"', i, title) for i, title in enumerate(block.head))
    lines = [
        "<tr>"
        + cell("th", ' scope="row"', 0, row[0])
        + "".join(cell("td", "", i, value) for i, value in enumerate(row[1:], start=1))
        + "</tr>"
        for row in block.rows
    ]
    label = escape(block.caption, quote=True)
    return (
        f'<div class="scroll" role="region" aria-label="{label}" tabindex="0"><table>'
        f"<caption>{escape(block.caption)}</caption><thead><tr>{titles}</tr></thead>"
        f"<tbody>{''.join(lines)}</tbody></table></div>"
    )


@render.register
def _(block: blocks.Details) -> str:
    inner = "".join(map(render, block.parts))
    return f"<details><summary>{_inline(block.summary)}</summary>{inner}</details>"


@render.register
def _(block: blocks.Section) -> str:
    inner = "".join(map(render, block.parts))
    return f'<section id="{escape(block.name)}"><h2>{escape(block.title)}</h2>{inner}</section>'


@render.register
def _(block: blocks.Shown) -> str:
    return f"<h3>{escape(block.title)}</h3>{image(block)}"


def image(shown: blocks.Shown) -> str:
    """A figure as PNG within the page, which scrolls by itself where the page is narrow."""
    file = io.BytesIO()
    shown.figure.savefig(file, format="png", dpi=160)
    content = base64.b64encode(file.getvalue()).decode("ascii")
    width, height = (round(96 * inches) for inches in shown.figure.get_size_inches())
    alt = escape(shown.alt)
    return (
        f'<figure><div class="scroll" tabindex="0" role="region" aria-label="{alt}">'
        f'<img src="data:image/png;base64,{content}" alt="{alt}" width="{width}" '
        f'height="{height}"></div><figcaption>{escape(shown.caption)}</figcaption></figure>'
    )


def _each(tag: str, values: Iterable[object]) -> str:
    return "".join(f"<{tag}>{_inline(value)}</{tag}>" for value in values)


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
