"""Odd arrays into every estimator and map; what is accepted must agree with its twins."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
from hypothesis import strategies as st
from scipy import sparse
from sklearn.utils.validation import has_fit_parameter

import _hostile  # of tests/
from fuzz import inputs, judge, machines

_ROW_WISE = {"f": 1e-4, "d": 1e-9}  # relative, by dtype: the same row in other company


def attack(draw: Any, say: Any) -> None:
    """Fit to tame or odd rows and ask for answers; then ask again otherwise."""
    if draw(st.integers(0, 4)) == 0:
        return _door(draw, say)
    name = draw(st.sampled_from(machines.names()))
    machine = machines.made(name, machines.draw_settings(draw, name, most=2))
    if draw(st.booleans()):
        return _tame(draw, say, machine)
    return _odd(draw, say, machine)


@functools.cache
def _doors() -> dict[str, Any]:
    return dict(_hostile.doors())


def _door(draw: Any, say: Any) -> None:
    """Any place where rows come in: kernels, designs and parts of maps as well."""
    name = draw(st.sampled_from(sorted(_doors())))
    X, how = inputs.odd(draw)
    if not hasattr(X, "shape"):  # some doors are for arrays and sparse matrices alone
        X, how = inputs.laid_out(draw, inputs.plain(draw))
    say(f"{name} on {how}")
    judge.finite(_doors()[name](X), name)


def _tame(draw: Any, say: Any, machine: Any) -> None:
    """Rows that must be accepted, mostly."""
    kind = machines.kind(machine)
    X = inputs.plain(draw)
    say(f"{machine!r} on tame {X.dtype} {X.shape}: {X[:3].tolist()!r:.200}")
    y, target = inputs.targets(draw, len(X), kind, tame=draw(st.booleans()))
    w, weight = inputs.weights(draw, len(X))
    say(f"y: {target}, sample_weight: {weight}")
    fit(machine, X, y, w)
    _twins(draw, say, machine, X, 1.0 if kind == "classification" else _size(y))


def _odd(draw: Any, say: Any, machine: Any) -> None:
    """Odd rows to fit to, or for a sound model to answer for."""
    X, how = inputs.odd(draw)
    shape = getattr(X, "shape", ())
    n, d = shape if len(shape) == 2 else (3, 3)
    y, target = inputs.targets(draw, n, machines.kind(machine), tame=True)
    say(f"{machine!r} on {how}, y: {target}")
    if draw(st.booleans()):
        fit(machine, X, y, None)
    else:
        rows = np.random.default_rng(0).normal(size=(30, d))
        fit(machine, rows, inputs.targets(draw, 30, machines.kind(machine), tame=True)[0], None)
        say("fitted to sound rows, asked about these")
    for method in machines.answers(machine):
        answer = getattr(machine, method)(X)
        if method != "predict_interval":
            judge.finite(answer, method)


def fit(machine: Any, X: Any, y: Any, w: Any) -> None:
    """Fit with weights where there are some and it takes them."""
    if w is None or not has_fit_parameter(machine, "sample_weight"):
        machine.fit(X, y)
    else:
        machine.fit(X, y, sample_weight=w)


def _twins(draw: Any, say: Any, machine: Any, X: Any, target: float) -> None:
    """Answers for the same rows in another order, layout, format and in pieces.

    Scores are sums of terms of the size of the targets, and round as those do where they cancel.
    """
    tolerance = _ROW_WISE[X.dtype.char]
    for method in machines.answers(machine):
        ask = getattr(machine, method)
        whole = ask(X)
        if method != "predict_interval":  # infinite where too few rows were held out
            judge.finite(whole, method)
        if whole.shape[0] != len(X):
            raise judge.Wrong(f"{method} answers {whole.shape} for {X.shape}")
        if method == "predict" and whole.dtype.kind not in "f":
            continue  # labels may turn at a tie; decision_function is compared
        terms = max(_size(whole), target if method in ("predict", "decision_function") else 0.0)
        order = np.random.default_rng(1).permutation(len(X))
        judge.alike(ask(X[order]), whole[order], f"{method} of permuted rows", tolerance, terms)
        relaid, how = inputs.laid_out(draw, X)
        say(f"{method}, {how}")
        judge.alike(ask(relaid), whole, f"{method} of rows laid out {how}", tolerance, terms)
        judge.alike(ask(X[:1]), whole[:1], f"{method} of one row", tolerance, terms)
        if _takes_sparse(machine):
            judge.alike(ask(sparse.csr_array(X)), whole, f"{method} of CSR rows", tolerance, terms)


def _takes_sparse(machine: Any) -> bool:
    return bool(machine.__sklearn_tags__().input_tags.sparse)


def _size(values: Any) -> float:
    values = values.data if sparse.issparse(values) else np.asarray(values)
    return float(np.abs(values).max(initial=0.0)) if values.dtype.kind == "f" else 0.0
