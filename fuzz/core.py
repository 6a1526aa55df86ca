"""Calls of the compiled core with two arguments that break its rules at once."""

from __future__ import annotations

import functools
from typing import Any

from hypothesis import strategies as st

import _core_calls  # of tests/, where every function has a valid call
import _core_hostile
from fuzz import judge

_EACH = 40  # pairs in a case


@functools.cache
def _calls() -> dict[str, Any]:
    return {call.name: call for call in _core_calls.calls()}


def attack(draw: Any, say: Any) -> int:
    """Some pairs of broken arguments: refused, or nothing is touched that must not be."""
    call = _calls()[draw(st.sampled_from(sorted(_calls())))]
    broken = list(_core_hostile.broken(call))
    places = st.integers(0, len(broken) - 1)
    for _ in range(_EACH):
        (one, arguments), (other, more) = broken[draw(places)], broken[draw(places)]
        say(f"{call.name}, {one}, {other}")
        changed = other.partition(":")[0]
        if changed in arguments and changed in more:
            arguments = {**arguments, changed: more[changed]}
        found = _core_hostile.damage(call, dict(arguments))
        if found:
            raise judge.Wrong(found)
    return _EACH
