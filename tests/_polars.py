"""polars, or what skips each test that uses it: it has no wheels for free-threaded Python yet."""

from __future__ import annotations

from typing import Any

import pytest

try:
    import polars as pl
except ModuleNotFoundError:

    class _Absent:
        def __getattr__(self, name: str) -> Any:
            return lambda *_, **__: pytest.skip("polars is not installed")

    pl: Any = _Absent()  # type: ignore[no-redef]

__all__ = ["pl"]
