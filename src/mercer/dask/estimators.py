"""Kernel regression and classification over the workers of a Dask cluster."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mercer import estimators
from mercer.dask.base import DaskClassifier, DaskRegressor
from mercer.distributed.fitting import fit_machine
from mercer.estimators._documentation import MACHINES, documented, entries

__all__ = ["KernelClassifier", "KernelRegressor"]

_CLUSTER = entries(
    """
    client : distributed.Client or None, default=None
        Client of the cluster. None means the current client of this process or, if there is none, a
        cluster on the cores of this machine.
    checkpoint : str, path or None, default=None
        Folder for the state of block descent. An interrupted fit resumes from it, also in another
        process and with any number of workers.
    client_ : distributed.Client
        Client of the fit; copies and files do not include it.
    n_rebuilt_ : int
        Number of shards whose state was computed again after the loss of a worker.
    n_workers_ : int
        Number of workers at the end of the fit.
    """
)
_DASK = MACHINES | _CLUSTER


@documented(_DASK)
@dataclass(eq=False, repr=False, kw_only=True)
class KernelRegressor(DaskRegressor, estimators.KernelRegressor):  # type: ignore[misc]
    """:class:`mercer.KernelRegressor`, fitted by the workers of a Dask cluster.

    Rows and features stay on their workers, which send sums over rows; only ``"exact"`` sends all
    rows to the client and to every worker. Coefficients equal those of the local fit up to
    rounding, or within ``tol`` where a solver iterates.

    Parameters
    ----------
    {feature_map, kernel, gamma, n_components, loss, penalty, alpha, l1_ratio, solver}
    {fit_intercept, scale, tol, max_iter, n_jobs, random_state, warm_start, alphas, gamma_path}
    {selection}
    validation_fraction : float, default=0.2
        Share of the rows held out for ``selection="holdout"``, above 0 and below 1.
    posterior : bool, default=False
        True raises an error: only :class:`mercer.KernelRegressor` supports it.
    {client, checkpoint}

    Attributes
    ----------
    {client_, feature_map_, scaler_, map_coef_, coef_, intercept_, solver_, n_iter_, converged_}
    {optimality_, trace_, alpha_}
    path_ : dict of arrays of shape (n_alphas, ...)
        Solutions and scores as in the local model, only with ``alphas``.
    {gamma_path_, n_rebuilt_, n_workers_, n_features_in_}

    Raises
    ------
    {ValueError, MemoryError, KeyboardInterrupt}

    Examples
    --------
    >>> import dask.array as da  # doctest: +SKIP
    >>> from distributed import Client  # doctest: +SKIP
    >>> from mercer.dask import KernelRegressor  # doctest: +SKIP
    >>> client = Client("tcp://scheduler:8786")  # doctest: +SKIP
    >>> X = da.random.uniform(-3, 3, size=(10**7, 5), chunks=(10**6, 5))  # doctest: +SKIP
    >>> model = KernelRegressor().fit(X, da.sin(X).sum(axis=1))  # doctest: +SKIP
    >>> model.predict(X).mean().compute()  # doctest: +SKIP
    """

    client: Any = None
    checkpoint: Any = None
    _local_class = estimators.KernelRegressor

    def _fit_local(self, engine: Any) -> Any:
        return fit_machine(self._new_local(), engine, checkpoint=self.checkpoint)


@documented(_DASK)
@dataclass(eq=False, repr=False, kw_only=True)
class KernelClassifier(DaskClassifier, estimators.KernelClassifier):
    """:class:`mercer.KernelClassifier`, fitted by the workers of a Dask cluster.

    Rows and features stay on their workers, which send sums over rows; only ``"exact"`` sends all
    rows to the client and to every worker. Coefficients equal those of the local fit up to
    rounding, or within ``tol`` where a solver iterates. A worker need not have rows of every class.

    Parameters
    ----------
    {feature_map, kernel, gamma, n_components}
    loss : str or a loss, default="squared"
        "squared", "logistic", "hinge", "squared_hinge", "smooth_hinge", "multinomial" or "sigmoid".
    {penalty, alpha, l1_ratio, solver, fit_intercept, scale, tol, max_iter, n_jobs, random_state}
    {warm_start, alphas, gamma_path, selection}
    validation_fraction : float, default=0.2
        Share of the rows of each class held out for ``selection="holdout"``, above 0 and below 1.
    {class_weight}
    scoring : {"loss", "accuracy"}, default="loss"
        Criterion for ``alphas`` and ``gamma_path`` on held-out rows: the least mean loss, or the
        largest weighted share of correct labels.
    {client, checkpoint}

    Attributes
    ----------
    {client_, classes_, feature_map_, scaler_, map_coef_, coef_, intercept_, solver_, n_iter_}
    {converged_, optimality_, trace_, alpha_}
    path_ : dict of arrays of shape (n_alphas, ...)
        Solutions and scores as in the local model, only with ``alphas``.
    {gamma_path_, n_rebuilt_, n_workers_, n_features_in_}

    Raises
    ------
    {ValueError, MemoryError, KeyboardInterrupt}

    Examples
    --------
    >>> import dask.array as da  # doctest: +SKIP
    >>> from mercer.dask import KernelClassifier  # doctest: +SKIP
    >>> X = da.random.normal(size=(10**6, 2), chunks=(10**5, 2))  # doctest: +SKIP
    >>> y = da.where((X**2).sum(axis=1) < 1, "inside", "outside")  # doctest: +SKIP
    >>> model = KernelClassifier(random_state=0).fit(X, y)  # doctest: +SKIP
    >>> model.predict(X[:3]).compute()  # doctest: +SKIP
    """

    client: Any = None
    checkpoint: Any = None
    _local_class = estimators.KernelClassifier

    def _fit_local(self, engine: Any) -> Any:
        return fit_machine(self._new_local(), engine, checkpoint=self.checkpoint)
