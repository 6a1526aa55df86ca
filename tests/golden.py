"""Compare golden fits with the stored ones, or bit for bit with those of another revision.

    python tests/golden.py --against REVISION    # after a pure move: no bit may differ
    python tests/golden.py --write               # after a change of numbers, which the commit names

Bits depend on processor, libraries and compiler, so that two revisions are built and run on one
machine. Predictions and the settings that automatic models choose are stored, and compared by
``tests/package/test_golden.py`` on all machines.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
STORED = Path(__file__).with_name("package") / "golden.json"
PROGRAM = Path(__file__).with_name("_golden_program.py")

# Largest difference of predictions, relative to the largest prediction or 1: direct solutions
# differ by 1e-14 between processors, solvers that end at a tolerance by some 1e-6, and a search
# may end a descent one step earlier.
_DIRECT, _ITERATIVE, _AUTOMATIC = 1e-9, 1e-5, 1e-4
_ENDS_AT_A_TOLERANCE = "solver cg", "solver newton-cg", "solver row-newton", "solver smoothing"
_SETTINGS = 1e-3  # largest relative difference of numbers among settings


def bound(name: str) -> float:
    """Largest relative difference of predictions of a fit between machines."""
    if name.startswith("automatic"):
        return _AUTOMATIC
    return _ITERATIVE if name in _ENDS_AT_A_TOLERANCE else _DIRECT


def differences(name: str, found: dict[str, Any], wanted: dict[str, Any]) -> list[str]:
    """Sentences about predictions and settings of a fit that are not the wanted ones."""
    told = []
    pairs = list(zip(found["predictions"], wanted["predictions"], strict=True))
    if isinstance(pairs[0][1], str):  # classes: one may lie at a border
        wrong = sum(a != b for a, b in pairs)
        if wrong > 1:
            told.append(f"{wrong} of {len(pairs)} classes differ")
    else:
        size = max(1.0, *(abs(b) for _, b in pairs))
        most = max(abs(a - b) for a, b in pairs) / size
        if not most <= bound(name):
            told.append(f"predictions differ by {most:.1e}, more than {bound(name):.0e}")
    chosen = found.get("settings", {})
    for key, value in wanted.get("settings", {}).items():
        if not _same(chosen.get(key), value):
            told.append(f"{key} is {chosen.get(key)!r}, not {value!r}")
    return told


def _same(found: Any, wanted: Any) -> bool:
    if isinstance(wanted, float) and isinstance(found, float):
        return math.isclose(found, wanted, rel_tol=_SETTINGS)
    return bool(found == wanted)


def fits(installed: str | None = None) -> dict[str, dict[str, Any]]:
    """The golden fits of the mercer that is imported, or of the one in a folder."""
    environment = dict(os.environ)
    if installed is not None:
        environment["PYTHONPATH"] = installed
    run = subprocess.run(
        [sys.executable, str(PROGRAM)],
        env=environment, capture_output=True, text=True, check=True,
    )  # fmt: skip
    found: dict[str, dict[str, Any]] = json.loads(run.stdout)
    return found


def _built(tree: Path, folder: Path) -> str:
    """Folder of mercer, built from a tree."""
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps"]
    command += ["--no-build-isolation", "--target", str(folder), str(tree)]
    subprocess.run(command, check=True)
    return str(folder)


@contextmanager
def built_beside(revision: str) -> Generator[tuple[str, str]]:
    """Folders of mercer, built from a revision and from this tree; removed at the end."""
    with tempfile.TemporaryDirectory() as folder:
        others = Path(folder) / "tree"
        git = ["git", "-C", str(ROOT), "worktree"]
        subprocess.run([*git, "add", "--quiet", "--detach", str(others), revision], check=True)
        try:
            yield _built(others, Path(folder) / "before"), _built(ROOT, Path(folder) / "after")
        finally:
            subprocess.run([*git, "remove", "--force", str(others)], check=True)


def against(revision: str) -> dict[str, dict[str, Any]]:
    """Fits of this tree; those whose bits differ from a revision's."""
    with built_beside(revision) as folders:
        before, after = map(fits, folders)
    return {name: fit for name, fit in after.items() if fit["bits"] != before[name]["bits"]}


def main() -> int:
    """Run what the arguments ask for; 1 if bits differ."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--against", metavar="REVISION")
    parser.add_argument("--write", action="store_true")
    arguments = parser.parse_args()
    if arguments.write:
        found = {
            name: {k: v for k, v in fit.items() if k != "bits"} for name, fit in fits().items()
        }
        STORED.write_text(json.dumps(found, indent=1) + "\n")
    if arguments.against is None:
        return 0
    changed = against(arguments.against)
    sys.stdout.writelines(f"bits differ: {name}\n" for name in changed)
    return bool(changed)


if __name__ == "__main__":
    sys.exit(main())
