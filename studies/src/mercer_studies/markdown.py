"""A report as Markdown, with its figures in files beside it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import singledispatch

from mercer_studies import blocks

MARK = "<!-- Written by mercer report from records; changes by hand are lost. -->"
_SPECIAL = re.compile(r"([\\*|`<$])")


def document(title: str, parts: Iterable[object], prefix: str = "") -> str:
    r"""The whole page; figures are links to files, ``prefix`` and ``figure_name`` with ".png".

    >>> print(document("Nothing", [blocks.Paragraph("a < b")]))
    <!-- Written by mercer report from records; changes by hand are lost. -->
    <BLANKLINE>
    # Nothing
    <BLANKLINE>
    a \< b
    <BLANKLINE>
    """
    return (
        "\n\n".join([MARK, f"# {_inline(title)}", *(render(part, prefix) for part in parts)]) + "\n"
    )


def figure_name(shown: blocks.Shown) -> str:
    """Name of a figure's file: its title up to the colon, in small letters.

    >>> figure_name(blocks.Shown("Figure 1, a to f: training", None, "", ""))
    'figure-1-a-to-f'
    """
    return re.sub(r"[^a-z0-9]+", "-", shown.title.partition(":")[0].lower()).strip("-")


def _inline(value: object) -> str:
    if isinstance(value, tuple):
        return " ".join(map(_inline, value))
    if isinstance(value, blocks.Badge):
        return f"**{_inline(value.text)}**"
    if isinstance(value, blocks.Small):
        return f"({_inline(value.text)})"
    return _SPECIAL.sub(r"\\\1", str(value))


@singledispatch
def render(block: object, prefix: str = "") -> str:
    """Text of a block."""
    raise TypeError(f"there is no Markdown of {type(block).__name__}.")


@render.register
def _(block: blocks.Paragraph, prefix: str = "") -> str:
    return _inline(block.text)


@render.register
def _(block: blocks.Heading, prefix: str = "") -> str:
    return f"### {_inline(block.text)}"


@render.register
def _(block: blocks.Items, prefix: str = "") -> str:
    return "\n".join(f"- {_inline(item)}" for item in block.items)


@render.register
def _(block: blocks.Facts, prefix: str = "") -> str:
    return "\n".join(f"- *{_inline(name)}*: {_inline(text)}" for name, text in block.pairs)


@render.register
def _(block: blocks.Code, prefix: str = "") -> str:
    return "\n".join(["```sh", *block.lines, "```"])


@render.register
def _(block: blocks.Table, prefix: str = "") -> str:
    right = set(block.numbers)
    rules = ["---:" if column in right else "---" for column in range(len(block.head))]
    rows = [rules, *([_inline(cell) for cell in row] for row in block.rows)]
    lines = [_row([_inline(title) for title in block.head]), *map(_row, rows)]
    return "\n".join([f"*{_inline(block.caption)}*", "", *lines])


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


@render.register
def _(block: blocks.Shown, prefix: str = "") -> str:
    alt = _inline(block.alt).replace("]", "\\]").replace("[", "\\[")
    image = f"![{alt}]({prefix}{figure_name(block)}.png)"
    return f"### {_inline(block.title)}\n\n{image}\n\n{_inline(block.caption)}"


@render.register
def _(block: blocks.Details, prefix: str = "") -> str:
    return "\n\n".join(
        [f"#### {_inline(block.summary)}", *(render(part, prefix) for part in block.parts)]
    )


@render.register
def _(block: blocks.Section, prefix: str = "") -> str:
    return "\n\n".join(
        [f"## {_inline(block.title)}", *(render(part, prefix) for part in block.parts)]
    )
