"""Products that Triton fuses, against those of the core; a script, for Triton's interpreter."""

import sys
import warnings

import numpy as np
import torch

import mercer
from mercer import kernels
from mercer.designs import KernelColumns, kernel_columns
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
for d in (3, 40):
    X = (2 * rng.normal(size=(150, d)) + 50).astype(np.float32)
    Y = (2 * rng.normal(size=(90, d)) + 50).astype(np.float32)
    X[5], Y[7] = X[6], X[9] + np.float32(1e-3)
    w = rng.normal(size=(90, 3)).astype(np.float32)
    for kernel in KERNELS:
        with mercer.config_context(device=torch.device("cpu")):
            design = kernel_columns(X, kernel, Y)
        assert module.may_be_fused(design.device, torch.as_tensor(w))
        expected = KernelColumns(X, kernel, Y).matvec(w.astype(np.float64))
        atol = 2e-5 * np.abs(w).sum(axis=0).max()
        np.testing.assert_allclose(design.matvec(w), expected, atol=atol)
        count += 1
sys.stdout.write(f"{count} products\n")
