"""Responses ``z(x) @ w`` of linear models in the features of a map, and features themselves."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer.maps import Fastfood, IdentityMap, Nystroem, RandomBinning, RandomFourier
from mercer.maps.base import FeatureMap
from mercer.maps.cosines import CosineMap
from mercer.maps.local import LocalKernel
from mercer.maps.members import Members
from mercer.maps.nystroem import _is_tame
from mercer.onnx.binned import binned_sum
from mercer.onnx.graph import Graph, Value, check_size
from mercer.onnx.kernels import chunks, kernel_sum
from mercer.onnx.leaves import leaf_sum

__all__ = ["features", "responses"]

_COSINES = 1024  # frequencies of a chunk
_QUARTER = (
    np.pi / 2
)  # of a turn, by which cosines are sines: not all runtimes have those of float64


def responses(graph: Graph, map_: FeatureMap, x: Value, weights: NDArray) -> Value:
    """``z(x) @ weights`` (n, k) in the type that keeps its digits; a ValueError if impossible."""
    map_, weights = map_.folded(weights)
    if isinstance(map_, Nystroem) and map_.normalization_ is not None:
        wide = map_.normalization_ @ weights.astype(np.float64)
        few = np.zeros((1, map_.landmarks_.shape[1]), dtype=weights.dtype)
        weights = wide.astype(np.float32) if _is_tame(few, few, wide) else wide
    x = graph.cast(x, np.float64) if weights.dtype == np.float64 else x
    if isinstance(map_, IdentityMap):
        return graph.op("MatMul", x, weights)
    if isinstance(map_, Nystroem) and not map_.takes_text:
        return kernel_sum(graph, map_.kernel_, x, _dense(map_.landmarks_), weights)
    if isinstance(map_, RandomBinning):
        return binned_sum(graph, map_, x, weights)
    if isinstance(map_, LocalKernel):
        return leaf_sum(graph, map_, x, _dense(map_.landmarks_), weights)
    if isinstance(map_, Members) and isinstance(map_.base_, CosineMap):
        return _cosine_sum(graph, map_.base_, x, map_._places, weights)
    if isinstance(map_, (RandomFourier, Fastfood)):
        return _cosine_sum(graph, map_, x, np.arange(len(weights)), weights)
    base = getattr(map_, "base_", map_)
    raise ValueError(
        f"feature_map must be one that ONNX can express; got a {type(base).__name__}"
        f"{' of texts' if map_.takes_text else ''}."
    )


def features(graph: Graph, map_: FeatureMap, x: Value) -> Value:
    """``z(x)``, (n, D), in the type of x."""
    if map_.n_features_out_ == 0 or isinstance(map_, (RandomBinning, LocalKernel)):
        raise ValueError(
            f"a {type(map_).__name__} must be part of a model to be exported, not a step before "
            "one; its features are too many for a matrix."
        )
    if isinstance(map_, CosineMap):
        columns = np.arange(map_.n_features_out_)
        frequencies = map_._frequencies(columns // map_._per_stream)
        angles = graph.op("MatMul", graph.cast(x, np.float64), np.ascontiguousarray(frequencies.T))
        angles = graph.op("Add", angles, _QUARTER + map_._phases_of_columns(columns))
        return graph.op("Mul", graph.op("Sin", graph.cast(angles, x.dtype)), map_._amplitude)
    return graph.cast(responses(graph, map_, x, np.eye(map_.n_features_out_)), x.dtype)


def _cosine_sum(
    graph: Graph, map_: Any, x: Value, places: NDArray[np.int64], weights: NDArray
) -> Value:
    """``amplitude cos(x W + b) @ weights``; arguments are float64, whose cosines keep digits."""
    dtype = weights.dtype
    if not len(places):
        return graph.zeros(x, weights.shape[1], dtype)
    frequencies = map_._frequencies(places // map_._per_stream)
    phases = _QUARTER + map_._phases_of_columns(places)
    wide = graph.cast(x, np.float64)

    def body(inner: Graph, slices: list[Value]) -> Value:
        frequencies = inner.cast(slices[0], np.float64)
        angles = inner.op("Gemm", wide, frequencies, slices[1], transB=1)
        cosines = inner.op("Sin", inner.cast(angles, dtype))
        return inner.op("MatMul", cosines, slices[2])

    arrays = [
        chunks(frequencies.astype(dtype), _COSINES),
        chunks(phases[:, None], _COSINES).transpose(0, 2, 1),
        chunks((map_._amplitude * weights).astype(dtype), _COSINES),
    ]
    return graph.chunked_sum(x, arrays, body, weights.shape[1], dtype)


def _dense(rows: Any) -> NDArray:
    """Rows as an array, if a file has room for them."""
    check_size(float(rows.shape[0]) * rows.shape[1] * rows.dtype.itemsize)
    return rows.toarray() if hasattr(rows, "toarray") else np.asarray(rows)
