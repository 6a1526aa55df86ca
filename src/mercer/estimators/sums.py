"""Ridge machines by the sums of their equations, to which rows are added and taken out again."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from types import MethodType
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from sklearn.base import is_classifier

from mercer import losses, maps, penalties
from mercer._runtime.array_api import fitted_anywhere
from mercer._runtime.arrays import check_memory
from mercer._runtime.messages import shown
from mercer._runtime.state import State, is_finite
from mercer._runtime.threads import one_blas_thread
from mercer._runtime.validation import is_name
from mercer.designs import Binned, Dense, Design, Sparse
from mercer.equations.factor import Factor
from mercer.estimators.base import FeatureModel
from mercer.estimators.device import on_device
from mercer.estimators.first_batch import fitted_to_first
from mercer.estimators.inputs import MATRIX
from mercer.estimators.preprocessing import TrainingSample, scale_of
from mercer.estimators.state import check_map
from mercer.estimators.targets import Target
from mercer.maps import FeatureMap

__all__ = ["InBatches", "OfBatches", "RowSums"]

_COPIES = 3.0  # matrices of the side of the sums in memory while some are added or solved
_ROUNDING = 1e-9  # largest rounding of a sum, relative to it, after all its rows have left

# Largest negative square of a combination of features of no rows, relative to the squares of all
# rows: features in float32 that come and go differ by about a tenth of it.
_NEGATIVE = 1e-6


@dataclass(frozen=True)
class RowSums:
    """Sums over rows of the weighted products of (z − shift, 1, y), all in float64.

    z are the D features and y the k targets; a shift near the mean of z saves the digits of
    features that are far from 0.
    """

    products: NDArray[np.float64]  # (D + 1 + k, D + 1 + k), symmetric
    shift: NDArray[np.float64]  # (D,); 0 without an intercept and for sparse features
    outputs: tuple[int, ...]  # shape of the target of a row
    intercept: bool
    n_rows: int
    squares: float  # sum of the squares of the weights

    @classmethod
    def of(
        cls,
        pieces: Iterable[tuple[slice, Design]],
        rows: TrainingSample,
        n_columns: int,
        intercept: bool,
        shift: NDArray | None,
    ) -> RowSums:
        """The sums of some rows; ``shift`` is None for the first ones, which determine it."""
        beside = np.column_stack([np.ones(len(rows)), rows.target.astype(np.float64)])
        roots = None if rows.weights is None else np.sqrt(rows.weights)[:, None]
        side = n_columns + beside.shape[1]
        check_memory(
            8.0 * _COPIES * side**2,
            f"sums of products of {n_columns} features",
            lambda room: (
                "use fewer n_components, "
                f"{(room / (8.0 * _COPIES)) ** 0.5 / side:.1%} of them at most"
            ),
        )
        products = np.zeros((side, side))
        for part, design in pieces:
            z: Any = design.tocsr() if isinstance(design, (Binned, Sparse)) else design.toarray()
            if shift is None:
                is_far = intercept and isinstance(design, Dense)
                shift = z.mean(axis=0, dtype=np.float64) if is_far else np.zeros(n_columns)
            if sparse.issparse(z) and not shift.any():
                z = sparse.hstack([z.astype(np.float64), beside[part]], format="csr")
                z = z if roots is None else z.multiply(roots[part]).tocsr()
                products += (z.T @ z).toarray()
                continue
            z = z.toarray() if sparse.issparse(z) else z
            z = np.hstack([z - shift, beside[part]])
            if roots is not None:
                z *= roots[part]
            products += z.T @ z  # BLAS knows the symmetry
        if not is_finite(products):
            raise ValueError("X and y must be small enough for finite sums of their products.")
        squares = float(len(rows) if rows.weights is None else np.sum(np.square(rows.weights)))
        first = np.zeros(n_columns) if shift is None else shift
        return cls(products, first, rows.target.shape[1:], intercept, len(rows), squares)

    def plus(self, other: RowSums, sign: int = 1) -> RowSums:
        """The sums of the rows of both."""
        n_rows, squares = self.n_rows + sign * other.n_rows, self.squares + sign * other.squares
        products = self.products + sign * other.products
        return replace(self, products=products, n_rows=n_rows, squares=max(squares, 0.0))

    def minus(self, other: RowSums) -> RowSums:
        """The sums without rows, which are refused if they cannot be among them."""
        left = self.plus(other, -1)
        if left.n_rows < 1 or left.weight <= _ROUNDING * self.weight:
            raise ValueError(
                "X must have fewer rows, of less weight, than are in the sums, "
                f"{self.n_rows} of weight {self.weight:g}; got {other.n_rows} of weight "
                f"{other.weight:g}: begin anew with sklearn.base.clone to be without any."
            )
        if not _are_sums(left.products, np.diagonal(self.products)):
            raise ValueError(
                "X, y and sample_weight must be those of rows that partial_fit has taken; without "
                f"these {other.n_rows} rows the sums are those of no rows."
            )
        return left

    @property
    def weight(self) -> float:
        """The sum of the weights."""
        return float(self.products[len(self.shift), len(self.shift)])

    @property
    def total_weight(self) -> float:
        """The sum of the weights as a fit counts it: at least their effective number."""
        shares = self.weight / self.squares if self.squares else 1.0
        return self.weight * max(1.0, shares)

    def solution(self, alpha: float) -> tuple[NDArray[np.float64], NDArray[np.float64], float]:
        """Weights (D,) or (D, k), constants () or (k,), and the relative norm of the gradient."""
        n_columns, weight = len(self.shift), self.weight
        of_weights = self.products[:n_columns] / weight
        matrix = np.ascontiguousarray(of_weights[:, :n_columns])
        means, rhs = of_weights[:, n_columns], of_weights[:, n_columns + 1 :]
        of_targets = self.products[n_columns, n_columns + 1 :] / weight
        if self.intercept:  # eliminated by centring
            matrix -= np.outer(means, means)
            rhs = rhs - np.outer(means, of_targets)
        matrix[np.diag_indices(n_columns)] += alpha
        factor = Factor(matrix, overwrite=True)

        def residual(w: NDArray[np.float64]) -> NDArray[np.float64]:
            product = of_weights[:, :n_columns] @ w + alpha * w
            return rhs - product + (np.outer(means, means @ w) if self.intercept else 0.0)

        w = factor.solve(rhs)
        w += factor.solve(residual(w))
        sizes, left = np.linalg.norm(rhs, axis=0), np.linalg.norm(residual(w), axis=0)
        optimality = np.divide(left, sizes, out=np.zeros(len(sizes)), where=sizes > 0)
        constant = of_targets - (means + self.shift) @ w if self.intercept else 0.0 * of_targets
        shape = (n_columns, *self.outputs)
        return w.reshape(shape), constant.reshape(self.outputs), float(optimality.max())


def _are_sums(products: NDArray[np.float64], before: NDArray[np.float64]) -> bool:
    """Whether some rows have these sums: no combination of their numbers has negative squares.

    Rounding is relative to the squares ``before`` some rows have left.
    """
    scale = np.sqrt(np.where(before > 0, before, 1.0))
    matrix = products / scale / scale[:, None]
    matrix[np.diag_indices(len(matrix))] += _NEGATIVE
    return Factor(matrix, overwrite=True, eigenvectors=False).regular


class _Solved:
    """An attribute of a model that the first look at it finds from the sums of its rows."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, model: Any, owner: type | None = None) -> Any:
        if model is None:
            return self
        if "_sums_" not in vars(model):
            kind = type(model).__name__
            raise AttributeError(f"{kind!r} object has no attribute {self._name!r}")
        vars(model).update(model._solution())
        return vars(model)[self._name]


class OfBatches:
    """A method of models that keep sums of their rows; else its AttributeError gives the remedy."""

    def __init__(self, method: Callable[..., Any]):
        self._method = fitted_anywhere(method)
        self.__doc__ = method.__doc__

    def __get__(self, model: Any, owner: type) -> Any:
        if model is None:
            return self._method
        if not model._keeps_sums:
            raise AttributeError(
                f"{self._method.__name__} needs rows in this process: mercer."
                f"{type(model).__name__} has it."
            )
        if not _is_fixed(model):
            raise AttributeError(
                f"{self._method.__name__} needs a feature_map that the first rows fix, 'fourier', "
                "'fastfood', 'perceptron', 'linear', 'nystroem', 'ngrams', 'tefm' or "
                f"RandomBinning with a number of bins; got {shown(model.feature_map)}."
            )
        return MethodType(self._method, model)


class InBatches(FeatureModel):
    """A mixin for ridge machines that take rows in batches, and give them back.

    ``partial_fit`` and ``forget`` change ``_sums_`` in one assignment, so that an interrupt leaves
    the sums before it; the attributes that follow are solved for when one of them is read.
    """

    _sums_: RowSums
    _keeps_sums: ClassVar[bool] = True
    map_coef_: Any = _Solved()
    _intercept_: Any = _Solved()
    converged_: Any = _Solved()
    optimality_: Any = _Solved()

    @OfBatches
    def partial_fit(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Add rows to the model, which then equals a fit to all rows so far.

        The model keeps sums over rows of products of their D features, (D, D) in float64, and
        solves them at the first prediction after a call. In whatever batches and order the rows
        come, coefficients equal the ones of ``fit`` to rounding, with the scaler, the map,
        ``gamma="scale"`` and the landmarks of the first batch. ``alpha`` applies to the mean loss
        of all rows so far.

        Parameters
        ----------
        X : array, data frame or CSR of shape (n_samples, n_features), or texts
            New rows. The first batch determines scales, gamma and landmarks: with fewer than 10
            rows, fewer rows than landmarks, or a constant column, a warning names the remedy.
        y : array of shape (n_samples,) or (n_samples, n_outputs)
        sample_weight : array of shape (n_samples,), default=None
            Weight per row, >= 0; the default is 1.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If a setting or the data are invalid, or the model comes from ``fit``. The loss must be
            "squared", the penalty "l2" and the solver "auto" or "cholesky", without ``alphas``,
            ``gamma_path``, a criterion of ``selection``, ``posterior`` or a device.
        MemoryError
            Before allocation, if the sums would not fit into memory.

        Examples
        --------
        >>> import numpy as np
        >>> from mercer import KernelRegressor
        >>> X = np.random.default_rng(0).uniform(-3, 3, size=(600, 2))
        >>> y, settings = np.sin(X).sum(axis=1), dict(gamma=0.3, scale=False, random_state=0)
        >>> whole = KernelRegressor("fourier", **settings).fit(X, y)
        >>> model = KernelRegressor("fourier", **settings)
        >>> for rows in np.split(np.arange(600), 3):
        ...     model = model.partial_fit(X[rows], y[rows])
        >>> bool(np.allclose(model.predict(X), whole.predict(X)))
        True
        """
        return self._change(X, y, sample_weight)

    @OfBatches
    def forget(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Take rows out again: the model then equals a fit to the remaining rows.

        The scaler, the map and the landmarks of the first batch stay, whatever rows leave. Sums
        keep the rounding of all rows that were ever in them together, so that few rows that remain
        of many have fewer digits.

        Parameters
        ----------
        X, y, sample_weight
            Rows as ``partial_fit`` has taken them, in any batches and order.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If the model has no sums, the data are invalid, the rows have as many rows or as much
            weight as all rows in the sums, or no rows have the sums that are left.

        Examples
        --------
        >>> import numpy as np
        >>> from mercer import KernelRegressor
        >>> X = np.linspace(0, 3, 90)[:, None]
        >>> y, settings = np.sin(X[:, 0]), dict(gamma=1.0, scale=False, alpha=1e-3, random_state=0)
        >>> model = KernelRegressor("fourier", **settings).partial_fit(X, y).forget(X[60:], y[60:])
        >>> rest = KernelRegressor("fourier", **settings).fit(X[:60], y[:60])
        >>> bool(np.allclose(model.predict(X), rest.predict(X)))
        True
        """
        return self._change(X, y, sample_weight, forgets=True)

    def _change(
        self,
        X: Any,
        y: Any,
        sample_weight: Any,
        classes: ArrayLike | None = None,
        forgets: bool = False,
    ) -> Self:
        """Put rows into the sums, or take them out."""
        old: RowSums | None = vars(self).get("_sums_")
        if old is not None:
            self._check_sums()
        elif forgets or hasattr(self, "map_coef_"):
            self._check_fitted()  # says so of an unfitted model
            raise ValueError(
                f"{'forget' if forgets else 'partial_fit'} needs the sums of a model that began "
                "with partial_fit, and fit keeps none: give all rows to partial_fit of "
                "sklearn.base.clone(model)."
            )
        self._check_flags()
        _check_settings(self)
        X, y, weights = self._target_kind.checked(self, X, y, sample_weight, reset=old is None)
        target = self._target_of_batch(y, weights, classes, old is None)
        rows = TrainingSample(X, target.encoded(y, np.float64), weights).weighted()
        outputs, intercept = rows.target.shape[1:], self.fit_intercept
        if old is not None and (old.outputs, old.intercept) != (outputs, intercept):
            raise ValueError(
                f"y and fit_intercept must be as in the first call, with outputs {old.outputs} and "
                f"{old.intercept}; got {outputs} and {intercept}."
            )
        with on_device("cpu"), one_blas_thread(self.n_jobs):
            if old is None:
                prepared, scaled = fitted_to_first(self._map_of_batches(), rows, scale_of(self))
            else:
                prepared, scaled = self._preprocessing, self._preprocessing.scaled(rows.X)
            map_ = prepared.feature_map
            given = rows, map_.n_features_out_, intercept
            new = RowSums.of(map_.designs(scaled), *given, None if old is None else old.shift)
        if old is not None:
            new = old.minus(new) if forgets else old.plus(new)
        penalty = self._resolve_penalty(new.total_weight)
        made: dict[str, Any] = {"_sums_": new, "scaler_": prepared.scaler, "feature_map_": map_}
        made |= {"alpha_": penalty.alpha, "solver_": "cholesky", "n_iter_": 1, "device_": "cpu"}
        made |= target.attributes()
        for name in _SOLVED:  # of the sums before, as long as these are there
            self.__dict__.pop(name, None)
        self.__dict__.update(made)
        return self

    def _target_of_batch(
        self, y: NDArray, weights: NDArray | None, classes: ArrayLike | None, first: bool
    ) -> Target:
        """The target of a batch: that of the first one."""
        return self._target_kind.learned(self, y, weights) if first else self._target

    def _map_of_batches(self) -> FeatureMap:
        """The map of the settings, unfitted, with features whose penalty is that of a fit."""
        map_ = self._stated_map()
        whitens = isinstance(map_, maps.Nystroem) and is_name(self.penalty, "l2")
        return map_.set_params(whiten=True) if whitens else map_

    def _solution(self) -> dict[str, Any]:
        """Attributes that follow from the sums."""
        with one_blas_thread(self.n_jobs):
            w, constant, optimality = self._sums_.solution(self.alpha_)
        values = w.T, self._with_mean(constant), bool(optimality <= self.tol), optimality
        return dict(zip(_SOLVED, values, strict=True))

    def _check_sums(self) -> None:
        """Refuse sums that do not belong to the map."""
        check_map(self)
        sums, n_columns = State(self).instance("_sums_", RowSums), self.feature_map_.n_features_out_
        state = State(sums)
        state.array("shift", (n_columns,), "d")
        counts = [k for k in state.instance("outputs", tuple) if isinstance(k, int) and k > 0]
        state.check("outputs", "be () or (k,)", sums.outputs == tuple(counts[:1]))
        side = n_columns + 1 + sum(counts or [1])
        state.array("products", (side, side), "d")
        state.flag("intercept")
        state.integer("n_rows", 1)
        state.number("squares", 0.0)
        state.check("products", "have a weight above 0", sums.weight > 0)

    def _check_state(self) -> None:
        if "_sums_" in vars(self):
            self._check_sums()
        super()._check_state()


_SOLVED = ("map_coef_", "_intercept_", "converged_", "optimality_")


def _is_fixed(model: Any) -> bool:
    """Whether the first rows fix the map of a model's settings; True for settings to be refused."""
    if is_name(model.feature_map, "auto") or model._input_kind() == MATRIX:
        return False
    with suppress(TypeError, ValueError):
        map_ = maps.get(model.feature_map)
        map_ = maps.get(map_.base) if isinstance(map_, maps.SubspaceEmbedding) else map_
        plain = isinstance(map_, maps.RandomBinning) and is_name(map_.bins, "exact")
        return not (plain or isinstance(map_, (maps.ExactKernel, maps.LocalKernel)))
    return True


def _check_settings(model: Any) -> None:
    """Refuse settings of a fit that sums of products do not serve."""
    allowed: dict[str, tuple[Any, ...]] = {
        "penalty": ("l2",),
        "solver": ("auto", "cholesky"),
        "selection": ("auto", "holdout", "loo"),
        "alphas": (None,),
        "gamma_path": (None,),
        "posterior": (False,),
        "class_weight": (None,),
        "device": (None, "cpu"),
    }
    for name in allowed:
        value = getattr(model, name, allowed[name][0])
        if name == "penalty" and isinstance(value, penalties.L2):
            continue
        if not any(value is each or is_name(value, str(each)) for each in allowed[name]):
            raise ValueError(
                f"{name} must be {' or '.join(map(repr, allowed[name]))} for partial_fit, which "
                f"keeps sums for one direct solution; got {shown(value)}."
            )
    if not losses.get(model.loss).quadratic:
        kind = "Classifier" if is_classifier(model) else "Regressor"
        raise ValueError(
            f"loss must be 'squared' for partial_fit of a {type(model).__name__}; got "
            f"{shown(model.loss)}: DoublySGD{kind} takes other losses in batches."
        )
