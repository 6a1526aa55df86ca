"""What regression and classification share: scaler, map, problem, solver, prediction in chunks."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.callback import CallbackSupportMixin
from sklearn.utils.validation import check_consistent_length, check_is_fitted, validate_data

from mercer import maps, penalties, solvers
from mercer._array import check_memory
from mercer._rows import selected
from mercer._validation import float_type
from mercer.designs import Design
from mercer.estimators.bandwidth import at_chosen_gamma
from mercer.estimators.inputs import ScaledInputs, check_weights, float_types
from mercer.kernels.text import checked_texts
from mercer.maps import FeatureMap
from mercer.problem import Problem

__all__ = ["KernelMachine", "check_weights", "with_default_strength", "with_resolved_gamma"]

# Ridge of the default alpha in the kernel system (K + 0.3 I) a = y: over public tables the exact
# kernel does best with 0.1 and a few hundred random grids with 0.1 to 1.
_ALPHA = 0.3
# Default strength of a penalty with an l1 part, as a share of the least that leaves no weights.
_L1_SHARE = 0.01
# Vectors of a number per column and output that an iterative solver works with.
_SOLVER_VECTORS = 5.0


class KernelMachine(ScaledInputs, CallbackSupportMixin, BaseEstimator):
    """A feature map, a loss, a penalty and a solver; subclasses say what y means."""

    feature_map_: FeatureMap
    coef_: NDArray
    intercept_: NDArray
    _target_mean_: NDArray
    _width_: tuple[int, ...]

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
        solver="auto",
        fit_intercept=True,
        scale=True,
        tol=1e-2,
        max_iter=1000,
        n_jobs=None,
        random_state=None,
        warm_start=False,
        gamma_path=None,
        validation_fraction=0.2,
    ):
        self.feature_map = feature_map
        self.kernel = kernel
        self.gamma = gamma
        self.n_components = n_components
        self.loss = loss
        self.penalty = penalty
        self.alpha = alpha
        self.l1_ratio = l1_ratio
        self.solver = solver
        self.fit_intercept = fit_intercept
        self.scale = scale
        self.tol = tol
        self.max_iter = max_iter
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.warm_start = warm_start
        self.gamma_path = gamma_path
        self.validation_fraction = validation_fraction

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = not self._takes_text()
        tags.input_tags.string = tags.input_tags.one_d_array = self._takes_text()
        tags.input_tags.two_d_array = not self._takes_text()
        return tags

    def set_params(self, **params):
        """Set parameters by name, those of a map as ``feature_map__gamma``.

        Raises
        ------
        ValueError
            If there is no such parameter, or a map's is set where ``feature_map`` is a name.
        """
        for name in params:
            owner, inner, _ = name.partition("__")
            value = params.get(owner, getattr(self, owner, self))
            if inner and not hasattr(value, "set_params"):
                raise ValueError(
                    f"{name} must be set on a map of mercer.maps; got {owner}={value!r}, and "
                    "kernel, gamma and n_components are parameters of the model itself."
                )
        return super().set_params(**params)

    # -- fitting -----------------------------------------------------------------------------

    def _fit(self, X: Any, y: Any, target: NDArray, weights: NDArray | None, loss: Any) -> None:
        """Solve for ``target``; X and y as given go to the callbacks."""
        context = self._init_callback_context(max_subtasks=None)
        context.call_on_fit_task_begin(estimator=self, X=X, y=y)
        seen = X
        if weights is not None and not weights.all():
            rows = np.flatnonzero(weights)  # no weight is the same as not being there
            seen, target, weights = selected(X, rows), target[rows], weights[rows]
        design, continues = self._prepare(seen, target, weights, loss)
        problem = self._problem(design, target, weights, loss)
        solver = solvers.get(self.solver, problem, tol=self.tol, max_iter=self.max_iter)
        # Other outputs or classes than last time have nothing to continue from.
        continues = continues and np.shape(self.intercept_) == target.shape[1:]
        start = self._start() if continues else None
        self._adopt(solver, solver.solve(problem, start, self._bridge(context, X, y)))
        context.call_on_fit_task_end(estimator=self, X=X, y=y, reconstruction_attributes=dict)

    def _prepare(
        self, X: Any, target: NDArray, weights: NDArray | None, loss: Any
    ) -> tuple[Design, bool]:
        """The design of the data, and whether scaler and map are those of the last fit."""
        map_ = maps.get(
            self.feature_map,
            kernel=self.kernel,
            gamma=self.gamma,
            n_components=self.n_components,
            random_state=self.random_state,
            n_jobs=self.n_jobs,
        )
        path = (self.gamma_path, self.validation_fraction)
        with np.printoptions(threshold=sys.maxsize, precision=17):
            settings = repr((type(map_).__name__, map_.get_params(), self.scale, path))
        again = self.warm_start and getattr(self, "_settings_", None) == settings
        if again and self._width_ == X.shape[1:]:
            return self.feature_map_.design(self._scaled_rows(X)), True
        for name in ("_settings_", "gamma_path_"):  # nothing of them if this fit is interrupted
            self.__dict__.pop(name, None)
        self.scaler_ = self._fit_scaler(X, weights)
        scaled = self._scaled_rows(X)
        if self.gamma_path is None:
            map_ = with_resolved_gamma(map_, scaled, weights)
        else:
            map_ = at_chosen_gamma(self, map_, scaled, target, weights, loss)
        design = map_.fit_design(scaled)
        self.feature_map_, self._settings_, self._width_ = map_, settings, X.shape[1:]
        return design, False

    def _problem(
        self, design: Design, target: NDArray, weights: NDArray | None, loss: Any
    ) -> Problem:
        """What is to be solved for these rows, if there is room to solve it."""
        n_outputs = target.size // len(target)
        needed = _SOLVER_VECTORS * design.dtype.itemsize * design.shape[1] * n_outputs
        check_memory(
            needed,
            f"solving for {design.shape[1]} columns and {n_outputs} outputs",
            lambda room: f"use fewer n_components, {room / needed:.1%} of them at most",
        )
        penalty = self._resolve_penalty(design.shape[0], weights)
        problem = Problem(design, target, loss, penalty, weights, self.fit_intercept)
        if self.alpha is None and isinstance(self.penalty, str) and penalty.l1:
            return with_default_strength(problem)
        return problem

    def _adopt(self, solver: Any, result: Any) -> None:
        """Make a solver's result the fitted model."""
        self._set_coefficients(result.coef)
        self.solver_ = solver.name
        self.n_iter_ = max(1, result.n_iter)
        self.converged_ = result.converged
        self.optimality_ = result.optimality
        self.trace_ = result.trace
        if result.interrupted:
            # The model reached so far is in place; the caller's loop still has to stop.
            raise KeyboardInterrupt("fit was interrupted; the model holds the last iterate")

    def _strata(self, target: NDArray) -> NDArray | None:
        """What every part of the rows is to have its share of, if anything."""
        return None

    def _resolve_penalty(self, n_samples: int, weights: NDArray | None) -> Any:
        default = _ALPHA / (n_samples if weights is None else float(np.sum(weights)))
        alpha = default if self.alpha is None else self.alpha
        penalty = penalties.get(self.penalty, alpha, self.l1_ratio)
        if self.alpha is not None and penalty.alpha != self.alpha:
            raise ValueError(
                f"alpha is given twice and differs: {self.alpha!r} beside {penalty!r}; say it once."
            )
        return penalty

    def _bridge(self, context: Any, X: Any, y: Any) -> Any:
        """The solver's callback that speaks scikit-learn's; None when nobody listens."""
        if not getattr(self, "_skl_callbacks", None):
            return None

        def on_iteration(state: Any) -> bool:
            task = context.subcontext(task_name="iteration")
            task.call_on_fit_task_begin(estimator=self, X=X, y=y)
            return task.call_on_fit_task_end(
                estimator=self,
                X=X,
                y=y,
                reconstruction_attributes=lambda: self._split(state.coef),
            )

        return on_iteration

    def _split(self, theta: NDArray) -> dict[str, Any]:
        """``coef_`` (D,) or (k, D) and ``intercept_`` of a solver's variable."""
        offset = theta[-1] if self.fit_intercept else np.zeros_like(theta[0])
        return {
            "coef_": (theta[:-1] if self.fit_intercept else theta).T,
            "intercept_": (offset + self._target_mean_).astype(theta.dtype),
        }

    def _set_coefficients(self, theta: NDArray) -> None:
        for name, value in self._split(theta).items():
            setattr(self, name, value)

    def _start(self) -> NDArray:
        """The previous fit as a solver's variable."""
        theta = self.coef_.T
        if self.fit_intercept:
            theta = np.concatenate([theta, [self.intercept_ - self._target_mean_]])
        return theta

    # -- prediction --------------------------------------------------------------------------

    def _responses(self, X: Any) -> NDArray:
        """``z(x)ᵀw + b`` for every row, of shape (n,) or (n, k)."""
        X = self._checked(X)
        weights = self.coef_.T
        dtype = np.result_type(weights.dtype, float_type(X))
        out = np.empty((X.shape[0], *weights.shape[1:]), dtype=dtype)
        feature_map, weights, prepare = self._predictor(weights)
        n_missing = 0
        for rows, design in feature_map.designs(X, prepare):
            out[rows] = design.matvec(weights)
            n_missing += design.n_missing
        feature_map.warn_missing(n_missing, X.shape[0])
        out += self.intercept_
        return out

    def _predictor(self, weights: NDArray) -> tuple[FeatureMap, NDArray, Any]:
        """The map and weights that predict with the least work, and what prepares their rows."""
        feature_map = self.feature_map_
        if weights.size > feature_map.n_features_out_**2:
            return feature_map, weights, self._scaled  # more responses than features
        feature_map, folded = feature_map.folded(weights)
        if folded.dtype == weights.dtype:
            return feature_map, folded, self._scaled
        return feature_map, folded, lambda rows: self._scaled(rows).astype(folded.dtype)

    def _checked_pair(self, X: Any, y: Any, **options: Any) -> tuple[Any, Any]:
        """The data of a fit: numbers, or texts for maps that take them."""
        if not self._takes_text():
            return validate_data(self, X, y, accept_sparse="csr", dtype=float_types(X), **options)
        X = checked_texts(X, "X")
        y = validate_data(self, y=y, **options)
        check_consistent_length(X, y)
        return X, y

    def _takes_text(self) -> bool:
        return maps.takes_text(self.feature_map, self.kernel)

    def _checked(self, X: Any) -> Any:
        """New rows as the fitted model takes them."""
        check_is_fitted(self, "coef_")
        if self.feature_map_.takes_text:
            return checked_texts(X, "X")
        return validate_data(self, X, accept_sparse="csr", dtype=float_types(X), reset=False)


def with_resolved_gamma(map_: Any, X: Any, weights: NDArray | None) -> Any:
    """``map_`` with a kernel whose gamma is a number that takes the sample weights into account."""
    kernel = map_.stated_kernel()
    if kernel is None:
        return map_
    return map_.state_kernel(kernel.resolve(X, sample_weight=weights))


def with_default_strength(problem: Problem) -> Problem:
    """A problem with an l1 part at the strength that leaves a moderate number of weights."""
    strongest = problem.alpha_max()
    if not 0 < strongest < np.inf:  # no weight at any strength, or at none
        return problem
    return problem.with_penalty(replace(problem.penalty, alpha=_L1_SHARE * strongest))
