"""Cases one after the other, each in a worker; what goes wrong is counted and kept for replay."""

from __future__ import annotations

import json
import os
import random
import signal
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from fuzz.worker import serve

SWEEPS = {  # seconds of processor time that a case may take
    "arrays": 60.0,
    "parameters": 60.0,
    "sequences": 60.0,
    "files": 30.0,
    "models": 60.0,
    "core": 60.0,
    "faults": 300.0,
}
FAULTS = ("crashed", "hung", "leaked", "wrong")
_CHOICES = 4096  # bytes that a case is made of
_PATIENCE = 5.0  # times those seconds on the clock: other work may go on, but a lock held is a hang
_START = 300.0  # seconds for a worker to import everything


@dataclass
class Tally:
    """What came of the cases of one sweep.

    Parameters
    ----------
    tried : int
        Inputs tried.
    counts : Counter
        Cases by outcome: held, refused, crashed, hung, leaked, wrong.
    faults : dict of str to Path
        One file for each kind of fault.
    seconds : float
        Time taken.
    """

    tried: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    faults: dict[str, Path] = field(default_factory=dict)
    seconds: float = 0.0

    @property
    def n_faults(self) -> int:
        """Cases that went wrong."""
        return sum(self.counts[outcome] for outcome in FAULTS)


@dataclass(frozen=True)
class Report:
    """What came of one case.

    Parameters
    ----------
    outcome : str
        "held", "refused", one of ``FAULTS``, or "invalid" for bytes that make no case.
    text : str
        What there is to say of it.
    tried : int
        How many inputs it consisted of.
    said : list of str
        What they were.
    """

    outcome: str
    text: str
    tried: int
    said: list[str]


class Worker:
    """A process that runs cases, started again after each death."""

    def __init__(self, sweep: str, limit: float):
        self.sweep, self.limit = sweep, limit
        self._process: Any = None
        handle, self._log = tempfile.mkstemp(prefix="fuzz-", suffix=".stack")
        os.close(handle)

    def run(self, choices: bytes) -> Report:
        """Run the case that these bytes choose."""
        if self._process is None:
            self._start()
        self._connection.send_bytes(choices)
        said: list[str] = []
        ends = time.monotonic() + _PATIENCE * self.limit
        while self._connection.poll(max(0.0, ends - time.monotonic())):
            try:
                kind, *message = self._connection.recv()
            except (EOFError, ConnectionResetError):
                return Report(*self._epitaph(), 1, said)
            if kind == "done":
                return Report(*message, said)
            said.append(message[0])
        self._process.kill()
        self._process.join()
        self._process = None
        return Report("hung", "it waits", 1, said)

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            self._connection.close()
            self._process.join(10)
            self._process.kill()
        Path(self._log).unlink(missing_ok=True)

    def _start(self) -> None:
        context = get_context("spawn")
        self._connection, theirs = context.Pipe()
        arguments = (theirs, self.sweep, self.limit, self._log)
        self._process = context.Process(target=serve, args=arguments, daemon=True)
        self._process.start()
        theirs.close()
        if not self._connection.poll(_START):
            raise RuntimeError(f"the worker of {self.sweep} does not start")
        self._connection.recv()

    def _epitaph(self) -> tuple[str, str]:
        """What ended the process, and where it was."""
        self._process.join()
        code = self._process.exitcode
        self._process = None
        name = signal.Signals(-code).name if code < 0 else f"exit status {code}"
        lines = Path(self._log).read_text(encoding="utf-8").splitlines()
        frames = [line.strip() for line in lines if "/mercer/" in line]
        if name == "SIGXCPU":
            return "hung", f"more than {self.limit:g} s"
        return "crashed", f"{name} at {frames[0].rpartition('/')[2] if frames else 'unknown'}"


def choices(sweep: str, seed: int, number: int) -> bytes:
    """The bytes that make case ``number`` of a seed, the same anywhere."""
    return random.Random(f"{sweep} {seed} {number}").randbytes(_CHOICES)


def run(sweep: str, seed: int, seconds: float, folder: Path, first: int = 0) -> Iterator[Tally]:
    """The cases of a seed until the time is over; the tally after each."""
    tally = Tally()
    worker = Worker(sweep, SWEEPS[sweep])
    start = time.monotonic()
    number = first
    try:
        while tally.seconds < seconds:
            made = choices(sweep, seed, number)
            report = worker.run(made)
            tally.tried += report.tried
            tally.counts[report.outcome] += report.outcome != "invalid"
            if report.outcome in FAULTS:
                kind = f"{sweep} {report.outcome}: {_kind(report.text)}"
                if kind not in tally.faults:
                    case = {"sweep": sweep, "seed": seed, "case": number, **vars(report)}
                    tally.faults[kind] = _keep(folder, {**case, "choices": made.hex()})
            number += 1
            tally.seconds = time.monotonic() - start
            yield tally
    finally:
        worker.close()


def replay(file: Path) -> Report:
    """Run the case of a file again."""
    case = json.loads(file.read_text(encoding="utf-8"))
    worker = Worker(case["sweep"], SWEEPS[case["sweep"]])
    try:
        return worker.run(bytes.fromhex(case["choices"]))
    finally:
        worker.close()


def _kind(text: str) -> str:
    """What a fault shares with others of its kind: no numbers and no values."""
    return "".join("#" if letter.isdigit() else letter for letter in text.partition(": '")[0])[:120]


def _keep(folder: Path, case: dict[str, Any]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{case['sweep']}-{case['seed']}-{case['case']}.json"
    file.write_text(json.dumps(case, indent=1, ensure_ascii=False), encoding="utf-8")
    return file
