"""A machine in the span of landmarks stands for all rows where leaves lose too much."""

import numpy as np
import pytest

from _landmarks import limit, saddles
from mercer import AutoKernelClassifier, AutoKernelRegressor, KernelRegressor, LocalKernelRegressor
from mercer.auto.landmarks import Landmarks, landmarks_for
from mercer.auto.trials import Settings, feature_map, feature_responses
from mercer.auto.tuning import TUNING
from mercer.kernels import Laplacian


@pytest.fixture
def _small(monkeypatch):
    limit(monkeypatch, 400)


@pytest.mark.parametrize("weighted", [False, True])
def test_responses_are_ridge_regression_in_the_span_of_the_landmarks(weighted):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 3))
    target, held = rng.normal(size=(80, 2)), rng.normal(size=(7, 3))
    s = rng.uniform(0.5, 1.5, 80) if weighted else np.ones(80)
    map_ = feature_map(Settings(gamma=0.4), Landmarks(20), 3, None)
    found = feature_responses(map_, X, held, target, [0.5, 2.0], 1e-10, s if weighted else None)
    for ridge, responses in zip([0.5, 2.0], found, strict=True):
        kernel = Laplacian(0.4)
        K, M = kernel(X, map_.landmarks_), kernel(map_.landmarks_)
        coef = np.linalg.solve((K.T * s) @ K + ridge * M, (K.T * s) @ target)
        np.testing.assert_allclose(responses, kernel(held, map_.landmarks_) @ coef, atol=1e-4)


def test_landmarks_grow_with_the_root_of_the_rows_as_work_time_and_memory_allow(monkeypatch):
    counts = [landmarks_for(n, 10).count for n in (36_000, 144_000)]
    assert counts[1] == pytest.approx(2 * counts[0], abs=1)
    assert landmarks_for(36_000, 10_000).count == TUNING.trial_landmarks
    assert landmarks_for(144_000, 10, seconds_left=1e-3, trial_seconds=1.0) is None
    in_time = landmarks_for(144_000, 10, seconds_left=6.0, trial_seconds=1.0)
    assert TUNING.trial_landmarks <= in_time.count < counts[1]
    monkeypatch.setattr("mercer.auto.landmarks.available_memory", lambda: 10**6)
    assert landmarks_for(200_000, 10) is None


@pytest.mark.usefixtures("_small")
def test_they_take_the_place_of_leaves_that_see_too_few_rows(monkeypatch):
    monkeypatch.setattr(TUNING, "left_out_inputs", 0)  # leaves gain more by scales than landmarks
    (X, y), (new, y_new) = saddles(3000), saddles(1501)
    model = AutoKernelRegressor(random_state=0).fit(X, y)
    machine = model.kernel_machine_
    assert isinstance(machine, KernelRegressor)
    assert len(machine.feature_map_.landmarks_) == landmarks_for(3000, 8).count
    assert "landmarks" in model.search_results_["stage"]
    assert model.partner_settings_ is None
    error = np.mean((model.predict(new) - y_new) ** 2)
    assert 1 - model.validation_score_ == pytest.approx(error / y_new.var(), rel=0.3)
    ends = model.predict_interval(new, coverage=0.9)
    assert np.mean((ends[:, 0] <= y_new) & (y_new <= ends[:, 1])) == pytest.approx(0.9, abs=0.05)
    monkeypatch.setattr(TUNING, "landmark_gain", 0.0)
    of_leaves = AutoKernelRegressor(random_state=0).fit(X, y)
    assert isinstance(of_leaves.kernel_machine_, LocalKernelRegressor)
    mean = (new[:, ::2] * new[:, 1::2]).sum(axis=1)
    errors = [np.mean((fitted.predict(new) - mean) ** 2) for fitted in (model, of_leaves)]
    assert errors[0] < 0.6 * errors[1]


@pytest.mark.usefixtures("_small")
def test_leaves_stay_where_targets_change_within_them():
    X = np.random.default_rng(0).uniform(-1, 1, size=(3000, 2))
    model = AutoKernelRegressor(random_state=0).fit(X, np.sign(np.sin(12 * X)).prod(axis=1))
    assert isinstance(model.kernel_machine_, LocalKernelRegressor)


@pytest.mark.usefixtures("_small")
def test_classes_and_weights_have_them_too():
    X, y = saddles(3000)
    labels, weights = np.digitize(y, [-2.0, 2.0]), np.random.default_rng(0).uniform(0.5, 2, 3000)
    model = AutoKernelClassifier(random_state=0).fit(X, labels, sample_weight=weights)
    assert "landmarks" in model.search_results_["stage"]
    new, y_new = saddles(1501)
    truth = np.digitize(y_new, [-2.0, 2.0])
    assert model.score(new, truth) == pytest.approx(model.validation_score_, abs=0.05)
    assert model.predict_proba(new).sum(axis=1) == pytest.approx(1.0)


@pytest.mark.usefixtures("_small")
def test_a_budget_of_time_holds():
    X, y = saddles(3000)
    model = AutoKernelRegressor(time_budget=3.0, random_state=0).fit(X, y)
    assert model.search_seconds_ + model.fit_seconds_ < 6.0
    assert model.score(X, y) > 0.5


@pytest.mark.usefixtures("_small")
@pytest.mark.slow
def test_callbacks_follow_their_stage(capsys):
    callback = pytest.importorskip("sklearn.callback")
    model = AutoKernelRegressor(random_state=0).set_callbacks(callback.ProgressBar())
    X, y = saddles(3000)
    model.fit(X, y)
    shown = capsys.readouterr().out
    for task in ("rung 1 #0", "rung 2 #1", "leaves #2", "landmarks #3", "final fit #4"):
        assert f"AutoKernelRegressor - {task} " in shown
