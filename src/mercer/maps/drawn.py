"""Random parameters that maps have drawn: made again from a key, never stored."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["LAST_KEY", "DrawCache"]

LAST_KEY = 2**64 - 1


class DrawCache:
    """The values of each kind that were made last, and what they were made from."""

    def __init__(self) -> None:
        self.cached: dict[str, tuple[Any, Any]] = {}

    def remembered(self, description: Any, make: Callable[[], Any], kind: str = "all") -> Any:
        """``make()``, called once for consecutive equal descriptions of a kind."""
        cached = self.cached.get(kind)
        if cached is None or cached[0] != description:
            self.cached[kind] = cached = description, make()
        return cached[1]

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "cached"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, cached={})
