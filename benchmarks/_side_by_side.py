"""Timing of contenders in one process: repeats interleaved, medians, ratios.

Absolute times do not carry over between machines and drift on a busy one; ratios of medians of
interleaved repeats are what to read.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import numpy as np
import scipy

import mercer
from mercer import _core

REST = 0.2


def repeated(
    contenders: Mapping[str, Callable[[], object]], repeats: int
) -> dict[str, tuple[float, ...]]:
    """Seconds of every repeat of each contender; every repeat runs all of them in turn.

    Between them is a rest: threads of a BLAS go on spinning for a while after its products.
    """
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    for run in contenders.values():
        run()
    for _ in range(repeats):
        for name, run in contenders.items():
            time.sleep(REST)
            start = time.perf_counter()
            run()
            seconds[name].append(time.perf_counter() - start)
    return {name: tuple(values) for name, values in seconds.items()}


def measure(contenders: Mapping[str, Callable[[], object]], repeats: int) -> dict[str, float]:
    """Median seconds of each contender, of repeats as in ``repeated``."""
    seconds = repeated(contenders, repeats)
    return {name: statistics.median(values) for name, values in seconds.items()}


def ratios(seconds: Mapping[str, float], ours: str = "mercer") -> dict[str, float]:
    """How many times longer each other contender took than each of ours."""
    own = [name for name in seconds if name.startswith(ours)]
    others = [name for name in seconds if not name.startswith(ours)]
    return {f"{other} / {name}": seconds[other] / seconds[name] for other in others for name in own}


def table(rows: Iterable[Mapping[str, str]]) -> str:
    """Rows of text under aligned headings; the first column is flush left."""
    rows = list(rows)
    columns = list(dict.fromkeys(name for row in rows for name in row))
    lines = [columns] + [[row.get(name, "") for name in columns] for row in rows]
    widths = [max(len(line[i]) for line in lines) for i in range(len(columns))]
    return "\n".join(
        "  ".join(
            text.ljust(width) if i == 0 else text.rjust(width)
            for i, (text, width) in enumerate(zip(line, widths, strict=True))
        )
        for line in lines
    )


def environment() -> dict[str, object]:
    """What a reader needs to judge the numbers."""
    cpu = _core.cpu_info()
    return {
        "mercer": mercer.__version__,
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "architecture": cpu["architecture"],
        "instruction_set": cpu["used"],
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None,
        "openblas_coretype": os.environ.get("OPENBLAS_CORETYPE"),
    }


Cases = Mapping[str, Mapping[str, Callable[[], object]]]


class Benchmark:
    """A script's run: compares cases as they come, prints a table each, ends with the JSON file.

    ``arguments`` may add options of the script's own, found in ``options``; ``how`` says what the
    figures are where they are no medians.
    """

    def __init__(
        self,
        description: str,
        arguments: Callable[[argparse.ArgumentParser], object] | None = None,
        how: str | None = None,
    ):
        parser = argparse.ArgumentParser(description=description)
        parser.add_argument("--repeats", type=int, default=7, help="repeats per contender")
        parser.add_argument("--quick", action="store_true", help="small data, three repeats")
        parser.add_argument("--json", type=Path, help="also write the medians to this file")
        if arguments is not None:
            arguments(parser)
        self.options = options = parser.parse_args()
        self.quick: bool = options.quick
        self.repeats: int = 3 if options.quick else options.repeats
        self._path: Path | None = options.json
        self._records: list[dict[str, object]] = []
        facts = ", ".join(f"{name} {value}" for name, value in environment().items() if value)
        how = how or f"Milliseconds, medians of {self.repeats} repeats."
        self.write(f"{description}\n{facts}\n{how}")

    def write(self, text: str) -> None:
        sys.stdout.write(text + "\n")
        sys.stdout.flush()

    def compare(self, title: str, cases: Cases) -> None:
        """Measure the contenders of each case and print one row per case."""
        rows = []
        for case, contenders in cases.items():
            seconds = measure(contenders, self.repeats)
            ratio = ratios(seconds)
            self._records.append(
                {"title": title, "case": case, "seconds": seconds, "ratios": ratio}
            )
            row = {title: case, **{name: f"{1e3 * t:.2f}" for name, t in seconds.items()}}
            rows.append(row | {name: f"{value:.1f}x" for name, value in ratio.items()})
        self.write("\n" + table(rows))

    def keep(self, title: str, **facts: object) -> None:
        """Keep figures that are no comparison for the JSON file."""
        self._records.append({"title": title, "case": "", "seconds": {}, "ratios": {}, **facts})

    def note(self, title: str, **facts: object) -> None:
        """Keep figures that are no comparison for the JSON file, and print them."""
        self.keep(title, **facts)
        self.write(f"\n{title}\n" + "\n".join(f"  {name}: {fact}" for name, fact in facts.items()))

    def finish(self) -> None:
        if self._path is not None:
            report = {"environment": environment(), "records": self._records}
            self._path.write_text(json.dumps(report, indent=1) + "\n")
