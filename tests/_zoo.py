"""Small fitted models: every estimator, with every map."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.pipeline import make_pipeline

import mercer
from mercer import kernels, maps
from mercer.auto import MeanClassifier


def rows(n: int = 48, d: int = 3) -> np.ndarray:
    return np.random.default_rng(0).normal(size=(n, d))


def texts(n: int = 48) -> list[str]:
    words = ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"]
    rng = np.random.default_rng(0)
    return [" ".join(rng.choice(words, 5)) for _ in range(n)]


def notes() -> np.ndarray:
    """A column of words, of which the first tell of the target, and one of money."""
    signs = np.where(np.sin(rows()[:, 0]) + rows()[:, 1] > 0, "more", "less")
    words = [
        f"{sign} {text} no. {i}" for i, (sign, text) in enumerate(zip(signs, texts(), strict=True))
    ]
    return np.column_stack([words, [f"${x:.2f}" for x in rows()[:, 2] + 9]]).astype(object)


def all_maps() -> dict[str, Callable[[], Any]]:
    """Every kind of map, unfitted and small."""
    return {
        "binning": lambda: maps.RandomBinning(n_components=8, random_state=0),
        "hashed": lambda: maps.RandomBinning(bins=64, n_components=8, random_state=0),
        "fourier": lambda: maps.RandomFourier(n_components=8, random_state=0),
        "pairs": lambda: maps.RandomFourier(
            n_components=8, form="pair", sampling="orthogonal", random_state=0
        ),
        "fastfood": lambda: maps.Fastfood(n_components=8, random_state=0),
        "nystroem": lambda: maps.Nystroem(n_components=8, random_state=0),
        "span": lambda: maps.Nystroem(n_components=8, whiten=False, random_state=0),
        "exact": lambda: maps.ExactKernel(gamma=np.array([0.5, 1.0, 2.0])),
        "whitened": lambda: maps.ExactKernel(whiten=True),
        "local": lambda: maps.LocalKernel(leaf_size=10, n_trees=2, random_state=0),
        "linear": lambda: maps.IdentityMap(),
        "perceptron": lambda: maps.RandomPerceptron(n_components=8, random_state=0),
        "tefm": lambda: maps.SubspaceEmbedding(n_components=4, random_state=0),
        "members": lambda: maps.Members(
            maps.RandomFourier(n_components=4, scale=False, random_state=0), [3, 10**9]
        ),
        "halfspaces": lambda: maps.Halfspaces(np.eye(3), np.zeros(3)),
        "ngrams": lambda: maps.HashedNGrams(n_components=16, random_state=0),
    }


def _machines() -> dict[str, Callable[[], Any]]:
    X = rows()
    y, label = np.sin(X[:, 0]) + X[:, 1], np.where(X[:, 0] > 0, "up", "down")
    three = np.array(["a", "b", "c"])[np.arange(len(X)) % 3]
    binning = all_maps()["binning"]
    raw = {"random_state": 0, "max_rounds": 2}
    steps = {"random_state": 0, "max_iter": 2, "block_size": 8}
    leaves = {"leaf_size": 10, "n_trees": 2, "random_state": 0}
    table = np.column_stack([X.astype(object), label])
    table[3, 1] = np.nan
    many = np.array([f"label {i % 30}" for i in range(len(X))], dtype=object)
    mixed = np.column_stack([table, many, np.datetime64("2026-01-01") + np.arange(len(X))])
    return {
        "outputs": lambda: mercer.KernelRegressor(binning()).fit(X, np.column_stack([y, X[:, 1]])),
        "path": lambda: mercer.KernelRegressor("exact", alphas=[0.1, 1.0]).fit(X, y),
        "sums": lambda: mercer.KernelClassifier(
            "fourier", n_components=4, random_state=0
        ).partial_fit(X, three, classes=["a", "b", "c"]),
        "two": lambda: mercer.KernelClassifier(binning(), loss="logistic").fit(X, label),
        "three": lambda: mercer.KernelClassifier("exact", alphas=[0.1, 1.0]).fit(X, three),
        "joint": lambda: mercer.KernelClassifier(binning(), loss="multinomial").fit(X, three),
        "sparse": lambda: mercer.SparseKernelRegressor(**raw).fit(X, y),
        "boxes": lambda: mercer.SparseKernelClassifier("binning", **raw).fit(X, three),
        "leaves": lambda: mercer.LocalKernelRegressor(alphas=[0.1, 1.0], **leaves).fit(X, y),
        "leaf classes": lambda: mercer.LocalKernelClassifier(loss="logistic", **leaves).fit(
            X, three
        ),
        "steps": lambda: mercer.DoublySGDRegressor(**steps).fit(X, y),
        "passes": lambda: mercer.DoublySGDClassifier("perceptron", **steps).fit(X, three),
        "dual": lambda: mercer.DualKernelSVC(n_jobs=1).fit(X, three),
        "matrix": lambda: mercer.DualKernelSVC("precomputed").fit(kernels.Gaussian(1.0)(X), label),
        "texts": lambda: mercer.KernelRegressor("ngrams", n_components=16, random_state=0).fit(
            texts(), y
        ),
        "auto": lambda: mercer.AutoKernelRegressor(random_state=0, n_jobs=1).fit(
            table, np.exp(2 * y)
        ),
        "autos": lambda: mercer.AutoKernelClassifier(random_state=0, n_jobs=1).fit(X, three),
        "preparer": lambda: mercer.TablePreparer(max_integers=5, max_labels=4).fit(mixed, y),
        "ranks": lambda: mercer.TablePreparer("quantile").fit(mixed),
        "csr": lambda: mercer.TablePreparer().fit(sparse.csr_array(X)),
        "words": lambda: mercer.TablePreparer().fit(notes(), y),
        "means": lambda: MeanClassifier(
            [
                make_pipeline(
                    mercer.GradientScaler(random_state=0), mercer.LocalKernelClassifier(**leaves)
                )
            ]
            * 2
        ).fit(X, three),
        "scaler": lambda: mercer.GradientScaler(full=True, random_state=0).fit(X, y),
        "left-out": lambda: mercer.LeftOutScaler(random_state=0).fit(X, y),
    }


def _with(make: Callable[[], Any], name: str) -> Callable[[], Any]:
    X = texts() if name == "ngrams" else rows()
    # Features that were chosen are no part of such a model, and leaves have models of their own.
    if name in ("members", "local"):
        return lambda: make().fit(X)
    return lambda: mercer.KernelRegressor(make(), warm_start=True).fit(X, rows()[:, 0])


def zoo() -> dict[str, Callable[[], Any]]:
    """Every estimator, with every map: names, and what fits one."""
    models = {f"map {name}": _with(make, name) for name, make in all_maps().items()}
    return models | _machines()


def data_of(model: Any) -> Any:
    """Rows such as the model was fitted to."""
    if isinstance(model, mercer.TablePreparer):
        if model.n_features_in_ == 3:
            return sparse.csr_array(rows())
        if model.n_features_in_ == 2:
            return notes()
        X = rows()
        label = np.where(X[:, 0] > 0, "up", "down")
        many = np.array([f"label {i % 30}" for i in range(len(X))], dtype=object)
        dates = np.datetime64("2026-01-01") + np.arange(len(X))
        return np.column_stack([X.astype(object), label, many, dates])
    if isinstance(model, mercer.DualKernelSVC) and model.n_features_in_ > 3:
        return kernels.Gaussian(1.0)(rows())
    if isinstance(model, mercer.AutoKernelRegressor):
        X = rows()
        return np.column_stack([X.astype(object), np.where(X[:, 0] > 0, "up", "down")])
    kind = getattr(model, "feature_map_", model)
    is_text = isinstance(kind, maps.HashedNGrams)
    return texts() if is_text else rows()
