"""Work of the steps on a working set, counted: which kind costs less must not depend on a clock."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mercer.solvers.coordinate.columns import BinColumns, SparseColumns
from mercer.solvers.coordinate.output import Iterate, Output

__all__ = ["Work", "batch_work"]

# Nanoseconds of one thread, measured on binned designs of 20 000 to 50 000 rows.
_BATCHES, _TURNS = 4, 25  # usual batches of a model, and conjugate gradients of one
_DENSE = 0.1  # a product of two numbers in a Gram matrix of columns as arrays
_LISTS = 3.0  # listing the rows of columns, per row and grid
_FACTORS = 0.15  # all factorisations of a model, per cubed number of active columns
_PASSES = 25.0  # all products with the Gram matrix of a model, per entry of it
_COUNTS = 1 / 320  # a row shared by two columns, counted in bitmaps
_PRODUCTS = 5.0  # an entry of a sparse row times another
_GROWTH = 4 / 3  # active columns after a step, relative to those before


def batch_work(n_entries: float, n_active: float, turns: int) -> float:
    """Nanoseconds of a batch of sweeps, about one for each entry read or written.

    A sweep and a gradient over all columns at work; four sweeps over those with weights, and
    ``turns`` products of these with a vector and back.
    """
    return 3.0 * n_entries + (8.0 + 2.0 * turns) * n_active


@dataclass
class Work:
    """Estimated nanoseconds of the next step of each kind; infinite where it is ruled out."""

    newton: float
    descent: float

    @classmethod
    def of(cls, output: Output, at: Iterate, n_wanted: int) -> Work:
        """The work from an iterate on, with ``n_wanted`` columns in the working set.

        Sweeps over dense columns are ruled out: each costs what many columns of a Gram matrix do.
        """
        columns, active = output.columns, np.flatnonzero(at.w)
        if isinstance(columns, BinColumns):
            sizes = output.problem.mean_squares[active] * columns.n / columns.design.scale**2
            per_row = columns.design.n_grids
        elif isinstance(columns, SparseColumns):
            sizes = np.diff(columns.by_column.indptr)[active]
            per_row = 1
        else:
            return cls(0.0, np.inf)
        if not len(active):
            return cls(0.0, np.inf)
        h = output.curvature(at)
        n_rows = columns.n if h is None else int(np.count_nonzero(h))
        entries = float(np.sum(sizes)) * n_rows / columns.n * n_wanted / len(active)
        n_new = n_wanted - len(active) if output.loss.quadratic else n_wanted
        if isinstance(columns, BinColumns) and columns.is_small and not output.loss.quadratic:
            gram = _DENSE * columns.n * n_wanted * n_new
        elif isinstance(columns, BinColumns):
            gram = _COUNTS * n_rows * n_wanted * n_new
        else:
            gram = _PRODUCTS * entries**2 / max(n_rows, 1) * n_new / n_wanted
        model = _FACTORS * (_GROWTH * len(active)) ** 3 + _PASSES * n_wanted**2
        batch = batch_work(entries, entries * len(active) / n_wanted, _TURNS)
        descent = _BATCHES * batch + _LISTS * per_row * n_rows
        return cls(gram + model, descent)
