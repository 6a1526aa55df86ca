"""Choosing kernel, γ and α on a validation part of the training data, alike for every method."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from mercer import kernels
from mercer.compare.methods import Method
from mercer.compare.metrics import scores
from mercer.datasets.base import Dataset
from mercer.estimators.plan import FitPlan, fit_planned
from mercer.estimators.preprocessing import Preprocessing, fit_scaler

__all__ = ["Choice", "Selection"]

_START = (0, -1)  # exponents: γ = 2^0 times the kernel's own "scale", α = 10^-1 / n
_REACH = 2  # steps to either side on the first lines
_ROUNDS = 7  # further lines at most
_NEAR = 1.01  # a smaller α has to lower the error by more than this factor

_Found = dict[tuple[int, int], float]  # validation errors by the exponents of γ and α


@dataclass(frozen=True)
class Choice:
    """The settings chosen for a method and their error on the validation part."""

    kernel: str | None
    gamma: float | None  # for scaled inputs
    gamma_multiple: float | None  # the same as a multiple of the kernel's "scale"
    alpha_multiple: float  # α as a multiple of 1/n
    error: float  # share of wrong classes, or relative RMSE
    n_fitted: int  # rows fitted for each setting
    n_tried: int  # settings
    seconds: float  # of the whole choice


class Selection:
    """One fixed validation part, a share of the training rows X and y, and rows to fit meanwhile.

    At most ``max_rows`` rows are fitted, and at most so many validated on: the last ones if the
    data are a series, else random ones. The estimators scale X if ``scale``.

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
        is_series: bool = False,
        scale: bool = True,
        n_jobs: int | None = None,
    ):
        # Rows come in random order, every class with its share: the first are a fair sample.
        parts = Dataset("training part", task, X, y, is_series=is_series).split(share, seed)
        self.task = task
        self.seed = seed
        self.is_scaled = scale
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
        """The choice as a record holds it."""
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
        return 9 * len(method.kernels) + 4 if method.kernels else 7

    def choose(self, method: Method, on_step: Callable[[], None] = lambda: None) -> Choice:
        """The best kernel, γ and α for a method at its reference size.

        The grid is the same for every method: γ in powers of two times the kernel's own "scale",
        α in powers of ten over n. It is searched line by line: along γ, then along α, for every
        kernel, and for the better kernel on from there until neither moves. Of errors within one
        per cent of the least the largest α wins. ``on_step`` is called after each setting.
        """
        start = time.perf_counter()
        tried: dict[str | None, _Found] = {kernel: {} for kernel in method.kernels or (None,)}
        for kernel, errors in tried.items():
            self._look_around(method, kernel, errors, _START, _REACH, on_step)
        kernel = min(tried, key=lambda name: tried[name][_best(tried[name])])
        errors = tried[kernel]
        for _ in range(_ROUNDS):
            at = _best(errors)
            self._look_around(method, kernel, errors, at, 1, on_step)
            if _best(errors) == at:
                break
        i, j = _best(errors)
        scale = self.scale(kernel)
        return Choice(
            kernel=kernel,
            gamma=None if scale is None else scale * 2.0**i,
            gamma_multiple=None if scale is None else 2.0**i,
            alpha_multiple=10.0**j,
            error=errors[i, j],
            n_fitted=self._n_fitted(method),
            n_tried=sum(map(len, tried.values())),
            seconds=time.perf_counter() - start,
        )

    def scale(self, kernel: str | None) -> float | None:
        """γ = "scale" of a kernel on the training part as the estimators see it."""
        if kernel is None:
            return None
        if kernel not in self._scales:
            rows = self._training
            if self.is_scaled:
                rows = Preprocessing(fit_scaler(rows, None, scale=True)).scaled(rows)
            resolved = kernels.get(kernel, "scale").resolve(rows)
            self._scales[kernel] = float(resolved.gamma)
        return self._scales[kernel]

    def _look_around(
        self,
        method: Method,
        kernel: str | None,
        errors: _Found,
        at: tuple[int, int],
        reach: int,
        on_step: Callable[[], None],
    ) -> None:
        """Add to ``errors`` the errors on a line along γ, then on one along α through the best."""

        def look(i: int, alphas: Iterable[int]) -> None:
            todo = [j for j in alphas if (i, j) not in errors]
            for j, error in zip(todo, self._path(method, kernel, i, todo), strict=True):
                errors[i, j] = error
                on_step()

        i, j = at
        if kernel is not None:
            for other in range(i - reach, i + reach + 1):
                look(other, [j])
            i, j = _best(errors)
        look(i, range(j - reach, j + reach + 1))

    def _path(
        self, method: Method, kernel: str | None, i: int, alphas: list[int]
    ) -> Iterator[float]:
        """Validation errors of one γ over several α; the map is made once."""
        scale = self.scale(kernel)
        n = self._n_fitted(method)
        size = None if method.reference is None else min(method.reference, n)
        model = method.estimator(
            self.task,
            size=size,
            kernel=kernel,
            gamma=None if scale is None else scale * 2.0**i,
            alpha=1.0,
            seed=self.seed,
            n_jobs=self.n_jobs,
            warm_start=True,
            scale=self.is_scaled,
        )
        values = [10.0**j / n for j in alphas]
        X_fit, y_fit = (part[:n] for part in self._fit)
        X, y = self._held
        if hasattr(model, "predict_along"):  # rivals that have other things to keep than a map
            predictions = model.predict_along(values, X_fit, y_fit, X)
        else:
            trials = (model.set_params(alpha=alpha) for alpha in values)
            predictions = (_predicted(trial, X_fit, y_fit, X) for trial in trials)
        for predicted in predictions:
            score = scores(self.task, y, predicted)
            yield 1 - score["accuracy"] if "accuracy" in score else score["relative_rmse"]

    def _n_fitted(self, method: Method) -> int:
        """Rows fitted to choose the settings of a method."""
        return min(self.n_fitted, method.choice_rows or self.n_fitted)


def _predicted(model: Any, X: Any, y: NDArray, new: Any) -> NDArray:
    """Predictions of a fit without probabilities, which would take as long again."""
    fitted = fit_planned(model, X, y, None, FitPlan(calibrates=False))
    predicted: NDArray = fitted.predict(new)
    return predicted


def _best(errors: _Found) -> tuple[int, int]:
    """Exponents of the largest α whose error is hardly above the least, then of the least error."""
    enough = _NEAR * min(errors.values())
    near = (at for at in errors if errors[at] <= enough)
    return max(near, key=lambda at: (at[1], -errors[at], -at[0]))
