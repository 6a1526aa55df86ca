"""Hostile values and odd combinations of parameters into every constructor."""

from __future__ import annotations

import inspect
import pickle
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
from hypothesis import strategies as st
from sklearn.base import clone

from fuzz import judge, machines
from fuzz.arrays import fit

_COUNTS = [-1, 0, 1, 2, 3, 7, 10**6, 2**31 - 1, 2**31, 2**63 - 1, 2**63, 2**64, 10**30]
_NUMBERS = [np.nan, np.inf, -np.inf, 1e308, 5e-324, -0.0, 1e-300, 2.5, -1.5, 1e30]
_KINDS = [None, True, "", "none", "auto", "exact", b"scale", object(), int, np, print, lambda x: x]
_HELD = [[], (), {}, set(), [0.5], [0.5, -1.0, 2.0], [[1.0]], {"gaussian": 1}, "x" * 1000, range(3)]
_ODD = [np.float32(0.5), np.int8(3), np.bool_(True), Fraction(1, 3), Decimal("0.1"), 1j, 3 + 0j]


def _arrays() -> list[Any]:
    return [
        np.empty(0),
        np.array(0.5),
        np.ones(3),
        np.full(3, np.nan),
        np.array(["a", "b"]),
        np.ones((3, 3)),
        np.array([1, None], dtype=object),
        np.ma.masked,
    ]


def attack(draw: Any, say: Any) -> None:
    """A machine with one or two hostile values; where it takes them, it must work as ever."""
    name = draw(st.sampled_from(machines.names()))
    settings = machines.draw_settings(draw, name, most=draw(st.sampled_from([0, 1, 4])))
    known = list(inspect.signature(machines.class_of(name)).parameters)
    hostile = st.sampled_from([*_COUNTS, *_NUMBERS, *_KINDS, *_HELD, *_ODD, *_arrays()])
    if known:
        for key in draw(st.lists(st.sampled_from(known), min_size=0, max_size=2, unique=True)):
            settings[key] = draw(hostile)
    say(f"{name}({', '.join(f'{key}={value!r:.80}' for key, value in settings.items())})")
    machine = machines.made(name, settings)
    repr(machine)
    kind = machines.kind(machine)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 3))
    y = np.arange(30) % 3 if kind == "classification" else np.sin(X[:, 0]) + X[:, 1]
    _copied(machine)
    fit(machine, X, y, None)
    pickled = pickle.loads(pickle.dumps(machine)) if _has_no_function(settings) else machine
    for method in machines.answers(machine):
        answer = getattr(machine, method)(X)
        if method != "predict_interval":  # which is infinite where too few rows were held out
            judge.finite(answer, method)
        judge.alike(getattr(pickled, method)(X), answer, f"{method} after pickling", 0.0)


def _copied(machine: Any) -> None:
    """A copy has the same parameters: nothing is changed by a constructor."""
    for key, value in clone(machine).get_params(deep=False).items():
        if type(value) is not type(machine.get_params(deep=False)[key]):
            raise judge.Wrong(f"clone has another {key}: {value!r}")


def _has_no_function(settings: dict[str, Any]) -> bool:
    return not any(
        getattr(value, "__name__", "") in ("<lambda>", "numpy") for value in settings.values()
    )
