"""Files that are written whole or not at all."""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, BinaryIO

import numpy as np

try:
    import fcntl
except ImportError:  # Windows, where a file that is open cannot be removed
    fcntl = None  # type: ignore[assignment]

__all__ = ["array_header", "longest_name", "remove_leftovers", "write_atomically"]

_BESIDE = len(".") + len(".01234567.tmp")  # letters that the name of a temporary file adds


def write_atomically(
    path: str | os.PathLike[str], content: bytes | str | Callable[[BinaryIO], object]
) -> None:
    """Write a file whole or not at all.

    A symbolic link is followed. ``content`` may be a function that writes to the open binary file
    it is given. After an OSError, where the folder is missing or not writable or the disk full,
    ``path`` is as it was before. What writers of the same file that were killed have left beside it
    is removed. A file that is replaced passes on its mode and, where the process may, its owner and
    group; a new file has the mode that the umask leaves.

    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_atomically(f"{folder}/a.txt", "whole")
    ...     pathlib.Path(folder, "a.txt").read_text()
    'whole'
    """
    target = Path(os.path.realpath(path))
    # One look, as another writer may remove the file.
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        if not stat.S_ISREG(target.stat().st_mode):
            # Replacing a folder fails anyhow; replacing a device or a pipe would destroy it.
            raise OSError(f"cannot write {path}: it exists and is not a plain file.")
    try:
        remove_leftovers(target)
        with _temporary(target) as file:
            if callable(content):
                content(file)
            else:
                file.write(content.encode() if isinstance(content, str) else content)
    except OSError as error:
        reason = error.strerror or str(error).rstrip(".") or type(error).__name__
        raise type(error)(f"cannot write {path}: {reason}.") from error


def longest_name(folder: str | os.PathLike[str]) -> int:
    """Most bytes of the name of a file that :func:`write_atomically` can write in a folder."""
    try:
        most = os.pathconf(folder, "PC_NAME_MAX")
    except (AttributeError, OSError, ValueError):  # Windows, or a folder that is not there
        most = 255
    return most - _BESIDE


def array_header(file: IO[bytes]) -> tuple[tuple[int, ...], np.dtype]:
    """Shape and type that the header of an array of NumPy states; the file stands behind it."""
    # The third version has the lengths of the second.
    first = np.lib.format.read_magic(file) == (1, 0)
    form = np.lib.format
    shape, _, dtype = (form.read_array_header_1_0 if first else form.read_array_header_2_0)(file)
    return shape, dtype


def remove_leftovers(path: str | os.PathLike[str]) -> None:
    """Remove what writers of a file that were killed have left; files being written stay."""
    target = Path(os.path.realpath(path))
    ours = re.compile(rf"\.{re.escape(target.name)}\.[0-9a-f]{{8}}\.tmp")
    with contextlib.suppress(OSError):  # whoever cannot look or remove, leaves it to the next
        for name in filter(ours.fullmatch, os.listdir(target.parent)):
            _remove_unless_written(target.with_name(name))


def _remove_unless_written(leftover: Path) -> None:
    """Remove a temporary file, unless a living writer has it open."""
    with contextlib.suppress(OSError):
        if fcntl is None:
            leftover.unlink()
            return
        with open(leftover, "r+b") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            leftover.unlink()


@contextlib.contextmanager
def _temporary(target: Path) -> Iterator[BinaryIO]:
    """A file beside ``target`` that takes its place when the block ends well."""
    file = _locked(target)
    temporary = Path(file.name)
    try:
        with file:
            _take_rights(file.fileno(), target)
            yield file
            file.flush()
            os.fsync(file.fileno())
            if fcntl is not None:  # still locked, so that nobody takes it for a leftover
                os.replace(temporary, target)
        if fcntl is None:
            os.replace(temporary, target)
    except BaseException:  # an interrupt must not leave a half either
        temporary.unlink(missing_ok=True)
        raise


def _take_rights(number: int, target: Path) -> None:
    """Give an open file, before any write, the mode, owner and group of the file it replaces."""
    if not hasattr(os, "fchown"):  # Windows
        return
    try:
        wanted = os.stat(target)
    except OSError:
        return
    mode = stat.S_IMODE(wanted.st_mode) & 0o777
    with contextlib.suppress(OSError):  # only root may give a file away
        os.fchown(number, wanted.st_uid, -1)
    try:
        os.fchown(number, -1, wanted.st_gid)
    except OSError:  # another group gets no more than everybody
        mode = mode & 0o707 | (mode & 0o007) << 3
    with contextlib.suppress(OSError):  # some network folders have no modes
        os.fchmod(number, mode)


def _locked(target: Path) -> BinaryIO:
    """A new file beside ``target``, locked for as long as it is open, where there are locks."""
    while True:
        temporary = target.with_name(f".{target.name}.{secrets.token_hex(4)}.tmp")
        file = open(temporary, "xb")  # noqa: SIM115
        if fcntl is not None:
            with contextlib.suppress(OSError):  # some network folders have no locks
                fcntl.flock(file, fcntl.LOCK_EX)
        if temporary.exists():  # another writer may have taken it for a leftover before the lock
            return file
        file.close()
