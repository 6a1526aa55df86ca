"""``mercer explain``: Shapley values of a table's columns as a file or a page."""

import json

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from mercer import AutoKernelClassifier, AutoKernelRegressor, LocalKernelRegressor, persistence
from mercer.cli.app import app
from mercer.explain import shapley_values


@pytest.fixture(autouse=True)
def _at_work(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def run(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def refusal(*arguments):
    """The one sentence in which a command ends."""
    done = run(*arguments)
    assert done.exit_code in (1, 2), done.output
    [said] = done.stderr.splitlines()
    return said


def table(n=200):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"place": rng.choice(["Rome", "Oslo"], n), "area": rng.uniform(2, 9, n)})
    return frame, frame.area * (1 + (frame.place == "Rome"))


def saved(model, name):
    persistence.save(model, name, feature_names=list(model.feature_names_in_))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    frame, target = table()
    frame.assign(key=np.arange(len(frame))).to_csv(folder / "new.csv", index=False)
    saved(AutoKernelRegressor(random_state=0).fit(frame, target), folder / "numbers.skops")
    classes = pd.cut(target, 3, labels=["a", "b", "c"]).astype(str)
    saved(AutoKernelClassifier(random_state=0).fit(frame, classes), folder / "classes.skops")
    rows = np.random.default_rng(0).normal(size=(90, 3))
    pd.DataFrame(rows, columns=list("uvw")).to_csv(folder / "numbers.csv", index=False)
    local = LocalKernelRegressor(leaf_size=30, random_state=0)
    local.fit(pd.DataFrame(rows, columns=list("uvw")), rows[:, 0])
    saved(local, folder / "local.skops")
    return folder


def test_values_of_a_file_are_those_of_the_function(folder):
    done = run("explain", folder / "numbers.skops", folder / "new.csv", "--out", "v.csv", "--json")
    assert json.loads(done.stdout) == {"explanation": "v.csv", "rows": 200}
    written = pd.read_csv("v.csv")
    frame, _ = table()
    expected = shapley_values(persistence.load(folder / "numbers.skops"), frame)
    assert written.columns.tolist() == ["base", "value_place", "value_area"]
    np.testing.assert_allclose(written.iloc[:, 1:], expected.values, rtol=1e-5, atol=1e-6)
    assert (
        run("explain", folder / "numbers.skops", folder / "new.csv", "--out", "v.csv").exit_code
        == 0
    )


def test_rows_ids_and_classes_are_chosen(folder):
    command = ("explain", folder / "classes.skops", folder / "new.csv", "--out")
    done = run(*command, "v.parquet", "--rows", 7, "--id", "key", "--class", "b")
    assert done.exit_code == 0, done.output
    written = pd.read_parquet("v.parquet")
    assert written.columns.tolist() == ["key", "base", "value_place", "value_area"]
    assert len(written) == 7
    run(*command, "all.csv")
    every = pd.read_csv("all.csv")
    assert {"base_a", "value_area_a", "value_area_b", "value_place_c"} <= set(every.columns)
    np.testing.assert_allclose(every.value_area_b[:7], written.value_area, rtol=1e-5, atol=1e-6)


def test_estimates_have_their_errors_beside_them(folder):
    done = run(
        "explain", folder / "local.skops", folder / "numbers.csv", "--out", "v.csv", "--rows", 3
    )
    assert done.exit_code == 0, done.output
    written = pd.read_csv("v.csv")
    assert written.columns.tolist()[4:] == [f"error_{name}" for name in "uvw"]
    assert (written.iloc[:, 4:] >= 0).all(axis=None)


def test_pages_have_figures_for_every_class(folder):
    done = run("explain", folder / "classes.skops", folder / "new.csv", "--out", "why.html")
    assert done.exit_code == 0, done.output
    with open("why.html", encoding="utf-8") as file:
        page = file.read()
    for name in "abc":
        assert f"Which columns move the decision function of {name}" in page
    assert "<h1>classes.skops</h1>" in page
    assert page.count("<figure>") == 3 * (2 + 2 + 4)


def test_what_cannot_be_explained_is_refused_in_a_sentence(folder):
    numbers, classes = (folder / f"{kind}.skops" for kind in ("numbers", "classes"))
    new = folder / "new.csv"
    assert "--class must be left out" in refusal(
        "explain", numbers, new, "--out", "v.csv", "--class", "a"
    )
    assert "--class must be one of a, b, c" in refusal(
        "explain", classes, new, "--out", "v.csv", "--class", "d"
    )
    with open("mine.csv", "w") as file:
        file.write("a,b\n1,2\n")
    assert "--force" in refusal("explain", numbers, new, "--out", "mine.csv")
    assert "must not name DATA" in refusal("explain", numbers, new, "--out", new)
    with open("none.csv", "w") as file:
        file.write("place,area\n")
    assert "no row" in refusal("explain", numbers, "none.csv", "--out", "v.csv")
