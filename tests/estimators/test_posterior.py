"""Standard deviations of predictions: ridge machines seen as Gaussian processes."""

import copy
import pickle

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Kernel, Matern
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import mercer
import mercer.equations.posterior
import mercer.persistence
from mercer import KernelRegressor, LocalKernelRegressor, kernels
from mercer.kernels import Gaussian
from mercer.maps import ExactKernel, Nystroem, RandomFourier
from mercer.penalties import L2

ALPHA = 2e-3


class Laplacian(Kernel):
    """exp(-gamma |x - y|_1), which scikit-learn's Gaussian processes lack."""

    def __init__(self, gamma=0.4):
        self.gamma = gamma

    def __call__(self, X, Y=None, eval_gradient=False):
        return kernels.Laplacian(self.gamma)(X, X if Y is None else Y)

    def diag(self, X):
        return np.ones(len(X))

    def is_stationary(self):
        return True


KERNELS = [
    (kernels.Gaussian(0.4), RBF(1 / np.sqrt(0.8))),
    (kernels.Matern(0.5, nu=1.5), Matern(length_scale=2.0, nu=1.5)),
    (kernels.Laplacian(0.4), Laplacian(0.4)),
]


@pytest.fixture
def table(rng):
    X = rng.normal(size=(60, 3))
    y = np.sin(X).sum(axis=1) + 0.2 * rng.normal(size=60) + 3.0
    return X, y, 2.0 * rng.normal(size=(25, 3))


def plain(kernel, **settings):
    """Settings of a machine that subtracts nothing and scales nothing."""
    settings = {"alpha": ALPHA, "fit_intercept": False, "scale": False, **settings}
    return {"kernel": kernel, **settings}


def of_function(model, std):
    return np.sqrt(np.square(std) - np.square(model.noise_std_))


# the same as other Gaussian processes


@pytest.mark.parametrize(("kernel", "theirs"), KERNELS, ids=["gaussian", "matern", "laplacian"])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_exact_machine_is_a_gaussian_process(kernel, theirs, weighted, table, rng):
    X, y, T = table
    weights = rng.uniform(0.3, 3.0, len(y)) if weighted else None
    model = KernelRegressor("exact", **plain(kernel)).fit(X, y, weights)
    mean, std = model.predict(T, return_std=True)
    s2 = model.prior_std_**2
    total = len(y) if weights is None else weights.sum()
    noise = s2 * ALPHA * total / (np.ones(len(y)) if weights is None else weights)
    process = GaussianProcessRegressor(ConstantKernel(s2) * theirs, alpha=noise, optimizer=None)
    expected_mean, expected = process.fit(X, y).predict(T, return_std=True)
    np.testing.assert_allclose(mean, expected_mean, rtol=1e-6)
    np.testing.assert_allclose(of_function(model, std), expected, rtol=1e-6)
    np.testing.assert_allclose(model.noise_std_**2, s2 * ALPHA * total, rtol=1e-9)


def test_the_constant_term_is_taken_as_known(table):
    X, y, T = table
    settings = plain(Gaussian(0.4), fit_intercept=True)
    model = KernelRegressor("exact", **settings).fit(X, y)
    mean, std = model.predict(T, return_std=True)
    s2 = model.prior_std_**2
    process = GaussianProcessRegressor(
        ConstantKernel(s2) * KERNELS[0][1], alpha=s2 * ALPHA * len(y), optimizer=None
    ).fit(X, y - model.intercept_)
    expected_mean, expected = process.predict(T, return_std=True)
    np.testing.assert_allclose(mean - model.intercept_, expected_mean, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(of_function(model, std), expected, rtol=1e-6)


def test_far_from_all_rows_only_the_prior_is_known(table):
    X, y, _ = table
    model = KernelRegressor("exact", kernel="gaussian").fit(X, y)
    mean, std = model.predict([[1e3, 1e3, 1e3]], return_std=True)
    np.testing.assert_allclose(mean, model.intercept_)
    np.testing.assert_allclose(std, np.hypot(model.prior_std_, model.noise_std_))


# the prior variance: every target left out, by fits without it


def machines():
    kernel, landmarks = Gaussian(0.4), np.random.default_rng(5).normal(size=(12, 3))
    kept = {**plain(None), "posterior": True}
    return [
        KernelRegressor("exact", **plain(kernel)),
        KernelRegressor(Nystroem(kernel, landmarks=landmarks), **kept),
        KernelRegressor(RandomFourier(kernel, n_components=10, random_state=0), **kept),
        KernelRegressor(RandomFourier(kernel, n_components=50, random_state=0), **kept),
    ]


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("model", machines(), ids=["exact", "nystroem", "features", "rows"])
def test_the_prior_variance_is_that_of_left_out_targets(model, weighted, table, rng):
    X, y = table[0][:15], table[1][:15]
    weights = rng.uniform(0.3, 3.0, len(y)) if weighted else np.ones(len(y))
    whole = clone(model).fit(X, y, weights)
    squares = []
    for i in range(len(y)):
        others = np.arange(len(y)) != i
        share = weights.sum() / weights[others].sum()  # the same noise of every other target
        part = clone(model).set_params(alpha=ALPHA * share)
        part.fit(X[others], y[others], weights[others])
        mean, std = part.predict(X[i : i + 1], return_std=True)
        latent = np.square(of_function(part, std) / part.prior_std_)
        variance = latent + ALPHA * weights.sum() / weights[i]
        squares.append(np.square(y[i] - mean) / variance)
    np.testing.assert_allclose(whole.prior_std_**2, np.mean(squares), rtol=1e-6)


# maps with features


def test_landmarks_are_their_own_dense_formula(table):
    X, y, T = table
    kernel, landmarks = Gaussian(0.4), X[::4]
    settings = plain(None)
    model = KernelRegressor(Nystroem(kernel, landmarks=landmarks), posterior=True, **settings)
    std = model.fit(X, y).predict(T, return_std=True)[1]
    ridge = ALPHA * len(y)
    of_landmarks, cross, new = kernel(landmarks), kernel(X, landmarks), kernel(T, landmarks)
    prior = 1.0 - np.einsum("ij,ji->i", new, np.linalg.solve(of_landmarks, new.T))
    inner = cross.T @ cross + ridge * of_landmarks
    variance = prior + ridge * np.einsum("ij,ji->i", new, np.linalg.solve(inner, new.T))
    expected = np.sqrt(variance + ridge) * model.prior_std_
    np.testing.assert_allclose(std, expected, rtol=1e-6)


@pytest.mark.parametrize("weighted", [False, True])
def test_every_row_for_a_landmark_is_the_exact_machine(weighted, table, rng):
    X, y, T = table
    weights = rng.uniform(0.3, 3.0, len(y)) if weighted else None
    settings = plain(Gaussian(0.4), fit_intercept=True)
    exact = KernelRegressor("exact", **settings).fit(X, y, weights)
    expected = exact.predict(T, return_std=True)[1]
    del settings["kernel"]
    for map_ in (Nystroem(Gaussian(0.4), landmarks=X), ExactKernel(Gaussian(0.4), whiten=True)):
        model = KernelRegressor(map_, posterior=True, **settings).fit(X, y, weights)
        np.testing.assert_allclose(model.predict(T, return_std=True)[1], expected, rtol=1e-6)


def test_whitening_changes_nothing(table):
    X, y, T = table
    settings = plain(None, posterior=True, tol=1e-10, solver="cholesky")
    stds = [
        KernelRegressor(Nystroem(Gaussian(0.4), landmarks=X[:20], whiten=whiten), **settings)
        .fit(X, y)
        .predict(T, return_std=True)[1]
        for whiten in (True, False)
    ]
    np.testing.assert_allclose(stds[0], stds[1], rtol=1e-6)


@pytest.mark.parametrize("feature_map", ["fourier", "linear"])  # more and fewer than rows
def test_features_are_bayesian_linear_regression(feature_map, table):
    X, y, T = table
    model = KernelRegressor(feature_map, random_state=0, posterior=True).fit(X, y)
    std = model.predict(T, return_std=True)[1]
    Z, new = (model.feature_map_.transform(model.scaler_.transform(part)) for part in (X, T))
    ridge = model.alpha_ * len(y)
    inverse = np.linalg.inv(Z.T @ Z + ridge * np.eye(Z.shape[1]))
    variance = ridge * np.einsum("ij,jk,ik->i", new, inverse, new) + ridge
    np.testing.assert_allclose(std, np.sqrt(variance) * model.prior_std_, rtol=1e-6)


@pytest.mark.parametrize("gamma", [0.01, 1.0], ids=["features", "rows"])
def test_boxes_without_rows_keep_their_prior(gamma, table):
    X, y, _ = table
    settings = {"gamma": gamma, "n_components": 3, "random_state": 0, "posterior": True}
    model = KernelRegressor("binning", **settings).fit(X, y)
    assert (model.feature_map_.n_features_out_ > len(y)) == ("rows" in model._posterior_)
    assert ("rows" in model._posterior_) == (gamma == 1.0)
    with pytest.warns(UserWarning, match="100% of the bins"):
        far = model.predict([[1e6, -1e6, 1e6]], return_std=True)[1]
    np.testing.assert_allclose(far, np.hypot(model.prior_std_, model.noise_std_), rtol=1e-6)


# local machines


def test_one_leaf_is_the_exact_machine(table):
    X, y, T = table
    exact = KernelRegressor("exact", **plain(Gaussian(0.4))).fit(X, y)
    local = LocalKernelRegressor(leaf_size=60, n_trees=3, **plain(Gaussian(0.4))).fit(X, y)
    expected = exact.predict(T, return_std=True)
    for found, wanted in zip(local.predict(T, return_std=True), expected, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-6)
    np.testing.assert_allclose(local.noise_std_, exact.noise_std_, rtol=1e-6)


@pytest.mark.parametrize("weighted", [False, True])
def test_trees_and_overlaps_are_means_of_the_standard_deviations_of_leaves(weighted, rng):
    X = rng.normal(size=(90, 3))
    y, T = np.sin(X).sum(axis=1), rng.normal(size=(20, 3))
    weights = rng.uniform(0.3, 3.0, len(y)) if weighted else np.ones(len(y))
    kernel = Gaussian(0.4)
    model = LocalKernelRegressor(leaf_size=30, n_trees=2, random_state=0, **plain(kernel))
    model.fit(X, y, weights)
    map_, ridges = model.feature_map_, ALPHA * weights.sum() / weights
    expected = np.zeros(len(T))
    means, sizes = np.zeros(len(y)), np.zeros(len(y))  # of targets left out
    for rows, is_new in ((T, True), (X, False)):
        for route in map_.partition_.routes(rows):
            members = map_.members_.of(route.leaf)
            for row, share in zip(route.rows, route.shares, strict=True):
                known = members if is_new else members[members != row]
                x = rows[row : row + 1]
                solved = np.linalg.inv(kernel(X[known]) + np.diag(ridges[known]))
                cross = kernel(x, X[known])[0]
                deviation = np.sqrt(1.0 - cross @ solved @ cross)
                if is_new:
                    expected[row] += share * deviation
                else:
                    means[row] += share * (cross @ solved @ y[known])
                    sizes[row] += share * deviation
    prior = np.mean(np.square(y - means) / (np.square(sizes) + ridges))
    std = model.predict(T, return_std=True)[1]
    np.testing.assert_allclose(model.prior_std_**2, prior, rtol=1e-6)
    expected = np.sqrt(prior * (np.square(expected) + ALPHA * weights.sum()))
    np.testing.assert_allclose(std, expected, rtol=1e-6)


@pytest.mark.rounding
def test_threads_change_nothing(rng):
    X = rng.normal(size=(200, 3)).astype(np.float32)
    y = np.sin(X).sum(axis=1)
    stds = []
    for n_jobs in (1, 2):
        model = LocalKernelRegressor(leaf_size=40, random_state=0, n_jobs=n_jobs).fit(X, y)
        stds.append(model.predict(X, return_std=True)[1])
    np.testing.assert_array_equal(*stds)


# how it is asked for


FITTED = [
    KernelRegressor("exact"),
    KernelRegressor("nystroem", n_components=20, posterior=True, random_state=0),
    KernelRegressor(Nystroem(n_components=20, whiten=False, random_state=0), posterior=True),
    LocalKernelRegressor(leaf_size=20, random_state=0),
    KernelRegressor("fourier", n_components=200, posterior=True, random_state=0),
]
NAMES = ["exact", "nystroem", "span", "local", "rows"]


@pytest.mark.parametrize("model", FITTED, ids=NAMES)
def test_several_outputs_share_all_but_the_prior_variance(model, table):
    X, y, T = table
    both = clone(model).fit(X, np.column_stack([y, 10 * y, X[:, 0]]))
    mean, std = both.predict(T, return_std=True)
    assert mean.shape == std.shape == (len(T), 3)
    np.testing.assert_allclose(std[:, 1], 10 * std[:, 0], rtol=1e-6)
    one = clone(model).fit(X, y)
    np.testing.assert_allclose(std[:, 0], one.predict(T, return_std=True)[1], rtol=1e-6)
    assert both.noise_std_.shape == both.prior_std_.shape == (3,)


@pytest.mark.parametrize("model", FITTED, ids=NAMES)
def test_copies_and_files_give_the_same(model, table, tmp_path):
    X, y, T = table
    model = clone(model).fit(X, y, np.linspace(0, 2, len(y)))  # a row of weight 0, too
    before = len(pickle.dumps(model))
    expected = model.predict(T, return_std=True)
    assert len(pickle.dumps(model)) == before  # no factor is saved
    mercer.persistence.save(model, tmp_path / "model.mercer")
    for other in (
        copy.deepcopy(model),
        pickle.loads(pickle.dumps(model)),
        mercer.persistence.load(tmp_path / "model.mercer"),
    ):
        for found, wanted in zip(other.predict(T, return_std=True), expected, strict=True):
            np.testing.assert_array_equal(found, wanted)
        assert other.noise_std_ == model.noise_std_


@pytest.mark.parametrize("model", FITTED, ids=NAMES)
def test_sparse_rows_and_float32_are_welcome(model, table):
    X, y, T = table
    X, T = X * (np.abs(X) > 0.5), T * (np.abs(T) > 0.5)
    expected = clone(model).set_params(scale=False).fit(X, y).predict(T, return_std=True)[1]
    for form, dtype in ((sparse.csr_array, y.dtype), (np.float32, np.float32)):
        again = clone(model).set_params(scale=False).fit(form(X), y.astype(dtype))
        std = again.predict(form(T), return_std=True)[1]
        if again.map_coef_.dtype == np.float32:
            assert std.dtype == np.float32
        np.testing.assert_allclose(std, expected, rtol=1e-3)


def test_rows_in_pieces_are_the_same(table, monkeypatch):
    X, y, T = table
    whole = [clone(model).fit(X, y).predict(T, return_std=True)[1] for model in FITTED]

    def small_chunks(n_rows, bytes_per_row):
        return [slice(start, min(n_rows, start + 7)) for start in range(0, n_rows, 7)]

    monkeypatch.setattr(mercer.equations.posterior, "row_chunks", small_chunks)
    for model, expected in zip(FITTED, whole, strict=True):
        std = clone(model).fit(X, y).predict(T, return_std=True)[1]
        np.testing.assert_allclose(std, expected, rtol=1e-9)


@pytest.mark.parametrize(
    "model",
    [KernelRegressor("exact", kernel="ngram"), KernelRegressor("ngrams", posterior=True)],
    ids=["exact", "ngrams"],
)
def test_texts_have_standard_deviations(model):
    texts = ["a house", "a mouse", "the house", "two mice", "a horse", "the horses"] * 3
    model.fit(texts, np.arange(18.0) % 6)
    std = pickle.loads(pickle.dumps(model)).predict(["a house", "zzzzzzzzzz"], return_std=True)[1]
    assert std[0] < std[1]


def test_a_pipeline_passes_it_on(table):
    X, y, T = table
    pipeline = make_pipeline(StandardScaler(), KernelRegressor("exact", scale=False)).fit(X, y)
    expected = KernelRegressor("exact").fit(X, y).predict(T, return_std=True)[1]
    np.testing.assert_allclose(pipeline.predict(T, return_std=True)[1], expected, rtol=1e-6)


def test_another_fit_forgets_the_posterior_before(table):
    X, y, T = table
    model = KernelRegressor("exact").fit(X, y)
    first = model.predict(T, return_std=True)[1]
    np.testing.assert_allclose(model.fit(X, 2 * y).predict(T, return_std=True)[1], 2 * first)


def test_the_strength_that_was_chosen_counts(table):
    X, y, T = table
    model = KernelRegressor("exact", alphas=[1e-4, 1e-2, 1.0]).fit(X, y)
    for alpha in (model.alpha_, 1.0):
        one = KernelRegressor("exact", alpha=alpha).fit(X, y)
        np.testing.assert_allclose(
            model.at_alpha(alpha).predict(T, return_std=True)[1],
            one.predict(T, return_std=True)[1],
            rtol=1e-5,
        )


def test_what_a_posterior_keeps_belongs_to_one_strength(table):
    X, y, T = table
    settings = {"n_components": 20, "random_state": 0, "posterior": True}
    model = KernelRegressor("nystroem", alphas=[1e-4, 1e-2, 1.0], **settings).fit(X, y)
    one = KernelRegressor("nystroem", alpha=model.alpha_, **settings).fit(X, y)
    expected = one.predict(T, return_std=True)[1]
    np.testing.assert_allclose(model.predict(T, return_std=True)[1], expected, rtol=1e-5)
    other = next(alpha for alpha in (1e-4, 1.0) if alpha != model.alpha_)
    with pytest.raises(ValueError, match=f"needs a fit with alpha={other} alone"):
        model.at_alpha(other).predict(T, return_std=True)


# what is refused


def refusal(model, X):
    with pytest.raises(ValueError, match=r"^return_std=True needs") as error:
        model.predict(X, return_std=True)
    assert not hasattr(model, "noise_std_")
    assert not hasattr(model, "prior_std_")
    return str(error.value)


def test_maps_that_keep_no_rows_say_how_to_ask(table):
    X, y, T = table
    for feature_map in ("binning", "nystroem", "fourier", ExactKernel(whiten=True)):
        assert "posterior=True" in refusal(KernelRegressor(feature_map).fit(X, y), T)


def test_other_losses_and_penalties_are_refused(table):
    X, y, T = table
    for settings in ({"loss": "huber"}, {"penalty": "l1"}, {"penalty": L2(0.1)}):
        model = KernelRegressor("exact" if "loss" in settings else "fourier", **settings)
        assert "loss='squared' and penalty='l2'" in refusal(model.fit(X, y), T)
        with pytest.raises(ValueError, match=r"^posterior=True needs loss='squared' and penalty"):
            clone(model).set_params(posterior=True).fit(X, y)
    assert "loss='squared'" in refusal(LocalKernelRegressor(loss="huber").fit(X, y), T)


def test_no_noise_is_refused(table):
    X, y, _ = table
    model = KernelRegressor("linear", alpha=0.0, posterior=True)
    with pytest.raises(ValueError, match="needs alpha above 0"):
        model.fit(X, y)


def test_settings_changed_after_a_fit_change_nothing(table):
    X, y, T = table
    model = KernelRegressor("exact").fit(X, y)
    expected = clone(model).fit(X, y).predict(T, return_std=True)[1]
    model.set_params(loss="huber", penalty="l1", alpha=3.0)
    np.testing.assert_array_equal(model.predict(T, return_std=True)[1], expected)


def test_models_of_earlier_versions_are_asked_to_be_fitted_again(table):
    X, y, T = table
    model = KernelRegressor("exact").fit(X, y)
    del model.__dict__["_total_weight_"], model.__dict__["_row_weights_"]
    model = pickle.loads(pickle.dumps(model))
    model.predict(T)
    assert "fit it again" in refusal(model, T)


@pytest.mark.parametrize("value", ["yes", 1, None])
def test_settings_that_are_no_flags_are_refused(value, table):
    X, y, T = table
    with pytest.raises(TypeError, match=r"^return_std must be True or False"):
        KernelRegressor("exact").fit(X, y).predict(T, return_std=value)
    with pytest.raises(TypeError, match=r"^posterior must be True or False"):
        KernelRegressor("nystroem", posterior=value).fit(X, y)


def test_factors_that_do_not_fit_are_refused_before_they_are_made(table):
    X, y, T = table
    exact = KernelRegressor("exact").fit(X, y)
    said = r"kernel matrix of 60 rows.* feature_map='nystroem'"
    with mercer.config_context(max_memory=30_000), pytest.raises(MemoryError, match=said):
        exact.predict(T, return_std=True)
    said = r"posterior=True with 10000000 features needs .*'nystroem' with n_components=\d+ or less"
    with pytest.raises(MemoryError, match=said):
        mercer.equations.posterior.check_factor(10**7)


@pytest.mark.parametrize(
    ("model", "name", "wrong"),
    [
        (FITTED[0], "_row_weights_", np.ones(3)),
        (FITTED[0], "_row_weights_", np.full(60, -1.0)),
        (FITTED[3], "_row_weights_", "weights"),
        (FITTED[0], "_total_weight_", np.nan),
        (FITTED[1], "_posterior_", {}),
        (FITTED[1], "_posterior_", None),
        (FITTED[1], "gram", np.ones((3, 3))),
        (FITTED[1], "gram", np.full((20, 20), np.nan)),
        (FITTED[1], "prior", np.ones(2)),
        (FITTED[1], "prior", -np.ones(1)),
        (FITTED[1], "ridge", -1.0),
        (FITTED[1], "alpha", None),
        (FITTED[1], "map", "nystroem"),
        (FITTED[2], "map", None),
        (FITTED[4], "rows", np.ones((3, 3))),
        (FITTED[4], "rows", np.full((60, 3), np.nan)),
        (FITTED[4], "rows", None),
        (FITTED[4], "ridge", np.zeros(60)),
        (FITTED[4], "ridge", 1.0),
    ],
)
def test_copies_with_a_damaged_posterior_are_refused(model, name, wrong, table):
    X, y, _ = table
    model = clone(model).fit(X, y)
    if name.startswith("_"):
        model.__dict__[name] = wrong
    else:
        model.__dict__["_posterior_"] = model._posterior_ | {name: wrong}
    with pytest.raises(ValueError, match=r"^\w+ of a fitted .* must .*: fit it again\.$"):
        pickle.loads(pickle.dumps(model))


@pytest.mark.parametrize("machine", [mercer.SparseKernelRegressor, mercer.DoublySGDRegressor])
def test_models_without_standard_deviations_name_those_that_have_them(machine):
    X = np.linspace(0, 1, 60)[:, None]
    model = machine(random_state=0).fit(X, np.sin(X[:, 0]))
    with pytest.raises(ValueError, match="needs a KernelRegressor or a LocalKernelRegressor"):
        model.predict(X, return_std=True)
    np.testing.assert_array_equal(model.predict(X, return_std=False), model.predict(X))
