"""A machine's life in any order: fits, answers, changes of parameters, copies and files."""

from __future__ import annotations

import pickle
import tempfile
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from fuzz import judge, machines
from fuzz.arrays import fit
from mercer import persistence

_STEPS = (
    "fit",
    "fit",
    "partial_fit",
    "ask",
    "set_params",
    "copy",
    "file",
    "unfitted",
    "other rows",
)


def attack(draw: Any, say: Any) -> None:
    """Up to ten steps; one that is refused, but for a fit, leaves the machine as it was."""
    name = draw(st.sampled_from(machines.names()))
    machine = machines.made(name, machines.draw_settings(draw, name, most=2))
    say(repr(machine))
    X, y = _rows(machines.kind(machine), 3)
    fitted = False
    for step in draw(st.lists(st.sampled_from(_STEPS), min_size=2, max_size=10)):
        say(step)
        if step == "unfitted":
            machine, fitted = clone(machine), False
        elif step == "set_params":
            _change(draw, say, machine, name)
        elif step == "other rows":
            X, y = _rows(machines.kind(machine), draw(st.integers(1, 4)))
        elif step in ("fit", "partial_fit") and hasattr(machine, step):
            # A fit forgets the one before, as a rule before it finds what it has to refuse.
            fitted = _learn(machine, step, X, y) or (fitted and step == "partial_fit")
        elif step == "ask":
            _ask(machine, X, fitted)
        elif fitted and step in ("copy", "file"):
            machine = _same(machine, _through(step, machine), X)


def _rows(kind: str, d: int) -> tuple[Any, Any]:
    X = np.random.default_rng(d).normal(size=(25, d))
    return X, (np.arange(25) % 3 if kind == "classification" else X.sum(axis=1))


def _learn(machine: Any, step: str, X: Any, y: Any) -> bool:
    try:
        if step == "fit":
            fit(machine, X, y, None)
        else:
            machine.partial_fit(X, y)
    except Exception as error:
        if not judge.refusal(error):
            raise
        return False
    return True


def _ask(machine: Any, X: Any, fitted: bool) -> None:
    for method in machines.answers(machine):
        try:
            answer = getattr(machine, method)(X)
        except NotFittedError:
            if fitted:
                raise judge.Wrong(f"{method} of a fitted machine says it is not") from None
        except Exception as error:
            if not judge.refusal(error):
                raise
        else:
            if method != "predict_interval":
                judge.finite(answer, method)


def _change(draw: Any, say: Any, machine: Any, name: str) -> None:
    """Another value of a parameter, which counts from the next fit on."""
    known = [key for key in machine.get_params(deep=False) if key in machines.VALUES]
    if known:
        key = draw(st.sampled_from(known))
        value = draw(machines.VALUES[key])
        say(f"{key}={value!r}")
        machine.set_params(**{key: value})


def _through(step: str, machine: Any) -> Any:
    """A machine that came back from a copy or a file."""
    if step == "copy":
        return pickle.loads(pickle.dumps(deepcopy(machine)))
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "m.skops")
        persistence.save(machine, file)
        return persistence.load(file)


def _same(machine: Any, other: Any, X: Any) -> Any:
    """The machine that came back, which answers as the one that went."""
    for method in machines.answers(machine):
        try:
            answer = getattr(machine, method)(X)
        except Exception as error:
            if not judge.refusal(error):
                raise
            continue
        judge.alike(getattr(other, method)(X), answer, f"{method} of what came back", 0.0)
    return other
