"""Data sets, sizes and γ of the study at three scales."""

from __future__ import annotations

from dataclasses import dataclass

from mercer_studies.random_binning.data import Source

GAMMAS = (
    *(0.01, 0.03, 0.1, 0.14, 0.19, 0.28, 0.39, 0.56, 0.79, 1.12),
    *(1.58, 2.23, 3.16, 4.46, 6.3, 8.91, 10.0, 31.62, 100.0),
)
"""The paper's grid. For random binning it is γ, for the other kernels 1/γ."""

SIZES = (8, 16, 32, 64, 128, 256, 512, 1024)
FIGURES = (2, 3, 4, 5, 6)
PROTOCOLS = ("published", "fair")
RIVALS = ("fourier", "nystroem", "blocks")

# γ around the paper's best for its sets, around ours for the others. Long rows and many outputs
# have a narrower window and fewer sizes.
_WIDE = {"nystroem": 256, "blocks": 256}
_WIDEST = {**_WIDE, "exact": 4_000, "search": 1_000}
_SOURCES = (
    Source("cpu", None, "max-abs", (0.19, 0.28, 0.39, 0.56, 0.79)),
    Source("pendigits", None, "max-abs", (0.79, 1.12, 1.58, 2.23, 3.16), 10),
    Source("covtype-mult-sample", "covtype-mult", "max-abs", (2.23, 3.16, 4.46, 6.3, 10.0), 7),
    Source("cadata", "cadata", "max-abs", (1.58, 2.23, 3.16, 4.46, 6.3)),
    Source("house-16h", "census", "max-abs", (0.56, 0.79, 1.12, 1.58, 2.23)),
    Source("covtype-sample", "covtype", "max-abs", (2.23, 3.16, 4.46, 6.3, 10.0)),
    Source("susy-sample", "SUSY", "max-abs", (0.1, 0.14, 0.19, 0.28, 1.58)),
    Source("letter", "letter", "[-1,1]", (0.56, 0.79, 1.12, 1.58, 2.23), 26, train_rows=10_500),
    Source("ijcnn1-train", "ijcnn1", "as is", (0.79, 1.12, 1.58, 2.23, 3.16)),
    Source("a9a", None, "as is", (0.03, 0.1, 0.14, 0.19), largest={**_WIDE, "exact": 6_000}),
    Source(
        "cod-rna-train",
        "cod_rna",
        "[0,1]",
        (2.23, 3.16, 4.46, 6.3, 8.91),
        test_share=10_098 / 59_535,
    ),
    Source("mnist", "mnist", "/255", (0.01, 0.03, 0.1), 10, largest=_WIDEST),
    Source("census", "census", "max-abs", (0.01, 0.03, 0.1, 0.14, 0.19)),
    Source("acoustic", "acoustic", "as is", (0.28, 0.39, 0.56, 0.79, 1.58), 3),
    Source("ijcnn1", "ijcnn1", "as is", (0.56, 0.79, 1.12, 1.58, 2.23)),
    Source("cod-rna", "cod_rna", "max-abs", (2.23, 3.16, 4.46, 6.3, 8.91)),
    Source("covtype", "covtype", "max-abs", (3.16, 4.46, 6.3, 8.91, 10.0)),
    Source("covtype-mult", "covtype-mult", "max-abs", (3.16, 4.46, 6.3, 8.91, 10.0), 7),
    Source("susy", "SUSY", "max-abs", (0.56, 0.79, 1.12, 1.58, 2.23)),
    Source("generated-regression", None, "as is", (0.56, 1.12, 2.23)),
    Source("generated-classes", None, "as is", (0.56, 1.12, 2.23), 3),
)

SOURCES: dict[str, Source] = {source.name: source for source in _SOURCES}
"""Data sets by name, quick ones first: the order in which they are run."""


@dataclass(frozen=True)
class Scale:
    """Sizes and data sets of a run of the study.

    ``sizes``, ``rival_sizes``, ``fair_sizes``: of random binning and of its rivals as published,
    and of all under the fair protocol; ``whole_grid``: whether every γ is run at every size,
    instead of the window of the data set; ``theorem_rows``, ``theorem_grids``, ``theorem_trials``:
    training rows, grids and trials beside the bound of theorem 1.
    """

    datasets: tuple[str, ...]
    sizes: tuple[int, ...] = SIZES
    rival_sizes: tuple[int, ...] = SIZES
    fair_sizes: tuple[int, ...] = (16, 64, 256, 1024)
    gammas: tuple[float, ...] = GAMMAS  # for the figure over γ and for the exact kernel
    whole_grid: bool = False
    sweep_size: int = 128  # grids of the figure over γ
    exact_rows: int = 10_500  # at most so many training rows for the exact kernel
    sigma_rows: int = 2_000  # at most so many while its γ is looked for
    selection_rows: int = 2_000  # at most so many while settings are chosen under the fair protocol
    seeds: tuple[int, ...] = (0, 1, 2)  # of the fair protocol
    limited: bool = True  # whether the declared limits of the data sets hold
    theorem_rows: int = 1000
    theorem_grids: int = 32
    theorem_trials: int = 3


SCALES = {
    "tiny": Scale(
        datasets=("generated-regression", "generated-classes"),
        sizes=(8, 16, 32),
        rival_sizes=(8, 16, 32),
        fair_sizes=(8, 32),
        gammas=(0.1, 0.56, 1.12, 2.23, 10.0),
        sweep_size=32,
        selection_rows=100,
        seeds=(0, 1),
        theorem_rows=150,
        theorem_grids=6,
        theorem_trials=2,
    ),
    "laptop": Scale(
        datasets=(
            *("cpu", "pendigits", "covtype-mult-sample", "cadata", "house-16h", "covtype-sample"),
            *("susy-sample", "letter", "ijcnn1-train", "a9a", "cod-rna-train", "mnist"),
        )
    ),
    "paper": Scale(
        datasets=(
            *("cpu", "pendigits", "cadata", "census", "letter", "ijcnn1", "a9a", "cod-rna"),
            *("acoustic", "mnist", "covtype", "covtype-mult", "susy"),
        ),
        rival_sizes=(*SIZES, 2048, 4096, 8192, 16_384, 32_768),
        fair_sizes=(16, 64, 256, 1024, 4096),
        whole_grid=True,
        exact_rows=16_000,
        sigma_rows=16_000,
        selection_rows=10_000,
        seeds=(0, 1, 2, 3, 4),
        limited=False,
    ),
}
