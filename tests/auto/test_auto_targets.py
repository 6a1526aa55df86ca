"""Targets of automatic models: several outputs, labels of any kind, and what is refused."""

import warnings

import numpy as np
import pandas as pd
import pytest
import sklearn
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import make_friedman1
from sklearn.exceptions import NotFittedError, UnsetMetadataPassedError
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.fixes import parse_version

import mercer
from _polars import pl
from mercer import AutoKernelClassifier, AutoKernelRegressor
from mercer.auto import final
from mercer.auto.tuning import TUNING


@pytest.fixture(autouse=True)
def few_treatments(monkeypatch):
    """The same search with fewer candidates, which all laws are about, in less time."""
    monkeypatch.setattr(TUNING, "powers", {"laplacian": (0.0, 1.0), "gaussian": (1.0,)})
    monkeypatch.setattr(TUNING, "folds", 3)


def friedman(n, random_state=100):
    return make_friedman1(n, 6, noise=0.5, random_state=random_state)


# several outputs


def outputs(n, random_state=100):
    X, y = friedman(n, random_state)
    return X, np.column_stack([y, X[:, 0] - X[:, 3], 1e3 * np.sin(4 * X[:, 1])])


@pytest.mark.parametrize("form", ["dense", "sparse", "leaves"])
def test_every_output_is_predicted_with_its_interval(form, monkeypatch):
    if form == "leaves":
        monkeypatch.setattr(TUNING, "exact_rows", 1000)
        monkeypatch.setattr(TUNING, "leaf_rows", (400, 400))
    X, Y = outputs(2400)
    n = 1500 if form == "leaves" else 500
    if form == "sparse":
        X = sparse.csr_array(np.where(X > 0.2, X, 0.0))
    model = AutoKernelRegressor(random_state=100).fit(X[:n], Y[:n])
    predicted, interval = model.predict(X[n:]), model.predict_interval(X[n:], 0.9)
    assert predicted.shape == (2400 - n, 3)
    assert interval.shape == (2400 - n, 3, 2)
    inside = (interval[..., 0] <= Y[n:]) & (Y[n:] <= interval[..., 1])
    assert (inside.mean(axis=0) > 0.82).all()
    assert (1 - np.mean((predicted - Y[n:]) ** 2, axis=0) / Y[n:].var(axis=0) > 0.6).all()
    assert model.score(X[n:], Y[n:]) > 0.6


def test_outputs_that_vary_by_factors_stay_as_they_are():
    X, y = friedman(300)
    model = AutoKernelRegressor(random_state=100).fit(X, np.exp(np.column_stack([y, -y]) / 3))
    assert model.best_settings_["transform"] == "identity"
    assert "log" not in model.search_results_["transform"]


@pytest.mark.parametrize("transform", ["identity", "log"])
def test_one_column_is_predicted_as_one_column(transform):
    X, y = friedman(400)
    y = np.exp(y / 2) if transform == "log" else y
    flat = AutoKernelRegressor(random_state=100).fit(X, y)
    column = AutoKernelRegressor(random_state=100).fit(X, y[:, None])
    assert flat.best_settings_["transform"] == transform
    np.testing.assert_allclose(column.predict(X), flat.predict(X)[:, None], rtol=1e-5)
    assert column.predict_interval(X).shape == (400, 1, 2)
    np.testing.assert_allclose(
        column.predict_interval(X)[:, 0], flat.predict_interval(X), rtol=1e-5
    )
    np.testing.assert_allclose(column.validation_score_, flat.validation_score_)


@pytest.mark.parametrize("form", [pd.DataFrame, pl.DataFrame, np.ndarray.tolist])
def test_tables_of_targets_are_enough(form):
    X, Y = outputs(120)
    named = dict(zip("abc", Y.T, strict=True))
    model = AutoKernelRegressor(random_state=100).fit(
        X, form(Y) if form is np.ndarray.tolist else form(named)
    )
    expected = AutoKernelRegressor(random_state=100).fit(X, Y)
    np.testing.assert_array_equal(model.predict(X), expected.predict(X))


@pytest.mark.parametrize("scoring", ["r2", "neg_mean_absolute_error"])
def test_scorers_and_weights_take_several_outputs(scoring):
    X, Y = outputs(300)
    weights = np.random.default_rng(0).integers(0, 3, 300)
    model = AutoKernelRegressor(scoring=scoring, random_state=100)
    model.fit(X, Y, sample_weight=weights)
    assert model.n_validation_rows_ == np.count_nonzero(weights)
    assert np.isfinite(model.validation_score_)


# labels


@pytest.mark.parametrize(
    "labels",
    [
        np.array(["no", "yes"]),
        np.array([False, True]),
        np.array([-7, 3]),
        np.array([0.0, 1.0]),
        np.array(["no", "yes"], dtype=object),
    ],
    ids=lambda labels: str(labels.dtype),
)
def test_labels_of_any_kind_come_back(labels):
    X, y = friedman(120)
    y = labels[(y > 15).astype(int)]
    model = AutoKernelClassifier(random_state=100).fit(X, y)
    assert model.predict(X).dtype == y.dtype
    assert set(model.predict(X)) == set(labels)
    for form in (pd.Series(y), pd.Categorical(y), y.tolist()):
        again = AutoKernelClassifier(random_state=100).fit(X, form)
        np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))


# weights and groups by the tools of scikit-learn


def grouped(n=120):
    X, y = friedman(n)
    rng = np.random.default_rng(0)
    return X, y, rng.uniform(0.5, 2.0, n), rng.integers(0, 12, n)


@pytest.mark.skipif(
    parse_version(sklearn.__version__) < parse_version("1.8"),
    reason="scikit-learn routes weights to scores of pipelines from version 1.8 on",
)
def test_requests_carry_weights_and_groups_through_a_search(monkeypatch):
    X, y, weights, groups = grouped()
    fits = []
    plain = AutoKernelRegressor._fit

    def noted(self, rows, goal):
        fits.append((goal.weights, goal.groups))
        plain(self, rows, goal)

    monkeypatch.setattr(AutoKernelRegressor, "_fit", noted)
    beside = {"sample_weight": weights, "groups": groups}
    with sklearn.config_context(enable_metadata_routing=True):
        model = AutoKernelRegressor(random_state=100)
        model.set_fit_request(sample_weight=True, groups=True)
        model.set_score_request(sample_weight=True)
        pipeline = make_pipeline(FunctionTransformer(), model)
        done = cross_validate(pipeline, X, y, cv=GroupKFold(2), params=beside)
        grid = GridSearchCV(pipeline, {"autokernelregressor__scoring": [None, "r2"]}, cv=2)
        grid.fit(X, y, **beside)
        pipeline.fit(X, y, **beside)
        assert np.isfinite(done["test_score"]).all()
        unset = make_pipeline(FunctionTransformer(), AutoKernelRegressor())
        with pytest.raises(UnsetMetadataPassedError, match="sample_weight"):
            unset.fit(X, y, sample_weight=weights)
    assert len(fits) == 2 + 5 + 1
    assert all(w is not None and g is not None for w, g in fits)


def test_weights_reach_a_model_in_a_pipeline_without_requests():
    X, y, weights, groups = grouped()
    own = AutoKernelRegressor(random_state=100).fit(X, y, sample_weight=weights, groups=groups)
    pipeline = make_pipeline(FunctionTransformer(), AutoKernelRegressor(random_state=100))
    step = "autokernelregressor"
    pipeline.fit(X, y, **{f"{step}__sample_weight": weights, f"{step}__groups": groups})
    np.testing.assert_array_equal(pipeline.predict(X), own.predict(X))


@pytest.mark.filterwarnings("ignore:the inputs' scales differ")  # learned scales do, on purpose
def test_the_best_estimator_is_fitted_again_with_weights(monkeypatch):
    monkeypatch.setattr(TUNING, "exact_rows", 200)
    monkeypatch.setattr(TUNING, "leaf_rows", (100, 100))
    X, y = friedman(500)
    weights = np.random.default_rng(0).uniform(0.5, 2.0, 500)
    y = np.exp(y / 3)
    model = AutoKernelRegressor(random_state=100).fit(X, y, sample_weight=weights)
    again = clone(model.best_estimator_)
    again.fit(X, y, **{f"{step}__sample_weight": weights for step in final.STEPS})
    np.testing.assert_allclose(again.predict(X), model.predict(X), rtol=5e-3)


# what is refused, in the words of the class that the user called

REFUSED = {
    "no rows": lambda X, y: (X[:0], y[:0]),
    "one row": lambda X, y: (X[:1], y[:1]),
    "no columns": lambda X, y: (X[:, :0], y),
    "three axes": lambda X, y: (X[None], y),
    "fewer targets": lambda X, y: (X, y[:-1]),
    "missing targets": lambda X, y: (X, np.where(np.arange(len(y)) == 3, np.nan, y)),
    "infinite targets": lambda X, y: (X, np.where(np.arange(len(y)) == 3, np.inf, y)),
    "no targets": lambda X, y: (X, None),
    "sparse targets": lambda X, y: (X, sparse.csr_array(y[:, None])),
    "infinite numbers": lambda X, y: (np.where(X > 0.9, np.inf, X), y),
    "lists in cells": lambda X, y: (pd.DataFrame({"a": [[1]] * len(y)}), y > 15),
    "twice a column": lambda X, y: (pd.DataFrame(X[:, :2], columns=["a", "a"]), y > 15),
    "masked": lambda X, y: (np.ma.array(X, mask=X > 0.9), y),
}
FOREIGN = ("TablePreparer", "GradientScaler", " KernelRegressor", "LocalKernel", "Pipeline")


@pytest.mark.parametrize("case", REFUSED)
@pytest.mark.parametrize("make", [AutoKernelRegressor, AutoKernelClassifier])
def test_refusals_name_no_part_of_the_model(make, case):
    X, y = REFUSED[case](*friedman(40))
    with pytest.raises((ValueError, TypeError)) as refusal:
        make().fit(X, y)
    assert not any(name in str(refusal.value) for name in FOREIGN)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("factor", [1e300, 1e200, 1e40, 1e-40, 1e-200])
@pytest.mark.parametrize("several", [False, True])
def test_targets_out_of_range_get_a_sentence(factor, several):
    X, y = friedman(40)
    y = np.column_stack([y, y]) if several else y
    rule = r"y must differ from its mean by 1e-30 to 1e\+36, .* its largest difference is"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(ValueError, match=rule):
            AutoKernelRegressor().fit(X, factor * y)


@pytest.mark.parametrize("factor", [1e30, 1e-25])
def test_targets_within_range_are_fitted_in_any_unit(factor):
    X, y = friedman(200)
    plain = AutoKernelRegressor(random_state=100).fit(X, y)
    other = AutoKernelRegressor(random_state=100).fit(X, factor * y)
    np.testing.assert_allclose(other.predict(X) / factor, plain.predict(X), rtol=0.02)


@pytest.mark.parametrize("form", ["dense", "sparse", "leaves"])
def test_memory_that_lacks_is_told_without_settings_of_the_parts(form, monkeypatch):
    if form == "leaves":
        monkeypatch.setattr(TUNING, "exact_rows", 1000)
    X, y = friedman(1500)
    X = sparse.csr_array(X) if form == "sparse" else X
    rule = r" needs .* but .* available; fit to fewer rows, or to fewer columns\.$"
    with mercer.config_context(max_memory=1_000_000), pytest.raises(MemoryError, match=rule):
        AutoKernelRegressor(random_state=100).fit(X, y)


@pytest.mark.parametrize("make", [AutoKernelRegressor, AutoKernelClassifier])
def test_models_that_are_not_fitted_say_so_by_their_name(make):
    X, y = friedman(40)
    names = {"predict", "predict_interval", "predict_proba", "predict_set", "decision_function"}
    for name in names & set(dir(make)):
        with pytest.raises(NotFittedError, match=f"This {make.__name__} instance is not fitted"):
            getattr(make(), name)(X)
    with pytest.raises(NotFittedError, match=f"This {make.__name__} instance is not fitted"):
        make().score(X, y)


def test_predictions_and_intervals_of_targets_of_one_sign_keep_the_sign():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(150, 2))
    y = np.maximum(X[:, 0] + 0.5 * rng.normal(size=150), 0.0)
    new = rng.normal(size=(80, 2)) - 1.0
    model = AutoKernelRegressor(random_state=0).fit(X, y)
    assert model.predict(new).min() >= 0
    assert model.predict(new, [0.1, 0.5]).min() >= 0
    low, high = model.predict_interval(new).T
    assert low.min() >= 0
    assert (low <= high).all()
    both = AutoKernelRegressor(random_state=0).fit(X, np.column_stack([y, y - 1]))
    assert both.predict(new)[:, 0].min() >= 0 > both.predict(new)[:, 1].min()
    assert both.predict_interval(new)[:, 0].min() >= 0 > both.predict_interval(new)[:, 1].min()
