"""Inputs of estimators: rows of numbers, texts or a kernel matrix, and weights."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_consistent_length, validate_data

from mercer._runtime.arrays import check_memory
from mercer._runtime.device_arrays import on_host
from mercer._runtime.rows import Data, PreparedRows, is_large
from mercer._runtime.sparse import canonical_csr
from mercer._runtime.validation import check_weights, numbers
from mercer.kernels.text import checked_texts

__all__ = [
    "MATRIX",
    "NUMBERS",
    "TEXTS",
    "check_weights",
    "checked_pair",
    "float_types",
    "in_memory",
    "naming_remedy",
    "numbers",
]

NUMBERS, TEXTS, MATRIX = "numbers", "texts", "kernel matrix"  # kinds of X


def checked_pair(model: Any, X: Any, y: Any, **options: Any) -> tuple[Data, NDArray]:
    """X and y of a fit, checked by ``validate_data``; sets the inputs' number and names."""
    kind = model._input_kind()
    if kind == MATRIX:
        X = in_memory(X)
        X, y = validate_data(model, X, y, dtype=float_types(X), order="C", **options)
        if X.shape[0] != X.shape[1]:
            raise ValueError(
                f"X must be a square kernel matrix for kernel='precomputed'; got {X.shape}."
            )
        return X, y
    if kind == NUMBERS and not isinstance(X, PreparedRows):
        X = canonical_csr(X)
        with naming_remedy(model, X):
            return validate_data(model, X, y, accept_sparse="csr", dtype=float_types(X), **options)
    if not isinstance(X, PreparedRows):  # which their maker has checked
        X = checked_texts(X, "X")
    y = validate_data(model, y=y, **options)
    check_consistent_length(X, y)
    if isinstance(X, PreparedRows):
        model.n_features_in_ = X.shape[1]
    return X, y


@contextmanager
def naming_remedy(model: Any, X: Any) -> Iterator[None]:
    """Say where X holds a text and which class takes it, where the checks of numbers refuse it."""
    try:
        yield
    except ValueError as error:
        if not str(error).startswith("could not convert string"):
            raise
        raise ValueError(
            f"X must hold numbers; {error}{_place_of_text(X)}. make_pipeline(TablePreparer(), "
            f"{type(model).__name__}()) takes texts, dates and missing cells."
        ) from None


def _place_of_text(X: Any) -> str:
    """The row and the column of the first cell that is no number; "" if X is no table."""
    names = list(getattr(X, "columns", ()))
    cells = np.asarray(X, dtype=object)
    if cells.ndim != 2:
        return ""
    for row, column in np.ndindex(cells.shape):
        cell = cells[row, column]
        if isinstance(cell, str):
            try:
                float(cell)
            except ValueError:
                name = repr(str(names[column])) if names else column
                return f" in row {row} of column {name}"
    return ""


def in_memory(X: Any) -> Any:
    """X as one array in the memory of the processor."""
    return canonical_csr(on_host(X.together() if isinstance(X, PreparedRows) else X))


def float_types(X: Any) -> Any:
    """The types X may have: float32 holds small integers; a MemoryError if no copy fits."""
    dtype = getattr(X, "dtype", None)
    is_small = isinstance(dtype, np.dtype) and dtype.kind in "iufb" and dtype.itemsize <= 2
    if is_large(X) and dtype not in (np.float64, np.float32):
        check_memory(
            (4.0 if is_small else 8.0) * getattr(X, "nnz", X.size),
            f"a copy of X, whose numbers are {dtype}, in floating point",
            "store X as float32 or float64, which is taken as it is",
        )
    return np.float32 if is_small else [np.float64, np.float32]
