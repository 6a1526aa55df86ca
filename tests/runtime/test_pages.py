"""Laws of memory that arrays use one after the other."""

import gc
import mmap
import sys

import numpy as np
import pytest

from mercer._runtime import pages as _pages
from mercer._runtime.machine import held_memory
from mercer._runtime.pages import idle_bytes, lent

MANY = _pages._LEAST
KEPT = hasattr(mmap, "MADV_FREE")

needs_kept = pytest.mark.skipif(not KEPT, reason="this system could not take idle pages away")


@pytest.fixture(autouse=True)
def no_idle_pages():
    _pages._idle.clear()
    yield
    _pages._idle.clear()


@pytest.mark.parametrize("shape", [(), (0,), (3, 5), (MANY // 4, 1), (3, MANY // 8 + 1)])
def test_an_array_has_its_shape_and_dtype_and_can_be_written(shape):
    numbers = lent(shape, np.float32)
    assert numbers.shape == shape
    assert numbers.dtype == np.float32
    assert numbers.flags.c_contiguous
    assert numbers.flags.writeable
    numbers[...] = 2.0
    assert np.all(numbers == 2.0)


@needs_kept
def test_pages_are_lent_again_when_the_last_view_is_gone():
    numbers = lent((MANY,), np.uint8)
    address, view = numbers.ctypes.data, numbers[5:10].reshape(5, 1)
    del numbers
    gc.collect()
    assert idle_bytes() == 0
    other = lent((MANY,), np.uint8)
    assert other.ctypes.data != address
    del view
    gc.collect()
    assert idle_bytes() == MANY
    again = lent((MANY // 4,), np.float32)
    assert again.ctypes.data == address
    assert idle_bytes() == 0


@needs_kept
def test_two_arrays_never_share_pages():
    arrays = []
    for number in range(6):
        if number == 3:
            del arrays[1]
        arrays.append(lent((MANY,), np.uint8))
        arrays[-1][:] = number
    assert [int(a[0]) for a in arrays] == [0, 2, 3, 4, 5]
    assert all(np.all(a == a[0]) for a in arrays)


@needs_kept
def test_little_does_not_take_much_and_much_is_not_taken_from_little():
    numbers = lent((10 * MANY,), np.uint8)
    del numbers
    gc.collect()
    assert idle_bytes() == 10 * MANY
    little = lent((MANY,), np.uint8)
    assert idle_bytes() == 10 * MANY
    much = lent((11 * MANY,), np.uint8)
    assert idle_bytes() == 10 * MANY
    assert little.nbytes < much.nbytes


@needs_kept
def test_no_more_is_idle_than_a_share_of_the_memory(monkeypatch):
    monkeypatch.setattr(_pages, "_most_idle", lambda: 2 * MANY)
    arrays = [lent((MANY,), np.uint8) for _ in range(4)]
    last = arrays[-1].ctypes.data
    while arrays:
        del arrays[0]
    gc.collect()
    assert idle_bytes() == 2 * MANY
    assert last in _pages._idle


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="its figures")
def test_idle_pages_are_not_held():
    before = held_memory()
    numbers = lent((10 * MANY,), np.uint8)
    numbers[:] = 1
    assert held_memory() - before > 9 * MANY
    del numbers
    gc.collect()
    assert held_memory() - before < MANY


def test_systems_that_could_not_take_pages_away_keep_none(monkeypatch):
    monkeypatch.setattr(_pages, "_most_idle", lambda: 0)
    numbers = lent((MANY,), np.uint8)
    del numbers
    gc.collect()
    assert idle_bytes() == 0
