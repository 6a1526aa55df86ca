"""Kernel regression."""

from __future__ import annotations

import numpy as np
from sklearn.base import MultiOutputMixin, RegressorMixin
from sklearn.callback import with_callbacks

from mercer._validation import float_type
from mercer.estimators.base import FeatureModel
from mercer.estimators.inputs import check_weights
from mercer.estimators.machine import KernelMachine
from mercer.estimators.targets import regression_loss

__all__ = ["KernelRegressor", "Regression"]


class Regression(MultiOutputMixin, RegressorMixin, FeatureModel):
    """Models of numbers: the target is centred."""

    @with_callbacks
    def fit(self, X, y, sample_weight=None):
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
        # Losses of a regression depend on the residual alone: solving for the centred target is the
        # same problem, and a target far from zero keeps its digits in float32.
        target = np.asarray(y, dtype=np.float64)
        with np.errstate(over="ignore", invalid="ignore"):
            mean = np.average(target, axis=0, weights=weights) if self.fit_intercept else 0.0
            centred = target - mean
            size = np.sum(np.square(centred))
            rounded = centred.astype(float_type(X))
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
        self._target_mean_ = np.asarray(mean)
        self._fit(X, y, rounded, weights, regression_loss(self.loss))
        return self

    def predict(self, X):
        """Predicted targets.

        Parameters
        ----------
        X : array, data frame or CSR of shape (n_samples, n_features), or texts

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_outputs)
        """
        return self._responses(X)


class KernelRegressor(Regression, KernelMachine):
    """Kernel regression through an explicit feature map.

    Solves ``min_w mean_i loss(y_i, w . z(x_i) + b) + alpha / 2 * ||w||^2`` where z is a feature map
    of the kernel, so that a fit costs what a linear model of that size costs.

    Parameters
    ----------
    feature_map : str or map, default="binning"
        What turns inputs into features: "binning", "fourier", "nystroem", "linear" or another name
        of :func:`mercer.maps.get`. A map object brings its own settings, reached as
        ``feature_map__gamma`` and so on. Maps of texts, such as "ngrams", take sequences of strings
        instead of numbers. "exact" approximates nothing: the model is a sum of kernels at all rows,
        and the squared norm of that function takes the place of ``||w||^2``; so it does with
        ``Nystroem(whiten=False)``. Whitening is left out by itself where it would cost too much,
        from 5000 landmarks on; the model is the same.
    kernel : str, kernel or None, default=None
        Kernel of a map given by name: "gaussian", "laplacian", "exponential", "cauchy", "smooth" or
        an object of :mod:`mercer.kernels`. None takes the map's own.
    gamma : float, array of shape (n_features,), "scale" or "median", default="scale"
        Scale of that kernel, > 0. "scale" and "median" follow the scaled inputs.
    n_components : int or None, default=None
        Grids, frequencies or landmarks of that map, >= 1; None takes the map's own default.
    loss : "squared", "huber", "correntropy" or a loss, default="squared"
        With "correntropy" targets that are far off count for nothing; its ``sigma`` of 1 is in
        units of y, see ``losses.Correntropy``.
    penalty : "l2", "l1", "elastic-net" or a penalty, default="l2"
        What is added to the mean loss: ``alpha / 2 * ||w||^2``, or ``alpha * ||w||_1``, which
        leaves most weights at exactly zero, or a mixture. A penalty object brings its own alpha,
        and ``penalties.L2`` means ``||w||^2`` itself even where features are the kernel at rows.
    alpha : float or None, default=None
        Strength of the penalty, >= 0. None means ``0.3 / n_samples`` (with weights, their sum
        instead of n_samples) for "l2", else a hundredth of the least strength at which no weight
        is left.
    l1_ratio : float or None, default=None
        Share r of ``||w||_1`` in the mixture ``alpha * (r * ||w||_1 + (1 - r) / 2 * ||w||^2)``,
        from 0 to 1; None means one half. For "elastic-net" alone.
    solver : "auto", "cholesky", "cg", "block", "newton-cg", "cd", "async" or a solver, \
default="auto"
        "auto" chooses by sizes, loss and memory; ``solver_`` tells which. A solver object brings
        its own settings, such as the ``checkpoint`` folder of ``solvers.BlockCoordinateDescent``.
    fit_intercept : bool, default=True
        Whether the model has a constant term; it is not penalised.
    scale : bool, default=True
        Whether inputs are brought to one scale first: zero mean and unit variance, or a largest
        absolute value of one for sparse inputs. ``scaler_`` records it and prediction applies it.
    tol : float, default=1e-2
        Size of the gradient, relative to that of a constant model, at which an iterative solver
        stops. Smaller values rarely change predictions by more than their noise.
    max_iter : int, default=1000
        Iterations after which it stops with a ``ConvergenceWarning``.
    n_jobs : int or None, default=None
        Threads of the map and its products; None and -1 mean all that this process may use. Linear
        algebra runs on the threads of its own library. Results do not depend on either beyond
        rounding.
    random_state : int, RandomState, Generator or None, default=None
        Seed of the map.
    warm_start : bool, default=False
        Whether the next fit keeps the scaler and the map and starts from the coefficients of the
        last one, provided the settings of the map are unchanged; a gamma chosen from ``gamma_path``
        is kept, too.
    alphas : array of shape (n_alphas,) or None, default=None
        Strengths of the penalty to choose from, > 0; ``alpha`` is then left out. They share what
        they can: the features, and with the solvers of linear equations every block, Gram matrix or
        product. ``path_`` keeps the solutions, ``at_alpha`` makes models of them.
    gamma_path : array of shape (n_gammas,) or None, default=None
        Values to choose gamma from, > 0, for the scaled inputs; ``gamma`` is then left out. Each is
        tried on the same rows with the same random numbers, which are drawn once, and the best one,
        with the best of ``alphas`` if there are any, is fitted to all rows.
    selection : {"auto", "holdout", "loo"}, default="auto"
        By which rows alphas and gammas are judged. "holdout": a part that is held out. "loo": every
        row by the model without it, in closed form, for the squared loss with "l2" and at most some
        thousand rows or features. "auto" is "loo" for ``alphas`` where that is cheap.
    validation_fraction : float, default=0.2
        Share of the rows held out, above 0 and below 1.

    Attributes
    ----------
    feature_map_ : map
        As fitted; its ``gamma`` is a number.
    scaler_ : transformer or None
    coef_ : ndarray of shape (D,) or (n_outputs, D)
    intercept_ : float or ndarray of shape (n_outputs,)
    solver_ : str
        Name of the solver that was used.
    n_iter_ : int
    converged_ : bool
    optimality_ : float
        Relative size of the gradient at the solution.
    trace_ : list of TraceRow
        Seconds, objective and optimality at the start and after each iteration.
    alpha_ : float
        Strength of the penalty.
    path_ : dict of arrays of shape (n_alphas, ...)
        Only with ``alphas``, in their order: "alpha" and "score" (the largest of which
        decided); then, of the fit to all rows, "coef", "intercept", "n_iter", "converged",
        "optimality" and "seconds" until that solution was there.
    gamma_path_ : dict of arrays of shape (n_gammas,)
        Only with ``gamma_path``: "gamma", "score" of its best alpha, "n_features", "seconds" and,
        with ``alphas``, that "alpha".
    selection_ : {"holdout", "loo"}
        Only with one of them: how scores were found. They are minus the mean loss.
    n_features_in_ : int

    Raises
    ------
    ValueError, TypeError
        At fit, in one sentence, for settings or data that make no sense.
    MemoryError
        Before anything is allocated, if the features would not fit.
    KeyboardInterrupt
        Passed on after an interruption; the last iterate is in place and can predict.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import KernelRegressor
    >>> X = np.random.default_rng(0).uniform(-3, 3, size=(500, 2))
    >>> model = KernelRegressor(random_state=0).fit(X, np.sin(X).sum(axis=1))
    >>> model.score(X, np.sin(X).sum(axis=1)) > 0.9
    True
    """
