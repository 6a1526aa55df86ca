"""Start-up: ``import mercer``, the command line's help, and a small prediction from a model file.

Every command is a process of its own. Beside each stand those that it cannot be faster than: an
empty Python, and the packages that help (typer) and a prediction need (scikit-learn, PyArrow).
These import pandas and Dask where they are installed: an environment of mercer[cli] alone says
most. Modules are compiled once, into a folder that is thrown away, as an installation keeps them
compiled. With ``--build`` a wheel is built from these sources too, in an empty folder; its seconds
and the size of the core are printed.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np

from _side_by_side import Benchmark

ROOT = Path(__file__).resolve().parents[1]
CLI = "from mercer.cli import main; main()"
BUILD = "pip wheel, from nothing"
GOALS = {"import": 0.35, "help": 0.15, "predict": 0.6}  # seconds
_NEVER_COMPILED = "PYTHONDONTWRITEBYTECODE"
NEEDED = "import sklearn.base, sklearn.pipeline, pyarrow.csv"


def process(folder: Path, code: str, *arguments: object) -> Callable[[], object]:
    """Run code with arguments as a process of its own, with modules compiled in a folder."""
    command = [sys.executable, "-c", code, *map(str, arguments)]
    kept = {name: value for name, value in os.environ.items() if name != _NEVER_COMPILED}
    kept["PYTHONPYCACHEPREFIX"] = str(folder / "compiled")
    return partial(subprocess.run, command, check=True, capture_output=True, env=kept)


def write_rows(path: Path, n: int) -> None:
    """A table of numbers: five inputs and a target."""
    rng = np.random.default_rng(100)
    X = rng.normal(size=(n, 5))
    rows = np.column_stack([X, np.sin(X[:, 0]) + X[:, 1] + 0.1 * rng.normal(size=n)])
    np.savetxt(path, rows, delimiter=",", header="a,b,c,d,e,y", comments="")


def commands(folder: Path) -> dict[str, dict[str, Callable[[], object]]]:
    """Processes by what they do."""
    run = partial(process, folder)
    many, few, out = folder / "many.csv", folder / "few.csv", folder / "predicted.csv"
    write_rows(many, 500)
    write_rows(few, 10)
    made = {"given settings": ["--map", "binning"], "automatic": []}
    for name, how in made.items():
        run(CLI, "fit", many, "--target", "y", *how, "--out", folder / f"{name}.skops")()
    empty, typer, needed = run("pass"), run("import typer"), run(NEEDED)
    cases = {"import mercer": {"mercer": run("import mercer"), "Python": empty}}
    for words in (["--help"], ["fit", "--help"]):
        runs = {"mercer": run(CLI, *words), "Python": empty, "typer": typer}
        cases[" ".join(["mercer", *words])] = runs
    for name in made:
        model = folder / f"{name}.skops"
        cases[f"mercer predict, ten rows, {name}"] = {
            "mercer": run(CLI, "predict", model, few, "--out", out),
            "Python": empty,
            "scikit-learn, PyArrow": needed,
        }
    return cases


def build(folder: Path) -> tuple[float, dict[str, float]]:
    """Seconds of a build of the wheel, and its size and that of the core in MB."""
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", ROOT, "-w", folder]
    start = time.perf_counter()
    subprocess.run([*command, f"-Cbuild-dir={folder / 'build'}"], check=True)
    seconds = time.perf_counter() - start
    [wheel] = folder.glob("mercer-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        core = next(m for m in archive.infolist() if m.filename.startswith("mercer/_core."))
    sizes = {"wheel": wheel.stat().st_size, "core": core.file_size}
    return seconds, {f"{name}, MB": round(size / 1e6, 2) for name, size in sizes.items()}


def main() -> None:
    benchmark = Benchmark(
        "Start-up of the package and its command line.",
        lambda parser: parser.add_argument("--build", action="store_true", help="build it too"),
    )
    with tempfile.TemporaryDirectory() as folder:
        benchmark.compare("process", commands(Path(folder)))
        if benchmark.options.build:
            seconds, megabytes = build(Path(folder))
            benchmark.note(BUILD, seconds=round(seconds, 1), **megabytes)
    benchmark.finish()


if __name__ == "__main__":
    main()
