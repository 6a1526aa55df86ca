"""The process that runs cases: a crash, a hang or a flood of memory ends it and nothing else."""

from __future__ import annotations

import faulthandler
import importlib
import resource
import sys
import time
import warnings
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from hypothesis.errors import HypothesisException

from fuzz import judge

_MEMORY = 6 * 2**30  # bytes of address space, so that no case can take the machine's


def serve(connection: Connection, sweep: str, limit: float, log: str) -> None:
    """Answer choices with outcomes until the connection is closed.

    Parameters
    ----------
    connection : Connection
        Brings the bytes that choose a case; takes ("says", text) while it is made and
        ("done", outcome, text, inputs tried) when it is over.
    sweep : str
        Module of this package whose ``attack(draw, say)`` is a case. It may return how many inputs
        it has tried, if not one.
    limit : float
        Seconds of processor time that a case may take, so that a busy machine makes no hang.
    log : str
        File for the stack where the process dies by a signal.
    """
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    with open(log, "w", encoding="utf-8") as stack:
        faulthandler.enable(stack)
        sys.stdout = sys.stderr  # what a case prints is no answer
        run = _runner(sweep, connection)
        connection.send(("ready",))
        while True:
            try:
                choices = connection.recv_bytes()
            except EOFError:
                return
            stack.seek(0)
            stack.truncate()
            end = int(time.process_time() + limit) + 1
            resource.setrlimit(resource.RLIMIT_CPU, (end, resource.RLIM_INFINITY))
            connection.send(("done", *run(choices)))


def _runner(sweep: str, connection: Connection) -> Any:
    """A function from choices to outcome and text."""
    tests = str(Path(__file__).parents[1] / "tests")
    if tests not in sys.path:
        sys.path.append(tests)  # where corpus, hostile values and mutations are kept
    attack = importlib.import_module(f"fuzz.{sweep}").attack
    outcome = ("invalid", "", 0)

    # The seed of the runner decides everything; hypothesis only turns bytes into values.
    @settings(
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(st.data())
    def case(data: Any) -> None:
        nonlocal outcome
        outcome = _outcome(attack, data.draw, lambda text: connection.send(("says", text)))

    def run(choices: bytes) -> tuple[str, str, int]:
        nonlocal outcome
        outcome = ("invalid", "", 0)
        case.hypothesis.fuzz_one_input(choices)  # type: ignore[attr-defined]
        return outcome

    return run


def _outcome(attack: Any, draw: Any, say: Any) -> tuple[str, str, int]:
    """What came of a case, what there is to say of it, and how many inputs it tried."""
    tried = 1
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            tried = attack(draw, say) or 1
        except HypothesisException:
            raise
        except judge.Wrong as error:
            return "wrong", str(error), tried
        except KeyboardInterrupt:
            raise
        except Exception as error:
            if judge.refusal(error):
                return "refused", f"{type(error).__name__}: {error}", tried
            return "leaked", f"{judge.place(error)}: {str(error)[:500]!r}", tried
    leaked = judge.leaks(caught)
    if leaked:
        return "leaked", f"RuntimeWarning at {leaked[0]}", tried
    return "held", "", tried
