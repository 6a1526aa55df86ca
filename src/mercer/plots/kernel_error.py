"""Error of a feature map's kernel against the number of features."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone

from mercer import kernels
from mercer._runtime.validation import name_from
from mercer.diagnostics import kernel_error
from mercer.maps import FeatureMap
from mercer.plots.base import AIDS, Display, dress

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["KernelErrorDisplay"]

_NUMBERS = (16, 32, 64, 128, 256, 512, 1024)


class KernelErrorDisplay(Display):
    """Relative error of a feature map against its kernel matrix, for several sizes.

    Create it with :meth:`from_estimator`; draw several maps on one ``ax`` to compare them.

    Parameters
    ----------
    n_components : array of shape (n_sizes,)
        Sizes of the map.
    errors : array of shape (n_sizes,)
        Relative error ``|K - Z Zᵀ| / |K|`` per size.
    norm : {"spectral", "frobenius"}, default="spectral"
        Matrix norm of the errors.
    name : str, default=""
        Name in the legend.

    Attributes
    ----------
    line_ : matplotlib Line2D
        Errors.
    slope_ : matplotlib Line2D or None
        Reference line 1 / sqrt(n_components), the rate of means of independent features; drawn once
        per axes.
    {ax_}

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.maps import RandomFourier
    >>> from mercer.plots import KernelErrorDisplay
    >>> X = np.random.default_rng(0).normal(size=(100, 2))
    >>> map_ = RandomFourier(gamma=0.5, random_state=0)
    >>> display = KernelErrorDisplay.from_estimator(map_, X, n_components=(16, 256))
    >>> bool(display.errors[1] < display.errors[0])
    True
    """

    def __init__(
        self,
        n_components: ArrayLike,
        errors: ArrayLike,
        *,
        norm: str = "spectral",
        name: str = "",
    ):
        self.n_components, self.errors = np.asarray(n_components), np.asarray(errors)
        self.norm, self.name = norm, name

    @classmethod
    def from_estimator(
        cls,
        estimator: FeatureMap,
        X: Any,
        *,
        n_components: Sequence[int] = _NUMBERS,
        kernel: Any = None,
        norm: str = "spectral",
        name: str | None = None,
        ax: Axes | None = None,
        **kwargs: Any,
    ) -> KernelErrorDisplay:
        """Fit copies of a map in several sizes to rows and draw their errors.

        Parameters
        ----------
        estimator : feature map
            Map with ``n_components``, fitted or not.
        X : array or CSR of shape (n_samples, n_features)
            Rows, a few thousand at most: the kernel matrix is in memory.
        n_components : sequence of int, default=(16, 32, ..., 1024)
            Sizes of the map.
        kernel : kernel, str or None, default=None
            Kernel that the map approximates; None takes the kernel of the map.
        norm : {"spectral", "frobenius"}, default="spectral"
            Matrix norm of the errors.
        name : str or None, default=None
            Name in the legend; None takes the class name of the map.
        {ax, line_options}

        Returns
        -------
        KernelErrorDisplay

        Raises
        ------
        TypeError
            If ``estimator`` is no map with ``n_components``.
        ValueError
            If the map has no kernel and none is given.
        MemoryError
            If the kernel matrix would not fit.
        """
        _check_sized(estimator)
        name_from(norm, ("spectral", "frobenius"), "norm")
        errors, truth = [], None
        for number in n_components:
            map_ = clone(estimator).set_params(n_components=number).fit(X)
            if truth is None:
                known = getattr(map_, "kernel_", None) if kernel is None else kernel
                if known is None:
                    raise ValueError("kernel must be given beside a map that has none.")
                truth = kernels.get(known).resolve(X)(X)
            errors.append(getattr(kernel_error(truth, map_.design(X)), norm))
        name = type(estimator).__name__ if name is None else name
        return cls(n_components, errors, norm=norm, name=name).plot(ax=ax, **kwargs)

    def plot(self, *, ax: Axes | None = None, **kwargs: Any) -> KernelErrorDisplay:
        """Draw the figure from the stored data.

        Parameters
        ----------
        {ax, line_options}

        Returns
        -------
        KernelErrorDisplay
            This display.
        """
        axes = self._begin(ax)
        self.slope_ = None
        if not axes.lines and len(self.errors) > 1:
            falling = self.errors[0] * np.sqrt(self.n_components[0] / self.n_components)
            style: dict[str, Any] = {"color": AIDS, "linestyle": ":", "linewidth": 1.4}
            (self.slope_,) = axes.plot(self.n_components, falling, label="∝ 1/√D", **style)
        looks: dict[str, Any] = {"marker": "o", "markersize": 5, "linewidth": 2, "zorder": 3}
        looks |= {"label": self.name or "map"}
        (self.line_,) = axes.plot(self.n_components, self.errors, **(looks | kwargs))
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
        axes.set_xlabel("n_components D")
        axes.set_ylabel(f"error |K − ZZᵀ| / |K|, {self.norm} norm")
        axes.legend(frameon=False, fontsize=8)
        dress(axes)
        return self


def _check_sized(estimator: Any) -> None:
    is_map = isinstance(estimator, FeatureMap)
    if not is_map or "n_components" not in estimator.get_params(deep=False):
        raise TypeError(
            f"estimator must be a feature map with n_components; got {type(estimator).__name__}."
        )
