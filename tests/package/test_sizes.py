"""Lines, classes and knots of the library do not grow unless a reason is given beside the number.

``sizes.csv`` holds the most there may be, a row a change, the last one in force. New scope pays
with what leaves; a row that raises a number names the reason in its last column.
"""

from __future__ import annotations

import ast
import csv
import re
from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest

import mercer

TABLE = list(csv.DictReader(Path(__file__).with_name("sizes.csv").read_text().splitlines()))
COUNTED = "lines", "classes", "any", "private", "circles"
SOURCES = Path(mercer.__file__).parent


def _strings(tree):
    """Numbers of the lines that docstrings and other strings by themselves take."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            found.update(range(node.lineno, node.end_lineno + 1))
    return found


def _is_private_reach(node):
    """Whether an expression takes an underscored name from another object than its own."""
    if not (isinstance(node, ast.Attribute) and re.match(r"_[^_]", node.attr)):
        return False
    value = node.value
    if isinstance(value, ast.Name) and value.id in ("self", "cls", "np", "os", "sys", "_core"):
        return False
    name = getattr(value.func, "id", "") if isinstance(value, ast.Call) else ""
    return name != "super"


def _imports(tree):
    """Names of the modules of the library that a module imports at its top level or below."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("mercer"):
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _n_circles(edges):
    """Groups of two and more modules that import each other, on whatever way."""
    reached = {}
    for start in edges:
        seen, todo = set(), [start]
        while todo:
            new = edges[todo.pop()] - seen
            seen |= new
            todo += new
        reached[start] = seen
    groups = {
        frozenset(other for other in reached[module] if module in reached[other])
        for module in edges
        if module in reached[module]
    }
    return sum(len(group) > 1 for group in groups)


@pytest.fixture(scope="module")
def sizes():
    total, imports = Counter(), {}
    for path in SOURCES.rglob("*.py"):
        text = path.read_text(encoding="utf8")
        tree, lines = ast.parse(text), text.splitlines()
        strings = _strings(tree)
        total["lines"] += len(lines)
        total["any"] += sum(
            bool(re.search(r"\bAny\b", line)) and number not in strings and "import" not in line
            for number, line in enumerate(lines, 1)
        )
        total["classes"] += sum(isinstance(node, ast.ClassDef) for node in ast.walk(tree))
        total["private"] += sum(map(_is_private_reach, ast.walk(tree)))
        parts = path.relative_to(SOURCES).with_suffix("").parts
        imports[".".join(("mercer", *parts)).removesuffix(".__init__")] = set(_imports(tree))
    edges = {
        module: {
            other for other in found & imports.keys()
            if other != module and not module.startswith(f"{other}.")
        }
        for module, found in imports.items()
    }  # fmt: skip
    return total | {"circles": _n_circles(edges)}


@pytest.mark.parametrize("name", COUNTED)
def test_sizes_stay_within_the_table(name, sizes):
    assert sizes[name] <= int(TABLE[-1][name]), (
        f"{name} of src/mercer: {sizes[name]}, at most {TABLE[-1][name]}: take something out, or "
        "add a row with its reason to tests/package/sizes.csv"
    )


def test_a_row_that_raises_a_number_names_its_reason():
    for before, row in pairwise(TABLE):
        raised = [name for name in COUNTED if int(row[name]) > int(before[name])]
        assert not raised or row["reason"], raised
