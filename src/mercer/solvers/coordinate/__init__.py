"""Coordinate descent and its relatives, for penalties that leave most weights exactly zero."""

from mercer.solvers.coordinate.rounds import Rounds, eso_factor, simulate
from mercer.solvers.coordinate.solver import CoordinateDescent, path

__all__ = ["CoordinateDescent", "Rounds", "eso_factor", "path", "simulate"]
