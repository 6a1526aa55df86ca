"""The rows that a model is to predict, a piece at a time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from mercer.cli.read import floats, is_file, near_file, numbers_in, offset_of, table_of
from mercer.cli.roles import require

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from mercer.persistence import SavedModel

_ROWS = 1 << 17  # of an array that are predicted at a time


@dataclass
class Piece:
    """Some rows: X as the model takes it, the target where it is there, and columns to keep."""

    X: Any
    y: NDArray | None = None  # NaN or None where it is missing
    ids: Mapping[str, Any] = field(default_factory=dict)  # columns of PyArrow
    offset: NDArray | None = None

    @property
    def beside(self) -> dict[str, NDArray]:
        """Arguments of ``predict`` beside the inputs."""
        return {} if self.offset is None else {"offset": self.offset}


@dataclass
class Pieces:
    """All rows, to be gone through once; ``n_rows`` where it is known before."""

    pieces: Iterator[Piece]
    n_rows: int | None


def model_in(path: Path) -> SavedModel:
    """The model of a file; where there is none, the error names a file called alike."""
    from mercer import persistence

    try:
        return persistence.load_saved(path)
    except FileNotFoundError as error:
        raise FileNotFoundError(f"{str(error).rstrip('.')}{near_file(path) or '.'}") from None


def to_predict(text: str, saved: SavedModel, ids: Sequence[str]) -> Pieces:
    """The rows that ``text`` names, columns matched by name if any, and the columns ``ids``."""
    from mercer import datasets
    from mercer.datasets.readers import columns_of

    text, _ = table_of(text)
    if not is_file(text):
        data = datasets.load(text)
        X, y = (data.X, data.y) if data.X_test is None else (data.X_test, data.y_test)
        return _of_arrays(text, saved, X, y, data.feature_names, ids)
    file = columns_of(Path(text), saved.settings.get("missing"))
    if file is not None:
        return _of_columns(text, saved, file, ids)
    table = datasets.read(text)
    d = saved.model.n_features_in_
    if table.X.shape[1] < d and not isinstance(table.X, np.ndarray):
        table = datasets.read(text, n_features=d)  # LIBSVM text names those that occur
    return _of_arrays(text, saved, table.X, table.y, table.feature_names, ids)


def takes_text(settings: Mapping[str, Any]) -> bool:
    """Whether settings are of a model of texts."""
    from mercer import maps

    return maps.takes_text(settings.get("feature_map", ""), settings.get("kernel"))


def as_texts(X: Any) -> NDArray:
    """The one column of a table as texts, empty where they are missing; (n,)."""
    if X.shape[1] != 1 or isinstance(X, np.ndarray):
        raise ValueError(
            f"a map of texts needs one column of texts, named by --features; got {X.shape[1]} "
            "columns."
        )
    texts = ["" if cell is None else str(cell) for cell in X.column(0).to_pylist()]
    return np.array([*texts, None], dtype=object)[:-1]


def _of_arrays(
    text: str, saved: SavedModel, X: Any, y: Any, names: Sequence[str] | None, ids: Sequence[str]
) -> Pieces:
    if ids:
        raise ValueError(f"--id needs a file with names of columns; {text} is none.")
    if offset_names(saved):
        raise ValueError(
            f"DATA must be a file with the column {offset_names(saved)[0]!r}, whose numbers the "
            f"model adds to its own; {text} has no names of columns."
        )
    _check_width(text, saved, X.shape[1])
    known = saved.feature_names
    if names is not None and known is not None and list(names) != known:
        differing = next(a for a, b in zip(names, known, strict=True) if a != b)
        raise ValueError(f"{text} has the column {differing!r} where the model has another.")

    def pieces() -> Iterator[Piece]:
        for start in range(0, X.shape[0], _ROWS):
            part = slice(start, start + _ROWS)
            yield Piece(floats(X[part]), None if y is None else y[part])

    return Pieces(pieces(), X.shape[0])


def _of_columns(text: str, saved: SavedModel, file: Any, ids: Sequence[str]) -> Pieces:
    """The rows of a CSV or Parquet file, read as they are asked for."""
    if ids:
        if not file.named:
            raise ValueError(f"--id needs names of columns; {text} has no header.")
        require(text, ids, file.names, "--id")
    beside = offset_names(saved)
    require(text, beside, file.names)
    target = _target(saved, file)
    kinds, unused = _kinds(saved.model)
    if saved.feature_names is not None and file.named:
        features = [n for n in saved.feature_names if n in file.names or n not in unused]
        require(text, features, file.names)
    else:  # without names the order of the columns has to be trusted
        others = {target, *ids} if len(file.names) > saved.model.n_features_in_ else set(ids)
        features = [name for name in file.names if name not in others]
        if target not in others:
            target = None
    if not unused:
        _check_width(text, saved, len(features))
    named = [*features, *ids, *beside, *([] if target is None else [target])]
    wanted = list(dict.fromkeys(named))
    names = features if saved.feature_names is None else saved.feature_names
    kind_of = dict(zip(names, kinds, strict=False))
    numbers = [name for name in features if kind_of.get(name) == "number"]
    texts = [name for name in features if kind_of.get(name) == "text"]
    as_text = {*ids, *([] if target is None else [target])} - {*features} | {*texts}
    mixed = _is_raw(saved) or takes_text(saved.settings)
    decimal = getattr(getattr(file, "layout", None), "decimal", ".")
    if decimal == "," and not mixed:
        numbers = features
    tables = file.pieces(wanted, as_text, mixed, numbers)

    def pieces() -> Iterator[Piece]:
        for table in tables:
            X = _inputs(saved, file.source, table, features)
            y = None if target is None else _known_target(saved, table.column(target), decimal)
            offset = offset_of(table, saved.settings.get("offset"), saved.settings.get("exposure"))
            yield Piece(X, y, {name: table.column(name) for name in ids}, offset)

    return Pieces(pieces(), file.n_rows)


def offset_names(saved: SavedModel) -> list[str]:
    """The column of the offset that the model was fitted with, if any."""
    named = (saved.settings.get(name) for name in ("offset", "exposure"))
    return [name for name in named if name is not None]


def _target(saved: SavedModel, file: Any) -> str | None:
    """The column of the model's target, where the file has it."""
    if saved.target is None:
        return None
    if file.named:
        return saved.target if saved.target in file.names else None
    is_place = saved.target.lstrip("+-").isdigit()
    place = int(saved.target) if is_place else len(file.names)
    n = len(file.names)
    return file.names[place] if -n <= place < n else None


def _check_width(text: str, saved: SavedModel, width: int) -> None:
    d = 1 if takes_text(saved.settings) else saved.model.n_features_in_
    if width != d:
        raise ValueError(f"{text} has {width} feature columns; the model was fitted on {d}.")


def _kinds(model: Any) -> tuple[list[str], set[str]]:
    """Kinds of the input columns, and the names of columns that may be absent.

    "number" reads floats where all cells allow it, "text" cells as they stand. A model that takes
    arrays has no kinds.
    """
    steps = getattr(model, "named_steps", None)
    preparer = model if steps is None else next(iter(steps.values()))
    if not hasattr(preparer, "columns_"):
        return [], set()
    columns = preparer.columns_
    kinds = [
        "number" if kind == "number" and form in ("", "number") else "text"
        for kind, form in zip(columns["kind"], columns["format"], strict=True)
    ]
    named = hasattr(model, "feature_names_in_")
    return kinds, set(preparer._unused_columns()) if named else set()


def _is_raw(saved: SavedModel) -> bool:
    """Whether a model takes tables as they are, as automatic ones and pipelines do."""
    return any(hasattr(saved.model, name) for name in ("best_estimator_", "named_steps"))


def _inputs(saved: SavedModel, source: Any, table: Any, features: list[str]) -> Any:
    """The inputs of a piece in the form in which the model met its training rows."""
    from mercer.datasets import tables

    if takes_text(saved.settings):
        return as_texts(table.select(features))
    if not _is_raw(saved):
        return floats(tables.number_matrix(source, table, features))
    if hasattr(saved.model, "feature_names_in_"):
        return tables.frame(table, features)
    return tables.raw_matrix(source, table, features)


def _known_target(saved: SavedModel, column: Any, decimal: str) -> NDArray | None:
    """A target as the model predicts it, NaN or None where it is missing; None if it is none."""
    import pyarrow
    import pyarrow.compute as compute

    from mercer.datasets.number_columns import as_numbers

    labels = getattr(saved.model, "classes_", None)
    if pyarrow.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    is_text = pyarrow.types.is_string(column.type) or pyarrow.types.is_large_string(column.type)
    if is_text:
        column = compute.utf8_trim_whitespace(column)
        column = compute.if_else(compute.equal(column, ""), None, column)
        if labels is None or labels.dtype.kind in "iuf":
            column = as_numbers(column, decimal, f"the target {saved.target!r}")
    try:
        if labels is None or labels.dtype.kind in "iuf":
            return column.cast(pyarrow.float64()).to_numpy().astype(np.float64)
        if labels.dtype.kind == "b":
            return np.array([*column.cast(pyarrow.bool_()).to_pylist(), None], dtype=object)[:-1]
        return np.array([*column.cast(pyarrow.string()).to_pylist(), None], dtype=object)[:-1]
    except pyarrow.ArrowException:
        texts = np.array([text or "" for text in column.to_pylist()] if is_text else [], dtype=str)
        known, form = numbers_in(texts[texts != ""])
        if not form or labels is not None:
            return None
        values = np.full(len(texts), np.nan)
        values[texts != ""] = known
        return values
