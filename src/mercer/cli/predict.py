"""``mercer predict``: a model and a table in, predictions out."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mercer.cli.options import Data, Json, MaxMemory, OutOfCore, check_writable, print_json, waiting

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from mercer.persistence import SavedModel

_ROWS = 65_536  # lines formatted at a time


def predict(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="A file that mercer fit wrote.")],
    data: Data,
    out: Annotated[Path, typer.Option("--out", help="The CSV file to write, one line for a row.")],
    proba: Annotated[
        bool, typer.Option("--proba", help="Add the probability of each class.")
    ] = False,
    coverage: Annotated[
        float | None,
        typer.Option(
            help="Add intervals that hold the target, or sets that hold the class, this often "
            "(above 0 and below 1).",
        ),
    ] = None,
    max_memory: MaxMemory = None,
    out_of_core: OutOfCore = False,
    as_json: Json = False,
) -> None:
    """Predict the rows of a table with a fitted model.

    Columns are found by name where DATA has names. Where it holds the target too, the score is
    printed. Of a known data set the test part is predicted.
    """
    check_writable(out)
    from mercer import persistence
    from mercer.cli.data import unlabelled
    from mercer.compare.metrics import scores

    saved = persistence.load_saved(model)
    _check_asked(saved, proba, coverage)
    X, y = unlabelled(data, saved, out_of_core)
    with waiting(f"predicting {X.shape[0]} rows"):
        predicted = saved.model.predict(X)
        columns = _columns(predicted)
        if proba:
            columns |= _by_label(saved, "probability", saved.model.predict_proba(X))
        if coverage is not None:
            columns |= _bounds(saved, X, coverage)
        persistence.write_atomically(out, lambda file: _write_csv(file, columns))
    summary: dict[str, Any] = {"predictions": str(out), "rows": X.shape[0], "task": saved.task}
    if y is not None and saved.task is not None:
        summary["score"] = scores(saved.task, y, predicted)
    if as_json:
        print_json(summary)
        return
    for name, value in summary.get("score", {}).items():
        typer.echo(f"{name} {value:.4f}, by the target that {data} holds")
    typer.echo(f"wrote {out} ({X.shape[0]} rows)")


def _check_asked(saved: SavedModel, proba: bool, coverage: float | None) -> None:
    """Refuse what the model cannot say."""
    if proba and not hasattr(saved.model, "predict_proba"):
        raise ValueError(
            "--proba needs a classifier with a loss that defines probabilities; fit one with "
            "--loss logistic or multinomial."
        )
    if coverage is None:
        return
    if not 0 < coverage < 1:
        raise ValueError(f"--coverage must be above 0 and below 1; got {coverage:g}.")
    if not any(hasattr(saved.model, name) for name in ("predict_interval", "predict_set")):
        raise ValueError(
            "--coverage needs a model that held rows out to learn its errors; fit one with mercer "
            "fit and no option that says how."
        )


def _columns(predicted: NDArray) -> dict[str, NDArray]:
    """The predictions as columns by name."""
    if predicted.ndim == 2:
        return {f"prediction_{j}": predicted[:, j] for j in range(predicted.shape[1])}
    return {"prediction": predicted}


def _by_label(saved: SavedModel, what: str, values: NDArray) -> dict[str, NDArray]:
    """A column for each class."""
    labels = saved.model.classes_.tolist()
    return {f"{what}_{label}": values[:, j] for j, label in enumerate(labels)}


def _bounds(saved: SavedModel, X: Any, coverage: float) -> dict[str, NDArray]:
    """Ends of intervals as columns, or for each class whether it belongs to the set."""
    if hasattr(saved.model, "predict_set"):
        return _by_label(saved, "in_set", saved.model.predict_set(X, coverage))
    ends = saved.model.predict_interval(X, coverage)
    if ends.ndim == 2:
        return {"low": ends[:, 0], "high": ends[:, 1]}
    return {
        f"{side}_{j}": ends[:, j, place]
        for j in range(ends.shape[1])
        for place, side in enumerate(("low", "high"))
    }


def _write_csv(file: Any, columns: dict[str, NDArray]) -> None:
    text = io.TextIOWrapper(file, encoding="utf-8", newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    n = len(next(iter(columns.values())))
    for start in range(0, n, _ROWS):
        block = [column[start : start + _ROWS].tolist() for column in columns.values()]
        writer.writerows(zip(*block, strict=True))
    text.flush()
    text.detach()  # the caller closes the file itself
