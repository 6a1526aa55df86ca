"""The part of _core_calls.py that is about dual problems."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from _core_calls import Call, D, N
from _core_calls import _Property as Property
from _core_calls import _rows as data
from mercer import _core


def _matrix(dtype: Any = np.float64) -> np.ndarray:
    X = data()
    return (X @ X.T + np.eye(N)).astype(dtype)


def _function(rows: np.ndarray, first: int, last: int) -> np.ndarray:
    return np.ascontiguousarray(_matrix()[rows, first:last])


def duals() -> Iterator[Call]:
    def dense() -> dict[str, Any]:
        return {
            "kernel": "gaussian", "X": data(np.float32), "centre": np.zeros(D),
            "scale": np.ones(D), "parameter": 1.0, "dtype": "float32", "n_threads": 1,
            "single": True,
        }  # fmt: skip

    matrix = lambda: {"matrix": _matrix()}  # noqa: E731

    def function() -> dict[str, Any]:
        return {
            "n": N, "at_once": 4, "function": _function, "dtype": "float64"
        }  # fmt: skip

    def box() -> dict[str, Any]:
        return {
            "linear": np.full(N, -1.0), "lower": np.zeros(N), "upper": np.ones(N),
            "extra": np.zeros(N), "curvature": np.full(N, 2.0),
            "b": np.zeros(N), "sums": np.zeros(N),
        }  # fmt: skip

    moved, endless = frozenset({"b", "sums"}), frozenset({"max_updates"})

    def csr() -> dict[str, Any]:
        return {
            "kernel": "gaussian", "data": np.ones(2 * N),
            "indices": np.tile(np.arange(2, dtype=np.uint32), N),
            "indptr": np.arange(N + 1, dtype=np.int64) * 2, "n_inputs": D, "parameter": 1.0,
            "dtype": "float64",
        }  # fmt: skip

    for make in (dense, csr, matrix, function):
        yield Call("KernelRows", make)
        rows = lambda make=make: _core.KernelRows(*make().values())  # noqa: E731
        yield Call("KernelRows.n", dict, of=lambda rows=rows: Property(rows()))
        for block in (1, 4):
            greedy = lambda rows=rows, block=block: {  # noqa: E731
                "rows": rows(), "starts": np.array([0, 30, N]), "cache_bytes": 4000, "block": block
            }  # fmt: skip
            yield Call("GreedyDescent", greedy)
            yield Call(
                "GreedyDescent.run",
                lambda: {**box(), "target": 1e-3, "max_updates": 100},
                moved,
                endless,
                of=lambda greedy=greedy: _core.GreedyDescent(*greedy().values()),
            )
        held = np.float32 if make is dense else np.float64
        yield Call(
            "KernelRows.fill",
            lambda held=held: {
                "rows": np.array([3, 0, 3]), "out": np.zeros((3, N), held), "n_threads": 2
            },
            frozenset({"out"}),
            of=rows,
        )  # fmt: skip
    for dtype in (np.float32, np.float64):
        yield Call(
            "descend_pairs",
            lambda dtype=dtype: {
                "matrix": _matrix(dtype), **box(), "tol": 1e-3, "max_updates": 100
            },
            moved,
            endless,
        )  # fmt: skip
        yield Call(
            "add_rows",
            lambda dtype=dtype: {
                "rows": _matrix(dtype), "places": np.array([2, 0]), "steps": np.ones(2),
                "sums": np.zeros(N), "n_threads": 2,
            },
            frozenset({"sums"}),
        )  # fmt: skip
