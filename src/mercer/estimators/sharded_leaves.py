"""Leaves of a local kernel machine whose rows are on shards: scaled, chosen and solved there."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack, closing
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from mercer._runtime.arrays import available_memory
from mercer.engines.memory import WorkerStore
from mercer.engines.rows import RowsByNumber
from mercer.engines.shards import NumberedRows, gathered, moments_of, summed
from mercer.estimators.preprocessing import (
    Preprocessing,
    Scale,
    TrainingSample,
    checked_scaler,
    with_resolved_gamma,
)
from mercer.estimators.selection import held_out
from mercer.estimators.targets import Target
from mercer.losses import Loss
from mercer.maps import FeatureMap
from mercer.maps.local import LocalKernel
from mercer.solvers.forest import SAMPLE, Forest, KeptHere, bytes_per_row, most_rows, node_size

__all__ = ["ShardedLeaves"]


class ShardedLeaves:
    """A fit of leaves to rows that lie elsewhere; ``close`` forgets what it made there.

    Parameters
    ----------
    rows : Rows
        Prepared rows of other machines, with their targets and weights here.
    target : Target
        Learned target, which workers code theirs with.
    scale : bool or groups of columns
    is_rough : bool
        Whether leaves are solved in float64 whatever the type of the rows.

    Attributes
    ----------
    scaler : StandardScaler or None
        Fitted to the rows.
    """

    def __init__(self, rows: TrainingSample, target: Target, scale: Scale, is_rough: bool):
        self.rows, self.target = rows, target
        X = rows.X
        far = X.data if X.index is None else X.data.taken(X.index)
        weights = None if rows.weights is None else rows.weights / np.mean(rows.weights)
        steps = [] if X.prepare is None else [X.prepare]
        self.callback = far.callback
        with ExitStack() as made:
            shards = made.enter_context(
                closing(far.numbered(steps, X[:1], target, rows.target.shape[1:], weights))
            )
            moments = summed(shards, moments_of)
            self.scaler = checked_scaler(
                moments.standard_scaler(weights is not None), X.dtype, scale
            )
            dtype = np.dtype(np.float64) if is_rough else X.dtype
            if self.scaler is not None or dtype != X.dtype:
                prepare = Preprocessing(self.scaler)
                shards = made.enter_context(closing(shards.changed(_scaled, prepare, dtype)))
            self.shards = shards
            self.X = RowsByNumber(shards, gathered(shards, len), X.shape[1], dtype)
            self.stack = made.pop_all()

    def close(self) -> None:
        self.stack.close()

    def with_resolved_gamma(self, map_: LocalKernel) -> FeatureMap:
        """The map with a ``gamma`` in numbers for the scaled rows."""
        kernel: Any = map_.stated_kernel()
        if isinstance(getattr(kernel, "gamma", None), str) and kernel.gamma == "scale":
            moments = summed(self.shards, moments_of)
            varies = moments.varying
            own = moments if varies is None else moments.among(varies)
            return map_.state_kernel(kernel.scaled_to(own))
        return with_resolved_gamma(map_, self.X.prepared(None), self.rows.weights)

    def forest(self, map_: Any, loss: Loss, alphas: Sequence[float], how: dict[str, Any]) -> Forest:
        """The trees to be solved, in nodes for which workers have room."""
        n, d = self.X.shape
        of_row = bytes_per_row(d, max(1, self.rows.target.size // n), self.X.dtype)
        leaf_size = map_.tree_settings(n)[0]
        size = node_size(n, leaf_size)
        rooms = [room for room in self.shards.everywhere(_room) if room is not None]
        if rooms:
            size = min(size, most_rows(min(rooms), of_row, leaf_size, "a worker has"))
        kept = KeptHere(self.X.together)
        shape = size, kept, of_row, self.rows.target.ndim == 1, SAMPLE
        return Forest(self.shards, self.X, map_, loss, list(alphas), how, *shape)

    def scores(self, work: Forest, fraction: Any) -> list[float]:
        """Scores on held-out rows of models of the other rows, for every strength of the forest."""
        rows, target = self.rows, self.target
        held = held_out(work.map.fix_key(), rows.target, rows.strata(target.strata), fraction)
        fitted = np.flatnonzero(~held)
        share = len(rows) / len(fitted)  # of fewer rows, the same ridge is a larger alpha
        # Weights have mean 1 over the rows that are fitted to.
        heavier = 1.0
        if rows.weights is not None:
            heavier = float(rows.weights.mean() / rows.weights[fitted].mean())
        own = {
            i: (self.shards.share(held[first:last]), heavier)
            for i, (first, last) in enumerate(pairwise([0, *self.X.ends]))
        }
        alphas = [alpha * share for alpha in work.alphas]
        with closing(self.shards.changed(_with_held, own=own)) as shards:
            kept = KeptHere(self.X.together)
            trial = replace(work, shards=shards, alphas=alphas, fitted=fitted, kept=kept)
            with closing(trial):
                trial.solve()
                answers = trial.answers()[:, held]
        answers = answers if rows.target.ndim == 2 else answers[:, :, 0]
        weights = None if rows.weights is None else rows.weights[held]
        others = TrainingSample(None, rows.target[held], weights)
        return [target.score(answer, others) for answer in answers]


# -- on workers ------------------------------------------------------------------------------------


def _scaled(
    memory: WorkerStore, number: int, shard: NumberedRows, prepare: Preprocessing, dtype: DTypeLike
) -> NumberedRows:
    X = prepare.scaled(shard.X) if len(shard) else shard.X
    return replace(shard, X=np.ascontiguousarray(X, dtype=dtype))


def _with_held(
    memory: WorkerStore, number: int, shard: NumberedRows, held: NDArray[np.bool_], heavier: float
) -> NumberedRows:
    weights = None if shard.weights is None else heavier * shard.weights
    return replace(shard, held=held, weights=weights)


def _room(memory: WorkerStore) -> int | None:
    return available_memory()
