"""Finding files: the folder of MERCER_DATA, the cache, and the fetch from the public home."""

from __future__ import annotations

import hashlib
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

from mercer._runtime.files import write_atomically

from .base import DataError
from .registry import File, Prepared

VARIABLE = "MERCER_DATA"
_TIMEOUT = 30  # seconds without an answer before a fetch gives up
_CHUNK = 1 << 20  # bytes written at a time


def find_in_folder(file: File | Prepared) -> Path | None:
    """The file in the folder that MERCER_DATA names, or None."""
    named = os.environ.get(VARIABLE)
    if not named:
        return None
    folder = Path(named).expanduser()
    if not folder.is_dir():
        raise DataError(f"the environment variable {VARIABLE} must name a folder, got {named!r}")
    path = folder / file.name
    return path if path.is_file() else None


def in_folder(file: File | Prepared) -> Path | None:
    """The file in the folder that MERCER_DATA names, checked, or None."""
    path = find_in_folder(file)
    if path is not None and file.sha256:
        _require(path, file.sha256, "replace it or remove it")
    return path


def _pooch() -> Any:
    try:
        import pooch
    except ImportError as error:
        raise ImportError('fetching data sets needs pooch: pip install "mercer[cli]"') from error
    return pooch


def _cache_folder(cache: str | os.PathLike[str] | None) -> Path:
    return Path(_pooch().os_cache("mercer") if cache is None else cache).expanduser()


def find_in_cache(file: File, cache: str | os.PathLike[str] | None) -> Path | None:
    """The file in the cache, or None."""
    path = _cache_folder(cache) / file.name
    return path if path.is_file() else None


def in_cache(file: File, cache: str | os.PathLike[str] | None) -> Path | None:
    """The file in the cache, checked against its known or recorded hash, or None."""
    path = find_in_cache(file, cache)
    if path is None:
        return None
    expected = file.sha256 or _recorded(path)
    if expected is None:  # fetched, but cut off before its hash was recorded
        _record(path)
    else:
        _require(path, expected, "it changed since it was fetched: delete it to fetch it again")
    return path


def fetch(file: File, cache: str | os.PathLike[str] | None) -> Path:
    """Fetch a file into the cache: an OSError if that fails, a DataError for a wrong hash.

    Without a known hash the first fetch records one beside the file.
    """
    pooch = _pooch()
    path = _cache_folder(cache) / file.name
    expected = file.sha256 or _recorded(path)
    with _Progress(file.name) as bar:
        downloader = pooch.HTTPDownloader(bar, _CHUNK, timeout=_TIMEOUT)
        try:
            fetched = pooch.retrieve(
                file.url,
                known_hash=None if expected is None else f"sha256:{expected}",
                fname=file.name,
                path=path.parent,
                downloader=downloader,
            )
        except ValueError as error:  # pooch's word for a hash that does not match
            raise DataError(
                f"{file.url} does not hand out the expected file, its SHA-256 is not {expected}"
            ) from error
    if expected is None:
        _record(Path(fetched))
    return Path(fetched)


def _hash_file(path: Path) -> Path:
    return path.with_name(path.name + ".sha256")


def _recorded(path: Path) -> str | None:
    record = _hash_file(path)
    return record.read_text().split()[0] if record.is_file() else None


def _record(path: Path) -> None:
    """Write the hash beside the file, whole or not at all."""
    write_atomically(_hash_file(path), f"{sha256(path)}  {path.name}\n")


def sha256(path: Path) -> str:
    """The SHA-256 of a file as 64 hexadecimal digits."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _require(path: Path, expected: str, remedy: str) -> None:
    digest = sha256(path)
    if digest != expected:
        raise DataError(
            f"{path} is not the expected file: its SHA-256 is {digest}, not {expected}; {remedy}"
        )


class _Progress:
    """A progress bar with the methods pooch calls; shows nothing without Rich or a terminal."""

    def __init__(self, name: str) -> None:
        self.name, self.total = name, 0
        self._bar: Any = None

    def __enter__(self) -> _Progress:
        with suppress(ImportError):
            from rich.console import Console
            from rich.progress import Progress

            console = Console(stderr=True)
            if console.is_terminal:
                self._bar = Progress(console=console, transient=True)
                self._task = self._bar.add_task(f"fetching {self.name}")
                self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def update(self, amount: int) -> None:
        """Advance by a number of bytes."""
        if self._bar is not None:
            self._bar.update(self._task, advance=amount, total=self.total or None)

    def reset(self) -> None:
        """Go back to nothing done."""
        if self._bar is not None:
            self._bar.reset(self._task)

    def close(self) -> None:
        """Leave the closing to the with statement."""
