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
    """Number of rows in whose span a kernel machine of all rows lies."""

    count: int


def landmarks_for(
    n: int, n_inputs: int, seconds_left: float = np.inf, trial_seconds: float = 0.0
) -> Landmarks | None:
    """The landmarks that suit n rows, or as many as there is time and memory for.

    ``trial_seconds`` is the duration of a trial. None without time, or memory, for as many
    landmarks as a trial has.
    """
    most = int(TUNING.landmark_work / (float(n) * max(n_inputs, TUNING.full_columns)))
    count = max(min(most, int(TUNING.landmarks_per_root * np.sqrt(n))), TUNING.trial_landmarks)
    if np.isfinite(seconds_left):
        of_each = trial_seconds / TUNING.trial_landmarks * max(1.0, n / TUNING.landmark_rows)
        count = min(count, int(seconds_left / of_each))
    available = available_memory()
    if available is not None:
        count = min(count, int(np.sqrt(TUNING.landmark_memory * available / _FACTORS)))
    return Landmarks(count) if count >= TUNING.trial_landmarks else None
