"""Dates as numbers: how late, and where in the year, the week and the day."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["PARTS", "cycles", "days"]

PARTS = tuple(f"{cycle} {wave}" for cycle in ("year", "week", "day") for wave in ("sin", "cos"))


def days(dates: NDArray) -> NDArray[np.float64]:
    """Days since 1970, NaN for missing dates; (n,)."""
    return (dates - np.datetime64(0, "us")) / np.timedelta64(1, "D")


def cycles(dates: NDArray) -> NDArray[np.float64]:
    """Sines and cosines of the place in the year, the week and the day; 0 for missing dates."""
    missing = np.isnat(dates)
    known = np.where(missing, np.datetime64(0, "us"), dates)
    year = known.astype("datetime64[Y]").astype("datetime64[us]")
    elapsed = known - known.astype("datetime64[D]")
    since = days(known)
    day = np.timedelta64(1, "D")
    angle = 2 * np.pi * np.stack([(known - year) / day / 365.2425, since / 7.0, elapsed / day])
    waves = np.stack([np.sin(angle), np.cos(angle)], axis=1).reshape(len(PARTS), -1).T
    return np.where(missing[:, None], 0.0, waves)
