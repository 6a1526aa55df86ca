"""Laws of every solver: starts, weights, precision, the loop, the choice and the refusals."""

import gc
import pickle
import weakref
from dataclasses import dataclass

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

import mercer.solvers.base
import mercer.solvers.conjugate_gradient
import mercer.solvers.direct
import mercer.solvers.newton
from _problems import (
    LOSSES,
    D,
    N,
    all_solvers,
    designs,
    make,
    targets,
)
from mercer import solvers
from mercer.designs import Dense
from mercer.losses import Logistic, Squared
from mercer.penalties import L2, Penalty
from mercer.problem import Problem
from mercer.solvers import Cholesky, ConjugateGradient, NewtonCG


@pytest.fixture(params=LOSSES, ids=lambda loss: loss.name)
def loss(request):
    return request.param


def test_float32_solutions_agree_with_float64_to_their_precision(loss, rng):
    exact = make(loss, rng, 3, alpha=0.05)
    single = Problem(Dense(exact.design.array.astype(np.float32)), exact.y, loss, exact.penalty)
    for solver in all_solvers(loss, 1e-5):
        result = solver.solve(single)
        assert result.coef.dtype == np.float32
        np.testing.assert_allclose(result.coef, solver.solve(exact).coef, atol=2e-4)


def test_weights_solve_as_repeated_rows(loss, rng):
    Z, y = rng.normal(size=(N, D)), targets(loss, 0, rng)
    counts = rng.integers(0, 4, size=N)
    rows = np.repeat(np.arange(N), counts)
    for solver in all_solvers(loss, 1e-9):
        weighted = solver.solve(Problem(Dense(Z), y, loss, L2(0.1), counts))
        repeated = solver.solve(Problem(Dense(Z[rows]), y[rows], loss, L2(0.1)))
        np.testing.assert_allclose(weighted.coef, repeated.coef, atol=1e-7)


KEEPERS = [
    Cholesky(),
    ConjugateGradient(),
    NewtonCG(),
    solvers.BlockCoordinateDescent(),
    solvers.CoordinateDescent(),
    solvers.AsyncSVRG(tol=0.1, n_jobs=1),
]


@pytest.mark.parametrize("solver", KEEPERS, ids=lambda solver: solver.name)
def test_solvers_keep_nothing_of_a_problem(solver, rng):
    problem, settings = make(Squared(), rng, 2), dict(vars(solver))
    gone = weakref.ref(problem.design)
    gc.disable()  # a cycle of references would keep the design until the collector runs
    try:
        solver.solve(problem)
        solver.solve_path(problem, [0.3, 0.2])
        assert vars(solver) == settings
        del problem
        assert gone() is None
    finally:
        gc.enable()


@pytest.mark.parametrize("solver", KEEPERS, ids=lambda solver: solver.name)
def test_a_solution_is_a_path_of_one_strength(solver, rng):
    problem = make(Squared(), rng, 2, alpha=0.3)
    alone, (only,) = solver.solve(problem), solver.solve_path(problem, [0.3])
    np.testing.assert_array_equal(alone.coef, only.coef)
    assert alone.n_iter == only.n_iter
    assert alone.coef.flags.writeable


def test_strengths_share_what_the_solver_prepares_for_all_of_them(rng):
    @dataclass
    class Shared(NewtonCG):
        def share(self, problem, alphas, clock):
            prepared.append(alphas)
            return (object(),)

        def init(self, problem, theta, clock, given):
            received.append((problem.penalty.alpha, given))
            return super().init(problem, theta, clock)

    prepared, received = [], []
    results = Shared().solve_path(make(Squared(), rng), [0.1, 0.3, 0.2])
    assert prepared == [[0.1, 0.3, 0.2]]
    assert [alpha for alpha, _ in received] == [0.3, 0.2, 0.1]  # each from the one before
    assert len({id(given) for _, given in received}) == 1
    assert all(result.converged for result in results)


@pytest.mark.rounding
def test_a_start_at_the_solution_needs_no_step(loss, rng):
    problem = make(loss, rng, 3)
    for solver in all_solvers(loss, 1e-6):
        first = solver.solve(problem)
        again = solver.solve(problem, start=first.coef)
        assert again.n_iter == 0
        np.testing.assert_array_equal(again.coef, first.coef)


@pytest.mark.rounding
def test_any_start_leads_to_the_same_solution(loss, rng):
    problem = make(loss, rng, 3)
    start = rng.normal(size=problem.shape)
    before = start.copy()
    for solver in all_solvers(loss, 1e-9):
        there, here = solver.solve(problem, start=start).coef, solver.solve(problem).coef
        if loss.joint:  # which leaves a shift of all intercepts free
            there[-1] -= there[-1].mean()
        np.testing.assert_allclose(there, here, atol=1e-7)
    np.testing.assert_array_equal(start, before)


@pytest.mark.parametrize(
    ("start", "message"),
    [
        (np.zeros(D), r"start must have shape \(6,\); got \(5,\)"),
        (np.full(D + 1, np.nan), "finite"),
    ],
    ids=["shape", "nan"],
)
def test_starts_that_do_not_fit_are_refused(start, message, rng):
    with pytest.raises(ValueError, match=message):
        ConjugateGradient().solve(make(Squared(), rng), start=start)


LOOPED = [ConjugateGradient(space="columns"), ConjugateGradient(space="rows"), NewtonCG()]


def slow(solver):
    """A solver and a problem that take several iterations to a tight tolerance."""
    solver = pickle.loads(pickle.dumps(solver))
    solver.tol = 1e-9
    rng = np.random.default_rng(0)
    return solver, make(Squared() if solver.name == "cg" else Logistic(), rng, 2, alpha=1e-4)


@pytest.mark.parametrize("solver", LOOPED, ids=repr)
def test_the_cap_warns_with_the_residual_reached(solver):
    solver, problem = slow(solver)
    solver.max_iter = 2
    with pytest.warns(ConvergenceWarning) as caught:
        result = solver.solve(problem)
    assert len(caught) == 1
    message = str(caught[0].message)
    assert message.startswith(f"{type(solver).__name__} stopped at max_iter=2 with relative")
    assert f"{result.optimality:.2g}, above tol=1e-09" in message
    assert caught[0].filename == __file__
    assert not result.converged
    assert result.n_iter == 2
    assert result.optimality == pytest.approx(problem.optimality(result.coef))


@pytest.mark.parametrize("solver", LOOPED, ids=repr)
def test_the_callback_stops_the_loop_without_a_warning(solver):
    solver, problem = slow(solver)
    calls = []

    def stop(state):
        calls.append((state.iteration, state.coef.copy(), state.objective, state.optimality))
        return state.iteration == 2

    result = solver.solve(problem, callback=stop)
    assert [call[0] for call in calls] == [1, 2]
    assert not result.converged
    assert not result.interrupted
    np.testing.assert_array_equal(result.coef, calls[-1][1])
    assert calls[-1][2] == pytest.approx(problem.value(result.coef), rel=1e-12)


@pytest.mark.rounding
@pytest.mark.parametrize("solver", LOOPED, ids=repr)
def test_an_interrupt_returns_the_model_so_far(solver):
    solver, problem = slow(solver)
    seen = []

    def interrupt(state):
        seen.append(state.coef.copy())
        if state.iteration == 2:
            raise KeyboardInterrupt

    result = solver.solve(problem, callback=interrupt)
    assert result.interrupted
    assert not result.converged
    assert result.n_iter == 2
    np.testing.assert_array_equal(result.coef, seen[-1])


class Impatient(Dense):
    """A design whose user interrupts the seventh product, and that one only."""

    products = 0

    def count(self):
        self.products += 1
        if self.products == 7:
            raise KeyboardInterrupt

    def matvec(self, w):
        self.count()
        return super().matvec(w)

    def rmatvec(self, v):
        self.count()
        return super().rmatvec(v)


@pytest.mark.parametrize("solver", LOOPED, ids=repr)
def test_an_interrupt_within_a_product_returns_the_model_so_far(solver):
    solver, problem = slow(solver)
    impatient = Problem(Impatient(problem.design.array), problem.y, problem.loss, problem.penalty)
    result = solver.solve(impatient)
    assert result.interrupted
    assert np.all(np.isfinite(result.coef))
    assert problem.value(result.coef) <= problem.value(problem.initial())


@pytest.mark.parametrize("solver", [*LOOPED, Cholesky()], ids=repr)
def test_the_trace_tells_the_objective_of_every_iterate(solver):
    solver, problem = slow(solver)
    if solver.name == "cholesky":
        problem = make(Squared(), np.random.default_rng(0), 2)
    values = [problem.value(problem.initial())]
    result = solver.solve(problem, callback=lambda state: values.append(problem.value(state.coef)))
    assert len(result.trace) == result.n_iter + 1 == len(values)
    np.testing.assert_allclose([row.objective for row in result.trace], values, rtol=1e-10)
    times = [row.time for row in result.trace]
    assert np.all(np.diff(times) >= 0)
    last = result.trace[-1]
    assert last.optimality <= solver.tol
    assert last.n_nonzero == problem.n_variables
    assert sum(last.phases.values()) <= last.time
    assert pickle.loads(pickle.dumps(result)).trace == result.trace


def test_callbacks_are_not_on_the_clock(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(mercer.solvers.base, "perf_counter", lambda: now[0])

    def dawdle(state):
        now[0] += 100.0

    solver, problem = slow(NewtonCG())
    result = solver.solve(problem, callback=dawdle)
    assert result.n_iter > 1
    assert result.trace[-1].time == 0.0


def test_numbers_out_of_range_are_refused_in_one_sentence(loss, rng):
    Z = rng.normal(size=(N, D)).astype(np.float32) * np.float32(1e30)
    problem = Problem(Dense(Z), targets(loss, 0, rng), loss, L2(0.1))
    for solver in all_solvers(loss, 1e-4):
        with pytest.raises(ValueError, match="small enough for products in float32"):
            solver.solve(problem)


def test_a_design_without_columns_leaves_the_best_constant(loss, rng):
    problem = Problem(Dense(np.zeros((N, 0))), targets(loss, 0, rng), loss, L2(0.1))
    for solver in all_solvers(loss, 1e-8):
        theta = solver.solve(problem).coef
        assert theta.shape == problem.shape
        np.testing.assert_allclose(problem.gradient(theta), 0, atol=1e-7)


def test_auto_takes_the_direct_solver_where_a_side_is_small(rng):
    assert solvers.auto(make(Squared(), rng)).name == "cholesky"
    wide = Problem(Dense(np.ones((3, 9000))), np.ones(3), Squared(), L2(1.0))
    assert solvers.auto(wide).name == "cholesky"


def test_auto_takes_cg_where_the_matrix_would_be_large(monkeypatch, rng):
    problem = make(Squared(), rng)
    monkeypatch.setattr(solvers, "_DIRECT_SIDE", 3)
    assert solvers.auto(problem).name == "cg"


def test_auto_takes_cg_for_large_designs_that_are_not_dense(monkeypatch, rng):
    monkeypatch.setattr(solvers, "_SMALL", 10)
    dense, sparse, binned = designs(rng)
    y = targets(Squared(), 0, rng)
    chosen = [solvers.auto(Problem(d, y, Squared(), L2(0.1))).name for d in (dense, sparse, binned)]
    assert chosen == ["cholesky", "cg", "cg"]


def test_auto_takes_cg_where_the_matrix_does_not_fit(monkeypatch, rng):
    monkeypatch.setattr(solvers, "available_memory", lambda: 10)
    assert solvers.auto(make(Squared(), rng)).name == "cg"


def test_auto_takes_newton_for_other_losses(loss, rng):
    chosen = solvers.auto(make(loss, rng), tol=1e-3, max_iter=7)
    assert (chosen.name == "newton-cg") == (not loss.quadratic)
    assert (chosen.tol, chosen.max_iter) == (1e-3, 7)


@pytest.mark.parametrize("name", ["cholesky", "cg", "newton-cg"])
def test_solvers_are_found_by_name_and_pass_through(name, rng):
    problem = make(Squared(), rng)
    solver = solvers.get(name, problem, tol=1e-3, max_iter=7)
    assert (solver.name, solver.tol, solver.max_iter) == (name, 1e-3, 7)
    assert solvers.get(solver, problem, tol=1.0) is solver
    assert pickle.loads(pickle.dumps(solver)) == solver


def test_unknown_name_lists_the_names(rng):
    with pytest.raises(
        ValueError, match="solver must be one of 'auto', 'cholesky', 'cg', 'block', 'cd'"
    ):
        solvers.get("sgd", make(Squared(), rng))


@pytest.mark.parametrize("solver", [Cholesky(), ConjugateGradient()], ids=repr)
def test_ridge_solvers_say_what_other_losses_lack(solver, rng):
    with pytest.raises(
        ValueError, match=r"needs a quadratic loss; got loss 'logistic' and penalty 'l2'\."
    ):
        solver.solve(make(Logistic(), rng))


def test_newton_says_what_other_penalties_lack(rng):
    class Lasso(Penalty):
        name = "l1"

    problem = Problem(Dense(np.eye(3)), np.ones(3), Squared(), Lasso(0.1))
    with pytest.raises(ValueError, match="NewtonCG needs a penalty of linear gradient; got loss"):
        NewtonCG().solve(problem)


@pytest.mark.parametrize(
    ("make_solver", "error", "message"),
    [
        (lambda: NewtonCG(tol=-1.0), ValueError, "tol must be at least 0"),
        (lambda: NewtonCG(tol="1"), TypeError, "tol must be a number"),
        (lambda: NewtonCG(max_iter=0), ValueError, "max_iter must be at least 1"),
        (lambda: NewtonCG(max_iter=1.5), TypeError, "max_iter must be an integer"),
        (lambda: Cholesky(form="lu"), ValueError, "form must be one of 'auto', 'primal', 'dual'"),
        (lambda: ConjugateGradient(space="row"), ValueError, "space must be one of 'auto'"),
        (lambda: ConjugateGradient(preconditioner="ilu"), ValueError, "preconditioner must be one"),
        (lambda: ConjugateGradient(check_every=0), ValueError, "check_every must be at least 1"),
        (
            lambda: ConjugateGradient(space="rows", preconditioner="jacobi"),
            ValueError,
            "preconditioner must be 'auto' or None with space='rows'; got 'jacobi'",
        ),
    ],
)
def test_settings_outside_their_range_are_refused(make_solver, error, message):
    with pytest.raises(error, match=message):
        make_solver()


def test_an_error_of_a_callback_ends_the_solver_and_reaches_the_caller(rng):
    def failing(state):
        raise RuntimeError("no room for the log")

    problem = Problem(Dense(rng.normal(size=(20, 3))), rng.normal(size=20), Squared(), L2(0.1))
    for solver in (NewtonCG(), ConjugateGradient(), solvers.BlockCoordinateDescent()):
        with pytest.raises(RuntimeError, match="no room for the log"):
            solver.solve(problem, callback=failing)
