"""What could stand in the place of an array, a number or a text."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np

_HUGE = (2**31, 2**40, 2**63 - 1)


def wrong_values(value: Any, rng: np.random.Generator) -> Iterator[tuple[str, Any]]:
    """What could stand where ``value`` does, each with a word for it."""
    yield "None", None
    yield "a text" if isinstance(value, str) else "a string", "nonsense"
    yield "an object", object()
    yield "an empty array", np.empty(0)
    if isinstance(value, np.ndarray) and value.dtype != object:
        yield from wrong_arrays(value, rng)
    elif isinstance(value, (bool, np.bool_)):
        yield from (("the other", not value), ("2", 2))
    elif isinstance(value, (int, np.integer)):
        for other in (0, -1, value + 1, value - 1, 2 * value, *_HUGE, 2**64, -(2**63)):
            yield str(other), int(other)
        yield from (("a float", float(value)), ("nan", np.nan), ("an array", np.arange(3)))
    elif isinstance(value, (float, np.floating)):
        for other in (np.nan, np.inf, -np.inf, 0.0, -1.0, 1e308, 5e-324):
            yield repr(other)[:9], other
    elif isinstance(value, str):
        yield from (("another string", value + "x"), ("no string", 3), ("''", ""))
    elif isinstance(value, (tuple, list)):
        kind = type(value)
        for word, other in (
            ("shorter", value[:-1]),
            ("longer", kind([*value, *value])),
            ("reversed", value[::-1]),
            ("of None", kind([None] * len(value))),
            ("of NaN", kind([np.nan] * len(value))),
        ):
            yield word, other
    elif isinstance(value, dict):
        yield "an empty dict", {}
    elif value is None:
        yield from (("3", 3), ("an array", np.ones(2)))


def wrong_arrays(a: np.ndarray, rng: np.random.Generator) -> Iterator[tuple[str, np.ndarray]]:
    yield "flat", a.ravel()
    yield "deeper", a[None]
    if a.ndim:
        yield "0-d", np.zeros((), dtype=a.dtype)
        yield "a list", a.tolist()
        yield "transposed", np.ascontiguousarray(a.T)
        yield "shorter", a[:-1]
        yield "longer", np.concatenate([a, a])
        yield "one row", a[:1]
        yield "no rows", a[:0]
        yield "shuffled", a[rng.permutation(len(a))]
        yield "strided", np.repeat(a, 2, axis=-1)[..., ::2]
    if a.ndim > 1:
        yield "narrower", a[..., :-1]
        yield "wider", np.concatenate([a, a], axis=-1)
    for dtype in ("f2", "f4", "f8", "c16", "i1", "i4", "i8", "u8", "?", "S4", "U4", "O", ">f8"):
        if a.ndim and a.dtype.kind in "iufb" and np.dtype(dtype) != a.dtype:
            with np.errstate(all="ignore"), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                yield f"dtype {dtype}", a.astype(dtype)
    yield "Fortran order", np.asfortranarray(a)
    if not a.size or a.dtype.kind not in "iuf":
        return
    for word, number in (
        ("NaN", np.nan),
        ("inf", np.inf),
        ("negative", -1),
        *((str(huge), huge) for huge in _HUGE),
        ("1e300", 1e300),
    ):
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for where, many in (("somewhere", False), ("everywhere", True)):
                wrong = a.astype(np.float64 if a.dtype.kind == "f" else a.dtype)
                if a.dtype.kind == "f":
                    wrong = wrong.astype(a.dtype)
                try:
                    if many:
                        wrong[...] = number
                    else:
                        wrong.reshape(-1)[rng.integers(a.size)] = number
                except (OverflowError, ValueError):
                    continue
                yield f"{word} {where}", wrong
