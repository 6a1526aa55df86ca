"""Accelerated block descent over shards: iterates are those of all rows, whatever is lost."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from _block_fits import (
    EDGES,
    assert_same,
    descend,
    interrupting,
    make,
    run_of,
    some_weights,
    spoilt,
)
from _shards import Counted, Forgetful, N, pair
from mercer import losses, maps
from mercer.distributed import Here

KINDS = ("features", "nystroem")
FITS = {"accelerated": True, "block_size": 3, "n_epochs": 5}


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("n_outputs", [0, 3])
@pytest.mark.parametrize("kind", KINDS)
def test_coefficients_are_those_of_all_rows(kind, n_outputs, weighted, fit_intercept, rng):
    weights = some_weights(rng) if weighted else None
    local, remote = make(kind, rng, n_outputs, weights=weights, fit_intercept=fit_intercept)
    results, run = run_of(remote, **FITS)
    assert_same(results, descend(local, **FITS))
    assert run.n_rebuilt == run.n_wrong == 0


@pytest.mark.parametrize("name", ["linear", maps.RandomBinning(n_components=9, random_state=0)])
def test_stored_columns_are_combined_as_those_of_all_rows(name, rng):
    local, remote = pair(rng, losses.Squared(), name=name)
    fits = FITS | {"block_size": max(1, local.design.shape[1] // 4)}
    assert_same(descend(remote, **fits), descend(local, **fits))


@pytest.mark.parametrize("kind", KINDS)
def test_single_precision(kind, rng):
    local, remote = make(kind, rng, dtype=np.float32)
    results, run = run_of(remote, **FITS)
    for one, other in zip(results, descend(local, **FITS), strict=True):
        gap = local.responses(one.coef) - local.responses(other.coef)
        assert np.abs(gap).max() < 1e-3 * np.abs(local.y).max()
    assert run.n_wrong == run.n_rebuilt == 0


@pytest.mark.parametrize("kind", KINDS)
def test_strengths_leave_after_the_epochs_of_all_rows_and_sooner_than_plainly(kind, rng):
    local, remote = make(kind, rng, 2)
    path = {"tol": 1e-5, "n_epochs": 800, "alphas": [1.0, 0.03, 0.3], "block_size": 3}
    results, run = run_of(remote, accelerated=True, **path)
    assert_same(results, descend(local, accelerated=True, **path), 1e-8)
    assert all(result.converged for result in results)
    plain = descend(remote, **path)
    assert len({result.n_iter for result in results}) > 1
    assert results[1].n_iter <= plain[1].n_iter / 2
    assert run.n_rebuilt == 0


def test_an_epoch_takes_one_more_request(rng):
    counts = []
    remote = make("features", rng)[1]
    descend(remote, callback=lambda s: counts.append(s.system.run.n_requests), hold=10**6, **FITS)
    n_blocks = -(-remote.design.shape[1] // 3)
    assert set(np.diff(counts[2:])) == {n_blocks + 2}  # F is looked at, too


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_with_an_entry_per_row_travels(kind, rng):
    remote = make(kind, rng, edges=EDGES[1], engine=Counted)[1]
    descend(remote, alphas=[0.02], **FITS)
    assert 0 < remote.run.engine.largest < N


def test_exact_machines_are_solved_without_acceleration(rng):
    remote = make("exact", rng)[1]
    assert_same(descend(remote, accelerated=True), descend(remote))


@cache
def _without_loss(kind):
    return descend(make(kind, np.random.default_rng(5), 2)[1], **FITS)


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=5, deadline=None)
@given(data=st.data())
def test_states_lost_at_random_moments_change_nothing(kind, data):
    lost = data.draw(st.dictionaries(st.integers(0, 60), st.sets(st.integers(0, 1)), max_size=8))

    def forgetful(shards):
        return Forgetful(shards, 2, lambda request: lost.get(request, ()))

    remote = make(kind, np.random.default_rng(5), 2, engine=forgetful)[1]
    results, run = run_of(remote, **FITS)
    assert_same(results, _without_loss(kind), 1e-7)
    assert run.n_rebuilt <= 3 * sum(map(len, lost.values()))
    assert run.n_wrong == 0


@pytest.mark.parametrize("kind", KINDS)
def test_wrong_changes_are_found(kind, rng):
    remote = make(kind, rng, edges=EDGES[2])[1]
    runs = []

    def spoil(state):
        runs.append(state.system.run)
        for memory in remote.run.engine.memories if state.iteration == 2 else ():
            for part in memory._parts.values():
                for version in [each for each in part._states if isinstance(each, int)]:
                    there = part._states[version]
                    part._states[version] = there._replace(changes=spoilt(there.changes))

    with pytest.warns(RuntimeWarning, match="the state of shard . was off by"):
        descend(remote, callback=spoil, **FITS)
    assert runs[-1].n_wrong == 1


@pytest.mark.parametrize("after", [1, 9, 14, 17])
@pytest.mark.parametrize("kind", KINDS)
def test_an_interrupted_fit_goes_on_with_other_shards(kind, after, tmp_path, rng):
    seed = int(rng.integers(1000))
    made = {q: make(kind, np.random.default_rng(seed), edges=EDGES[q])[1] for q in (1, 4, 7)}
    fits = FITS | {"trace": "block"}
    whole = descend(made[1], **fits)
    fits |= {"checkpoint": tmp_path / "fit", "checkpoint_every": 1}
    assert any(r.interrupted for r in descend(made[4], callback=interrupting(after), **fits))
    n_blocks = []
    resumed = descend(made[7], callback=lambda state: n_blocks.append(state.n_blocks), **fits)
    assert after <= n_blocks[0] <= after + 1
    assert_same(resumed, whole, 1e-8)


def test_the_end_of_a_fit_frees_what_workers_derived(rng):
    engine = make("features", rng)[1].run.engine
    assert isinstance(engine, Here)
    remote = make("features", rng)[1]
    descend(remote, **FITS)
    runs = {name for memory in remote.run.engine.memories for name in memory.runs()}
    assert runs <= {remote.run.id}
