"""Commands that are killed, terminated or interrupted at any moment, and then given again."""

from __future__ import annotations

import signal
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

import _faults
from fuzz import judge

_LONGEST = 6000  # milliseconds after which most commands are over


def attack(draw: Any, say: Any) -> None:
    """One command and one signal: nothing is half-written, and the command can be given again."""
    name = draw(st.sampled_from(sorted(_faults.COMMANDS)))
    number = draw(st.sampled_from([signal.SIGINT, signal.SIGTERM, signal.SIGKILL]))
    # Half of them early, where modules are being imported and files are read.
    moment = draw(st.one_of(st.integers(0, 1500), st.integers(0, _LONGEST)))
    say(f"{name}, {number.name} after {moment} ms")
    with tempfile.TemporaryDirectory(prefix="fuzz-") as place:
        folder = Path(place)
        _faults.prepare(folder)
        child = _faults.start(folder, _faults.COMMANDS[name])
        ended = _faults.end(child, number, moment / 1000)
        wrong = _faults.complaints(folder, name, number, ended) or _faults.repeated(folder, name)
        if wrong:
            raise judge.Wrong("; ".join(wrong))
