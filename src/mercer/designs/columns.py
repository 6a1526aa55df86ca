"""Designs made of columns of others: a selection of one, or those of several side by side."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from mercer.designs.base import Design
from mercer.designs.binned import Binned
from mercer.designs.dense import Dense
from mercer.designs.sparse import Sparse

__all__ = ["select", "side_by_side"]


def select(design: Design, columns: ArrayLike) -> Design:
    """Select columns of a design; the result has the storage of the design.

    Parameters
    ----------
    design : Design
        Design to select from. A selection of a ``Lazy`` design is ``Dense``.
    columns : array of int of shape (b,)
        Indices of the columns, increasing.

    Returns
    -------
    Design of shape (n, b)
        Selected columns. A selection of a ``Binned`` design has the grids with a selected column.

    Raises
    ------
    ValueError
        If the columns are not increasing.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.designs import Dense, select
    >>> select(Dense(np.eye(3)), [0, 2]).shape
    (3, 2)
    """
    columns = np.asarray(columns, dtype=np.int64)
    if np.any(np.diff(columns) <= 0):
        raise ValueError("columns must be increasing to be selected.")
    if isinstance(design, Binned):
        return _selected_bins(design, columns)
    if isinstance(design, Sparse):
        return Sparse(design.matrix[:, columns], design.n_threads)
    return Dense(design.block(columns), design.n_threads)


def side_by_side(designs: Sequence[Design]) -> Design:
    """Concatenate the columns of several designs of the same rows.

    Parameters
    ----------
    designs : sequence of Design
        Designs, at least one. Binned designs of one value and dtype give a binned design, dense
        designs a dense one, mixtures a sparse one.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.designs import Dense, side_by_side
    >>> side_by_side([Dense(np.eye(2)), Dense(np.ones((2, 1)))]).toarray()
    array([[1., 0., 1.],
           [0., 1., 1.]])
    """
    first = designs[0]
    if len(designs) == 1:
        return first
    if all(type(design) is Binned and design.scale == first.scale for design in designs):  # type: ignore[attr-defined]
        codes, offsets = _all_codes(designs)
        missing = any(design.missing for design in designs)  # type: ignore[attr-defined]
        scale = first.scale  # type: ignore[attr-defined]
        return Binned(codes, offsets, scale, first.dtype, missing, first.n_threads, validate=False)
    if all(isinstance(design, Dense) for design in designs):
        return Dense(np.hstack([design.toarray() for design in designs]), first.n_threads)
    parts = [design.tocsr() for design in designs]
    return Sparse(sparse.hstack(parts, format="csr", dtype=first.dtype), first.n_threads)


def _all_codes(designs: Sequence[Any]) -> tuple[NDArray, NDArray[np.int64]]:
    """Codes and offsets of all grids."""
    dtype = np.result_type(*(design.codes.dtype for design in designs))
    n_bins = np.concatenate([np.diff(design.offsets) for design in designs])
    codes = np.empty((len(n_bins), designs[0].shape[0]), dtype=dtype)
    start = 0
    for design in designs:
        codes[start : start + design.n_grids] = design.codes
        start += design.n_grids
    return codes, np.concatenate([[0], np.cumsum(n_bins)]).astype(np.int64)


def _selected_bins(design: Binned, columns: NDArray[np.int64]) -> Binned:
    grids = np.searchsorted(design.offsets, columns, side="right") - 1
    used, n_bins = np.unique(grids, return_counts=True)
    offsets = np.concatenate([[0], np.cumsum(n_bins)]).astype(np.int64)
    dtype = np.min_scalar_type(int(n_bins.max(initial=0)))
    codes = np.empty((len(used), design.shape[0]), dtype=dtype)
    for position, grid in enumerate(used):
        before = slice(offsets[position], offsets[position + 1])
        size = int(design.offsets[grid + 1] - design.offsets[grid])
        renumbered = np.full(size + 1, n_bins[position], dtype=dtype)
        renumbered[columns[before] - design.offsets[grid]] = np.arange(n_bins[position])
        # A grid of as many bins as its type has numbers has no code for a missing bin.
        last = min(size, np.iinfo(design.codes.dtype).max)
        codes[position] = renumbered[np.minimum(design.codes[grid], last)]
    return Binned(
        codes, offsets, design.scale, design.dtype, True, design.n_threads, validate=False
    )
