"""Wall time of a search by its trials and stages."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer.auto.leading import Record

__all__ = ["PREPARATION", "Ledger", "stage_seconds", "trials_of"]

PREPARATION = "preparation"  # stage before the first trial: kinds of columns


class Ledger:
    """Rows of ``search_results_`` and the wall seconds of each, which sum to those of the search.

    Time since the last charge, preparation included, belongs to the trials recorded since then.
    """

    def __init__(self, records: list[Record]):
        self.since = time.perf_counter()  # of the last charge, at first of the start
        self.rows: list[Record] = []  # of trials, and of work without one, which have a loss of NaN
        self.seconds: list[float] = []
        self._records, self._n_charged = records, 0  # of trials, which the search appends to

    def charge(self, otherwise: Record, weights: Sequence[float] = ()) -> None:
        """Share the time since the last charge among the new records, ``otherwise`` without any.

        ``weights`` are proportional to the shares, which are equal without them.
        """
        now = time.perf_counter()
        new = self._records[self._n_charged :] or [otherwise]
        self._n_charged = len(self._records)
        shares = np.array(weights if len(weights) == len(new) else np.ones(len(new)))
        self.rows += new
        self.seconds += ((now - self.since) * shares / shares.sum()).tolist()
        self.since = now

    def close(self, otherwise: Record) -> float:
        """Charge the time of the end to the last row, or to the first if none is; return when."""
        self.charge(otherwise)
        if len(self.rows) > 1 and self.rows[-1] is otherwise:
            self.rows.pop()
            self.seconds[-2:] = [sum(self.seconds[-2:])]
        return self.since


def trials_of(results: Mapping[str, NDArray]) -> dict[str, NDArray]:
    """Entries of ``search_results_`` that are trials: all but those of a loss of NaN."""
    tried = ~np.isnan(results["loss"])
    return {name: np.asarray(values)[tried] for name, values in results.items()}


def stage_seconds(model: Any) -> dict[str, float] | None:
    """Seconds of every stage of the search of an automatic model, in their order.

    None of other models, and of files of older versions, which lack the time between trials.
    """
    results: Mapping[str, NDArray] = getattr(model, "search_results_", {})
    if "machine_seconds" not in results:
        return None
    stages, places = np.unique(results["stage"], return_inverse=True)
    sums = dict(zip(stages.tolist(), np.bincount(places, results["seconds"]).tolist(), strict=True))
    return {stage: sums[stage] for stage in dict.fromkeys(results["stage"].tolist())}
