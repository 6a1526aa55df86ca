"""Laws of Newton's method for kernel machines in the coefficients of the rows."""

import numpy as np
import pytest

from _problems import targets
from mercer import KernelClassifier, LocalKernelClassifier, losses
from mercer.designs import Dense, FixedPointKernel, KernelColumns
from mercer.kernels import Gaussian, Linear
from mercer.penalties import L2, RKHSNorm
from mercer.problem import Problem
from mercer.solvers import NewtonCG, RowNewton, row_equations, row_newton
from mercer.solvers.base import Clock
from mercer.solvers.row_equations import Curvature, RowKernel

CONVEX = [
    losses.Huber(0.7),
    losses.Expectile(0.8),
    losses.Logistic(),
    losses.SquaredHinge(),
    losses.SmoothHinge(),
    losses.Multinomial(),
]
N = 60


@pytest.fixture(params=CONVEX, ids=lambda loss: loss.name)
def loss(request):
    return request.param


def kernel_of(X, kernel=None, dtype=np.float64):
    return KernelColumns(X.astype(dtype), kernel or Linear())


def machine(K, y, loss, alpha, weights=None, fit_intercept=True):
    return Problem(K, y, loss, RKHSNorm(alpha, K), weights, fit_intercept)


def residual_of(problem, theta):
    """The largest relative norm of s ℓ' + n alpha a over the outputs, by its definition."""
    weights = np.ones(problem.n_rows) if problem.weights is None else problem.weights
    weights = weights.reshape(-1, *[1] * (problem.y.ndim - 1))
    slopes = weights * problem.loss.gradient(problem.responses(theta), problem.y)
    start = weights * problem.loss.gradient(problem.responses(problem.initial()), problem.y)
    left = slopes + problem.n_rows * problem.penalty.alpha * problem.weights_of(theta)
    axis = None if problem.loss.joint else 0
    norms = [np.sqrt(np.sum(v**2 / weights, axis=axis)) for v in (left, start)]
    return np.max(norms[0] / norms[1])


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_linear_kernel_gives_the_ridge_of_its_inputs(loss, weighted, fit_intercept, rng):
    X, y = rng.normal(size=(N, 4)) + 0.3, targets(loss, 3, rng, N)
    weights = rng.uniform(0.1, 3, size=N) if weighted else None
    found = RowNewton(tol=1e-10).solve(
        problem := machine(kernel_of(X), y, loss, 0.02, weights, fit_intercept)
    )
    ridge = Problem(Dense(X), y, loss, L2(0.02), weights, fit_intercept)
    truth = NewtonCG(tol=1e-11).solve(ridge)
    assert found.converged
    assert found.criterion == "residual"
    responses = problem.responses(found.coef)
    np.testing.assert_allclose(responses, ridge.responses(truth.coef), atol=1e-7)


def test_the_residual_is_that_of_the_equations_of_the_rows(loss, rng):
    y, weights = targets(loss, 3, rng, N), rng.uniform(0.1, 3, size=N)
    K = kernel_of(rng.normal(size=(N, 3)), Gaussian(0.5))
    problem = machine(K, y, loss, 1e-3, weights)
    result = RowNewton(tol=1e-6).solve(problem)
    assert result.optimality <= 1e-6
    assert residual_of(problem, result.coef) <= result.optimality * (1 + 1e-6) + 1e-12


def test_the_objective_never_rises(loss, rng):
    y, K = targets(loss, 3, rng, N), kernel_of(rng.normal(size=(N, 3)), Gaussian(0.5))
    trace = RowNewton(tol=1e-9).solve(machine(K, y, loss, 1e-6)).trace
    values = np.array([row.objective for row in trace])
    assert np.all(np.diff(values) <= 1e-10 * values[:-1])  # of sums that cancel


def test_outputs_are_solved_as_if_alone(loss, rng):
    if loss.joint:
        pytest.skip("outputs of a joint loss are not alone")
    y, K = targets(loss, 3, rng, N), kernel_of(rng.normal(size=(N, 3)), Gaussian(0.5))
    solver = RowNewton(tol=1e-10)
    together = solver.solve(machine(K, y, loss, 1e-3)).coef
    for c in range(3):
        alone = solver.solve(machine(K, y[:, c], loss, 1e-3)).coef
        np.testing.assert_allclose(together[:, c], alone, atol=1e-7)


def test_a_weight_counts_rows(loss, rng):
    X, y = rng.normal(size=(N, 3)), targets(loss, 3, rng, N)
    counts = rng.integers(0, 3, size=N)
    kernel, solver = Gaussian(0.5), RowNewton(tol=1e-10)
    weighted = machine(K := kernel_of(X, kernel), y, loss, 1e-2, counts.astype(float))
    every = np.repeat(np.arange(N), counts)
    repeated = machine(kernel_of(X[every], kernel), y[every], loss, 1e-2)
    # alpha is relative to the mean loss, weights have mean 1 over all rows
    coef, other = solver.solve(weighted).coef, solver.solve(repeated).coef
    assert np.all(coef[:-1][counts == 0] == 0)
    responses = K.matvec(coef[:-1]) + coef[-1]
    np.testing.assert_allclose(responses[every], repeated.responses(other), atol=1e-7)


@pytest.mark.parametrize("n_outputs", [1, 6])
def test_factors_of_any_rank_change_the_way_and_not_the_goal(loss, n_outputs, rng, monkeypatch):
    y = targets(loss, max(n_outputs, 2) if loss.joint else n_outputs, rng, N)
    K = kernel_of(rng.normal(size=(N, 3)), Gaussian(0.5))
    truth = RowNewton(tol=1e-10).solve(machine(K, y, loss, 1e-4)).coef
    for long, share in ((0, 0.02), (0, 1.0), (10**6, 0.1)):
        monkeypatch.setattr(row_equations, "_LONG", long)
        monkeypatch.setattr(row_equations, "_HARD", 0.0)
        monkeypatch.setattr(row_equations, "_SHARE_OF_RANK", share)
        found = RowNewton(tol=1e-10).solve(machine(K, y, loss, 1e-4)).coef
        np.testing.assert_allclose(found, truth, atol=1e-6 * np.abs(truth).max())


@pytest.mark.parametrize("name", ["logistic", "squared_hinge", "smooth_hinge", "multinomial"])
def test_products_with_the_kernel_are_few(name, rng, monkeypatch):
    X = rng.normal(size=(400, 3)).astype(np.float32)
    labels = (np.sin(3 * X[:, 0]) + X[:, 1] + 0.3 * rng.normal(size=400) > 0) * 1
    y = np.eye(2)[labels] if name == "multinomial" else 2.0 * labels - 1
    K = kernel_of(X, Gaussian(0.5), np.float32).held()
    count, product = [0], type(K).matvec
    monkeypatch.setattr(
        type(K), "matvec", lambda self, v: (count.__setitem__(0, count[0] + 1), product(self, v))[1]
    )
    result = RowNewton(tol=1e-2).solve(machine(K, y, losses.get(name), 0.3 / 400))
    assert result.converged
    assert count[0] <= 120


def test_a_row_that_gains_curvature_has_a_new_preconditioner(rng, monkeypatch):
    monkeypatch.setattr(row_equations, "_HARD", 0.0)
    y, K = np.ones(N), kernel_of(rng.normal(size=(N, 3)), Gaussian(0.5))
    problem = machine(K, y, losses.SquaredHinge(), 1e-3)
    kernel = RowKernel(problem, 1e-3)
    inverses = []
    for step, gain in ((0.0, 0.0), (0.1, 0.0), (0.1, 1.0)):
        curvature = Curvature(problem, np.zeros((N, 1)), y[:, None])
        curvature.scale = np.where(np.arange(N)[:, None] < 9, gain, 1.0 + step)
        inverses.append(kernel.inverse(problem, curvature, slice(None), 0.06, np.arange(1)))
    assert inverses[1] is inverses[0]
    assert inverses[2] is not inverses[1]


@pytest.mark.parametrize("hold", ["float32, 16 bits", "float64", "nothing"])
def test_rows_without_curvature_leave_the_products_and_nothing_else(hold, rng, monkeypatch):
    dtype = np.float32 if "32" in hold else np.float64
    X = np.vstack([rng.normal(size=(150, 3)), 4 + 0.1 * rng.normal(size=(250, 3))])
    y = np.where((X[:, 0] > 0.3) ^ (rng.random(400) < 0.05), 1.0, -1.0)
    weights = rng.integers(0, 3, size=400)
    if hold == "nothing":
        monkeypatch.setattr(row_equations, "with_cached_kernel", lambda problem, *_: problem)
    for name in ("squared_hinge", "smooth_hinge"):
        K, ways, sizes = kernel_of(X, Gaussian(0.5), dtype), [], set()
        product = RowKernel.product

        def counted(self, v, kernel=None, product=product, sizes=sizes):
            sizes.add(None if kernel is None else (type(kernel), len(v)))
            return product(self, v, kernel)

        monkeypatch.setattr(RowKernel, "product", counted)
        problem = machine(K, np.column_stack([y, -y]), losses.get(name), 1e-3, weights)
        for share in (0.0, 0.9):
            monkeypatch.setattr(row_equations, "_SHARE_WITH", share)
            ways.append(RowNewton(tol=1e-2 if "32" in hold else 1e-9).solve(problem))
        sides = {size for _, size in sizes - {None}}
        assert min(sides) < 300
        assert max(sides) == 400
        assert any(kind is FixedPointKernel for kind, _ in sizes - {None}) == ("16" in hold)
        assert ways[0].converged
        assert ways[1].converged
        unit = np.abs(ways[0].coef).max()
        tol = 0.05 if "32" in hold else 1e-7
        np.testing.assert_allclose(ways[1].coef, ways[0].coef, atol=tol * unit)


def large(name, rng, n=1200):
    """A machine of enough rows for a sample; some of them count for nothing."""
    X = rng.normal(size=(n, 3))
    labels = (np.sin(3 * X[:, 0]) + X[:, 1] + 0.3 * rng.normal(size=n) > 0) * 1
    y = np.eye(2)[labels] if name == "multinomial" else 2.0 * labels - 1
    weights = rng.integers(0, 3, size=n).astype(float)
    return machine(kernel_of(X, Gaussian(0.5)).held(), y, losses.get(name), 0.3 / n, weights)


@pytest.mark.parametrize("name", ["logistic", "smooth_hinge", "multinomial"])
def test_the_machine_of_a_sample_is_a_better_start_and_the_goal_is_the_same(name, rng, monkeypatch):
    problem, solver, ways = large(name, rng), RowNewton(tol=1e-7), []
    for fewest in (100, np.inf):
        monkeypatch.setattr(row_newton, "_FEWEST", fewest)
        ways.append(solver.solve(problem))
    found, truth = ways
    assert truth.trace[0].objective == pytest.approx(problem.value(problem.initial()))
    assert found.trace[0].objective < 0.8 * truth.trace[0].objective
    np.testing.assert_allclose(found.coef, truth.coef, atol=1e-5 * np.abs(truth.coef).max())


def test_every_output_begins_where_it_is_least(rng, monkeypatch):
    monkeypatch.setattr(row_newton, "_FEWEST", 100)
    one = large("smooth_hinge", rng)
    y = np.column_stack([one.y, rng.permutation(one.y)])  # no sample tells of the latter
    problem = machine(one.design, y, one.loss, 1e-3, one.weights)
    state = RowNewton(tol=1e-2).init(problem, problem.initial(), Clock())
    constant = problem.values(problem.initial())
    assert state.values[0] < 0.8 * constant[0]
    assert state.values[1] == pytest.approx(constant[1])
    np.testing.assert_allclose(state.values, problem.values(state.coef))


@pytest.mark.parametrize("name", ["logistic", "squared_hinge"])
def test_a_weak_penalty_is_solved(name, rng):
    X = rng.normal(size=(300, 3))
    y = np.where(np.sin(3 * X[:, 0]) + X[:, 1] + 0.3 * rng.normal(size=300) > 0, 1.0, -1.0)
    problem = machine(kernel_of(X, Gaussian(0.5)), y, losses.get(name), 1e-7)
    result = RowNewton(tol=1e-4).solve(problem)
    assert result.converged
    assert residual_of(problem, result.coef) <= 1.01e-4


def test_a_path_is_that_of_its_strengths(loss, rng):
    y, K = targets(loss, 3, rng, N), kernel_of(rng.normal(size=(N, 3)), Gaussian(0.5))
    solver, alphas = RowNewton(tol=1e-10), [1e-3, 1e-1, 1e-2]
    path = solver.solve_path(machine(K, y, loss, 1.0), alphas)
    for alpha, result in zip(alphas, path, strict=True):
        truth = solver.solve(machine(K, y, loss, alpha)).coef
        np.testing.assert_allclose(result.coef, truth, atol=1e-6 * np.abs(truth).max())


def test_any_design_may_be_the_kernel(rng):
    X, y = rng.normal(size=(N, 3)), targets(losses.Logistic(), 0, rng, N)
    K = kernel_of(X, Gaussian(0.5))
    found, truth = (
        RowNewton(tol=1e-9).solve(machine(design, y, losses.Logistic(), 1e-3)).coef
        for design in (Dense(K.toarray()), K)
    )
    np.testing.assert_allclose(found, truth, atol=1e-6)


def test_a_path_down_to_no_penalty_is_solved_by_columns(rng):
    y, K = targets(losses.Huber(), 0, rng, 20), kernel_of(rng.normal(size=(20, 3)), Gaussian(0.5))
    results = NewtonCG(tol=1e-3).solve_path(machine(K, y, losses.Huber(), 1.0), [1e-2, 0.0])
    assert [result.converged for result in results] == [True, True]


def test_a_start_at_the_solution_takes_no_step(loss, rng):
    y, K = targets(loss, 3, rng, N), kernel_of(rng.normal(size=(N, 3)), Gaussian(0.5))
    solver, problem = RowNewton(tol=1e-8), machine(K, y, loss, 1e-2)
    again = solver.solve(problem, solver.solve(problem).coef)
    assert again.n_iter == 0
    assert again.converged


def test_a_single_class_stays_finite(rng):
    K = kernel_of(rng.normal(size=(N, 3)), Gaussian(0.5))
    for loss in (losses.Logistic(), losses.SquaredHinge(), losses.SmoothHinge()):
        problem = machine(K, np.ones(N), loss, 1e-2)
        responses = problem.responses(RowNewton().solve(problem).coef)
        assert np.all(np.isfinite(responses))
        assert np.all(responses >= 0.9)


@pytest.mark.rounding
def test_float32_rows_give_the_model_of_float64_ones(loss, rng):
    X, y = rng.normal(size=(200, 3)), targets(loss, 3, rng, 200)
    responses = []
    for dtype in (np.float32, np.float64):
        problem = machine(kernel_of(X, Gaussian(0.5), dtype), y, loss, 1e-3)
        result = RowNewton(tol=1e-5).solve(problem)
        assert result.converged
        responses.append(problem.responses(result.coef))
    np.testing.assert_allclose(responses[0], responses[1], atol=2e-3)


def test_exact_machines_have_no_eigenvectors_but_where_they_help(rng):
    X = rng.normal(size=(90, 3))
    labels = np.digitize(X[:, 0], [-0.5, 0.5])
    for name, whitened in (
        ("logistic", False),
        ("multinomial", False),
        ("squared_hinge", False),
        ("sigmoid", True),
    ):
        model = KernelClassifier("exact", loss=name).fit(X, labels)
        assert model.feature_map_.whiten == whitened
        assert model.solver_ == ("newton-cg" if whitened else "row-newton")


def test_leaves_are_solved_in_float64_where_float32_is_too_short(rng):
    X = rng.normal(size=(300, 2))
    labels = X[:, 0] * X[:, 1] > 0
    settings = {"kernel": "gaussian", "loss": "logistic", "leaf_size": 100, "random_state": 0}
    for alpha in (1e-3, 1e-6):
        models = [
            LocalKernelClassifier(alpha=alpha, tol=1e-6, **settings).fit(X.astype(dtype), labels)
            for dtype in (np.float32, np.float64)
        ]
        decisions = [model.decision_function(X.astype(np.float32)) for model in models]
        unit = np.abs(decisions[1]).max()
        np.testing.assert_allclose(decisions[0] / unit, decisions[1] / unit, atol=1e-4)


def test_the_root_of_the_second_derivatives_is_one(loss, rng):
    u, y = rng.normal(size=(20, 3)), targets(loss, 3, rng, 20)
    scale, projection = loss.curvature_root(u, y)
    projected = projection or (lambda v: v)
    v = rng.normal(size=u.shape)
    np.testing.assert_allclose(projected(projected(v)), projected(v), atol=1e-14)
    np.testing.assert_allclose(
        scale * projected(scale * v), loss.hessian_product(u, y, v), atol=1e-14
    )
