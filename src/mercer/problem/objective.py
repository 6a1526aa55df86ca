"""The objective of a design, targets, a loss and a penalty.

    F(w, b) = (1/n) Σ_i s_i ℓ(y_i, z_iᵀw + b) + Ω(w),     s = sample weights scaled to mean 1.

Solvers see vectors θ of one row per column of the design, and a last row for the intercept b,
which Ω does not touch. With k outputs θ has k columns. Unless the loss couples the outputs they are
k problems that share every product: norms, values and inner products then come one per output.
"""

from __future__ import annotations

from copy import copy
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mercer._runtime.device_arrays import copied, device_of, on_host, zeros
from mercer._runtime.devices import Device
from mercer.designs import Design
from mercer.losses import Loss
from mercer.penalties import Penalty
from mercer.problem.constants import best_constant
from mercer.problem.rows import add_scaled, as_rows, checked_target, normalised_weights

__all__ = ["Point", "Problem"]


class _Start(NamedTuple):
    """The point without weights; its gradient is the same for every penalty."""

    theta: NDArray
    responses: NDArray
    gradient: NDArray


class Problem:
    """Objective F of a design, targets, a loss and a penalty, with its derivatives.

    ``at`` returns a :class:`Point`, whose values at one θ share a single product with the design;
    ``value(theta)`` and similar methods compute one quantity.

    Parameters
    ----------
    design : Design of shape (n, D)
    y : array of shape (n,) or (n, k)
        Real targets, ±1, or class indicators, as the loss requires. θ has as many dimensions.
    loss : Loss
        Loss of a response and a target.
    penalty : Penalty
        Penalty of the weights.
    sample_weight : array of shape (n,), optional
        Weights of the rows, >= 0 and not all 0. Only their ratios matter; weight 0 leaves out a row
        and weight 2 counts it twice.
    fit_intercept : bool, default=True
        Whether the last row of θ is the intercept.

    Attributes
    ----------
    shape : tuple of int
        Shape of θ.
    dtype : numpy.dtype
        Type of the design and of θ. Sums and inner products are float64.
    separable : bool
        Whether there are several outputs, which are independent problems.

    Raises
    ------
    ValueError
        If y or the weights do not fit the design or the loss.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.designs import Dense
    >>> from mercer.losses import Squared
    >>> from mercer.penalties import L2
    >>> from mercer.problem import Problem
    >>> problem = Problem(Dense(np.eye(2)), np.array([1.0, 3.0]), Squared(), L2(0.5))
    >>> problem.initial()
    array([0., 0., 2.])
    >>> problem.value(problem.initial())
    0.5
    """

    def __init__(
        self,
        design: Design,
        y: ArrayLike,
        loss: Loss,
        penalty: Penalty,
        sample_weight: ArrayLike | None = None,
        fit_intercept: bool = True,
    ):
        self.design = design
        self.loss = loss
        penalty.check_complete()
        self.penalty = penalty
        self.fit_intercept = bool(fit_intercept)
        self.dtype = np.dtype(design.dtype)
        self.n_rows, n_columns = design.shape
        self.y = checked_target(y, self.n_rows, self.dtype)
        loss.check_target(self.y)
        self.weights = normalised_weights(sample_weight, self.n_rows)
        self.shape = (n_columns + self.fit_intercept, *self.y.shape[1:])
        self.separable = self.y.ndim == 2 and not loss.joint
        self._facts: dict[str, Any] = {}  # what no penalty changes; copies share it

    @property
    def n_variables(self) -> int:
        """Number of entries of θ."""
        return int(np.prod(self.shape))

    @property
    def n_outputs(self) -> int:
        """Number of columns of θ, 1 if it has one dimension."""
        return 1 if len(self.shape) == 1 else self.shape[1]

    @property
    def capabilities(self) -> frozenset[str]:
        """Properties that solvers may require."""
        offers = {
            "a quadratic loss": self.loss.quadratic,
            "a convex loss": self.loss.convex,
            "a smooth loss": self.loss.smooth,
            "a loss with a kink": not self.loss.smooth,
            "a loss of bounded curvature": bool(np.isfinite(self.loss.lipschitz)),
            "a quadratic penalty": self.penalty.quadratic,
            "a penalty of linear gradient": self.penalty.linear,
            "a linear system": self.loss.quadratic and self.penalty.linear,
            "vectors of rows": True,
            "a loss without an offset": not self.loss.of_rows,
        }
        return frozenset(name for name, offered in offers.items() if offered)

    @property
    def device(self) -> Device | None:
        """Device of targets, weights and vectors; None for NumPy arrays."""
        return device_of(self.y)

    def initial(self) -> NDArray:
        """θ without weights, and with the intercept that suits a constant model."""
        theta = zeros(self.shape, self.dtype, self.y)
        if self.fit_intercept:
            theta[-1] = self._start_of_loss()
        return theta

    def _start_of_loss(self) -> NDArray:
        """``loss.start`` of the targets, found once for a loss and all that smooth it."""
        kind = self.loss.starts_as
        known = self._facts.get("start of loss")
        if known is None or known[0] != kind:
            start = self.loss.start(self.y, self.row_mean)
            if self.loss.of_rows:  # which the start of the loss does not know
                start = best_constant(self.loss, self.y, start, self.row_mean)
            self._facts["start of loss"] = known = kind, start
        return known[1]

    def dot(self, a: NDArray, b: NDArray) -> NDArray[np.float64]:
        """Inner products in float64: (k,), one per output, if they are independent; else (1,)."""
        if self.separable:
            return np.einsum("ij,ij->j", a, b, dtype=np.float64)
        return np.einsum("i,i->", a.reshape(-1), b.reshape(-1), dtype=np.float64)[None]

    def norm(self, a: NDArray) -> NDArray[np.float64]:
        """Euclidean norms that go with ``dot``."""
        return np.sqrt(self.dot(a, a))

    def at(self, theta: ArrayLike, responses: NDArray | None = None) -> Point:
        """F and its derivatives at θ; ``responses`` are Zw + b where they are known already."""
        start = self._facts.get("start")
        if start is None or not np.array_equal(theta, start.theta):
            return self._point(theta, responses)
        point = self._point(theta, start.responses)
        point.gradient = start.gradient
        return point

    def _point(self, theta: ArrayLike, responses: NDArray | None = None) -> Point:
        return Point(self, theta, responses)

    def responses(self, theta: NDArray) -> NDArray:
        """Zw + b at θ, of shape (n,) or (n, k)."""
        return self.at(theta).responses

    def values(self, theta: NDArray) -> NDArray[np.float64]:
        """F at θ: (k,), one per output, if they are independent; else (1,)."""
        return self.at(theta).values

    def value(self, theta: NDArray) -> float:
        """F at θ, summed over the outputs."""
        return self.at(theta).value

    def gradient(self, theta: NDArray) -> NDArray:
        """∇F at θ, without its l1 part, in the shape of θ; not to be written to."""
        return self.at(theta).gradient

    def optimality(self, theta: NDArray) -> float:
        """Norm of the violated optimality condition, relative to ``reference()``.

        The largest one over independent outputs.
        """
        return self.at(theta).optimality

    def diagonal(self, theta: NDArray) -> NDArray:
        """The diagonal of ∇²F(θ) in float64: ``Point.diagonal``."""
        return self.at(theta).diagonal()

    def curvature_product(
        self, theta: NDArray, v: NDArray, outputs: NDArray | None = None
    ) -> NDArray:
        """∇²F(θ) v: ``Point.curvature_product``. For a quadratic loss θ is not looked at."""
        curvature = None if self.loss.quadratic else self.at(theta).curvature
        return self._curvature_product(curvature, v, outputs)

    def curvature(self, v: NDArray, product: NDArray) -> NDArray[np.float64]:
        """Inner products of v and ``product``, a curvature product."""
        return self.dot(v, product)

    def subtract(self, v: NDArray, scale: NDArray, product: NDArray) -> None:
        """Subtract a multiple of a curvature product from v."""
        add_scaled(v, -scale, product)

    def reference(self) -> NDArray[np.float64]:
        """Norm of the gradient at the start ``initial()``: (k,) or (1,), the unit of optimality.

        Without an intercept this is the gradient at zero; with one, adding a constant to the
        targets changes nothing. Where the start solves the problem up to rounding, it is infinite.
        """
        if "reference" not in self._facts:
            self._facts["reference"] = self._reference()
        return self._facts["reference"]

    def _reference(self) -> NDArray[np.float64]:
        eps = float(np.finfo(self.dtype).eps)
        point = self.at(self.initial())
        # A point refers to its problem: kept in the problem, it would keep both alive for long.
        self._facts["start"] = _Start(point.theta, point.responses, point.gradient)
        square, size = self._sizes(point.responses)
        if not self.separable:
            square, size = square.sum(keepdims=True), size.sum(keepdims=True)
        norm = self.norm(point.gradient)
        # Bounds what rounding can leave of sums that would be zero in exact arithmetic.
        column_size = np.sqrt(self.mean_squares.sum() + self.fit_intercept)
        solved = norm <= 8 * eps * column_size * np.sqrt(square)
        solved |= np.sqrt(square) <= 4 * eps * np.sqrt(size)
        return np.where(solved, np.inf, norm)

    def _sizes(self, responses: NDArray) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Mean squares of the derivatives of the loss and of the targets, one or one per output."""
        derivative = self.loss.gradient(responses, self.y)
        square = np.atleast_1d(self.row_mean(np.square(derivative, dtype=np.float64)))
        return square, np.atleast_1d(self.row_mean(np.square(self.y, dtype=np.float64)))

    def alpha_max(self) -> float:
        """Smallest strength of the penalty at which no output has weights; maybe infinite."""
        theta = self.initial()
        if self.fit_intercept:
            theta[-1] = best_constant(self.loss, self.y, theta[-1], self.row_mean)
        return self.penalty.alpha_max(self.weights_of(self.at(theta).gradient))

    def sample(self, rows: NDArray[np.int64]) -> tuple[Design, NDArray]:
        """The design and the targets of a few rows; of others where the rows are elsewhere."""
        return self.design.rows(rows), self.y[rows]

    def with_penalty(self, penalty: Penalty) -> Problem:
        """Copy of the problem with another penalty."""
        penalty.check_complete()
        other = copy(self)
        other.penalty = penalty
        return other

    def with_loss(self, loss: Loss) -> Problem:
        """Copy of the problem with another loss for its targets."""
        other = copy(self)
        other.loss = loss
        other._facts = {"mean squares": self.mean_squares}  # it depends on no loss
        if "start of loss" in self._facts:
            other._facts["start of loss"] = self._facts["start of loss"]
        return other

    def easier(self) -> Problem:
        """The problem with the convex surrogate of its loss."""
        if self.loss.surrogate is None:
            raise ValueError(f"loss {self.loss.name!r} is convex and has no surrogate.")
        given = (self.penalty, on_host(self.weights), self.fit_intercept)
        return Problem(self.design, on_host(self.y), self.loss.surrogate, *given)

    def _curvature_product(self, curvature: Any, v: NDArray, outputs: NDArray | None) -> NDArray:
        """∇²F v for the curvature of a point, or for ones if it is None."""
        product = self._mean_product(curvature, v, outputs)
        self._add_penalty(product, v)
        return product

    def _mean_product(self, curvature: Any, v: NDArray, outputs: NDArray | None) -> NDArray:
        """``_curvature_product`` without a penalty."""
        change = self._forward(v)
        if self.loss.joint:
            change = curvature(change)
        elif curvature is not None:
            change *= curvature if outputs is None else curvature[:, outputs]
        return self.mean_rows(change)

    def weights_of(self, theta: NDArray) -> NDArray:
        """θ without the intercept, as a view."""
        return theta[:-1] if self.fit_intercept else theta

    def _add_penalty(self, gradient: NDArray, theta: NDArray) -> None:
        """Add the gradient of the smooth part of Ω at θ to a gradient."""
        self.penalty.add_gradient(self.weights_of(gradient), self.weights_of(theta))

    def _forward(self, theta: NDArray) -> NDArray:
        """Zw + b, of a fresh array."""
        w = self.weights_of(theta)
        if np.any(w):
            responses = self.design.matvec(w)
        else:
            responses = zeros((self.design.shape[0], *theta.shape[1:]), self.dtype, theta)
        if self.fit_intercept:
            responses += theta[-1]
        return responses

    def _weighted(self, v: NDArray) -> NDArray:
        """v with its rows multiplied by the weights, in place."""
        if self.weights is not None:
            v *= as_rows(self.weights, v).astype(v.dtype)
        return v

    def mean_rows(self, v: NDArray) -> NDArray:
        """(1/n) Σ s_i v_i (z_i, 1): the transpose of ``_forward``, averaged; v is overwritten."""
        v = self._weighted(v)
        out = zeros((self.shape[0], *v.shape[1:]), self.dtype, v)
        np.multiply(self.design.rmatvec(v), 1.0 / self.n_rows, out=self.weights_of(out))
        if self.fit_intercept:
            out[-1] = np.sum(v, axis=0, dtype=np.float64) / self.n_rows
        return out

    def mean_slopes(self, responses: NDArray) -> NDArray:
        """The gradient of ``mean_loss`` by θ."""
        return self.mean_rows(self.loss.gradient(responses, self.y))

    def mean_curvatures(self, responses: NDArray) -> tuple[NDArray[np.float64], float]:
        """(1/n) Σ s_i c_i z_ij² of every column, and (1/n) Σ s_i c_i.

        c is the second derivative of the loss, in the mean over the outputs.
        """
        rows = self.loss.hessian(responses, self.y)
        rows = rows if rows.ndim == 1 else rows.mean(axis=1, dtype=np.float64)
        weighted = rows if self.weights is None else rows * self.weights
        squares = self.design.column_sqnorms(np.asarray(weighted, dtype=np.float64))
        return squares / self.n_rows, float(self.row_mean(rows))

    def mean_loss(self, responses: NDArray) -> NDArray[np.float64]:
        """(1/n) Σ s_i ℓ(y_i, u_i) for the responses u, of shape (k,) if outputs are independent."""
        return self.row_mean(self.loss.value(responses, self.y))

    def row_mean(self, rows: NDArray) -> NDArray[np.float64]:
        """(1/n) Σ s_i rows_i in float64, of shape () or (k,)."""
        if self.weights is None:
            return np.asarray(np.sum(rows, axis=0, dtype=np.float64) / self.n_rows)
        return np.einsum("i,i...->...", self.weights, rows, dtype=np.float64) / self.n_rows

    @property
    def mean_squares(self) -> NDArray[np.float64]:
        """(1/n) Σ s_i z_ij² of every column j, of shape (D,)."""
        if "mean squares" not in self._facts:
            sums = self.design.column_sqnorms(self.weights)
            self._facts["mean squares"] = sums / self.n_rows
        return self._facts["mean squares"]


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
