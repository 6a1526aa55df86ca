"""Shapley values of fitted models: exact for sums of products over columns, else sampled."""

from __future__ import annotations

from inspect import signature
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import MetaEstimatorMixin, is_classifier
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from mercer._runtime.messages import shown
from mercer._runtime.threads import one_blas_thread
from mercer._runtime.validation import (
    check_offset,
    flag,
    name_from,
    plus_offset,
    positive_integer,
    positive_number,
    require_offset,
)
from mercer.explain.exact import Found
from mercer.explain.members import Settings, values_of
from mercer.explain.path import SplitModel
from mercer.explain.values import ShapleyValues

__all__ = ["shapley_values"]

_BACKGROUND = 300  # training rows of the default background, at most


def shapley_values(
    model: Any,
    X: Any,
    background: Any = None,
    *,
    baseline: str = "independent",
    interactions: bool = False,
    outputs: ArrayLike | None = None,
    tolerance: float = 0.02,
    max_evaluations: int = 2000,
    random_state: int = 0,
    n_jobs: int | None = None,
    offset: ArrayLike | None = None,
) -> ShapleyValues:
    """Shapley values of the columns of a table, for the responses of a fitted model.

    A value is the mean change of the response when the column's entry becomes known, over all
    orders in which the columns may become known; unknown entries are those of background rows. The
    values of a row sum to its response minus the mean response over the background.

    Values are exact for kernels and features that are products over the columns: the Gaussian, the
    Laplacian and the product Cauchy kernel (exact machines, Nyström, sparse machines), random
    Fourier features, linear models, random bins with a background of all training rows, and sums
    and products of such kernels. Values of other models, such as local
    machines, are estimated with standard errors: from random permutations, for the difference of
    the model and a kernel machine that follows it and has exact values. What
    :class:`mercer.TablePreparer` makes of a column belongs to that column.

    Parameters
    ----------
    model : estimator
        Fitted model of this library, pipeline that ends in one, or any other fitted estimator.
        Regressors are explained in the unit of the target (of its logarithm where an automatic
        model takes logarithms, of the mean's with a loss of a log link), classifiers on
        ``decision_function``.
    X : array, data frame or CSR of shape (n, d)
        Rows to explain.
    background : array, data frame or CSR of shape (b, d), or row of shape (d,), default=None
        Rows whose entries stand for unknown ones. None takes up to 300 training rows that the model
        keeps; models that keep none need a background.
    baseline : {"independent", "rows"}, default="independent"
        "independent": unknown entries come from the background column by column. "rows": they come
        from one background row, and values are means over the rows, which takes time proportional
        to their number; packages such as shap do this. Both are the same for one background row.
    interactions : bool, default=False
        Whether to return the interactions of pairs of columns, too. Only for exact values.
    outputs : int, label or array of them, default=None
        Outputs, or classes of a model with more than two, to explain; None takes all.
    tolerance : float, default=0.02
        Mean standard error at which an estimate ends, > 0, in units of the standard deviation of
        the responses to the background.
    max_evaluations : int, default=2000
        Largest number of evaluations of the model per row of an estimate, >= 1.
    random_state : int, default=0
        Seed of an estimate.
    n_jobs : int or None, default=None
        Number of threads of exact values; None and -1 mean all that the process may use.
    offset : array of shape (n,), default=None
        Known parts of the responses, as in ``predict`` of the model: each row has a base value of
        its own, the mean response plus its offset.

    Returns
    -------
    ShapleyValues

    Raises
    ------
    ValueError, TypeError
        If an argument is invalid, the model takes no columns, or it keeps no training rows and
        there is no background.
    sklearn.exceptions.NotFittedError
        If the model is not fitted.

    References
    ----------
    Lundberg and Lee, A unified approach to interpreting model predictions, NIPS 2017. Shapley, A
    value for n-person games, 1953. For functions ``f(x) = sum_i a_i prod_j k_ij(x_j)`` the value of
    column j is ``sum_i a_i (k_ij - m_ij) int_0^1 prod_{l != j} (t k_il + (1 - t) m_il) dt`` with
    the means m over the background; a Gauss-Legendre rule of d / 2 nodes is exact.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import KernelRegressor
    >>> from mercer.explain import shapley_values
    >>> X = np.random.default_rng(0).normal(size=(300, 3))
    >>> model = KernelRegressor("exact", alpha=1e-6).fit(X, np.sin(X[:, 0]) + X[:, 1])
    >>> found = shapley_values(model, X[:5])
    >>> found.values.shape, found.is_exact
    ((5, 3), True)
    >>> bool(np.allclose(found.values.sum(axis=1) + found.base_values, model.predict(X[:5])))
    True
    """
    joint = name_from(baseline, ("independent", "rows"), "baseline") == "rows"
    settings = Settings(
        joint,
        flag(interactions, "interactions"),
        positive_number(tolerance, "tolerance"),
        positive_integer(max_evaluations, "max_evaluations"),
        random_state,
        n_jobs,
    )
    check_is_fitted(model)
    model = _local(model)
    members, unit = _members(model)
    require_offset(_last(model), offset)
    if isinstance(offset, Real) and offset == 0:
        offset = None
    if offset is not None:
        _check_adds_offset(model, unit)
    n_inputs = getattr(model, "n_features_in_", None)
    if n_inputs is None:
        raise ValueError(
            f"model must take a table of columns; this {type(model).__name__} takes texts: fit a "
            "pipeline that begins with TablePreparer to a table with a column of texts."
        )
    names = getattr(model, "feature_names_in_", None)
    found = [
        (share, _of_member(SplitModel.of(member, n_inputs), X, background, kept, names, settings))
        for share, member, kept in members
    ]
    values, base, variances = (
        sum(share**power * getattr(each, name) ** power for share, each in found)
        for name, power in (("values", 1), ("base", 1), ("errors", 2))
    )
    chosen, output_names = _outputs(model, outputs, len(base))
    place = 0 if len(base) == 1 else chosen
    values, base, errors = (part[..., place] for part in (values, base, np.sqrt(variances)))
    if offset is not None:
        offset = check_offset(offset, len(values))
        if hasattr(model, "_in_responses"):
            offset = model._in_responses(offset)
        base = plus_offset(np.broadcast_to(base, (len(values), *np.shape(base))), offset)
    if names is None:
        names = np.array([f"x{j}" for j in range(n_inputs)], dtype=object)
    return ShapleyValues(values, base, errors, X, np.asarray(names), output_names, unit)


def _local(model: Any) -> Any:
    """The best estimator of a search, the local copy of a model of Dask, or the model itself."""
    if isinstance(model, MetaEstimatorMixin) and hasattr(model, "best_estimator_"):
        model = model.best_estimator_
    return model.to_local() if hasattr(model, "to_local") else model


def _members(model: Any) -> tuple[list[tuple[float, Any, Any]], str]:
    """Shares, fitted estimators and rows kept by each of a mean, and the unit of the responses."""
    if hasattr(model, "explained_members"):
        members: tuple[list[tuple[float, Any, Any]], str] = model.explained_members()
        return members
    unit = "decision function" if is_classifier(model) else "target"
    if getattr(getattr(_last(model), "_loss_", None), "link", "") == "log":
        unit = "logarithm of the mean"
    return [(1.0, model, None)], unit


def _last(model: Any) -> Any:
    """The last step of a pipeline, or the model itself."""
    return model.steps[-1][1] if isinstance(model, Pipeline) else model


def _check_adds_offset(model: Any, unit: str) -> None:
    """Raise unless predictions with an offset are responses plus the offset, up to a link."""
    machine = _last(model)
    if "offset" not in signature(machine.predict).parameters:
        raise ValueError(f"offset must be None for a {type(machine).__name__}, which takes none.")
    if unit == "logarithm of the target":
        raise ValueError(
            "offset must be None for a model that takes logarithms of the target less the offset, "
            "which are explained without it."
        )


def _of_member(
    path: SplitModel, X: Any, background: Any, kept: Any, names: Any, settings: Settings
) -> Found:
    path.check()
    with one_blas_thread(settings.n_jobs):
        rows = path.treated(path.table(X, names))
        return values_of(path, rows, _background_of(path, background, kept, names), settings)


def _background_of(path: SplitModel, background: Any, kept: Any, names: Any) -> Any:
    if background is None:
        behind = path.kept_rows(_BACKGROUND) if kept is None else path.treated(kept, after=1)
        if behind is None:
            raise ValueError(
                "background must be given for a model that keeps no training rows; pass a few "
                "hundred of them."
            )
        return behind
    if isinstance(background, np.ndarray) and background.ndim == 1:
        background = background[None]
    try:
        return path.treated(path.table(background, names))
    except ValueError as error:
        reason = str(error).partition("\n")[0].rstrip(".")
        raise ValueError(f"background must be rows as the model takes them: {reason}.") from None


def _outputs(model: Any, outputs: Any, count: int) -> tuple[NDArray[np.int64], NDArray | None]:
    """Numbers of the outputs to explain and, of several, the names of these."""
    if count == 1:
        if outputs is not None:
            raise ValueError(f"outputs must be None for one response; got {shown(outputs)}.")
        return np.arange(1), None
    names = np.asarray(getattr(model, "classes_", np.arange(count)))
    if outputs is None:
        return np.arange(count), names
    wanted = np.atleast_1d(np.asarray(outputs, dtype=names.dtype)).tolist()
    places = {name: place for place, name in enumerate(names.tolist())}
    unknown = [name for name in wanted if name not in places]
    if unknown or not wanted:
        raise ValueError(f"outputs must be among {shown(list(places))}; got {shown(outputs)}.")
    chosen = np.array([places[name] for name in wanted])
    return chosen, names[chosen]
