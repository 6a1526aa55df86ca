"""What counts as a fault: exceptions that are no sentence, and answers that contradict a twin."""

from __future__ import annotations

import linecache
import traceback
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.exceptions import NotFittedError

REFUSALS = (ValueError, TypeError, MemoryError, OSError, NotFittedError)


class Wrong(Exception):
    """An answer that is not finite, has another shape than it must, or contradicts a twin."""


def refusal(error: BaseException) -> bool:
    """Whether an exception is one that a user may see: of a documented kind, and a sentence.

    A sentence is raised on purpose: by a ``raise`` statement of mercer, by the core, whose messages
    end with a full stop, or by scikit-learn's checks of input, which let NumPy speak for them. What
    NumPy says of mercer's own arrays is none of these.
    """
    if not isinstance(error, REFUSALS):
        return False
    if isinstance(error, MemoryError):
        return True
    text = str(error).strip()
    if not text:
        return False
    frames = traceback.extract_tb(error.__traceback__)
    packages = [_package(frame) for frame in frames]
    if "sklearn" in packages[_last(packages, "mercer") + 1 :]:
        return True
    statement = linecache.getline(frames[-1].filename, frames[-1].lineno or 0).strip()
    return packages[-1] == "mercer" and (statement.startswith("raise ") or text.endswith("."))


def place(error: BaseException) -> str:
    """Kind and innermost place of an exception: what tells one fault from another."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if _package(frame) == "mercer"]
    if not frames:
        return type(error).__name__
    frame = (ours or frames)[-1]
    return f"{type(error).__name__} at {Path(frame.filename).name}:{frame.name}"


def leaks(caught: Sequence[warnings.WarningMessage]) -> list[str]:
    """The warnings that speak of arithmetic inside mercer instead of the user's input."""
    return [
        f"{Path(w.filename).name}:{w.lineno}: {w.message}"
        for w in caught
        if issubclass(w.category, RuntimeWarning) and _package_of(w.filename) == "mercer"
    ]


def finite(values: Any, what: str, shape: tuple[int, ...] | None = None) -> None:
    """Complain of an answer that holds NaN or infinity or has another shape."""
    values = values.data if hasattr(values, "indptr") else np.asarray(values)
    if shape is not None and values.shape != shape:
        raise Wrong(f"{what} has shape {values.shape}, not {shape}")
    if values.dtype.kind == "f" and not np.isfinite(values).all():
        raise Wrong(f"{what} is not finite: {values.ravel()[~np.isfinite(values.ravel())][:3]}")


def alike(one: Any, other: Any, what: str, rtol: float, scale: float = 0.0) -> None:
    """Complain where two answers that must agree do not, relative to their largest entry.

    Parameters
    ----------
    scale : float, default=0
        Size of the terms that the answers are sums of, where that is known to be larger.
    """
    one, other = _dense(one), _dense(other)
    if one.shape != other.shape:
        raise Wrong(f"{what}: shapes {one.shape} and {other.shape}")
    if one.dtype.kind not in "fiub":
        if not (one == other).all():
            raise Wrong(f"{what}: {int((one != other).sum())} of {one.size} labels differ")
        return
    if one.size == 0:
        return
    one, other = one.astype(np.float64), other.astype(np.float64)
    differ = one != other  # so that infinity is alike to itself
    size = max(float(np.abs(one).max()), float(np.abs(other).max()), scale)
    apart = float(np.abs(one[differ] - other[differ]).max(initial=0.0))
    if not apart <= rtol * size:
        raise Wrong(f"{what}: {apart:.3g} apart where the largest is {size:.3g}")


def _package(frame: traceback.FrameSummary) -> str:
    """mercer, sklearn or another."""
    return _package_of(frame.filename)


def _package_of(file: str) -> str:
    """The same of a file, by the folder in which packages are installed or written.

    A checkout may lie in a folder that is called mercer.
    """
    parts = Path(file).parts
    homes = [place for place, part in enumerate(parts[:-1]) if part in ("site-packages", "src")]
    package = parts[homes[-1] + 1] if homes else ""
    return package if package in ("sklearn", "mercer") else "another"


def _last(names: Sequence[str], name: str) -> int:
    return max((place for place, other in enumerate(names) if other == name), default=-1)


def _dense(values: Any) -> np.ndarray:
    return np.asarray(values.toarray() if hasattr(values, "toarray") else values)
