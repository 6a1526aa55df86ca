"""Kernel machines fitted to shards: models of ``mercer`` whose rows are on many workers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import assert_all_finite, check_array, column_or_1d, compute_sample_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import validate_data

from mercer import maps
from mercer._runtime.arrays import format_bytes
from mercer._runtime.moments import Moments
from mercer._runtime.progress import Iterations, is_heard, with_callbacks
from mercer._runtime.sparse import canonical_csr
from mercer._runtime.validation import (
    as_counts,
    check_offset,
    is_name,
    numbers,
    plus_offset,
    refuse_missing,
)
from mercer.distributed.machines import Log, ShardedRows
from mercer.distributed.parts import Coding
from mercer.distributed.repeats import without_copies
from mercer.distributed.statistics import Summary, summary_of
from mercer.engines.engine import Engine
from mercer.engines.memory import WorkerStore
from mercer.engines.shards import Shard, gathered, summed
from mercer.estimators.base import Listener, listening
from mercer.estimators.inputs import float_types
from mercer.estimators.machine import KernelMachine
from mercer.estimators.plan import FitPlan
from mercer.estimators.preprocessing import TrainingSample
from mercer.estimators.selection import CRITERIA
from mercer.estimators.targets import (
    ClassTarget,
    NumericTarget,
    Target,
    check_class_weight,
    checked_labels,
    coded,
    unit_of_widths,
)

__all__ = ["fit_machine"]

_PARTS = 8  # of the range of the targets per request
_REQUESTS = 17  # per median: 8^17 is 2^51, about the digits of float64


def fit_machine(
    model: KernelMachine,
    engine: Engine,
    *,
    callback: Listener | None = None,
    checkpoint: Any = None,
) -> KernelMachine:
    """Fit a kernel machine in place to the shards of an engine, which stays open; return it.

    Scaler, map and coefficients are those of a fit to all rows in the order of the shards, up to
    rounding. Arrays of the size of the rows stay on the workers. Shards hold X as arrays, CSR or
    data frames, targets as given, weights and an offset.

    ``callback`` receives the solver's state after every iteration, and ``state.problem.run`` its
    counts of numbers sent and shards rebuilt; True stops. ``checkpoint`` is a folder for the state
    of block descent, see ``solvers.BlockCoordinateDescent``. The model gains ``n_rebuilt_``, the
    number of shards whose lost state was made again, and ``n_workers_``.

    A ValueError or TypeError for settings or data that make no sense, or need one machine. After a
    KeyboardInterrupt the last iterate is in place and can predict.
    """
    _refuse(model)
    log = Log(checkpoint)
    try:
        _fit(model, engine, log, callback)
    finally:
        model.__dict__.update(n_rebuilt_=log.n_rebuilt, n_workers_=engine.n_workers)
        log.close()
    return model


@with_callbacks
def _fit(model: Any, engine: Engine, log: Log, callback: Listener | None) -> None:
    model._begin_fit()
    rows = _rows_of(model, engine, log)
    told = callback
    if is_heard():
        told = _Told(type(model).__name__, log, engine, callback)
    with listening(model, told=told) as listener:
        model._fit_rows(rows, listener, FitPlan())


def _refuse(model: Any) -> None:
    """Refuse settings that need all rows on one machine."""
    name = type(model).__name__
    for setting in ("warm_start", "posterior"):
        if getattr(model, setting, False) is True:
            raise ValueError(
                f"{setting} must be False over many machines; got True, which mercer.{name} takes."
            )
    if any(is_name(model.selection, each) for each in ("loo", *CRITERIA)):
        raise ValueError(
            "selection must be 'holdout' or 'auto' over many machines; got "
            f"{model.selection!r}, which mercer.{name} takes."
        )
    if maps.takes_text(model.feature_map, model.kernel):
        raise ValueError(
            f"feature_map must take numbers over many machines; got {model.feature_map!r}, whose "
            f"texts mercer.{name} takes."
        )


# -- checked shards -----------------------------------------------------------------------------


class _Look(NamedTuple):
    """Facts about a shard that take no look at its rows."""

    n_rows: int
    n_columns: int
    dtype: Any
    sparse: bool
    names: tuple[Any, ...] | None
    weighted: bool
    shifted: bool
    outputs: tuple[int, ...]


def _looked_at(shard: Shard) -> _Look:
    if np.ndim(shard.X) != 2:
        raise ValueError(f"X must have two dimensions in every shard; got {np.ndim(shard.X)}.")
    head = canonical_csr(shard.X[:1])
    given = check_array(
        head, accept_sparse="csr", dtype=float_types(head), ensure_min_samples=0, input_name="X"
    )
    names = getattr(shard.X, "columns", None)
    return _Look(
        len(shard),
        given.shape[1],
        given.dtype,
        not isinstance(given, np.ndarray),
        None if names is None else tuple(names),
        shard.weights is not None,
        shard.offset is not None,
        np.shape(shard.target)[1:],
    )


def _checked(
    memory: WorkerStore,
    number: int,
    shard: Shard,
    dtype: Any,
    classes: NDArray | None,
    of_class: NDArray[np.float64] | None,
    adds: bool,
) -> Shard:
    """Check a shard and drop rows of weight 0; return the shard itself if nothing changes.

    Targets become without the offset unless the loss ``adds`` it to responses.
    """
    X = check_array(
        canonical_csr(shard.X),
        accept_sparse="csr",
        dtype=dtype,
        ensure_min_samples=0,
        input_name="X",
    )
    target = _checked_target(shard.target, classes is None)
    if len(target) != len(shard):
        raise ValueError(
            f"X and y must have as many rows; got {len(shard)} and {len(target)} in one shard."
        )
    weights = None if shard.weights is None else _checked_weights(shard)
    if of_class is not None and classes is not None:
        by_class = of_class[np.searchsorted(classes, target)]
        weights = by_class if weights is None else weights * by_class
    offset = check_offset(shard.offset, len(shard))
    if offset is not None and not adds:
        target, offset = plus_offset(target.astype(np.float64), offset, sign=-1.0), None
    kept = TrainingSample(X, target, weights, offset).weighted()
    return Shard(kept.X, kept.target, kept.weights, offset=kept.offset)


def _checked_target(target: Any, is_numeric: bool) -> NDArray:
    if not is_numeric:
        labels = column_or_1d(np.asarray(checked_labels("KernelClassifier", target)))
        assert_all_finite(labels, input_name="y")
        return labels
    target = numbers(target, "y")
    refuse_missing(target, "y", "value")
    return check_array(target, ensure_2d=False, dtype=None, ensure_min_samples=0, input_name="y")


def _checked_weights(shard: Shard) -> NDArray[np.float64]:
    weights = np.asarray(shard.weights, dtype=np.float64)
    if weights.shape != (len(shard),):
        raise ValueError(
            f"sample_weight must have one entry for each of {len(shard)} rows of a shard; "
            f"got shape {weights.shape}."
        )
    if not (np.all(np.isfinite(weights)) and np.all(weights >= 0)):
        raise ValueError(
            "sample_weight must be finite and not negative; got values from "
            f"{weights.min()} to {weights.max()}."
        )
    return weights


def _counted(engine: Engine, log: Log) -> Engine:
    """The shards with weights as counts of rows; see ``counted``."""
    found = np.array(gathered(engine, _sums_of_weights))
    largest = found[:, 0].max()
    if not largest > 0:
        raise ValueError("sample_weight must not be all zero.")
    units = found[:, 0] / largest
    total, squares = float(units @ found[:, 1]), float(np.square(units) @ found[:, 2])
    if total / squares <= largest:
        return engine
    scaled = engine.changed(_with_counts, float(largest), total, squares)
    log.engines.append(scaled)
    return scaled


def _sums_of_weights(shard: Shard) -> tuple[float, float, float]:
    """Largest weight, and the sums of w and w² in units of it."""
    weights = shard.weights
    if weights is None or not len(weights):
        return 0.0, 0.0, 0.0
    shares = weights / weights.max()
    return float(weights.max()), float(shares.sum()), float(np.square(shares).sum())


def _with_counts(
    memory: WorkerStore, number: int, shard: Shard, largest: float, total: float, squares: float
) -> Shard:
    weights = shard.weights
    if weights is None:
        return shard
    return replace(shard, weights=as_counts(weights, largest, total, squares))


def _classes_of(shard: Shard) -> tuple[NDArray, NDArray[np.int64]]:
    """The classes of a shard, and rows of each."""
    labels = _checked_target(shard.target, False)
    if len(labels):
        check_classification_targets(labels)
    return np.unique(labels, return_counts=True)


def _rows_of(model: Any, engine: Engine, log: Log) -> ShardedRows:
    """Checked rows in shards, with targets as the loss wants them; it begins the model's fit."""
    looks = gathered(engine, _looked_at)
    _check_alike(looks)
    first = next(i for i, look in enumerate(looks) if look.n_rows)
    (head,) = engine.fetch(engine.each(_head, numbers=[first]))
    validate_data(model, head, accept_sparse="csr", dtype=float_types(head))
    names = getattr(engine, "columns", None)  # of data frames whose shards are arrays
    if names is not None and all(isinstance(name, str) for name in names):
        model.feature_names_in_ = np.asarray(names, dtype=object)
    dtype = np.result_type(*(look.dtype for look in looks if look.n_rows))
    classes: NDArray | None = None
    of_class: NDArray[np.float64] | None = None
    if model._target_kind is ClassTarget:
        classes, of_class = _found_classes(model, engine)
    adds = looks[first].shifted and _adds_offset(model, classes)
    checked = engine.changed(_checked, dtype, classes, of_class, adds)
    log.engines.append(checked)
    is_weighted = looks[first].weighted or of_class is not None
    if is_weighted:
        checked = _counted(checked, log)
    if model._chooses:
        merged = without_copies(checked, head, classes is not None)
        if merged is not checked:
            log.engines.append(merged)
            checked, is_weighted = merged, True
    summary: Summary = summed(checked, summary_of, classes is None)
    if summary.columns is None:
        raise ValueError("sample_weight must not be all zero.")
    if classes is not None:
        target: Target = ClassTarget.of_classes(model, classes)
    elif summary.target is not None:
        target = _numeric_target(model, checked, summary.target, looks[first].outputs, dtype)
    model.__dict__.update(target.attributes())
    return ShardedRows(
        engine=checked,
        lengths=gathered(checked, len),
        given=summary.columns,
        dtype=dtype,
        sparse=looks[first].sparse,
        weighted=is_weighted,
        has_offset=adds,
        coding=Coding.of(target, looks[first].outputs),
        loss=target.loss,
        fit_intercept=model.fit_intercept,
        log=log,
    )


def _head(memory: WorkerStore, number: int, shard: Shard) -> Any:
    return shard.X[:1]


def _check_alike(looks: list[_Look]) -> None:
    """Refuse shards that are no parts of one matrix."""
    full = [look for look in looks if look.n_rows]
    if not full:
        raise ValueError("X must have at least one row; got none in any shard.")
    for name, what in (
        ("n_columns", "as many columns"),
        ("names", "the same names of columns"),
        ("sparse", "the same kind of rows, dense or sparse,"),
        ("weighted", "weights, or no weights,"),
        ("shifted", "offsets, or no offsets,"),
        ("outputs", "as many outputs"),
    ):
        values = [getattr(look, name) for look in full]
        for number, value in enumerate(values):
            if value != values[0]:
                raise ValueError(
                    f"shards must have {what} everywhere; got {values[0]} and, in shard {number}, "
                    f"{value}."
                )


# -- targets ------------------------------------------------------------------------------------


def _found_classes(model: Any, engine: Engine) -> tuple[NDArray, NDArray[np.float64] | None]:
    """All classes, sorted, and the weight of each if ``class_weight`` says so."""
    found = [pair for pair in gathered(engine, _classes_of) if len(pair[0])]
    classes, labels = coded(np.concatenate([labels for labels, _ in found]))
    if model.class_weight is None:
        return classes, None
    if isinstance(model.class_weight, str) and model.class_weight == "balanced":
        counts = np.bincount(labels, np.concatenate([counts for _, counts in found]))
        return classes, counts.sum() / (len(classes) * counts)
    check_class_weight(model.class_weight, classes)
    return classes, compute_sample_weight(model.class_weight, classes)


def _adds_offset(model: Any, classes: NDArray | None) -> bool:
    """True if the loss adds the offset to responses; a ValueError if no model can take one."""
    examples = np.zeros(1) if classes is None else classes
    _, added = model._target_kind.less_offset(model, examples, np.zeros(len(examples)))
    return added is not None


def _numeric_target(
    model: Any, engine: Engine, target: Moments, outputs: tuple[int, ...], dtype: Any
) -> NumericTarget:
    loss, mean, squares = NumericTarget.loss_of(model), target.mean.reshape(outputs), target.squares
    if isinstance(model.loss, str) and loss.residual:
        deviations = np.sqrt(target.variance)
        loss = loss.scaled(unit_of_widths(_deviations(engine, target), deviations))
    if not (model.fit_intercept and loss.link == "identity"):
        squares = squares + target.weight * np.square(target.mean)
        mean = np.zeros(())
    learned = NumericTarget(loss, mean)
    learned.encoded(np.stack([target.low, target.high]), dtype, float(np.sum(squares)))
    return learned


def _deviations(engine: Engine, target: Moments) -> NDArray[np.float64]:
    """Median absolute deviations of all targets from their medians, (k,)."""
    none = np.zeros(len(target.mean))
    middle = _medians(engine, target.weight, (target.low, target.high), none, np.positive)
    reach = np.maximum(target.high - middle, middle - target.low)
    return _medians(engine, target.weight, (none, reach), middle, np.abs)


def _medians(
    engine: Engine,
    weight: float,
    ends: tuple[NDArray[np.float64], NDArray[np.float64]],
    centre: NDArray[np.float64],
    size: np.ufunc,
) -> NDArray[np.float64]:
    """Medians (k,) of ``size(y - centre)`` over all targets y, up to 2^-51 of their range.

    The range between the ends is cut into eight parts again and again: seven counts per request.
    """
    low, high = ends
    shares = np.arange(1, _PARTS)[:, None] / _PARTS
    for _ in range(_REQUESTS):
        inner = low + (high - low) * shares
        weights = summed(engine, _weight_up_to, inner, centre, size)
        place = (weights < 0.5 * weight).sum(axis=0)[None]
        edges = np.concatenate([low[None], inner, high[None]])
        low, high = (np.take_along_axis(edges, at, axis=0)[0] for at in (place, place + 1))
    return high


def _weight_up_to(
    shard: Shard, values: NDArray[np.float64], centre: NDArray[np.float64], size: np.ufunc
) -> NDArray[np.float64]:
    """Weight of the rows with ``size(y - centre)`` at most the values (m, k), in their shape."""
    y = np.asarray(shard.target, dtype=np.float64).reshape(len(shard), values.shape[1])
    weights = np.ones(len(y)) if shard.weights is None else shard.weights
    sizes = size(y - centre)
    return np.stack([weights @ (sizes <= each) for each in values])


# -- progress -----------------------------------------------------------------------------------


class _Told(Iterations):
    """Log the progress of a distributed fit, then call the user's listener."""

    def __init__(self, name: str, log: Log, engine: Engine, listener: Listener | None):
        super().__init__(name)
        self.log, self.engine, self.listener = log, engine, listener

    def __call__(self, state: Any) -> bool:
        super().__call__(state)
        return self.listener is not None and bool(self.listener(state))

    def _in_words(self, state: Any) -> str:
        workers = self.engine.n_workers
        return (
            f"{super()._in_words(state)}, {workers} worker{'s' * (workers != 1)}, "
            f"{format_bytes(8.0 * self.log.n_words)} sent and received, "
            f"{self.log.n_rebuilt} shards made again"
        )
