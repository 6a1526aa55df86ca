"""Probabilities of classes from responses, calibrated on rows that the responses do not fit."""

from __future__ import annotations

import warnings
import zlib
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer._runtime.arrays import row_chunks
from mercer._runtime.random import Slot, Streams
from mercer._runtime.rows import PreparedRows, is_far, is_sparse
from mercer._runtime.state import State
from mercer._runtime.threads import one_blas_thread
from mercer._runtime.validation import weighted_mean
from mercer.estimators.device import on_device
from mercer.estimators.plan import FitPlan
from mercer.estimators.precomputed import has_matrix
from mercer.estimators.preprocessing import TrainingSample
from mercer.estimators.targets import winners

__all__ = [
    "LabelProbabilities",
    "Probabilities",
    "SoftMax",
    "calibrate",
    "check_probabilities",
    "log_loss",
]

_FLOORS = (3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 0.1, 0.3)
_POWERS = (0.25, 0.35, 0.5, 0.7, 1.0, 1.4, 2.0, 3.0, 4.0, 6.0)
_OF_LOG_ODDS = tuple(np.geomspace(0.25, 4.0, 33).tolist())  # powers of probabilities, 1 among them

# One half of the rows is fitted and the other one judged. On letter, cod-rna, covtype, digits and
# breast cancer the log loss was within 2 % of that of four fifths fitted, for 60 % of their time.
_SPLIT = 0  # key of the split, which does not depend on the random state of the model
_MOST_ROWS = 200_000  # a random sample of larger tables: the share of the fit time then falls
_MOST_JUDGED = 10_000  # held-out rows that floor and power are chosen on: two numbers take no more


@dataclass(frozen=True)
class Probabilities:
    """Probabilities of classes from responses between -1 and 1.

    A squared loss makes r = (1 + response) / 2 an estimate of the probability of a class. It is
    bounded from below, raised to a power and scaled to sum one: p ~ (floor + max(r, 0))**power. The
    likeliest class is that of the largest response; of two classes, a response of 0 is a
    probability of 1/2. Floor and power, > 0, have the least mean -log p of the true classes of
    held-out rows and of one more such row of another class (Laplace's rule of succession): where
    all of n rows are right, probabilities of errors are of the order of 1 / n, not 0.
    """

    floor: float = 0.01
    power: float = 1.0

    @classmethod
    def fitted(
        cls, responses: NDArray, labels: NDArray, weights: NDArray | None = None
    ) -> Probabilities:
        """The best floor and power for held-out responses (n, k), or (n,) for two classes."""
        shares, losses = _shares(responses), {}
        for floor in _FLOORS:
            logs = np.log(floor + shares)
            logs -= logs.max(axis=1, keepdims=True)  # so that no sum is 0
            for power in _POWERS:
                sums = np.log(np.exp(power * logs).sum(axis=1, keepdims=True))
                losses[floor, power] = _with_one_more(sums - power * logs, labels, weights)
        return cls(*min(losses, key=lambda trial: losses[trial]))

    def __call__(self, responses: NDArray) -> NDArray[np.float64]:
        """Probabilities of shape (n, k)."""
        raised = (self.floor + _shares(responses)) ** self.power
        return _with_winners(raised / raised.sum(axis=1, keepdims=True), responses)


@dataclass(frozen=True)
class SoftMax:
    """Probabilities of classes from log odds, the responses of the logistic or multinomial loss.

    p ~ exp(power * response), scaled to sum one; of two classes, the response is that of the second
    one against the first. A power of 1 leaves the probabilities that the loss defines; another one
    sharpens them, above 1, or evens them out. It is chosen as those of :class:`Probabilities` are.
    """

    power: float = 1.0

    @classmethod
    def fitted(
        cls,
        responses: NDArray,
        labels: NDArray,
        weights: NDArray | None = None,
        offset: NDArray | float = 0.0,
    ) -> SoftMax:
        """The best power for held-out responses (n, k), or (n,) for two classes.

        The offset is a known part of the log odds, which the power leaves as it is.
        """
        losses = {}
        for power in _OF_LOG_ODDS:
            proba = cls(power)(responses + offset / power)
            lost = -np.log(np.maximum(proba, np.finfo(np.float64).tiny))
            losses[power] = _with_one_more(lost, labels, weights)
        return cls(min(losses, key=lambda power: losses[power]))

    def __call__(self, responses: NDArray) -> NDArray[np.float64]:
        """Probabilities of shape (n, k)."""
        logs = responses.astype(np.float64)
        if responses.ndim == 1:
            logs = np.column_stack([np.zeros_like(logs), logs])
        raised = np.exp(self.power * (logs - logs.max(axis=1, keepdims=True)))
        return _with_winners(raised / raised.sum(axis=1, keepdims=True), responses)


@dataclass(frozen=True)
class LabelProbabilities:
    """Probabilities (n, L) that labels are 1, by a map of two classes for each label."""

    maps: list[Probabilities | SoftMax]

    def __call__(self, responses: NDArray) -> NDArray[np.float64]:
        """Probabilities of shape (n, L) by responses (n, L)."""
        pairs = zip(self.maps, responses.T, strict=True)
        return np.stack([map_(of_label)[:, 1] for map_, of_label in pairs], axis=1)


def log_loss(proba: NDArray, labels: NDArray, weights: NDArray | None = None) -> float:
    """Mean -log p of the true classes, finite also where p is 0; of several labels their mean."""
    if labels.ndim == 2:
        true = np.where(labels == 1, proba, 1 - proba)
    else:
        true = proba[np.arange(len(labels)), labels][:, None]
    logs = np.log(np.maximum(true, np.finfo(np.float64).tiny))
    return float(weighted_mean(-logs.mean(axis=1), weights))


def _with_one_more(lost: NDArray, labels: NDArray, weights: NDArray | None) -> float:
    """Mean of -log p, (n, k), of the true classes, and once of the others of a mean row."""
    true = lost[np.arange(len(labels)), labels]
    others = (lost.sum(axis=1) - true) / (lost.shape[1] - 1)
    total = len(true) if weights is None else weights.sum()
    whole = total * weighted_mean(true, weights) + weighted_mean(others, weights)
    return float(whole / (total + 1))


def _with_winners(proba: NDArray[np.float64], responses: NDArray) -> NDArray[np.float64]:
    """Probabilities whose likeliest class is that of the largest response, ties broken by it.

    Responses below -1, or closer than rounding, tie.
    """
    best = winners(responses)
    tied = np.flatnonzero(proba.argmax(axis=1) != best)
    proba[tied, best[tied]] = np.nextafter(proba[tied].max(axis=1), 2)
    return proba


def _shares(responses: NDArray) -> NDArray[np.float64]:
    """max((1 + response) / 2, 0) of every class, (n, k)."""
    if responses.ndim == 1:
        responses = np.column_stack([-responses, responses])
    return np.maximum(0.5 * (1 + responses.astype(np.float64)), 0)


def check_probabilities(owner: Any, name: str, count: int | None = None) -> None:
    """Refuse an attribute that is no map to probabilities, or no list of ``count`` maps."""
    if count is None:
        _check_map(owner, name)
        return
    maps = State(owner).instance(name, list)
    State(owner).check(name, f"have an entry for each of {count} labels", len(maps) == count)
    for each in maps:
        _check_map(SimpleNamespace(**{name: each}), name)


def _check_map(owner: Any, name: str) -> None:
    """Refuse a map to probabilities of other numbers than are chosen from.

    Beyond them the powers of all classes may be 0 or infinite.
    """
    of_log_odds = isinstance(State(owner).value(name), SoftMax)
    scale = State(State(owner).instance(name, SoftMax if of_log_odds else Probabilities))
    ranges = {"power": _OF_LOG_ODDS} if of_log_odds else {"floor": _FLOORS, "power": _POWERS}
    for setting, values in ranges.items():
        within = values[0] <= scale.number(setting) <= values[-1]
        scale.check(setting, f"be from {values[0]:g} to {values[-1]:g}", within)


def calibrate(model: Any, rows: TrainingSample) -> None:
    """Fit the map from responses of a fitted classifier to probabilities.

    A copy of the model is fitted to one half of the rows, and the map is chosen by the responses of
    the other half. A class of one row is in the first half. Without a row to hold out the map is
    the default one; the model gets none if its rows are on other machines.
    """
    if is_far(rows.X):
        return
    if "_values_" not in vars(model):  # one label per row
        model._probabilities_ = _calibration(model, rows)
        return
    model._probabilities_ = [
        _calibration(model, replace(rows, target=target), label)
        for label, target in enumerate(rows.target.T)
    ]


def _calibration(model: Any, rows: TrainingSample, label: int | None = None) -> Probabilities:
    """The map of responses to probabilities of a classifier, or of one of its labels."""
    # Places tell equal rows of a kernel matrix apart: see ``precomputed.rows_of_fit``.
    halves = _halves(replace(rows, X=rows.X[:, :-1]) if has_matrix(model) else rows)
    if halves is None:
        return Probabilities()
    fitted, judged = halves
    copy = model._to_calibrate(label)
    limit = one_blas_thread(getattr(copy, "n_jobs", None))
    with warnings.catch_warnings(), on_device(getattr(copy, "device", None)), limit:
        warnings.simplefilter("ignore")  # the fit to all rows has said it
        copy._fit_rows(rows.taken(fitted), None, FitPlan())
        others = rows.taken(judged)
        responses = copy._responses_of(others.X)
    labels = winners(others.target)
    return Probabilities.fitted(responses, labels, others.weights)


def _halves(rows: TrainingSample) -> tuple[NDArray[np.int64], NDArray[np.int64]] | None:
    """Rows to fit and rows to judge: every second different row of each class.

    The draw follows from the order of the rows along a random direction: equal rows are in one
    half, a weight of two equals a row given twice, and rounding or another unit of an input changes
    the half of few rows.
    """
    keys, labels = _keys(rows.X), winners(rows.target)
    order = np.lexsort((keys, labels))
    if len(order) > _MOST_ROWS:
        order = order[keys[order] <= np.partition(keys, _MOST_ROWS - 1)[_MOST_ROWS - 1]]
    begins = np.diff(labels[order], prepend=-1) != 0  # a class
    number = np.cumsum(begins | (np.diff(keys[order], prepend=-1) != 0))
    number -= np.maximum.accumulate(np.where(begins, number, 0))  # of different rows of the class
    fitted, judged = np.sort(order[number % 2 == 0]), order[number % 2 == 1]
    if not len(judged):
        return None
    judged = judged[np.argsort(keys[judged], kind="stable")[:_MOST_JUDGED]]
    return fitted, np.sort(judged)


def _keys(X: Any) -> NDArray[np.float64]:
    """A random number in (0, 1) per row, equal for equal rows; rows on disk differ by place."""
    n = X.shape[0]
    if isinstance(X, PreparedRows):
        places = np.arange(n)
    elif X.ndim == 1:  # texts
        places = np.array([zlib.crc32(text.encode("utf-8", "surrogatepass")) for text in X])
    else:
        places = np.unique(_along_direction(X), return_inverse=True)[1]
    return Streams(_SPLIT, places).uniform(1, Slot.VALIDATION)[:, 0]


def _along_direction(X: Any) -> NDArray[np.float64]:
    """Random linear combination of the inputs, each divided by its range, of every row.

    Its order stays where inputs are shifted and multiplied by positive numbers or constants are
    added. Equal rows have the same bits.
    """
    low, high = X.min(axis=0), X.max(axis=0)
    if is_sparse(X):
        low, high = low.toarray().ravel(), high.toarray().ravel()
    low, high = low.astype(np.float64), high.astype(np.float64)
    varies = np.flatnonzero(high > low)
    of_input = Streams(_SPLIT, np.arange(len(varies))).uniform(1, Slot.VALIDATION)[:, 0]
    factors, half = np.zeros(X.shape[1]), 0.5 * high - 0.5 * low  # a range may overflow
    factors[varies] = of_input
    half[half == 0] = 1.0
    if is_sparse(X):
        shares = X.astype(np.float64)
        shares.data /= half[X.indices]
        return shares @ factors
    along = np.empty(X.shape[0])
    for rows in row_chunks(X.shape[0], 16.0 * X.shape[1]):
        along[rows] = ((X[rows] - low) / half * factors).sum(axis=1)
    return along
