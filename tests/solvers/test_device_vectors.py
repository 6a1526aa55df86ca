"""Solvers on the device of a design, here on the processor by way of PyTorch."""

import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

import mercer
from _devices import DEVICE, NAME, tensor_of, torch
from mercer import KernelClassifier, KernelRegressor, maps, solvers
from mercer._runtime.device_arrays import DeviceArray, contiguous, inner, on_host, placed
from mercer._runtime.devices import Device

N = 300
of_fixed_tiles = pytest.mark.skipif(NAME != "cpu", reason="tiles follow the memory of a GPU")


def span(n=60):
    return maps.Nystroem("gaussian", n_components=n, whiten=False, random_state=0)


def blocks(**settings):
    return solvers.BlockCoordinateDescent(tol=1e-6, max_iter=100, **settings)


def exact(**settings):
    return {"feature_map": "exact", "alpha": 1e-2, **settings}


def cosines(n_components=80, **settings):
    given = {"n_components": n_components, "random_state": 0, "alpha": 1e-2}
    return {"feature_map": "fourier", **given, **settings}


FITS = {
    "exact, cg": exact(solver=solvers.ConjugateGradient(1e-8)),
    "exact, blocks": exact(solver=blocks(block_size=50)),
    "exact, blocks of the paper": exact(solver=blocks(block_size=50, accelerated=False)),
    "landmarks, cg": {"feature_map": span(), "solver": solvers.ConjugateGradient(1e-6)},
    "landmarks, blocks": {"feature_map": span(), "alpha": 1e-2, "solver": blocks(block_size=60)},
    "cosines, cg": cosines(solver=solvers.ConjugateGradient(1e-8)),
    "cosines, cg by rows": cosines(1600, solver=solvers.ConjugateGradient(1e-8)),
    "cosines, blocks": cosines(solver=blocks(block_size=20)),
    "a path, cg": exact(alpha=None, alphas=[1.0, 1e-2], solver=solvers.ConjugateGradient(1e-8)),
    "a path, blocks": exact(alpha=None, alphas=[1.0, 1e-2], solver=blocks(block_size=50)),
    "huber": exact(loss="huber", solver=solvers.RowNewton(1e-8)),
    "huber, cosines": cosines(loss="huber", solver=solvers.NewtonCG(1e-8)),
    "correntropy, cosines": cosines(loss="correntropy", solver=solvers.NewtonCG(1e-8)),
}


# Fits with weights of the rows: each solver and each map has both kinds.
WEIGHTED = {
    "exact, cg",
    "exact, blocks of the paper",
    "landmarks, blocks",
    "cosines, cg",
    "a path, blocks",
    "huber, cosines",
}


@pytest.mark.parametrize("name", FITS)
def test_results_are_those_of_the_processor(name, rng):
    X = rng.normal(size=(N, 3))
    y = np.stack([np.sin(2 * X[:, 0]), X[:, 1] ** 2], axis=1) + 0.1 * rng.normal(size=(N, 2))
    if "correntropy" in name:
        y = y[:, 0]
    weights = rng.uniform(0.5, 2.0, size=N) if name in WEIGHTED else None
    host = KernelRegressor(**FITS[name]).fit(X, y, weights)
    model = KernelRegressor(**FITS[name], device=DEVICE).fit(X, y, weights)
    assert abs(model.n_iter_ - host.n_iter_) <= max(2, 0.1 * host.n_iter_)
    np.testing.assert_allclose(model.predict(X), host.predict(X), atol=1e-4)
    assert isinstance(model.map_coef_, np.ndarray)


@pytest.mark.parametrize(
    ("loss", "alpha"),
    [("logistic", 1e-5), ("smooth_hinge", 1e-2), ("smooth_hinge", 1e-5), ("multinomial", 1e-2)],
)
def test_classes_are_those_of_the_processor(loss, alpha, rng):
    X = rng.normal(size=(N, 3))
    y = (X[:, 0] * X[:, 1] > 0) + (X[:, 2] > 1).astype(int)
    settings = exact(loss=loss, alpha=alpha, solver=solvers.RowNewton(1e-7))
    host = KernelClassifier(**settings).fit(X, y)
    model = KernelClassifier(**settings, device=DEVICE).fit(X, y)
    found, expected = model.decision_function(X), host.decision_function(X)
    np.testing.assert_allclose(found, expected, atol=2e-3 * np.abs(expected).max())


@pytest.mark.parametrize("name", [name for name in FITS if "path" not in name])
def test_no_vector_of_rows_crosses_in_an_iteration(name, rng, monkeypatch):
    """As many vectors of n numbers cross in 12 iterations as in 4."""
    X = rng.normal(size=(N, 3))
    y = np.sin(2 * X[:, 0]) + 0.1 * rng.normal(size=N)
    crossed = []
    array, host = Device.array, Device.host

    def counted_array(self, values, dtype=None):
        if isinstance(values, np.ndarray) and values.size >= N:
            crossed.append(values.size)
        return array(self, values, dtype)

    def counted_host(self, tensor):
        if tensor.numel() >= N:
            crossed.append(tensor.numel())
        return host(self, tensor)

    monkeypatch.setattr(Device, "array", counted_array)
    monkeypatch.setattr(Device, "host", counted_host)
    counts = {}
    for n_iter in (4, 12):
        settings = dict(FITS[name])
        solver = settings.pop("solver")
        solver = type(solver)(**{**vars(solver), "tol": 0.0, "max_iter": n_iter})
        if "blocks" in name:
            # What is drawn once, in the second epoch, is no part of an iteration.
            solver.accelerated = False
        crossed.clear()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model = KernelRegressor(**settings, solver=solver, device=DEVICE).fit(X, y)
        counts[n_iter], seen = len(crossed), model.n_iter_
    assert seen > 4
    assert counts[12] <= counts[4]


def test_a_fit_goes_on_from_its_checkpoint(rng, tmp_path):
    X = rng.normal(size=(N, 3))
    y = np.sin(2 * X[:, 0])
    settings = {"block_size": 60, "checkpoint_every": 1}

    def model(**given):
        return KernelRegressor(**exact(solver=blocks(**settings, **given)), device=DEVICE)

    whole = model().fit(X, y)

    class Stop(Exception):
        pass

    def stopped(self, state):
        raise Stop

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("mercer.solvers.base.Loop.shows", stopped)
        with pytest.raises(Stop):
            model(checkpoint=tmp_path).fit(X, y)
    assert list(tmp_path.iterdir())
    resumed = model(checkpoint=tmp_path).fit(X, y)
    np.testing.assert_array_equal(resumed.map_coef_, whole.map_coef_)


def test_own_preconditioners_see_arrays_of_numpy(rng):
    X = rng.normal(size=(N, 2))
    seen = []

    def inverse(residual, strengths):
        seen.append(type(residual))
        return residual

    solver = solvers.ConjugateGradient(1e-6, preconditioner=inverse)
    model = KernelRegressor("exact", solver=solver, alpha=1.0, device=DEVICE).fit(X, X[:, 0])
    assert set(seen) == {np.ndarray}
    assert model.converged_


# -- rows that do not fit ----------------------------------------------------------------------


@of_fixed_tiles
@pytest.mark.parametrize("own", [True, False], ids=["rows", "landmarks"])
def test_rows_that_do_not_fit_are_sent_as_often_as_tiles_need_them(own, rng, monkeypatch):
    from mercer.designs.on_device import kernel as module

    X = rng.normal(size=(250, 3))
    landmarks = None if own else X[:150]
    with mercer.config_context(device=DEVICE):
        design = mercer.designs.kernel_columns(X, mercer.kernels.Laplacian(0.5), landmarks)
    w = rng.normal(size=(design.shape[1], 2))
    whole = design.matvec(w)
    monkeypatch.setattr(module, "_SIDE", 100)
    monkeypatch.setattr(Device, "free_memory", lambda self: 4096)
    sizes = []

    def counted(device, pieces):
        for piece in pieces:
            sizes.append(len(piece))
            yield device.array(piece)

    monkeypatch.setattr(module, "sent_ahead", counted)
    with mercer.config_context(device=DEVICE):
        pieces = mercer.designs.kernel_columns(X, mercer.kernels.Laplacian(0.5), landmarks)
    np.testing.assert_allclose(pieces.matvec(w), whole, rtol=1e-12)
    # Tiles of 100 rows and columns: pairs of the same rows are made once, from one piece.
    assert sorted(sizes) == sorted([100, 100, 50] + ([100, 50, 50] if own else [100, 50] * 3))


@of_fixed_tiles
def test_cosines_of_rows_that_do_not_fit_are_the_same(rng, monkeypatch):
    X = rng.normal(size=(250, 3))
    map_ = maps.RandomFourier("gaussian", n_components=40, random_state=0).fit(X)
    w = rng.normal(size=40)
    with mercer.config_context(device=DEVICE):
        whole = map_.design(X)
        monkeypatch.setattr(Device, "free_memory", lambda self: 4096)
        pieces = map_.design(X)
    assert isinstance(pieces._rows, np.ndarray)
    monkeypatch.setattr("mercer.designs.on_device.tiles._TILE", 4000)
    sizes = []

    def counted(device, pieces):
        for piece in pieces:
            sizes.append(len(piece))
            yield device.array(piece)

    monkeypatch.setattr("mercer.designs.on_device.cosines.sent_ahead", counted)
    np.testing.assert_allclose(pieces.matvec(w), whole.matvec(w), rtol=1e-12)
    assert sizes == [100, 100, 50]
    some = np.array([7, 3])
    np.testing.assert_allclose(pieces.rows(some).matvec(w), whole.rows(some).matvec(w))


def test_the_next_piece_is_under_way_when_one_is_given_out(rng, monkeypatch):
    """Streams and events of a GPU that only writes down what it is asked for."""
    from contextlib import contextmanager
    from types import SimpleNamespace

    from mercer.designs.on_device import pieces as module

    log = []

    class Event:
        def record(self, stream):
            log.append("copy")

        def synchronize(self):
            log.append("wait for the buffer")

    @contextmanager
    def stream(_):
        yield

    current = SimpleNamespace(wait_event=lambda event: log.append("wait for the copy"))
    cuda = SimpleNamespace(
        Stream=lambda name: "copies",
        Event=Event,
        stream=stream,
        current_stream=lambda name: current,
    )

    class Tensor(torch.Tensor):
        def record_stream(self, stream):
            assert stream is current

        def to(self, name, non_blocking):
            assert non_blocking
            return self.clone()

    def empty(size, dtype, pin_memory):
        assert pin_memory
        return torch.empty(size, dtype=dtype).as_subclass(Tensor)

    fake = SimpleNamespace(cuda=cuda, empty=empty, float64=torch.float64)
    monkeypatch.setattr(Device, "torch", fake)
    arrays = [rng.normal(size=(size, 2)) for size in (3, 5, 2, 4)]
    received = []
    for tensor in module.sent_ahead(Device("cuda:0"), arrays):
        log.append("work")
        received.append(tensor.as_subclass(torch.Tensor).numpy())
    for found, expected in zip(received, arrays, strict=True):
        np.testing.assert_array_equal(found, expected)
    turn = ["wait for the buffer", "copy", "wait for the copy", "work"]
    begin, end = ["copy", "copy", "wait for the copy", "work"], ["wait for the copy", "work"]
    assert log == [*begin, *turn, *turn, *end]


# -- accuracy ----------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["scaled", "noisy", "negative"])
def test_wrong_float32_products_give_way_to_float64(how, rng, monkeypatch):
    """The true residual exposes products that are made wrong on purpose."""
    from mercer.designs.on_device import kernel as module

    X = rng.normal(size=(N, 3)).astype(np.float32)
    y = np.sin(2 * X[:, 0]) + 0.1 * rng.normal(size=N)
    settings = exact(solver=solvers.ConjugateGradient(1e-3, preconditioner=None))
    host = KernelRegressor(**settings).fit(X, y)
    product = module.DeviceKernel._device_product
    made = {torch.float32: 0, torch.float64: 0}
    noise = tensor_of(rng.normal(size=(N, 1)))

    def spoilt(right):
        if how == "noisy":
            return right + 30.0 * noise[: len(right)]
        return {"scaled": 50.0, "negative": -1.0}[how] * right

    def wrong_product(self, w, points, landmarks):
        made[w.dtype] += 1
        right = product(self, w, points, landmarks)
        return spoilt(right) if w.dtype == torch.float32 else right

    monkeypatch.setattr(module.DeviceKernel, "_device_product", wrong_product)
    monkeypatch.setattr(module.DeviceKernel, "held", lambda self, budget=None: self)
    model = KernelRegressor(**settings, device=DEVICE).fit(X, y)
    assert model.converged_
    assert model.optimality_ <= 1e-3
    np.testing.assert_allclose(model.predict(X), host.predict(X), atol=0.02)
    assert made[torch.float32] > 0
    assert made[torch.float64] > 0


def test_right_products_are_kept(rng, monkeypatch):
    from mercer.solvers.krylov import MachineSpace

    def refuse(self, state):
        raise AssertionError("there is no need of better products")

    monkeypatch.setattr(MachineSpace, "refine", refuse)
    X = rng.normal(size=(N, 3)).astype(np.float32)
    solver = solvers.ConjugateGradient(1e-3)
    assert KernelRegressor(**exact(solver=solver), device=DEVICE).fit(X, X[:, 0]).converged_


# -- arrays ------------------------------------------------------------------------------------


def on_device(values):
    return placed(values, Device(NAME))


def test_functions_of_numpy_give_what_they_give_on_the_processor(rng):
    a, b, row = rng.normal(size=(6, 3)), rng.uniform(1, 2, size=(6, 3)), rng.normal(size=3)
    mask = np.array([True, False, True])
    functions = [
        lambda a, b: row * a + 2.0 * b / np.float64(3.0) - 1,
        lambda a, b: np.divide(a, b, out=np.zeros_like(a), where=a > 0),
        lambda a, b: np.where(a > 0, np.maximum(a, 0.5), np.logaddexp(a, b)),
        lambda a, b: np.clip(a, -0.5, 0.5) @ row[:, None],
        lambda a, b: np.hstack([a, b])[:, [0, 4]],
        lambda a, b: np.concatenate([a, b])[2:9, mask],
        lambda a, b: np.vstack([a, b[0]]).reshape(-1),
        lambda a, b: np.tile(a, (1, 2)).sum(axis=1),
        lambda a, b: np.sqrt(np.square(a) + np.abs(b)).astype(np.float32),
        lambda a, b: contiguous(a[:, mask]) * -1.0,
        lambda a, b: a.T @ b,
    ]
    for function in functions:
        found, expected = function(on_device(a), on_device(b)), function(a, b)
        assert isinstance(found, DeviceArray)
        assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
        np.testing.assert_allclose(on_host(found), expected, rtol=1e-6)


def test_sums_over_rows_are_arrays_of_numpy(rng):
    a, b = rng.normal(size=(6, 3)), rng.normal(size=(6, 3))
    sums = [
        lambda a, b: np.sum(a, axis=0, dtype=np.float64),
        lambda a, b: a.sum(axis=0, keepdims=True),
        lambda a, b: np.einsum("ij,ij->j", a, b),
        lambda a, b: np.mean(a),
        lambda a, b: inner(a, b),
        lambda a, b: np.array_equal(a, a) and bool(np.any(b)),
    ]
    for function in sums:
        found = function(on_device(a), on_device(b))
        assert not isinstance(found, DeviceArray)
        np.testing.assert_allclose(found, function(a, b), rtol=1e-12)


def test_writing_to_a_part_changes_the_whole(rng):
    a = rng.normal(size=(6, 3))
    one, other = a.copy(), on_device(a.copy())
    for array in (one, other):
        array[:-1][...] = 2.0
        array[[0, 2], :] += np.arange(3.0)
        array[:, 1] *= 0.5
        array[-1] -= array[0]
    np.testing.assert_array_equal(on_host(other), one)


def test_nothing_becomes_an_array_of_numpy_by_itself():
    v = on_device(np.ones(3))
    with pytest.raises(TypeError, match=f"on the device '{NAME}' is not copied by itself"):
        np.asarray(v)
    with pytest.raises(TypeError):
        np.zeros(3)[...] += v
    with pytest.raises(TypeError, match="no implementation"):
        np.linalg.svd(v)


def test_functions_compute_in_the_type_that_is_asked_for():
    large = placed(np.full(3, 1e30, dtype=np.float32), Device(NAME))
    squares = np.square(large, dtype=np.float64)
    assert squares.dtype == np.float64
    np.testing.assert_allclose(on_host(squares), 1e60, rtol=1e-6)
    assert np.square(large).dtype == np.float32
