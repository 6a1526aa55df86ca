"""Calls side by side: in turn, and no more held than has to be."""

import threading
import weakref

import numpy as np

from mercer._runtime.threads import side_by_side


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
