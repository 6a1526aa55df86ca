"""Fitted models with something wrong in them, by edit and through files."""

from __future__ import annotations

import functools
from itertools import islice
from typing import Any

from hypothesis import strategies as st

import _mutations  # of tests/, where the same mutations are a test
from fuzz import judge

_EACH = 25  # mutations of one model in a case


@functools.cache
def _names() -> list[str]:
    return sorted(_mutations.zoo())


def attack(draw: Any, say: Any) -> int:
    """Some mutations of a model: copies and files are refused in a sentence, or answer.

    Answers are finite. An edited model may raise any exception, but must not end the process.
    """
    name, way = draw(st.sampled_from(_names())), draw(st.sampled_from(_mutations.WAYS))
    seed = draw(st.integers(0, 2**16))
    first, step = draw(st.integers(0, 50)), draw(st.integers(1, 25))
    expected, found = _mutations.cases(name, way, seed)
    tried = 0
    for word, make in islice(found, first, first + _EACH * step, step):
        say(f"{name}, {way}, seed {seed}: {word}")
        tried += 1
        try:
            model = make()
        except _mutations.CLEAN as error:
            if len(str(error).strip().splitlines()) != 1:
                raise judge.Wrong(f"no sentence: {error!r}") from error
            continue
        for use, came in _mutations.outcome(model, expected).items():
            if way != "edit" and came.split(":")[0] not in ("same", "other", "refused"):
                raise judge.Wrong(f"{use}: {came}")
    return tried
