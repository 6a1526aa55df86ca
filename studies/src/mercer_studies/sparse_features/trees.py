"""Random stumps and trees, features +1 and -1 that cut space by thresholds, and their kernel.

Sparse random features of an ensemble of stumps or trees are those of Lin and Li's kernels.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray
from scipy import sparse
from scipy.stats import poisson

from mercer import kernels
from mercer._runtime.arrays import Matrix
from mercer._runtime.documentation import documented, entries
from mercer._runtime.random import Slot, Streams
from mercer._runtime.rows import Data, is_sparse
from mercer._runtime.state import State
from mercer._runtime.validation import matrix
from mercer.kernels.base import Kernel, Stationary
from mercer.kernels.distances import blocks, distances, scaled
from mercer.kernels.ensembles import _counted, _numbers, _per_input
from mercer.maps._documentation import SIGNS
from mercer.maps.ensembles import Cuts, Signs
from mercer.maps.products import Groups, ProductForm, Products

_TEXTS = SIGNS | entries(
    """
    low_, high_ : ndarray of shape (d,)
        Least and largest value of each input in the training data.
    """
)


@dataclass(frozen=True)
class Stump(Kernel):
    """Stump kernel: the mean product of the signs of two points at random thresholds on inputs.

    An input is drawn in proportion to its range, a threshold uniformly from that range. Within the
    box of the ranges the kernel is ``1 - |x - y|_1 / delta`` with delta half the sum of the ranges;
    rows outside are clipped to the box.

    Parameters
    ----------
    bounds : "data" or pair of arrays of shape (d,), default="data"
        Least and largest value of each input; "data" takes them from the data.

    Attributes
    ----------
    low, high : ndarray of shape (d,)
        Least and largest value of each input.
    delta : float
        Constant of Lin and Li: ``delta * kernel`` is ``delta - |x - y|_1``.

    Raises
    ------
    TypeError, ValueError
        If ``bounds`` is no pair of arrays of one length, or a lower bound exceeds the upper one.

    References
    ----------
    Lin and Li, Support vector machinery for infinite ensemble learning, JMLR 2008.

    Examples
    --------
    >>> kernel = Stump().resolve([[0.0, 0.0], [1.0, 1.0]])
    >>> kernel([[0.0, 0.0]], [[0.0, 0.0], [0.0, 1.0], [1.0, 1.0], [9.0, 9.0]])
    array([[ 1.,  0., -1., -1.]])
    """

    bounds: Any = "data"
    _other_maps: ClassVar[str] = "RandomStump or feature_map='nystroem'"
    _why_no_widths = "it is a mean over stumps, not over grids"
    diag = Stationary.diag

    def __post_init__(self) -> None:
        if isinstance(self.bounds, str):
            if self.bounds != "data":
                raise ValueError(f"bounds must be a pair of arrays or 'data'; got {self.bounds!r}.")
            return
        if not np.iterable(self.bounds):
            raise ValueError(f"bounds must be a pair of arrays; got {self.bounds!r}.")
        bounds = list(self.bounds)
        if len(bounds) != 2:
            raise ValueError(f"bounds must be a pair of arrays; got {len(bounds)} of them.")
        low, high = (_numbers(bound, "bounds") for bound in bounds)
        if len(low) != len(high) or any(a > b for a, b in zip(low, high, strict=True)):
            raise ValueError(
                f"bounds must be two arrays of one length, the first nowhere above the second; "
                f"got {self.bounds!r}."
            )
        object.__setattr__(self, "bounds", (low, high))

    @property
    def is_resolved(self) -> bool:
        return not isinstance(self.bounds, str)

    @property
    def low(self) -> NDArray[np.float64]:
        return self._box(None)[0]

    @property
    def high(self) -> NDArray[np.float64]:
        return self._box(None)[1]

    @property
    def delta(self) -> float:
        return float(0.5 * (self.high - self.low).sum())

    def resolve(self, X: Matrix, sample_weight: NDArray | None = None) -> Self:
        X = matrix(X, "X")
        if self.is_resolved:
            self._box(X.shape[1])
            return self
        X, _ = _counted(X, sample_weight)
        low, high = X.min(axis=0), X.max(axis=0)
        if sparse.issparse(X):
            low, high = low.toarray().ravel(), high.toarray().ravel()
        return replace(self, bounds=(low, high))

    def _box(self, n_inputs: int | None) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        if isinstance(self.bounds, str):
            raise ValueError(
                f"bounds must be numbers here; got {self.bounds!r}: call resolve(X) first."
            )
        low, high = (_per_input(b, n_inputs or len(b), "bounds") for b in self.bounds)
        return low, high

    def _fill(self, out: NDArray, X: Matrix, Y: Matrix) -> None:
        low, high = self._box(X.shape[1])
        delta = self.delta or 1.0
        y = _boxed(Y, low, high)
        for rows in blocks(X, Y.shape[0]):
            out[rows] = 1.0 - distances("cityblock", _boxed(X[rows], low, high), y) / delta
        if Y is X:
            np.fill_diagonal(out, 1.0)


def _boxed(X: Matrix, low: NDArray[np.float64], high: NDArray[np.float64]) -> Any:
    """Rows moved into the box, as seen from where zero is moved to: zeros stay zeros."""
    origin = np.clip(0.0, low, high)
    X = scaled(X, np.ones(X.shape[1]))
    if sparse.issparse(X):
        j = X.indices
        X.data = np.clip(X.data, low[j], high[j]) - origin[j]
        return X
    np.clip(X, low, high, out=X)
    X -= origin
    return X


class _Trees(Signs):
    """Features that change sign at every threshold of theirs that a point passes.

    A threshold is at one input, chosen with probability proportional to its weight times its range
    in the training data, uniform in that range.
    """

    low_: NDArray[np.float64]
    high_: NDArray[np.float64]

    def _check_state(self) -> None:
        super()._check_state()
        state, d = State(self), self.n_features_in_
        low, high = state.array("low_", (d,), "d"), state.array("high_", (d,), "d")
        state.check("high_", "be nowhere below low_", (low <= high).all())

    def _box(self) -> tuple[bytes, ...]:
        return self.low_.tobytes(), self.high_.tobytes()

    def bytes_per_row(self, dtype: DTypeLike) -> float:
        return super().bytes_per_row(dtype) + 10.0 * self.n_features_out_

    def parameters(
        self, columns: ArrayLike
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
        """Depths (b,), inputs and thresholds (b, deepest) of some columns, made from the key.

        Column j is positive where an even number of the first ``depths[j]`` comparisons
        ``x[inputs[j, i]] < thresholds[j, i]`` hold.
        """
        streams = Streams(self.key_, np.asarray(columns))
        depths = self._depths(streams)
        deepest = int(depths.max(initial=0))
        edges = np.cumsum(self._weights * (self.high_ - self.low_))
        if edges[-1] > 0:
            edges /= edges[-1]
        else:  # constant data: all points are on one side
            edges = np.ones_like(edges)
        inputs = np.searchsorted(edges, streams.uniform(deepest, Slot.COORDINATE))
        place = streams.uniform(deepest, Slot.THRESHOLD)
        return depths, inputs, self.low_[inputs] + (self.high_ - self.low_)[inputs] * place

    @property
    def _weights(self) -> NDArray[np.float64]:
        return np.ones(self.n_features_in_)

    def _depths(self, streams: Streams) -> NDArray[np.int64]:
        raise NotImplementedError

    def _form_at(self, places: NDArray[np.int64], coef: NDArray, groups: Groups) -> ProductForm:
        depths, inputs, thresholds = self.parameters(places)
        return form_of_signs(inputs, thresholds, depths, self._entry * coef, groups)

    def _cuts(self, columns: NDArray[np.int64]) -> Cuts:
        depths, inputs, thresholds = self.parameters(columns)
        order = np.argsort(-depths, kind="stable")  # those that have a t-th threshold come first
        counts = np.searchsorted(-depths[order], -np.arange(inputs.shape[1]), side="left")
        thresholds = np.ascontiguousarray(thresholds[order].T)
        used, inputs = np.unique(inputs[order].T, return_inverse=True)

        def below(X: Matrix) -> NDArray[np.bool_]:
            X = X[:, used].toarray() if is_sparse(X) else X[:, used]
            X = np.ascontiguousarray(X.T)
            limits = _rounded_up(thresholds, X.dtype)
            odd = np.zeros((len(order), X.shape[1]), dtype=bool)
            for level, count in enumerate(counts):
                odd[:count] ^= X[inputs[level, :count]] < limits[level, :count, None]
            out = np.empty((X.shape[1], len(order)), dtype=bool)
            out[:, order] = odd.T
            return out

        return below


@documented(_TEXTS)
@dataclass(eq=False, repr=False)
class RandomStump(_Trees):
    """Sides of random thresholds on random inputs as features: +1 or -1, over ``sqrt(D)``.

    An input is chosen with probability proportional to its range in the training data, a threshold
    uniformly in that range; the feature is the sign of ``x_j - a``, +1 for zero. Inner products
    estimate the stump kernel ``k(x, y) = 1 - 2 |x - y|_1 / w``, w the sum of the ranges, with
    variance ``(1 - k**2) / n_components``. Inputs outside their range are clipped to it.

    Parameters
    ----------
    {n_components, scale, random_state, n_jobs}

    Attributes
    ----------
    {n_features_out_}
    kernel_ : Stump
        Fitted kernel, with the ranges as numbers.
    {low_}
    key_ : int
        Key of the random numbers: with the ranges it determines all thresholds.

    Raises
    ------
    {ValueError}

    References
    ----------
    {Lin}

    Examples
    --------
    >>> X = [[0.0, 5.0], [1.0, 5.0]]
    >>> RandomStump(n_components=3, scale=False, random_state=0).fit_transform(X)
    array([[-1., -1., -1.],
           [ 1.,  1.,  1.]])
    """

    n_components: int = 1000

    def _fit_kernel(self, X: Data) -> None:
        self.kernel_ = Stump().resolve(X)

    def _check_state(self) -> None:
        State(self).instance("kernel_", Stump)
        super()._check_state()

    @property
    def low_(self) -> NDArray[np.float64]:  # type: ignore[override]
        return self.kernel_.low

    @property
    def high_(self) -> NDArray[np.float64]:  # type: ignore[override]
        return self.kernel_.high

    def _depths(self, streams: Streams) -> NDArray[np.int64]:
        return np.ones(len(streams), dtype=np.int64)

    def _bytes_of_cuts(self) -> float:
        return 64.0


@documented(_TEXTS)
@dataclass(eq=False, repr=False)
class RandomTree(_Trees):
    """Signs of the leaves of random trees as features: +1 or -1, over ``sqrt(n_components)``.

    A tree is the product of a Poisson number of random stumps (see :class:`RandomStump`), so that
    leaves on two sides of a threshold have opposite signs. With the mean number ``gamma * w / 2``,
    w the sum of the inputs' ranges, inner products estimate the Laplacian kernel
    ``k(x, y) = exp(-gamma * |x - y|_1)`` with variance ``(1 - k**2) / n_components``. Inputs
    outside their range are clipped to it. A feature takes one comparison per stump: outliers widen
    the ranges and make the map slower, not more accurate.

    Parameters
    ----------
    gamma : float, array of shape (d,), "scale" or "median", default="scale"
        Factor of the distance in the Laplacian kernel, > 0; an array has one factor per input.
    {n_components, scale, random_state, n_jobs}

    Attributes
    ----------
    {n_features_out_}
    kernel_ : mercer.kernels.Laplacian
        Fitted kernel, with its ``gamma`` as a number.
    depth_ : float
        Mean number of stumps of a tree.
    {low_}
    key_ : int
        Key of the random numbers: with gamma and the ranges it determines all trees.

    Raises
    ------
    ValueError, TypeError
        At ``fit``, if a parameter is invalid, or if trees would be deeper than 10 000 stumps.

    References
    ----------
    {Lin}

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).uniform(size=(50, 3))
    >>> fitted = RandomTree(gamma=1.0, n_components=20_000, random_state=0).fit(X)
    >>> Z = fitted.transform(X)
    >>> bool(abs(Z @ Z.T - fitted.kernel_(X)).max() < 0.05)
    True
    """

    gamma: float | ArrayLike | str = "scale"
    n_components: int = 1000

    default_kernel: ClassVar[str] = "laplacian"
    _deepest: ClassVar[float] = 10_000.0

    def stated_kernel(self) -> kernels.Kernel:
        return kernels.Laplacian(self.gamma)

    def _fit_kernel(self, X: Data) -> None:
        self.kernel_ = self._resolved_kernel(X)
        box = Stump().resolve(X)
        self.low_, self.high_ = box.low, box.high
        if not self.depth_ <= self._deepest:
            raise ValueError(
                f"gamma must be small enough for trees of at most {self._deepest:.0f} stumps on "
                f"average; {self.kernel_!r} on inputs of these ranges needs {self.depth_:.3g}."
            )

    def _check_state(self) -> None:
        super()._check_state()
        state = State(self)
        state.instance("kernel_", kernels.Stationary).input_scale(self.n_features_in_)
        self._check_depth()

    def _check_depth(self) -> None:
        """Refuse trees so deep that their thresholds would take all memory."""
        rule = f"be at most {self._deepest:.0f}"
        State(self).check("depth_", rule, self.depth_ <= self._deepest)

    @property
    def depth_(self) -> float:
        return float(self._weights @ (self.high_ - self.low_)) / 2.0

    @property
    def _weights(self) -> NDArray[np.float64]:
        return self.kernel_.input_scale(self.n_features_in_)

    def _depths(self, streams: Streams) -> NDArray[np.int64]:
        self._check_depth()
        uniform = streams.uniform(1, Slot.DEPTH)[:, 0]
        return poisson.ppf(uniform, self.depth_).astype(np.int64)

    def _bytes_of_cuts(self) -> float:
        return 64.0 * (1.0 + self.depth_ + 6.0 * self.depth_**0.5)


def _rounded_up(limits: NDArray[np.float64], dtype: DTypeLike) -> NDArray:
    """In ``dtype``, so that ``x < limit`` is true of the same x of that type as before."""
    rounded = limits.astype(dtype)
    short = rounded < limits
    rounded[short] = np.nextafter(rounded[short], rounded.dtype.type(np.inf))
    return rounded


def form_of_signs(
    inputs: NDArray[np.int64],
    thresholds: NDArray[np.float64],
    depths: NDArray[np.int64],
    coef: NDArray,
    groups: Groups,
) -> ProductForm:
    """The form of random trees: products of -1 for every threshold that a row is below.

    Feature i compares ``depths[i]`` inputs with thresholds, the first of ``inputs[i]`` and
    ``thresholds[i]``.
    """
    group_of = np.empty(1 + max(int(columns.max()) for columns in groups), dtype=np.int64)
    for j, columns in enumerate(groups):
        group_of[columns] = j
    levels = [np.flatnonzero(level < depths) for level in range(inputs.shape[1])]

    def factors(rows: Any) -> NDArray:
        rows = rows.toarray() if is_sparse(rows) else rows
        out = np.ones((len(groups), len(rows), len(depths)))
        for level, used in enumerate(levels):
            column = inputs[used, level]
            below = rows[:, column] < thresholds[used, level]
            out[group_of[column], :, used] *= np.where(below, -1.0, 1.0).T
        return out

    return [Products(coef, factors)]
