"""Fits over shards: sums, states that are lost, and what is done about it."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from _distributed_parts import Residual
from mercer import get_config
from mercer.distributed import Here, Run, Shard, ShardState, gathered, summed


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    return rng.normal(size=(40, 3)), rng.normal(size=40)


def _engine(data, edges=(0, 7, 7, 30, 40)):
    X, y = data
    shards = [Shard(X[a:b], y[a:b]) for a, b in pairwise(edges)]
    return Here(shards, n_workers=2)


def _descent(data, engine, lose=lambda step: None):
    """Steps of gradient descent, with the truth here; ``lose`` may break workers in between."""
    X, _ = data
    run, w = Run(engine, Residual, None), np.zeros(3)
    update, size = None, 1 / np.linalg.norm(X, 2) ** 2
    for step in range(30):
        lose(step)
        gradient = run.total("gradient", version=step, update=update, truth=lambda i, w=w: w)
        update = size * gradient
        w = w + update
    return run, w


def test_sums_over_shards_are_sums_over_all_rows(data):
    X, y = data
    engine = _engine(data)
    assert summed(engine, lambda shard: (shard.X.sum(axis=0), len(shard)))[1] == 40
    np.testing.assert_allclose(summed(engine, lambda shard: shard.X.T @ shard.target), X.T @ y)
    assert gathered(engine, len) == [7, 0, 23, 10]


def test_no_state_is_rebuilt_where_none_is_lost(data):
    X, y = data
    run, w = _descent(data, _engine(data))
    expected = np.zeros(3)
    for _ in range(30):
        expected = expected + X.T @ (y - X @ expected) / np.linalg.norm(X, 2) ** 2
    np.testing.assert_allclose(w, expected, rtol=1e-12)
    assert run.n_rebuilt == 0


def test_a_lost_state_is_rebuilt_once_and_changes_nothing(data):
    engine = _engine(data)
    whole = _descent(data, _engine(data))[1]

    def lose(step):
        if step in (4, 5, 20):
            engine.memories[step % 2].forget()

    run, w = _descent(data, engine, lose)
    np.testing.assert_allclose(w, whole, rtol=1e-12)
    assert run.n_rebuilt == 6  # two shards of a memory, three times


def test_shards_that_are_always_lost_end_the_fit(data):
    engine = _engine(data)
    run = Run(engine, Residual, None)
    with pytest.raises(RuntimeError, match="shards were lost 10 times in a row"):
        run.total("gradient", version=3)  # nobody can tell the state


def test_an_audit_tells_a_wrong_state_and_forgets_it(data):
    engine = _engine(data)
    run, w = Run(engine, Residual, None), np.ones(3)

    def truth(number):
        return w

    right = run.total("gradient", version=0, truth=truth)
    assert run.audit(0, truth, 2) == 0
    engine.memory_of(2).part(run.id, 2, lambda: None)._states[0] += 1.0
    with pytest.warns(RuntimeWarning, match="the state of shard 2 was off by"):
        assert run.audit(0, truth, 2) > 0.1
    np.testing.assert_array_equal(run.total("gradient", version=0, truth=truth), right)
    assert run.n_rebuilt == 4


def test_sums_without_a_state_can_stay_on_a_worker(data):
    X, _ = data
    engine = _engine(data)
    run = Run(engine, Residual, None)
    (partial,) = engine.fetch([run.kept("gram")])
    np.testing.assert_allclose(partial.value, X.T @ X)


def test_exchanged_shards_hold_every_row_once(data):
    X, _ = data
    engine = _engine(data)

    def split(memory, number, shard):
        return [Shard(shard.X[shard.X[:, 0] > 0]), Shard(shard.X[shard.X[:, 0] <= 0])]

    def join(*pieces):
        return Shard(np.concatenate([piece.X for piece in pieces]))

    other = engine.exchange(split, 2, join)
    np.testing.assert_array_equal(other.shards[0].X, X[X[:, 0] > 0])
    assert gathered(other, len) == [int((X[:, 0] > 0).sum()), int((X[:, 0] <= 0).sum())]


def test_the_end_of_a_fit_frees_what_workers_derived(data):
    engine = _engine(data)
    run = _descent(data, engine)[0]
    assert engine.memories[0].runs() == {run.id}
    run.forget()
    assert all(not memory.runs() for memory in engine.memories)


def test_a_truth_of_all_shards_is_sent_once(data):
    sent = []

    class Sharing(Here):
        def share(self, value):
            sent.append(value)
            return value

    X, y = np.tile(data[0], (1, 4000)), data[1]
    run = Run(Sharing([Shard(X[a:b], y[a:b]) for a, b in pairwise((0, 9, 40))]), Residual, None)
    assert not sent  # nothing is made for a run of which nothing is asked
    w = np.ones(X.shape[1])
    run.total("gradient", version=0, truth=lambda number: w)
    assert sum(value is w for value in sent) == 1
    assert run.words["sent", "truth"] == len(w)


def test_states_that_are_used_stay(data):
    run = Run(_engine(data), Residual, None)
    truths = {version: np.full(3, float(version)) for version in range(5)}

    def ask(version):
        return run.total("gradient", version=version, truth=lambda number: truths[version])

    first = ask(0)
    for version in (1, 2, 3, 4):
        ask(version)
        np.testing.assert_array_equal(ask(0), first)
    assert run.n_rebuilt == 4 * 4  # of the new versions, in four shards


def test_work_is_bounded_by_what_a_worker_may_hold(data):
    class Asked(ShardState):
        def limit(self, state):
            return get_config()["max_memory"] or 0

    engine = _engine(data)
    run = Run(engine, Asked, None)
    assert run.total("limit") == 0
    engine.memories[0].limit = 2**40
    assert 0 < run.total("limit") < 2 * 2**40  # of the two shards that it has
    engine.memories[0].limit = 1
    assert run.total("limit") == 2
