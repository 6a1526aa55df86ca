"""Rows in, rows out: models by sums of their equations equal fits to the rows they hold."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from _conventions import parametrize_with_settings
from mercer import (
    DoublySGDRegressor,
    KernelClassifier,
    KernelRegressor,
    config_context,
    persistence,
)
from mercer.estimators import sums
from mercer.maps import Nystroem, RandomBinning, RandomFourier, SubspaceEmbedding
from mercer.maps.fitted import FittedFeatures
from mercer.penalties import L2

N, LANDMARKS = 240, np.random.default_rng(3).normal(size=(20, 3))
STATED = {"scale": False, "gamma": 0.3, "alpha": 1e-4, "random_state": 0}
# Maps that no row has a part in: sums of batches equal the fit whatever the first batch is.
MAPS = {
    "fourier": lambda: KernelRegressor("fourier", n_components=40, **STATED),
    "fastfood": lambda: KernelRegressor("fastfood", n_components=40, **STATED),
    "linear": lambda: KernelRegressor("linear", alpha=1e-4, scale=False),
    "landmarks": lambda: KernelRegressor(
        Nystroem(gamma=0.3, landmarks=LANDMARKS), scale=False, alpha=1e-4
    ),
    "span": lambda: KernelRegressor(
        Nystroem(gamma=0.3, landmarks=LANDMARKS, whiten=False), scale=False, alpha=1e-4
    ),
    "hashed": lambda: KernelRegressor(
        RandomBinning(gamma=0.3, bins=8, n_components=16, random_state=0),
        scale=False,
        alpha=1e-4,
    ),
}


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, 3))
    return X, 50 + np.sin(X[:, 0]) + X[:, 1] + 0.1 * rng.normal(size=N), rng.uniform(0.5, 3, N)


def in_batches(model, X, y, weights=None, cuts=(7, 100, 101), order=None, **options):
    order = np.arange(X.shape[0]) if order is None else order
    for rows in np.split(order, cuts):
        given = None if weights is None else weights[rows]
        model.partial_fit(X[rows], y[rows], sample_weight=given, **options)
    return model


def direct(model):
    return clone(model).set_params(solver="cholesky")


def assert_near(model, other, X, tol=1e-8):
    np.testing.assert_allclose(model.predict(X), other.predict(X), rtol=0, atol=tol)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", MAPS)
def test_batches_of_any_cut_and_order_equal_one_fit(name, weighted, data):
    X, y, weights = data
    weights = weights if weighted else None
    whole = direct(MAPS[name]()).fit(X, y, weights)
    assert_near(in_batches(MAPS[name](), X, y, weights), whole, X)
    order = np.random.default_rng(1).permutation(N)
    model = in_batches(MAPS[name](), X, y, weights, cuts=range(20, N, 20), order=order)
    assert_near(model, whole, X)
    assert model.alpha_ == whole.alpha_
    assert model.converged_
    assert model.optimality_ < 1e-8
    np.testing.assert_allclose(model.intercept_, whole.intercept_, rtol=1e-8)


@pytest.mark.parametrize("intercept", [False, True])
def test_outputs_sparse_rows_and_models_without_intercept_equal_one_fit(intercept, data):
    X, y, weights = data
    y, X = np.column_stack([y, X[:, 2] ** 2]), sparse.csr_array(np.maximum(X, 0))
    for name in ("linear", "fourier", "hashed"):
        model = MAPS[name]().set_params(fit_intercept=intercept)
        assert_near(in_batches(clone(model), X, y, weights), direct(model).fit(X, y, weights), X)


def test_the_default_alpha_follows_the_weights_as_in_fit(data):
    X, y, weights = data
    weights[3] = 0.0
    for scaled in (weights, weights / weights.sum(), 5 * weights):
        model = MAPS["fourier"]().set_params(alpha=None)
        whole = direct(model).fit(X, y, scaled)
        in_batches(model, X, y, scaled)
        assert model.alpha_ == pytest.approx(whole.alpha_, rel=1e-12)
        assert_near(model, whole, X)
    assert_near(in_batches(clone(model).set_params(penalty=L2(0.1)), X, y),
         direct(model).set_params(penalty=L2(0.1)).fit(X, y), X)  # fmt: skip


def test_texts_come_and_go_as_numbers_do():
    texts = [f"{a} and {b}" for a in ("one", "two", "three") for b in ("more", "less", "none")]
    y = np.arange(9.0)
    model = KernelRegressor("ngrams", n_components=16, alpha=1e-3, random_state=0)
    whole = direct(model).fit(texts[3:], y[3:])
    model.partial_fit(texts[:5], y[:5]).partial_fit(texts[5:], y[5:]).forget(texts[:3], y[:3])
    np.testing.assert_allclose(model.predict(texts), whole.predict(texts), atol=1e-8)


def test_linear_features_far_from_zero_keep_their_digits(data):
    X, y, _ = data
    far = X + 1e5
    model = in_batches(MAPS["linear"](), far, y)
    np.testing.assert_allclose(model.predict(far), direct(MAPS["linear"]()).fit(X, y).predict(X),
                               atol=1e-8)  # fmt: skip


@pytest.mark.parametrize(
    "model",
    [
        KernelRegressor("fourier", n_components=40, alpha=1e-4, random_state=0),
        KernelRegressor("nystroem", n_components=30, alpha=1e-4, random_state=0),
        KernelRegressor(SubspaceEmbedding("fourier", 20), alpha=1e-4, random_state=0),
    ],
    ids=["scale", "landmarks", "tefm"],
)
def test_scaler_and_map_are_those_of_the_first_batch(model, data):
    X, y, weights = data
    model = in_batches(clone(model), X, y, weights, cuts=(80, 150))
    first = clone(model).partial_fit(X[:80], y[:80], weights[:80])
    features = FittedFeatures(first.feature_map_, first.scaler_)
    whole = KernelRegressor(features, scale=False, alpha=1e-4, solver="cholesky")
    assert_near(model, whole.fit(X, y, weights), X)


@pytest.mark.parametrize("name", MAPS)
def test_rows_taken_out_leave_the_model_of_the_rest(name, data):
    X, y, weights = data
    model = in_batches(MAPS[name](), X, y, weights)
    model.forget(X[30:90], y[30:90], weights[30:90]).forget(X[:30], y[:30], weights[:30])
    assert_near(model, direct(MAPS[name]()).fit(X[90:], y[90:], weights[90:]), X)
    assert_near(model.partial_fit(X[:90], y[:90], weights[:90]),
         direct(MAPS[name]()).fit(X, y, weights), X)  # fmt: skip


def test_a_window_that_moves_over_many_times_its_rows_keeps_its_digits():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(10_000, 3))
    y = np.sin(X[:, 0]) + X[:, 1]
    model = MAPS["fourier"]().partial_fit(X[:200], y[:200])
    for first in range(200, 10_000, 100):
        new, old = slice(first, first + 100), slice(first - 200, first - 100)
        model.partial_fit(X[new], y[new]).forget(X[old], y[old])
    assert_near(model, direct(MAPS["fourier"]()).fit(X[-200:], y[-200:]), X, 1e-9)


def test_float32_rows_come_and_go_to_their_precision(data):
    X, y, _ = data
    X, y = X.astype(np.float32), y.astype(np.float32)
    model = in_batches(MAPS["fourier"](), X, y).forget(X[:100], y[:100])
    whole = direct(MAPS["fourier"]()).fit(X[100:], y[100:])
    assert model.predict(X).dtype == np.float32
    assert_near(model, whole, X, 1e-3)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_classes_in_batches_equal_one_fit(n_classes, data):
    X, y, weights = data
    labels = np.array(["a", "b", "c"])[np.digitize(y, np.quantile(y, [0.3, 0.6])[: n_classes - 1])]
    order = np.argsort(labels)  # the first batches have one label
    model = KernelClassifier("fourier", n_components=40, **STATED)
    whole = direct(model).fit(X, labels, weights)
    classes = np.unique(labels)
    in_batches(model, X, labels, weights, order=order, classes=classes)
    np.testing.assert_allclose(model.decision_function(X), whole.decision_function(X), atol=1e-8)
    np.testing.assert_array_equal(model.predict(X), whole.predict(X))
    model.forget(X[:90], labels[:90], weights[:90])
    rest = clone(whole).fit(X[90:], labels[90:], weights[90:])
    np.testing.assert_allclose(model.decision_function(X), rest.decision_function(X), atol=1e-8)
    with pytest.raises(AttributeError, match="comes from partial_fit"):
        model.predict_proba(X)


def test_classes_are_named_at_the_first_call_and_no_others_come(data):
    X, y, _ = data
    labels = np.where(y > 50, "up", "down")
    model = KernelClassifier("fourier", **STATED)
    with pytest.raises(ValueError, match="classes must name all labels in the first partial_fit"):
        model.partial_fit(X, labels)
    model.partial_fit(X, labels, classes=["up", "down"])
    for labels, classes in ((["up", "left"], None), (["up", "up"], ["up", "left"])):
        with pytest.raises(ValueError, match=r"classes must be|no labels but"):
            model.partial_fit(X[:2], labels, classes=classes)
    with pytest.raises(ValueError, match="no labels but"):
        model.forget(X[:2], ["up", "left"])
    with pytest.raises(ValueError, match="one label per row"):
        clone(model).partial_fit(X, np.stack([y > 50, y < 50], axis=1), classes=[0, 1])
    with pytest.raises(ValueError, match="class_weight must be None"):
        clone(model).set_params(class_weight="balanced").partial_fit(X, labels, classes=[0, 1])


def test_more_rows_or_weight_than_were_put_in_are_refused_and_change_nothing(data):
    X, y, weights = data
    with pytest.raises(NotFittedError):
        MAPS["fourier"]().forget(X, y)
    model = MAPS["fourier"]().partial_fit(X[:100], y[:100], weights[:100])
    before = model.predict(X)
    for taken in (
        (X[:100], y[:100], weights[:100]),
        (X, y, weights),
        (X[:9], y[:9], np.full(9, 99)),
    ):
        with pytest.raises(ValueError, match="fewer rows, of less weight"):
            model.forget(*taken)
    with pytest.raises(ValueError, match="those of rows that partial_fit has taken"):
        model.forget(X[:9], 1e3 * y[:9])
    for broken in (np.nan, np.inf):
        with pytest.raises(ValueError, match=r"NaN|infinity"):
            model.forget(np.where(X[:9] == X[0, 0], broken, X[:9]), y[:9])
        with pytest.raises(ValueError, match=r"NaN|infinity|missing"):
            model.partial_fit(X[:9], np.where(y[:9] == y[0], broken, y[:9]))
    with pytest.raises(ValueError, match="outputs"):
        model.partial_fit(X, np.column_stack([y, y]))
    with pytest.raises(ValueError, match="fit_intercept"):
        copy.copy(model).set_params(fit_intercept=False).partial_fit(X, y)
    np.testing.assert_array_equal(model.predict(X), before)


@pytest.mark.parametrize(
    "feature_map", ["auto", "exact", "binning", SubspaceEmbedding("binning", 4)]
)
def test_maps_that_the_first_rows_do_not_fix_have_no_partial_fit(feature_map):
    for model in (KernelRegressor(feature_map), KernelClassifier(feature_map)):
        for name in ("partial_fit", "forget"):
            assert not hasattr(model, name)
            with pytest.raises(AttributeError, match="'fourier'"):
                getattr(model, name)


@pytest.mark.parametrize(
    "settings",
    [
        {"loss": "huber"},
        {"penalty": "l1"},
        {"solver": "cg"},
        {"alphas": [0.1, 1.0]},
        {"gamma_path": [0.1, 1.0]},
        {"selection": "evidence"},
        {"posterior": True},
        {"device": "cuda"},
    ],
    ids=lambda settings: next(iter(settings)),
)
def test_settings_that_sums_do_not_serve_are_refused(settings, data):
    X, y, _ = data
    name = next(iter(settings))
    with pytest.raises(ValueError, match=f"^{name} must be .* for partial_fit"):
        KernelRegressor("fourier", **settings).partial_fit(X, y)


def test_fit_keeps_no_sums_and_forgets_them(data):
    X, y, _ = data
    model = MAPS["fourier"]().partial_fit(X[:50], y[:50]).fit(X, y)
    assert "_sums_" not in vars(model)
    assert_near(model, MAPS["fourier"]().fit(X, y), X, 0)
    for change in (model.partial_fit, model.forget):
        with pytest.raises(ValueError, match="fit keeps none"):
            change(X, y)
    warm = MAPS["fourier"]().set_params(warm_start=True).partial_fit(X[:50], y[:50]).fit(X, y)
    assert "_sums_" not in vars(warm)


@pytest.mark.parametrize("name", [*MAPS, "tefm"])
def test_files_pickles_and_copies_go_on(name, data, tmp_path):
    X, y, weights = data
    tefm = KernelRegressor(SubspaceEmbedding("fourier", 20, random_state=0), alpha=1e-4)
    model = (tefm if name == "tefm" else MAPS[name]()).partial_fit(X[:150], y[:150], weights[:150])
    persistence.save(model, tmp_path / "model.skops")
    others = [
        persistence.load(tmp_path / "model.skops"),
        pickle.loads(pickle.dumps(model)),
        copy.copy(model),
        copy.deepcopy(model),
    ]
    before = model.predict(X)
    for other in others:
        np.testing.assert_array_equal(other.predict(X), before)
        other.partial_fit(X[150:], y[150:]).forget(X[:20], y[:20], weights[:20])
    np.testing.assert_array_equal(model.predict(X), before)
    model.partial_fit(X[150:], y[150:]).forget(X[:20], y[:20], weights[:20])
    for other in others:
        np.testing.assert_array_equal(other.predict(X), model.predict(X))
    with pytest.raises(NotFittedError):
        clone(model).predict(X)


def test_an_interrupted_call_leaves_the_rows_before_it(data, monkeypatch):
    X, y, _ = data
    model = MAPS["fourier"]().partial_fit(X[:100], y[:100])
    before = model.predict(X)

    def interrupted(*args, **kwargs):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(RandomFourier, "designs", interrupted)
        for call in (model.partial_fit, model.forget, MAPS["fourier"]().partial_fit):
            with pytest.raises(KeyboardInterrupt):
                call(X[:50], y[:50])
    np.testing.assert_array_equal(model.predict(X), before)
    assert_near(model.partial_fit(X[100:], y[100:]), direct(MAPS["fourier"]()).fit(X, y), X)


def test_each_change_is_solved_once_and_at_the_first_look(data, monkeypatch):
    X, y, _ = data
    solved, solution = [], sums.RowSums.solution
    monkeypatch.setattr(
        sums.RowSums, "solution", lambda self, alpha: solved.append(1) or solution(self, alpha)
    )
    model = in_batches(MAPS["fourier"](), X, y)
    assert not solved
    model.predict(X)
    assert model.map_coef_.shape == (40,)
    assert len(solved) == 1


def test_memory_of_the_sums_is_asked_for_before_it_is_taken(data):
    X, y, _ = data
    model = KernelRegressor("fourier", n_components=4000, random_state=0)
    with config_context(max_memory="100MB"), pytest.raises(MemoryError, match="n_components"):
        model.partial_fit(X, y)


def test_dask_models_take_no_batches():
    dask = pytest.importorskip("mercer.dask")
    for model in (dask.KernelRegressor("fourier"), dask.KernelClassifier("fourier")):
        with pytest.raises(AttributeError, match="rows in this process"):
            model.partial_fit  # noqa: B018


@parametrize_with_settings(
    [
        KernelRegressor("fourier", n_components=200, random_state=0),
        KernelClassifier("fourier", n_components=200, random_state=0),
    ],
    expected_failed_checks=lambda model: {
        "check_fit_score_takes_y": "it goes on from a fit, which keeps no sums to go on from"
    },
)
def test_conventions_of_models_with_partial_fit(estimator, check):
    check(estimator)


@pytest.mark.parametrize("feature_map", ["fourier", "linear"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rows_that_were_never_put_in_are_refused_and_change_nothing(feature_map, dtype):
    rng = np.random.default_rng(0)
    X, settings = rng.normal(size=(400, 4)).astype(dtype), {"random_state": 0}
    y = (X[:, 0] + 100).astype(dtype)
    if feature_map == "fourier":
        settings["n_components"] = 100
    model = KernelRegressor(feature_map, **settings).partial_fit(X, y)
    before = model.predict(X)
    for n_foreign in (3, 40):
        foreign = rng.normal(size=(n_foreign, 4)).astype(dtype)
        with pytest.raises(ValueError, match=r"must be those of rows that partial_fit has taken; "):
            model.forget(foreign, 100 - foreign[:, 0])
        np.testing.assert_array_equal(model.predict(X), before)
    model.forget(X[50:], y[50:])
    rest = KernelRegressor(feature_map, **settings).partial_fit(X, y).forget(X[:50], y[:50])
    assert rest.forget(X[100:], y[100:])._sums_.n_rows == 50
    assert model._sums_.n_rows == 50


@pytest.mark.parametrize(
    ("model", "n_rows", "words"),
    [
        (KernelRegressor("nystroem"), 20, r"has 20 rows and determines the 500 landmarks: give as"),
        (KernelRegressor("fourier"), 5, r"has 5 rows and determines scales and gamma: give 10"),
        (KernelRegressor("fourier", gamma=0.1), 1, r"has 1 rows and determines scales and gamma:"),
        (DoublySGDRegressor(), 5, r"has 5 rows and determines scales and gamma: give 10 rows"),
        (KernelRegressor("fourier"), 40, r"has one value in column 1 and determines its scale: "),
    ],
    ids=repr,
)
def test_a_first_batch_that_decides_too_early_is_warned_of(model, n_rows, words):
    X = np.random.default_rng(0).normal(size=(40, 3))
    X[:, 1] = 2.0
    model = clone(model)
    with pytest.warns(UserWarning, match=f"^the first batch of partial_fit {words}"):
        model.partial_fit(X[:n_rows], X[:n_rows, 0])
    model.partial_fit(X, X[:, 0])  # later ones are not


@pytest.mark.parametrize("feature_map", ["fourier", "linear", "nystroem"])
def test_first_batches_that_determine_nothing_are_not_warned_of(feature_map):
    X = np.random.default_rng(0).normal(size=(3, 3))
    landmarks = Nystroem(gamma=0.3, landmarks=LANDMARKS)
    map_ = landmarks if feature_map == "nystroem" else feature_map
    settings = {"gamma": 0.3} if feature_map == "fourier" else {}
    model = KernelRegressor(map_, scale=False, **settings)
    assert model.partial_fit(X, X[:, 0]).predict(X).shape == (3,)


def test_a_column_that_varies_after_the_first_batch_is_learned():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 2))
    X[:50, 1] = 0.0
    y, model = np.sin(X[:, 1]), KernelRegressor("fourier", gamma=0.5, alpha=1e-5, random_state=0)
    with pytest.warns(UserWarning, match="one value in column 1"):
        model.partial_fit(X[:50], y[:50])
    assert model.partial_fit(X[50:], y[50:]).score(X, y) > 0.99
