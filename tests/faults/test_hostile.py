"""Settings, rows, targets and weights that break rules: a right answer, or one sentence."""

from __future__ import annotations

import warnings
import zlib

import numpy as np
import pandas as pd
import pytest

import _hostile
from mercer import AutoKernelRegressor, KernelClassifier, KernelRegressor, TablePreparer, maps

# What scikit-learn says, in its own words and sometimes in several lines.
KNOWN = (
    "Input ",
    "Found ",
    "Expected ",
    "Complex data",
    "Sparse data",
    "Unknown label",
    "np.matrix",
    "float() argument",
    "could not convert",
    "setting an array",
    "must be real number",
    "The feature names",
    "Feature names",
    "y should be",
    "This ",
    "Negative values",
    "dtype='numeric'",
    "The classes",
)
# These are asked for, however long they take, or refused where threads are counted.
EXCUSED = {
    ("an owner", "n_jobs", "too large"),
    ("Callable", "function", "a class"),
    ("Product", "profile", "a class"),
    ("Product", "derivative", "a class"),
}


# Fits of a few rows, except where a tolerance of 0 is sought for long.
SLOW = ("Auto", "DualKernelSVC", "KernelRegressor(")
ONE_OF = 11  # attacks in the quick form of the sweeps, the same every time


def chosen(*place):
    return zlib.crc32(repr(place).encode()) % ONE_OF == 0


def outcomes(names):
    """Of all values of some parameters, for some of their owners."""
    return list(
        _hostile.settings_outcomes(
            lambda owner, name, label: (
                name in names and not owner.startswith(SLOW) and chosen(owner, name)
            )
        )
    )


def test_no_setting_ends_in_an_error_that_does_not_name_it():
    settings = list(
        _hostile.settings_outcomes(lambda *place: not place[0].startswith(SLOW) and chosen(*place))
    )
    assert len(settings) > 400
    for one in settings:
        place = (one["owner"], one["name"], one["value"])
        if place in EXCUSED or ("an owner", *place[1:]) in EXCUSED:
            continue
        assert one["outcome"] in ("accepted", "refused"), one
        if one["outcome"] == "refused":
            assert one["name"] in one["message"], one
            assert "\n" not in one["message"], one


def test_flags_are_true_or_false_and_nothing_else():
    flags = ("fit_intercept", "scale", "warm_start", "preconditioned", "whiten", "normalize")
    assert {one["value"] for one in outcomes(flags) if _taken(one)} == {"True"}


def test_numbers_that_no_float_and_no_index_holds_are_refused():
    numbers = ("alpha", "gamma", "tol", "n_components", "n_new", "max_iter", "step_size")
    huge = [one for one in outcomes(numbers) if one["value"] == "too large"]
    assert len(huge) > 5
    assert not any(map(_taken, huge))


def _taken(one):
    return one["outcome"] == "accepted"


def test_rows_targets_and_weights_of_any_kind_give_the_right_answer_or_one_sentence():
    honest = {place: enter(_hostile.rows()) for place, enter in _hostile.doors()}
    total = 0
    for place, name, call in _hostile.attacks():
        if place == "designs.Sparse" or not chosen(place, name):
            continue  # the former takes what SciPy takes
        total += 1
        equal = place in honest and name in _hostile.EQUAL_ROWS
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                answer = call()
            except (ValueError, TypeError, MemoryError) as error:
                said = str(error)
            else:
                said = ""
                assert np.isfinite(np.asarray(answer, dtype=float)).all(), (place, name)
                # Sparse columns are scaled as sparse matrices are.
                if equal and name != "sparse columns":
                    assert _hostile._same(answer, honest[place]), (place, name)
        if said:
            assert not equal or name == "a NumPy matrix", (place, name, said)
            assert said.startswith(KNOWN) or "\n" not in said, (place, name, said)
    assert total > 400


@pytest.mark.parametrize(
    "model", [KernelRegressor("binning"), KernelClassifier("binning"), maps.RandomFourier()]
)
def test_what_a_mask_hides_and_what_is_no_number_are_not_taken_for_numbers(model):
    X, y = _hostile.rows(), np.arange(_hostile.N_ROWS) % 2
    with pytest.raises(TypeError, match=r"X must not be masked; fill it in"):
        model.fit(np.ma.masked_array(X, mask=X > 1), y)
    for foreign in (X.astype("M8[D]"), X.astype("m8[s]"), pd.DataFrame(X.astype("M8[s]"))):
        with pytest.raises(TypeError, match=r"X must hold numbers; got dtype (date|time)"):
            model.fit(foreign, y)


def test_targets_and_weights_that_are_no_numbers_are_named():
    X, y = _hostile.rows(), _hostile.target()
    for strange in (np.full(len(y), "up"), [None, *y[1:]], y.astype("M8[D]")):
        with pytest.raises(
            (TypeError, ValueError), match=r"^(y must hold numbers|y has 1 missing)"
        ):
            KernelRegressor("binning").fit(X, strange)
        with pytest.raises(
            (TypeError, ValueError), match=r"^(y must hold numbers|y has 1 missing)"
        ):
            AutoKernelRegressor().fit(X, strange)
    with pytest.raises(TypeError, match=r"y must not be masked"):
        KernelRegressor("binning").fit(X, np.ma.masked_array(y, mask=y > 0))
    with pytest.raises(TypeError, match=r"sample_weight must hold numbers"):
        KernelRegressor("binning").fit(X, y, sample_weight=np.full(len(y), "a"))


def test_masked_tables_are_refused():
    with pytest.raises(TypeError, match=r"X must not be masked; NaN or None"):
        TablePreparer().fit(np.ma.masked_array(_hostile.rows(), mask=False))
