"""Rows as Dask has them, cut into shards of about as many rows, one for each worker."""

from __future__ import annotations

import os
from collections.abc import Sequence
from itertools import pairwise
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from mercer._runtime.messages import shown
from mercer.dask.engine import DaskEngine
from mercer.dask.packages import package
from mercer.distributed import parquet
from mercer.engines.shards import Shard, gathered

if TYPE_CHECKING:
    from distributed import Client, Future

__all__ = ["shards_of"]

_NEAR = 0.1  # of a shard's rows: an end of a block that is so near is the end of the shard

Piece = tuple[int, int | None, int | None]  # a block and its rows from and to; None are all


def shards_of(
    client: Client,
    X: Any,
    y: Any = None,
    sample_weight: Any = None,
    offset: Any = None,
    *,
    n_shards: int | None = None,
    timeout: float = 600.0,
    takes: str = "the local class of the same name",
    **columns: Any,
) -> DaskEngine:
    """An engine whose shards are the rows of X, in their order, with targets, weights and offset.

    X is a Dask array, its chunks NumPy's or sparse, a Dask data frame, or one or several paths of
    Parquet files or folders of them. A ``y``, ``sample_weight`` or ``offset`` of type str is a
    column of the frame or files, and no input. By default every worker has a shard; there are never
    more shards than rows. ``takes`` names the alternative in the error for data that are not
    Dask's; ``columns`` are arguments of ``parquet_parts``.

    A TypeError for data that are not Dask's; a ValueError for rows that do not belong together, no
    rows, or columns that do not exist.
    """
    n_shards = len(client.nthreads()) if n_shards is None else n_shards
    names: list[str] | None
    if _is_path(X):
        shards, names = _read(client, X, (y, sample_weight, offset), n_shards, columns)
    elif columns:
        raise TypeError(f"{', '.join(columns)} are for paths; got data of Dask.")
    else:
        given = _checked(X, {"y": y, "sample_weight": sample_weight, "offset": offset}, takes)
        names = list(given[0].columns) if hasattr(given[0], "columns") else None
        shards = _cut(client, given, n_shards)
    engine = DaskEngine(client, shards, columns=names, timeout=timeout)
    gathered(engine, len)  # raises what reading or computing has raised, and frees the blocks
    return engine


def _is_path(X: Any) -> bool:
    if isinstance(X, (list, tuple)):
        return bool(X) and all(map(_is_path, X))
    return isinstance(X, (str, os.PathLike))


def _read(
    client: Client, path: Any, given: tuple[Any, ...], n_shards: int, columns: dict[str, Any]
) -> tuple[list[Future], list[str]]:
    """Shards that workers read from files, again if one is lost, and names of inputs."""
    for name, value in zip(("y", "sample_weight", "offset"), given, strict=True):
        if value is not None and not isinstance(value, str):
            raise TypeError(
                f"{name} must be the name of a column where X is a path; got {shown(value)}."
            )
    columns = columns | dict(zip(("target", "weights", "offset"), given, strict=True))
    parts = parquet.parquet_parts(path, n_shards, **columns)
    return client.map(parquet.read_part, parts, pure=False), list(parts[0].features)


def _checked(X: Any, given: dict[str, Any], takes: str) -> list[Any]:
    """X, y, weights and offset as arrays and frames of Dask, of full width."""
    array, frame = package("dask.array"), package("dask.dataframe")
    if not isinstance(X, (array.Array, frame.DataFrame)):
        raise TypeError(
            "X must be a dask array, a dask data frame or a path of Parquet files; got "
            f"{type(X).__name__}, which {takes} takes."
        )
    if X.ndim != 2:
        raise ValueError(f"X must have two dimensions; got {X.ndim}.")
    columns = list(X.columns) if isinstance(X, frame.DataFrame) else []
    taken = []
    for name, value in given.items():
        if isinstance(value, str):
            if value not in columns:
                raise ValueError(f"{name} must be a column of X; got {value!r}.")
            given[name] = X[value]
            taken.append(value)
        elif isinstance(value, (array.Array, frame.Series, frame.DataFrame)):
            if value.ndim > (2 if name == "y" else 1):
                raise ValueError(f"{name} must have one dimension; got {value.ndim}.")
        elif value is not None and not (name == "sample_weight" and isinstance(value, Real)):
            raise TypeError(
                f"{name} must be a dask array or series as X is Dask's; got {type(value).__name__}."
            )
    X = X[[name for name in columns if name not in taken]] if taken else X
    return [
        value.rechunk({1: -1}) if isinstance(value, array.Array) and value.ndim == 2 else value
        for value in (X, *given.values())
    ]


def _cut(client: Client, given: list[Any], n_shards: int) -> list[Future]:
    """Shards of blocks, cut and joined so that rows of X, y, weights and offset stay together."""
    held = [value for value in given if hasattr(value, "dask")]
    blocks = [_blocks(client.persist(value)) for value in held]
    lengths = [client.gather(client.map(_n_rows, each, pure=False)) for each in blocks]
    n_rows = [sum(each) for each in lengths]
    if len(set(n_rows)) > 1:
        raise ValueError(
            f"X, y, sample_weight and offset must have the same number of rows; got {n_rows}."
        )
    if not n_rows[0]:
        raise ValueError("X must have at least one row; got none.")
    edges = _edges(lengths[0], min(n_shards, n_rows[0]))
    homes = _homes(client, blocks[0], lengths[0], edges)
    shards = []
    for (low, high), home in zip(pairwise(edges), homes, strict=True):
        cuts = [_pieces(each, low, high) for each in lengths]
        rest = iter(cuts)
        plan = [
            [piece[1:] for piece in next(rest)] if hasattr(value, "dask") else [] for value in given
        ]
        of = [every[i] for every, cut in zip(blocks, cuts, strict=True) for i, *_ in cut]
        weight = given[2] if isinstance(given[2], Real) else None
        shards.append(
            client.submit(
                _shard, plan, weight, *of, pure=False, workers=[home], allow_other_workers=True
            )
        )
    return shards


def _blocks(persisted: Any) -> list[Future]:
    """The futures of the row blocks of a persisted collection, in order."""
    futures = package("distributed").futures_of(persisted)
    return sorted(futures, key=lambda future: future.key[1:])  # their keys are (name, i[, j])


def _n_rows(block: Any) -> int:
    return int(block.shape[0])


def _edges(lengths: Sequence[int], n_shards: int) -> list[int]:
    """First rows of shards of about as many rows, at ends of blocks where these are near."""
    ends = np.concatenate([[0], np.cumsum(lengths)])
    even = np.linspace(0, ends[-1], n_shards + 1)
    nearest = ends[np.abs(ends[:, None] - even).argmin(axis=0)]
    near = np.abs(nearest - even) <= _NEAR * ends[-1] / n_shards
    edges = np.where(near, nearest, np.round(even)).astype(int)
    return [int(edge) for edge in edges]


def _pieces(lengths: Sequence[int], low: int, high: int) -> list[Piece]:
    """The blocks, and their rows, that rows from ``low`` to ``high`` are in."""
    pieces: list[Piece] = []
    start = 0
    for i, length in enumerate(lengths):
        first, last = max(low - start, 0), min(high - start, length)
        if first < last:
            pieces.append((i, None, None) if last - first == length else (i, first, last))
        start += length
    return pieces


def _homes(
    client: Client, blocks: Sequence[Future], lengths: Sequence[int], edges: Sequence[int]
) -> list[str]:
    """A worker for each shard, one of its own as far as there are any, which has its rows."""
    holders, free = client.who_has(blocks), set(client.nthreads())
    workers, homes = sorted(free), []
    for low, high in pairwise(edges):
        rows = dict.fromkeys(sorted(free or workers), 0)
        for i, first, last in _pieces(lengths, low, high):
            for address in holders.get(blocks[i].key, ()):
                if address in rows:
                    rows[address] += lengths[i] if first is None else (last or 0) - first
        homes.append(max(rows, key=lambda address: rows[address]))
        free.discard(homes[-1])
    return homes


def _shard(plan: list[list[tuple[Any, Any]]], weight: float | None, *blocks: Any) -> Shard:
    """A shard of rows of blocks."""
    given, parts = iter(blocks), []
    for cut in plan:
        parts.append(_joined([_rows(next(given), *piece) for piece in cut]))
    X, y, weights, offset = parts
    weights = weights if weight is None else np.full(X.shape[0], weight)
    return Shard(
        X,
        None if y is None else np.asarray(y),
        None if weights is None else np.asarray(weights, dtype=np.float64),
        offset=None if offset is None else np.asarray(offset, dtype=np.float64),
    )


def _rows(block: Any, first: int | None, last: int | None) -> Any:
    if first is None:
        return block
    return (block.iloc if hasattr(block, "iloc") else block)[first:last]


def _joined(pieces: list[Any]) -> Any:
    """Pieces one below the other."""
    if not pieces:
        return None
    if sparse.issparse(pieces[0]):
        return sparse.vstack(pieces, format="csr")
    if len(pieces) == 1:
        return pieces[0]
    if hasattr(pieces[0], "iloc"):
        return package("pandas").concat(pieces, ignore_index=True)
    return np.concatenate(pieces)
