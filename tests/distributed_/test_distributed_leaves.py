"""Local kernel machines over shards are those of one machine, however their rows lie."""

from __future__ import annotations

import pickle
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from mercer import LocalKernelClassifier, LocalKernelRegressor
from mercer._runtime.rows import PreparedRows
from mercer.auto.targets import LogTargetRegressor
from mercer.distributed import Here, Shard
from mercer.distributed.leaves import fit_local_machine
from mercer.distributed.tables import FarTable
from mercer.losses import Squared
from mercer.maps import LocalKernel
from mercer.solvers.out_of_core import solve_through_files

EDGES = 0, 300, 300, 1100, 1120, 1500


class Sent(Here):
    """Sends whatever goes to a worker through pickle, and does all work twice, as after a loss."""

    def each(self, work, *args, numbers=None, own=None):
        work, args, own = pickle.loads(pickle.dumps((work, args, own)))
        super().each(work, *args, numbers=numbers, own=own)
        return super().each(work, *args, numbers=numbers, own=own)

    def exchange(self, split, n_shards, join):
        split, join = pickle.loads(pickle.dumps((split, join)))
        return Sent(super().exchange(split, n_shards, join).shards, self.n_workers)

    def changed(self, work, *args, own=None):
        return Sent(self.each(work, *args, own=own), self.n_workers)


@pytest.fixture(autouse=True)
def small_nodes(monkeypatch):
    """Several nodes of few rows."""
    monkeypatch.setattr("mercer.solvers.forest._LEAST_ROWS", 100)


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.uniform(-3, 3, size=(1500, 3)) * [1, 1, 10]
    y = np.sin(X).sum(axis=1) + 0.1 * rng.normal(size=1500)
    return X, y, rng.uniform(0.5, 2, size=1500)


def shards(X, y, weights=None, edges=EDGES, engine=Here):
    own = [None] * len(y) if weights is None else weights
    return engine(
        [Shard(X[a:b], y[a:b], None if weights is None else own[a:b]) for a, b in pairwise(edges)],
        n_workers=2,
    )


def fits(model, X, y, weights=None, **how):
    """The model fitted to arrays and to shards."""
    local = type(model)(**model.get_params()).fit(X, y, weights)
    return local, fit_local_machine(model, shards(X, y, weights, **how))


def assert_same(local, remote, tol=1e-10):
    fitted = vars(local).keys() - {"_probabilities_"}  # which fits over many machines lack
    assert fitted == vars(remote).keys()
    for name in ("order", "starts"):
        members = (getattr(m.feature_map_.members_, name) for m in (local, remote))
        np.testing.assert_array_equal(*members)
    partitions = (m.feature_map_.partition_ for m in (local, remote))
    for left, right in zip(*(vars(p).values() for p in partitions), strict=True):
        np.testing.assert_allclose(left, right, rtol=tol, atol=tol)
    size = np.abs(local.map_coef_).max()
    np.testing.assert_allclose(local.map_coef_, remote.map_coef_, rtol=0, atol=tol * size)
    np.testing.assert_allclose(local.intercept_, remote.intercept_, rtol=tol)
    np.testing.assert_allclose(
        local.feature_map_.landmarks_, remote.feature_map_.landmarks_, atol=tol
    )
    remote._check_state()


@pytest.mark.parametrize(
    "settings",
    [
        {"gamma": "median", "kernel": "gaussian", "alpha": 1e-3},
        {"scale": False, "gamma": 0.3, "overlap": 0.1, "n_trees": 2},
        {"fit_intercept": False, "leaf_size": 2000, "n_trees": 1},
        {"alpha": 1e-9, "n_trees": 1},
    ],
)
@pytest.mark.parametrize("weighted", [False, True])
def test_numbers(settings, weighted, data):
    X, y, weights = data
    model = LocalKernelRegressor(**{"leaf_size": 100, "random_state": 0, **settings})
    local, remote = fits(model, X, y, weights if weighted else None)
    assert_same(local, remote)
    assert remote.n_leaves_ > 1 or model.leaf_size > 1500
    np.testing.assert_allclose(local.predict(X), remote.predict(X), rtol=0, atol=1e-10)


@pytest.mark.parametrize("alphas", [None, [1e-5, 1e-3]])
def test_what_is_sent_to_workers_is_pickled_and_may_be_done_again(alphas, data):
    model = LocalKernelRegressor(alphas=alphas, leaf_size=300, n_trees=2, random_state=0)
    assert_same(*fits(model, *data, engine=Sent))


@pytest.mark.parametrize("kind", ["numbers", "logarithms", "classes", "multinomial"])
def test_targets_are_made_where_the_rows_are(kind, data):
    X, y, _ = data
    sent = []

    class Counted(Here):
        def changed(self, work, *args, own=None):
            sent.append(len(pickle.dumps((args, own))))
            return Counted(super().changed(work, *args, own=own).shards)

    settings = {"leaf_size": 300, "n_trees": 1, "random_state": 0, "scale": False, "gamma": 0.1}
    model = LocalKernelRegressor(**settings)
    if kind in ("classes", "multinomial"):
        y = np.digitize(y, [-0.5, 0.5])
        loss = "squared" if kind == "classes" else kind
        model = LocalKernelClassifier(loss=loss, **settings)
    engine = shards(X, y, engine=Counted)
    if kind == "logarithms":
        local = LogTargetRegressor(model, [0.0]).fit(X, y)
        remote = LogTargetRegressor(model, [0.0]).fit(PreparedRows(FarTable.of(engine)), y)
        local, remote = local.regressor_, remote.regressor_
    else:
        local = type(model)(**model.get_params()).fit(X, y)
        remote = fit_local_machine(model, engine)
    assert_same(local, remote, 1e-9)
    assert max(sent) < 5000  # bytes, of 1500 rows


def test_several_outputs_of_frames(data):
    X, y, _ = data
    frame, targets = pd.DataFrame(X, columns=list("abc")), np.stack([y, X[:, 0]], axis=1)
    model = LocalKernelRegressor(leaf_size=200, n_trees=2, random_state=0)
    local, remote = fits(model, frame, targets)
    assert_same(local, remote)
    assert remote.feature_names_in_.tolist() == ["a", "b", "c"]
    np.testing.assert_allclose(local.predict(frame), remote.predict(frame), atol=1e-10)


def test_short_floats_that_need_no_scaler_are_equal_to_the_bit(data):
    X, y, weights = data
    model = LocalKernelRegressor(scale=False, gamma=0.2, leaf_size=100, random_state=0)
    local, remote = fits(model, X.astype(np.float32), y, weights)
    assert remote.map_coef_.dtype == np.float32
    np.testing.assert_array_equal(local.map_coef_, remote.map_coef_)


@pytest.mark.parametrize("loss", ["squared", "logistic", "multinomial"])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_classes_of_which_shards_lack_some(loss, n_classes, data):
    X, y, _ = data
    labels = np.array(["high", "low", "middle"])[np.digitize(y, [-0.5, 0.8][: n_classes - 1])]
    order = np.argsort(labels, kind="stable")
    X, labels = X[order], labels[order]
    settings = {"loss": loss, "class_weight": "balanced", "scale": False, "gamma": 0.1}
    model = LocalKernelClassifier(leaf_size=300, n_trees=2, random_state=0, **settings)
    local, remote = fits(model, X, labels)
    assert_same(local, remote)
    assert remote.classes_.tolist() == local.classes_.tolist()
    np.testing.assert_array_equal(local.predict(X), remote.predict(X))


def test_other_losses_of_scaled_rows_agree_to_the_tolerance_of_newtons_method(data):
    X, y, weights = data
    model = LocalKernelRegressor(loss="huber", tol=1e-9, leaf_size=300, n_trees=1, random_state=0)
    local, remote = fits(model, X, y, weights)
    assert_same(local, remote, 1e-6)


@pytest.mark.parametrize("weighted", [False, True])
def test_strengths_are_chosen_by_the_rows_that_one_machine_holds_out(weighted, data):
    X, y, weights = data
    alphas = [1e-6, 1e-4, 1e-2]
    model = LocalKernelRegressor(alphas=alphas, leaf_size=100, n_trees=2, random_state=0)
    local, remote = fits(model, X, y, weights if weighted else None)
    assert_same(local, remote)
    np.testing.assert_allclose(local.path_["score"], remote.path_["score"], rtol=1e-10)
    assert remote.alpha_ == local.alpha_


def test_strengths_for_classes(data):
    X, y, _ = data
    settings = {"alphas": [1e-6, 1e-3], "leaf_size": 200, "n_trees": 2, "random_state": 0}
    local, remote = fits(LocalKernelClassifier(**settings), X, np.digitize(y, [-0.5, 0.5]))
    np.testing.assert_allclose(local.path_["score"], remote.path_["score"], rtol=1e-10)
    assert_same(local, remote)


def test_rows_without_weight_are_not_there(data):
    X, y, weights = data
    weights = np.where(np.arange(1500) % 7 == 0, 0.0, weights)
    model = LocalKernelRegressor(leaf_size=100, random_state=0)
    assert_same(*fits(model, X, y, weights))


def test_standard_deviations(data):
    X, y, weights = data
    local, remote = fits(LocalKernelRegressor(leaf_size=200, random_state=0), X, y, weights)
    deviations = (model.predict(X[:9], return_std=True)[1] for model in (local, remote))
    np.testing.assert_allclose(*deviations, rtol=1e-8)


@pytest.mark.parametrize("edges", [(0, 1500), (0, 1, 1499, 1500), range(0, 1501, 150)])
def test_shards_of_any_size_make_the_same_model(edges, data):
    X, y, _ = data
    model = LocalKernelRegressor(leaf_size=100, random_state=0)
    assert_same(*fits(model, X, y, edges=tuple(edges)))


def test_first_cuts_from_a_sample_are_those_of_a_fit_through_files(data, monkeypatch):
    X, y, weights = data
    monkeypatch.setattr("mercer.estimators.sharded_leaves.SAMPLE", 400)
    monkeypatch.setattr("mercer.solvers.out_of_core.SAMPLE", 400)
    monkeypatch.setattr("mercer.estimators.sharded_leaves.node_size", lambda *how: 375)
    model = LocalKernelRegressor(scale=False, gamma=0.1, leaf_size=60, random_state=0)
    remote = fit_local_machine(model, shards(X, y, weights))
    map_ = LocalKernel(gamma=0.1, leaf_size=60, random_state=0)
    of_row = 4.0 * 8 * (3 + 2) + 100  # bytes, of which half the memory holds 375
    centred = y - np.average(y, weights=weights)
    solution = solve_through_files(
        map_, X, centred, weights, Squared(), remote.alpha_, 2 * 375.5 * of_row
    )
    np.testing.assert_array_equal(remote.map_coef_, solution.coef)
    for name, array in vars(solution.map.partition_).items():
        np.testing.assert_array_equal(getattr(remote.feature_map_.partition_, name), array)
    expected = solution.map.design(X).matvec(solution.coef) + remote.intercept_
    np.testing.assert_allclose(remote.predict(X), expected, rtol=0, atol=1e-10)
    whole = LocalKernelRegressor(**model.get_params()).fit(X, y, weights)
    assert np.abs(whole.predict(X) - expected).max() > 1e-3  # whose cuts are others


def test_the_model_does_not_depend_on_the_number_of_nodes(data, monkeypatch):
    X, y, _ = data
    models = []
    for size in (120, 700):
        monkeypatch.setattr("mercer.estimators.sharded_leaves.node_size", lambda *how, s=size: s)
        model = LocalKernelRegressor(leaf_size=60, random_state=0)
        models.append(fit_local_machine(model, shards(X, y)))
    assert_same(*models)


def test_a_callback_hears_of_nodes_and_stops_between_trees(data):
    X, y, _ = data
    told = []

    def callback(progress):
        told.append(progress.n_solved)
        return progress.n_solved > 0.4 * progress.n_expected

    model = LocalKernelRegressor(leaf_size=100, random_state=0)
    fit_local_machine(model, shards(X, y), callback)
    assert told == sorted(told)
    assert len(told) > 3
    assert len(model.feature_map_.partition_.roots) in (1, 2)
    assert not model.converged_
    assert model.score(X, y) > 0.8


def test_an_interruption_leaves_what_is_solved(data):
    X, y, _ = data
    told = []

    def callback(progress):
        told.append(progress.model)
        if len(told) == 2:
            raise KeyboardInterrupt
        return False

    model = LocalKernelRegressor(leaf_size=100, random_state=0)
    with pytest.raises(KeyboardInterrupt, match="holds the trees finished so far"):
        fit_local_machine(model, shards(X, y), callback)
    assert 0 < model.score(X, y) < 0.95  # a part of the first tree, and means
    model._check_state()


def test_the_rows_of_a_model_are_in_a_file_where_memory_has_no_room(data, monkeypatch):
    X, y, _ = data
    local = LocalKernelRegressor(leaf_size=100, random_state=0).fit(X, y)
    monkeypatch.setattr("mercer.engines.rows.available_memory", lambda: 1000)
    remote = fit_local_machine(LocalKernelRegressor(leaf_size=100, random_state=0), shards(X, y))
    assert isinstance(remote.feature_map_.landmarks_.base, np.memmap)
    np.testing.assert_allclose(local.predict(X), remote.predict(X), atol=1e-10)


def test_what_cannot_be_fitted_is_refused_in_a_sentence(data, monkeypatch):
    X, y, _ = data
    with pytest.raises(ValueError, match=r"must be dense .* mercer\.LocalKernelRegressor, take"):
        fit_local_machine(LocalKernelRegressor(), shards(sparse.csr_array(X), y))
    with pytest.raises(ValueError, match="X must have rows; all shards are empty"):
        fit_local_machine(LocalKernelRegressor(), shards(X[:0], y[:0], edges=(0, 0)))
    with pytest.raises(ValueError, match="the same columns in all shards"):
        fit_local_machine(LocalKernelRegressor(), Here([Shard(X, y), Shard(X[:, :2], y)]))
    with pytest.raises(ValueError, match="contains NaN"):
        fit_local_machine(LocalKernelRegressor(), shards(np.where(X < -2.9, np.nan, X), y))
    monkeypatch.setattr("mercer.estimators.sharded_leaves._room", lambda memory: 10_000)
    with pytest.raises(MemoryError, match=r"but a worker has 9\.8 kB; leaf_size=9 would fit"):
        fit_local_machine(LocalKernelRegressor(), shards(X, y))


def test_copies_are_merged_before_a_strength_is_chosen(data):
    X, y = (np.tile(each[:750], (2,) + (1,) * (each.ndim - 1)) for each in data[:2])
    model = LocalKernelRegressor(alphas=[1e-6, 1e-2], leaf_size=100, n_trees=2, random_state=0)
    with pytest.warns(UserWarning, match="1500 of 1500 rows are copies of others"):
        local, remote = fits(model, X, y)
    assert local.feature_map_.landmarks_.shape == (750, X.shape[1])
    assert_same(local, remote)
