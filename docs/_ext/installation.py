"""Tables of the page on installing, from pyproject.toml and the workflow that builds wheels."""

import re
import tomllib
from fnmatch import fnmatch
from importlib.metadata import version
from pathlib import Path

from docutils import nodes
from docutils.parsers.rst import Directive
from sphinx.application import Sphinx

from records import parsed, table

ROOT = Path(__file__).parents[2]
PLATFORMS = {  # system: (platform tag of its wheels, runner of the workflow that builds them)
    "Linux (glibc), x86_64": ("manylinux_x86_64", "ubuntu-latest"),
    "Linux (glibc), aarch64": ("manylinux_aarch64", "ubuntu-24.04-arm"),
    "Linux (musl, such as Alpine)": ("musllinux_x86_64", "ubuntu-latest"),
    "macOS, arm64": ("macosx_arm64", "macos-latest"),
    "macOS, x86_64": ("macosx_x86_64", "macos-15-intel"),
    "Windows, x86_64": ("win_amd64", "windows-latest"),
}


def wheels(project: dict, told: dict) -> list[list[str]]:
    """Header and rows: wheels per system; from ``wheel.py-api`` on one wheel serves all Pythons."""
    made, shared = project["tool"]["cibuildwheel"], project["tool"]["scikit-build"]["wheel"]
    text = (ROOT / ".github" / "workflows" / "wheels.yml").read_text(encoding="utf-8")
    runners, columns = re.search(r"os: \[(.*)\]", text)[1].split(", "), {}
    for build in made["build"].split():
        minor, free = re.match(r"cp3(\d+)(t?)-", build).groups()
        if free or int(minor) <= int(shared["py-api"][3:]):
            later = " and later" * build.startswith(f"{shared['py-api']}-")
            columns[f"{'free-threaded ' * bool(free)}CPython 3.{minor}{later}"] = build[:-2]
    rows = [["system", *columns]]
    for name, (tag, runner) in PLATFORMS.items():
        skips = made["skip"].split() if runner in runners else ["*"]
        cells = (any(fnmatch(f"{cp}-{tag}", skip) for skip in skips) for cp in columns.values())
        rows.append([name, *("source" if skipped else "wheel" for skipped in cells)])
    return rows


def dependencies(project: dict, told: dict) -> list[list[str]]:
    """Header and rows: oldest version allowed, and the version that this site was built with."""
    form = re.compile(r"([\w-]+)>=([\d.]+)(?:; (.*))?")
    found = (form.fullmatch(line).groups() for line in project["project"]["dependencies"])
    rows = ([name, old, f"if ``{to}``" if to else version(name)] for name, old, to in found)
    return [["package", "oldest", "this site was built with"], *rows]


def extras(project: dict, told: dict) -> list[list[str]]:
    """Header and rows: purpose, as the page tells it, and packages of each extra."""
    known = project["project"]["optional-dependencies"]
    rows = [[f"``{name}``", told[name], ", ".join(lines)] for name, lines in known.items()]
    return [["name", "for", "packages"], *rows]


def build(project: dict, told: dict) -> list[list[str]]:
    """Header and rows: tools that a build from source needs."""
    cmake = f"CMake{project['tool']['scikit-build']['cmake']['version']}"
    tools = [*project["build-system"]["requires"], cmake]
    return [["tool", "oldest"], *(line.split(">=") for line in tools)]


class InstallTable(Directive):
    """One of the tables above by its name; its lines ``name: purpose`` are of extras."""

    required_arguments, has_content = 1, True

    def run(self) -> list[nodes.Node]:
        make = {made.__name__: made for made in (wheels, dependencies, extras, build)}
        project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
        rows = make[self.arguments[0]](project, dict(line.split(": ", 1) for line in self.content))
        return parsed(self, table(rows[0], rows[1:], "install"))


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_directive("install-table", InstallTable)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
