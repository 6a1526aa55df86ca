"""The engine of a Dask cluster: what it gives is what the engine of one process gives."""

from __future__ import annotations

import operator
import os
import sys
from concurrent.futures import CancelledError
from dataclasses import dataclass, field

import numpy as np
import pytest

pytest.importorskip("distributed")

import dask.array as da
import dask.dataframe as dd
import pandas as pd
from distributed import Client
from scipy import sparse
from threadpoolctl import threadpool_info

import mercer.dask
from _clusters import cluster, kept_runs, limited, n_tasks
from _distributed_parts import descent, shards_of
from mercer import get_config
from mercer.dask import clusters, intake, work
from mercer.dask import engine as dask_engine
from mercer.dask.engine import DaskEngine
from mercer.distributed import Here, Run, Shard, ShardState, gathered, summed

EDGES = (0, 7, 7, 30, 40)


@pytest.fixture(scope="module")
def client():
    with limited(60), cluster(2) as made:
        yield made


@pytest.fixture(autouse=True)
def limit():
    with limited(60):
        yield


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    return rng.normal(size=(40, 3)), rng.normal(size=40)


@pytest.fixture
def engine(client, data):
    made = engine_of(client, shards_of(*data, EDGES))
    yield made
    made.close()


def engine_of(client, shards, **options):
    futures = [client.submit(Shard, s.X, s.target, s.weights, pure=False) for s in shards]
    return DaskEngine(client, futures, **options)


def moments(shard):
    return shard.X.sum(axis=0), len(shard)


def named(memory, number, shard, *args):
    return number, len(shard), args


class TestEngine:
    def test_sums_and_results_of_shards_are_those_of_one_process(self, engine, data):
        here = Here(shards_of(*data, EDGES))
        total, n_rows = summed(engine, moments)
        np.testing.assert_array_equal(total, summed(here, moments)[0])
        assert n_rows == 40
        assert gathered(engine, len) == [7, 0, 23, 10]
        assert engine.n_shards == 4
        assert engine.n_workers == 2

    def test_sums_are_made_in_pairs_in_order_however_many_there_are(self, client):
        rng = np.random.default_rng(3)
        shards = [Shard(rng.normal(size=(1, 1)) * 10.0 ** rng.integers(-8, 8)) for _ in range(19)]
        engine = engine_of(client, shards)
        expected = summed(Here(shards), lambda shard: shard.X)
        np.testing.assert_array_equal(summed(engine, lambda shard: shard.X), expected)
        engine.close()

    def test_arguments_stand_in_for_handles_wherever_they_are(self, engine):
        large, small = engine.share(np.arange(1e5)), engine.share((1, {"a": 2}))
        made = engine.once(operator.mul, large, 2.0)
        own = {0: (small, [large]), 2: ({"made": made},)}
        first, third = engine.fetch(engine.each(named, (large, "x"), numbers=[0, 2], own=own))
        assert first[:2] == (0, 7)
        assert first[2][0][1] == "x"
        np.testing.assert_array_equal(first[2][0][0], np.arange(1e5))
        assert first[2][1] == (1, {"a": 2})
        np.testing.assert_array_equal(first[2][2][0], np.arange(1e5))
        np.testing.assert_array_equal(third[2][1]["made"], 2 * np.arange(1e5))
        assert engine.fetch([small, engine.once(operator.neg, 3)]) == [(1, {"a": 2}), -3]

    def test_what_was_shared_twice_is_not_taken_for_the_same(self, engine):
        handles = [engine.share({"w": np.full(10**5, i)}) for i in range(2)]
        sums = engine.fetch([engine.once(lambda each: each["w"].mean(), h) for h in handles])
        assert sums == [0.0, 1.0]

    def test_arrays_that_were_shared_are_aligned(self, engine):
        shared = engine.share((b"abc", np.ones((128, 409))))
        handles = engine.each(lambda memory, i, shard, value: value[1].flags.aligned, shared)
        assert engine.fetch(handles) == [True] * 4

    def test_the_same_large_array_of_several_shards_is_sent_once(self, engine, monkeypatch):
        sent, send = [], DaskEngine._send
        monkeypatch.setattr(DaskEngine, "_send", lambda self, x: (sent.append(x), send(self, x)))
        w = np.ones(10**5)
        own = dict.fromkeys(range(4), (w,))
        results = engine.fetch(engine.each(lambda memory, i, shard, w: w.sum(), own=own))
        assert results == [1e5] * 4
        assert len(sent) == 1

    def test_results_that_were_freed_are_made_again_where_they_are_asked_for(self, engine):
        handles = engine.each(named)
        handles[0].future.cancel()
        handles[0].future.release()
        total = engine.total([engine.once(len, handle) for handle in handles], operator.add)
        assert engine.fetch([total]) == [12]

    def test_work_is_told_the_memory_and_the_threads_of_its_worker(self, engine):
        # Workers have 1 GB, of which 0.8 may be filled, and Python has a part of that already.
        for limit, threads in engine.fetch(engine.each(bounds)):
            assert 0.3e9 < limit < 0.8e9
            assert set(threads) == {1}

    def test_errors_of_work_are_raised_as_they_are(self, engine):
        with pytest.raises(ZeroDivisionError):
            summed(engine, lambda shard: 1 / 0)
        assert gathered(engine, len) == [7, 0, 23, 10]

    def test_a_fit_is_that_of_one_process_and_rebuilds_nothing(self, engine, data):
        run, w = descent(data[0], engine)
        np.testing.assert_allclose(w, descent(data[0], Here(engine_shards(data)))[1], rtol=1e-12)
        assert run.n_rebuilt == 0

    def test_shards_made_of_shards_outlive_the_engine_they_are_of(self, client, data):
        engine = engine_of(client, shards_of(*data, EDGES))
        factor = engine.share(np.full(10**5, 3.0))
        changed = engine.changed(scaled, factor, own={i: (i,) for i in range(4)})
        engine.close()
        del factor
        expected = [3 * s.X.sum() + i * s.X.size for i, s in enumerate(engine_shards(data))]
        np.testing.assert_allclose(gathered(changed, lambda shard: shard.X.sum()), expected)
        changed.close()

    def test_exchanged_shards_hold_every_row_once(self, engine, data):
        X, _ = data
        other = engine.exchange(by_sign, 2, stacked)
        np.testing.assert_array_equal(gathered(other, lambda shard: shard.X)[0], X[X[:, 0] > 0])
        assert gathered(other, len) == [int((X[:, 0] > 0).sum()), int((X[:, 0] <= 0).sum())]
        other.close()
        assert gathered(engine, len) == [7, 0, 23, 10]


def engine_shards(data):
    return shards_of(*data, EDGES)


def bounds(memory, number, shard):
    libraries = threadpool_info()
    threads = [each["num_threads"] for each in libraries if each["user_api"] == "blas"]
    return get_config()["max_memory"], threads


def scaled(memory, number, shard, factor, plus):
    return Shard(shard.X * factor[0] + plus)


def by_sign(memory, number, shard):
    return [Shard(shard.X[shard.X[:, 0] > 0]), Shard(shard.X[shard.X[:, 0] <= 0])]


def stacked(*pieces):
    return Shard(np.concatenate([piece.X for piece in pieces]))


class Failing(ShardState):
    def derived(self, truth):
        return truth

    def fail(self, state):
        raise FloatingPointError("failed")


class TestWhatIsLeft:
    def test_tasks_on_the_scheduler_do_not_grow_with_requests(self, client, engine, data):
        descent(data[0], engine, n_steps=3)
        before = n_tasks(client)
        descent(data[0], engine, n_steps=20)
        assert n_tasks(client) == before

    def test_a_closed_engine_leaves_nothing(self, client, data):
        before = n_tasks(client)
        engine = engine_of(client, shards_of(*data, EDGES))
        descent(data[0], engine, n_steps=2)
        assert any(kept_runs(client))
        engine.close()
        assert kept_runs(client) == [set(), set()]
        del engine
        assert n_tasks(client) == before

    def test_a_failed_fit_frees_its_memory_when_its_engine_is_closed(self, client, data):
        engine = engine_of(client, shards_of(*data, EDGES))
        run = Run(engine, Failing, None)
        with pytest.raises(FloatingPointError):
            run.total("fail", version=0, truth=lambda i: 1.0)
        assert any(kept_runs(client))
        engine.close()
        assert kept_runs(client) == [set(), set()]

    def test_fits_of_clients_that_are_gone_are_forgotten_others_are_kept(self, client, data):
        mine = engine_of(client, shards_of(*data, EDGES))
        descent(data[0], mine, n_steps=1)
        with Client(client.scheduler.address, set_as_default=False) as other:
            descent(data[0], engine_of(other, shards_of(*data, EDGES)), n_steps=1)
            assert len(set.union(*kept_runs(client))) == 2
        engine_of(client, shards_of(*data, EDGES)).close()
        assert len(set.union(*kept_runs(client))) == 1
        mine.close()

    def test_two_fits_at_once_do_not_meet(self, client, data):
        X, y = data
        engines = [engine_of(client, shards_of(X, sign * y, EDGES)) for sign in (1, -1)]
        runs = [Run(engine, *_kind()) for engine in engines]
        for version in range(3):
            sums = [r.total("gradient", version=version, truth=lambda i: np.zeros(3)) for r in runs]
            np.testing.assert_array_equal(sums[0], -sums[1])
        for engine in engines:
            engine.close()


def _kind():
    from _distributed_parts import Residual

    return Residual, None


def whole(engine):
    """X, y and weights of all shards, one below the other."""
    shards = gathered(engine, lambda shard: shard)
    parts = zip(*((s.X, s.target, s.weights) for s in shards), strict=True)
    return [None if each[0] is None else stack(each) for each in parts]


def stack(values):
    if sparse.issparse(values[0]):
        return sparse.vstack(values).toarray()
    return pd.concat(values) if hasattr(values[0], "iloc") else np.concatenate(values)


class TestIntake:
    @pytest.fixture
    def rows(self):
        rng = np.random.default_rng(1)
        return rng.normal(size=(50, 4)), rng.normal(size=50), rng.random(50)

    @pytest.mark.parametrize(
        ("chunks", "sizes"),
        [
            ((50, 4), [25, 25]),
            ((1, 4), [25, 25]),
            ((24, 1), [24, 26]),
            (((26, 0, 24), (3, 1)), [26, 24]),
            (((7, 33, 10), (4,)), [25, 25]),
        ],
    )
    def test_chunks_of_arrays_become_even_shards_in_order(self, client, rows, chunks, sizes):
        X, y, weights = rows
        engine = intake.shards_of(
            client,
            da.from_array(X, chunks=chunks),
            da.from_array(y, chunks=13),
            da.from_array(weights, chunks=50),
        )
        assert gathered(engine, len) == sizes
        for got, expected in zip(whole(engine), rows, strict=True):
            np.testing.assert_array_equal(got, expected)
        engine.close()

    def test_unknown_chunks_sparse_chunks_and_one_weight(self, client, rows):
        X, y, _ = rows
        X = da.from_array(X, chunks=(9, 4))
        X = X[X[:, 0] > 0].map_blocks(sparse.csr_array)
        y = da.from_array(y, chunks=9)[da.from_array(rows[0][:, 0], chunks=9) > 0]
        engine = intake.shards_of(client, X, y, 2.0)
        keep = rows[0][:, 0] > 0
        got = whole(engine)
        np.testing.assert_array_equal(got[0], rows[0][keep])
        np.testing.assert_array_equal(got[1], rows[1][keep])
        np.testing.assert_array_equal(got[2], np.full(keep.sum(), 2.0))
        engine.close()

    def test_frames_keep_names_and_types_and_give_up_their_targets(self, client, rows):
        frame = pd.DataFrame(rows[0], columns=list("abcd")).assign(
            town=pd.Categorical(["x", "y"] * 25), price=rows[1], w=rows[2]
        )
        lazy = dd.from_pandas(frame, npartitions=7)
        lazy = lazy[lazy.a > -0.5]  # sizes are not known, and may be 0
        expected = frame[frame.a > -0.5].reset_index(drop=True)
        by_name = intake.shards_of(client, lazy, "price", "w")
        X, y, weights = whole(by_name)
        pd.testing.assert_frame_equal(
            X.reset_index(drop=True), expected.drop(columns=["price", "w"])
        )
        np.testing.assert_array_equal(y, expected.price)
        np.testing.assert_array_equal(weights, expected.w)
        apart = intake.shards_of(client, lazy[["a", "town"]], lazy.price.to_dask_array())
        assert list(whole(apart)[0].columns) == ["a", "town"]
        np.testing.assert_array_equal(whole(apart)[1], expected.price)
        by_name.close()
        apart.close()

    def test_files_are_read_where_they_are_wanted(self, client, rows, tmp_path):
        frame = pd.DataFrame(rows[0], columns=list("abcd")).assign(price=rows[1], w=rows[2])
        for i in range(5):
            frame[10 * i : 10 * i + 10].to_parquet(tmp_path / f"{i}.parquet")
        engine = intake.shards_of(client, tmp_path, "price", "w")
        assert engine.columns == list("abcd")
        for got, expected in zip(whole(engine), rows, strict=True):
            np.testing.assert_array_equal(got, expected)
        with pytest.raises(TypeError, match="y must be the name of a column where X is a path"):
            intake.shards_of(client, tmp_path, da.ones(50))
        engine.close()

    def test_shards_are_on_workers_of_their_own(self, client, rows):
        X = client.persist(da.from_array(rows[0], chunks=(5, 4)))
        engine = intake.shards_of(client, X)
        gathered(engine, len)
        assert len(set(engine._homes.values())) == 2
        engine.close()

    @pytest.mark.parametrize(
        ("change", "error", "message"),
        [
            ({"X": np.ones((3, 2))}, TypeError, "X must be .*; got ndarray, which K takes"),
            ({"X": [[1.0]]}, TypeError, "got list, which K takes"),
            ({"X": pd.DataFrame({"a": [1]})}, TypeError, "got DataFrame, which K takes"),
            ({"y": np.ones(50)}, TypeError, "y must be a dask array or series"),
            ({"y": da.ones(49)}, ValueError, r"same number of rows; got \[50, 49\]"),
            ({"X": da.ones(50)}, ValueError, "X must have two dimensions; got 1"),
            ({"X": da.ones((0, 4)), "y": da.ones(0)}, ValueError, "at least one row"),
            ({"y": "price"}, ValueError, "y must be a column of X; got 'price'"),
            ({"weights": da.ones((50, 1))}, ValueError, "sample_weight must have one dimension"),
        ],
    )
    def test_what_is_no_data_is_refused_in_one_sentence(self, client, change, error, message):
        given = {"X": da.ones((50, 4)), "y": da.ones(50), "weights": None} | change
        with pytest.raises(error, match=message):
            intake.shards_of(client, *given.values(), takes="K")

    def test_errors_of_reading_are_raised_as_they_are(self, client):
        def failed(block):
            raise OSError("no disk")

        X = da.ones((10, 2), chunks=5).map_blocks(failed, meta=np.ones((0, 0)))
        with pytest.raises(OSError, match="no disk"):
            intake.shards_of(client, X)


def _old():
    return {**clusters._versions(), "mercer": "0.0.1"}


class TestClients:
    def test_a_client_is_taken_as_it_is_by_its_address_or_as_the_current_one(self, client):
        assert clusters.client_for(client) is client
        with clusters.client_for(client.scheduler.address) as other:
            assert other.scheduler.address == client.scheduler.address
        with client.as_current():
            assert clusters.client_for() is client

    def test_what_is_no_client_is_refused(self, monkeypatch):
        with pytest.raises(TypeError, match=r"client must be a distributed.Client or None; got 3"):
            clusters.client_for(3)
        monkeypatch.setattr(clusters, "_SECONDS", 0.5)
        with pytest.raises(OSError, match=r"cannot be reached at tcp://127.0.0.1:9"):
            clusters.client_for("tcp://127.0.0.1:9")

    def test_other_versions_on_workers_are_refused_by_name(self, client, monkeypatch):
        here = clusters._versions()
        monkeypatch.setattr(clusters, "_versions", lambda: {**here, "mercer": "9.9"})
        with pytest.raises(ValueError, match=r"workers must have mercer 9.9 as the client has"):
            clusters.check_versions(_Asked(client, here))

    def test_without_a_client_a_cluster_of_this_machine_is_started_once(self, caplog, monkeypatch):
        monkeypatch.setattr(clusters, "cores", lambda: 1)
        before = dict(os.environ)
        with caplog.at_level("INFO", "mercer"):
            client = clusters.client_for()
            try:
                assert clusters.client_for() is client
                assert len(client.nthreads()) == 1
                assert dict(os.environ) == before
                assert set(client.run(os.getenv, "OMP_NUM_THREADS").values()) == {"1"}
            finally:
                clusters.close_own()
        told = [record.getMessage() for record in caplog.records if record.name == "mercer"]
        assert told == ["no client is given: a cluster of 1 processes runs on this machine"]


class _Asked:
    """A client whose workers have these versions."""

    def __init__(self, client, versions):
        self.client, self.versions = client, versions

    def run(self, function, **options):
        return dict.fromkeys(self.client.nthreads(), self.versions)


def test_a_request_waits_longer_before_every_retry(engine, monkeypatch):
    slept, gathered_, losses = [], DaskEngine._gathered, [CancelledError()] * 4

    def lose(self, made):
        if losses:
            raise losses.pop()
        return gathered_(self, made)

    monkeypatch.setattr(DaskEngine, "_gathered", lose)
    monkeypatch.setattr(dask_engine.time, "sleep", slept.append)
    assert summed(engine, len) == 40
    assert slept == sorted(set(slept))
    losses += [CancelledError()] * 10
    with pytest.raises(RuntimeError, match="10 times in a row: give workers more memory"):
        summed(engine, len)
    assert 10 < sum(slept) < 30
    assert max(slept) <= 5


def test_a_closed_client_is_one_sentence(client, data):
    with Client(client.scheduler.address, set_as_default=False) as other:
        engine = engine_of(other, shards_of(*data, EDGES))
        other.close()
        for request in (lambda: summed(engine, len), lambda: engine.share(np.zeros(10**5))):
            with pytest.raises(RuntimeError, match="client must stay connected"):
                request()
        engine.close()


def test_a_client_that_closes_during_a_fit_is_one_sentence(client, data, monkeypatch):
    def close(model, engine):
        engine.client.close()
        raise CancelledError("FutureCancelledError")

    monkeypatch.setattr(mercer.dask.KernelRegressor, "_fit_local", close)
    X, y = (da.from_array(array, chunks=(20, *array.shape[1:])) for array in data)
    with Client(client.scheduler.address, set_as_default=False) as other:
        model = mercer.dask.KernelRegressor("linear", client=other)
        with pytest.raises(RuntimeError, match="client must stay connected"):
            model.fit(X, y)


def test_an_answer_has_a_size_before_all_of_its_fields_are_set():
    @dataclass
    class Unfitted:
        rows: np.ndarray
        found: np.ndarray = field(init=False)

    answer = work.Answer((Unfitted(np.ones(1000)), Unfitted), {})
    assert 8000 <= sys.getsizeof(answer) < 12000
