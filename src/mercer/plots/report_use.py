"""Sections of a report about costs, use and versions, and facts that a model does not hold."""

from __future__ import annotations

import platform
import shlex
from dataclasses import dataclass
from importlib import metadata
from typing import Any

from mercer import __version__
from mercer.plots.base import thousands
from mercer.plots.page import Section, code, details, paragraph, table

__all__ = ["Origin", "use_section", "versions_section"]

_PACKAGES = ("numpy", "scipy", "scikit-learn", "matplotlib")


@dataclass(frozen=True)
class Origin:
    """Facts about a fit on the command line that its model does not hold."""

    model_file: str
    n_rows: int
    n_left_out: int  # rows without a target
    task_note: str  # the task, why it was chosen, and the option that changes it
    size: int | None = None  # bytes of the model file

    def sentences(self) -> str:
        """Rows and task, for the top of the page."""
        left = f", {thousands(self.n_left_out)} without a target left out" * bool(self.n_left_out)
        task = self.task_note[:1].upper() + self.task_note[1:]
        return f"Fitted to {thousands(self.n_rows)} rows{left}. {task}."


def use_section(model: Any, origin: Origin | None) -> Section:
    """Section with the columns of X, and code that predicts in Python and in the shell."""
    section = Section("How to use it")
    file = "model.skops" if origin is None else origin.model_file
    write = 'persistence.save(model, "model.skops")    # reading it runs no code of its own\n'
    section.add(
        paragraph("In Python:"),
        code(
            "from mercer import persistence\n\n"
            f"{write if origin is None else ''}model = persistence.load({_quoted(file)})\n"
            "model.predict(X)"
        ),
        paragraph("From the shell, for a table with the same columns:"),
        code(
            f"mercer show {shlex.quote(file)}\n"
            f"mercer predict {shlex.quote(file)} new.csv --out predictions.csv"
        ),
    )
    names = getattr(model, "feature_names_in_", None)
    if names is not None:
        listed = table(("column",), [[str(name)] for name in names], most=500)
        section.add(
            paragraph("X is a data frame with these columns:"),
            details(f"{len(names)} columns", listed),
        )
    elif getattr(model, "n_features_in_", 0):
        columns = thousands(int(model.n_features_in_))
        section.add(paragraph(f"X has {columns} columns, in the order of the fit."))
    return section


def _quoted(text: str) -> str:
    """A text as Python writes it, in double quotes where it holds none."""
    return repr(text) if '"' in text or "\\" in text else f'"{text}"'


def versions_section() -> Section:
    """Versions of mercer, Python and the packages below mercer."""
    section = Section("Made with")
    rows = [("mercer", __version__), ("Python", platform.python_version())]
    rows += [(name, metadata.version(name)) for name in _PACKAGES]
    rows.append(("system", f"{platform.system()}, {platform.machine()}"))
    section.add(table(("what", "version"), rows))
    return section
