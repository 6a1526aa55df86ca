"""Automatic models over shards: the search, the settings and the model of one machine."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from _landmarks import limit, saddles
from mercer import AutoKernelClassifier, AutoKernelRegressor, TablePreparer
from mercer.auto import stages
from mercer.auto.tuning import TUNING
from mercer.distributed import Here, Shard
from mercer.distributed.automatic import fit_automatic
from mercer.distributed.tables import FarTable
from mercer.maps import ExactKernel, Nystroem

N, EDGES = 1400, (0, 100, 100, 700, 1400)


@pytest.fixture
def leaves(monkeypatch, few_treatments):
    """Leaves are solved, of nodes of few rows."""
    monkeypatch.setattr(TUNING, "exact_rows", 1000)
    monkeypatch.setattr("mercer.solvers.forest._LEAST_ROWS", 100)


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "a": rng.normal(size=N),
            "b": rng.exponential(size=N),
            "kind": pd.Categorical(rng.choice(list("uvxyz"), N)),
            "place": rng.choice([f"p{i}q" for i in range(60)], N),
            "day": pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 300, N), "D"),
        }
    )
    frame.loc[rng.uniform(size=N) < 0.05, "b"] = np.nan
    of_place = frame["place"].str[1:-1].astype(int).to_numpy() / 60
    y = np.sin(frame["a"].to_numpy()) + (frame["kind"] == "x") + of_place
    return frame, np.asarray(y + 0.1 * rng.normal(size=N))


def shards(X, y, weights=None, edges=EDGES):
    own = [None] * len(y) if weights is None else weights
    return Here(
        [Shard(X[a:b], y[a:b], None if weights is None else own[a:b]) for a, b in pairwise(edges)],
        n_workers=2,
    )


def assert_same(local, remote, X, tol=1e-10):
    assert remote.best_settings_ == local.best_settings_
    assert remote.partner_settings_ == local.partner_settings_
    assert remote.validation_score_ == local.validation_score_
    np.testing.assert_array_equal(remote.input_shares_, local.input_shares_)
    np.testing.assert_array_equal(remote.feature_importances_, local.feature_importances_)
    for kept in ("n_features_in_", "feature_names_in_"):
        np.testing.assert_array_equal(getattr(remote, kept), getattr(local, kept))
    method = "predict_proba" if hasattr(local, "classes_") else "predict_interval"
    np.testing.assert_allclose(getattr(remote, method)(X), getattr(local, method)(X), atol=tol)
    remote._check_state()


def test_numbers_of_a_frame(table, leaves):
    X, y = table
    local = AutoKernelRegressor(random_state=0).fit(X, y)
    remote = fit_automatic(AutoKernelRegressor(random_state=0), shards(X, y))
    assert "place:code" in remote._pipelines()[0]["preparer"].get_feature_names_out()
    assert_same(local, remote, X)


def test_classes_by_weights_some_of_which_are_zero(table, leaves):
    X, y = table
    weights = np.where(np.arange(N) % 9 == 0, 0.0, 1.0 + (np.arange(N) % 3))
    labels, settings = np.where(y > 0.5, "high", "low"), {"class_weight": "balanced"}
    local = AutoKernelClassifier(random_state=0, **settings).fit(X, labels, weights)
    remote = fit_automatic(
        AutoKernelClassifier(random_state=0, **settings), shards(X, labels, weights)
    )
    assert_same(local, remote, X)


def test_logarithms_of_targets(table, leaves):
    X, y = table
    X, y = X[["a", "b"]].fillna(0.0), np.exp(4 * np.sin(3 * table[0]["a"]) + 0.1 * y).to_numpy()
    local = AutoKernelRegressor(random_state=0).fit(X, y)
    remote = fit_automatic(AutoKernelRegressor(random_state=0), shards(X, y))
    assert remote.best_settings_["transform"] == "log"
    assert_same(local, remote, X)


@pytest.mark.parametrize("least_of_stages", [2000, 10**6])
def test_landmarks_at_once_and_in_stages(monkeypatch, least_of_stages):
    stages = {"stage_rows": (900, 900), "stage_landmarks": 5.0, "least_of_stages": least_of_stages}
    limit(monkeypatch, 100, landmark_rows=1500, left_out_inputs=0, landmark_gain=9.0, **stages)
    monkeypatch.setattr("mercer.auto.tuning.TUNING.stages_at_once", 1)  # as one machine does
    numbers, y = saddles(3000)
    X = pd.DataFrame(numbers, columns=list("abcdefgh"))
    local = AutoKernelRegressor(random_state=0).fit(X, y)
    edges = (0, 1000, 2999, 3000)
    remote = fit_automatic(AutoKernelRegressor(random_state=0), shards(X, y, edges=edges))
    assert isinstance(remote.kernel_machine_.feature_map, Nystroem)
    assert_same(local, remote, X[:50])


def test_machines_fit_two_stages_at_a_time(monkeypatch):
    of_stages = {"stage_rows": (900, 900), "stage_landmarks": 5.0, "least_of_stages": 2000}
    limit(monkeypatch, 100, landmark_rows=1500, left_out_inputs=0, landmark_gain=9.0, **of_stages)
    numbers, y = saddles(3000)
    X, counts = pd.DataFrame(numbers, columns=list("abcdefgh")), []

    def counted(table, tasks, callbacks):
        counts.append(len(tasks))
        return fit(table, tasks, callbacks)

    fit = stages._all_fitted
    monkeypatch.setattr(stages, "_all_fitted", counted)
    local = AutoKernelRegressor(random_state=0).fit(X, y)
    assert set(counts) == {1}
    counts.clear()
    remote = fit_automatic(AutoKernelRegressor(random_state=0), shards(X, y, edges=(0, 1500, 3000)))
    assert set(counts[:2]) == {TUNING.stages_at_once}
    assert remote.validation_score_ == pytest.approx(local.validation_score_, abs=0.05)


def test_the_exact_machine_of_few_rows(table):
    X, y = table
    local = AutoKernelRegressor(random_state=0).fit(X, y)
    remote = fit_automatic(AutoKernelRegressor(random_state=0), shards(X, y))
    assert isinstance(remote.kernel_machine_.feature_map, ExactKernel)
    assert_same(local, remote, X)


def test_a_callback_and_a_time_budget_end_the_last_fit(table, leaves):
    X, y = table
    told = []

    def callback(progress):
        told.append(progress.n_solved)
        return True

    model = AutoKernelRegressor(random_state=0)
    fit_automatic(model, shards(X, y), callback)
    assert told
    assert np.isfinite(model.predict(X)).all()
    short = fit_automatic(AutoKernelRegressor(time_budget=1e-3, random_state=0), shards(X, y))
    assert np.isfinite(short.predict(X)).all()


def test_rows_come_in_the_order_in_which_they_are_asked_for(table):
    X, y = table
    far, rows = FarTable.of(shards(X, y)), np.array([1399, 0, 100, 99, 700, 3, 3])
    pd.testing.assert_frame_equal(
        far[rows].to_native().reset_index(drop=True),
        X.iloc[rows].reset_index(drop=True),
        check_categorical=False,
        check_dtype=False,
    )
    some = far.taken(np.arange(0, N, 7))
    assert some.shape == (200, 5)
    assert some[np.array([100, 2])]["a"].to_list() == X["a"].iloc[[700, 14]].to_list()


def test_a_sample_tells_scales_of_many_rows_and_all_rows_their_codes(table, monkeypatch):
    X, y = table
    whole = TablePreparer(random_state=0)
    expected = whole.fit_transform(X, y)
    monkeypatch.setattr("mercer.preparation.pieces._SAMPLE", 900)
    preparer = TablePreparer(random_state=0)
    treated = preparer.fit_transform(FarTable.of(shards(X, y)), y)
    names = preparer.get_feature_names_out().tolist()
    assert names == whole.get_feature_names_out().tolist()
    labels = [place for place, name in enumerate(names) if name[:4] in ("plac", "kind")]
    for rows in (slice(None), np.array([1300, 2, 700])):
        assert 0 < np.abs(treated[rows] - expected[rows]).max() < 0.2
        np.testing.assert_allclose(treated[rows][:, labels], expected[rows][:, labels], atol=1e-12)
    new = preparer.transform(X)[:, labels], whole.transform(X)[:, labels]
    np.testing.assert_allclose(*new, atol=1e-12)
    some = treated.data.taken(np.arange(3, N, 2))
    np.testing.assert_array_equal(some[:], treated[3::2])


def test_texts_of_words_are_told_by_a_sample(table, monkeypatch):
    X, y = table
    rng = np.random.default_rng(0)
    words = np.array(["red", "green", "blue", "old", "new", "small", "large", "round", "flat"])
    texts = [" ".join(rng.permutation(words)[:6]) + f" {i}" for i in range(N)]
    X = X[["a"]].assign(text=np.where(y > 0.5, "good ", "bad ") + np.array(texts, dtype=object))
    monkeypatch.setattr("mercer.preparation.pieces._SAMPLE", 900)
    preparer = TablePreparer(random_state=0)
    rows = preparer.fit_transform(FarTable.of(shards(X, y)), y)[:]
    assert preparer.columns_["kind"].tolist() == ["number", "text"]
    plain = preparer.transform(X)
    same = (rows == plain).all(axis=1)
    assert N - 900 <= same.sum() < N  # the others do not look at their own targets


def test_what_needs_one_machine_is_refused_in_a_sentence(table):
    y = table[1]
    wide = np.zeros((N, 2001))
    with pytest.raises(ValueError, match=r"at most 2000 columns .* mercer\.AutoKernelRegressor"):
        fit_automatic(AutoKernelRegressor(), shards(wide, y))
    with pytest.raises(ValueError, match="X must be dense"):
        fit_automatic(AutoKernelRegressor(), shards(sparse.csr_array(wide), y))
    with pytest.raises(ValueError, match="infinity"):
        fit_automatic(AutoKernelRegressor(), shards(wide[:, :3] + np.inf, y))


def test_copies_of_rows_of_a_frame_are_merged(table, leaves):
    X, y = table
    X, y = pd.concat([X, X]).reset_index(drop=True), np.tile(y, 2)
    edges = (0, 1100, 1100, 3000, 2 * N)  # copies lie in other shards
    with pytest.warns(UserWarning, match=f"{2 * N} of {2 * N} rows are copies of others"):
        local = AutoKernelRegressor(random_state=0).fit(X, y)
    with pytest.warns(UserWarning, match=f"as {N} rows with weights"):
        remote = fit_automatic(AutoKernelRegressor(random_state=0), shards(X, y, edges=edges))
    assert_same(local, remote, X)
