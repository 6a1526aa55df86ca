"""Intervals around predictions, row by row, from the errors on held-out rows."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from mercer._runtime.arrays import n_threads
from mercer._runtime.state import State, is_array, is_finite
from mercer._runtime.validation import real_number
from mercer.auto.machines import Machine, exact_responses
from mercer.auto.targets import evened
from mercer.estimators import KernelRegressor
from mercer.maps import ExactKernel
from mercer.preparation import TableColumns
from mercer.preparation.gaps import new_gaps

__all__ = ["MOST_ROWS", "HeldErrors", "Spread", "at_least_0", "checked_quantiles", "unknown_rows"]

_LEAST_ROWS = 60  # held-out rows from which sizes of errors are learned
MOST_ROWS, _MOST_NUMBERS = 1500, 2**21  # most rows, and rows × inputs, used to fit error sizes
_FOLDS = 3
_GAMMA = 0.2  # of the Laplacian kernel, for inputs whose median distance is 1
_RIDGES = (1.0, 4.0, 16.0)
_FLOOR = 0.15  # of the median error, added to errors before the logarithm is taken
_POWERS = (0.5, 0.75, 1.0, 1.25, 1.5)  # of the sizes, which the floor makes too even
_GAIN = 0.99  # times the score of intervals of one width, below which sizes are worth having
_SHOWN = 5  # columns that a warning names
_COVERAGE = 0.9  # of the intervals that are judged


@dataclass(frozen=True)
class Spread:
    """The law of errors: that of their scores, multiplied by a size that depends on the row.

    A kernel machine learns log |error| of held-out rows from their inputs and predictions; its
    exponential is the size of a row. Scores are errors in units of sizes by machines that have not
    seen the row. Where sizes make intervals no better they are 1 for all rows.

    Lei, G'Sell, Rinaldo, Tibshirani and Wasserman, Distribution-free predictive inference for
    regression, JASA 2018: errors in units of an estimate of their size.
    """

    scores: NDArray  # (m, k) errors in units of their size, signed, sorted along the first axis
    machine: KernelRegressor | None = field(default=None, repr=False)  # of log sizes; None: all 1
    unit: float = 1.0  # divides predictions to make them an input of the machine

    @classmethod
    def fitted(
        cls,
        rows: Any,
        responses: NDArray,
        errors: NDArray,
        weights: NDArray | None = None,
        n_jobs: int | None = None,
    ) -> Spread:
        """Fit to held-out rows in random order.

        ``responses`` and ``errors`` (m, k) are predictions of models that have not seen the rows,
        and targets minus predictions. ``rows`` (l, d) are the first of the rows, in scales that
        make their median distance about 1; None gives one size for all.
        """
        even = cls(np.sort(evened(errors, weights), axis=0))
        m, k = errors.shape
        if k != 1 or rows is None or m < _LEAST_ROWS:
            return even
        unit = float(np.mean(np.abs(responses - np.roll(responses, 1)))) or 1.0
        m = len(rows)
        inputs, error = _with_responses(rows, responses[:m, 0], unit), errors[:m, 0]
        weights = None if weights is None else weights[:m]
        logs = np.log(np.abs(error) + (_FLOOR * np.median(np.abs(error)) or 1.0))
        learned, ridge = _learned(inputs, logs, n_jobs)
        losses = [_interval_score(error, np.exp(power * learned)) for power in _POWERS]
        if min(losses) > _GAIN * _interval_score(error, np.ones(m)):
            return even
        power = _POWERS[int(np.argmin(losses))]
        scores = np.sort(evened((error / np.exp(power * learned))[:, None], weights), axis=0)
        map_ = ExactKernel("laplacian", _GAMMA, n_jobs=n_jobs)
        machine = KernelRegressor(map_, alpha=ridge / m, scale=False, solver="cholesky")
        with warnings.catch_warnings():  # learned scales differ on purpose
            warnings.filterwarnings("ignore", "the inputs' scales differ by a factor")
            machine.fit(inputs, power * (logs - logs.mean()))  # as those of the scores
        return cls(scores, machine, unit)

    def sizes(self, rows: Any, responses: NDArray) -> NDArray[np.float64]:
        """Sizes of the errors of new rows, (n,)."""
        if self.machine is None:
            return np.ones(len(responses))
        logs = self.machine.predict(_with_responses(rows, responses, self.unit))
        return np.exp(logs.astype(np.float64))

    def quantiles(self, levels: NDArray[np.float64]) -> NDArray[np.float64]:
        """Quantiles (q, k) of new scores at these levels; infinite where rows are too few."""
        m = len(self.scores)
        ranks = np.arange(1, m + 1) / (m + 1)  # the i-th score lies above a share i / (m + 1)
        first, last = (ranks[0], ranks[-1]) if m else (0.5, 0.5)
        columns = [np.interp(levels, ranks, column) if m else levels for column in self.scores.T]
        found = np.column_stack(columns)
        found[levels < first - 1e-12] = -np.inf
        found[levels > last + 1e-12] = np.inf
        return found

    def ends(self, coverage: float) -> NDArray[np.float64]:
        """Scores between which new ones lie with at least that probability, (2, k)."""
        if not 0 < real_number(coverage, "coverage") < 1:
            raise ValueError(f"coverage must be above 0 and below 1; got {coverage!r}.")
        m, tail = len(self.scores), 0.5 * (1 - coverage)
        outside = int(np.floor(tail * (m + 1) + 1e-9))  # scores that may lie beyond either end
        infinite = np.full(self.scores.shape[1:], np.inf)
        if outside < 1:
            return np.stack([-infinite, infinite])
        return np.stack([self.scores[outside - 1], self.scores[m - outside]])


@dataclass(frozen=True, eq=False)
class HeldErrors:
    """Errors on held-out rows in random order; ``Spread`` is fitted to them on demand."""

    responses: NDArray  # (m, k) predictions of models that have not seen the rows
    errors: NDArray  # (m, k) targets minus predictions
    weights: NDArray | None = None  # (m,) positive
    # (l, d) the first, as a kernel sees them; None: one size
    rows: NDArray | None = field(default=None, repr=False)
    n_jobs: int | None = None

    @classmethod
    def of(
        cls,
        responses: NDArray,
        errors: NDArray,
        weights: NDArray | None,
        rows: Any,
        n_jobs: int | None = None,
    ) -> HeldErrors:
        """As much of this as their law is learned from; sparse ``rows`` are not."""
        m, k = errors.shape
        if k != 1 or sparse.issparse(rows) or m < _LEAST_ROWS:
            return cls(responses, errors, weights)
        n_learned = min(m, MOST_ROWS, max(_LEAST_ROWS, _MOST_NUMBERS // (rows.shape[1] + 1)))
        return cls(responses, errors, weights, rows[:n_learned].astype(np.float32), n_jobs)

    @property
    def spread(self) -> Spread:
        """The law."""
        spread = _spreads.get(self)
        if spread is None:
            spread = Spread.fitted(
                self.rows, self.responses, self.errors, self.weights, self.n_jobs
            )
            _spreads[self] = spread
        return spread

    @property
    def targets(self) -> Spread:
        """The law of the held-out targets themselves, for rows without known cells."""
        return Spread(np.sort(evened(self.responses + self.errors, self.weights), axis=0))

    def _check_state(self) -> None:
        state = State(self)
        errors, rows, weights = (state.value(name) for name in ("errors", "rows", "weights"))
        state.check("errors", "be numbers of shape (m, k)", _are_numbers(errors, (None, None)))
        fit = _are_numbers(state.value("responses"), errors.shape)
        state.check("responses", "be numbers of the shape of errors", fit)
        fit = weights is None or (
            _are_numbers(weights, errors.shape[:1]) and bool(np.all(weights > 0))
        )
        state.check("weights", "be positive, one for every row", fit)
        fit = rows is None or (_are_numbers(rows, (None, None)) and 0 < len(rows) <= len(errors))
        state.check("rows", "be numbers, no more rows than errors", fit)


# The laws that were learned, by errors: they are no part of a model, so that files have none.
_spreads: WeakKeyDictionary[HeldErrors, Spread] = WeakKeyDictionary()


def _are_numbers(values: Any, shape: tuple[int | None, ...]) -> bool:
    """Whether that is an array of that shape of finite floats."""
    return is_array(values, shape) and is_finite(values)


def at_least_0(predicted: NDArray, where: Any) -> NDArray:
    """Predictions, those below 0 set to 0 in the outputs of ``where``."""
    return np.where(where, np.maximum(predicted, 0.0), predicted)


def unknown_rows(preparer: Any, columns: TableColumns) -> NDArray[np.bool_]:
    """Rows whose columns are all missing, as no row of the fit; a warning tells of other gaps."""
    names, some, whole = new_gaps(preparer, columns)
    if names:
        n = int(np.count_nonzero(some))
        shown = ", ".join(map(repr, names[:_SHOWN])) + (", ..." if len(names) > _SHOWN else "")
        warnings.warn(
            f"intervals may be too narrow for {n} row{'s' * (n != 1)} with missing cells in "
            f"columns that had none at the fit, {shown}: fit the model to rows that lack these "
            "cells, too.",
            UserWarning,
            stacklevel=4,
        )
    return whole


def checked_quantiles(quantiles: ArrayLike) -> NDArray[np.float64]:
    """Levels as an array; refused unless there are some, all above 0 and below 1."""
    levels = np.asarray(quantiles)
    if levels.ndim != 1 or not levels.size or levels.dtype.kind not in "iuf":
        raise ValueError(
            f"quantiles must be a list of numbers above 0 and below 1; got {quantiles!r}."
        )
    levels = levels.astype(np.float64)
    outside = ~((levels > 0) & (levels < 1))
    if outside.any():
        bad = float(levels[int(np.argmax(outside))])
        raise ValueError(f"quantiles must be above 0 and below 1; got {bad!r}.")
    return levels


def _with_responses(rows: NDArray, responses: NDArray, unit: float) -> NDArray[np.float32]:
    """Rows with their predictions as one more input: errors often grow with them."""
    return np.column_stack([rows, responses / unit]).astype(np.float32)


def _learned(inputs: NDArray, logs: NDArray, n_jobs: int | None) -> tuple[NDArray, float]:
    """Centred logs of all rows by machines that have not seen them, and their best ridge."""
    fold = np.arange(len(logs)) % _FOLDS
    machines = [
        Machine(
            _GAMMA, inputs[fold != f], inputs[fold == f], logs[fold != f][:, None] - np.mean(logs)
        )
        for f in range(_FOLDS)
    ]
    learned = np.zeros((len(_RIDGES), len(logs)))
    threads = min(n_threads(n_jobs), _FOLDS)
    for f, found in enumerate(exact_responses("laplacian", machines, _RIDGES, threads)):
        for ridge, responses in enumerate(found):
            if responses is not None:
                learned[ridge, fold == f] = responses[:, 0]
    best = int(np.argmin(np.mean(np.square(logs - np.mean(logs) - learned), axis=1)))
    return learned[best], _RIDGES[best]


def _interval_score(errors: NDArray, sizes: NDArray) -> float:
    """Mean interval width plus misses weighted by the tail (Gneiting and Raftery 2007)."""
    tail = 0.5 * (1 - _COVERAGE)
    low, high = np.quantile(errors / sizes, [tail, 1 - tail])
    outside = np.maximum(low * sizes - errors, 0) + np.maximum(errors - high * sizes, 0)
    return float(np.mean((high - low) * sizes + outside / tail))
