"""Laws of the cost model of block coordinate descent."""

import numpy as np
import pytest

from mercer_studies.costs import epoch_cost, kernel_bytes


def test_the_kernel_matrices_of_the_paper_are_as_large_as_it_says():
    sizes = {2_251_569: 40.56, 1_255_412: 12.61, 500_000: 2.00}
    for n, terabytes in sizes.items():
        assert round(kernel_bytes(n) / 1e12, 2) == terabytes
    assert kernel_bytes(1000, itemsize=4) == kernel_bytes(1000) / 2


@pytest.mark.parametrize("machines", [1, 8, 128])
def test_costs_are_those_of_table_1(machines):
    n, p, b, k = 12_000, 4000, 500, 7
    full = epoch_cost("exact", n, block_size=b, n_outputs=k, n_machines=machines)
    assert full.total_flops == pytest.approx((n * b * k / machines + b**3) * n / b)
    assert full.total_words == pytest.approx(b**2 * n / b)
    for method in ("nystroem", "fourier"):
        some = epoch_cost(method, n, p, block_size=b, n_outputs=k, n_machines=machines)
        per_block = n * b**2 / machines + n * b * k / machines + b**3
        assert some.total_flops == pytest.approx(per_block * p / b)
        assert some.total_words == pytest.approx(b**2 * np.log2(machines) * p / b)
        assert some.total_bytes == 8 * some.total_words


def test_the_extended_form_adds_what_table_1_leaves_out():
    n, p, b, k, d, machines = 12_000, 4000, 500, 7, 30, 8
    sizes = {"block_size": b, "n_outputs": k, "n_machines": machines}
    for method, features, steps in (("exact", None, n / b), ("nystroem", p, p / b)):
        short = epoch_cost(method, n, features, **sizes)
        long = epoch_cost(method, n, features, **sizes, n_inputs=d, extended=True)
        words = (b * d + b * k) * 3 if method == "exact" else b * k * 3 + b * k
        assert long.total_words - short.total_words == pytest.approx(words * steps)
        assert long.total_flops - short.total_flops == pytest.approx(n * b * d / 8 * steps)


def test_only_the_tree_of_sums_grows_with_the_machines():
    one, many = (
        epoch_cost("fourier", 1000, 100, block_size=50, n_machines=m, n_inputs=3, extended=True)
        for m in (1, 64)
    )
    assert one.words["gram"] == 0
    assert many.words["gram"] == 6 * 50**2 * 2
    assert one.flops["solve"] == many.flops["solve"]
    assert one.flops["gram"] == 64 * many.flops["gram"]


def test_a_ragged_last_block_counts_for_its_share():
    cost = epoch_cost("fourier", 100, 25, block_size=10)
    assert cost.n_blocks == 3
    assert cost.flops["gram"] == pytest.approx(100 * 10 * 25)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"method": "full"}, "method must be one of"),
        ({"method": "exact"}, "n_features must be left out for the full kernel; got 50"),
        ({"n_features": None}, "n_features must be given for 'fourier'"),
        ({"block_size": 51}, "block_size must be at most the number of unknowns, 50"),
        ({"extended": True}, "n_inputs must be given"),
        ({"n_machines": 0}, "n_machines must be at least 1"),
    ],
    ids=["method", "exact", "none", "block", "inputs", "machines"],
)
def test_costs_refuse_what_makes_no_sense(arguments, said):
    given = {"method": "fourier", "n_rows": 100, "n_features": 50, "block_size": 10}
    with pytest.raises(ValueError, match=said):
        epoch_cost(**{**given, **arguments})
