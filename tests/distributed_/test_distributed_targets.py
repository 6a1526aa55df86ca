"""What is known of targets from sums: their kind and the scores of a model, as of all rows."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from mercer import LocalKernelRegressor, SparseKernelRegressor
from mercer.compare.metrics import scores
from mercer.distributed import Here, Shard
from mercer.distributed.models import fit_over
from mercer.distributed.targets import DISTINCT, Scores, outline_of, scores_of

EDGES = (0, 11, 11, 60, 90)


def engine_of(y, X=None):
    X = np.zeros((len(y), 2)) if X is None else X
    return Here([Shard(X[a:b], y[a:b]) for a, b in pairwise(EDGES)], n_workers=2)


@pytest.mark.parametrize(
    "y",
    [
        np.arange(90) % 3,
        np.where(np.arange(90) % 3, "yes", "no"),
        np.linspace(0, 1, 90),
        np.arange(90) % 2 == 0,
        np.arange(90.0),
    ],
    ids=["whole", "texts", "fractions", "booleans", "floats"],
)
def test_the_outline_of_shards_is_that_of_all_rows(y):
    outline = outline_of(engine_of(y))
    assert (outline.n_rows, outline.n_inputs, outline.kind) == (90, 2, y.dtype.kind)
    np.testing.assert_array_equal(outline.distinct, np.unique(y))
    has_fraction = y.dtype.kind == "f" and (y % 1 != 0).any()
    assert (outline.fraction is not None) == has_fraction


def test_few_of_many_values_are_kept():
    y = np.arange(3.0 * DISTINCT)
    engine = Here([Shard(y[:, None], y), Shard(-y[:, None], -y)])
    assert len(outline_of(engine).distinct) == DISTINCT + 1


class Half:
    """Predicts half of the first input."""

    def __init__(self, classes=None):
        self.classes = classes

    def predict(self, X):
        half = X[:, 0] / 2
        return half if self.classes is None else self.classes[(half > 0).astype(int)]


@pytest.mark.parametrize("task", ["regression", "classification"])
def test_scores_of_shards_are_those_of_all_rows(task):
    rng = np.random.default_rng(100)
    X = rng.normal(size=(90, 2))
    classes = None if task == "regression" else np.array(["no", "yes"])
    y = X[:, 0] + rng.normal(size=90) if classes is None else classes[rng.integers(0, 2, 90)]
    model = Half(classes)
    ours, theirs = scores_of(model, engine_of(y, X), task), scores(task, y, model.predict(X))
    assert ours.keys() == theirs.keys()
    np.testing.assert_allclose(list(ours.values()), list(theirs.values()), rtol=1e-12)


def test_no_rows_have_no_scores():
    assert Scores(0).plus(Scores(0)).scores("regression") == {}


def test_models_that_cannot_be_fitted_over_shards_are_named():
    engine = engine_of(np.arange(90.0))
    with pytest.raises(TypeError, match="got SparseKernelRegressor"):
        fit_over(SparseKernelRegressor(), engine)
    with pytest.raises(ValueError, match="left out for LocalKernelRegressor, which keeps none"):
        fit_over(LocalKernelRegressor(), engine, checkpoint="kept")
