"""Largest errors of products on a device against float64 on the processor, of kernels and maps.

A script: the device is its argument, such as ``cuda``, or the processor by way of PyTorch. An error
is a share of the largest sum of absolute terms, in float32 and float64.
"""

import sys

import numpy as np
import torch

import mercer
from mercer import kernels, maps

N, D, LANDMARKS = 2000, 10, 500
KERNELS = {
    "Gaussian": kernels.Gaussian(0.1),
    "Laplacian": kernels.Laplacian(0.1),
    "Exponential": kernels.Exponential(0.3),
    "Matern 3/2": kernels.Matern(0.3, 1.5),
    "Matern 5/2": kernels.Matern(0.3, 2.5),
    "Cauchy": kernels.Cauchy(0.1),
    "rational quadratic": kernels.RationalQuadratic(0.1, 2.0),
}
MAPS = {
    name: maps.Nystroem(kernel, n_components=LANDMARKS, whiten=False, random_state=100)
    for name, kernel in KERNELS.items()
} | {
    "whitened Gaussian": maps.Nystroem(gamma=0.1, n_components=LANDMARKS, random_state=100),
    "Fourier": maps.RandomFourier(gamma=0.1, n_components=LANDMARKS, random_state=100),
    "Fastfood": maps.Fastfood(gamma=0.1, n_components=LANDMARKS, random_state=100),
    "binning": maps.RandomBinning(gamma=0.1, n_components=256, random_state=100),
    "hashed binning": maps.RandomBinning(gamma=0.1, n_components=64, bins=64, random_state=100),
    "TEFM": maps.SubspaceEmbedding(gamma=0.1, n_components=64, random_state=100),
}


def errors(map_, X, device):
    """Of Zw and Zᵀv."""
    truth = map_.fit(X.astype(np.float64)).design(X.astype(np.float64))
    Z = truth.toarray()
    with mercer.config_context(device=device):
        design = map_.design(X)
    rng = np.random.default_rng(101)
    w, v = (rng.normal(size=(size, 2)).astype(X.dtype) for size in (Z.shape[1], len(Z)))
    of_rows = np.abs(design.matvec(w) - Z @ w).max() / (np.abs(Z) @ np.abs(w)).max()
    of_columns = np.abs(design.rmatvec(v) - Z.T @ v).max() / (np.abs(Z).T @ np.abs(v)).max()
    return of_rows, of_columns


def main():
    device = sys.argv[1] if len(sys.argv) > 1 else torch.device("cpu")
    X = np.random.default_rng(100).normal(size=(N, D))
    sys.stdout.write(
        f"{'':20s} {'float32 Zw':>11s} {'Z^T v':>8s} {'float64 Zw':>11s} {'Z^T v':>8s}\n"
    )
    for name, map_ in MAPS.items():
        made = [*errors(map_, X.astype(np.float32), device), *errors(map_, X, device)]
        sys.stdout.write(
            f"{name:20s} {made[0]:11.0e} {made[1]:8.0e} {made[2]:11.0e} {made[3]:8.0e}\n"
        )


main()
