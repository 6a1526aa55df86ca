"""Fits over many machines: rows stay where they are, sums travel, the truth is with the client."""

from mercer.distributed.run import Part, Run
from mercer.engines.engine import Engine, Here
from mercer.engines.shards import Shard, gathered, summed

__all__ = ["Engine", "Here", "Part", "Run", "Shard", "gathered", "summed"]
