"""Kernel rows of CSR data by the core, against the kernel matrix of the same rows as an array."""

import numpy as np
import pytest
from scipy import sparse

from _core_twins import LEVELS, run_at_level
from mercer import _core
from mercer.kernels import (
    Cauchy,
    Exponential,
    Gaussian,
    Laplacian,
    Matern,
    RationalQuadratic,
)
from mercer.kernels.rows import row_source

KERNELS = [
    Gaussian(0.7),
    Laplacian(0.3),
    Exponential(0.5),
    Matern(0.5, nu=1.5),
    Matern(0.5, nu=2.5),
    RationalQuadratic(0.4, exponent=1.0),
    RationalQuadratic(0.4, exponent=0.6),
]


def table(rng, n, d, share=0.2):
    X = rng.normal(size=(n, d)) * (rng.random((n, d)) < share)
    X[n // 3] = 0.0
    X[n // 2] = X[1]
    X[n // 2 + 1] = X[1] * (1 + 1e-9)
    return X


def rows_of(source, wanted):
    """Rows of a kernel matrix that have ones on the diagonal: sums after a step from 0 to 1."""
    n = source.n
    descent = _core.GreedyDescent(source, np.array([0, n]), 0, 1)
    out = np.empty((len(wanted), n))
    for row, sums in zip(wanted, out, strict=True):
        linear = np.zeros(n)
        linear[row], b = -1e3, np.zeros(n)
        sums[:] = 0.0
        zero, one = np.zeros(n), np.ones(n)
        descent.run(linear, zero, one, zero.copy(), one.copy(), b, sums, 0.0, 1)
        assert b[row] == 1.0
        assert b.sum() == 1.0
    return out


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
def test_rows_are_those_of_the_kernel_matrix(rng, kernel):
    for n, d in [(40, 1), (70, 30), (37, 200)]:
        X = table(rng, n, d)
        source = row_source(kernel, sparse.csr_array(X), "float64")
        rows = rows_of(source, range(n))
        np.testing.assert_allclose(rows, kernel(X), rtol=1e-12, atol=1e-15)
        np.testing.assert_array_equal(rows.diagonal(), np.ones(n))
        assert rows[1, n // 2] == 1.0
        narrow = row_source(kernel, sparse.csr_array(X.astype(np.float32)), "float32")
        rows = rows_of(narrow, range(0, n, 5))
        np.testing.assert_allclose(rows, kernel(X.astype(np.float32))[::5], atol=3e-6)


def test_a_scale_for_every_input_and_long_indices(rng):
    X = table(rng, 30, 12)
    kernel = Gaussian(rng.uniform(0.2, 2.0, 12))
    csr = sparse.csr_array(X)
    csr.indices, csr.indptr = csr.indices.astype(np.int64), csr.indptr.astype(np.int64)
    rows = rows_of(row_source(kernel, csr, "float64"), range(30))
    np.testing.assert_allclose(rows, kernel(X), rtol=1e-12)


def test_levels_agree_to_rounding():
    code = """
from scipy import sparse
X = np.random.default_rng(0).normal(size=(30, 8)) * (np.arange(240).reshape(30, 8) % 3 == 0)
csr = sparse.csr_array(X)
source = _core.KernelRows(
    "gaussian", csr.data, csr.indices.astype(np.uint32), csr.indptr.astype(np.int64), 8, 1.0,
    "float64",
)
b, sums, one = np.zeros(30), np.zeros(30), np.ones(30)
_core.GreedyDescent(source, np.array([0, 30]), 0, 8).run(
    -one, 0 * one, 2 * one, 0 * one, one, b, sums, 0.0, 200
)
result = (sums.tolist(), b.tolist())
"""
    first, *others = [np.ravel(run_at_level(level, code)) for level in LEVELS]
    for other in others:
        np.testing.assert_allclose(other, first, rtol=1e-9, atol=1e-9)


def test_kernels_that_are_products_are_made_in_python(rng):
    X = table(rng, 20, 6)
    source = row_source(Cauchy(0.5), sparse.csr_array(X), "float64")
    rows = rows_of(source, range(20))
    np.testing.assert_allclose(rows, Cauchy(0.5)(X), rtol=1e-12)


def test_arguments_are_checked():
    data, indices, indptr = np.ones(3), np.array([0, 2, 1], np.uint32), np.array([0, 2, 3])
    told = 3, 1.0, "float64"
    with pytest.raises(ValueError, match="kernel must be a function of a distance; got cauchy"):
        _core.KernelRows("cauchy", data, indices, indptr, *told)
    with pytest.raises(ValueError, match="indices must ascend within a row; got 2"):
        _core.KernelRows("gaussian", data, indices, indptr, 2, *told[1:])
    with pytest.raises(ValueError, match="indices must ascend within a row; got 0"):
        _core.KernelRows("gaussian", data, indices[[1, 0, 2]], indptr, *told)
    with pytest.raises(ValueError, match="n_inputs must be below 2\\^32; got 4294967296"):
        _core.KernelRows("gaussian", data, indices, indptr, 2**32, *told[1:])
    with pytest.raises(ValueError, match="overflow"):
        _core.KernelRows("gaussian", data * 1e200, indices, indptr, *told)
