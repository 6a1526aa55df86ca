"""Hooks of pytest: the number of slow cases left out, in the last lines of a run."""

from __future__ import annotations

import pytest

LEFT_OUT = pytest.StashKey[int]()


def pytest_deselected(items):
    """Count cases left out as slow in this process; those that ``-k`` leaves out are mixed."""
    if items and all(item.get_closest_marker("slow") for item in items):
        items[0].config.stash[LEFT_OUT] = len(items)


def pytest_sessionfinish(session):
    """Send the count from a process of pytest-xdist to the process that started it."""
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["left out"] = session.config.stash.get(LEFT_OUT, 0)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node):
    """Take the count of a process of pytest-xdist; all of them collect the same cases."""
    count = getattr(node, "workeroutput", {}).get("left out", 0)
    node.config.stash[LEFT_OUT] = max(count, node.config.stash.get(LEFT_OUT, 0))


def pytest_terminal_summary(terminalreporter, config):
    """Give the number of slow cases that a run without ``-m`` left out, and the way to run them."""
    count = config.stash.get(LEFT_OUT, 0)
    if count and config.option.markexpr == "not slow":
        terminalreporter.write_line(f'{count} slow cases left out; pytest -m "" runs all cases')
