"""Widths of losses given by name, and far targets, which robust losses ignore."""

import numpy as np
import pytest

from mercer import DoublySGDRegressor, KernelRegressor, LocalKernelRegressor, losses
from mercer.distributed import Here, Shard
from mercer.distributed.fitting import fit_machine

WITH_WIDTH = [name for name in losses.names() if losses.get(name).residual]


@pytest.fixture
def table():
    rng = np.random.default_rng(0)
    X = rng.uniform(-3, 3, size=(400, 1))
    truth = np.sin(2 * X[:, 0])
    return X, truth, truth + 0.1 * rng.normal(size=400)


def machine(loss, **settings):
    return KernelRegressor("fourier", gamma=1.0, loss=loss, random_state=0, **settings)


def test_losses_with_a_width_are_known():
    assert WITH_WIDTH == ["huber", "correntropy", "smooth_quantile"]


@pytest.mark.parametrize("loss", [*WITH_WIDTH, "quantile"])
@pytest.mark.parametrize("unit", [1e-3, 1e5])
def test_named_losses_fit_targets_in_any_unit(table, loss, unit):
    X, truth, y = table
    one, other = (machine(loss, tol=1e-6).fit(X, u * y).predict(X) / u for u in (1.0, unit))
    np.testing.assert_allclose(other, one, atol=1e-3)
    assert np.sqrt(np.mean((other - truth) ** 2)) < 0.1


@pytest.mark.parametrize(
    "model",
    [
        LocalKernelRegressor(loss="huber", leaf_size=100, n_trees=1, random_state=0),
        DoublySGDRegressor(loss="huber", max_iter=5, random_state=0),
    ],
)
def test_every_regressor_scales_the_width(table, model):
    X, truth, y = table
    predicted = model.fit(X, 1e5 * y).predict(X) / 1e5
    assert np.sqrt(np.mean((predicted - truth) ** 2)) < 0.2


def test_later_batches_keep_the_width_of_the_first(table):
    X, _, y = table
    model = DoublySGDRegressor(loss="huber", random_state=0).partial_fit(X, 1e5 * y)
    width = model._loss_.delta
    model.partial_fit(X, y)
    assert model._loss_.delta == width


def test_widths_of_loss_objects_stay_in_units_of_the_target(table):
    X, _, y = table
    assert machine(losses.Huber(2.0)).fit(X, 1e5 * y)._loss_.delta == 2.0


@pytest.mark.parametrize(
    ("y", "spread"),
    [
        (
            np.r_[np.arange(101.0), 1e6],
            25.0 / 0.6745,
        ),  # far values do not count
        (np.r_[np.zeros(96), 1.0, -1.0, 1.0, -1.0], 0.2),  # the standard deviation
        (np.full(50, 3.0), 1.0),
    ],
)
def test_the_width_follows_the_spread_of_the_targets(y, spread):
    X = np.linspace(0, 1, len(y))[:, None]
    assert machine("correntropy").fit(X, y)._loss_.sigma == pytest.approx(spread, rel=0.03)


def test_the_width_counts_rows_by_their_weights(table):
    X, _, y = table
    repeats = np.random.default_rng(1).integers(0, 4, size=len(y))
    weighted = machine("huber").fit(X, y, repeats)._loss_.delta
    repeated = machine("huber").fit(np.repeat(X, repeats, 0), np.repeat(y, repeats))._loss_.delta
    assert weighted == pytest.approx(repeated)


def test_shards_find_the_width_of_all_rows(table):
    X, _, y = table
    shards = [Shard(x, t) for x, t in zip(np.split(X, 4), np.split(1e5 * y, 4), strict=True)]
    far = fit_machine(machine("huber"), Here(shards))
    assert far._loss_.delta == pytest.approx(machine("huber").fit(X, 1e5 * y)._loss_.delta)


@pytest.mark.parametrize("loss", [*WITH_WIDTH, "quantile", losses.Quantile(0.9)])
def test_one_far_target_leaves_robust_fits_as_they_are(table, loss):
    X, _, y = table
    far = y.copy()
    far[7] = 1e6
    without = machine(loss).fit(X, y).predict(X)
    np.testing.assert_allclose(machine(loss).fit(X, far).predict(X), without, atol=0.15)
