"""What sparse regression and classification share: the search for features, and what is left."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from functools import partial
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from mercer import maps, penalties, solvers
from mercer._validation import name_from, positive_integer
from mercer.estimators.base import KernelMachine, with_default_strength, with_resolved_gamma
from mercer.estimators.selection import Part, held_out, mean_loss, responses, split_key
from mercer.maps import FeatureMap, RandomBinning
from mercer.maps.sequence import FeatureSequence, feature_sequence
from mercer.problem import Problem
from mercer.solvers import Selection, Solver, Stream, WorkingSet

__all__ = ["SparseMachine"]

_N_COLUMNS = 256  # drawn in a round, unless the map says otherwise
_N_GRIDS = 64
_CV_ALPHAS = 10.0 ** np.arange(-0.5, -3.75, -0.25)  # shares of the least that leaves no weights


class SparseMachine(KernelMachine):
    """A kernel machine that keeps the features with weights and forgets the map they came from.

    ``feature_map_`` is the map of those features alone, and the parameter ``feature_map`` is where
    they are drawn from.
    """

    def __init__(
        self,
        feature_map="fourier",
        *,
        kernel=None,
        gamma="scale",
        loss="squared",
        penalty="l1",
        alpha=None,
        l1_ratio=None,
        n_new=None,
        max_rounds=20,
        solver="auto",
        fit_intercept=True,
        scale=True,
        tol=1e-3,
        max_iter=1000,
        n_jobs=None,
        random_state=None,
        warm_start=False,
        validation_fraction=0.2,
    ):
        self.feature_map = feature_map
        self.kernel = kernel
        self.gamma = gamma
        self.loss = loss
        self.penalty = penalty
        self.alpha = alpha
        self.l1_ratio = l1_ratio
        self.n_new = n_new
        self.max_rounds = max_rounds
        self.solver = solver
        self.fit_intercept = fit_intercept
        self.scale = scale
        self.tol = tol
        self.max_iter = max_iter
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.warm_start = warm_start
        self.validation_fraction = validation_fraction

    def path(
        self, X: Any, y: Any, alphas: Iterable[float], sample_weight: Any = None
    ) -> list[Self]:
        """Models for several strengths of the penalty, each warm-started from the one before.

        All see the same sequence of features from its start. Models of neighbouring strengths have
        most features in common, so that a path costs little more than its weakest penalty does.

        Parameters
        ----------
        X : array, data frame or CSR of shape (n_samples, n_features)
        y : array of shape (n_samples,) or, for regression, (n_samples, n_outputs)
        alphas : iterable of float
            Strengths, >= 0, in any order.
        sample_weight : array of shape (n_samples,), default=None

        Returns
        -------
        list of estimator
            A fitted copy of this model for every strength, the largest first; this model stays as
            it is.
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

    def _fit(self, X: Any, y: Any, target: NDArray, weights: NDArray | None, loss: Any) -> None:
        context = self._init_callback_context(max_subtasks=None)
        context.call_on_fit_task_begin(estimator=self, X=X, y=y)
        seen = X
        if weights is not None and not weights.all():
            rows = np.flatnonzero(weights)  # no weight is the same as not being there
            seen, target, weights = X[rows], target[rows], weights[rows]
        map_, n_new = self._map()
        with np.printoptions(threshold=sys.maxsize, precision=17):
            settings = repr((type(map_).__name__, map_.get_params(), self.scale))
        previous = self._previous(settings, seen)
        if previous is None:
            self.scaler_ = self._fit_scaler(seen, weights)
            scaled = self._scaled(seen)
            source = Stream(with_resolved_gamma(map_, scaled, weights).fit(scaled), scaled)
            start = None
        else:
            self.scaler_ = previous.scaler_
            source = Stream(previous.feature_map_, self._scaled(seen))
            start = self._continued(previous, source, target)
        if start is None:
            self._forget()
        part = Part(source.X, target, weights)
        search = WorkingSet(self._inner(), n_new, self.max_rounds, self.tol)
        penalty = self._chosen_penalty(source, part, loss, search)
        problem_of = self._problems(part, loss, penalty)
        found = search.solve(source, problem_of, start, self._bridge(context, X, y))
        self._settings_, self._width_ = settings, seen.shape[1:]
        self.alpha_ = penalty.alpha
        self._adopt_selection(found, source, search)
        context.call_on_fit_task_end(estimator=self, X=X, y=y, reconstruction_attributes=dict)

    def _map(self) -> tuple[FeatureMap, int]:
        """The map that features are drawn from, raw and small, and how many go into a round."""
        map_ = maps.get(
            self.feature_map,
            kernel=self.kernel,
            gamma=self.gamma,
            random_state=self.random_state,
            n_jobs=self.n_jobs,
        )
        own = map_.get_params(deep=False)
        if "scale" not in own or "n_components" not in own:
            feature_sequence(map_).stream(None, 0, 1)  # raises
        n_new = self.n_new
        if n_new is None and isinstance(self.feature_map, FeatureMap):
            n_new = own["n_components"]
        elif n_new is None:
            n_new = _N_GRIDS if isinstance(map_, RandomBinning) else _N_COLUMNS
        # The features of a sequence do not depend on how many there are; two will do for its start.
        return map_.set_params(scale=False, n_components=2), positive_integer(n_new, "n_new")

    def _inner(self) -> Solver:
        if isinstance(self.solver, Solver):
            return self.solver
        name = name_from(self.solver, ("auto", "cd", "async"), "solver")
        return solvers.SOLVERS["cd" if name == "auto" else name](
            tol=self.tol, max_iter=self.max_iter
        )

    def _previous(self, settings: str, X: Any) -> Any:
        """The fitted model whose scaler, map and features this fit begins with, if any."""
        follows = getattr(self, "_follows", None)
        if follows is not None:
            return follows
        if not self.warm_start or getattr(self, "_settings_", None) != settings:
            return None
        return self if getattr(self, "_width_", None) == X.shape[1:] else None

    def _continued(self, previous: Any, source: Stream, target: NDArray) -> Selection | None:
        """What ``previous`` found, as the start of another search."""
        if np.shape(previous.intercept_) != target.shape[1:]:
            return None  # other outputs or classes than last time
        design = previous.feature_map_.design(source.X)
        theta = previous.coef_.T
        if self.fit_intercept:
            theta = np.concatenate([theta, [previous.intercept_ - previous._target_mean_]])
        n_drawn = previous.n_drawn_ if previous is self else 0
        return Selection(previous.feature_map_, design, theta.astype(design.dtype), n_drawn, [])

    def _problems(self, part: Part, loss: Any, penalty: Any) -> Any:
        """The problem as a function of its design."""
        return partial(
            Problem,
            y=part.target,
            loss=loss,
            penalty=penalty,
            sample_weight=part.weights,
            fit_intercept=self.fit_intercept,
        )

    def _chosen_penalty(
        self, source: Stream, part: Part, loss: Any, search: WorkingSet
    ) -> penalties.Penalty:
        """The penalty at a strength that is given, follows from the data, or is tried out."""
        follows = self.alpha is None or (isinstance(self.alpha, str) and self.alpha == "cv")
        penalty = penalties.get(self.penalty, 1.0 if follows else self.alpha, self.l1_ratio)
        if not penalty.l1 and penalty.alpha:
            raise ValueError(f"penalty must have an l1 part for a sparse model; got {penalty!r}.")
        if isinstance(self.penalty, penalties.Penalty):
            if self.alpha is not None and penalty.alpha != self.alpha:
                raise ValueError(
                    f"alpha is given twice and differs: {self.alpha!r} beside {penalty!r}; "
                    "say it once."
                )
            return penalty
        if not follows:
            return penalty
        problem_of = self._problems(part, loss, penalty)
        problem = problem_of(source.draw(0, search.n_new)[1])
        default = with_default_strength(problem).penalty
        if self.alpha is None or default.alpha == penalty.alpha:
            return default
        strongest = problem.alpha_max()
        return self._best_penalty(source, part, loss, search, strongest * _CV_ALPHAS)

    def _best_penalty(
        self, source: Stream, part: Part, loss: Any, search: WorkingSet, alphas: NDArray
    ) -> penalties.Penalty:
        """The strength that predicts held-out rows best, along one path of warm starts."""
        key = split_key(self, source.feature_map)
        held = held_out(key, part.target, self._strata(part.target), self.validation_fraction)
        fitted, judged = part.rows(~held), part.rows(held)
        inside, found = Stream(source.feature_map, fitted.X), None
        scores, n_active = [], []
        for alpha in alphas:
            penalty = penalties.get(self.penalty, alpha, self.l1_ratio)
            if found is not None:
                found.n_drawn = 0
            found = search.solve(inside, self._problems(fitted, loss, penalty), found)
            map_ = _of(found, source)
            if found.interrupted:
                self._adopt_selection(found, source, search)
            given = responses(self, map_, found.coef[None], judged)[0]
            scores.append(-mean_loss(given, judged, loss))
            n_active.append(found.n_active)
        self.alpha_path_ = {
            "alpha": np.array(alphas),
            "score": np.array(scores),
            "n_features_active": np.array(n_active),
        }
        return penalties.get(self.penalty, float(alphas[int(np.argmax(scores))]), self.l1_ratio)

    def _adopt_selection(self, found: Selection, source: Stream, search: WorkingSet) -> None:
        """Make the features found the fitted model."""
        self.feature_map_, order = _of(found, source).tidied()
        # An intercept stays last.
        order = np.append(order, np.arange(found.n_active, len(found.coef)))
        self._set_coefficients(found.coef[order])
        self.solver_ = search.inner.name
        self.n_iter_ = max(1, found.n_iter)
        self.converged_ = found.converged
        self.optimality_ = found.optimality
        self.dual_gap_ = found.dual_gap
        self.n_drawn_ = found.n_drawn
        self.n_features_active_ = found.n_active
        self.rounds_ = {
            name: np.array([getattr(row, name) for row in found.rounds])
            for name in ("time", "objective", "n_drawn", "n_active")
        }
        # None, of a loss that is not convex, becomes NaN.
        self.rounds_["dual_gap"] = np.array([row.dual_gap for row in found.rounds], dtype=float)
        if found.interrupted:
            # The model reached so far is in place; the caller's loop still has to stop.
            raise KeyboardInterrupt("fit was interrupted; the model holds the last iterate")


def _of(found: Selection, source: Stream) -> FeatureSequence:
    """The map of the features found, which may be none."""
    if found.feature_map is not None:
        return found.feature_map
    some = source.X[:1]
    sequence = feature_sequence(source.feature_map)
    return sequence.stream(some, 0, 1)[0].excerpt(np.empty(0, dtype=np.int64))
