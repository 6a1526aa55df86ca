"""``mercer explain``: a model and a table in, Shapley values or a page of figures out."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mercer.cli.options import Data, Ids, Json, MaxMemory, echo, print_json, waiting
from mercer.cli.roles import names_in
from mercer.cli.write import (
    EXPLANATIONS,
    PAGE,
    Force,
    Output,
    check_outputs,
    is_page,
    write_columns,
)

if TYPE_CHECKING:
    from mercer.cli.rows import Piece, Pieces
    from mercer.explain import ShapleyValues
    from mercer.persistence import SavedModel

_PAGE_ROWS = 500  # rows of a page


def explain(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="A file that mercer fit wrote.")],
    data: Data,
    out: Annotated[
        Path,
        typer.Option(
            "--out",
            help="The file to write: by its name a page of figures (.html), or the values as "
            "Parquet or CSV, a row each.",
        ),
    ],
    class_: Annotated[
        str | None,
        typer.Option("--class", help="Explain the response of this class, of more than two."),
    ] = None,
    rows: Annotated[
        int | None,
        typer.Option(min=1, help="Explain the first so many rows; a page takes 500, else all."),
    ] = None,
    id_: Ids = None,
    max_memory: MaxMemory = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Explain the predictions of a fitted model by Shapley values of the columns.

    The values of a row sum to its response minus the base, the mean response over training rows
    that the model keeps. Values that have to be estimated have standard errors beside them. Columns
    of DATA are found by name, as mercer predict finds them. The base of a model that was fitted
    with --offset or --exposure has the offset of the row, of the same column.
    """
    inputs = {"MODEL": model, "DATA": Path(data)}
    check_outputs([Output("--out", out, PAGE if is_page(out) else EXPLANATIONS)], inputs, force)
    from mercer.cli.rows import model_in, offset_names, to_predict

    saved = model_in(model)
    warnings.filterwarnings("ignore", "X does not have valid feature names")
    pieces = to_predict(data, saved, names_in(id_) or tuple(saved.settings.get("id") or ()))
    if is_page(out):
        n = _write_page(saved, pieces, class_, rows or _PAGE_ROWS, out, model.name)
    else:
        n = _write_values(saved.model, pieces, class_, rows, out)
    if as_json:
        print_json({"explanation": str(out), "rows": n})
        return
    beside = "".join(f", each with the offset of column {name!r}" for name in offset_names(saved))
    echo(f"wrote {out} ({n} rows{beside})")


def _explained(model: Any, piece: Piece, n: int | None, class_: str | None) -> ShapleyValues:
    """Values of the first n rows of a piece."""
    from mercer.explain import shapley_values

    X = piece.X[:n]
    beside: dict[str, Any] = {name: part[:n] for name, part in piece.beside.items()}
    if class_ is None:
        return shapley_values(model, X, **beside)
    classes = {str(label): label for label in getattr(model, "classes_", ())}
    if len(classes) < 3:
        raise ValueError("--class must be left out for MODEL, which has one response.")
    if class_ not in classes:
        raise ValueError(f"--class must be one of {', '.join(classes)}; got {class_!r}.")
    label = classes[class_]
    return shapley_values(model, X, outputs=[label], **beside).of_output(label)


def _write_values(
    model: Any, pieces: Pieces, class_: str | None, rows: int | None, out: Path
) -> int:
    done = 0

    def explained() -> Iterator[dict[str, Any]]:
        nonlocal done
        for piece in pieces.pieces:
            left = len(piece.X) if rows is None else min(len(piece.X), rows - done)
            if not left:
                break
            found = _explained(model, piece, left, class_)
            ids = {name: column[:left] for name, column in piece.ids.items()}
            yield {**ids, **_columns(found)}
            done += left
            update(f"{done} rows explained")
        if not done:
            raise ValueError("DATA must hold at least one row; got none.")

    with waiting("explaining") as update:
        write_columns(out, explained())
    return done


def _columns(found: ShapleyValues) -> dict[str, Any]:
    """Base values, values and, of estimates, standard errors by the names of columns."""
    import numpy as np

    outputs = [(found, "")]
    if found.output_names is not None:
        outputs = [(found.of_output(name), f"_{name}") for name in found.output_names.tolist()]
    columns: dict[str, Any] = {}
    for one, end in outputs:
        columns[f"base{end}"] = np.array(one.base_of_rows)
        parts = [("value", one.values)]
        if not one.is_exact:
            parts.append(("error", one.standard_errors))
        for kind, numbers in parts:
            for j, name in enumerate(one.feature_names):
                columns[f"{kind}_{name}{end}"] = numbers[:, j]
    return columns


def _write_page(
    saved: SavedModel, pieces: Pieces, class_: str | None, rows: int, out: Path, title: str
) -> int:
    from mercer.plots.explanation import write_explanation

    with waiting("explaining"):
        piece = next(pieces.pieces, None)
        if piece is None or not len(piece.X):
            raise ValueError("DATA must hold at least one row; got none.")
        found = _explained(saved.model, piece, rows, class_)
        if found.unit == "target" and saved.target:
            found = replace(found, unit=saved.target)
        write_explanation(found, out, title=title)
    return len(found.values)
