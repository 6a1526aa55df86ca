"""The work of ``mercer fit``: the model, its file, and what is told of it."""

from __future__ import annotations

import time
from dataclasses import replace
from difflib import get_close_matches
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mercer.cli.options import echo, say, waiting
from mercer.cli.roles import Roles

if TYPE_CHECKING:
    from mercer.cli.data import Labelled
    from mercer.datasets.base import Dataset

_LARGE = ("coef", "intercept")  # arrays of ``path_`` that the printed summary leaves out
_JUDGES = {"holdout": "held-out rows", "loo": "every row, left out in turn"}


def scorer_name(name: str | None) -> str | None:
    """A name of a score, if scikit-learn has one that is called so."""
    if name is None:
        return None
    from sklearn.metrics import get_scorer_names

    known = get_scorer_names()
    if name in known:
        return name
    plain = [each for each in (name.removesuffix("_score"), f"neg_{name}") if each in known]
    near = plain or get_close_matches(name, known, n=3, cutoff=0.5)
    hint = f"did you mean {' or '.join(near)}?" if near else f"there are {', '.join(known)}."
    raise ValueError(f"--scoring knows no {name!r}; {hint}")


def tell_rows(rows: Labelled) -> None:
    """Say how the rows were taken."""
    say(rows.task_note)
    if rows.n_left_out:
        say(f"left out: {rows.n_left_out} rows whose target is missing")


def prepared(rows: Labelled, settings: dict[str, Any], automatic: bool) -> Labelled:
    """Rows with inputs as the model takes them; logs the treatment of cells without numbers."""
    from mercer.cli.rows import as_texts, takes_text

    if takes_text(settings):
        rows.data = replace(rows.data, X=as_texts(rows.data.X))
    elif rows.is_raw and not automatic:
        say("texts, dates and missing cells become numbers first, as mercer.TablePreparer does it")
    return rows


def stated(settings: dict[str, Any]) -> dict[str, Any]:
    """Settings as a file holds them: a scorer by its name, classes by their texts."""
    told = dict(settings)
    scorer, weights = told.get("scoring"), told.get("class_weight")
    if callable(scorer):
        told |= {"scoring": scorer.name, "positive": str(scorer.positive)}
    if isinstance(weights, dict):
        told["class_weight"] = {str(label): weight for label, weight in weights.items()}
    return told


def fitted(
    rows: Labelled, settings: dict[str, Any], sparse: bool, automatic: bool, verbose: bool = False
) -> tuple[Any, float, bool]:
    """A model of some rows, the seconds that its fit took, and True if it was interrupted.

    A KeyboardInterrupt passes without a model that could predict, and with a checkpoint.
    """
    from mercer.cli.rows import takes_text

    data = rows.data
    machine = machine_for(data.task, settings, sparse, automatic)
    named = {"sample_weight": ("--weights", rows.weights), "groups": ("--groups", rows.groups)}
    more = {name: values for name, (_, values) in named.items() if values is not None}
    for name in more:
        if name not in signature(machine.fit).parameters:
            raise ValueError(
                f"{named[name][0]} must be left out for {type(machine).__name__}, whose fit "
                "takes none."
            )
    model = machine
    if rows.is_raw and not automatic and not takes_text(settings):
        model = _of_raw(machine, data.task, settings)
        more = {f"model__{name}": values for name, values in more.items()}
    start, interrupted = time.perf_counter(), False
    with waiting(f"fitting {data.X.shape[0]} rows of {_width(data)} inputs", verbose):
        try:
            model.fit(data.X, data.y, **more)
        except KeyboardInterrupt:
            if "checkpoint" in settings or not _can_predict(model, data.X):
                raise
            interrupted = True
    seconds = time.perf_counter() - start
    if "checkpoint" in settings:
        machine.solver = "block"  # where its checkpoints were is no part of the model
    return model, seconds, interrupted


def _can_predict(model: Any, X: Any) -> bool:
    """True if an interrupted fit left a model."""
    import numpy as np

    from mercer.cli.scorers import rows_of

    try:
        model.predict(rows_of(X, np.arange(1)))
    except Exception:  # an interrupted model may lack any attribute
        return False
    return True


def machine_for(task: str, settings: dict[str, Any], sparse: bool, automatic: bool) -> Any:
    """The unfitted estimator that the settings ask for."""
    import mercer

    kind = "KernelClassifier" if task == "classification" else "KernelRegressor"
    kind = f"Auto{kind}" if automatic else kind
    if sparse:
        for name, other in (("gamma_path", "gamma"), ("alphas", "alpha")):
            if name in settings:
                option = name.replace("_", "-")
                raise ValueError(f"--{option} must be left out beside --sparse; give --{other}.")
        settings = {"n_new" if k == "n_components" else k: v for k, v in settings.items()}
        kind = f"Sparse{kind}"
    folder = settings.get("checkpoint")
    settings = {name: value for name, value in settings.items() if name != "checkpoint"}
    machine = getattr(mercer, kind)(**settings)
    if folder is not None:
        how = {"tol": machine.tol, "max_iter": machine.max_iter, "checkpoint": folder}
        machine.solver = mercer.solvers.BlockCoordinateDescent(**how)
    return machine


def _of_raw(machine: Any, task: str, settings: dict[str, Any]) -> Any:
    """A machine behind a preparer, for tables with texts, dates or gaps."""
    from sklearn.pipeline import Pipeline

    from mercer import TablePreparer

    target = "classes" if task == "classification" else "continuous"
    preparer = TablePreparer(target=target, random_state=settings["random_state"])
    return Pipeline([("preparer", preparer), ("model", machine)])


def _width(data: Dataset) -> int:
    """The number of inputs: 1 for texts."""
    return 1 if len(data.X.shape) == 1 else data.X.shape[1]


def written(
    rows: Labelled, model: Any, settings: dict[str, Any], roles: Roles, out: Path
) -> dict[str, Any]:
    """Write the model's file; return the summary to print."""
    from mercer import persistence

    data = rows.data
    names = None if data.feature_names is None else list(data.feature_names)
    columns = {
        "id": list(roles.ids) or None,
        "drop": list(roles.drop) or None,
        "weights": roles.weights,
        "groups": roles.groups,
        "time": roles.time,
    }
    columns = {name: value for name, value in columns.items() if value is not None}
    scorer = getattr(model, "scoring", None)
    if callable(scorer):
        model.scoring = None  # model files carry no scorers
    size = persistence.save(
        model,
        out,
        task=data.task,
        target=rows.target,
        feature_names=names,
        settings={**settings, **columns, "data": data.name, "rows": data.X.shape[0]},
    )
    if callable(scorer):
        model.scoring = scorer
    return {
        "model": str(out),
        "bytes": size,
        "data": data.name,
        "task": data.task,
        "target": rows.target,
        "n": data.X.shape[0],
        "n_left_out": rows.n_left_out,
        "d": _width(data),
        **columns,
        **described(model, _n_counted(rows)),
        "settings": settings,
    }


def _n_counted(rows: Labelled) -> int:
    """Rows with a weight above 0."""
    weights = rows.weights
    n: int = rows.data.X.shape[0]
    return n if weights is None else int((weights > 0).sum())


def described(model: Any, n_counted: int | None) -> dict[str, Any]:
    """Chosen settings, the form of the model and its solver; None for an attribute it lacks.

    ``n_counted`` are the rows with a weight above 0, None if not known.
    """
    machine = getattr(model, "kernel_machine_", model)
    machine = getattr(machine, "named_steps", {"model": machine})["model"]
    path, validated = getattr(machine, "path_", None), getattr(model, "validation_score_", None)
    map_ = getattr(machine, "feature_map_", None)
    return {
        "n_features": getattr(map_, "n_features_out_", None),
        "exact": type(map_).__name__ == "ExactKernel",
        "n_leaves": getattr(machine, "n_leaves_", None),
        "gamma_path": getattr(machine, "gamma_path_", None),
        # A map may have no kernel, and a kernel no scale.
        "gamma": getattr(getattr(map_, "kernel_", None), "gamma", None),
        "alpha": getattr(machine, "alpha_", None),
        "chosen": getattr(model, "best_settings_", None),
        "chosen_partner": getattr(model, "partner_settings_", None),
        "interrupted": getattr(model, "interrupted_", False),
        "n_drawn": getattr(machine, "n_drawn_", None),
        "n_tried": len(getattr(model, "search_results_", {}).get("loss", ())),
        "judged_by": _JUDGES.get(getattr(machine, "selection_", "")),
        "path": None if path is None else {key: path[key] for key in path if key not in _LARGE},
        "solver": getattr(machine, "solver_", None),
        "n_iter": getattr(machine, "n_iter_", None),
        "converged": getattr(machine, "converged_", None),
        "validation": None if validated is None else _validation(model, validated, n_counted),
    }


def _validation(model: Any, score: float, n_counted: int | None) -> dict[str, Any]:
    """The score of the search; every row was held out once, by cross-validation, if all were."""
    n_rows = getattr(model, "n_validation_rows_", None)
    held = {"score": score, "rows": n_rows, "cross_validated": n_rows == n_counted}
    return held | {"later_by": getattr(model, "time", None)}


def scored(data: Dataset, model: Any, scorer: Any = None) -> dict[str, Any]:
    """Scores on the test part, or else on the training rows, and which of them it was."""
    from sklearn.metrics import get_scorer

    from mercer.compare.metrics import scores

    X, y, part = data.X_test, data.y_test, "test part"
    if X is None or y is None:
        X, y, part = data.X, data.y, "training rows (no test part: expect less on new rows)"
    found = scores(data.task, y, model.predict(X))
    named = "accuracy" if data.task == "classification" else "r2"
    if scorer is not None:
        named = scorer if isinstance(scorer, str) else scorer.name
        call = get_scorer(scorer) if isinstance(scorer, str) else scorer
        found = {named: float(call(model, X, y)), **found}
    told = {"score": found, "scored_on": part, "scored_rows": X.shape[0], "scoring": named}
    return told | {"constant": _constant(data, y)}


def _constant(data: Dataset, y: Any) -> dict[str, Any] | None:
    """The commonest class of the training rows, and its share of the rows of ``y``."""
    import numpy as np

    if data.task != "classification":
        return None
    labels, counts = np.unique(data.y, return_counts=True)
    commonest = labels[int(np.argmax(counts))]
    return {"class": commonest.item(), "accuracy": float(np.mean(np.asarray(y) == commonest))}


def reported(rows: Labelled, model: Any, path: Path, out: Path) -> str:
    """Write the page about a model of the file ``out``; returns the page's path."""
    from mercer.plots.report import Origin, write_page

    data = rows.data
    n = data.X.shape[0]
    size = out.stat().st_size
    origin = Origin(str(out), n, rows.n_left_out, rows.task_note, size)
    title = f"{rows.target} of {data.name}" if rows.target else data.name
    with waiting(f"writing {path}"):
        write_page(model, path, data.X_test, data.y_test, title, origin)
    return str(path)


def tell(summary: dict[str, Any]) -> None:
    """Print the summary of a fit for people."""
    from mercer._runtime.arrays import format_bytes

    say(
        f"fitted {summary['n']} rows, {summary['d']} inputs, {form_words(summary)} in "
        f"{summary['seconds']:.2f} s ({_solution(summary)})"
    )
    if summary["chosen"] is not None:
        echo(chosen_words(summary["chosen"], summary["n_tried"]))
    if summary["chosen_partner"] is not None:
        echo("the model is the mean with local machines of a second treatment of the inputs")
    for name, path, chosen in (
        ("gamma", summary["gamma_path"], summary["gamma"]),
        ("alpha", summary["path"], summary["alpha"]),
    ):
        if path is not None:
            echo(f"{name} {chosen:g}, chosen from {len(path[name])} on {summary['judged_by']}")
    validation = summary["validation"]
    if validation is not None:
        words = held_out_words(validation, summary["scoring"])
        echo(f"{words} (about what new rows will show)")
    if "cv" in summary:
        found = summary["cv"]
        echo(
            f"{summary['scoring']} {found['mean']:.4f} ± {found['standard_error']:.4f}, mean and "
            f"standard error of {found['folds']}-fold cross-validation"
        )
    score = ", ".join(f"{name} {value:.4f}" for name, value in summary["score"].items())
    echo(f"{score} on the {summary['scored_on']}")
    if summary.get("constant") is not None:
        constant = summary["constant"]
        share = f"accuracy {constant['accuracy']:.4f} of the constant model"
        echo(f"{share}, which predicts {constant['class']} for all of these rows")
    echo(f"wrote {summary['model']} ({format_bytes(summary['bytes'])})")
    if "report" in summary:
        echo(f"wrote {summary['report']}")


def held_out_words(validation: dict[str, Any], scoring: str) -> str:
    """The score of a search, with the rows it was measured on."""
    number = "" if validation["rows"] is None else f"{validation['rows']} "
    how = "by cross-validation" if validation["cross_validated"] else "held out"
    later = validation["later_by"]
    order = "" if later is None else f", later by column {later!r} than all rows fitted,"
    return f"{scoring} {validation['score']:.4f} on {number}rows {how}{order} in the search"


def form_words(summary: dict[str, Any]) -> str:
    """The size of a model: its leaves, the rows of an exact kernel, or its features."""
    if summary["n_leaves"] is not None:
        return f"{summary['n_leaves']} leaves"
    if summary["n_features"] is None:
        return "features unknown"
    if summary["exact"]:
        return f"exact kernel of {summary['n_features']} rows"
    drawn = "" if summary["n_drawn"] is None else f", of {summary['n_drawn']} drawn,"
    return f"{summary['n_features']} features{drawn}"


def _solution(summary: dict[str, Any]) -> str:
    """The solver and its iterations, as far as the machine has them."""
    solver = summary["solver"] or "leaf by leaf"
    n = summary["n_iter"]
    return solver if n is None else f"{solver}, {n} iteration{'s' * (n != 1)}"


def chosen_words(chosen: dict[str, Any], n_tried: int) -> str:
    """The automatic choices in one line."""
    power = chosen["power"]
    damped = "" if power in (0, 1) else f" to the power {power:g}"
    scales = f"scales of columns learned from the target{damped}" if power else "equal scales"
    scales = f"{scales} of turned inputs" if chosen["turned"] else scales
    labels = ", few integers as labels" if chosen["max_integers"] else ""
    labels += ", words of labels" if chosen["labels"] == "words" else ""
    target = ", logarithms of the target" if chosen["transform"] == "log" else ""
    return (
        f"chosen from {n_tried} on held-out rows: {chosen['numbers']} numbers{labels}, {scales}, "
        f"{chosen['kernel']} kernel, gamma {chosen['gamma']:g} of the median distance, ridge "
        f"{chosen['ridge']:g}{target}"
    )
