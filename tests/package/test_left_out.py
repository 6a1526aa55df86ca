"""A run without ``-m`` counts the slow cases that it leaves out, and tells why a process ended."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

CASES = """
import pytest
@pytest.mark.slow
@pytest.mark.parametrize("i", range(3))
def test_slow(i): pass
def test_quick(): pass
def test_sharp(): pass
"""
INI = "[pytest]\naddopts = -p _left_out --strict-markers -m 'not slow'\nmarkers = slow: long\n"
NOTE = '3 slow cases left out; pytest -m "" runs all cases'


@pytest.mark.parametrize(
    ("options", "passed", "noted"),
    [
        pytest.param(["-p", "xdist", "-n", "1"], 2, True, id="processes"),
        pytest.param(["-k", "sharp"], 1, False, id="by name"),
        pytest.param(["-m", ""], 5, False, id="all"),
    ],
)
def test_a_run_counts_the_slow_cases_that_it_leaves_out(tmp_path, options, passed, noted):
    said = run_of(CASES, tmp_path, options)
    assert f"{passed} passed" in said
    assert (NOTE in said) is noted


def test_a_run_tells_where_a_process_of_it_crashed(tmp_path):
    cases = "import ctypes\ndef test_crash(): ctypes.string_at(0)\ndef test_quick(): pass\n"
    said = run_of(cases, tmp_path, ["-p", "xdist", "-n", "1"])
    assert "1 failed, 1 passed" in said
    assert "gw0 ended with status -" in said or os.name == "nt"
    assert "Fatal Python error" in said or "Windows fatal exception" in said
    assert re.search(r"test_cases.py.*, line 2 in test_crash", said)


def run_of(cases, folder, options):
    """What a run of pytest of these cases says."""
    (folder / "test_cases.py").write_text(cases)
    (folder / "pytest.ini").write_text(INI)
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *options]
    settings = {"PYTHONPATH": str(Path(__file__).parents[1]), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    done = subprocess.run(
        command,
        cwd=folder,
        env=os.environ | settings,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout + done.stderr
