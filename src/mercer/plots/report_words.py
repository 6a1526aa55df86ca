"""Words and figures of a report: what was chosen, and scores with their errors."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn import metrics
from sklearn.pipeline import Pipeline

from mercer import maps
from mercer.auto.ledger import trials_of
from mercer.maps import ExactKernel, LocalKernel, Nystroem
from mercer.plots.base import machine_of, thousands

__all__ = [
    "Score",
    "changed_settings",
    "machine_facts",
    "measured",
    "validation",
    "words_of_choice",
]

_ROUNDING = 1e-12  # share of a score below which its spread is none
_RESAMPLES, _MOST_ROWS = 50, 5000  # of the bootstrap
_LONG = re.compile(r"\d+\.\d{5,}(e[-+]?\d+)?")  # numbers of more digits than anybody reads
_NUMBERS = {
    "robust": "measured from their median, and outliers are drawn in",
    "standard": "brought to mean 0 and variance 1",
    "quantile": "replaced by their ranks",
}
_KERNELS = {
    "laplacian": "the Laplacian kernel, which allows for kinks and steps",
    "gaussian": "the Gaussian kernel, for smooth functions",
    "exponential": "the exponential kernel, which allows for kinks in any direction",
    "linear": "a linear function of the inputs",
}


@dataclass(frozen=True)
class Score:
    """A figure of merit on some rows."""

    name: str
    value: float
    error: float  # its standard error
    constant: float  # of the best constant prediction


def words_of_choice(model: Any) -> list[str]:
    """Sentences about the settings of an automatic model."""
    chosen = model.best_settings_
    sentences = [*_words_of_settings(chosen), _form(machine_of(model))]
    if chosen["transform"] == "log":
        sentences.append("The logarithm of the target is predicted, since targets vary by factors.")
    if chosen["transform"] == "log-odds":
        sentences.append("The log odds of the classes are predicted, by the logistic loss.")
    partner = getattr(model, "partner_settings_", None)
    if partner is not None:
        sentences.append("A second set of trees, whose mean with the first is the model, differs:")
        sentences += _words_of_settings(partner)
    n = len(trials_of(model.search_results_)["loss"])
    sentences.append(f"{thousands(n)} settings were tried, and judged on rows held out.")
    if getattr(model, "interrupted_", False):
        sentences.append("The fit was interrupted: this is the best model so far.")
    return sentences


def _words_of_settings(chosen: Mapping[str, Any]) -> list[str]:
    few = ", and whole numbers of few values are labels" if chosen["max_integers"] else ""
    sentences = [f"Numbers are {_NUMBERS.get(chosen['numbers'], chosen['numbers'])}{few}."]
    if chosen.get("identities"):
        sentences.append(
            "What repeats, such as a person or a year, also counts as the same or not."
        )
    if without := chosen.get("without"):
        names = ", ".join(without)
        sentences.append(f"Rows that were held out are predicted better without {names}.")
    if chosen["labels"] == "words":
        sentences.append("Labels also count by the words and letters that they share.")
    power = float(chosen["power"])
    if power == 0:
        sentences.append("All inputs count alike.")
    else:
        much = "the root of how much" if power == 0.5 else "how much"
        turned = ", and so do their combinations" if chosen["turned"] else ""
        what = {
            "machine": f"{much} the predictions of a first model change with them",
            "exponential": f"{much} the predictions of a first model change with them",
            "left-out": "what predicts left-out rows best",
        }
        plain = f"{much} the target changes with them"
        sentences.append(f"Inputs count by {what.get(chosen.get('scales', ''), plain)}{turned}.")
    of_distance = "" if chosen.get("scales") == "left-out" else " of the median distance"
    kernel = _KERNELS.get(chosen["kernel"], chosen["kernel"])
    sentences.append(
        f"Rows are compared by {kernel} (gamma {chosen['gamma']:.3g}{of_distance}, ridge "
        f"{chosen['ridge']:.3g})."
    )
    return sentences


def _form(machine: Any) -> str:
    """The form of a fitted kernel machine, in a sentence."""
    map_ = machine.feature_map_
    if isinstance(map_, ExactKernel):
        return f"The model is the exact kernel machine of {_count(map_.landmarks_)} rows."
    if isinstance(map_, LocalKernel):
        n_trees = len(map_.partition_.roots)
        return (
            f"The model is local: {n_trees} {'tree' if n_trees == 1 else 'trees'} cut "
            f"{_count(map_.landmarks_)} rows into {thousands(machine.n_leaves_)} leaves, with an "
            "exact kernel machine in each."
        )
    if isinstance(map_, Nystroem):
        return f"The model is a kernel machine in the span of {_count(map_.landmarks_)} landmarks."
    features = thousands(map_.n_features_out_)
    return f"The model is linear in {features} features of {type(map_).__name__}."


def _count(rows: Any) -> str:
    return thousands(rows.shape[0])


def machine_facts(machine: Any) -> list[tuple[str, Any]]:
    """Names and values of facts about a fitted kernel machine; none for other estimators."""
    facts: list[tuple[str, Any]] = []
    if not type(machine).__module__.startswith("mercer."):
        return facts
    map_ = getattr(machine, "feature_map_", None)
    if map_ is not None:
        kind = type(map_).__name__
        of_what = f" of {kind}" if kind in maps.__all__ else ""  # a part of a map has no name
        facts.append(("features", thousands(map_.n_features_out_) + of_what))
    kernel = getattr(map_, "kernel_", getattr(machine, "kernel_", None))
    names = {
        "kernel": kernel,
        "strength of the penalty, alpha": getattr(machine, "alpha_", None),
        "loss": getattr(machine, "loss", None),
        "features drawn": getattr(machine, "n_drawn_", None),
        "leaves": getattr(machine, "n_leaves_", None),
        "solver": getattr(machine, "solver_", None),
        "iterations": getattr(machine, "n_iter_", None),
        "converged": getattr(machine, "converged_", None),
    }
    for name, value in names.items():
        if value is not None:
            facts.append((name, _LONG.sub(lambda digits: f"{float(digits[0]):.4g}", str(value))))
    return facts


def changed_settings(model: Any) -> list[tuple[str, str]]:
    """Parameters that differ from their defaults, or the steps of a pipeline."""
    if isinstance(model, Pipeline):
        return [(name, str(step)) for name, step in model.steps]
    given = model.get_params(deep=False)
    try:
        defaults = type(model)().get_params(deep=False)
    except TypeError:  # some parameters have no default, as the steps of a pipeline
        defaults = {}
    return [
        (k, str(v)) for k, v in given.items() if k not in defaults or str(v) != str(defaults[k])
    ]


def validation(model: Any) -> tuple[str, float, int] | None:
    """The score of the chosen settings on the rows held out in a search: name, value and rows."""
    is_classifier = hasattr(model, "classes_")
    value = getattr(model, "validation_score_", None)
    if value is not None:
        name = getattr(model, "scoring", None) or ("accuracy" if is_classifier else "R²")
        name = name if isinstance(name, str) else "score"
        return name, float(value), int(getattr(model, "n_validation_rows_", 0))
    results = getattr(model, "search_results_", None)
    if results is None or not np.any(results["chosen"]):
        return None
    n_rows = len(getattr(getattr(model, "conformal_", None), "scores", ()))
    if is_classifier:
        return "accuracy", 1 - float(results["error"][results["chosen"]][0]), n_rows
    if model.best_settings_["transform"] != "identity":
        return None
    return "R²", 1 - float(results["loss"][results["chosen"]][0]), n_rows


def measured(
    y: NDArray, predicted: NDArray, proba: NDArray | None = None, classes: NDArray | None = None
) -> list[Score]:
    """Scores of predictions, with standard errors by resampling the rows."""
    n = len(y)
    some = np.random.default_rng(0).permutation(n)[:_MOST_ROWS]
    draws = np.random.default_rng(1).integers(len(some), size=(_RESAMPLES, len(some)))
    if classes is None:
        functions, constants = _of_numbers(y, predicted)
    else:
        functions, constants = _of_classes(y, predicted, proba, classes)
    scores = []
    with warnings.catch_warnings():  # a draw may lack a class
        warnings.simplefilter("ignore")
        for name, function in functions.items():
            drawn = np.array([function(some[draw]) for draw in draws])
            spread = float(np.nanstd(drawn)) if n > 1 else np.nan
            if spread <= _ROUNDING * np.nanmax(np.abs(drawn)):
                spread = 0.0
            error = spread * float(np.sqrt(len(some) / n))
            scores.append(Score(name, float(function(np.arange(n))), error, constants[name]))
    return scores


_Functions = dict[str, Callable[[NDArray], float]]


def _of_numbers(y: NDArray, predicted: NDArray) -> tuple[_Functions, dict[str, float]]:
    def root(rows: NDArray) -> float:
        return float(metrics.root_mean_squared_error(y[rows], predicted[rows]))

    functions: _Functions = {
        "R²": lambda rows: metrics.r2_score(y[rows], predicted[rows]),
        "root mean squared error": root,
        "mean absolute error": lambda rows: metrics.mean_absolute_error(y[rows], predicted[rows]),
    }
    spread = float(np.mean(np.std(y, axis=0)))
    middle = float(np.mean(np.abs(y - np.median(y, axis=0))))
    return functions, dict(zip(functions, (0.0, spread, middle), strict=True))


def _of_classes(
    y: NDArray, predicted: NDArray, proba: NDArray | None, classes: NDArray
) -> tuple[_Functions, dict[str, float]]:
    shares = np.array([np.mean(y == label) for label in classes])
    functions: _Functions = {
        "accuracy": lambda rows: metrics.accuracy_score(y[rows], predicted[rows]),
        "balanced accuracy": lambda rows: metrics.balanced_accuracy_score(y[rows], predicted[rows]),
    }
    constants = {"accuracy": float(shares.max()), "balanced accuracy": 1 / len(np.unique(y))}
    if proba is None or not np.isin(y, classes).all():
        return functions, constants
    places = np.searchsorted(classes, y)
    losses = -np.log(np.clip(proba[np.arange(len(y)), places], 1e-15, 1))
    functions["mean −log probability"] = lambda rows: float(losses[rows].mean())
    positive = shares[shares > 0]
    constants["mean −log probability"] = float(-(positive * np.log(positive)).sum())
    if len(classes) == 2 and len(np.unique(y)) == 2:
        functions["area under the ROC curve"] = lambda rows: metrics.roc_auc_score(
            places[rows], proba[rows, 1]
        )
        constants["area under the ROC curve"] = 0.5
    return functions, constants
