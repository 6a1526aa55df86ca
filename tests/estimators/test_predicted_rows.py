"""One row is predicted as it is among many, and in no more time than its checks need."""

import contextlib
import copy
import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.utils.validation import validate_data

import mercer
from mercer import (
    KernelClassifier,
    KernelRegressor,
    LocalKernelRegressor,
    SparseKernelRegressor,
    maps,
)
from mercer._runtime import state as _state
from mercer._runtime.validation import is_plain
from mercer.designs.local import FEW_ROWS
from mercer.estimators.few_rows import responses_of_few
from mercer.estimators.preprocessing import Preprocessing

MODELS = {
    "binned": lambda: KernelRegressor(n_components=32, random_state=0),
    "hashed": lambda: KernelRegressor(maps.RandomBinning(n_components=8, bins=64, random_state=0)),
    "faded": lambda: KernelRegressor(maps.RandomBinning("smooth", n_components=8, random_state=0)),
    "fourier": lambda: KernelRegressor("fourier", n_components=32, random_state=0),
    "classes": lambda: KernelClassifier(n_components=32, random_state=0),
    "exact": lambda: KernelRegressor("exact"),
    "compact": lambda: KernelRegressor("tefm", n_components=8, random_state=0),
    "local": lambda: LocalKernelRegressor(leaf_size=60, n_trees=2, random_state=0),
    "sparse": lambda: SparseKernelRegressor(max_rounds=2, random_state=0),
    "few bins": lambda: SparseKernelRegressor("binning", max_rounds=2, random_state=0),
}


def data(dtype=np.float64, n=200):
    X = np.random.default_rng(0).normal(size=(n, 3)).astype(dtype)
    return X, X[:, 0] + np.sin(2 * X[:, 1])


def fitted(name, dtype=np.float64):
    X, y = data(dtype)
    return MODELS[name]().fit(X, np.digitize(y, [-1, 1]) if name == "classes" else y)


def answers(model, X):
    return model.decision_function(X) if hasattr(model, "classes_") else model.predict(X)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", MODELS)
def test_rows_one_by_one_are_predicted_as_all_together(name, dtype):
    model, (X, _) = fitted(name, dtype), data(dtype)
    together = answers(model, X)
    one_by_one = np.concatenate([answers(model, X[i : i + 1]) for i in range(40)])
    assert one_by_one.dtype == together.dtype == dtype
    tol = 1e-12 if dtype == np.float64 else 2e-5
    np.testing.assert_allclose(one_by_one, together[:40], rtol=tol, atol=tol)


@pytest.mark.parametrize("name", MODELS)
def test_predictions_are_the_design_times_the_coefficients(name):
    model, (X, _) = fitted(name), data()
    if name == "local":
        X = X[: FEW_ROWS + 4]
    design = model.feature_map_.design(model.scaler_.transform(X))
    expected = design.toarray() @ model.map_coef_.T + model._intercept_
    for n in (1, FEW_ROWS, len(X)):
        np.testing.assert_allclose(answers(model, X[:n]), expected[:n], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", MODELS)
def test_rows_in_any_form_are_predicted_alike(name):
    model, (X, _) = fitted(name), data()
    few = X[:7]
    expected = answers(model, few)
    for form in (few.tolist(), np.asfortranarray(few), np.repeat(few, 2, axis=0)[::2]):
        np.testing.assert_allclose(answers(model, form), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("name", MODELS)
def test_rows_that_are_no_numbers_are_refused(name, bad):
    model, (X, _) = fitted(name), data()
    X = X[:1].copy()
    X[0, 1] = bad
    with pytest.raises(ValueError, match="X contains"):
        model.predict(X)
    with pytest.raises(ValueError, match="features"):
        model.predict(data()[0][:1, :2])
    with pytest.raises(ValueError, match="minimum of 1 is required"):
        model.predict(data()[0][:0])


# --- what is looked at quickly -------------------------------------------------------------------


class Two:
    """Stands for an estimator of two inputs."""

    n_features_in_ = 2


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_plain_rows_are_those_that_validation_returns_as_they_are(dtype):
    X = np.ones((3, 2), dtype)
    model = KernelRegressor(n_components=4).fit(data()[0][:, :2], data()[1])
    assert is_plain(X, Two())
    assert validate_data(model, X, reset=False, order="C") is X


@pytest.mark.parametrize(
    "X",
    [
        [[1.0, 2.0]],
        np.ones((3, 3)),
        np.ones(2),
        np.ones((0, 2)),
        np.ones((3, 2), int),
        np.ones((3, 2), np.float16),
        np.ones((3, 2), ">f8"),
        np.ones((3, 2), order="F"),
        np.ones((3, 4))[:, ::2],
        np.array([[1.0, np.nan]]),
        np.array([[1e308, -1e308]]),  # finite, but for validation itself to say
        np.ma.masked_array(np.ones((3, 2))),
        pd.DataFrame(np.ones((3, 2))),
        sparse.csr_array(np.ones((3, 2))),
        np.ones((2**16, 2)),
        None,
    ],
)
def test_everything_else_goes_to_validation(X):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert not is_plain(X, Two())


def test_names_of_columns_are_missed_as_before():
    X, y = data()
    model = KernelRegressor(n_components=4, random_state=0).fit(pd.DataFrame(X).add_prefix("x"), y)
    with pytest.warns(UserWarning, match="does not have valid feature names"):
        model.predict(X[:1])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rows_are_scaled_to_the_bits_of_the_scaler(dtype):
    model, (X, _) = fitted("binned", dtype), data(dtype)
    scaled = Preprocessing(model.scaler_).scaled(X)
    np.testing.assert_array_equal(scaled, model.scaler_.transform(X))
    assert scaled.dtype == dtype
    assert not np.shares_memory(scaled, X)


def test_memory_is_asked_for_where_little_of_it_may_be_taken():
    model, (X, _) = fitted("faded"), data()
    with (
        mercer.config_context(max_memory=30),
        pytest.raises(MemoryError, match=r"1 rows .* needs .* are available"),
    ):
        model.predict(X[:1])


def test_free_memory_is_not_looked_up_for_a_row(monkeypatch):
    model, (X, _) = fitted("faded"), data()
    expected = model.predict(X[:1])
    monkeypatch.setattr("mercer._runtime.arrays.available_memory", lambda: 0)
    with pytest.raises(MemoryError):
        model.predict(X[:1])
    monkeypatch.setattr("mercer._runtime.arrays._LITTLE", 2**20)
    np.testing.assert_array_equal(model.predict(X[:1]), expected)


# --- states that were checked are not checked again ----------------------------------------------


@pytest.fixture
def checks(monkeypatch):
    """Names of the models and maps whose states are checked from now on."""
    met = []
    for kind in (KernelRegressor, maps.RandomBinning):
        original = kind._check_state

        def counted(self, original=original):
            met.append(type(self).__name__)
            original(self)

        monkeypatch.setattr(kind, "_check_state", counted)
    return met


def test_a_state_is_checked_once(checks):
    model, (X, _) = fitted("binned"), data()
    for _ in range(3):  # the first prediction draws what the map remembers
        model.predict(X[:1])
    del checks[:]
    model.predict(X)
    assert checks == []


@pytest.mark.parametrize(
    "change",
    [
        lambda model: setattr(model, "alpha_", 3.0),
        lambda model: setattr(model, "map_coef_", model.map_coef_.copy()),
        lambda model: model.scaler_.mean_.__setitem__(0, 3.0),
        lambda model: setattr(model.scaler_, "with_mean", True + 0),
        lambda model: setattr(model.feature_map_, "n_bins_", model.feature_map_.n_bins_.copy()),
        lambda model: vars(model.feature_map_.kernel_).update(gamma=0.5),
        lambda model: model.__dict__.update(another=model.__dict__.pop("trace_")),
    ],
)
def test_a_state_that_was_changed_is_checked_again(checks, change):
    model, (X, _) = fitted("binned"), data()
    for _ in range(2):
        model.predict(X[:1])
    del checks[:]
    change(model)
    with contextlib.suppress(ValueError):
        model.predict(X[:1])
    assert "KernelRegressor" in checks


def test_a_small_array_that_was_written_on_is_refused():
    model, (X, _) = fitted("binned"), data()
    model.predict(X[:1])
    model.scaler_.scale_[1] = -1.0
    with pytest.raises(ValueError, match=r"^scale_ of a fitted StandardScaler must be positive"):
        model.predict(X[:1])


def test_snapshots_keep_no_model_and_enter_no_file():
    model, (X, _) = fitted("binned"), data()
    model.predict(X)
    before = len(_state._snapshots)
    assert model in _state._snapshots
    copies = [copy.copy(model), pickle.loads(pickle.dumps(model))]
    assert not any(other in _state._snapshots for other in copies)
    model.fit(X, X[:, 0])
    assert model not in _state._snapshots
    model.predict(X)
    del model, copies
    assert len(_state._snapshots) < before


# --- few rows take a short way, whose numbers are those of the long one --------------------------

LONG = {"compact"}  # what is folded is made again for every call


def ready(name, dtype=np.float64):
    """A model that has predicted: what it remembers is drawn, and its state was checked."""
    model, (X, _) = fitted(name, dtype), data(dtype)
    for _ in range(3):
        answers(model, X[:2])
    return model, X


def on_the_long_way(model, X):
    return model._responses_of(model._checked(X))


@pytest.mark.rounding
@pytest.mark.parametrize("of_rows", [np.float32, np.float64])
@pytest.mark.parametrize("of_fit", [np.float32, np.float64])
@pytest.mark.parametrize("name", MODELS)
def test_both_ways_lead_to_the_same_bits(name, of_fit, of_rows):
    model, X = ready(name, of_fit)
    for n in (1, 2, 15, len(X)):
        few = X[:n].astype(of_rows)
        responses = responses_of_few(model, few)
        if name in LONG:
            assert responses is None
            continue
        expected = on_the_long_way(model, few)
        assert responses.dtype == expected.dtype == of_rows
        np.testing.assert_array_equal(responses, expected)
        np.testing.assert_array_equal(answers(model, few), expected)


@pytest.mark.rounding
def test_both_ways_agree_where_weights_are_so_large_that_they_cancel():
    model, X = ready("exact", np.float32)
    model.map_coef_ = np.float32(1e6) * model.map_coef_
    for _ in range(3):
        model.predict(X[:2])
    assert model.map_coef_.dtype == np.float32
    assert model._predictor(model.map_coef_)[1].dtype == np.float64
    np.testing.assert_array_equal(responses_of_few(model, X[:2]), on_the_long_way(model, X[:2]))


@pytest.mark.rounding
@pytest.mark.parametrize("form", ["phase", "pair"])
def test_both_ways_agree_for_wide_rows_and_many_outputs(form):
    X = np.random.default_rng(0).normal(size=(60, 150))
    y = np.column_stack([X[:, j] for j in range(12)])
    map_ = maps.RandomFourier(n_components=20, form=form, random_state=0)
    for targets in (y, y[:, 0]):
        model = KernelRegressor(map_).fit(X, targets)
        for _ in range(3):
            predicted = model.predict(X[:3])
        np.testing.assert_array_equal(responses_of_few(model, X[:3]), predicted)
        np.testing.assert_array_equal(on_the_long_way(model, X[:3]), predicted)


def test_the_short_way_is_for_plain_rows():
    model, X = ready("binned")
    assert responses_of_few(model, X[:1]) is not None
    for odd in (
        X[:1].tolist(),
        pd.DataFrame(X[:1]),
        sparse.csr_array(X[:1]),
        np.asfortranarray(X[:2]),
        X[:1].astype(">f8"),
        X[:1, :2],
        X[:0],
        X[0],
        np.full((1, 3), np.nan),
        np.array([[1e308, -1e308, 0.0]]),
        np.ma.masked_array(X[:1]),
        np.repeat(X, 200, axis=0),
    ):
        assert responses_of_few(model, odd) is None


def test_settings_lead_to_the_long_way():
    model, X = ready("binned")
    expected = model.predict(X[:1])
    with mercer.config_context(max_memory="1GB"):
        assert responses_of_few(model, X[:1]) is None
        np.testing.assert_array_equal(model.predict(X[:1]), expected)
    model.set_params(device="cuda")  # which is the processor where there is none
    for _ in range(3):
        assert responses_of_few(model, X[:1]) is None
        np.testing.assert_array_equal(model.predict(X[:1]), expected)
    model.set_params(device="cpu")
    model.predict(X[:1])
    np.testing.assert_array_equal(responses_of_few(model, X[:1]), expected)


def test_columns_with_names_lead_to_the_long_way():
    X, y = data()
    frame = pd.DataFrame(X).add_prefix("x")
    model = KernelRegressor(n_components=4, random_state=0).fit(frame, y)
    for _ in range(3):
        model.predict(frame[:1])
    assert responses_of_few(model, X[:1]) is None


def test_a_model_that_was_changed_is_looked_at_again():
    model, X = ready("binned")
    before = model.predict(X[:5])
    model.map_coef_ = 2.0 * model.map_coef_
    assert responses_of_few(model, X[:5]) is None
    after = model.predict(X[:5])
    np.testing.assert_allclose(after - model.intercept_, 2 * (before - model.intercept_))
    np.testing.assert_array_equal(model.predict(X[:5]), after)


@pytest.mark.parametrize("name", ["binned", "fourier", "exact", "local"])
def test_numbers_that_are_written_into_a_model_are_heeded(name):
    model, X = ready(name)
    before = model.predict(X[:5]) - model.intercept_
    model.map_coef_ *= 2.0
    for _ in range(3):
        np.testing.assert_allclose(model.predict(X[:5]) - model.intercept_, 2 * before)


def test_rows_that_are_large_when_scaled_are_for_validation():
    X, y = data()
    model = KernelRegressor("fourier", n_components=8, random_state=0).fit(1e-100 * X, y)
    model.predict(1e-100 * X[:1])
    large = np.full((1, 3), 1e150)
    assert is_plain(large, model)
    assert responses_of_few(model, large) is None
    assert np.isfinite(model.predict(large)).all()


def test_both_ways_warn_of_rows_that_are_far_from_all_others():
    model, X = ready("binned")
    far = 100.0 + X[:2]
    for predict in (on_the_long_way, responses_of_few):
        with pytest.warns(UserWarning, match="of the bins of these rows were not met at fit"):
            predict(model, far)


def test_the_mean_row_of_landmarks_is_found_once(monkeypatch):
    model, X = ready("exact", np.float32)
    expected = on_the_long_way(model, X[:1])
    monkeypatch.setattr("mercer.designs.kernel.centre_of_rows", None)
    np.testing.assert_array_equal(model.predict(X[:1]), expected)


def test_a_model_of_texts_refuses_numbers_in_a_sentence():
    model = KernelRegressor("exact", kernel="ngram").fit(["ab", "cd"] * 9, np.arange(18.0))
    model.predict(["ab"])  # what was looked at is kept
    with pytest.raises((TypeError, ValueError), match=r"^X must"):
        model.predict(np.ones((2, 3)))
