"""Digests that tell data and problems apart, whatever memory they lie in and in which order."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray
from scipy import sparse

from mercer._array import row_chunks
from mercer._rows import Data, PreparedRows, bytes_per_row
from mercer.designs import Design
from mercer.equations import Equations
from mercer.problem import Problem

__all__ = ["digest_of", "examples_of", "mark_of"]

_TEXT_BYTES = 1000.0  # typical size of a text, for chunks of rows
_EXAMPLES = 4  # rows of a lazy design whose entries stand for the map or kernel that makes them


def digest_of(parts: Iterable[Any]) -> str:
    """A digest of arrays, CSR, texts and ``PreparedRows``, of every entry and of nothing else.

    The order in memory, that of bytes in numbers and the width of indices make no difference. Of
    prepared rows it is that of the rows as they are given. Chunks of rows are read one at a time.

    Examples
    --------
    >>> import numpy as np
    >>> a = np.arange(6.0).reshape(2, 3)
    >>> digest_of([a]) == digest_of([np.asfortranarray(a)])
    True
    >>> digest_of([a]) == digest_of([a.T])
    False
    """
    whole = hashlib.blake2b(digest_size=32)
    for part in parts:
        whole.update(_digest(part))
    return whole.hexdigest()


def mark_of(
    system: Equations, alphas: NDArray, start: NDArray | None, settings: dict[str, Any]
) -> str:
    """A digest of everything given to a fit, except the map or kernel: see ``examples_of``."""
    problem = system.problem
    facts = {
        "shape": [*problem.design.shape, *problem.shape],
        "dtype": np.dtype(problem.dtype).name,
        "designs": [type(design).__name__ for design in _designs(problem)],
        "penalty": [problem.penalty.name, getattr(problem.penalty, "jitter", 0.0)],
        "intercept": problem.fit_intercept,
        "parts": [part.n_rows for part in system.parts],
        "absent": [given is None for given in (problem.weights, start)],
        **settings,
    }
    sources = [source for design in _designs(problem) for source in design.sources()]
    numbers = [alphas, problem.y, problem.weights, start]
    given = [number for number in numbers if number is not None]
    return digest_of([np.array([json.dumps(facts, sort_keys=True)]), *sources, *given])


def examples_of(problem: Problem) -> NDArray:
    """A few rows of the lazy designs, which stand for kernels, maps and scalers.

    They are compared up to rounding, as two processors need not make them to the last bit.
    """
    examples = []
    for design in _designs(problem):
        if not design.nbytes:
            rows = np.unique(np.linspace(0, design.shape[0] - 1, _EXAMPLES).astype(int))
            examples.append(design.rows(rows).toarray().astype(problem.dtype).ravel())
    return np.concatenate([np.zeros(0, problem.dtype), *examples])


def _designs(problem: Problem) -> list[Design]:
    matrix = getattr(problem.penalty, "matrix", None)
    return [problem.design] if matrix in (None, problem.design) else [problem.design, matrix]


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
