"""Fully corrective boosting: features found where the loss falls most, then solved for."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning

from mercer._runtime.arrays import Matrix, check_memory
from mercer._runtime.validation import float_type, name_from, positive_integer, positive_number
from mercer.designs import Design, select
from mercer.maps import FeatureMap, Halfspaces
from mercer.maps.members import FeatureSequence, feature_sequence
from mercer.solvers import WorkingSet

if TYPE_CHECKING:
    from sklearn.linear_model import LogisticRegression
    from sklearn.svm import LinearSVC

__all__ = ["BestOfSome", "BestStump", "Boosting", "Perceptrons"]


@dataclass
class Boosting(WorkingSet):
    """Working set that grows by one feature per round: the best one that its source finds.

    It is a :class:`~mercer.solvers.WorkingSet` with a source that uses the derivatives of the loss:
    :class:`Perceptrons`, :class:`BestStump` or :class:`BestOfSome`. The search ends when the
    feature found would get weight zero: the model is then optimal among the features of the source.

    Parameters
    ----------
    inner : Solver
        Solver of the problem of each round, warm-started.
    n_new : int, default=1
        Number of new features per round and output.
    max_rounds : int, default=200
        Largest number of rounds.
    tol : float, default=0.0
        A round is idle if it lowers the objective by at most this share.
    patience : int, default=1
        Number of consecutive idle rounds that end the search.

    References
    ----------
    Yen, Lin, Lin, Ravikumar and Dhillon, Sparse random features algorithm as coordinate descent in
    Hilbert space, NIPS 2014, section 3.3.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import losses, penalties, problem, solvers
    >>> X = np.linspace(-3, 3, 200)[:, None]
    >>> given = {"y": np.sign(X[:, 0]), "loss": losses.Squared(), "penalty": penalties.L1(0.01)}
    >>> boosting = Boosting(solvers.CoordinateDescent(tol=1e-6), max_rounds=5)
    >>> selection = boosting.solve(BestStump(X), lambda Z: problem.Problem(Z, **given))
    >>> selection.n_active
    1
    """

    n_new: int = 1
    max_rounds: int = 200
    tol: float = 0.0
    patience: int = 1


class _HalfspaceSearch:
    """A source that looks for a half-space for every output in all rows of X."""

    def __init__(self, X: Matrix):
        self.X, self.n_rows, self.dtype = X, X.shape[0], float_type(X)

    def draw(self, first: int, count: int, slopes: NDArray) -> tuple[FeatureSequence, Design]:
        """A half-space for every output; ``count`` beyond one finds nothing new."""
        best = [self._best(column) for column in slopes.reshape(self.n_rows, -1).T]
        directions, thresholds = (np.array(part) for part in zip(*best, strict=True))
        feature_map = Halfspaces(directions, thresholds).fit(self.X)
        return feature_map, feature_map.design(self.X)

    def _best(self, slopes: NDArray) -> tuple[NDArray, float]:
        """Direction and threshold."""
        raise NotImplementedError


class Perceptrons(_HalfspaceSearch):
    """Half-spaces found by a linear classifier of the signs of the derivatives of the loss.

    The half-space with the largest ``|sum_i slopes_i sign(t . x_i - a)|`` is hard to find. The
    classifier weights rows by the sizes of the slopes and minimises a convex surrogate instead,
    which biases the result.

    Parameters
    ----------
    X : array or CSR of shape (n, d)
        Training rows.
    surrogate : {"logistic", "hinge", "squared_hinge"}, default="logistic"
        Convex loss of the classifier.
    ridge : float, default=1e-4
        Strength of half the squared norm of t added to the weighted mean of the surrogate, > 0.
    """

    def __init__(self, X: Matrix, surrogate: str = "logistic", ridge: float = 1e-4):
        super().__init__(X)
        self.surrogate = name_from(surrogate, ("logistic", "hinge", "squared_hinge"), "surrogate")
        self.ridge = positive_number(ridge, "ridge")

    def _best(self, slopes: NDArray) -> tuple[NDArray, float]:
        labels, sizes = slopes < 0, np.abs(slopes).astype(np.float64)
        used = sizes > 0
        nowhere = np.zeros(self.X.shape[1]), 0.0
        if not used.any() or labels[used].all() or not labels[used].any():
            return nowhere  # the constant +1
        classifier = self._classifier()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # any half-space will do
            classifier.fit(self.X[used], labels[used], sample_weight=sizes[used] / sizes.sum())
        direction, offset = classifier.coef_[0].astype(np.float64), float(classifier.intercept_[0])
        norm = float(np.linalg.norm(direction))
        return (direction / norm, -offset / norm) if norm > 0 else nowhere

    def _classifier(self) -> LogisticRegression | LinearSVC:
        from sklearn.linear_model import LogisticRegression  # which few need
        from sklearn.svm import LinearSVC

        if self.surrogate == "logistic":
            return LogisticRegression(C=1.0 / self.ridge, max_iter=1000)
        exact = self.surrogate == "squared_hinge"
        return LinearSVC(
            loss=self.surrogate, C=1.0 / self.ridge, dual=not exact, max_iter=2000, random_state=0
        )


class BestStump(_HalfspaceSearch):
    """Threshold on one input with the largest ``|sum_i slopes_i sign(x_ij - a)|``, exactly.

    The sorted order of the array X (n, d) along each input takes 8 n d bytes of memory.
    """

    def __init__(self, X: Matrix):
        if sparse.issparse(X):
            raise TypeError("X must be dense for stumps to be searched; got a sparse matrix.")
        check_memory(16.0 * X.size, "the order of the rows along every input", "use Perceptrons")
        super().__init__(X)
        self._order = np.argsort(X, axis=0, kind="stable")
        ordered = np.take_along_axis(X, self._order, axis=0)
        self._cuts = np.diff(ordered, axis=0) > 0  # a threshold lies between different values

    def _best(self, slopes: NDArray) -> tuple[NDArray, float]:
        inputs = np.arange(self.X.shape[1])
        below = np.cumsum(slopes.astype(np.float64)[self._order], axis=0)
        scores = np.where(self._cuts, np.abs(below[-1] - 2 * below[:-1]), -1.0)
        if not scores.size or scores.max() < np.abs(below[-1]).max():
            return (inputs == 0) * 1.0, float(self.X[:, 0].min())  # none beats the constant +1
        row, column = np.unravel_index(int(np.argmax(scores)), scores.shape)
        low, high = (float(self.X[self._order[row + i, column], column]) for i in (0, 1))
        middle = 0.5 * low + 0.5 * high
        return (inputs == column) * 1.0, middle if low < middle else high


class BestOfSome:
    """The best of a number of random functions, which are drawn anew in each round.

    Parameters
    ----------
    feature_map : FeatureMap
        Fitted map with ``scale=False`` whose sequence the functions are drawn from.
    X : array or CSR of shape (n, d)
        Training rows.
    n_candidates : int, default=100
        Number of candidates per new feature (grids, for maps that draw whole grids).
    """

    def __init__(self, feature_map: FeatureMap, X: Matrix, n_candidates: int = 100):
        self.feature_map = feature_map
        self.X, self.n_rows, self.dtype = X, X.shape[0], float_type(X)
        self.n_candidates = positive_integer(n_candidates, "n_candidates")

    def draw(self, first: int, count: int, slopes: NDArray) -> tuple[FeatureSequence, Design]:
        """The ``count`` best of the next candidates, for every output."""
        tried = self.n_candidates
        sequence = feature_sequence(self.feature_map)
        feature_map, design = sequence.stream(self.X, first * tried, count * tried)
        scores = np.abs(design.rmatvec(slopes)).reshape(design.shape[1], -1)
        best = np.unique(np.argsort(-scores, axis=0, kind="stable")[:count])
        return feature_map.excerpt(best), select(design, best)
