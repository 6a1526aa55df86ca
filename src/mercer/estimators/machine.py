"""Kernel machines whose penalty, and gamma if wanted, are given or chosen along a path."""

from __future__ import annotations

import copy
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mercer import maps, penalties, solvers
from mercer._runtime.arrays import available_memory, check_memory
from mercer._runtime.random import RandomStateLike
from mercer._runtime.state import State
from mercer._runtime.validation import is_name, name_from, positive_integer, positive_number
from mercer.designs import Design, Local
from mercer.estimators.base import FeatureModel, Listener, described, raise_if_interrupted
from mercer.estimators.device import device_of
from mercer.estimators.held_out import solve_after_held_out
from mercer.estimators.inputs import MATRIX
from mercer.estimators.plan import FitPlan, HeldOut
from mercer.estimators.precision import Outcome, Precise, at
from mercer.estimators.precomputed import PRECOMPUTED, has_matrix, map_of_matrix, new_rows
from mercer.estimators.preprocessing import Scale, TrainingSample, scale_of
from mercer.estimators.selection import (
    CRITERIA,
    Interrupted,
    Task,
    checked_path,
    choose,
    choose_by,
    criterion_of,
    split_key,
)
from mercer.estimators.state import check_path
from mercer.kernels.groups import OfVarying
from mercer.losses import Loss
from mercer.maps.members import Endless
from mercer.penalties import Penalty
from mercer.problem import Problem
from mercer.solvers.forms import choose_whitening
from mercer.solvers.row_newton import suits_rows

__all__ = ["KernelMachine", "checked_strength", "with_default_strength"]

# Ridge of the default alpha in the kernel system (K + 0.3 I) a = y: over public tables the exact
# kernel does best with 0.1 and a few hundred random grids with 0.1 to 1.
_ALPHA = 0.3
# Default strength of a penalty with an l1 part, as a share of the least that leaves no weights.
_L1_SHARE = 0.01
# feature_map="auto": rows up to which the exact kernel takes seconds, the solvers that take it, and
# matrices of its size in float64 that a direct solution works with.
_MOST_EXACT, _MATRICES = 5000, 4.0
_EXACT_SOLVERS = ("auto", "cholesky", "cg", "newton-cg", "row-newton")
# Vectors of a number per column and output that an iterative solver works with.
_SOLVER_VECTORS = 5.0


@dataclass(eq=False, repr=False)
class KernelMachine(FeatureModel):
    """A feature map, a loss, a penalty and a solver."""

    feature_map: str | maps.FeatureMap = "auto"
    _: KW_ONLY
    kernel: Any = None
    gamma: float | ArrayLike | str = "scale"
    n_components: int | None = None
    loss: str | Loss = "squared"
    penalty: str | Penalty = "l2"
    alpha: float | None = None
    l1_ratio: float | None = None
    solver: str | solvers.Solver = "auto"
    fit_intercept: bool = True
    scale: Scale = True
    tol: float = 1e-2
    max_iter: int = 1000
    n_jobs: int | None = None
    random_state: RandomStateLike = None
    warm_start: bool = False
    alphas: ArrayLike | None = None
    gamma_path: ArrayLike | None = None
    selection: str = "auto"
    validation_fraction: float = 0.2
    device: Any = None
    path_: dict[str, NDArray] = field(init=False)

    _predicts_on_device: ClassVar[bool] = True
    _takes_offset: ClassVar[bool] = True

    # -- fitting: the steps of ``_fit_rows`` in their order ----------------------------------------

    def _fit_rows(self, rows: TrainingSample, listener: Listener | None, plan: FitPlan) -> None:
        name_from(self.selection, ("auto", "holdout", "loo", *CRITERIA), "selection")
        criterion_of(self)  # refuses settings beside one
        map_ = self._unfitted_map(rows)
        design, start, thetas = self._fit_design(map_, rows)
        problem = self._problem(design, rows)
        if start is None and plan.start is not None:
            start = plan.start.reshape(problem.shape)
        solver, results = self._solve(problem, rows, start, thetas, listener, plan.first_without)
        self._adopt_results(solver, results)

    def _unfitted_map(self, rows: TrainingSample) -> maps.FeatureMap:
        """The map of the settings; "auto" follows from rows, loss and settings."""
        loss, is_ridge = self._loss_, self._is_ridge()
        if self._input_kind() == MATRIX:
            settings = {name: getattr(self, name) for name in ("gamma", "n_components", "n_jobs")}
            map_ = map_of_matrix(self.feature_map, rows.are_here, **settings)
        elif is_name(self.feature_map, "auto"):
            n, available = len(rows), available_memory()
            suits = (
                rows.are_here
                and n <= _MOST_EXACT
                and (available is None or _MATRICES * 8.0 * n**2 <= available)
                and is_ridge
                and (loss.quadratic or suits_rows(loss))
                and any(is_name(self.solver, name) for name in _EXACT_SOLVERS)
                and self.n_components is None
                and self.gamma_path is None
            )
            map_ = self._map_named("exact" if suits else "binning")
        else:
            map_ = self._stated_map()
        if is_ridge and getattr(self.penalty, "jitter", False):  # a term in the landmarks' weights
            if not isinstance(map_, maps.Nystroem):
                raise ValueError(
                    "penalty must have jitter=0 for features that are not the kernel at "
                    f"landmarks; got {self.penalty!r} with {type(map_).__name__}; "
                    "feature_map='nystroem' takes it."
                )
            return map_.set_params(whiten=False)
        n_outputs = int(np.prod(np.shape(rows.target)[1:]))
        given = len(rows), is_ridge, loss, rows.are_here, n_outputs
        return choose_whitening(map_, self.solver, *given)

    def _fit_design(
        self, map_: maps.FeatureMap, rows: TrainingSample
    ) -> tuple[Design, NDArray | None, list[NDArray] | None]:
        """Design by scaler and map, fitted or kept; coefficients to start from; path solutions."""
        criterion = criterion_of(self)
        first = None if criterion is None else self.alpha  # where the search begins
        path = (self.gamma_path, self.alphas, self.selection, self.validation_fraction, first)
        settings = described(map_, self.scale, path, self._target.scoring)
        design, thetas = self._last_design(rows, settings), None
        start = None if design is None else self._last_theta(rows)
        if design is None:
            self._forget()
            self.scaler_ = None if self._input_kind() == MATRIX else rows.fit_scaler(scale_of(self))
            scaled = rows.scaled(self.scaler_)
            map_ = self._with_kernel_of(scaled, map_)
            self._check_direct(map_, len(rows))
            if criterion is not None:
                map_ = self._chosen_by(criterion, map_, scaled)
            elif self.gamma_path is not None or self.alphas is not None:
                map_, thetas = self._choose(map_, scaled)
            design = scaled.fit_design(map_)
            self.feature_map_, self._settings_, self._width_ = map_, settings, rows.X.shape[1:]
        self.device_ = device_of(design, self.device)
        return design, start, thetas

    def _with_kernel_of(self, rows: TrainingSample, map_: maps.FeatureMap) -> maps.FeatureMap:
        """The map with its kernel for scaled rows; a path of gammas states that one later."""
        if self.gamma_path is None:
            return rows.with_resolved_gamma(map_)
        if not map_.draws_inputs:
            return map_
        stated = map_.stated_kernel()
        kernel = rows.with_resolved_gamma(map_).stated_kernel()
        if isinstance(kernel, OfVarying):
            stated = kernel.with_gamma(stated.gamma)
        return map_.state_kernel(stated)

    def _last_design(self, rows: TrainingSample, settings: str) -> Design | None:
        """The design by scaler and map of the last fit, if a warm start keeps both."""
        same = self.warm_start and getattr(self, "_settings_", None) == settings
        if not same or getattr(self, "_width_", None) != rows.X.shape[1:]:
            return None
        scaled, fitted = self._preprocessing.scaled_rows(rows.X), self.feature_map_
        if isinstance(fitted, maps.ExactKernel) and not fitted.was_fitted_to(scaled):
            return None
        return fitted.design(scaled)

    def _last_theta(self, rows: TrainingSample) -> NDArray | None:
        """Coefficients of the last fit; None, and none kept, for other outputs or classes."""
        if np.shape(self._intercept_) == rows.target.shape[1:]:
            return self._theta()
        del self.map_coef_, self._intercept_
        return None

    def _check_direct(self, map_: maps.FeatureMap, n_rows: int) -> None:
        """Refuse a factor that would not fit before the features are made."""
        direct = is_name(self.solver, "cholesky") or isinstance(self.solver, solvers.Cholesky)
        if not direct or not isinstance(map_, Endless):
            return
        n_columns = positive_integer(map_.n_components, "n_components")
        side, copies = min((n_columns, 3), (n_rows, 2))  # matrices of columns, or of rows
        check_memory(
            8.0 * copies * side**2,
            f"the matrix of {side} equations and its factor",
            "use solver='block' or solver='cg', or fewer n_components",
        )

    def _choose(
        self, map_: maps.FeatureMap, rows: TrainingSample
    ) -> tuple[maps.FeatureMap, list[NDArray] | None]:
        """The map at the best gamma, and solutions for every alpha if there are any."""
        alphas, gammas = self.alphas, self.gamma_path
        task = Task(
            rows,
            None if alphas is None else checked_path(alphas, "alphas"),
            None if gammas is None else checked_path(gammas, "gamma_path"),
            self.selection,
            self.validation_fraction,
            key=lambda map_: split_key(map_, self.random_state),
            target=self._target,
            problem=self._problem,
            solver=lambda problem: self._solver(problem, rows),
        )
        try:
            choice = choose(task, map_)
        except Interrupted as stop:
            self.feature_map_ = stop.map_
            self._adopt_result(stop.solver, stop.result)
            raise
        self.__dict__.update(choice.tables)
        if choice.alpha is not None:
            self.alpha_ = choice.alpha
        return choice.map_, choice.thetas

    def _chosen_by(
        self, criterion: str, map_: maps.FeatureMap, rows: TrainingSample
    ) -> maps.FeatureMap:
        """The map at the best gammas by a criterion, whose alpha becomes ``alpha_``."""
        alpha = positive_number(self._resolve_penalty(float(len(rows))).alpha, "alpha")
        key = split_key(map_, self.random_state)
        map_, self.alpha_, values = choose_by(criterion, rows, map_, alpha, self.fit_intercept, key)
        self.__dict__.update(values)
        return map_

    def _solver(self, problem: Problem, rows: TrainingSample) -> solvers.Solver:
        return rows.solver(self.solver, problem, self.tol, self.max_iter)

    def _problem(self, design: Design, rows: TrainingSample) -> Problem:
        """The problem of these rows, if there is memory to solve it."""
        n_outputs = rows.target.size // len(rows)
        needed = _SOLVER_VECTORS * design.dtype.itemsize * design.shape[1] * n_outputs
        check_memory(
            needed,
            f"solving for {design.shape[1]} columns and {n_outputs} outputs",
            lambda room: f"use fewer n_components, {room / needed:.1%} of them at most",
        )
        if isinstance(design, Local):
            raise ValueError(
                "feature_map must not be a LocalKernel, whose leaves LocalKernelRegressor and "
                "LocalKernelClassifier fit one by one."
            )
        penalty = self._resolve_penalty(rows.total_weight)
        if self.alpha is None and self.alphas is None and is_name(self.penalty, "l2"):
            unit = rows.unit(self._loss_)
            penalty = penalty if unit == 1 else replace(penalty, alpha=unit * penalty.alpha)
        design, penalty = rows.with_function_norm(design, penalty, self._is_ridge(), self._loss_)
        problem = rows.problem(design, self._loss_, penalty, self.fit_intercept)
        unsaid = self.alpha is None and self.alphas is None and isinstance(self.penalty, str)
        return with_default_strength(problem) if unsaid and penalty.l1 else problem

    def _solve(
        self,
        problem: Problem,
        rows: TrainingSample,
        start: NDArray | None,
        thetas: list[NDArray] | None,
        listener: Listener | None,
        held: HeldOut | None,
    ) -> Outcome:
        """The solver and its results, one per alpha, in float64 where float32 is too short."""
        if self.alphas is None:
            self.alpha_ = problem.penalty.alpha
        alphas = [self.alpha_] if self.alphas is None else self.path_["alpha"].tolist()

        def solve(problem: Problem, begin: NDArray | None) -> Outcome:
            if self.alphas is not None and thetas and self.solver in ("auto", "cholesky"):
                # Leaving out every row took the direct solutions of all alphas: they are checked.
                direct = solvers.Cholesky(tol=self.tol, max_iter=self.max_iter)
                pairs = zip(alphas, thetas, strict=True)
                return direct, [direct.solve(at(problem, a), b, listener) for a, b in pairs]
            solver = self._solver(problem, rows)
            if self.alphas is not None:
                return solver, solver.solve_path(problem, alphas, listener)
            mean = self._target_mean_
            first = start if begin is None else begin
            solver, result = solve_after_held_out(problem, solver, first, listener, mean, held)
            return solver, [result]

        return Precise(
            solve,
            alphas,
            lambda few: rows.wide_rows(self._preprocessing, problem, few),
            lambda: self._problem(rows.wide_design(self._preprocessing), rows),
            self.solver.tol if isinstance(self.solver, solvers.ConjugateGradient) else 0.0,
        )(problem)

    def _adopt_result(self, solver: solvers.Solver, result: solvers.Result) -> None:
        """Make a solver's result the fitted model."""
        self._adopt(solver.name, result, result.coef)
        self.trace_ = result.trace
        raise_if_interrupted(result)

    def _adopt_results(self, solver: solvers.Solver, results: list[solvers.Result]) -> None:
        """Make the only result the fitted model, or those of the chosen alphas with their path."""
        if self.alphas is None:
            self._adopt_result(solver, results[0])
            return
        fits = [self._coefficients(result.coef) for result in results]
        solutions = {
            "coef": np.stack([fit["map_coef_"] for fit in fits]),
            "intercept": np.stack([fit["_intercept_"] for fit in fits]),
        }
        for name in ("n_iter", "converged", "optimality"):
            solutions[name] = np.array([getattr(result, name) for result in results])
        # An interrupt leaves no trace of the strengths after it.
        solutions["seconds"] = np.array([r.trace[-1].time if r.trace else 0.0 for r in results])
        self.path_ = self.path_ | solutions
        interrupted = any(result.interrupted for result in results)
        places = self.path_["alpha"].tolist().index
        best = [results[places(alpha)] for alpha in np.ravel(self.alpha_).tolist()]
        coef = best[0].coef
        if len(best) > 1:  # a strength for every label
            coef = np.stack([each.coef[:, i] for i, each in enumerate(best)], axis=1)
        converged = all(each.converged for each in best)
        last = max(best, key=lambda each: each.optimality)
        whole = replace(last, coef=coef, converged=converged, interrupted=interrupted)
        self._adopt_result(solver, whole)

    def _is_ridge(self) -> bool:
        """Whether the penalty is the squared norm of the function, whatever the features."""
        unbound = isinstance(self.penalty, penalties.RKHSNorm) and self.penalty.matrix is None
        return unbound or is_name(self.penalty, "l2")

    # -- kernel matrices -------------------------------------------------------------------------

    def _input_kind(self) -> str:
        return MATRIX if is_name(self.kernel, PRECOMPUTED) else super()._input_kind()

    def _checked(self, X: Any) -> Any:
        self._check_fitted()
        return new_rows(self, X) if has_matrix(self) else super()._checked(X)

    def _responses(self, X: Any) -> NDArray:
        # Few rows and tensors are taken for rows of inputs, which a matrix has not.
        return self._responses_of(self._checked(X)) if has_matrix(self) else super()._responses(X)

    def at_alpha(self, alpha: float) -> Self:
        """A copy of the fitted model at another strength of its path.

        Parameters
        ----------
        alpha : float
            Strength of the penalty: one of ``alphas``.

        Returns
        -------
        estimator
            Copy with the coefficients of that strength and the attributes that belong to them.

        Raises
        ------
        ValueError
            If the model was fitted without ``alphas``, or ``alpha`` is not one of them.

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
        other.map_coef_, other._intercept_ = (
            self.path_["coef"][place],
            self.path_["intercept"][place],
        )
        other.n_iter_ = max(1, int(self.path_["n_iter"][place]))
        other.converged_ = bool(self.path_["converged"][place])
        other.optimality_ = float(self.path_["optimality"][place])
        del other.trace_
        if np.any(other.alpha_ != self.alpha_):
            other.__dict__.pop("_probabilities_", None)  # of responses at another strength
        return other

    def _resolve_penalty(self, total_weight: float) -> Penalty:
        if self.alphas is not None:
            if self.alpha is not None:
                raise ValueError(f"alpha must be left out beside alphas; got {self.alpha!r}.")
            if isinstance(self.penalty, Penalty):
                raise ValueError(f"penalty must be a name beside alphas; got {self.penalty!r}.")
            strongest = max(checked_path(self.alphas, "alphas"))
            return penalties.get(self.penalty, strongest, self.l1_ratio)
        if vars(self).keys() & set(CRITERIA.values()):
            return penalties.get(self.penalty, self.alpha_)
        default = _ALPHA / total_weight
        alpha = default if self.alpha is None else self.alpha
        return checked_strength(penalties.get(self.penalty, alpha, self.l1_ratio), self.alpha)

    # -- files and copies ------------------------------------------------------------------------

    def __getstate__(self) -> dict[str, Any]:
        """The attributes; instead of a subspace embedding with weights w, its base with Q w."""
        is_open = "_sums_" in vars(self) and hasattr(self, "map_coef_")  # solved for by the look
        state = super().__getstate__()
        if is_open:  # for more rows, which need Q
            return state
        map_, coef = state.get("feature_map_"), state.get("map_coef_")
        if not isinstance(map_, maps.SubspaceEmbedding) or coef is None or "_posterior_" in state:
            return state
        if coef.size > map_.n_features_out_**2:  # Q is smaller than Q w, and predictions use it
            return state
        # A warm start and the posterior of a base that keeps rows would be those of another model.
        state = {n: v for n, v in state.items() if n not in ("_settings_", "_total_weight_")}
        state |= {"feature_map_": map_.base_, "map_coef_": map_.of_base(coef.T).T}
        if "coef" in state.get("path_", {}):
            coefs = np.stack([map_.of_base(each.T).T for each in state["path_"]["coef"]])
            state["path_"] = {**state["path_"], "coef": coefs}
        return state

    def __copy__(self) -> Self:
        other = object.__new__(type(self))
        other.__setstate__(super().__getstate__())  # with Q, which a copy need not store
        return other

    def _check_state(self) -> None:
        super()._check_state()
        if "device_" in vars(self):  # absent after a fit over many machines
            State(self).instance("device_", str)
        if "coef" in (vars(self).get("path_") or ()):
            check_path(self)


def checked_strength(penalty: Penalty, alpha: Any) -> Penalty:
    """The penalty, refused if a strength is given beside it that is another one."""
    if alpha is not None and penalty.alpha != alpha:
        raise ValueError(
            f"alpha is given twice and differs: {alpha!r} beside {penalty!r}; say it once."
        )
    return penalty


def with_default_strength(problem: Problem) -> Problem:
    """A problem with an l1 part at the strength that leaves a moderate number of weights."""
    strongest = problem.alpha_max()
    if not 0 < strongest < np.inf:  # no weight at any strength, or at none
        return problem
    return problem.with_penalty(replace(problem.penalty, alpha=_L1_SHARE * strongest))
