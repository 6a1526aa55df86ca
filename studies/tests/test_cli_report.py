"""``mercer report``: one page from record files, and one sentence for every error."""

from __future__ import annotations

import json
import re

import pytest
from typer.testing import CliRunner

import _records as made
from mercer.cli.app import app
from mercer_studies import report


@pytest.fixture
def mercer(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "140")

    def run(*arguments):
        return CliRunner().invoke(app, ["report", *map(str, arguments)])

    return run


@pytest.fixture
def records(tmp_path):
    path = tmp_path / "runs" / "study.jsonl"
    path.parent.mkdir()
    runs = [made.record(size=size) for size in (8, 16)]
    path.write_text("".join(json.dumps(run) + "\n" for run in runs))
    return path


@pytest.mark.parametrize("given", ["runs", "runs/study.jsonl"])
def test_page_goes_beside_the_records(mercer, records, given):
    done = mercer(given)
    assert done.exit_code == 0, done.output
    page = records.with_name("report.html")
    assert page.read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    assert "runs: 2" in done.stdout
    assert "page: runs/report.html" in done.stdout
    assert "not tested" in done.stdout


def test_page_goes_where_it_is_asked_to_and_shows_the_authors_points(mercer, records, tmp_path):
    points = tmp_path / "points.csv"
    points.write_text(made.csv_of(made.POINTS))
    done = mercer(records, "--reference", points, "--out", "page.html")
    assert done.exit_code == 0, done.output
    assert "the authors&#x27; points" in (tmp_path / "page.html").read_text()


def test_markdown_page_has_its_figures_beside_it(mercer, records, tmp_path):
    done = mercer(records, "--out", "study.md")
    assert done.exit_code == 0, done.output
    text = (tmp_path / "study.md").read_text(encoding="utf-8")
    links = re.findall(r"\]\((.*?)\)", text)
    assert links
    assert sorted(links) == sorted(path.name for path in tmp_path.glob("*.png"))
    assert mercer(records, "--out", "study.md").exit_code == 0
    (tmp_path / "mine.md").write_text("# Mine\n")
    refused = mercer(records, "--out", "mine.md")
    assert refused.exit_code == 1
    assert "exists and is not a report page of mercer" in refused.stderr


def test_reduced_records_make_the_same_page(mercer, records, tmp_path):
    whole = [json.loads(line) for line in records.read_text().splitlines()]
    times = {**whole[0]["seconds"], "unread": 1.0}
    odd = {**whole[0], "size": 32, "key": "odd", "unread": [1.0] * 9, "seconds": times}
    with records.open("a") as file:
        file.write(json.dumps(odd) + "\n")
    assert mercer(records, "--out", "few.jsonl").exit_code == 0
    few = [json.loads(line) for line in (tmp_path / "few.jsonl").read_text().splitlines()]
    assert all("unread" not in part for record in few for part in (record, record["seconds"]))
    assert all("key" not in record for record in few)
    assert ["paper" in record for record in few] == [True, False, False]
    assert [("machine" in record, "versions" in record) for record in few] == [
        (True, True),
        (False, False),
        (False, False),
    ]
    for given in (records, "few.jsonl"):
        assert mercer(given, "--out", "page.md").exit_code == 0
        page = (tmp_path / "page.md").read_text()
        (tmp_path / "page.md").unlink()
        assert page == report.build(report.load([records])).markdown("page-")
    assert mercer(records, "--out", "few.jsonl").exit_code == 0


def test_json_has_every_claim_with_its_verdict(mercer, records):
    done = mercer(records, "--json")
    content = json.loads(done.stdout)
    assert content["runs"] == 2
    assert {claim["verdict"] for claim in content["claims"]} <= {
        "held",
        "held in part",
        "not held",
        "not tested",
    }
    [memorises] = [claim for claim in content["claims"] if claim["name"] == "memorises"]
    assert memorises["findings"][0]["data"] == "toy"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["none.jsonl"], "there is no file none.jsonl"),
        (["empty"], "holds no records"),
        (["other.jsonl"], "it has one of 'something else'"),
        (["runs", "--reference", "other.jsonl"], "must have the columns"),
        (["runs", "--reference", "none.csv"], "none.csv: No such file"),
        (["runs", "--out", "none/page.html"], "there is no folder none"),
        (["runs", "--out", "empty"], "it is a folder"),
    ],
)
def test_what_goes_wrong_is_one_sentence(mercer, records, tmp_path, arguments, said):
    (tmp_path / "empty").mkdir()
    (tmp_path / "other.jsonl").write_text('{"record": "something else"}\n')
    done = mercer(*arguments)
    assert done.exit_code == 1
    assert said in done.stderr
    assert done.stderr.count("\n") == 1
    assert not list(tmp_path.rglob("*.html"))


def test_no_file_at_all_is_wrong_usage(mercer):
    assert mercer().exit_code == 2
