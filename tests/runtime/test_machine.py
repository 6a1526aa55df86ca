"""What the machine, its control groups, variables and joblib leave to a process."""

import os
import subprocess
import sys

import joblib
import numpy as np
import pytest
from sklearn.model_selection import GridSearchCV

from mercer import KernelRegressor
from mercer._runtime import machine as _machine
from mercer._runtime.arrays import n_threads

MB = 2**20
VARIABLES = ("OMP_NUM_THREADS", "LOKY_MAX_CPU_COUNT")


@pytest.fixture(autouse=True)
def _plain(monkeypatch):
    for variable in VARIABLES:
        monkeypatch.delenv(variable, raising=False)


@pytest.fixture
def eight_cores(monkeypatch):
    """A machine with eight cores and no control groups."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)), raising=False)
    monkeypatch.setattr(_machine, "_limiting", lambda *_: ())


@pytest.fixture
def system(tmp_path, monkeypatch):
    """Writes the files of an invented system."""
    monkeypatch.setattr(_machine, "_ROOT", tmp_path)

    def write(files):
        for name, text in files.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text + "\n")

    return write


# -- cores -----------------------------------------------------------------------------------


def test_every_core_and_counts_from_the_last(eight_cores):
    assert [n_threads(n) for n in (None, -1, -2, -8, -9, -100)] == [8, 8, 7, 1, 1, 1]
    assert [n_threads(n) for n in (1, 3, 100)] == [1, 3, 100]


@pytest.mark.parametrize("variable", VARIABLES)
@pytest.mark.parametrize(
    ("said", "meant"),
    [("3", 3), (" 3 ", 3), ("3,2", 3), ("100", 8), ("0", 8), ("", 8), ("-2", 8), ("many", 8)],
)
def test_variables_bound_what_none_means_but_not_what_is_said(
    variable, said, meant, eight_cores, monkeypatch
):
    monkeypatch.setenv(variable, said)
    assert n_threads() == n_threads(-1) == meant
    assert n_threads(-2) == max(1, meant - 1)
    assert n_threads(6) == 6


def test_variables_are_heard_in_a_new_process():
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    assert counted("", environment) == 1


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="no masks here")
def test_the_affinity_mask_is_heard():
    assert counted("import os; os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})") == 1


def counted(first, environment=None):
    code = (
        f"{first}\nfrom mercer._runtime.arrays import n_threads\nprint(n_threads(), n_threads(7))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, check=True, text=True
    )
    by_default, explicit = map(int, done.stdout.split())
    assert explicit == 7
    return by_default


SECOND = {"proc/self/cgroup": "0::/batch/job"}
FIRST = {"proc/self/cgroup": "5:memory:/docker/abc\n3:cpu,cpuacct:/docker/abc\n0::/"}
GROUPS = "sys/fs/cgroup"
QUOTAS = {
    "second": (SECOND | {f"{GROUPS}/batch/job/cpu.max": "250000 100000"}, 3),
    "second, of the group around": (
        SECOND
        | {f"{GROUPS}/batch/cpu.max": "100000 50000", f"{GROUPS}/batch/job/cpu.max": "max 100000"},
        2,
    ),
    "second, the least": (
        SECOND
        | {f"{GROUPS}/cpu.max": "700000 100000", f"{GROUPS}/batch/job/cpu.max": "10000 100000"},
        1,
    ),
    "second, seen as the outermost": (SECOND | {f"{GROUPS}/cpu.max": "400000 100000"}, 4),
    "second, none": (SECOND | {f"{GROUPS}/batch/job/cpu.max": "max 100000"}, 8),
    "first": (
        FIRST
        | {
            f"{GROUPS}/cpu,cpuacct/docker/abc/cpu.cfs_quota_us": "150000",
            f"{GROUPS}/cpu,cpuacct/docker/abc/cpu.cfs_period_us": "100000",
        },
        2,
    ),
    "first, seen as the outermost": (
        FIRST
        | {
            f"{GROUPS}/cpu/cpu.cfs_quota_us": "500000",
            f"{GROUPS}/cpu/cpu.cfs_period_us": "100000",
        },
        5,
    ),
    "first, none": (
        FIRST
        | {
            f"{GROUPS}/cpu/docker/abc/cpu.cfs_quota_us": "-1",
            f"{GROUPS}/cpu/docker/abc/cpu.cfs_period_us": "100000",
        },
        8,
    ),
    "broken": (SECOND | {f"{GROUPS}/batch/job/cpu.max": "much of it"}, 8),
    "broken table": ({"proc/self/cgroup": "no groups"}, 8),
    "no table": ({}, 8),
}


@pytest.mark.parametrize("quota", QUOTAS)
def test_quotas_of_control_groups_bound_the_cores(quota, system, monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)), raising=False)
    files, meant = QUOTAS[quota]
    system(files)
    assert n_threads() == meant
    assert n_threads(6) == 6


def test_systems_without_masks_count_their_cores(monkeypatch):
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    monkeypatch.setattr(joblib, "cpu_count", lambda: 5)
    monkeypatch.setattr(_machine, "_limiting", lambda *_: ())
    assert n_threads() == 5


# -- workers of joblib -----------------------------------------------------------------------


def threads_seen(explicit=3):
    return n_threads(), n_threads(explicit)


def nested():
    return joblib.Parallel(n_jobs=2, backend="threading")(
        joblib.delayed(threads_seen)() for _ in range(2)
    )


def test_processes_of_joblib_share_the_cores():
    with joblib.parallel_config(backend="loky", n_jobs=2):
        seen = joblib.Parallel()(joblib.delayed(threads_seen)() for _ in range(2))
    assert set(seen) == {(max(1, joblib.cpu_count() // 2), 3)}


def test_processes_of_joblib_hear_how_many_threads_are_for_each():
    with joblib.parallel_config(backend="loky", n_jobs=2, inner_max_num_threads=1):
        assert set(joblib.Parallel()(joblib.delayed(threads_seen)() for _ in range(2))) == {(1, 3)}


def test_threads_of_joblib_have_one_core_each(eight_cores):
    assert set(nested()) == {(1, 3)}
    assert threads_seen() == (8, 3)
    with joblib.parallel_config(backend="threading", n_jobs=2):
        assert threads_seen() == (8, 3)  # it is no worker
    alone = joblib.Parallel(n_jobs=1)(joblib.delayed(threads_seen)() for _ in range(2))
    assert set(alone) == {(8, 3)}


def test_threads_in_processes_of_joblib_have_one_core_each():
    seen = joblib.Parallel(n_jobs=2, backend="loky")(joblib.delayed(nested)() for _ in range(2))
    assert {pair for pairs in seen for pair in pairs} == {(1, 3)}


class Counting(KernelRegressor):
    """A machine whose score is the number of threads with which it was fitted."""

    def fit(self, X, y):
        super().fit(X, y)
        self.threads_ = n_threads(self.n_jobs)
        return self

    def score(self, X, y):
        return float(self.threads_)


@pytest.mark.parametrize("backend", ["loky", "threading"])
def test_a_grid_search_takes_no_more_threads_than_there_are_cores(backend):
    X = np.random.default_rng(0).normal(size=(60, 2))
    search = GridSearchCV(
        Counting(n_components=8, random_state=0), {"alpha": [0.1, 1.0]}, n_jobs=2, cv=2, refit=False
    )
    with joblib.parallel_config(backend=backend):
        search.fit(X, X[:, 0])
    most = max(search.cv_results_["mean_test_score"])
    assert most <= max(1, n_threads() // 2)


# -- memory ----------------------------------------------------------------------------------


def test_memory_is_read_from_the_tables_of_linux(system, monkeypatch):
    monkeypatch.setattr("mercer._runtime.pages._idle", {})  # left by arrays of other tests
    system(
        {
            "proc/meminfo": "MemTotal: 900 kB\nMemAvailable:     300 kB\nBuffers: 1 kB",
            "proc/self/status": "Name: python\nVmRSS: 80 kB\nRssAnon:   60 kB",
        }
    )
    assert _machine.free_memory() == 300 * 1024
    assert _machine.held_memory() == 60 * 1024


def test_older_tables_tell_what_is_held_too(system):
    system({"proc/self/status": "Name: python", "proc/self/statm": "900 80 30 1 0 2 0"})
    assert _machine.held_memory() == 50 * os.sysconf("SC_PAGE_SIZE")


def test_systems_without_these_tables_are_asked_by_psutil(system, monkeypatch):
    psutil = pytest.importorskip("psutil")
    assert _machine.free_memory() == pytest.approx(psutil.virtual_memory().available, rel=0.5)
    before = _machine.held_memory()
    held = np.ones(64 * MB // 8)
    assert _machine.held_memory() - before == pytest.approx(held.nbytes, rel=0.5)


class Stub:
    """A psutil of an invented system."""

    def __init__(self, **memory):
        self.memory = memory

    def virtual_memory(self):
        return type("Memory", (), {"available": 12345})

    def Process(self):
        return self

    def memory_info(self):
        return type("Memory", (), self.memory)


@pytest.mark.parametrize(
    ("memory", "held"),
    [({"rss": 70}, 70), ({"rss": 70, "private": 50}, 50)],
    ids=["mac", "windows"],
)
def test_what_is_mapped_does_not_count_where_it_is_told_apart(memory, held, system, monkeypatch):
    monkeypatch.setitem(sys.modules, "psutil", Stub(**memory))
    assert _machine.free_memory() == 12345
    assert _machine.held_memory() == held


def test_without_tables_and_psutil_nothing_is_claimed(system, monkeypatch):
    monkeypatch.setitem(sys.modules, "psutil", None)
    monkeypatch.delattr(os, "sysconf")
    assert _machine.free_memory() is None
    assert _machine.held_memory() == 0
    assert _machine.group_memory() is None


ROOMS = {
    "second": (
        SECOND
        | {
            f"{GROUPS}/batch/memory.max": "5000",
            f"{GROUPS}/batch/memory.current": "3000",
            f"{GROUPS}/batch/memory.stat": "anon 2000\ninactive_file 500",
        },
        2500,
    ),
    "first": (
        FIRST
        | {
            f"{GROUPS}/memory/docker/abc/memory.limit_in_bytes": "5000",
            f"{GROUPS}/memory/docker/abc/memory.usage_in_bytes": "3000",
            f"{GROUPS}/memory/docker/abc/memory.stat": "inactive_file 9\ntotal_inactive_file 400",
        },
        2400,
    ),
    "first, seen as the outermost": (
        FIRST
        | {
            f"{GROUPS}/memory/memory.limit_in_bytes": "5000",
            f"{GROUPS}/memory/memory.usage_in_bytes": "6000",
            f"{GROUPS}/memory/memory.stat": "cache 0",
        },
        0,
    ),
    "first, none": (
        FIRST
        | {
            f"{GROUPS}/memory/memory.limit_in_bytes": "9223372036854771712",
            f"{GROUPS}/memory/memory.usage_in_bytes": "6000",
            f"{GROUPS}/memory/memory.stat": "cache 0",
        },
        None,
    ),
}


@pytest.mark.parametrize("version", ROOMS)
def test_limits_of_control_groups_of_both_versions_count(version, system):
    files, room = ROOMS[version]
    system(files)
    assert _machine.group_memory() == room
