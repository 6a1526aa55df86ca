"""``mercer fit``: scorers with a positive class, weights of classes, folds, interruptions."""

import json
import os
import signal
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import average_precision_score, f1_score, roc_auc_score
from typer.testing import CliRunner

from _faults import start
from mercer import AutoKernelClassifier, KernelClassifier, KernelRegressor, persistence
from mercer.auto.tuning import TUNING
from mercer.cli import options
from mercer.cli.app import app
from mercer.cli.options import say, waiting
from mercer.cli.scorers import OfPositive, class_weight_of, positive_scorer

HOW = ("--map", "fourier", "--n-components", "10")


@pytest.fixture(autouse=True)
def _at_work(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(TUNING, "powers", {"laplacian": (0.0,), "gaussian": ()})


@pytest.fixture
def table(tmp_path):
    """Rows of two, and of three, classes of texts, and numbers."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (120, 2)).round(4)
    frame = pd.DataFrame(X, columns=["a", "b"])
    frame["two"] = np.where(X[:, 0] + 0.3 * rng.normal(size=120) > 0.3, "yes", "no")
    frame["three"] = np.array(["hi", "lo", "mid"])[np.digitize(X[:, 1], [-0.3, 0.3])]
    frame["price"] = X[:, 0] + X[:, 1] ** 2
    frame["group"] = np.arange(120) % 4
    frame.to_csv(tmp_path / "t.csv", index=False)
    return frame


def run(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def fit(target, *more):
    others = {"two", "three", "price", "group"} - {target, *more}
    return run("fit", "t.csv", "--target", target, "--drop", ",".join(others), *more, "--out", "m")


@pytest.fixture
def model(table):
    X, y = table[["a", "b"]].to_numpy(), table["two"].to_numpy()
    return KernelClassifier(n_components=10, loss="logistic", random_state=0).fit(X, y)


@pytest.mark.parametrize("positive", ["yes", "no"])
@pytest.mark.parametrize("name", ["f1", "average_precision", "roc_auc", "neg_brier_score"])
def test_a_positive_class_is_that_of_the_metric(name, positive, table, model):
    X, y = table[["a", "b"]].to_numpy(), table["two"].to_numpy()
    place = model.classes_.tolist().index(positive)
    proba, is_positive = model.predict_proba(X)[:, place], y == positive
    expected = {
        "f1": f1_score(y, model.predict(X), pos_label=positive),
        "average_precision": average_precision_score(is_positive, proba),
        "roc_auc": roc_auc_score(is_positive, proba),
        "neg_brier_score": -np.mean((proba - is_positive) ** 2),
    }
    assert OfPositive(name, positive)(model, X, y) == pytest.approx(expected[name])


def test_one_class_of_three_is_scored_against_the_others(table):
    X, y = table[["a", "b"]].to_numpy(), table["three"].to_numpy()
    model = KernelClassifier(n_components=10, loss="multinomial", random_state=0).fit(X, y)
    expected = roc_auc_score(y == "mid", model.decision_function(X)[:, 2])
    assert OfPositive("roc_auc", "mid")(model, X, y) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("name", "target", "message"),
    [
        ("average_precision", "two", "needs a positive class; name .* --positive, one of no, yes"),
        ("f1", "two", "needs a positive class"),
        ("f1", "three", "needs two classes and the target has 3; write f1_macro or f1_weighted"),
        (
            "roc_auc",
            "three",
            ".*; write roc_auc_ovr or roc_auc_ovo, or name the",
        ),
        ("r2", "two", "does not score classes; accuracy, balanced_accuracy"),
        ("f1", "price", "does not score numbers"),
    ],
)
def test_a_score_that_does_not_serve_names_one_that_does(name, target, message, table):
    y = table[target].to_numpy()
    task = "regression" if target == "price" else "classification"
    with pytest.raises(ValueError, match=f"--scoring {name} {message}"):
        positive_scorer(name, None, y, task)


def test_scores_of_scikit_learn_that_serve_stay_as_they_are(table):
    for name in ("accuracy", "roc_auc", "balanced_accuracy", "neg_log_loss", "f1_macro"):
        assert positive_scorer(name, None, table["two"].to_numpy(), "classification") == name
    for name in ("r2", "neg_mean_absolute_error"):
        assert positive_scorer(name, None, table["price"].to_numpy(), "regression") == name
        several = table[["price", "a"]].to_numpy()
        assert positive_scorer(name, None, several, "regression") == name
    assert positive_scorer("f1", None, np.arange(20) % 2, "classification") == "f1"


@pytest.mark.parametrize(
    ("text", "labels", "expected"),
    [
        ("balanced", ["a", "b"], "balanced"),
        ("a=1, b=5.5", ["a", "b"], {"a": 1.0, "b": 5.5}),
        ('{"a": 2}', ["a", "b"], {"a": 2.0}),
        ('"x,y=z=3"', ["x,y=z", "b"], {"x,y=z": 3.0}),
        ("0=1,1=3", [0, 1], {0: 1.0, 1: 3.0}),
        ("1=3", [0.0, 1.0], {1.0: 3.0}),
        ("True=3", [True, False], {True: 3.0}),
    ],
)
def test_weights_of_classes_are_read_by_the_text_of_a_label(text, labels, expected):
    assert class_weight_of(text, np.array(labels), "classification") == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("heavy", "must be balanced, label=weight with commas between, or a JSON object"),
        ("{1", "must be balanced"),
        ("a=much", "must be balanced"),
        ("c=1", "must name classes, a, b; got 'c'"),
        ("a=-1", "must hold finite numbers of at least 0; got -1.0"),
        ("a=nan", "must hold finite numbers"),
        ("a=0", "must be positive for at least two classes"),
    ],
)
def test_weights_of_classes_that_make_no_sense_are_one_sentence(text, message):
    with pytest.raises(ValueError, match=f"^--class-weight {message}"):
        class_weight_of(text, np.array(["a", "b"]), "classification")
    with pytest.raises(ValueError, match="needs a target of classes"):
        class_weight_of(text, np.arange(9.0), "regression")


def test_class_weights_and_a_positive_class_reach_a_fit_and_its_file(table):
    more = ("--class-weight", "no=1,yes=3", "--scoring", "f1", "--positive", "yes", "--json")
    done = fit("two", *more)
    assert done.exit_code == 0, done.output
    summary = json.loads(done.stdout)
    saved = persistence.load_saved("m")
    assert saved.model.class_weight == {"no": 1.0, "yes": 3.0}
    assert saved.settings["class_weight"] == {"no": 1.0, "yes": 3.0}
    assert (saved.settings["scoring"], saved.settings["positive"]) == ("f1", "yes")
    X = table[["a", "b"]]
    expected = f1_score(table["two"], saved.model.predict(X), pos_label="yes")
    assert summary["score"]["f1"] == pytest.approx(expected)


@pytest.mark.parametrize(("target", "name"), [("two", "accuracy"), ("price", "r2")])
def test_folds_give_a_mean_and_its_standard_error(target, name, table):
    done = fit(target, *HOW, "--cv", 4)
    assert done.exit_code == 0, done.output
    line = next(line for line in done.stdout.splitlines() if "4-fold" in line)
    assert line.startswith(f"{name} 0.")
    found = json.loads(fit(target, *HOW, "--cv", 4, "--json").stdout)["cv"]
    assert len(found["scores"]) == 4
    assert found["mean"] == pytest.approx(np.mean(found["scores"]))
    assert found["standard_error"] == pytest.approx(np.std(found["scores"], ddof=1) / 2)
    assert f"{found['mean']:.4f} ± {found['standard_error']:.4f}" in line


def test_folds_keep_groups_together_and_take_weights(table, monkeypatch):
    met = []

    def score(self, X, y, sample_weight=None):
        met.append(set(np.asarray(y)))
        return 1.0

    monkeypatch.setattr(AutoKernelClassifier, "score", score)
    done = fit("two", "--groups", "group", "--cv", 3, "--time-budget", 2)
    assert done.exit_code == 0, done.output
    assert len(met) == 3
    done = fit("two", "--groups", "group", "--cv", 5)
    assert done.exit_code == 1
    assert done.stderr.splitlines()[-1].endswith("at most the number of groups, 4; got 5.")


def test_rows_of_a_cross_validation_are_told_as_such(table):
    done = fit("two")
    assert "on 120 rows by cross-validation in the search" in done.stdout


def test_equal_warnings_are_told_once(table, monkeypatch):
    original = KernelRegressor.fit

    def warn(self, X, y):
        for text in ("first", "second", "first"):
            warnings.warn(text, UserWarning, stacklevel=1)
        return original(self, X, y)

    monkeypatch.setattr(KernelRegressor, "fit", warn)
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        said = fit("price", *HOW).stderr
    assert said.count("mercer: warning: first") == said.count("mercer: warning: second") == 1


def test_messages_below_a_spinner_are_printed_by_its_console(monkeypatch):
    from rich.console import Console

    with open("said.txt", "w") as file:
        console = Console(file=file, force_terminal=True)
        monkeypatch.setattr(options, "_console", lambda stderr=False: console)
        with waiting("fitting"):
            monkeypatch.setattr(options, "_console", None)  # no other one is made
            say("a warning")
    assert "a warning\n" in Path("said.txt").read_text()


# -- interruptions ------------------------------------------------------------------------------


def test_an_interrupted_fit_of_plain_settings_writes_its_model(table, monkeypatch):
    original = KernelRegressor.fit

    def stop(self, X, y):
        original(self, X, y)
        raise KeyboardInterrupt

    monkeypatch.setattr(KernelRegressor, "fit", stop)
    done = fit("price", *HOW)
    assert done.exit_code == 130
    assert "wrote m, the model as far as the fit was when it was interrupted" in done.stderr
    assert np.isfinite(persistence.load("m").predict(table[["a", "b"]].to_numpy())).all()


@pytest.mark.skipif(os.name != "posix", reason="sends signals of POSIX")
def test_the_second_signal_ends_a_command_that_goes_on_after_the_first(table, monkeypatch):
    went_on = []

    def fit_on(self, X, y):
        for _ in range(2):
            try:
                os.kill(os.getpid(), signal.SIGTERM)
                time.sleep(5)
            except KeyboardInterrupt:
                went_on.append(True)
        raise AssertionError

    monkeypatch.setattr(KernelRegressor, "fit", fit_on)
    done = fit("price", *HOW)
    assert went_on == [True]
    assert done.exit_code == 143
    assert done.stderr.splitlines()[-1].startswith("mercer: terminated")
    assert not Path("m").exists()


@pytest.mark.skipif(os.name != "posix", reason="sends signals of POSIX")
def test_one_sigterm_in_an_automatic_fit_leaves_a_model(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(8000, 4))
    frame = pd.DataFrame(X, columns=list("abcd")).assign(y=np.sin(2 * X[:, 0]) + X[:, 1] ** 2)
    frame.to_csv("big.csv", index=False)
    child = start(tmp_path, ("fit", "big.csv", "--target", "y", "--out", "m.skops", "-v"))
    for line in child.stderr:
        if "Rung 1" in line:  # two more stages and the final fit are still to come
            break
    child.send_signal(signal.SIGTERM)
    _, said = child.communicate(timeout=100)
    assert child.returncode == 143, said
    assert "wrote m.skops, the model as far as the fit was" in said
    assert np.isfinite(persistence.load("m.skops").predict(frame[list("abcd")])).all()
