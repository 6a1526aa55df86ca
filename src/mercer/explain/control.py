"""Kernel machines with exact values that follow a function whose values have to be estimated."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mercer.equations.small_ridge import kernel_ridge
from mercer.kernels import Kernel, Laplacian
from mercer.maps.products import Groups, ProductForm, form_of_kernel

__all__ = ["Control", "control_of"]

_ROWS, _HELD = 1500, 300  # composed rows that a control is fitted to, and that judge it
_RIDGE = 0.1  # in units of k(x, x): smooths the steps that responses have between leaves
_SCALES = (0.3, 1.0, 3.0)  # of the kernel, in units of one over the median distance
_LEAST = 0.5  # R2 on the judging rows: differences then have at most half of the variance


@dataclass(frozen=True)
class Control:
    """Kernel machine ``k(rows, centres) @ coef + mean`` whose Shapley values are exact."""

    kernel: Kernel
    centres: NDArray
    coef: NDArray[np.float64]
    mean: NDArray[np.float64]

    def __call__(self, rows: NDArray) -> NDArray[np.float64]:
        """Responses (m, k) to rows."""
        found: NDArray[np.float64] = self.kernel(rows, self.centres) @ self.coef + self.mean
        return found

    def form(self, groups: Groups) -> ProductForm:
        """The responses less their mean as sums of products over groups of columns."""
        form = form_of_kernel(self.kernel, self.centres, self.coef, groups)
        if form is None:
            raise ValueError("kernel must be a product over inputs.")
        return form


def control_of(
    respond: Callable[[NDArray], NDArray],
    composed: Callable[[NDArray[np.int64]], NDArray],
    n: int,
    n_background: int,
    n_players: int,
    seed: int,
) -> Control | None:
    """A control of a function on rows whose players' values come from different rows.

    The difference of the function and its control has estimates with smaller errors, and the values
    of the control are added to them. ``respond`` maps m composed rows to responses (m,) or (m, k);
    ``composed`` makes the rows from numbers (m, J) of the rows that values come from: the n rows
    first, then the background. None if no machine explains half of the variance of the responses to
    other composed rows.
    """
    rng = np.random.default_rng(seed)
    count = _ROWS + _HELD
    own = rng.integers(n + n_background, size=(count, 1))
    known = rng.random((count, n_players)) < rng.random((count, 1))
    places = np.where(known, own, n + rng.integers(n_background, size=(count, n_players)))
    rows = composed(places)
    responses = np.asarray(respond(rows), dtype=np.float64).reshape(count, -1)
    fitted, held = rows[:_ROWS], rows[_ROWS:]
    mean = responses[:_ROWS].mean(axis=0)
    usual = Laplacian("median").resolve(fitted)
    best, best_left = None, (1 - _LEAST) * np.square(responses[_ROWS:] - mean).mean()
    for scale in _SCALES:
        kernel = usual.with_gamma(scale * float(np.mean(usual.gamma)))
        matrix = np.asarray(kernel(fitted), dtype=np.float64)
        coef = kernel_ridge(matrix, responses[:_ROWS] - mean, _RIDGE, overwrite=True)
        if coef is None:
            continue
        control = Control(kernel, fitted, coef, mean)
        left = np.square(responses[_ROWS:] - control(held)).mean()
        if left < best_left:
            best, best_left = control, left
    return best
