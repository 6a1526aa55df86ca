"""How local kernel machines of many rows are cut, and what their settings are tried on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from mercer.auto.trials import Settings
from mercer.maps.partition import MOST_GROWTH, usual_overlap

__all__ = [
    "Cut",
    "beyond_ends",
    "cut_for",
    "narrower",
    "neighbours",
    "rescaled",
    "trial_leaves",
    "worth",
]

_LARGEST_TRIAL = 1000  # rows of a leaf that settings are tried on
_TRIAL_ROWS = 32_000  # of all of these leaves
_TREES, _FEWER_TREES, _MOST_TREES = 4, 3, 8
_MANY_ROWS = 100_000  # from which fewer trees have to do
_LEAST, _MOST = 1000, 4000  # rows of a leaf
# The same, and trees, where rows of a leaf are worth little more than others.
_LARGEST, _LARGER, _LEAST_TREES = 8000, 1.5, 2
_GLOBAL_ROWS = 30_000  # of the whole table that a leaf is to be worth
_SMALLEST = 100  # the same where time is short
# Rows times the square of the leaf's: of so many, factors of four trees take some seconds. Wide
# rows, which take all methods longer, get more.
_WORK, _WIDE = 3.2e11, 50

_FACTOR = {"laplacian": 2.0, "gaussian": 3.0}  # steps of gamma
_END_STEP = 4.0  # of the ridge past the ends of a grid
_RIDGE_STEP, _LEAST_RIDGE = 3.0, 2e-3  # weaker ones show rounding sooner than gains
_LEAST_EXACT_RIDGE = 0.03  # of all rows, whose conjugate gradients weaker ones slow down
_LEAST_ENDS = {"ridge": 1e-8, "gamma": 1e-3}  # below, float64 has no factor of 2000 rows
_POWERS = {"laplacian": (0.0, 0.5, 1.0), "gaussian": (0.0, 1.0)}


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

    Parameters
    ----------
    n, n_inputs : int
    worth : float
        Rows of the whole table that a row of a leaf is worth. Leaves are to be worth as many as the
        exact machine would take, or more rows could do harm. Infinite where nobody knows.
    seconds_left : float
        Infinite where there is no limit.
    leaf_seconds, leaf_rows :
        What a leaf of so many rows took, divided by the threads at work.
    """
    work = _WORK * max(1.0, n_inputs / _WIDE) ** 0.5
    leaf_size = int(np.clip(np.sqrt(work / n), _LEAST, _MOST))
    n_trees = _TREES if n < _MANY_ROWS else _FEWER_TREES
    wanted = int(min(_GLOBAL_ROWS / worth, _LARGEST, _LARGER * leaf_size))
    if wanted > leaf_size:
        n_trees = max(_LEAST_TREES, round(n_trees * (leaf_size / wanted) ** 2))
        leaf_size = wanted
    if not np.isfinite(seconds_left):
        return Cut(n, leaf_size, n_trees)
    cuts = [Cut(n, leaf_size, trees) for trees in range(_MOST_TREES, 0, -1)]
    while cuts[-1].leaf_size > _SMALLEST:
        cuts.append(Cut(n, max(_SMALLEST, cuts[-1].leaf_size // 2), 1))
    in_time = (cut for cut in cuts if cut.seconds(leaf_seconds, leaf_rows) <= seconds_left)
    return next(in_time, cuts[-1])


def trial_leaves(leaf_size: int) -> tuple[int, int]:
    """Size and number of the leaves that settings are tried on."""
    size = min(leaf_size, _LARGEST_TRIAL)
    return size, _TRIAL_ROWS // size


def worth(of_leaf: float, of_few: float, of_more: float) -> float:
    """Rows of the whole table that a row of a leaf is worth, by losses.

    That of as many rows of the whole table, and of four times as many, tell with which power of the
    rows the loss falls, and so how many would reach that of a leaf.
    """
    if not of_few > of_more > 0 < of_leaf:
        return 1.0 if of_leaf >= of_few else np.inf
    power = np.log(of_few / of_more) / np.log(4)
    with np.errstate(over="ignore"):  # where more rows hardly help, a leaf is worth all of them
        return float(max((of_few / of_leaf) ** (1 / power), 1.0))


def narrower(settings: Settings) -> Iterator[tuple[Settings, list[float]]]:
    """The same settings and those of a narrower kernel, at the same and, if it is not too weak yet,
    at a weaker ridge."""
    weaker = settings.ridge / _RIDGE_STEP
    near = [settings.ridge, weaker] if weaker >= _LEAST_EXACT_RIDGE else [settings.ridge]
    yield settings, near
    yield replace(settings, gamma=settings.gamma * _FACTOR[settings.kernel]), near


def rescaled(settings: Settings, treatments: Sequence[tuple[str, int]]) -> Iterator[Settings]:
    """The same settings in scales of exponential machines: of the inputs as they are treated, and
    the roots of those of standard ones, if ``treatments`` have these."""
    euclidean = replace(settings, scales="exponential", power=settings.power or 1.0)
    others = [euclidean]
    if ("standard", 0) in treatments:
        others.append(replace(euclidean, numbers="standard", max_integers=0, power=0.5))
    yield from (other for other in others if other != settings)


def neighbours(
    settings: Settings, treatments: Sequence[tuple[str, int]] = ()
) -> Iterator[tuple[Settings, list[float]]]:
    """Settings one step away, each with the ridges to try it at.

    ``treatments`` are those of the columns that may take the place of the one in ``settings``.
    """
    factor = _FACTOR[settings.kernel]
    weaker = max(settings.ridge / _RIDGE_STEP, _LEAST_RIDGE)
    near = [settings.ridge, weaker]
    yield replace(settings, gamma=settings.gamma * factor), near
    yield replace(settings, gamma=settings.gamma / factor), near[:1]
    yield settings, [settings.ridge * _RIDGE_STEP, weaker]
    for power in _POWERS[settings.kernel]:
        if power != settings.power and not settings.turned:
            yield replace(settings, power=power), near[:1]
    for numbers, max_integers in treatments:
        if (numbers, max_integers) != (settings.numbers, settings.max_integers):
            yield replace(settings, numbers=numbers, max_integers=max_integers), near[:1]


def beyond_ends(
    best: Settings, tried: Iterable[Settings], ridges_alone: bool = False
) -> list[tuple[Settings, list[float]]]:
    """One step past the ends of the ridges, and of the gammas, tried with a kernel.

    Parameters
    ----------
    best : Settings
        Settings with the least loss so far.
    tried : iterable of Settings
        All settings tried.
    ridges_alone : bool, default=False
        Whether gammas stay within their ends.

    Returns
    -------
    list of (Settings, ridges)
        Empty if neither the ridge nor the gamma of ``best`` is the end of what was tried with its
        kernel.

    Examples
    --------
    >>> at_the_end = Settings(kernel="gaussian", gamma=1.0, ridge=0.001)
    >>> tried = [at_the_end, Settings(kernel="gaussian", gamma=0.3, ridge=0.003)]
    >>> [(round(s.gamma, 2), ridges) for s, ridges in beyond_ends(at_the_end, tried)]
    [(1.0, [0.00025]), (3.0, [0.001, 0.00025]), (0.33, [0.00025])]
    """
    alike = [s for s in tried if s.kernel == best.kernel]
    factor = _FACTOR[best.kernel]
    outer, inner = (replace(best, gamma=best.gamma * f) for f in (1 / factor, factor))
    weaker = max(best.ridge / _END_STEP, _LEAST_ENDS["ridge"])
    ridges = [weaker] if weaker < best.ridge <= min(s.ridge for s in alike) else []
    steps = {best: ridges}
    if not ridges_alone:  # a weaker ridge may suit another gamma, inside the ends as well
        is_widest = best.gamma <= min(s.gamma for s in alike)
        is_narrowest = best.gamma >= max(s.gamma for s in alike)
        steps[inner] = [best.ridge] * is_narrowest + ridges
        if outer.gamma > _LEAST_ENDS["gamma"]:
            steps[outer] = [best.ridge] * (is_widest and not is_narrowest) + ridges
    return [(settings, own) for settings, own in steps.items() if own]
