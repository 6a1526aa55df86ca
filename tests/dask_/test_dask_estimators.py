"""Kernel machines of dask arrays and data frames are those of the same rows in memory."""

from __future__ import annotations

import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.utils import get_tags

import mercer
from mercer import persistence
from mercer.explain import shapley_values

pytest.importorskip("distributed")
pytest.importorskip("dask.dataframe")

import dask.array as da
import dask.dataframe as dd

import mercer.dask
from _clusters import cluster, kept_runs, kill, limited, n_tasks, pids

LOGISTIC = {"loss": "logistic", "random_state": 0, "tol": 1e-9, "n_components": 10}


@pytest.fixture(scope="module")
def client():
    with cluster(2) as client:
        yield client


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(100)
    X = rng.normal(size=(600, 3))
    return X, np.sin(X).sum(axis=1), rng.uniform(0.5, 2.0, size=600)


def _lazy(*arrays, rows=250):
    return tuple(da.from_array(array, chunks=(rows, *array.shape[1:])) for array in arrays)


@limited(60)
def test_a_regressor_is_that_of_the_same_rows(client, data):
    X, y, w = data
    Xd, yd, wd = _lazy(X, y, w)
    local = mercer.KernelRegressor("fourier", n_components=50, random_state=0).fit(X, y, w)
    model = mercer.dask.KernelRegressor(
        "fourier", n_components=50, random_state=0, client=client
    ).fit(Xd, yd, sample_weight=wd)
    scale = np.abs(local.map_coef_).max()
    np.testing.assert_allclose(model.map_coef_, local.map_coef_, rtol=0, atol=1e-10 * scale)
    assert isinstance(model.map_coef_, np.ndarray)
    assert model.client_ is client
    assert (model.n_workers_, model.n_rebuilt_) == (2, 0)
    predicted = model.predict(Xd)
    assert predicted.chunks == (Xd.chunks[0],)
    np.testing.assert_allclose(client.compute(predicted).result(), local.predict(X), atol=1e-9)
    assert model.score(Xd, yd, wd) == pytest.approx(local.score(X, y, w))
    # A fit again on the same cluster is another fit, and all of them free what they have made.
    again = model.fit(Xd, -yd, sample_weight=wd)
    np.testing.assert_allclose(again.map_coef_, -local.map_coef_, rtol=0, atol=1e-10 * scale)
    assert not set().union(*kept_runs(client))
    assert n_tasks(client) == 0


@pytest.mark.parametrize(
    "name",
    ["fourier", "linear", "binning", "nystroem", "exact", "tefm"],
)
@limited(60)
def test_every_map_of_the_guide_is_fitted_on_two_workers(client, data, name):
    X, y, w = data
    sizes = {} if name in ("linear", "exact") else {"n_components": 16}
    settings = {"feature_map": name, **sizes, "tol": 1e-9}
    settings |= {} if name in ("linear", "exact") else {"random_state": 0}
    local = mercer.KernelRegressor(**settings).fit(X, y, w)
    model = mercer.dask.KernelRegressor(**settings, client=client)
    Xd, yd, wd = _lazy(X, y, w)
    model.fit(Xd, yd, sample_weight=wd)
    assert model.n_workers_ == 2
    np.testing.assert_allclose(model.to_local().predict(X), local.predict(X), rtol=0, atol=1e-6)
    if name == "fourier":
        found, expected = (shapley_values(each, X[:5], X[9:30]) for each in (model, local))
        np.testing.assert_allclose(found.values, expected.values, rtol=0, atol=1e-6)


@pytest.mark.parametrize("name", ["KernelRegressor", "KernelClassifier"])
@limited(60)
def test_accelerated_block_descent_takes_the_epochs_of_one_process(client, data, name):
    X, y, w = data
    y = y if name == "KernelRegressor" else (y > 0).astype(int)
    descent = mercer.solvers.BlockCoordinateDescent(block_size=32, max_iter=90, tol=1e-4)
    settings = {"n_components": 128, "alpha": 1e-4, "random_state": 0, "loss": "squared"}
    local = getattr(mercer, name)("fourier", solver=descent, **settings).fit(X, y, w)
    Xd, yd, wd = _lazy(X, y, w)
    model = getattr(mercer.dask, name)("fourier", solver=descent, client=client, **settings)
    model.fit(Xd, yd, sample_weight=wd)
    assert 20 < local.n_iter_ < 90  # 449 without acceleration
    assert model.n_iter_ == local.n_iter_
    scale = np.abs(local.map_coef_).max()
    np.testing.assert_allclose(model.map_coef_, local.map_coef_, rtol=0, atol=1e-9 * scale)


@limited(60)
def test_a_quantile_is_that_of_one_process_to_the_tolerance(client, data):
    X, y, w = data
    loss, tol = mercer.losses.Quantile(0.8), 1e-4
    settings = {"loss": loss, "n_components": 40, "random_state": 0, "alpha": 1e-3, "tol": tol}
    local = mercer.KernelRegressor("fourier", **settings).fit(X, y, w)
    Xd, yd, wd = _lazy(X, y, w)
    model = mercer.dask.KernelRegressor("fourier", client=client, **settings)
    model.fit(Xd, yd, sample_weight=wd)
    assert model.n_iter_ == local.n_iter_ > 1
    constant = np.average(loss.value(np.full(len(y), np.quantile(y, 0.8)), y), weights=w)
    objectives = [
        np.average(loss.value(each.predict(X), y), weights=w)
        + 0.5e-3 * np.sum(np.square(each.map_coef_))
        for each in (local, model.to_local())
    ]
    assert abs(objectives[1] - objectives[0]) < tol * constant


@limited(60)
def test_a_classifier_of_empty_and_skewed_chunks(client, data):
    X, y, _ = data
    labels = np.where(y > 0, "yes", "no").astype(object)
    labels[595:] = "maybe"  # in one chunk alone
    Xd = da.from_array(X, chunks=((3, 0, 500, 97), (2, 1)))
    yd = da.from_array(labels, chunks=((3, 0, 500, 97),))
    local = mercer.KernelClassifier(**LOGISTIC).fit(X, labels)
    model = mercer.dask.KernelClassifier(client=client, **LOGISTIC).fit(Xd, yd)
    assert model.classes_.tolist() == ["maybe", "no", "yes"]
    for method in ("predict", "predict_proba", "decision_function"):
        lazy = getattr(model, method)(Xd)
        found, expected = client.compute(lazy).result(), getattr(local, method)(X)
        assert lazy.chunks[0] == Xd.chunks[0]
        assert found.dtype == lazy.dtype == expected.dtype
        if method == "predict":
            np.testing.assert_array_equal(found, expected)
        else:
            np.testing.assert_allclose(found, expected, atol=1e-6)
    assert model.score(Xd, yd) == pytest.approx(local.score(X, labels))


@limited(60)
def test_data_frames_bring_their_names(client, data):
    X, y, _ = data
    frame = pd.DataFrame(X, columns=list("abc")).assign(target=y)
    lazy = dd.from_pandas(frame, npartitions=3)
    local = mercer.KernelRegressor("linear").fit(frame[list("abc")], y)
    model = mercer.dask.KernelRegressor("linear", client=client).fit(lazy, "target")
    assert model.feature_names_in_.tolist() == list("abc")
    np.testing.assert_allclose(model.coef_, local.coef_, rtol=1e-9)
    predicted = model.predict(lazy)  # the column of the target is left out by its name
    assert isinstance(predicted, da.Array)
    found = client.compute(predicted).result()
    np.testing.assert_allclose(found, local.predict(frame[list("abc")]), rtol=1e-9)
    assert model.score(lazy, "target") == pytest.approx(local.score(frame[list("abc")], y))


@limited(60)
def test_a_folder_of_parquet_files(client, data, tmp_path):
    pytest.importorskip("pyarrow")
    X, y, _ = data
    frame = pd.DataFrame(X, columns=list("abc")).assign(target=y)
    for number, rows in enumerate((slice(0, 100), slice(100, 600))):
        frame.iloc[rows].to_parquet(tmp_path / f"{number}.parquet")
    local = mercer.KernelRegressor("fourier", random_state=0).fit(frame[list("abc")], y)
    model = mercer.dask.KernelRegressor("fourier", random_state=0, client=client)
    model.fit(tmp_path, "target")
    few = frame[list("abc")].iloc[:20]
    np.testing.assert_allclose(model.to_local().predict(few), local.predict(few), atol=1e-8)


@limited(60)
def test_two_fits_at_once_do_not_meet(client, data):
    X, y, _ = data
    Xd, yd = _lazy(X, y)
    client.run(int)
    settings = {"random_state": 0, "n_components": 20, "client": client}
    models = [mercer.dask.KernelRegressor("fourier", alpha=a, **settings) for a in (1e-4, 1e-2)]
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda model: model.fit(Xd, yd), models))
    for model in models:
        local = model.to_local().fit(X, y)
        np.testing.assert_allclose(model.map_coef_, local.map_coef_, rtol=1e-6, atol=1e-9)
    assert not set().union(*kept_runs(client))


@limited(60)
def test_models_are_copied_pickled_and_saved_without_their_cluster(client, data, tmp_path):
    X, y, _ = data
    model = mercer.dask.KernelClassifier(client=client, **LOGISTIC).fit(*_lazy(X, y > 0))
    copy = clone(model)
    assert copy.client is client
    assert not hasattr(copy, "map_coef_")
    assert "client=" in repr(model)
    restored = pickle.loads(pickle.dumps(model))
    assert type(restored) is mercer.dask.KernelClassifier
    assert restored.client is None
    with pytest.raises(AttributeError, match="client_ is there after a fit in this process"):
        _ = restored.client_
    local = model.to_local()
    assert type(local) is mercer.KernelClassifier
    assert not hasattr(local, "client")
    persistence.save(model, tmp_path / "model.skops")
    loaded = persistence.load(tmp_path / "model.skops")
    assert type(loaded) is mercer.KernelClassifier
    for other in (local, loaded, restored.to_local()):
        np.testing.assert_array_equal(other.predict_proba(X), local.predict_proba(X))
    # Without a cluster, whatever scheduler there is predicts.
    lazy = restored.predict(_lazy(X)[0])
    np.testing.assert_array_equal(lazy.compute(scheduler="synchronous"), local.predict(X))


@limited(60)
def test_an_interrupt_leaves_a_model_that_predicts(client, data):
    X, y, _ = data

    class Stops:
        def setup(self, estimator, context):
            """Nothing to do."""

        teardown = setup

        def on_fit_task_begin(self, estimator, context):
            """Nothing to do."""

        def on_fit_task_end(self, estimator, context):
            if context.task_name == "iteration":
                raise KeyboardInterrupt

    model = mercer.dask.KernelClassifier(client=client, **LOGISTIC)
    model._skl_callbacks = [Stops()]
    with pytest.raises(KeyboardInterrupt):
        model.fit(*_lazy(X, y > 0))
    assert not model.converged_
    assert model.predict(_lazy(X)[0]).shape == (600,)
    assert not set().union(*kept_runs(client))


@limited(60)
def test_data_in_memory_are_refused_by_name(client, data):
    X, y, _ = data
    model = mercer.dask.KernelRegressor("binning", client=client)
    with pytest.raises(TypeError, match=r"which mercer\.KernelRegressor takes"):
        model.fit(X, y)
    with pytest.raises(ValueError, match="y must be targets beside X"):
        model.fit(_lazy(X, y)[0])
    model.fit(*_lazy(X, y))
    with pytest.raises(TypeError, match=r"which the model of to_local\(\) takes"):
        model.predict(X)
    with pytest.raises(ValueError, match="posterior must be False over many machines"):
        mercer.dask.KernelRegressor("binning", posterior=True, client=client).fit(*_lazy(X, y))
    with pytest.raises(ValueError, match="sample_y needs a fit with posterior=True where"):
        model.sample_y(X)
    assert not set().union(*kept_runs(client))


@limited(60)
@pytest.mark.parametrize(
    "name", ["KernelClassifier", "LocalKernelClassifier", "AutoKernelClassifier"]
)
def test_several_labels_over_many_machines_name_the_remedy(client, data, name):
    X, y, _ = data
    model = getattr(mercer.dask, name)(client=client)
    with pytest.raises(ValueError, match=r"y must have one label .*MultiOutputClassifier"):
        model.fit(*_lazy(X, np.column_stack([y > 0, y > 1])))
    assert not get_tags(model).classifier_tags.multi_label


def test_probabilities_over_many_machines_take_a_loss_that_defines_them():
    assert hasattr(mercer.dask.KernelClassifier("binning", loss="logistic"), "predict_proba")
    assert not hasattr(mercer.dask.KernelClassifier("binning"), "predict_proba")


@pytest.mark.parametrize("name", ["KernelRegressor", "KernelClassifier"])
def test_parameters_are_those_of_the_local_class(name):
    ours, local = (getattr(home, name)().get_params() for home in (mercer.dask, mercer))
    assert {k: v for k, v in ours.items() if k not in ("client", "checkpoint")} == local
    assert ours["client"] is None


@limited(120)
def test_a_worker_that_is_killed_in_the_middle_of_a_fit(data):
    from mercer.dask.intake import shards_of
    from mercer.distributed.fitting import fit_machine

    X, y, _ = data
    local = mercer.KernelClassifier(**LOGISTIC).fit(X, y > 0)
    with cluster(2) as client:
        engine = shards_of(client, *_lazy(X, y > 0))
        left = list(pids(client).values())

        def lose(state):
            if state.iteration == 3:
                kill(left.pop())

        model = fit_machine(mercer.KernelClassifier(**LOGISTIC), engine, callback=lose)
        engine.close()
    assert model.converged_
    assert model.n_rebuilt_ > 0
    scale = np.abs(local.map_coef_).max()
    np.testing.assert_allclose(model.map_coef_, local.map_coef_, rtol=0, atol=1e-5 * scale)


def _shifted(client, data):
    """Counts and labels with an offset that decides most of them, as arrays and as a frame."""
    X = data[0]
    rng, offset = np.random.default_rng(0), 2.0 * np.cos(X[:, 1])
    counts = rng.poisson(np.exp(offset + np.sin(X[:, 0]))).astype(float)
    frame = pd.DataFrame(X, columns=list("abc")).assign(y=counts, o=offset)
    return frame, dd.from_pandas(frame, npartitions=3)


@pytest.mark.parametrize("name", ["KernelRegressor", "KernelClassifier"])
@limited(60)
def test_offsets_are_cut_as_targets_and_named_as_columns(client, data, name):
    frame, lazy = _shifted(client, data)
    X, y, o = frame[list("abc")], frame["y"], frame["o"].to_numpy()
    settings = {"loss": "poisson", "tol": 1e-9, "n_components": 10, "random_state": 0}
    if name == "KernelClassifier":
        y, settings["loss"] = y > 2, "logistic"
    local = getattr(mercer, name)("fourier", **settings).fit(X, y, offset=o)
    model = getattr(mercer.dask, name)("fourier", client=client, **settings)
    if name == "KernelRegressor":
        model.fit(lazy, "y", offset="o")
    else:
        model.fit(lazy[list("abc")], lazy["y"] > 2, offset=lazy["o"])
    Xd, od = da.from_array(X.to_numpy(), chunks=(250, 3)), da.from_array(o, chunks=400)
    methods = ["predict"] if name == "KernelRegressor" else ["predict_proba", "decision_function"]
    for method in methods:
        expected = getattr(local, method)(X, offset=o)
        for rows, offset in ((lazy, "o"), (lazy, lazy["o"]), (Xd, od)):
            found = client.compute(getattr(model, method)(rows, offset=offset)).result()
            np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-7)
    yd = da.from_array(y.to_numpy(), chunks=250)
    assert model.score(Xd, yd, offset=od) == pytest.approx(local.score(X, y, offset=o))
    with pytest.raises(ValueError, match="a number for each of the 600 rows"):
        model.predict(Xd, offset=od[:-1])
    with pytest.raises(ValueError, match="offset must be a column of X; got 'p'"):
        model.predict(lazy, offset="p")
    with pytest.raises(ValueError, match=r"offset must be given, as .* was fitted with one"):
        model.predict(Xd)
    with pytest.raises(ValueError, match=r"offset must be given, as .* was fitted with one"):
        model.to_local().predict(X)
    without = client.compute(model.predict(Xd, offset=0)).result()
    np.testing.assert_array_equal(without, model.to_local().predict(X, offset=0))
    with pytest.raises(TypeError, match="offset must be a dask array or series of one dimension"):
        model.predict(Xd, offset=o)


@limited(60)
def test_automatic_models_correct_forecasts(client, data):
    frame, lazy = _shifted(client, data)
    X, y, o = frame[list("abc")], frame["y"], frame["o"].to_numpy()
    local = mercer.AutoKernelRegressor(random_state=0).fit(X, y, offset=o)
    model = mercer.dask.AutoKernelRegressor(random_state=0, client=client)
    model.fit(lazy, "y", offset="o")
    for method in ("predict", "predict_interval"):
        found = client.compute(getattr(model, method)(lazy, offset="o")).result()
        np.testing.assert_allclose(found, getattr(local, method)(X, offset=o), atol=1e-4)
    expected = local.score(X, y, offset=o)
    assert model.score(lazy, "y", offset="o") == pytest.approx(expected)


@limited(60)
def test_automatic_classifiers_add_offsets_to_log_odds(client, data):
    frame, lazy = _shifted(client, data)
    X, y, o = frame[list("abc")], frame["y"] > 2, frame["o"].to_numpy()
    local = mercer.AutoKernelClassifier(random_state=0).fit(X, y, offset=o)
    model = mercer.dask.AutoKernelClassifier(random_state=0, client=client)
    model.fit(lazy[list("abc")], lazy["y"] > 2, offset=lazy["o"])
    found = client.compute(model.predict_proba(lazy, offset="o")).result()
    np.testing.assert_allclose(found, local.predict_proba(X, offset=o), atol=1e-4)
    assert model.score(lazy, lazy["y"] > 2, offset="o") == local.score(X, y, offset=o)
    found = client.compute(model.predict_set(lazy, offset="o")).result()
    assert (found == local.predict_set(X, offset=o)).mean() > 0.99
