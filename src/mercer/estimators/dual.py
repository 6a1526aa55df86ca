"""Support vector machines by their duals, with all the kernel and no feature map."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import validate_data

from mercer import kernels
from mercer._runtime.arrays import Matrix, row_chunks
from mercer._runtime.progress import Iterations, is_heard
from mercer._runtime.sparse import canonical_csr
from mercer._runtime.state import Checked, State
from mercer._runtime.threads import one_blas_thread
from mercer._runtime.validation import (
    flag,
    is_listed,
    is_name,
    is_plain,
    name_from,
    positive_number,
)
from mercer.estimators._documentation import SHARED, documented
from mercer.estimators.base import raise_if_interrupted
from mercer.estimators.inputs import float_types, naming_remedy
from mercer.estimators.preprocessing import Preprocessing, Scale, fit_scaler, scale_of
from mercer.estimators.state import check_classes, check_coefficients, check_scaler
from mercer.estimators.targets import checked_labels, class_weights, coded, winners
from mercer.solvers.dual import BoxDual, DualResult, DualSolver, PairwiseCD

__all__ = ["DualKernelSVC"]

_DUALS = {"hinge": BoxDual.hinge, "squared_hinge": BoxDual.squared_hinge}

# Error that rounding may leave in responses, in units of the margin.
_ENOUGH = 3e-3


@documented(SHARED)
@dataclass(eq=False, repr=False)
class DualKernelSVC(Checked, ClassifierMixin, BaseEstimator):
    """A support vector machine with the exact kernel, solved by several threads.

    Minimises ``|f|**2 / 2 + C sum_i loss(y_i f(x_i))`` over the functions of the kernel's space.
    Time grows with the square of the number of rows: from about 10 000 rows on,
    :class:`KernelClassifier` is faster. With more than two classes there is one machine per class,
    fitted one against all others; the machines share kernel rows.

    Parameters
    ----------
    kernel : str, kernel, callable or "precomputed", default="gaussian"
        Kernel: a name of :func:`mercer.kernels.get`, an object or a function. With "precomputed", X
        is the kernel matrix (for predictions: of new rows and training rows) and is not scaled.
    {gamma}
    C : float, default=1.0
        Weight of the losses, > 0.
    loss : {"hinge", "squared_hinge"}, default="hinge"
        Loss of a row with margin v: ``max(0, 1 - v)`` or its square.
    solver : {"pairs"}, default="pairs"
        "pairs" is sequential minimal optimisation within working sets, with an unpenalised
        intercept, as in scikit-learn's SVC.
    {class_weight, scale}
    cache_size : float, default=200.0
        Size of the cache of kernel rows in megabytes, > 0. It changes times, not results.
    tol : float, default=1e-3
        Stopping tolerance: the largest violation of optimality by a pair of variables.
    max_iter : int, default=10_000_000
        Largest number of updates of a machine; it then stops with a ``ConvergenceWarning``.
    n_jobs : int or None, default=None
        Number of threads; None and -1 mean all that the process may use. Results do not depend on
        it.

    Attributes
    ----------
    {classes_}
    support_ : ndarray of shape (n_SV,)
        Indices of the support vectors: training rows with a coefficient in any machine.
    support_vectors_ : array or CSR of shape (n_SV, n_features)
        Support vectors, scaled; empty for a precomputed kernel.
    n_support_ : ndarray of shape (n_classes,)
        Number of support vectors per class.
    dual_coef_ : ndarray of shape (n_SV,) or (n_classes, n_SV)
        Coefficients: decision values are ``k(x, support_vectors_) . dual_coef_ + intercept_``.
    intercept_ : float or ndarray of shape (n_classes,)
        Constant term of the decision values.
    kernel_ : kernel or "precomputed"
        Fitted kernel, with its ``gamma`` as a number.
    {scaler_}
    objective_, dual_gap_ : float
        Objective, and an upper bound on its distance to the minimum; both summed over the machines.
    n_iter_ : int
        Number of updates, summed over the machines.
    {converged_, n_features_in_}

    Raises
    ------
    {ValueError, KeyboardInterrupt}

    References
    ----------
    Fan, Chen and Lin, Working set selection using second order information for training support
    vector machines, JMLR 2005.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import DualKernelSVC
    >>> X = np.random.default_rng(0).normal(size=(500, 2))
    >>> y = np.where(np.hypot(*X.T) < 1, "inside", "outside")
    >>> model = DualKernelSVC(C=10.0, n_jobs=1).fit(X, y)
    >>> model.predict([[0.0, 0.0], [2.0, 2.0]]).tolist()
    ['inside', 'outside']
    >>> bool(model.dual_gap_ < 0.01 * model.objective_)
    True
    """

    kernel: str | kernels.Kernel | Callable[..., NDArray] = "gaussian"
    _: KW_ONLY
    gamma: float | ArrayLike | str = "scale"
    C: float = 1.0
    loss: str = "hinge"
    solver: str = "pairs"
    class_weight: dict[Any, float] | str | None = None
    scale: Scale = True
    cache_size: float = 200.0
    tol: float = 1e-3
    max_iter: int = 10_000_000
    n_jobs: int | None = None

    kernel_: Any = field(init=False)
    _fitted_by: ClassVar[str] = "dual_coef_"

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = not self._is_precomputed()
        tags.input_tags.pairwise = self._is_precomputed()
        return tags

    def fit(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Fit the model.

        Parameters
        ----------
        X : array, data frame or CSR of shape (n_samples, n_features), or (n_samples, n_samples)
        y : array of shape (n_samples,)
            Labels of any type that sorts.
        sample_weight : array of shape (n_samples,), default=None
            Non-negative; multiplied into C.

        Returns
        -------
        self
        """
        self.__dict__.pop("dual_coef_", None)  # of an earlier fit
        C, solver = positive_number(self.C, "C"), self._solver()
        name_from(self.loss, _DUALS, "loss")
        y = checked_labels(type(self).__name__, y)
        X, y = self._checked_pair(X, y)
        weights = class_weights(self.class_weight, sample_weight, X, y)
        self.classes_, labels = coded(y)
        rows, strengths = np.arange(len(y)), np.full(len(y), C)
        if weights is not None:
            rows = np.flatnonzero(weights)
            weights = weights[rows]
            strengths = C * weights
        scaled = self._prepare(X if len(rows) == len(y) else X[rows], rows, weights)
        results = self._solved(solver, scaled, labels[rows], strengths)
        if _rounding(results, np.float32) > _ENOUGH and not results[-1].interrupted:
            # Coefficients so large cancel in sums of kernels: float32 is too short for these.
            scaled = scaled.astype(np.float64)
            if not all(result.exact and result.converged for result in results):
                solver = replace(solver, dtype="float64")
                starts = [result.b for result in results]
                results = self._solved(solver, scaled, labels[rows], strengths, starts)
        self._adopt(results, rows, labels, scaled)
        return self

    def _solved(
        self,
        solver: DualSolver,
        scaled: Matrix,
        labels: NDArray,
        strengths: NDArray,
        starts: list[NDArray] | None = None,
    ) -> list[DualResult]:
        """The machines of all classes, or those before an interruption."""
        machine = solver.prepare(self.kernel_, scaled)
        told = Iterations(type(self).__name__) if is_heard() else None
        results: list[DualResult] = []
        for c in range(1, 2) if len(self.classes_) == 2 else range(len(self.classes_)):
            target = np.where(labels == c, 1.0, -1.0)
            start = None if starts is None else starts[len(results)]
            with warnings.catch_warnings(), one_blas_thread(self.n_jobs):
                warnings.simplefilter("ignore", ConvergenceWarning)
                results.append(machine.solve(_DUALS[self.loss](target, strengths), told, start))
            if results[-1].interrupted:
                break
        return results

    def decision_function(self, X: Any) -> NDArray:
        """Responses of the model: positive for the second of two classes, else one per class.

        Parameters
        ----------
        X : array, data frame or CSR of shape (n_samples, n_features), or (n_samples, n_train)

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_classes)
        """
        self._check_fitted()
        if not is_plain(X, self):
            X, accept = canonical_csr(X), False if self._has_matrix() else "csr"
            options = {"accept_sparse": accept, "dtype": float_types(X), "order": "C"}
            with naming_remedy(self, X):
                X = validate_data(self, X, reset=False, **options)
        out = np.empty((X.shape[0], *self.dual_coef_.shape[:-1]), dtype=X.dtype)
        # Support vectors are float64 where coefficients are so large that they cancel.
        coef = self.dual_coef_.T.astype(np.result_type(X.dtype, self.support_vectors_.dtype))
        for rows in row_chunks(X.shape[0], 8.0 * len(self.support_) + 8.0 * X.shape[1]):
            if self._has_matrix():
                block = X[rows][:, self.support_]
            elif len(self.support_):
                scaled = Preprocessing(self.scaler_).scaled(X[rows]).astype(coef.dtype, copy=False)
                block = self.kernel_(scaled, self.support_vectors_)
            else:
                block = np.zeros((X[rows].shape[0], 0), dtype=X.dtype)
            with one_blas_thread(self.n_jobs):
                out[rows] = block @ coef + np.asarray(self.intercept_, dtype=coef.dtype)
        return out

    def predict(self, X: Any) -> NDArray:
        """Predicted labels: the class of the largest response; ties go to the first class.

        Parameters
        ----------
        X : array, data frame or CSR of shape (n_samples, n_features), or (n_samples, n_train)

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        labels = winners(self.decision_function(X))
        return self.classes_[labels]

    def _prepare(self, X: Matrix, rows: NDArray[np.int64], weights: NDArray | None) -> Matrix:
        """Fix kernel and scaler; the rows, or their kernel matrix, as solvers take them."""
        self.scaler_ = None
        if self._is_precomputed():
            self.kernel_ = "precomputed"
            return np.ascontiguousarray(X[:, rows])
        self.scaler_ = fit_scaler(X, weights, scale_of(self))
        scaled = Preprocessing(self.scaler_).scaled(X)
        self.kernel_ = self._placed_kernel().resolve(scaled, sample_weight=weights)
        return scaled

    def _solver(self) -> DualSolver:
        name_from(self.solver, ("pairs",), "solver")
        return PairwiseCD(self.tol, self.max_iter, self.cache_size, n_jobs=self.n_jobs)

    def _adopt(
        self, results: list[DualResult], rows: NDArray[np.int64], labels: NDArray, scaled: Matrix
    ) -> None:
        """Make the solvers' results the fitted model."""
        n_machines = 1 if len(self.classes_) == 2 else len(self.classes_)
        coef, intercepts = np.zeros((n_machines, len(rows))), np.zeros(n_machines)
        for c, result in enumerate(results):  # not all of them after an interruption
            coef[c], intercepts[c] = result.coef, result.intercept
        used = np.flatnonzero(coef.any(axis=0))
        binary = n_machines == 1
        self.support_ = rows[used]
        self.support_vectors_ = scaled[:0] if self._is_precomputed() else scaled[used]
        self.n_support_ = np.bincount(labels[self.support_], minlength=len(self.classes_))
        self.intercept_ = float(intercepts[0]) if binary else intercepts
        self.dual_coef_ = coef[0, used] if binary else coef[:, used]
        self.objective_ = float(sum(result.objective for result in results))
        self.dual_gap_ = float(sum(result.dual_gap for result in results))
        self.n_iter_ = max(1, sum(result.n_iter for result in results))
        noise = _rounding(results, np.float64)
        self.converged_ = all(result.converged for result in results) and noise <= _ENOUGH
        raise_if_interrupted(results[-1])
        if self.converged_:
            return
        message = (
            f"fit stopped within max_iter={self.max_iter} with a duality gap of "
            f"{self.dual_gap_ / max(self.objective_, 1e-300):.2g} of the objective; raise "
            "max_iter or tol, or lower C."
        )
        if noise > _ENOUGH:
            message = (
                f"rounding in float64 may have changed the responses by {noise:.2g} at "
                f"C={self.C:g}; lower C."
            )
        warnings.warn(message, ConvergenceWarning, stacklevel=3)

    def _is_precomputed(self) -> bool:
        return is_name(self.kernel, "precomputed")

    def _stated_kernel(self) -> kernels.Kernel:
        kernel = kernels.get(self.kernel, self.gamma)
        if kernel.takes_text:
            raise ValueError(f"kernel must be one of rows of numbers; got {kernel!r}.")
        return kernel

    def _placed_kernel(self) -> kernels.Kernel:
        return self._stated_kernel().placed(vars(self).get("feature_names_in_"))

    def _checked_pair(self, X: Any, y: Any) -> tuple[Matrix, NDArray]:
        if not is_listed(self.scale):
            flag(self.scale, "scale")
        X = canonical_csr(X)
        if self._is_precomputed():
            if not (isinstance(self.gamma, str) and self.gamma == "scale"):
                raise ValueError(
                    f"gamma must be left out for a precomputed kernel; got {self.gamma!r}."
                )
            X, y = validate_data(self, X, y, dtype=[np.float64, np.float32], order="C")
            if X.shape[0] != X.shape[1]:
                raise ValueError(
                    f"X must be a square kernel matrix for kernel='precomputed'; got {X.shape}."
                )
        else:
            self._stated_kernel()
            options = {"accept_sparse": "csr", "dtype": float_types(X), "order": "C"}
            with naming_remedy(self, X):
                X, y = validate_data(self, X, y, **options)
        check_classification_targets(y)
        return X, y

    def _has_matrix(self) -> bool:
        """True if the fitted model takes rows of a kernel matrix."""
        return isinstance(self.kernel_, str)

    def _check_state(self) -> None:
        state, d = State(self), State(self).integer("n_features_in_", 1)
        n_vectors = len(state.array("support_", (None,), "l", 0))
        if isinstance(state.value("kernel_"), str):
            state.one_of("kernel_", ("precomputed",))
            state.array("support_", (n_vectors,), "l", 0, d - 1)
            state.instance("scaler_", type(None))
            dtype = getattr(state.value("support_vectors_"), "dtype", None)
            state.check("support_vectors_", "hold floats", getattr(dtype, "kind", "") == "f")
        else:
            kernel = state.instance("kernel_", kernels.Kernel).checked()
            is_scaled = kernel.is_resolved and not kernel.takes_text
            state.check("kernel_", "have its scale in numbers", is_scaled)
            n_rows = state.rows("support_vectors_", d).shape[0]
            state.check("support_", f"have {n_rows} entries", n_vectors == n_rows)
            check_scaler(self)
        check_classes(self, check_coefficients(self, "dual_coef_", n_vectors, "d"))


def _rounding(results: list[DualResult], dtype: DTypeLike) -> float:
    """Error of responses by random rounding of kernels, which are about 1 at most."""
    longest = max(float(np.linalg.norm(result.coef)) for result in results)
    return float(np.finfo(dtype).eps) * longest
