"""What regression and classification share: scaler, map, problem, solver, prediction in chunks."""

from __future__ import annotations

import copy
import sys
from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.callback import CallbackSupportMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_consistent_length, validate_data

from mercer import maps, penalties, solvers
from mercer._array import check_memory
from mercer._rows import selected
from mercer._sparse import sound
from mercer._state import Checked, State
from mercer._validation import flag, float_type, is_name
from mercer.designs import Dense, Design, KernelColumns
from mercer.estimators.inputs import ScaledInputs, check_weights, float_types, numbers
from mercer.estimators.precision import Precise, wide_design, wide_rows
from mercer.estimators.selection import Part, checked_path, chosen, mean_loss
from mercer.estimators.state import check_coefficients, check_map, check_path
from mercer.kernels.text import checked_texts
from mercer.maps import FeatureMap
from mercer.penalties import Penalty, RKHSNorm
from mercer.problem import Problem
from mercer.solvers.forms import best_form

__all__ = ["KernelMachine", "check_weights", "with_default_strength", "with_resolved_gamma"]

# Ridge of the default alpha in the kernel system (K + 0.3 I) a = y: over public tables the exact
# kernel does best with 0.1 and a few hundred random grids with 0.1 to 1.
_ALPHA = 0.3
# Default strength of a penalty with an l1 part, as a share of the least that leaves no weights.
_L1_SHARE = 0.01
_FLAGS = {"fit_intercept", "preconditioned", "scale", "warm_start"}
# Vectors of a number per column and output that an iterative solver works with.
_SOLVER_VECTORS = 5.0
_COEFFICIENTS = ("coef_", "intercept_")


class KernelMachine(Checked, ScaledInputs, CallbackSupportMixin, BaseEstimator):
    """A feature map, a loss, a penalty and a solver; subclasses say what y means."""

    feature_map_: FeatureMap
    path_: dict[str, NDArray]
    coef_: NDArray
    intercept_: NDArray
    _target_mean_: NDArray
    _width_: tuple[int, ...]
    _fitted_by: ClassVar[str] = "coef_"

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
        alphas=None,
        gamma_path=None,
        selection="auto",
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
        self.alphas = alphas
        self.gamma_path = gamma_path
        self.selection = selection
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
        design, continues, thetas = self._prepare(seen, target, weights, loss)
        problem = self._problem(design, target, weights, loss)
        listener = self._bridge(context, X, y)
        # Other outputs or classes than last time have nothing to continue from.
        continues = continues and np.shape(self.intercept_) == target.shape[1:]
        start = self._start() if continues else None

        def solve(problem: Problem) -> tuple[Any, list[Any]]:
            if self.alphas is not None:
                return self._followed(problem, thetas, listener)
            solver = solvers.get(self.solver, problem, tol=self.tol, max_iter=self.max_iter)
            return solver, [solver.solve(problem, start, listener)]

        def wide_problem() -> Problem:
            wide = wide_design(self.feature_map_, self._scaled_rows(seen))
            return self._problem(wide, target, weights, loss)

        if self.alphas is None:
            if not continues:
                for name in _COEFFICIENTS:
                    self.__dict__.pop(name, None)
            self.alpha_ = problem.penalty.alpha
        precise = Precise(
            solve,
            [problem.penalty.alpha] if self.alphas is None else self.path_["alpha"].tolist(),
            lambda rows: wide_rows(self.feature_map_, self._scaled_rows(selected(seen, rows))),
            wide_problem,
        )
        solver, results = precise(problem)
        if self.alphas is not None:
            self._adopt_path(solver, results)
        else:
            self._adopt(solver, results[0])
        context.call_on_fit_task_end(estimator=self, X=X, y=y, reconstruction_attributes=dict)

    def _prepare(
        self, X: Any, target: NDArray, weights: NDArray | None, loss: Any
    ) -> tuple[Design, bool, list[NDArray] | None]:
        """The design of the data, whether scaler and map are those of the last fit, and solutions
        for every alpha if choosing among them gave any."""
        map_ = maps.get(
            self.feature_map,
            kernel=self.kernel,
            gamma=self.gamma,
            n_components=self.n_components,
            random_state=self.random_state,
            n_jobs=self.n_jobs,
        )
        map_ = best_form(map_, self.solver, len(target), self._is_ridge(), loss.quadratic)
        path = (self.gamma_path, self.alphas, self.selection, self.validation_fraction)
        with np.printoptions(threshold=sys.maxsize, precision=17):
            settings = repr(
                (type(map_).__name__, map_.get_params(), self.scale, path, self._scoring())
            )
        again = self.warm_start and getattr(self, "_settings_", None) == settings
        if again and getattr(self, "_width_", None) == X.shape[1:]:
            scaled, fitted = self._scaled_rows(X), self.feature_map_
            if not isinstance(fitted, maps.ExactKernel) or fitted.was_fitted_to(scaled):
                return fitted.design(scaled), True, None
        self._forget()
        self.scaler_ = self._fit_scaler(X, weights)
        scaled = self._scaled_rows(X)
        if self.gamma_path is None:
            map_ = with_resolved_gamma(map_, scaled, weights)
        thetas = None
        if self.gamma_path is not None or self.alphas is not None:
            choice = chosen(self, map_, scaled, target, weights, loss)
            map_, thetas = choice.map_, choice.thetas
            if choice.alpha is not None:
                self.alpha_ = choice.alpha
        design = map_.fit_design(scaled)
        self.feature_map_, self._settings_, self._width_ = map_, settings, X.shape[1:]
        return design, False, thetas

    def _check_flags(self) -> None:
        for name in _FLAGS & self.get_params(deep=False).keys():
            flag(getattr(self, name), name)

    def _begin_fit(self) -> None:
        """Refuse to go on from a fit that was changed since, or forget it."""
        self._check_flags()
        if getattr(self, "warm_start", False) and hasattr(self, "coef_"):
            self._check_state()
        else:
            self._forget()

    def _forget(self) -> None:
        """Leave nothing of an earlier fit that would not fit what this one finds."""
        for name in (*_COEFFICIENTS, "_settings_", "gamma_path_", "path_", "selection_"):
            self.__dict__.pop(name, None)

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
        if isinstance(design, KernelColumns):
            design, penalty = self._in_span(design, penalty, loss)
        problem = Problem(design, target, loss, penalty, weights, self.fit_intercept)
        unsaid = self.alpha is None and self.alphas is None and isinstance(self.penalty, str)
        if unsaid and penalty.l1:
            return with_default_strength(problem)
        return problem

    def _in_span(
        self, design: KernelColumns, penalty: Penalty, loss: Any
    ) -> tuple[Design, Penalty]:
        """Columns of the kernel as the solvers of a problem want them, and what "l2" means there.

        Solvers of linear equations take the design as it is and hold what they like of it.
        """
        if not self._is_ridge():
            return Dense(design.toarray(), design.n_threads), penalty
        if not loss.quadratic:
            design = design.held()
        return design, RKHSNorm(penalty.alpha, design.landmark_design())

    def _is_ridge(self) -> bool:
        return is_name(self.penalty, "l2")

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

    def _followed(
        self, problem: Problem, thetas: list[NDArray] | None, listener: Any
    ) -> tuple[Any, list[Any]]:
        """The solver of a path, and its results for every alpha."""
        alphas = self.path_["alpha"].tolist()
        if thetas is None or self.solver not in ("auto", "cholesky"):
            solver = solvers.get(self.solver, problem, tol=self.tol, max_iter=self.max_iter)
            return solver, solver.solve_path(problem, alphas, listener)
        # To leave out every row takes the direct solutions for all of them: they are looked at.
        direct = solvers.Cholesky(tol=self.tol, max_iter=self.max_iter)
        results = []
        for alpha, theta in zip(alphas, thetas, strict=True):
            at = problem.with_penalty(replace(problem.penalty, alpha=alpha))
            results.append(direct.solve(at, theta, listener))
        return direct, results

    def _adopt_path(self, solver: Any, results: list[Any]) -> None:
        """Keep the solutions of all alphas, and make the chosen one the fitted model."""
        fits = [self._split(result.coef) for result in results]
        kept = {
            "coef": np.stack([fit["coef_"] for fit in fits]),
            "intercept": np.stack([fit["intercept_"] for fit in fits]),
        }
        for name in ("n_iter", "converged", "optimality"):
            kept[name] = np.array([getattr(result, name) for result in results])
        kept["seconds"] = np.array([result.trace[-1].time for result in results])
        self.path_ = self.path_ | kept
        place = int(np.flatnonzero(self.path_["alpha"] == self.alpha_)[0])
        interrupted = any(result.interrupted for result in results)
        self._adopt(solver, replace(results[place], interrupted=interrupted))

    @available_if(lambda self: hasattr(self, "alphas"))
    def at_alpha(self, alpha: float) -> Self:
        """The fitted model with another penalty of its path.

        Parameters
        ----------
        alpha : float
            One of ``alphas``.

        Returns
        -------
        estimator
            A copy that shares everything but the coefficients and what is said of them.

        Raises
        ------
        ValueError
            If the model was fitted without ``alphas``, or they do not hold this one.

        Examples
        --------
        >>> import numpy as np
        >>> from mercer import KernelRegressor
        >>> X = np.linspace(0, 3, 50)[:, None]
        >>> model = KernelRegressor("exact", alphas=[1e-6, 1.0]).fit(X, np.sin(X[:, 0]))
        >>> model.alpha_, model.at_alpha(1.0).alpha_
        (1e-06, 1.0)
        """
        self._check_fitted()
        if "coef" not in getattr(self, "path_", {}):
            raise ValueError("alphas must be given to fit for a model to have a path.")
        places = np.flatnonzero(np.isclose(self.path_["alpha"], alpha, rtol=1e-9, atol=0.0))
        if not len(places):
            raise ValueError(
                f"alpha must be one of {self.path_['alpha'].tolist()}, those of the path; "
                f"got {alpha!r}."
            )
        other, place = copy.copy(self), int(places[0])
        other.alpha_ = float(self.path_["alpha"][place])
        other.coef_, other.intercept_ = self.path_["coef"][place], self.path_["intercept"][place]
        other.n_iter_ = max(1, int(self.path_["n_iter"][place]))
        other.converged_ = bool(self.path_["converged"][place])
        other.optimality_ = float(self.path_["optimality"][place])
        del other.trace_
        return other

    def _judged(self, responses: NDArray, part: Part, loss: Any) -> float:
        """How good responses to rows that were not seen are; greater is better."""
        return -mean_loss(responses, part, loss)

    def _scoring(self) -> str:
        """The word for what choices are made by."""
        return "loss"

    def _strata(self, target: NDArray) -> NDArray | None:
        """What every part of the rows is to have its share of, if anything."""
        return None

    def _resolve_penalty(self, n_samples: int, weights: NDArray | None) -> Penalty:
        if self.alphas is not None:
            if self.alpha is not None:
                raise ValueError(f"alpha must be left out beside alphas; got {self.alpha!r}.")
            if isinstance(self.penalty, Penalty):
                raise ValueError(f"penalty must be a name beside alphas; got {self.penalty!r}.")
            strongest = max(checked_path(self.alphas, "alphas"))
            return penalties.get(self.penalty, strongest, self.l1_ratio)
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
        offset = theta[-1] if self.fit_intercept else np.zeros(theta.shape[1:], theta.dtype)
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
        out = np.empty((X.shape[0], *weights.shape[1:]), dtype=float_type(X))
        feature_map, weights, prepare = self._predictor(weights)
        n_missing = 0
        for rows, design in feature_map.designs(X, prepare):
            # Where both are large, they cancel: in the precision of the weights.
            out[rows] = design.matvec(weights) + self.intercept_
            n_missing += design.n_missing
        feature_map.warn_missing(n_missing, X.shape[0])
        return out

    def _predictor(self, weights: NDArray) -> tuple[FeatureMap, NDArray, Any]:
        """The map and weights that predict with the least work, and what prepares their rows."""
        feature_map = self.feature_map_
        if weights.size <= feature_map.n_features_out_**2:  # no more responses than features
            feature_map, weights = feature_map.folded(weights)
        if weights.dtype == np.float32 or feature_map.takes_text:
            return feature_map, weights, self._scaled
        # Weights in float64 may be so large that they cancel: so are the features they multiply.
        return feature_map, weights, lambda rows: self._scaled(rows).astype(np.float64, copy=False)

    def _checked_pair(self, X: Any, y: Any, **options: Any) -> tuple[Any, Any]:
        """The data of a fit: numbers, or texts for maps that take them."""
        y = numbers(y, "y") if options.get("y_numeric") else y
        if not self._takes_text():
            X = sound(X)
            return validate_data(self, X, y, accept_sparse="csr", dtype=float_types(X), **options)
        X = checked_texts(X, "X")
        y = validate_data(self, y=y, **options)
        check_consistent_length(X, y)
        return X, y

    def _check_state(self) -> None:
        check_map(self)
        shape = check_coefficients(self, "coef_", self._n_coefficients())
        mean = State(self).value("_target_mean_")
        State(self).numbers("_target_mean_", shape if np.ndim(mean) else ())
        if "coef" in (vars(self).get("path_") or ()):
            check_path(self)

    def _n_coefficients(self) -> int:
        """How many coefficients an output has."""
        return self.feature_map_.n_features_out_

    def _takes_text(self) -> bool:
        return maps.takes_text(self.feature_map, self.kernel)

    def _checked(self, X: Any) -> Any:
        """New rows as the fitted model takes them."""
        self._check_fitted()
        if self.feature_map_.takes_text:
            return checked_texts(X, "X")
        X = sound(X)
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
