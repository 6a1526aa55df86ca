"""Automatic models over the workers of a Dask cluster."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import is_regressor

from mercer import auto
from mercer._runtime.validation import plus_offset
from mercer.dask._documentation import documented_as
from mercer.dask.base import DaskClassifier, DaskModel, DaskRegressor, column_of
from mercer.dask.packages import package
from mercer.distributed.automatic import fit_automatic

__all__ = ["AutoKernelClassifier", "AutoKernelRegressor"]

_METHOD = """\
The client receives the targets, the weights and the rows of the search, about 100 000, and searches
as on one machine, with the same result. Up to 50 000 rows the model is the exact kernel machine,
fitted by the client. Above, it is a machine of landmarks, of which two workers at a time fit stages
of at most 100 000 rows, or the mean of two local machines, whose leaves the workers solve; that
stores all rows, in memory or in files if they do not fit. The treatment of the columns is fitted to
at most 250 000 rows. Tables must be dense, with at most 2000 columns."""


class _Automatic(DaskModel):
    """Methods that both models share."""

    scoring: Any

    def _fit_local(self, engine: Any) -> Any:
        return fit_automatic(self._new_local(), engine)

    def score(self, X: Any, y: Any, sample_weight: Any = None, offset: Any = None) -> float:
        """R2 of the predictions, or the share of right labels.

        Parameters
        ----------
        X, y, sample_weight
            As for ``fit``, without paths.
        offset : dask array or series of shape (n_samples,), or str, default=None
            Known parts of y, which the score is without.

        Returns
        -------
        float

        Raises
        ------
        ValueError
            If the model has a ``scoring``.
        """
        if self.scoring is not None:
            raise ValueError(
                f"scoring must be None to score lazy data; got {self.scoring!r}, by which "
                "to_local().score(X, y) scores NumPy arrays and data frames."
            )
        if offset is not None and is_regressor(self):
            columns = [column_of(X, each) for each in (y, offset)]
            truth, shift = map(np.asarray, self._computed(*columns))
            differences = plus_offset(truth.astype(np.float64), shift, sign=-1.0)
            y, offset = package("dask.array").from_array(differences), 0.0
        return super().score(X, y, sample_weight, offset)  # type: ignore[misc]


@documented_as(auto.AutoKernelRegressor, _METHOD, ("held_out_",))
class AutoKernelRegressor(_Automatic, DaskRegressor, auto.AutoKernelRegressor):  # type: ignore[misc]
    """:class:`mercer.AutoKernelRegressor`, fitted by the workers of a Dask cluster.

    Examples
    --------
    >>> import dask.dataframe as dd  # doctest: +SKIP
    >>> from mercer.dask import AutoKernelRegressor  # doctest: +SKIP
    >>> table = dd.read_parquet("flights/")  # doctest: +SKIP
    >>> y = table.pop("delay")  # doctest: +SKIP
    >>> model = AutoKernelRegressor(random_state=0).fit(table, y)  # doctest: +SKIP
    >>> model.predict_interval(table, coverage=0.8)  # doctest: +SKIP
    """

    _local_class = auto.AutoKernelRegressor

    def __init__(
        self,
        *,
        time_budget=None,
        scoring=None,
        random_state=None,
        n_jobs=None,
        verbose=0,
        client=None,
    ):
        super().__init__(
            time_budget=time_budget,
            scoring=scoring,
            random_state=random_state,
            n_jobs=n_jobs,
            verbose=verbose,
        )
        self.client = client

    def predict(self, X: Any, quantiles: Any = None, offset: Any = None) -> Any:  # type: ignore[override]
        """Means, or quantiles, as of the local model, computed when they are asked for.

        Parameters
        ----------
        X : dask array or dask data frame of shape (n_samples, n_features)
        quantiles : array of shape (n_quantiles,), default=None
            Levels above 0 and below 1; None asks for means.
        offset : dask array or series of shape (n_samples,), or str, default=None
            Known parts of the targets, in the chunks of X; a string names a column of X.

        Returns
        -------
        dask array of shape (n_samples,) or (n_samples, n_outputs)
            In the chunks of X; with ``quantiles`` one more axis, of n_quantiles.
        """
        return self._mapped("predict", X, offset, quantiles=quantiles)

    def predict_interval(self, X: Any, coverage: float = 0.9, offset: Any = None) -> Any:
        """Intervals, as of the local model, computed when they are asked for.

        Parameters
        ----------
        X : dask array or dask data frame of shape (n_samples, n_features)
        coverage : float, default=0.9
            Above 0 and below 1.
        offset : dask array or series of shape (n_samples,), or str, default=None
            As for ``predict``.

        Returns
        -------
        dask array of shape (n_samples, 2) or (n_samples, n_outputs, 2)
            Lower and upper ends.
        """
        return self._mapped("predict_interval", X, offset, coverage=coverage)


@documented_as(auto.AutoKernelClassifier, _METHOD, ("held_out_",))
class AutoKernelClassifier(_Automatic, DaskClassifier, auto.AutoKernelClassifier):  # type: ignore[misc]
    """:class:`mercer.AutoKernelClassifier`, fitted by the workers of a Dask cluster.

    Examples
    --------
    >>> import dask.dataframe as dd  # doctest: +SKIP
    >>> from mercer.dask import AutoKernelClassifier  # doctest: +SKIP
    >>> table = dd.read_parquet("flights/")  # doctest: +SKIP
    >>> late = table.pop("delay") > 15  # doctest: +SKIP
    >>> model = AutoKernelClassifier(random_state=0).fit(table, late)  # doctest: +SKIP
    >>> model.predict_proba(table)  # doctest: +SKIP
    """

    _local_class = auto.AutoKernelClassifier

    def __init__(
        self,
        *,
        time_budget=None,
        scoring=None,
        class_weight=None,
        random_state=None,
        n_jobs=None,
        verbose=0,
        client=None,
    ):
        super().__init__(
            time_budget=time_budget,
            scoring=scoring,
            class_weight=class_weight,
            random_state=random_state,
            n_jobs=n_jobs,
            verbose=verbose,
        )
        self.client = client

    def predict_set(self, X: Any, coverage: float = 0.9, offset: Any = None) -> Any:
        """Sets of classes, as of the local model, computed when they are asked for.

        Parameters
        ----------
        X : dask array or dask data frame of shape (n_samples, n_features)
        coverage : float, default=0.9
            Above 0 and below 1.
        offset : dask array or series of shape (n_samples,), or str, default=None
            As for ``predict``.

        Returns
        -------
        dask array of bool of shape (n_samples, n_classes)
        """
        return self._mapped("predict_set", X, offset, coverage=coverage)
