"""Laws of the penalties."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mercer import penalties
from mercer.designs import Dense
from mercer.losses import Squared
from mercer.penalties import L1, L2, PENALTIES, ElasticNet, RKHSNorm
from mercer.problem import Problem


@pytest.fixture(params=list(PENALTIES.values()))
def penalty(request):
    return request.param(0.7)


def test_prox_minimises_its_objective(penalty):
    grid = np.linspace(-4, 4, 80_001)
    for v in (-2.0, -0.3, 0.0, 1.5):
        for step in (0.1, 3.0):
            objective = 0.5 * (grid - v) ** 2 + step * penalty.value(grid[None])
            best = grid[np.argmin(objective)]
            assert penalty.prox(np.array([v]), step) == pytest.approx([best], abs=1e-4)


@settings(max_examples=50, deadline=None)
@given(v=st.floats(-1e3, 1e3), w=st.floats(-1e3, 1e3), step=st.floats(0, 1e3))
@pytest.mark.parametrize("cls", list(PENALTIES.values()))
def test_prox_is_odd_and_never_expands(cls, v, w, step):
    penalty = cls(0.7)
    v, w = np.array([v]), np.array([w])
    assert penalty.prox(-v, step) == -penalty.prox(v, step)
    assert abs(penalty.prox(v, step) - penalty.prox(w, step)) <= abs(v - w) * (1 + 1e-12)


@settings(max_examples=50, deadline=None)
@given(v=st.floats(-1e3, 1e3).filter(lambda v: v == 0 or abs(v) > 1e-100), step=st.floats(0, 1e3))
def test_prox_of_l2_is_zero_only_at_zero(v, step):
    assert (L2(0.7).prox(np.array([v]), step)[0] == 0) == (v == 0)


@settings(max_examples=50, deadline=None)
@given(v=st.floats(-1e3, 1e3), step=st.floats(0, 1e3))
def test_prox_of_l1_is_zero_up_to_the_threshold_and_only_there(v, step):
    assert (L1(0.7).prox(np.array([v]), step)[0] == 0) == (abs(v) <= step * 0.7)


def test_gradient_is_the_derivative_of_the_value_without_its_l1_part(penalty, rng):
    w, d = rng.normal(size=(2, 9))
    h = 1e-6 * np.abs(w).min()  # no sign changes on the way
    slope = (penalty.value(w + h * d) - penalty.value(w - h * d)) / (2 * h)
    kinks = penalty.l1 * np.sign(w)
    assert slope == pytest.approx((penalty.gradient(w) + kinks) @ d, rel=1e-6)


def test_violation_vanishes_exactly_at_the_optimum(penalty, rng):
    w = rng.normal(size=9)
    pull = -(penalty.gradient(w) + penalty.l1 * np.sign(w))
    np.testing.assert_allclose(penalty.violation(w, pull), 0, atol=1e-15)
    assert np.all(penalty.violation(w, pull + 1) > 0.9)
    at_zero = penalty.violation(np.zeros(3), np.array([-penalty.l1, 0.0, penalty.l1 + 1]))
    np.testing.assert_allclose(at_zero, [0, 0, 1], atol=1e-15)


def test_conjugate_is_the_supremum(penalty, rng):
    grid = np.linspace(-40, 40, 80_001)
    for v in (0.0, 0.3, -0.69, 2.0):
        supremum = np.max(v * grid - penalty.value(grid[None]))
        conjugate = penalty.conjugate(np.array([v]))
        if np.isfinite(conjugate):
            assert conjugate == pytest.approx(supremum, abs=1e-6)
        else:
            assert supremum > 10  # at the end of the grid, and growing with it


def test_dual_scale_takes_a_dual_point_to_where_the_l1_part_allows_it(rng):
    w, pull = np.zeros((5, 2)), rng.normal(size=(5, 2))
    pull[:, 1] *= 0.1 / np.abs(pull[:, 1]).max()
    share = L1(0.7).dual_scale(w, pull)
    assert share[1] == 1
    assert np.abs(share[0] * pull[:, 0]).max() == pytest.approx(0.7)
    assert np.all(np.isfinite(L1(0.7).conjugate(share * pull)))


def test_parts_of_the_elastic_net_add_up(rng):
    w = rng.normal(size=(6, 2))
    both = 0.25 * L1(0.7).value(w) + 0.75 * L2(0.7).value(w)
    np.testing.assert_allclose(ElasticNet(0.7, 0.25).value(w), both)
    for ratio, end in ((1, L1(0.7)), (0, L2(0.7))):
        net = ElasticNet(0.7, ratio)
        assert (net.l1, net.l2) == (end.l1, end.l2)
        np.testing.assert_array_equal(net.prox(w, 0.3), end.prox(w, 0.3))


def test_value_is_one_float64_per_output(penalty, rng):
    w = rng.normal(size=(9, 3)).astype(np.float32)
    values = penalty.value(w)
    assert values.shape == (3,)
    assert values.dtype == np.float64
    np.testing.assert_allclose(values[1], penalty.value(w[:, 1]), rtol=1e-12)


def test_no_finite_alpha_makes_l2_weights_vanish():
    assert L2(1.0).alpha_max(np.ones(3)) == np.inf
    assert L2(1.0).alpha_max(np.zeros(3)) == 0
    assert ElasticNet(1.0, 0).alpha_max(np.ones(3)) == np.inf


@pytest.mark.parametrize("make", [L1, lambda alpha: ElasticNet(alpha, 0.3)], ids=["l1", "net"])
def test_alpha_max_is_where_no_weight_violates_optimality(make, rng):
    pull = rng.normal(size=7)
    alpha = make(1.0).alpha_max(pull)
    assert np.max(make(alpha).violation(np.zeros(7), pull)) <= 1e-15
    assert np.max(make(alpha * 0.999).violation(np.zeros(7), pull)) > 0


def test_penalties_are_found_by_name_and_pass_through():
    assert penalties.get("l2", 0.3) == L2(0.3)
    penalty = L2(0.2)
    assert penalties.get(penalty, 0.3) is penalty
    assert penalties.names() == ["l2", "l1", "elastic-net"]
    assert penalties.get("elastic-net", 0.3, l1_ratio=0.9) == ElasticNet(0.3, 0.9)
    assert penalties.get("elastic-net", 0.3) == ElasticNet(0.3, 0.5)
    assert penalties.get(ElasticNet(0.3, 0.9), l1_ratio=0.9) == ElasticNet(0.3, 0.9)


@pytest.mark.parametrize("penalty", ["l1", L2(), ElasticNet(1.0, 0.2)], ids=str)
def test_l1_ratio_beside_a_penalty_without_or_with_another_one_is_refused(penalty):
    with pytest.raises(ValueError, match="l1_ratio must be left out beside"):
        penalties.get(penalty, l1_ratio=0.5)


@pytest.mark.parametrize("ratio", [-0.1, 1.1, np.nan])
def test_l1_ratio_outside_its_range_is_refused(ratio):
    with pytest.raises(ValueError, match="l1_ratio must be from 0 to 1; got"):
        ElasticNet(1.0, ratio)


@pytest.mark.parametrize("ratio", ["1", None, True])
def test_l1_ratio_that_is_no_number_is_refused(ratio):
    with pytest.raises(TypeError, match="l1_ratio must be a number; got"):
        ElasticNet(1.0, ratio)


def test_unknown_name_lists_the_names():
    with pytest.raises(
        ValueError, match="penalty must be one of 'l2', 'l1', 'elastic-net'; got 'l3'"
    ):
        penalties.get("l3")


@pytest.mark.parametrize("alpha", [-1e-9, np.nan, np.inf])
def test_alpha_outside_its_range_is_refused(alpha):
    with pytest.raises(ValueError, match="alpha must be at least 0 and finite; got"):
        L2(alpha)


@pytest.mark.parametrize("alpha", ["1", None, True, [1.0]])
def test_alpha_that_is_no_number_is_refused(alpha):
    with pytest.raises(TypeError, match="alpha must be a number; got"):
        L2(alpha)


def test_a_numpy_alpha_keeps_float32():
    w = np.ones(3, dtype=np.float32)
    for penalty in (L2(np.float64(0.5)), ElasticNet(np.float64(0.5), np.float64(0.5))):
        for out in (penalty.gradient(w), penalty.prox(w, 0.1), penalty.violation(w, w)):
            assert out.dtype == np.float32


def test_examples_run(check_examples):
    check_examples(penalties)


# -- the norm of the kernel's space ----------------------------------------------------------


@pytest.fixture
def norm(rng):
    half = rng.normal(size=(9, 9))
    return RKHSNorm(0.7, Dense(half @ half.T), jitter=0.2)


def test_rkhs_norm_is_a_quadratic_of_its_matrix(norm, rng):
    M = norm.matrix.toarray() + 0.2 * np.eye(9)
    w = rng.normal(size=(9, 2))
    expected = [0.35 * column @ M @ column for column in w.T]
    np.testing.assert_allclose(norm.value(w), expected, rtol=1e-13)
    np.testing.assert_allclose(norm.gradient(w), 0.7 * M @ w, rtol=1e-12)
    np.testing.assert_allclose(norm.diagonal(), 0.7 * np.diag(M), rtol=1e-13)
    total = np.ones((9, 2))
    norm.add_gradient(total, w)
    np.testing.assert_allclose(total, 1 + 0.7 * M @ w, rtol=1e-12)
    np.testing.assert_allclose(norm.violation(w, -norm.gradient(w)), 0, atol=1e-13)


def test_rkhs_norm_of_nothing_is_nothing(norm):
    assert norm.value(np.zeros(9)) == 0
    assert not np.any(norm.gradient(np.zeros(9)))


def test_rkhs_norm_is_linear_but_not_that_of_the_weights(norm):
    assert norm.linear
    assert not norm.quadratic
    assert norm.l1 == 0


@pytest.mark.parametrize("other", [2.0, 0.0])
def test_rkhs_norm_has_other_strengths(norm, other):
    changed = replace(norm, alpha=other)
    assert changed.alpha == other
    assert changed.matrix is norm.matrix
    assert changed.jitter == norm.jitter


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"matrix": Dense(np.ones((2, 3)))}, r"matrix must be square; got shape \(2, 3\)"),
        ({"jitter": -1.0}, "jitter must be at least 0 and finite; got -1.0"),
        ({"alpha": np.inf}, "alpha must be at least 0 and finite; got inf"),
    ],
    ids=["not square", "jitter", "alpha"],
)
def test_rkhs_norm_checks_what_it_is_told(arguments, message):
    with pytest.raises(ValueError, match=message):
        RKHSNorm(**({"alpha": 1.0, "matrix": Dense(np.eye(2))} | arguments))


def test_rkhs_norm_refuses_a_jitter_that_is_no_number():
    with pytest.raises(TypeError, match="jitter must be a number; got '1'"):
        RKHSNorm(1.0, Dense(np.eye(2)), jitter="1")


def test_rkhs_norm_has_neither_prox_nor_conjugate(norm):
    with pytest.raises(NotImplementedError, match="no prox"):
        norm.prox(np.ones(9), 1.0)
    with pytest.raises(NotImplementedError, match="no conjugate"):
        norm.conjugate(np.ones(9))


def test_a_problem_refuses_an_rkhs_norm_without_matrix():
    problem = Problem(Dense(np.eye(2)), np.ones(2), Squared(), L2())
    with pytest.raises(ValueError, match=r"penalty must have the kernel matrix.*matrix=None"):
        problem.with_penalty(RKHSNorm())
    with pytest.raises(ValueError, match=r"penalty must have the kernel matrix.*matrix=None"):
        Problem(Dense(np.eye(2)), np.ones(2), Squared(), RKHSNorm())
