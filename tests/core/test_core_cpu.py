"""Instruction-set levels: chosen at run time, apart from one another at build time."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from _core_twins import LEVELS, run_at_level
from mercer import _core
from mercer._runtime.threads import flushed_denormals

SOURCES = Path(__file__).resolve().parents[2] / "cpp"


def test_the_level_used_is_the_best_compiled_one_that_the_processor_knows():
    info = _core.cpu_info()
    assert info["used"] in info["compiled"]
    assert info["architecture"]
    if os.environ.get("MERCER_ISA"):
        assert info["used"] == os.environ["MERCER_ISA"]
    elif "x86-64-v4" in info["compiled"] and "avx512vl" in info["features"]:
        assert info["used"] == "x86-64-v4"


@pytest.mark.parametrize("level", LEVELS)
def test_the_environment_lowers_the_level(level):
    assert run_at_level(level, "result = _core.cpu_info()['used']") == level


def test_an_unknown_level_is_refused_at_import():
    with pytest.raises(RuntimeError, match=r"MERCER_ISA must be one of .* got mmx"):
        run_at_level("mmx", "result = 0")


@pytest.mark.skipif(platform.machine() != "x86_64", reason="levels are of x86-64")
@pytest.mark.skipif(not SOURCES.is_dir(), reason="needs the sources")
@pytest.mark.skipif(not (shutil.which("c++") and shutil.which("nm")), reason="needs a compiler")
@pytest.mark.parametrize("part", ["exact", "dense", "kernels", "factor"])
def test_the_loops_of_a_level_share_no_symbol_with_others(part, tmp_path):
    """A weak symbol of one level could be linked in place of another level's."""
    flags = ["-std=c++20", "-O0", "-fno-exceptions", "-march=x86-64-v4", "-DMERCER_LEVEL=v4", "-c"]
    flags += [f"-I{SOURCES / folder}" for folder in ("compute", "loops")]
    target = tmp_path / "loops.o"
    source = str(SOURCES / "loops" / f"{part}.cpp")
    subprocess.run(["c++", *flags, source, "-o", target], check=True)
    listing = subprocess.run(
        ["nm", "--extern-only", "--defined-only", "--demangle", target],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    assert [line.split()[-1] for line in listing.splitlines()] == [f"mercer::{part}_loops_v4"]


def test_products_below_the_normal_numbers_are_0_where_a_thread_says_so():
    from concurrent.futures import ThreadPoolExecutor

    small = np.full(64, 1e-25, dtype=np.float32)
    with flushed_denormals():
        assert _core.flush_denormals(True) in (True, False)
        flushed = small * np.float32(1e-15)
    with ThreadPoolExecutor(1) as pool:
        kept = pool.submit(lambda: small * np.float32(1e-15)).result()
    assert (kept > 0).all()
    assert (small * np.float32(1e-15) > 0).all()
    if _core.cpu_info()["architecture"] in ("x86-64", "x86_64"):
        np.testing.assert_array_equal(flushed, 0.0)
