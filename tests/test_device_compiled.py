"""Triton's kernels are compiled for GPUs that need not be here, and fit into registers."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

triton = pytest.importorskip("triton")
if os.environ.get("TRITON_INTERPRET") == "1":
    pytest.skip("Triton interprets here", allow_module_level=True)

from triton.backends.compiler import GPUTarget  # noqa: E402
from triton.compiler import ASTSource  # noqa: E402

from mercer.designs.on_device import fused  # noqa: E402

TOOLS = Path(triton.__file__).parent / "backends" / "nvidia" / "bin"
NUMBERS = {"n": "i32", "m": "i32", "d": "i32", "width": "i32", "span": "i32"} | dict.fromkeys(
    ("parameter", "share", "steep", "less"), "fp32"
)
MOST_SPILLED = 64  # bytes of a thread


def compiled(function, types, constants, architecture, **options):
    """The machine code of a function of Triton."""
    names = function.arg_names
    divisible = [name for name in types if types[name][0] == "*" or name in ("n", "m", "width")]
    source = ASTSource(
        fn=function,
        signature={name: types.get(name, "constexpr") for name in names},
        constexprs=constants,
        attrs={(names.index(name),): [["tt.divisibility", 16]] for name in divisible},
    )
    target = GPUTarget("cuda", architecture, 32)
    return triton.compile(source, target=target, options=options).asm["cubin"]


def resources(cubin, folder):
    """Registers of a thread, and bytes that it keeps beside them."""
    path = folder / "kernel.cubin"
    path.write_bytes(cubin)
    run = subprocess.run(
        [TOOLS / "cuobjdump", "-res-usage", path], capture_output=True, text=True, check=True
    )
    return tuple(int(re.search(rf"{name}:(\d+)", run.stdout)[1]) for name in ("REG", "STACK"))


@pytest.mark.skipif(not (TOOLS / "cuobjdump").exists(), reason="needs the assembler for NVIDIA")
@pytest.mark.parametrize("architecture", [80, 90])
@pytest.mark.parametrize(
    ("kind", "inputs", "width"),
    [("laplacian", 10, 1), ("cauchy", 10, 16), ("gaussian", 16, 1), ("gaussian", 128, 64)],
)
def test_fused_products_are_compiled_and_fit_into_registers(
    kind, inputs, width, architecture, tmp_path, monkeypatch
):
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    direct = kind in ("laplacian", "cauchy")
    whole = ("x", "y", "units", "squares", "their_units", "their_squares", "scales")
    halves = ("high", "low", "highs", "lows")
    types = dict.fromkeys(whole, "*fp32") | dict.fromkeys(halves, "*fp16")
    types |= dict.fromkeys(("w", "w_low"), "*fp32" if width == 1 else "*fp16")
    constants = {
        "KIND": fused._KINDS[kind], "SHORT": width > 1, "DIRECT": direct, "UNIFORM": True,
        "WIDTH": width, "ROWS": 128 if direct and width == 1 else 64, "COLUMNS": fused._COLUMNS,
        "INPUTS": min(inputs, fused._INPUTS), "SINGLE": inputs <= fused._INPUTS,
        "FLUSH": fused._FLUSH,
    }  # fmt: skip
    types |= {"out": "*fp64"} | NUMBERS
    cubin = compiled(fused._product, types, constants, architecture, **fused._OPTIONS)
    registers, spilled = resources(cubin, tmp_path)
    assert registers <= 255
    assert spilled <= MOST_SPILLED
