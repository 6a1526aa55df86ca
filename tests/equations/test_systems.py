"""Laws of linear equations: dense truth, blocks, moves, several strengths, several workers."""

import numpy as np
import pytest

import mercer.equations
import mercer.equations.kernel
import mercer.equations.normal
from _problems import make as make_problem
from _systems import KINDS, N, P, dense_solution, make
from mercer.equations import (
    KernelEquations,
    NormalEquations,
    NormalMatrix,
    RowMatrix,
    equations,
    equations_of,
    matrix_of,
    spans_all_rows,
)
from mercer.losses import Logistic
from mercer.penalties import L1, RKHSNorm
from mercer.problem import Problem

pytestmark = pytest.mark.rounding

ALPHAS = [0.5, 0.02, 0.1]


@pytest.fixture(params=KINDS)
def kind(request):
    return request.param


@pytest.fixture(params=[False, True], ids=["unweighted", "weighted"])
def weights(request, rng):
    return rng.uniform(0, 3, size=N) * (rng.random(N) < 0.9) if request.param else None


@pytest.fixture(params=[True, False], ids=["intercept", "no intercept"])
def problem(request, kind, weights, rng):
    return make(kind, rng, weights=weights, fit_intercept=request.param, n_outputs=2)


def some(problem, rng, alphas=ALPHAS):
    """Equations at a random point."""
    system = equations(problem, alphas)
    system.start(rng.normal(scale=0.3, size=system.shape))
    return system


def shared_among(n_workers, problem):
    """Equations whose rows are divided among workers."""
    return equations_of(problem, np.asarray(ALPHAS), n_workers)


def dense(system, column):
    """The matrix of a column by products with units."""
    units = np.eye(system.shape[0])
    return system.product(units, np.full(len(units), column))


def test_every_kind_has_its_equations(kind, rng):
    expected = KernelEquations if kind == "exact" else NormalEquations
    assert type(equations(make(kind, rng))) is expected


def test_the_machine_of_all_rows_is_told_by_its_penalty(rng):
    problem = make("exact", rng)
    assert spans_all_rows(problem)
    assert isinstance(matrix_of(problem), RowMatrix)
    restricted = problem.with_penalty(RKHSNorm(0.1, problem.design, jitter=0.1))
    for other in (restricted, make("nystroem", rng)):
        assert not spans_all_rows(other)
        assert isinstance(equations(other), NormalEquations)
        assert isinstance(matrix_of(other), NormalMatrix)


def test_matrices_are_symmetric_and_products_are_those_of_their_columns(problem, rng):
    system = some(problem, rng)
    V = rng.normal(size=system.shape)
    product = system.product(V)
    for column in range(system.shape[1]):
        matrix = dense(system, column)
        np.testing.assert_allclose(matrix, matrix.T, atol=1e-13)
        np.testing.assert_allclose(product[:, column], matrix @ V[:, column], atol=1e-12)


def test_residual_is_what_the_product_leaves_of_the_right_hand_side(problem, rng):
    system = some(problem, rng)
    expected = system.rhs() - system.product(system.x)
    np.testing.assert_allclose(system.residual(system.x), expected, atol=1e-12)
    blocks = [np.arange(0, 6), np.arange(6, problem.design.shape[1])]
    np.testing.assert_allclose(system.current_residual(blocks), expected, atol=1e-12)


@pytest.mark.parametrize("kind", ["features", "nystroem"])
def test_residual_of_normal_equations_is_the_negative_gradient(problem, rng):
    system = some(problem, rng, [problem.penalty.alpha])
    theta = system.theta(system.x)
    np.testing.assert_allclose(system.residual(system.x), -problem.gradient(theta), atol=1e-13)
    relative = system.relative(system.residual(system.x))
    assert relative.max() == pytest.approx(problem.optimality(theta))


def test_solutions_of_the_equations_minimise_the_problem(problem):
    system = equations(problem, ALPHAS)
    rhs = system.rhs()
    x = np.stack(
        [np.linalg.solve(dense(system, c), rhs[:, c]) for c in range(system.shape[1])], axis=1
    )
    system.start(x)
    for index, alpha in enumerate(ALPHAS):
        expected = dense_solution(problem, alpha)
        np.testing.assert_allclose(system.theta(x, index), expected, atol=1e-9)
    assert system.relative(system.residual(x)).max() <= 1e-11


def test_values_are_those_of_the_problem(problem, rng):
    system = some(problem, rng)
    for index, values in enumerate(system.values()):
        at = problem
        at = at.with_penalty(type(at.penalty)(**_fields(at.penalty, ALPHAS[index])))
        theta = system.theta(system.x, index)
        np.testing.assert_allclose(values, at.values(theta), rtol=1e-11)


def _fields(penalty, alpha):
    fields = {"alpha": alpha}
    if penalty.name == "rkhs":
        fields |= {"matrix": penalty.matrix, "jitter": penalty.jitter}
    return fields


def test_blocks_are_rows_and_columns_of_the_equations(problem, rng):
    system = some(problem, rng)
    J = np.array([1, 4, 7, 13])
    block = system.block(J)
    np.testing.assert_array_equal(block.rows[:4], J)
    residual = system.residual(system.x)
    np.testing.assert_allclose(block.rhs, residual[block.rows], atol=1e-12)
    for index, alpha in enumerate(ALPHAS):
        matrix = dense(system, index * system.width)
        truth = matrix[np.ix_(block.rows, block.rows)]
        np.testing.assert_allclose(block.matrix(alpha), truth, atol=1e-12)
    with pytest.raises(ValueError, match="gram=True"):
        system.block(J, gram=False).matrix(0.1)


def test_moves_keep_the_state_that_follows_from_the_unknowns(problem, rng):
    system = some(problem, rng)
    system.journal = {name: np.zeros_like(array) for name, array in system.state.items()}
    before = {name: array.copy() for name, array in system.state.items()}
    for J in (np.array([0, 3, 8]), np.array([2, 3]), np.arange(P)):
        block = system.block(J)
        system.move(block, rng.normal(size=block.rhs.shape))
    moved = {name: array.copy() for name, array in system.state.items()}
    for name, array in moved.items():
        np.testing.assert_allclose(system.journal[name], array - before[name], atol=1e-12)
    system.start(system.x)
    for name, array in system.state.items():
        np.testing.assert_allclose(moved[name], array, atol=1e-11)


def test_a_move_by_the_solution_of_a_block_leaves_nothing_there(problem, rng):
    system = some(problem, rng, [0.1])
    block = system.block(np.array([2, 5, 11]))
    system.move(block, np.linalg.solve(block.matrix(0.1), block.rhs))
    np.testing.assert_allclose(system.residual(system.x)[block.rows], 0, atol=1e-12)


def test_energies_of_changes_follow_from_the_state(problem, rng):
    system = some(problem, rng)
    here = {name: array.copy() for name, array in system.state.items()}
    D = rng.normal(size=(system.shape[0], 2 * system.width))
    changes = {name: [] for name in here}
    for half in np.split(D, 2, axis=1):
        x = here["x"].copy()
        x[:, system.of(1)] += half
        system.start(x)
        for name, array in system.state.items():
            changes[name].append((array - here[name])[:, system.of(1)])
    system.start(here["x"])
    both = {name: np.hstack(c) for name, c in changes.items()}
    gram, slope = system.pairing(both, both, 1), system.slope(both, 1)
    matrix = dense(system, system.width)
    np.testing.assert_allclose(gram, D.T @ matrix @ D, rtol=1e-9, atol=1e-9)
    left = system.residual(system.x)[:, system.of(1)]
    np.testing.assert_allclose(slope, D.T @ left, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("n_workers", [1, 3])
def test_functions_of_a_few_rows_are_directions_of_the_equations(problem, n_workers, rng):
    system = shared_among(n_workers, problem)
    system.start(rng.normal(scale=0.3, size=system.shape))
    here = {name: array.copy() for name, array in system.state.items()}
    functions = system.functions(np.array([3, 9, 14]), None)
    matrix, left = dense(system, system.width), system.residual(system.x)[:, system.of(1)]
    U, D = functions.arrays["x"], rng.normal(size=(system.shape[0], system.width))
    diagonal = functions.energies + functions.norm * ALPHAS[1]
    np.testing.assert_allclose(U.T @ matrix @ U, np.diag(diagonal), atol=1e-11)
    changes = {}
    for what in ("D", "U"):
        x = here["x"].copy()
        x[:, system.of(1)] += D if what == "D" else U @ np.ones((U.shape[1], system.width))
        system.start(x)
        changes[what] = {
            name: (array - here[name])[:, system.of(1)] for name, array in system.state.items()
        }
    system.start(here["x"])
    cross = system.pairing(functions.arrays, changes["D"], 1)
    slope = system.slope(functions.arrays, 1)
    np.testing.assert_allclose(cross, U.T @ matrix @ D, atol=1e-10)
    np.testing.assert_allclose(slope, U.T @ left, atol=1e-10)
    change = system.change_by_functions(functions, np.ones((U.shape[1], system.width)), 1)
    for name, array in change.items():
        np.testing.assert_allclose(array, changes["U"][name], atol=1e-10)


def test_strengths_that_stay_are_not_touched_by_those_that_leave(problem, rng):
    system = some(problem, rng)
    values = system.values()
    thetas = [system.theta(system.x, index) for index in range(3)]
    system.keep(np.array([0, 2]))
    np.testing.assert_array_equal(system.alphas, [0.5, 0.1])
    np.testing.assert_allclose(system.values(), values[[0, 2]], rtol=1e-13)
    np.testing.assert_allclose(system.theta(system.x, 1), thetas[2], rtol=1e-12)


def test_the_start_of_the_problem_has_residual_one(problem):
    system = equations(problem, ALPHAS)
    system.start(system.from_theta(problem.initial()))
    np.testing.assert_allclose(system.relative(system.residual(system.x)), 1, rtol=1e-12)


def test_weights_of_the_problem_come_back(problem, rng):
    system = equations(problem, [0.1])
    theta = rng.normal(size=problem.shape)
    if problem.weights is not None and isinstance(system, KernelEquations):
        theta[:N][problem.weights == 0] = 0  # rows that do not count have none
    x = system.from_theta(theta)
    system.start(x)
    np.testing.assert_allclose(system.theta(x), theta, atol=1e-13)


@pytest.mark.parametrize("n_workers", [2, 3, 8])
def test_workers_that_share_the_rows_make_the_same_equations(problem, n_workers, rng):
    whole, shared = equations(problem, ALPHAS), shared_among(n_workers, problem)
    x = rng.normal(size=whole.shape)
    J = np.array([1, 6, 9, 14])
    blocks = []
    for system in (whole, shared):
        system.start(x)
        block = system.block(J)
        system.move(block, np.ones_like(block.rhs))
        blocks.append(block)
    np.testing.assert_allclose(blocks[1].rhs, blocks[0].rhs, atol=1e-12)
    np.testing.assert_allclose(blocks[1].gram, blocks[0].gram, atol=1e-12)
    np.testing.assert_allclose(shared.values(), whole.values(), rtol=1e-11)
    residuals = [system.residual(system.x) for system in (whole, shared)]
    np.testing.assert_allclose(*residuals, atol=1e-11)


def test_only_quadratic_problems_have_linear_equations(rng):
    for loss, penalty in ((Logistic(), None), (None, L1(0.1))):
        problem = make_problem(loss or make("features", rng).loss, rng)
        problem = problem.with_penalty(penalty or problem.penalty)
        with pytest.raises(ValueError, match="linear equations need a quadratic loss"):
            equations(problem)


@pytest.mark.parametrize("alphas", [[], [-1.0], [np.nan], [[1.0]]], ids=str)
def test_alphas_are_checked(alphas, rng):
    with pytest.raises(ValueError, match="alphas must be a list of finite numbers"):
        equations(make("features", rng), alphas)


def test_constant_targets_are_solved_at_the_start(kind, rng):
    problem = make(kind, rng)
    problem = Problem(problem.design, np.full(N, 0.1), problem.loss, problem.penalty)
    system = equations(problem)
    system.start(system.from_theta(problem.initial()))
    assert system.relative(system.residual(system.x)).max() == 0


@pytest.mark.parametrize(
    "module",
    [mercer.equations, mercer.equations.kernel, mercer.equations.normal],
    ids=lambda module: module.__name__.rsplit(".", 1)[-1],
)
def test_examples(module, check_examples):
    check_examples(module)
