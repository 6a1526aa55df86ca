"""Probabilities of classes by losses that define none, calibrated on rows not fitted."""

import copy
import pickle

import numpy as np
import pytest
from scipy import sparse
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_breast_cancer, load_wine
from sklearn.ensemble import VotingClassifier
from sklearn.inspection import DecisionBoundaryDisplay
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import TunedThresholdClassifierCV, train_test_split
from sklearn.semi_supervised import SelfTrainingClassifier

from mercer import (
    AutoKernelClassifier,
    DoublySGDClassifier,
    KernelClassifier,
    LocalKernelClassifier,
    SparseKernelClassifier,
)
from mercer.estimators import probabilities
from mercer.estimators.probabilities import Probabilities, SoftMax, check_probabilities
from mercer.losses import Logistic, Multinomial
from mercer.solvers import BlockCoordinateDescent

pytestmark = pytest.mark.filterwarnings("ignore:.*bins of these rows were not met")

KINDS = [
    KernelClassifier(random_state=0),
    KernelClassifier("exact", loss="squared_hinge"),
    KernelClassifier("fourier", loss="smooth_hinge", random_state=0),
    KernelClassifier("fourier", loss="hinge", random_state=0),
    LocalKernelClassifier(leaf_size=40, random_state=0),
    LocalKernelClassifier(leaf_size=40, loss="smooth_hinge", random_state=0),
    SparseKernelClassifier(random_state=0, max_rounds=3),
    DoublySGDClassifier(loss="squared", max_iter=5, random_state=0),
]


def table(n_classes=3, n=120, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    y = np.digitize(X[:, 0] + 0.7 * rng.normal(size=n), [-0.5, 0.5][: n_classes - 1])
    return X, np.array(["a", "b", "c"])[y]


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("model", KINDS, ids=repr)
def test_the_likeliest_class_is_the_predicted_one(model, n_classes):
    X, y = table(n_classes)
    model.fit(X, y)
    new = 3 * np.random.default_rng(1).normal(size=(300, 2))
    proba = model.predict_proba(new)
    assert proba.shape == (300, n_classes)
    np.testing.assert_allclose(proba.sum(axis=1), 1, rtol=1e-12)
    np.testing.assert_array_equal(model.classes_[proba.argmax(axis=1)], model.predict(new))
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict_proba(new), proba)


@pytest.mark.parametrize("load", [load_breast_cancer, load_wine])
@pytest.mark.parametrize("loss", ["squared", "squared_hinge"])
def test_calibrated_probabilities_are_as_good_as_those_of_the_logistic_loss(load, loss):
    parts = train_test_split(*load(return_X_y=True), random_state=0)
    lost = {}
    for each in (loss, "logistic"):
        model = KernelClassifier("exact", loss=each).fit(parts[0], parts[2])
        lost[each] = log_loss(parts[3], model.predict_proba(parts[1]))
    assert lost[loss] < lost["logistic"]


def test_probabilities_of_tied_responses_have_the_predicted_class_first():
    scale = Probabilities(0.01, 0.25)
    assert scale(np.array([0.0])).tolist() == [[0.5, 0.5]]
    assert scale(np.array([1e-30])).argmax() == 1
    below = scale(np.array([[-3.0, -2.0, -2.5], [5e-17, 0.0, 1e-16]]))
    assert below.argmax(axis=1).tolist() == [1, 2]


def test_probabilities_are_shares_above_a_floor_that_are_scaled_to_sum_one():
    found = Probabilities(floor=0.01, power=1.0)(np.array([0.6, -1.5]))
    np.testing.assert_allclose(found, [[0.21 / 1.02, 0.81 / 1.02], [1.26 / 1.27, 0.01 / 1.27]])


@pytest.mark.parametrize("kind", [Probabilities, SoftMax])
def test_maps_have_the_least_log_loss_of_all_trials_with_one_more_row_of_another_class(kind):
    rng = np.random.default_rng(0)
    responses, labels = rng.normal(size=(50, 3)), rng.integers(3, size=50)
    weights = rng.uniform(size=50)
    best = kind.fitted(responses, labels, weights)

    def lost(scale):
        logs = np.log(scale(responses))
        true = weights @ logs[np.arange(50), labels]
        others = [logs[row, label] for row in range(50) for label in {0, 1, 2} - {labels[row]}]
        return -true - np.average(others, weights=np.repeat(weights, 2))

    if kind is SoftMax:
        trials = [SoftMax(p) for p in probabilities._OF_LOG_ODDS]
    else:
        trials = [Probabilities(f, p) for f in probabilities._FLOORS for p in probabilities._POWERS]
    np.testing.assert_allclose(lost(best), min(map(lost, trials)), rtol=1e-12)


@pytest.mark.parametrize("kind", [Probabilities, SoftMax])
def test_where_all_held_out_rows_are_right_errors_are_as_rare_as_one_of_them(kind):
    for n in (20, 200):
        labels = np.arange(n) % 2
        responses = (8.0 if kind is SoftMax else 0.98) * np.where(labels, 1.0, -1.0)
        wrong = kind.fitted(responses, labels)(responses)[np.arange(n), 1 - labels]
        np.testing.assert_array_less(0.2 / n, wrong)
        np.testing.assert_array_less(wrong, 2.0 / n)


@pytest.mark.parametrize("kind", ["dense", "sparse", "texts"])
def test_a_weight_of_two_is_a_row_given_twice(kind):
    X, y = table(2)
    weights = np.random.default_rng(1).integers(0, 3, size=len(X))
    model = KernelClassifier("exact", loss="squared", scale=False)
    if kind == "sparse":
        X = sparse.csr_array(np.round(X))
    elif kind == "texts":
        X = np.array([" ".join(map(str, row.round(1))) for row in X], dtype=object)
        model = KernelClassifier("ngrams")
    twice = np.repeat(np.arange(len(y)), weights)
    weighted = model.fit(X, y, weights).predict_proba(X)
    repeated = model.fit(X[twice], y[twice]).predict_proba(X)
    np.testing.assert_allclose(repeated, weighted, rtol=1e-4)


def test_no_row_is_both_fitted_and_judged():
    X, y = table()
    target = np.where(y[:, None] == np.unique(y), 1.0, -1.0)
    twice = np.concatenate([X, X]), np.concatenate([target, target])
    fitted, judged = probabilities._halves(probabilities.TrainingSample(*twice))
    assert not {tuple(row) for row in twice[0][fitted]} & {tuple(row) for row in twice[0][judged]}
    assert 100 < len(fitted) < 140
    assert len(fitted) + len(judged) == 240


def test_sparse_rows_are_split_as_dense_ones():
    X = np.random.default_rng(0).poisson(0.5, size=(30, 7)).astype(np.float32)
    sparse_keys = probabilities._keys(sparse.csr_array(X))
    np.testing.assert_array_equal(sparse_keys, probabilities._keys(X.astype(float)))


@pytest.mark.parametrize("y", [[0, 1], [0, 0, 0, 1], [0, 1, 2, 2], [2, 0, 1, 1, 1, 1]])
def test_classes_of_one_row_have_probabilities(y):
    X = np.arange(len(y), dtype=float)[:, None]
    model = KernelClassifier("exact").fit(X, y)
    proba = model.predict_proba(X)
    assert proba.shape == (len(y), len(set(y)))
    assert np.all(proba > 0)
    np.testing.assert_array_equal(model.classes_[proba.argmax(axis=1)], model.predict(X))


def test_large_tables_are_calibrated_on_a_sample(monkeypatch):
    X, y = table(2, n=400)
    monkeypatch.setattr(probabilities, "_MOST_ROWS", 100)
    monkeypatch.setattr(probabilities, "_MOST_JUDGED", 20)
    rows = probabilities.TrainingSample(X, np.where(y == "a", -1.0, 1.0))
    fitted, judged = probabilities._halves(rows)
    assert 40 < len(fitted) < 60
    assert len(judged) == 20
    assert KernelClassifier("exact").fit(X, y).predict_proba(X).shape == (400, 2)


def test_choices_of_the_fit_are_those_of_the_calibration(tmp_path):
    X, y = table(2)
    path = {"alphas": [1e-3, 1e-1], "gamma_path": [0.1, 1.0], "random_state": 0}
    model = KernelClassifier("fourier", n_components=20, **path).fit(X, y)
    copy = model._to_calibrate()
    assert (copy.alphas, copy.alpha, copy.gamma_path) == (None, model.alpha_, None)
    assert copy.feature_map.get_params() == model.feature_map_.get_params()
    solver = BlockCoordinateDescent(checkpoint=tmp_path)
    blocks = KernelClassifier("fourier", solver=solver, random_state=0).fit(X, y)
    assert blocks._to_calibrate().solver.checkpoint is None
    assert SparseKernelClassifier(alpha="cv", random_state=0).fit(X, y)._to_calibrate().alpha > 0


def test_another_strength_of_a_path_and_partial_fits_have_no_calibration():
    X, y = table(2)
    model = KernelClassifier("exact", alphas=[1e-3, 1e-1]).fit(X, y)
    assert hasattr(model.at_alpha(model.alpha_), "predict_proba")
    (other,) = {1e-3, 1e-1} - {model.alpha_}
    assert not hasattr(model.at_alpha(other), "predict_proba")
    stream = DoublySGDClassifier(loss="squared", max_iter=2, random_state=0).fit(X, y)
    assert hasattr(stream, "predict_proba")
    assert not hasattr(stream.partial_fit(X, y), "predict_proba")


@pytest.mark.parametrize(
    ("floor", "power", "rule"),
    [
        (-1.0, 1.0, "floor of a fitted Probabilities must be from 0.0003 to 0.3"),
        (0.01, 1e308, "power of a fitted Probabilities must be from 0.25 to 6"),
    ],
)
def test_copies_with_a_damaged_calibration_are_refused(floor, power, rule):
    model = KernelClassifier("exact").fit(*table(2))
    model._probabilities_ = Probabilities(floor, power)
    with pytest.raises(ValueError, match=rule):
        copy.copy(model)


def test_automatic_models_calibrate_once(monkeypatch):
    X, y = table(2)
    monkeypatch.setattr(probabilities, "_halves", None)  # which a second calibration calls
    model = AutoKernelClassifier(time_budget=1, random_state=0).fit(X, y)
    assert not hasattr(model.kernel_machine_, "predict_proba")
    assert model.predict_proba(X).shape == (120, 2)


def test_tools_that_need_probabilities_take_the_default_classifier():
    X, y = table(2)
    model = KernelClassifier(random_state=0)
    some = np.where(np.arange(120) % 3 == 0, -1, y == "a")
    voting = VotingClassifier([("k", model), ("l", LogisticRegression())], voting="soft")
    assert voting.fit(X, y).score(X, y) > 0.7
    assert SelfTrainingClassifier(model).fit(X, some).score(X, y == "a") > 0.7
    assert TunedThresholdClassifierCV(model, cv=2).fit(X, y == "a").score(X, y == "a") > 0.7
    calibrator = CalibratedClassifierCV(model, cv=2).fit(X, y)
    assert calibrator.predict_proba(X).shape == (120, 2)
    display = DecisionBoundaryDisplay.from_estimator(
        model.fit(X, y), X, response_method="predict_proba", grid_resolution=5
    )
    assert display.response.shape == (5, 5)


def test_log_odds_at_a_power_of_1_have_the_probabilities_of_their_losses():
    u = 3 * np.random.default_rng(0).normal(size=(200, 3))
    np.testing.assert_allclose(SoftMax()(u), Multinomial().proba(u), rtol=1e-12)
    np.testing.assert_allclose(SoftMax()(u[:, 0])[:, 1], Logistic().proba(u[:, 0]), rtol=1e-12)


def test_the_power_is_that_of_the_least_log_loss_and_weights_are_counts():
    rng = np.random.default_rng(0)
    u, counts = 2 * rng.normal(size=(3000, 3)), rng.integers(1, 3, 3000)
    labels = (u + rng.gumbel(size=u.shape)).argmax(axis=1)
    assert SoftMax.fitted(2 * u, labels).power == pytest.approx(0.5, rel=0.1)
    again = np.repeat(np.arange(3000), counts)
    weighted = SoftMax.fitted(u, labels, counts.astype(float))
    assert weighted == SoftMax.fitted(u[again], labels[again])


@pytest.mark.parametrize("power", [0.0, -1.0, 1e9, np.nan])
def test_files_with_other_powers_of_log_odds_are_refused(power):
    owner = KernelClassifier()
    owner._probabilities_ = SoftMax(power)
    with pytest.raises(ValueError, match="power"):
        check_probabilities(owner, "_probabilities_")
