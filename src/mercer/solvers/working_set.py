"""A working set that draws features, solves, drops those without weight, and draws again."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from mercer._runtime.rows import Data
from mercer._runtime.validation import float_type, number_at_least_0, positive_integer
from mercer.designs import Dense, Design, select, side_by_side
from mercer.maps import FeatureMap
from mercer.maps.members import FeatureSequence, feature_sequence
from mercer.problem import Point, Problem, dual_gap
from mercer.solvers.base import Clock, Loop, Result, Solver, TraceRow, warn_unconverged
from mercer.solvers.coordinate import CoordinateDescent

__all__ = ["Round", "Selection", "Source", "Stream", "WorkingSet", "polished"]

_SWEEPS, _EXACT = 3, 1e-9  # sweeps that polish, and the gap at which they would end sooner


class Source(Protocol):
    """A source of new features: it has the rows of the data and the dtype of the features."""

    n_rows: int
    dtype: np.dtype

    def draw(self, first: int, count: int, slopes: NDArray) -> tuple[FeatureSequence, Design]:
        """New features and their columns, once ``first`` were drawn, to fit ``slopes``.

        A column z lowers the objective if |z . slopes|, of the mean loss, exceeds the l1 strength.
        """


class Stream:
    """Endless sequence of random functions that continues the columns of a fitted map.

    Parameters
    ----------
    feature_map : FeatureMap
        Fitted map with ``scale=False``.
    X : array or CSR of shape (n, d)
        Training rows.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.maps import RandomFourier
    >>> from mercer.solvers import Stream
    >>> X = np.eye(3)
    >>> fourier = RandomFourier(n_components=4, scale=False, random_state=0).fit(X)
    >>> Stream(fourier, X).draw(first=10**6, count=2)[1].shape
    (3, 2)
    """

    def __init__(self, feature_map: FeatureMap, X: Data):
        self.feature_map = feature_map
        self.X, self.n_rows, self.dtype = X, X.shape[0], float_type(X)

    def draw(
        self, first: int, count: int, slopes: NDArray | None = None
    ) -> tuple[FeatureSequence, Design]:
        """``feature_map.stream(X, first, count)``."""
        return feature_sequence(self.feature_map).stream(self.X, first, count)


@dataclass(frozen=True)
class Round(TraceRow):
    """A line of the history: after one draw, one solution and the dropping of zeros."""

    n_drawn: int  # features drawn so far; grids, where whole grids are drawn
    n_active: int  # columns with a weight
    dual_gap: float | None  # of the problem on all columns of the round, before zeros are dropped


@dataclass
class Selection:
    """Features with weights, and the state of their search.

    Attributes
    ----------
    feature_map : FeatureMap or None
        Map of the features with weights; None if there is none yet.
    design : Design
        Columns of these features.
    coef : ndarray
        Solution θ: one row per column and, with an intercept, a last row for it.
    n_drawn : int
        Number of features (or grids) drawn so far.
    rounds : list of Round
        State after each round.
    n_iter : int
        Number of iterations of the inner solver, summed over the rounds.
    optimality : float
        Value of the stopping criterion of the inner solver after the last round.
    converged : bool
        Whether the inner solver reached its tolerance in the last round.
    interrupted : bool
        Whether an interrupt of the user ended the search.
    """

    feature_map: FeatureSequence | None
    design: Design
    coef: NDArray
    n_drawn: int
    rounds: list[Round]
    n_iter: int = 0
    optimality: float = np.inf
    converged: bool = True
    interrupted: bool = False

    @property
    def dual_gap(self) -> float | None:
        """Upper bound of the distance to the minimum over the columns of the last round."""
        return self.rounds[-1].dual_gap if self.rounds else None

    @property
    def n_active(self) -> int:
        """Number of columns."""
        return self.design.shape[1]


@dataclass
class WorkingSet:
    """Rounds that draw features, solve on new and kept features, and drop features of weight zero.

    The objective never rises from round to round. A dropped feature satisfies the optimality
    condition of a zero weight at that time. With one round the solver solves the problem on
    ``n_new`` features. With whole grids as draws it is the fully corrective randomised block
    coordinate descent of Wu, Yen, Chen and Yan (2016).

    Parameters
    ----------
    inner : Solver
        Solver of the problem of each round, warm-started.
    n_new : int, default=256
        Number of features drawn per round (grids, for maps that draw whole grids).
    max_rounds : int, default=20
        Largest number of rounds.
    tol : float, default=1e-3
        A round is idle if it lowers the objective by less than this share.
    patience : int, default=2
        Number of consecutive idle rounds that end the search.

    References
    ----------
    Yen, Lin, Lin, Ravikumar and Dhillon, Sparse random features algorithm as coordinate descent in
    Hilbert space, NIPS 2014. Wu, Yen, Chen and Yan, Revisiting random binning features, KDD 2016.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import losses, maps, penalties, problem, solvers
    >>> X = np.linspace(-3, 3, 200)[:, None]
    >>> given = {"y": np.sin(X[:, 0]), "loss": losses.Squared(), "penalty": penalties.L1(0.01)}
    >>> fourier = maps.RandomFourier(n_components=1, scale=False, random_state=0).fit(X)
    >>> search = solvers.WorkingSet(solvers.CoordinateDescent(tol=1e-6), n_new=50, max_rounds=4)
    >>> stream = solvers.Stream(fourier, X)
    >>> selection = search.solve(stream, lambda Z: problem.Problem(Z, **given))
    >>> selection.n_active < 20 < selection.n_drawn
    True
    """

    inner: Solver
    n_new: int = 256
    max_rounds: int = 20
    tol: float = 1e-3
    patience: int = 2

    def __post_init__(self) -> None:
        if not isinstance(self.inner, Solver):
            raise TypeError(f"inner must be a solver; got {self.inner!r}.")
        number_at_least_0(self.tol, "tol")
        for name in ("n_new", "max_rounds", "patience"):
            setattr(self, name, positive_integer(getattr(self, name), name))

    def solve(
        self,
        source: Source,
        problem_of: Callable[[Design], Problem],
        start: Selection | None = None,
        callback: Callable[[Selection], bool | None] | None = None,
    ) -> Selection:
        """Search ``source`` for the features of a sparse model.

        Parameters
        ----------
        source : Source
            Source of new features: a :class:`Stream`, or one that searches features.
        problem_of : callable
            Function from a design to the problem with that design; targets, loss and penalty stay
            the same.
        start : Selection, optional
            Result of an earlier search on the same rows, which this search continues: new features
            come after ``start.n_drawn``, and no feature with a weight is drawn twice.
        callback : callable, optional
            Function called with the selection after each round; the search ends if it returns True.
            Its time does not count.

        Warns
        -----
        ConvergenceWarning
            If the inner solver stops short of its tolerance in the last round.
        """
        clock, idle = Clock(), 0
        if start is None:
            empty = Dense(np.empty((source.n_rows, 0), dtype=source.dtype))
            selection = Selection(None, empty, problem_of(empty).initial(), 0, [])
        else:
            selection = replace(start, rounds=[])
        point = problem_of(selection.design).at(selection.coef)
        for _ in range(self.max_rounds):
            before = point.value
            with Loop(clock, callback) as loop:
                point, selection = self._round(source, problem_of, point, selection, clock)
                loop.shows(selection)
            selection.interrupted |= loop.interrupted
            idle = idle + 1 if before - point.value <= self.tol * before else 0
            if loop.stopped or selection.interrupted or idle == self.patience:
                break
        if not (selection.converged or selection.interrupted):
            warn_unconverged(
                f"{type(self.inner).__name__} stopped the last round with "
                f"{selection.optimality:.2g}, above tol={self.inner.tol:g}; raise its max_iter or "
                "tol, or raise alpha."
            )
        return selection

    def _round(
        self,
        source: Source,
        problem_of: Callable[[Design], Problem],
        point: Point,
        selection: Selection,
        clock: Clock,
    ) -> tuple[Point, Selection]:
        """The selection after one round, and the point of its weights."""
        with clock.phase("draw"):
            slopes = point.slopes
            feature_map, design = source.draw(selection.n_drawn, self.n_new, slopes)
            feature_map, design = _without_known(selection.feature_map, feature_map, design)
        n_drawn = selection.n_drawn + self.n_new
        steepest = np.max(np.abs(design.rmatvec(slopes)), initial=0.0)
        known = selection.n_active or point.problem.loss.convex
        if known and steepest <= point.problem.penalty.l1:  # no new feature would get a weight
            with clock.pause():
                gap = dual_gap(point)
            selection = replace(selection, n_drawn=n_drawn)
        else:
            wide, result = self._solved(problem_of, point, selection, design, clock)
            with clock.pause():
                gap = dual_gap(wide)
            with clock.phase("drop"):
                selection = _kept(selection, feature_map, wide)
                point = problem_of(selection.design).at(selection.coef, wide.responses)
            selection.n_drawn, selection.n_iter = n_drawn, selection.n_iter + result.n_iter
            selection.optimality, selection.converged = result.optimality, result.converged
            selection.interrupted = result.interrupted
        with clock.pause():
            objective, n_nonzero = point.value, int(np.count_nonzero(selection.coef))
        row = (clock.seconds, objective, selection.optimality, n_nonzero, dict(clock.phases))
        selection.rounds = [*selection.rounds, Round(*row, n_drawn, selection.n_active, gap)]
        return point, selection

    def _solved(
        self,
        problem_of: Callable[[Design], Problem],
        point: Point,
        selection: Selection,
        design: Design,
        clock: Clock,
    ) -> tuple[Point, Result]:
        """The solution on old and new columns, or the start where that is better."""
        n_active = selection.n_active
        with clock.phase("draw"):
            wide = problem_of(side_by_side([selection.design, design] if n_active else [design]))
        theta = np.zeros(wide.shape, dtype=wide.dtype)
        theta[:n_active] = selection.coef[:n_active]
        if wide.fit_intercept:
            theta[-1] = selection.coef[-1]
        with clock.phase("solve"), warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            known = n_active or wide.loss.convex
            result = self.inner.solve(wide, theta if known else None)
        start, solution = wide.at(theta, point.responses), wide.at(result.coef)
        return (solution if solution.value <= start.value else start), result


def _without_known(
    known: FeatureSequence | None, feature_map: FeatureSequence, design: Design
) -> tuple[FeatureSequence, Design]:
    """New features without drawn ones that have weights."""
    if known is None or not known.n_features_out_:
        return feature_map, design
    old, new = (np.ascontiguousarray(part.addresses()) for part in (known, feature_map))
    row = np.dtype((np.void, new.dtype.itemsize * new.shape[1]))
    fresh = ~np.isin(new.view(row).ravel(), old.view(row).ravel())
    if fresh.all():
        return feature_map, design
    columns = np.flatnonzero(fresh)
    return feature_map.excerpt(columns), select(design, columns)


def _kept(selection: Selection, new: FeatureSequence, wide: Point) -> Selection:
    """The columns, old and new, that have a weight in any output."""
    problem, theta = wide.problem, wide.theta
    n_columns = problem.design.shape[1]
    used = np.flatnonzero(problem.weights_of(theta).reshape(n_columns, -1).any(axis=1))
    rows = np.append(used, n_columns) if problem.fit_intercept else used
    old = used[used < selection.n_active]
    feature_map = new.excerpt(used[len(old) :] - selection.n_active)
    if selection.feature_map is not None and len(old):
        feature_map = selection.feature_map.excerpt(old).followed_by(feature_map)
    design = select(problem.design, used)
    return replace(selection, feature_map=feature_map, design=design, coef=theta[rows])


def polished(
    selection: Selection, problem_of: Callable[[Design], Problem], n_jobs: int | None = None
) -> Selection:
    """The selection after at most three sweeps of proximal steps along all its columns.

    Steps by a few rows leave many tiny weights, which the sweeps set to zero. Features without a
    weight are dropped. The objective does not rise.

    Parameters
    ----------
    selection : Selection
        Result of a search.
    problem_of : callable
        Function from a design to the problem with that design, as of the search.
    n_jobs : int or None, default=None
        Number of threads.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import losses, maps, penalties, problem, solvers
    >>> X = np.linspace(-3, 3, 200)[:, None]
    >>> given = {"y": np.sin(X[:, 0]), "loss": losses.Squared(), "penalty": penalties.L1(0.01)}
    >>> map_ = maps.RandomFourier(n_components=1, scale=False, random_state=0).fit(X)
    >>> search = solvers.WorkingSet(solvers.AsyncSVRG.asydsskl(tol=0.1), n_new=50, max_rounds=1)
    >>> problem_of = lambda Z: problem.Problem(Z, **given)
    >>> found = search.solve(solvers.Stream(map_, X), problem_of)
    >>> solvers.polished(found, problem_of).n_active < found.n_active
    True
    """
    map_ = selection.feature_map
    if map_ is None or not selection.n_active:
        return selection
    problem = problem_of(selection.design)
    solver = CoordinateDescent(tol=_EXACT, max_iter=_SWEEPS, method="descent", n_jobs=n_jobs)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # it ends after so many sweeps
        result = solver.solve(problem, selection.coef)
    selection = replace(selection, interrupted=selection.interrupted or result.interrupted)
    return _kept(selection, map_.excerpt(np.empty(0, np.int64)), problem.at(result.coef))
