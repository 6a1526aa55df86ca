"""Learned scales: what they find, and that they are what they say."""

import pickle

import numpy as np
import pytest
from scipy import sparse
from scipy.spatial.distance import pdist
from sklearn.base import clone

from _conventions import parametrize_with_settings
from mercer import GradientScaler, KernelRegressor, LeftOutScaler, persistence
from mercer.estimators.gradients import KernelFit
from mercer.estimators.scales import _root, _smooth_fit, learned_scales


@pytest.mark.filterwarnings("ignore:Skipping check check_array_api_input")
@parametrize_with_settings(
    [GradientScaler()],
    [
        GradientScaler(0.0),
        GradientScaler(full=True),
        GradientScaler(kernel="laplacian"),
        GradientScaler(kernel="gaussian", full=True),
        GradientScaler(kernel="exponential"),
    ],
    expected_failed_checks=lambda scaler: {
        f"check_sample_weight_equivalence_on_{kind}_data": "a fit is judged on the last rows"
        for kind in ("dense", "sparse")
        if scaler.power
    },
)
def test_scikit_learn_conventions(estimator, check):
    check(estimator)


def ridge_of_one_direction(n=800, d=6, seed=0):
    """Rows, a target that changes along one direction alone, and that direction."""
    rng = np.random.default_rng(seed)
    X, direction = rng.normal(size=(n, d)), rng.normal(size=d)
    direction /= np.linalg.norm(direction)
    return X, np.sin(2 * X @ direction), direction


def test_scales_of_inputs_that_matter_together_hardly_depend_on_the_seed():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1500, 30))
    y = np.sin(2 * X[:, 0]) * X[:, 1] + 0.1 * rng.normal(size=1500)
    for seed in range(8):
        scales = GradientScaler(random_state=seed).fit(X, y).scales_
        assert min(scales[:2]) > 1.5 * max(scales[2:])


@pytest.mark.rounding
def test_gradient_products_are_those_of_the_fit():
    rng = np.random.default_rng(0)
    X, target = rng.normal(size=(60, 3)), rng.normal(size=(60, 2))
    fit = _smooth_fit(X, target, rng.normal(size=(3, 20)), rng.uniform(size=20))

    def value(rows):
        return np.cos(rows @ fit.frequencies + fit.phases) @ fit.coef

    steps = 1e-6 * np.eye(3)
    slopes = np.stack([(value(X + step) - value(X - step)) / 2e-6 for step in steps])
    turned = rng.normal(size=(3, 3))
    for matrix in (turned, turned[0]):
        before = np.einsum("ij,jnk->ink", np.diag(matrix) if matrix.ndim == 1 else matrix, slopes)
        expected = np.einsum("ink,jnk->ij", before, before)
        found = fit.gradient_products(X, matrix, full=True)
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
        diagonal = fit.gradient_products(X, matrix, full=False)
        np.testing.assert_allclose(diagonal, np.diag(expected), rtol=1e-5, atol=1e-5)


@pytest.mark.rounding
@pytest.mark.parametrize("n_outputs", [1, 3])
@pytest.mark.parametrize("kernel", ["laplacian", "gaussian", "exponential"])
def test_gradients_of_a_machine_are_its_finite_differences(kernel, n_outputs):
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(70, 3)).astype(np.float32)
    rows[:, 2] = rng.integers(0, 2, 70)  # where many are equal: both sides count alike
    coef = rng.normal(size=(70, n_outputs)).astype(np.float32)
    fit = KernelFit(kernel, rows, coef)

    def value(at):
        apart = at.astype(np.float64)[:, None] - rows.astype(np.float64)
        distances = (np.abs(apart) if kernel == "laplacian" else apart**2).sum(axis=2)
        return np.exp(-(np.sqrt(distances) if kernel == "exponential" else distances)) @ coef

    X = rows[:60] + 0.0
    X[30:] += rng.normal(size=(30, 3)).astype(np.float32)
    steps = 1e-6 * np.eye(3)
    slopes = np.stack([(value(X + s) - value(X - s)) / 2e-6 for s in steps], axis=2)
    np.testing.assert_allclose(fit.gradients(X), slopes, atol=1e-4)
    turned = rng.normal(size=(3, 3))
    for matrix in (turned, turned[0]):
        before = slopes @ (np.diag(matrix) if matrix.ndim == 1 else matrix).T
        expected = np.einsum("nki,nkj->ij", before, before)
        found = fit.gradient_products(X, matrix, full=True)
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-3)
        diagonal = fit.gradient_products(X, matrix, full=False)
        np.testing.assert_allclose(diagonal, np.diag(expected), rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("kernel", [None, "laplacian", "gaussian", "exponential"])
@pytest.mark.parametrize("kind", ["continuous", "classes"])
def test_inputs_that_do_not_matter_get_small_scales(kind, kernel):
    X = np.random.default_rng(0).normal(size=(800, 5))
    y = np.sin(2 * X[:, 1]) + X[:, 3]
    scaler = GradientScaler(kernel=kernel, random_state=0)
    scaler.fit(X, y if kind == "continuous" else y > 0)
    assert scaler.scales_[[1, 3]].min() > 2 * scaler.scales_[[0, 2, 4]].max()


@pytest.mark.parametrize("kernel", [None, "gaussian", "exponential"])
def test_the_full_matrix_turns_inputs_to_the_one_direction_that_matters(kernel):
    X, y, direction = ridge_of_one_direction()
    matrix = GradientScaler(full=True, kernel=kernel, random_state=0).fit(X, y).matrix_
    values, vectors = np.linalg.eigh(matrix)
    assert abs(vectors[:, -1] @ direction) > 0.99
    assert values[-1] > 5 * values[-2]


@pytest.mark.rounding
@pytest.mark.parametrize("full", [False, True])
def test_what_cosines_learned_need_not_be_learned_again(full):
    X, y, _ = ridge_of_one_direction(300)
    first = learned_scales(GradientScaler(full=full, random_state=0), X, y)
    scaler = GradientScaler(full=full, kernel="laplacian", random_state=0)
    np.testing.assert_array_equal(learned_scales(scaler, X, y, first), learned_scales(scaler, X, y))
    assert not np.array_equal(learned_scales(scaler, X, y), first)


def test_scales_of_exponential_machines_begin_with_equal_ones():
    X, y, _ = ridge_of_one_direction(300)
    scaler = GradientScaler(kernel="exponential", random_state=0)
    other = np.linspace(1, 2, X.shape[1])
    np.testing.assert_array_equal(learned_scales(scaler, X, y, other), learned_scales(scaler, X, y))


def test_scalers_saved_before_there_were_kernels_serve():
    X, y, _ = ridge_of_one_direction(100)
    scaler = GradientScaler(random_state=0).fit(X, y)
    expected = scaler.transform(X)
    del vars(scaler)["kernel"]
    again = pickle.loads(pickle.dumps(scaler))
    np.testing.assert_array_equal(again.transform(X), expected)
    assert again.get_params()["kernel"] is None


def test_learned_scales_lower_the_error_where_few_inputs_matter():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1200, 12))
    y = np.sin(2 * X[:, 0]) + X[:, 1] ** 2
    errors = []
    for power in (0.0, 1.0):
        scaled = GradientScaler(power, random_state=0).fit(X[:800], y[:800]).transform(X)
        model = KernelRegressor("binning", gamma=1.0, scale=False, random_state=0).fit(
            scaled[:800], y[:800]
        )
        errors.append(np.mean((model.predict(scaled[800:]) - y[800:]) ** 2))
    assert errors[1] < 0.6 * errors[0]


@pytest.mark.parametrize("metric", ["cityblock", "euclidean", "sqeuclidean"])
@pytest.mark.parametrize(
    "settings", [{"power": 0.0}, {"power": 1.0}, {"full": True}, {"kernel": "laplacian"}]
)
def test_the_median_distance_becomes_one(metric, settings):
    X, y, _ = ridge_of_one_direction(300)
    out = GradientScaler(metric=metric, random_state=0, **settings).fit_transform(X, y)
    np.testing.assert_allclose(np.median(pdist(out, metric)), 1, rtol=0.02)


@pytest.mark.rounding
def test_the_order_of_the_rows_does_not_matter():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1000, 3))
    X = X[np.argsort(X[:, 0])]
    order = rng.permutation(len(X))
    found = [
        GradientScaler(power=1.0, random_state=0).fit(X[rows], np.sin(2 * X[rows, 0]))
        for rows in (np.arange(len(X)), order)
    ]
    np.testing.assert_allclose(found[0].scales_, found[1].scales_, atol=0.1)
    np.testing.assert_allclose(found[0].matrix_[0], found[1].matrix_[0], rtol=0.1)


@pytest.mark.parametrize("full", [False, True])
def test_transform_is_a_product_with_the_matrix(full):
    X, y, _ = ridge_of_one_direction(200)
    scaler = GradientScaler(full=full, random_state=0).fit(X, y)
    matrix = scaler.matrix_ if full else np.diag(scaler.matrix_)
    np.testing.assert_allclose(scaler.transform(X), X @ matrix, atol=1e-12)
    np.testing.assert_allclose(scaler.scales_.max(), 1)


def test_sparse_rows_are_scaled_as_dense_ones():
    X = sparse.random_array((200, 6), density=0.4, format="csr", random_state=0)
    y = X[:, [2]].toarray().ravel()
    by_rows = GradientScaler(random_state=0).fit(X, y)
    np.testing.assert_allclose(
        by_rows.transform(X).toarray(),
        GradientScaler(random_state=0).fit_transform(X.toarray(), y),
        rtol=1e-6,
    )


@pytest.mark.parametrize("power", [0.5, 1.0])
def test_no_scale_is_below_a_thousandth_of_the_largest(power):
    products = np.array([4.0, 4e-4, 4e-12, 0.0])
    scales = np.array([1.0, 1e-2, 1e-3, 1e-3]) ** power
    np.testing.assert_allclose(_root(products, power), scales)
    np.testing.assert_allclose(_root(np.diag(products), power), np.diag(scales), atol=1e-12)


def test_a_constant_target_prefers_no_input():
    X = np.random.default_rng(0).normal(size=(50, 3))
    assert GradientScaler(random_state=0).fit(X, np.ones(50)).scales_.tolist() == [1, 1, 1]


@pytest.mark.rounding
def test_one_seed_one_outcome_and_files_keep_it(tmp_path):
    X, y, _ = ridge_of_one_direction(200)
    first, second = (GradientScaler(random_state=1).fit(X, y) for _ in range(2))
    np.testing.assert_array_equal(first.matrix_, second.matrix_)
    persistence.save(first, tmp_path / "s.skops", task="regression")
    again = persistence.load(tmp_path / "s.skops")
    np.testing.assert_array_equal(again.transform(X), first.transform(X))


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"power": 2.0}, "power must be between 0 and 1; got 2.0"),
        ({"power": "a"}, "power must be a number; got 'a'"),
        ({"rounds": 0}, "rounds must be at least 1; got 0"),
        ({"metric": "hamming"}, "metric must be one of"),
        ({"kernel": "cauchy"}, "kernel must be one of"),
        ({"full": 1}, "full must be True or False; got 1"),
    ],
)
def test_settings_that_make_no_sense_get_a_sentence(settings, sentence):
    with pytest.raises((ValueError, TypeError), match=sentence):
        GradientScaler(**settings).fit([[0.0], [1.0]], [0.0, 1.5])


@pytest.mark.parametrize(("dtype", "largest"), [(np.float32, 1e37), (np.float64, 1e307)])
@pytest.mark.parametrize("kernel", [None, "laplacian", "exponential"])
def test_the_unit_of_the_inputs_changes_no_scale(dtype, largest, kernel):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 3))
    y = np.sin(2 * X[:, 1])
    expected = GradientScaler(kernel=kernel, random_state=0).fit(X.astype(dtype), y)
    for size in (1e-30, 1e20, largest):
        rows = (size * X).astype(dtype)
        scaler = GradientScaler(kernel=kernel, random_state=0).fit(rows, y)
        np.testing.assert_allclose(scaler.scales_, expected.scales_, rtol=1e-3)
        np.testing.assert_allclose(
            scaler.transform(rows), expected.transform(X.astype(dtype)), rtol=1e-3, atol=1e-6
        )


def test_scaled_inputs_beyond_the_dtype_are_refused_in_one_sentence():
    X = np.random.default_rng(0).normal(size=(50, 2)) / 100
    scaler = GradientScaler(random_state=0).fit(X, X[:, 0])
    with pytest.raises(ValueError, match="X must have scaled inputs within the range of float64"):
        scaler.transform(np.full((2, 2), 1e308))


@pytest.mark.parametrize("largest", [4.4942328371557893e307, 1.7e308, 1e-300])
@pytest.mark.parametrize("metric", ["cityblock", "sqeuclidean"])
@pytest.mark.parametrize("kernel", [None, "laplacian", "gaussian", "exponential"])
def test_one_huge_number_leaves_scales_finite(largest, metric, kernel):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(90, 1)), rng.normal(size=90)
    X[27] = largest
    scaler = GradientScaler(n_components=16, kernel=kernel, metric=metric, random_state=0).fit(X, y)
    assert np.isfinite(scaler.matrix_).all()
    assert (scaler.matrix_ > 0).all()


@pytest.mark.parametrize("scaler", [GradientScaler(random_state=0), LeftOutScaler(random_state=0)])
def test_units_of_the_target_change_no_scale(scaler):
    X, y, _ = ridge_of_one_direction(300, 3)
    wanted = clone(scaler).fit(X, y).scales_
    for unit in (1e-200, 1e300):
        np.testing.assert_allclose(clone(scaler).fit(X, unit * y).scales_, wanted, rtol=2e-2)
