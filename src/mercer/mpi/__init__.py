"""Fits over the ranks of an MPI job, such as ``mpiexec -n 4 python fit.py``.

Rank 0 runs the user's code and holds shards as all others do. What its engine is asked becomes a
command that all ranks get and do at once; only what is named in it travels. MPI makes no loss good:
where a rank dies the job ends, and the same command with a checkpoint goes on from there.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from mercer.distributed.parquet import ParquetPart, parquet_parts, read_part
from mercer.distributed.shards import Shard
from mercer.mpi.commands import load_shards
from mercer.mpi.engine import MPIEngine
from mercer.mpi.job import Job
from mercer.mpi.values import raise_first
from mercer.mpi.waiting import share_of_machine

__all__ = ["MPIEngine", "fit", "n_ranks", "run", "shards_of"]

_job: Job | None = None  # of this process, while ``run`` goes on


@dataclass(frozen=True)
class FromParts:
    """Reads a shard of what is planned."""

    parts: list[ParquetPart]

    def __call__(self, number: int) -> Shard:
        """The rows of a part."""
        return read_part(self.parts[number])


def run(main: Callable[..., Any], *args: Any) -> Any:
    """Call ``main(*args)`` on rank 0, while the other ranks work for it.

    Every rank calls this, with the same function. Fits belong into it; what stands after it is done
    by every rank.

    Parameters
    ----------
    main : callable
        The user's code.
    *args
        What it is called with.

    Returns
    -------
    object
        What ``main`` returns on rank 0, None on the others.

    Raises
    ------
    ImportError
        If mpi4py is not installed.
    RuntimeError
        Inside of itself.
    Exception
        On rank 0, what ``main`` raises; the other ranks then end as well. An exception in work on
        shards, wherever it is done, is raised by the fit on rank 0, with a note of the rank.

    Notes
    -----
    A rank that is killed takes the job with it, as MPI has it. The same command with the same
    folder of checkpoints goes on where the fit was, on any number of ranks. Ctrl-C reaches rank 0
    once the command that ranks are at is done; the others do not listen to it.

    Examples
    --------
    >>> from mercer import mpi
    >>> mpi.run(max, 1, 2)  # doctest: +SKIP
    2
    """
    global _job
    if _job is not None:
        raise RuntimeError("mercer.mpi.run must not be called inside of itself.")
    _job = job = Job(_communicator())
    try:
        with share_of_machine(job.comm):
            if job.rank:
                return job.serve()
            try:
                return main(*args)
            finally:
                job.end()
    finally:
        _job = None


def shards_of(
    X: Callable[[int], Any] | str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    y: str | None = None,
    sample_weight: str | None = None,
    *,
    n_shards: int | None = None,
    **columns: Any,
) -> MPIEngine:
    """Shards that ranks read or make themselves, each its own.

    Parameters
    ----------
    X : path, list of paths, or callable
        A folder of Parquet files, a file or several, under a path that all ranks know. Or a
        function in a module or in the script that all ranks run: ``X(number)``, called on the rank
        that is to have the shard, is ``(X, y)``, ``(X, y, sample_weight)`` or a Shard.
    y, sample_weight : str, default=None
        With paths, the columns to predict and of weights.
    n_shards : int, default=None
        None makes one for every rank.
    **columns
        With paths, see ``mercer.distributed.parquet.parquet_parts``.

    Returns
    -------
    MPIEngine

    Raises
    ------
    RuntimeError
        Outside of :func:`run`.
    Exception
        What reading or ``X`` raises, on whatever rank.

    Examples
    --------
    >>> from mercer import mpi
    >>> mpi.shards_of("sales/", "price")
    Traceback (most recent call last):
    RuntimeError: shards must be made inside of mercer.mpi.run, on rank 0.
    """
    if _job is None:
        raise RuntimeError("shards must be made inside of mercer.mpi.run, on rank 0.")
    n = _job.size if n_shards is None else n_shards
    names: tuple[str, ...] | None = None
    if not callable(X):
        parts = parquet_parts(X, n, target=y, weights=sample_weight, **columns)
        X, n, names = FromParts(parts), len(parts), parts[0].features
    shards = _job.spread_out(n)
    raise_first(_job.do(load_shards, shards, X))
    return MPIEngine(_job, shards, columns=names)


def fit(
    model: Any,
    X: Any,
    y: str | None = None,
    sample_weight: str | None = None,
    *,
    checkpoint: str | os.PathLike[str] | None = None,
    callback: Callable[[Any], bool] | None = None,
    **how: Any,
) -> Any:
    """Fit a model over all ranks, inside of :func:`run`.

    Parameters
    ----------
    model : estimator
        A kernel machine, local kernel machine or automatic model of mercer, which is fitted in
        place.
    X, y, sample_weight
        As for :func:`shards_of`.
    checkpoint : path-like, default=None
        Folder in which block coordinate descent keeps how far it is: a fit of the same rows and
        settings goes on from there, on any number of ranks.
    callback : callable, default=None
        Called with the state of the solver after every iteration; True ends the fit.
    **how
        As for :func:`shards_of`.

    Returns
    -------
    estimator
        ``model``.

    Raises
    ------
    ValueError
        In one sentence, for settings or data that make no sense, or that need one process.

    Examples
    --------
    >>> from mercer import KernelRegressor, mpi
    >>> def main():
    ...     model = mpi.fit(KernelRegressor("fourier", n_components=4096), "sales/", "price")
    ...     return model.score
    >>> mpi.run(main)  # doctest: +SKIP
    """
    from mercer.distributed.models import fit_over  # not before: ranks start sooner

    engine = shards_of(X, y, sample_weight, **how)
    try:
        return fit_over(model, engine, callback=callback, checkpoint=checkpoint)
    finally:
        engine.close()


def n_ranks() -> int:
    """Ranks of the job that this process is in; 0 outside of :func:`run`."""
    return 0 if _job is None else _job.size


def _communicator() -> Any:
    """All ranks, with messages of their own; large arrays travel without a copy."""
    try:
        from mpi4py import MPI
        from mpi4py.util import pkl5
    except (ImportError, RuntimeError) as error:
        raise ImportError(
            f"fits over MPI need mpi4py and an MPI ({error}); pip install 'mercer[mpi]' brings the "
            "first."
        ) from error
    return pkl5.Intracomm(MPI.COMM_WORLD.Dup())
