"""Models tell what they do: to the log, on stderr where they are verbose, and to callbacks."""

import logging
import pickle
import re
import threading

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import make_friedman1
from sklearn.model_selection import GridSearchCV

from mercer import (
    AutoKernelClassifier,
    AutoKernelRegressor,
    DualKernelSVC,
    KernelRegressor,
    LocalKernelRegressor,
    persistence,
)
from mercer._runtime import progress as _progress
from mercer.auto.ledger import trials_of
from mercer.auto.tuning import TUNING


@pytest.fixture(autouse=True)
def few_candidates(monkeypatch):
    monkeypatch.setattr(TUNING, "powers", {"laplacian": (1.0,), "gaussian": ()})
    monkeypatch.setattr(TUNING, "gammas", {"laplacian": (0.5, 2.0)})
    monkeypatch.setattr(TUNING, "folds", 2)


def of_scikit_learn(name):
    """A class of callbacks, which scikit-learn has since 1.9."""
    return getattr(pytest.importorskip("sklearn.callback"), name)


def rows(n=200, seed=0):
    return make_friedman1(n, 5, noise=0.5, random_state=seed)


STAGES = ["Rung 1", "Rung 2", "Rung 3"]


# --- lines ------------------------------------------------------------------------------------


def test_a_fit_without_listeners_says_nothing(capfd):
    AutoKernelRegressor(random_state=0).fit(*rows())
    assert capfd.readouterr() == ("", "")


def test_the_log_tells_stages_choice_form_and_end(caplog):
    with caplog.at_level(logging.INFO, "mercer"):
        model = AutoKernelRegressor(random_state=0).fit(*rows())
    lines = [record.getMessage() for record in caplog.records]
    assert [line.partition(":")[0] for line in lines[:3]] == STAGES
    assert all(re.search(r"\d+ settings tried on \d+ rows in [\d.]+ s; ", s) for s in lines[:3])
    assert lines[3].startswith("Chosen: the laplacian kernel, gamma ")
    assert lines[4] == "Final fit: the exact kernel machine of 200 rows."
    assert re.fullmatch(r"Done in [\d.]+ s, of which the search took [\d.]+ s\.", lines[5])
    assert len(lines) == 6
    tried = sum(int(re.search(r"(\d+) settings", line)[1]) for line in lines[:3])
    assert tried == len(trials_of(model.search_results_)["loss"])


def test_debug_tells_every_trial(caplog):
    with caplog.at_level(logging.DEBUG, "mercer"):
        model = AutoKernelClassifier(random_state=0).fit(rows()[0], rows()[1] > 14)
    trials = [r.getMessage() for r in caplog.records if r.levelno == logging.DEBUG]
    losses = trials_of(model.search_results_)["loss"]
    assert len(trials) == len(losses)
    assert f"held-out loss {losses[0]:.4g}" in trials[0]


@pytest.mark.parametrize(("verbose", "level"), [(1, "INFO"), (True, "INFO"), (2, "DEBUG")])
def test_verbose_writes_the_lines_of_the_log_to_stderr(verbose, level, capsys, caplog):
    AutoKernelRegressor(random_state=0, verbose=verbose).fit(*rows())
    out, err = capsys.readouterr()
    seconds, lines = zip(
        *(re.fullmatch(r"\[ *([\d.]+) s\] (.*)", s).groups() for s in err.splitlines()),
        strict=True,
    )
    assert out == ""
    assert [float(s) for s in seconds] == sorted(float(s) for s in seconds)
    with caplog.at_level(level, "mercer"):
        AutoKernelRegressor(random_state=0).fit(*rows())

    def without_numbers(text):
        return re.sub(r"[\d.]+ s\b", "", text)

    told = [without_numbers(record.getMessage()) for record in caplog.records]
    assert [without_numbers(line) for line in lines] == told
    assert logging.getLogger("mercer").level == logging.NOTSET


def test_a_line_that_a_handler_shows_is_not_written_twice(capsys, tmp_path):
    logger = logging.getLogger("mercer")
    logger.propagate, before = False, logger.handlers[:]
    logger.setLevel(logging.INFO)
    try:
        logger.addHandler(logging.FileHandler(tmp_path / "fit.log"))
        AutoKernelRegressor(random_state=0, verbose=1).fit(*rows())
        assert capsys.readouterr().err.count("Done in") == 1
        logger.addHandler(logging.StreamHandler())
        AutoKernelRegressor(random_state=0, verbose=1).fit(*rows())
        assert capsys.readouterr().err.count("Done in") == 1
    finally:
        for handler in set(logger.handlers) - set(before):
            handler.close()
        logger.handlers[:], logger.propagate = before, True
        logger.setLevel(logging.NOTSET)
    assert (tmp_path / "fit.log").read_text().count("Done in") == 2


def test_fits_on_other_threads_stay_silent(capsys):
    models = [AutoKernelRegressor(random_state=0, verbose=v) for v in (1, 0, 0)]
    threads = [threading.Thread(target=model.fit, args=rows()) for model in models]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert capsys.readouterr().err.count("Done in") == 1


@pytest.mark.parametrize(("verbose", "error"), [(-1, ValueError), ("yes", TypeError)])
def test_other_values_of_verbose_are_refused(verbose, error):
    with pytest.raises(error, match="verbose must be"):
        AutoKernelRegressor(verbose=verbose).fit(*rows())


def test_long_loops_of_other_models_are_told_of(caplog, monkeypatch):
    monkeypatch.setattr(_progress, "_SECONDS", 0.0)
    monkeypatch.setattr("mercer.solvers.local._BATCH", 2)
    X, y = rows()
    solvers = [("exact", "cg"), ("nystroem", "block")]
    with caplog.at_level(logging.INFO, "mercer"):
        for feature_map, solver in solvers:
            model = KernelRegressor(feature_map, solver=solver, random_state=0).fit(X, y)
            last = caplog.records[-1].getMessage()
            told = (
                rf"KernelRegressor: iteration \d+, optimality {model.optimality_:.2g} after .* s\."
            )
            assert re.fullmatch(told, last)
        model = LocalKernelRegressor(leaf_size=40, n_trees=2, random_state=0).fit(X, y)
        n = model.n_leaves_
        expected = f"LocalKernelRegressor: {n} of {n} leaves solved after "
        assert caplog.records[-1].getMessage().startswith(expected)
        DualKernelSVC(n_jobs=1).fit(X, y > 14)
        assert caplog.records[-1].getMessage().startswith("DualKernelSVC: iteration ")


def test_short_loops_are_not(caplog):
    with caplog.at_level(logging.INFO, "mercer"):
        KernelRegressor("exact", solver="cg").fit(*rows())
    assert not caplog.records


@pytest.mark.rounding
def test_listeners_change_no_bit():
    X, y = rows()
    plain = AutoKernelRegressor(random_state=0).fit(X, y)
    with _progress.verbosity(2):
        told = AutoKernelRegressor(random_state=0).set_callbacks(Tasks()).fit(X, y)
    np.testing.assert_array_equal(told.predict(X), plain.predict(X))
    np.testing.assert_array_equal(told.feature_importances_, plain.feature_importances_)


# --- callbacks --------------------------------------------------------------------------------


class Tasks:
    """Notes the tasks that end, and stops after those of a name, or interrupts there."""

    def __init__(self, stop="", error=None):
        self.stop, self.error, self.ended, self.torn_down = stop, error, [], 0

    def setup(self, estimator, context):
        pass

    def teardown(self, estimator, context):
        self.torn_down += 1

    def on_fit_task_begin(self, estimator, context):
        pass

    def on_fit_task_end(self, estimator, context):
        self.ended.append(context.task_name)
        if self.error is not None and context.task_name == self.stop:
            raise self.error
        return context.task_name == self.stop or self.stop == "always"


@pytest.fixture
def by_iterations(monkeypatch):
    """Also models of few rows are fitted by iterations."""
    monkeypatch.setattr(TUNING, "direct_rows", 10)
    monkeypatch.setitem(TUNING.tol, "continuous", 1e-4)
    monkeypatch.setitem(TUNING.rank, "laplacian", 0.5)


@pytest.mark.usefixtures("by_iterations")
def test_callbacks_get_stages_trials_and_iterations():
    tasks = Tasks()
    model = AutoKernelRegressor(random_state=0).set_callbacks(tasks).fit(*rows())
    outer = [name for name in tasks.ended if name not in ("trial", "iteration")]
    assert outer == ["rung 1", "rung 2", "rung 3", "final fit", "fit"]
    assert tasks.ended.count("iteration") == model.kernel_machine_.n_iter_
    assert 0 < tasks.ended.count("trial") <= len(model.search_results_["loss"])
    assert tasks.torn_down == 1
    assert not getattr(model.kernel_machine_, "_skl_callbacks", [])


@pytest.mark.usefixtures("by_iterations")
@pytest.mark.parametrize("stop", ["trial", "rung 1", "iteration", "always"])
def test_a_callback_ends_the_fit_with_a_model_that_predicts(stop):
    X, y = rows()
    tasks = Tasks(stop)
    model = AutoKernelRegressor(random_state=0).set_callbacks(tasks).fit(X, y)
    if stop != "iteration":
        assert set(trials_of(model.search_results_)["stage"]) == {"rung 1"}
    if stop in ("iteration", "always"):
        assert model.kernel_machine_.n_iter_ == 1
    if stop != "always":
        assert model.score(X, y) > 0.3
    assert np.isfinite(model.predict(X)).all()
    assert not model.interrupted_
    assert pickle.loads(pickle.dumps(model)).predict(X).tolist() == model.predict(X).tolist()


@pytest.mark.parametrize("place", ["trial", "final fit"])
def test_what_a_callback_raises_is_raised(place):
    tasks = Tasks(place, RuntimeError("enough"))
    model = AutoKernelRegressor(random_state=0).set_callbacks(tasks)
    with pytest.raises(RuntimeError, match="enough"):
        model.fit(*rows())
    assert tasks.torn_down == 1


def test_an_interrupt_in_a_trial_leaves_the_best_model_so_far():
    X, y = rows()
    tasks = Tasks("trial", KeyboardInterrupt())
    with pytest.warns(UserWarning, match="fit was interrupted"):
        model = AutoKernelRegressor(random_state=0).set_callbacks(tasks).fit(X, y)
    assert model.interrupted_
    assert model.score(X, y) > 0.3
    assert model.feature_importances_.shape == (5,)
    assert tasks.ended[-1] == "fit"


def test_trees_of_both_pipelines_are_tasks(monkeypatch):
    monkeypatch.setattr(TUNING, "exact_rows", 300)
    monkeypatch.setattr(TUNING, "leaf_rows", (100, 100))
    monkeypatch.setattr(TUNING, "trial_leaf_rows", 100)
    monkeypatch.setattr("mercer.solvers.local._BATCH", 4)
    X, y = rows(600)
    tasks = Tasks()
    AutoKernelRegressor(random_state=0).set_callbacks(tasks).fit(X, y)
    assert tasks.ended.count("iteration") >= 4
    assert [t for t in tasks.ended if t not in ("trial", "iteration")][2:] == [
        "leaves",
        "final fit",
        "fit",
    ]


@pytest.mark.usefixtures("by_iterations")
@pytest.mark.parametrize("heavy", [False, True])
def test_scores_are_monitored_while_the_model_is_fitted(heavy):
    X, y = rows()
    y = np.exp(y / 2) if heavy else y
    monitor = of_scikit_learn("ScoringMonitor")(scoring="r2")
    model = AutoKernelRegressor(random_state=0).set_callbacks(monitor).fit(X, y)
    assert (model.best_settings_["transform"] == "log") == heavy
    scores = [row["r2"] for row in monitor.get_logs().data if row["task_name"] == "iteration"]
    assert len(scores) == model.kernel_machine_.n_iter_
    assert scores[-1] == model.score(X, y)


def test_a_progress_bar_shows_stages_and_the_final_fit(capsys):
    AutoKernelRegressor(random_state=0).set_callbacks(of_scikit_learn("ProgressBar")()).fit(*rows())
    shown = capsys.readouterr().out
    for task in ("fit", "rung 1 #0", "rung 2 #1", "rung 3 #2", "final fit #3"):
        assert f"AutoKernelRegressor - {task} " in shown


def test_more_rows_after_all_other_stages_are_a_task(monkeypatch):
    monkeypatch.setattr(TUNING, "left_out_inputs", 0)
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(3000, 2))
    y = np.sin(9 * X).prod(axis=1)
    tasks = Tasks()
    AutoKernelRegressor(random_state=0).set_callbacks(tasks).fit(X, y)
    found = [task for task in tasks.ended if task not in ("trial", "iteration")]
    assert found == ["rung 1", "rung 2", "rung 3", "more rows", "final fit", "fit"]


def test_progress_of_a_grid_of_models(capsys):
    bar = of_scikit_learn("ProgressBar")(max_propagation_depth=None)
    grid = GridSearchCV(AutoKernelRegressor(), {"random_state": [0, 1]}, cv=2)
    grid.set_callbacks(bar).fit(*rows(60))
    assert "AutoKernelRegressor" in capsys.readouterr().out
    assert not getattr(grid.best_estimator_, "_skl_callbacks", [])


def test_models_with_callbacks_are_cloned_and_saved(tmp_path):
    X, y = rows()
    model = AutoKernelRegressor(random_state=0, verbose=0).set_callbacks(Tasks())
    model = clone(model).fit(X, y)
    model.set_callbacks()
    persistence.save(model, tmp_path / "m.skops", task="regression")
    again = persistence.load(tmp_path / "m.skops")
    np.testing.assert_array_equal(again.feature_importances_, model.feature_importances_)
