"""The runner of studies: whole records through failures, interrupts and torn lines."""

from __future__ import annotations

import contextlib
import json
import signal
import warnings

import pytest

from mercer.compare import records
from mercer.datasets import DataError
from mercer_studies import papers, runner
from mercer_studies.runner import Cell, RecordFile, Stage, key_of, run


def squares(numbers, done=None, fail=()):
    """A stage that squares numbers and writes down which it was asked for."""

    def square(loaded, number):
        if done is not None:
            done.append(number)
        if number in fail:
            raise MemoryError
        return {"square": number**2}

    def cells(found):
        return [
            Cell({"number": n}, lambda loaded, n=n: square(loaded, n), 0.01, f"{n} squared")
            for n in numbers
        ]

    return Stage("squares", cells)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "runs.jsonl"


# --- names of runs ---------------------------------------------------------------------------


def test_key_depends_on_settings_alone_and_on_each_of_them():
    settings = {"gamma": 0.5, "size": 8, "rows": None}
    assert key_of(settings) == key_of(dict(reversed(settings.items())))
    assert len({key_of(settings | change) for change in ({}, {"size": 16}, {"rows": 8})}) == 3


def test_key_is_the_same_in_every_session():
    assert key_of({"method": "binning", "gamma": 0.1}) == "adf295806b111367"


# --- records ---------------------------------------------------------------------------------


def test_every_run_is_a_complete_line_in_order(path):
    outcome = run("toy", [squares([3, 1]), squares([2])], path, common={"scale": "tiny"})
    found = records.read(path)
    assert [record["square"] for record in found] == [9, 1, 4]
    assert outcome.n_new == 3
    assert records.plain(outcome.records) == found
    for record in found:
        assert {"record", "format", "paper", "key", "run", "versions", "machine"} <= set(record)
        assert record["scale"] == "tiny"
    assert len({record["run"] for record in found}) == 1


def test_equal_settings_are_run_once(path):
    done = []
    run("toy", [squares([1, 1], done), squares([1], done)], path)
    assert done == [1]


def test_stage_sees_what_earlier_stages_found(path):
    def after(found):
        best = max((record["square"] for record in found), default=0)
        return [Cell({"best": best}, lambda loaded: {"was": best}, 0.01, "best")]

    outcome = run("toy", [squares([2, 5]), Stage("after", after)], path)
    assert outcome.records[-1]["was"] == 25


def test_warnings_go_into_the_record_and_nowhere_else(path):
    def warn(loaded):
        warnings.warn("not quite done", stacklevel=1)
        return {}

    stage = Stage("warns", lambda found: [Cell({}, warn, 0.01, "warns")])
    assert run("toy", [stage], path).records[0]["warnings"] == ["not quite done"]


def test_failed_run_is_recorded_with_a_sentence_and_the_study_goes_on(path):
    outcome = run("toy", [squares([1, 2, 3], fail={2})], path)
    assert [record.get("square") for record in outcome.records] == [1, None, 9]
    assert outcome.records[1]["failed"] == "there is not enough memory."


def test_record_that_cannot_be_written_ends_the_study(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match="cannot write"):
        run("toy", [squares([1])], tmp_path / "file" / "runs.jsonl")


# --- data ------------------------------------------------------------------------------------


def test_data_are_loaded_once_for_stages_in_a_row_and_only_if_needed(path):
    loads = []

    def load():
        loads.append(1)
        return 7

    def stage(name):
        cell = Cell({"name": name}, lambda loaded: {"loaded": loaded}, 0.01, name)
        return Stage(name, lambda found: [cell], load)

    stages = [stage("a"), stage("b")]
    assert [r["loaded"] for r in run("toy", stages, path).records] == [7, 7]
    run("toy", stages, path, resume=True)
    assert len(loads) == 1


def test_missing_data_are_named_and_the_rest_is_run(path):
    asked = []

    def load():
        asked.append(1)
        raise DataError("the data set 'x' is not at hand")

    stages = [
        Stage("x", squares([1]).cells, load),
        Stage("x again", squares([2]).cells, load),
        squares([3]),
    ]
    outcome = run("toy", stages, path)
    assert outcome.notes == ["the data set 'x' is not at hand."]
    assert [record["number"] for record in outcome.records] == [3]
    assert len(asked) == 1


# --- going on --------------------------------------------------------------------------------


def test_resume_does_what_is_left_and_nothing_twice(path):
    run("toy", [squares([1, 2])], path)
    done = []
    outcome = run("toy", [squares([1, 2, 3, 4], done)], path, resume=True)
    assert done == [3, 4]
    assert outcome.n_new == 2
    assert [record["number"] for record in records.read(path)] == [1, 2, 3, 4]


def test_resume_of_a_torn_line_loses_that_run_alone(path):
    run("toy", [squares([1, 2, 3])], path)
    whole = path.read_bytes()
    path.write_bytes(whole[:-20])
    done = []
    outcome = run("toy", [squares([1, 2, 3], done)], path, resume=True)
    assert done == [3]
    assert [record["number"] for record in outcome.records] == [1, 2, 3]
    assert path.read_bytes().startswith(b"".join(whole.splitlines(keepends=True)[:2]))
    assert all(json.loads(line) for line in path.read_text().splitlines())


def test_resume_tries_failed_runs_again(path):
    run("toy", [squares([1, 2], fail={2})], path)
    outcome = run("toy", [squares([1, 2])], path, resume=True)
    assert [record["square"] for record in outcome.records] == [1, 4]
    assert outcome.n_new == 1


def test_interrupt_leaves_complete_records_and_resume_finishes(path):
    def interrupt(loaded):
        raise KeyboardInterrupt

    stop = Stage("stop", lambda found: [Cell({"stop": 1}, interrupt, 0.01, "stop")])
    with pytest.raises(KeyboardInterrupt):
        run("toy", [squares([1, 2]), stop, squares([3])], path)
    assert [record["number"] for record in records.read(path)] == [1, 2]
    outcome = run("toy", [squares([1, 2]), squares([3])], path, resume=True)
    assert [record["number"] for record in outcome.records] == [1, 2, 3]


def test_records_are_not_overwritten_without_resume(path):
    run("toy", [squares([1])], path)
    before = path.read_bytes()
    with pytest.raises(ValueError, match="holds records already; add to them"):
        run("toy", [squares([2])], path)
    assert path.read_bytes() == before


@pytest.mark.parametrize("line", ['{"record": "mercer compare"}', '{"a": 1}', "[1]", "words"])
def test_file_of_something_else_is_refused_and_kept(line, path):
    path.write_text(f"{line}\n")
    with pytest.raises(ValueError, match=r"runs\.jsonl"):
        RecordFile(path, "toy", resume=True)
    assert path.read_text() == f"{line}\n"


def test_records_of_another_paper_are_refused(path):
    run("toy", [squares([1])], path)
    with pytest.raises(ValueError, match="must hold records of other alone"):
        run("other", [squares([1])], path, resume=True)


# --- progress --------------------------------------------------------------------------------


def test_progress_never_goes_back_and_ends_at_one(path):
    seen = []
    run("toy", [squares([1, 2]), squares([3])], path, on_progress=seen.append)
    shares = [progress.share for progress in seen]
    assert shares == sorted(shares)
    assert (shares[-1], seen[-1].left, seen[-1].text) == (1.0, 0.0, "done")
    assert len(seen) == 4


def test_time_left_follows_what_runs_of_a_kind_took():
    pace = runner._Pace()
    quick = Cell({"q": 1}, dict, 1.0, "quick", kind="quick")
    slow = Cell({"s": 1}, dict, 1.0, "slow", kind="slow")
    assert pace.seconds(quick) == 1.0
    pace.took(quick, 0.5)
    pace.took(slow, 4.0)
    assert (pace.seconds(quick), pace.seconds(slow)) == (0.5, 4.0)
    assert pace.seconds(Cell({}, dict, 2.0, "unknown", kind="other")) == 4.5


def test_unknown_paper_is_one_sentence():
    with pytest.raises(ValueError, match="no paper is called 'random-bining'; did you mean"):
        papers.get("random-bining")


def test_interrupt_that_a_run_has_caught_still_ends_the_study(path):
    def caught(_):
        with contextlib.suppress(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        return {"value": 1}

    cells = [Cell({"n": n}, caught, 1.0, str(n)) for n in range(3)]
    with pytest.raises(KeyboardInterrupt):
        run("toy", [Stage("runs", lambda found: cells)], path)
    assert not path.exists()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
