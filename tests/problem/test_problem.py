"""Laws of the problem: F, its derivatives, its certificates and its subproblems."""

import gc
import weakref

import numpy as np
import pytest
from scipy import sparse

import mercer.problem.certificates
import mercer.problem.objective
from _covering import pairwise
from _problems import LOSSES, SEPARABLE, D, N, dense_hessian, dense_value, designs, make, targets
from mercer.designs import Dense, Sparse
from mercer.equations import NormalMatrix, RowMatrix, RowSpace
from mercer.losses import Huber, Logistic, Multinomial, Quantile, Squared, SquaredHinge
from mercer.penalties import L2, ElasticNet
from mercer.problem import Problem, dual_gap
from mercer.solvers import Cholesky, NewtonCG

pytestmark = pytest.mark.rounding


@pytest.fixture(params=LOSSES, ids=lambda loss: loss.name)
def loss(request):
    return request.param


@pytest.fixture(params=[False, True], ids=["unweighted", "weighted"])
def weights(request, rng):
    return rng.uniform(0, 3, size=N) if request.param else None


@pytest.fixture(params=[True, False], ids=["intercept", "no intercept"])
def fit_intercept(request):
    return request.param


@pytest.fixture(params=pairwise(LOSSES, [False, True], [True, False], [0, 3]), ids=str)
def problem(request, rng):
    """Any two of loss, weights or none, intercept or none, one output or three."""
    loss, weighted, fit_intercept, n_outputs = request.param
    weights = rng.uniform(0, 3, size=N) if weighted else None
    return make(loss, rng, n_outputs, weights=weights, fit_intercept=fit_intercept)


def point(problem, rng):
    return rng.normal(scale=0.5, size=problem.shape)


# -- objective -------------------------------------------------------------------------------


def test_value_is_the_mean_weighted_loss_plus_the_penalty(problem, rng):
    theta = point(problem, rng)
    assert problem.value(theta) == pytest.approx(dense_value(problem, theta), rel=1e-12)


def test_gradient_is_the_derivative_of_the_value(problem, rng):
    theta, direction = point(problem, rng), point(problem, rng)
    h = 1e-6
    slope = (problem.value(theta + h * direction) - problem.value(theta - h * direction)) / (2 * h)
    assert slope == pytest.approx(np.sum(problem.gradient(theta) * direction), rel=1e-6, abs=1e-8)


def test_curvature_product_is_the_derivative_of_the_gradient(problem, rng):
    theta, direction = point(problem, rng), point(problem, rng)
    h = 1e-7
    ahead = problem.gradient(theta + h * direction).copy()
    slope = (ahead - problem.gradient(theta - h * direction)) / (2 * h)
    np.testing.assert_allclose(problem.curvature_product(theta, direction), slope, atol=1e-5)


def test_curvature_is_symmetric_and_not_negative(problem, rng):
    hessian = dense_hessian(problem, point(problem, rng))
    np.testing.assert_allclose(hessian, hessian.T, atol=1e-13)
    assert np.linalg.eigvalsh(hessian).min() >= -1e-13


@pytest.mark.parametrize("n_outputs", [0, 3])
def test_diagonal_is_that_of_the_curvature(n_outputs, weights, fit_intercept, rng):
    problem = make(Squared(), rng, n_outputs, weights=weights, fit_intercept=fit_intercept)
    theta = point(problem, rng)
    truth = np.diag(dense_hessian(problem, theta)).reshape(problem.shape)
    diagonal = np.broadcast_to(problem.diagonal(theta), problem.shape)
    np.testing.assert_allclose(diagonal, truth, rtol=1e-12)


def test_diagonal_of_a_loss_with_one_output_is_that_of_the_curvature(loss, weights, rng):
    problem = make(loss, rng, weights=weights)
    theta = point(problem, rng)
    truth = np.diag(dense_hessian(problem, theta)).reshape(problem.shape)
    truth = truth if truth.ndim == 1 else truth.mean(axis=1, keepdims=True)
    np.testing.assert_allclose(problem.diagonal(theta), truth, rtol=1e-12)


@pytest.mark.parametrize("loss", SEPARABLE, ids=lambda loss: loss.name)
def test_outputs_of_a_pointwise_loss_are_separate_problems(loss, weights, rng):
    problem = make(loss, rng, 3, weights=weights)
    theta, v = point(problem, rng), point(problem, rng)
    gradient, product = problem.gradient(theta), problem.curvature_product(theta, v)
    for c in range(3):
        alone = Problem(problem.design, problem.y[:, c], loss, problem.penalty, weights)
        assert problem.values(theta)[c] == pytest.approx(alone.value(theta[:, c]))
        np.testing.assert_allclose(gradient[:, c], alone.gradient(theta[:, c]), atol=1e-14)
        some = problem.curvature_product(theta, v[:, [c]], outputs=np.array([c]))
        np.testing.assert_allclose(some, product[:, [c]], atol=1e-14)
        assert problem.dot(theta, v)[c] == pytest.approx(theta[:, c] @ v[:, c])
        np.testing.assert_allclose(problem.reference()[c], alone.reference()[0])


def test_outputs_of_a_joint_loss_are_one_problem(rng):
    problem = make(Multinomial(), rng)
    theta = point(problem, rng)
    assert problem.values(theta).shape == (1,)
    assert problem.dot(theta, theta) == pytest.approx([np.sum(theta**2)])


def test_integer_weights_are_repeated_rows(loss, fit_intercept, rng):
    Z, y = rng.normal(size=(N, D)), targets(loss, 0, rng)
    counts = rng.integers(0, 4, size=N)
    weighted = Problem(Dense(Z), y, loss, L2(0.1), counts, fit_intercept)
    rows = np.repeat(np.arange(N), counts)
    repeated = Problem(Dense(Z[rows]), y[rows], loss, L2(0.1), None, fit_intercept)
    theta, v = point(weighted, rng), point(weighted, rng)
    assert weighted.value(theta) == pytest.approx(repeated.value(theta))
    assert dual_gap(weighted.at(theta)) == pytest.approx(dual_gap(repeated.at(theta)))
    np.testing.assert_allclose(weighted.reference(), repeated.reference())
    for of in (
        lambda p: p.gradient(theta),
        lambda p: p.curvature_product(theta, v),
        lambda p: p.diagonal(theta),
    ):
        np.testing.assert_allclose(of(weighted), of(repeated), atol=1e-13)


def test_scale_of_the_weights_does_not_matter(loss, rng):
    Z, y, s = rng.normal(size=(N, D)), targets(loss, 0, rng), rng.uniform(size=N)
    one, other = (Problem(Dense(Z), y, loss, L2(0.1), c * s) for c in (1e-300, 1e300))
    theta = point(one, rng)
    assert one.value(theta) == pytest.approx(other.value(theta), rel=1e-13)


def test_equal_weights_are_no_weights(rng):
    assert make(Squared(), rng, weights=np.full(N, 7.0)).weights is None


def test_designs_of_one_matrix_give_one_problem(loss, weights, rng):
    for design in designs(rng):
        y = targets(loss, 0, rng)
        mine, dense = (
            Problem(d, y, loss, L2(0.1), weights) for d in (design, Dense(design.toarray()))
        )
        theta, v = point(mine, rng), point(mine, rng)
        np.testing.assert_allclose(mine.gradient(theta), dense.gradient(theta), atol=1e-13)
        np.testing.assert_allclose(
            mine.curvature_product(theta, v), dense.curvature_product(theta, v), atol=1e-13
        )
        np.testing.assert_allclose(mine.diagonal(theta), dense.diagonal(theta), rtol=1e-12)


def test_float32_agrees_with_float64_to_its_precision(loss, weights, rng):
    exact = make(loss, rng, 3, weights=weights)
    design = Dense(exact.design.array.astype(np.float32))
    single = Problem(design, exact.y, loss, exact.penalty, weights)
    theta, v = (point(exact, rng).astype(np.float32) for _ in range(2))
    assert single.value(theta) == pytest.approx(exact.value(theta), rel=1e-6)
    for of in (
        lambda p: p.gradient(theta),
        lambda p: p.curvature_product(theta, v),
        lambda p: p.initial(),
    ):
        assert of(single).dtype == np.float32
        np.testing.assert_allclose(of(single), of(exact), atol=2e-6)


class Counting(Dense):
    def __init__(self, array):
        super().__init__(array)
        self.products = 0

    def matvec(self, w):
        self.products += 1
        return super().matvec(w)


def test_everything_at_one_point_costs_one_product(loss, rng):
    design = Counting(rng.normal(size=(N, D)))
    problem = Problem(design, targets(loss, 0, rng), loss, L2(0.1))
    theta = point(problem, rng)
    here = problem.at(theta)
    for of in (lambda p: p.value, lambda p: p.gradient, lambda p: p.diagonal(), dual_gap):
        of(here)
    assert design.products == 1
    here.curvature_product(theta)
    assert design.products == 2
    assert problem.at(theta, here.responses).optimality == here.optimality
    assert design.products == 2


def test_a_point_agrees_with_the_problem_and_never_changes(problem, rng):
    theta, v = point(problem, rng), point(problem, rng)
    here, given = problem.at(theta), theta.copy()
    theta[0] += 1  # a point has a copy
    assert problem.value(theta) == pytest.approx(dense_value(problem, theta))
    np.testing.assert_array_equal(here.theta, given)
    assert here.value == problem.value(given)
    assert here.optimality == problem.optimality(given)
    for mine, theirs in (
        (here.responses, problem.responses(given)),
        (here.values, problem.values(given)),
        (here.gradient, problem.gradient(given)),
        (here.diagonal(), problem.diagonal(given)),
        (here.curvature_product(v), problem.curvature_product(given, v)),
    ):
        np.testing.assert_array_equal(mine, theirs)
    for array in (here.theta, here.responses, here.gradient):
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 0


def test_the_start_is_known_from_the_reference_under_every_penalty(loss, rng):
    problem = make(loss, rng)
    problem.reference()
    for penalty in (L2(0.3), ElasticNet(0.3)):
        other = problem.with_penalty(penalty)
        fresh = Problem(problem.design, problem.y, loss, penalty)
        start, expected = other.at(other.initial()), fresh.at(fresh.initial())
        np.testing.assert_array_equal(start.gradient, expected.gradient)
        assert start.value == expected.value
        assert start.optimality == expected.optimality


def test_a_problem_that_was_looked_at_goes_when_its_last_user_does(rng):
    """Without waiting for the collector of cycles: its design may be most of the memory."""
    problem = make(Squared(), rng)
    gone = weakref.ref(problem.design)
    gc.disable()
    try:
        NewtonCG().solve(problem)
        problem.optimality(point(problem, rng))
        del problem
        assert gone() is None
    finally:
        gc.enable()


@pytest.mark.parametrize("loss", SEPARABLE, ids=lambda loss: loss.name)
def test_points_mix_by_outputs(loss, weights, rng):
    problem = make(loss, rng, 3, weights=weights)
    one, other = (problem.at(point(problem, rng)) for _ in range(2))
    chosen = np.array([True, False, True])
    mixed = one.with_outputs(other, chosen)
    fresh = problem.at(np.where(chosen, other.theta, one.theta))
    np.testing.assert_array_equal(mixed.theta, fresh.theta)
    for mine, theirs in (
        (mixed.responses, fresh.responses),
        (mixed.values, fresh.values),
        (mixed.gradient, fresh.gradient),
    ):
        np.testing.assert_allclose(mine, theirs, rtol=1e-12, atol=1e-14)
    assert one.with_outputs(other, ~chosen & chosen) is one
    assert one.with_outputs(other, chosen | ~chosen) is other


# -- start and reference ---------------------------------------------------------------------


def test_start_is_stationary_in_the_intercept(weights, rng):
    for loss in (Squared(), Logistic(), SquaredHinge(), Multinomial()):
        problem = make(loss, rng, weights=weights)
        np.testing.assert_allclose(problem.gradient(problem.initial())[-1], 0, atol=1e-12)


@pytest.mark.parametrize("loss", [Squared(), Huber(0.7)], ids=lambda loss: loss.name)
def test_shifting_the_targets_changes_nothing_but_the_intercept(loss, rng):
    here = make(loss, rng)
    there = Problem(here.design, here.y + 1000, loss, here.penalty)
    np.testing.assert_allclose(there.reference(), here.reference(), rtol=1e-9)
    theta = point(here, rng)
    shifted = theta.copy()
    shifted[-1] += 1000
    assert there.optimality(shifted) == pytest.approx(here.optimality(theta), rel=1e-9)


@pytest.mark.parametrize("constant", [0.0, 0.1, 1e6])
def test_constant_targets_are_solved_at_the_start(constant, dtype, rng):
    Z = rng.normal(size=(N, D)).astype(dtype)
    problem = Problem(Dense(Z), np.full(N, constant), Squared(), L2(0.1))
    assert problem.optimality(problem.initial()) == 0


def test_an_empty_or_zero_design_is_solved_at_the_start(loss, rng):
    for Z in (np.zeros((N, D)), np.zeros((N, 0)), np.ones((N, 1))):
        problem = Problem(Dense(Z), targets(loss, 0, rng), loss, L2(0.1))
        if loss.name != "huber":  # whose start is the mean, not its own best constant
            assert problem.optimality(problem.initial()) == 0


# -- dual gap --------------------------------------------------------------------------------


def test_dual_gap_bounds_the_distance_to_the_minimum(problem, rng):
    best = problem.value(NewtonCG(tol=1e-9).solve(problem).coef)
    for theta in (problem.initial(), point(problem, rng), 10 * point(problem, rng)):
        assert dual_gap(problem.at(theta)) >= problem.value(theta) - best - 1e-12


def test_dual_gap_vanishes_at_the_minimum(problem):
    theta = NewtonCG(tol=1e-9).solve(problem).coef
    assert abs(dual_gap(problem.at(theta))) <= 1e-9


def test_dual_gap_needs_a_convex_loss_and_is_infinite_without_penalty(rng):
    class Bump(Squared):
        convex = False

    theta = np.zeros(D + 1)
    assert dual_gap(make(Bump(), rng).at(theta)) is None
    assert dual_gap(make(Squared(), rng, alpha=0.0).at(theta)) == np.inf


# -- linear equations ----------------------------------------------------------------------


def test_normal_matrix_is_the_curvature(weights, fit_intercept, rng):
    problem = make(Squared(), rng, weights=weights, fit_intercept=fit_intercept)
    hessian = dense_hessian(problem, problem.initial())
    np.testing.assert_allclose(
        NormalMatrix(problem).matrix(problem.penalty.alpha), hessian, atol=1e-14
    )


@pytest.mark.parametrize("n_outputs", [0, 3])
def test_equations_of_the_rows_have_the_same_minimiser(n_outputs, weights, fit_intercept, rng):
    for design in designs(rng):
        y = targets(Squared(), n_outputs, rng)
        problem = Problem(design, y, Squared(), L2(0.1), weights, fit_intercept)
        dual = RowMatrix(problem)
        point = dual.solution(problem, np.linalg.solve(dual.matrix(0.1), dual.rhs))
        np.testing.assert_allclose(problem.gradient(point.theta), 0, atol=1e-13)
        np.testing.assert_allclose(point.gradient, 0, atol=1e-13)


@pytest.mark.parametrize("n_outputs", [0, 3])
def test_row_space_gives_the_numbers_of_column_space(n_outputs, weights, fit_intercept, rng):
    problem = make(Squared(), rng, n_outputs, weights=weights, fit_intercept=fit_intercept)
    rows = RowSpace(problem)
    x = rows.initial()
    v = rows.gradient(x)  # of w = 0, with the best intercept
    rows.subtract(x, rng.uniform(size=max(1, n_outputs)), v[0])
    theta = rows.lift(x)
    gradient = rows.gradient(x)
    np.testing.assert_allclose(rows.values(x), problem.values(theta), rtol=1e-12)
    np.testing.assert_allclose(rows.norm(gradient), problem.norm(problem.gradient(theta)))
    np.testing.assert_allclose(rows.reference(), rows.norm(v))
    # Differences of lifted vectors are weight vectors of their own.
    w = rows.lift(v) - rows.lift(rows.initial())
    np.testing.assert_allclose(
        rows.curvature(v, rows.curvature_product(x, v)),
        problem.dot(w, problem.curvature_product(theta, w)),
    )


# -- what is refused -------------------------------------------------------------------------


def test_capabilities_name_what_the_problem_offers(rng):
    assert make(Squared(), rng).capabilities == {
        "a quadratic loss",
        "a convex loss",
        "a smooth loss",
        "a loss of bounded curvature",
        "a quadratic penalty",
        "a penalty of linear gradient",
        "a linear system",
        "vectors of rows",
        "a loss without an offset",
    }
    assert "a quadratic loss" not in make(Logistic(), rng).capabilities
    offers = make(Quantile(), rng).capabilities
    assert "a loss with a kink" in offers
    assert not offers & {"a smooth loss", "a loss of bounded curvature"}


@pytest.mark.parametrize("y", [np.ones(N - 1), np.ones((N, 1, 1)), np.array(1.0)], ids=np.shape)
def test_targets_that_do_not_fit_the_design_are_refused(y, rng):
    with pytest.raises(ValueError, match=f"y must have {N} rows, as the design"):
        Problem(Dense(rng.normal(size=(N, D))), y, Squared(), L2(0.1))


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_targets_that_are_not_finite_are_refused(bad, rng):
    y = np.ones(N)
    y[3] = bad
    with pytest.raises(ValueError, match="y must be finite"):
        Problem(Dense(rng.normal(size=(N, D))), y, Squared(), L2(0.1))


def test_targets_that_the_loss_does_not_know_are_refused(rng):
    with pytest.raises(ValueError, match="y must be -1 or 1 for loss 'logistic'"):
        Problem(Dense(rng.normal(size=(N, D))), np.arange(N), Logistic(), L2(0.1))


def test_no_rows_are_refused():
    with pytest.raises(ValueError, match="at least one row; got 0"):
        Problem(Dense(np.ones((0, D))), np.ones(0), Squared(), L2(0.1))


@pytest.mark.parametrize("weights", [np.full(N, -1.0), np.zeros(N), np.full(N, np.nan)])
def test_weights_outside_their_range_are_refused(weights, rng):
    with pytest.raises(ValueError, match="sample_weight must be finite, not negative and not all"):
        make(Squared(), rng, weights=weights)


def test_weights_of_another_length_are_refused(rng):
    with pytest.raises(ValueError, match=f"one entry for each of {N} rows; got shape"):
        make(Squared(), rng, weights=np.ones(N + 1))


def test_a_point_of_another_shape_is_refused(rng):
    with pytest.raises(ValueError, match=r"theta must have shape \(6,\); got \(5,\)"):
        make(Squared(), rng).value(np.zeros(D))


def test_sparse_designs_are_never_made_dense(loss, rng, monkeypatch):
    def refuse(self):
        raise AssertionError("made dense")

    monkeypatch.setattr(Sparse, "toarray", refuse)
    design = Sparse(sparse.random_array((N, D), density=0.3, format="csr", random_state=rng))
    problem = Problem(design, targets(loss, 0, rng), loss, L2(0.1))
    theta = point(problem, rng)
    assert np.isfinite(problem.gradient(theta)).all()
    assert np.isfinite(problem.diagonal(theta)).all()
    if loss.quadratic:
        assert Cholesky(form="primal").solve(problem).converged


def test_examples_run(check_examples):
    check_examples(mercer.problem.objective)
    check_examples(mercer.problem.certificates)
