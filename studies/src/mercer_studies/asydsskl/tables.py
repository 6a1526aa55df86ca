"""Our numbers in tables: ends of curves, answers, threads, delays, wrong targets, full shapes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mercer_studies.asydsskl.figures import curves, speedups
from mercer_studies.asydsskl.grid import METHODS
from mercer_studies.asydsskl.robustness import LOSSES
from mercer_studies.measures import or_dash
from mercer_studies.page import Table, table
from mercer_studies.queries import Record, by_data, error, full_name, is_regression, of_task


def measured(records: Sequence[Record]) -> list[Table]:
    """Our numbers, a table for each kind of run that there is."""
    makers = (_training, _answers, _threads, _delays, _wrong, _shapes)
    tables = (make(records) for make in makers)
    return [each for each in tables if each["rows"]]


def _training(records: Sequence[Record]) -> Table:
    rows = []
    for run in curves(records):
        course, chosen = run["course"], run["chosen"]
        row = [full_name(run), METHODS[run["method"]], run["seed"], f"{run['rows']:,}"]
        row += [f"{course['seconds'][0]:.3g}", _error(run, course["error"][0])]
        row += [f"{course['seconds'][-1]:.3g}", _error(run, course["error"][-1])]
        row.append(f"{run['model_size']:,}")
        row.append(f"{run['polished']['model_size']:,}" if run.get("polished") else "–")
        row += [f"{chosen['gamma']:.3g}", _strength(run), "time" if run["capped"] else "its end"]
        rows.append(row)
    head = ["data", "method", "trial", "rows", "first s", "error", "last s", "error"]
    head += ["size", "polished", "γ", "strength", "ended by"]
    return table("Figure 1, a to f: first and last point of every curve", head, rows, range(2, 11))


def _strength(run: Record) -> str:
    chosen = run["chosen"]
    if run["method"] == "squared":
        return f"λ {chosen['alpha_squared']:g}"
    if run["method"] in ("asydsskl", "asydsskl-own", "working-set"):
        return f"λ {chosen['alpha']:g}"
    return f"C {chosen['C']:g}"


def _answers(records: Sequence[Record]) -> Table:
    rows = [
        [
            full_name(run),
            METHODS[run["method"]],
            f"{run['model_size']:,}",
            _error(run, run["score"]["test"].get("mse", error(run))),
            f"{1e6 * run['slope']:.3g}",
            f"{run['curve'][-1]['n']:,}",
            f"{run['curve'][-1]['seconds']:.3g}",
        ]
        for run in of_task(records, "answers")
    ]
    head = ["data", "method", "size", "error", "µs a row", "rows asked", "seconds"]
    return table("Figure 1, g and h: answers", head, rows, range(2, 7))


def _threads(records: Sequence[Record]) -> Table:
    rows = []
    for run in of_task(records, "measured"):
        goal, pace = speedups(run), speedups(run, "pace")
        for point in run["curve"]:
            tau = point["tau"]
            row = [full_name(run), METHODS[run["method"]], tau, or_dash(point["seconds"])]
            row += [or_dash(goal.get(tau)), or_dash(1e3 * point["pace"]), or_dash(pace.get(tau))]
            rows.append(row)
    head = ["data", "steps", "threads", "s to the target", "times", "ms a loop", "times"]
    return table("Figure 2: threads", head, rows, range(2, 7))


def _delays(records: Sequence[Record]) -> Table:
    runs = of_task(records, "delayed")
    taus = sorted({point["tau"] for run in runs for point in run["curve"]})
    rows = []
    for run in runs:
        loops = {point["tau"]: point["loops"] for point in run["curve"]}
        values = (or_dash(loops.get(tau)) for tau in taus)
        proved = run.get("step_allowed") or [None]
        rows.append([full_name(run), f"{run['step_size']:g}", or_dash(proved[0]), *values])
    head = ["data", "γ", "proved up to", *(f"τ = {tau}" for tau in taus)]
    return table("Loops to the target under simulated delays", head, rows, range(1, len(head)))


def _wrong(records: Sequence[Record]) -> Table:
    runs = of_task(records, "robust")
    shares = sorted({run["share"] for run in runs})
    rows = []
    for name, own in by_data(runs).items():
        for method, (label, _) in LOSSES.items():
            mine = [run for run in own if run["method"] == method]
            if mine:
                rows.append([name, label, *(_mean(mine, share) for share in shares)])
    head = ["data", "loss", *(f"{share:.0%} wrong" for share in shares)]
    return table("Test errors with wrong targets", head, rows, range(2, len(head)))


def _mean(runs: Sequence[Record], share: float) -> str:
    found = [error(run) for run in runs if run["share"] == share]
    if not found:
        return "–"
    spread = f" ± {100 * np.std(found, ddof=1):.2g}" if len(found) > 1 else ""
    return f"{100 * np.mean(found):.3g}{spread} %"


def _shapes(records: Sequence[Record]) -> Table:
    rows = [
        [
            run["data"]["paper_name"],
            f"{run['rows']:,}",
            f"{run['data']['d']:,}",
            f"{run['seconds']['fit']:.3g}",
            f"{run['seconds'].get('draw', 0.0):.3g}",
            f"{run['seconds'].get('solve', 0.0):.3g}",
        ]
        for run in of_task(records, "shape")
    ]
    head = ["shape", "rows", "inputs", "seconds", "features", "steps"]
    return table("A round on made-up rows of the full shapes", head, rows, range(1, 6))


def _error(run: Record, value: float) -> str:
    return f"{value:.4g}" if is_regression(run) else f"{100 * value:.2f} %"
