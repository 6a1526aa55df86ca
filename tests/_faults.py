"""Commands that are ended at any moment, and what they must leave behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import mercer
from mercer import KernelRegressor, persistence
from mercer.cli.app import app

# Ready once Python listens to signals: before that, they are its own affair.
_LAUNCHER = (
    "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler);"
    "from mercer.cli import main; from mercer.cli.app import app;"
    "sys.stderr.write('ready\\n'); sys.stderr.flush(); main(sys.argv[1:])"
)
COMMANDS = {
    "fit": ("fit", "waves.csv", "--target", "y", "--map", "fourier", "--out", "out.skops"),
    "fit automatic": ("fit", "waves.csv", "--target", "y", "--out", "out.skops"),
    "fit sparse": ("fit", "waves.csv", "--target", "y", "--sparse", "--out", "out.skops"),
    "fit blocks": (
        *("fit", "waves.csv", "--target", "y", "--map", "exact", "--gamma", "3", "--alpha", "1e-9"),
        *("--solver", "block", "--checkpoint", "kept", "--out", "out.skops"),
    ),
    "fit out of core": (
        *("fit", "waves.parquet", "--target", "y", "--out-of-core", "--map", "fourier"),
        *("--out", "out.skops"),
    ),
    "predict": ("predict", "model.skops", "waves.csv", "--out", "out.csv"),
    "compare": (
        *("compare", "waves.csv", "--target", "y", "--methods", "linear,binning"),
        *("--sizes", "8,16", "--out", "results"),
    ),
    "reproduce": (
        *("reproduce", "random-binning", "--scale", "tiny", "--figure", "4"),
        *("--datasets", "generated-regression", "--protocol", "published", "--out", "results"),
    ),
    "info": ("info", "--json"),
    "datasets": ("datasets",),
}
_KNOWN = {command.name for command in app.registered_commands}
COMMANDS = {name: words for name, words in COMMANDS.items() if words[0] in _KNOWN}
SENTENCES = {signal.SIGINT: "mercer: interrupted", signal.SIGTERM: "mercer: terminated"}
_SLOWEST = 600.0  # seconds after which a command hangs


@dataclass
class Ended:
    """What a command that was over has said.

    Parameters
    ----------
    status : int
        Exit status, negative for a signal.
    said : str
        Standard error.
    printed : str
        Standard output.
    """

    status: int
    said: str
    printed: str


def prepare(folder: Path, n: int = 400) -> None:
    """Put a table and a model into a folder."""
    import pandas as pd

    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 3))
    table = pd.DataFrame(X, columns=["a", "b", "c"])
    table["y"] = np.sin(2 * X[:, 0]) + X[:, 1]
    table.to_csv(folder / "waves.csv", index=False)
    table.to_parquet(folder / "waves.parquet", index=False)
    model = KernelRegressor(n_components=8, random_state=0).fit(X, table["y"])
    names = list("abc")
    persistence.save(
        model, folder / "model.skops", task="regression", target="y", feature_names=names
    )


def start(folder: Path, arguments: tuple[str, ...], **settings: Any) -> subprocess.Popen[str]:
    """Start a command in a folder and wait until it listens to signals."""
    path = os.pathsep.join(
        [str(Path(mercer.__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
    )
    environment = {**os.environ, "PYTHONPATH": path, "OPENBLAS_NUM_THREADS": "1"}
    environment |= settings.pop("env", {})
    child = subprocess.Popen(
        [sys.executable, "-c", _LAUNCHER, *arguments],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **settings,
    )
    assert child.stderr is not None
    while child.stderr.readline() not in ("ready\n", ""):
        pass
    return child


def finish(child: subprocess.Popen[str]) -> Ended:
    """Wait until a command is over."""
    try:
        printed, said = child.communicate(timeout=_SLOWEST)
    except subprocess.TimeoutExpired:
        child.kill()
        child.communicate()
        raise
    return Ended(child.returncode, said, printed)


def run(folder: Path, arguments: tuple[str, ...], **settings: Any) -> Ended:
    """Run a command in a folder."""
    return finish(start(folder, arguments, **settings))


def end(child: subprocess.Popen[str], number: int, moment: float | Callable[[], bool]) -> Ended:
    """Send a signal after some seconds, or when something has come about."""
    if callable(moment):
        deadline = time.monotonic() + _SLOWEST
        while not moment() and child.poll() is None:
            if time.monotonic() > deadline:
                break
            time.sleep(0.002)
    else:
        time.sleep(moment)
    child.send_signal(number)
    return finish(child)


def complaints(folder: Path, name: str, number: int, ended: Ended) -> list[str]:
    """What is not as it must be after a command of ``COMMANDS`` was sent a signal."""
    wrong = []
    if number == signal.SIGKILL:
        if ended.status not in (-number, 0):
            wrong.append(f"exit status {ended.status}")
    elif ended.status not in (0, 128 + number, -number):
        # Before a command begins, and when it is over, a signal ends the interpreter itself.
        wrong.append(f"exit status {ended.status}, not {128 + number}")
    elif ended.status > 0 and not (last := (ended.said.splitlines() or [""])[-1]).startswith(
        SENTENCES[number]
    ):
        wrong.append(f"the last line is {last!r}")
    if "Traceback" in ended.said or "Exception ignored" in ended.said:
        wrong.append(f"a traceback: {ended.said[-500:]}")
    stray = [path.name for path in folder.rglob("*") if _is_stray(path)]
    if stray and number != signal.SIGKILL:
        wrong.append(f"temporary files: {stray}")
    return [f"{name}, {signal.Signals(number).name}: {text}" for text in wrong + halves(folder)]


def halves(folder: Path) -> list[str]:
    """Files in a folder that are there under their own name and are not whole."""
    return [f"{path.name}: {fault}" for path in folder.rglob("*") if (fault := _fault(path))]


def _is_stray(path: Path) -> bool:
    whole = (".csv", ".parquet", ".skops", ".npz", ".npy", ".jsonl", ".png")
    return path.is_file() and (path.suffix not in whole or path.name.startswith("."))


def _fault(path: Path) -> str:
    try:
        if _is_stray(path) or path.is_dir():
            return ""
        if path.suffix == ".skops":
            persistence.load(path)
        elif path.suffix == ".npz":
            with np.load(path, allow_pickle=False) as held:
                json.loads(str(held["_facts"]))
                [held[name] for name in held.files]
        elif path.suffix == ".npy":
            np.load(path)
        elif path.suffix == ".jsonl":
            # The last line may have been cut off: whoever adds to the file removes it.
            [json.loads(line) for line in path.read_text().splitlines(True) if line[-1:] == "\n"]
        elif path.name == "out.csv" and len(path.read_text().splitlines()) != 401:
            return "lines are missing"
        elif path.suffix == ".png" and not path.read_bytes().endswith(b"IEND\xaeB`\x82"):
            return "no whole figure"
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return ""


def repeated(folder: Path, name: str) -> list[str]:
    """What is not as it must be when a command that was ended is given again."""
    resumes = ["--resume"] if name == "reproduce" else []
    ended = run(folder, (*COMMANDS[name], *resumes))
    wrong = [f"{name} again: exit status {ended.status}: {ended.said[-300:]}"] * (ended.status != 0)
    stray = [path.name for path in folder.rglob("*") if path.is_file() and _is_stray(path)]
    return (
        wrong + [f"{name} again: a temporary file {file} stays" for file in stray] + halves(folder)
    )
