"""Device of the tests: PyTorch's processor, or the GPU that MERCER_TEST_DEVICE names."""

import os

import numpy as np
import pytest

torch = pytest.importorskip("torch")

NAME = os.environ.get("MERCER_TEST_DEVICE", "cpu")  # with its number, such as cuda:0
DEVICE = torch.device(NAME)


def tensor_of(values, **settings):
    """A tensor on the device of the tests."""
    return torch.as_tensor(values, device=DEVICE, **settings)


def on_processor(tensor):
    """The array of a tensor, or of an array."""
    return np.asarray(tensor.cpu() if isinstance(tensor, torch.Tensor) else tensor)
