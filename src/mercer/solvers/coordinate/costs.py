"""Work of the steps on a working set, counted: which kind costs less must not depend on a clock."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mercer.solvers.coordinate.columns import BinColumns
from mercer.solvers.coordinate.output import Iterate, Output

__all__ = ["Work", "batch_work"]

# Nanoseconds of one thread, measured on binned designs of 20 000 to 50 000 rows.
_BATCHES, _TURNS = 4, 25  # typical batches of sweeps, and conjugate gradients, per model
_DENSE = 0.1  # ns per multiplication in a Gram matrix of dense columns
_LISTS = 3.0  # ns per row and grid to list the rows of columns
_FACTORS = 0.15  # ns per cubed number of active columns for all factorisations of a model
_PASSES = 25.0  # ns per entry of the Gram matrix for all products of a model
_COUNTS = 1 / 320  # ns per row to count the rows of two columns in bitmaps
_GROWTH = 4 / 3  # active columns after a step, relative to those before


def batch_work(n_entries: float, n_active: float, turns: int) -> float:
    """Nanoseconds of a batch of sweeps, about one for each entry read or written.

    ``turns`` are products of the columns with weights with a vector and back.
    """
    return 3.0 * n_entries + (8.0 + 2.0 * turns) * n_active


@dataclass
class Work:
    """Estimated nanoseconds of the next step of each kind; infinite where it is ruled out."""

    newton: float
    descent: float

    @classmethod
    def of(cls, output: Output, at: Iterate, n_wanted: int) -> Work:
        """Work from an iterate on, of ``n_wanted`` columns; only columns of bins are swept."""
        columns, active = output.columns, at.active
        if not isinstance(columns, BinColumns) or not len(active):
            return cls(0.0, np.inf)
        h = output.curvature(at)
        n_rows = columns.n if h is None else int(np.count_nonzero(h))
        sizes = columns.norms()[active] ** 2 * n_rows / columns.design.scale**2
        in_active = float(np.sum(sizes))
        entries = in_active * n_wanted / len(active)
        n_new = n_wanted - len(active) if output.loss.quadratic else n_wanted
        gram = _COUNTS * n_rows * n_wanted * n_new
        if columns.is_small and not output.loss.quadratic:
            gram = _DENSE * columns.n * n_wanted * n_new
        model = _FACTORS * (_GROWTH * len(active)) ** 3 + _PASSES * n_wanted**2
        batches = _BATCHES * batch_work(entries, in_active, _TURNS)
        return cls(gram + model, batches + _LISTS * columns.design.n_grids * n_rows)
