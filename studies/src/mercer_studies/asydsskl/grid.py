"""Data sets, methods and sizes of the study at three scales."""

from __future__ import annotations

from dataclasses import dataclass

from mercer_studies.asydsskl.data import Source

METHODS = {
    "asydsskl": "AsyDSSKL",
    "asydsskl-own": "AsyDSSKL, our steps",
    "working-set": "coordinate descent",
    "squared": "the same, squared loss",
    "svc": "SVC, SVR",
    "libsvm-p": "LIBSVM(P)",
    "asygcd": "AsyGCD",
    "doubly": "DoubleSGD",
}
"""Methods, and what they are called: the paper's, the same with other steps, and its rivals."""

_ONLY = {"squared": "regression", "asygcd": "classification", "doubly": "classification"}
FIGURES = (1, 2)
ROBUST = "robustness"
PROTOCOLS = ("fair", ROBUST)


def methods_for(task: str) -> list[str]:
    """The methods that the paper has for a task, and ours."""
    return [name for name in METHODS if _ONLY.get(name, task) == task]


_B, _R = "classification", "regression"
_SOURCES = (
    Source("covtype-sample", "Covtype_B", task=_B),
    Source("w8a-train", "RCV1", task=_B, replaces="rcv1"),
    Source("susy-sample", "SUSY", "standard", task=_B),
    Source("covtype-mult-sample", "Covtype_M", task=_R),
    Source("mnist", "MNIST", "/255", task=_R, sample_of="mnist8m"),
    Source("sector", "Aloi", task=_R, replaces="aloi"),
    Source("cadata", None, "standard", task=_R),
    Source("cpu", None, "standard", task=_R),
    Source("ijcnn1-train", None, "standard", task=_B),
    Source("cod-rna-train", None, "standard", task=_B),
    Source("covtype", "Covtype_B", task=_B),
    Source("rcv1", "RCV1", task=_B),
    Source("susy", "SUSY", "standard", task=_B),
    Source("covtype-mult", "Covtype_M", task=_R),
    Source("aloi", "Aloi", task=_R),
    Source("generated-classes", None, task=_B),
    Source("generated-regression", None, task=_R),
)

SOURCES: dict[str, Source] = {source.name: source for source in _SOURCES}
"""Data sets by name, in the order in which they are run."""


@dataclass(frozen=True)
class Scale:
    """Sizes and data sets of a run of the study.

    ``curve_data``, ``answer_data``, ``speed_data``, ``robust_data``: of Figure 1, a to f and g to
    h, of Figure 2, and of wrong targets; ``shapes``: sets of which rows of the full shape are made
    up, for times alone; ``rows``, ``test_rows``: at most so many in Figure 1; None takes all;
    ``n_new``, ``n_rounds``: R and M; ``speed_size``, ``speed_loops``: of Figure 2 as measured:
    rows, features and snapshots; ``delay_rows``, ``delay_size``, ``delay_loops``, ``delay_draws``:
    the same of simulated runs, and how many of them are averaged; ``robust_size``,
    ``robust_seeds``: training rows, random features and trials with wrong targets.
    """

    curve_data: tuple[str, ...]
    answer_data: tuple[str, ...]
    speed_data: tuple[str, ...]
    robust_data: tuple[str, ...]
    shapes: tuple[str, ...] = ()
    rows: int | None = 12_000
    test_rows: int | None = 5000
    fitted: int = 4000  # rows with which settings are chosen
    n_new: int = 200
    n_rounds: int = 5
    cap: float = 8.0  # seconds after which a curve of Figure 1 ends
    seeds: int = 1  # trials of Figure 1
    answer_rows: int | None = 6000  # training rows of the models that are asked
    counts: tuple[int, ...] = (500, 1000, 2000, 4000, 8000)  # rows that they are asked
    speed_rows: int | None = 9000
    speed_size: int = 400
    speed_loops: int = 20
    delay_rows: int = 400
    delay_size: int = 40
    delay_loops: int = 25
    delay_draws: int = 1
    delays: tuple[int, ...] = (0, 1, 2, 4, 8, 16, 32, 64, 128)  # τ
    robust_rows: int | None = 4000
    robust_size: int = 300
    robust_seeds: int = 3
    shares: tuple[float, ...] = (0.0, 0.1, 0.2, 0.3, 0.4)  # of wrong targets


_TINY = ("generated-classes", "generated-regression")

SCALES = {
    "tiny": Scale(
        _TINY,
        _TINY,
        _TINY,
        _TINY,
        shapes=("SUSY",),
        fitted=240,
        n_new=32,
        n_rounds=2,
        cap=1.0,
        counts=(40, 80, 160),
        speed_size=24,
        speed_loops=6,
        delay_rows=80,
        delay_size=12,
        delay_loops=8,
        delay_draws=1,
        delays=(0, 4, 16),
        robust_size=32,
        robust_seeds=1,
        shares=(0.0, 0.4),
    ),
    "laptop": Scale(
        tuple(source.name for source in _SOURCES[:6]),
        ("covtype-sample", "covtype-mult-sample"),
        ("covtype-sample", "covtype-mult-sample"),
        tuple(source.name for source in _SOURCES[6:10]),
    ),
    "paper": Scale(
        ("covtype", "rcv1", "susy", "covtype-mult", "mnist", "aloi"),
        ("covtype", "covtype-mult"),
        ("covtype", "covtype-mult"),
        tuple(source.name for source in _SOURCES[6:10]),
        shapes=("Covtype_B", "RCV1", "SUSY", "Covtype_M", "MNIST", "Aloi"),
        rows=None,
        test_rows=20_000,
        fitted=20_000,
        cap=3600.0,
        seeds=5,
        answer_rows=100_000,
        counts=(10_000, 20_000, 50_000, 100_000),
        speed_rows=None,
        speed_size=1000,
        robust_rows=None,
        robust_size=1000,
        robust_seeds=5,
    ),
}
