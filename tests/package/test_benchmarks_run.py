"""benchmarks/run.py: rows are stored one by one, compared with those before, and never lost."""

import importlib
import json
import sys
from pathlib import Path

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
def stored_line(runner):
    about = runner.machine() | {"date": "2026-01-01T00:00:00+00:00", "busy": False}

    def make(ours, theirs, **changes):
        row = runner.Row("work", tuple(ours), "peer" if theirs else "", tuple(theirs), 2.0)
        return runner.line_of("part", row, about | changes)

    return make


def test_rows_of_a_tiny_run_are_stored(runner, tmp_path):
    path = tmp_path / "speed.jsonl"
    runner.main(["--only", "^dense", "--quick", "--file", str(path)])
    rows, broken = runner.stored(path)
    assert not broken
    assert len(rows) > 5
    for row in rows:
        assert row["ratio"] == pytest.approx(row["peer_seconds"] / row["seconds"], rel=1e-3)
        assert row["between"][0] <= row["between"][1]
        assert row["machine"]
        assert row["versions"]["mercer"]


def test_only_names_a_part(runner, capsys):
    with pytest.raises(SystemExit):
        runner.main(["--only", "nothing of this name"])
    assert "--only must match a part; got 'nothing of this name'" in capsys.readouterr().err
    runner.main(["--list"])
    listed = capsys.readouterr().out
    assert all(part.script in listed for part in runner.PARTS)


def test_every_part_is_a_script_that_gives_rows(runner):
    for part in runner.PARTS:
        assert callable(importlib.import_module(part.script).speed_rows)


def test_slower_is_beyond_all_repeats(runner, stored_line):
    before = stored_line([1.0, 1.1, 0.9], [2.0, 2.0, 2.0])
    assert runner.slower(before, stored_line([1.5, 1.6, 1.4], [2.0, 2.0, 2.0])) == "2x -> 1.33x"
    assert runner.slower(before, stored_line([1.5, 1.6, 1.0], [2.0, 2.0, 2.0])) is None
    alone = stored_line([1.0, 1.1], [])
    assert runner.slower(alone, stored_line([1.3, 1.4], [])) == "1.05 s -> 1.35 s"
    assert runner.slower(alone, stored_line([1.05, 1.4], [])) is None


@pytest.mark.parametrize("change", [{"machine": "another"}, {"busy": True}, {"cores": 1000}])
def test_rows_of_other_machines_and_of_busy_ones_are_not_compared(runner, stored_line, change):
    before, now = stored_line([1.0], [2.0]), stored_line([2.0], [2.0])
    assert runner.comparison([before], [now])[-1] == "1 of 1 rows got slower."
    for pair in ((before, now | change), (before | change, now)):
        [said] = runner.comparison(pair[:1], pair[1:])
        assert said.startswith("No row is comparable")


def test_the_last_row_of_a_work_counts(runner, stored_line):
    fast, slow = stored_line([1.0], [2.0]), stored_line([2.0], [2.0])
    assert runner.comparison([fast, slow], [slow]) == ["0 of 1 rows got slower."]


def test_a_broken_file_loses_no_row(runner, stored_line, tmp_path):
    path = tmp_path / "speed.jsonl"
    line = stored_line([1.0], [2.0])
    runner.append(path, line)
    whole = path.read_text()
    path.write_text(whole + "[1, 2]\n" + whole[: len(whole) // 2])
    runner.append(path, line)
    rows, broken = runner.stored(path)
    assert rows == [line, line]
    assert broken == [2, 3]
    assert runner.stored(tmp_path / "none") == ([], [])


def test_the_site_shows_the_last_quiet_row(runner, stored_line, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(FOLDER.parent / "docs" / "_ext"))
    read = importlib.import_module("records_read")
    monkeypatch.setattr(read, "RECORDS", tmp_path)
    assert read.speed_summary() == "No run of the speed table is stored yet."
    for line in (
        stored_line([1.0], [2.0]),
        stored_line([0.5], [2.0]),
        stored_line([9.0], [2.0]) | {"busy": True},
        stored_line([1.0], []) | {"work": "another", "peer": "who is not installed"},
    ):
        runner.append(tmp_path / "speed.jsonl", line)
    _, body = read.speed_table("part")
    assert body == [
        ["work", "1", "500 ms", "peer, 2 s", "**4×**", "2×"],
        ["another", "1", "1 s", "who is not installed, –", "–", "2×"],
    ]
    assert read.speed_summary().startswith("2 rows of 2026-01-01; 1 of 1 reach")


def test_an_interrupted_run_keeps_its_rows(runner, tmp_path, monkeypatch, capsys):
    def rows_from(part, quick, limit):
        yield runner.Row("work", (1.0,), "peer", (), note="peer did not run")
        raise KeyboardInterrupt

    monkeypatch.setattr(runner, "rows_from", rows_from)
    monkeypatch.setattr(runner, "busy_share", lambda: 0.5)
    path = tmp_path / "speed.jsonl"
    runner.main(["--file", str(path)])
    [row] = map(json.loads, path.read_text().splitlines())
    assert row["busy"]
    assert row["ratio"] is None
    told = capsys.readouterr().out
    assert "Interrupted: 1 rows are kept." in told
    assert "peer did not run" in told
    assert "others use 50% of the processors" in told


def test_a_part_that_fails_or_takes_too_long_ends_alone(runner, tmp_path, monkeypatch, capsys):
    part = runner.Part("no_such_script", "nothing", 1.0)
    assert list(runner.rows_from(part, True, 60.0)) == []
    assert "no_such_script ended with 1" in capsys.readouterr().out
    assert list(runner.rows_from(runner.PARTS[0], True, 0.05)) == []
    assert "ended with -9" in capsys.readouterr().out


def test_a_goal_is_a_peer_of_so_many_seconds(runner):
    row = runner.Row.goal("work", [0.5, 0.25, 1.0], 1.0)
    assert row.ratio == 2.0
    assert row.between == (1.0, 4.0)
