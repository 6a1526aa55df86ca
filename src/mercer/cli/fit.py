"""``mercer fit``: a table in, a model file out."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mercer.cli.cluster import Mpi, Scheduler, Where, Workers, fit_folder, on_ranks
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

ModelFile = Annotated[Path, typer.Option(help="The model file to write.")]
MapName = Annotated[
    str | None,
    typer.Option(
        "--map",
        metavar="NAME",
        help="binning, fourier, fastfood, nystroem, exact, tefm, compact, perceptron, stump, tree, "
        "ngrams or linear.",
    ),
]
Components = Annotated[int | None, typer.Option(help="Grids, frequencies, landmarks: features.")]
KernelName = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="gaussian, laplacian, exponential, cauchy, matern, rational_quadratic or smooth.",
    ),
]
Gamma = Annotated[
    str | None, typer.Option(metavar="NUMBER", help="Scale of the kernel; or scale, median.")
]
GammaPath = Annotated[
    str | None,
    typer.Option(
        metavar="NUMBERS", help="Values to choose gamma from on held-out rows, such as 0.01,0.1,1."
    ),
]
Alpha = Annotated[float | None, typer.Option(help="Weight of the penalty; by default set from n.")]
Alphas = Annotated[
    str | None,
    typer.Option(
        metavar="NUMBERS",
        help="Values to choose alpha from, on rows not seen, such as 1e-6,1e-5,1e-4.",
    ),
]
LossName = Annotated[
    str | None,
    typer.Option(
        metavar="NAME", help="squared, huber, logistic, squared_hinge, smooth_hinge, multinomial."
    ),
]
SolverName = Annotated[
    str | None, typer.Option(metavar="NAME", help="auto, cholesky, cg, block, newton-cg, cd.")
]
Checkpoint = Annotated[
    Path | None,
    typer.Option(
        metavar="FOLDER",
        help="Where --solver block keeps how far it is: the same command goes on from there, on "
        "any number of workers.",
    ),
]
Sparse = Annotated[
    bool,
    typer.Option(
        "--sparse",
        help="Keep only the features that matter, of as many as it takes; --n-components is then "
        "how many are drawn at a time.",
    ),
]
Scale = Annotated[
    bool, typer.Option("--scale/--no-scale", help="Scale the inputs inside the model.")
]


TimeBudget = Annotated[
    float | None, typer.Option(help="Seconds that the automatic choice and the fit may take.")
]
Weights = Annotated[
    str | None, typer.Option(metavar="NAME", help="Column of weights of the rows, of at least 0.")
]
Groups = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="Column of groups: the rows of one are never parted when settings are judged.",
    ),
]
Scoring = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="Score of scikit-learn's to choose by, such as roc_auc, f1_macro or r2.",
    ),
]
ClassWeight = Annotated[
    str | None,
    typer.Option(
        "--class-weight",
        metavar="WEIGHTS",
        help="balanced, a weight for each label such as no=1,yes=5, or a JSON object of them.",
    ),
]
Positive = Annotated[
    str | None,
    typer.Option(
        metavar="LABEL", help="Class that --scoring is of, against all others, such as yes."
    ),
]
Folds = Annotated[
    int | None,
    typer.Option(
        "--cv",
        metavar="K",
        min=2,
        help="Score by K-fold cross-validation as well, which takes K more fits.",
    ),
]
Report = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Write a page about the model, as HTML.")
]
DeviceName = Annotated[
    str | None,
    typer.Option(
        "--device",
        metavar="NAME",
        help="Where an exact kernel or landmarks are computed: cpu, cuda or cuda:<number>.",
    ),
]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Tell every stage, in a line each.")]


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
    mpi: Mpi = False,
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

    With --workers, --scheduler or --mpi, DATA is a folder of Parquet files, of which many processes
    read some rows each. After Ctrl-C or SIGTERM the model is written as far as it is, if there is
    one yet; the second ends the command at once.
    """
    options, where = locals().copy(), Where(scheduler, workers, mpi)
    where.refuse_ranks()
    if where.option == "--mpi" and on_ranks(fit, options):
        return
    outputs = [Output("--out", out, MODEL)]
    if report is not None:
        outputs.append(Output("--report", report, PAGE))
    check_outputs(outputs, {"DATA": Path(data)}, force)
    settings = {
        "feature_map": map_,
        "n_components": n_components,
        "kernel": kernel,
        "gamma": _number_or_word(gamma),
        "gamma_path": _numbers(gamma_path, "--gamma-path"),
        "alpha": alpha,
        "alphas": _numbers(alphas, "--alphas"),
        "loss": loss,
        "solver": solver,
        "checkpoint": _folder(checkpoint, solver),
        "device": device,
    }
    settings = {name: value for name, value in settings.items() if value is not None}
    if sparse and device is not None:
        raise ValueError("--device must be left out beside --sparse.")
    automatic = not settings and not sparse and scale
    settings |= {"random_state": seed, "n_jobs": n_jobs}
    only_automatic = {"time_budget": time_budget, "scoring": scorer_name(scoring)}
    asked = {name: value for name, value in only_automatic.items() if value is not None}
    if automatic:
        settings |= asked
    elif asked:
        option = f"--{next(iter(asked)).replace('_', '-')}"
        raise ValueError(f"{option} must be left out beside options that say how to fit.")
    else:
        settings["scale"] = scale
    roles = Roles(target, names_in(features), names_in(drop), names_in(id_), weights, groups)
    if where.option:
        where.refuse(
            {
                "--sparse": sparse,
                "--groups": groups,
                "--class-weight": class_weight,
                "--positive": positive,
                "--cv": cv,
                "--report": report,
                "--out-of-core": out_of_core,
                "--device": device,
            }
        )
        how = {"automatic": automatic, "verbose": verbose}
        summary = fit_folder(data, roles, task, settings, where, out, **how)
        print_json(summary) if as_json else tell(summary)
        return
    from mercer.cli.data import labelled
    from mercer.cli.scorers import (
        check_folds,
        class_weight_of,
        cross_validated,
        positive_scorer,
    )

    if cv is not None and checkpoint is not None:
        raise ValueError("--cv must be left out beside --checkpoint, which holds one fit.")
    rows = labelled(data, roles, task, out_of_core, raw=automatic)
    tell_rows(rows)
    y, kind = rows.data.y, rows.data.task
    scorer = positive_scorer(scoring, positive, y, kind)
    judged = {"scoring": scorer, "class_weight": class_weight_of(class_weight, y, kind)}
    settings |= {name: value for name, value in judged.items() if value is not None}
    choice = (settings, sparse, automatic)
    check_folds(rows, cv)
    model, seconds, interrupted = fitted(prepared(rows, settings, automatic), *choice, verbose)
    summary = written(rows, model, stated(settings), roles, out)
    if interrupted:
        say(f"wrote {out}, the model as far as the fit was when it was interrupted")
        raise KeyboardInterrupt
    summary |= {"seconds": seconds, **scored(rows.data, model, scorer)}
    if report is not None:
        summary["report"] = reported(rows, model, report, out)
    if cv is not None:
        summary["cv"] = cross_validated(rows, cv, seed, lambda part: fitted(part, *choice)[0])
    if as_json:
        print_json(summary)
    else:
        tell(summary)


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
