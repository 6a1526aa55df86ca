"""What is left of a time budget, and which stages it has time for."""

from types import SimpleNamespace

import numpy as np
import pytest

from mercer.auto.course import trials_end
from mercer.auto.leading import Record
from mercer.auto.rungs import _near_least_error
from mercer.auto.search import Search
from mercer.auto.trials import Settings
from mercer.auto.tuning import TUNING


def search_of(n, rows, seconds, deadline=np.inf):
    """A search of n rows whose last trial fitted so many of them in some seconds."""
    record = Record("rung 2", rows, Settings(), 0.5, 0.5, seconds)
    whole = SimpleNamespace(n_rows=n)
    return SimpleNamespace(records=[record], best=record, whole=whole, deadline=deadline)


def test_trials_leave_the_final_fit_what_it_takes_by_the_last_trial():
    end = trials_end(search_of(2000, 1000, 0.1), start=100.0, budget=20.0, first=2.0)
    factors, treated = TUNING.after_trials
    of_machine = TUNING.exact_cost["laplacian"] * 0.1 * 2.0**2
    assert end == pytest.approx(100 + 0.97 * 20 - factors * of_machine - treated * 2.0)


@pytest.mark.parametrize(("n", "seconds"), [(2000, 100.0), (10**6, 0.1)])
def test_trials_have_half_of_the_budget_whatever_the_final_fit_takes(n, seconds):
    end = trials_end(search_of(n, 1000, seconds), start=100.0, budget=20.0, first=2.0)
    assert end == pytest.approx(100 + (0.97 - 0.5) * 20)


def test_trials_are_to_take_the_cube_of_their_rows_where_time_is_short():
    works = [(Settings(), Settings(), (0.1, 1.0))]
    assert Search._predicted(search_of(9, 1000, 0.1, 50.0), 2000, works) == pytest.approx(1.6)
    assert Search._predicted(search_of(9, 1000, 0.1), 2000, works) == 0.0


@pytest.mark.parametrize(
    ("first", "is_open", "tried", "near"),
    [
        (0.98, False, 1, []),  # not half of the way from 1 to .95
        (0.97, False, 3, ["exponential"]),
        (0.90, False, 3, ["laplacian", "exponential"]),
        (2.00, True, 3, ["exponential"]),  # few rows hardly share a label
    ],
)
def test_other_kernels_follow_where_the_present_one_gains(first, is_open, tried, near):
    errors = {"laplacian": first, "exponential": 0.9, "gaussian": 1.2}
    asked = []

    def left_out(settings, refined):
        asked.append(settings.kernel)
        return SimpleNamespace(error=errors[settings.kernel])

    whole = SimpleNamespace(
        left_out=left_out,
        left_out_search=lambda settings: SimpleNamespace(few_hardly_share=is_open),
    )
    search = SimpleNamespace(n_jobs=1, deadline=np.inf, bench=SimpleNamespace(parts=[None]))
    found = _near_least_error(search, whole, 1.0, [Settings()], list(errors))
    assert sorted(s.kernel for s in found) == sorted(near)
    assert len(asked) == tried
