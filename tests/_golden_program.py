"""Fits of every solver, map and way to keep rows, on one thread: print them as JSON.

Each has the SHA-256 of what it learned and predicts, its first predictions, and the settings that
an automatic model chose. ``tests/golden.py`` stores and compares them.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import tempfile
import warnings
from collections.abc import Callable
from itertools import pairwise
from typing import Any

# Before NumPy and the core are loaded.
os.environ |= dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "POLARS_MAX_THREADS"), "1")

import numpy as np
from scipy import sparse

import mercer
from mercer import maps, solvers, unsupervised

_SHOWN = 12  # predictions kept as numbers

_RNG = np.random.default_rng(0)
X = _RNG.normal(size=(160, 4))
Y = np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.1 * _RNG.normal(size=160)
LABEL = np.where(X[:, 0] + 0.5 * X[:, 1] ** 2 > 0.3, "up", "down")
THREE = np.array(["a", "b", "c"])[np.digitize(Y, [-0.5, 0.7])]
TEXTS = [" ".join(np.where(row > 0, "more", "less")) + f" no. {i % 9}" for i, row in enumerate(X)]
TABLE = np.column_stack([X.astype(object), LABEL, np.array([f"k{i % 11}" for i in range(160)])])
TABLE[::17, 1] = np.nan

MAPS = (
    "binning", "fourier", "fastfood", "nystroem", "exact", "linear", "perceptron", "ngrams", "tefm",
)  # fmt: skip

# Losses that some solvers need; others take the squared loss.
_LOSSES = {"newton-cg": "logistic", "row-newton": "logistic", "smoothing": "quantile"}


def _bits(value: Any) -> bytes:
    """Bytes of an array with its type and shape, or of a sparse matrix in CSR."""
    if sparse.issparse(value):
        rows = value.tocsr()
        return b"".join(map(_bits, (rows.data, rows.indices.astype(np.int64), rows.indptr)))
    array = np.ascontiguousarray(value)
    values = repr(array.tolist()).encode() if array.dtype == object else array.tobytes()
    return f"{array.dtype.str}{array.shape}".encode() + values


def _fitted(model: Any) -> list[Any]:
    """Learned numbers of a model: coefficients, settings chosen by a search, scales."""
    found = [getattr(model, "best_settings_", None), getattr(model, "alpha_", None)]
    last = getattr(model, "pipeline_", [model])[-1]
    names = "coef_", "map_coef_", "intercept_", "support_", "scales_", "best_alpha_"
    found += [getattr(last, name) for name in names if hasattr(last, name)]
    return [each if hasattr(each, "dtype") else repr(each) for each in found if each is not None]


def _solver(name: str) -> Any:
    loss = _LOSSES.get(name, "squared")
    feature_map = "exact" if name == "row-newton" else "fourier"
    settings: dict[str, Any] = {} if feature_map == "exact" else {"n_components": 64}
    kind = mercer.KernelClassifier if loss == "logistic" else mercer.KernelRegressor
    if name == "coordinate":
        model = mercer.KernelRegressor("binning", n_components=16, random_state=0, n_jobs=1,
            penalty=mercer.penalties.L1(0.01), solver=name)  # fmt: skip
        return model.fit(X, Y), X
    model = kind(feature_map, loss=loss, solver=name, random_state=0, n_jobs=1, **settings)
    return model.fit(X, LABEL if loss == "logistic" else Y), X


def _map(name: str) -> Any:
    X_in = TEXTS if name == "ngrams" else X
    settings = {} if name in ("exact", "linear") else {"n_components": 16}
    model = mercer.KernelRegressor(
        maps.get(name, random_state=0, n_jobs=1, **settings), solver="cholesky", n_jobs=1
    )
    return model.fit(X_in, Y), X_in


def _automatic(kind: str) -> Any:
    if kind == "numbers":
        return mercer.AutoKernelRegressor(random_state=0, n_jobs=1).fit(X, Y), X
    if kind == "table":
        model = mercer.AutoKernelRegressor(random_state=0, n_jobs=1)
        return model.fit(TABLE, np.exp(Y)), TABLE
    return mercer.AutoKernelClassifier(random_state=0, n_jobs=1).fit(X, THREE), X


def _over_shards(model: Any, target: Any) -> Any:
    """The model, fitted to shards of several sizes in this process."""
    from mercer.distributed import Here, Shard
    from mercer.distributed.models import fit_over

    edges = 0, 50, 90, 160
    return fit_over(model, Here([Shard(X[a:b], target[a:b]) for a, b in pairwise(edges)], 2))


def _leaves(where: str) -> Any:
    target = THREE if where == "classes" else Y
    kind = mercer.LocalKernelClassifier if where == "classes" else mercer.LocalKernelRegressor
    model = kind(leaf_size=30, n_trees=2, random_state=0, n_jobs=1)
    if where == "shards":
        return _over_shards(model, Y), X
    return model.fit(X, target), X


def _leaves_through_files() -> Any:
    """Leaves of more rows than there seems to be memory for."""
    from mercer._runtime import rows
    from mercer.estimators import local

    rng = np.random.default_rng(1)
    many = rng.normal(size=(3000, 3))
    local.available_memory = lambda: 160 * len(many)
    rows._LARGE = 2**10
    model = mercer.LocalKernelRegressor(
        gamma=0.5, leaf_size=100, n_trees=12, random_state=0, n_jobs=1
    )
    with tempfile.TemporaryDirectory() as folder:
        np.save(f"{folder}/X.npy", many)
        mapped = np.load(f"{folder}/X.npy", "r")
        return model.fit(mapped, np.sin(2 * many).sum(axis=1)), many[:50]


def cases() -> dict[str, Callable[[], tuple[Any, Any]]]:
    """Names of the fits, and what gives a fitted model and rows to predict."""
    raw = {"random_state": 0, "max_rounds": 3}
    found: dict[str, Callable[[], tuple[Any, Any]]] = {}
    found |= {f"solver {name}": lambda name=name: _solver(name) for name in solvers.SOLVERS}
    found |= {f"map {name}": lambda name=name: _map(name) for name in MAPS}
    kinds = "numbers", "table", "classes"
    found |= {f"automatic {kind}": lambda kind=kind: _automatic(kind) for kind in kinds}
    places = "rows", "classes", "shards"
    found |= {f"leaves {where}": lambda where=where: _leaves(where) for where in places}
    return found | {
        "blocks of shards": lambda: (
            _over_shards(mercer.KernelRegressor("binning", n_components=16, random_state=0), Y), X,
        ),
        "automatic of shards": lambda: (
            _over_shards(mercer.AutoKernelRegressor(random_state=0, n_jobs=1), np.exp(Y)), X,
        ),
        "l1 over a stream": lambda: (mercer.SparseKernelRegressor(**raw).fit(X, Y), X),
        "doubly stochastic": lambda: (
            mercer.DoublySGDRegressor(random_state=0, max_iter=20, block_size=16).fit(X, Y), X,
        ),
        "dual": lambda: (mercer.DualKernelSVC(n_jobs=1).fit(X, THREE), X),
        "principal components": lambda: (unsupervised.KernelPCA(3, random_state=0).fit(X), X),
        "leaves through files": _leaves_through_files,  # last: it changes this process's memory
    }  # fmt: skip


def record(make: Callable[[], tuple[Any, Any]]) -> dict[str, Any]:
    """SHA-256 of what a fit learned and predicts, some predictions, and the settings chosen."""
    model, rows = make()
    predicted = np.asarray(
        model.predict(rows) if hasattr(model, "predict") else model.transform(rows)
    )
    hashed = hashlib.sha256()
    for each in (*_fitted(model), predicted):
        hashed.update(each.encode() if isinstance(each, str) else _bits(each))
    found = {"bits": hashed.hexdigest(), "predictions": predicted.ravel()[:_SHOWN].tolist()}
    chosen = getattr(model, "best_settings_", None)
    return found if chosen is None else found | {"settings": chosen}


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    wanted = sys.argv[1:]  # names of fits, or all
    fits = {name: record(make) for name, make in cases().items() if not wanted or name in wanted}
    sys.stdout.write(json.dumps(fits, indent=1) + "\n")
