"""Laws of the papers' bounds: they dominate what they are about, and say when they do not."""

import numpy as np
import pytest
from scipy import linalg
from sklearn import datasets as sklearn_sets

from mercer import datasets
from mercer.designs import Dense
from mercer.diagnostics import kernel_error
from mercer.kernels import Gaussian, Laplacian
from mercer.losses import Logistic, Squared, SquaredHinge
from mercer.maps import RandomBinning, RandomFourier, SubspaceEmbedding
from mercer.penalties import L1
from mercer.problem import Problem
from mercer.solvers import CoordinateDescent, Stream, WorkingSet, step_bounds
from mercer_studies.random_binning.collisions import collisions
from mercer_studies.simulators import simulate_delays
from mercer_studies.sparse_features import exact
from mercer_studies.theory import (
    binning_bound,
    descent_bound,
    draws_bound,
    embedding_bound,
    fourier_bound,
    learning_bound,
    spread_ratio,
    srht_bound,
)


@pytest.fixture(params=["generated", "letter", "digits", "wine"])
def table(request, rng):
    """Rows (120, d) with columns of variance 1, and targets of mean 0 and variance 1."""
    if request.param == "generated":
        X = rng.normal(size=(120, 3))
        y = np.sin(2 * X[:, 0]) + X[:, 1]
    elif request.param == "letter":
        data = datasets.load("letter")
        X, y = np.asarray(data.X[:120], dtype=float), np.asarray(data.y[:120], dtype=float)
    else:
        X, y = getattr(sklearn_sets, f"load_{request.param}")(return_X_y=True)
        rows = rng.permutation(len(X))[:120]
        X, y = X[rows], y[rows].astype(float)
    X = X[:, X.std(axis=0) > 0]
    return (X - X.mean(axis=0)) / X.std(axis=0), (y - y.mean()) / y.std()


# --- random draws as coordinate descent -------------------------------------------------------


@pytest.mark.parametrize("kappa", [1.0, 7.0, 76.0])
@pytest.mark.parametrize("gap", [0.1, 3.0])
def test_the_binning_bound_dominates_the_worst_case_of_its_recursion_and_the_printed_one_does_not(
    gap, kappa
):
    """Δ falls by κΔ²/(2β‖w*‖²), or by β‖w*‖²/(2κ) while it is above β‖w*‖²/κ."""
    beta, norm = 1.5, 2.0
    curvature = beta * norm**2 / kappa
    deltas = [gap]
    for _ in range(4000):
        d = deltas[-1]
        deltas.append(d - (d**2 / (2 * curvature) if d <= curvature else curvature / 2))
    R = np.arange(len(deltas))
    bound = binning_bound(R, gap, norm, kappa, beta=beta)
    assert np.all(np.array(deltas) <= bound)
    assert np.any(np.array(deltas) > bound / 2)


def l1_reference(K, y, lam, loss):
    """λ‖w*‖ + loss of the kernel machine, and ‖w*‖."""
    machine = exact.ridge(K, y, lam, False)
    objective = lam * machine.norm + float(loss.value(K @ machine.coef, y).mean())
    return objective, machine.norm


def test_whole_grids_stay_below_their_bound_on_average(table):
    X, y = table
    lam, gamma = 1e-3, 1.0 / X.shape[1]
    best, norm = l1_reference(Laplacian(gamma)(X), y, lam, Squared())
    start = 0.5 * float(np.mean(y**2))
    runs, kappas = [], []
    for seed in range(4):
        map_ = RandomBinning(gamma=gamma, n_components=2, scale=False, random_state=seed).fit(X)
        search = WorkingSet(CoordinateDescent(tol=1e-6), 1, 12, tol=0.0, patience=12)
        found = search.solve(
            Stream(map_, X),
            lambda Z: Problem(Z, y, Squared(), L1(lam), fit_intercept=False),
        )
        runs.append([row.objective for row in found.rounds])
        kappas.append(collisions(map_.set_params(n_components=12).fit(X)).kappa_hat)
    gaps = np.mean(runs, axis=0) - best
    bounds = binning_bound(np.arange(1, 13), start - best, norm, float(np.mean(kappas)))
    assert np.isfinite(bounds[-1])
    assert np.all(gaps <= bounds)


def test_draws_stay_below_their_bound_on_average_and_with_high_probability(rng):
    X = rng.normal(size=(120, 3))
    y, lam = np.where(X[:, 0] * X[:, 1] > 0, 1.0, -1.0), 5e-3
    kernel = Gaussian(0.5)
    K, loss = kernel(X), SquaredHinge()
    machine = exact.squared_hinge(K, y, lam, False)
    best = lam * machine.norm + float(loss.value(K @ machine.coef, y).mean())
    drawn = np.arange(1, 7) * 30
    runs = []
    for seed in range(4):
        map_ = RandomFourier(kernel, n_components=2, scale=False, random_state=seed).fit(X)
        search = WorkingSet(CoordinateDescent(tol=1e-4), 30, 6, tol=0.0, patience=6)
        found = search.solve(
            Stream(map_, X), lambda Z: Problem(Z, y, loss, L1(lam), fit_intercept=False)
        )
        runs.append([row.objective for row in found.rounds])
    size = np.sqrt(2)  # of cosines
    assert np.all(
        np.mean(runs, axis=0) - best <= draws_bound(drawn, 1 - best, machine.norm, size=size)
    )
    likely = draws_bound(drawn, 1 - best, machine.norm, size=size, failure=0.05)
    assert np.all(np.array(runs) - best <= likely)


# --- embedded features ------------------------------------------------------------------------


def test_the_ratio_is_that_of_the_spectrum(rng):
    K = Gaussian(0.3)(rng.normal(size=(80, 3)))
    values = linalg.eigvalsh(80 * K - K @ K)
    assert spread_ratio(K) == pytest.approx(2 * values.sum() / values[-1], rel=1e-2)


def test_random_fourier_features_stay_below_their_bound(table):
    X, kernel = table[0], Gaussian(1 / table[0].shape[1])
    K = kernel(X)
    norm, ratio = linalg.norm(K, 2), spread_ratio(K)
    for d in (20, 200, 2000):
        allowed = fourier_bound(120, d, ratio)
        for seed in range(4):
            Z = RandomFourier(kernel, n_components=d, form="pair", random_state=seed).fit(X)
            assert kernel_error((kernel, X), Z).spectral * norm <= allowed
    assert fourier_bound(120, 2000, ratio) < norm  # it says something there


@pytest.mark.parametrize(
    ("settings", "bound"),
    [
        ({"sketch": "gaussian", "power": 1}, embedding_bound),
        ({"sketch": "srht", "power": 0}, srht_bound),
    ],
    ids=["gaussian", "srht"],
)
def test_embedded_features_stay_below_their_bounds_which_fall_with_their_number(
    settings, bound, table
):
    X, kernel = table[0], Gaussian(1 / table[0].shape[1])
    K = kernel(X)
    norm, ratio = linalg.norm(K, 2), spread_ratio(K)
    allowed = []
    for size in (10, 40, 100):
        base = RandomFourier(kernel, n_components=4 * size, form="pair", random_state=0)
        map_ = SubspaceEmbedding(base, n_components=size, random_state=0, **settings).fit(X)
        allowed.append(float(bound(120, 4 * size, size, ratio)))
        assert kernel_error((kernel, X), map_).spectral * norm <= allowed[-1]
    assert allowed == sorted(allowed, reverse=True)


def test_bounds_of_embeddings_go_to_nothing_with_base_and_size():
    for bound, size in ((embedding_bound, 10**4), (srht_bound, 10**6)):
        small, large = bound(1.0, [10 * size] * 2, [size // 100, size], 100.0)
        assert large < 0.2 * small


def test_regularized_losses_differ_by_no_more_than_the_kernels_allow(table):
    X, y = (part[:100] for part in table)
    lam, kernel = 1e-2, Gaussian(1 / X.shape[1])
    K = kernel(X)

    def least(A):
        """The least of λ/2 ‖w‖² + mean ½ r², and the largest residual there."""
        a = np.linalg.solve(A + 100 * lam * np.eye(100), y)
        return 0.5 * lam * float(y @ a), float(np.abs(100 * lam * a).max())

    for d in (10, 100, 1000):
        Z = RandomFourier(kernel, n_components=d, random_state=0).fit_transform(X)
        value, slope = least(Z @ Z.T)
        more = value - least(K)[0]
        assert more <= learning_bound(linalg.norm(K - Z @ Z.T, 2), lam, slope, 100)


# --- asynchronous steps -----------------------------------------------------------------------


@pytest.mark.parametrize("delay", [0, 4])
def test_steps_that_theory_allows_fall_as_fast_as_it_says(delay, rng):
    Z = rng.normal(size=(60, 30))
    y = np.where(Z[:, 0] + 0.3 * rng.normal(size=60) > 0, 1.0, -1.0)
    problem = Problem(Dense(Z), y, Logistic(), L1(1e-3), fit_intercept=False)
    best = CoordinateDescent(tol=1e-10).solve(problem).coef
    n_inner = 40
    bounds = step_bounds(problem, delay, n_inner)
    gamma = 0.99 * bounds.convex
    runs = [
        simulate_delays(problem, delay, gamma, max_iter=8, n_inner=n_inner, random_state=k)
        for k in range(3)
    ]
    gaps = np.mean([run.objective for run in runs], axis=0) - problem.value(best)
    allowed = descent_bound(
        np.arange(9),
        gaps[0],
        float(np.linalg.norm(best)),
        step_size=gamma,
        largest=bounds.largest,
        n_coordinates=30,
        n_inner=n_inner,
    )
    assert np.all(gaps <= allowed)
    assert np.all(np.diff(allowed) < 0)


def test_strong_convexity_makes_the_rate_geometric():
    setting = {"step_size": 0.1, "largest": 1.0, "n_coordinates": 10, "n_inner": 100}
    slow, fast = (
        descent_bound(np.arange(0, 2000, 100), 1.0, 2.0, **setting, strong=strong)
        for strong in (0.0, 0.5)
    )
    assert slow[0] == fast[0]
    assert np.all(fast <= slow)
    assert fast[-1] < 1e-9 < slow[-1]
