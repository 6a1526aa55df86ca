"""Data sets, methods and sizes of the study at three scales."""

from __future__ import annotations

from dataclasses import dataclass

from mercer_studies.sparse_features.data import Source

FAMILIES = {"kernel": "Kernel", "rf": "RF", "sparse": "Sparse-RF"}
"""The exact kernel, random features with an l2 penalty, and random features with an l1 penalty."""

KERNELS = ("gaussian", "laplacian", "perceptron")

METHODS = {
    f"{family}-{kernel}": f"{label}, {kernel}"
    for kernel in KERNELS
    for family, label in FAMILIES.items()
}
"""The columns of the tables: a family and a kernel."""

BOOSTING = "boosting-perceptron"
LAMBDAS = (1000.0, 100.0, 10.0, 1.0)
"""n λ of Sparse-RF; it is 1 for the other two, and for all in the figure."""

TABLES = (1, 2)
FIGURE = 1


def table_of(number: int) -> str:
    """Entry of ``figures`` in records that belong to a table.

    >>> table_of(1)
    'Table 1'
    """
    return f"Table {number}"


_SOURCES = (
    Source("cpu", "CPU", table=1, test_share=0.2),
    Source("house-16h", "Census", table=1, test_share=0.2),
    Source("cod-rna-train", "Cod-RNA", table=2, test_share=10_000 / 59_535),
    Source("ijcnn1-train", "IJCNN", table=2),
    Source("covtype-sample", "Covtype", table=2, test_share=0.2),
    Source("census", "Census", table=1, test_share=0.1),
    Source("cod-rna", "Cod-RNA", table=2),
    Source("ijcnn1", "IJCNN", table=2),
    Source("covtype", "Covtype", table=2, test_share=0.2),
    Source("generated-regression", None, table=1),
    Source("generated-classes", None, table=2),
)

SOURCES: dict[str, Source] = {source.name: source for source in _SOURCES}
"""Data sets by name, in the order in which they are run."""


@dataclass(frozen=True)
class Scale:
    """Sizes and data sets of a run of the study.

    ``table_data``, ``figure_data``: of the tables, and of the figure; ``rows``, ``test_rows``: at
    most so many; None takes all; ``size``, ``n_new``: features D that are drawn, and how many of
    them at a time; ``width_rows``, ``width_size``: rows and features with which γ is chosen;
    ``figure_rows``, ``figure_size``, ``figure_new``: rows, features drawn and features drawn at a
    time in the figure.
    """

    table_data: tuple[str, ...]
    figure_data: tuple[str, ...]
    rows: int | None = 6000
    test_rows: int | None = 10_000
    kernel_rows: int | None = 6000  # the exact kernel is fitted to no more
    size: int = 4000
    n_new: int = 400
    width_rows: int = 2000
    width_size: int = 500
    figure_rows: int = 5000
    figure_size: int = 2000
    figure_new: int = 50
    n_learners: int = 200  # perceptrons that boosting looks for at most


SCALES = {
    "tiny": Scale(
        ("generated-regression", "generated-classes"),
        ("generated-classes",),
        size=128,
        n_new=32,
        width_rows=120,
        width_size=32,
        figure_size=200,
        figure_new=20,
        n_learners=20,
    ),
    "laptop": Scale(
        ("cpu", "house-16h", "cod-rna-train", "ijcnn1-train", "covtype-sample"),
        ("cod-rna-train", "ijcnn1-train", "covtype-sample"),
    ),
    "paper": Scale(
        ("cpu", "census", "cod-rna", "ijcnn1", "covtype"),
        ("cod-rna", "ijcnn1", "covtype"),
        rows=None,
        test_rows=None,
        kernel_rows=20_000,
        size=10_000,
        n_new=500,
        width_rows=10_000,
        width_size=1000,
        figure_rows=20_000,
        figure_size=10_000,
        figure_new=100,
        n_learners=1000,
    ),
}
