"""Sparse kernel regression and classification."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import KW_ONLY, dataclass, replace
from functools import partial
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone

from mercer import penalties
from mercer._runtime.random import RandomStateLike
from mercer._runtime.validation import is_name, name_from, positive_integer
from mercer.estimators._documentation import SHARED, documented, entries
from mercer.estimators.base import FeatureModel, Listener, described, raise_if_interrupted
from mercer.estimators.classification import Classification
from mercer.estimators.machine import checked_strength, with_default_strength
from mercer.estimators.plan import FitPlan
from mercer.estimators.precision import warn_of_rough_features
from mercer.estimators.preprocessing import Preprocessing, Scale, TrainingSample, scale_of
from mercer.estimators.regression import Regression
from mercer.estimators.selection import held_out, split_key
from mercer.losses import Loss
from mercer.maps import FeatureMap, RandomBinning
from mercer.maps.base import responses
from mercer.maps.members import FeatureSequence, feature_sequence
from mercer.problem import Problem
from mercer.solvers import (
    AsyncSVRG,
    CoordinateDescent,
    Selection,
    Solver,
    Stream,
    WorkingSet,
    polished,
)

__all__ = ["SparseKernelClassifier", "SparseKernelRegressor"]

_N_COLUMNS = 256  # drawn in a round, unless the map says otherwise
_N_GRIDS = 64
# Tolerance of a round's coordinate descent, as a share of ``tol``. Features without a weight leave
# the search: at 1 rounding decides which, and probabilities of small tables move by 0.04.
_INNER_SHARE = 1 / 30
_CV_ALPHAS = 10.0 ** np.arange(-0.5, -3.75, -0.25)  # shares of the least that leaves no weights
_INNER: dict[str, Callable[..., Solver]] = {
    **dict.fromkeys(("auto", "cd"), CoordinateDescent),
    "async": AsyncSVRG,
    "asydsskl": AsyncSVRG.asydsskl,
}
_TEXTS = SHARED | entries(
    """
    feature_map : str or map, default="fourier"
        Sequence of random features: "fourier", "binning", "fastfood" or "perceptron", or a
        map object with its own settings, such as ``feature_map__form``. Columns are used unscaled,
        as with ``scale=False``.
    penalty : "l1", "elastic-net" or a penalty, default="l1"
        Term added to the mean loss. A penalty object has its own alpha.
    alpha : float, "cv" or None, default=None
        Strength of the penalty, >= 0. None means 0.01 times the least strength that sets the
        weights of all features of the first round to zero; "cv" tries thirteen strengths and takes
        the one with the least mean loss on held-out rows.
    l1_ratio : float or None, default=None
        Share r of ``||w||_1`` in ``alpha * (r * ||w||_1 + (1 - r) / 2 * ||w||^2)``, above 0 and at
        most 1; None means 0.5. Only for "elastic-net".
    n_new : int or None, default=None
        Number of features (of grids for binning) drawn per round, >= 1. None means the
        ``n_components`` of a map object, else 256 features or 64 grids.
    max_rounds : int, default=20
        Largest number of rounds, >= 1. The search ends earlier if two rounds in a row lower the
        objective by less than the share ``tol``.
    solver : "auto", "cd", "async", "asydsskl" or a solver, default="auto"
        Algorithm that solves the problem of a round. "auto" is "cd", by far the faster. "asydsskl"
        is ``solvers.AsyncSVRG.asydsskl``, asynchronous doubly stochastic steps as in the paper of
        that name.
    polish : bool, default=False
        Whether at most three sweeps of proximal steps along all selected features follow the last
        round, which set tiny weights to zero. Stochastic steps ("async", "asydsskl") leave many.
    tol : float, default=1e-3
        Duality gap, relative to the objective of a constant model, at which stochastic steps stop;
        coordinate descent solves each round to a thirtieth of it, so that rounding does not decide
        which features leave the search.
    max_iter : int, default=1000
        Largest number of solver iterations in a round; the solver then stops with a
        ``ConvergenceWarning``.
    n_jobs : int or None, default=None
        Number of threads of the map and the solver; None and -1 mean all that the process may use.
    warm_start : bool, default=False
        Whether the next fit reuses the scaler and the selected features and continues the sequence
        where the last fit stopped. It does so only while the settings of the map stay the same.
    feature_map_ : map
        Map of the features with a weight; it stores their indices in the sequence and its key.
    map_coef_ : ndarray of shape (n_features_active_,) or (n_outputs, n_features_active_)
        Weights of the features of ``feature_map_``.
    n_features_active_ : int
        Number of features that have a weight in any output.
    n_drawn_ : int
        Number of features (of grids for binning) drawn in all rounds.
    dual_gap_ : float
        Upper bound on the objective minus its minimum over the features of the last round; None for
        a loss that is not convex.
    rounds_ : dict of arrays of shape (n_rounds,)
        State after each round: "time" in seconds, "objective", "dual_gap" (NaN if the loss is not
        convex), "n_drawn" and "n_active".
    alpha_path_ : dict of arrays of shape (n_alphas,)
        Scores of the strengths tried, only with ``alpha="cv"``: "alpha", "score" (minus the mean
        loss on held-out rows; the largest wins) and "n_features_active".
    solver_ : str
        Name of the solver used.
    n_iter_ : int
        Number of solver iterations, summed over the rounds.
    converged_ : bool
        Whether the solver reached its tolerance in the last round.
    optimality_ : float
        Value of the stopping criterion of the solver at the end of the last round.
    """
)
_TEXTS["method"] = """\
Each round draws new features, solves ``min_w mean_i loss(y_i, w . z(x_i) + b) + alpha * ||w||_1``
on these and the features kept, and drops the features with weight zero. The model stores the key
of the sequence and the indices and weights of its features: its file takes kilobytes and a
prediction microseconds, however many features were drawn."""
_TEXTS["paper"] = """\
Yen, Lin, Lin, Ravikumar and Dhillon, Sparse random features algorithm as coordinate descent in
Hilbert space, NIPS 2014. Gu, Miao, Huo and Huang, Asynchronous doubly stochastic sparse kernel
learning, AAAI 2018, algorithms 1 and 2 (``solver="asydsskl"``)."""


@dataclass(eq=False, repr=False)
class SparseMachine(FeatureModel):
    """A kernel machine that keeps the features with weights and forgets the map they came from.

    ``feature_map_`` is the map of those features alone, and the parameter ``feature_map`` is where
    they are drawn from.
    """

    feature_map: str | FeatureMap = "fourier"
    _: KW_ONLY
    kernel: Any = None
    gamma: float | ArrayLike | str = "scale"
    loss: str | Loss = "squared"
    penalty: str | penalties.Penalty = "l1"
    alpha: float | str | None = None
    l1_ratio: float | None = None
    n_new: int | None = None
    max_rounds: int = 20
    solver: str | Solver = "auto"
    fit_intercept: bool = True
    scale: Scale = True
    tol: float = 1e-3
    max_iter: int = 1000
    n_jobs: int | None = None
    random_state: RandomStateLike = None
    warm_start: bool = False
    validation_fraction: float = 0.2
    polish: bool = False

    def path(
        self, X: Any, y: Any, alphas: Iterable[float], sample_weight: Any = None
    ) -> list[Self]:
        """Models for several strengths of the penalty, each warm-started from the one before.

        All models draw from the start of the same sequence of features. Models of neighbouring
        strengths share most features, so that a path takes little longer than its weakest penalty.

        Parameters
        ----------
        X : array, data frame or CSR of shape (n_samples, n_features)
        y : array of shape (n_samples,) or, for regression, (n_samples, n_outputs)
        alphas : iterable of float
            Strengths of the penalty, >= 0, in any order.
        sample_weight : array of shape (n_samples,), default=None

        Returns
        -------
        list of estimator
            One fitted copy of this model per strength, the largest strength first. This model stays
            unchanged.
        """
        models: list[Self] = []
        for alpha in sorted(alphas, reverse=True):
            model = clone(self).set_params(alpha=alpha, warm_start=False)
            model._follows = models[-1] if models else None
            try:
                model.fit(X, y, sample_weight)
            finally:
                del model._follows
            models.append(model)
        return models

    # -- fitting -----------------------------------------------------------------------------

    def _fit_rows(self, rows: TrainingSample, listener: Listener | None, plan: FitPlan) -> None:
        map_, n_new = self._map()
        settings, width = described(map_, self.scale), rows.X.shape[1:]
        previous, start = self._previous(settings, width), None
        if previous is None:
            prepared, scaled = Preprocessing.fitted(map_, rows, scale_of(self))
            warn_of_rough_features(prepared.feature_map, scaled)
        else:
            prepared = previous._preprocessing
            scaled = prepared.scaled(rows.X)
        self.scaler_ = prepared.scaler
        source, rows = Stream(prepared.feature_map, scaled), replace(rows, X=scaled)
        if previous is not None:
            start = self._continued(previous, source, rows.target)
        if start is None:
            self._forget()
        search = self._search(n_new)
        penalty = self._chosen_penalty(source, rows, search, n_new)
        problem_of = self._problems(rows, penalty)
        selection = search.solve(source, problem_of, start, listener)
        if self.polish and not selection.interrupted:
            selection = polished(selection, problem_of, self.n_jobs)
        self._settings_, self._width_ = settings, width
        self.alpha_ = penalty.alpha
        self._adopt_selection(selection, source, search)

    def _map(self) -> tuple[FeatureMap, int]:
        """The map that features are drawn from, raw and small, and the features of a round."""
        map_ = self._stated_map()
        settings = map_.get_params(deep=False)
        if "scale" not in settings or "n_components" not in settings:
            feature_sequence(map_).stream(None, 0, 1)  # refuses the map, and names those that do
        n_new = self.n_new
        if n_new is None and isinstance(self.feature_map, FeatureMap):
            n_new = settings["n_components"]
        elif n_new is None:
            n_new = _N_GRIDS if isinstance(map_, RandomBinning) else _N_COLUMNS
        # The features of a sequence do not depend on how many there are; two will do for its start.
        return map_.set_params(scale=False, n_components=2), positive_integer(n_new, "n_new")

    @property
    def _chooses(self) -> bool:
        return is_name(self.alpha, "cv")

    def _search(self, n_new: int) -> WorkingSet:
        """The working set of the settings."""
        solver: Any = self.solver
        if not isinstance(solver, Solver):
            inner = _INNER[name_from(solver, tuple(_INNER), "solver")]
            solver = inner(tol=self.tol, max_iter=self.max_iter)
            if isinstance(solver, CoordinateDescent):
                solver = replace(solver, tol=_INNER_SHARE * solver.tol)
        return WorkingSet(solver, n_new, self.max_rounds, self.tol)

    def _previous(self, settings: str, width: tuple[int, ...]) -> Self | None:
        """The fitted model whose scaler, map and features this fit begins with, if any."""
        follows = getattr(self, "_follows", None)
        if follows is not None:
            return follows
        if not self.warm_start or getattr(self, "_settings_", None) != settings:
            return None
        return self if getattr(self, "_width_", None) == width else None

    def _continued(self, previous: Self, source: Stream, target: NDArray) -> Selection | None:
        """The features of ``previous``, as the start of another search."""
        if np.shape(previous._intercept_) != target.shape[1:]:
            return None  # other outputs or classes than last time
        design = previous.feature_map_.design(source.X)
        n_drawn = previous.n_drawn_ if previous is self else 0
        theta = previous._theta().astype(design.dtype)
        return Selection(previous.feature_map_, design, theta, n_drawn, [])

    def _problems(self, rows: TrainingSample, penalty: penalties.Penalty) -> partial[Problem]:
        """The problem as a function of its design."""
        return partial(
            Problem,
            y=rows.target,
            loss=self._loss_,
            penalty=penalty,
            sample_weight=rows.weights,
            fit_intercept=self.fit_intercept,
        )

    def _chosen_penalty(
        self, source: Stream, rows: TrainingSample, search: WorkingSet, n_new: int
    ) -> penalties.Penalty:
        """The penalty at a strength that is given, follows from the data, or is tried out."""
        alpha: Any = self.alpha
        follows = alpha is None or is_name(alpha, "cv")
        penalty = penalties.get(self.penalty, 1.0 if follows else alpha, self.l1_ratio)
        if not penalty.l1 and penalty.alpha:
            raise ValueError(f"penalty must have an l1 part for a sparse model; got {penalty!r}.")
        if isinstance(self.penalty, penalties.Penalty):
            return checked_strength(penalty, self.alpha)
        if not follows:
            return penalty
        problem = self._problems(rows, penalty)(source.draw(0, n_new)[1])
        default = with_default_strength(problem).penalty
        if self.alpha is None or default.alpha == penalty.alpha:
            return default
        strongest = problem.alpha_max()
        return self._best_penalty(source, rows, search, n_new, strongest * _CV_ALPHAS)

    def _best_penalty(
        self, source: Stream, rows: TrainingSample, search: WorkingSet, n_new: int, alphas: NDArray
    ) -> penalties.Penalty:
        """The strength that predicts held-out rows best, along one path of warm starts."""
        key, target = split_key(source.feature_map, self.random_state), self._target
        strata = rows.strata(target.strata)
        held = held_out(key, rows.target, strata, self.validation_fraction)
        fitted, judged = rows.taken(~held), rows.taken(held)
        inside, selection = Stream(source.feature_map, fitted.X), None
        scores, n_active = [], []
        for alpha in alphas:
            penalty = penalties.get(self.penalty, alpha, self.l1_ratio)
            if selection is not None:
                selection.n_drawn = 0
            selection = search.solve(inside, self._problems(fitted, penalty), selection)
            map_ = _map_of(selection, source)
            if selection.interrupted:
                self._adopt_selection(selection, source, search)
            predicted = responses(map_, selection.coef[None], self.fit_intercept, judged.X)[0]
            scores.append(target.score(predicted, judged))
            n_active.append(selection.n_active)
        self.alpha_path_ = {
            "alpha": np.array(alphas),
            "score": np.array(scores),
            "n_features_active": np.array(n_active),
        }
        return penalties.get(self.penalty, float(alphas[int(np.argmax(scores))]), self.l1_ratio)

    def _adopt_selection(self, selection: Selection, source: Stream, search: WorkingSet) -> None:
        """Make the selected features the fitted model."""
        self.feature_map_, order = _map_of(selection, source).tidied()
        # An intercept stays last.
        order = np.append(order, np.arange(selection.n_active, len(selection.coef)))
        self._adopt(search.inner.name, selection, selection.coef[order])
        self.dual_gap_ = selection.dual_gap
        self.n_drawn_ = selection.n_drawn
        self.n_features_active_ = selection.n_active
        self.rounds_ = {
            name: np.array([getattr(row, name) for row in selection.rounds])
            for name in ("time", "objective", "n_drawn", "n_active")
        }
        # None, of a loss that is not convex, becomes NaN.
        gaps = [row.dual_gap for row in selection.rounds]
        self.rounds_["dual_gap"] = np.array(gaps, dtype=float)
        raise_if_interrupted(selection)


def _map_of(selection: Selection, source: Stream) -> FeatureSequence:
    """The map of the selected features, which may be none."""
    if selection.feature_map is not None:
        return selection.feature_map
    sequence = feature_sequence(source.feature_map)
    return sequence.stream(source.X[:1], 0, 1)[0].excerpt(np.empty(0, dtype=np.int64))


@documented(_TEXTS)
class SparseKernelRegressor(Regression, SparseMachine):
    """Kernel regression with few features, selected from an endless sequence of random features.

    {method}

    Parameters
    ----------
    {feature_map, kernel, gamma, loss, penalty, alpha, l1_ratio, n_new, max_rounds, solver}
    {fit_intercept, scale, tol, max_iter, n_jobs, random_state, warm_start}
    validation_fraction : float, default=0.2
        Share of the rows held out for ``alpha="cv"``, above 0 and below 1.
    {polish}

    Attributes
    ----------
    {feature_map_, scaler_, map_coef_, intercept_, alpha_, n_features_active_, n_drawn_, dual_gap_}
    {rounds_, alpha_path_, solver_, n_iter_, converged_, optimality_, n_features_in_}

    Raises
    ------
    {ValueError, MemoryError, KeyboardInterrupt}

    References
    ----------
    {paper}

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import SparseKernelRegressor
    >>> X = np.random.default_rng(0).uniform(-3, 3, size=(500, 2))
    >>> model = SparseKernelRegressor(random_state=0).fit(X, np.sin(X).sum(axis=1))
    >>> model.n_features_active_ < 100 < model.n_drawn_
    True
    >>> model.score(X, np.sin(X).sum(axis=1)) > 0.9
    True
    """


@documented(_TEXTS)
@dataclass(eq=False, repr=False, kw_only=True)
class SparseKernelClassifier(Classification, SparseMachine):
    """Kernel classification with few features, selected from an endless random sequence.

    {method}
    With more than two classes there is one response per class, fitted one against all others; all
    share one set of features.

    Parameters
    ----------
    {feature_map, kernel, gamma}
    loss : str or a loss, default="squared_hinge"
        "squared_hinge", "smooth_hinge", "logistic" (which models probabilities), "squared" or
        "sigmoid". The sigmoid loss of a row is at most 1, so that wrong labels have little effect.
    {penalty, alpha, l1_ratio, n_new, max_rounds, solver, fit_intercept, scale, tol, max_iter}
    {n_jobs, random_state, warm_start}
    validation_fraction : float, default=0.2
        Share of the rows of each class held out for ``alpha="cv"``, above 0 and below 1.
    {polish, class_weight}

    Attributes
    ----------
    {classes_, feature_map_, scaler_, map_coef_, intercept_, alpha_, n_features_active_, n_drawn_}
    {dual_gap_, rounds_, alpha_path_, solver_, n_iter_, converged_, optimality_, n_features_in_}

    Raises
    ------
    {ValueError, MemoryError, KeyboardInterrupt}

    References
    ----------
    {paper}

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import SparseKernelClassifier
    >>> X = np.random.default_rng(0).normal(size=(500, 2))
    >>> y = np.where(np.hypot(*X.T) < 1, "inside", "outside")
    >>> model = SparseKernelClassifier(random_state=0).fit(X, y)
    >>> model.predict([[0.0, 0.0], [2.0, 2.0]]).tolist()
    ['inside', 'outside']
    """

    loss: str | Loss = "squared_hinge"
    class_weight: dict[Any, float] | str | None = None
