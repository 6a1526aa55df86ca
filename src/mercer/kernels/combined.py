"""Kernels made of kernels: multiples, sums and products."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import attrgetter
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from mercer._runtime.arrays import Matrix, row_chunks
from mercer._runtime.random import Slot, Streams
from mercer._runtime.validation import is_listed, positive_number
from mercer.kernels.base import Gamma, Kernel


def _of_the_inner(name: str) -> Any:
    """The attribute or method of the kernel inside a multiple."""
    return property(attrgetter(f"kernel.{name}"))


@dataclass(frozen=True)
class Scaled(Kernel):
    """Multiple of a kernel, ``factor * kernel``.

    Parameters
    ----------
    kernel : Kernel
        Kernel that is multiplied.
    factor : float
        Factor, > 0.

    Raises
    ------
    TypeError, ValueError
        If ``kernel`` is not a kernel or ``factor`` not a positive number.

    Examples
    --------
    >>> from mercer.kernels import Gaussian
    >>> (2.0 * Gaussian(gamma=1.0))([[0.0]], [[0.0]])
    array([[2.]])
    """

    kernel: Kernel
    factor: float

    def __post_init__(self) -> None:
        factor = positive_number(self.factor, "factor")
        (inner,) = _checked_kernels([self.kernel], "kernel")
        if isinstance(inner, Scaled):
            factor *= inner.factor
            inner = inner.kernel
        object.__setattr__(self, "kernel", inner)
        object.__setattr__(self, "factor", factor)

    gamma = _of_the_inner("gamma")
    takes_text = _of_the_inner("takes_text")
    is_resolved = _of_the_inner("is_resolved")
    frequencies = _of_the_inner("frequencies")
    widths = _of_the_inner("widths")
    _checked = _of_the_inner("_checked")

    @property
    def amplitude(self) -> float:  # type: ignore[override]
        return self.factor * self.kernel.amplitude

    @property
    def unscaled(self) -> Kernel:
        return self.kernel

    def with_gamma(self, gamma: Gamma) -> Self:
        return replace(self, kernel=self.kernel.with_gamma(gamma))

    def of_varying(self, columns: NDArray[np.int64], n_inputs: int) -> Kernel:
        return replace(self, kernel=self.kernel.of_varying(columns, n_inputs))

    def placed(self, names: Any) -> Self:
        return replace(self, kernel=self.kernel.placed(names))

    def diag(self, X: Matrix) -> NDArray:
        return self.factor * self.kernel.diag(X)

    def resolve(self, X: Matrix, sample_weight: NDArray | None = None) -> Self:
        return replace(self, kernel=self.kernel.resolve(X, sample_weight))

    def _fill(self, out: NDArray, X: Matrix, Y: Matrix) -> None:
        self.kernel._fill(out, X, Y)
        out *= self.factor


@dataclass(frozen=True)
class _Combined(Kernel):
    """Several kernels of the same rows.

    Every part has its own scale and draws its random numbers under a key of its own.
    """

    parts: Sequence[Kernel]
    _join: ClassVar[np.ufunc]  # makes one of the values of two parts
    _other_maps: ClassVar[str] = "feature_map='nystroem'"

    def __post_init__(self) -> None:
        parts: list[Kernel] = []
        for part in _checked_kernels(self.parts, "parts"):
            parts.extend(part.parts if isinstance(part, type(self)) else [part])
        if len({part.takes_text for part in parts}) > 1:
            raise ValueError(
                f"parts must be kernels of texts or kernels of numbers alone; got {parts!r}."
            )
        object.__setattr__(self, "parts", tuple(parts))

    @property
    def takes_text(self) -> bool:  # type: ignore[override]
        return self.parts[0].takes_text

    @property
    def is_resolved(self) -> bool:
        return all(part.is_resolved for part in self.parts)

    def resolve(self, X: Matrix, sample_weight: NDArray | None = None) -> Self:
        return replace(self, parts=tuple(part.resolve(X, sample_weight) for part in self.parts))

    def of_varying(self, columns: NDArray[np.int64], n_inputs: int) -> Kernel:
        parts = tuple(part.of_varying(columns, n_inputs) for part in self.parts)
        return replace(self, parts=parts)

    def placed(self, names: Any) -> Self:
        return replace(self, parts=tuple(part.placed(names) for part in self.parts))

    def diag(self, X: Matrix) -> NDArray:
        return reduce(self._join, (part.diag(X) for part in self.parts))

    def _checked(self, X: Any, name: str) -> Matrix:
        return self.parts[0]._checked(X, name)

    def _fill(self, out: NDArray, X: Matrix, Y: Matrix) -> None:
        for rows in row_chunks(X.shape[0], 16.0 * Y.shape[0]):
            total = np.empty(out[rows].shape)
            self.parts[0]._fill(total, X[rows], Y)
            values = np.empty_like(total)
            for part in self.parts[1:]:
                part._fill(values, X[rows], Y)
                self._join(total, values, out=total)
            out[rows] = total
        if Y is X:
            np.fill_diagonal(out, self.diag(X))

    def _part_streams(self, streams: Streams, part: int) -> Streams:
        key = Streams(streams.key, np.array([part])).bits(1, Slot.BASE)[0, 0]
        return Streams(int(key), streams.index)


@dataclass(frozen=True)
class Sum(_Combined):
    """Sum of kernels, ``k1(x, y) + k2(x, y) + ...``; written ``k1 + k2``.

    Each random frequency or grid is drawn from one part, chosen with a probability that is its
    share of ``k(x, x)``.

    Parameters
    ----------
    parts : sequence of Kernel
        Kernels to add, at least one.

    Raises
    ------
    TypeError, ValueError
        If ``parts`` is no sequence of kernels.

    Examples
    --------
    >>> from mercer.kernels import Gaussian, Laplacian
    >>> kernel = Gaussian(gamma=1.0) + 0.5 * Laplacian(gamma=1.0)
    >>> kernel([[0.0]], [[0.0], [1.0]]).round(4)
    array([[1.5   , 0.5518]])
    """

    _join = np.add

    @property
    def amplitude(self) -> float:  # type: ignore[override]
        return sum(part.amplitude for part in self.parts)

    def frequencies(self, streams: Streams, n_inputs: int) -> NDArray[np.float64]:
        return self._mixed(streams, [part.frequencies for part in self.parts], n_inputs)

    def widths(self, streams: Streams, n_inputs: int) -> NDArray[np.float64]:
        return self._mixed(streams, [part.widths for part in self.parts], n_inputs)

    def _mixed(self, streams: Streams, samplers: list[Any], n_inputs: int) -> NDArray[np.float64]:
        """Every row by the sampler of the part that its stream draws."""
        shares = np.cumsum([part.amplitude for part in self.parts]) / self.amplitude
        drawn = np.searchsorted(shares[:-1], streams.uniform(1, Slot.PART)[:, 0], side="right")
        out = np.empty((len(streams), n_inputs))
        for part, sample in enumerate(samplers):
            # A part that no stream draws is asked, too: it may have no sampler.
            rows = np.flatnonzero(drawn == part)
            out[rows] = sample(self._part_streams(streams, part).take(rows), n_inputs)
        return out


@dataclass(frozen=True)
class Times(_Combined):
    """Pointwise product of kernels, ``k1(x, y) * k2(x, y) * ...``; written ``k1 * k2``.

    A random frequency is the sum of one frequency of each part. :class:`Product` is another kernel:
    a product over the inputs.

    Parameters
    ----------
    parts : sequence of Kernel
        Kernels to multiply, at least one.

    Raises
    ------
    TypeError, ValueError
        If ``parts`` is no sequence of kernels.

    Examples
    --------
    >>> from mercer.kernels import Gaussian, Linear
    >>> (Gaussian(gamma=1.0) * Linear())([[2.0]], [[1.0], [2.0]]).round(4)
    array([[0.7358, 4.    ]])
    """

    _join = np.multiply
    _why_no_widths = "a product of kernels is no mean over single grids"

    @property
    def amplitude(self) -> float:  # type: ignore[override]
        return float(np.prod([part.amplitude for part in self.parts]))

    def frequencies(self, streams: Streams, n_inputs: int) -> NDArray[np.float64]:
        drawn = (
            part.frequencies(self._part_streams(streams, i), n_inputs)
            for i, part in enumerate(self.parts)
        )
        return reduce(np.add, drawn)

    def widths(self, streams: Streams, n_inputs: int) -> NDArray[np.float64]:
        columns = [column for part in self.parts for column in getattr(part, "columns", ("", ""))]
        if len(set(columns)) < len(columns):
            return super().widths(streams, n_inputs)
        # No column is of two parts: a grid of all columns has the widths of each part in its own.
        drawn = (
            part.widths(self._part_streams(streams, i), n_inputs)
            for i, part in enumerate(self.parts)
        )
        return reduce(np.minimum, drawn)


def _checked_kernels(kernels: Iterable[Any], name: str) -> list[Kernel]:
    if not is_listed(kernels):
        raise TypeError(f"{name} must be a sequence of kernels; got {kernels!r}.")
    kernels = list(kernels)
    if not kernels:
        raise ValueError(f"{name} must hold at least one kernel; got none.")
    for kernel in kernels:
        if not isinstance(kernel, Kernel):
            raise TypeError(f"{name} must be kernels; got {kernel!r}.")
    return [kernel.checked() for kernel in kernels]
