"""Sentences on the extent of the sparse random features study, computed from records."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from mercer_studies.measures import duration
from mercer_studies.queries import Record, by_data, select, training_rows
from mercer_studies.sparse_features.grid import SCALES, TABLES, table_of

ROWS_POWER = 1.9
"""Power of the rows in the seconds of Sparse-RF, all λ and kernels together.

Measured between 3000 and 12 000 rows of cod-rna-train at 10 000 features, by ``mercer reproduce
sparse-features --scale paper --table 2 --datasets cod-rna-train --set rows=3000``.
"""


def shows(records: Sequence[Record]) -> list[str]:
    """Sentences on rows, features and the seconds of all rows."""
    return [said for number in TABLES for said in _extent(records, number)]


def _extent(records: Sequence[Record], number: int) -> Iterator[str]:
    """Features drawn and rows fitted in a table, and seconds of all rows at the paper's size."""
    for name, runs in by_data(select(records, figure=table_of(number))).items():
        sparse = [run for run in runs if run["family"] == "sparse"]
        if not sparse:
            continue
        rows, whole = sparse[0]["rows"], training_rows(runs)
        size = max(run.get("n_drawn") or run["size"] for run in sparse)
        exact = [run["rows"] for run in runs if run["family"] == "kernel"]
        part = f"{rows:,} of {whole:,}" if whole > rows else f"all {rows:,}"
        said = f"{table_of(number)}, {name}: {size:,} features on {part} training rows"
        if exact and exact[0] < rows:
            said += f", {exact[0]:,} for the exact kernel"
        if whole > rows and size == SCALES["paper"].size:
            seconds = sum(run["seconds"]["fit"] for run in sparse) * (whole / rows) ** ROWS_POWER
            said += (
                f"; all rows would take Sparse-RF about {duration(seconds)} for four λ and three "
                f"kernels, as its seconds grow like rows^{ROWS_POWER:g}"
            )
        yield f"{said}."
