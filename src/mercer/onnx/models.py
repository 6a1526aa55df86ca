"""Fitted models as graphs: what each of them makes of its inputs."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import is_classifier
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import MaxAbsScaler, StandardScaler

from mercer.auto import AutoKernelClassifier, LogTargetRegressor
from mercer.auto.base import AutoKernelMachine
from mercer.auto.means import MeanModel
from mercer.auto.targets import _LEVELS
from mercer.estimators import DualKernelSVC
from mercer.estimators.base import FeatureModel
from mercer.estimators.classification import Classification
from mercer.estimators.precomputed import has_matrix
from mercer.estimators.probabilities import Probabilities, SoftMax
from mercer.estimators.scaling import InputScaler
from mercer.maps.base import FeatureMap
from mercer.onnx.features import _dense, features, responses
from mercer.onnx.graph import TEXT, Graph, Value
from mercer.onnx.inputs import Inputs
from mercer.onnx.kernels import kernel_sum
from mercer.onnx.tables import prepared, prepared_type
from mercer.preparation import TablePreparer

__all__ = [
    "TRANSFORMERS",
    "first_part",
    "is_known",
    "label_array",
    "outputs",
    "transformed_type",
    "transformed_width",
]

TRANSFORMERS = (TablePreparer, InputScaler, FeatureMap, StandardScaler, MaxAbsScaler)
_NO_MATRIX = "kernel must not be 'precomputed', which ONNX has no rows for."
_MODELS = (FeatureModel, DualKernelSVC, AutoKernelMachine, MeanModel, LogTargetRegressor)


def is_known(model: Any) -> bool:
    """Whether a model, or every step of a pipeline, needs no other package to be expressed."""
    if isinstance(model, Pipeline):
        return all(map(is_known, _steps(model)))
    return isinstance(model, (*TRANSFORMERS, *_MODELS))


def first_part(model: Any) -> Any:
    """The part of a fitted model that sees the table before all others."""
    if isinstance(model, Pipeline):
        return first_part(_steps(model)[0])
    if isinstance(model, LogTargetRegressor):
        return first_part(model.regressor_)
    if isinstance(model, MeanModel):
        return first_part(model.pipelines_[0])
    return first_part(model.best_estimator_) if isinstance(model, AutoKernelMachine) else model


def outputs(graph: Graph, model: Any, inputs: Inputs) -> dict[str, Value]:
    """Add a fitted model to the graph; returns its outputs by name.

    Of a regressor "variable" (n, k), of type double if its targets were; of a classifier "label"
    (n,) and "probabilities" (n, n_classes) or, where it models none, "scores", responses of the
    second of two classes (n, 1) or of all; of a transformer "variable" (n, D).
    """
    if isinstance(model, Pipeline):
        return outputs(graph, *_through(graph, model, inputs))
    if isinstance(model, TRANSFORMERS):
        return {"variable": _transformed(graph, model, inputs)}
    if not is_classifier(model):
        return {"variable": _predicted(graph, model, inputs)}
    classes = label_array(model)  # first: it refuses several labels per row
    scores = _predicted(graph, model, inputs)
    proba = _probabilities(graph, model, scores)
    second = {"scores": scores} if proba is None else {"probabilities": proba}
    float_type = inputs.float_type
    threshold = getattr(model, "decision_threshold_", 0.5)
    deciding = scores if threshold == 0.5 else _above(graph, proba, threshold)
    return {
        "label": _labels(graph, classes, deciding),
        **{name: graph.cast(value, float_type) for name, value in second.items()},
    }


def _through(graph: Graph, pipeline: Pipeline, inputs: Inputs) -> tuple[Any, Inputs]:
    """The last step of a pipeline, and the outputs of the others."""
    *before, last = _steps(pipeline)
    for step in before:
        value = outputs(graph, step, inputs)["variable"]
        inputs = Inputs((value,), (transformed_width(step),))
    return last, inputs


def _steps(pipeline: Pipeline) -> list[Any]:
    return [step for _, step in pipeline.steps if step not in (None, "passthrough")]


def transformed_width(transformer: Any) -> int:
    """Columns that come out of a transformer."""
    if isinstance(transformer, TablePreparer):
        return len(transformer.origins_)
    if isinstance(transformer, FeatureMap):
        return transformer.n_features_out_
    if isinstance(transformer, Pipeline):
        return transformed_width(_steps(transformer)[-1])
    if isinstance(transformer, InputScaler):
        return int(np.count_nonzero(transformer.scales_))
    return int(transformer.n_features_in_)


def transformed_type(transformer: Any, inputs: Inputs) -> np.dtype:
    """The type of the output of a transformer."""
    if isinstance(transformer, TablePreparer):
        return prepared_type(transformer, inputs)
    return inputs.common_type


def _transformed(graph: Graph, step: Any, inputs: Inputs) -> Value:
    if isinstance(step, TablePreparer):
        step._check_fitted()
        return prepared(graph, step, inputs)
    x = inputs.matrix(graph)
    if isinstance(step, FeatureMap):
        step._check_fitted()
        return features(graph, step, x)
    if not isinstance(step, InputScaler):
        return _scaled(graph, step, x)
    step._check_fitted()
    matrix = step.matrix_.astype(x.dtype)
    if not step.scales_.all():
        kept = np.flatnonzero(step.scales_)
        x, matrix = graph.op("Gather", x, kept, axis=1), matrix[kept]
    return graph.op("Mul" if matrix.ndim == 1 else "MatMul", x, matrix)


def _scaled(graph: Graph, scaler: Any, x: Value) -> Value:
    """Rows on the scale of a scaler of scikit-learn, in the type of the rows as there."""
    if scaler is None:
        return x
    if getattr(scaler, "mean_", None) is not None and scaler.with_mean:
        x = graph.op("Sub", x, scaler.mean_.astype(x.dtype))
    if scaler.scale_ is not None:
        x = graph.op("Div", x, scaler.scale_.astype(x.dtype))
    return x


# Responses.


def _predicted(graph: Graph, model: Any, inputs: Inputs) -> Value:
    """Predictions of a regressor or responses of a classifier, (n, k)."""
    if isinstance(model, Pipeline):
        return _predicted(graph, *_through(graph, model, inputs))
    if not isinstance(model, _MODELS):
        raise ValueError(f"model must be one that ONNX can express; got a {type(model).__name__}.")
    model._check_fitted()
    if isinstance(model, AutoKernelMachine):
        result = _predicted(graph, model.best_estimator_, inputs)
        positive = np.atleast_1d(getattr(model, "_are_positive_", False))
        if not positive.any():
            return result
        least = np.where(positive, 0.0, np.finfo(result.dtype).min).astype(result.dtype)
        return graph.op("Max", result, graph.constant(least[None]))
    if isinstance(model, LogTargetRegressor):
        return _smeared(graph, model, _predicted(graph, model.regressor_, inputs))
    if isinstance(model, MeanModel):
        return _mean(graph, model, inputs)
    x = inputs.matrix(graph)
    if has_matrix(model):
        raise ValueError(_NO_MATRIX)
    if isinstance(model, DualKernelSVC):
        return _dual(graph, model, x)
    x = _scaled(graph, model.scaler_, x)
    result = responses(graph, model.feature_map_, x, _as_columns(model.map_coef_))
    if is_classifier(model):
        return graph.op("Add", result, _constants(model._intercept_, result))
    # A mean target far from 0 needs its digits.
    result = graph.cast(result, model._response_type(result.dtype))
    result = graph.op("Add", result, _constants(model._intercept_, result))
    result = graph.cast(result, model._response_type(inputs.float_type))
    link = getattr(vars(model).get("_loss_"), "link", "identity")
    if link == "identity":
        return result
    largest = float(np.finfo(result.dtype).max)
    means = graph.op("Min", graph.op("Exp", graph.cast(result, np.float64)), largest)
    return graph.cast(means, result.dtype)


def _as_columns(coef: Any) -> NDArray:
    """Coefficients (D,) or (k, D) as (D, k)."""
    return np.ascontiguousarray(np.atleast_2d(coef).T)


def _constants(intercept: Any, like: Value) -> NDArray:
    constants: NDArray = np.atleast_1d(np.asarray(intercept)).astype(like.dtype)
    return constants


def _dual(graph: Graph, model: Any, x: Value) -> Value:
    if isinstance(model.kernel_, str):
        raise ValueError(_NO_MATRIX)
    x, rows = _scaled(graph, model.scaler_, x), _dense(model.support_vectors_)
    result = kernel_sum(graph, model.kernel_, x, rows, _as_columns(model.dual_coef_))
    return graph.op("Add", result, _constants(model.intercept_, result))


def _mean(graph: Graph, model: MeanModel, inputs: Inputs) -> Value:
    """The mean of pipelines, counted by their trees."""
    total: Any = None
    trees = np.array([p[-1].feature_map_.partition_.roots.size for p in model.pipelines_])
    for pipeline, share in zip(model.pipelines_, trees / trees.sum(), strict=True):
        value = graph.cast(_predicted(graph, pipeline, inputs), np.float64)
        value = graph.op("Mul", value, share)
        total = value if total is None else graph.op("Add", total, value)
    return total


def _smeared(graph: Graph, model: LogTargetRegressor, logs: Value) -> Value:
    """Mean targets of logarithms, as ``auto.targets.smeared``."""
    shift = model.shift_
    levels = (np.arange(_LEVELS) + 0.5) / _LEVELS
    residuals = np.quantile(np.asarray(model._residuals_, dtype=np.float64), levels)
    farthest = max(shift.high - shift.centre, shift.centre - shift.low)
    reach = float(np.log1p(farthest / shift.unit))
    t = graph.op("Add", graph.cast(logs, np.float64), residuals[None])
    t = graph.op("Clip", t, -reach, reach)
    grown = graph.op("Sub", graph.op("Exp", graph.op("Abs", t)), 1.0)
    grown = graph.op("Mul", graph.op("Mul", grown, shift.unit), graph.op("Sign", t))
    back = graph.op("Clip", graph.op("Add", grown, shift.centre), shift.low, shift.high)
    return graph.op("ReduceMean", back, [1])


# Classes.


def _above(graph: Graph, proba: Value | None, threshold: float) -> Value:
    """Probability of the second of two classes, less a threshold, (n, 1)."""
    return graph.op("Sub", graph.op("Gather", proba, [1], axis=1), threshold)


def _labels(graph: Graph, classes: NDArray, scores: Value) -> Value:
    """The class of the largest response, the first of equal ones; (n,)."""
    if len(classes) == 2:
        which = graph.cast(graph.op("Greater", scores, 0.0, dtype=bool), np.int64)
        which = graph.op("Squeeze", which, [1])
    else:
        which = graph.op("ArgMax", scores, dtype=np.int64, axis=1, keepdims=0)
    return graph.op("Gather", graph.constant(classes), which, dtype=classes.dtype, axis=0)


def label_array(model: Any) -> NDArray:
    """Classes as ONNX has them: int64 for whole numbers and booleans, else float64 or texts."""
    classes = np.asarray(model.classes_)
    if classes.ndim != 1 or getattr(model, "_has_several_labels", False):
        raise ValueError("model must have one label for a row; ONNX does not express several.")
    if classes.dtype.kind in "OUS":
        return np.array([str(one) for one in classes.tolist()], dtype=TEXT)
    is_whole = classes.dtype.kind != "f" or bool((classes == np.round(classes)).all())
    return classes.astype(np.int64 if is_whole else np.float64)


def _probabilities(graph: Graph, model: Any, scores: Value) -> Value | None:
    """Probabilities (n, n_classes), or None where a model has none."""
    is_binary = len(model.classes_) == 2
    if isinstance(model, AutoKernelClassifier):
        of_classes: Any = model.probabilities_
        return _calibrated(graph, of_classes, scores, is_binary)
    if not isinstance(model, Classification):
        return None
    if not model._loss_.has_proba:
        scale = vars(model).get("_probabilities_")
        return None if scale is None else _calibrated(graph, scale, scores, is_binary)
    if model._loss_.joint:
        return graph.op("Softmax", scores, axis=1)
    positive = graph.op("Sigmoid", scores)
    if is_binary:
        return graph.joined([graph.op("Add", graph.op("Neg", positive), 1.0), positive])
    total = graph.op("ReduceSum", positive, [1])
    shares = graph.op("Div", positive, graph.op("Max", total, float(np.finfo(scores.dtype).tiny)))
    even = graph.constant(np.array(1.0 / len(model.classes_), dtype=scores.dtype))
    some = graph.op("Greater", total, 0.0, dtype=bool)
    return graph.op("Where", some, shares, even, dtype=scores.dtype)


def _calibrated(
    graph: Graph, scale: Probabilities | SoftMax, scores: Value, is_binary: bool
) -> Value:
    wide = graph.cast(scores, np.float64)
    if isinstance(scale, SoftMax):
        wide = graph.op("Mul", wide, scale.power)
        if is_binary:
            wide = graph.joined([graph.op("Mul", wide, 0.0), wide])
        return graph.op("Softmax", wide, axis=1)
    if is_binary:
        wide = graph.joined([graph.op("Neg", wide), wide])
    share = graph.op("Max", graph.op("Mul", graph.op("Add", wide, 1.0), 0.5), 0.0)
    raised = graph.op("Pow", graph.op("Add", share, scale.floor), scale.power)
    return graph.op("Div", raised, graph.op("ReduceSum", raised, [1]))
