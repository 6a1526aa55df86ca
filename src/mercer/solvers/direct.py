"""The direct solution of ridge problems."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from mercer._validation import name_from
from mercer.problem import Problem
from mercer.solvers.base import Clock, Solver, State, check_range
from mercer.solvers.factor import Factor

__all__ = ["Cholesky"]

_FORMS = ("auto", "primal", "dual")


@dataclass
class Cholesky(Solver):
    """One factorisation: of the D x D normal matrix, or of the n x n kernel matrix if n < D.

    ::

        primal   G = (1/n) Zᵀ S Z + alpha I,        θ -= G⁻¹ ∇F(θ)
        dual     K = √S Z Zᵀ √S + n alpha I,        w = Zᵀ √S K⁻¹ √S y

    The factor is float64 whatever the design is. The primal solution is refined until the gradient
    stops shrinking. A matrix without a Cholesky factor, such as that of dependent columns with
    alpha = 0, is solved by its eigenvectors, which gives the shortest solution.

    Parameters
    ----------
    tol : float, default=1e-4
        Relative gradient norm above which the solution is said not to have converged.
    max_iter : int, default=1000
        Without effect: there is one iteration.
    form : {"auto", "primal", "dual"}, default="auto"
        Which matrix; "auto" takes the smaller one.

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
    requires: ClassVar[frozenset[str]] = frozenset({"a quadratic loss", "a quadratic penalty"})

    def __post_init__(self) -> None:
        super().__post_init__()
        name_from(self.form, _FORMS, "form")

    def init(self, problem: Problem, theta: NDArray, clock: Clock) -> State:
        with clock.phase("products"):
            optimality = problem.optimality(theta)
        return State(problem=problem, clock=clock, x=theta, optimality=optimality)

    def step(self, problem: Problem, state: State) -> None:
        n, n_columns = problem.design.shape
        if self.form == "dual" or (self.form == "auto" and n < n_columns):
            self._offer(problem, state, self._dual(problem, state))
        else:
            self._primal(problem, state)
        if state.optimality > self.tol:
            state.stalled = f"stalled at the limit of {problem.dtype}"

    def _offer(self, problem: Problem, state: State, theta: NDArray) -> bool:
        """Take θ if it is better than what there is; whether it is much better."""
        with state.clock.phase("products"):
            optimality = problem.optimality(theta)
        check_range(problem, optimality)
        before = state.optimality
        if optimality < before:
            state.x, state.optimality = theta, optimality
        return optimality < 0.5 * before

    def _primal(self, problem: Problem, state: State) -> None:
        with state.clock.phase("products"):
            matrix = problem.normal_matrix()
        check_range(problem, matrix.diagonal())
        with state.clock.phase("factor"):
            factor = Factor(matrix)
        # What the Gram matrix lost to the precision of a float32 design comes back.
        enough = 100 * float(np.finfo(problem.dtype).eps)
        improving = True
        while improving and state.optimality > enough:
            with state.clock.phase("products"):
                gradient = problem.gradient(state.x).astype(np.float64)
            with state.clock.phase("factor"):
                theta = (state.x - factor.solve(gradient)).astype(problem.dtype)
            improving = self._offer(problem, state, theta)

    def _dual(self, problem: Problem, state: State) -> NDArray:
        with state.clock.phase("products"):
            matrix, rhs, lift = problem.dual_system()
        check_range(problem, matrix.diagonal())
        with state.clock.phase("factor"):
            dual = Factor(matrix).solve(rhs)
        with state.clock.phase("products"):
            return lift(dual)
