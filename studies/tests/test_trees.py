"""Random stumps and trees: unbiased for their kernels, variance (1 - k**2)/D (T-F8/9, T-K2)."""

import pickle

import numpy as np
import pytest
from scipy import sparse
from scipy.spatial.distance import cdist

import mercer.maps.ensembles
from mercer import DoublySGDRegressor, KernelRegressor, SparseKernelRegressor, explain
from mercer.kernels import Laplacian
from mercer_studies.sparse_features.trees import RandomStump, RandomTree, Stump

STANDARD_ERRORS = 5.0
N_DRAWS = 100_000
POINTS = np.array(
    [[0.2, -0.4, 0.1], [0.2, -0.4, 0.3], [0.7, 0.1, 0.1], [-0.8, 0.3, 0.9], [2.0, 1.0, -1.0]]
)
VARIANTS = [RandomStump(), RandomTree(gamma=0.5), RandomTree(gamma=[0.2, 0.5, 1.0])]
KINDS = [RandomStump, RandomTree]


@pytest.fixture
def X(rng):
    """40 x 4 with a third of zeros."""
    X = rng.normal(size=(40, 4))
    X[rng.random(X.shape) < 0.3] = 0.0
    return X


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
        (RandomTree(gamma=0.5), Laplacian(0.5 * np.sqrt(2))),
        (RandomTree(gamma=0.5), Laplacian(0.5 / np.sqrt(2))),
        (RandomTree(gamma=0.5), Laplacian([0.5, 0.5, 0.6])),
        (RandomStump(), Stump((POINTS.min(axis=0), POINTS.max(axis=0) + 0.7))),
    ],
    ids=str,
)
def test_the_test_tells_apart_kernels_that_are_close(feature_map, kernel):
    products, _ = draws(feature_map)
    k = kernel(POINTS[:1], POINTS[1:])[0]
    error = abs(products.mean(axis=1) - k)
    assert (error > 2 * STANDARD_ERRORS * products.std(axis=1) / np.sqrt(N_DRAWS)).any()


def test_a_feature_is_the_product_of_the_sides_of_its_thresholds(X):
    fitted = RandomTree(gamma=0.8, n_components=30, scale=False, random_state=0).fit(X)
    depths, inputs, thresholds = fitted.parameters(np.arange(30))
    assert {0, 1} < set(depths) or depths.max() > 3
    for j, depth in enumerate(depths):
        signs = np.where(X[:, inputs[j, :depth]] >= thresholds[j, :depth], 1.0, -1.0)
        np.testing.assert_array_equal(fitted.transform(X)[:, j], signs.prod(axis=1))


def test_a_point_on_a_threshold_is_on_the_positive_side():
    fitted = RandomStump(n_components=1, scale=False, random_state=0).fit([[0.0], [1.0]])
    threshold = fitted.parameters([0])[2][0, 0]
    below = np.nextafter(threshold, -1)
    assert fitted.transform([[threshold], [below]]).tolist() == [[1.0], [-1.0]]


def test_float32_rows_are_on_the_same_side_as_their_float64_equals():
    fitted = RandomStump(n_components=200, random_state=0).fit([[0.0], [1.0]])
    thresholds = fitted.parameters(np.arange(200))[2].astype(np.float32)
    near = np.vstack([thresholds, np.nextafter(thresholds, np.float32(0))])
    Z = fitted.transform(near.astype(np.float64))
    np.testing.assert_array_equal(np.sign(fitted.transform(near)), np.sign(Z))


def test_trees_are_as_deep_as_a_poisson_number():
    fitted = RandomTree(gamma=0.5, n_components=N_DRAWS, random_state=0).fit(POINTS)
    depths = fitted.parameters(np.arange(N_DRAWS))[0]
    mean = 0.25 * np.ptp(POINTS, axis=0).sum()
    assert fitted.depth_ == pytest.approx(mean)
    assert abs(depths.mean() - mean) < STANDARD_ERRORS * np.sqrt(mean / N_DRAWS)
    assert depths.var() == pytest.approx(mean, rel=0.05)


@pytest.mark.parametrize("kind", KINDS)
def test_points_outside_are_as_good_as_moved_to_the_edge(kind):
    fitted = kind(n_components=500, random_state=0).fit(POINTS)
    far = np.array([[3.0, 9.0, -0.4], [-4.0, 2.0, 0.0]])
    edge = np.clip(far, POINTS.min(axis=0), POINTS.max(axis=0) * (1 + 1e-12))
    np.testing.assert_array_equal(fitted.transform(far), fitted.transform(edge))


@pytest.mark.parametrize("kind", KINDS)
def test_chunks_sparse_rows_and_pickles_have_the_same_columns(kind, X, monkeypatch):
    fitted = kind(n_components=50, random_state=0).fit(X)
    whole = fitted.transform(X)
    stored = pickle.dumps(fitted)
    assert len(stored) < len(pickle.dumps(kind(n_components=5, random_state=0).fit(X))) + 100
    np.testing.assert_array_equal(pickle.loads(stored).transform(X), whole)
    monkeypatch.setattr(mercer.maps.ensembles, "_CHUNK_BYTES", 2000)
    monkeypatch.setattr(mercer.maps.ensembles, "_PARAMETER_BYTES", 1000)
    fitted.fit(X)
    for data in (X, sparse.csr_array(X)):
        np.testing.assert_array_equal(fitted.transform(data), whole)
        np.testing.assert_array_equal(fitted.transform_block(data, np.arange(50)), whole)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("rows", [np.ones((6, 2)), np.zeros((6, 2)), np.ones((1, 2))])
def test_constant_data_are_all_on_one_side(kind, rows):
    Z = kind(n_components=50, random_state=0).fit_transform(rows)
    assert (Z[0] == Z).all()


@pytest.mark.parametrize("map_", [RandomStump(n_components=800), RandomTree(0.5, 800)])
def test_estimators_learn_with_them(map_):
    X = np.random.default_rng(0).uniform(-2, 2, size=(600, 3))
    y = np.sin(2 * X).sum(axis=1)
    assert KernelRegressor(map_, random_state=0).fit(X[:400], y[:400]).score(X[400:], y[400:]) > 0.7
    sparse_model = SparseKernelRegressor(map_, n_new=64, max_rounds=2, random_state=0).fit(X, y)
    assert 0 < sparse_model.n_features_active_ <= 128
    assert DoublySGDRegressor(map_, max_iter=2, random_state=0).fit(X, y).n_features_seen_ > 0


@pytest.mark.parametrize("map_", [RandomStump(n_components=30), RandomTree(0.5, 30)])
def test_shapley_values_are_exact(map_):
    X = np.random.default_rng(0).normal(size=(60, 3))
    model = KernelRegressor(map_, random_state=0).fit(X, X[:, 0] * X[:, 1])
    found = explain.shapley_values(model, X[:5], background=X[:9])
    total = found.values.sum(axis=1) + found.base_values
    np.testing.assert_allclose(total, model.predict(X[:5]), atol=1e-9)
    assert not found.standard_errors.any()


def test_a_tree_takes_a_gamma_path():
    X = np.random.default_rng(0).uniform(-2, 2, size=(300, 2))
    model = KernelRegressor(RandomTree(n_components=200), gamma_path=[1e-3, 0.5], random_state=0)
    model.fit(X, np.sin(2 * X).sum(axis=1))
    assert model.feature_map_.kernel_ == Laplacian(0.5)


def test_trees_that_would_take_all_memory_are_refused(X):
    map_ = RandomTree(n_components=8, random_state=0).fit(X)
    map_.high_[0] = 1e12
    with pytest.raises(ValueError, match=r"^depth_ of a fitted RandomTree must be at most 10000"):
        map_.transform(X)


@pytest.mark.parametrize(
    ("feature_map", "error", "message"),
    [
        (RandomStump(2.5), TypeError, "n_components must be an integer; got 2.5"),
        (RandomTree(-1.0), ValueError, "gamma must be positive and finite; got -1.0"),
        (RandomTree([1.0, 2.0]), ValueError, "gamma must have one entry per input; got 2 for 4"),
        (RandomTree(1e6), ValueError, "gamma must be small enough for trees of at most 10000"),
    ],
)
def test_bad_settings_are_refused_in_one_sentence(feature_map, error, message, X):
    with pytest.raises(error, match=message):
        feature_map.fit(X)


class TestStumpKernel:
    def test_delta_times_the_kernel_is_delta_less_the_distance(self, X):
        kernel = Stump().resolve(X)
        assert kernel.delta == pytest.approx(np.ptp(X, axis=0).sum() / 2, rel=1e-14)
        np.testing.assert_array_equal(kernel.low, X.min(axis=0))
        np.testing.assert_array_equal(kernel.high, X.max(axis=0))
        np.testing.assert_allclose(
            (kernel.delta * kernel)(X), kernel.delta - cdist(X, X, "cityblock"), atol=1e-12
        )

    def test_is_the_mean_product_of_signs_in_the_box_and_outside(self, rng):
        kernel = Stump(bounds=([-1.0, 0.0, 2.0], [1.0, 0.5, 2.0]))
        X = rng.normal(scale=0.8, size=(8, 3))
        X[7] = [5.0, -5.0, 5.0]
        n = 400_000
        ranges = kernel.high - kernel.low
        j = rng.choice(3, p=ranges / ranges.sum(), size=n)
        threshold = rng.uniform(kernel.low[j], kernel.high[j])
        signs = np.sign(X.T[j] - threshold[:, None])
        mean = signs.T @ signs / n
        error = np.sqrt(np.maximum(1 - mean**2, 1e-12) / n)
        assert (abs(kernel(X) - mean) <= STANDARD_ERRORS * error).all()
        np.testing.assert_allclose(kernel(sparse.csr_array(X)), kernel(X), rtol=0, atol=1e-14)

    @pytest.mark.parametrize(
        ("make", "error", "message"),
        [
            (lambda: Stump("box"), ValueError, "pair of arrays or 'data'; got 'box'"),
            (lambda: Stump([[0.0]]), ValueError, "must be a pair of arrays; got 1 of them"),
            (lambda: Stump(([0.0], [1.0, 2.0])), ValueError, "two arrays of one length"),
            (lambda: Stump(([2.0], [1.0])), ValueError, "the first nowhere above the second"),
            (lambda: Stump(([0.0], [np.nan])), ValueError, "bounds must be finite numbers"),
            (lambda: Stump()([[0.0]]), ValueError, "got 'data': call resolve"),
            (lambda: Stump(([0.0], [1.0]))([[0.0, 1.0]]), ValueError, "got 1 for 2 inputs"),
        ],
    )
    def test_what_makes_no_sense_is_refused_in_one_sentence(self, make, error, message):
        with pytest.raises(error, match=message):
            make()
