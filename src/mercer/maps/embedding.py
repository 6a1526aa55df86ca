"""The subspace that matters: features of a base, reduced to their leading directions."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from numbers import Integral
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from mercer._runtime.arrays import Matrix, check_setting, n_threads
from mercer._runtime.state import State
from mercer._runtime.validation import integer
from mercer.designs import Design
from mercer.maps._documentation import NESTED, documented
from mercer.maps.nested import Nested
from mercer.maps.sketch import sketch_from

__all__ = ["SubspaceEmbedding"]


@documented(NESTED)
@dataclass(eq=False, repr=False, kw_only=True)
class SubspaceEmbedding(Nested):
    """Projection of many features of a base onto their leading subspace: TEFM-G and TEFM-S.

    z(x) = Q.T f(x) with the features f of the base. The l columns of Q are an orthonormal basis of
    the range of (F.T F)**power F.T S, where F has the base features of the training rows and S is a
    random matrix of l columns, a *sketch*. Hence Z Z.T never exceeds F F.T, and with the kernel
    matrix K

        ||K - Z Z.T|| <= ||K - F F.T|| + ||F (I - Q Q.T)||**2,

    where the last norm is at least the (l + 1)-th singular value of F. For a normal S it is on
    average at most (a + b)**(1 / e), with e = 2 power + 1, any k = l - p, s_i the singular values
    of F, a = (1 + sqrt(k / (p - 1))) s_(k+1)**e and b = 2.72 sqrt(l) / p times the root of the sum
    of s_i**(2 e) over i > k.

    The rows of F are computed in pieces: once to fit, once more for each power, and once for the
    features themselves. They are cached only if they take less than 256 MB.

    A file or pickle of a kernel regressor or classifier with weights w of these features has the
    base and Q w, section 3.1 of the paper, not Q: its ``feature_map_`` is then the base. A pickle
    of the map itself has Q.

    Parameters
    ----------
    {base, n_components, kernel, gamma, n_base, random_state, n_jobs}
    sketch : {"gaussian", "srht"}, default="gaussian"
        Random matrix S: normal entries, or a subsampled randomised Hadamard transform along the
        rows, which is faster if l is large and equally accurate.
    power : int or None, default=None
        Number of multiplications by F.T F, >= 0. Each makes the subspace more accurate and costs
        two products with F. None means 1 for "gaussian" and 0 for "srht", as in the paper.

    Attributes
    ----------
    {base_}
    basis_ : ndarray of shape (D, n_components), float64
        Orthonormal basis Q, for the D columns of the base.
    {n_features_out_, kernel_}
    key_ : int
        Key of the random numbers of the sketch.

    Raises
    ------
    ValueError, TypeError
        At ``fit``, if a parameter is invalid or the base has fewer than l columns.
    MemoryError
        At ``fit``, before allocation, if Q would not fit into memory.

    References
    ----------
    Chen, Yang, King and Lyu, Training-efficient feature map for shift-invariant kernels, IJCAI
    2015, algorithms 1 and 2. Halko, Martinsson and Tropp, Finding structure with randomness, SIAM
    Review 53, 2011, theorem 10.6 and corollary 10.10.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.kernels import Gaussian
    >>> from mercer.maps import RandomFourier, SubspaceEmbedding
    >>> X = np.random.default_rng(0).normal(size=(300, 5))
    >>> F = RandomFourier(gamma=0.1, n_components=60, random_state=0).fit_transform(X)
    >>> Z = SubspaceEmbedding(gamma=0.1, n_components=60, random_state=0).fit_transform(X)
    >>> K = Gaussian(0.1)(X)
    >>> bool(np.linalg.norm(K - Z @ Z.T) < 0.65 * np.linalg.norm(K - F @ F.T))
    True
    """

    sketch: str = "gaussian"
    power: int | None = None

    default_kernel: ClassVar[str] = "gaussian"

    def _check_projection(self) -> None:
        sketch_from(self.sketch)
        self._checked_power()
        shape = (self.base_.n_features_out_, self.n_components)
        if shape[0] < shape[1]:
            raise ValueError(
                f"n_components must be at most the number of columns of the base, {shape[0]}; "
                f"got {shape[1]}."
            )
        check_setting(
            "n_components",
            shape[1],
            lambda count: 32.0 * shape[0] * count,
            f"a basis of {shape[1]} directions in {shape[0]} columns",
            "choose a smaller n_base",
        )

    def _fit_projection(self, pieces: Iterable[tuple[slice, Design]], X: Matrix) -> None:
        self.fit_basis(lambda basis: self.products(pieces, X.shape[0], basis))

    def fit_basis(self, products: Callable[[NDArray | None], NDArray[np.float64]]) -> None:
        """Find the basis, given ``products(None)``, F.T S, and ``products(basis)``, F.T F basis."""
        total = products(None)
        for _ in range(self._checked_power()):
            # Without a new basis the larger directions would drown the smaller ones.
            total = products(_orthonormal(total))
        self.basis_ = _orthonormal(total)

    def products(
        self,
        pieces: Iterable[tuple[slice, Design]],
        n_rows: int,
        basis: NDArray | None,
        start: int = 0,
    ) -> NDArray[np.float64]:
        """F.T S, or F.T F basis, of features in pieces: rows from ``start`` on of ``n_rows``."""
        total = np.zeros((self.base_.n_features_out_, self.n_components))
        if basis is None:
            kind = sketch_from(self.sketch, passing=True)
            sketch = kind(self.key_, n_rows, self.n_components, n_threads(self.n_jobs))
            for rows, piece in pieces:
                sketch.add(total, piece, start + rows.start)
            return total
        for _, piece in pieces:
            device = piece.device
            there = basis if device is None else device.array(basis)  # and what is made of it
            product = piece.rmatvec(piece.matvec(there))
            total += product if device is None else device.host(product)
        return total

    def _checked_power(self) -> int:
        if self.power is None:
            return 1 if self.sketch == "gaussian" else 0
        if isinstance(self.power, (bool, np.bool_)) or not isinstance(self.power, Integral):
            raise TypeError(f"power must be an integer or None; got {self.power!r}.")
        return integer(self.power, "power", least=0)

    def _check_state(self) -> None:
        super()._check_state()
        State(self).array("basis_", (self.base_.n_features_out_, self.n_features_out_), "d")

    def _project(self, piece: Design) -> NDArray:
        return piece.matvec(self.basis_)

    def _columns(self, columns: NDArray[np.int64]) -> NDArray[np.float64]:
        return self.basis_[:, columns]

    def _expand(self, coef: NDArray) -> NDArray:
        return self.basis_ @ coef


def _orthonormal(vectors: NDArray[np.float64]) -> NDArray[np.float64]:
    """An orthonormal basis of a space that contains the columns, as many as there are.

    Signs are chosen so that rounding does not turn a direction around.
    """
    basis, triangle = np.linalg.qr(vectors)
    basis *= np.where(np.diag(triangle) < 0, -1.0, 1.0)
    return basis
