"""Problems whose rows are on workers: solvers that need sums over rows alone run on them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import issparse, vstack

from mercer.designs import Design
from mercer.distributed.parts import At, DesignFacts, Mix
from mercer.distributed.rows import Expression, RemoteRows
from mercer.distributed.run import Run
from mercer.equations import equations_of
from mercer.losses import Loss
from mercer.penalties import Penalty
from mercer.problem import Point, Problem
from mercer.problem.constants import best_intercept

__all__ = ["RemoteDesign", "RemotePoint", "RemoteProblem"]

_AUDIT_EVERY = 50  # products at points between two looks at whether a worker's state is right


class RemoteDesign(Design):
    """An n x D matrix on workers: sizes and bytes (0 if unknown), no entries."""

    def __init__(self, facts: DesignFacts, n_inputs: int | None = None, nbytes: int = 0):
        feature_map = facts.preprocessing.feature_map
        self.shape = (facts.n_rows, feature_map.n_features_out_)
        self.dtype = np.dtype(facts.dtype)
        self.n_inputs = feature_map.n_features_in_ if n_inputs is None else n_inputs
        self._nbytes = nbytes

    @property
    def nbytes(self) -> int:
        return self._nbytes


@dataclass
class _Asked:
    """State that all copies of a problem share: the run, and counts of points and products."""

    run: Run
    n_points: int = 0
    n_products: int = 0

    def of_rows(self, ask: str, rows: RemoteRows) -> Any:
        """Sum over the shards of a request on an expression of their rows."""
        asked = self.run if rows.point is None else rows.point
        return asked.total(ask, rows.expression)

    def audit(self, version: At, theta: NDArray) -> None:
        """Audit the responses at θ of one shard, each shard in turn."""
        number = self.n_products // _AUDIT_EVERY % self.run.engine.n_shards
        self.run.audit(version, lambda number: theta, number)

    def new_point(self) -> At:
        """The name of another state."""
        self.n_points += 1
        return At(self.n_points)


class RemoteResponses(RemoteRows):
    """Zw + b at one θ: states of workers, which can always be made again from θ.

    ``update``, an array or ``Mix``, makes the states first; the rest is as of ``RemoteRows``.
    """

    def __init__(
        self, asked: _Asked, theta: NDArray, like: NDArray, n_rows: int, update: Any = None
    ):
        super().__init__(asked.of_rows, Expression("responses"), like, n_rows, self)
        self._asked, self._theta, self.version = asked, theta, asked.new_point()
        self._update = theta if update is None else update
        self._values: dict[Loss, NDArray[np.float64]] = {}
        self._slopes: dict[Loss, NDArray] = {}

    def total(self, ask: str, *args: Any) -> Any:
        """Sum over the shards of a request in these states."""
        update, self._update = self._update, None
        return self._asked.run.total(
            ask, *args, version=self.version, update=update, truth=lambda number: self._theta
        )

    def mean_loss(self, loss: Loss) -> NDArray[np.float64]:
        """Mean loss; kept."""
        if loss not in self._values:
            self._evaluate(loss)
        return self._values[loss]

    def mean_slopes(self, loss: Loss) -> NDArray:
        """The gradient of the mean loss, a new array."""
        if loss not in self._slopes:
            self._evaluate(loss)
        return self._slopes.pop(loss)  # points keep gradients

    def product(self, loss: Loss, v: NDArray, outputs: NDArray | None) -> NDArray:
        """∇² of the mean loss times v; the states are audited now and then."""
        asked = self._asked
        asked.n_products += 1
        if asked.n_products % _AUDIT_EVERY == 0:
            asked.audit(self.version, self._theta)
        return self.total("product", loss, v, outputs)

    def mixed(
        self, other: RemoteResponses, theta: NDArray, chosen: NDArray[np.bool_]
    ) -> RemoteResponses:
        """Responses at θ with chosen columns from another point."""
        mix = Mix(self.version, other.version, chosen)
        return RemoteResponses(self._asked, theta, self.like, self.n_rows, mix)

    def _evaluate(self, loss: Loss) -> None:
        self._values[loss], self._slopes[loss] = self.total("evaluate", loss)


class RemotePoint(Point):
    """A point of a ``RemoteProblem``; F and its gradient come from one request."""

    problem: RemoteProblem
    responses: Any

    def __init__(self, problem: RemoteProblem, theta: ArrayLike, responses: Any = None):
        self.problem = problem
        self.theta = np.array(theta, dtype=problem.dtype)
        if self.theta.shape != problem.shape:
            raise ValueError(f"theta must have shape {problem.shape}; got {self.theta.shape}.")
        self.theta.flags.writeable = False
        self.responses = problem._forward(self.theta) if responses is None else responses

    @property
    def curvature(self) -> RemoteResponses:
        """The states that know it."""
        return self.responses

    def with_outputs(self, other: Point, chosen: NDArray[np.bool_]) -> Point:
        if chosen.all():
            return other
        if not chosen.any():
            return self
        theta = np.where(chosen, other.theta, self.theta)
        mixed = RemotePoint(self.problem, theta, self.responses)
        mixed.responses = self.responses.mixed(other.responses, mixed.theta, chosen)
        for name in {"values", "gradient"} & self.__dict__.keys() & other.__dict__.keys():
            mixed.__dict__[name] = np.where(chosen, getattr(other, name), getattr(self, name))
            mixed.__dict__[name].flags.writeable = False
        return mixed


class RemoteProblem(Problem):
    """A problem whose rows are on workers; sums over rows travel, nothing of n entries.

    ``NewtonCG``, ``Smoothing`` and, by columns, ``ConjugateGradient`` solve it as they solve any
    other. θ is sent once for F and its gradient, and directions once for every product with ∇²F.
    ``y`` and the responses of points are ``RemoteRows``. ``run`` asks ``DesignPart``, or a kind of
    it, with equal facts.
    """

    def __init__(
        self, run: Run, facts: DesignFacts, penalty: Penalty, design: RemoteDesign | None = None
    ):
        self.run, self.facts = run, facts
        self.design = RemoteDesign(facts) if design is None else design
        self.loss, self.penalty = facts.loss, penalty
        self.fit_intercept, self.dtype = facts.fit_intercept, np.dtype(facts.dtype)
        self.n_rows, self.shape = facts.n_rows, facts.shape
        self.separable = len(self.shape) == 2 and not self.loss.joint
        self.weights = None  # workers have them
        self._asked, self._facts = _Asked(run), {}
        like = np.zeros((0, *self.shape[1:]), dtype=self.dtype)
        self.y: Any = RemoteRows(self._asked.of_rows, Expression("y"), like, self.n_rows)

    # -- points ------------------------------------------------------------------------------

    def _point(self, theta: ArrayLike, responses: Any = None) -> Point:
        return RemotePoint(self, theta, responses)

    def alpha_max(self) -> float:
        if self.fit_intercept and not (self.loss.is_classification or self.loss.quadratic):
            raise NotImplementedError(
                f"the largest alpha of loss {self.loss.name!r} needs all rows on one machine."
            )
        return super().alpha_max()

    def sample(self, rows: NDArray[np.int64]) -> tuple[Design, NDArray]:
        X, y = self._few(len(rows))
        prepared = self.facts.preprocessing
        return prepared.feature_map.design(prepared.scaled(X)), y

    def wide_sample(self, rows: NDArray[np.int64]) -> Design:
        """The design of the rows of ``sample``, in float64."""
        X, _ = self._few(len(rows))
        ((_, design),) = self.facts.preprocessing.feature_map.designs(
            self.facts.preprocessing.scaled(X).astype(np.float64)
        )
        return design

    def _few(self, n_rows: int) -> tuple[Any, NDArray]:
        """Inputs and targets of about so many rows of all shards."""
        if "sample" not in self._facts:
            inputs, targets = zip(*self.run.total("sample", n_rows), strict=True)
            join = vstack if issparse(inputs[0]) else np.concatenate
            self._facts["sample"] = join(inputs), np.concatenate(targets)
        return self._facts["sample"]

    def with_loss(self, loss: Loss) -> Problem:
        other = super().with_loss(loss)
        if "sample" in self._facts:
            other._facts["sample"] = self._facts["sample"]
        return other

    def easier(self) -> Problem:
        if self.loss.surrogate is None:
            raise ValueError(f"loss {self.loss.name!r} is convex and has no surrogate.")
        return self.with_loss(self.loss.surrogate)

    @property
    def capabilities(self) -> frozenset[str]:
        """Properties that solvers may require: all but vectors of n entries."""
        return super().capabilities - {"vectors of rows"}

    def _start_of_loss(self) -> NDArray:
        if not self.facts.has_offset or "start of loss" in self._facts:
            return super()._start_of_loss()
        start = super()._start_of_loss()  # which does not know the offset
        like = np.zeros(0)
        offset: Any = RemoteRows(self._asked.of_rows, Expression("offset"), like, self.n_rows)
        y = self.y.astype(np.float64)
        best = [
            best_intercept(self.loss, y.column(j), offset, float(b), self.row_mean)
            for j, b in enumerate(np.ravel(start))
        ]
        self._facts["start of loss"] = self.loss.starts_as, np.reshape(best, np.shape(start))
        return super()._start_of_loss()

    # -- sums over rows ----------------------------------------------------------------------

    def _forward(self, theta: NDArray) -> Any:
        like = np.zeros((0, *theta.shape[1:]), dtype=self.dtype)
        return RemoteResponses(self._asked, theta, like, self.n_rows)

    def mean_loss(self, responses: Any) -> NDArray[np.float64]:
        return responses.mean_loss(self.loss)

    def mean_slopes(self, responses: Any) -> NDArray:
        return responses.mean_slopes(self.loss)

    def mean_curvatures(self, responses: Any) -> tuple[NDArray[np.float64], float]:
        squares, mean = responses.total("curvatures", self.loss)
        return squares, float(mean)

    def _sizes(self, responses: Any) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        return responses.total("sizes", self.loss)

    def _mean_product(self, curvature: Any, v: NDArray, outputs: NDArray | None) -> NDArray:
        if curvature is None:
            return self.run.total("product", self.loss, v, outputs)
        return curvature.product(self.loss, v, outputs)

    def row_mean(self, rows: Any) -> NDArray[np.float64]:
        return np.asarray(self._of_rows("row_mean", rows))

    def mean_rows(self, v: Any) -> NDArray:
        return self._of_rows("mean_rows", v)

    @property
    def mean_squares(self) -> NDArray[np.float64]:
        if "mean squares" not in self._facts:
            self._facts["mean squares"] = self.run.total("mean_squares")
        return self._facts["mean squares"]

    def _of_rows(self, ask: str, rows: Any) -> Any:
        if not isinstance(rows, RemoteRows):
            raise TypeError(f"rows are on workers; got {type(rows).__name__} of this machine.")
        return self._asked.of_rows(ask, rows)


@equations_of.register(RemoteProblem)
def _(problem: RemoteProblem, alphas: NDArray[np.float64]) -> Any:
    """Linear equations whose rows are on workers."""
    from mercer.distributed.normal_equations import remote_equations

    return remote_equations(problem, alphas)
