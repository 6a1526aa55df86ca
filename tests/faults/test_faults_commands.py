"""Commands that are killed, terminated or interrupted, and commands without streams or a home."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

from _faults import COMMANDS, complaints, end, finish, halves, prepare, repeated, run, start
from mercer import persistence

pytestmark = pytest.mark.skipif(os.name != "posix", reason="sends signals of POSIX")


@pytest.fixture
def folder(tmp_path):
    prepare(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("name", "number"),
    [
        ("fit", signal.SIGINT),
        ("fit automatic", signal.SIGTERM),
        ("fit out of core", signal.SIGKILL),
        ("predict", signal.SIGTERM),
        ("compare", signal.SIGINT),
    ],
)
def test_ended_command_leaves_nothing_half_written(name, number, folder):
    child = start(folder, COMMANDS[name])
    ended = end(child, number, random.Random(name).uniform(0.0, 2.0))
    assert complaints(folder, name, number, ended) == []


@pytest.mark.parametrize("name", sorted({"compare", "reproduce"} & set(COMMANDS)))
@pytest.mark.slow
def test_command_killed_while_it_records_can_be_given_again(name, folder):
    results = folder / "results"
    child = start(folder, COMMANDS[name])
    ended = end(child, signal.SIGKILL, lambda: any(results.glob("*.jsonl")))
    assert complaints(folder, name, signal.SIGKILL, ended) == []
    assert repeated(folder, name) == []


def test_terminated_command_says_so_and_exits_with_the_signals_status(folder):
    arguments = ("fit", "waves.csv", "--target", "y", "--sparse", "--alpha", "1e-12")
    child = start(folder, (*arguments, "--n-components", "5", "--out", "out.skops"))
    ended = end(child, signal.SIGTERM, 2.0)
    if ended.status and "wrote out.skops" not in ended.printed:  # it was not over before
        assert ended.status == 143
        assert ended.said.splitlines()[-1] == ("mercer: terminated; nothing was left half-written.")


def test_ignored_signal_stays_ignored(folder):
    def ignore():
        signal.signal(signal.SIGHUP, signal.SIG_IGN)

    child = start(folder, COMMANDS["datasets"], preexec_fn=ignore)
    assert end(child, signal.SIGHUP, 0.1).status == 0


BLOCKS = """
import os, signal, sys
import numpy as np
from mercer import KernelRegressor, maps, persistence
from mercer.solvers import BlockCoordinateDescent

class Killed(BlockCoordinateDescent):
    def _one_block(self, state, place):
        if state.n_blocks == int(sys.argv[2]):
            os.kill(os.getpid(), signal.SIGKILL)
        super()._one_block(state, place)

X = np.random.default_rng(0).normal(size=(200, 3))
solver = Killed(block_size=20, checkpoint="kept", checkpoint_every=1, tol=1e-8, max_iter=5)
model = KernelRegressor(maps.ExactKernel(gamma=0.3), alpha=1e-4, solver=solver).fit(X, X.sum(1))
np.save(sys.argv[1], model.map_coef_)
"""


def blocks(folder, name, stop):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.run(
        [sys.executable, "-c", BLOCKS, name, str(stop)],
        cwd=folder,
        env=environment,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )


@pytest.mark.slow
def test_killed_fit_goes_on_from_its_checkpoint_to_the_same_model(tmp_path):
    assert blocks(tmp_path, "whole.npy", -1).returncode == 0
    assert blocks(tmp_path, "again.npy", 7).returncode == -signal.SIGKILL
    assert halves(tmp_path / "kept") == []
    again = blocks(tmp_path, "again.npy", -1)
    assert again.returncode == 0, again.stderr
    whole, resumed = np.load(tmp_path / "whole.npy"), np.load(tmp_path / "again.npy")
    np.testing.assert_allclose(resumed, whole, rtol=1e-9, atol=1e-12)
    assert list((tmp_path / "kept").iterdir()) == []


# --- streams, home and locale ----------------------------------------------------------------


@pytest.mark.parametrize(
    "stream",
    [
        pytest.param(0, id="stdin", marks=pytest.mark.slow),
        pytest.param(1, id="stdout"),
        pytest.param(2, id="stderr", marks=pytest.mark.slow),
    ],
)
def test_closed_stream_does_not_keep_a_model_from_being_written(stream, folder):
    child = subprocess.run(
        ["sh", "-c", f'exec "$@" {stream}<&-', "sh", *_python(), *COMMANDS["predict"]],
        cwd=folder,
        env=_environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert child.returncode == 0, child.stderr
    assert "Traceback" not in child.stderr
    assert len((folder / "out.csv").read_text().splitlines()) == 401


def test_reader_that_leaves_is_no_error_to_speak_of(folder):
    child = start(folder, ("info",))
    child.stdout.close()
    child.stdout = None
    ended = finish(child)
    assert ended.status in (0, 1)
    assert ended.said == ""


def test_full_device_is_one_sentence(folder):
    if not os.path.exists("/dev/full"):
        pytest.skip("there is no /dev/full")
    with open("/dev/full", "w") as full:
        child = subprocess.run(
            [*_python(), "info"],
            cwd=folder,
            env=_environment(),
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert child.returncode == 1
    assert child.stderr.count("\n") == 1
    assert "No space left on device" in child.stderr


@pytest.mark.slow
def test_terminal_without_greek_gets_everything_and_question_marks(folder):
    ended = run(folder, COMMANDS["compare"], env={"PYTHONIOENCODING": "ascii"})
    assert ended.status == 0, ended.said
    assert (folder / "results" / "compare-waves.png").is_file()
    assert "random binning" in ended.printed


def test_home_that_cannot_be_written_is_not_missed(folder):
    changed = {"HOME": "/proc/none", "XDG_CACHE_HOME": "", "XDG_CONFIG_HOME": ""}
    ended = run(folder, COMMANDS["datasets"], env=changed)
    assert ended.status == 0
    assert "letter" in ended.printed


def test_interrupted_automatic_fit_writes_the_best_model_so_far(folder):
    child = start(folder, COMMANDS["fit automatic"])
    ended = end(child, signal.SIGINT, 3.0)
    written = folder / "out.skops"
    # The signal may come before the search, within it, or when all is done.
    if ended.status == 0 or "wrote" in ended.said:
        assert written.exists(), ended.said
    if written.exists():
        model = persistence.load(written)
        X = pd.DataFrame(np.zeros((3, 3)), columns=model.feature_names_in_)
        assert np.isfinite(model.predict(X)).all()


def _python():
    return [sys.executable, "-c", "import sys; from mercer.cli import main; main(sys.argv[1:])"]


def _environment():
    return {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
