"""Calls side by side on threads, and BLAS and LAPACK inside of them."""

from __future__ import annotations

import ctypes
from collections import deque
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from contextvars import copy_context
from functools import cache
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cython_lapack, lapack
from threadpoolctl import ThreadpoolController

from mercer import _core
from mercer._runtime.arrays import n_threads

__all__ = [
    "blas_threads",
    "cholesky_in_place",
    "flushed_denormals",
    "inverse_in_place",
    "inverse_of_factor_in_place",
    "mirror_upper",
    "side_by_side",
]

_TILE = 128  # rows and columns that are mirrored together

Work = TypeVar("Work")
Result = TypeVar("Result")


def side_by_side(
    call: Callable[[Work], Result], works: Sequence[Work], n_jobs: int | None
) -> Generator[Result, None, None]:
    """Results of the calls, in turn; the end of the iteration drops calls not yet begun."""
    threads = min(n_threads(n_jobs), len(works))
    if threads <= 1:
        yield from map(call, works)
        return
    pool = ThreadPoolExecutor(threads - 1)
    try:
        calls = deque((_submitted(pool, call, work), work) for work in works)
        while calls:
            # What no thread has begun is done here: memory may keep them all from beginning.
            future, work = calls.popleft()
            yield call(work) if future is None or future.cancel() else future.result()
            del future, work  # nobody else holds the result, which may be large
    finally:
        pool.shutdown(cancel_futures=True)


def _submitted(
    pool: ThreadPoolExecutor, call: Callable[[Work], Result], work: Work
) -> Future[Result] | None:
    """The call on a thread of the pool; None if the system has no thread, or no memory for one."""
    try:
        return pool.submit(copy_context().run, call, work)
    except RuntimeError:  # the pool still has the call, but nobody waits for its result
        return None


_LOWER = b"L"
_BEFORE, _BEHIND = b"void (char *, int *, ", b" *, int *, int *)"  # and the matrix between them


def blas_threads(limit: int | None) -> AbstractContextManager[Any]:
    """A context in which BLAS has at most so many threads; None leaves them as they are."""
    return _libraries().limit(limits=limit, user_api="blas")


@cache
def _libraries() -> ThreadpoolController:
    return ThreadpoolController()


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
    capsule, api = cython_lapack.__pyx_capi__[name], ctypes.pythonapi
    name_of = ctypes.PYFUNCTYPE(ctypes.c_char_p, ctypes.py_object)
    pointer_of = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)
    signature = name_of(("PyCapsule_GetName", api))(capsule)
    if not (signature.startswith(_BEFORE) and signature.endswith(_BEHIND)):
        return None
    integer = ctypes.POINTER(ctypes.c_int)
    routine = ctypes.CFUNCTYPE(None, ctypes.c_char_p, integer, ctypes.c_void_p, integer, integer)
    return routine(pointer_of(("PyCapsule_GetPointer", api))(capsule, signature))
