"""Opening what is to be read: plain or compressed files, and members of zip archives."""

from __future__ import annotations

import bz2
import codecs
import gzip
import lzma
import stat
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from mercer._runtime.arrays import check_memory

from .base import DataError

_COMPRESSED: tuple[tuple[bytes, Any], ...] = (
    (b"\x1f\x8b", gzip.open),
    (b"BZh", bz2.open),
    (b"\xfd7zXZ\x00", lzma.open),
)
COMPRESSED_SUFFIXES = (".gz", ".bz2", ".xz")
_UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
AS_UTF8 = (  # the remedy in errors about other encodings
    "write it as UTF-8, as iconv -f {0} -t UTF-8 does, or read it by pandas with encoding={0!r}"
)
_PIECE = 1 << 24  # bytes of text that are read before memory is looked at again
_NUMBERS = 8.0  # bytes of numbers that a byte of text may stand for


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
        """Open for reading bytes, decompressed, UTF-16 as UTF-8; DataError for damage inside."""
        with self.damage_reported(), self._open_raw() as raw:
            opener = _opener(raw)
            raw.seek(0)
            with nullcontext(raw) if opener is None else opener(raw) as stream:
                is_wide = stream.read(2) in _UTF16
                stream.seek(0)
                yield codecs.EncodedFile(stream, "utf-8", "utf-16") if is_wide else stream

    @property
    def is_plain(self) -> bool:
        """Whether the file can be read as it is: no member, not compressed and not UTF-16."""
        if self.member is not None:
            return False
        with self.path.open("rb") as file:
            return _opener(file) is None and not self.is_wide

    @property
    def is_wide(self) -> bool:
        """Whether the content, decompressed, begins with the byte order mark of UTF-16."""
        with self.damage_reported(), self._open_raw() as raw:
            opener = _opener(raw)
            raw.seek(0)
            with nullcontext(raw) if opener is None else opener(raw) as stream:
                return bool(stream.read(2) in _UTF16)

    def pieces(self, stream: IO[bytes]) -> Iterator[bytes]:
        """The rest of an opened text in pieces; a MemoryError when all of it does not fit."""
        total = 0
        while piece := stream.read(_PIECE):
            total += len(piece)
            self._check_room(total, total + _PIECE)
            yield piece

    def lines(self, stream: IO[bytes]) -> Iterator[bytes]:
        """The lines of an opened text; a MemoryError when one does not fit."""
        total, looked_at, parts = 0, 0, []
        while part := stream.readline(_PIECE):
            total += len(part)
            parts.append(part)
            if total >= looked_at:
                looked_at = total + _PIECE
                self._check_room(total, _NUMBERS * _PIECE + total)
            if part.endswith(b"\n"):
                yield b"".join(parts)
                parts = []
        if parts:
            yield b"".join(parts)

    def _check_room(self, total: int, needed: float) -> None:
        what = f"reading on in {self} after {total} bytes of text"
        check_memory(needed, what, "read it in parts")

    @contextmanager
    def damage_reported(self) -> Iterator[None]:
        """Turn errors of the compression modules on broken data into one sentence."""
        try:
            yield
        except (FileNotFoundError, IsADirectoryError, PermissionError):
            raise
        except UnicodeDecodeError as error:
            raise DataError(f"{self} is not whole UTF-16 text ({error.reason})") from None
        except (EOFError, OSError, zlib.error, lzma.LZMAError, zipfile.BadZipFile) as error:
            raise DataError(f"{self}: the file is truncated or damaged ({error})") from error

    def start(self, size: int = 1 << 16) -> bytes:
        """The first bytes, decompressed."""
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


def _opener(file: IO[bytes]) -> Callable[..., Any] | None:
    """The opener of a file that starts like this, if it is compressed."""
    start = file.read(8)
    return next((opener for magic, opener in _COMPRESSED if start.startswith(magic)), None)


def existing(path: Path) -> Path:
    """``path`` if it is a file that can be opened; else an error whose sentence says why."""
    try:
        mode = path.stat().st_mode
        if stat.S_ISREG(mode):  # another one might never end, or never begin
            with path.open("rb"):
                return path
    except FileNotFoundError:
        raise FileNotFoundError(f"there is no file {path}") from None
    except PermissionError:
        raise PermissionError(f"{path} may not be read by this user") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise DataError(f"{str(path)[:200]} cannot be opened ({reason})") from None
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(f"{path} is a directory, a data file is needed")
    raise DataError(f"{path} is no regular file, such as a data file must be")
