"""Fits over the ranks of an MPI job, such as ``mpiexec -n 4 python fit.py``.

Rank 0 runs the user's code and holds shards as all others do. What its engine is asked becomes a
command that all ranks get and do at once; only what is named in it travels. MPI makes no loss good:
where a rank dies the job ends, and the same command with a checkpoint goes on from there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mercer.mpi.commands import load_shards
from mercer.mpi.engine import MPIEngine
from mercer.mpi.job import Job
from mercer.mpi.values import raise_first
from mercer.mpi.waiting import share_of_cores

__all__ = ["MPIEngine", "run", "shards_of"]

_job: Job | None = None  # of this process, while ``run`` goes on


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
        with share_of_cores(job.comm):
            if job.rank:
                return job.serve()
            try:
                return main(*args)
            finally:
                job.end()
    finally:
        _job = None


def shards_of(load: Callable[[int], Any], n_shards: int | None = None) -> MPIEngine:
    """Shards that ranks make themselves, each its own, from a function.

    Parameters
    ----------
    load : callable
        ``load(number)``, called on the rank that shall have the shard, is ``(X, y)``,
        ``(X, y, sample_weight)`` or a Shard; it stands in a module or in the script that all
        ranks run.
    n_shards : int, default=None
        None makes one for every rank.

    Returns
    -------
    MPIEngine

    Raises
    ------
    RuntimeError
        Outside of :func:`run`.
    Exception
        What ``load`` raises, on whatever rank.

    Examples
    --------
    >>> from mercer import mpi
    >>> def load(number):
    ...     rng = np.random.default_rng(number)
    ...     return rng.normal(size=(100, 3)), rng.normal(size=100)
    >>> mpi.shards_of(load)
    Traceback (most recent call last):
    RuntimeError: shards_of must be called inside of mercer.mpi.run, on rank 0.
    """
    if _job is None:
        raise RuntimeError("shards_of must be called inside of mercer.mpi.run, on rank 0.")
    shards = _job.spread_out(_job.size if n_shards is None else n_shards)
    raise_first(_job.do(load_shards, shards, load))
    return MPIEngine(_job, shards)


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
