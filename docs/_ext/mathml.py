"""Mathematics as MathML, which browsers draw by themselves: no script, no font, no network."""

from __future__ import annotations

from typing import Any

from latex2mathml.converter import convert
from sphinx.application import Sphinx


def _inline(self: Any, node: Any) -> None:
    from docutils import nodes

    self.body.append(convert(node.astext()))
    raise nodes.SkipNode


def _display(self: Any, node: Any) -> None:
    from docutils import nodes

    self.body.append('<div class="math-display">')
    self.body.append(convert(node.astext(), display="block"))
    self.body.append("</div>")
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_html_math_renderer("mathml", (_inline, None), (_display, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
