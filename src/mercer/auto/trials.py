"""One choice of settings on some rows: fitted, and judged on rows it has not seen."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from mercer import kernels
from mercer._runtime.validation import plus_offset
from mercer.auto.landmarks import Landmarks
from mercer.auto.tuning import TUNING
from mercer.designs import KernelColumns
from mercer.equations.small_ridge import LEAST_SINGLE
from mercer.losses import Logistic, Loss, Multinomial, Squared
from mercer.losses.offset import Offset
from mercer.maps import FeatureMap, IdentityMap, Nystroem, RandomBinning, RandomFourier
from mercer.maps.base import responses
from mercer.penalties import L2, RKHSNorm
from mercer.problem import Problem
from mercer.solvers import Cholesky, ConjugateGradient, RowNewton, Solver
from mercer.solvers.base import Result
from mercer.solvers.forms import with_function_norm

__all__ = [
    "METRICS",
    "KnownScales",
    "Settings",
    "feature_map",
    "feature_responses",
    "feature_tol",
    "log_odds",
    "log_odds_loss",
    "machine_responses",
]

# Scales of least left-out error by the names of columns, and their ridge, by treatment and kernel.
KnownScales: TypeAlias = dict[tuple["Treatment", str], tuple[dict[str, float], float]]
Treatment: TypeAlias = tuple[str, int, str, bool, tuple[str, ...]]  # of the ``TablePreparer``

METRICS = {
    "laplacian": "cityblock",
    "exponential": "euclidean",
    "gaussian": "sqeuclidean",
    "linear": "sqeuclidean",
}


@dataclass(frozen=True, order=True)
class Settings:
    """A choice of everything that an automatic model chooses."""

    numbers: str = "robust"  # treatment of numbers by the ``TablePreparer``
    max_integers: int = 0  # of the ``TablePreparer``
    labels: str = "numbers"  # of the ``TablePreparer``
    identities: bool = False  # of the ``TablePreparer``
    without: tuple[str, ...] = ()  # of the ``TablePreparer``, in the order of the alphabet
    power: float = 0.0  # of the scales that the ``GradientScaler`` learns
    turned: bool = False  # whether these scales turn inputs, too: its ``full``
    # Model whose gradients give the input scales: "cosines"; "machine", that of this ``kernel``;
    # "exponential", that of the exponential kernel; "linear", a lasso that leaves inputs out. Or
    # "left-out": scales by which this ``kernel`` predicts left-out rows best.
    scales: str = "cosines"
    kernel: str = "laplacian"  # or "gaussian", "exponential", or "linear" for many inputs
    # Of inputs whose median distance is 1, or in "left-out" scales.
    gamma: float = 1.0
    ridge: float = 0.3  # in the system (K + ridge I) a = y
    # Of the target: "identity", "log", or "log-odds" of classes, which the logistic loss fits.
    transform: str = "identity"

    @property
    def treatment(self) -> Treatment:
        """Settings of the ``TablePreparer`` that a search chooses."""
        return self.numbers, self.max_integers, self.labels, self.identities, self.without

    @property
    def scales_kernel(self) -> str | None:
        """Kernel of the machines that scales are learned from, if it is machines."""
        return {"cosines": None, "machine": self.kernel}.get(self.scales, self.scales)


def feature_map(
    settings: Settings, form: int | Landmarks, key: int, n_jobs: int | None
) -> FeatureMap:
    """The map of so many random features, or of landmarks, that stands for a kernel."""
    seed = int(key % 2**31)
    if isinstance(form, Landmarks):
        beside: dict[str, Any] = {"whiten": False, "random_state": seed, "n_jobs": n_jobs}
        return Nystroem(settings.kernel, settings.gamma, form.count, **beside)
    if settings.kernel == "linear":
        return IdentityMap(n_jobs=n_jobs)
    make = RandomFourier if settings.kernel == "gaussian" else RandomBinning
    return make(settings.kernel, settings.gamma, form, random_state=seed, n_jobs=n_jobs)


def feature_tol(settings: Settings, kind: str) -> float:
    """Residual of iterations with random features, for targets of a kind."""
    return TUNING.linear_tol if settings.kernel == "linear" else TUNING.feature_tol[kind]


def feature_responses(
    map_: FeatureMap,
    fitted: Any,
    held: Any,
    target: NDArray,
    ridges: Sequence[float],
    tol: float,
    weights: NDArray | None = None,
) -> Iterator[NDArray]:
    """Held-out responses (h, k) of ridge regression on features, one per ridge.

    All start from 0, as the final fit does: few iterations shrink coefficients, too.
    """
    design, target = map_.fit_design(fitted), target.astype(np.float32)
    total = design.shape[0] if weights is None else float(weights.sum())
    for ridge in ridges:
        columns, penalty = with_function_norm(design, L2(ridge / total), True, Squared())
        problem = Problem(columns, target, Squared(), penalty, weights, False)
        solver = ConjugateGradient(tol=tol, max_iter=TUNING.feature_iter)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            thetas = solver.solve(problem).coef[None]
        yield responses(map_, thetas, False, held)[0]


def machine_responses(
    settings: Settings,
    fitted: NDArray,
    held: NDArray,
    target: NDArray,
    ridges: Sequence[float],
    tol: float,
    weights: NDArray | None = None,
    n_jobs: int | None = None,
) -> list[NDArray | None]:
    """Responses to the held rows of the exact machine, (h, k) for every ridge, in float64.

    Few rows, or more at a weak ridge, get a factor per ridge; all others share products of
    iterations; None where these end early.
    """
    fitted, held = fitted.astype(np.float64), held.astype(np.float64)
    kernel = kernels.get(settings.kernel, settings.gamma)
    design = KernelColumns(fitted, kernel, n_jobs=n_jobs)
    total = float(len(fitted) if weights is None else weights.sum())
    alphas = [ridge / total for ridge in ridges]
    problem = Problem(design, target, Squared(), RKHSNorm(alphas[0], design), weights)
    is_weak = min(ridges) <= max(TUNING.direct_ridge[settings.kernel], LEAST_SINGLE)
    is_direct = len(fitted) <= (TUNING.most_direct_rows if is_weak else TUNING.direct_rows)
    rank = int(TUNING.rank[settings.kernel] * np.sqrt(len(fitted)))
    iterative = ConjugateGradient(tol, max_iter=TUNING.growth_iter, rank=rank)
    solver: Solver = Cholesky() if is_direct else iterative
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        results = solver.solve_path(problem, alphas)
    return _responses_of(results, KernelColumns(held, kernel, fitted, n_jobs=n_jobs))


def log_odds_loss(n_classes: int) -> Loss:
    """The loss whose responses are log odds of so many classes."""
    return Logistic() if n_classes == 2 else Multinomial()


def log_odds(
    settings: Settings,
    fitted: NDArray,
    held: NDArray,
    target: NDArray,
    ridges: Sequence[float],
    weights: NDArray | None = None,
    n_jobs: int | None = None,
    offset: NDArray | None = None,
    held_offset: NDArray | None = None,
    steps: int = TUNING.log_odds_steps,
) -> list[NDArray | None]:
    """Log odds of the classes of held rows, (h, k), by the exact machine, for every ridge.

    They are responses plus ``held_offset``; the loss adds ``offset`` to those of ``fitted``.
    ``target`` is -1 and 1 of two classes, (n, 1), or of several labels, or indicators of classes,
    (n, k). A ridge is n times the strength of the penalty. None where so many steps do not end at a
    solution.
    """
    kernel = kernels.get(settings.kernel, settings.gamma)
    design = KernelColumns(fitted, kernel, n_jobs=n_jobs)
    total = float(len(fitted) if weights is None else weights.sum())
    alphas = [ridge / total for ridge in ridges]
    loss = log_odds_loss(2 if target.all() else target.shape[1])
    loss = loss if offset is None else Offset(loss, offset)
    y = np.ascontiguousarray(target, dtype=design.dtype)
    penalty = RKHSNorm(alphas[0], design)
    problem = Problem(design, y[:, 0] if y.shape[1] == 1 else y, loss, penalty, weights)
    solver = RowNewton(tol=TUNING.log_odds_tol, max_iter=steps, max_inner=TUNING.log_odds_inner)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        results = solver.solve_path(problem, alphas)
    found = _responses_of(results, KernelColumns(held, kernel, fitted, n_jobs=n_jobs))
    return [None if each is None else plus_offset(each, held_offset) for each in found]


def _responses_of(results: list[Result], across: KernelColumns) -> list[NDArray | None]:
    """Responses (h, k) of solutions with an intercept to other rows; None without a solution."""
    n, (n_held, _) = len(results[0].coef) - 1, across.shape
    thetas = np.stack([result.coef.reshape(n + 1, -1) for result in results])  # (q, n + 1, k)
    beside = np.ascontiguousarray(np.moveaxis(thetas[:, :-1], 0, 1).reshape(n, -1))
    found = across.matvec(beside).reshape(n_held, len(results), -1)
    return [
        found[:, place] + thetas[place, -1] if result.converged else None
        for place, result in enumerate(results)
    ]
