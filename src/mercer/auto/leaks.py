"""Columns that give the target away: a hint that they may be known only after it."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from mercer._runtime.random import Slot, shuffled
from mercer._runtime.rows import FarRows
from mercer.preparation import TablePreparer, column_names, rows_of

__all__ = ["warn_of_leaks"]

_LEAST_ROWS, _LEAST_COLUMNS = 100, 3  # of a table of which one column is worth a hint
_MOST_ROWS = 2000  # half of them are fitted: less than 0.1 s for a column
_COLUMNS = 3  # of the largest shares, which are looked at
_LEAF_ROWS = 5
_TELLING = 0.98  # R² or area under the ROC curve on the other half


def warn_of_leaks(model: Any, X: Any, y: NDArray, key: int) -> None:
    """Warn of one column that explains nearly all of the target by itself.

    A tree of each column of a large share is fitted to half of some rows; R² or the area under the
    ROC curve on the other half decides, of several targets, labels or classes their mean.
    """
    n, d = X.shape
    if sparse.issparse(X) or isinstance(X, FarRows) or n < _LEAST_ROWS or d < _LEAST_COLUMNS:
        return
    names = column_names(X)
    classes = getattr(model, "classes_", None)
    target = y.reshape(n, -1)
    if classes is not None and y.ndim == 1:
        target = y[:, None] == (classes[1:] if len(classes) == 2 else classes)
    target = target.astype(np.float64 if classes is None else np.int64)
    rows = shuffled(key, n, _MOST_ROWS, Slot.SHUFFLE)
    one, other = np.array_split(rows, 2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        preparer = TablePreparer(target="continuous", random_state=0)
        fitted = preparer.fit_transform(rows_of(X, one), target[one])
        judged = preparer.transform(rows_of(X, other))
    for column in np.argsort(-model.input_shares_, kind="stable")[:_COLUMNS].tolist():
        own = preparer.origins_ == column
        varied = (np.ptp(target[one], axis=0) > 0) & (np.ptp(target[other], axis=0) > 0)
        if not own.any() or not varied.any():
            continue
        parts = fitted[:, own], target[one][:, varied], judged[:, own], target[other][:, varied]
        score = _score(*parts, is_classifier=classes is not None)
        if score > _TELLING:
            measure = "R²" if classes is None else "AUC"
            warnings.warn(
                f"column {str(names[column])!r} alone explains nearly all of the target, "
                f"{measure} {score:.3f} on rows held out: leave it out if it is not known before "
                "the target is.",
                UserWarning,
                stacklevel=6,
            )


def _score(
    fitted: NDArray, target: NDArray, judged: NDArray, truth: NDArray, is_classifier: bool
) -> float:
    """Mean score of the targets (n, k) on the judged rows of trees of one column."""
    from sklearn.metrics import r2_score, roc_auc_score  # which predictions do without
    from sklearn.tree import DecisionTreeRegressor

    tree = DecisionTreeRegressor(min_samples_leaf=_LEAF_ROWS, random_state=0)
    said = tree.fit(fitted, target).predict(judged).reshape(truth.shape)
    measure = roc_auc_score if is_classifier else r2_score
    return float(np.mean([measure(*both) for both in zip(truth.T, said.T, strict=True)]))
