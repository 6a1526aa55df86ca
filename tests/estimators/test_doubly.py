"""Laws of doubly stochastic gradients, and what users of their estimators may rely on."""

import pickle
import tracemalloc
import warnings

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import load_diabetes
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import StandardScaler

from _conventions import parametrize_with_settings
from mercer import DoublySGDClassifier, DoublySGDRegressor, KernelRegressor, persistence
from mercer.estimators import doubly as estimators
from mercer.losses import Huber, Logistic, Multinomial, Squared
from mercer.maps import ExactKernel, Fastfood, RandomBinning, RandomFourier, RandomPerceptron
from mercer.solvers import DoublySGD, Expansion, doubly
from test_estimators import blobs, friedman

QUICK = {"max_iter": 5, "block_size": 40, "random_state": 0}


def fourier(X, gamma=0.5, seed=0, **settings):
    return RandomFourier(gamma=gamma, scale=False, random_state=seed, **settings).fit(X)


def wave(n=600, d=2, seed=0, noise=0.0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, size=(n, d))
    return X, np.sin(2 * X[:, 0]) * np.cos(X[:, -1]) + noise * rng.normal(size=n)


@pytest.mark.filterwarnings("ignore:.*of the bins of these rows")
@parametrize_with_settings(
    [DoublySGDRegressor(max_iter=5), DoublySGDClassifier(max_iter=5)],
    expected_failed_checks=lambda estimator: {
        f"check_sample_weight_equivalence_on_{kind}_data": "rows come in batches, in another order"
        for kind in ("dense", "sparse")
    },
)
def test_scikit_learn_conventions(estimator, check):
    check(estimator)


# -- the algorithm ---------------------------------------------------------------------------


def explicit(solver, map_, X, y, loss, steps, batch, block, alpha):
    """The algorithm with all features in memory and every coefficient touched by every step."""
    Z = map_.stream(X, 0, steps * block)[1].toarray()
    coef = np.zeros((0, *y.shape[1:]))
    order = doubly.batches(map_.key_, len(y), batch)
    for t in range(steps):
        rows = next(order)
        seen = Z[rows][:, : t * block]
        gamma = solver.step_length(t, loss, map_)
        fresh = Z[rows][:, t * block : (t + 1) * block]
        gradient = fresh.T @ loss.gradient(seen @ coef, y[rows]) / batch
        if solver.preconditioned:
            moments = fresh.T @ fresh / (batch * block) + (alpha + 1e-7) * np.eye(block)
            ridge = batch * block * (alpha + 1e-7)
            gradient = np.linalg.solve(moments, gradient)
            gradient *= share_of_unseen_rows(fresh, loss.gradient(seen @ coef, y[rows]), ridge)
        coef = np.concatenate([(1 - gamma * alpha) * coef, -gamma / block * gradient])
    return Z @ coef, coef


def share_of_unseen_rows(Z, slopes, ridge):
    """How much of a ridge regression of the slopes is best for rows left out one by one."""
    unseen = np.empty_like(slopes)
    for row in range(len(Z)):
        rest = np.arange(len(Z)) != row
        moments = Z[rest].T @ Z[rest] + ridge * np.eye(Z.shape[1])
        unseen[row] = Z[row] @ np.linalg.solve(moments, Z[rest].T @ slopes[rest])
    return np.clip(np.sum(unseen * slopes) / np.sum(unseen**2), 0, 1)


@pytest.mark.parametrize("preconditioned", [False, True])
@pytest.mark.parametrize("keep", [False, True])
@pytest.mark.parametrize("loss", [Squared(), Huber(), Logistic(), Multinomial()], ids=repr)
def test_steps_are_the_explicit_algorithm(preconditioned, keep, loss):
    X, y = wave(300)
    if isinstance(loss, Logistic):
        y = np.sign(y)
    elif isinstance(loss, Multinomial):
        y = (np.digitize(y, [-0.3, 0.3])[:, None] == np.arange(3)).astype(float)
    solver = DoublySGD(
        alpha=0.01,
        preconditioned=preconditioned,
        batch_size=200,
        block_size=20,
        max_iter=7,
        keep_responses=keep,
    )
    f, losses = solver.solve(fourier(X), X, y, loss)
    responses, coef = explicit(solver, fourier(X), X, y, loss, 7, 200, 20, 0.01)
    np.testing.assert_allclose(f.coef, coef, atol=1e-8 * np.abs(coef).max())
    np.testing.assert_allclose(f.responses(X), responses, atol=1e-8 * np.abs(responses).max())
    assert len(losses) == 7
    assert losses[-1] < losses[0]


@pytest.mark.rounding
def test_responses_while_training_are_those_rebuilt_from_the_coefficients():
    X, y = wave(300)
    map_ = fourier(X)
    solver = DoublySGD(alpha=0.05, batch_size=100, block_size=10, preconditioned=False)
    f, before = Expansion(map_), []
    order = doubly.batches(map_.key_, 300, 100)
    for t in range(6):
        rows = next(order)
        before.append((rows, f.coef, f.responses(X[rows])))
        value = solver.step(f, t, X[rows], y[rows], Squared())
        assert value == pytest.approx(np.mean(0.5 * (before[-1][2] - y[rows]) ** 2))
    for t, (rows, coef, responses) in enumerate(before):
        again = Expansion(fourier(X))
        again.append(coef)
        np.testing.assert_allclose(again.responses(X[rows]), responses, atol=1e-12)
        assert len(coef) == 10 * t


@pytest.mark.rounding
def test_the_scale_of_shrinking_is_the_explicit_loop_however_long():
    X = np.eye(3)
    f, blocks = Expansion(fourier(X)), []
    rng = np.random.default_rng(0)
    for _ in range(300):
        f.shrink(0.8)
        blocks = [0.8 * block for block in blocks]
        blocks.append(rng.normal(size=2))
        f.append(blocks[-1])
    np.testing.assert_allclose(f.coef, np.concatenate(blocks), rtol=1e-10)
    assert f.scale > 1e-13


def test_predictions_make_every_feature_once_and_hold_few(monkeypatch):
    X, y = wave(2000)
    map_ = fourier(X)
    seen = []
    original = RandomFourier.stream

    def counted(self, X, first, count):
        seen.append(X.shape[0] * count)
        return original(self, X, first, count)

    f, _ = DoublySGD(max_iter=8, block_size=500, preconditioned=False).solve(map_, X, y, Squared())
    monkeypatch.setattr(RandomFourier, "stream", counted)
    for steps in (2, 4, 8):  # linear in the number of steps
        part = Expansion(map_)
        part.append(f.coef[: steps * 500])
        seen.clear()
        part.responses(X)
        assert sum(seen) == 2000 * 500 * steps
    tracemalloc.start()
    f.responses(X)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 0.5 * 8 * 2000 * 4000


@pytest.mark.parametrize("alpha", [0.1, 0.01])
def test_plain_steps_converge_to_kernel_ridge_regression(alpha):
    X, y = wave(200, noise=0.1)
    exact = KernelRegressor(ExactKernel("gaussian", 0.5), alpha=alpha, scale=False)
    K = fourier(X).kernel_(X)
    expected = K @ np.linalg.solve(K + 200 * alpha * np.eye(200), y)
    assert exact.fit(X, y).predict(X) == pytest.approx(expected, abs=0.2)  # it has an intercept
    errors = []
    for steps in (20, 200, 2000):
        solver = DoublySGD(
            alpha=alpha, preconditioned=False, batch_size=100, block_size=20, max_iter=steps
        )
        f, _ = solver.solve(fourier(X), X, y, Squared())
        errors.append(np.sqrt(np.mean((f.responses(X) - expected) ** 2)))
    assert errors[0] > errors[1] > errors[2]
    assert errors[2] < 0.1 * np.std(expected)


def test_preconditioned_steps_need_far_fewer():
    X, y = wave(2000)
    settings = {"batch_size": 1000, "block_size": 100, "max_iter": 10}
    plain, quick = (
        DoublySGD(preconditioned=which, **settings).solve(fourier(X), X, y, Squared())[1]
        for which in (False, True)
    )
    assert quick[-1] < 0.01 * plain[-1]


def test_a_weight_of_two_is_a_row_twice():
    """Preconditioned steps have its direction; their lengths leave out a row, or one of the two."""
    X, y = wave(100)
    settings = {"batch_size": 10_000, "block_size": 12, "alpha": 0.01}
    weights = np.random.default_rng(0).integers(1, 4, 100)
    for preconditioned, steps in ((False, 4), (True, 1)):
        solver = DoublySGD(preconditioned=preconditioned, max_iter=steps, **settings)
        weighted, _ = solver.solve(fourier(X), X, y, Squared(), sample_weight=weights.astype(float))
        rows = np.repeat(np.arange(100), weights)
        repeated, _ = solver.solve(fourier(X), X[rows], y[rows], Squared())
        ratio = np.linalg.norm(repeated.coef) / np.linalg.norm(weighted.coef)
        assert preconditioned or ratio == pytest.approx(1)
        scale = np.abs(repeated.coef).max()
        np.testing.assert_allclose(ratio * weighted.coef, repeated.coef, atol=1e-6 * scale)


def test_steps_on_few_rows_with_outliers_do_not_raise_the_error():
    """Without a look at unseen rows, the error of these grows a hundredfold."""
    rng = np.random.default_rng(0)
    X = np.exp(2 * rng.normal(size=(4000, 16)))
    y = np.log(X[:, 0]) + rng.normal(size=4000)
    model = DoublySGDRegressor(batch_size=256, random_state=0).fit(X, y)
    assert np.mean(model.loss_curve_[-5:]) < 1.1 * np.mean(model.loss_curve_[:5])
    assert model.score(X, y) > 0


def test_steps_that_raise_the_loss_are_warned_of():
    X, y = wave(2000)
    too_long = DoublySGDRegressor(preconditioned=False, step_size=8.0, max_iter=20, random_state=0)
    with pytest.warns(ConvergenceWarning, match="step_size must be smaller"):
        too_long.fit(X, y)


def test_batches_visit_all_rows_before_any_again():
    order = doubly.batches(3, 10, 4)
    drawn = np.concatenate([next(order) for _ in range(5)])
    np.testing.assert_array_equal(np.bincount(drawn, minlength=10), 2)
    np.testing.assert_array_equal(next(doubly.batches(3, 10, 4)), drawn[:4])
    assert not np.array_equal(next(doubly.batches(4, 10, 4)), drawn[:4])


def test_too_long_steps_are_refused():
    X, y = wave(100)
    solver = DoublySGD(step_size=1e6, preconditioned=False, max_iter=300)
    with pytest.raises(ValueError, match="step_size must be smaller"):
        solver.solve(fourier(X), X, y, Squared())
    with pytest.raises(ValueError, match="below 1 / alpha"):
        DoublySGD(alpha=3.0, step_size=0.5).solve(fourier(X), X, y, Squared())


def test_maps_without_an_endless_sequence_are_refused():
    X, y = wave(100)
    for map_ in (RandomFourier(), RandomBinning(scale=False)):
        with pytest.raises(ValueError, match="endless sequence"):
            DoublySGD().solve(map_.fit(X), X, y, Squared())


@pytest.mark.parametrize(
    ("settings", "match"),
    [
        ({"alpha": -1.0}, "alpha must be at least 0"),
        ({"batch_size": 0}, "batch_size must be at least 1"),
        ({"block_size": 0}, "block_size must be at least 1"),
        ({"step_size": 0.0}, "step_size must be positive"),
        ({"step_decay": -1.0}, "step_decay must be at least 0"),
        ({"max_iter": 0}, "max_iter must be at least 1"),
        ({"jitter": 0.0}, "jitter must be positive"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings, match):
    with pytest.raises(ValueError, match=match):
        DoublySGD(**settings)


# -- the estimators --------------------------------------------------------------------------


@pytest.mark.parametrize("feature_map", ["fourier", "fastfood", "perceptron"])
def test_every_sequence_of_random_functions_serves(feature_map):
    X, y = friedman()
    model = DoublySGDRegressor(feature_map, max_iter=20, random_state=0).fit(X, y)
    assert model.score(X, y) > 0.8
    assert model.map_coef_.shape == (model.n_features_seen_,) == (20 * 50,)
    assert model.n_steps_ == 20 == len(model.loss_curve_)


def test_maps_bring_their_settings():
    X, y = friedman()
    pair = RandomFourier(form="pair", gamma=0.1)
    model = DoublySGDRegressor(pair, max_iter=3, block_size=30, random_state=0).fit(X, y)
    assert model.feature_map_.form == "pair"
    assert model.feature_map_.kernel_.gamma == 0.1
    assert DoublySGDRegressor(Fastfood(), **QUICK).fit(X, y).n_steps_ == 5
    assert DoublySGDRegressor(RandomPerceptron(), **QUICK).fit(X, y).n_steps_ == 5


@pytest.mark.parametrize("n_classes", [2, 3])
def test_classification_and_its_probabilities(n_classes):
    X, labels = blobs(n_classes=n_classes)
    names = np.array(["one", "three", "two"])[labels]
    model = DoublySGDClassifier(max_iter=15, block_size=30, random_state=0).fit(X, names)
    assert model.score(X, names) > 0.85
    proba = model.predict_proba(X)
    np.testing.assert_allclose(proba.sum(axis=1), 1)
    np.testing.assert_array_equal(model.classes_[proba.argmax(axis=1)], model.predict(X))
    assert model.loss_curve_[0] == pytest.approx(np.log(n_classes), rel=0.05)


@pytest.mark.parametrize("loss", ["squared_hinge", "smooth_hinge", "squared", "logistic"])
def test_one_against_all_losses(loss):
    X, labels = blobs()
    model = DoublySGDClassifier(loss=loss, max_iter=15, block_size=30, random_state=0)
    assert model.fit(X, labels).score(X, labels) > 0.8


@pytest.mark.rounding
def test_rows_that_come_in_parts_are_the_steps_on_these_parts():
    X, y = wave(600)
    model = DoublySGDRegressor(block_size=20, random_state=0, scale=False, fit_intercept=False)
    for rows in np.split(np.arange(600), 6):
        model.partial_fit(X[rows], y[rows])
    f = Expansion(model.feature_map_)
    for t, rows in enumerate(np.split(np.arange(600), 6)):
        model._solver().step(f, t, X[rows], y[rows], Squared())
    np.testing.assert_allclose(model.map_coef_, f.coef, atol=1e-10)
    assert model.n_steps_ == 6
    assert model.n_features_seen_ == 120
    batched = DoublySGDRegressor(
        block_size=20, batch_size=100, random_state=0, scale=False, fit_intercept=False
    ).partial_fit(X, y)
    assert batched.n_steps_ == 6


@pytest.mark.parametrize("method", ["fit", "partial_fit"])
def test_targets_out_of_range_are_refused_by_name(method):
    X, y = wave(50)
    fit = getattr(DoublySGDRegressor(**QUICK), method)
    with pytest.raises(ValueError, match=r"y must have finite sums of squares in float64"):
        fit(X, 1e200 * y)
    with pytest.raises(ValueError, match=r"y must be within the range of float32"):
        fit(X.astype(np.float32), 1e50 * y)
    with pytest.raises(ValueError, match=r"y must have sums of squares above 0 in float64"):
        fit(X, 1e-169 * y)


def test_the_scaler_and_the_scale_follow_the_first_rows():
    X, y = wave(400)
    model = DoublySGDRegressor(**QUICK).partial_fit(X[:200], y[:200])
    first = model.scaler_.mean_.copy(), model.feature_map_.kernel_.gamma
    model.partial_fit(100 + X[200:], y[200:])
    np.testing.assert_array_equal(model.scaler_.mean_, first[0])
    assert model.feature_map_.kernel_.gamma == first[1]


def test_classes_that_come_later_are_named_first():
    X, labels = blobs()
    model = DoublySGDClassifier(block_size=30, random_state=0)
    ones = labels == 1
    with pytest.raises(ValueError, match="classes must name"):
        model.partial_fit(X[ones], labels[ones])
    model.partial_fit(X[ones], labels[ones], classes=[0, 1, 2])
    for _ in range(10):
        model.partial_fit(X, labels)
    assert model.score(X, labels) > 0.8
    with pytest.raises(ValueError, match="no labels but"):
        model.partial_fit(X, labels + 1)
    with pytest.raises(ValueError, match="those of the first call"):
        model.partial_fit(X, labels, classes=[0, 1])
    with pytest.raises(ValueError, match="class_weight must be None"):
        DoublySGDClassifier(class_weight="balanced").partial_fit(X, labels)


@pytest.mark.rounding
def test_fit_begins_again():
    X, y = wave(300)
    model = DoublySGDRegressor(**QUICK).fit(X, y)
    first = model.predict(X)
    model.partial_fit(X, y)
    assert not np.array_equal(model.predict(X), first)
    np.testing.assert_array_equal(model.fit(X, y).predict(X), first)


def test_several_targets_and_float32():
    X, y = friedman(dtype=np.float32)
    Y = np.stack([y, -2 * y], axis=1)
    model = DoublySGDRegressor(**QUICK).fit(X, Y)
    assert model.predict(X).dtype == model.map_coef_.dtype == np.float32
    assert model.predict(X).shape == Y.shape
    np.testing.assert_allclose(model.predict(X)[:, 1], -2 * model.predict(X)[:, 0], atol=1e-2)


def test_sparse_rows_are_the_rows():
    X, y = wave(300)
    X[np.abs(X) < 0.5] = 0
    settings = {"scale": False, "gamma": 0.3, **QUICK}
    dense = DoublySGDRegressor(**settings).fit(X, y).predict(X)
    csr = DoublySGDRegressor(**settings).fit(sparse.csr_array(X), y).predict(sparse.csr_array(X))
    np.testing.assert_allclose(csr, dense, atol=1e-8)


@pytest.mark.rounding
def test_models_survive_pickling_and_files_and_go_on(tmp_path):
    X, labels = blobs()
    model = DoublySGDClassifier(**QUICK).fit(X, labels)
    persistence.save(model, tmp_path / "model.mercer")
    for again in (pickle.loads(pickle.dumps(model)), persistence.load(tmp_path / "model.mercer")):
        np.testing.assert_array_equal(again.decision_function(X), model.decision_function(X))
    again.partial_fit(X, labels)
    np.testing.assert_allclose(
        again.decision_function(X), model.partial_fit(X, labels).decision_function(X)
    )


def test_wrong_losses_and_maps_are_refused():
    X, y = friedman()
    _, labels = blobs()
    with pytest.raises(ValueError, match="one for regression"):
        DoublySGDRegressor(loss="logistic").fit(X, y)
    with pytest.raises(ValueError, match="one for classification"):
        DoublySGDClassifier(loss="huber").fit(X[:300], labels)
    for feature_map in ("binning", "nystroem", "linear"):
        with pytest.raises(ValueError, match="endless sequence"):
            DoublySGDRegressor(feature_map).fit(X, y)


def test_examples_run(check_examples):
    check_examples(estimators)
    check_examples(doubly)


def test_the_default_holds_on_rows_it_has_not_seen():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2400, 3))
    X[:, 0] = np.exp(X[:, 0])  # few rows are far out
    y = np.sin(X[:, 1]) + X[:, 2] + 0.5 * np.log(X[:, 0]) ** 2 + 0.1 * rng.normal(size=2400)
    model = DoublySGDRegressor(max_iter=20, random_state=0).fit(X[:1800], y[:1800])
    assert model.score(X[1800:], y[1800:]) > model.score(X[:1800], y[:1800]) - 0.05


@pytest.mark.parametrize("n_rows", [3, 5, 10, 20])
def test_small_batches_are_learned_from(n_rows):
    X, y = load_diabetes(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(y))
    X, y = StandardScaler().fit_transform(X)[order], y[order]
    model = DoublySGDRegressor(random_state=0).partial_fit(X[:64], y[:64])
    for first in range(64, 300, n_rows):
        model.partial_fit(X[first : first + n_rows], y[first : first + n_rows])
    error = np.abs(model.predict(X[300:]) - y[300:]).mean()
    assert error < np.abs(y[:300].mean() - y[300:]).mean()


def test_a_rising_loss_is_warned_of_once():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(120, 4)), rng.normal(size=120)
    model = DoublySGDRegressor(step_size=1.0, random_state=0)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for row in range(120):
            model.partial_fit(X[[row]], y[[row]])
    assert [one.category for one in caught].count(ConvergenceWarning) == 1


@pytest.mark.parametrize("kind", [DoublySGDRegressor, DoublySGDClassifier])
@pytest.mark.parametrize("method", ["fit", "partial_fit"])
def test_it_says_that_it_leaves_and_what_takes_its_place(kind, method):
    X, y = wave(64)
    given = {"classes": [False, True]} if method == "partial_fit" and "Class" in str(kind) else {}
    y = y > 0 if "Class" in str(kind) else y
    successor = kind.__name__.replace("DoublySGD", "Kernel")
    with pytest.warns(FutureWarning, match=f"leaves mercer with version 0.5; {successor} has"):
        getattr(kind(max_iter=1, random_state=0), method)(X, y, **given)
