"""The mean of a few pipelines that see the rows differently."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin, clone
from sklearn.pipeline import Pipeline

from mercer._runtime.messages import shown
from mercer._runtime.state import Checked, State
from mercer.estimators.local import LocalKernelClassifier, LocalKernelMachine, LocalKernelRegressor

__all__ = ["MeanClassifier", "MeanModel", "MeanRegressor", "answer", "tree_count"]


class MeanModel(Checked, BaseEstimator):
    """The mean of the responses of several pipelines, all fitted to the same rows.

    Local kernel machines average trees in any case; trees of another treatment or of other scales
    of the inputs err elsewhere, so that their mean errs less, in the same time.
    """

    _fitted_by: ClassVar[str] = "pipelines_"
    _machine: ClassVar[type[LocalKernelMachine]]  # at the end of every pipeline

    def __init__(self, pipelines):
        self.pipelines = pipelines

    def fit(self, X: Any, y: Any, **fit_params: Any) -> Self:
        """Fit all pipelines, one after the other.

        Parameters
        ----------
        X : whatever the pipelines take, of n rows
        y : array of shape (n,) or (n, k)
        **fit_params
            Passed to the ``fit`` of every pipeline, such as ``model__sample_weight``.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If there is no pipeline, or one without a local kernel machine.
        KeyboardInterrupt
            After an interruption; the model keeps the finished trees.
        """
        return self._fit_by(lambda pipeline: pipeline.fit(X, y, **fit_params))

    def _fit_by(self, fit: Callable[[Pipeline], Any]) -> Self:
        """Fit clones of all pipelines by a function; see ``fit``."""
        self._forget()
        if not self._can_average(self.pipelines):
            raise ValueError(
                f"pipelines must be a list of Pipelines that end in a {self._machine.__name__}; "
                f"got {shown(self.pipelines)}."
            )
        fitted: list[Pipeline] = []
        interruption: KeyboardInterrupt | None = None
        for unfitted in self.pipelines:
            pipeline = clone(unfitted)
            try:
                fit(pipeline)
            except KeyboardInterrupt as error:
                interruption = error
            machine = pipeline[-1]
            # Before the first tree is whole, where it is 1, another machine would spoil the mean.
            if hasattr(machine, "map_coef_") and (machine.optimality_ < 1 or not fitted):
                fitted.append(pipeline)
            if interruption is not None:
                break
        if fitted:
            self.pipelines_ = fitted
        if interruption is not None:
            raise interruption
        return self

    def _can_average(self, pipelines: Any) -> bool:
        """True for one or more pipelines that end in a machine of the right kind."""
        if not isinstance(pipelines, (list, tuple)) or not pipelines:
            return False
        return all(_ends_in(pipeline, self._machine) for pipeline in pipelines)

    def _mean(self, method: str, X: Any) -> NDArray:
        """The mean response, each pipeline counted by its trees."""
        self._check_fitted()
        responses = [answer(pipeline, method, X) for pipeline in self.pipelines_]
        trees = np.array([tree_count(pipeline) for pipeline in self.pipelines_])
        return np.tensordot(trees / trees.sum(), np.stack(responses), axes=1)

    def _check_state(self) -> None:
        state = State(self)
        pipelines = state.instance("pipelines_", list)
        rule = f"hold Pipelines that end in a {self._machine.__name__}"
        state.check("pipelines_", rule, self._can_average(pipelines))
        is_once = len({id(pipeline) for pipeline in pipelines}) == len(pipelines)
        state.check("pipelines_", "hold every Pipeline once", is_once)


def answer(estimator: Any, method: str, X: Any) -> NDArray:
    """Result of a method for rows; calls a pipeline's steps without the checks of its class."""
    if type(estimator) is Pipeline:
        for _, step in estimator.steps[:-1]:
            X = X if step is None or step == "passthrough" else step.transform(X)
        estimator = estimator.steps[-1][1]
    said: NDArray = getattr(estimator, method)(X)
    return said


def tree_count(pipeline: Pipeline) -> int:
    """Number of trees of a fitted pipeline that ends in a local machine."""
    return len(pipeline[-1].feature_map_.partition_.roots)


def _ends_in(pipeline: Any, machine: type[LocalKernelMachine]) -> bool:
    """Whether this is a pipeline of transformers and a machine, whatever a file made of it."""
    steps = pipeline.steps if isinstance(pipeline, Pipeline) else None
    if not isinstance(steps, list) or not steps:
        return False
    if not all(isinstance(step, (tuple, list)) and len(step) == 2 for step in steps):
        return False
    if not all(isinstance(name, str) for name, _ in steps):
        return False
    *before, last = (estimator for _, estimator in steps)
    return isinstance(last, machine) and all(
        step is None or hasattr(step, "transform") or str(step) == "passthrough" for step in before
    )


class MeanRegressor(RegressorMixin, MeanModel):
    """Mean prediction of pipelines with local kernel machines, weighted by their numbers of trees.

    Trees with another treatment of the columns or other scales of the inputs make different errors,
    so that the mean has a smaller error.

    Parameters
    ----------
    pipelines : list of Pipeline
        At least one, the best first; each ends in a :class:`mercer.LocalKernelRegressor`.
        Clones are fitted.

    Attributes
    ----------
    pipelines_ : list of Pipeline
        Fitted pipelines. After an interruption or a deadline, those with at least one finished
        tree, or the first alone.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import QuantileTransformer, StandardScaler
    >>> from mercer import LocalKernelRegressor
    >>> from mercer.auto import MeanRegressor
    >>> X = np.random.default_rng(0).normal(size=(400, 2))
    >>> y = np.sin(X).sum(axis=1)
    >>> model = LocalKernelRegressor(leaf_size=200, n_trees=2, random_state=0)
    >>> steps = StandardScaler(), QuantileTransformer(n_quantiles=50)
    >>> mean = MeanRegressor([make_pipeline(step, model) for step in steps]).fit(X, y)
    >>> mean.score(X, y) > 0.9
    True
    """

    _machine = LocalKernelRegressor

    def predict(self, X: Any) -> NDArray:
        """Mean predictions.

        Parameters
        ----------
        X : whatever the pipelines take, of n rows

        Returns
        -------
        ndarray of shape (n,) or (n, k)
        """
        return self._mean("predict", X)


class MeanClassifier(ClassifierMixin, MeanModel):
    """Class of the largest mean response of pipelines with local kernel machines.

    The mean is weighted by the numbers of trees. Trees with another treatment of the columns or
    other scales of the inputs make different errors, so that the mean has a smaller error.

    Parameters
    ----------
    pipelines : list of Pipeline
        At least one, the best first; each ends in a :class:`mercer.LocalKernelClassifier`.
        Clones are fitted.

    Attributes
    ----------
    pipelines_ : list of Pipeline
        Fitted pipelines. After an interruption or a deadline, those with at least one finished
        tree, or the first alone.
    classes_ : ndarray of shape (n_classes,)
        Class labels, sorted.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import QuantileTransformer, StandardScaler
    >>> from mercer import LocalKernelClassifier
    >>> from mercer.auto import MeanClassifier
    >>> X = np.random.default_rng(0).normal(size=(400, 2))
    >>> y = np.where(np.hypot(*X.T) < 1, "inside", "outside")
    >>> model = LocalKernelClassifier(leaf_size=200, n_trees=2, random_state=0)
    >>> steps = StandardScaler(), QuantileTransformer(n_quantiles=50)
    >>> mean = MeanClassifier([make_pipeline(step, model) for step in steps]).fit(X, y)
    >>> mean.predict([[0.0, 0.0], [2.0, 2.0]]).tolist()
    ['inside', 'outside']
    """

    _machine = LocalKernelClassifier

    @property
    def classes_(self) -> NDArray:
        """Sorted classes of every pipeline."""
        classes: NDArray = self.pipelines_[0].classes_
        return classes

    @property
    def _has_several_labels(self) -> bool:
        several: bool = self.pipelines_[0][-1]._has_several_labels
        return several

    def decision_function(self, X: Any) -> NDArray:
        """Mean responses: positive for the second of two classes, else one per class or label.

        Parameters
        ----------
        X : whatever the pipelines take, of n rows

        Returns
        -------
        ndarray of shape (n,) or (n, n_classes)
        """
        return self._mean("decision_function", X)

    def predict(self, X: Any) -> NDArray:
        """The class of the largest mean response, or the labels of mean responses above 0.

        Parameters
        ----------
        X : whatever the pipelines take, of n rows

        Returns
        -------
        ndarray of shape (n,) or (n, n_labels)
        """
        responses = self.decision_function(X)
        predicted: NDArray = self.pipelines_[0][-1]._target.predictions(responses)
        return predicted
