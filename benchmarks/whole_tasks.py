"""Whole tasks as users call them, by mercer and by what they would take instead.

Each function fits and predicts by one method on so many rows and returns seconds, and the error or
the objective by which the methods are compared. Rows are generated unless a data set is named.
"""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn import datasets as sklearn_sets
from sklearn.linear_model import LogisticRegression, Ridge

import mercer
from mercer import DualKernelSVC, KernelClassifier, KernelRegressor, datasets, maps

OURS = "mercer"
MANY = 100_000  # rows to predict
ROWS_ALONE = 30  # rows that are predicted one by one
GAMMA, ALPHA = 0.3, 1e-5  # of machines on generated rows, near the best
CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1

Facts = dict[str, Any]


@dataclass(frozen=True)
class Aim:
    """A number of ours that has to be at most that of a peer, divided by a factor."""

    peer: str
    factor: float = 1.0
    measure: str = "fit"  # or "predict", "error"
    rows: int | None = None  # None: every size that the peer ran at
    method: str = OURS


@dataclass(frozen=True)
class Task:
    """A question, who answers it, and at how many rows."""

    name: str
    run: Callable[..., Facts]
    sizes: tuple[int, ...]
    methods: tuple[str, ...]  # ours first
    aims: tuple[Aim, ...] = ()
    most: dict[str, int] = field(default_factory=dict)  # rows of methods that take too long beyond


def timed(model: Any, X: Any, y: Any, new: Any, *rest: Any) -> tuple[Facts, NDArray]:
    """Seconds of a fit and of predictions, which are returned too."""
    start = time.perf_counter()
    model.fit(X, y, *rest)
    fitted = time.perf_counter()
    found = np.asarray(model.predict(new)).ravel()
    return {"fit": fitted - start, "predict": time.perf_counter() - fitted}, found


def relative(found: NDArray, y: NDArray) -> float:
    """Root mean squared error in units of the deviation of the targets."""
    return float(np.sqrt(np.mean((found - y) ** 2)) / np.std(y))


# -- automatic models --------------------------------------------------------------------------


def mixed(n: int, seed: int) -> tuple[pd.DataFrame, NDArray]:
    """Rows of 15 numbers and 5 columns of words, and targets with a fifth of noise."""
    rng = np.random.default_rng(seed)
    numbers = rng.normal(size=(n, 15)).astype(np.float32)
    table = pd.DataFrame(numbers, columns=[f"x{j}" for j in range(15)])
    effects = np.random.default_rng(0)
    y = np.sin(2 * numbers[:, 0]) + numbers[:, 1] * numbers[:, 2] + np.abs(numbers[:, 3])
    for j, count in enumerate((3, 8, 20, 60, 200)):
        codes = rng.integers(0, count, n)
        y = y + 0.5 * effects.normal(size=count)[codes] * (1 + numbers[:, 4 + j])
        table[f"word{j}"] = pd.Categorical.from_codes(codes, [f"w{k}" for k in range(count)])
    return table, y + np.sqrt(y.var() / 4) * rng.normal(size=n)


def automatic(method: str, n: int, seconds: float = 0.0) -> Facts:
    """A model of a table that nobody tuned."""
    (X, y), (new, y_new) = mixed(n, 1), mixed(MANY, 2)
    words = [c for c in X if X[c].dtype == "category"]
    if method == "CatBoost":
        X, new = (part.astype(dict.fromkeys(words, str)) for part in (X, new))
    model = automatic_model(method, words, seconds)
    facts, found = timed(model, X, y, new)
    return facts | {"error": relative(found, y_new), "predict_row": of_one_row(model, new)}


def of_one_row(model: Any, new: pd.DataFrame) -> float:
    """Median seconds of predictions of a single row."""
    seconds = []
    for place in range(ROWS_ALONE):
        row = new.iloc[place : place + 1]
        start = time.perf_counter()
        model.predict(row)
        seconds.append(time.perf_counter() - start)
    return float(np.median(seconds))


def automatic_model(method: str, words: list[str], seconds: float) -> Any:
    if method == OURS:
        return mercer.AutoKernelRegressor(random_state=0)
    if method == "LightGBM":
        from lightgbm import LGBMRegressor

        return LGBMRegressor(n_jobs=CORES, verbose=-1, random_state=0)
    if method == "XGBoost":
        from xgboost import XGBRegressor

        return XGBRegressor(n_jobs=CORES, enable_categorical=True, random_state=0)
    if method == "CatBoost":
        from catboost import CatBoostRegressor

        return CatBoostRegressor(
            thread_count=CORES,
            cat_features=words,
            verbose=False,
            allow_writing_files=False,
            random_seed=0,
        )
    from flaml import AutoML

    return AutoML(
        time_budget=seconds, task="regression", metric="rmse", n_jobs=CORES, verbose=0, seed=0
    )


# -- exact machines ----------------------------------------------------------------------------


def friedman(n: int, seed: int, d: int = 20) -> tuple[NDArray, NDArray]:
    X, y = sklearn_sets.make_friedman1(n, n_features=d, noise=1.0, random_state=seed)
    return X.astype(np.float32), y


def exact_ridge(method: str, n: int) -> Facts:
    """Kernel ridge regression of all rows with a Gaussian kernel."""
    (X, y), (new, y_new) = friedman(n, 1), friedman(10_000, 2)
    gamma, alpha = GAMMA, ALPHA
    centre = y.mean()
    if method == OURS:
        model = KernelRegressor("exact", kernel="gaussian", gamma=gamma, alpha=alpha, scale=False)
    elif method == "scikit-learn KernelRidge":
        from sklearn.kernel_ridge import KernelRidge

        model = KernelRidge(kernel="rbf", gamma=gamma, alpha=alpha * n)
    else:
        model = TorchRidge(method, gamma, alpha)
    facts, found = timed(model, X, y - centre, new)
    return facts | {"error": relative(found + centre, y_new)}


class TorchRidge:
    """PyTorch's Cholesky factorisation of the kernel matrix, or EigenPro 2, in float32."""

    def __init__(self, method: str, gamma: float, alpha: float) -> None:
        self.method, self.gamma, self.alpha = method, gamma, alpha

    def fit(self, X: NDArray, y: NDArray) -> None:
        import torch

        from _torch_peers import eigenpro, gaussian

        self.rows = torch.from_numpy(X)
        if self.method == "EigenPro 2, PyTorch":
            found = eigenpro(X, y[:, None], self.gamma, self.alpha, tol=1e-2, cap=120.0)
            self.coef = torch.from_numpy(found.coef)
            return
        K = gaussian(self.rows, self.rows, self.gamma)
        K.diagonal().add_(len(X) * self.alpha)
        factor = torch.linalg.cholesky_ex(K)[0]
        targets = torch.from_numpy(y.astype(np.float32))[:, None]
        self.coef = torch.cholesky_solve(targets, factor)

    def predict(self, X: NDArray) -> NDArray:
        import torch

        from _torch_peers import gaussian

        parts = torch.from_numpy(X).split(2000)
        return torch.cat([gaussian(p, self.rows, self.gamma) @ self.coef for p in parts]).numpy()


def deviations(method: str, n: int) -> Facts:
    """Means and standard deviations of a Gaussian process with given hyperparameters."""
    (X, y), (new, y_new) = friedman(n, 1), friedman(2000, 2)
    gamma, noise = GAMMA, 0.05
    start = time.perf_counter()
    if method == OURS:
        model: Any = KernelRegressor(
            "exact", kernel="gaussian", gamma=gamma, alpha=noise / n, scale=False
        )
    else:
        from sklearn.gaussian_process import GaussianProcessRegressor
        from sklearn.gaussian_process.kernels import RBF

        kernel = RBF((0.5 / gamma) ** 0.5)
        model = GaussianProcessRegressor(kernel, alpha=noise, optimizer=None)
    model.fit(X, y - y.mean())
    fitted = time.perf_counter()
    mean, _ = model.predict(new, return_std=True)
    facts = {"fit": fitted - start, "predict": time.perf_counter() - fitted}
    return facts | {"error": relative(np.ravel(mean) + y.mean(), y_new)}


def many_predictions(method: str, n: int) -> Facts:
    """Predictions of 95 000 rows of 27 inputs by an exact machine."""
    (X, y), (new, y_new) = friedman(n, 1, 27), friedman(95_000, 2, 27)
    if method == "arithmetic of the kernel":
        start = time.perf_counter()
        weights = np.ones(len(X), dtype=np.float32)
        for rows in np.array_split(new, 95):
            block = rows @ X.T
            np.exp(block, out=block)
            block @ weights
        return {"predict": time.perf_counter() - start}
    if method == "XGBoost":
        model = automatic_model(method, [], 0.0)
    else:
        model = KernelRegressor("exact", kernel="gaussian", gamma=GAMMA, alpha=ALPHA, scale=False)
    facts, found = timed(model, X, y, new)
    return facts | {"error": relative(found, y_new)}


# -- support vectors and L1 --------------------------------------------------------------------


def cod_rna(n: int) -> tuple[NDArray, NDArray]:
    """Rows of cod-rna, inputs from 0 to 1, targets ±1."""
    data = datasets.load("cod-rna-train")
    X = np.asarray(data.X, dtype=np.float64)
    X = (X - X.min(axis=0)) / np.ptp(X, axis=0)
    chosen = np.random.default_rng(0).permutation(len(X))
    y = np.where(np.asarray(data.y) == np.max(data.y), 1.0, -1.0)
    return X[chosen[:n]], y[chosen[:n]]


def support_vectors(method: str, n: int, C: float) -> Facts:
    """Support vector machine on cod-rna, to a violation of a thousandth; error of the last rows."""
    X, y = cod_rna(n + 5000)
    if method == OURS:
        model: Any = DualKernelSVC("gaussian", gamma=8.0, C=C, scale=False)
    else:
        from sklearn.svm import SVC

        model = SVC(gamma=8.0, C=C)
    facts, found = timed(model, X[:n], y[:n], X[n:])
    return facts | {"error": float(np.mean(found != y[n:]))}


def support_vectors_1(method: str, n: int) -> Facts:
    return support_vectors(method, n, 1.0)


def support_vectors_32(method: str, n: int) -> Facts:
    return support_vectors(method, n, 32.0)


def strengths(Z: Any, y: NDArray, fit: Callable[[float], NDArray]) -> Facts:
    """Seconds of logistic fits at three strengths, and the mean objective relative to log 2."""
    start = time.perf_counter()
    coefs = {alpha: fit(alpha) for alpha in (1e-2, 1e-3, 1e-4)}
    facts = {"fit": time.perf_counter() - start}
    values = [
        np.logaddexp(0, -y * (Z @ coef)).mean() + alpha * np.abs(coef).sum()
        for alpha, coef in coefs.items()
    ]
    return facts | {"error": float(np.mean(values) / np.log(2))}


def sparse_logistic(method: str, n: int, feature_map: Any) -> Facts:
    """L1 logistic regression on features of cod-rna; the features are made beforehand."""
    X, y = cod_rna(n)
    map_ = feature_map.fit(X)
    Z = map_.transform(X)

    def by_mercer(alpha: float) -> NDArray:
        model = KernelClassifier(
            map_, loss="logistic", penalty="l1", alpha=alpha, tol=1e-3, fit_intercept=False,
            scale=False,
        )  # fmt: skip
        return model.fit(X, y).map_coef_.ravel()

    def by_liblinear(alpha: float) -> NDArray:
        model = LogisticRegression(
            C=1 / (n * alpha), l1_ratio=1.0, solver="liblinear", fit_intercept=False, tol=1e-3,
            max_iter=10_000,
        )  # fmt: skip
        return model.fit(Z, y).coef_.ravel()

    def by_celer(alpha: float) -> NDArray:
        from celer import LogisticRegression as Celer

        model = Celer(C=1 / (n * alpha), fit_intercept=False, tol=1e-3)
        return model.fit(Z.tocsc() if hasattr(Z, "tocsc") else Z, y).coef_.ravel()

    fits = {OURS: by_mercer, "LIBLINEAR": by_liblinear, "celer": by_celer}
    return strengths(Z, y, fits[method])


def sparse_binned(method: str, n: int) -> Facts:
    return sparse_logistic(
        method, n, maps.RandomBinning(gamma=4.0, n_components=128, random_state=0)
    )


def sparse_fourier(method: str, n: int) -> Facts:
    return sparse_logistic(
        method, n, maps.RandomFourier("gaussian", gamma=8.0, n_components=1000, random_state=0)
    )


def asynchronous(method: str, n: int) -> Facts:
    """L1 logistic regression on 1000 cosines of cod-rna to one tolerance."""
    X, y = cod_rna(n)
    solver, threads = method.removeprefix(f"{OURS}, ").split(", ")
    model = KernelClassifier(
        "fourier", kernel="gaussian", gamma=8.0, n_components=1000, loss="logistic",
        penalty="l1", alpha=1e-4,
        solver={"asynchronous": "async", "coordinate descent": "cd"}[solver], tol=1e-3,
        n_jobs=int(threads.split()[0]), random_state=0, scale=False, fit_intercept=False,
    )  # fmt: skip
    facts, _ = timed(model, X, y, X[:1000])
    Z = model.feature_map_.transform(X)
    coef = model.map_coef_.ravel()
    value = np.logaddexp(0, -y * (Z @ coef)).mean() + 1e-4 * np.abs(coef).sum()
    return {"fit": facts["fit"], "error": float(value / np.log(2))}


# -- features ----------------------------------------------------------------------------------


def bins(method: str, n: int) -> Facts:
    """Exact bins of 256 grids of rows of 20 inputs."""
    X, _ = friedman(n, 1)
    gamma = 0.15
    map_ = maps.RandomBinning(gamma=gamma, n_components=256, random_state=0)
    if method == OURS:
        start = time.perf_counter()
        map_.fit_design(X)
        return {"fit": time.perf_counter() - start}
    from _plain_binning import compiled

    run = compiled(gamma)
    start = time.perf_counter()
    run(X, 256, CORES)
    return {"fit": time.perf_counter() - start}


def fourier_ridge(method: str, n: int) -> Facts:
    """Ridge regression on 2000 cosines."""
    (X, y), (new, y_new) = friedman(n, 1), friedman(MANY, 2)
    if method == OURS:
        model: Any = KernelRegressor(
            "fourier", kernel="gaussian", gamma=GAMMA, n_components=2000, alpha=ALPHA,
            random_state=0, scale=False,
        )  # fmt: skip
    else:
        from sklearn.kernel_approximation import RBFSampler
        from sklearn.pipeline import make_pipeline

        sampler = RBFSampler(gamma=GAMMA, n_components=2000, random_state=0)
        model = make_pipeline(sampler, Ridge(ALPHA * n))
    facts, found = timed(model, X, y, new)
    return facts | {"error": relative(found, y_new)}


# -- many machines -----------------------------------------------------------------------------


def workers(method: str, n: int) -> Facts:
    """Ridge regression on 1024 cosines by Dask's workers, one thread each, rows on them before."""
    import dask.array
    from distributed import Client, LocalCluster

    count = int(method.removeprefix(f"{OURS}, ").removeprefix("XGBoost, ").split()[0])
    X, y = friedman(n, 1)
    new, y_new = friedman(10_000, 2)
    with (
        warnings.catch_warnings(),
        LocalCluster(n_workers=count, threads_per_worker=1, dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):
        warnings.simplefilter("ignore")
        rows, targets = (dask.array.from_array(a, chunks=n // 8) for a in (X, y))
        rows, targets = client.persist([rows.rechunk((n // 8, -1)), targets])
        start = time.perf_counter()
        if method.startswith(OURS):
            from mercer.dask import KernelRegressor as Distributed

            model: Any = Distributed(
                "fourier",
                kernel="gaussian",
                gamma=GAMMA,
                n_components=1024,
                alpha=ALPHA,
                random_state=0,
                scale=False,
            )
        else:
            from xgboost.dask import DaskXGBRegressor

            model = DaskXGBRegressor(random_state=0)
        model.fit(rows, targets)
        seconds = time.perf_counter() - start
        found = model.predict(dask.array.from_array(new, chunks=(5000, -1)))
        found = np.asarray(found.compute() if hasattr(found, "compute") else found)
    return {"fit": seconds, "error": relative(found.ravel(), y_new)}


BOOSTERS = ("LightGBM", "XGBoost", "CatBoost")
ONE_THREAD, TWO_THREADS = (f"{OURS}, asynchronous, {k}" for k in ("1 thread", "2 threads"))

TASKS = (
    Task(
        "automatic model",
        automatic,
        (2000, 20_000, 200_000, 2_000_000),
        (OURS, *BOOSTERS, "FLAML, mercer's seconds as budget"),
        (
            *(
                Aim(peer, measure="error")
                for peer in (*BOOSTERS, "FLAML, mercer's seconds as budget")
            ),
            Aim("CatBoost"),
        ),
        {"FLAML, mercer's seconds as budget": 200_000},
    ),
    Task(
        "exact kernel ridge",
        exact_ridge,
        (5000, 14_000, 50_000),
        (OURS, "scikit-learn KernelRidge", "PyTorch Cholesky", "EigenPro 2, PyTorch"),
        (Aim("scikit-learn KernelRidge", 10.0),),
        {
            # OpenBLAS's threaded factorisation crashes on larger matrices on some processors.
            "scikit-learn KernelRidge": 14_000,
            "PyTorch Cholesky": 14_000,
            "EigenPro 2, PyTorch": 14_000,
        },
    ),
    *(
        Task(
            f"support vector machine, C = {C}, cod-rna",
            run,
            (10_000, 50_000),
            (OURS, "scikit-learn SVC"),
            (Aim("scikit-learn SVC", 3.0),),
        )
        for C, run in ((1, support_vectors_1), (32, support_vectors_32))
    ),
    *(
        Task(
            f"L1 logistic regression, three strengths, {kind}, cod-rna",
            run,
            (50_000,),
            (OURS, "LIBLINEAR", "celer"),
            (Aim("LIBLINEAR", factor), Aim("celer", factor)),
        )
        for kind, run, factor in (
            ("128 grids of bins", sparse_binned, 3.0),
            ("1000 cosines", sparse_fourier, 2.0),
        )
    ),
    Task("exact bins of 256 grids", bins, (200_000,), (OURS, "plain C++"), (Aim("plain C++", 25),)),
    Task(
        "ridge on 2000 cosines",
        fourier_ridge,
        (20_000, 200_000),
        (OURS, "RBFSampler and Ridge"),
        (Aim("RBFSampler and Ridge", 2.0),),
    ),
    Task(
        "Gaussian process, given hyperparameters",
        deviations,
        (2000, 14_000),
        (OURS, "scikit-learn"),
        (Aim("scikit-learn", 10.0),),
    ),
    Task(
        "L1 logistic regression on 1000 cosines, cod-rna",
        asynchronous,
        (50_000,),
        (TWO_THREADS, ONE_THREAD, f"{OURS}, coordinate descent, 1 thread"),
        (
            Aim(ONE_THREAD, 1 / 0.65, method=TWO_THREADS),
            Aim(f"{OURS}, coordinate descent, 1 thread", 1 / 3, method=ONE_THREAD),
        ),
    ),
    Task(
        "95 000 predictions by an exact machine, 27 inputs",
        many_predictions,
        (20_000,),
        (OURS, "arithmetic of the kernel", "XGBoost"),
        (Aim("arithmetic of the kernel", 0.5, "predict"),),
    ),
    Task(
        "ridge on 1024 cosines over Dask",
        workers,
        (1_000_000,),
        (f"{OURS}, 2 workers", f"{OURS}, 1 worker", "XGBoost, 2 workers"),
        (Aim(f"{OURS}, 1 worker", 1.7, method=f"{OURS}, 2 workers"),),
    ),
)
