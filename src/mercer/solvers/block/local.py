"""The small systems of the blocks: their factors, kept as far as memory allows."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mercer.equations import EquationBlock, Equations
from mercer.equations.factor import Factor

__all__ = ["LocalSolves"]


class LocalSolves:
    """Solves blocks, and remembers what it has worked out about them.

    A block's factors, one for each strength, serve in every epoch; where they do not fit, its Gram
    matrix does; where that does not fit either, all is made anew.

    Parameters
    ----------
    budget : float
        Bytes that may be kept.
    """

    def __init__(self, budget: float):
        self.budget = budget
        self._factors: dict[int, dict[int, Factor]] = {}
        self._blocks: dict[int, EquationBlock] = {}

    def needs_gram(self, number: int) -> bool:
        """Whether block ``number`` must come with its Gram matrix."""
        return number not in self._factors and number not in self._blocks

    def solve(
        self, system: Equations, number: int, block: EquationBlock, strengths: NDArray
    ) -> NDArray[np.float64]:
        """Δ of a block for all its columns; ``strengths`` are the numbers of those at work."""
        delta = np.empty_like(block.rhs)
        if self.needs_gram(number):
            self._admit(number, block, len(strengths))
        kept = self._factors.get(number)
        for place, strength in enumerate(strengths):
            columns = system.of(place)
            factor = None if kept is None else kept.get(int(strength))
            if factor is None:
                whole = self._blocks.get(number, block)
                factor = Factor(whole.matrix(system.alphas[place]))
                if kept is not None:
                    kept[int(strength)] = factor
            delta[:, columns] = factor.solve(block.rhs[:, columns])
        return delta

    def forget(self, strengths: NDArray) -> None:
        """Drop the factors of all strengths but these."""
        stay = {int(strength) for strength in strengths}
        for kept in self._factors.values():
            for strength in [strength for strength in kept if strength not in stay]:
                self.budget += kept.pop(strength).nbytes

    def _admit(self, number: int, block: EquationBlock, n_strengths: int) -> None:
        """Decide what is kept of a block that comes for the first time."""
        square = 8.0 * len(block.rows) ** 2
        penalty = 0.0 if block.penalty is None else float(block.penalty.nbytes)
        if n_strengths * square <= self.budget:
            self._factors[number] = {}
            self.budget -= n_strengths * square
        elif square + penalty <= self.budget:
            self._blocks[number] = block
            self.budget -= square + penalty
