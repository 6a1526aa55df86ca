"""Laws of random binning (T-F1) and the map's own rules."""

import pickle

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone

from mercer import KernelRegressor, kernels
from mercer._runtime.random import Slot, Streams
from mercer.maps import RandomBinning, binning
from mercer.maps.codes import in_bytes

pytestmark = pytest.mark.rounding


def data(n=200, d=4, seed=0, dtype=np.float64):
    return np.random.default_rng(seed).normal(size=(n, d)).astype(dtype)


def tuples(map_, X, grid):
    """The boxes of one grid as tuples, straight from the definition."""
    streams = Streams(map_.key_, np.array([grid]))
    widths = map_.kernel_.widths(streams, X.shape[1])[0]
    shifts = streams.uniform(X.shape[1], slot=Slot.SHIFT)[0]
    return [tuple(row) for row in np.floor(X * (1 / widths) - shifts).astype(np.int64)]


def same_box(rows):
    return np.array([[a == b for b in rows] for a in rows])


@pytest.mark.parametrize("bins", ["exact", 64])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rows_hold_one_equal_entry_per_grid(bins, dtype):
    X = data(dtype=dtype)
    map_ = RandomBinning(gamma=0.5, n_components=25, bins=bins, random_state=0)
    Z = map_.fit_transform(X)
    assert Z.dtype == dtype
    assert Z.shape == (200, map_.n_features_out_)
    assert (np.diff(Z.indptr) == 25).all()
    np.testing.assert_array_equal(Z.data, dtype(1 / 5))
    np.testing.assert_allclose((Z.multiply(Z)).sum(axis=1), 1, rtol=1e-6)
    for start, stop in zip(map_._offsets[:-1], map_._offsets[1:], strict=True):
        np.testing.assert_allclose(Z[:, start:stop].sum(axis=1) * 5, 1, rtol=1e-6)
    if bins == "exact":
        assert 25 <= map_.n_features_out_ <= 200 * 25
        assert (Z.sum(axis=0) > 0).all()


def test_boxes_are_those_of_the_tuples():
    X = data(300, 3)
    map_ = RandomBinning(gamma=0.7, n_components=40, random_state=3).fit(X)
    codes = map_.design(X).codes
    for grid in range(40):
        assert (same_box(codes[grid]) == same_box(tuples(map_, X, grid))).all()


@pytest.mark.parametrize("gamma", [5e-324, 1e-310])
def test_one_bin_holds_all_rows_at_a_gamma_near_zero(gamma):
    map_ = RandomBinning(gamma=gamma, n_components=4, random_state=0).fit(data())
    assert map_.n_bins_.tolist() == [1, 1, 1, 1]


def test_columns_are_numbered_as_rows_meet_them():
    codes = RandomBinning(gamma=1.0, n_components=8, random_state=0).fit_design(data()).codes
    for row in codes:
        _, first = np.unique(row, return_index=True)
        assert (np.diff(first) > 0).all()


@pytest.mark.parametrize(
    "kernel",
    [
        kernels.Laplacian(gamma=0.4),
        kernels.Laplacian(gamma=[0.1, 0.3, 0.9]),
        kernels.Product(lambda t: 1 / (1 + t), derivative=lambda t: -1 / (1 + t) ** 2, gamma=0.6),
    ],
    ids=["one scale", "a scale per input", "another profile"],
)
def test_inner_products_estimate_the_kernel(kernel):
    """Mean k and variance k (1 - k) / R over many seeds; gamma wrong by a tenth is noticed."""
    X = data(6, 3, seed=1)
    n_seeds, n_grids = 400, 50
    pairs = np.triu_indices(6, 1)
    estimates = np.empty((n_seeds, len(pairs[0])))
    for seed in range(n_seeds):
        map_ = RandomBinning(kernel, n_components=n_grids, random_state=seed)
        Z = map_.fit_transform(X)
        estimates[seed] = (Z @ Z.T).toarray()[pairs]
    k = kernel(X)[pairs]
    np.testing.assert_allclose(estimates * n_grids, np.rint(estimates * n_grids), atol=1e-9)
    variance = k * (1 - k) / n_grids
    z = (estimates.mean(0) - k) / np.sqrt(variance / n_seeds)
    assert np.abs(z).max() < 5
    np.testing.assert_allclose(estimates.var(0), variance, rtol=0.35)
    wrong = kernel.with_gamma(np.asarray(kernel.gamma) * 1.1)(X)[pairs]
    assert np.abs((estimates.mean(0) - wrong) / np.sqrt(variance / n_seeds)).max() > 5


def test_hashed_boxes_estimate_the_kernel_plus_chance():
    X = data(6, 3, seed=1)
    kernel, n_bins, n_seeds = kernels.Laplacian(gamma=0.4), 8, 300
    total = np.zeros((6, 6))
    for seed in range(n_seeds):
        map_ = RandomBinning(kernel, n_components=50, bins=n_bins, random_state=seed)
        Z = map_.fit_transform(X)
        assert Z.shape == (6, 400)
        total += (Z @ Z.T).toarray()
    k = kernel(X)
    expected = k + (1 - k) / n_bins
    np.testing.assert_allclose(total / n_seeds, expected, atol=5 * 0.5 / np.sqrt(50 * n_seeds))


def test_transform_of_the_training_data_is_fit_transform():
    X = data(dtype=np.float32)
    map_ = RandomBinning(gamma=0.5, n_components=30, random_state=0)
    Z = map_.fit_transform(X)
    again = map_.transform(X)
    assert (again != Z).nnz == 0
    for rows in (slice(0, 1), slice(17, 90)):
        assert (map_.transform(X[rows]) != Z[rows]).nnz == 0


def test_unseen_boxes_have_no_column():
    map_ = RandomBinning(gamma=1.0, n_components=30, random_state=0).fit(data(50))
    with pytest.warns(UserWarning, match="100% of the bins of these rows were not met at fit"):
        far = map_.transform(data(20) + 1e3)
    assert far.nnz == 0
    assert far.shape == (20, map_.n_features_out_)
    with pytest.warns(UserWarning, match="a smaller gamma or more rows"):
        near = map_.transform(data(500, seed=5))
    assert 0 < near.nnz < 500 * 30
    seen = [set(tuples(map_, data(50), grid)) for grid in range(30)]
    new = [tuples(map_, data(500, seed=5), grid) for grid in range(30)]
    expected = sum(box in seen[grid] for grid in range(30) for box in new[grid])
    assert near.nnz == expected


def test_a_fit_to_training_and_test_rows_has_a_column_for_every_box_of_both():
    X, new = data(150), data(60, seed=7)
    settings = {"gamma": 0.8, "n_components": 20, "random_state": 3}
    both = RandomBinning(**settings).fit(np.concatenate([X, new]))
    boxes = [set(tuples(both, X, grid)) | set(tuples(both, new, grid)) for grid in range(20)]
    np.testing.assert_array_equal(both.n_bins_, [len(each) for each in boxes])
    assert both.n_features_out_ == sum(map(len, boxes))
    only_test = np.asarray(both.transform(X).sum(axis=0)).ravel() == 0
    fewer = RandomBinning(**settings).fit(X).n_features_out_
    assert both.n_features_out_ == fewer + only_test.sum() > fewer


@pytest.mark.filterwarnings("ignore:.*of the bins of these rows were not met")
@pytest.mark.parametrize("penalty", ["l2", "l1"])
def test_boxes_of_test_rows_alone_get_no_weight(penalty):
    X, new = data(150), data(60, seed=7)
    y = np.sin(X).sum(axis=1)
    map_ = RandomBinning(gamma=0.8, n_components=20, random_state=3)
    settings = {"penalty": penalty, "alpha": 1e-3, "scale": False, "tol": 1e-9}
    alone = KernelRegressor(map_, **settings).fit(X, y)
    both = map_.fit(np.concatenate([X, new]))
    seen = KernelRegressor("linear", **settings).fit(both.transform(X), y)
    only_test = np.asarray(both.transform(X).sum(axis=0)).ravel() == 0
    assert not seen.map_coef_[only_test].any()
    # With an L1 penalty, columns alike on the training rows share a weight in many ways.
    rows = new if penalty == "l2" else X
    predicted = seen.predict(both.transform(rows))
    np.testing.assert_allclose(predicted, alone.predict(rows), atol=1e-4)


def test_binning_training_and_test_data_together_changes_no_prediction():
    """Boxes that only test points meet are zero in training and get no weight."""
    X, new = data(150), data(60, seed=7)
    y = np.sin(X).sum(axis=1)
    predictions = []
    for seen in (X, np.concatenate([X, new])):
        map_ = RandomBinning(gamma=0.5, n_components=20, random_state=0).fit(seen)
        Z = map_.transform(X).toarray()
        w = np.linalg.solve(Z.T @ Z + 0.3 * np.eye(Z.shape[1]), Z.T @ y)
        predictions.append(map_.transform(new) @ w)
    np.testing.assert_allclose(*predictions, atol=1e-10)


def test_wide_grids_have_one_box_and_narrow_ones_a_box_per_row():
    X = np.concatenate([data(60), data(60)[:20]])  # 20 duplicates
    wide = RandomBinning(gamma=1e-12, n_components=16, random_state=0).fit(X)
    assert wide.n_features_out_ == 16
    narrow = RandomBinning(gamma=1e9, n_components=16, random_state=0).fit(X)
    assert narrow.n_features_out_ == 16 * 60


@pytest.mark.parametrize("bins", ["exact", 100])
@pytest.mark.parametrize("index", [("i4", "i4"), ("i8", "i8"), ("i4", "i8")])
def test_sparse_input_equals_dense_input(bins, index):
    X = data(150, 6) * (np.random.default_rng(1).random((150, 6)) < 0.4)
    S = sparse.csr_array(X)
    S.indices, S.indptr = S.indices.astype(index[0]), S.indptr.astype(index[1])
    dense = RandomBinning(gamma=0.1, n_components=20, bins=bins, random_state=0)
    same = RandomBinning(gamma=0.1, n_components=20, bins=bins, random_state=0)
    np.testing.assert_array_equal(dense.fit_design(X).codes, same.fit_design(S).codes)
    new = data(30, 6, seed=3)
    np.testing.assert_array_equal(dense.design(new).codes, same.design(sparse.csr_array(new)).codes)


def test_threads_do_not_change_the_codes():
    X = data(3000, 5)
    one, three = (
        RandomBinning(gamma=0.5, n_components=40, random_state=0, n_jobs=j) for j in (1, 3)
    )
    np.testing.assert_array_equal(one.fit_design(X).codes, three.fit_design(X).codes)
    new = data(700, 5, seed=1)
    np.testing.assert_array_equal(one.design(new).codes, three.design(new).codes)


def test_shuffled_rows_only_relabel_columns():
    X = data(80)
    order = np.random.default_rng(0).permutation(80)
    Z = RandomBinning(gamma=0.5, n_components=20, random_state=0).fit_transform(X)
    S = RandomBinning(gamma=0.5, n_components=20, random_state=0).fit_transform(X[order])
    K = (Z @ Z.T).toarray()
    np.testing.assert_allclose((S @ S.T).toarray(), K[np.ix_(order, order)], rtol=1e-12)


def test_large_grids_get_wider_codes():
    X = np.random.default_rng(0).random((70_000, 1))
    map_ = RandomBinning(gamma=1e9, n_components=2, random_state=0)
    design = map_.fit_design(X)
    assert design.codes.dtype == np.uint32
    assert map_.n_features_out_ > 139_900
    np.testing.assert_array_equal(map_.design(X).codes, design.codes)
    small = RandomBinning(gamma=0.1, n_components=2, random_state=0).fit_design(X)
    assert small.codes.dtype == np.uint8


def test_a_stored_map_is_its_key_and_the_boxes_it_met():
    X = data(400)
    map_ = RandomBinning(gamma=0.5, n_components=30, random_state=0).fit(X)
    stored = pickle.dumps(map_)
    assert len(stored) < 9 * map_.n_features_out_ + 4000
    again = pickle.loads(stored)
    new = data(50, seed=2)
    assert (again.transform(new) != map_.transform(new)).nnz == 0
    np.testing.assert_array_equal(
        again.transform_block(new, [5, 0]), map_.transform(new)[:, [5, 0]].toarray()
    )


def test_parameters_larger_than_the_working_memory_come_in_batches(monkeypatch):
    X = data(100, 7)
    whole = RandomBinning(gamma=0.5, n_components=23, random_state=0)
    expected = whole.fit_design(X).codes
    monkeypatch.setattr("mercer.maps.grids._BATCH_BYTES", 24 * 7 * 5)
    parts = RandomBinning(gamma=0.5, n_components=23, random_state=0)
    np.testing.assert_array_equal(parts.fit_design(X).codes, expected)
    np.testing.assert_array_equal(parts.design(X).codes, expected)


def test_refitting_with_another_seed_draws_other_grids():
    X = data()
    map_ = RandomBinning(gamma=0.5, n_components=10, random_state=0)
    first = map_.fit_design(X).codes
    second = map_.set_params(random_state=1).fit_design(X).codes
    assert first.shape != second.shape or (first != second).any()
    np.testing.assert_array_equal(map_.design(X).codes, second)


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"n_components": 0}, ValueError, "n_components must be at least 1; got 0"),
        ({"n_components": -1}, ValueError, "n_components must be at least 1; got -1"),
        ({"n_components": 2.5}, TypeError, "n_components must be an integer; got 2.5"),
        ({"n_components": 10**9}, MemoryError, "n_components=[0-9]+ would fit"),
        ({"bins": "some"}, ValueError, "bins must be 'exact' or an integer; got 'some'"),
        ({"bins": 1}, ValueError, "bins must be between 2 and"),
        ({"bins": 0.5}, ValueError, "bins must be 'exact' or an integer; got 0.5"),
        ({"gamma": 0}, ValueError, "gamma must be positive"),
        ({"gamma": [1.0, 2.0]}, ValueError, "one entry per input; got 2 for 4 inputs"),
        ({"kernel": "gaussian"}, kernels.NotRepresentable, "nystroem"),
        ({"kernel": "cauchy"}, kernels.NotRepresentable, "not convex"),
        ({"kernel": "laplace"}, ValueError, "kernel must be one of"),
        ({"scale": 1}, TypeError, "scale must be True or False; got 1"),
        ({"random_state": -1}, ValueError, "random_state must be at least 0; got -1"),
        ({"n_jobs": 0}, ValueError, "n_jobs must not be 0"),
    ],
)
def test_bad_settings_are_refused_in_one_sentence(settings, error, message):
    with pytest.raises(error, match=message) as caught:
        RandomBinning(**settings).fit(data())
    assert str(caught.value).count(". ") == 0


def test_values_as_large_as_floats_go_still_have_boxes():
    X = data(20)
    X[3, 0], X[4, 1] = 1e308, -1e308
    map_ = RandomBinning(gamma=0.5, n_components=10, random_state=0)
    Z = map_.fit_transform(X)
    assert (np.diff(Z.indptr) == 10).all()
    assert (map_.transform(X) != Z).nnz == 0


@pytest.mark.parametrize("bins", ["exact", 64])
def test_occupancy_counts_the_rows_of_every_box(bins):
    X = data(500, 3)
    map_ = RandomBinning(gamma=0.6, n_components=30, bins=bins, random_state=0)
    codes = map_.fit_design(X).codes
    sizes = [np.unique(row, return_counts=True)[1] for row in codes]
    counts, n_bins = np.unique(np.concatenate(sizes), return_counts=True)
    occupancy = map_.occupancy_
    np.testing.assert_array_equal(occupancy.largest, [size.max() for size in sizes])
    np.testing.assert_array_equal(occupancy.counts, counts)
    np.testing.assert_array_equal(occupancy.n_bins, n_bins)
    assert occupancy.n_rows == 500
    assert (occupancy.counts * occupancy.n_bins).sum() == 500 * 30
    if bins == "exact":
        assert occupancy.n_bins.sum() == map_.n_features_out_
    for part in (occupancy.largest, occupancy.counts, occupancy.n_bins):
        assert part.dtype == np.int64
    again = pickle.loads(pickle.dumps(map_)).occupancy_
    np.testing.assert_array_equal(again.largest, occupancy.largest)


def test_missing_boxes_are_counted_whoever_counts():
    map_ = RandomBinning(gamma=0.4, n_components=30, random_state=0).fit(data(300))
    new = data(400, seed=5)
    design = map_.design(new)
    absent = (design.codes >= map_.n_bins_[:, None]).sum(axis=0)
    assert design.n_missing == absent.sum() > 0
    assert design.rows(slice(3, 90)).n_missing == absent[3:90].sum()
    assert map_.design(data(300)).n_missing == 0
    assert RandomBinning(bins=16, random_state=0).fit(data(50)).design(new).n_missing == 0


def test_only_many_missing_bins_deserve_a_word():
    map_ = RandomBinning(n_components=10).fit(data())
    map_.warn_missing(n_missing=10, n_rows=3)
    with pytest.warns(UserWarning, match="37% of the bins .* a smaller gamma") as caught:
        map_.warn_missing(n_missing=11, n_rows=3)
    assert str(caught[0].message).count(".") == 1


def test_copies_at_other_scales_draw_the_grids_once(monkeypatch):
    X = data(60, 5)
    calls = []
    for name in ("uniform", "bits"):
        method = getattr(Streams, name)

        def counted(self, *args, _method=method, **kwargs):
            calls.append(len(self))
            return _method(self, *args, **kwargs)

        monkeypatch.setattr(Streams, name, counted)
    map_ = RandomBinning(n_components=16)
    copies = [map_.with_gamma(gamma).fit(X) for gamma in (0.1, 1.0, [0.1, 0.2, 0.3, 0.4, 0.5])]
    assert sum(calls) == 4 * 16  # two exponentials, a shift and a multiplier per grid
    first, second, _ = copies
    assert first._grids[1] is second._grids[1]
    np.testing.assert_allclose(second._grids[0], 10.0 * first._grids[0], rtol=1e-15)


def test_kernels_without_a_scale_have_grids_at_one_scale():
    class Squares(kernels.Kernel):
        """Bins of width 1: a kernel with widths and no gamma."""

        def widths(self, streams, n_inputs):
            return np.ones((len(streams), n_inputs))

    map_ = RandomBinning(Squares(), n_components=3, random_state=0)
    assert map_.fit(data()).n_features_out_ >= 3
    with pytest.raises(ValueError, match=r"gamma must be left out for .*, which has no scale"):
        map_.with_gamma(2.0)


@pytest.mark.parametrize("sparse_rows", [False, True])
@pytest.mark.parametrize("gamma", [0.3, 300.0], ids=["few bins", "more bins than 16 bits name"])
def test_rows_prepared_by_pieces_are_binned_as_all_at_once(gamma, sparse_rows, monkeypatch):
    n = 70_000 if gamma > 1 else 3_000
    X = np.random.default_rng(0).normal(size=(n, 2))
    X = sparse.csr_array(X) if sparse_rows else X
    map_ = RandomBinning(gamma=gamma, n_components=3, random_state=0)
    whole = clone(map_).fit_design(2.0 * X)
    monkeypatch.setattr(binning, "_PIECE_BYTES", 20_000)
    monkeypatch.setattr("mercer._runtime.rows._LARGE", 20_000)
    asked = []

    def prepare(rows):
        asked.append(rows.shape[0])
        return 2.0 * rows

    pieces = map_.fit_design(X, prepare)
    assert len(asked) > 3
    np.testing.assert_array_equal(pieces.codes, whole.codes)
    np.testing.assert_array_equal(pieces.offsets, whole.offsets)
    assert pieces.codes.dtype == (np.uint32 if gamma > 1 else whole.codes.dtype)


def test_codes_that_fit_a_byte_are_narrowed_in_place():
    codes = np.arange(15, dtype=np.uint16).reshape(3, 5)
    narrow = in_bytes(codes.copy())
    assert narrow.dtype == np.uint8
    np.testing.assert_array_equal(narrow, codes)


@pytest.mark.parametrize("bins", ["exact", 64])
def test_inputs_too_far_from_0_to_be_numbered_are_refused(bins):
    X = np.random.default_rng(0).normal(size=(90, 2))
    map_ = RandomBinning(gamma=1.0, n_components=8, bins=bins, random_state=0)
    for far in (1e11, -1e11):
        with pytest.raises(ValueError, match=r"within 2\*\*31 bin widths of 0; input 1 has values"):
            map_.fit(X + np.array([0.0, far]))
    with pytest.raises(ValueError, match="scale=True"):
        KernelRegressor(map_, scale=False).fit(X + 1e11, X[:, 0])
    assert KernelRegressor(map_).fit(X + 1e8, X[:, 0]).score(X + 1e8, X[:, 0]) > 0.8
    map_.fit(np.column_stack([X, np.full(90, 1e12)]))  # a constant tells no rows apart
    outlier = X.copy()
    outlier[0] = 1e12
    map_.fit(outlier)
