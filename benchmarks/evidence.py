"""Gaussian processes with hyperparameters by marginal likelihood, beside peers and a grid.

Every method learns from at most 1000 rows of each table and predicts other rows. Judged are the
mean log density of their targets under normal distributions of the predicted means and standard
deviations, and the root mean squared error, both in units of the standard deviation of the training
targets; means over three splits. Peers that are not installed are left out, and so are tables whose
inputs are too many for them.

    python benchmarks/evidence.py --json benchmarks/records/evidence.json
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
from sklearn.preprocessing import StandardScaler

from _side_by_side import environment
from mercer import KernelRegressor
from tables import NUMBERS, sets

TABLES = (*NUMBERS, "diabetes", "friedman1")
ROWS, SEEDS = 1000, (0, 1, 2)
GAMMAS, RIDGES = 4.0 ** np.arange(-4, 4), np.logspace(-5, 1, 13)  # of the grid
MOST_INPUTS = {"scikit-learn": 50}  # its gradient has a matrix of all rows per input

Predicted = tuple[NDArray, NDArray]


def ours(**settings: Any) -> Callable[..., Predicted]:
    def run(X: NDArray, y: NDArray, new: NDArray) -> Predicted:
        grid = {"gamma_path": GAMMAS / X.shape[1], "alphas": RIDGES / len(y)}
        path = grid if settings["selection"] == "loo" else {}
        model = KernelRegressor("exact", random_state=0, **settings, **path)
        return model.fit(X, y).predict(new, return_std=True)

    return run


def of_scikit_learn(X: NDArray, y: NDArray, new: NDArray) -> Predicted:
    lengths = np.full(X.shape[1], np.sqrt(X.shape[1] / 2))
    kernel = ConstantKernel() * RBF(lengths, (1e-3, 1e4)) + WhiteKernel(0.3, (1e-7, 1e3))
    return GaussianProcessRegressor(kernel, normalize_y=True).fit(X, y).predict(new, True)


def of_gpytorch(X: NDArray, y: NDArray, new: NDArray) -> Predicted:
    import gpytorch
    import torch

    class Model(gpytorch.models.ExactGP):
        def forward(self, X: Any) -> Any:
            return gpytorch.distributions.MultivariateNormal(self.mean(X), self.kernel(X))

    X, y, new = (torch.tensor(each, dtype=torch.float64) for each in (X, y, new))
    likelihood = gpytorch.likelihoods.GaussianLikelihood().double()
    model = Model(X, y, likelihood)
    model.mean, rbf = gpytorch.means.ConstantMean(), gpytorch.kernels.RBFKernel
    model.kernel = gpytorch.kernels.ScaleKernel(rbf(ard_num_dims=X.shape[1]))
    model.double().train()
    steps = torch.optim.Adam(model.parameters(), lr=0.1)
    objective = gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, model)
    with gpytorch.settings.max_cholesky_size(2 * ROWS):
        for _ in range(100):
            steps.zero_grad()
            (-objective(model(X), y)).backward()
            steps.step()
        with torch.no_grad():
            found = likelihood.eval()(model.eval()(new))
            return found.mean.numpy(), found.stddev.numpy()


METHODS: dict[str, tuple[str, Callable[..., Predicted]]] = {
    "mercer": ("mercer", ours(kernel="gaussian", selection="evidence")),
    "mercer, Laplacian": ("mercer", ours(kernel="laplacian", selection="evidence")),
    "mercer, grid by leave-one-out": ("mercer", ours(kernel="gaussian", selection="loo")),
    "scikit-learn": ("sklearn", of_scikit_learn),
    "GPyTorch": ("gpytorch", of_gpytorch),
}


def run_of(method: str, split: tuple[Any, ...]) -> dict[str, float]:
    X, y, new, y_new = split
    scaler, unit = StandardScaler().fit(X), y.std()
    X, new, y, y_new = scaler.transform(X), scaler.transform(new), y / unit, y_new / unit
    start = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        mean, std = METHODS[method][1](X, y - y.mean(), new)
    seconds = time.perf_counter() - start
    errors = y_new - y.mean() - mean
    density = float(np.mean(norm.logpdf(errors, scale=std)))
    error = float(np.sqrt(np.mean(np.square(errors))))
    return {"log density": density, "error": error, "seconds": seconds}


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    found = []
    for name in TABLES:
        splits = [next(sets([name], seed, ROWS))[2] for seed in SEEDS]
        n, d = splits[0][0].shape
        for method, (module, _) in METHODS.items():
            if importlib.util.find_spec(module) is None or d > MOST_INPUTS.get(method, d):
                continue
            runs = [run_of(method, split) for split in splits]
            facts = {key: round(fmean(run[key] for run in runs), 4) for key in runs[0]}
            found.append({"task": name, "method": method, "rows": n, "inputs": d, **facts})
            sys.stdout.write(", ".join(f"{k} {v}" for k, v in found[-1].items()) + "\n")
            sys.stdout.flush()
            if options.json:  # what was run is kept whatever happens to the rest
                record = {"environment": environment(), "seeds": SEEDS, "runs": found}
                options.json.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
