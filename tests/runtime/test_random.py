from itertools import pairwise

import numpy as np
import pytest
from scipy import stats

from mercer._runtime.random import Slot, Streams, key_from


@pytest.mark.parametrize("seed", [0, 1, 2**31, 2**80, np.int64(7), np.uint8(3)])
def test_integer_seeds_have_fixed_keys(seed):
    assert key_from(seed) == key_from(int(seed))
    assert 0 <= key_from(seed) < 2**64


def test_key_of_a_seed_never_changes():
    # Saved models hold keys only: another mixer would silently give other features.
    assert key_from(0) == 15793235383387715774
    assert key_from(12345) == 13091511679009522556
    assert key_from(np.random.default_rng(0)) == 11749869230777074271
    assert key_from(np.random.RandomState(0)) == 10123822223749065263


def test_neighbouring_seeds_have_unrelated_keys():
    keys = [key_from(seed) for seed in range(200)]
    assert len(set(keys)) == 200
    flips = [(a ^ b).bit_count() for a, b in pairwise(keys)]
    assert 29 < np.mean(flips) < 35


def test_no_seed_gives_fresh_entropy():
    assert key_from(None) != key_from(None)


@pytest.mark.parametrize("generator", [np.random.default_rng, np.random.RandomState])
def test_generators_are_consumed(generator):
    first, second = generator(5), generator(5)
    assert key_from(first) == key_from(second)
    assert key_from(first) != key_from(generator(5))


@pytest.mark.parametrize(
    ("random_state", "error", "message"),
    [
        (-1, ValueError, "random_state must be at least 0; got -1"),
        ("0", TypeError, "random_state must be an integer, None, .*; got '0'"),
        (0.5, TypeError, "random_state must be an integer, None, .*; got 0.5"),
        (True, TypeError, "random_state must be an integer, None, .*; got True"),
    ],
)
def test_bad_seeds_are_refused_in_one_sentence(random_state, error, message):
    with pytest.raises(error, match=message):
        key_from(random_state)


@pytest.mark.parametrize("draw", ["bits", "uniform", "normal", "exponential"])
def test_numbers_depend_on_their_address_alone(draw):
    streams = Streams(key_from(1), np.arange(50))
    whole = getattr(streams, draw)(9, Slot.WIDTH)
    some = np.array([31, 4, 4, 49])
    np.testing.assert_array_equal(getattr(streams.take(some), draw)(9, Slot.WIDTH), whole[some])
    np.testing.assert_array_equal(getattr(streams, draw)(3, Slot.WIDTH), whole[:, :3])
    np.testing.assert_array_equal(
        getattr(Streams(key_from(1), some), draw)(9, Slot.WIDTH), whole[some]
    )


def test_distant_streams_exist():
    far = Streams(key_from(1), np.array([2**62, 2**62 + 1])).uniform(2)
    assert len(np.unique(far)) == 4


@pytest.mark.parametrize(
    "other",
    [
        Streams(key_from(2), np.arange(100)).uniform(100),
        Streams(key_from(1), np.arange(100)).uniform(100, Slot.RADIUS),
        Streams(key_from(1), np.arange(1, 101)).uniform(100),
    ],
    ids=["key", "slot", "stream"],
)
def test_other_addresses_give_independent_numbers(other):
    these = Streams(key_from(1), np.arange(100)).uniform(100)
    assert not (these == other).any()
    assert abs(np.corrcoef(these.ravel(), other.ravel())[0, 1]) < 0.05


@pytest.mark.parametrize(
    ("draw", "law"),
    [("uniform", stats.uniform()), ("normal", stats.norm()), ("exponential", stats.expon())],
)
def test_numbers_follow_their_law(draw, law):
    streams = Streams(key_from(3), np.arange(400))
    by_position = getattr(streams, draw)(50)
    assert stats.kstest(by_position.ravel(), law.cdf).pvalue > 1e-3
    first_of_each_stream = getattr(Streams(key_from(3), np.arange(20_000)), draw)(1)
    assert stats.kstest(first_of_each_stream.ravel(), law.cdf).pvalue > 1e-3


def test_uniform_numbers_avoid_both_ends():
    numbers = Streams(key_from(3), np.arange(1000)).uniform(100)
    assert (numbers > 0).all()
    assert (numbers < 1).all()


def test_slots_are_distinct():
    assert len({int(slot) for slot in Slot}) == len(Slot)


def test_length_is_the_number_of_streams():
    assert len(Streams(1, np.arange(7))) == 7
    assert Streams(1, np.arange(0)).uniform(3).shape == (0, 3)
