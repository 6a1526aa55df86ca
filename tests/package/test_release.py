"""What a release states in several places is the same in all of them."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


def text(*parts):
    return ROOT.joinpath(*parts).read_text(encoding="utf-8")


def requirements(lines):
    """Names and least versions, without what is only for some systems."""
    return dict(re.fullmatch(r"([\w-]+)>=([\d.]+)(?:;.*)?", line).groups() for line in lines)


def of_recipe(section):
    """The requirements of one section of the conda recipe that name a version."""
    [block] = re.findall(
        rf"^  {section}:\n((?:    .*\n)+)", text("packaging", "conda", "recipe.yaml"), re.M
    )
    return dict(re.findall(r"- ([\w-]+) >=([\d.]+)", block))


def test_every_place_names_one_version():
    version = PROJECT["version"]
    assert f'version: "{version}"' in text("packaging", "conda", "recipe.yaml")
    assert f"\nversion: {version}\n" in text("CITATION.cff")
    if (ROOT / "studies").is_dir():
        assert f'\nversion = "{version}"\n' in text("studies", "pyproject.toml")
        assert text("studies", "LICENSE") == text("LICENSE")
    assert re.search(
        rf"^## {re.escape(version)} \(\d{{4}}-\d\d-\d\d\)$", text("CHANGELOG.md"), re.M
    )


def test_the_conda_recipe_needs_what_the_package_and_its_commands_need():
    extras = PROJECT["optional-dependencies"]
    wanted = [*PROJECT["dependencies"], *extras["skops"], *extras["cli"]]
    wanted = requirements(line for line in wanted if not line.startswith("mercer["))
    wanted["matplotlib-base"] = wanted.pop("matplotlib")  # as conda-forge splits it
    assert of_recipe("run") == wanted
    build = tomllib.loads(text("pyproject.toml"))["build-system"]["requires"]
    assert of_recipe("host") == requirements(build)


def test_every_extra_is_told_on_the_page_on_installing():
    [block] = re.findall(
        r"install-table:: extras\n\n((?:   .*\n)+)", text("docs", "start", "install.rst")
    )
    assert re.findall(r"^   (\w+): .+$", block, re.M) == list(PROJECT["optional-dependencies"])


def test_every_system_that_wheels_are_built_on_is_in_the_table_of_systems():
    [runners] = re.findall(r"os: \[(.*)\]", text(".github", "workflows", "wheels.yml"))
    table = text("docs", "_ext", "installation.py")
    assert [name for name in runners.split(", ") if f'"{name}")' not in table] == []


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.stem)
def test_workflows_name_what_they_use_by_its_commit(workflow):
    uses = re.findall(r"uses: (.*)", workflow.read_text(encoding="utf-8"))
    assert uses
    for action in uses:
        assert re.fullmatch(r"[\w./-]+@[0-9a-f]{40} # v[\d.]+", action)
