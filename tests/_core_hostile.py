"""Breaks the arguments of valid calls of the core one by one: `python _core_hostile.py [NAME ...]`.

A call has to raise one of `REFUSALS` or to write nothing but the arrays it is to write, which lie
between bytes that are looked at afterwards. A process that ends in another way has failed.
"""

from __future__ import annotations

import os
import resource
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np

from _core_calls import Call, calls

REFUSALS = (TypeError, ValueError, OverflowError, MemoryError)
INTEGERS = (-(2**63), -(2**31), -1, 0, 1, 7, 2**31 - 1, 2**32, 2**62, 2**64 - 1, 2**64)
NUMBERS = (np.nan, np.inf, -np.inf, -1.0, 0.0, 5e-324, 1e308, -1e308)
OTHERS = (None, "x", "gaussian\0", 1.5, 1 + 1j, b"bytes", [1.0], (), object(), np.float64(1.0))
# Under a sanitizer a size that cannot be had ends the process instead of raising MemoryError.
SANITIZED = bool(os.environ.get("ASAN_OPTIONS"))
SIZES = frozenset({"size", "n_grids", "n", "cache_bytes", "count", "offsets", "n_bins", "n_inputs"})
MEMORY = 3 << 30  # so that what is too large is refused at once
_FENCE = 64


class Fenced:
    """A copy of an array between two strips of known bytes."""

    def __init__(self, array: np.ndarray, shift: int = 0):
        size = array.nbytes
        self._bytes = np.full(size + 3 * _FENCE, 0xA5, np.uint8)
        start = -self._bytes.ctypes.data % _FENCE + _FENCE + shift
        self._before, self._after = self._bytes[:start], self._bytes[start + size :]
        inside = self._bytes[start : start + size].view(array.dtype)
        order = "F" if array.flags.f_contiguous and not array.flags.c_contiguous else "C"
        self.array = inside.reshape(array.shape, order=order)
        self.array[...] = array
        self.array.flags.writeable = array.flags.writeable

    def holds(self) -> bool:
        return bool((self._before == 0xA5).all() and (self._after == 0xA5).all())


def _shapes(a: np.ndarray) -> Iterator[tuple[str, Any]]:
    for axis in range(a.ndim):
        for name, length in (
            ("empty", 0), ("short", a.shape[axis] - 1), ("long", a.shape[axis] + 1),
            ("double", 2 * a.shape[axis]),
        ):  # fmt: skip
            places = np.arange(length) % max(a.shape[axis], 1)
            if a.shape[axis] or not length:
                yield f"{name} along {axis}", np.take(a, places, axis)
        endless = [2**40 if other == axis else 0 for other in range(a.ndim)]
        if a.ndim > 1:
            yield f"endless rows of nothing along {axis}", np.empty(endless, a.dtype)
    yield "one axis more", a[None].copy()
    yield "one axis", a.ravel() if a.ndim != 1 else a.reshape(1, -1)
    if a.size:
        yield "no axis", a.ravel()[0].reshape(())
        yield "one entry", a.ravel()[:1].copy()


def _layouts(a: np.ndarray) -> Iterator[tuple[str, Any]]:
    yield "strided", np.repeat(a, 2, axis=-1)[..., ::2]
    yield "reversed", a[::-1].copy()[::-1]
    yield "broadcast", np.broadcast_to(a.ravel()[:1], a.shape) if a.size else a
    yield "Fortran", np.asfortranarray(a)
    read_only = a.copy()
    read_only.flags.writeable = False
    yield "read-only", read_only
    yield "misaligned", Fenced(a, 1).array
    yield "a subclass", a.copy().view(np.recarray)
    yield "masked", np.ma.masked_array(a.copy(), mask=np.ones(a.shape, bool))
    yield "a memoryview", memoryview(a.copy())
    yield "a list", a.tolist()


def _types(a: np.ndarray) -> Iterator[tuple[str, Any]]:
    for dtype in (
        "f2",
        "f4",
        "f8",
        "c16",
        "i1",
        "i4",
        "i8",
        "u1",
        "u2",
        "u4",
        "u8",
        "?",
        "O",
        "S3",
    ):
        if np.dtype(dtype) != a.dtype:
            with np.errstate(all="ignore"):
                yield f"dtype {dtype}", a.real.astype(dtype)
    yield "the other byte order", a.astype(a.dtype.newbyteorder())
    yield "records", a.copy().view([("number", a.dtype)])


def _values(a: np.ndarray, most: float) -> Iterator[tuple[str, Any]]:
    if a.dtype.kind == "f":
        limits = np.finfo(a.dtype)
        bad = (np.nan, np.inf, -np.inf, limits.max, limits.min, limits.tiny / 4, 0.0, -1.0)
    else:
        bounds = np.iinfo(a.dtype)
        bad = (bounds.max, bounds.min, bounds.max // 2, 0, 1, 255, 2**31)
    for value in bad:
        if a.dtype.kind != "f" and not bounds.min <= value <= min(bounds.max, most):
            continue
        yield f"all {value}", np.full_like(a, value)
        for place in (0, a.size // 2, -1) if a.size else ():
            broken = a.copy()
            broken.flat[place] = value
            yield f"{value} at {place}", broken
    if a.dtype.kind != "f" and a.size:
        yield "backwards", a.ravel()[::-1].reshape(a.shape).copy()
        for step in (1, 10**6):
            with np.errstate(over="ignore"):
                yield f"{step} more", a + a.dtype.type(step % (int(bounds.max) + 1))
                yield f"{step} less", a - a.dtype.type(step % (int(bounds.max) + 1))


def _mutants(call: Call, name: str, value: Any) -> Iterator[tuple[str, Any]]:
    """What may stand in place of one argument."""
    for other in OTHERS:
        yield repr(other), other
    if isinstance(value, np.ndarray):
        yield from _types(value)
        yield from _layouts(value)
        if name not in call.trusts:
            yield from _shapes(value)
            yield from _values(value, 2**20 if SANITIZED and name in SIZES else np.inf)
        elif value.ndim > 1:
            yield from _shapes(value)
    elif isinstance(value, bool):
        if name not in call.trusts:
            yield from ((repr(other), other) for other in (True, False, 2, -1))
    elif isinstance(value, int):
        for number in INTEGERS:
            if name in call.repeats and number > 100:
                continue
            if name == "n_threads" and 100 < number < 2**31:  # a thousand threads, each time
                continue
            if SANITIZED and name in SIZES and number > 2**20:
                continue
            yield repr(number), number
    elif isinstance(value, float):
        yield from ((repr(number), number) for number in NUMBERS)
    elif isinstance(value, str):
        yield from ((repr(text), text) for text in ("", "squared", "cityblock", "a" * 10_000))


def _in_common(arguments: dict[str, Any], one: str, other: str) -> dict[str, Any]:
    """The arguments, two of whose arrays lie at the same place."""
    first, second = arguments[one], arguments[other]
    shared = Fenced(np.zeros(max(first.nbytes, second.nbytes) // 8 + 1, np.int64)).array
    result = dict(arguments)
    for name, array in ((one, first), (other, second)):
        flat = shared.view(np.uint8)[: array.nbytes].view(array.dtype)
        result[name] = flat.reshape(array.shape)
        result[name][...] = array
    return result


def broken(call: Call) -> Iterator[tuple[str, dict[str, Any]]]:
    """Arguments of a call with one of them, or what two of them share, changed."""
    arguments = call.make()
    for name, value in arguments.items():
        for description, mutant in _mutants(call, name, value):
            yield f"{name}: {description}", {**call.make(), name: mutant}
    arrays = [name for name, value in arguments.items() if isinstance(value, np.ndarray)]
    for one in sorted(call.writes & set(arrays)):
        for other in arrays:
            if one != other:
                yield f"{one} and {other} in one place", _in_common(call.make(), one, other)
    yield "too few", dict(list(arguments.items())[:-1])
    yield "too many", {**arguments, "more": 1}


def damage(call: Call, arguments: dict[str, Any]) -> str | None:
    """What a call touches that it should not; None if it was refused or right."""
    fences: dict[str, Fenced] = {}
    kept: dict[str, Any] = {}
    shared = set()
    for name, value in arguments.items():
        if type(value) is np.ndarray and value.flags.aligned and not value.dtype.hasobject:
            if value.base is not None and not value.flags.owndata:
                shared.add(name)  # laid out on purpose
            elif value.flags.c_contiguous and value.size:
                fences[name] = Fenced(value)
                arguments[name] = fences[name].array
        if isinstance(value, np.ndarray) and name not in call.writes:
            kept[name] = value.tobytes()
    try:
        call.run(arguments)
    except REFUSALS as error:
        return None if str(error) or isinstance(error, MemoryError) else "a refusal without words"
    for name, fence in fences.items():
        if not fence.holds():
            return f"memory beside {name} was written"
    for name, before in kept.items():
        if arguments[name].tobytes() != before:
            return f"{name} was written"
    return None


def main(wanted: list[str]) -> int:
    if not SANITIZED:
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    count = 0
    for call in calls():
        if wanted and call.name not in wanted:
            continue
        for description, arguments in broken(call):
            # Said before the call, which may end the process.
            os.write(1, f"\r{call.name}, {description[:90]}".encode() + b"\n")
            if found := damage(call, arguments):
                os.write(1, f"DAMAGE: {found}\n".encode())
                return 1
            count += 1
    os.write(1, f"{count} calls\n".encode())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
