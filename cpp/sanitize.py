"""Runs the core under the sanitizers: `python cpp/sanitize.py [address] [thread]`, or both.

With the address and undefined-behaviour sanitizers, `mercer_check` at every instruction-set level
that the processor has and, in Python, the tests of the core and those that break models; with the
thread sanitizer `mercer_check`. Needs GCC on Linux, and what the extra "dev" brings.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BUILD = ROOT / "build"
LEVELS = ("x86-64-v2", "x86-64-v3", "x86-64-v4")
TESTS = ROOT / "tests" / "core"
STRICT = "halt_on_error=1:abort_on_error=0:exitcode=99"


def step(text: str) -> None:
    sys.stdout.write(f"== {text} ({time.monotonic() - START:.0f}s) ==\n")
    sys.stdout.flush()


def run(command: list[str | Path], **settings: str) -> None:
    done = subprocess.run(command, cwd=ROOT, env={**os.environ, **settings}, check=False)
    if done.returncode:
        named = " ".join(str(part) for part in command[:4])
        sys.exit(f"sanitize: {named} ... ended with exit code {done.returncode}.")


def tool(name: str) -> str:
    """The program of the environment this Python belongs to, or of the path."""
    beside = Path(sys.executable).parent / name
    found = str(beside) if beside.exists() else shutil.which(name)
    if not found:
        sys.exit(f"sanitize needs {name}: pip install '.[dev]'.")
    return found


def build(preset: str) -> Path:
    step(f"build {preset}")
    nanobind = subprocess.check_output([sys.executable, "-m", "nanobind", "--cmake_dir"], text=True)
    configure = [
        tool("cmake"), "--preset", preset, "-G", "Ninja", f"-DCMAKE_MAKE_PROGRAM={tool('ninja')}",
        f"-DPython_EXECUTABLE={sys.executable}", f"-Dnanobind_DIR={nanobind.strip()}",
    ]  # fmt: skip
    run(configure)
    run([tool("cmake"), "--build", BUILD / preset])
    return BUILD / preset


def levels(check: Path) -> list[str]:
    """Those that this processor has: the check refuses the others before it does anything."""
    usable = []
    for level in LEVELS:
        said = subprocess.run(
            [check, "--level"], env={**os.environ, "MERCER_ISA": level}, capture_output=True,
            check=False,
        )  # fmt: skip
        if said.returncode == 0:
            usable.append(level)
    return usable


def package(build: Path) -> Path:
    """The package with the core of this build, to be found before any other."""
    place = build / "python"
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(
        ROOT / "src" / "mercer",
        place / "mercer",
        ignore=shutil.ignore_patterns("*.so", "__pycache__"),
    )
    for module in build.glob("_core*.so"):
        shutil.copy(module, place / "mercer")
    # An editable installation puts its own copy first, wherever the path says the package is.
    (place / "sitecustomize.py").write_text(
        "import sys\n"
        "sys.meta_path[:] = [f for f in sys.meta_path if 'Redirect' not in type(f).__name__]\n"
    )
    return place


def library(name: str) -> str:
    return subprocess.check_output(["g++", f"-print-file-name={name}"], text=True).strip()


def address() -> None:
    made = build("asan")
    settings = {
        "ASAN_OPTIONS": f"detect_leaks=0:{STRICT}:allocator_may_return_null=1",
        "UBSAN_OPTIONS": f"print_stacktrace=1:{STRICT}",
    }
    for level in levels(made / "mercer_check") or [""]:
        step(f"check, addresses, {level}")
        run([made / "mercer_check"], MERCER_ISA=level, **settings)
    place = package(made)
    settings |= {
        "LD_PRELOAD": f"{library('libasan.so')} {library('libubsan.so')} {library('libstdc++.so')}",
        "PYTHONMALLOC": "malloc",
        "PYTHONPATH": str(place),
        "OPENBLAS_NUM_THREADS": "1",
        "OMP_NUM_THREADS": "1",
    }
    where = (
        "from mercer import _core; import sys; sys.exit(not _core.__file__.startswith(sys.argv[1]))"
    )
    step("tests of the core, addresses")
    run([sys.executable, "-c", where, str(place)], **settings)
    run([sys.executable, "-m", "pytest", "-n", "auto", "-m", "", "-q", "-x", TESTS], **settings)


def thread() -> None:
    made = build("tsan")
    step("check, threads")
    # The address space is laid out in a way that old runtimes of the sanitizer know.
    run([tool("setarch"), "-R", made / "mercer_check"], TSAN_OPTIONS=STRICT)


if __name__ == "__main__":
    START = time.monotonic()
    wanted = sys.argv[1:] or ["address", "thread"]
    for name in wanted:
        if name not in ("address", "thread"):
            sys.exit(f"sanitize knows address and thread; got {name}.")
        {"address": address, "thread": thread}[name]()
    step("no reports")
