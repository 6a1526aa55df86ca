"""Calls side by side: in turn, and no more held than has to be."""

import threading
import weakref

import numpy as np
import pytest

from mercer._runtime.threads import on_strips, one_blas_thread, side_by_side, tile_threads


def test_results_come_in_the_order_of_the_works():
    assert list(side_by_side(str, range(50), 3)) == [str(work) for work in range(50)]


def test_results_that_were_taken_are_let_go():
    results = side_by_side(np.zeros, range(30), 2)
    taken = [weakref.ref(next(results)) for _ in range(29)]
    # Each thread may still look at the one that it made last.
    assert sum(ref() is not None for ref in taken) <= 3
    results.close()


def test_works_are_done_by_the_caller_where_no_thread_starts(monkeypatch):
    def start(thread):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", start)
    assert list(side_by_side(str, range(5), 3)) == ["0", "1", "2", "3", "4"]


def test_the_caller_is_one_of_the_threads():
    both = threading.Barrier(2, timeout=20)  # passes only if two calls run at the same time
    assert list(side_by_side(lambda work: both.wait() * 0 + work, range(4), 2)) == [0, 1, 2, 3]


def test_an_error_is_raised_in_its_turn():
    def call(work):
        if work == 2:
            raise ValueError(f"work {work}")
        return work

    results, found = side_by_side(call, range(6), 2), []
    with pytest.raises(ValueError, match="work 2"):
        found.extend(results)
    assert found == [0, 1]


def test_calls_side_by_side_share_the_threads_of_tiles():
    with one_blas_thread(1):
        assert tile_threads() == 1
    assert set(side_by_side(lambda _: tile_threads(), range(4), 2)) == {1}


@pytest.mark.parametrize("start", [0, 3, 700])
def test_strips_are_all_rows_once(start):
    seen = []
    on_strips(seen.append, start, 700, first=[slice(0, 1)])
    rows = np.concatenate([np.arange(700)[part] for part in sorted(seen, key=lambda s: s.start)])
    np.testing.assert_array_equal(rows, [0, *range(start, 700)])
