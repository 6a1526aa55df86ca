"""The part of _core_calls.py that is about local kernel machines."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from _core_calls import Call, D, N
from _core_calls import _rows as rows


def leaves() -> Iterator[Call]:
    of_leaves = {"order": np.arange(N - 1, -1, -1), "starts": np.array([0, 20, 20, N])}
    for name, weights in (("gaussian", None), ("rational_power", np.ones(N))):
        of_kernel = {"kernel": name, "parameter": 1.5, "scale": np.ones(D)}
        yield Call("solve_leaves", lambda of_kernel=of_kernel, weights=weights: {
            "X": rows(np.float32), **of_leaves, **of_kernel, "targets": rows()[:, :2].copy(),
            "weights": weights, "ridges": np.array([0.1, 1.0]), "fit_intercept": True, "tol": 1e-6,
            "coef": np.zeros((2, N, 2)), "intercept": np.zeros((2, 3, 2)),
            "residual": np.zeros((2, 3)), "n_threads": 2,
        }, frozenset({"coef", "intercept", "residual"}))  # fmt: skip
        yield Call("minimise_leaves", lambda of_kernel=of_kernel, weights=weights: {
            "X": rows(np.float32), **of_leaves, **of_kernel,
            "targets": np.sign(rows()[:, :2]), "weights": weights, "ridges": np.array([1.0, 0.1]),
            "fit_intercept": True, "loss": "logistic", "loss_parameter": 0.0, "tol": 1e-3,
            "max_iter": 20, "coef": np.zeros((2, N, 2)), "intercept": np.zeros((2, 3, 2)),
            "residual": np.zeros((2, 3)), "steps": np.zeros((2, 3), np.int64), "n_threads": 2,
        }, frozenset({"coef", "intercept", "residual", "steps"}))  # fmt: skip
        for dtype in (np.float32, np.float64):
            yield Call("predict_leaves", lambda of_kernel=of_kernel, dtype=dtype: {
                "X": rows(dtype), "rows": np.arange(N) * 7 % N,
                "leaves": np.repeat([0, 1, 2], [4, 6, N - 10]), "shares": np.full(N, 0.5),
                "landmarks": rows(dtype), **of_leaves, **of_kernel, "coef": np.ones((N, 2)),
                "intercept": np.ones((3, 2)), "out": np.zeros((N, 2)), "n_threads": 2,
            }, frozenset({"out"}))  # fmt: skip


def _cuts() -> dict[str, Any]:
    return {
        "directions": np.ones((2, D), np.float32), "low": np.array([-0.5, 0.0]),
        "high": np.array([0.5, 0.1]), "children": np.array([[1, ~2], [~0, ~1]]),
        "roots": np.array([0, ~3]),
    }  # fmt: skip


def trees() -> Iterator[Call]:
    for dtype in (np.float32, np.float64):
        yield Call("grow_trees", lambda dtype=dtype: {
            "X": rows(dtype), "leaf_size": 9, "overlap": 0.1, "key": 7, "pivots": 1, "weights": 2,
            "numbers": np.arange(3), "node": 1, "divides_alike": True, "n_threads": 2,
        })  # fmt: skip
        yield Call("route_rows", lambda dtype=dtype: {
            "X": rows(dtype), **_cuts(), "n_threads": 2,
        })  # fmt: skip
