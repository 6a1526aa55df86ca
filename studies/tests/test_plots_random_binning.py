"""The figures of the random binning paper show the records, and say what they show."""

from __future__ import annotations

import copy
import json

import numpy as np
import pytest

import _records as made
from mercer.plots import save_figure
from mercer_studies import panels
from mercer_studies import queries as readings
from mercer_studies.random_binning import figures as random_binning

STUDY = made.study()


def curves(axes, colour):
    return [line for line in axes.lines if line.get_color() == colour]


def test_best_by_size_picks_gamma_anew_for_every_size():
    runs = [
        made.record(size=size, gamma=gamma, test=error)
        for size, gamma, error in ((8, 1.0, 0.3), (8, 2.0, 0.2), (16, 1.0, 0.1), (16, 2.0, 0.15))
    ]
    assert {R: run["gamma"] for R, run in readings.best_by_size(runs).items()} == {8: 2.0, 16: 1.0}


def test_luck_of_a_seed_is_not_picked_as_published():
    runs = [made.record(seed=0, test=0.2), made.record(seed=1, test=0.1)]
    assert [run["seed"] for run in readings.select(runs, protocol="published")] == [0]
    assert len(readings.select(runs)) == 2


def test_failed_runs_are_not_read():
    failed = {"method": "exact", "protocol": "published", "figures": [5], "failed": "no memory."}
    assert readings.select([failed, made.record()]) == [made.record()]


def test_exact_kernel_is_the_best_on_the_most_rows():
    few = made.record("exact", size=None, test=0.01, rows=10)
    many = [made.record("exact", size=None, test=test, rows=20) for test in (0.3, 0.2)]
    assert readings.exact_kernel([few, *many]) == many[1]


def test_figure_2_shows_every_one_of_z():
    example = made.example(rows=30, grids=4, bins=5)
    left, right = random_binning.figure2([example]).axes[:2]
    points = left.collections[0].get_offsets()
    assert sorted(points[:, 0]) == sorted(np.ravel(example["example"]["indices"]))
    image = np.asarray(right.images[0].get_array())
    assert np.array_equal(np.diag(image), np.ones(30))
    assert np.array_equal(image, image.T)


def test_figure_3_marks_the_best_gamma_and_the_exact_kernel():
    figure = random_binning.figure3(STUDY)
    upper, lower = figure.axes[0], figure.axes[2]
    [best] = [line for line in upper.lines if line.get_marker() == "s"]
    assert best.get_xdata() == [1.12]
    [across] = [line for line in upper.lines if line.get_linestyle() == "-."]
    assert across.get_ydata()[0] == pytest.approx(2.2)
    assert upper.get_xscale() == lower.get_yscale() == "log"
    assert "128 grids" in lower.get_xlabel()


def test_figure_3_shows_test_and_training_errors_in_per_cent():
    runs = [
        made.record(gamma=gamma, test=gamma / 10, train=gamma / 20, size=8) for gamma in (1.0, 2.0)
    ]
    upper = random_binning.figure3(runs).axes[0]
    shown = {tuple(line.get_ydata()) for line in upper.lines if len(line.get_xdata()) == 2}
    assert {tuple(np.round(ys, 6)) for ys in shown} >= {(10.0, 20.0), (5.0, 10.0)}


def test_figure_4_has_a_curve_for_each_gamma_up_to_seven():
    def drawn(gammas):
        runs = [made.record(size=R, gamma=gamma) for R in (8, 16) for gamma in gammas]
        figure = random_binning.figure4(runs)
        return [text.get_text() for text in figure.axes[1].get_legend().get_texts()]

    assert drawn((0.5, 1.0)) == ["0.5", "1"]
    many = drawn(np.arange(1.0, 20.0))
    assert len(many) == 7
    assert (many[0], many[-1]) == ("1", "19")


def test_figure_4_draws_a_perfect_training_part_at_half_a_row():
    runs = [made.record(size=size, train=0.0) for size in (8, 16)]
    axes = random_binning.figure4(runs).axes[1]
    assert {value for line in axes.lines for value in line.get_ydata()} == {0.05}


@pytest.mark.parametrize("protocol", ["published", "fair"])
def test_figure_5_has_a_row_of_four_panels_for_each_data_set(protocol):
    figure = random_binning.figure5(STUDY, protocol=protocol)
    assert len(figure.axes) == 8
    colour = random_binning.STYLE["fourier"][0]
    assert all(curves(axes, colour) for axes in figure.axes)
    assert [axes.get_xlabel() for axes in figure.axes[:4]] == [
        "components R",
        "components R",
        "training time, s",
        "numbers stored per row",
    ]


def test_figure_5_on_equal_terms_shows_means_and_deviations_over_seeds():
    runs = [
        made.record(size=8, test=test, seed=seed, protocol="fair")
        for seed, test in enumerate((0.1, 0.3))
    ]
    axes = random_binning.figure5(runs, protocol="fair").axes[0]
    [line] = [line for line in axes.lines if len(line.get_xdata()) == 1]
    assert line.get_ydata() == pytest.approx([20.0])
    [bar] = axes.collections
    low, high = bar.get_segments()[0][:, 1]
    assert high - low == pytest.approx(2 * 100 * np.std([0.1, 0.3], ddof=1))


def test_figure_5_with_one_run_alone_can_be_drawn(tmp_path):
    save_figure(random_binning.figure5([made.record("fourier")]), tmp_path / "a.png")
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    "draw", [random_binning.figure3, random_binning.figure4, random_binning.figure5]
)
def test_authors_points_are_drawn_beside_the_same_data_alone(draw):
    theirs = [
        {**run, "figures": [3, 4, 5], "score": copy.deepcopy(run["score"])}
        for run in made.sweep(made.data("toy"))
    ]

    def points(kind):
        panels = draw(made.sweep(made.data("toy", kind=kind)), theirs).axes
        return sum(len(line.get_xdata()) for axes in panels for line in axes.lines)

    assert points("whole") == points("sample") > points("stand-in")
    assert points("stand-in") == points("generated")


@pytest.mark.parametrize(("kind", "named"), [("whole", True), ("stand-in", False)])
@pytest.mark.parametrize(
    "draw", [random_binning.figure3, random_binning.figure4, random_binning.figure5]
)
def test_key_names_the_authors_where_their_points_are_drawn(draw, kind, named):
    theirs = made.sweep()
    figure = draw(made.sweep(made.data("toy", kind=kind)), theirs)
    keys = [text.get_text() for legend in figure.legends for text in legend.get_texts()]
    assert any("the authors'" in key for key in keys) == named


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("whole", "1\N{THIN SPACE}000 training rows"),
        ("sample", "a sample of covtype, 1\N{THIN SPACE}000 training rows"),
        ("stand-in", "a stand-in for covtype, 1\N{THIN SPACE}000 training rows"),
        ("generated", "generated, 1\N{THIN SPACE}000 training rows"),
    ],
)
def test_every_panel_says_what_its_data_are(kind, said):
    about = made.data("forest", kind=kind, stand_in_for="covtype")
    for draw in (random_binning.figure3, random_binning.figure4, random_binning.figure5):
        axes = draw([made.record(data=about)]).axes[0]
        assert axes.get_title(loc="left") == "forest"
        assert said in [text.get_text() for text in axes.texts]


def test_panels_say_on_how_few_rows_the_exact_kernel_was_fitted():
    records = [made.record(), made.record("exact", size=None, rows=80)]
    for draw in (random_binning.figure3, random_binning.figure5):
        said = [text.get_text() for text in draw(records).axes[0].texts]
        assert any("exact: 80" in text for text in said)


def test_narrow_logarithmic_axes_have_ticks_enough():
    figure, axes = panels.grid(1, 1)
    axes[0, 0].plot([1, 2], [24.0, 30.0])
    panels.log_axis(axes[0, 0].yaxis, [24.0, 30.0])
    low, high = axes[0, 0].get_ylim()
    assert sum(low <= tick <= high for tick in axes[0, 0].get_yticks()) >= 3
    figure.canvas.draw()


@pytest.mark.parametrize(
    "draw",
    [
        random_binning.figure2,
        random_binning.figure3,
        random_binning.figure4,
        random_binning.figure5,
        lambda records: random_binning.figure5(records, protocol="fair"),
    ],
)
def test_no_run_of_a_figure_is_an_error(draw):
    with pytest.raises(ValueError, match="records must hold"):
        draw([made.record(figures=[])])


def test_records_read_from_json_give_the_same_figure(tmp_path):
    for name, records in (("a", STUDY), ("b", json.loads(json.dumps(STUDY)))):
        save_figure(random_binning.figure3(records), tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_key_of_a_single_data_set_stays_within_the_figure():
    figure = random_binning.figure3(made.sweep(), made.sweep())
    figure.canvas.draw()
    box = figure.legends[0].get_window_extent()
    assert 0 <= box.x0 < box.x1 <= figure.bbox.width


def test_one_column_is_no_overlap_of_ticks():
    figure, axes = panels.grid(1, 1)
    panels.size_axis(axes[0, 0], range(1, 40))
    assert len(axes[0, 0].get_xticks()) <= 8
    assert figure.axes == [axes[0, 0]]


def test_key_of_figure_5_shows_the_line_and_the_star_of_the_exact_kernel():
    [legend] = random_binning.figure5(STUDY).legends
    [key] = [line for line in legend.legend_handles if line.get_label() == "exact kernel"]
    assert (key.get_linestyle(), key.get_marker()) == ("-.", "*")
