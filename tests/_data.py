"""Where the tests find real data sets."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


def shared_data(name: str) -> Path:
    """Path of a real data file; the test is skipped where there is no such file.

    It is looked for in the folder of the environment variable MERCER_DATA, then in
    ``../shared/data`` beside the repository.
    """
    folders = [os.environ.get("MERCER_DATA"), Path(__file__).parents[2] / "shared" / "data"]
    for folder in folders:
        if folder and (Path(folder) / name).is_file():
            return Path(folder) / name
    pytest.skip(f"{name} is neither in MERCER_DATA nor in ../shared/data")
