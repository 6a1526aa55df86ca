"""Kernel machines of kernel matrices: the machine of the kernel itself, and refusals."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.utils import get_tags

import mercer
from mercer import KernelClassifier, KernelRegressor, kernels, persistence
from mercer.estimators import probabilities

RNG = np.random.default_rng(0)
KERNEL = kernels.Gaussian(0.5)
X, NEW = RNG.normal(size=(90, 3)), RNG.normal(size=(20, 3))
K, NEW_K = KERNEL(X), KERNEL(NEW, X)
Y = np.sin(X[:, 0]) + 0.1 * RNG.normal(size=90)
WEIGHTS = RNG.integers(0, 3, size=90)
LABELS = np.array(["a", "b", "c"])[np.digitize(X[:, 0] + X[:, 1], [-0.5, 0.5])]


def pair(machine, **settings):
    """Machine of the kernel, and machine of its matrix."""
    return (
        machine("exact", kernel=KERNEL, scale=False, **settings),
        machine(kernel="precomputed", **settings),
    )


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"solver": "cg", "tol": 1e-8},
        {"alphas": [0.01, 0.1], "selection": "loo"},
        {"alphas": [0.01, 0.1], "selection": "holdout"},
        {"loss": "huber"},
        {"loss": "quantile"},
        {"penalty": "l1", "tol": 1e-6},
    ],
    ids=str,
)
def test_a_regressor_of_the_matrix_is_that_of_the_kernel(settings):
    ours, given = pair(KernelRegressor, random_state=0, **settings)
    ours.fit(X, Y, WEIGHTS)
    given.fit(K, Y, WEIGHTS)
    assert given.alpha_ == ours.alpha_
    for few in (slice(None), slice(0, 1)):
        expected = ours.predict(NEW[few])
        np.testing.assert_allclose(given.predict(NEW_K[few]), expected, atol=1e-4)


@pytest.mark.parametrize("loss", ["squared", "logistic", "squared_hinge", "multinomial"])
def test_a_classifier_of_the_matrix_is_that_of_the_kernel(loss):
    ours, given = pair(KernelClassifier, loss=loss, tol=1e-6, alpha=1e-2, random_state=0)
    ours.fit(X, LABELS)
    given.fit(K, LABELS)
    responses = given.decision_function(NEW_K)
    np.testing.assert_allclose(responses, ours.decision_function(NEW), atol=1e-4)
    np.testing.assert_array_equal(given.predict(NEW_K), ours.predict(NEW))
    if loss in ("logistic", "multinomial"):  # others calibrate on halves that differ
        np.testing.assert_allclose(given.predict_proba(NEW_K), ours.predict_proba(NEW), atol=1e-4)
    else:
        proba = given.predict_proba(NEW_K)
        np.testing.assert_array_equal(given.classes_[proba.argmax(axis=1)], given.predict(NEW_K))


def test_equal_rows_of_a_matrix_calibrate_in_one_half(monkeypatch):
    met = []

    def halves(rows):
        met.extend(found := original(rows))
        return found

    original = probabilities._halves
    monkeypatch.setattr(probabilities, "_halves", halves)
    twice = np.tile(np.arange(90), 2)
    KernelClassifier(kernel="precomputed").fit(K[np.ix_(twice, twice)], LABELS[twice])
    fitted, judged = (set((half % 90).tolist()) for half in met)
    assert not fitted & judged


def test_cross_validation_takes_rows_and_columns_of_the_matrix():
    ours, given = pair(KernelRegressor)
    assert get_tags(given).input_tags.pairwise
    assert not get_tags(given).input_tags.sparse
    assert not get_tags(ours).input_tags.pairwise
    np.testing.assert_allclose(cross_val_score(given, K, Y), cross_val_score(ours, X, Y), atol=1e-6)
    grid = {"alpha": [1e-4, 1e-2, 1.0]}
    found, expected = GridSearchCV(given, grid).fit(K, Y), GridSearchCV(ours, grid).fit(X, Y)
    assert found.best_params_ == expected.best_params_
    np.testing.assert_allclose(found.predict(NEW_K), expected.predict(NEW), atol=1e-6)


def test_float32_and_the_scale_do_not_matter_to_a_matrix():
    K32, far = K.astype(np.float32), 1e4 * K
    model = KernelRegressor(kernel="precomputed", scale=False).fit(K32, Y)
    assert model.scaler_ is None
    assert model.n_features_in_ == 90
    expected = clone(model).set_params(scale=True).fit(K, Y).predict(NEW_K)
    np.testing.assert_allclose(model.predict(NEW_K.astype(np.float32)), expected, atol=1e-4)
    model.fit(far, Y)  # without a warning about scales of inputs


def test_a_saved_model_of_a_matrix_predicts_the_same(tmp_path):
    model = KernelClassifier(kernel="precomputed").fit(K, LABELS)
    persistence.save(model, tmp_path / "model.mercer")
    restored = persistence.load(tmp_path / "model.mercer")
    np.testing.assert_array_equal(restored.predict_proba(NEW_K), model.predict_proba(NEW_K))


@pytest.mark.parametrize(
    ("settings", "given", "sentence"),
    [
        ({}, K[:, :-1], r"X must be a square kernel matrix for kernel='precomputed'; got \(90, 89"),
        ({}, np.where(K == 1, np.nan, K), "contains NaN"),
        ({"feature_map": "fourier"}, K, "feature_map must be 'exact' or 'auto'"),
        ({"feature_map": mercer.maps.ExactKernel()}, K, "feature_map must be 'exact' or 'auto'"),
        ({"gamma": 2.0}, K, "gamma must be left out"),
        ({"gamma_path": [1.0, 2.0]}, K, "gamma_path must be left out"),
        ({"n_components": 5}, K, "n_components must be left out"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_a_fit_refuses_what_is_no_kernel_matrix(settings, given, sentence):
    with pytest.raises(ValueError, match=sentence):
        KernelRegressor(**{"kernel": "precomputed"} | settings).fit(given, Y)


def test_a_model_of_a_matrix_refuses_other_widths_and_what_needs_the_rows():
    model = KernelRegressor(kernel="precomputed").fit(K, Y)
    with pytest.raises(ValueError, match="expecting 90 features"):
        model.predict(NEW)
    with pytest.raises(ValueError, match=r"k\(x, x\) of new rows"):
        model.predict(NEW_K, return_std=True)
    assert model.noise_std_ > 0


def test_onnx_refuses_a_model_of_a_matrix():
    pytest.importorskip("onnx")
    from mercer.onnx import to_onnx

    model = KernelRegressor(kernel="precomputed").fit(K, Y)
    with pytest.raises(ValueError, match="kernel must not be 'precomputed'"):
        to_onnx(model, K)
