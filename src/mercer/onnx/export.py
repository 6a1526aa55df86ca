"""Fitted models as files of ONNX."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

import mercer
from mercer._runtime.messages import shown
from mercer._runtime.validation import has_offset
from mercer.onnx.converters import register
from mercer.onnx.graph import LEAST_OPSET, ML, ML_OPSET, Graph, Value, element_type
from mercer.onnx.inputs import Input, Inputs, described, fed
from mercer.onnx.models import first_part, is_known, outputs
from mercer.onnx.packages import package
from mercer.unsupervised.base import Unsupervised

__all__ = ["feed", "to_onnx"]


def to_onnx(
    model: Any, X: Any = None, *, target_opset: int | None = None, offset: float | None = None
) -> Any:
    """Convert a fitted model to ONNX, which runs without Python.

    Linear maps are folded into the weights. Kernels are summed in chunks of rows, so that the
    prediction of a row takes some kilobytes. Leaves of local machines process only their own rows.
    Numbers are float32 if the model is float32 and its weights do not cancel, else float64.

    Parameters
    ----------
    model : estimator
        Fitted estimator of mercer, or a pipeline; skl2onnx converts steps of other packages.
    X : data frame or array of shape (n, d), default=None
        Sample of rows with the names and types of the inputs. An array of numbers becomes one input
        "X" (n, d); a frame, or an array of objects, becomes one input (n, 1) per column. None
        means float32 numbers or, for a model of raw tables, the columns of the fit. Labels are
        texts, with "" for a missing one, and so are booleans that were texts at fit, such as "yes"
        and "no", in lower case, upper case or with a capital; dates are int64 microseconds since
        1970, with the least integer for a missing one. :func:`feed` returns such inputs.
    target_opset : int or None, default=None
        Version of the operators, >= 18; None means 18, which most runtimes support.
    offset : 0 or None, default=None
        0 exports a model that was fitted with an offset: its predictions are without one, such as
        rates.

    Returns
    -------
    onnx.ModelProto
        ONNX model. A regressor or transformer has the output "variable" (n, n_outputs). A
        classifier has "label" (n,), int64 or texts, and "probabilities" (n, n_classes) or, if the
        model has none, "scores": responses of the second of two classes (n, 1), or of all classes.

    Raises
    ------
    ImportError
        If onnx is not installed, or skl2onnx for steps of other packages.
    ValueError
        If ONNX cannot express the model (texts, callables as kernels, random planes), the model is
        one of unlabelled rows, or it is larger than 2 GB.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import KernelRegressor
    >>> from mercer.onnx import to_onnx
    >>> X = np.random.default_rng(0).uniform(-3, 3, size=(200, 2)).astype(np.float32)
    >>> model = KernelRegressor("exact").fit(X, np.sin(X).sum(axis=1))
    >>> saved = to_onnx(model)  # doctest: +SKIP
    >>> [one.name for one in saved.graph.input]  # doctest: +SKIP
    ['X']
    """
    if not hasattr(model, "fit"):
        raise TypeError(f"model must be a fitted estimator; got {shown(model)}.")
    check_is_fitted(model)
    _check_offset(model, offset)
    _refuse_unsupervised(model)
    opset = LEAST_OPSET if target_opset is None else int(target_opset)
    if opset < LEAST_OPSET:
        raise ValueError(f"target_opset must be at least {LEAST_OPSET}; got {target_opset!r}.")
    onnx = package("onnx")
    newest = onnx.defs.onnx_opset_version()
    if opset > newest:
        raise ValueError(
            f"target_opset must be at most {newest}, the newest of this onnx; got {target_opset!r}."
        )
    if not is_known(model):
        return _by_skl2onnx(model, X, opset)
    graph, first = Graph(), first_part(model)
    if not hasattr(first, "n_features_in_"):
        raise ValueError(f"model must take rows of numbers; got {shown(first)}, which takes texts.")
    given = described(first, X)
    values = tuple(Value(one.name, one.dtype) for one in given)
    made = outputs(graph, model, Inputs(values, tuple(one.width for one in given)))
    for name, value in made.items():
        graph.nodes.append(onnx.helper.make_node("Identity", [value.name], [name]))
    return _model(graph, given, made, opset)


def _check_offset(model: Any, offset: float | None) -> None:
    """Raise for an offset that is not 0, or none of a model that was fitted with one."""
    if offset is not None and (np.ndim(offset) or offset != 0):
        raise ValueError(
            f"offset must be None or 0, as an export has no input for it; got {shown(offset)}."
        )
    last = model.steps[-1][1] if isinstance(model, Pipeline) else model
    if offset is None and has_offset(last):
        raise ValueError(
            f"offset must be 0 to export a {type(last).__name__} that was fitted with one, for "
            "which the export has no input: its predictions are then without it, such as rates; "
            "got None."
        )


def _refuse_unsupervised(model: Any) -> None:
    """Raise for a model of unlabelled rows, alone or as a step."""
    steps = [step for _, step in model.steps] if isinstance(model, Pipeline) else [model]
    for step in steps:
        if isinstance(step, Unsupervised):
            raise ValueError(
                "model must be a regressor, a classifier or a transformer of tables or features; "
                f"got {type(step).__name__}, a model of unlabelled rows, for which there is no "
                "conversion to ONNX: keep it with mercer.persistence."
            )


def _model(graph: Graph, given: list[Input], made: dict[str, Value], opset: int) -> Any:
    onnx = package("onnx")
    describe = onnx.helper.make_tensor_value_info
    whole = onnx.helper.make_graph(
        graph.nodes,
        "mercer",
        [describe(one.name, element_type(one.dtype), ["n", one.width]) for one in given],
        [
            describe(name, element_type(value.dtype), ["n"] if name == "label" else ["n", None])
            for name, value in made.items()
        ],
        graph.constants,
    )
    versions = [
        onnx.helper.make_opsetid("", opset),
        onnx.helper.make_opsetid(ML, ML_OPSET),
    ]
    least = onnx.helper.find_min_ir_version_for(versions)
    return onnx.helper.make_model(
        whole,
        opset_imports=versions,
        ir_version=least,
        producer_name="mercer",
        producer_version=mercer.__version__,
    )


def _by_skl2onnx(model: Any, X: Any, opset: int) -> Any:
    """A model with parts of other packages; outputs of classifiers are arrays here, too."""
    register()
    guessed = package("skl2onnx.common.data_types").guess_data_type
    given = []
    for one in described(first_part(model), X):
        ((_, kind),) = guessed(np.empty((1, one.width), dtype=one.dtype))
        kind.shape = [None, one.width]
        given.append((one.name, kind))
    versions = {"": opset, ML: ML_OPSET}
    options, names = None, None
    if hasattr(model, "classes_"):
        options = {"zipmap": False}
        second = "probabilities" if hasattr(model, "predict_proba") else "scores"
        names = [("label", None), (second, None)]
    return package("skl2onnx").to_onnx(
        model, initial_types=given, target_opset=versions, options=options, final_types=names
    )


def feed(onnx_model: Any, X: Any) -> dict[str, NDArray]:
    """Return the inputs of an exported model for a table, for a session of onnxruntime.

    Parameters
    ----------
    onnx_model : onnx.ModelProto
        Model from :func:`to_onnx`.
    X : data frame or array of shape (n, d)
        Rows to predict.

    Returns
    -------
    dict of ndarray
        Array per input name: texts, with "" for a missing label; int64 microseconds since 1970 for
        dates; or numbers.

    Raises
    ------
    ValueError
        If the table lacks a column, or holds texts where numbers are needed.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import KernelRegressor
    >>> from mercer.onnx import feed, to_onnx
    >>> X = np.random.default_rng(0).uniform(-3, 3, size=(200, 2))
    >>> saved = to_onnx(KernelRegressor("exact").fit(X, X[:, 0]))  # doctest: +SKIP
    >>> feed(saved, X)["X"].dtype  # doctest: +SKIP
    dtype('float32')
    """
    helper = package("onnx.helper")
    inputs = []
    for one in onnx_model.graph.input:
        tensor = one.type.tensor_type
        dtype = np.dtype(helper.tensor_dtype_to_np_dtype(tensor.elem_type))
        inputs.append(Input(one.name, dtype, int(tensor.shape.dim[1].dim_value)))
    return fed(X, inputs)
