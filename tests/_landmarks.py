"""Tables that landmarks suit, and limits by which few rows are many for an automatic model."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from mercer.auto.landmarks import Landmarks
from mercer.auto.rungs import LANDMARKS
from mercer.auto.tuning import TUNING


def limit(monkeypatch: pytest.MonkeyPatch, trial_landmarks: int, **others: object) -> None:
    """Set limits by which a table of 3000 rows is large; ``others`` are fields of TUNING."""
    small = {"exact_rows": 1000, "landmark_rows": 2000, "trial_landmarks": trial_landmarks}
    leaves = {"leaf_rows": (200, 300), "largest_leaf": 300, "trial_leaf_rows": 200}
    for name, value in (small | leaves | others).items():
        monkeypatch.setattr(TUNING, name, value)
    rung = replace(LANDMARKS, form=Landmarks(trial_landmarks))
    monkeypatch.setattr("mercer.auto.course.LANDMARKS", rung)


def saddles(n: int, d: int = 8) -> tuple[np.ndarray, np.ndarray]:
    """Products of neighbouring inputs, and noise: leaves see too few rows to tell them."""
    rng = np.random.default_rng(n)
    X = rng.normal(size=(n, d))
    return X, (X[:, ::2] * X[:, 1::2]).sum(axis=1) + 0.3 * rng.normal(size=n)
