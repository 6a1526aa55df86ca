"""Tensors in and out of estimators.

It is a program of its own, as SciPy has to be told before it is imported. Every line that it prints
is a part that held.
"""

import importlib.util
import pickle
import re
import sys
import warnings
from pathlib import Path
from textwrap import dedent

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from sklearn import config_context
from sklearn.base import clone
from sklearn.metrics import accuracy_score
from sklearn.pipeline import make_pipeline

import mercer
from _devices import DEVICE, NAME, on_processor, tensor_of, torch
from mercer import (
    AutoKernelClassifier,
    AutoKernelRegressor,
    DoublySGDRegressor,
    KernelClassifier,
    KernelRegressor,
    LocalKernelRegressor,
    maps,
)
from mercer._runtime.devices import Device

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
    assert found.device == DEVICE
    assert str(found.dtype).removeprefix("torch.") == expected.dtype.name
    np.testing.assert_allclose(on_processor(found), expected, atol=atol)


def regression(name, dtype, device):
    model = KernelRegressor(MAPS[name], alpha=1e-2, device=device)
    given = X.astype(dtype)
    expected = clone(model).set_params(device=None).fit(given, TARGET).predict(given)
    tensor, target = tensor_of(given), tensor_of(TARGET)
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
    tensor, new = tensor_of(X), tensor_of(X[:17])
    with config_context(array_api_dispatch=True):
        model.fit(tensor, labels if labels.dtype.kind == "U" else tensor_of(labels))
        close(model.decision_function(new), host_model.decision_function(X[:17]), 1e-3)
        if loss != "squared":
            close(model.predict_proba(new), host_model.predict_proba(X[:17]), 1e-3)
        found, expected = model.predict(new), host_model.predict(X[:17])
        if labels.dtype.kind == "U":
            assert isinstance(found, np.ndarray)
            assert (found == expected).all()
        else:
            close(found, expected)
            assert accuracy_score(tensor_of(labels[:17]), found) > 0.8


def nothing_crosses(name):
    """Neither rows nor features of a prediction, beside what the model is made of."""
    n = 5000
    many = tensor_of(rng.normal(size=(n, 3)))
    with config_context(array_api_dispatch=True):
        model = KernelRegressor(MAPS[name], alpha=1e-2, device=DEVICE).fit(X, TARGET)
        expected = model.predict(on_processor(many))
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
            fitted = clone(map_).fit(tensor_of(X))
            close(fitted.transform(tensor_of(X)), expected)
            with mercer.config_context(device=DEVICE):
                Device.array, Device.host = counted_array, counted_host
                crossed.clear()
                many = tensor_of(np.repeat(X, 20, axis=0))
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
            model.fit(tensor_of(X), tensor_of(TARGET))
            close(model.predict(tensor_of(X)), expected, 1e-5 if NAME == "cpu" else 1e-3)
    gaussian = KernelRegressor("exact").fit(X, TARGET)
    with config_context(array_api_dispatch=True):
        mean, std = gaussian.predict(tensor_of(X), return_std=True)
        draws = gaussian.sample_y(tensor_of(X))
    expected = gaussian.predict(X, return_std=True)
    close(mean, expected[0])
    close(std, expected[1])
    close(draws, gaussian.sample_y(X))


def bad_rows():
    model = KernelRegressor("exact", device=DEVICE).fit(X, TARGET)
    with config_context(array_api_dispatch=True):
        for rows, part in (
            (torch.full((2, 3), float("nan")), "contains NaN"),
            (torch.ones((2, 4)), "X has 4 features, but KernelRegressor is expecting 3"),
            (torch.ones(3), "Expected 2D array"),
        ):
            with pytest.raises(ValueError, match=part):
                model.predict(rows)


def odd_tensors():
    """Of types, orders and classes that arrays of NumPy do not have, or seldom."""
    tensor = tensor_of(X, dtype=torch.float32)
    by_columns = tensor_of(X.T.copy(), dtype=torch.float32).T
    for device in (None, DEVICE):
        model = KernelRegressor(MAPS["fourier"], device=device).fit(X, TARGET)
        with config_context(array_api_dispatch=True):
            expected = on_processor(model.predict(tensor))
            for given in (by_columns, tensor.requires_grad_(), torch.nn.Parameter(tensor)):
                close(model.predict(given), expected)
            close(model.predict(tensor.as_subclass(type("Own", (torch.Tensor,), {}))), expected)
            short = tensor.detach().bfloat16()
            close(model.predict(short), on_processor(model.predict(short.float())))
            with pytest.raises(TypeError, match=r"^tensors must be dense; got .*torch\.sparse_coo"):
                model.predict(tensor.detach().to_sparse())
        tensor = tensor.detach()


def labels_of_any_type():
    """Labels that PyTorch has no type for, or no indexing."""
    for dtype in (">i8", ">f4", "u2", "u4", "u8", "f2"):
        labels = np.digitize(X[:, 0], [-0.5, 0.5]).astype(dtype)
        for device in (None, DEVICE):
            model = KernelClassifier("exact", device=device).fit(X, labels)
            expected = model.predict(X)
            with config_context(array_api_dispatch=True):
                found = model.predict(tensor_of(X))
            assert isinstance(found, torch.Tensor)
            np.testing.assert_array_equal(on_processor(found), expected)


def kinds_follow_the_rows():
    """Whatever targets are."""
    target = tensor_of(TARGET)
    map_, frame = maps.Nystroem(n_components=9, random_state=0), pd.DataFrame(X)
    with config_context(array_api_dispatch=True):
        for rows in (frame, X, scipy.sparse.csr_array(X)):
            assert isinstance(map_.fit_transform(rows, target), np.ndarray)
        streamed = DoublySGDRegressor(random_state=0).partial_fit(tensor_of(X), target)
        sets = AutoKernelClassifier(random_state=0).fit(X, TARGET > 0).predict_set
        np.testing.assert_array_equal(on_processor(sets(tensor_of(X))), sets(X))
    again = DoublySGDRegressor(random_state=0).partial_fit(X, TARGET)
    np.testing.assert_array_equal(streamed.predict(X), again.predict(X))


def in_pieces(name):
    """Predictions that fit on the device some rows at a time."""
    n = 3000
    many = rng.normal(size=(n, 3))
    model = KernelRegressor(MAPS[name], device=DEVICE).fit(X, TARGET)
    expected = model.predict(many)
    with pytest.MonkeyPatch.context() as patch, config_context(array_api_dispatch=True):
        patch.setattr("mercer.designs.on_device.features._HELD_SHARE", 0.0)
        patch.setattr("mercer.designs.on_device.tiles._TILE", 1000)
        patch.setattr("mercer.estimators.tensors._NUMBERS", 2**15)
        patch.setattr(Device, "free_memory", lambda self: 500_000)
        close(model.predict(tensor_of(many)), expected)


def too_large_rows(name):
    """Rows that overflow once they are scaled, or in the arguments of cosines."""
    model = KernelRegressor(MAPS[name], device=DEVICE).fit(X * [1.0, 1e-3, 1.0], TARGET)
    for size in (1e307, 1.5e308):
        rows, told = np.full((2, 3), size), []
        for given in (rows, tensor_of(rows)):
            with (
                warnings.catch_warnings(action="ignore"),
                config_context(array_api_dispatch=True),
                pytest.raises(ValueError, match="X") as caught,
            ):
                model.predict(given)
            told.append(str(caught.value))
        assert told[0] == told[1]


def texts():
    """A model of texts refuses a tensor as it refuses an array."""
    model = KernelRegressor("exact", kernel="ngram").fit(["ab", "cd"] * 9, np.arange(18.0))
    model.set_params(device=DEVICE)
    with config_context(array_api_dispatch=True), pytest.raises((TypeError, ValueError)) as one:
        model.predict(tensor_of(X))
    with pytest.raises((TypeError, ValueError)) as other:
        model.predict(X)
    assert str(one.value) == str(other.value)


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


def arrays_of_cupy():
    """Where there is a GPU and CuPy: rows on it give predictions on it."""
    import cupy

    rows, target = cupy.asarray(X), cupy.asarray(TARGET)
    for map_ in MAPS.values():
        model = KernelRegressor(map_, device=NAME).fit(X, TARGET)
        with config_context(array_api_dispatch=True):
            found = KernelRegressor(map_).fit(rows, target).predict(rows)
        assert isinstance(found, cupy.ndarray)
        np.testing.assert_allclose(found.get(), model.predict(X), atol=1e-8)


def without_the_setting():
    """As before: tensors of the processor are taken for arrays, and arrays come out."""
    rows = torch.as_tensor(X)
    model = KernelRegressor("exact").fit(rows, torch.as_tensor(TARGET))
    assert isinstance(model.predict(rows), np.ndarray)


def the_guide():
    """The code of the page on GPUs, with PyTorch's processor in place of them."""
    page = Path(__file__).parents[1] / "docs" / "guide" / "devices.rst"
    if not page.exists():  # beside installed tests
        return
    blocks = re.findall(r"^\.\. code-block:: python\n\n((?: {3}.*\n|\n)+)", page.read_text(), re.M)
    code = re.sub('"cuda(:1)?"', f'torch.device("{NAME}")', "".join(map(dedent, blocks)))
    assert code.count("torch.device") == len(blocks) == 2
    tensors = {"X_cuda": tensor_of(X), "y_cuda": tensor_of(TARGET)}
    names = {"torch": torch, "X": X, "y": TARGET, "model": KernelRegressor("exact"), **tensors}
    exec(code, names)
    assert names["model"].device_ == NAME


for name in MAPS:
    for device in (None, DEVICE):
        for dtype in (np.float32, np.float64):
            regression(name, dtype, device)
    held("regression", name)
for labels in (X[:, 0] > 0, np.where(X[:, 0] > 0, "a", "b"), np.digitize(X[:, 0], [-0.5, 0.5])):
    for loss in ("squared", "logistic"):
        for device in (None, DEVICE):
            classes("exact", labels, loss, device)
    held("classes", labels.dtype.kind)
classes("fourier", np.digitize(X[:, 0], [-0.5, 0.5]), "multinomial", DEVICE)
for name in MAPS:
    nothing_crosses(name)
    held("nothing crosses", name)
for name in MAPS:
    transforms(name)
held("transforms")
on_the_host()
held("on the host")
bad_rows()
for name in MAPS:
    too_large_rows(name)
texts()
held("bad rows")
odd_tensors()
labels_of_any_type()
kinds_follow_the_rows()
held("odd tensors")
for name in MAPS:
    in_pieces(name)
held("in pieces")
other_libraries()
held("other libraries")
if NAME != "cpu" and importlib.util.find_spec("cupy"):
    arrays_of_cupy()
    held("CuPy")
without_the_setting()
with mercer.config_context(device=DEVICE), config_context(array_api_dispatch=True):
    model = KernelRegressor("exact").fit(tensor_of(X), TARGET)
    close(model.predict(tensor_of(X)), model.predict(X))
the_guide()
held("guide")
held("settings")
