"""The way of a table through a model: steps that treat each column by itself, then the rest."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import narwhals as nw
import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import (
    MaxAbsScaler,
    MinMaxScaler,
    PowerTransformer,
    QuantileTransformer,
    RobustScaler,
    StandardScaler,
)

from mercer.estimators.base import FeatureModel
from mercer.estimators.dual import DualKernelSVC
from mercer.estimators.inputs import MATRIX, NUMBERS
from mercer.estimators.preprocessing import Preprocessing
from mercer.estimators.scaling import InputScaler
from mercer.maps.products import Groups, ProductForm, form_of_kernel
from mercer.preparation import TablePreparer, checked_table
from mercer.preparation.frames import frame_of
from mercer.preparation.label_parts import with_labels_apart

__all__ = ["SplitModel", "composed_of"]

_METHODS = ("decision_function", "predict_proba", "predict")

_BY_COLUMN = (
    MaxAbsScaler,
    MinMaxScaler,
    PowerTransformer,
    QuantileTransformer,
    RobustScaler,
    StandardScaler,
)


@dataclass(frozen=True)
class SplitModel:
    """A fitted model cut in two: transformers that keep columns apart, and the rest."""

    n_inputs: int  # columns of the table
    steps: list[Any]  # transformers; a column depends on one of the table
    origins: NDArray[np.int64]  # (p,) table column of each column after steps
    rest: list[Any]  # further steps, which mix columns
    machine: Any

    @classmethod
    def of(cls, model: Any, n_inputs: int) -> SplitModel:
        """The path through a fitted model for tables of ``n_inputs`` columns."""
        steps, machine = [], model
        if isinstance(model, Pipeline):
            steps = [s for _, s in model.steps[:-1] if s is not None and s != "passthrough"]
            machine = model.steps[-1][1]
        origins, apart = np.arange(n_inputs), 0
        for step in steps:
            through = _origins(step, origins)
            if through is None:
                break
            origins, apart = through, apart + 1
        return cls(n_inputs, steps[:apart], origins, steps[apart:], machine)

    @property
    def is_inner(self) -> bool:
        """True if the machine after ``steps`` is a kernel machine of this library."""
        return not self.rest and isinstance(self.machine, (FeatureModel, DualKernelSVC))

    def check(self) -> None:
        """Refuse machines of kernel matrices, whose columns are rows of a fit."""
        machine = self.machine
        kind = machine._input_kind() if isinstance(machine, FeatureModel) else NUMBERS
        if kind == MATRIX or (isinstance(machine, DualKernelSVC) and machine._has_matrix()):
            raise ValueError("model must take rows of inputs; it takes a kernel matrix.")

    def table(self, X: Any, names: NDArray | None) -> Any:
        """X as ``treated`` takes it; a frame of narwhals, an array or CSR."""
        first = [*self.steps, *self.rest, self.machine][0]
        if isinstance(first, TablePreparer):
            return checked_table(first, X, reset=False)
        if isinstance(first, FeatureModel):
            return first._checked(X)
        frame = frame_of(X)
        if frame is None:
            X = X.tocsr() if sparse.issparse(X) else np.asarray(X)
            if X.ndim != 2:
                raise ValueError(f"X must have rows and columns; got shape {X.shape}.")
            return X
        return frame if names is None else frame.select(*names.tolist())

    def treated(self, table: Any, after: int = 0) -> Any:
        """Rows after ``steps``, of which some are done, scaled as the machine's map takes them."""
        for step in self.steps[after:]:
            table = step.transform(_native(table))
        if self.is_inner:
            table = Preprocessing.of(self.machine).scaled(table)
        return table

    def labels_apart(self) -> SplitModel:
        """The path on which unknown labels are a category of their own, far from all others."""
        steps = [with_labels_apart(s) if isinstance(s, TablePreparer) else s for s in self.steps]
        return replace(self, steps=steps)

    def groups(self) -> Groups:
        """Columns of the treated rows that are made of each column of the table."""
        order = np.argsort(self.origins, kind="stable")
        edges = np.searchsorted(self.origins[order], np.arange(self.n_inputs + 1))
        return [order[start:stop] for start, stop in pairwise(edges)]

    def converted(self, rows: Any) -> Any:
        """Treated rows in float64 if the coefficients are: these may be large and cancel."""
        wide = self.is_inner and self._coef_dtype == np.float64
        return rows.astype(np.float64, copy=False) if wide else rows

    @property
    def _coef_dtype(self) -> np.dtype:
        is_dual = isinstance(self.machine, DualKernelSVC)
        dtype: np.dtype = (self.machine.dual_coef_ if is_dual else self.machine.map_coef_).dtype
        return dtype

    def kept_rows(self, count: int) -> Any:
        """Evenly taken training rows, as treated, of machines that keep some; else None."""
        if not self.is_inner:
            return None
        if isinstance(self.machine, DualKernelSVC):
            return None  # support vectors lie where classes meet
        rows = getattr(self.machine.feature_map_, "landmarks_", None)
        if rows is None:
            return None
        return rows[np.unique(np.linspace(0, rows.shape[0] - 1, count).astype(np.int64))]

    def form(self, groups: Groups, background: Any) -> tuple[ProductForm, NDArray] | None:
        """The machine as a sum of products of treated columns, and its intercept (k,)."""
        if not self.is_inner:
            return None
        machine = self.machine
        if isinstance(machine, DualKernelSVC):
            coef = np.atleast_2d(machine.dual_coef_).T
            form = form_of_kernel(machine.kernel_, machine.support_vectors_, coef, groups)
            intercept = machine.intercept_
        else:
            feature_map, coef = machine.weighted_map.folded(np.atleast_2d(machine.map_coef_).T)
            form = feature_map.product_form(coef, groups, background)
            intercept = machine._intercept_
        return None if form is None else (form, np.atleast_1d(intercept).astype(np.float64))

    def respond(self) -> Callable[[Any], NDArray]:
        """The function that gives the responses of the machine to treated rows."""
        machine = self.machine
        if self.is_inner and isinstance(machine, DualKernelSVC):
            vectors, coef = machine.support_vectors_, machine.dual_coef_.T
            return lambda rows: machine.kernel_(rows, vectors) @ coef + machine.intercept_
        if self.is_inner:
            return self._inner_responses
        methods = ("_responses",) if isinstance(machine, FeatureModel) else _METHODS
        method = next((m for m in methods if hasattr(machine, m)), None)
        if method is None:
            raise TypeError(
                f"model must have decision_function or predict; got {type(machine).__name__}."
            )

        def responses(rows: Any) -> NDArray:
            for step in self.rest:
                rows = step.transform(_native(rows))
            return np.asarray(getattr(machine, method)(_native(rows)))

        return responses

    def _inner_responses(self, rows: Any) -> NDArray:
        machine = self.machine
        coef = machine.map_coef_.T
        parts = machine.weighted_map._responses(rows, coef, lambda part: part)
        return np.concatenate([product for _, product, _ in parts]) + machine._intercept_


def _origins(step: Any, origins: NDArray[np.int64]) -> NDArray[np.int64] | None:
    """Columns of the table behind the columns that a step makes; None if it mixes them."""
    if isinstance(step, TablePreparer):
        return origins[step.origins_]
    if isinstance(step, InputScaler):
        return None if step.matrix_.ndim == 2 else origins[step.scales_ != 0]
    return origins if isinstance(step, _BY_COLUMN) else None


def _native(table: Any) -> Any:
    return table.to_native() if isinstance(table, nw.DataFrame) else table


def composed_of(table: Any, background: Any, groups: Groups) -> Callable[[NDArray], Any]:
    """A function that composes rows from numbers (m, J) of rows, table first, then background."""
    if isinstance(table, nw.DataFrame):
        both = nw.concat([table, background])

        def of_frame(places: NDArray[np.int64]) -> Any:
            series = [both[name][places[:, j]] for j, name in enumerate(both.columns)]
            # Not a horizontal concatenation, which may align rows by the index of pandas.
            return series[0].to_frame().with_columns(*series[1:])

        return of_frame
    if sparse.issparse(table):
        table, background = table.toarray(), background.toarray()
    stacked = np.concatenate([table, background])
    group_of = np.zeros(stacked.shape[1], dtype=np.int64)
    for j, columns in enumerate(groups):
        group_of[columns] = j
    every = np.arange(stacked.shape[1])
    return lambda places: stacked[places[:, group_of], every]
