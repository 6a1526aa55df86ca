"""Ridge regression on bin codes: our conjugate gradients by rows and by columns against SciPy's.

All stop at the same relative residual of the same equations, ((1/n) Z'Z + alpha I) w = (1/n) Z'y;
the residual of what they return is computed afresh and printed beside the times.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.linear_model import Ridge

from _shapes import SHAPES, as_csr, binned
from _side_by_side import Benchmark, table
from mercer.designs import Binned
from mercer.losses import Squared
from mercer.penalties import L2
from mercer.problem import Problem
from mercer.solvers import ConjugateGradient

TOL = 1e-4
N_GRIDS = 128
SOLVERS = {
    "mercer rows": {"space": "rows"},
    "mercer columns, Jacobi": {"space": "columns", "preconditioner": "jacobi"},
    "mercer columns, tempered": {"space": "columns", "preconditioner": "tempered"},
    "mercer auto": {},
}


def target(n: int, k: int) -> NDArray:
    """Noise, centred: the hardest there is to fit."""
    rng = np.random.default_rng(2)
    y = rng.normal(size=(n, k))
    y -= y.mean(0)
    return y[:, 0] if k == 1 else y


def ours(design: Binned, y: NDArray, alpha: float, settings: dict) -> NDArray:
    problem = Problem(design, y, Squared(), L2(alpha), fit_intercept=False)
    return ConjugateGradient(tol=TOL, max_iter=5000, **settings).solve(problem).coef


def scipy_cg(Z: sparse.csr_array, y: NDArray, alpha: float) -> NDArray:
    n, n_columns = Z.shape
    transposed = Z.T
    normal = sparse.linalg.LinearOperator(
        (n_columns, n_columns),
        matvec=lambda w: transposed @ (Z @ w) / n + alpha * w,
        dtype=Z.dtype,
    )
    right = transposed @ y / n
    if y.ndim == 1:
        return sparse.linalg.cg(normal, right, rtol=TOL, atol=0, maxiter=5000)[0]
    columns = [sparse.linalg.cg(normal, b, rtol=TOL, atol=0, maxiter=5000)[0] for b in right.T]
    return np.stack(columns, axis=1)


def sklearn_cg(Z: sparse.csr_array, y: NDArray, alpha: float) -> NDArray:
    model = Ridge(alpha=alpha * len(y), solver="sparse_cg", tol=TOL, fit_intercept=False)
    return model.fit(Z, y).coef_.T


def residual(Z: sparse.csr_array, y: NDArray, alpha: float, w: NDArray) -> float:
    """The largest relative residual of the outputs, in float64."""
    Z64, w = Z.astype(np.float64), w.astype(np.float64)
    right = Z64.T @ y / len(y)
    left = Z64.T @ (Z64 @ w) / len(y) + alpha * w
    return float(np.max(np.linalg.norm(right - left, axis=0) / np.linalg.norm(right, axis=0)))


def contenders(
    Z: sparse.csr_array, design: Binned, y: NDArray, alpha: float
) -> dict[str, Callable[[], NDArray]]:
    every = {name: partial(ours, design, y, alpha, kind) for name, kind in SOLVERS.items()}
    return every | {
        "SciPy cg": partial(scipy_cg, Z, y, alpha),
        "sklearn sparse_cg": partial(sklearn_cg, Z, y, alpha),
    }


def bench_ridge(benchmark: Benchmark) -> None:
    residuals = []
    for shape in SHAPES[-2:] if benchmark.quick else SHAPES:
        cases = {}
        for rows in (300,) if benchmark.quick else (1_000, 4_000):
            codes, offsets = binned(shape, rows, N_GRIDS)
            Z = as_csr(codes, offsets, N_GRIDS**-0.5, np.float64)
            design = Binned(codes, offsets, N_GRIDS**-0.5, validate=False)
            for k in (1, 5):
                name = f"{shape.name}-shaped, n = {rows}, D / n = {Z.shape[1] / rows:.1f}, k = {k}"
                y, alpha = target(rows, k), 0.1 / rows
                cases[name] = contenders(Z, design, y, alpha)
                reached = {who: residual(Z, y, alpha, run()) for who, run in cases[name].items()}
                residuals.append(
                    {"relative residual": name} | {who: f"{r:.0e}" for who, r in reached.items()}
                )
        benchmark.compare("ridge", cases)
    benchmark.write("\n" + table(residuals))


if __name__ == "__main__":
    run = Benchmark(f"Ridge on {N_GRIDS} grids of bin codes, float64, relative residual {TOL:g}.")
    bench_ridge(run)
    run.finish()
