"""Kernel regression."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import MultiOutputMixin, RegressorMixin

from mercer._runtime.progress import with_callbacks
from mercer._runtime.state import State
from mercer._runtime.validation import flag, float_type
from mercer.estimators._documentation import MACHINES, documented
from mercer.estimators.base import FeatureModel
from mercer.estimators.inputs import check_weights
from mercer.estimators.machine import KernelMachine
from mercer.estimators.posterior import POSTERIOR, Posteriors
from mercer.estimators.targets import regression_loss
from mercer.losses import Loss

__all__ = ["KernelRegressor", "Regression", "refuse_out_of_range"]


class Regression(MultiOutputMixin, RegressorMixin, FeatureModel):
    """Models of numbers: the target is centred, unless responses are its logarithm."""

    _loss_: Loss

    @with_callbacks
    def fit(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Fit the model.

        Parameters
        ----------
        X : array, data frame or CSR of shape (n_samples, n_features), or texts
        y : array of shape (n_samples,) or (n_samples, n_outputs)
        sample_weight : array of shape (n_samples,), default=None
            Non-negative; a weight of two is the same as a row given twice.

        Returns
        -------
        self
        """
        self._begin_fit()
        X, y = self._checked_pair(X, y, multi_output=True, y_numeric=True)
        weights = check_weights(sample_weight, X)
        loss = regression_loss(self.loss)
        # Most losses of a regression depend on the residual alone: solving for the centred target
        # is the same problem, and a target far from zero keeps its digits in float32.
        target = np.asarray(y, dtype=np.float64)
        centre = self.fit_intercept and loss.link == "identity"
        with np.errstate(over="ignore", invalid="ignore"):
            mean = np.average(target, axis=0, weights=weights) if centre else 0.0
            centred = target - mean
            size = np.sum(np.square(centred))
            rounded = centred.astype(float_type(X))
        refuse_out_of_range(target, centred, float(size), rounded)
        if loss.link != "identity":
            loss.check_target(rounded)
        self._target_mean_, self._loss_ = np.asarray(mean), loss
        self._fit(X, y, rounded, weights, loss)
        return self

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """Predicted targets: means, or quantiles or expectiles with a loss of that name.

        Parameters
        ----------
        X : array, data frame or CSR of shape (n_samples, n_features), or texts
        return_std : bool, default=False
            True raises an error: only KernelRegressor and LocalKernelRegressor have standard
            deviations.

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_outputs)

        Raises
        ------
        ValueError
            With ``return_std``.

        Warns
        -----
        UserWarning
            If means of a loss with a log link exceed the range of floats; they become the largest
            float.
        """
        if flag(return_std, "return_std"):
            raise ValueError(
                "return_std=True needs a KernelRegressor or a LocalKernelRegressor; a "
                f"{type(self).__name__} has no standard deviations."
            )
        responses = self._responses(X)  # checks the fitted model before its loss is read
        loss = self._loss_
        predicted = loss.means(responses)
        if loss.link == "identity":
            return predicted
        beyond = np.isinf(predicted)
        if np.any(beyond):
            largest = np.finfo(predicted.dtype).max
            warnings.warn(
                f"{np.count_nonzero(beyond)} of {predicted.size} predicted means are beyond the "
                f"range of {predicted.dtype}, and {largest:.2g} stands for them: their rows are "
                "far from those of the fit, or alpha is too small.",
                UserWarning,
                stacklevel=2,
            )
            predicted[beyond] = largest
        return predicted

    def _check_state(self) -> None:
        super()._check_state()
        State(self).instance("_loss_", Loss)


def refuse_out_of_range(target: NDArray, centred: NDArray, size: float, rounded: NDArray) -> None:
    """Refuse targets whose squares or roundings leave the range of their type.

    ``size`` is the sum of squares of centred targets, ``rounded`` these in the type of X. The
    least and the largest targets may stand for all.
    """
    if not np.isfinite(size):
        raise ValueError(
            "y must have finite sums of squares in float64; its largest value is "
            f"{np.abs(target).max():.3g}."
        )
    if size < np.finfo(np.float64).tiny and np.any(centred):
        raise ValueError(
            "y must have sums of squares above 0 in float64; its largest difference from a "
            f"constant is {np.abs(centred).max():.3g}."
        )
    if not np.all(np.isfinite(rounded)):
        raise ValueError(
            f"y must be within the range of {rounded.dtype}, the type of X; its largest value "
            f"is {np.abs(target).max():.3g}."
        )


@documented(MACHINES | POSTERIOR)
@dataclass(eq=False, repr=False, kw_only=True)
class KernelRegressor(Posteriors, Regression, KernelMachine):
    """Kernel regression through an explicit feature map.

    Solves ``min_w mean_i loss(y_i, w . z(x_i) + b) + alpha / 2 * ||w||^2`` where z is a feature map
    of the kernel, so that a fit costs what a linear model of that size costs.

    Parameters
    ----------
    {feature_map, kernel, gamma, n_components, loss, penalty, alpha, l1_ratio, solver}
    {fit_intercept, scale, tol, max_iter, n_jobs, random_state, warm_start, alphas, gamma_path}
    {selection}
    validation_fraction : float, default=0.2
        Share of the rows held out for ``selection="holdout"``, above 0 and below 1.
    {device}
    posterior : bool, default=False
        Whether maps other than "exact" store the state of ``predict(X, return_std=True)``: the
        D x D float64 products of their D features, for which the fit reads the rows three more
        times, or the rows if there are fewer than D. "exact" always stores its rows and factors
        their matrix at first use. For the squared loss with "l2".

    Attributes
    ----------
    {feature_map_, scaler_, map_coef_, coef_, intercept_, solver_, n_iter_, converged_}
    {optimality_, trace_, alpha_, device_}
    path_ : dict of arrays of shape (n_alphas, ...)
        One entry per strength, in the order of ``alphas``, only if that is given: "alpha" and
        "score" (minus the mean loss on ``selection_``; the largest wins), and for the fit to all
        rows "coef", "intercept", "n_iter", "converged", "optimality" and "seconds" (time until
        that solution).
    {gamma_path_}
    selection_ : {"holdout", "loo"}
        Rows on which ``alphas`` or ``gamma_path`` were scored, only if one of them is given.
    {noise_std_, prior_std_, n_features_in_}

    Raises
    ------
    {ValueError, MemoryError, KeyboardInterrupt}

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import KernelRegressor
    >>> X = np.random.default_rng(0).uniform(-3, 3, size=(500, 2))
    >>> model = KernelRegressor(random_state=0).fit(X, np.sin(X).sum(axis=1))
    >>> model.score(X, np.sin(X).sum(axis=1)) > 0.9
    True
    >>> exact = KernelRegressor("exact").fit(X, np.sin(X).sum(axis=1))
    >>> mean, std = exact.predict([[0.0, 0.0], [9.0, 9.0]], return_std=True)
    >>> bool(std[1] > std[0])  # far from all rows
    True
    """

    posterior: bool = False
