"""Rows of a shard as solvers look at them: a design, coded targets, weights; and sums over them."""

from __future__ import annotations

from contextlib import AbstractContextManager
from copy import copy
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_array

from mercer._blas import blas_threads
from mercer._rows import PreparedRows
from mercer._sparse import sound
from mercer.designs import Dense, Design
from mercer.distributed.run import Part
from mercer.distributed.shards import Shard
from mercer.estimators.preprocessing import Preprocessing, Rows
from mercer.estimators.targets import signs
from mercer.kernels.text import checked_texts
from mercer.losses import Loss
from mercer.maps import FeatureMap

__all__ = ["Coding", "DesignFacts", "DesignPart"]


@dataclass(frozen=True)
class Coding:
    """How targets as given become those of a loss; ``numbers`` or ``classes`` makes it.

    Attributes
    ----------
    centre : ndarray of shape () or (k,)
        Taken off numbers.
    classes_ : ndarray of shape (n_classes,) or None
        Sorted; None for numbers.
    joint : bool
        Whether the loss looks at all classes of a row together.
    shape : tuple of int
        Of the target of one row: () or (k,).

    Examples
    --------
    >>> from mercer.distributed.parts import Coding
    >>> Coding.classes(["cat", "dog"]).apply(["dog", "cat", "dog"])
    array([ 1., -1.,  1.])
    >>> Coding.numbers([1.0, 2.0]).apply([[1.0, 3.0]])
    array([[0., 1.]])
    """

    centre: NDArray[np.float64]
    classes_: NDArray | None = None
    joint: bool = False
    shape: tuple[int, ...] = ()

    @classmethod
    def numbers(cls, centre: ArrayLike = 0.0, n_outputs: int | None = None) -> Coding:
        """Numbers less their mean ``centre`` () or (k,); ``n_outputs`` is k if () serves all."""
        centre = np.asarray(centre, dtype=np.float64)
        return cls(centre, shape=centre.shape if n_outputs is None else (n_outputs,))

    @classmethod
    def classes(cls, classes: ArrayLike, joint: bool = False) -> Coding:
        """±1 for the second of two classes or for each of more; indicators for a joint loss."""
        known = np.asarray(classes)
        shape = () if len(known) == 2 and not joint else (len(known),)
        return cls(np.zeros(()), known, joint, shape)

    def apply(self, target: Any) -> NDArray[np.float64]:
        """Targets of a loss, (n_i,) or (n_i, k).

        Raises
        ------
        ValueError
            If the targets have another shape, or a class that is not known.
        """
        target = np.asarray(target)
        if self.classes_ is None:
            if target.shape[1:] != self.shape:
                raise ValueError(
                    f"y must have shape (n, *{self.shape}) in all shards; got {target.shape}."
                )
            return target.astype(np.float64) - self.centre
        n_classes = len(self.classes_)
        labels = np.minimum(np.searchsorted(self.classes_, target), n_classes - 1)
        unknown = np.asarray(self.classes_[labels] != target)
        if unknown.any():
            raise ValueError(
                f"y must hold the {n_classes} classes that all shards have; "
                f"got {target[unknown].tolist()[0]!r}."
            )
        if self.joint:
            return (labels[:, None] == np.arange(n_classes)).astype(np.float64)
        return signs(labels, n_classes)


@dataclass(frozen=True)
class DesignFacts:
    """What makes designs of shards, the same on all workers.

    Attributes
    ----------
    preprocessing : Preprocessing
        Scaler and map, fitted to the rows of all shards.
    coding : Coding
    loss : Loss
    n_rows : int
        Rows of all shards, those of weight 0 left out.
    mean_weight : float
        Of these rows; 1.0 without weights.
    dtype : numpy.dtype
        Of designs, targets and coefficients: float32 or float64.
    fit_intercept : bool
    n_threads : int or None, default=1
        Threads that products of a shard may use, BLAS included; None leaves them as they are.
    """

    preprocessing: Preprocessing
    coding: Coding
    loss: Loss
    n_rows: int
    mean_weight: float
    dtype: Any
    fit_intercept: bool
    n_threads: int | None = 1

    @property
    def shape(self) -> tuple[int, ...]:
        """Of θ: a row for each feature and one for the intercept."""
        n_columns = self.preprocessing.feature_map.n_features_out_
        return (n_columns + self.fit_intercept, *self.coding.shape)


class DesignPart(Part):
    """The rows of a shard as a design.

    Rows of weight 0 are left out, as they are of a fit on one machine.

    Attributes
    ----------
    design : Design of shape (n_i, D)
        n_i may be 0.
    y : ndarray of shape (n_i,) or (n_i, k)
        Targets of the loss.
    weights : ndarray of shape (n_i,) or None
        Of mean 1 over the rows of all shards.
    """

    facts: DesignFacts

    kept: ClassVar[int] = 3

    def __init__(self, shard: Shard, number: int, facts: DesignFacts):
        super().__init__(shard, number, facts)
        dtype = np.dtype(facts.dtype)
        target = facts.coding.apply(shard.target).astype(dtype)
        if not np.all(np.isfinite(target)):
            raise ValueError(f"y must be finite in {dtype}; it holds NaN or infinity.")
        rows = Rows(_checked(shard.X, facts), target, shard.weights).weighted()
        self.y, self.weights = rows.target, None
        if rows.weights is not None:
            self.weights = np.asarray(rows.weights, dtype=np.float64) / facts.mean_weight
        if len(self.y):
            facts.loss.check_target(self.y)
        self.design = self._design(rows)

    def _design(self, rows: Rows) -> Design:
        feature_map = self.facts.preprocessing.feature_map
        if not len(rows):  # maps and scalers take no shard without rows
            return Dense(np.zeros((0, feature_map.n_features_out_), dtype=self.facts.dtype))
        scaled = self.facts.preprocessing.scaled_rows(rows.X)
        return _with_threads(feature_map, self.facts.n_threads).design(scaled)

    def working(self) -> AbstractContextManager[Any]:
        return blas_threads(self.facts.n_threads)


def _checked(X: Any, facts: DesignFacts) -> Any:
    """Rows of a shard as maps take them: numbers in the type of the fit, or texts."""
    if isinstance(X, PreparedRows):
        return X
    if facts.preprocessing.feature_map.takes_text:
        return checked_texts(X) if len(X) else np.empty(0, dtype=object)
    return check_array(sound(X), accept_sparse="csr", dtype=facts.dtype, ensure_min_samples=0)


def _with_threads(feature_map: FeatureMap, n_threads: int | None) -> FeatureMap:
    """The fitted map, with so many threads."""
    if n_threads is None or "n_jobs" not in feature_map.get_params(deep=False):
        return feature_map
    other = copy(feature_map)  # what it has drawn and fitted is shared
    other.n_jobs = n_threads  # type: ignore[attr-defined]
    return other
