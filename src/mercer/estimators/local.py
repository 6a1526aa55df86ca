"""Local kernel machines: an exact kernel machine in every leaf of random trees."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from contextlib import closing
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.exceptions import ConvergenceWarning

from mercer._runtime.arrays import available_memory, check_memory, n_threads
from mercer._runtime.config import device_in_force
from mercer._runtime.messages import shown
from mercer._runtime.random import RandomStateLike
from mercer._runtime.rows import PreparedRows, is_far, is_large, is_sparse
from mercer._runtime.validation import name_from, positive_integer, positive_number
from mercer.estimators._documentation import SHARED, documented, entries
from mercer.estimators.base import FeatureModel, Listener
from mercer.estimators.classification import Classification
from mercer.estimators.inputs import NUMBERS
from mercer.estimators.plan import FitPlan
from mercer.estimators.posterior import POSTERIOR, Posteriors
from mercer.estimators.preprocessing import (
    Preprocessing,
    Scale,
    TrainingSample,
    fit_scaler,
    scale_of,
    with_resolved_gamma,
)
from mercer.estimators.regression import Regression
from mercer.estimators.selection import (
    CRITERIA,
    checked_path,
    choose_by,
    criterion_of,
    held_out,
    responses,
)
from mercer.estimators.sharded_leaves import ShardedLeaves
from mercer.losses import Loss
from mercer.maps import LocalKernel
from mercer.solvers.forest import ForestProgress, ForestSolution
from mercer.solvers.local import LeafProgress, LocalSolution, solve_leaves, suits_device
from mercer.solvers.out_of_core import solve_through_files

__all__ = ["LocalKernelClassifier", "LocalKernelMachine", "LocalKernelRegressor"]

_RIDGE = 0.3  # default n alpha, as of the machines of all rows
# Below this ridge, in units of k(x, x), rounding of float32 entries would show in responses.
_ROUGH_RIDGE = 1e-3
_LEAF_MATRICES = 3.0  # of the size of a leaf that its thread works with

LOCAL = SHARED | entries(
    """
    kernel : str, kernel or callable, default="laplacian"
        Kernel on rows of numbers: "laplacian", "gaussian", "exponential", "cauchy", "matern" or an
        object of :mod:`mercer.kernels`.
    alpha : float or None, default=None
        Strength of the penalty, > 0. None means ``0.3 / n_samples`` (with weights, their sum
        instead of n_samples).
    leaf_size : int, default=1000
        Largest number of rows in a leaf, >= 2. Larger leaves are more accurate; the time per leaf
        grows with the square.
    n_trees : int, default=4
        Number of trees whose models are averaged, from 1 to 1000.
    overlap : float or None, default=None
        Share of the rows on each side of a cut that belong to both sides, from 0 to 0.25. Responses
        are continuous unless it is 0. None means 0.05, or less if the leaves of a tree would have
        more than 1.6 times the rows of the data.
    tol : float, default=1e-2
        Relative size of the gradient at which Newton's method stops in a leaf, > 0; the squared
        loss is solved directly.
    max_iter : int, default=1000
        Largest number of Newton steps in a leaf, >= 1.
    n_jobs : int or None, default=None
        Number of threads, each of which solves one leaf at a time; None and -1 mean all that the
        process may use. Results do not depend on it.
    random_state : int, RandomState, Generator or None, default=None
        Seed of the directions of the cuts, and of the rows held out for ``alphas``.
    alphas : array of shape (n_alphas,) or None, default=None
        Strengths to choose from, > 0; leave out ``alpha`` then. A model of the other rows scores
        each strength on held-out rows; all strengths share the kernel matrices of the leaves.
    validation_fraction : float, default=0.2
        Share of the rows held out for ``alphas``, above 0 and below 1.
    device : {"cpu", "cuda", "cuda:<number>"}, torch.device or None, default=None
        Device that solves the leaves, many at once: "cuda" is a GPU, by PyTorch
        (``pip install 'mercer[gpu]'``). The loss must be convex, smooth and not joint over classes.
        None takes the device of :func:`mercer.config_context`, by default the processor. A model
        predicts on the device of its fit if the machine has it, else on the processor.
    feature_map_ : LocalKernel
        Fitted map: cuts, rows of the leaves, and the kernel with its ``gamma`` as a number.
    map_coef_ : ndarray of shape (D,) or (n_outputs, D)
        Coefficients of the rows of the leaves, followed by one constant per leaf.
    n_leaves_ : int
        Number of leaves, summed over the trees.
    n_iter_ : int
        Largest number of Newton steps in a leaf; 1 for the squared loss.
    optimality_ : float
        Largest relative residual of a leaf, or relative gradient for other losses than the squared.
    device_ : str
        Device that solved the leaves, such as "cpu" or "cuda:0".
    selection : {"holdout", "leave-one-out", "evidence"}, default="holdout"
        Choice of ``alphas``: on held-out rows. "leave-one-out" and "evidence" instead choose one
        factor of the distance per input, or one for all, and alpha by the errors of left-out rows
        or the marginal likelihood of at most 2000 random rows, from ``gamma`` and ``alpha`` on: see
        the notes of :class:`mercer.KernelRegressor`.
    left_out_error_ : float
        Root mean squared error of these rows, each left out, in units of the targets' deviation,
        only with ``selection="leave-one-out"``.
    evidence_ : float
        Log marginal likelihood of the targets of these rows at the choice, only with
        ``selection="evidence"``.
    path_ : dict of arrays of shape (n_alphas,)
        Scores of ``alphas``, in their order, only if they are given: "alpha" and "score" (minus the
        mean loss on held-out rows; the largest wins).
    KeyboardInterrupt
        After an interruption; the model keeps the finished trees and can predict.
    """
)
LOCAL["method"] = """\
A tree cuts the rows in two, in random directions, until no leaf has more than ``leaf_size`` rows.
Each leaf has its own kernel machine: ``min_f sum_i loss(y_i, f(x_i) + b) + n_samples * alpha / 2 *
|f|^2`` over the rows i of the leaf. Predictions are means over the trees. With one leaf the model
is the exact kernel machine of all rows.

Rows beyond the memory of the machine or the limit of :func:`mercer.set_config` are fitted through
temporary files, unless ``alphas`` is given: arrays, memory maps, or Parquet files by
:func:`mercer.datasets.memory_mapped`. A sample of the rows then decides the first cuts. The arrays
of such a model stay in temporary files that are deleted with it; saving the model needs memory for
all of them."""
LOCAL["sources"] = """\
See Also
--------
mercer.maps.LocalKernel : the cuts and the features.

References
----------
Thomann, Blaschzyk, Meister and Steinwart, Spatial decompositions for large scale SVMs,
AISTATS 2017."""


@dataclass(eq=False, repr=False)
class LocalKernelMachine(FeatureModel):
    """A kernel machine in every leaf of some trees, each solved by itself."""

    kernel: Any = "laplacian"
    _: KW_ONLY
    gamma: float | ArrayLike | str = "scale"
    loss: str | Loss = "squared"
    alpha: float | None = None
    leaf_size: int = 1000
    n_trees: int = 4
    overlap: float | None = None
    fit_intercept: bool = True
    scale: Scale = True
    tol: float = 1e-2
    max_iter: int = 1000
    n_jobs: int | None = None
    random_state: RandomStateLike = None
    alphas: ArrayLike | None = None
    validation_fraction: float = 0.2
    device: Any = None
    path_: dict[str, NDArray] = field(init=False)

    @property
    def n_leaves_(self) -> int:
        """Leaves of all trees."""
        return len(self.feature_map_.members_)

    def _stated_map(self) -> LocalKernel:
        names = ("kernel", "gamma", "leaf_size", "n_trees", "overlap", "random_state", "n_jobs")
        return LocalKernel(**{name: getattr(self, name) for name in names})

    def _input_kind(self) -> str:
        return NUMBERS

    def _begin_fit(self) -> None:
        super()._begin_fit()
        self._stated_map().check_kernel()

    def _fit_rows(self, rows: TrainingSample, listener: Listener | None, plan: FitPlan) -> None:
        map_, loss = self._stated_map(), self._loss_
        alphas = self._strengths(rows, loss)
        positive_number(self.tol, "tol")
        positive_integer(self.max_iter, "max_iter")
        self._forget()
        self.device_ = self._device_for(loss, is_far(rows.X))
        self._check_selection()
        criterion = criterion_of(self)
        if is_far(rows.X):
            if criterion is not None:
                raise ValueError(
                    f"selection must be 'holdout' over many machines; got {criterion!r}, which "
                    f"mercer.{type(self).__name__} takes."
                )
            self._fit_over_shards(map_, rows, loss, alphas, listener)
            return
        self.scaler_ = fit_scaler(rows.X, rows.weights, scale_of(self))
        if criterion is not None:
            scaled = rows.scaled(self.scaler_)
            map_, alpha, values = choose_by(
                criterion,
                scaled,
                scaled.with_resolved_gamma(map_),
                alphas[0] if self.alpha is not None else _RIDGE / len(rows),
                self.fit_intercept,
                map_.fix_key(),
            )
            self.__dict__.update(values)
            alphas = [alpha]
        is_rough = min(alphas) * len(rows) < _ROUGH_RIDGE
        if self._goes_through_files(map_, rows, is_rough):
            self._fit_through_files(map_, rows, loss, alphas[0], is_rough, listener)
            return
        X = Preprocessing(self.scaler_).scaled(rows.X)
        rows = replace(rows, X=X.astype(np.float64) if is_rough else X)
        self._check_memory(map_, rows, len(alphas))
        map_ = with_resolved_gamma(map_, rows.X, rows.weights)
        if self.alphas is not None:
            alphas = [self._chosen(map_, rows, loss, alphas)]
        self.alpha_ = alphas[0]
        self.feature_map_ = map_.fit(rows.X)  # of which a listener's coefficients are
        solution = self._solved(map_, rows, loss, alphas, listener)
        self.feature_map_ = map_.with_trees(solution.n_trees)
        theta = solution.coef[0] if rows.target.ndim == 2 else solution.coef[0, :, 0]
        self._adopt_solution(solution, theta, float(solution.optimality[0]))

    def _check_selection(self) -> None:
        """Refuse a setting ``selection``, which a machine of leaves may have, that there is not."""
        known = ("holdout", *CRITERIA)
        name_from(getattr(self, "selection", "holdout"), known, "selection")

    def _device_for(self, loss: Loss, is_far: bool) -> str:
        """Where leaves are solved: the device in force, for most losses of rows that are here.

        A ValueError if ``device`` asks for one and there is none for this fit.
        """
        device = device_in_force()
        if device is None:
            return "cpu"
        if suits_device(loss) and not is_far:
            return device.name
        if self.device is not None:
            raise ValueError(
                "device must be None or 'cpu' for losses that have a kink, are joint or not "
                f"convex, and over many machines; got {shown(self.device)}."
            )
        return "cpu"

    def _goes_through_files(self, map_: LocalKernel, rows: TrainingSample, is_rough: bool) -> bool:
        """Whether memory lacks room for the model and for the rows, scaled or in float64."""
        if self.alphas is not None or is_sparse(rows.X) or not is_large(rows.X):
            return False
        if isinstance(rows.X, PreparedRows):  # of a table that memory had no room to treat
            return True
        available = available_memory()
        growth = 8 / rows.X.dtype.itemsize if is_rough else 1.0  # leaves are solved in float64
        needed = growth * (self._needed_bytes(map_, rows, 1) + self._leaf_bytes(rows))
        needed += growth * rows.X.nbytes if self.scale or growth > 1 else 0
        return available is not None and needed > available

    def _fit_through_files(
        self,
        map_: LocalKernel,
        rows: TrainingSample,
        loss: Loss,
        alpha: float,
        is_rough: bool,
        listener: Listener | None,
    ) -> None:
        X = rows.X if isinstance(rows.X, PreparedRows) else PreparedRows(rows.X)
        X = Preprocessing(self.scaler_).scaled_rows(X)
        X = X.converted(np.float64 if is_rough else X.dtype)
        rows = replace(rows, X=X)
        self._check_leaf_memory(rows)
        memory = float(available_memory() or np.inf) - self._leaf_bytes(rows)
        self.alpha_ = alpha
        solution = solve_through_files(
            with_resolved_gamma(map_, X, rows.weights),
            X,
            rows.target,
            rows.weights,
            loss,
            alpha,
            memory,
            fit_intercept=self.fit_intercept,
            tol=self.tol,
            max_iter=self.max_iter,
            listener=listener,
        )
        self._adopt_forest(solution)

    def _fit_over_shards(
        self,
        map_: LocalKernel,
        rows: TrainingSample,
        loss: Loss,
        alphas: list[float],
        listener: Listener | None,
    ) -> None:
        is_rough = min(alphas) * len(rows) < _ROUGH_RIDGE
        how = {name: getattr(self, name) for name in ("fit_intercept", "tol", "max_iter")}
        with closing(ShardedLeaves(rows, self._target, scale_of(self), is_rough)) as far:
            self.scaler_ = far.scaler
            self._check_memory(map_, rows, 1)
            work = far.forest(far.with_resolved_gamma(map_), loss, alphas, how)
            if self.alphas is not None:
                scores = far.scores(work, self.validation_fraction)
                self.path_ = {"alpha": np.array(alphas), "score": np.array(scores)}
                work = replace(work, alphas=[alphas[int(np.argmax(scores))]])
            self.alpha_ = work.alphas[0]
            with closing(work):
                solution = work.fit(_both(listener, far.callback))
        self._adopt_forest(solution)

    def _adopt_forest(self, solution: ForestSolution) -> None:
        self.feature_map_ = solution.map
        self._adopt_solution(solution, solution.coef, solution.optimality)

    def _attributes(self, state: Any) -> dict[str, Any]:
        if not isinstance(state, ForestProgress):
            return super()._attributes(state)
        map_, theta = state.model()
        return {"feature_map_": map_, **self._coefficients(theta)}

    def _strengths(self, rows: TrainingSample, loss: Loss) -> list[float]:
        if self.alphas is not None:
            if self.alpha is not None:
                raise ValueError(f"alpha must be left out beside alphas; got {self.alpha!r}.")
            return checked_path(self.alphas, "alphas")
        if self.alpha is not None:
            return [positive_number(self.alpha, "alpha")]
        total = len(rows) if rows.weights is None else float(np.sum(rows.weights))
        return [rows.unit(loss) * (_RIDGE / total)]

    def _check_memory(self, map_: LocalKernel, rows: TrainingSample, n_alphas: int) -> None:
        """Refuse coefficients, or matrices of the leaves at work, that would not fit."""
        n, needed = len(rows), self._needed_bytes(map_, rows, n_alphas)

        def remedy(room: int) -> str:
            fitting = int(room / needed * self.n_trees)
            return f"n_trees={fitting} would fit" if fitting else "raise leaf_size or lower overlap"

        what = f"the coefficients of n_trees={self.n_trees} trees of {n} rows"
        check_memory(needed, what, remedy)
        self._check_leaf_memory(rows)

    def _check_leaf_memory(self, rows: TrainingSample) -> None:
        """Refuse matrices of the leaves at work that would not fit."""
        needed, side = self._leaf_bytes(rows), min(len(rows), self.leaf_size)
        check_memory(
            needed,
            f"{self._leaves_at_work(rows)} leaves of {side} rows side by side",
            lambda room: f"leaf_size={max(2, int((room / needed) ** 0.5 * side))} would fit",
        )

    def _leaf_bytes(self, rows: TrainingSample) -> float:
        """Bytes of the matrices of the leaves at work."""
        side = min(len(rows), self.leaf_size)
        return self._leaves_at_work(rows) * _LEAF_MATRICES * rows.X.dtype.itemsize * side**2

    def _leaves_at_work(self, rows: TrainingSample) -> int:
        n_leaves = self.n_trees * -(-len(rows) // min(len(rows), self.leaf_size))
        return min(n_threads(self.n_jobs), n_leaves)

    def _needed_bytes(self, map_: LocalKernel, rows: TrainingSample, n_alphas: int) -> float:
        """Bytes of the coefficients of all leaves and of the places of their rows."""
        numbers = rows.target.size // len(rows) * max(2, n_alphas)
        return map_.expected_members(len(rows)) * (16.0 + rows.X.dtype.itemsize * numbers)

    def _chosen(
        self, map_: LocalKernel, rows: TrainingSample, loss: Loss, alphas: Sequence[float]
    ) -> float:
        """The strength whose model of most rows has the least loss on the others."""
        target = self._target
        strata = rows.strata(target.strata)
        held = held_out(map_.fix_key(), rows.target, strata, self.validation_fraction)
        part, others = rows.taken(~held), rows.taken(held)
        share = len(rows) / len(part)  # of fewer rows, the same ridge is a larger alpha
        scaled = [alpha * share for alpha in alphas]
        fitted = map_.with_gamma(map_.stated_kernel().gamma).fit(part.X)
        solution = self._solved(fitted, part, loss, scaled, None)
        if solution.interrupted:
            raise KeyboardInterrupt
        thetas = solution.coef
        thetas = thetas if rows.target.ndim == 2 else thetas[:, :, 0]
        answers = responses(fitted, thetas, False, others.X)
        # One strength serves all labels of a row: a leaf has one factor for each strength.
        scores = [float(np.mean(target.score(answer, others))) for answer in answers]
        self.path_ = {"alpha": np.array(alphas), "score": np.array(scores)}
        return alphas[int(np.argmax(scores))]

    def _solved(
        self,
        map_: LocalKernel,
        rows: TrainingSample,
        loss: Loss,
        alphas: Sequence[float],
        listener: Listener | None,
    ) -> LocalSolution:
        def told(progress: LeafProgress) -> bool:
            theta = progress.coef if rows.target.ndim == 2 else progress.coef[:, 0]
            return bool(listener and listener(replace(progress, coef=theta)))

        return solve_leaves(
            map_,
            rows.target,
            rows.weights,
            loss,
            alphas,
            fit_intercept=self.fit_intercept,
            tol=self.tol,
            max_iter=self.max_iter,
            listener=None if listener is None else told,
        )

    def _adopt_solution(
        self, solution: LocalSolution | ForestSolution, theta: NDArray, optimality: float
    ) -> None:
        self.__dict__.update(self._coefficients(theta))
        self.n_iter_ = solution.n_iter
        self.optimality_ = optimality
        self.converged_ = self.optimality_ <= self.tol and not solution.stopped
        if solution.interrupted:
            raise KeyboardInterrupt(
                "fit was interrupted; the model holds the trees finished so far"
            )
        if not (self.converged_ or solution.stopped):
            warnings.warn(
                f"a leaf has a relative residual of {self.optimality_:.2g} above tol={self.tol:g}; "
                "raise alpha or max_iter.",
                ConvergenceWarning,
                stacklevel=4,
            )

    def _coefficients(self, theta: NDArray) -> dict[str, Any]:
        offset = np.zeros(theta.shape[1:], theta.dtype)
        return {"map_coef_": theta.T, "_intercept_": self._with_mean(offset)}


def _both(first: Listener | None, second: Listener | None) -> Listener | None:
    """A listener that tells both, and stops if one of them says so."""
    if first is None or second is None:
        return second if first is None else first
    return lambda state: bool(first(state)) | bool(second(state))


@documented(LOCAL | POSTERIOR)
@dataclass(eq=False, repr=False, kw_only=True)
class LocalKernelRegressor(Posteriors, Regression, LocalKernelMachine):
    """Regression by exact kernel machines of nearby rows, in time that is linear in the rows.

    {method}

    ``predict(X, return_std=True)`` factors the leaves of the rows again; its first call factors all
    leaves, for ``noise_std_`` and ``prior_std_``, which takes longer than the fit. The standard
    deviation returned is the mean over the trees, an upper bound for that of their mean.

    Parameters
    ----------
    {kernel, gamma, loss, alpha, leaf_size, n_trees, overlap, fit_intercept, scale, tol, max_iter}
    {n_jobs, random_state, alphas, validation_fraction, device, selection}

    Attributes
    ----------
    {feature_map_, scaler_, map_coef_, intercept_, n_leaves_, n_iter_, converged_, optimality_}
    {device_, alpha_, path_, evidence_, left_out_error_, noise_std_, prior_std_, n_features_in_}

    Raises
    ------
    {ValueError, MemoryError, KeyboardInterrupt}

    {sources}

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import LocalKernelRegressor
    >>> X = np.random.default_rng(0).uniform(-3, 3, size=(500, 2))
    >>> y = np.sin(X).sum(axis=1)
    >>> model = LocalKernelRegressor(leaf_size=100, random_state=0).fit(X, y)
    >>> model.score(X, y) > 0.9
    True
    """

    selection: str = "holdout"


@documented(LOCAL)
@dataclass(eq=False, repr=False, kw_only=True)
class LocalKernelClassifier(Classification, LocalKernelMachine):
    """Classification by exact kernel machines of nearby rows, in time that is linear in the rows.

    {method}
    More than two classes are one response each. Rows may have several labels: y of shape
    (n_samples, n_labels) holds 0 and 1, as for :class:`mercer.KernelClassifier`; ``alphas`` choose
    one strength for all labels.

    Parameters
    ----------
    {kernel, gamma}
    loss : str or a loss, default="squared"
        "squared", "logistic", "hinge", "squared_hinge", "smooth_hinge" or "multinomial".
    {alpha, leaf_size, n_trees, overlap, fit_intercept, scale, tol, max_iter, n_jobs, random_state}
    {alphas, validation_fraction, device, class_weight}

    Attributes
    ----------
    {classes_, feature_map_, scaler_, map_coef_, intercept_, n_leaves_, n_iter_, converged_}
    {optimality_, device_, alpha_, path_, n_features_in_}

    Raises
    ------
    {ValueError, MemoryError, KeyboardInterrupt}

    {sources}

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import LocalKernelClassifier
    >>> X = np.random.default_rng(0).normal(size=(500, 2))
    >>> y = np.where(np.hypot(*X.T) < 1, "inside", "outside")
    >>> model = LocalKernelClassifier(leaf_size=100, random_state=0).fit(X, y)
    >>> model.predict([[0.0, 0.0], [2.0, 2.0]]).tolist()
    ['inside', 'outside']
    """

    class_weight: dict[Any, float] | str | None = None

    _takes_indicators: ClassVar[bool] = True
