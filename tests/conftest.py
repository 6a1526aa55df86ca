"""Fixtures that every test file may use: small data, dtypes, kernels, examples in docstrings."""

from __future__ import annotations

import doctest
import os

# Before NumPy is imported, here and in the processes of pytest-xdist, which share the cores:
# threads of BLAS and of OpenMP that spin until they meet would take most of the time.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import numpy as np
import pytest
from scipy import sparse

from _left_out import (  # noqa: F401, hooks of pytest
    pytest_configure,
    pytest_configure_node,
    pytest_deselected,
    pytest_sessionfinish,
    pytest_terminal_summary,
    pytest_testnodedown,
)
from mercer.auto.tuning import TUNING
from mercer.kernels import Cauchy, Exponential, Gaussian, Laplacian, Matern, RationalQuadratic


@pytest.fixture(autouse=True)
def _every_byte_is_asked_for():
    """Tests say how little memory there is, by ``available_memory``, to see what is refused."""
    with pytest.MonkeyPatch.context() as patch:  # which no test undoes
        patch.setattr("mercer._runtime.arrays._LITTLE", 0)
        yield


@pytest.fixture
def rng():
    return np.random.default_rng(20240607)


@pytest.fixture(params=[np.float64, np.float32], ids=["float64", "float32"])
def dtype(request):
    return request.param


@pytest.fixture
def X(rng):
    """40 x 4 with a third of zeros, two equal rows and an all-zero one: fit for dense and CSR."""
    X = rng.normal(size=(40, 4))
    X[rng.random(X.shape) < 0.3] = 0.0
    X[7] = X[3]
    X[11] = 0.0
    return X


@pytest.fixture
def X_csr(X):
    return sparse.csr_array(X)


@pytest.fixture
def y(X):
    return np.sin(X).sum(axis=1)


@pytest.fixture(
    params=[
        Gaussian(0.3),
        Gaussian([0.1, 0.2, 0.3, 0.4]),
        Laplacian(0.4),
        Laplacian([0.1, 0.2, 0.3, 0.4]),
        Exponential(0.5),
        Exponential([0.1, 0.2, 0.3, 0.4]),
        Cauchy(0.5),
        Cauchy(0.5, isotropic=True),
        Cauchy([0.1, 0.2, 0.3, 0.4]),
        Matern(0.5),
        Matern([0.1, 0.2, 0.3, 0.4], nu=2.5),
        RationalQuadratic(0.3, exponent=0.7),
    ],
    ids=repr,
)
def kernel(request):
    """Stationary kernels of four inputs that have a spectral sampler."""
    return request.param


@pytest.fixture
def check_examples():
    """Run the examples in a module's docstrings, of which there must be some."""

    def check(module):
        failed, attempted = doctest.testmod(module)
        assert attempted > 0
        assert failed == 0

    return check


@pytest.fixture
def few_treatments(monkeypatch):
    """The search of automatic models with fewer candidates, in less time; its laws are the same."""
    monkeypatch.setattr(TUNING, "powers", {"laplacian": (0.0, 1.0), "gaussian": (1.0,)})
    monkeypatch.setattr(TUNING, "folds", 3)
