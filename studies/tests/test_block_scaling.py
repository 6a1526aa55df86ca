"""Figure 5 of the block descent study: machines that are measured, machines that are simulated."""

from __future__ import annotations

import signal
import sys
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pytest

from mercer.datasets import DataError
from mercer.distributed import Here, gathered
from mercer.kernels import Gaussian
from mercer.plots import save_figure
from mercer_studies import runner
from mercer_studies.block_descent import page, plan, scaling, scaling_figures
from mercer_studies.claims import HELD, NOT_HELD, NOT_TESTED, PARTLY
from mercer_studies.papers import Selected
from mercer_studies.report import build
from mercer_studies.simulators import broadcast_words

SETTINGS = {
    "rows": 40,
    "inputs": 3,
    "block_size": 8,
    "processes": [1, 2],
    "machines": [1, 2, 8, 128],
    "repeats": 2,
    "probe": 2**18,
    "network": {"name": "10 Gb/s", "bandwidth": 1.25e9, "latency": 1e-4},
}


@contextmanager
def within(seconds):
    """Fail what takes longer."""

    def fail(*_):
        raise AssertionError(f"it took longer than {seconds} seconds")

    before = signal.signal(signal.SIGALRM, fail)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


@pytest.fixture(scope="module")
def run():
    return scaling.scaling(scaling.here, **SETTINGS)


@pytest.fixture
def outcome(tmp_path, monkeypatch):
    """The records of the tiny study, made without a cluster."""
    monkeypatch.setattr(scaling, "_need_dask", lambda: scaling.here)
    stages, _ = plan.stages(Selected("tiny", figures=(5,)))
    return runner.run("block-descent", stages, tmp_path / "runs.jsonl", n_jobs=1)


def made(measured=(2.0, 2.1), links=None, inputs=440):
    """A hand-made run: seconds on one machine and two, and those of simulated ones by links."""
    links = links or {scaling.ENGINE: {1: 2.0, 2: 2.05, 8: 2.1, 128: 2.3}}
    common = {"broadcast": 0.1, "dispatch": 0.1, "sent": 1e6}
    curve = [
        {"machines": i + 1, "seconds": s, "simulated": False, "link": scaling.ENGINE, **common}
        for i, s in enumerate(measured)
    ]
    for name, seconds in links.items():
        curve += [
            {"machines": m, "seconds": s, "simulated": True, "link": name, **common}
            for m, s in seconds.items()
        ]
    rates = {"latency": 0.01, "bandwidth": 1e9, "dispatch": 0.001}
    about = {"name": f"generated-{inputs}", "kind": "generated", "paper_name": "TIMIT"}
    return {
        "task": "scaling",
        "rows": 100,
        "inputs": inputs,
        "block_size": 10,
        "data": about,
        "curve": curve,
        "links": [{"name": name, **rates} for name in links],
    }


# --- what is recorded ------------------------------------------------------------------------


def test_every_row_says_whether_it_is_simulated(run):
    flags = [(point["machines"], point["simulated"], point["link"]) for point in run["curve"]]
    links = [link["name"] for link in run["links"]]
    assert links == [scaling.ENGINE, "10 Gb/s"]
    expected = [(m, False, scaling.ENGINE) for m in (1, 2)]
    expected += [(m, True, link) for link in links for m in (1, 2, 8, 128)]
    assert flags == expected
    assert all(point["seconds"] > 0 for point in run["curve"])


def test_one_simulated_machine_is_the_measured_one(run):
    first = run["curve"][0]["seconds"]
    assert first == np.median(run["curve"][0]["runs"]["seconds"])
    ones = [point for point in run["curve"] if point["machines"] == 1]
    assert [point["seconds"] for point in ones] == [first] * 3


def test_simulated_bytes_are_the_cost_models(run):
    for point in run["curve"]:
        if point["simulated"]:
            assert point["sent"] == 8 * broadcast_words(point["machines"], 40, 3, 8)


def test_the_stated_network_has_the_tasks_of_the_engine_and_waits_longer(run):
    engine, stated = run["links"]
    assert stated["dispatch"] == engine["dispatch"]
    assert stated["latency"] == pytest.approx(engine["latency"] + 1e-4)
    assert stated["bandwidth"] == 1.25e9


def test_a_worker_makes_the_columns_of_the_points_in_its_rows(monkeypatch):
    shard, found = scaling.shard_of(3, 5, 2), []
    points = np.ones((4, 2))
    monkeypatch.setattr(
        Gaussian, "__call__", lambda self, X, Y: found.append((self, X, Y)), raising=True
    )
    assert scaling.make_block(None, 0, shard, points, 0.5) >= 0
    [(kernel, X, Y)] = found
    assert kernel.gamma == 0.5
    assert X is shard.X
    assert Y is points


def test_rows_of_a_machine_are_its_own_and_come_again():
    first, again, other = (scaling.shard_of(number, 6, 2).X for number in (0, 0, 1))
    np.testing.assert_array_equal(first, again)
    assert not np.any(first == other)


class Slow(Here):
    """An engine whose clock runs by what is asked of it."""

    def __init__(self, shards, clock):
        super().__init__(shards)
        self.clock = clock

    def share(self, value):
        self.clock[0] += 0.01 + value.nbytes / 1e8
        return value

    def each(self, *args, **options):
        self.clock[0] += 0.5 + 0.002 * self.n_shards
        return super().each(*args, **options)


def test_latency_bandwidth_and_tasks_are_told_apart(monkeypatch):
    clock = [0.0]
    monkeypatch.setattr(scaling.time, "perf_counter", lambda: clock[0])
    make = lambda n, *_: Slow([scaling.shard_of(0, 1, 1)] * n, clock)  # noqa: E731
    link = scaling.engine_link(make, probe=2**22)
    assert link.latency == pytest.approx(0.01)
    assert link.bandwidth == pytest.approx(1e8)
    assert link.dispatch == pytest.approx(0.002)


def test_processes_of_dask_hold_rows_and_make_blocks():
    """One process, within a minute: what is measured of it is what a worker did."""
    pytest.importorskip("distributed")
    with within(60), scaling.dask_machines(1) as make:
        engine = make(2, 30, 3)
        assert gathered(engine, len) == [30, 30]
        points = np.random.default_rng(0).standard_normal((70, 409))  # sent by themselves
        wide = make(1, 50, 409)
        laps = scaling._one_block(wide, points, 0.1)
        assert 0 < laps["compute"] <= laps["seconds"]
        assert laps["broadcast"] <= laps["seconds"]
        engine.close()
        wide.close()


# --- the claim -------------------------------------------------------------------------------


def verdict(*runs):
    return [finding.verdict for finding in scaling_figures.CLAIM.decide(runs)]


def test_the_rise_from_8_to_128_is_judged_over_the_slowest_network():
    flat, steep = {8: 2.0, 128: 2.4}, {8: 2.0, 128: 2.9}
    assert verdict(made(links={"a": flat})) == [HELD]
    assert verdict(made(links={"a": flat, "b": steep})) == [PARTLY]
    assert verdict(made(links={"a": flat, "b": {8: 2.0, 128: 3.1}})) == [NOT_HELD]
    assert verdict(made(links={"a": {1: 2.0, 4: 2.0}})) == [NOT_TESTED]


def test_a_simulation_that_measured_machines_exceed_is_held_in_part():
    assert verdict(made(measured=(2.0, 2.5))) == [HELD]
    assert verdict(made(measured=(2.0, 2.7))) == [PARTLY]


def test_runs_that_failed_count_for_nothing():
    assert verdict({**made(), "failed": "no memory."}) == []


def test_times_of_a_shared_machine_decide_nothing():
    assert verdict({**made(), "remark": "shared with other work"}) == [NOT_TESTED]


# --- the study -------------------------------------------------------------------------------


def test_figure_5_is_a_part_of_the_study_and_is_not_without_dask(monkeypatch, tmp_path):
    names = [stage.name for stage in plan.stages(Selected("laptop", figures=(5,)))[0]]
    assert names == ["generated-timit, machines", "generated-cifar-10, machines"]
    chosen = Selected("tiny", datasets=("generated-timit",))
    stages, notes = plan.stages(chosen)
    assert [stage.name for stage in stages] == ["generated-timit, machines"]
    assert scaling.NOTE in notes
    assert not any("machines" in stage.name for stage in plan.stages(Selected(figures=(1,)))[0])
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(DataError, match="Figure 5 needs Dask"):
        stages[0].load()
    assert runner.run("block-descent", stages, tmp_path / "runs.jsonl").records == []


def test_the_paper_has_these_rows_and_inputs():
    for name in ("laptop", "paper"):
        settings = scaling.SCALINGS[name]
        assert (settings.rows, settings.block_size, settings.shrink) == (16384, 6144, 1)
        assert settings.machines[-1] == 128
    assert [shape.inputs for shape in scaling.SHAPES.values()] == [440, 4096]
    assert replace(scaling.SCALINGS["tiny"]).shrink == 10


def test_the_figure_and_the_page_show_what_was_recorded(outcome, tmp_path):
    assert [record["data_name"] for record in outcome.records] == list(scaling.SHAPES)
    built = build([{**record, "scale": "tiny"} for record in outcome.records])
    assert list(built.figures) == ["figure-5"]
    save_figure(built.figures["figure-5"], tmp_path / "figure.png")
    html = built.html
    assert "Figure 5: more machines" in html
    assert "simulated" in html


def test_measured_points_are_full_and_simulated_ones_hollow():
    links = {scaling.ENGINE: {1: 2.0, 8: 2.1, 128: 2.3}, "10 Gb/s": {1: 2.0, 8: 2.0, 128: 2.1}}
    [panel] = scaling_figures.figure5([made(links=links)]).axes
    ideal, engine, stated, measured = panel.lines
    assert ideal.get_ydata().tolist() == [2.0, 2.0]
    assert measured.get_xydata().tolist() == [[1, 2.0], [2, 2.1]]
    assert measured.get_linestyle() == "None"
    for line in (engine, stated):
        assert line.get_markerfacecolor() == "white"
        assert line.get_linestyle() == "--"
    assert engine.get_color() != stated.get_color() != measured.get_color()


def test_the_table_has_a_row_for_every_point_and_network():
    table = scaling_figures.table([made()])
    assert [row[4] for row in table["rows"]] == [*["measured"] * 2, *["simulated"] * 4, "measured"]
    assert {len(row) for row in table["rows"]} == {len(table["head"])}
    assert scaling_figures.CLAIM in page.PAGE.claims
