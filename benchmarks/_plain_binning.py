"""Exact bins by plain C++ of the paper's algorithm (``naive_binning.cpp``), compiled when asked."""

from __future__ import annotations

import ctypes
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray


def compiled(gamma: float) -> Callable[[NDArray[np.float32], int, int], NDArray[np.uint32]]:
    """Codes (n, n_grids) of rows (n, d) by a number of grids and of threads."""
    library = Path(tempfile.mkdtemp()) / "naive.so"
    source = Path(__file__).with_name("naive_binning.cpp")
    flags = ["-std=c++20", "-O3", "-shared", "-fPIC", "-pthread"]
    subprocess.run(["c++", *flags, str(source), "-o", str(library)], check=True)
    function = ctypes.CDLL(str(library)).naive_codes
    size, pointer = ctypes.c_size_t, ctypes.c_void_p
    function.argtypes = [pointer, size, size, size, *[pointer] * 4, ctypes.c_int]

    def run(X: NDArray[np.float32], n_grids: int, n_threads: int) -> NDArray[np.uint32]:
        rng = np.random.default_rng(1)
        widths = rng.gamma(2.0, 1.0 / gamma, (n_grids, X.shape[1]))
        offsets = rng.random(widths.shape) * widths
        multipliers = rng.integers(0, 2**64, widths.shape, dtype=np.uint64)
        codes = np.empty((len(X), n_grids), np.uint32)
        pointers = [array.ctypes.data for array in (widths, offsets, multipliers, codes)]
        function(X.ctypes.data, *X.shape, n_grids, *pointers, n_threads)
        return codes

    return run
