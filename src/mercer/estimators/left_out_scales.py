"""Scales of the inputs that make the left-out error of a kernel machine least."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from mercer._runtime.random import RandomStateLike, Slot, Streams, key_from, shuffled
from mercer._runtime.rows import PreparedRows
from mercer._runtime.threads import flushed_denormals
from mercer._runtime.validation import name_from, positive_integer, real_number
from mercer.equations.criteria import LeftOutOfLabels, Parameters, optimum
from mercer.estimators.scaling import InputScaler, as_columns, at_unit_distance, sampled, scaled
from mercer.kernels import Exponential, Gaussian, Laplacian, Stationary
from mercer.preparation.repeats import REMEDY, copies_in

__all__ = ["FoundScales", "LeftOutScaler", "LeftOutSearch", "scales_by_name"]

_KERNELS: dict[str, Stationary] = {
    "laplacian": Laplacian(1.0),
    "exponential": Exponential(1.0),
    "gaussian": Gaussian(1.0),
}
# Gammas and ridges of which the best ones start the search, for a median distance of 1.
_GAMMAS = {
    "laplacian": (0.5, 1.5, 5.0),
    "exponential": (0.3, 1.0, 3.0),
    "gaussian": (0.2, 0.7, 2.0),
}
_RIDGES = 0.03, 0.3
_STRONGER = 1.0, 3.0, 10.0  # factors of a ridge of more rows
_FEW = 400  # rows of the first steps
_STEPS = 20, 12, 5  # on few rows, then on more, and from scales of other rows
_FEW_INPUTS = 60  # inputs up to which all are kept: they cost little
_LEAST_SHARE = {1: 1e-4, 2: 1e-6}  # of a mean distance, or its square, of an input that is kept
_LEAST_LABELS = 20  # columns of 0 and 1 from which pairs of rows are compared by their labels
_SINGLE = 2e-3  # ridge above which float32 serves
_GAIN = 1e-4  # of the criterion per row, below which a step is the last one
# Strength that draws scales together: without it, some of forty noisy inputs get scales by chance.
_PULL = 1e-4
_WHOLE = 10  # most rows of a label that are sampled together, which shows what its rows share
_SHARED = 2  # sampled rows per label from which rows need not be sampled by their labels
_LOOKED = 20_000  # rows among which those of a label are found


@dataclass(frozen=True)
class FoundScales:
    """Scales of inputs for which gamma is 1, and the ridge and left-out error of the machine."""

    scales: NDArray[np.float64]  # (p,), one for all inputs that share one
    ridge: float  # in the system (K + ridge I) a = y
    error: float  # root mean square, in units of the targets' deviation


@dataclass(eq=False, repr=False)
class LeftOutScaler(InputScaler):
    """Scale each input so that a kernel machine predicts left-out rows best.

    The scales, together with a ridge, make the leave-one-out error of kernel ridge regression
    least, which one factorisation gives with its gradient: from the best one of some common scales
    on few of the rows, then from there on more. Neighbouring columns of 0 and 1, if every row has
    at most one 1 in them, are the labels of one column and share a scale: how much it matters that
    two rows have the same label. In these scales, gamma of that machine is 1.

    Parameters
    ----------
    kernel : {"laplacian", "exponential", "gaussian"}, default="laplacian"
        Kernel of the machine.
    power : float, default=1.0
        Exponent of the scales, from 0 (equal scales) to 1, which leaves the median distance
        between rows as it is, or brings it to 1 where it is 0.
    max_rows : int, default=1000
        Largest number of rows of the machine, > 0. Of larger data, rows are sampled; whole labels
        of the column of most labels at a time where single rows would hardly share one.
    target : {"auto", "continuous", "classes"}, default="auto"
        Kind of y. "auto" means "continuous" if y has fractions, else "classes".
    known : tuple of an array of shape (d,) and a float, default=None
        Scales for gamma = 1, and the ridge, of an earlier search, from which a few steps lead on.
        None, and another number of scales, begin a search.
    random_state : int, RandomState, Generator or None, default=None
        Seed of the sampled rows.

    Attributes
    ----------
    scales_ : ndarray of shape (d,)
        Scale per input; the largest is 1.
    matrix_ : ndarray of shape (d,)
        Factors of the inputs; inputs of scale 0 are left out.
    ridge_ : float
        Number that the machine of least left-out error adds to the diagonal of its kernel matrix.
    left_out_error_ : float
        Root mean squared error of left-out rows, in units of the target's deviation among them.
    n_features_in_ : int
        Number of input columns.

    Raises
    ------
    ValueError, TypeError
        At ``fit``, if a setting or the data are invalid.

    See Also
    --------
    GradientScaler : scales that follow the derivatives of a first model.

    References
    ----------
    Allen, The relationship between variable selection and data augmentation and a method for
    prediction, Technometrics 1974. Rasmussen and Williams, Gaussian Processes for Machine Learning,
    2006, section 5.4.2.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import LeftOutScaler
    >>> X = np.random.default_rng(0).normal(size=(300, 3))
    >>> scaler = LeftOutScaler("gaussian", random_state=0).fit(X, np.sin(2 * X[:, 1]))
    >>> scaler.scales_.round(1)
    array([0., 1., 0.])
    """

    kernel: str = "laplacian"
    power: float = 1.0
    _: KW_ONLY
    max_rows: int = 1000
    target: str = "auto"
    known: tuple[Any, float] | None = None
    random_state: RandomStateLike = None

    _most_dense: ClassVar[int] = 2000  # inputs of rows that were sparse

    def _check_settings(self) -> None:
        name_from(self.kernel, tuple(_KERNELS), "kernel")
        if not 0 <= real_number(self.power, "power") <= 1:
            raise ValueError(f"power must be between 0 and 1; got {self.power!r}.")
        positive_integer(self.max_rows, "max_rows")
        name_from(self.target, ("auto", "continuous", "classes"), "target")
        if self.known is not None and not _are_scales(self.known):
            raise ValueError(
                "known must be a pair of an array of positive scales and a positive ridge; got "
                f"{self.known!r}."
            )

    def _matrices(self, X: Any, y: Any, weights: NDArray | None) -> tuple[NDArray, NDArray]:
        if not isinstance(X, PreparedRows):
            copies = copies_in(X, np.asarray(y), remedy=REMEDY)
            if copies is not None:
                X, y, weights = (
                    X[copies.first],
                    np.asarray(y)[copies.first],
                    copies.weights(weights),
                )
        key = key_from(self.random_state)
        _, sample, unit = sampled(X, key, int(self.max_rows))
        self.ridge_, self.left_out_error_ = _RIDGES[0], np.nan
        if self.power == 0 or X.shape[0] <= 3:
            equal = np.ones(X.shape[1])
            return equal, at_unit_distance(sample, equal, _KERNELS[self.kernel].metric) / unit
        if sparse.issparse(X) and X.shape[1] > self._most_dense:
            raise ValueError(
                f"X must be dense, or have at most {self._most_dense} columns; got a sparse matrix "
                f"of {X.shape[1]}: GradientScaler(kernel='linear') takes more."
            )
        search = LeftOutSearch.of(X, y, weights, self.target, key, int(self.max_rows), unit)
        found = self._found(search, unit)
        self.ridge_, self.left_out_error_ = found.ridge, found.error
        leaves_out = not isinstance(X, PreparedRows)  # far rows have the width of the table
        scales = search.spread_out(self.kernel, found, float(self.power), leaves_out)
        return scales, scales / unit

    def _found(self, search: LeftOutSearch, unit: float) -> FoundScales:
        """Scales near the known ones, if they are of as many inputs, or found by a search."""
        if self.known is not None:
            scales, ridge = self.known
            if len(scales) == len(search.ties):
                of_units = unit * search.of_ties(np.asarray(scales, dtype=np.float64))
                first = FoundScales(of_units, float(ridge), np.inf)
                return search.moved(self.kernel, first, _STEPS[2])
        return search.refined(self.kernel, search.rough(self.kernel))


@dataclass
class LeftOutSearch:
    """Rows of a table on which scales are sought for several kernels; the first ones are few."""

    rows: NDArray[np.float32]  # (n, d)
    target: NDArray[np.float64]  # (n, k), of mean 0
    weights: NDArray[np.float64] | None
    ties: NDArray[np.int64]  # (d,), equal for inputs that share a scale

    @classmethod
    def of(
        cls,
        X: Any,
        y: Any,
        weights: NDArray | None,
        target: str,
        key: int,
        most: int,
        unit: float = 1.0,
    ) -> LeftOutSearch:
        """Search on at most so many rows of X, divided by a unit; X and y are checked."""
        looked = shuffled(key, X.shape[0], max(_LOOKED, most), Slot.SHUFFLE)
        whole = X[looked]
        whole = whole.toarray() if sparse.issparse(whole) else whole
        ties = one_of_several(whole)
        places = repeating_rows(whole, ties, key, most)
        rows = looked[places]
        if weights is not None:
            weights = weights[rows] / weights[rows].mean()
        targets = as_columns(np.asarray(y)[rows], target, weights)
        small = (whole[places] / whole.dtype.type(unit)).astype(np.float32)
        return cls(small, targets, weights, ties)

    @property
    def n_scales(self) -> int:
        """Number of scales, p: inputs that share one count once."""
        return int(self.ties.max()) + 1

    def of_ties(self, scales: NDArray[np.float64]) -> NDArray[np.float64]:
        """One scale (p,) for inputs that share one, of scales (d,): that of the first of them."""
        return scales[np.unique(self.ties, return_index=True)[1]]

    @property
    def growth(self) -> float:
        """Time of an error of all rows, per time of one of few."""
        return max(1.0, len(self.rows) / _FEW) ** 3

    @property
    def few_hardly_share(self) -> bool:
        """Whether only more than the few rows show what sharing a label tells."""
        return _SHARED * int(np.bincount(self.ties).max()) > _FEW

    def error_of(self, kernel: str, matrix: NDArray, gamma: float, ridge: float) -> float:
        """Left-out error of the machine of few rows, in scales (d,) or (d, d) of the inputs.

        The best of the ridge and stronger ones, which few rows may want.
        """
        few = self._taken(_FEW)
        rows = scaled(few.rows, matrix.astype(np.float32))
        given = replace(few, rows=rows, ties=np.arange(rows.shape[1]))
        scales = np.full(rows.shape[1], gamma ** (1 / _KERNELS[kernel].power))
        ridges = [ridge * factor for factor in _STRONGER]
        return min(given.moved(kernel, FoundScales(scales, r, np.inf), 0).error for r in ridges)

    def rough(self, kernel: str) -> FoundScales:
        """Scales by the left-out error of few rows, from the best one of some common scales."""
        few = self._taken(_FEW)
        unit = at_unit_distance(few.rows, np.ones(self.rows.shape[1]), _KERNELS[kernel].metric)[0]
        common = [unit * gamma ** (1 / _KERNELS[kernel].power) for gamma in _GAMMAS[kernel]]
        starts = [
            few.moved(kernel, FoundScales(np.full(self.n_scales, one), ridge, np.inf), 0)
            for one in common
            for ridge in _RIDGES
        ]
        return few.moved(kernel, min(starts, key=lambda start: start.error), _STEPS[0])

    def refined(self, kernel: str, found: FoundScales) -> FoundScales:
        """Scales by the left-out error of all rows, from scales of few."""
        return found if len(self.rows) <= _FEW else self.moved(kernel, found, _STEPS[1])

    def from_others(self, kernel: str, found: FoundScales) -> FoundScales:
        """Scales by the left-out error of few rows, from scales of other rows."""
        return self._taken(_FEW).moved(kernel, found, _STEPS[2])

    def spread_out(
        self, kernel: str, found: FoundScales, exponent: float = 1.0, leaves_out: bool = True
    ) -> NDArray[np.float64]:
        """Scales of all inputs, (d,), or a power of them of the same median distance.

        Of many inputs, 0 for inputs without which hardly a kernel entry changes, if ``leaves_out``.
        """
        scales = found.scales[self.ties]
        power = 1 if _KERNELS[kernel].metric == "cityblock" else 2
        apart = np.abs(self.rows - np.roll(self.rows, 1, axis=0)) ** power
        shares: NDArray = np.bincount(self.ties, apart.mean(axis=0) * scales**power)
        if leaves_out and len(scales) > _FEW_INPUTS:
            kept = shares >= _LEAST_SHARE[power] * shares.sum()
            scales = scales * kept[self.ties]
        if exponent == 1:
            return scales
        plain, other = (
            at_unit_distance(self.rows, s, _KERNELS[kernel].metric)
            for s in (scales, scales**exponent)
        )
        return other * float(scales.max() / plain.max())

    def _taken(self, most: int) -> LeftOutSearch:
        weights = None if self.weights is None else self.weights[:most]
        weights = None if weights is None else weights / weights.mean()
        return LeftOutSearch(self.rows[:most], self.target[:most], weights, self.ties)

    def moved(self, kernel: str, found: FoundScales, steps: int) -> FoundScales:
        """Scales of less left-out error, so many steps away from scales that were found."""
        target = self.target - np.average(self.target, axis=0, weights=self.weights)
        target = target[:, target.any(axis=0)]
        if not target.size:  # no scales predict constant targets better than others
            return found
        dtype: type[np.floating] = np.float32 if found.ridge > _SINGLE else np.float64
        target = target.astype(dtype)
        numbers, places, labels = self._numbers_and_labels
        criterion = LeftOutOfLabels(
            *(_KERNELS[kernel], self.rows[:, numbers].astype(dtype), target, self.weights, True),
            labels=labels,
        )
        power = _KERNELS[kernel].power
        with flushed_denormals():
            gammas = found.scales[places] ** power
            if steps:
                best = optimum(
                    *(criterion, gammas, found.ridge, places),
                    pull=_PULL,
                    gain=_GAIN,
                    most_steps=steps,
                )
            else:
                value = criterion.value(np.log(np.append(gammas, found.ridge)))
                best = Parameters(gammas, found.ridge, value)
        spread = float(np.sqrt(np.mean(np.average(target**2, axis=0, weights=self.weights))))
        error = float(np.exp(-best.value / len(self.rows))) / spread
        scales = np.empty(self.n_scales)
        scales[places] = best.gamma ** (1 / power)
        return FoundScales(scales, best.ridge, error)

    @property
    def _numbers_and_labels(
        self,
    ) -> tuple[NDArray[np.bool_], NDArray[np.int64], NDArray[np.int64]]:
        """Mask of inputs taken as numbers (d,), scales of numbers and labels, and labels (n, l).

        Few columns of 0 and 1 cost less than pairs of labels.
        """
        counts = np.bincount(self.ties)
        of_labels = np.flatnonzero(counts >= _LEAST_LABELS)
        labels = np.empty((len(self.rows), len(of_labels)), dtype=np.int64)
        for column, place in zip(labels.T, of_labels, strict=True):
            block = self.rows[:, self.ties == place]
            column[:] = np.where(block.any(axis=1), block.argmax(axis=1), -1)
        numbers = counts[self.ties] < _LEAST_LABELS
        return numbers, np.concatenate([self.ties[numbers], of_labels]), labels


def _are_scales(known: Any) -> bool:
    """Whether this is a pair of positive numbers, (p,), and a positive number."""
    if not isinstance(known, Sequence) or len(known) != 2:
        return False
    scales, ridge = np.asarray(known[0]), np.asarray(known[1])
    if scales.ndim != 1 or ridge.ndim or {scales.dtype.kind, ridge.dtype.kind} - set("fiu"):
        return False
    numbers = np.append(scales, ridge)
    return bool((np.isfinite(numbers) & (numbers > 0)).all())


def scales_by_name(known: Mapping[str, float], names: Iterable[str]) -> NDArray[np.float64]:
    """Scales (d,) of columns that bear these names; their median where a name is not known.

    Other rows of a table may have other columns, as words and labels are those of some rows.
    """
    usual = float(np.median(list(known.values())))
    return np.array([known.get(name, usual) for name in names])


def one_of_several(X: NDArray) -> NDArray[np.int64]:
    """Numbers (d,) of inputs, equal for neighbours of 0 and 1 if no row has two 1s in them."""
    binary = ((X == 0) | (X == 1)).all(axis=0)
    numbers, taken = np.zeros(X.shape[1], dtype=np.int64), np.zeros(len(X), dtype=bool)
    for j in range(X.shape[1]):
        ones = X[:, j] == 1
        joins = j > 0 and binary[j] and binary[j - 1] and not (taken & ones).any()
        numbers[j] = numbers[j - 1] + (not joins) if j else 0
        taken = taken | ones if joins else ones
    return numbers


def repeating_rows(X: NDArray, ties: NDArray[np.int64], key: int, most: int) -> NDArray[np.int64]:
    """Places of at most so many rows in random order: any, or some of each of some labels.

    The labels of the column with the most of them decide, where any rows would hardly share one.
    Of a label come few rows, as a table has many labels.
    """
    n, counts = len(X), np.bincount(ties)
    widest = int(counts.argmax())
    n_labels = int(counts[widest])
    is_sparse = n < _WHOLE * n_labels
    if n <= most or not (is_sparse or _SHARED * n_labels > most):
        return np.arange(min(n, most))
    block = X[:, ties == widest]
    labels = np.where(block.any(axis=1), block.argmax(axis=1), n_labels)
    by_label = np.argsort(labels, kind="stable")
    starts = np.searchsorted(labels[by_label], labels[by_label])
    place = np.empty(n, dtype=np.int64)  # of a row among those of its label
    place[by_label] = np.arange(n) - starts
    drawn = Streams(key, np.arange(n_labels + 1)).uniform(1, Slot.PART)[:, 0]
    drawn[n_labels] = 1.0  # rows of no label come last
    return np.lexsort((drawn[labels], place // _WHOLE))[:most]
