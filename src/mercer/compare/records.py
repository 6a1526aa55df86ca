"""Records of experiments: JSON lines, one line for a fit, appended whole."""

from __future__ import annotations

import json
import math
import os
import platform
import re
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

from mercer import __version__
from mercer._runtime.arrays import available_memory, n_threads
from mercer.datasets import Dataset, Split

__all__ = ["append", "describe_data", "environment", "new_run", "plain", "quiet", "read"]

_PACKAGES = ("numpy", "scipy", "scikit-learn")


def new_run() -> str:
    """A name for one run of an experiment: its time in UTC and the process."""
    return f"{datetime.now(UTC):%Y%m%dT%H%M%S.%fZ}-{os.getpid()}"


def environment(n_jobs: int | None = None) -> dict[str, Any]:
    """Versions and machine, as every record carries them; ``n_jobs`` is as for the estimators."""
    from mercer import _core

    cpu = _core.cpu_info()
    versions = {"mercer": __version__, "python": platform.python_version()}
    versions.update({name: metadata.version(name) for name in _PACKAGES})
    return {
        "versions": versions,
        "machine": {
            "system": platform.system(),
            "architecture": platform.machine(),
            "processor": _processor(),
            "instructions": cpu["used"],
            "cores": n_threads(),
            "threads": n_threads(n_jobs),
            "available_memory": available_memory(),
        },
    }


def describe_data(data: Dataset, parts: Split) -> dict[str, Any]:
    """Facts about the data of a record and their training and test rows.

    >>> data = Dataset("toy", "regression", np.ones((4, 1)), np.ones(4))
    >>> described = describe_data(data, data.split())
    >>> described["kind"], described["n_train"]
    ('whole', 3)
    """
    kind = "sample" if data.is_sample else "whole"
    return {
        "name": data.name,
        "task": data.task,
        "n_train": parts.X_train.shape[0],
        "n_test": parts.X_test.shape[0],
        "d": parts.X_train.shape[1],
        "dtype": str(parts.X_train.dtype),
        "kind": "stand-in" if data.stand_in_for and not data.is_sample else kind,
        "stand_in_for": data.stand_in_for,
        "split": parts.split_note,
        "source": data.source,
        "note": data.note,
    }


def append(path: str | os.PathLike[str], record: Mapping[str, Any]) -> None:
    """Append one record as a line; an OSError leaves the file as it was.

    The file and its folder are made when missing. The record is anything that :func:`plain` takes.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     append(f"{folder}/fits.jsonl", {"score": 0.9})
    ...     read(f"{folder}/fits.jsonl")
    [{'score': 0.9}]
    """
    path = Path(path)
    line = (json.dumps(plain(record), ensure_ascii=False, allow_nan=False) + "\n").encode()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(path, "ab", buffering=0) as file:
            size = file.tell()
            try:
                # A single write: lines of two processes do not mix.
                if file.write(line) != len(line):
                    raise OSError(None, "the disk is full")
            except BaseException:
                os.ftruncate(file.fileno(), size)
                raise
    except OSError as error:
        raise type(error)(f"cannot write {path}: {error.strerror}.") from error


def read(path: str | os.PathLike[str], *, torn: bool = False) -> list[dict[str, Any]]:
    """All records of a file; a line that is no JSON object is a ValueError.

    With ``torn`` a last line that was cut off while it was written is left out instead.
    """
    records = []
    with open(path, encoding="utf-8") as lines:
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            try:
                record = json.loads(line)
            except json.JSONDecodeError as error:
                if torn and not line.endswith("\n"):
                    break
                raise ValueError(f"{path}, line {number}: not JSON ({error.msg}).") from error
            if not isinstance(record, dict):
                raise ValueError(f"{path}, line {number}: a record must be a JSON object.")
            records.append(record)
    return records


def plain(value: Any) -> Any:
    """``value`` in what JSON can hold: arrays as lists, infinities and NaN as null.

    >>> plain({"a": np.float32(0.5), "b": (1, np.inf)})
    {'a': 0.5, 'b': [1, None]}
    """
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, (np.ndarray, np.generic)):
        return plain(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    return value


@contextmanager
def quiet() -> Iterator[list[warnings.WarningMessage]]:
    """Collect warnings instead of showing them: they go into the record."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield caught


def _processor() -> str:
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        text = ""
    model = re.search(r"^model name[^:\n]*:(.*)", text, re.M)
    return model[1].strip() if model else platform.processor() or "unknown"
