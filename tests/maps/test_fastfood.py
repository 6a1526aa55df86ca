"""Fastfood: lengths of frequencies, bias, padding, parameters by address (T-F6)."""

import pickle

import numpy as np
import pytest
from scipy import sparse, stats
from scipy.linalg import hadamard

import mercer.maps.hadamard
from _conventions import parametrize_with_settings
from mercer import maps
from mercer.estimators import KernelRegressor
from mercer.kernels import (
    Callable,
    Cauchy,
    Exponential,
    Gaussian,
    Laplacian,
    Matern,
    NotRepresentable,
    RationalQuadratic,
)
from mercer.maps import Fastfood, RandomFourier
from mercer.persistence import load, save
from test_maps_base import MapLaws, assert_equal_up_to_rounding, checks_that_make_no_sense

STANDARD_ERRORS = 5.0


class TestPhase(MapLaws):
    def make(self, **settings):
        return Fastfood(gamma=0.3, n_components=13, random_state=1, **settings)


class TestPair(MapLaws):
    def make(self, **settings):
        return Fastfood(gamma=0.3, n_components=12, form="pair", random_state=1, **settings)


class TestRawBasisOfTheExponential(MapLaws):
    def make(self, **settings):
        # Few columns: the spectral law has no mean, and rounding grows with the frequency.
        return Fastfood(
            "exponential", gamma=0.05, n_components=7, scale=False, random_state=5, **settings
        )


@parametrize_with_settings(
    [Fastfood(n_components=6)],
    [Fastfood("exponential", n_components=6, form="pair")],
    expected_failed_checks=checks_that_make_no_sense,
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def test_examples_run(check_examples):
    check_examples(mercer.maps.hadamard)


KERNELS = [
    Gaussian(0.5),
    Gaussian([0.2, 0.5, 1.0]),
    Exponential(0.7),
    Exponential([0.2, 0.5, 1.0]),
    Cauchy(0.5, isotropic=True),
    Matern(0.7, nu=1.5),
    RationalQuadratic(0.5, exponent=2.0),
    3.0 * Gaussian(0.5),
]
POINTS = np.array(
    [[0.2, -0.4, 0.1], [0.2, -0.4, 0.3], [0.7, 0.1, 0.1], [-0.8, 0.3, 0.9], [2.0, 1.0, -1.0]]
)


def deviations(drawn, kernel, form, points=POINTS, n_components=200_000):
    """(mean product of features - k) in standard errors; blocks are what is independent."""
    feature_map = Fastfood(drawn, n_components=n_components, form=form, scale=False, random_state=3)
    Z = feature_map.fit_transform(points)
    per_block = 4 * (2 if form == "pair" else 1)
    draws = (Z[0] * Z[1:]).reshape(len(points) - 1, -1, per_block).mean(axis=2)
    error = draws.mean(axis=1) - kernel(points[:1], points[1:])[0]
    return error / (draws.std(axis=1) / np.sqrt(draws.shape[1]))


@pytest.mark.parametrize("form", ["phase", "pair"])
@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_inner_products_are_unbiased(kernel, form):
    assert abs(deviations(kernel, kernel, form)).max() < STANDARD_ERRORS


@pytest.mark.parametrize(
    ("drawn", "kernel"),
    [
        (Gaussian(np.sqrt(2) * 0.5), Gaussian(0.5)),
        (Exponential(np.sqrt(2) * 0.7), Exponential(0.7)),
        (Exponential(0.7), Gaussian(0.7)),
        (Matern(0.7, nu=2.5), Matern(0.7, nu=1.5)),
        (RationalQuadratic(0.5, exponent=1.0), RationalQuadratic(0.5, exponent=2.0)),
        (Gaussian(0.5), 3.0 * Gaussian(0.5)),
        (Cauchy(0.5 * np.sqrt(2), isotropic=True), Cauchy(0.5, isotropic=True)),
    ],
    ids=str,
)
def test_the_bound_would_catch_another_bandwidth_or_law(drawn, kernel):
    assert abs(deviations(drawn, kernel, "pair")).max() > 2 * STANDARD_ERRORS


@pytest.mark.parametrize("d", [1, 3, 17, 1000])
def test_inputs_are_padded_to_a_power_of_two(d, rng):
    X = rng.normal(size=(30, d)) / np.sqrt(d)
    Z = Fastfood(gamma=0.5, n_components=8192, form="pair", random_state=0).fit_transform(X)
    K = Gaussian(0.5)(X)
    assert np.linalg.norm(Z @ Z.T - K) < 0.08 * np.linalg.norm(K)


@pytest.mark.parametrize("d", [1, 4, 64])
@pytest.mark.parametrize("kernel", [Gaussian(0.7), Exponential(0.7), Cauchy(0.7, isotropic=True)])
def test_lengths_of_frequencies_are_those_of_the_kernels_law(kernel, d):
    """With a power of two of inputs nothing is cut off, so |w| is exactly what was drawn."""
    fitted = Fastfood(kernel, n_components=2000, random_state=0).fit(np.zeros((1, d)))
    frequencies, _ = fitted.parameters(np.arange(2000))
    lengths = np.linalg.norm(frequencies, axis=1)
    drawn = (
        fitted._remember().lengths
        * np.linalg.norm(fitted._remember().gains, axis=1)[:, None]
        * np.sqrt(d)
    )
    np.testing.assert_allclose(lengths, drawn.ravel()[:2000] * kernel.input_scale(d)[0], rtol=1e-12)
    other = RandomFourier(kernel, n_components=2000, random_state=1).fit(np.zeros((1, d)))
    expected = np.linalg.norm(other.parameters(np.arange(2000))[0], axis=1)
    assert stats.ks_2samp(lengths, expected).pvalue > 1e-3
    assert stats.ks_2samp(lengths * np.sqrt(2), expected).pvalue < 1e-9


def test_frequencies_are_the_product_of_the_paper():
    fitted = Fastfood(gamma=1.0, n_components=8, random_state=0).fit(np.zeros((1, 8)))
    kept, H = fitted._remember(), hadamard(8)
    B, G, S = (np.diag(part[0]) for part in (kept.signs, kept.gains, kept.lengths))
    P = np.eye(8)[kept.order[0]]
    assert sorted(kept.order[0]) == list(range(8))
    np.testing.assert_allclose(fitted.parameters(np.arange(8))[0], S @ H @ G @ P @ H @ B)


@pytest.mark.parametrize("form", ["phase", "pair"])
@pytest.mark.parametrize("d", [1, 3, 8, 33])
def test_features_are_cosines_of_the_frequencies_written_out(form, d, rng, dtype):
    X = rng.normal(size=(50, d)).astype(dtype)
    gamma = 0.3 / np.arange(1, d + 1)
    fitted = Fastfood(gamma=gamma, n_components=90, form=form, random_state=0).fit(X)
    for columns in (np.arange(90), [89], [4, 3, 4]):
        frequencies, phases = fitted.parameters(columns)
        assert frequencies.shape == (len(columns), d)
        expected = np.sqrt(2 / 90) * np.cos(X.astype(np.float64) @ frequencies.T + phases)
        tolerance = 1e-13 if dtype == np.float64 else 2e-6
        np.testing.assert_allclose(fitted.transform(X)[:, columns], expected, atol=tolerance)
        np.testing.assert_allclose(fitted.transform_block(X, columns), expected, atol=tolerance)


@pytest.mark.rounding
@pytest.mark.parametrize("form", ["phase", "pair"])
def test_columns_of_the_raw_basis_do_not_depend_on_how_many_are_used(form, X):
    few, many = (
        Fastfood(gamma=0.3, n_components=n, form=form, scale=False, random_state=0) for n in (6, 30)
    )
    np.testing.assert_array_equal(few.fit_transform(X), many.fit_transform(X)[:, :6])


def test_pairs_have_norm_one(X, dtype):
    Z = Fastfood(n_components=50, form="pair", random_state=0).fit_transform(X.astype(dtype))
    np.testing.assert_allclose((Z**2).sum(axis=1), 1, rtol=1e-12 if dtype == np.float64 else 1e-5)


@pytest.mark.rounding
def test_features_in_row_chunks_are_the_same(X, X_csr, monkeypatch):
    fitted = Fastfood(gamma=0.3, n_components=20, random_state=0).fit(X)
    Z = fitted.transform(X)
    monkeypatch.setattr(
        mercer.maps.hadamard,
        "row_chunks",
        lambda n, *_: (slice(i, min(n, i + 13)) for i in range(0, n, 13)),
    )
    assert_equal_up_to_rounding(fitted.transform(X_csr), Z)
    assert_equal_up_to_rounding(fitted.transform_block(X_csr, [19, 0]), Z[:, [19, 0]])


def test_pickles_hold_the_seed_and_nothing_drawn():
    fitted = Fastfood(gamma=1.0, n_components=1000, random_state=0).fit(np.zeros((2, 500)))
    assert len(pickle.dumps(fitted)) < 2000


def test_the_widest_frequencies_give_bounded_features(X, X_csr, dtype):
    fitted = Fastfood("exponential", 1e4, 5000, scale=False, random_state=0).fit(X)
    for data in (X.astype(dtype), X_csr.astype(dtype)):
        Z = fitted.transform(data)
        assert np.isfinite(Z).all()
        assert abs(Z).max() <= np.sqrt(2) * (1 + 1e-6)


def test_data_whose_products_overflow_are_refused(X, X_csr, dtype):
    fitted = Fastfood(gamma=1.0, n_components=10, random_state=0).fit(X)
    X, X_csr = X.astype(dtype), X_csr.astype(dtype)
    X[0, 0] = X_csr.data[0] = -np.finfo(dtype).max
    for data in (X, X_csr):
        with pytest.raises(ValueError, match=r"X must stay below .*e\+.* for the frequencies"):
            fitted.transform(data)


@pytest.mark.parametrize("kernel", [Laplacian(0.5), Cauchy(0.5)])
def test_kernels_that_are_no_function_of_the_euclidean_distance_are_refused(kernel, X):
    with pytest.raises(NotRepresentable, match="not a function of the Euclidean distance"):
        Fastfood(kernel).fit(X)


@pytest.mark.parametrize("kernel", [lambda X, Y: X @ Y.T, Callable(np.dot)])
def test_a_kernel_function_is_refused(kernel, X):
    with pytest.raises(NotRepresentable):
        Fastfood(kernel).fit(X)


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"n_components": 0}, ValueError, "n_components must be at least 1; got 0"),
        ({"n_components": 5, "form": "pair"}, ValueError, "n_components must be even .*; got 5"),
        ({"form": "sine"}, ValueError, "form must be one of 'phase', 'pair'; got 'sine'"),
        ({"scale": 1}, TypeError, "scale must be True or False; got 1"),
        ({"gamma": [1.0, 2.0]}, ValueError, "gamma must have one entry per input; got 2 for 4"),
        ({"n_jobs": 0}, ValueError, "n_jobs must not be 0"),
    ],
)
def test_bad_settings_are_refused_in_one_sentence(settings, error, message, X):
    with pytest.raises(error, match=message):
        Fastfood(**settings).fit(X)


@pytest.mark.parametrize("kernel", ["gaussian", "matern"])
def test_an_estimator_takes_it_by_name_and_is_saved(kernel, X, y, tmp_path):
    fitted = KernelRegressor(
        feature_map="fastfood", kernel=kernel, gamma=0.3, n_components=200, random_state=0
    ).fit(X, y)
    assert fitted.score(X, y) > 0.9
    save(fitted, tmp_path / "model.skops")
    for again in (pickle.loads(pickle.dumps(fitted)), load(tmp_path / "model.skops")):
        np.testing.assert_array_equal(again.predict(X), fitted.predict(X))
    assert isinstance(maps.get("fastfood", "exponential", 2.0, 12, random_state=1), Fastfood)


def test_sparse_rows_of_many_inputs_are_made_dense_a_few_at_a_time(monkeypatch):
    X = sparse.random_array((40, 3000), density=1e-2, format="csr", random_state=0)
    monkeypatch.setattr("mercer._runtime.arrays.CHUNK_BYTES", 2**17)
    made = []
    dense = sparse.csr_array.toarray

    def counted(part, *args, **kwargs):
        made.append(part.shape[0])
        return dense(part, *args, **kwargs)

    fitted = Fastfood(gamma=0.05, n_components=10, random_state=0).fit(X)
    monkeypatch.setattr(sparse.csr_array, "toarray", counted)
    Z = fitted.transform(X)
    assert max(made) < 3000
    frequencies, phases = fitted.parameters(np.arange(10))
    np.testing.assert_allclose(Z, np.sqrt(0.2) * np.cos(X @ frequencies.T + phases), atol=1e-12)
