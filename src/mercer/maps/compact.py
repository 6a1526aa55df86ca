"""Compact features: many features of a base, reduced by a random projection."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from mercer._runtime.arrays import Matrix, n_threads
from mercer._runtime.state import State
from mercer.designs import Design
from mercer.maps._documentation import NESTED, documented
from mercer.maps.nested import Nested
from mercer.maps.sketch import SKETCHES, Sketch, sketch_from

__all__ = ["CompactFeatures"]


@documented(NESTED)
@dataclass(eq=False, repr=False, kw_only=True)
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
    {base, n_components, kernel, gamma, n_base, random_state, n_jobs}
    sketch : {"srht", "gaussian"}, default="srht"
        A subsampled randomised Hadamard transform along the features, or normal entries.

    Attributes
    ----------
    {base_, n_features_out_, kernel_}
    key_ : int
        With it and the base every entry of S is fixed; S is never in memory as a whole.

    Raises
    ------
    {ValueError}

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

    sketch: str = "srht"

    default_kernel: ClassVar[str] = "gaussian"
    _kept_settings: ClassVar[tuple[str, ...]] = ("sketch",)
    _sketch_: str = field(init=False)

    def _check_projection(self) -> None:
        sketch_from(self.sketch)

    def _fit_projection(self, pieces: Iterable[tuple[slice, Design]], X: Matrix) -> None:
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
