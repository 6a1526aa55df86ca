"""Block coordinate descent over shards: coefficients are those of all rows, whatever is lost."""

from __future__ import annotations

import warnings
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from _block_fits import (
    ALPHAS,
    EDGES,
    KINDS,
    assert_same,
    descend,
    interrupting,
    make,
    run_of,
    some_weights,
    spoilt,
)
from _shards import UNEVEN, D, Forgetful, N, cut, inputs, target
from mercer import losses, maps, penalties, solvers
from mercer.distributed import Here, Run, Shard, kernel_products  # noqa: F401, products of workers
from mercer.distributed.fingerprint import digest_of_shards
from mercer.distributed.parts import DesignFacts, DesignPart
from mercer.distributed.problem import RemoteProblem
from mercer.equations import equations
from mercer.estimators.preprocessing import Preprocessing
from mercer.problem import Problem
from mercer.solvers.krylov import with_cached_kernel

# -- without a fault -------------------------------------------------------------------------


@pytest.mark.parametrize("edges", [*EDGES, UNEVEN], ids=str)
@pytest.mark.parametrize("kind", KINDS)
def test_coefficients_are_those_of_all_rows(kind, edges, rng):
    local, remote = make(kind, rng, edges=edges)
    assert_same(descend(remote), descend(local))


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("n_outputs", [0, 3])
@pytest.mark.parametrize("kind", KINDS)
def test_weights_outputs_and_intercepts(kind, n_outputs, weighted, fit_intercept, rng):
    weights = some_weights(rng) if weighted else None
    local, remote = make(kind, rng, n_outputs, weights=weights, fit_intercept=fit_intercept)
    assert_same(descend(remote), descend(local))


@pytest.mark.parametrize("kind", KINDS)
def test_sparse_shards(kind, rng):
    local, remote = make(kind, rng, sparse=True)
    assert_same(descend(remote), descend(local))


@pytest.mark.parametrize("kind", KINDS)
def test_single_precision(kind, rng):
    local, remote = make(kind, rng, dtype=np.float32)
    results, run = run_of(remote)
    assert_same(results, descend(local), 1e-4)
    assert all(result.coef.dtype == np.float32 for result in results)
    assert run.n_wrong == run.n_rebuilt == 0


@pytest.mark.parametrize("kind", ["features", "nystroem"])
def test_shards_without_rows_of_a_class(kind, rng):
    X = inputs(rng)
    y, coding = target(rng, X, losses.SquaredHinge(), 3)
    order = np.argsort(y, kind="stable")
    X, y = X[order], y[order]
    map_ = maps.get("fourier", kernel=None, gamma=0.5, n_components=12, random_state=0).fit(X)
    facts = DesignFacts(
        Preprocessing(None, map_), coding, losses.Squared(), N, 1.0, np.float64, True
    )
    engine = Here(cut(X, y, None, EDGES[4]), n_workers=2)
    remote = RemoteProblem(Run(engine, DesignPart, facts), facts, penalties.L2(0.1))
    local = Problem(map_.design(X), coding.apply(y), losses.Squared(), penalties.L2(0.1))
    assert_same(descend(remote), descend(local))


@pytest.mark.parametrize("kind", ["features", "nystroem"])
def test_solved_strengths_leave_when_they_leave_where_all_rows_are(kind, rng):
    local, remote = make(kind, rng)
    settings = {"tol": 1e-3, "n_epochs": 500, "alphas": [1.0, 0.03, 0.3]}
    results, run = run_of(remote, **settings)
    expected = descend(local, **settings)
    assert len({result.n_iter for result in results}) > 1
    assert_same(results, expected)
    for one, other in zip(results, expected, strict=True):
        assert one.converged
        for row, like in zip(one.trace, other.trace, strict=True):
            assert row.objective == pytest.approx(like.objective, rel=1e-10)
        assert one.optimality == pytest.approx(other.optimality, rel=1e-6)
    assert run.n_rebuilt == 0


def test_solved_strengths_of_the_full_kernel_leave(rng):
    local, remote = make("exact", rng, 2)
    settings = {"tol": 1e-6, "n_epochs": 100, "block_size": 60}
    results, run = run_of(remote, **settings)
    assert len({result.n_iter for result in results}) > 1
    for one, other in zip(results, descend(local, **settings), strict=True):
        assert one.converged
        np.testing.assert_allclose(one.coef, other.coef, atol=1e-5)
        assert one.trace[-1].objective == pytest.approx(other.trace[-1].objective, rel=1e-8)
    assert run.n_rebuilt == 0


@pytest.mark.parametrize("kind", KINDS)
def test_a_fit_goes_on_from_a_start(kind, rng):
    local, remote = make(kind, rng, 2)
    solver = solvers.BlockCoordinateDescent(tol=1e-8, block_size=N, accelerated=False)
    start = 1.001 * solver.solve(local).coef
    expected, result = (solver.solve(problem, start=start) for problem in (local, remote))
    assert abs(result.n_iter - expected.n_iter) <= 1
    np.testing.assert_allclose(
        local.responses(result.coef), local.responses(expected.coef), atol=1e-6
    )
    assert result.trace[0].objective == pytest.approx(expected.trace[0].objective)
    assert result.trace[0].optimality == pytest.approx(expected.trace[0].optimality)


@pytest.mark.parametrize("edges", [UNEVEN, (0, N)])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("hold", ["auto", False])
def test_products_of_workers_are_those_of_all_rows(rng, edges, dtype, hold):
    local, remote = make("exact", rng, 2, weights=some_weights(rng), edges=edges, dtype=dtype)
    machine = with_cached_kernel(remote, hold)
    V = rng.normal(size=(local.n_rows, 3))
    rtol = 1e-5 if dtype == np.float32 else 1e-12
    for product in (machine.design.matvec(V), machine.design.rmatvec(V)):
        np.testing.assert_allclose(product, local.design.matvec(V), rtol=rtol, atol=rtol)
    single = V.astype(np.float32)
    assert machine.design.matvec(single).dtype == local.design.matvec(single).dtype
    np.testing.assert_allclose(machine.y, local.y)
    np.testing.assert_allclose(machine.weights, local.weights)


@pytest.mark.parametrize("kind", KINDS)
def test_residuals_and_products_are_those_of_all_rows(kind, rng):
    local, remote = make(kind, rng, 2, weights=some_weights(rng))
    one, other = equations(local, ALPHAS), equations(remote, ALPHAS)
    x = rng.normal(size=one.shape)
    one.start(x)
    other.start(x)
    blocks = [np.arange(one.problem.design.shape[1])]
    expected = one.residual(x)
    np.testing.assert_allclose(other.residual(x), expected, atol=1e-10)
    np.testing.assert_allclose(other.current_residual(blocks), expected, atol=1e-10)
    np.testing.assert_allclose(other.product(x), one.product(x), atol=1e-10)
    np.testing.assert_allclose(other.values(), one.values(), rtol=1e-10)
    np.testing.assert_allclose(other.relative(expected), one.relative(expected), rtol=1e-10)


@pytest.mark.parametrize("n_outputs", [0, 2])
def test_conjugate_gradients_on_landmarks(n_outputs, rng):
    local, remote = make("nystroem", rng, n_outputs)
    for kind in ("falkon", None):
        solver = solvers.ConjugateGradient(tol=1e-11, preconditioner=kind)
        expected, result = solver.solve(local), solver.solve(remote)
        np.testing.assert_allclose(
            local.responses(result.coef), local.responses(expected.coef), atol=1e-8
        )


@pytest.mark.parametrize("kind", ["features", "nystroem"])
def test_blocks_are_made_in_pieces_where_memory_is_short(kind, rng, monkeypatch):
    local, remote = make(kind, rng, 2, weights=some_weights(rng))
    pieces = []

    def chunks(n_rows, n_bytes):
        pieces.append(n_rows)
        return [slice(start, min(n_rows, start + 10)) for start in range(0, n_rows, 10)]

    monkeypatch.setattr("mercer.distributed.normal.available_memory", lambda: 1000)
    monkeypatch.setattr("mercer.equations.parts.row_chunks", chunks)
    assert_same(descend(remote), descend(local))
    assert pieces


# -- what is asked, and what it costs --------------------------------------------------------


def _asked(remote, n_epochs, **settings):
    counts = [(0, {})]

    def note(state):
        run = state.system.run
        counts.append((run.n_requests, dict(run.words)))

    descend(remote, n_epochs, callback=note, **settings)
    return counts


@pytest.mark.parametrize("kind", KINDS)
def test_a_block_is_one_request(kind, rng):
    remote = make(kind, rng)[1]
    counts = _asked(remote, 3, hold=10**6)
    n_blocks = -(-remote.design.shape[1] // 7)
    # Rows of a block are gathered first; another request looks at F, or at whether all is right.
    expected = 2 * n_blocks + 1 if kind == "exact" else n_blocks + 1
    assert counts[2][0] - counts[1][0] == counts[3][0] - counts[2][0] == expected


def test_gram_matrices_are_made_once_where_there_is_room(rng):
    for hold, n_epochs in ((10**6, 1), (0, 3)):
        remote = make("features", rng)[1]
        words = _asked(remote, 3, hold=hold)[-1][1]
        side = [7, 5]
        triangles = sum(b * (b + 1) // 2 + b for b in side)
        assert words["received", "gram"] == n_epochs * triangles


@pytest.mark.parametrize("n_machines", range(1, 9))
@pytest.mark.parametrize("kind", KINDS)
def test_words_sent_are_those_of_table_1_of_tu_et_al(kind, n_machines, rng):
    """Of the second epoch, where nothing is kept; a sum or a broadcast has log₂ M rounds."""
    k, b = 3, 5
    edges = np.linspace(0, N, n_machines + 1).astype(int)
    remote = make(kind, rng, k, edges=edges, fit_intercept=False)[1]
    counts = _asked(remote, 2, alphas=[0.02], hold=0, block_size=b)
    before, after = counts[1][1], counts[2][1]
    words = {key: after[key] - before.get(key, 0) for key in after}
    n_columns = remote.design.shape[1]
    levels, blocks = np.log2(n_machines), n_columns / b
    whole = n_columns % b == 0
    assert words.get(("sent", "columns"), 0) == 0  # named once, in the first epoch
    if kind == "exact":
        assert words["received", "rows"] * levels == pytest.approx(b * D * levels * blocks)
        moved = words["sent", "rows"] + words["sent", "fix_key"]
        assert moved * levels == pytest.approx(b * k * levels * blocks)
        assert ("received", "gram") not in words  # made of the rows, where it is solved
        return
    assert words["received", "block"] * levels == pytest.approx(b * k * levels * blocks)
    moved = words["sent", "block"] + words["sent", "squares"]
    assert moved == b * k * blocks
    triangles = b * (b + 1) / 2 * levels * blocks
    if whole:
        assert words["received", "gram"] * levels == pytest.approx(triangles)
    else:
        assert words["received", "gram"] * levels <= triangles


def test_the_end_of_a_fit_frees_what_workers_derived(rng):
    for kind in KINDS:
        remote = make(kind, rng)[1]
        memories = remote.run.engine.memories
        descend(remote)
        assert {name for memory in memories for name in memory.runs()} <= {remote.run.id}

        def fail(state):
            assert "/" in "".join(state.problem.run.engine.memories[0].runs())
            raise OSError("of a callback")

        with pytest.raises(OSError, match="of a callback"):
            descend(remote, callback=fail)
        assert {name for memory in memories for name in memory.runs()} <= {remote.run.id}


# -- with faults -----------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_a_lost_worker_costs_the_states_of_its_shards(kind, rng):
    seed = int(rng.integers(1000))
    whole, run = run_of(make(kind, np.random.default_rng(seed))[1])

    def forgetful(shards):
        return Forgetful(shards, 2, lambda request: (1,) if request == 12 else ())

    results, broken = run_of(make(kind, np.random.default_rng(seed), engine=forgetful)[1])
    assert_same(results, whole)
    assert broken.n_rebuilt == 2  # of five shards those of the second of two workers
    assert broken.n_requests == run.n_requests  # no block is done twice


@cache
def _without_loss(kind):
    size = {"block_size": 30} if kind == "exact" else {}
    return descend(make(kind, np.random.default_rng(5), 2)[1], 3, **size)


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=5, deadline=None)
@given(data=st.data())
def test_states_lost_at_random_moments_change_nothing(kind, data):
    lost = data.draw(st.dictionaries(st.integers(0, 60), st.sets(st.integers(0, 1)), max_size=8))

    def forgetful(shards):
        return Forgetful(shards, 2, lambda request: lost.get(request, ()))

    size = {"block_size": 30} if kind == "exact" else {}
    remote = make(kind, np.random.default_rng(5), 2, engine=forgetful)[1]
    results, run = run_of(remote, n_epochs=3, **size)
    assert_same(results, _without_loss(kind), 1e-8)
    assert run.n_rebuilt <= 3 * sum(map(len, lost.values()))
    assert run.n_wrong == 0


@pytest.mark.parametrize("kind", KINDS)
def test_a_wrong_state_is_found_and_made_anew(kind, rng):
    seed = int(rng.integers(1000))
    remote = make(kind, np.random.default_rng(seed), edges=EDGES[2])[1]
    engine = remote.run.engine
    runs = []

    def spoil(state):
        runs.append(state.system.run)
        parts = [part for memory in engine.memories for part in memory._parts.values()]
        for part in parts if state.iteration == 2 else ():
            for version in [each for each in part._states if isinstance(each, int)]:
                part._states[version] = spoilt(part._states[version])

    settings = {"tol": 1e-8, "n_epochs": 300, "block_size": 60, "alphas": [0.02]}
    with pytest.warns(RuntimeWarning, match="the state of shard . was off by"):
        wrong = descend(remote, callback=spoil, **settings | {"tol": 0.0, "n_epochs": 3})
    assert runs[-1].n_wrong == 1
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # none where an epoch or two are enough
        right = descend(remote, callback=spoil, **settings)
    unspoilt = descend(make(kind, np.random.default_rng(seed))[1], **settings)
    np.testing.assert_allclose(right[0].coef, unspoilt[0].coef, atol=1e-5)
    assert right[0].converged
    assert not wrong[0].converged


# -- checkpoints -----------------------------------------------------------------------------


@pytest.mark.parametrize("after", [1, 4, 9])
@pytest.mark.parametrize("kind", KINDS)
def test_an_interrupted_fit_goes_on_with_other_shards(kind, after, tmp_path, rng):
    seed = int(rng.integers(1000))
    made = {q: make(kind, np.random.default_rng(seed), edges=EDGES[q])[1] for q in (1, 4, 7)}
    settings = {"trace": "block", "tol": 1e-5, "n_epochs": 8, "block_size": 9}
    whole = descend(made[1], **settings)
    settings |= {"checkpoint": tmp_path / "fit", "checkpoint_every": 1}
    broken = descend(made[4], callback=interrupting(after), **settings)
    assert any(result.interrupted for result in broken)
    n_blocks = []
    resumed = descend(made[7], callback=lambda state: n_blocks.append(state.n_blocks), **settings)
    assert after <= n_blocks[0] <= after + 1  # one block at most is done again
    for one, other in zip(resumed, whole, strict=True):
        np.testing.assert_allclose(one.coef, other.coef, atol=1e-9)
        assert one.n_iter == other.n_iter
    assert not list((tmp_path / "fit").iterdir())


@pytest.mark.parametrize("kind", KINDS)
def test_checkpoints_of_other_fits_are_refused(kind, tmp_path):
    first = make(kind, np.random.default_rng(1))[1]
    settings = {"trace": "block", "checkpoint": tmp_path, "checkpoint_every": 1}
    descend(first, callback=interrupting(2), **settings)
    other = make(kind, np.random.default_rng(2))[1]
    with pytest.raises(ValueError, match="checkpoint must be a folder of the same fit"):
        descend(other, **settings)
    with pytest.raises(ValueError, match="checkpoint must be a folder of the same fit"):
        descend(first, alphas=[0.5], **settings)
    file = tmp_path / "block-descent.npz"
    file.write_bytes(file.read_bytes()[:-200])
    with pytest.raises(ValueError, match="checkpoint must hold a fit that can go on"):
        descend(first, **settings)


@pytest.mark.parametrize("form", ["array", "float32", "csr", "texts"])
def test_digests_tell_rows_and_their_order_but_not_shards(form, rng):
    X = inputs(rng, form == "csr")
    X = X.astype(np.float32) if form == "float32" else X
    y, weights = rng.choice(["ash", "beech"], size=N), rng.uniform(size=N)
    if form == "texts":
        X = np.array([f"row {i % 17}" for i in range(N)], dtype=object)
    digests = [digest_of_shards(Here(cut(X, y, weights, edges))) for edges in (*EDGES, UNEVEN)]
    assert all(np.array_equal(digest, digests[0]) for digest in digests)
    order = np.arange(N)
    order[[3, 77]] = 77, 3
    others = [
        (X[order], y, weights),
        (X, y[order] if y[3] != y[77] else np.roll(y, 1), weights),
        (X, y, weights[order]),
        (X[:-1], y[:-1], weights[:-1]),
    ]
    for other in others:
        assert not np.array_equal(digest_of_shards(Here([Shard(*other)])), digests[0])
