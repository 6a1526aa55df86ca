"""Gamma and ridge at the density of the final model, where rungs have a thin sample of its rows."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.datasets import make_friedman1

from mercer import AutoKernelRegressor
from mercer.auto.course import on_all_rows
from mercer.auto.goals import Classes, Numbers
from mercer.auto.leading import Outcome, Record
from mercer.auto.rungs import narrower, rescaled
from mercer.auto.search import Search
from mercer.auto.trials import Settings
from mercer.auto.tuning import TUNING

LAPLACIAN = Settings(kernel="laplacian", gamma=0.5, ridge=1.0)


def rough(n, seed=0):
    """Fields of a board, finer than few rows can tell, and a plane that they can."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(n, 2))
    y = np.sin(20 * X[:, 0]) * np.sin(20 * X[:, 1]) + X[:, 0] + 0.1 * rng.normal(size=n)
    return X, y


@pytest.fixture(autouse=True)
def _no_scales_by_left_out_errors(monkeypatch):
    """Which have gammas of their own, and errors so small that other stages follow."""
    monkeypatch.setattr(TUNING, "left_out_inputs", 0)


def searched(X, y, settings, deadline=np.inf):
    search = Search(X, y, Numbers(y[:, None]), 7, None, deadline)
    search.finalists = [settings]
    on_all_rows(search, X.shape[1])
    return search


def of_stage(search, name):
    return [record for record in search.records if record.stage == name]


def test_steps_lead_to_narrower_kernels_and_weaker_ridges():
    steps = list(narrower(LAPLACIAN))
    assert [(s.gamma, ridges) for s, ridges in steps] == [
        (0.5, [1.0, 1 / 3]),
        (1.0, [1.0, 1 / 3]),
    ]
    weak = replace(LAPLACIAN, ridge=0.05)  # a third of it would be next to none
    assert [ridges for _, ridges in narrower(weak)] == [[0.05], [0.05]]


def test_many_rows_bear_a_narrower_kernel_than_a_sample_of_them():
    X, y = rough(8000)
    search = searched(X, y, LAPLACIAN)
    rungs, leaves = of_stage(search, "rung 3"), of_stage(search, "leaves")
    assert {r.settings.gamma for r in rungs} == {0.5}
    assert search.best.stage == "leaves"
    assert search.best.settings.gamma >= 2.0
    assert min(r.settings.gamma for r in leaves) == 0.5  # none is wider
    assert max(r.settings.ridge for r in leaves) <= max(r.settings.ridge for r in rungs)


@pytest.mark.slow
def test_the_narrower_kernel_lowers_the_error_of_the_model_of_all_rows():
    X, y = rough(6000)
    X_test, y_test = rough(2000, seed=1)
    search = searched(X, y, LAPLACIAN)
    recipe = AutoKernelRegressor(random_state=0)._recipe(search)
    of_rung = min(of_stage(search, "rung 3"), key=lambda record: record.loss).settings
    errors = []
    for settings in (of_rung, search.settings):
        pipeline = recipe.pipeline(settings, len(y), None, 0.02)
        pipeline.set_params(model__solver="cholesky").fit(X, y)  # iterations take minutes
        errors.append(np.mean((pipeline.predict(X_test) - y_test) ** 2))
    assert errors[1] < 0.9 * errors[0]


def test_held_out_responses_are_those_of_the_rows_that_leaves_held_out():
    X, y = rough(8000)
    search = searched(X, y, LAPLACIAN)
    rows, responses = search.held_rows, search.held_responses
    assert len(rows) == len(np.unique(rows)) == len(responses)
    truth = search.goal.truth(rows, search.best.settings.transform)
    assert np.mean((truth - responses) ** 2) < 0.5 * np.var(truth)


@pytest.mark.slow
def test_a_smooth_kernel_stays_as_the_rungs_have_it():
    X, y = make_friedman1(6000, noise=0.5, random_state=0)
    smooth = searched(X, y, Settings(kernel="gaussian", gamma=0.3, ridge=0.01))
    assert not of_stage(smooth, "leaves")


def test_few_rows_stay_as_the_rungs_have_them():
    few = searched(*rough(3000), LAPLACIAN)
    assert not of_stage(few, "leaves")
    assert 1.0 in {r.settings.gamma for r in of_stage(few, "rung 3")}


@pytest.mark.slow
def test_a_kernel_that_is_narrow_enough_stays_with_what_the_rung_held_out():
    X, y = rough(8000)
    search = searched(X, y, replace(LAPLACIAN, gamma=64.0, ridge=0.05))
    assert of_stage(search, "leaves")
    assert search.best.stage == "rung 3"
    np.testing.assert_array_equal(np.sort(search.held_rows), np.sort(search.parts[0].held))


def test_without_time_nothing_is_tried_on_leaves():
    search = searched(*rough(8000), LAPLACIAN, -np.inf)
    assert search.best is not None
    assert not of_stage(search, "leaves")


def test_scales_of_euclidean_machines_are_tried_for_both_treatments():
    euclidean = replace(LAPLACIAN, scales="exponential", power=1.0)
    roots = replace(euclidean, numbers="standard", power=0.5)
    treatments = [("robust", 0), ("standard", 0)]
    assert list(rescaled(LAPLACIAN, treatments)) == [euclidean, roots]
    assert list(rescaled(LAPLACIAN, [])) == [euclidean]
    assert list(rescaled(euclidean, treatments)) == [roots]


def outcome(losses):
    losses = np.asarray(losses)
    return Outcome(Record("leaves", 9, LAPLACIAN, losses.mean(), 0.0, 0.0), losses, losses)


def test_a_loss_is_surely_less_beyond_one_and_a_half_standard_errors_of_the_difference():
    noise = np.random.default_rng(0).normal(size=400)
    noise = (noise - noise.mean()) / noise.std() * 0.2  # its mean has a standard error of .01
    other = outcome(np.full(400, 1.0))
    assert outcome(1 - 0.016 + noise).is_surely_less(other)
    assert not outcome(1 - 0.014 + noise).is_surely_less(other)
    assert not other.is_surely_less(other)


def test_scales_of_classes_are_compared_again_where_the_rung_has_exponential_ones_near():
    rng = np.random.default_rng(3)
    X = np.column_stack([rng.uniform(size=(8000, 2)), rng.integers(0, 2, (8000, 10))])
    y = (np.sin(12 * X[:, 0]) * np.sin(12 * X[:, 1]) > 0.4 * X[:, 2]).astype(np.int64)
    search = Search(X, y, Classes(y, 2), 7, None, np.inf)
    search.finalists = [LAPLACIAN]
    on_all_rows(search, X.shape[1])
    rungs, leaves = of_stage(search, "rung 3"), of_stage(search, "leaves")
    least = min(r.loss for r in rungs)
    near = any(r.settings.scales == "exponential" and r.loss <= 1.03 * least for r in rungs)
    assert near == any(r.settings.scales == "exponential" for r in leaves)


def test_scales_of_numbers_stay_as_the_rung_has_them():
    search = searched(*rough(8000), LAPLACIAN)
    of_rung = min(of_stage(search, "rung 3"), key=lambda record: record.loss).settings
    assert {r.settings.scales for r in of_stage(search, "leaves")} == {of_rung.scales}
