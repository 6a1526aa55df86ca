"""``mercer show``: the content of a model file."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mercer.cli.options import Json, echo, print_json, show_table, simple_table

if TYPE_CHECKING:
    from rich.table import Table

    from mercer.persistence import SavedModel

_MOST_CLASSES = 20  # labels that are printed; --json holds all of them


def show(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="A file that mercer fit wrote.")],
    as_json: Json = False,
) -> None:
    """Print what a model file holds.

    The target and its task, the data and the columns that the model was fitted to, its settings,
    the score on held-out rows, size, version, and the commands that predict with it. Nothing is
    fitted.
    """
    from mercer.cli.rows import model_in

    content = _content(model, model_in(model))
    if as_json:
        print_json(content)
    else:
        _tell(content)


def _content(path: Path, saved: SavedModel) -> dict[str, Any]:
    from mercer.cli.summary import described

    model, settings = saved.model, dict(saved.settings)
    rows = settings.pop("rows", None)
    classes = getattr(model, "classes_", None)
    return {
        "model": str(path),
        "estimator": _estimator(model),
        "task": saved.task,
        "target": saved.target,
        "classes": None if classes is None else list(classes),
        "data": settings.pop("data", None),
        "rows": rows,
        "columns": _columns(saved),
        **described(model, rows),
        "settings": settings,
        "bytes": path.stat().st_size,
        "mercer_version": saved.mercer_version,
        "predict": _commands(path, model),
    }


def _estimator(model: Any) -> str:
    """The class of the model, that at the end of a pipeline."""
    return type(getattr(model, "named_steps", {}).get("model", model)).__name__


def _columns(saved: SavedModel) -> list[dict[str, str]]:
    """Name and kind of every input column, in the order of the model."""
    from mercer.cli.rows import takes_text

    model = saved.model
    owner = getattr(model, "named_steps", {}).get("preparer", model)
    if hasattr(owner, "columns_"):
        told = owner.columns_
        return [
            {"name": str(name), "kind": f"{kind}, {form}" if form else str(kind)}
            for name, kind, form in zip(told["column"], told["kind"], told["format"], strict=True)
        ]
    kind = "text" if takes_text(saved.settings) else "number"
    n = 1 if kind == "text" else getattr(model, "n_features_in_", 0)
    return [{"name": name, "kind": kind} for name in saved.feature_names or map(str, range(n))]


def _commands(path: Path, model: Any) -> list[str]:
    """Commands that predict with the model."""
    if not hasattr(model, "predict"):
        return []
    plain = f"mercer predict {shlex.quote(str(path))} DATA --out predictions.csv"
    commands = [plain]
    if hasattr(model, "predict_proba"):
        commands.append(f"{plain} --proba")
    if hasattr(model, "predict_interval") or hasattr(model, "predict_set"):
        commands.append(f"{plain} --coverage 0.9")
    return commands


def _tell(content: dict[str, Any]) -> None:
    """Print the contents of a model file for people."""
    from rich.markup import escape

    from mercer._runtime.arrays import format_bytes
    from mercer._runtime.messages import printable
    from mercer.cli.summary import form_words

    facts = {
        "model": f"{content['estimator']}, {form_words(content)}",
        "target": f"{content['target'] or 'unnamed'} ({content['task'] or 'task unknown'})",
        "classes": _some(content["classes"]),
        "fitted to": _fitted_to(content),
        "held-out score": _score(content),
        "chosen": _chosen(content),
        "settings": ", ".join(
            f"{name} {value}" for name, value in content["settings"].items() if value is not None
        ),
        "interrupted": "the fit was interrupted" if content["interrupted"] else "",
        "size": format_bytes(content["bytes"]),
        "written by": f"mercer {content['mercer_version']}",
    }
    for name, value in facts.items():
        if value:
            echo(f"{name + ':':16}{value}")
    table = simple_table()
    for heading in ("column", "kind"):
        table.add_column(heading, overflow="fold")
    for column in content["columns"]:
        table.add_row(*(escape(printable(column[key])) for key in ("name", "kind")))
    echo("")
    show_table(table)
    if content["stage_seconds"]:
        show_table(_stages(content["stage_seconds"]))
    if content["predict"]:
        echo("to predict a table with these columns:")
    for command in content["predict"]:
        echo(f"  {command}")


def _stages(seconds: dict[str, float]) -> Table:
    """Seconds of the stages of a search, and their shares."""
    table, total = simple_table(), sum(seconds.values())
    for heading in ("stage of the search", "seconds", "share"):
        table.add_column(heading)
    for stage, own in seconds.items():
        table.add_row(stage, f"{own:.3g}", f"{own / total:.1%}")
    return table


def _some(classes: list[Any] | None) -> str:
    if classes is None:
        return ""
    more = len(classes) - _MOST_CLASSES
    listed = ", ".join(map(str, classes[:_MOST_CLASSES]))
    return f"{listed} and {more} more" if more > 0 else listed


def _fitted_to(content: dict[str, Any]) -> str:
    rows = None if content["rows"] is None else f"{content['rows']} rows"
    columns = f"{len(content['columns'])} columns"
    return ", ".join(filter(None, (content["data"], rows, columns)))


def _chosen(content: dict[str, Any]) -> str:
    from mercer.cli.summary import chosen_words

    if content["chosen"] is None:
        return ""
    return chosen_words(content["chosen"], content["n_tried"]).removeprefix("chosen ")


def _score(content: dict[str, Any]) -> str:
    from mercer.cli.summary import default_score, held_out_words

    held = content["validation"]
    if held is None:
        return "none, the fit held no rows out"
    named = content["settings"].get("scoring", default_score(content["task"]))
    return held_out_words(held, named)
