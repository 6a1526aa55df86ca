"""Frequencies and bin widths of kernels follow their laws (T-K3, T-W1, T-W2)."""

import numpy as np
import pytest
from scipy import stats

from mercer._runtime.random import Streams
from mercer.kernels import (
    Callable,
    Cauchy,
    Exponential,
    Gaussian,
    Laplacian,
    NotRepresentable,
    Product,
)

STANDARD_ERRORS = 5.0


def rational(t):
    return 1.0 / (1.0 + t)


def rational_slope(t):
    return -1.0 / (1.0 + t) ** 2


def matern(t):
    return (1.0 + t) * np.exp(-t)


def matern_slope(t):
    return -t * np.exp(-t)


# Convex profiles with known width laws: (profile, derivative, sampler of the law).
def mixture_widths(rng, size):
    return rng.gamma(2.0, np.where(rng.random(size) < 0.25, 0.5, 3.0))


def root_widths(rng, size):
    shape = np.where(rng.random(size) < 0.5, 1.0, 2.0)
    return rng.gamma(shape) ** 2


PROFILES = {
    "exponential": (
        lambda t: np.exp(-t),
        lambda t: -np.exp(-t),
        lambda rng, size: rng.gamma(2.0, size=size),
    ),
    "rational": (
        rational,
        rational_slope,
        lambda rng, size: stats.betaprime(2, 1).rvs(size, random_state=rng),
    ),
    "rational, a=0.3": (
        lambda t: (1 + t) ** -0.3,
        lambda t: -0.3 * (1 + t) ** -1.3,
        lambda rng, size: stats.betaprime(2, 0.3).rvs(size, random_state=rng),
    ),
    "root": (
        lambda t: np.exp(-np.sqrt(t)),
        lambda t: -np.exp(-np.sqrt(t)) / (2 * np.sqrt(t)),
        root_widths,
    ),
    "mixture": (
        lambda t: 0.25 * np.exp(-t / 0.5) + 0.75 * np.exp(-t / 3),
        lambda t: -0.5 * np.exp(-t / 0.5) - 0.25 * np.exp(-t / 3),
        mixture_widths,
    ),
}


def triangle():
    return Product(lambda t: np.maximum(0.0, 1.0 - t), lambda t: -1.0 * (t < 1.0), gamma=0.5)


class TestFrequencies:
    DIFFERENCES = np.array(
        [[0.1, 0, 0, 0], [1, 0, 0, 0], [0.5, -0.5, 0.5, 0.5], [1, 1, 0, 0], [2, 1, -1, 0.3]]
    )

    def deviations(self, sampled, kernel):
        """(mean cos(w . difference) - k(difference)) in standard errors."""
        frequencies = sampled.frequencies(Streams(11, np.arange(100_000)), 4)
        cosines = np.cos(frequencies @ self.DIFFERENCES.T)
        error = cosines.mean(0) - kernel(self.DIFFERENCES, np.zeros((1, 4)))[:, 0]
        return error / (cosines.std(0) / np.sqrt(len(cosines)))

    def test_mean_cosine_is_the_kernel(self, kernel):
        assert abs(self.deviations(kernel, kernel)).max() < STANDARD_ERRORS

    @pytest.mark.parametrize(
        ("sampled", "kernel"),
        [
            (Gaussian(0.6), Gaussian(0.3)),
            (Gaussian(np.sqrt(2) * 0.3), Gaussian(0.3)),
            (Laplacian(0.5), Exponential(0.5)),
            (Exponential(0.5), Laplacian(0.5)),
            (Laplacian(0.5 * np.sqrt(2)), Laplacian(0.5)),
            (Cauchy(0.5), Cauchy(0.5, isotropic=True)),
            (Cauchy(1.0), Cauchy(0.5)),
        ],
        ids=str,
    )
    def test_the_bound_would_catch_another_bandwidth_or_norm(self, sampled, kernel):
        assert abs(self.deviations(sampled, kernel)).max() > 3 * STANDARD_ERRORS

    @pytest.mark.rounding
    def test_depend_on_their_stream_alone(self, kernel):
        streams = Streams(5, np.arange(20))
        some = [13, 2, 2]
        np.testing.assert_array_equal(
            kernel.frequencies(streams.take(some), 4), kernel.frequencies(streams, 4)[some]
        )

    def test_are_always_finite(self, kernel):
        assert np.isfinite(kernel.frequencies(Streams(5, np.arange(10_000)), 4)).all()

    @pytest.mark.parametrize("kernel", [Callable(np.dot), Product(rational, rational_slope, 1.0)])
    def test_without_a_sampler_the_error_names_the_maps_that_work(self, kernel):
        with pytest.raises(NotRepresentable, match=r"no known spectral sampler.*'nystroem'"):
            kernel.frequencies(Streams(0, np.arange(3)), 2)


class TestWidths:
    def test_laplacian_widths_are_gamma_of_shape_two(self):
        widths = Laplacian([0.5, 4.0]).widths(Streams(2, np.arange(50_000)), 2)
        for j, scale in enumerate([2.0, 0.25]):
            assert stats.kstest(widths[:, j], stats.gamma(2, scale=scale).cdf).pvalue > 1e-3
        assert abs(stats.spearmanr(widths).statistic) < 0.02

    def test_exponential_of_one_input_is_the_laplacian(self):
        streams = Streams(2, np.arange(100))
        np.testing.assert_array_equal(
            Exponential(0.7).widths(streams, 1), Laplacian(0.7).widths(streams, 1)
        )

    @pytest.mark.parametrize("name", PROFILES)
    def test_widths_of_a_profile_follow_its_law(self, name, rng):
        profile, derivative, law = PROFILES[name]
        widths = Product(profile, derivative, gamma=2.0).widths(Streams(4, np.arange(20_000)), 1)
        assert stats.ks_2samp(2.0 * widths[:, 0], law(rng, 20_000)).pvalue > 1e-3

    @pytest.mark.parametrize("name", PROFILES)
    def test_distribution_is_one_minus_profile_plus_t_slope(self, name):
        profile, derivative, _ = PROFILES[name]
        widths = Product(profile, derivative, gamma=1.0).widths(Streams(4, np.arange(20_000)), 1)
        uniform = 1.0 - profile(widths) + widths * derivative(widths)
        assert stats.kstest(uniform[:, 0], stats.uniform().cdf).pvalue > 1e-3

    def test_a_jump_of_the_distribution_is_a_fixed_width(self):
        np.testing.assert_allclose(
            triangle().widths(Streams(4, np.arange(100)), 3), 2.0, rtol=1e-14
        )

    @pytest.mark.parametrize(
        "kernel",
        [Laplacian(0.8), Laplacian([0.8] * 3), triangle()]
        + [Product(p, s, 0.7) for p, s, _ in PROFILES.values()],
    )
    def test_random_grids_collide_with_probability_k(self, kernel):
        difference = np.array([[0.3, 0.0, 0.8]])
        widths = kernel.widths(Streams(9, np.arange(100_000)), 3)
        together = np.maximum(0.0, 1.0 - difference / widths).prod(axis=1)
        error = together.mean() - kernel(difference, np.zeros((1, 3)))[0, 0]
        assert abs(error) < STANDARD_ERRORS * max(together.std(), 1e-12) / np.sqrt(100_000)

    @pytest.mark.rounding
    @pytest.mark.parametrize("kernel", [Laplacian(0.8), Product(rational, rational_slope, 1.0)])
    def test_depend_on_their_stream_alone(self, kernel):
        streams = Streams(5, np.arange(20))
        some = [13, 2, 2]
        np.testing.assert_array_equal(
            kernel.widths(streams.take(some), 4), kernel.widths(streams, 4)[some]
        )

    @pytest.mark.parametrize(
        ("kernel", "reason"),
        [
            (Gaussian(1.0), r"not convex.*use feature_map='fourier' or 'nystroem', or"),
            (Cauchy(1.0), "not convex"),
            (Cauchy(1.0, isotropic=True), "not convex"),
            (Exponential(1.0), "not a product of one profile per input"),
            (Callable(np.dot), "structure of a function is not known; use feature_map='nyst"),
        ],
    )
    def test_not_representable_says_why_and_what_works(self, kernel, reason):
        with pytest.raises(NotRepresentable, match=reason):
            kernel.widths(Streams(0, np.arange(3)), 2)

    @pytest.mark.parametrize(
        ("profile", "derivative", "message"),
        [
            (matern, matern_slope, "convex and decreasing, .* fails near t = 6"),
            (lambda t: np.exp(-(t**2)), lambda t: -2 * t * np.exp(-(t**2)), "convex"),
            (lambda t: 1 / (1 + t**2), lambda t: -2 * t / (1 + t**2) ** 2, "convex"),
            (rational, lambda t: 2 * rational_slope(t), "derivative its derivative"),
            (lambda t: np.exp(-t), lambda t: -0.999 * np.exp(-t), "derivative its derivative"),
            (lambda t: 2 * np.exp(-t), lambda t: -2 * np.exp(-t), "must be 1 at 0; got .*2"),
            (lambda t: 0.5 + rational(t) / 2, lambda t: rational_slope(t) / 2, "tend to 0"),
            (lambda t: 1.0, lambda t: 0.0, "one number per number"),
        ],
    )
    def test_profiles_that_are_not_convex_are_refused(self, profile, derivative, message):
        with pytest.raises(ValueError, match=message):
            Product(profile, derivative, 1.0)
