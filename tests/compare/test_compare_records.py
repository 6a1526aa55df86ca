"""Scores of the comparison, its records on disk, and the memory that they tell."""

from __future__ import annotations

import errno
import os

import numpy as np
import pytest

from mercer.compare import memory, metrics, records

# --- scores ----------------------------------------------------------------------------------


def test_relative_rmse_of_predicting_zero_is_one():
    y = np.random.default_rng(0).normal(3, 2, (50, 2))
    assert metrics.relative_rmse(y, np.zeros_like(y)) == 1
    assert metrics.relative_rmse(y, y) == 0
    assert metrics.relative_rmse(y, -y) == 2


def test_r2_of_predicting_the_mean_is_zero():
    y = np.random.default_rng(0).normal(3, 2, (50, 2))
    assert metrics.r2(y, np.broadcast_to(y.mean(axis=0), y.shape)) == pytest.approx(0)
    assert metrics.r2(y, y) == 1


@pytest.mark.parametrize("score", [metrics.accuracy, metrics.relative_rmse, metrics.r2])
@pytest.mark.parametrize("pair", [([], []), ([1, 2], [1]), ([1, 2], [[1], [2]])])
def test_scores_refuse_what_does_not_go_together(score, pair):
    with pytest.raises(ValueError, match=r"^y "):
        score(*pair)


# --- records and memory ----------------------------------------------------------------------


def test_records_are_appended_as_whole_lines(tmp_path):
    path = tmp_path / "new" / "fits.jsonl"
    for score in (np.float32(0.5), float("nan")):
        records.append(path, {"score": score, "name": "é"})
    assert records.read(path) == [{"score": 0.5, "name": "é"}, {"score": None, "name": "é"}]
    assert path.read_text(encoding="utf-8").endswith("}\n")


def test_failed_append_leaves_the_file_as_it_was(tmp_path, monkeypatch):
    path = tmp_path / "fits.jsonl"
    records.append(path, {"score": 1})

    class Full:
        def __init__(self, file):
            self.file = file

        def __enter__(self):
            return self

        def __exit__(self, *_):
            self.file.close()

        def __getattr__(self, name):
            return getattr(self.file, name)

        def write(self, line):
            self.file.write(line[:3])
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    plain = open
    monkeypatch.setattr("builtins.open", lambda *a, **k: Full(plain(*a, **k)))
    with pytest.raises(OSError, match=r"cannot write .*No space left on device\.$"):
        records.append(path, {"score": 2})
    monkeypatch.undo()
    assert records.read(path) == [{"score": 1}]


def test_broken_line_of_records_is_named(tmp_path):
    path = tmp_path / "fits.jsonl"
    path.write_text('{"score": 1}\n\n{"sco\n')
    with pytest.raises(ValueError, match="line 3"):
        records.read(path)
    path.write_text("[1]\n")
    with pytest.raises(ValueError, match="line 1"):
        records.read(path)


def test_peak_memory_sees_what_is_freed_again():
    with memory.PeakMemory() as peak:
        block = np.ones(8_000_000)
        del block
    if peak.added is None:
        pytest.skip("this system does not tell a process its peak memory")
    assert 60e6 < peak.added < 90e6
    assert peak.peak > peak.added


def test_memory_that_cannot_be_told_is_none(monkeypatch, tmp_path):
    monkeypatch.setattr(memory, "_CLEAR", tmp_path / "none" / "clear_refs")
    with memory.PeakMemory() as peak:
        pass
    assert peak.added is None
