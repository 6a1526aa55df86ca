"""Laws of what the papers' plans share: rows, sentences on what is left out, the order of data."""

import pytest

from mercer_studies import measures, plans
from mercer_studies.inputs import GENERATED
from mercer_studies.papers import Selected
from mercer_studies.sources import Source


def test_all_rows_are_no_limit():
    plan = plans.Plan(Source("generated-regression", "Theirs"), None, Selected())
    n = GENERATED[0]
    assert [plan.at_most(rows) for rows in (None, 100, n, 2 * n)] == [n, 100, n, n]
    assert [plan.unless_all(rows) for rows in (None, 100, n, 2 * n)] == [None, 100, None, None]
    assert plan.left_out(n, stands_in=False) == []
    assert plan.left_out(100, stands_in=True) == [
        "generated-regression stands in for Theirs.",
        f"generated-regression: 100 of its {n} training rows are fitted.",
    ]


def test_data_come_in_the_order_of_the_sources_whatever_is_selected():
    sources = {name: Source(name) for name in ("a", "b", "c")}
    assert plans.names_of(sources, ("c", "a"), Selected()) == ["a", "c"]
    assert plans.names_of(sources, ("a",), Selected(datasets=("c", "b"))) == ["b", "c"]


def test_a_difference_within_a_tie_is_none():
    numbers = {"score": {"test": {"relative_rmse": 0.5}}}
    assert measures.tie(numbers, 0.5) == pytest.approx(0.01)
    assert not measures.is_lower(0.5, 0.509, numbers)
    assert measures.is_lower(0.5, 0.511, numbers)
