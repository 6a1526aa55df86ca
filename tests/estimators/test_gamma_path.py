"""Choosing gamma along a path on held-out rows, and being told of unseen bins."""

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from _conventions import parametrize_with_settings
from mercer import KernelClassifier, KernelRegressor, kernels, persistence, solvers
from mercer.estimators.selection import held_out
from mercer.maps import IdentityMap, Nystroem, RandomBinning, RandomFourier

PATH = [0.001, 0.03, 0.3, 30.0]
SPLIT_ROWS = {
    "check_sample_weight_equivalence_on_dense_data": "a row given twice may be parted",
    "check_sample_weight_equivalence_on_sparse_data": "a row given twice may be parted",
}


@pytest.mark.filterwarnings("ignore:.*of the bins of these rows")  # checks have few rows
@parametrize_with_settings(
    [],
    [
        KernelRegressor(gamma_path=[0.01, 0.1], n_components=32),
        KernelClassifier(gamma_path=[0.01, 0.1], n_components=32),
    ],
    expected_failed_checks=lambda _: SPLIT_ROWS,
)
def test_scikit_learn_conventions(estimator, check):
    check(estimator)


def waves(n=300, seed=0):
    X = np.random.default_rng(seed).uniform(-3, 3, size=(n, 2))
    return X, np.sin(2 * X).sum(axis=1)


def model(kind=KernelRegressor, **settings):
    return kind(**{"gamma_path": PATH, "n_components": 32, "random_state": 0, **settings})


# what is chosen


@pytest.mark.rounding
@pytest.mark.parametrize("feature_map", ["binning", "fourier", "nystroem"])
def test_the_fit_is_that_of_the_best_gamma(feature_map):
    X, y = waves()
    chosen = model(feature_map=feature_map).fit(X, y)
    best = PATH[np.argmax(chosen.gamma_path_["score"])]
    assert chosen.feature_map_.kernel_.gamma == best
    direct = model(feature_map=feature_map, gamma_path=None, gamma=best).fit(X, y)
    np.testing.assert_array_equal(chosen.map_coef_, direct.map_coef_)
    np.testing.assert_array_equal(chosen.predict(X), direct.predict(X))


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("kind", [KernelRegressor, KernelClassifier])
def test_scores_are_mean_losses_ofheld_out_rows(kind, weighted):
    X, y = waves()
    y = y if kind is KernelRegressor else np.array(["a", "b", "c"])[np.digitize(y, [-0.5, 0.5])]
    weights = np.random.default_rng(1).uniform(0.1, 3, len(y)) if weighted else np.ones(len(y))
    found = model(kind, tol=1e-8, scale=False).fit(X, y, weights)
    strata = None if kind is KernelRegressor else y
    held = held_out(found.feature_map_.key_, y, strata, 0.2)
    for gamma, score, n_features in zip(
        PATH, found.gamma_path_["score"], found.gamma_path_["n_features"], strict=True
    ):
        part = model(kind, tol=1e-8, scale=False, gamma_path=None, gamma=gamma)
        part.fit(X[~held], y[~held], weights[~held])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if kind is KernelRegressor:
                errors = (part.predict(X[held]) - y[held]) ** 2 / 2
            else:
                target = np.where(y[held][:, None] == part.classes_, 1, -1)
                errors = ((part.decision_function(X[held]) - target) ** 2 / 2).sum(axis=1)
        assert score == pytest.approx(-np.average(errors, weights=weights[held]), rel=1e-5)
        assert n_features == part.feature_map_.n_features_out_
    assert (found.gamma_path_["seconds"] > 0).all()


@pytest.mark.parametrize("loss", ["squared", "logistic", "multinomial", "hinge", "squared_hinge"])
def test_every_loss_of_a_classifier_chooses_well(loss):
    X, y = waves(600)
    found = model(KernelClassifier, loss=loss, class_weight="balanced").fit(X[:400], y[:400] > 0.3)
    assert found.feature_map_.kernel_.gamma in (0.03, 0.3)
    assert found.score(X[400:], y[400:] > 0.3) > 0.85


def test_several_outputs_without_intercept_and_sparse_inputs_choose_too():
    X, y = waves()
    Y = np.column_stack([y, -y])
    chosen = model(fit_intercept=False).fit(sparse.csr_array(X), Y)
    assert chosen.gamma_path_["score"].argmax() in (1, 2)
    alone = model(fit_intercept=False).fit(sparse.csr_array(X), y)
    np.testing.assert_allclose(
        chosen.gamma_path_["score"], 2 * alone.gamma_path_["score"], rtol=1e-6
    )


@pytest.mark.rounding
def test_rows_without_weight_are_not_there():
    X, y = waves()
    weights = np.arange(len(y)) % 3 > 0
    a = model().fit(X, y, weights)
    b = model().fit(X[weights], y[weights])
    np.testing.assert_allclose(a.gamma_path_["score"], b.gamma_path_["score"], rtol=1e-9)


# how rows are parted


def test_classes_keep_their_shares_and_single_rows_stay_in_the_fit():
    key = RandomBinning(random_state=0).fix_key()
    labels = np.repeat([0, 1, 2], [100, 50, 1])
    held = held_out(key, labels, labels, 0.2)
    assert [held[labels == label].sum() for label in range(3)] == [20, 10, 0]
    assert held_out(key, labels, None, 0.25).sum() == 38


@pytest.mark.parametrize("random_state", [None, 3, np.random.RandomState(1)])
def test_numbers_are_drawn_once_for_all_scales(random_state, monkeypatch):
    drawn = []
    plain = kernels.Laplacian.unit_widths
    monkeypatch.setattr(kernels.Laplacian, "unit_widths", lambda *a: drawn.append(1) or plain(*a))
    X, y = waves()
    model(random_state=random_state).fit(X, y)
    assert len(drawn) == 1


def test_without_a_seed_every_fit_is_another():
    X, y = waves()
    a, b = (model(random_state=None).fit(X, y) for _ in range(2))
    assert a.feature_map_.key_ != b.feature_map_.key_
    assert (a.gamma_path_["score"] != b.gamma_path_["score"]).all()


# living with scikit-learn


@pytest.mark.rounding
def test_map_objects_pipelines_frames_and_clones_work():
    X, y = waves()
    inside = model(
        feature_map=RandomBinning(n_components=32, random_state=0), n_components=None,
        random_state=None, gamma_path=np.array(PATH),
    )  # fmt: skip
    expected = model().fit(X, y)
    np.testing.assert_array_equal(clone(inside).fit(X, y).map_coef_, expected.map_coef_)
    line = make_pipeline(StandardScaler(), model(scale=False))
    np.testing.assert_allclose(line.fit(X, y).predict(X), expected.predict(X), rtol=1e-9)
    frame = pd.DataFrame(X, columns=["a", "b"])
    np.testing.assert_array_equal(model().fit(frame, y).predict(frame), expected.predict(X))


@pytest.mark.parametrize("random_state", [None, 0, np.random.RandomState(0)])
def test_a_chosen_model_survives_files_and_pickles(random_state, tmp_path):
    X, y = waves()
    saved = model(random_state=random_state).fit(X, y)
    persistence.save(saved, tmp_path / "m.skops")
    for again in (persistence.load(tmp_path / "m.skops"), pickle.loads(pickle.dumps(saved))):
        np.testing.assert_array_equal(again.predict(X), saved.predict(X))
        np.testing.assert_array_equal(again.gamma_path_["score"], saved.gamma_path_["score"])


def test_a_warm_start_keeps_the_chosen_gamma_until_the_path_changes():
    X, y = waves()
    found = model(warm_start=True).fit(X, y)
    path, map_ = found.gamma_path_, found.feature_map_
    found.set_params(alpha=0.01).fit(X, y)
    assert found.gamma_path_ is path
    assert found.feature_map_ is map_
    found.set_params(gamma_path=[30.0]).fit(X, y)
    assert found.feature_map_.kernel_.gamma == 30
    found.set_params(gamma_path=None).fit(X, y)
    assert not hasattr(found, "gamma_path_")


def test_an_interrupted_trial_leaves_a_model_that_predicts(monkeypatch):
    X, y = waves()
    trials = []

    def interrupted(self, problem, state, plain=solvers.ConjugateGradient.step):
        trials.append(problem)
        if len(trials) == 9:
            raise KeyboardInterrupt
        plain(self, problem, state)

    monkeypatch.setattr(solvers.ConjugateGradient, "step", interrupted)
    found = model(solver="cg", tol=1e-6)
    with pytest.raises(KeyboardInterrupt):
        found.fit(X, y)
    assert found.feature_map_.kernel_.gamma in PATH
    assert np.isfinite(found.predict(X)).all()
    assert not hasattr(found, "gamma_path_")


# saying no


TABLE = waves(40)


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"gamma": 0.3}, ValueError, "gamma must be left out beside gamma_path; got 0.3"),
        ({"gamma": "median"}, ValueError, "gamma must be left out beside gamma_path"),
        ({"feature_map": RandomFourier(gamma=2.0, n_components=32)}, ValueError, "got 2.0"),
        ({"kernel": kernels.Laplacian(0.7)}, ValueError, "gamma must be left out"),
        ({"feature_map": "linear", "n_components": None}, ValueError, "no gamma to choose"),
        ({"feature_map": IdentityMap(), "n_components": None}, ValueError, "no gamma to choose"),
        (
            {"feature_map": Nystroem(lambda A, B: A @ B.T, n_components=32)},
            ValueError,
            "no gamma to choose",
        ),
        ({"gamma_path": []}, TypeError, "gamma_path must be a one-dimensional array"),
        ({"gamma_path": 0.3}, TypeError, "gamma_path must be a one-dimensional array"),
        ({"gamma_path": "wide"}, TypeError, "gamma_path must be a one-dimensional array"),
        ({"gamma_path": [[0.1, 0.2]]}, TypeError, "gamma_path must be a one-dimensional array"),
        ({"gamma_path": [0.1, -1]}, ValueError, "gamma_path must be positive and finite; got -1"),
        ({"gamma_path": [0.1, np.nan]}, ValueError, "gamma_path must be positive and finite"),
        ({"validation_fraction": 0}, ValueError, "validation_fraction must be above 0"),
        ({"validation_fraction": 1.0}, ValueError, "validation_fraction must be above 0"),
        ({"validation_fraction": "few"}, TypeError, "validation_fraction must be a number"),
        ({"validation_fraction": 0.001}, ValueError, "must leave rows to fit and rows to hold"),
    ],
)
def test_a_path_that_makes_no_sense_is_refused(settings, error, message):
    with pytest.raises(error, match=message):
        model(**settings).fit(*TABLE)


# unseen bins


def test_prediction_speaks_of_unseen_boxes_once_for_all_chunks(monkeypatch):
    X, y = waves(200)
    new = waves(200, seed=1)[0]
    found = KernelRegressor(gamma=20.0, n_components=16, random_state=0).fit(X, y)
    monkeypatch.setattr("mercer._runtime.arrays.row_chunks.__defaults__", (1000,))
    with pytest.warns(UserWarning, match=r"\d+% of the bins .* smaller gamma") as caught:
        found.predict(new)
    assert len(caught) == 1
    found.predict(X)  # of known rows there is nothing to say
    mixed = np.vstack([X, X, X, new])
    found.predict(mixed)  # nor where the share over all rows is small


def test_default_settings_do_not_warn_of_unseen_bins(recwarn):
    for d in (1, 3, 6, 10):
        rng = np.random.default_rng(d)
        X, new = rng.normal(size=(300, d)), rng.normal(size=(100, d))
        KernelRegressor("binning", random_state=0).fit(X, X[:, 0]).predict(new)
    assert not recwarn.list


def test_trials_of_a_path_do_not_warn_of_unseen_bins(recwarn):
    X, y = waves()
    chosen = model(gamma_path=[0.1, 100.0]).fit(X, y)
    assert not recwarn.list
    assert chosen.feature_map_.kernel_.gamma == 0.1
