"""The summary of a fit: facts of a model and its scores, as numbers and in words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mercer.cli.options import echo, say

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from mercer.datasets.base import Dataset

TRAINING_ROWS = "training rows (no test part: expect less on new rows)"
_LARGE = ("coef", "intercept")  # arrays of ``path_`` that the printed summary leaves out
_JUDGES = {"holdout": "held-out rows", "loo": "every row, left out in turn"}


def described(model: Any, n_counted: int | None) -> dict[str, Any]:
    """Chosen settings, the form of the model and its solver; None for an attribute it lacks.

    ``n_counted`` are the rows with a weight above 0, None if not known.
    """
    from mercer.auto.ledger import stage_seconds, trials_of

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
        "n_tried": len(trials_of(getattr(model, "search_results_", {"loss": ()}))["loss"]),
        "stage_seconds": stage_seconds(model),
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


def default_score(task: str | None) -> str:
    """The score of a task if no option names one."""
    return "accuracy" if task == "classification" else "r2"


def scored(
    data: Dataset, model: Any, scorer: Any = None, offset: NDArray | None = None
) -> dict[str, Any]:
    """Scores on the test part, or else on the training rows, and which of them it was."""
    from sklearn.metrics import get_scorer

    from mercer.compare.metrics import scores

    X, y, part = data.X_test, data.y_test, "test part"
    if X is None or y is None:
        X, y, part = data.X, data.y, TRAINING_ROWS
    beside = {} if offset is None else {"offset": offset}
    found = scores(data.task, y, model.predict(X, **beside))
    named = default_score(data.task)
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
    labels += ", values that repeat told apart" if chosen.get("identities") else ""
    left_out = len(chosen.get("without", ()))
    labels += f", without {left_out} column{'s' * (left_out > 1)}" if left_out else ""
    labels += ", words of labels" if chosen["labels"] == "words" else ""
    of_distance = "" if chosen.get("scales") == "left-out" else " of the median distance"
    targets = {"log": ", logarithms of the target", "log-odds": ", log odds of the classes"}
    target = targets.get(chosen["transform"], "")
    return (
        f"chosen from {n_tried} on held-out rows: {chosen['numbers']} numbers{labels}, {scales}, "
        f"{chosen['kernel']} kernel, gamma {chosen['gamma']:g}{of_distance}, ridge "
        f"{chosen['ridge']:g}{target}"
    )
