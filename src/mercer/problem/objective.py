"""The objective of a design, targets, a loss and a penalty.

    F(w, b) = (1/n) Σ_i s_i ℓ(y_i, z_iᵀw + b) + Ω(w),     s = sample weights scaled to mean 1.

Solvers see vectors θ of one row per column of the design, and a last row for the intercept b,
which Ω does not touch. With k outputs θ has k columns. Unless the loss couples the outputs they are
k problems that share every product: norms, values and inner products then come one per output.
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mercer.designs import Design
from mercer.losses import Loss
from mercer.penalties import Penalty
from mercer.problem.certificates import best_constant, dual_gaps
from mercer.problem.rows import add_scaled, as_rows, checked_target, normalised_weights

__all__ = ["Problem"]


@dataclass
class _Point:
    """What has been worked out at one θ. All of it follows from θ."""

    theta: NDArray
    responses: NDArray
    gradient: NDArray | None = None
    values: NDArray | None = None
    curvature: Any = None


class Problem:
    """F, its derivatives and its subproblems, for solvers that know nothing of rows.

    Values, gradients and curvature products at one θ share a single product with the design: the
    responses at the last θ are kept.

    Parameters
    ----------
    design : Design of shape (n, D)
    y : array of shape (n,) or (n, k)
        Real targets, ±1, or class indicators, as the loss wants them. θ has as many dimensions.
    loss : Loss
    penalty : Penalty
    sample_weight : array of shape (n,), optional
        Not negative, not all zero. Only their ratios count; weight 0 leaves a row out and weight 2
        counts it twice.
    fit_intercept : bool, default=True
        Whether θ ends in a row for the intercept.

    Attributes
    ----------
    shape : tuple of int
        Shape of θ.
    dtype : numpy.dtype
        That of the design and of θ. Sums and inner products are float64.
    capabilities : frozenset of str
        What solvers may require.

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

    # Workers that share the rows in linear equations, and the count of what they send each other.
    n_workers: int = 1
    meter: Any = None

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
        self.penalty = penalty
        self.fit_intercept = bool(fit_intercept)
        self.dtype = np.dtype(design.dtype)
        self.n_rows, n_columns = design.shape
        self.y = checked_target(y, self.n_rows, self.dtype)
        loss.check_target(self.y)
        self.weights = normalised_weights(sample_weight, self.n_rows)
        self.shape = (n_columns + self.fit_intercept, *self.y.shape[1:])
        self._separable = self.y.ndim == 2 and not loss.joint
        self._point: _Point | None = None
        self._sqnorms: NDArray | None = None
        self._reference: NDArray | None = None

    # -- vectors -----------------------------------------------------------------------------

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
        """What this problem offers to solvers that require something."""
        offers = {
            "a quadratic loss": self.loss.quadratic,
            "a convex loss": self.loss.convex,
            "a quadratic penalty": self.penalty.quadratic,
            "a penalty of linear gradient": self.penalty.linear,
            "a linear system": self.loss.quadratic and self.penalty.linear,
        }
        return frozenset(name for name, offered in offers.items() if offered)

    def initial(self) -> NDArray:
        """The start: no weights, and the intercept that suits a constant model."""
        theta = np.zeros(self.shape, dtype=self.dtype)
        if self.fit_intercept:
            theta[-1] = self.loss.start(self.y, self.row_mean)
        return theta

    def dot(self, a: NDArray, b: NDArray) -> NDArray[np.float64]:
        """Inner products in float64: (k,), one per output, if they are independent; else (1,)."""
        if self._separable:
            return np.einsum("ij,ij->j", a, b, dtype=np.float64)
        return np.einsum("i,i->", a.reshape(-1), b.reshape(-1), dtype=np.float64)[None]

    def norm(self, a: NDArray) -> NDArray[np.float64]:
        """Euclidean norms that go with ``dot``."""
        return np.sqrt(self.dot(a, a))

    # -- objective ---------------------------------------------------------------------------

    def responses(self, theta: NDArray) -> NDArray:
        """Zw + b of shape (n,) or (n, k); θ becomes the current point."""
        return self._at(theta).responses

    def values(self, theta: NDArray) -> NDArray[np.float64]:
        """F at θ: (k,), one per output, if they are independent; else (1,)."""
        point = self._at(theta)
        if point.values is None:
            losses = self.row_mean(self.loss.value(point.responses, self.y))
            penalties = self.penalty.value(self.weights_of(point.theta))
            if not self._separable:
                penalties = np.sum(penalties)
            point.values = np.atleast_1d(losses + penalties)
        return point.values

    def value(self, theta: NDArray) -> float:
        """F at θ, summed over the outputs."""
        return float(np.sum(self.values(theta)))

    def gradient(self, theta: NDArray) -> NDArray:
        """∇F at θ, without its l1 part, in the shape of θ; not to be written to."""
        point = self._at(theta)
        if point.gradient is None:
            gradient = self.mean_rows(self.loss.gradient(point.responses, self.y))
            self._add_penalty(gradient, point.theta)
            point.gradient = gradient
        return point.gradient

    def curvature_product(
        self, theta: NDArray, v: NDArray, outputs: NDArray | None = None
    ) -> NDArray:
        """∇²F(θ) v, generalised where the loss is not twice differentiable.

        Parameters
        ----------
        theta : array of the shape of θ
            Irrelevant for a quadratic loss.
        v : array of the shape of θ
            With ``outputs``, the columns of those outputs only; so is the result.
        outputs : int array, optional
            For independent outputs only.
        """
        change = self._forward(v)
        if not self.loss.quadratic:
            curvature = self._curvature_at(theta)
            if self.loss.joint:
                change = curvature(change)
            else:
                change *= curvature if outputs is None else curvature[:, outputs]
        product = self.mean_rows(change)
        self._add_penalty(product, v)
        return product

    def curvature(self, v: NDArray, product: NDArray) -> NDArray[np.float64]:
        """Inner products of v and ``product``, a curvature product."""
        return self.dot(v, product)

    def subtract(self, v: NDArray, scale: NDArray, product: NDArray) -> None:
        """Subtract a multiple of a curvature product from v."""
        add_scaled(v, -scale, product)

    def diagonal(self, theta: NDArray) -> NDArray:
        """The diagonal of ∇²F(θ) in float64, broadcastable to θ, for preconditioning.

        Outputs whose curvature differs share the diagonal of their mean curvature.
        """
        if self.loss.quadratic:
            mean_curvature = 1.0
            sqnorms = self._column_sqnorms()
        else:
            point = self._at(theta)
            rows = self.loss.hessian(point.responses, self.y)
            rows = rows if rows.ndim == 1 else rows.mean(axis=1, dtype=np.float64)
            weighted = rows if self.weights is None else rows * self.weights
            mean_curvature = float(self.row_mean(rows))
            sqnorms = self.design.column_sqnorms(np.asarray(weighted, dtype=np.float64))
        diagonal = np.empty(self.shape[0])
        self.weights_of(diagonal)[...] = sqnorms / self.n_rows + self.penalty.diagonal()
        if self.fit_intercept:
            diagonal[-1] = mean_curvature
        return diagonal if len(self.shape) == 1 else diagonal[:, None]

    # -- certificates ------------------------------------------------------------------------

    def reference(self) -> NDArray[np.float64]:
        """Norm of the gradient at the start ``initial()``: (k,) or (1,), the unit of optimality.

        Without an intercept this is the gradient at zero; with one, adding a constant to the
        targets changes nothing. Where the start solves the problem up to rounding, it is infinite.
        """
        if self._reference is None:
            here = self._point
            theta = self.initial()
            eps = float(np.finfo(self.dtype).eps)
            derivative = self.loss.gradient(self._at(theta).responses, self.y)
            square = np.atleast_1d(self.row_mean(np.square(derivative, dtype=np.float64)))
            size = np.atleast_1d(self.row_mean(np.square(self.y, dtype=np.float64)))
            if not self._separable:
                square, size = square.sum(keepdims=True), size.sum(keepdims=True)
            norm = self.norm(self.gradient(theta))
            # Bounds what rounding can leave of sums that would be zero in exact arithmetic.
            column_size = np.sqrt((self._column_sqnorms().sum() / self.n_rows) + self.fit_intercept)
            solved = norm <= 8 * eps * column_size * np.sqrt(square)
            solved |= np.sqrt(square) <= 4 * eps * np.sqrt(size)
            self._reference = np.where(solved, np.inf, norm)
            self._point = self._point if here is None else here
        return self._reference

    def optimality(self, theta: NDArray) -> float:
        """Norm of the violated optimality condition, relative to ``reference()``.

        The largest one over independent outputs.
        """
        violation = self.gradient(theta)
        if self.penalty.l1:
            w = self.weights_of(self._at(theta).theta)
            of_loss = self.weights_of(violation) - self.penalty.gradient(w)
            violation = violation.copy()
            self.weights_of(violation)[...] = self.penalty.violation(w, of_loss)
        return float(np.max(self.norm(violation) / self.reference()))

    def dual_gaps(self, theta: NDArray) -> NDArray[np.float64] | None:
        """``dual_gap`` of every output: (k,) if they are independent; else (1,)."""
        return dual_gaps(self, theta)

    def dual_gap(self, theta: NDArray) -> float | None:
        """F(θ) − D(a), an upper bound of F(θ) − min F, for the dual point that θ suggests.

        With a_i = ℓ'(y_i, u_i), moved to mean zero for an intercept and shrunk as far as an l1 part
        demands, D(a) = −(1/n) Σ s_i ℓ*(y_i, a_i) − Ω*(−Zᵀ(s·a)/n), where Ω*(v) is
        ‖max(|v| − l1, 0)‖² / (2 l2), or 0 for |v| ≤ l1 if there is no l2 part.

        Returns
        -------
        float or None
            Summed over the outputs. Infinite for alpha = 0; None if the loss is not convex, or for
            ``RKHSNorm``.
        """
        gaps = self.dual_gaps(theta)
        return None if gaps is None else float(np.sum(gaps))

    def alpha_max(self) -> float:
        """Smallest strength of the penalty at which no output has weights; maybe infinite."""
        here = self._point
        gradient = self.gradient(best_constant(self))
        self._point = self._point if here is None else here
        return self.penalty.alpha_max(self.weights_of(gradient))

    def with_penalty(self, penalty: Penalty) -> Problem:
        """The same problem with another penalty, which knows what this one has worked out."""
        other = copy(self)
        other.penalty = penalty
        if self._point is not None:
            other._point = _Point(self._point.theta.copy(), self._point.responses.copy())
        return other

    @property
    def current(self) -> NDArray | None:
        """A copy of the θ that was last evaluated or moved to."""
        return None if self._point is None else self._point.theta.copy()

    def from_rows(self, a: NDArray) -> NDArray:
        """θ with the weights Zᵀa and the intercept that is best for them under a quadratic loss."""
        theta = np.zeros(self.shape, dtype=self.dtype)
        self.weights_of(theta)[...] = self.design.rmatvec(a.astype(self.dtype))
        responses = self._forward(theta)
        if self.fit_intercept:
            theta[-1] = self.row_mean(self.y - responses)
            responses += theta[-1]
        self._point = _Point(theta.copy(), responses)
        return theta

    # -- rows --------------------------------------------------------------------------------

    def _at(self, theta: NDArray) -> _Point:
        """The point of θ. Compared by content: a caller may update its θ in place."""
        point = self._point
        if point is None or not np.array_equal(point.theta, theta):
            theta = np.array(theta, dtype=self.dtype)
            if theta.shape != self.shape:
                raise ValueError(f"theta must have shape {self.shape}; got {theta.shape}.")
            point = self._point = _Point(theta, self._forward(theta))
        return point

    def _curvature_at(self, theta: NDArray) -> Any:
        """ℓ'' of every row and output, or a linear map for a joint loss."""
        point = self._at(theta)
        if point.curvature is None:
            if self.loss.joint:
                point.curvature = self.loss.curvature(point.responses, self.y)
            else:
                point.curvature = self.loss.hessian(point.responses, self.y)
        return point.curvature

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
            responses = np.zeros((self.n_rows, *theta.shape[1:]), dtype=self.dtype)
        if self.fit_intercept:
            responses += theta[-1]
        return responses

    def _current(self) -> _Point:
        return self._at(self.initial()) if self._point is None else self._point

    def _weighted(self, v: NDArray) -> NDArray:
        """v with its rows multiplied by the weights, in place."""
        if self.weights is not None:
            v *= as_rows(self.weights, v).astype(v.dtype)
        return v

    def mean_rows(self, v: NDArray) -> NDArray:
        """(1/n) Σ s_i v_i (z_i, 1): the transpose of ``_forward``, averaged; v is overwritten."""
        v = self._weighted(v)
        out = np.empty((self.shape[0], *v.shape[1:]), dtype=self.dtype)
        np.multiply(self.design.rmatvec(v), 1.0 / self.n_rows, out=self.weights_of(out))
        if self.fit_intercept:
            out[-1] = np.sum(v, axis=0, dtype=np.float64) / self.n_rows
        return out

    def row_mean(self, rows: NDArray) -> NDArray[np.float64]:
        """(1/n) Σ s_i rows_i in float64, of shape () or (k,)."""
        if self.weights is None:
            return np.asarray(np.sum(rows, axis=0, dtype=np.float64) / self.n_rows)
        return np.einsum("i,i...->...", self.weights, rows, dtype=np.float64) / self.n_rows

    def _column_sqnorms(self) -> NDArray[np.float64]:
        if self._sqnorms is None:
            self._sqnorms = self.design.column_sqnorms(self.weights)
        return self._sqnorms
