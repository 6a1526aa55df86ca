"""Estimates of what rounding has changed in the responses of a minimiser."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mercer._runtime.arrays import row_chunks
from mercer.designs import Design, KernelColumns
from mercer.losses.base import median, typical
from mercer.penalties import RKHSNorm
from mercer.problem.objective import Problem

__all__ = ["ENOUGH", "beyond_reach", "relative", "rounding", "sampled_rows"]

# Largest estimate of rounding in responses, relative to the targets' spread, that is accepted. The
# error itself was measured up to four times as large, and a hundred times for rows far from those
# of the fit. The bound is lower for float32, as such fits can be repeated in float64.
ENOUGH = {np.dtype(np.float32): 3e-4, np.dtype(np.float64): 3e-3}

_ROWS = 64  # rows whose rounding is estimated: it is about the same for all rows


def rounding(problem: Problem, theta: NDArray, wide: Design | None = None) -> float:
    """An estimate of rounding in the responses at θ, in units of the spread of the targets.

    Entries of Z, coefficients and residuals r are right to a relative ε, that of the problem's
    dtype. With errors that are random from row to row

    - responses are off by ε ‖z∘w‖, which is large where large weights cancel, and so are the
      targets in the equations;
    - the gradient is off by ε |z| ‖r‖ / n, which moves responses by up to ε |z| ‖r‖ / (n √alpha)
      under the penalty alpha ‖w‖² / 2;
    - the equations of a kernel machine are off by ε |k| ‖a‖ with the coefficients a = r / (n alpha)
      of the rows, which may be far larger than the weights of a few landmarks.

    These bound the errors of responses to training rows; of a model with explicit features, those
    to other rows are up to |z| / (2 √(n alpha)) times as large. A sample of rows stands for all.

    ``wide`` are ``sampled_rows`` with features in float64, which show the rounding of those in
    float32. The largest estimate over the outputs counts; it is 0 for targets that are all 0.
    """
    rows = sampled_rows(problem.n_rows)
    (design, y), loss = problem.sample(rows), problem.loss.among(rows)
    weights = problem.weights_of(theta)
    columns = np.abs(weights.reshape(len(weights), -1).astype(np.float64))
    largest = columns.max(axis=0, initial=0.0)  # squares may leave the range
    shares = np.square(columns / np.where(largest > 0, largest, 1.0))
    squares = design.column_sqnorms() / len(y)
    eps = float(np.finfo(problem.dtype).eps)
    noise = eps * largest * np.sqrt(squares @ shares)
    responses = design.matvec(weights)
    if wide is not None:
        gap = wide.matvec(weights.astype(np.float64)) - responses
        noise = np.maximum(noise, np.sqrt(np.mean(np.square(gap), axis=0)))
    if problem.fit_intercept:
        noise = np.hypot(noise, eps * np.abs(theta[-1].astype(np.float64)))
    if problem.fit_intercept:
        responses = responses + theta[-1]
    residuals = np.square(loss.gradient(responses, y), dtype=np.float64)
    residuals = eps * np.sqrt(np.mean(residuals, axis=0)).reshape(-1)
    ridge = problem.n_rows * problem.penalty.alpha
    if ridge and isinstance(problem.penalty, RKHSNorm):
        square = _largest(design)
        noise = np.maximum(noise, square * np.sqrt(problem.n_rows) * residuals / ridge)
    elif ridge and problem.penalty.quadratic:
        square = float(squares.sum())
        noise = noise * max(1.0, 0.5 * np.sqrt(square / ridge))
        noise = np.maximum(noise, np.sqrt(square / ridge) * residuals)
    return relative(problem, noise)


def relative(problem: Problem, sizes: NDArray) -> float:
    """The largest size of responses over the outputs, in units of the targets' spread."""
    unit = spread(problem)
    return float(np.max(np.divide(sizes, unit, out=np.zeros(len(unit)), where=unit > 0)))


def beyond_reach(problem: Problem, enough: float | None = None) -> bool:
    """Whether a problem certainly needs more digits than its dtype has.

    Squares of its targets underflow; or it is a kernel machine whose coefficients r / (n alpha) are
    so large that their rounding shows even if residuals are a tenth of the targets' spread.
    ``enough`` is the estimate of rounding that is accepted, ``ENOUGH`` by default.
    """
    enough = ENOUGH[problem.dtype] if enough is None else enough
    limits = np.finfo(problem.dtype)
    sizes = spread(problem)
    if np.any((sizes > 0) & (sizes < np.sqrt(float(limits.tiny) / float(limits.eps)))):
        return True
    if not isinstance(problem.penalty, RKHSNorm):
        return False
    design, _ = problem.sample(sampled_rows(problem.n_rows))
    noise = 0.1 * float(limits.eps) * _largest(design)
    return noise > enough * problem.penalty.alpha * np.sqrt(problem.n_rows)


def spread(problem: Problem) -> NDArray[np.float64]:
    """Standard deviation of each output's targets; root mean square of constant ones.

    Of a robust loss the typical deviation from the median; 1 for logarithms of targets.
    """
    if problem.loss.link == "log":
        return np.ones(problem.n_outputs)
    y = problem.y.reshape(problem.n_rows, -1)
    if not isinstance(y, np.ndarray):  # it has no copies of some columns
        return _spread(problem, y.astype(np.float64))
    groups = row_chunks(problem.n_outputs, 8.0 * problem.n_rows)
    return np.concatenate([_spread(problem, y[:, few].astype(np.float64)) for few in groups])


def _spread(problem: Problem, y: NDArray) -> NDArray[np.float64]:
    """``spread`` of some of the outputs."""
    if problem.loss.robust and problem.fit_intercept:
        sizes = typical(np.abs(y - median(y, problem.row_mean)), problem.row_mean)
        if np.all(sizes > 0):
            return sizes
    largest = np.abs(y).max(axis=0, initial=0.0)  # squares may leave the range
    shares = y / np.where(largest > 0, largest, 1.0)
    whole = np.sqrt(problem.row_mean(np.square(shares)))
    if problem.fit_intercept:
        shares = shares - problem.row_mean(shares)
    sizes = np.sqrt(problem.row_mean(np.square(shares)))
    constant = sizes <= 4 * float(np.finfo(problem.dtype).eps)
    return largest * np.where(constant, whole, sizes)


def sampled_rows(n_rows: int) -> NDArray[np.int64]:
    """Numbers of the rows of a sample, evenly spaced."""
    return np.unique(np.linspace(0, n_rows - 1, _ROWS).astype(np.int64))


def _largest(design: Design) -> float:
    """The largest entry of a kernel, which by Cauchy and Schwarz is that of a row with itself."""
    if isinstance(design, KernelColumns):
        return float(np.max(np.abs(design.diagonal())))
    return float(np.sqrt(np.max(design.column_sqnorms(), initial=0.0)))
