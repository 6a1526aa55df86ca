"""Laws of the rates of block coordinate descent: theorem 4.1 and its constants."""

from itertools import combinations

import numpy as np
import pytest

from mercer.designs import Dense, KernelColumns
from mercer.kernels import Gaussian
from mercer.losses import Logistic, Squared
from mercer.penalties import L2, RKHSNorm
from mercer.problem import Problem
from mercer_studies.simulators import (
    block_rates,
    effective_lipschitz,
    hessian_of,
    restricted_lipschitz,
)


def hessian(d, rng, condition=50.0):
    """A random one whose eigenvalues are spread between 1 / condition and 1."""
    Q = np.linalg.qr(rng.normal(size=(d, d)))[0]
    return (Q * np.geomspace(1 / condition, 1, d)) @ Q.T


def clusters(side, weight):
    """The paper's example: d = side², λ I and blocks of ones."""
    return weight * np.eye(side**2) + np.kron(np.eye(side), np.ones((side, side)))


# --- theorem 4.1 -----------------------------------------------------------------------------


@pytest.mark.parametrize("block_size", [1, 2, 5, 8])
def test_a_block_has_at_most_what_any_has_and_any_at_most_the_whole(block_size, rng):
    H = hessian(8, rng)
    rates = block_rates(H, block_size)
    blocks = list(combinations(range(8), block_size))
    assert rates.exact
    assert rates.restricted == pytest.approx(
        max(np.linalg.eigvalsh(H[np.ix_(J, J)])[-1] for J in blocks)
    )
    for J in blocks:
        assert restricted_lipschitz(H, [J]) <= rates.restricted * (1 + 1e-12)
    assert rates.restricted <= rates.largest * (1 + 1e-12)
    if block_size == 8:
        assert rates.restricted == pytest.approx(rates.largest)
    if block_size == 1:
        assert rates.restricted == pytest.approx(rates.largest_diagonal)


def test_what_is_drawn_of_many_blocks_bounds_the_largest_from_below(rng):
    H = hessian(24, rng)
    rates = block_rates(H, 6)
    assert not rates.exact
    assert "at least" in str(rates)
    best = restricted_lipschitz(H, [np.argsort(H.diagonal())[-6:]])
    assert best <= rates.restricted <= rates.largest


def test_the_effective_constant_is_that_of_the_theorem(rng):
    H = hessian(12, rng)
    rates = block_rates(H, 4)
    largest, diagonal = np.linalg.eigvalsh(H)[-1], H.diagonal().max()
    expected = np.e**2 * largest + 12 * np.log(2 * 12**2 / 4) / 4 * diagonal
    assert rates.effective == pytest.approx(expected)
    assert rates.factor() == pytest.approx(1 - np.linalg.eigvalsh(H)[0] / (2 * expected))
    np.testing.assert_allclose(rates.bound([0, 1, 3]), rates.factor() ** np.array([0, 1, 3]))
    assert rates.epochs(0.01) * 12 / 4 == pytest.approx(np.log(0.01) / np.log(rates.factor()))
    assert rates.bound(rates.epochs(0.01) * 12 / 4) == pytest.approx(0.01)


def descend(H, block_size, n_steps, w, rng):
    """Values of f(w) - f* = ½ wᵀ H w of exact steps on blocks drawn anew each time."""
    values = [0.5 * w @ H @ w]
    for _ in range(n_steps):
        J = rng.choice(len(w), block_size, replace=False)
        w = w.copy()
        w[J] -= np.linalg.solve(H[np.ix_(J, J)], H[J] @ w)
        values.append(0.5 * w @ H @ w)
    return np.array(values)


@pytest.mark.parametrize("block_size", [2, 6])
@pytest.mark.parametrize("kind", ["spread", "clusters"])
def test_no_quadratic_is_slower_on_average_than_the_bounds(kind, block_size, rng):
    H = hessian(16, rng) if kind == "spread" else clusters(4, 0.1)
    rates = block_rates(H, block_size)
    start = rng.normal(size=16)
    runs = np.array([descend(H, block_size, 40, start, rng) for _ in range(60)])
    assert np.all(np.diff(runs) <= 1e-12 * runs[:, :1])  # a step never rises
    mean = runs.mean(axis=0) / runs[0, 0]
    for old in (False, True):
        assert np.all(mean <= rates.bound(np.arange(41), old) * (1 + 1e-9))


def test_the_bounds_would_not_hold_for_a_gradient_step_of_length_one_over_L(rng):
    """The check above can fail: a step that is not exact is slower than the first bound."""
    H = hessian(16, rng, condition=4.0)
    rates = block_rates(H, 16)
    w = np.linalg.eigh(H)[1][:, 0]
    slow = w - 1e-3 * H @ w
    assert (slow @ H @ slow) / (w @ H @ w) > rates.bound(1)


def test_in_small_dimensions_the_new_bound_is_not_the_better_one():
    """e² makes up for what it saves until d is large; then it does save the square root of d."""
    small = block_rates(clusters(8, 0.1), 8)
    assert small.epochs(0.1) > small.epochs(0.1, old=True)
    ratios = []
    for side in (10, 10**2, 10**4):
        d, largest = side**2, side + 0.1
        new = effective_lipschitz(largest, 1.1, d, side) * 2 / 0.1
        ratios.append(new / (d * largest / (side * 0.1)))  # steps against those of equation 7
    assert ratios[0] > 1
    assert ratios[0] > ratios[1] > ratios[2]
    assert ratios[2] < 0.1


def test_a_singular_hessian_promises_nothing():
    rates = block_rates(np.diag([0.0, 1.0]), 1)
    assert rates.condition == np.inf
    assert rates.epochs(0.5) == rates.epochs(0.5, old=True) == np.inf


def test_a_hessian_without_spread_needs_one_step():
    rates = block_rates(np.eye(3), 3)
    np.testing.assert_allclose(rates.bound([0, 1], old=True), [1, 0], atol=1e-12)


def test_tiny_rates_are_not_lost_to_rounding():
    rates = block_rates(np.diag([1e-18, 1.0]), 1)
    assert np.isfinite(rates.epochs(0.1))


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: block_rates(np.ones((2, 3)), 1), "hessian must be a square matrix"),
        (lambda: block_rates([[1.0, np.nan], [np.nan, 1.0]], 1), "hessian must be finite"),
        (lambda: block_rates([[1.0, 2.0], [0.0, 1.0]], 1), "hessian must be symmetric"),
        (lambda: block_rates(np.eye(2), 3), "block_size must be at most the size, 2; got 3"),
        (lambda: block_rates(np.eye(2), 1).epochs(1.0), "reduction must be between 0 and 1"),
        (lambda: restricted_lipschitz(np.eye(2), []), "blocks must hold at least one block"),
        (lambda: effective_lipschitz(1.0, 2.0, 3, 1), "largest_diagonal must be at most"),
        (lambda: effective_lipschitz(0.0, 1.0, 3, 1), "largest must be above 0"),
    ],
    ids=["shape", "nan", "skew", "block", "reduction", "none", "diagonal", "zero"],
)
def test_bad_input_is_refused_in_a_sentence(call, said):
    with pytest.raises(ValueError, match=said):
        call()


# --- systems of problems ----------------------------------------------------------------------


def kernel_problem(rng, n=20, n_landmarks=None, jitter=0.0, alpha=0.3):
    """The full kernel, or Nyström's restricted span, and the matrices K, K_I and K_II."""
    X, y = rng.normal(size=(n, 2)), rng.normal(size=n)
    landmarks = None if n_landmarks is None else X[:n_landmarks]
    design = KernelColumns(X, Gaussian(0.5), landmarks)
    penalty = RKHSNorm(alpha, design.landmark_design(), jitter)
    return Problem(design, y, Squared(), penalty, fit_intercept=False), Gaussian(0.5)(X)


def test_the_full_kernels_equations_are_linear_in_it(rng):
    problem, K = kernel_problem(rng)
    np.testing.assert_allclose(hessian_of(problem), K + 20 * 0.3 * np.eye(20), atol=1e-12)


def test_nystroems_equations_are_quadratic_in_the_kernel(rng):
    problem, K = kernel_problem(rng, n_landmarks=6, jitter=0.1)
    some, inner = K[:, :6], K[:6, :6]
    expected = some.T @ some / 20 + 0.3 * inner + 0.3 * 0.1 * np.eye(6)
    np.testing.assert_allclose(hessian_of(problem), expected, atol=1e-12)


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_equations_of_features_have_a_row_for_the_intercept(fit_intercept, rng):
    Z, weights = rng.normal(size=(20, 3)), rng.uniform(1, 2, size=20)
    problem = Problem(Dense(Z), rng.normal(size=20), Squared(), L2(0.3), weights, fit_intercept)
    scale = weights / weights.mean()
    wide = np.column_stack([Z, np.ones(20)]) if fit_intercept else Z
    expected = (wide.T * scale) @ wide / 20
    expected[:3, :3] += 0.3 * np.eye(3)
    np.testing.assert_allclose(hessian_of(problem), expected, atol=1e-12)


def test_nystroem_is_worse_conditioned_than_the_full_kernel_and_random_features(rng):
    from mercer.maps import RandomFourier

    X = rng.normal(size=(150, 2))
    alpha, y = np.log(150) / 150, np.zeros(150)
    conditions = []
    for landmarks, jitter in ((None, 0.0), (X[:40], 0.5)):
        design = KernelColumns(X, Gaussian(0.5), landmarks)
        penalty = RKHSNorm(alpha, design.landmark_design(), jitter)
        problem = Problem(design, y, Squared(), penalty, fit_intercept=False)
        conditions.append(block_rates(hessian_of(problem), 10).condition)
    Z = RandomFourier(Gaussian(0.5), n_components=40, random_state=0).fit_transform(X)
    features = Problem(Dense(Z), y, Squared(), L2(alpha), fit_intercept=False)
    full, few, cosines = *conditions, block_rates(hessian_of(features), 10).condition
    assert few > 10 * max(full, cosines)
    assert 1 / 3 < full / cosines < 3


def test_problems_that_are_no_equations_are_refused(rng):
    with pytest.raises(ValueError, match="linear equations need a quadratic loss"):
        hessian_of(Problem(Dense(np.eye(2)), [1.0, -1.0], Logistic(), L2(0.1)))


# --- the dual of the same problem ------------------------------------------------------------


@pytest.mark.parametrize(("factor", "right"), [(2.0, True), (1.0, False)])
def test_the_dual_has_two_n_ths_of_the_targets(factor, right, rng):
    """With one n-th, as the paper prints it, weights come out half as large."""
    n, p, alpha = 40, 5, 0.3
    Z, y = rng.normal(size=(n, p)), rng.normal(size=n)
    w = np.linalg.solve(Z.T @ Z + n * alpha * np.eye(p), Z.T @ y)
    # the maximum of factor/n yᵀa - ‖a‖²/n - aᵀ Z Zᵀ a / (alpha n²)
    a = np.linalg.solve(2 / n * np.eye(n) + 2 / (alpha * n**2) * Z @ Z.T, factor / n * y)
    found = Z.T @ a / (n * alpha)
    np.testing.assert_allclose(found, w if right else w / 2, rtol=1e-9)


def test_random_cosines_have_short_rows_and_columns(rng):
    from mercer.maps import RandomFourier

    n, p = 300, 64
    Z = RandomFourier(gamma=1.0, n_components=p, random_state=0).fit_transform(
        rng.normal(size=(n, 3))
    )
    assert np.square(Z).sum(axis=1).max() <= 2 + 1e-9
    assert np.square(Z).sum(axis=0).max() <= 2 * n / p + 1e-9
