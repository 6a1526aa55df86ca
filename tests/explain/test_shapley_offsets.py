"""Base values with an offset: base and contributions give the prediction."""

import numpy as np
import pytest
from sklearn.decomposition import PCA
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from mercer import (
    AutoKernelRegressor,
    DualKernelSVC,
    KernelClassifier,
    KernelRegressor,
    LocalKernelRegressor,
)
from mercer.explain import shapley_values

RNG = np.random.default_rng(0)
X = RNG.normal(size=(200, 3))
OFFSET = 2.0 * np.cos(X[:, 1])
COUNTS = RNG.poisson(np.exp(OFFSET + np.sin(X[:, 0]))).astype(float)
SEVERAL = np.column_stack([COUNTS, X[:, 2]])
POISSON = {"loss": "poisson", "random_state": 0}


def _responses(model, rows, offset):
    """Predictions with the offset, as responses."""
    if hasattr(model, "decision_function"):
        return model.decision_function(rows, offset=offset)
    predicted = model.predict(rows, offset=offset)
    return np.log(predicted) if getattr(model, "loss", "") == "poisson" else predicted


@pytest.mark.parametrize(
    ("model", "y", "unit"),
    [
        (KernelRegressor("exact"), COUNTS, "target"),
        (KernelRegressor("exact"), SEVERAL, "target"),
        (KernelRegressor("fourier", **POISSON), COUNTS, "logarithm of the mean"),
        (KernelClassifier(loss="logistic", random_state=0), COUNTS > 2, "decision function"),
        (LocalKernelRegressor(leaf_size=60, random_state=0), COUNTS, "target"),
        (AutoKernelRegressor(random_state=0), COUNTS, "target"),
    ],
)
def test_base_and_contributions_are_the_prediction(model, y, unit):
    model.fit(X, y, offset=OFFSET)
    settings = {"background": X[:20], "max_evaluations": 50}
    found = shapley_values(model, X[:9], offset=OFFSET[:9], **settings)
    plain = shapley_values(model, X[:9], offset=0, **settings)
    np.testing.assert_array_equal(found.values, plain.values)
    assert found.base_values.shape == (9, *np.shape(y)[1:])
    assert (found.unit, found.has_interactions) == (unit, False)
    sums = found.base_values + found.values.sum(axis=1)
    np.testing.assert_allclose(sums, _responses(model, X[:9], OFFSET[:9]), rtol=1e-4, atol=1e-4)
    of_rows = np.moveaxis(found.base_values - plain.base_of_rows, 0, -1)
    np.testing.assert_allclose(of_rows, np.broadcast_to(OFFSET[:9], of_rows.shape), atol=1e-12)


def test_means_behind_steps_that_mix_columns_are_explained_as_logarithms():
    model = make_pipeline(StandardScaler(), PCA(2), KernelRegressor("exact", loss="poisson"))
    model.fit(X, COUNTS, kernelregressor__offset=OFFSET)
    found = shapley_values(model, X[:5], X[:20], offset=OFFSET[:5], max_evaluations=50)
    assert found.unit == "logarithm of the mean"
    sums = found.base_values + found.values.sum(axis=1)
    np.testing.assert_allclose(np.exp(sums), model.predict(X[:5], offset=OFFSET[:5]), rtol=1e-6)


def test_interactions_and_outputs_have_the_base_of_their_row():
    model = KernelRegressor("exact").fit(X, SEVERAL, offset=OFFSET)
    found = shapley_values(model, X[:5], X[:20], interactions=True, offset=OFFSET[:5])
    assert found.has_interactions
    assert found.base_values.shape == (5, 2)
    one = found.of_output(1)
    assert one.has_interactions
    sums = one.base_values + one.values.sum(axis=(1, 2))
    np.testing.assert_allclose(sums, model.predict(X[:5], offset=OFFSET[:5])[:, 1], atol=1e-8)


@pytest.mark.parametrize(
    ("model", "y", "offset", "words"),
    [
        (KernelRegressor("exact"), COUNTS, OFFSET[:4], "a number for each of the 9 rows"),
        (DualKernelSVC(), COUNTS > 2, OFFSET[:9], "offset must be None for a DualKernelSVC"),
        (
            AutoKernelRegressor(random_state=0),
            np.exp(3 * X[:, 0]),
            OFFSET[:9],
            "offset must be None for a model that takes logarithms",
        ),
    ],
)
def test_refusals(model, y, offset, words):
    model.fit(X, y)
    with pytest.raises(ValueError, match=words):
        shapley_values(model, X[:9], X[:20], offset=offset)
