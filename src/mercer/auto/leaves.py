"""Leaves and trees of local kernel machines: of the final model and of trials."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mercer.auto.tuning import TUNING
from mercer.maps.partition import MOST_GROWTH, usual_overlap

__all__ = ["Cut", "cut_for", "trial_leaves", "worth"]


@dataclass(frozen=True)
class Cut:
    """Leaves and trees of a local kernel machine of n rows."""

    n: int
    leaf_size: int
    n_trees: int

    @property
    def overlap(self) -> float:
        """Share of the rows to either side of a cut that both sides are fitted to."""
        return usual_overlap(self.n, self.leaf_size)

    def seconds(self, leaf_seconds: float, leaf_rows: int) -> float:
        """The time that all leaves take, if one of ``leaf_rows`` rows takes ``leaf_seconds``."""
        n_leaves = self.n_trees * max(1.0, self.n * MOST_GROWTH / self.leaf_size)
        return float(n_leaves * leaf_seconds * (self.leaf_size / leaf_rows) ** 2.5)


def cut_for(
    n: int,
    n_inputs: int,
    worth: float = np.inf,
    seconds_left: float = np.inf,
    leaf_seconds: float = 0.0,
    leaf_rows: int = 1,
) -> Cut:
    """The leaves and trees that suit n rows, or the best that there is time for.

    ``worth`` is the number of rows of the whole table that equal a row of a leaf, infinite if
    unknown: leaves shall be worth the rows of the exact machine, or more rows could do harm. A leaf
    of ``leaf_rows`` rows took ``leaf_seconds``, divided by the threads at work.
    """
    work = TUNING.leaf_work * max(1.0, n_inputs / TUNING.wide_leaf_inputs) ** 0.5
    leaf_size = int(np.clip(np.sqrt(work / n), *TUNING.leaf_rows))
    n_trees = TUNING.trees if n < TUNING.many_rows else TUNING.fewer_trees
    most = min(TUNING.largest_leaf, TUNING.leaf_growth * leaf_size)
    wanted = int(min(TUNING.global_rows / worth, most))
    if wanted > leaf_size:
        n_trees = max(TUNING.fewest_trees, round(n_trees * (leaf_size / wanted) ** 2))
        leaf_size = wanted
    if not np.isfinite(seconds_left):
        return Cut(n, leaf_size, n_trees)
    cuts = [Cut(n, leaf_size, trees) for trees in range(TUNING.most_trees, 0, -1)]
    while cuts[-1].leaf_size > TUNING.smallest_leaf:
        cuts.append(Cut(n, max(TUNING.smallest_leaf, cuts[-1].leaf_size // 2), 1))
    in_time = (cut for cut in cuts if cut.seconds(leaf_seconds, leaf_rows) <= seconds_left)
    return next(in_time, cuts[-1])


def trial_leaves(leaf_size: int) -> tuple[int, int]:
    """Size and number of the leaves that settings are tried on."""
    size = min(leaf_size, TUNING.trial_leaf_rows)
    return size, TUNING.trial_rows // size


def worth(of_leaf: float, of_few: float, of_more: float) -> float:
    """Rows of the whole table that a row of a leaf is worth, by a power law of three losses.

    ``of_few`` is the loss of as many rows of the table, ``of_more`` that of four times as many.
    """
    if not of_few > of_more > 0 < of_leaf:
        return 1.0 if of_leaf >= of_few else np.inf
    power = np.log(of_few / of_more) / np.log(4)
    with np.errstate(over="ignore"):  # where more rows hardly help, a leaf is worth all of them
        return float(max((of_few / of_leaf) ** (1 / power), 1.0))
