"""Fastfood: random frequencies in blocks that are multiplied in time d log d (Le et al., 2013)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mercer import _core
from mercer._runtime.arrays import Matrix, check_memory, check_setting, n_threads, row_chunks
from mercer._runtime.random import Slot, Streams
from mercer._runtime.rows import is_sparse
from mercer._runtime.validation import check_reach
from mercer.kernels.spectral import law_of
from mercer.maps._documentation import COSINES, documented
from mercer.maps.cosines import CosineMap
from mercer.maps.frequencies import next_power_of_two, signs

__all__ = ["Fastfood"]

_DRAWN_BYTES = 96.0  # bytes per frequency while drawn: six float64 arrays and operands


@dataclass
class _Blocks:
    """Random parameters of some blocks, a row each: all but the scale of the inputs."""

    signs: NDArray[np.float64]  # (b, d)
    order: NDArray[np.uint32]  # (b, p), a permutation per row
    gains: NDArray[np.float64]  # (b, p)
    lengths: NDArray[np.float64]  # (b, p)
    phases: NDArray[np.float64] | None  # (b, p)


@documented(COSINES)
class Fastfood(CosineMap):
    """Random Fourier features by fast Hadamard transforms: d features take d log d operations.

    Let p be the least power of two that is at least d. Frequencies come in blocks of p: the rows of
    ``S H G P H B / |G|`` with the Walsh-Hadamard matrix H, random signs B, a random permutation P
    and normal numbers G. S gives each frequency a length from the distribution of the kernel for p
    inputs. x is padded with zeros. The features are ``sqrt(2/D) cos(w.x + b)`` or pairs, as in
    :class:`RandomFourier`, and E[z(x).z(y)] = k(x, y). Frequencies of a block are dependent, which
    makes the variance larger.

    Parameters
    ----------
    kernel : str or Kernel, default="gaussian"
        Kernel of the Euclidean distance with a sampler of frequencies: "gaussian", "exponential",
        ``Cauchy(isotropic=True)``, "matern" or "rational_quadratic".
    {gamma, n_components, form, scale, random_state, n_jobs}

    Attributes
    ----------
    {n_features_out_, kernel_, key_}

    Raises
    ------
    ValueError, TypeError
        At ``fit``, if a parameter is invalid, or if the frequencies of the kernel do not have
        uniform directions.

    See Also
    --------
    RandomFourier : any distribution of frequencies, and a smaller variance at the same D.

    References
    ----------
    Le, Sarlos and Smola, Fastfood: approximating kernel expansions in loglinear time, ICML 2013.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.maps import Fastfood
    >>> X = np.zeros((2, 64))
    >>> X[1, 0] = 1.0
    >>> Z = Fastfood(gamma=0.5, n_components=20_000, random_state=0).fit_transform(X)
    >>> bool(abs(Z[0] @ Z[1] - np.exp(-0.5)) < 0.05)
    True
    """

    def _frequencies(self, streams: NDArray[np.int64]) -> NDArray[np.float64]:
        """Frequencies written out."""
        size, d = self._block_size, self.n_features_in_
        check_memory(
            8.0 * d * (len(streams) + 2 * size),
            f"writing out {len(streams)} frequencies",
            lambda room: f"ask for {max(1, int(room / (8.0 * d)) - 2 * size)} columns at a time",
        )
        frequencies = np.empty((len(streams), d))
        for block in np.unique(streams // size):
            drawn = self._drawn(np.array([block]))
            rows = np.zeros((size, d))
            np.fill_diagonal(rows, drawn.signs[0])
            _core.hadamard_columns(rows, 1)
            rows = drawn.gains[0][:, None] * rows[drawn.order[0]]
            _core.hadamard_columns(rows, 1)
            rows *= drawn.lengths[0][:, None]
            wanted = streams // size == block
            frequencies[wanted] = rows[streams[wanted] % size]
        return frequencies * law_of(self.kernel_).input_scale(d)

    @property
    def _block_size(self) -> int:
        return next_power_of_two(self.n_features_in_)

    def _all_drawn(self) -> _Blocks:
        size, per_stream = self._block_size, self._per_stream
        check_setting(
            "n_components",
            self.n_features_out_,
            lambda columns: _DRAWN_BYTES * size * -(-columns // (per_stream * size)),
            f"drawing {self._n_streams} frequencies in blocks of {size}",
            "use RandomFourier",
        )
        return self._drawn(np.arange(-(-self._n_streams // size)))

    def _drawn(self, blocks: NDArray[np.int64]) -> _Blocks:
        size = self._block_size
        streams = Streams(self.key_, blocks)
        members = (size * blocks[:, None] + np.arange(size)).ravel()
        gains = streams.normal(size, Slot.FREQUENCY)
        lengths = (
            law_of(self.kernel_).radius(Streams(self.key_, members), size).reshape(gains.shape)
        )
        lengths /= np.sqrt(size) * np.linalg.norm(gains, axis=1)[:, None]
        return _Blocks(
            signs(streams, size)[:, : self.n_features_in_],
            np.argsort(streams.bits(size, Slot.SHUFFLE), axis=1, kind="stable").astype(np.uint32),
            gains,
            lengths,
            None if self._form_ == "pair" else self._phases(members).reshape(gains.shape),
        )

    # Features.

    def _transform(self, X: Matrix) -> NDArray:
        self._check_transformed_memory(X)
        out = np.empty((X.shape[0], self.n_features_out_), dtype=X.dtype)
        self._write(X, self._remember(), out)
        return out

    def _features_of(self, X: Matrix, streams: NDArray[np.int64]) -> NDArray:
        size, per_stream = self._block_size, self._per_stream
        blocks, place = np.unique(streams // size, return_inverse=True)
        drawn = self._drawn(blocks)
        columns = per_stream * (place * size + streams % size)[:, None] + np.arange(per_stream)
        out = np.empty((X.shape[0], columns.size), dtype=X.dtype)
        width = per_stream * size * len(blocks)
        for rows in row_chunks(X.shape[0], X.dtype.itemsize * width):
            whole = np.empty((rows.stop - rows.start, width), dtype=X.dtype)
            self._write(X[rows], drawn, whole)
            out[rows] = whole[:, columns.ravel()]
        return out

    def _write(self, X: Matrix, blocks: _Blocks, out: NDArray) -> None:
        """Write the features of these blocks into ``out``, which may end within the last."""
        n_streams = out.shape[1] // self._per_stream
        factors = blocks.signs * law_of(self.kernel_).input_scale(X.shape[1])
        size = blocks.order.shape[1]
        largest = [max(abs(part).max(initial=0.0), 1.0) for part in (factors, blocks.gains)]
        largest.append(max(blocks.lengths.max(initial=0.0), 1.0))
        check_reach(X, float(np.finfo(X.dtype).max) / (float(size) ** 2 * np.prod(largest)))
        phases = None if blocks.phases is None else blocks.phases.ravel()[:n_streams]
        arguments = (
            factors.astype(X.dtype),
            blocks.order,
            blocks.gains.astype(X.dtype),
            blocks.lengths.ravel()[:n_streams].astype(X.dtype),
            None if phases is None else phases.astype(X.dtype),
            self._amplitude,
        )
        threads = n_threads(self.n_jobs)
        if not is_sparse(X):
            _core.fastfood(X, *arguments, out, threads)
            return
        for rows in row_chunks(X.shape[0], X.dtype.itemsize * float(X.shape[1])):
            _core.fastfood(X[rows].toarray(), *arguments, out[rows], threads)
