"""Laws of boosting: the feature found lowers the objective most, and the search ends by itself."""

import numpy as np
import pytest
from scipy import sparse

from mercer.losses import Squared, SquaredHinge
from mercer.maps import RandomPerceptron
from mercer.penalties import L1
from mercer.problem import Problem
from mercer.solvers import CoordinateDescent, Stream, WorkingSet
from mercer_studies.sparse_features.boosting import BestOfSome, BestStump, Boosting, Perceptrons

N = 200
EXACT = CoordinateDescent(tol=1e-10)
PERCEPTRON = RandomPerceptron(n_components=2, scale=False, random_state=3)


@pytest.fixture
def X(rng):
    return rng.normal(size=(N, 3))


@pytest.fixture
def y(X):
    return np.sin(2 * X[:, 0]) + X[:, 1]


def problems(y, loss, penalty):
    return lambda design: Problem(design, y, loss, penalty)


@pytest.fixture(params=["logistic", "hinge", "squared_hinge", "stump", "some"])
def greedy(request, X):
    if request.param == "stump":
        return BestStump(X)
    if request.param == "some":
        return BestOfSome(PERCEPTRON.fit(X), X, n_candidates=20)
    return Perceptrons(X, request.param)


def test_boosting_lowers_the_objective_feature_by_feature(greedy, y):
    labels = np.where(y > 0, 1.0, -1.0)
    problem_of = problems(labels, SquaredHinge(), L1(0.01))
    found = Boosting(EXACT, max_rounds=6).solve(greedy, problem_of)
    objectives = [row.objective for row in found.rounds]
    assert np.all(np.diff(objectives) <= 1e-12)
    assert found.n_active <= len(found.rounds) <= 6
    assert found.dual_gap <= 1e-8  # fully corrective: optimal on the set held
    np.testing.assert_array_equal(
        found.feature_map.design(greedy.X).toarray(), found.design.toarray()
    )


def test_boosting_ends_when_the_best_found_would_get_no_weight(X, y):
    found = Boosting(EXACT, max_rounds=500).solve(BestStump(X), problems(y, Squared(), L1(0.3)))
    assert len(found.rounds) < 500
    problem = problems(y, Squared(), L1(0.3))(found.design)
    slopes = (problem.responses(found.coef) - y) / N
    best = BestStump(X).draw(0, 1, slopes)[1]
    assert np.abs(best.rmatvec(slopes)).max() <= 0.3 + 1e-6


def test_the_best_stump_is_the_best_of_all_thresholds(X, rng):
    for _ in range(5):
        slopes = rng.normal(size=N) / N
        best = BestStump(X).draw(0, 1, slopes)[1].toarray()[:, 0]
        everywhere = [
            abs(slopes @ np.where(X[:, j] >= a, 1.0, -1.0)) for j in range(3) for a in X[:, j]
        ]
        assert abs(slopes @ best) == pytest.approx(max(everywhere), rel=1e-12)


def test_exact_stumps_beat_one_random_stump_in_every_round_or_tie(X, y):
    problem_of = problems(y, Squared(), L1(0.01))
    exact = Boosting(EXACT, max_rounds=10).solve(BestStump(X), problem_of)
    random = Boosting(EXACT, max_rounds=10, patience=10).solve(
        BestOfSome(PERCEPTRON.fit(X), X, 1), problem_of
    )
    assert exact.rounds[-1].objective < random.rounds[-1].objective


def test_boosted_perceptrons_end_above_sparse_random_ones(X, rng):
    labels = np.where(X[:, 0] * X[:, 1] > 0, 1.0, -1.0)  # no half-space is better than another
    problem_of = problems(labels, SquaredHinge(), L1(0.01))
    boosted = Boosting(EXACT, max_rounds=60).solve(Perceptrons(X), problem_of)
    search = WorkingSet(CoordinateDescent(tol=1e-4), 100, 6)
    drawn = search.solve(Stream(PERCEPTRON.fit(X), X), problem_of)
    assert boosted.rounds[-1].objective > drawn.rounds[-1].objective


def test_every_output_gets_a_feature_of_its_own(X):
    both = np.where(X[:, [0, 2]] > 0.3, 1.0, -1.0)
    found = Boosting(EXACT, max_rounds=1).solve(BestStump(X), problems(both, Squared(), L1(0.01)))
    assert found.n_active == 2
    assert np.all(np.diag(found.coef[:2]) > 0.9)


def test_slopes_of_one_sign_give_the_constant(X):
    for source in (Perceptrons(X), BestStump(X)):
        column = source.draw(0, 1, np.full(N, 0.1))[1].toarray()[:, 0]
        assert np.all(column == 1)


def test_stumps_of_sparse_rows_are_refused(X):
    with pytest.raises(TypeError, match="X must be dense"):
        BestStump(sparse.csr_array(X))
