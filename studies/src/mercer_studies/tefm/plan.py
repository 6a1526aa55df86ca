"""The study as stages of runs: kernel matrices, ridge regression, times."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mercer_studies.papers import Selected
from mercer_studies.plans import Plan, called, names_of
from mercer_studies.runner import Cell, Stage
from mercer_studies.tefm import fits
from mercer_studies.tefm.data import is_at_hand, load
from mercer_studies.tefm.grid import (
    FIGURES,
    METHODS,
    OURS,
    PAPERS,
    SCALES,
    SOURCES,
    STAND_IN,
    VARIANTS,
    Scale,
    method_at,
)

_LONG = ("rks", "quasi", "fastfood", "orthogonal")
"""Methods that are cheap enough a feature to be worth more features."""

_TIMED = ("rks", "tefm-g", "tefm-s")


def stages(selected: Selected) -> tuple[list[Stage], list[str]]:
    """The stages of a part of the study, and what is left out by declaration."""
    scale = selected.scale_of(SCALES)
    figures = set(selected.figures or FIGURES)
    left_out, notes = _left_out(selected)

    def plans(names: Sequence[str]) -> list[_Plan]:
        kept = [name for name in names_of(SOURCES, names, selected) if name in names]
        return _Plan.each([name for name in kept if name not in left_out], scale, selected)

    found: list[Stage] = []
    if 1 in figures:
        found += [plan.kernel() for plan in plans(scale.kernel_data)]
    if figures & {2, 3}:
        found += [plan.ridge() for plan in plans(scale.ridge_data)]
        notes += [note for plan in plans(scale.ridge_data) for note in plan.limits()]
    if 3 in figures:
        found.append(_times(scale, selected.n_jobs))
    return found, notes


def _left_out(selected: Selected) -> tuple[set[str], list[str]]:
    """A set that something stands in for, or what stands in for it: one of them is enough."""
    if selected.scale != "laptop" or selected.datasets:
        return set(), []
    wanted = str(SOURCES[STAND_IN].stand_in_for)
    if is_at_hand(SOURCES[wanted]):
        return {STAND_IN}, []
    said = (
        f"{wanted} is not at hand: figure 1 lacks it, and {STAND_IN} stands in for it in figures "
        f"2 and 3; --datasets {wanted} fetches it."
    )
    return {wanted}, [said]


class _Plan(Plan):
    """Kernel matrices and regressions."""

    sources, load = SOURCES, staticmethod(load)
    _scale: Scale

    def limits(self) -> list[str]:
        """Sentences on rows left out of the regressions."""
        rows = self._scale.ridge_rows
        if rows is None or rows >= self._n:
            return []
        return [f"{self.source.name}: regressions have {rows} of its {self._n} training rows."]

    # -- figure 1 --------------------------------------------------------------------------------

    def kernel(self) -> Stage:
        """Figure 1."""
        rows = self.at_most(self._scale.kernel_rows or self.source.paper_rows)
        cells = [
            self._kernel_cell(method, size, seed, rows)
            for seed in self._scale.kernel_seeds
            for method, sizes in self._kernel_sizes().items()
            for size in sizes
            if size <= rows or method in _LONG
        ]
        return self.stage("kernel", cells)

    def _kernel_sizes(self) -> dict[str, list[int]]:
        """Sizes by method: random Fourier features also have four times as many, and squares."""
        scale = self._scale
        sizes = {method: list(scale.sizes) for method in (*PAPERS, *VARIANTS, *OURS)}
        others = {4 * size for size in scale.sizes} | {size**2 for size in scale.square_sizes}
        sizes["rks"] = sorted(others.union(scale.sizes))
        sizes["tefm-square"] = list(scale.square_sizes)
        return sizes

    def _kernel_cell(self, method: str, size: int, seed: int, rows: int) -> Cell:
        settings: dict[str, Any] = {"method": method, "size": size, "seed": seed, "rows": rows}
        known = method_at(method, size)
        return Cell(
            {**self._common("kernel"), **settings},
            called(fits.approximation, settings),
            known.cost(size, rows, self._d, 1) + 0.05 + 4e-11 * rows**2 * size,
            f"{known.label} {size}, seed {seed}",
            kind=f"kernel {method}",
            notes={"label": known.label, "figures": [1]},
        )

    # -- figures 2 and 3 -------------------------------------------------------------------------

    def ridge(self) -> Stage:
        """Figures 2 and 3."""
        scale = self._scale
        n = self.at_most(scale.ridge_rows)
        cells = []
        for seed in scale.ridge_seeds:
            for method in (*PAPERS, *OURS):
                longer = scale.long_sizes if method in _LONG else ()
                sizes = [size for size in (*scale.sizes, *longer) if size <= n]
                cells += [self._ridge_cell(method, size, seed, scale.ridge_rows) for size in sizes]
        # Chance has no part in the exact kernel.
        rows = min(n, scale.exact_rows)
        cells.append(self._ridge_cell(fits.EXACT, None, 0, self.unless_all(rows)))
        return self.stage("regression", cells)

    def _ridge_cell(self, method: str, size: int | None, seed: int, rows: int | None) -> Cell:
        scale = self._scale
        settings: dict[str, Any] = {"method": method, "size": size, "seed": seed, "rows": rows}
        settings |= {"reference": scale.reference, "selection_rows": scale.selection_rows}
        known = method_at(method, size)
        n = self.at_most(rows)
        exact = 4e-12 * n**3 + 5e-10 * n**2 * (self._d + 4) if method == fits.EXACT else 0.0
        of = "" if size is None else f" {size}, seed {seed}"
        return Cell(
            {**self._common("ridge"), **settings},
            called(fits.ridge, settings),
            exact or known.cost(size, n, self._d, 1),
            f"{known.label}{of}",
            kind=f"ridge {method}",
            notes={"label": known.label, "figures": [2, 3]},
        )

    # -- both ------------------------------------------------------------------------------------

    def _common(self, task: str) -> dict[str, Any]:
        """Settings of a run that do not depend on its method."""
        return {
            "protocol": "fair",
            "task": task,
            "data_name": self.source.name,
            "inputs": self.source.inputs,
            "response": self.source.response,
            "test_share": self.source.test_share,
        }


def _times(scale: Scale, n_jobs: int | None) -> Stage:
    """Runs whose times are to be powers of rows, base features and features."""
    cells = [
        _time_cell(method, *at, own, scale.times.inputs, n_jobs)
        for at, varied in scale.times.varied().items()
        for method in _TIMED
        if (own := varied.replace("d", "") if method == "rks" else varied)  # it has no base
    ]
    return Stage("times", lambda found: cells)


def _time_cell(
    method: str, rows: int, n_base: int, size: int, varied: str, inputs: int, n_jobs: int | None
) -> Cell:
    settings: dict[str, Any] = {"method": method, "rows": rows, "n_base": n_base, "size": size}
    settings |= {"inputs": inputs, "seed": 0}
    known = METHODS[method]
    return Cell(
        {"protocol": "timing", "data_name": "generated rows", **settings},
        lambda loaded: fits.times(**settings, n_jobs=n_jobs),
        known.cost(size, rows, inputs, 1) * (1.0 if method == "rks" else n_base / (4 * size)),
        f"{known.label} {size}, base {n_base}, {rows} rows",
        kind=f"times {method}",
        notes={"label": known.label, "figures": [3], "varied": varied},
    )
