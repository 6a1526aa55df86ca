"""``mercer fit``: a table in, a model file out."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mercer.cli.options import (
    AsTask,
    Data,
    Jobs,
    Json,
    MaxMemory,
    OutOfCore,
    Seed,
    Target,
    Task,
    check_writable,
    check_writable_folder,
    print_json,
    say,
    waiting,
)

if TYPE_CHECKING:
    from mercer.datasets.base import Dataset

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
        help="Where --solver block keeps how far it is: the same command goes on from there.",
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

_LARGE = ("coef", "intercept")  # of a path of strengths; they are told by the model alone
_JUDGES = {"holdout": "held-out rows", "loo": "every row, left out in turn"}


def fit(
    data: Data,
    out: ModelFile,
    target: Target = None,
    task: AsTask = Task.auto,
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
    scale: Scale = True,
    max_memory: MaxMemory = None,
    out_of_core: OutOfCore = False,
    time_budget: TimeBudget = None,
    as_json: Json = False,
) -> None:
    """Fit a model to a table and write it to a file.

    With no option that says how, everything is chosen on held-out rows: the treatment of numbers,
    texts, dates and missing cells, scales, kernel and strength. Any such option asks for a plain
    model of numbers instead.

    Prints the score on the test part where DATA has one, else that on the training rows, and says
    which.
    """
    check_writable(out)
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
    }
    settings = {name: value for name, value in settings.items() if value is not None}
    automatic = not settings and not sparse and scale
    settings |= {"random_state": seed, "n_jobs": n_jobs}
    if automatic:
        settings["time_budget"] = time_budget
    elif time_budget is not None:
        raise ValueError("--time-budget must be left out beside options that say how to fit.")
    else:
        settings["scale"] = scale
    from mercer.cli.data import labelled

    labelled_data = labelled(data, target, task, out_of_core, raw=automatic)
    say(labelled_data.task_note)
    model, seconds = _fitted(labelled_data.data, settings, sparse, automatic)
    summary = _write(labelled_data.data, labelled_data.target, model, settings, out)
    summary |= {"seconds": seconds, **_scored(labelled_data.data, model)}
    if as_json:
        print_json(summary)
    else:
        _tell(summary)


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


def _fitted(
    data: Dataset, settings: dict[str, Any], sparse: bool, automatic: bool
) -> tuple[Any, float]:
    import mercer

    kind = "KernelClassifier" if data.task == "classification" else "KernelRegressor"
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
    model = getattr(mercer, kind)(**settings)
    if folder is not None:
        how = {"tol": model.tol, "max_iter": model.max_iter, "checkpoint": folder}
        model.solver = mercer.solvers.BlockCoordinateDescent(**how)
    start = time.perf_counter()
    with waiting(f"fitting {data.X.shape[0]} rows of {data.X.shape[1]} inputs"):
        model.fit(data.X, data.y)
    seconds = time.perf_counter() - start
    if folder is not None:
        model.solver = "block"  # where its checkpoints were is no part of the model
    return model, seconds


def _write(
    data: Dataset, target: str | None, model: Any, settings: dict[str, Any], out: Path
) -> dict[str, Any]:
    from mercer import persistence

    names = None if data.feature_names is None else list(data.feature_names)
    size = persistence.save(
        model,
        out,
        task=data.task,
        target=target,
        feature_names=names,
        settings={**settings, "data": data.name},
    )
    machine, path = getattr(model, "kernel_machine_", model), getattr(model, "path_", None)
    return {
        "model": str(out),
        "bytes": size,
        "data": data.name,
        "task": data.task,
        "target": target,
        "n": data.X.shape[0],
        "d": data.X.shape[1],
        "n_features": machine.feature_map_.n_features_out_,
        "gamma_path": getattr(model, "gamma_path_", None),
        # A map may have no kernel, and a kernel no scale.
        "gamma": getattr(getattr(machine.feature_map_, "kernel_", None), "gamma", None),
        "alpha": getattr(machine, "alpha_", None),
        "chosen": getattr(model, "best_settings_", None),
        "n_drawn": getattr(model, "n_drawn_", None),
        "n_tried": len(getattr(model, "search_results_", {}).get("loss", ())),
        "judged_by": _JUDGES.get(getattr(model, "selection_", "")),
        "path": None if path is None else {key: path[key] for key in path if key not in _LARGE},
        "settings": settings,
        "solver": machine.solver_,
        "n_iter": machine.n_iter_,
        "converged": machine.converged_,
    }


def _scored(data: Dataset, model: Any) -> dict[str, Any]:
    from mercer.compare.metrics import scores

    X, y, part = data.X_test, data.y_test, "test part"
    if X is None or y is None:
        X, y, part = data.X, data.y, "training rows (no test part: expect less on new rows)"
    return {
        "score": scores(data.task, y, model.predict(X)),
        "scored_on": part,
        "scored_rows": X.shape[0],
    }


def _tell(summary: dict[str, Any]) -> None:
    from mercer._array import format_bytes

    score = ", ".join(f"{name} {value:.4f}" for name, value in summary["score"].items())
    drawn = "" if summary["n_drawn"] is None else f", of {summary['n_drawn']} drawn,"
    say(
        f"fitted {summary['n']} rows, {summary['d']} inputs, {summary['n_features']} features"
        f"{drawn} in "
        f"{summary['seconds']:.2f} s ({summary['solver']}, {summary['n_iter']} iterations)"
    )
    if summary["chosen"] is not None:
        typer.echo(_choice(summary["chosen"], summary["n_tried"]))
    for name, path, chosen in (
        ("gamma", summary["gamma_path"], summary["gamma"]),
        ("alpha", summary["path"], summary["alpha"]),
    ):
        if path is not None:
            typer.echo(
                f"{name} {chosen:g}, chosen from {len(path[name])} on {summary['judged_by']}"
            )
    typer.echo(f"{score} on the {summary['scored_on']}")
    typer.echo(f"wrote {summary['model']} ({format_bytes(summary['bytes'])})")


def _choice(chosen: dict[str, Any], n_tried: int) -> str:
    """The automatic choices in one line."""
    scales = f"learned scales ** {chosen['power']:g}" if chosen["power"] else "equal scales"
    scales = f"{scales} of turned inputs" if chosen["turned"] else scales
    labels = ", few integers as labels" if chosen["max_integers"] else ""
    target = ", logarithms of the target" if chosen["transform"] == "log" else ""
    return (
        f"chosen from {n_tried} on held-out rows: {chosen['numbers']} numbers{labels}, {scales}, "
        f"{chosen['kernel']} kernel, gamma {chosen['gamma']:g} of the median distance, ridge "
        f"{chosen['ridge']:g}{target}"
    )
