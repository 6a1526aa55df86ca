"""Memory and threads that the system refuses although the estimate let them pass."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

from mercer import KernelRegressor
from mercer._runtime import arrays as _array
from mercer.maps import Fastfood, RandomFourier

resource = pytest.importorskip("resource", reason="there are no limits of processes here")
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads the size of a process")

# Fits with so little room above what the process has that something on the way must fail: the more
# room, the later. All is tried with room first: modules are imported then, and OpenBLAS, which ends
# the process if it cannot have buffers, has them. A process that was ended has no last line.
SQUEEZED = """
import os, resource, sys, warnings
import numpy as np
import mercer

warnings.simplefilter("ignore")

def rows(n):
    X = np.random.default_rng(0).normal(size=(n, 6))
    return X, np.sin(X[:, 0]) + X[:, 1], X[:, 0] > 0


X, y, labels = rows(200)
FITS = {
    "binning": lambda: mercer.KernelRegressor(n_components=100, n_jobs=4).fit(X, y),
    "fourier": lambda: mercer.KernelRegressor("fourier", n_components=200, n_jobs=4).fit(X, y),
    "fastfood": lambda: mercer.KernelRegressor("fastfood", n_components=256, n_jobs=4).fit(X, y),
    "nystroem": lambda: mercer.KernelRegressor("nystroem", n_components=100, n_jobs=4).fit(X, y),
    "descent": lambda: mercer.KernelClassifier(
        loss="squared_hinge", penalty="l1", alpha=1e-3, n_components=50, n_jobs=4, max_iter=3
    ).fit(X, labels),
    "async": lambda: mercer.KernelClassifier(
        loss="logistic", solver="async", n_components=50, n_jobs=4, max_iter=2
    ).fit(X, labels),
    "pairs": lambda: mercer.DualKernelSVC(n_jobs=4, max_iter=500).fit(X, labels),
    "steps": lambda: mercer.DoublySGDRegressor(max_iter=2, n_jobs=4).fit(X, y),
    "sparse": lambda: mercer.SparseKernelRegressor(max_rounds=2, n_jobs=4).fit(X, y),
}


def size():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[0]) * resource.getpagesize()


def outcome(fit):
    try:
        fit()
    except BaseException as error:
        return error
    return None


def in_words(error):
    if error is None:
        return "fitted"
    if isinstance(error, (MemoryError, ValueError, OSError)):
        return "refused" if len(str(error).splitlines()) < 2 else repr(error)
    if isinstance(error, RuntimeError) and "thread" in str(error):  # of threads that do not start
        return "refused"
    return repr(error)


for fit in FITS.values():
    fit()
X, y, labels = rows(8000)
for name, fit in FITS.items():
    for room in (9, 20, 60):
        sys.stdout.write(f"{name} with {room} MB: ")
        sys.stdout.flush()
        child = os.fork()
        if not child:
            hard = resource.getrlimit(resource.RLIMIT_AS)[1]
            resource.setrlimit(resource.RLIMIT_AS, (size() + room * 2**20, hard))
            came = outcome(fit)
            resource.setrlimit(resource.RLIMIT_AS, (hard, hard))
            print(in_words(came), flush=True)  # which takes memory, too
            os._exit(0)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if code == 127:  # of a thread that began and then had no memory of its own
            print("ended by the C library", flush=True)
        elif code:
            print(f"ended with {code}", flush=True)
print("all tried")
"""


def run(code, **settings):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.run(
        [sys.executable, "-c", code],
        env={**environment, "OPENBLAS_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
        **settings,
    )


def test_refused_memory_ends_a_fit_with_an_exception_and_nothing_else():
    child = run(SQUEEZED)
    lines = child.stdout.splitlines()
    assert lines[-1:] == ["all tried"], (child.returncode, lines[-1:], child.stderr[-500:])
    known = ("refused", "fitted", "ended by the C library")
    assert [line for line in lines[:-1] if line.split(": ")[1] not in known] == []
    if any(line.endswith("library") for line in lines):
        assert "cannot allocate memory for thread-local data" in child.stderr
    assert any(line.endswith("refused") for line in lines)


def test_threads_that_cannot_start_are_done_without_or_refused():
    # An administrator has no limit of threads, so the process becomes somebody else.
    drop = "import os\nif os.geteuid() == 0: os.setuid(65534)\n"
    limit = "resource.setrlimit(resource.RLIMIT_NPROC, (1, 1))\n"
    every = SQUEEZED.partition("for name, fit in FITS.items():")[0]
    tries = 'for name, fit in FITS.items(): print(name + ":", in_words(outcome(fit)), flush=True)\n'
    child = run(every + drop + limit + tries + 'print("all tried")')
    lines = child.stdout.splitlines()
    assert lines[-1:] == ["all tried"], (child.returncode, lines[-1:], child.stderr[-500:])
    wrong = [line for line in lines[:-1] if line.split(": ")[1] not in ("refused", "fitted")]
    assert wrong == []


@pytest.mark.parametrize("columns", [2**31, 2**60])
def test_frequencies_that_would_not_fit_are_refused_before_they_are_drawn(columns):
    with pytest.raises(MemoryError, match=r"drawing .* n_components=\d+ would fit\.$"):
        Fastfood(n_components=columns).fit(np.eye(3))


def test_a_direct_solver_is_refused_before_the_features_are_made(monkeypatch):
    monkeypatch.setattr(_array, "available_memory", lambda: 10**9)
    monkeypatch.setattr(RandomFourier, "_transform", lambda *_: pytest.fail("made features"))
    monkeypatch.setattr(RandomFourier, "_block", lambda *_: pytest.fail("made features"))
    X = np.random.default_rng(0).normal(size=(9000, 2))
    model = KernelRegressor("fourier", n_components=10_000, solver="cholesky")
    with pytest.raises(MemoryError, match="the matrix of 9000 equations and its factor needs"):
        model.fit(X, X[:, 0])


def test_a_limit_of_address_space_bounds_the_memory_that_is_available():
    code = """
import resource
from mercer._runtime.arrays import available_memory
hard = resource.getrlimit(resource.RLIMIT_AS)[1]
resource.setrlimit(resource.RLIMIT_AS, (2**30, hard))
print(available_memory() < 2**30)
"""
    assert run(code).stdout == "True\n"
