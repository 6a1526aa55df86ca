import dataclasses
import pickle

import numpy as np
import pytest
from scipy import sparse, stats
from scipy.spatial.distance import cdist
from sklearn.base import clone
from sklearn.metrics.pairwise import laplacian_kernel, rbf_kernel

import mercer.kernels
import mercer.kernels.base
import mercer.kernels.distances
from mercer import kernels
from mercer.kernels import Callable, Cauchy, Exponential, Gaussian, Kernel, Laplacian, Product

pytestmark = pytest.mark.rounding


def rational(t):
    return 1.0 / (1.0 + t)


def rational_slope(t):
    return -1.0 / (1.0 + t) ** 2


def polynomial(X, Y):
    return np.asarray((1.0 + X @ Y.T) ** 2)


class TestMatrix:
    def test_examples_run(self, check_examples, monkeypatch):
        monkeypatch.setattr(mercer.kernels, "_NAMES", dict(mercer.kernels._NAMES))
        check_examples(mercer.kernels)
        for module in ("base", "stationary", "product"):
            check_examples(getattr(mercer.kernels, module))

    def test_is_symmetric_positive_semidefinite_with_unit_diagonal(self, kernel, X):
        K = kernel(X)
        np.testing.assert_allclose(K, K.T, rtol=0, atol=1e-14)
        assert np.linalg.eigvalsh(K).min() >= -1e-10 * len(X)
        np.testing.assert_array_equal(np.diag(K), 1.0)
        np.testing.assert_array_equal(kernel.diag(X), 1.0)

    def test_equal_rows_have_kernel_one(self, kernel, X):
        assert kernel(X)[3, 7] == pytest.approx(1.0, abs=1e-12)
        assert kernel(X[3:4], X[7:8]) == pytest.approx(1.0, abs=1e-12)

    def test_formulas(self, X):
        square = cdist(X, X, "sqeuclidean")
        differences = X[:, None] - X
        for kernel, expected in [
            (Gaussian(0.3), np.exp(-0.3 * square)),
            (Laplacian(0.3), np.exp(-0.3 * np.abs(differences).sum(-1))),
            (Exponential(0.3), np.exp(-0.3 * np.sqrt(square))),
            (Cauchy(0.3), (1 / (1 + 0.3 * differences**2)).prod(-1)),
            (Cauchy(0.3, isotropic=True), 1 / (1 + 0.3 * square)),
            (Product(rational, rational_slope, 0.3), (1 / (1 + 0.3 * abs(differences))).prod(-1)),
        ]:
            np.testing.assert_allclose(kernel(X), expected, rtol=1e-12, err_msg=repr(kernel))

    def test_gamma_of_the_gaussian_is_one_over_two_sigma_squared(self, X):
        sigma = 1.7
        expected = np.exp(-(cdist(X, X) ** 2) / (2 * sigma**2))
        np.testing.assert_allclose(Gaussian(1 / (2 * sigma**2))(X), expected, rtol=1e-12)

    def test_agrees_with_scikit_learn(self, X):
        np.testing.assert_allclose(Gaussian(0.2)(X, X[:9]), rbf_kernel(X, X[:9], gamma=0.2))
        np.testing.assert_allclose(Laplacian(0.2)(X, X[:9]), laplacian_kernel(X, X[:9], gamma=0.2))

    @pytest.mark.parametrize(
        "kernel",
        [Gaussian(0.3), Laplacian(0.3), Cauchy(0.3), Product(rational, rational_slope, 0.3)],
    )
    def test_product_kernels_are_products_over_inputs(self, kernel, X):
        one_by_one = np.prod([kernel(X[:, [j]]) for j in range(X.shape[1])], axis=0)
        np.testing.assert_allclose(kernel(X), one_by_one, rtol=1e-12)

    @pytest.mark.parametrize("kernel", [Exponential(0.3), Cauchy(0.3, isotropic=True)])
    def test_isotropic_kernels_are_not_products_over_inputs(self, kernel, X):
        one_by_one = np.prod([kernel(X[:, [j]]) for j in range(X.shape[1])], axis=0)
        assert abs(kernel(X) - one_by_one).max() > 0.05

    def test_gamma_per_input_scales_the_inputs(self, X):
        gamma = np.array([0.1, 0.5, 1.0, 2.0])
        for kind in (Gaussian, Laplacian, Exponential, Cauchy):
            scaled = X * gamma ** (1 / kind.power)
            np.testing.assert_allclose(
                kind(gamma)(X, X[:7]), kind(1.0)(scaled, scaled[:7]), rtol=1e-12
            )

    def test_dtype_is_kept_and_float32_is_accurate(self, kernel, X):
        X = (X + 1000.0).astype(np.float32)
        K = kernel(X)
        assert K.dtype == np.float32
        assert kernel.diag(X).dtype == np.float32
        np.testing.assert_allclose(K, kernel(X.astype(np.float64)), rtol=1e-6)

    def test_mixed_dtypes_give_float64(self, X):
        assert Gaussian(1.0)(X.astype(np.float32), X).dtype == np.float64

    def test_far_from_the_origin_no_digits_are_lost(self, kernel, X):
        X = np.round(X * 2**20) / 2**20  # so that the shift is exact
        np.testing.assert_allclose(kernel(X + 2.0**30), kernel(X), rtol=1e-9)

    def test_sparse_equals_dense(self, kernel, X, X_csr):
        expected = kernel(X, X[:11])
        np.testing.assert_allclose(kernel(X_csr, X_csr[:11]), expected, rtol=1e-12)
        np.testing.assert_allclose(kernel(X_csr, X[:11]), expected, rtol=1e-12)
        np.testing.assert_allclose(kernel(X, X_csr[:11]), expected, rtol=1e-12)
        np.testing.assert_allclose(kernel(X_csr), kernel(X), rtol=1e-12)

    def test_any_index_type_and_order_of_sparse_entries(self, kernel, X, X_csr):
        untidy = sparse.csr_array(
            (
                np.concatenate([X_csr.data, X_csr.data]) / 2,
                np.concatenate([X_csr.indices, X_csr.indices]).astype(np.int64),
                np.array([0, 2 * X_csr.nnz], dtype=np.int64),
            ),
            shape=(1, 4),
        )
        untidy.has_canonical_format = False
        before = untidy.data.copy()
        np.testing.assert_allclose(
            kernel(untidy, X), kernel(X_csr.sum(axis=0)[None], X), rtol=1e-12
        )
        np.testing.assert_array_equal(untidy.data, before)

    def test_rows_are_chunked_without_changing_the_result(self, kernel, X, X_csr, monkeypatch):
        whole, whole_csr = kernel(X), kernel(X_csr, X)
        monkeypatch.setattr(
            mercer.kernels.base,
            "blocks",
            lambda X, n_columns: (slice(i, min(40, i + 7)) for i in range(0, 40, 7)),
        )
        np.testing.assert_allclose(kernel(X), whole, rtol=1e-13)
        np.testing.assert_allclose(kernel(X_csr, X), whole_csr, rtol=1e-13)

    def test_a_matrix_that_would_not_fit_is_refused_before_it_is_made(self):
        X = np.zeros((2**22, 1))
        with pytest.raises(MemoryError, match=r"4194304 x 4194304 kernel matrix needs 128\.0 TB"):
            Gaussian(1.0)(X)

    def test_huge_distances_have_kernel_zero(self):
        for kernel in (Gaussian(1.0), Laplacian(1.0), Exponential(1.0), Cauchy(1.0)):
            assert kernel([[0.0]], [[1e150]])[0, 0] < 1e-100

    def test_integers_and_lists_are_data(self):
        assert Laplacian(1.0)([[0, 1]], [[0, 1]]) == [[1.0]]


class TestGamma:
    def test_scale_of_the_gaussian_is_that_of_scikit_learn(self, X):
        expected = 1 / (X.shape[1] * X.var())
        for data in (X, sparse.csr_array(X), X.astype(np.float32)):
            assert Gaussian().resolve(data).gamma == pytest.approx(expected, rel=1e-6)
        assert Cauchy().resolve(X).gamma == Gaussian().resolve(X).gamma

    def test_scale_makes_the_kernel_independent_of_units(self, X):
        for kernel in (Gaussian(), Laplacian(), Exponential(), Cauchy(), Gaussian("median")):
            K = kernel.resolve(X)(X)
            rescaled = 1000.0 * X
            np.testing.assert_allclose(kernel.resolve(rescaled)(rescaled), K, rtol=1e-9)

    def test_scale_of_l1_and_l2_profiles(self, X):
        deviation = X.std()
        assert Laplacian().resolve(X).gamma == pytest.approx(2 / (4 * deviation))
        assert Exponential().resolve(X).gamma == pytest.approx(1 / (2 * deviation))
        kernel = Product(rational, rational_slope)
        assert kernel.resolve(X).gamma == pytest.approx(1 / (4 * deviation))

    @pytest.mark.parametrize("gamma", ["scale", "median"])
    def test_of_constant_data_is_that_of_deviation_one(self, gamma):
        X = np.full((50, 3), 0.1)
        assert Gaussian(gamma).resolve(X).gamma == (1.0 if gamma == "median" else 1 / 3)
        expected = 1.0 if gamma == "median" else 3**-0.5
        assert Exponential(gamma).resolve(X[:1]).gamma == pytest.approx(expected)

    @pytest.mark.parametrize(
        ("kind", "metric"),
        [
            (Gaussian, "sqeuclidean"),
            (Cauchy, "sqeuclidean"),
            (Laplacian, "cityblock"),
            (Exponential, "euclidean"),
        ],
    )
    def test_median_is_of_the_kernels_own_distance(self, kind, metric, X, X_csr):
        distances = cdist(X, X, metric)[np.triu_indices(len(X), 1)]
        expected = 1 / np.median(distances[distances > 0])
        assert kind("median").resolve(X).gamma == pytest.approx(expected, rel=0.01)
        assert kind("median").resolve(X_csr).gamma == pytest.approx(kind("median").resolve(X).gamma)

    def test_median_of_many_rows_uses_a_fixed_sample(self, rng):
        X = rng.normal(size=(3000, 2))
        first = Gaussian("median").resolve(X).gamma
        assert first == Gaussian("median").resolve(X).gamma
        exact = 1 / (2 * stats.chi2(2).median())
        assert first == pytest.approx(exact, rel=0.05)

    @pytest.mark.parametrize("gamma", ["scale", "median"])
    @pytest.mark.parametrize("kind", [Gaussian, Laplacian, Exponential])
    def test_weights_are_copies_of_rows(self, kind, gamma, X, rng):
        weights = rng.integers(0, 4, size=len(X))
        copies = np.repeat(X, weights, axis=0)
        for data, copied in ((X, copies), (sparse.csr_array(X), sparse.csr_array(copies))):
            assert kind(gamma).resolve(data, weights).gamma == pytest.approx(
                kind(gamma).resolve(copied).gamma, rel=1e-12
            )

    def test_per_input_must_match_the_data(self, X):
        with pytest.raises(ValueError, match="one entry per input; got 3 for 4 inputs"):
            Gaussian([1, 2, 3]).resolve(X)
        with pytest.raises(ValueError, match="one entry per input; got 3 for 4 inputs"):
            Laplacian([1, 2, 3])(X)

    def test_a_number_resolves_to_itself(self, kernel, X):
        assert kernel.resolve(X) == kernel

    def test_is_needed_to_evaluate(self, X):
        with pytest.raises(ValueError, match=r"gamma must be a number here; got 'scale': call res"):
            Gaussian()(X)

    @pytest.mark.parametrize(
        ("gamma", "error", "message"),
        [
            (0, ValueError, "gamma must be positive and finite; got 0"),
            (-1.5, ValueError, "gamma must be positive and finite; got -1.5"),
            (np.inf, ValueError, "gamma must be positive and finite; got inf"),
            (np.nan, ValueError, "gamma must be positive and finite; got nan"),
            ("auto", ValueError, "'scale' or 'median'; got 'auto'"),
            (None, TypeError, "'scale' or 'median'; got None"),
            (True, TypeError, "'scale' or 'median'; got True"),
            (["a", "b"], TypeError, r"'scale' or 'median'; got \['a', 'b'\]"),
            ([1.0, 0.0], ValueError, "finite for every input; got 0.0 for input 1"),
            ([np.nan, 1.0], ValueError, "finite for every input; got nan for input 0"),
            ([[1.0]], ValueError, r"one dimension, an entry per input; got shape \(1, 1\)"),
            ([], ValueError, r"one dimension, an entry per input; got shape \(0,\)"),
        ],
    )
    @pytest.mark.parametrize("kind", [Gaussian, Laplacian])
    def test_bad_values_are_refused_in_one_sentence(self, kind, gamma, error, message):
        with pytest.raises(error, match=message):
            kind(gamma)

    @pytest.mark.parametrize("gamma", [2, np.float32(2), np.array(2.0), np.int64(2)])
    def test_any_number_will_do(self, gamma):
        assert Gaussian(gamma) == Gaussian(2.0)


class TestValue:
    def test_equality_hash_and_repr(self):
        assert Gaussian([1, 2]) == Gaussian(np.array([1.0, 2.0]))
        assert hash(Gaussian([1, 2])) == hash(Gaussian((1.0, 2.0)))
        assert Gaussian(1.0) != Laplacian(1.0)
        assert Cauchy(1.0) != Cauchy(1.0, isotropic=True)
        assert repr(Laplacian([1, 2])) == "Laplacian(gamma=(1.0, 2.0))"

    def test_pickle_and_clone_give_an_equal_kernel(self, kernel):
        assert pickle.loads(pickle.dumps(kernel)) == kernel
        assert clone(kernel, safe=False) == kernel
        for other in (Product(rational, rational_slope, 2.0), Callable(polynomial)):
            assert pickle.loads(pickle.dumps(other)) == other

    def test_is_immutable(self, kernel):
        with pytest.raises(dataclasses.FrozenInstanceError):
            kernel.gamma = 1.0

    def test_array_given_as_gamma_is_not_shared(self):
        gamma = np.array([1.0, 2.0])
        kernel = Gaussian(gamma)
        gamma[0] = 5.0
        assert kernel.gamma == (1.0, 2.0)

    def test_with_gamma_changes_nothing_else(self):
        assert Cauchy(1.0, isotropic=True).with_gamma(2) == Cauchy(2.0, isotropic=True)


class TestCallable:
    def test_is_what_the_function_returns(self, X, X_csr):
        kernel = Callable(polynomial)
        np.testing.assert_allclose(kernel(X, X[:5]), polynomial(X, X[:5]))
        np.testing.assert_allclose(kernel.diag(X), np.diag(polynomial(X, X)))
        assert kernel(X.astype(np.float32)).dtype == np.float32
        assert kernel.gamma is None
        assert kernel.resolve(X) is kernel

    @pytest.mark.parametrize(
        ("function", "message"),
        [
            (lambda X, Y: X @ X.T, r"return shape \(40, 5\) .*; got \(40, 40\)"),
            (lambda X, Y: 1.0, r"return shape \(40, 5\) .*; got \(\)"),
            (lambda X, Y: np.full((len(X), len(Y)), np.nan), "finite real numbers"),
            (lambda X, Y: np.full((len(X), len(Y)), 1j), "finite real numbers"),
        ],
    )
    def test_wrong_results_are_refused(self, function, message, X):
        with pytest.raises(ValueError, match=message):
            Callable(function)(X, X[:5])

    @pytest.mark.parametrize("function", [3, len, lambda X: X, lambda X, Y, scale: X])
    def test_needs_a_function_of_two_arrays(self, function):
        with pytest.raises(TypeError, match="function must be a function of X and Y; got "):
            Callable(function)
        with pytest.raises((TypeError, ValueError), match=r"kernel must be .*; got "):
            kernels.get(function)

    @pytest.mark.parametrize("name", ["profile", "derivative"])
    def test_profiles_take_distances_alone(self, name):
        functions = {"profile": rational, "derivative": rational_slope, name: lambda t, scale: t}
        with pytest.raises(TypeError, match=f"{name} must be a function of distances; got "):
            Product(**functions)

    def test_takes_functions_whose_signature_nobody_knows(self):
        assert Callable(np.dot)(np.ones((2, 1)), np.ones((1, 1))).shape == (2, 1)


class TestGet:
    def test_names(self):
        assert kernels.get("gaussian") == kernels.get("rbf") == Gaussian()
        assert kernels.get("laplacian", 2.0) == Laplacian(2.0)
        assert kernels.get("exponential", "median") == Exponential("median")
        assert kernels.get("cauchy", [1, 2]) == Cauchy([1, 2])

    def test_kernels_pass_through(self, kernel):
        assert kernels.get(kernel) is kernel
        assert kernels.get(kernel, kernel.gamma) == kernel

    def test_gamma_fills_in_where_the_kernel_says_nothing(self):
        assert kernels.get(Cauchy(isotropic=True), 2.0) == Cauchy(2.0, isotropic=True)

    def test_functions_become_kernels(self):
        assert kernels.get(polynomial) == Callable(polynomial)
        assert kernels.get(Callable(polynomial)) == Callable(polynomial)

    def test_own_kernels_pass_through(self):
        class Constant(Kernel):
            pass

        constant = Constant()
        assert kernels.get(constant) is constant

    @pytest.mark.parametrize(
        ("kernel", "gamma", "message"),
        [
            ("gauss", "scale", "kernel must be one of 'gaussian', 'rbf', 'lap.*; got 'gauss'"),
            (None, "scale", "kernel must be one of .*; got None"),
            (Gaussian, "scale", "kernel must be one of .*; got <class"),
            (Gaussian(1.0), 2.0, r"given twice and differs: 2.0 beside Gaussian\(gamma=1.0\)"),
            (Gaussian("median"), 2.0, r"given twice and differs: 2.0 beside Gaussian"),
            (polynomial, 2.0, "gamma must be left out beside a kernel function, .*; got 2.0"),
            (Callable(polynomial), "median", "gamma must be left out .*; got 'median'"),
            ("gaussian", -1.0, "gamma must be positive and finite; got -1.0"),
        ],
    )
    def test_bad_or_conflicting_requests_are_refused(self, kernel, gamma, message):
        with pytest.raises(ValueError, match=message):
            kernels.get(kernel, gamma)


@pytest.mark.parametrize(
    ("X", "Y", "message"),
    [
        ([[0.0, 1.0]], [[0.0]], "same number of columns; got 2 and 1"),
        ([[np.nan]], None, "Input X contains NaN"),
        ([[1.0]], [[np.inf]], "Input Y contains infinity"),
        ([1.0, 2.0], None, "Expected 2D array, got 1D array"),
        ([[1e200], [0.0]], None, "X is too large for this kernel: squared distances overflow"),
        ([[1e308], [-1e308]], None, "X is too large for this kernel: squared distances overflow"),
    ],
)
def test_bad_data_are_refused_in_one_sentence(X, Y, message):
    with pytest.raises(ValueError, match=message):
        Gaussian(1.0)(X, Y)


@pytest.mark.parametrize("kind", [Gaussian, Laplacian])
@pytest.mark.parametrize("gamma", ["scale", "median"])
def test_data_too_large_for_a_scale_are_refused(kind, gamma):
    X = np.array([[1e308], [-1e308], [0.0]])
    if (kind, gamma) == (Laplacian, "median"):
        assert kind(gamma).resolve(X).gamma > 0
        return
    with pytest.raises(ValueError, match="X is too large"):
        kind(gamma).resolve(X)
