"""Scorers choose among settings, and what a search tells of held-out rows."""

import copy
import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.datasets import make_friedman1
from sklearn.metrics import (
    accuracy_score,
    balanced_accuracy_score,
    d2_pinball_score,
    get_scorer,
    log_loss,
    make_scorer,
    mean_absolute_error,
    r2_score,
    roc_auc_score,
)
from sklearn.model_selection import GridSearchCV, cross_val_score

from _polars import pl
from mercer import AutoKernelClassifier, AutoKernelRegressor, persistence
from mercer.auto import base, search
from mercer.auto.goals import Classes, Numbers
from mercer.auto.leading import Outcome, Record, Stage
from mercer.auto.ledger import trials_of
from mercer.auto.scoring import ByScorer, Judge, scored
from mercer.auto.trials import Settings
from mercer.auto.tuning import TUNING

pytestmark = pytest.mark.usefixtures("few_treatments")


@pytest.fixture
def searches(monkeypatch):
    """The searches of all fits."""
    made = []

    class Seen(base.Search):
        def __init__(self, *args):
            super().__init__(*args)
            made.append(self)

    monkeypatch.setattr(base, "Search", Seen)
    return made


def friedman(n, random_state=100):
    return make_friedman1(n, 6, noise=1.0, random_state=random_state)


def bad_absolute(estimator, X, y):
    return -np.max(np.abs(estimator.predict(X) - y))


NUMBERS = [
    "r2",
    "neg_mean_absolute_error",
    "neg_median_absolute_error",
    "neg_mean_squared_log_error",
    make_scorer(d2_pinball_score, alpha=0.9),
    bad_absolute,
]
TWO = ["accuracy", "roc_auc", "average_precision", "neg_log_loss", "neg_brier_score", "f1"]
MANY = ["roc_auc_ovr", "f1_macro", "neg_log_loss", "balanced_accuracy", "top_k_accuracy"]


@pytest.mark.parametrize("scoring", NUMBERS, ids=lambda scoring: str(scoring).split(" at ")[0])
def test_scorers_of_numbers_choose(scoring, searches):
    X, y = friedman(300)
    y = np.maximum(y, 0)
    model = AutoKernelRegressor(scoring=scoring, random_state=100).fit(X[:200], y[:200])
    check(model, searches[-1], X[200:], y[200:], scoring)


@pytest.mark.parametrize("scoring", TWO)
def test_scorers_of_two_classes_choose(scoring, searches):
    X, y = friedman(300)
    y = (y > 15).astype(int)
    model = AutoKernelClassifier(scoring=scoring, random_state=100).fit(X[:200], y[:200])
    check(model, searches[-1], X[200:], y[200:], scoring)


@pytest.mark.parametrize("scoring", MANY)
def test_scorers_of_many_classes_choose(scoring, searches):
    X, y = friedman(300)
    y = np.array(["low", "middle", "high", "top"])[np.digitize(y, [10, 14, 18])]
    model = AutoKernelClassifier(scoring=scoring, random_state=100).fit(X[:200], y[:200])
    check(model, searches[-1], X[200:], y[200:], scoring)


def check(model, made, X, y, scoring):
    """The choice is about the best by the scorer, and the model scores by it."""
    scorer = get_scorer(scoring)
    assert model.score(X, y) == scorer(model, X, y)
    results = model.search_results_
    last = results["stage"] == made.best.stage
    [chosen] = np.flatnonzero(results["chosen"])
    assert results["score"][chosen] == made.best.score  # of a trial, which has fewer rows
    np.testing.assert_allclose(results["loss"][last].argmin(), results["score"][last].argmax())
    rows, responses = made.held_rows, made.held_responses
    right = made.goal.truth(rows, "identity")
    mean = np.broadcast_to(right.mean(axis=0), right.shape)
    scores = [made.judge.score(r, rows, "identity") for r in (mean, right)]
    assert scores[0] <= model.validation_score_ <= scores[1]
    transform = made.settings.transform
    assert made.judge.score(responses, rows, transform) == model.validation_score_
    np.testing.assert_allclose(made.judge(mean, rows, "identity").loss, 1)
    np.testing.assert_allclose(made.judge(right, rows, "identity").loss, 0)


@pytest.mark.parametrize("scoring", [None, "neg_mean_absolute_error", "r2"])
def test_the_validation_score_is_that_of_the_held_out_rows(scoring, searches):
    X, y = friedman(1400)
    model = AutoKernelRegressor(scoring=scoring, random_state=100).fit(X, y)
    made = searches[-1]
    rows, predicted = made.held_rows, made.held_responses[:, 0]
    if model.best_settings_["transform"] == "log":
        predicted = made.goal.predictions(made.held_responses, rows, "log")[:, 0]
    theirs = r2_score if scoring != "neg_mean_absolute_error" else mean_absolute_error
    sign = -1 if theirs is mean_absolute_error else 1
    np.testing.assert_allclose(model.validation_score_, sign * theirs(y[rows], predicted))
    assert model.n_validation_rows_ == len(rows) == 1400  # each row left out in turn
    X_new, y_new = friedman(2000, 101)
    np.testing.assert_allclose(model.validation_score_, model.score(X_new, y_new), rtol=0.15)


@pytest.mark.parametrize("scoring", [None, "accuracy", "roc_auc", "neg_log_loss"])
def test_the_validation_score_of_classes_is_about_that_of_new_rows(scoring):
    X, y = friedman(1400)
    X_new, y_new = friedman(2000, 101)
    model = AutoKernelClassifier(scoring=scoring, random_state=100).fit(X, y > 15)
    np.testing.assert_allclose(model.validation_score_, model.score(X_new, y_new > 15), atol=0.06)
    assert model.n_validation_rows_ == 1400  # each row left out in turn


def test_without_a_scorer_scores_are_the_usual_ones():
    X, y = friedman(300)
    model = AutoKernelRegressor(random_state=100).fit(X, y)
    weights = np.arange(300.0)
    assert model.score(X, y, weights) == r2_score(y, model.predict(X), sample_weight=weights)
    assert "score" not in model.search_results_
    labels = y > 15
    model = AutoKernelClassifier(random_state=100).fit(X, labels)
    assert model.score(X, labels) == accuracy_score(labels, model.predict(X))
    model = AutoKernelClassifier(scoring="roc_auc", random_state=100).fit(X, labels)
    responses = model.decision_function(X)
    expected = roc_auc_score(labels, responses, sample_weight=weights)
    assert model.score(X, labels, weights) == expected


def test_a_scorer_that_matters_changes_the_choice():
    # Costs that ask for predictions above the truth, which settings give that shrink less.
    def upper(estimator, X, y):
        return -np.mean(np.maximum(y - estimator.predict(X), 0) ** 2)

    X, y = friedman(1500)
    y = np.exp(y / 5)
    chosen = {
        str(scoring): AutoKernelRegressor(scoring=scoring, random_state=100).fit(X, y)
        for scoring in (None, upper, "neg_median_absolute_error")
    }
    settings = [tuple(model.best_settings_.items()) for model in chosen.values()]
    assert len(set(settings)) > 1


def test_weights_count_for_scorers_that_take_them(searches):
    X, y = friedman(600)
    weights = np.where(X[:, 0] > 0.5, 1.0, 0.1)

    def without(estimator, X, y):
        return -mean_absolute_error(y, estimator.predict(X))

    for scoring, own in (("neg_mean_absolute_error", True), (without, False)):
        model = AutoKernelRegressor(scoring=scoring, random_state=100)
        model.fit(X, y, sample_weight=weights)
        made = searches[-1]
        rows = made.held_rows
        predicted = made.goal.predictions(
            made.held_responses, rows, model.best_settings_["transform"]
        )
        used = weights[rows] if own else None
        expected = -mean_absolute_error(y[rows], predicted[:, 0], sample_weight=used)
        np.testing.assert_allclose(model.validation_score_, expected)


@pytest.mark.parametrize("form", [np.asarray, pd.DataFrame, pl.DataFrame, sparse.csr_array])
def test_callables_see_the_held_out_rows_as_they_were_given(form):
    X, y = friedman(200)
    seen = set()

    def scorer(estimator, X, y):
        assert X.shape[0] == len(y) == len(estimator.predict(X))
        seen.add(type(X))
        return estimator.score(X, y)

    X = X if form in (np.asarray, sparse.csr_array) else {f"x{j}": c for j, c in enumerate(X.T)}
    X = form(X)
    model = AutoKernelRegressor(scoring=scorer, random_state=100).fit(X, y)
    assert seen == {type(X)}
    assert model.validation_score_ > 0.5


def test_leaves_are_chosen_by_the_scorer(monkeypatch):
    monkeypatch.setattr(TUNING, "exact_rows", 1000)
    monkeypatch.setattr(TUNING, "leaf_rows", (400, 400))
    X, y = friedman(2400)
    model = AutoKernelClassifier(scoring="roc_auc", random_state=100).fit(X, y > 15)
    assert "leaves" in model.search_results_["stage"]
    assert 0.8 < model.validation_score_ <= 1
    assert np.isfinite(trials_of(model.search_results_)["score"]).all()


# the judges


def test_blocks_tell_what_chance_does():
    rng = np.random.default_rng(0)
    n = 1200
    errors = []
    for random_state in range(30):
        rng = np.random.default_rng(random_state)
        labels = rng.integers(0, 2, n)
        goal = Classes(labels, 2)
        judge = ByScorer(goal, get_scorer("roc_auc"), np.zeros((n, 1)), labels, random_state)
        responses = (labels + rng.normal(size=n))[:, None]
        verdict = judge(responses, np.arange(n), "identity")
        losses = verdict.losses()
        np.testing.assert_allclose(losses.mean(), verdict.loss, atol=0.005)
        errors.append((verdict.score, 0.5 * losses.std() / np.sqrt(len(losses))))
    scores, told = np.array(errors).T  # the loss goes from 1 to 0 where the score does from .5 to 1
    assert 0.7 < told.mean() / scores.std() < 1.4


@pytest.mark.parametrize(("gain", "leads"), [(0.0, False), (0.5, True)])
def test_plain_settings_stay_ahead_of_differences_that_chance_makes(gain, leads):
    rng = np.random.default_rng(0)
    y = rng.normal(size=(400, 1))
    rows = np.arange(400)
    goal = Numbers(y)
    judge = ByScorer(goal, get_scorer("neg_median_absolute_error"), y, y[:, 0], 0)
    noise = rng.normal(size=(2, 400, 1))
    stage = Stage("rung 3", 2000, classes=False)
    for kernel, error in (("laplacian", 1.0), ("gaussian", 0.99 - gain)):
        verdict = judge(y + error * noise[int(kernel == "gaussian")], rows, "identity")
        record = Record(
            "rung 3", 2000, Settings(kernel=kernel), verdict.loss, verdict.error, 0.1, verdict.score
        )
        stage.add(Outcome(record, y, verdict.losses))
    assert (stage.leader.record.settings.kernel == "gaussian") is leads


def test_the_usual_judge_goes_by_losses():
    y = np.random.default_rng(0).normal(size=(50, 2))
    goal, rows = Numbers(y), np.arange(50)
    verdict = Judge(goal)(y + 0.5, rows, "identity")
    losses, error = goal.losses(y + 0.5, rows, "identity")
    assert (verdict.loss, verdict.error) == (losses.mean(), error)
    np.testing.assert_array_equal(verdict.losses, losses)
    np.testing.assert_allclose(Judge(goal).score(y + 0.5, rows, ""), r2_score(y, y + 0.5))


def test_responses_that_a_scorer_refuses_are_the_worst():
    y = np.linspace(1, 2, 40)[:, None]
    judge = ByScorer(Numbers(y), get_scorer("neg_mean_squared_log_error"), y, y[:, 0], 0)
    verdict = judge(-y, np.arange(40), "identity")
    assert np.isnan(verdict.score)
    assert verdict.loss == verdict.losses().mean() > 1e5


def test_probabilities_for_scorers_are_calibrated():
    rng = np.random.default_rng(0)
    truth = rng.uniform(size=2000)
    labels = (rng.uniform(size=2000) < truth).astype(int)
    judge = ByScorer(Classes(labels, 2), get_scorer("neg_log_loss"), truth, labels, 0)
    timid = np.tanh(0.4 * np.arctanh(2 * truth - 1))[:, None]
    assert -judge.score(timid, np.arange(2000), "identity") < log_loss(labels, truth) + 0.02


# with the tools of scikit-learn


def test_a_model_with_a_scorer_is_cloned_searched_and_kept(tmp_path):
    X, y = friedman(200)
    model = AutoKernelRegressor(scoring="neg_mean_absolute_error", random_state=100)
    assert clone(model).scoring == "neg_mean_absolute_error"
    scores = cross_val_score(model, X, y, cv=2)
    assert (scores < 0).all()
    grid = GridSearchCV(model, {"scoring": [None, "r2"]}, scoring="r2", cv=2).fit(X, y)
    assert grid.best_score_ > 0.5
    model.fit(X, y)
    persistence.save(model, tmp_path / "m.skops", task="regression")
    for again in (persistence.load(tmp_path / "m.skops"), pickle.loads(pickle.dumps(model))):
        assert again.validation_score_ == model.validation_score_
        assert again.n_validation_rows_ == model.n_validation_rows_ == 200
        assert again.score(X, y) == model.score(X, y)


def test_a_file_without_a_setting_takes_its_default():
    X, y = friedman(100)
    model = AutoKernelClassifier(random_state=100).fit(X, y > 15)
    state = model.__getstate__()
    older = AutoKernelClassifier.__new__(AutoKernelClassifier)
    settings = ("scoring", "class_weight")
    older.__setstate__({name: value for name, value in state.items() if name not in settings})
    np.testing.assert_array_equal(older.predict_proba(X), model.predict_proba(X))
    assert older.scoring is None
    model.validation_score_ = "high"
    with pytest.raises(ValueError, match="validation_score_ of a fitted AutoKernelClassifier must"):
        copy.copy(model)


def test_an_interrupted_search_has_no_score(monkeypatch):
    def interrupted(*args):
        raise KeyboardInterrupt

    X, y = friedman(100)
    monkeypatch.setattr(search.Search, "_try", interrupted)
    with pytest.warns(UserWarning, match="fit was interrupted"):
        model = AutoKernelRegressor(random_state=100).fit(X, y)
    assert np.isnan(model.validation_score_)
    assert model.n_validation_rows_ == 0
    assert np.isfinite(pickle.loads(pickle.dumps(model)).predict(X)).all()


# what is refused


@pytest.mark.parametrize(
    ("scoring", "rule"),
    [
        ("roc_oc", r"got 'roc_oc'; did you mean 'roc_auc'\?"),
        ("zzzzzz", r"or a scorer; got 'zzzzzz'\."),
        (3, r"or a scorer; got 3\."),
        (["r2"], r"or a scorer; got \['r2'\]\."),
        (r2_score, "such as make_scorer makes of a metric; got <function r2_score"),
        (lambda e, X, y: e.coef_, "no more than predictions.* AttributeError: .*coef_"),
        (lambda e, X, y: np.ones(3), " give a finite number .* for 60 rows"),
        (lambda e, X, y: np.nan, " give a finite number .* gave nan for 60 rows"),
    ],
)
@pytest.mark.parametrize("make", [AutoKernelRegressor, AutoKernelClassifier])
def test_scorers_that_make_no_sense_get_a_sentence(make, scoring, rule):
    X, _ = friedman(60)
    with pytest.raises((ValueError, TypeError), match=f"^scoring must.*{rule}") as refusal:
        make(scoring=scoring).fit(X, np.arange(60) % 2)
    assert "\n" not in str(refusal.value)


def test_scorers_of_other_targets_get_a_sentence():
    X, y = friedman(60)
    labels = np.where(y > 15, "high", "low")
    rule = r"scoring must name the positive class.*make_scorer\(metric, pos_label='low'\)"
    with pytest.raises(ValueError, match=rule):
        AutoKernelClassifier(scoring="f1").fit(X, labels)
    for make, scoring, target in (
        (AutoKernelClassifier, "roc_auc", np.digitize(y, [10, 16])),
        (AutoKernelRegressor, "roc_auc", y),
    ):
        with pytest.raises(ValueError, match="scoring must need no more than predictions"):
            make(scoring=scoring).fit(X, target)


def test_warnings_of_scorers_about_trials_are_not_those_of_the_model():
    X, y = friedman(120)
    y = np.digitize(y, [8, 22])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = AutoKernelClassifier(scoring="precision_macro", random_state=100).fit(X, y)
    assert np.isfinite(trials_of(model.search_results_)["score"]).all()


class Stated(ClassifierMixin, BaseEstimator):
    """A classifier of four classes whose answers are the rows."""

    classes_ = np.array(["a", "b", "c", "d"])

    def predict(self, X):
        return self.classes_[X.argmax(axis=1)]

    def predict_proba(self, X):
        return X

    def decision_function(self, X):
        return np.log(X)


@pytest.mark.parametrize("present", ["abc", "ad"])
def test_scorers_know_the_classes_that_rows_lack(present):
    rng = np.random.default_rng(0)
    X, y = rng.dirichlet(np.ones(4), 60), rng.choice(list(present), 60)
    of_fit = scored(get_scorer("neg_log_loss"), Stated(), X, y)
    assert of_fit == -log_loss(y, X, labels=list("abcd"))
    columns = np.isin(Stated.classes_, y)
    shares = X[:, columns] / X[:, columns].sum(axis=1, keepdims=True)
    if len(present) == 2:
        area = roc_auc_score(y == "d", shares[:, 1])
    else:
        area = roc_auc_score(y, shares, multi_class="ovr")
    assert scored(get_scorer("roc_auc_ovr"), Stated(), X, y) == pytest.approx(area)
    precision = scored(get_scorer("average_precision"), Stated(), X, y)
    assert len(present) / 60 < precision < 1
    assert scored(get_scorer("accuracy"), Stated(), X, y) == accuracy_score(y, Stated().predict(X))


@pytest.mark.parametrize("scoring", ["neg_log_loss", "roc_auc_ovr", "average_precision"])
@pytest.mark.parametrize("rows", ["alike", "in groups", "in order"])
def test_a_class_of_one_row_does_not_end_a_search_by_a_scorer(scoring, rows):
    X = np.random.default_rng(0).normal(size=(300, 2))
    y = np.digitize(X[:, 0], [-0.5, 0.5])
    y[7] = 3
    model = AutoKernelClassifier(
        time_budget=0.3, scoring=scoring, time=1 if rows == "in order" else None
    )
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "class", UserWarning)
        model.fit(X, y, **({"groups": np.arange(300) // 5} if rows == "in groups" else {}))
    assert np.isfinite(model.validation_score_)
    assert np.isfinite(model.score(X[100:], y[100:]))


def rare(n, seed):
    """Rows of which some are of the second class, whose probability never exceeds 1/2."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    return X, np.where(rng.uniform(size=n) < 0.5 / (1 + np.exp(4 - 3 * X[:, 0])), "rare", "often")


@pytest.mark.parametrize("scoring", ["f1_macro", "balanced_accuracy"])
def test_scorers_of_labels_choose_the_threshold(scoring, tmp_path):
    X, y = rare(1200, 0)
    model = AutoKernelClassifier(scoring=scoring, random_state=0).fit(X, y)
    assert 0 < model.decision_threshold_ < 0.45
    proba = model.predict_proba(X)[:, 1]
    np.testing.assert_array_equal(model.predict(X) == "rare", proba > model.decision_threshold_)
    new, truth = rare(3000, 1)
    plain = np.where(model.predict_proba(new)[:, 1] > 0.5, "rare", "often")
    found = balanced_accuracy_score(truth, model.predict(new))
    assert found > balanced_accuracy_score(truth, plain) + 0.05
    assert (model.held_out_["predicted"] == "rare").mean() > 0.02
    persistence.save(model, tmp_path / "model.skops")
    loaded = persistence.load(tmp_path / "model.skops")
    np.testing.assert_array_equal(loaded.predict(new), model.predict(new))
    assert model.score(new, truth) == pytest.approx(model.validation_score_, abs=0.1)


@pytest.mark.parametrize("scoring", [None, "accuracy", "roc_auc", "neg_log_loss"])
def test_other_scorers_predict_the_likeliest_class(scoring):
    X, y = rare(400, 0)
    model = AutoKernelClassifier(scoring=scoring, random_state=0).fit(X, y)
    assert model.decision_threshold_ == 0.5
