"""Designs: the matrix Z = z(X) as solvers see it, dense or lazy, in the form that suits it.

A design with n rows and D columns knows its products and its columns; it need not hold n * D
numbers. ``Dense`` and ``Sparse`` hold them, ``Binned`` holds one small code per row and grid,
``Weighted`` a number beside it, ``Lazy`` holds the data and the map and regenerates what is asked
for; ``KernelColumns`` does so for the kernel against landmarks, ``Local`` for that within leaves.
"""

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
from mercer.designs.weighted import Weighted

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
    "Weighted",
    "select",
    "side_by_side",
]
