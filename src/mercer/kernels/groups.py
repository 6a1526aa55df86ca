"""Kernels of some of the columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from mercer._runtime.arrays import Matrix
from mercer._runtime.random import Streams
from mercer._runtime.rows import Data, PreparedRows
from mercer._runtime.validation import is_listed, matrix
from mercer.kernels.base import Gamma, Kernel

__all__ = ["OfVarying", "On"]


@dataclass(frozen=True)
class On(Kernel):
    """A kernel of some of the columns, ``k(x[columns], y[columns])``; written ``k.on(columns)``.

    Parameters
    ----------
    kernel : Kernel
        Kernel of numbers. An array ``gamma`` has an entry for each of the columns named.
    columns : sequence of int or str
        Positions from 0 on, or names of columns of a data frame, each once.

    Raises
    ------
    TypeError, ValueError
        If ``kernel`` is no kernel of numbers, or ``columns`` is no such sequence.

    Examples
    --------
    A sum of kernels of two groups of columns:

    >>> from mercer.kernels import Gaussian, Laplacian
    >>> kernel = Gaussian(1.0).on([0, 1]) + Laplacian(1.0).on([2])
    >>> kernel([[0.0, 0.0, 0.0]], [[0.0, 0.0, 9.0], [9.0, 9.0, 0.0]]).round(3)
    array([[1., 1.]])
    """

    kernel: Kernel
    columns: Sequence[int | str]

    def __post_init__(self) -> None:
        if not isinstance(self.kernel, Kernel) or self.kernel.takes_text:
            raise TypeError(f"kernel must be a kernel of numbers; got {self.kernel!r}.")
        if not is_listed(self.columns):
            raise TypeError(
                f"columns must be a sequence of positions or names; got {self.columns!r}."
            )
        columns = tuple(c if isinstance(c, str) else _position(c) for c in self.columns)
        if not columns or len(set(columns)) < len(columns):
            raise ValueError(f"columns must name at least one column, each once; got {columns!r}.")
        object.__setattr__(self, "kernel", self.kernel.checked())
        object.__setattr__(self, "columns", columns)

    @property
    def gamma(self) -> Any:
        return self.kernel.gamma

    @property
    def amplitude(self) -> float:  # type: ignore[override]
        return self.kernel.amplitude

    @property
    def unscaled(self) -> Kernel:
        return replace(self, kernel=self.kernel.unscaled)

    @property
    def is_resolved(self) -> bool:
        return self.kernel.is_resolved and not self._names

    @property
    def _names(self) -> list[str]:
        return [column for column in self.columns if isinstance(column, str)]

    def with_gamma(self, gamma: Gamma) -> Self:
        return replace(self, kernel=self.kernel.with_gamma(gamma))

    def placed(self, names: Sequence[Any] | None) -> Self:
        if not self._names:
            return self
        known = [] if names is None else list(names)
        lacking = [name for name in self._names if name not in known]
        if lacking:
            have = f"X has {known}" if known else "X has no names of columns"
            raise ValueError(f"columns must name columns of X; got {lacking[0]!r}, and {have}.")
        places = (known.index(c) if isinstance(c, str) else c for c in self.columns)
        return replace(self, columns=tuple(places))

    def resolve(self, X: Data, sample_weight: NDArray | None = None) -> Self:
        X = X if isinstance(X, PreparedRows) else matrix(X, "X")
        places = self.placed(None)._places(X.shape[1])
        if isinstance(X, PreparedRows):
            own: Any = X.then(lambda rows: rows[:, places])._with(n_columns=len(places))
        else:
            own = X[:, places]
        return replace(self, kernel=self.kernel.resolve(own, sample_weight))

    def frequencies(self, streams: Streams, n_inputs: int) -> NDArray[np.float64]:
        return self._among(0.0, self.kernel.frequencies, streams, n_inputs)

    def widths(self, streams: Streams, n_inputs: int) -> NDArray[np.float64]:
        # Bins without end: the other columns part no rows.
        return self._among(np.inf, self.kernel.widths, streams, n_inputs)

    def _among(
        self, others: float, sample: Any, streams: Streams, n_inputs: int
    ) -> NDArray[np.float64]:
        places = self._places(n_inputs)
        out = np.full((len(streams), n_inputs), others)
        out[:, places] = sample(streams, len(places))
        return out

    def diag(self, X: Matrix) -> NDArray:
        diagonal: NDArray = self.kernel.diag(self._own(matrix(X, "X")))
        return diagonal

    def _fill(self, out: NDArray, X: Matrix, Y: Matrix) -> None:
        x = self._own(X)
        self.kernel._fill(out, x, x if Y is X else self._own(Y))

    def _own(self, X: Matrix) -> Any:
        own: Any = X[:, self._places(X.shape[1])]
        return own if sparse.issparse(own) else np.ascontiguousarray(own)

    def _places(self, n_inputs: int) -> NDArray[np.int64]:
        if self._names:
            raise ValueError(
                f"columns must be positions here; got {self._names[0]!r}, which estimators find "
                "among the columns of a data frame."
            )
        beyond = [place for place in self.columns if place >= n_inputs]  # type: ignore[operator]
        if beyond:
            raise ValueError(
                f"columns must be positions below {n_inputs}, the number of inputs; got "
                f"{beyond[0]}."
            )
        return np.array(self.columns, dtype=np.int64)

    # -- products over inputs ----------------------------------------------------------------------

    @property
    def is_product(self) -> bool:  # type: ignore[override]
        return self.kernel.is_product

    def of_inputs(self, columns: NDArray[np.int64]) -> Kernel:
        """This kernel, whose gamma is a number, for rows of some of its inputs alone."""
        chosen = [int(c) for c in columns]
        shared = [j for j, place in enumerate(self.columns) if place in chosen]
        if not shared:
            return _One()
        inner: Any = self.kernel
        places = tuple(chosen.index(int(self.columns[j])) for j in shared)
        return On(inner.of_inputs(np.array(shared)), places)


class OfVarying(On):
    """A kernel of the columns that vary among the rows of a fit.

    Random numbers of its columns are addressed among these, so that constant columns change none.
    """

    @property
    def places(self) -> NDArray[np.int64]:
        """Positions of the columns."""
        return np.array(self.columns, dtype=np.int64)


@dataclass(frozen=True)
class _One(Kernel):
    """The kernel of columns that another one does not look at: 1 for all rows."""

    def diag(self, X: Matrix) -> NDArray:
        return np.ones(X.shape[0])

    def _fill(self, out: NDArray, X: Matrix, Y: Matrix) -> None:
        out[...] = 1.0


def _position(column: Any) -> int:
    if isinstance(column, bool) or not isinstance(column, (int, np.integer)) or column < 0:
        raise ValueError(f"columns must be positions from 0 on, or names; got {column!r}.")
    return int(column)
