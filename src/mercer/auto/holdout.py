"""Errors of the delivered model: fits of its form, and of its size, without held-out rows.

Trials of a search see a few thousand rows. A model of all rows errs less, by a factor that depends
on the noise, and its intervals, probabilities, score and tolerance have to follow its own errors.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from mercer._runtime.validation import plus_offset, weighted_mean
from mercer.auto.goals import Classes, Numbers
from mercer.auto.parts import splits
from mercer.auto.tuning import TUNING
from mercer.equations.factor import inverse_diagonal, lower_in_place
from mercer.losses import Logistic

__all__ = [
    "final_splits",
    "final_tol",
    "leave_one_out",
    "leave_one_out_log_odds",
    "relative_error",
]


class LeftOutResponses(NamedTuple):
    """Responses (n, k) to rows left out, and the solution of all rows, (n + 1, k)."""

    responses: NDArray[np.float64]
    theta: NDArray[np.float64]


_LEAST_CURVATURE = 1e-9  # of a row whose class is all but sure


def relative_error(
    goal: Numbers | Classes, rows: NDArray, responses: NDArray, transform: str
) -> float:
    """Root mean squared error of responses (h, k), in units of the spread of the targets.

    The least one of several numeric targets; classes are pooled, as they compete.
    """
    truth, weights = goal.truth(rows, transform), goal.weights_of(rows)
    errors = np.atleast_1d(weighted_mean(np.square(truth - responses), weights))
    centred = truth - weighted_mean(truth, weights)
    spreads = np.atleast_1d(weighted_mean(np.square(centred), weights))
    if goal.kind == "classes":
        errors, spreads = errors.sum(keepdims=True), spreads.sum(keepdims=True)
    shares = errors[spreads > 0] / spreads[spreads > 0]
    return float(np.sqrt(shares.min(initial=1.0)))


def final_tol(rough: float, error: float, growth: float = 1.0) -> float:
    """Relative residual at which a final fit ends: at most a tenth of the held-out error.

    ``rough`` serves where errors are large, ``error`` is the relative error of a model on held-out
    rows, and ``growth`` the rows of the final fit per row of that model.
    """
    return float(
        max(min(rough, TUNING.error_share * error * growth**-TUNING.error_power), TUNING.least_tol)
    )


def final_splits(goal: Numbers | Classes, key: int, n: int) -> list[tuple[NDArray, NDArray]]:
    """Rows to fit, nine tenths of n or more, and rows to hold out, in one to three ways.

    Of groups or by time a fifth is held out, once.
    """
    (least, most), share = TUNING.final_held, TUNING.final_held_share
    fitted, held = splits(goal, key, n, n, n if goal.has_rule else most)[0]
    if goal.has_rule:  # rows beside those held out must not be fitted, either
        return [(fitted, held)]
    order = np.concatenate([held, fitted])  # any stretch of which has its share of the classes
    n_held = min(max(n // share, 1), most)
    starts = range(0, min(-(-least // n_held), share) * n_held, n_held)
    return [
        (np.concatenate([order[:start], order[start + n_held :]]), order[start : start + n_held])
        for start in starts
    ]


def leave_one_out(
    matrix: NDArray[np.float64],
    target: NDArray[np.float64],
    ridge: float,
    weights: NDArray[np.float64] | None,
) -> LeftOutResponses | None:
    """Responses (n, k) of an exact kernel machine with an intercept to each row left out in turn.

    With A = K + ridge S⁻¹ and G = A⁻¹ − A⁻¹ 1 1ᵀ A⁻¹ / (1ᵀ A⁻¹ 1), coefficients are a = G y and
    the error of a row that is left out is aᵢ / Gᵢᵢ; the diagonal of A⁻¹ has the squared lengths of
    the columns of L⁻¹. ``matrix`` K (n, n) is overwritten; the weights, diagonal of S, are above 0.
    None if A has no factor.
    """
    n = len(matrix)
    matrix[np.diag_indices(n)] += ridge if weights is None else ridge / weights
    if not lower_in_place(matrix):
        return None
    own = inverse_diagonal(matrix)
    sides = np.column_stack([np.ones(n), target])
    solved = linalg.cho_solve((matrix.T, False), sides, check_finite=False)
    sums = solved[:, 0]
    total = sums.sum()
    intercept = sums @ target / total
    coef = solved[:, 1:] - np.outer(sums, intercept)
    left_out = target - coef / (own - sums**2 / total)[:, None]
    return LeftOutResponses(left_out, np.vstack([coef, intercept]))


def leave_one_out_log_odds(
    matrix: NDArray[np.float64],
    responses: NDArray[np.float64],
    target: NDArray[np.float64],
    ridge: float,
    weights: NDArray[np.float64] | None,
    offset: NDArray[np.float64] | None = None,
) -> NDArray[np.float64] | None:
    """Log odds of two classes, (n, 1), for each row left out in turn, to second order.

    ``responses`` (n, 1), with the offset (n,) of the rows, minimise the logistic loss of the
    targets -1 and 1, (n, 1). About them, the loss is a squared one, with its second derivatives h
    for weights and u - l' / h for targets, whose responses to rows left out are known exactly.
    ``matrix`` is overwritten.
    """
    loss = Logistic()
    curvature = np.maximum(loss.hessian(responses, target), _LEAST_CURVATURE)
    targets = responses - loss.gradient(responses, target) / curvature
    targets = plus_offset(targets, offset, sign=-1.0)
    weight = curvature[:, 0] if weights is None else curvature[:, 0] * weights
    found = leave_one_out(matrix, targets, ridge, weight)
    return None if found is None else plus_offset(found.responses, offset)
