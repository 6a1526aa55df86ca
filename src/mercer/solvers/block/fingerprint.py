"""Digests that tell data and problems apart, whatever memory they lie in and in which order."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray
from scipy import sparse

from mercer._runtime.arrays import row_chunks
from mercer._runtime.rows import Data, PreparedRows, bytes_per_row
from mercer.equations import Equations

__all__ = ["digest_of", "mark_of"]

_TEXT_BYTES = 1000.0  # typical bytes of a text, for the size of chunks of rows


def digest_of(parts: Iterable[Any]) -> str:
    """Digest of every entry of arrays, CSR, texts and ``PreparedRows`` as given, by chunks.

    Order in memory, byte order and width of indices make no difference.
    """
    whole = hashlib.blake2b(digest_size=32)
    for part in parts:
        whole.update(_digest(part))
    return whole.hexdigest()


def mark_of(
    system: Equations, alphas: NDArray, start: NDArray | None, settings: dict[str, Any]
) -> str:
    """A digest of everything given to a fit, except map and kernel: see ``Equations.examples``."""
    sources, y, weights = system.data()
    absent = [given is None for given in (weights, start)]
    facts = {**system.facts(), "absent": absent, **settings}
    given = [number for number in (alphas, y, weights, start) if number is not None]
    return digest_of([np.array([json.dumps(facts, sort_keys=True)]), *sources, *given])


def _digest(data: Data) -> bytes:
    """One digest for each kind of pieces, so that the size of chunks makes no difference."""
    rows, index = (data.data, data.index) if isinstance(data, PreparedRows) else (data, None)
    n_rows = rows.shape[0] if index is None else len(index)
    kind = "csr" if sparse.issparse(rows) else "text" if rows.dtype.kind in "OTU" else "array"
    number = "" if kind == "text" else np.dtype(rows.dtype).newbyteorder("<").str
    header = json.dumps([kind, number, n_rows, *rows.shape[1:]]).encode()
    digests = [hashlib.blake2b(header) for _ in range(3)]
    width = _TEXT_BYTES if kind == "text" else bytes_per_row(rows)
    for chunk in row_chunks(n_rows, width):
        pieces = _pieces(rows[chunk if index is None else index[chunk]], kind)
        for digest, piece in zip(digests, pieces, strict=False):
            digest.update(piece)
    return b"".join(digest.digest() for digest in digests)


def _pieces(rows: Any, kind: str) -> Iterator[Any]:
    """Bytes of a chunk of rows, one piece for each kind of number."""
    if kind == "text":
        texts = [str(text).encode("utf-8", "surrogatepass") for text in rows.ravel().tolist()]
        yield _little(np.array([len(text) for text in texts]), "<i8")
        yield b"".join(texts)
    elif kind == "csr":
        yield _little(np.diff(rows.indptr), "<i8")
        yield _little(rows.indices, "<i8")
        yield _little(rows.data, rows.dtype.newbyteorder("<"))
    else:
        yield _little(rows, rows.dtype.newbyteorder("<"))


def _little(array: NDArray, dtype: DTypeLike) -> NDArray[np.uint8]:
    """The bytes of numbers, row by row and the lowest byte first."""
    return np.ascontiguousarray(array, dtype=dtype).reshape(-1).view(np.uint8)
