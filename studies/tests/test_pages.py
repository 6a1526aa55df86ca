"""The pages in docs are what their records make."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from mercer_studies import blocks, markdown, report

STUDIES = Path(__file__).parents[1]
RECORDS = sorted((STUDIES / "records").glob("*.jsonl"))
PAGES = sorted((STUDIES / "docs").glob("*.md"))


@pytest.mark.parametrize("path", RECORDS, ids=lambda path: path.stem)
def test_page_is_what_its_records_make(path):
    """Every verdict, number and sentence; ``mercer report RECORDS --out PAGE`` writes the page."""
    page = STUDIES / "docs" / f"{path.stem}.md"
    made = report.build(report.load([path]))
    assert made.markdown(f"{path.stem}-").splitlines() == page.read_text("utf-8").splitlines()


def test_every_page_is_made_of_records():
    assert [page.stem for page in PAGES] == [path.stem for path in RECORDS]
    assert all(page.read_text("utf-8").startswith(markdown.MARK) for page in PAGES)


def test_every_figure_is_on_a_page_and_every_page_has_its_figures():
    links = [name for page in PAGES for name in re.findall(r"\]\((.*?\.png)\)", page.read_text())]
    assert sorted(links) == sorted(path.name for path in (STUDIES / "docs").glob("*.png"))


@pytest.mark.parametrize("path", RECORDS, ids=lambda path: path.stem)
def test_records_are_small(path):
    assert path.stat().st_size < 500_000


def test_markdown_escapes_what_would_be_markup():
    table = blocks.Table("norms", ["‖w*‖", "a|b"], [["<b>", 1]], numbers=[1])
    assert markdown.render(table).splitlines() == [
        "*norms*",
        "",
        r"| ‖w\*‖ | a\|b |",
        "| --- | ---: |",
        r"| \<b> | 1 |",
    ]
