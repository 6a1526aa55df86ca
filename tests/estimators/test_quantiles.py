"""Models of quantiles and expectiles: certificates, peers, levels, weights."""

import pickle

import numpy as np
import pytest
from scipy.optimize import linprog
from sklearn.linear_model import QuantileRegressor

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
from mercer.losses import Expectile, Quantile, SmoothQuantile, Squared
from mercer.penalties import L1, L2
from mercer.problem import Problem
from mercer.problem.certificates import dual_gaps

MAPS = ["binning", "fourier", "nystroem", "exact", maps.ExactKernel("gaussian", whiten=False)]


@pytest.fixture
def table(rng):
    X = rng.uniform(-2, 2, size=(300, 3))
    return X, np.sin(X[:, 0]) + X[:, 1] + (0.2 + np.abs(X[:, 1])) * rng.normal(size=300)


@pytest.mark.parametrize("level", [0.1, 0.5, 0.8])
def test_smoothed_losses_are_moreau_envelopes(level):
    u, s = np.linspace(-3, 3, 61), np.linspace(-6, 6, 24_001)
    pinball, smooth = Quantile(level), Quantile(level).smoothed(0.7)
    assert smooth == SmoothQuantile(level, 0.7)
    zeros = np.zeros(1)
    envelope = [np.min(pinball.value(s, zeros) + (s - v) ** 2 / (2 * 0.7)) for v in u]
    np.testing.assert_allclose(smooth.value(u, zeros), envelope, atol=1e-6)
    excess = pinball.value(u, zeros) - smooth.value(u, zeros)
    assert excess.min() >= 0
    assert excess.max() <= 0.5 * 0.7 * max(level, 1 - level) ** 2 + 1e-12


@pytest.mark.parametrize("penalty", [L2(0.05), L1(0.02)], ids=repr)
@pytest.mark.parametrize("weighted", [False, True])
def test_the_gap_is_below_tol_and_bounds_what_a_sharper_solution_gains(penalty, weighted, rng):
    Z, y = rng.normal(size=(80, 4)), rng.normal(size=80)
    weights = rng.uniform(0.2, 2, size=80) if weighted else None
    problem = Problem(Dense(Z), y, Quantile(0.8), penalty, weights)
    constant = problem.value(problem.initial())
    rough = solvers.Smoothing(tol=1e-2).solve(problem)
    sharp = solvers.Smoothing(tol=1e-5).solve(problem)
    assert rough.criterion == sharp.criterion == "duality gap"
    assert rough.converged
    assert sharp.converged
    assert rough.optimality <= 1e-2
    assert sharp.optimality <= 1e-5
    values = problem.value(rough.coef), problem.value(sharp.coef)
    assert values[0] - values[1] <= 1e-2 * constant
    for move in rng.normal(size=(50, 5)):  # nowhere near is F less by more than the gap
        assert problem.value(sharp.coef + 1e-2 * move) >= values[1] - 1e-5 * constant


def test_slopes_of_any_kind_in_the_domain_give_a_lower_bound(rng):
    Z, y = rng.normal(size=(40, 3)), rng.normal(size=40)
    problem = Problem(Dense(Z), y, Quantile(0.3), L2(0.1))
    best = problem.value(solvers.Smoothing(tol=1e-7).solve(problem).coef)
    point = problem.at(problem.initial())
    for slopes in rng.uniform(-0.3, 0.7, size=(20, 40)):
        assert point.value - dual_gaps(point, slopes)[0] <= best + 1e-9


@pytest.mark.parametrize(("level", "alpha"), [(0.1, 0.05), (0.5, 0.02), (0.7, 0.05)])
def test_linear_quantiles_with_an_l1_penalty_are_those_of_scikit_learn(level, alpha, table):
    X, y = table
    peer = QuantileRegressor(quantile=level, alpha=alpha).fit(X, y)
    model = KernelRegressor(
        *("linear",), loss=Quantile(level), penalty="l1", alpha=alpha, scale=False, tol=1e-5
    ).fit(X, y)
    value = [
        Quantile(level).value(m.predict(X), y).mean() + alpha * np.abs(m.coef_).sum()
        for m in (model, peer)
    ]
    assert value[0] == pytest.approx(value[1], rel=2e-5)
    np.testing.assert_allclose(model.predict(X), peer.predict(X), atol=5e-2)


def test_without_a_penalty_the_objective_is_that_of_the_linear_program(table):
    X, y = table
    Z = np.column_stack([X, np.ones(len(X))])
    n, d = Z.shape
    costs = np.concatenate([np.zeros(2 * d), np.full(n, 0.3 / n), np.full(n, 0.7 / n)])
    program = linprog(costs, A_eq=np.hstack([Z, -Z, np.eye(n), -np.eye(n)]), b_eq=y)
    model = KernelRegressor("linear", loss=Quantile(0.3), alpha=0.0, scale=False, tol=1e-6)
    model.fit(X, y)
    value = Quantile(0.3).value(model.predict(X), y).mean()
    assert value == pytest.approx(program.fun, rel=1e-6)


@pytest.mark.parametrize(
    ("feature_map", "level"), list(zip(MAPS, [0.1, 0.5, 0.9, 0.1, 0.9], strict=True)), ids=str
)
def test_a_share_level_of_the_training_rows_is_below(feature_map, level, table):
    X, y = table
    model = KernelRegressor(feature_map, loss=Quantile(level), random_state=0).fit(X, y)
    residuals = y - model.predict(X)
    on = 1e-6 * y.std()
    assert model.converged_
    assert np.sum(residuals < -on) <= level * len(y) + 1e-9
    assert np.sum(residuals <= on) >= level * len(y) - 1e-9


def test_levels_are_in_order_for_nearly_all_rows(table, rng):
    X, y = table
    new = rng.uniform(-2, 2, size=(1000, 3))
    predicted = np.stack(
        [
            KernelRegressor("nystroem", loss=Quantile(level), random_state=0).fit(X, y).predict(new)
            for level in (0.1, 0.5, 0.9)
        ]
    )
    crossings = np.mean(np.diff(predicted, axis=0) < 0)
    assert crossings < 0.02
    inside = (predicted[0] < np.sin(new[:, 0]) + new[:, 1]).mean()
    assert inside > 0.9


def test_the_unit_of_the_targets_does_not_matter(table):
    X, y = table
    small, large = (
        KernelRegressor("nystroem", loss=Quantile(0.8), random_state=0).fit(X, unit * y).predict(X)
        for unit in (1.0, 1024.0)
    )
    np.testing.assert_allclose(large / 1024.0, small, atol=1e-4)


@pytest.mark.parametrize("loss", [Quantile(0.8), Expectile(0.8)], ids=repr)
def test_a_weight_of_two_is_a_row_given_twice(loss, table, rng):
    X, y = table
    weights = rng.integers(0, 3, size=len(y)).astype(float)
    twice = np.repeat(np.arange(len(y)), weights.astype(int))
    settings = {"loss": loss, "alpha": 0.01, "tol": 1e-7, "scale": False}
    weighted = KernelRegressor("linear", **settings).fit(X, y, weights)
    repeated = KernelRegressor("linear", **settings).fit(X[twice], y[twice])
    np.testing.assert_allclose(weighted.predict(X), repeated.predict(X), atol=1e-3)


@pytest.mark.parametrize("loss", [Quantile(0.8), Expectile(0.8)], ids=repr)
def test_constant_targets_are_predicted(loss, table):
    X = table[0]
    model = KernelRegressor("nystroem", loss=loss, random_state=0).fit(X, np.full(len(X), 3.5))
    np.testing.assert_allclose(model.predict(X), 3.5)


def test_several_outputs_are_as_each_alone(table):
    X, y = table
    both = np.column_stack([y, 100 * X[:, 0] - y])
    settings = {"loss": Quantile(0.7), "alpha": 0.01, "tol": 1e-6}
    model = KernelRegressor("linear", **settings).fit(X, both)
    assert model.coef_.shape == (2, 3)
    for k in range(2):
        alone = KernelRegressor("linear", **settings).fit(X, both[:, k])
        values = [
            Quantile(0.7).value(p, both[:, k]).mean()
            for p in (model.predict(X)[:, k], alone.predict(X))
        ]
        assert values[0] == pytest.approx(values[1], rel=1e-3)


def test_an_expectile_of_one_half_is_the_mean(table):
    X, y = table
    settings = {"alpha": 0.01, "tol": 1e-9}
    found = KernelRegressor("linear", loss="expectile", **settings).fit(X, y).predict(X)
    mean = KernelRegressor("linear", loss="squared", **settings).fit(X, y).predict(X)
    np.testing.assert_allclose(found, mean, rtol=1e-6)
    u = np.linspace(-3, 3, 7)
    np.testing.assert_allclose(Expectile().value(u, 0 * u), Squared().value(u, 0 * u))


def test_local_machines_and_sparse_ones_take_what_suits_them(table):
    X, y = table
    local = LocalKernelRegressor(loss=Quantile(0.9), leaf_size=100, random_state=0).fit(X, y)
    assert np.mean(y < local.predict(X)) == pytest.approx(0.9, abs=0.05)
    sparse = SparseKernelRegressor(loss=Expectile(0.9), max_rounds=3, random_state=0).fit(X, y)
    assert sparse.predict(X).mean() > y.mean()


def test_solvers_that_need_a_derivative_say_so(table):
    X, y = table
    for solver, needed in (
        ("newton-cg", "NewtonCG needs a smooth loss"),
        ("cd", "CoordinateDescent needs a smooth loss"),
        ("async", "AsyncSVRG needs a loss of bounded curvature"),
        ("cholesky", "Cholesky needs"),
    ):
        with pytest.raises(ValueError, match=needed):
            KernelRegressor("linear", loss="quantile", solver=solver).fit(X, y)
    with pytest.raises(ValueError, match="Smoothing needs a loss with a kink; got loss 'squared'"):
        KernelRegressor("linear", solver="smoothing").fit(X, y)
    with pytest.raises(ValueError, match="CoordinateDescent needs a smooth loss"):
        SparseKernelRegressor(loss="quantile").fit(X, y)
    with pytest.raises(ValueError, match="loss must be one of bounded curvature"):
        DoublySGDRegressor(loss="quantile").fit(X, y)
    with pytest.raises(ValueError, match="AsyncSVRG needs one of the losses 'squared'"):
        KernelRegressor("linear", loss="expectile", solver="async").fit(X, y)


@pytest.mark.parametrize("cls", [Quantile, SmoothQuantile, Expectile])
def test_levels_are_between_zero_and_one(cls):
    for wrong in (0, 1.0, -0.1, 90):
        with pytest.raises(ValueError, match="level must be above 0 and below 1; got"):
            cls(wrong)
    with pytest.raises(TypeError, match="level must be a number; got"):
        cls("0.9")
    assert cls(0.9).parameter == 0.9


def test_models_are_saved_with_their_loss(table, tmp_path):
    X, y = table
    model = KernelRegressor("nystroem", loss=Quantile(0.9), random_state=0).fit(X, y)
    expected = model.predict(X)
    persistence.save(model, tmp_path / "model.skops")
    for again in (pickle.loads(pickle.dumps(model)), persistence.load(tmp_path / "model.skops")):
        np.testing.assert_array_equal(again.predict(X), expected)
        assert again.loss == Quantile(0.9)
    assert losses.get("quantile") == Quantile(0.5)


def test_float32_rows_give_about_the_same(table):
    X, y = table
    wide = KernelRegressor("nystroem", loss=Quantile(0.9), tol=1e-3, random_state=0).fit(X, y)
    narrow = KernelRegressor("nystroem", loss=Quantile(0.9), tol=1e-3, random_state=0)
    narrow.fit(X.astype(np.float32), y.astype(np.float32))
    values = [Quantile(0.9).value(m.predict(X), y).mean() for m in (wide, narrow)]
    assert values[0] == pytest.approx(values[1], rel=0.01)
    assert narrow.predict(X.astype(np.float32)).dtype == np.float32


def test_an_interrupt_leaves_the_last_model(table):
    X, y = table
    problem = Problem(Dense(X), y, Quantile(0.9), L2(0.01))

    def stop(state):
        raise KeyboardInterrupt

    result = solvers.Smoothing(tol=1e-9).solve(problem, callback=stop)
    assert result.interrupted
    assert result.n_iter == 1
    assert problem.value(result.coef) < problem.value(problem.initial())
