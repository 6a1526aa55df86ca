"""Models of two pipelines, and what more rows or another order of them do to local models."""

import copy
import functools
import itertools
import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import make_friedman1, make_friedman2, make_friedman3
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

from mercer import (
    AutoKernelClassifier,
    AutoKernelRegressor,
    LocalKernelClassifier,
    LocalKernelRegressor,
    persistence,
)
from mercer.auto import MeanClassifier, MeanRegressor, base
from mercer.auto.deadline import Deadline
from mercer.auto.fits import STEPS, Fit
from mercer.auto.leading import Outcome, Record, Stage
from mercer.auto.trials import Settings
from mercer.auto.tuning import TUNING
from mercer.estimators.scales import GradientScaler
from mercer.preparation import TablePreparer


@pytest.fixture
def small_leaves(monkeypatch):
    """Leaves of few rows, where there would be the exact kernel."""
    monkeypatch.setattr(TUNING, "exact_rows", 800)
    monkeypatch.setattr(TUNING, "leaf_rows", (400, 400))
    monkeypatch.setattr(TUNING, "many_scale_rows", 800)
    monkeypatch.setattr(TUNING, "scale_share", 1)


def rows(n=400, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    return X, np.sin(2 * X[:, 0]) + X[:, 1]


def machine(n_trees, seed, kind=LocalKernelRegressor):
    return make_pipeline(StandardScaler(), kind(leaf_size=100, n_trees=n_trees, random_state=seed))


# the mean


@pytest.mark.rounding
def test_every_pipeline_counts_by_its_trees():
    X, y = rows()
    pipelines = [machine(2, 0), machine(1, 1)]
    expected = np.average(
        [clone(p).fit(X, y).predict(X) for p in pipelines], axis=0, weights=[2, 1]
    )
    np.testing.assert_allclose(MeanRegressor(pipelines).fit(X, y).predict(X), expected, rtol=1e-6)


def test_classes_are_those_of_the_mean_response():
    X, y = rows()
    labels = np.where(y > 0, "up", "down")
    pipelines = [machine(1, seed, LocalKernelClassifier) for seed in range(2)]
    model = MeanClassifier(pipelines).fit(X, labels)
    responses = np.mean([p.decision_function(X) for p in model.pipelines_], axis=0)
    np.testing.assert_allclose(model.decision_function(X), responses, rtol=1e-6)
    np.testing.assert_array_equal(model.predict(X), np.where(responses > 0, "up", "down"))


@pytest.mark.parametrize("numbers", ["robust", "quantile"])
def test_a_table_is_treated_once_for_pipelines_that_treat_it_alike(numbers, monkeypatch):
    X, y = rows()
    weights = np.random.default_rng(1).uniform(0.5, 2, size=len(y))
    steps = TablePreparer(random_state=0), TablePreparer(numbers, random_state=0)
    scaler = GradientScaler(random_state=0)
    pipelines = [
        Pipeline(
            [("preparer", step), ("scaler", scaler), ("model", LocalKernelRegressor(leaf_size=100))]
        ).set_params(model__random_state=seed, model__n_trees=1)
        for seed, step in enumerate(steps)
    ]
    beside = {f"{step}__sample_weight": weights for step in STEPS}
    expected = np.mean([clone(p).fit(X, y, **beside).predict(X) for p in pipelines], axis=0)
    fits = []
    original = TablePreparer.fit_transform
    monkeypatch.setattr(
        TablePreparer,
        "fit_transform",
        lambda self, *args, **named: fits.append(1) or original(self, *args, **named),
    )
    model = MeanRegressor(pipelines)
    Fit(weights, weights)(model, X, y)
    assert len(fits) == (1 if numbers == "robust" else 2)
    np.testing.assert_array_equal(model.predict(X), expected)
    first, second = (pipeline["preparer"] for pipeline in model.pipelines_)
    assert first is not second


class Interrupting:
    """A callback that stops a fit as the user does, after some tasks."""

    def __init__(self, after):
        self.left = after

    def setup(self, estimator, context):
        pass

    def teardown(self, estimator, context):
        pass

    def on_fit_task_begin(self, estimator, context):
        pass

    def on_fit_task_end(self, estimator, context):
        self.left -= 1
        if self.left < 0:
            raise KeyboardInterrupt
        return False


def test_what_was_finished_before_an_interruption_predicts():
    X, y = rows()
    pipelines = [machine(2, 0), machine(1, 1)]
    pipelines[1][-1].set_callbacks(Interrupting(0))
    model = MeanRegressor(pipelines)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, y)
    assert 1 <= len(model.pipelines_) <= 2
    assert np.corrcoef(model.predict(X), y)[0, 1] > 0.9


@pytest.mark.parametrize("late", [0, 1])
def test_pipelines_without_a_whole_tree_are_left_out_but_the_first(late, monkeypatch):
    monkeypatch.setattr("mercer.solvers.local._BATCH", 1)
    X, y = rows()
    pipelines = [machine(2, 0), machine(1, 1)]
    for pipeline in pipelines[late:]:
        pipeline[-1].set_callbacks(Deadline(-np.inf))
    model = MeanRegressor(pipelines).fit(X, y)
    assert [p[-1].random_state for p in model.pipelines_] == [0]
    assert model.pipelines_[0][-1].converged_ == (late == 1)
    np.testing.assert_array_equal(model.predict(X), model.pipelines_[0].predict(X))


def test_a_fit_of_which_a_part_fails_leaves_nothing():
    X, y = rows()
    model = MeanRegressor([machine(1, 0)]).fit(X, y)
    model.set_params(pipelines=[machine(1, 0), machine(0, 1)])
    with pytest.raises(ValueError, match="n_trees must be"):
        model.fit(X, y)
    with pytest.raises(NotFittedError):
        model.predict(X)


OTHERS = (
    [],
    None,
    machine(1, 0),
    [LocalKernelRegressor()],
    [machine(1, 0), machine(1, 0, LocalKernelClassifier)],
    [make_pipeline(StandardScaler())],
)


@pytest.mark.parametrize("others", OTHERS)
def test_means_of_anything_else_are_refused(others):
    X, y = rows()
    rule = "a list of Pipelines that end in a LocalKernelRegressor; got"
    with pytest.raises(ValueError, match=f"^pipelines must be {rule}") as refusal:
        MeanRegressor(others).fit(X, y)
    assert "\n" not in str(refusal.value)
    model = MeanRegressor([machine(1, 0)]).fit(X, y)
    model.pipelines_ = others
    with pytest.raises(ValueError, match=r"^pipelines_ of a fitted MeanRegressor must .* again\.$"):
        copy.copy(model)


@pytest.mark.parametrize(
    "edit",
    [
        lambda pipelines: pipelines.append(pipelines[0]),
        lambda pipelines: pipelines[0].steps.append(pipelines[0].steps[-1]),
        lambda pipelines: pipelines[0].steps.clear(),
        lambda pipelines: pipelines[0].steps.insert(0, ("number", 3.0)),
        lambda pipelines: pipelines[0].steps.insert(0, ("word", "nonsense")),
        lambda pipelines: pipelines[0].steps.insert(0, (None, None)),
        lambda pipelines: pipelines[0].steps.append(3),
    ],
)
def test_copies_whose_pipelines_were_changed_are_refused(edit):
    X, y = rows()
    model = MeanRegressor([machine(1, 0)]).fit(X, y)
    edit(model.pipelines_)
    with pytest.raises(ValueError, match=r"^pipelines_ of a fitted MeanRegressor must .* again\.$"):
        copy.copy(model)


# the choice of the second pipeline


def outcome(settings, loss):
    record = Record("leaves", 800, settings, loss, 0.1, 0.1)
    return Outcome(record, np.zeros((10, 1)), np.full(10, loss))


def test_partners_see_the_rows_another_way():
    stage = Stage("leaves", 800, classes=False)
    leader = outcome(Settings(power=1.0), 0.1)
    others = {
        "gamma alone": outcome(Settings(power=1.0, gamma=2.0), 0.11),
        "power": outcome(Settings(power=0.5), 0.12),
        "worse at another gamma": outcome(Settings(power=0.5, gamma=3.0), 0.13),
        "treatment": outcome(Settings("quantile", power=1.0), 0.13),
        "transform": outcome(Settings(power=0.5, transform="log"), 0.1),
        "kernel": outcome(Settings(kernel="gaussian"), 0.101),
        "worse kernel": outcome(Settings("quantile", kernel="gaussian"), 0.12),
    }
    for one in (leader, *others.values()):
        stage.add(one)
    wanted = [others[name] for name in ("power", "treatment")]
    assert stage.beside(leader) == wanted


@pytest.mark.parametrize(("share", "is_taken"), [(0.985, True), (0.995, False)])
def test_a_partner_must_lower_the_held_out_loss_by_a_hundredth(share, is_taken):
    stage = Stage("leaves", 800, classes=False)
    leader, other = outcome(Settings(power=1.0), 0.1), outcome(Settings(power=0.5), 0.12)
    for one in (leader, other):
        stage.add(one)
    settings, mean = stage.partner(lambda responses, transform: share * leader.record.loss)
    assert (settings == other.record.settings) == (mean is not None) == is_taken


@pytest.mark.rounding
@pytest.mark.usefixtures("small_leaves")
def test_two_pipelines_share_the_trees_and_are_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(TUNING, "pair_loss", 2.0)  # any mean is taken
    X, y = make_friedman1(2500, 6, noise=1.0, random_state=0)
    model = AutoKernelRegressor(random_state=0).fit(X, np.exp(y / 5))
    assert model.partner_settings_ is not None
    pipelines = model._pipelines()
    assert len(pipelines) == 2
    views = [
        {k: v for k, v in settings.items() if k not in ("gamma", "ridge")}
        for settings in (model.best_settings_, model.partner_settings_)
    ]
    assert views[0] != views[1]
    assert all(not getattr(p[-1], "_skl_callbacks", []) for p in pipelines)
    assert abs(model.input_shares_.sum() - 1) < 1e-6
    expected = model.predict(X)
    persistence.save(model, tmp_path / "m.skops", task="regression")
    np.testing.assert_array_equal(persistence.load(tmp_path / "m.skops").predict(X), expected)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).predict(X), expected)
    again = clone(model.best_estimator_).fit(X, np.exp(y / 5))
    np.testing.assert_allclose(again.predict(X), expected, rtol=5e-3)


@pytest.mark.usefixtures("small_leaves")
def test_a_model_of_a_single_tree_has_no_partner(monkeypatch):
    monkeypatch.setattr(TUNING, "trees", 1)
    monkeypatch.setattr(TUNING, "fewest_trees", 1)
    monkeypatch.setattr(TUNING, "pair_loss", 2.0)  # any mean is taken
    searches = []

    class Seen(base.Search):
        def __init__(self, *args):
            super().__init__(*args)
            searches.append(self)

    monkeypatch.setattr(base, "Search", Seen)
    X, y = make_friedman1(1500, 6, noise=1.0, random_state=0)
    model = AutoKernelRegressor(random_state=0).fit(X, y)
    assert model.kernel_machine_.n_trees == len(model._pipelines()) == 1
    assert model.partner_settings_ is None
    # Intervals are those of a model by itself, not of the mean that was thought of.
    [search] = searches
    truth = search.goal.truth(search.held_rows, search.settings.transform)
    alone = np.abs(truth - search.stage.leader.responses)
    np.testing.assert_array_equal(model.conformal_.scores, np.sort(alone[:, 0]))


# laws of local models


def rings(n, random_state=0):
    rng = np.random.default_rng(random_state)
    X = rng.normal(size=(n, 4))
    return X, np.floor(1.5 * np.hypot(X[:, 0], X[:, 1])).astype(int) % 2


def noisy_steps(n, random_state=0):
    rng = np.random.default_rng(random_state)
    X = rng.uniform(size=(n, 5))
    y = np.floor(4 * X[:, 0]) + np.floor(3 * X[:, 1]) > 2
    return X, np.where(rng.random(n) < 0.1, ~y, y)


def friedman1(n, random_state=0):
    return make_friedman1(n, 10, noise=1.0, random_state=random_state)


def friedman2(n, random_state=0):
    return make_friedman2(n, noise=50.0, random_state=random_state)


def friedman3(n, random_state=0):
    return make_friedman3(n, noise=0.1, random_state=random_state)


def error(table, X, y, seed=0):
    """Error on 3000 new rows: the share of wrong classes, or in units of the deviation."""
    X_new, y_new = table(3000, random_state=1)
    if y.dtype.kind in "bi":
        model = AutoKernelClassifier(random_state=seed).fit(X, y)
        return np.mean(model.predict(X_new) != y_new)
    model = AutoKernelRegressor(random_state=seed).fit(X, y)
    return np.sqrt(np.mean((model.predict(X_new) - y_new) ** 2)) / y_new.std()


@functools.cache
def error_of_first(table, n):
    """Error of the model of the first n of 6000 rows, in leaves of few rows from 800 rows on."""
    X, y = table(6000)
    return error(table, X[:n], y[:n])


def more_rows():
    """Tables with pairs of fewer and more rows."""
    tables = rings, noisy_steps, friedman1, friedman2, friedman3
    for table, pair in itertools.product(tables, ((750, 1500), (1500, 6000))):
        marks = []
        if (table, pair) == (friedman1, (750, 1500)):
            reason = "750 rows in one exact machine gain more by left-out scales than leaves of 400"
            marks = [pytest.mark.xfail(reason=reason)]
        yield pytest.param(table, *pair, marks=marks, id=f"{table.__name__}-{pair[1]}")


@pytest.mark.usefixtures("small_leaves")
@pytest.mark.parametrize(("table", "fewer", "more"), list(more_rows()))
def test_more_rows_never_make_it_worse(table, fewer, more):
    # 3000 new rows tell no less than three hundredths.
    assert error_of_first(table, more) < 1.03 * error_of_first(table, fewer)


@pytest.mark.usefixtures("small_leaves")
@pytest.mark.parametrize("table", [noisy_steps, friedman1])
def test_the_order_of_the_rows_matters_little(table):
    X, y = table(3000)
    errors = []
    for seed in range(3):
        order = np.random.default_rng(seed).permutation(len(y))
        errors.append(error(table, X[order], y[order]))
    assert max(errors) < 1.08 * min(errors)
