"""Kernel regression."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sklearn.base import MultiOutputMixin, RegressorMixin

from mercer._runtime.validation import flag
from mercer.estimators._documentation import MACHINES, documented
from mercer.estimators.base import FeatureModel
from mercer.estimators.machine import KernelMachine
from mercer.estimators.posterior import POSTERIOR, Posteriors
from mercer.estimators.sums import InBatches
from mercer.estimators.targets import NumericTarget

__all__ = ["KernelRegressor", "Regression"]


class Regression(MultiOutputMixin, RegressorMixin, FeatureModel):
    """Models whose y are numbers."""

    _target_kind = NumericTarget

    def predict(
        self, X: Any, return_std: bool = False, return_cov: bool = False, offset: Any = None
    ) -> Any:
        """Predicted targets: means, or quantiles or expectiles with a loss of that name.

        Parameters
        ----------
        X : array, data frame or CSR of shape (n_samples, n_features), or texts
        return_std, return_cov : bool, default=False
            True raises an error: only KernelRegressor and LocalKernelRegressor have standard
            deviations, and only KernelRegressor has covariances.
        offset : array of shape (n_samples,) or float, default=None
            Known parts of the responses. A model that was fitted with an offset needs it; 0
            predicts without them.

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_outputs)

        Raises
        ------
        ValueError
            With ``return_std`` or ``return_cov``.

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
        if flag(return_cov, "return_cov"):
            raise ValueError(
                "return_cov=True needs a KernelRegressor; a "
                f"{type(self).__name__} has no covariances."
            )
        responses = self._responses_with(X, offset)  # first: it refuses an unfitted model
        return self._target.predictions(responses)

    def score(self, X: Any, y: Any, sample_weight: Any = None, offset: Any = None) -> float:
        """R2 of the predictions.

        Parameters
        ----------
        X : array, data frame or CSR of shape (n_samples, n_features), or texts
        y : array of shape (n_samples,) or (n_samples, n_outputs)
        sample_weight : array of shape (n_samples,), default=None
        offset : array of shape (n_samples,), default=None
            As for ``predict``.

        Returns
        -------
        float
            At most 1; the mean over outputs.
        """
        from sklearn.metrics import r2_score  # late: predictions of a file need no metrics

        predicted = self.predict(X, offset=offset)
        return float(r2_score(y, predicted, sample_weight=sample_weight))


@documented(MACHINES | POSTERIOR)
@dataclass(eq=False, repr=False, kw_only=True)
class KernelRegressor(InBatches, Posteriors, Regression, KernelMachine):
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
        Whether maps other than "exact" store the state of ``predict(X, return_std=True)``,
        ``return_cov=True`` and ``sample_y``: the D x D float64 products of their D features, for
        which the fit reads the rows three more times, or the rows if there are fewer than D.
        "exact" always stores its rows and factors their matrix at first use. For the squared loss
        with "l2".

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
    evidence_ : float
        Log marginal likelihood of the targets at the chosen factors and ``alpha_``, summed over
        outputs, only with ``selection="evidence"``; of 2000 rows if there are more, and infinite
        for constant targets.
    {left_out_error_, noise_std_, prior_std_, n_features_in_}

    Raises
    ------
    {ValueError, MemoryError, KeyboardInterrupt}

    Notes
    -----
    ``selection="evidence"`` maximises the marginal likelihood of the targets under the Gaussian
    process of ``predict``, and ``selection="leave-one-out"`` minimises the mean squared error of
    rows left out one by one, over one factor of the distance per input and over ``alpha``, by the
    gradient, from ``gamma`` and ``alpha`` on. The factors are ``feature_map_.kernel_.gamma``; those
    of irrelevant inputs are near 0. First, two random halves of the rows predict each other, each
    with its own choice: unless one factor per input gives the higher log density, or the smaller
    error, a single factor multiplies ``gamma``. This prevents overfitting with many inputs or
    heavy-tailed targets.

    Both need the squared loss, the penalty "l2" and the kernel "gaussian", "laplacian",
    "exponential", "matern", "rational_quadratic" or an isotropic Cauchy. A weight divides the noise
    variance of its row and multiplies its squared error. Every map of that kernel may approximate
    the model; the choice itself is by the kernel of at most 2000 rows, drawn by ``random_state``
    from more, on the processor in float64. It takes about as long as 100 solutions of the exact
    kernel of these rows, some 30 seconds for 2000 rows on one core, and an interruption of it
    leaves no model.

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

    The marginal likelihood gives an irrelevant input a small factor:

    >>> process = KernelRegressor("exact", selection="evidence", random_state=0)
    >>> process = process.fit(X, np.sin(2 * X[:, 0]))
    >>> first, second = process.feature_map_.kernel_.gamma
    >>> bool(first > 1000 * second)
    True
    """

    posterior: bool = False
