"""Hooks of pytest: slow cases left out, and processes that crashed, in the last lines of a run."""

from __future__ import annotations

import faulthandler
import tempfile
from pathlib import Path

import pytest

LEFT_OUT = pytest.StashKey[int]()
STACKS = pytest.StashKey[tempfile.TemporaryDirectory]()  # of processes that crashed
CRASHES = pytest.StashKey[list[str]]()
_LINES = 25  # of the stacks of a process


def pytest_deselected(items):
    """Count cases left out as slow in this process; those that ``-k`` leaves out are mixed."""
    if items and all(item.get_closest_marker("slow") for item in items):
        items[0].config.stash[LEFT_OUT] = len(items)


def pytest_sessionfinish(session):
    """Send the count from a process of pytest-xdist to the process that started it."""
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["left out"] = session.config.stash.get(LEFT_OUT, 0)


@pytest.hookimpl(trylast=True)
def pytest_configure(config):
    """Have the stacks of a process of pytest-xdist that crashes written to a file of its own."""
    given = getattr(config, "workerinput", {})
    if "stacks" in given:
        file = (Path(given["stacks"]) / given["workerid"]).open("w")
        config.add_cleanup(file.close)
        faulthandler.enable(file)
    elif not given:
        config.stash[STACKS] = tempfile.TemporaryDirectory()
        config.add_cleanup(config.stash[STACKS].cleanup)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node):
    """Name the folder of the stacks to a process of pytest-xdist."""
    node.workerinput["stacks"] = node.config.stash[STACKS].name


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node, error):
    """Take the count of a process of pytest-xdist, equal in all of them, or why it ended."""
    count = getattr(node, "workeroutput", {}).get("left out", 0)
    node.config.stash[LEFT_OUT] = max(count, node.config.stash.get(LEFT_OUT, 0))
    if error:
        name = node.gateway.id
        status = node.gateway._io.wait()
        stacks = (Path(node.config.stash[STACKS].name) / name).read_text().splitlines()
        crashes = node.config.stash.setdefault(CRASHES, [])
        crashes += [f"{name} ended with status {status}", *stacks[:_LINES]]


def pytest_terminal_summary(terminalreporter, config):
    """Give the stacks of processes that crashed, and the number of slow cases that a run without
    ``-m`` left out, with the way to run them."""
    for line in config.stash.get(CRASHES, []):
        terminalreporter.write_line(line)
    count = config.stash.get(LEFT_OUT, 0)
    if count and config.option.markexpr == "not slow":
        terminalreporter.write_line(f'{count} slow cases left out; pytest -m "" runs all cases')
