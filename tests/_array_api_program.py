"""Tensors in and out of estimators.

It is a program of its own, as SciPy has to be told before it is imported. Every line that it prints
is a part that held.
"""

import pickle
import sys

import numpy as np
import pytest
import torch
from sklearn import config_context
from sklearn.base import clone
from sklearn.metrics import accuracy_score
from sklearn.pipeline import make_pipeline

import mercer
from mercer import (
    AutoKernelRegressor,
    KernelClassifier,
    KernelRegressor,
    LocalKernelRegressor,
    maps,
)
from mercer._device import Device

CPU = torch.device("cpu")
rng = np.random.default_rng(0)
X = rng.normal(size=(200, 3))
TARGET = np.sin(2 * X[:, 0]) + 0.1 * rng.normal(size=200)
SPAN = maps.Nystroem("gaussian", n_components=50, whiten=False, random_state=0)
MAPS = {
    "exact": "exact",
    "landmarks": SPAN,
    "fourier": maps.RandomFourier("gaussian", n_components=60, random_state=0),
    "binning": maps.RandomBinning("laplacian", n_components=60, random_state=0),
    "whitened": maps.Nystroem("gaussian", n_components=50, random_state=0),
}
crossed = []
array, host = Device.array, Device.host


def counted_array(self, values, dtype=None):
    if isinstance(values, np.ndarray):
        crossed.append(values.size)
    return array(self, values, dtype)


def counted_host(self, tensor):
    crossed.append(tensor.numel())
    return host(self, tensor)


def held(*part):
    sys.stdout.write(" ".join(part) + "\n")


def close(found, expected, atol=1e-5):
    assert isinstance(found, torch.Tensor), type(found)
    assert found.device == CPU
    assert str(found.dtype).removeprefix("torch.") == expected.dtype.name
    np.testing.assert_allclose(found.numpy(), expected, atol=atol)


def regression(name, dtype, device):
    model = KernelRegressor(MAPS[name], alpha=1e-2, device=device)
    given = X.astype(dtype)
    expected = clone(model).set_params(device=None).fit(given, TARGET).predict(given)
    tensor, target = torch.as_tensor(given), torch.as_tensor(TARGET)
    with config_context(array_api_dispatch=True):
        fitted = clone(model).fit(tensor, target, sample_weight=torch.ones(200))
        close(fitted.predict(tensor), expected, 1e-3)
        assert np.isfinite(float(fitted.score(tensor, target)))
    assert all(not isinstance(value, torch.Tensor) for value in vars(fitted).values())
    again = pickle.loads(pickle.dumps(fitted))
    assert isinstance(again.predict(given), np.ndarray)


def classes(name, labels, loss, device):
    model = KernelClassifier(MAPS[name], loss=loss, alpha=1e-2, device=device)
    host_model = clone(model).set_params(device=None).fit(X, labels)
    tensor, new = torch.as_tensor(X), torch.as_tensor(X[:17])
    with config_context(array_api_dispatch=True):
        model.fit(tensor, labels if labels.dtype.kind == "U" else torch.as_tensor(labels))
        close(model.decision_function(new), host_model.decision_function(X[:17]), 1e-3)
        if loss != "squared":
            close(model.predict_proba(new), host_model.predict_proba(X[:17]), 1e-3)
        found, expected = model.predict(new), host_model.predict(X[:17])
        if labels.dtype.kind == "U":
            assert isinstance(found, np.ndarray)
            assert (found == expected).all()
        else:
            close(found, expected)
            assert accuracy_score(torch.as_tensor(labels[:17]), found) > 0.8


def nothing_crosses(name):
    """Neither rows nor features of a prediction, beside what the model is made of."""
    n = 5000
    many = torch.as_tensor(rng.normal(size=(n, 3)))
    with config_context(array_api_dispatch=True):
        model = KernelRegressor(MAPS[name], alpha=1e-2, device=CPU).fit(X, TARGET)
        expected = model.predict(many.numpy())
        Device.array, Device.host = counted_array, counted_host
        crossed.clear()
        found = model.predict(many)
        Device.array, Device.host = array, host
    close(found, expected)
    assert max(crossed) < n, crossed


def transforms(name):
    map_ = MAPS[name]
    map_ = maps.Nystroem(n_components=20, random_state=0) if isinstance(map_, str) else map_
    expected = clone(map_).fit_transform(X)
    expected = expected.toarray() if hasattr(expected, "toarray") else expected
    if name != "binning":  # whose features are CSR
        with config_context(array_api_dispatch=True):
            fitted = clone(map_).fit(torch.as_tensor(X))
            close(fitted.transform(torch.as_tensor(X)), expected)
            with mercer.config_context(device=CPU):
                Device.array, Device.host = counted_array, counted_host
                crossed.clear()
                many = torch.as_tensor(np.repeat(X, 20, axis=0))
                close(fitted.transform(many), np.repeat(expected, 20, axis=0))
                Device.array, Device.host = array, host
            assert max(crossed) < len(many) or name == "exact"  # whitened


def on_the_host():
    for model in (
        LocalKernelRegressor(leaf_size=60, random_state=0),
        AutoKernelRegressor(random_state=0),
        make_pipeline(maps.RandomFourier(random_state=0), KernelRegressor("linear")),
    ):
        expected = clone(model).fit(X, TARGET).predict(X)
        with config_context(array_api_dispatch=True):
            model.fit(torch.as_tensor(X), torch.as_tensor(TARGET))
            close(model.predict(torch.as_tensor(X)), expected)
    gaussian = KernelRegressor("exact").fit(X, TARGET)
    with config_context(array_api_dispatch=True):
        mean, std = gaussian.predict(torch.as_tensor(X), return_std=True)
    expected = gaussian.predict(X, return_std=True)
    close(mean, expected[0])
    close(std, expected[1])


def bad_rows():
    model = KernelRegressor("exact", device=CPU).fit(X, TARGET)
    with config_context(array_api_dispatch=True):
        for rows, part in (
            (torch.full((2, 3), float("nan")), "contains NaN"),
            (torch.ones((2, 4)), "X has 4 features, but KernelRegressor is expecting 3"),
            (torch.ones(3), "Expected 2D array"),
        ):
            with pytest.raises(ValueError, match=part):
                model.predict(rows)


class Foreign:
    """An array of a library that PyTorch does not know, on the processor."""

    def __init__(self, values):
        self.values, self.shape, self.dtype, self.device = values, values.shape, values.dtype, "cpu"

    def __dlpack__(self, **given):
        return self.values.__dlpack__(**given)

    def __dlpack_device__(self):
        return self.values.__dlpack_device__()

    def __array_namespace__(self, **given):
        return Foreign

    @staticmethod
    def asarray(values, device):
        assert device == "cpu"
        return Foreign(values)


def other_libraries():
    model = KernelRegressor("exact").fit(X, TARGET)
    with config_context(array_api_dispatch=True):
        found = model.predict(Foreign(X))
    assert isinstance(found, Foreign)
    np.testing.assert_array_equal(found.values, model.predict(X))


def without_the_setting():
    """As before: tensors of the processor are taken for arrays, and arrays come out."""
    model = KernelRegressor("exact").fit(torch.as_tensor(X), torch.as_tensor(TARGET))
    assert isinstance(model.predict(torch.as_tensor(X)), np.ndarray)


for name in MAPS:
    for device in (None, CPU):
        for dtype in (np.float32, np.float64):
            regression(name, dtype, device)
    held("regression", name)
for labels in (X[:, 0] > 0, np.where(X[:, 0] > 0, "a", "b"), np.digitize(X[:, 0], [-0.5, 0.5])):
    for loss in ("squared", "logistic"):
        for device in (None, CPU):
            classes("exact", labels, loss, device)
    held("classes", labels.dtype.kind)
classes("fourier", np.digitize(X[:, 0], [-0.5, 0.5]), "multinomial", CPU)
for name in MAPS:
    nothing_crosses(name)
    held("nothing crosses", name)
for name in MAPS:
    transforms(name)
held("transforms")
on_the_host()
held("on the host")
bad_rows()
held("bad rows")
other_libraries()
held("other libraries")
without_the_setting()
with mercer.config_context(device=CPU), config_context(array_api_dispatch=True):
    model = KernelRegressor("exact").fit(torch.as_tensor(X), TARGET)
    close(model.predict(torch.as_tensor(X)), model.predict(X))
held("settings")
