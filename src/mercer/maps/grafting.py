"""Trees of cuts that grow in parts: the first cuts from a sample of rows, then node by node."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from mercer.maps.partition import Partition, grown_in_core, moved

__all__ = ["grafted", "top_of_tree"]


def top_of_tree(
    sample: NDArray, node_size: int, number: int, overlap: float, key: int, n_jobs: int | None
) -> tuple[Partition, list[int]]:
    """The first cuts of a tree, and the numbers in that tree of the nodes that they leave.

    They are the first ones of tree ``number`` that ``grown`` gives if the sample (m, d) is all
    rows; at most ``node_size`` rows of the sample are left in a node, and more where they are
    alike.
    """
    numbers = np.array([number])
    top, _ = grown_in_core(sample, node_size, numbers, overlap, key, n_jobs, divides_alike=False)
    nodes = [0] * top.n_leaves
    pending = [(int(top.roots[0]), 1)]
    while pending:
        cut, node = pending.pop()
        if cut < 0:
            nodes[~cut] = node % 2**32
        else:
            left, right = top.children[cut].tolist()
            pending += [(left, 2 * node), (right, 2 * node + 1)]
    return top, nodes


def grafted(top: Partition, parts: Sequence[Partition]) -> Partition:
    """The tree ``top`` with a tree of ``parts`` in place of every leaf."""
    new_number, first_cut = _numbers(top, [len(part.low) for part in parts])
    first_leaf = np.cumsum([0, *(part.n_leaves for part in parts)])
    places = [new_number]
    children, roots = [np.empty((0, 2), np.int64)], np.empty(len(parts), np.int64)
    for i, part in enumerate(parts):
        places.append(first_cut[i] + np.arange(len(part.low)))
        children.append(moved(part.children, first_cut[i], first_leaf[i]))
        roots[i] = moved(part.roots, first_cut[i], first_leaf[i])[0]
    is_cut = top.children >= 0
    children[0] = np.empty_like(top.children)
    children[0][is_cut] = new_number[top.children[is_cut]]
    children[0][~is_cut] = roots[~top.children[~is_cut]]
    back = np.argsort(np.concatenate(places))
    trees = [top, *parts]
    return Partition(
        np.concatenate([tree.directions for tree in trees])[back],
        np.concatenate([tree.low for tree in trees])[back],
        np.concatenate([tree.high for tree in trees])[back],
        np.concatenate(children)[back],
        roots[:1] if top.roots[0] < 0 else np.zeros(1, np.int64),
    )


def _numbers(top: Partition, n_cuts: list[int]) -> tuple[NDArray, NDArray]:
    """Numbers of the cuts of ``top``, and of the first cut of each part, from the left down."""
    new_number, first_cut = np.empty(len(top.low), np.int64), np.empty(len(n_cuts), np.int64)
    met, pending = 0, [int(top.roots[0])]
    while pending:
        node = pending.pop()
        if node >= 0:
            new_number[node] = met
            met += 1
            pending += top.children[node, ::-1].tolist()
        else:
            first_cut[~node] = met
            met += n_cuts[~node]
    return new_number, first_cut
