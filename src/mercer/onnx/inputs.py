"""Inputs of exported models: their names and types, and tables as they are given."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer.onnx.graph import TEXT, Graph, Value
from mercer.preparation import TablePreparer, column_names
from mercer.preparation.columns import Labels, _as_numbers_or_more, _text
from mercer.preparation.frames import frame_of
from mercer.preparation.recognition import TRUTH

__all__ = ["Input", "Inputs", "described", "fed", "no_text"]


@dataclass(frozen=True)
class Input:
    """A matrix (n, width) that an exported model is given; object stands for texts."""

    name: str
    dtype: np.dtype
    width: int


@dataclass(frozen=True)
class Inputs:
    """The tensors of a graph that hold the columns of a table, in their order."""

    values: tuple[Value, ...]
    widths: tuple[int, ...]

    @property
    def float_type(self) -> np.dtype:
        """Type of the outputs: float64 where an input is, else float32."""
        is_wide = any(value.dtype == np.float64 for value in self.values)
        return np.dtype(np.float64 if is_wide else np.float32)

    def column(self, graph: Graph, place: int) -> Value:
        """A column, (n, 1)."""
        for value, width in zip(self.values, self.widths, strict=True):
            if place < width:
                return value if width == 1 else graph.columns(value, [place])
            place -= width
        raise ValueError(f"inputs must have the columns of the fit; they lack column {place}.")

    def dtype(self, place: int) -> np.dtype:
        """The type of a column."""
        ends = np.cumsum(self.widths)
        return self.values[int(np.searchsorted(ends, place, side="right"))].dtype

    def matrix(self, graph: Graph) -> Value:
        """All columns as numbers of one type: float32 where that holds them, else float64."""
        for value in self.values:
            if value.dtype == TEXT:
                raise ValueError(f"inputs must be numbers for this model; {value.name!r} is text.")
        return graph.joined([graph.cast(value, self.common_type) for value in self.values])

    @property
    def common_type(self) -> np.dtype:
        """float32 where that holds the numbers of all inputs, else float64."""
        common = np.result_type(np.float16, *(value.dtype for value in self.values))
        return np.dtype(np.float64 if common == np.float64 else np.float32)


def described(first: Any, X: Any) -> list[Input]:
    """The inputs of an export, by the first part of the model and a sample of rows, if any."""
    preparer = first if isinstance(first, TablePreparer) else None
    if X is None:
        return _by_preparer(first, preparer)
    columns = _columns(X)
    if columns is None:
        X = np.asarray(X)
        dtype = np.float32 if X.dtype == np.float16 else X.dtype
        return [Input("X", np.dtype(dtype), X.shape[1])]
    names = getattr(first, "feature_names_in_", columns)
    return [
        Input(name, _type_of(columns[name], preparer, place, name), 1)
        for place, name in enumerate(names)
        if name in columns
    ]


def _by_preparer(first: Any, preparer: TablePreparer | None) -> list[Input]:
    """The inputs of a model that knows the kinds of its columns itself."""
    width = int(first.n_features_in_)
    if preparer is None or preparer.sparse_scaler_ is not None:
        return [Input("X", np.dtype(np.float32), width)]
    is_matrix = set(preparer.kinds_) == {"number"} and not any(preparer.formats_)
    if is_matrix and not hasattr(preparer, "feature_names_in_"):
        return [Input("X", np.dtype(np.float32), width)]
    return [
        Input(name, _type_of(None, preparer, place, name), 1)
        for place, name in enumerate(preparer._names())
    ]


def _type_of(column: Any, preparer: TablePreparer | None, place: int, name: str) -> np.dtype:
    """The type in which a column is given; None is a column that is not there to look at."""
    kind = "number" if preparer is None else preparer.kinds_[place]
    if kind == "label":
        return TEXT
    if kind == "date":
        return np.dtype(np.int64)
    form = "" if preparer is None else preparer.formats_[place]
    if column is None:
        if form == TRUTH:
            return TEXT
        if form:
            raise no_text(name, form)
        return np.dtype(np.float32)
    native = column.to_numpy() if hasattr(column, "to_numpy") else column
    if native.dtype.kind in "biuf":
        return np.dtype(native.dtype)
    value, _ = _as_numbers_or_more(column, name)
    is_text = isinstance(value, Labels)
    if form == TRUTH and (is_text or np.isnan(value).all()):
        return TEXT
    if is_text:
        raise no_text(name, form)
    return np.dtype(value.dtype)


def no_text(name: str, form: str) -> ValueError:
    """The error of a column whose texts ONNX cannot read."""
    told = f" ({form})" if form else ""
    return ValueError(
        f"column {name!r} must be given as numbers, in a sample X; ONNX does not read the texts"
        f"{told} that it held at fit."
    )


def _columns(X: Any) -> dict[str, Any] | None:
    """The columns of a table by name; None for an array of numbers, which is one matrix."""
    frame = frame_of(X)
    if frame is not None:
        return dict(zip(column_names(frame), frame.iter_columns(), strict=True))
    X = X if hasattr(X, "dtype") else np.asarray(X, dtype=object)
    if X.dtype.kind != "O" or X.ndim != 2:
        return None
    return {f"x{j}": column for j, column in enumerate(X.T)}


def fed(X: Any, inputs: list[Input]) -> dict[str, NDArray]:
    """The arrays that an exported model is given for a table, by the names of its inputs."""
    if len(inputs) == 1 and inputs[0].dtype != TEXT and frame_of(X) is None:
        X = X.toarray() if hasattr(X, "toarray") else X
        return {inputs[0].name: np.ascontiguousarray(X, dtype=inputs[0].dtype)}
    columns = _columns(X)
    if columns is None:
        columns = {f"x{j}": column for j, column in enumerate(np.asarray(X).T)}
    if len(inputs) == 1 and inputs[0].width > 1:  # of a table of numbers
        rows = np.column_stack([_as(column, inputs[0]) for column in columns.values()])
        return {inputs[0].name: rows}
    lacking = [one.name for one in inputs if one.name not in columns]
    if lacking:
        raise ValueError(f"X must have the columns of the model; it lacks {lacking[0]!r}.")
    return {one.name: _as(columns[one.name], one) for one in inputs}


def _as(column: Any, given: Input) -> NDArray:
    """A column as an input takes it, (n, 1)."""
    value, _ = _as_numbers_or_more(column, given.name)
    if given.dtype == TEXT:
        if not isinstance(value, Labels):
            texts = ["" if np.isnan(number) else _text(number) for number in value.tolist()]
            return np.array(texts, dtype=object)[:, None]
        known: NDArray = np.array([*value.texts, ""], dtype=object)[value.codes]
        return known[:, None]
    if isinstance(value, Labels):
        raise no_text(given.name, "")
    if value.dtype.kind == "M":  # what is missing becomes the least integer
        return np.asarray(value.astype("datetime64[us]").view(np.int64))[:, None]
    if given.dtype == np.int64 and np.isnan(value).any():
        value = np.where(np.isnan(value), np.iinfo(np.int64).min, np.nan_to_num(value))
    return np.asarray(value.astype(given.dtype))[:, None]
