"""What a user of the two estimators may rely on."""

import gc
import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import make_classification, make_friedman1
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import r2_score
from sklearn.model_selection import GridSearchCV, cross_val_score

from _conventions import parametrize_with_settings
from _polars import pl
from mercer import KernelClassifier, KernelRegressor
from mercer.maps import Nystroem, RandomBinning, RandomFourier
from mercer.penalties import L2

MAPS = ["binning", "fourier", "nystroem", "linear"]
LOSSES = ["squared", "logistic", "squared_hinge", "multinomial"]


@pytest.mark.filterwarnings("ignore:.*of the bins of these rows")  # checks have few rows
@parametrize_with_settings(
    [KernelRegressor("binning"), KernelClassifier("binning")],
    [
        KernelRegressor("binning", loss="huber"),
        KernelClassifier("fourier", n_components=64, random_state=0),
        KernelClassifier("fourier", n_components=64, loss="multinomial"),
        KernelClassifier("binning", n_components=32, loss="logistic"),
    ],
)
def test_scikit_learn_conventions(estimator, check):
    check(estimator)


def blobs(n=300, n_classes=3, seed=0, dtype=np.float64):
    X, y = make_classification(
        n, 6, n_informative=5, n_redundant=0, n_classes=n_classes, random_state=seed
    )
    return X.astype(dtype), y


def friedman(n=400, seed=0, dtype=np.float64):
    X, y = make_friedman1(n, 5, random_state=seed)
    return X.astype(dtype), y.astype(dtype)


# the same problem as other libraries


@pytest.mark.parametrize("weighted", [False, True])
def test_linear_regression_is_ridge(weighted):
    X, y = friedman()
    weights = np.random.default_rng(0).uniform(0.5, 2, len(y)) if weighted else None
    ours = KernelRegressor("linear", scale=False, alpha=0.02, tol=1e-12).fit(X, y, weights)
    total = len(y) if weights is None else weights.sum()
    theirs = Ridge(alpha=0.02 * total).fit(X, y, weights)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, rtol=1e-8)
    np.testing.assert_allclose(ours.intercept_, theirs.intercept_, rtol=1e-8)


@pytest.mark.parametrize("n_classes", [2, 4])
def test_linear_logistic_classification_is_logistic_regression(n_classes):
    X, y = blobs(n_classes=n_classes)
    loss = "logistic" if n_classes == 2 else "multinomial"
    ours = KernelClassifier("linear", loss=loss, scale=False, alpha=0.01, tol=1e-10).fit(X, y)
    theirs = LogisticRegression(C=1 / (0.01 * len(y)), tol=1e-12, max_iter=10_000).fit(X, y)
    np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), atol=1e-6)


# laws


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("feature_map", MAPS)
def test_every_map_learns_with_default_settings(feature_map, dtype):
    X, y = blobs(800, 3, dtype=dtype)
    model = KernelClassifier(feature_map, random_state=0).fit(X[:600], y[:600])
    assert model.score(X[600:], y[600:]) > (0.6 if feature_map == "linear" else 0.75)
    assert model.map_coef_.dtype == dtype
    X, y = friedman(800, dtype=dtype)
    model = KernelRegressor(feature_map, random_state=0).fit(X[:600], y[:600])
    assert model.score(X[600:], y[600:]) > (0.6 if feature_map == "linear" else 0.85)
    assert model.predict(X).dtype == dtype


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("feature_map", ["binning", "fourier", "linear"])
def test_a_weight_of_two_is_a_row_given_twice(feature_map, loss):
    X, y = blobs(120)
    counts = np.random.default_rng(0).integers(0, 3, len(y))
    settings = {"loss": loss, "tol": 1e-9, "n_components": 32, "random_state": 0}
    if feature_map == "linear":
        del settings["n_components"]
    weighted = KernelClassifier(feature_map, **settings).fit(X, y, sample_weight=counts)
    repeated = KernelClassifier(feature_map, **settings).fit(
        np.repeat(X, counts, axis=0), np.repeat(y, counts)
    )
    np.testing.assert_allclose(
        weighted.decision_function(X), repeated.decision_function(X), atol=1e-5
    )


@pytest.mark.parametrize("loss", ["squared", "huber"])
def test_weights_in_regression_are_repetitions(loss):
    X, y = friedman(150)
    counts = np.random.default_rng(0).integers(0, 3, len(y))
    settings = {"loss": loss, "tol": 1e-9, "random_state": 0, "n_components": 32}
    weighted = KernelRegressor(**settings).fit(X, y, sample_weight=counts)
    repeated = KernelRegressor(**settings).fit(np.repeat(X, counts, axis=0), np.repeat(y, counts))
    np.testing.assert_allclose(weighted.predict(X), repeated.predict(X), atol=1e-5)


def test_weights_in_explicit_alpha_are_relative():
    X, y = friedman(150)
    weights = np.random.default_rng(0).uniform(0.5, 2, len(y))
    model = KernelRegressor("binning", alpha=1e-3, tol=1e-10, random_state=0)
    first = clone(model).fit(X, y, weights).predict(X)
    np.testing.assert_allclose(clone(model).fit(X, y, 10 * weights).predict(X), first, rtol=1e-6)


@pytest.mark.parametrize("feature_map", MAPS)
def test_units_of_the_inputs_do_not_matter(feature_map):
    X, y = friedman()
    units = np.array([1e-3, 1.0, 1e4, 7.0, 1e-6])
    model = KernelRegressor(feature_map, random_state=0, tol=1e-9)
    first = clone(model).fit(X, y).predict(X)
    second = clone(model).fit(X * units + 3, y).predict(X * units + 3)
    assert np.corrcoef(first, second)[0, 1] > 0.9999


def test_where_the_target_lies_does_not_matter():
    X, y = friedman()
    for loss in ("squared", "huber"):
        model = KernelRegressor("binning", loss=loss, random_state=0, tol=1e-8)
        first = clone(model).fit(X, y).predict(X)
        np.testing.assert_allclose(clone(model).fit(X, y + 1e6).predict(X) - 1e6, first, atol=1e-4)


def test_a_target_far_from_zero_keeps_its_digits_in_float32():
    X, y = friedman()
    near = KernelRegressor("binning", random_state=0).fit(X.astype(np.float32), y).predict(X)
    far = KernelRegressor("binning", random_state=0).fit(X.astype(np.float32), y + 1e5).predict(X)
    np.testing.assert_allclose(far - 1e5, near, atol=0.05)


@pytest.mark.rounding
def test_one_seed_is_one_model_whatever_the_threads():
    X, y = blobs(500)
    one = KernelClassifier("binning", random_state=3, n_jobs=1).fit(X, y)
    again = KernelClassifier("binning", random_state=3, n_jobs=1).fit(X, y)
    np.testing.assert_array_equal(one.map_coef_, again.map_coef_)
    two = KernelClassifier("binning", random_state=3, n_jobs=2).fit(X, y)
    np.testing.assert_allclose(two.map_coef_, one.map_coef_, rtol=1e-6, atol=1e-9)
    other = KernelClassifier("binning", random_state=4, n_jobs=1).fit(X, y)
    assert other.map_coef_.shape != one.map_coef_.shape or (other.map_coef_ != one.map_coef_).any()


@pytest.mark.rounding
def test_prediction_does_not_depend_on_how_rows_arrive(monkeypatch):
    X, y = friedman()
    model = KernelRegressor("binning", random_state=0).fit(X, y)
    whole = model.predict(X)
    np.testing.assert_array_equal(
        np.concatenate([model.predict(X[i : i + 1]) for i in range(9)]), whole[:9]
    )
    monkeypatch.setattr("mercer._runtime.arrays.row_chunks.__defaults__", (5000,))
    np.testing.assert_array_equal(model.predict(X), whole)


def test_sparse_and_dense_inputs_agree_unscaled():
    X, y = blobs()
    X[np.abs(X) < 0.5] = 0
    for feature_map in ("binning", "fourier", "linear"):
        model = KernelClassifier(feature_map, scale=False, gamma="median", random_state=0)
        if feature_map == "linear":
            model.set_params(gamma="scale")
        dense = clone(model).fit(X, y).decision_function(X)
        S = sparse.csr_array(X)
        np.testing.assert_allclose(clone(model).fit(S, y).decision_function(S), dense, atol=1e-6)


# classes


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("n_classes", [2, 4])
def test_columns_follow_sorted_classes(loss, n_classes):
    X, y = blobs(400, n_classes)
    names = np.array(["pear", "fig", "apple", "kiwi"])[y]
    model = KernelClassifier(loss=loss, n_components=64, random_state=0).fit(X, names)
    assert list(model.classes_) == sorted(set(names))
    decisions = model.decision_function(X)
    assert decisions.shape == ((400,) if n_classes == 2 else (400, n_classes))
    winners = (decisions > 0).astype(int) if n_classes == 2 else decisions.argmax(1)
    np.testing.assert_array_equal(model.predict(X), model.classes_[winners])
    assert model.score(X, names) > 0.9
    proba = model.predict_proba(X)
    np.testing.assert_allclose(proba.sum(1), 1, rtol=1e-12)
    np.testing.assert_array_equal(model.classes_[proba.argmax(1)], model.predict(X))


@pytest.mark.parametrize("loss", LOSSES)
def test_class_weights_multiply_sample_weights(loss):
    X, y = blobs(300)
    settings = {"loss": loss, "n_components": 32, "random_state": 0, "tol": 1e-8}
    by_class = KernelClassifier(class_weight={0: 1, 1: 5, 2: 2}, **settings).fit(X, y)
    by_row = KernelClassifier(**settings).fit(X, y, np.array([1.0, 5.0, 2.0])[y])
    np.testing.assert_allclose(by_class.map_coef_, by_row.map_coef_, rtol=1e-8, atol=1e-12)
    rare = np.concatenate([np.flatnonzero(y != 2), np.flatnonzero(y == 2)[:6]])
    balanced = KernelClassifier(class_weight="balanced", **settings).fit(X[rare], y[rare])
    assert set(balanced.predict(X[rare])) == {0, 1, 2}


def test_certain_one_vs_all_rejections_give_equal_probabilities():
    X = np.array([[0.0], [1.0], [2.0]])
    model = KernelClassifier("linear", loss="logistic").fit(X, [0, 1, 2])
    model.map_coef_ = np.zeros_like(model.map_coef_)
    model._intercept_ = np.full(3, -1e4)
    np.testing.assert_allclose(model.predict_proba(X), 1 / 3)


# living with scikit-learn


def test_grid_search_reaches_the_settings_of_a_map():
    X, y = blobs(200)
    search = GridSearchCV(
        KernelClassifier(RandomBinning(n_components=16, random_state=0)),
        {"feature_map__gamma": [1e-6, 0.2], "alpha": [1e-3]},
        cv=3,
    ).fit(X, y)
    assert search.best_params_["feature_map__gamma"] == 0.2
    assert cross_val_score(KernelClassifier("binning", random_state=0), X, y, cv=3).mean() > 0.7


def test_setting_of_a_map_is_refused_where_the_map_is_a_name():
    with pytest.raises(ValueError, match="feature_map__gamma must be set on a map"):
        KernelClassifier("binning").set_params(feature_map__gamma=1.0)
    with pytest.raises(ValueError, match=r"kernel__gamma must be set on a map .* kernel=None"):
        KernelClassifier("binning").set_params(kernel__gamma=1.0)
    with pytest.raises(ValueError, match="Invalid parameter 'colour'"):
        KernelClassifier("binning").set_params(colour__gamma=1.0)
    model = KernelClassifier("binning").set_params(
        feature_map=RandomBinning(), feature_map__gamma=1.0
    )
    assert model.feature_map.gamma == 1.0


@pytest.mark.parametrize(
    "frame", [pd.DataFrame, lambda X, columns: pl.DataFrame(X, schema=columns)]
)
def test_frames_are_accepted_and_their_columns_remembered(frame):
    X, y = friedman(100)
    columns = list("abcde")
    model = KernelRegressor(n_components=16, random_state=0).fit(frame(X, columns=columns), y)
    assert list(model.feature_names_in_) == columns
    np.testing.assert_array_equal(
        model.predict(frame(X, columns=columns)),
        KernelRegressor(n_components=16, random_state=0).fit(X, y).predict(X),
    )
    with pytest.raises(ValueError, match="feature names"):
        model.predict(frame(X, columns=columns[::-1]))


@pytest.mark.rounding
@pytest.mark.parametrize("feature_map", MAPS)
def test_a_pickled_model_predicts_the_same(feature_map):
    X, y = blobs(150)
    model = KernelClassifier(feature_map, random_state=0).fit(X, y)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.decision_function(X), model.decision_function(X))


@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_score_monitor_sees_every_iteration(loss):
    X, y = blobs(200, 2)
    monitor = pytest.importorskip("sklearn.callback").ScoringMonitor(scoring="accuracy")
    model = KernelClassifier(loss=loss, solver="auto", n_components=32, random_state=0)
    model.set_callbacks(monitor).fit(X, y)
    scores = [row["accuracy"] for row in monitor.get_logs().data if row["task_name"] == "iteration"]
    assert len(scores) == model.n_iter_
    assert scores[-1] == model.score(X, y)


class _StopAfter:
    """A callback that stops, or interrupts, after some iterations."""

    def __init__(self, n, interrupt=False):
        self.n, self.interrupt, self.seen = n, interrupt, 0

    def setup(self, estimator, context): ...

    def teardown(self, estimator, context): ...

    def on_fit_task_begin(self, estimator, context): ...

    def on_fit_task_end(self, estimator, context):
        self.seen += context.task_name == "iteration"
        if self.seen == self.n and self.interrupt:
            raise KeyboardInterrupt
        return self.seen >= self.n


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_callback_can_stop_the_fit(dtype):
    X, y = blobs(300, 2)
    X = X.astype(dtype)
    model = KernelClassifier("binning", solver="cg", tol=1e-14, random_state=0).set_callbacks(
        _StopAfter(3)
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X, y)
    assert model.n_iter_ == 3


@pytest.mark.parametrize(("solver", "loss"), [("cg", "squared"), ("newton-cg", "logistic")])
def test_an_interrupted_fit_leaves_the_model_reached_so_far(solver, loss):
    X, y = blobs(300, 2)
    model = KernelClassifier("binning", solver=solver, loss=loss, tol=1e-12, random_state=0)
    model.set_callbacks(_StopAfter(2, interrupt=True))
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, y)
    assert model.score(X, y) > 0.8
    model.set_callbacks().fit(X, y)
    assert model.converged_


def test_warm_start_continues_where_the_last_fit_stopped():
    X, y = blobs(400, 2)
    model = KernelClassifier(
        "binning", solver="cg", alpha=1e-3, tol=1e-8, warm_start=True, random_state=0
    ).fit(X, y)
    cold = model.n_iter_
    map_ = model.feature_map_
    model.set_params(alpha=1.01e-3).fit(X, y)
    assert model.feature_map_ is map_
    assert model.n_iter_ < cold
    fresh = clone(model).fit(X, y)
    np.testing.assert_allclose(model.decision_function(X), fresh.decision_function(X), atol=1e-4)
    model.set_params(gamma=0.01).fit(X, y)
    assert model.feature_map_.kernel_.gamma == 0.01
    three = np.where(X[:, 0] > 1, 2, y)
    assert set(model.fit(X, three).predict(X)) == {0, 1, 2}
    Y = np.column_stack([X[:, 0], X[:, 1], y])
    model = KernelRegressor(n_components=4, warm_start=True, random_state=0).fit(X, Y)
    assert model.fit(X, Y[:, :2]).predict(X).shape == (400, 2)
    assert model.fit(X, Y[:, 0]).predict(X).shape == (400,)
    many = np.ones((30, 1500))
    gamma = np.full(1500, 0.1)
    model = KernelRegressor(n_components=2, gamma=gamma, warm_start=True).fit(many, np.arange(30))
    gamma = gamma.copy()
    gamma[700] = 0.2
    model.set_params(gamma=gamma).fit(many, np.arange(30))
    assert model.feature_map_.kernel_.gamma[700] == 0.2


@pytest.mark.slow
def test_hundreds_of_fits_and_predictions_leave_no_memory_behind():
    if _resident_bytes() is None:
        pytest.skip("the system does not tell resident memory")
    X, y = friedman(2000)
    model = KernelRegressor(n_components=64, random_state=0)
    for _ in range(20):
        model.fit(X, y).predict(X)
    gc.collect()
    before = _resident_bytes()
    for _ in range(200):
        model.fit(X, y).predict(X)
    gc.collect()
    assert _resident_bytes() - before < 16 * 2**20


def _resident_bytes():
    try:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * 4096
    except OSError:
        return None


# saying no


def _with(value):
    X, y = friedman(30)
    X[3, 2] = value
    return X, y


TABLE = friedman(30)
PAIR = np.ones((3, 2))


@pytest.mark.parametrize(
    ("model", "data", "message"),
    [
        (KernelRegressor("binning"), _with(np.nan), "Input X contains NaN"),
        (KernelRegressor("binning"), _with(np.inf), "Input X contains infinity"),
        (KernelRegressor("binning"), _with(1e308), "X must have values small enough .* column 2"),
        (KernelRegressor("binning"), (PAIR, [0, np.nan, 1]), "y has 1 missing value, the first"),
        (KernelRegressor("binning"), (PAIR, [0, 1e308, 1]), "y must have finite sums of squares"),
        (KernelRegressor("binning"), (PAIR, [0, 1]), "inconsistent numbers of samples"),
        (KernelRegressor("binning"), (PAIR[:0], []), "0 sample"),
        (KernelRegressor("binning"), (PAIR[:, :0], [0, 1, 2]), "0 feature"),
        (
            KernelRegressor("binning"),
            (np.array([["a"], ["b"]]), [0, 1]),
            "could not convert string",
        ),
        (KernelRegressor("binning"), (np.ones(3), [0, 1, 2]), "Expected 2D array"),
        (KernelClassifier("binning"), (PAIR, [1, 1, 1]), "at least two classes; got one class, 1"),
        (KernelClassifier("binning"), (PAIR, [0.5, 1.2, 3.3]), "Unknown label type"),
        (
            KernelClassifier("binning", loss="huber"),
            (PAIR, [0, 1, 1]),
            "loss must be one for classification",
        ),
        (KernelRegressor("binning", loss="logistic"), TABLE, "loss must be one for regression"),
        (KernelRegressor("binning", loss="sqared"), TABLE, "loss must be one of"),
        (KernelRegressor("bining"), TABLE, "feature_map must be one of"),
        (KernelRegressor("binning", penalty="l3"), TABLE, "penalty must be one of"),
        (KernelRegressor("binning", solver="sgd"), TABLE, "solver must be one of"),
        (KernelRegressor("binning", kernel="rbff"), TABLE, "kernel must be one of"),
        (KernelRegressor("binning", kernel="gaussian"), TABLE, "not convex"),
        (KernelRegressor("binning", gamma=-1), TABLE, "gamma must be positive"),
        (KernelRegressor("binning", gamma=[1, 2]), TABLE, "one entry per input"),
        (KernelRegressor(n_components=0), TABLE, "n_components must be at least 1"),
        (KernelRegressor("binning", alpha=-1), TABLE, "alpha must be"),
        (KernelRegressor("binning", alpha=np.nan), TABLE, "alpha must be"),
        (KernelRegressor("binning", tol=-1), TABLE, "tol must be"),
        (KernelRegressor("binning", max_iter=0), TABLE, "max_iter must be"),
        (KernelRegressor("binning", n_jobs=0), TABLE, "n_jobs must not be 0"),
        (KernelRegressor(RandomFourier(gamma=1.0), gamma=2.0), TABLE, "gamma"),
        (KernelRegressor(Nystroem(), n_components=7), TABLE, "n_components"),
        (KernelRegressor(RandomBinning(), kernel="cauchy"), TABLE, "kernel"),
        (KernelRegressor("linear", gamma=1.0), TABLE, "gamma"),
        (KernelRegressor(Nystroem(random_state=1), random_state=2), TABLE, "random_state is given"),
        (KernelRegressor(Nystroem(n_jobs=1), n_jobs=2), TABLE, "n_jobs is given twice"),
        (KernelRegressor("binning", penalty=L2(0.1), alpha=0.2), TABLE, "alpha is given twice"),
    ],
)
def test_bad_input_is_refused_in_one_sentence(model, data, message):
    with pytest.raises(ValueError, match=message):
        model.fit(*data)


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (np.zeros(30), "not all zero"),
        (-np.ones(30), "not negative"),
        (np.ones(29), "sample_weight"),
        (np.full(30, np.nan), "NaN"),
    ],
)
def test_bad_weights_are_refused(weights, message):
    with pytest.raises(ValueError, match=message):
        KernelRegressor("binning").fit(*friedman(30), sample_weight=weights)


def test_predicting_before_fitting_says_so():
    with pytest.raises(NotFittedError):
        KernelRegressor("binning").predict(np.ones((2, 2)))
    model = KernelRegressor(n_components=8).fit(*friedman(30))
    with pytest.raises(ValueError, match="expecting 5 features"):
        model.predict(np.ones((2, 2)))


def test_unscaled_inputs_of_very_different_size_are_mentioned():
    X, y = friedman(50)
    with pytest.warns(UserWarning, match="scales differ by a factor"):
        KernelRegressor(scale=False, n_components=8).fit(X * [1, 1, 1e4, 1, 1], y)


@pytest.mark.parametrize("feature_map", MAPS)
def test_degenerate_tables_give_sane_models(feature_map):
    rng = np.random.default_rng(0)
    constant = np.repeat(rng.normal(size=(1, 3)), 20, axis=0)
    for X in (np.ones((20, 3)), constant, rng.normal(size=(20, 1))):
        y = rng.normal(size=20)
        predictions = KernelRegressor(feature_map, random_state=0).fit(X, y).predict(X)
        assert np.isfinite(predictions).all()
        if len(np.unique(X, axis=0)) == 1:
            np.testing.assert_allclose(predictions, y.mean(), rtol=1e-5, atol=1e-8)


def test_several_outputs_are_several_models():
    X, y = friedman(300)
    Y = np.column_stack([y, -3 * y + 1, np.sin(y)])
    together = KernelRegressor("binning", random_state=0, tol=1e-10).fit(X, Y)
    for column in range(3):
        alone = KernelRegressor("binning", random_state=0, tol=1e-10).fit(X, Y[:, column])
        np.testing.assert_allclose(together.predict(X)[:, column], alone.predict(X), atol=1e-6)
    assert r2_score(Y, together.predict(X)) > 0.9
