"""Gamma and ridge at the density of the final model, where rungs have a thin sample of its rows."""

import numpy as np
import pytest

from mercer import AutoKernelRegressor
from mercer.auto.course import on_all_rows
from mercer.auto.goals import Numbers
from mercer.auto.leading import Outcome, Record
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


def test_many_rows_bear_a_narrower_kernel_than_a_sample_of_them():
    X, y = rough(8000)
    search = searched(X, y, LAPLACIAN)
    assert search.best.stage == "more rows"
    assert search.best.rows == 5000
    assert search.best.settings.gamma >= 2.0


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
    assert errors[1] < 0.95 * errors[0]  # the rung has tried one narrower kernel, too


def test_held_out_responses_are_those_of_the_rows_held_out():
    X, y = rough(8000)
    search = searched(X, y, LAPLACIAN)
    rows, responses = search.held_rows, search.held_responses
    assert len(rows) == len(np.unique(rows)) == len(responses)
    truth = search.goal.truth(rows, search.best.settings.transform)
    assert np.mean((truth - responses) ** 2) < 0.5 * np.var(truth)


def test_without_time_nothing_is_tried_on_more_rows():
    search = searched(*rough(8000), LAPLACIAN, -np.inf)
    assert search.best is not None
    assert not of_stage(search, "more rows")


def outcome(losses):
    losses = np.asarray(losses)
    return Outcome(Record("columns", 9, LAPLACIAN, losses.mean(), 0.0, 0.0), losses, losses)


def test_a_loss_is_surely_less_beyond_so_many_standard_errors_of_the_difference():
    noise = np.random.default_rng(0).normal(size=400)
    noise = (noise - noise.mean()) / noise.std() * 0.2  # its mean has a standard error of .01
    other = outcome(np.full(400, 1.0))
    assert outcome(1 - 0.016 + noise).is_surely_less(other, 1.5)
    assert not outcome(1 - 0.014 + noise).is_surely_less(other, 1.5)
    assert not other.is_surely_less(other, 1.5)
