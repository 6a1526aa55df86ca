"""Scores by a scorer of scikit-learn's: a positive class, weights of classes, folds."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin

from mercer.cli.options import waiting

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from mercer.cli.read import Labelled

_SHOWN = 6  # classes that a message names


def positive_scorer(
    name: str | None, positive: str | None, y: NDArray, task: str
) -> str | OfPositive | None:
    """The scorer of ``--scoring`` and ``--positive``; a ValueError if it cannot score targets."""
    if name is None:
        if positive is not None:
            raise ValueError(f"--positive {positive} must stand beside --scoring.")
        return None
    if task != "classification":
        if positive is not None:
            raise ValueError("--positive needs a target of classes; this task is regression.")
        _check_numbers(name, y)
        return name
    classes = np.unique(y)
    if positive is not None:
        scorer = OfPositive(name, _label(positive, classes, "--positive"))
        if _serves(scorer, classes):
            return scorer
        raise ValueError(f"--scoring {name} does not score classes; {_others(name)}.")
    if _serves(name, classes):
        return name
    raise ValueError(f"--scoring {name} {_remedy(name, classes)}.")


def class_weight_of(text: str | None, y: NDArray, task: str) -> Any:
    """``--class-weight`` as estimators take it: "balanced" or a dict of labels of the target."""
    if text is None:
        return None
    if task != "classification":
        raise ValueError("--class-weight needs a target of classes; this task is regression.")
    if text.strip() == "balanced":
        return "balanced"
    from mercer.estimators.targets import check_class_weight

    classes = np.unique(y)
    stated = _stated_weights(text)
    weights = {_label(name, classes, "--class-weight"): weight for name, weight in stated.items()}
    try:
        check_class_weight(weights, classes)
    except ValueError as error:
        raise ValueError(str(error).replace("class_weight", "--class-weight", 1)) from None
    return weights


def _stated_weights(text: str) -> dict[str, float]:
    """Weights by the text of a label, from a JSON object or ``label=weight`` with commas."""
    import csv

    rule = (
        "--class-weight must be balanced, label=weight with commas between, or a JSON object; "
        f"got {text!r:.80}."
    )
    try:
        if text.lstrip().startswith("{"):
            pairs = list(json.loads(text).items())
        else:
            [cells] = csv.reader([text], skipinitialspace=True)
            pairs = [cell.rsplit("=", 1) for cell in cells]
        return {str(label).strip(): float(weight) for label, weight in pairs}
    except (ValueError, TypeError, csv.Error):
        raise ValueError(rule) from None


def _label(text: str, classes: NDArray, option: str) -> Any:
    """The class that a text names: by its own text or, of numbers, by its value."""
    for label in classes.tolist():
        if str(label) == text or (not isinstance(label, str) and _same_number(text, label)):
            return label
    raise ValueError(f"{option} must name classes, {_named(classes)}; got {text!r:.80}.")


def _same_number(text: str, label: Any) -> bool:
    try:
        return not isinstance(label, bool) and float(text) == label
    except ValueError:
        return False


def _named(classes: NDArray) -> str:
    names = ", ".join(str(label)[:40] for label in classes[:_SHOWN].tolist())
    more = len(classes) - _SHOWN
    return f"{names} and {more} more" if more > 0 else names


# -- scorers ------------------------------------------------------------------------------------


class OfPositive:
    """A scorer of scikit-learn's on targets and predictions of 1 for one class and 0 for others."""

    def __init__(self, name: str, positive: Any) -> None:
        self.name, self.positive = name, positive

    def __call__(self, estimator: Any, X: Any, y: Any, **weights: Any) -> float:
        """The score, the greater the better."""
        from sklearn.metrics import get_scorer

        from mercer.auto.scoring import scored

        is_positive = (np.asarray(y) == self.positive).astype(int)
        scorer = get_scorer(self.name)
        answers = _OneClass(estimator, self.positive)
        return float(scored(scorer, answers, X, is_positive, **weights))

    def __repr__(self) -> str:
        return f"{self.name} of class {self.positive!r}"


class _OneClass(ClassifierMixin, BaseEstimator):
    """Answers of a fitted classifier about one of its classes, which is 1 and any other 0."""

    def __init__(self, estimator, positive):
        self.estimator = estimator
        self.positive = positive
        self.classes_ = np.array([0, 1])

    def _place(self) -> int:
        return int(np.flatnonzero(self.estimator.classes_ == self.positive)[0])

    def predict(self, X):
        """1 where the class is predicted."""
        return (self.estimator.predict(X) == self.positive).astype(int)

    def decision_function(self, X):
        """The response of the class."""
        responses = self.estimator.decision_function(X)
        if responses.ndim == 1:
            return responses if self._place() else -responses
        return responses[:, self._place()]

    def predict_proba(self, X):
        """Probabilities of the others and of the class."""
        proba = self.estimator.predict_proba(X)[:, self._place()]
        return np.stack([1 - proba, proba], axis=1)


class _RightClasses(ClassifierMixin, BaseEstimator):
    """A classifier that answers right for rows that are the places of their classes."""

    def __init__(self, classes):
        self.classes_ = classes

    def predict(self, X):
        return self.classes_[X[:, 0]]

    def predict_proba(self, X):
        return np.eye(len(self.classes_))[X[:, 0]]

    def decision_function(self, X):
        is_class = 2.0 * self.predict_proba(X) - 1.0
        return is_class[:, 1] if len(self.classes_) == 2 else is_class


class _RightNumbers(RegressorMixin, BaseEstimator):
    """A regressor that answers right for rows that are their targets."""

    def __init__(self):
        self.fitted_ = True

    def predict(self, X):
        return X[:, 0] if X.shape[1] == 1 else X


def _serves(scorer: str | Callable[..., Any], classes: NDArray) -> bool:
    """Whether a scorer gives a number for right answers about such classes."""
    places = np.repeat(np.arange(len(classes)), 2)
    return _gives_a_number(scorer, _RightClasses(classes), places[:, None], classes[places])


def _check_numbers(name: str, y: NDArray) -> None:
    sample = np.asarray(y[:10], dtype=np.float64)
    X = sample.reshape(len(sample), -1)
    if not _gives_a_number(name, _RightNumbers(), X, sample):
        raise ValueError(
            f"--scoring {name} does not score numbers of this target; r2, neg_mean_absolute_error "
            "and neg_root_mean_squared_error do."
        )


def _gives_a_number(scorer: str | Callable[..., Any], model: Any, X: Any, y: Any) -> bool:
    from sklearn.metrics import get_scorer

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            call = get_scorer(scorer) if isinstance(scorer, str) else scorer
            return bool(np.isfinite(float(call(model, X, y))))
        except (ValueError, TypeError, AttributeError):
            return False


def _remedy(name: str, classes: NDArray) -> str:
    """Sentence that refuses a score of classes and names the one to write instead."""
    halves = np.arange(4) + 0.5
    is_of_numbers = _gives_a_number(name, _RightNumbers(), halves[:, None], halves)
    if is_of_numbers or not _serves(OfPositive(name, classes[-1]), classes):
        return f"does not score classes; {_others(name)}"
    end = f"name the positive class with --positive, one of {_named(classes)}"
    if len(classes) == 2:
        return f"needs a positive class; {end}"
    instead = [other for other in _variants(name) if _serves(other, classes)]
    write = f"write {' or '.join(instead)}, or " if instead else ""
    return f"needs two classes and the target has {len(classes)}; {write}{end}"


def _variants(name: str) -> list[str]:
    """Scores of many classes that begin like one of two."""
    from sklearn.metrics import get_scorer_names

    ends = ("_ovr", "_ovo", "_macro", "_weighted")
    return [name + end for end in ends if name + end in get_scorer_names()]


def _others(name: str) -> str:
    return "accuracy, balanced_accuracy, f1_macro and roc_auc_ovr do"


# -- cross-validation ---------------------------------------------------------------------------


def cross_validated(
    rows: Labelled, folds: int, seed: int, fit: Callable[[Labelled], Any]
) -> dict[str, Any]:
    """Scores of models fitted to all folds but one, on that fold; groups stay together."""
    data, scores = rows.data, []
    for number, (train, test) in enumerate(_folds(rows, folds, seed), 1):
        part = replace(
            rows,
            data=replace(data, X=rows_of(data.X, train), y=data.y[train]),
            weights=None if rows.weights is None else rows.weights[train],
            groups=None if rows.groups is None else rows.groups[train],
            offset=None if rows.offset is None else rows.offset[train],
        )
        with waiting(f"cross-validation, fold {number} of {folds}"):
            model = fit(part)
            scores.append(_score(model, rows_of(data.X, test), data.y[test], rows.offset, test))
    error = float(np.std(scores, ddof=1) / np.sqrt(len(scores)))
    return {
        "folds": folds,
        "scores": scores,
        "mean": float(np.mean(scores)),
        "standard_error": error,
    }


def _score(model: Any, X: Any, y: NDArray, offset: NDArray | None, rows: NDArray) -> float:
    """The model's score of some rows; R2, or the share of right labels, of those with an offset."""
    if offset is None:
        return float(model.score(X, y))
    from sklearn.metrics import accuracy_score, r2_score

    score = accuracy_score if hasattr(model, "classes_") else r2_score
    return float(score(y, model.predict(X, offset=offset[rows])))


def rows_of(X: Any, rows: NDArray) -> Any:
    """Rows of a table of PyArrow, an array or a CSR matrix."""
    return X.take(rows) if hasattr(X, "column_names") else X[rows]


def check_folds(rows: Labelled, folds: int | None) -> None:
    """Raise if there are more folds than rows, groups, or rows of the rarest class."""
    if folds is None:
        return
    y, groups = rows.data.y, rows.groups
    most = {"rows": len(y)} if groups is None else {"groups": len(np.unique(groups))}
    if rows.data.task == "classification":
        most["rows of the rarest class"] = int(np.unique(y, return_counts=True)[1].min())
    for what, n in most.items():
        if folds > n:
            raise ValueError(f"--cv must be at most the number of {what}, {n}; got {folds}.")


def _folds(rows: Labelled, folds: int, seed: int) -> Iterator[tuple[NDArray, NDArray]]:
    from sklearn.model_selection import GroupKFold, KFold, StratifiedGroupKFold, StratifiedKFold

    y, groups = rows.data.y, rows.groups
    if rows.data.task == "classification":
        kind: Any = StratifiedKFold if groups is None else StratifiedGroupKFold
    else:
        kind = KFold if groups is None else GroupKFold
    splitter = kind(folds, shuffle=True, random_state=seed)
    yield from splitter.split(np.zeros(len(y)), y, groups)
