"""Targets that vary by factors: fitted as logarithms, predicted as means."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, RegressorMixin, clone

from mercer._runtime.arrays import row_chunks
from mercer._runtime.rows import recoded
from mercer._runtime.state import Checked, State, is_finite
from mercer.auto.means import answer

__all__ = ["LogShift", "LogTargetRegressor", "log_shift", "smeared"]

_PART = 0.1  # of the quartile range, added before the logarithm is taken
_LEVELS = 25  # quantiles that stand for the law of the residuals
_CACHED = 2**19  # bytes of responses, each with all residuals, that are turned back together


@dataclass(frozen=True)
class LogShift:
    """sign(y - centre) log(1 + |y - centre| / unit), and back, no further than low and high."""

    centre: float
    unit: float
    low: float
    high: float

    def forward(self, y: NDArray) -> NDArray:
        """Targets as logarithms."""
        return np.sign(y - self.centre) * np.log1p(np.abs(y - self.centre) / self.unit)

    def backward(self, t: NDArray) -> NDArray:
        """Targets of logarithms, clipped to the range of the fit."""
        reach = np.log1p(max(self.high - self.centre, self.centre - self.low) / self.unit)
        return np.clip(self.unbounded(np.clip(t, -reach, reach)), self.low, self.high)

    def unbounded(self, t: NDArray) -> NDArray:
        """Logarithms as targets, however far."""
        with np.errstate(over="ignore"):
            size = self.unit * (np.exp(np.abs(t)) - 1.0)  # a fifth of the time of np.expm1
            return self.centre + np.copysign(size, t)


def log_shift(y: NDArray) -> LogShift:
    """Shift of the log transform: the least value of non-negative targets, else the median."""
    first, middle, third = np.quantile(y, [0.25, 0.5, 0.75])
    low, high = float(y.min()), float(y.max())
    centre = low if low >= 0 else float(middle)
    unit = _PART * (third - first) or float(np.mean(np.abs(y - middle))) or 1.0
    return LogShift(centre, float(unit), low, high)


def smeared(shift: LogShift, responses: NDArray, residuals: NDArray) -> NDArray:
    """Mean targets of responses that are off by any of the residuals alike (Duan 1983)."""
    levels = (np.arange(_LEVELS) + 0.5) / _LEVELS
    quantiles = np.quantile(residuals, levels)
    means = np.empty(responses.shape)
    for rows in row_chunks(len(responses), 16.0 * _LEVELS, _CACHED):
        means[rows] = shift.backward(np.add.outer(quantiles, responses[rows])).mean(axis=0)
    return means


def evened(values: NDArray, weights: NDArray | None) -> NDArray:
    """Equally weighted values at even quantiles, as many as the weights are worth (Kish 1965)."""
    if weights is None or not len(values):
        return values
    n_even = max(1, round(float(weights.sum() ** 2 / np.square(weights).sum())))
    order = np.argsort(values, axis=0, kind="stable")
    shares = np.cumsum(weights[order], axis=0) / weights.sum()
    levels = np.arange(1, n_even + 1) / n_even - 1e-9
    columns = zip(_columns(shares), _columns(np.take_along_axis(values, order, 0)), strict=True)
    even = [ranked[np.searchsorted(share, levels)] for share, ranked in columns]
    return np.stack(even, axis=-1).reshape(n_even, *values.shape[1:])


def _columns(values: NDArray) -> NDArray:
    return values.reshape(len(values), -1).T


class LogTargetRegressor(Checked, RegressorMixin, BaseEstimator):
    """Regressor fitted to the logarithm of the target, which predicts means of the target.

    The regressor is fitted to ``sign(y - c) log(1 + |y - c| / u)``. A prediction is the mean of the
    inverse transform over the distribution of the residuals (smearing), clipped to the range of the
    training targets.

    Parameters
    ----------
    regressor : regressor
        Regressor of the logarithms; a clone of it is fitted.
    residuals : array of shape (m,)
        Errors of such a regressor on held-out rows, in logarithms.

    Attributes
    ----------
    regressor_ : regressor
    shift_ : LogShift

    References
    ----------
    Duan, Smearing estimate: a nonparametric retransformation method, JASA 1983.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import KernelRegressor
    >>> from mercer.auto import LogTargetRegressor
    >>> X = np.linspace(0, 5, 200)[:, None]
    >>> model = LogTargetRegressor(KernelRegressor(random_state=0), [-0.1, 0.1])
    >>> bool(model.fit(X, np.exp(X[:, 0])).predict([[4.0]])[0] > 40)
    True
    """

    _fitted_by: ClassVar[str] = "regressor_"
    _kept_settings: ClassVar[tuple[str, ...]] = ("residuals",)
    _residuals_: Any

    def __init__(self, regressor, residuals):
        self.regressor = regressor
        self.residuals = residuals

    def fit(self, X: Any, y: Any, **fit_params: Any) -> Self:
        """Fit the regressor to the logarithms.

        Parameters
        ----------
        X : whatever the regressor takes, of n rows
        y : array of shape (n,)
        **fit_params
            Passed to the regressor's ``fit``.

        Returns
        -------
        self
        """
        return self._fit_by(lambda regressor, X, y: regressor.fit(X, y, **fit_params), X, y)

    def _fit_by(self, fit: Callable[[Any, Any, NDArray], Any], X: Any, y: Any) -> Self:
        """Fit a clone of the regressor to the logarithms by a function; see ``fit``."""
        self._forget()
        y = np.asarray(y, dtype=np.float64)
        self.shift_ = log_shift(y)
        self.regressor_ = clone(self.regressor)
        forward = self.shift_.forward
        fit(self.regressor_, recoded(X, forward), forward(y))
        return self

    def predict(self, X: Any) -> NDArray:
        """Mean targets.

        Parameters
        ----------
        X : whatever the regressor takes, of n rows

        Returns
        -------
        ndarray of shape (n,)
        """
        self._check_fitted()
        return smeared(
            self.shift_, answer(self.regressor_, "predict", X), np.asarray(self._residuals_)
        )

    def _check_state(self) -> None:
        state = State(self)
        shift = State(state.instance("shift_", LogShift))
        for name in ("centre", "low", "high"):
            shift.number(name)
        shift.check("unit", "be positive", shift.number("unit") > 0)
        shift.check("high", "be at least low", self.shift_.low <= self.shift_.high)
        residuals = np.asarray(state.value("_residuals_"))
        are_numbers = residuals.ndim == 1 and residuals.size and residuals.dtype.kind in "fiu"
        state.check("_residuals_", "be finite numbers", are_numbers and is_finite(residuals))
