"""The two automatic estimators."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, cast

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import ClassifierMixin, MultiOutputMixin, RegressorMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_X_y

from mercer._runtime.random import RandomStateLike
from mercer._runtime.state import State
from mercer._runtime.validation import (
    check_offset,
    check_weights,
    plus_offset,
    recorded,
    refuse_missing,
    require_offset,
    without_record,
)
from mercer.auto._documentation import AUTOMATIC
from mercer.auto.base import AutoKernelMachine, counted_rows
from mercer.auto.calibration import Conformal
from mercer.auto.course import is_few
from mercer.auto.goals import Classes, Indicators, Numbers
from mercer.auto.intervals import (
    MOST_ROWS,
    HeldErrors,
    Spread,
    at_least_0,
    checked_quantiles,
    unknown_rows,
)
from mercer.auto.means import MeanClassifier, MeanRegressor, answer
from mercer.auto.own_loss import check_knows_offset
from mercer.auto.scoring import Calibrated, calibrated, chosen_labels
from mercer.auto.search import Search
from mercer.auto.targets import LogTargetRegressor, evened
from mercer.auto.unmet import laws_of_rows
from mercer.estimators import (
    KernelClassifier,
    KernelRegressor,
    LocalKernelClassifier,
    LocalKernelRegressor,
)
from mercer.estimators._documentation import documented
from mercer.estimators.inputs import numbers
from mercer.estimators.probabilities import (
    LabelProbabilities,
    Probabilities,
    SoftMax,
    check_probabilities,
)
from mercer.estimators.selection import random_order
from mercer.estimators.targets import (
    checked_labels,
    coded,
    refuse_class_weight,
    warn_of_small_classes,
)
from mercer.preparation import TableColumns, checked_table, rows_of

__all__ = ["AutoKernelClassifier", "AutoKernelRegressor"]

_SPREADS = (1e-30, 1e36)  # least and largest difference of a target from the mean


@documented(AUTOMATIC)
class AutoKernelRegressor(MultiOutputMixin, RegressorMixin, AutoKernelMachine):
    """Kernel regression on raw tables, with nothing to set.

    ``fit`` chooses the treatment of the columns, the scales of the inputs (learned from the
    target), the kernel, gamma and the strength of the penalty. The search is successive halving on
    held-out rows: all settings on a few hundred rows with the exact kernel, the better ones on
    more. The final model is fitted to all rows: the exact kernel machine up to 50 000 rows, above
    the mean of two pipelines with local machines, whose settings are chosen again on leaves, or, if
    leaves see too few rows, a machine in the span of several thousand landmarks. Sparse rows get
    random features. With thousands of inputs the search includes a linear model. Targets over
    several orders of magnitude are fitted as logarithms if that lowers the held-out loss.

    Parameters
    ----------
    {time_budget, scoring, time, random_state, n_jobs, verbose, device}

    Attributes
    ----------
    best_estimator_ : Pipeline, MeanRegressor or LogTargetRegressor
        Fitted pipeline of the steps ``preparer``, ``scaler`` and ``model``, which are ordinary
        estimators. Above 50 000 rows it may be the mean of two such pipelines.
    best_settings_ : dict
        Settings of the model: "numbers", "max_integers", "labels", "identities" and "without" of
        the ``TablePreparer``, "scales" ("left-out" for :class:`mercer.LeftOutScaler`; of
        :class:`mercer.GradientScaler`, "machine" if its ``kernel`` is that of the model,
        "exponential" if it is the exponential kernel, else "cosines"), their "power", "turned" (its
        ``full``), "kernel" ("laplacian", "gaussian", "exponential" or "linear"), "gamma" (for
        inputs whose median distance is 1, or for "left-out" scales), "ridge" and "transform".
    {search_results_, partner_settings_, feature_importances_, input_shares_, validation_score_}
    {n_validation_rows_, held_out_, search_seconds_, interrupted_, n_features_in_}

    Raises
    ------
    {ValueError}

    Warns
    -----
    {UserWarning}

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import AutoKernelRegressor
    >>> X = np.random.default_rng(0).normal(size=(300, 4))
    >>> model = AutoKernelRegressor(random_state=0).fit(X, np.sin(X[:, 2]))
    >>> int(model.feature_importances_.argmax())
    2
    >>> model.predict_interval(X[:2], coverage=0.8).shape
    (2, 2)
    """

    _machine, _local_machine, _mean_model = KernelRegressor, LocalKernelRegressor, MeanRegressor
    _target_kind = "continuous"
    _are_positive_: Any = False  # () or (k,), True where no target of the fit was below 0

    def fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        groups: Any = None,
        offset: Any = None,
    ) -> AutoKernelRegressor:
        """Choose the settings on held-out rows and fit the model to all rows.

        Parameters
        ----------
        X : data frame, array or CSR of shape (n_samples, n_features)
            Numbers, labels, booleans and dates; missing cells are None or NaN.
        y : array or data frame of shape (n_samples,) or (n_samples, n_outputs)
        sample_weight : array of shape (n_samples,), default=None
            Weight per row, >= 0, in the search, the fit and the calibration. A row of weight 0 is
            left out. Only the ratios of the weights matter. Copies of rows are merged into weights.
        groups : array of shape (n_samples,), default=None
            Group label per row, such as a patient; two groups or more. Held-out rows are whole
            groups: settings, scores, intervals and probabilities are then for groups that the fit
            has not seen.
        offset : array of shape (n_samples,), default=None
            Known parts of the targets, such as forecasts that the model corrects: it is fitted to y
            less the offset, as are scores and held-out predictions.

        Returns
        -------
        self
        """
        X = checked_table(self, X, reset=True)
        y = numbers(y, "y")
        refuse_missing(y, "y", "value")
        _, y = check_X_y(
            np.zeros((X.shape[0], 1)), y, multi_output=True, y_numeric=True, estimator=self
        )
        y = np.asarray(y, dtype=np.float64)
        y = plus_offset(y, offset, sign=-1.0)
        _check_spread(y)
        rows = counted_rows(self, X, y, sample_weight, groups)
        self._are_positive_ = np.asarray((rows.y.min(axis=0) >= 0) & (offset is None))
        goal = Numbers(rows.y.reshape(len(rows.y), -1), rows.weights, rows.groups)
        with recorded(self, offset):
            self._fit(rows, goal)
        return self

    def score(self, X: Any, y: Any, sample_weight: Any = None, offset: Any = None) -> float:
        """Score of the predictions by ``scoring``, or R2 if that is None.

        Parameters
        ----------
        X : frame, array or CSR of shape (n_samples, n_features)
        y : array of shape (n_samples,) or (n_samples, n_outputs)
        sample_weight : array of shape (n_samples,), default=None
        offset : array of shape (n_samples,), default=None
            Known parts of y, which the score is without.

        Returns
        -------
        float
            Greater is better.
        """
        require_offset(self, offset)
        if offset is not None:
            y = plus_offset(np.asarray(numbers(y, "y"), dtype=np.float64), offset, sign=-1.0)
            return float(without_record(self).score(X, y, sample_weight))
        return self._score(X, y, sample_weight, super().score)

    def predict(self, X: Any, quantiles: Any = None, offset: Any = None) -> NDArray:
        """Predicted targets: means, or quantiles.

        A quantile is the prediction plus a quantile of the errors on held-out rows, relative to the
        error size expected at the row; quantiles never cross. With several outputs the error size
        is the same for all rows. Where no target of the fit was below 0, no prediction is.

        Parameters
        ----------
        X : frame, array or CSR of shape (n_samples, n_features)
        quantiles : array of shape (n_quantiles,), default=None
            Levels above 0 and below 1; 0.5 is the median. None returns means.
        offset : array of shape (n_samples,) or float, default=None
            Known parts of the targets. A model that was fitted with an offset needs it; 0
            predicts without them.

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_outputs)
            With ``quantiles`` it has a last axis of length n_quantiles; entries are infinite if
            there are too few held-out rows for a level.
        """
        self._check_fitted()
        require_offset(self, offset)
        if quantiles is not None:
            levels = checked_quantiles(quantiles)
            if "_errors_" not in vars(self):
                raise ValueError(
                    "quantiles need errors on held-out rows, which an interrupted fit lacks; fit "
                    "the model again."
                )
            return plus_offset(self._at_scores(X, lambda spread: spread.quantiles(levels)), offset)
        predicted = answer(self.best_estimator_, "predict", self._met(X)[0])
        predicted = at_least_0(predicted.astype(np.float64, copy=False), self._are_positive_)
        return plus_offset(predicted, offset)

    def predict_interval(self, X: Any, coverage: float = 0.9, offset: Any = None) -> NDArray:
        """Prediction intervals that contain the target of a new row with a given probability.

        The ends are quantiles of the errors on held-out rows (split-conformal prediction),
        multiplied by the error size expected at the row if that improves the intervals. Up to
        50 000 rows, and of landmarks, the errors are those of a model of nearly all rows; of local
        machines above, those of the leaves of the search, which have fewer rows: intervals of
        noiseless targets are then too wide. Intervals of targets fitted as logarithms widen with
        the prediction. With several outputs each has intervals of constant width, centred at the
        prediction. Where no target of the fit was below 0, ends below 0 become 0. A row whose
        columns are all missing gets the quantiles of the held-out targets, unless the fit met such
        rows; a warning names columns with missing cells that had none at the fit. A row with a
        label that the fit has not met gets the quantiles of errors on labels held out.

        Parameters
        ----------
        X : frame, array or CSR of shape (n_samples, n_features)
        coverage : float, default=0.9
            Probability that an interval contains the target, above 0 and below 1.
        offset : array of shape (n_samples,), default=None
            As for ``predict``.

        Returns
        -------
        ndarray of shape (n_samples, 2) or (n_samples, n_outputs, 2)
            Lower and upper ends; infinite if there are too few held-out rows for ``coverage``.
        """
        self._check_fitted()
        require_offset(self, offset)
        if self.conformal_.scores.ndim == 1 and "_errors_" in vars(self):
            return plus_offset(self._at_scores(X, lambda spread: spread.ends(coverage)), offset)
        reach = np.atleast_1d(self.conformal_.bound(coverage))
        ends = self._at_scores(X, lambda spread: np.stack([-reach, reach]), even=True)
        return plus_offset(ends, offset)

    def _at_scores(self, X: Any, found: Callable[[Spread], NDArray], even: bool = False) -> NDArray:
        """Targets (n, q) or (n, k, q) at scores (q, k) of their errors; ``even``: all sizes are 1.

        Errors are of logarithms where the targets are. Unknown rows get the scores of the targets.
        """
        X, unmet = self._met(X)
        estimator = self.best_estimator_
        logs = isinstance(estimator, LogTargetRegressor)
        middle = answer(estimator.regressor_ if logs else estimator, "predict", X)
        middle = middle.astype(np.float64)
        sizes: Any = 1.0
        if not even and self.spread_.machine is not None:
            sizes = self.spread_.sizes(self._pipelines()[0][:-1].transform(X), middle)
            sizes = sizes.reshape(-1, *[1] * middle.ndim)

        def scores(spread: Spread) -> NDArray:
            return found(spread)[:, 0] if middle.ndim == 1 else found(spread).T

        ends = middle[..., None] + sizes * scores(
            Spread(np.empty((0, 1))) if even else self.spread_
        )
        for place, rows in laws_of_rows(len(middle), {} if even else unmet):
            law = Spread(np.sort(self._unmet_[place].scores, axis=0))
            ends[rows] = middle[rows, ..., None] + scores(law)
        unknown = np.zeros(len(middle), dtype=bool)
        if isinstance(X, TableColumns):
            unknown = unknown_rows(self._pipelines()[0]["preparer"], X)
        if unknown.any() and not even:
            ends[unknown] = found(self._errors_.targets)[:, 0]
        ends = estimator.shift_.unbounded(ends) if logs else ends
        return at_least_0(ends, np.asarray(self._are_positive_)[..., None])

    def _scores(self, search: Search, rows: NDArray, responses: NDArray) -> NDArray:
        errors = search.goal.truth(rows, search.settings.transform) - responses
        return evened(errors, search.goal.weights_of(rows))

    @property
    def spread_(self) -> Spread:
        """Distribution of the errors on held-out rows, fitted at first use."""
        self._check_fitted()
        return self._errors_.spread

    def _measure_errors(self, X: Any, search: Search) -> None:
        choice = search.choice
        if choice is None:
            none = np.empty((0, search.goal.truth(np.arange(1), "").shape[1]))
            self._errors_ = HeldErrors(none, none)
            return
        order = np.argsort(random_order(search.key, len(choice.rows)))
        rows, responses = choice.rows[order], choice.responses[order]
        errors = search.goal.truth(rows, choice.record.settings.transform) - responses
        weights = search.goal.weights_of(rows)
        treated = self._pipelines()[0][:-1].transform(rows_of(X, rows[:MOST_ROWS]))
        self._errors_ = HeldErrors.of(responses, errors, weights, treated, self.n_jobs)

    def _check_state(self) -> None:
        super()._check_state()
        is_known = np.asarray(self._are_positive_).dtype == bool
        State(self).check("_are_positive_", "be booleans", is_known)
        if "_errors_" in vars(self):  # absent after an interrupt
            State(self).instance("_errors_", HeldErrors)._check_state()

    def _calibrate(self, search: Search) -> None:
        choice = search.choice
        if choice is None:
            none = np.empty((0, *search.goal.truth(np.arange(1), "").shape[1:]))
            self.conformal_ = Conformal(none)
            return
        truth = search.goal.truth(choice.rows, choice.record.settings.transform)
        scores = np.abs(truth - choice.responses)
        weights = search.goal.weights_of(choice.rows)
        self.conformal_ = Conformal.of(scores[:, 0] if scores.shape[1] == 1 else scores, weights)

    def _held_predictions(self, search: Search, responses: NDArray) -> dict[str, NDArray]:
        rows, goal = search.held_rows, cast(Numbers, search.goal)
        predicted = goal.predictions(responses, rows, search.settings.transform)
        both = {"target": goal.truth(rows, "identity"), "predicted": predicted}
        return {name: v[:, 0] if v.shape[1] == 1 else v for name, v in both.items()}


@documented(AUTOMATIC)
class AutoKernelClassifier(ClassifierMixin, AutoKernelMachine):
    """Kernel classification on raw tables, with nothing to set.

    ``fit`` chooses the treatment of the columns, the scales of the inputs (learned from the
    labels), the kernel, gamma and the strength of the penalty. The search is successive halving on
    held-out rows: all settings on a few hundred rows with the exact kernel, the better ones on
    more. The final model is fitted to all rows: the exact kernel machine up to 50 000 rows, above
    the mean of two pipelines with local machines, whose settings are chosen again on leaves, or, if
    leaves see too few rows, a machine in the span of several thousand landmarks. Sparse rows get
    random features. With thousands of inputs the search includes a linear model. Trials minimise
    the squared loss; up to 30 000 rows of two classes, fewer of more, the final model minimises the
    logistic or multinomial loss, if that lowers the held-out log loss. The held-out rows also
    calibrate the probabilities.

    Rows may have several labels: y of shape (n_samples, n_labels) holds 0 and 1, as for
    :class:`mercer.KernelClassifier`. One search and one model serve all labels, with one kernel and
    one strength; probabilities are calibrated for each label. ``predict_set``, ``class_weight``,
    ONNX and :mod:`mercer.dask` take one label per row only:
    :class:`sklearn.multioutput.MultiOutputClassifier` fits a model to each label.

    Parameters
    ----------
    {time_budget, scoring, time, class_weight, random_state, n_jobs, verbose, device}

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,) or (n_labels,)
        Class labels, sorted: the order of the columns of probabilities. Of several labels per row,
        the numbers of the columns of y, from 0 on.
    decision_threshold_ : float
        Probability of the second of two classes above which it is predicted: 0.5, or, with
        ``scoring`` by a scorer of predicted labels such as "f1" or "balanced_accuracy", that of the
        best score on held-out rows. With the share of correct labels it is 0.5.
    best_estimator_ : Pipeline or MeanClassifier
        Fitted pipeline of the steps ``preparer``, ``scaler`` and ``model``, which are ordinary
        estimators. Above 50 000 rows it may be the mean of two such pipelines.
    best_settings_ : dict
        Settings of the model: "numbers", "max_integers", "labels", "identities" and "without" of
        the ``TablePreparer``, "scales" ("left-out" for :class:`mercer.LeftOutScaler`; of
        :class:`mercer.GradientScaler`, "machine" if its ``kernel`` is that of the model,
        "exponential" if it is the exponential kernel, else "cosines"), their "power", "turned" (its
        ``full``), "kernel" ("laplacian", "gaussian", "exponential" or "linear"), "gamma" (for
        inputs whose median distance is 1, or for "left-out" scales), "ridge" and "transform":
        "log-odds" of the logistic or multinomial loss, or "identity" of the squared one.
    {search_results_, partner_settings_, feature_importances_, input_shares_, validation_score_}
    {n_validation_rows_, held_out_, search_seconds_, interrupted_, n_features_in_}

    Raises
    ------
    {ValueError}

    Warns
    -----
    {UserWarning}

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import AutoKernelClassifier
    >>> X = np.random.default_rng(0).normal(size=(300, 4))
    >>> y = np.where(np.hypot(X[:, 0], X[:, 1]) < 1, "inside", "outside")
    >>> model = AutoKernelClassifier(random_state=0).fit(X, y)
    >>> model.predict([[0.0, 0.0, 1.0, 1.0], [2.0, 2.0, 0.0, 0.0]]).tolist()
    ['inside', 'outside']
    """

    _machine, _local_machine, _mean_model = KernelClassifier, LocalKernelClassifier, MeanClassifier
    _target_kind = "classes"
    _takes_indicators: ClassVar[bool] = True

    def __init__(
        self,
        *,
        time_budget: float | None = None,
        scoring: Any = None,
        time: str | int | None = None,
        class_weight: dict[Any, float] | str | None = None,
        random_state: RandomStateLike = None,
        n_jobs: int | None = None,
        verbose: int = 0,
        device: Any = None,
    ):
        super().__init__(
            time_budget=time_budget,
            scoring=scoring,
            time=time,
            random_state=random_state,
            n_jobs=n_jobs,
            verbose=verbose,
            device=device,
        )
        self.class_weight = class_weight

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = tags.classifier_tags.multi_label = self._takes_indicators
        return tags

    def fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        groups: Any = None,
        offset: Any = None,
    ) -> AutoKernelClassifier:
        """Choose the settings on held-out rows and fit the model to all rows.

        Parameters
        ----------
        X : data frame, array or CSR of shape (n_samples, n_features)
            Numbers, labels, booleans and dates; missing cells are None or NaN.
        y : array of shape (n_samples,), or array or data frame of shape (n_samples, n_labels)
            Labels of any type that sorts, or 0 and 1 for each of several labels.
        sample_weight : array of shape (n_samples,), default=None
            Weight per row, >= 0, in the search, the fit and the calibration. A row of weight 0 is
            left out. Only the ratios of the weights matter. Copies of rows are merged into weights.
        groups : array of shape (n_samples,), default=None
            Group label per row, such as a patient; two groups or more. Held-out rows are whole
            groups: settings, scores, intervals and probabilities are then for groups that the fit
            has not seen.
        offset : array of shape (n_samples,), default=None
            Known parts of the log odds of the second of two classes, such as those of another
            model: the logistic loss and the calibration add them to responses. The search by the
            squared loss does not know them; an interrupt during it leaves no model. Up to 50 000
            dense rows, without a device.

        Returns
        -------
        self
        """
        X = checked_table(self, X, reset=True)
        y = checked_labels(type(self).__name__, y, self._takes_indicators)
        several = len(getattr(y, "shape", ())) == 2 and y.shape[1] > 1
        _, y = check_X_y(np.zeros((X.shape[0], 1)), y, multi_output=several, estimator=self)
        if several:
            refuse_class_weight(self)
        else:
            check_classification_targets(y)
        rows = counted_rows(self, X, y, sample_weight, groups, check_offset(offset, len(y)))
        beside = rows.weights, rows.groups
        if several:
            self.classes_ = np.arange(y.shape[1])
            goal: Classes = Indicators((rows.y == 1).astype(np.int64), *beside)
        else:
            self.classes_, labels = coded(rows.y)
            warn_of_small_classes(self.classes_, np.bincount(labels))
            goal = Classes(labels, len(self.classes_), *beside)
        is_far = sparse.issparse(X) or not is_few(len(rows.y))
        goal.offset = rows.offset
        if is_far or several or goal.n_classes != 2 or self.device is not None:
            check_knows_offset(goal, "identity")
        with recorded(self, offset):
            self._fit(rows, goal)
        return self

    def score(self, X: Any, y: Any, sample_weight: Any = None, offset: Any = None) -> float:
        """Score of the predictions by ``scoring``, or the share of correct labels if that is None.

        Of several labels per row it is the share of rows whose labels are all correct.

        Parameters
        ----------
        X : frame, array or CSR of shape (n_samples, n_features)
        y : array of shape (n_samples,) or (n_samples, n_labels)
        sample_weight : array of shape (n_samples,), default=None
        offset : array of shape (n_samples,), default=None
            As for ``predict``; without ``scoring``.

        Returns
        -------
        float
            Greater is better.
        """
        require_offset(self, offset)
        if offset is None:
            return self._score(X, y, sample_weight, super().score)
        if self.scoring is not None:
            raise ValueError(f"scoring must be None for a score with offset; got {self.scoring!r}.")
        is_right = self.predict(X, offset=offset) == np.asarray(y)
        return float(np.average(is_right, weights=check_weights(sample_weight, X)))

    def decision_function(self, X: Any, offset: Any = None) -> NDArray:
        """Responses: positive for the second of two classes, else one per class or per label.

        Parameters
        ----------
        X : frame, array or CSR of shape (n_samples, n_features)
        offset : array of shape (n_samples,), default=None
            Known parts of the log odds, as in ``fit``; divided by the power of the calibration they
            are parts of responses.

        Returns
        -------
        ndarray of shape (n_samples,), (n_samples, n_classes) or (n_samples, n_labels)
        """
        self._check_fitted()
        return self._responses(self._met(X)[0], offset)

    def _responses(self, X: Any, offset: Any) -> NDArray:
        """Responses to rows that are checked, and perhaps read, with their offset."""
        require_offset(self, offset)
        responses = answer(self.best_estimator_, "decision_function", X)
        beside = check_offset(offset, len(responses))
        return responses if beside is None else plus_offset(responses, self._in_responses(beside))

    def _in_responses(self, offset: NDArray) -> NDArray:
        """An offset of log odds in units of responses."""
        map_ = self.probabilities_
        if not isinstance(map_, SoftMax) or len(self.classes_) != 2:
            raise ValueError(
                "offset must be None for a model whose responses are no log odds of two classes; "
                "one that is fitted with an offset takes it."
            )
        return np.asarray(offset / map_.power)

    def predict(self, X: Any, offset: Any = None) -> NDArray:
        """Predicted labels: of several per row the indicators, 1 for responses above 0.

        Parameters
        ----------
        X : frame, array or CSR of shape (n_samples, n_features)
        offset : array of shape (n_samples,) or float, default=None
            Known parts of the log odds. A model that was fitted with an offset needs it; 0
            predicts without them.

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_labels)
        """
        self._check_fitted()
        responses = self._responses(self._met(X)[0], offset)
        if self._has_several_labels:
            indicators: NDArray = self.kernel_machine_._target.predictions(responses)
            return indicators
        return self.classes_[self._labels(responses)]

    def predict_proba(self, X: Any, offset: Any = None) -> NDArray:
        """Probabilities of the classes, calibrated on held-out rows.

        The likeliest class is the predicted one, unless ``decision_threshold_`` is not 1/2.

        Parameters
        ----------
        X : frame, array or CSR of shape (n_samples, n_features)
        offset : array of shape (n_samples,), default=None
            As for ``predict``.

        Returns
        -------
        ndarray of shape (n_samples, n_classes) or (n_samples, n_labels)
            Of several labels per row, the probability that each label is 1.
        """
        self._check_fitted()
        return self.probabilities_(self._responses(self._met(X)[0], offset))

    def predict_set(self, X: Any, coverage: float = 0.9, offset: Any = None) -> NDArray:
        """Sets of classes that contain the class of a new row with a given probability.

        A set contains each class whose probability is at least a threshold: the quantile
        ``1 - coverage`` of the probabilities that held-out rows have for their true class
        (split-conformal prediction). A set contains the predicted class in any case. Rows with a
        label that the fit has not met have the threshold of labels held out.

        Parameters
        ----------
        X : frame, array or CSR of shape (n_samples, n_features)
        coverage : float, default=0.9
            Probability that a set contains the class, above 0 and below 1.
        offset : array of shape (n_samples,), default=None
            As for ``predict``.

        Returns
        -------
        ndarray of bool of shape (n_samples, n_classes)
            Whether a class belongs to the set; True for all classes if there are too few held-out
            rows for ``coverage``.
        """
        self._check_fitted()
        if self._has_several_labels:
            raise ValueError(
                f"predict_set needs one label for every row; the model has {len(self.classes_)}: "
                "each model of sklearn.multioutput.MultiOutputClassifier(AutoKernelClassifier()) "
                "has sets of its label."
            )
        X, unmet = self._met(X)
        responses = self._responses(X, offset)
        probabilities = self.probabilities_(responses)
        bounds = np.full(len(probabilities), self.conformal_.bound(coverage))
        for place, rows in laws_of_rows(len(bounds), unmet):
            law = Conformal(np.sort(self._unmet_[place].scores))
            bounds[rows] = np.maximum(bounds[rows], law.bound(coverage))
        sets: NDArray = 1 - probabilities <= bounds[:, None]
        sets[np.arange(len(sets)), self._labels(responses)] = True
        return sets

    def _check_state(self) -> None:
        super()._check_state()
        state = State(self)
        several = isinstance(state.value("probabilities_"), LabelProbabilities)
        if several:
            check_probabilities(self.probabilities_, "maps", len(self.classes_))
        else:
            check_probabilities(self, "probabilities_")
        of_machine = getattr(self.kernel_machine_, "_has_several_labels", False)
        state.check("probabilities_", "suit its kernel machine", several == of_machine)
        if "decision_threshold_" in vars(self):
            within = state.number("decision_threshold_", 0.0) <= 1
            state.check("decision_threshold_", "be from 0 to 1", within)
        known: Any = getattr(self.kernel_machine_, "classes_", None)
        rule = "be those of its kernel machine"
        state.check("classes_", rule, np.array_equal(state.value("classes_"), known))

    @property
    def _has_several_labels(self) -> bool:
        return isinstance(self.probabilities_, LabelProbabilities)

    def _calibrate(self, search: Search) -> None:
        self.probabilities_: Calibrated = Probabilities()
        self.conformal_, self.decision_threshold_ = Conformal(np.empty(0)), 0.5
        choice, goal = search.choice, search.goal
        if isinstance(goal, Indicators):
            self.probabilities_ = LabelProbabilities([Probabilities() for _ in self.classes_])
        if choice is None or not isinstance(goal, Classes):
            return
        responses = choice.responses[:, 0] if choice.responses.shape[1] == 1 else choice.responses
        labels, weights = goal.labels[choice.rows], goal.weights_of(choice.rows)
        if goal.offset is None:
            self.probabilities_ = calibrated(search.settings.transform, responses, labels, weights)
        else:  # part of the held-out log odds
            offset = goal.offset[choice.rows]
            self.probabilities_ = SoftMax.fitted(responses - offset, labels, weights, offset)
        if isinstance(goal, Indicators):
            return
        responses = self._with_power(search, choice.rows, responses)
        proba = self.probabilities_(responses)
        self.conformal_ = Conformal.of(1 - proba[np.arange(len(labels)), labels], weights)
        held = responses.reshape(len(labels), -1), choice.rows, search.settings.transform
        self.decision_threshold_ = search.judge.threshold(*held)
        if self.decision_threshold_ != 0.5:
            self.validation_score_ = search.judge.score(*held, self.decision_threshold_)

    def _scores(self, search: Search, rows: NDArray, responses: NDArray) -> NDArray:
        if self._has_several_labels:
            return np.empty(0)
        goal = cast(Classes, search.goal)
        responses = responses[:, 0] if responses.shape[1] == 1 else responses
        proba = self.probabilities_(self._with_power(search, rows, responses))
        scores = 1 - proba[np.arange(len(rows)), goal.labels[rows]]
        return evened(scores, goal.weights_of(rows))

    def _with_power(self, search: Search, rows: NDArray, responses: NDArray) -> NDArray:
        """Held-out log odds, whose offset becomes in units of responses."""
        offset = search.goal.offset_of(rows)
        return responses if offset is None else responses - offset + self._in_responses(offset)

    def _labels(self, responses: NDArray) -> NDArray[np.int64]:
        """Places of the predicted classes among all."""
        threshold = vars(self).get("decision_threshold_", 0.5)  # which older files lack
        return chosen_labels(responses, threshold, self.probabilities_)

    def _held_predictions(self, search: Search, responses: NDArray) -> dict[str, NDArray]:
        labels = cast(Classes, search.goal).labels[search.held_rows]
        responses = responses[:, 0] if responses.shape[1] == 1 else responses
        responses = self._with_power(search, search.held_rows, responses)
        both = {"target": labels, "predicted": (responses > 0).astype(np.int64)}
        if not self._has_several_labels:
            predicted = self.classes_[self._labels(responses)]
            both = {"target": self.classes_[labels], "predicted": predicted}
        return both | {"probabilities": self.probabilities_(responses)}


def _check_spread(y: NDArray) -> None:
    """Refuse targets whose differences leave the range of the numbers that models are made of."""
    with np.errstate(over="ignore", invalid="ignore"):
        largest = float(np.abs(y - y.mean(axis=0)).max(initial=0.0))
    least, most = _SPREADS
    if largest and not least <= largest <= most:
        raise ValueError(
            f"y must differ from its mean by {least:g} to {most:g}, as models are fitted in "
            f"float32; its largest difference is {largest:.3g}: multiply it by a power of ten."
        )
