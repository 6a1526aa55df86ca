"""Sentences show values of any kind on one line."""

import numpy as np
import pytest

from mercer import KernelRegressor
from mercer._runtime.messages import shown


def test_any_value_is_shown_on_one_short_line():
    # Python writes no integer of over 4300 digits.
    for value in (np.ones((30, 30)), "a" * 500, [1] * 1000, 10**400, 10**6000, {"a": np.ones(50)}):
        text = shown(value)
        assert "\n" not in text
        assert len(text) < 130


def test_small_values_are_shown_as_they_are():
    assert [shown(value) for value in (1.5, "scale", None, (1, 2))] == [
        "1.5",
        "'scale'",
        "None",
        "(1, 2)",
    ]


def test_scalars_of_numpy_are_shown_as_those_of_python():
    values = np.int64(2), np.float32(0.1), np.True_, np.str_("a")
    assert [shown(value) for value in values] == ["2", "0.1", "True", "'a'"]


@pytest.mark.parametrize("n_jobs", [2**31, -(2**31), 10**30, np.ones((3, 3))])
def test_numbers_of_threads_that_no_machine_has_are_refused_in_one_sentence(n_jobs):
    X = np.arange(12.0).reshape(6, 2)
    with pytest.raises((TypeError, ValueError), match="n_jobs must be") as refusal:
        KernelRegressor("fourier", n_jobs=n_jobs).fit(X, X[:, 0])
    assert "\n" not in str(refusal.value)
