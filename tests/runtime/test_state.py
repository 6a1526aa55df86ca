"""Fitted attributes are checked in copies and files; settings of a next fit change nothing."""

import copy
import pickle
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse
from sklearn.exceptions import NotFittedError

import mercer._runtime.state
from mercer import (
    DualKernelSVC,
    KernelClassifier,
    KernelRegressor,
    LocalKernelRegressor,
    TablePreparer,
    kernels,
    maps,
)

sys.path.insert(0, str(Path(__file__).parent))  # the tests are no package

import _zoo

MAPS = _zoo.all_maps()
VALUES = (None, 3, 10**9, False, True, "nonsense", "pair", "srht", "exact", 2.5, [1, 2])


def dense(Z):
    return Z.toarray() if sparse.issparse(Z) else np.asarray(Z)


def data(name):
    return _zoo.texts() if name == "ngrams" else _zoo.rows()


def features(map_, X):
    """By every way to ask for them."""
    return dense(map_.transform(X)), map_.transform_block(X, [0]), map_.design(X).toarray()


# --- settings --------------------------------------------------------------------------------


@pytest.mark.parametrize("name", MAPS)
def test_settings_changed_after_a_fit_change_nothing_before_the_next(name):
    X, fitted = data(name), MAPS[name]().fit(data(name))
    expected = features(fitted, X)
    for setting, value in fitted.get_params(deep=False).items():
        for other in VALUES if setting != "n_jobs" else (1, 2):
            fitted.set_params(**{setting: other})
            for map_ in (fitted, pickle.loads(pickle.dumps(fitted))):
                for found, wanted in zip(features(map_, X), expected, strict=True):
                    np.testing.assert_array_equal(found, wanted)
        fitted.set_params(**{setting: value})


def test_more_bins_after_a_fit_are_for_the_next_one():
    X, y = _zoo.rows(), _zoo.rows()[:, 0]
    model = KernelRegressor(MAPS["hashed"]()).fit(X, y)
    before = model.predict(X)
    model.feature_map_.set_params(bins=128)
    np.testing.assert_array_equal(model.predict(X), before)
    assert model.feature_map_.fit(X).n_bins_.tolist() == [128] * 8


def test_a_kernel_changed_after_a_fit_is_for_the_next_one():
    X, label = _zoo.rows(), np.arange(48) % 2
    model = DualKernelSVC().fit(X, label)
    before = model.decision_function(X)
    model.set_params(kernel="precomputed", gamma=3.0)
    np.testing.assert_array_equal(model.decision_function(X), before)


def test_a_loss_changed_after_a_fit_does_not_change_probabilities():
    model = KernelClassifier("binning", random_state=0).fit(_zoo.rows(), np.arange(48) % 2)
    before = model.predict_proba(_zoo.rows())
    model.set_params(loss="logistic")
    np.testing.assert_array_equal(model.predict_proba(_zoo.rows()), before)


def test_a_dtype_changed_after_a_fit_is_for_the_next_one():
    preparer = TablePreparer().fit(_zoo.rows())
    preparer.set_params(dtype="float32")
    assert preparer.transform(_zoo.rows()).dtype == np.float64
    assert preparer.fit_transform(_zoo.rows()).dtype == np.float32


@pytest.mark.parametrize("name", MAPS)
def test_a_failed_fit_leaves_nothing_of_the_one_before(name):
    fitted = MAPS[name]().fit(data(name))
    broken = np.full((5, 3), np.nan) if name != "ngrams" else [3.0]
    with pytest.raises((ValueError, TypeError)):
        fitted.fit(broken)
    with pytest.raises((NotFittedError, ValueError)):
        fitted.transform(data(name))


# --- fitted attributes of copies -------------------------------------------------------------


COPIES = (copy.copy, copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model)))


def hashed():
    X = _zoo.rows()
    return KernelRegressor(MAPS["hashed"](), warm_start=True).fit(X, X[:, 0])


@pytest.mark.parametrize(
    ("n_bins", "n_coefficients"),
    [([2**31] * 8, 8), ([256] * 8, 512), ([64] * 8, 8), ([64] * 7 + [65], 513), ([-1] * 8, 512)],
)
def test_bins_that_do_not_fit_the_coefficients_are_refused(n_bins, n_coefficients):
    model, X = hashed(), _zoo.rows()
    model.feature_map_.n_bins_ = np.array(n_bins)
    model.map_coef_ = np.zeros(n_coefficients)
    for use in (*COPIES, lambda model: model.fit(X, X[:, 0])):
        with pytest.raises(
            ValueError,
            match=r"^(map_coef_|n_bins_|n_features_out_) of a fitted .*: fit it again\.$",
        ):
            use(model)


def test_boxes_without_their_numbers_are_refused_in_one_sentence():
    map_ = MAPS["binning"]().fit(_zoo.rows())
    map_.n_bins_ = None
    with pytest.raises(ValueError, match=r"^n_\w+ of a fitted RandomBinning .*again\.$"):
        copy.copy(map_)


def test_what_follows_from_the_rest_cannot_be_set():
    map_ = hashed().feature_map_
    for name in ("_offsets", "n_features_out_"):
        with pytest.raises(AttributeError, match="no setter"):
            setattr(map_, name, 3)


def test_boxes_that_do_not_fit_their_number_are_refused():
    X, y = _zoo.rows(), _zoo.rows()[:, 0]
    model = KernelRegressor(MAPS["binning"]()).fit(X, y)
    model.feature_map_.n_bins_ = model.feature_map_.n_bins_[::-1].copy() + 1
    for copied in COPIES:
        with pytest.raises(ValueError, match="n_bins"):
            copied(model)


@pytest.mark.parametrize(
    "wrong",
    [
        np.zeros(511),
        np.zeros(512, dtype=np.int64),
        np.zeros(512, dtype=np.float16),
        np.zeros(512, dtype=complex),
        np.zeros(512, dtype=object),
        np.zeros(512, dtype=">f8"),
        np.full(512, np.nan),
        [0.0] * 512,
        None,
        "coefficients",
    ],
)
def test_coefficients_that_are_none_are_refused_in_one_sentence(wrong):
    model = hashed()
    model.map_coef_ = wrong
    with pytest.raises(
        ValueError, match=r"^map_coef_ of a fitted KernelRegressor must be an array"
    ):
        copy.copy(model)


@pytest.mark.parametrize("way", ["Fortran", "strided", "read-only", "memory map"])
def test_coefficients_in_any_layout_are_right(way, tmp_path):
    X = _zoo.rows()
    model = KernelRegressor(MAPS["hashed"]()).fit(X, X[:, :2])
    before = model.predict(X)
    coef = model.map_coef_
    if way == "Fortran":
        model.map_coef_ = np.asfortranarray(coef)
    elif way == "strided":
        model.map_coef_ = np.repeat(coef, 2, axis=1)[:, ::2]
    elif way == "read-only":
        model.map_coef_ = coef.copy()
        model.map_coef_.flags.writeable = False
    else:
        np.save(tmp_path / "coef.npy", coef)
        model.map_coef_ = np.load(tmp_path / "coef.npy", mmap_mode="r")
    np.testing.assert_array_equal(model.predict(X), before)


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("_intercept_", np.zeros(3)),
        ("_intercept_", np.nan),
        ("_intercept_", None),
        ("classes_", np.array(["a"])),
        ("classes_", np.array(["a", "b", "c", "d"])),
        ("classes_", "ab"),
        ("n_features_in_", 4),
        ("scaler_", "scaler"),
        ("feature_map_", None),
        ("_loss_", 3),
    ],
)
def test_attributes_that_do_not_fit_the_coefficients_are_refused(name, wrong):
    X = _zoo.rows()
    model = KernelClassifier("binning", random_state=0).fit(X, np.arange(48) % 2)
    setattr(model, name, wrong)
    for copied in COPIES:
        with pytest.raises(ValueError, match=r"of a fitted .*: fit it again\.$") as caught:
            copied(model)
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize("part", ["coef", "intercept"])
@pytest.mark.parametrize("edit", [lambda a: a + np.inf, lambda a: a.astype(np.int64)])
def test_copies_whose_path_holds_no_finite_floats_are_refused(part, edit):
    model = KernelRegressor("exact", alphas=[0.1, 1.0]).fit(_zoo.rows(), _zoo.rows()[:, 0])
    model.path_[part] = edit(model.path_[part])
    with pytest.raises(ValueError, match=r"^path_ of a fitted KernelRegressor must hold arrays"):
        copy.copy(model)


# --- fitted attributes that lead compiled code outside an array --------------------------------


LANDMARKS = {
    "nystroem": lambda: KernelRegressor(MAPS["span"]()),
    "whitened": lambda: KernelRegressor("nystroem", n_components=9, random_state=0),
    "exact": lambda: KernelRegressor("exact"),
    "local": lambda: LocalKernelRegressor(leaf_size=20, n_trees=2, random_state=0),
    "nested": lambda: KernelRegressor(
        maps.SubspaceEmbedding("nystroem", n_components=4, n_base=9, random_state=0)
    ),
}


@pytest.mark.parametrize("name", LANDMARKS)
@pytest.mark.parametrize("part", ["indices", "indptr"])
def test_indices_of_landmarks_that_leave_their_rows_are_refused(name, part):
    X = sparse.csr_array(_zoo.rows())
    model = LANDMARKS[name]().fit(X, _zoo.rows()[:, 0])
    map_ = getattr(model.feature_map_, "base_", model.feature_map_)
    getattr(map_.landmarks_, part)[1] = 10**6
    for use in (
        model.predict,
        model.feature_map_.transform,
        model.feature_map_.design,
        *(lambda _, copied=copied: copied(model) for copied in COPIES),
    ):
        with pytest.raises(ValueError, match=r"^landmarks_ of a fitted \w+ must be .*CSR"):
            use(X[:3])


@pytest.mark.parametrize("name", ["hashed", "binning"])
def test_columns_of_grids_that_codes_would_leave_are_refused(name):
    X = _zoo.rows()
    map_ = MAPS[name]().fit(X)
    sizes = map_.n_bins_.copy()
    for wrong in (np.r_[sizes[0] + 9, sizes[1:-1], sizes[-1] - 9], np.r_[sizes[0] + 9, sizes[1:]]):
        map_.n_bins_ = wrong
        for use in (map_.transform, map_.design):
            with pytest.raises(ValueError, match=r"^n_bins_ of a fitted RandomBinning must be"):
                use(X)
    map_.n_bins_ = sizes
    assert map_.transform(X).shape == (len(X), sizes.sum())


# --- where a model enters --------------------------------------------------------------------


def test_a_state_sets_no_methods():
    state = MAPS["fourier"]().fit(_zoo.rows()).__getstate__()
    for name in ("transform", "_check_state", "__class__"):
        with pytest.raises(ValueError, match=f"^{name} of RandomFourier is not to be set"):
            maps.RandomFourier().__setstate__(state | {name: 3})


def test_a_state_without_a_setting_has_its_default():
    state = MAPS["fourier"]().fit(_zoo.rows()).__getstate__()
    del state["n_jobs"]
    again = maps.RandomFourier.__new__(maps.RandomFourier)
    again.__setstate__(state)
    assert again.n_jobs is None


@pytest.mark.parametrize(
    ("kernel", "state"),
    [
        (kernels.Gaussian, {"gamma": -1.0}),
        (kernels.Gaussian, {"gamma": (1.0, np.nan)}),
        (kernels.Matern, {"gamma": 1.0, "nu": 3.0}),
        (kernels.NGram, {"orders": (0,)}),
    ],
)
def test_kernels_are_checked_when_they_are_read(kernel, state):
    with pytest.raises((ValueError, TypeError)):
        kernel.__new__(kernel).__setstate__(vars(kernel()) | state)


def test_examples_run(check_examples):
    check_examples(mercer._runtime.state)
