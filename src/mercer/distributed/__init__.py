"""Fits over many machines: rows stay where they are, sums travel, the truth is with the client."""

from mercer.distributed.run import Run, ShardState
from mercer.engines.engine import Engine, Here
from mercer.engines.shards import Shard, gathered, summed

__all__ = ["Engine", "Here", "Run", "Shard", "ShardState", "gathered", "summed"]
