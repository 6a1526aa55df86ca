"""The methods that a comparison sets against each other, on equal terms."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mercer.estimators import KernelClassifier, KernelRegressor
from mercer.experiments.baselines import ExactKernelRidge, IndependentBlocks

__all__ = [
    "BLOCKS",
    "EXACT_ROWS",
    "METHODS",
    "TOLERANCE",
    "Method",
    "make",
]

TOLERANCE = 1e-2  # of iterative solvers: beyond it scores no longer change, only times
EXACT_ROWS = 16_000  # rows up to which the exact solution, cubic in n, is worth its minutes


@dataclass(frozen=True)
class Method:
    """One way to fit a kernel machine.

    Parameters
    ----------
    name : str
        Short name, as in ``--methods`` and in the records.
    label : str
        Name in tables and figures.
    kernels : tuple of str
        Kernels to choose between; empty where there is none.
    sizes : tuple of int
        Numbers of components to fit; empty where there is no such number.
    reference : int or None
        Number of components at which γ, α and the kernel are chosen.
    """

    name: str
    label: str
    kernels: tuple[str, ...] = ()
    sizes: tuple[int, ...] = ()
    reference: int | None = None

    def cost(self, size: int | None, n: int, d: int, k: int) -> float:
        """Roughly the seconds of a fit, for the progress bar alone."""
        columns = size or d
        if self.name == "exact":
            return 0.02 + 4e-12 * n**3 + 5e-10 * n**2 * (d + 4)
        if self.name == "binning":
            return 0.02 + 2e-8 * n * columns * (2 + k)
        if self.name == "blocks":
            return 0.02 + n * columns * (1e-9 * (d + 4) + 2.5e-11 * columns)
        solving = 1e-11 * columns**2 * (n + columns)
        if self.name == "nystroem":
            return 0.02 + solving + 5e-10 * columns**3 + 6e-10 * n * columns * (d + 4)
        return 0.02 + solving + 1e-9 * n * columns + 3e-11 * n * columns * d


METHODS = {
    method.name: method
    for method in (
        Method("linear", "linear"),
        Method("binning", "random binning", ("laplacian",), (16, 64, 256, 1024), 256),
        Method("fourier", "random Fourier", ("gaussian", "laplacian"), (64, 256, 1024, 2048), 512),
        Method("nystroem", "Nyström", ("gaussian", "laplacian"), (64, 256, 1024, 2048), 512),
        Method("exact", "exact", ("gaussian", "laplacian")),
    )
}

BLOCKS = Method("blocks", "independent blocks", ("laplacian",), (16, 64, 256, 1024), 256)
"""A rival of papers, not of users: it is no part of a comparison unless a study asks for it."""


def make(
    method: Method,
    task: str,
    *,
    size: int | None,
    kernel: str | None,
    gamma: float | None,
    alpha: float,
    seed: int,
    n_jobs: int | None,
    warm_start: bool = False,
) -> Any:
    """An unfitted estimator of a method: squared loss, inputs scaled, intercept, whatever it is.

    Parameters
    ----------
    method : Method
    task : {"classification", "regression"}
    size, kernel, gamma : int, str, float or None
        None where the method has no such setting.
    alpha : float
        Weight of the penalty in the objective (a mean over rows).
    seed : int
    n_jobs : int or None
    warm_start : bool, default=False
        Keep the map while only ``alpha`` changes.

    Examples
    --------
    >>> make(METHODS["linear"], "regression", size=None, kernel=None, gamma=None, alpha=1.0,
    ...      seed=0, n_jobs=1).alpha
    1.0
    """
    if method.name == "exact":
        return ExactKernelRidge(
            kernel, gamma, alpha, classify=task == "classification", n_jobs=n_jobs
        )
    if method.name == "blocks":
        return IndependentBlocks(
            kernel,
            gamma,
            alpha,
            block_size=size or 256,
            classify=task == "classification",
            random_state=seed,
            n_jobs=n_jobs,
        )
    estimator = KernelClassifier if task == "classification" else KernelRegressor
    settings: dict[str, Any] = {}
    if method.kernels:
        settings = {"kernel": kernel, "gamma": gamma, "n_components": size}
    return estimator(
        method.name,
        loss="squared",
        alpha=alpha,
        tol=TOLERANCE,
        random_state=seed,
        n_jobs=n_jobs,
        warm_start=warm_start,
        **settings,
    )
