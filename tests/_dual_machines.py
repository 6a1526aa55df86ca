"""What tests of dual machines share: problems, and the plain algorithm of pairs."""

import numpy as np

from mercer.kernels import Gaussian
from mercer.solvers import BoxDual
from mercer.solvers.dual import pairs, working_sets

KERNEL = Gaussian(0.3)


def two_classes(n=300, d=3, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    y = np.where(np.sin(2 * X[:, 0]) + X[:, 1] + 0.3 * rng.normal(size=n) > 0.2, 1.0, -1.0)
    return X, y


def smo(K, dual, tol):
    """Sequential minimal optimisation with second order working sets, as plainly as can be."""
    n, b = len(K), np.zeros(len(dual.linear))
    while True:
        h = np.tile(K @ dual.coef(b), len(b) // n) + dual.extra * b + dual.linear
        i = np.argmin(np.where(b < dual.upper, h, np.inf))
        apart = np.where(b > dual.lower, h - h[i], -np.inf)
        if not apart.max() > tol:
            return b
        diagonal = np.tile(K.diagonal(), len(b) // n) + dual.extra
        along = np.maximum(diagonal + diagonal[i] - 2 * np.tile(K[i % n], len(b) // n), 1e-12)
        j = np.argmax(np.where(apart > 0, apart**2 / along, -np.inf))
        step = min(apart[j] / along[j], dual.upper[i] - b[i], b[j] - dual.lower[j])
        b[i] += step
        b[j] -= step


DUALS = {
    "hinge": lambda y: BoxDual.hinge(y, 3.0),
    "squared_hinge": lambda y: BoxDual.squared_hinge(y, 3.0),
    "weighted": lambda y: BoxDual.hinge(y, np.linspace(0, 4, len(y))),
    "weighted squares": lambda y: BoxDual.squared_hinge(y, np.linspace(0, 4, len(y))),
}


def with_small_sets(monkeypatch):
    """Working sets of 16 variables from now on."""
    for module in (working_sets, pairs):
        monkeypatch.setattr(module, "SIZE", 16)
