"""Kernels: immutable values that evaluate themselves and, where the mathematics allows, hand out
the random frequencies (Fourier maps) or the bin widths (binning) that approximate them.

A stationary kernel is a unit profile of a distance, and ``gamma`` multiplies that distance. Once
``gamma**(1 / power)`` is multiplied into the inputs the scale is gone, so every profile, sampler
and law is written for gamma = 1.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable as Function
from functools import cache
from typing import Any

from mercer._runtime.messages import shown
from mercer._runtime.validation import check_function, scale_of_distance
from mercer.kernels.base import Callable, Gamma, Kernel, NotRepresentable, Stationary
from mercer.kernels.combined import Scaled, Sum, Times
from mercer.kernels.dots import Linear
from mercer.kernels.ensembles import Perceptron, perceptron_constant
from mercer.kernels.groups import On
from mercer.kernels.product import Product
from mercer.kernels.radial import Matern, RationalQuadratic
from mercer.kernels.stationary import Cauchy, Exponential, Gaussian, Laplacian
from mercer.kernels.text import NGram

__all__ = [
    "Callable",
    "Cauchy",
    "Exponential",
    "Gaussian",
    "Kernel",
    "Laplacian",
    "Linear",
    "Matern",
    "NGram",
    "NotRepresentable",
    "On",
    "Perceptron",
    "Product",
    "RationalQuadratic",
    "Scaled",
    "Stationary",
    "Sum",
    "Times",
    "get",
    "perceptron_constant",
    "register",
]

_NAMES: dict[str, Function[..., Any]] = {
    "gaussian": Gaussian,
    "rbf": Gaussian,
    "laplacian": Laplacian,
    "exponential": Exponential,
    "cauchy": Cauchy,
    "matern": Matern,
    "rational_quadratic": RationalQuadratic,
    "perceptron": Perceptron,
    "linear": Linear,
    "ngram": NGram,
}


def register(name: str, factory: Function[..., Any]) -> None:
    """Register a kernel under a name that maps and estimators accept.

    Parameters
    ----------
    name : str
        New name of the kernel; it must not be in use.
    factory : callable
        Function that returns a :class:`Kernel`, or a function of (X, Y) that returns the kernel
        matrix. It is called as ``factory(gamma=gamma)``, or without arguments if it takes no
        ``gamma``, at each use of the name. A subclass of Kernel is such a factory.

    Raises
    ------
    TypeError, ValueError
        If the name is no string or in use, or the factory is not callable.

    Examples
    --------
    >>> from mercer import kernels
    >>> kernels.register("rough and smooth", lambda gamma: Exponential(gamma) + Gaussian(gamma))
    >>> kernels.get("rough and smooth", 2.0)([[0.0]], [[0.0], [1.0]]).round(4)
    array([[2.    , 0.2707]])
    """
    if not isinstance(name, str) or not name:
        raise TypeError(f"name must be a string; got {name!r}.")
    if not callable(factory) or isinstance(factory, Kernel):
        raise TypeError(f"factory must make a kernel when it is called; got {factory!r}.")
    if name in _NAMES:
        raise ValueError(f"name must not be taken; {name!r} is {_NAMES[name]!r}.")
    _NAMES[name] = factory


def get(kernel: Any, gamma: Gamma = "scale") -> Kernel:
    """Return a kernel from a name, a function or a kernel.

    Parameters
    ----------
    kernel : str, callable or Kernel
        "gaussian" or "rbf", "laplacian", "exponential", "cauchy", "matern",
        "rational_quadratic", "perceptron", "linear", "ngram" or a name of :func:`register`, with
        default settings; or a function of (X, Y); or a kernel.
    gamma : float, array of shape (d,), "scale" or "median", default="scale"
        Factor of the distance in the kernel. "scale" leaves a kernel object as it is.

    Raises
    ------
    ValueError, TypeError
        If the name is unknown, ``gamma`` contradicts the gamma of the kernel or the kernel has
        none, or a registered factory returns no kernel.

    Examples
    --------
    >>> from mercer import kernels
    >>> kernels.get("rbf", 0.1)
    Gaussian(gamma=0.1)
    """
    gamma = scale_of_distance(gamma)
    if isinstance(kernel, str) and kernel in _NAMES:
        return _named(kernel, gamma)
    if callable(kernel) and not isinstance(kernel, (type, Kernel)):
        check_function(kernel, "kernel", "X", "Y")
        kernel = Callable(kernel)
    if not isinstance(kernel, Kernel):
        raise ValueError(
            f"kernel must be one of {', '.join(map(repr, _NAMES))}, a Kernel or a function of "
            f"(X, Y); got {shown(kernel)}."
        )
    if gamma == "scale" or gamma == kernel.gamma:
        return kernel
    if kernel.gamma == "scale":
        return kernel.with_gamma(gamma)
    if kernel.gamma is None:
        what = "a kernel function" if isinstance(kernel, Callable) else repr(kernel)
        raise ValueError(
            f"gamma must be left out beside {what}, which has no scale or brings its own; "
            f"got {gamma!r}."
        )
    raise ValueError(f"gamma is given twice and differs: {gamma!r} beside {kernel!r}; say it once.")


@cache
def _takes_gamma(factory: Function[..., Any]) -> bool:
    wanted = inspect.signature(factory).parameters.values()
    return any(p.name == "gamma" or p.kind == p.VAR_KEYWORD for p in wanted)


def _named(name: str, gamma: Gamma) -> Kernel:
    """The kernel of that name, at that scale."""
    factory = _NAMES[name]
    takes_gamma = _takes_gamma(factory)
    if not takes_gamma and gamma != "scale":
        raise ValueError(
            f"gamma must be left out beside kernel={name!r}, which has no scale; got {gamma!r}."
        )
    made = factory(gamma=gamma) if takes_gamma else factory()
    if isinstance(made, Kernel):
        return made
    if callable(made) and not isinstance(made, type):
        return Callable(made)
    raise TypeError(f"the factory of kernel={name!r} must return a Kernel; got {made!r}.")
