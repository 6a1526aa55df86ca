"""Laws of coordinate descent: certificates, closed forms, other people's solvers, threads."""

import numpy as np
import pytest
import sklearn
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import ElasticNet as ReferenceElasticNet
from sklearn.linear_model import Lasso, LogisticRegression
from sklearn.svm import LinearSVC
from sklearn.utils.fixes import parse_version

from _descent import minimiser
from _problems import targets
from mercer import solvers
from mercer.designs import Binned, Dense, Lazy, Sparse
from mercer.losses import Huber, Logistic, Multinomial, SmoothHinge, Squared, SquaredHinge
from mercer.penalties import L1, L2, ElasticNet
from mercer.problem import Problem, dual_gap
from mercer.solvers import CoordinateDescent, path
from mercer.solvers.coordinate import descent, solver
from mercer.solvers.coordinate.columns import DenseColumns

N = 120
LOSSES = [Squared(), Huber(0.7), Logistic(), SquaredHinge(), SmoothHinge()]
METHODS = ["newton", "descent"]


def make_designs(rng, n=N, dtype=np.float64):
    """One design of every kind that coordinate descent takes."""
    Z = (rng.normal(size=(n, 20)) + 0.2).astype(dtype)
    thin = Z * (rng.random(Z.shape) < 0.3)
    codes = rng.integers(7, size=(6, n)).astype(np.uint8)  # 6 is missing
    offsets = np.arange(7) * 6
    return [
        Dense(Z),
        Sparse(sparse.csr_array(thin)),
        Binned(codes, offsets, 0.4, dtype, missing=True),
    ]


def at_strength(problem, share, l1_ratio=1.0):
    """The problem with an l1 part, ``share`` of the strength that leaves no weights."""
    penalty = L1(1.0) if l1_ratio == 1 else ElasticNet(1.0, l1_ratio)
    alpha = share * problem.with_penalty(penalty).alpha_max()
    return problem.with_penalty(L1(alpha) if l1_ratio == 1 else ElasticNet(alpha, l1_ratio))


def make(loss, design, rng, share=0.1, l1_ratio=1.0, weights=None, fit_intercept=True):
    y = targets(loss, 0, rng, design.shape[0])
    return at_strength(Problem(design, y, loss, L1(1.0), weights, fit_intercept), share, l1_ratio)


@pytest.fixture(params=LOSSES, ids=lambda loss: loss.name)
def loss(request):
    return request.param


@pytest.mark.parametrize("method", METHODS)
def test_the_gap_is_never_negative_and_goes_to_nothing_and_the_objective_never_rises(
    loss, method, rng
):
    for design in make_designs(rng):
        for l1_ratio in (1.0, 0.6):
            problem = make(loss, design, rng, 0.1, l1_ratio)
            result = CoordinateDescent(tol=1e-8, max_iter=300, method=method).solve(problem)
            assert result.converged
            assert result.criterion == "duality gap"
            objective = np.array([row.objective for row in result.trace])
            assert np.all(np.diff(objective) <= 1e-13 * objective[0])
            assert all(row.optimality >= 0 for row in result.trace)
            gap = dual_gap(problem.at(result.coef))
            assert -1e-14 <= gap <= 2e-8 * objective[0]


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("fit_intercept", [False, True])
def test_it_finds_the_minimiser_that_plain_descent_finds(loss, weighted, fit_intercept, rng):
    weights = rng.uniform(0.2, 2.0, size=N) if weighted else None
    for design in make_designs(rng)[:3]:
        problem = make(loss, design, rng, 0.3, 0.7, weights, fit_intercept)
        expected = minimiser(problem)
        for method in METHODS:
            found = CoordinateDescent(tol=1e-12, method=method, max_iter=300).solve(problem)
            np.testing.assert_allclose(found.coef, expected, atol=2e-5)


def test_orthonormal_columns_have_a_closed_form(rng):
    Z = np.linalg.qr(rng.normal(size=(50, 8)))[0] * np.sqrt(50)
    y = rng.normal(size=50)
    correlation = Z.T @ y / 50
    alpha = float(np.median(np.abs(correlation)))
    expected = np.sign(correlation) * np.maximum(np.abs(correlation) - alpha, 0)
    problem = Problem(Dense(Z), y, Squared(), L1(alpha), None, False)
    for method in METHODS:
        found = CoordinateDescent(tol=1e-14, method=method).solve(problem).coef
        np.testing.assert_allclose(found, expected, atol=1e-10)
        assert np.count_nonzero(found) == np.count_nonzero(expected)


def test_no_weight_at_the_largest_strength_and_some_just_below(loss, rng):
    for design in make_designs(rng):
        problem = make(loss, design, rng, 1.0 + 1e-9)
        assert not np.any(CoordinateDescent(tol=1e-12).solve(problem).coef[:-1])
        problem = at_strength(problem, 0.98)
        assert np.any(CoordinateDescent(tol=1e-12).solve(problem).coef[:-1])


def test_the_optimality_conditions_hold_at_exact_zeros_and_elsewhere(rng):
    for loss in (Squared(), Logistic()):
        problem = make(loss, make_designs(rng)[2], rng, 0.2)
        theta = CoordinateDescent(tol=1e-14).solve(problem).coef
        gradient, w = problem.gradient(theta)[:-1], theta[:-1]
        l1 = problem.penalty.l1
        assert 0 < np.count_nonzero(w) < len(w)
        np.testing.assert_allclose(gradient[w != 0], -l1 * np.sign(w[w != 0]), atol=1e-6 * l1)
        assert np.all(np.abs(gradient) <= l1 * (1 + 1e-6))


def test_lasso_and_elastic_net_agree_with_scikit_learn(rng):
    Z, y = rng.normal(size=(N, 30)), rng.normal(size=N)
    for reference, penalty in (
        (Lasso(alpha=0.05, tol=1e-10), L1(0.05)),
        (ReferenceElasticNet(alpha=0.05, l1_ratio=0.4, tol=1e-10), ElasticNet(0.05, 0.4)),
    ):
        reference.fit(Z, y)
        found = CoordinateDescent(tol=1e-13).solve(Problem(Dense(Z), y, Squared(), penalty)).coef
        np.testing.assert_allclose(found[:-1], reference.coef_, atol=1e-6)
        np.testing.assert_allclose(found[-1], reference.intercept_, atol=1e-6)


def test_logistic_regression_and_the_squared_hinge_agree_with_liblinear(rng):
    Z = rng.normal(size=(N, 20))
    y = np.where(Z[:, 0] + 0.5 * rng.normal(size=N) > 0, 1.0, -1.0)
    strength = 0.02
    penalised = {"C": 1 / (N * strength), "fit_intercept": False, "tol": 1e-8, "max_iter": 10_000}
    renamed = parse_version(sklearn.__version__) >= parse_version("1.8")
    l1 = {"l1_ratio": 1.0} if renamed else {"penalty": "l1"}
    logistic = LogisticRegression(**l1, solver="liblinear", **penalised)
    hinge = LinearSVC(penalty="l1", loss="squared_hinge", dual=False, **penalised)
    for reference, loss in ((logistic, Logistic()), (hinge, SquaredHinge())):
        reference.fit(Z, y)
        problem = Problem(Dense(Z), y, loss, L1(strength), None, False)
        found = CoordinateDescent(tol=1e-12).solve(problem).coef
        np.testing.assert_allclose(found, reference.coef_[0], atol=2e-4)


def test_outputs_are_solved_each_as_if_alone(loss, rng):
    for design in make_designs(rng)[::2]:
        y = targets(loss, 3, rng, N)
        problem = at_strength(Problem(design, y, loss, L1(1.0)), 0.2)
        result = CoordinateDescent(tol=1e-10).solve(problem)
        assert result.coef.shape == problem.shape
        for k in range(3):
            alone = Problem(design, y[:, k], loss, problem.penalty)
            found = CoordinateDescent(tol=1e-10).solve(alone)
            assert alone.value(result.coef[:, k]) <= found.trace[-1].objective * (1 + 1e-9)


@pytest.mark.parametrize("weighted", [False, True])
def test_outputs_with_squared_loss_look_at_the_columns_together(weighted, rng, monkeypatch):
    n, k = 60, 5
    Z, Y = rng.normal(size=(n, 200)), rng.normal(size=(n, k))
    weights = rng.uniform(0.5, 2.0, size=n) if weighted else None
    shapes, rmatvec = [], DenseColumns.rmatvec
    watched = lambda self, v: shapes.append(v.shape) or rmatvec(self, v)  # noqa: E731
    monkeypatch.setattr(DenseColumns, "rmatvec", watched)
    formed, products = [], DenseColumns.mean_products
    counted = lambda self, *ids: formed.append(len(ids)) or products(self, *ids)  # noqa: E731
    monkeypatch.setattr(DenseColumns, "mean_products", counted)
    solver = CoordinateDescent(tol=1e-10)
    joint = solver.solve(Problem(Dense(Z), Y, Squared(), L1(0.05), weights))
    together, n_products = max(len(s) for s in shapes), len(formed)
    assert together == 2
    assert (n, k) in shapes
    formed.clear()
    alone = [solver.solve(Problem(Dense(Z), y, Squared(), L1(0.05), weights)) for y in Y.T]
    np.testing.assert_allclose(joint.coef, np.stack([a.coef for a in alone], axis=1), atol=1e-5)
    assert joint.n_iter <= max(a.n_iter for a in alone) + 1
    assert n_products < len(formed)


def test_weights_count_rows(rng):
    counts = rng.integers(0, 4, size=N)
    rows = np.repeat(np.arange(N), counts)
    for design in make_designs(rng):
        y = rng.normal(size=N)
        weighted = Problem(design, y, Squared(), L1(0.02), counts)
        repeated = Problem(design.rows(rows), y[rows], Squared(), L1(0.02))
        solver = CoordinateDescent(tol=1e-12)
        a, b = solver.solve(weighted), solver.solve(repeated)
        assert repeated.value(a.coef) <= b.trace[-1].objective * (1 + 1e-10)


def test_bins_of_many_rows_are_counted_as_exactly_as_of_few(rng):
    """Beyond a few thousand rows curvatures are averaged over blocks; minima stay what they are."""
    n = 12_000
    codes = rng.integers(5, size=(4, n)).astype(np.uint16)
    design = Binned(codes, np.arange(5) * 5, 0.5)
    signs = np.where(rng.random(n) < 0.2 + 0.6 * (codes[0] > 2), 1.0, -1.0)
    weights = rng.uniform(0.5, 2.0, size=n)
    for loss in LOSSES:
        problem = Problem(design, signs, loss, L1(0.003), weights)
        bins = CoordinateDescent(tol=1e-10, method="newton").solve(problem)
        same = Problem(Sparse(design.tocsr()), signs, loss, L1(0.003), weights)
        lists = CoordinateDescent(tol=1e-10, method="newton").solve(same)
        assert bins.converged
        np.testing.assert_allclose(problem.value(bins.coef), same.value(lists.coef), rtol=1e-9)


def test_float32_designs_give_float32_solutions_as_good(loss, rng):
    exact = make_designs(np.random.default_rng(0))
    single = make_designs(np.random.default_rng(0), dtype=np.float32)
    for a, b in zip(exact, single, strict=True):
        problem = make(loss, a, rng)
        other = Problem(b, problem.y, loss, problem.penalty)
        theta = CoordinateDescent(tol=1e-6).solve(other).coef
        assert theta.dtype == np.float32
        best = CoordinateDescent(tol=1e-9).solve(problem)
        assert problem.value(theta) <= best.trace[-1].objective + 1e-5 * best.trace[0].objective


@pytest.mark.parametrize("order", ["cyclic", "permuted", "random", "greedy-block"])
def test_every_order_ends_at_the_same_minimum(order, rng):
    for loss in (Squared(), Logistic()):
        for design in make_designs(rng):
            problem = make(loss, design, rng)
            best = CoordinateDescent(tol=1e-11).solve(problem).trace[-1].objective
            found = CoordinateDescent(tol=1e-8, method="descent", order=order).solve(problem)
            assert found.converged
            np.testing.assert_allclose(found.trace[-1].objective, best, rtol=1e-7)


def bins_of_blobs(rng, n=1200, n_grids=24, n_bins=30, missing=False):
    """A binned design of smooth inputs, and labels that depend on them."""
    x = rng.normal(size=(n, 2))
    points = x @ rng.normal(size=(2, n_grids)) + rng.random(n_grids)
    codes = np.clip((points * 4 + n_bins / 2).astype(int), 0, n_bins - 1 + missing).T
    y = np.where(np.sin(2 * x[:, 0]) + x[:, 1] ** 2 - 1 + 0.5 * rng.normal(size=n) > 0, 1.0, -1.0)
    offsets = np.arange(n_grids + 1) * n_bins
    return Binned(codes.astype(np.uint8), offsets, n_grids**-0.5, missing=missing), y


def with_kinds_of_steps(problem, solver):
    """The result, and the kind of every step of the first output."""
    kinds = []
    watch = lambda state: kinds.append(type(state.outputs[0].steps).__name__)  # noqa: E731
    return solver.solve(problem, callback=watch), kinds


@pytest.mark.parametrize("fit_intercept", [False, True])
def test_auto_takes_both_kinds_of_steps_on_bins_and_ends_where_each_ends(loss, fit_intercept, rng):
    design, y = bins_of_blobs(rng, missing=True)
    weights = rng.uniform(0.5, 2.0, size=len(y)) if fit_intercept else None
    problem = at_strength(Problem(design, y, loss, L1(1.0), weights, fit_intercept), 5e-3)
    found, kinds = with_kinds_of_steps(problem, CoordinateDescent(tol=1e-8))
    assert found.converged
    assert {"NewtonSteps", "DescentSteps"} <= set(kinds)
    start = problem.value(problem.initial())
    for method in METHODS:
        result = CoordinateDescent(tol=1e-8, method=method).solve(problem)
        assert result.converged
        assert abs(result.trace[-1].objective - found.trace[-1].objective) <= 1e-7 * start


def test_sweeps_that_cost_more_than_newton_steps_hand_over_to_these(rng, monkeypatch):
    design, y = bins_of_blobs(rng)
    problem = at_strength(Problem(design, y, Logistic(), L1(1.0)), 0.01)
    monkeypatch.setattr(descent, "_FEWEST", 0)
    monkeypatch.setattr(solver, "step_work", lambda *arguments: (1.0, 0.5))
    result, kinds = with_kinds_of_steps(problem, CoordinateDescent(tol=1e-8))
    assert result.converged
    assert kinds[0] == "DescentSteps"
    assert set(kinds[1:]) == {"NewtonSteps"}


@pytest.mark.rounding
def test_steps_that_auto_chooses_change_no_bit_with_the_number_of_threads(rng):
    design, y = bins_of_blobs(rng)
    ends = []
    for n_threads in (1, 3):
        design.n_threads = n_threads
        problem = at_strength(Problem(design, y, SquaredHinge(), L1(1.0)), 5e-3)
        ends.append(CoordinateDescent(tol=1e-7).solve(problem).coef)
    np.testing.assert_array_equal(*ends)


@pytest.mark.rounding
@pytest.mark.parametrize("mode", ["auto", "safe", "async"])
def test_threads_change_nothing_but_time(mode, rng):
    for loss in (Squared(), Logistic()):
        for design in make_designs(rng, 6000)[1:]:
            problem = make(loss, design, rng)
            best = CoordinateDescent(tol=1e-10).solve(problem).trace[-1].objective
            for n_jobs in (1, 3):
                solver = CoordinateDescent(1e-7, 100, n_jobs, mode=mode, method="descent")
                found = solver.solve(problem)
                assert found.converged
                np.testing.assert_allclose(found.trace[-1].objective, best, rtol=1e-6)


@pytest.mark.rounding
def test_newton_is_the_same_to_the_last_bit_with_any_number_of_threads(rng):
    codes = rng.integers(9, size=(16, 9000)).astype(np.uint8)
    y = rng.normal(size=9000)
    found = [
        CoordinateDescent(tol=1e-7)
        .solve(Problem(Binned(codes, np.arange(17) * 9, 0.25, n_jobs=jobs), y, Squared(), L1(1e-3)))
        .trace[-1]
        .objective
        for jobs in (1, 3)
    ]
    np.testing.assert_allclose(*found, rtol=1e-12)


def test_sweeps_take_one_thread_unless_more_are_given(rng):
    codes = rng.integers(9, size=(16, 9000)).astype(np.uint8)
    y = rng.normal(size=9000)
    design = Binned(codes, np.arange(17) * 9, 0.25, n_jobs=3)
    found = [
        CoordinateDescent(tol=1e-7, n_jobs=n_jobs, method="descent")
        .solve(Problem(design, y, Squared(), L1(1e-3)))
        .coef
        for n_jobs in (None, 1)
    ]
    np.testing.assert_array_equal(*found)


@pytest.mark.rounding
def test_a_path_is_separate_solves_and_forms_every_gram_entry_once(rng):
    for loss in (Squared(), Logistic()):
        problem = Problem(make_designs(rng)[2], targets(loss, 0, rng, N), loss, L1(1.0))
        alphas = problem.alpha_max() * np.array([1.1, 0.5, 0.2, 0.05])
        solver = CoordinateDescent(tol=1e-12)
        for alpha, result in zip(alphas, path(problem, alphas, solver), strict=True):
            alone = solver.solve(problem.with_penalty(L1(alpha)))
            np.testing.assert_allclose(result.coef, alone.coef, atol=2e-6)
        upwards = solver.solve_path(problem, alphas[::-1])
        np.testing.assert_array_equal(upwards[0].coef, result.coef)


def test_a_start_at_the_solution_needs_no_step(loss, rng):
    problem = make(loss, make_designs(rng)[0], rng)
    first = CoordinateDescent(tol=1e-6).solve(problem)
    assert CoordinateDescent(tol=1e-6).solve(problem, start=first.coef).n_iter == 0


def test_a_cap_warns_and_an_interrupt_leaves_what_was_reached(rng):
    problem = make(Logistic(), make_designs(rng)[2], rng, 0.01)
    with pytest.warns(ConvergenceWarning, match="duality gap"):
        capped = CoordinateDescent(tol=1e-12, max_iter=1).solve(problem)
    assert not capped.converged

    def interrupt(state):
        raise KeyboardInterrupt

    stopped = CoordinateDescent(tol=1e-12).solve(problem, callback=interrupt)
    assert stopped.interrupted
    assert problem.value(stopped.coef) < stopped.trace[0].objective


def test_it_is_what_auto_chooses_for_an_l1_part_and_refuses_what_it_cannot_do(rng):
    design = make_designs(rng)[0]
    y = rng.normal(size=N)
    assert isinstance(solvers.auto(Problem(design, y, Squared(), L1(0.1))), CoordinateDescent)
    assert isinstance(solvers.get("cd", Problem(design, y, Squared(), L2(0.1))), CoordinateDescent)
    lazy = Lazy(np.ones((3, 1)), None, 4)
    with pytest.raises(ValueError, match="holds its columns"):
        CoordinateDescent().solve(Problem(lazy, np.ones(3), Squared(), L1(0.1)))
    joint = Problem(design, np.eye(3)[rng.integers(3, size=N)], Multinomial(), L1(0.1))
    with pytest.raises(ValueError, match="outputs alone"):
        CoordinateDescent().solve(joint)
    for wrong in ({"mode": "fast"}, {"order": "up"}, {"method": "magic"}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            CoordinateDescent(**wrong)


def test_a_ridge_penalty_is_minimised_as_well(rng):
    problem = Problem(make_designs(rng)[0], rng.normal(size=N), Squared(), L2(0.3))
    exact = solvers.Cholesky(tol=1e-12).solve(problem).coef
    np.testing.assert_allclose(CoordinateDescent(tol=1e-13).solve(problem).coef, exact, atol=1e-6)
