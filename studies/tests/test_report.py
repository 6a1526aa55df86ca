"""The page of a study stands alone, says what its records say, and is well-formed."""

from __future__ import annotations

import json
import re
from html import unescape
from html.parser import HTMLParser

import pytest

import _records as made
from mercer_studies import html, report
from mercer_studies.claims import NOT_HELD

_VOID = {"meta", "img", "link", "br"}


class Parsed(HTMLParser):
    """Tags with their attributes; raises where they do not nest."""

    def __init__(self, text):
        super().__init__()
        self.tags, self._open, self._texts = [], [], {}
        self.feed(text)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        if tag not in _VOID:
            self._open.append(tag)

    def handle_endtag(self, tag):
        assert self._open.pop() == tag

    def handle_data(self, data):
        if self._open:
            self._texts.setdefault(self._open[-1], []).append(data)

    def all(self, tag):
        return [attributes for name, attributes in self.tags if name == tag]

    def texts(self, tag):
        return self._texts.get(tag, [])


@pytest.fixture(scope="module")
def study():
    return made.study()


@pytest.fixture(scope="module")
def points(tmp_path_factory):
    path = tmp_path_factory.mktemp("authors") / "points.csv"
    path.write_text(made.csv_of(made.POINTS))
    return path


@pytest.fixture(scope="module")
def built(study, points):
    """The page of a whole study, its figures painted."""
    return report.build(study, points)


@pytest.fixture(scope="module")
def page(built):
    return Parsed(built.html)


@pytest.fixture(autouse=True)
def _unpainted(monkeypatch):
    """Pages of single tests need no painted figure; ``built`` is made before and has them."""
    monkeypatch.setattr(html, "image", lambda shown: "<br>")


def few():
    return [made.record(size=size, gamma=gamma) for size in (8, 16) for gamma in (0.5, 1.0)]


def write(path, records):
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


def test_page_needs_nothing_from_elsewhere(built, page):
    assert not page.all("script")
    assert not page.all("link")
    assert all(image["src"].startswith("data:image/png;base64,") for image in page.all("img"))
    assert all(anchor["href"].startswith("#") for anchor in page.all("a"))
    assert not re.search(
        r"(?:https?:)?//[a-z]|url\(|@import", re.sub(r"base64,[^\"]*", "", built.html)
    )


def test_page_reads_on_a_phone_and_in_the_dark(built, page):
    assert {"name": "viewport", "content": "width=device-width, initial-scale=1"} in page.all(
        "meta"
    )
    assert "prefers-color-scheme: dark" in built.html
    assert built.html.count('<div class="scroll"') == built.html.count("<table>") + len(
        page.all("img")
    )


def test_every_table_has_a_caption_and_every_image_a_text(page):
    assert len(page.texts("caption")) == len(page.all("table"))
    assert len(page.all("img")) == 5
    assert all(len(image["alt"]) > 40 for image in page.all("img"))
    assert len(page.all("figcaption")) == 5


def test_every_link_leads_to_a_part_of_the_page(page):
    names = {section["id"] for section in page.all("section")}
    assert {anchor["href"][1:] for anchor in page.all("a")} == names


def test_every_claim_has_its_text_its_rule_and_its_verdict(built):
    shown = unescape(built.html)
    for judged in built.judgements:
        assert judged.claim.text in shown
        assert f"Rule: {judged.claim.rule}" in shown
    assert {judged.verdict for judged in built.judgements} >= {"held", "not held", "not tested"}


def test_page_says_so_where_a_claim_is_not_held():
    worse = [
        made.record(method, size=size, test=test, fit=0.01 * size)
        for method, test in (("binning", 0.4), ("fourier", 0.1))
        for size in (8, 16)
    ]
    built = report.build(worse)
    [judged] = [judged for judged in built.judgements if judged.claim.name == "best"]
    assert judged.verdict == NOT_HELD
    row = built.html[built.html.index(judged.claim.text) :].split("</tr>")[0]
    assert '<span class="badge bad">not held</span>' in row


def test_page_compares_with_the_authors_where_their_points_are_given(built):
    assert "the authors' points" in unescape(built.html)
    assert "97.00 %" in built.html
    assert "--reference" in report.build(few()).html


def test_page_without_a_counterpart_says_so(points):
    other = [made.record(data=made.data("elsewhere"))]
    assert "None of these runs has a counterpart" in report.build(other, points).html


@pytest.mark.parametrize(
    ("kind", "said"),
    [("sample", "a sample of big"), ("stand-in", "a stand-in for big"), ("generated", "generated")],
)
def test_page_names_the_kind_of_the_data(kind, said):
    records = [made.record(data=made.data(kind=kind, stand_in_for="big"))]
    page = Parsed(report.build(records).html)
    assert said in page.texts("td")


def test_page_of_generated_data_claims_nothing():
    records = [made.record(data=made.data(kind="generated")), made.example()]
    assert "not what it finds" in report.build(records).html
    assert "not what it finds" not in report.build(few()).html


def test_failed_runs_and_warnings_are_listed():
    head = {key: made.record()[key] for key in ("record", "paper", "protocol", "figures", "method")}
    failed = {**head, "key": "k", "data_name": "big", "size": 8, "failed": "there is no memory."}
    built = report.build([*few(), {**made.record(), "warnings": ["It is late."]}, failed])
    assert (built.n_runs, built.n_failed) == (5, 1)
    page = Parsed(built.html)
    assert "there is no memory." in page.texts("td")
    assert "It is late." in page.texts("th")


def test_warnings_that_differ_in_numbers_alone_are_one():
    warned = [made.record(warnings=[f"{share}% were not met at {share}e-3."]) for share in (3, 40)]
    page = Parsed(report.build(warned).html)
    assert "40% were not met at 40e-3." in page.texts("th")
    assert "3% were not met at 3e-3." not in page.texts("th")


def test_what_records_say_is_escaped():
    name = '<script>alert("x")</script>'
    built = report.build([made.record(data=made.data(name), warnings=["a < b & c"])])
    assert "<script>" not in built.html
    assert "a &lt; b &amp; c" in built.html


def test_same_records_give_the_same_page(study):
    again = json.loads(json.dumps(study))
    assert report.build(again[:30]).html == report.build(study[:30]).html


@pytest.mark.parametrize(
    "records",
    [[made.example()], [made.record("exact", size=None)], made.fair()[:1], few()],
    ids=["example", "exact", "fair", "sweep"],
)
def test_part_of_a_study_has_a_page(records, points):
    Parsed(report.build(records, points).html)


def test_study_whose_runs_all_failed_has_a_page():
    failed = {"record": "mercer reproduce", "paper": "random-binning", "failed": "no memory."}
    assert "No run belongs to a figure" in report.build([failed]).html


# --- reading records -------------------------------------------------------------------------


def test_last_record_of_a_run_counts(tmp_path):
    first, second = made.record(test=0.3), made.record(test=0.1)
    [kept] = report.load([write(tmp_path / "a.jsonl", [first, second])])
    assert kept == second


def test_folders_and_several_files_are_read_together(tmp_path):
    for name, size in (("a", 8), ("b", 16)):
        write(tmp_path / f"{name}.jsonl", [made.record(size=size)])
    assert len(report.load([tmp_path])) == 2
    assert report.load([tmp_path / "b.jsonl", tmp_path / "a.jsonl"])[0]["size"] == 16


def test_line_that_was_cut_off_is_left_out(tmp_path):
    path = write(tmp_path / "a.jsonl", few())
    path.write_text(path.read_text() + '{"record": "mercer')
    assert report.load([path]) == few()


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "it is empty"),
        (b"{not json}\n", "not JSON"),
        (b'{"record": "mercer compare"}\n', "it has one of 'mercer compare'"),
        (b"\xff\xfe\x81\n", "it is no text"),
    ],
)
def test_wrong_record_file_is_one_sentence(tmp_path, content, said):
    path = tmp_path / "wrong.jsonl"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=said) as error:
        report.load([path])
    assert "\n" not in str(error.value)


def test_missing_file_and_empty_folder_are_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="no file"):
        report.load([tmp_path / "none.jsonl"])
    with pytest.raises(FileNotFoundError, match="holds no records"):
        report.load([tmp_path])


@pytest.mark.parametrize(
    ("papers", "said"),
    [((), "got none"), (("a", "b"), "got a, b"), (("unheard-of",), "got 'unheard-of'")],
)
def test_records_of_no_known_paper_are_refused(papers, said):
    with pytest.raises(ValueError, match=said):
        report.build([made.record(paper=paper) for paper in papers])
