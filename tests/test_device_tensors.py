"""Tensors in and out of estimators, by scikit-learn's ``array_api_dispatch``."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from mercer import _array_api
from mercer._device import Device

torch = pytest.importorskip("torch")


def test_what_comes_in_as_a_tensor_comes_out_as_one():
    script = Path(__file__).with_name("_array_api_program.py")
    run = subprocess.run(
        [sys.executable, "-W", "error::UserWarning", str(script)],
        env=os.environ | {"SCIPY_ARRAY_API": "1"},
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    parts = run.stdout.splitlines()
    assert len(parts) == 18
    assert parts[-1] == "settings"


def test_rows_on_another_gpu_are_refused_by_one_sentence(monkeypatch):
    monkeypatch.setattr(_array_api, "device_named", lambda asked: Device(asked))
    place = _array_api._place
    with pytest.raises(ValueError, match=r"^X must be .* 'cuda:0', or .*; it is on 'cuda:1'\.$"):
        place("cuda:0", Device("cuda:1"))
    assert place("cuda:0", Device("cpu")) == Device("cuda:0")
    assert place(None, Device("cuda:1")) == Device("cuda:1")
    assert place(None, Device("cpu")) is None
