"""Sizes of the bins of random binning, and the parallel speed-up that follows.

Two rows collide in a grid when they share a bin. Columns of full bins share many rows and have to
be updated in turn; columns of thin bins can be updated at the same time. Wu et al. (KDD 2016)
measure this by κ and its bound κ̄.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from mercer._runtime.validation import matrix
from mercer.designs import Design, Occupancy
from mercer.estimators.base import FeatureModel
from mercer.maps import RandomBinning

__all__ = ["Collisions", "asymptotic_speedup", "collisions", "predicted_speedup"]

_LEVELS = (0.0, 0.25, 0.5, 0.75, 0.9, 0.99, 1.0)  # shares of the bins, for quantiles of sizes


def predicted_speedup(
    threads: ArrayLike, n_columns: ArrayLike, row_nonzeros: ArrayLike
) -> NDArray[np.float64]:
    """Least speed-up of parallel coordinate descent, as a ratio of numbers of rounds.

    ``S(τ) = τ / (1 + (ω - 1)(τ - 1) / (D - 1))`` for τ simultaneous updates of D columns, where no
    row has more than ω non-zeros. This is the worst case: measured numbers of rounds may be
    smaller. Times depend on the machine too.

    Parameters
    ----------
    threads : array of numbers
        Number of simultaneous updates τ, >= 1. S(τ) = S(D) for τ > D.
    n_columns : array of numbers
        Number of columns D, >= 1.
    row_nonzeros : array of numbers
        Largest number of non-zeros ω of a row, from 1 to D; R for random binning, D for dense
        features.

    Returns
    -------
    float64 array of the broadcast shape of the arguments
        Speed-up, from 1 for τ = 1 or dense features to D / ω for τ >= D.

    Raises
    ------
    TypeError, ValueError
        If an argument is no number or out of range.

    References
    ----------
    Wu, Yen, Chen and Yan, Revisiting random binning features, KDD 2016, equation 29.

    Examples
    --------
    >>> predicted_speedup([1, 8, 64], n_columns=7600, row_nonzeros=100).round(2)
    array([ 1.  ,  7.33, 35.15])
    """
    columns = _at_least_one(n_columns, "n_columns")
    nonzeros = _at_least_one(row_nonzeros, "row_nonzeros")
    if np.any(nonzeros > columns):
        raise ValueError(
            f"row_nonzeros must be at most n_columns; got {row_nonzeros!r} of {n_columns!r}."
        )
    busy = np.minimum(_at_least_one(threads, "threads"), columns)
    overlap = (nonzeros - 1) / np.maximum(columns - 1, 1)  # one column: 0 of 0
    return busy / (1 + overlap * (busy - 1))


def asymptotic_speedup(kappa_bar: ArrayLike, a: ArrayLike) -> NDArray[np.float64]:
    """Limit of :func:`predicted_speedup` for many grids and τ = a κ̄ + 1 simultaneous updates.

    Parameters
    ----------
    kappa_bar : array of numbers
        Mean number of bins in a grid, κ̄ = D / R, >= 1.
    a : array of numbers
        Number of updates beyond the first as a multiple of κ̄, >= 0; infinity is allowed.

    Returns
    -------
    float64 array of the broadcast shape of the arguments
        Speed-up ``(a κ̄ + 1) / (1 + a)``: (κ̄ + 1) / 2 for a = 1, and its upper bound κ̄ for a = ∞.

    Raises
    ------
    TypeError, ValueError
        If an argument is no number or out of range.

    References
    ----------
    Wu, Yen, Chen and Yan, Revisiting random binning features, KDD 2016, equation 30.

    Examples
    --------
    >>> asymptotic_speedup(76, [0, 1, float("inf")])
    array([ 1. , 38.5, 76. ])
    """
    cap = _at_least_one(kappa_bar, "kappa_bar")
    multiple = np.asarray(a, dtype=np.float64)
    if not np.all(multiple >= 0):
        raise ValueError(f"a must be at least 0; got {a!r}.")
    # A mean of 1 and κ̄ with the weights 1 and a.
    return 1 + (cap - 1) * (1 - 1 / (1 + multiple))


@dataclass(frozen=True, eq=False)
class Collisions:
    """Sizes of the bins that the rows of a fit share.

    Parameters
    ----------
    occupancy : Occupancy
        Sizes of the bins of the R grids.
    unseen : float or None, default=None
        Share of the pairs of a new row and a grid whose bin contains no training row.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.designs import Binned
    >>> codes = np.array([[0, 0, 0, 1], [0, 1, 2, 3]], dtype=np.uint8)
    >>> bins = collisions(Binned(codes, [0, 2, 6], scale=1.0))
    >>> bins.n_columns, bins.kappa_bar, round(bins.kappa_hat, 3)
    (6, 3.0, 2.667)
    """

    occupancy: Occupancy
    unseen: float | None = None

    @property
    def n_rows(self) -> int:
        """Rows n that the grids were fitted to."""
        return self.occupancy.n_rows

    @property
    def n_grids(self) -> int:
        """R."""
        return len(self.occupancy.largest)

    @property
    def n_columns(self) -> int:
        """Columns D that a row of the fit has; hashed bins that stayed empty do not count."""
        return int(self.occupancy.n_bins.sum())

    @property
    def n_nonzero(self) -> int:
        """Non-zeros n R of the design."""
        return self.n_rows * self.n_grids

    @property
    def density(self) -> float:
        """Share of non-zeros, R / D: also the mean share of the rows in a bin."""
        return self.n_grids / self.n_columns

    @property
    def kappa_hat(self) -> float:
        """κ̂: mean over grids of n / rows in the fullest bin; between 1 and κ̄."""
        return float(np.mean(self.n_rows / self.occupancy.largest))

    @property
    def kappa_bar(self) -> float:
        """κ̄ = D / R: mean number of bins in a grid."""
        return self.n_columns / self.n_grids

    @property
    def quantiles(self) -> dict[float, float]:
        """Share of the rows in the fullest of the smallest bins, for some shares of the bins."""
        reached = np.cumsum(self.occupancy.n_bins)
        sizes = self.occupancy.counts[np.searchsorted(reached, np.array(_LEVELS) * reached[-1])]
        return dict(zip(_LEVELS, (sizes / self.n_rows).tolist(), strict=True))

    @property
    def largest_share(self) -> float:
        """Share of the rows in the fullest bin of all."""
        return float(self.occupancy.counts[-1] / self.n_rows)

    def speedup(self, threads: ArrayLike) -> NDArray[np.float64]:
        """Least speed-up of parallel coordinate descent on these columns, in rounds.

        See :func:`predicted_speedup`; it is never above ``kappa_bar``.
        """
        return predicted_speedup(threads, self.n_columns, self.n_grids)

    def summary(self) -> str:
        """The figures as a few lines of text."""
        shares = self.quantiles
        lines = [
            f"{self.n_rows} rows in {self.n_grids} grids: {self.n_columns} bins, "
            f"{self.n_nonzero} non-zeros, density {self.density:.3g}",
            f"bins of a grid: {self.kappa_bar:.4g} on average (κ̄); "
            f"{self.kappa_hat:.4g} if all were as full as the fullest (κ̂)",
            f"share of the rows in a bin: median {shares[0.5]:.2%}, nine bins of ten at most "
            f"{shares[0.9]:.2%}, the fullest {self.largest_share:.2%}",
            f"parallel coordinate descent: at least {self.speedup(8):.3g} times fewer rounds with "
            f"8 updates at once, {self.speedup(64):.3g} with 64, {self.kappa_bar:.4g} at most",
        ]
        if self.unseen is not None:
            lines.append(f"new rows: {self.unseen:.2%} of their bins were not met in the fit")
        return "\n".join(lines)

    __str__ = summary

    def __repr__(self) -> str:
        unseen = "" if self.unseen is None else f", unseen={self.unseen:.4g}"
        return (
            f"<Collisions of {self.n_rows} rows in {self.n_grids} grids: {self.n_columns} bins, "
            f"kappa_hat={self.kappa_hat:.4g}, kappa_bar={self.kappa_bar:.4g}{unseen}>"
        )


def collisions(model: Any, X: Any = None) -> Collisions:
    """Count the rows that share the bins of a random binning model.

    Parameters
    ----------
    model : KernelRegressor, KernelClassifier, RandomBinning or design
        Fitted estimator with random binning, fitted map, or the design of its training rows.
    X : array, data frame or CSR of shape (n, d), default=None
        New rows in the form that the model takes, to count their bins without a training row. Many
        such bins mean that gamma is too large for the number of rows: predictions tend to the
        constant term. Leave it out if ``model`` is a design.

    Raises
    ------
    TypeError, ValueError
        If the model has no bins or is not fitted, or X does not suit it.

    References
    ----------
    Wu, Yen, Chen and Yan, Revisiting random binning features, KDD 2016, definition 1.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import KernelRegressor
    >>> X = np.random.default_rng(0).normal(size=(400, 2))
    >>> model = KernelRegressor(n_components=64, random_state=0).fit(X[:300], X[:300, 0])
    >>> bins = collisions(model, X[300:])
    >>> 1 < bins.kappa_hat < bins.kappa_bar, bins.unseen < 0.5
    (True, True)
    """
    if isinstance(model, Design):
        return Collisions(_occupancy_of(model, X))
    if not isinstance(model, (FeatureModel, RandomBinning)):
        raise TypeError(
            "model must be a KernelRegressor, a KernelClassifier, a RandomBinning map or its "
            f"design; got {model!r}."
        )
    check_is_fitted(model)
    map_ = model.feature_map_ if isinstance(model, FeatureModel) else model
    if not isinstance(map_, RandomBinning):
        raise ValueError(f"model must have random binning as its feature map; got {map_!r}.")
    return Collisions(map_.occupancy_, None if X is None else _unseen_share(model, map_, X))


def _occupancy_of(design: Design, X: Any) -> Occupancy:
    """Sizes of the bins of a design that no row is missing from."""
    if X is not None:
        raise ValueError("X must be left out beside a design; the map or the estimator can bin it.")
    if not hasattr(design, "occupancy"):
        raise ValueError(f"model must be a design of random binning; got {design!r}.")
    if design.n_missing or not design.shape[0]:
        raise ValueError(
            "model must be the design of the rows its map was fitted to; got one of "
            f"{design.shape[0]} rows that lacks {design.n_missing} bins."
        )
    return design.occupancy()


def _unseen_share(model: Any, map_: RandomBinning, X: Any) -> float:
    if isinstance(model, FeatureModel):
        designs = map_.designs(model._checked(X), model._preprocessing.scaled)
    else:
        designs = map_.designs(matrix(X))
    counts = [(design.shape[0], design.n_missing) for _, design in designs]
    n_rows, n_missing = map(sum, zip(*counts, strict=True))
    return n_missing / (n_rows * map_.n_components)


def _at_least_one(value: ArrayLike, name: str) -> NDArray[np.float64]:
    try:
        numbers = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise TypeError(f"{name} must be an array of numbers; got {value!r}.") from error
    if not (np.all(np.isfinite(numbers)) and np.all(numbers >= 1)):
        raise ValueError(f"{name} must be at least 1 and finite; got {value!r}.")
    return numbers
