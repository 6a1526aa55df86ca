"""The form of a map and of its design that is quickest to solve for, by solver."""

from __future__ import annotations

import numpy as np

from mercer import maps, solvers
from mercer._runtime.arrays import available_memory
from mercer._runtime.config import device_in_force
from mercer._runtime.validation import positive_integer
from mercer.designs import Dense, Design, KernelColumns
from mercer.losses import Loss
from mercer.maps import FeatureMap
from mercer.penalties import L2, Penalty, RKHSNorm
from mercer.solvers.row_newton import suits_rows

__all__ = ["choose_whitening", "with_function_norm"]

# Landmarks up to which whitening saves time in total: the eigenvectors take about ten times the
# flops of a Cholesky factor.
_WHITENED = 5000
# Capabilities required by solvers of linear equations that use rows.
_LINEAR = frozenset({"a quadratic loss", "a penalty of linear gradient"})


def choose_whitening(
    map_: FeatureMap,
    solver: str | solvers.Solver,
    n_samples: int,
    is_ridge: bool,
    loss: Loss,
    rows_are_here: bool = True,
    n_outputs: int = 1,
) -> FeatureMap:
    """A kernel against landmarks, whitened or not as it is quickest to solve for.

    ``map_`` is not fitted yet, and its settings are changed; ``solver`` is as the user gave it,
    ``n_samples`` the rows to be fitted, which may be on other machines, each with ``n_outputs``
    targets; ``is_ridge`` says whether the penalty is the squared norm of the function.
    """
    if not isinstance(map_, maps.Nystroem):
        return map_
    if device_in_force() is not None:  # which makes entries faster than it would whiten them
        return map_.set_params(whiten=False) if is_ridge and map_.whiten else map_
    if isinstance(map_, maps.ExactKernel) and not map_.whiten:
        if not is_ridge or loss.quadratic or n_samples > _WHITENED:
            return map_
        # Gradients by columns that are nearly dependent make slow progress, coefficients of rows
        # quick one.
        newton = solver in ("auto", "newton-cg", "row-newton")
        newton = newton or isinstance(solver, solvers.RowNewton)
        by_rows = newton and suits_rows(loss) and rows_are_here
        return map_ if by_rows else map_.set_params(whiten=True)
    if not map_.whiten:
        return map_
    wanted = (*np.shape(map_.landmarks), 0)[0]  # none are given where they are a name
    if map_.n_components is not None:
        wanted = positive_integer(map_.n_components, "n_components")
    if not (is_ridge and loss.quadratic) or not _solves_systems(solver):
        return map_
    # Whitened features that are made again in every pass cost far more than the kernel alone,
    # which conjugate gradients, with their preconditioner, need no more passes of.
    available = available_memory()
    is_cached = available is None or 8.0 * n_samples * wanted <= available / 2
    if (
        solver == "auto"
        and rows_are_here
        and solvers.suits_iterations(n_samples, wanted, n_outputs)
    ):
        return map_.set_params(whiten=False)
    if min(n_samples, wanted) <= _WHITENED and (is_cached or solver not in ("auto", "cg")):
        return map_
    return map_.set_params(whiten=False)


def with_function_norm(
    design: Design, penalty: Penalty, is_ridge: bool, loss: Loss
) -> tuple[Design, Penalty]:
    """A design as solvers take it, with the penalty on the squared norm of the function.

    Solvers of linear equations, and Newton's method by rows, take kernel columns as they are and
    cache a part of them; Newton's method by columns takes cached ones. If ``is_ridge`` is False,
    the penalty is on the weights of the columns as features.
    """
    if not isinstance(design, KernelColumns):
        return design, L2(penalty.alpha) if is_ridge else penalty
    if not is_ridge:
        return Dense(design.toarray(), design.n_threads), penalty
    jitter = getattr(penalty, "jitter", 0.0)
    if not (loss.quadratic or (design.symmetric and suits_rows(loss) and not jitter)):
        design = design.held()
    return design, RKHSNorm(penalty.alpha, design.landmark_design(), jitter)


def _solves_systems(given: str | solvers.Solver) -> bool:
    """True if the requested solver takes the norm of a function as its penalty."""
    solver = given if isinstance(given, solvers.Solver) else None
    kind = solver or (isinstance(given, str) and solvers.SOLVERS.get(given))
    if not kind:  # "auto"
        return True
    return "a linear system" in kind.requires or kind.requires >= _LINEAR
