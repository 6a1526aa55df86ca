"""A fit on disk, from which it goes on to the last bit."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer.problem import Problem
from mercer.solvers.base import TraceRow

__all__ = ["Checkpoint", "fingerprint"]

_FILE = "block-descent.npz"
_PROBES = 4  # rows and columns of the design whose entries stand for all


class Checkpoint:
    """The state of one fit in a folder, replaced as a whole or not at all.

    Parameters
    ----------
    folder : str or path
        Made if it is not there.
    mark : str
        Tells fits apart; what another fit has left behind is refused.

    Raises
    ------
    ValueError
        On ``load``, if the folder holds the state of another fit.
    """

    def __init__(self, folder: str | os.PathLike[str], mark: str):
        self.file = Path(folder) / _FILE
        self.mark = mark
        self.file.parent.mkdir(parents=True, exist_ok=True)

    def save(self, arrays: dict[str, NDArray], facts: dict[str, Any]) -> None:
        """Write numbers and everything else that JSON can say."""
        text = json.dumps({"mark": self.mark, **facts})
        handle, name = tempfile.mkstemp(dir=self.file.parent, suffix=".part")
        try:
            with os.fdopen(handle, "wb") as file:
                np.savez(file, _facts=np.array(text), **arrays)  # type: ignore[arg-type]
                file.flush()
                os.fsync(file.fileno())
            os.replace(name, self.file)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(name)
            raise

    def load(self) -> tuple[dict[str, NDArray], dict[str, Any]] | None:
        """What was saved last, or None."""
        if not self.file.exists():
            return None
        try:
            with np.load(self.file, allow_pickle=False) as file:
                arrays = {name: file[name] for name in file.files}
            facts = json.loads(str(arrays.pop("_facts")))
        except (ValueError, KeyError, OSError, EOFError) as error:
            raise ValueError(
                f"checkpoint must hold a fit that can go on; {self.file} does not."
            ) from error
        if facts.pop("mark") != self.mark:
            raise ValueError(
                "checkpoint must be a folder of the same fit: data, settings or alphas differ from "
                f"those in {self.file}."
            )
        return arrays, facts

    def remove(self) -> None:
        """Forget a fit that is over."""
        self.file.unlink(missing_ok=True)


def fingerprint(problem: Problem, alphas: NDArray, settings: dict[str, Any]) -> str:
    """Tells problems and settings apart without looking at more than a few entries of a design."""
    design = problem.design
    n, n_columns = design.shape
    rows = np.unique(np.linspace(0, n - 1, _PROBES).astype(int))
    columns = np.unique(np.linspace(0, max(0, n_columns - 1), _PROBES).astype(int))[:n_columns]
    entries = np.asarray(design.rows(rows).block(columns))
    said = {
        "shape": [n, n_columns, *problem.shape],
        "dtype": str(problem.dtype),
        "design": type(design).__name__,
        "penalty": [problem.penalty.name, getattr(problem.penalty, "jitter", 0.0)],
        "entries": [f"{entry:.4e}" for entry in entries.ravel().tolist()],
        "intercept": problem.fit_intercept,
        **settings,
    }
    digest = hashlib.sha256(json.dumps(said, sort_keys=True).encode())
    digest.update(np.ascontiguousarray(alphas).tobytes())
    digest.update(problem.y.tobytes())
    if problem.weights is not None:
        digest.update(problem.weights.tobytes())
    return digest.hexdigest()


def rows_to_text(traces: list[list[TraceRow]]) -> list[list[dict[str, Any]]]:
    """Traces as JSON says them."""
    return [[asdict(row) for row in trace] for trace in traces]


def rows_from_text(traces: list[list[dict[str, Any]]]) -> list[list[TraceRow]]:
    """The inverse of ``rows_to_text``."""
    return [[TraceRow(**row) for row in trace] for trace in traces]
