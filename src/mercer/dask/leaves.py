"""Local kernel machines over the workers of a Dask cluster."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mercer import estimators
from mercer.dask._documentation import documented_as
from mercer.dask.base import DaskClassifier, DaskRegressor
from mercer.distributed.leaves import fit_local_machine

__all__ = ["LocalKernelClassifier", "LocalKernelRegressor"]

_METHOD = """\
The first cuts divide the rows into nodes, and the rows of a node move to one worker. A node is a
task of one thread, which grows the rest of the tree and solves the leaves. A task lost with its
worker runs again. The model equals that of one machine up to rounding and ``tol`` of Newton's
method. With more than 262 144 rows, a random sample of that size determines the first cuts, as in a
fit through files. The model stores all rows: in the memory of the client, or in files if they do
not fit."""


@documented_as(
    estimators.LocalKernelRegressor,
    _METHOD,
    ("evidence_",),
    selection="""\
selection : {"holdout"}, default="holdout"
    Choice of ``alphas``: on held-out rows.""",
)
@dataclass(eq=False, repr=False, kw_only=True)
class LocalKernelRegressor(DaskRegressor, estimators.LocalKernelRegressor):  # type: ignore[misc]
    """:class:`mercer.LocalKernelRegressor`, whose leaves the workers of a Dask cluster solve.

    Examples
    --------
    >>> import dask.array as da  # doctest: +SKIP
    >>> from mercer.dask import LocalKernelRegressor  # doctest: +SKIP
    >>> X = da.random.uniform(-3, 3, size=(10**6, 5), chunks=(10**5, 5))  # doctest: +SKIP
    >>> model = LocalKernelRegressor().fit(X, da.sin(X).sum(axis=1))  # doctest: +SKIP
    >>> model.predict(X).mean().compute()  # doctest: +SKIP
    """

    client: Any = None
    _local_class = estimators.LocalKernelRegressor

    def _fit_local(self, engine: Any) -> Any:
        return fit_local_machine(self._new_local(), engine)


@documented_as(
    estimators.LocalKernelClassifier, f"{_METHOD} More than two classes are one response each."
)
@dataclass(eq=False, repr=False, kw_only=True)
class LocalKernelClassifier(DaskClassifier, estimators.LocalKernelClassifier):
    """:class:`mercer.LocalKernelClassifier`, whose leaves the workers of a Dask cluster solve.

    Examples
    --------
    >>> import dask.array as da  # doctest: +SKIP
    >>> from mercer.dask import LocalKernelClassifier  # doctest: +SKIP
    >>> X = da.random.normal(size=(10**6, 2), chunks=(10**5, 2))  # doctest: +SKIP
    >>> y = da.where((X**2).sum(axis=1) < 1, "inside", "outside")  # doctest: +SKIP
    >>> model = LocalKernelClassifier(random_state=0).fit(X, y)  # doctest: +SKIP
    >>> model.predict(X[:3]).compute()  # doctest: +SKIP
    """

    client: Any = None
    _local_class = estimators.LocalKernelClassifier

    def _fit_local(self, engine: Any) -> Any:
        return fit_local_machine(self._new_local(), engine)
