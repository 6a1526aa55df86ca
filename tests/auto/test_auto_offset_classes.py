"""Known parts of the log odds of automatic classifiers of two classes."""

import numpy as np
import pytest
from scipy import sparse
from scipy.special import logit

from mercer import AutoKernelClassifier, persistence
from mercer.distributed import Here, Shard
from mercer.distributed.automatic import fit_automatic
from mercer.explain import shapley_values

RNG = np.random.default_rng(0)
X = RNG.normal(size=(700, 3))
OFFSET = 3.0 * RNG.normal(size=700)
LABELS = np.where(RNG.uniform(size=700) < 1 / (1 + np.exp(-OFFSET - 2 * X[:, 0])), "yes", "no")


@pytest.fixture(scope="module")
def model():
    return AutoKernelClassifier(random_state=0).fit(X[:500], LABELS[:500], offset=OFFSET[:500])


def test_log_odds_are_calibrated_responses_plus_the_offset(model):
    assert model.best_settings_["transform"] == "log-odds"
    plain = model.predict_proba(X, offset=0)[:, 1]
    shifted = model.predict_proba(X, offset=OFFSET)[:, 1]
    np.testing.assert_allclose(logit(shifted), logit(plain) + OFFSET, atol=1e-4)
    responses = model.decision_function(X, offset=OFFSET)
    power = model.probabilities_.power
    np.testing.assert_allclose(power * responses, logit(shifted), atol=1e-4)
    is_yes = model.predict(X, offset=OFFSET) == "yes"
    np.testing.assert_array_equal(is_yes, shifted > 0.5)
    assert model.predict_set(X, 0.9, offset=OFFSET)[np.arange(700), is_yes.astype(int)].mean() > 0.9


def test_new_rows_are_told_as_well_as_by_the_truth(model):
    rows = slice(500, 700)
    found = model.predict_proba(X[rows], offset=OFFSET[rows])[:, 1]
    truth = 1 / (1 + np.exp(-OFFSET[rows] - 2 * X[rows, 0]))
    assert np.abs(found - truth).mean() < 0.05
    score = model.score(X[rows], LABELS[rows], offset=OFFSET[rows])
    assert score == np.mean(model.predict(X[rows], offset=OFFSET[rows]) == LABELS[rows])
    assert score > model.score(X[rows], LABELS[rows], offset=0) + 0.1
    held = model.held_out_["row"]
    assert model.validation_score_ == pytest.approx(score, abs=0.06)
    kept = np.mean(model.held_out_["predicted"] == LABELS[held])
    assert kept == pytest.approx(model.validation_score_, abs=0.01)


def test_an_equal_offset_of_all_rows_changes_nothing():
    given = np.full(300, 2.0)
    model = AutoKernelClassifier(random_state=0).fit(X[:300], LABELS[:300], offset=given)
    other = AutoKernelClassifier(random_state=0).fit(X[:300], LABELS[:300], offset=0 * given)
    found = model.decision_function(X, offset=0) + 2.0
    np.testing.assert_allclose(found, other.decision_function(X, offset=0), atol=2e-2)


def test_explanations_and_files_know_it(model, tmp_path):
    values = shapley_values(model, X[:5], offset=OFFSET[:5])
    sums = np.ravel(values.base_values) + values.values.sum(axis=1).ravel()
    responses = model.decision_function(X[:5], offset=OFFSET[:5])
    np.testing.assert_allclose(sums, responses, atol=1e-2)
    persistence.save(model, tmp_path / "model.skops")
    loaded = persistence.load(tmp_path / "model.skops")
    wanted = model.predict_proba(X, offset=OFFSET)
    np.testing.assert_array_equal(loaded.predict_proba(X, offset=OFFSET), wanted)


def test_rows_without_weight_are_not_there_and_shards_change_nothing():
    weights = np.where(np.arange(300) % 7 == 0, 0.0, 1.0)
    few, some = (X[:300], LABELS[:300]), weights > 0
    model = AutoKernelClassifier(random_state=0).fit(*few, weights, offset=OFFSET[:300])
    other = AutoKernelClassifier(random_state=0)
    other.fit(X[:300][some], LABELS[:300][some], offset=OFFSET[:300][some])
    np.testing.assert_allclose(
        model.predict_proba(X, offset=0), other.predict_proba(X, offset=0), atol=1e-6
    )
    cuts = [slice(0, 100), slice(100, 300)]
    engine = Here([Shard(X[c], LABELS[c], weights[c], offset=OFFSET[c]) for c in cuts])
    far = fit_automatic(AutoKernelClassifier(random_state=0), engine)
    np.testing.assert_allclose(
        far.predict_proba(X, offset=0), model.predict_proba(X, offset=0), atol=1e-6
    )


@pytest.mark.parametrize(
    ("settings", "rows", "labels", "offset", "words"),
    [
        ({}, X, np.arange(700) % 3, OFFSET, "offset must be None for an AutoKernelClassifier"),
        ({}, sparse.csr_array(X), LABELS, OFFSET, "of sparse rows or more than 50000"),
        ({"device": "cpu"}, X, LABELS, OFFSET, "with a device"),
        ({}, X, LABELS, OFFSET[:9], "a number for each of the 700 rows"),
    ],
)
def test_refusals(settings, rows, labels, offset, words):
    with pytest.raises(ValueError, match=words):
        AutoKernelClassifier(**settings).fit(rows, labels, offset=offset)


def test_models_of_the_squared_loss_take_none():
    y = np.where(X[:300, 0] > 0, "a", "b")  # hardly overlap
    with pytest.warns(UserWarning, match="alone explains nearly all of the target"):
        model = AutoKernelClassifier(random_state=0).fit(X[:300], y)
    assert model.best_settings_["transform"] == "identity"
    with pytest.raises(ValueError, match="whose responses are no log odds of two classes"):
        model.predict_proba(X, offset=OFFSET)


def test_predictions_of_a_fit_with_an_offset_need_one(model):
    for method in ("predict", "predict_proba", "predict_set", "decision_function"):
        with pytest.raises(ValueError, match=r"offset must be given, .* or offset=0 for"):
            getattr(model, method)(X)
    with pytest.raises(ValueError, match="offset must be given"):
        model.score(X, LABELS)
