"""Calls side by side on threads, and BLAS and LAPACK inside of them."""

from __future__ import annotations

import ctypes
import os
import threading
from collections import deque
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from functools import cache
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import blas, cython_blas, cython_lapack, lapack
from threadpoolctl import LibController, ThreadpoolController

from mercer import _core
from mercer._runtime.arrays import n_threads

__all__ = [
    "cholesky_in_place",
    "divide_rows_in_place",
    "flushed_denormals",
    "inverse_in_place",
    "inverse_of_factor_in_place",
    "mirror_upper",
    "multiply_rows_in_place",
    "on_strips",
    "one_blas_thread",
    "side_by_side",
    "tile_threads",
]

_TILE = 128  # rows and columns that are mirrored together
_LEAST, _MOST = 128, 2048  # rows of a strip: products near their peak, 4 MB of a panel of 256

Work = TypeVar("Work")
Result = TypeVar("Result")


# -- the owner of threads --------------------------------------------------------------------

# Threads for tiles of linear algebra in this context; None: all that the process may use.
_share: ContextVar[int | None] = ContextVar("share", default=None)


class _BlasLimit:
    """One thread for every BLAS library while any thread of the process is inside.

    Most limits of BLAS hold for the whole process. The first to enter records the number of threads
    of each library and sets it to 1; the last to leave restores the numbers, but for libraries
    whose number another caller has changed meanwhile.
    """

    def __init__(self) -> None:
        self._lock, self._inside = threading.Lock(), 0
        self._before: list[tuple[LibController, int]] = []

    def enter(self) -> None:
        with self._lock:
            if not self._inside:
                self._before = _limited(_libraries()[0])
            self._inside += 1

    def leave(self) -> None:
        with self._lock:
            self._inside -= 1
            if not self._inside:
                _restore(self._before)

    def threads(self) -> int | None:
        """Most threads of a BLAS library outside of the limit; None without a library."""
        with self._lock:
            if self._inside:
                return max((threads for _, threads in self._before), default=None)
        return max((library.num_threads for library in _libraries()[0]), default=None)

    def renew(self) -> None:
        """Make a new lock, in a forked process: a thread that is not there may hold the old one."""
        self._lock = threading.Lock()


_LIMIT = _BlasLimit()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_LIMIT.renew)


@cache
def _libraries() -> tuple[list[LibController], list[LibController]]:
    """BLAS libraries with one number of threads for the process, and for each thread of Python."""
    found = ThreadpoolController().select(user_api="blas").lib_controllers
    of_threads = [one for one in found if getattr(one, "threading_layer", "") == "openmp"]
    return [one for one in found if one not in of_threads], of_threads


def _limited(libraries: list[LibController]) -> list[tuple[LibController, int]]:
    """Limit libraries to one thread; return the numbers before."""
    before = [(library, library.num_threads) for library in libraries]
    for library, threads in before:
        if threads != 1:
            _set(library, 1)
    return before


def _restore(before: list[tuple[LibController, int]]) -> None:
    """Set numbers of threads where they are still 1."""
    for library, threads in before:
        if threads != 1 and library.num_threads == 1:
            _set(library, threads)


def _set(library: LibController, threads: int) -> None:
    """Set a number of threads, which threadpoolctl 3.8 leaves to the first thread that did so."""
    free = getattr(library, "clear_controlling_thread", None)
    if free is not None:
        free(force=True)
    library.set_num_threads(threads)
    if free is not None:
        free(force=True)


@contextmanager
def one_blas_thread(n_jobs: int | None = None) -> Generator[None]:
    """A context in which BLAS and LAPACK run on the calling thread only.

    Their own threads spin while they wait: beside other work on the same cores a fit took several
    times as long. ``tile_threads`` says how many threads may divide large matrices instead:
    ``n_jobs``, and never more than an outer context allows.
    """
    share = _share.get()
    if n_jobs is not None:
        own = n_threads(n_jobs)
        share = own if share is None else min(own, share)
    token = _share.set(share)
    _LIMIT.enter()
    before = _limited(_libraries()[1])
    try:
        yield
    finally:
        _restore(before)
        _LIMIT.leave()
        _share.reset(token)


def tile_threads() -> int:
    """Threads that may divide one large matrix: 1 inside of calls that have a thread each.

    At most as many as BLAS had outside of ``one_blas_thread``, which a user may have limited.
    """
    share = _share.get()
    most = n_threads() if share is None else share
    of_blas = _LIMIT.threads()
    return most if of_blas is None else min(most, of_blas)


def on_strips(call: Callable[[slice], object], start: int, stop: int, first: Any = ()) -> None:
    """Call a function for all rows in strips, two for each thread where they are not too narrow.

    ``first`` are slices that begin before the strips.
    """
    threads = tile_threads()
    height = min(max(-(-(stop - start) // (2 * threads)), _LEAST), _MOST)
    strips = [slice(i, min(i + height, stop)) for i in range(start, stop, height)]
    for _ in side_by_side(call, [*first, *strips], threads):
        pass


def side_by_side(
    call: Callable[[Work], Result], works: Sequence[Work], n_jobs: int | None
) -> Generator[Result, None, None]:
    """Results of the calls, in turn; the end of the iteration drops calls not yet begun."""
    wanted = n_threads(n_jobs)
    threads = min(wanted, len(works))
    if threads <= 1:
        yield from map(call, works)
        return

    def with_share(work: Work) -> Result:
        with one_blas_thread(wanted // threads):
            return call(work)

    pool = ThreadPoolExecutor(threads - 1)
    try:
        calls = deque((_submitted(pool, with_share, work), work) for work in works)
        while calls:
            # The caller is one of the threads: until the next result is there, it makes others.
            while not calls[0][0].done() and _make_one(with_share, calls):
                pass
            yield calls.popleft()[0].result()  # nobody else holds the result, which may be large
    finally:
        pool.shutdown(cancel_futures=True)


def _submitted(
    pool: ThreadPoolExecutor, call: Callable[[Work], Result], work: Work
) -> Future[Result]:
    """The call on a thread of the pool; one that no thread begins if the system has none left."""
    try:
        return pool.submit(copy_context().run, call, work)
    except RuntimeError:  # the pool still has the call, but nobody waits for its result
        return Future()


def _make_one(call: Callable[[Work], Result], calls: deque[tuple[Future[Result], Work]]) -> bool:
    """Make the first result that no thread has begun, in this thread; False if there is none."""
    for place, (future, work) in enumerate(calls):
        if future.cancel():
            made: Future[Result] = Future()
            try:
                made.set_result(call(work))
            except Exception as error:  # raised in its turn
                made.set_exception(error)
            calls[place] = made, work
            return True
    return False


_LOWER = b"L"
_BEFORE, _BEHIND = b"void (char *, int *, ", b" *, int *, int *)"  # and the matrix between them


@contextmanager
def flushed_denormals() -> Generator[None]:
    """Take numbers too small for their full precision as 0 in this thread and its own threads.

    A product of two entries of a narrow kernel is such a number in float32, and takes a hundred
    times as long as any other.
    """
    before = _core.flush_denormals(True)
    try:
        yield
    finally:
        _core.flush_denormals(before)


def cholesky_in_place(matrix: NDArray) -> bool:
    """Write Lᵀ over the upper triangle of L Lᵀ, C-contiguous float32 or float64, without the GIL.

    False if there is no such factor; the upper triangle is then spoilt.
    """
    return _in_place("potrf", matrix, 0)


def inverse_in_place(matrix: NDArray) -> bool:
    """Write its inverse over a positive definite matrix, C-contiguous, without the GIL.

    False if it is not positive definite to rounding; it is then spoilt.
    """
    return cholesky_in_place(matrix) and inverse_of_factor_in_place(matrix)


def inverse_of_factor_in_place(matrix: NDArray) -> bool:
    """Write (L Lᵀ)⁻¹ over a matrix whose upper triangle is Lᵀ, C-contiguous, without the GIL."""
    if not _in_place("potri", matrix):
        return False
    mirror_upper(matrix)
    return True


def divide_rows_in_place(rows: NDArray, lower: NDArray) -> None:
    """Write B L⁻ᵀ over rows B (r, k), for a lower triangle L (k, k), without the GIL.

    Rows of both are contiguous, and all are float32 or all float64.
    """
    _with_triangle("trsm", b"T", rows, lower)


def multiply_rows_in_place(rows: NDArray, lower: NDArray) -> None:
    """Write B L over rows B (r, k), for a lower triangle L (k, k), without the GIL.

    Rows of both are contiguous, and all are float32 or all float64.
    """
    _with_triangle("trmm", b"N", rows, lower)


def _with_triangle(name: str, form: bytes, rows: NDArray, lower: NDArray) -> None:
    char = rows.dtype.char
    routine = _of_triangle({"f": "s", "d": "d"}[char] + name)
    if routine is None:
        (function,) = blas.get_blas_funcs((name,), (rows,))
        rows[...] = function(1.0, lower.T, rows.T, trans_a=int(form == b"T")).T
        return
    number = ctypes.c_float if char == "f" else ctypes.c_double
    sides = [ctypes.c_int(side) for side in (rows.shape[1], len(rows))]
    steps = [ctypes.c_int(max(1, a.strides[0] // a.itemsize)) for a in (lower, rows)]
    given = lower.ctypes.data, steps[0], rows.ctypes.data, steps[1]
    # The transposes of both lie in the order of BLAS: Bᵀ has the triangle Lᵀ on its left.
    routine(b"L", b"U", form, b"N", *sides, number(1.0), *given)


def mirror_upper(matrix: NDArray) -> None:
    """Make a matrix symmetric by its upper triangle, tile by tile: whole transposes miss caches."""
    for first in range(0, len(matrix), _TILE):
        rows = slice(first, first + _TILE)
        matrix[first + _TILE :, rows] = matrix[rows, first + _TILE :].T
        own = matrix[rows, rows]
        np.copyto(own, own.T.copy(), where=_below(len(own)))


@cache
def _below(n: int) -> NDArray[np.bool_]:
    """Mask (n, n) of the entries below the diagonal."""
    return np.tri(n, k=-1, dtype=bool)


def _in_place(name: str, matrix: NDArray, *flags: int) -> bool:
    """True if a LAPACK routine for the upper triangle succeeds; ``flags`` follow the triangle."""
    if not matrix.flags.c_contiguous or matrix.shape[0] != matrix.shape[1]:
        raise ValueError("matrix must be square and C-contiguous.")
    name = {"f": "s", "d": "d"}[matrix.dtype.char] + name
    routine = _lapack(name)
    if routine is None:  # for LAPACK, the transpose lies in order: no copy
        written, info = getattr(lapack, name)(matrix.T, 1, *flags, 1)
        if not np.shares_memory(written, matrix):
            matrix[...] = written.T
        return bool(info == 0)
    side, result = ctypes.c_int(len(matrix)), ctypes.c_int(0)
    routine(_LOWER, side, matrix.ctypes.data, side, result)
    return result.value == 0


@cache
def _lapack(name: str) -> Callable[..., None] | None:
    """LAPACK's routine itself, for a matrix with its side before and behind; None if its integers
    are not C's."""
    integer = ctypes.POINTER(ctypes.c_int)
    types = ctypes.c_char_p, integer, ctypes.c_void_p, integer, integer
    return _routine(cython_lapack, name, (_BEFORE, _BEHIND), types)


@cache
def _of_triangle(name: str) -> Callable[..., None] | None:
    """BLAS's product or solution with a triangle; None as for ``_lapack``."""
    number = ctypes.c_float if name[0] == "s" else ctypes.c_double
    integer = ctypes.POINTER(ctypes.c_int)
    types = [ctypes.c_char_p] * 4 + [integer] * 2 + [ctypes.POINTER(number)]
    signature = b"void (" + b"char *, " * 4 + b"int *, int *, ", b" *, int *)"
    return _routine(cython_blas, name, signature, [*types, *[ctypes.c_void_p, integer] * 2])


def _routine(
    module: Any, name: str, signature: tuple[bytes, bytes], types: Sequence[Any]
) -> Callable[..., None] | None:
    """Routine of SciPy's BLAS or LAPACK, called without the GIL; None if its signature, given by
    beginning and end, is another."""
    capsule, api = module.__pyx_capi__[name], ctypes.pythonapi
    name_of = ctypes.PYFUNCTYPE(ctypes.c_char_p, ctypes.py_object)
    pointer_of = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)
    found = name_of(("PyCapsule_GetName", api))(capsule)
    if not (found.startswith(signature[0]) and found.endswith(signature[1])):
        return None
    address = pointer_of(("PyCapsule_GetPointer", api))(capsule, found)
    return ctypes.CFUNCTYPE(None, *types)(address)
