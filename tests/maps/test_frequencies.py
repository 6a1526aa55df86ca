"""Ways to draw frequencies: orthogonal blocks, rotations, Sobol' points (T-F5)."""

import pickle

import numpy as np
import pytest

import mercer.maps.frequencies
from _conventions import parametrize_with_settings
from mercer._runtime.random import Streams
from mercer.estimators import KernelRegressor
from mercer.kernels import Callable, Cauchy, Exponential, Gaussian, Laplacian, NotRepresentable
from mercer.kernels import Product as ProductKernel
from mercer.kernels.spectral import law_of
from mercer.maps import RandomFourier
from mercer.persistence import load, save
from test_maps_base import MapLaws, checks_that_make_no_sense

STANDARD_ERRORS = 5.0
RADIAL = [Gaussian(0.3), Exponential(0.5), Cauchy(0.5, isotropic=True)]
INDEPENDENT = [Gaussian(0.3), Laplacian(0.4), Cauchy(0.5)]


class TestOrthogonal(MapLaws):
    def make(self, **settings):
        return RandomFourier(
            gamma=0.3, n_components=11, sampling="orthogonal", random_state=1, **settings
        )


class TestStructured(MapLaws):
    def make(self, **settings):
        return RandomFourier(
            gamma=0.3, n_components=11, sampling="structured", random_state=1, **settings
        )


class TestSobol(MapLaws):
    def make(self, **settings):
        return RandomFourier(
            gamma=0.3, n_components=12, form="pair", sampling="qmc", random_state=1, **settings
        )


class TestSobolOfARadialLaw(MapLaws):
    def make(self, **settings):
        # Few columns: the spectral law has no mean, and rounding grows with the frequency.
        return RandomFourier(
            "exponential", gamma=0.05, n_components=6, sampling="qmc", random_state=1, **settings
        )


@parametrize_with_settings(
    [],
    [
        RandomFourier(n_components=6, sampling="orthogonal"),
        RandomFourier("exponential", n_components=6, form="pair", sampling="structured"),
        RandomFourier("laplacian", n_components=6, sampling="qmc"),
    ],
    expected_failed_checks=checks_that_make_no_sense,
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def fitted(kernel, sampling, d=4, n_components=20, seed=0, **settings):
    feature_map = RandomFourier(
        kernel, n_components=n_components, sampling=sampling, random_state=seed, **settings
    )
    return feature_map.fit(np.zeros((1, d)))


def frequencies(kernel, sampling, d=4, n_components=20, **settings):
    columns = np.arange(n_components)
    return fitted(kernel, sampling, d, n_components, **settings).parameters(columns)[0]


@pytest.mark.rounding
@pytest.mark.parametrize("sampling", ["orthogonal", "structured", "qmc"])
@pytest.mark.parametrize("kernel", RADIAL, ids=repr)
def test_parameters_are_identical_however_asked(sampling, kernel):
    one = fitted(kernel, sampling, n_components=50)
    whole = one.parameters(np.arange(50))[0]
    for columns in ([49], [0], [4, 3, 4, 40], np.arange(50)[::-1], [7, 8, 9, 30]):
        np.testing.assert_array_equal(one.parameters(columns)[0], whole[columns])


@pytest.mark.rounding
@pytest.mark.parametrize("sampling", ["orthogonal", "structured", "qmc"])
def test_columns_of_the_raw_basis_do_not_depend_on_how_many_are_used(sampling, X):
    few, many = (
        RandomFourier(
            gamma=0.3, n_components=n, sampling=sampling, scale=False, random_state=0
        ).fit_transform(X)
        for n in (6, 30)
    )
    np.testing.assert_allclose(few, many[:, :6], rtol=0, atol=1e-12)


@pytest.mark.rounding
@pytest.mark.parametrize("d", [1, 4, 16])
@pytest.mark.parametrize("sampling", ["orthogonal", "structured"])
def test_frequencies_of_a_block_are_at_right_angles(sampling, d):
    for block in frequencies(Gaussian(0.3), sampling, d, 3 * d).reshape(3, d, d):
        lengths = np.linalg.norm(block, axis=1)
        np.testing.assert_allclose(block @ block.T, np.diag(lengths**2), atol=1e-13)


@pytest.mark.rounding
@pytest.mark.parametrize("kernel", RADIAL, ids=repr)
def test_lengths_at_right_angles_are_those_of_the_kernels_law(kernel):
    one = fitted(kernel, "orthogonal", n_components=30)
    lengths = np.linalg.norm(one.parameters(np.arange(30))[0], axis=1)
    drawn = kernel.radius(Streams(one.key_, np.arange(30)), 4) * kernel.input_scale(4)[0]
    np.testing.assert_allclose(lengths, drawn, rtol=1e-13)


DIFFERENCES = np.array([[0.1, 0, 0, 0], [1, 0, 0, 0], [0.5, -0.5, 0.5, 0.5], [2, 1, -1, 0.3]])


@pytest.mark.parametrize("kernel", RADIAL, ids=repr)
def test_orthogonal_frequencies_are_unbiased(kernel):
    cosines = np.cos(frequencies(kernel, "orthogonal", n_components=80_000) @ DIFFERENCES.T)
    blocks = cosines.reshape(-1, 4, 4).mean(axis=1)
    error = blocks.mean(axis=0) - kernel(DIFFERENCES, np.zeros((1, 4)))[:, 0]
    bound = STANDARD_ERRORS * blocks.std(axis=0) / np.sqrt(len(blocks))
    assert (abs(error) < bound).all()
    wider = kernel.with_gamma(kernel.gamma * np.sqrt(2))
    shift = wider(DIFFERENCES, np.zeros((1, 4)))[:, 0] - kernel(DIFFERENCES, np.zeros((1, 4)))[:, 0]
    assert (abs(shift) > 2 * bound).any()  # another bandwidth would be caught


@pytest.mark.parametrize("kernel", [*INDEPENDENT, Exponential(0.5), Cauchy(0.5, True)], ids=repr)
def test_sobol_frequencies_are_unbiased_over_scrambles(kernel):
    means = np.array(
        [
            np.cos(frequencies(kernel, "qmc", n_components=64, seed=seed) @ DIFFERENCES.T).mean(0)
            for seed in range(300)
        ]
    )
    k = kernel(DIFFERENCES, np.zeros((1, 4)))[:, 0]
    bound = STANDARD_ERRORS * means.std(axis=0) / np.sqrt(len(means))
    assert (abs(means.mean(axis=0) - k) < bound).all()
    wider = kernel.with_gamma(kernel.gamma * np.sqrt(2))(DIFFERENCES, np.zeros((1, 4)))[:, 0]
    assert (abs(wider - k) > 2 * bound).any()  # another bandwidth would be caught


def kernel_errors(kernel, sampling, d, n_components, n_seeds=12):
    """Frobenius errors over seeds, relative to the kernel matrix of 60 normal points."""
    X = np.random.default_rng(5).normal(size=(60, d)) / np.sqrt(d)
    K = kernel(X)
    features = (
        RandomFourier(
            kernel, n_components=n_components, form="pair", sampling=sampling, random_state=seed
        ).fit_transform(X)
        for seed in range(n_seeds)
    )
    return np.array([np.linalg.norm(Z @ Z.T - K) / np.linalg.norm(K) for Z in features])


@pytest.mark.parametrize("d", [2, 3, 5])
@pytest.mark.parametrize("kernel", [Gaussian(0.5), Laplacian(0.3), Cauchy(0.5)], ids=repr)
def test_sobol_errors_are_at_most_those_of_random_draws(kernel, d):
    error, random = (kernel_errors(kernel, s, d, 512).mean() for s in ("qmc", "iid"))
    assert error < random
    if isinstance(kernel, Gaussian):
        assert error < 0.5 * random


@pytest.mark.parametrize("kernel", [Gaussian(0.5), Exponential(0.5)], ids=repr)
def test_orthogonal_errors_are_below_those_of_random_draws(kernel):
    error, random = (kernel_errors(kernel, s, 32, 128).mean() for s in ("orthogonal", "iid"))
    assert error < 0.9 * random


def test_structured_errors_are_those_of_orthogonal_directions_for_many_inputs():
    structured, orthogonal = (
        kernel_errors(Gaussian(0.5), s, 64, 256).mean() for s in ("structured", "orthogonal")
    )
    assert structured == pytest.approx(orthogonal, rel=0.2)


def test_the_variance_of_orthogonal_features_is_smaller():
    """Of z(x).z(y) over seeds, at a distance where products vary most."""
    points = np.zeros((2, 16))
    points[1] = 0.5

    def variance(sampling):
        settings = {"gamma": 0.25, "n_components": 32, "form": "pair", "sampling": sampling}
        features = (RandomFourier(**settings, random_state=s).fit(points) for s in range(400))
        return np.var([np.prod(z.transform(points), axis=0).sum() for z in features])

    assert variance("orthogonal") < 0.6 * variance("iid")


@pytest.mark.parametrize("sampling", ["orthogonal", "structured"])
@pytest.mark.parametrize("kernel", [Laplacian(0.5), Cauchy(0.5)])
def test_kernels_that_are_no_function_of_the_euclidean_distance_are_refused(sampling, kernel, X):
    with pytest.raises(NotRepresentable, match="not a function of the Euclidean distance"):
        RandomFourier(kernel, sampling=sampling).fit(X)


@pytest.mark.parametrize("sampling", ["orthogonal", "structured", "qmc"])
@pytest.mark.parametrize(
    "kernel",
    [Callable(np.dot), ProductKernel(lambda t: 1 / (1 + t), lambda t: -1 / (1 + t) ** 2)],
)
def test_kernels_without_a_law_are_refused(sampling, kernel, X):
    with pytest.raises(NotRepresentable):
        RandomFourier(kernel, sampling=sampling).fit(X)


def test_more_inputs_than_sobol_points_have_are_refused():
    with pytest.raises(ValueError, match="at most 21201 uniform numbers per frequency; got 21202"):
        fitted(Gaussian(1.0), "qmc", d=21_202, n_components=2)
    with pytest.raises(ValueError, match="at most 21201 uniform numbers per frequency; got 21202"):
        fitted(Exponential(1.0), "qmc", d=21_201, n_components=2)


@pytest.mark.parametrize("sampling", ["sobol", 1, None])
def test_an_unknown_way_is_refused(sampling, X):
    with pytest.raises(ValueError, match="sampling must be one of 'iid', 'orthogonal', 'struct"):
        RandomFourier(sampling=sampling).fit(X)


def test_blocks_that_would_not_fit_are_refused(monkeypatch):
    monkeypatch.setattr("mercer._runtime.arrays.available_memory", lambda: 1000)
    with pytest.raises(MemoryError, match=r"frequencies of 40 inputs in blocks .*sampling='iid'"):
        mercer.maps.frequencies.draw("orthogonal", Gaussian(1.0), 0, np.arange(50), 50, 40)


@pytest.mark.rounding
@pytest.mark.parametrize("form", ["phase", "pair"])
@pytest.mark.parametrize("sampling", mercer.maps.frequencies.SAMPLINGS)
def test_a_multiple_of_a_kernel_has_its_features_times_the_root(sampling, form, X, X_csr):
    settings = {"n_components": 12, "sampling": sampling, "form": form, "random_state": 0}
    one, three = (RandomFourier(k, **settings).fit(X) for k in (Gaussian(0.3), 3 * Gaussian(0.3)))
    for data in (X, X_csr):
        expected = np.sqrt(3.0) * one.transform(data)
        np.testing.assert_allclose(three.transform(data), expected, rtol=1e-12, atol=1e-14)


def test_a_sum_of_kernels_is_sampled_one_by_one_only(X):
    total = Gaussian(0.3) + 2.0 * Laplacian(0.2)
    Z = RandomFourier(total, n_components=60_000, form="pair", random_state=0).fit_transform(X)
    assert abs(Z @ Z.T - total(X)).max() < 5 * 3 * np.sqrt(2 / 60_000)
    for sampling in ("orthogonal", "structured", "qmc"):
        with pytest.raises(NotRepresentable, match="no law of frequencies in closed form"):
            RandomFourier(total, sampling=sampling).fit(X)


@pytest.mark.parametrize("name", ["iid", "orthogonal", "structured", "qmc"])
def test_an_estimator_takes_it_and_is_saved(name, X, y, tmp_path):
    feature_map = RandomFourier(gamma=0.3, n_components=150, sampling=name, random_state=0)
    fitted_model = KernelRegressor(feature_map=feature_map).fit(X, y)
    assert fitted_model.score(X, y) > 0.9
    save(fitted_model, tmp_path / "model.skops")
    for again in (pickle.loads(pickle.dumps(fitted_model)), load(tmp_path / "model.skops")):
        np.testing.assert_array_equal(again.predict(X), fitted_model.predict(X))


def test_lengths_need_the_euclidean_distance_and_say_so():
    with pytest.raises(NotRepresentable, match=r"Fastfood and frequencies at right angles need"):
        law_of(Laplacian(1.0)).radius(Streams(0, np.arange(2)), 3)
    assert law_of(2.0 * Gaussian(1.0)) == Gaussian(1.0)
