"""Callbacks that end the iterations of a fit: the parts they share, and one by the clock."""

from __future__ import annotations

import time
from typing import Any

__all__ = ["Deadline", "Ending"]


class Ending:
    """Hooks of a callback of scikit-learn's that has nothing to do until an iteration ends."""

    def setup(self, estimator: Any, context: Any) -> None:
        """Nothing is needed."""

    def teardown(self, estimator: Any, context: Any) -> None:
        """Nothing is left."""

    def on_fit_task_begin(self, estimator: Any, context: Any) -> None:
        """Iterations that have begun are ended."""


class Deadline(Ending):
    """A callback of scikit-learn's that stops a fit after ``end``, a time of ``perf_counter()``."""

    def __init__(self, end: float):
        self.end = end

    def on_fit_task_end(self, estimator: Any, context: Any) -> bool:
        """True, which stops the fit, once it is too late."""
        return time.perf_counter() > self.end
