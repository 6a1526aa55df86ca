"""Judges of responses to held-out rows: by their losses, or by a scorer of scikit-learn."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache, cached_property
from inspect import signature
from numbers import Real
from threading import Lock
from typing import Any, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.exceptions import UndefinedMetricWarning

from mercer._runtime.messages import shown
from mercer._runtime.random import Slot, Streams
from mercer.auto.goals import Classes, Indicators, Numbers
from mercer.estimators.probabilities import (
    LabelProbabilities,
    Probabilities,
    SoftMax,
    log_loss,
)
from mercer.estimators.targets import winners
from mercer.preparation import rows_of

__all__ = ["ByScorer", "Judge", "Scorer", "Verdict", "checked_scorer", "quiet_scores", "scored"]

_BLOCKS = 20  # of the held-out rows; each is left out in turn, which tells what chance does
_THRESHOLDS = 50  # of probabilities, as many rows between two of them
_WORST = 1e6  # loss of responses that a scorer refuses

Scorer: TypeAlias = Callable[..., float]
Calibrated: TypeAlias = Probabilities | SoftMax | LabelProbabilities


def checked_scorer(estimator: BaseEstimator, scoring: Any) -> Scorer | None:
    """The scorer that ``scoring`` is or names, or None; a ValueError or TypeError for others."""
    if scoring is None:
        return None
    from sklearn.metrics import check_scoring, get_scorer_names  # which predictions do without

    rule = "scoring must be None, a name of sklearn.metrics.get_scorer_names() or a scorer"
    if isinstance(scoring, str) and scoring not in get_scorer_names():
        near = get_close_matches(scoring, get_scorer_names(), 1)
        hint = f"; did you mean {near[0]!r}?" if near else "."
        raise ValueError(f"{rule}; got {scoring!r}{hint}")
    if not (isinstance(scoring, str) or callable(scoring)):
        raise TypeError(f"{rule}; got {shown(scoring)}.")
    try:
        scorer: Scorer = check_scoring(estimator, scoring)
    except ValueError:
        raise ValueError(
            f"{rule}, such as make_scorer makes of a metric; got {shown(scoring)}."
        ) from None
    return scorer


@contextmanager
def quiet_scores() -> Iterator[None]:
    """No warnings of metrics that trials leave undefined, as where no row is of some class."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UndefinedMetricWarning)
        yield


def scored(scorer: Scorer, estimator: Any, X: Any, y: NDArray, **beside: Any) -> float:
    """Score of an estimator, also on rows that lack some of its classes.

    Scorers that take ``labels`` are given all classes. A scorer that refuses classes without rows,
    or has no finite score for them, meets probabilities and responses of the other classes; its
    exception passes if it refuses these too. ``beside`` holds weights for scorers that take them.
    """
    classes = getattr(estimator, "classes_", None)
    if classes is None or np.ndim(y) == 2:  # several labels per row have 0 and 1 alone
        return scorer(estimator, X, y, **beside)
    present = np.isin(classes, np.asarray(y))
    if present.all():
        return scorer(estimator, X, y, **beside)
    of_present = _Present(estimator, present)
    last = {"pos_label": of_present.classes_[-1]} if present.sum() == 2 else {}
    ways = [
        (scorer, estimator),
        (_told(scorer, labels=classes), estimator),
        (_told(scorer, **last), of_present),
    ]
    score, refusal = np.nan, None
    for form, answers in ways:
        try:
            with quiet_scores():
                score = form(answers, X, y, **beside)
        except (ValueError, TypeError) as error:
            refusal = refusal or error
            continue
        if np.isfinite(score):
            return score
    if refusal is not None:
        raise refusal
    return score


def _told(scorer: Any, **facts: Any) -> Scorer:
    """A scorer of scikit-learn with further facts for the arguments of its metric."""
    metric = getattr(scorer, "_score_func", None)
    if metric is None or not isinstance(getattr(scorer, "_kwargs", None), dict):
        return scorer
    taken = {name: fact for name, fact in facts.items() if name in signature(metric).parameters}
    told = copy(scorer)
    told._kwargs = {**taken, **scorer._kwargs}
    return told


class _Present(ClassifierMixin, BaseEstimator):
    """Answers of a fitted classifier restricted to classes with rows."""

    def __init__(self, estimator, present):
        self.estimator = estimator
        self.present = present
        self.classes_ = estimator.classes_[present]

    def predict(self, X):
        """Classes, including classes without rows."""
        return self.estimator.predict(X)

    def decision_function(self, X):
        """Responses of the classes; their difference if there are two."""
        responses = self.estimator.decision_function(X)[:, self.present]
        return responses[:, 1] - responses[:, 0] if responses.shape[1] == 2 else responses

    def predict_proba(self, X):
        """Probabilities of the classes, which add up to 1."""
        proba = self.estimator.predict_proba(X)[:, self.present]
        total = proba.sum(axis=1, keepdims=True)
        return np.where(total > 0, proba / np.where(total > 0, total, 1), 1 / proba.shape[1])


@dataclass(frozen=True)
class Verdict:
    """Loss, error and score of responses to held-out rows."""

    loss: float  # number to minimise
    error: float  # root of the mean squared error, or share of wrong classes
    # (m,) of rows or blocks, with mean ~loss and its standard error
    losses: NDArray | Callable[[], NDArray]
    score: float = np.nan  # by the scorer; NaN without one


class Judge:
    """Judges responses to held-out rows by the losses of the rows."""

    def __init__(self, goal: Numbers | Classes):
        self.goal = goal

    def __call__(self, responses: NDArray, rows: NDArray, transform: str) -> Verdict:
        """Verdict on responses (m, k) to some rows of the table."""
        losses, error = self.goal.losses(responses, rows, transform)
        return Verdict(float(losses.mean()), error, losses)

    def score(
        self, responses: NDArray, rows: NDArray, transform: str, threshold: float = 0.5
    ) -> float:
        """The score of responses to some rows, the greater the better.

        The second of two classes is predicted from a threshold of its probability on.
        """
        return self.goal.score(responses, rows, transform)

    def threshold(self, responses: NDArray, rows: NDArray, transform: str) -> float:
        """Probability of the second of two classes from which on it is predicted."""
        return 0.5

    def of_probabilities(self, responses: NDArray, rows: NDArray, transform: str) -> float:
        """Loss by which responses of classes are compared whose squared errors mean other things:
        that of their probabilities, calibrated on the same rows."""
        flat, labels, weights = _of_classes(cast(Classes, self.goal), responses, rows)
        proba = calibrated(transform, flat, labels, weights)(flat)
        return log_loss(proba, labels, weights)


def _wants_labels(scorer: Any) -> bool:
    """Whether a scorer of scikit-learn judges predicted labels, other than by their share."""
    from sklearn.metrics import accuracy_score  # which predictions do without

    asked = getattr(scorer, "_response_method", "predict_proba")
    return asked == "predict" and getattr(scorer, "_score_func", None) is not accuracy_score


def calibrated(
    transform: str, responses: NDArray, labels: NDArray, weights: NDArray | None
) -> Calibrated:
    """The map from responses to probabilities that suits held-out rows, of a kind for them.

    Labels are places of classes (m,), or 0 and 1, (m, L), of several labels.
    """
    kind: Any = SoftMax if transform == "log-odds" else Probabilities
    if labels.ndim == 1:
        found: Calibrated = kind.fitted(responses, labels, weights)
        return found
    pairs = zip(responses.T, labels.T, strict=True)
    return LabelProbabilities([kind.fitted(*pair, weights) for pair in pairs])


def _of_classes(
    goal: Classes, responses: NDArray, rows: NDArray
) -> tuple[NDArray, NDArray, NDArray | None]:
    """Responses (m, k), or (m,) for two classes, labels and weights of some rows."""
    flat = responses[:, 0] if responses.shape[1] == 1 else responses
    return flat, goal.labels[rows], goal.weights_of(rows)


class ByScorer(Judge):
    """Judges responses to held-out rows by a scorer.

    The loss is 0 for right responses and 1 for responses that are constant: the mean target, or the
    shares of the classes. Its standard error is the jackknife's over blocks of rows (Quenouille,
    Notes on bias in estimation, Biometrika 1956), drawn by ``key``. ``y`` holds targets or labels
    as the user knows them.
    """

    def __init__(self, goal: Numbers | Classes, scorer: Scorer, table: Any, y: NDArray, key: int):
        super().__init__(goal)
        self.scorer, self.table, self.y, self.key = scorer, table, y, key
        self.classes = np.unique(y) if isinstance(goal, Classes) else None
        if isinstance(goal, Indicators):
            self.classes = np.arange(y.shape[1])
        self._lock = Lock()
        self._latest: _Rows | None = None

    def __call__(self, responses: NDArray, rows: NDArray, transform: str) -> Verdict:
        """Verdict on responses (m, k) to some rows of the table."""
        on_rows = self._on(rows)
        _, error = self.goal.losses(responses, rows, transform)
        answers = self._answers(responses, rows, transform)
        score = on_rows.score(answers)
        return Verdict(on_rows.loss(score), error, cache(lambda: on_rows.losses(answers)), score)

    def score(
        self, responses: NDArray, rows: NDArray, transform: str, threshold: float = 0.5
    ) -> float:
        """The score of responses to some rows; NaN where the scorer refuses them."""
        return self._on(rows).score(self._answers(responses, rows, transform, threshold))

    def of_probabilities(self, responses: NDArray, rows: NDArray, transform: str) -> float:
        """The loss by the scorer."""
        return self(responses, rows, transform).loss

    def threshold(self, responses: NDArray, rows: NDArray, transform: str) -> float:
        """The one of the best score, of scorers of labels; the nearest to 1/2 of equal ones.

        The share of right labels keeps 1/2, which is best for it by what probabilities are.
        """
        is_two = self.classes is not None and len(self.classes) == 2 and self.y.ndim == 1
        if not (is_two and _wants_labels(self.scorer)):
            return 0.5
        flat, labels, weights = _of_classes(cast(Classes, self.goal), responses, rows)
        proba = calibrated(transform, flat, labels, weights)(flat)[:, 1]
        between = np.quantile(proba, np.linspace(0, 1, _THRESHOLDS + 1), method="midpoint")
        tried = sorted({0.5, *between.tolist()}, key=lambda threshold: abs(threshold - 0.5))
        scores = [self.score(responses, rows, transform, threshold) for threshold in tried]
        return float(tried[int(np.nanargmax(scores))]) if np.isfinite(scores).any() else 0.5

    def _on(self, rows: NDArray) -> _Rows:
        """Targets and end scores of some rows, cached for the next responses to them."""
        with self._lock:
            if self._latest is None or self._latest.rows is not rows:
                truth, weights = self.goal.truth(rows, "identity"), self.goal.weights_of(rows)
                mean = np.average(truth, axis=0, weights=weights)
                ends = (
                    self._answers(responses, rows, "identity")
                    for responses in (truth, np.broadcast_to(mean, truth.shape))
                )
                X, y = rows_of(self.table, rows), self.y[rows]
                self._latest = _Rows(rows, X, y, weights, self.scorer, self.key, *ends)
            return self._latest

    def _answers(
        self, responses: NDArray, rows: NDArray, transform: str, threshold: float = 0.5
    ) -> _Answers:
        if isinstance(self.goal, Numbers):
            predicted = self.goal.predictions(responses, rows, transform)
            return _PredictedNumbers(predicted.reshape(len(rows), *self.y.shape[1:]))
        flat, labels, weights = _of_classes(self.goal, responses, rows)
        kind = _PredictedLabels if isinstance(self.goal, Indicators) else _PredictedClasses
        found = cache(lambda: calibrated(transform, flat, labels, weights))
        return kind(flat, self.classes, found, threshold)


class _Rows:
    """Held-out rows, and scores of answers for them."""

    def __init__(
        self,
        rows: NDArray[np.int64],
        X: Any,
        y: NDArray,
        weights: NDArray | None,
        scorer: Scorer,
        key: int,
        right: _Answers,
        plain: _Answers,
    ):
        self.rows, self.X, self.y, self.weights = rows, X, y, weights
        self.scorer, self.key, self.is_weighted = scorer, key, weights is not None
        self.best = self._best(right)
        least = self.score(plain)
        unit = self.best - least if np.isfinite(least) else 1.0
        self.unit = unit if unit > 0 else 1.0

    def _best(self, right: _Answers) -> float:
        """The score of right answers; a ValueError if the scorer does not serve for answers."""
        try:
            best = self._called(right, self.X, self.y, self.weights)
        except Exception as error:
            if self.is_weighted and isinstance(error, TypeError):
                self.is_weighted = False  # a scorer without weights counts all rows alike
                return self._best(right)
            reason = str(error).partition("\n")[0].rstrip(".")
            if "pos_label" in reason:
                positive = shown(np.unique(self.y)[-1])
                raise ValueError(
                    f"scoring must name the positive class, which {shown(self.scorer)} takes to be "
                    f"1: give make_scorer(metric, pos_label={positive}), or --positive on the "
                    "command line."
                ) from error
            raise ValueError(
                "scoring must need no more than predictions, responses or probabilities for "
                f"held-out rows; {shown(self.scorer)} ended in {type(error).__name__}: {reason}."
            ) from error
        if not (isinstance(best, Real) and np.isfinite(float(best))):
            raise ValueError(
                "scoring must give a finite number for right predictions of held-out rows; "
                f"{shown(self.scorer)} gave {shown(best)} for {len(self.rows)} rows."
            )
        return float(best)

    def score(self, answers: _Answers) -> float:
        """The score of answers; NaN where the scorer refuses them."""
        return self._scored(answers, self.X, self.y, self.weights)

    def loss(self, score: float) -> float:
        """0 for the score of right answers, 1 for that of the same answer for all rows."""
        return min((self.best - score) / self.unit, _WORST) if np.isfinite(score) else _WORST

    def losses(self, answers: _Answers) -> NDArray:
        """Losses of every block by what leaving it out changes, pseudo-values of the jackknife."""
        whole, n_blocks = self.loss(self.score(answers)), len(self._others)
        without = np.array(
            [
                self.loss(self._scored(answers.taken(places), *others))
                for places, *others in self._others
            ]
        )
        if n_blocks < 2 or not (without < _WORST).all():
            return np.full(_BLOCKS, whole)
        return n_blocks * whole - (n_blocks - 1) * without

    @cached_property
    def _others(self) -> list[tuple[NDArray[np.int64], Any, NDArray, NDArray | None]]:
        """Places, rows, targets and weights of all blocks but one, for every block."""
        n = len(self.rows)
        order = np.argsort(Streams(self.key, self.rows).uniform(1, Slot.TRIAL)[:, 0])
        block = np.empty(n, dtype=np.int64)
        block[order] = np.arange(n) % _BLOCKS
        places = [np.flatnonzero(block != b) for b in range(min(_BLOCKS, n))] if n > 1 else []
        weights = self.weights
        return [
            (p, rows_of(self.X, p), self.y[p], None if weights is None else weights[p])
            for p in places
        ]

    def _scored(self, answers: _Answers, X: Any, y: NDArray, weights: NDArray | None) -> float:
        try:
            return float(self._called(answers, X, y, weights))
        except ValueError:
            return np.nan

    def _called(self, answers: _Answers, X: Any, y: NDArray, weights: NDArray | None) -> Any:
        X = X.to_native() if hasattr(X, "to_native") else X
        beside = {"sample_weight": weights} if self.is_weighted else {}
        return scored(self.scorer, answers, X, y, **beside)


class _PredictedNumbers(RegressorMixin, BaseEstimator):
    """Answers for some rows, in their order, as a regressor gives them."""

    def __init__(self, predicted):
        self.predicted = predicted

    def taken(self, places: NDArray[np.int64]) -> _PredictedNumbers:
        """The answers for some of the rows."""
        return _PredictedNumbers(self.predicted[places])

    def predict(self, X):
        """The answers, whatever X is."""
        return self.predicted


class _PredictedClasses(ClassifierMixin, BaseEstimator):
    """Answers for some rows, in their order, as a classifier gives them."""

    def __init__(self, responses, classes, calibrated, threshold=0.5):
        self.responses = responses
        self.classes = self.classes_ = classes
        self.calibrated = calibrated  # gives the map to probabilities that suits the responses
        self.threshold = threshold  # of the probability of the second of two classes

    def taken(self, places: NDArray[np.int64]) -> _PredictedClasses:
        """The answers for some of the rows."""
        few = self.responses[places]
        return type(self)(few, self.classes, self.calibrated, self.threshold)

    def predict(self, X):
        """Classes of the largest response, or by the threshold, whatever X is."""
        return self.classes_[chosen_labels(self.responses, self.threshold, self.predict_proba)]

    def decision_function(self, X):
        """The responses, whatever X is."""
        return self.responses

    def predict_proba(self, X):
        """Calibrated probabilities, whatever X is."""
        return self.calibrated()(self.responses)


class _PredictedLabels(_PredictedClasses):
    """Answers for some rows, in their order, as a classifier of several labels gives them."""

    def predict(self, X):
        """Indicators of the labels, whatever X is."""
        return (self.responses > 0).astype(np.int64)


def chosen_labels(
    responses: NDArray, threshold: float, probabilities: Callable[[NDArray], NDArray]
) -> NDArray[np.int64]:
    """Places of the predicted classes: of the largest response, or from a threshold on."""
    if threshold == 0.5:
        return winners(responses)
    return (probabilities(responses)[:, 1] > threshold).astype(np.int64)


_Answers: TypeAlias = _PredictedNumbers | _PredictedClasses
