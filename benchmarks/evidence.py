"""Gaussian processes with hyperparameters by marginal likelihood, beside peers and a grid.

Mean log density of new targets under the predicted normal distributions, and root mean squared
error, in units of the deviation of the targets: at most 1000 training rows, means of three splits.
Peers that are not installed are left out, and so are tables with too many inputs for them.

    python benchmarks/evidence.py --json benchmarks/records/evidence.json
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import time
import warnings
from collections.abc import Callable
from functools import partial
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


def exact(X: NDArray, y: NDArray, new: NDArray, **settings: Any) -> Predicted:
    if settings["selection"] == "loo":
        settings |= {"gamma_path": GAMMAS / X.shape[1], "alphas": RIDGES / len(y)}
    return KernelRegressor("exact", random_state=0, **settings).fit(X, y).predict(new, True)


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
    likelihood = gpytorch.likelihoods.GaussianLikelihood()
    model, rbf = Model(X, y, likelihood), gpytorch.kernels.RBFKernel(ard_num_dims=X.shape[1])
    model.mean, model.kernel = gpytorch.means.ConstantMean(), gpytorch.kernels.ScaleKernel(rbf)
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
    "mercer": ("mercer", partial(exact, kernel="gaussian", selection="evidence")),
    "mercer, Laplacian": ("mercer", partial(exact, kernel="laplacian", selection="evidence")),
    "mercer, grid by leave-one-out": ("mercer", partial(exact, kernel="gaussian", selection="loo")),
    "scikit-learn": ("sklearn", of_scikit_learn),
    "GPyTorch": ("gpytorch", of_gpytorch),
}


def run_of(method: str, split: tuple[Any, ...]) -> dict[str, float]:
    X, y, new, y_new = split
    scaler, centre, unit = StandardScaler().fit(X), y.mean(), y.std()
    X, new, start = scaler.transform(X), scaler.transform(new), time.perf_counter()
    mean, std = METHODS[method][1](X, (y - centre) / unit, new)
    seconds = time.perf_counter() - start
    errors = (y_new - centre) / unit - mean
    density, error = np.mean(norm.logpdf(errors, scale=std)), np.sqrt(np.mean(np.square(errors)))
    return {"log density": float(density), "error": float(error), "seconds": seconds}


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path)
    options, found = parser.parse_args(), []
    warnings.simplefilter("ignore")
    for name in TABLES:
        splits = [next(sets([name], seed, ROWS))[2] for seed in SEEDS]
        n, d = splits[0][0].shape
        for method, (module, _) in METHODS.items():
            if importlib.util.find_spec(module) is None or d > MOST_INPUTS.get(method, d):
                continue
            runs = [run_of(method, split) for split in splits]
            facts = {key: round(fmean(run[key] for run in runs), 4) for key in runs[0]}
            found.append({"task": name, "method": method, "rows": n, "inputs": d, **facts})
            print(", ".join(f"{k} {v}" for k, v in found[-1].items()), flush=True)  # noqa: T201
            if options.json:  # what was run is kept whatever happens to the rest
                record = {"environment": environment(), "seeds": SEEDS, "runs": found}
                options.json.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
