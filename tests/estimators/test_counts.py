"""Models of counts and costs: peers, weights, domains, overflow."""

import copy
import pickle
import warnings

import numpy as np
import pytest
from sklearn.linear_model import GammaRegressor, PoissonRegressor, TweedieRegressor
from sklearn.metrics import mean_gamma_deviance, mean_poisson_deviance, mean_tweedie_deviance

from mercer import (
    DoublySGDRegressor,
    KernelRegressor,
    LocalKernelRegressor,
    SparseKernelRegressor,
    losses,
    maps,
    persistence,
    solvers,
)
from mercer.designs import Dense
from mercer.losses import Gamma, Poisson, Tweedie
from mercer.penalties import L1
from mercer.problem import Problem, dual_gap

PEERS = {
    "poisson": (PoissonRegressor, {}),
    "gamma": (GammaRegressor, {}),
    "tweedie": (TweedieRegressor, {"power": 1.5, "link": "log"}),
}


@pytest.fixture
def table(rng):
    X = rng.normal(size=(300, 3))
    mean = np.exp(1 + X @ [0.5, -0.4, 0.0])
    counts, amounts = rng.poisson(mean).astype(float), rng.gamma(2.0, mean / 2)
    return X, {"poisson": counts, "gamma": amounts, "tweedie": counts * amounts}


@pytest.mark.parametrize("alpha", [0.0, 0.1])
@pytest.mark.parametrize("name", list(PEERS))
@pytest.mark.parametrize("weighted", [False, True])
def test_linear_models_are_those_of_scikit_learn(name, alpha, weighted, table, rng):
    X, y = table[0], table[1][name]
    weights = rng.uniform(0.1, 3, size=len(y)) if weighted else None
    cls, settings = PEERS[name]
    peer = cls(alpha=alpha, tol=1e-10, max_iter=10_000, **settings).fit(X, y, weights)
    model = KernelRegressor("linear", loss=name, alpha=alpha, scale=False, tol=1e-8)
    model.fit(X, y, weights)
    np.testing.assert_allclose(model.predict(X), peer.predict(X), rtol=1e-5)
    np.testing.assert_allclose(model.coef_, peer.coef_, atol=1e-5)


def test_values_are_half_of_the_deviances_of_scikit_learn(table):
    _, targets = table
    mean = np.linspace(0.5, 5, len(targets["gamma"]))
    for loss, name, deviance in (
        (Poisson(), "poisson", mean_poisson_deviance),
        (Gamma(), "gamma", mean_gamma_deviance),
        (Tweedie(1.3), "tweedie", lambda y, m: mean_tweedie_deviance(y, m, power=1.3)),
    ):
        found = 2 * loss.value(np.log(mean), targets[name]).mean()
        assert found == pytest.approx(deviance(targets[name], mean), rel=1e-12)


def test_a_small_deviance_keeps_its_digits_in_float32():
    y = np.array([1e6], dtype=np.float32)
    near = (np.log(y) + np.float32(1e-3)).astype(np.float32)
    d = float(near[0]) - np.log(1e6)
    for loss in (Poisson(), Gamma(), Tweedie(1.5)):
        exact = 1e6 ** (2 - loss.power) * d**2 / 2
        assert float(loss.value(near, y)[0]) == pytest.approx(exact, rel=2e-3)


@pytest.mark.parametrize("name", list(PEERS))
@pytest.mark.parametrize("feature_map", ["binning", "fourier", "nystroem", "exact"])
def test_every_map_fits_better_than_a_constant(name, feature_map, table):
    X, y = table[0], table[1][name]
    model = KernelRegressor(feature_map, loss=name, random_state=0).fit(X, y)
    loss, predicted = losses.get(name), model.predict(X)
    assert model.solver_ == ("row-newton" if feature_map == "exact" else "newton-cg")
    assert model.converged_
    assert predicted.min() > 0
    constant = loss.value(np.full_like(y, np.log(y.mean())), y).mean()
    assert loss.value(np.log(predicted), y).mean() < 0.8 * constant
    # The unpenalised intercept makes the derivatives vanish in the mean.
    slopes = loss.gradient(np.log(predicted), y)
    assert abs(slopes.mean()) < 0.02 * np.abs(slopes).mean()


def test_the_norm_of_a_function_is_the_same_penalty_as_whitened_features(table):
    X, y = table[0], table[1]["poisson"]
    plain, whitened = (
        KernelRegressor(map_, loss="poisson", alpha=0.01, tol=1e-6).fit(X, y).predict(X)
        for map_ in (maps.ExactKernel("gaussian", whiten=False), maps.ExactKernel("gaussian"))
    )
    np.testing.assert_allclose(plain, whitened, rtol=1e-3)


def test_a_weight_of_two_is_a_row_given_twice(table, rng):
    X, y = table[0], table[1]["tweedie"]
    weights = rng.integers(0, 3, size=len(y)).astype(float)
    twice = np.repeat(np.arange(len(y)), weights.astype(int))
    settings = {"loss": "tweedie", "alpha": 0.01, "tol": 1e-9, "scale": False}
    weighted = KernelRegressor("linear", **settings).fit(X, y, weights)
    repeated = KernelRegressor("linear", **settings).fit(X[twice], y[twice])
    np.testing.assert_allclose(weighted.predict(X), repeated.predict(X), rtol=1e-6)


@pytest.mark.parametrize("name", list(PEERS))
def test_constant_targets_are_predicted(name, table):
    X = table[0]
    model = KernelRegressor("nystroem", loss=name, random_state=0).fit(X, np.full(len(X), 7.0))
    np.testing.assert_allclose(model.predict(X), 7.0, rtol=1e-6)


def test_counts_that_are_all_zero_have_a_small_mean(table):
    X = table[0]
    model = KernelRegressor("linear", loss="poisson").fit(X, np.zeros(len(X)))
    assert 0 <= model.predict(X).max() < 0.5 / len(X)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_several_outputs_are_as_each_alone(dtype, table):
    X = table[0].astype(dtype)
    both = np.column_stack([table[1]["poisson"], table[1]["tweedie"]]).astype(dtype)
    settings = {"loss": "poisson", "alpha": 0.01, "tol": 1e-5}
    predicted = KernelRegressor("linear", **settings).fit(X, both).predict(X)
    assert predicted.dtype == dtype
    for k in range(2):
        alone = KernelRegressor("linear", **settings).fit(X, both[:, k]).predict(X)
        np.testing.assert_allclose(predicted[:, k], alone, rtol=1e-3)


@pytest.mark.parametrize(
    ("loss", "wrong", "rule"),
    [
        ("poisson", -1.0, "at least 0"),
        ("tweedie", -0.5, "at least 0"),
        ("gamma", 0.0, "above 0"),
        (Tweedie(2.0), -2.0, "above 0"),
    ],
)
def test_targets_outside_the_domain_are_refused(loss, wrong, rule, table):
    X, y = table[0], np.ones(len(table[0]))
    y[7] = wrong
    for model in (KernelRegressor("linear", loss=loss), LocalKernelRegressor(loss=loss)):
        with pytest.raises(ValueError, match=rf"y must be {rule} for loss .*; got {wrong}"):
            model.fit(X, y)


def test_powers_are_from_one_to_two():
    for wrong in (0, 0.9, 2.1, 3):
        with pytest.raises(ValueError, match="power must be from 1 to 2; got"):
            Tweedie(wrong)
    with pytest.raises(TypeError, match="power must be a number"):
        Tweedie("2")
    u, y = np.linspace(-2, 2, 9), np.linspace(0.5, 3, 9)
    for loss, same in ((Poisson(), Tweedie(1)), (Gamma(), Tweedie(2))):
        np.testing.assert_array_equal(loss.value(u, y), same.value(u, y))


def test_means_beyond_the_range_of_floats_are_told(table):
    X, y = table[0].astype(np.float32), table[1]["poisson"].astype(np.float32)
    model = KernelRegressor("linear", loss="poisson", alpha=1e-6).fit(X, y)
    with pytest.warns(UserWarning, match="1 of 2 predicted means are beyond the range of float32"):
        predicted = model.predict(np.array([[1e4, 0, 0], [0, 0, 0]], dtype=np.float32))
    assert predicted[0] == np.finfo(np.float32).max
    assert np.isfinite(predicted).all()


def test_sparse_models_of_counts_have_a_certified_gap(table):
    X, y = table[0], table[1]["poisson"]
    model = SparseKernelRegressor(loss="poisson", max_rounds=3, random_state=0).fit(X, y)
    assert model.converged_
    assert 0 < model.n_features_active_ < 200
    Z = X - X.mean(axis=0)
    for loss in (Poisson(), Tweedie(1.5)):
        problem = Problem(Dense(Z), y, loss, L1(0.05))
        result = solvers.CoordinateDescent(tol=1e-7).solve(problem)
        assert result.converged
        gap = dual_gap(problem.at(result.coef))
        assert 0 <= gap <= 1e-6 * problem.value(problem.initial())


def test_local_machines_fit_counts_and_steps_of_a_length_are_refused(table):
    X, y = table[0], table[1]["poisson"]
    model = LocalKernelRegressor(loss="poisson", leaf_size=100, random_state=0).fit(X, y)
    constant = Poisson().value(np.full_like(y, np.log(y.mean())), y).mean()
    assert Poisson().value(np.log(model.predict(X)), y).mean() < 0.8 * constant
    with pytest.raises(ValueError, match="loss must be one of bounded curvature"):
        DoublySGDRegressor(loss="poisson").fit(X, y)
    with pytest.raises(ValueError, match="AsyncSVRG needs a loss of bounded curvature"):
        KernelRegressor("linear", loss="poisson", solver="async").fit(X, y)


def test_choices_are_made_by_the_deviance(table):
    X, y = table[0], table[1]["gamma"]
    model = KernelRegressor("nystroem", loss="gamma", alphas=[1e-4, 1e-2, 1.0, 100.0])
    model.set_params(random_state=0).fit(X, y)
    assert model.alpha_ in (1e-2, 1.0)
    assert model.selection_ == "holdout"
    assert model.at_alpha(100.0).predict(X).std() < model.predict(X).std()


def test_the_unit_of_amounts_does_not_matter(table):
    X = table[0]
    for name in ("gamma", "tweedie"):
        y = table[1][name]
        small, large = (
            KernelRegressor("nystroem", loss=name, tol=1e-6, random_state=0).fit(X, unit * y)
            for unit in (1.0, 1000.0)
        )
        np.testing.assert_allclose(large.predict(X) / 1000, small.predict(X), rtol=1e-3)


def test_models_are_saved_with_their_link(table, tmp_path):
    X, y = table[0], table[1]["poisson"]
    model = KernelRegressor("nystroem", loss="poisson", random_state=0).fit(X, y)
    expected = model.predict(X)
    persistence.save(model, tmp_path / "model.skops")
    again = [pickle.loads(pickle.dumps(model)), persistence.load(tmp_path / "model.skops")]
    again.append(model.set_params(loss="squared"))  # for the next fit alone
    for one in again:
        np.testing.assert_array_equal(one.predict(X), expected)


def test_no_warning_escapes_a_fit_that_starts_far_away(table):
    X, y = 30 * table[0], table[1]["gamma"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = KernelRegressor("linear", loss="gamma", alpha=0.0, scale=False, tol=1e-6).fit(X, y)
    assert model.converged_


def test_copies_whose_loss_was_changed_are_refused_in_a_sentence(table):
    X, targets = table
    model = KernelRegressor("linear", loss="poisson").fit(X, targets["poisson"])
    vars(model)["_loss_"] = "a string"
    with pytest.raises(ValueError, match="_loss_ of a fitted KernelRegressor must be a Loss"):
        copy.copy(model)
