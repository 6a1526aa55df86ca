"""Kernels and maps that follow from rows in shards, as they would from all rows together."""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from mercer import maps
from mercer._runtime.moments import Moments
from mercer._runtime.rows import PreparedRows
from mercer.designs import Occupancy
from mercer.engines.engine import Engine
from mercer.engines.shards import Shard, gathered, summed
from mercer.estimators.preprocessing import Preprocessing
from mercer.kernels import On, Perceptron
from mercer.kernels.base import Stationary
from mercer.maps import FeatureMap, RandomBinning

__all__ = ["ScaledRows", "fit_map", "resolved_kernel"]

# Maps whose fit asks of rows no more than their range, once the kernel is in numbers.
_OF_RANGES = (
    maps.Fastfood,
    maps.Halfspaces,
    maps.IdentityMap,
    maps.RandomFourier,
    maps.RandomPerceptron,
)


class ScaledRows(Protocol):
    """Answers that kernels and maps need of rows in shards.

    The engine has checked shards, whose rows ``preprocessing`` scales; ``columns`` describes the
    scaled rows. ``weights`` (n,) are brought here on demand.
    """

    def __len__(self) -> int: ...

    @property
    def engine(self) -> Engine: ...

    @property
    def dtype(self) -> Any: ...

    @property
    def preprocessing(self) -> Preprocessing: ...

    @property
    def columns(self) -> Moments: ...

    @property
    def weights(self) -> NDArray[np.float64] | None: ...

    def by_number(self) -> PreparedRows:
        """The scaled rows, brought here on access by number."""
        ...


def resolved_kernel(kernel: Any, rows: ScaledRows) -> Any:
    """A kernel with gamma in numbers for scaled rows; "median" brings a sample of them here."""
    if hasattr(kernel, "parts"):
        parts = tuple(resolved_kernel(part, rows) for part in kernel.parts)
        return replace(kernel, parts=parts)
    if isinstance(kernel, On):
        inner = kernel.kernel
        if isinstance(inner, Stationary) and inner.gamma == "scale":
            own = rows.columns.among(np.array(kernel.columns))
            return replace(kernel, kernel=inner.scaled_to(own))
        return kernel.resolve(rows.by_number(), rows.weights)
    if hasattr(kernel, "kernel"):
        return replace(kernel, kernel=resolved_kernel(kernel.kernel, rows))
    if isinstance(kernel, Stationary) and isinstance(kernel.gamma, str):
        if kernel.gamma == "median":
            return kernel.resolve(rows.by_number(), rows.weights)
        return kernel.scaled_to(rows.columns)
    if isinstance(kernel, Perceptron) and not kernel.is_resolved:
        if isinstance(kernel.centre, str):
            kernel = replace(kernel, centre=tuple(rows.columns.mean.tolist()))
        radii = gathered(rows.engine, _radius_of, rows.preprocessing, kernel)
        return kernel if kernel.is_resolved else replace(kernel, radius=max(radii) or 1.0)
    return kernel.resolve(_ends(rows))


def fit_map(map_: FeatureMap, rows: ScaledRows) -> FeatureMap:
    """``map_`` fitted to scaled rows in shards, as on one machine; a ValueError if impossible."""
    if isinstance(map_, maps.Nystroem):
        name = getattr(map_, "landmarks", None)
        if isinstance(name, str) and name != "uniform":
            raise ValueError(
                "landmarks must be 'uniform' or an array of them over many machines; got "
                f"{name!r}, by which maps.Nystroem chooses them from a sample of rows."
            )
        return map_.fit(rows.by_number())
    if isinstance(map_, RandomBinning):
        return _fit_binning(map_, rows)
    if isinstance(map_, maps.SubspaceEmbedding):
        return _fit_nested(map_, rows)
    if not isinstance(map_, _OF_RANGES):
        raise ValueError(
            f"feature_map must not be a {type(map_).__name__} over many machines: it looks at all "
            "rows together, as the models of mercer itself let it."
        )
    return map_.fit(_ends(rows))


def _ends(rows: ScaledRows) -> NDArray:
    """Two rows of the range of all."""
    return np.stack([rows.columns.low, rows.columns.high]).astype(rows.dtype)


def _radius_of(shard: Shard, preprocessing: Preprocessing, kernel: Perceptron) -> float:
    """The distance of the farthest row from the centre of a ball."""
    if not len(shard):
        return 0.0
    X = preprocessing.scaled(shard.X)
    centred = X - np.asarray(kernel.centre)
    return float(np.sqrt(np.square(centred, dtype=np.float64).sum(axis=1).max()))


# -- boxes of random grids ----------------------------------------------------------------------


@dataclass(frozen=True)
class Boxes:
    """Boxes of grids in the order of their first rows, and counts; + joins, the left first."""

    keys: tuple[NDArray[np.uint64], ...]  # by grid
    counts: tuple[NDArray[np.int64], ...]

    def __add__(self, other: Boxes) -> Boxes:
        grids = zip(self.keys, self.counts, other.keys, other.counts, strict=True)
        keys, counts = zip(*(_merged(*grid) for grid in grids), strict=True)
        return Boxes(keys, counts)


def _merged(
    keys: NDArray, counts: NDArray, more: NDArray, more_counts: NDArray
) -> tuple[NDArray, NDArray]:
    order = np.argsort(keys)
    places = order[np.minimum(np.searchsorted(keys, more, sorter=order), len(keys) - 1)]
    known = keys[places] == more
    counts = counts.copy()
    counts[places[known]] += more_counts[known]
    return np.concatenate([keys, more[~known]]), np.concatenate([counts, more_counts[~known]])


def _fit_binning(map_: RandomBinning, rows: ScaledRows) -> RandomBinning:
    map_.fit(_ends(rows))
    shared = rows.engine.share(map_)
    if map_._is_hashed:
        counts = summed(rows.engine, _sizes_of_boxes, rows.preprocessing, shared)
    else:
        boxes = summed(rows.engine, _boxes_of, rows.preprocessing, shared)
        n_bins = np.array([len(keys) for keys in boxes.keys], dtype=np.int64)
        map_.take_boxes(np.concatenate(boxes.keys), n_bins)
        counts = np.concatenate(boxes.counts)
    largest = np.maximum.reduceat(counts, map_._offsets[:-1])
    map_.occupancy_ = Occupancy(
        largest, *np.unique(counts[counts > 0], return_counts=True), n_rows=len(rows)
    )
    return map_


def _boxes_of(shard: Shard, preprocessing: Preprocessing, map_: RandomBinning) -> Boxes | None:
    """The boxes that the rows of a shard are in."""
    if not len(shard):
        return None
    numbered = _alone(map_)
    design = numbered._number_boxes(numbered._checked(preprocessing.scaled(shard.X), False))
    cuts = np.cumsum(numbered.n_bins_)[:-1]
    counts = np.split(_sizes(design), cuts)
    return Boxes(tuple(np.split(numbered._table.keys(), cuts)), tuple(counts))


def _sizes_of_boxes(
    shard: Shard, preprocessing: Preprocessing, map_: RandomBinning
) -> NDArray[np.int64] | None:
    """Rows of a shard in every box."""
    if not len(shard):
        return None
    return _sizes(_alone(map_).design(preprocessing.scaled(shard.X)))


def _sizes(design: Any) -> NDArray[np.int64]:
    n_bins = np.diff(design.offsets)
    return np.concatenate(
        [np.bincount(c, minlength=n) for c, n in zip(design.codes, n_bins, strict=True)]
    )


def _alone(map_: Any) -> Any:
    """A copy of a fitted map for one thread."""
    other = copy.copy(map_)
    other.n_jobs = 1
    return other


# -- maps of maps -------------------------------------------------------------------------------


def _fit_nested(map_: Any, rows: ScaledRows) -> FeatureMap:
    map_._forget()
    base = map_.settled_base()
    map_.take_base(fit_map(base, rows), len(rows.columns.mean))
    if isinstance(map_, maps.SubspaceEmbedding):
        lengths = gathered(rows.engine, len)
        starts = np.concatenate([[0], np.cumsum(lengths)[:-1]]).tolist()
        # A map without its basis is refused where it is unpickled: workers take its parts.
        shared = rows.engine.share((clone(map_), map_.base_, map_.key_))
        prepared = rows.preprocessing

        def total(basis: NDArray | None) -> NDArray[np.float64]:
            own = {i: (start,) for i, start in enumerate(starts)}
            given = (shared, prepared, len(rows), rows.engine.share(basis))
            handles = rows.engine.each(_products_of, *given, own=own)
            return rows.engine.fetch([rows.engine.total(handles, _plus)])[0]

        map_.fit_basis(total)
    return map_


def _products_of(
    memory: Any,
    number: int,
    shard: Shard,
    parts: tuple[Any, FeatureMap, int],
    preprocessing: Preprocessing,
    n_rows: int,
    basis: NDArray | None,
    start: int,
) -> NDArray[np.float64] | None:
    """F.T S of the rows of a shard, the first of which is row ``start`` of all; or F.T F basis."""
    if not len(shard):
        return None
    X = preprocessing.scaled(shard.X)
    map_, base, key = parts
    map_ = clone(map_)  # shards of a process share the parts
    map_.key_ = key
    map_.take_base(base, X.shape[1])
    return map_.products(map_.pieces_of(X), n_rows, basis, start)


def _plus(left: Any, right: Any) -> Any:
    return right if left is None else left if right is None else left + right
