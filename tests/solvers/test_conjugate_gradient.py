"""Laws of conjugate gradients, by columns and by rows."""

import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

import mercer.solvers.base
import mercer.solvers.conjugate_gradient
import mercer.solvers.direct
import mercer.solvers.newton
from _problems import D, N, make, ridge_solution
from mercer.designs import Dense
from mercer.equations import NormalMatrix
from mercer.losses import Squared
from mercer.penalties import L2
from mercer.problem import Problem
from mercer.solvers import ConjugateGradient


@pytest.fixture(params=[False, True], ids=["unweighted", "weighted"])
def weights(request, rng):
    return rng.uniform(0, 3, size=N) if request.param else None


@pytest.fixture(params=[True, False], ids=["intercept", "no intercept"])
def fit_intercept(request):
    return request.param


@pytest.mark.parametrize("space", ["columns", "rows"])
@pytest.mark.parametrize("preconditioner", [None, "auto"])
def test_error_of_cg_in_the_norm_of_the_curvature_never_grows(space, preconditioner, rng):
    problem = make(Squared(), rng, alpha=1e-3)
    truth = ridge_solution(problem)
    hessian = NormalMatrix(problem).matrix(problem.penalty.alpha)
    errors = []

    def record(state):
        error = state.coef - truth
        errors.append(error @ hessian @ error)

    solver = ConjugateGradient(tol=1e-10, space=space, preconditioner=preconditioner)
    solver.solve(problem, callback=record)
    assert len(errors) >= 3
    assert np.all(np.diff(errors) <= 1e-14)


@pytest.mark.parametrize("space", ["columns", "rows"])
def test_cg_ends_within_as_many_steps_as_there_are_variables(space, rng):
    result = ConjugateGradient(tol=1e-9, space=space).solve(make(Squared(), rng, alpha=0.01))
    assert result.n_iter <= D + 2


@pytest.mark.parametrize("space", ["columns", "rows"])
def test_outputs_of_cg_are_solved_as_if_alone(space, rng):
    problem = make(Squared(), rng, 4, alpha=1e-2)
    # One output needs no step at all, one is easy, and two are not.
    y = problem.y.copy()
    y[:, 0] = 2.0
    y[:, 1] = problem.design.array @ np.eye(D)[0]
    problem = Problem(problem.design, y, Squared(), problem.penalty)
    solver = ConjugateGradient(tol=1e-8, space=space, preconditioner=None, check_every=1000)
    together = solver.solve(problem)
    for c in range(4):
        alone = solver.solve(Problem(problem.design, y[:, c], Squared(), problem.penalty))
        np.testing.assert_allclose(together.coef[:, c], alone.coef, atol=1e-7)
    np.testing.assert_array_equal(together.coef[:-1, 0], 0)


@pytest.mark.rounding
def test_rows_and_columns_make_the_same_steps(weights, fit_intercept, rng):
    problem = make(Squared(), rng, 2, alpha=1e-3, weights=weights, fit_intercept=fit_intercept)
    paths = {}
    for space in ("columns", "rows"):
        path = paths[space] = []
        solver = ConjugateGradient(tol=1e-12, max_iter=3, space=space, preconditioner=None)
        with pytest.warns(ConvergenceWarning):
            solver.solve(problem, callback=lambda state, path=path: path.append(state.coef.copy()))
    if not fit_intercept:  # columns treat the intercept as a variable, rows eliminate it
        np.testing.assert_allclose(paths["rows"], paths["columns"], atol=1e-12)
    assert len(paths["rows"]) == len(paths["columns"]) == 3


def hilbert_like(n, d, dtype, rng):
    """A problem whose curvature has condition 1e8 up to the penalty."""
    u, _ = np.linalg.qr(rng.normal(size=(n, d)))
    v, _ = np.linalg.qr(rng.normal(size=(d, d)))
    Z = (u * np.logspace(0, -4, d) * np.sqrt(n)) @ v
    y = Z @ rng.normal(size=d) + 0.1 * rng.normal(size=n)
    return Problem(Dense(Z.astype(dtype)), y, Squared(), L2(1e-9), fit_intercept=False)


@pytest.mark.parametrize("space", ["columns", "rows"])
def test_ill_conditioned_cg_reports_the_true_residual(space, dtype, rng):
    problem = hilbert_like(60, 40, dtype, rng)
    for tol in (1e-3, 1e-12):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            result = ConjugateGradient(tol=tol, max_iter=300, space=space).solve(problem)
        exact = Problem(
            Dense(problem.design.array.astype(np.float64)),
            problem.y,
            Squared(),
            problem.penalty,
            fit_intercept=False,
        )
        true = exact.optimality(result.coef.astype(np.float64))
        assert result.optimality == pytest.approx(true, rel=0.05, abs=1e-7)
        assert result.converged == (result.optimality <= tol)


def test_cg_gives_up_at_the_limit_of_float32_and_says_so(rng):
    problem = hilbert_like(60, 40, np.float32, rng)
    solver = ConjugateGradient(tol=1e-13, max_iter=100_000, space="columns")
    with pytest.warns(ConvergenceWarning, match="stalled at the limit of float32 with relative"):
        result = solver.solve(problem)
    assert result.n_iter < 2000
    assert result.optimality < 1e-3


def test_auto_works_by_rows_where_columns_are_many(rng):
    by_rows = []
    for n_columns in (N, 10 * N):
        problem = Problem(
            Dense(rng.normal(size=(N, n_columns))), rng.normal(size=N), Squared(), L2(0.1)
        )
        for start in (None, np.ones(n_columns + 1)):
            shapes = set()
            ConjugateGradient().solve(
                problem, start, lambda state, shapes=shapes: shapes.add(state.direction.shape)
            )
            by_rows.append((2, N) in shapes)
    assert by_rows == [False, False, True, False]


@pytest.mark.rounding
def test_residuals_are_replaced_by_true_ones_now_and_then(rng):
    problem = hilbert_like(60, 40, np.float64, rng)
    seen = []
    solver = ConjugateGradient(tol=1e-8, check_every=7, space="columns", max_iter=2000)

    def look(state):
        seen.append((state.iteration, state.optimality, problem.optimality(state.coef)))

    solver.solve(problem, callback=look)
    checked = [(told, true) for iteration, told, true in seen if iteration % 7 == 0]
    assert len(checked) > 3
    np.testing.assert_allclose(*zip(*checked, strict=True), rtol=1e-10)


def test_cg_takes_a_preconditioner_of_the_callers(rng):
    problem = make(Squared(), rng, 3, alpha=1e-3)
    inverse = np.linalg.inv(NormalMatrix(problem).matrix(problem.penalty.alpha))
    result = ConjugateGradient(tol=1e-9, preconditioner=lambda r: inverse @ r).solve(problem)
    assert result.n_iter == 1


def test_columns_without_entries_do_not_disturb_the_preconditioner(rng):
    Z = rng.normal(size=(N, 3))
    Z[:, 1] = 0
    problem = Problem(Dense(Z), rng.normal(size=N), Squared(), L2(0.0))
    for kind in ("tempered", "jacobi"):
        result = ConjugateGradient(tol=1e-10, preconditioner=kind, space="columns").solve(problem)
        assert result.converged
        assert result.coef[1] == 0


def test_rows_refuse_a_start_with_weights(rng):
    problem = make(Squared(), rng)
    with pytest.raises(ValueError, match="space must be 'auto' or 'columns' with a start"):
        ConjugateGradient(space="rows").solve(problem, start=np.ones(D + 1))


def test_examples_run(check_examples):
    check_examples(mercer.solvers.conjugate_gradient)
