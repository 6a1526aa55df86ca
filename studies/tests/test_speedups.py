"""Figure 6 of the random binning paper: what is timed and simulated, verdicts, the figure."""

from __future__ import annotations

import copy
import doctest

import numpy as np
import pytest

import _records as made
from mercer.compare import records
from mercer.plots import save_figure
from mercer.solvers import CoordinateDescent
from mercer_studies import runner
from mercer_studies.claims import HELD, NOT_HELD, NOT_TESTED, PARTLY, judge
from mercer_studies.papers import Selected
from mercer_studies.random_binning import data, grid, parallel, plan, speedups
from mercer_studies.random_binning import speedup_figures as plots
from mercer_studies.report import build

TAUS = [1, 2, 4, 8, 16]


@pytest.fixture(scope="module")
def loaded():
    return data.load(grid.SOURCES["generated-regression"], n_jobs=2)


def simulated(loaded, method="binning", mode="safe", taus=(1, 8), **changes):
    settings = {"rows": 60, "size": 8, "gamma": 1.12, "seed": 0, "epochs": 60, **changes}
    return parallel.simulated(loaded, method=method, mode=mode, taus=taus, **settings)


# --- what is run -----------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["binning", "fourier"])
def test_record_says_what_the_theory_says_of_its_columns(method, loaded):
    run = simulated(loaded, method, taus=(1, 4), epochs=1)
    omega, n_columns = run["omega"], run["n_features"]
    assert omega == 8
    assert (n_columns == 8) is (method == "fourier")
    assert run["predicted"] == pytest.approx([1.0, 4 / (1 + 7 * 3 / (n_columns - 1))])


def test_sparse_columns_gain_from_processors_and_dense_ones_hardly(loaded):
    binned, dense = (
        plots.speedups(simulated(loaded, method, size=8 if method == "binning" else 24))[8]
        for method in ("binning", "fourier")
    )
    assert binned > 4
    assert dense < 3


def test_plain_steps_of_dense_columns_do_not_get_there(loaded):
    run = simulated(loaded, "fourier", "plain", taus=(1, 24), size=24)
    assert run["curve"][0]["rounds"] is not None
    assert run["curve"][1]["rounds"] is None
    assert plots.speedups(run) == {1: 1.0}


@pytest.mark.parametrize(("method", "mode"), [("binning", "auto"), ("fourier", "async")])
def test_threads_are_timed_in_turn_to_the_same_goal(method, mode, loaded):
    settings = {"rows": 200, "size": 8, "gamma": 1.12, "seed": 0, "tol": 1e-4}
    run = parallel.measured(loaded, method=method, mode=mode, taus=[1, 2], **settings)
    assert [point["tau"] for point in run["curve"]] == [1, 2]
    assert all(point["converged"] for point in run["curve"])
    assert {len(runs) for runs in run["runs"].values()} == {1}
    one, two = (point["objective"] for point in run["curve"])
    problem = parallel._problem(loaded, method, np.float64, 200, 8, 1.12, 0)
    best = problem.value(CoordinateDescent(tol=1e-8).solve(problem).coef)
    start = problem.value(problem.initial())
    assert best <= min(one, two) + 1e-6
    assert max(one, two) <= best + 1.1e-4 * start


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    path = tmp_path_factory.mktemp("study") / "runs.jsonl"
    stages, _ = plan.stages(Selected("tiny", figures=(6,), n_jobs=2))
    runner.run("random-binning", stages, path, common={"scale": "tiny"}, n_jobs=2)
    return records.read(path)


def test_figure_6_has_every_mode_measured_and_simulated(tiny):
    assert not any("failed" in record for record in tiny)
    found = {(record["kind"], record["method"], record["mode"]) for record in tiny}
    measured = {(m, mode) for m, modes in parallel.MODES.items() for mode in modes}
    simulations = {(m, mode) for m in parallel.MODES for mode in parallel.STEPS}
    assert found == {("measured", *one) for one in measured} | {
        ("simulated", *one) for one in simulations
    }
    assert {record["protocol"] for record in tiny} == {"parallel"}


def test_page_and_figure_come_from_these_records_alone(tiny):
    built = build(tiny)
    assert built.html.count("<img ") == 1
    assert list(built.figures) == ["figure-6"]
    tested = {j.claim.name for j in built.judgements if j.findings}
    assert tested == {claim.name for claim in speedups.CLAIMS}


def test_equal_terms_have_no_part_in_figure_6():
    fair, _ = plan.stages(Selected("tiny", protocols=("fair",)))
    both, _ = plan.stages(Selected("tiny"))
    assert not any("threads" in stage.name for stage in fair)
    assert [stage.name for stage in both if "threads" in stage.name] == [
        "generated-regression, threads"
    ]


# --- verdicts --------------------------------------------------------------------------------


def run(kind, method, mode, values, **changes):
    """A curve; ``values`` are speed-ups, None for what does not get there."""
    taus = TAUS[: len(values)]
    name = "seconds" if kind == "measured" else "rounds"
    points = [
        {"tau": tau, name: None if value is None else 1000 / value}
        for tau, value in zip(taus, values, strict=True)
    ]
    found = made.record(
        method,
        rows=1000,
        figures=[6],
        protocol="parallel",
        kind=kind,
        mode=mode,
        curve=points,
        omega=16,
        n_features=16 * 64 if method == "binning" else 16,
        predicted=[tau / (1 + (tau - 1) / 64) if method == "binning" else 1.0 for tau in taus],
        size=16,
    )
    del found["score"]
    return {**found, **changes}


def runs(
    threads=(1, 1.8), dense_threads=(1, 0.6), rounds=(1, 2, 3.9, 7.5, 15), dense=(1, 1, 1, 1, 2)
):
    return [
        run("measured", "binning", "async", threads),
        run("measured", "binning", "safe", (1, 0.5)),
        run("measured", "binning", "auto", (1, 1.9)),
        run("measured", "fourier", "async", dense_threads),
        run("simulated", "binning", "safe", rounds),
        run("simulated", "fourier", "safe", dense),
        run("simulated", "fourier", "plain", (1, 2, None, None, None)),
    ]


def verdict(name, found):
    [judged] = [j for j in judge(speedups.CLAIMS, found) if j.claim.name == name]
    return judged.verdict


def test_every_claim_holds_on_records_that_are_as_claimed():
    found = {judged.claim.name: judged.verdict for judged in judge(speedups.CLAIMS, runs())}
    assert set(found.values()) == {HELD}, found


@pytest.mark.parametrize(
    ("name", "changes", "said"),
    [
        ("threads", {"threads": (1, 1.3)}, PARTLY),
        ("threads", {"threads": (1, 1.1)}, NOT_HELD),
        ("threads", {"threads": (1,)}, NOT_TESTED),
        ("threads-fourier", {"dense_threads": (1, 1.3)}, PARTLY),
        ("threads-fourier", {"dense_threads": (1, 1.8)}, NOT_HELD),
        ("rounds", {"rounds": (1, 2, 3, 5, 10)}, PARTLY),
        ("rounds", {"rounds": (1, 2, 3, 4, None)}, NOT_HELD),
        ("guarantee", {"rounds": (1, 2, 3.4, 6, 10.5)}, PARTLY),
        ("guarantee", {"rounds": (1, 1, 1, 1, 1)}, NOT_HELD),
        ("rounds-fourier", {"dense": (1, 2, 4, 6, 6)}, PARTLY),
        ("rounds-fourier", {"dense": (1, 2, 4, 8, 16)}, NOT_HELD),
        ("rounds-fourier", {"dense": (1, 2)}, NOT_TESTED),
    ],
)
def test_claim_fails_where_records_say_so(name, changes, said):
    assert verdict(name, runs(**changes)) == said


def test_nothing_is_tested_without_records():
    assert {judged.verdict for judged in judge(speedups.CLAIMS, [])} == {NOT_TESTED}


# --- the figure ------------------------------------------------------------------------------


def test_figure_shows_what_was_measured_above_what_was_simulated(tmp_path):
    found = runs()
    before = copy.deepcopy(found)
    figure = plots.figure6(found)
    upper, lower = figure.axes
    shown = [tuple(line.get_ydata()) for line in upper.lines]
    assert (1.0, 1.8) in shown
    assert (1.0, 0.6) in shown
    crosses = [line for line in lower.lines if line.get_marker() == "x" and len(line.get_xdata())]
    assert [list(line.get_xdata()) for line in crosses] == [[4, 8, 16]]
    dotted = [line for line in lower.lines if line.get_linestyle() == ":"]
    np.testing.assert_allclose(dotted[0].get_ydata(), found[4]["predicted"])
    assert any("κ̄ 64" in text.get_text() for text in lower.texts)
    save_figure(figure, tmp_path / "figure.png")
    assert found == before


@pytest.mark.parametrize(
    ("kind", "label"), [("measured", "threads"), ("simulated", "processors τ")]
)
def test_figure_has_no_panel_for_what_was_not_run(kind, label):
    found = [run for run in runs() if run["kind"] == kind]
    assert [panel.get_xlabel() for panel in plots.figure6(found).axes] == [label]


def test_figure_without_a_run_is_an_error():
    with pytest.raises(ValueError, match="records must hold"):
        plots.figure6([made.record()])


@pytest.mark.parametrize("module", [parallel, plots, speedups], ids=lambda m: m.__name__)
def test_examples(module):
    assert doctest.testmod(module).failed == 0
