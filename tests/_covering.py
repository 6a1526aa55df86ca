"""Covering designs: fewer cases than the product of all axes, with every pair of values in one."""

from __future__ import annotations

from itertools import combinations, product


def pairwise(*axes):
    """Cases, one value of each axis, in which any two values of different axes meet.

    Greedy and deterministic: the next case holds the most pairs that have not met yet.
    """
    axes = [list(axis) for axis in axes]
    cases = list(product(*(range(len(axis)) for axis in axes)))
    pairs = {case: set(combinations(enumerate(case), 2)) for case in cases}
    missing = set().union(*pairs.values())
    chosen = []
    while missing:
        best = max(cases, key=lambda case: len(pairs[case] & missing))
        missing -= pairs[best]
        chosen.append(tuple(axis[i] for axis, i in zip(axes, best, strict=True)))
    return chosen
