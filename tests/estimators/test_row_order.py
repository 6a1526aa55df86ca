"""Rows of pandas objects whose indices have different orders."""

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.pipeline import make_pipeline

from mercer import (
    AutoKernelRegressor,
    DualKernelSVC,
    GradientScaler,
    KernelClassifier,
    KernelRegressor,
    TablePreparer,
)

MODELS = [
    KernelRegressor("fourier", n_components=10),
    KernelClassifier("fourier", n_components=10),
    DualKernelSVC(),
    GradientScaler(),
    TablePreparer(),
    make_pipeline(TablePreparer(), KernelRegressor("fourier", n_components=10)),
    AutoKernelRegressor(random_state=0),
]


def table(n=60):
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(n, 2)), columns=["a", "b"], index=rng.permutation(n) + 100)
    return X, pd.Series((X["a"] > 0).astype(int), name="y")


@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
def test_one_warning_tells_of_an_index_in_another_order(model):
    X, y = table()
    with pytest.warns(UserWarning, match=r"^X and y have .*; give y\.loc\[X\.index\]") as told:
        model.fit(X, y.sort_index())
    assert len(told) == 1


def test_weights_in_another_order_are_named_too():
    X, y = table()
    weights = pd.Series(1.0 + np.arange(60), index=np.sort(X.index))
    with pytest.warns(UserWarning, match=r"give sample_weight\.loc\[X\.index\]"):
        KernelRegressor("fourier", n_components=10).fit(X, y, sample_weight=weights)


@pytest.mark.parametrize(
    "change",
    [
        lambda y: y,
        lambda y: y.to_numpy(),
        lambda y: y.set_axis(np.arange(len(y))),  # other values
        lambda y: y.set_axis(["a"] * len(y)),
    ],
)
def test_other_indices_are_paired_by_position_in_silence(change):
    X, y = table()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        KernelRegressor("fourier", n_components=10).fit(X, change(y))
