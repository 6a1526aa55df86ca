"""The figure of an automatic model shows what its attributes say."""

import numpy as np
import pandas as pd
import pytest

from mercer import AutoKernelClassifier, AutoKernelRegressor, plots
from mercer.auto.columns import COLUMNS
from mercer.auto.course import MORE_ROWS
from mercer.auto.ledger import trials_of
from mercer.auto.own_loss import STAGE
from mercer.auto.rungs import ALL_ROWS, FEATURES, IDENTITIES, LANDMARKS, LEAVES, RUNGS
from mercer.plots import choice


@pytest.fixture(scope="module")
def model():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(300, 5)), columns=list("abcde"))
    return AutoKernelRegressor(random_state=0).fit(X, np.sin(2 * X["d"]) + 0.2 * X["a"])


def test_inputs_are_sorted_by_their_shares_and_named(model):
    axes = plots.choice_figure(model, n_inputs=3).axes[0]
    names = [label.get_text() for label in axes.get_yticklabels()]
    widths = [bar.get_width() for bar in axes.patches]
    assert names[0] == "d"
    assert len(names) == 3
    np.testing.assert_allclose(widths, np.sort(model.input_shares_)[::-1][:3])
    assert "2 more inputs" in axes.texts[0].get_text()


def test_every_group_shows_its_least_loss_of_every_stage(model):
    axes = plots.choice_figure(model).axes[1]
    marks = {c.get_label(): c.get_offsets() for c in axes.collections}
    results = model.search_results_
    for stage, name in (("rung 1", "stage 1"), ("rung 2", "stage 2")):
        shown, losses = marks[name][:, 0], results["loss"][results["stage"] == stage]
        assert shown.min() == losses.min()
        assert set(shown) <= set(losses)
    assert marks["chosen"][0, 0] == results["loss"][results["chosen"]][0]
    (label,) = [axes.get_yticklabels()[int(marks["chosen"][0, 1])].get_text()]
    assert label.startswith(model.best_settings_["kernel"])


def test_work_without_a_trial_is_no_group(model):
    results = model.search_results_
    assert np.isnan(results["loss"]).any()
    groups = plots.SearchDisplay(results).groups
    assert groups == plots.SearchDisplay(trials_of(results)).groups
    stages = {stage for found in groups.values() for stage in found}
    assert stages == {"rung 1", "rung 2", "rung 3"}


def test_many_inputs_and_few_rows_can_be_drawn(tmp_path):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(20, 60))
    model = AutoKernelClassifier(random_state=0).fit(X, np.arange(20) % 2)
    plots.save_figure(plots.choice_figure(model), tmp_path / "choice.png")
    assert (tmp_path / "choice.png").stat().st_size > 1000


@pytest.mark.parametrize("other", [AutoKernelRegressor(), object()])
def test_something_else_gets_a_sentence(other):
    with pytest.raises(TypeError, match=r"must be a fitted AutoKernelClassifier"):
        plots.choice_figure(other)


def test_every_stage_of_a_search_has_a_mark():
    rungs = *RUNGS, ALL_ROWS, LEAVES, FEATURES, LANDMARKS, COLUMNS, IDENTITIES
    assert {rung.name for rung in rungs} | {STAGE, *MORE_ROWS} == set(choice._STAGES)
