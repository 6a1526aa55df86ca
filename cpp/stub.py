"""The stub of the core: `python cpp/stub.py` compares it with the module, `--write` renews it.

Signatures and prose come from the bindings of the installed module, by nanobind's stubgen. Needs
what the extra "dev" brings; the comparison ignores how lines are broken.
"""

from __future__ import annotations

import ast
import inspect
import re
import subprocess
import sys
from pathlib import Path

STUB = Path(__file__).resolve().parents[1] / "src" / "mercer" / "_core.pyi"

# Types that signatures repeat, by the names that the stub gives them.
ALIASES = {
    "_Floats": "NDArray[np.float32 | np.float64]",
    "_Indices": "NDArray[np.int32 | np.int64]",
    "_Codes": "NDArray[np.uint8 | np.uint16 | np.uint32]",
    "_Rows": "_Floats | tuple[_Floats, _Indices, _Indices, int]",
    "_Int64s": "NDArray[np.int64]",
    "_Uint32s": "NDArray[np.uint32]",
    "_Uint64s": "NDArray[np.uint64]",
    "_Float64s": "NDArray[np.float64]",
}


def generated() -> str:
    """The stub of the module as it is, unformatted."""
    from nanobind.stubgen import StubGen

    from mercer import _core

    generator = StubGen(_core)
    generator.put(_core)
    text = generator.get()
    for name, short in (("numpy.typing.NDArray", "NDArray"), ("numpy.", "np.")):
        text = text.replace(name, short)
    for alias, meaning in ALIASES.items():
        text = text.replace(meaning, alias)
    aliases = "".join(f"{alias}: TypeAlias = {meaning}\n" for alias, meaning in ALIASES.items())
    imports = "import numpy as np\nfrom numpy.typing import NDArray\n\n"
    text = text.replace("import numpy\nimport np.typing\n", imports + aliases)
    text = text.replace("import Any, overload", "import Any, TypeAlias, overload")
    # Prose begins beside its quotes.
    return re.sub(r'^( *)"""\n +(?=\S)', r'\1"""', text, flags=re.M)


def meaning_of(stub: str) -> str:
    """What a stub says, however its lines are broken."""
    tree = ast.parse(stub)
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            node.value = inspect.cleandoc(node.value).strip()
    return ast.dump(tree)


def main() -> None:
    text = generated()
    if "--write" in sys.argv[1:]:
        command = ["ruff", "format", "--quiet", "--stdin-filename", STUB, "-"]
        done = subprocess.run(command, input=text, capture_output=True, text=True, check=True)
        STUB.write_text(done.stdout)
    elif meaning_of(text) != meaning_of(STUB.read_text()):
        sys.exit(f"{STUB} differs from the core: python cpp/stub.py --write.")


if __name__ == "__main__":
    main()
