"""The best combination of the changes of the last epochs."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mercer._runtime.device_arrays import contiguous, on_host, placed
from mercer.equations import Equations, Functions

__all__ = ["Subspace"]

_WIDEST = 160  # most directions per strength: more cost more than they gain
_NEGLIGIBLE = 1e3  # eigenvalues below this multiple of the machine epsilon are rounding errors
_CANCELLED = 1e2 * float(np.finfo(np.float64).eps)  # relative rounding error of slopes of F


class Subspace:
    """Minimises over the changes of the last epochs, all outputs of a strength together.

    The energy of a change follows from the change of the state, so that no column is generated for
    it. It is a Krylov method without parameters, whose preconditioner, the blocks in their order,
    may differ from epoch to epoch.

    ``functions`` are directions that are combined with the changes of ``depth`` epochs.
    """

    def __init__(self, system: Equations, depth: int):
        self.system = system
        self.depth = max(1, min(depth, _WIDEST // system.width))
        self.changes: list[dict[str, NDArray]] = []
        self.functions: Functions | None = None
        self._rounding = _NEGLIGIBLE * float(np.finfo(system.problem.dtype).eps)

    def begin(self) -> None:
        """Begin an epoch: set the journal to zero."""
        self.system.journal = {k: np.zeros_like(v) for k, v in self.system.state.items()}

    def improve(self, relative: NDArray[np.float64]) -> None:
        """End an epoch: go where F is least in the span of its change and those before.

        Near the solution the slope of F is a small difference of large numbers: the smaller the
        ``relative`` residual of a strength, the fewer directions are trusted.
        """
        arrays, newest = self.system.state, self.system.journal
        self.changes.append(newest)
        del self.changes[: -self.depth]
        for place in range(len(self.system.alphas)):
            columns = self.system.of(place)
            least = max(self._rounding, _CANCELLED / max(_CANCELLED, float(relative[place])))
            for name, change in self._best(place, columns, least).items():
                arrays[name][:, columns] += change
                newest[name][:, columns] += change

    def _best(self, place: int, columns: slice, least: float) -> dict[str, NDArray]:
        """The change of the arrays of one strength by the best combination."""
        basis = {
            name: np.hstack([change[name][:, columns] for change in self.changes])
            for name in self.changes[0]
        }
        system, functions = self.system, self.functions
        gram, slope = system.pairing(basis, basis, place), system.slope(basis, place)
        if functions is None:
            weights = _minimiser(gram, slope, gram.diagonal(), least)
            return {name: array @ weights for name, array in basis.items()}
        # Functions are orthogonal to each other: their elimination leaves a small matrix.
        diagonal = functions.energies + functions.norm * system.alphas[place]
        cross = system.pairing(functions.arrays, basis, place)
        of_functions = system.slope(functions.arrays, place)
        inverse = np.divide(1.0, diagonal, out=np.zeros_like(diagonal), where=diagonal > 0)[:, None]
        left = gram - cross.T @ (inverse * cross)
        left_slope = slope - cross.T @ (inverse * of_functions)
        weights = _minimiser(left, left_slope, gram.diagonal(), least)
        change = system.change_by_functions(
            functions, inverse * (of_functions - cross @ weights), place
        )
        return {name: change[name] + array @ weights for name, array in basis.items()}

    def keep(self, columns: NDArray) -> None:
        """Drop all other columns."""
        for change in self.changes:
            for name in change:
                change[name] = contiguous(change[name][:, columns])

    def arrays(self) -> dict[str, NDArray]:
        """All arrays, by age and name."""
        every = [*self.changes, self.system.journal]
        return {
            f"{age}.{name}": on_host(array)
            for age, change in enumerate(every)
            for name, array in change.items()
        }

    def restore(self, arrays: dict[str, NDArray]) -> None:
        """Go where ``arrays`` was."""
        every: dict[int, dict[str, NDArray]] = {}
        for key, array in arrays.items():
            age, name = key.split(".")
            every.setdefault(int(age), {})[name] = placed(array, self.system.problem.device)
        *self.changes, self.system.journal = [every[age] for age in sorted(every)]


def _minimiser(
    gram: NDArray[np.float64], slope: NDArray[np.float64], sizes: NDArray[np.float64], least: float
) -> NDArray[np.float64]:
    """c with gram c = slope, without directions whose share of the energy is below ``least``.

    ``sizes`` are the energies that shares are of.
    """
    root = np.sqrt(np.maximum(sizes, 0.0))
    inverse = np.divide(1.0, root, out=np.zeros_like(root), where=root > 0)
    scaled = inverse[:, None] * (0.5 * (gram + gram.T)) * inverse
    if not (np.all(np.isfinite(scaled)) and np.all(np.isfinite(slope))):
        return np.zeros_like(slope)
    values, vectors = np.linalg.eigh(scaled)
    kept = values > least * max(1.0, values.max(initial=0.0))
    vectors = inverse[:, None] * vectors[:, kept]
    return vectors @ ((vectors.T @ slope) / values[kept, None])
