"""Scripts beside the tests, for what is chosen before a library is imported."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path


def printed(name: str, **environment: str) -> list[str]:
    """The lines that a script prints in a process of its own, where a UserWarning is an error."""
    run = subprocess.run(
        [sys.executable, "-W", "error::UserWarning", str(Path(__file__).with_name(name))],
        env=os.environ | environment, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    return run.stdout.splitlines()
