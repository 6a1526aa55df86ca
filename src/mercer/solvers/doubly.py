"""Doubly stochastic gradients: every step sees some rows and random features nobody saw before."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import DTypeLike, NDArray
from scipy.linalg import LinAlgError, cho_factor, cho_solve, solve_triangular

from mercer._runtime.arrays import check_setting, chunk_bytes, row_chunks
from mercer._runtime.documentation import documented, entries
from mercer._runtime.random import Slot, Streams
from mercer._runtime.rows import Data
from mercer._runtime.validation import (
    flag,
    float_type,
    number_at_least_0,
    positive_integer,
    positive_number,
)
from mercer.designs import Design
from mercer.losses import Loss
from mercer.maps import FeatureMap
from mercer.maps.members import Endless

__all__ = ["SETTINGS", "DoublySGD", "Expansion", "batches"]

_PIECE = 512  # features computed together
_LEAST_SCALE = 1e-12  # scale of the model below which it is multiplied into the coefficients
_ROWS_PER_FEATURE = 8  # least rows of a batch per feature for a reliable preconditioner
_BATCH, _BLOCK = 8192, 1024  # default rows and features of a step
_JUDGES = 2048  # rows of a batch that judge a step; more take longer and change little
_LEAST_REST = 1e-6  # of a leverage to 1, which rounding may pass
_DECAY = 1e-4  # default decay of the step length


SETTINGS = entries(
    """
    alpha : float, default=0.0
        Strength of the penalty ``alpha / 2 * |f|**2`` added to the mean loss, >= 0. With a
        preconditioner it is also the ridge of every step, and regularises less.
    preconditioned : bool, default=True
        Whether to multiply the gradient of a block by the inverse of the second moments of its
        features on the batch, plus alpha and a jitter on the diagonal. Each step is then a ridge
        regression of the derivatives on the block; it needs several rows per feature and converges
        in far fewer steps. It is shortened to what lowers the loss of rows that it has not seen,
        by predicting each row of the batch from the others. Without a preconditioner, and with a
        decaying step, the limit is kernel ridge regression with strength alpha.
    batch_size : int or None, default=None
        Number of rows per step, >= 1; None means 8192, or all rows if there are fewer.
    block_size : int or None, default=None
        Number of new features per step, >= 1; None means the smaller of 1024 and an eighth of the
        batch.
    step_size : float or None, default=None
        θ in the step length ``theta / (1 + decay t)``, > 0. None means 1 over the largest curvature
        of the loss, without a preconditioner also over k(x, x).
    step_decay : float or None, default=None
        ``decay`` in the step length, >= 0. None means 1e-4; without a preconditioner it is the
        larger of 1e-4 and ``theta * alpha / 2``, with which errors fall as 1 / t.
    """
)


@dataclass
class Expansion:
    """A function ``f(x) = sum_j phi_j(x) coef_j`` over the first features of an endless sequence.

    Features are computed from the key of the sequence at each use: a prediction takes time in
    proportion to their number, and hardly any memory.

    Parameters
    ----------
    feature_map : FeatureMap
        Fitted map with ``scale=False``, which defines the sequence.
    shape : tuple of int
        Shape of the output: () for one output, (k,) for k outputs.
    dtype : dtype, default=numpy.float64
        Type of the coefficients.

    Attributes
    ----------
    scale : float
        Common factor of the stored coefficients; shrinking all coefficients changes it alone.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.maps import RandomFourier
    >>> X = np.eye(3)
    >>> fourier = RandomFourier(scale=False, random_state=0).fit(X)
    >>> f = Expansion(fourier)
    >>> f.append(np.array([1.0, -1.0]))
    >>> f.shrink(0.5)
    >>> f.coef.tolist(), f.responses(X).shape
    ([0.5, -0.5], (3,))
    """

    feature_map: FeatureMap
    shape: tuple[int, ...] = ()
    dtype: DTypeLike = np.float64
    scale: float = 1.0
    _blocks: list[NDArray] = field(default_factory=list, repr=False)

    def __post_init__(self) -> None:
        is_raw = isinstance(self.feature_map, Endless) and not self.feature_map._scale_
        if not is_raw:
            raise ValueError(
                "feature_map must be an endless sequence of random functions with scale=False, "
                f"such as RandomFourier or RandomPerceptron; got {self.feature_map!r}."
            )

    @property
    def n_features(self) -> int:
        """Features so far; the next one is at this place of the sequence."""
        return sum(len(block) for block in self._blocks)

    @property
    def coef(self) -> NDArray:
        """Coefficients of all features, of shape (n_features,) or (n_features, k)."""
        if not self._blocks:
            return np.zeros((0, *self.shape), dtype=self.dtype)
        return np.concatenate(self._blocks) * np.asarray(self.scale, dtype=self.dtype)

    def append(self, coef: NDArray) -> None:
        """Add the next ``len(coef)`` features of the sequence with these coefficients."""
        self._blocks.append((coef / self.scale).astype(self.dtype))

    def shrink(self, factor: float) -> None:
        """Multiply all coefficients by ``factor``."""
        self.scale *= factor
        if self.scale < _LEAST_SCALE:
            self._blocks, self.scale = [self.coef], 1.0

    def responses(self, X: Data) -> NDArray:
        """f(x) for every row of X, of shape (n,) or (n, k)."""
        coef = self.coef
        out = np.zeros((X.shape[0], *self.shape), dtype=np.result_type(self.dtype, float_type(X)))
        piece = max(1, min(_PIECE, len(coef)))
        for rows in row_chunks(X.shape[0], 8.0 * (piece + X.shape[1])):
            for first in range(0, len(coef), piece):
                weights = coef[first : first + piece]
                design = self.feature_map.stream(X[rows], first, len(weights))[1]
                out[rows] += design.matvec(weights)
        return out


@documented(SETTINGS)
@dataclass
class DoublySGD:
    """Functional gradient descent on batches of rows and blocks of new random features.

    Step t computes the derivatives of the loss on a batch, draws the next block of features of the
    endless sequence, and adds them with coefficients along the negative gradient. Coefficients of
    earlier features only shrink. Neither the kernel matrix nor features are stored; the responses
    of a batch therefore take time in proportion to the number of steps so far.

    Parameters
    ----------
    {alpha, preconditioned, batch_size, block_size, step_size, step_decay}
    max_iter : int, default=50
        Number of steps of ``solve``.
    jitter : float, default=1e-7
        Number added to the diagonal of the preconditioner, > 0. It grows tenfold until the matrix
        has a Cholesky factor.
    keep_responses : bool or None, default=None
        Whether ``solve`` updates the responses of all rows at each step, instead of computing the
        responses of a batch from all features so far. None does so if it is faster, from about two
        passes over the rows on. It changes results by rounding only.

    References
    ----------
    Dai, Xie, He, Liang, Raj, Balcan and Song, Scalable kernel methods via doubly stochastic
    gradients, NIPS 2014.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.losses import Squared
    >>> from mercer.maps import RandomFourier
    >>> from mercer.solvers import DoublySGD
    >>> X = np.random.default_rng(0).uniform(-3, 3, size=(2000, 1))
    >>> fourier = RandomFourier(gamma=0.5, scale=False, random_state=0).fit(X)
    >>> f, losses = DoublySGD(max_iter=10).solve(fourier, X, np.sin(X[:, 0]), Squared())
    >>> bool(np.abs(f.responses(X) - np.sin(X[:, 0])).max() < 0.05), f.n_features
    (True, 2500)
    """

    alpha: float = 0.0
    preconditioned: bool = True
    batch_size: int | None = None
    block_size: int | None = None
    step_size: float | None = None
    step_decay: float | None = None
    max_iter: int = 50
    jitter: float = 1e-7
    keep_responses: bool | None = None

    def __post_init__(self) -> None:
        self.alpha = number_at_least_0(self.alpha, "alpha")
        flag(self.preconditioned, "preconditioned")
        for name in ("batch_size", "block_size"):
            if getattr(self, name) is not None:
                setattr(self, name, positive_integer(getattr(self, name), name))
        if self.step_size is not None:
            self.step_size = positive_number(self.step_size, "step_size")
        if self.step_decay is not None:
            self.step_decay = number_at_least_0(self.step_decay, "step_decay")
        self.max_iter = positive_integer(self.max_iter, "max_iter")
        self.jitter = positive_number(self.jitter, "jitter")
        if self.keep_responses is not None:
            flag(self.keep_responses, "keep_responses")

    def sizes(self, n_rows: int) -> tuple[int, int]:
        """Rows of a batch and features of a block, for so many rows."""
        batch = min(self.batch_size or _BATCH, n_rows)
        return batch, self.block_size or max(1, min(_BLOCK, batch // _ROWS_PER_FEATURE))

    def step(
        self,
        f: Expansion,
        t: int,
        X: Data,
        y: NDArray,
        loss: Loss,
        *,
        sample_weight: NDArray | None = None,
        offset: NDArray | float = 0.0,
        responses: NDArray | None = None,
        block_size: int | None = None,
        share: float = 1.0,
    ) -> float:
        """Step t, after t others, in place; the mean loss of the batch before it.

        The batch X (m, d) has targets y (m,) or (m, k), and weights of mean one over all rows, if
        not over the batch. ``offset`` is added to f; ``responses`` are f of the batch where it is
        known; ``block_size`` features are added, by default as for a batch of m rows. The length of
        the step is multiplied by ``share``.

        Raises
        ------
        ValueError
            If the step is so large that the penalty turns coefficients around, or numbers grow out
            of the range of floats.
        """
        gamma = share * self.step_length(t, loss, f.feature_map)
        if gamma * self.alpha >= 1:
            raise ValueError(
                f"step_size must be below 1 / alpha; got steps of {gamma:.3g} for "
                f"alpha={self.alpha!r}."
            )
        offset = np.asarray(offset, dtype=f.dtype)
        u = (f.responses(X) if responses is None else responses) + offset
        weights = np.ones(len(y)) if sample_weight is None else sample_weight
        with np.errstate(over="ignore", invalid="ignore"):
            value = _mean(loss.value(u, y), weights)
        if not np.isfinite(value):
            raise ValueError(
                f"step_size must be smaller: the loss has left the range of {f.dtype}; got steps "
                f"of {gamma:.3g}."
            )
        slopes = loss.gradient(u, y).astype(f.dtype, copy=False)
        count = block_size or self.sizes(len(y))[1]
        direction = self._direction(f, X, slopes, sample_weight, count)
        f.shrink(1.0 - gamma * self.alpha)
        f.append(-gamma * direction)
        return value

    def solve(
        self,
        feature_map: FeatureMap,
        X: Data,
        y: NDArray,
        loss: Loss,
        *,
        sample_weight: NDArray | None = None,
        offset: NDArray | float = 0.0,
        callback: Callable[[Expansion], bool | None] | None = None,
    ) -> tuple[Expansion, NDArray[np.float64]]:
        """``max_iter`` steps over batches of these rows, in an order that the map's key decides.

        The map is fitted, with ``scale=False``; weights may have any mean, and the rest is as for
        ``step``. The callback sees the expansion after every step and ends them by True. Beside the
        expansion, the mean losses of the batches (n_steps,), each before its step.
        """
        dtype = float_type(X)
        f = Expansion(feature_map, y.shape[1:], dtype)
        batch, block = self.sizes(len(y))
        if sample_weight is not None:
            sample_weight = sample_weight / sample_weight.mean()
        keep = self.keep_responses
        if keep is None:
            keep = len(y) <= 0.5 * batch * self.max_iter
        kept = np.zeros(y.shape, dtype=dtype) if keep else None
        losses = []
        order = batches(feature_map.key_, len(y), batch)
        for t in range(self.max_iter):
            rows = next(order)
            before = f.scale
            losses.append(
                self.step(
                    f,
                    t,
                    X[rows],
                    y[rows],
                    loss,
                    sample_weight=None if sample_weight is None else sample_weight[rows],
                    offset=offset,
                    responses=None if kept is None else kept[rows],
                    block_size=block,
                )
            )
            if kept is not None:
                self._update(kept, f, before, t, loss, X, block)
            if callback is not None and callback(f):
                break
        return f, np.array(losses)

    def step_length(self, t: int, loss: Loss, feature_map: FeatureMap) -> float:
        """γ of step t."""
        size = self.step_size
        if size is None:
            kernel = getattr(feature_map, "kernel_", None)
            size = 1.0 / loss.lipschitz
            if not self.preconditioned and kernel is not None:
                size /= kernel.amplitude
        decay = self.step_decay
        if decay is None:
            decay = _DECAY if self.preconditioned else max(_DECAY, 0.5 * size * self.alpha)
        return size / (1.0 + decay * t)

    def _direction(
        self, f: Expansion, X: Data, slopes: NDArray, weights: NDArray | None, count: int
    ) -> NDArray:
        """Coefficients (count,) or (count, k) of new features that a step of length 1 subtracts.

        The mean gradient along them or, preconditioned, a shortened ridge regression of the slopes.
        """
        n_rows = X.shape[0]
        judges = min(n_rows, 2 * _JUDGES)  # their features, and these times the inverse factor
        check_setting(
            "block_size",
            count,
            lambda b: 8.0 * b * (n_rows + 2.0 * (b + judges) * self.preconditioned),
            f"{count} features of {n_rows} rows",
            "lower batch_size",
        )
        design = f.feature_map.stream(X, f.n_features, count)[1]
        spread = None if weights is None else weights.astype(slopes.dtype)
        weighted = slopes if spread is None else (slopes.T * spread).T
        gradient = design.rmatvec(weighted) / (n_rows * count)
        if not self.preconditioned:
            return gradient
        factor = self._factor(design.gram(weights) / (n_rows * count))
        direction = cho_solve((factor, False), gradient.astype(np.float64), check_finite=False)
        scale = 1.0 / np.sqrt(n_rows * count)
        return direction * _useful_share(design, factor, direction, slopes, weights, scale)

    def _factor(self, moments: NDArray) -> NDArray:
        """U of Uᵀ U = moments + ridge, in whose upper triangle it is."""
        jitter = self.jitter
        while True:
            ridged = moments.copy()
            ridged.flat[:: len(ridged) + 1] += self.alpha + jitter
            try:
                return cho_factor(ridged, overwrite_a=True, check_finite=False)[0]
            except LinAlgError:
                jitter *= 10.0

    def _update(
        self, kept: NDArray, f: Expansion, before: float, t: int, loss: Loss, X: Data, block: int
    ) -> None:
        """Responses of all rows after step t."""
        kept *= 1.0 - self.step_length(t, loss, f.feature_map) * self.alpha
        coef = f._blocks[-1][-block:] * np.asarray(f.scale, dtype=f.dtype)
        budget = max(1, chunk_bytes() // (8 * block))
        for first in range(0, X.shape[0], budget):
            rows = slice(first, first + budget)
            design = f.feature_map.stream(X[rows], f.n_features - block, block)[1]
            kept[rows] += design.matvec(coef)


def batches(key: int, n_rows: int, batch_size: int) -> Iterator[NDArray[np.int64]]:
    """Batches without an end: all rows in one random order of the key, then in another one."""
    waiting, lap = np.empty(0, dtype=np.int64), 0
    while True:
        while len(waiting) < batch_size:
            drawn = Streams(key, np.array([lap])).uniform(n_rows, Slot.BATCH)[0]
            waiting = np.concatenate([waiting, np.argsort(drawn, kind="stable")])
            lap += 1
        batch, waiting = waiting[:batch_size], waiting[batch_size:]
        yield np.sort(batch)


def _useful_share(
    design: Design,
    factor: NDArray,
    direction: NDArray,
    slopes: NDArray,
    weights: NDArray | None,
    scale: float,
) -> float:
    """Share of a ridge step, from 0 to 1, that lowers the loss of unseen rows most.

    The step is a ridge regression of the slopes (m,) or (m, k) on the features (m, b). Its value at
    a row, fitted to the other rows, follows from the leverage of the row; the share is the least
    squares coefficient of the slopes on these values.
    """
    few = np.arange(0, design.shape[0], max(1, design.shape[0] // _JUDGES))
    design, slopes = design.rows(few), slopes[few]
    weights = np.ones(len(few)) if weights is None else weights[few]
    features = design.block(np.arange(len(factor)))
    values = features @ direction
    halves = solve_triangular(factor, features.T, trans="T", check_finite=False)
    leverages = np.einsum("bm,bm->m", halves, halves) * scale**2
    leverages = np.minimum(leverages * weights, 1.0 - _LEAST_REST)
    unseen = ((values.T - leverages * slopes.T) / (1.0 - leverages)).T
    square = np.sum(weights @ unseen**2)
    return float(np.clip(np.sum(weights @ (unseen * slopes)) / square, 0, 1)) if square > 0 else 1.0


def _mean(values: NDArray, weights: NDArray) -> float:
    """The mean loss over the rows, summed over the outputs."""
    values = values.astype(np.float64)
    return float((weights @ values).sum() / len(weights))
