"""The direct solution of ridge problems, and of all of them with one row left out."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.exceptions import ConvergenceWarning

from mercer._runtime.validation import name_from
from mercer.equations import Equations, NormalMatrix, RowMatrix, check_matrix, equations, matrix_of
from mercer.equations.factor import Factor
from mercer.problem import Point, Problem
from mercer.problem.precision import relative
from mercer.solvers.base import NEAR, Clock, Solver, State, check_range
from mercer.solvers.conjugate_gradient import ConjugateGradient

__all__ = ["Cholesky", "LeftOut", "leave_one_out"]

_FORMS = ("auto", "primal", "dual")
_EXACT = 1e-8  # relative residual below which another refinement gains nothing
_WEAK = 1e-9  # alpha, relative to the normal matrix, below which rounding hides the penalty
_POLISHED = 1e-6  # relative residual below which ill-conditioning does not affect the model


@dataclass(kw_only=True)
class _State(State):
    """``downhill`` is −∇F at x; for a kernel machine, the residual of its equations."""

    form: NormalMatrix | RowMatrix | None  # of all strengths of a path
    system: Equations | None  # of a kernel machine, whose weights cancel in products
    downhill: NDArray[np.float64]


@dataclass
class Cholesky(Solver):
    """Direct solution by one factorisation, of the normal matrix or of the kernel matrix.

    ::

        primal   A = (1/n) Zᵀ S Z + alpha P,        θ -= A⁻¹ ∇F(θ)
        dual     B = √S K √S + n alpha I,           a = √S B⁻¹ √S y

    With the penalty "l2", P is I, w = Zᵀ a and K = Z Zᵀ. With the norm of the function as penalty,
    P = k(L, L); if the landmarks L are all rows, K = k(X, X) and w = a. The factor is float64 for
    all designs. The primal solution is refined until the gradient stops shrinking. A matrix without
    a Cholesky factor, such as that of dependent columns with alpha = 0, is solved by its
    eigenvectors, for the solution of least norm; for landmarks, columns are whitened first.

    Parameters
    ----------
    tol : float, default=1e-4
        Relative gradient norm, or residual of the equations of a kernel machine, above which
        ``converged`` is False.
    max_iter : int, default=1000
        No effect: there is one iteration.
    form : {"auto", "primal", "dual"}, default="auto"
        Matrix to factor: that of the columns ("primal") or of the rows ("dual"). "auto" takes the
        smaller one; for a kernel machine that of the rows if all rows are landmarks, else that of
        the columns.

    Raises
    ------
    MemoryError
        At ``solve``, before allocation, if the matrix does not fit.
    ValueError
        At ``solve``, if the kernel machine does not have the form.

    References
    ----------
    Saunders, Gammerman and Vovk (1998), Ridge regression learning algorithm in dual variables.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.designs import Dense
    >>> from mercer.losses import Squared
    >>> from mercer.penalties import L2
    >>> from mercer.problem import Problem
    >>> from mercer.solvers import Cholesky
    >>> problem = Problem(Dense(np.eye(2)), [1.0, 3.0], Squared(), L2(0.5))
    >>> Cholesky().solve(problem).coef
    array([-0.5,  0.5,  2. ])
    """

    form: str = "auto"

    name: ClassVar[str] = "cholesky"
    requires: ClassVar[frozenset[str]] = frozenset(
        {"a quadratic loss", "a penalty of linear gradient"}
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        name_from(self.form, _FORMS, "form")

    def criterion(self, problem: Problem) -> str:
        return "gradient" if problem.penalty.quadratic else "residual"

    def share(
        self, problem: Problem, alphas: list[float], clock: Clock
    ) -> tuple[NormalMatrix | RowMatrix, ...]:
        return () if len(alphas) == 1 else (matrix_of(problem, self.form),)

    def init(
        self,
        problem: Problem,
        theta: NDArray,
        clock: Clock,
        form: NormalMatrix | RowMatrix | None = None,
    ) -> _State:
        if form is None:
            check_matrix(problem, self.form)
        system = None if problem.penalty.quadratic else equations(problem)
        with clock.phase("products"):
            optimality, downhill = _look(problem, theta, system)
        return _State(
            problem=problem,
            clock=clock,
            x=theta,
            optimality=optimality,
            form=form,
            system=system,
            downhill=downhill,
        )

    def step(self, problem: Problem, state: _State) -> None:
        alpha = problem.penalty.alpha
        with state.clock.phase("products"):
            form = state.form or matrix_of(problem, self.form)
            matrix = form.matrix(alpha, last=state.form is None)
        check_range(problem, matrix.diagonal())
        with state.clock.phase("factor"):
            form, factor = _factor(form, matrix, alpha)
        if isinstance(form, NormalMatrix) and form.whitened:
            self._polish(state, form, factor)
        elif isinstance(form, NormalMatrix):
            self._refine(state, form, factor)
        else:
            with state.clock.phase("factor"):
                beta = factor.solve(form.rhs)
            with state.clock.phase("products"):
                theta = form.solution(problem, beta)
            if self._offer(state, theta) and state.system is not None:
                self._refine(state, form, factor)
        if state.x.dtype != problem.dtype:
            state.x = state.x.astype(problem.dtype)
            with state.clock.phase("products"):
                _, state.downhill = _look(problem, state.x, state.system)
        bounded = factor.regular and isinstance(form, NormalMatrix)
        if alpha and (bounded or state.system is None):
            with state.clock.phase("products"):
                state.distance = _distance(problem, state.downhill, form, factor)
        if state.optimality > self.tol or state.distance > NEAR:
            state.stalled = f"stalled at the limit of {problem.dtype}"

    def _refine(self, state: _State, form: NormalMatrix | RowMatrix, factor: Factor) -> None:
        """Newton's steps with one factor, which bring back the digits that the matrix has lost."""
        problem = state.problem
        enough = 100 * float(np.finfo(problem.dtype).eps)
        if isinstance(form, RowMatrix):  # another product with all pairs of rows has to be worth it
            enough = max(enough, _EXACT)
        improving = True
        while improving and state.optimality > enough:
            with state.clock.phase("factor"):
                theta = state.x + form.solve(factor.solve, state.downhill)
            improving = self._offer(state, theta)

    def _polish(self, state: _State, form: NormalMatrix, factor: Factor) -> None:
        """A step, then conjugate gradients on M, raised for its factor; the objective decides."""
        problem = state.problem
        point = problem.at(state.x)

        def take(theta: NDArray, optimality: float | None = None) -> None:
            nonlocal point
            candidate = problem.at(theta)
            if candidate.value <= point.value:
                point, state.x = candidate, theta
                true, state.downhill = _look(problem, theta, state.system)
                state.optimality = true if optimality is None else optimality

        with state.clock.phase("factor"):
            step = form.solve(factor.solve, state.downhill)
        with state.clock.phase("products"):
            take((state.x + step).astype(problem.dtype))

        def inverse(residual: NDArray, strengths: NDArray) -> NDArray:
            return form.solve(factor.solve, residual)

        tol = min(self.tol, _POLISHED)
        polish = ConjugateGradient(tol, 100, preconditioner=inverse, check_every=10)
        with state.clock.phase("products"), warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            result = polish.solve(problem, state.x)
            take(result.coef, result.optimality)

    def _offer(self, state: _State, theta: NDArray | Point) -> bool:
        """Take θ if it is better than the current one; whether it is much better."""
        problem, before = state.problem, state.optimality
        if state.system is None and not isinstance(theta, Point):
            theta = problem.at(theta)
        with state.clock.phase("products"):
            optimality, downhill = _look(problem, theta, state.system)
        check_range(problem, optimality)
        if optimality < before:
            state.x = theta.theta.copy() if isinstance(theta, Point) else theta
            state.optimality, state.downhill = optimality, downhill
        return optimality < 0.5 * before


def _look(
    problem: Problem, theta: NDArray | Point, system: Equations | None
) -> tuple[float, NDArray[np.float64]]:
    """Relative distance of θ from the minimiser, and −∇F or the equations' residual, float64."""
    if system is None:
        theta = theta if isinstance(theta, Point) else problem.at(theta)
        return theta.optimality, -theta.gradient.astype(np.float64)
    x = system.from_theta(theta.theta if isinstance(theta, Point) else theta)
    residual = system.residual(x)
    downhill = residual[:, : system.n_outputs]
    downhill = downhill.reshape(len(residual), *problem.shape[1:])
    return float(system.relative(residual, x).max()), downhill


def _distance(
    problem: Problem, downhill: NDArray, form: NormalMatrix | RowMatrix, factor: Factor
) -> float:
    """Bound of the responses' distance from the minimiser's, in units of the targets' spread.

    Half their mean square is at most F(θ) − min F = gᵀ A⁻¹ g / 2, and A >= alpha I.
    """
    alpha = problem.penalty.alpha
    if factor.regular:
        squares = form.energy(factor.solve, downhill, alpha)
    else:
        g = problem.weights_of(downhill)
        squares = np.sum(np.square(g), axis=0) / alpha
        if problem.fit_intercept:
            squares += np.square(downhill[-1])
    return relative(problem, np.sqrt(np.maximum(squares, 0.0)).reshape(-1))


@dataclass(frozen=True)
class LeftOut:
    """Model and leave-one-out predictions for one strength of the penalty.

    Attributes
    ----------
    alpha : float
        Strength of the penalty.
    coef : ndarray
        Solution θ of the model of all rows.
    predictions : ndarray of the shape of y, float64
        Prediction for each row by the model of all other rows.
    """

    alpha: float
    coef: NDArray
    predictions: NDArray[np.float64]


def leave_one_out(problem: Problem, alphas: ArrayLike) -> Iterator[LeftOut]:
    """Predict each row by the model of all other rows, without fitting those models.

    Leaving out a row multiplies its residual by 1 / (1 − h), where h is the weight of its own
    target in its prediction. The factor that solves for all rows gives h. There is one factor per
    strength; its results are yielded before the next factorisation.

    Parameters
    ----------
    problem : Problem
        Problem with a quadratic loss and the penalty of a ridge or of a kernel machine. Its own
        alpha has no effect.
    alphas : array of shape (q,)
        Strengths, > 0. The models of n − 1 rows have the same ridge n alpha, relative to the sum of
        the losses, as the model of all rows.

    Yields
    ------
    LeftOut
        Result of each strength, in the order given.

    Raises
    ------
    ValueError
        If a strength is not above 0, the problem is not linear, or fewer than two rows have a
        weight above 0.
    MemoryError
        If the matrix to be factorised does not fit.

    References
    ----------
    Allen (1974), The relationship between variable selection and data augmentation and a method
    for prediction. Cawley and Talbot (2007), Preventing over-fitting during model selection via
    Bayesian regularisation of the hyper-parameters.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.designs import Dense
    >>> from mercer.losses import Squared
    >>> from mercer.penalties import L2
    >>> from mercer.problem import Problem
    >>> from mercer.solvers import leave_one_out
    >>> problem = Problem(Dense(np.array([[1.0], [1.0]])), [1.0, 3.0], Squared(), L2(), None, False)
    >>> [out.predictions.round(3).tolist() for out in leave_one_out(problem, [1.0, 0.5])]
    [[1.0, 0.333], [1.5, 0.5]]
    """
    if "a linear system" not in problem.capabilities:
        raise ValueError(
            "leave_one_out needs a quadratic loss and a penalty of linear gradient; got loss "
            f"{problem.loss.name!r} and penalty {problem.penalty.name!r}."
        )
    strengths = np.atleast_1d(np.asarray(alphas, dtype=np.float64))
    if strengths.ndim != 1 or not np.all((strengths > 0) & (strengths < np.inf)):
        raise ValueError(f"alphas must be above 0 and finite; got {alphas!r}.")
    counted = problem.n_rows if problem.weights is None else np.count_nonzero(problem.weights)
    if counted < 2:
        raise ValueError(f"leave_one_out needs two rows of weight above 0; got {counted}.")
    return _left_out(problem, strengths.tolist())


def _left_out(problem: Problem, alphas: list[float]) -> Iterator[LeftOut]:
    form = matrix_of(problem)
    target = problem.y.astype(np.float64)
    for i, alpha in enumerate(alphas):
        one = problem.with_penalty(replace(problem.penalty, alpha=alpha))
        matrix = form.matrix(alpha, last=i == len(alphas) - 1)
        form, factor = _factor(form, matrix, alpha)
        if isinstance(form, RowMatrix):
            beta = factor.solve(form.rhs)
            theta = form.solution(one, beta)
            theta = np.array(theta.theta if isinstance(theta, Point) else theta, one.dtype)
            residual = form.left_out(alpha, beta, factor.inverse_diagonal())
            ignored = np.isnan(residual)
            if np.any(ignored):  # rows of weight 0 have no part in the model
                residual = np.where(ignored, target - one.at(theta).responses, residual)
        else:
            theta = one.initial()
            system = None if one.penalty.quadratic else equations(one)
            _, downhill = _look(one, theta, system)
            theta = (theta + form.solve(factor.solve, downhill)).astype(one.dtype)
            rest = form.unexplained(factor.sqnorms)
            residual = ((target - one.at(theta).responses).T / rest).T
        yield LeftOut(alpha, theta, target - residual)


def _factor(
    form: NormalMatrix | RowMatrix, matrix: NDArray[np.float64], alpha: float
) -> tuple[NormalMatrix | RowMatrix, Factor]:
    """The factor of a form's matrix; of its whitened form where rounding made that singular."""
    restricted = isinstance(form, NormalMatrix) and not form.problem.penalty.quadratic
    if not restricted or alpha > _WEAK * float(np.mean(matrix.diagonal())):
        factor = Factor(matrix, overwrite=True, eigenvectors=not restricted)
        if factor.regular or not restricted:
            return form, factor
    form = NormalMatrix(form.problem, whiten=True)
    return form, Factor(form.matrix(alpha), overwrite=True)
