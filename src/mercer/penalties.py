"""Penalties: what the weights cost, and how far a gradient is from the optimality condition."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from mercer._runtime.arrays import row_chunks
from mercer._runtime.validation import name_from, number_at_least_0, real_number

__all__ = ["L1", "L2", "ElasticNet", "Penalty", "RKHSNorm", "get", "names"]

_PIECE = 2**18  # bytes of one operand: a few of them fit into the second-level cache


@dataclass(frozen=True)
class Penalty:
    """Ω(w) = l1 ‖w‖₁ + ½ l2 ‖w‖² for weights w of shape (D,) or (D, k), without the intercept.

    A subclass defines the strengths l1 and l2 of the two parts.

    Attributes
    ----------
    alpha : float
        Strength λ, at least 0.
    l1, l2 : float
        Strengths of the absolute values and of the squares.
    name : str
        Name of the penalty in ``penalty=``.
    quadratic : bool
        Whether Ω is ½ alpha ‖w‖².
    linear : bool
        Whether the gradient of Ω is linear in w: with a quadratic loss the minimiser then solves
        linear equations.
    """

    alpha: float = 1.0
    name: ClassVar[str] = ""
    quadratic: ClassVar[bool] = False
    linear: ClassVar[bool] = False
    _l1_share: ClassVar[float]  # of the strength, that the absolute values have

    def __post_init__(self) -> None:
        # A Python float: a NumPy scalar would turn float32 arrays into float64 ones.
        object.__setattr__(self, "alpha", number_at_least_0(self.alpha, "alpha"))

    def check_complete(self) -> None:
        """Refuse a penalty without the matrix that its value needs."""

    @property
    def l1(self) -> float:
        """Strength of ‖w‖₁."""
        return self.alpha * self._l1_share

    @property
    def l2(self) -> float:
        """Strength of ½ ‖w‖²."""
        return self.alpha * (1.0 - self._l1_share)

    def value(self, w: NDArray) -> NDArray:
        """Ω of every output, of shape () or (k,), in float64."""
        total = np.zeros(w.shape[1:])
        if self.l1:
            total += self.l1 * np.sum(np.abs(w), axis=0, dtype=np.float64)
        if self.l2:
            total += 0.5 * self.l2 * np.einsum("i...,i...->...", w, w, dtype=np.float64)
        return total

    def gradient(self, w: NDArray) -> NDArray:
        """Gradient of the smooth part, ½ l2 ‖w‖², in the shape and dtype of w."""
        return self.l2 * w

    def add_gradient(self, gradient: NDArray, w: NDArray) -> None:
        """Add ``gradient(w)`` to an array, piece by piece."""
        if self.l2:
            for rows in row_chunks(len(w), float(w[:1].nbytes), _PIECE):
                gradient[rows] += self.l2 * w[rows]

    def diagonal(self) -> NDArray | float:
        """The diagonal of the second derivative of the smooth part."""
        return self.l2

    def prox(self, v: NDArray, step: float) -> NDArray:
        """argmin_x ½‖x − v‖² + step·Ω(x)."""
        if self.l1:
            v = v - np.clip(v, -step * self.l1, step * self.l1)  # exact zeros
        return v / (1.0 + step * self.l2)

    def violation(self, w: NDArray, gradient: NDArray) -> NDArray:
        """Distance of −gradient (that of the loss part) to ∂Ω(w), coordinate by coordinate."""
        pull = gradient + self.l2 * w
        if not self.l1:
            return np.abs(pull)
        excess = np.maximum(np.abs(pull) - self.l1, 0)
        return np.where(w == 0, excess, np.abs(pull + self.l1 * np.sign(w)))

    def conjugate(self, v: NDArray) -> NDArray:
        """sup_w (v·w − Ω(w)) of every output, of shape () or (k,), in float64.

        Without an l2 part it is 0 where all |v_j| ≤ l1, up to rounding, and infinite elsewhere.
        """
        if self.l2:
            excess = np.maximum(np.abs(v) - self.l1, 0)
            return np.einsum("i...,i...->...", excess, excess, dtype=np.float64) / (2 * self.l2)
        limit = self.l1 * (1 + 4 * float(np.finfo(v.dtype).eps))
        return np.where(np.max(np.abs(v), axis=0, initial=0.0) <= limit, 0.0, np.inf)

    def dual_scale(self, w: NDArray, gradient: NDArray) -> NDArray:
        """Largest share of a dual point, at most 1, that the l1 part allows: () or (k,).

        ``gradient`` is Zᵀa/n for the dual point a that the weights w suggest. At the minimum the
        share is 1; short of it, less of a may give a better bound than all of it.
        """
        reach = np.max(np.abs(gradient + self.l2 * w), axis=0, initial=0.0).astype(np.float64)
        return np.divide(self.l1, reach, out=np.ones_like(reach), where=reach > self.l1)

    def alpha_max(self, gradient: NDArray) -> float:
        """Smallest alpha at which w = 0 is optimal, given the gradient of the loss part there."""
        steepest = float(np.max(np.abs(gradient), initial=0.0))
        if not steepest:
            return 0.0
        return steepest / self._l1_share if self._l1_share else np.inf


@dataclass(frozen=True)
class L2(Penalty):
    """(alpha/2) ‖w‖².

    Parameters
    ----------
    alpha : float, default=1.0
        Strength, >= 0.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.penalties import L2
    >>> L2(alpha=2.0).prox(np.array([3.0]), step=1.0)
    array([1.])
    """

    name: ClassVar[str] = "l2"
    quadratic: ClassVar[bool] = True
    linear: ClassVar[bool] = True
    _l1_share: ClassVar[float] = 0.0


@dataclass(frozen=True)
class L1(Penalty):
    """alpha ‖w‖₁: most weights of a minimiser are exactly zero.

    The strength depends on the scale of the features: features multiplied by c need weights smaller
    by the factor c, with a smaller penalty.

    Parameters
    ----------
    alpha : float, default=1.0
        Strength, >= 0.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.penalties import L1
    >>> L1(alpha=2.0).prox(np.array([3.0, -1.0]), step=1.0)
    array([1., 0.])
    """

    name: ClassVar[str] = "l1"
    _l1_share: ClassVar[float] = 1.0


@dataclass(frozen=True)
class ElasticNet(Penalty):
    """alpha (l1_ratio ‖w‖₁ + ½ (1 − l1_ratio) ‖w‖²).

    Parameters
    ----------
    alpha : float, default=1.0
        Strength, >= 0.
    l1_ratio : float, default=0.5
        Share of the absolute values in the penalty, from 0 to 1.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.penalties import ElasticNet
    >>> ElasticNet(alpha=2.0, l1_ratio=0.5).prox(np.array([3.0, -1.0]), step=1.0)
    array([1., 0.])
    """

    l1_ratio: float = 0.5
    name: ClassVar[str] = "elastic-net"

    def __post_init__(self) -> None:
        super().__post_init__()
        l1_ratio = real_number(self.l1_ratio, "l1_ratio")
        if not 0 <= l1_ratio <= 1:
            raise ValueError(f"l1_ratio must be from 0 to 1; got {self.l1_ratio!r}.")
        object.__setattr__(self, "l1_ratio", l1_ratio)

    @property
    def _l1_share(self) -> float:  # type: ignore[override]
        return self.l1_ratio


@dataclass(frozen=True)
class RKHSNorm(Penalty):
    """(alpha/2) (wᵀM w + jitter ‖w‖²): the squared norm of f(x) = Σ_j w_j k(x, l_j), M = k(L, L).

    With the columns k(X, L) as features the problem is the restricted Nyström machine; with L = X
    it is the exact kernel machine of all rows. In kernel models ``RKHSNorm(alpha, jitter=...)``
    takes the landmarks, kernel and gamma of the model's map. With ``jitter=0`` it is the penalty
    "l2" there, because features that approximate the kernel have ``‖f‖² = ‖w‖²``.

    Parameters
    ----------
    alpha : float, default=1.0
        Strength, >= 0.
    matrix : Design of shape (D, D) or None, default=None
        Matrix M, symmetric and positive semi-definite: ``designs.KernelColumns`` of the landmarks,
        or any other design. None takes the kernel matrix of the landmarks of the model's map.
    jitter : float, default=0.0
        Number added to the diagonal of M for better conditioning, >= 0.

    Raises
    ------
    ValueError
        If ``matrix`` is not square, or ``jitter`` is negative or infinite; for a ``Problem``, if
        ``matrix`` is None.

    References
    ----------
    Tu, Roelofs, Venkataraman and Recht (2016), Large scale kernel learning using block coordinate
    descent, equation (3).

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.designs import Dense
    >>> from mercer.penalties import RKHSNorm
    >>> RKHSNorm(2.0, Dense(np.diag([1.0, 3.0]))).gradient(np.array([1.0, 1.0]))
    array([2., 6.])

    >>> from mercer import KernelRegressor
    >>> X = np.linspace(0, 3, 50)[:, None]
    >>> norm = RKHSNorm(1e-3, jitter=1e-2)
    >>> model = KernelRegressor("nystroem", gamma=2.0, n_components=9, penalty=norm, random_state=0)
    >>> bool(abs(model.fit(X, np.sin(X[:, 0])).predict(X) - np.sin(X[:, 0])).max() < 0.1)
    True
    """

    matrix: Any = field(default=None, repr=False, compare=False)
    jitter: float = 0.0
    name: ClassVar[str] = "rkhs"
    linear: ClassVar[bool] = True
    _l1_share: ClassVar[float] = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        shape = np.shape(self.matrix)
        if self.matrix is not None and (len(shape) != 2 or shape[0] != shape[1]):
            raise ValueError(f"matrix must be square; got shape {shape}.")
        object.__setattr__(self, "jitter", number_at_least_0(self.jitter, "jitter"))

    def check_complete(self) -> None:
        if self.matrix is None:
            raise ValueError(
                "penalty must have the kernel matrix of the landmarks; got RKHSNorm with "
                "matrix=None, which kernel models fill in."
            )

    def product(self, w: NDArray) -> NDArray:
        """(M + jitter I) w."""
        product = self.matrix.matvec(w)
        if self.jitter:
            product += self.jitter * w
        return product

    def value(self, w: NDArray) -> NDArray:
        if not np.any(w):
            return np.zeros(w.shape[1:])
        square = np.einsum("i...,i...->...", w, self.product(w), dtype=np.float64)
        return 0.5 * self.alpha * square

    def gradient(self, w: NDArray) -> NDArray:
        return self.alpha * self.product(w)

    def add_gradient(self, gradient: NDArray, w: NDArray) -> None:
        if self.alpha and np.any(w):
            gradient += self.gradient(w)

    def violation(self, w: NDArray, gradient: NDArray) -> NDArray:
        return np.abs(gradient + self.gradient(w))

    def diagonal(self) -> NDArray:
        """The diagonal of its second derivative."""
        return self.alpha * (np.asarray(self.matrix.diagonal()) + self.jitter)

    def prox(self, v: NDArray, step: float) -> NDArray:
        raise NotImplementedError("RKHSNorm has no prox: its weights are not independent.")

    def conjugate(self, v: NDArray) -> NDArray:
        raise NotImplementedError("RKHSNorm has no conjugate that is cheap.")


PENALTIES: dict[str, type[Penalty]] = {cls.name: cls for cls in (L2, L1, ElasticNet)}


def names() -> list[str]:
    """Names of the penalties that :func:`get` accepts."""
    return list(PENALTIES)


def get(penalty: str | Penalty, alpha: float = 1.0, l1_ratio: float | None = None) -> Penalty:
    """Return a penalty from a name and a strength, or the penalty object given.

    Parameters
    ----------
    penalty : {"l2", "l1", "elastic-net"} or Penalty
        A penalty object has its own alpha and l1_ratio.
    alpha : float, default=1.0
        Strength of a penalty given by name, at least 0.
    l1_ratio : float or None, default=None
        Share of the absolute values in "elastic-net", from 0 to 1; None means 0.5. Leave it out
        for other penalties.

    Raises
    ------
    ValueError
        If the name is unknown, ``alpha`` or ``l1_ratio`` is outside its range, or ``l1_ratio`` is
        given for a penalty without one or with another one.

    Examples
    --------
    >>> from mercer import penalties
    >>> penalties.get("l2", alpha=0.5)
    L2(alpha=0.5)
    """
    stated = getattr(penalty, "l1_ratio", None)
    if isinstance(penalty, Penalty):
        result = penalty
    else:
        make: Callable[..., Any] = PENALTIES[name_from(penalty, PENALTIES, "penalty")]
        if make is ElasticNet and l1_ratio is not None:
            return ElasticNet(alpha, l1_ratio)
        result = make(alpha)
    if l1_ratio is not None and real_number(l1_ratio, "l1_ratio") != stated:
        raise ValueError(f"l1_ratio must be left out beside {result!r}; got {l1_ratio!r}.")
    return result
