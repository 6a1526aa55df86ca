"""The options of ``mercer fit``: their help, and the estimator that they ask for."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

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
    Missing,
    OutOfCore,
    Seed,
    Target,
    Task,
)
from mercer.cli.roles import Roles, names_in, words_in
from mercer.cli.write import MODEL, PAGE, Force, Output, check_outputs, check_writable_folder


def _valued(metavar: str, text: str, *names: str, panel: str) -> Any:
    """Option that takes a value, which the help shows as ``metavar`` in a group of options."""
    return typer.Option(*names, metavar=metavar, help=text, rich_help_panel=panel)


@dataclass(frozen=True, kw_only=True)
class FitOptions:
    """Values of the options, in the order of the help."""

    data: Data
    out: Annotated[
        Path | None,
        typer.Option(
            help="The model file to write; a fit needs one.", rich_help_panel=OUTPUT_PANEL
        ),
    ] = None
    target: Target = None
    task: AsTask = Task.auto
    features: Features = None
    drop: Drop = None
    id_: Ids = None
    missing: Missing = None
    weights: Annotated[
        str | None,
        _valued("NAME", "Column of weights of the rows, of at least 0.", panel=DATA_PANEL),
    ] = None
    groups: Annotated[
        str | None,
        _valued(
            "NAME",
            "Column of groups: the rows of one are never parted when settings are judged.",
            panel=DATA_PANEL,
        ),
    ] = None
    offset: Annotated[
        str | None,
        _valued(
            "NAME",
            "Column of known parts of the responses, such as forecasts to correct; predictions "
            "add it.",
            panel=DATA_PANEL,
        ),
    ] = None
    exposure: Annotated[
        str | None,
        _valued(
            "NAME",
            "Column of amounts that counts are in proportion to, such as days; needs --loss "
            "poisson, tweedie or gamma.",
            panel=DATA_PANEL,
        ),
    ] = None
    time: Annotated[
        str | None,
        _valued(
            "NAME",
            "Column of dates or numbers that orders the rows: settings are judged on rows later "
            "than those fitted.",
            "--time",
            panel=DATA_PANEL,
        ),
    ] = None
    class_weight: Annotated[
        str | None,
        _valued(
            "WEIGHTS",
            "balanced, a weight for each label such as no=1,yes=5, or a JSON object of them.",
            "--class-weight",
            panel=TASK_PANEL,
        ),
    ] = None
    scoring: Annotated[
        str | None,
        _valued(
            "NAME",
            "Score of scikit-learn's to choose by, such as roc_auc, f1_macro or r2.",
            panel=TASK_PANEL,
        ),
    ] = None
    positive: Annotated[
        str | None,
        _valued(
            "LABEL",
            "Class that --scoring is of, against all others, such as yes.",
            panel=TASK_PANEL,
        ),
    ] = None
    cv: Annotated[
        int | None,
        typer.Option(
            "--cv",
            metavar="K",
            min=2,
            help="Score by K-fold cross-validation as well, which takes K more fits.",
            rich_help_panel=TASK_PANEL,
        ),
    ] = None
    map_: Annotated[
        str | None,
        _valued(
            "NAME",
            "binning, fourier, fastfood, nystroem, exact, tefm, perceptron, ngrams or linear.",
            "--map",
            panel=MODEL_PANEL,
        ),
    ] = None
    n_components: Annotated[
        int | None,
        typer.Option(help="Grids, frequencies, landmarks: features.", rich_help_panel=MODEL_PANEL),
    ] = None
    kernel: Annotated[
        str | None,
        _valued(
            "NAME",
            "gaussian, laplacian, exponential, cauchy, matern or rational_quadratic.",
            panel=MODEL_PANEL,
        ),
    ] = None
    gamma: Annotated[
        str | None, _valued("NUMBER", "Scale of the kernel; or scale, median.", panel=MODEL_PANEL)
    ] = None
    gamma_path: Annotated[
        str | None,
        _valued(
            "NUMBERS",
            "Values to choose gamma from on held-out rows, such as 0.01,0.1,1.",
            panel=MODEL_PANEL,
        ),
    ] = None
    alpha: Annotated[
        float | None,
        typer.Option(
            help="Weight of the penalty; by default set from n.", rich_help_panel=MODEL_PANEL
        ),
    ] = None
    alphas: Annotated[
        str | None,
        _valued(
            "NUMBERS",
            "Values to choose alpha from, on rows not seen, such as 1e-6,1e-5,1e-4.",
            panel=MODEL_PANEL,
        ),
    ] = None
    loss: Annotated[
        str | None,
        _valued(
            "NAME",
            "squared, huber, logistic, hinge, squared_hinge, smooth_hinge, multinomial.",
            panel=MODEL_PANEL,
        ),
    ] = None
    solver: Annotated[
        str | None, _valued("NAME", "auto, cholesky, cg, block, newton-cg, cd.", panel=MODEL_PANEL)
    ] = None
    checkpoint: Annotated[
        Path | None,
        _valued(
            "FOLDER",
            "Where --solver block keeps how far it is: the same command goes on from there, on "
            "any number of workers.",
            panel=MODEL_PANEL,
        ),
    ] = None
    sparse: Annotated[
        bool,
        typer.Option(
            "--sparse",
            help="Keep only the features that matter, of as many as it takes; --n-components is "
            "then how many are drawn at a time.",
            rich_help_panel=MODEL_PANEL,
        ),
    ] = False
    seed: Seed = 0
    n_jobs: Jobs = None
    device: Annotated[
        str | None,
        _valued(
            "NAME",
            "Where an exact kernel or landmarks are computed: cpu, cuda or cuda:<number>.",
            "--device",
            panel=MACHINE_PANEL,
        ),
    ] = None
    scale: Annotated[
        bool,
        typer.Option(
            "--scale/--no-scale",
            help="Scale the inputs inside the model.",
            rich_help_panel=MODEL_PANEL,
        ),
    ] = True
    max_memory: MaxMemory = None
    out_of_core: OutOfCore = False
    time_budget: Annotated[
        float | None,
        typer.Option(
            help="Seconds that the automatic choice and the fit may take.",
            rich_help_panel=AUTOMATIC_PANEL,
        ),
    ] = None
    scheduler: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS",
            help="Fit on the workers of this Dask scheduler, such as tcp://10.0.0.1:8786; DATA is "
            "a folder of Parquet files that all of them find under this name.",
            rich_help_panel=MACHINE_PANEL,
        ),
    ] = None
    workers: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Fit a folder of Parquet files in so many processes of this machine.",
            rich_help_panel=MACHINE_PANEL,
        ),
    ] = None
    report: Annotated[
        Path | None, _valued("FILE", "Write a page about the model, as HTML.", panel=OUTPUT_PANEL)
    ] = None
    force: Force = False
    verbose: Annotated[
        bool,
        typer.Option(
            "--verbose",
            "-v",
            help="Tell every stage, in a line each.",
            rich_help_panel=OUTPUT_PANEL,
        ),
    ] = False
    as_json: Json = False

    @property
    def roles(self) -> Roles:
        """The columns that options name."""
        features, drop, ids = map(names_in, (self.features, self.drop, self.id_))
        if self.offset is not None and self.exposure is not None:
            raise ValueError("--exposure must be left out beside --offset.")
        if self.exposure is not None and self.loss not in ("poisson", "tweedie", "gamma"):
            raise ValueError("--exposure needs --loss poisson, tweedie or gamma.")
        one = (self.target, features, drop, ids, self.weights, self.groups, self.time)
        return Roles(*one, self.offset, self.exposure, words_in(self.missing))

    @property
    def workers_option(self) -> str:
        """The option that asks for Dask workers; "" for a fit in this process."""
        if self.scheduler is not None and self.workers is not None:
            raise ValueError("--scheduler must be left out beside --workers.")
        if self.scheduler is not None:
            return "--scheduler"
        return "" if self.workers is None else "--workers"

    @property
    def task_or_loss(self) -> Task:
        """The task that is asked for, or that of a loss of numbers or of classes alone."""
        from mercer.losses import LOSSES

        kind = LOSSES.get(self.loss or "")
        if self.task is not Task.auto or kind is None:
            return self.task
        loss = kind()
        if loss.is_classification:
            return Task.classification
        return Task.auto if loss.quadratic else Task.regression

    @property
    def model_file(self) -> Path:
        """The file to write; asked for once the data have been read, which may lack the target."""
        if self.out is None:
            raise ValueError("--out must name the model file to write, such as model.skops.")
        return self.out

    def check_files(self) -> None:
        """Raise for outputs that would replace inputs or foreign files."""
        outputs = [] if self.out is None else [Output("--out", self.out, MODEL)]
        if self.report is not None:
            outputs.append(Output("--report", self.report, PAGE))
        check_outputs(outputs, {"DATA": Path(self.data)}, self.force)

    def refuse_with_workers(self) -> None:
        """Raise if an option is given that needs all rows in one process."""
        needing = {
            "--missing": self.missing is not None,
            "--sparse": self.sparse,
            "--groups": self.groups,
            "--offset": self.offset,
            "--exposure": self.exposure,
            "--time": self.time,
            "--class-weight": self.class_weight,
            "--positive": self.positive,
            "--cv": self.cv,
            "--report": self.report,
            "--out-of-core": self.out_of_core,
            "--device": self.device,
        }
        for option, value in needing.items():
            if value:
                raise ValueError(f"{option} must be left out beside {self.workers_option}.")

    def estimator(self) -> EstimatorChoice:
        """The estimator asked for: an automatic one if no option says how to fit."""
        settings = {
            "feature_map": self.map_,
            "n_components": self.n_components,
            "kernel": self.kernel,
            "gamma": _number_or_word(self.gamma),
            "gamma_path": _numbers(self.gamma_path, "--gamma-path"),
            "alpha": self.alpha,
            "alphas": _numbers(self.alphas, "--alphas"),
            "loss": self.loss,
            "solver": self.solver,
            "checkpoint": _folder(self.checkpoint, self.solver),
            "device": self.device,
        }
        settings = {name: value for name, value in settings.items() if value is not None}
        if self.sparse and self.device is not None:
            raise ValueError("--device must be left out beside --sparse.")
        automatic = not settings and not self.sparse and self.scale
        settings |= {"random_state": self.seed, "n_jobs": self.n_jobs}
        only_automatic = {
            "time_budget": self.time_budget,
            "scoring": scorer_name(self.scoring),
            "time": self.time,
        }
        asked = {name: value for name, value in only_automatic.items() if value is not None}
        if automatic:
            settings |= asked
        elif asked:
            option = f"--{next(iter(asked)).replace('_', '-')}"
            raise ValueError(f"{option} must be left out beside options that say how to fit.")
        else:
            settings["scale"] = self.scale
        return EstimatorChoice(settings, self.sparse, automatic)


@dataclass(frozen=True)
class EstimatorChoice:
    """Parameters of an estimator, and whether it is a sparse or an automatic one."""

    settings: dict[str, Any]
    sparse: bool
    automatic: bool


def command_of(run: Callable[[FitOptions], None]) -> Callable[..., None]:
    """A function of one parameter per option, which typer reads; it calls ``run``."""

    def command(**given: Any) -> None:
        run(FitOptions(**given))

    hints = get_type_hints(FitOptions, include_extras=True)
    signature = inspect.signature(FitOptions)
    parameters = [p.replace(annotation=hints[p.name]) for p in signature.parameters.values()]
    command.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    command.__doc__ = run.__doc__
    return command


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


def scorer_name(name: str | None) -> str | None:
    """The name of a score of scikit-learn, or a ValueError with similar names."""
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
