"""Work for the ranks of an MPI job: ``mpiexec -n 3 python _mpi_program.py twin``."""

from __future__ import annotations

import os
import sys
import time
from functools import partial

import numpy as np

from _distributed_parts import Residual
from mercer import KernelRegressor, mpi
from mercer.distributed import Here, Run, Shard, gathered, summed
from mercer.solvers import BlockCoordinateDescent

N_SHARDS = 7  # one of them without rows


def say(*words):
    sys.stdout.write(" ".join(map(str, words)) + "\n")
    sys.stdout.flush()


def load(number):
    rng = np.random.default_rng(number)
    n = 0 if number == 4 else 20 + number
    return rng.normal(size=(n, 8)), rng.normal(size=n)


def engines():
    return mpi.shards_of(load, n_shards=N_SHARDS), Here([Shard(*load(i)) for i in range(N_SHARDS)])


def descent(engine):
    run, w, update = Run(engine, Residual, None), np.zeros(8), None
    for step in range(20):
        gradient = run.total("gradient", version=step, update=update, truth=lambda i, w=w: w)
        update = 1e-3 * gradient
        w = w + update
    return run, w


def fresh(memory):
    memory.forget()


def kept(memory):
    return len(memory.runs())


def solution(gram, w):
    return np.linalg.solve(gram.value + np.eye(len(w)), w)


def responses(memory, number, shard, w, shift=0.0):
    return shard.X @ w + shift


def aligned(memory, number, shard, values):
    return values[1].flags.aligned


def halves(memory, number, shard):
    left = shard.X[:, 0] > 0
    return [Shard(shard.X[rows], shard.target[rows]) for rows in (left, ~left, left & ~left)]


def together(*pieces):
    return Shard(
        np.concatenate([piece.X for piece in pieces]),
        np.concatenate([piece.target for piece in pieces]),
    )


def doubled(memory, number, shard, factor):
    return Shard(factor * shard.X, shard.target)


def refused(shard):
    if len(shard) == 26:  # the last, which the last rank has
        raise ValueError("rows must be fewer; got 26.")
    return len(shard)


def same(ours, theirs):
    return len(ours) == len(theirs) and all(map(np.array_equal, ours, theirs))


def check_twin():
    """All that an engine is asked, with the bits of ``Here``."""
    ours, here = engines()
    assert (ours.n_shards, gathered(ours, len)) == (N_SHARDS, gathered(here, len))
    (run, w), (_, expected) = descent(ours), descent(here)
    assert np.array_equal(w, expected)
    assert run.n_rebuilt == 0
    assert ours.everywhere(kept) == [1] * ours.n_workers
    ours.everywhere(fresh)
    again = run.total("gradient", version=20, update=None, truth=lambda i: w)
    assert np.array_equal(again, Run(here, Residual, None).total(
        "gradient", version=0, truth=lambda i: w
    ))  # fmt: skip
    assert run.n_rebuilt == N_SHARDS
    # what stays on a rank goes where it is needed
    gram, gram_here = run.kept("gram"), Run(here, Residual, None).kept("gram")
    w, w_here = ours.once(solution, gram, w), here.once(solution, gram_here, w)
    z, z_here = ours.each(responses, w), here.each(responses, w_here)
    assert same(ours.fetch(z), z_here)
    own = {i: (10.0 * i,) for i in (6, 1)}
    assert same(
        ours.fetch(ours.each(responses, w, numbers=[6, 0, 1], own=own)),
        here.each(responses, w_here, numbers=[6, 0, 1], own=own),
    )
    assert ours.fetch([ours.once(np.sum, z[-1])]) == [np.sum(z_here[-1])]
    big = ours.share(np.arange(2.0**17).reshape(8, -1))
    assert same(
        ours.fetch(ours.each(responses, big)),
        here.each(responses, np.arange(2.0**17).reshape(8, -1)),
    )
    assert ours.fetch(ours.each(aligned, ours.share((b"abc", np.ones((128, 409)))))) == [True] * 7
    # other shards of the same rows
    assert np.array_equal(
        descent(ours.exchange(halves, 3, together))[1],
        descent(here.exchange(halves, 3, together))[1],
    )
    twice = ours.changed(doubled, 2.0)
    assert summed(twice, np.shape) == summed(ours, np.shape)
    assert np.array_equal(descent(twice)[1], descent(here.changed(doubled, 2.0))[1])
    say("as here", ours.n_workers)


def check_memory():
    """Values go with their handles, and derived states with the engine."""
    engine, _ = engines()
    for _ in range(3):
        descent(engine)
    del _
    engine.everywhere(kept)
    counts = engine.everywhere(held)
    assert sum(counts) == N_SHARDS, counts
    engine.close()
    assert engine.everywhere(kept) == [0] * engine.n_workers
    engine.everywhere(kept)
    assert sum(engine.everywhere(held)) == 0
    say("freed")


def held(memory):
    return len(mpi._job.values)


def check_error():
    """An error on a rank is raised on rank 0; what comes after it works."""
    engine, _ = engines()
    try:
        gathered(engine, refused)
    except ValueError as error:
        say(error, *getattr(error, "__notes__", ["no note"]))
    try:
        summed(engine, lambda shard: 1)
    except (AttributeError, TypeError) as error:
        say("refused:", "pickle" in str(error))
    assert summed(engine, len) == sum(len(load(i)[1]) for i in range(N_SHARDS))
    mpi.shards_of(broken, n_shards=3)


def broken(number):
    raise OSError(f"no such part: {number}")


def check_killed():
    """A rank that dies ends the job."""
    engine, _ = engines()
    engine.fetch(engine.each(die))


def die(memory, number, shard):
    if number == N_SHARDS - 1:
        os.kill(os.getpid(), 9)
    time.sleep(0.01)


def rows(number, n=3):
    """Every n-th of 400 rows, so that the same rows are in all numbers of shards."""
    rng = np.random.default_rng(100)
    X = rng.uniform(-2, 2, size=(400, 3))
    y = np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2]
    begin, end = number * 400 // n, (number + 1) * 400 // n
    return X[begin:end], y[begin:end]


def model_of():
    solver = BlockCoordinateDescent(block_size=16, tol=1e-12, checkpoint_every=1)
    return KernelRegressor(
        "fourier", n_components=64, gamma=1.0, alpha=1e-1, solver=solver, random_state=0
    )


def check_fit(out, folder=None, last=None):
    """Coefficients of blocks, or the death of rank 0 after some of them."""
    states = []

    def kill(state):
        states.append(state)
        if last is not None and len(states) == int(last):
            os.kill(os.getpid(), 9)

    load = partial(rows, n=mpi.n_ranks())
    model = mpi.fit(model_of(), load, checkpoint=folder, callback=kill)
    np.save(out, np.append(model.map_coef_, model.intercept_))
    say("iterations", len(states))


def check_interrupt():
    """Ctrl-C waits for the command that ranks are at, and is raised on rank 0 alone."""
    engine, _ = engines()
    say(*engine.everywhere(process))
    try:
        while True:
            summed(engine, rest)
    except KeyboardInterrupt:
        say("interrupted", summed(engine, len))


def process(memory):
    return os.getpid()


def rest(shard):
    time.sleep(0.05)
    return 1


if __name__ == "__main__":
    mpi.run(globals()[f"check_{sys.argv[1]}"], *sys.argv[2:])
