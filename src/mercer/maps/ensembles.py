"""Features +1 and -1 that cut space in two: random planes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from mercer import kernels
from mercer._runtime.arrays import Matrix, n_threads, row_chunks
from mercer._runtime.random import RandomStateLike, Slot, Streams
from mercer._runtime.rows import Data
from mercer._runtime.state import State
from mercer._runtime.validation import flag, positive_integer
from mercer.maps._documentation import SIGNS, documented
from mercer.maps.members import Endless

__all__ = ["RandomPerceptron"]

# Cuts by a plane: below(X) says for rows X and each feature on which side they are.
Cuts = Callable[[Any], NDArray[np.bool_]]

_CHUNK_BYTES = 4 * 2**20  # bytes of a chunk of rows, which is read several times: cache size
_PARAMETER_BYTES = 64 * 2**20  # bytes of parameters of the features drawn together


@dataclass(eq=False, repr=False)
class Signs(Endless):
    """Features ±1, each from a stream of random numbers of its own."""

    _: KW_ONLY
    scale: bool = True
    random_state: RandomStateLike = None
    n_jobs: int | None = None

    _kept_settings: ClassVar[tuple[str, ...]] = ("scale",)
    kernel_: Any = field(init=False)

    def _fit(self, X: Data) -> None:
        n_components = positive_integer(self.n_components, "n_components")
        flag(self.scale, "scale")
        n_threads(self.n_jobs)
        self.key_ = self._drawn_key()
        self._fit_kernel(X)
        self.n_features_out_ = n_components
        self._remember()

    def _check_state(self) -> None:
        super()._check_state()
        self._check_kernel()
        state = State(self)
        state.integer("n_features_out_", 1)
        state.flag("_scale_")

    def _transform(self, X: Matrix) -> NDArray:
        self._check_transformed_memory(X)
        kept = self._remember()
        if kept is None:
            return self._block(X, np.arange(self.n_features_out_))
        out = np.empty((X.shape[0], self.n_features_out_), dtype=X.dtype)
        self._write(X, kept, out)
        return out

    def _block(self, X: Matrix, columns: NDArray[np.int64]) -> NDArray:
        out = np.empty((X.shape[0], len(columns)), dtype=X.dtype)
        for part in row_chunks(len(columns), self._bytes_of_cuts(), _PARAMETER_BYTES):
            self._write(X, self._cuts(columns[part]), out[:, part])
        return out

    def _remember(self) -> Cuts | None:
        """The parameters of all features where they are small: drawn once, and never stored."""
        if self._bytes_of_cuts() * self.n_features_out_ > _PARAMETER_BYTES:
            return None
        what = self.key_, self.kernel_, self.n_features_out_, self.n_features_in_
        return self._remembered(
            (*what, *self._box()), lambda: self._cuts(np.arange(self.n_features_out_))
        )

    def _box(self) -> tuple[bytes, ...]:
        """Fitted numbers that parameters follow from besides kernel and key."""
        return ()

    def _write(self, X: Matrix, below: Cuts, out: NDArray) -> None:
        entry = out.dtype.type(self._entry)
        minus_two = -2 * entry
        bytes_per_row = 10.0 * out.shape[1] + 8.0 * self.n_features_in_
        for rows in row_chunks(X.shape[0], bytes_per_row, _CHUNK_BYTES):
            np.multiply(below(X[rows]), minus_two, out=out[rows])
            out[rows] += entry

    @property
    def _entry(self) -> float:
        """Size of a feature."""
        return float(self.n_features_out_**-0.5) if self._scale_ else 1.0

    # What a subclass says.

    def _fit_kernel(self, X: Data) -> None:
        """Set ``kernel_`` and what else follows from the data."""
        raise NotImplementedError

    def _cuts(self, columns: NDArray[np.int64]) -> Cuts:
        """On which side of these features rows are, (rows, len(columns))."""
        raise NotImplementedError

    def _bytes_of_cuts(self) -> float:
        """Bytes that the parameters of one feature take."""
        raise NotImplementedError


@documented(SIGNS)
@dataclass(eq=False, repr=False)
class RandomPerceptron(Signs):
    """Sides of random planes as features: +1 or -1, over ``sqrt(n_components)``.

    A direction t is uniform on the unit sphere and a threshold a uniform on [-radius, radius]; the
    feature is the sign of ``t . (x - centre) - a``, +1 for zero. Inner products estimate the
    perceptron kernel ``k(x, y) = 1 - c/radius * |x - y|`` with c the mean of ``|t_1|``, with
    variance ``(1 - k**2) / n_components``. For points farther out than ``radius``, projections are
    clipped to [-radius, radius]; the kernel object computes the kernel with this clipping.

    Parameters
    ----------
    {n_components}
    radius : float or "max", default="max"
        Radius of the ball that contains the thresholds, > 0; "max" is the largest distance of a
        training row from the centre.
    homogeneous : bool, default=False
        Whether to draw direction and threshold together, uniformly on the unit sphere of d + 1
        dimensions: planes through the origin for the rows (x, 1). The kernel becomes
        ``1 - 2/pi * angle((x, 1), (y, 1))``, without radius and centre.
    centre : "mean" or array of shape (d,), default="mean"
        Centre of the ball; "mean" is the mean of the training rows.
    {scale, random_state, n_jobs}

    Attributes
    ----------
    {n_features_out_}
    kernel_ : mercer.kernels.Perceptron
        Fitted kernel, with radius and centre as numbers.
    key_ : int
        Key of the random numbers: with radius and centre it determines all planes, and pickles
        store it instead of them.

    Raises
    ------
    {ValueError}

    References
    ----------
    {Lin}

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.maps import RandomPerceptron
    >>> X = np.random.default_rng(0).normal(size=(50, 3))
    >>> fitted = RandomPerceptron(n_components=20_000, random_state=0).fit(X)
    >>> Z = fitted.transform(X)
    >>> bool(abs(Z @ Z.T - fitted.kernel_(X)).max() < 0.05)
    True
    """

    n_components: int = 1000
    radius: float | str = "max"
    homogeneous: bool = False
    centre: ArrayLike | str = "mean"

    def parameters(self, columns: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Directions (b, d) and thresholds (b,) of some columns, regenerated from the key.

        Column j is positive where ``directions[j] . x >= thresholds[j]``.
        """
        streams = Streams(self.key_, np.asarray(columns))
        directions = streams.normal(self.n_features_in_, Slot.FREQUENCY)
        if self.kernel_.homogeneous:
            return directions, -streams.normal(1, Slot.THRESHOLD)[:, 0]
        directions /= np.sqrt((directions**2).sum(axis=1, keepdims=True))
        place = 2.0 * streams.uniform(1, Slot.THRESHOLD)[:, 0] - 1.0
        centre = np.array(self.kernel_.centre)
        return directions, directions @ centre + self.kernel_.radius * place

    def stated_kernel(self) -> kernels.Perceptron:
        return kernels.Perceptron(self.radius, self.homogeneous, self.centre)

    def state_kernel(self, kernel: Any) -> Self:
        return self.set_params(radius=kernel.radius, centre=kernel.centre)

    def bytes_per_row(self, dtype: DTypeLike) -> float:
        return super().bytes_per_row(dtype) + 9.0 * self.n_features_out_  # projections are float64

    def _fit_kernel(self, X: Data) -> None:
        self.kernel_ = self._resolved_kernel(X)

    def _check_state(self) -> None:
        super()._check_state()
        state, d = State(self), self.n_features_in_
        kernel = state.instance("kernel_", kernels.Perceptron)
        fits = kernel.homogeneous or len(kernel.centre) == d
        state.check("kernel_", f"have a centre of {d} numbers", fits)

    def _bytes_of_cuts(self) -> float:
        return 16.0 * self.n_features_in_

    def _cuts(self, columns: NDArray[np.int64]) -> Cuts:
        directions, thresholds = self.parameters(columns)
        across = np.ascontiguousarray(directions.T)

        def below(X: Matrix) -> NDArray[np.bool_]:
            # In float64 whatever the data are: rounding must not move points across a plane.
            with np.errstate(over="ignore", invalid="ignore"):
                places = X.astype(np.float64, copy=False) @ across
                in_range = np.isfinite(places.sum()) or np.isfinite(places).all()
            if not in_range:
                raise ValueError(f"X must be small enough to be projected; got {abs(X).max():.3g}.")
            return places < thresholds

        return below
