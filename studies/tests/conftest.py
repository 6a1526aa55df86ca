"""Fixtures that every test file of the studies may use."""

from __future__ import annotations

import signal

import numpy as np
import pytest

# A shell that starts the tests in the background has them, and their children, ignore interrupts.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def rng():
    return np.random.default_rng(20240607)
