"""Sums over the leaves of random trees: rows are sent to their leaves, and only there compared."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mercer.maps.local import LocalKernel
from mercer.maps.partition import Partition
from mercer.onnx.graph import Graph, Value
from mercer.onnx.kernels import BLOCK, _centre, against

__all__ = ["leaf_sum"]


def leaf_sum(
    graph: Graph, map_: LocalKernel, x: Value, landmarks: NDArray, weights: NDArray
) -> Value:
    """``z(x) @ weights`` of local machines, (n, k): each leaf answers for the rows it has."""
    dtype = weights.dtype
    shares = _shares(graph, map_.partition_, x)  # (leaves, n)
    rows, all_shares = graph.constant(landmarks), shares
    centre = _centre(landmarks)
    order, leaves, coef, constants = _chunked(map_, weights)

    def answered(g: Graph, total: Value, slices: list[Value]) -> Value:
        which, leaf, coefficients, constant = slices
        share = g.op("Gather", all_shares, leaf, axis=0)  # (n,)
        lies_in = g.op("Greater", share, 0.0, dtype=bool)
        places = g.op("Transpose", g.op("NonZero", lies_in, dtype=np.int64), perm=[1, 0])
        own = g.op("Squeeze", places, [1])
        side = against(g, map_.kernel_, g.op("Gather", x, own, axis=0), len(centre), centre, dtype)
        there = g.op("Transpose", g.op("Gather", rows, which, axis=0), perm=[1, 0])
        answers = g.op("Add", g.op("MatMul", side(g, there), coefficients), constant)
        counted = g.op("Unsqueeze", g.op("Gather", share, own, axis=0), [1])
        answers = g.op("Mul", answers, g.cast(counted, dtype))
        return g.op("ScatterND", total, places, answers, reduction="add")

    slices = [graph.constant(array) for array in (order, leaves, coef, constants)]
    return graph.scan(graph.zeros(x, weights.shape[1], dtype), slices, answered)


def _chunked(map_: LocalKernel, weights: NDArray) -> tuple[NDArray, NDArray, NDArray, NDArray]:
    """Landmarks in chunks of one leaf: rows, leaves, coefficients and constants.

    The last chunk of a leaf is filled with coefficients of 0; its first has the constant.
    """
    members = map_.members_
    n_members, k = len(members.order), weights.shape[1]
    sizes = np.diff(members.starts)
    width = int(min(BLOCK, sizes.max()))
    counts = -(-sizes // width)
    leaves = np.repeat(np.arange(len(sizes)), counts)
    order = np.zeros((len(leaves), width), dtype=np.int64)
    coef = np.zeros((len(leaves), width, k), dtype=weights.dtype)
    constants = np.zeros((len(leaves), 1, k), dtype=weights.dtype)
    first = np.cumsum(counts) - counts
    constants[first, 0] = weights[n_members:]
    for leaf, start in enumerate(first.tolist()):
        places = members.places(leaf)
        size = places.stop - places.start
        padded = np.resize(members.order[places], int(counts[leaf]) * width)
        chunks = slice(start, start + int(counts[leaf]))
        order[chunks] = padded.reshape(-1, width)
        coef[chunks].reshape(-1, k)[:size] = weights[places]
    return order, leaves, coef, constants


def _shares(graph: Graph, partition: Partition, x: Value) -> Value:
    """Shares of the leaves in each answer, (leaves, n), float64: parent's times own side's."""
    n_cuts, n_trees = len(partition.low), len(partition.roots)
    directions = np.ascontiguousarray(partition.directions.T, dtype=x.dtype)
    low, high = partition.low, partition.high
    sides = []
    if n_cuts:
        values = graph.cast(graph.op("MatMul", x, directions), np.float64)
        left = graph.op("Neg", graph.op("Sub", values, high))
        left = graph.op("Clip", graph.op("Div", left, high - low), 0.0, 1.0)
        # What is too large to be projected goes to both sides alike.
        half = graph.constant(np.array(0.5))
        left = graph.op("Where", graph.op("IsNaN", left, dtype=bool), half, left, dtype=np.float64)
        sides = [left, graph.op("Add", graph.op("Neg", left), 1.0)]
    ones = graph.op("Add", graph.zeros(x, 1, np.float64), 1.0)
    all_sides = graph.joined([*sides, ones])
    nodes = [int(root) for root in partition.roots]
    shares = graph.columns(graph.op("Mul", ones, 1.0 / n_trees), [0] * n_trees)
    while any(node >= 0 for node in nodes):
        parents: list[int] = []
        taken: list[int] = []
        below: list[int] = []
        for place, node in enumerate(nodes):
            children = [node] if node < 0 else partition.children[node].tolist()
            parents += [place] * len(children)
            taken += [2 * n_cuts] if node < 0 else [node, n_cuts + node]
            below += children
        own = graph.columns(all_sides, taken)
        shares, nodes = graph.op("Mul", graph.columns(shares, parents), own), below
    by_leaf = np.argsort([~node for node in nodes])
    return graph.op("Transpose", graph.columns(shares, by_leaf.tolist()), perm=[1, 0])
