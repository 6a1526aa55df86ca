"""Laws of block coordinate descent: limits, paths, paper's forms, memory, checkpoints, workers."""

import warnings

import numpy as np
import pytest
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning

import mercer.solvers.block.solver
from _systems import (
    ALPHAS,
    KERNEL,
    KINDS,
    N,
    dense_solution,
    distance,
    epochs,
    exactly,
    make,
    quietly,
)
from mercer.designs import Dense, KernelColumns, Lazy
from mercer.equations import equations
from mercer.equations.parts import RowPart
from mercer.kernels import NGram
from mercer.losses import Logistic, Squared
from mercer.maps import RandomFourier
from mercer.penalties import L2, RKHSNorm
from mercer.problem import Problem
from mercer.solvers import BlockCoordinateDescent, Cholesky, NewtonCG
from mercer.solvers.block.partition import partition, permutation

pytestmark = pytest.mark.rounding


@pytest.fixture(params=KINDS)
def kind(request):
    return request.param


@pytest.fixture(params=[True, False], ids=["accelerated", "plain"])
def accelerated(request):
    return request.param


# -- limits ----------------------------------------------------------------------------------


@pytest.mark.parametrize("n_outputs", [0, 2])
@pytest.mark.parametrize("fit_intercept", [True, False], ids=["intercept", "no intercept"])
@pytest.mark.parametrize("weighted", [False, True], ids=["unweighted", "weighted"])
def test_the_limit_is_the_dense_solution(
    kind, accelerated, weighted, fit_intercept, n_outputs, rng
):
    weights = rng.uniform(0, 3, size=N) * (rng.random(N) < 0.9) if weighted else None
    problem = make(kind, rng, 0.2, weights, fit_intercept, n_outputs)
    result = exactly(10, accelerated=accelerated).solve(problem)
    assert result.converged
    assert distance(problem, result.coef, dense_solution(problem)) <= 1e-7
    assert result.optimality <= 1e-9


def test_one_block_of_everything_is_the_direct_solution(kind, rng):
    problem = make(kind, rng, n_outputs=2)
    result = exactly(block_size=N, tol=1e-9).solve(problem)
    assert result.n_iter == 1
    np.testing.assert_allclose(result.coef, dense_solution(problem), atol=1e-9)


@pytest.mark.parametrize("settings", [{"random_state": 1}, {"shuffle": False}], ids=str)
def test_any_order_of_the_blocks_has_the_same_limit(kind, settings, rng):
    problem = make(kind, rng)
    one, other = exactly().solve(problem), exactly(**settings).solve(problem)
    assert distance(problem, one.coef, other.coef) <= 1e-7
    assert one.trace[1].objective != other.trace[1].objective


def test_weights_are_repeated_rows(kind, rng):
    counts = rng.integers(0, 4, size=N)
    weighted = make(kind, rng, weights=counts)
    rows = np.repeat(np.arange(N), counts)
    design = weighted.design.rows(rows)
    repeated = Problem(design, weighted.y[rows], Squared(), weighted.penalty)
    if kind == "exact":  # coefficients belong to rows: compare what they respond to all of them
        design = KernelColumns(weighted.design._left[rows], KERNEL)
        repeated = Problem(design, weighted.y[rows], Squared(), RKHSNorm(0.02, design))
        ours = exactly().solve(weighted).coef
        theirs = exactly().solve(repeated).coef
        np.testing.assert_allclose(
            weighted.responses(ours)[rows], repeated.responses(theirs), atol=1e-7
        )
        return
    ours, theirs = exactly().solve(weighted).coef, exactly().solve(repeated).coef
    np.testing.assert_allclose(ours, theirs, atol=1e-6)


def test_rows_that_occur_twice_leave_the_kernel_machine_a_solution(rng):
    X = np.repeat(rng.normal(size=(12, 2)), 3, axis=0)
    design = KernelColumns(X, KERNEL)
    problem = Problem(design, rng.normal(size=36), Squared(), RKHSNorm(1e-3, design))
    result = exactly().solve(problem)
    assert result.converged
    assert distance(problem, result.coef, dense_solution(problem)) <= 1e-6


def test_columns_that_occur_twice_have_a_solution_without_a_penalty(rng):
    Z = np.repeat(rng.normal(size=(N, 5)), 2, axis=1)
    problem = Problem(Dense(Z), rng.normal(size=N), Squared(), L2(0.0))
    theta = exactly(block_size=4, tol=1e-9).solve(problem).coef
    np.testing.assert_allclose(problem.gradient(theta), 0, atol=1e-9)


def test_a_warm_start_goes_on_from_there(kind, rng):
    problem = make(kind, rng)
    found = exactly().solve(problem)
    again = exactly(tol=1e-8).solve(problem, start=found.coef)
    assert again.n_iter <= (8 if kind == "exact" else 0)
    assert distance(problem, again.coef, found.coef) <= 1e-6


def test_columns_made_when_asked_for_are_columns(rng):
    X, y = rng.normal(size=(N, 3)), rng.normal(size=N)
    features = RandomFourier(KERNEL, n_components=30, random_state=0).fit(X)
    lazy = Problem(Lazy(X, features, 30), y, Squared(), L2(0.01))
    held = Problem(Dense(features.transform(X)), y, Squared(), L2(0.01))
    solver = exactly(shuffle=False)
    np.testing.assert_allclose(solver.solve(lazy).coef, solver.solve(held).coef, atol=1e-6)


@pytest.mark.parametrize("what", ["texts", "sparse rows"])
def test_texts_and_sparse_rows_have_kernel_machines(what, rng):
    y = rng.normal(size=30)
    if what == "texts":
        words = np.array(["red", "green", "blue", "grey", "pink"])
        X = np.array([" ".join(rng.choice(words, 6)) for _ in y], dtype=object)
        design = KernelColumns(X, NGram(orders=(1, 2)))
    else:
        design = KernelColumns(
            sparse.random_array((30, 8), density=0.4, random_state=rng).tocsr(), KERNEL
        )
    problem = Problem(design, y, Squared(), RKHSNorm(0.1, design))
    result = exactly().solve(problem)
    assert distance(problem, result.coef, dense_solution(problem)) <= 1e-7


def test_float32_reaches_what_its_products_can_tell(kind, rng):
    problem = make(kind, rng, 0.05, dtype=np.float32)
    result = exactly(tol=1e-4).solve(problem)
    assert result.coef.dtype == np.float32
    assert result.converged
    assert distance(problem, result.coef, dense_solution(problem).astype(np.float32)) <= 5e-3


# -- the paper's algorithms ------------------------------------------------------------------


def literal_exact(K, y, alpha, blocks, order, penalty=None):
    """Algorithm 1 of the paper with its corrections, or with another penalty in its blocks."""
    n = len(K)
    a = np.zeros_like(y)
    for J in (blocks[number] for number in order):
        others = np.setdiff1d(np.arange(n), J)
        system = K[np.ix_(J, J)] + (n * alpha if penalty is None else penalty) * np.eye(len(J))
        a[J] = np.linalg.solve(system, y[J] - K[np.ix_(J, others)] @ a[others])
    return a


def literal_normal(Z, P, y, alpha, blocks, order, residual=True):
    """Algorithms 2 and 3: block Gauss-Seidel on the normal equations, or without a residual."""
    n = len(Z)
    w = np.zeros((Z.shape[1], *y.shape[1:]))
    for J in (blocks[number] for number in order):
        others = np.setdiff1d(np.arange(Z.shape[1]), J)
        rhs = Z[:, J].T @ (y - Z[:, others] @ w[others] if residual else y)
        if residual:
            rhs -= n * alpha * P[np.ix_(J, others)] @ w[others]
        w[J] = np.linalg.solve(Z[:, J].T @ Z[:, J] + n * alpha * P[np.ix_(J, J)], rhs)
    return w


def literal(problem, solver, n_epochs, **misprint):
    """The paper's algorithm in the solver's order of blocks."""
    key = mercer.solvers.block.solver.key_from(solver.random_state)
    blocks = partition(problem.design, solver.block_size, key, True)
    order = np.concatenate([permutation(key, epoch, len(blocks)) for epoch in range(n_epochs)])
    Z, alpha = problem.design.toarray(), problem.penalty.alpha
    if problem.penalty.name == "rkhs" and problem.penalty.matrix is problem.design:
        return literal_exact(Z, problem.y, alpha, blocks, order, **misprint)
    P = np.eye(Z.shape[1])
    if problem.penalty.name == "rkhs":
        P = problem.penalty.matrix.toarray() + problem.penalty.jitter * P
    return literal_normal(Z, P, problem.y, alpha, blocks, order, **misprint)


@pytest.mark.parametrize("n_epochs", [1, 3])
def test_the_plain_form_is_the_algorithm_of_the_paper(kind, n_epochs, rng):
    problem = make(kind, rng, fit_intercept=False, n_outputs=2)
    ours = quietly(epochs(n_epochs), problem)
    assert ours.n_iter == n_epochs
    np.testing.assert_allclose(ours.coef, literal(problem, epochs(n_epochs), n_epochs), atol=1e-10)


@pytest.mark.parametrize(
    ("kind", "misprint"),
    [("exact", {"penalty": 0.02}), ("features", {"residual": False})],
    ids=["lambda for n lambda", "no residual"],
)
def test_the_misprinted_forms_have_another_limit(kind, misprint, rng):
    problem = make(kind, rng, 0.02, fit_intercept=False)
    truth = dense_solution(problem)
    right = literal(problem, epochs(1), 150)
    wrong = literal(problem, epochs(1), 150, **misprint)
    assert distance(problem, right, truth) <= 1e-3
    assert distance(problem, wrong, truth) > 1e-2


def test_every_block_lowers_the_objective(kind, accelerated, rng):
    problem = make(kind, rng, 0.02, n_outputs=2)
    values = []

    def energy(state):
        x, rhs = state.system.x, state.system.rhs()
        values.append(0.5 * np.sum(x * state.system.product(x)) - np.sum(rhs * x))

    quietly(epochs(4, trace="block", accelerated=accelerated), problem, callback=energy)
    assert len(values) >= 8
    assert np.max(np.diff(values)) <= 1e-12 * max(map(abs, values))


def test_combined_epochs_need_fewer_of_them(kind, rng):
    problem = make(kind, rng, 5e-3)
    fast, plain = (
        quietly(exactly(tol=1e-5, max_iter=300, accelerated=accelerated), problem).n_iter
        for accelerated in (True, False)
    )
    assert fast <= 0.7 * plain


def test_functions_across_the_blocks_take_what_is_smooth(monkeypatch, rng):
    X = rng.normal(size=(300, 2))
    design = KernelColumns(X, KERNEL)
    problem = Problem(design, np.sin(X).sum(axis=1), Squared(), RKHSNorm(1e-4, design))
    solver = exactly(60, 1e-3)
    few = solver.solve(problem).n_iter
    monkeypatch.setattr(mercer.solvers.block.solver, "_FUNCTIONS", 0)
    assert few <= 0.7 * solver.solve(problem).n_iter


# -- several strengths -----------------------------------------------------------------------


def test_a_path_is_its_strengths_one_by_one(kind, accelerated, rng):
    problem = make(kind, rng, n_outputs=2)
    solver = exactly(tol=1e-4, accelerated=accelerated)
    results = solver.solve_path(problem, ALPHAS)
    for alpha, result in zip(ALPHAS, results, strict=True):
        penalty = L2(alpha)
        if kind != "features":
            penalty = RKHSNorm(alpha, problem.penalty.matrix, problem.penalty.jitter)
        alone = solver.solve(problem.with_penalty(penalty))
        np.testing.assert_allclose(result.coef, alone.coef, rtol=1e-9, atol=1e-10)
        assert result.n_iter == alone.n_iter
        objectives = [[row.objective for row in each.trace] for each in (result, alone)]
        np.testing.assert_allclose(*objectives, rtol=1e-10)
    assert len({result.n_iter for result in results}) > 1


def counting(monkeypatch, name):
    """How often a method of the rows is called."""
    calls = []
    original = getattr(RowPart, name)

    def counted(self, J, *arguments):
        calls.append(J.tobytes())
        return original(self, J, *arguments)

    monkeypatch.setattr(RowPart, name, counted)
    return calls


def test_a_path_makes_the_gram_matrix_of_a_block_once(monkeypatch, rng):
    calls = counting(monkeypatch, "gram")
    problem = make("features", rng)
    exactly(tol=1e-6).solve_path(problem, ALPHAS)
    assert len(calls) == len(set(calls)) == 2


def test_without_memory_gram_matrices_are_made_anew(monkeypatch, rng):
    calls = counting(monkeypatch, "gram")
    result = quietly(epochs(3, hold=0), make("features", rng))
    assert len(calls) == 2 * result.n_iter


@pytest.mark.parametrize("room", [0, 4000, 30_000], ids="{} bytes".format)
def test_what_is_kept_changes_no_result(kind, room, rng):
    problem = make(kind, rng, n_outputs=2)
    solvers = (epochs(5, hold=room, accelerated=True), epochs(5, accelerated=True))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        bounded, free = (solver.solve_path(problem, ALPHAS) for solver in solvers)
    for one, other in zip(bounded, free, strict=True):
        np.testing.assert_allclose(one.coef, other.coef, rtol=1e-9, atol=1e-11)


def generating(monkeypatch, problem):
    """Entries of the design that are generated, call by call."""
    sizes = []
    original = type(problem.design).block

    def counted(self, J):
        block = original(self, J)
        sizes.append(block.size)
        return block

    monkeypatch.setattr(type(problem.design), "block", counted)
    return sizes


@pytest.mark.parametrize("trace", ["epoch", "block"])
def test_kept_kernels_are_generated_once_or_half(trace, monkeypatch, rng):
    problem = make("exact", rng)
    sizes = generating(monkeypatch, problem)
    kept = quietly(epochs(4, trace=trace), problem)
    assert sum(sizes) <= (N**2 if trace == "block" else 0.6 * N**2)
    sizes.clear()
    made = quietly(epochs(4, hold=0), problem)
    assert sum(sizes) == 4 * N**2
    np.testing.assert_allclose(kept.coef, made.coef, atol=1e-12)


def test_what_does_not_fit_is_generated_again(monkeypatch, rng):
    problem = make("exact", rng)
    sizes = generating(monkeypatch, problem)
    quietly(epochs(4, hold=14_000), problem)  # three of six blocks besides factors
    assert N**2 < sum(sizes) < 4 * N**2


@pytest.mark.parametrize("solver", [NewtonCG(tol=1e-10), Cholesky(tol=1e-9)], ids=repr)
def test_other_solvers_have_paths_too(solver, rng):
    problem = make("features", rng)
    results = solver.solve_path(problem, ALPHAS)
    for one, other in zip(results, exactly().solve_path(problem, ALPHAS), strict=True):
        np.testing.assert_allclose(one.coef, other.coef, atol=1e-7)


def test_an_interrupted_path_has_a_model_for_every_strength(rng):
    problem = make("features", rng)
    results = NewtonCG(tol=1e-9).solve_path(problem, ALPHAS, callback=interrupting_at_once)
    assert all(result.interrupted for result in results)
    np.testing.assert_array_equal(results[1].coef, results[0].coef)


def interrupting_at_once(state):
    raise KeyboardInterrupt


def test_an_empty_path_has_no_results(rng):
    with pytest.raises(ValueError, match="alphas must be a list of finite numbers"):
        exactly().solve_path(make("features", rng), [])


# -- trace -----------------------------------------------------------------------------------


def test_the_trace_has_a_row_for_every_block_when_asked(kind, rng):
    problem = make(kind, rng)
    n_blocks = -(-problem.design.shape[1] // 8)
    result = quietly(epochs(3, trace="block"), problem)
    assert len(result.trace) == 1 + 3 * n_blocks
    assert {"generate", "gram", "reduce", "solve", "update"} <= set(result.trace[-1].phases)
    assert len(quietly(epochs(3), problem).trace) == 4
    assert result.trace[-1].objective == pytest.approx(problem.value(result.coef), rel=1e-10)


def test_what_stops_the_solver_is_the_residual(kind, rng):
    problem = make(kind, rng)
    result = exactly(tol=1e-3).solve(problem)
    system = equations(problem)
    system.start(system.from_theta(result.coef))
    assert result.criterion == "residual"
    if kind != "exact":
        assert result.optimality == pytest.approx(problem.optimality(result.coef), rel=1e-6)
    assert 0 < result.optimality <= 1e-3


def test_it_warns_short_of_its_goal(rng):
    with pytest.warns(ConvergenceWarning, match="stopped at max_iter=2 with relative residual"):
        result = epochs(2, tol=1e-9).solve(make("nystroem", rng))
    assert result.optimality > 1e-9


# -- settings --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "settings",
    [{"block_size": 0}, {"trace": "row"}, {"hold": -1}, {"hold": "all"}, {"checkpoint_every": 0}],
    ids=str,
)
def test_settings_are_checked(settings):
    with pytest.raises(ValueError, match=f"{next(iter(settings))} must be"):
        BlockCoordinateDescent(**settings)


def test_it_needs_linear_equations(rng):
    problem = make("features", rng)
    labels = np.where(problem.y > 1, 1.0, -1.0)
    with pytest.raises(ValueError, match="needs a linear system; got loss 'logistic'"):
        exactly().solve(Problem(problem.design, labels, Logistic(), L2(0.1)))


def test_no_columns_are_the_best_constant(rng):
    problem = Problem(Dense(np.zeros((9, 0))), rng.normal(size=9), Squared(), L2(0.1))
    assert exactly().solve(problem).coef == pytest.approx(problem.initial())


def test_examples(check_examples):
    check_examples(mercer.solvers.block.solver)
