"""``mercer reproduce``: records and figures, going on after an interrupt, errors in a sentence."""

from __future__ import annotations

import io
import json
import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import replace

import pytest
import requests
from rich.console import Console
from typer.testing import CliRunner

from mercer import datasets
from mercer.cli.app import app
from mercer.compare import records
from mercer_studies import measures, papers, report, sources, timing
from mercer_studies.asydsskl.grid import SCALES
from mercer_studies.cli import reproduce
from mercer_studies.random_binning import grid as random_binning
from mercer_studies.runner import Progress

QUICK = ("--scale", "tiny", "--datasets", "generated-regression", "--n-jobs", "1")
LINES = "random-binning-tiny.jsonl"


@pytest.fixture(autouse=True)
def _at_work(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setattr(timing, "QUICK", 0.0)


def mercer(*arguments):
    return CliRunner().invoke(app, ["reproduce", "random-binning", *map(str, arguments)])


def test_tiny_study_writes_records_and_figures_and_prints_verdicts(tmp_path):
    done = mercer(*QUICK, "--figure", "3", "--figure", "5", "--protocol", "published")
    assert done.exit_code == 0, done.output
    folder = tmp_path / "mercer-results"
    found = records.read(folder / LINES)
    assert {record["protocol"] for record in found} == {"published"}
    assert sorted(path.name for path in folder.glob("*.png")) == [
        "random-binning-tiny-figure-3.png",
        "random-binning-tiny-figure-5.png",
    ]
    for word in ("as published", "not tested", "Training takes longer", "figure-5.png"):
        assert word in done.stdout
    assert f"{len(found)} lines added" in done.stdout
    assert "Warning" not in done.output


def test_bar_keeps_its_numbers_on_a_narrow_terminal(monkeypatch):
    shown = io.StringIO()
    console = Console(width=80, file=shown, force_terminal=True, color_system=None)
    monkeypatch.setattr("rich.console.Console", lambda **_: console)
    with reproduce._progress() as on_progress:
        on_progress(Progress(0.5, 7.0, "generated-regression: " + "long " * 20))
    [*_, last] = [line for line in shown.getvalue().split("\r") if "7 s to go" in line]
    assert re.search(r"50 % in 0:\d\d:\d\d and about 7 s to go: generated-regression", last)
    assert "…" in last


@pytest.mark.parametrize(("number", "text"), [(0, "0 runs"), (1, "1 run"), (2, "2 runs")])
def test_one_run_is_not_runs(number, text):
    assert reproduce._count(number, "run") == text


def test_json_is_the_only_thing_on_standard_output():
    done = mercer(*QUICK, "--figure", "4", "--protocol", "published", "--json", "--out", "there")
    content = json.loads(done.stdout)
    assert content["n_new"] == content["n_records"] == 10
    assert content["n_failed"] == 0
    assert os.path.exists(content["record_file"])
    assert all(os.path.exists(path) for path in content["figures"])
    assert {claim["figure"] for claim in content["claims"]} >= {3, 4, 5}


def test_a_figure_of_somebody_else_is_replaced_with_force_alone(tmp_path):
    path = tmp_path / "there" / "random-binning-tiny-figure-4.png"
    path.parent.mkdir()
    path.write_text("mine")
    arguments = (*QUICK, "--figure", "4", "--protocol", "published", "--out", "there")
    done = mercer(*arguments)
    assert done.exit_code == 1
    assert "exists and is not a figure of mercer" in done.stderr
    assert path.read_text() == "mine"
    assert [each.name for each in path.parent.iterdir()] == [path.name]
    assert mercer(*arguments, "--force").exit_code == 0
    assert path.read_bytes().startswith(b"\x89PNG")


def test_existing_records_ask_for_resume_and_resume_adds_what_is_missing():
    arguments = (*QUICK, "--protocol", "published", "--json")
    assert mercer(*arguments, "--figure", "4").exit_code == 0
    refused = mercer(*arguments, "--figure", "3")
    assert refused.exit_code == 1
    assert "--resume" in refused.stderr
    more = json.loads(mercer(*arguments, "--figure", "3", "--resume").stdout)
    assert (more["n_new"], more["n_records"]) == (2 + 5, 10 + 2 + 5)
    again = json.loads(mercer(*arguments, "--figure", "3", "--resume").stdout)
    assert again["n_new"] == 0


def test_interrupt_leaves_whole_lines_and_resume_finishes(tmp_path):
    command = "import sys; from mercer.cli import main; main(sys.argv[1:])"
    arguments = ["reproduce", "random-binning", *QUICK]
    child = subprocess.Popen(
        [sys.executable, "-c", command, *arguments], stderr=subprocess.PIPE, text=True
    )
    path = tmp_path / "mercer-results" / LINES
    deadline = time.monotonic() + 60
    while not (path.exists() and path.read_bytes().count(b"\n") > 3):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    child.send_signal(signal.SIGINT)
    said = child.communicate(timeout=60)[1]
    assert child.returncode == 130, said
    assert "with --resume goes on" in said
    assert "Traceback" not in said
    left = path.read_bytes()
    assert left.endswith(b"\n")
    before = records.read(path)
    done = json.loads(mercer(*QUICK, "--resume", "--json").stdout)
    after = records.read(path)
    assert path.read_bytes().startswith(left)
    assert len(after) == len(before) + done["n_new"] == done["n_records"]
    assert len({record["key"] for record in after}) == len(after)


def test_missing_data_are_named_and_the_rest_is_run(tmp_path, monkeypatch):
    (tmp_path / "empty").mkdir()
    monkeypatch.delenv("MERCER_DATA", raising=False)
    arguments = ("--scale", "tiny", "--figure", "4", "--data", "empty")
    sets = "generated-regression,susy-sample"
    done = mercer(*arguments, "--datasets", sets, "--protocol", "published")
    assert done.exit_code == 0, done.output
    assert "left out: susy-sample: not at hand" in done.stdout
    assert "10 lines added" in done.stdout
    assert "MERCER_DATA" not in os.environ
    alone = mercer(*arguments, "--datasets", "susy-sample", "--out", "other")
    assert alone.exit_code == 1
    assert alone.stderr.count("susy-sample: not at hand") == 1
    assert alone.stderr.count("\n") == 1


def test_missing_data_are_one_sentence_and_no_download_is_tried(monkeypatch, tmp_path):
    def refused(*_, **__):
        raise requests.ConnectionError

    monkeypatch.setenv("MERCER_DATA", str(tmp_path))
    monkeypatch.setattr(requests, "head", refused)
    monkeypatch.setattr(datasets, "load", lambda name: pytest.fail(f"{name} is loaded"))
    sources._answers.cache_clear()
    sets = "generated-regression,acoustic,susy,susy-sample"
    done = mercer("--scale", "tiny", "--figure", "4", "--datasets", sets)
    sources._answers.cache_clear()
    assert done.exit_code == 0, done.output
    said = "left out: acoustic, susy, susy-sample: not at hand"
    assert (done.stderr.count(said), done.stdout.count(said)) == (1, 1)
    assert "10 lines added" in done.stdout


def test_data_are_fetched_where_their_home_answers(monkeypatch, tmp_path):
    monkeypatch.setenv("MERCER_DATA", str(tmp_path))
    monkeypatch.setattr(sources, "_answers", lambda home: home == "https://www.csie.ntu.edu.tw")
    assert sources.Source("acoustic").is_available()
    assert not sources.Source("susy-sample").is_available()


def test_records_and_page_tell_the_options_that_made_them(tmp_path):
    options = ("--figure", "4", "--set", "theorem-trials=1", "--set", "sizes=8")
    done = mercer(*QUICK, *options, "--remark", "shared with other work", "--out", "there")
    assert done.exit_code == 0, done.output
    found = records.read(tmp_path / "there" / LINES)
    assert {run["size"] for run in found} == {8, 6}
    assert {run["remark"] for run in found} == {"shared with other work"}
    selected = "--figure 4 --datasets generated-regression --set theorem_trials=1 --set sizes=8"
    assert {run["options"] for run in found} == {selected}
    laptop = {**found[0], "scale": "tiny", "options": "--figure 3"}
    first, second, _ = _commands(report.build([*found, laptop]))
    assert first == "mercer reproduce random-binning --scale tiny --figure 3 --out tiny"
    assert second == f"mercer reproduce random-binning --scale tiny {selected} --out tiny --resume"


def _commands(made):
    """Commands under the last heading of a page."""
    return made.markdown().split("```")[-2].strip().splitlines()[-3:]


def test_no_limit_is_all():
    scale = papers.Selected("laptop", settings=(("rows", "all"), ("cap", "9"))).scale_of(SCALES)
    assert (scale.rows, scale.cap) == (None, 9.0)
    assert replace(scale, rows=12_000, cap=8.0) == SCALES["laptop"]


def test_yes_and_no_set_a_switch():
    known = random_binning.SCALES
    for text, value in (("yes", True), ("no", False)):
        scale = papers.Selected("laptop", settings=(("whole_grid", text),)).scale_of(known)
        assert scale == replace(known["laptop"], whole_grid=value)


def test_authors_points_are_drawn_beside_ours(tmp_path):
    head = "figure,method,dataset,split,R,D,sigma_column,lambda,perf,train_time_s,test_time_s"
    (tmp_path / "points.csv").write_text(f"{head}\nfig5,FOURIER,cadata,test,8,8,1,0.01,0.3,1,1\n")
    done = mercer(*QUICK, "--figure", "2", "--reference", "points.csv")
    assert done.exit_code == 0, done.output


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        (["--scale", "huge"], 2, "--scale has no 'huge'"),
        (["--protocol", "fare"], 2, "did you mean fair?"),
        (["--figure", "7"], 2, "--figure has no 7"),
        (["--datasets", "leter"], 2, "did you mean letter?"),
        (["--datasets", ","], 2, "--datasets must name at least one"),
        (["--n-jobs", "0"], 1, "--n-jobs must not be 0"),
        (["--data", "nowhere"], 1, "--data must be a folder; got nowhere"),
        (["--set", "seeds"], 2, "--set must be NAME=VALUE; got 'seeds'"),
        (["--set", "seed=1"], 1, "--set has no 'seed'; did you mean seeds?"),
        (["--set", "limited=1"], 1, "--set limited must be bool; got '1'"),
        (["--set", "seeds=one"], 1, "--set seeds must be tuple[int, ...]; got 'one'"),
        (["--set", "exact_rows=1,2"], 1, "--set exact_rows must be int; got '1,2'"),
        (["--set", "exact_rows=all"], 1, "--set exact_rows must be int; got 'all'"),
        (["--reference", "nowhere.csv"], 1, "nowhere.csv"),
        (["--reference", "wrong.csv"], 1, "wrong.csv"),
        (["--out", "wrong.csv"], 1, "is not a folder"),
    ],
)
def test_error_is_one_sentence_and_a_code(arguments, code, sentence, tmp_path):
    (tmp_path / "wrong.csv").write_text("a,b\n1,2\n")
    done = mercer("--scale", "tiny", *arguments)
    assert (done.exit_code, done.stderr.count("\n")) == (code, 1), done.output
    assert sentence in done.stderr
    assert not list(tmp_path.glob("mercer-results/*"))


def test_unknown_paper_is_named_with_those_there_are():
    done = CliRunner().invoke(app, ["reproduce", "random-bining"])
    assert done.exit_code == 2
    assert "did you mean random-binning?" in done.stderr


def test_records_of_something_else_are_refused_and_kept(tmp_path):
    folder = tmp_path / "mercer-results"
    folder.mkdir()
    (folder / LINES).write_text('{"record": "mercer compare"}\n')
    done = mercer(*QUICK, "--resume")
    assert done.exit_code == 1
    assert "must hold records of random-binning alone" in done.stderr


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(4.4, "4 s"), (89, "89 s"), (600, "10 min"), (7200, "2 h"), (3e5, "3 days")],
)
def test_time_left_is_told_in_one_number_and_a_unit(seconds, text):
    assert measures.duration(seconds) == text


def test_points_of_authors_who_gave_none_are_refused(tmp_path):
    (tmp_path / "points.csv").write_text("a,b\n1,2\n")
    done = CliRunner().invoke(app, ["reproduce", "tefm", "--reference", "points.csv"])
    assert (done.exit_code, done.stderr.count("\n")) == (2, 1), done.output
    assert "--reference must be left out for tefm" in done.stderr


def test_table_is_run_alone_beside_the_authors_cells(tmp_path):
    arguments = ["reproduce", "sparse-features", "--scale", "tiny", "--n-jobs", "1"]
    done = CliRunner().invoke(app, [*arguments, "--table", "1"])
    assert done.exit_code == 0, done.output
    folder = tmp_path / "mercer-results"
    assert [path.name for path in folder.glob("*.png")] == [
        "sparse-features-tiny-table-1-as-a-figure.png"
    ]
    assert {
        record["data_name"] for record in records.read(folder / "sparse-features-tiny.jsonl")
    } == {"generated-regression"}
    (tmp_path / "cells.csv").write_text("a,b\n1,2\n")
    refused = CliRunner().invoke(app, [*arguments, "--reference", "cells.csv"])
    assert (refused.exit_code, refused.stderr.count("\n")) == (2, 1), refused.output
    assert "whose numbers are known" in refused.stderr
