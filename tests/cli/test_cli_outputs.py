"""Files that commands write: none of a user is replaced unasked."""

import os
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from mercer.cli.app import app

posix = pytest.mark.skipif(os.name != "posix", reason="needs links and modes")
FIT = ("fit", "t.csv", "--target", "y", "--map", "linear")
PREDICT = ("predict", "m.skops", "t.csv")


def run(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def done(*arguments):
    result = run(*arguments)
    assert result.exit_code == 0, result.output
    return result


def refusal(*arguments):
    """The one sentence of a command that is refused and changes no file."""
    before = {path: path.read_bytes() for path in Path().rglob("*") if path.is_file()}
    result = run(*arguments)
    assert result.exit_code == 1, result.output
    assert {path: path.read_bytes() for path in Path().rglob("*") if path.is_file()} == before
    [sentence] = [line for line in result.stderr.splitlines() if not line.startswith("task: ")]
    assert sentence.startswith("mercer: ")
    return sentence


@pytest.fixture(autouse=True)
def files(tmp_path, monkeypatch):
    """A table and a model of it."""
    monkeypatch.chdir(tmp_path)
    Path("x").mkdir()
    x = np.arange(30.0)
    pd.DataFrame({"x": x, "y": 2 * x + 0.5}).to_csv("t.csv", index=False)
    done(*FIT, "--out", "m.skops")


@pytest.mark.parametrize("force", [(), ("--force",)])
def test_data_and_model_are_never_replaced(force):
    assert "--out must not name DATA" in refusal(*FIT, "--out", "t.csv", *force)
    assert "--out must not name DATA" in refusal(*FIT, "--out", "./x/../t.csv", *force)
    assert "--out must not name DATA" in refusal(*PREDICT, "--out", "t.csv", *force)
    Path("m.csv").write_bytes(Path("m.skops").read_bytes())
    command = ("predict", "m.csv", "t.csv", "--out", "m.csv")
    assert "--out must not name MODEL" in refusal(*command, *force)


@posix
@pytest.mark.parametrize("link", [os.symlink, os.link])
def test_links_to_the_data_are_the_data(link):
    link("t.csv", "other.csv")
    assert "--out must not name DATA" in refusal(*PREDICT, "--out", "other.csv", "--force")


def test_files_of_a_data_folder_are_the_data():
    Path("rows").mkdir()
    pd.read_csv("t.csv").to_parquet("rows/a.parquet")
    command = ("fit", "rows", "--target", "y", "--workers", 2, "--force")
    assert "--out must not name DATA" in refusal(*command, "--out", "rows/a.parquet")


def test_model_and_report_are_two_files():
    said = refusal(*FIT, "--out", "n.html", "--report", "./n.html")
    assert "--report and --out must name two files" in said


@pytest.mark.parametrize("content", ["thesis", "a,b\n1,2\n", "x,prediction,note\n", "PK\3\4"])
def test_files_of_others_are_replaced_by_force_alone(content):
    for name, command in (
        ("a.skops", (*FIT, "--out", "a.skops")),
        ("a.csv", (*PREDICT, "--out", "a.csv")),
        ("a.parquet", (*PREDICT, "--out", "a.parquet")),
        ("a.html", (*FIT, "--out", "m.skops", "--report", "a.html")),
    ):
        Path(name).write_text(content)
        assert "--force to replace it" in refusal(*command)
    done(*PREDICT, "--out", "a.csv", "--force")
    assert Path("a.csv").read_text().startswith("prediction\n")


def test_files_of_mercer_and_empty_ones_are_replaced_unasked():
    pytest.importorskip("matplotlib")
    outputs = [Path(name) for name in ("p.csv", "p.parquet", "m2.skops", "m.html")]
    for path in outputs:
        path.touch()
    for _ in range(2):  # empty files, then those of the first round
        done(*PREDICT, "--out", "p.csv", "--id", "x")
        done(*PREDICT, "--out", "p.parquet")
        done(*FIT, "--out", "m2.skops", "--report", "m.html")
        for path in outputs:
            assert path.stat().st_size > 0
            assert path.stat().st_mtime > 0
            os.utime(path, (0, 0))


def test_files_that_comparisons_would_change_are_records_and_figures_of_mercer():
    Path("r").mkdir()
    for name in ("compare-t.jsonl", "compare-t.png"):
        Path("r", name).write_text("of another")
        said = refusal("compare", "t.csv", "--target", "y", "--methods", "linear", "--out", "r")
        assert name in said
        assert "--force to replace it" in said
        Path("r", name).unlink()


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ((*PREDICT, "--out", "p.xlsx"), "--out must end in one of .csv, .txt, .parquet, .pq"),
        ((*PREDICT, "--out", "p.csv.gz"), "--out must end in one of .csv"),
        ((*FIT, "--out", "n.skops", "--report", "a.pdf"), "--report must end in one of .html"),
        ((*FIT, "--out", "-"), "--out must name a file; got -"),
        ((*FIT, "--out", "n" * 250), "its name must have at most 241 bytes; got 250"),
        ((*FIT, "--out", "n" * 5000), "its name must have at most"),
        ((*FIT, "--out", "n/" * 3000 + "n"), "cannot write n/n/"),
        ((*FIT, "--out", "none/n.skops"), "there is no folder none"),
        ((*PREDICT, "--out", "-", "--json"), "--json must be left out beside --out -"),
        (("predict", "m.skops", "-", "--out", "p.csv"), "DATA must be a file"),
        (("fit", "-", "--target", "y", "--out", "n.skops"), "DATA must be a file"),
    ],
)
def test_outputs_that_cannot_be_are_refused_before_the_work(command, message):
    assert message in refusal(*command)


@posix
def test_streams_as_data_are_refused_with_a_remedy():
    os.mkfifo("pipe.csv")
    result = run("predict", "m.skops", "pipe.csv", "--out", "p.csv")
    assert "write it to a file first" in result.stderr


def test_standard_output_holds_predictions_alone():
    done(*PREDICT, "--out", "p.csv")
    told = done(*PREDICT, "--out", "-")
    assert told.stdout == Path("p.csv").read_text()
    assert "r2 0.9" in told.stderr
    assert not Path("-").exists()


@posix
def test_a_reader_that_stops_early_ends_the_command_without_a_traceback():
    import subprocess

    code = "from mercer.cli import main; main()"
    command = [sys.executable, "-c", code, *PREDICT, "--out", "-"]
    read, write = os.pipe()
    os.close(read)
    ended = subprocess.run(command, stdout=write, stderr=subprocess.PIPE, text=True, check=False)
    os.close(write)
    assert ended.returncode == 1
    assert "Traceback" not in ended.stderr
    assert "Exception" not in ended.stderr
