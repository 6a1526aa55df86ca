"""Shapley values of any function by random permutations, with their standard errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer.explain.exact import Found

__all__ = ["of_function"]

_AT_ONCE = 4096  # rows that a function is asked for together
_BASE_ROWS = 2000  # composed background rows whose mean response is the base
_LEAST_ROUNDS = 4  # pairs of permutations from which errors are estimated


def of_function(
    respond: Callable[[Any], NDArray],
    composed: Callable[[NDArray[np.int64]], Any],
    n: int,
    n_background: int,
    n_players: int,
    *,
    joint: bool,
    tolerance: float,
    max_evaluations: int,
    seed: int,
) -> Found:
    """Estimate the Shapley values of n rows.

    A round draws for every row an order of the players and a background row, takes over the values
    of the row player by player, in this order and in the reverse one, and credits each player with
    the change of the response (Castro, Gómez and Tejada, Computers and Operations Research 2009).

    ``respond`` and ``composed`` are as of ``control_of``, ``joint`` as of ``of_form``. Rounds end
    at a mean standard error of ``tolerance``, or after ``max_evaluations`` of the function per row.
    """
    rng = np.random.default_rng(seed)

    def drawn(count: int) -> NDArray[np.int64]:
        if joint:
            return np.repeat(rng.integers(n_background, size=(count, 1)), n_players, axis=1)
        return rng.integers(n_background, size=(count, n_players))

    def responses(places: NDArray[np.int64]) -> NDArray[np.float64]:
        parts = [
            respond(composed(places[start : start + _AT_ONCE]))
            for start in range(0, len(places), _AT_ONCE)
        ]
        return np.concatenate(parts).reshape(len(places), -1).astype(np.float64)

    all_rows = np.arange(n_background)[:, None] + np.zeros(n_players, dtype=np.int64)
    alone = responses(n + (all_rows if joint else drawn(_BASE_ROWS)))
    base = alone.mean(axis=0)
    whole = responses(np.arange(n)[:, None] + np.zeros(n_players, dtype=np.int64))
    sums = squares = np.zeros((n, n_players, whole.shape[1]))
    rounds = 0
    most = max(_LEAST_ROUNDS, max_evaluations // max(1, 2 * n_players - 1))
    while rounds < most:
        credit = _round(responses, rng, n + drawn(n), n_players, whole)
        sums, squares, rounds = sums + credit, squares + credit**2, rounds + 1
        if rounds < _LEAST_ROUNDS:
            continue
        variances = np.maximum(squares / rounds - (sums / rounds) ** 2, 0) / (rounds - 1)
        if np.sqrt(variances).mean() <= tolerance:
            break
    values, errors = sums / rounds, np.sqrt(variances)
    return Found(_summing(values, variances, whole - base), base, errors)


def _round(
    responses: Callable[[NDArray], NDArray],
    rng: np.random.Generator,
    background: NDArray[np.int64],
    n_players: int,
    whole: NDArray,
) -> NDArray[np.float64]:
    """Mean credit (n, J, k) of one order per row and of its reverse."""
    n = len(background)
    rank = rng.permuted(np.broadcast_to(np.arange(n_players), (n, n_players)), axis=1)
    own = np.broadcast_to(np.arange(n)[:, None], (n, n_players))
    steps = np.arange(n_players)  # players known; with all of them the response is ``whole``
    known = [rank < step for step in steps] + [rank >= step for step in steps[1:]]
    places = np.stack([np.where(k, own, background) for k in known])
    found = responses(places.reshape(-1, n_players)).reshape(len(known), n, -1)
    forward = np.concatenate([found[:n_players], whole[None]])
    # With the last players known first: nobody, the last one, the last two and so on.
    backward = np.concatenate([found[:1], found[n_players:][::-1], whole[None]])
    gains, reverse = np.diff(forward, axis=0), np.diff(backward, axis=0)[::-1]
    each = np.arange(n)[:, None]
    return np.asarray(0.5 * (gains + reverse)[rank, each])


def _summing(values: NDArray, variances: NDArray, changes: NDArray) -> NDArray[np.float64]:
    """Values whose sum per row is the change of the response; uncertain ones move most."""
    gap = changes - values.sum(axis=1)
    share = variances + np.finfo(float).tiny
    return np.asarray(values + share / share.sum(axis=1, keepdims=True) * gap[:, None])
