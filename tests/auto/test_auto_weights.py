"""Weights of rows and of classes in automatic models: what they count in, and what they leave."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.datasets import make_friedman1
from sklearn.kernel_ridge import KernelRidge
from sklearn.metrics import balanced_accuracy_score, log_loss

from mercer import AutoKernelClassifier, AutoKernelRegressor, GradientScaler, TablePreparer
from mercer.auto.calibration import Conformal
from mercer.auto.goals import Classes, Numbers
from mercer.auto.machines import Machine, exact_responses
from mercer.auto.targets import evened
from mercer.auto.trials import feature_responses
from mercer.auto.tuning import TUNING
from mercer.estimators.probabilities import Probabilities
from mercer.maps import IdentityMap

pytestmark = pytest.mark.usefixtures("few_treatments")


@pytest.fixture
def small_leaves(monkeypatch):
    monkeypatch.setattr(TUNING, "exact_rows", 1000)
    monkeypatch.setattr(TUNING, "leaf_rows", (400, 400))


def friedman(n, random_state=100):
    return make_friedman1(n, 6, noise=0.5, random_state=random_state)


def table(n, random_state=100):
    """Rows with labels, many labels, dates and missing cells."""
    rng = np.random.default_rng(random_state)
    X, y = friedman(n, random_state)
    frame = pd.DataFrame(X).add_prefix("x")
    frame["city"] = rng.choice(["Rome", "Oslo", "Lima"], n)
    frame["zip"] = rng.integers(0, 60, n).astype(str)
    frame["sold"] = np.datetime64("2020-01-01") + rng.integers(0, 900, n).astype("timedelta64[D]")
    frame.loc[::9, "x1"] = np.nan
    y = y + frame["zip"].astype(int).to_numpy() % 7
    return frame, y


def forms():
    X, y = friedman(300)
    frame, target = table(300)
    rows = sparse.csr_array(np.where(X > 0.4, X, 0.0))
    return {
        "numbers": (AutoKernelRegressor, X, y),
        "factors": (AutoKernelRegressor, X, np.exp(y / 4)),
        "outputs": (AutoKernelRegressor, X, np.column_stack([y, X[:, 0]])),
        "frame": (AutoKernelRegressor, frame, target),
        "classes": (AutoKernelClassifier, frame, np.where(target > target.mean(), "high", "low")),
        "three classes": (AutoKernelClassifier, X, np.digitize(y, [11, 16])),
        "sparse": (AutoKernelRegressor, rows, y),
    }


FORMS = forms()


def kept(X, rows):
    return X.iloc[rows] if hasattr(X, "iloc") else X[rows]


def tells(model, X):
    """All that a model says of rows."""
    if hasattr(model, "predict_proba"):
        return model.predict_proba(X), model.predict_set(X), model.validation_score_
    return model.predict(X), model.predict_interval(X), model.validation_score_


@pytest.mark.parametrize("form", FORMS)
def test_a_weight_of_zero_is_the_same_as_leaving_the_row_out(form):
    make, X, y = FORMS[form]
    rng = np.random.default_rng(0)
    weights = rng.integers(0, 4, len(y)).astype(float)
    rows = np.flatnonzero(weights)
    whole = make(random_state=100).fit(X, y, sample_weight=weights)
    part = make(random_state=100).fit(kept(X, rows), y[rows], sample_weight=weights[rows])
    assert whole.best_settings_ == part.best_settings_
    for of_whole, of_part in zip(tells(whole, X), tells(part, X), strict=True):
        np.testing.assert_array_equal(of_whole, of_part)


@pytest.mark.parametrize("form", ["frame", "three classes"])
def test_weights_that_are_all_alike_are_none(form):
    make, X, y = FORMS[form]
    plain = make(random_state=100).fit(X, y)
    alike = make(random_state=100).fit(X, y, sample_weight=np.full(len(y), 3.0))
    for of_plain, of_alike in zip(tells(plain, X), tells(alike, X), strict=True):
        np.testing.assert_array_equal(of_plain, of_alike)


@pytest.mark.rounding
@pytest.mark.parametrize("form", ["numbers", "factors", "classes", "sparse"])
def test_weights_times_a_constant_change_nothing(form):
    make, X, y = FORMS[form]
    weights = np.random.default_rng(0).uniform(0.2, 3.0, len(y))
    first, second = (
        make(random_state=100).fit(X, y, sample_weight=factor * weights) for factor in (1.0, 3.0)
    )
    assert first.best_settings_ == second.best_settings_
    for of_first, of_second in zip(tells(first, X), tells(second, X), strict=True):
        np.testing.assert_allclose(of_first, of_second, rtol=1e-5, atol=1e-6)


def two_regions(n, random_state):
    """What a small model of both has to choose between: one wave is quick and the other slow."""
    rng = np.random.default_rng(random_state)
    X = rng.uniform(-1, 1, size=(n, 3))
    quick, slow = np.sin(9 * X[:, 1]), 2 * np.cos(X[:, 2])
    return X, np.where(X[:, 0] > 0, quick, slow) + 0.5 * rng.normal(size=n), X[:, 0] > 0


@pytest.mark.parametrize("n_exact", [10_000, 500])
def test_a_model_errs_less_where_its_weights_are(n_exact, monkeypatch):
    monkeypatch.setattr(TUNING, "exact_rows", n_exact)
    X, y, is_quick = two_regions(1200, 100)
    X_new, y_new, is_quick_new = two_regions(4000, 101)
    errors = []
    for favoured in (True, False):
        weights = np.where(is_quick == favoured, 1.0, 0.02)
        model = AutoKernelRegressor(random_state=100).fit(X, y, sample_weight=weights)
        squares = np.square(model.predict(X_new) - y_new)
        errors.append([squares[is_quick_new].mean(), squares[~is_quick_new].mean()])
    assert errors[0][0] < 0.97 * errors[1][0]
    assert errors[1][1] < 0.97 * errors[0][1]


def test_leaves_are_weighted_as_the_final_model_is(small_leaves):
    X, y = friedman(2400)
    X_new, y_new = friedman(2000, 101)
    weights = np.where(X[:, 0] > 0.5, 1.0, 0.01)
    model = AutoKernelRegressor(random_state=100).fit(X, y, sample_weight=weights)
    assert "leaves" in model.search_results_["stage"]
    squares = np.square(model.predict(X_new) - y_new)
    is_near = X_new[:, 0] > 0.5
    assert squares[is_near].mean() < squares[~is_near].mean()


def test_balanced_classes_are_weights_by_class():
    rng = np.random.default_rng(100)
    X = rng.normal(size=(1500, 3))
    y = X[:, 0] + rng.normal(size=1500) > 1.8
    by_class = AutoKernelClassifier(class_weight="balanced", random_state=100).fit(X[:900], y[:900])
    weights = len(y[:900]) / (2 * np.bincount(y[:900]))[y[:900].astype(int)]
    by_row = AutoKernelClassifier(random_state=100).fit(X[:900], y[:900], sample_weight=weights)
    by_dict = AutoKernelClassifier(
        class_weight=dict(zip([False, True], 900 / (2 * np.bincount(y[:900])), strict=True)),
        random_state=100,
    ).fit(X[:900], y[:900])
    np.testing.assert_allclose(by_class.predict_proba(X), by_row.predict_proba(X), rtol=1e-6)
    np.testing.assert_allclose(by_class.predict_proba(X), by_dict.predict_proba(X), rtol=1e-6)
    plain = AutoKernelClassifier(random_state=100).fit(X[:900], y[:900])
    scores = [balanced_accuracy_score(y[900:], m.predict(X[900:])) for m in (plain, by_class)]
    assert scores[1] > scores[0] + 0.1


def test_a_class_of_weight_zero_is_no_class():
    X, y = friedman(200)
    y = np.digitize(y, [11, 16])
    model = AutoKernelClassifier(class_weight={0: 1, 1: 1, 2: 0}, random_state=100).fit(X, y)
    assert model.classes_.tolist() == [0, 1]


# the parts


@pytest.mark.rounding
@pytest.mark.parametrize("ridges", [[0.3, 0.02], [1e-4]])  # in the core, and beside it
@pytest.mark.parametrize(("kernel", "theirs"), [("laplacian", "laplacian"), ("gaussian", "rbf")])
def test_weighted_machines_are_kernel_ridge(kernel, theirs, ridges):
    rng = np.random.default_rng(0)
    X, target, held = rng.normal(size=(60, 3)), rng.normal(size=(60, 2)), rng.normal(size=(7, 3))
    X, held = X.astype(np.float32), held.astype(np.float32)
    weights = rng.uniform(0.1, 4.0, 60)
    [found] = exact_responses(kernel, [Machine(0.5, X, held, target, weights)], ridges, 1)
    for ridge, responses in zip(ridges, found, strict=True):
        model = KernelRidge(alpha=ridge, kernel=theirs, gamma=0.5)
        expected = model.fit(X, target, sample_weight=weights).predict(held)
        np.testing.assert_allclose(responses, expected, atol=1e-3)


def test_weighted_feature_responses_are_ridge_of_the_features():
    rng = np.random.default_rng(0)
    X, target, held = rng.normal(size=(60, 3)), rng.normal(size=(60, 1)), rng.normal(size=(7, 3))
    weights = rng.uniform(0.1, 2.0, 60)
    [found] = feature_responses(IdentityMap(), X, held, target, [0.5], 0.01, weights)
    w = np.linalg.solve((X.T * weights) @ X + 0.5 * np.eye(3), (X.T * weights) @ target)
    np.testing.assert_allclose(found, held @ w, atol=0.02)


@pytest.mark.parametrize("transform", ["identity", "log"])
def test_losses_by_weights_are_those_of_rows_given_as_often(transform):
    rng = np.random.default_rng(0)
    y, counts = rng.lognormal(size=(40, 1)), rng.integers(1, 4, 40)
    again = np.repeat(np.arange(40), counts)
    weighted, repeated = Numbers(y, counts / counts.mean()), Numbers(y[again])
    repeated.shift = weighted.shift
    rows, every = np.arange(40), np.arange(len(again))
    responses = weighted.truth(rows, transform) + 0.1 * rng.normal(size=(40, 1))
    first = weighted.losses(responses, rows, transform)
    second = repeated.losses(responses[again], every, transform)
    rtol = 1e-9 if transform == "identity" else 0.02  # by the residuals that weights are worth
    np.testing.assert_allclose(first[0].mean(), second[0].mean(), rtol=rtol)
    np.testing.assert_allclose(first[1], second[1], rtol=rtol)
    for one, other in zip(weighted.encodings(rows), repeated.encodings(every), strict=True):
        np.testing.assert_allclose(one.centre, other.centre)
        np.testing.assert_allclose(one.spread, other.spread)
    labels = rng.integers(0, 3, 40)
    classes = Classes(labels, 3, counts / counts.mean()), Classes(labels[again], 3)
    responses = rng.normal(size=(40, 3))
    first = classes[0].losses(responses, rows, "identity")
    second = classes[1].losses(responses[again], every, "identity")
    np.testing.assert_allclose([first[0].mean(), first[1]], [second[0].mean(), second[1]])


def test_calibration_is_that_of_rows_given_as_often():
    rng = np.random.default_rng(0)
    labels, counts = rng.integers(0, 2, 300), rng.integers(1, 5, 300)
    responses = np.where(rng.random(300) < 0.8, 2 * labels - 1, 0.2) * rng.random(300)
    again = np.repeat(np.arange(300), counts)
    weighted = Probabilities.fitted(responses, labels, counts.astype(float))
    assert weighted == Probabilities.fitted(responses[again], labels[again])
    assert log_loss(labels, weighted(responses)) < 0.7


def test_scores_of_equal_weight_have_the_quantiles_of_the_weighted_ones():
    rng = np.random.default_rng(0)
    scores, counts = rng.exponential(size=2000), rng.integers(1, 5, 2000).astype(float)
    even = evened(scores, counts)
    assert len(even) == round(counts.sum() ** 2 / np.square(counts).sum())
    for level in (0.1, 0.5, 0.9):
        repeated = np.quantile(np.repeat(scores, counts.astype(int)), level)
        np.testing.assert_allclose(np.quantile(even, level), repeated, rtol=0.03)
    assert evened(scores, None) is scores
    np.testing.assert_allclose(np.sort(evened(scores, np.full(2000, 0.5))), np.sort(scores))
    pair = np.column_stack([scores, -scores])
    bounds = Conformal.of(pair, counts).bound(0.9)
    np.testing.assert_allclose(bounds[0], Conformal.of(scores, counts).bound(0.9))


def test_weights_are_worth_the_nearest_number_of_equal_rows():
    # Kish: 3.5 ** 2 / 3.25 = 3.77 rows.
    assert len(evened(np.arange(4.0), np.array([1.0, 1.0, 1.0, 0.5]))) == 4


@pytest.mark.parametrize("n", [10, 300, 1000])
def test_rounding_of_equal_weights_changes_no_value(n):
    values = np.arange(float(n))
    np.testing.assert_array_equal(evened(values, np.full(n, 0.1)), values)


def test_bounds_count_scores_by_weight():
    scores = np.arange(1.0, 201.0)
    weights = np.where(scores <= 100, 1.0, 0.0)
    assert Conformal.of(scores).bound(0.9) == 181
    assert Conformal.of(scores, weights).bound(0.9) == 91


def test_intervals_hold_the_targets_that_weights_favour():
    rng = np.random.default_rng(100)
    X = rng.uniform(-1, 1, size=(6000, 2))
    is_noisy = X[:, 0] > 0
    y = X[:, 1] + np.where(is_noisy, 1.0, 0.1) * rng.normal(size=6000)
    weights = np.where(is_noisy, 1.0, 0.05)[:2000]
    model = AutoKernelRegressor(random_state=100).fit(X[:2000], y[:2000], sample_weight=weights)
    low, high = model.predict_interval(X[2000:], 0.9).T
    held = (low <= y[2000:]) & (y[2000:] <= high)
    assert 0.86 < held[is_noisy[2000:]].mean() < 0.96


def test_codes_of_labels_count_by_weight():
    labels = np.array([f"l{i % 30}" for i in range(900)], dtype=object)[:, None]
    y = np.arange(900) % 2 + 0.0
    weights = np.where(y == 1, 1.0, 0.0)
    weights[::7] += 0.5
    preparer = TablePreparer(random_state=0).fit(labels, y, sample_weight=weights)
    [(_, codes)] = preparer.parts_
    mean = np.average(y, weights=weights)
    own = labels[:, 0] == codes.texts[3]
    rest = weights[weights > 0].mean()
    sums = weights[own] @ (y[own] - mean) / rest
    np.testing.assert_allclose(codes.codes[3, 0], sums / (weights[own].sum() / rest + 10.0))


@pytest.mark.parametrize("target", [None, "numbers"])
def test_a_preparer_does_not_see_rows_of_weight_zero(target):
    frame, y = table(400)
    y = y if target else None
    weights = np.random.default_rng(0).integers(0, 3, 400).astype(float)
    rows = np.flatnonzero(weights)
    part = TablePreparer(random_state=0)
    of_part = part.fit_transform(frame.iloc[rows], None if y is None else y[rows], weights[rows])
    whole = TablePreparer(random_state=0)
    of_whole = whole.fit_transform(frame, y, sample_weight=weights)
    np.testing.assert_array_equal(of_whole[rows], of_part)
    np.testing.assert_array_equal(whole.transform(frame), part.transform(frame))


@pytest.mark.parametrize("kernel", [None, "laplacian", "gaussian"])
@pytest.mark.parametrize("full", [False, True])
def test_learned_scales_follow_the_rows_with_weight(kernel, full):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(900, 3))
    is_first = np.arange(900) % 2 == 0
    y = np.where(is_first, np.sin(2 * X[:, 0]), np.sin(2 * X[:, 1]))
    for favoured, column in ((is_first, 0), (~is_first, 1)):
        weights = np.where(favoured, 1.0, 1e-3)
        scaler = GradientScaler(kernel=kernel, full=full, random_state=0)
        scaler.fit(X, y, sample_weight=weights)
        assert scaler.scales_.argmax() == column
        assert np.delete(scaler.scales_, column).max() < 0.5
        again = GradientScaler(kernel=kernel, full=full, random_state=0)
        again.fit(X, y, sample_weight=4 * weights)
        np.testing.assert_allclose(again.matrix_, scaler.matrix_, rtol=1e-3, atol=1e-5)
        left = GradientScaler(kernel=kernel, full=full, random_state=0)
        whole = GradientScaler(kernel=kernel, full=full, random_state=0)
        left.fit(X[favoured], y[favoured])
        whole.fit(X, y, sample_weight=favoured.astype(float))
        np.testing.assert_array_equal(left.matrix_, whole.matrix_)


# what is refused


@pytest.mark.parametrize(
    ("weights", "rule"),
    [
        (np.ones(3), "sample_weight"),
        (np.full(40, -1.0), "sample_weight must be finite, not negative and not all zero"),
        (np.full(40, np.nan), "sample_weight"),
        (["heavy"] * 40, "sample_weight must hold numbers"),
        (np.eye(40)[0], "at least 2 rows with a weight above 0; got n_samples=1"),
    ],
)
@pytest.mark.parametrize("make", [AutoKernelRegressor, AutoKernelClassifier])
def test_weights_that_make_no_sense_get_a_sentence(make, weights, rule):
    X, _ = friedman(40)
    with pytest.raises((ValueError, TypeError), match=rule):
        make().fit(X, np.arange(40) % 2, sample_weight=weights)


@pytest.mark.parametrize("class_weight", ["heavy", 3.0, [1, 2]])
def test_weights_of_classes_that_make_no_sense_get_a_sentence(class_weight):
    X, _ = friedman(40)
    model = AutoKernelClassifier(class_weight=class_weight)
    with pytest.raises(ValueError, match="class_weight must be None, 'balanced' or a dict; got"):
        model.fit(X, np.arange(40) % 2)
