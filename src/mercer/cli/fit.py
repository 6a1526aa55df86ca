"""``mercer fit``: a table in, a model file out."""

from __future__ import annotations

import time
from dataclasses import replace
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mercer.cli.fit_options import EstimatorChoice, FitOptions, command_of
from mercer.cli.options import print_json, say, waiting
from mercer.cli.roles import Roles
from mercer.cli.summary import TRAINING_ROWS, default_score, described, scored, tell

if TYPE_CHECKING:
    from mercer.cli.read import Labelled
    from mercer.datasets.base import Dataset


@command_of
def fit(options: FitOptions) -> None:
    """Fit a model to a table and write it to a file.

    With no option that says how, everything is chosen on held-out rows: the treatment of numbers,
    texts, dates and missing cells, scales, kernel and strength. Any such option asks for a model of
    just these settings instead.

    Prints the score on the rows that the choices were judged by, if there were any, and the score
    on the test part where DATA has one, else that on the training rows, and says which.

    With --workers or --scheduler, DATA is a folder of Parquet files, of which many processes read
    some rows each. After Ctrl-C or SIGTERM the model as far as it is fitted is written, if it
    can predict already, and the exit code is 130 or 143; the second signal ends the command at
    once.
    """
    options.check_files()
    choice, roles = options.estimator(), options.roles
    summary = (_of_folder if options.workers_option else _of_file)(options, choice, roles)
    print_json(summary) if options.as_json else tell(summary)
    if summary["interrupted"]:
        raise KeyboardInterrupt


def _of_file(options: FitOptions, choice: EstimatorChoice, roles: Roles) -> dict[str, Any]:
    """Fit a file or a known data set in this process; return the summary to print."""
    from mercer.cli.read import labelled
    from mercer.cli.scorers import check_folds, cross_validated

    if options.cv is not None and options.checkpoint is not None:
        raise ValueError("--cv must be left out beside --checkpoint, which holds one fit.")
    given = options.data, roles, options.task_or_loss, options.out_of_core
    rows = labelled(*given, raw=choice.automatic)
    out = options.model_file
    rows.tell()
    if rows.offset is not None and options.scoring is not None:
        raise ValueError("--scoring must be left out beside --offset and --exposure.")
    scorer, judged = _judged(options, rows)
    choice = replace(choice, settings=choice.settings | judged)
    check_folds(rows, options.cv)
    rows = _prepared(rows, choice)
    model, seconds, interrupted = _fitted(rows, choice, options.verbose)
    summary = _written(rows, model, _stated(choice.settings), roles, out)
    if interrupted or summary["interrupted"]:
        say(f"wrote {out}, the model as far as the fit was when it was interrupted")
    if interrupted:
        raise KeyboardInterrupt
    summary |= {"seconds": seconds, **scored(rows.data, model, scorer, rows.offset)}
    if options.report is not None:
        summary["report"] = _reported(rows, model, options.report, out)
    if options.cv is not None and not summary["interrupted"]:

        def fit_part(part: Labelled) -> Any:
            model, _, stopped = _fitted(part, choice)
            if stopped or getattr(model, "interrupted_", False):
                raise KeyboardInterrupt
            return model

        summary["cv"] = cross_validated(rows, options.cv, options.seed, fit_part)
    return summary


def _of_folder(options: FitOptions, choice: EstimatorChoice, roles: Roles) -> dict[str, Any]:
    """Fit a folder of Parquet files by many processes; return the summary to print."""
    options.refuse_with_workers()
    from mercer.cli.cluster import Progress, labelled_over, planned, shards
    from mercer.distributed.models import fit_over
    from mercer.distributed.targets import scores_of

    plan = planned(options, roles, choice.automatic)
    checkpoint = choice.settings.get("checkpoint")
    with shards(options, plan, choice.automatic) as engine:
        rows = labelled_over(options.data, plan, engine, options.task_or_loss)
        out = options.model_file
        rows.tell()
        model = _machine_for(rows.data.task, choice)
        if checkpoint is not None:
            model.solver = replace(model.solver, checkpoint=None)
        n, start = rows.data.X.shape[0], time.perf_counter()
        interrupted = False
        with waiting(f"fitting {n} rows on {engine.n_workers} workers", options.verbose) as show:
            progress = Progress(engine, show, options.verbose)
            try:
                fit_over(model, progress.engine, callback=progress, checkpoint=checkpoint)
            except KeyboardInterrupt:
                if not hasattr(model, type(model)._fitted_by):
                    raise
                interrupted = True
        seconds = time.perf_counter() - start
        if plan.dtype is not None:  # the file says the names, as that of a fit to an array
            vars(model).pop("feature_names_in_", None)
        if checkpoint is not None:
            model.solver = "block"  # where its checkpoints were is no part of the model
        summary = _written(rows, model, choice.settings, roles, out)
        summary |= {"seconds": seconds, "workers": engine.n_workers, **vars(progress.counts)}
        if interrupted:
            say(f"wrote {out}, the model as far as the fit was when it was interrupted")
            raise KeyboardInterrupt
        say(progress.counts.in_words(engine.n_workers))
        with waiting(f"scoring {n} rows"):
            scores = scores_of(model, engine, rows.data.task)
    return summary | {
        "score": scores,
        "scored_on": TRAINING_ROWS,
        "scored_rows": n,
        "scoring": choice.settings.get("scoring") or default_score(rows.data.task),
    }


def _judged(options: FitOptions, rows: Labelled) -> tuple[Any, dict[str, Any]]:
    """The scorer, and the parameters of the estimator that depend on the classes."""
    from mercer.cli.scorers import class_weight_of, positive_scorer

    y, kind = rows.data.y, rows.data.task
    scorer = positive_scorer(options.scoring, options.positive, y, kind)
    judged = {"scoring": scorer, "class_weight": class_weight_of(options.class_weight, y, kind)}
    names = rows.data.feature_names
    if options.time is not None and names is not None and hasattr(rows.data.X, "strides"):
        judged["time"] = list(names).index(options.time)  # of an array, whose columns have places
    return scorer, {name: value for name, value in judged.items() if value is not None}


def _prepared(rows: Labelled, choice: EstimatorChoice) -> Labelled:
    """Rows with inputs as the model takes them; logs the treatment of cells without numbers."""
    from mercer.cli.rows import as_texts, takes_text

    if takes_text(choice.settings):
        rows.data = replace(rows.data, X=as_texts(rows.data.X))
    elif rows.is_raw and not choice.automatic:
        say("texts, dates and missing cells become numbers first, as mercer.TablePreparer does it")
    return rows


def _stated(settings: dict[str, Any]) -> dict[str, Any]:
    """Settings as a file holds them: a scorer by its name, classes by their texts."""
    told = dict(settings)
    scorer, weights = told.get("scoring"), told.get("class_weight")
    if callable(scorer):
        told |= {"scoring": scorer.name, "positive": str(scorer.positive)}
    if isinstance(weights, dict):
        told["class_weight"] = {str(label): weight for label, weight in weights.items()}
    return told


def _fitted(
    rows: Labelled, choice: EstimatorChoice, verbose: bool = False
) -> tuple[Any, float, bool]:
    """A model of some rows, the seconds that its fit took, and True if it was interrupted.

    A KeyboardInterrupt passes without a model that could predict, and with a checkpoint.
    """
    from mercer.cli.rows import takes_text

    data, settings = rows.data, choice.settings
    machine = _machine_for(data.task, choice)
    named = {
        "sample_weight": ("--weights", rows.weights),
        "groups": ("--groups", rows.groups),
        "offset": ("--offset and --exposure", rows.offset),
    }
    more = {name: values for name, (_, values) in named.items() if values is not None}
    for name in more:
        if name not in signature(machine.fit).parameters:
            raise ValueError(
                f"{named[name][0]} must be left out for {type(machine).__name__}, whose fit "
                "takes none."
            )
    model = machine
    if rows.is_raw and not choice.automatic and not takes_text(settings):
        model = _of_raw(machine, data.task, settings)
        more = {f"model__{name}": values for name, values in more.items()}
    start, interrupted = time.perf_counter(), False
    with waiting(f"fitting {data.X.shape[0]} rows of {_width(data)} inputs", verbose):
        try:
            model.fit(data.X, data.y, **more)
        except KeyboardInterrupt:
            if "checkpoint" in settings or not _can_predict(model, data.X, rows.offset):
                raise
            interrupted = True
    seconds = time.perf_counter() - start
    if "checkpoint" in settings:
        machine.solver = "block"  # where its checkpoints were is no part of the model
    return model, seconds, interrupted


def _can_predict(model: Any, X: Any, offset: Any) -> bool:
    """True if an interrupted fit left a model."""
    import numpy as np

    from mercer.cli.scorers import rows_of

    try:
        model.predict(rows_of(X, np.arange(1)), **({} if offset is None else {"offset": 0.0}))
    except Exception:  # an interrupted model may lack any attribute
        return False
    return True


def _machine_for(task: str, choice: EstimatorChoice) -> Any:
    """The unfitted estimator."""
    import mercer

    settings = choice.settings
    kind = "KernelClassifier" if task == "classification" else "KernelRegressor"
    kind = f"Auto{kind}" if choice.automatic else kind
    if choice.sparse:
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


def _written(
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
        "offset": roles.offset,
        "exposure": roles.exposure,
        "missing": None if roles.missing is None else list(roles.missing),
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


def _reported(rows: Labelled, model: Any, path: Path, out: Path) -> str:
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
