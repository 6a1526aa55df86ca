"""The distribution as a whole: its examples run, and mercer finds its commands."""

import doctest
import importlib
import pkgutil
from importlib.metadata import entry_points

import pytest

import mercer_studies
from mercer.cli.app import app

MODULES = sorted(
    module.name for module in pkgutil.walk_packages(mercer_studies.__path__, "mercer_studies.")
)


@pytest.mark.parametrize("name", MODULES)
def test_examples_in_docstrings_run(name):
    assert doctest.testmod(importlib.import_module(name)).failed == 0


def test_its_commands_stand_beside_those_of_the_library():
    added = {entry.name for entry in entry_points(group="mercer.commands")}
    assert added >= {"reproduce", "report"}
    assert added <= {command.callback.__name__ for command in app.registered_commands}
