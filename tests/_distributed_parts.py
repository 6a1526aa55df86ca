"""Parts of toy fits, in a module that workers import."""

from __future__ import annotations

import functools
import importlib
import itertools
import os
import signal
import time
from itertools import pairwise
from pathlib import Path

import numpy as np

from mercer.distributed import Run, Shard, ShardState


class Residual(ShardState):
    """y − X w of the rows of a shard; an update adds to w."""

    def derived(self, truth):
        return self.shard.target - self.shard.X @ truth

    def advanced(self, state, update):
        return state - self.shard.X @ update

    def gradient(self, state):
        return self.shard.X.T @ state

    def gram(self, state):
        assert state is None
        return self.shard.X.T @ self.shard.X


class Faulty(Residual):
    """A residual whose worker is killed, or stopped, where a file says so, once a file.

    ``facts`` is a folder; a file in it is named by the method and the number of the shard, and
    holds the number of the signal.
    """

    def _fault(self, where):
        path = Path(self.facts) / f"{where}-{self.number}"
        try:
            number = int(path.read_text())
            path.unlink()
        except FileNotFoundError:
            return
        os.kill(os.getpid(), number)
        time.sleep(1.0 if number == signal.SIGKILL else 0.0)

    def derived(self, truth):
        self._fault("derived")
        return super().derived(truth)

    def advanced(self, state, update):
        self._fault("advanced")
        return super().advanced(state, update)

    def gradient(self, state):
        self._fault("gradient")
        return super().gradient(state)

    def gram(self, state):
        self._fault("gram")
        return super().gram(state)


def shards_of(X, y, edges):
    return [Shard(X[a:b], y[a:b]) for a, b in pairwise(edges)]


def descent(X, engine, kind=Residual, facts=None, lose=lambda step: None, n_steps=30):
    """Steps of gradient descent, with the truth here; ``lose`` may break workers in between."""
    run, w = Run(engine, kind, facts), np.zeros(X.shape[1])
    update, size = None, 1 / np.linalg.norm(X, 2) ** 2
    for step in range(n_steps):
        lose(step)
        gradient = run.total("gradient", version=step, update=update, truth=lambda i, w=w: w)
        update = size * gradient
        w = w + update
    return run, w


_ORIGINALS = {}  # functions of this worker that are armed


def arm(place, folder, at=1, number=signal.SIGKILL):
    """Send this worker a signal in the ``at``-th call of a function; the first worker only.

    ``place`` is "module:function" or "module:Class.method"; a file in ``folder`` tells others that
    it is done.
    """
    owner, name = _owner(place)
    original = vars(owner)[name]
    calls = itertools.count(1)

    @functools.wraps(original)
    def armed(*args, **kwargs):
        if next(calls) == at and _is_first(Path(folder) / f"{place}-{at}".replace(":", "-")):
            os.kill(os.getpid(), number)
            time.sleep(1.0 if number == signal.SIGKILL else 0.0)
        return original(*args, **kwargs)

    _ORIGINALS.setdefault(place, original)
    setattr(owner, name, armed)


def disarm():
    """Undo ``arm``."""
    for place, original in _ORIGINALS.items():
        setattr(*_owner(place), original)
    _ORIGINALS.clear()


def _owner(place):
    module, _, path = place.partition(":")
    *owners, name = path.split(".")
    return functools.reduce(getattr, owners, importlib.import_module(module)), name


def _is_first(path):
    try:
        path.touch(exist_ok=False)
    except FileExistsError:
        return False
    return True
