"""Block coordinate descent on float32 columns: no worse than their rounding."""

import warnings

import numpy as np
import pytest

from mercer.designs import KernelColumns
from mercer.kernels import Gaussian
from mercer.losses import Squared
from mercer.penalties import RKHSNorm
from mercer.problem import Problem
from mercer.solvers import BlockCoordinateDescent


def nystroem(dtype, rng):
    """Landmarks that are nearly redundant, under a weak norm."""
    X = rng.normal(size=(400, 3)).astype(dtype)
    y = np.sin(X[:, 0]) + 0.1 * rng.normal(size=400)
    design = KernelColumns(X, Gaussian(0.02), X[:80])
    penalty = RKHSNorm(1e-7, design.landmark_design(), 1e-3)
    return Problem(design, y.astype(dtype), Squared(), penalty, fit_intercept=False)


@pytest.mark.parametrize("accelerated", [True, False])
def test_float32_columns_of_redundant_landmarks_do_not_diverge(accelerated, rng):
    seed = rng.integers(2**31)
    values = {}
    for dtype in (np.float32, np.float64):
        problem = nystroem(dtype, np.random.default_rng(seed))
        solver = BlockCoordinateDescent(tol=0.0, max_iter=8, block_size=20, accelerated=accelerated)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            trace = solver.solve(problem).trace
        values[dtype] = np.array([row.objective for row in trace])
    assert np.all(np.diff(values[np.float32]) <= 1e-6 * values[np.float32][0])
    np.testing.assert_allclose(values[np.float32], values[np.float64], rtol=1e-2)
