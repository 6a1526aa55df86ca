"""A model of what an epoch of block coordinate descent costs: flops, words sent and bytes.

Table 1 of Tu, Roelofs, Venkataraman and Recht (2016), and the terms that it leaves out.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mercer._runtime.validation import flag, name_from, positive_integer

__all__ = ["METHODS", "EpochCost", "epoch_cost", "kernel_bytes"]

METHODS = ("exact", "nystroem", "fourier")
"""Systems: the full kernel, Nyström's restricted span, random features."""

_WORD = 8  # bytes of a number in double precision


@dataclass(frozen=True)
class EpochCost:
    """Cost of one pass of block coordinate descent over all blocks.

    Parameters
    ----------
    n_blocks : int
        Number of blocks.
    flops : dict of str to float
        Floating-point operations of the epoch per phase, up to constants, on the machine with the
        most work.
    words : dict of str to float
        Numbers sent per kind: "gram", and in the extended form "data", "weights" and "right-hand
        sides".
    block_bytes : float
        Size in bytes of a block of columns on one machine.

    Attributes
    ----------
    total_flops, total_words, total_bytes : float
        Sums of ``flops`` and ``words``, and the bytes sent.

    Examples
    --------
    >>> cost = epoch_cost("fourier", 1000, 200, block_size=100, n_outputs=1, n_machines=4)
    >>> cost.n_blocks, cost.total_words
    (2, 40000.0)
    """

    n_blocks: int
    flops: dict[str, float]
    words: dict[str, float]
    block_bytes: float

    @property
    def total_flops(self) -> float:
        return float(sum(self.flops.values()))

    @property
    def total_words(self) -> float:
        return float(sum(self.words.values()))

    @property
    def total_bytes(self) -> float:
        return _WORD * self.total_words


def epoch_cost(
    method: str,
    n_rows: int,
    n_features: int | None = None,
    *,
    block_size: int,
    n_outputs: int = 1,
    n_machines: int = 1,
    n_inputs: int | None = None,
    extended: bool = False,
) -> EpochCost:
    """Flops and words of one epoch on M machines that share the rows.

    For every block the full kernel takes n b k / M + b³ flops and sends b² words; Nyström and
    random features take (n b² + n b k) / M + b³ flops and send b² log₂ M words. The extended form
    adds n b d / M flops to make the block, and words: for the full kernel (b d + b k) log₂ M, the
    rows of the block and the new weights to all machines; for the others b k log₂ M + b k,
    right-hand sides summed and weights sent.

    Parameters
    ----------
    method : {"exact", "nystroem", "fourier"}
        Columns: full kernel, Nyström landmarks, or random features.
    n_rows : int
        Number of rows n.
    n_features : int, optional
        Number of columns p; leave it out for the full kernel, where it is n.
    block_size : int
        Number of columns b of a block, at most p. A smaller last block counts in proportion.
    n_outputs, n_machines : int, default=1
        Numbers of outputs k and of machines M.
    n_inputs : int, optional
        Number of inputs d, or the mean number of non-zeros of a row; required if ``extended``.
    extended : bool, default=False
        Whether to count the operations that compute a block and all numbers sent.

    Raises
    ------
    TypeError, ValueError
        If a number is out of its range, or n_features or n_inputs is missing or too much.

    References
    ----------
    Tu, Roelofs, Venkataraman and Recht, Large scale kernel learning using block coordinate descent,
    2016, table 1, in which log(M) belongs to the lower row.

    Examples
    --------
    An epoch of the paper's largest problem, with b = 6144 on 128 machines:

    >>> setting = {"block_size": 6144, "n_outputs": 147, "n_machines": 128}
    >>> full = epoch_cost("exact", 2251569, **setting)
    >>> few = epoch_cost("fourier", 2251569, 200000, **setting)
    >>> f"{full.total_flops:.2g} {few.total_flops:.2g}"
    '9.1e+13 3e+13'
    """
    method = name_from(method, METHODS, "method")
    n = p = positive_integer(n_rows, "n_rows")
    if method == "exact" and n_features is not None:
        raise ValueError(f"n_features must be left out for the full kernel; got {n_features}.")
    if method != "exact":
        if n_features is None:
            raise ValueError(f"n_features must be given for {method!r}; got None.")
        p = positive_integer(n_features, "n_features")
    b = positive_integer(block_size, "block_size")
    k = positive_integer(n_outputs, "n_outputs")
    machines = positive_integer(n_machines, "n_machines")
    if b > p:
        raise ValueError(f"block_size must be at most the number of unknowns, {p}; got {b}.")
    steps, levels = p / b, float(np.log2(machines))
    rows = n / machines
    flops = {"update": rows * b * k * steps, "solve": float(b**3) * steps}
    if method == "exact":
        words = {"gram": b**2 * steps}
    else:
        flops["gram"] = rows * b**2 * steps
        words = {"gram": b**2 * levels * steps}
    if flag(extended, "extended"):
        if n_inputs is None:
            raise ValueError("n_inputs must be given for the extended form; got None.")
        d = positive_integer(n_inputs, "n_inputs")
        flops["generate"] = rows * b * d * steps
        if method == "exact":
            words |= {"data": b * d * levels * steps, "weights": b * k * levels * steps}
        else:
            words |= {"right-hand sides": b * k * levels * steps, "weights": b * k * steps}
    return EpochCost(-(-p // b), flops, words, _WORD * rows * b)


def kernel_bytes(n_rows: int, itemsize: int = _WORD) -> float:
    """Size in bytes of a kernel matrix stored whole.

    Parameters
    ----------
    n_rows : int
        Number of rows of the matrix.
    itemsize : int, default=8
        Size of one entry in bytes.

    Examples
    --------
    The paper's three problems, in terabytes:

    >>> [round(kernel_bytes(n) / 1e12, 2) for n in (2251569, 1255412, 500000)]
    [40.56, 12.61, 2.0]
    """
    return float(positive_integer(itemsize, "itemsize")) * positive_integer(n_rows, "n_rows") ** 2
