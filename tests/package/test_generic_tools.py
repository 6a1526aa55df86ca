"""Tools of scikit-learn for any estimator, on raw tables with dates, strings and missing cells."""

from inspect import signature

import matplotlib
import numpy as np
import pandas as pd
import pytest
from sklearn import config_context
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import TransformedTargetRegressor
from sklearn.ensemble import StackingClassifier, StackingRegressor
from sklearn.experimental import enable_halving_search_cv  # noqa: F401
from sklearn.feature_selection import RFE, SelectFromModel
from sklearn.inspection import PartialDependenceDisplay, partial_dependence, permutation_importance
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import (
    GridSearchCV,
    HalvingGridSearchCV,
    cross_val_predict,
    cross_validate,
    learning_curve,
)
from sklearn.pipeline import make_pipeline

import mercer
from mercer import (
    AutoKernelClassifier,
    AutoKernelRegressor,
    KernelClassifier,
    KernelRegressor,
    LocalKernelClassifier,
    SparseKernelClassifier,
    TablePreparer,
)
from mercer.auto import base
from mercer.auto.tuning import TUNING

matplotlib.use("Agg")


@pytest.fixture(autouse=True)
def one_candidate(monkeypatch):
    """A search of next to nothing."""
    monkeypatch.setattr(TUNING, "powers", {"laplacian": (1.0,), "gaussian": ()})
    monkeypatch.setattr(TUNING, "gammas", {"laplacian": (1.0,)})
    monkeypatch.setattr(TUNING, "folds", 2)
    monkeypatch.setattr(
        base.AutoKernelMachine, "_treatments", lambda *_: ([("robust", 0)], ["numbers"])
    )


def table(n=160, seed=0):
    """A raw table; the target needs its labels and numbers, not its dates and its last column."""
    rng = np.random.default_rng(seed)
    city = rng.choice(["Rome", "Oslo", "Lima"], n)
    age = rng.normal(40, 10, n)
    sold = np.datetime64("2020-01-01") + rng.integers(0, 900, n).astype("timedelta64[D]")
    noise = rng.normal(size=n)
    frame = pd.DataFrame({"city": city, "age": age, "sold": sold, "noise": noise})
    y = 3.0 * (city == "Rome") + 0.1 * age + rng.normal(0, 0.1, n)
    frame.loc[::9, "age"] = np.nan
    frame.loc[::13, "city"] = None
    return frame, y


def classes(n=160, seed=0):
    X, y = table(n, seed)
    return X, np.where(y > np.median(y), "dear", "cheap")


REGRESSORS = [
    AutoKernelRegressor(random_state=0),
    make_pipeline(TablePreparer(random_state=0), KernelRegressor("exact")),
]
CLASSIFIERS = [
    AutoKernelClassifier(random_state=0),
    make_pipeline(TablePreparer(random_state=0), KernelClassifier("exact", loss="logistic")),
]
KINDS = ["automatic", "pipeline"]
regressors = pytest.mark.parametrize("model", REGRESSORS, ids=KINDS)
classifiers = pytest.mark.parametrize("model", CLASSIFIERS, ids=KINDS)


@regressors
def test_partial_dependence_on_numbers_and_categories(model):
    X, y = table()
    model = clone(model).fit(X, y)
    of_age = partial_dependence(model, X.dropna(), ["age"], grid_resolution=5)
    assert np.all(np.diff(of_age["average"][0]) > 0)
    known = X.dropna()
    of_city = partial_dependence(model, known, ["city"], categorical_features=["city"])
    highest = of_city["grid_values"][0][of_city["average"][0].argmax()]
    assert highest == "Rome"
    display = PartialDependenceDisplay.from_estimator(
        model, known, ["age", "city"], categorical_features=["city"], grid_resolution=5
    )
    matplotlib.pyplot.close(display.figure_)


@regressors
def test_partial_dependence_where_cells_are_missing(model):
    X, y = table()
    model = clone(model).fit(X, y)
    X["age"] = X["age"].fillna(X["age"].mean())
    result = partial_dependence(model, X, ["age"], grid_resolution=5)
    assert np.all(np.diff(result["average"][0]) > 0)


@pytest.mark.skipif(
    "custom_values" not in signature(partial_dependence).parameters,
    reason="scikit-learn takes values from version 1.7 on",
)
@regressors
def test_partial_dependence_at_given_dates_and_labels(model):
    """Grids over dates, and over labels of which some are missing, are none that it can make."""
    X, y = table()
    model = clone(model).fit(X, y)
    for column, values in (("city", ["Rome", "Oslo"]), ("sold", X["sold"].to_numpy()[:2])):
        result = partial_dependence(model, X, [column], custom_values={column: values})
        low, high = sorted(result["average"][0])
        assert (high - low > 1) == (column == "city")


@classifiers
def test_partial_dependence_of_probabilities(model):
    X, y = classes()
    model = clone(model).fit(X, y)
    result = partial_dependence(
        model, X.dropna(), ["age"], grid_resolution=4, response_method="predict_proba"
    )
    assert result["average"][0][0] < result["average"][0][-1]


@regressors
def test_permutation_importance_finds_the_columns(model):
    X, y = table()
    model = clone(model).fit(X, y)
    found = permutation_importance(model, X, y, n_repeats=2, random_state=0).importances_mean
    assert found[[0, 1]].min() > 5 * np.abs(found[[2, 3]]).max()


@pytest.mark.parametrize(
    ("model", "target"),
    [(AutoKernelRegressor(random_state=0), table), (AutoKernelClassifier(random_state=0), classes)],
)
def test_columns_are_selected_by_their_importances(model, target):
    X, y = target()
    selected = SelectFromModel(model, max_features=2, threshold=-np.inf).fit(X, y)
    assert selected.get_feature_names_out().tolist() == ["city", "age"]


def test_columns_are_eliminated_by_their_importances():
    X, y = table()
    codes = X.assign(city=X["city"].astype("category").cat.codes, sold=X["sold"].astype("int64"))
    eliminated = RFE(AutoKernelRegressor(random_state=0), n_features_to_select=2)
    assert eliminated.fit(codes.fillna(40.0), y).support_.tolist() == [True, True, False, False]


@regressors
def test_cross_validation_and_learning_curves(model):
    X, y = table()
    predicted = cross_val_predict(model, X, y, cv=2)
    assert np.corrcoef(predicted, y)[0, 1] > 0.8
    scores = cross_validate(model, X, y, cv=2, scoring=["r2", "neg_mean_absolute_error"])
    assert scores["test_r2"].min() > 0.6
    sizes, _, of_test = learning_curve(model, X, y, cv=2, train_sizes=[0.5, 1.0])
    assert of_test.shape == (len(sizes), 2)


@classifiers
def test_probabilities_of_cross_validation(model):
    X, y = classes()
    proba = cross_val_predict(model, X, y, cv=2, method="predict_proba")
    assert np.mean((proba[:, 1] > 0.5) == (y == "dear")) > 0.8


@regressors
def test_stacking_regressors(model):
    X, y = table()
    stack = StackingRegressor([("kernel", model)], Ridge(), cv=2).fit(X, y)
    assert stack.score(X, y) > 0.7


@classifiers
def test_stacking_and_calibrating_classifiers(model):
    X, y = classes()
    stack = StackingClassifier([("kernel", model)], LogisticRegression(), cv=2).fit(X, y)
    assert stack.score(X, y) > 0.8
    for method in ("sigmoid", "isotonic"):
        calibrated = CalibratedClassifierCV(model, method=method, cv=2).fit(X, y)
        assert calibrated.score(X, y) > 0.8


def test_halving_and_grids_over_settings_of_the_treatment():
    X, y = table()
    model = make_pipeline(TablePreparer(random_state=0), KernelRegressor("exact"))
    grid = {"tablepreparer__numbers": ["robust", "quantile"], "kernelregressor__alpha": [1e-3, 1.0]}
    halving = HalvingGridSearchCV(model, grid, cv=2, min_resources=40, random_state=0).fit(X, y)
    assert halving.best_params_["kernelregressor__alpha"] == 1e-3
    automatic = GridSearchCV(AutoKernelRegressor(), {"random_state": [0, 1]}, cv=2).fit(X, y)
    assert automatic.best_score_ > 0.6


@regressors
def test_targets_are_transformed(model):
    X, y = table()
    model = TransformedTargetRegressor(model, func=np.log, inverse_func=np.exp).fit(X, y)
    assert model.score(X, y) > 0.7


@pytest.mark.parametrize("model", [*REGRESSORS, *CLASSIFIERS])
def test_diagrams_of_models(model):
    fitted = clone(model).fit(*(classes() if model in CLASSIFIERS else table()))
    for display in ("diagram", "text"):
        with config_context(display=display):
            assert fitted.__class__.__name__ in repr(fitted)
            assert fitted._repr_mimebundle_()


@pytest.mark.parametrize("kind", [KernelClassifier, LocalKernelClassifier, SparseKernelClassifier])
def test_a_model_without_a_calibration_has_no_probabilities(kind):
    X = np.random.default_rng(0).normal(size=(60, 2))
    model = kind(loss="squared_hinge", random_state=0).fit(X, X[:, 0] > 0)
    assert hasattr(model, "predict_proba")
    del model._probabilities_  # as in files of version 0.2
    assert not hasattr(model, "predict_proba")
    with pytest.raises(AttributeError, match=r"predict_proba needs a calibration.* fit it again"):
        _ = model.predict_proba
    assert hasattr(clone(model), "predict_proba")
    assert kind.predict_proba.__doc__.startswith("Probabilities of the classes")


@pytest.mark.parametrize("name", ["KernelRegressor", "LocalKernelClassifier"])
def test_fit_refuses_a_random_state_that_it_does_not_use(name):
    model = getattr(mercer, name)(random_state="a")
    with pytest.raises(TypeError, match="random_state must be an integer"):
        model.fit(np.eye(4), [0, 1, 0, 1])
