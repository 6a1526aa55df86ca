"""The map of local kernel machines: which rows are in which leaf, in what shares, and its laws."""

import contextlib
import copy

import numpy as np
import pytest
from scipy import sparse

from mercer import config_context
from mercer.designs import Local
from mercer.kernels import Laplacian
from mercer.maps import LocalKernel
from mercer.maps.partition import Partition, expected_growth, grown
from test_maps_base import MapLaws


class TestLocalKernel(MapLaws):
    may_be_lazy = False  # its design never holds the kernel

    def make(self, **settings):
        return LocalKernel(gamma=0.3, leaf_size=12, n_trees=2, random_state=1, **settings)


def cloud(n=600, d=3, seed=0):
    return np.random.default_rng(seed).normal(size=(n, d))


def trees(X, leaf_size=50, n_trees=2, overlap=0.05, n_jobs=1):
    return grown(X, leaf_size, n_trees, overlap, 7, n_jobs)


def walked(partition, x, root):
    """Shares of the leaves in the answer for one row, by the definition."""
    if root < 0:
        return {~root: 1.0}
    low, high = partition.low[root], partition.high[root]
    left = np.clip((high - partition.directions[root].astype(float) @ x) / (high - low), 0, 1)
    found = {}
    for child, share in zip(partition.children[root], (left, 1 - left), strict=True):
        if share > 0:
            for leaf, part in walked(partition, x, int(child)).items():
                found[leaf] = share * part
    return found


def shares(partition, X):
    """(n, n_leaves), from the routes."""
    out = np.zeros((X.shape[0], partition.n_leaves))
    for route in partition.routes(X):
        out[route.rows, route.leaf] = route.shares
    return out


def sizes(members):
    return np.diff(members.starts)


def str_only(value):
    """The word that names a case."""
    return value if isinstance(value, str) else ""


def same(one, other):
    return all(
        np.array_equal(a, b) for a, b in zip(vars(one).values(), vars(other).values(), strict=True)
    )


# --- rows of leaves --------------------------------------------------------------------------


@pytest.mark.parametrize("overlap", [0.0, 0.05, 0.25])
@pytest.mark.parametrize("leaf_size", [2, 3, 7, 50, 599, 600])
def test_no_leaf_is_too_large_or_empty_and_no_row_is_lost(leaf_size, overlap):
    X = cloud(150 if leaf_size < 10 else 600)
    partition, members = trees(X, leaf_size, 1, overlap)
    assert len(members) == partition.n_leaves
    assert 1 <= sizes(members).min() <= sizes(members).max() <= leaf_size
    assert set(members.order) == set(range(len(X)))
    for leaf in range(len(members)):
        assert (np.diff(members.of(leaf)) > 0).all()
        np.testing.assert_array_equal(members.order[members.places(leaf)], members.of(leaf))


@pytest.mark.parametrize("overlap", [0.0, 0.02, 0.1, 0.25])
def test_routes_are_the_walk_of_every_row_and_shares_sum_to_one(overlap):
    X, new = cloud(), cloud(80, seed=1)
    partition, _ = trees(X, overlap=overlap)
    found = shares(partition, new)
    np.testing.assert_allclose(found.sum(axis=1), 1, rtol=1e-12)
    for x, row in zip(new, found, strict=True):
        wanted = np.zeros(partition.n_leaves)
        for root in partition.roots:
            for leaf, share in walked(partition, x, int(root)).items():
                wanted[leaf] = share / 2
        np.testing.assert_allclose(row, wanted, atol=1e-9)
    leaves = [route.leaf for route in partition.routes(new)]
    assert leaves == sorted(set(leaves))


@pytest.mark.parametrize("overlap", [0.0, 0.02, 0.1, 0.25])
def test_a_leaf_is_fitted_to_the_rows_that_it_answers_for(overlap):
    X = cloud()
    partition, members = trees(X, overlap=overlap)
    for route in partition.routes(X):
        np.testing.assert_array_equal(members.of(route.leaf), route.rows)


def test_without_overlap_a_row_is_in_one_leaf_of_every_tree_and_halves_are_equal():
    X = np.random.default_rng(0).permutation(np.arange(512.0))[:, None]  # no two within a cut
    partition, members = trees(X, 16, 3, 0.0)
    np.testing.assert_array_equal(sizes(members), np.full(96, 16))
    assert (np.bincount(members.order) == 3).all()
    assert ((shares(partition, X) > 0).sum(axis=1) == 3).all()


@pytest.mark.parametrize("overlap", [0.05, 0.1, 0.2])
def test_both_sides_of_a_cut_have_half_of_the_rows_and_the_overlap(overlap):
    _, members = trees(cloud(1000), 999, 4, overlap)
    np.testing.assert_allclose(sizes(members), (0.5 + overlap) * 1000, atol=1)


@pytest.mark.parametrize("overlap", [0.0, 0.05, 0.2])
def test_the_rows_of_all_leaves_are_about_as_many_as_expected(overlap):
    _, members = trees(cloud(2000), 100, 1, overlap)
    growth = len(members.order) / 2000
    assert growth <= expected_growth(2000, 100, overlap) * 1.01
    assert growth >= expected_growth(2000, 100, overlap) / (1 + 2 * overlap) * 0.99
    assert expected_growth(100, 100, overlap) == expected_growth(5, 100, overlap) == 1


def test_long_sides_are_cut_more_often_than_short_ones():
    X = cloud(2000, 2) * [10.0, 1.0]
    partition, _ = trees(X, 500, 20, 0.0)
    tops = partition.directions[partition.roots]
    assert (abs(tops[:, 0]) > abs(tops[:, 1])).mean() > 0.8


# --- rows that are alike ---------------------------------------------------------------------


def alike(n=400):
    rng = np.random.default_rng(0)
    yield "all", np.full((n, 3), 2.5)
    yield "zeros", np.zeros((n, 3))
    yield "most", np.where(np.arange(n)[:, None] < 0.9 * n, 1.0, rng.normal(size=(n, 3)))
    yield "few values", rng.integers(0, 3, size=(n, 1)).astype(float)
    yield "few rows", rng.normal(size=(5, 3))[rng.integers(0, 5, n)]
    yield "one apart", np.eye(n, 2)
    yield "far from zero", 1e9 + 1e-6 * rng.integers(0, 3, size=(n, 2))
    yield "tiny", 1e-300 * rng.normal(size=(n, 2))
    # A side with all rows but few within the cut: such a cut would be made again for ever.
    near = np.concatenate([rng.uniform(-1, -0.5, n // 4), np.full(3 * n // 20, -0.9e-5)])
    yield "nearly alike", np.append(near, np.zeros(n - len(near)))[:, None]


@pytest.mark.parametrize("overlap", [0.0, 0.05, 0.25])
@pytest.mark.parametrize(("name", "X"), list(alike()), ids=str_only)
def test_rows_that_are_alike_end_in_balanced_leaves(name, X, overlap):
    partition, members = trees(X, 30, 2, overlap)
    partition.check(X.shape[1])
    assert 1 <= sizes(members).min() <= sizes(members).max() <= 30
    assert set(members.order) == set(range(len(X)))
    found = shares(partition, X)
    np.testing.assert_allclose(found.sum(axis=1), 1, rtol=1e-12)
    if name in ("all", "zeros"):
        assert ((found > 0).sum(axis=1) == 2).all()  # a leaf of each tree answers for all of them
        assert sizes(members).min() >= 25  # 400 halved to 25, whatever the overlap
        assert len(members.order) == 2 * len(X)


def test_columns_that_are_constant_change_no_cut():
    X = cloud()
    wide = np.column_stack([X, np.full(len(X), 3.0), np.zeros(len(X))])
    one, other = trees(X), trees(wide)
    np.testing.assert_array_equal(one[1].order, other[1].order)
    np.testing.assert_allclose(other[0].directions[:, :3], one[0].directions, atol=1e-6)
    np.testing.assert_allclose(other[0].directions[:, 3:], 0, atol=1e-6)


# --- what changes nothing --------------------------------------------------------------------


@pytest.mark.parametrize("overlap", [0.0, 0.05])
def test_rows_of_any_type_are_cut_in_the_same_places(overlap):
    X = cloud().astype(np.float32).astype(np.float64)
    X[abs(X) < 0.3] = 0
    partition, members = trees(X, overlap=overlap)
    for form in (X.astype(np.float32), sparse.csr_array(X), sparse.csr_array(X, dtype="f")):
        other, others = trees(form, overlap=overlap)
        np.testing.assert_array_equal(others.order, members.order)
        np.testing.assert_array_equal(other.children, partition.children)
        np.testing.assert_allclose(other.directions, partition.directions, atol=1e-6)
        np.testing.assert_allclose(other.low, partition.low, atol=1e-5)
        np.testing.assert_allclose(shares(partition, form), shares(partition, X), atol=1e-4)


@pytest.mark.rounding
def test_threads_change_no_bit():
    X = cloud()
    for one, other in zip(trees(X, n_trees=5), trees(X, n_trees=5, n_jobs=3), strict=True):
        assert same(one, other)


def test_one_seed_is_one_partition_and_another_seed_another():
    X = cloud()
    made = [grown(X, 50, 2, 0.05, key, 1)[0] for key in (7, 7, 8)]
    assert same(made[0], made[1])
    assert not same(made[0], made[2])


@pytest.mark.parametrize("leaf_size", [50, 600])
def test_the_first_trees_are_those_of_a_smaller_forest(leaf_size):
    X = cloud()
    partition, members = trees(X, leaf_size, 4)
    for count in (1, 2, 3, 4):
        fewer, of_fewer = trees(X, leaf_size, count)
        assert same(partition.first_trees(count), fewer)
        np.testing.assert_array_equal(members.order[: len(of_fewer.order)], of_fewer.order)
        np.testing.assert_array_equal(members.starts[: len(of_fewer) + 1], of_fewer.starts)


def test_a_map_of_fewer_trees_is_the_map_of_these():
    X = cloud()
    settings = {"gamma": 0.5, "leaf_size": 100, "random_state": 3}
    four = LocalKernel(n_trees=4, **settings).fit(X)
    two = LocalKernel(n_trees=2, **settings).fit(X)
    difference = four.with_trees(2).transform(X) - two.transform(X)
    assert abs(difference).max() == 0
    for count in (0, 5):
        with pytest.raises(ValueError, match=r"count must be at (least 1|most .* trees, 4); got"):
            four.with_trees(count)


# --- the design ------------------------------------------------------------------------------


@pytest.mark.parametrize("sparse_rows", [False, True])
def test_a_design_is_the_kernel_of_the_leaves_times_shares(sparse_rows):
    X, new = cloud(80), cloud(30, seed=1)
    form = sparse.csr_array if sparse_rows else np.asarray
    map_ = LocalKernel(gamma=0.5, leaf_size=30, n_trees=2, overlap=0.2, random_state=0).fit(form(X))
    members, expected = map_.members_, np.zeros((30, map_.n_features_out_))
    for route in map_.partition_.routes(new):
        own = Laplacian(0.5)(new[route.rows], X[members.of(route.leaf)])
        places = np.arange(len(members.order))[members.places(route.leaf)]
        expected[np.ix_(route.rows, places)] = route.shares[:, None] * own
        expected[route.rows, len(members.order) + route.leaf] = route.shares
    design = map_.design(form(new))
    assert isinstance(design, Local)
    np.testing.assert_allclose(design.toarray(), expected, atol=1e-12)
    rng = np.random.default_rng(0)
    for shape in ((), (3,)):
        w, v = rng.normal(size=(expected.shape[1], *shape)), rng.normal(size=(30, *shape))
        np.testing.assert_allclose(design.matvec(w), expected @ w, atol=1e-11)
        np.testing.assert_allclose(design.rmatvec(v), expected.T @ v, atol=1e-11)
    weights = rng.uniform(size=30)
    np.testing.assert_allclose(design.gram(weights), expected.T @ (weights[:, None] * expected))
    np.testing.assert_allclose(design.column_sqnorms(weights), weights @ expected**2)
    for index in (slice(5, 20), np.array([3, 3, 1]), np.arange(30) % 2 == 0, np.array([], int)):
        np.testing.assert_allclose(design.rows(index).toarray(), expected[index], atol=1e-12)


# --- what is refused -------------------------------------------------------------------------


def edits():
    """Of a partition with at least two trees of some cuts: a name, an attribute, the edit."""
    yield "a cycle", "children", lambda a: np.where(a == a.max(), 0, a)
    yield "itself", "children", lambda a: np.where(np.indices(a.shape).sum(0) == 0, 0, a)
    yield "a shared child", "children", lambda a: np.where(a == -2, -1, a)
    yield "a cut that is not there", "children", lambda a: np.where(a == a.max(), 10**6, a)
    yield "a leaf that is not there", "children", lambda a: np.where(a == a.min(), -(10**6), a)
    yield "parents after children", "children", lambda a: a[::-1].copy()
    yield "another type", "children", lambda a: a.astype(np.int32)
    yield "three children", "children", lambda a: np.column_stack([a, a[:, :1]])
    yield "no tree", "roots", lambda a: a[:0]
    yield "one root twice", "roots", lambda a: a[[0, 0]]
    yield "a low above high", "low", lambda a: a + 1e3
    yield "no width", "high", lambda a: a - a
    yield "not a number", "low", lambda a: a * np.nan
    yield "endless", "high", lambda a: a * np.inf
    yield "too short", "high", lambda a: a[:-1]
    yield "a direction to nowhere", "directions", lambda a: a * np.float32("nan")
    yield "directions of long type", "directions", lambda a: a.astype(np.float64)
    yield "another dimension", "directions", lambda a: a[:, :1]
    yield "nothing", "roots", lambda a: None


@pytest.mark.parametrize(("name", "attribute", "edit"), list(edits()), ids=str_only)
def test_arrays_that_make_no_trees_are_refused_in_a_copy(name, attribute, edit):
    X = cloud(100)
    map_ = LocalKernel(gamma=0.5, leaf_size=10, n_trees=2, random_state=0).fit(X)
    arrays = vars(map_.partition_)
    map_.partition_ = Partition(**arrays | {attribute: edit(arrays[attribute])})
    with pytest.raises(ValueError, match=r"^\w+ of a fitted Partition must .*: fit it again\.$"):
        copy.copy(map_)
    with contextlib.suppress(Exception):
        map_.transform(X)  # ends, in an exception or in other features


@pytest.mark.parametrize("sparse_rows", [False, True])
def test_a_walk_through_a_cycle_of_cuts_is_refused(sparse_rows):
    X = (sparse.csr_array if sparse_rows else np.asarray)(cloud(100))
    map_ = LocalKernel(gamma=0.5, leaf_size=10, n_trees=2, random_state=0).fit(X)
    children = map_.partition_.children
    children[children == children.max()] = 0
    with pytest.raises(ValueError, match=r"^children .*must "):
        map_.transform(X)


def test_members_that_divide_no_rows_are_refused():
    X = cloud(100)
    for name, edit in (
        ("order", lambda a: a + 1),
        ("order", lambda a: a[:-1]),
        ("starts", lambda a: a[::-1].copy()),
        ("starts", lambda a: a[:-1]),
        ("starts", lambda a: np.where(a == a[1], 0, a)),
    ):
        map_ = LocalKernel(gamma=0.5, leaf_size=10, random_state=0).fit(X)
        arrays = vars(map_.members_)
        map_.members_ = type(map_.members_)(**arrays | {name: edit(arrays[name])})
        with pytest.raises(ValueError, match=r"^\w+ of a fitted Members must .*: fit it again\.$"):
            copy.copy(map_)


def test_rows_whose_projections_overflow_are_refused_by_a_fit_and_halved_later():
    X = cloud(100)
    huge = np.where(X > 0, 1.7e308, -1.7e308)
    with np.errstate(all="raise"), pytest.raises(ValueError, match="X is too large to be cut"):
        trees(huge, 20)
    partition, _ = trees(X, 20)
    with np.errstate(all="raise"):
        np.testing.assert_allclose(shares(partition, huge).sum(axis=1), 1, rtol=1e-12)


def test_trees_that_would_not_fit_in_memory_are_refused_before_they_grow():
    with (
        config_context(max_memory="16MB"),
        pytest.raises(MemoryError, match=r"n_trees=1000 with overlap=0\.25 of 600 rows needs"),
    ):
        LocalKernel(leaf_size=2, n_trees=1000, overlap=0.25).fit(cloud())
