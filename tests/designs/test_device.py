"""Kernels on a device, here on the processor by way of PyTorch."""

import pickle

import numpy as np
import pytest
from scipy import sparse

import mercer
from _covering import pairwise
from _devices import DEVICE, NAME, on_processor, tensor_of, torch
from mercer import (
    AutoKernelClassifier,
    AutoKernelRegressor,
    KernelClassifier,
    KernelRegressor,
    LocalKernelClassifier,
    LocalKernelRegressor,
    kernels,
    maps,
    persistence,
    solvers,
)
from mercer._runtime.devices import Device, describe_devices
from mercer.designs import Design, KernelColumns, kernel_columns
from mercer.designs.on_device import DeviceKernel
from mercer.solvers import low_rank, preconditioners

KERNELS = [
    kernels.Gaussian(0.3),
    kernels.Laplacian(0.4),
    kernels.Exponential(0.5),
    kernels.Matern(0.4, 1.5),
    kernels.Matern(0.4, 2.5),
    kernels.Cauchy(0.3),
    kernels.Cauchy(0.3, isotropic=True),
    kernels.RationalQuadratic(0.3, 2.0),
]
TOLERANCE = {np.float32: 2e-5, np.float64: 1e-13}


def on_device(X, kernel, landmarks=None):
    with mercer.config_context(device=DEVICE):
        return kernel_columns(X, kernel, landmarks)


def far_rows(rng, n, dtype):
    """Rows far from the origin, two of which are alike and two nearly so."""
    X = (3 * rng.normal(size=(n, 5)) + 100).astype(dtype)
    X[5], X[10] = X[6], X[11] + np.array(1e-3, dtype)
    return X


@pytest.mark.parametrize(
    ("kernel", "dtype", "own"), pairwise(KERNELS, TOLERANCE, [True, False]), ids=str
)
def test_products_are_those_of_the_processor(kernel, dtype, own, rng):
    X = far_rows(rng, 700, dtype)
    landmarks = None if own else X[rng.permutation(700)[:90]]
    host, design = KernelColumns(X, kernel, landmarks), on_device(X, kernel, landmarks)
    p, atol = host.shape[1], TOLERANCE[dtype]
    w, v = rng.normal(size=(p, 3)), rng.normal(size=700)

    def check(found, expected, size=1.0):
        assert found.dtype == expected.dtype
        np.testing.assert_allclose(found, expected, atol=atol * size)

    check(design.toarray(), host.toarray())
    check(design.block([3, 1]), host.block([3, 1]))
    check(design.diagonal(), host.diagonal())
    for held in (design, design.held()):
        check(held.matvec(w), host.matvec(w), np.abs(w).sum() / 3)
        single = w.astype(dtype)
        check(held.matvec(single), host.matvec(single), np.abs(w).sum() / 3)
        check(held.rmatvec(v), host.rmatvec(v), np.abs(v).sum())
        some = np.array([9, 3, 4])
        check(held.rows(some).matvec(w), host.rows(some).matvec(w), np.abs(w).sum() / 3)
    weights = rng.uniform(size=700)
    check(design.gram(weights), host.gram(weights), 700)
    check(design.column_sqnorms(weights), host.column_sqnorms(weights), 700)


def test_tensors_come_back_as_tensors(rng):
    X = rng.normal(size=(50, 3)).astype(np.float32)
    design, v = on_device(X, kernels.Gaussian(0.5)), rng.normal(size=(50, 2))
    for vector in (v, v.astype(np.float32)):
        product = design.matvec(tensor_of(vector))
        assert isinstance(product, torch.Tensor)
        np.testing.assert_array_equal(on_processor(product), design.matvec(vector))
    assert isinstance(design.toarray_on_device(), torch.Tensor)
    held = design.held()
    np.testing.assert_array_equal(on_processor(held.block_on_device([2])), held.block([2]))


def test_rows_that_do_not_fit_are_sent_in_pieces(rng, monkeypatch):
    X = rng.normal(size=(300, 4))
    design, v = on_device(X, kernels.Laplacian(0.5)), rng.normal(size=300)
    whole = design.matvec(v)
    monkeypatch.setattr(Device, "free_memory", lambda self: 4096)
    pieces = on_device(X, kernels.Laplacian(0.5))
    np.testing.assert_allclose(pieces.matvec(v), whole, rtol=1e-13)
    assert not pieces._resident
    assert pieces.held() is pieces
    with pytest.raises(MemoryError, match=f"available on the device '{NAME}'"):
        pieces.toarray_on_device()


def test_small_tiles_give_the_same_sums(rng, monkeypatch):
    from mercer.designs.on_device import kernel as module

    X, v = rng.normal(size=(130, 4)), rng.normal(size=(130, 2))
    whole = on_device(X, kernels.Gaussian(0.5))
    expected = whole.matvec(v), whole.gram(), whole.column_sqnorms(), whole.toarray()
    monkeypatch.setattr(module, "_SIDE", 32)
    monkeypatch.setattr(module, "_WIDENED", 100)
    monkeypatch.setattr(module, "_EXACT_COLUMNS", 7)
    tiled = on_device(X, kernels.Gaussian(0.5))
    found = tiled.matvec(v), tiled.gram(), tiled.column_sqnorms(), tiled.toarray()
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-12)
    single = on_device(X.astype(np.float32), kernels.Gaussian(0.5)).held()
    for vector in (v, v.astype(np.float32)):
        np.testing.assert_allclose(single.matvec(vector), expected[0], atol=1e-4)


def test_distances_that_overflow_are_refused():
    X = np.array([[0.0], [1e25]], dtype=np.float32)
    with pytest.raises(ValueError, match="squared distances overflow"):
        on_device(X, kernels.Gaussian(1.0)).matvec(np.ones(2))


@pytest.mark.parametrize(
    "data", [["a text", "another"], None], ids=["texts", "a kernel of one's own"]
)
def test_kernels_that_no_device_has_are_refused(data, rng):
    X = rng.normal(size=(20, 2)) if data is None else data
    kernel = "ngram" if data else (lambda x, y: x @ y.T)
    model = KernelRegressor("exact", kernel=kernel, device=DEVICE)
    with pytest.raises(
        ValueError, match=rf"kernel must be a stationary one .* on the device '{NAME}'"
    ):
        model.fit(X, np.arange(len(X)))


# -- cosines -----------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize(
    "map_",
    [
        maps.RandomFourier("gaussian", 0.3, 60, random_state=0),
        maps.RandomFourier("laplacian", 0.1, 60, form="pair", random_state=0),
        maps.Fastfood(gamma=0.3, n_components=64, random_state=0),
    ],
    ids=["phases", "pairs", "fastfood"],
)
def test_cosines_are_those_of_the_processor(map_, dtype, rng, monkeypatch):
    from mercer.designs.on_device import tiles

    monkeypatch.setattr(tiles, "_TILE", 1000)
    X = rng.normal(size=(150, 3)).astype(dtype)
    host = map_.fit(X).design(X)
    with mercer.config_context(device=DEVICE):
        design = map_.design(X)
    assert type(design).__name__ == "DeviceCosines"
    D, atol = design.shape[1], 10 * TOLERANCE[dtype]
    w, v = rng.normal(size=(D, 2)), rng.normal(size=150)
    weights = rng.uniform(size=150)
    pairs = [
        (design.toarray(), host.toarray()),
        (design.block([5, 2]), host.block([5, 2])),
        (design.matvec(w), host.matvec(w)),
        (design.rmatvec(v), host.rmatvec(v)),
        (design.gram_matvec(v), host.gram_matvec(v)),
        (design.gram(weights), host.gram(weights)),
        (design.column_sqnorms(weights), host.column_sqnorms(weights)),
        (design.rows(np.array([7, 3])).matvec(w), host.rows(np.array([7, 3])).matvec(w)),
    ]
    for found, expected in pairs:
        assert found.dtype == expected.dtype
        np.testing.assert_allclose(found, expected, atol=atol * max(1.0, np.abs(expected).max()))
    tensor = tensor_of(v.astype(dtype))
    assert isinstance(design.gram_matvec(tensor), torch.Tensor)


@pytest.mark.parametrize("solver", ["cholesky", "cg", "block", "newton-cg"])
def test_models_of_cosines_are_fitted_on_a_device(solver, rng):
    X = rng.normal(size=(400, 3))
    y = np.sin(2 * X[:, 0]) + 0.1 * rng.normal(size=400)
    settings = {"n_components": 100, "solver": solver, "tol": 1e-8, "random_state": 0}
    host = KernelRegressor("fourier", **settings).fit(X, y)
    model = KernelRegressor("fourier", **settings, device=DEVICE).fit(X, y)
    np.testing.assert_allclose(model.predict(X), host.predict(X), atol=1e-5)


def test_sparse_rows_of_cosines_are_refused(rng):
    X = sparse.csr_array(rng.normal(size=(60, 2)))
    with pytest.raises(ValueError, match=r"^device must be None or 'cpu' .* not sparse"):
        KernelRegressor("fourier", device=DEVICE).fit(X, np.arange(60.0))


# -- preconditioners ---------------------------------------------------------------------------


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("dtype", TOLERANCE)
def test_a_factor_has_the_pivots_of_the_processor(weighted, dtype, rng):
    X = rng.normal(size=(400, 3)).astype(dtype)
    root = rng.uniform(0.5, 1.5, size=400) if weighted else None
    kernel, key = kernels.Laplacian(0.3), 7
    host = low_rank.pivots_of(KernelColumns(X, kernel), 60, key, root, 0.3)
    inverse = preconditioners._on_device(on_device(X, kernel), "auto", 60, key, root, 0.3)
    # The processor rounds its factor to float32 where the shift hides that.
    near = TOLERANCE[host.dtype.type]
    np.testing.assert_allclose(on_processor(inverse._factor), host, rtol=near, atol=100 * near)
    v, shifts = rng.normal(size=(400, 3)), np.array([0.3, 2.0, 0.3])
    given = v.copy()
    found = inverse(v, shifts)
    np.testing.assert_array_equal(v, given)
    expected = low_rank.LowRank(host)(v, shifts)
    np.testing.assert_allclose(found, expected, atol=1e3 * near)


@pytest.mark.parametrize("fit_intercept", [False, True])
def test_the_preconditioner_of_landmarks_is_that_of_the_processor(fit_intercept, rng):
    X = rng.normal(size=(300, 3))
    kernel, strengths = kernels.Gaussian(0.3), np.array([1e-3, 1e-2, 1e-3])
    host = KernelColumns(X, kernel, X[:40]).landmark_design()
    design = on_device(X, kernel, X[:40]).landmark_design()
    v = rng.normal(size=(40 + fit_intercept, 3))
    expected = preconditioners.Restricted(host, 0.0, fit_intercept, np.float64)(v, strengths)
    from mercer.solvers.on_device import DeviceRestricted

    found = DeviceRestricted(design, 0.0, fit_intercept, np.float64)(v, strengths)
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_leaves_are_refused_on_a_device(rng):
    X = rng.normal(size=(60, 2))
    solver = solvers.ConjugateGradient(preconditioner="leaves")
    with pytest.raises(ValueError, match=f"on the device '{NAME}'; got 'leaves'"):
        KernelRegressor("exact", solver=solver, device=DEVICE).fit(X, X[:, 0])


# -- estimators --------------------------------------------------------------------------------


def span(n):
    return maps.Nystroem("gaussian", n_components=n, whiten=False, random_state=0)


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize(
    "settings",
    [
        {"feature_map": "exact", "kernel": "laplacian", "solver": solvers.ConjugateGradient(1e-6)},
        {"feature_map": "exact", "solver": "cholesky"},
        {"feature_map": "exact", "solver": "block"},
        {"feature_map": span(80), "solver": solvers.ConjugateGradient(1e-6)},
        {"feature_map": span(80)},
    ],
    ids=["cg", "cholesky", "block", "falkon", "landmarks"],
)
def test_models_are_those_of_the_processor(settings, dtype, rng):
    X, new = rng.normal(size=(500, 4)).astype(dtype), rng.normal(size=(90, 4)).astype(dtype)
    y = np.sin(2 * X[:, 0]) + 0.1 * rng.normal(size=500)
    host = KernelRegressor(**settings, alpha=1e-3).fit(X, y)
    with mercer.config_context(device=DEVICE):
        model = KernelRegressor(**settings, alpha=1e-3).fit(X, y)
        there = model.predict(new)
    assert (host.device_, model.device_) == ("cpu", NAME)
    assert host.solver_ == model.solver_
    assert abs(host.n_iter_ - model.n_iter_) <= 1
    for predicted in (there, model.predict(new)):
        np.testing.assert_allclose(predicted, host.predict(new), atol=2e-3 * np.std(y))


def test_other_losses_and_classes_are_fitted_on_a_device(rng):
    X = rng.normal(size=(400, 3))
    y = X[:, 0] * X[:, 1] > 0
    host = KernelClassifier("exact", loss="logistic", tol=1e-6, alpha=1e-3).fit(X, y)
    model = KernelClassifier("exact", loss="logistic", tol=1e-6, alpha=1e-3, device=DEVICE).fit(
        X, y
    )
    np.testing.assert_allclose(model.predict_proba(X), host.predict_proba(X), atol=1e-4)


def test_a_model_predicts_where_its_device_is_not(rng, monkeypatch):
    X = rng.normal(size=(60, 2))
    model = KernelRegressor("exact", device=DEVICE).fit(X, X[:, 0])
    expected = model.predict(X)
    elsewhere = pickle.loads(pickle.dumps(model.set_params(device="cuda:63")))
    np.testing.assert_allclose(elsewhere.predict(X), expected, rtol=1e-10)
    with pytest.raises(ValueError, match=r"device must be a GPU that PyTorch finds here"):
        elsewhere.fit(X, X[:, 0])


def test_files_take_names_of_devices(rng, tmp_path):
    X, path = rng.normal(size=(20, 2)), tmp_path / "m.skops"
    model = KernelRegressor("exact", device=DEVICE).fit(X, X[:, 0])
    with pytest.raises(TypeError, match=r"torch\.device, .* cannot carry: name the device by a st"):
        persistence.save(model, path)
    persistence.save(model.set_params(device="cuda:63"), path)
    np.testing.assert_allclose(persistence.load(path).predict(X), model.predict(X), rtol=1e-10)


def test_maps_without_a_design_on_devices_are_refused(rng):
    X = rng.normal(size=(60, 2))
    with pytest.raises(ValueError, match=r"^device must be None or 'cpu' for this feature_map"):
        KernelRegressor("perceptron", device=DEVICE).fit(X, X[:, 0])
    with mercer.config_context(device=DEVICE):  # which maps without a design there do not look at
        assert KernelRegressor("perceptron").fit(X, X[:, 0]).device_ == "cpu"


# -- leaves ------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("weighted", [False, True])
def test_leaves_are_solved_as_on_the_processor(weighted, dtype, rng):
    X, new = rng.normal(size=(700, 3)).astype(dtype), rng.normal(size=(90, 3)).astype(dtype)
    y = np.stack([np.sin(2 * X[:, 0]), X[:, 1]], axis=1) + 0.1 * rng.normal(size=(700, 2))
    weights = rng.uniform(0.5, 2, size=700) if weighted else None
    settings = {"leaf_size": 90, "n_trees": 2, "alpha": 1e-3, "random_state": 0}
    host = LocalKernelRegressor(**settings).fit(X, y, weights)
    model = LocalKernelRegressor(**settings, device=DEVICE).fit(X, y, weights)
    assert (host.device_, model.device_) == ("cpu", NAME)
    assert model.converged_
    atol = 20 * TOLERANCE[dtype]
    np.testing.assert_allclose(model.map_coef_, host.map_coef_, atol=100 * atol)
    np.testing.assert_allclose(model.predict(new), host.predict(new), atol=atol)
    assert model.optimality_ < 1e-5
    no_intercept = LocalKernelRegressor(**settings, fit_intercept=False)
    expected = no_intercept.fit(X, y).predict(new)
    found = no_intercept.set_params(device=DEVICE).fit(X, y).predict(new)
    np.testing.assert_allclose(found, expected, atol=atol)


def test_strengths_and_classes_of_leaves_are_chosen_on_a_device(rng, monkeypatch):
    X = rng.normal(size=(600, 3))
    y = np.where(X[:, 0] * X[:, 1] > 0, "one", "other")
    settings = {"leaf_size": 100, "alphas": [1e-1, 1e-3], "random_state": 0}
    host = LocalKernelClassifier(**settings).fit(X, y)
    monkeypatch.setattr(Device, "free_memory", lambda self: 10**6)  # a few leaves at a time
    model = LocalKernelClassifier(**settings, device=DEVICE).fit(X, y)
    assert model.alpha_ == host.alpha_
    np.testing.assert_allclose(model.path_["score"], host.path_["score"], rtol=1e-6)
    assert (model.predict(X) == host.predict(X)).all()


def test_leaves_without_a_factor_in_float32_are_solved_on_the_processor(rng):
    X = np.repeat(rng.normal(size=(60, 2)), 4, axis=0).astype(np.float32)
    y = X[:, 0] + 0.1 * rng.normal(size=240)
    settings = {"kernel": "gaussian", "leaf_size": 120, "alpha": 1e-6, "random_state": 0}
    host = LocalKernelRegressor(**settings).fit(X, y)
    model = LocalKernelRegressor(**settings, device=DEVICE).fit(X, y)
    np.testing.assert_allclose(model.predict(X), host.predict(X), atol=1e-3)


def test_leaves_of_other_losses_are_refused_by_name_and_left_to_the_processor(rng):
    X = rng.normal(size=(200, 2))
    y = X[:, 0] > 0
    model = LocalKernelClassifier(loss="sigmoid", leaf_size=60, random_state=0)
    with mercer.config_context(device=DEVICE):
        assert model.fit(X, y).device_ == "cpu"
    with pytest.raises(ValueError, match="for losses that have a kink, are joint or not convex"):
        model.set_params(device=DEVICE).fit(X, y)


@pytest.mark.parametrize("make", [AutoKernelRegressor, AutoKernelClassifier])
def test_automatic_models_are_fitted_on_a_device(make, rng, monkeypatch):
    X = rng.normal(size=(300, 3))
    y = X[:, 0] * X[:, 1] > 0 if make is AutoKernelClassifier else np.sin(2 * X[:, 0])
    host = make(random_state=0).fit(X, y)
    seen, made = [], DeviceKernel.__init__
    monkeypatch.setattr(
        DeviceKernel, "__init__", lambda *a, **k: [seen.append(1), made(*a, **k)][1]
    )
    model = make(random_state=0, device=DEVICE).fit(X, y)
    assert seen
    assert model.best_settings_ == host.best_settings_
    if make is AutoKernelClassifier:
        assert (model.predict(X) == host.predict(X)).mean() > 0.99
    else:
        np.testing.assert_allclose(model.predict(X), host.predict(X), atol=1e-3)
    with pytest.raises(ValueError, match=r"^device must be None"):
        make(device="gpu").fit(X, y)


# -- settings ----------------------------------------------------------------------------------


def test_the_device_is_a_setting_of_a_block_or_of_the_program():
    there = DEVICE if NAME == "cpu" else NAME  # a GPU by its name
    assert mercer.get_config()["device"] == "cpu"
    with mercer.config_context(device=DEVICE, max_memory="1GB"):
        assert mercer.get_config() == {"device": there, "max_memory": 2**30}
        with mercer.config_context(device="cpu"):
            assert mercer.get_config() == {"device": "cpu", "max_memory": 2**30}
    try:
        mercer.set_config(device=DEVICE)
        mercer.set_config(max_memory=None)
        assert mercer.get_config()["device"] == there
    finally:
        mercer.set_config(device=None)


@pytest.mark.parametrize(
    ("device", "error", "message"),
    [
        ("gpu", ValueError, r"^device must be None, 'cpu', 'cuda', .*; got 'gpu'\.$"),
        (3, TypeError, r"^device must be None, 'cpu', 'cuda', .*; got 3\.$"),
        ("cuda:x", ValueError, r"^device must be None, 'cpu', 'cuda', .*; got 'cuda:x'\.$"),
        ("cuda:63", ValueError, r"^device must be a GPU that PyTorch finds here .*'cuda:63'\.$"),
    ],
)
def test_no_device_gets_one_sentence(device, error, message):
    with pytest.raises(error, match=message):
        mercer.set_config(device=device)


def test_devices_are_described():
    assert len(describe_devices()) == torch.cuda.device_count()


def test_a_design_is_a_design():
    assert isinstance(on_device(np.eye(2), kernels.Gaussian(1.0)), Design)
