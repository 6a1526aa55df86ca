"""Tables on other machines: treated there, by what is learned of some rows and of all labels."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer._runtime.rows import FarRows, PreparedRows
from mercer.preparation.columns import TableColumns, read
from mercer.preparation.label_parts import SampledLabels, Several
from mercer.preparation.labels import TargetCodes
from mercer.preparation.pieces import sampled
from mercer.preparation.texts import Texts, has_words, is_prose

__all__ = ["fitted_to_far"]


def fitted_to_far(
    preparer: Any, X: FarRows, y: Any, weights: NDArray | None, groups: NDArray | None
) -> PreparedRows:
    """Fit a ``TablePreparer`` to a remote table, and treat its rows there.

    At most 200 000 random rows decide kinds, scales and words; label codes are of all rows.
    """
    rows = sampled(X.shape[0], preparer.random_state)
    beside: list[Any] = [None if v is None else np.asarray(v) for v in (y, weights, groups)]
    columns = read(X[rows], preparer._names())
    if len(rows) < X.shape[0]:
        _with_all_labels(columns, X, rows, beside)
    out = preparer._fit_columns(columns, *(None if v is None else v[rows] for v in beside))
    preparer._warn_of_left_out()
    known = []
    for place, part in preparer.parts_:
        # Codes of the rows of a fit are those that their own targets have no part in.
        if isinstance(part, (TargetCodes, Texts, Several)):
            own = np.flatnonzero(preparer.origins_ == place)
            labels = columns.labels[place]
            if isinstance(labels, SampledLabels) and labels.made:
                kept = preparer._kept_[preparer._all_origins() == place]
                values = labels.made[0][:, kept].astype(out.dtype)
                known.append((np.arange(X.shape[0]), own, values))
            else:
                known.append((rows, own, out[:, own]))
    return X.treated(preparer._transformed, known, out[:1])


def _with_all_labels(
    columns: TableColumns, X: FarRows, rows: NDArray[np.int64], beside: list[Any]
) -> None:
    """Put labels of all rows beside a sample's, except texts of words, which are long."""
    some = columns.labels
    places = [i for i, own in some.items() if not (is_prose(own) and has_words(own))]
    for place, whole in X.labels(columns.reading(), places).items() if places else ():
        own = some[place]
        some[place] = SampledLabels(own.texts, own.codes, rows, whole, *beside)
