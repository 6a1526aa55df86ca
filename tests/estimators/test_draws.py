"""Covariances of predictions and random draws of targets."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF

import mercer
from mercer import KernelRegressor, LocalKernelRegressor
from mercer.kernels import Gaussian
from mercer.maps import LocalKernel, Nystroem, RandomBinning

ALPHA = 2e-3
PLAIN = {"alpha": ALPHA, "fit_intercept": False, "scale": False}
MODELS = {
    "exact": KernelRegressor("exact", kernel="gaussian"),
    "nystroem": KernelRegressor("nystroem", n_components=20, posterior=True, random_state=0),
    "fourier": KernelRegressor("fourier", n_components=20, posterior=True, random_state=0),
    "fourier of rows": KernelRegressor("fourier", n_components=90, posterior=True, random_state=0),
    "binning": KernelRegressor("binning", gamma=0.02, n_components=5, posterior=True),
    "binning of rows": KernelRegressor("binning", gamma=0.4, n_components=50, posterior=True),
    "hashed": KernelRegressor(RandomBinning(gamma=0.4, bins=9, n_components=3), posterior=True),
    "nystroem of rows": KernelRegressor(
        Nystroem("gaussian", landmarks=np.random.default_rng(3).normal(size=(80, 3))),
        posterior=True,
    ),
}


@pytest.fixture
def table(rng):
    X = rng.normal(size=(60, 3))
    y = np.sin(X).sum(axis=1) + 0.2 * rng.normal(size=60) + 3.0
    return X, y, 1.5 * rng.normal(size=(25, 3))


@pytest.fixture(params=MODELS)
def model(request, table):
    return clone(MODELS[request.param]).fit(*table[:2])


def test_exact_machine_is_the_gaussian_process_of_scikit_learn(table):
    X, y, T = table
    model = KernelRegressor("exact", kernel=Gaussian(0.4), **PLAIN).fit(X, y)
    process = GaussianProcessRegressor(
        RBF(1 / np.sqrt(0.8)), alpha=ALPHA * len(y), optimizer=None
    ).fit(X, y)
    mean, cov = model.predict(T, return_cov=True)
    expected_mean, expected = process.predict(T, return_cov=True)
    of_function = cov - model.noise_std_**2 * np.eye(len(T))
    np.testing.assert_allclose(mean, expected_mean, rtol=0, atol=1e-8)
    np.testing.assert_allclose(of_function / model.prior_std_**2, expected, rtol=0, atol=1e-8)
    std = np.sqrt(np.diag(of_function)) / model.prior_std_
    np.testing.assert_allclose(std, process.predict(T, return_std=True)[1], rtol=0, atol=1e-8)


def test_diagonal_of_the_covariance_is_the_squared_standard_deviation(model, table):
    mean, cov = model.predict(table[2], return_cov=True)
    expected, std = model.predict(table[2], return_std=True)
    np.testing.assert_array_equal(mean, expected)
    np.testing.assert_allclose(np.diag(cov), std**2, rtol=1e-10)
    np.testing.assert_allclose(cov, cov.T, rtol=1e-12, atol=1e-14)
    noise = model.noise_std_**2
    assert np.linalg.eigvalsh(cov).min() > (1 - 1e-6) * noise  # that of the function is positive


def test_covariance_of_landmarks_is_their_dense_formula(table):
    X, y, T = table
    kernel, landmarks = Gaussian(0.4), X[::4]
    map_ = Nystroem(kernel, landmarks=landmarks)
    model = KernelRegressor(map_, posterior=True, **PLAIN).fit(X, y)
    ridge = ALPHA * len(y)
    of_landmarks, cross, new = kernel(landmarks), kernel(X, landmarks), kernel(T, landmarks)
    expected = kernel(T) - new @ np.linalg.solve(of_landmarks, new.T) + ridge * np.eye(len(T))
    expected += ridge * new @ np.linalg.solve(cross.T @ cross + ridge * of_landmarks, new.T)
    cov = model.predict(T, return_cov=True)[1]
    np.testing.assert_allclose(cov / model.prior_std_**2, expected, rtol=0, atol=1e-8)


def test_every_row_for_a_landmark_is_the_exact_machine(table):
    X, y, T = table
    exact = KernelRegressor("exact", kernel=Gaussian(0.4), **PLAIN).fit(X, y)
    map_ = Nystroem(Gaussian(0.4), landmarks=X)
    model = KernelRegressor(map_, posterior=True, **PLAIN).fit(X, y)
    expected = exact.predict(T, return_cov=True)[1]
    np.testing.assert_allclose(model.predict(T, return_cov=True)[1], expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize("name", ["binning", "binning of rows"])
def test_rows_far_from_the_fit_have_the_covariance_of_shared_boxes(name, table):
    X, y, _ = table
    model = clone(MODELS[name]).set_params(scale=False, random_state=0).fit(X, y)
    far = 1e4 + np.array([[0.0, 0.0, 0.0], [0.3, 0.0, 0.1], [1e3, 1e3, 1e3]])
    with pytest.warns(UserWarning, match="100% of the bins"):
        cov = model.predict(far, return_cov=True)[1]
    boxes = clone(model.feature_map_).set_params(gamma=model.feature_map_.kernel_.gamma)
    Z = boxes.fit_transform(far).toarray()
    expected = model.prior_std_**2 * Z @ Z.T + model.noise_std_**2 * np.eye(3)
    np.testing.assert_allclose(cov, expected, rtol=0, atol=1e-12)
    assert cov[0, 1] > cov[0, 2] == 0


def test_mean_and_covariance_of_many_draws_are_those_of_the_model(model, table):
    T, n = table[2][:6], 40_000
    mean, cov = model.predict(T, return_cov=True)
    draws = model.sample_y(T, n, random_state=1)
    assert draws.shape == (6, n)
    variances = np.diag(cov)
    assert (np.abs(draws.mean(axis=1) - mean) < 4.5 * np.sqrt(variances / n)).all()
    error = np.sqrt((np.outer(variances, variances) + cov**2) / n)  # of a covariance of normals
    assert (np.abs(np.cov(draws) - cov) < 4.5 * error).all()


def test_draws_follow_from_the_random_state(model, table):
    T = table[2]
    draws = model.sample_y(T, 3)
    np.testing.assert_array_equal(draws, model.sample_y(T, 3, random_state=0))
    np.testing.assert_allclose(draws, model.sample_y(T, 7)[:, :3], rtol=1e-12)
    assert model.sample_y(T).shape == (len(T), 1)
    assert not np.isclose(draws, model.sample_y(T, 3, random_state=1)).any()
    fresh = model.sample_y(T, random_state=None), model.sample_y(T, random_state=None)
    assert not np.isclose(*fresh).any()


def test_several_outputs_have_a_covariance_and_independent_draws_each(table):
    X, y, T = table
    model = KernelRegressor("exact").fit(X, np.column_stack([y, 10 * y]))
    single = KernelRegressor("exact").fit(X, y)
    cov = model.predict(T, return_cov=True)[1]
    assert cov.shape == (len(T), len(T), 2)
    expected = single.predict(T, return_cov=True)[1]
    np.testing.assert_allclose(cov[..., 0], expected, rtol=1e-8, atol=1e-12)
    np.testing.assert_allclose(cov[..., 1], 100 * expected, rtol=1e-8, atol=1e-10)
    draws = model.sample_y(T[:2], 4000)
    assert draws.shape == (2, 2, 4000)
    np.testing.assert_allclose(draws.std(axis=2), np.sqrt(cov[[0, 1], [0, 1]]), rtol=0.05)
    assert abs(np.corrcoef(draws[0])[0, 1]) < 0.07


def test_equal_rows_differ_by_their_noise_alone(table):
    X, y, T = table
    model = KernelRegressor("exact", alpha=1e-15).fit(X, y)  # singular to rounding
    pair = np.repeat(T[:1], 2, axis=0)
    cov = model.predict(pair, return_cov=True)[1]
    np.testing.assert_allclose(cov, cov[0, 0], rtol=1e-6)
    first, second = model.sample_y(pair, 5)
    np.testing.assert_allclose(first, second, rtol=1e-5)


def test_sparse_rows_float32_and_texts_have_covariances(table):
    X, y, T = table
    model = KernelRegressor("exact", scale=False).fit(X, y)
    expected = model.predict(T, return_cov=True)[1]
    found = model.predict(sparse.csr_array(T), return_cov=True)[1]
    np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-12)
    narrow = KernelRegressor("exact", scale=False).fit(X.astype("f"), y.astype("f"))
    mean, cov = narrow.predict(T.astype("f"), return_cov=True)
    assert (mean.dtype, cov.dtype) == (np.float32, np.float64)
    np.testing.assert_allclose(cov, expected, rtol=1e-3, atol=1e-4)
    texts = ["a house", "a mouse", "the house", "two mice", "a horse", "the horses"] * 3
    of_texts = KernelRegressor("exact", kernel="ngram").fit(texts, np.arange(18.0) % 6)
    std, cov = (
        of_texts.predict(["a house", "zzzz"], **{name: True})[1]
        for name in ("return_std", "return_cov")
    )
    np.testing.assert_allclose(np.diag(cov), std**2, rtol=1e-10)
    assert of_texts.sample_y(["a house"], 2).shape == (1, 2)


def test_kernel_matrices_of_new_rows_have_no_covariances(table):
    X, y, T = table
    given = KernelRegressor("exact", kernel="precomputed", **PLAIN).fit(Gaussian(0.4)(X), y)
    with pytest.raises(ValueError, match=r"k\(x, x\) of new rows, which standard deviations need"):
        given.predict(Gaussian(0.4)(T, X), return_cov=True)


def test_leaves_refuse_covariances_in_one_sentence(table):
    X, y, T = table
    model = LocalKernelRegressor(leaf_size=20, random_state=0).fit(X, y)
    said = r"^{} needs one Gaussian process of all rows; .*KernelRegressor\('nystroem', posterior"
    with pytest.raises(ValueError, match=said.format("return_cov=True")):
        model.predict(T, return_cov=True)
    with pytest.raises(ValueError, match=said.format("sample_y")):
        model.sample_y(T)
    assert isinstance(model.feature_map_, LocalKernel)


def test_bad_settings_are_refused_in_one_sentence(table):
    X, y, T = table
    model = KernelRegressor("exact").fit(X, y)
    with pytest.raises(ValueError, match="return_std must be False beside return_cov=True"):
        model.predict(T, return_std=True, return_cov=True)
    with pytest.raises(TypeError, match="return_cov must be True or False; got 1"):
        model.predict(T, return_cov=1)
    for bad, error in ((0, ValueError), (2.5, TypeError), (True, TypeError)):
        with pytest.raises(error, match="n_samples must be"):
            model.sample_y(T, bad)
    with pytest.raises(ValueError, match="random_state must be at least 0"):
        model.sample_y(T, random_state=-1)
    for asked in (lambda m: m.predict(T, return_cov=True), lambda m: m.sample_y(T)):
        with pytest.raises(ValueError, match=r"^(return_cov=True|sample_y) needs .*posterior=True"):
            asked(KernelRegressor("binning").fit(X, y))
        with pytest.raises(ValueError, match=r"needs .*loss='squared' and penalty='l2'"):
            asked(KernelRegressor("exact", loss="huber").fit(X, y))
    with pytest.raises(ValueError, match="return_cov=True needs a KernelRegressor; a Sparse"):
        mercer.SparseKernelRegressor(random_state=0).fit(X, y).predict(T, return_cov=True)


def test_memory_is_checked_before_it_is_taken(table):
    X, y, T = table
    model = KernelRegressor("exact").fit(X, y)
    model.sample_y(T)
    many = np.tile(T, (400, 1))
    with mercer.config_context(max_memory=10**8):
        with pytest.raises(MemoryError, match=r"covariance of 10000 rows needs 2.* use fewer rows"):
            model.predict(many, return_cov=True)
        with pytest.raises(MemoryError, match=r"drawing 10000000 samples needs .*n_samples"):
            model.sample_y(T, 10**7)
