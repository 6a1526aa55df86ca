"""Rows that are sound, and sparse matrices of them that are broken or of a rare kind."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from scipy import sparse

N_ROWS, N_COLUMNS = 24, 6
FORMATS = ("csr", "csc", "bsr", "coo", "lil", "dok", "dia")
HUGE = 10**6


def rows(n: int = N_ROWS) -> np.ndarray:
    """Numbers, half of them zero; no row and no column is empty."""
    rng = np.random.default_rng(7)
    X = rng.normal(size=(n, N_COLUMNS)) * (rng.random((n, N_COLUMNS)) < 0.5)
    X[np.arange(n), np.arange(n) % N_COLUMNS] = 1.0 + np.arange(n) / n
    return X


def target() -> np.ndarray:
    """A number for every row."""
    return np.sin(rows()).sum(axis=1)


def labels() -> np.ndarray:
    """A class for every row."""
    return np.where(target() > np.median(target()), "up", "down")


def _sets(name: str, value: Any) -> Callable[[Any], None]:
    return lambda S: setattr(S, name, value)


def _puts(name: str, place: int, value: int) -> Callable[[Any], None]:
    def change(S: Any) -> None:
        getattr(S, name)[place] = value

    return change


def _maps(name: str, function: Callable[[Any], Any]) -> Callable[[Any], None]:
    return lambda S: setattr(S, name, function(getattr(S, name)))


_COMPRESSED = {
    "an index far beyond": _puts("indices", 0, HUGE),
    "an index just beyond": _puts("indices", 3, 1000),
    "a negative index": _puts("indices", 0, -5),
    "the least index": _puts("indices", 0, -(2**31)),
    "an indptr that falls": _puts("indptr", 2, 100),
    "an indptr with a negative entry": _puts("indptr", 1, -3),
    "an indptr that starts late": _puts("indptr", 0, 1),
    "an indptr that ends far beyond": _puts("indptr", -1, HUGE),
    "an indptr that is short": _maps("indptr", lambda p: p[:-2]),
    "an indptr that is long": _maps("indptr", lambda p: np.append(p, p[-1])),
    "an empty indptr": _maps("indptr", lambda p: p[:0]),
    "fewer indices than data": _maps("indices", lambda i: i[:-1]),
    "fewer data than indices": _maps("data", lambda d: d[:-1]),
    "no data": _maps("data", lambda d: d[:0]),
    "fractions as indices": _maps("indices", lambda i: i + 0.5),
    "indices in two dimensions": _maps("indices", lambda i: i[:, None]),
    "nothing for indices": _sets("indices", None),
    "objects as indptr": _maps("indptr", lambda p: p.astype(object)),
    "numbers beyond int64": _maps("indices", lambda i: i.astype(np.uint64) + np.uint64(2**63)),
    "missing numbers": _puts("data", 0, np.nan),
    "infinite numbers": _puts("data", 0, np.inf),
    "texts": _maps("data", lambda d: d.astype(str)),
    "complex numbers": _maps("data", lambda d: d.astype(complex)),
}
_COORDINATES = {
    "a column far beyond": lambda S: S.coords[1].__setitem__(0, HUGE),
    "a row far beyond": lambda S: S.coords[0].__setitem__(0, HUGE),
    "a negative column": lambda S: S.coords[1].__setitem__(0, -5),
    "a negative row": lambda S: S.coords[0].__setitem__(0, -5),
    "fewer rows than data": lambda S: setattr(S, "coords", (S.coords[0][:-1], S.coords[1])),
    "fractions as columns": lambda S: setattr(S, "coords", (S.coords[0], S.coords[1] + 0.5)),
    "fewer data than places": _maps("data", lambda d: d[:-1]),
}
_LISTS = {
    "a column far beyond": lambda S: S.rows[0].append(HUGE) or S.data[0].append(1.0),
    "a negative column": lambda S: S.rows[0].append(-5) or S.data[0].append(1.0),
    "a column that is no number": lambda S: S.rows[0].append("x") or S.data[0].append(1.0),
    "fewer columns than data": lambda S: S.data[0].extend([1.0] * 50),
    "fewer data than columns": lambda S: S.rows[0].extend([1] * 50),
    "fewer lists than rows": lambda S: setattr(S, "rows", S.rows[:-3]),
}
_KEYS = {
    "a column far beyond": lambda S: S._dict.__setitem__((0, HUGE), 1.0),
    "a row far beyond": lambda S: S._dict.__setitem__((HUGE, 0), 1.0),
    "a negative column": lambda S: S._dict.__setitem__((0, -5), 1.0),
}
_DIAGONALS = {
    "an offset twice": _puts("offsets", 0, 1),
    "fewer offsets than diagonals": _maps("offsets", lambda o: o[:-1]),
    "more offsets than diagonals": _maps("offsets", lambda o: np.append(o, [3, 99])),
    "fractions as offsets": _maps("offsets", lambda o: o + 0.5),
}
_DEFECTS = {
    "csr": _COMPRESSED,
    "csc": _COMPRESSED,
    "bsr": _COMPRESSED,
    "coo": _COORDINATES,
    "lil": _LISTS,
    "dok": _KEYS,
    "dia": _DIAGONALS,
}


def of_format(kind: str, matrix: bool = False) -> Any:
    """The rows in one of SciPy's formats, with one diagonal fewer than there could be for "dia"."""
    made = getattr(sparse, f"{kind}_{'matrix' if matrix else 'array'}")(rows())
    return made.tobsr((2, 3)) if kind == "bsr" else made


def invalid_sparse() -> Iterator[tuple[str, Callable[[], Any]]]:
    """A name and a maker of every matrix that is none."""
    for kind, defects in _DEFECTS.items():
        for defect, damage in defects.items():
            for matrix in (False, True) if kind == "csr" else (False,):

                def make(kind=kind, damage=damage, matrix=matrix) -> Any:
                    S = of_format(kind, matrix)
                    damage(S)
                    return S

                yield f"{kind}{'_matrix' if matrix else ''}: {defect}", make


def _lying_duplicates() -> Any:
    S = sparse.csr_array(rows())
    S.data = np.repeat(S.data / 2, 2)
    S.indices, S.indptr = np.repeat(S.indices, 2), 2 * S.indptr
    S.has_canonical_format = True
    return S


def _lying_order() -> Any:
    S = sparse.csr_array(rows())
    for start, stop in zip(S.indptr, S.indptr[1:], strict=False):
        S.indices[start:stop] = S.indices[start:stop][::-1]
        S.data[start:stop] = S.data[start:stop][::-1]
    S.has_sorted_indices = S.has_canonical_format = True
    return S


def _explicit_zeros() -> Any:
    S = sparse.csr_array(np.ones((N_ROWS, N_COLUMNS)))
    S.data[:] = rows().ravel()
    return S


def _retyped(dtype: Any) -> Callable[[], Any]:
    def make() -> Any:
        S = sparse.csr_array(rows())
        S.indices, S.indptr = S.indices.astype(dtype), S.indptr.astype(dtype)
        return S

    return make


def _with_capacity() -> Any:
    S = sparse.csr_array(rows())
    S.data, S.indices = np.append(S.data, [np.nan, 3.0]), np.append(S.indices, [HUGE, -1])
    return S


def _big_endian() -> Any:
    S = sparse.csr_array(rows())
    S.data = S.data.astype(">f8")
    return S


def unusual_sparse() -> dict[str, Callable[[], Any]]:
    """Makers of matrices that are, whatever they say of themselves, the rows."""
    made: dict[str, Callable[[], Any]] = {
        "flags that hide repeated entries": _lying_duplicates,
        "flags that hide disorder": _lying_order,
        "explicit zeros": _explicit_zeros,
        "room for more entries": _with_capacity,
        "big-endian numbers": _big_endian,
        "big-endian indices": _retyped(">i4"),
    }
    for dtype in ("int64", "uint8", "uint16", "uint32", "uint64", "int16"):
        made[f"{dtype} indices"] = _retyped(dtype)
    for kind in FORMATS:
        for matrix in (False, True):
            name = f"{kind}_{'matrix' if matrix else 'array'}"
            made[name] = lambda kind=kind, matrix=matrix: of_format(kind, matrix)
    return made
