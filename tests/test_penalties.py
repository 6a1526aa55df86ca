"""Laws of the penalties."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mercer import penalties
from mercer.penalties import L2, PENALTIES


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


def test_gradient_is_the_derivative_of_the_value(penalty, rng):
    w, d = rng.normal(size=(2, 9))
    h = 1e-6
    slope = (penalty.value(w + h * d) - penalty.value(w - h * d)) / (2 * h)
    assert slope == pytest.approx(penalty.gradient(w) @ d, abs=1e-8)


def test_violation_vanishes_exactly_at_the_optimum(penalty, rng):
    w = rng.normal(size=9)
    pull = -penalty.gradient(w)
    np.testing.assert_array_equal(penalty.violation(w, pull), 0)
    assert np.all(penalty.violation(w, pull + 1) > 0)


def test_value_is_one_float64_per_output(penalty, rng):
    w = rng.normal(size=(9, 3)).astype(np.float32)
    values = penalty.value(w)
    assert values.shape == (3,)
    assert values.dtype == np.float64
    np.testing.assert_allclose(values[1], penalty.value(w[:, 1]), rtol=1e-12)


def test_no_finite_alpha_makes_l2_weights_vanish():
    assert L2(1.0).alpha_max(np.ones(3)) == np.inf
    assert L2(1.0).alpha_max(np.zeros(3)) == 0


def test_penalties_are_found_by_name_and_pass_through():
    assert penalties.get("l2", 0.3) == L2(0.3)
    penalty = L2(0.2)
    assert penalties.get(penalty, 0.3) is penalty
    assert penalties.names() == ["l2"]


def test_unknown_name_lists_the_names():
    with pytest.raises(ValueError, match="penalty must be one of 'l2'; got 'elastic'"):
        penalties.get("elastic")


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
    assert L2(np.float64(0.5)).gradient(w).dtype == np.float32


def test_examples_run(check_examples):
    check_examples(penalties)
