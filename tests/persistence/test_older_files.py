"""Model files of older versions load and predict what they did.

The folder ``files_0_3_0`` holds the models of ``tests/_zoo.py`` as version 0.3.0 wrote them, and
the first numbers of their predictions.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from _zoo import data_of
from mercer import persistence

FOLDER = Path(__file__).with_name("files_0_3_0")
ANSWERS = json.loads((FOLDER / "answers.json").read_text())


LEFT = {
    "map-compact.skops": "mercer.maps.compact.CompactFeatures",
    "map-faded.skops": "mercer.kernels.smooth.Smooth",
    "map-stump.skops": "mercer.maps.ensembles.RandomStump",
    "map-tree.skops": "mercer.maps.ensembles.RandomTree",
    "passes.skops": "mercer.maps.ensembles.RandomTree",
}


@pytest.mark.parametrize("name", LEFT)
def test_files_of_what_left_name_the_version_that_reads_them(name):
    with pytest.raises(ValueError, match=rf"{LEFT[name]}, which .* install mercer==0\.3\.0 to"):
        persistence.load(FOLDER / name)


@pytest.mark.parametrize("name", sorted(ANSWERS.keys() - LEFT))
def test_files_of_0_3_0_predict_what_they_did(name):
    model = persistence.load(FOLDER / name)
    X = data_of(model)
    found = model.predict(X) if hasattr(model, "predict") else model.transform(X)
    found = found.toarray() if hasattr(found, "toarray") else np.asarray(found)
    found, wanted = found.ravel()[:12].tolist(), ANSWERS[name]
    if isinstance(wanted[0], str):
        assert found == wanted
    else:
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)
