"""Rows of a shard as solvers look at them: a design, coded targets, weights; and sums over them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_array

from mercer._runtime.rows import PreparedRows, selected
from mercer._runtime.sparse import canonical_csr
from mercer._runtime.threads import one_blas_thread
from mercer._runtime.validation import plus_offset
from mercer.designs import Dense, Design, KernelColumns
from mercer.distributed.rows import Expression, Extremes
from mercer.distributed.run import ShardState
from mercer.engines.shards import Shard
from mercer.estimators.preprocessing import Preprocessing, TrainingSample
from mercer.estimators.targets import ClassTarget, Target, signs
from mercer.kernels.text import checked_texts
from mercer.losses import Loss
from mercer.maps import FeatureMap
from mercer.penalties import L2
from mercer.problem import Problem

__all__ = ["At", "Coding", "DesignFacts", "DesignPart", "Mix"]


@dataclass(frozen=True)
class Coding:
    """Map from given targets to the targets of a loss; ``numbers`` or ``classes`` makes it."""

    centre: NDArray[np.float64]  # () or (k,), taken off numbers
    classes_: NDArray | None = None  # sorted; None for numbers
    joint: bool = False  # whether the loss takes all classes of a row together
    shape: tuple[int, ...] = ()  # of the target of one row: () or (k,)

    @classmethod
    def of(cls, target: Target, outputs: tuple[int, ...]) -> Coding:
        """The coding of a learned target; ``outputs`` is () or (k,) for numbers of any mean."""
        if isinstance(target, ClassTarget):
            return cls.classes(target.classes, target.loss.joint)
        return cls.numbers(target.mean, outputs[0] if outputs else None)

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
        """Targets of a loss, (n_i,) or (n_i, k); a ValueError for unknown classes or shapes."""
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
    """Facts that make designs of shards, the same on all workers."""

    preprocessing: Preprocessing  # scaler and map, fitted to the rows of all shards
    coding: Coding
    loss: Loss
    n_rows: int  # of all shards, without rows of weight 0
    mean_weight: float  # of these rows; 1.0 without weights
    dtype: Any  # of designs, targets and coefficients: float32 or float64
    fit_intercept: bool
    n_threads: int | None = 1  # of products of a shard, BLAS included; None: no limit
    hold: float = 0.0  # bytes of a shard for a kernel's columns, else made for every product
    has_offset: bool = False  # True if shards have known parts of the responses

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of θ: a row for each feature and one for the intercept."""
        n_columns = self.preprocessing.feature_map.n_features_out_
        return (n_columns + self.fit_intercept, *self.coding.shape)


@dataclass(frozen=True)
class At:
    """Version of a state that holds the responses at one θ, distinct from counts of steps."""

    number: int
    kept: ClassVar[int] = 3  # the point where Newton's method is, its trial, and what mixes both


@dataclass(frozen=True)
class Mix:
    """Responses at a point whose θ has some columns of one point, and the others of another."""

    ours: At
    theirs: At
    chosen: NDArray[np.bool_]  # of theirs

    @property
    def size(self) -> int:
        return int(self.chosen.size)


class DesignPart(ShardState):
    """The rows of a shard as a design (n_i, D), n_i >= 0, and sums over them at points.

    Rows of weight 0 are left out, as they are of a fit on one machine; weights have mean 1 over the
    rows of all shards. Responses of states include the offset of the rows.
    """

    facts: DesignFacts

    def __init__(self, shard: Shard, number: int, facts: DesignFacts):
        super().__init__(shard, number, facts)
        dtype = np.dtype(facts.dtype)
        target = facts.coding.apply(shard.target).astype(dtype)
        if not np.all(np.isfinite(target)):
            raise ValueError(f"y must be finite in {dtype}; it holds NaN or infinity.")
        weights, offset, self._counted = shard.weights, shard.offset, None
        if weights is not None and not weights.all():
            self._counted = np.flatnonzero(weights)
            target, weights = target[self._counted], weights[self._counted]
            offset = None if offset is None else offset[self._counted]
        self.y, self.weights, self.offset = target, None, offset
        if weights is not None:
            self.weights = np.asarray(weights, dtype=np.float64) / facts.mean_weight
        if len(self.y):
            facts.loss.check_target(self.y)

    @cached_property
    def design(self) -> Design:
        """The design of the rows, made on first use."""
        return self._design(TrainingSample(self._inputs(), self.y, self.weights))

    def _design(self, rows: TrainingSample) -> Design:
        """The design of rows, which may be none."""
        feature_map = self.facts.preprocessing.feature_map
        if not len(rows):  # maps and scalers take no shard without rows
            return Dense(np.zeros((0, feature_map.n_features_out_), dtype=self.facts.dtype))
        scaled = self.facts.preprocessing.scaled_rows(rows.X)
        design = _with_threads(feature_map, self.facts.n_threads).design(scaled)
        return design.held(self.facts.hold) if isinstance(design, KernelColumns) else design

    def _inputs(self) -> Any:
        """The rows that count as maps take them: numbers in the type of the fit, or texts."""
        X: Any = self.shard.X
        if self.facts.preprocessing.feature_map.takes_text:
            X = checked_texts(X) if len(X) else np.empty(0, dtype=object)
        elif not isinstance(X, PreparedRows):
            dtype = self.facts.dtype
            X = check_array(
                canonical_csr(X), accept_sparse="csr", dtype=dtype, ensure_min_samples=0
            )
        return X if self._counted is None else selected(X, self._counted)

    @contextmanager
    def working(self) -> Iterator[None]:
        # Numbers that leave the range are for the solver to notice.
        with one_blas_thread(self.facts.n_threads), np.errstate(all="ignore"):
            yield

    # -- states ------------------------------------------------------------------------------

    def state(self, version: Any, update: Any) -> Any:
        if not isinstance(version, At):
            return super().state(version, update)
        state = self.held(version)
        if state is not None or update is None:
            return state
        if not isinstance(update, Mix):
            return self.rebuild(version, update)
        ours, theirs = self.held(update.ours), self.held(update.theirs)
        if ours is None or theirs is None:
            return None
        mixed = np.where(update.chosen, theirs.responses, ours.responses)
        return self._keep(version, _Responses(mixed))

    def made(self, version: Any, truth: Any) -> Any:
        if not isinstance(version, At):
            return super().made(version, truth)
        return _Responses(plus_offset(self.terms._forward(truth), self.offset))

    def difference(self, state: Any, rebuilt: Any) -> float:
        if isinstance(state, _Responses):
            state, rebuilt = state.responses, rebuilt.responses
        return super().difference(state, rebuilt)

    # -- sums over rows ----------------------------------------------------------------------

    @cached_property
    def terms(self) -> _Terms:
        """Terms of the rows in the means over all rows."""
        return _Terms(self)

    def evaluate(self, state: Any, loss: Loss) -> tuple[NDArray, NDArray]:
        """Mean loss, and its gradient by θ."""
        terms = self.terms.of_loss(loss)
        return terms.mean_loss(state.responses), terms.mean_slopes(state.responses)

    def product(self, state: Any, loss: Loss, v: NDArray, outputs: NDArray | None) -> NDArray:
        """∇² of the mean loss times v; the state of a quadratic loss is None."""
        curvature = None if state is None else state.curvature(loss, self.y)
        return self.terms.of_loss(loss)._mean_product(curvature, v, outputs)

    def curvatures(self, state: Any, loss: Loss) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Terms of the rows in ``Problem.mean_curvatures``."""
        squares, mean = self.terms.of_loss(loss).mean_curvatures(state.responses)
        return squares, np.asarray(mean)

    def mean_squares(self, state: Any) -> NDArray[np.float64]:
        """Mean squares of the columns."""
        return self.design.column_sqnorms(self.weights) / self.facts.n_rows

    def sizes(self, state: Any, loss: Loss) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Mean squares of the derivatives of the loss, and of the targets."""
        return self.terms.of_loss(loss)._sizes(state.responses)

    def row_mean(self, state: Any, rows: Expression) -> NDArray[np.float64]:
        """The mean of an expression."""
        return self.terms.row_mean(self._evaluated(state, rows))

    def mean_rows(self, state: Any, rows: Expression) -> NDArray:
        """The transpose of the design times an expression, as a mean."""
        return self.terms.mean_rows(self._evaluated(state, rows).copy())

    def extremes(self, state: Any, rows: Expression) -> Extremes:
        """The least and the largest entries of an expression."""
        return Extremes.of(self._evaluated(state, rows))

    def sample(self, state: Any, n_rows: int) -> list[tuple[Any, NDArray]]:
        """Inputs and targets of about its share of so many rows, evenly spaced."""
        share = min(len(self.y), -(-n_rows * len(self.y) // self.facts.n_rows))
        rows = np.unique(np.linspace(0, len(self.y) - 1, share).astype(np.int64))
        return [(selected(self._inputs(), rows), self.y[rows])] if share else []

    def _evaluated(self, state: Any, rows: Expression) -> NDArray:
        arrays: dict[str, Any] = {"y": self.y, "offset": self.offset}
        if state is not None:
            arrays["responses"] = state.responses
        return rows.evaluate(arrays)


class _Responses:
    """Responses (n_i,) or (n_i, k) at a point, and the curvature of the loss there."""

    def __init__(self, responses: NDArray):
        self.responses = responses
        self._curvature: tuple[Loss, Any] | None = None

    def curvature(self, loss: Loss, y: NDArray) -> Any:
        """ℓ'' of every row and output, or a linear map for a joint loss; the last is cached."""
        if self._curvature is None or self._curvature[0] != loss:
            second = loss.curvature if loss.joint else loss.hessian
            self._curvature = loss, second(self.responses, y)
        return self._curvature[1]


class _Terms(Problem):
    """Terms of a shard's rows: a mean over all rows is the sum of its terms."""

    def __init__(self, part: DesignPart):
        facts = part.facts
        self.part, self.y, self.weights = part, part.y, part.weights
        self.loss, self.penalty = facts.loss, L2(0.0)
        self.fit_intercept, self.dtype = facts.fit_intercept, np.dtype(facts.dtype)
        self.n_rows, self.shape = facts.n_rows, facts.shape  # n_rows: what means divide by
        self.separable = len(self.shape) == 2 and not self.loss.joint
        self._facts = {}

    @property
    def design(self) -> Design:  # type: ignore[override]
        return self.part.design  # made when it is needed: targets alone need none

    def of_loss(self, loss: Loss) -> _Terms:
        """Terms of the rows with another loss."""
        if loss == self.loss:
            return self
        other = copy(self)
        other.loss = loss
        return other


def _with_threads(feature_map: FeatureMap, n_threads: int | None) -> FeatureMap:
    """The fitted map, with so many threads."""
    if n_threads is None or "n_jobs" not in feature_map.get_params(deep=False):
        return feature_map
    other = copy(feature_map)  # what it has drawn and fitted is shared
    other.n_jobs = n_threads
    return other
