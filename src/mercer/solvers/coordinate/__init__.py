"""Coordinate descent and its relatives, for penalties that leave most weights exactly zero."""

from mercer.solvers.coordinate.descent import eso_factor
from mercer.solvers.coordinate.solver import CoordinateDescent, path

__all__ = ["CoordinateDescent", "eso_factor", "path"]
