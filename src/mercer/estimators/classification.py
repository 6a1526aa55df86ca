"""Kernel classification."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin
from sklearn.callback import with_callbacks
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets

from mercer import losses
from mercer._state import State
from mercer._validation import float_type, name_from
from mercer.estimators.base import FeatureModel
from mercer.estimators.machine import KernelMachine
from mercer.estimators.preprocessing import Rows
from mercer.estimators.state import check_classes
from mercer.estimators.targets import class_weights, classification_loss, coded, signs, winners
from mercer.losses import Loss

__all__ = ["Classification", "KernelClassifier"]


class Classification(ClassifierMixin, FeatureModel):
    """Models of classes: a response for the second of two, else one for each."""

    class_weight: Any
    classes_: NDArray
    _loss_: Loss

    @with_callbacks
    def fit(self, X, y, sample_weight=None):
        """Fit the model.

        Parameters
        ----------
        X : array, data frame or CSR of shape (n_samples, n_features), or texts
        y : array of shape (n_samples,)
            Labels of any type that sorts.
        sample_weight : array of shape (n_samples,), default=None
            Non-negative; a weight of two is the same as a row given twice.

        Returns
        -------
        self
        """
        self._begin_fit()
        X, y = self._checked_pair(X, y)
        check_classification_targets(y)
        weights = class_weights(self.class_weight, sample_weight, X, y)
        self.classes_, labels = coded(y)
        target = self._encoded(labels, classification_loss(self.loss), float_type(X))
        self._target_mean_ = np.zeros(())
        self._fit(X, y, target, weights, self._loss_)
        return self

    def _encoded(self, labels: NDArray, loss: Loss, dtype: Any) -> NDArray:
        """Targets of the loss: ±1 in one column or one per class, or class indicators."""
        n_classes = len(self.classes_)
        if loss.joint and n_classes == 2:  # one response is enough
            loss = losses.get("logistic")
        self._loss_ = loss
        if loss.joint:
            return (labels[:, None] == np.arange(n_classes)).astype(dtype)
        return signs(labels, n_classes).astype(dtype)

    def _check_state(self) -> None:
        super()._check_state()
        State(self).instance("_loss_", Loss)
        check_classes(self, self.coef_.shape[:-1])

    def _strata(self, target: NDArray) -> NDArray:
        return winners(target)

    def decision_function(self, X):
        """Responses of the model: positive for the second of two classes, else one per class.

        Parameters
        ----------
        X : array, data frame or CSR of shape (n_samples, n_features), or texts

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_classes)
        """
        return self._responses(X)

    def predict(self, X):
        """Predicted labels: the class of the largest response, the first one of equal ones.

        Parameters
        ----------
        X : array, data frame or CSR of shape (n_samples, n_features), or texts

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        labels = winners(self._responses(X))
        return self.classes_[labels]

    def _has_proba(self) -> bool:
        loss = vars(self).get("_loss_", self.loss)
        return losses.get(loss).has_proba

    @available_if(_has_proba)
    def predict_proba(self, X):
        """Probabilities of the classes; only for losses that define them.

        The likeliest class is always the predicted one: one-against-all probabilities are scaled to
        sum to one, which keeps their order.

        Parameters
        ----------
        X : array, data frame or CSR of shape (n_samples, n_features), or texts

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
        """
        responses = self._responses(X)
        positive = self._loss_.proba(responses)
        if responses.ndim == 1:
            return np.column_stack([1 - positive, positive])
        total = positive.sum(axis=1, keepdims=True)
        # Where every one-vs-all probability underflows, the classes are equally likely.
        safe = np.where(total > 0, total, 1)
        return np.where(total > 0, positive / safe, 1 / positive.shape[1])


class KernelClassifier(Classification, KernelMachine):
    """Kernel classification through an explicit feature map.

    Solves ``min_w mean_i loss(y_i, w . z(x_i) + b) + alpha / 2 * ||w||^2`` where z is a feature map
    of the kernel, so that a fit costs what a linear model of that size costs. More than two classes
    are one response each: one against all others, or jointly with ``loss="multinomial"``.

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
    loss : str or a loss, default="squared"
        "squared", "logistic", "squared_hinge", "smooth_hinge", "multinomial", or "sigmoid", to
        which no row counts for more than 1 however wrong its label may be.
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
    class_weight : dict, "balanced" or None, default=None
        Weight of every class, multiplied into the sample weights.
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
    scoring : {"loss", "accuracy"}, default="loss"
        What choices are made by: the least mean loss on rows not seen, or the largest share of
        right labels, by their weights.
    validation_fraction : float, default=0.2
        Share of the rows held out, above 0 and below 1; every class has its share.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Sorted; columns of decision values and probabilities follow it.
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
        Only with ``alphas``, in their order: "alpha" and "score" (by ``scoring``, the largest of
        which decided); then, of the fit to all rows, "coef", "intercept", "n_iter", "converged",
        "optimality" and "seconds" until that solution was there.
    gamma_path_ : dict of arrays of shape (n_gammas,)
        Only with ``gamma_path``: "gamma", "score" of its best alpha, "n_features", "seconds" and,
        with ``alphas``, that "alpha".
    selection_ : {"holdout", "loo"}
        Only with one of them: how scores were found. They are minus the mean loss or, with
        ``scoring="accuracy"``, shares of right labels.
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
    >>> from mercer import KernelClassifier
    >>> X = np.random.default_rng(0).normal(size=(500, 2))
    >>> y = np.where(np.hypot(*X.T) < 1, "inside", "outside")
    >>> model = KernelClassifier(random_state=0).fit(X, y)
    >>> model.predict([[0.0, 0.0], [2.0, 2.0]]).tolist()
    ['inside', 'outside']
    """

    def __init__(
        self,
        feature_map="binning",
        *,
        kernel=None,
        gamma="scale",
        n_components=None,
        loss="squared",
        penalty="l2",
        alpha=None,
        l1_ratio=None,
        class_weight=None,
        solver="auto",
        fit_intercept=True,
        scale=True,
        tol=1e-2,
        max_iter=1000,
        n_jobs=None,
        random_state=None,
        warm_start=False,
        alphas=None,
        gamma_path=None,
        selection="auto",
        scoring="loss",
        validation_fraction=0.2,
    ):
        super().__init__(
            feature_map,
            kernel=kernel,
            gamma=gamma,
            n_components=n_components,
            loss=loss,
            penalty=penalty,
            alpha=alpha,
            l1_ratio=l1_ratio,
            solver=solver,
            fit_intercept=fit_intercept,
            scale=scale,
            tol=tol,
            max_iter=max_iter,
            n_jobs=n_jobs,
            random_state=random_state,
            warm_start=warm_start,
            alphas=alphas,
            gamma_path=gamma_path,
            selection=selection,
            validation_fraction=validation_fraction,
        )
        self.class_weight = class_weight
        self.scoring = scoring

    def _scoring(self) -> str:
        return name_from(self.scoring, ("loss", "accuracy"), "scoring")

    def _score(self, responses: NDArray, rows: Rows, loss: Loss) -> float:
        if self._scoring() == "loss":
            return super()._score(responses, rows, loss)
        right = winners(responses) == winners(rows.target)
        return float(np.average(right, weights=rows.weights))
