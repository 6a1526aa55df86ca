"""The command line: what it prints, what it writes, and one sentence for every error."""

from __future__ import annotations

import csv
import json
import os
import pickle
import signal
import subprocess
import sys
import time
import warnings
import weakref

import numpy as np
import pytest
from typer.testing import CliRunner

from mercer import KernelClassifier, cli, persistence
from mercer.cli.app import app


@pytest.fixture(autouse=True)
def _at_work(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")


@pytest.fixture
def mercer():
    def run(*arguments):
        return CliRunner().invoke(app, [str(argument) for argument in arguments])

    return run


def write_table(path, n=80, *, target="label", seed=0, columns=("a", "b")):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, 2)).round(6)
    labels = {
        "label": np.where(X[:, 0] > 0, "yes", "no"),
        "price": (2 * X[:, 0] + X[:, 1] ** 2).round(6),
        "count": np.arange(n) % 3,
    }
    with open(path, "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow([*columns, *([] if target is None else [target])])
        for i, row in enumerate(X.tolist()):
            writer.writerow([*row, *([] if target is None else [labels[target][i]])])
    return path


@pytest.fixture
def table(tmp_path):
    return write_table(tmp_path / "table.csv")


@pytest.fixture
def model(tmp_path, table, mercer):
    path = tmp_path / "model.skops"
    done = mercer("fit", table, "--target", "label", "--out", path, "--n-components", 16)
    assert done.exit_code == 0, done.output
    return path


# --- fit and predict -------------------------------------------------------------------------


def test_fit_then_predict_gives_a_line_for_each_row(table, model, tmp_path, mercer):
    out = tmp_path / "predictions.csv"
    done = mercer("predict", model, table, "--out", out)
    assert done.exit_code == 0, done.output
    with open(out, newline="") as file:
        lines = list(csv.DictReader(file))
    assert len(lines) == 80
    assert {line["prediction"] for line in lines} == {"yes", "no"}
    assert "accuracy" in done.stdout


def test_predictions_are_those_of_the_model(table, model, tmp_path, mercer):
    rows = np.loadtxt(table, delimiter=",", skiprows=1, usecols=(0, 1))
    mercer("predict", model, table, "--out", tmp_path / "p.csv")
    expected = persistence.load(model).predict(rows)
    written = np.loadtxt(tmp_path / "p.csv", dtype=str, skiprows=1)
    np.testing.assert_array_equal(written, expected)


def test_fit_says_which_task_and_on_what_it_scored(table, tmp_path, mercer):
    done = mercer("fit", table, "--target", "label", "--out", tmp_path / "m.skops")
    assert "task: classification" in done.stderr
    assert "training rows" in done.stdout


def test_fit_of_a_set_with_a_test_part_scores_on_it(tmp_path, mercer):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2))
    np.savez(
        tmp_path / "parts.npz",
        X_train=X[:40],
        y_train=(X[:40, 0] > 0).astype(int),
        X_test=X[40:],
        y_test=(X[40:, 0] > 0).astype(int),
    )
    done = mercer("fit", tmp_path / "parts.npz", "--out", tmp_path / "m.skops", "--json")
    summary = json.loads(done.stdout)
    assert (summary["scored_on"], summary["scored_rows"], summary["n"]) == ("test part", 20, 40)


@pytest.mark.parametrize(
    ("target", "task"),
    [("label", "classification"), ("count", "classification"), ("price", "regression")],
)
def test_task_is_read_off_the_target(target, task, tmp_path, mercer):
    table = write_table(tmp_path / "t.csv", target=target)
    done = mercer("fit", table, "--target", target, "--out", tmp_path / "m.skops", "--json")
    assert json.loads(done.stdout)["task"] == task
    assert persistence.load_saved(tmp_path / "m.skops").task == task


def test_gamma_is_chosen_along_a_path(tmp_path, mercer):
    table = write_table(tmp_path / "t.csv", target="price")
    fit = ("fit", table, "--target", "price", "--out", tmp_path / "m.skops", "--gamma-path")
    summary = json.loads(mercer(*fit, "0.001, 0.1,1e2", "--json").stdout)
    assert summary["gamma_path"]["gamma"] == [0.001, 0.1, 100]
    chosen = persistence.load(tmp_path / "m.skops").feature_map_.kernel_.gamma
    assert chosen == 0.1
    assert "gamma 0.1, chosen from 3 on held-out rows" in mercer(*fit, "0.001,0.1,1e2").stdout


def test_task_can_be_named(tmp_path, mercer):
    table = write_table(tmp_path / "t.csv", target="count")
    out = tmp_path / "m.skops"
    done = mercer("fit", table, "--target", "count", "--out", out, "--task", "regression", "--json")
    assert "relative_rmse" in json.loads(done.stdout)["score"]


def test_settings_reach_the_model(table, tmp_path, mercer):
    out = tmp_path / "m.skops"
    chosen = ["--map", "fourier", "--kernel", "laplacian", "--n-components", 32, "--gamma", 0.25]
    more = ["--alpha", 0.01, "--loss", "logistic", "--seed", 3, "--n-jobs", 1, "--no-scale"]
    done = mercer("fit", table, "--target", "label", "--out", out, *chosen, *more)
    assert done.exit_code == 0, done.output
    model = persistence.load(out)
    assert model.feature_map == "fourier"
    assert (model.kernel, model.gamma, model.n_components) == ("laplacian", 0.25, 32)
    assert (model.alpha, model.loss, model.random_state) == (0.01, "logistic", 3)
    assert (model.n_jobs, model.scale) == (1, False)


def test_json_is_all_that_stands_on_standard_output(table, model, tmp_path, mercer):
    commands = [
        ("fit", table, "--target", "label", "--out", tmp_path / "m.skops"),
        ("predict", model, table, "--out", tmp_path / "p.csv"),
        ("datasets",),
        ("info",),
        ("compare", table, "--target", "label", "--methods", "linear"),
    ]
    for command in commands:
        done = mercer(*command, "--json")
        assert done.exit_code == 0, done.output
        assert isinstance(json.loads(done.stdout), dict)


def test_columns_are_found_by_name_in_any_order(model, tmp_path, mercer):
    rng = np.random.default_rng(1)
    X = rng.uniform(-1, 1, (20, 2))
    for name, header, columns in (("ab", "a,b", X), ("ba", "b,extra,a", X[:, [1, 0, 0]])):
        np.savetxt(f"{name}.csv", columns, delimiter=",", header=header, comments="")
        assert mercer("predict", model, f"{name}.csv", "--out", f"{name}.txt").exit_code == 0
    assert (tmp_path / "ab.txt").read_text() == (tmp_path / "ba.txt").read_text()


def test_rows_without_a_target_are_predicted_without_a_score(model, tmp_path, mercer):
    table = write_table(tmp_path / "new.csv", 10, target=None)
    done = mercer("predict", model, table, "--out", tmp_path / "p.csv")
    assert done.exit_code == 0, done.output
    assert "accuracy" not in done.stdout


def test_probabilities_come_in_a_column_for_each_class(table, tmp_path, mercer):
    out = tmp_path / "m.skops"
    mercer("fit", table, "--target", "label", "--out", out, "--loss", "logistic")
    done = mercer("predict", out, table, "--out", tmp_path / "p.csv", "--proba")
    assert done.exit_code == 0, done.output
    with open(tmp_path / "p.csv", newline="") as file:
        for line in csv.DictReader(file):
            both = float(line["probability_no"]), float(line["probability_yes"])
            assert sum(both) == pytest.approx(1)
            assert line["prediction"] == ("no", "yes")[both[1] > both[0]]


def test_libsvm_text_needs_no_target_and_may_lack_features(tmp_path, mercer):
    train, new = tmp_path / "train.svm", tmp_path / "new.svm"
    train.write_text("".join(f"{(-1) ** i} 1:{i % 5} 3:{i % 2}\n" for i in range(30)))
    new.write_text("1 1:2\n-1 1:3\n")
    assert mercer("fit", train, "--out", tmp_path / "m.skops").exit_code == 0
    done = mercer("predict", tmp_path / "m.skops", new, "--out", tmp_path / "p.csv", "--json")
    assert json.loads(done.stdout)["rows"] == 2


def test_several_targets_get_a_column_each(tmp_path, mercer):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(50, 2))
    np.savez(tmp_path / "two.npz", X=X, y=np.column_stack([X[:, 0], X[:, 1] ** 2]))
    assert mercer("fit", "two.npz", "--out", "m.skops").exit_code == 0
    assert mercer("predict", "m.skops", "two.npz", "--out", "p.csv").exit_code == 0
    assert (tmp_path / "p.csv").read_text().startswith("prediction_0,prediction_1\n")


# --- what there is ---------------------------------------------------------------------------


def test_datasets_lists_what_ships(mercer):
    assert "letter" in mercer("datasets").stdout
    names = [one["name"] for one in json.loads(mercer("datasets", "--json").stdout)["datasets"]]
    assert "letter" in names


def test_info_tells_versions_processor_and_threads(mercer):
    content = json.loads(mercer("info", "--json").stdout)
    assert {"mercer", "numpy", "scikit-learn"} <= set(content["versions"])
    assert content["machine"]["instructions"] in content["machine"]["instructions_compiled"]
    assert content["machine"]["threads"] >= 1
    assert "instructions" in mercer("info").stdout


COMMANDS = ["fit", "predict", "compare", "datasets", "info"]


@pytest.mark.parametrize("command", COMMANDS)
def test_help_has_an_example(command, mercer):
    done = mercer(command, "--help")
    assert done.exit_code == 0
    assert f"Example: mercer {command}" in done.stdout


def test_help_breaks_its_lines_where_the_terminal_ends(mercer, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    lines = [line.strip() for line in mercer("fit", "--help").stdout.splitlines()]
    assert "training rows, and says which." in lines


def test_no_command_gives_the_help(mercer):
    done = mercer()
    assert done.exit_code == 0
    assert "predict" in done.stdout


# --- errors ----------------------------------------------------------------------------------

PLAIN = ("--map", "binning")
FIT = ("fit", "table.csv", "--target", "label", "--out", "out.skops")
WRONG = [
    (("fitt",), 2, "did you mean fit"),
    (
        ("serve",),
        2,
        "there are fit, predict, explain, show, cluster, outliers, drift, compare, datasets, info",
    ),
    (("fit",), 2, "DATA"),
    (("fit", "letter"), 1, "--out must name the model file"),
    (("fit", "letter", "--outt", "x"), 2, "did you mean --out"),
    ((*FIT, "--task", "guess"), 2, "'guess' is not one of"),
    ((*FIT, "--seed", "-1"), 2, "--seed"),
    ((*FIT, "--alpha", "much"), 2, "--alpha"),
    ((*FIT, "--n-jobs", "two"), 2, "'two'"),
    (("fit", "leter", "--out", "o.skops"), 1, "did you mean letter"),
    (("fit", "letter", "--target", "x", "--out", "o.skops"), 1, "drop --target"),
    (("fit", "letter", "--task", "regression", "--out", "o.skops"), 1, "for classification"),
    (("fit", "tabel.csv", "--out", "o.skops"), 1, "did you mean table.csv"),
    (("fit", "none/table.csv", "--out", "o.skops"), 1, "there is no file"),
    (("fit", "table.csv", "--out", "o.skops"), 1, "--target"),
    (("fit", "table.csv", "--target", "lable", "--out", "o.skops"), 1, "did you mean 'label'"),
    ((*FIT, "--task", "regression"), 1, "needs numbers"),
    (("fit", "empty.csv", "--target", "y", "--out", "o.skops"), 1, "empty"),
    ((*FIT, *PLAIN, "--time-budget", "1"), 1, "--time-budget must be left out"),
    ((*FIT, "--time-budget", "0"), 1, "--time-budget must be positive"),
    (("fit", "one.csv", "--target", "y", "--out", "o.skops"), 1, "class"),
    (("fit", "broken.svm", "--out", "o.skops"), 1, "line 2"),
    (("fit", "table.csv", "--target", "label", "--out", "none/o.skops"), 1, "no folder none"),
    (("fit", "table.csv", "--target", "label", "--out", "."), 1, "it is a folder"),
    ((*FIT, "--gamma", "-1"), 1, "gamma"),
    ((*FIT, "--gamma", "wide"), 1, "gamma"),
    ((*FIT, "--gamma-path", "0.1;1"), 1, "numbers with commas"),
    ((*FIT, "--gamma-path", "0.1,1", "--gamma", "1"), 1, "gamma must be left out"),
    (("fit", "gone.csv", "--out", "o", "--gamma-path", "x"), 1, "--gamma-path must be numbers"),
    ((*FIT, "--alpha", "-1"), 1, "alpha"),
    ((*FIT, "--n-components", "0"), 1, "--n-components"),
    ((*FIT, "--map", "bining"), 1, "binning"),
    ((*FIT, "--kernel", "rbff"), 1, "kernel"),
    ((*FIT, "--loss", "hinges"), 1, "loss"),
    ((*FIT, "--solver", "magic"), 1, "solver"),
    ((*FIT, "--n-jobs", "0"), 1, "--n-jobs"),
    (("predict", "none.skops", "table.csv", "--out", "p.csv"), 1, "cannot read none.skops"),
    (("predict", "table.csv", "table.csv", "--out", "p.csv"), 1, "not a model file"),
    (("predict", "pickled.skops", "table.csv", "--out", "p.csv"), 1, "not a model file"),
    (("predict", "model.skops", "other.csv", "--out", "p.csv"), 1, "no columns 'a', 'b'"),
    (("predict", "model.skops", "wide.npz", "--out", "p.csv"), 1, "fitted on 2"),
    (("predict", "model.skops", "table.csv", "--out", "none/p.csv"), 1, "no folder none"),
    (("compare", "leter"), 1, "did you mean letter"),
    (("compare", "table.csv", "--target", "label", "--methods", "magic"), 2, "methods"),
    (("compare", "table.csv", "--target", "label", "--methods", ","), 2, "methods"),
    (("compare", "table.csv", "--target", "label", "--sizes", "few"), 2, "--sizes"),
    (("compare", "table.csv", "--target", "label", "--sizes", "0"), 2, "sizes"),
    (("compare", "tiny.csv", "--target", "label"), 1, "at least 10"),
    (("compare", "table.csv", "--target", "label", "--out", "table.csv"), 1, "not a folder"),
]


@pytest.fixture
def bad_files(model, tmp_path):
    write_table(tmp_path / "tiny.csv", 6)
    write_table(tmp_path / "other.csv", columns=("left", "right"))
    np.savez(tmp_path / "wide.npz", X=np.zeros((3, 5)))
    (tmp_path / "empty.csv").write_text("")
    (tmp_path / "one.csv").write_text("a,y\n1,0\n3,0\n2,0\n")
    (tmp_path / "broken.svm").write_text("1 1:2\n1 x:2\n")
    (tmp_path / "pickled.skops").write_bytes(pickle.dumps(KernelClassifier("binning")))


@pytest.mark.usefixtures("bad_files")
@pytest.mark.parametrize(("command", "code", "message"), WRONG, ids=[" ".join(w[0]) for w in WRONG])
def test_error_is_one_sentence_and_a_code(command, code, message, mercer, tmp_path):
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    done = mercer(*command)
    assert done.exit_code == code, done.output
    # A progress bar that had nothing to show leaves an empty line with an old rich.
    said = [line for line in done.stderr.splitlines() if line and not line.startswith("task: ")]
    assert len(said) == 1
    assert said[0].startswith("mercer: ")
    assert "internal error" not in said[0]
    assert message in said[0]
    assert done.stdout == ""
    after = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    assert after == before


def test_debug_lets_the_traceback_through_wherever_it_stands(mercer):
    for command in (["fit", "none.csv", "--out", "m.skops", "--debug"], ["--debug", "fit", "none"]):
        assert not isinstance(mercer(*command).exception, SystemExit)


def test_unexpected_error_is_one_sentence_too(table, mercer, monkeypatch):
    def fail(self, *given):
        raise RuntimeError("the sky\nfell")

    monkeypatch.setattr(KernelClassifier, "_fit_planned", fail)
    done = mercer("fit", table, "--target", "label", "--out", "m.skops")
    assert done.exit_code == 1
    assert done.stderr.splitlines()[-1] == (
        "mercer: internal error, RuntimeError: the sky (--debug shows where)"
    )


def test_interrupted_fit_writes_nothing(table, tmp_path, mercer, monkeypatch):
    def stop(self, *given):
        raise KeyboardInterrupt

    monkeypatch.setattr(KernelClassifier, "_fit_planned", stop)
    done = mercer("fit", table, "--target", "label", "--out", "m.skops")
    assert done.exit_code == 130
    assert done.stderr.splitlines()[-1].startswith("mercer: interrupted")
    assert list(tmp_path.iterdir()) == [table]


def test_interrupt_of_an_import_that_says_something_else_is_an_interrupt(
    table, tmp_path, mercer, monkeypatch
):
    def stop(self, *given):
        try:
            signal.raise_signal(signal.SIGINT)
        except KeyboardInterrupt:  # as NumPy does while a compiled module looks at its formats
            raise ValueError("not a valid PEP 3118 buffer format string") from None

    monkeypatch.setattr(KernelClassifier, "_fit_planned", stop)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may have it ignored
    try:
        done = mercer("fit", table, "--target", "label", "--out", "m.skops")
    finally:
        signal.signal(signal.SIGINT, before)
    assert done.exit_code == 130
    assert done.stderr.splitlines()[-1].startswith("mercer: interrupted")
    assert list(tmp_path.iterdir()) == [table]


def test_interrupt_that_is_lost_in_a_weak_reference_comes_again(
    table, tmp_path, mercer, monkeypatch, capfd
):
    class Thing:
        pass

    def stop(self, *given):
        thing = Thing()
        dead = weakref.ref(thing, lambda _: signal.raise_signal(signal.SIGINT))
        del thing  # the interrupt cannot leave the callback
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            time.sleep(0.001)
        return dead

    monkeypatch.setattr(KernelClassifier, "_fit_planned", stop)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    told = sys.unraisablehook
    try:
        done = mercer("fit", table, "--target", "label", "--out", "m.skops")
    finally:
        signal.signal(signal.SIGINT, before)
    assert done.exit_code == 130
    assert done.stderr.splitlines()[-1].startswith("mercer: interrupted")
    assert "Exception ignored" not in done.stderr + capfd.readouterr().err
    assert sys.unraisablehook is told
    assert list(tmp_path.iterdir()) == [table]


def test_full_disk_leaves_nothing_behind(table, tmp_path, mercer, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    done = mercer("fit", table, "--target", "label", "--out", "m.skops")
    assert done.exit_code == 1
    assert "No space left on device" in done.stderr
    assert list(tmp_path.iterdir()) == [table]


def test_warning_is_one_line_on_standard_error(table, mercer, monkeypatch):
    plain = KernelClassifier._fit_planned

    def warn(self, *given):
        warnings.warn("careful", UserWarning, stacklevel=2)
        return plain(self, *given)

    monkeypatch.setattr(KernelClassifier, "_fit_planned", warn)
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        done = mercer("fit", table, "--target", "label", "--out", "m.skops", "--json")
    assert "mercer: warning: careful\n" in done.stderr
    json.loads(done.stdout)


def test_missing_interface_is_one_sentence(monkeypatch, capsys):
    for name in [name for name in sys.modules if name.startswith("mercer.cli.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "typer", None)
    with pytest.raises(SystemExit) as caught:
        cli.main(["info"])
    assert caught.value.code == 1
    assert "pip install 'mercer[cli]'" in capsys.readouterr().err


def test_the_version_is_printed(capsys):
    with pytest.raises(SystemExit) as caught:
        cli.main(["--version"])
    assert caught.value.code == 0
    assert capsys.readouterr().out.startswith("mercer ")


@pytest.mark.slow
def test_the_command_runs_as_a_process(table, tmp_path):
    code = "from mercer.cli import main; main()"
    command = [sys.executable, "-c", code, "fit", str(table), "--target", "label", "--json"]
    done = subprocess.run(
        [*command, "--out", str(tmp_path / "m.skops")], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["task"] == "classification"
    assert (tmp_path / "m.skops").exists()


_HELP = """
import sys
import typer
before = set(sys.modules)  # some versions of Typer load Rich
from mercer.cli import main
try:
    main([*sys.argv[1:], "--help"])
except SystemExit:
    loaded = {*sys.modules} - before
    print([name for name in ("numpy", "scipy", "sklearn", "rich") if name in loaded])
"""


@pytest.mark.parametrize("command", [(), *((name,) for name in COMMANDS)])
def test_help_waits_for_no_package_of_numbers(command):
    done = subprocess.run(
        [sys.executable, "-c", _HELP, *command], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[-1] == "[]"


@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo-terminal")
def test_help_has_frames_on_a_terminal_alone():
    import pty

    parent, child = pty.openpty()
    subprocess.run([sys.executable, "-c", _HELP], stdout=child, check=True)
    os.close(child)
    shown = os.read(parent, 1 << 16)
    os.close(parent)
    assert "╭".encode() in shown
    piped = subprocess.run([sys.executable, "-c", _HELP], capture_output=True, check=True).stdout
    assert "╭".encode() not in piped
    assert b"predict" in piped


def test_other_distributions_add_commands(tmp_path):
    folder = tmp_path / "more-1.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: more\nVersion: 1.0\n")
    (folder / "entry_points.txt").write_text("[mercer.commands]\nmore = more:add\n")
    code = "def add(app):\n    app.command('more')(lambda: print('added'))\n"
    (tmp_path / "more.py").write_text(code)
    code = "from mercer.cli import main; main(['more'])"
    paths = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": paths}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout == "added\n"
