"""A program that allows products of float32 matrices shorter types, and fits on a device."""

import sys

import numpy as np
import torch

from mercer import KernelRegressor

torch.backends.cuda.matmul.fp32_precision = "tf32"
torch.backends.mkldnn.matmul.fp32_precision = "bf16"
X = np.random.default_rng(0).normal(size=(100, 2)).astype(np.float32)
model = KernelRegressor("exact", alpha=1e-3, device=torch.device("cpu")).fit(X, X[:, 0])
expected = KernelRegressor("exact", alpha=1e-3).fit(X, X[:, 0]).predict(X)
np.testing.assert_allclose(model.predict(X), expected, atol=1e-3)
parts = torch.backends.cuda.matmul, torch.backends.mkldnn.matmul
sys.stdout.write(" ".join(part.fp32_precision for part in parts) + "\n")
