"""Permutation importances: loss of a held-out score when the values of an input are permuted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, sparse

from mercer import kernels
from mercer._runtime.random import Slot, shuffled
from mercer._runtime.threads import blas_threads, side_by_side
from mercer.auto.goals import Classes, Numbers
from mercer.auto.leading import rank_loss
from mercer.auto.parts import Part
from mercer.auto.search import Search
from mercer.auto.targets import smeared
from mercer.auto.trials import METRICS, Settings
from mercer.auto.tuning import TUNING
from mercer.equations.small_ridge import kernel_ridge
from mercer.estimators.scales import scaled
from mercer.estimators.targets import winners
from mercer.kernels.distances import distances

__all__ = ["permutation_importances"]

Scored: TypeAlias = Callable[[NDArray, NDArray[np.int64]], float]  # of responses to some rows

_FITTED_ROWS, _HELD_ROWS, _REPEATS = 1000, 1000, 5  # at most
_LEAST_ROWS = 100
_MOST_INPUTS = 1000  # that are permuted, where there are too many for a dense search
_SCREENED = 64  # rows by whose slopes these are found
# Kernel entries that are computed anew, some 3 ns each, for every row of the table: so many, or so
# many times the inputs; twice as many for small tables, but no more than _FEW_ENTRIES. That is 4 %
# of the time of a fit to 20 000 rows of 8 inputs, and less of larger ones.
_ENTRIES, _ENTRIES_OF_INPUT, _FEW_ENTRIES = 750, 6, 4e6
_ENTRIES_OF_SECOND = 5e6  # of a time budget: some hundredths of it
_BLOCK = 2**17  # entries that are computed together, so that they stay in the cache


def permutation_importances(
    search: Search, shape: tuple[int, int], seconds: float, scored: Scored | None = None
) -> NDArray[np.float64]:
    """Mean loss of the held-out score when the values of an input are permuted, for each input.

    The score is R2, or the share of right classes, of an exact kernel machine of the best settings
    that the search found on rows of the whole table. The columns that were made of one input are
    permuted together; a kernel entry needs to be told of nothing else.

    Parameters
    ----------
    search : Search
        With its parts.
    shape : tuple of two int
        Rows and inputs of the raw table.
    seconds : float
        The time budget of the whole fit, or infinity.
    scored : callable, default=None
        Gives the score of responses (m, k), in the unit of the targets, to m rows of the table; by
        default R2 or the share of right classes.

    Returns
    -------
    ndarray of shape (n_features,)
        About 0, of either sign, for inputs that do not help; 0 for those that were left out and, of
        more than two thousand inputs, for all but the thousand that change responses most.
    """
    settings, n_fitted = _settings(search)
    fitted_rows = min(n_fitted, _FITTED_ROWS)
    held_rows = min(_HELD_ROWS, sum(len(part.held) for part in search.parts))
    changes = _changes_per_row(search.parts[0], settings)
    usual = shape[0] * max(_ENTRIES, _ENTRIES_OF_INPUT * changes)
    limit = min(max(usual, min(2 * usual, _FEW_ENTRIES)), _ENTRIES_OF_SECOND * seconds)
    repeats = int(np.clip(limit / (changes * held_rows * fitted_rows), 1, _REPEATS))
    share = min(1.0, np.sqrt(limit / (changes * held_rows * fitted_rows)))
    fitted_rows, held_rows = (max(int(share * r), _LEAST_ROWS) for r in (fitted_rows, held_rows))
    n_parts = len(search.parts)
    with blas_threads(1):
        machines = [
            _Machine.fitted(part, settings, fitted_rows, -(-held_rows // n_parts), search.goal)
            for part in search.parts
        ]
        score = _of_machines(search.goal, machines, settings.transform, scored)
        whole = score([machine.responses for machine in machines])
        inputs = _promising(machines, shape[1])

        def importance(place: int) -> float:
            losses = [
                whole - score([machine.permuted(place, repeat) for machine in machines])
                for repeat in range(repeats)
            ]
            return float(np.nan_to_num(np.mean(losses)))  # of a scorer that refuses responses

        importances = np.zeros(shape[1])
        importances[inputs] = list(side_by_side(importance, inputs.tolist(), search.n_jobs))
    return importances


def _settings(search: Search) -> tuple[Settings, int]:
    """The best settings of an exact machine of rows of the whole table, and how many rows it had.

    Leaves and random features are of other rows and other functions; a linear model is its own.
    """
    if search.best is not None and search.best.settings.kernel == "linear":
        return search.best.settings, 2 * _FITTED_ROWS
    records = [record for record in search.records if record.stage.startswith("rung")]
    if not records:
        return Settings(), _LEAST_ROWS
    if search.best is not None and search.best.stage == records[-1].stage:
        return search.best.settings, search.best.rows
    best = min((r for r in records if r.stage == records[-1].stage), key=rank_loss)
    return best.settings, best.rows


def _changes_per_row(part: Part, settings: Settings) -> float:
    """Values of a row that permutations of all inputs change, counted as kernel entries."""
    held = part.rows(settings)[1]
    if settings.scales == "linear":
        return float(np.count_nonzero(part.scales(settings)))
    if sparse.issparse(held):
        return 2.0 * held.nnz / held.shape[0] + 1
    return float(held.shape[1])


def _promising(machines: list[_Machine], n_inputs: int) -> NDArray[np.int64]:
    """The inputs to permute: all of a table, and the thousand most influential of many words."""
    if n_inputs <= TUNING.most_dense:
        return np.unique(np.concatenate([machine.origins for machine in machines]))
    influences = np.sum([machine.influences(n_inputs) for machine in machines], axis=0)
    most = np.argsort(-influences, kind="stable")[:_MOST_INPUTS]
    return np.sort(most[influences[most] > 0])


def _of_machines(
    goal: Numbers | Classes, machines: list[_Machine], transform: str, scored: Scored | None
) -> Callable[[list[NDArray]], float]:
    """The score of responses to the held-out rows of all machines.

    Logarithms are turned back with the residuals of the responses that nothing was permuted for.
    """
    rows = np.concatenate([machine.rows for machine in machines])
    whole = np.concatenate([machine.responses for machine in machines])
    residuals = (goal.truth(rows, transform) - whole)[:, 0]

    def score(responses: list[NDArray]) -> float:
        joined = np.concatenate(responses)
        if transform == "log" and goal.shift is not None:
            joined = smeared(goal.shift, joined[:, 0], residuals)[:, None]
        return _r2_or_accuracy(goal, joined, rows) if scored is None else scored(joined, rows)

    return score


def _r2_or_accuracy(goal: Numbers | Classes, responses: NDArray, rows: NDArray) -> float:
    """R2, or the share of right classes, of responses to some rows."""
    if isinstance(goal, Classes):
        predicted = winners(responses[:, 0] if goal.n_classes == 2 else responses)
        return float(np.mean(predicted == goal.labels[rows]))
    y = goal.y[rows]
    spread = np.square(y - y.mean(axis=0)).sum(axis=0)
    left = np.square(y - responses).sum(axis=0)
    return float(np.mean(1 - left / np.where(spread > 0, spread, 1.0)))


@dataclass
class _Machine:
    """An exact kernel machine, and the rows held out that it answers for.

    ``treated`` are these rows before they are scaled by ``matrix``, ``landmarks`` the rows that it
    was fitted to, scaled, and ``apart`` the distances from the ones to the others.
    """

    kernel: str
    gamma: float
    rows: NDArray[np.int64]  # of the table
    orders: list[NDArray[np.int64]]  # of the rows, at random
    columns: NDArray[np.int64]  # treated ones, those of an input together
    origins: NDArray[np.int64]  # of these, ascending
    treated: Any  # (m, q), an array or CSC
    matrix: NDArray  # (q,) or (q, q)
    landmarks: Any  # (n, q); for a linear kernel (k, q), the coefficients of the columns
    coef: NDArray  # (n, k); for a linear kernel the identity
    constant: NDArray  # (k,)
    apart: NDArray  # (m, n)
    responses: NDArray  # (m, k)

    @classmethod
    def fitted(
        cls, part: Part, settings: Settings, n_fitted: int, n_held: int, goal: Numbers | Classes
    ) -> _Machine:
        """The machine of a part's first rows under some settings, for the first it holds out."""
        landmarks, held = part.scaled(settings, n_fitted)
        encodings = goal.encodings(part.fitted[: landmarks.shape[0]])
        encoding = next(e for e in encodings if e.transform == settings.transform)
        target = encoding.target * encoding.spread
        held, treated = held[:n_held], part.rows(settings)[1][:n_held]
        origins, scales = part.origins(settings), part.scales(settings)
        if scales.ndim == 1 and not scales.all():
            kept = np.flatnonzero(scales)
            treated, scales = scaled(treated, (scales != 0).astype(scales.dtype)), scales[kept]
            origins = origins[kept]
        columns = np.argsort(origins, kind="stable")
        if settings.kernel == "linear":
            coef = _solved(_array(landmarks @ landmarks.T), target, settings.ridge)
            landmarks = np.ascontiguousarray((landmarks.T @ coef).T)
            coef, apart, responses = np.eye(len(landmarks)), np.empty(0), held @ landmarks.T
        else:
            matrix = kernels.get(settings.kernel, settings.gamma)(landmarks)
            coef = _solved(np.asarray(matrix), target, settings.ridge)
            exact = [rows.astype(np.float64) for rows in (held, landmarks)]
            apart = distances(METRICS[settings.kernel], *exact).astype(np.float32)
            responses = np.exp(-settings.gamma * apart) @ coef
        return cls(
            settings.kernel,
            settings.gamma,
            part.held[:n_held],
            [_order(part.key + repeat, held.shape[0]) for repeat in range(_REPEATS)],
            columns,
            origins[columns],
            sparse.csc_array(treated) if sparse.issparse(treated) else treated,
            scales,
            sparse.csc_array(landmarks) if sparse.issparse(landmarks) else landmarks,
            coef.astype(np.float32),
            encoding.centre,
            apart,
            responses + encoding.centre,
        )

    def influences(self, n_inputs: int) -> NDArray[np.float64]:
        """Mean squares of what other values of an input change of the responses, to first order."""
        rows = scaled(self.treated, self.matrix)
        spread = np.asarray((rows * rows).mean(axis=0) - np.square(rows.mean(axis=0)))
        if self.kernel == "linear":
            slopes = np.square(self.landmarks).sum(axis=0)
        else:
            slopes = np.zeros(rows.shape[1])
            few = sparse.csr_array(rows)[:_SCREENED]
            for coef in self.coef.T:
                entries = np.exp(-self.gamma * self.apart[: few.shape[0]]) * coef
                along = entries @ self.landmarks - few.multiply(entries.sum(axis=1)[:, None])
                slopes += np.square(2 * self.gamma * np.asarray(along)).mean(axis=0)
        changes = (slopes * spread)[self.columns]
        return np.bincount(self.origins, changes, minlength=n_inputs).astype(np.float64)

    def permuted(self, place: int, repeat: int) -> NDArray:
        """Responses where the values of an input of the table are those of other held-out rows."""
        columns = self.columns[slice(*np.searchsorted(self.origins, [place, place + 1]))]
        old = _columns(self.treated, columns)
        new = old[self.orders[repeat]]
        rows = np.flatnonzero((new != old).any(axis=1))
        responses = self.responses.copy()
        if not len(rows):
            return responses
        if self.matrix.ndim == 1:
            old, new = (values[rows] * self.matrix[columns] for values in (old, new))
        else:
            step = (new - old)[rows] @ self.matrix[columns]
            columns = np.arange(self.treated.shape[1])
            old = self.treated[rows] @ self.matrix
            new = old + step
        landmarks = _columns(self.landmarks, columns)
        if self.kernel == "linear":
            responses[rows] += (new - old) @ landmarks.T
            return responses
        size = max(1, _BLOCK // len(self.coef))
        for first in range(0, len(rows), size):
            own = slice(first, first + size)
            entries = self._moved(self.apart[rows[own]], old[own], new[own], landmarks)
            responses[rows[own]] = entries @ self.coef + self.constant
        return responses

    def _moved(self, apart: NDArray, old: NDArray, new: NDArray, landmarks: NDArray) -> NDArray:
        """Kernel entries of rows some of whose values are new, by what that adds to distances."""
        if METRICS[self.kernel] == "sqeuclidean":
            apart -= 2 * (new - old) @ landmarks.T
            apart += (np.square(new) - np.square(old)).sum(axis=1)[:, None]
        else:
            for column, values in enumerate(landmarks.T):
                apart += np.abs(new[:, [column]] - values)
                apart -= np.abs(old[:, [column]] - values)
        np.maximum(apart, 0, out=apart)
        apart *= -self.gamma
        return np.exp(apart, out=apart)


def _solved(matrix: NDArray, target: NDArray, ridge: float) -> NDArray:
    """(matrix + ridge I)⁻¹ target, or the least-squares solution if rounding leaves no factor."""
    coef = kernel_ridge(matrix.astype(np.float64), target, ridge, overwrite=True)
    return linalg.lstsq(matrix + ridge * np.eye(len(matrix)), target)[0] if coef is None else coef


def _order(key: int, n: int) -> NDArray[np.int64]:
    return shuffled(key % 2**64, n, n, Slot.TRIAL)


def _array(rows: Any) -> NDArray:
    return rows.toarray() if sparse.issparse(rows) else np.asarray(rows)


def _columns(rows: Any, columns: NDArray[np.int64]) -> NDArray:
    """Some columns of an array or of CSC, as an array."""
    if not sparse.issparse(rows):
        return rows[:, columns]
    dense = np.zeros((rows.shape[0], len(columns)), dtype=rows.dtype)
    for place, column in enumerate(columns):  # ten times as fast as to slice CSC
        own = slice(rows.indptr[column], rows.indptr[column + 1])
        dense[rows.indices[own], place] = rows.data[own]
    return dense
