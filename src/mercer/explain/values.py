"""Shapley values of a table as a result that can be read, summed up and handed to shap."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer._runtime.messages import shown
from mercer._runtime.validation import positive_integer

__all__ = ["ShapleyValues"]


@dataclass(frozen=True)
class ShapleyValues:
    """Contributions of the columns of a table to the responses of a model.

    The values of a row sum to its response minus the base value: the mean response over the
    background, plus the offset of the row if there is one.

    Attributes
    ----------
    values : ndarray of shape (n, d) or (n, d, k)
        Contribution of each column, with one entry per output of a model with several. With
        ``interactions=True`` of shape (n, d, d) or (n, d, d, k): main effects on the diagonal, and
        half of the interaction of two columns on either side of it.
    base_values : ndarray of shape () or (k,); with an offset, of shape (n,) or (n, k)
        Mean response over the background, plus the offset of the row.
    standard_errors : ndarray of the shape of ``values``
        Standard errors of values that are estimated; 0 where values are exact.
    data : table of n rows
        The rows that were explained, as given.
    feature_names : ndarray of shape (d,)
        Names of the columns.
    output_names : ndarray of shape (k,) or None
        Classes or numbers of the outputs of a model with several.
    unit : str
        Unit of the values, such as "target" or "response of class yes".
    """

    values: NDArray[np.float64]
    base_values: NDArray[np.float64]
    standard_errors: NDArray[np.float64]
    data: Any
    feature_names: NDArray
    output_names: NDArray | None
    unit: str

    @property
    def is_exact(self) -> bool:
        """True if no value is estimated."""
        return not self.standard_errors.any()

    @property
    def has_interactions(self) -> bool:
        """True if values are of pairs of columns."""
        return self.values.ndim - (self.output_names is not None) == 3

    @property
    def base_of_rows(self) -> NDArray[np.float64]:
        """Base values of all rows, (n,) or (n, k)."""
        outputs = () if self.output_names is None else self.values.shape[-1:]
        return np.broadcast_to(self.base_values, (len(self.values), *outputs))

    def of_output(self, output: Any) -> ShapleyValues:
        """Values of one output, without the axis of outputs.

        Parameters
        ----------
        output : int or label
            One of ``output_names``.

        Raises
        ------
        ValueError
            If there is no such output.
        """
        names = [] if self.output_names is None else self.output_names.tolist()
        if output not in names:
            raise ValueError(f"output must be one of {shown(names)}; got {shown(output)}.")
        parts = (self.values, self.base_values, self.standard_errors)
        values, base, errors = (part[..., names.index(output)] for part in parts)
        unit = f"{self.unit} of {output}"
        return replace(
            self,
            values=values,
            base_values=base,
            standard_errors=errors,
            output_names=None,
            unit=unit,
        )

    def importances(
        self, *, level: float = 0.9, n_resamples: int = 500, random_state: int = 0
    ) -> dict[str, NDArray]:
        """Mean absolute value per column, with bootstrap intervals over the rows.

        Parameters
        ----------
        level : float, default=0.9
            Probability that an interval covers the mean over all rows, in (0, 1).
        n_resamples : int, default=500
            Number of bootstrap samples of the rows.
        random_state : int, default=0
            Seed of the samples.

        Returns
        -------
        dict of arrays of shape (d,)
            "column", "importance", "low" and "high", the most important column first. Outputs are
            averaged.
        """
        sizes = self._sizes()
        count = positive_integer(n_resamples, "n_resamples")
        if not 0 < level < 1:
            raise ValueError(f"level must be above 0 and below 1; got {level!r}.")
        rng = np.random.default_rng(random_state)
        weights = rng.multinomial(len(sizes), np.full(len(sizes), 1 / len(sizes)), size=count)
        means = weights @ sizes / len(sizes)
        low, high = np.quantile(means, [0.5 - level / 2, 0.5 + level / 2], axis=0)
        mean = sizes.mean(axis=0)
        order = np.argsort(-mean, kind="stable")
        found = {"column": self.feature_names, "importance": mean, "low": low, "high": high}
        return {name: np.asarray(values)[order] for name, values in found.items()}

    def _sizes(self) -> NDArray[np.float64]:
        """Absolute values (n, d), averaged over the outputs."""
        values = self.values
        if self.has_interactions:
            values = values.sum(axis=2)
        sizes = np.abs(values)
        return np.asarray(sizes.mean(axis=2) if sizes.ndim == 3 else sizes)

    def to_shap(self) -> Any:
        """The values as a ``shap.Explanation``, which all plots of the package shap take.

        Returns
        -------
        shap.Explanation

        Raises
        ------
        ImportError
            If shap is not installed.
        """
        try:
            import shap
        except ImportError as error:
            raise ImportError("to_shap needs the package shap: pip install shap.") from error
        names = None if self.output_names is None else [str(n) for n in self.output_names]
        return shap.Explanation(
            self.values,
            base_values=np.array(self.base_of_rows),
            data=np.asarray(self.data),
            feature_names=[str(name) for name in self.feature_names],
            output_names=names,
        )
