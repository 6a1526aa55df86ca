"""Explanations of fitted models: Shapley values of the columns of a table."""

from mercer.explain.shapley import shapley_values
from mercer.explain.values import ShapleyValues

__all__ = ["ShapleyValues", "shapley_values"]
