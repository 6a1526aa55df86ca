"""Rows of predictions, read as the fit read its table, and their cells that are newly missing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from mercer._runtime.rows import FarRows
from mercer.preparation.columns import Reading, TableColumns, checked_table, read
from mercer.preparation.frames import plain_numbers
from mercer.preparation.labels import OneHot
from mercer.preparation.pieces import goes_by_pieces

__all__ = ["checked_like", "new_gaps", "read_like", "reading_of"]


def checked_like(estimator: Any, preparers: Sequence[Any], X: Any) -> Any:
    """Rows as ``checked_table`` returns them; of a frame of plain numbers alone, its columns.

    The frame has the columns of the fit, in their order, and the fit met plain numbers in all.
    """
    known = vars(estimator).get("feature_names_in_")
    if known is not None and reading_of(preparers[:1]).is_plain:
        values = plain_numbers(X, known.tolist())
        if values is not None:
            return TableColumns(known.tolist(), values, np.arange(values.shape[1]))
    return checked_table(estimator, X, reset=False)


def read_like(preparers: Sequence[Any], X: Any) -> TableColumns | None:
    """The columns of a checked table in the kinds and formats of fits of ``TablePreparer``.

    Columns that no preparer uses are not read. None for CSR matrices, for models of CSR matrices
    and for tables that are read in pieces.
    """
    if isinstance(X, TableColumns):
        return X
    is_sparse = sparse.issparse(X) or preparers[0].sparse_scaler_ is not None
    if is_sparse or isinstance(X, FarRows) or goes_by_pieces(X):
        return None
    return read(X, preparers[0]._names(), reading_of(preparers))


def reading_of(preparers: Sequence[Any]) -> Reading:
    """Kinds and formats of columns at the fit, and places of columns that no preparer uses."""
    one, *others = preparers
    unused = one.unused_places.intersection(*(other.unused_places for other in others))
    return Reading(one.kinds_, one.formats_, unused)


def new_gaps(
    preparer: Any, columns: TableColumns
) -> tuple[list[str], NDArray[np.bool_], NDArray[np.bool_]]:
    """Names of columns with gaps, missing in a table and never in the fit, and two masks of rows.

    Only columns that the preparer uses count. The first mask (n,) has the rows with a gap and a
    known cell in another used column: their columns are named. The second has rows with every other
    used cell missing.
    """
    used = np.unique(preparer.origins_)
    missing = np.zeros((columns.n_rows, preparer.n_features_in_), dtype=bool)
    missing[:, columns.places] = np.isnan(columns.numbers)
    for place, labels in columns.labels.items():
        missing[:, place] = labels.codes < 0
    for place, dates in columns.dates.items():
        missing[:, place] = np.isnat(dates)
    places = [place for place in used if place in _without_gaps(preparer)]
    new, whole = missing[:, places], np.all(missing[:, used], axis=1)
    some, met = np.any(new, axis=1), np.any(new[~whole], axis=0).tolist()
    names = [columns.names[place] for place, is_met in zip(places, met, strict=True) if is_met]
    return names, np.asarray(some & ~whole), np.asarray(some & whole)


def _without_gaps(preparer: Any) -> set[int]:
    """Columns in which the fit certainly met no missing cell."""
    numbers = preparer.numbers_
    marked = set(numbers.marked.tolist()) if numbers.indicators else range(len(numbers.centre))
    places = enumerate(preparer._number_places_)
    found = {int(place) for j, place in places if j not in marked}
    labels = (place for place, part in preparer.parts_ if isinstance(part, OneHot))
    return found | {place for place in labels if not dict(preparer.parts_)[place].missing}
