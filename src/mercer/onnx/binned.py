"""Sums over the boxes of random grids: codes by integer arithmetic, weights by a hash map."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer.maps import RandomBinning
from mercer.onnx.graph import Graph, Value

__all__ = ["binned_sum"]

_NUMBERS = 512  # inputs times grids of a chunk: a row of the data takes some times as many numbers
_MIXER = 0x7FEB352D  # that of hashing.hpp, which spreads keys over 32 bits
# Odd numbers, by a multiple of which the keys of a grid are changed: one hash map serves all grids.
_SALTS = (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9)


def binned_sum(graph: Graph, map_: RandomBinning, x: Value, weights: NDArray) -> Value:
    """``z(x) @ weights`` of random binning, (n, k); boxes that were not met count as 0."""
    n_grids, d = len(map_.n_bins_), map_.n_features_in_
    dtype = weights.dtype
    if not n_grids or not len(weights):
        return graph.zeros(x, weights.shape[1], dtype)
    table = np.concatenate([map_._value * weights, np.zeros((1, weights.shape[1]))]).astype(dtype)
    # A row of the table for every code: of a box that was not met, and of grids that fill up the
    # last chunk, the last one, of zeros.
    lookup = _hashed(graph, map_) if map_._is_hashed else _met(graph, map_)
    entries = graph.constant(table)
    wide = graph.cast(x, np.float64)

    def body(g: Graph, slices: list[Value]) -> Value:
        inverse_widths, shifts, multipliers, extra = slices
        places = g.op("Sub", g.op("Mul", wide, inverse_widths), shifts)  # (grids, n, d)
        codes = g.op("Floor", places)
        codes = g.op("Clip", codes, -(2.0**31), 2.0**31 - 1)
        codes = g.cast(g.cast(codes, np.int64), np.uint32)  # negative ones wrap around
        keys = g.op("MatMul", codes, multipliers)  # (grids, n, 2)
        picked = g.op("Gather", entries, lookup(g, keys, extra), dtype=dtype, axis=0)
        return g.op("ReduceSum", picked, [0], keepdims=0)

    arrays = _chunked_grids(map_, _extras(map_), max(1, min(n_grids, _NUMBERS // d)))
    return graph.chunked_sum(x, arrays, body, weights.shape[1], dtype)


def _chunked_grids(map_: RandomBinning, extra: NDArray, size: int) -> list[NDArray]:
    """Inverse widths and shifts (c, size, 1, d), halves of multipliers (c, size, d, 2), extras."""
    inverse_widths, shifts, multipliers = map_._parameters(0, len(map_.n_bins_))
    halves = np.stack([multipliers & np.uint64(0xFFFFFFFF), multipliers >> np.uint64(32)], axis=-1)
    n = len(shifts)
    padding = -n % size
    arrays = [inverse_widths[:, None], shifts[:, None], halves.astype(np.uint32)]
    filled = [np.concatenate([a, np.zeros((padding, *a.shape[1:]), a.dtype)]) for a in arrays]
    filled.append(np.concatenate([extra[:n], np.repeat(extra[n:], padding)])[:, None])
    return [np.ascontiguousarray(a.reshape(-1, size, *a.shape[1:])) for a in filled]


def _extras(map_: RandomBinning) -> NDArray:
    """For every grid, and one filling up, its first column or the change of its keys."""
    if map_._is_hashed:
        return np.asarray(map_._offsets)
    grids = np.arange(len(map_.n_bins_) + 1, dtype=np.uint64)
    return np.asarray(grids * np.uint64(_salt_and_keys(map_)[0]))


def _salt_and_keys(map_: RandomBinning) -> tuple[int, NDArray[np.uint64]]:
    """A salt under which no two boxes of all grids share a key, and these keys."""
    grids = np.repeat(np.arange(len(map_.n_bins_), dtype=np.uint64), map_.n_bins_)
    keys = map_._table.keys()
    for salt in _SALTS:
        salted = keys ^ (grids * np.uint64(salt))
        if len(np.unique(salted)) == len(salted):
            return salt, salted
    raise ValueError("feature_map must have boxes of different keys; two of them share one.")


def _met(graph: Graph, map_: RandomBinning) -> Any:
    """Columns of the boxes that were met at fit, and after them, by a hash map."""
    _, keys = _salt_and_keys(map_)
    known = {"keys_int64s": keys.view(np.int64).tolist(), "values_int64s": list(range(len(keys)))}

    def lookup(g: Graph, halves: Value, extra: Value) -> Value:
        low, high = _halves(g, halves)
        high = g.op("BitShift", high, g.constant(np.array(32, dtype=np.uint64)), direction="LEFT")
        key = g.cast(g.op("BitwiseXor", g.op("BitwiseOr", low, high), extra), np.int64)
        return g.op("LabelEncoder", key, default_int64=len(keys), **known)

    return lookup


def _hashed(graph: Graph, map_: RandomBinning) -> Any:
    """Columns of hashed boxes: what ``mix_halves`` and ``fold_keys`` of hashing.hpp give."""
    n_columns = int(map_.n_bins_[0])

    def shifted(g: Graph, value: Value, bits: int) -> Value:
        return g.op("Div", value, 1 << bits)

    def lookup(g: Graph, halves: Value, extra: Value) -> Value:
        low, high = (g.cast(half, np.int64) for half in _halves(g, halves))
        low = g.op("Mul", g.op("BitwiseXor", low, shifted(g, low, 16)), _MIXER)
        low = g.op("Mod", low, 1 << 32)
        mixed = g.op("BitwiseXor", g.op("BitwiseXor", low, shifted(g, low, 15)), high)
        return g.op("Add", shifted(g, g.op("Mul", mixed, n_columns), 32), extra)

    return lookup


def _halves(g: Graph, halves: Value) -> tuple[Value, Value]:
    """The lower and upper 32 bits of keys, each (grids, n), as 64."""
    wide = g.cast(halves, np.uint64)
    low, high = (
        g.op("Gather", wide, g.constant(np.array(side, dtype=np.int64)), axis=2) for side in (0, 1)
    )
    return low, high
