"""Sentences and tables on the numbers of the random binning study, computed from records."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from mercer_studies.measures import duration, power_law
from mercer_studies.page import Table, table
from mercer_studies.queries import (
    METHODS,
    Record,
    by_data,
    error,
    exact_kernel,
    over_seeds,
    select,
    training_rows,
)
from mercer_studies.random_binning.figures import theorem_runs
from mercer_studies.random_binning.speedup_figures import MODES, curves, guaranteed, kappa, speedups
from mercer_studies.theory import binning_bound

_FEATURES = {"binning": "random binning", "fourier": "random Fourier"}


def shows(records: Sequence[Record]) -> list[str]:
    """A sentence for each comparison that the records have runs for."""
    parts = (_extent, _exact, _leaders, _rounds, _theorem)
    return [sentence for part in parts for sentence in part(records)]


def tables(records: Sequence[Record]) -> list[Table]:
    """Errors on equal terms, and the speed-ups of Figure 6."""
    return [_errors(records), _speedups(records)]


def _extent(records: Sequence[Record]) -> Iterator[str]:
    """Seeds of the runs on equal terms."""
    seeds = {run["seed"] for run in select(records, figure=5, protocol="fair")}
    if seeds:
        many = "one seed" if len(seeds) == 1 else f"{len(seeds)} seeds"
        yield f"Runs on equal terms have {many}, and the exact kernel one."


def _exact(records: Sequence[Record]) -> Iterator[str]:
    """Rows of the exact kernel where it cannot have all, and how long all would take."""
    said = []
    for name, known in by_data(select(records, protocol="published")).items():
        runs = [run for run in known if run["method"] == "exact" and run.get("rows")]
        most, whole = exact_kernel(runs), training_rows(known)
        few = [run for run in runs if most and run["rows"] < most["rows"] < whole]
        if not most or not few:
            continue
        rows, seconds = few[0]["rows"], float(np.median([run["seconds"]["fit"] for run in few]))
        power, _ = power_law([rows, most["rows"]], [seconds, most["seconds"]["fit"]])
        spent = most["seconds"]["fit"] * (whole / most["rows"]) ** power
        said.append(
            f"{most['rows']:,} of {whole:,} training rows of {name} (all would take about "
            f"{duration(spent)} by rows^{power:.1f}, from {rows:,} rows on)"
        )
    if said:
        yield f"The exact kernel is fitted to {', '.join(said)}."


def _leaders(records: Sequence[Record]) -> Iterator[str]:
    """Sentence on the data sets where random binning leads on equal terms."""
    won: list[str] = []
    lost: list[str] = []
    for name, runs in by_data(select(records, figure=5, protocol="fair")).items():
        means = _means(runs)
        for size, (ours, _, _) in means.get("binning", {}).items():
            theirs = [
                found[size][0]
                for method, found in means.items()
                if method not in ("binning", "exact") and size in found
            ]
            if theirs:
                (won if ours < min(theirs) else lost).append(f"{name} at R = {size}")
    if won or lost:
        but = f"; not on {', '.join(lost)}" if lost else ""
        yield (
            f"On equal terms random binning has the least error in {len(won)} of "
            f"{len(won) + len(lost)} cases{but}."
        )


def _rounds(records: Sequence[Record]) -> Iterator[str]:
    """Simulated speed-ups against S(τ)."""
    shares = []
    for run in curves(records, "simulated", "binning", "safe"):
        sure = guaranteed(run)
        shares += [value / sure[tau] for tau, value in speedups(run).items() if tau > 1]
    if shares:
        above = sum(share >= 1 for share in shares)
        yield (
            f"Simulated processors with safe steps on random binning reach {min(shares):.2f} to "
            f"{max(shares):.2f} times S(τ), at least S(τ) in {above} of {len(shares)} cases."
        )


def _theorem(records: Sequence[Record]) -> Iterator[str]:
    """The mean over the trials against theorem 1."""
    for name, runs in by_data(theorem_runs(records)).items():
        run = runs[0]
        level, grids = run["exact"]["objective"], run["course"]["grids"]
        allowed = binning_bound(grids, run["start"] - level, run["exact"]["norm"], run["kappa"])
        shares = (np.mean(run["course"]["objectives"], axis=0) - level) / np.asarray(allowed)
        above = [grid for grid, share in zip(grids, shares, strict=True) if share > 1]
        where = f"exceeds it from R = {above[0]} on" if above else "is below it at every R"
        yield (
            f"Theorem 1 on {name}: the mean {where}; at R = {grids[-1]} its excess is "
            f"{shares[-1]:.3g} times what is allowed, and κ̂ is {run['kappa']:.3g}."
        )


def _means(runs: Sequence[Record]) -> dict[str, dict[int | None, tuple[float, float, int]]]:
    """Errors by method and size: mean, deviation and number of seeds."""
    methods = dict.fromkeys(run["method"] for run in runs)
    return {
        method: over_seeds([run for run in runs if run["method"] == method], error)
        for method in methods
    }


def _errors(records: Sequence[Record]) -> Table:
    known = by_data(select(records, figure=5, protocol="fair"))
    sizes = sorted({run["size"] for runs in known.values() for run in runs if run["size"]})
    rows = []
    for name, runs in known.items():
        for method, found in _means(runs).items():
            if method == "exact":
                rows.append([name, METHODS[method], *("–" for _ in sizes), _cell(found[None])])
                continue
            cells = (_cell(found[size]) if size in found else "–" for size in sizes)
            rows.append([name, METHODS[method], *cells, "–"])
    caption = "Test error on equal terms by grids or columns, mean ± deviation over the seeds"
    head = ["data", "method", *map(str, sizes), "whole kernel"]
    return table(caption, head, rows, range(2, len(head)))


def _cell(found: tuple[float, float, int]) -> str:
    mean, deviation, seeds = found
    said = f"{100 * mean:.2f}" if seeds == 1 else f"{100 * mean:.2f} ± {100 * deviation:.2f}"
    return f"{said} %"


def _speedups(records: Sequence[Record]) -> Table:
    rows = []
    for kind, unit in (("measured", "seconds"), ("simulated", "rounds")):
        for run in curves(records, kind):
            alone = next(point for point in run["curve"] if point["tau"] == 1)[unit]
            reached, sure = speedups(run), guaranteed(run)
            taus = [tau for tau in sure if tau > 1]
            row = [kind, run["data"]["name"], _FEATURES[run["method"]], MODES[run["mode"]]]
            row += [f"{kappa(run):.3g}", "–" if alone is None else f"{alone:,.3g} {unit}"]
            row.append(", ".join(_reached(tau, reached) for tau in taus) or "–")
            row.append(", ".join(f"{tau}: {sure[tau]:.3g}" for tau in taus) or "–")
            rows.append(row)
    head = ["how", "data", "features", "steps", "κ̄", "with one", "speed-up by threads or τ", "S(τ)"]
    return table("Figure 6: coordinate descent on several processors", head, rows, (4, 5))


def _reached(tau: int, reached: Mapping[int, float]) -> str:
    return f"{tau}: {reached[tau]:.3g}" if tau in reached else f"{tau}: –"
