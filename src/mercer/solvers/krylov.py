"""The state and the spaces of conjugate gradients: what vectors, products and norms are.

Vectors have one column per right-hand side. Groups of columns are solved, and leave, together.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import singledispatch
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer._runtime.device_arrays import on_host
from mercer.designs import FixedPointKernel, KernelColumns, KernelMatrix
from mercer.equations import Equations, KernelEquations, RowSpace
from mercer.problem import Point, Problem
from mercer.problem.rows import add_scaled
from mercer.solvers.base import State

__all__ = ["KrylovState", "MachineSpace", "RidgeSpace", "is_rough_enough", "with_cached_kernel"]

_FEW_OUTPUTS = 3  # outputs up to which a kernel that is fast to compute is not cached
_FEW_ROWS = 5000  # rows up to which a kernel in float64 is cached as a whole: 200 MB
_COARSE = 1e-3  # tol from which products in the dtype of the data, maybe float32, lose nothing
_DRIFT = 0.1  # largest error of the recurrence, as a share of the true residual of a ridge problem
_SAMPLE = 256  # rows of the sampled true residual; at most a sixteenth of all rows
_NEAR = 0.2  # largest sampled error as a share of tol; above it, compute the full residual
_MISS = 2.0  # largest accepted ratio of the true residual of a machine to the recurrence


@dataclass(kw_only=True)
class KrylovState(State):
    """State of conjugate gradients; residual, direction and slope are of active groups alone."""

    space: RidgeSpace | MachineSpace
    groups: NDArray[np.int64]  # numbers of those at work
    residual: NDArray
    direction: NDArray
    slope: NDArray[np.float64]  # rᵀ M⁻¹ r of every column
    relative: NDArray[np.float64]  # residuals, by the recurrence between two true ones
    best: NDArray[np.float64]  # the last true one that was at most half of the one before
    strikes: NDArray[np.float64]  # true residuals since then that show rounding to rule
    values: NDArray[np.float64]  # F
    lost: NDArray[np.bool_]  # whether rounding keeps the group from the goal
    first: float  # optimality at the start
    # The least true residual of every group of a machine, and its x.
    kept: dict[int, tuple[float, NDArray]] = field(default_factory=dict)

    @property
    def coef(self) -> NDArray:
        """θ; that of the first strength."""
        return on_host(self.space.theta(self.x))

    @property
    def coefs(self) -> list[NDArray]:
        """θ of every strength."""
        n_strengths = 1 if isinstance(self.space, RidgeSpace) else self.space.n_groups
        return [on_host(self.space.theta(self.x, number)) for number in range(n_strengths)]

    @property
    def objective(self) -> float:
        """F, summed over outputs and strengths."""
        return float(np.sum(self.values))

    @property
    def n_nonzero(self) -> int:
        """Non-zero entries of θ."""
        # By rows, no entry of θ is zero but by accident; counting would cost a product.
        by_rows = self.space.by_rows
        return self.problem.n_variables if by_rows else int(np.count_nonzero(self.x))

    @property
    def at_work(self) -> NDArray[np.bool_]:
        """Mask of all groups: True for those in ``groups``."""
        mask = np.zeros(len(self.relative), dtype=bool)
        mask[self.groups] = True
        return mask

    def keep(self, mask: NDArray[np.bool_]) -> None:
        """Drop the groups at work that are not in the mask."""
        self.groups = self.groups[mask]
        if mask.any():
            self.residual = self.space.choose(self.residual, mask)
            self.direction = self.space.choose(self.direction, mask)
            self.slope = self.space.choose(self.slope, mask)


class _Groups:
    """Columns of vectors, ``width`` of them in every group."""

    width = 1

    def columns(self, groups: NDArray[np.int64]) -> NDArray[np.int64]:
        """Numbers of the columns of some groups."""
        return (groups[:, None] * self.width + np.arange(self.width)).ravel()

    def by_groups(self, numbers: NDArray) -> NDArray:
        """One number per column, as (groups, columns of each)."""
        return numbers.reshape(-1, self.width)

    def choose(self, array: NDArray, mask: NDArray[np.bool_]) -> NDArray:
        """The columns of the groups in a mask."""
        whole = mask.all() or len(mask) == 1
        return array if whole else array[..., np.repeat(mask, self.width)]


class RidgeSpace(_Groups):
    """A ridge problem by its columns, or by its rows; every independent output is a group.

    ``view`` is the problem itself or its rows: their ``dot`` is the inner product of two vectors,
    ``curvature`` vᵀ M v from v and M v, ``subtract`` takes a multiple of M v from a residual.
    ``inverse`` is the preconditioner, a function of residuals.
    """

    def __init__(
        self, problem: Problem, view: Problem | RowSpace, inverse: Callable[[NDArray], NDArray]
    ):
        self.problem, self.view, self._inverse = problem, view, inverse
        self.dtype = np.dtype(view.dtype)
        self._reference = problem.reference()
        self.n_groups = len(self._reference)
        self.by_rows = isinstance(view, RowSpace)
        self.curvature, self.subtract, self.dot = view.curvature, view.subtract, view.dot

    def theta(self, x: NDArray, group: int = 0) -> NDArray:
        """θ of x; of one strength of a machine."""
        return self.view.lift(x) if isinstance(self.view, RowSpace) else x

    def point(self, x: NDArray) -> Point:
        """The point of θ."""
        return self.view.point(x) if isinstance(self.view, RowSpace) else self.problem.at(x)

    def look(self, x: NDArray) -> tuple[NDArray, NDArray[np.float64]]:
        """The true residual of all columns, and F of every group."""
        if isinstance(self.view, RowSpace):
            return -self.view.gradient(x), self.view.values(x).copy()
        point = self.point(x)
        return -point.gradient, point.values.copy()

    def values(self, state: KrylovState, falls: NDArray) -> NDArray[np.float64]:
        """F of the groups at work, after a step that lowers the quadratic by so much."""
        return state.values[state.groups] - falls

    def product(self, state: KrylovState) -> NDArray:
        """The matrix times the direction."""
        outputs = state.groups if self.n_groups > 1 else None
        return self.view.curvature_product(state.x, state.direction, outputs)

    def relative(
        self, residual: NDArray, x: NDArray, groups: NDArray[np.int64]
    ) -> NDArray[np.float64]:
        """Norms of the residual of some groups, relative to that of the best constant model."""
        return self.view.norm(residual) / self._reference[groups]

    def precondition(self, state: KrylovState) -> NDArray:
        """M⁻¹ times the residual."""
        return self._inverse(state.residual)

    def refine(self, state: KrylovState) -> bool:
        """False: products have full precision from the start."""
        return False

    def near(self, state: KrylovState, tol: float) -> float | None:
        """Relative residual estimated from a sample of rows; None: not available in this space."""
        return None

    def judge(
        self, state: KrylovState, true: NDArray, relative: NDArray, tol: float
    ) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Whether the recurrence has strayed from the truth, and whether rounding rules."""
        strayed = state.relative < (1 - _DRIFT) * relative
        drift = self.choose(true, state.at_work) - state.residual
        far = self.relative(drift, state.x, state.groups) > _DRIFT * relative[state.groups]
        strayed[state.groups] |= far
        return strayed, strayed


class MachineSpace(_Groups):
    """The equations of a kernel machine; all columns of one strength are a group.

    Its methods are those of ``RidgeSpace``. ``theta`` is the start, ``inverse`` preconditions
    residuals by the strength of each column, ``tol`` is the relative residual at the end.
    """

    by_rows = False

    def __init__(
        self,
        equations: Equations,
        theta: NDArray,
        inverse: Callable[[NDArray, NDArray], NDArray],
        tol: float,
    ):
        self.equations, self._inverse = equations, inverse
        self.dtype = np.dtype(np.float64)
        self.n_groups, self.width = len(equations.alphas), equations.width
        self.start = equations.from_theta(theta)
        self._start_residual = equations.residual(self.start)
        self._start_values = np.zeros(self.n_groups)
        if not isinstance(equations, KernelEquations):
            equations.start(self.start)
            self._start_values = equations.values().sum(axis=1)
        # Rounding of float32 products is far below a coarse tol; true residuals are float64.
        coarse = tol >= _COARSE and isinstance(equations, KernelEquations)
        self._of_products = np.dtype(equations.problem.dtype) if coarse else self.dtype
        self._energy = np.full(self.n_groups, np.inf)

    def theta(self, x: NDArray, group: int = 0) -> NDArray:
        return self.equations.theta(x, group)

    def look(self, x: NDArray) -> tuple[NDArray, NDArray[np.float64]]:
        at_start = np.array_equal(x, self.start)
        residual = self._start_residual.copy() if at_start else self.equations.residual(x)
        return residual, self._values(x, residual, np.arange(self.n_groups))

    def values(self, state: KrylovState, falls: NDArray) -> NDArray[np.float64]:
        return self._values(state.x, state.residual, state.groups)

    def _values(self, x: NDArray, residual: NDArray, groups: NDArray) -> NDArray[np.float64]:
        if isinstance(self.equations, KernelEquations):
            return self.equations.values_at(x, residual, groups).sum(axis=1)
        return self._start_values[groups] + self._energy_at(x, residual, groups)

    def _energy_at(self, x: NDArray, residual: NDArray, groups: NDArray) -> NDArray[np.float64]:
        """½ xᵀM x − rᵀx of groups, minus that of the start."""
        columns = self.columns(groups)
        change = x[:, columns] - self.start[:, columns]
        each = -0.5 * np.einsum("ij,ij->j", change, self._start_residual[:, columns] + residual)
        return self.by_groups(each).sum(axis=1)

    def product(self, state: KrylovState) -> NDArray:
        v = state.direction.astype(self._of_products, copy=False)
        return self.equations.product(v, self.columns(state.groups))

    def subtract(self, residual: NDArray, length: NDArray, product: NDArray) -> None:
        add_scaled(residual, -length, product)

    def dot(self, a: NDArray, b: NDArray) -> NDArray[np.float64]:
        return np.einsum("ij,ij->j", a, b)

    curvature = dot

    def relative(
        self, residual: NDArray, x: NDArray, groups: NDArray[np.int64]
    ) -> NDArray[np.float64]:
        return self.equations.relative(residual, x, groups).max(axis=1)

    def near(self, state: KrylovState, tol: float) -> float | None:
        """Relative residual estimated from a sample of rows; None if the sample cannot tell."""
        equations = self.equations
        n, rounded = equations.n_rows, isinstance(equations.problem.design, FixedPointKernel)
        is_sure = self.n_groups == 1 and float(state.relative[0]) <= tol
        if not (isinstance(equations, KernelEquations) and rounded and is_sure):
            return None
        if n < 16 * _SAMPLE:
            return None
        rows = np.linspace(0, n - 1, _SAMPLE).astype(np.int64)
        miss = equations.residual_of(rows, state.x) - state.residual[rows]
        norm = float(equations.relative(miss, state.x).max()) * np.sqrt(n / _SAMPLE)
        return float(state.relative[0]) + norm if norm <= _NEAR * tol else None

    def precondition(self, state: KrylovState) -> NDArray:
        return self._inverse(state.residual, self.equations.strengths(self.columns(state.groups)))

    def judge(
        self, state: KrylovState, true: NDArray, relative: NDArray, tol: float
    ) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        missed = relative > np.maximum(tol, _MISS * state.relative)
        # Residuals may rise for long; the quadratic rises only where rounding rules.
        energy = self._energy_at(state.x, true, np.arange(self.n_groups))
        idle = (relative >= state.best) & (energy >= self._energy)
        self._energy = energy
        for group in range(self.n_groups):
            if group not in state.kept or relative[group] < state.kept[group][0]:
                columns = self.equations.of(group)
                state.kept[group] = float(relative[group]), state.x[:, columns].copy()
        return missed, missed | idle

    def refine(self, state: KrylovState) -> bool:
        """Go back to the least true residual and sum in float64; False if sums are so already."""
        if self.equations.problem.device is None or self._of_products == self.dtype:
            return False
        self._of_products = self.dtype
        for group in range(self.n_groups):
            columns = self.equations.of(group)
            least, x = state.kept.get(group, (np.inf, None))
            state.x[:, columns] = x if least < state.first else self.start[:, columns]
        self._energy = np.full(self.n_groups, np.inf)
        return True


@singledispatch
def with_cached_kernel(problem: Problem, hold: bool | str, rough: bool = False) -> Problem:
    """The problem with kernel matrices in memory where they fit, and where that pays.

    ``rough``: fixed-point entries suffice between true residuals. Single dispatch on the problem.
    """
    design, penalty = problem.design, problem.penalty
    if not hold or not isinstance(design, KernelColumns):
        return problem
    if isinstance(design, (FixedPointKernel, KernelMatrix)):  # cached already
        return problem
    cached = copy.copy(problem)
    matrix: Any = penalty.matrix  # type: ignore[attr-defined]
    if hold == "auto" and rough and matrix is design and FixedPointKernel.fits(design):
        cached.design = FixedPointKernel(design)
    elif hold == "auto" and _is_quick(design) and problem.n_outputs <= _FEW_OUTPUTS:
        return problem
    else:
        cached.design = design.held()
    if matrix is design:
        matrix = cached.design
    elif isinstance(matrix, KernelColumns):
        matrix = matrix.held()
    cached.penalty = replace(penalty, matrix=matrix)  # type: ignore[call-arg]
    return cached


def _is_quick(design: KernelColumns) -> bool:
    """Whether products compute entries as fast as they would read them; few rows are read."""
    return design.quick and (design.dtype == np.float32 or design.shape[0] > _FEW_ROWS)


def is_rough_enough(problem: Problem, tol: float, least_alpha: float, margin: float = 2.0) -> bool:
    """Whether a machine's kernel may be rounded to fixed-point numbers between true residuals.

    The rounded equations are then positive definite and cut the true residual by ``margin``.
    """
    n = problem.n_rows
    most = 1.0 if problem.weights is None else float(problem.weights.max())
    suits = tol >= _COARSE if problem.dtype == np.float32 else n > _FEW_ROWS
    if not suits:
        return False
    return n * least_alpha >= margin * most * FixedPointKernel.rounding(n, problem.dtype)
