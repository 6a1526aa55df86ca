"""What users of neighbouring systems complain about must not happen here.

Each test is one kind of complaint; those about single functions stand beside their tests.
"""

import re
import tracemalloc
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.datasets import make_classification
from sklearn.exceptions import ConvergenceWarning
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.svm import SVC

import mercer
from mercer import (
    DoublySGDClassifier,
    DualKernelSVC,
    KernelClassifier,
    KernelRegressor,
    LocalKernelClassifier,
    LocalKernelRegressor,
    SparseKernelClassifier,
)
from mercer.kernels import Gaussian
from mercer.maps import Nystroem, RandomFourier


def table(n=300, n_classes=2, dtype=np.float64):
    X, y = make_classification(
        n, 6, n_informative=5, n_redundant=0, n_classes=n_classes, random_state=0
    )
    return X.astype(dtype), y


@pytest.mark.parametrize("feature_map", ["binning", "fourier", "nystroem", "linear"])
def test_sparse_input_with_long_indices_is_accepted(feature_map):
    X, y = table()
    S = sparse.csr_array(X * (np.abs(X) > 0.7))
    L = S.copy()
    L.indices, L.indptr = L.indices.astype(np.int64), L.indptr.astype(np.int64)
    model = KernelClassifier(feature_map, random_state=0).fit(S, y)
    again = KernelClassifier(feature_map, random_state=0).fit(L, y)
    np.testing.assert_array_equal(model.decision_function(S), again.decision_function(L))


@pytest.mark.rounding
@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.float16, np.bool_])
def test_small_integers_do_not_blow_up_to_doubles(dtype):
    X = np.random.default_rng(0).integers(0, 2, size=(60, 5)).astype(dtype)
    model = KernelRegressor(n_components=16, random_state=0).fit(X, X[:, 0].astype(float))
    assert model.map_coef_.dtype == np.float32
    wide = KernelRegressor(n_components=16, random_state=0).fit(
        X.astype(np.float32), X[:, 0].astype(float)
    )
    np.testing.assert_array_equal(model.predict(X), wide.predict(X.astype(np.float32)))


@pytest.mark.rounding
@pytest.mark.parametrize("order", ["C", "F"])
def test_layout_and_read_only_memory_do_not_matter(order, tmp_path):
    X, y = table()
    expected = KernelClassifier("binning", random_state=0).fit(X, y).decision_function(X)
    np.save(tmp_path / "X.npy", np.asarray(X, order=order))
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    model = KernelClassifier("binning", random_state=0).fit(mapped, y)
    np.testing.assert_allclose(model.decision_function(mapped), expected, atol=1e-12)


def test_grid_search_in_processes_works():
    X, y = table(150)
    search = GridSearchCV(
        KernelClassifier(n_components=8, random_state=0), {"gamma": [0.02, 0.1]}, cv=2, n_jobs=2
    )
    assert search.fit(X, y).score(X, y) > 0.7


def test_what_does_not_fit_is_refused_with_its_size_before_anything_is_taken():
    X, y = table(50)
    for model in (
        KernelClassifier(n_components=10**11),
        KernelClassifier("fourier", n_components=10**11),
    ):
        with pytest.raises(MemoryError, match=r"needs [\d.]+ TB but .* available; .*n_components"):
            model.fit(X, y)
    with pytest.raises(MemoryError, match="kernel matrix needs"):
        Gaussian(1.0)(np.zeros((3_000_000, 1)), np.zeros((3_000_000, 1)))


def test_one_scale_per_input_switches_inputs_off():
    X, y = table()
    noise = np.random.default_rng(1).normal(size=X.shape)
    gamma = np.r_[np.full(6, 0.1), np.full(6, 1e-12)]
    for feature_map in ("binning", "fourier", "nystroem"):
        settings = {"gamma": gamma, "random_state": 0, "n_components": 64}
        model = KernelClassifier(feature_map, **settings).fit(np.hstack([X, noise]), y)
        other = model.decision_function(np.hstack([X, -noise]))
        np.testing.assert_allclose(model.decision_function(np.hstack([X, noise])), other, atol=1e-4)


def test_own_landmarks_and_own_kernels_are_welcome():
    X, y = table()
    model = KernelClassifier(
        Nystroem(lambda A, B: (1 + A @ B.T) ** 2, landmarks=X[:40]), scale=False
    )
    assert model.fit(X, y).score(X, y) > 0.8


@pytest.mark.parametrize("alpha", [1e-7, 1e-2, 1e3])
def test_extreme_penalties_agree_with_the_other_library(alpha):
    X, y = table()
    ours = KernelClassifier(
        "linear", loss="logistic", alpha=alpha, scale=False, tol=1e-10, max_iter=5000
    ).fit(X, y)
    theirs = LogisticRegression(C=1 / (alpha * len(y)), tol=1e-12, max_iter=100_000).fit(X, y)
    np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), atol=2e-4)


def test_no_loop_is_endless_and_stopping_early_is_said():
    X, y = table()
    model = KernelClassifier(
        "binning", solver="cg", alpha=1e-9, tol=1e-12, max_iter=3, random_state=0
    )
    with pytest.warns(ConvergenceWarning, match="stopped at max_iter=3"):
        model.fit(X, y)
    assert model.n_iter_ == 3
    assert not model.converged_
    assert model.optimality_ > 1e-12


def test_many_landmarks_are_the_exact_kernel():
    X, _ = table()
    target = np.sin(X).sum(axis=1)
    ours = KernelRegressor(
        Nystroem(Gaussian(0.1), n_components=len(X)), scale=False, alpha=0.1 / len(X),
        fit_intercept=False,
    ).fit(X, target)  # fmt: skip
    exact = KernelRidge(kernel="rbf", gamma=0.1, alpha=0.1).fit(X, target)
    np.testing.assert_allclose(ours.predict(X), exact.predict(X), atol=1e-5)


def test_small_tables_get_the_direct_solver():
    X, y = table(100)
    assert KernelClassifier("binning", random_state=0).fit(X, y).solver_ == "cholesky"
    assert (
        KernelClassifier("binning", loss="logistic", random_state=0).fit(X, y).solver_
        == "newton-cg"
    )
    with pytest.raises(ValueError, match="quadratic loss"):
        KernelClassifier("binning", loss="logistic", solver="cholesky").fit(X, y)


def test_a_wrong_bandwidth_would_be_noticed():
    """The map's kernel against the exact one, with gamma off by the square root of two."""
    X, _ = table(40)
    Z = RandomFourier(Gaussian(0.05), n_components=20_000, random_state=0).fit_transform(X)
    error = np.abs(Z @ Z.T - Gaussian(0.05)(X)).max()
    assert error < 0.04
    assert np.abs(Z @ Z.T - Gaussian(0.05 * np.sqrt(2))(X)).max() > 2 * error


def test_choosing_by_left_out_rows_takes_no_memory_for_every_strength():
    X, y = table(400)
    peaks = []
    for alphas in ([1e-2, 1e-1], np.geomspace(1e-5, 1.0, 20)):
        model = KernelRegressor("exact", alphas=alphas, selection="loo", gamma=0.1)
        tracemalloc.start()
        model.fit(X, y.astype(float))
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    # 18 more solutions of 400 numbers, and no further matrix of 400 x 400.
    assert peaks[1] - peaks[0] < 8 * 400 * 400 / 2


@pytest.mark.parametrize(
    "model",
    [
        KernelClassifier("fourier", n_components=64, loss="logistic", random_state=0),
        KernelClassifier("fourier", n_components=64, loss="multinomial", random_state=0),
        LocalKernelClassifier(loss="logistic", leaf_size=100, n_trees=1, random_state=0),
        SparseKernelClassifier("perceptron", loss="logistic", max_rounds=3, random_state=0),
        DoublySGDClassifier(loss="logistic", random_state=0),
    ],
    ids=lambda model: f"{type(model).__name__}-{model.loss}",
)
def test_probabilities_stand_in_the_order_of_classes_and_agree_with_labels(model):
    """Whatever class comes first in the rows."""
    X, y = table(150, n_classes=3)
    order = np.argsort(-y, kind="stable")
    X, y = X[order], np.array(["a", "b", "c"])[y[order]]
    assert y[0] == "c"
    model.fit(X, y)
    assert model.classes_.tolist() == ["a", "b", "c"]
    proba = model.predict_proba(X)
    np.testing.assert_allclose(proba.sum(axis=1), 1.0, rtol=1e-5)
    labels = model.predict(X)
    np.testing.assert_array_equal(model.classes_[proba.argmax(axis=1)], labels)
    assert np.mean(labels == y) > 0.5


def test_twenty_classes_are_told_apart_as_by_the_other_library():
    rng = np.random.default_rng(0)
    centres, y = 2.5 * rng.normal(size=(20, 5)), np.arange(600) % 20
    X = centres[y] + rng.normal(size=(600, 5))
    theirs = SVC(C=3.0, gamma=0.05).fit(X[:400], y[:400]).score(X[400:], y[400:])
    settings = {"kernel": "gaussian", "gamma": 0.05, "scale": False}
    for ours in (KernelClassifier("exact", **settings), DualKernelSVC(C=3.0, **settings)):
        assert ours.fit(X[:400], y[:400]).score(X[400:], y[400:]) > theirs - 0.05


@pytest.mark.parametrize(
    "model",
    [
        KernelClassifier("exact"),
        KernelClassifier("fourier", n_components=64, loss="multinomial", random_state=0),
        LocalKernelClassifier(leaf_size=100, n_trees=1, random_state=0),
        DualKernelSVC(),
    ],
    ids=lambda model: f"{type(model).__name__}-{model.loss}",
)
def test_weights_of_several_classes_let_every_class_be_predicted(model):
    X, y = table(300, n_classes=3)
    rare = np.flatnonzero(y == 2)[12:]
    X, y = np.delete(X, rare, axis=0), np.delete(y, rare)
    plain = np.sum(model.fit(X, y).predict(X) == 2)
    balanced = model.set_params(class_weight="balanced").fit(X, y).predict(X)
    assert set(balanced) == {0, 1, 2}
    assert np.sum(balanced == 2) >= max(plain, 10)


def test_a_machine_that_learns_nothing_predicts_all_the_same():
    X, y = np.ones((60, 3)), np.arange(60) % 3 > 0
    for model in (DualKernelSVC(C=1e-12), DualKernelSVC(C=1e6), KernelClassifier("exact")):
        model.fit(X, y)
        assert np.isfinite(model.decision_function(X)).all()
        assert model.predict(X).all()  # the class of most rows


class Tensor:
    """An array of another library, on this device or on another one."""

    def __init__(self, values, is_here):
        self.values, self.is_here = values, is_here
        self.shape, self.ndim, self.dtype = values.shape, values.ndim, values.dtype

    def __len__(self):
        return len(self.values)

    def __array__(self, dtype=None, copy=None):
        if not self.is_here:
            raise TypeError("can't convert cuda:0 device type tensor to numpy.")
        return np.asarray(self.values, dtype)


@pytest.mark.parametrize("model", [KernelRegressor("exact"), LocalKernelRegressor(random_state=0)])
def test_tensors_of_other_libraries_work_or_are_refused_at_once(model):
    X, y = table(40)
    expected = model.fit(X, y).predict(X)
    here = model.fit(Tensor(X, True), Tensor(y, True)).predict(Tensor(X, True))
    np.testing.assert_array_equal(here, expected)
    for rows, target in ((Tensor(X, False), y), (X, Tensor(y, False))):
        with pytest.raises(TypeError, match="cuda:0 device"):
            model.fit(rows, target)
    with pytest.raises(TypeError, match="cuda:0 device"):
        model.fit(X, y).predict(Tensor(X, False))


def test_few_private_parts_of_the_other_library_are_used():
    """Its next version is free to change them."""
    private = re.compile(r"from sklearn[\w.]* import [^\n]*?\b(_\w+)|from sklearn[\w.]*\.(_\w+)")
    texts = [path.read_text() for path in Path(mercer.__file__).parent.rglob("*.py")]
    used = {"".join(names) for text in texts for names in private.findall(text)}
    assert used <= {"_check_feature_names_in", "_check_sample_weight"}


@pytest.mark.parametrize("kind", ["KernelClassifier", "LocalKernelClassifier", "DualKernelSVC"])
def test_texts_among_numbers_name_the_class_that_takes_them(kind):
    frame = pd.DataFrame({"city": ["Rome", "Oslo"] * 20, "size": np.arange(40.0)})
    with pytest.raises(ValueError, match=rf"X must hold numbers; .*TablePreparer\(\), {kind}"):
        getattr(mercer, kind)().fit(frame, np.arange(40) % 2)
