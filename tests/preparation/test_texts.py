"""Columns of words of which hardly two are alike."""

import pickle

import numpy as np
import pandas as pd
import pytest

from mercer import AutoKernelRegressor, TablePreparer, persistence
from mercer.preparation.columns import Labels
from mercer.preparation.texts import Texts

WORDS = [
    *("red", "green", "blue", "dark", "bright", "small", "large", "round"),
    *("square", "heavy", "light", "old", "new", "fast", "slow"),
]


def notes(n=400, seed=0):
    """Notes of some words, and a target that two of these decide."""
    rng = np.random.default_rng(seed)
    drawn = [rng.choice(WORDS, 6) for _ in range(n)]
    texts = [f"{' '.join(words)} no. {i}" for i, words in enumerate(drawn)]
    y = np.array([float("red" in words) - float("heavy" in words) for words in drawn])
    return pd.DataFrame({"note": texts}), y + 0.1 * rng.normal(size=n)


def test_words_that_decide_are_found():
    table, y = notes()
    model = AutoKernelRegressor(random_state=0).fit(table[:300], y[:300])
    assert model.score(table[300:], y[300:]) > 0.7
    assert model.columns_["kind"].tolist() == ["text"]


def test_rows_of_the_fit_get_responses_that_their_own_target_had_no_part_in():
    table, _ = notes()
    noise = np.random.default_rng(1).normal(size=len(table))
    labels = Labels(table["note"].tolist(), np.arange(len(table)))
    fold = np.arange(len(table)) % 5
    out = Texts().fit_transform(labels, noise[:, None], ["code"], fold, 0)
    assert out.shape[1] == 0  # nothing goes with noise


def test_the_response_of_a_row_moves_with_the_targets_of_others_alone():
    table, y = notes()
    labels = Labels(table["note"].tolist(), np.arange(len(table)))
    fold = np.arange(len(table)) % 5
    first, second = Texts(), Texts()
    out = first.fit_transform(labels, y[:, None], ["code"], fold, 0)
    other = y.copy()
    other[0] += 1.0
    moved = second.fit_transform(labels, other[:, None], ["code"], fold, 0)
    assert first.outputs[0] == second.outputs[0] == "code"
    own = out[:, 0] * first.unit[0] - first.constants[0]
    again = moved[:, 0] * second.unit[0] - second.constants[0]
    shifted = own - own.mean() - (again - again.mean())
    same_fold = shifted[fold == fold[0]]
    np.testing.assert_allclose(same_fold, same_fold[0], atol=1e-8)
    assert np.ptp(shifted[fold != fold[0]]) > 1e-3


def test_new_texts_are_weighed_as_those_of_the_fit():
    table, y = notes()
    preparer = TablePreparer().fit(table, y)
    whole = preparer.transform(table)
    np.testing.assert_allclose(preparer.transform(table[50:60]), whole[50:60], atol=1e-12)
    nothing = preparer.transform(pd.DataFrame({"note": [None, "never met"]}))
    assert (nothing[0] == 0).all()
    assert np.isfinite(nothing).all()


def test_without_targets_texts_become_their_topics():
    table, _ = notes()
    preparer = TablePreparer().fit(table)
    names = preparer.get_feature_names_out().tolist()
    assert names[:2] == ["note:topic 0", "note:topic 1"]
    assert preparer.transform(table).std(axis=0) == pytest.approx(1)


def test_parts_of_words_serve_where_there_is_but_one():
    rng = np.random.default_rng(0)
    kinds = rng.choice(["AB", "XY", "QQ"], 300)
    table = pd.DataFrame({"ticket": [f"{kind}-{i:04d}" for i, kind in enumerate(kinds)]})
    y = (kinds == "XY") + 0.1 * rng.normal(size=300)
    preparer = TablePreparer().fit(table[:200], y[:200])
    code = preparer.transform(table[200:])[:, 0]
    assert np.corrcoef(code, y[200:])[0, 1] > 0.8


def test_names_that_share_a_word_and_no_other_are_no_failure():
    table = pd.DataFrame({"name": [f"house {i}" for i in range(90)], "x": np.arange(90.0)})
    with pytest.warns(UserWarning, match="'name' tells every row apart"):
        assert TablePreparer().fit_transform(table, np.arange(90) / 7).shape == (90, 1)


def test_pickles_and_files_transform_alike(tmp_path):
    table, y = notes()
    preparer = TablePreparer(random_state=0).fit(table, y)
    expected = preparer.transform(table)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(preparer)).transform(table), expected)
    persistence.save(preparer, tmp_path / "p.skops", task="regression")
    np.testing.assert_array_equal(persistence.load(tmp_path / "p.skops").transform(table), expected)
