"""Rows of a fit, and the parts between these and a design: a scaler and a feature map."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray
from sklearn.preprocessing import MaxAbsScaler, StandardScaler

from mercer import solvers
from mercer._runtime.arrays import Matrix, check_memory, row_chunks
from mercer._runtime.messages import shown
from mercer._runtime.moments import Moments
from mercer._runtime.rows import (
    Data,
    PreparedRows,
    bytes_per_row,
    is_large,
    is_sparse,
    selected,
)
from mercer._runtime.validation import flag, is_listed
from mercer.designs import Design
from mercer.kernels import Kernel, Stationary
from mercer.losses import Loss
from mercer.losses.offset import Offset
from mercer.maps import ExactKernel, FeatureMap
from mercer.penalties import Penalty
from mercer.preparation.repeats import REMEDY, copies_in
from mercer.problem import Problem
from mercer.solvers.forms import with_function_norm

__all__ = [
    "Preprocessing",
    "Scale",
    "Scaler",
    "TrainingSample",
    "checked_scaler",
    "fit_scaler",
    "resolved",
    "scale_of",
    "varying_columns",
    "with_resolved_gamma",
]

Scaler: TypeAlias = StandardScaler | MaxAbsScaler | None
Scale: TypeAlias = bool | Sequence[Sequence[int | str]]
"""Whether inputs are scaled; groups of columns share one scale each."""

_LEAST_VARIANCE = 1e-290  # float64 loses digits of smaller squares
_ROUNDING = 1e-12  # of the mean of a column: differences below it are rounding
_FIRST_ROWS = 256  # in which nearly every column that varies has two values
_UNEVEN = 100.0  # ratio of input scales from which an unscaled fit is warned of


@dataclass(frozen=True)
class TrainingSample:
    """Rows of a fit with their targets and weights, and all that a fit computes from them."""

    X: Any  # Data of shape (n, d), or texts
    target: NDArray  # (n,) or (n, k)
    weights: NDArray | None = None
    offset: NDArray[np.float64] | None = None  # (n,), added to responses before the loss

    # Whether they are in this process: those of many machines offer sums alone.
    are_here: ClassVar[bool] = True

    def __len__(self) -> int:
        return len(self.target)

    @property
    def total_weight(self) -> float:
        """The sum of the weights, the number of rows without them."""
        return float(len(self) if self.weights is None else np.sum(self.weights))

    def fit_scaler(self, scale: Scale) -> Scaler:
        """``fit_scaler`` of the rows."""
        return fit_scaler(self.X, self.weights, scale)

    def scaled(self, scaler: Scaler) -> Self:
        """Scaled rows; large ones are scaled when they are read."""
        return replace(self, X=Preprocessing(scaler).scaled_rows(self.X))

    def with_resolved_gamma(self, map_: FeatureMap) -> FeatureMap:
        """``map_`` with a kernel whose gamma is a number for the scaled rows."""
        return with_resolved_gamma(map_, self.X, self.weights)

    def fit_design(self, map_: FeatureMap) -> Design:
        """The design of the scaled rows by a map fitted to them."""
        return map_.fit_design(self.X)

    def wide_rows(
        self, prepared: Preprocessing, problem: Problem, few: NDArray[np.int64]
    ) -> Design:
        """The design in float64 of the rows ``few`` as given, which are ``problem.sample``."""
        return prepared.wide_rows(self.X, few)

    def wide_design(self, prepared: Preprocessing) -> Design:
        """The design in float64 of the rows as given."""
        return prepared.wide_design(self.X)

    def unit(self, loss: Loss) -> float:
        """The loss's typical second derivative, in units of the squared loss's."""
        return loss.unit(self.target, partial(np.average, axis=0, weights=self.weights))

    def strata(self, classes: Callable[[NDArray], NDArray | None]) -> NDArray | None:
        """Classes of the targets, (n,)."""
        return classes(self.target)

    def solver(
        self, given: str | solvers.Solver, problem: Problem, tol: float, max_iter: int
    ) -> solvers.Solver:
        """Resolve a solver name for this problem; a Solver instance is returned unchanged."""
        return solvers.get(given, problem, tol=tol, max_iter=max_iter)

    def scores(
        self, answer: Callable[[Any], NDArray], score: Callable[[NDArray, TrainingSample], float]
    ) -> list[float]:
        """Weighted score of each model, by the responses (q, n) or (q, n, k) of all to X."""
        return [score(each, self) for each in answer(self.X)]

    def with_function_norm(
        self, design: Design, penalty: Penalty, is_ridge: bool, loss: Loss
    ) -> tuple[Design, Penalty]:
        """A design and its penalty as solvers take them: see ``forms.with_function_norm``."""
        return with_function_norm(design, penalty, is_ridge, loss)

    def problem(self, design: Design, loss: Loss, penalty: Penalty, fit_intercept: bool) -> Problem:
        """The problem of a design of the rows."""
        loss = self.loss(loss)
        return Problem(design, self.target, loss, penalty, self.weights, fit_intercept)

    def loss(self, loss: Loss) -> Loss:
        """A loss of responses without the offset of the rows."""
        return loss if self.offset is None else Offset(loss, self.offset)

    def taken(self, rows: NDArray) -> TrainingSample:
        """Some rows, by index or by a mask; large X are read later."""
        if np.asarray(rows).dtype == bool:
            rows = np.flatnonzero(rows)
        weights, offset = (
            None if values is None else values[rows] for values in (self.weights, self.offset)
        )
        return TrainingSample(selected(self.X, rows), self.target[rows], weights, offset)

    def without_copies(self, labels: NDArray | None, is_matrix: bool) -> TrainingSample:
        """The rows with copies merged into weights; a warning tells of them.

        ``labels`` (n,) are classes, and the last column of a kernel matrix is the place of a row.
        """
        X = self.X[:, :-1] if is_matrix else self.X
        remedy = None if is_matrix else REMEDY
        found = copies_in(X, self.target, [self.offset], labels, remedy)
        if found is None:
            return self
        return replace(self.taken(found.first), weights=found.weights(self.weights))

    def weighted(self) -> TrainingSample:
        """The rows whose weight is not 0: such a weight is the same as not being there."""
        return self if self.weights is None or self.weights.all() else self.taken(self.weights != 0)


@dataclass(frozen=True)
class Preprocessing:
    """A model's ``scaler_`` and ``feature_map_``: the parts between rows as given and a design."""

    scaler: Scaler  # None takes the inputs as they are
    feature_map: Any = None  # None for machines that evaluate a kernel themselves

    @classmethod
    def of(cls, model: Any) -> Preprocessing:
        """The parts of a model; an AttributeError before its fit, None for a map not made yet."""
        return cls(model.scaler_, vars(model).get("feature_map_"))

    @classmethod
    def fitted(
        cls, map_: FeatureMap, rows: TrainingSample, scale: Scale, are_all: bool = True
    ) -> tuple[Preprocessing, Matrix]:
        """Scaler and map fitted to the rows, and the scaled rows.

        Columns that are constant in rows that ``are_all`` of a fit have no part in the kernel.
        """
        scaler = fit_scaler(rows.X, rows.weights, scale)
        scaled = cls(scaler).scaled(rows.X)
        map_ = with_resolved_gamma(map_, scaled, rows.weights, are_all)
        return cls(scaler, map_.fit(scaled)), scaled

    def scaled(self, X: Data) -> Matrix:
        """All the rows scaled; a MemoryError if a copy of many rows would not fit."""
        if isinstance(X, PreparedRows):
            return self.scaled_rows(X).together()
        if self.scaler is None:
            return X
        if is_large(X):
            check_memory(
                X.nbytes if isinstance(X, np.ndarray) else X.data.nbytes,
                f"a scaled copy of {X.shape[0]} rows of {X.shape[1]} inputs",
                "scale the data beforehand and say scale=False",
            )
        return self.scaled_few(X)

    def scaled_few(self, X: Matrix) -> Matrix:
        """Scale checked rows without the scaler's own checks, which take longer."""
        scaler = self.scaler
        if not (isinstance(scaler, StandardScaler) and isinstance(X, np.ndarray)):
            return X if scaler is None else scaler.transform(X)
        scaled = X - scaler.mean_.astype(X.dtype, copy=False)
        scaled /= scaler.scale_.astype(X.dtype, copy=False)
        return scaled

    def scaled_rows(self, X: Data) -> Any:
        """X scaled, or rows that are scaled when they are read if X is large."""
        if not is_large(X):
            return self.scaled(X)
        rows = X if isinstance(X, PreparedRows) else PreparedRows(X)
        return rows if self.scaler is None else rows.then(self.scaled_few)

    def wide_design(self, X: Data) -> Design:
        """The design of rows in float64; a MemoryError if the rows do not fit."""
        rows = self.scaled_rows(X)
        rows = rows.together() if isinstance(rows, PreparedRows) else rows
        size = getattr(rows, "nnz", rows.size)
        check_memory(16.0 * size, f"{rows.shape[0]} rows in float64", "raise alpha")
        wide = rows.astype(np.float64)
        # The rows of an exact kernel are its landmarks; what other maps have drawn stays.
        map_ = self.feature_map
        return map_.fit_design(wide) if isinstance(map_, ExactKernel) else map_.design(wide)

    def wide_rows(self, X: Data, rows: NDArray[np.int64]) -> Design:
        """The design of a few rows in float64."""
        few = self.scaled(selected(X, rows)).astype(np.float64)
        ((_, design),) = self.feature_map.designs(few)
        return design


def scale_of(model: Any) -> Scale:
    """The setting ``scale`` of a model that has seen its rows, with positions for names."""
    if not is_listed(model.scale):
        return flag(model.scale, "scale")
    names = [str(name) for name in vars(model).get("feature_names_in_", ())]
    groups = []
    for group in list(model.scale) or [()]:
        if not is_listed(group) or len(group) < 2:
            raise ValueError(
                "scale must be True, False or groups of two columns or more that share a scale, "
                f"such as [[0, 1]]; got {shown(model.scale)}."
            )
        unknown = [name for name in group if isinstance(name, str) and name not in names]
        if unknown:
            have = f"X has {names}" if names else "X has no names of columns"
            raise ValueError(f"scale must name columns of X; got {unknown[0]!r}, and {have}.")
        groups.append([names.index(c) if isinstance(c, str) else c for c in group])
    return groups


def fit_scaler(X: Data, weights: NDArray | None, scale: Scale) -> Scaler:
    """A scaler fitted to rows; None for texts and where ``scale`` is False.

    A column too large is a ValueError; without ``scale`` very different inputs are a warning.
    """
    if X.ndim == 1:  # texts
        return None
    used = weights if scale and not is_sparse(X) else None
    moments = Moments.of(X, used)
    if is_sparse(X):
        return checked_scaler(moments.max_abs_scaler(X.dtype), X.dtype, scale)
    scaler = moments.standard_scaler(used is not None)
    if scale and isinstance(X, np.ndarray):
        with np.errstate(over="ignore", invalid="ignore"):
            _scale_small(scaler, X, weights)
    return checked_scaler(scaler, X.dtype, scale)


def checked_scaler(scaler: StandardScaler | MaxAbsScaler, dtype: np.dtype, scale: Scale) -> Scaler:
    """A fitted scaler of rows of that type; see ``fit_scaler``, whose end this is."""
    if not scale:
        spread = scaler.max_abs_ if isinstance(scaler, MaxAbsScaler) else np.sqrt(scaler.var_)
        spread = spread[spread > 0]
        if len(spread) and spread.max() > _UNEVEN * spread.min():
            warnings.warn(
                f"the inputs' scales differ by a factor of {spread.max() / spread.min():.3g}, so "
                "the kernel sees little but the largest; scale=True or a scaler before the model "
                "helps.",
                UserWarning,
                stacklevel=6,
            )
        return None
    bad = ~np.isfinite(scaler.scale_)
    if bad.any():
        raise ValueError(
            f"X must have values small enough to be scaled in {dtype}; column "
            f"{int(np.flatnonzero(bad)[0])} is too large."
        )
    if not isinstance(scale, bool):
        _share_scales(scaler, scale)
    return scaler


def _share_scales(scaler: StandardScaler | MaxAbsScaler, groups: Sequence[Sequence[Any]]) -> None:
    """Give the columns of a group one scale, the root of their mean variance or the largest."""
    d, chosen = len(scaler.scale_), [place for group in groups for place in group]
    for place in chosen:
        if isinstance(place, bool) or place not in range(d) or chosen.count(place) > 1:
            raise ValueError(
                f"scale must have groups of positions from 0 to {d - 1}, each once; got {place!r}."
            )
    for group in map(list, groups):
        if isinstance(scaler, MaxAbsScaler):
            shared = scaler.max_abs_[group].max()
        else:
            is_constant = (scaler.var_[group] == 0) & (scaler.scale_[group] == 1)
            squares = np.where(is_constant, 0.0, np.square(scaler.scale_[group]))
            shared = np.sqrt(np.mean(squares))
        scaler.scale_[group] = shared or 1.0


def _scale_small(scaler: StandardScaler, X: NDArray, weights: NDArray | None) -> None:
    """Set the scale of inputs whose squares underflow, which scikit-learn takes for constant."""
    for j in np.flatnonzero(scaler.var_ < _LEAST_VARIANCE):
        difference = X[:, j] - scaler.mean_[j]
        largest = np.max(np.abs(difference))
        if largest > _ROUNDING * abs(scaler.mean_[j]):
            share = np.average(np.square(difference / largest), weights=weights)
            scaler.scale_[j] = largest * np.sqrt(share)


def with_resolved_gamma(
    map_: FeatureMap, X: Data, weights: NDArray | None, are_all: bool = True
) -> FeatureMap:
    """``map_`` with a kernel whose gamma is a number that takes the sample weights into account.

    Columns that are constant in rows that ``are_all`` of a fit do not change it.
    """
    kernel = map_.stated_kernel()
    if kernel is None:
        return map_

    def resolve(kernel: Kernel) -> Kernel:
        return kernel.resolve(X, sample_weight=weights)

    matters = map_.draws_inputs or isinstance(getattr(kernel, "gamma", None), str)
    varies = varying_columns(X) if are_all and matters else None
    return map_.state_kernel(resolved(map_, varies, X.shape[-1], resolve))


def resolved(
    map_: FeatureMap,
    varies: NDArray[np.int64] | None,
    n_inputs: int,
    resolve: Callable[[Any], Kernel],
) -> Kernel:
    """The kernel of a map with gamma in numbers, which constant columns do not change.

    ``varies`` are the other columns, None for all. Of a map that draws random numbers for every
    input, the kernel is one of these columns alone.
    """
    kernel = map_.stated_kernel()
    if varies is None:
        return resolve(kernel)
    of_these = kernel.of_varying(varies, n_inputs)
    if map_.draws_inputs:
        return resolve(of_these)
    if isinstance(kernel, Stationary) and isinstance(kernel.gamma, str):
        return kernel.with_gamma(resolve(of_these).gamma)
    return resolve(kernel)


def varying_columns(X: Data) -> NDArray[np.int64] | None:
    """Columns of more than one value, None if all or none have."""
    if X.ndim == 1:  # texts
        return None
    n, d = X.shape
    first, columns = X[:1], np.arange(d)
    first = (first.toarray() if is_sparse(first) else first)[0]
    parts = [slice(0, min(n, _FIRST_ROWS)), *row_chunks(n, bytes_per_row(X))]
    for rows in parts:
        if not len(columns):  # nearly always after the first ones
            return None
        part = X[rows]
        if is_sparse(part):
            part = np.stack([part.min(axis=0).toarray(), part.max(axis=0).toarray()]).reshape(2, d)
        columns = columns[(part[:, columns] == first[columns]).all(axis=0)]
    return None if len(columns) in (0, d) else np.setdiff1d(np.arange(d), columns)
