"""Block descent interrupted, resumed and bounded in memory."""

import re
import tracemalloc

import numpy as np
import pytest

from _covering import pairwise
from _systems import ALPHAS, KERNEL, KINDS, distance, epochs, exactly, make, quietly
from mercer import config_context
from mercer.designs import Dense, KernelColumns
from mercer.equations import equations
from mercer.losses import Squared
from mercer.penalties import L2, RKHSNorm
from mercer.problem import Problem
from mercer.solvers.block.partition import partition, permutation, size_of_blocks

pytestmark = pytest.mark.rounding


@pytest.fixture(params=KINDS)
def kind(request):
    return request.param


@pytest.fixture(params=[True, False], ids=["accelerated", "plain"])
def accelerated(request):
    return request.param


# -- interrupts and checkpoints --------------------------------------------------------------


def interrupting(after):
    def callback(state):
        if state.n_blocks >= after:
            raise KeyboardInterrupt

    return callback


@pytest.mark.parametrize(
    ("kind", "accelerated", "trace", "after"),
    pairwise(KINDS, [True, False], ["epoch", "block"], [1, 2, 5]),
)
def test_an_interrupted_fit_goes_on_to_the_last_bit(kind, accelerated, trace, after, tmp_path, rng):
    problem = make(kind, rng, n_outputs=2)
    settings = {"tol": 1e-3, "trace": trace, "accelerated": accelerated}
    whole = exactly(**settings).solve_path(problem, ALPHAS)
    solver = exactly(checkpoint=tmp_path / "fit", checkpoint_every=2, **settings)
    broken = solver.solve_path(problem, ALPHAS, callback=interrupting(after))
    assert any(result.interrupted for result in broken)
    resumed = solver.solve_path(problem, ALPHAS)
    for one, other in zip(resumed, whole, strict=True):
        np.testing.assert_array_equal(one.coef, other.coef)
        assert one.n_iter == other.n_iter
        assert [row.objective for row in one.trace] == [row.objective for row in other.trace]
        assert all(np.diff([row.time for row in one.trace]) >= 0)
    assert not list((tmp_path / "fit").iterdir())


def test_a_fit_that_draws_its_own_blocks_goes_on_with_them(tmp_path, rng):
    problem = make("exact", rng)
    solver = exactly(
        trace="block", random_state=None, checkpoint=tmp_path, checkpoint_every=1, tol=1e-4
    )
    seen = []

    def callback(state):
        seen.append([J.tolist() for J in state.blocks])
        return interrupting(4)(state) if len(seen) <= 4 else None

    solver.solve(problem, callback=callback)
    assert solver.solve(problem, callback=callback).converged
    assert all(blocks == seen[0] for blocks in seen)


def test_checkpoints_of_other_fits_are_refused(tmp_path, rng):
    problem = make("exact", rng)
    solver = exactly(trace="block", checkpoint=tmp_path, checkpoint_every=1, tol=1e-2)
    solver.solve(problem, callback=interrupting(2))
    other = Problem(problem.design, problem.y + 1, Squared(), problem.penalty)
    for changed in (
        lambda: solver.solve(other),
        lambda: solver.solve_path(problem, [0.5]),
        lambda: exactly(9, 1e-2, trace="block", checkpoint=tmp_path).solve(problem),
        lambda: exactly(8, 1e-2, random_state=3, trace="block", checkpoint=tmp_path).solve(problem),
    ):
        with pytest.raises(ValueError, match="checkpoint must be a folder of the same fit"):
            changed()
    assert solver.solve(problem).converged


def test_files_that_are_no_checkpoint_are_refused(tmp_path, rng):
    (tmp_path / "block-descent.npz").write_bytes(b"half a file")
    with pytest.raises(ValueError, match="checkpoint must hold a fit that can go on"):
        exactly(checkpoint=tmp_path).solve(make("exact", rng))


def test_a_checkpoint_that_cannot_be_written_leaves_the_last_one(monkeypatch, tmp_path, rng):
    problem = make("exact", rng)
    solver = exactly(trace="block", checkpoint=tmp_path, checkpoint_every=1, tol=1e-2)
    solver.solve(problem, callback=interrupting(3))
    before = (tmp_path / "block-descent.npz").read_bytes()

    def full(*arguments):
        raise OSError("no space left")

    monkeypatch.setattr("mercer.solvers.block.checkpoint.os.fsync", full)
    with pytest.raises(OSError, match="no space left"):
        solver.solve(problem)
    assert [file.name for file in tmp_path.iterdir()] == ["block-descent.npz"]
    assert (tmp_path / "block-descent.npz").read_bytes() == before


def test_an_interrupt_leaves_the_model_so_far(kind, rng):
    problem = make(kind, rng)
    result = exactly(trace="block").solve(problem, callback=interrupting(3))
    assert result.interrupted
    assert not result.converged
    assert problem.value(result.coef) < problem.value(problem.initial())


def test_a_callback_may_stop_the_path(rng):
    results = exactly().solve_path(make("exact", rng), ALPHAS, lambda state: state.iteration == 2)
    assert [result.n_iter for result in results] == [2, 2, 2]
    assert not any(result.interrupted for result in results)


# -- blocks ----------------------------------------------------------------------------------


@pytest.mark.parametrize("n_columns", [1, 7, 8, 9, 44])
def test_blocks_cover_all_columns_once(n_columns):
    for shuffle in (True, False):
        blocks = partition(Dense(np.zeros((2, n_columns))), 8, 5, shuffle)
        np.testing.assert_array_equal(np.sort(np.concatenate(blocks)), np.arange(n_columns))
        assert all(len(J) == 8 for J in blocks[:-1])


def test_every_epoch_has_an_order_of_its_own():
    orders = [permutation(3, epoch, 20).tolist() for epoch in range(4)]
    assert all(sorted(order) == list(range(20)) for order in orders)
    assert len({tuple(order) for order in orders}) == 4


def test_the_block_size_fits_into_memory():
    design = KernelColumns(np.zeros((30_000, 50), dtype=np.float32), KERNEL)
    y = np.zeros(30_000)
    for penalty in (RKHSNorm(0.1, design), L2(0.1)):
        system = equations(Problem(design, y, Squared(), penalty))
        free = size_of_blocks(system)
        assert 512 <= free <= 6144
        with config_context(max_memory="150MB"):
            bounded = size_of_blocks(system)
        assert bounded < free
        assert 4.0 * 30_000 * bounded <= 0.2 * 150 * 2**20


def test_few_columns_are_one_block():
    problem = Problem(Dense(np.zeros((50, 1000))), np.zeros(50), Squared(), L2(0.1))
    assert size_of_blocks(equations(problem)) == 1000


def large(rng, n=2000):
    X = rng.normal(size=(n, 5)).astype(np.float32)
    design = KernelColumns(X, KERNEL)
    return Problem(design, rng.normal(size=n), Squared(), RKHSNorm(0.01, design))


def test_a_fit_stays_within_the_memory_it_may_take(rng):
    problem = large(rng)  # whose kernel has 16 MB
    free = quietly(epochs(3, "auto"), problem)
    with config_context(max_memory="12MB"):
        tracemalloc.start()
        try:
            bounded = quietly(epochs(6, "auto", tol=1e-3, accelerated=True), problem)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    assert peak <= 12 * 2**20
    assert distance(problem, bounded.coef, free.coef) <= 0.05


def test_blocks_that_would_not_fit_are_refused_with_one_that_would(rng):
    problem = large(rng)
    quietly(epochs(1, 100), problem)  # what the first fit of a process takes is not to be counted
    with config_context(max_memory="24MB"):
        with pytest.raises(MemoryError, match="blocks of 2000 columns of 2000 rows needs") as told:
            epochs(1, 2000).solve(problem)
        largest = int(re.search(r"block_size=(\d+) would fit", str(told.value)).group(1))
        assert 100 <= largest < 2000
        quietly(epochs(1, largest), problem)


def test_memory_of_changes_is_that_of_the_epochs_stored_for_many_outputs(rng):
    Z, Y = rng.normal(size=(4000, 64)), rng.normal(size=(4000, 100))
    problem = Problem(Dense(Z.astype(np.float32)), Y, Squared(), L2(0.01))
    descent = epochs(3, 32, accelerated=True)
    free = quietly(descent, problem)
    with config_context(max_memory="40MB"):  # below that of the changes of five epochs
        tracemalloc.start()
        try:
            bounded = quietly(descent, problem)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    assert peak <= 40 * 2**20
    assert distance(problem, bounded.coef, free.coef) <= 1e-4
