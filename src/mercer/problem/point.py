"""The objective at one θ: what solvers know of it there, from one product with the design."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mercer._runtime.device_arrays import copied

if TYPE_CHECKING:  # which imports this module
    from mercer.problem.objective import Problem

__all__ = ["Point"]


class Point:
    """Objective F and its derivatives at one θ, as returned by ``Problem.at``.

    The constructor computes the responses; other quantities are computed at first use and cached. A
    point is immutable: do not write to its arrays.

    Parameters
    ----------
    problem : Problem
        Problem of F.
    theta : array of the shape of the problem's θ
        Variable θ, which is copied.
    responses : array of shape (n,) or (n, k), optional
        Responses Zw + b, if known; otherwise one product with the design computes them.

    Raises
    ------
    ValueError
        If θ has another shape than the problem's.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.designs import Dense
    >>> from mercer.losses import Squared
    >>> from mercer.penalties import L2
    >>> from mercer.problem import Problem
    >>> problem = Problem(Dense(np.eye(2)), np.array([1.0, 3.0]), Squared(), L2(0.5))
    >>> point = problem.at([-0.5, 0.5, 2.0])
    >>> point.responses, point.value, point.optimality
    (array([1.5, 2.5]), 0.25, 0.0)
    """

    def __init__(self, problem: Problem, theta: ArrayLike, responses: NDArray | None = None):
        self.problem = problem
        self.theta = copied(theta, problem.dtype, problem.device)
        if self.theta.shape != problem.shape:
            raise ValueError(f"theta must have shape {problem.shape}; got {self.theta.shape}.")
        responses = problem._forward(self.theta) if responses is None else responses.view()
        self.responses: NDArray = responses  # Zw + b
        self.theta.flags.writeable = self.responses.flags.writeable = False

    @cached_property
    def values(self) -> NDArray[np.float64]:
        """F, (k,): one number per output if the outputs are independent; else one in all, (1,)."""
        problem = self.problem
        penalties = problem.penalty.value(problem.weights_of(self.theta))
        if not problem.separable:
            penalties = np.sum(penalties)
        return np.atleast_1d(problem.mean_loss(self.responses) + penalties)

    @property
    def value(self) -> float:
        """F, summed over the outputs."""
        return float(np.sum(self.values))

    @cached_property
    def gradient(self) -> NDArray:
        """∇F without its l1 part."""
        problem = self.problem
        gradient = problem.mean_slopes(self.responses)
        problem._add_penalty(gradient, self.theta)
        gradient.flags.writeable = False
        return gradient

    @property
    def slopes(self) -> NDArray:
        """Derivatives s_i ℓ'(y_i, u_i) / n of the mean loss by the responses; not kept."""
        problem = self.problem
        slopes = problem._weighted(problem.loss.gradient(self.responses, problem.y))
        slopes /= problem.n_rows
        return slopes

    @cached_property
    def curvature(self) -> Any:
        """ℓ'' of every row and output, or a linear map for a joint loss."""
        loss = self.problem.loss
        second = loss.curvature if loss.joint else loss.hessian
        return second(self.responses, self.problem.y)

    @property
    def violation(self) -> NDArray:
        """Distance of 0 to the subdifferential of F, entry by entry, up to its sign."""
        problem, penalty = self.problem, self.problem.penalty
        if not penalty.l1:
            return self.gradient
        violation = self.gradient.copy()
        weights, of_weights = problem.weights_of(self.theta), problem.weights_of(violation)
        of_weights[...] = penalty.violation(weights, of_weights - penalty.gradient(weights))
        return violation

    @property
    def optimality(self) -> float:
        """Norm of the violation in units of ``Problem.reference()``, the largest of the outputs."""
        return float(np.max(self.problem.norm(self.violation) / self.problem.reference()))

    def curvature_product(self, v: NDArray, outputs: NDArray | None = None) -> NDArray:
        """∇²F v, generalised where the loss is not twice differentiable.

        Parameters
        ----------
        v : array of the shape of θ
            With ``outputs``, the columns of those outputs only; so is the result.
        outputs : int array, optional
            For independent outputs only.
        """
        curvature = None if self.problem.loss.quadratic else self.curvature
        return self.problem._curvature_product(curvature, v, outputs)

    def diagonal(self) -> NDArray:
        """The diagonal of ∇²F in float64, broadcastable to θ, for preconditioning.

        Outputs whose curvature differs share the diagonal of their mean curvature.
        """
        problem, mean_curvature = self.problem, 1.0
        if problem.loss.quadratic:
            squares = problem.mean_squares
        else:
            squares, mean_curvature = problem.mean_curvatures(self.responses)
        diagonal = np.empty(problem.shape[0])
        problem.weights_of(diagonal)[...] = squares + problem.penalty.diagonal()
        if problem.fit_intercept:
            diagonal[-1] = mean_curvature
        return diagonal if len(problem.shape) == 1 else diagonal[:, None]

    def with_outputs(self, other: Point, chosen: NDArray[np.bool_]) -> Point:
        """This point with the columns of the chosen independent outputs taken from another one."""
        if chosen.all():
            return other
        if not chosen.any():
            return self
        mixed = Point(
            self.problem,
            np.where(chosen, other.theta, self.theta),
            np.where(chosen, other.responses, self.responses),
        )
        for name in {"values", "gradient"} & self.__dict__.keys() & other.__dict__.keys():
            mixed.__dict__[name] = np.where(chosen, getattr(other, name), getattr(self, name))
            mixed.__dict__[name].flags.writeable = False
        return mixed
