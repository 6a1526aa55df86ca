"""Shards of small data, the problem over them and the one of all rows; engines that fail."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from mercer import maps, penalties
from mercer.distributed import Here, Run, Shard
from mercer.distributed.parts import Coding, DesignFacts, DesignPart
from mercer.distributed.problem import RemoteProblem
from mercer.estimators.preprocessing import Preprocessing
from mercer.problem import Problem

N, D = 120, 3
UNEVEN = (0, 5, 5, 47, 120, 120)


class Forgetful(Here):
    """Workers that lose, before a request, whatever ``loses(number of the request)`` names."""

    def __init__(self, shards, n_workers=1, loses=lambda request: ()):
        super().__init__(shards, n_workers)
        self.loses, self.n_asked = loses, 0

    def each(self, work, *args, numbers=None, own=None):
        for worker in self.loses(self.n_asked):
            self.memories[worker % self.n_workers].forget()
        self.n_asked += 1
        return super().each(work, *args, numbers=numbers, own=own)


class Counted(Here):
    """Notes the largest array of what is sent, and of what comes back."""

    def __init__(self, shards, n_workers=1):
        super().__init__(shards, n_workers)
        self.largest = 0

    def _look(self, value):
        if isinstance(value, (tuple, list)):
            for each in value:
                self._look(each)
        elif isinstance(value, dict):
            self._look(tuple(value.values()))
        elif isinstance(value, np.ndarray):
            self.largest = max(self.largest, value.size)
        elif hasattr(value, "__dict__"):
            self._look(value.__dict__)

    def each(self, work, *args, numbers=None, own=None):
        self._look((args[1:], own))  # the first is how parts are made
        return super().each(work, *args, numbers=numbers, own=own)

    def fetch(self, handles):
        self._look(handles)
        return super().fetch(handles)


def inputs(rng, sparse=False, n=N):
    """X (n, D), CSR if it is to be sparse."""
    X = rng.normal(size=(n, D))
    if sparse:
        from scipy.sparse import csr_array

        X = csr_array(np.where(rng.random(X.shape) < 0.5, X, 0.0))
    return X


def labels(rng, X, n_classes):
    """Names of classes that depend on X, none of them rare."""
    X = X.toarray() if hasattr(X, "toarray") else X
    scores = X[:, :n_classes] + rng.normal(size=(len(X), n_classes))
    return np.array(["ash", "beech", "cedar"])[scores.argmax(axis=1)]


def target(rng, X, loss, n_outputs=0):
    """Targets as a user gives them, and their coding; two classes, or three of several outputs."""
    if loss.is_classification:
        y = labels(rng, X, 3 if n_outputs or loss.joint else 2)
        return y, Coding.classes(np.unique(y), loss.joint)
    y = 1.0 + np.abs(rng.normal(size=(X.shape[0], n_outputs) if n_outputs else X.shape[0]))
    if loss.link == "log":
        return y, Coding.numbers(0.0, n_outputs or None)
    return y, Coding.numbers(y.mean(axis=0))


def fitted_map(X, name="fourier", n_components=12):
    """A map fitted to all rows."""
    if not isinstance(name, str):
        return name.fit(X)
    if name == "linear":
        return maps.get("linear").fit(X)
    settings = {"kernel": None, "gamma": 0.5, "n_components": n_components, "random_state": 0}
    return maps.get(name, **settings).fit(X)


def cut(X, y, weights=None, edges=UNEVEN):
    """Shards of rows between edges."""
    return [
        Shard(X[a:b], y[a:b], None if weights is None else weights[a:b]) for a, b in pairwise(edges)
    ]


def pair(
    rng,
    loss,
    n_outputs=0,
    *,
    weights=None,
    edges=UNEVEN,
    name="fourier",
    penalty=None,
    sparse=False,
    fit_intercept=True,
    dtype=np.float64,
    engine=None,
    kind=DesignPart,
):
    """The problem of all rows, and the same one over shards."""
    X = inputs(rng, sparse).astype(dtype)
    y, coding = target(rng, X, loss, n_outputs)
    map_ = fitted_map(X, name)
    penalty = penalties.L2(1e-2) if penalty is None else penalty(map_)
    counted = np.ones(N, dtype=bool) if weights is None else weights > 0
    kept = None if weights is None else weights[counted]
    local = Problem(
        map_.design(X[counted]), coding.apply(y)[counted], loss, penalty, kept, fit_intercept
    )
    mean_weight = 1.0 if kept is None else float(kept.mean())
    facts = DesignFacts(
        Preprocessing(None, map_),
        coding,
        loss,
        int(counted.sum()),
        mean_weight,
        dtype,
        fit_intercept,
    )
    shards = cut(X, y, weights, edges)
    engine = (engine or (lambda shards: Here(shards, n_workers=2)))(shards)
    return local, RemoteProblem(Run(engine, kind, facts), facts, penalty)
