"""What is said of devices where PyTorch is not installed."""

import sys

import pytest

import mercer
from mercer._runtime.devices import describe_devices


@pytest.fixture(autouse=True)
def no_torch(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)


def test_the_extra_is_named():
    with pytest.raises(ImportError, match=r"needs PyTorch; install mercer with .* mercer\[gpu\]\."):
        mercer.set_config(device="cuda")


def test_the_processor_needs_none():
    with mercer.config_context(device="cpu"):
        assert mercer.get_config()["device"] == "cpu"
    assert describe_devices() == []


def test_a_name_is_checked_before_anything_is_imported():
    with pytest.raises(ValueError, match=r"^device must be None, 'cpu', 'cuda'"):
        mercer.set_config(device="tpu")
