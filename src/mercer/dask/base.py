"""Models fitted over the workers of a Dask cluster: what all of them do with data and client."""

from __future__ import annotations

import warnings
from concurrent.futures import CancelledError
from functools import partial
from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import accuracy_score, r2_score
from sklearn.utils.metaestimators import available_if

from mercer._runtime.state import Checked
from mercer.dask.packages import package

__all__ = ["DaskClassifier", "DaskModel", "DaskRegressor", "column_of"]

_UNKEPT = ("client", "_client")  # connections, which no copy and no file has


class DaskModel(Checked):
    """Base of models fitted by the workers of a Dask cluster, with NumPy arrays as attributes.

    A subclass derives from this class first and from the local class second, adds the parameter
    ``client`` to its fields, and defines its fit.
    """

    client: Any
    _client: Any
    _local_class: ClassVar[type]
    _keeps_sums: ClassVar[bool] = False

    def _fit_local(self, engine: Any) -> Any:
        """``self._new_local()``, fitted to the shards of an engine."""
        raise NotImplementedError

    # -- fitting -----------------------------------------------------------------------------

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, offset: Any = None) -> Self:
        """Fit the model on the workers that have the rows.

        Parameters
        ----------
        X : dask array or dask data frame of shape (n_samples, n_features), or path
            Rows; a path is a folder of Parquet files that all workers can read.
        y : dask array or series of shape (n_samples,), or of shape (n_samples, n_outputs), or str
            Targets; a string names the target column of the data frame or of the files.
        sample_weight : dask array or series of shape (n_samples,), or str, default=None
            Weight per row, >= 0; a weight of 2 counts a row twice. A string names a column.
        offset : dask array or series of shape (n_samples,), or str, default=None
            Known parts of the responses, as in the local model. A string names a column.

        Returns
        -------
        self

        Raises
        ------
        TypeError
            If the data are no Dask collections; the message names the class that takes them.
        ValueError
            If a setting or the data are invalid, or need one machine.
        """
        if y is None:
            raise ValueError("y must be targets beside X, or the name of a column of X; got None.")
        package("distributed")
        from mercer.dask.clusters import client_for
        from mercer.dask.hung import check_running
        from mercer.dask.intake import shards_of

        client = client_for(self.client)
        takes = f"mercer.{self._local_class.__name__}"
        try:
            engine = shards_of(client, X, y, sample_weight, offset, takes=takes)
        except CancelledError:
            check_running(client)
            raise
        self.__dict__.pop("_at_work", None)
        try:
            fitted = self._fit_local(engine)
        except KeyboardInterrupt:
            if hasattr(at_work := self.__dict__.get("_at_work"), self._fitted_by):
                self._take(at_work, client, offset)
            raise
        except CancelledError:
            check_running(client)
            raise
        finally:
            self.__dict__.pop("_at_work", None)
            engine.close()
        self._take(fitted, client, offset)
        return self

    def _new_local(self) -> Any:
        """The local model of these parameters, not fitted; of an interrupted fit it is taken."""
        model = self._local_class(**self._settings())
        if callbacks := vars(self).get("_skl_callbacks"):
            model._skl_callbacks = callbacks
        self._at_work = model
        return model

    def _settings(self) -> dict[str, Any]:
        names = self._local_class._get_param_names()  # type: ignore[attr-defined]
        own = self._get_param_names()  # type: ignore[attr-defined]
        return {name: getattr(self, name) for name in names if name in own}

    def _take(self, fitted: Any, client: Any, offset: Any) -> None:
        """Copy the fitted attributes of a local model, and record the offset of its fit."""
        for name in self._learned():
            del self.__dict__[name]
        given = set(fitted.get_params(deep=False)) | {"_skl_callbacks"}
        self.__dict__.update({k: v for k, v in vars(fitted).items() if k not in given})
        self._client = client
        if offset is not None:
            self._has_offset_ = True

    def _learned(self) -> list[str]:
        """Names of the fitted attributes."""
        given = set(self._get_param_names()) | {"_skl_callbacks"}  # type: ignore[attr-defined]
        return [name for name in vars(self) if name not in given]

    # -- what it is without a cluster -----------------------------------------------------------

    @property
    def client_(self) -> Any:
        """The client of the fit; a model from a file or of another process has none."""
        client = vars(self).get("_client")
        if client is None:
            raise AttributeError("client_ is there after a fit in this process.")
        return client

    def to_local(self) -> Any:
        """Return the model as an estimator of the local class, which shares its arrays.

        Returns
        -------
        estimator
            Estimator of the local class, fitted if this model is. It takes NumPy arrays and data
            frames, and needs neither client nor Dask.
        """
        model = self._local_class(**self._settings())
        vars(model).update({k: vars(self)[k] for k in self._learned() if k not in _UNKEPT})
        return model

    def __getstate__(self) -> Any:
        state: dict[str, Any] = super().__getstate__()  # type: ignore[assignment]
        return {k: v for k, v in state.items() if k not in _UNKEPT}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__({"client": None} | state)

    def __sklearn_clone__(self) -> Any:
        # Without its client, of which there is no copy.
        plain = object.__new__(type(self))
        vars(plain).update(vars(self) | {"client": None})
        other = super(DaskModel, plain).__sklearn_clone__()  # type: ignore[misc]
        other.client = self.client
        return other

    # -- prediction ----------------------------------------------------------------------------

    def predict(self, X: Any, offset: Any = None) -> Any:
        """Predictions for new rows, as a lazy dask array.

        Standard deviations, covariances and ``sample_y`` need a model fitted in memory.

        Parameters
        ----------
        X : dask array or dask data frame of shape (n_samples, n_features)
        offset : dask array or series of shape (n_samples,), str or float, default=None
            Known parts of the responses, in the chunks of X; a string names a column of X.

        Returns
        -------
        dask array of shape (n_samples,) or (n_samples, n_outputs)
            Predictions in the chunks of X. Columns of a data frame are matched by name.
        """
        return self._mapped("predict", X, offset)

    def _mapped(self, method: str, X: Any, offset: Any = None, **options: Any) -> Any:
        """The results of a method of the local model, chunk by chunk."""
        local = self.to_local()
        local._check_fitted()
        dask, array = package("dask"), package("dask.array")
        frame = package("dask.dataframe")
        is_frame = isinstance(X, frame.DataFrame)
        if not is_frame and not isinstance(X, array.Array):
            raise TypeError(
                f"X must be a dask array or a dask data frame; got {type(X).__name__}, which "
                "the model of to_local() takes."
            )
        if isinstance(offset, Real):
            options, offset = options | {"offset": float(offset)}, None
        beside = _beside(X, offset)
        names = vars(local).get("feature_names_in_")
        if is_frame and names is not None:
            X = X[list(names)]
        example = _example(X) if is_frame else np.zeros((1, X.shape[1]), X.dtype)
        known = [np.zeros(1) for _ in beside]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the rows are no example of any data
            like = np.asarray(_answer(method, options, None, example, local, *known))[:0]
        answer = partial(_answer, method, options, like)
        model = dask.delayed(local, pure=False, traverse=False)
        if is_frame:
            return X.map_partitions(answer, model, *beside, meta=like)
        X = X if X.numblocks[1] == 1 else X.rechunk({1: -1})
        shape: dict[str, Any] = {"drop_axis": 1}
        if like.ndim > 1:
            shape = {"chunks": (X.chunks[0], *((size,) for size in like.shape[1:]))}
            shape |= {"new_axis": list(range(2, like.ndim))} if like.ndim > 2 else {}
        return X.map_blocks(answer, model, *beside, dtype=like.dtype, meta=like, **shape)

    def _computed(self, *lazy: Any) -> list[Any]:
        """Small results of the cluster of the fit, or of whatever scheduler is at hand."""
        client = vars(self).get("_client")
        if client is None or client.status != "running":
            return [each.compute() for each in lazy]
        return client.gather([client.compute(each) for each in lazy])


def _example(X: Any) -> Any:
    """A row like those of a dask data frame; of texts nothing is known."""
    example = X._meta_nonempty.iloc[:1].copy()
    for name in example.columns:
        if example[name].dtype.kind == "O":
            example[name] = None
    return example


def column_of(X: Any, given: Any) -> Any:
    """Values of rows as given, or the column of X that a string names."""
    if isinstance(given, str):
        if given not in getattr(X, "columns", ()):
            raise ValueError(f"offset must be a column of X; got {given!r}.")
        return X[given]
    return given


def _beside(X: Any, offset: Any) -> list[Any]:
    """The offset, if there is one, as a collection with the chunks of X."""
    array, frame = package("dask.array"), package("dask.dataframe")
    offset = column_of(X, offset)
    if offset is None:
        return []
    if not isinstance(offset, (array.Array, frame.Series)) or offset.ndim != 1:
        raise TypeError(
            "offset must be a dask array or series of one dimension as X is Dask's; got "
            f"{type(offset).__name__}."
        )
    if isinstance(X, frame.DataFrame):
        return [
            offset
            if isinstance(offset, frame.Series)
            else frame.from_dask_array(offset, index=X.index)
        ]
    offset = offset.values if isinstance(offset, frame.Series) else offset
    known = not np.isnan([*X.chunks[0], *offset.chunks[0]]).any()
    if known and X.shape[0] != offset.shape[0]:
        raise ValueError(
            f"offset must have a number for each of the {X.shape[0]} rows of X; got an array of "
            f"shape {offset.shape}."
        )
    return [(offset.rechunk((X.chunks[0],)) if known else offset)[:, None]]


def _answer(
    method: str,
    options: dict[str, Any],
    like: Any,
    X: Any,
    model: Any,
    offset: Any = None,
) -> NDArray:
    """The result for the rows of a chunk, which may be empty."""
    if not X.shape[0]:
        return like
    if offset is not None:
        options = options | {"offset": np.ravel(offset)}
    answer: NDArray = getattr(model, method)(X, **options)
    return answer


def _has_proba(model: Any) -> bool:
    """True, or the local class's AttributeError that says which losses define probabilities."""
    return super(DaskClassifier, model).predict_proba is not None


class DaskRegressor(DaskModel):
    """Models of numbers."""

    def score(self, X: Any, y: Any, sample_weight: Any = None, offset: Any = None) -> float:
        """R² of the predictions, as in the local model.

        Parameters
        ----------
        X, y, sample_weight, offset
            As for ``fit``, but for paths.

        Returns
        -------
        float
        """
        return _score(self, r2_score, X, y, sample_weight, offset)


class DaskClassifier(DaskModel):
    """Models of classes; the calibration of other losses takes rows in one process."""

    classes_: NDArray
    _calibrates: ClassVar[bool] = False
    _takes_indicators: ClassVar[bool] = False

    def score(self, X: Any, y: Any, sample_weight: Any = None, offset: Any = None) -> float:
        """Share of correct labels, as in the local model.

        Parameters
        ----------
        X, y, sample_weight, offset
            As for ``fit``, but for paths.

        Returns
        -------
        float
        """
        return _score(self, accuracy_score, X, y, sample_weight, offset)

    def decision_function(self, X: Any, offset: Any = None) -> Any:
        """Responses as in the local model, as a lazy dask array.

        Parameters
        ----------
        X : dask array or dask data frame of shape (n_samples, n_features)
        offset : dask array or series of shape (n_samples,), or str, default=None
            As for ``predict``.

        Returns
        -------
        dask array of shape (n_samples,) or (n_samples, n_classes)
        """
        return self._mapped("decision_function", X, offset)

    @available_if(_has_proba)
    def predict_proba(self, X: Any, offset: Any = None) -> Any:
        """Probabilities as in the local model, as a lazy dask array.

        Parameters
        ----------
        X : dask array or dask data frame of shape (n_samples, n_features)
        offset : dask array or series of shape (n_samples,), or str, default=None
            As for ``predict``.

        Returns
        -------
        dask array of shape (n_samples, n_classes)
        """
        return self._mapped("predict_proba", X, offset)


def _score(model: DaskModel, score: Any, X: Any, y: Any, weights: Any, offset: Any) -> float:
    """A score of the answers to all rows: numbers for each row come here, no features."""
    y, weights = (X[each] if isinstance(each, str) else each for each in (y, weights))
    parts = [y, model.predict(X, offset=offset)] + ([] if weights is None else [weights])
    truth, answer, *rest = map(np.asarray, model._computed(*parts))
    return float(score(truth, answer, sample_weight=rest[0] if rest else None))
