"""Automatic classifiers by the logistic loss: when it is chosen, and what follows from it."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import expit, logsumexp
from sklearn.metrics import log_loss

from mercer import AutoKernelClassifier, kernels, persistence
from mercer.auto import own_loss, trials
from mercer.auto.holdout import leave_one_out_log_odds
from mercer.auto.trials import Settings, log_odds, machine_responses
from mercer.auto.tuning import TUNING
from mercer.estimators.probabilities import Probabilities, SoftMax
from mercer.explain import shapley_values


def overlapping(n=1100, n_classes=2, seed=0):
    """Rows of classes that overlap, each about as likely as the others."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    logs = np.column_stack([2 * X[:, 0], 2 * np.sin(2 * X[:, 1]), X[:, 2]])
    logs = logs[:, :n_classes] + rng.gumbel(size=(n, n_classes))
    return X, np.array(["left", "right", "up"])[logs.argmax(axis=1)]


@pytest.fixture(scope="module", params=[2, 3])
def fitted(request):
    X, y = overlapping(n_classes=request.param)
    with pytest.MonkeyPatch.context() as patch:
        if request.param > 2:  # where both losses are about as good
            patch.setattr(TUNING, "log_odds_gain", 1.1)
        return AutoKernelClassifier(random_state=0).fit(X[:800], y[:800]), X, y


def test_overlapping_classes_are_fitted_by_their_own_loss(fitted):
    model = fitted[0]
    assert model.best_settings_["transform"] == "log-odds"
    assert model.kernel_machine_.loss == ("logistic" if len(model.classes_) == 2 else "multinomial")
    assert isinstance(model.probabilities_, SoftMax)
    results = model.search_results_
    assert results["stage"][results["chosen"]].tolist() == ["log odds"]
    assert results["error"][results["chosen"]][0] < 0.5


def test_their_log_loss_is_less_than_that_of_the_squared_loss(fitted, monkeypatch):
    model, X, y = fitted
    monkeypatch.setattr(TUNING, "log_odds_work", 0.0)
    squared = AutoKernelClassifier(random_state=0).fit(X[:800], y[:800])
    assert squared.best_settings_["transform"] == "identity"
    assert "log odds" not in squared.search_results_["stage"]
    assert isinstance(squared.probabilities_, Probabilities)
    own, other = (log_loss(y[800:], m.predict_proba(X[800:])) for m in (model, squared))
    assert own < (1.005 if len(model.classes_) == 2 else 1.05) * other
    held = model.held_out_
    promised = log_loss(held["target"], held["probabilities"], labels=model.classes_)
    assert own < 1.1 * promised


def test_the_predicted_class_is_the_likeliest_one_and_files_keep_all(fitted, tmp_path):
    model, X, _ = fitted
    proba = model.predict_proba(X)
    np.testing.assert_allclose(proba.sum(axis=1), 1)
    assert (model.predict(X) == model.classes_[proba.argmax(axis=1)]).all()
    persistence.save(model, tmp_path / "model.skops")
    loaded = persistence.load(tmp_path / "model.skops")
    np.testing.assert_array_equal(loaded.predict_proba(X), proba)
    assert model.predict_set(X[:50], coverage=0.9).any(axis=1).all()


def test_shapley_values_add_up_to_the_log_odds(fitted):
    model, X, _ = fitted
    if model.best_settings_["kernel"] == "exponential":
        pytest.skip("values of this kernel are estimates")
    values = shapley_values(model, X[:3])
    found = values.values.sum(axis=1) + values.base_values
    np.testing.assert_allclose(np.squeeze(found), model.decision_function(X[:3]), atol=1e-3)


def test_classes_that_hardly_overlap_keep_the_squared_loss():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, 3))
    y = np.hypot(X[:, 0], X[:, 1]) < 1
    model = AutoKernelClassifier(random_state=0).fit(X, y)
    if model.best_settings_["transform"] == "identity":
        assert isinstance(model.probabilities_, Probabilities)
    stages = model.search_results_["stage"]
    assert "log odds" in stages
    assert log_loss(y, model.predict_proba(X)) < 0.2


def test_a_scorer_chooses_the_loss_and_its_strength():
    X, y = overlapping(700)
    model = AutoKernelClassifier(scoring="roc_auc", random_state=0).fit(X, y)
    results = model.search_results_
    tried = results["stage"] == "log odds"
    assert tried.any()
    assert np.isfinite(results["score"][tried]).all()
    assert np.isfinite(model.validation_score_)


def test_weights_and_groups_reach_the_own_loss():
    X, y = overlapping(900)
    weights = np.where(y == "left", 3.0, 1.0)
    groups = np.random.default_rng(1).integers(0, 60, len(y))
    model = AutoKernelClassifier(random_state=0).fit(X, y, weights, groups)
    assert "log odds" in model.search_results_["stage"]
    assert model.predict_proba(X)[:, 0].mean() > 0.6  # "left", which weighs more


@pytest.mark.parametrize("n_classes", [2, 3])
def test_squared_responses_of_the_search_are_those_of_another_fit(n_classes, monkeypatch):
    ways, squared = [], own_loss._squared

    def all_ways(search, *given):
        choice = search.choice
        record = choice.record
        ways.append(squared(search, *given))
        for other in (replace(record, rows=record.rows - 1), replace(record, stage="landmarks")):
            search.choice = replace(choice, record=other)
            ways.append(squared(search, *given))
        search.choice = choice
        assert ways[0] is choice.responses
        return ways[0]

    monkeypatch.setattr(own_loss, "_squared", all_ways)
    AutoKernelClassifier(random_state=0).fit(*overlapping(400, n_classes))
    found, *refits = ways
    for refit in refits:
        assert refit is not found
        apart = np.sqrt(np.mean(np.square(refit - found)))
        assert apart < 0.03 * refit.std()  # trials round


@pytest.mark.parametrize("weighted", [False, True])
def test_iterations_give_the_responses_of_a_factor(weighted, monkeypatch):
    rng = np.random.default_rng(0)
    X, held, weights = rng.normal(size=(200, 3)), rng.normal(size=(9, 3)), rng.uniform(1, 2, 200)
    given = Settings(kernel="gaussian", gamma=0.5), X, held, np.sin(2 * X), [1.0, 0.1], 1e-9
    given = *given, weights if weighted else None
    truth = machine_responses(*given)
    monkeypatch.setattr(TUNING, "direct_rows", 199)
    monkeypatch.setattr(trials, "Cholesky", None)
    for own, other in zip(machine_responses(*given), truth, strict=True):
        np.testing.assert_allclose(own, other, atol=1e-6)


def test_a_short_budget_leaves_the_own_loss_out():
    X, y = overlapping(600)
    model = AutoKernelClassifier(time_budget=1.0, random_state=0).fit(X, y)
    assert "log odds" not in model.search_results_["stage"]


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("weighted", [False, True])
def test_log_odds_are_those_of_the_least_penalised_loss(n_classes, weighted):
    rng = np.random.default_rng(0)
    X, labels = rng.normal(size=(60, 2)), rng.integers(0, n_classes, 60)
    held, weights = rng.normal(size=(7, 2)), rng.uniform(0.5, 2, 60) if weighted else None
    target = (labels[:, None] == np.arange(n_classes)).astype(float)
    if n_classes == 2:
        target = 2 * target[:, 1:] - 1
    settings = Settings(kernel="gaussian", gamma=0.5)
    found = log_odds(settings, X, held, target, [0.3, 3.0], weights)
    kernel, w = kernels.get("gaussian", 0.5), np.ones(60) if weights is None else weights
    K, across = np.asarray(kernel(X)), np.asarray(kernel(held, X))
    for ridge, responses in zip([0.3, 3.0], found, strict=True):

        def penalised(theta, ridge=ridge):
            a, b = theta[: target.size].reshape(target.shape), theta[target.size :]
            u = K @ a + b
            if n_classes == 2:
                losses = np.logaddexp(0, -target * u)[:, 0]
            else:
                losses = logsumexp(u, axis=1) - (target * u).sum(axis=1)
            return w @ losses + 0.5 * ridge * np.sum(a * (K @ a))

        theta = minimize(penalised, np.zeros(target.size + target.shape[1]), tol=1e-10).x
        a, b = theta[: target.size].reshape(target.shape), theta[target.size :]
        wanted = across @ a + b
        if n_classes == 2:
            np.testing.assert_allclose(expit(responses), expit(wanted), atol=0.01)
        else:
            own, other = (np.exp(u - logsumexp(u, axis=1)[:, None]) for u in (responses, wanted))
            np.testing.assert_allclose(own, other, atol=0.01)


@pytest.mark.parametrize(("weighted", "shifted"), [(False, False), (True, False), (False, True)])
def test_log_odds_of_rows_left_out_are_nearly_those_of_refits(weighted, shifted):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 2))
    target = np.where(rng.uniform(size=80) < expit(2 * X[:, 0]), 1.0, -1.0)[:, None]
    weights = rng.uniform(0.5, 2, 80) if weighted else None
    settings, ridge = Settings(kernel="gaussian", gamma=0.5), 0.5
    offset = rng.normal(size=80) if shifted else None
    [fitted] = log_odds(settings, X, X, target, [ridge], weights, None, offset, offset)
    K = np.asarray(kernels.get("gaussian", 0.5)(X))
    found = leave_one_out_log_odds(K, fitted, target, ridge, weights, offset)
    refits = np.empty_like(found)
    for row in range(80):
        others = np.arange(80) != row
        own = None if weights is None else weights[others]
        given = (
            [ridge],
            own,
            None,
            *(None if offset is None else offset[r] for r in (others, [row])),
        )
        [refits[row]] = log_odds(settings, X[others], X[[row]], target[others], *given)
    apart = np.abs(found - refits)
    assert np.median(apart) < 0.02
    assert apart.max() < 0.2
    assert np.median(np.abs(fitted - refits)) > 4 * np.median(apart)
