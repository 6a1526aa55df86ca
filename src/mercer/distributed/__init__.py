"""Fits over many machines: rows stay where they are, sums travel, the truth is with the client."""

from mercer.distributed.engine import Engine, Here
from mercer.distributed.run import Part, Run
from mercer.distributed.shards import Shard, gathered, summed

__all__ = ["Engine", "Here", "Part", "Run", "Shard", "gathered", "summed"]
