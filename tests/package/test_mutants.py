"""Faults that ``tests/mutants.py`` plants are still to be had."""

from pathlib import Path

import pytest

from mutants import MUTANTS, SOURCE, places


@pytest.mark.skipif(not SOURCE.is_dir(), reason="no source beside the tests")
def test_every_fault_has_its_one_place_and_tests_that_exist():
    assert [(m.file, places(m)) for m in MUTANTS] == [(m.file, 1) for m in MUTANTS]
    tests = Path(__file__).parents[1]
    assert all((tests / name).exists() for mutant in MUTANTS for name in mutant.tests)
    packages = {path.parent.name for path in SOURCE.glob("*/__init__.py")}
    planted = {Path(mutant.file).parts[0] for mutant in MUTANTS}
    assert packages - planted <= {"dask", "onnx"}  # extras
