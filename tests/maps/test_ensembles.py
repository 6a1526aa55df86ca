"""Random planes: unbiased for their kernel, variance (1 - k**2)/D (T-F8)."""

import pickle
import warnings

import numpy as np
import pytest
from scipy import sparse

import mercer.maps.ensembles
from _conventions import parametrize_with_settings
from mercer import KernelClassifier, KernelRegressor, maps, persistence
from mercer.kernels import Perceptron
from mercer.maps import RandomPerceptron
from test_maps_base import MapLaws

STANDARD_ERRORS = 5.0
N_DRAWS = 100_000

POINTS = np.array(
    [[0.2, -0.4, 0.1], [0.2, -0.4, 0.3], [0.7, 0.1, 0.1], [-0.8, 0.3, 0.9], [2.0, 1.0, -1.0]]
)


class TestPerceptron(MapLaws):
    has_gamma = False

    def make(self, **settings):
        return RandomPerceptron(n_components=12, random_state=1, **settings)


class TestHomogeneousPerceptron(MapLaws):
    has_gamma = False

    def make(self, **settings):
        return RandomPerceptron(n_components=12, homogeneous=True, random_state=1, **settings)


VARIANTS = [
    RandomPerceptron(),
    RandomPerceptron(radius=3.0),
    RandomPerceptron(homogeneous=True),
]


@parametrize_with_settings([RandomPerceptron(n_components=6)])
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def test_examples_run(check_examples):
    check_examples(mercer.maps.ensembles)


def draws(feature_map, points=POINTS, fitted_to=POINTS, n_components=N_DRAWS):
    """Products of the signs of points[0] and the others, and the map."""
    settings = {"n_components": n_components, "scale": False, "random_state": 3}
    fitted = feature_map.set_params(**settings).fit(fitted_to)
    Z = fitted.transform(points)
    return Z[0] * Z[1:], fitted


@pytest.mark.parametrize("feature_map", VARIANTS, ids=repr)
def test_inner_products_are_unbiased_with_variance_one_minus_the_kernel_squared(feature_map):
    products, fitted = draws(feature_map)
    k = fitted.kernel_(POINTS[:1], POINTS[1:])[0]
    error = abs(products.mean(axis=1) - k)
    assert (error <= STANDARD_ERRORS * np.sqrt((1 - k**2) / N_DRAWS) + 1e-12).all()
    np.testing.assert_allclose(products.var(axis=1), 1 - k**2, atol=0.02)
    assert set(np.unique(products)) <= {-1.0, 1.0}


@pytest.mark.parametrize(
    ("feature_map", "kernel"),
    [
        (RandomPerceptron(), Perceptron("max", True)),
        (RandomPerceptron(radius=3.0), Perceptron(3.0 * np.sqrt(2)).resolve(POINTS)),
    ],
    ids=str,
)
def test_the_test_tells_apart_kernels_that_are_close(feature_map, kernel):
    products, _ = draws(feature_map)
    k = kernel(POINTS[:1], POINTS[1:])[0]
    error = abs(products.mean(axis=1) - k)
    assert (error > 2 * STANDARD_ERRORS * products.std(axis=1) / np.sqrt(N_DRAWS)).any()


@pytest.mark.parametrize("feature_map", VARIANTS[:2], ids=repr)
def test_points_outside_are_as_good_as_moved_to_the_edge(feature_map):
    points = np.array([[3.0, 1.0, -0.4], [0.2, -0.4, 0.1], [-4.0, 2.0, 0.0]])
    products, fitted = draws(feature_map, points)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        k = fitted.kernel_(points[:1], points[1:])[0]
    error = abs(products.mean(axis=1) - k)
    assert (error <= STANDARD_ERRORS * np.sqrt((1 - k**2) / N_DRAWS) + 1e-4).all()


def test_directions_are_on_the_sphere_and_thresholds_within_the_radius():
    fitted = RandomPerceptron(n_components=2000, centre=[0.0] * 3, random_state=0).fit(POINTS)
    directions, thresholds = fitted.parameters(np.arange(2000))
    np.testing.assert_allclose((directions**2).sum(axis=1), 1.0)
    radius = np.sqrt((POINTS**2).sum(axis=1)).max()
    assert fitted.kernel_.radius == pytest.approx(radius)
    assert 0.99 * radius < abs(thresholds).max() < radius


def test_a_feature_is_one_side_of_its_plane(X):
    fitted = RandomPerceptron(n_components=30, scale=False, random_state=0).fit(X)
    directions, thresholds = fitted.parameters(np.arange(30))
    expected = np.where(X @ directions.T - thresholds >= 0, 1.0, -1.0)
    np.testing.assert_array_equal(fitted.transform(X), expected)


@pytest.mark.rounding
def test_raw_columns_do_not_depend_on_their_number(X):
    feature_map = RandomPerceptron()
    few = feature_map.set_params(n_components=5, scale=False, random_state=0).fit_transform(X)
    many = feature_map.set_params(n_components=9).fit_transform(X)
    np.testing.assert_array_equal(few, many[:, :5])
    scaled = feature_map.set_params(scale=True).fit_transform(X)
    np.testing.assert_allclose(scaled, many / 3.0)


@pytest.mark.parametrize("rows", [np.ones((6, 2)), np.zeros((6, 2)), np.ones((1, 2))])
def test_constant_data_are_all_on_one_side(rows):
    Z = RandomPerceptron(n_components=50, random_state=0).fit_transform(rows)
    assert (Z[0] == Z).all()
    fitted = RandomPerceptron(n_components=50, random_state=0).fit(sparse.csr_array(rows))
    np.testing.assert_array_equal(fitted.transform(rows), Z)


@pytest.mark.rounding
def test_rows_and_parameters_are_chunked_without_changing_the_result(X, X_csr, monkeypatch):
    fitted = RandomPerceptron(n_components=50, random_state=0).fit(X)
    whole = fitted.transform(X)
    monkeypatch.setattr(mercer.maps.ensembles, "_CHUNK_BYTES", 2000)
    monkeypatch.setattr(mercer.maps.ensembles, "_PARAMETER_BYTES", 1000)
    fitted.fit(X)
    for data in (X, X_csr):
        np.testing.assert_array_equal(fitted.transform(data), whole)
        np.testing.assert_array_equal(fitted.transform_block(data, np.arange(50)), whole)


def test_wide_sparse_rows_stay_sparse():
    wide = sparse.random_array((300, 40_000), density=1e-4, random_state=0, format="csr")
    fitted = RandomPerceptron(n_components=20, random_state=0).fit(wide)
    assert fitted.transform(wide).shape == (300, 20)


@pytest.mark.rounding
def test_pickles_hold_no_columns(X):
    few, many = (RandomPerceptron(n_components=n, random_state=0).fit(X) for n in (5, 5000))
    Z = many.transform(X)
    sizes = [len(pickle.dumps(fitted)) for fitted in (few, many)]
    assert sizes[1] < sizes[0] + 100
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(many)).transform(X), Z)


def test_an_estimator_learns_and_is_saved(tmp_path):
    X = np.random.default_rng(0).uniform(-2, 2, size=(600, 3))
    y = np.sin(2 * X).sum(axis=1)
    model = KernelRegressor("perceptron", n_components=800, random_state=0)
    model.fit(X[:400], y[:400])
    assert model.score(X[400:], y[400:]) > 0.75
    persistence.save(model, tmp_path / "m.skops")
    again = persistence.load(tmp_path / "m.skops")
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    labels = KernelClassifier("perceptron", n_components=300, random_state=0).fit(X, y > 0)
    assert labels.score(X, y > 0) > 0.8


def test_a_weight_of_two_is_a_row_given_twice():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(80, 3)), rng.normal(size=80)
    counts = rng.integers(0, 3, 80)
    model = KernelRegressor("perceptron", n_components=40, alpha=0.01, random_state=0, tol=1e-10)
    weighted = model.fit(X, y, sample_weight=counts).predict(X)
    repeated = model.fit(np.repeat(X, counts, axis=0), np.repeat(y, counts)).predict(X)
    np.testing.assert_allclose(weighted, repeated, atol=1e-5)


@pytest.mark.parametrize(
    ("feature_map", "error", "message"),
    [
        (RandomPerceptron(0), ValueError, "n_components must be at least 1; got 0"),
        (RandomPerceptron(radius="most"), ValueError, "radius must be .*; got 'most'"),
        (RandomPerceptron(radius=0.0), ValueError, "radius must be positive and finite; got 0.0"),
        (RandomPerceptron(homogeneous=1), TypeError, "homogeneous must be True or False; got 1"),
        (RandomPerceptron(centre=[0.0]), ValueError, "centre must have one entry per input"),
        (RandomPerceptron(2.5), TypeError, "n_components must be an integer; got 2.5"),
        (RandomPerceptron(scale=None), TypeError, "scale must be True or False; got None"),
        (RandomPerceptron(n_jobs=0), ValueError, "n_jobs must not be 0"),
        (RandomPerceptron(random_state=-1), ValueError, "random_state must be at least 0; got -1"),
    ],
)
def test_bad_settings_are_refused_in_one_sentence(feature_map, error, message, X):
    with pytest.raises(error, match=message):
        feature_map.fit(X)


def test_what_does_not_apply_is_refused():
    for name, value in (("kernel", "gaussian"), ("gamma", 0.5)):
        with pytest.raises(ValueError, match=f"{name} must be left out for feature_map='perceptr"):
            maps.get("perceptron", **{name: value})


def test_rows_that_overflow_are_refused(X):
    fitted = RandomPerceptron(n_components=5, random_state=0).fit(X)
    with pytest.raises(ValueError, match=r"X must be small .* got 1\.7e\+308"):
        fitted.transform(np.full((1, 4), 1.7e308) * [1, -1, 1, -1])
