"""Sums of kernels against fixed rows, chunk by chunk, so that no kernel matrix is whole."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from mercer import kernels
from mercer.kernels.base import Stationary
from mercer.kernels.combined import Scaled, Sum, Times
from mercer.kernels.dots import Linear
from mercer.kernels.groups import On
from mercer.kernels.radial import Matern, RationalQuadratic
from mercer.kernels.stationary import Cauchy, Exponential, Gaussian, Laplacian
from mercer.onnx.graph import Graph, Value

__all__ = ["BLOCK", "Against", "against", "chunks", "kernel_sum"]

# Fixed rows of a chunk. A row of the data takes some times as many numbers: 1000 rows against 6144
# of 8 inputs under the Laplacian took 22 ms of one processor in chunks of 256, 29 ms of 1024.
BLOCK = 256

# k(x, y) for the columns of y (d, b), with x as given before: (n, b).
Against = Callable[[Graph, Value], Value]


def kernel_sum(
    graph: Graph, kernel: kernels.Kernel, x: Value, landmarks: NDArray, weights: NDArray
) -> Value:
    """``k(x, landmarks) @ weights``, (n, k), in the type of the weights (m, k)."""
    side = against(graph, kernel, x, landmarks.shape[1], _centre(landmarks), weights.dtype)
    rows = chunks(np.asarray(landmarks)).transpose(0, 2, 1)

    def body(inner: Graph, slices: list[Value]) -> Value:
        return inner.op("MatMul", side(inner, slices[0]), slices[1])

    arrays = np.ascontiguousarray(rows), chunks(weights)
    return graph.chunked_sum(x, arrays, body, weights.shape[1], weights.dtype)


def chunks(array: NDArray, size: int = BLOCK) -> NDArray:
    """Rows in chunks of one size (c, size, ...), the last filled with zeros; few are one chunk."""
    n = len(array)
    if n <= 2 * size:
        return array[None]
    count = -(-n // size)
    filled = np.zeros((count * size, *array.shape[1:]), dtype=array.dtype)
    filled[:n] = array
    return filled.reshape(count, size, *array.shape[1:])


def against(
    graph: Graph,
    kernel: kernels.Kernel,
    x: Value,
    n_inputs: int,
    centre: NDArray[np.float64],
    dtype: DTypeLike,
) -> Against:
    """The kernel of x (n, d) with later rows, in ``dtype``; ``centre`` (d,) is near the rows."""
    if isinstance(kernel, Scaled):
        inner, factor = against(graph, kernel.kernel, x, n_inputs, centre, dtype), kernel.factor
        return lambda g, y: g.op("Mul", inner(g, y), factor)
    if isinstance(kernel, (Sum, Times)):
        parts = [against(graph, part, x, n_inputs, centre, dtype) for part in kernel.parts]
        join = "Add" if isinstance(kernel, Sum) else "Mul"
        return lambda g, y: reduce(lambda a, b: g.op(join, a, b), [p(g, y) for p in parts])
    if isinstance(kernel, On):
        places = np.array(kernel.columns, dtype=np.int64)
        own = graph.op("Gather", x, places, axis=1)
        part = against(graph, kernel.kernel, own, len(places), centre[places], dtype)
        return lambda g, y: part(g, g.op("Gather", y, places, axis=0))
    if isinstance(kernel, Linear):
        wide = graph.cast(x, np.float64)
        return lambda g, y: g.cast(g.op("MatMul", wide, g.cast(y, np.float64)), dtype)
    if type(kernel) not in _PROFILES:
        raise ValueError(f"kernel must be one that ONNX can express; got {kernel!r}.")
    scale = kernel.input_scale(n_inputs)  # type: ignore[attr-defined]
    by_input = kernel.metric == "cityblock" or (  # type: ignore[attr-defined]
        isinstance(kernel, Cauchy) and not kernel.isotropic
    )
    make = _by_inputs if by_input else _by_squares
    return make(graph, kernel, x, (scale, centre), np.dtype(dtype))  # type: ignore[arg-type]


def _centre(rows: NDArray) -> NDArray[np.float64]:
    centre: NDArray[np.float64] = np.asarray(rows.mean(axis=0, dtype=np.float64))
    return centre


def _by_squares(
    graph: Graph, kernel: Stationary, x: Value, frame: tuple[NDArray, NDArray], dtype: np.dtype
) -> Against:
    """Kernels of |x|**2 - 2 x.y + |y|**2 in float64, as float32 loses small distances."""
    scale, centre = frame
    moved = graph.op("Mul", graph.op("Sub", graph.cast(x, np.float64), centre), scale)
    squares = graph.op("ReduceSumSquare", moved, [1])

    def side(g: Graph, y: Value) -> Value:
        there = g.op("Sub", g.cast(y, np.float64), centre[:, None])
        there = g.op("Mul", there, scale[:, None])
        distance = g.op("Gemm", moved, there, g.op("ReduceSumSquare", there, [0]), alpha=-2.0)
        distance = g.op("Max", g.op("Add", distance, squares), 0.0)
        if kernel.metric == "euclidean":
            distance = g.op("Sqrt", distance)
        return _PROFILES[type(kernel)](g, kernel, g.cast(distance, dtype))

    return side


def _by_inputs(
    graph: Graph, kernel: Stationary, x: Value, frame: tuple[NDArray, NDArray], dtype: np.dtype
) -> Against:
    """Kernels that are sums over inputs before their profile: input by input, (n, b) at a time."""
    scale, centre = frame
    moved = graph.op("Mul", graph.op("Sub", graph.cast(x, np.float64), centre), scale)
    by_input = graph.op("Transpose", graph.cast(moved, dtype), perm=[1, 0])
    by_input = graph.op("Unsqueeze", by_input, [2])

    def term(g: Graph, total: Value, pair: list[Value]) -> Value:
        apart = g.op("Sub", pair[0], g.op("Unsqueeze", pair[1], [0]))
        if isinstance(kernel, Cauchy):
            apart = g.op("Log", g.op("Add", g.op("Mul", apart, apart), 1.0))
        else:
            apart = g.op("Abs", apart)
        return g.op("Add", total, apart)

    def side(g: Graph, y: Value) -> Value:
        there = g.op("Sub", g.cast(y, np.float64), centre[:, None])
        there = g.cast(g.op("Mul", there, scale[:, None]), dtype)
        columns = g.op("Slice", g.op("Shape", y, dtype=np.int64), [1], [2])
        shape = g.op("Concat", g.n_rows(moved), columns, axis=0)
        start = g.op("Expand", g.constant(np.zeros((1, 1), dtype=dtype)), shape)
        distance = g.scan(start, [by_input, there], term)
        return _exp(g, kernel, distance)

    return side


# Profiles of a distance, which they are given in the type that they compute in.


def _exp(g: Graph, kernel: Any, distance: Value) -> Value:
    return g.op("Exp", g.op("Neg", distance))


def _matern(g: Graph, kernel: Any, distance: Value) -> Value:
    r = g.op("Mul", distance, float(np.sqrt(2.0 * kernel.nu)))
    result = _exp(g, kernel, r)
    if kernel.nu == 0.5:
        return result
    # Beyond 1000 the exponential is 0, and so must be its product with the polynomial.
    polynomial = r = g.op("Min", r, 1000.0)
    if kernel.nu == 2.5:
        polynomial = g.op("Mul", r, g.op("Add", g.op("Mul", r, 1.0 / 3.0), 1.0))
    return g.op("Mul", g.op("Add", polynomial, 1.0), result)


def _rational(g: Graph, kernel: Any, distance: Value) -> Value:
    logs = g.op("Log", g.op("Add", g.op("Mul", distance, 1.0 / kernel.exponent), 1.0))
    return g.op("Exp", g.op("Mul", logs, -kernel.exponent))


def _reciprocal(g: Graph, kernel: Any, distance: Value) -> Value:
    return g.op("Reciprocal", g.op("Add", distance, 1.0))


_PROFILES: dict[type, Callable[[Graph, Any, Value], Value]] = {
    Gaussian: _exp,
    Laplacian: _exp,
    Exponential: _exp,
    Matern: _matern,
    RationalQuadratic: _rational,
    Cauchy: _reciprocal,
}
