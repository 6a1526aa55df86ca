"""Covariances of predictions and random draws: ridge machines seen as Gaussian processes."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from mercer._runtime.arrays import check_memory
from mercer._runtime.device_arrays import on_host
from mercer._runtime.random import RandomStateLike, Slot, Streams, key_from
from mercer._runtime.state import State, is_array, is_finite
from mercer._runtime.threads import one_blas_thread
from mercer._runtime.validation import flag, is_name, plus_offset, positive_integer, require_offset
from mercer.equations.posterior import (
    FeatureKernel,
    FeaturePosterior,
    LeafPosterior,
    Posterior,
    RowPosterior,
    gram_of,
    prior_variance,
    square_root,
)
from mercer.estimators._documentation import entries
from mercer.estimators.base import FeatureModel, Listener
from mercer.estimators.plan import FitPlan
from mercer.estimators.preprocessing import TrainingSample
from mercer.maps import ExactKernel, FeatureMap, LocalKernel, Nystroem

__all__ = ["POSTERIOR", "Posteriors"]

POSTERIOR = entries(
    """
    noise_std_ : float or ndarray of shape (n_outputs,)
        Standard deviation of the noise of a target of weight one, in units of y: the part of
        ``predict(X, return_std=True)`` that more rows do not reduce. The standard deviation of the
        function alone is ``sqrt(std**2 - noise_std_**2)``. Computed at first use.
    prior_std_ : float or ndarray of shape (n_outputs,)
        Standard deviation of the function a priori, where k(x, x) = 1, in units of y. Computed at
        first use.
    """
)

_TINY = float(np.finfo(np.float64).tiny)

# The posteriors that were made, by model, with the coefficients that they belong to and the prior
# variance. They live as long as the model and are no part of it: copies and files have none.
_made: WeakKeyDictionary[Any, tuple[NDArray, Posterior, NDArray]] = WeakKeyDictionary()


class Posteriors(FeatureModel):
    """A mixin for regression: predictions with standard deviations or covariances, and draws."""

    alpha_: float
    _total_weight_: float | None  # of the rows of the fit; None where there is no posterior
    _row_weights_: NDArray[np.float64] | None  # None for ones, and for maps that keep no rows
    _posterior_: dict[str, Any]  # of maps that keep no rows, if asked for

    def predict(
        self, X: Any, return_std: bool = False, return_cov: bool = False, offset: Any = None
    ) -> Any:
        """Predicted targets and, if wanted, standard deviations or covariances of new targets.

        Parameters
        ----------
        X : array, data frame or CSR of shape (n_samples, n_features), or texts
        return_std : bool, default=False
            Whether to return also the standard deviation of a new target of weight one at each
            row: of function and noise together. The model is the posterior mean of a Gaussian
            process with prior covariance ``s2 * k``, given targets with independent noise of
            variance ``s2 * alpha_ * sum(w) / w_i``; the weights w are 1 unless given. The prior
            variance s2 is estimated from the leave-one-out errors of the training targets. The
            constant term counts as known. Weights times c describe targets of weight one that are
            c times as noisy beside a given ``alpha``: ``noise_std_`` grows by ``sqrt(c)``, and the
            deviation of the function stays. Without ``alpha``, whose default falls with the sum
            of the weights, ``noise_std_`` stays and the model is surer.
        return_cov : bool, default=False
            Whether to return also the covariance of new targets of weight one at all rows, with
            ``std**2`` on its diagonal. Noise is independent between rows: the covariance of the
            function alone is ``cov - noise_std_**2 * np.eye(n_samples)``. Not for machines of
            leaves.
        offset : array of shape (n_samples,) or float, default=None
            Known parts of the responses. A model that was fitted with an offset needs it; 0
            predicts without them.

        Returns
        -------
        mean : ndarray of shape (n_samples,) or (n_samples, n_outputs)
        std : ndarray of the same shape
            Only with ``return_std``, in units of y.
        cov : ndarray of shape (n_samples, n_samples) or (n_samples, n_samples, n_outputs)
            Only with ``return_cov``, in squared units of y and in float64.

        Raises
        ------
        ValueError
            With ``return_std`` or ``return_cov``, if the loss is not "squared", the penalty is not
            "l2", or the model was fitted without ``posterior=True`` and its map does not store the
            rows; if both are True; or with ``return_cov``, if the model is one of leaves.
        MemoryError
            With ``return_std`` or ``return_cov``, before allocation, if a factor or the covariance
            would not fit into memory.

        Examples
        --------
        >>> import numpy as np
        >>> from mercer import KernelRegressor
        >>> X = np.linspace(0, 3, 30)[:, None]
        >>> model = KernelRegressor("exact", kernel="gaussian").fit(X, np.sin(X[:, 0]))
        >>> mean, cov = model.predict([[1.0], [1.1], [9.0]], return_cov=True)
        >>> cov.shape, bool(cov[0, 1] > abs(cov[0, 2]))  # near rows go together
        ((3, 3), True)
        """
        if flag(return_cov, "return_cov"):
            if flag(return_std, "return_std"):
                raise ValueError(
                    "return_std must be False beside return_cov=True, whose diagonal holds the "
                    "squares of the standard deviations; got return_std=True."
                )
            mean, covariance, prior = self._joint(X, "return_cov=True", offset)
            return mean, np.multiply.outer(covariance, prior)
        if not flag(return_std, "return_std"):
            return super().predict(X, offset=offset)
        self._check_fitted()
        posterior, prior = self._posterior("return_std=True")
        mean = super().predict(X, offset=offset)
        with one_blas_thread(self.n_jobs):
            variances = posterior.variances(self._checked(X), self._preprocessing.scaled)
        std = np.sqrt(np.multiply.outer(variances + self._noise, prior))
        return mean, std.astype(mean.dtype, copy=False)

    def sample_y(
        self,
        X: Any,
        n_samples: int = 1,
        random_state: RandomStateLike = 0,
        offset: Any = None,
    ) -> NDArray:
        """Random draws of new targets of weight one at the rows of X, jointly normal.

        Draws have the mean and the covariance of ``predict(X, return_cov=True)``: of function and
        noise together.

        Parameters
        ----------
        X : array, data frame or CSR of shape (n_rows, n_features), or texts
        n_samples : int, default=1
            Number of draws, at least 1. More draws begin with the same ones.
        random_state : int, RandomState, Generator or None, default=0
            Seed of the draws; None draws others at every call.
        offset : array of shape (n_rows,) or float, default=None
            As for ``predict``.

        Returns
        -------
        ndarray of shape (n_rows, n_samples) or (n_rows, n_outputs, n_samples)
            Draws in units of y and in float64; several outputs are drawn independently.

        Raises
        ------
        ValueError, TypeError
            If ``n_samples`` or ``random_state`` is invalid, or as for ``return_cov=True``.
        MemoryError
            Before allocation, if the covariance or the draws would not fit into memory.

        Examples
        --------
        >>> import numpy as np
        >>> from mercer import KernelRegressor
        >>> X = np.linspace(0, 3, 30)[:, None]
        >>> model = KernelRegressor("exact", kernel="gaussian").fit(X, np.sin(X[:, 0]))
        >>> model.sample_y(X[:5], n_samples=3).shape
        (5, 3)

        Draws of the function without noise, as Thompson sampling takes them:

        >>> mean, cov = model.predict(X, return_cov=True)
        >>> cov -= model.noise_std_**2 * np.eye(len(X))
        >>> np.random.default_rng(0).multivariate_normal(mean, cov, size=3).shape
        (3, 30)
        """
        n_samples, key = positive_integer(n_samples, "n_samples"), key_from(random_state)
        mean, covariance, prior = self._joint(X, "sample_y", offset)
        check_memory(
            24.0 * mean.size * n_samples, f"drawing {n_samples} samples", "use fewer n_samples"
        )
        normal = Streams(key, np.arange(n_samples)).normal(mean.size, Slot.TARGET)
        with one_blas_thread(self.n_jobs):
            draws = np.tensordot(square_root(covariance), normal.T.reshape(*mean.shape, -1), 1)
        return mean[..., None] + np.sqrt(prior)[..., None] * draws

    def _joint(
        self, X: Any, asked: str, offset: Any
    ) -> tuple[NDArray, NDArray[np.float64], NDArray]:
        """Mean (n,) or (n, k), covariance (n, n) in units of the prior variance, and the latter."""
        self._check_fitted()
        if isinstance(self.feature_map_, LocalKernel):
            raise ValueError(
                f"{asked} needs one Gaussian process of all rows; got a {type(self).__name__}, "
                "whose leaves have one each: use KernelRegressor('nystroem', posterior=True)."
            )
        require_offset(self, offset)
        posterior, prior = self._posterior(asked)
        rows = self._checked(on_host(X))
        of_pairs = cast("RowPosterior | FeaturePosterior", posterior)
        with one_blas_thread(self.n_jobs):
            covariance = of_pairs.covariance(rows, self._preprocessing.scaled)
        covariance[np.diag_indices(len(covariance))] += self._noise
        return plus_offset(self._responses_of(rows), offset), covariance, prior

    @property
    def noise_std_(self) -> Any:
        """Standard deviation of the noise of a target of weight one."""
        return np.sqrt(self._prior_variance("noise_std_") * self._noise)[()]

    @property
    def prior_std_(self) -> Any:
        """Standard deviation of the function before any target is known."""
        return np.sqrt(self._prior_variance("prior_std_"))[()]

    def _prior_variance(self, name: str) -> NDArray[np.float64]:
        self._check_fitted()
        try:
            return self._posterior(name)[1]
        except ValueError as error:  # for ``hasattr``
            raise AttributeError(str(error)) from error

    @property
    def _noise(self) -> float:
        """The noise variance of a target of weight one, in units of the prior variance."""
        return self.alpha_ * float(self._total_weight_ or 0.0)

    # -- at fit ------------------------------------------------------------------------------

    def _fit_rows(self, rows: TrainingSample, listener: Listener | None, plan: FitPlan) -> None:
        loss = self._loss_
        wanted = getattr(self, "posterior", False)
        is_gaussian = loss.quadratic and is_name(getattr(self, "penalty", "l2"), "l2")
        if wanted and not is_gaussian:
            raise ValueError(
                "posterior=True needs loss='squared' and penalty='l2'; got "
                f"loss={loss.name!r} and penalty={getattr(self, 'penalty', 'l2')!r}."
            )
        self._total_weight_ = rows.total_weight if is_gaussian else None
        self._row_weights_ = rows.weights
        self.__dict__.pop("_posterior_", None)
        super()._fit_rows(rows, listener, plan)
        map_ = self.feature_map_
        if isinstance(map_, LocalKernel) and map_.landmarks_.shape[0] != len(rows):
            # A fit through files: leaves hold their own rows, in another order.
            self._total_weight_ = self._row_weights_ = None
        if not _keeps_rows(self.feature_map_):
            self._row_weights_ = None
            if wanted:
                self._posterior_ = self._kept(rows)

    def _kept(self, rows: TrainingSample) -> dict[str, Any]:
        """Stand-in for the rows of the fit: products of their features, and the prior."""
        map_, prepare = self.feature_map_, self._preprocessing.scaled
        if isinstance(map_, Nystroem) and map_.normalization_ is None:
            map_ = map_.whitened()
        _check_strength(self.alpha_, "posterior=True")
        kept = {"map": None if map_ is self.feature_map_ else map_, "alpha": float(self.alpha_)}
        shares = None if rows.weights is None else rows.weights / np.mean(rows.weights)
        ridge = float(self.alpha_ * len(rows))
        answers = self._responses_of(rows.X) - self._target_mean_
        residual = (rows.target.astype(np.float64) - answers).reshape(len(rows), -1)
        if len(rows) < map_.n_features_out_:
            X = prepare(rows.X)
            ridges = ridge / (np.ones(len(rows)) if shares is None else shares)
            of_rows = RowPosterior(FeatureKernel(map_, X), X, ridges)
            left_out = of_rows.left_out(residual / ridges[:, None])
            return {**kept, "rows": X, "ridge": ridges, "prior": prior_variance(*left_out)}
        gram = gram_of(map_, rows.X, prepare, shares)
        of_features = FeaturePosterior(map_, gram, ridge)
        left_out = of_features.left_out(rows.X, prepare, residual, shares)
        return {**kept, "gram": gram, "ridge": ridge, "prior": prior_variance(*left_out)}

    # -- at first use ------------------------------------------------------------------------

    def _posterior(self, asked: str) -> tuple[Posterior, NDArray[np.float64]]:
        """The posterior, and the prior variance, () or (k,); ``asked`` begins a refusal."""
        coef, posterior, prior = _made.get(self, (None, None, None))
        if coef is not self.map_coef_ or posterior is None or prior is None:
            with one_blas_thread(self.n_jobs):
                posterior, prior = self._new_posterior(asked)
            prior = prior if self.map_coef_.ndim == 2 else prior[0]
            _made[self] = self.map_coef_, posterior, prior
        return posterior, prior

    def _new_posterior(self, asked: str) -> tuple[Posterior, NDArray[np.float64]]:
        """The posterior and the prior variance (k,)."""
        if vars(self).get("_total_weight_") is None:
            raise ValueError(
                f"{asked} needs a model fitted in memory with loss='squared' and penalty='l2': fit "
                "it again."
            )
        _check_strength(self.alpha_, asked)
        map_ = self.feature_map_
        if not _keeps_rows(map_):
            return self._posterior_of_features(asked)
        coef = self.map_coef_.T.reshape(map_.n_features_out_, -1).astype(np.float64)
        weights = self._row_weights_
        ridges = self._noise / (np.ones(map_.landmarks_.shape[0]) if weights is None else weights)
        if isinstance(map_, LocalKernel):
            leaves = LeafPosterior(map_, ridges)
            return leaves, prior_variance(*leaves.left_out(coef[: len(map_.members_.order)]))
        of_rows = RowPosterior(map_.kernel_, map_.landmarks_, ridges)
        return of_rows, prior_variance(*of_rows.left_out(coef))

    def _posterior_of_features(self, asked: str) -> tuple[Posterior, NDArray[np.float64]]:
        name = type(self.feature_map_).__name__
        kept = vars(self).get("_posterior_")
        if kept is None:
            raise ValueError(
                f"{asked} needs a fit with posterior=True where feature_map_ is a {name}: such a "
                "model keeps no rows."
            )
        if kept["alpha"] != self.alpha_:
            raise ValueError(
                f"{asked} needs a fit with alpha={self.alpha_!r} alone; posterior=True keeps what "
                f"belongs to alpha={kept['alpha']!r}."
            )
        map_ = kept["map"] or self.feature_map_
        if "rows" in kept:
            kernel = FeatureKernel(map_, kept["rows"])
            return RowPosterior(kernel, kept["rows"], kept["ridge"]), kept["prior"]
        return FeaturePosterior(map_, kept["gram"], kept["ridge"]), kept["prior"]

    def _check_state(self) -> None:
        super()._check_state()
        state, made = State(self), vars(self)
        if made.get("_total_weight_") is not None:
            state.number("_total_weight_", 0.0)
        if made.get("_row_weights_") is not None and _keeps_rows(self.feature_map_):
            state.array("_row_weights_", (self.feature_map_.landmarks_.shape[0],), "d", 0.0)
        if "_posterior_" in made:
            _check_kept(self)


class KeptPosterior(SimpleNamespace):
    """Stand-in for the rows of a fit, with the name that error sentences show."""


def _keeps_rows(map_: FeatureMap) -> bool:
    """Whether a model of this map holds the rows of its fit."""
    exact = isinstance(map_, ExactKernel) and map_.normalization_ is None
    return exact or isinstance(map_, LocalKernel)


def _check_strength(alpha: float, asked: str) -> None:
    if not alpha > 0:
        raise ValueError(f"{asked} needs alpha above 0; got {alpha!r}.")


def _check_kept(model: Posteriors) -> None:
    """Raise unless the rows kept of a fit are as the fit left them."""
    state = State(model)
    kept = state.instance("_posterior_", dict)
    rule = "hold the rows of the fit, or products of features, and what belongs to them"
    map_, prior, ridge = kept.get("map"), kept.get("prior"), kept.get("ridge")
    if map_ is not None:
        state.check("_posterior_", rule, isinstance(map_, FeatureMap))
        map_._check_state()
    used = map_ or model.feature_map_
    fit = not (isinstance(used, Nystroem) and used.normalization_ is None)
    fit = fit and (used.takes_text or used.n_features_in_ == model.feature_map_.n_features_in_)
    k = model.map_coef_.shape[0] if model.map_coef_.ndim == 2 else 1
    fit = fit and isinstance(kept.get("alpha"), float) and _are_numbers(prior, (k,), 0.0)
    state.check("_posterior_", rule, fit)
    if "rows" in kept:
        rows = kept["rows"]
        if used.takes_text:
            fit = isinstance(rows, np.ndarray) and rows.dtype == object and rows.ndim == 1
            state.check("_posterior_", rule, fit)
        else:
            State(KeptPosterior(rows=rows)).rows("rows", used.n_features_in_)
        fit = _are_numbers(ridge, (rows.shape[0],), _TINY)
    else:
        fit = isinstance(ridge, float) and ridge > 0
        fit = fit and _are_numbers(kept.get("gram"), 2 * (used.n_features_out_,))
    state.check("_posterior_", rule, fit)


def _are_numbers(value: Any, shape: tuple[int, ...], least: float = -np.inf) -> bool:
    """Whether that is an array of that shape of finite numbers of float64, at least ``least``."""
    return is_array(value, shape, "d") and is_finite(value) and bool(np.all(value >= least))
