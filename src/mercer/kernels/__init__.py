"""Kernels: immutable values that evaluate themselves and, where the mathematics allows, hand out
the random frequencies (Fourier maps) or the bin widths (binning) that approximate them.

A stationary kernel is a unit profile of a distance, and ``gamma`` multiplies that distance. Once
``gamma**(1 / power)`` is multiplied into the inputs the scale is gone, so every profile, sampler
and law is written for gamma = 1.
"""

from __future__ import annotations

from typing import Any

from mercer._validation import scale_of_distance
from mercer.kernels.base import Callable, Gamma, Kernel, NotRepresentable, Stationary
from mercer.kernels.product import Product
from mercer.kernels.smooth import Smooth
from mercer.kernels.stationary import Cauchy, Exponential, Gaussian, Laplacian

__all__ = [
    "Callable",
    "Cauchy",
    "Exponential",
    "Gaussian",
    "Kernel",
    "Laplacian",
    "NotRepresentable",
    "Product",
    "Smooth",
    "Stationary",
    "get",
]

_NAMES: dict[str, type] = {
    "gaussian": Gaussian,
    "rbf": Gaussian,
    "laplacian": Laplacian,
    "exponential": Exponential,
    "cauchy": Cauchy,
    "smooth": Smooth,
}


def get(kernel: Any, gamma: Gamma = "scale") -> Kernel:
    """The kernel that a name, a function or a kernel stands for.

    Parameters
    ----------
    kernel : {"gaussian", "rbf", "laplacian", "exponential", "cauchy", "smooth"}, callable or Kernel
    gamma : float, array of shape (d,), "scale" or "median", default="scale"
        Its scale. Beside a kernel that has a scale of its own the default says nothing.

    Raises
    ------
    ValueError
        If the name is unknown, or ``gamma`` contradicts the kernel.

    Examples
    --------
    >>> from mercer import kernels
    >>> kernels.get("rbf", 0.1)
    Gaussian(gamma=0.1)
    """
    gamma = scale_of_distance(gamma)
    if isinstance(kernel, str) and kernel in _NAMES:
        return _NAMES[kernel](gamma=gamma)
    if isinstance(kernel, Stationary):
        if gamma == "scale" or gamma == kernel.gamma:
            return kernel
        if kernel.gamma == "scale":
            return kernel.with_gamma(gamma)
        raise ValueError(
            f"gamma is given twice and differs: {gamma!r} beside {kernel!r}; say it once."
        )
    if isinstance(kernel, Callable) or (
        callable(kernel) and not isinstance(kernel, (type, Kernel))
    ):
        if gamma != "scale":
            raise ValueError(
                f"gamma must be left out beside a kernel function, which has its own scale; "
                f"got {gamma!r}."
            )
        return kernel if isinstance(kernel, Callable) else Callable(kernel)
    if isinstance(kernel, Kernel):
        return kernel
    raise ValueError(
        f"kernel must be one of {', '.join(map(repr, _NAMES))}, a Kernel or a function of (X, Y); "
        f"got {kernel!r}."
    )
