"""Whole fits and predictions on a GPU beside the processor and PyTorch's Cholesky factorisation.

A line per task, size and method, as JSON: seconds to fit and to predict 10 000 rows as a user calls
them (rows come from the processor and predictions go back there), and R² or accuracy on these rows.
The data are generated. The first fit of each task on the GPU is not counted: it starts the device.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.metrics import accuracy_score, r2_score

from mercer import KernelClassifier, KernelRegressor, LocalKernelRegressor

N_TEST, D = 10_000, 20
GAMMA, ALPHA = 0.02, 1e-5
OFTEN = {"gamma": GAMMA, "alpha": ALPHA, "random_state": 0}
Make = Callable[[Any], Any]
TASKS: dict[str, tuple[Make, list[int]]] = {
    "exact Gaussian": (
        lambda device: KernelRegressor("exact", kernel="gaussian", device=device, **OFTEN),
        [20_000, 50_000, 100_000],
    ),
    "exact Laplacian": (
        lambda device: KernelRegressor("exact", kernel="laplacian", device=device, **OFTEN),
        [20_000, 50_000],
    ),
    "exact Gaussian, logistic": (
        lambda device: KernelClassifier("exact", loss="logistic", device=device, **OFTEN),
        [20_000, 50_000],
    ),
    "4096 landmarks": (
        lambda device: KernelRegressor("nystroem", n_components=4096, device=device, **OFTEN),
        [200_000, 1_000_000],
    ),
    "4096 cosines": (
        lambda device: KernelRegressor("fourier", n_components=4096, device=device, **OFTEN),
        [200_000, 1_000_000],
    ),
    "256 grids of bins": (
        lambda device: KernelRegressor(
            "binning", kernel="laplacian", n_components=256, device=device, **OFTEN
        ),
        [200_000, 1_000_000],
    ),
    "local machines": (
        lambda device: LocalKernelRegressor(gamma=GAMMA, random_state=0, device=device),
        [200_000],
    ),
}


def table(n: int, seed: int = 0) -> tuple[NDArray, NDArray]:
    """Rows of 20 normal inputs and a smooth target of five of them with noise of deviation .1."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, D)).astype(np.float32)
    y = np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + np.tanh(X[:, 3] - X[:, 4])
    return X, (y + 0.1 * rng.normal(size=n)).astype(np.float32)


class CholeskyOnGPU:
    """Ridge regression with a Gaussian kernel by one factor of K + nαI, all on the device."""

    def __init__(self, device: str, dtype: torch.dtype):
        self.device, self.dtype = device, dtype

    def fit(self, X: NDArray, y: NDArray) -> CholeskyOnGPU:
        self.rows = torch.as_tensor(X, device=self.device, dtype=self.dtype)
        targets = torch.as_tensor(y, device=self.device, dtype=self.dtype)
        K = self.kernel(self.rows)
        K.diagonal().add_(len(X) * ALPHA)
        self.mean = targets.mean()
        factor = torch.linalg.cholesky(K)
        self.weights = torch.cholesky_solve((targets - self.mean)[:, None], factor)
        return self

    def kernel(self, Y: torch.Tensor) -> torch.Tensor:
        squares = (Y * Y).sum(1)[:, None] + (self.rows * self.rows).sum(1)
        return squares.addmm_(Y, self.rows.T, alpha=-2.0).clamp_(min=0).mul_(-GAMMA).exp_()

    def predict(self, X: NDArray) -> NDArray:
        rows = torch.as_tensor(X, device=self.device, dtype=self.dtype)
        return (self.kernel(rows) @ self.weights + self.mean)[:, 0].cpu().numpy()


def measured(model: Any, n: int) -> dict[str, Any]:
    """Seconds and error of one fit and one prediction."""
    X, y = table(n)
    X_test, y_test = table(N_TEST, seed=1)
    score = r2_score
    if isinstance(model, KernelClassifier):
        y, y_test, score = y > 0, y_test > 0, accuracy_score
    begun = time.perf_counter()
    model.fit(X, y)
    fitted = time.perf_counter()
    found = model.predict(X_test)
    ended = time.perf_counter()
    return {
        "fit": round(fitted - begun, 3),
        "predict": round(ended - fitted, 4),
        "score": round(float(score(y_test, found)), 5),
        "solver": getattr(model, "solver_", None),
        "n_iter": getattr(model, "n_iter_", None),
    }


def methods(task: str, n: int, device: str) -> dict[str, Any]:
    """Models of a task by the name of what computes them."""
    make = TASKS[task][0]
    found = {"mercer, GPU": make(device), "mercer, processor": make(None)}
    if task == "exact Gaussian":
        found |= {
            f"PyTorch Cholesky, {dtype}": CholeskyOnGPU(device, getattr(torch, dtype))
            for dtype in ("float32", "float64")
        }
    return found


def told(line: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--tasks", nargs="*", default=list(TASKS), help="the beginnings of names")
    parser.add_argument("--rows", type=int, default=10**9, help="at most")
    parser.add_argument("--seconds", type=float, default=60.0, help="limit of the size before")
    asked = parser.parse_args()
    device = asked.device
    of_gpu = torch.cuda.get_device_name(device) if device.startswith("cuda") else device
    told({"gpu": of_gpu, "torch": torch.__version__, "cores": os.cpu_count()})
    for task in TASKS:
        if not task.startswith(tuple(asked.tasks)):
            continue
        measured(TASKS[task][0](device), 2000)
        slow: set[str] = set()
        for n in TASKS[task][1]:
            for name, model in methods(task, n, device).items():
                if n > asked.rows or name in slow:
                    continue
                line = {"task": task, "data": "generated", "rows": n, "method": name}
                try:
                    with warnings.catch_warnings():
                        warnings.simplefilter("ignore")
                        line |= measured(model, n)
                except (MemoryError, RuntimeError) as error:
                    line["error"] = str(error).splitlines()[0]
                    slow.add(name)
                told(line)
                if line.get("fit", 0) > asked.seconds:
                    slow.add(name)


if __name__ == "__main__":
    main()
