"""Targets: which are classes, which a quantity, and which no estimator takes."""

import re
import tracemalloc
import warnings
from datetime import date, timedelta

import numpy as np
import pandas as pd
import pytest
from sklearn.multioutput import MultiOutputClassifier

from mercer import (
    AutoKernelClassifier,
    AutoKernelRegressor,
    DoublySGDClassifier,
    DualKernelSVC,
    KernelClassifier,
    KernelRegressor,
    LocalKernelClassifier,
    SparseKernelClassifier,
)
from mercer.auto.base import AutoKernelMachine
from mercer.estimators.targets import are_classes, signs

CLASSIFIERS = [
    KernelClassifier(n_components=8, random_state=0),
    LocalKernelClassifier(random_state=0),
    SparseKernelClassifier(n_new=8, max_rounds=2, random_state=0),
    DoublySGDClassifier(max_iter=2, block_size=8, random_state=0),
    DualKernelSVC(),
]
EVERY = [*CLASSIFIERS, AutoKernelClassifier(random_state=0)]
every_classifier = pytest.mark.parametrize("model", EVERY, ids=lambda m: type(m).__name__)


def rows(n=90):
    X = np.random.default_rng(0).normal(size=(n, 2))
    return X, np.digitize(X[:, 0], [-0.5, 0.5])


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        (["a", "b", "c"], True),
        ([True, False, True], True),
        ([0, 1, 1], True),
        ([7, 7, 7], True),
        ([-1.0, 1.0], True),
        ([0.5, 1.5] * 50, False),
        (np.arange(200) % 20, True),
        (np.arange(210) % 21, False),
        (np.arange(30) % 3, True),
        (np.arange(29) % 3, True),
        (np.arange(26) % 3, False),
        (np.repeat([0, 1, 2, 3], [500, 300, 200, 2]), True),  # a rare class
        (np.repeat(np.arange(20), [500, *[3] * 19]), False),  # a frequent value of a count
        (np.random.default_rng(0).integers(27, 64, 344) * 100, False),  # body mass
    ],
)
def test_few_repeated_whole_values_are_classes(target, expected):
    assert are_classes(*np.unique(target, return_counts=True)) is expected


@every_classifier
@pytest.mark.parametrize("form", [np.asarray, pd.DataFrame, np.ndarray.tolist])
def test_several_columns_of_labels_name_the_remedy(model, form):
    X, y = rows()
    name = type(model).__name__
    remedy = f"column.*MultiOutputClassifier\\({name}\\(\\)\\) (fits a model|takes columns)"
    with pytest.raises(ValueError, match=remedy):
        model.fit(X, form(np.column_stack([y, y > 1])))


@pytest.mark.parametrize("model", CLASSIFIERS, ids=lambda m: type(m).__name__)
def test_several_columns_of_labels_are_fitted_one_by_one(model):
    X, y = rows()
    Y = np.column_stack([y, y > 1])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # small models may not converge
        assert MultiOutputClassifier(model).fit(X, Y).predict(X).shape == Y.shape


@every_classifier
@pytest.mark.parametrize(
    ("class_weight", "rule"),
    [
        ({0: -1.0}, "finite numbers of at least 0; got -1.0 for class 0"),
        ({0: np.inf}, "finite numbers of at least 0; got inf for class 0"),
        ({1: np.nan}, "finite numbers of at least 0; got nan for class 1"),
        ({1: "heavy"}, "finite numbers of at least 0; got 'heavy' for class 1"),
        ({0: 0, 1: 0, 2: 0}, "positive for at least two classes of y; got"),
        ({0: 0, 1: 0}, "positive for at least two classes of y; got"),
        ("heavy", "None, 'balanced' or a dict; got 'heavy'"),
    ],
)
def test_weights_of_classes_are_finite_and_leave_two_classes(model, class_weight, rule):
    model = type(model)(**{**model.get_params(), "class_weight": class_weight})
    with pytest.raises(ValueError, match=f"^class_weight must (hold|be) {re.escape(rule)}"):
        model.fit(*rows())


def dates(n=90):
    return [date(2020, 1, 1) + timedelta(int(day)) for day in range(n)]


@pytest.mark.parametrize("form", [list, np.array, lambda d: np.array(d, "M8[D]"), pd.to_datetime])
def test_dates_as_targets_name_the_remedy(form):
    X, _ = rows()
    for model in EVERY:
        with pytest.raises(TypeError, match="y must hold labels; got dates: derive labels from"):
            model.fit(X, form(dates()))
    for model in (KernelRegressor(), AutoKernelRegressor()):
        with pytest.raises(TypeError, match=r"y must hold numbers; .* days since a first date"):
            model.fit(X, form(dates()))


@pytest.mark.parametrize(
    ("labels", "remedy"), [(int, "AutoKernelRegressor, or --task regression"), (str, "of them.")]
)
def test_many_small_classes_are_told_before_any_search(labels, remedy, monkeypatch):
    X, _ = rows(400)

    def search(*_):
        raise InterruptedError

    monkeypatch.setattr(AutoKernelMachine, "_fit", search)
    said = "the target holds 200 classes with 2 rows each in the median"
    with pytest.warns(UserWarning, match=said) as told, pytest.raises(InterruptedError):
        AutoKernelClassifier().fit(X, np.array([labels(i % 200) for i in range(400)]))
    assert remedy in str(told[0].message)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(InterruptedError):
            AutoKernelClassifier().fit(X, np.arange(400) % 20)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_signs_of_classes_take_no_memory_in_another_type(dtype):
    labels = np.arange(20_000) % 50
    tracemalloc.start()
    found = signs(labels, 50, dtype)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    np.testing.assert_array_equal(found, np.where(labels[:, None] == np.arange(50), 1.0, -1.0))
    assert found.dtype == dtype
    assert peak < found.nbytes + 1.5 * found.size  # the signs, and a byte each for the comparison


LABELS = ["a", None, "b", "a", None, "b"]


@pytest.mark.parametrize(
    "y",
    [
        LABELS,
        np.array([1, None, 2, 1, None, 2], dtype=object),
        np.array([1, np.nan, 2, 1, np.nan, 2]),
        pd.Series(LABELS),
        pd.Series(LABELS, dtype="string"),
        pd.Series(LABELS, dtype="category"),
        pd.Series([1, None, 2, 1, None, 2], dtype="Int64"),
        pd.Series([True, None, False, True, None, False], dtype="boolean"),
        pd.Series(["a", pd.NA, "b", "a", pd.NaT, "b"], dtype=object),
    ],
)
@pytest.mark.parametrize("model", [KernelClassifier(), AutoKernelClassifier(), DualKernelSVC()])
def test_missing_labels_are_counted(model, y):
    rule = "y has 2 missing labels, the first in row 1; drop these rows"
    with pytest.raises(ValueError, match=rule):
        model.fit(np.eye(6), y)


def test_missing_labels_of_other_libraries_are_counted():
    pl, arrow = pytest.importorskip("polars"), pytest.importorskip("pyarrow")
    for y in (pl.Series(LABELS), arrow.array(LABELS), arrow.chunked_array([LABELS])):
        with pytest.raises(ValueError, match="y has 2 missing labels, the first in row 1"):
            KernelClassifier().fit(np.eye(6), y)


@pytest.mark.parametrize("model", [KernelRegressor(), AutoKernelRegressor()])
@pytest.mark.parametrize(
    "y",
    [
        [1, None, 2.5],
        [1, pd.NA, 2.5],
        [1, np.nan, 2.5],
        pd.Series([1, None, 2], dtype="Float64"),
        [[1, 2], [np.nan, 3], [1, 2]],
    ],
)
def test_missing_numbers_are_counted(model, y):
    rule = "y has 1 missing value, the first in row 1; drop this row"
    with pytest.raises(ValueError, match=rule):
        model.fit(np.eye(3), y)


def test_whole_numbers_stored_as_objects_are_classes():
    X = np.random.default_rng(0).normal(size=(30, 2))
    y = (X[:, 0] > 0).astype(int) * 3
    model = KernelClassifier().fit(X, y.astype(object))
    assert model.classes_.tolist() == [0, 3]
    np.testing.assert_array_equal(model.predict(X), KernelClassifier().fit(X, y).predict(X))
