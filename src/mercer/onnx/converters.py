"""Converters of skl2onnx, for pipelines with steps of other packages."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin

from mercer import auto, estimators, maps
from mercer.onnx.graph import LEAST_OPSET, ML, ML_OPSET, TEXT, Graph, Value
from mercer.onnx.inputs import Inputs
from mercer.onnx.models import (
    TRANSFORMERS,
    label_array,
    outputs,
    transformed_type,
    transformed_width,
)
from mercer.onnx.packages import package
from mercer.preparation import TablePreparer

__all__ = ["register"]

_MAPS = ("RandomFourier", "Fastfood", "Nystroem", "ExactKernel", "SubspaceEmbedding", "IdentityMap")


def register() -> None:
    """Make skl2onnx know the estimators and feature maps of this package.

    ``skl2onnx.to_onnx`` then converts pipelines and searches that contain them. It is to be asked
    for a ``target_opset`` of at least 18.

    Raises
    ------
    ImportError
        Without skl2onnx.

    Examples
    --------
    >>> from mercer.onnx import register
    >>> register()  # doctest: +SKIP
    """
    update = package("skl2onnx").update_registered_converter
    models = [getattr(estimators, name) for name in estimators.__all__]
    models += [getattr(auto, name) for name in auto.__all__]
    models += [TablePreparer, *(getattr(maps, name) for name in _MAPS)]
    flags: dict[str, list[Any]] = {"nocl": [True, False], "output_class_labels": [False, True]}
    for model in models:
        is_classifier = issubclass(model, ClassifierMixin)
        options = flags | {"zipmap": [True, False, "columns"]} if is_classifier else None
        update(model, f"Mercer{model.__name__}", _shape, _convert, options=options)


def _shape(operator: Any) -> None:
    """Types and widths of the outputs of an operator of skl2onnx."""
    types = package("skl2onnx.common.data_types")
    model, given = operator.raw_operator, _inputs(operator)
    is_wide = given.float_type == np.float64
    numbers = types.DoubleTensorType if is_wide else types.FloatTensorType
    if not isinstance(model, ClassifierMixin):
        if isinstance(model, TRANSFORMERS):
            dtype = transformed_type(model, given)
            numbers = types.DoubleTensorType if dtype == np.float64 else types.FloatTensorType
            width = transformed_width(model)
        else:
            width = None
        operator.outputs[0].type = numbers([None, width])
        return
    kind = label_array(model).dtype.kind
    labels = {"O": types.StringTensorType, "i": types.Int64TensorType, "f": types.DoubleTensorType}
    operator.outputs[0].type = labels[kind]([None])
    operator.outputs[1].type = numbers([None, None])


def _convert(scope: Any, operator: Any, container: Any) -> None:
    """Add the graph of a model to that of a pipeline."""
    graph = Graph(scope.get_unique_operator_name(type(operator.raw_operator).__name__))
    made = outputs(graph, operator.raw_operator, _inputs(operator))
    if "scores" in made and len(operator.raw_operator.classes_) == 2:
        options = scope.get_options(operator.raw_operator, {"zipmap": True})
        if options["zipmap"]:  # which has a name for every column
            scores = made["scores"]
            made["scores"] = graph.joined([graph.op("Neg", scores), scores])
    for variable, value in zip(operator.outputs, made.values(), strict=True):
        make = package("onnx.helper").make_node
        graph.nodes.append(make("Identity", [value.name], [variable.full_name]))
    container.initializers.extend(graph.constants)
    # skl2onnx declares the versions of nodes, but not of those in bodies of loops.
    container.node_domain_version_pair_sets.add((ML, ML_OPSET))
    attribute = package("onnx.helper").get_attribute_value
    for node in graph.nodes:
        container.add_node(
            node.op_type,
            list(node.input),
            list(node.output),
            op_domain=node.domain,
            op_version=ML_OPSET if node.domain else LEAST_OPSET,
            name=node.name,
            **{one.name: attribute(one) for one in node.attribute},
        )


def _inputs(operator: Any) -> Inputs:
    """The inputs of an operator of skl2onnx."""
    numpy_type = package("skl2onnx.common.data_types").guess_numpy_type
    values, widths = [], []
    for variable in operator.inputs:
        dtype = numpy_type(variable.type)
        values.append(Value(variable.full_name, TEXT if dtype is np.str_ else np.dtype(dtype)))
        widths.append(int(variable.type.shape[1] or operator.raw_operator.n_features_in_))
    return Inputs(tuple(values), tuple(widths))
