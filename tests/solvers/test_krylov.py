"""Laws of preconditioned conjugate gradients for kernel machines."""

import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
from scipy import linalg
from scipy.linalg import lapack
from sklearn.exceptions import ConvergenceWarning

from _covering import pairwise
from _machines import KERNEL, exact, restricted
from _problems import make
from mercer import config_context
from mercer.designs import Dense, FixedPointKernel, KernelColumns, KernelMatrix
from mercer.designs.kernel_rows import times
from mercer.equations import equations
from mercer.equations.pivoted import pivoted_lower
from mercer.kernels import Gaussian, Laplacian, Linear, NGram
from mercer.losses import Squared
from mercer.penalties import RKHSNorm
from mercer.problem import Problem
from mercer.solvers import BlockCoordinateDescent, Cholesky, ConjugateGradient, krylov
from mercer.solvers.leaf_blocks import LeafBlocks, in_leaves, suits_leaves
from mercer.solvers.low_rank import LowRank, pivots_of, rank_for
from mercer.solvers.preconditioners import Restricted, _factor_in_single, _told_apart

pytestmark = pytest.mark.rounding


@pytest.fixture(params=[False, True], ids=["unweighted", "weighted"])
def weights(request, rng):
    weights = rng.uniform(0, 3, size=40)
    weights[5] = 0.0
    return weights if request.param else None


@pytest.fixture(params=[True, False], ids=["intercept", "no intercept"])
def fit_intercept(request):
    return request.param


@pytest.mark.parametrize("n_outputs", [0, 3])
@pytest.mark.parametrize("machine", [exact, restricted])
@pytest.mark.parametrize("preconditioner", ["auto", None])
def test_cg_finds_the_direct_solution(
    preconditioner, machine, n_outputs, weights, fit_intercept, rng
):
    problem = machine(rng, n_outputs=n_outputs, weights=weights, fit_intercept=fit_intercept)
    solver = ConjugateGradient(tol=1e-11, preconditioner=preconditioner, rank=10)
    result = solver.solve(problem)
    assert result.converged
    assert result.criterion == "residual"
    direct = problem.responses(Cholesky(tol=1e-6).solve(problem).coef)
    np.testing.assert_allclose(problem.responses(result.coef), direct, atol=1e-7)


@pytest.mark.parametrize("hold", [True, False])
@pytest.mark.parametrize("machine", [exact, restricted])
def test_a_path_is_the_separate_solutions(machine, hold, rng):
    problem = machine(rng, n_outputs=2)
    alphas = [1e-3, 1e-1, 1e-2]
    solver = ConjugateGradient(tol=1e-11, hold=hold, rank=10)
    for alpha, result in zip(alphas, solver.solve_path(problem, alphas), strict=True):
        alone = problem.with_penalty(replace(problem.penalty, alpha=alpha))
        np.testing.assert_allclose(
            alone.responses(result.coef), alone.responses(solver.solve(alone).coef), atol=1e-8
        )


def test_strengths_of_all_rows_share_products(monkeypatch, rng):
    problem = exact(rng)
    widths = []
    matvec = KernelColumns.matvec

    def counted(design, w):
        widths.append(w.shape[1])
        return matvec(design, w)

    monkeypatch.setattr(KernelColumns, "matvec", counted)
    alphas = [1e-1, 1e-2, 1e-3]
    solver = ConjugateGradient(tol=1e-8, hold=False, preconditioner=None)
    results = solver.solve_path(problem, alphas)
    assert max(widths) == 2 * len(alphas)  # a column for the intercept beside each
    assert len(widths) < sum(result.n_iter for result in results)
    assert results[0].n_iter < results[2].n_iter


def test_the_objective_falls_to_that_of_the_direct_solution(rng):
    for problem in (exact(rng, alpha=1e-3), restricted(rng, alpha=1e-3)):
        result = ConjugateGradient(tol=1e-10, preconditioner=None).solve(problem)
        direct = Cholesky(tol=1e-6).solve(problem).coef
        assert result.trace[0].objective > result.trace[-1].objective
        np.testing.assert_allclose(result.trace[-1].objective, problem.value(direct), rtol=1e-8)
        np.testing.assert_allclose(result.trace[-1].objective, problem.value(result.coef))


def test_optimality_is_the_true_residual(rng):
    problem = exact(rng, alpha=1e-4)
    for tol in (1e-2, 1e-4):
        result = ConjugateGradient(tol=tol, preconditioner=None).solve(problem)
        system = equations(problem)
        x = system.from_theta(result.coef)
        residual = problem.y - problem.responses(result.coef) - 40 * 1e-4 * result.coef[:-1]
        reference = np.linalg.norm(problem.y - problem.y.mean())
        assert result.optimality <= tol
        np.testing.assert_allclose(
            result.optimality, np.linalg.norm(residual) / reference, rtol=0.5
        )
        assert x.shape == system.shape


def test_preconditioners_save_iterations(rng):
    for problem in (exact(rng, 200, alpha=1e-5), restricted(rng, 400, 60, alpha=1e-5)):
        counts = []
        for kind in ("auto", None):
            solver = ConjugateGradient(tol=1e-8, preconditioner=kind, rank=50, max_iter=5000)
            counts.append(solver.solve(problem).n_iter)
        assert 2 * counts[0] < counts[1]


def test_a_full_rank_needs_no_second_look(rng):
    problem = exact(rng, alpha=1e-9, fit_intercept=False)
    result = ConjugateGradient(tol=1e-8, rank=40).solve(problem)
    assert result.n_iter <= 2


def test_float32_kernels_reach_what_their_entries_allow(rng):
    problem = exact(rng, alpha=1e-3, dtype=np.float32)
    result = ConjugateGradient(tol=1e-5).solve(problem)
    assert result.converged
    assert result.coef.dtype == np.float32


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("shape", [(300, 5100), (5100, 3), (4, 0)], ids=str)
def test_products_of_float32_matrices_with_float64_vectors_lose_nothing(order, shape, rng):
    matrix = np.asarray(rng.normal(size=shape), dtype=np.float32, order=order)
    for columns in ((), (1,), (3,)):
        vector = rng.normal(size=(shape[1], *columns))
        expected = matrix.astype(np.float64) @ vector
        np.testing.assert_allclose(times(matrix, vector), expected, rtol=1e-12, atol=1e-11)


def test_float32_kernels_lose_nothing_but_what_their_entries_have_lost(rng):
    # Sums in float32 would end near 1e-4.
    result = ConjugateGradient(tol=1e-8).solve(exact(rng, 200, alpha=1e-5, dtype=np.float32))
    assert result.converged


def test_a_goal_beyond_rounding_is_given_up_with_a_warning(rng):
    problem = exact(rng, alpha=1e-6, dtype=np.float32)
    with pytest.warns(ConvergenceWarning, match="stalled at the limit of float32 with relative"):
        result = ConjugateGradient(tol=1e-15, preconditioner=None, max_iter=3000).solve(problem)
    assert not result.converged


def test_an_interrupt_leaves_the_model_reached(rng):
    def interrupt(state):
        if state.iteration == 3:
            raise KeyboardInterrupt

    problem = exact(rng, alpha=1e-5)
    result = ConjugateGradient(tol=1e-10, preconditioner=None).solve(problem, None, interrupt)
    assert result.interrupted
    assert result.n_iter == 3
    assert problem.value(result.coef) < problem.value(problem.initial())


def test_a_start_is_made_use_of(rng):
    problem = exact(rng)
    solver = ConjugateGradient(tol=1e-6, preconditioner=None)
    found = solver.solve(problem)
    assert solver.solve(problem, start=found.coef).n_iter <= 1


def test_preconditioners_of_other_problems_are_refused(rng):
    wrong = {
        "falkon": (exact(rng), "'rpcholesky' for this problem; got 'falkon'"),
        "rpcholesky": (restricted(rng), "'falkon' for this problem; got 'rpcholesky'"),
        "jacobi": (exact(rng), "'rpcholesky' for this problem; got 'jacobi'"),
    }
    for kind, (problem, message) in wrong.items():
        with pytest.raises(ValueError, match=message):
            ConjugateGradient(preconditioner=kind).solve(problem)
    with pytest.raises(ValueError, match="'tempered' or 'jacobi' for this problem; got 'falkon'"):
        ConjugateGradient(preconditioner="falkon").solve(make(Squared(), rng))


def test_a_callable_preconditions_every_strength(rng):
    problem = exact(rng, alpha=1e-3)
    seen = []

    def inverse(residual, strengths):
        seen.append((residual.shape, strengths.tolist()))
        return residual / strengths

    ConjugateGradient(tol=1e-6, preconditioner=inverse).solve_path(problem, [1e-1, 1e-2])
    assert seen[0] == ((40, 4), [1e-1, 1e-1, 1e-2, 1e-2])


# -- preconditioners -------------------------------------------------------------------------


def test_a_low_rank_inverse_is_the_inverse(rng):
    factor = rng.normal(size=(5, 20))
    v, shifts = rng.normal(size=(20, 3)), np.array([0.1, 1.0, 10.0])
    inverse = LowRank(factor)(v, shifts)
    for c, shift in enumerate(shifts):
        expected = np.linalg.solve(factor.T @ factor + shift * np.eye(20), v[:, c])
        np.testing.assert_allclose(inverse[:, c], expected, atol=1e-12)


def test_pivots_of_the_whole_rank_give_the_kernel_back(rng):
    K = KernelColumns(rng.normal(size=(30, 3)), KERNEL)
    root = rng.uniform(0.5, 2, size=30)
    v = rng.normal(size=(30, 2))
    inverse = LowRank(pivots_of(K, 30, 0, root))(v, np.full(2, 0.1))
    expected = np.linalg.solve(K.toarray() * root * root[:, None] + 0.1 * np.eye(30), v)
    np.testing.assert_allclose(inverse, expected, atol=1e-8)


@pytest.mark.parametrize("sizes", [(30,), (11, 8, 11), (1, 28, 1), (0, 14, 0, 16)])
def test_leaves_are_exact_inside_and_of_low_rank_beyond(sizes, rng):
    design = KernelColumns(rng.normal(size=(30, 3)), KERNEL)
    K, factor = design.toarray(), pivots_of(design, 6, 0)
    leaf_of = rng.permutation(np.repeat(np.arange(len(sizes)), sizes))
    far = factor.T @ factor
    matrix = np.where(leaf_of == leaf_of[:, None], K, far) + 0.5 * np.eye(30)
    v = rng.normal(size=(30, 2))
    inverse = LeafBlocks(factor, leaf_of, lambda rows: K[np.ix_(rows, rows)], 0.5, 2)
    np.testing.assert_allclose(inverse(v), np.linalg.solve(matrix, v), atol=2e-5)


def test_an_inverse_by_leaves_is_symmetric_and_positive(rng):
    design = KernelColumns(rng.normal(size=(700, 4)).astype(np.float32), Laplacian(0.5))
    factor = pivots_of(design, 40, 0, None, 1e-3)
    inverse = in_leaves(design, factor, 0, None, 1e-3)(np.eye(700))
    np.testing.assert_allclose(inverse, inverse.T, atol=1e-9 * inverse.max())
    assert np.linalg.eigvalsh(inverse).min() > 0


def test_leaves_that_float32_cannot_invert_are_refused():
    same = np.ones((2, 2))
    with pytest.raises(np.linalg.LinAlgError, match="float32"):
        LeafBlocks(np.ones((1, 2)), np.zeros(2, dtype=int), lambda rows: same, 0.0)


@pytest.mark.parametrize("strengths", [1, 2])
@pytest.mark.parametrize(
    ("shift", "suits"), [(1e-9, False), (1e-3, True), (0.04, True), (0.1, False)]
)
def test_leaves_serve_one_small_strength(strengths, shift, suits, rng):
    design = KernelColumns(rng.normal(size=(40, 3)).astype(np.float32), KERNEL)
    alphas, factor = [shift / 40] * strengths, np.zeros((1, 40), np.float32)
    assert suits_leaves(design, factor, None, alphas) is (suits and strengths == 1)
    roots = np.full(40, 10.0)
    larger = [100 * alpha for alpha in alphas]
    assert suits_leaves(design, factor, roots, larger) is (suits and strengths == 1)


def test_texts_have_no_leaves():
    texts = np.array(["one two", "two three", "one three four"], dtype=object)
    design = KernelColumns(texts, NGram() * NGram(), dtype=np.float64)
    problem = Problem(design, np.arange(3.0), Squared(), RKHSNorm(0.01, design))
    assert ConjugateGradient(1e-8).solve(problem).converged
    with pytest.raises(ValueError, match="must not be 'leaves' for texts"):
        ConjugateGradient(preconditioner="leaves").solve(problem)


def rough_machine(rng, weights=None, alpha=1e-5, n_outputs=0, n=2500):
    X = rng.normal(size=(n, 6)).astype(np.float32)
    Y = np.sin(X @ rng.normal(size=(6, max(1, n_outputs)))) + 0.1 * rng.normal(size=(n, 1))
    y = (Y if n_outputs else Y[:, 0]).astype(np.float32)
    design = KernelColumns(X, Laplacian(0.3))
    return Problem(design, y, Squared(), RKHSNorm(alpha, design), weights)


@pytest.mark.parametrize(
    ("weighted", "preconditioner", "n_outputs"),
    pairwise([False, True], ["leaves", "rpcholesky"], [0, 4]),
)
def test_a_rounded_matrix_leads_to_the_true_solution(weighted, preconditioner, n_outputs, rng):
    weights = rng.uniform(0, 3, size=2500) if weighted else None
    problem = rough_machine(rng, weights, n_outputs=n_outputs)
    assert krylov.is_rough_enough(problem, 2e-3, 1e-5)
    result = ConjugateGradient(2e-3, preconditioner=preconditioner, rank=60).solve(problem)
    assert result.converged
    exact_solver = ConjugateGradient(2e-3, preconditioner=preconditioner, rank=60, hold=False)
    expected = problem.responses(exact_solver.solve(problem).coef)
    scale = np.std(expected)
    assert np.abs(problem.responses(result.coef) - expected).max() < 0.02 * scale
    wide = problem.responses(Cholesky().solve(problem).coef)
    assert np.sqrt(np.mean((problem.responses(result.coef) - wide) ** 2)) < 4e-3 * scale


@pytest.mark.parametrize("n_outputs", [0, 3])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("factor", [1.0, 1.02], ids=["right", "spoilt"])
def test_a_sample_of_rows_tells_the_true_residual(factor, weighted, n_outputs, monkeypatch, rng):
    n, tol = 4200, 1e-2
    weights = rng.uniform(0.5, 3, size=n) if weighted else None
    problem = rough_machine(rng, weights, n_outputs=n_outputs, n=n)
    looks, look, product = [], krylov.MachineSpace.look, FixedPointKernel._product

    def counted(self, x):
        looks.append(1)
        return look(self, x)

    def spoilt(self, vector, *rows):
        of_matrix = product(self, vector, *rows)
        return of_matrix * np.float32(factor) if vector.dtype == np.float32 else of_matrix

    monkeypatch.setattr(krylov.MachineSpace, "look", counted)
    monkeypatch.setattr(FixedPointKernel, "_product", spoilt)
    result = ConjugateGradient(tol, rank=60).solve(problem)
    assert result.converged
    assert (len(looks) == 1) == (factor == 1.0)  # at the start, where there is nothing to make
    system = equations(problem)
    x = system.from_theta(result.coef)
    true = system.relative(system.residual(x), x).max()
    assert true <= 1.05 * tol
    # The sample's miss is added to the recurrence's residual where it is below this share of tol.
    assert factor > 1 or true == pytest.approx(result.optimality, abs=krylov._NEAR * tol)


def test_a_matrix_is_rounded_where_the_tolerance_and_the_strength_allow_it(rng):
    problem = rough_machine(rng)
    assert krylov.is_rough_enough(problem, 1e-2, 1e-5)
    assert not krylov.is_rough_enough(problem, 1e-4, 1e-5)
    assert not krylov.is_rough_enough(problem, 1e-2, 1e-8)
    rough = krylov.with_cached_kernel(problem, "auto", True)
    assert isinstance(rough.design, FixedPointKernel)
    assert rough.penalty.matrix is rough.design
    assert isinstance(krylov.with_cached_kernel(problem, True, True).design, KernelMatrix)
    assert krylov.with_cached_kernel(problem, False, True) is problem


def test_a_rounded_matrix_is_true_to_float64(rng):
    design = rough_machine(rng).design
    held, v = FixedPointKernel(design), rng.normal(size=(2500, 2))
    np.testing.assert_array_equal(held.matvec(v), design.matvec(v))
    rough, exact_ = held.matvec(v.astype(np.float32)), design.matvec(v)
    assert rough.dtype == np.float32
    bound = FixedPointKernel.rounding(2500) * np.linalg.norm(v, axis=0) + 1e-2
    assert np.all(np.linalg.norm(rough - exact_, axis=0) < 2 * bound)
    assert not np.array_equal(rough, exact_)


def test_designs_without_a_rounded_matrix_are_refused(rng):
    X = rng.normal(size=(20, 2))
    for design in (
        KernelColumns(X, KERNEL).held(),
        KernelColumns(X.astype(np.float32), KERNEL, X[:5].astype(np.float32)),
        KernelColumns(X.astype(np.float32), Linear()),
    ):
        assert not FixedPointKernel.fits(design)
        with pytest.raises(ValueError, match="design must be symmetric and of a kernel"):
            FixedPointKernel(design)


def test_a_rounded_matrix_that_memory_has_no_room_for_is_refused(rng):
    design = rough_machine(rng).design
    with config_context(max_memory="1MB"):
        assert not FixedPointKernel.fits(design)
        with pytest.raises(MemoryError, match="half the kernel matrix of 2500 rows needs"):
            FixedPointKernel(design)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])  # of the columns of all rows
@pytest.mark.parametrize("intercept", [True, False], ids=["intercept", "no intercept"])
def test_the_preconditioner_of_landmarks_is_their_own_equations(intercept, dtype, rng):
    L = 2 * rng.normal(size=(12, 3))
    design = KernelColumns(L, KERNEL)
    twin = Problem(
        KernelColumns(L, KERNEL, landmarks=L),
        np.zeros(12),
        Squared(),
        RKHSNorm(0.1, design),
        fit_intercept=intercept,
    )
    v = rng.normal(size=(12 + intercept, 2))
    inverse = Restricted(design, 0.0, intercept, dtype)(v, np.full(2, 0.1))
    np.testing.assert_allclose(equations(twin).product(inverse[:, :1]), v[:, :1], atol=1e-8)


def smooth(rng, dtype, gamma=0.1):
    """Landmarks whose columns are all but dependent, more than float32 can tell apart."""
    X = rng.normal(size=(900, 2)).astype(np.float32)
    y = np.sin(X[:, 0]) + rng.normal(size=900)
    design = KernelColumns(X, Gaussian(gamma), landmarks=X[:400], dtype=dtype)
    norm = RKHSNorm(1e-6, design.landmark_design())
    return Problem(design, y.astype(dtype), Squared(), norm)


@pytest.mark.parametrize("gamma", [0.1, 5.0])  # few of the landmarks are told apart, or most
def test_landmarks_that_cannot_be_told_apart_keep_no_third_factor(gamma, rng):
    problem = smooth(rng, np.float32, gamma)
    matrix = problem.penalty.matrix
    few, rows, triangle = _told_apart(matrix)
    r, p = rows.shape
    assert r < p
    assert (2 * r > p) == (gamma == 5.0)
    order = np.append(few, np.setdiff1d(np.arange(p), few))
    M = matrix.toarray().astype(np.float64)[np.ix_(order, order)]
    np.testing.assert_allclose((rows.T @ rows)[:r, :r], M[:r, :r], atol=1e-6)
    np.testing.assert_array_equal(np.tril(rows, -1), 0.0)
    assert np.shares_memory(rows, triangle)
    v = rng.normal(size=(p, 2))
    inverse = Restricted(matrix, 0.0, False, np.float32)(v, np.array([0.1, 0.2]))
    for column, alpha in enumerate((0.1, 0.2)):
        F = rows[:, :r]
        A = F.T @ (rows @ rows.T / p + alpha * np.eye(r)) @ F
        np.testing.assert_allclose(A @ inverse[few, column], v[few, column], atol=1e-3)
        assert not inverse[order[r:], column].any()


def test_landmarks_that_occur_twice_count_once(rng):
    L = np.repeat(rng.normal(size=(400, 3)), 2, axis=0)[rng.permutation(800)]
    matrix = KernelColumns(L, Gaussian(1.0))
    least = 1e-6
    order, lower = pivoted_lower(matrix, least)
    r = lower.shape[1]
    M = matrix.toarray()[np.ix_(order, order)]
    left = M - lower @ lower.T
    assert r <= 400
    assert len(np.unique(L[order[:r]], axis=0)) == r
    np.testing.assert_array_equal(np.sort(order), np.arange(800))
    np.testing.assert_allclose(left[:r], 0.0, atol=1e-13)
    assert left.diagonal().max() <= least + 1e-13
    assert np.square(lower[:r].diagonal()).min() > least
    np.testing.assert_array_equal(np.triu(lower, 1), 0.0)
    # As LAPACK's, whose pivots are the largest one by one.
    expected = lapack.dpstrf(matrix.toarray(), tol=least, lower=1)[2]
    assert abs(r - expected) <= 0.02 * expected


def test_a_matrix_of_full_rank_is_factorised_whole(rng):
    A = rng.normal(size=(700, 700))
    M = A @ A.T + np.eye(700)
    order, lower = pivoted_lower(Dense(M), 0.0)
    assert lower.shape == (700, 700)
    np.testing.assert_allclose(lower @ lower.T, M[np.ix_(order, order)], atol=1e-9)


def test_nothing_of_a_matrix_of_zeros_is_factorised():
    assert pivoted_lower(Dense(np.zeros((3, 3))), 0.0)[1].shape == (3, 0)


@pytest.mark.parametrize("scale", [1.0, 1e-60])
@pytest.mark.parametrize("alpha", [1e-2, 1e-6, 1e-10])
def test_a_factor_in_single_precision_is_nearly_that_in_double(alpha, scale, rng):
    matrix = KernelColumns(rng.normal(size=(500, 3)), Gaussian(0.5))
    T = pivoted_lower(matrix, 1e-7)[1].T * np.sqrt(scale)
    A = T @ T.T / T.shape[1] + alpha * scale * np.eye(len(T))
    lower = np.empty(A.shape)
    assert _factor_in_single(T, alpha * scale, lower)
    np.testing.assert_array_equal(np.triu(lower, 1), 0.0)
    root = np.sqrt(A.diagonal())
    np.testing.assert_allclose(
        lower @ lower.T / root / root[:, None], A / root / root[:, None], atol=1e-5
    )
    X = linalg.solve_triangular(lower, A, lower=True)
    preconditioned = linalg.solve_triangular(lower, X.T, lower=True)
    assert np.linalg.cond(preconditioned) < 2.0


def test_landmarks_whose_factor_float32_cannot_make_have_one_in_float64():
    T = np.triu(np.ones((3, 3)))  # with rows of zeros, and no alpha
    T[2] = 0.0
    assert not _factor_in_single(T, 0.0, np.empty((3, 3)))


def test_landmarks_take_the_memory_of_two_factors_and_a_few_strips():
    p = 1500
    matrix = KernelColumns(np.linspace(0, p / 3, p)[:, None], Gaussian(1.0)).held()
    tracemalloc.start()
    try:
        Restricted(matrix, 0.0, False, np.float32)(np.ones((p, 1)), np.array([1e-3]))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 22 * p**2


def test_the_norm_of_float32_columns_is_a_norm(rng):
    assert np.linalg.eigvalsh(smooth(rng, np.float32).penalty.matrix.toarray()).min() > -1e-12


@pytest.mark.parametrize("solver", [Cholesky(0.1), BlockCoordinateDescent(1e-3, 100)])
def test_smooth_kernels_of_landmarks_in_float32_are_solved(solver, rng):
    seed = int(rng.integers(1000))
    problem, wide = (smooth(np.random.default_rng(seed), t) for t in (np.float32, np.float64))
    least = wide.value(Cholesky().solve(wide).coef)
    assert problem.value(solver.solve(problem).coef) < 1.001 * least


@pytest.mark.rounding
@pytest.mark.parametrize("gamma", [0.1, 0.3, 1.0, 3.0])
def test_landmarks_that_float32_cannot_tell_apart_are_solved_for_by_few_iterations(gamma):
    problem, wide = (smooth(np.random.default_rng(100), t, gamma) for t in (np.float32, np.float64))
    least = wide.value(Cholesky().solve(wide).coef)
    result = ConjugateGradient(tol=1e-3).solve(problem)
    assert result.converged
    assert result.n_iter <= 100
    assert problem.value(result.coef) < 1.02 * least


@pytest.mark.parametrize(
    ("hold", "dtype", "n_inputs", "n_outputs", "kept"),
    [
        ("auto", np.float32, 8, 1, False),
        ("auto", np.float32, 40, 1, True),
        ("auto", np.float32, 8, 40, True),
        ("auto", np.float64, 8, 1, True),
        (True, np.float32, 8, 1, True),
        (False, np.float32, 40, 1, False),
    ],
)
def test_matrices_are_held_where_that_pays(hold, dtype, n_inputs, n_outputs, kept, rng):
    design = KernelColumns(rng.normal(size=(30, n_inputs)).astype(dtype), Gaussian(0.1))
    y = rng.normal(size=(30, n_outputs)).astype(dtype)
    problem = Problem(design, y, Squared(), RKHSNorm(0.1, design))
    assert isinstance(krylov.with_cached_kernel(problem, hold).design, KernelMatrix) is kept
    assert ConjugateGradient(hold=hold).solve(problem).converged


def test_hold_is_yes_no_or_auto():
    with pytest.raises(TypeError, match=r"hold must be True, False or 'auto'; got 'always'"):
        ConjugateGradient(hold="always")


def test_ranks_grow_with_the_root_of_the_rows_and_obey_the_memory(monkeypatch):
    assert rank_for(4) == 4
    assert rank_for(10_000) == 1000
    monkeypatch.setattr("mercer.solvers.low_rank.available_memory", lambda: 12.0 * 10_000 * 100)
    assert rank_for(10_000) == 20


def test_a_preconditioner_that_does_not_fit_is_refused(monkeypatch, rng):
    problem = exact(rng)
    monkeypatch.setattr("mercer._runtime.arrays.available_memory", lambda: 10)
    with pytest.raises(MemoryError, match=r"a preconditioner of rank 7 for 40 rows needs"):
        ConjugateGradient(rank=7, hold=False).solve(problem)
