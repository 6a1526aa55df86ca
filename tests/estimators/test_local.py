"""Local kernel machines: an exact machine in every leaf, blended; the cuts: test_partition.py."""

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

import mercer.designs.local
import mercer.maps.local
from _conventions import parametrize_with_settings
from mercer import (
    KernelClassifier,
    KernelRegressor,
    LocalKernelClassifier,
    LocalKernelRegressor,
    config_context,
    losses,
    persistence,
)
from mercer._runtime.random import key_from
from mercer.estimators.preprocessing import TrainingSample
from mercer.estimators.selection import held_out
from mercer.maps import LocalKernel

FIXED = {"gamma": 0.5, "scale": False, "random_state": 0}
LEAVES = {**FIXED, "leaf_size": 60, "n_trees": 3, "n_jobs": 1}


def checks_that_make_no_sense(estimator):
    """The size of leaves is counted in rows as given, so that weights are no repetitions."""
    names = [f"check_sample_weight_equivalence_on_{kind}_data" for kind in ("dense", "sparse")]
    return dict.fromkeys(names, "leaves count rows") if estimator.leaf_size < 100 else {}


@parametrize_with_settings(
    [
        LocalKernel(leaf_size=8, n_jobs=1),
        LocalKernelRegressor(n_trees=1, n_jobs=1),
        LocalKernelClassifier(leaf_size=8, n_trees=2, overlap=0.0, n_jobs=1),
    ],
    [LocalKernelRegressor(leaf_size=8, n_trees=2, alphas=[1e-3, 1e-1], n_jobs=1)],
    expected_failed_checks=checks_that_make_no_sense,
)
def test_scikit_learn_conventions(estimator, check):
    check(estimator)


@pytest.mark.parametrize("module", [mercer.maps.local, mercer.designs.local])
def test_examples_run(module, check_examples):
    check_examples(module)


def waves(n=300, seed=0, dtype=np.float64, d=2):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-3, 3, size=(n, d))
    return X.astype(dtype), (np.sin(2 * X).sum(axis=1) + 0.1 * rng.normal(size=n)).astype(dtype)


def classes(n=300, seed=0):
    X, y = waves(n, seed)
    return X, np.array(["low", "middle", "high"])[np.digitize(y, [-0.5, 0.5])]


def answers(model, X):
    return getattr(model, "decision_function", model.predict)(X)


# --- one leaf --------------------------------------------------------------------------------


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("loss", ["squared", "huber"])
def test_one_leaf_is_the_exact_machine(loss, weighted, fit_intercept):
    X, y = waves(120)
    y = np.column_stack([y, y[::-1]])
    weights = np.random.default_rng(1).uniform(0.1, 3, 120) if weighted else None
    settings = {"loss": loss, "alpha": 1e-3, "tol": 1e-7, "fit_intercept": fit_intercept}
    settings |= {"kernel": "laplacian", "random_state": 0}
    for target in (y[:, 0], y):
        exact = KernelRegressor("exact", **settings).fit(X, target, weights)
        local = LocalKernelRegressor(n_trees=2, **settings).fit(X, target, weights)
        assert local.n_leaves_ == 2
        new = waves(seed=1)[0]
        np.testing.assert_allclose(local.predict(new), exact.predict(new), atol=1e-5)


@pytest.mark.parametrize("loss", ["squared", "logistic", "squared_hinge", "smooth_hinge",
                                  "multinomial"])  # fmt: skip
@pytest.mark.parametrize("n_classes", [2, 3])
def test_one_leaf_of_classes_is_the_exact_machine(loss, n_classes):
    X, y = classes(120)
    y = y if n_classes == 3 else y == "low"
    weights = np.random.default_rng(1).uniform(0.1, 3, 120)
    settings = {"loss": loss, "alpha": 1e-2, "tol": 1e-7, "class_weight": "balanced"}
    settings |= {"kernel": "laplacian"}
    exact = KernelClassifier("exact", **settings).fit(X, y, weights)
    local = LocalKernelClassifier(n_trees=1, **settings).fit(X, y, weights)
    new = waves(seed=1)[0]
    np.testing.assert_allclose(answers(local, new), answers(exact, new), atol=1e-4)
    assert hasattr(local, "predict_proba") == hasattr(exact, "predict_proba")


def test_the_default_strength_is_that_of_the_exact_machine():
    X, y = waves(120)
    weights = np.random.default_rng(1).uniform(0.1, 3, 120)
    for given, total in ((None, 120), (weights, weights.sum()), (2 * weights, 2 * weights.sum())):
        model = LocalKernelRegressor(**LEAVES).fit(X, y, given)
        np.testing.assert_allclose(model.alpha_, 0.3 / total)


# --- several leaves --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("loss", "overlap"), [("squared", 0.0), ("squared", 0.25), ("huber", 0.1), ("logistic", 0.1)]
)
def test_several_leaves_are_exact_machines_of_their_rows_blended(loss, overlap):
    kinds = LocalKernelRegressor, KernelRegressor
    (X, y), new = waves(), waves(seed=1)[0]
    if loss == "huber":
        loss = losses.Huber(0.5)  # a name sets the width by the targets, which leaves do not share
    if loss == "logistic":
        kinds = LocalKernelClassifier, KernelClassifier
        y = np.where(y > 0, "up", "down")
    settings = {"kernel": "laplacian", "gamma": 0.5, "scale": False, "loss": loss, "tol": 1e-7}
    weights = np.random.default_rng(1).uniform(0.5, 2, len(y))
    local = kinds[0](leaf_size=90, n_trees=2, overlap=overlap, alpha=1e-2, random_state=0)
    local.set_params(**settings).fit(X, y, weights)
    assert local.n_leaves_ >= 8
    map_, expected = local.feature_map_, np.zeros(len(new))
    for route in map_.partition_.routes(new):
        own = map_.members_.of(route.leaf)
        # The strength is that of all rows, and exact machines take it relative to their own.
        strength = 1e-2 * weights.sum() / weights[own].sum()
        exact = kinds[1]("exact", alpha=strength, **settings).fit(X[own], y[own], weights[own])
        expected[route.rows] += route.shares * answers(exact, new[route.rows])
    np.testing.assert_allclose(answers(local, new), expected, atol=1e-4)


def test_two_leaves_of_two_rows_are_as_the_formula_says():
    X, y = np.array([[0.0], [1.0], [3.0], [4.0]]), np.array([1.0, 2.0, -1.0, 5.0])
    model = LocalKernelRegressor(leaf_size=2, overlap=0.0, n_trees=1, alpha=0.1, **FIXED).fit(X, y)
    assert model.n_leaves_ == 2
    new = np.array([-1.0, 0.2, 1.5, 1.99, 2.01, 3.3, 9.0])
    expected = []
    for x in new:
        one, two = (0, 1) if x < 2 else (2, 3)  # the cut is halfway between 1 and 3
        left, right = (np.exp(-0.5 * abs(x - X[i, 0])) for i in (one, two))
        slope = (y[one] - y[two]) / 2 / (1 + 4 * 0.1 - np.exp(-0.5))
        expected.append((y[one] + y[two]) / 2 + slope * (left - right))
    np.testing.assert_allclose(model.predict(new[:, None]), expected, rtol=1e-12)


def largest_jump(model, step):
    along = np.arange(-2.0, 2.0, step)
    walk = np.column_stack([along, 0.3 * along + 0.1])
    return abs(np.diff(model.predict(walk))).max()


def test_responses_are_continuous_across_cuts_with_overlap_alone():
    X, y = waves(600)
    for overlap, ratio in ((0.1, 5.0), (0.0, 1.5)):
        model = LocalKernelRegressor(**{**LEAVES, "overlap": overlap}).fit(X, y)
        coarse, fine = largest_jump(model, 1e-2), largest_jump(model, 1e-3)
        assert coarse > ratio * fine if overlap else coarse < ratio * fine


# --- weights ---------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", ["squared", "huber"])
def test_a_weight_of_two_in_a_leaf_is_a_row_given_twice(loss):
    X, y = waves(90)
    counts = np.random.default_rng(0).integers(0, 3, 90)
    model = LocalKernelRegressor(loss=loss, tol=1e-9, **{**LEAVES, "leaf_size": 200})
    weighted = clone(model).fit(X, y, counts).predict(X)
    repeated = clone(model).fit(np.repeat(X, counts, axis=0), np.repeat(y, counts)).predict(X)
    np.testing.assert_allclose(weighted, repeated, atol=1e-6)


@pytest.mark.rounding
@pytest.mark.parametrize("alphas", [None, [1e-3, 1e-2]])
def test_rows_without_weight_are_not_there(alphas):
    X, y = waves()
    weights = np.arange(300) % 3 / 2
    model = LocalKernelRegressor(alphas=alphas, **{**LEAVES, "scale": True})
    kept = weights > 0
    one = clone(model).fit(X, y, weights)
    other = clone(model).fit(X[kept], y[kept], weights[kept])
    np.testing.assert_allclose(one.predict(X), other.predict(X), atol=1e-12)
    np.testing.assert_allclose(
        clone(model).set_params(alpha=None if alphas else 0.01).fit(X, y, 5 * weights).predict(X),
        clone(model).set_params(alpha=None if alphas else 0.01).fit(X, y, weights).predict(X),
        atol=1e-9,
    )


# --- a choice of strengths -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("loss", "weighted"),
    [("squared", False), ("squared", True), ("huber", False), ("logistic", True)],
)
def test_the_strength_chosen_has_the_least_loss_on_rows_held_out(loss, weighted):
    alphas = [1e-4, 1e-2, 1.0]
    X, y = waves()
    kind, strata, coded = LocalKernelRegressor, None, y
    if loss == "huber":
        loss = losses.Huber(0.5)  # a name sets the width by the targets of all rows
    if loss == "logistic":
        kind, strata = LocalKernelClassifier, (y > 0).astype(int)
        y, coded = y > 0, np.where(y > 0, 1.0, -1.0)
    weights = np.random.default_rng(1).uniform(0.5, 2, 300) if weighted else np.ones(300)
    settings = {**LEAVES, "loss": loss, "tol": 1e-7}
    found = kind(alphas=alphas, validation_fraction=0.25, **settings).fit(X, y, weights)
    held = held_out(key_from(0), coded, strata, 0.25)
    scores = []
    for alpha in alphas:
        share = 300 / (~held).sum()
        part = kind(alpha=alpha * share, **settings).fit(X[~held], y[~held], weights[~held])
        loss_of_rows = losses.get(loss).value(answers(part, X[held]), coded[held])
        scores.append(-np.average(loss_of_rows, weights=weights[held]))
    np.testing.assert_allclose(found.path_["score"], scores, rtol=1e-4)
    assert found.path_["alpha"].tolist() == alphas
    assert found.alpha_ == alphas[int(np.argmax(scores))]
    whole = kind(alpha=found.alpha_, **settings).fit(X, y, weights)
    np.testing.assert_allclose(answers(found, X), answers(whole, X), atol=1e-9)


# --- stopping --------------------------------------------------------------------------------


class _StopAfter:
    """A callback that stops, or interrupts, after some calls."""

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


@pytest.mark.parametrize("interrupt", [False, True])
@pytest.mark.parametrize(("calls", "whole"), [(1, 1), (4, 1), (5, 1), (9, 2)])
def test_a_fit_that_is_stopped_keeps_whole_trees(calls, whole, interrupt, monkeypatch):
    monkeypatch.setattr("mercer.solvers.local._BATCH", 2)
    X, y = waves(200)
    settings = {**LEAVES, "overlap": 0.0}  # four leaves of 50 a tree, and a call every two
    model = LocalKernelRegressor(**settings)
    model.set_callbacks(_StopAfter(calls // 2 + calls % 2, interrupt))
    if interrupt:
        with pytest.raises(KeyboardInterrupt, match="the trees finished so far"):
            model.fit(X, y)
    else:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            model.fit(X, y)
    assert not model.converged_
    assert model.n_leaves_ == 4 * whole
    assert pickle.loads(pickle.dumps(model)).predict(X).tolist() == model.predict(X).tolist()
    if calls > 2:
        fewer = LocalKernelRegressor(**{**settings, "n_trees": whole}).fit(X, y)
        np.testing.assert_array_equal(model.predict(X), fewer.predict(X))
        assert model.optimality_ < 1e-9
    else:
        assert model.score(X, y) > 0.3  # half of the leaves, and the means of the others
        assert model.optimality_ == 1.0


@pytest.mark.parametrize("loss", ["squared", "huber"])
def test_an_interrupt_within_a_leaf_leaves_a_model_that_predicts(loss, monkeypatch):
    X, y = waves(200)
    model = LocalKernelRegressor(loss=loss, overlap=0.0, **LEAVES)
    left = [5]

    def interrupted(*args, **kwargs):
        left[0] -= 1
        if not left[0]:
            raise KeyboardInterrupt
        return original(*args, **kwargs)

    kind = mercer.kernels.base.Kernel if loss == "squared" else mercer.designs.KernelColumns
    name = "__call__" if loss == "squared" else "held"
    original = getattr(kind, name)
    monkeypatch.setattr(kind, name, interrupted)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, y)
    monkeypatch.undo()
    assert model.n_leaves_ == 4
    one = LocalKernelRegressor(**{**LEAVES, "n_trees": 1, "overlap": 0.0, "loss": loss}).fit(X, y)
    np.testing.assert_array_equal(model.predict(X), one.predict(X))


@pytest.mark.parametrize("outputs", [1, 2])
def test_score_monitor_sees_the_leaves_fill(outputs, monkeypatch):
    monkeypatch.setattr("mercer.solvers.local._BATCH", 2)
    X, y = waves(200)
    y = y if outputs == 1 else np.column_stack([y, -y])
    monitor = pytest.importorskip("sklearn.callback").ScoringMonitor(scoring="r2")
    model = LocalKernelRegressor(**LEAVES).set_callbacks(monitor).fit(X, y)
    scores = [row["r2"] for row in monitor.get_logs().data if row["task_name"] == "iteration"]
    assert len(scores) == -(-model.n_leaves_ // 2)
    assert scores[0] < scores[-1] == model.score(X, y)


# --- living with others ----------------------------------------------------------------------


@pytest.mark.rounding
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("loss", ["squared", "huber"])
def test_threads_change_no_bit_of_a_model(loss, dtype):
    X, y = waves(dtype=dtype)
    one, three = (
        LocalKernelRegressor(loss=loss, alphas=[1e-3, 1e-2], **{**LEAVES, "n_jobs": jobs}).fit(X, y)
        for jobs in (1, 3)
    )
    np.testing.assert_array_equal(one.map_coef_, three.map_coef_)
    np.testing.assert_array_equal(one.predict(X), three.predict(X))


@pytest.mark.rounding
def test_answers_do_not_depend_on_how_rows_arrive(monkeypatch):
    X, y = waves()
    model = LocalKernelRegressor(**LEAVES).fit(X, y)
    whole = model.predict(X)
    single = [model.predict(X[i : i + 1])[0] for i in range(20)]
    np.testing.assert_allclose(single, whole[:20], atol=1e-12)
    monkeypatch.setattr("mercer._runtime.arrays.row_chunks.__defaults__", (5000,))
    np.testing.assert_allclose(model.predict(X), whole, atol=1e-12)


@pytest.mark.parametrize("loss", ["squared", "huber"])
def test_float32_is_close_to_float64_whatever_the_strength(loss):
    X, y = waves(dtype=np.float32)
    for alpha in (1e-7, 1e-3):
        models = [LocalKernelRegressor(loss=loss, alpha=alpha, tol=1e-6, **LEAVES) for _ in "12"]
        single, double = models[0].fit(X, y), models[1].fit(X.astype(float), y.astype(float))
        assert single.predict(X).dtype == np.float32
        np.testing.assert_allclose(single.predict(X), double.predict(X.astype(float)), atol=2e-3)


def test_sparse_rows_are_dense_rows():
    X, y = waves()
    X[abs(X) < 1] = 0
    dense = LocalKernelRegressor(**LEAVES).fit(X, y)
    thin = LocalKernelRegressor(**LEAVES).fit(sparse.csr_array(X), y)
    np.testing.assert_allclose(thin.predict(sparse.csr_array(X)), dense.predict(X), atol=1e-9)
    np.testing.assert_allclose(thin.predict(X), dense.predict(X), atol=1e-9)


@pytest.mark.parametrize("kind", [LocalKernelRegressor, LocalKernelClassifier])
def test_models_survive_files_pickles_and_frames(kind, tmp_path):
    X, y = waves() if kind is LocalKernelRegressor else classes()
    saved = kind(alphas=[1e-3, 1e-2], **LEAVES).fit(pd.DataFrame(X, columns=["a", "b"]), y)
    persistence.save(saved, tmp_path / "m.skops")
    frame = pd.DataFrame(X, columns=["a", "b"])
    for again in (persistence.load(tmp_path / "m.skops"), pickle.loads(pickle.dumps(saved))):
        np.testing.assert_array_equal(again.predict(frame), saved.predict(frame))
        assert again.n_leaves_ == saved.n_leaves_
        assert again.feature_names_in_.tolist() == ["a", "b"]


def test_settings_are_copied_searched_and_for_the_next_fit():
    X, y = waves()
    model = LocalKernelRegressor(**LEAVES).fit(X, y)
    before = model.predict(X)
    assert repr(clone(model)) == repr(model)
    for name, value in {"leaf_size": 7, "n_trees": 1, "overlap": 0.2, "kernel": "ngram"}.items():
        np.testing.assert_array_equal(model.set_params(**{name: value}).predict(X), before)
    search = GridSearchCV(LocalKernelRegressor(**LEAVES), {"gamma": [1e-6, 0.5]}, cv=2).fit(X, y)
    assert search.best_params_ == {"gamma": 0.5}


def test_a_constant_target_is_answered():
    X, _ = waves()
    model = LocalKernelRegressor(**LEAVES).fit(X, np.full(300, 7.0))
    np.testing.assert_allclose(model.predict(X), 7.0, rtol=1e-12)


def test_leaves_of_one_class_are_no_obstacle():
    X, _ = waves()
    y = np.where(X[:, 0] > 0, "right", "left")
    for loss in ("squared", "logistic", "squared_hinge", "multinomial"):
        model = LocalKernelClassifier(loss=loss, **{**LEAVES, "leaf_size": 20}).fit(X, y)
        assert model.score(X, y) > 0.95


# --- accuracy --------------------------------------------------------------------------------


def test_leaves_are_almost_as_accurate_as_all_rows():
    """The error of leaves of 250 rows was 1.50 times that of all 4000, of which noise is left."""
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(5000, 3))
    truth = np.sin(5 * X[:, 0]) + X[:, 1] * X[:, 2]
    y = truth + 0.05 * rng.normal(size=5000)
    fit, new = slice(4000), slice(4000, None)
    errors = []
    for model in (
        KernelRegressor("exact", kernel="laplacian", gamma=0.3, alpha=0.3 / 4000),
        LocalKernelRegressor(gamma=0.3, leaf_size=250, random_state=0),
    ):
        model.fit(X[fit], y[fit])
        errors.append(np.sqrt(np.mean((model.predict(X[new]) - truth[new]) ** 2)))
    assert errors[0] < 0.015
    assert errors[1] < 1.8 * errors[0]


# --- what makes no sense ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"leaf_size": 1}, "leaf_size must be at least 2; got 1"),
        ({"leaf_size": 2.5}, "leaf_size must be an integer; got 2.5"),
        ({"overlap": 0.3}, "overlap must be from 0 to 0.25; got 0.3"),
        ({"overlap": -0.1}, "overlap must be from 0 to 0.25; got -0.1"),
        ({"overlap": np.nan}, "overlap must be from 0 to 0.25; got nan"),
        ({"overlap": "wide"}, "overlap must be a number; got 'wide'"),
        ({"n_trees": 0}, "n_trees must be at least 1; got 0"),
        ({"n_trees": 1001}, "n_trees must be at most 1000; got 1001"),
        ({"n_trees": True}, "n_trees must be an integer; got True"),
        ({"n_trees": 10**400}, r"n_trees must be below 2\*\*63; got one of 1329 bits"),
        ({"alpha": 0}, "alpha must be positive and finite; got 0"),
        ({"alpha": 1.0, "alphas": [1.0]}, "alpha must be left out beside alphas; got 1.0"),
        ({"alphas": [1.0, -1.0]}, "alphas must be positive and finite; got -1.0"),
        ({"alphas": [1.0], "validation_fraction": 1}, "validation_fraction must be above 0 and"),
        ({"kernel": "ngram"}, "kernel must be one of rows of numbers; got 'ngram'"),
        ({"kernel": "precomputed"}, "kernel must be one of 'gaussian'"),
        ({"gamma": 0}, "gamma must be positive and finite; got 0"),
        ({"tol": 0}, "tol must be positive and finite; got 0"),
        ({"max_iter": 0}, "max_iter must be at least 1; got 0"),
        ({"n_jobs": 0}, "n_jobs must not be 0"),
        ({"loss": "logistic"}, "loss must be one for regression; got 'logistic'"),
    ],
)
def test_settings_that_make_no_sense_are_refused_in_one_sentence(settings, message):
    X, y = waves(40)
    model = LocalKernelRegressor(random_state=0).fit(X, y)
    with pytest.raises((ValueError, TypeError), match=f"^{message}") as refusal:
        model.set_params(**settings).fit(X, y)
    assert "\n" not in str(refusal.value)
    assert not hasattr(model, "map_coef_")


def test_machines_that_solve_for_all_columns_at_once_are_no_place_for_leaves():
    for kind in (KernelRegressor, KernelClassifier):
        with pytest.raises(ValueError, match=r"^feature_map must not be a LocalKernel, .* one\.$"):
            kind(LocalKernel()).fit(waves(40)[0], np.arange(40) % 2)


def test_texts_are_refused_by_the_kernel_that_takes_them():
    for model in (LocalKernel("ngram"), LocalKernelRegressor("ngram")):
        with pytest.raises(ValueError, match="kernel must be one of rows of numbers; got 'ngram'"):
            model.fit(["one text", "another"] * 9, np.arange(18.0))


def test_coefficients_that_do_not_fit_in_memory_are_refused_with_what_would():
    X, y = waves(3000)
    with config_context(max_memory="2MB"):
        with pytest.raises(MemoryError, match=r"n_trees=99 trees of 3000 rows .* would fit\.$"):
            LocalKernelRegressor(n_trees=99).fit(X, y)
        with pytest.raises(MemoryError, match=r"raise leaf_size or lower overlap\.$"):
            LocalKernelRegressor(leaf_size=50, overlap=0.25, n_trees=1).fit(X, y)


@pytest.mark.parametrize(("leaf_size", "at_work"), [(1000, 2), (100, 8)])
def test_leaves_at_work_take_three_matrices_each(leaf_size, at_work, monkeypatch):
    monkeypatch.setattr("mercer.estimators.local.n_threads", lambda n_jobs: 8)
    model = LocalKernelRegressor(leaf_size=leaf_size, n_trees=2)
    needed = model._leaf_bytes(TrainingSample(*waves(400, dtype=np.float32)))
    assert needed == at_work * 3 * 4 * min(400, leaf_size) ** 2


def test_newton_steps_are_counted():
    X, y = waves()
    assert LocalKernelClassifier(loss="logistic", **LEAVES).fit(X, y > 0).n_iter_ > 1


def test_leaves_too_large_for_memory_are_refused_with_the_size_that_fits():
    X, y = np.random.default_rng(0).normal(size=(3000, 2)).astype(np.float32), np.zeros(3000)
    with (
        config_context(max_memory=2**26),
        pytest.raises(MemoryError, match=r"2 leaves of 3000 rows .*leaf_size=\d+ would fit\.$"),
    ):
        LocalKernelRegressor(leaf_size=3000, n_trees=2, n_jobs=2).fit(X, y)
