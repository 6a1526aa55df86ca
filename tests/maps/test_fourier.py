"""Random Fourier features: bias, variance, parameters by address (T-F2a, T-F2b)."""

import pickle

import numpy as np
import pytest
from scipy import sparse
from sklearn.kernel_approximation import RBFSampler

import mercer.maps.fourier
from mercer.kernels import Callable, Cauchy, Exponential, Gaussian, Laplacian, NotRepresentable
from mercer.kernels import Product as ProductKernel
from mercer.maps import RandomFourier
from test_maps_base import MapLaws, assert_equal_up_to_rounding

pytestmark = pytest.mark.rounding

STANDARD_ERRORS = 5.0
N_DRAWS = 100_000


class TestPhase(MapLaws):
    def make(self, **settings):
        return RandomFourier(gamma=0.3, n_components=12, random_state=1, **settings)


class TestPair(MapLaws):
    def make(self, **settings):
        return RandomFourier(gamma=0.3, n_components=12, form="pair", random_state=1, **settings)


class TestRawBasisOfTheLaplacian(MapLaws):
    def make(self, **settings):
        # Few columns: the spectral law has no mean, and rounding grows with the frequency.
        return RandomFourier(
            "laplacian", gamma=0.05, n_components=7, scale=False, random_state=5, **settings
        )


def test_examples_run(check_examples):
    check_examples(mercer.maps.fourier)


def products(kernel, form, points):
    """z(x)_j z(y)_j of the raw basis for the pairs (points[0], y), summed within a frequency."""
    Z = RandomFourier(
        kernel, n_components=N_DRAWS, form=form, scale=False, random_state=3
    ).fit_transform(points)
    single = Z[0] * Z[1:]
    return single if form == "phase" else 0.5 * (single[:, ::2] + single[:, 1::2])


POINTS = np.array(
    [[0.2, -0.4, 0.1], [0.2, -0.4, 0.3], [0.7, 0.1, 0.1], [-0.8, 0.3, 0.9], [2.0, 1.0, -1.0]]
)
KERNELS = [
    Gaussian(0.5),
    Gaussian([0.2, 0.5, 1.0]),
    Laplacian(0.5),
    Laplacian([0.2, 0.5, 1.0]),
    Exponential(0.7),
    Cauchy(0.5),
    Cauchy(0.5, isotropic=True),
]


@pytest.mark.parametrize("form", ["phase", "pair"])
@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_inner_products_are_unbiased_with_the_known_variance(kernel, form):
    draws = products(kernel, form, POINTS)
    k = kernel(POINTS[:1], POINTS[1:])[0]
    k_twice = kernel(2 * POINTS[:1], 2 * POINTS[1:])[0]
    error = draws.mean(axis=1) - k
    assert (abs(error) < STANDARD_ERRORS * draws.std(axis=1) / np.sqrt(draws.shape[1])).all()
    # Per column of D: a pair of columns is one draw, so its variance counts twice.
    if form == "phase":
        np.testing.assert_allclose(draws.var(axis=1), 1 + k_twice / 2 - k**2, rtol=0.1)
    else:
        np.testing.assert_allclose(2 * draws.var(axis=1), 1 + k_twice - 2 * k**2, rtol=0.1)


@pytest.mark.parametrize("form", ["phase", "pair"])
@pytest.mark.parametrize(
    ("drawn", "kernel"),
    [
        (Gaussian(np.sqrt(2) * 0.5), Gaussian(0.5)),
        (Gaussian(1.0), Gaussian(0.5)),
        (Laplacian(0.7), Exponential(0.7)),
        (Cauchy(0.5), Cauchy(0.5, isotropic=True)),
    ],
    ids=str,
)
def test_the_bound_would_catch_another_bandwidth_or_norm(drawn, kernel, form):
    draws = products(drawn, form, POINTS)
    error = draws.mean(axis=1) - kernel(POINTS[:1], POINTS[1:])[0]
    standard_error = draws.std(axis=1) / np.sqrt(draws.shape[1])
    assert (abs(error) > 2 * STANDARD_ERRORS * standard_error).any()


def test_pairs_have_norm_one_and_phases_at_most_two(X, dtype):
    X = X.astype(dtype)
    pair = RandomFourier(n_components=50, form="pair", random_state=0).fit_transform(X)
    np.testing.assert_allclose(
        (pair**2).sum(axis=1), 1, rtol=1e-12 if dtype == np.float64 else 1e-5
    )
    phase = RandomFourier(n_components=50, random_state=0).fit_transform(X)
    assert ((phase**2).sum(axis=1) <= 2).all()
    assert (phase**2).sum(axis=1).mean() == pytest.approx(1, abs=0.2)


@pytest.mark.parametrize("form", ["phase", "pair"])
def test_raw_basis_is_the_map_without_its_scale(form, X):
    settings = {"gamma": 0.3, "n_components": 30, "form": form, "random_state": 0}
    raw = RandomFourier(scale=False, **settings).fit_transform(X)
    assert abs(raw).max() <= np.sqrt(2)
    np.testing.assert_allclose(raw / np.sqrt(30), RandomFourier(**settings).fit_transform(X))


@pytest.mark.parametrize("form", ["phase", "pair"])
def test_columns_of_the_raw_basis_do_not_depend_on_how_many_are_used(form, X):
    few, many = (
        RandomFourier(gamma=0.3, n_components=n, form=form, scale=False, random_state=0)
        for n in (6, 30)
    )
    np.testing.assert_allclose(few.fit_transform(X), many.fit_transform(X)[:, :6], atol=1e-12)


@pytest.mark.parametrize("form", ["phase", "pair"])
@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_parameters_are_identical_however_asked(kernel, form):
    fitted = RandomFourier(kernel, n_components=20, form=form, random_state=0).fit(POINTS)
    frequencies, phases = fitted.parameters(np.arange(20))
    assert frequencies.shape == (20, 3)
    for columns in ([19], [4, 3, 4], np.arange(20)[::-1]):
        some_frequencies, some_phases = fitted.parameters(columns)
        np.testing.assert_array_equal(some_frequencies, frequencies[columns])
        np.testing.assert_array_equal(some_phases, phases[columns])
    expected = np.sqrt(2 / 20) * np.cos(POINTS @ frequencies.T + phases)
    np.testing.assert_allclose(fitted.transform(POINTS), expected, atol=1e-11)


def test_pairs_are_interleaved_cosines_and_sines(X):
    fitted = RandomFourier(gamma=0.3, n_components=8, form="pair", random_state=0).fit(X)
    frequencies, _ = fitted.parameters(np.arange(0, 8, 2))
    Z = fitted.transform(X)
    np.testing.assert_allclose(Z[:, ::2], 0.5 * np.cos(X @ frequencies.T), atol=1e-12)
    np.testing.assert_allclose(Z[:, 1::2], 0.5 * np.sin(X @ frequencies.T), atol=1e-12)


def test_phases_are_uniform_on_the_circle():
    _, phases = RandomFourier(n_components=1000, random_state=0).fit(POINTS).parameters(range(1000))
    assert phases.min() > 0
    assert phases.max() < 2 * np.pi
    assert abs(np.exp(1j * phases).mean()) < 0.1


def test_features_equal_those_of_scikit_learn_with_the_same_weights(X):
    fitted = RandomFourier(gamma=0.3, n_components=25, random_state=0).fit(X)
    frequencies, phases = fitted.parameters(np.arange(25))
    peer = RBFSampler(gamma=0.3, n_components=25).fit(X)
    assert peer.random_weights_.std() == pytest.approx(frequencies.std(), rel=0.3)
    peer.random_weights_, peer.random_offset_ = frequencies.T, phases
    np.testing.assert_allclose(fitted.transform(X), peer.transform(X), atol=1e-12)


@pytest.mark.parametrize("form", ["phase", "pair"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_products_over_many_inputs_are_left_to_blas(form, dtype, monkeypatch):
    wide = np.random.default_rng(3).normal(size=(70, mercer.maps.fourier._WIDE)).astype(dtype)
    settings = {"gamma": 0.002, "n_components": 30, "form": form, "random_state": 0}
    by_core = RandomFourier(**settings, n_jobs=1).fit_transform(wide)
    monkeypatch.setattr(mercer.maps.fourier._core, "cosine_block", None)
    monkeypatch.setattr(mercer.maps.fourier._core, "cosine_pairs", None)
    by_blas = RandomFourier(**settings).fit_transform(wide)
    np.testing.assert_allclose(by_blas, by_core, atol=50 * np.finfo(dtype).eps)
    with pytest.raises(TypeError):
        RandomFourier(**settings).fit_transform(np.ascontiguousarray(wide[:, :-1]))


@pytest.mark.parametrize(
    ("form", "d", "shape", "held"),
    [
        ("phase", 5, (), False),
        ("phase", 5, (8,), False),
        ("phase", 5, (0,), False),
        ("phase", 5, (9,), True),
        ("pair", 5, (), True),
        ("phase", mercer.maps.fourier._WIDE, (2,), True),
    ],
)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_products_with_few_weights_hold_no_features(form, d, shape, held, dtype, monkeypatch):
    rng = np.random.default_rng(4)
    X, weights = rng.normal(size=(300, d)).astype(dtype), rng.normal(size=(40, *shape))
    settings = {"gamma": 0.5 / d, "n_components": 40, "form": form, "random_state": 0}
    feature_map = RandomFourier(**settings).fit(X)
    expected = feature_map.transform(X).astype(np.float64) @ weights
    if not held:
        monkeypatch.setattr(RandomFourier, "_transform", None)
    product, n_missing = feature_map._product_with(X, weights.astype(dtype))
    tol = 1e-5 if dtype == np.float32 else 1e-13
    np.testing.assert_allclose(product, expected, rtol=0, atol=tol)
    assert n_missing == 0
    with pytest.raises(ValueError, match="X must stay below"):
        feature_map._product_with(X * (np.finfo(dtype).max / 8), weights)


@pytest.mark.parametrize("form", ["phase", "pair"])
def test_frequencies_that_would_not_fit_are_regenerated(form, X, X_csr, monkeypatch):
    settings = {"gamma": 0.3, "n_components": 60, "form": form, "random_state": 0}
    kept = RandomFourier(**settings).fit(X)
    monkeypatch.setattr(mercer.maps.fourier, "available_memory", lambda: 1000)
    monkeypatch.setattr(
        mercer.maps.fourier,
        "row_chunks",
        lambda n, *_: (slice(i, min(n, i + 13)) for i in range(0, n, 13)),
    )
    regenerated = RandomFourier(**settings).fit(X)
    assert regenerated._remember() is None
    for data in (X, X_csr, X.astype(np.float32)):
        assert_equal_up_to_rounding(regenerated.transform(data), kept.transform(data))


def test_pickles_hold_the_seed_and_not_the_frequencies():
    X = np.zeros((2, 500))
    fitted = RandomFourier(gamma=1.0, n_components=1000, random_state=0).fit(X)
    assert len(pickle.dumps(fitted)) < 2000


def test_high_dimensional_sparse_data_stay_sparse(monkeypatch):
    X = sparse.random_array((30, 100_000), density=1e-4, format="csr", random_state=0)
    monkeypatch.setattr(
        sparse.csr_array, "toarray", lambda *_: pytest.fail("the data were made dense")
    )
    Z = RandomFourier(gamma=0.05, n_components=10, random_state=0).fit_transform(X)
    assert np.isfinite(Z).all()


@pytest.mark.parametrize("form", ["phase", "pair"])
def test_the_widest_frequencies_give_bounded_features(form, X, X_csr, dtype):
    fitted = RandomFourier("laplacian", 1e4, 5000, form, scale=False, random_state=0).fit(X)
    for data in (X.astype(dtype), X_csr.astype(dtype)):
        Z = fitted.transform(data)
        assert np.isfinite(Z).all()
        assert abs(Z).max() <= np.sqrt(2) * (1 + 1e-6)


def test_data_whose_products_overflow_are_refused(X, X_csr, dtype):
    fitted = RandomFourier(gamma=1.0, n_components=10, random_state=0).fit(X)
    X, X_csr = X.astype(dtype), X_csr.astype(dtype)
    X[0, 0] = X_csr.data[0] = -np.finfo(dtype).max
    for data in (X, X_csr):
        with pytest.raises(
            ValueError, match=r"X must stay below .*e\+.* for the frequencies .* got"
        ):
            fitted.transform(data)


@pytest.mark.parametrize("kernel", [lambda X, Y: X @ Y.T, Callable(np.dot)])
def test_a_kernel_function_has_no_frequencies(kernel, X):
    with pytest.raises(NotRepresentable, match=r"no known spectral sampler.*'nystroem'"):
        RandomFourier(kernel).fit(X)


def test_a_profile_has_no_frequencies(X):
    kernel = ProductKernel(lambda t: 1 / (1 + t), lambda t: -1 / (1 + t) ** 2)
    with pytest.raises(NotRepresentable, match="no known spectral sampler"):
        RandomFourier(kernel).fit(X)


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"n_components": 0}, ValueError, "n_components must be at least 1; got 0"),
        ({"n_components": -3}, ValueError, "n_components must be at least 1; got -3"),
        ({"n_components": 2.0}, TypeError, "n_components must be an integer; got 2.0"),
        ({"n_components": None}, TypeError, "n_components must be an integer; got None"),
        ({"n_components": True}, TypeError, "n_components must be an integer; got True"),
        ({"n_components": 5, "form": "pair"}, ValueError, "n_components must be even .*; got 5"),
        ({"form": "sine"}, ValueError, "form must be one of 'phase', 'pair'; got 'sine'"),
        ({"form": 1}, ValueError, "form must be one of 'phase', 'pair'; got 1"),
        ({"scale": 1}, TypeError, "scale must be True or False; got 1"),
        ({"kernel": "sigmoid"}, ValueError, "kernel must be one of 'gaussian', .*; got 'sigmoid'"),
        ({"gamma": 0.0}, ValueError, "gamma must be positive and finite; got 0.0"),
        ({"gamma": [1.0, 2.0]}, ValueError, "gamma must have one entry per input; got 2 for 4"),
        ({"gamma": "auto"}, ValueError, "gamma must be .* got 'auto'"),
        ({"kernel": Gaussian(1.0), "gamma": 2.0}, ValueError, "gamma is given twice and differs"),
        ({"random_state": -1}, ValueError, "random_state must be at least 0; got -1"),
        ({"random_state": "a"}, TypeError, "random_state must be an integer, .*; got 'a'"),
        ({"n_jobs": 0}, ValueError, "n_jobs must not be 0"),
        ({"n_jobs": 1.5}, TypeError, "n_jobs must be an integer or None; got 1.5"),
    ],
)
def test_bad_settings_are_refused_in_one_sentence(settings, error, message, X):
    with pytest.raises(error, match=message):
        RandomFourier(**settings).fit(X)


def test_features_that_would_not_fit_are_refused_before_they_are_made(monkeypatch):
    fitted = RandomFourier(n_components=10, random_state=0).fit(POINTS)
    monkeypatch.setattr("mercer._runtime.arrays.available_memory", lambda: 100)
    with pytest.raises(MemoryError, match=r"5 rows and 10 columns needs .*; transform 1 rows"):
        fitted.transform(POINTS)
