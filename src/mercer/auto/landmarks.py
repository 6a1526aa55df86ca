"""Landmarks of a kernel machine that sees all rows at once, where leaves lose too much."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mercer._runtime.arrays import available_memory
from mercer.auto.tuning import TUNING

__all__ = ["Landmarks", "landmarks_for"]

_FACTORS = 24.0  # bytes per pair of landmarks: two factors in float32 and their makings


@dataclass(frozen=True)
class Landmarks:
    """Number of rows in whose span a kernel machine lies, and the rows it is fitted to."""

    count: int  # of each stage
    n_rows: int | None = None  # of each stage; None: all, at once
    n_stages: int = 1


def landmarks_for(
    n: int, n_inputs: int, seconds_left: float = np.inf, trial_seconds: float = 0.0
) -> Landmarks | None:
    """The landmarks that suit n rows, or as many as there is time and memory for.

    Many rows are fitted in stages. ``trial_seconds`` is the duration of a trial. None without time,
    or memory, for as many landmarks as a trial has.
    """
    available = available_memory()
    n_rows, n_stages, per_root = n, 1, TUNING.landmarks_per_root
    if n > TUNING.least_of_stages:
        n_rows, per_root = int(np.clip(n // 3, *TUNING.stage_rows)), TUNING.stage_landmarks
        n_stages = min(round(TUNING.stages_per_part * n / n_rows), TUNING.most_stages)
    most = int(TUNING.landmark_work / (float(n_rows) * max(n_inputs, TUNING.full_columns)))
    count = max(min(most, int(per_root * np.sqrt(n_rows))), TUNING.trial_landmarks)
    if np.isfinite(seconds_left):
        of_each = trial_seconds / TUNING.trial_landmarks * max(1.0, n_rows / TUNING.landmark_rows)
        n_stages = int(np.clip(seconds_left / (of_each * count), 1, n_stages))
        count = min(count, int(seconds_left / of_each / n_stages))
    if available is not None:
        count = min(count, int(np.sqrt(TUNING.landmark_memory * available / _FACTORS)))
    if count < TUNING.trial_landmarks:
        return None
    return Landmarks(count, n_rows, n_stages) if n_rows < n else Landmarks(count)
