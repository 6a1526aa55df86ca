"""One choice of settings on some rows: fitted, and judged on rows it has not seen."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from mercer import kernels
from mercer.designs.kernel_rows import times
from mercer.estimators.scales import ridge_factor
from mercer.estimators.selection import responses
from mercer.losses import Squared
from mercer.maps import FeatureMap
from mercer.penalties import L2
from mercer.problem import Problem
from mercer.solvers import ConjugateGradient

__all__ = ["METRICS", "Settings", "exact_responses", "feature_responses"]

METRICS = {
    "laplacian": "cityblock",
    "smooth": "cityblock",
    "gaussian": "sqeuclidean",
    "linear": "sqeuclidean",
}

_ROUGH, _SMALL = 0.02, 7e-4  # ridges below which float32 needs a second step, and serves no more
_TOL = 1e-2
_MAX_ITER = 300


@dataclass(frozen=True, order=True)
class Settings:
    """A choice of everything that an automatic model chooses."""

    numbers: str = "robust"  # treatment of numbers by the ``TablePreparer``
    max_integers: int = 0  # of the ``TablePreparer``
    power: float = 0.0  # of the scales that the ``GradientScaler`` learns
    turned: bool = False  # whether these scales turn inputs, too: its ``full``
    # "laplacian", "gaussian", "smooth" (random bins with faded edges) or "linear" (of many inputs).
    kernel: str = "laplacian"
    gamma: float = 1.0  # of inputs whose median distance is 1
    ridge: float = 0.3  # in the system (K + ridge I) a = y
    transform: str = "identity"  # of the target, or "log"


def exact_responses(
    kernel: kernels.Kernel, fitted: Any, held: Any, target: NDArray, ridges: Sequence[float]
) -> Iterator[tuple[float, NDArray]]:
    """Responses to the held rows of the exact kernel machine, for every ridge: (h, k)."""
    matrix, across = kernel(fitted), kernel(held, fitted)
    for ridge in ridges:
        coef = None if ridge < _SMALL else _solved(matrix, target, ridge, 1 + (ridge < _ROUGH))
        if coef is None:
            coef = _solved(matrix.astype(np.float64), target, ridge)
        if coef is not None:
            yield ridge, times(across, coef)


def _solved(matrix: NDArray, target: NDArray, ridge: float, steps: int = 1) -> NDArray | None:
    """(matrix + ridge I)⁻¹ target, if the matrix has a factor; more steps mend its rounding."""
    factor = ridge_factor(matrix, ridge)
    if factor is None:
        return None
    coef = np.zeros(target.shape)
    left = target
    for step in range(steps):
        if step:
            left = target - times(matrix, coef) - ridge * coef
        left = left.astype(matrix.dtype, copy=False)
        coef += linalg.cho_solve(factor, left, check_finite=False)
    return coef


def feature_responses(
    map_: FeatureMap, fitted: Any, held: Any, target: NDArray, ridges: Sequence[float]
) -> Iterator[tuple[float, NDArray]]:
    """Responses to the held rows of ridge regression on features, for every ridge: (h, k).

    All start from nothing, as the final fit does: few iterations shrink coefficients, too.
    """
    design = map_.fit_design(fitted)
    for ridge in ridges:
        penalty = L2(ridge / design.shape[0])
        problem = Problem(design, target, Squared(), penalty, fit_intercept=False)
        solver = ConjugateGradient(tol=_TOL, max_iter=_MAX_ITER)
        thetas = solver.solve(problem).coef[None]
        yield ridge, responses(map_, thetas, False, held)[0]
