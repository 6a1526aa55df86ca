"""The methods that a comparison sets against each other, on equal terms."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from mercer import maps
from mercer.estimators import KernelClassifier, KernelRegressor
from mercer.maps import FeatureMap

__all__ = ["DEFAULT", "EXACT_ROWS", "METHODS", "TOLERANCE", "Method"]

TOLERANCE = 1e-2  # of iterative solvers: beyond it scores no longer change, only times
EXACT_ROWS = 16_000  # rows up to which the exact solution, cubic in n, is worth its minutes


@dataclass(frozen=True)
class Method:
    """One way to fit a kernel machine.

    >>> METHODS["fourier"].feature_map("laplacian", 0.5, 64)
    RandomFourier(gamma=0.5, kernel='laplacian', n_components=64)
    """

    name: str  # as in ``--methods`` and in the records
    label: str  # in tables and figures
    kernels: tuple[str, ...] = ()  # to choose between; empty where there is none
    sizes: tuple[int, ...] = ()  # numbers of components to fit; empty where there is none
    reference: int | None = None  # components at which γ, α and the kernel are chosen
    map_name: str | None = None  # of its feature map in ``mercer.maps``; None: its own name
    # What the map is told besides kernel, γ and number of components.
    settings: Mapping[str, Any] = field(default_factory=dict, hash=False)
    choice_rows: int | None = None  # most rows to choose settings on; None: those of the plan

    @property
    def family(self) -> str:
        """Name of its feature map, or its own where it has none."""
        return self.map_name or self.name

    def feature_map(self, kernel: str | None, gamma: Any, size: int | None) -> FeatureMap:
        """Its map, unfitted, without seed and threads; a map that is one kernel is told none."""
        settings = maps.get(self.family).get_params(deep=False)
        map_ = maps.get(
            self.family,
            kernel=kernel if "kernel" in settings else None,
            gamma="scale" if gamma is None else gamma,
            n_components=size if "n_components" in settings else None,
        )
        return map_.set_params(**self.settings)

    def estimator(
        self,
        task: str,
        *,
        size: int | None,
        kernel: str | None,
        gamma: float | None,
        alpha: float,
        seed: int,
        n_jobs: int | None,
        warm_start: bool = False,
        scale: bool = True,
    ) -> Any:
        """Its estimator, unfitted: squared loss and intercept, whatever the method is.

        Size, kernel and gamma are None where it has no such setting. ``warm_start`` keeps the map
        while only ``alpha``, the weight of the penalty beside a mean over rows, changes.
        """
        machine = KernelClassifier if task == "classification" else KernelRegressor
        return machine(
            self.feature_map(kernel, gamma, size),
            loss="squared",
            alpha=alpha,
            tol=TOLERANCE,
            random_state=seed,
            n_jobs=n_jobs,
            warm_start=warm_start,
            scale=scale,
        )

    def cost(self, size: int | None, n: int, d: int, k: int) -> float:
        """Roughly the seconds of a fit, for the progress bar alone."""
        columns = size or d
        if self.name == "exact":
            return 0.02 + 4e-12 * n**3 + 5e-10 * n**2 * (d + 4)
        if self.name == "binning":
            return 0.02 + 2e-8 * n * columns * (2 + k)
        solving = 0.02 + 1e-11 * columns**2 * (n + columns)
        if self.family == "nystroem":
            return solving + 5e-10 * columns**3 + 6e-10 * n * columns * (d + 4)
        if self.family == "tefm":  # four times the columns, and products with them
            base = self.settings.get("n_base") or 4 * columns
            passes = 2 + 2 * self.settings.get("power", 1)
            return solving + n * base * (2e-9 + 6e-11 * d + 2e-11 * columns * passes)
        if self.family == "fastfood":
            return solving + 3e-9 * n * columns
        return solving + 1e-9 * n * columns + 3e-11 * n * columns * d


_KERNELS = ("gaussian", "laplacian")
_RADIAL = ("gaussian", "exponential")  # those of maps that know directions and lengths alone
_COLUMNS = ((64, 256, 1024, 2048), 512)
_GRIDS = ((16, 64, 256, 1024), 256)
_EMBEDDED = ((64, 256, 512), 256)


def _variant(
    map_name: str, setting: str, value: str, label: str, kernels: tuple[str, ...] = _KERNELS
) -> Method:
    """A map with another value of one of its settings."""
    return Method(f"{map_name}-{value}", label, kernels, *_COLUMNS, map_name, {setting: value})


METHODS = {
    method.name: method
    for method in (
        Method("linear", "linear"),
        Method("binning", "random binning", ("laplacian",), *_GRIDS),
        Method("fourier", "random Fourier", _KERNELS, *_COLUMNS),
        _variant("fourier", "sampling", "orthogonal", "orthogonal Fourier", _RADIAL),
        _variant("fourier", "sampling", "qmc", "quasi-random Fourier"),
        Method("fastfood", "Fastfood", _RADIAL, *_COLUMNS),
        Method("tefm-g", "TEFM-G", _KERNELS, *_EMBEDDED, map_name="tefm"),
        Method(
            "tefm-s", "TEFM-S", _KERNELS, *_EMBEDDED, map_name="tefm", settings={"sketch": "srht"}
        ),
        Method("nystroem", "Nyström", _KERNELS, *_COLUMNS),
        _variant("nystroem", "landmarks", "kmeans", "Nyström, k-means"),
        _variant("nystroem", "landmarks", "leverage", "Nyström, leverage"),
        _variant("nystroem", "landmarks", "rpcholesky", "Nyström, RPCholesky"),
        Method("perceptron", "random perceptrons", (), *_COLUMNS),
        # On letter settings of 2000 rows give the accuracy of those of 4000 in a fifth of the time.
        Method("exact", "exact", _KERNELS, choice_rows=2000),
    )
}
"""All of them by name."""

DEFAULT = ("linear", "binning", "fourier", "nystroem", "exact")
"""Those that a comparison runs unless it is told others."""
