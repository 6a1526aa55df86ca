"""Tables 1 to 3 from the cost model and our runs, and our numbers behind the figures."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mercer_studies.block_descent.figures import PHASES, error_at
from mercer_studies.block_descent.grid import EARLY, METHODS
from mercer_studies.block_descent.reference import BLOCK_SIZE, MACHINES, ORDERS_OF, PAPER_DATA, SAID
from mercer_studies.block_descent.scaling_figures import table as scaling_table
from mercer_studies.costs import epoch_cost, kernel_bytes
from mercer_studies.measures import milliseconds, or_dash
from mercer_studies.page import Table, table
from mercer_studies.queries import Record, by_data, full_name, is_regression, of_task

_MODEL = {"exact": "exact", "nystroem": "nystroem", "features": "fourier"}
_COUNTS = (1, 8, MACHINES)  # machines


def measured(records: Sequence[Record]) -> list[Table]:
    """Our numbers, a table for each kind of run that there is, and the paper's beside them."""
    makers = (_costs, _rates, _storage, _said, _curves, _phases, _sizes, _paths, scaling_table)
    tables = (make(records) for make in makers)
    return [each for each in tables if each["rows"]]


def _costs(records: Sequence[Record]) -> Table:
    """Table 1, worked out."""
    rows = []
    for data in PAPER_DATA:
        for method, label in METHODS.items():
            p = None if method == "exact" else data.features
            cells = _cost_cells(method, data.rows, p, BLOCK_SIZE, data.classes, data.nonzeros)
            rows.append([f"{data.name} (paper)", label, *cells])
    for run in of_task(records, "curve"):
        method, unknowns = run["method"], run["n_features"]
        cells = _cost_cells(
            method,
            run["fitted_rows"],
            None if method == "exact" else unknowns,
            min(run["block_size"], unknowns),
            run["n_outputs"],
            max(1, round(run["n_inputs"])),
        )
        rows.append([full_name(run), METHODS[method], *cells])
    head = ["data", "system", "n", "p", "b", "k"]
    head += [f"flops, M = {machines}" for machines in _COUNTS]
    head += [f"GB sent, M = {MACHINES}", "the same, extended"]
    return table("Table 1: an epoch by the cost model", head, rows, range(2, len(head)))


def _cost_cells(
    method: str, n: int, p: int | None, b: int, k: int, inputs: int | None
) -> list[str]:
    kind = _MODEL[method]
    costs = [
        epoch_cost(kind, n, p, block_size=b, n_outputs=k, n_machines=machines)
        for machines in _COUNTS
    ]
    extended = "–"
    if inputs is not None:
        long = epoch_cost(
            kind,
            n,
            p,
            block_size=b,
            n_outputs=k,
            n_machines=MACHINES,
            n_inputs=inputs,
            extended=True,
        )
        extended = f"{long.total_bytes / 1e9:.3g}"
    return [
        f"{n:,}",
        f"{n if p is None else p:,}",
        f"{b:,}",
        str(k),
        *(f"{cost.total_flops:.2g}" for cost in costs),
        f"{costs[-1].total_bytes / 1e9:.3g}",
        extended,
    ]


def _rates(records: Sequence[Record]) -> Table:
    """Table 2 beside what our small systems are like."""
    rows = []
    for run in of_task(records, "rates"):
        orders = ORDERS_OF[run["method"]]
        at = run["gaps"].index(1e-3)
        strength = "ln n / n" if run["strength"] == "theory" else f"{run['chosen']['alpha']:g}"
        row = [full_name(run), strength]
        row += [METHODS[run["method"]], orders[0], orders[2], f"{run['n_features']:,}"]
        row.append(or_dash(run["condition"]))
        row.append(or_dash(run["effective"] / run["smallest"] if run["smallest"] else None))
        row += [or_dash(run["measured"][at]), or_dash(run["predicted"][at])]
        row += [or_dash(run["predicted_old"][at]), or_dash(run["close"])]
        row += [or_dash(run["accelerated"]["measured"][at]), or_dash(run["accelerated"]["close"])]
        rows.append(row)
    head = ["data", "λ", "system", "iterations (a)", "iterations (b)", "unknowns", "condition"]
    head += ["L_eff / m", "epochs to 10⁻³", "theorem 4.1", "equation 7", "to the direct solution"]
    head += ["accelerated, 10⁻³", "accelerated, direct"]
    caption = (
        "Table 2: the paper's orders for (a) exponential and (b) polynomial decay, and conditions "
        "and epochs of our systems"
    )
    return table(caption, head, rows, range(5, len(head)))


def _storage(records: Sequence[Record]) -> Table:
    """Table 3, and our own."""
    rows = [
        [
            f"{data.name} (paper)",
            f"{data.rows:,}",
            f"{data.inputs:,}",
            str(data.classes),
            f"{data.terabytes:.2f} TB",
            f"{kernel_bytes(data.rows) / 1e12:.2f} TB",
        ]
        for data in PAPER_DATA
    ]
    for runs in by_data(of_task(records, "curve")).values():
        run = runs[0]
        d = run["data"]["d"]
        size = kernel_bytes(run["fitted_rows"])
        row = [full_name(run), f"{run['fitted_rows']:,}", "–" if d is None else f"{d:,}"]
        row += [str(run["n_outputs"]), "–", f"{size / 1e9:.3g} GB"]
        rows.append(row)
    head = ["data", "n", "d", "k", "kernel matrix, paper", "8 n² bytes"]
    return table("Table 3: data and their kernel matrices", head, rows, range(1, 6))


def _said(records: Sequence[Record]) -> Table:
    rows = [list(cell) for cell in SAID]
    return table("Numbers in the paper's text", ["data", "what", "the paper"], rows, (2,))


def _curves(records: Sequence[Record]) -> Table:
    rows = []
    for run in of_task(records, "curve"):
        course = run["course"]
        row = [full_name(run), METHODS[run["method"]], f"{run['n_features']:,}"]
        row += [f"{run['seconds']['first_epoch']:.3g}", f"{course['seconds'][-1]:.3g}"]
        row.append(f"{course['epoch'][-1]:g}")
        row += [shown_error(run, error_at(run, epoch)) for epoch in (1, 3)]
        row += [shown_error(run, error_at(run)), or_dash(run.get("likeliest")), _strength(run)]
        rows.append(row)
    for run in of_task(records, "linear"):
        error = shown_error(run, 1.0 - run["score"]["test"]["accuracy"])
        row = [full_name(run), "linear model", "–", "–", f"{run['seconds']['fit']:.3g}"]
        rows.append([*row, "–", "–", "–", error, "–", _strength(run)])
    head = ["data", "system", "p", "s, first epoch", "s, all", "epochs"]
    head += ["error, 1", "error, 3", "error, last", "likeliest stars", "settings"]
    return table("Figure 1: curves", head, rows, range(2, 10))


def _phases(records: Sequence[Record]) -> Table:
    rows = []
    for run in of_task(records, "curve"):
        for part, said in (("first", "first"), ("later", "later")):
            known = (run.get("phases") or {}).get(part)
            if known:
                cells = (milliseconds(known.get(phase, 0.0)) for phase in PHASES)
                rows.append([full_name(run), METHODS[run["method"]], said, *cells])
    head = ["data", "system", "epoch", *(label for label, _ in PHASES.values())]
    caption = "Figure 3: median milliseconds of a block"
    return table(caption, head, rows, range(3, len(head)))


def _sizes(records: Sequence[Record]) -> Table:
    rows = []
    for run in of_task(records, "sizes", "accelerated"):
        course = run["course"]
        faster = ", accelerated" if run["task"] == "accelerated" else ""
        row = [full_name(run), METHODS[run["method"]] + faster, f"{run['size']:,}", run["seed"]]
        row += [shown_error(run, error_at(run, epoch)) for epoch in (1, EARLY)]
        row += [shown_error(run, error_at(run)), f"{course['epoch'][-1]:g}"]
        row += [f"{course['residual'][-1]:.2g}", f"{course['seconds'][-1]:.3g}"]
        rows.append(row)
    head = ["data", "system", "p", "trial", "error, 1 epoch", f"{EARLY} epochs", "last", "epochs"]
    return table("Figures 2 and 4", [*head, "residual", "s"], rows, range(2, 10))


def _paths(records: Sequence[Record]) -> Table:
    rows = [
        [
            full_name(run),
            METHODS[run["method"]],
            f"{run['n_features']:,}",
            len(run["alphas"]),
            f"{run['seconds']['one']:.3g}",
            f"{run['seconds']['path']:.3g}",
            f"{run['ratio']:.2f}",
            f"{run['away']:.1g}",
        ]
        for run in of_task(records, "path")
    ]
    head = ["data", "system", "p", "λ", "s, one", "s, all", "times", "difference"]
    return table("Several λ at once, two epochs", head, rows, range(2, 8))


def shown_error(run: Record, value: float) -> str:
    """An error of classes in per cent, or one of stars.

    >>> shown_error({"score": {"test": {"accuracy": 0.9}}}, 0.1)
    '10.00 %'
    """
    if not np.isfinite(value):
        return "–"
    return f"{value:.3f}" if is_regression(run) else f"{100 * value:.2f} %"


def _strength(run: Record) -> str:
    gamma, alpha = run["chosen"]["gamma"], run["chosen"]["alpha"]
    return f"λ {alpha:g}" + ("" if gamma is None else f", γ {gamma:.3g}")
