"""Scaling of inputs, and generated rows."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mercer.datasets import Dataset

INPUTS = ("as is", "max-abs", "[0,1]", "[-1,1]", "standard", "/255")
"""How inputs can be scaled: "max-abs" divides by the largest size over all rows, as the random
binning paper's authors do; ranges, means and deviations are those of the training rows."""

GENERATED = (320, 80, 4)
"""Training rows, test rows and inputs of the data that are made up."""


def scaled(train: NDArray, test: NDArray, inputs: str) -> tuple[NDArray, NDArray]:
    """Training and test rows under one of the scalings, in double precision as the papers'.

    ``train``, ``test``: shape (n, d) and (m, d); ``inputs``: one of ``INPUTS``.
    """
    if inputs not in INPUTS:
        raise ValueError(f"inputs must be one of {', '.join(INPUTS)}; got {inputs!r}.")
    train, test = train.astype(np.float64), test.astype(np.float64)
    low, high = train.min(axis=0), train.max(axis=0)
    centre, spread = {
        "as is": (0.0 * low, np.ones_like(low)),
        "/255": (0.0 * low, np.full_like(low, 255.0)),
        "max-abs": (0.0 * low, np.maximum(abs(train).max(axis=0), abs(test).max(axis=0))),
        "[0,1]": (low, high - low),
        "[-1,1]": ((low + high) / 2, (high - low) / 2),
        "standard": (train.mean(axis=0), train.std(axis=0)),
    }[inputs]
    spread[spread == 0] = 1.0
    for X in (train, test):
        X -= centre
        X /= spread
    return train, test


def generated(name: str) -> Dataset:
    """A smooth function of four inputs, or three classes that its values part.

    ``name``: "generated-regression" or "generated-classes".
    """
    rng = np.random.default_rng(0)
    n_train, n_test, d = GENERATED
    n = n_train + n_test
    X = rng.uniform(-1, 1, (n, d)).astype(np.float32)
    response = np.sin(3 * X[:, 0]) * X[:, 1] + X[:, 2] ** 2 + 0.05 * rng.standard_normal(n)
    if name == "generated-regression":
        return Dataset(name, "regression", X, 1.0 + response)
    if name == "generated-classes":
        return Dataset(name, "classification", X, np.digitize(response, [0.1, 0.6]))
    raise ValueError(f"no data are generated under the name {name!r}.")
