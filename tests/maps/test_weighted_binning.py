"""Weighted random binning and its kernel: bins with faded edges (T-F1w)."""

import pickle
import warnings
from itertools import pairwise

import numpy as np
import pytest
from scipy import integrate, sparse, stats

import mercer
import mercer.kernels.smooth
from mercer import kernels, persistence
from mercer._runtime.random import Slot, Streams
from mercer.designs import Binned, Weighted
from mercer.kernels import Laplacian, Smooth
from mercer.maps import Nystroem, RandomBinning, RandomFourier
from test_maps_base import MapLaws

pytestmark = pytest.mark.rounding


def data(n=200, d=4, seed=0, dtype=np.float64):
    return np.random.default_rng(seed).normal(size=(n, d)).astype(dtype)


def window(s, taper):
    """g on [0, 1), from the definition."""
    edge = np.minimum(s, 1 - s)
    inside = np.where(edge < taper / 2, np.sin(np.pi * edge / taper), 1.0)
    return inside / np.sqrt(1 - taper / 2)


def test_examples_run(check_examples):
    check_examples(mercer.kernels.smooth)
    check_examples(mercer.designs.weighted)


class TestWeightedBinning(MapLaws):
    may_be_lazy = False

    def make(self, **settings):
        kernel = Smooth(0.3, shape=3.5, taper=0.6)
        return RandomBinning(kernel, n_components=6, random_state=1, **settings)


class TestWeightedHashedBinning(MapLaws):
    may_be_lazy = False

    def make(self, **settings):
        kernel = Smooth(0.4, shape=2.0, taper=1.0)
        return RandomBinning(kernel, n_components=6, bins=8, random_state=1, **settings)


# -- the kernel --------------------------------------------------------------------------------


@pytest.mark.parametrize(("shape", "taper"), [(2.0, 1.0), (1.0, 0.3), (4.0, 0.4), (7.5, 0.8)])
def test_profile_is_the_mean_overlap(shape, taper):
    """Against adaptive quadrature of the definition."""

    def overlap(a):
        edges = sorted({0.0, 1 - a, *np.clip([taper / 2, 1 - taper / 2], 0, 1 - a)})
        edges = sorted({*edges, *np.clip([taper / 2 - a, 1 - taper / 2 - a], 0, 1 - a)})
        product = lambda s: window(s, taper) * window(s + a, taper)  # noqa: E731
        return sum(
            integrate.fixed_quad(product, low, high, n=20)[0] for low, high in pairwise(edges)
        )

    density = stats.gamma(shape).pdf
    kernel = Smooth(1.0, shape=shape, taper=taper)
    for t in (0.003, 0.1, 0.7, 2.0, 9.0):
        kinks = sorted(t / a for a in (taper / 2, 1 - taper / 2, abs(1 - taper) or 1.0, 1.0))
        pieces = [t, *(k for k in kinks if t < k < 60), 60.0]
        expected = sum(
            integrate.quad(lambda w, t=t: density(w) * overlap(t / w), *piece, epsabs=1e-12)[0]
            for piece in pairwise(pieces)
        )
        assert abs(kernel([[0.0]], [[t]])[0, 0] - expected) < 1e-9


def test_without_taper_and_with_shape_two_it_is_the_laplacian():
    X = data(50, 3)
    plain, smooth = Laplacian([0.3, 1.0, 4.0]), Smooth([0.3, 1.0, 4.0], shape=2.0, taper=0.0)
    np.testing.assert_allclose(smooth(X), plain(X), atol=1e-10)
    for gamma in ("scale", "median"):
        expected = plain.with_gamma(gamma).resolve(X).gamma
        assert smooth.with_gamma(gamma).resolve(X).gamma == pytest.approx(expected, rel=1e-4)
    streams = Streams(3, np.arange(40))
    np.testing.assert_array_equal(smooth.widths(streams, 3), plain.widths(streams, 3))


def test_widths_have_the_gamma_law():
    widths = Smooth(2.0, shape=4.5, taper=0.5).widths(Streams(2, np.arange(30_000)), 1)[:, 0]
    assert stats.kstest(widths, stats.gamma(4.5, scale=0.5).cdf).pvalue > 1e-3


@pytest.mark.parametrize("gamma", [0.5, [0.1, 0.2, 0.3, 0.4]])
def test_kernel_matrix_is_positive_definite_with_unit_diagonal(X, X_csr, gamma):
    kernel = Smooth(gamma)
    K = kernel(X)
    np.testing.assert_array_equal(K, K.T)
    np.testing.assert_array_equal(np.diag(K), 1.0)
    assert K[3, 7] == 1.0
    assert np.linalg.eigvalsh(K).min() > -1e-10 * len(K)
    np.testing.assert_allclose(kernel(X_csr), K, rtol=1e-12)
    scales = np.broadcast_to(gamma, 4)
    product = np.prod([Smooth(g)(X[:, [j]]) for j, g in enumerate(scales)], axis=0)
    np.testing.assert_allclose(K, product, rtol=1e-12)


def test_second_difference_at_zero():
    """-E[1 / width**2] * integral g'**2, where plain bins have a kink and thus no limit."""
    shape, taper = 4.0, 0.5
    slope = (np.pi / taper) ** 2 * (taper / 2) / (1 - taper / 2)
    expected = -slope / ((shape - 1) * (shape - 2))
    profile = mercer.kernels.smooth.profile_table(shape, taper)
    for h in (0.02, 0.01):
        second = 2 * (profile(np.array([h]))[0] - 1) / h**2
        assert second == pytest.approx(expected, rel=3 * h)
    plain = mercer.kernels.smooth.profile_table(shape, 0.0)
    assert 2 * (plain(np.array([0.01]))[0] - 1) / 0.01**2 < -60


def test_far_and_near_are_exact():
    kernel = Smooth(1.0)
    with np.errstate(over="ignore"):
        far = kernel([[0.0], [1e300], [-1e308]], [[0.0], [1e308]])
    np.testing.assert_array_equal(far, [[1, 0], [0, 0], [0, 0]])
    assert kernel([[0.0]], [[1e-300]])[0, 0] == 1.0


def test_default_scale_is_the_kernel_at_one_deviation():
    X = data(500, 3)
    kernel = Smooth().resolve(X)
    at_deviation = kernel(np.zeros((1, 3)), np.full((1, 3), X.std()))[0, 0]
    assert at_deviation == pytest.approx(np.exp(-2), rel=1e-3)


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"shape": 0.5}, ValueError, "shape must be between 1 and 100; got 0.5"),
        ({"shape": np.nan}, ValueError, "shape must be between 1 and 100; got nan"),
        ({"shape": "2"}, TypeError, "shape must be a number; got '2'"),
        ({"taper": 1.5}, ValueError, "taper must be between 0 and 1; got 1.5"),
        ({"taper": -0.1}, ValueError, "taper must be between 0 and 1; got -0.1"),
        ({"taper": True}, TypeError, "taper must be a number; got True"),
        ({"gamma": -1.0}, ValueError, "gamma must be positive and finite; got -1.0"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings, error, message):
    with pytest.raises(error, match=message):
        Smooth(**settings)


# -- the map -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("shape", "taper"), [(2.0, 1.0), (4.0, 0.4)])
def test_inner_products_estimate_the_kernel(shape, taper):
    kernel = Smooth([0.5, 0.9, 1.4], shape=shape, taper=taper)
    X = data(6, 3, seed=1)
    pairs = np.triu_indices(6)
    estimates = []
    for seed in range(400):
        map_ = RandomBinning(kernel, n_components=50, random_state=seed)
        Z = map_.fit_transform(X)
        estimates.append((Z @ Z.T).toarray()[pairs])
    error = np.std(estimates, axis=0) / np.sqrt(400)
    mean = np.mean(estimates, axis=0)
    assert (np.abs(mean - kernel(X)[pairs]) < 5 * error).all()
    wrong = kernel.with_gamma(1.1 * np.asarray(kernel.gamma))(X)[pairs]
    assert (np.abs(mean - wrong) > 5 * error).any()


@pytest.mark.parametrize("bins", ["exact", 32])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_entries_are_the_windows_of_the_place_in_the_bin(bins, dtype):
    X = data(300, 5, dtype=dtype)
    kernel = Smooth(0.7, shape=3.0, taper=0.6)
    map_ = RandomBinning(kernel, n_components=20, bins=bins, random_state=0)
    design = map_.fit_design(X)
    assert isinstance(design, Weighted)
    streams = Streams(map_.key_, np.arange(20))
    inverse = 1 / kernel.widths(streams, 5)
    shifts = streams.uniform(5, Slot.SHIFT)
    v = X.astype(np.float64) * inverse[:, None] - shifts[:, None]
    expected = window(v - np.floor(v), 0.6).prod(axis=2) / np.sqrt(20)
    np.testing.assert_allclose(design.values, expected, rtol=1e-6)
    unscaled = RandomBinning(kernel, n_components=20, bins=bins, scale=False, random_state=0)
    np.testing.assert_allclose(
        unscaled.fit_design(X).values, design.values * np.sqrt(20), rtol=1e-6
    )


def test_without_taper_it_is_plain_binning_bit_for_bit():
    X = data()
    plain = RandomBinning(Laplacian(0.5), n_components=20, random_state=0).fit_design(X)
    untapered = Smooth(0.5, shape=2.0, taper=0.0)
    same = RandomBinning(untapered, n_components=20, random_state=0).fit_design(X)
    assert type(same) is type(plain) is Binned
    np.testing.assert_array_equal(same.codes, plain.codes)
    faded = RandomBinning(Smooth(0.5, shape=2.0, taper=0.3), n_components=20, random_state=0)
    np.testing.assert_array_equal(faded.fit_design(X).codes, plain.codes)


def test_threads_and_chunks_do_not_change_the_entries():
    X = data(3000, 5)
    maps = [RandomBinning(Smooth(0.5), n_components=40, random_state=0, n_jobs=j) for j in (1, 3)]
    one, three = (map_.fit_design(X) for map_ in maps)
    np.testing.assert_array_equal(one.values, three.values)
    np.testing.assert_array_equal(maps[0].design(X[700:800]).values, one.values[:, 700:800])


@pytest.mark.parametrize("index", ["i4", "i8"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sparse_entries_are_those_of_the_dense_rows(index, dtype):
    X = data(2500, 9, dtype=dtype) * (np.random.default_rng(1).random((2500, 9)) < 0.3)
    S = sparse.csr_array(X.astype(dtype))
    S.indices, S.indptr = S.indices.astype(index), S.indptr.astype(index)
    map_ = RandomBinning(Smooth(0.5), n_components=19, random_state=0)
    dense = map_.fit_design(X.astype(dtype))
    design = map_.design(S)
    np.testing.assert_array_equal(design.codes, dense.codes)
    np.testing.assert_allclose(design.values, dense.values, rtol=3e-7)


def test_many_inputs_in_batches(monkeypatch):
    X = data(100, 7)
    expected = RandomBinning(Smooth(0.5), n_components=23, random_state=0).fit_design(X)
    monkeypatch.setattr("mercer.maps.grids._BATCH_BYTES", 24 * 7 * 5)
    map_ = RandomBinning(Smooth(0.5), n_components=23, random_state=0)
    np.testing.assert_array_equal(map_.fit_design(X).values, expected.values)


def test_the_place_of_values_is_counted_before_it_is_taken(monkeypatch):
    most = {}
    for kernel in (Laplacian(), Smooth()):
        asked = []
        monkeypatch.setattr("mercer._runtime.arrays.check_memory", lambda n, *_: asked.append(n))  # noqa: B023
        RandomBinning(kernel, n_components=8, random_state=0).fit(data(100))
        most[type(kernel)] = max(asked)
    assert most[Smooth] - most[Laplacian] == 4 * 8 * 100


def test_other_maps_take_the_kernel_or_say_why_not():
    X = data(60, 2)
    Z = Nystroem(Smooth(0.5), n_components=60, random_state=0).fit_transform(X)
    np.testing.assert_allclose(Z @ Z.T, Smooth(0.5)(X), atol=1e-6)
    with pytest.raises(kernels.NotRepresentable, match="no known spectral sampler"):
        RandomFourier(Smooth(0.5)).fit(X)


def test_named_kernel_in_an_estimator_survives_a_file(tmp_path):
    X = data(300, 2)
    y = np.sin(2 * X).sum(axis=1)
    model = mercer.KernelRegressor("binning", kernel="smooth", random_state=0).fit(X[:250], y[:250])
    assert model.feature_map_.kernel_.taper > 0
    assert model.score(X[250:], y[250:]) > 0.5
    persistence.save(model, tmp_path / "model.skops")
    again = persistence.load(tmp_path / "model.skops")
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    assert pickle.loads(pickle.dumps(model)).feature_map_.kernel_ == model.feature_map_.kernel_


def test_a_smooth_function_is_learnt_better_than_by_plain_bins():
    """Same grids, same ridge: the kink of plain bins costs accuracy where the target has none."""
    X = np.random.default_rng(0).random((400, 1))
    y = np.sin(12 * X[:, 0])
    errors = []
    for kernel in (Laplacian(4.0), Smooth(9.0, shape=4.0, taper=1.0)):
        map_ = RandomBinning(kernel, n_components=400, random_state=0).fit(X)
        Z = map_.transform(X).toarray()
        K = Z @ Z.T
        new = map_.transform(np.linspace(0.1, 0.9, 200)[:, None]).toarray() @ Z.T
        predicted = new @ np.linalg.solve(K + 1e-3 * np.eye(400), y)
        errors.append(np.abs(predicted - np.sin(12 * np.linspace(0.1, 0.9, 200))).mean())
    assert errors[1] < errors[0]


@pytest.mark.parametrize(
    ("n_inputs", "times"), [(40, "25 times"), (64, "167 times"), (200, "over 1000 times")]
)
def test_faded_edges_on_many_inputs_deserve_a_word(n_inputs, times):
    with pytest.warns(UserWarning, match=rf"taper=0.2\) on {n_inputs} inputs need about {times}"):
        RandomBinning(Smooth(), n_components=4, random_state=0).fit(data(30, n_inputs))


def test_faded_edges_deserve_one_word_however_many_gammas_are_tried():
    X = data(50, 40)
    model = mercer.KernelRegressor(kernel="smooth", n_components=4, gamma_path=[0.1, 1.0])
    with pytest.warns(UserWarning, match="faded edges") as caught:
        model.fit(X, X[:, 0])
    assert len(caught) == 1


def test_faded_edges_on_few_inputs_and_plain_bins_do_not():
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        RandomBinning(Smooth(), n_components=4, random_state=0).fit(data(30, 20))
        RandomBinning(Laplacian(), n_components=4, random_state=0).fit(data(30, 200))
    assert not told
