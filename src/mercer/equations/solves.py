"""Solutions of blocks, and the factors that are cached for them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer._runtime.device_arrays import DeviceArray
from mercer.equations.block import EquationBlock
from mercer.equations.factor import Factor
from mercer.equations.on_device import DeviceFactor

__all__ = ["BlockSolves"]


class BlockSolves:
    """Solves blocks, with a cache across epochs of at most ``budget`` bytes."""

    def __init__(self, budget: float):
        self.budget = budget
        self._factors: dict[int, dict[int, Any]] = {}
        self._blocks: dict[int, EquationBlock] = {}
        self._squares: dict[int, float] = {}  # bytes of a factor of each block

    def needs_gram(self, number: int) -> bool:
        """Whether block ``number`` must come with its Gram matrix."""
        return number not in self._factors and number not in self._blocks

    def solve(
        self,
        number: int,
        block: EquationBlock,
        strengths: NDArray,
        alphas: NDArray[np.float64],
        columns: Sequence[slice],
    ) -> NDArray[np.float64]:
        """Δ of a block for all columns.

        ``strengths`` numbers the strengths at work, whose values are ``alphas`` and whose columns
        of x are ``columns``.
        """
        if self.needs_gram(number):
            self._admit(number, block, len(strengths))
        factors, delta = self._factors.get(number), np.empty_like(block.rhs)
        pieces = []
        for strength, alpha, part in zip(strengths, alphas, columns, strict=True):
            factor = None if factors is None else factors.get(int(strength))
            if factor is None:
                factor = self._factor(self._blocks.get(number, block), float(alpha))
                if factors is not None:
                    factors[int(strength)] = factor
            pieces.append(self._solution(factor, block.rhs[:, part]))
        for part, piece in zip(columns, self._brought(pieces), strict=True):
            delta[:, part] = piece
        return delta

    def _factor(self, block: EquationBlock, alpha: float) -> Any:
        """The factor of the matrix of a block."""
        matrix = block.matrix(alpha)
        return DeviceFactor(matrix) if isinstance(matrix, DeviceArray) else Factor(matrix)

    def _solution(self, factor: Any, rhs: NDArray[np.float64]) -> Any:
        """Solution of the equations of a factor."""
        return factor.solve(rhs)

    def _brought(self, solutions: list[Any]) -> list[NDArray[np.float64]]:
        """Solutions as arrays."""
        return solutions

    def forget(self, strengths: NDArray) -> None:
        """Drop the factors of all strengths but these."""
        for number, factors in self._factors.items():
            for strength in set(factors).difference(strengths.tolist()):
                del factors[strength]
                self.budget += self._squares[number]

    def _admit(self, number: int, block: EquationBlock, n_strengths: int) -> None:
        """Decide on the cache of a block at its first use."""
        square = 8.0 * len(block.rows) ** 2
        penalty = 0.0 if block.penalty is None else float(block.penalty.nbytes)
        if n_strengths * square <= self.budget:
            self._factors[number] = {}
            self._squares[number] = square
            self.budget -= n_strengths * square
        elif square + penalty <= self.budget:
            self._blocks[number] = block
            self.budget -= square + penalty
