"""Table 2 and the theory: conditions, bounds and measured epochs of systems solved directly."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import linalg
from sklearn.exceptions import ConvergenceWarning

from mercer.equations import equations
from mercer_studies.block_descent.data import Loaded
from mercer_studies.block_descent.systems import Prepared, prepared, solver_of
from mercer_studies.simulators import block_rates, hessian_of

GAPS = (1e-1, 1e-2, 1e-3, 1e-4)
"""Shares of f(0) - f* that are waited for."""

CLOSE = 1e-6  # of the direct solution's answers
_LEAST = 1e-20  # of the share that is left; below is rounding


def rates(
    loaded: Loaded,
    *,
    rows: int,
    block_size: int,
    epochs: int,
    strength: str,
    seed: int,
    **settings: Any,
) -> dict[str, Any]:
    """Constants of a small system in double precision, and epochs to its direct solution.

    ``block_size``, ``epochs``: b, and the most epochs; ``strength``: "theory" or "chosen", λ = ln n
    / n, with which the paper's Table 2 is worked out, or the one that does best; ``settings``:
    those of ``systems.prepared``. Returns the results of a record: ``condition``, ``smallest``,
    ``largest``, ``effective`` and ``restricted`` of the matrix; ``predicted`` and ``measured``
    epochs for the shares in ``gaps`` (None: not reached); ``close``, the epochs after which answers
    are within 1e-6 of those of the direct solution; ``away``, how far they are in the end; and
    ``accelerated``, the same three of this library's form of the algorithm.
    """
    alpha = None if strength == "chosen" else float(np.log(rows) / rows)
    made = prepared(loaded, rows=rows, seed=seed, alpha=alpha, **settings)
    H = hessian_of(made.problem)
    known = block_rates(H, min(block_size, len(H)))
    system = equations(made.problem)
    initial = system.from_theta(made.problem.initial())
    target = initial + linalg.solve(H, system.residual(initial), assume_a="pos")
    answers = made.responses(system.theta(target))
    watched = []
    for accelerated in (False, True):
        seen = _Watch(made, H, target, initial, answers)
        solver = solver_of(block_size, made.problem, epochs, seed, accelerated=accelerated)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            solver.solve(made.problem, callback=seen)
        watched.append(seen)
    plain, faster = watched
    error = loaded.error(made.some, answers)
    return {
        "data": loaded.describe(),
        "score": {"test": loaded.score(made.some, error)},
        "n_features": len(H),
        "condition": known.condition,
        "smallest": known.smallest,
        "largest": known.largest,
        "largest_diagonal": known.largest_diagonal,
        "effective": known.effective,
        "restricted": known.restricted,
        "crossover": known.crossover,
        "gaps": list(GAPS),
        "predicted": [known.epochs(gap) for gap in GAPS],
        "predicted_old": [known.epochs(gap, old=True) for gap in GAPS],
        **plain.reached(),
        "epochs_done": len(plain.gaps),
        "accelerated": faster.reached(),
        "seconds": {"fit": plain.seconds},
        "chosen": {"gamma": made.chosen.gamma, "alpha": made.chosen.alpha},
    }


@dataclass
class _Watch:
    """Callback after every epoch; returns True once all gaps are reached."""

    made: Prepared
    H: NDArray
    target: NDArray
    initial: NDArray
    answers: NDArray
    gaps: list[float] = field(default_factory=list)
    away: list[float] = field(default_factory=list)
    seconds: float = 0.0

    def __call__(self, state: Any) -> bool:
        self.seconds = float(state.clock.seconds)
        system, whole = state.system, _gap(self.H, self.initial - self.target)
        self.gaps.append(_gap(self.H, system.x - self.target) / whole)
        found = self.made.responses(system.theta(system.x))
        self.away.append(float(linalg.norm(found - self.answers) / linalg.norm(self.answers)))
        return self.gaps[-1] <= min(GAPS) and (self.away[-1] <= CLOSE or self.gaps[-1] <= _LEAST)

    def reached(self) -> dict[str, Any]:
        """Epochs to every gap and to answers close to the direct solution's, and the last ones."""
        measured = [_first(self.gaps, gap) for gap in GAPS]
        return {"measured": measured, "close": _first(self.away, CLOSE), "away": self.away[-1]}


def _gap(H: NDArray, away: NDArray) -> float:
    """f - f* of the quadratic, summed over the outputs."""
    return float(0.5 * np.sum(away * (H @ away)))


def _first(values: list[float], goal: float) -> int | None:
    """The number of epochs after which a value is at most the goal."""
    return next((i + 1 for i, value in enumerate(values) if value <= goal), None)
