"""Laws of steps that see old weights: the core without delay, short and long steps with it."""

import numpy as np
import pytest
from scipy import sparse

from mercer.designs import Binned, Dense, Sparse
from mercer.losses import Huber, Logistic, SmoothHinge, Squared, SquaredHinge
from mercer.penalties import L1, ElasticNet
from mercer.problem import Problem
from mercer.solvers import AsyncSVRG, CoordinateDescent
from mercer_studies.simulators import simulate_delays

N = 120


@pytest.fixture(scope="module")
def problem():
    rng = np.random.default_rng(5)
    X = rng.normal(size=(600, 4))
    Z = np.sqrt(2) * np.cos(0.7 * X @ rng.normal(size=(4, 60)) + rng.uniform(0, 6.3, size=60))
    y = np.where(Z[:, :6].sum(axis=1) + rng.normal(size=600) > 0, 1.0, -1.0)
    return Problem(Dense(Z), y, Logistic(), L1(3e-3))


def excess(problem, run):
    """F above the minimum relative to what it was at the start."""
    best = CoordinateDescent(tol=1e-9).solve(problem).trace[-1].objective
    return (run.objective - best) / (run.objective[0] - best)


def test_short_steps_do_not_mind_delays(problem):
    prompt = excess(problem, simulate_delays(problem, 0, 0.1))
    for delay in (8, 32, 128):
        late = excess(problem, simulate_delays(problem, delay, 0.1))
        np.testing.assert_allclose(late, prompt, rtol=0.1)


def test_long_steps_get_worse_with_delay(problem):
    def last(delay):
        runs = (simulate_delays(problem, delay, 1.5, random_state=seed) for seed in range(3))
        return np.mean([excess(problem, run)[-1] for run in runs])

    reached = [last(delay) for delay in (0, 128, 256, 512)]
    assert reached[0] < 0.02
    assert 2 * reached[0] < reached[1]
    assert 4 * reached[1] < reached[2] < 0.8 * reached[3]


def test_steps_that_are_too_long_leave_the_range(problem):
    squared = Problem(problem.design, problem.y, Squared(), problem.penalty)
    run = simulate_delays(squared, 4, 50.0)
    assert run.objective[-1] == np.inf
    assert len(run.objective) < 11


def test_one_step_old_weights_are_the_current_ones_or_those_before(problem):
    runs = [simulate_delays(problem, d, 0.5, max_iter=1, n_inner=2).coef for d in (0, 1)]
    assert np.allclose(*runs, atol=0.1)
    assert np.array_equal(
        *(simulate_delays(problem, d, 0.5, max_iter=1, n_inner=1).coef for d in (0, 9))
    )


def test_delays_that_make_no_sense_are_refused(problem):
    with pytest.raises(ValueError, match="delay must be at least 0; got -1"):
        simulate_delays(problem, -1)
    with pytest.raises(TypeError, match=r"delay must be an integer; got 1\.5"):
        simulate_delays(problem, 1.5)
    two = Problem(problem.design, np.ones((600, 2)), Squared(), L1(0.1))
    with pytest.raises(ValueError, match="one output; got 2"):
        simulate_delays(two, 1)


# --- what the library's core does without delay ------------------------------------------------


@pytest.fixture(
    params=[Squared(), Huber(0.7), Logistic(), SquaredHinge(), SmoothHinge()],
    ids=lambda loss: loss.name,
)
def loss(request):
    return request.param


def designs(rng):
    """One design of every kind that the core has steps for."""
    Z = rng.normal(size=(N, 20)) + 0.2
    thin = Z * (rng.random(Z.shape) < 0.3)
    codes = rng.integers(7, size=(6, N)).astype(np.uint8)  # 6 is missing
    offsets = np.arange(7) * 6
    return [
        Dense(Z),
        Sparse(sparse.csr_array(thin)),
        Binned(codes, offsets, 0.4, missing=True),
    ]


def shrunk(loss, design, rng, fit_intercept=True):
    """A problem at a tenth of the strength that leaves no weights."""
    y = rng.choice([-1.0, 1.0], size=N) if loss.is_classification else rng.normal(size=N) + 1.0
    problem = Problem(design, y, loss, ElasticNet(1.0, 0.7), None, fit_intercept)
    return problem.with_penalty(ElasticNet(0.1 * problem.alpha_max(), 0.7))


def paper(**settings):
    form = {"margins": "recomputed", "sampling": "uniform", "block_size": 1}
    return AsyncSVRG(tol=0, n_jobs=1, max_iter=3, **(form | settings))


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("margins", ["recomputed", "kept"])
def test_the_form_of_the_paper_is_what_its_simulation_does(margins, loss, rng):
    for design in designs(rng):
        problem = shrunk(loss, design, rng)
        simulated = simulate_delays(problem, 0, 0.5, max_iter=3, batch_size=8, n_inner=500)
        result = paper(step_size=0.5, batch_size=8, n_inner=500, margins=margins).solve(problem)
        objective = [row.objective for row in result.trace]
        np.testing.assert_allclose(objective, simulated.objective, rtol=1e-9)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_all_rows_in_a_batch_are_proximal_coordinate_descent(loss, rng):
    for design in designs(rng)[:3]:
        problem = shrunk(loss, design, rng, fit_intercept=False)
        gamma, n_steps = 0.9, 400
        result = paper(step_size=gamma, batch_size=N, n_inner=n_steps).solve(problem)
        draws = simulate_delays(problem, 0, gamma, max_iter=3, batch_size=N, n_inner=n_steps)
        Z = design.toarray()
        length = gamma / (loss.lipschitz * np.max(Z**2))
        w = np.zeros(Z.shape[1])
        for _ in range(60):  # any order of the coordinates has the same fixed point
            for j in range(len(w)):
                slope = loss.gradient(Z @ w, problem.y) @ Z[:, j] / N
                w[j] = problem.penalty.prox(np.array(w[j] - length * slope), length)
        np.testing.assert_allclose(result.coef, draws.coef, atol=1e-12)
        longer = paper(step_size=gamma, batch_size=N, n_inner=60 * len(w)).solve(problem)
        assert problem.value(longer.coef) <= problem.value(w) + 1e-3 * result.trace[0].objective
