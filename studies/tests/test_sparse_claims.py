"""Verdicts, tables and figures of the sparse random features paper follow from records alone."""

from __future__ import annotations

import copy
import doctest

import numpy as np
import pytest

import _sparse_records as made
from mercer.plots import save_figure
from mercer_studies import report
from mercer_studies.claims import HELD, NOT_HELD, NOT_TESTED, PARTLY, judge
from mercer_studies.queries import error
from mercer_studies.sparse_features import claims, reference, summary, tables
from mercer_studies.sparse_features import figures as sparse_features

STUDY = made.study()


def verdict(name, records):
    [judged] = [j for j in judge(claims.CLAIMS, records) if j.claim.name == name]
    return judged.verdict


# --- sentences --------------------------------------------------------------------------------


def test_sentence_says_what_all_rows_would_cost(monkeypatch):
    monkeypatch.setattr(summary, "ROWS_POWER", 1.0)
    runs = [made.cell("kernel", "gaussian", error=0.1, size=9, rows=400)]
    sparse = made.cell("sparse", "gaussian", error=0.1, size=9, fit=48.0, n_drawn=10_000)
    assert summary.shows([*runs, sparse, sparse]) == [
        "Table 2, toy: 10,000 features on 800 of 1,000 training rows, 400 for the exact kernel; "
        "all rows would take Sparse-RF about 2 min for four λ and three kernels, as its seconds "
        "grow like rows^1."
    ]
    assert summary.shows([sparse | {"n_drawn": 500, "data": made.data(n_train=800)}]) == [
        "Table 2, toy: 500 features on all 800 training rows."
    ]


# --- claims ----------------------------------------------------------------------------------


def test_nothing_is_tested_without_records():
    assert {judged.verdict for judged in judge(claims.CLAIMS, [])} == {NOT_TESTED}


def test_claims_have_names_of_their_own_and_a_rule():
    assert len({claim.name for claim in claims.CLAIMS}) == len(claims.CLAIMS)
    assert all(claim.text.endswith(".") and claim.rule.endswith(".") for claim in claims.CLAIMS)


def test_every_claim_holds_on_records_that_are_as_claimed():
    found = {judged.claim.name: judged.verdict for judged in judge(claims.CLAIMS, STUDY)}
    assert set(found.values()) == {HELD}, found


@pytest.mark.parametrize(
    ("name", "changes", "said"),
    [
        ("error", {"worse": 0.1}, NOT_HELD),
        ("kernel-error", {"worse": 0.1}, NOT_HELD),
        ("fewer-features", {"kept": 150}, PARTLY),
        ("fewer-features", {"kept": 2000}, NOT_HELD),
        ("fewer-vectors", {"kept": 2000}, NOT_HELD),
        ("prediction", {"sparse_predict": 0.8}, PARTLY),
        ("prediction", {"sparse_predict": 2.0}, NOT_HELD),
        ("kernel-prediction", {"sparse_predict": 2.0}, NOT_HELD),
        ("memory", {"sparse_added": 2e8}, NOT_HELD),
    ],
)
def test_claim_on_the_tables_fails_where_records_say_so(name, changes, said):
    assert verdict(name, made.row(**changes)) == said


def test_claims_name_the_rows_of_an_exact_kernel_that_has_fewer():
    runs = [made.cell(family, "gaussian", error=0.1, size=9) for family in ("kernel", "sparse")]
    for rows, said in ((400, True), (800, False)):
        runs[0] |= {"rows": rows}
        judged = {one.claim.name: one for one in judge(claims.CLAIMS, runs)}
        for name in ("kernel-error", "fewer-vectors", "kernel-prediction"):
            [finding] = judged[name].findings
            assert finding.numbers.endswith("; Kernel has 400 rows, Sparse-RF 800") == said


@pytest.mark.parametrize(
    ("norm", "kept", "said"),
    [(20.0, 57, HELD), (2.0, 57, PARTLY), (20.0, 40, PARTLY), (2.0, 40, NOT_HELD)],
)
def test_covtype_is_hard_by_its_norm_and_its_features(norm, kept, said):
    easy, hard = made.data("easy", "Cod-RNA"), made.data("forest", "Covtype")
    assert verdict("covtype", [*made.row(easy), *made.row(hard, norm=norm, kept=kept)]) == said


@pytest.mark.parametrize(
    ("name", "changes", "said"),
    [
        ("reaches", {"reached": 0.3}, PARTLY),
        ("reaches", {"reached": 0.5}, NOT_HELD),
        ("right", {"wrong": 0.07}, PARTLY),
        ("right", {"wrong": 0.2}, NOT_HELD),
        ("stalls", {"boosting": 0.1}, NOT_HELD),
        ("bound", {"norm": 0.2}, HELD),
    ],
)
def test_claim_on_the_figure_fails_where_records_say_so(name, changes, said):
    assert verdict(name, made.searches(**changes)) == said


def test_objective_above_the_bound_is_not_held():
    runs = made.searches(norm=0.2)
    runs[1]["course"]["objective"][-1] = 0.3
    assert verdict("bound", runs) == NOT_HELD


def test_claims_can_be_put_to_the_authors_cells():
    found = {j.claim.name: j for j in judge(claims.CLAIMS, reference.published())}
    assert found["prediction"].verdict == HELD
    assert found["fewer-features"].verdict == HELD
    assert len(found["error"].findings) == 6
    assert found["reaches"].verdict == NOT_TESTED


# --- the authors' cells ----------------------------------------------------------------------


def test_authors_cells_are_those_of_the_paper():
    found = {(run["data"]["name"], run["method"]): run for run in reference.published()}
    assert len(found) == 18 * 3 - 3  # the kernel was not run on YearPred
    run = found["Covtype", "sparse-laplacian"]
    assert (run["model_size"], run["score"]["test"]["accuracy"]) == (3141, 0.869)
    assert (run["seconds"], run["memory"]) == ({"fit": 2788, "predict": 175}, {"added": 56.5e9})
    assert found["Census", "kernel-perceptron"]["score"]["test"] == {"relative_rmse": 0.01}
    assert {run["data"]["n_train"] for run in found.values()} >= {6554, 18_186, 464_810}


def test_table_beside_theirs_has_their_cell_in_every_row_and_names_a_stand_in():
    first, second = tables.beside(STUDY, reference.published())
    for table in (first, second):
        assert all(len(line) == len(table["head"]) for line in table["rows"])
    assert [line[0] for line in first["rows"]] == ["homes (a stand-in for census, 800 rows)"] * 9
    assert {line[first["verdict"]] for line in first["rows"]} == {"other data"}
    assert first["rows"][0][1:5] == ["gaussian", "Kernel", "700", "18,186"]
    assert first["rows"][0][8:12] == ["1 s", "2,719 s", "1 s", "74 s"]
    assert {line[0] for line in second["rows"]} == {
        "easy (800 rows)",
        "forest (a sample of covtype, 800 rows)",
    }
    assert second["rows"][0][5:8] == ["90.0 %", "96.6 %", "worse"]


def test_own_tables_say_in_every_row_what_the_data_are():
    first, second, every = tables.measured(STUDY)
    homes = [line for line in first["rows"] if line[0].startswith("homes")]
    assert len(homes) == 9
    assert all("a stand-in for census" in line[0] for line in homes)
    assert len(second["rows"]) == 18
    assert len(every["rows"]) == 4 * 3 * 4
    assert all(line[0].count("stand-in") == (line[0][:5] == "homes") for line in every["rows"])


def test_sparse_model_of_a_table_is_the_one_nearest_to_random_features():
    [one] = [
        run for run in sparse_features.shown(made.row(), 2) if run["method"] == "sparse-gaussian"
    ]
    assert one["lam_n"] == 10
    assert error(one) == pytest.approx(0.102)


# --- figures ---------------------------------------------------------------------------------


def test_bound_is_that_of_the_theorem():
    objective, norm, drawn = 0.3, 3.0, 500
    gamma = 2.0 * norm**2  # γ ‖w*‖² with γ = β = 2
    c = 2 * (1 - objective) / gamma
    exact = {"objective": objective, "norm": norm}
    mean, none = sparse_features.allowed(exact, [drawn, 0])
    assert mean == pytest.approx(objective + 2 * gamma / (drawn - c))
    assert none == float("inf")
    [likely] = sparse_features.allowed(exact, [drawn], failure=0.05)
    excess = 2 * gamma * (1 + np.log(20)) / (drawn - 2 + 4 / c - c)
    assert likely == pytest.approx(objective + excess)


def test_table_is_drawn_with_their_cells_beside_the_same_data_alone():
    theirs = reference.published()

    def hollow(records, number):
        figure = sparse_features.table(records, number, theirs)
        lines = [line for panel in figure.axes for line in panel.lines]
        return sum(line.get_markerfacecolor() == "white" for line in lines)

    assert hollow(STUDY, 2) == 2 * 9
    assert hollow(STUDY, 1) == 0
    keys = [
        key.get_text() for key in sparse_features.table(STUDY, 1, theirs).legends[0].get_texts()
    ]
    assert "the paper's" not in keys


def test_panel_names_the_rows_of_an_exact_kernel_that_has_fewer():
    runs = [made.cell(family, "gaussian", error=0.1, size=9) for family in ("kernel", "sparse")]
    for rows, said in ((400, True), (800, False)):
        runs[0] |= {"rows": rows}
        figure = sparse_features.table(runs, 2)
        texts = [text.get_text() for panel in figure.axes for text in panel.texts]
        assert any(text.endswith("training rows, exact: 400") for text in texts) == said


def test_figure_1_has_both_searches_the_kernel_and_both_bounds():
    panel, wrong, _ = sparse_features.figure1(made.searches()).axes
    styles = [line.get_linestyle() for line in panel.lines]
    assert (styles.count("--"), styles.count(":")) == (1, 2)
    [dashed] = [line for line in panel.lines if line.get_linestyle() == "--"]
    assert dashed.get_ydata()[0] == 0.25
    [dashed] = [line for line in wrong.lines if line.get_linestyle() == "--"]
    np.testing.assert_allclose(dashed.get_ydata(), 5.0)


@pytest.mark.parametrize(
    "draw",
    [
        sparse_features.figure1,
        lambda records: sparse_features.table(records, 1),
        lambda records: sparse_features.table(records, 2, reference.published()),
    ],
)
def test_figure_is_painted_without_a_change_of_the_records(draw, tmp_path):
    before = copy.deepcopy(STUDY)
    save_figure(draw(STUDY), tmp_path / "figure.png")
    assert before == STUDY
    assert (tmp_path / "figure.png").stat().st_size > 10_000
    with pytest.raises(ValueError, match="records must hold"):
        draw([])


def test_page_has_the_authors_cells_without_a_file_of_them(monkeypatch):
    monkeypatch.setattr(report.html, "image", lambda shown: "<br>")
    built = report.build(STUDY)
    assert built.html.count("<br>") == 3
    assert "a stand-in for census" in built.html
    assert "other data" in built.html
    assert "the authors' points" in built.html or "the authors&#x27; points" in built.html
    with pytest.raises(ValueError, match="whose numbers are known"):
        report.build(STUDY, "points.csv")


@pytest.mark.parametrize(
    "module",
    [claims, reference, tables, sparse_features],
    ids=lambda module: module.__name__,
)
def test_examples(module):
    assert doctest.testmod(module).failed == 0
