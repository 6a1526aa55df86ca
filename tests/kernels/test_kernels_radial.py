"""Matérn and rational quadratic kernels: formulas, limits, scales, what represents them."""

import numpy as np
import pytest
from scipy import sparse
from scipy.spatial.distance import cdist
from sklearn.gaussian_process import kernels as gaussian_process
from sklearn.metrics import mean_squared_error

import mercer.kernels.radial
from mercer import KernelRegressor, kernels, persistence
from mercer._runtime.random import Streams
from mercer.kernels import (
    Cauchy,
    Exponential,
    Gaussian,
    Laplacian,
    Matern,
    NotRepresentable,
    RationalQuadratic,
)


def test_examples_run(check_examples):
    check_examples(mercer.kernels.radial)


@pytest.mark.parametrize("nu", [0.5, 1.5, 2.5])
def test_matern_is_that_of_scikit_learn_with_one_over_the_length_scale(nu, X):
    expected = gaussian_process.Matern(length_scale=1 / 0.7, nu=nu)(X, X[:9])
    np.testing.assert_allclose(Matern(0.7, nu)(X, X[:9]), expected, rtol=1e-12)


@pytest.mark.parametrize("exponent", [0.3, 1.0, 4.0])
def test_rational_quadratic_is_that_of_scikit_learn(exponent, X):
    theirs = gaussian_process.RationalQuadratic(length_scale=1.3, alpha=exponent)
    ours = RationalQuadratic(1 / (2 * 1.3**2), exponent)
    np.testing.assert_allclose(ours(X, X[:9]), theirs(X, X[:9]), rtol=1e-12)


def test_special_cases_are_the_kernels_they_are_named_after(X):
    for kernel, same, tolerance in [
        (Matern(0.4, nu=0.5), Exponential(0.4), 1e-14),
        (RationalQuadratic(0.4, exponent=1), Cauchy(0.4, isotropic=True), 1e-14),
        (RationalQuadratic(0.4, exponent=1e12), Gaussian(0.4), 1e-9),
    ]:
        np.testing.assert_allclose(kernel(X), same(X), rtol=0, atol=tolerance)


@pytest.mark.parametrize("nu", [1.5, 2.5])
def test_matern_starts_as_a_parabola(nu):
    """1 - k is nu / (nu - 1) * gamma**2 * r**2 / 2 near 0."""
    r = 1e-3
    expected = nu / (nu - 1) * r**2 / 2
    assert 1 - Matern(1.0, nu)([[0.0]], [[r]])[0, 0] == pytest.approx(expected, rel=3e-3)


def test_scale_and_median_are_those_of_their_distance(X):
    distance = cdist(X, X)[np.triu_indices(len(X), 1)]
    median = np.median(distance[distance > 0])
    assert Matern().resolve(X).gamma == Exponential().resolve(X).gamma
    assert Matern("median").resolve(X).gamma == pytest.approx(1 / median, rel=0.01)
    assert RationalQuadratic().resolve(X).gamma == Gaussian().resolve(X).gamma
    assert RationalQuadratic("median").resolve(X).gamma == pytest.approx(1 / median**2, rel=0.01)


@pytest.mark.parametrize("kernel", [Matern(1.0), Matern(1.0, 2.5), RationalQuadratic(1.0, 3.0)])
def test_huge_distances_have_kernel_zero(kernel):
    for far in (
        kernel([[0.0]], [[1e150], [1e153]]),
        kernel(sparse.csr_array([[0.0]]), sparse.csr_array([[1e150], [1.2e154]])),
    ):
        assert (far < 1e-100).all()
        assert (far >= 0).all()


@pytest.mark.parametrize("kernel", [Matern(0.5), Matern(0.5, 2.5), RationalQuadratic(0.3, 0.7)])
def test_lengths_of_frequencies_are_those_of_the_frequencies(kernel):
    d, n = 5, 40_000
    radius = kernel.radius(Streams(1, np.arange(n)), d) * kernel.input_scale(d)[0]
    lengths = np.linalg.norm(kernel.frequencies(Streams(2, np.arange(n)), d), axis=1)
    levels = [0.1, 0.25, 0.5, 0.75, 0.9]
    np.testing.assert_allclose(np.quantile(radius, levels), np.quantile(lengths, levels), rtol=0.05)


@pytest.mark.parametrize(
    ("sampled", "kernel"),
    [
        (Matern(0.5 * np.sqrt(2)), Matern(0.5)),
        (Matern(0.5, nu=2.5), Matern(0.5, nu=1.5)),
        (RationalQuadratic(0.3 * np.sqrt(2), 2.0), RationalQuadratic(0.3, 2.0)),
        (RationalQuadratic(0.3, 1.0), RationalQuadratic(0.3, 2.0)),
    ],
    ids=str,
)
def test_frequencies_tell_bandwidth_and_shape_apart(sampled, kernel):
    """The test of the samplers, which these kernels pass, would fail for a neighbour."""
    differences = np.array([[0.5, 0, 0], [1, 1, 0], [2, 1, -1]])
    cosines = np.cos(sampled.frequencies(Streams(11, np.arange(100_000)), 3) @ differences.T)
    error = cosines.mean(0) - kernel(differences, np.zeros((1, 3)))[:, 0]
    assert abs(error / (cosines.std(0) / np.sqrt(len(cosines)))).max() > 10


@pytest.mark.parametrize(
    ("kernel", "n_inputs", "reason"),
    [
        (Matern(1.0, 1.5), 1, "not convex near 0"),
        (Matern(1.0, 2.5), 3, "not convex near 0"),
        (Matern(1.0, 0.5), 2, "not a product of one profile per input"),
        (RationalQuadratic(1.0), 1, "not convex near 0"),
    ],
)
def test_bins_cannot_represent_them_and_say_why(kernel, n_inputs, reason):
    with pytest.raises(NotRepresentable, match=reason):
        kernel.widths(Streams(0, np.arange(3)), n_inputs)


def test_matern_one_half_of_one_input_has_the_bins_of_the_laplacian():
    streams = Streams(0, np.arange(9))
    np.testing.assert_array_equal(
        Matern(2.0, 0.5).widths(streams, 1), Laplacian(2.0).widths(streams, 1)
    )


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: Matern(nu=1.0), ValueError, "nu must be 0.5, 1.5 or 2.5; got 1.0"),
        (lambda: Matern(nu="1.5"), ValueError, "nu must be 0.5, 1.5 or 2.5; got '1.5'"),
        (lambda: RationalQuadratic(exponent=0), ValueError, "exponent must be positive and finite"),
        (
            lambda: RationalQuadratic(exponent=True),
            TypeError,
            "exponent must be a number; got True",
        ),
        (lambda: Matern(gamma=-1.0), ValueError, "gamma must be positive and finite; got -1.0"),
    ],
)
def test_bad_parameters_are_refused_in_one_sentence(make, error, message):
    with pytest.raises(error, match=message):
        make()


@pytest.mark.parametrize("name", ["matern", "rational_quadratic"])
@pytest.mark.parametrize("feature_map", ["fourier", "nystroem"])
def test_models_with_them_learn_and_are_saved(name, feature_map, rng, tmp_path):
    X = rng.uniform(-2, 2, size=(300, 2))
    y = np.sin(2 * X[:, 0]) * X[:, 1]
    model = KernelRegressor(
        feature_map, kernel=name, gamma=0.5, n_components=200, alpha=1e-5, random_state=0
    )
    model.fit(X[:200], y[:200])
    assert mean_squared_error(y[200:], model.predict(X[200:])) < 0.05 * y.var()
    assert model.feature_map_.kernel_ == kernels.get(name, 0.5)
    persistence.save(model, tmp_path / "model.skops")
    again = persistence.load(tmp_path / "model.skops")
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
