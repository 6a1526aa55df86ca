"""Laws of asynchronous SVRG: certificates, the paper's form, other forms, threads, step sizes."""

import time
from dataclasses import dataclass

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import StandardScaler, scale
from threadpoolctl import threadpool_limits

from _problems import targets
from mercer import (
    KernelClassifier,
    KernelRegressor,
    SparseKernelClassifier,
    datasets,
    solvers,
)
from mercer.designs import Dense, Lazy
from mercer.losses import (
    Correntropy,
    Huber,
    Logistic,
    Multinomial,
    Sigmoid,
    SmoothHinge,
    Squared,
    SquaredHinge,
)
from mercer.maps import RandomFourier
from mercer.penalties import L1, L2, ElasticNet
from mercer.problem import Problem, dual_gap
from mercer.solvers import AsyncSVRG, CoordinateDescent, Stream, WorkingSet
from mercer.solvers.async_svrg.inner import Inner
from mercer.solvers.async_svrg.models import QuadraticModels, nearer_minimum
from test_coordinate import at_strength, make, make_designs

N = 120
CONVEX = [Squared(), Huber(0.7), Logistic(), SquaredHinge(), SmoothHinge()]
FORMS = [
    {},
    {"margins": "recomputed", "sampling": "uniform", "block_size": 1},
    {"margins": "kept", "sampling": "uniform"},
    {"margins": "kept", "sampling": "column"},
    {"margins": "recomputed", "sampling": "column", "block_size": 1},
    {"margins": "recomputed", "sampling": "uniform", "block_size": 5},
    {"precision": "float32", "margins": "recomputed"},
]


def solver(max_iter=60, tol=1e-3, **settings):
    settings = {"n_jobs": 1, "n_inner": 2000} | settings
    return AsyncSVRG(tol=tol, max_iter=max_iter, **settings)


@pytest.fixture(params=CONVEX, ids=lambda loss: loss.name)
def loss(request):
    return request.param


@pytest.mark.parametrize("form", FORMS, ids=str)
def test_convex_losses_reach_the_optimum_of_coordinate_descent(form, loss, rng):
    for design in make_designs(rng):
        problem = make(loss, design, rng, 0.1, 0.8, rng.uniform(0.5, 2.0, size=N))
        best = CoordinateDescent(tol=1e-9).solve(problem).trace[-1].objective
        result = solver(**form).solve(problem)
        assert result.converged
        assert result.criterion == "duality gap"
        start = result.trace[0].objective
        assert problem.value(result.coef) - best <= 1e-3 * start
        assert dual_gap(problem.at(result.coef)) >= problem.value(result.coef) - best - 1e-12
        objective = np.array([row.objective for row in result.trace])
        assert np.all(np.diff(objective) <= 1e-13 * start)


@pytest.mark.parametrize("loss", [Correntropy(), Sigmoid()], ids=lambda loss: loss.name)
def test_other_losses_reach_a_stationary_point_and_claim_no_more(loss, rng):
    for design in make_designs(rng):
        problem = make(loss, design, rng, 0.2)
        result = solver(100, 1e-2).solve(problem)
        assert result.converged
        assert result.criterion == "stationarity"
        assert dual_gap(problem.at(result.coef)) is None
        near = CoordinateDescent(tol=1e-7).solve(problem, start=result.coef)
        fell = result.trace[0].objective - problem.value(result.coef)
        assert problem.value(result.coef) - near.trace[-1].objective <= 0.05 * fell


def test_without_a_penalty_it_stops_by_stationarity(rng):
    Z, y = rng.normal(size=(N, 4)), rng.normal(size=N)
    result = solver(100, 1e-6).solve(Problem(Dense(Z), y, Squared(), L1(0.0)))
    assert result.converged
    assert result.criterion == "stationarity"
    full = np.column_stack([Z, np.ones(N)])
    np.testing.assert_allclose(result.coef, np.linalg.lstsq(full, y)[0], atol=1e-5)


def paper(**settings):
    form = {"margins": "recomputed", "sampling": "uniform", "block_size": 1}
    return AsyncSVRG(tol=0, n_jobs=1, max_iter=3, **(form | settings))


@pytest.mark.rounding
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("sampling", ["uniform", "column"])
def test_steps_do_not_depend_on_the_scale_of_the_features(sampling, rng):
    Z = rng.normal(size=(N, 20))
    y = targets(Logistic(), 0, rng, N)
    coefs = []
    for c in (1.0, 1000.0):
        problem = Problem(Dense(c * Z), y, Logistic(), L1(0.01 * c), None, False)
        coefs.append(c * paper(step_size=0.5, sampling=sampling, n_inner=500).solve(problem).coef)
    np.testing.assert_allclose(*coefs, rtol=1e-10, atol=1e-13)


@pytest.mark.rounding
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_kept_margins_are_those_recomputed(loss, rng):
    for design in make_designs(rng):
        problem = make(loss, design, rng, 0.1, 0.7, rng.uniform(0.5, 2.0, size=N))
        for sampling in ("uniform", "column"):
            kept, recomputed = (
                paper(step_size=0.3, n_inner=300, sampling=sampling, margins=margins)
                for margins in ("kept", "recomputed")
            )
            np.testing.assert_allclose(
                kept.solve(problem).coef, recomputed.solve(problem).coef, atol=1e-10
            )


def test_rows_of_less_precision_lead_to_the_same_optimum(rng):
    problem = make(Logistic(), make_designs(rng)[0], rng, 0.1)
    best = CoordinateDescent(tol=1e-12).solve(problem).trace[-1].objective
    for precision in ("float32", "bfloat16"):
        result = solver(100, 1e-7, precision=precision).solve(problem)
        assert result.converged
        assert problem.value(result.coef) - best <= 1e-7 * result.trace[0].objective


def test_float32_designs_give_float32_solutions_as_good(loss, rng):
    for design in make_designs(rng, dtype=np.float32):
        problem = make(loss, design, rng)
        result = solver().solve(problem)
        assert result.coef.dtype == np.float32
        assert result.converged


def test_outputs_weights_and_a_quadratic_penalty(loss, rng):
    design = make_designs(rng)[0]
    problem = Problem(design, targets(loss, 3, rng, N), loss, L2(0.1), rng.uniform(0, 2, size=N))
    result = solver().solve(problem)
    assert result.converged
    for k in range(3):
        alone = Problem(design, problem.y[:, k], loss, L2(0.1), problem.weights)
        best = solvers.NewtonCG(tol=1e-9).solve(alone).trace[-1].objective
        assert alone.value(result.coef[:, k]) - best <= 1e-3 * alone.value(alone.initial())


@pytest.mark.rounding
def test_one_thread_gives_the_same_bits_and_other_seeds_others(rng):
    for design in make_designs(rng):
        problem = make(Logistic(), design, rng)
        coefs = [solver(20, 1e-2, random_state=seed).solve(problem).coef for seed in (3, 3, 4)]
        assert np.array_equal(coefs[0], coefs[1])
        assert not np.array_equal(coefs[0], coefs[2])


@pytest.mark.parametrize("form", FORMS[:4], ids=str)
def test_several_threads_reach_the_optimum(form, rng):
    for design in make_designs(rng, 2000):
        problem = make(Logistic(), design, rng, 0.1, 0.8)
        result = AsyncSVRG(1e-3, 60, n_jobs=4, **form).solve(problem)
        assert result.converged
        best = CoordinateDescent(tol=1e-8).solve(problem).trace[-1].objective
        assert problem.value(result.coef) - best <= 1e-3 * result.trace[0].objective


def correlated(rng, n, loss=None, dtype=np.float64):
    """Waves of one input: neighbouring columns are much alike."""
    x = rng.uniform(-1, 1, size=n)
    Z = np.cos(np.outer(x, np.linspace(0, 8, 60)) + rng.uniform(0, 2 * np.pi, size=60))
    y = np.where(rng.uniform(size=n) < 1 / (1 + np.exp(-8 * np.sin(5 * x))), 1.0, -1.0)
    return Problem(Dense(Z.astype(dtype), 1), y, loss or Logistic(), L1(1e-4))


@pytest.mark.parametrize("n_jobs", [1, 2, 4])
def test_columns_that_are_much_alike_take_few_loops_on_any_number_of_threads(n_jobs, rng):
    problem = correlated(rng, 2000)
    result = AsyncSVRG(1e-4, 30, n_jobs=n_jobs).solve(problem)
    assert result.converged
    again = AsyncSVRG(1e-5, 30, n_jobs=n_jobs).solve(problem, start=result.coef)
    assert again.converged
    best = CoordinateDescent(tol=1e-8).solve(problem).trace[-1].objective
    assert problem.value(again.coef) - best <= 1e-5 * again.trace[0].objective


@pytest.mark.parametrize("penalty", [L1(0.01), L2(0.01), ElasticNet(0.01)], ids=repr)
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_the_model_of_squares_is_the_loss_itself(fit_intercept, penalty, rng):
    Z, y = rng.normal(size=(N, 6)), rng.normal(size=N)
    problem = Problem(Dense(Z), y, Squared(), penalty, rng.uniform(0, 2, N), fit_intercept)
    point = problem.at(problem.initial())
    gradient, work = point.gradient.reshape(-1, 1), np.ones(1, dtype=bool)
    end = nearer_minimum(QuadraticModels(problem, 1), point, gradient, np.full(1, 1e-9), work)
    best = CoordinateDescent(tol=1e-12) if penalty.l1 else solvers.NewtonCG(tol=1e-12)
    least = best.solve(problem).trace[-1].objective
    assert end.value - least <= 1e-9 * point.value


def test_a_loop_starts_no_higher_than_its_snapshot(loss, rng):
    problem = correlated(rng, 300, loss)
    far = problem.at(10.0 * rng.normal(size=problem.shape))
    models, work = QuadraticModels(problem, 1), np.ones(1, dtype=bool)
    assert (
        nearer_minimum(models, far, far.gradient.reshape(-1, 1), far.values, work).value < far.value
    )
    none = np.zeros(1, dtype=bool)
    assert nearer_minimum(models, far, far.gradient.reshape(-1, 1), far.values, none) is far


@pytest.mark.filterwarnings("ignore:AsyncSVRG no longer lowers the objective at step_size=")
def test_a_step_size_that_diverges_is_refused_and_one_that_does_not_is_named(loss, rng):
    problem = make(loss, make_designs(rng)[0], rng)
    with pytest.raises(ValueError, match=r"step_size must .*; got 1000, and \S+ is the") as error:
        solver(step_size=1000.0).solve(problem)
    named = float(str(error.value).split("and ")[1].split()[0])
    allowed = solver(step_size=named).solve(problem)
    assert allowed.trace[-1].objective < allowed.trace[0].objective


def test_steps_that_turn_out_too_long_are_divided_by_three(rng, monkeypatch):
    problem = make(Logistic(), make_designs(rng)[0], rng)
    monkeypatch.setattr(AsyncSVRG, "_first_length", lambda *arguments: 1e3)
    seen = []
    result = solver(block_size=1).solve(
        problem, callback=lambda state: seen.append(state.gammas[0])
    )
    assert result.converged
    assert seen[0] == pytest.approx(1000 / 3)
    assert min(seen) >= 0.01
    assert all(a <= b for a, b in zip(seen[1:], seen[:-1], strict=True))


def test_it_says_so_when_no_step_helps_and_returns_the_start(rng, monkeypatch):
    problem = make(Logistic(), make_designs(rng)[0], rng)
    monkeypatch.setattr(Inner, "run", lambda self, point, *rest: point.theta + 1.0)
    with pytest.warns(ConvergenceWarning, match="found no step_size that lets the objective fall"):
        result = solver(block_size=1).solve(problem)
    assert not result.converged
    assert np.array_equal(result.coef, problem.initial())


def test_the_best_snapshot_is_kept_if_a_fixed_step_size_lets_later_ones_rise(rng, monkeypatch):
    problem = make(Logistic(), make_designs(rng)[0], rng)
    good = solver(3, 0.0, step_size=0.5)
    with pytest.warns(ConvergenceWarning):
        reached = good.solve(problem)
    run, calls = Inner.run, []

    def once_good(self, point, *rest):
        calls.append(0)
        return run(self, point, *rest) if len(calls) <= 3 else 0.5 * point.theta

    monkeypatch.setattr(Inner, "run", once_good)
    with pytest.warns(ConvergenceWarning):
        result = solver(5, 0.0, step_size=0.5).solve(problem)
    assert np.array_equal(result.coef, reached.coef)


def test_a_start_is_gone_on_from_and_never_made_worse(rng):
    problem = make(Logistic(), make_designs(rng)[2], rng)
    first = solver().solve(problem)
    assert solver().solve(problem, start=first.coef).n_iter == 0
    best = CoordinateDescent(tol=1e-13).solve(problem).coef
    with pytest.warns(ConvergenceWarning):
        again = solver(5, 0.0).solve(problem, start=best)
    assert problem.value(again.coef) <= problem.value(best)


def test_a_cap_warns_and_an_interrupt_leaves_what_was_reached(rng):
    problem = make(Logistic(), make_designs(rng)[2], rng, 0.01)
    with pytest.warns(ConvergenceWarning, match="stopped at max_iter=1 with relative duality gap"):
        assert not solver(1, 1e-9).solve(problem).converged

    def interrupt(state):
        if state.iteration == 2:
            raise KeyboardInterrupt

    stopped = solver(9, 1e-9).solve(problem, callback=interrupt)
    assert stopped.interrupted
    assert problem.value(stopped.coef) == stopped.trace[-1].objective < stopped.trace[0].objective


def test_it_solves_the_rounds_of_a_working_set_and_serves_estimators(rng):
    X = rng.normal(size=(400, 3))
    y = np.where(np.linalg.norm(X, axis=1) < 1.5, 1.0, -1.0)
    fourier = RandomFourier(n_components=1, scale=False, random_state=0).fit(X)
    search = WorkingSet(AsyncSVRG(1e-2, 200, n_jobs=1), n_new=40, max_rounds=3)
    found = search.solve(Stream(fourier, X), lambda Z: Problem(Z, y, Logistic(), L1(0.01)))
    objective = [row.objective for row in found.rounds]
    assert all(np.diff(objective) <= 1e-12)
    assert 0 < found.n_active < found.n_drawn
    sparse = SparseKernelClassifier(solver="async", tol=1e-2, n_jobs=1, random_state=0)
    assert sparse.fit(X, y).score(X, y) > 0.9
    assert sparse.solver_ == "async"
    for feature_map in ("fourier", "binning"):
        dense = KernelClassifier(
            feature_map, solver="async", alpha=1e-3, tol=0.1, n_jobs=1, random_state=0
        )
        assert dense.fit(X, y).score(X, y) > 0.9
    target = np.sin(X).sum(axis=1)
    model = KernelRegressor(
        "fourier", loss="correntropy", penalty="l1", alpha=1e-3, solver="async", tol=0.1, n_jobs=1
    )
    assert model.fit(X, target).score(X, target) > 0.8


@dataclass(frozen=True)
class Own(Squared):
    """A loss that the core does not know."""


def test_what_it_cannot_do_is_refused(rng):
    design, y = make_designs(rng)[0], rng.normal(size=N)
    joint = Problem(design, np.eye(3)[rng.integers(3, size=N)], Multinomial(), L1(0.1))
    for problem in (joint, Problem(design, y, Own(), L1(0.1))):
        with pytest.raises(ValueError, match=r"needs one of the losses 'squared', .*; got '"):
            solver().solve(problem)
    lazy = Problem(Lazy(np.ones((3, 1)), None, 4), np.ones(3), Squared(), L1(0.1))
    with pytest.raises(ValueError, match="holds its matrix; got a Lazy one"):
        solver().solve(lazy)
    thin = Problem(make_designs(rng)[1], y, Squared(), L1(0.1))
    with pytest.raises(ValueError, match="block_size must be 1 for sampling='column'"):
        solver(block_size=2, sampling="column").solve(thin)
    for margins in ("recomputed", "kept"):
        with pytest.raises(ValueError, match="precision must be 'design' or 'float32' unless"):
            solver(precision="bfloat16", margins=margins).solve(thin)
    with pytest.raises(ValueError, match="precision must be 'design' for margins='kept'"):
        solver(precision="float32").solve(thin)


@pytest.mark.parametrize(
    ("settings", "error"),
    [
        ({"step_size": 0.0}, ValueError),
        ({"step_size": "small"}, ValueError),
        ({"step_size": True}, TypeError),
        ({"batch_size": 0}, ValueError),
        ({"batch_size": 2.5}, TypeError),
        ({"block_size": 0}, ValueError),
        ({"n_inner": 0}, ValueError),
        ({"n_jobs": 0}, ValueError),
        ({"margins": "lost"}, ValueError),
        ({"sampling": "greedy"}, ValueError),
        ({"precision": "float16"}, ValueError),
    ],
    ids=str,
)
def test_settings_that_make_no_sense_are_refused_by_name(settings, error):
    with pytest.raises(error, match=next(iter(settings))):
        AsyncSVRG(**settings)


def test_it_has_a_name(rng):
    problem = at_strength(
        Problem(make_designs(rng)[0], np.ones(N), Squared(), ElasticNet(1.0)), 0.5
    )
    assert isinstance(solvers.get("async", problem), AsyncSVRG)
    assert "async" in solvers.names()


@pytest.fixture
def seconds(monkeypatch):
    """Seconds of processor of the calling thread, and of all others, in inner loops."""
    spent, walk = np.zeros(2), Inner._walk

    def timed(self, *given):
        own, whole = time.thread_time(), time.process_time()
        finite = walk(self, *given)
        own, whole = time.thread_time() - own, time.process_time() - whole
        spent[:] += own, whole - own
        return finite

    monkeypatch.setattr(Inner, "_walk", timed)
    with threadpool_limits(1):  # threads of BLAS would be among the others
        yield spent


def shipped(name):
    """Features and targets of a problem of squares of the first rows of a table that ships."""
    data = datasets.load(name)
    X, y = data.X[:1500], data.y[:1500]
    if name != "letter":
        X = X.to_pandas().select_dtypes("number").fillna(0).to_numpy(float)
    X = StandardScaler().fit_transform(X.astype(float))
    y = np.where(y == "on time", 1.0, -1.0) if y.dtype.kind in "OU" else scale(y.astype(float))
    Z = RandomFourier(n_components=30, random_state=0).fit_transform(X)
    return Problem(Dense(Z), y, Squared(), L2(0.05))


@pytest.mark.parametrize("name", ["flats", "flights", "letter"])
def test_two_threads_of_asydsskl_both_work_and_reach_the_direct_solution(name, seconds):
    problem = shipped(name)
    direct = problem.at(solvers.Cholesky().solve(problem).coef)
    form = {"tol": 1e-9, "max_iter": 300, "n_inner": 100_000}
    result = AsyncSVRG.asydsskl(n_jobs=2, **form).solve(problem)
    # Threads take the next steps of a loop as they come to them: their times are their steps.
    assert seconds.min() > 0.1 * seconds.sum()
    assert result.converged
    np.testing.assert_allclose(problem.at(result.coef).responses, direct.responses, atol=1e-3)
    seconds[:] = 0.0
    AsyncSVRG.asydsskl(n_jobs=1, **form).solve(problem)
    assert seconds[1] < 0.1 * seconds[0]
