"""What others do with kernel machines, written for PyTorch on the CPU: the published algorithms.

Both work on the same equations as we do, (K + n alpha I) a = y or its restriction to landmarks, in
float32, on as many threads as PyTorch takes, and make or keep kernel blocks as they would.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

_CHUNK = 2**28  # bytes of a kernel block that is made on the way


@dataclass
class Fit:
    """Weights and how they came about."""

    coef: NDArray
    seconds: float
    passes: float  # looks at the whole kernel matrix


def gaussian(X: torch.Tensor, Y: torch.Tensor, gamma: float) -> torch.Tensor:
    """exp(-gamma ‖x − y‖²) by one product."""
    squares = (X * X).sum(1)[:, None] + (Y * Y).sum(1)
    squares.addmm_(X, Y.T, beta=1.0, alpha=-2.0)
    return squares.clamp_(min=0).mul_(-gamma).exp_()


def eigenpro(
    X: NDArray,
    y: NDArray,
    gamma: float,
    alpha: float,
    tol: float,
    cap: float,
    n_sample: int = 2000,
    n_directions: int = 200,
    seed: int = 0,
) -> Fit:
    """EigenPro 2 (Ma and Belkin 2019): stochastic steps, the steepest directions damped.

    The leading eigenvectors of the kernel matrix of a sample say how to damp; batch and step size
    follow from what is left. With the ridge in the residual it ends at the ridge solution.
    """
    torch.manual_seed(seed)
    begun = time.perf_counter()
    rows, targets = torch.from_numpy(X), torch.from_numpy(y.astype(np.float32))
    n, sample = len(rows), torch.randperm(len(rows))[: min(n_sample, len(rows))]
    values, vectors = torch.linalg.eigh(gaussian(rows[sample], rows[sample], gamma).double())
    q = min(n_directions, len(sample) // 4)
    values, vectors = values.flip(0)[: q + 1], vectors.flip(1)[:, :q]
    tail, leading = values[q], values[:q]
    damping = ((1 - tail / leading) / leading)[:, None].float()
    vectors = vectors.float()
    # The largest kernel value and the largest eigenvalue of what the damping leaves.
    left = 1.0 - ((vectors**2) @ (damping * leading[:, None].float() ** 2)).min().item()
    largest = max(left, 1e-2) + n * alpha
    top = (tail / len(sample)).item() + alpha
    batch = int(min(n, max(256, largest / top), _CHUNK // (4 * n)))
    weights = torch.zeros_like(targets)
    norm, passes = float(torch.linalg.norm(targets)), 0.0
    while time.perf_counter() - begun < cap:
        square = 0.0
        for chosen in torch.randperm(n).split(batch):
            kernel = gaussian(rows[chosen], rows, gamma)
            residual = kernel @ weights + n * alpha * weights[chosen] - targets[chosen]
            square += float((residual**2).sum())
            scale = 1 / (largest + (len(chosen) - 1) * top)
            weights[chosen] -= scale * residual
            seen = vectors.T @ (kernel[:, sample].T @ residual)
            weights[sample] += scale * (vectors @ (damping * seen))
            if time.perf_counter() - begun > cap:
                break
        passes += 1
        if square**0.5 <= tol * norm:
            break
    return Fit(weights.numpy(), time.perf_counter() - begun, passes)


def _falkon_factors(inner: torch.Tensor, alpha: float) -> tuple[torch.Tensor, torch.Tensor]:
    """T and A, upper triangular: TᵀT = K(L, L) and AᵀA = T Tᵀ / p + alpha I."""
    p = len(inner)
    T = _upper_factor(inner, 1e-7 * p**0.5)
    A = torch.linalg.cholesky(T @ T.T / p + alpha * torch.eye(p, dtype=T.dtype), upper=True)
    return T.float(), A.float()


def _solve(upper: torch.Tensor, v: torch.Tensor, transposed: bool = False) -> torch.Tensor:
    return torch.linalg.solve_triangular(upper.T if transposed else upper, v, upper=not transposed)


def _upper_factor(matrix: torch.Tensor, jitter: float) -> torch.Tensor:
    """Of a matrix that rounding to float32 may have made indefinite, with as much more as helps."""
    own = matrix.diagonal().clone()
    while True:
        matrix.diagonal().copy_(own + jitter)
        factor, failed = torch.linalg.cholesky_ex(matrix, upper=True)
        if not failed:
            return factor
        jitter *= 4


def falkon(
    X: NDArray,
    y: NDArray,
    landmarks: NDArray,
    gamma: float,
    alpha: float,
    tol: float,
    cap: float,
    max_iter: int = 500,
    hold: float = 4e9,
) -> Fit:
    """Falkon (Rudi, Carratino and Rosasco 2017): conjugate gradients on whitened equations.

    K(X, L) is kept if it takes no more than ``hold`` bytes, and otherwise made for every iteration.
    """
    begun = time.perf_counter()
    rows, centres = torch.from_numpy(X), torch.from_numpy(landmarks)
    targets = torch.from_numpy(y.astype(np.float32))
    n, p = len(rows), len(centres)
    inner = gaussian(centres, centres, gamma).double()
    T, A = _falkon_factors(inner, alpha)
    chunk = max(1, _CHUNK // (4 * p))
    kept = gaussian(rows, centres, gamma) if 4.0 * n * p <= hold else None

    def blocks():
        for start in range(0, n, chunk):
            some = slice(start, min(n, start + chunk))
            block = gaussian(rows[some], centres, gamma) if kept is None else kept[some]
            yield some, block

    def whitened(v):
        """A⁻ᵀ T⁻ᵀ v."""
        return _solve(A, _solve(T, v, True), True)

    def product(v):
        inside = _solve(A, v)
        weights = _solve(T, inside)
        total = torch.zeros_like(weights)
        for _, block in blocks():
            total += block.T @ (block @ weights)
        return _solve(A, _solve(T, total, True) / n + alpha * inside, True)

    right = torch.zeros(p, targets.shape[1])
    for some, block in blocks():
        right += block.T @ targets[some]
    residual = whitened(right / n)
    x, direction = torch.zeros_like(residual), residual.clone()
    slope = (residual**2).sum(0)
    goal, passes = tol**2 * slope, 1.0
    while passes < max_iter and time.perf_counter() - begun < cap:
        q = product(direction)
        length = slope / (direction * q).sum(0)
        x += length * direction
        residual -= length * q
        passes += 1
        after = (residual**2).sum(0)
        if bool((after <= goal).all()):
            break
        direction = residual + after / slope * direction
        slope = after
    return Fit(_solve(T, _solve(A, x)).numpy(), time.perf_counter() - begun, passes)
