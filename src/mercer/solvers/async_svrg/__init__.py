"""Doubly stochastic steps: along a few coordinates, by the derivatives of a few rows.

Gu, Miao, Huo and Huang, Asynchronous doubly stochastic sparse kernel learning, AAAI 2018.
"""

from mercer.solvers.async_svrg.bounds import StepBounds, step_bounds
from mercer.solvers.async_svrg.solver import AsyncSVRG

__all__ = ["AsyncSVRG", "StepBounds", "step_bounds"]
