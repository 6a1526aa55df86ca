"""``mercer predict``: a model and a table in, predictions out."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mercer.cli.options import Data, Ids, Json, MaxMemory, echo, print_json, say, waiting
from mercer.cli.roles import names_in
from mercer.cli.write import PREDICTIONS, Force, Output, check_outputs, write_columns

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from mercer.cli.rows import Piece, Pieces
    from mercer.persistence import SavedModel


def predict(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="A file that mercer fit wrote.")],
    data: Data,
    out: Annotated[
        Path,
        typer.Option(
            "--out",
            help="The file to write, CSV or, by its name, Parquet: a row each; - "
            "is standard output.",
        ),
    ],
    proba: Annotated[
        bool, typer.Option("--proba", help="Add the probability of each class.")
    ] = False,
    quantiles: Annotated[
        str | None,
        typer.Option(
            metavar="NUMBERS",
            help="Add values that the target stays below so often, such as 0.1,0.5,0.9.",
        ),
    ] = None,
    coverage: Annotated[
        float | None,
        typer.Option(
            help="Add intervals that hold the target, or sets that hold the class, this often "
            "(above 0 and below 1).",
        ),
    ] = None,
    id_: Ids = None,
    max_memory: MaxMemory = None,
    out_of_core: Annotated[bool, typer.Option("--out-of-core", hidden=True)] = False,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Predict the rows of a table with a fitted model.

    Columns are found by name where DATA has names, whatever their order and whatever others there
    are. Where it holds the target too, the score is printed. Of a known data set the test part is
    predicted. CSV and Parquet files are read in pieces, so that they may be larger than memory.
    """
    is_stream = str(out) == "-"
    if is_stream and as_json:
        raise ValueError("--json must be left out beside --out -, which prints the predictions.")
    if not is_stream:
        inputs = {"MODEL": model, "DATA": Path(data)}
        check_outputs([Output("--out", out, PREDICTIONS)], inputs, force)
    from mercer.cli.rows import model_in, to_predict

    saved = model_in(model)
    asked = _Asked(proba, coverage, _levels(quantiles))
    asked.check(saved)
    # Columns are found by name; arrays of them have none.
    warnings.filterwarnings("ignore", "X does not have valid feature names")
    rows = to_predict(data, saved, names_in(id_) or tuple(saved.settings.get("id") or ()))
    n, running = _write(saved, rows, asked, out)
    summary: dict[str, Any] = {"predictions": str(out), "rows": n, "task": saved.task}
    if running.n_rows:
        summary |= {"score": running.scores(), "scored_rows": running.n_rows}
    if as_json:
        print_json(summary)
        return
    part = "" if running.n_rows == n else f" in {running.n_rows} of {n} rows"
    tell = say if is_stream else echo
    for name, value in summary.get("score", {}).items():
        tell(f"{name} {value:.4f}, by the target that {data} holds{part}")
    if running.n_rows and running.n_rows == saved.settings.get("rows"):
        tell("as many rows as at the fit: if the model was fitted to them, expect less on new rows")
    tell(f"wrote {'standard output' if is_stream else out} ({n} rows)")


@dataclass(frozen=True)
class _Asked:
    """Columns that stand beside the predictions."""

    proba: bool
    coverage: float | None
    quantiles: tuple[float, ...]

    def check(self, saved: SavedModel) -> None:
        """Raise for outputs that the model does not have."""
        model = saved.model
        if self.proba and not hasattr(model, "predict_proba"):
            if not hasattr(model, "classes_"):
                raise ValueError("--proba must be left out for MODEL, which predicts numbers.")
            raise ValueError(
                "--proba needs a classifier with probabilities; fit it again in one process, or "
                "with --loss logistic or multinomial."
            )
        if self.quantiles and "quantiles" not in signature(model.predict).parameters:
            raise ValueError(
                "--quantiles needs a regression model fitted automatically; run mercer fit without "
                "--map, --kernel or --solver."
            )
        if self.coverage is None:
            return
        if not 0 < self.coverage < 1:
            raise ValueError(f"--coverage must be above 0 and below 1; got {self.coverage:g}.")
        if not any(hasattr(model, name) for name in ("predict_interval", "predict_set")):
            raise ValueError(
                "--coverage needs a model that held rows out to learn its errors; fit one with "
                "mercer fit and no option that says how."
            )

    def columns(self, model: Any, piece: Piece, predicted: NDArray) -> dict[str, Any]:
        """The predictions and further outputs, by the names of columns."""
        X, beside, columns = piece.X, piece.beside, _outputs("prediction", predicted)
        if self.proba:
            columns |= _by_label(model, "probability", model.predict_proba(X, **beside))
        if self.quantiles:
            values = model.predict(X, quantiles=list(self.quantiles), **beside)
            for j, level in enumerate(self.quantiles):
                columns |= _outputs(f"quantile_{level:g}", values[..., j])
        if self.coverage is not None:
            columns |= _bounds(model, piece, self.coverage)
        return columns


def _levels(text: str | None) -> tuple[float, ...]:
    """The levels that ``--quantiles`` names."""
    if text is None:
        return ()
    try:
        levels = tuple(float(part) for part in text.split(","))
    except ValueError:
        levels = (-1.0,)
    if not all(0 < level < 1 for level in levels):
        raise ValueError(
            f"--quantiles must be numbers above 0 and below 1, with commas between them; got "
            f"{text!r}."
        )
    return levels


def _write(saved: SavedModel, rows: Pieces, asked: _Asked, out: Path) -> tuple[int, RunningScores]:
    """Predict and write a piece at a time, files atomically; return the row count and scores."""
    running = RunningScores(saved.task or "regression")
    done = 0
    total = "" if rows.n_rows is None else f" of {rows.n_rows}"

    def pieces() -> Iterator[dict[str, Any]]:
        nonlocal done
        for piece in rows.pieces:
            predicted = _predicted(saved.model, piece, done)
            columns = asked.columns(saved.model, piece, predicted)
            both = set(columns) & set(piece.ids)
            if both:
                raise ValueError(f"--id must not name {both.pop()!r}, which predictions are called")
            yield {**piece.ids, **columns}
            if piece.y is not None and saved.task is not None:
                running.add(piece.y, predicted)
            done += len(predicted)
            update(f"{done}{total} rows predicted")
        if not done:
            raise ValueError("DATA must hold at least one row; got none.")

    with waiting("predicting") as update:
        write_columns(out, pieces())
    return done, running


def _predicted(model: Any, piece: Piece, done: int) -> NDArray:
    """Predictions of a piece of DATA that begins at row ``done``, which errors then say."""
    try:
        predicted: NDArray = model.predict(piece.X, **piece.beside)
    except ValueError as error:
        if done:
            said = str(error).rstrip(".")
            raise ValueError(f"{said} (row 0 is row {done} of DATA).") from error
        raise
    return predicted


def _outputs(name: str, values: NDArray) -> dict[str, Any]:
    """Values as columns, one for each output."""
    if values.ndim == 2:
        return {f"{name}_{j}": values[:, j] for j in range(values.shape[1])}
    return {name: values}


def _by_label(model: Any, what: str, values: NDArray) -> dict[str, Any]:
    """A column for each class."""
    labels = model.classes_.tolist()
    return {f"{what}_{label}": values[:, j] for j, label in enumerate(labels)}


def _bounds(model: Any, piece: Piece, coverage: float) -> dict[str, Any]:
    """Ends of intervals as columns, or for each class whether it belongs to the set."""
    if hasattr(model, "predict_set"):
        return _by_label(model, "in_set", model.predict_set(piece.X, coverage, **piece.beside))
    ends = model.predict_interval(piece.X, coverage, **piece.beside)
    if ends.ndim == 2:
        return {"low": ends[:, 0], "high": ends[:, 1]}
    return {
        f"{side}_{j}": ends[:, j, place]
        for j in range(ends.shape[1])
        for place, side in enumerate(("low", "high"))
    }


class RunningScores:
    """The scores of ``mercer.compare.metrics`` of rows that come in pieces."""

    def __init__(self, task: str) -> None:
        from mercer.distributed.targets import Scores

        self._task, self._sums = task, Scores(0)

    @property
    def n_rows(self) -> int:
        """Rows that have been taken in."""
        return self._sums.n_rows

    def add(self, y: NDArray, predicted: NDArray) -> None:
        """Add rows; a row whose target is NaN or None does not count."""
        import numpy as np

        if y.shape != predicted.shape:
            return
        known = np.array([value is not None for value in y]) if y.dtype == object else y == y
        known = known.all(axis=1) if known.ndim == 2 else known
        if known.any():
            self._sums = self._sums.plus(self._sums.of(self._task, y[known], predicted[known]))

    def scores(self) -> dict[str, float]:
        """Scores as :func:`mercer.compare.metrics.scores` gives them, defined ones alone."""
        return self._sums.scores(self._task)
