"""The scripts of ``examples/cluster``, as newcomers run them; those of Docker are read, not run."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

import mercer
from mercer import persistence

distributed = pytest.importorskip("distributed")
pytest.importorskip("pyarrow")
from _clusters import limited  # noqa: E402

EXAMPLES = Path(__file__).parents[2] / "examples" / "cluster"
if not EXAMPLES.is_dir():
    pytest.skip("no examples beside the tests", allow_module_level=True)
SECONDS = 150
MERCER = [sys.executable, "-c", "from mercer.cli import main; main()"]
PATHS = [str(Path(sys.executable).parent), os.environ["PATH"]]


def environment():
    """Of processes that find this package."""
    paths = [str(Path(mercer.__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
    paths = os.pathsep.join(path for path in paths if path)
    return {
        **os.environ,
        "PYTHONPATH": paths,
        "PATH": os.pathsep.join(PATHS),
        "OMP_NUM_THREADS": "1",
    }


def run(*command, folder):
    done = subprocess.run(
        [str(part) for part in command],
        cwd=folder, env=environment(), capture_output=True, text=True, timeout=SECONDS, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done


@contextmanager
def background(*command, folder):
    """A process that is ended as Ctrl-C does, and killed with its children if that fails."""
    process = subprocess.Popen(
        [str(part) for part in command],
        cwd=folder,
        env=environment(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        yield process
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=30)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Where the examples are run: with 1600 rows of data."""
    folder = tmp_path_factory.mktemp("examples")
    run(sys.executable, EXAMPLES / "make_data.py", "data", 1600, folder=folder)
    return folder


def check(path):
    """The model tells the target of the example's data, on the command line as well."""
    data = path.parent / "data" / "part-0.parquet"
    told = run(*MERCER, "predict", path, data, "--out", "guesses.csv", folder=path.parent)
    assert told.stderr == ""
    X = np.random.default_rng(100).uniform(-1.5, 1.5, size=(200, 6))
    y = np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2]
    model = persistence.load(path)
    vars(model).pop("feature_names_in_", None)
    assert model.score(X, y) > 0.8
    path.unlink()


@limited(2 * SECONDS)
def test_a_cluster_started_by_hand(folder):
    if shutil.which("dask", path=os.pathsep.join(PATHS)) is None:
        pytest.skip("no command dask")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    address = f"tcp://127.0.0.1:{port}"
    with background("sh", EXAMPLES / "start.sh", port, 2, folder=folder):
        with distributed.Client(address, timeout=60, set_as_default=False) as client:
            client.wait_for_workers(2, timeout=60)
        run(sys.executable, EXAMPLES / "fit.py", address, "data", folder=folder)
        check(folder / "model.skops")
        how = ("--map", "fourier", "--n-components", 512, "--scheduler", address)
        fit = ("fit", "data", "--target", "y", "--out", "model.skops")
        run(*MERCER, *fit, *how, folder=folder)
        check(folder / "model.skops")


@limited(SECONDS)
def test_the_job_of_slurm_on_one_node(folder, tmp_path):
    """With scripts for ``srun``, which runs its command, and for ``hostname``."""
    if shutil.which("dask", path=os.pathsep.join(PATHS)) is None:
        pytest.skip("no command dask")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    main = f'exec {shlex.join(MERCER)} "$@"'
    commands = {"srun": 'exec "$@"', "hostname": "echo 127.0.0.1", "mercer": main}
    for name, command in commands.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{command}\n")
        (tmp_path / name).chmod(0o755)
    script = tmp_path / "slurm.sbatch"
    script.write_text((EXAMPLES / script.name).read_text().replace("8192", "512"))
    path = f"PATH={os.pathsep.join([str(tmp_path), *PATHS])}"
    run("env", path, "bash", script, port, folder=folder)
    check(folder / "model.skops")


def code_of_the_guide():
    """The Python code of the page on many machines, on the example's data."""
    page = EXAMPLES.parents[1] / "docs" / "many-machines.md"
    [code] = re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.S)
    return code.replace("sales/", "data/").replace('"price"', '"y"').replace("8192", "256")


@limited(SECONDS)
def test_the_code_of_the_guide_for_dask(folder):
    address = 'Client("tcp://scheduler:8786")'
    code = code_of_the_guide()
    assert address in code
    code = code.replace(address, "Client(processes=False, dashboard_address=None)")
    told = run(sys.executable, "-c", f"{code}client.close()\nprint(local)", folder=folder)
    assert told.stdout.startswith("KernelRegressor(")


def test_shell_scripts_are_whole():
    for name in ("start.sh", "slurm.sbatch"):
        subprocess.run(["sh", "-n", str(EXAMPLES / name)], check=True, timeout=SECONDS)


def test_the_services_of_docker_start_what_the_script_starts():
    yaml = pytest.importorskip("yaml")
    services = yaml.safe_load((EXAMPLES / "compose.yaml").read_text())["services"]
    assert services.keys() == {"scheduler", "worker", "mercer"}
    script = (EXAMPLES / "start.sh").read_text()
    for name in ("scheduler", "worker"):
        assert services[name]["command"].startswith(f"dask {name} ")
        assert f"dask {name} " in script
    context = (EXAMPLES / services["worker"]["build"]["context"]).resolve()
    assert (context / services["worker"]["build"]["dockerfile"]).is_file()
    assert services["worker"]["deploy"]["replicas"] == 4
