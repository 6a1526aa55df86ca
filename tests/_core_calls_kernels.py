"""The part of _core_calls.py that is about kernel matrices."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from _core_calls import Call, D, N
from _core_calls import _rows as rows
from mercer import _core


def _kernel(dtype: Any, name: str = "gaussian") -> dict[str, Any]:
    return {
        "kernel": name, "X": rows(dtype), "Y": rows(dtype, 40), "centre": np.zeros(D),
        "scale": np.ones(D), "parameter": 1.0,
    }  # fmt: skip


def kernels() -> Iterator[Call]:
    for dtype, weight, name in (
        (np.float32, np.float32, "gaussian"),
        (np.float32, np.float64, "cauchy"),
        (np.float64, np.float64, "rational_power"),
    ):
        yield Call("kernel_block", lambda dtype=dtype, name=name: {
            **_kernel(dtype, name), "out": np.empty((N, 40), dtype), "n_threads": 1,
            "single": False,
        }, frozenset({"out"}))  # fmt: skip
        for both in (False, True):
            yield Call("kernel_product", lambda dtype=dtype, name=name, weight=weight, both=both: {
                **_kernel(dtype, name), **({} if both else {"Y": None}),
                "w": np.ones((40 if both else N, 3), weight), "out": np.zeros((N, 3)),
                "v": np.ones((N, 3), weight) if both else None,
                "out_of_y": np.zeros((40, 3)) if both else None, "n_threads": 1, "single": True,
            }, frozenset({"out", "out_of_y"}))  # fmt: skip
        yield Call("distance_sums", lambda dtype=dtype: {
            "weights": np.ones((N, N), dtype), "columns": rows(dtype, N)[:, :1].T.copy(),
            "out": np.zeros(1), "n_threads": 1,
        }, frozenset({"out"}))  # fmt: skip
        yield Call("gram", lambda dtype=dtype, weight=weight: {
            "Z": rows(dtype), "transposed": False,
            "weights": np.ones(N) if weight == np.float64 else None, "out": np.zeros((D, D)),
            "n_threads": 1,
        }, frozenset({"out"}))  # fmt: skip
        yield Call("held_product", lambda weight=weight, transposed=weight == np.float64: {
            "M": rows(np.float32), "transposed": transposed,
            "weights": np.ones((N, 3) if transposed else (3, D), weight),
            "out": np.zeros((3, D) if transposed else (N, 3)), "n_threads": 1,
        }, frozenset({"out"}))  # fmt: skip


def fixed() -> Iterator[Call]:
    def numbers() -> np.ndarray:
        return np.zeros(_core.fixed_kernel_size(N), np.uint16)

    yield Call("fixed_kernel_size", lambda: {"n": N})
    yield Call("fixed_kernel", lambda: {
        "kernel": "laplacian", "X": rows(np.float32), "centre": np.zeros(D), "scale": np.ones(D),
        "parameter": 1.0, "fixed": numbers(), "n_threads": 1,
    }, frozenset({"fixed"}))  # fmt: skip
    yield Call("fixed_product", lambda: {
        "fixed": numbers(), "w": np.ones((N, 3), np.float32), "out": np.zeros((N, 3)),
        "n_threads": 1,
    }, frozenset({"out"}))  # fmt: skip
    yield Call("held_blocks", lambda: {
        "M": np.ones((2, D, D), np.float32), "weights": np.ones((2, 3, D)),
        "out": np.zeros((2, D, 3)), "n_threads": 1,
    }, frozenset({"out"}))  # fmt: skip
