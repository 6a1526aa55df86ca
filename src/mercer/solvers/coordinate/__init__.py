"""Coordinate descent and its relatives, for penalties that leave most weights exactly zero."""

from mercer.solvers.coordinate.solver import CoordinateDescent

__all__ = ["CoordinateDescent"]
