"""Choosing kernel, γ and α on a validation part of the training data, alike for every method."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from mercer import kernels
from mercer.datasets.base import Dataset
from mercer.experiments.methods import Method, make, standardised
from mercer.experiments.metrics import scores

__all__ = ["Choice", "Selection"]

_START = (0, -1)  # exponents: γ = 2^0 times the kernel's own "scale", α = 10^-1 / n
_REACH = 2  # steps to either side on the first lines
_ROUNDS = 8  # lines through γ and α at most


@dataclass(frozen=True)
class Choice:
    """What was chosen for a method, and how it did on the validation part.

    Parameters
    ----------
    kernel : str or None
    gamma : float or None
        The value for scaled inputs.
    gamma_multiple : float or None
        The same as a multiple of the kernel's "scale".
    alpha_multiple : float
        α as a multiple of 1/n.
    score : float
        On the validation part, larger is better.
    n_tried : int
        Number of settings tried.
    seconds : float
        Time of the whole choice.
    """

    kernel: str | None
    gamma: float | None
    gamma_multiple: float | None
    alpha_multiple: float
    score: float
    n_tried: int
    seconds: float


class Selection:
    """One fixed validation part and the rows to fit on while choosing.

    Parameters
    ----------
    X, y : arrays of n rows
        The training part; a test part never comes here.
    task : {"classification", "regression"}
    seed : int
        Decides the split.
    max_rows : int
        At most so many rows are fitted, and at most so many validated on.
    share : float, default=0.2
        Share of the rows that form the validation part.
    n_jobs : int or None, default=None

    Examples
    --------
    >>> import numpy as np
    >>> X = np.linspace(-1, 1, 200)[:, None]
    >>> selection = Selection(X, X[:, 0], "regression", seed=0, max_rows=100)
    >>> selection.n_fitted, selection.n_validated
    (100, 40)
    """

    def __init__(
        self,
        X: Any,
        y: NDArray,
        task: str,
        *,
        seed: int,
        max_rows: int,
        share: float = 0.2,
        n_jobs: int | None = None,
    ):
        # Rows come in random order, every class with its share: the first are a fair sample.
        parts = Dataset("training part", task, X, y).split(share, seed)
        self.task = task
        self.seed = seed
        self.n_jobs = n_jobs
        self._fit = parts.X_train[:max_rows], parts.y_train[:max_rows]
        self._held = parts.X_test[:max_rows], parts.y_test[:max_rows]
        self._training = X
        self._scales: dict[str, float] = {}

    @property
    def n_fitted(self) -> int:
        return len(self._fit[1])

    @property
    def n_validated(self) -> int:
        return len(self._held[1])

    def describe(self) -> dict[str, Any]:
        """What a record says about the choice."""
        return {
            "validation_rows": self.n_validated,
            "fitted_rows": self.n_fitted,
            "gamma_grid": "scale * 2^i",
            "alpha_grid": "10^j / n",
            "start": list(_START),
            "search": f"lines along i and j, {_REACH} steps to a side, later 1, till none moves",
        }

    @staticmethod
    def n_steps(method: Method) -> int:
        """About so many settings :meth:`choose` tries."""
        return 15 * len(method.kernels) if method.kernels else 6

    def choose(self, method: Method, on_step: Callable[[], None] = lambda: None) -> Choice:
        """The best kernel, γ and α for a method at its reference size.

        The grid is the same for every method: γ in powers of two times the kernel's own "scale",
        α in powers of ten over n. It is searched line by line: along γ, then along α, until
        neither moves. Of equal scores the smoother model wins: larger α, then smaller γ.

        Parameters
        ----------
        method : Method
        on_step : callable, optional
            Called after each setting that was tried.
        """
        start = time.perf_counter()
        searched = [(self._search(method, k, on_step), k) for k in method.kernels or (None,)]
        (score, (i, j), _), kernel = max(searched, key=lambda found: found[0][0])
        scale = self.scale(kernel)
        return Choice(
            kernel=kernel,
            gamma=None if scale is None else scale * 2.0**i,
            gamma_multiple=None if scale is None else 2.0**i,
            alpha_multiple=10.0**j,
            score=score,
            n_tried=sum(found[2] for found, _ in searched),
            seconds=time.perf_counter() - start,
        )

    def scale(self, kernel: str | None) -> float | None:
        """γ = "scale" of a kernel on the scaled training part."""
        if kernel is None:
            return None
        if kernel not in self._scales:
            resolved = kernels.get(kernel, "scale").resolve(standardised(self._training)[1])
            self._scales[kernel] = float(resolved.gamma)
        return self._scales[kernel]

    def _search(
        self, method: Method, kernel: str | None, on_step: Callable[[], None]
    ) -> tuple[float, tuple[int, int], int]:
        """Best score over γ and α, the exponents that give it, and how many were tried."""
        found: dict[tuple[int, int], float] = {}

        def look(i: int, exponents: range) -> None:
            todo = [j for j in exponents if (i, j) not in found]
            for j, score in zip(todo, self._path(method, kernel, i, todo), strict=True):
                found[i, j] = score
                on_step()

        best = _START
        for turn in range(_ROUNDS):
            i, j = best
            reach = _REACH if turn == 0 else 1
            if kernel is not None:
                for other in range(i - reach, i + reach + 1):
                    look(other, range(j, j + 1))
                i, j = _best(found)
            look(i, range(j - reach, j + reach + 1))
            before, best = best, _best(found)
            if turn > 0 and best == before:
                break
        return found[best], best, len(found)

    def _path(
        self, method: Method, kernel: str | None, i: int, alphas: list[int]
    ) -> Iterator[float]:
        """Validation scores of one γ over several α; the map is made once."""
        scale = self.scale(kernel)
        size = None if method.reference is None else min(method.reference, self.n_fitted)
        model = make(
            method,
            self.task,
            size=size,
            kernel=kernel,
            gamma=None if scale is None else scale * 2.0**i,
            alpha=1.0,
            seed=self.seed,
            n_jobs=self.n_jobs,
            warm_start=True,
        )
        for j in alphas:
            model.set_params(alpha=10.0**j / self.n_fitted).fit(*self._fit)
            score = scores(self.task, self._held[1], model.predict(self._held[0]))
            yield score["accuracy"] if self.task == "classification" else -score["relative_rmse"]


def _best(found: dict[tuple[int, int], float]) -> tuple[int, int]:
    """Exponents of the highest score; of equal ones the larger α, then the smaller γ."""
    return max(found, key=lambda at: (found[at], at[1], -at[0]))
