"""A fit on disk, from which it goes on to the last bit."""

from __future__ import annotations

import json
import os
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer._runtime.files import remove_leftovers, write_atomically
from mercer.solvers.block.fingerprint import digest_of

__all__ = ["Checkpoint"]

_FILE = "block-descent.npz"
_ROUNDING = {"f": 1e-4, "d": 1e-9}  # tolerance of stored examples, relative to the largest


class Checkpoint:
    """The state of one fit in a folder, replaced as a whole or not at all.

    ``mark`` digests all data of the fit; ``examples`` are entries of its design, up to rounding. A
    ValueError for another fit's or a damaged file.
    """

    def __init__(self, folder: str | os.PathLike[str], mark: str, examples: NDArray):
        self.file = Path(folder) / _FILE
        self.mark, self.examples = mark, examples
        try:
            self.file.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise type(error)(
                f"checkpoint must be a folder; {folder} cannot be made: {error.strerror}."
            ) from error
        remove_leftovers(self.file)

    def save(self, arrays: dict[str, NDArray], facts: dict[str, Any]) -> None:
        """Write arrays, and facts that JSON can hold."""
        if self._mark_there() not in (None, self.mark):
            raise self._of_another()
        text = json.dumps(facts)
        arrays = {**arrays, "_examples": self.examples}
        members = {
            "_mark": np.array(self.mark),
            "_facts": np.array(text),
            "_digest": np.array(_digest(arrays, text)),
            **arrays,
        }
        write_atomically(self.file, lambda file: np.savez(file, **members))  # type: ignore[arg-type]

    def load(self, restore: Callable[[dict[str, NDArray], dict[str, Any]], None]) -> bool:
        """Call ``restore`` with the last saved state; True if there was a file."""
        try:
            members = _read(self.file)
            text, digest = str(members.pop("_facts")), str(members.pop("_digest"))
            same = str(members.pop("_mark")) == self.mark
            if digest != _digest(members, text):
                raise ValueError("its digest is another one")
            if same := same and self._alike(members.pop("_examples")):
                restore(members, json.loads(text))
        except FileNotFoundError:
            return False
        except MemoryError:
            raise
        except Exception as error:  # a damaged file can be wrong in any way
            raise ValueError(
                f"checkpoint must hold a fit that can go on; {self.file} does not."
            ) from error
        if not same:
            raise self._of_another()
        return True

    def remove(self) -> None:
        """Remove the file of a fit that is over."""
        if self._mark_there() == self.mark:
            self.file.unlink(missing_ok=True)

    def _alike(self, examples: NDArray) -> bool:
        ours = self.examples
        if examples.shape != ours.shape or examples.dtype != ours.dtype:
            return False
        margin = _ROUNDING[ours.dtype.char] * float(np.abs(ours).max(initial=0.0))
        return bool(np.abs(examples - ours).max(initial=0.0) <= margin)

    def _mark_there(self) -> str | None:
        """The mark of the fit whose file is in the folder; None without one that can be read."""
        try:
            with np.load(self.file, allow_pickle=False) as members:
                return str(members["_mark"])
        except Exception:  # a damaged file can be wrong in any way
            return None

    def _of_another(self) -> ValueError:
        return ValueError(
            "checkpoint must be a folder of the same fit: data, settings or alphas differ from "
            f"those in {self.file}."
        )


def _read(file: Path) -> dict[str, NDArray]:
    # Checked before anything is made of it: a header may ask for any amount of memory.
    with zipfile.ZipFile(file) as archive:
        broken = archive.testzip()
    if broken is not None:
        raise ValueError(f"{broken} is damaged")
    with np.load(file, allow_pickle=False) as members:
        return {name: members[name] for name in members.files}


def _digest(arrays: dict[str, NDArray], text: str) -> str:
    names = sorted(arrays)
    return digest_of([np.array([text, *names]), *(np.atleast_1d(arrays[name]) for name in names)])
