"""Verdicts, tables and figures of the TEFM paper follow from records alone."""

from __future__ import annotations

import copy
import doctest

import numpy as np
import pytest

import _tefm_records as made
from mercer.plots import save_figure
from mercer_studies import lines, report
from mercer_studies import queries as readings
from mercer_studies.claims import HELD, NOT_HELD, NOT_TESTED, PARTLY, judge
from mercer_studies.tefm import claims, summary, tables
from mercer_studies.tefm import figures as tefm

STUDY = made.study()


def verdict(name, records):
    [judged] = [j for j in judge(claims.CLAIMS, records) if j.claim.name == name]
    return judged.verdict


# --- claims ----------------------------------------------------------------------------------


def test_nothing_is_tested_without_records():
    assert {judged.verdict for judged in judge(claims.CLAIMS, [])} == {NOT_TESTED}


def test_every_claim_holds_on_records_that_are_as_claimed():
    found = {judged.claim.name: judged.verdict for judged in judge(claims.CLAIMS, STUDY)}
    assert set(found.values()) == {HELD}, found


@pytest.mark.parametrize(
    ("name", "changes", "said"),
    [
        ("half", {"half": 0.8}, PARTLY),
        ("half", {"half": 0.6, "s": 1.2}, PARTLY),
        ("half", {"half": 0.9}, NOT_HELD),
        ("half-of-all", {"half": 0.62}, PARTLY),
        ("comp", {"comp": 0.9}, NOT_HELD),
        ("marginally", {"s": 0.9}, PARTLY),
        ("marginally", {"s": 1.5}, PARTLY),
        ("four-times", {"half": 0.7}, PARTLY),
        ("four-times", {"half": 0.9}, NOT_HELD),
        ("squares", {"square": 1.5}, PARTLY),
        ("squares", {"square": 3.0}, NOT_HELD),
    ],
)
def test_claim_on_the_kernel_fails_where_records_say_so(name, changes, said):
    assert verdict(name, made.kernels(**changes)) == said


@pytest.mark.parametrize(("power", "said"), [(0.5, HELD), (0.35, PARTLY), (0.25, NOT_HELD)])
def test_rate_is_judged_by_the_powers(power, said):
    runs = [run for run in made.kernels() if run["method"] != "tefm-square"]
    runs += [made.kernel("tefm-square", size, size ** (-2 * power)) for size in (30, 50, 100)]
    assert verdict("rate", runs) == said


@pytest.mark.parametrize(
    ("name", "changes", "said"),
    [
        ("fewer-features", {"features": 1.5}, NOT_HELD),
        ("seconds", {"seconds": 0.5}, NOT_HELD),
    ],
)
def test_claim_on_prices_fails_where_records_say_so(name, changes, said):
    assert verdict(name, made.regressions(**changes)) == said


def test_rival_that_never_gets_there_is_a_bound_and_not_a_verdict():
    runs = [made.ridge("tefm-g", 50, 0.1, 5.0), made.ridge("tefm-s", 50, 0.1, 5.0)]
    few = [*runs, made.ridge("rks", 50, 0.2, 1.0)]
    assert verdict("seconds", few) == NOT_TESTED
    many = [*runs, made.ridge("rks", 5000, 0.2, 50.0)]
    assert verdict("seconds", many) == HELD


def test_advantage_grows_where_the_prices_do():
    runs = made.regressions()
    assert verdict("growing", runs) == HELD
    for run in runs:
        if run["method"].startswith("tefm"):
            run["seconds"]["fit"] *= (run["size"] / 50) ** 2
    assert verdict("growing", runs) == NOT_HELD


def test_who_is_slower_at_both_ends_has_no_advantage_that_grows():
    runs = made.regressions()
    for run in runs:
        if run["method"].startswith("tefm"):
            run["seconds"]["fit"] *= 1000.0
    assert verdict("growing", runs) == NOT_HELD


@pytest.mark.parametrize(("power", "said"), [(2.0, HELD), (1.2, PARTLY)])
def test_table_1_is_judged_by_its_powers(power, said):
    assert verdict("table-1", made.times(power)) == said


def test_features_that_take_ten_times_as_long_are_not_slightly_dearer():
    runs = made.regressions()
    for run in runs:
        if run["method"].startswith("tefm"):
            run["seconds"]["features"] *= 10
    assert verdict("slightly-more", runs) == NOT_HELD


# --- tables ----------------------------------------------------------------------------------


def test_tables_name_who_leads_at_equal_features_and_at_equal_seconds():
    points = [
        tables.Point(method, size, error, seconds)
        for method, size, error, seconds in (
            ("rks", 50, 0.3, 0.05),
            ("rks", 100, 0.15, 0.5),
            ("tefm-g", 50, 0.2, 0.5),
            ("nystroem", 50, 0.25, 0.02),
            ("tefm-g", 100, 0.1, 5.0),
        )
    ]
    by_size = tables.at_equal_features(points)
    assert {size: [p.method for p in found] for size, found in by_size.items()} == {
        50: ["tefm-g", "nystroem", "rks"]
    }
    by_seconds = tables.at_equal_seconds(points)
    assert [(at, found[0].method) for at, found in by_seconds.items()] == [
        (0.1, "nystroem"),
        (1.0, "rks"),
        (10.0, "tefm-g"),
    ]
    assert [p.size for p in by_seconds[10.0]] == [100, 100, 50]


def test_tables_are_means_over_the_seeds_and_leave_the_squares_out():
    first, *_, powers = tables.tables(STUDY)
    assert all(len(row) == len(first["head"]) for row in first["rows"])
    assert first["rows"][0][:3] == ["toy", "50", "RPCholesky 50"]
    assert not any("d = l²" in cell for row in first["rows"] for cell in row)
    assert ["RKS", "solution", "l", "2.00", "1.00", "2"] in powers["rows"]


# --- figures ---------------------------------------------------------------------------------


def test_figure_1_shows_two_norms_of_every_method_and_no_squares():
    figure = tefm.figure1(STUDY)
    upper, lower = figure.axes[0], figure.axes[2]
    for panel, factor in ((upper, 1), (lower, 2)):
        shown = {line.get_color() + line.get_marker(): line for line in panel.lines}
        curve = shown["#D55E00D"]
        expected = [100 * factor * 0.5 * 1.05 * size**-0.5 for size in made.SIZES]
        np.testing.assert_allclose(curve.get_ydata(), expected)
        assert max(shown["#0072B2o"].get_xdata()) == 1600
    assert upper.get_title(loc="left") == "toy"
    said = [text.get_text() for text in figure.axes[1].texts]
    assert any(text.startswith("a stand-in for costs, 800 rows") for text in said)


def test_figure_2_has_a_line_for_the_exact_kernel_and_names_a_stand_in():
    figure = tefm.figure2(STUDY)
    panel = figure.axes[1]
    assert any(list(line.get_ydata()) == [1.0, 1.0] for line in panel.lines)
    [said] = [text.get_text() for text in panel.texts]
    assert said == "a stand-in for costs, 800 of 1\N{THIN SPACE}000 training rows"


def test_figure_3_runs_along_the_sizes():
    panel = tefm.figure3(made.regressions()).axes[0]
    [rks] = [line for line in panel.lines if line.get_color() == "#0072B2"]
    np.testing.assert_allclose(
        rks.get_xdata(), [1e-3 * s for s in (50, 100, 200, 400, 800, 1600, 3200)]
    )


@pytest.mark.parametrize("draw", [tefm.figure1, tefm.figure2, tefm.figure3, tefm.table1])
def test_figure_is_painted_without_a_change_of_the_records(draw, tmp_path):
    before = copy.deepcopy(STUDY)
    save_figure(draw(STUDY), tmp_path / "figure.png")
    assert before == STUDY
    assert (tmp_path / "figure.png").stat().st_size > 10_000
    with pytest.raises(ValueError, match="records must hold"):
        draw([])


def test_page_has_every_claim_and_every_table(monkeypatch):
    monkeypatch.setattr(report.html, "image", lambda shown: "<br>")
    built = report.build(STUDY)
    assert built.html.count("<br>") == 4
    assert built.protocols == ("fair",)
    for table in tables.tables(STUDY):
        assert table["caption"] in built.html


@pytest.mark.parametrize(
    "module", [claims, summary, tables, tefm, lines, readings], ids=lambda module: module.__name__
)
def test_examples(module):
    assert doctest.testmod(module).failed == 0


# --- sentences -------------------------------------------------------------------------------


def test_sentences_on_kernel_errors_are_computed_from_the_records():
    assert summary.shows(made.kernels(s=1.2)) == [
        "Figure 1 has 2 seeds; its rows are 800 of toy.",
        "The kernel errors of TEFM-G with q = 0, of TEFM-G with q = 1 and of TEFM-S are apart by "
        "up to 20.0 % at l = 50, 20.0 % at l = 100, 20.0 % at l = 200, 20.0 % at l = 400.",
        "Kernel error of orthogonal frequencies over that of RKS: 0.8 at l = 50, 0.8 at "
        "l = 100, 0.8 at l = 200, 0.8 at l = 400.",
        "With as many features RKS has 10 times the kernel error of Nyström.",
        "With as many features RKS has 20 times the kernel error of RPCholesky.",
        "RPCholesky has more kernel error than Nyström in 0 of 4 cases.",
    ]
    landmarks = [made.kernel("nystroem", 50, 0.1), made.kernel("rpcholesky", 50, 0.2)]
    assert summary.shows(landmarks) == [
        "RPCholesky has more kernel error than Nyström in 1 of 1 cases: toy at l = 50."
    ]


def test_sentences_on_theorems_count_runs_above_their_bound():
    theory = {"excess": 0.5, "allowed_excess": 2.0}
    runs = [
        made.kernel("rks", 50, 0.1, theory={"spectral": 0.3, **theory}),
        made.kernel("tefm-s", 50, 0.1, theory={"spectral": 0.05, **theory}),
    ]
    assert summary.shows(runs) == [
        "Figure 1 has one seed; its rows are 800 of toy.",
        "1 of 2 runs exceed their bound, which is 3 times the error of RKS, 0.5 times the error "
        "of TEFM-S.",
        "Theorem 3 allows 4 times the excess loss that is measured.",
    ]


def test_sentences_name_powers_above_the_table():
    assert summary.shows(made.times(solve=2.5)) == [
        "3 of 14 fitted powers are above those of Table 1: RKS solution l^2.50, TEFM-G solution "
        "l^2.50, TEFM-S solution l^2.50."
    ]
    ridge = [
        made.ridge(name, 50, error, 1.0) for name, error in (("nystroem", 0.1), ("tefm-g", 0.2))
    ]
    assert summary.shows(ridge) == [
        "Ridge regression with as many features has less error on Nyström than on TEFM-G in 1 of "
        "1 cases."
    ]
