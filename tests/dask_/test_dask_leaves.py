"""Local and automatic models of a Dask cluster: those of one machine, a killed worker or not."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

pytest.importorskip("distributed")

import dask.array as da
import dask.dataframe as dd
import pandas as pd

import mercer
import mercer.dask
from _clusters import cluster, kill, limited, n_tasks, pids
from mercer.auto.tuning import TUNING
from mercer.dask.intake import shards_of
from mercer.distributed.leaves import fit_local_machine


@pytest.fixture(autouse=True)
def small_nodes(monkeypatch):
    """Several nodes of few rows."""
    monkeypatch.setattr("mercer.solvers.forest._LEAST_ROWS", 100)


@pytest.fixture(scope="module")
def client():
    with limited(90), cluster(2) as made:
        yield made


@pytest.fixture(autouse=True)
def limit():
    with limited(180):
        yield


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    X = rng.uniform(-3, 3, size=(1500, 2))
    return X, np.sin(X).sum(axis=1) + 0.1 * rng.normal(size=1500)


def test_leaves_of_arrays(client, data):
    X, y = data
    settings = {"leaf_size": 100, "n_trees": 2, "random_state": 0}
    local = mercer.LocalKernelRegressor(**settings).fit(X, y)
    before = n_tasks(client)
    lazy = da.from_array(X, chunks=(400, 2))
    model = mercer.dask.LocalKernelRegressor(**settings, client=client)
    model.fit(lazy, da.from_array(y, chunks=300))
    assert model.client_ is client
    assert n_tasks(client) == before
    np.testing.assert_allclose(model.map_coef_, local.map_coef_, atol=1e-10)
    predicted = model.predict(lazy)
    assert predicted.chunks == (lazy.chunks[0],)
    np.testing.assert_allclose(client.compute(predicted).result(), local.predict(X), atol=1e-10)
    copy = pickle.loads(pickle.dumps(model)).to_local()
    assert type(copy) is mercer.LocalKernelRegressor
    np.testing.assert_array_equal(copy.predict(X[:9]), model.to_local().predict(X[:9]))
    with pytest.raises(TypeError, match="X must be a dask array"):
        model.fit(X, y)


def test_leaves_of_frames_with_strengths_and_classes(client, data):
    X, y = data
    frame = pd.DataFrame(X, columns=["a", "b"]).assign(c=np.where(y > 0, "up", "down"))
    settings = {"alphas": [1e-5, 1e-3], "leaf_size": 200, "n_trees": 2, "random_state": 0}
    local = mercer.LocalKernelClassifier(**settings).fit(frame[["a", "b"]], frame["c"])
    lazy = dd.from_pandas(frame, npartitions=3)
    model = mercer.dask.LocalKernelClassifier(**settings, client=client)
    model.fit(lazy[["a", "b"]], lazy["c"])
    assert model.feature_names_in_.tolist() == ["a", "b"]
    np.testing.assert_allclose(model.path_["score"], local.path_["score"], rtol=1e-10)
    guesses = model.predict(lazy[["a", "b"]]).compute(scheduler="sync")
    np.testing.assert_array_equal(guesses, local.predict(frame[["a", "b"]]))


def test_an_automatic_model_of_a_frame(client, data, monkeypatch):
    monkeypatch.setattr(TUNING, "exact_rows", 1000)  # so that leaves are solved
    X, y = data
    frame = pd.DataFrame(X, columns=["a", "b"])
    frame["c"] = np.where(X[:, 0] * X[:, 1] > 0, "same", "other")
    local = mercer.AutoKernelRegressor(random_state=0).fit(frame, y)
    lazy = dd.from_pandas(frame.assign(y=y), npartitions=3)
    model = mercer.dask.AutoKernelRegressor(random_state=0, client=client)
    model.fit(lazy[["a", "b", "c"]], lazy["y"])
    assert model.best_settings_ == local.best_settings_
    intervals = model.predict_interval(lazy[["a", "b", "c"]], coverage=0.8)
    found = intervals.compute(scheduler="sync")
    np.testing.assert_allclose(found, local.predict_interval(frame, coverage=0.8), atol=1e-10)
    levels = model.predict(
        da.from_array(frame[["a", "b", "c"]].to_numpy(), chunks=(500, 3)), quantiles=[0.5]
    )
    assert levels.shape == (1500, 1)
    assert isinstance(model.to_local(), mercer.AutoKernelRegressor)


def test_nodes_whose_worker_is_killed_are_solved_again(data):
    X, y = data
    settings = {"leaf_size": 100, "n_trees": 1, "random_state": 0}
    local = mercer.LocalKernelRegressor(**settings).fit(X, y)
    with cluster(3) as client:
        victims = list(pids(client).values())[:1]

        def callback(progress):
            if victims and progress.n_solved:
                kill(victims.pop())
            return False

        lazy = da.from_array(X, chunks=(500, 2)), da.from_array(y, chunks=500)
        engine = shards_of(client, *lazy)
        remote = fit_local_machine(mercer.LocalKernelRegressor(**settings), engine, callback)
        engine.close()
    assert not victims
    np.testing.assert_allclose(remote.map_coef_, local.map_coef_, atol=1e-10)
    np.testing.assert_allclose(remote.predict(X), local.predict(X), atol=1e-10)
