"""The equations of a block of unknowns."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["EquationBlock"]


@dataclass
class EquationBlock:
    """The equations of some unknowns while all others are fixed: (gram + α penalty) Δ = rhs."""

    rows: NDArray  # of x that move, (r,): those of the columns, and the intercept's if there is one
    columns: NDArray  # of the design, (b,)
    rhs: NDArray[np.float64]  # residual of these rows at the current x, (r, C)
    gram: NDArray[np.float64] | None = None  # what all strengths share, (r, r), if asked for
    penalty: NDArray[np.float64] | None = None  # times the strength: a diagonal (r,) or (r, r)

    def matrix(self, alpha: float) -> NDArray[np.float64]:
        """gram + alpha · penalty."""
        if self.gram is None or self.penalty is None:
            raise ValueError("the block must be asked for with gram=True to have a matrix.")
        matrix = self.gram.copy()
        if self.penalty.ndim == 2:
            matrix += alpha * self.penalty
        else:
            matrix[np.diag_indices(len(matrix))] += alpha * self.penalty
        return matrix
