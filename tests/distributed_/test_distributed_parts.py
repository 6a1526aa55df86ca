"""Parts of designs: targets as losses take them, rows that count, threads of workers."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_info, threadpool_limits

from _shards import D, cut, fitted_map, inputs
from mercer import losses, maps
from mercer.designs import KernelMatrix
from mercer.distributed import Here, Run, Shard
from mercer.distributed.parts import Coding, DesignFacts, DesignPart
from mercer.estimators.preprocessing import Preprocessing
from mercer.estimators.targets import coded, signs


def _facts(map_, coding=None, loss=None, **others):
    given = {
        "n_rows": 10,
        "mean_weight": 1.0,
        "dtype": np.float64,
        "fit_intercept": True,
    } | others
    loss = losses.Squared() if loss is None else loss
    coding = Coding.numbers() if coding is None else coding
    return DesignFacts(Preprocessing(others.pop("scaler", None), map_), coding, loss, **given)


@pytest.mark.parametrize(
    "y",
    [
        np.array(["no", "yes", "no"]),
        np.array(["b", "c", "a", "b"], dtype=object),
        np.array([3, 1, 2, 2]),
        np.array([True, False, True]),
        np.array([0.5, -1.0, 7.0]),
    ],
    ids=lambda y: str(y.dtype),
)
def test_classes_are_coded_as_those_of_all_rows(y):
    classes, labels = coded(y)
    coding = Coding.classes(classes)
    np.testing.assert_array_equal(coding.apply(y), signs(labels, len(classes)))
    np.testing.assert_array_equal(coding.apply(pd.Series(y)), coding.apply(y))
    np.testing.assert_array_equal(coding.apply(y[1:2]), coding.apply(y)[1:2])
    assert coding.apply(y[:0]).shape == (0, *coding.shape)
    joint = Coding.classes(classes, joint=True)
    np.testing.assert_array_equal(joint.apply(y), np.eye(len(classes))[labels])
    assert joint.shape == (len(classes),)


def test_numbers_are_centred_in_float64():
    y = np.array([1e8, 1e8 + 1], dtype=np.float64)
    np.testing.assert_array_equal(Coding.numbers(1e8).apply(y), [0.0, 1.0])
    assert Coding.numbers(0.0, n_outputs=2).apply(np.ones((3, 2))).shape == (3, 2)
    assert Coding.numbers([1.0]).shape == (1,)


def test_rows_of_weight_zero_are_left_out(rng):
    X, y = inputs(rng), rng.normal(size=120)
    weights = np.where(np.arange(120) % 3, 2.0, 0.0)
    map_ = fitted_map(X)
    facts = _facts(map_, n_rows=80, mean_weight=2.0)
    part = DesignPart(Shard(X, y, weights), 0, facts)
    np.testing.assert_array_equal(part.y, y[weights > 0])
    np.testing.assert_array_equal(part.weights, np.ones(80))
    np.testing.assert_allclose(part.design.toarray(), map_.design(X[weights > 0]).toarray())


@pytest.mark.parametrize("make", [csr_array, pd.DataFrame, np.asfortranarray, np.float32])
def test_rows_of_any_kind_become_numbers_of_the_fit(make, rng):
    X = np.round(inputs(rng), 2).astype(np.float32).astype(np.float64)
    map_ = fitted_map(X)
    part = DesignPart(Shard(make(X), np.ones(len(X))), 0, _facts(map_))
    assert part.design.dtype == np.float64
    np.testing.assert_allclose(part.design.toarray(), map_.design(X).toarray(), atol=1e-12)


def test_rows_are_scaled_as_all_rows_are(rng):
    X = 5.0 + 3.0 * inputs(rng)
    scaler = StandardScaler().fit(X)
    map_ = fitted_map(scaler.transform(X))
    facts = DesignFacts(
        Preprocessing(scaler, map_), Coding.numbers(), losses.Squared(), 120, 1.0, float, True
    )
    part = DesignPart(Shard(X[:9], np.ones(9)), 0, facts)
    np.testing.assert_allclose(
        part.design.toarray(), map_.design(scaler.transform(X[:9])).toarray()
    )
    assert DesignPart(Shard(X[:0], np.ones(0)), 0, facts).design.shape == (0, 12)


def test_texts_and_no_texts():
    texts = np.array(["a cat", "a dog", "no cat"], dtype=object)
    map_ = maps.get("ngrams", n_components=64, random_state=0).fit(texts)
    part = DesignPart(Shard(texts[:2], np.ones(2)), 0, _facts(map_))
    assert part.design.shape == (2, 64)
    assert DesignPart(Shard(texts[:0], np.ones(0)), 0, _facts(map_)).design.shape == (0, 64)


def test_kernels_are_held_where_they_fit(rng):
    X = inputs(rng)
    map_ = maps.Nystroem(gamma=0.5, n_components=12, random_state=0, whiten=False).fit(X)
    shard = Shard(X, np.ones(len(X)))
    held = DesignPart(shard, 0, _facts(map_, hold=8.0 * len(X) * 12)).design
    assert isinstance(held, KernelMatrix)
    assert not DesignPart(shard, 0, _facts(map_)).design.nbytes
    v = rng.normal(size=12)
    np.testing.assert_allclose(held.matvec(v), map_.design(X).matvec(v))


def test_a_worker_has_no_more_threads_than_it_may(rng):
    X = inputs(rng)
    map_ = fitted_map(X, "binning")
    seen = []

    class Watched(DesignPart):
        def threads(self, state):
            seen.append(max(i["num_threads"] for i in threadpool_info() if i["user_api"] == "blas"))
            return self.design.n_threads

    with threadpool_limits(2, user_api="blas"):
        for wanted in (1, 2):
            run = Run(Here([Shard(X, np.ones(len(X)))]), Watched, _facts(map_, n_threads=wanted))
            assert run.total("threads") == wanted
    assert seen == [1, 1]
    assert map_.n_jobs is None  # the map itself is nobody's to change


def test_targets_need_no_design(rng):
    X, y = inputs(rng), rng.normal(size=120)
    run = Run(Here(cut(X, y)), DesignPart, _facts(fitted_map(X), n_rows=120))
    from mercer.distributed.problem import RemoteProblem
    from mercer.penalties import L2

    problem = RemoteProblem(run, run.facts, L2(1.0))
    assert problem.initial()[-1] == pytest.approx(y.mean())
    engine = run.engine
    parts = [engine.memory_of(i).part(run.id, i, lambda: None) for i in range(engine.n_shards)]
    assert all("design" not in vars(part) for part in parts)
    assert np.isfinite(problem.value(problem.initial()))


def test_facts_and_codings_travel(rng):
    X = inputs(rng)
    facts = pickle.loads(pickle.dumps(_facts(fitted_map(X), Coding.classes(["a", "b"]))))
    assert facts.shape == (13,)
    np.testing.assert_array_equal(facts.coding.apply(["b", "a"]), [1.0, -1.0])


@pytest.mark.parametrize("loss", [losses.Gamma(), losses.Poisson()])
def test_targets_that_a_loss_does_not_know_are_refused_by_the_worker(loss, rng):
    X = rng.normal(size=(3, D))
    with pytest.raises(ValueError, match="y must be"):
        DesignPart(Shard(X, [1.0, -1.0, 2.0]), 0, _facts(fitted_map(X), loss=loss))
