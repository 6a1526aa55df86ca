"""Laws of rows shared among simulated workers: one model, words as the cost model says."""

import re
import warnings
from dataclasses import dataclass, field

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from mercer._runtime.validation import positive_integer
from mercer.designs import Dense, KernelColumns
from mercer.equations import Equations, equations_of
from mercer.kernels import Gaussian
from mercer.losses import Squared
from mercer.penalties import L2, RKHSNorm
from mercer.problem import Problem
from mercer.solvers import BlockCoordinateDescent
from mercer_studies.costs import epoch_cost


@dataclass
class Meter:
    """Counts the numbers that workers send each other, by what they are."""

    words: dict[str, float] = field(default_factory=dict)

    def add(self, kind: str, words: float) -> None:
        """Count some."""
        self.words[kind] = self.words.get(kind, 0.0) + words

    @property
    def total(self) -> float:
        """All of them."""
        return sum(self.words.values())


class ShardedProblem(Problem):
    """A problem whose linear equations are summed over workers that share the rows.

    The workers are simulated: what each would do is done in turn, and what they would send each
    other is counted. Solvers of linear equations take it as they take any problem. ``problem``:
    with linear equations; ``n_workers``: at most one for every row. ``meter``: numbers sent so far,
    by what they are.
    """

    def __init__(self, problem: Problem, n_workers: int):
        self.__dict__.update(problem.__dict__)
        self.n_workers = positive_integer(n_workers, "n_workers")
        if self.n_workers > self.n_rows:
            raise ValueError(
                f"n_workers must be at most the number of rows, {self.n_rows}; got {n_workers}."
            )
        self.meter = Meter()


@equations_of.register(ShardedProblem)
def _(problem: ShardedProblem, alphas: np.ndarray) -> Equations:
    """Equations in one part for each worker, whose messages the meter counts."""
    whole = equations_of.dispatch(Problem)(problem, alphas, problem.n_workers)
    whole.sent = problem.meter.add
    return whole


N, P = 44, 15
ALPHAS = [0.3, 0.03, 0.1]


@pytest.fixture(params=["features", "nystroem", "exact"])
def kind(request):
    return request.param


def make(kind, rng, n_outputs, fit_intercept=True):
    """A problem of a kind; landmarks of "nystroem" are no rows."""
    X, y = rng.normal(size=(N, 3)), rng.normal(size=(N, n_outputs)) + 1.5
    if kind == "features":
        design, penalty = Dense(rng.normal(size=(N, P)) + 0.4), L2(0.02)
    else:
        landmarks = rng.normal(size=(P, 3)) if kind == "nystroem" else None
        design = KernelColumns(X, Gaussian(0.3), landmarks)
        jitter = 0.1 if kind == "nystroem" else 0.0
        penalty = RKHSNorm(0.02, design.landmark_design(), jitter)
    return Problem(design, y, Squared(), penalty, None, fit_intercept)


def epochs(n, block_size=8, **settings):
    settings = {"tol": 0.0, "accelerated": False} | settings
    return BlockCoordinateDescent(max_iter=n, block_size=block_size, **settings)


def quietly(solver, problem):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return solver.solve(problem)


@pytest.mark.parametrize("n_workers", [2, 4, 7])
def test_any_number_of_workers_finds_the_same_model(kind, n_workers, rng):
    problem = make(kind, rng, 2)
    solver = epochs(6, accelerated=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        alone = solver.solve_path(problem, ALPHAS)
        shared = solver.solve_path(ShardedProblem(problem, n_workers), ALPHAS)
    for one, other in zip(alone, shared, strict=True):
        np.testing.assert_allclose(one.coef, other.coef, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("n_workers", [2, 4, 8])
def test_workers_send_what_the_cost_model_says(kind, n_workers, rng):
    problem = make(kind, rng, 3, fit_intercept=False)
    n, p = problem.design.shape
    b = 5 if kind != "exact" else 11
    shared = ShardedProblem(problem, n_workers)
    quietly(epochs(1, block_size=b), shared)
    method = {"features": "fourier"}.get(kind, kind)
    cost = epoch_cost(
        method,
        n,
        None if kind == "exact" else p,
        block_size=b,
        n_outputs=3,
        n_machines=n_workers,
        n_inputs=3,
        extended=True,
    )
    words = shared.meter.words
    assert {what: words[what] for what in cost.words} == cost.words


def test_a_checkpoint_of_one_machine_is_none_of_several(tmp_path, rng):
    problem = make("features", rng, 1)
    solver = BlockCoordinateDescent(
        1e-9, 6000, block_size=8, checkpoint=tmp_path, checkpoint_every=1, trace="block"
    )

    def interrupt(state):
        raise KeyboardInterrupt

    solver.solve(problem, None, interrupt)
    said = "checkpoint must be a folder of the same fit: data, settings or alphas differ from"
    with pytest.raises(ValueError, match=f"^{re.escape(said)}"):
        solver.solve(ShardedProblem(problem, 2))
    assert solver.solve(problem).converged


def test_more_workers_than_rows_are_refused(rng):
    with pytest.raises(ValueError, match=r"n_workers must be at most the number of rows, 44; got"):
        ShardedProblem(make("features", rng, 1), 45)
