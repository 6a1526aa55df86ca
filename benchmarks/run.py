"""Whole tasks beside their peers: seconds, error and memory, a line of JSON for every run.

    python benchmarks/run.py                       # everything: half an hour on two quiet cores
    python benchmarks/run.py --only 'ridge|exact'  # tasks whose name matches
    python benchmarks/run.py --list

Every run has a process of its own, which is ended at a limit. A run is written to the file as soon
as it is measured. At the end, runs of mercer are compared with the last ones of the same task on
the same machine. Runs while other programs were at work are marked ``busy``; they are neither
compared nor shown on the site. Peers that are not installed, and data that are not at hand, are
named and left out.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

from _side_by_side import environment
from mercer.compare import records
from whole_tasks import OURS, TASKS, Task

HERE = Path(__file__).resolve().parent
STORED = HERE / "records" / "whole-tasks.jsonl"
PACKAGES = ("scikit-learn", "lightgbm", "xgboost", "catboost", "flaml", "celer", "torch", "dask")
SLOWER = 1.25  # seconds of one run differ by some tenths between runs of the same code
BUSY = 0.1  # share of the processors that others may use
LIMIT = 300.0  # seconds of a run

Run = dict[str, Any]


def about() -> dict[str, Any]:
    """What all runs of a day have in common."""
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
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def append(path: Path, run: Run) -> None:
    """Write a line whole, in one call; one that was cut short stays a line of its own."""
    text = json.dumps(run, ensure_ascii=False) + "\n"
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.exists() and (before := path.read_bytes()) and not before.endswith(b"\n"):
        text = "\n" + text
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(descriptor, text.encode())
    finally:
        os.close(descriptor)


def stored(path: Path) -> tuple[list[Run], list[int]]:
    """Runs of a file, and the numbers of lines that are none."""
    runs, broken = [], []
    text = path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""
    for number, line in enumerate(text.splitlines(), 1):
        try:
            run = json.loads(line)
            key_of(run), run["busy"], run["versions"], run["aims"]
        except (ValueError, KeyError, TypeError):
            broken += [number] if line.strip() else []
        else:
            runs.append(run)
    return runs, broken


def key_of(run: Run) -> tuple[Any, ...]:
    """What two runs must share to be comparable."""
    return tuple(
        run[name] for name in ("task", "rows", "method", "machine", "cores", "instruction_set")
    )


def comparison(old: Iterable[Run], new: Iterable[Run]) -> list[str]:
    """A sentence on every run of ours that got worse since the last, and a count."""
    last = {key_of(run): run for run in old if not run["busy"]}
    pairs = [
        (last[key_of(run)], run)
        for run in new
        if not run["busy"] and run["method"].startswith(OURS) and key_of(run) in last
    ]
    if not pairs:
        return ["No run is comparable: none of this machine was measured while it was quiet."]
    found = [
        f"{change} than on {before['date'][:10]}: {now['task']}, {now['rows']} rows, {told}"
        for before, now in pairs
        for change, told in changes(before, now)
    ]
    return [*found, f"{len(found)} figures of {len(pairs)} runs got worse."]


def changes(before: Run, now: Run) -> Iterator[tuple[str, str]]:
    for name, most, change in (
        ("fit", SLOWER, "slower"),
        ("predict", SLOWER, "slower"),
        ("error", 1.01, "less accurate"),
    ):
        old, new = before.get(name), now.get(name)
        if old is not None and new is not None and new > most * old:
            yield change, f"{name} {old:.3g} -> {new:.3g}"


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


def measured(task: Task, rows: int, method: str, seconds: float, limit: float) -> Run:
    """Facts of one run in a process of its own, or why there are none."""
    where = [sys.executable, str(HERE / "run.py"), "--one", task.name, str(rows), method]
    try:
        done = subprocess.run(
            [*where, str(seconds)], capture_output=True, text=True, timeout=limit, check=False
        )
    except subprocess.TimeoutExpired:
        return {"note": f"ended at {limit:.0f} s"}
    if done.returncode:
        last = (done.stderr.strip().splitlines() or [f"ended with {done.returncode}"])[-1]
        return {"note": last[:200]}
    facts: Run = json.loads(done.stdout.splitlines()[-1])
    return facts


def one(name: str, rows: str, method: str, seconds: str) -> None:
    """The process of one run: its facts as a line of JSON."""
    task = next(task for task in TASKS if task.name == name)
    settings = {"seconds": float(seconds)} if float(seconds) else {}
    facts = task.run(method, int(rows), **settings)
    facts["peak_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    rounded = {k: float(f"{v:.4g}") if isinstance(v, float) else v for k, v in facts.items()}
    sys.stdout.write(json.dumps(rounded) + "\n")


def runs_of(task: Task, limit: float, most_rows: int) -> Iterator[Run]:
    """Runs of all methods of a task at all sizes."""
    for rows in task.sizes:
        ours: Run = {}
        for method in task.methods:
            if rows > min(task.most.get(method, rows), most_rows):
                continue
            share = busy_share()
            seconds = ours.get("fit", 0.0) if "as budget" in method else 0.0
            facts = measured(task, rows, method, seconds, limit)
            ours = ours or facts
            aims = [
                [aim.peer, aim.factor, aim.measure]
                for aim in task.aims
                if aim.method == method and aim.rows in (None, rows)
            ]
            busy = share is not None and share > BUSY
            yield {
                "task": task.name, "rows": rows, "method": method, **facts, "aims": aims,
                "busy": busy,
            }  # fmt: skip


def shown(run: Run) -> str:
    figures = [
        f"{name} {run[name]:.4g}" for name in ("fit", "predict", "error", "peak_mb") if name in run
    ]
    figures += [run["note"]] if "note" in run else []
    figures += ["busy"] if run["busy"] else []
    return f"{run['task']}, {run['rows']} rows, {run['method']}: {', '.join(figures)}"


def main(arguments: list[str] | None = None) -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="a pattern of names of tasks")
    parser.add_argument("--list", action="store_true", help="print the tasks and end")
    parser.add_argument("--file", type=Path, default=STORED, help="of the runs")
    parser.add_argument("--limit", type=float, default=LIMIT, help="seconds of a run")
    parser.add_argument("--most-rows", type=int, default=10**9, help="leave out larger sizes")
    parser.add_argument("--one", nargs=4, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.one:
        one(*options.one)
        return
    tasks = [task for task in TASKS if re.search(options.only, task.name)]
    if not tasks:
        parser.error(f"--only must match a task; got {options.only!r}, see --list")
    if options.list:
        for task in tasks:
            sizes = ", ".join(f"{rows:,}".replace(",", " ") for rows in task.sizes)
            sys.stdout.write(f"{task.name}: {sizes} rows; {', '.join(task.methods)}\n")
        return
    before, broken = stored(options.file)
    if broken:
        sys.stdout.write(f"{options.file}: lines {broken} hold no run and are left out.\n")
    common, new = about(), []
    try:
        for task in tasks:
            for run in runs_of(task, options.limit, options.most_rows):
                new.append(run | common)
                append(options.file, new[-1])
                sys.stdout.write(shown(run) + "\n")
                sys.stdout.flush()
    except KeyboardInterrupt:
        sys.stdout.write(f"Interrupted: {len(new)} runs are kept.\n")
    sys.stdout.write("\n".join(comparison(before, new)) + "\n")


if __name__ == "__main__":
    main()
