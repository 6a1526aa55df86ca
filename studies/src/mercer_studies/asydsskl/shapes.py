"""Rows of the paper's full shapes, made up: seconds of one round, and no errors."""

from __future__ import annotations

from time import perf_counter
from typing import Any

import numpy as np
from scipy import sparse

from mercer._runtime.arrays import check_memory
from mercer.compare.records import quiet
from mercer.losses import Correntropy, Logistic
from mercer_studies.asydsskl.machines import inner_solver, selected

SHAPES = {
    "Covtype_B": ("classification", 581_012, 54),
    "RCV1": ("classification", 677_399, 47_236),
    "SUSY": ("classification", 5_000_000, 18),
    "Covtype_M": ("regression", 581_012, 54),
    "MNIST": ("regression", 1_000_000, 784),
    "Aloi": ("regression", 108_000, 128),
}
"""Task, rows and inputs of the paper's sets."""

_SPARSE = {"RCV1": 74}  # entries of a row, on average
_ALPHA = 1e-3


def made_up(name: str, share: float, seed: int = 0) -> tuple[Any, np.ndarray]:
    """Rows of normal numbers, sparse ones for RCV1, and targets that depend on some of them.

    ``name``: one of ``SHAPES``; ``share``: of the rows.
    """
    task, n, d = SHAPES[name]
    n = max(1, round(n * share))
    rng = np.random.default_rng(seed)
    entries = _SPARSE.get(name, d)
    check_memory(4.0 * n * entries * 2, f"{n} rows of {entries} entries", "choose other shapes")
    X: Any
    if name in _SPARSE:
        columns = np.sort(rng.integers(0, d, (n, entries)), axis=1)
        data = rng.standard_normal((n, entries), dtype=np.float32) / np.float32(np.sqrt(entries))
        starts = np.arange(n + 1) * entries
        X = sparse.csr_matrix((data.ravel(), columns.ravel(), starts), shape=(n, d))
        X.sum_duplicates()
        signal = np.asarray(X[:, : d // 2].sum(axis=1)).ravel()
    else:
        X = rng.standard_normal((n, d), dtype=np.float32)
        signal = X[:, 0] * X[:, 1] + X[:, 2]
    y = signal + 0.1 * rng.standard_normal(n)
    y = np.where(y > 0, 1.0, -1.0) if task == "classification" else (y - y.mean()) / y.std()
    return X, y


def timed(*, shape: str, share: float, n_new: int, n_jobs: int | None, seed: int) -> dict[str, Any]:
    """Seconds of the first round: features, steps, dropping.

    ``shape``: one of ``SHAPES``; ``share``: of its rows; ``n_new``: R.
    """
    task, n, d = SHAPES[shape]
    X, y = made_up(shape, share, seed)
    loss = Logistic() if task == "classification" else Correntropy()
    since = perf_counter()
    with quiet():
        inner = inner_solver("asydsskl", n_jobs, seed)
        found = selected(X, y, 0.5 / max(1, min(d, 100)), loss, _ALPHA, inner, n_new, 1, seed)
    seconds = perf_counter() - since
    about = {"name": f"generated {shape}", "paper_name": shape, "kind": "generated", "task": task}
    return {
        "data": {**about, "n_train": n, "n_test": 0, "d": d, "stand_in_for": None},
        "rows": X.shape[0],
        "model_size": found.n_active,
        "seconds": {"fit": seconds, **found.rounds[-1].phases},
    }
