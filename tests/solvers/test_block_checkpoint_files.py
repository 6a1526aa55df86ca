"""Checkpoint files that are damaged, of another fit, shared or left behind."""

import json
import os
import re
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from _systems import ALPHAS, KERNEL, KINDS, exactly, make
from mercer.designs import KernelColumns
from mercer.equations import equations
from mercer.losses import Squared
from mercer.penalties import RKHSNorm
from mercer.problem import Problem
from mercer.solvers.block import partition
from mercer.solvers.block.checkpoint import Checkpoint, _digest
from mercer.solvers.block.state import BlockState

NAME = "block-descent.npz"
DAMAGED = r"^checkpoint must hold a fit that can go on; .*block-descent\.npz does not\.$"
ANOTHER = r"^checkpoint must be a folder of the same fit: data, settings or alphas differ from .*"


@pytest.fixture(params=KINDS)
def kind(request):
    return request.param


def interrupting(after):
    def callback(state):
        if state.n_blocks >= after:
            raise KeyboardInterrupt

    return callback


def solver_in(folder, **settings):
    settings = {"tol": 1e-3, "trace": "block", "checkpoint_every": 1} | settings
    return exactly(checkpoint=folder, **settings)


def interrupted(folder, problem, after=3, **settings):
    """A solver whose fit of the problem was interrupted."""
    solver = solver_in(folder, **settings)
    solver.solve_path(problem, ALPHAS, callback=interrupting(after))
    assert (folder / NAME).exists()
    return solver


def loader(folder):
    """Loads the checkpoint of a folder as often as wanted."""
    with np.load(folder / NAME) as members:
        checkpoint = Checkpoint(folder, str(members["_mark"]), members["_examples"])

    def load():
        loaded = []
        assert checkpoint.load(lambda *both: loaded.append(both))
        return loaded[0]

    return load


# -- damage ----------------------------------------------------------------------------------


def test_no_flipped_byte_changes_what_is_loaded(tmp_path, rng):
    solver = solver_in(tmp_path, accelerated=False)
    solver.solve(make("features", rng), callback=interrupting(1))
    load = loader(tmp_path)
    arrays, facts = load()
    whole = (tmp_path / NAME).read_bytes()
    places = range(0, len(whole), 13)
    refused = kept = 0
    for place in places:
        flipped = bytearray(whole)
        flipped[place] ^= 1 << place % 8 if place % 2 else 255
        (tmp_path / NAME).write_bytes(flipped)
        try:
            found, told = load()
        except ValueError as error:
            refused += bool(re.search(f"{DAMAGED}|{ANOTHER}", str(error)))
            continue
        assert told == facts  # a date in the archive, for one
        assert found.keys() == arrays.keys()
        for name, array in found.items():
            assert array.dtype == arrays[name].dtype
            np.testing.assert_array_equal(array, arrays[name], strict=True)
        kept += 1
    assert refused + kept == len(places)
    assert refused > kept


def test_a_file_that_is_cut_is_refused(tmp_path, rng):
    problem = make("features", rng)
    solver = interrupted(tmp_path, problem)
    whole = (tmp_path / NAME).read_bytes()
    for length in [*range(0, len(whole), 101), *range(len(whole) - 30, len(whole))]:
        (tmp_path / NAME).write_bytes(whole[:length])
        with pytest.raises(ValueError, match=DAMAGED):
            solver.solve_path(problem, ALPHAS)


def without(name):
    return lambda arrays, facts: arrays.pop(name)


def changed(name, change):
    def apply(arrays, facts):
        arrays[name] = change(arrays[name])

    return apply


def said(name, value):
    def apply(arrays, facts):
        facts[name] = value

    return apply


@pytest.mark.parametrize(
    "forge",
    [
        without("own.index"),
        without("own.squares"),
        without("system.x"),
        without("system.met"),
        without("past.0.x"),
        changed("system.x", lambda x: x[:-1]),
        changed("system.x", lambda x: x.astype(np.float32)),
        changed("system.rows0", lambda x: x.T),
        changed("past.0.rows0", lambda x: x[None]),
        changed("own.relative", lambda x: np.append(x, 1.0)),
        changed("own.index", lambda x: x[::-1]),
        changed("own.index", lambda x: x + 1),
        changed("own.index", lambda x: x[:1]),
        changed("own.n_iter", lambda x: x.astype(object).astype("U8")),
        lambda arrays, facts: arrays.update(more=np.zeros(3)),
        lambda arrays, facts: facts.pop("position"),
        lambda arrays, facts: facts.pop("traces"),
        said("position", -1),
        said("position", "2"),
        said("iteration", True),
        said("key", 1.5),
        said("key", None),
        said("block_size", 0),
        said("rank", [3]),
        said("estimated", 1),
        said("traces", [[]]),
        said("traces", [{}, {}, 3]),
        said("traces", [[{"time": 1.0}]] * 3),
        said("seconds", "long"),
        said("phases", 3),
        said("phases", {"solve": "long"}),
    ],
)
def test_a_forged_file_is_refused(forge, tmp_path, rng):
    problem = make("features", rng)
    solver = interrupted(tmp_path, problem)
    rewrite(tmp_path / NAME, forge)
    with pytest.raises(ValueError, match=DAMAGED):
        solver.solve_path(problem, ALPHAS)


@pytest.mark.parametrize("text", ["[]", "3", "null", '{"key": 1', "", "\x00"])
def test_facts_of_another_shape_are_refused(text, tmp_path, rng):
    problem = make("exact", rng)
    solver = interrupted(tmp_path, problem)
    rewrite(tmp_path / NAME, lambda arrays, facts: None, text)
    with pytest.raises(ValueError, match=DAMAGED):
        solver.solve_path(problem, ALPHAS)


def rewrite(path, forge, text=None):
    """Change what a checkpoint holds, with a digest that fits."""
    with np.load(path) as members:
        arrays = {name: members[name] for name in members.files}
    facts = json.loads(str(arrays.pop("_facts")))
    mark = arrays.pop("_mark")
    del arrays["_digest"]
    forge(arrays, facts)
    text = json.dumps(facts) if text is None else text
    np.savez(path, _mark=mark, _facts=text, _digest=_digest(arrays, text), **arrays)


def test_a_forged_array_without_its_digest_is_refused(tmp_path, rng):
    problem = make("exact", rng)
    solver = interrupted(tmp_path, problem)
    with np.load(tmp_path / NAME) as members:
        arrays = {name: members[name] for name in members.files}
    arrays["system.x"][3, 1] += 1e-9
    np.savez(tmp_path / NAME, **arrays)
    with pytest.raises(ValueError, match=DAMAGED):
        solver.solve_path(problem, ALPHAS)


# -- to the last bit -------------------------------------------------------------------------


@pytest.mark.rounding
@pytest.mark.parametrize("start", [None, 0.5], ids=["cold", "warm"])
def test_arrays_come_back_in_the_layout_that_they_had(kind, start, tmp_path, rng, monkeypatch):
    problem = make(kind, rng, n_outputs=2)
    if start is not None:
        start = np.full(problem.shape, start)
    saved, restored = [], []
    restore = BlockState.restore

    def noticed(self, arrays, facts):
        restore(self, arrays, facts)
        restored.append(copied(self._arrays()))

    monkeypatch.setattr(BlockState, "restore", noticed)
    solver = solver_in(tmp_path, hold=0)

    def last(state):
        saved.append(copied(state._arrays()))
        return interrupting(9)(state)

    solver.solve(problem, start, last)
    solver.solve(problem, start, lambda state: True)
    assert restored[0].keys() == saved[-1].keys()
    for name, array in saved[-1].items():
        assert restored[0][name].strides == array.strides, name
        np.testing.assert_array_equal(restored[0][name], array, strict=True)


def copied(arrays):
    return {name: array.copy(order="K") for name, array in arrays.items()}


@pytest.mark.rounding
def test_nothing_that_a_system_learns_is_lost(kind, rng):
    problem = make(kind, rng, n_outputs=2)
    first, second = equations(problem, ALPHAS), equations(problem, ALPHAS)
    for system in (first, second):
        system.start(system.from_theta(problem.initial()))
    move(first, np.arange(4))
    second.restore(first.saved())
    for J in (np.arange(4), np.arange(4, 9)):
        for system in (first, second):
            move(system, J)
    derived = {"phase", "sent", "problem", "parts", "_matrix", "state"}
    for name, value in vars(first).items():
        if name not in derived:
            np.testing.assert_array_equal(vars(second)[name], value, strict=True, err_msg=name)
    assert second.state.keys() == first.state.keys()
    for name, value in first.state.items():
        np.testing.assert_array_equal(second.state[name], value, strict=True, err_msg=name)


def move(system, J):
    block = system.block(J)
    system.move(block, np.linalg.solve(block.matrix(0.1), block.rhs))


@pytest.mark.rounding
def test_a_fit_goes_on_with_its_blocks_whatever_memory_is_left(tmp_path, rng, monkeypatch):
    room = [2**21]
    monkeypatch.setattr("mercer.equations.base.available_memory", lambda: room[0])
    design = KernelColumns(rng.normal(size=(300, 5)), KERNEL)
    problem = Problem(design, rng.normal(size=300), Squared(), RKHSNorm(0.1, design))
    solver = solver_in(tmp_path, block_size="auto", hold=0)
    whole = solver.solve(problem)
    solver.solve(problem, callback=interrupting(5))
    room[0] //= 2
    sizes = []
    resumed = solver.solve(problem, callback=lambda state: sizes.append(len(state.blocks[0])))
    assert partition.size_of_blocks(equations(problem)) < sizes[0] < 300
    np.testing.assert_array_equal(resumed.coef, whole.coef)
    assert [row.objective for row in resumed.trace] == [row.objective for row in whole.trace]


# -- folders ---------------------------------------------------------------------------------

KILLED = """
import os, signal, sys
import numpy as np
from mercer.designs import Dense
from mercer.losses import Squared
from mercer.penalties import L2
from mercer.problem import Problem
from mercer.solvers import BlockCoordinateDescent

X = np.random.default_rng(0).normal(size=(40, 12))
problem = Problem(Dense(X), X[:, 0], Squared(), L2(0.1))
solver = BlockCoordinateDescent(1e-6, 50, block_size=4, checkpoint=sys.argv[1], checkpoint_every=1)
"""
IN_THE_MIDDLE = """
written = []
fsync = os.fsync

def kill(file):
    written.append(file)
    if len(written) == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    fsync(file)

os.fsync = kill
solver.solve(problem)
"""


@pytest.mark.skipif(os.name != "posix", reason="needs SIGKILL")
def test_what_a_killed_fit_has_left_goes_with_the_next(tmp_path):
    code = KILLED + IN_THE_MIDDLE
    killed = subprocess.run([sys.executable, "-c", code, tmp_path], check=False)
    assert killed.returncode == -signal.SIGKILL
    assert sorted(path.suffix for path in tmp_path.iterdir()) == [".npz", ".tmp"]
    (tmp_path / "notes.tmp").write_text("of the user")
    names = {}
    exec(KILLED.replace("sys.argv[1]", repr(str(tmp_path))), names)
    assert names["solver"].solve(names["problem"]).converged
    assert [path.name for path in tmp_path.iterdir()] == ["notes.tmp"]


def test_two_fits_in_one_folder_do_not_spoil_each_other(tmp_path, rng):
    one, other = make("features", rng), make("features", rng)
    solver = solver_in(tmp_path)
    seen = []

    def meanwhile(state):
        if state.n_blocks == 1:
            (tmp_path / NAME).rename(tmp_path / "aside")
            seen.append(solver.solve(other, callback=interrupting(2)))
        return

    with pytest.raises(ValueError, match=ANOTHER):  # before it takes the other's place
        solver.solve(one, callback=meanwhile)
    assert seen[0].interrupted
    assert solver.solve(other).converged
    (tmp_path / "aside").rename(tmp_path / NAME)
    assert solver.solve(one).converged


def test_a_fit_does_not_remove_the_file_of_another(tmp_path, rng):
    one, other = make("features", rng), make("features", rng)
    solver = solver_in(tmp_path, checkpoint_every=1000)
    left = []

    def meanwhile(state):
        if not left:
            left.append(interrupted(tmp_path, other))

    solver.solve(one, callback=meanwhile)
    assert (tmp_path / NAME).exists()
    assert all(result.converged for result in left[0].solve_path(other, ALPHAS))


def test_twins_in_one_folder_both_finish(tmp_path, rng):
    problem = make("features", rng)
    solver = solver_in(tmp_path)
    with ThreadPoolExecutor(4) as pool:
        results = [task.result() for task in [pool.submit(solver.solve, problem) for _ in range(8)]]
    assert all(result.converged for result in results)
    assert not list(tmp_path.iterdir())


def test_a_file_in_the_place_of_the_folder_is_one_sentence(tmp_path, rng):
    (tmp_path / "taken").write_text("")
    with pytest.raises(OSError, match=r"^checkpoint must be a folder; .*taken cannot be made: "):
        solver_in(tmp_path / "taken").solve(make("exact", rng))
