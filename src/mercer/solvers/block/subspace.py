"""What the last epochs have changed, combined as well as can be."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mercer.problem.systems import System

__all__ = ["Subspace"]

_WIDEST = 160  # directions of one strength: more cost more than they gain
_NEGLIGIBLE = 1e3  # times the precision: smaller eigenvalues are made of rounding
_CANCELLED = 1e2 * float(np.finfo(np.float64).eps)


class Subspace:
    """Minimises over the changes of the last epochs, all outputs of a strength together.

    The energy of a change follows from what it did to the state, so that no row is generated for
    it. It is a Krylov method that needs no parameters, and its blocks are a preconditioner that may
    be another one in every epoch.

    Parameters
    ----------
    system : System
    depth : int
        How many epochs are looked back on.
    """

    def __init__(self, system: System, depth: int):
        self.system = system
        self.depth = max(1, min(depth, _WIDEST // system.width))
        self.changes: list[dict[str, NDArray]] = []
        self._rounding = _NEGLIGIBLE * float(np.finfo(system.problem.dtype).eps)

    def begin(self) -> None:
        """An epoch begins here."""
        self.system.record()

    def improve(self, relative: NDArray[np.float64]) -> None:
        """An epoch is over: go where F is least among all it and those before lead to.

        Near the solution the slope of F is a small difference of large numbers: the smaller the
        ``relative`` residual of a strength, the fewer directions are trusted.
        """
        arrays, newest = self.system.state(), self.system.journal
        self.changes.append(newest)
        del self.changes[: -self.depth]
        for place in range(len(self.system.alphas)):
            own = self.system.of(place)
            basis = {
                name: np.hstack([change[name][:, own] for change in self.changes])
                for name in arrays
            }
            least = max(self._rounding, _CANCELLED / max(_CANCELLED, float(relative[place])))
            weights = _minimiser(*self.system.energy(basis, place), least)
            for name, array in arrays.items():
                change = basis[name] @ weights
                array[:, own] += change
                newest[name][:, own] += change

    def keep(self, columns: NDArray) -> None:
        """Let all other columns go."""
        for change in self.changes:
            for name in change:
                change[name] = np.ascontiguousarray(change[name][:, columns])

    def arrays(self) -> dict[str, NDArray]:
        """All that is remembered."""
        every = [*self.changes, self.system.journal]
        return {
            f"{age}.{name}": array
            for age, change in enumerate(every)
            for name, array in change.items()
        }

    def restore(self, arrays: dict[str, NDArray]) -> None:
        """Remember what ``arrays`` told."""
        every: dict[int, dict[str, NDArray]] = {}
        for key, array in arrays.items():
            age, name = key.split(".")
            every.setdefault(int(age), {})[name] = array
        *self.changes, self.system.journal = [every[age] for age in sorted(every)]


def _minimiser(
    gram: NDArray[np.float64], slope: NDArray[np.float64], least: float
) -> NDArray[np.float64]:
    """c with gram c = slope, without directions whose share of the energy is below ``least``."""
    size = np.sqrt(np.maximum(gram.diagonal(), 0.0))
    inverse = np.divide(1.0, size, out=np.zeros_like(size), where=size > 0)
    scaled = inverse[:, None] * (0.5 * (gram + gram.T)) * inverse
    if not (np.all(np.isfinite(scaled)) and np.all(np.isfinite(slope))):
        return np.zeros_like(slope)
    values, vectors = np.linalg.eigh(scaled)
    kept = values > max(least * values.max(initial=0.0), 0.0)
    vectors = inverse[:, None] * vectors[:, kept]
    return vectors @ ((vectors.T @ slope) / values[kept, None])
