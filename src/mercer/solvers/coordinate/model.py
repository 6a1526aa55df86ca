"""Small quadratic models with an elastic net, solved far beyond what sweeps can reach."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from mercer import _core

__all__ = ["Model", "excess", "minimise"]

_SWEEPS = 10  # sweeps of plain coordinate descent before Newton steps
_ORTHANTS, _AGAIN = 12, 10  # most Newton steps within an orthant, and sweeps after each
_FIRST, _FASTER = 100.0, 5.0  # first proximal step, in units of 1 / curvature, and its growth
_OUTER, _INNER, _HALVINGS = 60, 30, 14  # most proximal points, Newton steps and halvings of each
_CLOSE = 1e-2  # residual of an inner problem relative to its step


@dataclass
class Model:
    """½ wᵀGw − cᵀw + l1 ‖w‖₁ + ½ l2 ‖w‖²."""

    gram: NDArray[np.float64]  # G, positive semidefinite
    linear: NDArray[np.float64]  # c
    l1: float
    l2: float
    reach: float  # a bound of ‖w‖₁ at the minimum, which turns violations into objective

    def excess(self, w: NDArray, gradient: NDArray) -> float:
        """A bound of how far w is above the minimum, given Gw − c."""
        return excess(w, gradient, self.l1, self.l2, self.reach)

    def value(self, w: NDArray, gradient: NDArray) -> float:
        """The model at w, given Gw − c."""
        smooth = 0.5 * float(w @ (gradient - self.linear + self.l2 * w))
        return smooth + self.l1 * float(np.sum(np.abs(w)))

    def prox(self, q: NDArray, sigma: float) -> NDArray:
        """argmin_x l1 ‖x‖₁ + ½ l2 ‖x‖² + ‖x − q‖² / (2 sigma)."""
        shrunk = np.sign(q) * np.maximum(np.abs(q) - sigma * self.l1, 0.0)
        return shrunk / (1.0 + sigma * self.l2)


def excess(w: NDArray, gradient: NDArray, l1: float, l2: float, reach: float) -> float:
    """Bound of model(w) minus its minimum, by the gradient of the smooth part.

    ``reach`` bounds ‖w‖₁ at the minimum.
    """
    full = gradient + l2 * w
    violation = max(float(np.max(np.abs(full), initial=0.0)) - l1, 0.0)
    return float(l1 * np.sum(np.abs(w)) + full @ w) + violation * reach


def minimise(model: Model, w: NDArray, goal: float) -> NDArray[np.float64]:
    """A w whose ``excess`` is at most ``goal``, or as small as rounding allows, starting at w.

    A few sweeps of coordinate descent; then Newton steps for the signs that the weights have, which
    end in one or two where these are right; then proximal points of growing steps, each found by a
    semismooth Newton method on its dual, whose system has as many rows as w has non-zeros.

    Li, Sun and Toh (2018), A highly efficient semismooth Newton augmented Lagrangian method for
    solving lasso problems.
    """
    w = w.copy()
    gradient = model.gram @ w - model.linear
    p = len(w)
    l1, l2 = np.full(p, model.l1), np.full(p, model.l2)
    gram = np.ascontiguousarray(model.gram)
    _core.descend_gram(gram, l1, l2, w, gradient, _SWEEPS, 0.0)
    if model.excess(w, gradient) <= goal:
        return w
    w, gradient = _within_orthants(model, gram, w, gradient, goal)
    best, best_excess = w, model.excess(w, gradient)
    if best_excess <= goal:
        return w
    scale = float(np.mean(np.diag(gram))) + model.l2
    if not scale > 0:
        return w
    sigma = _FIRST / scale
    dual, product = w.copy(), gradient + model.linear
    for _ in range(_OUTER):
        w, dual, product = _proximal_point(model, w, dual, product, sigma)
        gradient = gram @ w - model.linear
        excess = model.excess(w, gradient)
        if excess < best_excess:
            best, best_excess = w, excess
        if excess <= goal or sigma * scale > 1e13:
            break
        sigma *= _FASTER
    return best


def _within_orthants(
    model: Model, gram: NDArray, w: NDArray, gradient: NDArray, goal: float
) -> tuple[NDArray, NDArray]:
    """(w, Gw − c) after Newton steps over non-zero weights; signs that would change stop at 0."""
    l1, l2 = np.full(len(w), model.l1), np.full(len(w), model.l2)
    value = model.value(w, gradient)
    for _ in range(_ORTHANTS):
        full = gradient + model.l2 * w
        signs = np.where(w != 0, np.sign(w), -np.sign(full) * (np.abs(full) > model.l1))
        inside = np.flatnonzero(signs)
        system = gram[np.ix_(inside, inside)]
        system[np.diag_indices(len(inside))] += model.l2
        try:
            factor = cho_factor(system, lower=True, overwrite_a=True, check_finite=False)
        except LinAlgError:
            break
        step = np.zeros(len(w))
        rhs = full[inside] + model.l1 * signs[inside]
        step[inside] = cho_solve(factor, -rhs, check_finite=False)
        for _ in range(_HALVINGS):
            trial = np.where((w + step) * signs > 0, w + step, 0.0)
            slope = gram @ trial - model.linear
            if model.value(trial, slope) < value:
                break
            step *= 0.5
        else:
            break
        _core.descend_gram(gram, l1, l2, trial, slope, _AGAIN, 0.0)
        w, gradient, value = trial, slope, model.value(trial, slope)
        if model.excess(w, gradient) <= goal:
            break
    return w, gradient


def _proximal_point(
    model: Model, centre: NDArray, v: NDArray, product: NDArray, sigma: float
) -> tuple[NDArray, NDArray, NDArray]:
    """(w, v, Gv): w minimises the model + ‖w − centre‖² / (2 sigma), v the dual point it is from.

    With Ω the elastic net, the dual maximises
    φ(v) = −½ vᵀGv + min_w (wᵀ(Gv − c) + Ω(w) + ‖w − centre‖² / (2 sigma)),
    which is smooth: ∇φ = G (w(v) − v).
    """
    reduced = sigma / (1.0 + sigma * model.l2)

    def at(v: NDArray, product: NDArray) -> tuple[NDArray, float]:
        slope = product - model.linear
        w = model.prox(centre - sigma * slope, sigma)
        value = w @ slope + model.l1 * np.sum(np.abs(w)) + 0.5 * model.l2 * (w @ w)
        moved = w - centre
        return w, float(value + (moved @ moved) / (2 * sigma) - 0.5 * (v @ product))

    w, value = at(v, product)
    for _ in range(_INNER):
        residual = w - v
        if np.linalg.norm(residual) <= _CLOSE * np.linalg.norm(w - centre) + 1e-14:
            break
        step = _newton_step(model.gram, residual, w != 0, reduced)
        if step is None:
            break
        change = model.gram @ step
        rise = residual @ change
        t = 1.0
        for _ in range(_HALVINGS):
            trial = at(v + t * step, product + t * change)
            if trial[1] >= value + 1e-4 * t * rise:
                break
            t *= 0.5
        v, product = v + t * step, product + t * change
        w, value = trial
    return w, v, product


def _newton_step(
    gram: NDArray, residual: NDArray, active: NDArray, sigma: float
) -> NDArray[np.float64] | None:
    """Solution of (I + sigma D G) step = residual, D the diagonal of the active set."""
    inside = np.flatnonzero(active)
    step = np.where(active, 0.0, residual)
    rhs = residual[inside]
    if np.any(step):
        rhs = rhs - sigma * (gram @ step)[inside]
    system = gram[np.ix_(inside, inside)]
    system *= sigma
    system[np.diag_indices(len(inside))] += 1.0
    try:
        factor = cho_factor(system, lower=True, overwrite_a=True, check_finite=False)
    except LinAlgError:
        return None
    step[inside] = cho_solve(factor, rhs, check_finite=False)
    return step
