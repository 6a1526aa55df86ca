"""Graphs of ONNX under construction: nodes, constants and loops with names of their own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from mercer.onnx.packages import package

__all__ = ["LEAST_OPSET", "ML", "ML_OPSET", "TEXT", "Graph", "Value", "check_size", "element_type"]

# The first version of ONNX that has all operators used here, and that of its machine learning.
LEAST_OPSET, ML_OPSET = 18, 3
ML = "ai.onnx.ml"  # domain of the operators of machine learning
_MOST_BYTES = 2**31 - 2**20  # of a file of ONNX, less some for nodes

TEXT = np.dtype(object)  # of strings


@dataclass(frozen=True)
class Value:
    """A tensor of a graph, by its name and the type of its numbers; object means strings."""

    name: str
    dtype: np.dtype


class Graph:
    """Nodes added one by one; loops' bodies are inner graphs, constants are the outermost's."""

    def __init__(self, prefix: str = "mercer", parent: Graph | None = None):
        self.nodes: list[Any] = []
        self.root: Graph = self if parent is None else parent.root
        if parent is None:
            self.prefix, self._count, self._bytes = prefix, 0, 0.0
            self.constants: list[Any] = []
            self._known: dict[tuple[str, tuple[int, ...], bytes], Value] = {}

    def fresh(self, dtype: DTypeLike) -> Value:
        """A new name."""
        self.root._count += 1
        return Value(f"{self.root.prefix}_{self.root._count}", np.dtype(dtype))

    def constant(self, array: Any) -> Value:
        """An array of the model; small ones are stored once."""
        array = np.ascontiguousarray(array) if np.ndim(array) else np.asarray(array)
        is_small = array.size <= 64 and array.dtype != TEXT
        key = (array.dtype.str, array.shape, array.tobytes() if is_small else b"")
        if is_small and key in self.root._known:
            return self.root._known[key]
        self.root._bytes += array.nbytes
        check_size(self.root._bytes)
        value = self.fresh(array.dtype)
        tensor = package("onnx.numpy_helper").from_array(array, value.name)
        self.root.constants.append(tensor)
        if is_small:
            self.root._known[key] = value
        return value

    def op(
        self, kind: str, *inputs: Any, dtype: DTypeLike | None = None, **attributes: Any
    ) -> Value:
        """A node of one output, in ``dtype`` or the first tensor's; numbers become constants."""
        first = next(one for one in inputs if isinstance(one, Value))
        names = [self._input(one, first.dtype).name for one in inputs]
        out = self.fresh(first.dtype if dtype is None else dtype)
        domain = {"domain": ML} if kind == "LabelEncoder" else {}
        make = package("onnx.helper").make_node
        self.nodes.append(
            make(kind, names, [out.name], name=f"{out.name}_n", **domain, **attributes)
        )
        return out

    def _input(self, one: Any, dtype: np.dtype) -> Value:
        if isinstance(one, Value):
            return one
        if isinstance(one, (int, float, np.floating)):
            return self.constant(np.asarray(one, dtype=dtype))
        return self.constant(np.asarray(one, dtype=np.int64) if isinstance(one, list) else one)

    def cast(self, value: Value, dtype: DTypeLike) -> Value:
        """The tensor in another type of numbers."""
        if value.dtype == np.dtype(dtype):
            return value
        return self.op("Cast", value, dtype=dtype, to=element_type(dtype))

    def columns(self, value: Value, places: Sequence[int]) -> Value:
        """Some columns of a matrix."""
        return self.op("Gather", value, list(places), axis=1)

    def joined(self, values: Sequence[Value], axis: int = 1) -> Value:
        """Matrices side by side."""
        return values[0] if len(values) == 1 else self.op("Concat", *values, axis=axis)

    def n_rows(self, value: Value) -> Value:
        """The number of rows of a matrix, of shape (1,)."""
        shape = self.op("Shape", value, dtype=np.int64)
        return self.op("Slice", shape, [0], [1])

    def zeros(self, rows_of: Value, width: int, dtype: DTypeLike) -> Value:
        """A matrix of zeros with as many rows as another one."""
        shape = self.op("Concat", self.n_rows(rows_of), [width], axis=0)
        zero = package("onnx.numpy_helper").from_array(np.zeros(1, dtype=dtype))
        return self.op("ConstantOfShape", shape, dtype=dtype, value=zero)

    def scan(
        self,
        state: Value,
        slices: Sequence[Value],
        body: Callable[[Graph, Value, list[Value]], Value],
    ) -> Value:
        """``state = body(graph, state, slices)`` along the first axis; state keeps its shape."""
        helper = package("onnx.helper")
        inner = Graph(parent=self)
        inputs = [inner.fresh(value.dtype) for value in (state, *slices)]
        end = inner.op("Identity", body(inner, inputs[0], inputs[1:]))

        def described(value: Value, shape: Any) -> Any:
            return helper.make_tensor_value_info(value.name, element_type(value.dtype), shape)

        graph = helper.make_graph(
            inner.nodes,
            f"{end.name}_body",
            [described(value, None) for value in inputs],
            [described(end, [None, None])],
        )
        return self.op(
            "Scan", state, *slices, body=graph, num_scan_inputs=len(slices), dtype=state.dtype
        )

    def chunked_sum(
        self,
        rows_of: Value,
        arrays: Sequence[NDArray],
        body: Callable[[Graph, list[Value]], Value],
        width: int,
        dtype: DTypeLike,
    ) -> Value:
        """Sum of ``body(graph, chunks)`` (n, width) over chunks along the arrays' first axis."""
        if len(arrays[0]) == 1:
            return body(self, [self.constant(array[0]) for array in arrays])

        def added(graph: Graph, total: Value, slices: list[Value]) -> Value:
            return graph.op("Add", total, body(graph, slices))

        start = self.zeros(rows_of, width, dtype)
        return self.scan(start, [self.constant(array) for array in arrays], added)


def check_size(n_bytes: float) -> None:
    """Refuse arrays that no file of ONNX has room for."""
    if n_bytes > _MOST_BYTES:
        raise ValueError(
            f"model must take less than 2 GB, the most that a file of ONNX holds; its arrays take "
            f"{n_bytes / 1e9:.1f} GB written out."
        )


def element_type(dtype: DTypeLike) -> int:
    """The number by which ONNX knows a type."""
    onnx = package("onnx")
    dtype = np.dtype(dtype)
    if dtype == TEXT:
        return int(onnx.TensorProto.STRING)
    return int(onnx.helper.np_dtype_to_tensor_dtype(dtype))
