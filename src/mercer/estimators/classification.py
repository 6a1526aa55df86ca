"""Kernel classification."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from types import MethodType
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin, clone

from mercer import losses
from mercer._runtime.array_api import of_any_kind
from mercer._runtime.device_arrays import on_host
from mercer._runtime.messages import shown
from mercer._runtime.state import State
from mercer._runtime.validation import is_name
from mercer.estimators._documentation import MACHINES, documented
from mercer.estimators.base import FeatureModel
from mercer.estimators.machine import KernelMachine
from mercer.estimators.probabilities import LabelProbabilities, check_probabilities
from mercer.estimators.selection import CRITERIA
from mercer.estimators.state import check_classes
from mercer.estimators.sums import InBatches, OfBatches
from mercer.estimators.targets import ClassTarget, Target
from mercer.maps import ExactKernel
from mercer.solvers import BlockCoordinateDescent

__all__ = ["Classification", "KernelClassifier"]


class _Calibrated:
    """A method that needs probabilities; its AttributeError gives the remedy, not absence."""

    def __init__(self, method: Callable[..., NDArray]):
        self._method = of_any_kind(method)
        self.__doc__ = method.__doc__

    def __get__(self, model: Any, owner: type) -> Callable[..., NDArray]:
        if model is None:
            return self._method
        fitted = vars(model)
        try:
            has_proba = losses.get(fitted.get("_loss_", model.loss)).has_proba
        except (TypeError, ValueError) as error:
            raise AttributeError(str(error)) from None
        name = self._method.__name__
        if not (has_proba or model._calibrates):
            known = ", ".join(repr(name) for name, loss in losses.LOSSES.items() if loss.has_proba)
            raise AttributeError(
                f"{name} over many machines needs a loss that defines probabilities, {known}; "
                f"got loss={shown(model.loss)}."
            )
        is_fitted = not fitted.keys().isdisjoint(("map_coef_", "_sums_"))
        if is_fitted and not (has_proba or "_probabilities_" in fitted):
            raise AttributeError(
                f"{name} needs a calibration, which fit makes in one process; this model comes "
                "from partial_fit, at_alpha or many machines: fit it again."
            )
        return MethodType(self._method, model)


class Classification(ClassifierMixin, FeatureModel):
    """Models whose y are labels."""

    class_weight: Any
    classes_: NDArray
    # Map of responses of losses that define no probabilities, or a list of a map per label; absent
    # where the fit makes no calibration.
    _probabilities_: Any
    _calibrates: ClassVar[bool] = True
    _values_: NDArray  # 0 and 1 in the type of y, of models of several labels per row alone
    _takes_indicators: ClassVar[bool] = False  # whether y may have several columns of 0 and 1
    _target_kind = ClassTarget

    def _to_calibrate(self, label: int | None = None) -> Self:
        """An unfitted copy with the strength and the map that the fit has chosen, of one label."""
        copy, alpha = clone(self), vars(self).get("alpha_")
        if isinstance(alpha, np.ndarray):
            alpha = float(alpha[label])
        for name in ("classes_", "_loss_", "_target_mean_", "n_features_in_"):
            if name in vars(self):  # texts have no n_features_in_
                setattr(copy, name, getattr(self, name))
        if label is not None:
            copy.classes_ = self._values_
        settings = self.get_params(deep=False)
        chosen: dict[str, Any] = {}
        if is_name(settings.get("feature_map"), "auto"):
            is_exact = isinstance(self.feature_map_, ExactKernel)
            chosen["feature_map"] = "exact" if is_exact else "binning"
        if "warm_start" in settings:
            chosen["warm_start"] = False
        if settings.get("alphas") is not None:
            chosen |= {"alphas": None, "alpha": alpha}
        if is_name(settings.get("alpha"), "cv"):
            chosen["alpha"] = alpha
        by_criterion = bool(vars(self).keys() & set(CRITERIA.values()))
        if by_criterion:
            chosen |= {"selection": "auto", "alpha": alpha}
        if by_criterion or settings.get("gamma_path") is not None:
            chosen |= {"gamma_path": None, "feature_map": clone(self.feature_map_)}
            chosen |= {"kernel": None, "gamma": "scale", "n_components": None}
            chosen |= {"random_state": None, "n_jobs": None}  # those of the map
        if isinstance(settings.get("solver"), BlockCoordinateDescent):
            chosen["solver"] = replace(settings["solver"], checkpoint=None)  # of the fit to all
        return copy.set_params(**chosen)

    def _known_classes(self, y: NDArray, classes: Any, first: bool) -> ClassTarget:
        """The target of a batch of labels y, of the classes that the first call has named."""
        known = np.unique(y if classes is None else classes) if first else self.classes_
        if len(known) < 2:
            raise ValueError(
                "classes must name all labels that will come where the first rows do not have "
                f"them; got {known.tolist()!r}."
            )
        if classes is not None and not np.array_equal(np.unique(classes), known):
            raise ValueError(
                f"classes must be those of the first call, {known.tolist()!r}; got "
                f"{np.unique(classes).tolist()!r}."
            )
        strange = known[np.minimum(np.searchsorted(known, y), len(known) - 1)] != y
        if np.any(strange):
            raise ValueError(
                f"y must hold no labels but {known.tolist()!r}; got {np.asarray(y)[strange][0]!r}."
            )
        return ClassTarget.of_classes(self, known)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = tags.classifier_tags.multi_label = self._takes_indicators
        return tags

    @property
    def _has_several_labels(self) -> bool:
        return "_values_" in vars(self)

    def _check_state(self) -> None:
        super()._check_state()
        check_classes(self, self.map_coef_.shape[:-1])
        if "_probabilities_" in vars(self):  # absent after partial_fit or at_alpha
            count = len(self.classes_) if self._has_several_labels else None
            check_probabilities(self, "_probabilities_", count)
        if self._has_several_labels:
            State(self).check("_values_", "be 0 and 1", np.array_equal(self._values_, [0, 1]))

    def decision_function(self, X: Any, offset: Any = None) -> NDArray:
        """Responses: positive for the second of two classes, else one per class or per label.

        Parameters
        ----------
        X : array, data frame or CSR of shape (n_samples, n_features), or texts
        offset : array of shape (n_samples,) or float, default=None
            Known parts of the responses. A model that was fitted with an offset needs it; 0
            predicts without them.

        Returns
        -------
        ndarray of shape (n_samples,), (n_samples, n_classes) or (n_samples, n_labels)
        """
        return self._responses_with(X, offset)

    def predict(self, X: Any, offset: Any = None) -> NDArray:
        """Predicted labels: the class of the largest response; ties go to the first class.

        Of several labels per row, the indicators: 1 for responses above 0.

        Parameters
        ----------
        X : array, data frame or CSR of shape (n_samples, n_features), or texts
        offset : array of shape (n_samples,) or float, default=None
            Known parts of the responses. A model that was fitted with an offset needs it; 0
            predicts without them.

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_labels)
        """
        responses = self._responses_with(X, offset)  # first: it refuses an unfitted model
        return self._target.predictions(responses)

    @_Calibrated
    def predict_proba(self, X: Any, offset: Any = None) -> NDArray:
        """Probabilities of the classes.

        The losses "logistic" and "multinomial" define them. Responses of other losses are
        calibrated: ``fit`` fits a copy of the model to one half of the rows, at most 100 000, and
        chooses the map from responses to probabilities that suits the other half best. The
        likeliest class is always the predicted one. Several labels per row are calibrated one by
        one.

        Parameters
        ----------
        X : array, data frame or CSR of shape (n_samples, n_features), or texts
        offset : array of shape (n_samples,) or float, default=None
            Known parts of the responses. A model that was fitted with an offset needs it; 0
            predicts without them.

        Returns
        -------
        ndarray of shape (n_samples, n_classes) or (n_samples, n_labels)
            Of several labels per row, the probability that each label is 1, as by scikit-learn's
            MLPClassifier and OneVsRestClassifier.
        """
        responses = self._responses_with(X, offset)  # of a model that is fitted
        if self._has_several_labels:
            return self._probabilities_of_labels(responses)
        if not self._loss_.has_proba:
            return self._probabilities_(on_host(responses))
        positive = self._loss_.proba(responses)
        if responses.ndim == 1:
            return np.stack([1 - positive, positive], axis=1)
        total = positive.sum(axis=1, keepdims=True)
        # Where every one-vs-all probability underflows, the classes are equally likely.
        safe = np.where(total > 0, total, 1)
        return np.where(total > 0, positive / safe, 1 / positive.shape[1])

    def _probabilities_of_labels(self, responses: NDArray) -> NDArray:
        """Probabilities (n, L) that labels are 1, by a response for each."""
        if self._loss_.has_proba:
            return self._loss_.proba(responses)
        return LabelProbabilities(self._probabilities_)(on_host(responses))

    def score(self, X: Any, y: Any, sample_weight: Any = None, offset: Any = None) -> float:
        """Share of the rows whose label is predicted.

        Parameters
        ----------
        X : array, data frame or CSR of shape (n_samples, n_features), or texts
        y : array of shape (n_samples,)
        sample_weight : array of shape (n_samples,), default=None
        offset : array of shape (n_samples,), default=None
            As for ``predict``.

        Returns
        -------
        float
        """
        from sklearn.metrics import accuracy_score  # late: predictions of a file need no metrics

        predicted = self.predict(X, offset=offset)
        return float(accuracy_score(y, predicted, sample_weight=sample_weight))


@documented(MACHINES)
@dataclass(eq=False, repr=False, kw_only=True)
class KernelClassifier(InBatches, Classification, KernelMachine):
    """Kernel classification through an explicit feature map.

    Solves ``min_w mean_i loss(y_i, w . z(x_i) + b) + alpha / 2 * ||w||^2`` where z is a feature map
    of the kernel, so that a fit costs what a linear model of that size costs. More than two classes
    are one response each: one against all others, or jointly with ``loss="multinomial"``.

    Rows may have several labels: y of shape (n_samples, n_labels) holds 0 and 1. One fit serves all
    labels, with one factor of the squared loss, and equals a fit to each label except that labels
    share held-out rows, gamma and the stopping test of an iterative solver. ``score`` is the share
    of rows whose labels are all right. ``class_weight`` and :mod:`mercer.dask` take one label per
    row only.

    Parameters
    ----------
    {feature_map, kernel, gamma, n_components}
    loss : str or a loss, default="squared"
        "squared", "logistic", "hinge", "squared_hinge", "smooth_hinge", "multinomial" or "sigmoid".
        "hinge" is that of support vector machines, with about ``1 / (n_samples * alpha)`` for C.
        The sigmoid loss of a row is at most 1, so that wrong labels have little effect.
    {penalty, alpha, l1_ratio, solver, fit_intercept, scale, tol, max_iter, n_jobs, random_state}
    {warm_start, alphas, gamma_path, selection}
    validation_fraction : float, default=0.2
        Share of the rows of each class held out for ``selection="holdout"``, above 0 and below 1.
    {device, class_weight}
    scoring : {"loss", "accuracy"}, default="loss"
        Criterion for ``alphas`` and ``gamma_path`` on rows left out of the fit: the least mean
        loss, or the largest weighted share of correct labels.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,) or (n_labels,)
        Class labels, sorted: the order of the columns of responses and probabilities. Of several
        labels per row, the numbers of the columns of y, from 0 on, as by scikit-learn's
        MLPClassifier. Scorers of scikit-learn by probabilities or responses, such as "roc_auc",
        then need three labels or more.
    {feature_map_, scaler_, map_coef_, coef_, intercept_, solver_, n_iter_, converged_}
    {optimality_, trace_}
    alpha_ : float or ndarray of shape (n_labels,)
        Strength of the penalty of the fit; an array if ``alphas`` are given and rows have several
        labels, each with its own strength.
    {device_}
    path_ : dict of arrays of shape (n_alphas, ...)
        One entry per strength, in the order of ``alphas``, only if that is given: "alpha" and
        "score" (minus the mean loss on ``selection_`` or, with ``scoring="accuracy"``, the share
        of correct labels; the largest wins; an array of shape (n_alphas, n_labels) if rows have
        several labels), and for the fit to all rows "coef", "intercept",
        "n_iter", "converged", "optimality" and "seconds" (time until that solution).
    {gamma_path_}
    selection_ : {"holdout", "loo"}
        Rows on which ``alphas`` or ``gamma_path`` were scored, only if one of them is given.
    {left_out_error_, n_features_in_}

    Raises
    ------
    {ValueError, MemoryError, KeyboardInterrupt}

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import KernelClassifier
    >>> X = np.random.default_rng(0).normal(size=(500, 2))
    >>> y = np.where(np.hypot(*X.T) < 1, "inside", "outside")
    >>> model = KernelClassifier(random_state=0).fit(X, y)
    >>> model.predict([[0.0, 0.0], [2.0, 2.0]]).tolist()
    ['inside', 'outside']

    Several labels per row:

    >>> labels = np.column_stack([X[:, 0] > 0, X[:, 1] > 0]).astype(int)
    >>> model = KernelClassifier(random_state=0).fit(X, labels)
    >>> model.predict([[1.0, 1.0], [1.0, -1.0]]).tolist()
    [[1, 1], [1, 0]]
    >>> model.predict_proba([[1.0, 1.0], [1.0, -1.0]]).shape
    (2, 2)
    """

    class_weight: dict[Any, float] | str | None = None
    scoring: str = "loss"

    _takes_indicators: ClassVar[bool] = True

    @OfBatches
    def partial_fit(
        self,
        X: Any,
        y: ArrayLike,
        classes: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Add rows to the model, which then equals a fit to all rows so far.

        As ``partial_fit`` of :class:`mercer.KernelRegressor`: the model keeps sums over rows of
        products of their features, and the scaler, the map, ``gamma="scale"`` and the landmarks of
        the first batch. Probabilities need a calibration, which only ``fit`` makes.

        Parameters
        ----------
        X : array, data frame or CSR of shape (n_samples, n_features), or texts
            New rows. The first batch determines scales, gamma and landmarks.
        y : array of shape (n_samples,)
        classes : array of shape (n_classes,), default=None
            All labels of all calls; the first call needs them.
        sample_weight : array of shape (n_samples,), default=None
            Weight per row, >= 0; the default is 1.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If a setting, ``classes`` or the data are invalid, or the model comes from ``fit``. The
            loss must be "squared", the penalty "l2" and the solver "auto" or "cholesky", without
            ``alphas``, ``gamma_path``, a criterion of ``selection``, ``class_weight`` or a device.
        MemoryError
            Before allocation, if the sums would not fit into memory.

        Examples
        --------
        >>> import numpy as np
        >>> from mercer import KernelClassifier
        >>> X = np.random.default_rng(0).normal(size=(600, 2))
        >>> y = np.where(np.hypot(*X.T) < 1, "inside", "outside")
        >>> model = KernelClassifier("fourier", random_state=0)
        >>> for rows in np.split(np.arange(600), 3):
        ...     model = model.partial_fit(X[rows], y[rows], classes=["inside", "outside"])
        >>> model.predict([[0.0, 0.0], [2.0, 2.0]]).tolist()
        ['inside', 'outside']
        """
        return self._change(X, y, sample_weight, classes)

    def _target_of_batch(
        self, y: NDArray, weights: NDArray | None, classes: ArrayLike | None, first: bool
    ) -> Target:
        if y.ndim == 2:
            raise ValueError(
                f"y must have one label per row for partial_fit, not as for fit; got {y.shape}."
            )
        if first and classes is None:
            raise ValueError("classes must name all labels in the first partial_fit; got None.")
        return self._known_classes(y, classes, first)
