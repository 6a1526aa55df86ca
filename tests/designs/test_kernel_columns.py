"""The kernel as a design is the kernel matrix, whatever it is made of and whether it is held."""

import tracemalloc

import numpy as np
import pytest
from scipy import sparse
from sklearn.preprocessing import StandardScaler

from mercer.designs import FixedPointKernel, KernelColumns, KernelMatrix
from mercer.designs import kernel as module
from mercer.kernels import Exponential, Gaussian, Laplacian, Linear, NGram

pytestmark = pytest.mark.rounding

N, P, D = 50, 23, 6

KERNELS = {
    "gaussian": Gaussian(gamma=0.3),
    "laplacian": Laplacian(gamma=0.2),
    "linear": Linear(),
    "sum": Exponential(gamma=0.5) + 0.25 * Gaussian(gamma=0.1),
}

TEXTS = np.array(["the cat sat", "the cat ran off", "dogs bark", "a cat sat down"], dtype=object)


@pytest.fixture(autouse=True)
def small_tiles(monkeypatch):
    monkeypatch.setattr(module, "_TILE", 29)
    monkeypatch.setattr(module, "_PACKED_BYTES", 17 * D * 8)


def _rows(n, dtype=np.float64, seed=0):
    return np.random.default_rng(seed).normal(size=(n, D)).astype(dtype)


def _case(kernel, dtype, symmetric, form, held):
    X, L = _rows(N, dtype), _rows(P, dtype, seed=1)
    truth = kernel(X.astype(float), None if symmetric else L.astype(float))
    X, L = form(X), None if symmetric else form(L)
    design = KernelColumns(X, kernel, L)
    return (design.held() if held else design), truth


@pytest.fixture(params=[False, True], ids=["made", "held"])
def held(request):
    return request.param


@pytest.fixture(params=[False, True], ids=["rectangular", "symmetric"])
def symmetric(request):
    return request.param


@pytest.fixture(params=[np.asarray, sparse.csr_array], ids=["dense", "csr"])
def form(request):
    return request.param


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kernel", KERNELS)
def test_every_operation_is_that_of_the_matrix(kernel, dtype, symmetric, form, held):
    design, K = _case(KERNELS[kernel], dtype, symmetric, form, held)
    tol = 2e-5 if dtype == np.float32 else 1e-12
    rng = np.random.default_rng(2)
    weights = rng.random(N)
    assert design.symmetric == symmetric
    assert design.dtype == dtype
    for shape in [(), (1,), (5,)]:
        w, v = rng.normal(size=(K.shape[1], *shape)), rng.normal(size=(N, *shape))
        for got, expected in [
            (design.matvec(w), K @ w),
            (design.rmatvec(v), K.T @ v),
            (design.gram_matvec(v), K @ (K.T @ v)),
        ]:
            assert got.dtype == np.float64
            np.testing.assert_allclose(got, expected, atol=tol * np.abs(expected).max())
    columns = [4, 0, P - 1]
    for got, expected in [
        (design.block(columns), K[:, columns]),
        (design.toarray(), K),
        (design.gram(), K.T @ K),
        (design.gram(weights), K.T @ (K * weights[:, None])),
        (design.column_sqnorms(), np.sum(K**2, axis=0)),
        (design.column_sqnorms(weights), weights @ K**2),
        (design.rows([7, 3]).toarray(), K[[7, 3]]),
        (design.rows(slice(10, 20)).toarray(), K[10:20]),
    ]:
        np.testing.assert_allclose(got, expected, atol=tol * np.abs(expected).max())


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_kernel_of_the_landmarks_is_a_symmetric_design(dtype, symmetric, form, held):
    kernel = KERNELS["gaussian"]
    design, _ = _case(kernel, dtype, symmetric, form, held)
    L = _rows(N if symmetric else P, dtype, seed=0 if symmetric else 1).astype(float)
    inner = design.landmark_design()
    assert inner.symmetric
    np.testing.assert_allclose(inner.toarray(), kernel(L), atol=2e-5)
    np.testing.assert_allclose(design.landmark_block([3, 5]), kernel(L)[:, [3, 5]], atol=2e-5)
    np.testing.assert_allclose(design.diagonal(), np.ones(N), atol=1e-6)


def test_a_symmetric_design_is_the_rectangular_one_of_the_same_rows(form):
    X = form(_rows(N))
    kernel = KERNELS["gaussian"]
    v = np.random.default_rng(3).normal(size=(N, 4))
    one, other = KernelColumns(X, kernel), KernelColumns(X, kernel, X.copy())
    np.testing.assert_allclose(one.matvec(v), other.matvec(v), rtol=1e-12, atol=1e-12)


def test_rows_are_prepared_as_they_are_read(symmetric, held):
    X = _rows(N) * 7 + 3
    scaler = StandardScaler().fit(X)
    ready, kernel = scaler.transform(X), KERNELS["laplacian"]
    landmarks = None if symmetric else ready[:P]
    design = KernelColumns(X, kernel, landmarks, prepare=scaler.transform)
    design = design.held() if held else design
    K = kernel(ready, landmarks)
    v = np.random.default_rng(4).normal(size=K.shape[1])
    np.testing.assert_allclose(design.matvec(v), K @ v, atol=1e-12 * N)
    np.testing.assert_allclose(design.block([2, 1]), K[:, [2, 1]], atol=1e-14)
    np.testing.assert_allclose(design.rows([5]).toarray(), K[[5]], atol=1e-14)
    inner = kernel(ready if symmetric else landmarks)
    np.testing.assert_allclose(design.landmark_block([2]), inner[:, [2]], atol=1e-14)


@pytest.mark.parametrize("landmarks", [None, TEXTS[:2]], ids=["symmetric", "rectangular"])
def test_texts_are_rows_too(landmarks, held):
    kernel = NGram(orders=(1, 2))
    design = KernelColumns(TEXTS, kernel, landmarks)
    design = design.held() if held else design
    K = kernel(TEXTS, landmarks)
    np.testing.assert_allclose(design.toarray(), K, atol=1e-15)
    np.testing.assert_allclose(design.matvec(K[0]), K @ K[0], atol=1e-14)
    np.testing.assert_allclose(design.rows([1, 3]).toarray(), K[[1, 3]], atol=1e-15)


def test_float64_vectors_meet_float32_entries_without_loss(symmetric, held):
    X = _rows(N, np.float32)
    design = KernelColumns(X, KERNELS["gaussian"], None if symmetric else X[:P])
    design = design.held() if held else design
    v = np.random.default_rng(5).normal(size=design.shape[1])
    entries = design.toarray().astype(np.float64)
    np.testing.assert_allclose(design.matvec(v), entries @ v, atol=3e-6)
    assert design.matvec(v.astype(np.float32)).dtype == np.float32


def test_a_design_is_held_if_it_fits_and_only_then():
    design = KernelColumns(_rows(N), KERNELS["gaussian"])
    assert design.nbytes == 0
    assert design.held(N * N * 8 - 1) is design
    held = design.held(N * N * 8)
    assert isinstance(held, KernelMatrix)
    assert held.nbytes == N * N * 8
    assert held.held() is held


def test_products_and_blocks_take_bounded_memory(monkeypatch):
    monkeypatch.setattr(module, "_TILE", 256)
    monkeypatch.setattr(module, "_PACKED_BYTES", 2**20)
    X = _rows(4000, np.float32)
    design = KernelColumns(X, KERNELS["gaussian"])
    v = np.ones((4000, 2))
    design.rows(slice(0, 10)).matvec(v)
    tracemalloc.start()
    design.matvec(v)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 4e6 < design.shape[0] ** 2 * 4


def test_a_memory_map_is_read_only_where_asked_for(tmp_path):
    X = _rows(N)
    np.save(tmp_path / "X.npy", X)
    stored = np.load(tmp_path / "X.npy", mmap_mode="r")
    design = KernelColumns(stored, KERNELS["gaussian"])
    np.testing.assert_array_equal(design.block([1]), KernelColumns(X, design.kernel).block([1]))


def test_what_does_not_fit_is_said():
    X = _rows(5)
    with pytest.raises(TypeError, match="scale in numbers"):
        KernelColumns(X, Gaussian())
    with pytest.raises(ValueError, match="same number of columns; got 6 and 5"):
        KernelColumns(X, KERNELS["gaussian"], X[:, :5].copy())
    design = KernelColumns(X, KERNELS["gaussian"])
    with pytest.raises(ValueError, match="w must have 5 rows"):
        design.matvec(np.ones(4))
    with pytest.raises(ValueError, match="columns must be at least 0 and below 5; got 5"):
        design.block([5])


@pytest.mark.parametrize(("d", "density"), [(20, 0.1), (900, 0.01), (900, 0.2)])
@pytest.mark.parametrize("mixed", [False, True], ids=["csr", "csr and dense"])
def test_csr_rows_give_what_dense_ones_give(d, density, mixed, symmetric):
    """Whether they are written out for the core, being few or full, or stay sparse."""
    rng = np.random.default_rng(6)
    X = sparse.random_array((40, d), density=density, format="csr", random_state=rng)
    L = None if symmetric else X[:15]
    design = KernelColumns(X, KERNELS["gaussian"], L.toarray() if mixed and L is not None else L)
    K = KERNELS["gaussian"](X.toarray(), None if L is None else L.toarray())
    w = rng.normal(size=(K.shape[1], 2))
    np.testing.assert_allclose(design.matvec(w), K @ w, atol=1e-12)
    np.testing.assert_allclose(design.block([1, 0]), K[:, [1, 0]], atol=1e-14)
    np.testing.assert_allclose(design.held().toarray(), K, atol=1e-14)


@pytest.mark.parametrize("form", [lambda K: K, KernelColumns.held, FixedPointKernel])
def test_the_kernel_among_rows_is_a_part_of_the_matrix(form, rng):
    K = KernelColumns(rng.normal(size=(40, 3)).astype(np.float32), Gaussian(0.5))
    rows = np.array([3, 1, 30, 31])
    among = form(K).among(rows)
    assert among.symmetric
    np.testing.assert_allclose(among.toarray(), K.toarray()[np.ix_(rows, rows)], atol=1e-6)
    v = rng.normal(size=(4, 2))
    np.testing.assert_allclose(among.matvec(v), among.toarray().astype(float) @ v, atol=1e-6)
