"""The authors' numbers: those of their tables and of their text."""

from __future__ import annotations

from dataclasses import dataclass

BLOCK_SIZE = 6144
MACHINES = 128


@dataclass(frozen=True)
class PaperData:
    """A data set of the paper."""

    name: str
    rows: int
    inputs: int
    classes: int
    terabytes: float  # of the kernel matrix, as its Table 3 has it
    features: int  # p of its Figure 1; of CIFAR-10, the larger one of its Figure 4
    nonzeros: int | None  # inputs of a row that are not zero, where that is known


PAPER_DATA = (
    PaperData("TIMIT", 2_251_569, 440, 147, 40.56, 200_000, 440),
    PaperData("Yelp", 1_255_412, 65_282_968, 5, 12.61, 122_000, None),
    PaperData("CIFAR-10", 500_000, 4096, 10, 2.00, 200_000, 4096),
)
"""Table 3."""

ORDERS_OF = {
    "exact": ("n", "log² n", "n^(2β/(2β+1))", "n^(1/(2β+1)) log n"),
    "nystroem": ("n p / γ", "(1+γ) log n", "p n^(2β/(2β+1)) / γ", "(1+γ) log n"),
    "features": ("n", "log n", "n^(2β/(2β+1))", "log n"),
}
"""Table 2: iterations and block sizes for eigenvalues that decay exponentially, and as powers."""

SAID = (
    ("TIMIT", "full kernel, top-1 error after 3 epochs", "33.51 %"),
    ("TIMIT", "full kernel, hours of an epoch", "about 2.5"),
    ("TIMIT", "p from which both are within 1 % of the full kernel", "100,000"),
    ("Yelp", "full kernel, RMSE", "0.854"),
    ("Yelp", "Nyström, RMSE at p = 122,000", "0.861"),
    ("CIFAR-10", "linear model of the features, error", "25.7 %"),
    ("CIFAR-10", "kernel, error", "16.4 %"),
    ("TIMIT, CIFAR-10", "Figure 5, a block from 8 to 128 machines", "a slight decrease"),
)
"""Numbers in its text: the data, what they are of, and the number."""
