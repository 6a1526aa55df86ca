"""Random Fourier features: cosines of random frequencies (Rahimi & Recht, NIPS 2007)."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from mercer import _core
from mercer._array import available_memory, n_threads, row_chunks
from mercer._state import State
from mercer._validation import column_indices, name_from
from mercer.maps.cosines import CosineMap, check_reach
from mercer.maps.frequencies import SAMPLINGS, draw

__all__ = ["RandomFourier"]

# Inputs from which the product takes most of the time, and BLAS as little of it as the core. With
# fewer inputs the threads of BLAS, which spin for a while after every product, slow ours down.
_WIDE = 128


class RandomFourier(CosineMap):
    """Cosines of random frequencies whose inner products approximate a stationary kernel.

    The features are ``sqrt(2/D) cos(w.x + b)`` with frequencies w of the kernel's spectral law and
    random phases b, or pairs ``sqrt(2/D) (cos w.x, sin w.x)``, in columns 2s and 2s + 1 for
    frequency s. Either way E[z(x).z(y)] = k(x, y). With frequencies drawn one by one and
    k2 = k(2(x - y)) the variance is (1 + k2/2 - k**2)/D for the phase form and
    (1 + k2 - 2 k**2)/D for pairs, which have norm 1 exactly; other ways to draw them lower it.

    Parameters
    ----------
    kernel : str or Kernel, default="gaussian"
        Any kernel with a sampler of frequencies, such as "gaussian", "laplacian", "exponential",
        "cauchy" or "matern".
    gamma : float, array of shape (d,), "scale" or "median", default="scale"
        Scale of the kernel.
    n_components : int, default=1000
        Number of columns D; even for pairs.
    form : {"phase", "pair"}, default="phase"
        A column per frequency, or two.
    sampling : {"iid", "orthogonal", "structured", "qmc"}, default="iid"
        How frequencies are drawn. "iid": one by one. "orthogonal": in blocks of d at right angles
        to each other, each with the law of one drawn by itself; kernels of the Euclidean distance
        only. "structured": as "orthogonal", by three products of a Walsh-Hadamard matrix and
        random signs, which is faster to draw but biased for few inputs. "qmc": quantiles of the
        points of a scrambled Sobol' sequence, which fill space more evenly the fewer the inputs;
        they are balanced best when the number of frequencies is a power of two.
    scale : bool, default=True
        False leaves out 1/sqrt(D): columns are then the raw basis, ``sqrt(2) cos(...)``, which does
        not depend on D.
    random_state : int, RandomState, Generator or None, default=None
        An integer makes the map reproducible.
    n_jobs : int or None, default=None
        Threads; None means all.

    Attributes
    ----------
    n_features_out_ : int
        D.
    kernel_ : Kernel
        The kernel with its ``gamma`` as a number.
    key_ : int
        With it and the hyper-parameters every frequency is fixed; pickles hold it instead of the
        frequencies.

    Raises
    ------
    ValueError, TypeError
        By ``fit``, if a parameter makes no sense or the kernel has no spectral sampler.

    References
    ----------
    Rahimi and Recht, Random features for large-scale kernel machines, NIPS 2007.
    Yu, Suresh, Choromanski, Holtmann-Rice and Kumar, Orthogonal random features, NIPS 2016.
    Yang, Sindhwani, Avron and Mahoney, Quasi-Monte Carlo feature maps for shift-invariant kernels,
    ICML 2014.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.maps import RandomFourier
    >>> X = np.array([[0.0, 0.0], [1.0, 0.0]])
    >>> Z = RandomFourier(gamma=0.5, n_components=20_000, random_state=0).fit_transform(X)
    >>> bool(abs(Z[0] @ Z[1] - np.exp(-0.5)) < 0.05)
    True
    """

    _kept_settings: ClassVar[tuple[str, ...]] = ("form", "scale", "sampling")
    _sampling_: str

    def __init__(
        self,
        kernel: Any = "gaussian",
        gamma: float | ArrayLike | str = "scale",
        n_components: int = 1000,
        form: str = "phase",
        *,
        sampling: str = "iid",
        scale: bool = True,
        random_state: Any = None,
        n_jobs: int | None = None,
    ):
        self.kernel = kernel
        self.gamma = gamma
        self.n_components = n_components
        self.form = form
        self.sampling = sampling
        self.scale = scale
        self.random_state = random_state
        self.n_jobs = n_jobs

    def parameters(self, columns: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Frequencies and phases of some columns, regenerated from the key.

        Parameters
        ----------
        columns : array of int of shape (b,)
            Each at least 0 and below D.

        Returns
        -------
        frequencies : ndarray of shape (b, d)
        phases : ndarray of shape (b,)
            Column j is proportional to ``cos(frequencies[j] . x + phases[j])``. In the pair form
            columns 2s and 2s + 1 share a frequency, with phases 0 and -pi/2.
        """
        columns = column_indices(columns, self.n_features_out_)
        return self._frequencies(columns // self._per_stream), self._phases_of_columns(columns)

    def _fit(self, X: Any) -> None:
        name_from(self.sampling, SAMPLINGS, "sampling")
        super()._fit(X)

    def _check_state(self) -> None:
        super()._check_state()
        State(self).one_of("_sampling_", SAMPLINGS)

    # Parameters: regenerated by address; all of them are kept while they are small.

    def _frequencies(self, streams: NDArray[np.int64]) -> NDArray[np.float64]:
        n_streams = max(self._n_streams, int(streams.max(initial=-1)) + 1)
        return draw(
            self._sampling_, self.kernel_, self.key_, streams, n_streams, self.n_features_in_
        )

    def _all_drawn(self) -> Any:
        needed = 8.0 * self._n_streams * self.n_features_in_
        available = available_memory()
        keep = available is None or needed <= available / 8
        return self._drawn(np.arange(self._n_streams)) if keep else None

    def _drawn(self, streams: NDArray[np.int64]) -> tuple[NDArray, NDArray | None]:
        phases = None if self._form_ == "pair" else self._phases(streams)
        return self._frequencies(streams), phases

    # Features.

    def _transform(self, X: Any) -> NDArray:
        self._check_transformed_memory(X)
        out = np.empty((X.shape[0], self.n_features_out_), dtype=X.dtype)
        kept = self._kept
        if kept is not None:
            frequencies, phases = kept
            self._write(X, frequencies, phases, out)
            return out
        for part in row_chunks(self._n_streams, 8.0 * self.n_features_in_):
            drawn = self._drawn(np.arange(part.start, part.stop))
            columns = slice(part.start * self._per_stream, part.stop * self._per_stream)
            width = columns.stop - columns.start
            for rows in row_chunks(X.shape[0], X.dtype.itemsize * width):
                tile = np.empty((rows.stop - rows.start, width), dtype=X.dtype)
                self._write(X[rows], *drawn, tile)
                out[rows, columns] = tile
        return out

    def _features_of(self, X: Any, streams: NDArray[np.int64]) -> NDArray:
        out = np.empty((X.shape[0], self._per_stream * len(streams)), dtype=X.dtype)
        self._write(X, *self._drawn(streams), out)
        return out

    def _write(self, X: Any, frequencies: NDArray, phases: NDArray | None, out: NDArray) -> None:
        """Write the features of these frequencies into ``out``: pairs if there are no phases."""
        amplitude, threads = self._amplitude, n_threads(self.n_jobs)
        frequencies = frequencies.astype(X.dtype, copy=False)
        if frequencies.size:
            highest = max(float(frequencies.max()), -float(frequencies.min()), 1.0)
            check_reach(X, float(np.finfo(X.dtype).max) / X.shape[1] / highest)
        if phases is not None:
            phases = phases.astype(X.dtype, copy=False)
        is_sparse = sparse.issparse(X)
        if not is_sparse and (self.n_jobs is not None or X.shape[1] < _WIDE):
            if phases is None:
                _core.cosine_pairs(X, frequencies, amplitude, out, threads)
            else:
                _core.cosine_block(X, frequencies, phases, amplitude, out, threads)
            return
        directions = np.ascontiguousarray(frequencies.T) if is_sparse else frequencies.T
        for rows in row_chunks(X.shape[0], X.dtype.itemsize * len(frequencies)):
            if phases is None:
                _core.cosine_pairs_from(X[rows] @ directions, amplitude, out[rows], threads)
                continue
            if is_sparse:
                out[rows] = X[rows] @ directions
            else:
                np.matmul(X[rows], directions, out=out[rows])
            _core.cosine_inplace(out[rows], phases, amplitude, threads)
