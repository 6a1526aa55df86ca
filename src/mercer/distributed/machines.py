"""Rows of a fit that are in shards: scalers, maps and problems of all of them, from sums."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, field, fields, replace
from functools import partial
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from mercer import maps, solvers
from mercer._runtime.moments import Moments
from mercer._runtime.rows import PreparedRows
from mercer.designs import Design, KernelColumns
from mercer.distributed.features import fit_map, resolved_kernel
from mercer.distributed.kernel_products import has_room_for_rows
from mercer.distributed.parts import Coding, DesignFacts, DesignPart
from mercer.distributed.problem import RemoteDesign, RemoteProblem
from mercer.distributed.run import Run
from mercer.engines.engine import Engine
from mercer.engines.memory import WorkerStore
from mercer.engines.rows import RowsByNumber
from mercer.engines.shards import Shard, gathered, moments_of, summed
from mercer.estimators.preprocessing import (
    Preprocessing,
    Scale,
    Scaler,
    TrainingSample,
    checked_scaler,
    resolved,
)
from mercer.losses import Loss
from mercer.maps import FeatureMap
from mercer.penalties import L2, Penalty, RKHSNorm
from mercer.solvers import (
    BlockCoordinateDescent,
    ConjugateGradient,
    NewtonCG,
    Smoothing,
    Solver,
)

__all__ = ["Log", "ShardedRows"]

_ONE_BLOCK = 4000  # columns up to which one factor of all of them is quicker than several
_FEW_ROWS = 2000  # rows of an exact machine up to which "auto" factorises it, as on one machine
_SOLVERS = ("block", "cg", "newton-cg", "smoothing")


@dataclass
class Log:
    """Records shared by the fits of a model to shards: the checkpoint, runs and engines."""

    checkpoint: Any = None
    runs: list[Run] = field(default_factory=list)
    engines: list[Engine] = field(default_factory=list)

    @property
    def n_rebuilt(self) -> int:
        """Shards whose state was made again."""
        return sum(run.n_rebuilt for outer in self.runs for run in outer.whole())

    @property
    def n_words(self) -> int:
        """Numbers sent to shards and received from them."""
        return sum(sum(run.words.values()) for outer in self.runs for run in outer.whole())

    def begin(self, run: Run) -> Run:
        """Begin another run; earlier runs free their state on workers."""
        self.forget()
        self.runs.append(run)
        return run

    def forget(self) -> None:
        """Free state that workers have derived."""
        for run in self.runs:
            run.forget()

    def close(self) -> None:
        """Free all that was made on workers."""
        self.forget()
        for engine in self.engines:
            engine.close()


@dataclass(frozen=True)
class ShardedRows:
    """Rows of a fit, checked, on the workers of an engine."""

    engine: Engine
    lengths: list[int]  # rows of each shard
    given: Moments  # of X as given, by the weights of the rows
    dtype: Any  # of X: float32 or float64
    sparse: bool
    weighted: bool
    has_offset: bool
    coding: Coding
    loss: Loss
    fit_intercept: bool
    log: Log
    scaler: Scaler = None  # of these rows, once they are scaled

    are_here: ClassVar[bool] = False

    def __len__(self) -> int:
        return sum(self.lengths)

    @property
    def X(self) -> Any:
        """A stand-in that has the shape alone."""
        return SimpleNamespace(shape=(len(self), len(self.given.mean)), dtype=self.dtype)

    @property
    def target(self) -> Any:
        """A stand-in that has the shape alone."""
        shape = (len(self), *self.coding.shape)
        return SimpleNamespace(shape=shape, size=int(np.prod(shape)))

    @property
    def weights(self) -> NDArray[np.float64] | None:
        """Weights of the rows, brought here."""
        return np.concatenate(gathered(self.engine, _weights_of)) if self.weighted else None

    @property
    def total_weight(self) -> float:
        """The sum of the weights, the number of rows without them."""
        return self.given.weight

    @property
    def preprocessing(self) -> Preprocessing:
        """The scaler fitted to the rows."""
        return Preprocessing(self.scaler)

    @property
    def columns(self) -> Moments:
        """Statistics of the columns of the scaled rows."""
        return self.given.scaled(self.scaler)

    def by_number(self) -> PreparedRows:
        """The scaled rows, brought here when they are asked for by number."""
        rows = RowsByNumber(self.engine, self.lengths, len(self.given.mean), self.dtype)
        return rows.prepared(None if self.scaler is None else self.scaler.transform)

    def fit_scaler(self, scale: Scale) -> Scaler:
        """A scaler fitted to the rows, or None without ``scale``."""
        if self.sparse:
            return checked_scaler(self.given.max_abs_scaler(self.dtype), self.dtype, scale)
        return checked_scaler(self.given.standard_scaler(self.weighted), self.dtype, scale)

    def scaled(self, scaler: Scaler) -> ShardedRows:
        """Rows that workers scale when they read them."""
        return replace(self, scaler=scaler)

    def with_resolved_gamma(self, map_: FeatureMap) -> FeatureMap:
        """``map_`` with a kernel whose gamma is a number for the scaled rows."""
        if map_.stated_kernel() is None:
            return map_
        columns = self.columns
        given = columns.varying, len(columns.mean), partial(resolved_kernel, rows=self)
        return map_.state_kernel(resolved(map_, *given))

    def fit_design(self, map_: FeatureMap) -> Design:
        """The design of the rows by a map fitted to them."""
        return _ShardedDesign(self._facts(fit_map(map_, self), self.dtype))

    def wide_rows(
        self, prepared: Preprocessing, problem: RemoteProblem, few: NDArray[np.int64]
    ) -> Design:
        """The design of the rows that ``problem.sample`` has, in float64."""
        return problem.wide_sample(few)

    def wide_design(self, prepared: Preprocessing) -> Design:
        """The design in float64 of the rows as given."""
        given = replace(self, scaler=prepared.scaler)
        return _ShardedDesign(given._facts(prepared.feature_map, np.dtype(np.float64)))

    def _facts(self, map_: FeatureMap, dtype: Any) -> DesignFacts:
        prepared = Preprocessing(self.scaler, map_)
        mean_weight = self.total_weight / len(self)
        common = (self.coding, self.loss, len(self), mean_weight, dtype, self.fit_intercept)
        return DesignFacts(prepared, *common, has_offset=self.has_offset)

    def with_function_norm(
        self, design: Design, penalty: Penalty, is_ridge: bool, loss: Loss
    ) -> tuple[Design, Penalty]:
        """A design and its penalty on the squared norm of the function."""
        map_ = design.facts.preprocessing.feature_map  # type: ignore[attr-defined]
        if not is_ridge:
            return design, penalty
        if not isinstance(map_, maps.Nystroem) or map_.normalization_ is not None:
            return design, L2(penalty.alpha)
        jitter = getattr(penalty, "jitter", 0.0)
        if isinstance(map_, maps.ExactKernel):
            return design, RKHSNorm(penalty.alpha, design, jitter)
        landmarks = KernelColumns(map_.landmarks_, map_.kernel_, n_jobs=map_.n_jobs)
        return design, RKHSNorm(penalty.alpha, landmarks, jitter)

    def problem(
        self, design: Design, loss: Loss, penalty: Penalty, fit_intercept: bool
    ) -> RemoteProblem:
        """The problem of a design of the rows."""
        facts: DesignFacts = design.facts  # type: ignore[attr-defined]
        told = _without_rows(facts) if _is_of_all_rows(design, penalty) else facts
        run = self.log.begin(Run(self.engine, DesignPart, told))
        return RemoteProblem(run, facts, penalty, design)  # type: ignore[arg-type]

    def unit(self, loss: Loss) -> float:
        """The loss's typical second derivative, in units of the squared loss's."""
        if type(loss).unit is Loss.unit:
            return 1.0
        nothing = maps.IdentityMap().fit(np.zeros((1, len(self.given.mean)), self.dtype))
        problem = self.problem(
            _ShardedDesign(self._facts(nothing, self.dtype)), loss, L2(0.0), True
        )
        return loss.unit(problem.y, problem.row_mean)

    def strata(self, classes: Callable[[NDArray], NDArray | None]) -> NDArray | None:
        """Classes of the targets, (n,), brought here."""
        if self.coding.classes_ is None:
            return None
        return np.concatenate(gathered(self.engine, _strata_of, self.coding, classes))

    def taken(self, rows: NDArray[np.bool_]) -> ShardedRows:
        """The rows of a mask (n,), as shards of their own."""
        cuts = np.split(np.asarray(rows), np.cumsum(self.lengths)[:-1])
        own = {i: (np.packbits(mask),) for i, mask in enumerate(cuts)}
        engine = self.engine.changed(_selected, own=own)
        self.log.engines.append(engine)
        given = summed(engine, moments_of)
        return replace(self, engine=engine, lengths=gathered(engine, len), given=given)

    def scores(
        self, answer: Callable[[Any], NDArray], score: Callable[[NDArray, TrainingSample], float]
    ) -> list[float]:
        """Weighted score of each model (q,), by its responses."""
        given = (self.engine.share(answer), score, self.preprocessing, self.coding, self.dtype)
        total, weight = summed(self.engine, _scores_of, *given)
        return (total / weight).tolist()

    def solver(
        self, given: str | Solver, problem: RemoteProblem, tol: float, max_iter: int
    ) -> Solver:
        """Resolve a solver name for this problem; a Solver instance is returned unchanged."""
        if problem.penalty.l1:
            raise ValueError(
                "penalty must be 'l2' over many machines; got "
                f"{problem.penalty.name!r}, which the models of mercer itself take."
            )
        solver = given if isinstance(given, Solver) else self._named(given, problem, tol, max_iter)
        if solver.name not in _SOLVERS:
            raise ValueError(
                f"solver must be one of 'auto', {', '.join(map(repr, _SOLVERS))} over many "
                f"machines; got {solver.name!r}, which the models of mercer itself take."
            )
        if solver.name not in ("block", "cg") and _is_of_all_rows(problem.design, problem.penalty):
            raise ValueError(
                "solver must be 'auto', 'cg' or 'block' for the kernel machine of all rows over "
                f"many machines; got {solver.name!r}."
            )
        if self.log.checkpoint is None:
            return solver
        if not isinstance(solver, BlockCoordinateDescent):
            raise ValueError(
                "checkpoint must be left out unless block descent solves; got "
                f"{self.log.checkpoint!r} with solver {solver.name!r}."
            )
        return replace(solver, checkpoint=self.log.checkpoint)

    def _named(self, name: str, problem: RemoteProblem, tol: float, max_iter: int) -> Solver:
        if name != "auto":
            return solvers.get(name, problem, tol=tol, max_iter=max_iter)
        if not problem.loss.smooth:
            return Smoothing(tol=tol, max_iter=max_iter)
        if not problem.loss.quadratic:
            return NewtonCG(tol=tol, max_iter=max_iter)
        n_columns = problem.design.shape[1]
        if _is_of_all_rows(problem.design, problem.penalty) and self.log.checkpoint is None:
            if n_columns <= _FEW_ROWS:
                return BlockCoordinateDescent(tol=tol, max_iter=max_iter, block_size=n_columns)
            if has_room_for_rows(problem):
                return ConjugateGradient(tol=tol, max_iter=max_iter)
        if isinstance(problem.penalty, RKHSNorm) or self.log.checkpoint is not None:
            return BlockCoordinateDescent(tol=tol, max_iter=max_iter)
        if n_columns <= _ONE_BLOCK:
            return BlockCoordinateDescent(tol=tol, max_iter=max_iter, block_size=n_columns)
        map_ = problem.design.facts.preprocessing.feature_map  # type: ignore[attr-defined]
        if isinstance(map_, maps.RandomBinning | maps.IdentityMap):
            return ConjugateGradient(tol=tol, max_iter=max_iter)
        return BlockCoordinateDescent(tol=tol, max_iter=max_iter)


class _ShardedDesign(RemoteDesign):
    """A design of rows in shards, with the facts that make its parts."""

    def __init__(self, facts: DesignFacts):
        super().__init__(facts)
        self.facts = facts


@dataclass(frozen=True)
class _Bare(DesignFacts):
    """Facts for parts that make no design."""

    n_columns: int = 0

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.n_columns + self.fit_intercept, *self.coding.shape)


def _is_of_all_rows(design: Design, penalty: Penalty) -> bool:
    """Whether a problem is the kernel machine of all rows: see ``equations.spans_all_rows``."""
    return isinstance(penalty, RKHSNorm) and penalty.matrix is design


def _without_rows(facts: DesignFacts) -> _Bare:
    """Settings without the landmarks of an exact kernel: workers read them from their shards."""
    prepared = facts.preprocessing
    map_ = copy(prepared.feature_map)
    vars(map_).pop("landmarks_")
    given = {each.name: getattr(facts, each.name) for each in fields(facts)}
    given["preprocessing"] = Preprocessing(prepared.scaler, map_)
    return _Bare(**given, n_columns=prepared.feature_map.n_features_out_)


def _weights_of(shard: Shard) -> NDArray[np.float64]:
    weights = shard.weights
    return np.empty(0) if weights is None else weights


def _strata_of(shard: Shard, coding: Coding, classes: Callable[[NDArray], NDArray]) -> NDArray:
    if not len(shard):
        return np.empty(0, dtype=np.int64)
    return classes(coding.apply(shard.target))


def _selected(memory: WorkerStore, number: int, shard: Shard, bits: NDArray[np.uint8]) -> Shard:
    rows = np.flatnonzero(np.unpackbits(bits, count=len(shard)))
    weights, offset = (
        None if each is None else each[rows] for each in (shard.weights, shard.offset)
    )
    return Shard(shard.X[rows], shard.target[rows], weights, offset=offset)


def _scores_of(
    shard: Shard, answer: Any, score: Any, preprocessing: Preprocessing, coding: Coding, dtype: Any
) -> tuple[NDArray[np.float64], float] | None:
    """Scores times the weight of the rows of a shard, and this weight."""
    if not len(shard):
        return None
    X = preprocessing.scaled(shard.X)
    target = coding.apply(shard.target).astype(dtype)
    rows = TrainingSample(X, target, shard.weights, shard.offset)
    weight = rows.total_weight
    return weight * np.array(rows.scores(answer, score)), weight
