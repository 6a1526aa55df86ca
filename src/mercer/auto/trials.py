"""One choice of settings on some rows: fitted, and judged on rows it has not seen."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from mercer.estimators.selection import responses
from mercer.losses import Squared
from mercer.maps import FeatureMap, IdentityMap, RandomBinning, RandomFourier
from mercer.penalties import L2
from mercer.problem import Problem
from mercer.solvers import ConjugateGradient

__all__ = ["METRICS", "TOLS", "Settings", "feature_map", "feature_responses", "feature_tol"]

METRICS = {
    "laplacian": "cityblock",
    "smooth": "cityblock",
    "gaussian": "sqeuclidean",
    "linear": "sqeuclidean",
}

# Residual of iterations for numbers and for classes, whose errors rougher responses leave as they
# are (of seven tables, 0.07 beside 0.02: three better, four worse). Errors of cpu are 6 % above
# those at 0.02 at 0.05.
TOLS = {"continuous": 0.02, "classes": 0.07}
# The same of random features, whose iterations begin without a preconditioner: 0.03 takes half of
# the time of 0.01 on w8a, for errors that are alike.
_FEATURE_TOLS = {"continuous": 0.01, "classes": 0.03}
_LINEAR_TOL = 0.01
_MAX_ITER = 300


@dataclass(frozen=True, order=True)
class Settings:
    """A choice of everything that an automatic model chooses."""

    numbers: str = "robust"  # treatment of numbers by the ``TablePreparer``
    max_integers: int = 0  # of the ``TablePreparer``
    power: float = 0.0  # of the scales that the ``GradientScaler`` learns
    turned: bool = False  # whether these scales turn inputs, too: its ``full``
    # Model whose gradients give the input scales: "cosines"; "machine", that of this ``kernel``;
    # "exponential", that of the exponential kernel; "linear", a lasso that leaves inputs out.
    scales: str = "cosines"
    # "laplacian", "gaussian", "smooth" (random bins with faded edges) or "linear" (of many inputs).
    kernel: str = "laplacian"
    gamma: float = 1.0  # of inputs whose median distance is 1
    ridge: float = 0.3  # in the system (K + ridge I) a = y
    transform: str = "identity"  # of the target, or "log"

    @property
    def scales_kernel(self) -> str | None:
        """Kernel of the machines that scales are learned from, if it is machines."""
        return {"cosines": None, "machine": self.kernel}.get(self.scales, self.scales)


def feature_map(settings: Settings, n_components: int, key: int, n_jobs: int | None) -> FeatureMap:
    """The map of random features that stands for a kernel."""
    seed = int(key % 2**31)
    if settings.kernel == "linear":
        return IdentityMap(n_jobs=n_jobs)
    make = RandomFourier if settings.kernel == "gaussian" else RandomBinning
    return make(settings.kernel, settings.gamma, n_components, random_state=seed, n_jobs=n_jobs)


def feature_tol(settings: Settings, kind: str) -> float:
    """Residual of iterations with random features, for targets of a kind."""
    return _LINEAR_TOL if settings.kernel == "linear" else _FEATURE_TOLS[kind]


def feature_responses(
    map_: FeatureMap,
    fitted: Any,
    held: Any,
    target: NDArray,
    ridges: Sequence[float],
    tol: float,
    weights: NDArray | None = None,
) -> Iterator[NDArray]:
    """Responses to the held rows of ridge regression on features, (h, k) for every ridge.

    All start from nothing, as the final fit does: few iterations shrink coefficients, too.
    """
    design, target = map_.fit_design(fitted), target.astype(np.float32)
    total = design.shape[0] if weights is None else float(weights.sum())
    for ridge in ridges:
        problem = Problem(design, target, Squared(), L2(ridge / total), weights, False)
        solver = ConjugateGradient(tol=tol, max_iter=_MAX_ITER)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            thetas = solver.solve(problem).coef[None]
        yield responses(map_, thetas, False, held)[0]
