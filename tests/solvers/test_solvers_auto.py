"""Which solver is chosen for what: linear equations of every kind and size."""

import numpy as np
import pytest

from _machines import KERNEL, exact, restricted
from mercer import solvers
from mercer.designs import KernelColumns, Lazy
from mercer.losses import Squared
from mercer.maps import RandomFourier
from mercer.penalties import L2, RKHSNorm
from mercer.problem import Problem


def machine(n, p=None, alpha=0.1):
    """A machine whose kernel nobody looks at."""
    X = np.zeros((n, 1), dtype=np.float32)
    design = KernelColumns(X, KERNEL, landmarks=None if p is None else X[:p])
    matrix = design if p is None else design.landmark_design()
    return Problem(design, np.zeros(n), Squared(), RKHSNorm(alpha, matrix))


@pytest.mark.parametrize(
    ("n", "p", "name"),
    [
        (2000, None, "cholesky"),
        (2001, None, "cg"),
        (100_000, None, "cg"),
        (20_000, 4000, "cholesky"),
        (20_000, 4001, "cg"),
        (20_000, 8000, "cg"),
        (20_000, 8001, "block"),
        (200_000, 100_000, "block"),
    ],
)
def test_machines_get_a_solver_by_their_size(monkeypatch, n, p, name):
    monkeypatch.setattr(solvers, "available_memory", lambda: 16e9)
    assert solvers.auto(machine(n, p)).name == name


@pytest.mark.parametrize(
    ("n", "alpha", "name"), [(8000, 2e-8, "cg"), (8000, 1e-8, "cholesky"), (8001, 1e-8, "cg")]
)
def test_machines_with_next_to_no_ridge_are_solved_directly_for_longer(n, alpha, name, monkeypatch):
    monkeypatch.setattr(solvers, "available_memory", lambda: 16e9)
    assert solvers.auto(machine(n, alpha=alpha)).name == name  # n alpha about 1e-4, k(x, x) = 1


@pytest.mark.parametrize(("make", "name"), [(exact, "cg"), (restricted, "block")])
def test_machines_that_do_not_fit_are_not_solved_directly(monkeypatch, make, name, rng):
    monkeypatch.setattr(solvers, "available_memory", lambda: 1000.0)
    assert solvers.auto(make(rng)).name == name


def test_columns_that_are_made_anew_go_to_block_descent(rng):
    X = rng.normal(size=(5000, 2))
    fourier = RandomFourier(gamma=1.0, n_components=4200, random_state=0).fit(X)
    lazy = Lazy(X, fourier, fourier.n_features_out_)
    assert solvers.auto(Problem(lazy, np.zeros(5000), Squared(), L2(0.1))).name == "block"


@pytest.mark.parametrize("make", [exact, restricted])
@pytest.mark.parametrize("name", ["cholesky", "cg", "block", "auto"])
def test_every_linear_solver_finds_the_same_machine(name, make, rng):
    problem = make(rng, n_outputs=2, alpha=1e-3)
    results = [solvers.get(one, problem, tol=1e-9).solve(problem) for one in (name, "cholesky")]
    assert results[0].criterion == "residual"
    np.testing.assert_allclose(
        problem.responses(results[0].coef), problem.responses(results[1].coef), atol=1e-5
    )
