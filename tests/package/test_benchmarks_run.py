"""benchmarks/run.py: runs are stored one by one, compared with those before, and never lost."""

import contextlib
import importlib
import json
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

FOLDER = Path(__file__).parents[2] / "benchmarks"

pytestmark = pytest.mark.skipif(not FOLDER.is_dir(), reason="needs the whole repository")


@pytest.fixture
def runner(monkeypatch):
    known = set(sys.modules)
    monkeypatch.syspath_prepend(str(FOLDER))
    yield importlib.import_module("run")
    for name in set(sys.modules) - known:
        file = Path(getattr(sys.modules[name], "__file__", None) or "/")
        if file.parent in (FOLDER, FOLDER.parent / "docs" / "_ext"):
            del sys.modules[name]


@pytest.fixture
def tiny(runner, monkeypatch):
    """The tasks, with few rows to predict and generated rows in the place of cod-rna."""
    tasks = importlib.import_module("whole_tasks")

    def cod_rna(n):
        X = np.random.default_rng(0).random((n, 8))
        return X, np.where(X[:, 0] + X[:, 1] ** 2 > 0.8, 1.0, -1.0)

    monkeypatch.setattr(tasks, "MANY", 100)
    monkeypatch.setattr(tasks, "cod_rna", cod_rna)
    return tasks


@pytest.fixture
def stored_run(runner):
    about = runner.about() | {"date": "2026-01-01T00:00:00+00:00", "busy": False, "aims": []}

    def make(fit, method="mercer", **changes):
        facts = {"task": "a task", "rows": 1000, "method": method, "fit": fit, "error": 0.5}
        return facts | about | changes

    return make


def test_methods_of_a_task_reach_the_same_error(tiny):
    """Those of a convex problem, or of the same rule, by the peers that tests have."""
    pairs = {
        "exact kernel ridge": ["mercer", "scikit-learn KernelRidge"],
        "support vector machine, C = 1, cod-rna": ["mercer", "scikit-learn SVC"],
        "Gaussian process, given hyperparameters": ["mercer", "scikit-learn"],
        "L1 logistic regression, three strengths, 128 grids of bins, cod-rna": [
            "mercer",
            "LIBLINEAR",
        ],
        "L1 logistic regression on 1000 cosines, cod-rna": [
            "mercer, asynchronous, 2 threads",
            "mercer, coordinate descent, 1 thread",
        ],
    }
    tasks = {task.name: task for task in tiny.TASKS}
    for name, methods in pairs.items():
        found = [tasks[name].run(method, 300) for method in methods]
        assert found[0]["error"] == pytest.approx(found[1]["error"], rel=0.02, abs=0.005)
        assert all(facts["fit"] > 0 for facts in found)


def test_every_task_begins_with_ours_and_its_aims_name_methods(tiny):
    for task in tiny.TASKS:
        assert task.methods[0].startswith(tiny.OURS)
        assert task.aims
        assert {name for aim in task.aims for name in (aim.peer, aim.method)} <= set(task.methods)
        assert set(task.most) <= set(task.methods)


def test_runs_of_a_task_are_stored_with_their_aims(runner, tmp_path, monkeypatch, capsys):
    path = tmp_path / "runs.jsonl"
    monkeypatch.setattr(runner, "measured", lambda task, rows, *rest: {"fit": 1.0 + rows})
    monkeypatch.setattr(runner, "busy_share", lambda: 0.0)
    runner.main(["--only", "^exact kernel", "--file", str(path)])
    runs, broken = runner.stored(path)
    assert not broken
    [task] = [task for task in runner.TASKS if task.name == "exact kernel ridge"]
    assert [run["rows"] for run in runs if run["method"] == "mercer"] == list(task.sizes)
    assert runs[0]["aims"] == [["scikit-learn KernelRidge", 10.0, "fit"]]
    assert not runs[1]["aims"]
    assert all(run["versions"]["mercer"] and not run["busy"] for run in runs)
    assert "exact kernel ridge, 5000 rows, mercer: fit 5001" in capsys.readouterr().out


def test_only_names_a_task(runner, capsys):
    with pytest.raises(SystemExit):
        runner.main(["--only", "nothing of this name"])
    assert "--only must match a task; got 'nothing of this name'" in capsys.readouterr().err
    runner.main(["--list"])
    listed = capsys.readouterr().out
    assert all(task.name in listed for task in runner.TASKS)


def test_a_run_that_fails_or_takes_too_long_ends_alone(runner):
    task = runner.TASKS[0]
    assert (
        "StopIteration"
        in runner.measured(
            runner.Task("no such task", task.run, (), ("mercer",)), 10, "mercer", 0.0, 60.0
        )["note"]
    )
    assert runner.measured(task, 10, "mercer", 0.0, 0.05) == {"note": "ended at 0 s"}


def test_worse_is_beyond_what_runs_differ(runner, stored_run):
    before = stored_run(1.0)
    assert runner.comparison([before], [stored_run(1.2)]) == ["0 figures of 1 runs got worse."]
    assert runner.comparison([before], [stored_run(1.5)]) == [
        "slower than on 2026-01-01: a task, 1000 rows, fit 1 -> 1.5",
        "1 figures of 1 runs got worse.",
    ]
    assert "less accurate" in runner.comparison([before], [stored_run(1.0, error=0.52)])[0]
    slow_then_fast = [stored_run(9.0), before]
    assert runner.comparison(slow_then_fast, [stored_run(1.0)])[-1].startswith("0 figures")


@pytest.mark.parametrize("change", [{"machine": "another"}, {"busy": True}, {"cores": 1000}])
def test_runs_of_other_machines_and_of_busy_ones_are_not_compared(runner, stored_run, change):
    for pair in (
        ([stored_run(1.0)], [stored_run(2.0, **change)]),
        ([stored_run(1.0, **change)], [stored_run(2.0)]),
    ):
        [said] = runner.comparison(*pair)
        assert said.startswith("No run is comparable")


def test_a_broken_file_loses_no_run(runner, stored_run, tmp_path):
    path = tmp_path / "runs.jsonl"
    run = stored_run(1.0)
    runner.append(path, run)
    whole = path.read_text()
    path.write_text(whole + "[1, 2]\n" + whole[: len(whole) // 2])
    runner.append(path, run)
    runs, broken = runner.stored(path)
    assert runs == [run, run]
    assert broken == [2, 3]
    assert runner.stored(tmp_path / "none") == ([], [])


def test_the_site_shows_the_last_quiet_run_and_its_ratios(
    runner, stored_run, tmp_path, monkeypatch
):
    monkeypatch.syspath_prepend(str(FOLDER.parent / "docs" / "_ext"))
    read = importlib.import_module("records_read")
    monkeypatch.setattr(read, "RECORDS", tmp_path)
    assert read.tasks_summary() == "No run is stored yet."
    aims = {"aims": [["a peer", 3.0, "fit"], ["a peer", 1.0, "error"]]}
    for run in (
        stored_run(1.0, **aims),
        stored_run(0.5, **aims, predict=0.25, peak_mb=1500.0),
        stored_run(9.0, **aims, busy=True),
        stored_run(2.0, method="a peer"),
    ):
        runner.append(tmp_path / "whole-tasks.jsonl", run)
    _, body = read.task_table("a task")
    assert body == [
        ["1 000", "mercer", "500 ms", "250 ms", "0.5000", "1.50 GB"],
        ["1 000", "a peer", "2 s", "–", "0.5000", "–"],
    ]
    assert read.task_ratios("a task") == [
        "1 000 rows: time to fit of a peer is 4 times that of mercer.",
        "1 000 rows: error of a peer is 1 times that of mercer.",
    ]
    assert read.tasks_summary().startswith("2 runs of 2026-01-01. ")


def test_an_interrupted_run_keeps_what_was_measured(runner, tmp_path, monkeypatch, capsys):
    def runs_of(task, limit, most_rows):
        yield {"task": task.name, "rows": 1, "method": "mercer", "aims": [], "busy": True}
        raise KeyboardInterrupt

    monkeypatch.setattr(runner, "runs_of", runs_of)
    path = tmp_path / "runs.jsonl"
    runner.main(["--file", str(path)])
    [run] = map(json.loads, path.read_text().splitlines())
    assert run["busy"]
    assert "Interrupted: 1 runs are kept." in capsys.readouterr().out


@pytest.fixture
def against(runner, monkeypatch):
    """benchmarks/against_base.py, with nothing built."""
    monkeypatch.syspath_prepend(str(FOLDER.parent / "tests"))
    found = importlib.import_module("against_base")
    built = contextlib.nullcontext(("before", "after"))
    monkeypatch.setattr("golden.built_beside", lambda revision: built)
    return found


@pytest.mark.parametrize(("after", "status"), [(1.29, 0), (1.31, 1)])
def test_a_task_that_takes_longer_than_the_base_fails(against, monkeypatch, capsys, after, status):
    def seconds(name, folders, repeats):
        assert (folders, repeats) == (("before", "after"), 3)
        return (1.0, after) if "exact kernel" in name else (1.0, 0.5)

    monkeypatch.setattr(against, "seconds", seconds)
    monkeypatch.setattr(sys, "argv", ["against_base.py", "v1"])
    assert against.main() == status
    said = capsys.readouterr().out
    assert f"exact kernel ridge, 5000 rows: 1.00 s by v1, {after:.2f} s now" in said
    assert said.count("more than") == status


def test_revisions_take_turns_and_their_least_seconds_count(against, monkeypatch):
    calls, times = [], iter([5.0, 2.0, 3.0, 4.0])

    def run(command, env, **_):
        calls.append(env["PYTHONPATH"])
        return SimpleNamespace(stdout=str(next(times)))

    monkeypatch.setattr(against.subprocess, "run", run)
    assert against.seconds("a task", ("before", "after"), 2) == (3.0, 2.0)
    assert calls == ["before", "after"] * 2


def test_tasks_of_the_base_run_and_are_timed(against, tiny, monkeypatch):
    monkeypatch.setattr(tiny, "bins", lambda method, n: tiny.exact_ridge(method, 100))
    assert 0 < against.timed("exact bins of 256 grids, 200 000 rows") < 60


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--only", "nothing"], "--only must be in the name of a task; got 'nothing'"),
        (["--repeats", "0"], "--repeats must be at least 1; got 0"),
    ],
)
def test_options_of_the_base_are_checked_before_it_is_built(
    against, monkeypatch, capsys, options, sentence
):
    monkeypatch.setattr(sys, "argv", ["against_base.py", "v1", *options])
    with pytest.raises(SystemExit):
        against.main()
    assert sentence in capsys.readouterr().err
