"""Products that Triton fuses, against those of the core; a script, for Triton's interpreter."""

import sys
import warnings
from dataclasses import replace

import numpy as np
import torch

import mercer
from mercer import kernels
from mercer.designs import KernelColumns, kernel_columns
from mercer.designs.on_device import fused
from mercer.designs.on_device import kernel as module

KERNELS = (
    kernels.Gaussian(0.1),
    kernels.Laplacian(0.1),
    kernels.Exponential(0.3),
    kernels.Matern(0.2, 1.5),
    kernels.Matern(0.2, 2.5),
    kernels.Cauchy(0.1),
    kernels.Cauchy(0.1, isotropic=True),
    kernels.RationalQuadratic(0.2, 2.0),
)

# It computes with NumPy, whose numbers are too large beyond the last row, where nobody looks.
warnings.filterwarnings("ignore", category=RuntimeWarning)
rng = np.random.default_rng(0)
count = 0


def check(kernel, d, k, outlier=False):
    X = (2 * rng.normal(size=(150, d)) + 50).astype(np.float32)
    Y = (2 * rng.normal(size=(90, d)) + 50).astype(np.float32)
    X[5], Y[7] = X[6], X[9] + np.float32(1e-3)
    if outlier:
        X[3] *= np.float32(1e5)
    w = rng.normal(size=(90, k)).astype(np.float32) * 1e3 ** (np.arange(k) % 4)
    w = w.astype(np.float32)
    with mercer.config_context(device=torch.device("cpu")):
        design = kernel_columns(X, kernel, Y)
    assert module.may_be_fused(design.device, torch.as_tensor(w))
    expected = KernelColumns(X, kernel, Y).matvec(w.astype(np.float64))
    apart = np.abs(design.matvec(w) - expected) / np.abs(w).sum(axis=0)
    assert apart.max() < 2e-5, (kernel, d, k, apart.max())


# Rows of few and of many inputs, in one and in several pieces; one column of weights and several.
for kernel in KERNELS:
    for d, k in ((3, 1), (3, 3), (40, 1), (40, 3)):
        check(kernel, d, k)
        count += 1
check(kernels.Gaussian(0.01), 90, 3)
check(kernels.Gaussian(0.01), 90, 1)
check(kernels.Gaussian(0.03), 20, 2, outlier=True)

# A scale of every input; programs that take several tiles and several sums.
check(replace(KERNELS[0], gamma=np.linspace(0.01, 0.3, 20)), 20, 3)
check(replace(KERNELS[1], gamma=np.linspace(0.01, 0.3, 20)), 20, 1)
check(replace(KERNELS[5], gamma=np.linspace(0.001, 0.3, 4)), 4, 1)
check(KERNELS[1], 2, 65)
fused._PROGRAMS, fused._FLUSH = 1, 1
for k in (1, 3):
    check(KERNELS[0], 20, k)
    check(KERNELS[1], 2, k)

# Rows that come as a tensor, column by column, and fill whole tiles.
X, Y = (rng.normal(size=(n, 16)).astype(np.float32) for n in (128, 64))
w = rng.normal(size=(64, 3)).astype(np.float32)
with mercer.config_context(device=torch.device("cpu")):
    design = kernel_columns(Y, KERNELS[0], Y)
found = design.with_rows(torch.as_tensor(X.T.copy()).T).matvec(w)
expected = KernelColumns(X, KERNELS[0], Y).matvec(w.astype(np.float64))
assert (np.abs(found - expected) / np.abs(w).sum(axis=0)).max() < 2e-5

with mercer.config_context(device=torch.device("cpu")):
    nothing = kernel_columns(np.zeros((0, 3), np.float32), KERNELS[0], np.zeros((5, 3), np.float32))
assert nothing.matvec(np.ones((5, 1), np.float32)).shape == (0, 1)
sys.stdout.write(f"{count + 12} products\n")
