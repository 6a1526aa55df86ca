"""Sparse kernel regression and classification."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mercer.estimators._documentation import SHARED, documented, entries
from mercer.estimators.classification import Classification
from mercer.estimators.regression import Regression
from mercer.estimators.sparse import SparseMachine
from mercer.losses import Loss

__all__ = ["SparseKernelClassifier", "SparseKernelRegressor"]


_TEXTS = SHARED | entries(
    """
    feature_map : str or map, default="fourier"
        What features are drawn from: "fourier", "binning", "fastfood", "perceptron", "stump" or
        "tree", or such a map with settings of its own, reached as ``feature_map__form`` and so on.
        Its columns are used raw, as with ``scale=False``.
    penalty : "l1", "elastic-net" or a penalty, default="l1"
        A penalty object brings its own alpha.
    alpha : float, "cv" or None, default=None
        Strength of the penalty, >= 0. None means a hundredth of the least strength at which no
        weight is left among the first features drawn; "cv" tries thirteen strengths and takes the
        one with the least mean loss on held-out rows.
    l1_ratio : float or None, default=None
        Share r of ``||w||_1`` in ``alpha * (r * ||w||_1 + (1 - r) / 2 * ||w||^2)``, above 0 and at
        most 1; None means one half. For "elastic-net" alone.
    n_new : int or None, default=None
        Features drawn in a round, >= 1, or grids for binning. None means the ``n_components`` of
        the map, for a map object, else 256 features or 64 grids.
    max_rounds : int, default=20
        Most rounds, >= 1. The search ends before when two rounds in a row lower the objective by
        less than ``tol`` of it.
    solver : "auto", "cd", "async" or a solver, default="auto"
        Solves the problem of a round. "auto" is "cd", the faster one by far; ``solver_`` tells.
    tol : float, default=1e-3
        Duality gap, relative to the objective of a constant model, at which the solver stops.
    max_iter : int, default=1000
        Iterations of the solver in a round after which it stops with a ``ConvergenceWarning``.
    n_jobs : int or None, default=None
        Threads of the map and the solver; None and -1 mean all that may be used.
    warm_start : bool, default=False
        Whether the next fit keeps the scaler and the features found and goes on drawing where the
        last one stopped, provided the settings of the map are unchanged.
    feature_map_ : map
        Of the features with a weight, and nothing else: their places in the sequence and its key.
    coef_ : ndarray of shape (n_features_active_,) or (n_outputs, n_features_active_)
    n_features_active_ : int
        Features that have a weight in any output.
    n_drawn_ : int
        Features, or grids, that were drawn for it.
    dual_gap_ : float
        Upper bound of the objective's distance to its minimum over the features last held; None for
        a loss that is not convex.
    rounds_ : dict of arrays of shape (n_rounds,)
        "time" in seconds, "objective", "dual_gap" (NaN if the loss is not convex), "n_drawn" and
        "n_active" after every round.
    alpha_path_ : dict of arrays of shape (n_alphas,)
        Only with ``alpha="cv"``: "alpha", "score" (minus the mean loss on the held-out rows, the
        largest of which decided) and "n_features_active".
    solver_ : str
        Name of the solver.
    n_iter_ : int
        Iterations of the solver, over all rounds.
    converged_ : bool
        Whether the solver reached ``tol`` in the last round.
    optimality_ : float
        What the solver's stopping test saw last.
    """
)
_TEXTS["method"] = """\
Rounds of drawing features, solving ``min_w mean_i loss(y_i, w . z(x_i) + b) + alpha * ||w||_1`` on
them and those kept, and dropping the ones without a weight. The model is the key of the sequence
with places and weights of the features that are left: its file takes kilobytes and its predictions
microseconds, however many features were drawn."""
_TEXTS["paper"] = """\
Yen, Lin, Lin, Ravikumar and Dhillon, Sparse random features algorithm as coordinate descent in
Hilbert space, NIPS 2014."""


@documented(_TEXTS)
class SparseKernelRegressor(Regression, SparseMachine):
    """Kernel regression with few features, chosen from an endless sequence of random ones.

    {method}

    Parameters
    ----------
    {feature_map, kernel, gamma, loss, penalty, alpha, l1_ratio, n_new, max_rounds, solver}
    {fit_intercept, scale, tol, max_iter, n_jobs, random_state, warm_start}
    validation_fraction : float, default=0.2
        Share of the rows held out for ``alpha="cv"``, above 0 and below 1.

    Attributes
    ----------
    {feature_map_, scaler_, coef_, intercept_, alpha_, n_features_active_, n_drawn_, dual_gap_}
    {rounds_, alpha_path_, solver_, n_iter_, converged_, optimality_, n_features_in_}

    Raises
    ------
    {ValueError, MemoryError, KeyboardInterrupt}

    References
    ----------
    {paper}

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import SparseKernelRegressor
    >>> X = np.random.default_rng(0).uniform(-3, 3, size=(500, 2))
    >>> model = SparseKernelRegressor(random_state=0).fit(X, np.sin(X).sum(axis=1))
    >>> model.n_features_active_ < 100 < model.n_drawn_
    True
    >>> model.score(X, np.sin(X).sum(axis=1)) > 0.9
    True
    """


@documented(_TEXTS)
@dataclass(eq=False, repr=False, kw_only=True)
class SparseKernelClassifier(Classification, SparseMachine):
    """Kernel classification with few features, chosen from an endless sequence of random ones.

    {method}
    More than two classes are one response each, one against all others, with one set of features
    for all.

    Parameters
    ----------
    {feature_map, kernel, gamma}
    loss : str or a loss, default="squared_hinge"
        "squared_hinge", "smooth_hinge", "logistic" (which models probabilities), "squared", or
        "sigmoid", to which no row counts for more than 1 however wrong its label may be.
    {penalty, alpha, l1_ratio, n_new, max_rounds, solver, fit_intercept, scale, tol, max_iter}
    {n_jobs, random_state, warm_start}
    validation_fraction : float, default=0.2
        Share of the rows held out for ``alpha="cv"``, above 0 and below 1; every class has its
        share.
    {class_weight}

    Attributes
    ----------
    {classes_, feature_map_, scaler_, coef_, intercept_, alpha_, n_features_active_, n_drawn_}
    {dual_gap_, rounds_, alpha_path_, solver_, n_iter_, converged_, optimality_, n_features_in_}

    Raises
    ------
    {ValueError, MemoryError, KeyboardInterrupt}

    References
    ----------
    {paper}

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import SparseKernelClassifier
    >>> X = np.random.default_rng(0).normal(size=(500, 2))
    >>> y = np.where(np.hypot(*X.T) < 1, "inside", "outside")
    >>> model = SparseKernelClassifier(random_state=0).fit(X, y)
    >>> model.predict([[0.0, 0.0], [2.0, 2.0]]).tolist()
    ['inside', 'outside']
    """

    loss: str | Loss = "squared_hinge"
    class_weight: dict[Any, float] | str | None = None
