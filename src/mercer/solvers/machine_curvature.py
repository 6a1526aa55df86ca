"""Second derivatives of kernel machines, and the inverses of a factor that they weigh."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lapack

from mercer._runtime.device_arrays import every_row
from mercer._runtime.threads import cholesky_in_place
from mercer.designs.kernel_rows import times
from mercer.problem import Problem

__all__ = ["Curvature", "Reweighted", "Rows", "sums"]

Rows = NDArray[np.float64]  # (n, k), of all outputs or of those at work

_FLAT = 1e-10  # mean second derivative below which the constant term has no curvature


class Curvature:
    """W = R Rᵀ at responses, R being a scale times a projection within every row."""

    def __init__(self, problem: Problem, responses: Rows, y: Rows):
        self._projection: Callable[[Rows], Rows] | None
        self.scale, self._projection = problem.loss.curvature_root(responses, y)
        self._has_intercept = problem.fit_intercept
        if problem.weights is not None:
            self.scale = self.scale * np.sqrt(problem.weights)[:, None]
        n, k = self.scale.shape
        if self._projection is None:
            total = np.einsum("ij,ij->j", self.scale, self.scale)
            # Where the loss is linear, a step of any length does; that of unit curvature is tried.
            self._of_constants = 1.0 / np.where(total > _FLAT * n, total, n)
        else:
            units = [every_row(np.eye(1, k, c), self.scale) for c in range(k)]
            total = np.stack([self.times(unit).sum(axis=0) for unit in units])
            self._of_constants = np.linalg.pinv(total, rcond=_FLAT, hermitian=True)

    def of(self, columns: NDArray) -> Curvature:
        """Curvature of some independent outputs, by number or mask."""
        if self._projection is not None or self.scale.shape[1] == 1:
            return self
        other = copy(self)
        other.scale, other._of_constants = self.scale[:, columns], self._of_constants[columns]
        return other

    def among(self, rows: Any) -> Curvature:
        """Curvature of some rows; all others get 0."""
        other = copy(self)
        other.scale = self.scale[rows]
        return other

    def root(self, v: Rows) -> Rows:
        """R v."""
        return self.scale * (v if self._projection is None else self._projection(v))

    def transposed(self, v: Rows) -> Rows:
        """Rᵀ v."""
        scaled = self.scale * v
        return scaled if self._projection is None else self._projection(scaled)

    def times(self, v: Rows) -> Rows:
        """W v."""
        return self.root(self.transposed(v))

    def shift(self, sums: NDArray[np.float64]) -> NDArray[np.float64]:
        """The constants c with sums of W c equal to the given ones; 0 without an intercept."""
        if not self._has_intercept:
            return np.zeros_like(sums)
        return (
            self._of_constants @ sums if self._of_constants.ndim == 2 else self._of_constants * sums
        )

    def mean(self, v: Rows) -> NDArray[np.float64]:
        """The constants c for which W (v − c) adds up to nothing."""
        return self.shift(self.times(v).sum(axis=0))

    def centred(self, v: Rows) -> Rows:
        """v less its part within Rᵀ 1, which the intercept takes, and within rows."""
        v = v if self._projection is None else self._projection(v)
        shift = self.shift(self.root(v).sum(axis=0))
        return v - self.transposed(every_row(shift, v)) if self._has_intercept else v


class Reweighted:
    """(D FᵀF D + ridge I)⁻¹, up to a factor, for the scale D of each output."""

    def __init__(self, factor: NDArray, scale: Rows, ridge: float, n_jobs: int):
        self._factor, self._scale, self._n_jobs = factor, scale, n_jobs
        self._inner = []
        eps = float(np.finfo(factor.dtype).eps)
        for column in scale.T:
            weighted = factor * column.astype(factor.dtype)
            inner = (weighted @ weighted.T).astype(np.float64)
            diagonal = inner.diagonal()
            # Raised by what rounding may have taken.
            inner[np.diag_indices(len(inner))] += ridge + eps * float(diagonal.sum())
            if not cholesky_in_place(inner):
                raise np.linalg.LinAlgError("the weighted factor has no inverse.")
            self._inner.append(inner.T)

    def __call__(self, v: Rows, places: NDArray[np.int64]) -> Rows:
        scale = self._scale[:, places]
        inner = times(self._factor, scale * v, self._n_jobs)
        for column, place in enumerate(places):
            inner[:, column] = lapack.dpotrs(self._inner[place], inner[:, column], lower=1)[0]
        return v - scale * times(self._factor.T, inner, self._n_jobs)


def sums(problem: Problem, array: NDArray) -> NDArray[np.float64]:
    """Sums over the rows of every output, (k,), or over all outputs of a joint loss, (1,)."""
    each = array.sum(axis=0)
    return each.sum(keepdims=True) if problem.loss.joint else each
