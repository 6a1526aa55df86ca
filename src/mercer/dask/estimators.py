"""Kernel regression and classification over the workers of a Dask cluster."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mercer import estimators
from mercer.dask._documentation import REBUILT, documented_as
from mercer.dask.base import DaskClassifier, DaskRegressor
from mercer.distributed.fitting import fit_machine

__all__ = ["KernelClassifier", "KernelRegressor"]

_METHOD = """\
Rows and features stay on their workers, which send sums over rows; only ``"exact"`` sends all rows
to the client and to every worker. Coefficients equal those of the local fit up to rounding, or
within ``tol`` where a solver iterates. A worker need not have rows of every class."""


@documented_as(
    estimators.KernelRegressor,
    _METHOD.removesuffix(" A worker need not have rows of every class."),
    ("selection_", "evidence_", "noise_std_", "prior_std_"),
    posterior="""\
posterior : bool, default=False
    True raises an error: standard deviations, covariances and ``sample_y`` need
    :class:`mercer.KernelRegressor`.""",
    **REBUILT,
)
@dataclass(eq=False, repr=False, kw_only=True)
class KernelRegressor(DaskRegressor, estimators.KernelRegressor):  # type: ignore[misc]
    """:class:`mercer.KernelRegressor`, fitted by the workers of a Dask cluster.

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


@documented_as(estimators.KernelClassifier, _METHOD, ("selection_",), **REBUILT)
@dataclass(eq=False, repr=False, kw_only=True)
class KernelClassifier(DaskClassifier, estimators.KernelClassifier):
    """:class:`mercer.KernelClassifier`, fitted by the workers of a Dask cluster.

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
