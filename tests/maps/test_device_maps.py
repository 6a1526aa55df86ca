"""Feature maps on a device, here on the processor by way of PyTorch, and the laws of designs."""

import pickle

import numpy as np
import pytest
from sklearn.base import clone

import mercer
from _covering import pairwise
from _devices import DEVICE, NAME, on_processor, tensor_of
from mercer import (
    KernelClassifier,
    KernelRegressor,
    LocalKernelClassifier,
    LocalKernelRegressor,
    kernels,
    maps,
)
from mercer._runtime.devices import Device
from mercer.designs import Dense
from mercer.designs.on_device import DeviceBinned, DeviceFeatures, bins
from test_embedding import EmbeddingLaws
from test_maps_base import MapLaws

pytestmark = pytest.mark.rounding


@pytest.fixture
def there():
    """The device in force."""
    with mercer.config_context(device=DEVICE):
        yield


def binning(n_components=20, gamma=1.0, **settings):
    return maps.RandomBinning(
        gamma=gamma, n_components=n_components, **{"random_state": 0, **settings}
    )


# -- binning -------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:.* of the bins of these rows were not met at fit")
@pytest.mark.parametrize("how", ["exact", 100, 70_000])
@pytest.mark.parametrize("n", [3, 900])
def test_codes_are_those_of_the_processor(how, n, dtype, rng):
    X, new = rng.normal(size=(n, 4)).astype(dtype), rng.normal(size=(200, 4)).astype(dtype)
    X[1] = -0.0
    X[2] = np.finfo(dtype).max
    host, there = binning(bins=how), binning(bins=how)
    expected, expected_new = host.fit_design(X), host.design(new)
    with mercer.config_context(device=DEVICE):
        design, found = there.fit_design(X), there.design(new)
        crossed = host.design(new)
    assert isinstance(design, DeviceBinned)
    for one, other in [(design, expected), (found, expected_new), (crossed, expected_new)]:
        np.testing.assert_array_equal(one.on_host().codes, other.codes)
        np.testing.assert_array_equal(one.offsets, other.offsets)
        assert one.n_missing == other.n_missing
        assert one.rows(slice(1, 3)).n_missing == other.rows(slice(1, 3)).n_missing
    np.testing.assert_array_equal(there.design(new).codes, expected_new.codes)
    if how == "exact":
        np.testing.assert_array_equal(there._table.keys(), host._table.keys())
        assert expected_new.n_missing
    for name in ("largest", "counts", "n_bins"):
        occupancy = getattr(there.occupancy_, name)
        np.testing.assert_array_equal(occupancy, getattr(host.occupancy_, name))


@pytest.mark.parametrize("n_bins", [1, 256, 257, 65_535, 65_536])
def test_codes_are_as_narrow_as_their_numbers(n_bins):
    X = np.repeat(np.arange(float(n_bins)), 2)[:, None]
    map_ = binning(2, 50.0)
    expected = binning(2, 50.0).fit_design(X)
    with mercer.config_context(device=DEVICE):
        design = map_.fit_design(X)
        again = map_.design(X)
    assert map_.n_bins_.max() == n_bins
    assert design.codes.element_size() == expected.codes.itemsize
    for one in (design, again):
        np.testing.assert_array_equal(one.on_host().codes, expected.codes)


def test_rows_that_do_not_fit_are_binned_in_pieces(rng, monkeypatch):
    X = rng.normal(size=(700, 5))
    expected = binning().fit_design(X)
    monkeypatch.setattr("mercer.maps.bins_on_device._ROWS_SHARE", 0.01)
    monkeypatch.setattr(bins, "_KEYS", 1000)
    monkeypatch.setattr(Device, "free_memory", lambda self: 300_000)
    sent, array = [], Device.array
    monkeypatch.setattr(
        Device, "array", lambda self, x, *a: [sent.append(np.shape(x)), array(self, x, *a)][1]
    )
    with mercer.config_context(device=DEVICE):
        design = binning().fit_design(X)
    np.testing.assert_array_equal(design.on_host().codes, expected.codes)
    assert 1 < max(n for n, d in [s for s in sent if len(s) == 2] if d == 5) < 100
    with (
        mercer.config_context(device=DEVICE),
        pytest.raises(MemoryError, match=r"into 900 grids needs .* n_components=\d+ would fit\.$"),
    ):
        binning(900).fit_design(X)


def test_codes_of_more_boxes_than_two_bytes_tell_are_refused_where_they_do_not_fit(monkeypatch):
    X = np.arange(70_000.0)[:, None]
    scratch = X.nbytes + 56 * len(X)
    # Room for 3 bytes of every code, of which those of four bytes take 6.
    monkeypatch.setattr(Device, "free_memory", lambda self: scratch + 4 * 2 * len(X))
    monkeypatch.setattr("mercer.maps.bins_on_device._ROWS_SHARE", 1.0)
    with (
        mercer.config_context(device=DEVICE),
        pytest.raises(MemoryError, match=r"70000 rows into 2 grids .* n_components=1 would fit\.$"),
    ):
        binning(2, 50.0).fit_design(X)


def test_sums_have_the_same_bits_in_any_order(rng, dtype):
    X = rng.normal(size=(500, 2)).astype(dtype)
    v = (rng.normal(size=(500, 2)) * 10.0 ** rng.integers(-8, 8, size=(500, 2))).astype(dtype)
    order = rng.permutation(500)
    with mercer.config_context(device=DEVICE):
        design = binning(gamma=0.2).fit_design(X)
    sums, shuffled = design.rmatvec(v), design.rows(order).rmatvec(v[order])
    np.testing.assert_array_equal(sums, shuffled)
    atol = np.abs(v).max() * (2e-7 if dtype == np.float32 else 1e-14)
    np.testing.assert_allclose(sums, design.on_host().rmatvec(v), rtol=2e-7, atol=atol)


@pytest.mark.parametrize("size", [0.0, 1e-260, 1e-160, 1e300, np.nan, np.inf])
def test_sums_of_numbers_of_any_size(size):
    with mercer.config_context(device=DEVICE):
        design = binning(3, 0.1).fit_design(np.linspace(0, 1, 9)[:, None])
    v = np.column_stack([np.linspace(-1, 1, 9), np.full(9, size)])
    sums = design.rmatvec(v)
    expected = design.on_host().rmatvec(v)
    np.testing.assert_allclose(sums[:, 0], expected[:, 0], atol=1e-15)
    if np.isfinite(size):
        np.testing.assert_allclose(sums[:, 1], expected[:, 1], rtol=1e-15)
    else:
        assert not np.isfinite(sums[:, 1]).any()


@pytest.mark.parametrize(
    "settings",
    [
        {"solver": "cg", "tol": 1e-7},
        {"solver": "cg", "tol": 1e-7, "feature_map": binning(40, 0.5, bins=64)},
        {"solver": "cholesky"},
        {"solver": "block", "tol": 1e-7},
        {"solver": "newton-cg", "tol": 1e-7},
    ],
    ids=["cg", "hashed", "cholesky", "block", "newton-cg"],
)
def test_models_of_binning_are_those_of_the_processor(settings, dtype, rng):
    X, new = rng.normal(size=(400, 3)).astype(dtype), rng.normal(size=(50, 3)).astype(dtype)
    y = np.sin(2 * X[:, 0]) + 0.1 * rng.normal(size=400)
    settings = {"feature_map": binning(40, 0.5), "alpha": 1e-2} | settings
    host = KernelRegressor(**settings).fit(X, y)
    model = KernelRegressor(**settings, device=DEVICE).fit(X, y)
    assert model.device_ == NAME
    assert model.n_iter_ <= host.n_iter_ + 1
    atol = 1e-4 if dtype == np.float64 else 1e-3
    np.testing.assert_allclose(model.map_coef_, host.map_coef_, atol=atol)
    np.testing.assert_allclose(model.predict(new), host.predict(new), atol=atol)
    elsewhere = pickle.loads(pickle.dumps(model)).set_params(device=None)
    np.testing.assert_allclose(elsewhere.predict(new), host.predict(new), atol=atol)
    np.testing.assert_allclose(
        host.set_params(device=DEVICE).predict(new), model.predict(new), atol=atol
    )


def test_classes_are_told_apart_by_binning_on_a_device(rng):
    X = rng.normal(size=(400, 3))
    y = np.where(X[:, 0] * X[:, 1] > 0, "one", "other")
    settings = {"feature_map": binning(40, 0.5), "tol": 1e-8, "loss": "logistic", "alpha": 1e-2}
    host = KernelClassifier(**settings).fit(X, y)
    model = KernelClassifier(**settings, device=DEVICE).fit(X, y)
    np.testing.assert_allclose(model.predict_proba(X), host.predict_proba(X), atol=1e-5)


def test_what_no_device_bins_is_refused(rng):
    from scipy import sparse

    X = rng.normal(size=(60, 2))
    rows = sparse.csr_array(X)
    model = KernelRegressor(
        maps.RandomBinning(kernels.Laplacian(0.5), n_components=4, random_state=0)
    )
    with mercer.config_context(device=DEVICE):
        assert type(model.fit(rows, X[:, 0]).feature_map_.design(rows)) is not DeviceBinned
    with pytest.raises(ValueError, match=r"binning, .*not sparse"):
        model.set_params(device=DEVICE).fit(rows, X[:, 0])


@pytest.mark.parametrize(
    "map_", [binning(9), maps.SubspaceEmbedding(n_components=9)], ids=["binning", "tefm"]
)
def test_coordinate_descent_takes_what_a_device_has_made(map_, rng):
    X = rng.normal(size=(80, 2))
    settings = {"feature_map": map_, "penalty": "l1", "alpha": 1e-2, "random_state": 0, "tol": 1e-4}
    host = KernelRegressor(**settings).fit(X, X[:, 0])
    model = KernelRegressor(**settings, device=DEVICE).fit(X, X[:, 0])
    np.testing.assert_allclose(model.predict(X), host.predict(X), atol=1e-3)


# -- features of a base ----------------------------------------------------------------------------

OF_A_BASE = {
    "whitened": maps.Nystroem("matern", 0.3, n_components=40, random_state=0),
    "tefm": maps.SubspaceEmbedding(n_components=20, gamma=0.3, random_state=0),
    "tefm-srht": maps.SubspaceEmbedding(n_components=20, gamma=0.3, sketch="srht", random_state=0),
    "tefm of landmarks": maps.SubspaceEmbedding(
        maps.Nystroem("gaussian", 0.3, n_components=60, random_state=0),
        n_components=20,
        random_state=0,
    ),
    "tefm of binning": maps.SubspaceEmbedding(binning(30, 0.3), n_components=20, random_state=0),
}


@pytest.mark.parametrize("name", OF_A_BASE)
def test_features_are_those_of_the_processor(name, dtype, rng):
    X, new = rng.normal(size=(400, 3)).astype(dtype), rng.normal(size=(90, 3)).astype(dtype)
    host, there = clone(OF_A_BASE[name]), clone(OF_A_BASE[name])
    expected = host.fit_design(X)
    with mercer.config_context(device=DEVICE):
        design = there.fit_design(X)
        crossed = host.design(new)
    assert isinstance(design, DeviceFeatures)
    assert design.dtype == dtype
    atol = 1e-9 if dtype == np.float64 else 2e-4
    # Directions of a subspace may turn by rounding; inner products do not.
    found, wanted = (one.toarray().astype(np.float64) for one in (design, expected))
    np.testing.assert_allclose(found @ found.T, wanted @ wanted.T, atol=atol)
    np.testing.assert_allclose(crossed.toarray(), host.transform(new), atol=atol)


@pytest.mark.parametrize("solver", ["auto", "cg"])
@pytest.mark.parametrize("name", ["tefm"])
def test_models_of_features_are_those_of_the_processor(name, solver, rng):
    X, new = rng.normal(size=(400, 3)), rng.normal(size=(50, 3))
    y = np.sin(2 * X[:, 0]) + 0.1 * rng.normal(size=400)
    settings = {"feature_map": OF_A_BASE[name], "alpha": 1e-2, "solver": solver, "tol": 1e-8}
    host = KernelRegressor(**settings).fit(X, y)
    model = KernelRegressor(**settings, device=DEVICE).fit(X, y)
    assert isinstance(model.feature_map_, type(OF_A_BASE[name]))
    np.testing.assert_allclose(model.predict(new), host.predict(new), atol=1e-5)
    elsewhere = pickle.loads(pickle.dumps(model)).set_params(device=None)
    np.testing.assert_allclose(elsewhere.predict(new), host.predict(new), atol=1e-5)


def test_kernels_that_no_device_has_are_whitened_on_the_processor(rng):
    X = rng.normal(size=(60, 2))
    map_ = maps.Nystroem(lambda x, y: np.exp(-abs(x[:, None] - y).sum(2)), n_components=9)
    with mercer.config_context(device=DEVICE):
        assert type(map_.fit(X).design(X)) is Dense


def test_large_rows_that_are_scaled_go_to_the_device(rng, monkeypatch):
    monkeypatch.setattr("mercer._runtime.rows._LARGE", 0)
    X = rng.normal(size=(60, 2))
    model = KernelRegressor("fourier", n_components=20, random_state=0, device=DEVICE)
    host = KernelRegressor("fourier", n_components=20, random_state=0)
    predicted = model.fit(X, X[:, 0]).predict(X)
    np.testing.assert_allclose(predicted, host.fit(X, X[:, 0]).predict(X), atol=1e-6)


# -- leaves ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("loss", "weighted", "dtype"),
    pairwise(["logistic", "squared_hinge"], [False, True], [np.float32, np.float64]),
)
def test_leaves_of_other_losses_are_solved_as_on_the_processor(loss, weighted, dtype, rng):
    X, new = rng.normal(size=(400, 3)).astype(dtype), rng.normal(size=(60, 3)).astype(dtype)
    y = X[:, 0] * X[:, 1] + 0.2 * rng.normal(size=400) > 0
    weights = rng.uniform(0.5, 2, size=400) if weighted else None
    settings = {"loss": loss, "alpha": 1e-3, "random_state": 0}
    settings |= {"tol": 1e-6, "n_trees": 2, "leaf_size": 90}
    host = LocalKernelClassifier(**settings).fit(X, y, weights)
    with pytest.MonkeyPatch.context() as patch:  # nothing is left to the processor
        patch.setattr("mercer.solvers.local._Leaves._by_newton", None)
        model = LocalKernelClassifier(**settings, device=DEVICE).fit(X, y, weights)
    assert model.converged_
    assert model.optimality_ <= 1e-6
    atol = 1e-4 if dtype == np.float64 else 1e-3
    found, expected = model.decision_function(new), host.decision_function(new)
    np.testing.assert_allclose(found, expected, atol=atol * np.abs(expected).max())


def test_leaves_of_several_outputs_are_solved_one_by_one(rng):
    X = rng.normal(size=(200, 2))
    y = np.stack([np.sin(X[:, 0]), X[:, 1]], axis=1) + rng.standard_t(2, size=(200, 2))
    settings = {"loss": "huber", "leaf_size": 60, "alpha": 1e-2, "random_state": 0, "tol": 1e-7}
    host = LocalKernelRegressor(**settings).fit(X, y)
    model = LocalKernelRegressor(**settings, device=DEVICE).fit(X, y)
    np.testing.assert_allclose(model.predict(X), host.predict(X), atol=1e-4)


# -- laws ------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("there")
class LawsThere(MapLaws):
    may_be_lazy = False


class TestBinningThere(LawsThere):
    def make(self, **settings):
        return binning(7, 0.3, **settings)


class TestHashedBinningThere(LawsThere):
    def make(self, **settings):
        return binning(7, 0.3, bins=16, **settings)


class TestWhitenedLandmarksThere(LawsThere):
    def make(self, **settings):
        return maps.Nystroem("laplacian", 0.3, n_components=7, random_state=0, **settings)


class TestFourierThere(LawsThere):
    def make(self, **settings):
        return maps.RandomFourier(gamma=0.3, n_components=12, random_state=0, **settings)


class TestEmbeddingThere(EmbeddingLaws, LawsThere):
    def make(self, **settings):
        return maps.SubspaceEmbedding(n_components=6, gamma=0.3, random_state=1, **settings)


DESIGNS = {
    "kernel": maps.Nystroem("exponential", 0.3, n_components=19, whiten=False, random_state=0),
    "exact": maps.ExactKernel("cauchy", 0.3),
    "cosines": maps.RandomFourier(gamma=0.3, n_components=19, random_state=0),
    "whitened": maps.Nystroem("gaussian", 0.3, n_components=19, random_state=0),
    "embedding": maps.SubspaceEmbedding(n_components=19, gamma=0.3, random_state=0),
    "binning": binning(9, 0.1),
    "hashed": binning(9, 0.3, bins=4),
}


@pytest.fixture(params=[*DESIGNS, "matrix", "remade"])
def design(request, rng, dtype, monkeypatch):
    """A design on a device of 300 rows, of which the map has met 200."""
    if request.param == "remade":
        monkeypatch.setattr("mercer.designs.on_device.features._HELD_SHARE", 0.0)
        monkeypatch.setattr("mercer.designs.on_device.tiles._TILE", 1000)
    X = rng.normal(size=(300, 3)).astype(dtype)
    map_ = DESIGNS[{"matrix": "kernel", "remade": "whitened"}.get(request.param, request.param)]
    with mercer.config_context(device=DEVICE):
        made = map_.fit(X[:200]).design(X)
    return made.held() if request.param == "matrix" else made


def vectors_of(kind, shape, dtype):
    array = np.random.default_rng(1).normal(size=shape).astype(dtype)
    return array if kind == "arrays" else tensor_of(array)


@pytest.mark.parametrize(
    ("k", "kind"), [((), "arrays"), ((1,), "tensors"), ((5,), "arrays"), ((5,), "tensors")]
)
def test_products_are_those_of_the_entries_and_adjoint(design, k, kind):
    Z, dtype = design.toarray().astype(np.float64), design.dtype
    w, v = vectors_of(kind, (Z.shape[1], *k), dtype), vectors_of(kind, (300, *k), dtype)
    Zw, Zv, Kv = design.matvec(w), design.rmatvec(v), design.gram_matvec(v)
    for made in (Zw, Zv, Kv):
        assert type(made) is type(w)
        assert str(made.dtype).removeprefix("torch.") == dtype.name
    w, v, Zw, Zv, Kv = (on_processor(one).astype(np.float64) for one in (w, v, Zw, Zv, Kv))
    eps = 2e-5 if dtype == np.float32 else 1e-13
    size = max(1.0, np.abs(Z.T @ Z).max())
    np.testing.assert_allclose(Zw, Z @ w, atol=eps * np.abs(Z).sum(axis=1).max() + eps)
    np.testing.assert_allclose(Zv, Z.T @ v, atol=eps * size)
    np.testing.assert_allclose(Kv, Z @ (Z.T @ v), atol=10 * eps * size)
    np.testing.assert_allclose((Zw * v).sum(), (w * Zv).sum(), atol=300 * eps * size)


def test_columns_norms_and_gram_are_those_of_the_entries(design, rng):
    Z, D = design.toarray().astype(np.float64), design.shape[1]
    eps = 2e-5 if design.dtype == np.float32 else 1e-13
    weights, J = rng.uniform(size=300), [3, 0, D - 1]
    np.testing.assert_allclose(design.block(J), Z[:, J], atol=eps)
    np.testing.assert_allclose(on_processor(design.block_on_device(J)), Z[:, J], atol=eps)
    np.testing.assert_allclose(design.tocsr().toarray(), Z, atol=eps)
    for given, W in ((None, np.ones(300)), (weights, weights)):
        squares, gram = design.column_sqnorms(given), design.gram(given)
        assert squares.dtype == gram.dtype == np.float64
        np.testing.assert_allclose(squares, W @ Z**2, rtol=10 * eps, atol=300 * eps)
        np.testing.assert_allclose(gram, (Z.T * W) @ Z, rtol=10 * eps, atol=300 * eps)


@pytest.mark.parametrize("index", [slice(5, 20), np.array([3, 3, 1]), np.arange(300) % 2 == 0])
def test_rows_are_rows_of_the_entries(design, index):
    part, Z = design.rows(index), design.toarray()
    eps = 2e-5 if design.dtype == np.float32 else 1e-13
    np.testing.assert_allclose(part.toarray(), Z[index], atol=eps)
    w = np.linspace(-1, 1, Z.shape[1])
    np.testing.assert_allclose(part.matvec(w), Z[index] @ w, atol=20 * eps)


@pytest.mark.parametrize("name", DESIGNS)
def test_rows_of_a_tensor_are_rows_of_the_entries(name, dtype, rng):
    X = rng.normal(size=(40, 3)).astype(dtype)
    with mercer.config_context(device=DEVICE):
        design = DESIGNS[name].fit(X).design(X)
        made = design.with_rows(tensor_of(X))
    Z, eps = design.toarray(), 2e-5 if dtype == np.float32 else 1e-13
    for index in (slice(2, 9), np.array([3, 3, 1]), np.arange(40) % 2 == 0):
        for part in (made.rows(index), made.rows(index).rows(slice(None))):
            assert part.shape == Z[index].shape
            np.testing.assert_allclose(part.toarray(), Z[index], atol=eps)


@pytest.mark.parametrize("name", DESIGNS)
def test_designs_are_pickled(name, rng):
    X = rng.normal(size=(40, 3))
    with mercer.config_context(device=DEVICE):
        design = DESIGNS[name].fit(X).design(X)
    again, w = pickle.loads(pickle.dumps(design)), np.ones(design.shape[1])
    np.testing.assert_array_equal(again.matvec(w), design.matvec(w))


def test_no_rows_is_a_design_there_too(design):
    empty, D = design.rows(slice(0, 0)), design.shape[1]
    assert empty.matvec(np.ones(D)).shape == (0,)
    np.testing.assert_array_equal(empty.rmatvec(np.ones(0)), np.zeros(D))


def test_vectors_of_a_wrong_length_are_refused(design):
    with pytest.raises(ValueError, match=r"w must have \d+ rows"):
        design.matvec(np.ones(4))
    with pytest.raises(ValueError, match="v must have 300 rows"):
        design.rmatvec(np.ones((4, 2)))
