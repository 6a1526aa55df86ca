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
    """Random projection of many features of a base to fewer columns: compact features (CRAFT).

    z(x) = S.T f(x) with the features f of the base and a random matrix S, independent of the data,
    with E[S S.T] = I; hence E[z(x).z(y)] = f(x).f(y). A normal S adds the variance
    ((f(x).f(y))**2 + |f(x)|**2 |f(y)|**2) / n_components to that of the base; a subsampled Hadamard
    transform adds about as much while D is much larger than l. For stationary kernels that variance
    exceeds the one of ``n_components`` features of the base itself: use the map for bases that need
    very many features, and in comparisons.

    Parameters
    ----------
    {base, n_components, kernel, gamma, n_base, random_state, n_jobs}
    sketch : {"srht", "gaussian"}, default="srht"
        Random matrix S: a subsampled randomised Hadamard transform along the features, or normal
        entries.

    Attributes
    ----------
    {base_, n_features_out_, kernel_}
    key_ : int
        Key of the random numbers: with the base it determines S, which is never stored whole.

    Raises
    ------
    {ValueError}

    References
    ----------
    Hamid, Xiao, Gittens and DeCoste, Compact random feature maps, ICML 2014.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.maps import IdentityMap
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
