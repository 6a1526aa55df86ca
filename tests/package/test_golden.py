"""Fits of every solver and map predict what they did, and automatic ones choose what they did.

``python tests/golden.py --write`` stores them anew; the commit that does so says which number
changed, and why.
"""

from __future__ import annotations

import json

import pytest

from _programs import printed
from golden import STORED, differences

GOLDEN = json.loads(STORED.read_text())


@pytest.fixture(scope="module")
def found():
    return json.loads("\n".join(printed("_golden_program.py")))


def test_the_same_fits_are_made(found):
    assert found.keys() == GOLDEN.keys()


@pytest.mark.rounding
@pytest.mark.parametrize("name", GOLDEN)
def test_predictions_and_choices_are_the_stored_ones(name, found):
    assert differences(name, found[name], GOLDEN[name]) == []


@pytest.mark.parametrize("name", [name for name in GOLDEN if "settings" in GOLDEN[name]])
def test_another_choice_or_prediction_is_noticed(name):
    wanted = GOLDEN[name]
    chosen = wanted["settings"]
    for other in ({"kernel": "other"}, {"gamma": 1.01 * chosen["gamma"]}, {"ridge": None}):
        changed = wanted | {"settings": chosen | other}
        assert len(differences(name, changed, wanted)) == 1
    if not isinstance(wanted["predictions"][0], str):
        moved = [value + 2e-3 for value in wanted["predictions"]]
        assert len(differences(name, wanted | {"predictions": moved}, wanted)) == 1
