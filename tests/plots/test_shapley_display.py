"""Figures of Shapley values show the values of a result."""

import numpy as np
import pandas as pd
import pytest

from mercer import AutoKernelRegressor, KernelClassifier, KernelRegressor, plots
from mercer.explain import shapley_values
from mercer.plots.base import amount
from mercer.plots.shapley import _ranks

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")
from matplotlib import pyplot  # noqa: E402


@pytest.fixture(autouse=True)
def _no_figures_stay():
    yield
    pyplot.close("all")


@pytest.fixture(scope="module")
def values():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(150, 3)), columns=["own", "partner", "idle"])
    y = X.own * (X.partner > 0) + 0.1 * X.partner
    model = KernelRegressor("exact", kernel="laplacian", alpha=1e-4).fit(X, y)
    return shapley_values(model, X)


def test_bars_are_mean_sizes(values):
    display = plots.ShapleyDisplay(values).bar(max_features=2)
    widths = [bar.get_width() for bar in display.artists_[0]]
    np.testing.assert_allclose(widths, np.sort(np.abs(values.values).mean(axis=0))[::-1][:2])


def test_points_are_the_values_of_every_row(values):
    display = plots.ShapleyDisplay(values).beeswarm()
    places = np.concatenate([points.get_offsets()[:, 0] for points in display.artists_])
    np.testing.assert_allclose(np.sort(places), np.sort(values.values.ravel()))
    heights = display.artists_[1].get_offsets()[:, 1]
    assert np.abs(heights).max() <= 0.5


def test_a_waterfall_ends_at_the_response(values):
    display = plots.ShapleyDisplay(values).waterfall(4, max_features=1)
    bars = list(display.artists_[0])
    assert len(bars) == 2
    end = float(values.base_values) + sum(bar.get_width() for bar in bars)
    assert end == pytest.approx(float(values.base_values + values.values[4].sum()))
    labels = [label.get_text() for label in display.ax_.get_yticklabels()]
    assert labels[0].startswith(f"{values.feature_names[np.abs(values.values[4]).argmax()]} = ")
    assert labels[1] == "2 other columns"


def test_the_partner_of_a_column_is_the_one_that_it_acts_with(values):
    display = plots.ShapleyDisplay(values).dependence("own")
    assert "partner" in display.ax_.get_xlabel()
    np.testing.assert_allclose(display.artists_[0].get_offsets()[:, 1], values.values[:, 0])


def test_the_partner_may_be_a_column_of_labels():
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"area": rng.uniform(20, 90, 300), "city": rng.choice(list("abc"), 300)})
    X["noise"] = rng.normal(size=300)
    target = X.area * (1 + (X.city == "b"))  # neither the first nor the last kind
    model = AutoKernelRegressor(random_state=0).fit(X, target)
    display = plots.ShapleyDisplay.from_estimator(model, X, kind="dependence", column="area")
    assert "city" in display.ax_.get_xlabel()


def test_ranks_are_of_numbers_labels_and_dates():
    np.testing.assert_array_equal(_ranks(np.array([3.0, np.nan, 1.0])), [1, np.nan, 0])
    np.testing.assert_array_equal(
        _ranks(np.array(["b", None, "a", "b"], dtype=object))[[0, 2]], [0.75, 0]
    )
    sizes = [f"{size} m²" for size in (5, 100, 20, *range(200, 210))]
    ranks = _ranks(np.array([*sizes, "big"], dtype=object))
    np.testing.assert_allclose(ranks[:3] * 12, [0, 2, 1])
    assert np.isnan(ranks[-1])
    days = np.array(["2020-01-02", "2020-01-01"], dtype="datetime64[D]")
    np.testing.assert_array_equal(_ranks(days), [1, 0])


def test_classes_are_drawn_one_at_a_time():
    X = np.random.default_rng(0).normal(size=(90, 2))
    model = KernelClassifier("exact").fit(X, np.digitize(X[:, 0], [-0.5, 0.5]))
    display = plots.ShapleyDisplay.from_estimator(model, X, output=2, kind="bar")
    assert display.explanation.unit == "decision function of 2"
    assert plots.ShapleyDisplay.from_estimator(model, X, kind="waterfall", row=3).artists_
    with pytest.raises(ValueError, match="one output and no interactions"):
        plots.ShapleyDisplay(shapley_values(model, X))
    with pytest.raises(ValueError, match="output must be one of"):
        plots.ShapleyDisplay.from_estimator(model, X, output=9)
    with pytest.raises(ValueError, match="kind must be"):
        plots.ShapleyDisplay.from_estimator(model, X, kind="pie")


def test_wrong_columns_and_rows_are_refused(values):
    display = plots.ShapleyDisplay(values)
    with pytest.raises(ValueError, match="column must be one of"):
        display.dependence("other")
    with pytest.raises(ValueError, match="row must be below 150"):
        display.waterfall(150)


def test_a_column_of_dates_has_dates_on_its_axis():
    days = pd.date_range("2020-01-01", periods=60, freq="20D")
    table = pd.DataFrame({"sold": days, "area": np.arange(60.0) % 7})
    y = 1e5 * np.arange(60.0) + 1e3 * table["area"].to_numpy()
    explained = shapley_values(AutoKernelRegressor(random_state=0).fit(table, y), table)
    axes = plots.ShapleyDisplay(explained).dependence("sold").ax_
    axes.figure.canvas.draw()
    assert {"2021", "2022"} <= {label.get_text() for label in axes.get_xticklabels()}


@pytest.mark.parametrize(
    ("value", "text"),
    [(117_400.0, "117 000"), (-9_284.0, "-9 280"), (0.01234, "0.0123"), (1e13, "1e+13")],
)
def test_amounts_have_no_exponent_up_to_billions(value, text):
    assert amount(value).replace("\N{THIN SPACE}", " ") == text


def test_a_waterfall_begins_at_the_base_of_its_row():
    rng = np.random.default_rng(0)
    X, offset = rng.normal(size=(60, 2)), np.linspace(3, 9, 60)
    model = KernelRegressor("exact").fit(X, X[:, 0] + offset, offset=offset)
    given = {"offset": offset[:5], "kind": "waterfall", "row": 4}
    display = plots.ShapleyDisplay.from_estimator(model, X[:5], **given)
    bars = display.artists_[0]
    end = bars[0].get_x() + sum(bar.get_width() for bar in bars)
    assert end == pytest.approx(model.predict(X[4:5], offset=offset[4:5])[0], rel=1e-5)
    assert "mean with offset" in display.ax_.get_xlabel()
