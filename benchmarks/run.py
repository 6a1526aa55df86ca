"""The speed table: short forms of all benchmarks, kept line by line, compared with the run before.

    python benchmarks/run.py                         # everything, 20 minutes on two quiet cores
    python benchmarks/run.py --only 'sparse|dual'    # parts whose name or subject matches
    python benchmarks/run.py --list

Every part runs in a process of its own. Each line of the file is one row of the table, written as
soon as it is measured: an interrupted run keeps its rows. Rows are compared with the last ones of
the same work on the same machine: a row is slower if all its ratios are below all those of before,
by more than a twentieth. Rows that were measured while other programs were at work are marked
``busy``, and are neither compared nor shown on the site.
"""

from __future__ import annotations

import argparse
import importlib
import json
import math
import os
import re
import signal
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

from _side_by_side import Row, environment, table
from mercer.compare import records
from mercer.datasets import DataError

HERE = Path(__file__).resolve().parent
STORED = HERE / "records" / "speed.jsonl"
PACKAGES = ("scikit-learn", "xgboost", "celer", "skglm", "thundersvm")
SLOWER = 0.95  # ratios of two runs of the same code on one machine differ by some per cent
BUSY = 0.1  # share of the processors that others may use
MOST_MINUTES = 10.0  # of a part


@dataclass(frozen=True)
class Part:
    """A script, whose ``speed_rows(quick)`` gives rows; minutes are those of two cores."""

    script: str
    subject: str
    minutes: float


PARTS = (
    Part("sparse", "L1 on bins and Fourier features against LIBLINEAR, celer, skglm", 4.0),
    Part("sparse_machine", "rounds of SparseKernelClassifier", 1.5),
    Part("async_svrg", "asynchronous steps: rounds, memory speed", 2.0),
    Part("binning", "codes against C++, products with bins against SciPy", 1.0),
    Part("dense", "cosine and kernel blocks, fused products", 1.0),
    Part("dual", "kernel support vector machines against SVC", 2.5),
    Part("prediction", "prediction of one row and of many against XGBoost", 2.0),
    Part("startup", "import, command line, build from source", 2.5),
)


# -- the file --------------------------------------------------------------------------------------


def machine() -> dict[str, Any]:
    """What the rows of a run have in common."""
    versions = {}
    for name in PACKAGES:
        with suppress(metadata.PackageNotFoundError):
            versions[name] = metadata.version(name)
    facts = environment()
    return {
        "machine": records.environment()["machine"]["processor"],
        "cores": facts["cores"],
        "instruction_set": facts["instruction_set"],
        "versions": {name: facts[name] for name in ("mercer", "numpy", "scipy")} | versions,
    }


def line_of(part: str, row: Row, about: dict[str, Any]) -> dict[str, Any]:
    """A row as it is stored: medians in seconds, and the ratios of repeats."""
    between = row.between
    return {
        "part": part,
        "work": row.work,
        "seconds": _median(row.ours),
        "repeats": [_rounded(seconds) for seconds in row.ours],
        "peer": row.peer,
        "peer_seconds": _median(row.theirs),
        "ratio": _rounded(row.ratio),
        "between": None if between is None else [_rounded(ratio) for ratio in between],
        "target": row.target,
        "threads": row.threads,
        "note": row.note,
        **about,
    }


def _median(seconds: tuple[float, ...]) -> float | None:
    return _rounded(statistics.median(seconds)) if seconds else None


def _rounded(number: float | None) -> float | None:
    return None if number is None or not math.isfinite(number) else float(f"{number:.4g}")


def append(path: Path, line: dict[str, Any]) -> None:
    """Write a line whole, in one call; one that was cut short stays a line of its own."""
    text = json.dumps(line, ensure_ascii=False) + "\n"
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.exists() and (before := path.read_bytes()) and not before.endswith(b"\n"):
        text = "\n" + text
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(descriptor, text.encode())
    finally:
        os.close(descriptor)


def stored(path: Path) -> tuple[list[dict[str, Any]], list[int]]:
    """Rows of a file, and the numbers of lines that are none."""
    rows, broken = [], []
    text = path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""
    for number, line in enumerate(text.splitlines(), 1):
        try:
            row = json.loads(line)
            key_of(row), row["repeats"], row["between"], row["busy"]
        except (ValueError, KeyError, TypeError):
            broken += [number] if line.strip() else []
        else:
            rows.append(row)
    return rows, broken


# -- comparison ------------------------------------------------------------------------------------


def key_of(row: dict[str, Any]) -> tuple[Any, ...]:
    """What two rows must share to be comparable."""
    return tuple(
        row[name] for name in ("work", "peer", "threads", "machine", "cores", "instruction_set")
    )


def slower(before: dict[str, Any], now: dict[str, Any]) -> str | None:
    """What got slower by more than repeats differ, in words.

    Rows without a peer are compared by their seconds.
    """
    if before["between"] and now["between"]:
        if now["between"][1] < SLOWER * before["between"][0]:
            return f"{before['ratio']:.3g}x -> {now['ratio']:.3g}x"
        return None
    if before["repeats"] and now["repeats"] and slowed(before["repeats"], now["repeats"]):
        return f"{before['seconds']:.3g} s -> {now['seconds']:.3g} s"
    return None


def slowed(before: list[float], now: list[float]) -> bool:
    return SLOWER * min(now) > max(before)


def comparison(old: Iterable[dict[str, Any]], new: Iterable[dict[str, Any]]) -> list[str]:
    """One line for every row that got slower than the last one of its work, and a count."""
    last = {key_of(row): row for row in old if not row["busy"]}
    pairs = [(last[key_of(row)], row) for row in new if not row["busy"] and key_of(row) in last]
    if not pairs:
        return ["No row is comparable: none of this machine was measured while it was quiet."]
    found = [
        f"slower than on {before['date'][:10]}: {now['work']}: {change}"
        for before, now in pairs
        if (change := slower(before, now)) is not None
    ]
    return [*found, f"{len(found)} of {len(pairs)} rows got slower."]


# -- the run ---------------------------------------------------------------------------------------


def busy_share(seconds: float = 1.0) -> float | None:
    """The share of all processors at work while this one rests; None where it cannot be told."""

    def times() -> tuple[float, float]:
        numbers = [float(n) for n in Path("/proc/stat").read_text().split("\n")[0].split()[1:9]]
        return sum(numbers), numbers[3] + numbers[4]  # all, and those of no work

    try:
        all_0, idle_0 = times()
        time.sleep(seconds)
        all_1, idle_1 = times()
    except (OSError, IndexError, ValueError):
        return None
    return 1.0 - (idle_1 - idle_0) / max(all_1 - all_0, 1.0)


def rows_from(part: Part, quick: bool, limit: float) -> Iterator[Row]:
    """Rows of a part as they come, from a process that is ended at the limit in seconds."""
    command = [sys.executable, str(HERE / "run.py"), "--part", part.script]
    with subprocess.Popen(
        command + ["--quick"] * quick, stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as process:

        def end() -> None:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)

        clock = threading.Timer(limit, end)
        clock.start()
        try:
            for line in process.stdout or ():
                row = json.loads(line)
                yield Row(**row | {name: tuple(row[name]) for name in ("ours", "theirs")})
            code = process.wait()
        finally:
            clock.cancel()
            end()
    if code:
        sys.stdout.write(f"{part.script} ended with {code}: rows that are missing were not run.\n")


def print_rows(script: str, quick: bool) -> None:
    """The process of one part: its rows as lines of JSON."""

    def tell(row: Row) -> None:
        sys.stdout.write(json.dumps(asdict(row)) + "\n")
        sys.stdout.flush()

    try:
        for row in importlib.import_module(script).speed_rows(quick):
            tell(row)
    except DataError as error:
        subject = next(part.subject for part in PARTS if part.script == script)
        tell(Row(subject, (), note=str(error)))


def shown(line: dict[str, Any]) -> dict[str, str]:
    """A stored line as a row of text."""
    number = {
        name: "" if line[name] is None else f"{line[name]:.3g}{unit}"
        for name, unit in (
            ("seconds", " s"), ("peer_seconds", " s"), ("ratio", "x"), ("target", "x")
        )
    }  # fmt: skip
    verdict = ""
    if line["ratio"] is not None and line["target"] is not None:
        verdict = "reached" if line["ratio"] >= line["target"] else "missed"
    return {
        "work": line["work"],
        "threads": str(line["threads"] or "any"),
        "ours": number["seconds"],
        "peer": line["peer"],
        "peer's": number["peer_seconds"],
        "ratio": number["ratio"],
        "target": number["target"],
        "": ", ".join(filter(None, [verdict, line["note"]])),
    }


def run(parts: Iterable[Part], path: Path, quick: bool) -> list[dict[str, Any]]:
    """All rows of the parts, each stored as soon as it is there; Ctrl-C ends the run."""
    about, lines = machine(), []
    try:
        for part in parts:
            share = busy_share()
            busy = share is not None and share > BUSY
            if busy:
                sys.stdout.write(f"{part.script}: others use {share:.0%} of the processors.\n")
            limit = 60 * min(MOST_MINUTES, 3 * part.minutes)
            for row in rows_from(part, quick, limit):
                now = datetime.now(UTC).isoformat(timespec="seconds")
                line = line_of(part.script, row, {**about, "date": now, "busy": busy})
                append(path, line)
                lines.append(line)
                told = " ".join(f"{text}" for text in shown(line).values() if text)
                sys.stdout.write(told + "\n")
                sys.stdout.flush()
    except KeyboardInterrupt:
        sys.stdout.write(f"\nInterrupted: {len(lines)} rows are kept.\n")
    return lines


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", metavar="PATTERN", help="parts that match")
    parser.add_argument("--list", action="store_true", help="name the parts and end")
    parser.add_argument("--quick", action="store_true", help="tiny data: to see that all runs")
    parser.add_argument("--file", type=Path, help="where rows go (default: records/speed.jsonl)")
    parser.add_argument("--part", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.part:
        print_rows(options.part, options.quick)
        return
    pattern = re.compile(options.only, re.IGNORECASE)
    parts = [part for part in PARTS if pattern.search(f"{part.script} {part.subject}")]
    if not parts:
        parser.error(f"--only must match a part; got {options.only!r}. See --list.")
    if options.list:
        names = [{"part": p.script, "minutes": f"{p.minutes:g}", "of": p.subject} for p in parts]
        sys.stdout.write(table(names) + "\n")
        return
    path = options.file or STORED
    if options.quick and options.file is None:
        parser.error("--quick needs --file: rows of tiny data are not kept with the others.")
    before, broken = stored(path)
    if broken:
        sys.stdout.write(f"{path}: lines {broken} are no rows and are left out.\n")
    lines = run(parts, path, options.quick)
    sys.stdout.write("\n" + table(map(shown, lines)) + "\n" if lines else "No rows.\n")
    sys.stdout.write("\n".join(comparison(before, lines)) + "\n")


if __name__ == "__main__":
    main()
