"""The bases of all kernels, and of kernels of a scaled distance."""

from __future__ import annotations

from collections.abc import Callable as Function
from dataclasses import dataclass, is_dataclass, replace
from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from mercer._runtime.arrays import Matrix, check_memory, row_chunks
from mercer._runtime.moments import Moments
from mercer._runtime.random import Streams
from mercer._runtime.rows import Data, PreparedRows
from mercer._runtime.validation import check_function, matrix, scale_of_distance
from mercer.kernels.distances import (
    blocks,
    centre_of,
    distances,
    fill,
    scaled,
    typical_distance,
)

Gamma = float | ArrayLike | str


class NotRepresentable(ValueError):
    """A kernel that a kind of feature map cannot approximate, and which maps can."""


class Kernel:
    """A positive definite function of two rows.

    ``kernel(X, Y)`` returns the kernel matrix. A subclass may add a sampler of frequencies (for
    Fourier maps) or of bin widths (for random binning); maps raise an error without it.

    Attributes
    ----------
    gamma : float, tuple of float, "scale", "median" or None
        Factor of the distance; None if the kernel has no such parameter.
    amplitude : float
        Factor between this kernel and the one that random frequencies or grids approximate:
        k(x, x) of a kernel with a sampler.
    takes_text : bool
        Whether data are sequences of texts instead of rows of numbers.
    is_resolved : bool
        Whether all parameters are numbers; False before ``resolve`` computes them from data.
    is_product : bool
        Whether the kernel is a product of kernels of single inputs, those of ``of_inputs``.

    Notes
    -----
    Kernels are closed under sums, products and multiples: ``0.5 * Gaussian() + Linear()`` is a
    kernel, and so is ``Gaussian() * Linear()``.
    """

    gamma: Any = None
    amplitude: float = 1.0
    takes_text: bool = False
    is_product: ClassVar[bool] = False

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Check attributes from a file as the constructor checks its arguments."""
        vars(self).update(state)
        fresh = self.checked()
        vars(self).clear()
        vars(self).update(vars(fresh))

    def checked(self) -> Kernel:
        """A kernel equal to this one; an error if a parameter has become invalid."""
        return replace(self) if is_dataclass(self) else self

    __array_ufunc__ = None  # NumPy's numbers leave their product with a kernel to the kernel

    def __call__(self, X: Any, Y: Any = None) -> NDArray:
        """The kernel matrix.

        Parameters
        ----------
        X : array or CSR of shape (n, d)
        Y : array or CSR of shape (m, d), default=None
            None means X.

        Returns
        -------
        ndarray of shape (n, m)
            Computed in float64 and returned in the wider dtype of X and Y.

        Raises
        ------
        MemoryError
            If the matrix would not fit.
        """
        X = self._checked(X, "X")
        Y = X if Y is None else self._checked(Y, "Y")
        X, Y, dtype = _alike(X, Y)
        n, m = X.shape[0], Y.shape[0]
        row = float(m) * dtype.itemsize
        check_memory(
            n * row,
            f"the {n} x {m} kernel matrix",
            lambda room: f"use a feature map instead, or ask for {int(room // row)} rows at a time",
        )
        out = np.empty((X.shape[0], Y.shape[0]), dtype=dtype)
        self._fill(out, X, Y)
        return out

    def diag(self, X: Matrix) -> NDArray:
        """``k(x, x)`` for every row x of X, of shape (n,)."""
        raise NotImplementedError

    def resolve(self, X: Matrix, sample_weight: NDArray | None = None) -> Self:
        """Return this kernel with ``gamma`` as a number, computed from the data X if it is a name.

        Weights (n,) are non-negative; a weight of 2 counts a row twice. Raises a ValueError if
        ``gamma`` is an array whose length is not the number of inputs.
        """
        return self

    @property
    def is_resolved(self) -> bool:
        return not isinstance(self.gamma, str)

    @property
    def unscaled(self) -> Kernel:
        """Return the kernel without its factor; the frequencies are the same."""
        return self

    def with_gamma(self, gamma: Gamma) -> Self:
        """Return this kernel with another gamma; a ValueError if it has no gamma."""
        raise ValueError(f"gamma must be left out for {self!r}, which has no scale.")

    def frequencies(self, streams: Streams, n_inputs: int) -> NDArray[np.float64]:
        """Frequencies w with amplitude * E[cos(w . (x - y))] = k(x, y), (len(streams), d).

        There is a stream for each of them. NotRepresentable if no sampler is known for this kernel.
        """
        raise NotRepresentable(
            f"{self!r} has no known spectral sampler, which Fourier maps need; "
            "use feature_map='nystroem'."
        )

    def widths(self, streams: Streams, n_inputs: int) -> NDArray[np.float64]:
        """Bin widths (len(streams), d) for which grids collide with probability k / amplitude.

        There is a stream for each grid. NotRepresentable if the kernel is not a product of convex
        profiles, one per input.
        """
        raise NotRepresentable(
            f"{self!r} has no bin widths, because {self._why_no_widths}; "
            f"use {self._other_maps}, or the Laplacian kernel."
        )

    _other_maps: ClassVar[str] = "feature_map='fourier' or 'nystroem'"
    _why_no_widths: str = "its profile is not convex"

    def _checked(self, X: Any, name: str) -> Matrix:
        """The data as the kernel's own methods take them."""
        return matrix(X, name)

    def _fill(self, out: NDArray, X: Matrix, Y: Matrix) -> None:
        """Write the matrix for checked X and Y into ``out``; Y is X where the caller passed one."""
        raise NotImplementedError

    def of_varying(self, columns: NDArray[np.int64], n_inputs: int) -> Kernel:
        """Return this kernel of the columns that vary alone, where its values stay so."""
        return self

    def placed(self, names: Any) -> Kernel:
        """Return this kernel with positions for names of columns, given those of all columns."""
        return self

    # The combinations live above this module, so they are met when they are asked for.

    def on(self, columns: Any) -> Kernel:
        """Return this kernel of some of the columns alone: :class:`mercer.kernels.On`.

        Parameters
        ----------
        columns : sequence of int or str
            Positions from 0 on, or names of columns of a data frame.

        Returns
        -------
        On
        """
        from mercer.kernels.groups import On

        return On(self, columns)

    def __add__(self, other: Any) -> Kernel:
        from mercer.kernels.combined import Sum

        return Sum((self, other)) if isinstance(other, Kernel) else NotImplemented

    def __mul__(self, other: Any) -> Kernel:
        from mercer.kernels.combined import Scaled, Times

        if isinstance(other, Kernel):
            return Times((self, other))
        return Scaled(self, other) if isinstance(other, Real) else NotImplemented  # type: ignore[arg-type]

    __rmul__ = __mul__


def _alike(X: Matrix, Y: Matrix) -> tuple[Matrix, Matrix, Matrix]:
    """Checked X and Y, both dense or both CSR, and the dtype of their kernel matrix."""
    if X.ndim == 1:  # not numbers
        return X, Y, np.dtype(np.float64)
    if X.shape[1] != Y.shape[1]:
        raise ValueError(
            f"X and Y must have the same number of columns; got {X.shape[1]} and {Y.shape[1]}."
        )
    if sparse.issparse(X) != sparse.issparse(Y):
        X, Y = sparse.csr_array(X), sparse.csr_array(Y)
    return X, Y, np.result_type(X.dtype, Y.dtype)


class Stationary(Kernel):
    """A profile of a distance between scaled rows."""

    power: ClassVar[int]  # of the length in the distance: the distance scales as length**power
    metric: ClassVar[str]

    def __post_init__(self) -> None:
        object.__setattr__(self, "gamma", scale_of_distance(self.gamma))

    def diag(self, X: Matrix) -> NDArray:
        X = matrix(X, "X")
        return np.ones(X.shape[0], dtype=X.dtype)

    def resolve(self, X: Data, sample_weight: NDArray | None = None) -> Self:
        if self.is_resolved and isinstance(X, np.ndarray) and X.ndim == 2:
            self.input_scale(X.shape[1])  # no number of X matters
            return self
        X = X if isinstance(X, PreparedRows) else matrix(X, "X")
        if self.gamma == "scale":
            return self.scaled_to(Moments.of(X, sample_weight))
        if self.gamma == "median":
            distance = typical_distance(self.metric, X, sample_weight)
            return self.with_gamma(self._gamma_from_median(distance, X.shape[1]))
        self.input_scale(X.shape[1])
        return self

    def scaled_to(self, moments: Moments) -> Self:
        """Return this kernel with gamma="scale" as a number for rows of these moments."""
        deviation = moments.deviation or 1.0
        return self.with_gamma(self._gamma_from_deviation(deviation, len(moments.mean)))

    def with_gamma(self, gamma: Gamma) -> Self:
        return replace(self, gamma=gamma)  # type: ignore[type-var]

    def of_inputs(self, columns: NDArray[np.int64]) -> Self:
        """Return this kernel, whose gamma is a number, for rows of some of its inputs alone."""
        gamma = np.asarray(self.gamma)
        return self.with_gamma(gamma[columns]) if gamma.ndim else self

    def of_varying(self, columns: NDArray[np.int64], n_inputs: int) -> Kernel:
        from mercer.kernels.groups import OfVarying

        if len(np.atleast_1d(self.gamma)) not in (1, n_inputs):
            return self  # which ``input_scale`` refuses
        return OfVarying(self.of_inputs(columns), columns.tolist())

    def widths(self, streams: Streams, n_inputs: int) -> NDArray[np.float64]:
        return self.unit_widths(streams, n_inputs) / self.input_scale(n_inputs)

    def unit_widths(self, streams: Streams, n_inputs: int) -> NDArray[np.float64]:
        """Bin widths for gamma = 1; arguments and errors as for ``widths``."""
        return Kernel.widths(self, streams, n_inputs)

    def input_scale(self, n_inputs: int) -> NDArray[np.float64]:
        """Factors (d,) that inputs are multiplied by before the unit profile is applied.

        A ValueError if ``gamma`` is still "scale" or "median", or not of length d.
        """
        if isinstance(self.gamma, str):
            raise ValueError(
                f"gamma must be a number here; got {self.gamma!r}: call resolve(X) first."
            )
        gamma = np.asarray(self.gamma)
        if gamma.ndim and len(gamma) != n_inputs:
            raise ValueError(
                f"gamma must have one entry per input; got {len(gamma)} for {n_inputs} inputs."
            )
        return np.full(n_inputs, gamma ** (1.0 / self.power))

    def _fill(self, out: NDArray, X: Matrix, Y: Matrix) -> None:
        scale = self.input_scale(X.shape[1])
        in_core = None if sparse.issparse(X) else self._in_core()
        if in_core is not None:
            fill(out, in_core[0], X, Y, scale, in_core[1])
            return
        same = Y is X
        centre = centre_of(Y)
        y = scaled(Y, scale, centre)
        for rows in blocks(X, Y.shape[0]):
            out[rows] = self._values(scaled(X[rows], scale, centre), y)
        if same:
            np.fill_diagonal(out, 1.0)

    _core_name: ClassVar[str | None] = None

    def _in_core(self) -> tuple[str, float] | None:
        """Name and parameter under which the core has this kernel for dense rows, if it has it."""
        return None if self._core_name is None else (self._core_name, 1.0)

    def _values(self, x: Matrix, y: Matrix) -> NDArray[np.float64]:
        """The kernel of scaled rows, in float64."""
        return self._profile(distances(self.metric, x, y))

    def _profile(self, distance: NDArray[np.float64]) -> NDArray[np.float64]:
        """The unit profile; most are exp(-distance). ``distance`` may be overwritten."""
        np.negative(distance, out=distance)
        with np.errstate(under="ignore"):
            return np.exp(distance, out=distance)

    def slope(
        self, distance: NDArray[np.float64], values: NDArray[np.float64]
    ) -> NDArray[np.float64] | None:
        """Derivative of the unit profile by the distance, or by half the square of a Euclidean one.

        ``values`` is the profile at ``distance``, which may be overwritten. Where a Euclidean
        distance is 0, the derivative is 0 or its limit. None if the kernel is not a function of the
        distance.
        """
        return None

    def _gamma_from_deviation(self, deviation: float, n_inputs: int) -> float:
        """One over the distance of rows that differ by the standard deviation in every input."""
        if self.metric == "sqeuclidean":
            return 1.0 / (n_inputs * deviation**2)
        return 1.0 / ((np.sqrt(n_inputs) if self.metric == "euclidean" else n_inputs) * deviation)

    def _gamma_from_median(self, distance: float, n_inputs: int) -> float:
        return 1.0 / distance


@dataclass(frozen=True)
class Callable(Kernel):
    """A kernel given as a function of two data matrices.

    Parameters
    ----------
    function : callable
        ``function(X, Y)`` with X (n, d) and Y (m, d) returns the (n, m) kernel matrix. It must be
        symmetric and positive definite. It includes its scale: there is no ``gamma``.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.kernels import Callable
    >>> kernel = Callable(lambda X, Y: (1 + X @ Y.T) ** 2)
    >>> kernel(np.array([[1.0]]), np.array([[0.0], [2.0]]))
    array([[1., 9.]])
    """

    function: Function[[Any, Any], Any]
    _other_maps: ClassVar[str] = "feature_map='nystroem'"
    _why_no_widths = "the structure of a function is not known"

    def __post_init__(self) -> None:
        check_function(self.function, "function", "X", "Y")

    def diag(self, X: Matrix) -> NDArray:
        X = matrix(X, "X")
        out = np.empty(X.shape[0], dtype=X.dtype)
        for rows in row_chunks(X.shape[0], 1, budget=32):
            out[rows] = self._block(X[rows], X[rows]).diagonal()
        return out

    def _fill(self, out: NDArray, X: Matrix, Y: Matrix) -> None:
        for rows in row_chunks(X.shape[0], 16.0 * Y.shape[0]):
            out[rows] = self._block(X[rows], Y)

    def _block(self, X: Matrix, Y: Matrix) -> NDArray:
        block = np.asarray(self.function(X, Y))
        if block.shape != (X.shape[0], Y.shape[0]):
            raise ValueError(
                f"the kernel function must return shape {(X.shape[0], Y.shape[0])} for X with "
                f"{X.shape[0]} rows and Y with {Y.shape[0]}; got {block.shape}."
            )
        if block.dtype.kind not in "iuf" or not np.isfinite(block).all():
            raise ValueError("the kernel function must return finite real numbers.")
        return block
