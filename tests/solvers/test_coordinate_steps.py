"""Laws of the steps of coordinate descent: what they keep from one to the next."""

import numpy as np
import pytest
from scipy import sparse

from mercer.designs import Binned, Dense, Sparse
from mercer.losses import Logistic, SquaredHinge
from mercer.penalties import L1
from mercer.problem import Problem
from mercer.solvers import CoordinateDescent
from mercer.solvers.coordinate import descent
from mercer.solvers.coordinate.columns import columns_of
from mercer.solvers.coordinate.steps import Steps

N, GRIDS, BINS = 900, 20, 12


def bins(rng):
    """A binned design of smooth inputs, and labels that depend on them."""
    x = rng.normal(size=(N, 2))
    points = x @ rng.normal(size=(2, GRIDS)) + rng.random(GRIDS)
    codes = np.clip((points * 2 + BINS / 2).astype(int), 0, BINS - 1).T.astype(np.uint8)
    y = np.where(np.sin(2 * x[:, 0]) + x[:, 1] ** 2 + 0.3 * rng.normal(size=N) > 1, 1.0, -1.0)
    return Binned(codes, np.arange(GRIDS + 1) * BINS, GRIDS**-0.5), y


def problem_of(rng, loss, share=1e-3, weights=None):
    design, y = bins(rng)
    problem = Problem(design, y, loss, L1(1.0), weights)
    return problem.with_penalty(L1(share * problem.alpha_max()))


@pytest.mark.parametrize("weighted", [False, True])
def test_curvatures_of_lists_are_sums_over_the_rows(weighted, rng):
    Z = rng.normal(size=(N, 8)) * (rng.random((N, 8)) < 0.3)
    ids, kept = np.array([0, 3, 4, 7]), np.flatnonzero(rng.random(N) < 0.6)
    for design in (Dense(Z), Sparse(sparse.csr_array(Z)), bins(rng)[0]):
        lists = design.lists(ids, kept if weighted else None)
        h = rng.random(len(kept)) if weighted else None
        squares = design.block(ids)[kept if weighted else slice(None)] ** 2
        expected = (np.ones(len(squares)) if h is None else h) @ squares / N
        np.testing.assert_allclose(lists.curvatures(h, N), expected, rtol=1e-12)


@pytest.mark.parametrize("missing", [False, True])
def test_products_of_bins_leave_out_grids_without_weights(missing, rng):
    codes = rng.integers(BINS + missing, size=(GRIDS, N)).astype(np.uint8)
    design = Binned(codes, np.arange(GRIDS + 1) * BINS, 0.3, missing=missing)
    w, found = np.zeros(GRIDS * BINS), columns_of(design)
    for grids in ([], [4], [0, 7, GRIDS - 1], range(GRIDS)):
        for grid in grids:
            w[grid * BINS : (grid + 1) * BINS : 3] = rng.normal(size=4)
        np.testing.assert_allclose(found.matvec(w), design.block(np.arange(len(w))) @ w, atol=1e-13)


@pytest.mark.parametrize("loss", [Logistic(), SquaredHinge()], ids=lambda loss: loss.name)
def test_lists_of_columns_serve_while_they_have_what_is_needed(loss, monkeypatch):
    listed, lists = [], Binned.lists
    counted = lambda *arguments: listed.append(arguments) or lists(*arguments)  # noqa: E731
    monkeypatch.setattr(Binned, "lists", counted)
    solver = CoordinateDescent(tol=1e-9, method="descent")
    problems = [problem_of(np.random.default_rng(seed), loss) for seed in (0, 1, 3)]
    found = []
    for problem in problems:
        states: list = []
        found.append(solver.solve(problem, callback=states.append))
        assert found[-1].converged
        assert all(each.steps.held is None for each in states[-1].outputs)
    assert len(listed) < sum(solution.n_iter for solution in found)
    monkeypatch.setattr(descent, "_ROOMY", 0)  # new lists for every step
    listed.clear()
    again = solver.solve(problems[0])
    assert len(listed) == again.n_iter
    start = problems[0].value(problems[0].initial())
    assert abs(again.trace[-1].objective - found[0].trace[-1].objective) <= 2e-9 * start


def test_rows_tell_the_curvature_that_they_had_on_the_way(rng):
    weights = rng.uniform(0.5, 2.0, size=N)
    problem = problem_of(rng, Logistic(), weights=weights)
    solver, states = CoordinateDescent(tol=1e-3), []
    solver.solve(problem, callback=states.append)
    output = states[-1].outputs[0].output
    steps = Steps(output, states[-1].clock)
    start = output.at(np.zeros(problem.design.shape[1]))
    ids = np.arange(40)
    # A step twenty times as far as Newton's for one column promises much and keeps little.
    change = np.where(ids == 7, -300.0 * start.gradient[7], 0.0)
    better = steps.search(start, ids, change, np.full(N, 1e-6))
    assert better is not None
    assert steps.shown is not None
    moved = (better.linear + better.intercept) - (start.linear + start.intercept)
    far = np.abs(moved) > 1e-3
    assert np.any(far)
    slopes = output.weights * (better.a - start.a)
    np.testing.assert_allclose(steps.shown[far], (slopes / moved)[far], rtol=1e-9)
    assert np.all(steps.curvature(better) >= steps.shown)
    # What a model of them promises is kept, so that they are forgotten.
    small = steps.search(better, ids, -1e-3 * better.gradient[ids], output.curvature(better))
    assert small is not None
    assert steps.shown is None
