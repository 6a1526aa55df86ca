"""What the documentation names exists: names in code font, extras, files that are linked to.

Roles such as ``:class:`` are left to Sphinx.
"""

import builtins
import importlib
import re
import tomllib
from functools import cache
from pathlib import Path

import pytest
import sklearn.exceptions
from sklearn.utils import all_estimators
from typer.main import get_command

import mercer
from mercer.cli.app import app

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("**/*.rst"))]
PAGES += [*sorted((ROOT / "docs").glob("**/*.md")), ROOT / "CONTRIBUTING.md"]
PAGES = [page for page in PAGES if not {"generated", "gallery"} & set(page.relative_to(ROOT).parts)]
MODULES = [
    "datasets",
    "designs",
    "diagnostics",
    "kernels",
    "losses",
    "maps",
    "penalties",
    "persistence",
    "solvers",
    "statistics",
    "unsupervised",
]
# Of other libraries, on the pages about moving from them; of the inside, for contributors.
OTHERS = {"LogisticFalkon", "FalkonOptions", "MaternKernel", "GaussianLikelihood"}
OTHERS |= {"FeatureSequence", "MapLaws"}

CODE = re.compile(r"``([^`\n]+)``|(?<![:`\w])`([^`\n]+)`(?![`_])")
CAMEL = re.compile(r"(?<![\w.])(?:[A-Z][a-z0-9]+){2,}(?![\w.])")
DOTTED = re.compile(r"\bmercer(?:\.[A-Za-z]\w*)+")
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]+")
LINK = re.compile(r"\]\((?!https?:|mailto:|#)([^)#\s]+)")
EXTRA = re.compile(r"(?:mercer|\.)\[([a-z,]+)\]")

pytestmark = pytest.mark.skipif(
    not (ROOT / "benchmarks").is_dir(), reason="needs the whole repository"
)


def in_code(page: Path, pattern: re.Pattern) -> set[str]:
    """What matches in code font."""
    texts = (match[1] or match[2] for match in CODE.finditer(page.read_text(encoding="utf-8")))
    return {name for text in texts for name in pattern.findall(text)}


@cache
def classes() -> set[str]:
    public = {name for module in MODULES for name in exported(f"mercer.{module}")}
    known = {name for name, _ in all_estimators()} | {*dir(builtins), *dir(sklearn.exceptions)}
    return public | {*mercer.__all__} | known | OTHERS


def exported(module: str) -> list[str]:
    return importlib.import_module(module).__all__


@cache
def options() -> set[str]:
    """Those of the commands, and whatever scripts beside the package take."""
    commands = get_command(app).commands.values()
    known = {name for c in commands for p in c.params for name in p.opts} | {"--help"}
    scripts = [*(ROOT / "benchmarks").glob("*.py"), *(ROOT / "cpp").glob("*.py")]
    scripts += (ROOT / "tests").glob("*.py")
    scripts += (ROOT / "studies").glob("src/**/*.py")
    for script in scripts:
        known.update(re.findall(r'"(--[a-z-]+)"', script.read_text(encoding="utf-8")))
    return known


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_names_in_code_font_exist(page):
    assert in_code(page, CAMEL) - classes() == set()
    assert in_code(page, OPTION) - options() == set()
    for name in in_code(page, DOTTED):
        home, _, last = name.rpartition(".")
        if last not in vars(importlib.import_module(home)):
            importlib.import_module(name)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_extras_that_are_named_exist(page):
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = {*project["optional-dependencies"]}
    named = EXTRA.findall(page.read_text(encoding="utf-8"))
    assert {name for names in named for name in names.split(",")} - extras == set()


@pytest.mark.parametrize("page", sorted({*ROOT.glob("*.md"), *ROOT.glob("studies/**/*.md")}))
def test_links_to_files_lead_somewhere(page):
    links = LINK.findall(page.read_text(encoding="utf-8"))
    assert [link for link in links if not (page.parent / link).exists()] == []
