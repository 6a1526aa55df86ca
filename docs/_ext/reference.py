"""The reference lists every public name: a page that lacks one stops the build.

Examples of its docstrings run in ``tests/package/test_package.py``; the builder "doctest" leaves
them to it and runs those of the other pages.
"""

from __future__ import annotations

import importlib
import re
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx
from sphinx.errors import ExtensionError

MODULES = (
    "mercer",
    *(
        f"mercer.{part}"
        for part in [
            "auto",
            "kernels",
            "maps",
            "designs",
            "problem",
            "equations",
            "losses",
            "penalties",
            "solvers",
            "explain",
            "statistics",
            "unsupervised",
            "diagnostics",
            "plots",
            "datasets",
            "persistence",
            "onnx",
            "dask",
            "compare.comparison",
        ]
    ),
)
_LISTED = re.compile(r"^   ([A-Za-z][\w.]*)$", re.M)


def _check(app: Sphinx) -> None:
    listed: set[str] = set()
    for page in Path(app.srcdir, "api").glob("*.rst"):
        text = page.read_text(encoding="utf-8")
        for block in re.split(r"(?=\.\. (?:current)?module:: )", text)[1:]:
            prefix = re.match(r"\.\. (?:current)?module:: ([\w.]+)", block)[1]
            listed |= {f"{prefix}.{name}" for name in _LISTED.findall(block)}
    public = {
        f"{module}.{name}" for module in MODULES for name in importlib.import_module(module).__all__
    }
    # Automatic models stand at the top of the package.
    public -= {"mercer.auto.AutoKernelClassifier", "mercer.auto.AutoKernelRegressor"}
    missing = sorted(public - listed)
    if missing:
        raise ExtensionError(f"docs/api lists no {', '.join(missing)}.")


def _leave_docstrings_out(app: Sphinx) -> None:
    if app.builder.name == "doctest":
        test_doc = app.builder.test_doc

        def test_page(docname: str, *rest: Any) -> None:
            if not docname.startswith("api/"):
                test_doc(docname, *rest)

        app.builder.test_doc = test_page


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("builder-inited", _check)
    app.connect("builder-inited", _leave_docstrings_out)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
