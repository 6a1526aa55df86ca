"""Sums, products and multiples of kernels, and names of one's own."""

import pickle

import numpy as np
import pytest
from scipy import sparse, stats

import mercer.kernels
import mercer.kernels.combined
from mercer import KernelRegressor, kernels, persistence
from mercer._runtime.random import Streams
from mercer.kernels import (
    Callable,
    Exponential,
    Gaussian,
    Laplacian,
    Linear,
    Matern,
    NGram,
    NotRepresentable,
    Perceptron,
    Scaled,
    Sum,
    Times,
)
from mercer.maps import Nystroem, RandomBinning, RandomFourier

STANDARD_ERRORS = 5.0
DIFFERENCES = np.array([[0.1, 0, 0, 0], [1, 0, 0, 0], [0.5, -0.5, 0.5, 0.5], [2, 1, -1, 0.3]])

COMBINED = [
    2.5 * Gaussian(0.3),
    Gaussian(0.3) + 0.5 * Laplacian(0.4),
    Gaussian(0.3) * Laplacian(0.4),
    Gaussian(0.3) * Gaussian(0.5),
    3.0 * (Gaussian(0.1) + Gaussian(1.0) * Matern(0.3)) + Laplacian([0.1, 0.2, 0.3, 0.4]),
]


@pytest.fixture(params=COMBINED, ids=range(len(COMBINED)))
def combined(request):
    return request.param


def test_examples_run(check_examples):
    check_examples(mercer.kernels.combined)


class TestMatrix:
    def test_is_the_sum_product_or_multiple_of_the_matrices(self, X):
        a, b, c = Gaussian(0.3), Laplacian(0.4), Linear()
        for kernel, expected in [
            (2.5 * a, 2.5 * a(X)),
            (a * 2.5, 2.5 * a(X)),
            (np.float64(2.5) * a, 2.5 * a(X)),
            (np.float32(2.5) * a, 2.5 * a(X)),
            (a + b + c, a(X) + b(X) + c(X)),
            (a * b * c, a(X) * b(X) * c(X)),
            (2 * (a + b) * c, 2 * (a(X) + b(X)) * c(X)),
        ]:
            np.testing.assert_allclose(kernel(X), expected, rtol=1e-13, err_msg=repr(kernel))
            np.testing.assert_allclose(kernel.diag(X), np.diag(expected), rtol=1e-13)

    def test_is_symmetric_positive_semidefinite_with_its_diagonal(self, combined, X):
        K = combined(X)
        np.testing.assert_allclose(K, K.T, rtol=0, atol=1e-13)
        assert np.linalg.eigvalsh(K).min() >= -1e-10 * len(X)
        np.testing.assert_array_equal(np.diag(K), combined.diag(X))
        np.testing.assert_allclose(np.diag(K), combined.amplitude, rtol=1e-15)

    @pytest.mark.rounding
    def test_sparse_equals_dense_and_float32_is_kept(self, combined, X, X_csr):
        np.testing.assert_allclose(combined(X_csr, X[:9]), combined(X, X[:9]), rtol=1e-12)
        K = combined(X.astype(np.float32))
        assert K.dtype == np.float32
        np.testing.assert_allclose(K, combined(X), rtol=1e-5)

    @pytest.mark.rounding
    def test_rows_are_chunked_without_changing_the_result(self, combined, X, monkeypatch):
        whole = combined(X)
        monkeypatch.setattr(
            mercer.kernels.combined,
            "row_chunks",
            lambda n, _: (slice(i, min(n, i + 7)) for i in range(0, n, 7)),
        )
        np.testing.assert_allclose(combined(X), whole, rtol=1e-13)

    def test_equal_kinds_are_one_list(self):
        a, b, c = Gaussian(1.0), Laplacian(1.0), Linear()
        assert (a + b) + c == a + (b + c) == Sum((a, b, c))
        assert (a * b) * c == Times([a, b, c])
        assert 2 * (3 * a) == Scaled(a, 6.0)
        assert (a + b) * c == Times((Sum((a, b)), c))

    def test_is_a_value(self, combined):
        assert pickle.loads(pickle.dumps(combined)) == combined
        assert hash(combined) == hash(pickle.loads(pickle.dumps(combined)))

    @pytest.mark.parametrize(
        ("make", "error", "message"),
        [
            (lambda: 0.0 * Gaussian(), ValueError, "factor must be positive and finite; got 0.0"),
            (lambda: True * Gaussian(), TypeError, "factor must be a number; got True"),
            (lambda: Sum(()), ValueError, "parts must hold at least one kernel; got none"),
            (lambda: Sum(("rbf",)), TypeError, "parts must be kernels; got 'rbf'"),
            (lambda: Scaled(np.dot, 1.0), TypeError, "kernel must be kernels?; got"),
            (lambda: NGram() * Gaussian(), ValueError, "kernels of texts or kernels of numbers"),
            (lambda: Gaussian() + 1, TypeError, "unsupported operand"),
            (lambda: "2" * Gaussian(), TypeError, "can't multiply|unsupported operand"),
        ],
    )
    def test_what_makes_no_sense_is_refused(self, make, error, message):
        with pytest.raises(error, match=message):
            make()


class TestScale:
    def test_every_part_follows_the_data(self, X, rng):
        kernel = Gaussian() + 2.0 * Laplacian("median") * Perceptron()
        assert not kernel.is_resolved
        weights = rng.integers(1, 3, size=len(X))
        resolved = kernel.resolve(X, weights)
        assert resolved.is_resolved
        gaussian, rest = resolved.parts
        assert gaussian == Gaussian().resolve(X, weights)
        assert rest.parts[0] == 2.0 * Laplacian("median").resolve(X, weights)
        assert rest.parts[1] == Perceptron().resolve(X, weights)

    def test_a_multiple_has_the_scale_of_its_kernel(self, X):
        kernel = 2.0 * Gaussian()
        assert kernel.gamma == "scale"
        assert kernels.get(kernel, 0.5) == kernel.with_gamma(0.5) == 2.0 * Gaussian(0.5)
        assert kernel.resolve(X) == 2.0 * Gaussian().resolve(X)

    def test_sums_and_products_have_scales_of_their_own(self):
        for kernel in (Gaussian() + Laplacian(), Gaussian() * Laplacian()):
            assert kernel.gamma is None
            assert kernels.get(kernel) is kernel
            with pytest.raises(ValueError, match=r"gamma must be left out beside .*; got 0\.5"):
                kernels.get(kernel, 0.5)
            with pytest.raises(ValueError, match="which has no scale"):
                kernel.with_gamma(0.5)


class TestSamplers:
    def test_amplitude_times_the_mean_cosine_is_the_kernel(self, combined):
        frequencies = combined.frequencies(Streams(11, np.arange(100_000)), 4)
        cosines = combined.amplitude * np.cos(frequencies @ DIFFERENCES.T)
        error = cosines.mean(0) - combined(DIFFERENCES, np.zeros((1, 4)))[:, 0]
        assert abs(error / (cosines.std(0) / np.sqrt(len(cosines)))).max() < STANDARD_ERRORS

    @pytest.mark.parametrize(
        "other",
        [
            3.0 * (Gaussian(0.3) + 0.25 * Laplacian(0.4)) * (1 / 3.75) * 1.5,  # other shares
            Gaussian(0.6) + 0.5 * Laplacian(0.4),
            1.5 * Gaussian(0.3) * Laplacian(0.4),
        ],
    )
    def test_the_bound_would_catch_other_shares_or_bandwidths(self, other):
        kernel = COMBINED[1]
        assert other.amplitude == pytest.approx(kernel.amplitude)
        frequencies = other.frequencies(Streams(11, np.arange(100_000)), 4)
        cosines = other.amplitude * np.cos(frequencies @ DIFFERENCES.T)
        error = cosines.mean(0) - kernel(DIFFERENCES, np.zeros((1, 4)))[:, 0]
        assert abs(error / (cosines.std(0) / np.sqrt(len(cosines)))).max() > 2 * STANDARD_ERRORS

    def test_depend_on_their_stream_alone(self, combined):
        streams, some = Streams(5, np.arange(20)), [13, 2, 2]
        np.testing.assert_array_equal(
            combined.frequencies(streams.take(some), 4), combined.frequencies(streams, 4)[some]
        )

    def test_parts_of_a_product_are_independent(self):
        w = [
            Times((Gaussian(1.0), Gaussian(g))).frequencies(Streams(3, np.arange(5000)), 1)[:, 0]
            for g in (1e-12, 1.0)
        ]
        first, second = w[0], w[1] - w[0]
        assert abs(stats.spearmanr(first, second).statistic) < 5 / np.sqrt(5000)

    def test_a_part_without_a_sampler_is_told(self):
        for kernel in (Gaussian(1.0) + 1e-9 * Linear(), Gaussian(1.0) * Linear()):
            with pytest.raises(NotRepresentable, match=r"Linear\(\) has no known spectral sampler"):
                kernel.frequencies(Streams(0, np.arange(3)), 2)

    def test_bins_of_a_sum_are_those_of_its_parts(self):
        kernel = Laplacian(0.8) + 0.5 * Laplacian(4.0)
        difference = np.array([[0.3, 0.0, 0.8]])
        widths = kernel.widths(Streams(9, np.arange(100_000)), 3)
        together = 1.5 * np.maximum(0.0, 1.0 - difference / widths).prod(axis=1)
        error = together.mean() - kernel(difference, np.zeros((1, 3)))[0, 0]
        assert abs(error) < STANDARD_ERRORS * together.std() / np.sqrt(100_000)

    @pytest.mark.parametrize(
        ("kernel", "reason"),
        [
            (Laplacian(1.0) * Laplacian(1.0), "no mean over single grids"),
            (Laplacian(1.0) + 1e-9 * Gaussian(1.0), r"Gaussian.*not convex near 0"),
        ],
    )
    def test_not_representable_says_why(self, kernel, reason):
        with pytest.raises(NotRepresentable, match=reason):
            kernel.widths(Streams(0, np.arange(3)), 2)


class TestMaps:
    def assert_unbiased(self, Z, K):
        """Inner products of 400 realisations that are side by side in Z, against K."""
        products = np.array([z @ z.T for z in Z])
        error = products.std(axis=0) / np.sqrt(len(Z))
        assert (abs(products.mean(axis=0) - K) < STANDARD_ERRORS * error + 1e-9).all()
        assert (error < 0.05 * K.max()).all()

    @pytest.mark.parametrize("form", ["phase", "pair"])
    def test_fourier_features_approximate_them(self, combined, form, X):
        X = X[:6]
        Z = [
            RandomFourier(combined, n_components=50, form=form, random_state=i).fit_transform(X)
            for i in range(400)
        ]
        self.assert_unbiased(Z, combined(X))
        csr = RandomFourier(combined, n_components=50, form=form, random_state=0)
        np.testing.assert_allclose(csr.fit_transform(sparse.csr_array(X)), Z[0], atol=1e-12)

    def test_bins_approximate_sums_and_multiples(self, X):
        X = X[:6]
        for kernel in (2.0 * Laplacian(0.4), Laplacian(0.1) + 0.5 * Laplacian([0.4] * 4)):
            Z = [
                RandomBinning(kernel, n_components=25, random_state=i).fit_transform(X).toarray()
                for i in range(400)
            ]
            self.assert_unbiased(Z, kernel(X))

    def test_a_multiple_has_the_features_of_its_kernel_times_the_root(self, X):
        for kind in (RandomBinning, Nystroem):
            one, four = (
                kind(k, n_components=30, random_state=0).fit(X)
                for k in (Laplacian(0.4), 4.0 * Laplacian(0.4))
            )
            for of_one, of_four in [
                (one.transform(X), four.transform(X)),
                (one.transform_block(X, [3, 0]), four.transform_block(X, [3, 0])),
            ]:
                np.testing.assert_allclose(abs(of_four - 2.0 * of_one).max(), 0.0, atol=1e-6)

    def test_gamma_of_a_multiple_can_be_chosen(self, X, y):
        model = KernelRegressor(
            "binning", kernel=2.0 * Laplacian(), gamma_path=[0.1, 1.0], random_state=0
        )
        model.fit(X, y)
        assert model.feature_map_.kernel_.factor == 2.0
        assert model.feature_map_.kernel_.gamma in (0.1, 1.0)

    @pytest.mark.parametrize("feature_map", ["fourier", "nystroem"])
    def test_a_model_with_a_sum_learns_and_is_saved(self, feature_map, rng, tmp_path):
        X = rng.uniform(-2, 2, size=(200, 2))
        y = np.sin(6 * X[:, 0]) + 3 * X[:, 1]
        kernel = Gaussian(0.1) + 0.3 * Gaussian(10.0)
        model = KernelRegressor(
            feature_map, kernel=kernel, n_components=140, alpha=1e-5, random_state=0
        )
        assert model.fit(X[:150], y[:150]).score(X[150:], y[150:]) > 0.9
        persistence.save(model, tmp_path / "model.skops")
        again = persistence.load(tmp_path / "model.skops")
        np.testing.assert_array_equal(again.predict(X), model.predict(X))
        assert again.feature_map_.kernel_ == kernel


class TestNames:
    @pytest.fixture
    def named(self):
        before = dict(mercer.kernels._NAMES)
        yield kernels.register
        mercer.kernels._NAMES.clear()
        mercer.kernels._NAMES.update(before)

    def test_a_registered_name_is_a_kernel_of_maps_and_models(self, named, X, y):
        named("rough", lambda gamma: 2.0 * Exponential(gamma))
        assert kernels.get("rough", 0.5) == 2.0 * Exponential(0.5)
        assert RandomFourier("rough", gamma=0.5).fit(X).kernel_ == 2.0 * Exponential(0.5)
        model = KernelRegressor("nystroem", kernel="rough", n_components=10, random_state=0)
        assert model.fit(X, y).feature_map_.kernel_.is_resolved

    def test_a_factory_may_have_no_gamma_or_make_a_function(self, named):
        named("dot", lambda: np.dot)
        named("both", lambda gamma: Gaussian(gamma) + Laplacian(gamma))
        named("mine", Matern)
        assert kernels.get("dot") == Callable(np.dot)
        assert kernels.get("both", 2.0) == Gaussian(2.0) + Laplacian(2.0)
        assert kernels.get("mine", 2.0) == Matern(2.0)
        with pytest.raises(ValueError, match="gamma must be left out beside kernel='dot'"):
            kernels.get("dot", 2.0)

    def test_an_unknown_name_is_told_all_names(self, named):
        named("mine", Matern)
        with pytest.raises(ValueError, match=r"'gaussian', .*'ngram', 'mine', a Kernel .*'my'"):
            kernels.get("my")

    @pytest.mark.parametrize(
        ("name", "factory", "error", "message"),
        [
            ("rbf", Matern, ValueError, "name must not be taken; 'rbf' is .*Gaussian"),
            (3, Matern, TypeError, "name must be a string; got 3"),
            ("", Matern, TypeError, "name must be a string; got ''"),
            ("mine", Matern(), TypeError, "factory must make a kernel when it is called; got Mat"),
        ],
    )
    def test_what_makes_no_sense_is_refused(self, named, name, factory, error, message):
        with pytest.raises(error, match=message):
            named(name, factory)

    def test_a_factory_that_makes_no_kernel_is_told(self, named):
        named("mine", lambda gamma: 3)
        with pytest.raises(TypeError, match=r"factory of kernel='mine' must return .*; got 3"):
            kernels.get("mine")


def test_texts_can_be_combined():
    texts = ["one two", "two one", "three"]
    kernel = 2.0 * NGram(orders=(1,)) + NGram(orders=(2,))
    np.testing.assert_allclose(kernel(texts), [[3, 2, 0], [2, 3, 0], [0, 0, 2]], atol=1e-15)
    np.testing.assert_allclose(kernel.diag(texts), [3, 3, 2], rtol=1e-15)
