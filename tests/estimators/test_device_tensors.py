"""Tensors in and out of estimators, by scikit-learn's ``array_api_dispatch``."""

import numpy as np
import pytest

from _programs import printed
from mercer._runtime import array_api as _array_api
from mercer._runtime.devices import Device, exact_float32

torch = pytest.importorskip("torch")


def test_what_comes_in_as_a_tensor_comes_out_as_one():
    parts = printed("_array_api_program.py", SCIPY_ARRAY_API="1")
    assert len(parts) == 21
    assert parts[-1] == "settings"


def test_rows_on_another_gpu_are_refused_by_one_sentence(monkeypatch):
    monkeypatch.setattr(_array_api, "device_named", lambda asked: Device(asked))
    place = _array_api._place
    with pytest.raises(ValueError, match=r"^X must be .* 'cuda:0', or .*; it is on 'cuda:1'\.$"):
        place("cuda:0", Device("cuda:1"))
    assert place("cuda:0", Device("cpu")) == Device("cuda:0")
    assert place(None, Device("cuda:1")) == Device("cuda:1")
    assert place(None, Device("cpu")) is None


@pytest.mark.parametrize("kind", ["mps", "xpu", "meta"])
def test_devices_on_which_nothing_is_computed_are_none(kind):
    class Elsewhere(torch.Tensor):
        device = torch.device(kind)

    rows = torch.ones(2, 1).as_subclass(Elsewhere)
    assert _array_api._device_of(rows) is None
    assert _array_api._place(None, None) is None


def precision():
    """What products of float32 matrices on a GPU are allowed."""
    matmul = torch.backends.cuda.matmul
    if hasattr(matmul, "fp32_precision"):  # from PyTorch 2.9 on
        return matmul.fp32_precision
    return {"highest": "ieee"}.get(torch.get_float32_matmul_precision(), "tf32")


def test_the_precision_that_a_program_allows_is_put_back_after_blocks_that_overlap():
    before = torch.get_float32_matmul_precision()
    try:
        torch.set_float32_matmul_precision("medium")
        one, other = exact_float32(torch), exact_float32(torch)
        one.__enter__()
        other.__enter__()
        one.__exit__(None, None, None)
        assert precision() == "ieee"
        other.__exit__(None, None, None)
        assert precision() == "tf32"
        assert torch.get_float32_matmul_precision() == "medium"
    finally:
        torch.set_float32_matmul_precision(before)


def test_programs_may_allow_shorter_products_in_the_newer_way():
    """In a process of its own, as PyTorch refuses the older way from then on."""
    if not hasattr(torch.backends.cuda.matmul, "fp32_precision"):
        pytest.skip("PyTorch has the older way alone")
    assert printed("_shorter_products.py") == ["tf32 bf16"]


def test_filters_of_warnings_are_left_alone_for_arrays_that_may_be_written_to(monkeypatch):
    device, frozen = Device("cpu"), np.ones(3)
    frozen.flags.writeable = False
    np.testing.assert_array_equal(device.array(frozen), frozen)  # without a warning
    monkeypatch.setattr("warnings.catch_warnings", None)  # which other threads would feel
    np.testing.assert_array_equal(device.array(np.ones(3)), np.ones(3))


@pytest.mark.parametrize("dtype", [">f8", ">f4", ">i8"])
def test_numbers_of_the_other_byte_order_are_sent(dtype):
    values = np.arange(3).astype(dtype)
    np.testing.assert_array_equal(Device("cpu").array(values), values)
