"""The figure of a fit's bins shows what its statistics say."""

import numpy as np
import pytest

from mercer import KernelRegressor, plots
from mercer.maps import RandomBinning
from mercer_studies.random_binning.bin_sizes import CollisionsDisplay, collisions_figure
from mercer_studies.random_binning.collisions import collisions


def found(gamma=0.5, X=None, new=None):
    X = np.random.default_rng(0).normal(size=(200, 2)) if X is None else X
    map_ = RandomBinning(gamma=gamma, n_components=16, random_state=0).fit(X)
    return collisions(map_, new)


def lines(axes):
    return {line.get_label(): line for line in axes.lines}


def test_bins_are_counted_by_the_rows_they_hold_at_least():
    shown = found()
    (curve, _) = collisions_figure(shown).axes[0].lines
    sizes, many = curve.get_xdata()[:-1], curve.get_ydata()[:-1]
    np.testing.assert_array_equal(sizes, shown.occupancy.counts)
    assert many[0] == shown.n_columns
    assert many[-1] == shown.occupancy.n_bins[-1]


def test_the_speedup_lies_below_the_ideal_and_its_cap():
    shown = found()
    axes = collisions_figure(shown).axes[1]
    sure = lines(axes)["sure: S(τ)"]
    threads, values = sure.get_xdata(), sure.get_ydata()
    np.testing.assert_array_equal(values, shown.speedup(threads))
    assert (values <= np.minimum(threads, shown.kappa_bar) + 1e-9).all()
    assert f"cap: κ̄ = {shown.kappa_bar:.4g}" in lines(axes)
    assert axes.get_ylim()[1] > shown.kappa_bar


def test_the_title_says_what_new_rows_lack_if_that_is_known():
    new = np.random.default_rng(1).normal(size=(50, 2))
    assert "new rows" in collisions_figure(found(new=new)).get_suptitle()
    assert "new rows" not in collisions_figure(found()).get_suptitle()


@pytest.mark.parametrize(("gamma", "n"), [(1e-9, 5), (1e9, 5), (1.0, 1)])
def test_extreme_fits_can_be_drawn(gamma, n, tmp_path):
    X = np.random.default_rng(0).normal(size=(n, 2))
    plots.save_figure(collisions_figure(found(gamma, X)), tmp_path / "bins.png")
    assert (tmp_path / "bins.png").stat().st_size > 1000


def test_the_display_has_the_sizes_or_the_speedups():
    display = CollisionsDisplay(found()).plot()
    assert display.ax_.get_xlabel() == "rows in a bin"
    assert "updates" in display.plot(kind="speedups").ax_.get_xlabel()
    with pytest.raises(ValueError, match="kind must be one of"):
        display.plot(kind="other")


def test_figure_of_something_else_is_refused_with_the_function_that_makes_it():
    with pytest.raises(TypeError, match=r"random_binning.collisions returns; got KernelRegressor."):
        collisions_figure(KernelRegressor("binning"))
