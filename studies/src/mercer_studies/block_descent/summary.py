"""Sentences on the numbers of the block descent study, computed from records."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from mercer_studies.block_descent.figures import error_at
from mercer_studies.block_descent.grid import METHODS, SCALES
from mercer_studies.block_descent.tables import shown_error
from mercer_studies.measures import duration, power_law
from mercer_studies.queries import Record, by_data, of_task, training_rows


def shows(records: Sequence[Record]) -> list[str]:
    """A sentence for each comparison that the records have runs for."""
    parts = (_extent, _bounds, _epochs, _errors, _paths)
    return [sentence for part in parts for sentence in part(records)]


def _extent(records: Sequence[Record]) -> Iterator[str]:
    """Data of which all rows are fitted, and how long the largest system would take."""
    most = SCALES["paper"].size
    for name, runs in by_data(of_task(records, "curve", "sizes")).items():
        whole = training_rows(runs)
        own = [run for run in of_task(runs, "sizes") if run["method"] == "features"]
        own = [run for run in own if run.get("fitted_rows") == whole]
        sizes = sorted({run["size"] for run in own})
        if len(sizes) < 2 or sizes[-1] >= most:
            continue
        seconds = [
            float(np.mean([run["seconds"]["fit"] for run in own if run["size"] == size]))
            for size in sizes
        ]
        power, _ = power_law(sizes, seconds)
        spent = seconds[-1] * (most / sizes[-1]) ** power
        yield (
            f"Figures 1 to 4 have all {whole:,} training rows of {name}; random features reach "
            f"p = {sizes[-1]:,} in {duration(seconds[-1])}, and p = {most:,} would take about "
            f"{duration(spent)}, as seconds grow like p^{power:.1f}."
        )


def _bounds(records: Sequence[Record]) -> Iterator[str]:
    """Theorem 4.1 against the older bound, equation 7."""
    tighter, asked = 0, 0
    for run in of_task(records, "rates"):
        for new, old in zip(run["predicted"], run["predicted_old"], strict=True):
            if new is not None and old is not None:
                asked += 1
                tighter += new < old
    if asked:
        yield f"Theorem 4.1 is tighter than the older equation 7 in {tighter} of {asked} cases."


def _epochs(records: Sequence[Record]) -> Iterator[str]:
    """Epochs to the direct solution, with and without acceleration."""
    for method, label in METHODS.items():
        known = [
            f"{_count(run['close'], run)} to {_count(run['accelerated']['close'], run)} on "
            f"{run['data']['name']}"
            for run in of_task(records, "rates")
            if run["method"] == method and run["strength"] == "theory"
        ]
        if known:
            yield (
                f"Combining the changes of the last epochs takes the epochs to the direct solution "
                f"at λ = ln n / n, {label}, from {', '.join(known)}."
            )


def _count(epochs: float | None, run: Record) -> str:
    return f"more than {run['epochs']:,}" if epochs is None else f"{epochs:,.0f}"


def _errors(records: Sequence[Record]) -> Iterator[str]:
    """Test errors with acceleration against those without."""
    plain = {
        (run["data"]["name"], run["method"], run["size"]): error_at(run)
        for run in of_task(records, "sizes")
        if run["seed"] == 0
    }
    for run in of_task(records, "accelerated"):
        name = run["data"]["name"]
        before = plain.get((name, run["method"], run["size"]))
        if before is not None:
            after = shown_error(run, error_at(run))
            yield (
                f"It takes the test error of {METHODS[run['method']]} on {name} at "
                f"p = {run['size']:,} at the end from {shown_error(run, before)} to {after}."
            )


def _paths(records: Sequence[Record]) -> Iterator[str]:
    """Sentences on the cost of several λ solved at once."""
    runs = of_task(records, "path")
    if runs:
        least, most = (f(runs, key=lambda run: float(run["ratio"])) for f in (min, max))
        count = len(least["alphas"])
        yield (
            f"{count} λ at once cost {least['ratio']:.2f} times one at the least ({_place(least)}) "
            f"and {most['ratio']:.2f} times at the most ({_place(most)})."
        )


def _place(run: Record) -> str:
    return f"{METHODS[run['method']]}, {run['data']['name']}"
