"""Generated tables of the shape of public ones, random grids, and the matrix of both."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from mercer import _core


@dataclass(frozen=True)
class Shape:
    """How a public table looks to random binning."""

    name: str
    d: int
    n: int  # rows to time codes with
    gamma: float  # one over the mean half-width of a bin

    def table(self, n: int, seed: int = 0) -> NDArray[np.float32]:
        """n rows."""
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(n, self.d)).astype(np.float32)
        if self.name == "covtype":  # 10 numbers, 4 areas, 40 kinds of soil, most of them rare
            X[:, 10:] = 0
            X[np.arange(n), 10 + rng.choice(4, n, p=[0.45, 0.05, 0.43, 0.07])] = 1
            soil = 1 / np.arange(1, 41) ** 1.5
            X[np.arange(n), 14 + rng.choice(40, n, p=soil / soil.sum())] = 1
        elif self.name == "ijcnn1":  # the place in a cycle of ten, and 12 numbers
            X[:, :10] = 0
            X[np.arange(n), rng.integers(0, 10, n)] = 1
            X[:, 10:] *= 0.3
        elif self.name == "mnist":  # four fifths of the pixels are nearly always dark
            X = rng.random((n, self.d), dtype=np.float32)
            X[:, rng.random(self.d) < 0.8] *= rng.random((n, 1)) < 0.05
        return X


SHAPES = [
    Shape("covtype", 54, 20_000, 0.15),
    Shape("ijcnn1", 22, 50_000, 0.3),
    Shape("SUSY", 18, 50_000, 0.1),
    Shape("mnist", 780, 4_000, 0.01),
    Shape("cadata", 8, 20_000, 0.25),
    Shape("cod-rna", 8, 50_000, 0.5),
]


class Grids:
    """Parameters of random grids of the Laplacian kernel."""

    def __init__(self, n_grids: int, d: int, gamma: float, seed: int = 1):
        rng = np.random.default_rng(seed)
        self.widths = rng.gamma(2.0, 1.0 / gamma, (n_grids, d))
        self.shifts = rng.random((n_grids, d))
        self.multipliers = rng.integers(0, 2**64, (n_grids, d), dtype=np.uint64)
        self.arguments = (1 / self.widths, self.shifts, self.multipliers)


def binned(shape: Shape, n: int, n_grids: int) -> tuple[NDArray, NDArray[np.int64]]:
    """Codes (n_grids, n) of a generated table and the first column of every grid."""
    X, grids = shape.table(n), Grids(n_grids, shape.d, shape.gamma)
    table = _core.BinTable(n_grids)
    codes = np.empty((n_grids, n), np.uint16)
    if not table.insert(0, X, *grids.arguments, codes, 2):
        codes = codes.astype(np.uint32)
        table.insert(0, X, *grids.arguments, codes, 2)
    return codes, np.concatenate([[0], np.cumsum(table.n_bins)]).astype(np.int64)


def as_csr(codes: NDArray, offsets: NDArray, value: float, dtype: type) -> sparse.csr_array:
    """The binned matrix as SciPy holds it."""
    n_grids, n = codes.shape
    columns = (codes.T + offsets[:-1].astype(np.int32)).astype(np.int32).ravel()
    starts = np.arange(0, n * n_grids + 1, n_grids, dtype=np.int32)
    values = np.full(n * n_grids, value, dtype)
    return sparse.csr_array((values, columns, starts), shape=(n, int(offsets[-1])))
