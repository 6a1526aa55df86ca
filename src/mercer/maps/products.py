"""Responses of maps as sums of products with one factor per group of input columns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from mercer.kernels import Kernel, Linear, On, Scaled, Sum, Times

__all__ = [
    "Additive",
    "Groups",
    "ProductForm",
    "Products",
    "form_of_boxes",
    "form_of_cosines",
    "form_of_kernel",
    "linear_form",
]

Groups: TypeAlias = Sequence[NDArray[np.int64]]  # columns of the rows that belong together


@dataclass(frozen=True)
class Products:
    """Sum over centres i of ``coef[i] * prod_j factors(rows)[j, :, i]``.

    Attributes
    ----------
    coef : ndarray of shape (m, k)
        Coefficients of k outputs, real or complex; the real part of the sum counts.
    factors : callable
        Gives the factors (J, n, m) of J groups of columns from rows (n, p).
    """

    coef: NDArray
    factors: Callable[[Any], NDArray]


@dataclass(frozen=True)
class Additive:
    """Sum over groups of functions of their columns alone.

    Attributes
    ----------
    parts : callable
        Gives the functions (n, J, k) of J groups of columns from rows (n, p).
    """

    parts: Callable[[Any], NDArray[np.float64]]


ProductForm: TypeAlias = list[Products] | Additive


def linear_form(weights: NDArray, groups: Groups) -> Additive:
    """The form of ``rows @ weights``, for weights (p, k)."""

    def parts(rows: Any) -> NDArray[np.float64]:
        found = [np.asarray(rows[:, columns] @ weights[columns]) for columns in groups]
        return np.stack(found, axis=1).astype(np.float64)

    return Additive(parts)


# -- kernels at landmarks --------------------------------------------------------------------------


def form_of_kernel(
    kernel: Kernel, landmarks: Any, coef: NDArray, groups: Groups
) -> ProductForm | None:
    """The form of ``kernel(rows, landmarks) @ coef``, for coef (m, k).

    None for kernels that are no sums of products over inputs, such as those of the Euclidean
    distance.
    """
    if isinstance(kernel, Linear):
        return linear_form(np.asarray(landmarks.T @ coef), groups)
    terms = _terms(kernel)
    if terms is None:
        return None
    own = [landmarks[:, columns] for columns in groups]
    return [
        Products((factor * coef).astype(coef.dtype), _kernel_factors(kernels, own, groups))
        for factor, kernels in terms
    ]


def _terms(kernel: Kernel) -> list[tuple[float, list[Any]]] | None:
    """A kernel as a sum of multiples of products of kernels that are products over inputs."""
    if isinstance(kernel, Scaled):
        terms = _terms(kernel.kernel)
        return None if terms is None else [(kernel.factor * f, kernels) for f, kernels in terms]
    if isinstance(kernel, (Sum, Times)):
        parts = [terms for part in kernel.parts if (terms := _terms(part)) is not None]
        if len(parts) < len(kernel.parts):
            return None
        if isinstance(kernel, Sum):
            return [term for terms in parts for term in terms]
        return [
            (float(np.prod([f for f, _ in chosen])), [k for _, kernels in chosen for k in kernels])
            for chosen in product(*parts)
        ]
    if isinstance(kernel, On):
        terms = _terms(kernel.kernel)
        columns = kernel.columns
        return terms and [(f, [k.on(columns) for k in kernels]) for f, kernels in terms]
    return [(1.0, [kernel])] if kernel.is_product else None


def _kernel_factors(
    kernels: list[Any], landmarks: list[Any], groups: Groups
) -> Callable[[Any], NDArray]:
    of_groups = [[kernel.of_inputs(columns) for kernel in kernels] for columns in groups]
    n_centres = landmarks[0].shape[0]

    def factors(rows: Any) -> NDArray:
        dtype = np.result_type(rows.dtype, landmarks[0].dtype)
        out = np.empty((len(groups), rows.shape[0], n_centres), dtype=dtype)
        for j, columns in enumerate(groups):
            own = rows[:, columns]
            if sparse.issparse(own) and not sparse.issparse(landmarks[j]):
                own = own.toarray()
            first, *others = of_groups[j]
            first._fill(out[j], own, landmarks[j])  # rows and landmarks are checked
            for other in others:
                out[j] *= other(own, landmarks[j])
        return out

    return factors


# -- random features -------------------------------------------------------------------------------


def form_of_cosines(
    frequencies: NDArray[np.float64],
    phases: NDArray[np.float64],
    coef: NDArray,
    groups: Groups,
) -> ProductForm:
    """The form of ``cos(rows @ frequencies.T + phases) @ coef``: real parts of ``exp(i w.x)``."""
    turned = np.exp(1j * phases)[:, None] * coef

    def factors(rows: Any) -> NDArray:
        out = np.empty((len(groups), rows.shape[0], len(phases)), dtype=np.complex128)
        for j, columns in enumerate(groups):
            angles = np.asarray(rows[:, columns] @ frequencies[:, columns].T, dtype=np.float64)
            out[j].real, out[j].imag = np.cos(angles), np.sin(angles)
        return out

    return [Products(turned, factors)]


def form_of_boxes(
    boxes: NDArray[np.int64],
    background: NDArray,
    intervals: Callable[[NDArray, NDArray[np.int64]], NDArray[np.float64]],
    coef: NDArray,
    groups: Groups,
) -> ProductForm | None:
    """The form of random bins: a row is in a box where it is in an interval of every input.

    Parameters
    ----------
    boxes : ndarray of shape (R, b)
        Column of the box that a background row lies in, per grid; -1 for boxes without a column.
    background : ndarray of shape (b, p)
        Rows that locate the boxes. A box with a weight but without a row is unknown, and the result
        then None.
    intervals : callable
        Gives the interval numbers (n, R, c) of rows (n, p) in some of their columns (c,).
    coef : ndarray of shape (D, k)
    groups : sequence of ndarray
    """
    columns, first = np.unique(boxes, return_index=True)
    needed = np.flatnonzero(np.any(coef != 0, axis=1))
    place = np.minimum(np.searchsorted(columns, needed), len(columns) - 1)
    if (columns[place] != needed).any():
        return None
    grid, row = np.divmod(first[place], boxes.shape[1])
    homes = [intervals(background, columns)[row, grid] for columns in groups]

    def factors(rows: Any) -> NDArray:
        rows = _dense(rows)
        out = np.empty((len(groups), len(rows), len(needed)))
        for j, columns in enumerate(groups):
            out[j] = (intervals(rows, columns)[:, grid] == homes[j]).all(axis=2)
        return out

    return [Products(coef[needed], factors)]


def _dense(rows: Any) -> NDArray:
    return rows.toarray() if sparse.issparse(rows) else np.asarray(rows)
