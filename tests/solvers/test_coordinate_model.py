"""Laws of the quadratic models of working sets."""

import numpy as np
import pytest

from mercer import _core
from mercer.solvers.coordinate import model
from mercer.solvers.coordinate.model import Model, minimise

P = 40


def problem(rng, share, l2=0.0, rank=P):
    """A model of correlated columns, and its largest strength times ``share``."""
    mixed = 0.3 * np.eye(rank, P) + rng.normal(size=(rank, P)) / np.sqrt(P)
    Z = rng.normal(size=(3 * P, rank)) @ mixed
    gram, linear = Z.T @ Z / len(Z), Z.T @ rng.normal(size=len(Z)) / len(Z)
    return Model(gram, linear, share * float(np.abs(linear).max()), l2, 100.0)


def swept(given, sweeps=200_000):
    """The minimiser by plain descent."""
    w, gradient = np.zeros(P), -given.linear
    l1, l2 = np.full(P, given.l1), np.full(P, given.l2)
    _core.descend_gram(given.gram, l1, l2, w, gradient, sweeps, 1e-16)
    return w


@pytest.mark.parametrize("share", [0.3, 0.05, 0.005])
@pytest.mark.parametrize("l2", [0.0, 0.01])
def test_steps_within_orthants_end_where_sweeps_do_after_a_few_factors(share, l2, rng, monkeypatch):
    factors = []
    whole = model.cho_factor
    monkeypatch.setattr(
        model, "cho_factor", lambda *given, **how: factors.append(1) or whole(*given, **how)
    )
    for _ in range(5):
        given = problem(rng, share, l2)
        found = minimise(given, np.zeros(P), 1e-8)
        np.testing.assert_allclose(found, swept(given), atol=1e-5)
        assert given.excess(found, given.gram @ found - given.linear) <= 1e-8
    assert len(factors) <= 5 * 8


@pytest.mark.parametrize("rank", [P // 2, P])
def test_columns_that_depend_on_each_other_are_minimised_as_well(rank, rng):
    given = problem(rng, 0.01, rank=rank)
    twice = np.tile(np.arange(P // 2), 2)
    for each in (
        given,
        Model(given.gram[np.ix_(twice, twice)], given.linear[twice], given.l1, 0.0, 100.0),
    ):
        found = minimise(each, np.zeros(P), 1e-8)
        assert each.excess(found, each.gram @ found - each.linear) <= 1e-7
