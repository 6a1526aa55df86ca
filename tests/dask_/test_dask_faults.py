"""Fits over workers of Dask that are killed, hang, come or leave: right, and in time."""

from __future__ import annotations

import os
import signal
import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

pytest.importorskip("distributed")

from _clusters import bare_cluster, cluster, kill, limited, mend, n_tasks, pids
from _distributed_parts import Faulty, arm, descent, disarm, shards_of
from mercer import KernelClassifier, KernelRegressor
from mercer.dask.engine import DaskEngine
from mercer.distributed import Here, Run, Shard, gathered
from mercer.distributed.fitting import fit_machine
from mercer.maps import RandomFourier
from mercer.solvers import BlockCoordinateDescent

EDGES = (0, 70, 140, 200)


@pytest.fixture(scope="module")
def client():
    with limited(60), cluster(3) as made:
        yield made


@pytest.fixture(autouse=True)
def limit():
    with limited(120):
        yield


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    return rng.normal(size=(200, 5)), rng.normal(size=200)


@pytest.fixture(scope="module")
def expected(data):
    return descent(data[0], Here(shards_of(*data, EDGES)))[1]


@pytest.fixture
def engine(client, data):
    mend(client, 3)
    made = engine_of(client, data)
    yield made
    made.close()


def engine_of(client, data, **options):
    shards = shards_of(*data, EDGES)
    futures = [client.submit(Shard, s.X, s.target, pure=False) for s in shards]
    return DaskEngine(client, futures, **options)


def order(folder, where, number, sent=signal.SIGKILL):
    (folder / f"{where}-{number}").write_text(str(int(sent)))


def check(w, expected):
    np.testing.assert_allclose(w, expected, rtol=1e-5)


@pytest.mark.parametrize("where", ["gradient", "advanced", "derived"])
def test_a_worker_that_is_killed_in_its_work_is_made_good(engine, data, expected, tmp_path, where):
    def lose(step):
        if step == (0 if where == "derived" else 7):
            order(tmp_path, where, 1)

    run, w = descent(data[0], engine, Faulty, str(tmp_path), lose)
    assert not list(tmp_path.iterdir())  # it was killed
    check(w, expected)
    assert run.n_rebuilt == (0 if where == "derived" else 1)  # the first states are no rebuilt ones


def test_a_worker_that_is_killed_in_a_sum_without_a_state(engine, data, tmp_path):
    run = Run(engine, Faulty, str(tmp_path))
    order(tmp_path, "gram", 2)
    (partial,) = engine.fetch([run.kept("gram")])
    assert not list(tmp_path.iterdir())
    np.testing.assert_allclose(partial.value, data[0].T @ data[0], rtol=1e-10)


def test_a_worker_that_is_killed_in_the_rebuilding_after_a_kill(engine, data, expected, tmp_path):
    def lose(step):
        if step == 5:
            order(tmp_path, "gradient", 0)
            order(tmp_path, "derived", 0)

    run, w = descent(data[0], engine, Faulty, str(tmp_path), lose)
    assert not list(tmp_path.iterdir())
    check(w, expected)
    assert 1 <= run.n_rebuilt <= 3  # the worker of the second kill may have had a shard


def test_workers_that_are_killed_twice_between_requests(engine, data, expected):
    def lose(step):
        if step in (4, 12):
            kill(next(iter(pids(engine.client).values())))

    run, w = descent(data[0], engine, lose=lose)
    check(w, expected)
    assert run.n_rebuilt <= 4


def test_all_workers_but_one_are_killed(engine, data, expected):
    def lose(step):
        if step == 9:
            for pid in list(pids(engine.client).values())[1:]:
                kill(pid)

    run, w = descent(data[0], engine, lose=lose)
    check(w, expected)
    assert run.n_rebuilt >= 1


def test_what_was_shared_is_sent_again_when_all_that_have_it_are_gone(engine, data):
    shared = engine.share(np.ones((300, 300)))
    handles = engine.each(lambda memory, i, shard, value: value.sum(), shared)
    assert engine.fetch(handles) == [9e4] * 3
    for pid in pids(engine.client).values():
        kill(pid)
    handles = engine.each(lambda memory, i, shard, value: value.sum(), shared)
    assert engine.fetch(handles) == [9e4] * 3


def test_a_value_that_was_lost_while_it_was_sent_is_sent_again(engine):
    from distributed import Future

    shared = engine.share(np.ones((300, 300)))
    shared.future = Future("value that no worker has", client=engine.client)  # never cancelled
    handles = engine.each(lambda memory, i, shard, value: value.sum(), shared)
    assert engine.fetch(handles) == [9e4] * 3


def test_tasks_do_not_grow_with_recoveries(client, engine, data, tmp_path):
    descent(data[0], engine, n_steps=3)
    before = n_tasks(client)
    order(tmp_path, "gradient", 1)
    descent(data[0], engine, Faulty, str(tmp_path), n_steps=10)
    assert not list(tmp_path.iterdir())
    assert n_tasks(client) <= before


@pytest.mark.parametrize("where", ["gradient", "gram"])
def test_a_worker_that_hangs_in_its_work_is_removed(engine, data, tmp_path, where):
    impatient(engine)
    run, w = Run(engine, Faulty, str(tmp_path)), np.ones(5)
    run.total("gradient", version=0, truth=lambda i: w)
    order(tmp_path, where, 1, signal.SIGSTOP)
    hung = engine._homes[1]
    pid = pids(engine.client)[hung]
    try:
        if where == "gradient":
            total = run.total(where, version=0, truth=lambda i: w)
            np.testing.assert_allclose(total, data[0].T @ (data[1] - data[0] @ w))
        else:
            total = engine.fetch([run.kept(where)])[0].value
            np.testing.assert_allclose(total, data[0].T @ data[0])
        assert hung in engine.removed
    finally:
        kill(pid)


def test_a_worker_that_hangs_with_what_others_need_is_removed(engine, data):
    impatient(engine)
    gathered(engine, len)
    handles = engine.each(rows_and_more)
    engine.fetch([engine.once(len, handle) for handle in handles])
    hung = engine._homes[0]
    pid = pids(engine.client)[hung]
    kill(pid, signal.SIGSTOP)
    try:
        (both,) = engine.fetch([engine.once(sum_of_both, handles[0], handles[1])])
        assert both == pytest.approx(data[0][:140].sum())
        shared = engine.share(np.ones(10**5))
        assert engine.fetch([engine.once(np.sum, shared)]) == [1e5]
        assert hung in engine.removed
    finally:
        kill(pid)


def impatient(engine):
    engine.timeout = engine._watch.timeout = 4.0


def rows_and_more(memory, number, shard):
    return shard.X, np.ones(10**6 if number == 1 else 1)  # whoever needs both goes to the second


def sum_of_both(one, other):
    return one[0].sum() + other[0].sum()


def test_workers_may_come_and_leave(client, engine, data, expected):
    def scale(step):
        if step == 5:
            client.cluster.scale(4)
            client.wait_for_workers(4, timeout=30)
        if step == 10:
            client.retire_workers([engine._homes[0]])
        if step == 20:
            client.cluster.scale(2)

    run, w = descent(data[0], engine, lose=scale)
    check(w, expected)
    assert run.n_rebuilt <= 6


def test_work_that_kills_every_worker_ends_with_a_sentence(client, engine):
    client.run_on_scheduler(allow_failures, 0)
    try:
        with pytest.raises(RuntimeError, match=r'workers died .* in the work "die"'):
            engine.fetch(engine.each(die, numbers=[0]))
    finally:
        client.run_on_scheduler(allow_failures, 3)


def allow_failures(number, dask_scheduler):
    dask_scheduler.allowed_failures = number


def die(memory, number, shard):
    os.kill(os.getpid(), signal.SIGKILL)


def test_workers_that_die_in_every_request_end_the_fit(engine):
    gathered(engine, len)
    for i in range(10):  # the first of them is no loss
        engine._settle({0: f"tcp://127.0.0.1:{i + 1}"})
    with pytest.raises(RuntimeError, match="Workers died in each of the last 10 requests"):
        engine._settle({0: "tcp://127.0.0.1:11"})


def test_rows_that_cannot_be_read_again_are_told(client, engine, data):
    engine = DaskEngine(client, client.scatter(shards_of(*data, EDGES), hash=False))
    gathered(engine, len)
    kill(pids(client)[engine._homes[1]])
    with pytest.raises(RuntimeError, match=r"The rows of \d of 3 shards are lost"):
        descent(data[0], engine)


def test_workers_without_nannies_need_not_come_back(data, expected):
    with bare_cluster(3) as client:
        engine = engine_of(client, data, timeout=4.0)

        def lose(step):
            if step in (3, 8):
                kill(pids(client)[engine._homes[0]])

        run, w = descent(data[0], engine, lose=lose)
        check(w, expected)
        assert engine.n_workers == 1
        assert run.n_rebuilt <= 4
        kill(*pids(client).values())
        with pytest.raises(RuntimeError, match="No worker is left"):
            gathered(engine, len)


NORMAL, PARTS = "mercer.distributed.normal:NormalPart", "mercer.distributed.parts:DesignPart"
KERNEL = "mercer.distributed.kernel:KernelPart"


@pytest.mark.parametrize(
    "places",
    [
        {f"{NORMAL}.gram": 2},
        {"mercer.distributed.solves:_factor": 1},
        {f"{NORMAL}.advanced": 2, f"{NORMAL}.derived": 2},
        {f"{NORMAL}.span": 2, f"{NORMAL}.derived": 2},
        {f"{NORMAL}._of_combination": 3, f"{NORMAL}.energies": 1},
        {f"{PARTS}.product": 2},
        {f"{KERNEL}.product_of_rows": 2},
    ],
    ids=["gram", "solve", "update-and-rebuild", "span", "combination", "newton", "kernel"],
)
def test_a_machine_is_that_of_one_process_whatever_was_killed(
    client, engine, data, tmp_path, places
):
    X, y = data
    settings = {"feature_map": RandomFourier(n_components=48), "random_state": 0}
    if f"{PARTS}.product" in places:
        model, y = KernelClassifier(loss="logistic", max_iter=2, **settings), y > 0
    elif f"{KERNEL}.product_of_rows" in places:
        model = KernelRegressor("exact", solver="cg", tol=1e-10)
    else:
        n_epochs = 4 if {f"{NORMAL}.span", f"{NORMAL}.energies"} & set(places) else 2
        few = {"block_size": 24, "max_iter": n_epochs, "tol": 0.0, "accelerated": n_epochs == 4}
        model = KernelRegressor(solver=BlockCoordinateDescent(**few), **settings)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        local = clone(model).fit(X, y)
        engine = engine_of(client, (X, y))
        for place, at in places.items():
            client.run(arm, place, str(tmp_path), at)
        try:
            far = fit_machine(model, engine)
        finally:
            client.run(disarm, on_error="ignore")
            engine.close()
    assert list(tmp_path.iterdir())  # killed it was
    np.testing.assert_allclose(far.map_coef_, local.map_coef_, rtol=1e-5, atol=1e-8)
