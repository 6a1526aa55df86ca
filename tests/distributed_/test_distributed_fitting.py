"""Kernel machines fitted to shards are those that are fitted to all rows on one machine."""

from __future__ import annotations

import pickle
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone

from mercer import KernelClassifier, KernelRegressor, kernels, maps, solvers
from mercer.distributed import Here, Shard, kernel_products, machines
from mercer.distributed.fitting import fit_machine

EDGES = (0, 7, 7, 90, 200)  # one shard has no rows, one has few
TIGHT = {"random_state": 0, "tol": 1e-12, "max_iter": 3000}


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(100)
    X = rng.normal(size=(200, 4)) * [1, 10, 0.1, 3] + [0, 5, 0, 100]
    y = np.sin(X[:, 0]) + X[:, 1] / 10 + 0.1 * rng.normal(size=200)
    return X, y, rng.integers(0, 3, 200).astype(float)


@pytest.fixture(scope="module")
def labels(data):
    y = data[1]
    # Few rows of "c", and none in the first shards.
    found = np.array(["aa", "b"])[(y > 0).astype(int)].astype(object)
    found[190:] = "c"
    return found


def _engine(X, y, weights=None, edges=EDGES, n_workers=2):
    shards = [
        Shard(X[a:b], y[a:b], None if weights is None else weights[a:b]) for a, b in pairwise(edges)
    ]
    return Here(shards, n_workers)


def _assert_same(model, X, y, weights=None, rtol=1e-10, edges=EDGES):
    """The local fit, and that of shards."""
    local = clone(model).fit(X, y, weights)
    far = fit_machine(clone(model), _engine(X, y, weights, edges))
    scale = np.abs(local.map_coef_).max()
    np.testing.assert_allclose(far.map_coef_, local.map_coef_, rtol=0, atol=rtol * scale)
    near = {"rtol": 1e3 * rtol, "atol": 1e3 * rtol}
    np.testing.assert_allclose(far._responses(X), local._responses(X), **near)
    assert far.feature_map_.n_features_out_ == local.feature_map_.n_features_out_
    assert far.n_features_in_ == local.n_features_in_
    far._check_state()
    pickle.loads(pickle.dumps(far))
    return local, far


@pytest.mark.parametrize("gamma", ["scale", "median", 0.3])
def test_scales_of_kernels_of_groups_are_those_of_their_columns(data, gamma):
    X, y, weights = data
    kernel = kernels.Gaussian(gamma).on([0, 2]) + kernels.Laplacian(gamma).on([1])
    settings = {"n_components": 40, "random_state": 0}
    _assert_same(KernelRegressor("fourier", kernel=kernel, **settings), X, y, weights)


MAPS = {
    "fourier": maps.RandomFourier(n_components=40),
    "sums": maps.RandomFourier(kernels.Gaussian() * 0.5, n_components=40),
    "median": maps.RandomFourier(gamma="median", n_components=40),
    "fastfood": maps.Fastfood(n_components=32),
    "binning": maps.RandomBinning(n_components=10),
    "hashed": maps.RandomBinning(bins=32, n_components=10),
    "nystroem": maps.Nystroem(n_components=20),
    "span": maps.Nystroem(n_components=20, whiten=False),
    "given": maps.Nystroem(landmarks=np.eye(4)),
    "exact": maps.ExactKernel(),
    "linear": maps.IdentityMap(),
    "perceptron": maps.RandomPerceptron(n_components=32),
    "tefm": maps.SubspaceEmbedding(n_components=10),
    "srht": maps.SubspaceEmbedding(n_components=10, sketch="srht", power=1),
}


@pytest.mark.parametrize("name", MAPS)
@pytest.mark.parametrize("weighted", [False, True])
def test_every_map_gives_the_coefficients_of_the_local_fit(data, name, weighted):
    X, y, w = data
    # Both solve the same equations exactly; kernels against landmarks are nearly dependent.
    rtol = 1e-7 if name in ("span", "tefm", "srht") else 1e-10
    _assert_same(KernelRegressor(MAPS[name], **TIGHT), X, y, w if weighted else None, rtol)


@pytest.mark.parametrize("edges", [(0, 200), (0, 3, 200), tuple(range(0, 201, 25))])
def test_the_number_of_shards_changes_nothing(data, edges):
    X, y, w = data
    _assert_same(KernelRegressor(n_components=10, **TIGHT), X, y, w, edges=edges)


def test_the_exact_machine_has_all_rows_for_landmarks(data, labels):
    X, _, w = data
    model = KernelClassifier("exact", loss="squared", random_state=0, tol=1e-10)
    local, far = _assert_same(model, X, labels, w, rtol=1e-6)
    np.testing.assert_allclose(far.feature_map_.landmarks_, local.feature_map_.landmarks_)


def test_exact_machines_with_other_losses_answer_alike(data, labels):
    """Shards whiten the kernel, one machine works with the coefficients of the rows."""
    X, _, w = data
    model = KernelClassifier("exact", loss="logistic", random_state=0, tol=1e-10)
    local = clone(model).fit(X, labels, w)
    far = fit_machine(clone(model), _engine(X, labels, w, EDGES))
    np.testing.assert_allclose(far.feature_map_.landmarks_, local.feature_map_.landmarks_)
    np.testing.assert_allclose(far._responses(X), local._responses(X), rtol=1e-5, atol=1e-5)


def test_exact_machines_tell_how_sure_they_are(data):
    X, y, w = data
    local, far = _assert_same(KernelRegressor("exact", tol=1e-10), X, y, w, rtol=1e-6)
    ours, theirs = far.predict(X[:9], return_std=True), local.predict(X[:9], return_std=True)
    np.testing.assert_allclose(ours[1], theirs[1], rtol=1e-6)


@pytest.mark.parametrize(
    "settings",
    [
        {"solver": "auto"},
        {"solver": "cg"},
        {"solver": "block"},
        {"solver": "cg", "fit_intercept": False},
        {"solver": "cg", "alphas": [0.1, 1e-3], "selection": "holdout"},
        {
            "solver": "cg",
            "kernel": "laplacian",
            "gamma_path": [0.5, 1.0],
            "selection": "holdout",
        },
    ],
    ids=["auto", "cg", "block", "no intercept", "alphas", "gammas"],
)
@pytest.mark.parametrize("form", ["plain", "weighted", "outputs", "float32", "sparse"])
def test_exact_machines_are_those_of_one_machine(data, settings, form):
    X, y, w = data
    X = X - X.mean(axis=0)
    X = {"float32": X.astype(np.float32), "sparse": sparse.csr_array(X)}.get(form, X)
    model = KernelRegressor("exact", random_state=0, tol=1e-4 if form == "float32" else 1e-11)
    model.set_params(**settings)
    y = np.stack([y, y**2], axis=1) if form == "outputs" else y
    local = clone(model).fit(X, y, w if form == "weighted" else None)
    far = fit_machine(clone(model), _engine(X, y, w if form == "weighted" else None))
    assert far.solver_ == settings["solver"].replace("auto", "block")  # a block of few rows
    assert far.alpha_ == local.alpha_
    near = 1e-3 if form == "float32" else 1e-7
    scale = np.abs(local.predict(X)).max()
    np.testing.assert_allclose(far.predict(X), local.predict(X), atol=near * scale)
    pickle.loads(pickle.dumps(far))


def test_rows_that_do_not_fit_a_worker_are_sent_in_blocks(data, monkeypatch):
    X, y, _ = data
    monkeypatch.setattr(machines, "_FEW_ROWS", 100)
    assert fit_machine(KernelRegressor("exact"), _engine(X, y)).solver_ == "cg"
    monkeypatch.setattr(kernel_products, "room_of_workers", lambda engine: X.nbytes)
    far = fit_machine(KernelRegressor("exact"), _engine(X, y))
    assert far.solver_ == "block"
    with pytest.raises(MemoryError, match=r"needs 18\.8 kB on each worker .* use solver='blo"):
        fit_machine(KernelRegressor("exact", solver="cg"), _engine(X, y))


def test_few_iterations_solve_the_exact_machine(data):
    X, y, _ = data
    local, far = _assert_same(KernelRegressor("exact", solver="cg"), X, y, rtol=1e-6)
    assert far.n_iter_ <= local.n_iter_ + 1


@pytest.mark.parametrize("solver", ["auto", "cg", "block"])
def test_every_solver_of_linear_equations_gets_there(data, solver):
    X, y, _ = data
    model = KernelRegressor("fourier", n_components=30, solver=solver, **TIGHT)
    _, far = _assert_same(model, X, y, rtol=1e-8)
    assert far.solver_ == ("cg" if solver == "cg" else "block")
    assert far.converged_


def test_several_outputs_and_data_without_an_intercept(data):
    X, y, w = data
    model = KernelRegressor("fourier", n_components=30, fit_intercept=False, **TIGHT)
    _assert_same(model, X, np.column_stack([y, y**2]), w)


def test_inputs_as_given_are_warned_of(data):
    X, y, _ = data
    with pytest.warns(UserWarning, match="scales differ by a factor"):
        _, far = _assert_same(KernelRegressor("fourier", scale=False, **TIGHT), X * [9, 9, 1, 1], y)
    assert far.scaler_ is None


@pytest.mark.parametrize("loss", ["logistic", "squared_hinge", "smooth_hinge", "multinomial"])
@pytest.mark.parametrize("class_weight", [None, "balanced", {"aa": 2.0, "b": 1.0, "c": 0.5}])
def test_classes_that_some_shards_lack(data, labels, loss, class_weight):
    X, _, w = data
    model = KernelClassifier(
        "fourier", n_components=20, loss=loss, class_weight=class_weight, random_state=0, tol=1e-9
    )
    local, far = _assert_same(model, X, labels, w, rtol=1e-7)
    assert far.classes_.tolist() == local.classes_.tolist() == ["aa", "b", "c"]


@pytest.mark.parametrize("loss", ["squared", "logistic", "multinomial", "sigmoid"])
def test_two_classes_are_one_response(data, labels, loss):
    X = data[0]
    model = KernelClassifier("fourier", n_components=20, loss=loss, random_state=0, tol=1e-9)
    _, far = _assert_same(model, X, labels == "b", rtol=1e-6)
    assert far.map_coef_.ndim == 1


@pytest.mark.parametrize("loss", ["huber", "poisson", "tweedie", "expectile", "quantile"])
def test_other_losses(data, loss):
    X, y, w = data
    tol = 1e-5 if loss == "quantile" else 1e-9
    model = KernelRegressor("fourier", n_components=20, loss=loss, random_state=0, tol=tol)
    _assert_same(model, X, np.abs(y), w, rtol=3e-3 if loss == "quantile" else 1e-6)


@pytest.mark.parametrize("name", ["linear", "fourier", "binning", "nystroem"])
def test_sparse_rows(data, name):
    _, y, w = data
    S = sparse.random_array(
        (200, 15), density=0.2, random_state=np.random.default_rng(101), format="csr"
    )
    model = KernelRegressor(MAPS[name], **TIGHT)
    _, far = _assert_same(model, S, y, w)
    assert far.scaler_ is not None


def test_data_frames_and_their_names(data):
    X, y, _ = data
    frame = pd.DataFrame(X, columns=list("abcd"))
    shards = [Shard(frame.iloc[a:b], pd.Series(y[a:b])) for a, b in pairwise(EDGES)]
    far = fit_machine(KernelRegressor("fourier", **TIGHT), Here(shards))
    local = KernelRegressor("fourier", **TIGHT).fit(frame, y)
    assert far.feature_names_in_.tolist() == list("abcd")
    np.testing.assert_allclose(far.predict(frame), local.predict(frame), atol=1e-9)


def test_rows_in_float32_give_a_model_in_float32(data):
    X, y, _ = data
    model = KernelRegressor("fourier", n_components=20, random_state=0)
    _, far = _assert_same(model, X.astype(np.float32), y, rtol=1e-3)
    assert far.map_coef_.dtype == np.float32


def test_boxes_are_counted_over_all_shards(data):
    X, y, _ = data
    local, far = _assert_same(KernelRegressor(n_components=10, **TIGHT), X, y)
    ours, theirs = far.feature_map_.occupancy_, local.feature_map_.occupancy_
    for name in ("largest", "counts", "n_bins"):
        np.testing.assert_array_equal(getattr(ours, name), getattr(theirs, name))
    assert ours.n_rows == theirs.n_rows == 200


@pytest.mark.parametrize("scoring", ["loss", "accuracy"])
def test_a_path_is_judged_by_the_same_rows(data, labels, scoring):
    X, _, w = data
    model = KernelClassifier(
        "fourier",
        n_components=20,
        alphas=[1e-4, 1e-2, 1.0],
        gamma_path=[0.1, 1.0],
        selection="holdout",
        scoring=scoring,
        **TIGHT,
    )
    local, far = _assert_same(model, X, labels, w, rtol=1e-9)
    assert far.alpha_ == local.alpha_
    assert far.feature_map_.kernel_ == local.feature_map_.kernel_
    for name in ("score", "coef", "intercept"):
        np.testing.assert_allclose(far.path_[name], local.path_[name], atol=1e-9)
    np.testing.assert_allclose(far.gamma_path_["score"], local.gamma_path_["score"], atol=1e-9)
    np.testing.assert_array_equal(far.at_alpha(1.0).map_coef_, far.path_["coef"][2])


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"warm_start": True}, "warm_start must be False over many machines"),
        ({"posterior": True}, "posterior must be False over many machines"),
        ({"alphas": [1.0], "selection": "loo"}, "selection must be 'holdout' or 'auto'"),
        ({"penalty": "l1"}, "penalty must be 'l2' over many machines; got 'l1'"),
        ({"feature_map": "exact", "solver": "newton-cg"}, "solver must be 'auto', 'cg' or 'block'"),
        ({"solver": "cholesky"}, "solver must be one of 'auto', 'block'.* got 'cholesky'"),
        ({"feature_map": "ngrams"}, "feature_map must take numbers over many machines"),
        ({"feature_map": maps.Nystroem(landmarks="kmeans")}, "landmarks must be 'uniform' or an"),
        ({"feature_map": maps.LocalKernel()}, "feature_map must not be a LocalKernel over many"),
    ],
)
def test_what_needs_one_machine_is_refused_in_one_sentence(data, settings, said):
    X, y, _ = data
    with pytest.raises(ValueError, match=said) as refusal:
        fit_machine(KernelRegressor(**settings), _engine(X, y))
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize(
    ("shards", "said"),
    [
        ([Shard(np.ones((2, 2)), np.ones(2)), Shard(np.ones((2, 3)), np.ones(2))], "as many col"),
        ([Shard(np.ones((2, 2)), np.ones(2)), Shard(np.ones((2, 2)), np.ones((2, 1)))], "outputs"),
        ([Shard(np.empty((0, 2)), np.ones(0))], "at least one row"),
        ([Shard(np.full((2, 2), np.nan), np.ones(2))], "NaN"),
        ([Shard(np.ones((2, 2)), np.array([1.0, np.inf]))], "infinity"),
        ([Shard(np.ones((2, 2)), np.ones(3))], "as many rows"),
        ([Shard(np.ones((2, 2)), np.ones(2), np.array([1.0, -1.0]))], "not negative"),
        ([Shard(np.ones((2, 2)), np.ones(2), np.zeros(2))], "not be all zero"),
    ],
)
def test_shards_that_are_no_data_are_refused(shards, said):
    with pytest.raises(ValueError, match=said):
        fit_machine(KernelRegressor("binning"), Here(shards))


def test_one_class_is_refused(data):
    X = data[0]
    with pytest.raises(ValueError, match="y must hold at least two classes"):
        fit_machine(KernelClassifier("binning"), _engine(X, np.ones(200)))


def test_the_fit_frees_what_it_has_made_also_when_it_fails(data):
    X, y, _ = data
    engine = _engine(X, y)
    fit_machine(KernelRegressor("fourier"), engine)
    assert all(not memory.runs() for memory in engine.memories)

    def fail(state):
        raise RuntimeError("the listener fails")

    with pytest.raises(RuntimeError, match="the listener fails"):
        fit_machine(KernelRegressor("fourier"), engine, callback=fail)
    assert all(not memory.runs() for memory in engine.memories)
    assert engine.n_shards == 4  # the shards of the caller stay


def test_lost_states_are_made_good_and_counted(data):
    X, y, _ = data
    engine = _engine(X, y)

    def lose(state):
        engine.memories[state.iteration % 2].forget()

    model = KernelClassifier("fourier", loss="logistic", random_state=0, tol=1e-9)
    whole = fit_machine(clone(model), _engine(X, y > 0))
    engine = _engine(X, y > 0)
    broken = fit_machine(model, engine, callback=lose)
    np.testing.assert_allclose(broken.map_coef_, whole.map_coef_, rtol=1e-6, atol=1e-9)
    assert whole.n_rebuilt_ == 0
    assert broken.n_rebuilt_ > 0
    assert broken.n_workers_ == 2


def test_an_interrupt_leaves_a_model_that_predicts(data):
    X, y, _ = data

    def stop(state):
        raise KeyboardInterrupt

    model = KernelRegressor("fourier", loss="huber", random_state=0)
    with pytest.raises(KeyboardInterrupt):
        fit_machine(model, _engine(X, y), callback=stop)
    assert not model.converged_
    assert model.predict(X).shape == (200,)


def test_a_listener_sees_iterations_and_ends_them(data):
    X, y, _ = data
    seen = []

    def listener(state):
        seen.append(state.problem.run.n_requests)
        return len(seen) == 2

    fit_machine(
        KernelRegressor("fourier", loss="huber", tol=1e-9), _engine(X, y), callback=listener
    )
    assert len(seen) == 2
    assert seen[1] > seen[0] > 0


def test_checkpoints_are_for_block_descent_alone(data, tmp_path):
    X, y, _ = data
    model = KernelRegressor("fourier", random_state=0, tol=1e-12)
    far = fit_machine(model, _engine(X, y), checkpoint=tmp_path)
    assert far.solver_ == "block"
    with pytest.raises(ValueError, match="checkpoint must be left out unless block descent"):
        fit_machine(model.set_params(solver="cg"), _engine(X, y), checkpoint=tmp_path)


def test_solver_objects_keep_their_settings(data):
    X, y, _ = data
    solver = solvers.BlockCoordinateDescent(tol=1e-10, block_size=15, max_iter=300)
    model = KernelRegressor("fourier", n_components=30, solver=solver, random_state=0)
    _assert_same(model, X, y, rtol=1e-6)


def test_what_float32_cannot_carry_is_fitted_in_float64(data):
    X, y, _ = data
    rng = np.random.default_rng(100)
    X = np.repeat(X[:20], 10, axis=0) + 1e-4 * rng.normal(size=(200, 4))
    X, model = X.astype(np.float32), KernelRegressor(maps.Nystroem(n_components=60), alpha=1e-9)
    model.set_params(random_state=0, tol=1e-10)
    local = clone(model).fit(X, y)
    far = fit_machine(clone(model), _engine(X, y))
    assert far.map_coef_.dtype == local.map_coef_.dtype == np.float64
    np.testing.assert_allclose(far.predict(X), local.predict(X), atol=1e-2)


@pytest.mark.parametrize("kind", ["dense", "csr"])
def test_copies_among_shards_are_merged(data, kind):
    X, y, _ = data
    X = sparse.csr_array(X) if kind == "csr" else X
    model = KernelRegressor("fourier", n_components=30, alphas=[1e-5, 1e-3, 0.1], **TIGHT)
    model.set_params(selection="holdout")
    X2 = sparse.vstack([X, X]).tocsr() if kind == "csr" else np.concatenate([X, X])
    edges = (0, 150, 150, 260, 400)  # copies lie in other shards
    wanted = clone(model).fit(X, y, np.full(len(y), 2.0))
    with pytest.warns(UserWarning, match="400 of 400 rows are copies of others"):
        found = fit_machine(clone(model), _engine(X2, np.tile(y, 2), edges=edges))
    assert found.alpha_ == wanted.alpha_
    np.testing.assert_allclose(found.map_coef_, wanted.map_coef_, rtol=1e-7, atol=1e-7)
