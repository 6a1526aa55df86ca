"""Compact features: many features of a base, reduced by a random projection.

Hamid, Xiao, Gittens and DeCoste, Compact random feature maps, ICML 2014.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mercer._array import n_threads
from mercer._state import State
from mercer.designs import Design
from mercer.maps.nested import Nested
from mercer.maps.sketch import SKETCHES, Sketch, sketch_from

__all__ = ["CompactFeatures"]


class CompactFeatures(Nested):
    """Many features of a base, mixed at random into fewer: CRAFT.

    z(x) = S.T f(x) with the features f of the base and a random matrix S that has nothing to do
    with the data and satisfies E[S S.T] = I, so that E[z(x).z(y)] = f(x).f(y). A normal S adds
    the variance ((f(x).f(y))**2 + |f(x)|**2 |f(y)|**2) / n_components to that of the base; a
    subsampled Hadamard transform about the same while D is much larger than l. For stationary
    kernels that is more than ``n_components`` features of the base itself have: the map serves
    bases that need very many features, and comparisons.

    Parameters
    ----------
    base : str or FeatureMap, default="fourier"
        Where the features come from: a name as for :func:`mercer.maps.get`, or a map. Maps given by
        name that know pairs of cosine and sine use those.
    n_components : int, default=256
        Number l of columns.
    kernel : str, Kernel, callable or None, default=None
        Kernel of a base given by name; None takes its own.
    gamma : float, array of shape (d,), "scale" or "median", default="scale"
        Scale of that kernel.
    n_base : int or None, default=None
        ``n_components`` of a base given by name; None means ``4 * n_components``.
    sketch : {"srht", "gaussian"}, default="srht"
        A subsampled randomised Hadamard transform along the features, or normal entries.
    random_state : int, RandomState, Generator or None, default=None
        An integer makes the map reproducible. It also serves a base without one of its own.
    n_jobs : int or None, default=None
        Threads; None means all.

    Attributes
    ----------
    base_ : FeatureMap
        The base, fitted.
    n_features_out_ : int
        l.
    kernel_ : Kernel
        That of the base, if it has one.
    key_ : int
        With it and the base every entry of S is fixed; S is never in memory as a whole.

    Raises
    ------
    ValueError, TypeError
        By ``fit``, if a parameter makes no sense.

    References
    ----------
    Hamid, Xiao, Gittens and DeCoste, Compact random feature maps, ICML 2014.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.maps import CompactFeatures, IdentityMap
    >>> X = np.random.default_rng(0).normal(size=(2, 4000))
    >>> Z = CompactFeatures(IdentityMap(), n_components=1000, random_state=0).fit_transform(X)
    >>> bool(abs(Z[0] @ Z[0] / (X[0] @ X[0]) - 1) < 0.1)
    True
    """

    default_kernel: ClassVar[str] = "gaussian"
    _kept_settings: ClassVar[tuple[str, ...]] = ("sketch",)
    _sketch_: str

    def __init__(
        self,
        base: Any = "fourier",
        n_components: int = 256,
        *,
        kernel: Any = None,
        gamma: float | ArrayLike | str = "scale",
        n_base: int | None = None,
        sketch: str = "srht",
        random_state: Any = None,
        n_jobs: int | None = None,
    ):
        super().__init__(
            base,
            n_components,
            kernel=kernel,
            gamma=gamma,
            n_base=n_base,
            random_state=random_state,
            n_jobs=n_jobs,
        )
        self.sketch = sketch

    def _check_projection(self) -> None:
        sketch_from(self.sketch)

    def _fit_projection(self, pieces: Iterable[tuple[slice, Design]], X: Any) -> None:
        """Nothing is to be found: the key says it all."""

    def _sketch(self) -> Sketch:
        size, threads = self.base_.n_features_out_, n_threads(self.n_jobs)
        return sketch_from(self._sketch_)(self.key_, size, self.n_features_out_, threads)

    def _check_state(self) -> None:
        super()._check_state()
        State(self).one_of("_sketch_", SKETCHES)

    def _project(self, piece: Design) -> NDArray:
        return self._sketch().project(piece)

    def _columns(self, columns: NDArray[np.int64]) -> NDArray[np.float64]:
        return self._sketch().columns(columns)

    def _expand(self, coef: NDArray) -> NDArray:
        return self._sketch().expand(coef)
