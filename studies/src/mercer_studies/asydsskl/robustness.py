"""Wrong labels and targets: losses that are not convex against those that are."""

from __future__ import annotations

import warnings
from dataclasses import replace
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from mercer.losses import Correntropy, Logistic, Loss, Sigmoid, Squared
from mercer.solvers import Selection
from mercer_studies.asydsskl.data import Loaded, Subset, error_of, score_of
from mercer_studies.asydsskl.machines import inner_solver, responses_of, selected

LOSSES: dict[str, tuple[str, Loss]] = {
    "logistic": ("logistic", Logistic()),
    "sigmoid": ("sigmoid", Sigmoid()),
    "squared": ("squared", Squared()),
    "correntropy": ("correntropy, σ = 1", Correntropy(1.0)),
    "correntropy-wide": ("correntropy, σ = 3", Correntropy(3.0)),
}
"""What the losses are called, and the losses; those of classes first."""

ALPHAS = (1e-2, 3e-3, 1e-3, 3e-4, 1e-4)
_FAR = (5.0, 15.0)  # how many deviations a wrong target is too high
_FITTED = 0.75


def losses_for(task: str) -> list[str]:
    """Names of the losses that are compared on a task.

    >>> losses_for("classification")
    ['logistic', 'sigmoid']
    """
    of_classes = task == "classification"
    return [name for name, (_, loss) in LOSSES.items() if loss.is_classification == of_classes]


def corrupted(task: str, y: NDArray, share: float, seed: int) -> NDArray:
    """Targets of which a share is wrong.

    Labels become the other one; numbers rise by 5 to 15, in units of their deviation. ``task``:
    "classification" or "regression"; ``y``: shape (n,), ±1, or of deviation 1.
    """
    rng = np.random.default_rng(seed)
    wrong = rng.permutation(len(y)) < round(share * len(y))
    bad = -y if task == "classification" else y + rng.uniform(*_FAR, len(y))
    return np.where(wrong, bad, y)


def robust(
    loaded: Loaded,
    *,
    loss: str,
    share: float,
    seed: int,
    rows: int | None,
    test_rows: int | None,
    fitted: int,
    size: int,
    solver: str,
) -> dict[str, Any]:
    """Test error of a sparse model of which a share of the training targets is wrong.

    It is fitted to three quarters of the training rows at several λ, and the other quarter says
    which, by the mean of the model's own loss: its targets are as wrong as the others. Test rows
    are all right. ``loss``: one of ``LOSSES``; ``seed``: of what is wrong, of the features and of
    the steps; ``fitted``: rows with which γ is chosen, of right targets; ``size``: random features;
    ``solver``: as for ``machines.inner_solver``.
    """
    some = loaded.subset(rows, test_rows)
    gamma = loaded.width(rows, fitted)[0]
    y = corrupted(loaded.task, some.y, share, seed)
    since = perf_counter()
    with warnings.catch_warnings():  # the steps' number is limited, whatever the loss
        warnings.simplefilter("ignore", ConvergenceWarning)
        alpha, found = _best(loaded, some, y, LOSSES[loss][1], gamma, size, solver, seed)
    seconds = perf_counter() - since
    error = error_of(loaded.task, some, responses_of(found, some.X_test))
    return {
        "data": loaded.describe(),
        "rows": len(y),
        "test_rows": len(some.y_test),
        "gamma": gamma,
        "alpha": alpha,
        "model_size": found.n_active,
        "score": {"test": score_of(loaded.task, some, error)},
        "seconds": {"fit": seconds},
    }


def _best(
    loaded: Loaded,
    some: Subset,
    y: NDArray,
    loss: Loss,
    gamma: float,
    size: int,
    solver: str,
    seed: int,
) -> tuple[float, Selection]:
    """The model that errs least on rows held out, along a path of λ."""
    cut = int(_FITTED * len(y))
    X, held, right = some.X[:cut], some.X[cut:], y[cut:].astype(some.X.dtype)
    inner = inner_solver(solver, loaded.n_jobs, seed)
    path: list[tuple[float, float, Selection]] = []
    start: Selection | None = None
    for alpha in ALPHAS:
        # The sigmoid loss begins at the logistic one's minimum: from zero it often ends at a
        # constant, where its derivatives vanish.
        for kind in (Logistic(), loss) if isinstance(loss, Sigmoid) else (loss,):
            found = selected(X, y[:cut], gamma, kind, alpha, inner, size, 1, seed, start)
            start = replace(found, n_drawn=0)  # the same features again
        value = float(np.mean(loss.value(responses_of(found, held).astype(right.dtype), right)))
        path.append((value, alpha, found))
    _, alpha, found = min(path, key=lambda entry: entry[0])
    return alpha, found
