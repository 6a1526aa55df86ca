"""Laws of searches for features: the working set and its sources."""

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from mercer.designs import Dense
from mercer.losses import Huber, Logistic, SmoothHinge, Squared, SquaredHinge
from mercer.maps import Halfspaces, RandomBinning, RandomFourier, RandomPerceptron, halfspaces
from mercer.penalties import L1, ElasticNet
from mercer.problem import Problem
from mercer.solvers import (
    CoordinateDescent,
    Stream,
    WorkingSet,
    working_set,
)

N = 200
EXACT = CoordinateDescent(tol=1e-10)
MAPS = [
    RandomFourier(gamma=0.5, n_components=2, scale=False, random_state=3),
    RandomFourier(gamma=0.5, n_components=2, form="pair", scale=False, random_state=3),
    RandomPerceptron(n_components=2, scale=False, random_state=3),
    RandomBinning(gamma=0.3, n_components=2, scale=False, random_state=3),
]


@pytest.fixture
def X(rng):
    return rng.normal(size=(N, 3))


@pytest.fixture
def y(X):
    return np.sin(2 * X[:, 0]) + X[:, 1]


@pytest.fixture(params=MAPS, ids=lambda m: f"{type(m).__name__}-{getattr(m, 'form', '')}")
def source(request, X):
    return Stream(request.param.fit(X), X)


def problems(y, loss, penalty, weights=None):
    return lambda design: Problem(design, y, loss, penalty, weights)


LOSSES = [Squared(), Huber(0.5), Logistic(), SquaredHinge(), SmoothHinge()]


def target(y, loss):
    return np.where(y > 0, 1.0, -1.0) if loss.is_classification else y


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)
def test_the_objective_never_rises_and_the_gap_bounds_it(source, y, loss):
    problem_of = problems(target(y, loss), loss, L1(0.02))
    found = WorkingSet(CoordinateDescent(tol=1e-3), 10, 6, tol=0).solve(source, problem_of)
    objectives = [row.objective for row in found.rounds]
    assert np.all(np.diff(objectives) <= 1e-12)
    assert all(row.dual_gap >= -1e-12 for row in found.rounds)
    assert objectives[-1] < problem_of(found.design).value(problem_of(found.design).initial())
    assert problem_of(found.design).value(found.coef) == pytest.approx(objectives[-1], rel=1e-12)


def test_what_is_kept_has_weights_and_is_what_the_map_gives(source, y):
    found = WorkingSet(EXACT, 10, 4).solve(source, problems(y, Squared(), L1(0.02)))
    assert found.coef.shape == (found.n_active + 1,)
    assert np.all(found.coef[:-1] != 0)
    np.testing.assert_array_equal(
        found.feature_map.design(source.X).toarray(), found.design.toarray()
    )
    assert found.n_active == found.rounds[-1].n_active < found.rounds[-1].n_drawn * 60


def test_one_round_is_the_problem_on_the_features_drawn(source, y):
    problem_of = problems(y, Squared(), L1(0.02))
    found = WorkingSet(EXACT, 30, 1).solve(source, problem_of)
    whole = source.draw(0, 30)[1]
    plain = problem_of(whole)
    theta = EXACT.solve(plain).coef
    assert found.rounds[-1].objective == pytest.approx(plain.value(theta), rel=1e-8)
    assert found.n_active == np.count_nonzero(theta[:-1])
    np.testing.assert_allclose(found.coef, theta[np.append(theta[:-1] != 0, True)], atol=1e-4)


def test_dropped_features_satisfy_the_condition_of_a_zero_weight(source, y):
    problem_of = problems(y, Squared(), L1(0.02))
    found = WorkingSet(EXACT, 12, 1).solve(source, problem_of)
    drawn = source.draw(0, 12)[1]
    residual = problem_of(found.design).responses(found.coef) - y
    assert np.abs(drawn.rmatvec(residual)).max() / N <= 0.02 * (1 + 1e-4)


@pytest.mark.rounding
def test_more_rounds_go_on_where_the_last_ones_stopped(source, y):
    problem_of = problems(y, Squared(), L1(0.02))
    once = WorkingSet(EXACT, 8, 4, tol=0, patience=9).solve(source, problem_of)
    half = WorkingSet(EXACT, 8, 2, tol=0, patience=9)
    twice = half.solve(source, problem_of, start=half.solve(source, problem_of))
    assert twice.n_drawn == once.n_drawn == 32
    np.testing.assert_array_equal(twice.feature_map.addresses(), once.feature_map.addresses())
    np.testing.assert_allclose(twice.coef, once.coef, atol=1e-9)


def test_a_search_from_its_start_does_not_hold_a_feature_twice(source, y):
    problem_of = problems(y, Squared(), L1(0.02))
    search = WorkingSet(EXACT, 20, 1)
    found = search.solve(source, problem_of)
    found.n_drawn = 0
    again = search.solve(source, problem_of, start=found)
    assert len(np.unique(again.feature_map.addresses(), axis=0)) == again.n_active
    assert again.rounds[-1].objective == pytest.approx(found.rounds[-1].objective, rel=1e-8)


def test_a_warm_path_is_so_many_separate_solutions(source, y):
    search, found = WorkingSet(EXACT, 25, 1), None
    for alpha in (0.2, 0.05, 0.02):
        problem_of = problems(y, Squared(), L1(alpha))
        if found is not None:
            found.n_drawn = 0
        found = search.solve(source, problem_of, start=found)
        alone = search.solve(source, problem_of)
        assert found.rounds[-1].objective == pytest.approx(alone.rounds[-1].objective, rel=1e-8)


def test_outputs_share_one_set_of_features(source, y, X):
    both = np.column_stack([y, X[:, 2]])
    found = WorkingSet(EXACT, 15, 3).solve(source, problems(both, Squared(), L1(0.03)))
    assert found.coef.shape == (found.n_active + 1, 2)
    assert np.all(np.any(found.coef[:-1] != 0, axis=1))
    assert np.any(found.coef[:-1] == 0)


def test_weight_zero_leaves_a_row_out(y, X):
    weights = np.ones(N)
    weights[100:] = 0
    fourier = MAPS[0].fit(X)
    penalty = ElasticNet(0.04, 0.5)
    search = WorkingSet(EXACT, 10, 3)
    weighted = search.solve(Stream(fourier, X), problems(y, Squared(), penalty, weights))
    alone = search.solve(Stream(fourier, X[:100]), problems(y[:100], Squared(), penalty))
    np.testing.assert_allclose(weighted.coef, alone.coef, atol=1e-6)


def test_nothing_is_found_where_no_feature_is_worth_a_weight(source, y):
    found = WorkingSet(EXACT, 10, 9).solve(source, problems(y, Squared(), L1(1e3)))
    assert found.n_active == 0
    assert len(found.rounds) == 2  # idle ones
    assert found.coef == pytest.approx([y.mean()])
    assert found.dual_gap == pytest.approx(0, abs=1e-12)


def test_idle_rounds_end_the_search(source, y):
    search = WorkingSet(EXACT, 5, 200, tol=0.5, patience=3)
    found = search.solve(source, problems(y, Squared(), L1(0.02)))
    gains = -np.diff([row.objective for row in found.rounds])
    assert len(found.rounds) < 20
    assert np.all(gains[-3:] <= 0.5 * np.array([row.objective for row in found.rounds[-4:-1]]))


def test_a_callback_sees_every_round_and_may_end_the_search(source, y):
    seen = []

    def callback(found):
        seen.append(found.rounds[-1].n_drawn)
        return len(seen) == 3

    search = WorkingSet(EXACT, 7, 10, tol=0)
    search.solve(source, problems(y, Squared(), L1(0.02)), callback=callback)
    assert seen == [7, 14, 21]


def test_an_interrupt_leaves_what_was_found(X, y):
    class Interrupted(Stream):
        def draw(self, first, count, slopes=None):
            if first >= 20:
                raise KeyboardInterrupt
            return super().draw(first, count)

    source = Interrupted(MAPS[0].fit(X), X)
    found = WorkingSet(EXACT, 10, 9).solve(source, problems(y, Squared(), L1(0.02)))
    assert found.interrupted
    assert len(found.rounds) == 2
    assert found.n_active > 0


def test_an_inner_solver_that_stops_short_is_said(source, y):
    search = WorkingSet(CoordinateDescent(tol=1e-14, max_iter=1), 40, 1)
    with pytest.warns(ConvergenceWarning, match="CoordinateDescent stopped the last round with"):
        search.solve(source, problems(target(y, Logistic()), Logistic(), L1(1e-4)))


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"inner": "cd"}, TypeError, "inner must be a solver; got 'cd'"),
        ({"n_new": 0}, ValueError, "n_new must be at least 1"),
        ({"max_rounds": 1.5}, TypeError, "max_rounds must be an integer"),
        ({"patience": -1}, ValueError, "patience must be at least 1"),
        ({"tol": -1}, ValueError, "tol must be at least 0"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings, error, message):
    with pytest.raises(error, match=message):
        WorkingSet(**{"inner": EXACT, **settings})


# -- theory ----------------------------------------------------------------------------------


def test_the_mean_objective_is_below_the_bound_of_the_sparse_features_paper(X, rng):
    # E F(w_D) <= alpha |w*|_2 + loss(w*) + 2 gamma |w*|^2 / (D - c) with w* in the span of kernels.
    y, alpha, smooth = np.sin(X[:, 0]), 0.01, 2.0  # |phi| <= sqrt(2), the loss has curvature 1
    kernel = np.exp(-0.5 * ((X[:, None] - X[None]) ** 2).sum(2))
    dual = np.linalg.solve(kernel + 1.0 * np.eye(N), y)
    size = float(np.sqrt(dual @ kernel @ dual))
    level = alpha * size + 0.5 * np.mean((kernel @ dual - y) ** 2)
    c = 2 * (0.5 * np.mean(y**2) - level) / (smooth * size**2)
    for n_features in (20, 60):
        finals = []
        for seed in range(8):
            fourier = RandomFourier(gamma=0.5, n_components=2, scale=False, random_state=seed)
            found = WorkingSet(EXACT, n_features, 1).solve(
                Stream(fourier.fit(X), X),
                lambda Z: Problem(Z, y, Squared(), L1(alpha), fit_intercept=False),
            )
            finals.append(found.rounds[-1].objective)
        assert np.mean(finals) <= level + 2 * smooth * size**2 / max(n_features - c, 1e-9)


def test_constant_two_dominates_the_recursion_of_the_bound_and_constant_one_does_not():
    # The worst case of  gap <- gap - gap^2 / (2 b), b = beta |w*|^2 / kappa.
    b, gap, ratios = 1.0, 0.999, []
    for step in range(1, 2000):
        gap -= gap**2 / (2 * b)
        ratios.append(gap * step / b)
    assert 1.9 < max(ratios) <= 2.0


# -- half-spaces -----------------------------------------------------------------------------


def test_halfspaces_say_what_does_not_fit(X):
    with pytest.raises(ValueError, match=r"directions must have shape \(b, 3\)"):
        Halfspaces(np.ones((2, 2)), np.ones(2)).fit(X)
    with pytest.raises(ValueError, match="must be finite"):
        Halfspaces([[np.nan, 0, 0]], [1.0]).fit(X)


@pytest.mark.parametrize("module", [working_set, halfspaces], ids=lambda m: m.__name__)
def test_examples_run(check_examples, module):
    check_examples(module)


def test_a_design_without_columns_is_where_a_search_begins(X, y):
    problem = problems(y, Squared(), L1(0.1))(Dense(np.empty((N, 0))))
    assert problem.value(problem.initial()) == pytest.approx(0.5 * np.var(y))
