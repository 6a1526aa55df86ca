"""Measures for the rules of claims: power laws, prices, and texts of numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from mercer_studies.queries import Record, error, is_regression

TIE = {"classification": 0.002, "regression": 0.02}
"""Two errors are a tie within so many shares of wrong classes, or such a share of the lower one."""

UNEVEN = "where more threads get a larger share of the processors"
"""Reason why a machine that does other work does not tell how much threads help."""


def tie(run: Record, least: float) -> float:
    """Margin within which two errors on the data of a run are a tie."""
    return TIE["regression"] * least if is_regression(run) else TIE["classification"]


def is_lower(ours: float, theirs: float, run: Record) -> bool:
    """Whether an error is lower than another by more than a tie."""
    return ours + tie(run, ours) < theirs


def duration(seconds: float) -> str:
    """A time in two digits at most, and a unit."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 90 * 60:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.0f} h" if seconds < 48 * 3600 else f"{seconds / 86400:.0f} days"


def milliseconds(seconds: float) -> str:
    """Thousandths of a second in three digits or more.

    >>> milliseconds(0.0123), milliseconds(1.5)
    ('12.3', '1,500')
    """
    value = 1e3 * seconds
    return f"{value:.3g}" if value < 999.5 else f"{value:,.0f}"


def power_law(sizes: Sequence[float], values: Sequence[float]) -> tuple[float, float]:
    """Exponent of the power law nearest to the values, and R² of its line in logarithms.

    ``sizes``, ``values``: positive; at least two different sizes.

    >>> exponent, fit = power_law([1, 2, 4], [3.0, 12.0, 48.0])
    >>> round(exponent, 6), round(fit, 6)
    (2.0, 1.0)
    """
    x, y = np.log(sizes), np.log(np.maximum(values, 1e-12))
    slope, start = np.polyfit(x, y, 1)
    spread = float(np.sum((y - y.mean()) ** 2))
    left = float(np.sum((y - start - slope * x) ** 2))
    return float(slope), 1.0 if spread == 0 else 1.0 - left / spread


def price(
    run: Record, others: Sequence[Record], cost: Callable[[Record], float]
) -> tuple[float, bool]:
    """Cost of others for a run's error relative to its cost, and whether it is a lower bound.

    ``others``: at least one. Where none has as little error, the dearest gives the bound; ``cost``:
    what a record has cost.

    >>> ours, theirs = ({"score": {"test": {"accuracy": a}}, "s": s} for a, s in ((0.9, 1), (1, 3)))
    >>> price(ours, [theirs], lambda record: record["s"])
    (3.0, False)
    """
    as_good = [cost(other) for other in others if error(other) <= error(run)]
    paid = min(as_good) if as_good else max(cost(other) for other in others)
    return paid / cost(run), not as_good


def price_along(
    run: Record, others: Sequence[Record], cost: Callable[[Record], float]
) -> tuple[float, bool]:
    """:func:`price` along the others' curve of error against cost, linear in logarithms.

    ``others``: at least one: the runs of one method at several sizes; ``cost``: > 0.

    >>> def run(error, cost):
    ...     return {"score": {"test": {"relative_rmse": error}}, "cost": cost}
    >>> factor, bound = price_along(run(0.2, 1), [run(0.4, 4), run(0.1, 16)], lambda r: r["cost"])
    >>> round(factor, 6), bound
    (8.0, False)
    """
    wanted = _logarithm(error(run))
    curve = sorted((cost(other), _logarithm(error(other))) for other in others)
    before = None
    for paid, reached in curve:
        if reached <= wanted:
            if before is not None:
                share = (before[1] - wanted) / (before[1] - reached)
                paid = before[0] * (paid / before[0]) ** share
            return paid / cost(run), False
        before = paid, reached
    return curve[-1][0] / cost(run), True


def median_factor(
    ours: Sequence[Record],
    theirs: Sequence[Record],
    cost: Callable[[Record], float],
    by: Callable[..., tuple[float, bool]] = price,
) -> tuple[float, bool]:
    """The median of prices over our runs, and whether it is a lower bound.

    ``ours``, ``theirs``: at least one each; ``by``: :func:`price` or :func:`price_along`.

    >>> run = {"score": {"test": {"accuracy": 0.9}}}
    >>> median_factor([run], [run], lambda record: 2.0)
    (1.0, False)
    """
    factors = sorted(by(run, theirs, cost) for run in ours)
    return factors[len(factors) // 2]


def percent(value: float) -> str:
    """Three digits of a share in per cent.

    >>> percent(0.12345)
    '12.3 %'
    """
    return f"{100 * value:.3g} %"


def or_dash(value: float | None) -> str:
    """Three digits of a number; a dash for None, infinite and NaN."""
    return "–" if value is None or not np.isfinite(value) else f"{value:.3g}"


def _logarithm(value: float) -> float:
    return float(np.log(max(value, 1e-12)))
