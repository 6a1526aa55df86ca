"""Numbers at the ends of what floats hold: too large, too small, and labels that floats round."""

from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

from mercer import DualKernelSVC, KernelRegressor
from mercer.maps import RandomFourier
from mercer.preparation import TablePreparer

RNG = np.random.default_rng(0)
Y = RNG.normal(size=40)
HUGE = [10**400, Fraction(10**400), Decimal("1e400"), np.longdouble("1e4000"), -(10**5000)]


def table(*cells, n=40):
    """Frame of a column ``a`` that begins with some cells, and a column of numbers."""
    a = [*cells, *range(n - len(cells))]
    return pd.DataFrame({"a": pd.Series(a, dtype=object), "b": np.linspace(0, 1, n)})


@pytest.mark.parametrize("value", HUGE, ids=lambda value: type(value).__name__)
def test_a_number_beyond_floats_is_refused_with_its_place(value):
    with pytest.raises(ValueError, match="row 2 of column 'a' holds a larger one"):
        TablePreparer().fit(table(1, 2, value))
    fitted = TablePreparer().fit(table())
    with pytest.raises(ValueError, match="row 1 of column 'a' holds a larger one"):
        fitted.transform(table(1, value))


@pytest.mark.parametrize("value", [10**400, Fraction(-(10**400))])
@pytest.mark.parametrize("of", [list, np.array, pd.DataFrame])
def test_models_refuse_a_number_beyond_floats_with_its_place(value, of):
    X = [[1.0, 2.0], [3.0, value]]
    X = np.array(X, dtype=object) if of is np.array else of(X)
    column = "'1'" if of is pd.DataFrame else "'x1'"
    for model in (KernelRegressor(), DualKernelSVC()):
        with pytest.raises(ValueError, match=f"row 1 of column {column} holds a larger one"):
            model.fit(X, [0, 1])


@pytest.mark.parametrize("of", [list, np.array, pd.DataFrame])
@pytest.mark.parametrize("model", [KernelRegressor("linear"), DualKernelSVC(), RandomFourier()])
def test_models_warn_of_integers_that_float64_rounds_to_one(model, of):
    ids = [[0, 2**60 + i] for i in range(40)]
    X = of(ids) if of is not np.array else np.array(ids)
    with pytest.warns(UserWarning, match=r"column '(x?1)' of X .* beyond 2\*\*53") as caught:
        model.fit(X, np.arange(40) % 2)
    assert len(caught) == 1


def test_models_do_not_warn_of_large_integers_that_float64_tells_apart(recwarn):
    X = np.array([[0, 2**60 + 2**40 * i] for i in range(40)])
    KernelRegressor("linear").fit(X, Y).predict(X)
    assert not recwarn.list


def test_a_signalling_nan_is_missing():
    out = TablePreparer().fit_transform(table(Decimal("sNaN"), 2))
    np.testing.assert_array_equal(out, TablePreparer().fit_transform(table(None, 2)))


@pytest.mark.parametrize("value", [*HUGE, Decimal("sNaN")], ids=lambda value: type(value).__name__)
def test_any_number_may_stand_beside_a_text(value):
    frame = pd.DataFrame({"a": pd.Series(["text", value] * 20, dtype=object)})
    assert TablePreparer().fit(frame).transform(frame).std() > 0


def test_labels_beyond_the_whole_numbers_of_floats_differ():
    cells = [2**53, 2**53 + 1, "x", float(2**53)]
    frame = pd.DataFrame({"a": pd.Series(cells * 10, dtype=object)})
    preparer = TablePreparer(max_labels=5).fit(frame)
    out = preparer.transform(frame)
    assert len(np.unique(out, axis=0)) == 3
    np.testing.assert_array_equal(out[0], out[3])
    whole = pd.DataFrame({"a": np.array([2**53, 2**53 + 1])})  # numbers alone, met later
    np.testing.assert_array_equal(preparer.transform(whole), out[:2])


@pytest.mark.parametrize("size", [2.0**-1000, 2.0**-540, 1e-300])
def test_inputs_whose_squares_underflow_are_scaled(size):
    X = RNG.normal(size=(40, 2))
    labels = np.where(Y > 0, "a", "b")
    expected = KernelRegressor().fit(X, Y).predict(X)
    np.testing.assert_allclose(
        KernelRegressor().fit(size * X, Y).predict(size * X), expected, rtol=1e-4
    )
    expected = DualKernelSVC().fit(X, labels).decision_function(X)
    found = DualKernelSVC().fit(size * X, labels).decision_function(size * X)
    np.testing.assert_allclose(found, expected, atol=1e-3)


def test_a_constant_input_stays_constant():
    X = np.column_stack([RNG.normal(size=40), np.full(40, 1e-200), np.zeros(40)])
    assert KernelRegressor().fit(X, Y).scaler_.scale_[1:].tolist() == [1.0, 1.0]
