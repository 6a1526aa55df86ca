"""Random matrices with few columns that keep inner products on average."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mercer import _core
from mercer._runtime.arrays import row_chunks
from mercer._runtime.random import Slot, Streams, distinct
from mercer._runtime.validation import name_from
from mercer.designs import Dense, Design
from mercer.maps.frequencies import next_power_of_two

__all__ = ["SKETCHES", "GaussianSketch", "HadamardSketch", "PassingGaussianSketch", "sketch_from"]

_CACHE_BYTES = 2**20  # bytes of rows transformed together: they stay in the processor cache


@dataclass
class Sketch:
    """A random matrix S of ``size`` rows and l columns with E[S S.T] = I, drawn from its key.

    It serves along rows, where ``add`` gathers F.T @ S from pieces of F as they come, and along
    columns, where ``project`` gives F @ S.
    """

    key: int
    size: int
    n_components: int
    n_threads: int = 1

    def rows(self, start: int, stop: int) -> NDArray[np.float64]:
        """Rows ``start`` to ``stop - 1`` of S, of shape (stop - start, l)."""
        raise NotImplementedError

    def columns(self, index: NDArray[np.int64]) -> NDArray[np.float64]:
        """Columns ``index`` of S, of shape (size, len(index))."""
        out = np.empty((self.size, len(index)))
        for part in row_chunks(self.size, 8.0 * self.n_components):
            out[part] = self.rows(part.start, part.stop)[:, index]
        return out

    def add(self, total: NDArray[np.float64], piece: Design, start: int) -> None:
        """Add F.T @ S for the rows of F from ``start`` on, to ``total`` of shape (D, l)."""
        total += piece.rmatvec(self.rows(start, start + piece.shape[0]))

    def project(self, piece: Design) -> NDArray:
        """F @ S for some rows of F, of shape (rows, l) and in the dtype of F."""
        out = np.empty((piece.shape[0], self.n_components), dtype=piece.dtype)
        for part in row_chunks(self.n_components, 8.0 * self.size):
            out[:, part] = piece.matvec(self.columns(np.arange(part.start, part.stop)))
        return out

    def expand(self, coef: NDArray) -> NDArray:
        """S @ coef for coef of shape (l,) or (l, k), in its dtype."""
        out = np.empty((self.size, *coef.shape[1:]), dtype=coef.dtype)
        for part in row_chunks(self.size, 8.0 * self.n_components):
            out[part] = self.rows(part.start, part.stop) @ coef
        return out


class GaussianSketch(Sketch):
    """Independent normal entries of variance 1/l."""

    def rows(self, start: int, stop: int) -> NDArray[np.float64]:
        streams = Streams(self.key, np.arange(start, stop))
        return streams.normal(self.n_components, Slot.SKETCH) / np.sqrt(self.n_components)


class PassingGaussianSketch(Sketch):
    """Gaussian sketch drawn six times as fast; last bits may differ between machines.

    It serves where S is seen once, at fit, and where drawing its many rows would take as long as
    multiplying by them: pairs of normal numbers are a random radius times a random direction, in
    float32 (Box and Muller, 1958).
    """

    def rows(self, start: int, stop: int) -> NDArray[np.float64]:
        pairs = -(-self.n_components // 2)
        bits = Streams(self.key, np.arange(start, stop)).bits(pairs, Slot.SKETCH)
        uniform = ((bits >> 32).astype(np.float32) + np.float32(0.5)) * np.float32(2.0**-32)
        radius = np.sqrt(np.float32(-2.0 / self.n_components) * np.log(uniform))
        angle = (bits & 0xFFFFFFFF).astype(np.float32) * np.float32(2.0**-31 * np.pi)
        out = np.empty((stop - start, 2 * pairs), dtype=np.float64)
        np.multiply(radius, np.cos(angle), out=out[:, 0::2])
        np.multiply(radius, np.sin(angle), out=out[:, 1::2])
        return out[:, : self.n_components]


@dataclass
class HadamardSketch(Sketch):
    """Some columns of a Walsh-Hadamard matrix whose rows have random signs, scaled by 1/sqrt(l).

    Halko, Martinsson and Tropp, Finding structure with randomness, SIAM Review 53, 2011; Tropp,
    Improved analysis of the subsampled randomized Hadamard transform, AADA 3, 2011.

    With n' the power of two that ``size`` and l fit into, entry (i, s) is e_i (-1)**|i & p_s| /
    sqrt(l), where e_i is a random sign, |.| counts bits and p_s are l of n' numbers, drawn without
    replacement. So products with a dense F take a fast transform along its rows or columns.
    """

    def __post_init__(self) -> None:
        self.order = next_power_of_two(max(self.size, self.n_components))
        self.positions = distinct(self.key, self.order, self.n_components, Slot.SKETCH_ROW)

    def rows(self, start: int, stop: int) -> NDArray[np.float64]:
        index = np.arange(start, stop)
        signs = self._signs(start, stop) / np.sqrt(self.n_components)
        return signs[:, None] * _character(index[:, None], self.positions)

    def add(self, total: NDArray[np.float64], piece: Design, start: int) -> None:
        length = next_power_of_two(piece.shape[0])
        if not isinstance(piece, Dense) or start % length:
            super().add(total, piece, start)
            return
        # The transform of n' rows is one of ``length`` rows within every such part, and one across
        # parts of which only a sign is left: i & p falls into the bits of i's place within its
        # part and those of the part itself.
        n = piece.shape[0]
        part = np.zeros((length, piece.shape[1]), dtype=piece.dtype)  # zeros beyond the rows
        signs = self._signs(start, start + n).astype(piece.dtype)
        np.multiply(piece.array, signs[:, None], out=part[:n])
        _core.hadamard_columns(part, self.n_threads)
        across = _character(self.positions, start) / np.sqrt(self.n_components)
        total += part[self.positions & (length - 1)].T * across

    def project(self, piece: Design) -> NDArray:
        if not isinstance(piece, Dense):
            return super().project(piece)
        out = np.empty((piece.shape[0], self.n_components), dtype=piece.dtype)
        signs = self._signs(0, self.size).astype(piece.dtype)
        for rows in row_chunks(piece.shape[0], piece.dtype.itemsize * self.order, _CACHE_BYTES):
            padded = np.zeros((rows.stop - rows.start, self.order), dtype=piece.dtype)
            np.multiply(piece.array[rows], signs, out=padded[:, : self.size])
            _core.hadamard(padded, self.n_threads)
            out[rows] = padded[:, self.positions]
        out /= np.sqrt(self.n_components)
        return out

    def _signs(self, start: int, stop: int) -> NDArray[np.float64]:
        bits = Streams(self.key, np.arange(start, stop)).bits(1, Slot.SIGN)[:, 0]
        return np.where(bits & 1, -1.0, 1.0)


_NAMES: dict[str, type[Sketch]] = {"gaussian": GaussianSketch, "srht": HadamardSketch}
SKETCHES = tuple(_NAMES)
_PASSING: dict[str, type[Sketch]] = {"gaussian": PassingGaussianSketch, "srht": HadamardSketch}


def sketch_from(name: str, passing: bool = False) -> type[Sketch]:
    """The kind of sketch called "gaussian" or "srht"; ValueError for other names.

    A ``passing`` one is used once and never drawn again, maybe elsewhere.
    """
    return (_PASSING if passing else _NAMES)[name_from(name, _NAMES, "sketch")]


def _character(i: NDArray[np.int64] | int, p: NDArray[np.int64] | int) -> NDArray[np.float64]:
    """(-1) to the number of bits that i and p share: an entry of the Walsh-Hadamard matrix."""
    return np.where(np.bitwise_count(np.bitwise_and(i, p)) & 1, -1.0, 1.0)
