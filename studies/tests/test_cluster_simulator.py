"""Laws of the simulated cluster: what one machine took, and what a network adds to it."""

from __future__ import annotations

import numpy as np
import pytest

from mercer_studies.costs import epoch_cost
from mercer_studies.simulators import Link, broadcast_words, simulate_block

SIZE = {"rows": 16384, "inputs": 440, "block_size": 6144}
MACHINES = (1, 2, 4, 8, 16, 32, 64, 128)
FAR = Link("far", latency=0.01, bandwidth=1e9, dispatch=0.002)


def seconds(link, machines=MACHINES, measured=3.0, **changes):
    found = simulate_block(measured, machines, link, **{**SIZE, **changes})
    return [one.seconds for one in found]


@pytest.mark.parametrize("measured", [0.01, 3.0, 40.0])
def test_one_machine_takes_what_was_measured(measured):
    assert seconds(FAR, [1], measured) == [measured]


def test_more_machines_never_take_less():
    assert np.all(np.diff(seconds(FAR)) > 0)


@pytest.mark.parametrize("name", ["latency", "dispatch"])
def test_time_grows_with_latency_and_dispatch(name):
    times = [
        seconds(Link("one", **{"latency": 0.001, "bandwidth": 1e9, "dispatch": 0.001, name: value}))
        for value in (0.0, 0.001, 0.01, 0.1)
    ]
    assert np.all(np.diff(np.array(times)[:, 1:], axis=0) > 0)
    assert len({one[0] for one in times}) == 1


def test_a_network_without_latency_and_limit_is_flat():
    assert seconds(Link("ideal", 0.0, np.inf)) == [3.0] * len(MACHINES)


def test_twice_the_bandwidth_takes_half_the_time_to_send():
    slow, fast = (np.array(seconds(Link("one", 0.0, rate))) - 3.0 for rate in (1e9, 2e9))
    np.testing.assert_allclose(slow, 2 * fast)


@pytest.mark.parametrize("machines", [1, 2, 8, 128])
def test_bytes_are_those_of_the_cost_model(machines):
    n = machines * SIZE["rows"]
    cost = epoch_cost("exact", n, block_size=6144, n_inputs=440, n_machines=machines, extended=True)
    [block] = simulate_block(3.0, [machines], FAR, **SIZE)
    assert block.sent * n / 6144 == pytest.approx(8 * cost.words["data"])
    assert block.sent == 8 * broadcast_words(machines, **SIZE)


@pytest.mark.parametrize("machines", MACHINES)
def test_a_broadcast_is_as_long_as_one_sent_on_machine_by_machine(machines):
    """In every round each machine that has the rows sends them to one that has not."""
    sent, now, clocks = 8.0 * 6144 * 440, 0.0, [0.0]
    while len(clocks) < machines:
        now += FAR.seconds(sent)
        clocks += [now] * min(len(clocks), machines - len(clocks))
    [block] = simulate_block(3.0, [machines], FAR, **SIZE)
    assert block.broadcast == pytest.approx(max(clocks))


def test_parts_add_up():
    for block in simulate_block(3.0, MACHINES, FAR, **SIZE):
        assert block.seconds == block.measured + block.broadcast + block.dispatch
        assert block.dispatch == pytest.approx(0.002 * (block.machines - 1))


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: Link("no", -1.0, 1.0), "latency must be at least 0 and finite; got -1.0"),
        (lambda: Link("no", 0.0, 0.0), "bandwidth must be above 0; got 0.0"),
        (lambda: Link("no", 0.0, 1.0, np.nan), "dispatch must be at least 0 and finite; got nan"),
        (lambda: seconds(FAR, measured=0.0), "measured must be above 0 and finite; got 0.0"),
        (lambda: seconds(FAR, [0]), "machines must be"),
        (lambda: seconds(FAR, [1], rows=100), "block_size must be at most"),
    ],
    ids=["latency", "bandwidth", "dispatch", "measured", "machines", "block"],
)
def test_bad_input_is_refused_in_a_sentence(call, said):
    with pytest.raises(ValueError, match=said):
        call()
