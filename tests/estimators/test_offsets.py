"""Known parts of the responses: the same models as by other targets, weights or losses."""

import copy

import numpy as np
import pandas as pd
import pytest
from sklearn import config_context
from sklearn.base import clone
from sklearn.model_selection import cross_val_score

from mercer import (
    KernelClassifier,
    KernelRegressor,
    LocalKernelRegressor,
    SparseKernelRegressor,
    losses,
    persistence,
)
from mercer.explain import shapley_values
from mercer.losses.offset import Offset
from mercer.onnx import to_onnx

FIXED = {"scale": False, "gamma": 0.5, "random_state": 0, "tol": 1e-11, "max_iter": 5000}
RNG = np.random.default_rng(0)
X = RNG.normal(size=(200, 2))
DAYS = RNG.uniform(0.2, 30.0, 200)
COUNTS = RNG.poisson(DAYS * np.exp(np.sin(X[:, 0]))).astype(float)
OFFSET = 2.0 * np.cos(X[:, 1])


@pytest.mark.parametrize("loss", ["squared", "huber", "quantile"])
@pytest.mark.parametrize(
    "kind", [KernelRegressor, LocalKernelRegressor, SparseKernelRegressor], ids=lambda k: k.__name__
)
def test_losses_of_differences_see_targets_without_the_offset(kind, loss):
    if loss != "squared" and kind is not KernelRegressor:
        pytest.skip("other losses are those of kernel machines")
    y = np.sin(X[:, 0]) + OFFSET
    settings = {"loss": loss} if kind is KernelRegressor else {}
    model = kind(random_state=0, **settings).fit(X, y, offset=OFFSET)
    other = kind(random_state=0, **settings).fit(X, y - OFFSET)
    np.testing.assert_array_equal(model.predict(X, offset=0), other.predict(X))
    np.testing.assert_allclose(model.predict(X, offset=OFFSET), other.predict(X) + OFFSET)
    assert model.score(X, y, offset=OFFSET) > model.score(X, y, offset=0) + 0.1


@pytest.mark.parametrize("feature_map", ["exact", "nystroem", "fourier"])
@pytest.mark.parametrize("weighted", [False, True])
def test_exposures_of_counts_are_weights_of_rates(feature_map, weighted):
    weights = RNG.uniform(0.5, 2, 200) if weighted else np.ones(200)
    alpha, settings = 1e-2, {"loss": "poisson", **FIXED, "n_components": 50}
    if feature_map == "exact":
        settings["n_components"] = None
    model = KernelRegressor(feature_map, alpha=alpha, **settings)
    model.fit(X, COUNTS, weights, offset=np.log(DAYS))
    mean = np.average(DAYS, weights=weights)
    rates = KernelRegressor(feature_map, alpha=alpha / mean, **settings)
    rates.fit(X, COUNTS / DAYS, weights * DAYS)
    np.testing.assert_allclose(model.predict(X, offset=0), rates.predict(X), rtol=1e-8)
    by_day = model.predict(X, offset=np.log(DAYS))
    np.testing.assert_allclose(by_day, DAYS * model.predict(X, offset=0), rtol=1e-10)


@pytest.mark.parametrize("feature_map", ["exact", "fourier"])
def test_an_equal_offset_of_all_rows_goes_into_the_intercept(feature_map):
    labels, settings = COUNTS > 5, {"loss": "logistic", "alpha": 1e-3, **FIXED}
    model = KernelClassifier(feature_map, **settings).fit(X, labels, offset=np.full(200, 3.0))
    other = KernelClassifier(feature_map, **settings).fit(X, labels)
    shifted = model.decision_function(X, offset=np.full(200, 3.0))
    np.testing.assert_allclose(shifted, other.decision_function(X), atol=1e-7)
    assert model.predict_proba(X, offset=OFFSET).sum(axis=1) == pytest.approx(1.0)


def test_the_gradient_of_the_objective_is_zero_at_responses_with_the_offset():
    labels = RNG.uniform(size=200) < 1 / (1 + np.exp(-OFFSET - X[:, 0]))
    settings = {name: value for name, value in FIXED.items() if name != "gamma"}
    model = KernelClassifier("linear", loss="logistic", alpha=1e-3, **settings)
    model.fit(X, labels, offset=OFFSET)
    u = model.decision_function(X, offset=OFFSET)
    slopes = 1 / (1 + np.exp(-u)) - labels
    np.testing.assert_allclose(X.T @ slopes / 200 + 1e-3 * model.coef_, 0.0, atol=1e-9)
    assert slopes.sum() == pytest.approx(0.0, abs=1e-7)


@pytest.mark.parametrize("loss", [losses.Poisson(), losses.Gamma(), losses.Logistic()])
def test_derivatives_and_conjugates_of_a_loss_with_an_offset(loss):
    u, offset = RNG.normal(size=(9, 2)), RNG.normal(size=9)
    y = np.where(u > 0, 1.0, -1.0) if loss.is_classification else RNG.uniform(1, 3, (9, 2))
    shifted, eps = Offset(loss, offset), 1e-6
    slope = (shifted.value(u + eps, y) - shifted.value(u - eps, y)) / (2 * eps)
    np.testing.assert_allclose(shifted.gradient(u, y), slope, atol=1e-7)
    bend = (shifted.gradient(u + eps, y) - shifted.gradient(u - eps, y)) / (2 * eps)
    np.testing.assert_allclose(shifted.hessian(u, y), bend, atol=1e-6)
    a = shifted.gradient(u, y)  # where Fenchel's inequality is an equality
    np.testing.assert_allclose(shifted.conjugate(a, y), a * u - shifted.value(u, y), atol=1e-10)
    few = shifted.among(slice(3, 5))
    np.testing.assert_array_equal(few.value(u[3:5], y[3:5]), shifted.value(u, y)[3:5])


def test_choices_by_held_out_rows_see_the_offset():
    settings = {"loss": "poisson", "alphas": [1e-4, 1e-2, 1.0], "selection": "holdout"}
    model = KernelRegressor("fourier", random_state=0, **settings)
    model.fit(X, COUNTS, offset=np.log(DAYS))
    rates = KernelRegressor("fourier", random_state=0, **settings)
    rates.fit(X, COUNTS / DAYS, sample_weight=DAYS)
    assert model.alpha_ == rates.alpha_ != 1e-4


def test_offsets_are_routed_and_files_predict_with_them(tmp_path):
    with config_context(enable_metadata_routing=True):
        model = KernelRegressor(loss="poisson", random_state=0)
        model.set_fit_request(offset=True).set_score_request(offset=True)
        given = {"offset": np.log(DAYS)}
        scores = cross_val_score(model, X, COUNTS, cv=3, params=given)
    assert scores.mean() > 0.5
    model = KernelRegressor(loss="poisson", random_state=0)
    persistence.save(model.fit(X, COUNTS, offset=np.log(DAYS)), tmp_path / "m.skops")
    loaded = persistence.load(tmp_path / "m.skops")
    found = loaded.predict(X, offset=np.log(DAYS))
    np.testing.assert_array_equal(found, model.predict(X, offset=np.log(DAYS)))


def test_standard_deviations_do_not_know_of_the_offset():
    model = KernelRegressor("exact").fit(X, COUNTS, offset=OFFSET)
    mean, std = model.predict(X, return_std=True, offset=OFFSET)
    plain, same = model.predict(X, return_std=True, offset=0)
    np.testing.assert_allclose(mean, plain + OFFSET)
    np.testing.assert_array_equal(std, same)
    mean, cov = model.predict(X[:9], return_cov=True, offset=OFFSET[:9])
    np.testing.assert_allclose(mean, plain[:9] + OFFSET[:9])
    np.testing.assert_allclose(np.diag(cov), std[:9] ** 2)


def test_each_of_several_labels_has_the_offset():
    labels, settings = np.column_stack([COUNTS > 5, COUNTS > 9]), {"loss": "logistic", **FIXED}
    model = KernelClassifier("fourier", alpha=1e-3, **settings).fit(X, labels, offset=OFFSET)
    for place, label in enumerate(labels.T):
        one = KernelClassifier("fourier", alpha=1e-3, **settings).fit(X, label, offset=OFFSET)
        wanted = one.decision_function(X, offset=OFFSET)
        found = model.decision_function(X, offset=OFFSET)[:, place]
        np.testing.assert_allclose(found, wanted, atol=1e-6)


def test_strengths_of_labels_are_chosen_by_losses_with_the_offset():
    labels = RNG.uniform(size=(200, 2)) < 1 / (1 + np.exp(-4 * OFFSET))[:, None]
    settings = {"loss": "logistic", "alphas": [1e-5, 10.0], "selection": "holdout"}
    model = KernelClassifier("fourier", random_state=0, **settings)
    model.fit(X, labels, offset=4 * OFFSET)
    np.testing.assert_array_equal(model.alpha_, 10.0)  # the offset leaves nothing to learn
    assert np.abs(model.decision_function(X, offset=0)).max() < 1.0


@pytest.mark.parametrize(
    ("model", "y", "offset", "words"),
    [
        (KernelRegressor(), COUNTS, OFFSET[:5], "offset must have a number for each of the 200"),
        (KernelRegressor(), COUNTS, np.full(200, np.nan), "Input offset contains NaN"),
        (KernelClassifier(), COUNTS > 5, OFFSET, "offset must be None for loss 'squared'"),
        (
            KernelClassifier(loss="logistic"),
            np.arange(200) % 3,
            OFFSET,
            "offset must be None for loss 'logistic' of a KernelClassifier, of more than two",
        ),
        (SparseKernelRegressor(loss="poisson"), COUNTS, OFFSET, "offset must be None for loss"),
        (
            KernelRegressor("fourier", loss="poisson", penalty="l1"),
            COUNTS,
            OFFSET,
            "CoordinateDescent needs a loss without an offset",
        ),
    ],
)
def test_refusals(model, y, offset, words):
    with pytest.raises(ValueError, match=words):
        model.fit(X, y, offset=offset)


WITH_OFFSET = {
    "squared": (KernelRegressor("exact"), np.sin(X[:, 0]) + OFFSET),
    "poisson": (KernelRegressor("exact", loss="poisson"), COUNTS),
    "leaves": (LocalKernelRegressor(random_state=0), np.sin(X[:, 0]) + OFFSET),
    "sparse": (SparseKernelRegressor(max_rounds=2, random_state=0), np.sin(X[:, 0]) + OFFSET),
    "logistic": (KernelClassifier("exact", loss="logistic"), X[:, 0] + OFFSET > 0),
}
MISSING = r"offset must be given, as {} was fitted with one: .*offset=0 .*; got None\."


@pytest.mark.parametrize("name", WITH_OFFSET)
def test_predictions_of_a_fit_with_an_offset_need_one(name, tmp_path):
    model, y = clone(WITH_OFFSET[name][0]), WITH_OFFSET[name][1]
    model.fit(X, y, offset=OFFSET)
    persistence.save(model, tmp_path / "model.skops")
    model = persistence.load(tmp_path / "model.skops")
    methods = ["predict", "predict_proba", "decision_function"]
    for method in [each for each in methods if hasattr(model, each)]:
        with pytest.raises(ValueError, match=MISSING.format(type(model).__name__)):
            getattr(model, method)(X)
        without = getattr(model, method)(X, offset=0)
        np.testing.assert_array_equal(without, getattr(model, method)(X, offset=np.zeros(200)))
    for call in (lambda: model.score(X, y), lambda: shapley_values(model, X[:2], X[:9])):
        with pytest.raises(ValueError, match="offset must be given"):
            call()
    assert shapley_values(model, X[:2], X[:9], offset=0).values.shape == (2, 2)
    with pytest.raises(ValueError, match=r"offset must be 0 to export a .* that was fitted with"):
        to_onnx(model)
    with pytest.raises(ValueError, match="offset must be None or 0, as an export has no input"):
        to_onnx(model, offset=1.0)
    model.fit(X, y)  # another fit, without one
    assert model.predict(X).shape == (200,)


def test_draws_and_covariances_have_the_offset():
    y = np.sin(X[:, 0]) + OFFSET
    model = KernelRegressor("exact").fit(X, y, offset=OFFSET)
    for asked in (lambda o: model.predict(X, return_cov=True, offset=o)[0], model_draws(model)):
        with pytest.raises(ValueError, match="offset must be given"):
            asked(None)
        np.testing.assert_allclose(asked(OFFSET), (asked(0).T + OFFSET).T)


def model_draws(model):
    return lambda offset: model.sample_y(X, 2, offset=offset)


def test_a_number_is_the_offset_of_all_rows():
    y = np.sin(X[:, 0]) + OFFSET
    one, other = (KernelRegressor("exact").fit(X, y, offset=o) for o in (3.0, np.full(200, 3.0)))
    np.testing.assert_array_equal(one.predict(X, offset=3.0), other.predict(X, offset=[3.0] * 200))
    plain = KernelRegressor("exact").fit(X, y)
    np.testing.assert_allclose(one.predict(X, offset=3.0), plain.predict(X), atol=1e-9)


def test_files_without_a_record_of_an_offset_predict_without_one(tmp_path):
    model = KernelRegressor("exact").fit(X, COUNTS, offset=OFFSET)
    wanted = model.predict(X, offset=0)
    del model._has_offset_
    persistence.save(model, tmp_path / "model.skops")
    np.testing.assert_array_equal(persistence.load(tmp_path / "model.skops").predict(X), wanted)


def test_damaged_records_of_an_offset_are_refused():
    model = KernelRegressor("exact").fit(X, COUNTS, offset=OFFSET)
    model._has_offset_ = "yes"
    with pytest.raises(ValueError, match="_has_offset_ of a fitted KernelRegressor must be True"):
        copy.copy(model)


@pytest.mark.parametrize("method", ["predict", "score"])
def test_an_offset_in_another_order_warns_of_it_where_rows_are_predicted(method):
    frame = pd.DataFrame(X, columns=["a", "b"], index=RNG.permutation(200))
    y = pd.Series(COUNTS, index=frame.index)
    given = pd.Series(np.log(DAYS), index=frame.index)
    model = KernelRegressor("exact", loss="poisson").fit(frame, y, offset=given)
    beside = (frame, y) if method == "score" else (frame,)
    getattr(model, method)(*beside, offset=given)
    with pytest.warns(UserWarning, match=r"^X and offset have .*; give offset\.loc\[X\.index\]"):
        getattr(model, method)(*beside, offset=given.sort_index())
