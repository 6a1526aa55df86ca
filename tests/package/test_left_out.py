"""Slow cases are left out of a run without ``-m``, which says so."""

import os
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
    (tmp_path / "test_cases.py").write_text(CASES)
    (tmp_path / "pytest.ini").write_text(INI)
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *options]
    settings = {"PYTHONPATH": str(Path(__file__).parents[1]), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    done = subprocess.run(
        command,
        cwd=tmp_path,
        env=os.environ | settings,
        capture_output=True,
        text=True,
        check=False,
    )
    assert f"{passed} passed" in done.stdout, done.stdout + done.stderr
    assert (NOTE in done.stdout) is noted
