"""The study as stages of runs: every data set as published, then every one on equal terms."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from mercer_studies.papers import Selected
from mercer_studies.plans import Loading, Plan, called, names_of
from mercer_studies.random_binning import fits, parallel, theorem
from mercer_studies.random_binning.data import Source, load
from mercer_studies.random_binning.grid import FIGURES, PROTOCOLS, RIVALS, SCALES, SOURCES, Scale
from mercer_studies.runner import Cell, Record, Stage

_EXAMPLE = {"rows": 200, "size": 10, "columns": 395, "seed": 0}
"""The paper's Figure 2: 200 rows, 10 grids, 395 columns."""

_SHIPPED = "letter"
_NO_GAMMA = 1.0  # γ of rivals where neither the exact kernel nor random binning has one


def stages(selected: Selected) -> tuple[list[Stage], list[str]]:
    """The stages of a part of the study, and what its limits leave out.

    Every data set comes as published first, quick sets before slow ones; then the processors of
    Figure 6; then every set on equal terms. Of a set random binning and the exact kernel come
    first, because the best γ of the exact kernel is that of the rivals.
    """
    scale = selected.scale_of(SCALES)
    protocols = selected.protocols or PROTOCOLS
    figures = selected.figures or FIGURES
    plans = _Plan.each(names_of(SOURCES, scale.datasets, selected), scale, selected)
    found: list[Stage] = []
    if 2 in figures:
        found.append(_example(selected.n_jobs))
    if "published" in protocols:
        for plan in plans:
            found += plan.published()
        if parallel.FIGURE in figures:
            sources = list(SOURCES.values())
            found += parallel.stages(sources, selected.datasets, selected.scale, selected.n_jobs)
    if "fair" in protocols and 5 in figures:
        found += [plan.fair() for plan in plans]
    notes = [note for plan in plans for note in plan.limits()]
    return found, notes


class _Plan(Plan):
    """Random binning, its rivals and the exact kernel under both protocols, and theorem 1."""

    sources, load = SOURCES, staticmethod(load)
    _scale: Scale

    def __init__(self, source: Source, scale: Scale, selected: Selected):
        super().__init__(source, scale, selected)
        self._figures = set(selected.figures or FIGURES)
        self._largest = source.largest if scale.limited else {}
        self._exact_rows = self._rows_within("exact", scale.exact_rows)
        self._sigma_rows = self._rows_within("search", scale.sigma_rows)

    def published(self) -> list[Stage]:
        """Stages of the published protocol; none if no figure needs them."""
        steps: list[Callable[[Sequence[Record]], list[Cell]]] = []
        if self._figures & {3, 4, 5}:
            steps.append(self._binning)
        if self._figures & {3, 5}:
            steps += [self._search, self._exact]
        if 5 in self._figures:
            steps.append(self._rivals)
        if 4 in self._figures:
            steps.append(self._theorem)
        return [Stage(self.name, step, self._load) for step in steps]

    def fair(self) -> Stage:
        """On equal terms."""
        return Stage(f"{self.name}, equal terms", self._equal, self._load)

    def limits(self) -> list[str]:
        """Sentences on data left out."""
        found = []
        if self._exact_rows is not None and self._figures & {3, 5}:
            found.append(
                f"{self.name}: the exact kernel is fitted to {self._exact_rows} of its "
                f"{self._n} training rows."
            )
        methods = [name for name in fits.FAIR if name in self._largest and name != "exact"]
        if methods and 5 in self._figures:
            most = ", ".join(f"{self._largest[name]} for {name}" for name in methods)
            found.append(f"{self.name}: the largest sizes at this scale are {most}.")
        return found

    # -- as published ----------------------------------------------------------------------------

    def _binning(self, found: Sequence[Record]) -> list[Cell]:
        """The sweep over γ first, then sizes from small to large."""
        scale = self._scale
        serves: dict[tuple[int, float], set[int]] = {}
        window = scale.gammas if scale.whole_grid else self.source.window
        for gamma in scale.gammas:
            serves[scale.sweep_size, gamma] = {3}
        for size in self._within("binning", scale.sizes):
            for gamma in window:
                serves.setdefault((size, gamma), set()).update({4, 5})
        ordered = sorted(serves, key=lambda one: (one[0] != scale.sweep_size, one))
        return [
            self._published("binning", size, gamma, serves[size, gamma])
            for size, gamma in ordered
            if serves[size, gamma] & self._figures
        ]

    def _search(self, found: Sequence[Record]) -> list[Cell]:
        """The exact kernel over the whole grid, on few rows if need be."""
        figures = {3, 4, 5} if self._sigma_rows is None else set()
        return [
            self._published("exact", None, gamma, figures, self._sigma_rows)
            for gamma in self._exact_gammas()
        ]

    def _exact(self, found: Sequence[Record]) -> list[Cell]:
        """The exact kernel at its best γ, on as many rows as it can have."""
        if self._sigma_rows is None:
            return []
        gamma = self._best_gamma(found)
        return [self._published("exact", None, gamma, {3, 4, 5}, self._exact_rows)]

    def _rivals(self, found: Sequence[Record]) -> list[Cell]:
        gamma = self._best_gamma(found)
        return [
            self._published(method, size, gamma, {5})
            for method in RIVALS
            for size in self._within(method, self._scale.rival_sizes)
        ]

    def _theorem(self, found: Sequence[Record]) -> list[Cell]:
        """Theorem 1, at the middle of the window."""
        scale, window = self._scale, self.source.window
        rows, grids = self.at_most(scale.theorem_rows), scale.theorem_grids
        settings: dict[str, Any] = {"gamma": window[len(window) // 2], "rows": rows}
        settings |= {"n_grids": grids, "n_trials": scale.theorem_trials}
        return [
            Cell(
                {
                    **self._common(theorem.PROTOCOL, self.source.inputs, rows),
                    **settings,
                    "method": "binning",
                    "size": grids,
                    "seed": 0,
                    "lam_n": theorem.LAM_N,
                },
                called(theorem.theorem, settings),
                2e-8 * rows**2 + 1e-6 * rows * grids**2 * scale.theorem_trials,
                f"theorem 1, γ {settings['gamma']:.3g}",
                kind="theorem",
                notes={"label": fits.FAIR["binning"].label, "figures": [4]},
            )
        ]

    def _exact_gammas(self) -> list[float]:
        return [round(1 / sigma, 6) for sigma in self._scale.gammas]

    def _best_gamma(self, found: Sequence[Record]) -> float:
        """The exact kernel's best γ on the test part; random binning's where there is none."""
        name = self.name
        for method in ("exact", "binning"):
            mine = [
                record
                for record in found
                if record["protocol"] == "published"
                and record["method"] == method
                and record["data_name"] == name
                and record["inputs"] == self.source.inputs
                and "failed" not in record
                and (method == "binning" or record["fitted_rows"] == self._sigma_rows)
            ]
            if mine:
                return min(mine, key=_test_error)["gamma"]
        return _NO_GAMMA

    def _published(
        self,
        method: str,
        size: int | None,
        gamma: float,
        figures: Iterable[int],
        rows: int | None = None,
    ) -> Cell:
        settings: dict[str, Any] = {"method": method, "size": size, "gamma": gamma, "seed": 0}
        of = "" if size is None else f" {size}"
        return Cell(
            {
                **self._common("published", self.source.inputs, rows),
                **settings,
                "kernel": fits.kernel_of(method),
                "lam_n": fits.LAM_N,
            },
            lambda loaded: fits.published(loaded, **settings, rows=rows),
            self._cost(method, size, rows),
            f"{fits.FAIR[method].label}{of}, γ {gamma:.3g}",
            kind=method,
            notes={"label": fits.FAIR[method].label, "figures": sorted(figures)},
        )

    # -- on equal terms --------------------------------------------------------------------------

    def _equal(self, found: Sequence[Record]) -> list[Cell]:
        cells = []
        for seed in self._scale.seeds:
            for method in fits.FAIR:
                sizes: Iterable[int | None] = self._within(method, self._scale.fair_sizes)
                if method == "exact":  # chance has no part in it but for the choice of settings
                    sizes = (None,) if seed == self._scale.seeds[0] else ()
                cells += [self._fair(method, size, seed) for size in sizes]
        return cells

    def _fair(self, method: str, size: int | None, seed: int) -> Cell:
        selection_rows = self._scale.selection_rows
        rows = self._exact_rows if method == "exact" else None
        settings: dict[str, Any] = {"method": method, "size": size, "seed": seed}
        settings |= {"selection_rows": selection_rows}
        tried = 13 * self._cost(method, size, min(selection_rows, self._n))
        of = "" if size is None else f" {size}"
        return Cell(
            {**self._common("fair", "standard", rows), **settings},
            lambda loaded: fits.fair(loaded, **settings, rows=rows),
            tried + self._cost(method, size, rows),
            f"{fits.FAIR[method].label}{of}, seed {seed}",
            kind=f"fair {method}",
            notes={"label": fits.FAIR[method].label, "figures": [5]},
        )

    # -- both ------------------------------------------------------------------------------------

    def _common(self, protocol: str, inputs: str, rows: int | None) -> dict[str, Any]:
        """Settings of a run that do not depend on its method."""
        return {
            "protocol": protocol,
            "data_name": self.name,
            "inputs": inputs,
            "test_share": self.source.test_share,
            "train_rows": self.source.train_rows,
            "fitted_rows": rows,
        }

    def _within(self, method: str, sizes: Iterable[int]) -> list[int]:
        """The sizes that are worth their time; more grids than rows are, more columns are not."""
        kept = [size for size in sizes if size <= self._largest.get(method, size)]
        return kept if method == "binning" else [size for size in kept if size <= self._n]

    def _rows_within(self, name: str, most: int) -> int | None:
        """At most so many training rows; None where that is no limit."""
        most = min(most, self._largest.get(name, most))
        return most if most < self._n else None

    def _cost(self, method: str, size: int | None, rows: int | None) -> float:
        n = self._n if rows is None else rows
        fit = fits.FAIR[method].cost(size, n, self._d, self.source.outputs)
        return fit + (5e-10 * n * self._m * (self._d + 4) if method == "exact" else 0)


def _example(n_jobs: int | None) -> Stage:
    source = SOURCES[_SHIPPED]
    cell = Cell(
        {
            "protocol": "example",
            "method": "binning",
            "data_name": source.name,
            "inputs": source.inputs,
            **_EXAMPLE,
        },
        lambda loaded: fits.example(loaded, **_EXAMPLE),
        0.5,
        "200 rows in 10 grids",
        kind="example",
        notes={"label": fits.FAIR["binning"].label, "figures": [2]},
    )
    return Stage("example", lambda found: [cell], Loading(load, source, n_jobs))


def _test_error(record: Mapping[str, Any]) -> float:
    score = record["score"]["test"]
    return 1 - score["accuracy"] if "accuracy" in score else score["relative_rmse"]
