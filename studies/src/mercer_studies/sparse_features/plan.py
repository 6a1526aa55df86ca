"""The study as stages of runs: the tables, then the figure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from mercer_studies.papers import Selected
from mercer_studies.plans import Plan, called, names_of
from mercer_studies.runner import Cell, Stage
from mercer_studies.sparse_features import course, fits
from mercer_studies.sparse_features.data import load
from mercer_studies.sparse_features.grid import (
    BOOSTING,
    FAMILIES,
    FIGURE,
    KERNELS,
    LAMBDAS,
    METHODS,
    SCALES,
    SOURCES,
    TABLES,
    Scale,
    table_of,
)


def stages(selected: Selected) -> tuple[list[Stage], list[str]]:
    """The stages of a part of the study, and what is left out by declaration."""
    scale = selected.scale_of(SCALES)
    everything = not (selected.tables or selected.figures)
    tables = TABLES if everything else selected.tables

    def plans(names: Sequence[str]) -> list[_Plan]:
        return _Plan.each(names_of(SOURCES, names, selected), scale, selected)

    shown = [plan for plan in plans(scale.table_data) if plan.source.table in tables]
    found = [plan.table() for plan in shown]
    notes = [note for plan in shown for note in plan.limits()]
    if everything or FIGURE in selected.figures:
        found += [plan.figure() for plan in plans(scale.figure_data) if plan.source.table == 2]
    return found, notes


class _Plan(Plan):
    """The row of a table, and a panel of the figure."""

    sources, load = SOURCES, staticmethod(load)
    _scale: Scale

    def table(self) -> Stage:
        """The row of a table."""
        cells = [
            self._table_cell(family, kernel, lam_n)
            for kernel in KERNELS
            for family in FAMILIES
            for lam_n in (LAMBDAS if family == "sparse" else (1.0,))
        ]
        return self.stage("table", cells)

    def figure(self) -> Stage:
        """A panel of the figure."""
        scale = self._scale
        rows = self.at_most(scale.figure_rows)
        common: dict[str, Any] = {"rows": self.unless_all(rows), "test_rows": scale.test_rows}
        common |= {"lam_n": 1.0, "seed": 0}
        draws = {"size": scale.figure_size, "n_new": scale.figure_new}
        searches = {"sparse-perceptron": draws, BOOSTING: {"size": scale.n_learners, "n_new": 1}}
        level = {"method": "kernel-perceptron", "size": None, **common}
        cells = [
            self._figure_cell(level, lambda loaded: course.level(loaded, **common), 5e-11 * rows**3)
        ]
        for method, own in searches.items():
            settings = {"method": method, **own, **common}
            cost = 1e-9 * rows * own["size"] * (own["size"] / own["n_new"] + 100)
            cells.append(self._figure_cell(settings, called(course.search, settings), cost))
        return self.stage("figure", cells)

    def limits(self) -> list[str]:
        """Sentences on data left out of the tables, and on stand-ins."""
        rows = self.at_most(self._scale.rows)
        exact = self.at_most(min(rows, self._scale.kernel_rows or rows))
        said = self.left_out(rows, self.source.stands_in)
        if exact < rows:
            said.append(f"{self.name}: the exact kernel is fitted to {exact} training rows.")
        return said

    def _table_cell(self, family: str, kernel: str, lam_n: float) -> Cell:
        scale = self._scale
        n = self.at_most(scale.rows)
        if family == "kernel":
            n = min(n, scale.kernel_rows or n)
        size = None if family == "kernel" else scale.size
        settings: dict[str, Any] = {"family": family, "kernel": kernel, "size": size, "seed": 0}
        settings |= {"lam_n": lam_n, "rows": self.unless_all(n), "test_rows": scale.test_rows}
        settings |= {"n_new": scale.n_new, "width_rows": scale.width_rows}
        settings |= {"width_size": scale.width_size}
        method = f"{family}-{kernel}"
        of = f", n λ {lam_n:g}" if family == "sparse" else ""
        return Cell(
            {**self._common(), "task": "table", "method": method, **settings},
            called(fits.table, settings),
            self._cost(family, n, lam_n),
            f"{METHODS[method]}{of}",
            kind=f"table {method}",
            notes={"label": METHODS[method], "figures": [table_of(self.source.table)]},
        )

    def _figure_cell(
        self, settings: dict[str, Any], run: Callable[[Any], dict[str, Any]], cost: float
    ) -> Cell:
        method = settings["method"]
        label = "Boosting, perceptron" if method == BOOSTING else METHODS[method]
        return Cell(
            {**self._common(), "task": "figure", "kernel": course.KERNEL, **settings},
            run,
            cost,
            f"{label}, round by round",
            kind=f"figure {method}",
            notes={"label": label, "figures": [FIGURE]},
        )

    def _common(self) -> dict[str, Any]:
        """Settings of a run that do not depend on its method."""
        return {
            "protocol": "published",
            "data_name": self.name,
            "test_share": self.source.test_share,
        }

    def _cost(self, family: str, n: int, lam_n: float) -> float:
        size = self._scale.size
        if family == "kernel":
            return 0.05 + 1.5e-11 * n**3 + 3e-9 * n**2 * self._d
        if family == "rf":
            return 0.05 + 2e-11 * n * size**2 + 2e-11 * size**3
        return 0.05 + 2e-8 * n * size * {1000.0: 1, 100.0: 4, 10.0: 6, 1.0: 10}[lam_n]
