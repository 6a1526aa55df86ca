"""The study as stages of runs: curves, sizes, paths, systems solved directly, and machines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mercer_studies.block_descent import course, paths, rates, scaling
from mercer_studies.block_descent.data import Loaded, load
from mercer_studies.block_descent.grid import METHODS, SCALES, SOURCES, Scale
from mercer_studies.papers import Selected
from mercer_studies.plans import Plan, Run, called, names_of
from mercer_studies.runner import Cell, Stage

_CURVES, _SIZES, _PATHS, _RATES = "curves", "sizes", "paths", "rates"
_MACHINES = "machines"
_PARTS = {1: _CURVES, 2: _SIZES, 3: _CURVES, 4: _SIZES, scaling.FIGURE: _MACHINES}
_TABLE_PARTS = {1: _CURVES, 2: _RATES, 3: _CURVES}
_SHORT = 300  # epochs of systems at the λ that does best, which are badly conditioned
_PATH_EPOCHS = 2


def stages(selected: Selected) -> tuple[list[Stage], list[str]]:
    """The stages of a part of the study, and what is left out by declaration."""
    scale = selected.scale_of(SCALES)
    parts = _parts(selected)
    found: list[Stage] = []
    notes: list[str] = []
    kinds = {
        _CURVES: scale.course_data,
        _SIZES: scale.size_data,
        _PATHS: scale.path_data,
        _RATES: scale.rate_data,
    }
    there = {name for names in kinds.values() for name in names}
    for plan in _Plan.each(names_of(SOURCES, there, selected), scale, selected):
        own = [part for part, names in kinds.items() if plan.name in names and part in parts]
        found += [plan.part(part) for part in own]
        notes += plan.limits() if own else []
    if _MACHINES in parts:
        machines = scaling.stages(selected.datasets, selected.scale)
        found += machines
        notes += [scaling.NOTE] if machines else []
    return found, notes


def _parts(selected: Selected) -> set[str]:
    if not selected.figures and not selected.tables:
        return {_CURVES, _SIZES, _PATHS, _RATES, _MACHINES}
    parts = {_PARTS[number] for number in selected.figures}
    return parts | {_TABLE_PARTS[number] for number in selected.tables}


class _Plan(Plan):
    """Curves, sizes, paths, and systems that are solved directly."""

    sources, load = SOURCES, staticmethod(load)
    _scale: Scale

    def part(self, part: str) -> Stage:
        """All runs of one kind."""
        makers = {
            _CURVES: self._curves,
            _SIZES: self._sizes,
            _PATHS: self._paths,
            _RATES: self._rates,
        }
        return self.stage(part, makers[part]())

    def limits(self) -> list[str]:
        """Sentences on stand-ins, and on rows left out."""
        return self.left_out(self._rows(), bool(self.source.paper_name))

    def _curves(self) -> list[Cell]:
        """Panels of Figures 1 and 3; and a linear model besides."""
        scale = self._scale
        figures: list[int | str] = [1, 3, "Table 1", "Table 3"]
        cells = []
        for method in METHODS:
            settings = self._system(method, scale.size) | {
                "epochs": scale.epochs,
                "cap": scale.cap,
                "every": "block",
                "seed": 0,
            }
            cells.append(self._cell("curve", settings, course.course, figures))
        if not self.source.is_text:
            settings = self._common() | {"method": "linear"}
            cells.append(self._cell("linear", settings, _without_method(course.linear), [2]))
        return cells

    def _sizes(self) -> list[Cell]:
        """Panels of Figures 2 and 4."""
        scale = self._scale
        long = self.source.name in scale.long_data
        epochs = scale.long_epochs if long else scale.epochs
        cells = []
        for method in ("nystroem", "features"):
            for size in (size for size in scale.sizes if size <= self._rows()):
                for seed in range(scale.seeds):
                    settings = self._system(method, size) | {
                        "epochs": epochs,
                        "cap": scale.cap,
                        "every": "epoch",
                        "seed": seed,
                    }
                    figures = [2, 4] if long else [2]
                    cells.append(self._cell("sizes", settings, course.course, figures))
            if long:
                ours = settings | {"accelerated": True, "seed": 0}
                cells.append(self._cell("accelerated", ours, course.course, [4]))
        return cells

    def _paths(self) -> list[Cell]:
        """One λ against several."""
        scale = self._scale
        cells = []
        for method in METHODS:
            settings = self._system(method, scale.size) | {
                "epochs": _PATH_EPOCHS,
                "n_alphas": scale.path_alphas,
                "seed": 0,
            }
            cells.append(self._cell("path", settings, paths.path, ["path"]))
        return cells

    def _rates(self) -> list[Cell]:
        """Small systems, at the λ of the theory and at the one that does best."""
        scale = self._scale
        cells = []
        for strength, epochs in (
            ("theory", scale.rate_epochs),
            ("chosen", min(_SHORT, scale.rate_epochs)),
        ):
            for method in METHODS:
                settings = self._common() | {
                    "method": method,
                    "rows": min(self._n, scale.rate_rows),
                    "size": None if method == "exact" else scale.rate_size,
                    "block_size": scale.rate_block,
                    "epochs": epochs,
                    "jitter": scale.rate_jitter,
                    "strength": strength,
                    "seed": 0,
                }
                cells.append(self._cell("rates", settings, rates.rates, ["Table 2"]))
        return cells

    def _rows(self) -> int:
        return self.at_most(self._scale.text_rows if self.source.is_text else self._scale.rows)

    def _common(self) -> dict[str, Any]:
        scale = self._scale
        return {
            "rows": self.unless_all(self._rows()),
            "test_rows": scale.test_rows,
            "fitted": scale.fitted,
        }

    def _system(self, method: str, size: int) -> dict[str, Any]:
        return self._common() | {
            "method": method,
            "size": None if method == "exact" else min(size, self._rows()),
            "block_size": self._scale.block_size,
            "jitter": self._scale.jitter,
        }

    def _cell(
        self, task: str, settings: dict[str, Any], run: Run, figures: Sequence[int | str]
    ) -> Cell:
        method = settings["method"]
        size = settings.get("size")
        label = METHODS.get(method, "linear model")
        about = {"protocol": "fair", "data_name": self.source.name, "task": task}
        return Cell(
            {"size": None, **about, **settings},
            called(run, settings),
            _cost(task, self._rows(), size or self._rows(), settings),
            f"{label}{'' if size is None else f' {size}'}, {task}",
            kind=f"{task} {method}",
            notes={"label": label, "figures": list(figures)},
        )


def _without_method(run: Run) -> Run:
    def called(loaded: Loaded, *, method: str, **settings: Any) -> dict[str, Any]:
        return run(loaded, **settings)

    return called


def _cost(task: str, rows: int, size: int, settings: dict[str, Any]) -> float:
    """Roughly its seconds."""
    work = 1e-8 * rows * size * float(settings.get("epochs", 1))
    return 0.2 + (5.0 if task == "rates" else work)
