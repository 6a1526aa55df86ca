"""Solutions of blocks by tasks on workers, of which only right-hand sides and results travel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lapack

from mercer.distributed.run import Run
from mercer.engines.engine import Handle
from mercer.equations import BlockSolves, EquationBlock
from mercer.equations.factor import Factor

__all__ = ["RemoteBlock", "RemoteSolves", "packed", "unpacked"]


_SMALL = 2**16  # bytes of an argument that may be in a task; a larger one is shared


@dataclass
class RemoteBlock(EquationBlock):
    """A block whose matrix workers make by ``maker(*given, alpha)``, not here."""

    maker: Any = None
    given: tuple[Any, ...] = ()


class RemoteSolves(BlockSolves):
    """Factors and solutions as tasks on workers, in ``budget`` bytes together."""

    def __init__(self, run: Run, budget: float):
        super().__init__(budget)
        self.run = run

    def _factor(self, block: EquationBlock, alpha: float) -> Handle:
        if not isinstance(block, RemoteBlock):
            raise TypeError(f"block must be a RemoteBlock; got {type(block).__name__}.")
        return self.run.engine.once(_factor, block.maker, block.given, alpha)

    def _solution(self, factor: Handle, rhs: NDArray[np.float64]) -> Handle:
        self.run.words["sent", "solve"] += rhs.size
        self.run.words["received", "solve"] += rhs.size
        rhs = np.ascontiguousarray(rhs)
        given = self.run.engine.share(rhs) if rhs.nbytes > _SMALL else rhs
        return self.run.engine.once(_solution, factor, given)

    def _brought(self, solutions: list[Handle]) -> list[NDArray[np.float64]]:
        return self.run.engine.fetch(solutions)


def _factor(maker: Any, given: tuple[Any, ...], alpha: float) -> Factor:
    return Factor(maker(*given, alpha), overwrite=True)


def _solution(factor: Factor, rhs: NDArray[np.float64]) -> NDArray[np.float64]:
    return factor.solve(rhs)


def packed(matrix: NDArray[np.float64]) -> NDArray[np.float64]:
    """A triangle of a symmetric matrix (b, b), as b (b + 1) / 2 numbers without gaps."""
    return lapack.dtrttf(matrix.T)[0] if len(matrix) else np.zeros(0)


def unpacked(triangle: NDArray[np.float64], side: int) -> NDArray[np.float64]:
    """The symmetric matrix of a triangle."""
    if not side:
        return np.zeros((0, 0))
    matrix = np.triu(lapack.dtfttr(side, triangle)[0])
    matrix += np.triu(matrix, 1).T
    return matrix
