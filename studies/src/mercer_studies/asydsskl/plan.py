"""The study as stages of runs: both figures, then wrong targets, then full shapes."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any

from mercer_studies.asydsskl import curves, prediction, robustness, shapes, speed
from mercer_studies.asydsskl.data import load
from mercer_studies.asydsskl.grid import (
    FIGURES,
    METHODS,
    PROTOCOLS,
    ROBUST,
    SCALES,
    SOURCES,
    Scale,
    methods_for,
)
from mercer_studies.asydsskl.machines import SPARSE
from mercer_studies.papers import Selected
from mercer_studies.plans import Plan, Run, called
from mercer_studies.runner import Cell, Stage

_LENGTHS = (2.0, 1.0, 0.1)  # γ of simulated steps
_ROBUST_SOLVER = "asydsskl-own"
_FEW = 1e-4  # share of the rows of made-up shapes at the tiny scale


def stages(selected: Selected) -> tuple[list[Stage], list[str]]:
    """The stages of a part of the study, and what is left out by declaration."""
    scale = selected.scale_of(SCALES)
    figures = _figures(selected)

    def plans(names: Iterable[str]) -> list[_Plan]:
        kept = [name for name in names if name in (selected.datasets or names)]
        return _Plan.each(kept, scale, selected)

    found: list[Stage] = []
    notes: list[str] = []
    if 1 in figures:
        shown = plans(selected.datasets or scale.curve_data)
        answered = {plan.source.name for plan in plans(scale.answer_data)}
        for plan in shown:
            found.append(plan.curves())
            notes += plan.limits()
            if plan.source.name in answered:
                found.append(plan.answers())
    if 2 in figures:
        found += [plan.threads() for plan in plans(scale.speed_data)]
        notes += _threads_note(selected)
    if ROBUST in figures:
        found += [plan.wrong() for plan in plans(scale.robust_data)]
    if scale.shapes and not (selected.figures or selected.protocols or selected.datasets):
        found.append(_full_shapes(selected, scale))
    return found, notes


def _figures(selected: Selected) -> set[int | str]:
    """Figures 1 and 2 are on equal terms, wrong targets a protocol of their own."""
    protocols = selected.protocols or (("fair",) if selected.figures else PROTOCOLS)
    found: set[int | str] = set()
    if "fair" in protocols:
        found.update(selected.figures or FIGURES)
    if ROBUST in protocols:
        found.add(ROBUST)
    return found


class _Plan(Plan):
    """Panels of both figures, and wrong targets."""

    sources, load = SOURCES, staticmethod(load)
    _scale: Scale

    def curves(self) -> Stage:
        """A panel of Figure 1, a to f."""
        scale = self._scale
        common = self._rows(scale.rows) | {"n_new": scale.n_new, "n_rounds": scale.n_rounds}
        cells = []
        for method in methods_for(self.source.task):
            for seed in range(1 if method in ("svc", "libsvm-p") else scale.seeds):
                settings = {"method": method, **common, "cap": scale.cap, "seed": seed}
                cells.append(
                    self._cell("curve", settings, curves.course, METHODS[method], scale.cap, 1)
                )
        return self.stage("training", cells)

    def answers(self) -> Stage:
        """A panel of Figure 1, g and h."""
        scale = self._scale
        common = self._rows(scale.answer_rows) | {"n_new": scale.n_new, "n_rounds": scale.n_rounds}
        cells = [
            self._cell(
                "answers",
                {"method": method, **common, "counts": list(scale.counts), "seed": 0},
                prediction.answers,
                f"{METHODS[method]}, answers",
                0.5 * scale.cap,
                1,
            )
            for method in methods_for(self.source.task)
            if method not in SPARSE[1:]
        ]
        return self.stage("answers", cells)

    def threads(self) -> Stage:
        """Both panels of Figure 2."""
        scale = self._scale
        taus = list(speed.most_threads(self._n_jobs))
        common = {"fitted": scale.fitted, "seed": 0, "size": scale.speed_size}
        common["loops"] = scale.speed_loops
        rows = self._rows(scale.speed_rows)["rows"]
        cells = [
            self._cell(
                "measured",
                {"method": method, "taus": taus, "rows": rows, **common},
                speed.measured,
                f"{METHODS[method]}, threads",
                2.0 * scale.cap,
                2,
            )
            for method in SPARSE[:2]
        ]
        for gamma in _LENGTHS:
            settings = {"step_size": gamma, "taus": list(scale.delays), "rows": scale.delay_rows}
            settings |= {"fitted": scale.fitted, "size": scale.delay_size}
            settings |= {"loops": scale.delay_loops, "draws": scale.delay_draws, "seed": 0}
            label = f"delays simulated, γ {gamma:g}"
            cells.append(self._cell("delayed", settings, speed.delayed, label, 2 * scale.cap, 2))
        return self.stage("threads", cells)

    def wrong(self) -> Stage:
        """Losses against shares of wrong targets."""
        scale = self._scale
        common = self._rows(scale.robust_rows)
        common |= {"size": scale.robust_size, "solver": _ROBUST_SOLVER}
        cells = [
            self._cell(
                "robust",
                {"loss": loss, "share": share, "seed": seed, **common},
                robustness.robust,
                f"{robustness.LOSSES[loss][0]}, {share:.0%} wrong",
                0.3 * scale.cap,
                ROBUST,
            )
            for loss in robustness.losses_for(self.source.task)
            for share in scale.shares
            for seed in range(scale.robust_seeds)
        ]
        return self.stage("wrong targets", cells)

    def limits(self) -> list[str]:
        """Sentences on data left out of Figure 1, and on stand-ins."""
        return self.left_out(self.at_most(self._scale.rows), bool(self.source.replaces))

    def _rows(self, most: int | None) -> dict[str, Any]:
        scale = self._scale
        rows = self.unless_all(most)
        return {"rows": rows, "test_rows": scale.test_rows, "fitted": scale.fitted}

    def _cell(
        self,
        task: str,
        settings: dict[str, Any],
        run: Run,
        label: str,
        cost: float,
        figure: int | str,
    ) -> Cell:
        protocol = ROBUST if figure == ROBUST else "fair"
        about = {"protocol": protocol, "data_name": self.source.name, "task": task}
        named = {"method": settings.get("loss", "asydsskl"), **settings}
        return Cell(
            {**about, **named},
            called(run, settings),
            cost,
            label,
            kind=f"{task} {named['method']}",
            notes={"label": label, "figures": [figure]},
        )


def _full_shapes(selected: Selected, scale: Scale) -> Stage:
    """A round on made-up rows of each full shape, or of a small part of it at the tiny scale."""
    share = _FEW if selected.scale == "tiny" else 1.0
    cells = []
    for name in scale.shapes:
        settings = {"shape": name, "share": share, "n_new": scale.n_new, "seed": 0}
        about = {"protocol": "fair", "data_name": f"generated {name}", "task": "shape"}
        cells.append(
            Cell(
                {**about, "method": "asydsskl", **settings},
                partial(_timed, settings, selected.n_jobs),
                1e-4 * share * shapes.SHAPES[name][1],
                f"one round, shape of {name}",
                kind="shape",
                notes={"label": METHODS["asydsskl"], "figures": ["shapes"]},
            )
        )
    return Stage("full shapes", lambda found: cells)


def _timed(settings: dict[str, Any], n_jobs: int | None, _: Any) -> dict[str, Any]:
    return shapes.timed(**settings, n_jobs=n_jobs)


def _threads_note(selected: Selected) -> list[str]:
    taus = speed.most_threads(selected.n_jobs)
    if taus[-1] >= 16:
        return []
    known = " and ".join(map(str, taus))
    noun = "threads" if len(taus) > 1 else "thread"
    return [f"Figure 2 is measured with {known} {noun}; the paper has 16."]
