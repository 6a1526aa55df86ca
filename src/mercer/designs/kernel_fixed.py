"""A symmetric kernel matrix cached in a quarter of the memory of its dtype, for quick products."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
from numpy.typing import DTypeLike, NDArray

from mercer import _core
from mercer._runtime.arrays import available_memory, check_memory
from mercer._runtime.pages import lent
from mercer._runtime.rows import PreparedRows
from mercer.designs.kernel import WHOLE_SHARE, WIDE_SHARE, KernelColumns
from mercer.designs.kernel_rows import InCore
from mercer.kernels.distances import fill_fixed

__all__ = ["FixedPointKernel"]

# Spacing of fixed-point numbers between 0 and 1, and their type: 16 bits for a kernel in float32,
# 31 bits for one in float64.
_UNITS = {np.dtype(np.float32): 1.0 / 65535, np.dtype(np.float64): 1.0 / (2**31 - 1)}
_NUMBERS = {np.dtype(np.float32): np.uint16, np.dtype(np.float64): np.uint32}

# Kernels of the core whose values are not in [0, 1].
_UNBOUNDED = ("sqeuclidean", "cityblock")


class FixedPointKernel(KernelColumns):
    """Kernel design that stores half of its symmetric matrix as fixed-point numbers.

    A float32 design takes 16 bits per entry, n² bytes: products with float32 vectors use the stored
    entries, which have an error of at most 8e-6, those with float64 vectors compute the entries. A
    float64 design takes 31 bits, 2 n² bytes: all products use the stored entries, which have an
    error of at most 2.4e-10. ``exact`` computes the entries at each product, for true residuals.

    Parameters
    ----------
    design : KernelColumns
        Design for which ``fits`` is True.

    Raises
    ------
    ValueError
        If ``design`` is not symmetric, stores its matrix already, or has a kernel that is not in
        the C++ core or has values outside [0, 1].
    MemoryError
        If the entries do not fit into memory.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.designs import FixedPointKernel, KernelColumns
    >>> from mercer.kernels import Gaussian
    >>> design = KernelColumns(np.array([[0.0], [1.0]], dtype=np.float32), Gaussian(gamma=1.0))
    >>> FixedPointKernel.fits(design)
    True
    >>> FixedPointKernel(design).matvec(np.array([1.0, 0.0], dtype=np.float32)).round(4)
    array([1.    , 0.3679], dtype=float32)
    """

    def __init__(self, design: KernelColumns):
        self.__dict__.update(design.__dict__)
        if not _can_be_rounded(design):
            raise ValueError(
                "design must be symmetric and of a kernel of the core with values in [0, 1]; "
                f"got {design!r} of {design.kernel!r}."
            )
        name, parameter, scale = cast(InCore, design._core)
        n = self.shape[0]
        check_memory(_bytes_of(design), f"half the kernel matrix of {n} rows", "do not hold it")
        rows = np.ascontiguousarray(self.points())
        self._numbers = lent((_core.fixed_kernel_size(n),), _NUMBERS[self.dtype])
        fill_fixed(self._numbers, name, rows, scale, parameter, self.n_threads)

    @staticmethod
    def fits(design: KernelColumns) -> bool:
        """True if fixed-point numbers can hold the design's matrix, and memory has room."""
        if not _can_be_rounded(design):
            return False
        available = available_memory()
        share = WHOLE_SHARE if design.dtype == np.float32 else WIDE_SHARE
        return available is None or _bytes_of(design) <= share * available

    @staticmethod
    def rounding(n: int, dtype: DTypeLike = np.float32) -> float:
        """Norm of the errors of the matrix of n rows of that dtype, which are as good as random.

        Errors of variance σ² that do not depend on each other are a symmetric matrix of norm
        2 σ √n (Wigner).
        """
        return float(2.0 * _UNITS[np.dtype(dtype)] / np.sqrt(12.0) * np.sqrt(n))

    @property
    def exact(self) -> KernelColumns:
        return self._of(self._left, self._right)

    def _product(self, vector: NDArray, points: PreparedRows, landmarks: PreparedRows) -> NDArray:
        if vector.dtype != self.dtype or points is not landmarks:
            return super()._product(vector, points, landmarks)
        w = vector.reshape(len(vector), -1)
        total = np.zeros(w.shape)
        _core.fixed_product(self._numbers, w, total, self.n_threads)
        return total.reshape(vector.shape).astype(self.dtype, copy=False)

    def sources(self) -> list[Any]:
        return [*super().sources(), self._numbers]


def _can_be_rounded(design: KernelColumns) -> bool:
    """True if entries lie in [0, 1], come from the core and are not cached."""
    core = design._core
    is_bounded = core is not None and core[0] not in _UNBOUNDED and design.device is None
    return is_bounded and design.symmetric and not design.nbytes


def _bytes_of(design: KernelColumns) -> float:
    """Bytes of the numbers, and of two copies of the rows while these are made."""
    size = np.dtype(_NUMBERS[design.dtype]).itemsize
    return float(size) * _core.fixed_kernel_size(design.shape[0]) + 2.0 * design.n_bytes_of_points
