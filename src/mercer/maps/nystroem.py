"""Nyström features: the kernel against a few landmarks, whitened or as it is."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray
from scipy import linalg

from mercer._runtime.arrays import Matrix, check_setting, n_threads, row_chunks
from mercer._runtime.config import device_in_force
from mercer._runtime.devices import Device
from mercer._runtime.random import RandomStateLike
from mercer._runtime.rows import Data, PreparedRows
from mercer._runtime.state import State
from mercer._runtime.threads import multiply_rows_in_place, on_strips
from mercer._runtime.validation import flag, float_type, matrix, name_from, positive_integer
from mercer.designs import Design, kernel_columns
from mercer.designs.kernel_rows import in_core
from mercer.kernels import Kernel
from mercer.kernels.text import checked_texts
from mercer.maps import landmarks as choices
from mercer.maps.base import FeatureMap
from mercer.maps.landmarks import wide
from mercer.maps.products import Groups, ProductForm, form_of_kernel

__all__ = ["Nystroem"]

_DEFAULT_COMPONENTS = 500

# Norm of a column of weights up to which float32 features have an error below 1e-6: the norm
# multiplies the rounding error of the kernel.
_TAME = 40.0

# Norm of coefficients without whitening up to which predictions have an error below 1e-5.
_TAME_WEIGHTS = 400.0

_CHOICES = ("uniform", "kmeans", "leverage", "rpcholesky")

# Eigenvalues of the landmarks' kernel matrix below this fraction of the largest are rounding error.
_CUT_OFF = 1e-12

# Size of a negative eigenvalue, relative to the largest, that exceeds rounding even in float32.
_INDEFINITE = 1e-4


class Nystroem(FeatureMap):
    """Nyström features: whitened kernel values at landmarks L, z(x) = k(x, L) T, T T.T = k(L, L)^+.

    T is lower triangular; eigenvalues of k(L, L) below 1e-12 of the largest are left out. Hence
    Z Z.T = k(X, L) k(L, L)^+ k(L, X), which never exceeds the kernel matrix and equals it on the
    landmarks. T and the features are computed in float64, and the features returned in the dtype of
    X. If T is well conditioned enough, the features of float32 rows are computed in float32.

    Parameters
    ----------
    kernel : {"gaussian", "laplacian", "exponential", "cauchy"}, Kernel or callable, \
default="gaussian"
        Kernel of the features. A callable takes two data matrices and returns the kernel matrix.
    gamma : float, array of shape (d,), "scale" or "median", default="scale"
        Factor of the distance in the kernel, > 0; leave it out if ``kernel`` is a callable.
    n_components : int or None, default=None
        Number of landmarks; None means 500, or all landmarks given. The number of columns D is
        smaller if landmarks are redundant.
    landmarks : {"uniform", "kmeans", "leverage", "rpcholesky"} or array of shape \
(n_components, d), default="uniform"
        Choice of the landmarks, or the landmarks themselves. "uniform": rows drawn without
        replacement, at no cost. "leverage": rows drawn by estimated ridge leverage scores, in
        several times the time of a transform. "rpcholesky": rows drawn one after another in
        proportion to the residual diagonal of the kernel matrix, which approximates best; needs
        memory for n times ``n_components`` float64 numbers at ``fit``. "kmeans": cluster centres,
        which are dense even if X is sparse. For "uniform" and "rpcholesky" with one seed, fewer
        landmarks are a subset of more.
    whiten : bool, default=True
        Whether features are whitened. Without whitening z(x) = k(x, L), whose inner products do not
        approximate the kernel; the design stores no features, and estimators penalise the squared
        norm of the function, wᵀ k(L, L) w, for ``penalty="l2"``. The fitted model is the same.
    random_state : int, RandomState, Generator or None, default=None
        Seed of the landmarks; an int makes the map reproducible.
    n_jobs : int or None, default=None
        Number of threads of the design; None means all. Kernels use the threads of the linear
        algebra library.

    Attributes
    ----------
    landmarks_ : array or CSR of shape (n_components, d)
        Landmarks L.
    normalization_ : ndarray of shape (n_components, D), float64
        Whitening matrix T; None without whitening.
    n_features_out_ : int
        Number of columns D.
    kernel_ : Kernel
        Fitted kernel, with its ``gamma`` as a number.
    key_ : int
        Key of the random numbers that choose the landmarks.

    Raises
    ------
    ValueError, TypeError
        At ``fit``, if a parameter is invalid.

    Warns
    -----
    UserWarning
        If there are fewer rows than ``n_components``; all rows are then landmarks.

    References
    ----------
    Williams and Seeger, Using the Nyström method to speed up kernel machines, NIPS 2000. Zhang,
    Tsang and Kwok, Improved Nyström low-rank approximation and error analysis, ICML 2008. Musco and
    Musco, Recursive sampling for the Nyström method, NeurIPS 2017. Chen, Epperly, Tropp and Webber,
    Randomly pivoted Cholesky, CPAM 2024.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.kernels import Gaussian
    >>> from mercer.maps import Nystroem
    >>> X = np.linspace(0, 1, 50)[:, None]
    >>> Z = Nystroem(gamma=1.0, n_components=10, random_state=0).fit_transform(X)
    >>> bool(abs(Z @ Z.T - Gaussian(gamma=1.0)(X)).max() < 1e-6)
    True
    """

    default_kernel: ClassVar[str] = "gaussian"
    _fitted_by: ClassVar[str] = "landmarks_"
    normalization_: NDArray[np.float64] | None

    def __init__(
        self,
        kernel: Any = "gaussian",
        gamma: float | ArrayLike | str = "scale",
        n_components: int | None = None,
        landmarks: Matrix | str = "uniform",
        whiten: bool = True,
        *,
        random_state: RandomStateLike = None,
        n_jobs: int | None = None,
    ):
        self.kernel = kernel
        self.gamma = gamma
        self.n_components = n_components
        self.landmarks = landmarks
        self.whiten = whiten
        self.random_state = random_state
        self.n_jobs = n_jobs

    def bytes_per_row(self, dtype: DTypeLike) -> float:
        given = 0.0 if self.takes_text else super().bytes_per_row(dtype)
        if self.normalization_ is None:  # the design makes the kernel in tiles of its own
            return given
        # The kernel against the landmarks and its product are float64 whatever the data are.
        return given + 8.0 * (self.landmarks_.shape[0] + 2 * self.n_features_out_)

    @property
    def takes_text(self) -> bool:
        fitted = vars(self).get("kernel_")
        return (fitted if isinstance(fitted, Kernel) else self.stated_kernel()).takes_text

    @property
    def n_features_out_(self) -> int:  # type: ignore[override]
        if self.normalization_ is None:
            return self.landmarks_.shape[0]
        return self.normalization_.shape[1]

    @property
    def _goes_by_rows(self) -> bool:
        return True

    def _check_state(self) -> None:
        state = State(self)
        if self._check_kernel().takes_text:
            texts = state.value("landmarks_")
            state.check("landmarks_", "be an array of texts", _are_texts(texts))
        else:
            state.rows("landmarks_", state.integer("n_features_in_", 1))
        if state.value("normalization_") is not None:
            state.array("normalization_", (self.landmarks_.shape[0], None), "d")

    def folded(self, coef: NDArray) -> tuple[FeatureMap, NDArray]:
        if self.normalization_ is None:
            return _folded_span(self, coef)
        # The weights of the landmarks are large and cancel, so they stay inside, in float64: the
        # features of the simpler map are the responses.
        weights = self.normalization_ @ coef.astype(np.float64)
        simpler = _alike(self)
        simpler.normalization_ = weights if weights.ndim == 2 else weights[:, None]
        identity = np.eye(simpler.n_features_out_, dtype=coef.dtype)
        return simpler, identity if weights.ndim == 2 else identity[0]

    def product_form(self, coef: NDArray, groups: Groups, background: Matrix) -> ProductForm | None:
        if self.normalization_ is not None:
            coef = self.normalization_ @ coef
        return form_of_kernel(self.kernel_, self.landmarks_, coef, groups)

    def whitened(self) -> Nystroem:
        """A fitted copy with ``whiten=True``: of the same landmarks, which it shares."""
        self._check_fitted()
        other = copy.copy(self)
        other.whiten, other.normalization_ = True, self._whitening()
        return other

    def _fit(self, X: Data) -> None:
        n_threads(self.n_jobs)
        if self.n_components is not None:
            positive_integer(self.n_components, "n_components")
        flag(self.whiten, "whiten")
        self.key_ = self._drawn_key()
        self.kernel_ = self._resolved_kernel(X)
        self.landmarks_ = self._chosen_landmarks(X)
        self.normalization_ = self._whitening() if self.whiten else None

    def _checked(self, X: Any, reset: bool) -> Matrix:
        return checked_texts(X, "X") if self.takes_text else super()._checked(X, reset)

    def _whitening(self) -> NDArray[np.float64]:
        m = self.landmarks_.shape[0]
        check_setting(
            "n_components",
            m,
            lambda count: 32.0 * count * count,
            f"the eigenvectors of {m} landmarks",
            "free memory",
        )
        eigenvalues, vectors = linalg.eigh(self.kernel_(wide(self.landmarks_)), driver="evd")
        least, largest = eigenvalues[[0, -1]]
        if not largest > 0 or least < -_INDEFINITE * largest:
            raise ValueError(
                "kernel must be positive definite; its matrix of the landmarks has eigenvalues "
                f"from {least:.3g} to {largest:.3g}."
            )
        kept = eigenvalues > _CUT_OFF * largest
        whitening = vectors[:, kept] / np.sqrt(eigenvalues[kept])
        # A rotation of the features changes no inner product, and a triangle is half the work.
        return np.ascontiguousarray(linalg.qr(whitening.T, mode="r")[0][: whitening.shape[1]].T)

    @property
    def n_wanted(self) -> int:
        """Number of landmarks that the settings ask for."""
        return _DEFAULT_COMPONENTS if self.n_components is None else self.n_components

    def _chosen_landmarks(self, X: Data) -> Matrix:
        if isinstance(self.landmarks, str):
            name = name_from(self.landmarks, _CHOICES, "landmarks")
            n = X.shape[0]
            wanted = self.n_wanted
            if wanted > n and self.n_components is not None:
                warnings.warn(
                    f"n_components={wanted} exceeds the {n} rows of X: every row is a landmark.",
                    UserWarning,
                    stacklevel=4,
                )
            return choices.chosen(name, self.kernel_, X, min(wanted, n), self.key_)
        n_dims = 1 if self.takes_text else 2
        if not hasattr(self.landmarks, "ndim") and np.ndim(self.landmarks) != n_dims:
            name_from(self.landmarks, (*_CHOICES, "an array of them"), "landmarks")
        checked = checked_texts if self.takes_text else matrix
        landmarks = checked(self.landmarks, "landmarks")
        if landmarks.shape[1:] != X.shape[1:]:
            raise ValueError(
                f"landmarks must have as many columns as X, {X.shape[1]}; got {landmarks.shape[1]}."
            )
        if self.n_components not in (None, landmarks.shape[0]):
            raise ValueError(
                f"n_components must be left out beside an array of landmarks, or be its number of "
                f"rows, {landmarks.shape[0]}; got {self.n_components}."
            )
        return landmarks

    def _design(self, X: Data) -> Design:
        if self.normalization_ is None:
            landmarks = self.landmarks_
            design = kernel_columns(X, self.kernel_, landmarks, n_jobs=self.n_jobs)
            # The mean takes longer than the product of a row. The landmarks are kept with it, so
            # that no other array gets their id.
            kept = id(landmarks), design.dtype.char
            design.centres = self._remembered(kept, lambda: (landmarks, {}), "centres")[1]
            return design
        device = self._device_for(X)
        if device is None:
            return super()._design(X)
        from mercer.designs.on_device import DeviceFeatures, DeviceKernel  # which few need

        kind = np.float32 if _is_tame(X, self.landmarks_, self.normalization_) else np.float64
        given = X, self.kernel_, self.landmarks_, kind
        base = DeviceKernel(*given, n_jobs=self.n_jobs, device=device)
        return DeviceFeatures(base, self.normalization_, X.dtype)

    def _device_for(self, X: Data) -> Device | None:
        device = device_in_force()
        if device is None or self.takes_text:
            return None
        rows = X if isinstance(X, PreparedRows) else PreparedRows(X)
        return None if in_core(self.kernel_, rows) is None else device

    def _transform(self, X: Matrix) -> NDArray:
        self._check_transformed_memory(X)
        return self._product(X, self.landmarks_, self.normalization_)

    def _block(self, X: Matrix, columns: NDArray[np.int64]) -> NDArray:
        if self.normalization_ is None and len(columns):
            return self._product(X, self.landmarks_[columns], None)
        if self.normalization_ is None:
            return np.empty((X.shape[0], 0), dtype=float_type(X))
        return self._product(X, self.landmarks_, self.normalization_[:, columns])

    def _product(
        self, X: Matrix, landmarks: Matrix, weights: NDArray[np.float64] | None
    ) -> NDArray:
        """``k(X, landmarks) @ weights``, a bounded number of rows at a time."""
        m = landmarks.shape[0]
        n_columns = m if weights is None else weights.shape[1]
        out = np.empty((X.shape[0], n_columns), dtype=float_type(X))
        is_triangle = weights is not None and _is_triangle(weights)
        if _is_tame(X, landmarks, weights):
            weights = None if weights is None else weights.astype(np.float32)
            as_needed: Callable[[Any], Any] = np.asarray
        else:
            as_needed = wide
        landmarks = as_needed(landmarks)
        weights = None if weights is None else np.ascontiguousarray(weights)
        for rows in row_chunks(X.shape[0], 16.0 * (m + n_columns)):
            block = _kernel_matrix(self.kernel_, as_needed(X[rows]), landmarks)
            out[rows] = block if weights is None else _times(block, weights, is_triangle)
        return out


def _alike(map_: Any) -> Any:
    """A copy of a fitted map without its checks, which take longer than a row, and its cache."""
    copied = object.__new__(type(map_))
    copied.__dict__.update(vars(map_))
    copied.__dict__.pop("_memory", None)
    return copied


def _folded_span(map_: Any, coef: NDArray) -> tuple[Any, NDArray]:
    """``folded`` for maps whose features are the kernel against ``landmarks_``.

    Landmarks without weights are left out; weights so large that they must cancel want float64.
    """
    used = np.flatnonzero(coef if coef.ndim == 1 else coef.any(axis=1))
    if 0 < len(used) < len(coef):
        simpler = _alike(map_)
        simpler.landmarks_ = map_.landmarks_[used]
        map_, coef = simpler, coef[used]
    wide = coef.astype(np.float64, copy=False)  # squares of float32 leave its range
    if coef.dtype == np.float32 and np.linalg.norm(wide, axis=0).max() > _TAME_WEIGHTS:
        return map_, wide
    return map_, coef


def _are_texts(texts: Any) -> bool:
    is_array = isinstance(texts, np.ndarray) and texts.dtype == object and texts.ndim == 1
    return is_array and all(isinstance(text, str) for text in texts)


def _is_tame(X: Matrix, landmarks: Matrix, weights: NDArray[np.float64] | None) -> bool:
    """Whether float32 loses nothing that float32 features could show."""
    if not all(isinstance(one, np.ndarray) and one.dtype == np.float32 for one in (X, landmarks)):
        return False
    return weights is None or np.einsum("ij,ij->j", weights, weights).max(initial=0.0) <= _TAME**2


def _kernel_matrix(kernel: Kernel, X: Matrix, landmarks: Matrix) -> NDArray:
    """``kernel(X, landmarks)`` of checked data, without the checks where both are arrays alike."""
    dense = isinstance(X, np.ndarray) and isinstance(landmarks, np.ndarray)
    if not dense or X.ndim != 2 or X.dtype != landmarks.dtype:
        return kernel(X, landmarks)
    out = np.empty((X.shape[0], landmarks.shape[0]), dtype=X.dtype)
    kernel._fill(out, X, landmarks)
    return out


def _times(block: NDArray, weights: NDArray, is_triangle: bool) -> NDArray:
    """``block @ weights`` by all threads; a lower triangle is half the work, written over block."""
    if is_triangle:
        on_strips(lambda rows: multiply_rows_in_place(block[rows], weights), 0, len(block))
        return block
    out = np.empty((len(block), weights.shape[1]), dtype=block.dtype)
    on_strips(lambda rows: np.matmul(block[rows], weights, out=out[rows]), 0, len(block))
    return out


def _is_triangle(weights: NDArray) -> bool:
    return weights.shape[0] == weights.shape[1] and not np.triu(weights, 1).any()
