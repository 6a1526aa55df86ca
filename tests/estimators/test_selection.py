"""Choosing alpha along a path, alone and with gamma: by held-out rows or by leaving out each."""

import pickle

import numpy as np
import pytest
from sklearn.base import clone

from _conventions import parametrize_with_settings
from mercer import KernelClassifier, KernelRegressor, persistence, solvers
from mercer.estimators.selection import held_out, split_key
from mercer.maps import IdentityMap, RandomFourier
from mercer.penalties import L2

ALPHAS = [1e-5, 1e-4, 1e-2, 10.0]
SPLIT_ROWS = {
    "check_sample_weight_equivalence_on_dense_data": "a row given twice may be parted",
    "check_sample_weight_equivalence_on_sparse_data": "a row given twice may be parted",
}


@pytest.mark.filterwarnings("ignore:.*of the bins of these rows")  # checks have few rows
@parametrize_with_settings(
    [],
    [
        KernelRegressor(n_components=32, alphas=[1e-4, 1e-2], selection="holdout"),
        KernelClassifier("fourier", n_components=32, alphas=[1e-4, 1e-2], selection="holdout"),
    ],
    expected_failed_checks=lambda model: SPLIT_ROWS,
)
def test_scikit_learn_conventions(estimator, check):
    check(estimator)


def waves(n=240, seed=0, noise=0.3):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-3, 3, size=(n, 2))
    return X, np.sin(2 * X).sum(axis=1) + noise * rng.normal(size=n)


def labels(n=240, seed=0):
    X, y = waves(n, seed)
    return X, np.array(["a", "b", "c"])[np.digitize(y, [-0.5, 0.5])]


def model(kind=KernelRegressor, **settings):
    given = {"feature_map": "fourier", "n_components": 64, "alphas": ALPHAS, "random_state": 0}
    given |= {"selection": "holdout", "tol": 1e-8, **settings}
    if given["feature_map"] in ("exact", "linear"):
        del given["n_components"]
    return kind(**given)


# what is chosen


@pytest.mark.rounding
@pytest.mark.parametrize("feature_map", ["binning", "fourier", "nystroem", "exact", "linear"])
def test_the_fit_is_that_of_the_best_alpha(feature_map):
    X, y = waves()
    found = model(feature_map=feature_map).fit(X, y)
    assert found.alpha_ == ALPHAS[np.argmax(found.path_["score"])]
    for alpha in ALPHAS:
        alone = model(feature_map=feature_map, alphas=None, alpha=alpha).fit(X, y)
        one = found.at_alpha(alpha)
        np.testing.assert_allclose(one.predict(X), alone.predict(X), atol=1e-6)
        assert one.alpha_ == alpha
        assert one.converged_
    np.testing.assert_array_equal(found.at_alpha(found.alpha_).predict(X), found.predict(X))


@pytest.mark.parametrize("solver", ["cholesky", "cg", "block", "newton-cg"])
def test_every_solver_follows_the_path_to_the_same_models(solver):
    X, y = waves()
    found = model(solver=solver).fit(X, y)
    expected = model(solver="cholesky").fit(X, y)
    np.testing.assert_allclose(found.path_["score"], expected.path_["score"], rtol=1e-5)
    np.testing.assert_allclose(found.path_["coef"], expected.path_["coef"], atol=1e-4)
    assert found.solver_ == solver
    assert found.path_["converged"].all()


@pytest.mark.parametrize("scoring", ["loss", "accuracy"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("loss", ["squared", "logistic", "multinomial"])
def test_scores_are_those_of_held_out_rows(loss, weighted, scoring):
    X, y = labels()
    weights = np.random.default_rng(1).uniform(0.1, 3, len(y)) if weighted else np.ones(len(y))
    settings = {"loss": loss, "scoring": scoring, "scale": False, "gamma": 0.5, "tol": 1e-8}
    found = model(KernelClassifier, **settings).fit(X, y, weights)
    held = held_out(found.feature_map_.key_, y, y, 0.2)
    for alpha, score in zip(ALPHAS, found.path_["score"], strict=True):
        part = model(KernelClassifier, **settings, alphas=None, alpha=alpha)
        part.fit(X[~held], y[~held], weights[~held])
        if scoring == "accuracy":
            assert score == pytest.approx(part.score(X[held], y[held], weights[held]))
            continue
        target = np.where(y[held][:, None] == part.classes_, 1, -1)
        target = np.maximum(target, 0) if loss == "multinomial" else target
        losses = part._loss_.value(part.decision_function(X[held]), target)
        losses = losses if losses.ndim == 1 else losses.sum(axis=1)
        assert score == pytest.approx(-np.average(losses, weights=weights[held]), rel=1e-4)


def test_an_l1_path_is_chosen_from_too():
    X, y = waves()
    found = model(penalty="l1", alphas=[1e-4, 1e-2, 10.0], tol=1e-6).fit(X, y)
    counts = [np.count_nonzero(coef) for coef in found.path_["coef"]]
    assert counts[0] > counts[1] > counts[2] == 0
    assert found.alpha_ < 10


def test_equal_scores_choose_the_strongest_penalty():
    X = waves()[0]
    kind = model(KernelClassifier, scoring="accuracy", alphas=[1e-9, 2e-9, 1.5e-9])
    found = kind.fit(X, np.where(X[:, 0] > 0, "right", "left"))
    assert np.ptp(found.path_["score"]) == 0
    assert found.alpha_ == 2e-9


def test_alphas_and_gammas_are_chosen_together():
    X, y = waves()
    gammas = [0.001, 1.0, 1000.0]
    found = model(gamma_path=gammas).fit(X, y)
    assert found.feature_map_.kernel_.gamma == gammas[np.argmax(found.gamma_path_["score"])] == 1
    assert found.gamma_path_["score"].max() == found.path_["score"].max()
    for gamma, alpha, score in zip(
        gammas, found.gamma_path_["alpha"], found.gamma_path_["score"], strict=True
    ):
        alone = model(gamma=gamma).fit(X, y)
        assert alone.alpha_ == alpha
        assert alone.path_["score"].max() == pytest.approx(score, rel=1e-9)


@pytest.mark.parametrize("selection", ["holdout", "loo"])
def test_several_outputs_share_a_path(selection):
    X, y = waves()
    Y = np.column_stack([y, -2 * y])
    both = model(selection=selection).fit(X, Y)
    alone = model(selection=selection).fit(X, y)
    np.testing.assert_allclose(both.path_["score"], 5 * alone.path_["score"], rtol=1e-6)
    assert both.path_["coef"].shape == (4, 2, 64)
    assert both.path_["intercept"].shape == (4, 2)
    one, other = both.at_alpha(ALPHAS[2]).predict(X), alone.at_alpha(ALPHAS[2]).predict(X)
    np.testing.assert_allclose(one, np.column_stack([other, -2 * other]), atol=1e-6)


@pytest.mark.parametrize("feature_map", ["fourier", "exact"])
def test_callbacks_see_every_strength(feature_map):
    X, y = waves()
    monitor = pytest.importorskip("sklearn.callback").ScoringMonitor(scoring="r2")
    found = model(feature_map=feature_map, solver="cg").set_callbacks(monitor).fit(X, y)
    rows = [row for row in monitor.get_logs().data if row["task_name"] == "iteration"]
    assert len(rows) >= found.path_["n_iter"].max() > 0


@pytest.mark.rounding
def test_rows_without_weight_are_not_there():
    X, y = waves()
    weights = np.arange(len(y)) % 3 > 0
    a, b = model().fit(X, y, weights), model().fit(X[weights], y[weights])
    np.testing.assert_allclose(a.path_["score"], b.path_["score"], rtol=1e-9)
    np.testing.assert_allclose(a.path_["coef"], b.path_["coef"], rtol=1e-6, atol=1e-9)


@pytest.mark.rounding
def test_a_map_without_a_seed_is_split_by_that_of_the_model():
    X, y = waves()
    a, b, c = (model(feature_map="linear", random_state=s).fit(X, y) for s in (0, 0, 1))
    np.testing.assert_array_equal(a.path_["score"], b.path_["score"])
    assert (a.path_["score"] != c.path_["score"]).any()
    assert split_key(IdentityMap(), a.random_state) == split_key(IdentityMap(), b.random_state)


@pytest.mark.parametrize("random_state", [None, np.random.RandomState(1)], ids=["none", "state"])
def test_trial_and_fit_share_one_realisation(random_state):
    X, y = waves()
    found = model(random_state=random_state).fit(X, y)
    score = found.path_["score"]
    held = held_out(found.feature_map_.key_, y, None, 0.2)
    again = model(random_state=None, scale=False, feature_map=found.feature_map_, n_components=None)
    assert held.sum() == 48
    assert again.set_params(alphas=ALPHAS).fit(X, y).path_["score"].shape == score.shape


# leaving out every row


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("feature_map", ["exact", "nystroem", "linear"])
def test_leaving_out_in_closed_form_is_leaving_out(feature_map, weighted, fit_intercept):
    X, y = waves(30)
    weights = np.random.default_rng(1).uniform(0.5, 2, len(y)) if weighted else np.ones(len(y))
    settings = {"feature_map": feature_map, "scale": False, "fit_intercept": fit_intercept}
    if feature_map == "nystroem":
        settings["feature_map"] = RandomFourier(gamma=0.5, n_components=12, random_state=0)
        settings["n_components"] = None
    elif feature_map == "exact":
        settings["gamma"] = 0.5
    found = model(**settings, selection="loo", alphas=ALPHAS[1:]).fit(X, y, weights)
    assert found.selection_ == "loo"
    for alpha, score in zip(ALPHAS[1:], found.path_["score"], strict=True):
        losses = []
        for i in range(len(y)):
            rest = np.arange(len(y)) != i
            # The strength is a share of all rows: leaving one out leaves its n * alpha.
            strength = alpha * weights.sum() / weights[rest].sum()
            part = model(**settings, alphas=None, alpha=strength)
            part.fit(X[rest], y[rest], weights[rest])
            losses.append((part.predict(X[i : i + 1])[0] - y[i]) ** 2 / 2)
        assert score == pytest.approx(-np.average(losses, weights=weights), rel=1e-6)


def test_rows_are_left_out_unasked_where_that_is_cheap():
    X, y = waves(100)
    assert model(selection="auto").fit(X, y).selection_ == "loo"
    assert model(selection="auto", penalty="l1", tol=1e-3).fit(X, y).selection_ == "holdout"
    alone = model(selection="auto", alphas=None, gamma_path=[0.1, 1.0]).fit(X, y)
    assert alone.selection_ == "holdout"
    classes = model(KernelClassifier, selection="auto", loss="logistic").fit(X, y > 0)
    assert classes.selection_ == "holdout"


@pytest.mark.parametrize("gamma_path", [None, [0.1, 1.0]], ids=["one", "path"])
def test_leaving_out_leaves_nothing_to_solve(gamma_path):
    X, y = waves()
    settings = {"selection": "loo", "gamma_path": gamma_path, "feature_map": "exact"}
    found = model(**settings).fit(X, y)
    assert found.solver_ == "cholesky"
    assert found.path_["n_iter"].tolist() == [0, 0, 0, 0]
    assert found.converged_
    other = model(**settings, solver="block").fit(X, y)
    np.testing.assert_allclose(found.path_["coef"], other.path_["coef"], rtol=1e-4, atol=1e-6)


def test_many_rows_and_features_are_held_out(monkeypatch):
    X, y = waves(100)  # 100 * 64**2 products, or 80 of those
    monkeypatch.setattr("mercer.estimators.selection._CHEAP_SIDE", 65)
    assert model(selection="auto").fit(X, y).selection_ == "holdout"
    monkeypatch.setattr("mercer.estimators.selection._CHEAP_SIDE", 75)
    assert model(selection="auto").fit(X, y).selection_ == "loo"


# living with scikit-learn


@pytest.mark.rounding
def test_a_chosen_model_survives_files_pickles_and_clones(tmp_path):
    X, y = waves()
    saved = model(gamma_path=[0.1, 1.0]).fit(X, y)
    persistence.save(saved, tmp_path / "m.skops")
    for again in (persistence.load(tmp_path / "m.skops"), pickle.loads(pickle.dumps(saved))):
        np.testing.assert_array_equal(again.predict(X), saved.predict(X))
        one, other = again.at_alpha(ALPHAS[1]), saved.at_alpha(ALPHAS[1])
        np.testing.assert_array_equal(one.predict(X), other.predict(X))
    np.testing.assert_array_equal(clone(saved).fit(X, y).map_coef_, saved.map_coef_)


def test_a_warm_start_keeps_the_choice_until_the_path_changes():
    X, y = waves()
    found = model(warm_start=True).fit(X, y)
    scores, map_, alpha = found.path_["score"], found.feature_map_, found.alpha_
    found.set_params(tol=1e-11).fit(X, y)
    assert found.path_["score"] is scores
    assert found.feature_map_ is map_
    assert found.alpha_ == alpha
    found.set_params(alphas=[0.5, 5.0]).fit(X, y)
    assert found.path_["alpha"].tolist() == [0.5, 5.0]
    found.set_params(alphas=None, alpha=0.25).fit(X, y)
    assert not hasattr(found, "path_")
    assert found.alpha_ == 0.25


@pytest.mark.parametrize("stop_at", [1, 3, 9])
def test_an_interrupted_path_leaves_a_model_that_predicts(stop_at, monkeypatch):
    X, y = waves()
    steps = []

    def interrupted(self, problem, state, plain=solvers.ConjugateGradient.step):
        steps.append(problem)
        if len(steps) == stop_at:
            raise KeyboardInterrupt
        plain(self, problem, state)

    monkeypatch.setattr(solvers.ConjugateGradient, "step", interrupted)
    found = model(solver="cg", tol=1e-3)
    with pytest.raises(KeyboardInterrupt):
        found.fit(X, y)
    assert np.isfinite(found.predict(X)).all()


# saying no


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"alpha": 0.1}, ValueError, "alpha must be left out beside alphas; got 0.1"),
        ({"penalty": L2(0.1)}, ValueError, "penalty must be a name beside alphas"),
        ({"alphas": []}, TypeError, "alphas must be a one-dimensional array"),
        ({"alphas": 0.3}, TypeError, "alphas must be a one-dimensional array"),
        ({"alphas": [0.1, -1]}, ValueError, "alphas must be positive and finite; got -1"),
        ({"alphas": [0.1, np.inf]}, ValueError, "alphas must be positive and finite; got inf"),
        ({"selection": "cv"}, ValueError, "selection must be one of"),
        ({"selection": "loo", "penalty": "l1"}, ValueError, "selection='loo'"),
        ({"selection": "loo", "loss": "huber"}, ValueError, "selection='loo'"),
        ({"validation_fraction": 0}, ValueError, "validation_fraction must be above 0"),
    ],
)
def test_a_path_that_makes_no_sense_is_refused(settings, error, message):
    with pytest.raises(error, match=message):
        model(**settings).fit(*waves(40))


def test_a_scoring_that_does_not_exist_is_refused():
    with pytest.raises(ValueError, match="scoring must be one of"):
        model(KernelClassifier, scoring="f1", tol=1e-3).fit(*labels(60))


def test_only_alphas_of_a_path_make_models():
    X, y = waves(60)
    with pytest.raises(ValueError, match="alphas must be given to fit"):
        model(alphas=None, alpha=0.1).fit(X, y).at_alpha(0.1)
    with pytest.raises(ValueError, match="alpha must be one of"):
        model(alphas=[0.1, 1.0]).fit(X, y).at_alpha(0.2)
