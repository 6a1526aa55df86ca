"""Counter-based random numbers."""

from __future__ import annotations

import numpy as np
import pytest

from mercer import _core

pytestmark = pytest.mark.rounding

STREAMS = np.array([0, 3, -1, 2**62])


def philox(key, slot, stream, block):
    """The same four words from NumPy, which steps its counter before the first block."""
    counter = block | (stream % 2**64) << 64 | slot << 128
    words = [(counter - 1) % 2**256 >> 64 * i & (2**64 - 1) for i in range(4)]
    generator = np.random.Philox(
        key=np.array([key, 0], np.uint64), counter=np.array(words, np.uint64)
    )
    return generator.random_raw(4)


@pytest.mark.parametrize("key", [0, 5, 2**64 - 1])
def test_bits_are_those_of_philox(key):
    bits = _core.random_bits(key, 7, STREAMS, 10)
    for row, stream in zip(bits, STREAMS.tolist(), strict=True):
        expected = np.concatenate([philox(key, 7, stream, block) for block in range(3)])
        np.testing.assert_array_equal(row, expected[:10])


def test_a_number_depends_on_its_address_alone():
    whole = _core.random_bits(1, 2, np.arange(200), 21)
    some = np.array([150, 3, 77])
    np.testing.assert_array_equal(_core.random_bits(1, 2, some, 5), whole[some, :5])


@pytest.mark.parametrize("n_threads", [2, 5])
def test_threads_do_not_change_numbers(n_threads):
    streams = np.arange(1000)
    one = _core.random_uniform(9, 0, streams, 37, 1)
    np.testing.assert_array_equal(one, _core.random_uniform(9, 0, streams, 37, n_threads))


def test_keys_slots_and_streams_give_different_numbers():
    numbers = [
        _core.random_bits(key, slot, np.arange(50), 8).ravel() for key in (1, 2) for slot in (0, 1)
    ]
    assert len(np.unique(np.concatenate(numbers))) == 4 * 50 * 8


def test_uniform_numbers_are_midpoints_of_cells():
    bits = _core.random_bits(3, 1, STREAMS, 100)
    expected = ((bits >> np.uint64(12)).astype(np.float64) + 0.5) * 2.0**-52
    uniform = _core.random_uniform(3, 1, STREAMS, 100)
    np.testing.assert_array_equal(uniform, expected)
    assert 0 < uniform.min() < uniform.max() < 1
    assert (2.0**52 - 1 + 0.5) * 2.0**-52 < 1  # the largest of them


def test_uniform_numbers_are_uniform():
    uniform = np.sort(_core.random_uniform(11, 0, np.arange(400), 100).ravel())
    expected = (np.arange(uniform.size) + 0.5) / uniform.size
    assert np.abs(uniform - expected).max() < 1.63 / np.sqrt(uniform.size)  # Kolmogorov, 1 %


@pytest.mark.parametrize(("streams", "size"), [(STREAMS, 0), (STREAMS[:0], 4)])
def test_nothing_asked_nothing_given(streams, size):
    assert _core.random_bits(0, 0, streams, size).shape == (len(streams), size)


def test_a_wrong_argument_is_named():
    with pytest.raises(TypeError, match=r"^streams must have dtype int64; got float64\.$"):
        _core.random_bits(0, 0, np.zeros(3), 2)
    with pytest.raises(TypeError, match=r"^streams must be an array; got list\.$"):
        _core.random_bits(0, 0, [1, 2], 2)
    with pytest.raises(ValueError, match=r"^streams must have one axis; got 2\.$"):
        _core.random_bits(0, 0, np.zeros((2, 2), np.int64), 2)
    with pytest.raises(ValueError, match=r"^streams must be C-contiguous; got a strided array\.$"):
        _core.random_bits(0, 0, np.arange(6)[::2], 2)
