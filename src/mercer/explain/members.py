"""Shapley values of one path through a model, exact where its form allows it, else sampled."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer.explain.control import control_of
from mercer.explain.exact import Found, of_form
from mercer.explain.path import SplitModel, composed_of
from mercer.explain.sampled import of_function
from mercer.maps.products import Groups

__all__ = ["Settings", "mean_sizes", "values_of"]

_SAMPLED_ROWS, _EVALUATIONS = 100, 200  # rows, and evaluations of each, of estimated importances
_MOST_APART, _APART = 500, 200  # columns that are all told apart; of more, those that are


@dataclass(frozen=True)
class Settings:
    """Settings of ``shapley_values`` that every path through a model takes."""

    joint: bool = False
    interactions: bool = False
    tolerance: float = 0.02
    max_evaluations: int = 2000
    random_state: int = 0
    n_jobs: int | None = None


def values_of(
    path: SplitModel, rows: Any, behind: Any, settings: Settings, merged: NDArray | None = None
) -> Found:
    """Values (n, d, k) of all columns of a table, 0 for columns that the model does not use.

    Rows and ``behind``, the background, are treated. ``merged`` columns (d,) become known together,
    and get 0.
    """
    all_groups = path.groups()
    players = [j for j, columns in enumerate(all_groups) if len(columns)]
    groups = [all_groups[j] for j in players]
    rest = [] if merged is None else [all_groups[j] for j in players if merged[j]]
    if merged is not None and rest:
        players = [j for j in players if not merged[j]]
        groups = [all_groups[j] for j in players] + [np.sort(np.concatenate(rest))]
    rows, behind = (path.converted(part) for part in (rows, behind))
    form = path.form(groups, behind)
    if form is not None:
        products, intercept = form
        how = settings.joint, settings.interactions, settings.n_jobs
        found = of_form(products, rows, behind, *how)
        found = replace(found, base=found.base + intercept)
    elif settings.interactions:
        raise ValueError(
            "interactions must be False for models whose values are estimated, because they are no "
            f"sums of products over columns; got True for {type(path.machine).__name__}."
        )
    else:
        found = _estimated(path, rows, behind, groups, settings)
    return _spread_out(found, np.array(players, dtype=np.int64), path.n_inputs)


def _estimated(
    path: SplitModel, rows: Any, behind: Any, groups: Groups, settings: Settings
) -> Found:
    """Estimates of the machine less its control, and the exact values of the control."""
    respond, composed = path.respond(), composed_of(rows, behind, groups)
    sizes = rows.shape[0], behind.shape[0], len(groups)
    is_plain = isinstance(rows, np.ndarray) and rows.dtype.kind == "f"
    control = control_of(respond, composed, *sizes, settings.random_state) if is_plain else None

    def left(rows: Any) -> NDArray:
        responses = np.asarray(respond(rows), dtype=np.float64).reshape(rows.shape[0], -1)
        return responses if control is None else responses - control(rows)

    spread = float(np.std(np.asarray(respond(behind))))
    found = of_function(
        left,
        composed,
        *sizes,
        joint=settings.joint,
        tolerance=settings.tolerance * spread,
        max_evaluations=settings.max_evaluations,
        seed=settings.random_state,
    )
    if control is None:
        return found
    exact = of_form(control.form(groups), rows, behind, settings.joint, False, settings.n_jobs)
    base = found.base + exact.base + control.mean
    return Found(found.values + exact.values, base, found.errors)


def _spread_out(found: Found, players: NDArray[np.int64], n_inputs: int) -> Found:
    """Values of some columns at their places among all columns of the table."""

    def spread(values: NDArray) -> NDArray:
        n_axes, rows = values.ndim - 2, np.arange(len(values))
        out = np.zeros((len(values), *[n_inputs] * n_axes, values.shape[-1]))
        own = np.arange(len(players))
        out[np.ix_(rows, *[players] * n_axes)] = values[np.ix_(rows, *[own] * n_axes)]
        return out

    return Found(spread(found.values), found.base, spread(found.errors))


def mean_sizes(model: Any) -> NDArray[np.float64]:
    """Mean absolute values (d,) of the columns of an automatic model over rows that it keeps."""
    members, _ = model.explained_members()
    n_inputs, settings = model.n_features_in_, Settings(max_evaluations=_EVALUATIONS)
    merged = np.zeros(n_inputs, dtype=bool)
    if n_inputs > _MOST_APART:
        merged[np.argsort(-model.input_shares_, kind="stable")[_APART:]] = True
    paths = [
        (share, path, path.treated(kept, after=1))
        for share, path, kept in (
            (s, SplitModel.of(member, n_inputs), k) for s, member, k in members
        )
    ]
    is_exact = all(path.form(path.groups(), behind) is not None for _, path, behind in paths)
    total: Any = 0.0
    for share, path, background in paths:
        rows = background if is_exact else background[:_SAMPLED_ROWS]
        total = total + share * values_of(path, rows, background, settings, merged).values
    return np.asarray(np.abs(total).mean(axis=(0, 2)))
