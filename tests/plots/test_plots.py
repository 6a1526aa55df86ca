"""Figures come from records alone."""

from __future__ import annotations

import json
import sys

import pytest

from mercer import plots
from mercer.plots import base

DATA = {"name": "toy", "task": "classification", "n_train": 900, "n_test": 100, "d": 4}


def fit(method, size, score, seconds, data=DATA):
    return {
        "method": method,
        "label": method.title(),
        "size": size,
        "data": data,
        "score": score,
        "seconds": {"fit": seconds},
    }


def fits():
    return [
        fit("linear", None, {"accuracy": 0.7}, 0.01),
        fit("binning", 64, {"accuracy": 0.95}, 0.1),
        fit("binning", 16, {"accuracy": 0.9}, 0.02),
        fit("exact", None, {"accuracy": 0.97}, 9.0),
        fit("stranger", 8, {"accuracy": 0.6}, 1.0),
    ]


def test_every_method_has_a_colour_and_mark_of_its_own():
    assert len({*base.STYLE.values(), *base.OTHERS}) == len(base.STYLE) + len(base.OTHERS)
    names = ["auto", "lightgbm", "xgboost", "catboost", "mine", "yours"]
    records = [dict(fits()[0], method=name, label=name) for name in names]
    lines = plots.compare_figure(records).axes[0].lines
    assert len({(line.get_color(), line.get_marker()) for line in lines}) == len(names)


def test_figure_has_a_curve_for_each_method_in_order_of_size():
    axes = plots.compare_figure(fits()).axes[0]
    curves = {line.get_label(): line for line in axes.lines}
    assert list(curves) == ["Linear", "Binning", "Exact", "Stranger"]
    assert curves["Binning"].get_xdata().tolist() == [0.02, 0.1]
    assert curves["Binning"].get_ydata().tolist() == [0.9, 0.95]
    assert curves["Linear"].get_linestyle() == "None"


def test_figure_says_what_it_shows():
    axes = plots.compare_figure(fits()).axes[0]
    assert axes.get_xscale() == "log"
    assert "seconds" in axes.get_xlabel()
    assert axes.get_ylabel() == "test accuracy"
    title = axes.get_title(loc="left")
    assert "toy" in title
    assert "900" in title
    assert {text.get_text() for text in axes.texts} >= {"16", "64"}


@pytest.mark.parametrize(
    ("kind", "said"), [("sample", "a sample of big"), ("stand-in", "a stand-in for big")]
)
def test_figure_of_a_part_says_so(kind, said):
    data = {**DATA, "kind": kind, "stand_in_for": "big"}
    record = fit("linear", None, {"accuracy": 0.7}, 0.01, data)
    assert said in plots.compare_figure([record]).axes[0].get_title(loc="left")


@pytest.mark.parametrize("values", [[1.0], [0.0, 1.0], [0.5, 0.5], [0.999, 1.0], [0.0]])
def test_figure_of_any_accuracies_shows_all_of_them(values):
    found = [fit("binning", 2**i, {"accuracy": v}, 0.1 + i) for i, v in enumerate(values)]
    figure = plots.compare_figure(found)
    figure.canvas.draw()
    bottom, top = figure.axes[0].get_ylim()
    assert all(bottom < value < top or value == 1 for value in values)


def test_figure_of_a_regression_shows_the_error():
    record = fit("linear", None, {"relative_rmse": 0.5, "r2": 0.7}, 0.01)
    assert "error" in plots.compare_figure([record]).axes[0].get_ylabel()


def test_colours_and_marks_differ_between_methods():
    lines = plots.compare_figure(fits()).axes[0].lines
    assert len({line.get_color() for line in lines}) == len(lines)
    assert len({line.get_marker() for line in lines}) == len(lines)


def test_records_read_from_json_give_the_same_figure(tmp_path):
    again = json.loads(json.dumps(fits()))
    first, second = tmp_path / "a.png", tmp_path / "b.png"
    plots.save_figure(plots.compare_figure(fits()), first)
    plots.save_figure(plots.compare_figure(again), second)
    assert first.read_bytes() == second.read_bytes()
    assert first.read_bytes().startswith(b"\x89PNG")


def test_drawing_leaves_no_global_state():
    def of_pyplot():
        pyplot = sys.modules.get("matplotlib.pyplot")
        return [] if pyplot is None else pyplot.get_fignums()

    before = of_pyplot()
    plots.compare_figure(fits())
    assert of_pyplot() == before


def test_no_record_is_an_error():
    with pytest.raises(ValueError, match="at least one fit"):
        plots.compare_figure([])


def test_failed_drawing_leaves_no_file(tmp_path, monkeypatch):
    figure = plots.compare_figure(fits())

    def fail(file, **_):
        file.write(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(figure, "savefig", fail)
    with pytest.raises(OSError, match="No space left"):
        plots.save_figure(figure, tmp_path / "a.png")
    assert list(tmp_path.iterdir()) == []


def test_missing_matplotlib_is_one_sentence(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ImportError, match=r"pip install 'mercer\[cli\]'"):
        plots.compare_figure(fits())
