"""Export to ONNX: fitted models that run without Python."""

from mercer.onnx.converters import register
from mercer.onnx.export import feed, to_onnx

__all__ = ["feed", "register", "to_onnx"]
