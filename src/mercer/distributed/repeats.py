"""Copies of rows among shards, merged into weights before a fit chooses anything by them."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer.distributed.tables import FarTable
from mercer.engines.engine import Engine
from mercer.engines.memory import WorkerStore
from mercer.engines.shards import Shard, gathered
from mercer.preparation.repeats import REMEDY, copies_in

__all__ = ["without_copies"]


def without_copies(engine: Engine, example: Any, has_classes: bool) -> Engine:
    """Checked shards whose copies of rows are weights; the engine itself if there are none.

    ``example`` is a row of them.
    """
    rows = FarTable(engine, gathered(engine, len), example)
    found = [each for each in gathered(engine, _beside) if len(each[0])]
    targets, *both = zip(*found, strict=True)
    weights, offset = (None if each[0] is None else np.concatenate(each) for each in both)
    target = np.concatenate(targets)
    copies = copies_in(rows, target, [offset], target if has_classes else None, REMEDY)
    if copies is None:
        return engine
    counts = copies.weights(weights)
    own = {}
    for number, (start, stop) in enumerate(pairwise(rows.edges)):
        some = slice(*np.searchsorted(copies.first, [start, stop]))
        own[number] = copies.first[some] - start, counts[some]
    return engine.changed(_merged, own=own)


# -- on workers ---------------------------------------------------------------------------------


def _beside(shard: Shard) -> tuple[NDArray, NDArray | None, NDArray | None]:
    return shard.target, shard.weights, shard.offset


def _merged(
    memory: WorkerStore,
    number: int,
    shard: Shard,
    places: NDArray[np.int64],
    weights: NDArray[np.float64],
) -> Shard:
    offset = None if shard.offset is None else shard.offset[places]
    return replace(
        shard, X=shard.X[places], target=shard.target[places], weights=weights, offset=offset
    )
