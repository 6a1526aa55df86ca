"""Opening what is to be read: plain or compressed files, and members of zip archives."""

from __future__ import annotations

import bz2
import gzip
import lzma
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from .base import DataError

_COMPRESSED: tuple[tuple[bytes, Any], ...] = (
    (b"\x1f\x8b", gzip.open),
    (b"BZh", bz2.open),
    (b"\xfd7zXZ\x00", lzma.open),
)
COMPRESSED_SUFFIXES = (".gz", ".bz2", ".xz")


@dataclass(frozen=True)
class Input:
    """A file, or the member of a zip archive, that can be opened as often as needed."""

    path: Path
    member: str | None = None

    def __str__(self) -> str:
        return str(self.path) if self.member is None else f"{self.path}[{self.member}]"

    @property
    def suffix(self) -> str:
        """Extension in lower case, without that of a compression."""
        name = Path(self.path.name if self.member is None else self.member)
        if name.suffix.lower() in COMPRESSED_SUFFIXES:
            name = name.with_suffix("")
        return name.suffix.lower()

    @contextmanager
    def open(self) -> Iterator[IO[bytes]]:
        """Open for reading bytes, decompressed by content; damage found inside is a DataError."""
        with self.damage_reported(), self._open_raw() as raw:
            start = raw.read(8)
            raw.seek(0)
            for magic, opener in _COMPRESSED:
                if start.startswith(magic):
                    with opener(raw) as stream:
                        yield stream
                    return
            yield raw

    @contextmanager
    def damage_reported(self) -> Iterator[None]:
        """Turn what the compression modules raise on broken data into one sentence."""
        try:
            yield
        except (FileNotFoundError, IsADirectoryError, PermissionError):
            raise
        except (EOFError, OSError, zlib.error, lzma.LZMAError, zipfile.BadZipFile) as error:
            raise DataError(f"{self}: the file is truncated or damaged ({error})") from error

    def start(self, size: int = 1 << 16) -> bytes:
        """Return the first bytes, decompressed."""
        with self.open() as stream:
            return stream.read(size)

    @contextmanager
    def _open_raw(self) -> Iterator[IO[bytes]]:
        if self.member is None:
            with self.path.open("rb") as file:
                yield file
        else:
            with zipfile.ZipFile(self.path) as archive, archive.open(self.member) as file:
                yield file


def existing(path: Path) -> Path:
    """Return `path` if it is a file that can be opened, else raise the sentence that says why."""
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a directory, a data file is needed")
    try:
        with path.open("rb"):
            return path
    except FileNotFoundError:
        raise FileNotFoundError(f"there is no file {path}") from None
    except PermissionError:
        raise PermissionError(f"{path} may not be read by this user") from None
    except OSError as error:
        raise DataError(f"{path} cannot be opened ({error.strerror or error})") from None
