"""Machines that get their landmarks in stages, each for what the stages before it leave over."""

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import r2_score

from _landmarks import limit, saddles
from mercer import AutoKernelClassifier, AutoKernelRegressor, persistence
from mercer.auto import stages
from mercer.auto.fits import Fit
from mercer.auto.landmarks import Landmarks, landmarks_for
from mercer.auto.tuning import TUNING
from mercer.explain import shapley_values


@pytest.fixture
def _small(monkeypatch):
    """Limits of rows, so that tables of 3000 rows have stages of landmarks, and nothing else."""
    of_stages = {"least_of_stages": 2000, "stage_rows": (900, 900), "stage_landmarks": 5.0}
    limit(monkeypatch, 100, landmark_rows=1500, left_out_inputs=0, landmark_gain=9.0, **of_stages)


def test_many_rows_are_fitted_in_stages_of_as_many_rows(monkeypatch):
    assert landmarks_for(100_000, 10) == Landmarks(landmarks_for(100_000, 10).count)
    forms = [landmarks_for(n, 10) for n in (200_000, 400_000, 10**7)]
    assert [form.n_stages for form in forms] == [7, 9, TUNING.most_stages]
    assert [form.n_rows for form in forms] == [66_666, 100_000, 100_000]
    assert forms[0].count < forms[1].count == forms[2].count
    in_time = landmarks_for(10**7, 10, seconds_left=20.0, trial_seconds=1.0)
    assert in_time.n_stages < TUNING.most_stages
    assert in_time.count >= TUNING.trial_landmarks
    hardly = landmarks_for(10**7, 10, seconds_left=5.0, trial_seconds=1.0)
    assert (hardly.n_rows, hardly.n_stages) == (100_000, 1)  # not all rows at once
    monkeypatch.setattr("mercer.auto.landmarks.available_memory", lambda: 10**6)
    assert landmarks_for(10**7, 10) is None


def parts_of(y, form, classes=False):
    held, order = stages._held_and_others(y, 3, classes)
    return held, order, list(stages._parts(order, form))


def test_stages_see_rows_that_no_other_one_sees_while_there_are_some():
    y = np.zeros(2000)
    held, order, parts = parts_of(y, Landmarks(5, 400, 6))
    assert [len(part) for part in parts] == [400] * 6
    np.testing.assert_array_equal(np.union1d(held, order), np.arange(2000))
    assert len(np.unique(np.concatenate(parts[:4]))) == 1600
    assert not np.isin(np.concatenate(parts), held).any()


def test_the_first_stage_has_a_row_of_every_class():
    y = np.repeat(np.arange(40), [1961] + [1] * 39)
    _, _, parts = parts_of(y, Landmarks(5, 400, 2), classes=True)
    assert set(y[parts[0]]) == set(range(40))


@pytest.mark.usefixtures("_small")
@pytest.mark.parametrize("weighted", [False, True])
def test_the_machine_is_the_sum_of_shares_of_its_stages(monkeypatch, weighted):
    fitted, groups = [], []

    def kept(*task, **callbacks):
        fitted.append(fit(*task, **callbacks))
        return fitted[-1]

    def shared(answers, lacking, weights):
        found = steps(answers, lacking, weights)
        if fitted and answers[0] is fitted[-1][1]:  # of a stage, not of an iteration
            groups.append((answers, found[0]))
        return found

    fit, steps = stages._fitted, stages._steps
    monkeypatch.setattr(stages, "_fitted", kept)
    monkeypatch.setattr(stages, "_steps", shared)
    X, y = saddles(3000)
    weights = np.random.default_rng(0).uniform(0.5, 2, 3000) if weighted else None
    model = AutoKernelRegressor(random_state=0).fit(X, y, sample_weight=weights)
    machine = model.kernel_machine_
    assert len(groups) == len(fitted) > 1
    assert all(0 <= share <= 1.1 for _, shares in groups for share in shares)
    added = 1 + sum(np.count_nonzero(shares) for _, shares in groups) - bool(groups[0][1][0])
    assert len(machine.feature_map_.landmarks_) == added * machine.feature_map.n_components
    wanted = sum(np.tensordot(shares, answers, 1) for answers, shares in groups).ravel()
    rows = np.sort(model.held_out_["row"])
    np.testing.assert_allclose(model.predict(X[rows]), wanted, rtol=1e-4, atol=1e-4)


def test_shares_are_those_of_least_squares_by_weights():
    rng = np.random.default_rng(0)
    answers, weights = rng.normal(size=(2, 400, 3)), rng.uniform(0.5, 2, 400)
    lacking = 0.7 * answers[0] + 0.4 * answers[1] + 0.1 * rng.normal(size=(400, 3))
    roots = np.sqrt(weights)[:, None]
    columns = [(roots * answer).ravel() for answer in answers]
    wanted = np.linalg.lstsq(np.stack(columns, axis=1), (roots * lacking).ravel(), rcond=None)[0]
    found, gained = stages._steps(answers, lacking, weights)
    np.testing.assert_allclose(found, wanted, rtol=1e-10)
    left = lacking - np.tensordot(found, answers, 1)
    loss = [(weights[:, None] * each**2).sum() for each in (left, lacking)]
    assert gained == pytest.approx(1 - loss[0] / loss[1])
    for nothing in (-lacking, 0.0 * lacking, rng.normal(size=(400, 3))):
        np.testing.assert_array_equal(stages._steps(answers, nothing, None)[0], 0.0)


@pytest.mark.usefixtures("_small")
def test_held_out_rows_end_iterations_no_later_than_the_tolerance_for_the_same_error(monkeypatch):
    (X, y), (new, y_new) = saddles(3000), saddles(1501)
    counts, errors = [], []
    for step in (TUNING.stage_step, -np.inf):
        fitted = []

        def kept(*task, fit=stages._fitted, fitted=fitted, **callbacks):
            fitted.append(fit(*task, **callbacks))
            return fitted[-1]

        with monkeypatch.context() as patch:
            patch.setattr(TUNING, "stage_step", step)
            patch.setattr(TUNING, "stage_gain", -np.inf)  # stages of both are as many
            patch.setattr(TUNING, "stage_tol", 0.02)
            patch.setattr(stages, "_fitted", kept)
            model = AutoKernelRegressor(random_state=0).fit(X, y)
        counts.append([stage.n_iter_ for stage, _ in fitted])
        errors.append(np.sqrt(1 - r2_score(y_new, model.predict(new))))
    pairs = list(zip(*counts, strict=True))
    assert all(ended <= solved for ended, solved in pairs)
    assert any(ended < solved for ended, solved in pairs[1:])
    assert counts[0][0] == counts[1][0]  # the first stage is solved
    assert errors[0] < 1.005 * errors[1]


@pytest.mark.usefixtures("_small")
@pytest.mark.parametrize("gain", [0.0, 0.1, 0.99])
def test_the_stage_that_gains_too_little_is_the_last(monkeypatch, gain):
    gains = []

    def kept(*task, **callbacks):
        stage, answer = fit(*task, **callbacks)
        gains.append(answer)
        return stage, answer

    fit = stages._fitted
    monkeypatch.setattr(stages, "_fitted", kept)
    monkeypatch.setattr(TUNING, "stage_gain", gain)
    X, y = saddles(3000)
    model = AutoKernelRegressor(random_state=0).fit(X, y)
    rows, lacking, found = model.held_out_["row"], None, []
    lacking = y[rows][np.argsort(rows)][:, None]
    for answer in gains:
        steps, gained = stages._steps([answer], lacking, None)
        lacking = lacking - np.tensordot(steps, [answer], 1)
        found.append(gained)
    most = landmarks_for(3000, 8).n_stages
    assert all(each >= gain for each in found[:-1])
    assert len(found) == most or found[-1] < max(gain, 4 / len(rows))


@pytest.mark.usefixtures("_small")
def test_stages_err_less_than_the_first_alone_and_held_out_rows_tell_by_how_much(monkeypatch):
    (X, y), (new, y_new) = saddles(3000), saddles(1501)
    model = AutoKernelRegressor(random_state=0).fit(X, y)
    error = 1 - r2_score(y_new, model.predict(new))
    assert 1 - model.validation_score_ == pytest.approx(error, rel=0.3)
    assert model.n_validation_rows_ == 3000 // TUNING.stage_share
    rows = model.held_out_["row"]
    np.testing.assert_allclose(model.held_out_["predicted"], model.predict(X[rows]), atol=1e-4)
    monkeypatch.setattr(TUNING, "most_stages", 1)
    first = AutoKernelRegressor(random_state=0).fit(X, y)
    mean = (new[:, ::2] * new[:, 1::2]).sum(axis=1)  # without the noise
    errors = [np.mean((fitted.predict(new) - mean) ** 2) for fitted in (model, first)]
    assert errors[0] < 0.9 * errors[1]


@pytest.mark.usefixtures("_small")
def test_files_and_intervals_are_those_of_one_machine(tmp_path):
    X, y = saddles(3000)
    model = AutoKernelRegressor(random_state=0).fit(X, np.exp(y / 4))
    persistence.save(model, tmp_path / "model.skops")
    loaded = persistence.load(tmp_path / "model.skops")
    np.testing.assert_array_equal(loaded.predict(X[:9]), model.predict(X[:9]))
    assert model.predict_interval(X[:9]).shape == (9, 2)


@pytest.mark.usefixtures("_small")
def test_contributions_and_onnx_add_up_to_the_predictions():
    X, y = saddles(3000)
    model = AutoKernelRegressor(random_state=0).fit(X, y)
    explained = shapley_values(model, X[:3])
    sums = explained.values.sum(axis=1).ravel() + np.ravel(explained.base_values)
    np.testing.assert_allclose(sums, model.predict(X[:3]), atol=1e-9)
    runtime = pytest.importorskip("onnxruntime")
    from mercer import onnx

    session = runtime.InferenceSession(onnx.to_onnx(model, X[:3]).SerializeToString())
    [found] = session.run(None, {session.get_inputs()[0].name: X[:50]})
    np.testing.assert_allclose(found.ravel(), model.predict(X[:50]), atol=1e-9)


@pytest.mark.usefixtures("_small")
def test_classes_of_tables_with_labels_have_stages_too():
    X, y = saddles(3000)
    table = pd.DataFrame(X).rename(columns=str).assign(shop=[f"s{k % 50}" for k in range(3000)])
    labels = np.digitize(y, [-2.0, 2.0]).astype(object)
    labels[5] = 7  # in one row alone
    model = AutoKernelClassifier(random_state=0).fit(table, labels.astype(int))
    assert list(model.classes_) == [0, 1, 2, 7]
    count = model.kernel_machine_.feature_map.n_components
    assert len(model.kernel_machine_.feature_map_.landmarks_) > count
    assert model.predict_proba(table[:9]).sum(axis=1) == pytest.approx(1.0)
    assert model.score(table, labels.astype(int)) > 0.6


@pytest.mark.usefixtures("_small")
def test_an_interruption_leaves_the_stages_before_it(monkeypatch):
    made = stages._stage

    def interrupted(machine, place):
        if place == 2:
            raise KeyboardInterrupt
        return made(machine, place)

    monkeypatch.setattr(stages, "_stage", interrupted)
    X, y = saddles(3000)
    model = AutoKernelRegressor(random_state=0).fit(X, y)
    assert model.interrupted_
    count = model.kernel_machine_.feature_map.n_components
    assert len(model.kernel_machine_.feature_map_.landmarks_) == 2 * count
    assert model.score(X, y) > 0.5


@pytest.mark.usefixtures("_small")
def test_time_that_is_over_ends_them(monkeypatch):
    monkeypatch.setattr(stages, "_is_late", lambda callbacks, seconds: True)
    X, y = saddles(3000)
    model = AutoKernelRegressor(random_state=0).fit(X, y)
    count = model.kernel_machine_.feature_map.n_components
    assert len(model.kernel_machine_.feature_map_.landmarks_) == count


def test_a_fit_of_some_rows_has_their_weights_and_groups():
    fit = Fit(np.arange(4.0), None, np.array([0, 0, 1, 1]), stages=Landmarks(3))
    some = fit.of_rows(np.array([1, 3]))
    np.testing.assert_array_equal(some.weights, [1.0, 3.0])
    np.testing.assert_array_equal(some.groups, [0, 1])
