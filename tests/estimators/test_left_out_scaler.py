"""Scales by the error of left-out rows: what they make least, and what shares a scale."""

import numpy as np
import pytest

from _conventions import parametrize_with_settings
from mercer import LeftOutScaler, kernels, persistence
from mercer.equations.criteria import LeftOut, LeftOutOfLabels
from mercer.estimators.left_out_scales import (
    LeftOutSearch,
    one_of_several,
    repeating_rows,
    scales_by_name,
)

KERNELS = "laplacian", "exponential", "gaussian"


@pytest.mark.filterwarnings("ignore:Skipping check check_array_api_input")
@parametrize_with_settings(
    [LeftOutScaler()],
    [LeftOutScaler(power=0.0), LeftOutScaler("gaussian"), LeftOutScaler("exponential")],
    expected_failed_checks=lambda scaler: {
        f"check_sample_weight_equivalence_on_{kind}_data": "a row given twice is left out by halves"
        for kind in ("dense", "sparse")
        if scaler.power
    },
)
def test_scikit_learn_conventions(estimator, check):
    check(estimator)


def waves(n=250, d=3, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    return X, np.sin(2 * X[:, 0]) + 0.5 * X[:, 1] + 0.2 * rng.normal(size=n)


def people(n=600, n_people=60, seed=0):
    """Rows with a column for each person, numbers beside them, and targets of both."""
    rng = np.random.default_rng(seed)
    who = rng.integers(0, n_people, n)
    X = np.column_stack([rng.normal(size=(n, 2)), np.eye(n_people)[who]])
    y = 2 * rng.normal(size=n_people)[who] + np.sin(2 * X[:, 0]) + 0.1 * rng.normal(size=n)
    return X, y, who


def left_out_error(kernel, gamma, ridge, Z, y):
    """Root mean squared error of rows left out by refits, in units of the deviation."""
    K, errors = kernels.get(kernel, gamma)(Z), []
    for row in range(len(y)):
        others = np.arange(len(y)) != row
        system = np.ones((len(y), len(y)))
        system[:-1, :-1] = K[np.ix_(others, others)] + ridge * np.eye(len(y) - 1)
        system[-1, -1] = 0.0
        coef = np.linalg.solve(system, np.append(y[others], 0.0))
        errors.append(y[row] - K[row, others] @ coef[:-1] - coef[-1])
    return np.sqrt(np.mean(np.square(errors))) / y.std()


@pytest.mark.rounding
@pytest.mark.parametrize("kernel", KERNELS)
def test_the_error_is_that_of_refits_without_each_row(kernel):
    X, y = waves(90)
    scaler = LeftOutScaler(kernel, random_state=0).fit(X, y)
    Z = scaler.transform(X)
    wanted = left_out_error(kernel, 1.0, scaler.ridge_, Z, y)
    assert scaler.left_out_error_ == pytest.approx(wanted, rel=1e-2)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("turned", [False, True])
def test_the_error_in_given_scales_is_that_of_refits_at_the_best_of_some_ridges(kernel, turned):
    X, y = waves(90)
    search = LeftOutSearch.of(X, y, None, "continuous", 0, 1000)
    matrix = np.diag([1.5, 0.7, 0.2])
    if turned:
        matrix[0, 1] = 0.4
    found = search.error_of(kernel, matrix if turned else matrix.diagonal(), 0.8, 0.03)
    Z = X @ matrix
    wanted = min(left_out_error(kernel, 0.8, ridge, Z, y) for ridge in (0.03, 0.09, 0.3))
    assert found == pytest.approx(wanted, rel=1e-3)


@pytest.mark.parametrize("kernel", KERNELS)
def test_the_error_is_less_than_in_common_scales_and_useless_inputs_fade(kernel):
    X, y = waves(d=6)
    scaler = LeftOutScaler(kernel, random_state=0).fit(X, y)
    assert np.median(scaler.scales_[2:]) < 0.2 * scaler.scales_[0]
    plain = LeftOutScaler(kernel, power=0.0).fit(X, y).transform(X)
    common = min(
        left_out_error(kernel, gamma, ridge, plain, y)
        for gamma in (0.3, 1.0, 3.0)
        for ridge in (0.01, 0.1, 1.0)
    )
    assert scaler.left_out_error_ < 0.95 * common


def test_labels_of_one_column_share_a_scale_and_are_worth_their_effect():
    X, y, _ = people()
    scaler = LeftOutScaler(random_state=0).fit(X, y)
    of_people = scaler.scales_[2:]
    np.testing.assert_allclose(of_people, of_people[0], rtol=1e-12)
    assert of_people[0] > 5 * scaler.scales_[1]
    noise = np.random.default_rng(1).permutation(len(y))
    shuffled = np.column_stack([X[:, :2], X[noise, 2:]])
    assert LeftOutScaler(random_state=0).fit(shuffled, y).scales_[2] < 0.3 * of_people[0]


@pytest.mark.parametrize("kernel", KERNELS)
def test_rows_of_labels_alone_have_one_scale(kernel):
    X, y, who = people(400, 40)
    effects = np.random.default_rng(0).normal(size=40)
    scaler = LeftOutScaler(kernel, random_state=0).fit(X[:, 2:], effects[who] + 0.01 * y)
    np.testing.assert_allclose(scaler.scales_, 1.0)
    assert scaler.left_out_error_ < 0.3


def test_neighbours_of_which_a_row_has_one_at_most_are_one_question():
    X = np.array([[0.5, 1, 0, 0, 1, 0], [0.1, 0, 1, 0, 0, 1], [0.2, 0, 0, 1, 1, 0]])
    assert one_of_several(X).tolist() == [0, 1, 1, 1, 2, 2]
    X[0, 2] = 1
    assert one_of_several(X).tolist() == [0, 1, 2, 2, 3, 3]
    X[0, 1] = 0.5
    assert one_of_several(X).tolist() == [0, 1, 2, 2, 3, 3]


def test_few_rows_hold_some_labels_several_times():
    X, _, who = people(4000, 500)
    ties = one_of_several(X)
    places = repeating_rows(X, ties, 3, 400)
    assert len(np.unique(places)) == 400
    counts = np.bincount(who[places])
    assert counts.max() <= 10
    assert counts[counts > 0].mean() > 6
    assert not np.array_equal(places, repeating_rows(X, ties, 4, 400))
    np.testing.assert_array_equal(repeating_rows(X[:, :2], ties[:2], 3, 400), np.arange(400))


@pytest.mark.parametrize("kernel", KERNELS)
def test_known_scales_are_where_the_search_begins_if_they_are_as_many(kernel):
    X, y, _ = people(500)
    first = LeftOutScaler(kernel, random_state=0).fit(X, y)
    scales = np.maximum(first.matrix_, 1e-4 * first.matrix_.max())
    again = LeftOutScaler(kernel, random_state=0, known=(scales, first.ridge_)).fit(X, y)
    assert again.left_out_error_ <= first.left_out_error_ * 1.001
    np.testing.assert_allclose(again.scales_[2:], first.scales_[2:], rtol=0.1)
    other = LeftOutScaler(kernel, random_state=0, known=(scales[:2], first.ridge_)).fit(X, y)
    np.testing.assert_array_equal(other.matrix_, first.matrix_)


def test_known_scales_are_those_of_the_same_names_or_their_median():
    known = {"age": 3.0, "city=Rome": 0.5, "city=Oslo": 1.0}
    found = scales_by_name(known, ["city=Oslo", "city=Bern", "age"])
    assert found.tolist() == [1.0, 1.0, 3.0]


@pytest.mark.parametrize("kernel", KERNELS)
def test_labels_stand_for_a_column_of_0_and_1_each(kernel):
    X, y, who = people(120, 9)
    X[:10, 2:], who[:10] = 0.0, -1
    gammas = np.array([0.5, 0.2, 0.3])
    of_unit = kernels.get(kernel, 1.0)
    wide = LeftOut(of_unit, X, y[:, None])(np.log([*gammas[:2], *[gammas[2]] * 9, 0.1]))
    short = LeftOutOfLabels(of_unit, X[:, :2], y[:, None], labels=who[:, None])
    value, slopes = short(np.log([*gammas, 0.1]))
    assert value == pytest.approx(wide[0], rel=1e-9)
    wanted = [*wide[1][:2], wide[1][2:-1].sum(), wide[1][-1]]
    np.testing.assert_allclose(slopes, wanted, rtol=1e-7)


def test_classes_are_responses_and_rows_of_weight_0_are_not_there():
    X, y = waves(300)
    labels = np.where(y > 0.5, "high", np.where(y < -0.5, "low", "middle"))
    weights = np.where(np.arange(300) % 3 == 0, 0.0, 2.0)
    kept = weights > 0
    some = LeftOutScaler(random_state=0).fit(X[kept], labels[kept])
    same = LeftOutScaler(random_state=0).fit(X, labels, weights)
    np.testing.assert_allclose(same.matrix_, some.matrix_, rtol=1e-3)
    assert some.scales_[2] < 0.5 * some.scales_[0]


def test_constant_targets_and_three_rows_have_equal_scales():
    X, _ = waves(50)
    for rows, y in ((X, np.ones(50)), (X[:3], np.arange(3.0))):
        scaler = LeftOutScaler(target="continuous").fit(rows, y)
        np.testing.assert_allclose(scaler.scales_, 1.0)
        assert np.isfinite(scaler.matrix_).all()


def test_narrow_kernels_take_no_longer_than_wide_ones():
    """Products of their entries are numbers too small for float32's full precision."""
    import time

    X, y = waves(400, 6)
    search = LeftOutSearch.of(X.astype(np.float32), y, None, "continuous", 0, 400)
    seconds = []
    for gamma in (1.0, 30.0):
        found = search.rough("laplacian")
        narrow = type(found)(found.scales * gamma, 0.1, np.inf)
        start = time.process_time()
        for _ in range(3):
            search.moved("laplacian", narrow, 1)
        seconds.append(time.process_time() - start)
    assert seconds[1] < 8 * seconds[0]


def test_a_file_holds_the_scaler(tmp_path):
    X, y = waves()
    scaler = LeftOutScaler("exponential", random_state=0).fit(X, y)
    persistence.save(scaler, tmp_path / "scaler.mercer")
    loaded = persistence.load(tmp_path / "scaler.mercer")
    np.testing.assert_array_equal(loaded.transform(X), scaler.transform(X))
    assert loaded.ridge_ == scaler.ridge_


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"kernel": "cauchy"}, "kernel must be"),
        ({"power": 1.5}, "power must be between 0 and 1; got 1.5"),
        ({"max_rows": 0}, "max_rows must be"),
        ({"target": "numbers"}, "target must be"),
        ({"known": ([1.0, -1.0, 1.0], 0.1)}, "known must be"),
        ({"known": 3.0}, "known must be"),
    ],
)
def test_invalid_settings_are_named(settings, message):
    X, y = waves(50)
    with pytest.raises((ValueError, TypeError), match=message):
        LeftOutScaler(**settings).fit(X, y)
