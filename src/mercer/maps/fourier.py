"""Random Fourier features: cosines of random frequencies (Rahimi & Recht, NIPS 2007)."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from mercer import _core
from mercer._runtime.arrays import Matrix, available_memory, n_threads, row_chunks
from mercer._runtime.rows import Data
from mercer._runtime.state import State
from mercer._runtime.validation import check_reach, name_from
from mercer.maps._documentation import COSINES, documented
from mercer.maps.cosines import CosineMap
from mercer.maps.frequencies import SAMPLINGS, draw

__all__ = ["RandomFourier"]

# Inputs from which the product takes most of the time, and BLAS as little of it as the core. With
# fewer inputs the threads of BLAS, which spin for a while after every product, slow ours down.
_WIDE = 128
_FEW_DRAWN = 2**17  # numbers of frequencies that are kept beside those of all columns
# Products for which the core starts no threads: half a millisecond of one of them. A cosine takes
# as long as _COSINE products.
_FEW_PRODUCTS, _COSINE = 2**24, 16
# Columns of weights up to which the core multiplies them by features in less time than it takes to
# write features and read them again.
_FEW_WEIGHTS = 8


class _Drawn:
    """Frequencies (m, d) and phases (m,), or None for pairs, in the types that were asked for."""

    def __init__(self, frequencies: NDArray[np.float64], phases: NDArray[np.float64] | None):
        self.frequencies, self.phases = frequencies, phases
        self._cast: dict[np.dtype, tuple[NDArray, Any, float]] = {}

    def of(self, dtype: np.dtype) -> tuple[NDArray, Any, float]:
        """Both in a dtype, and the size of the largest frequency, at least 1."""
        if dtype not in self._cast:
            frequencies = self.frequencies.astype(dtype, copy=False)
            phases = None if self.phases is None else self.phases.astype(dtype, copy=False)
            highest = float(np.abs(frequencies).max(initial=1.0))
            self._cast[dtype] = frequencies, phases, highest
        return self._cast[dtype]


@documented(COSINES)
@dataclass(eq=False, repr=False)
class RandomFourier(CosineMap):
    """Cosines of random frequencies whose inner products approximate a stationary kernel.

    The features are ``sqrt(2/D) cos(w.x + b)`` with frequencies w from the spectral distribution of
    the kernel and random phases b, or pairs ``sqrt(2/D) (cos w.x, sin w.x)``, in columns 2s and
    2s + 1 for frequency s. Both have E[z(x).z(y)] = k(x, y). For ``sampling="iid"`` and
    k2 = k(2(x - y)) the variance is (1 + k2/2 - k**2)/D for the phase form and
    (1 + k2 - 2 k**2)/D for pairs, which have norm 1 exactly. Other samplings have less variance.

    Parameters
    ----------
    kernel : str or Kernel, default="gaussian"
        Kernel with a sampler of frequencies, such as "gaussian", "laplacian", "exponential",
        "cauchy" or "matern".
    {gamma, n_components, form}
    {scale, random_state, n_jobs}
    sampling : {"iid", "orthogonal", "structured", "qmc"}, default="iid"
        Sampling of the frequencies. "iid": independent. "orthogonal": in orthogonal blocks of d,
        each frequency with the distribution of "iid"; only for kernels of the Euclidean distance.
        "structured": nearly orthogonal blocks by three products of a Walsh-Hadamard matrix and
        random signs, faster to draw but biased for few inputs. "qmc": quantiles at the points of a
        scrambled Sobol' sequence, best for few inputs and with a power of two as the number of
        frequencies.

    Attributes
    ----------
    {n_features_out_, kernel_, key_}

    Raises
    ------
    ValueError, TypeError
        At ``fit``, if a parameter is invalid or the kernel has no sampler of frequencies.

    References
    ----------
    Rahimi and Recht, Random features for large-scale kernel machines, NIPS 2007.
    Yu, Suresh, Choromanski, Holtmann-Rice and Kumar, Orthogonal random features, NIPS 2016.
    Yang, Sindhwani, Avron and Mahoney, Quasi-Monte Carlo feature maps for shift-invariant kernels,
    ICML 2014.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.maps import RandomFourier
    >>> X = np.array([[0.0, 0.0], [1.0, 0.0]])
    >>> Z = RandomFourier(gamma=0.5, n_components=20_000, random_state=0).fit_transform(X)
    >>> bool(abs(Z[0] @ Z[1] - np.exp(-0.5)) < 0.05)
    True
    """

    sampling: str = field(default="iid", kw_only=True)

    _kept_settings: ClassVar[tuple[str, ...]] = ("form", "scale", "sampling")
    _sampling_: str = field(init=False)

    def _fit(self, X: Data) -> None:
        name_from(self.sampling, SAMPLINGS, "sampling")
        super()._fit(X)

    def _check_state(self) -> None:
        super()._check_state()
        State(self).one_of("_sampling_", SAMPLINGS)

    # Parameters: regenerated by address; all of them are kept while they are small.

    def _frequencies(self, streams: NDArray[np.int64]) -> NDArray[np.float64]:
        n_streams = max(self._n_streams, int(streams.max(initial=-1)) + 1)
        return draw(
            self._sampling_, self.kernel_, self.key_, streams, n_streams, self.n_features_in_
        )

    def _all_drawn(self) -> Any:
        needed = 8.0 * self._n_streams * self.n_features_in_
        available = available_memory()
        keep = available is None or needed <= available / 8
        return self._drawn(np.arange(self._n_streams)) if keep else None

    def _drawn(self, streams: NDArray[np.int64]) -> _Drawn:
        phases = None if self._form_ == "pair" else self._phases(streams)
        return _Drawn(self._frequencies(streams), phases)

    # Features.

    def _transform(self, X: Matrix) -> NDArray:
        self._check_transformed_memory(X)
        out = np.empty((X.shape[0], self.n_features_out_), dtype=X.dtype)
        kept = self._remember()
        if kept is not None:
            self._write(X, kept, out)
            return out
        for part in row_chunks(self._n_streams, 8.0 * self.n_features_in_):
            drawn = self._drawn(np.arange(part.start, part.stop))
            columns = slice(part.start * self._per_stream, part.stop * self._per_stream)
            width = columns.stop - columns.start
            for rows in row_chunks(X.shape[0], X.dtype.itemsize * width):
                tile = np.empty((rows.stop - rows.start, width), dtype=X.dtype)
                self._write(X[rows], drawn, tile)
                out[rows, columns] = tile
        return out

    def _product_with(self, X: Matrix, weights: NDArray) -> tuple[NDArray, int]:
        kept = self._remember()
        suits = self._in_core(X) and self._device_for(X) is None
        if not suits or not _suit_core(kept, weights):
            return super()._product_with(X, weights)
        return self._product_of(kept, self._amplitude, weights, X)

    def _product_of(
        self, kept: _Drawn, amplitude: float, weights: NDArray, X: NDArray
    ) -> tuple[NDArray, int]:
        """Product with ``weights`` in the core, from frequencies and phases of all columns."""
        frequencies, phases = _within_reach(X, kept)
        sums = np.zeros((len(X), math.prod(weights.shape[1:])))
        flat = np.ascontiguousarray(weights.reshape(len(weights), -1), dtype=np.float64)
        threads = self._threads_for(X, len(frequencies))
        _core.cosine_product(X, frequencies, phases, amplitude, flat, sums, threads)
        return sums.reshape(len(sums), *weights.shape[1:]), 0

    def _product_of_few(
        self, dtype: np.dtype, weights: NDArray
    ) -> Callable[[NDArray], tuple[NDArray, int]]:
        kept = self._remember()
        if not self._has_few_inputs or not _suit_core(kept, weights):
            return super()._product_of_few(dtype, weights)
        return partial(self._product_of, kept, self._amplitude, weights)

    def _block_of_few(self, columns: NDArray[np.int64]) -> Callable[[NDArray], NDArray]:
        if self._form_ != "phase" or columns.size * self.n_features_in_ > _FEW_DRAWN:
            return super()._block_of_few(columns)
        drawn = self._drawn_again(columns)

        def block(X: NDArray) -> NDArray:
            out = np.empty((len(X), len(columns)), dtype=X.dtype)
            self._write(X, drawn, out)
            return out

        return block

    def _features_of(self, X: Matrix, streams: NDArray[np.int64]) -> NDArray:
        out = np.empty((X.shape[0], self._per_stream * len(streams)), dtype=X.dtype)
        self._write(X, self._drawn_again(streams), out)
        return out

    def _drawn_again(self, streams: NDArray[np.int64]) -> _Drawn:
        """``_drawn(streams)``, of few ones drawn once: a row takes less time than they do."""
        if streams.size * self.n_features_in_ > _FEW_DRAWN:
            return self._drawn(streams)
        settings = self.key_, self.kernel_, self._form_, self._sampling_, self._n_streams
        description = *settings, self.n_features_in_, streams.tobytes()
        return self._remembered(description, lambda: self._drawn(streams), "few")

    def _write(self, X: Matrix, drawn: _Drawn, out: NDArray) -> None:
        """Write the features of these frequencies into ``out``: pairs if there are no phases."""
        amplitude, threads = self._amplitude, self._threads_for(X, out.shape[1])
        frequencies, phases = _within_reach(X, drawn)
        is_sparse = sparse.issparse(X)
        if self._in_core(X):
            if phases is None:
                _core.cosine_pairs(X, frequencies, amplitude, out, threads)
            else:
                _core.cosine_block(X, frequencies, phases, amplitude, out, threads)
            return
        directions = np.ascontiguousarray(frequencies.T) if is_sparse else frequencies.T
        for rows in row_chunks(X.shape[0], X.dtype.itemsize * len(frequencies)):
            if phases is None:
                _core.cosine_pairs_from(X[rows] @ directions, amplitude, out[rows], threads)
                continue
            if is_sparse:
                out[rows] = X[rows] @ directions
            else:
                np.matmul(X[rows], directions, out=out[rows])
            _core.cosine_inplace(out[rows], phases, amplitude, threads)

    def _in_core(self, X: Matrix) -> bool:
        """Whether the core multiplies rows by frequencies, rather than BLAS."""
        return not sparse.issparse(X) and self._has_few_inputs

    @property
    def _has_few_inputs(self) -> bool:
        return self.n_jobs is not None or self.n_features_in_ < _WIDE

    def _threads_for(self, X: Matrix, n_columns: int) -> int:
        is_little = X.shape[0] * n_columns * (X.shape[1] + _COSINE) < _FEW_PRODUCTS
        return 1 if is_little else n_threads(self.n_jobs)


def _suit_core(kept: _Drawn | None, weights: NDArray) -> bool:
    """Whether the core multiplies features by weights without writing them."""
    few = math.prod(weights.shape[1:]) <= _FEW_WEIGHTS
    return few and kept is not None and kept.phases is not None


def _within_reach(X: Matrix, drawn: _Drawn) -> tuple[NDArray, Any]:
    """Frequencies and phases in the dtype of X; a ValueError if products with X overflow."""
    frequencies, phases, highest = drawn.of(X.dtype)
    if frequencies.size:
        check_reach(X, float(np.finfo(X.dtype).max) / X.shape[1] / highest)
    return frequencies, phases
