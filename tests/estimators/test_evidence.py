"""Choosing gamma per input and alpha by the marginal likelihood of a Gaussian process."""

import pickle
import tracemalloc

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import approx_fprime
from scipy.stats import multivariate_normal, norm
from sklearn.base import clone
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
from sklearn.gaussian_process.kernels import Matern as TheirMatern
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import mercer
from _conventions import parametrize_with_settings
from mercer import KernelClassifier, KernelRegressor, LocalKernelRegressor, kernels, persistence
from mercer.equations.criteria import Likelihood, Parameters, likes_own_scales, optimum
from mercer.estimators import selection

SLOPED = [
    kernels.Gaussian(),
    kernels.Laplacian(),
    kernels.Exponential(),
    kernels.Matern(nu=0.5),
    kernels.Matern(nu=1.5),
    kernels.Matern(nu=2.5),
    kernels.RationalQuadratic(exponent=0.7),
    kernels.Cauchy(isotropic=True),
]
POWER = {"gaussian": 2, "laplacian": 1, "matern": 1}


def waves(n=120, d=3, seed=0):
    """Rows whose first input matters most and whose last input does not matter."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    return X, np.sin(2 * X[:, 0]) + 0.5 * X[:, 1] + 0.2 * rng.normal(size=n)


def model(kernel="gaussian", **settings):
    settings = {"random_state": 0, **settings}
    return KernelRegressor("exact", kernel=kernel, selection="evidence", **settings)


def gamma_of(found):
    return np.array(found.feature_map_.kernel_.gamma)


@parametrize_with_settings(
    [],
    [
        KernelRegressor(selection="evidence"),
        KernelRegressor("nystroem", kernel="matern", selection="evidence", fit_intercept=False),
    ],
    expected_failed_checks=lambda _: {
        f"check_sample_weight_equivalence_on_{kind}_data": "a row given twice tells of the noise"
        for kind in ("dense", "sparse")
    },
)
def test_scikit_learn_conventions(estimator, check):
    check(estimator)


# the likelihood


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("kernel", SLOPED, ids=repr)
def test_gradient_is_that_of_finite_differences(kernel, fit_intercept, weighted, rng):
    X, y = waves(40)
    Y = np.column_stack([y, rng.normal(size=40)])
    X[7] = X[3]  # rows at distance 0
    weights = rng.uniform(0.5, 2, 40) if weighted else None
    likelihood = Likelihood(kernel, X, Y, weights, fit_intercept)
    logs = np.log([0.5, 0.8, 0.2, 0.3])
    wanted = approx_fprime(logs, lambda logs: likelihood(logs)[0], 1e-6)
    np.testing.assert_allclose(likelihood(logs)[1], wanted, atol=1e-5 * np.abs(wanted).max())


@pytest.mark.parametrize("weighted", [False, True])
def test_likelihood_is_the_density_of_the_targets(weighted, rng):
    X, y = waves(30)
    weights = rng.uniform(0.5, 2, 30) if weighted else None
    value = Likelihood(kernels.Gaussian(), X, y[:, None] - 0.3, weights)(np.log([0.5] * 3 + [0.1]))
    unit = kernels.Gaussian(0.5)(X) + np.diag(0.1 / (np.ones(30) if weights is None else weights))
    ones, inverse = np.ones(30), np.linalg.inv(unit)
    mean = ones @ inverse @ y / (ones @ inverse @ ones)
    variance = (y - mean) @ inverse @ (y - mean) / 30
    density = multivariate_normal(mean * ones, variance * unit).logpdf(y)
    assert value[0] == pytest.approx(density, rel=1e-10)


def test_likelihoods_of_outputs_add_up(rng):
    X, y = waves(30)
    logs = np.log([0.5, 0.8, 0.2, 0.3])
    Y = np.column_stack([y, rng.normal(size=30)])
    together, first, second = (
        Likelihood(kernels.Matern(), X, part)(logs) for part in (Y, Y[:, :1], Y[:, 1:])
    )
    assert together[0] == pytest.approx(first[0] + second[0])
    np.testing.assert_allclose(together[1], first[1] + second[1])


@pytest.mark.parametrize("fit_intercept", [False, True])
def test_density_of_other_rows_is_that_of_predictions(fit_intercept, rng):
    X, y = waves(60)
    weights = rng.uniform(0.5, 2, 60)
    known = np.arange(60) < 40
    whole = Likelihood(kernels.Matern(), X, np.column_stack([y, y**2]), weights, fit_intercept)
    part, others = (whole.taken(rows, np.array([True, False])) for rows in (known, ~known))
    gamma = np.array([0.5, 0.2, 0.1])
    found = part.score(Parameters(gamma, 0.1, 0.0), others)
    unit = kernels.Matern(gamma)(X) + np.diag(0.1 / weights)
    inverse, ones = np.linalg.inv(unit[:40, :40]), np.ones(40)
    mean = fit_intercept * (ones @ inverse @ y[:40]) / (ones @ inverse @ ones)
    coef = inverse @ (y[:40] - mean)
    cross = unit[40:, :40]
    variance = (y[:40] - mean) @ coef / 40
    variance = variance * np.diag(unit[40:, 40:] - cross @ inverse @ cross.T)
    expected = np.sum(norm.logpdf(y[40:], mean + cross @ coef, np.sqrt(variance)))
    assert found == pytest.approx(expected, rel=1e-9)


# what is chosen


def theirs(kernel, d, X, y):
    """scikit-learn's process of a shared length per input, at its own optimum."""
    lengths = np.full(d, 2.0)
    shape = RBF(lengths, (1e-2, 1e4)) if kernel == "gaussian" else TheirMatern(lengths, nu=1.5)
    made = ConstantKernel(1.0, (1e-3, 1e6)) * shape + WhiteKernel(0.1, (1e-7, 1e3))
    return GaussianProcessRegressor(made, n_restarts_optimizer=2, random_state=0).fit(X, y)


@pytest.mark.rounding
@pytest.mark.filterwarnings("ignore:.*close to the specified:")
@pytest.mark.parametrize("kernel", ["gaussian", "matern"])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_evidence_is_that_of_scikit_learn_and_no_smaller_than_its_maximum(kernel, seed):
    X, y = waves(100, seed=seed)
    found = model(kernel, fit_intercept=False, scale=False).fit(X, y)
    other = theirs(kernel, 3, X, y)
    gamma, ridge = gamma_of(found), found.alpha_ * len(y)
    unit = kernels.get(kernel, gamma)(X) + ridge * np.eye(len(y))
    variance = y @ np.linalg.solve(unit, y) / len(y)
    lengths = 1 / np.sqrt(2 * gamma) if kernel == "gaussian" else 1 / gamma
    theta = np.log([variance, *lengths, variance * ridge])
    assert other.log_marginal_likelihood(theta) == pytest.approx(found.evidence_, abs=1e-4)
    assert found.evidence_ > other.log_marginal_likelihood_value_ - 0.01


@pytest.mark.parametrize("kernel", ["gaussian", "laplacian", "matern"])
def test_inputs_of_no_use_have_small_scales(kernel):
    X, y = waves(200, d=5)
    found = model(kernel).fit(X, y)
    lengths = gamma_of(found) ** (1 / POWER[kernel])
    assert lengths[0] > lengths[1] > 5 * lengths[2:].max()
    ridge_of_noise = found.noise_std_ / 0.2
    assert 0.7 < ridge_of_noise < 1.4


@pytest.mark.rounding
def test_order_of_inputs_and_units_change_nothing():
    X, y = waves()
    order = [2, 0, 1]
    plain = model().fit(X, y)
    turned = model().fit(1000.0 * X[:, order] - 3.0, -50.0 * y + 7.0)
    np.testing.assert_allclose(gamma_of(turned), gamma_of(plain)[order], rtol=1e-3)
    assert turned.alpha_ == pytest.approx(plain.alpha_, rel=1e-3)
    expected = plain.evidence_ - len(y) * np.log(50.0)
    assert turned.evidence_ == pytest.approx(expected, abs=1e-4)
    alpha = 0.3 / len(y)
    weighted = model(alpha=alpha).fit(X, y, np.full(len(y), 4.0))
    np.testing.assert_allclose(gamma_of(weighted), gamma_of(plain), rtol=1e-3)
    assert weighted.alpha_ == pytest.approx(plain.alpha_, rel=1e-3)


def test_inputs_share_a_factor_unless_rows_predict_each_other_better_by_their_own():
    X, y = waves(120)
    half = np.arange(120) % 2 == 0
    start = np.full(3, 0.3), 0.1
    likelihood = Likelihood(kernels.Gaussian(), X, y[:, None] - y.mean())
    assert likes_own_scales(likelihood, *start, half)
    tied = np.zeros(3, dtype=np.int64)
    common, own = (optimum(likelihood, *start, ties) for ties in (tied, None))
    assert np.ptp(common.gamma) < 1e-12 * common.gamma[0]
    assert own.value > common.value + 10
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(60, 25))
    alike = Z.sum(axis=1) / 5 + 0.5 * rng.normal(size=60)
    gamma = np.linspace(0.01, 0.03, 25)
    found = model(gamma=gamma, scale=False).fit(Z, alike)
    np.testing.assert_allclose(gamma_of(found) / gamma, gamma_of(found)[0] / gamma[0])


def test_outputs_that_half_of_the_rows_has_constant_are_left_out_of_that_half():
    X, y = waves(80)
    half = np.arange(80) < 40
    rare = np.where(half, 0.0, y)
    likelihood = Likelihood(kernels.Gaussian(), X, rare[:, None])
    assert likes_own_scales(likelihood, np.full(3, 0.3), 0.1, half) in (True, False)
    Y = np.column_stack([y, np.where(np.arange(80) == 3, 1.0, 0.0)])
    assert np.isfinite(model().fit(X, Y).evidence_)


def test_weights_are_one_over_variances_of_the_noise(rng):
    X, y = waves(300)
    noise = np.where(np.arange(300) % 2, 0.05, 1.0)
    y = y + noise * rng.normal(size=300)
    known = model().fit(X, y, 1 / (0.04 + noise**2))
    assert known.evidence_ > model().fit(X, y).evidence_ + 10


@pytest.mark.rounding
def test_the_fit_is_that_of_the_chosen_settings():
    X, y = waves()
    found = model().fit(X, y)
    direct = KernelRegressor("exact", gamma=gamma_of(found), alpha=found.alpha_).fit(X, y)
    assert found.noise_std_ == direct.noise_std_
    for rows, wanted in zip(
        found.predict(X, return_std=True), direct.predict(X, return_std=True), strict=True
    ):
        np.testing.assert_array_equal(rows, wanted)


def test_the_search_begins_at_the_settings_given():
    X, y = waves()
    found = model().fit(X, y)
    again = model(gamma=gamma_of(found), alpha=found.alpha_).fit(X, y)
    assert 0 <= again.evidence_ - found.evidence_ < 0.01
    likelihood = Likelihood(kernels.Gaussian(), X, y[:, None])
    gamma = np.full(3, 0.3)
    start = likelihood(np.log([*gamma, 0.2]))[0]
    assert optimum(likelihood, gamma, 0.2).value > start


@pytest.mark.parametrize("feature_map", ["exact", "nystroem", "fourier", "binning"])
def test_many_rows_are_sampled_and_every_map_takes_the_choice(feature_map, monkeypatch):
    X, y = waves(200)
    kernel = "laplacian" if feature_map == "binning" else "gaussian"
    settings = {"kernel": kernel, "selection": "evidence", "random_state": 0}
    every = KernelRegressor(feature_map, **settings).fit(X, y)
    monkeypatch.setattr(selection, "_CRITERION_ROWS", 80)
    few = KernelRegressor(feature_map, **settings).fit(X, y)
    assert np.abs(few.evidence_) < np.abs(every.evidence_)
    again = KernelRegressor(feature_map, **settings).fit(X, y)
    np.testing.assert_array_equal(gamma_of(few), gamma_of(again))
    assert few.alpha_ == again.alpha_
    assert few.score(X, y) > 0.8


def test_sparse_rows_float32_and_several_outputs_choose_too():
    X, y = waves()
    X[np.abs(X) < 0.5] = 0
    Y = np.column_stack([y, y**2, np.ones(len(y))])
    dense = model(scale=False).fit(X, Y)
    csr = model(scale=False).fit(sparse.csr_array(X), Y)
    single = model(scale=False).fit(X.astype(np.float32), Y.astype(np.float32))
    np.testing.assert_allclose(gamma_of(csr), gamma_of(dense), rtol=1e-6)
    np.testing.assert_allclose(gamma_of(single), gamma_of(dense), rtol=0.02)
    assert single.predict(X.astype(np.float32)).dtype == np.float32


def test_constant_targets_leave_the_settings_as_they_are():
    X, _ = waves()
    found = model(gamma=0.7).fit(X, np.full(len(X), 3.0))
    assert found.evidence_ == np.inf
    assert gamma_of(found) == 0.7
    assert found.predict(X[:1]) == pytest.approx(3.0)


# models


def test_copies_files_and_pipelines_keep_the_choice(tmp_path):
    X, y = waves()
    found = model().fit(X, y)
    persistence.save(found, tmp_path / "model.zip")
    for other in (pickle.loads(pickle.dumps(found)), persistence.load(tmp_path / "model.zip")):
        assert other.evidence_ == found.evidence_
        np.testing.assert_array_equal(other.predict(X), found.predict(X))
    assert not hasattr(clone(found), "evidence_")
    piped = make_pipeline(StandardScaler(), model()).fit(X, y)
    np.testing.assert_allclose(piped.predict(X), found.predict(X), rtol=1e-5)
    changed = found.set_params(selection="auto").fit(X, y)
    assert not hasattr(changed, "evidence_")
    assert changed.alpha_ == pytest.approx(0.3 / len(y))


def test_a_warm_start_keeps_the_choice_while_settings_stay():
    X, y = waves()
    found = model(warm_start=True).fit(X, y)
    gamma, alpha = gamma_of(found), found.alpha_
    found.fit(X, y)
    np.testing.assert_array_equal(gamma_of(found), gamma)
    assert found.alpha_ == alpha
    found.set_params(selection="auto").fit(X, y)
    assert found.alpha_ == pytest.approx(0.3 / len(y))


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (lambda: model(alphas=[0.1, 1.0]), "alphas must be left out beside selection='evidence'"),
        (lambda: model(gamma_path=[0.1]), "gamma_path must be left out beside selection="),
        (lambda: model(loss="huber"), "needs a regressor with loss='squared' and penalty='l2'"),
        (lambda: model(penalty="l1"), "needs a regressor with loss='squared' and penalty='l2'"),
        (lambda: KernelClassifier(selection="evidence"), "got a KernelClassifier"),
        (lambda: model("cauchy"), "needs the kernel 'gaussian', 'laplacian'"),
        (lambda: model(2.0 * kernels.Gaussian()), "needs the kernel 'gaussian', 'laplacian'"),
        (lambda: KernelRegressor("linear", selection="evidence"), "needs the kernel 'gaussian'"),
        (lambda: model("precomputed"), "needs the kernel 'gaussian', 'laplacian'"),
        (lambda: model(alpha=0.0), "alpha must be positive"),
    ],
)
def test_what_has_no_likelihood_is_refused_in_one_sentence(made, said):
    X, y = waves(30, d=30)
    y = np.where(y > 0, "a", "b") if isinstance(made(), KernelClassifier) else y
    with pytest.raises(ValueError, match=said) as caught:
        made().fit(X, y)
    assert str(caught.value).count(". ") == 0


def test_one_row_is_refused():
    with pytest.raises(ValueError, match="needs two rows or more; got n_samples=1"):
        model().fit([[1.0]], [2.0])


def test_memory_is_refused_beforehand(monkeypatch):
    X, y = waves(100)
    monkeypatch.setattr("mercer._runtime.arrays.available_memory", lambda: 1000)
    monkeypatch.setattr("mercer._runtime.arrays.is_little", lambda needed: False)
    with pytest.raises(MemoryError, match="the choice of gamma and alpha by 100 rows"):
        Likelihood(kernels.Gaussian(), X, y[:, None])


@pytest.mark.parametrize("kernel", [kernels.Gaussian(), kernels.Laplacian(), kernels.Matern()])
def test_memory_stays_within_the_estimate(kernel):
    X, y = waves(700)
    likelihood = Likelihood(kernel, X, y[:, None])
    tracemalloc.start()
    likelihood(np.log([0.5, 0.8, 0.2, 0.3]))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 7 * 8 * 700**2


def test_many_sparse_inputs_are_refused_beforehand(monkeypatch):
    X, y = sparse.random_array((30, 10_000), density=0.01, rng=0, format="csr"), np.arange(30.0)
    monkeypatch.setattr("mercer._runtime.arrays.available_memory", lambda: 10**6)
    monkeypatch.setattr("mercer._runtime.arrays.is_little", lambda needed: False)
    with pytest.raises(MemoryError, match="with 30 dense rows of 10000 inputs needs"):
        model().fit(X, y)


def test_models_of_the_choice_explain_inputs():
    X, y = waves(60)
    found = model().fit(X, y)
    values = mercer.explain.shapley_values(found, X[:5], random_state=0)
    assert np.abs(values.values[:, 2]).max() < np.abs(values.values[:, 0]).max()


# leaves


@pytest.mark.parametrize("kernel", ["laplacian", "matern"])
def test_leaves_take_the_choice_of_the_exact_machine(kernel):
    X, y = waves(300)
    settings = {"selection": "evidence", "random_state": 0}
    found = LocalKernelRegressor(kernel, leaf_size=1000, n_trees=1, **settings).fit(X, y)
    exact = KernelRegressor("exact", kernel=kernel, **settings).fit(X, y)
    assert found.evidence_ == exact.evidence_
    np.testing.assert_array_equal(gamma_of(found), gamma_of(exact))
    assert found.alpha_ == exact.alpha_
    np.testing.assert_allclose(found.predict(X), exact.predict(X), rtol=1e-4, atol=1e-4)
    leaves = LocalKernelRegressor(kernel, leaf_size=100, **settings).fit(X, y)
    np.testing.assert_array_equal(gamma_of(leaves), gamma_of(exact))
    assert leaves.score(X, y) > 0.9


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"alphas": [0.1]}, "alphas must be left out beside selection='evidence'"),
        ({"loss": "huber"}, "needs a regressor with loss='squared'"),
        ({"kernel": "cauchy"}, "needs the kernel 'gaussian'"),
    ],
)
def test_leaves_refuse_what_has_no_likelihood(settings, said):
    X, y = waves(50)
    with pytest.raises(ValueError, match=said):
        LocalKernelRegressor(selection="evidence", **settings).fit(X, y)


def test_leaves_know_three_selections():
    X, y = waves(50)
    with pytest.raises(ValueError, match="selection must be one of 'holdout', 'evidence', 'lea"):
        LocalKernelRegressor(selection="loo").fit(X, y)


@pytest.mark.parametrize("through_files", [False, True])
def test_rows_in_a_file_give_the_same_choice(through_files, tmp_path, monkeypatch):
    X, y = waves(3000)
    np.save(tmp_path / "X.npy", X)
    settings = {"selection": "evidence", "random_state": 0}
    makers = [
        lambda: KernelRegressor("nystroem", kernel="laplacian", n_components=50, **settings),
        lambda: LocalKernelRegressor(leaf_size=100, n_jobs=1, **settings),
    ]
    monkeypatch.setattr(selection, "_CRITERION_ROWS", 150)
    here = [make().fit(X, y) for make in makers]
    monkeypatch.setattr("mercer._runtime.rows._LARGE", 2**10)
    if through_files:
        monkeypatch.setattr("mercer.estimators.local.available_memory", lambda: 160 * len(y))
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    for known, make in zip(here, makers, strict=True):
        found = make().fit(mapped, y)
        np.testing.assert_allclose(gamma_of(found), gamma_of(known), rtol=1e-6)
        assert found.alpha_ == pytest.approx(known.alpha_, rel=1e-6)
        assert found.score(X, y) == pytest.approx(known.score(X, y), abs=0.01)


@pytest.mark.parametrize("selection", ["evidence", "leave-one-out"])
@pytest.mark.parametrize("kind", [KernelRegressor, LocalKernelRegressor], ids=lambda k: k.__name__)
def test_the_unit_of_weights_changes_no_choice(kind, selection):
    rng = np.random.default_rng(0)
    X, weights = rng.normal(size=(80, 2)), rng.uniform(1, 3, 80)
    y = np.sin(2 * X[:, 0]) + 0.3 * rng.normal(size=80)
    settings = {"feature_map": "exact"} if kind is KernelRegressor else {"leaf_size": 40}
    models = [
        kind(selection=selection, random_state=0, **settings).fit(X, y, factor * weights)
        for factor in (1.0, 1e3, 1e6)
    ]
    for model in models[1:]:
        np.testing.assert_allclose(model.predict(X), models[0].predict(X), atol=1e-4)
        assert model.alpha_ == pytest.approx(models[0].alpha_, rel=1e-3)


def test_weights_times_c_are_noise_times_c_beside_a_given_alpha():
    rng = np.random.default_rng(0)
    X, weights = rng.normal(size=(60, 2)), rng.uniform(1, 3, 60)
    y = np.sin(2 * X[:, 0]) + 0.3 * rng.normal(size=60)
    one, many = (KernelRegressor("exact", alpha=1e-2).fit(X, y, c * weights) for c in (1, 1e6))
    assert many.noise_std_ == pytest.approx(1e3 * one.noise_std_)
    assert many.prior_std_ == pytest.approx(one.prior_std_)
    functions = [
        m.predict(X, return_cov=True)[1] - m.noise_std_**2 * np.eye(60) for m in (one, many)
    ]
    np.testing.assert_allclose(*functions, atol=1e-8 * many.noise_std_**2)
    default = [KernelRegressor("exact").fit(X, y, c * weights) for c in (1, 1e6)]
    sizes = [model.noise_std_ / model.prior_std_ for model in default]
    assert sizes[0] == pytest.approx(sizes[1])
