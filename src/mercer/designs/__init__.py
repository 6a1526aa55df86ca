"""Designs: the matrix Z = z(X) as solvers see it, dense or lazy, in the form that suits it.

A design with n rows and D columns knows its products and its columns; it need not hold n * D
numbers. ``Dense`` and ``Sparse`` hold them, ``Binned`` holds one small code per row and grid,
``Lazy`` holds the data and the map and regenerates what is asked for; ``KernelColumns`` does so for
the kernel against landmarks, ``Local`` for that within leaves.
"""

from typing import Any

from mercer._runtime.config import device_in_force
from mercer.designs.base import Design
from mercer.designs.binned import Binned
from mercer.designs.columns import select, side_by_side
from mercer.designs.dense import Dense
from mercer.designs.kernel import KernelColumns, KernelMatrix
from mercer.designs.kernel_fixed import FixedPointKernel
from mercer.designs.lazy import Lazy
from mercer.designs.local import Local
from mercer.designs.occupancy import Occupancy
from mercer.designs.sparse import Sparse

__all__ = [
    "Binned",
    "Dense",
    "Design",
    "FixedPointKernel",
    "KernelColumns",
    "KernelMatrix",
    "Lazy",
    "Local",
    "Occupancy",
    "Sparse",
    "kernel_columns",
    "select",
    "side_by_side",
]


def kernel_columns(
    X: Any, kernel: Any, landmarks: Any = None, *, n_jobs: int | None = None
) -> KernelColumns:
    """The kernel of rows against landmarks, on the device in force or the processor.

    Parameters
    ----------
    X, kernel, landmarks, n_jobs
        As of :class:`KernelColumns`.

    Returns
    -------
    KernelColumns

    Raises
    ------
    TypeError, ValueError
        As by :class:`KernelColumns`; and if the device in force cannot compute this kernel.

    See Also
    --------
    mercer.config_context : says which device is in force.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.designs import kernel_columns
    >>> from mercer.kernels import Gaussian
    >>> kernel_columns(np.eye(2), Gaussian(gamma=1.0))
    <KernelColumns design 2 x 2, float64>
    """
    device = device_in_force()
    if device is None:
        return KernelColumns(X, kernel, landmarks, n_jobs=n_jobs)
    from mercer.designs.on_device import DeviceKernel  # which few need

    return DeviceKernel(X, kernel, landmarks, n_jobs=n_jobs, device=device)
