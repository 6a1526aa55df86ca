"""Local kernel machines fitted over many machines: the ordinary models, whose leaves are tasks."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray
from sklearn.utils.validation import check_array, validate_data

from mercer._runtime.arrays import available_memory
from mercer._runtime.rows import PreparedRows
from mercer._runtime.sparse import sound
from mercer.distributed.engine import Engine
from mercer.distributed.forest import Forest
from mercer.distributed.memory import Memory
from mercer.distributed.parts import Coding
from mercer.distributed.shards import Shard, gathered, summed
from mercer.distributed.statistics import moments_of
from mercer.distributed.tables import FarTable, NumberedRows, TargetCode, targets_of
from mercer.estimators.base import Listener
from mercer.estimators.inputs import float_types
from mercer.estimators.local import LocalKernelMachine
from mercer.estimators.preprocessing import Preprocessing, Rows, checked_scaler, with_resolved_gamma
from mercer.estimators.selection import held_out
from mercer.losses import Loss
from mercer.maps import FeatureMap
from mercer.maps.local import LocalKernel
from mercer.solvers.out_of_core import FileProgress, FileSolution

__all__ = ["fit_leaves", "fit_local_machine"]

Callback = Callable[[FileProgress], bool]


def fit_local_machine(
    model: LocalKernelMachine, engine: Engine, callback: Callback | None = None
) -> LocalKernelMachine:
    """Fit a local kernel machine to the shards of an engine.

    Parameters
    ----------
    model : LocalKernelRegressor or LocalKernelClassifier
    engine : Engine
    callback : callable, default=None
        Called after every few nodes of a tree with what is solved so far; True stops the fit.

    Returns
    -------
    model
        The same, fitted as an ordinary model of one machine, which holds the rows: in memory, or in
        files that are gone when the model is where memory has no room.

    Raises
    ------
    ValueError, TypeError, MemoryError
        In one sentence, as the model does, and for sparse rows.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import LocalKernelRegressor
    >>> from mercer.distributed import Here, Shard
    >>> from mercer.distributed.leaves import fit_local_machine
    >>> X = np.random.default_rng(0).uniform(-3, 3, size=(500, 2))
    >>> y = np.sin(X).sum(axis=1)
    >>> engine = Here([Shard(X[:200], y[:200]), Shard(X[200:], y[200:])])
    >>> model = fit_local_machine(LocalKernelRegressor(leaf_size=100, random_state=0), engine)
    >>> model.score(X, y) > 0.9
    True
    """
    model._begin_fit()
    table = FarTable.of(engine)
    target, weights = targets_of(engine)
    dtype = np.result_type(*gathered(engine, _float_type))
    with closing(engine.changed(_as_numbers, dtype, table.shape[1])) as numbers:
        checked = FarTable(numbers, table.sizes, np.empty((1, table.shape[1]), dtype), None)
        checked.callback = callback
        model.fit(PreparedRows(checked), target, weights)
    validate_data(model, table.example, reset=True, skip_check_array=True)  # names of the columns
    return model


def fit_leaves(
    model: LocalKernelMachine,
    far: Any,
    rows: Rows,
    loss: Loss,
    alphas: Sequence[float],
    is_rough: bool,
    listener: Listener | None,
) -> None:
    """Fit a ``LocalKernelMachine`` to rows that lie elsewhere; ``rows`` has their targets."""
    X, map_ = rows.X, model._stated_map()
    weights = None if rows.weights is None else rows.weights / np.mean(rows.weights)
    steps = [] if X.prepare is None else [X.prepare]
    dtype = np.dtype(np.float64) if is_rough else X.dtype
    with ExitStack() as stack:
        coding = Coding.of(model._target, rows.target.shape[1:])
        target = TargetCode(far.target_steps, coding, X.dtype)
        plain = stack.enter_context(closing(far.numbered(steps, X[:1], target, weights)))
        scaler = summed(plain, moments_of).standard_scaler(weights is not None)
        model.scaler_ = checked_scaler(scaler, X.dtype, model.scale)
        shards = plain
        if model.scaler_ is not None or dtype != X.dtype:
            prepare = Preprocessing(model.scaler_)
            shards = stack.enter_context(closing(plain.changed(_scaled, prepare, dtype)))
        of_shards = FarTable(shards, gathered(shards, len), np.empty((1, X.shape[1]), dtype))
        model._check_memory(map_, rows, 1)
        map_ = _with_gamma(map_, of_shards, rows.weights)
        how = {name: getattr(model, name) for name in ("fit_intercept", "tol", "max_iter")}
        work = Forest(shards, of_shards, map_, loss, list(alphas), how)
        if model.alphas is not None:
            work = replace(work, alphas=[_chosen(model, work, rows)])
        model.alpha_ = work.alphas[0]
        listener = _both(listener, far.callback)
        solution = _solution(stack.enter_context(closing(work)), rows, listener)
    model.feature_map_ = solution.map
    theta = solution.coef if rows.target.ndim == 2 else solution.coef[:, 0]
    model._adopt_solution(solution, theta, solution.optimality)


def _both(first: Listener | None, second: Listener | None) -> Listener | None:
    """A listener that tells both, and stops if one of them says so."""
    if first is None or second is None:
        return second if first is None else first
    return lambda state: bool(first(state)) | bool(second(state))


def _solution(work: Forest, rows: Rows, listener: Listener | None) -> FileSolution:
    """The trees that are solved, and the rows here, which the model keeps."""
    landmarks = _held(work.rows)
    n_expected = int(work.map.expected_members(work.n))

    def fitted() -> tuple[LocalKernel, NDArray]:
        map_, coef = work.model(landmarks)
        return map_, coef if rows.target.ndim == 2 else coef[:, 0]

    def told(_: Forest) -> bool:
        return bool(listener and listener(FileProgress(work.n_solved, n_expected, fitted)))

    stopped = interrupted = False
    try:
        stopped = work.solve(None if listener is None else told)
    except KeyboardInterrupt:
        if work.top is None:
            raise
        stopped = interrupted = True
    map_, coef = work.model(landmarks)
    return FileSolution(map_, coef, work.optimality, work.n_iter, stopped, interrupted)


def _held(rows: FarTable) -> NDArray:
    """All the rows, brought here shard by shard: in memory, or a file where it has no room."""
    available = available_memory()
    if available is None or 2 * rows.nbytes < available:
        out = np.empty(rows.shape, rows.dtype)
    else:
        with tempfile.TemporaryFile(prefix="mercer-") as file:  # gone with the array
            out = np.asarray(np.memmap(file, rows.dtype, "w+", shape=rows.shape))
    handles = rows.engine.each(_rows)
    for handle, first, last in zip(handles, rows.edges[:-1], rows.edges[1:], strict=True):
        out[first:last] = rows.engine.fetch([handle])[0]
    return out


def _chosen(model: LocalKernelMachine, work: Forest, rows: Rows) -> float:
    """The strength whose model of most rows has the least loss on the others."""
    alphas = work.alphas
    target = model._target
    strata = rows.strata(target.strata)
    held = held_out(work.map.settled(), rows.target, strata, model.validation_fraction)
    share = len(rows) / int((~held).sum())  # of fewer rows, the same ridge is a larger alpha
    edges = work.rows.edges
    # Weights have mean 1 over the rows that are fitted to.
    heavier = 1.0
    if rows.weights is not None:
        heavier = float(rows.weights.mean() / rows.weights[~held].mean())
    own = {
        i: (work.shards.share(held[first:last]), heavier)
        for i, (first, last) in enumerate(pairwise(edges))
    }
    fewer: dict[str, Any] = {
        "alphas": [alpha * share for alpha in alphas],
        "fitted": np.flatnonzero(~held),
    }
    with (
        closing(work.shards.changed(_with_held, own=own)) as shards,
        closing(replace(work, shards=shards, **fewer)) as trial,
    ):
        trial.solve(None)
        answers = trial.answers()[:, held]
    answers = answers if rows.target.ndim == 2 else answers[:, :, 0]
    others = Rows(None, rows.target[held], None if rows.weights is None else rows.weights[held])
    scores = [target.score(answer, others) for answer in answers]
    model.path_ = {"alpha": np.array(alphas), "score": np.array(scores)}
    return alphas[int(np.argmax(scores))]


def _with_gamma(map_: LocalKernel, rows: FarTable, weights: NDArray | None) -> FeatureMap:
    """The map with a ``gamma`` in numbers."""
    kernel: Any = map_.stated_kernel()
    if getattr(kernel, "gamma", None) is not None and kernel.gamma == "scale":
        return map_.state_kernel(kernel.scaled_to(summed(rows.engine, moments_of)))
    return with_resolved_gamma(map_, PreparedRows(rows), weights)


# -- on workers ------------------------------------------------------------------------------------


def _float_type(shard: Shard) -> np.dtype:
    """The type that the rows of a shard are taken in; the shorter one of those without rows."""
    if not len(shard):
        return np.dtype(np.float32)
    return _checked(shard.X).dtype


def _checked(X: Any) -> NDArray:
    X = sound(X)
    checked: NDArray = check_array(X, dtype=float_types(X), input_name="X")
    return checked


def _as_numbers(
    memory: Memory, number: int, shard: Shard, dtype: DTypeLike, n_inputs: int
) -> Shard:
    X = _checked(shard.X) if len(shard) else np.empty((0, n_inputs))
    return Shard(np.ascontiguousarray(X, dtype=dtype), shard.target, shard.weights)


def _scaled(
    memory: Memory, number: int, shard: NumberedRows, prepare: Preprocessing, dtype: DTypeLike
) -> NumberedRows:
    X = prepare.scaled(shard.X) if len(shard) else shard.X
    return replace(shard, X=np.ascontiguousarray(X, dtype=dtype))


def _with_held(
    memory: Memory, number: int, shard: NumberedRows, held: NDArray[np.bool_], heavier: float
) -> NumberedRows:
    weights = None if shard.weights is None else heavier * shard.weights
    return replace(shard, held=held, weights=weights)


def _rows(memory: Memory, number: int, shard: Shard) -> NDArray:
    return shard.X
