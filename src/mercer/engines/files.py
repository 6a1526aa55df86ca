"""Engine of one process whose shards are in files, read and worked on one at a time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from functools import partial, reduce
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer._runtime.arrays import row_chunks
from mercer._runtime.rows import Data
from mercer.engines.engine import Handle, OfShard
from mercer.engines.memory import WorkerStore
from mercer.engines.shards import NumberedRows

__all__ = ["InFiles"]

_Reader = Callable[[], Any]  # of a shard


class InFiles:
    """Shards that are read when results are fetched; those of an exchange are files of a folder.

    Parameters
    ----------
    readers : sequence of callable
        Each reads a shard.
    folder : Path
        Where exchanged rows are written.
    files : sequence of sequence of Path, default=()
        Files of every shard, which ``done`` deletes.
    """

    n_workers = 1

    def __init__(
        self, readers: Sequence[_Reader], folder: Path, files: Sequence[Sequence[Path]] = ()
    ):
        self.readers, self.folder, self.files = list(readers), folder, list(files)
        self.memory = WorkerStore()
        self._n_exchanges = 0

    @classmethod
    def of(
        cls, X: Data, target: NDArray, weights: NDArray | None, bytes_per_row: float, folder: Path
    ) -> InFiles:
        """Rows of a matrix, which may be a memory map, in pieces of some megabytes."""

        def read(rows: slice) -> NumberedRows:
            own = None if weights is None else weights[rows]
            return NumberedRows(X[rows], target[rows], own, np.arange(rows.start, rows.stop))

        pieces = row_chunks(X.shape[0], bytes_per_row)
        return cls([partial(read, rows) for rows in pieces], folder)

    @property
    def n_shards(self) -> int:
        return len(self.readers)

    def share(self, value: Any) -> Handle:
        return value

    def each(
        self,
        work: OfShard,
        *args: Any,
        numbers: Sequence[int] | None = None,
        own: Mapping[int, tuple[Any, ...]] | None = None,
    ) -> list[Handle]:
        chosen = range(self.n_shards) if numbers is None else numbers
        return [partial(self._work, work, i, (*args, *(own or {}).get(i, ()))) for i in chosen]

    def _work(self, work: OfShard, number: int, args: tuple[Any, ...]) -> Any:
        return work(self.memory, number, self.readers[number](), *args)

    def once(self, work: Callable[..., Any], *args: Any) -> Handle:
        return partial(work, *args)

    def total(self, handles: Sequence[Handle], add: Callable[[Any, Any], Any]) -> Handle:
        return lambda: reduce(add, (handle() for handle in handles))

    def fetch(self, handles: Sequence[Handle]) -> list[Any]:
        return [handle() for handle in handles]

    def exchange(self, split: OfShard, n_shards: int, join: Callable[..., Any]) -> InFiles:
        """Pieces are written below each other as they come, which joins them."""
        self._n_exchanges += 1
        stems = [self.folder / f"shard-{self._n_exchanges}-{j}" for j in range(n_shards)]
        kind, columns = None, dict[str, NDArray]()
        for handle in self.each(split):
            for stem, piece in zip(stems, handle(), strict=True):
                kind = type(piece)
                values = {each.name: getattr(piece, each.name) for each in fields(piece)}
                columns = {name: one for name, one in values.items() if one is not None}
                for name, values_of_rows in columns.items():
                    with stem.with_suffix(f".{name}").open("ab") as file:
                        np.ascontiguousarray(values_of_rows).tofile(file)
        forms = {name: (each.dtype, each.shape[1:]) for name, each in columns.items()}
        files = [[stem.with_suffix(f".{name}") for name in forms] for stem in stems]
        return InFiles([partial(_read, kind, stem, forms) for stem in stems], self.folder, files)

    def changed(
        self, work: OfShard, *args: Any, own: Mapping[int, tuple[Any, ...]] | None = None
    ) -> InFiles:
        """Shards are changed whenever they are read."""
        return InFiles(self.each(work, *args, own=own), self.folder)

    def everywhere(self, work: Callable[[WorkerStore], Any]) -> list[Any]:
        return [work(self.memory)]

    def done(self, number: int) -> None:
        for path in self.files[number] if self.files else ():
            path.unlink(missing_ok=True)

    def close(self) -> None:
        for number in range(len(self.files)):
            self.done(number)
        self.readers, self.files = [], []


def _read(kind: Any, stem: Path, forms: Mapping[str, tuple[np.dtype, tuple[int, ...]]]) -> Any:
    """A shard from a file for each of its arrays."""
    return kind(
        **{
            name: np.fromfile(stem.with_suffix(f".{name}"), dtype).reshape(-1, *shape)
            for name, (dtype, shape) in forms.items()
        }
    )
