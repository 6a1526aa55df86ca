"""``mercer fit``: a table in, a model file out."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mercer.cli.cluster import Scheduler, Where, Workers, fit_folder
from mercer.cli.fitting import (
    fitted,
    prepared,
    reported,
    scored,
    scorer_name,
    stated,
    tell,
    tell_rows,
    written,
)
from mercer.cli.options import (
    AUTOMATIC_PANEL,
    DATA_PANEL,
    MACHINE_PANEL,
    MODEL_PANEL,
    OUTPUT_PANEL,
    TASK_PANEL,
    AsTask,
    Data,
    Drop,
    Features,
    Ids,
    Jobs,
    Json,
    MaxMemory,
    OutOfCore,
    Seed,
    Target,
    Task,
    check_writable_folder,
    print_json,
    say,
)
from mercer.cli.outputs import MODEL, PAGE, Force, Output, check_outputs
from mercer.cli.roles import Roles, names_in

if TYPE_CHECKING:
    from mercer.cli.data import Labelled


def _valued(metavar: str, text: str, *names: str, panel: str) -> Any:
    """Option that takes a value, which the help shows as ``metavar`` in a group of options."""
    return typer.Option(*names, metavar=metavar, help=text, rich_help_panel=panel)


ModelFile = Annotated[
    Path, typer.Option(help="The model file to write.", rich_help_panel=OUTPUT_PANEL)
]
MapName = Annotated[
    str | None,
    _valued(
        "NAME",
        "binning, fourier, fastfood, nystroem, exact, tefm, perceptron, ngrams or linear.",
        "--map",
        panel=MODEL_PANEL,
    ),
]
Components = Annotated[
    int | None,
    typer.Option(help="Grids, frequencies, landmarks: features.", rich_help_panel=MODEL_PANEL),
]
KernelName = Annotated[
    str | None,
    _valued(
        "NAME",
        "gaussian, laplacian, exponential, cauchy, matern or rational_quadratic.",
        panel=MODEL_PANEL,
    ),
]
Gamma = Annotated[
    str | None, _valued("NUMBER", "Scale of the kernel; or scale, median.", panel=MODEL_PANEL)
]
GammaPath = Annotated[
    str | None,
    _valued(
        "NUMBERS",
        "Values to choose gamma from on held-out rows, such as 0.01,0.1,1.",
        panel=MODEL_PANEL,
    ),
]
Alpha = Annotated[
    float | None,
    typer.Option(help="Weight of the penalty; by default set from n.", rich_help_panel=MODEL_PANEL),
]
Alphas = Annotated[
    str | None,
    _valued(
        "NUMBERS",
        "Values to choose alpha from, on rows not seen, such as 1e-6,1e-5,1e-4.",
        panel=MODEL_PANEL,
    ),
]
LossName = Annotated[
    str | None,
    _valued(
        "NAME",
        "squared, huber, logistic, hinge, squared_hinge, smooth_hinge, multinomial.",
        panel=MODEL_PANEL,
    ),
]
SolverName = Annotated[
    str | None, _valued("NAME", "auto, cholesky, cg, block, newton-cg, cd.", panel=MODEL_PANEL)
]
Checkpoint = Annotated[
    Path | None,
    _valued(
        "FOLDER",
        "Where --solver block keeps how far it is: the same command goes on from there, on "
        "any number of workers.",
        panel=MODEL_PANEL,
    ),
]
Sparse = Annotated[
    bool,
    typer.Option(
        "--sparse",
        help="Keep only the features that matter, of as many as it takes; --n-components is then "
        "how many are drawn at a time.",
        rich_help_panel=MODEL_PANEL,
    ),
]
Scale = Annotated[
    bool,
    typer.Option(
        "--scale/--no-scale", help="Scale the inputs inside the model.", rich_help_panel=MODEL_PANEL
    ),
]


TimeBudget = Annotated[
    float | None,
    typer.Option(
        help="Seconds that the automatic choice and the fit may take.",
        rich_help_panel=AUTOMATIC_PANEL,
    ),
]
Weights = Annotated[
    str | None, _valued("NAME", "Column of weights of the rows, of at least 0.", panel=DATA_PANEL)
]
Groups = Annotated[
    str | None,
    _valued(
        "NAME",
        "Column of groups: the rows of one are never parted when settings are judged.",
        panel=DATA_PANEL,
    ),
]
TimeColumn = Annotated[
    str | None,
    _valued(
        "NAME",
        "Column of dates or numbers that orders the rows: settings are judged on rows later than "
        "those fitted.",
        "--time",
        panel=DATA_PANEL,
    ),
]
Scoring = Annotated[
    str | None,
    _valued(
        "NAME",
        "Score of scikit-learn's to choose by, such as roc_auc, f1_macro or r2.",
        panel=TASK_PANEL,
    ),
]
ClassWeight = Annotated[
    str | None,
    _valued(
        "WEIGHTS",
        "balanced, a weight for each label such as no=1,yes=5, or a JSON object of them.",
        "--class-weight",
        panel=TASK_PANEL,
    ),
]
Positive = Annotated[
    str | None,
    _valued(
        "LABEL", "Class that --scoring is of, against all others, such as yes.", panel=TASK_PANEL
    ),
]
Folds = Annotated[
    int | None,
    typer.Option(
        "--cv",
        metavar="K",
        min=2,
        help="Score by K-fold cross-validation as well, which takes K more fits.",
        rich_help_panel=TASK_PANEL,
    ),
]
Report = Annotated[
    Path | None, _valued("FILE", "Write a page about the model, as HTML.", panel=OUTPUT_PANEL)
]
DeviceName = Annotated[
    str | None,
    _valued(
        "NAME",
        "Where an exact kernel or landmarks are computed: cpu, cuda or cuda:<number>.",
        "--device",
        panel=MACHINE_PANEL,
    ),
]
Verbose = Annotated[
    bool,
    typer.Option(
        "--verbose", "-v", help="Tell every stage, in a line each.", rich_help_panel=OUTPUT_PANEL
    ),
]


def fit(
    data: Data,
    out: ModelFile,
    target: Target = None,
    task: AsTask = Task.auto,
    features: Features = None,
    drop: Drop = None,
    id_: Ids = None,
    weights: Weights = None,
    groups: Groups = None,
    time: TimeColumn = None,
    class_weight: ClassWeight = None,
    scoring: Scoring = None,
    positive: Positive = None,
    cv: Folds = None,
    map_: MapName = None,
    n_components: Components = None,
    kernel: KernelName = None,
    gamma: Gamma = None,
    gamma_path: GammaPath = None,
    alpha: Alpha = None,
    alphas: Alphas = None,
    loss: LossName = None,
    solver: SolverName = None,
    checkpoint: Checkpoint = None,
    sparse: Sparse = False,
    seed: Seed = 0,
    n_jobs: Jobs = None,
    device: DeviceName = None,
    scale: Scale = True,
    max_memory: MaxMemory = None,
    out_of_core: OutOfCore = False,
    time_budget: TimeBudget = None,
    scheduler: Scheduler = None,
    workers: Workers = None,
    report: Report = None,
    force: Force = False,
    verbose: Verbose = False,
    as_json: Json = False,
) -> None:
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
    given, where = SimpleNamespace(**locals()), Where(scheduler, workers)
    _check_files(given)
    how = _how(given)
    roles = Roles(target, names_in(features), names_in(drop), names_in(id_), weights, groups, time)
    summary = (_of_folder if where.option else _of_file)(given, how, roles, where)
    print_json(summary) if as_json else tell(summary)
    if summary["interrupted"]:
        raise KeyboardInterrupt


@dataclass(frozen=True)
class _How:
    """Parameters of the estimator, and which estimator it is."""

    settings: dict[str, Any]
    sparse: bool
    automatic: bool


def _check_files(given: SimpleNamespace) -> None:
    """Raise for outputs that would replace inputs or foreign files."""
    outputs = [Output("--out", given.out, MODEL)]
    if given.report is not None:
        outputs.append(Output("--report", given.report, PAGE))
    check_outputs(outputs, {"DATA": Path(given.data)}, given.force)


def _how(given: SimpleNamespace) -> _How:
    """Options as parameters of the estimator; without one that says how, it is automatic."""
    settings = {
        "feature_map": given.map_,
        "n_components": given.n_components,
        "kernel": given.kernel,
        "gamma": _number_or_word(given.gamma),
        "gamma_path": _numbers(given.gamma_path, "--gamma-path"),
        "alpha": given.alpha,
        "alphas": _numbers(given.alphas, "--alphas"),
        "loss": given.loss,
        "solver": given.solver,
        "checkpoint": _folder(given.checkpoint, given.solver),
        "device": given.device,
    }
    settings = {name: value for name, value in settings.items() if value is not None}
    if given.sparse and given.device is not None:
        raise ValueError("--device must be left out beside --sparse.")
    automatic = not settings and not given.sparse and given.scale
    settings |= {"random_state": given.seed, "n_jobs": given.n_jobs}
    only_automatic = {
        "time_budget": given.time_budget,
        "scoring": scorer_name(given.scoring),
        "time": given.time,
    }
    asked = {name: value for name, value in only_automatic.items() if value is not None}
    if automatic:
        settings |= asked
    elif asked:
        option = f"--{next(iter(asked)).replace('_', '-')}"
        raise ValueError(f"{option} must be left out beside options that say how to fit.")
    else:
        settings["scale"] = given.scale
    return _How(settings, given.sparse, automatic)


def _of_folder(given: SimpleNamespace, how: _How, roles: Roles, where: Where) -> dict[str, Any]:
    """Fit a folder of Parquet files by many processes; return the summary to print."""
    where.refuse(
        {
            "--sparse": given.sparse,
            "--groups": given.groups,
            "--time": given.time,
            "--class-weight": given.class_weight,
            "--positive": given.positive,
            "--cv": given.cv,
            "--report": given.report,
            "--out-of-core": given.out_of_core,
            "--device": given.device,
        }
    )
    more = {"automatic": how.automatic, "verbose": given.verbose}
    return fit_folder(given.data, roles, given.task, how.settings, where, given.out, **more)


def _of_file(given: SimpleNamespace, how: _How, roles: Roles, _: Where) -> dict[str, Any]:
    """Fit a file or a known data set in this process; return the summary to print."""
    from mercer.cli.data import labelled
    from mercer.cli.scorers import check_folds, cross_validated

    if given.cv is not None and given.checkpoint is not None:
        raise ValueError("--cv must be left out beside --checkpoint, which holds one fit.")
    rows = labelled(given.data, roles, given.task, given.out_of_core, raw=how.automatic)
    tell_rows(rows)
    scorer, judged = _judged(given, rows)
    settings = how.settings | judged
    choice = (settings, how.sparse, how.automatic)
    check_folds(rows, given.cv)
    rows = prepared(rows, settings, how.automatic)
    model, seconds, interrupted = fitted(rows, *choice, given.verbose)
    summary = written(rows, model, stated(settings), roles, given.out)
    if interrupted or summary["interrupted"]:
        say(f"wrote {given.out}, the model as far as the fit was when it was interrupted")
    if interrupted:
        raise KeyboardInterrupt
    summary |= {"seconds": seconds, **scored(rows.data, model, scorer)}
    if given.report is not None:
        summary["report"] = reported(rows, model, given.report, given.out)
    if given.cv is not None and not summary["interrupted"]:

        def fit_part(part: Labelled) -> Any:
            model, _, stopped = fitted(part, *choice)
            if stopped or getattr(model, "interrupted_", False):
                raise KeyboardInterrupt
            return model

        summary["cv"] = cross_validated(rows, given.cv, given.seed, fit_part)
    return summary


def _judged(given: SimpleNamespace, rows: Labelled) -> tuple[Any, dict[str, Any]]:
    """The scorer, and the parameters of the estimator that depend on the classes."""
    from mercer.cli.scorers import class_weight_of, positive_scorer

    y, kind = rows.data.y, rows.data.task
    scorer = positive_scorer(given.scoring, given.positive, y, kind)
    judged = {"scoring": scorer, "class_weight": class_weight_of(given.class_weight, y, kind)}
    names = rows.data.feature_names
    if given.time is not None and names is not None and hasattr(rows.data.X, "strides"):
        judged["time"] = list(names).index(given.time)  # of an array, whose columns have places
    return scorer, {name: value for name, value in judged.items() if value is not None}


def _number_or_word(text: str | None) -> float | str | None:
    try:
        return None if text is None else float(text)
    except ValueError:
        return text


def _numbers(text: str | None, option: str) -> list[float] | None:
    try:
        return None if text is None else [float(part) for part in text.split(",")]
    except ValueError as error:
        raise ValueError(
            f"{option} must be numbers with commas between them; got {text!r}."
        ) from error


def _folder(checkpoint: Path | None, solver: str | None) -> str | None:
    """The folder of checkpoints, if they are wanted and the solver writes them."""
    if checkpoint is None:
        return None
    if solver != "block":
        raise ValueError(f"--checkpoint must stand beside --solver block; got {solver or 'none'}.")
    check_writable_folder(checkpoint)
    return str(checkpoint)
