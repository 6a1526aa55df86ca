"""Tools that list the members of any object, such as mocks and dask-ml, take estimators."""

import inspect

import numpy as np
import pytest

import mercer
from mercer import maps

KINDS = [
    kind
    for module in (mercer, maps)
    for name in module.__all__
    if isinstance(kind := getattr(module, name), type) and hasattr(kind, "get_params")
]
# These maps are made of the parts of other maps, and have no defaults.
PARTS = {"FeatureMap", "Halfspaces", "Members"}
QUICK = {"max_iter": 3, "max_rounds": 2, "time_budget": 1.0, "random_state": 0}


def made(kind):
    names = inspect.signature(kind).parameters
    return kind(**{name: value for name, value in QUICK.items() if name in names})


@pytest.mark.parametrize("kind", [k for k in KINDS if k.__name__ not in PARTS])
@pytest.mark.filterwarnings("ignore")
def test_members_of_unfitted_and_fitted_estimators_are_listed(kind):
    model = made(kind)
    assert "get_params" in dict(inspect.getmembers(model))
    X = np.random.default_rng(0).normal(size=(60, 2))
    y = (X[:, 0] > 0).astype(float)
    if kind.__name__ == "HashedNGrams":
        X = [f"row {number}" for number in range(60)]
    assert "get_params" in dict(inspect.getmembers(model.fit(X, y)))
