"""The small systems of the blocks, whose factors are cached as far as memory allows."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mercer.equations import EquationBlock, Equations
from mercer.equations.factor import Factor

__all__ = ["LocalSolves"]


class LocalSolves:
    """Solves blocks, and caches what serves in every epoch, in at most ``budget`` bytes.

    That is a block's factors, one for each strength; where they do not fit, its Gram matrix; where
    that does not fit either, nothing.
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
        """Δ of a block for all columns; ``strengths`` numbers the strengths at work."""
        delta = np.empty_like(block.rhs)
        if self.needs_gram(number):
            self._admit(number, block, len(strengths))
        factors = self._factors.get(number)
        for place, strength in enumerate(strengths):
            columns = system.of(place)
            factor = None if factors is None else factors.get(int(strength))
            if factor is None:
                factor = Factor(self._blocks.get(number, block).matrix(system.alphas[place]))
                if factors is not None:
                    factors[int(strength)] = factor
            delta[:, columns] = factor.solve(block.rhs[:, columns])
        return delta

    def forget(self, strengths: NDArray) -> None:
        """Drop the factors of all strengths but these."""
        for factors in self._factors.values():
            for strength in set(factors).difference(strengths.tolist()):
                self.budget += factors.pop(strength).nbytes

    def _admit(self, number: int, block: EquationBlock, n_strengths: int) -> None:
        """Decide what is cached of a block that comes for the first time."""
        square = 8.0 * len(block.rows) ** 2
        penalty = 0.0 if block.penalty is None else float(block.penalty.nbytes)
        if n_strengths * square <= self.budget:
            self._factors[number] = {}
            self.budget -= n_strengths * square
        elif square + penalty <= self.budget:
            self._blocks[number] = block
            self.budget -= square + penalty
