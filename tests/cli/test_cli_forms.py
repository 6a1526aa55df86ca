"""``mercer fit`` delivers every form of automatic model: report, scores and predictions follow."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from mercer import persistence
from mercer.auto import MeanClassifier, MeanRegressor, base, search
from mercer.auto.targets import LogTargetRegressor
from mercer.auto.tuning import TUNING
from mercer.cli.app import app
from mercer.estimators import local
from mercer.maps import ExactKernel, LocalKernel

pytest.importorskip("matplotlib")


@pytest.fixture(autouse=True)
def quick(tmp_path, monkeypatch):
    """Few candidates of a search, in an empty folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(TUNING, "powers", {"laplacian": (0.0,), "gaussian": ()})


def with_partner(monkeypatch, partner):
    """Let the search end with the second treatment that a function of the first returns."""
    plain = base.AutoKernelMachine._fit_finally

    def fit_finally(self, X, y, search, *args):
        search.partner = partner(search.settings)
        return plain(self, X, y, search, *args)

    monkeypatch.setattr(base.AutoKernelMachine, "_fit_finally", fit_finally)


def exact(monkeypatch):
    pass


def features(monkeypatch):
    monkeypatch.setattr(TUNING, "most_dense", 1)  # inputs; the table has two


def small_leaves(monkeypatch, partner=lambda settings: None):
    monkeypatch.setattr(TUNING, "exact_rows", 150)
    monkeypatch.setattr(TUNING, "leaf_rows", (60, 60))
    monkeypatch.setattr(TUNING, "many_scale_rows", 150)
    with_partner(monkeypatch, partner)


def mean_of_two(monkeypatch):
    small_leaves(monkeypatch, lambda settings: replace(settings, numbers="quantile"))


def interrupted_search(monkeypatch):
    def interrupts(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(search.Search, "_try", interrupts)


def interrupted_leaves(monkeypatch):
    """The last fit ends after some of its trees."""
    small_leaves(monkeypatch)
    plain = local.solve_leaves

    def interrupts(map_, *args, **more):
        solution = plain(map_, *args, **more)
        return replace(solution, interrupted=True)

    monkeypatch.setattr(local, "solve_leaves", interrupts)


FORMS = {
    "exact": exact,
    "features": features,
    "leaves": small_leaves,
    "mean": mean_of_two,
    "interrupted search": interrupted_search,
    "interrupted leaves": interrupted_leaves,
}


def table(n=240):
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, size=(n, 2))
    y = np.sin(2 * X[:, 0]) + X[:, 1]
    frame = pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "y": y, "factor": np.exp(3 * y)})
    frame["kind"] = np.where(y > 0, "high", "low")
    frame.to_csv("t.csv", index=False)


def mercer(*arguments, code=0):
    done = CliRunner().invoke(app, list(arguments))
    assert done.exit_code == code, done.output
    return done


def delivered(target, *more, code=0):
    """Fit, report, show and predict; the summary of the fit and the model."""
    table()
    others = ",".join({"y", "factor", "kind"} - {target})
    command = ["fit", "t.csv", "--target", target, "--drop", others, *more]
    told = mercer(*command, "--out", "m.skops", "--report", "m.html", code=code).output
    assert "wrote m.skops" in told
    summary = json.loads(mercer(*command, "--out", "j.skops", "--json", code=code).stdout)
    assert "score" in summary
    assert "What was chosen" in Path("m.html").read_text("utf-8")
    mercer("predict", "m.skops", "t.csv", "--out", "p.csv")
    assert len(pd.read_csv("p.csv")) == 240
    return told, summary, persistence.load("m.skops")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("target", ["y", pytest.param("kind", marks=pytest.mark.slow)])
@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_automatic_model_is_fitted_told_and_reported(form, target, monkeypatch):
    FORMS[form](monkeypatch)
    code = 130 if form.startswith("interrupted") else 0
    told, summary, model = delivered(target, code=code)
    assert model.interrupted_ == summary["interrupted"] == form.startswith("interrupted")
    is_local = form in ("leaves", "mean", "interrupted leaves")
    map_ = model.kernel_machine_.feature_map_
    assert isinstance(map_, LocalKernel) == is_local
    assert isinstance(map_, ExactKernel) == (form == "exact")
    assert isinstance(model.best_estimator_, (MeanRegressor, MeanClassifier)) == (form == "mean")
    assert (" leaves in " in told) == is_local
    assert ("exact kernel of " in told) == (form == "exact")
    assert (" features in " in told) == (not is_local and form != "exact")
    assert "None" not in told


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("form", ["exact", "leaves", "mean"])
def test_models_of_logarithms_are_told_in_every_form(form, monkeypatch):
    FORMS[form](monkeypatch)
    told, summary, model = delivered("factor")
    assert isinstance(model.best_estimator_, LogTargetRegressor)
    assert summary["chosen"]["transform"] == "log"
    assert "logarithms of the target" in told


def test_a_short_time_budget_ends_in_a_model_that_is_told():
    told, summary, _ = delivered("y", "--time-budget", "0.05")
    assert "wrote m.skops" in told
    assert summary["settings"]["time_budget"] == 0.05
