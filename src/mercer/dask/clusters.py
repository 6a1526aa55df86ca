"""The cluster of a fit: the client that is given or current, or a cluster of this machine."""

from __future__ import annotations

import atexit
import os
import sys
from typing import TYPE_CHECKING, Any

import numpy as np

import mercer
from mercer._runtime.machine import cores
from mercer._runtime.messages import shown
from mercer._runtime.progress import tell
from mercer.dask.packages import package

if TYPE_CHECKING:
    from distributed import Client

__all__ = ["ONE_THREAD", "check_versions", "client_for", "close_own"]

# What workers of one thread are told; their nannies would tell it the process of the client too.
ONE_THREAD = {f"{name}_NUM_THREADS": "1" for name in ("OMP", "OPENBLAS", "MKL")}
_NANNIES = "distributed.nanny.pre-spawn-environ"
_SECONDS = 30.0  # to reach a scheduler, and for a first worker to come
_OWN: dict[int, Any] = {}  # the client of a cluster that was started here, by process


def client_for(client: Any = None) -> Client:
    """The client to fit with, all of whose workers have this version of mercer.

    A string is the address of a scheduler. None is the current client or, without one, a client of
    a new cluster on this machine, one process per core, kept until ``close_own`` or the end of the
    program. A TypeError, ValueError or OSError for other objects, and for a cluster that cannot be
    reached, has no workers or other versions.
    """
    distributed = package("distributed")
    if client is None:
        client = _current(distributed) or _own(distributed)
    elif isinstance(client, str):
        client = _reached(distributed, client)
    if not isinstance(client, distributed.Client):
        raise TypeError(f"client must be a distributed.Client or None; got {shown(client)}.")
    if client.asynchronous:
        raise ValueError("client must be synchronous; got one with asynchronous=True.")
    if client.status != "running":
        raise ValueError(
            f"client must be connected to a scheduler; its status is {client.status!r}."
        )
    if not client.nthreads():
        try:
            client.wait_for_workers(1, timeout=_SECONDS)
        except TimeoutError:
            raise ValueError(
                f"client must have workers; none came within {_SECONDS:.0f} seconds."
            ) from None
    check_versions(client)
    return client


def check_versions(client: Client) -> None:
    """Raise if a worker's versions of mercer, Python (minor) or NumPy (major) differ."""
    mine = _versions()
    for address, theirs in client.run(_versions, on_error="return").items():
        if isinstance(theirs, ModuleNotFoundError):
            raise ValueError(
                f"workers must have mercer {mine['mercer']}; {theirs.name} is missing on {address}."
            )
        if isinstance(theirs, OSError):  # a worker that is lost meanwhile
            continue
        if isinstance(theirs, Exception):
            raise theirs
        for name, version in mine.items():
            if theirs[name] != version:
                raise ValueError(
                    f"workers must have {name} {version} as the client has; got {theirs[name]} on "
                    f"{address}."
                )


def close_own() -> None:
    """Close the cluster that was started here, if there is one."""
    client = _OWN.pop(os.getpid(), None)
    if client is not None:
        cluster = client.cluster
        client.close()
        cluster.close()


def _versions() -> dict[str, str]:
    return {
        "mercer": mercer.__version__,
        "Python": f"{sys.version_info.major}.{sys.version_info.minor}",
        "NumPy": np.__version__.partition(".")[0],
    }


def _current(distributed: Any) -> Any:
    try:
        return distributed.Client.current()
    except ValueError:
        return None


def _own(distributed: Any) -> Any:
    """The client of a cluster of this machine, which is started the first time."""
    client = _OWN.get(os.getpid())
    if client is None or client.status != "running":
        n_workers = cores()
        with package("dask.config").set({_NANNIES: {}}):
            cluster = distributed.LocalCluster(
                n_workers=n_workers,
                threads_per_worker=1,
                processes=True,
                host="127.0.0.1",
                dashboard_address=":0",
                env=ONE_THREAD,
            )
        client = _OWN[os.getpid()] = distributed.Client(cluster, set_as_default=False)
        atexit.register(close_own)
        tell("no client is given: a cluster of %d processes runs on this machine", n_workers)
    return client


def _reached(distributed: Any, address: str) -> Any:
    try:
        return distributed.Client(address, timeout=_SECONDS, set_as_default=False)
    except (OSError, ValueError) as error:
        raise OSError(f"Dask's scheduler cannot be reached at {address}.") from error
