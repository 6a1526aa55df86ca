"""Ridge regressions of a few thousand rows, solved by one Cholesky factor."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from mercer._runtime.threads import cholesky_in_place
from mercer.designs.kernel_rows import times

__all__ = ["LEAST_SINGLE", "kernel_ridge", "refined_kernel_ridge", "ridge_regressions"]

LEAST_SINGLE = 7e-4  # ridge, relative to the diagonal, below which float32 has no correct digits
_REFINED = 0.02  # ridge below which float32 needs a second refinement step


def kernel_ridge(
    matrix: NDArray, target: NDArray, ridge: float, overwrite: bool = False
) -> NDArray | None:
    """(matrix + ridge I)⁻¹ target by one factor; None if rounding leaves no factor.

    The matrix (n, n) is symmetric and positive semidefinite, float32 or float64; ``overwrite``
    gives its memory to the factor.
    """
    factor = _factor(matrix, ridge, overwrite)
    return None if factor is None else linalg.cho_solve(factor, target, check_finite=False)


def refined_kernel_ridge(
    matrix: NDArray[np.float32], target: NDArray, ridge: float
) -> NDArray | None:
    """(matrix + ridge I)⁻¹ target, in float32 where its rounding does not show.

    Smaller ridges take a second step of float32, and the least ones a factor in float64, which is
    the one copy of ``matrix``. None if rounding leaves no factor.
    """
    factor = _factor(matrix, ridge) if ridge >= LEAST_SINGLE else None
    if factor is None:
        return kernel_ridge(matrix.astype(np.float64), target, ridge, overwrite=True)
    left = target.astype(matrix.dtype)
    coef = linalg.cho_solve(factor, left, check_finite=False).astype(np.float64)
    if ridge < _REFINED:
        left = left - times(matrix, coef) - ridge * coef
        coef += linalg.cho_solve(factor, left.astype(matrix.dtype), check_finite=False)
    return coef


def ridge_regressions(Z: NDArray, target: NDArray, ridges: Sequence[Any]) -> Iterator[NDArray]:
    """Coefficients (D, k) of ridge regression for every ridge; a LinAlgError without a factor.

    The smaller of the two Gram matrices of Z is factored.
    """
    is_wide = len(Z) < Z.shape[1]  # (ZᵀZ + r I)⁻¹ Zᵀ t = Zᵀ (Z Zᵀ + r I)⁻¹ t
    gram, right = (Z @ Z.T, target) if is_wide else (Z.T @ Z, Z.T @ target)
    for ridge in ridges:
        coef = kernel_ridge(gram, right, ridge)
        if coef is None:
            raise np.linalg.LinAlgError("the matrix is not positive definite to rounding.")
        yield Z.T @ coef if is_wide else coef


def _factor(matrix: NDArray, ridge: float, overwrite: bool = False) -> tuple[NDArray, bool] | None:
    """Factor of matrix + ridge I for ``cho_solve``; None if rounding leaves none."""
    system = matrix if overwrite else matrix.copy()
    system.flat[:: len(system) + 1] += ridge
    return (system.T, True) if cholesky_in_place(system) else None
