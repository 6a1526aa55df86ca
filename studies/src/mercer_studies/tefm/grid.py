"""Data sets, methods and sizes of the study at three scales."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from mercer.compare.methods import Method
from mercer.maps import FeatureMap
from mercer_studies.independent_blocks import BLOCKS
from mercer_studies.tefm.compact import CompactFeatures
from mercer_studies.tefm.data import Source

FIGURES = (1, 2, 3)
PROTOCOLS = ("fair",)
KERNEL = "gaussian"

PAPERS = ("rks", "quasi", "comp", "fastfood", "tefm-g", "tefm-s")
"""The methods of the paper."""

OURS = ("orthogonal", "nystroem", "rpcholesky")
"""What we set beside them."""

VARIANTS = ("tefm-g0",)
"""Variants of theirs, for the kernel matrix alone."""

_PAIRS = {"form": "pair"}


class _Compact(Method):
    """Compact features, a map of the studies."""

    def feature_map(self, kernel: str | None, gamma: Any, size: int | None) -> FeatureMap:
        gamma = "scale" if gamma is None else gamma
        return CompactFeatures(n_components=size or 256, kernel=kernel, gamma=gamma)

    def cost(self, size: int | None, n: int, d: int, k: int) -> float:
        return super().cost(4 * (size or d), n, d, k)  # the base has four times the columns


_GAUSSIAN = (KERNEL,)

METHODS = {
    method.name: method
    for method in (
        Method("rks", "RKS", _GAUSSIAN, map_name="fourier", settings=_PAIRS),
        Method(
            "quasi", "Quasi", _GAUSSIAN, map_name="fourier", settings={**_PAIRS, "sampling": "qmc"}
        ),
        _Compact("comp", "Comp", _GAUSSIAN),
        Method("fastfood", "Ffood", _GAUSSIAN, map_name="fastfood", settings=_PAIRS),
        Method("tefm-g", "TEFM-G", _GAUSSIAN, map_name="tefm", settings={"power": 1}),
        Method("tefm-s", "TEFM-S", _GAUSSIAN, map_name="tefm", settings={"sketch": "srht"}),
        Method("tefm-g0", "TEFM-G, q = 0", _GAUSSIAN, map_name="tefm", settings={"power": 0}),
        Method("tefm-square", "TEFM-G, d = l²", _GAUSSIAN, map_name="tefm", settings={"power": 1}),
        Method(
            "orthogonal",
            "orthogonal",
            _GAUSSIAN,
            map_name="fourier",
            settings={**_PAIRS, "sampling": "orthogonal"},
        ),
        Method("nystroem", "Nyström", _GAUSSIAN),
        Method(
            "rpcholesky",
            "RPCholesky",
            _GAUSSIAN,
            map_name="nystroem",
            settings={"landmarks": "rpcholesky"},
        ),
        # One block of all rows is the exact kernel.
        replace(BLOCKS, label="exact kernel", kernels=_GAUSSIAN, sizes=(), reference=10**9),
    )
}
"""All methods by name; the last one is the exact kernel."""


def method_at(name: str, size: int | None) -> Method:
    """A method at a size: with d = l² the base map depends on it.

    >>> method_at("tefm-square", 40).settings["n_base"]
    1600
    """
    method = METHODS[name]
    if name != "tefm-square" or size is None:
        return method
    return replace(method, settings={**method.settings, "n_base": size**2})


STAND_IN = "ujiindoorloc-longitude"
"""What figures 2 and 3 are drawn for where the paper's own set is not at hand."""

# The rows of the kernel matrices are the paper's; they are shares of the training rows.
_SOURCES = (
    Source("cpu", "Cpu", "standard", 6554, test_share=0.2),
    Source("a9a", "A9a", "as is", 8141),
    Source("blogfeedback", "Blog Feedback", "standard", 8733, response="log(1 + y)"),
    Source("ujiindoorloc", "UJIIndoor Loc", "[0,1]", 6646),
    Source("mnist", "Mnist", "/255", 6006),
    Source("slice-localization", "Slice Localization", "as is", 8917),
    Source(
        STAND_IN,
        inputs="[0,1]",
        data_name="ujiindoorloc",
        column=0,
        response="from its mean",
        stand_in_for="slice-localization",
    ),
    Source("generated-regression", test_share=0.2),
)

SOURCES: dict[str, Source] = {source.name: source for source in _SOURCES}
"""Data sets by name, in the order in which they are run."""


@dataclass(frozen=True)
class Times:
    """The runs whose times are fitted by powers: one number is varied, the others stay.

    ``rows``, ``bases``, ``sizes``: rows n, features d of the base map and features l that come out;
    the middle one stays.
    """

    rows: tuple[int, ...]
    bases: tuple[int, ...]
    sizes: tuple[int, ...]
    inputs: int = 32

    def varied(self) -> dict[tuple[int, int, int], str]:
        """Rows, base and size of every run, and what it varies: "n", "d", "l", or all three."""
        rows, bases, sizes = (one[len(one) // 2] for one in (self.rows, self.bases, self.sizes))
        found: dict[tuple[int, int, int], str] = {}
        for at, name in (
            *(((n, bases, sizes), "n") for n in self.rows),
            *(((rows, d, sizes), "d") for d in self.bases),
            *(((rows, bases, size), "l") for size in self.sizes),
        ):
            found[at] = found.get(at, "") + name
        return found


@dataclass(frozen=True)
class Scale:
    """Sizes and data sets of a run of the study.

    ``kernel_data``, ``ridge_data``: of figure 1, and of figures 2 and 3; ``square_sizes``: those at
    which a base map of l² features is tried; ``long_sizes``: further sizes of the methods that cost
    no more than random Fourier features; ``kernel_rows``, ``ridge_rows``: at most so many rows;
    None takes the paper's for the kernel, and all for the regression; ``selection_rows``: at most
    so many rows are fitted, and as many validated on, while choosing.
    """

    kernel_data: tuple[str, ...]
    ridge_data: tuple[str, ...]
    times: Times
    sizes: tuple[int, ...] = (50, 100, 200, 400, 600)  # numbers of features l
    square_sizes: tuple[int, ...] = (20, 40, 80)
    long_sizes: tuple[int, ...] = (1200, 2400)
    kernel_rows: int | None = 2000
    ridge_rows: int | None = 8000
    exact_rows: int = 8000  # the exact kernel is fitted to no more
    reference: int = 200  # number of features at which γ and λ are chosen
    selection_rows: int = 2000
    kernel_seeds: tuple[int, ...] = (0, 1, 2, 3, 4)
    ridge_seeds: tuple[int, ...] = (0, 1, 2)


_KERNEL_DATA = ("cpu", "a9a", "blogfeedback", "ujiindoorloc", "mnist", "slice-localization")
_RIDGE_DATA = ("cpu", "blogfeedback", "slice-localization", STAND_IN)

SCALES = {
    "tiny": Scale(
        kernel_data=("generated-regression",),
        ridge_data=("generated-regression",),
        times=Times((200, 400, 800), (32, 64, 128), (8, 16, 32), inputs=4),
        sizes=(8, 16, 32),
        square_sizes=(4, 8),
        long_sizes=(64, 128),
        kernel_rows=200,
        reference=16,
        selection_rows=100,
        kernel_seeds=(0, 1),
        ridge_seeds=(0, 1),
    ),
    "laptop": Scale(
        _KERNEL_DATA,
        _RIDGE_DATA,
        Times((4000, 8000, 16_000, 32_000), (512, 1024, 2048, 4096), (64, 128, 256, 512)),
    ),
    "paper": Scale(
        _KERNEL_DATA,
        _RIDGE_DATA,
        Times((8000, 16_000, 32_000, 64_000), (512, 1024, 2048, 4096), (64, 128, 256, 512)),
        kernel_rows=None,
        ridge_rows=None,
        exact_rows=16_000,
        selection_rows=10_000,
        ridge_seeds=(0, 1, 2, 3, 4),
    ),
}
