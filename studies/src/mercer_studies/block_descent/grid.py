"""Data sets, systems and sizes of the study at three scales."""

from __future__ import annotations

from dataclasses import dataclass

from mercer_studies.block_descent.data import REVIEWS, Source

METHODS = {"exact": "full kernel", "nystroem": "Nyström", "features": "random features"}
"""Systems, and what they are called; random features of texts are hashed n-grams."""

FIGURES = (1, 2, 3, 4, 5)
TABLES = (1, 2, 3)
EARLY = 5
"""Epochs after which Figure 2 looks; Figure 4 goes on."""

_C = "classification"
_SOURCES = (
    Source("mnist", "CIFAR-10", "/255", task=_C),
    Source(REVIEWS, "Yelp", task="regression"),
    Source("ijcnn1-train", task=_C),
    Source("covtype-sample", task=_C),
    Source("ijcnn1", task=_C),
    Source("covtype", task=_C),
    Source("generated-classes", task=_C),
    Source("generated-reviews", task="regression"),
)

SOURCES: dict[str, Source] = {source.name: source for source in _SOURCES}
"""Data sets by name, in the order in which they are run."""


@dataclass(frozen=True)
class Scale:
    """Sizes and data sets of a run of the study.

    ``course_data``, ``size_data``, ``path_data``, ``rate_data``: of Figures 1 and 3, of Figure 2,
    of paths, and of rates and direct solutions; ``rows``, ``test_rows``: at most so many; None
    takes all; ``epochs``, ``long_epochs``: of Figure 1, and of Figure 4; ``rate_rows``,
    ``rate_size``, ``rate_block``, ``rate_epochs``: rows, features, block size and most epochs of
    systems that are solved directly besides; ``rate_jitter``, ``jitter``: γ of Nyström in these
    systems, and in all others.
    """

    course_data: tuple[str, ...]
    size_data: tuple[str, ...]
    path_data: tuple[str, ...]
    rate_data: tuple[str, ...]
    long_data: tuple[str, ...]  # of Figure 2 those that go on for Figure 4
    rows: int | None = 10_000
    text_rows: int | None = 8000  # at most so many training texts
    test_rows: int | None = 4000
    fitted: int = 1600  # rows with which settings are chosen
    block_size: int = 512  # b
    size: int = 2000  # p of Figure 1
    sizes: tuple[int, ...] = (500, 1000, 2000, 4000)  # p of Figures 2 and 4
    epochs: int = 5
    long_epochs: int = 50
    cap: float = 60.0  # seconds after which a curve ends
    path_alphas: int = 8  # λ of a path
    rate_rows: int = 1200
    rate_size: int = 200
    rate_block: int = 50
    rate_epochs: int = 3000
    rate_jitter: float = 0.5
    jitter: float = 1e-2
    seeds: int = 1  # trials of Figures 2 and 4


_TINY = ("generated-classes", "generated-reviews")
_LAPTOP = tuple(source.name for source in _SOURCES[:4])
_PAPER = ("mnist", REVIEWS, "ijcnn1", "covtype")

SCALES = {
    "tiny": Scale(
        _TINY,
        _TINY,
        _TINY[1:],
        _TINY[1:],
        _TINY,
        fitted=160,
        block_size=64,
        size=96,
        sizes=(32, 64, 128),
        epochs=3,
        long_epochs=8,
        cap=2.0,
        path_alphas=4,
        rate_rows=120,
        rate_size=40,
        rate_block=10,
        rate_epochs=200,
    ),
    "laptop": Scale(
        _LAPTOP,
        (*_LAPTOP[:2], _LAPTOP[3]),
        _LAPTOP[:3],
        (_LAPTOP[0], *_LAPTOP[2:]),
        (_LAPTOP[0], _LAPTOP[3]),
    ),
    "paper": Scale(
        _PAPER,
        _PAPER,
        _PAPER,
        (_PAPER[0], *_PAPER[2:]),
        (_PAPER[0], _PAPER[3]),
        rows=None,
        text_rows=None,
        test_rows=10_000,
        fitted=8000,
        block_size=4096,
        size=16_384,
        sizes=(4096, 8192, 16_384, 32_768),
        cap=4 * 3600.0,
        rate_rows=6000,
        rate_size=2000,
        rate_block=500,
        seeds=3,
    ),
}
