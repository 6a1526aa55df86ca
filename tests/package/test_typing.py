"""The types that the package tells type checkers."""

from __future__ import annotations

import subprocess
import sys
from importlib import resources
from pathlib import Path

import pytest

_USER = Path(__file__).parents[1] / "_typed_user.py"
_WRONG = """
from mercer import AutoKernelRegressor, KernelRegressor
model = KernelRegressor().fit([[0.0]], [0.0])
model.predict()
AutoKernelRegressor(time_budget="an hour")
"""


def test_the_package_says_that_it_is_typed():
    assert (resources.files("mercer") / "py.typed").is_file()


@pytest.mark.slow
def test_the_strict_type_checker_passes_a_users_file_and_sees_wrong_arguments(tmp_path):
    pytest.importorskip("mypy")
    wrong = tmp_path / "wrong.py"
    wrong.write_text(_WRONG)
    command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path)]
    done = subprocess.run(
        [*command, str(_USER), str(wrong)],
        capture_output=True,
        text=True,
        timeout=600,
        cwd=tmp_path,
        check=False,
    )
    errors = [line for line in done.stdout.splitlines() if "error:" in line]
    places = [(Path(line.split(":")[0]).name, line.split(":")[1]) for line in errors]
    assert places == [("wrong.py", "4"), ("wrong.py", "5")], done.stdout + done.stderr
