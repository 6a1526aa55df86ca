"""Bins that Triton makes and multiplies by, against those of the core; for Triton's interpreter."""

import sys
import warnings

import numpy as np
import torch

import mercer
from mercer.designs.on_device import bins, fused_bins
from mercer.maps import RandomBinning

# It computes with NumPy, which tells of the integers that wrap around.
warnings.filterwarnings("ignore", category=RuntimeWarning)
fused_bins._ROWS, fused_bins._GRIDS = 64, 2
rng = np.random.default_rng(0)
count = 0
for dtype, how in ((np.float32, "exact"), (np.float32, 100), (np.float64, 70_000)):
    X, new = rng.normal(size=(100, 3)).astype(dtype), rng.normal(size=(40, 3)).astype(dtype)
    X[0], X[1] = -0.0, np.finfo(dtype).max
    host = RandomBinning(gamma=0.3, n_components=3, bins=how, random_state=0)
    expected, expected_new = host.fit_design(X), host.design(new)
    with mercer.config_context(device=torch.device("cpu")):
        design = RandomBinning(**host.get_params()).fit_design(X)
        found = host.design(new)
    assert bins.is_fused(design.device)
    atol = 1e-5 if dtype == np.float32 else 1e-13
    for one, other, k in ((design, expected, ()), (found, expected_new, (11,))):
        np.testing.assert_array_equal(one.on_host().codes, other.codes)
        w = rng.normal(size=(one.shape[1], *k)).astype(dtype)
        v = rng.normal(size=(one.shape[0], *k)).astype(dtype)
        np.testing.assert_allclose(one.matvec(w), other.matvec(w), atol=atol)
        np.testing.assert_allclose(one.rmatvec(v), other.rmatvec(v), atol=atol)
    some, ones = np.array([5, 2, 9]), np.ones(design.shape[1])
    few = design.rows(some).matvec(ones), expected.rows(some).matvec(ones)
    np.testing.assert_allclose(*few, atol=atol)
    count += 1
sys.stdout.write(f"{count} designs\n")
