"""Newton's method in the coefficients of the rows, as a solver."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from numpy.typing import NDArray

from mercer._runtime.validation import number_at_least_0, positive_integer
from mercer.problem import Problem
from mercer.solvers.base import Clock, Solver
from mercer.solvers.machine_newton import MachineNewton, MachineState, is_by_rows
from mercer.solvers.newton import NewtonCG

__all__ = ["RowNewton", "newton_for"]


@dataclass
class RowNewton(Solver):
    """Newton's method for the kernel machine of all rows, in the coefficients of the rows.

    For convex, smooth losses that are not quadratic and the penalty ``RKHSNorm`` of the design
    itself. Steps are those of a weighted squared loss, cut short where F rises; the inner conjugate
    gradients have a factor of the kernel for a preconditioner, weighted anew in every step.

    Parameters
    ----------
    tol : float, default=1e-4
        Stop when the residual s ℓ' + n alpha a of the equations of the rows is, in norm, at most
        tol times that of the best constant model, for every output.
    max_iter : int, default=1000
        Most steps.
    inner_tol : float, default=0.1
        Residual of the inner conjugate gradients relative to that of the step.
    max_inner : int, default=500
        Most conjugate-gradient iterations in a step.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import designs, kernels, losses, penalties, solvers
    >>> from mercer.problem import Problem
    >>> X = np.array([[-1.0], [1.0]])
    >>> design = designs.KernelColumns(X, kernels.Gaussian(0.5))
    >>> penalty = penalties.RKHSNorm(0.1, design)
    >>> problem = Problem(design, [-1.0, 1.0], losses.Logistic(), penalty)
    >>> solvers.RowNewton(tol=1e-8).solve(problem).coef.round(3)
    array([-1.259,  1.259,  0.   ])
    """

    inner_tol: float = 0.1
    max_inner: int = 500

    name: ClassVar[str] = "row-newton"
    follows_design: ClassVar[bool] = True
    requires: ClassVar[frozenset[str]] = frozenset(
        {"a penalty of linear gradient", "a smooth loss", "a convex loss", "vectors of rows"}
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        self.inner_tol = number_at_least_0(self.inner_tol, "inner_tol")
        self.max_inner = positive_integer(self.max_inner, "max_inner")

    def criterion(self, problem: Problem) -> str:
        return "residual"

    def share(
        self, problem: Problem, alphas: list[float], clock: Clock
    ) -> tuple[MachineNewton, ...]:
        """The machine of the least strength, whose kernel is in memory for all strengths."""
        if not is_by_rows(problem) or not min(alphas) > 0:
            raise ValueError(
                "row-newton needs the kernel machine of all rows with a loss that is not quadratic "
                f"and alpha > 0; got loss {problem.loss.name!r} and penalty "
                f"{problem.penalty.name!r}: use 'newton-cg'."
            )
        with clock.phase("hold"):
            least = min(alphas)
            return (MachineNewton(problem, self.tol, self.inner_tol, self.max_inner, least),)

    def init(
        self,
        problem: Problem,
        theta: NDArray,
        clock: Clock,
        machine: MachineNewton | None = None,
    ) -> MachineState:
        if machine is None:
            (machine,) = self.share(problem, [problem.penalty.alpha], clock)
        return machine.init(problem, theta, clock)

    def step(self, problem: Problem, state: MachineState) -> None:
        state.machine.step(problem, state)


def newton_for(problem: Problem) -> type[RowNewton] | type[NewtonCG]:
    """The form of Newton's method for a problem: by rows for kernel machines of all rows."""
    return RowNewton if is_by_rows(problem) else NewtonCG
