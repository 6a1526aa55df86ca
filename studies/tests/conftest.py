"""Fixtures that every test file of the studies may use."""

from __future__ import annotations

import doctest

import numpy as np
import pytest


@pytest.fixture
def rng():
    return np.random.default_rng(20240607)


@pytest.fixture
def check_examples():
    """Run the examples in a module's docstrings, of which there must be some."""

    def check(module):
        failed, attempted = doctest.testmod(module)
        assert attempted > 0
        assert failed == 0

    return check
