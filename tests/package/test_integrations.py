"""Models in the hands of MLflow and SHAP; skipped where these are not installed."""

import re
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from mercer import KernelClassifier, KernelRegressor, persistence
from mercer.explain import shapley_values


def table(n=60):
    """Numbers with gaps, texts, dates and counts, and targets that follow the first two."""
    rng = np.random.default_rng(100)
    frame = pd.DataFrame(
        {
            "size": np.where(np.arange(n) == 3, np.nan, rng.normal(size=n)),
            "city": rng.choice(np.array(["Bonn", "Rome", None], dtype=object), n),
            "day": pd.date_range("2020-01-01", periods=n),
            "rooms": rng.integers(1, 6, n),
            "floor": rng.integers(0, 4, n),
        }
    )
    return frame, frame["size"].fillna(0.0).to_numpy() + 2 * (frame["city"] == "Rome")


# -- MLflow ----------------------------------------------------------------------------------


@pytest.fixture
def flavour():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pytest.importorskip("mlflow", exc_type=ImportError)
        return pytest.importorskip("mlflow.sklearn", exc_type=ImportError)


@pytest.mark.parametrize("way", ["cloudpickle", "skops"])
@pytest.mark.parametrize(
    "model",
    [KernelRegressor("binning", random_state=0), KernelClassifier("exact", loss="logistic")],
    ids=["binning", "exact"],
)
@pytest.mark.filterwarnings("ignore")
def test_mlflow_gives_back_the_model_it_saved(flavour, model, way, tmp_path):
    X = np.random.default_rng(100).normal(size=(60, 3))
    model.fit(X, X[:, 0] > 0)
    trusted = {"skops_trusted_types": persistence.trusted_types()} if way == "skops" else {}
    flavour.save_model(
        model, tmp_path / "model", serialization_format=way, pip_requirements=["mercer"], **trusted
    )
    again = flavour.load_model(tmp_path / "model")
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    assert again.get_params() == model.get_params()


# -- SHAP ------------------------------------------------------------------------------------


@pytest.fixture
def shap():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pytest.importorskip("shap", exc_type=ImportError)


@pytest.mark.filterwarnings("ignore")
def test_shap_values_of_predictions_add_up(shap):
    X = np.random.default_rng(100).normal(size=(60, 3))
    model = KernelRegressor("binning", random_state=0).fit(X, X[:, 0])
    values = shap.Explainer(model.predict, X[:10])(X[:2])
    np.testing.assert_allclose(values.base_values + values.values.sum(axis=1), model.predict(X[:2]))
    assert abs(values.values[:, 0]).min() > abs(values.values[:, 1:]).max()


@pytest.mark.filterwarnings("ignore")
def test_shap_reads_the_coefficients_of_linear_models_alone(shap):
    X = np.random.default_rng(100).normal(size=(60, 3)) * [1.0, 10.0, 0.1] + 5
    y = X @ [1.0, 0.1, 0.0]
    model = KernelRegressor("linear", alpha=1e-9).fit(X, y)
    explainer = shap.Explainer(model, X)
    assert type(explainer).__name__.startswith("Linear")
    values = explainer(X[:2])
    np.testing.assert_allclose(values.values[:, 0], X[:2, 0] - X[:, 0].mean(), rtol=1e-4)
    with pytest.raises(TypeError, match="not callable"):
        shap.Explainer(KernelRegressor("binning", random_state=0).fit(X, y), X)


# -- both ------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore")
def test_the_guide_runs_and_explains_a_raw_table(flavour, shap, tmp_path, monkeypatch):
    guide = Path(__file__).parents[2] / "docs" / "integrations.md"
    if not guide.exists():
        pytest.skip("the guide is not part of this distribution")
    monkeypatch.chdir(tmp_path)
    frame, y = table()
    names = {"frame": frame, "y": y}
    for block in re.findall(r"```python\n(.*?)```", guide.read_text(), re.S):
        exec(block, names)
    predicted = names["model"].predict(frame)
    np.testing.assert_array_equal(names["served"], predicted)
    explained = names["explained"]
    assert type(explained) is shap.Explanation
    sums = explained.base_values + explained.values.sum(axis=1)
    np.testing.assert_allclose(sums, predicted[:2], rtol=1e-5)
    exact = shapley_values(
        names["smooth"], names["numbers"][:2], names["numbers"][:20], baseline="rows"
    )
    np.testing.assert_allclose(names["sampled"].values, exact.values, atol=1e-9)
