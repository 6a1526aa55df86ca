"""The best combination of the changes of the last epochs."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mercer._runtime.device_arrays import on_host, placed
from mercer.equations import Equations, Functions, Span

__all__ = ["Subspace", "depth_of"]

_WIDEST = 160  # most directions per strength: more cost more than they gain
_NEGLIGIBLE = 1e3  # eigenvalues below this multiple of the machine epsilon are rounding errors
_CANCELLED = 1e2 * float(np.finfo(np.float64).eps)  # relative rounding error of slopes of F


def depth_of(system: Equations, depth: int) -> int:
    """Number of epochs, at most ``depth``, whose changes are stored: fewer for many outputs."""
    return max(1, min(depth, _WIDEST // system.width))


class Subspace:
    """Minimises over the changes of the last epochs, all outputs of a strength together.

    The energy of a change follows from the change of the state, so that no column is generated for
    it. It is a Krylov method without parameters, whose preconditioner, the blocks in their order,
    may differ from epoch to epoch.

    ``functions`` are directions that are combined with the changes of ``depth`` epochs.
    """

    def __init__(self, system: Equations, depth: int):
        self.system = system
        self.depth = depth_of(system, depth)
        self.functions: Functions | None = None
        self._rounding = _NEGLIGIBLE * float(np.finfo(system.problem.dtype).eps)

    def improve(self, relative: NDArray[np.float64]) -> None:
        """End an epoch at the least F in the span of the last changes.

        The smaller the ``relative`` residual, the fewer directions: slopes cancel by then.
        """
        self.system.end_change(self.depth)
        weights = [
            self._best(place, span, max(self._rounding, _CANCELLED / max(_CANCELLED, float(left))))
            for place, (span, left) in enumerate(
                zip(self.system.spans(self.functions), relative, strict=True)
            )
        ]
        self.system.combine(self.functions, weights)

    def _best(
        self, place: int, span: Span, least: float
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Weights of the changes and of the functions of one strength in the best combination."""
        gram, slope, functions = span.gram, span.slope, self.functions
        if functions is None:
            return _minimiser(gram, slope, gram.diagonal(), least), span.of_functions
        # Functions are orthogonal to each other: their elimination leaves a small matrix.
        diagonal = functions.energies + functions.norm * self.system.alphas[place]
        inverse = np.divide(1.0, diagonal, out=np.zeros_like(diagonal), where=diagonal > 0)[:, None]
        left = gram - span.cross.T @ (inverse * span.cross)
        left_slope = slope - span.cross.T @ (inverse * span.of_functions)
        weights = _minimiser(left, left_slope, gram.diagonal(), least)
        return weights, inverse * (span.of_functions - span.cross @ weights)

    def arrays(self) -> dict[str, NDArray]:
        """All arrays, by age and name."""
        every = [*self.system.changes, self.system.journal]
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
        *self.system.changes, self.system.journal = [every[age] for age in sorted(every)]


def _minimiser(
    gram: NDArray[np.float64], slope: NDArray[np.float64], sizes: NDArray[np.float64], least: float
) -> NDArray[np.float64]:
    """c with gram c = slope, without directions of an energy share below ``least``."""
    root = np.sqrt(np.maximum(sizes, 0.0))
    inverse = np.divide(1.0, root, out=np.zeros_like(root), where=root > 0)
    scaled = inverse[:, None] * (0.5 * (gram + gram.T)) * inverse
    if not (np.all(np.isfinite(scaled)) and np.all(np.isfinite(slope))):
        return np.zeros_like(slope)
    values, vectors = np.linalg.eigh(scaled)
    kept = values > least * max(1.0, values.max(initial=0.0))
    vectors = inverse[:, None] * vectors[:, kept]
    return vectors @ ((vectors.T @ slope) / values[kept, None])
