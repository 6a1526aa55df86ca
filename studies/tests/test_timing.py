"""Laws of the clocks of the studies: phases of steps, read off a trace."""

import numpy as np
import pytest

from mercer.solvers import Result, TraceRow
from mercer_studies.timing import phase_times


def row(time, **phases):
    return TraceRow(time, 1.0, 1.0, 0, phases)


def test_phases_of_steps_are_differences_and_add_up_to_the_time():
    trace = [
        row(0.0),
        row(1.0, generate=0.5, gram=0.25),
        row(3.0, generate=1.5, gram=0.5, solve=0.5),
    ]
    found = phase_times(trace)
    assert list(found) == ["generate", "gram", "solve", "other"]
    assert found["generate"].tolist() == [0.5, 1.0]
    assert found["solve"].tolist() == [0.0, 0.5]
    np.testing.assert_allclose(sum(found.values()), [1.0, 2.0])


def test_phases_come_in_the_order_of_a_step_with_others_last():
    trace = [row(0.0), row(1.0, update=0.1, start=0.2, reduce=0.1, generate=0.1)]
    assert list(phase_times(trace)) == ["generate", "reduce", "update", "start", "other"]


def test_a_trace_of_one_row_has_no_steps():
    with pytest.raises(ValueError, match="two rows or more; got 1"):
        phase_times([row(0.0)])


def test_results_are_read_by_their_trace():
    trace = [row(0.0), row(1.0, solve=0.5)]
    result = Result(np.zeros(2), 1, True, 0.0, trace)
    assert phase_times(result)["solve"].tolist() == [0.5]
