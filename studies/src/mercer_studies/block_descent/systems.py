"""The three systems of the paper on one data set, and what answers for the test rows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer.designs import Dense, Design, KernelColumns, Lazy, Sparse
from mercer.losses import Squared
from mercer.maps import HashedNGrams, RandomFourier
from mercer.penalties import L2, RKHSNorm
from mercer.problem import Problem
from mercer.solvers import BlockCoordinateDescent
from mercer_studies.block_descent.data import ORDERS, STOP_WORDS, Chosen, Loaded, Subset


@dataclass(frozen=True)
class Prepared:
    """A system, and the same features of the test rows."""

    problem: Problem  # without an intercept, as in the paper
    test: Design  # held where it fits: judging is not timed, but waited for
    some: Subset
    chosen: Chosen

    def responses(self, coef: NDArray) -> NDArray:
        """Responses of the test rows under given weights."""
        return self.test.matvec(coef.astype(self.test.dtype))


def prepared(
    loaded: Loaded,
    *,
    method: str,
    rows: int | None,
    test_rows: int | None,
    fitted: int,
    size: int | None,
    jitter: float,
    seed: int,
    dtype: Any = np.float64,
    alpha: float | None = None,
) -> Prepared:
    """A system on some rows.

    ``size``: p; None for the full kernel; ``jitter``: γ of Nyström; ``seed``: of landmarks or
    random features; ``dtype``: of features. Nyström's equations are quadratic in the kernel: under
    a weak λ float32 is too coarse for them; ``alpha``: λ in place of the one that is chosen.
    """
    chosen = loaded.chosen(fitted)
    if alpha is not None:
        chosen = replace(chosen, alpha=alpha)
    some = loaded.subset(rows, test_rows)
    if method == "features":
        design, test = _features(loaded, some, chosen, int(size or 0), seed, dtype)
        penalty: Any = L2(chosen.alpha)
    else:
        design, test = _columns(loaded, some, chosen, size, seed, dtype)
        matrix = design.landmark_design()
        if method == "nystroem":
            matrix = matrix.held()  # before the clock runs: the paper reads it off the blocks
        penalty = RKHSNorm(chosen.alpha, matrix, jitter if method == "nystroem" else 0.0)
    problem = Problem(design, some.Y.astype(dtype), Squared(), penalty, fit_intercept=False)
    return Prepared(problem, test, some, chosen)


def _columns(
    loaded: Loaded, some: Subset, chosen: Chosen, size: int | None, seed: int, dtype: Any
) -> tuple[KernelColumns, Design]:
    """The kernel against all rows, or against some drawn without replacement."""
    n = some.X.shape[0]
    if size is None:
        landmarks, rows = None, some.X
    else:
        drawn = np.random.default_rng(seed).choice(n, min(size, n), replace=False)
        landmarks = rows = some.X[drawn]
    design = KernelColumns(some.X, chosen.kernel, landmarks, dtype, n_jobs=loaded.n_jobs)
    test = KernelColumns(some.X_test, chosen.kernel, rows, dtype, n_jobs=loaded.n_jobs)
    return design, test.held()


def _features(
    loaded: Loaded, some: Subset, chosen: Chosen, size: int, seed: int, dtype: Any
) -> tuple[Design, Design]:
    """Random cosines, made anew for every block; or hashed n-grams, which are few and are kept."""
    if loaded.source.is_text:
        hashed = HashedNGrams(size, ORDERS, stop_words=STOP_WORDS, random_state=seed)
        hashed.fit(some.texts)
        both = (hashed.transform(texts) for texts in (some.texts, some.texts_test))
        design, test = (Sparse(counts.astype(dtype), loaded.n_jobs) for counts in both)
        return design, test
    map_ = RandomFourier(chosen.kernel, n_components=size, random_state=seed, n_jobs=loaded.n_jobs)
    map_.fit(some.X.astype(dtype))
    lazy = Lazy(some.X.astype(dtype), map_, size, dtype, n_jobs=loaded.n_jobs)
    return lazy, Dense(map_.transform(some.X_test.astype(dtype)))


def solver_of(
    block_size: int,
    problem: Problem,
    epochs: int,
    seed: int,
    trace: str = "epoch",
    accelerated: bool = False,
) -> BlockCoordinateDescent:
    """Blocks of a fixed partition, shuffled in every epoch, to no tolerance.

    It is the paper's solver unless it is accelerated: blocks of the full kernel are made, used and
    discarded; those of fewer columns than rows are kept as far as memory goes.
    """
    design = problem.design
    discarded = isinstance(design, KernelColumns) and design.symmetric
    return BlockCoordinateDescent(
        tol=0.0,
        max_iter=epochs,
        block_size=min(block_size, design.shape[1]),
        accelerated=accelerated,
        hold=0 if discarded else "auto",
        trace=trace,
        random_state=seed,
    )
