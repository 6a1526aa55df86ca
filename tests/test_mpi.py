"""Fits over the ranks of an MPI job, each job a process group with a hard time limit."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import mercer
from mercer import mpi
from mercer.distributed import Here, Shard
from mercer.distributed.models import fit_over

pytest.importorskip("mpi4py", reason="mpi4py is not installed")

from _mpi_program import model_of, rows

HERE = Path(__file__).parent
LAUNCHER = shutil.which(
    "mpiexec", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
)
if LAUNCHER is None:
    pytest.skip("no mpiexec", allow_module_level=True)
SECONDS = 180


def environment():
    """Of ranks that find this package, one thread each; Open MPI may run as root, on few cores."""
    paths = [str(Path(mercer.__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(path for path in paths if path),
        "OMP_NUM_THREADS": "1",
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        "OMPI_MCA_rmaps_base_oversubscribe": "1",
        "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
    }


def start(n, *arguments):
    return subprocess.Popen(
        [LAUNCHER, "-n", str(n), sys.executable, "-W", "error", *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(),
        start_new_session=True,
    )


def ended(process, seconds=SECONDS):
    """Code, output and errors of a job; whatever is left of it is killed."""
    try:
        out, err = process.communicate(timeout=seconds)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
    return process.returncode, out, err


def job(n, *arguments):
    return ended(start(n, HERE / "_mpi_program.py", *arguments))


@pytest.fixture(scope="module", autouse=True)
def _launches():
    code, _, err = ended(start(1, "-c", "from mpi4py import MPI"))
    if code:
        pytest.skip(f"mpiexec starts no rank: {err.strip()[-200:]}")


@pytest.mark.parametrize("n", [1, 3])
def test_ranks_do_what_one_process_does(n):
    code, out, err = job(n, "twin")
    assert (code, out.strip()) == (0, f"as here {n}"), err


def test_values_are_freed_with_their_handles():
    code, out, err = job(2, "memory")
    assert (code, out.strip()) == (0, "freed"), err


def test_an_error_of_a_rank_is_raised_on_the_first_and_ends_the_job_if_nobody_takes_it():
    code, out, err = job(3, "error")
    assert code == 1
    assert "rows must be fewer; got 26." in out
    assert "On rank 2:" in out
    assert "in refused" in out
    assert "refused: True" in out
    assert "OSError: no such part: 0" in err


def test_a_rank_that_is_killed_ends_the_job():
    code, out, err = job(3, "killed")
    assert code != 0, (out, err)


def test_an_interrupt_comes_between_commands():
    process = start(3, HERE / "_mpi_program.py", "interrupt")
    ranks = process.stdout.readline().split()
    assert len(ranks) == 3
    time.sleep(0.2)
    for rank in ranks:  # as some launchers do with Ctrl-C
        os.kill(int(rank), signal.SIGINT)
    code, out, err = ended(process)
    assert "interrupted 137" in out, (code, out, err)


@pytest.fixture(scope="module")
def expected():
    model = model_of().fit(*rows(0, n=1))
    return np.append(model.map_coef_, model.intercept_)


def test_coefficients_are_those_of_one_process(expected, tmp_path):
    code, _, err = job(3, "fit", tmp_path / "coef.npy")
    assert code == 0, err
    difference = abs(np.load(tmp_path / "coef.npy") - expected)
    assert difference.max() <= 1e-10 * abs(expected).max()


def test_a_fit_goes_on_from_its_checkpoint_on_another_number_of_ranks(expected, tmp_path):
    code, out, _ = job(2, "fit", tmp_path / "coef.npy", tmp_path / "kept", 6)
    assert code != 0
    assert not (tmp_path / "coef.npy").exists()
    assert any((tmp_path / "kept").iterdir())
    code, out, err = job(3, "fit", tmp_path / "coef.npy", tmp_path / "kept")
    assert code == 0, err
    difference = abs(np.load(tmp_path / "coef.npy") - expected)
    assert difference.max() <= 1e-9 * abs(expected).max()
    states = []
    fit_over(model_of(), Here([Shard(*rows(0, n=1))]), callback=states.append)
    assert int(out.split()[1]) <= len(states) - 5


def test_without_a_launcher_there_is_one_rank():
    done = subprocess.run(
        [sys.executable, HERE / "_mpi_program.py", "twin"],
        capture_output=True, text=True, env=environment(), timeout=SECONDS, check=True,
    )  # fmt: skip
    assert done.stdout.strip() == "as here 1"


def test_shards_need_ranks():
    with pytest.raises(RuntimeError, match=r"inside of mercer\.mpi\.run, on rank 0"):
        mpi.shards_of(len)
