"""``mercer cluster``, ``outliers`` and ``drift``: files, pages and refusals."""

import json
from importlib.metadata import requires
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from mercer import AutoKernelRegressor, KernelRegressor, TablePreparer, persistence
from mercer.cli.app import app
from mercer.statistics import drift_test, mmd_test
from mercer.unsupervised import KernelKMeans, OneClassKernel, SpectralClustering

# Earlier versions of Typer, without Pydantic, have words of their own.
NOT_POSITIVE = (
    "-k must be greater than or equal to 1; got '0'"
    if any(line.startswith("pydantic") for line in requires("typer"))
    else "'-k' / '--clusters' (env var: 'None'): 0 is not in the range x>=1"
)


@pytest.fixture(autouse=True)
def _at_work(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def table(n=160, seed=0, shift=0.0):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "key": [f"r{row}" for row in range(n)],
            "place": rng.choice(["Rome", "Oslo", "Lima"], n),
            "area": rng.uniform(2, 9, n) + shift,
            "day": pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 99, n), "D"),
            "note": [f"{word} flat" for word in rng.choice(["quiet", "sunny", "small"], n)],
        }
    )
    frame.loc[::9, "area"] = np.nan
    return frame


@pytest.fixture
def data():
    """Rows as commands read them from Parquet, without the names of the rows."""
    frame = table()
    frame.to_parquet("rows.parquet", index=False)
    frame.to_csv("rows.csv", index=False)
    return frame.drop(columns="key")


def run(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def done(*arguments):
    result = run(*arguments)
    assert result.exit_code == 0, result.output
    return result.stdout


def refusal(*arguments):
    """The one sentence in which a command ends."""
    result = run(*arguments)
    assert result.exit_code in (1, 2), result.output
    [said] = result.stderr.splitlines()
    return said


def test_clusters_are_those_of_the_classes(data):
    X = TablePreparer(random_state=3).fit_transform(data)
    command = ("cluster", "rows.parquet", "-k", 3, "--id", "key", "--seed", 3, "--out")
    said = json.loads(done(*command, "c.parquet", "--json"))
    written = pd.read_parquet("c.parquet")
    expected = SpectralClustering(3, scale=False, random_state=3).fit_predict(X)
    assert written.columns.tolist() == ["key", "cluster"]
    assert written.key.tolist() == table().key.tolist()
    np.testing.assert_array_equal(written.cluster, expected)
    assert said == {"clusters": "c.parquet", "rows": 160, "sizes": np.bincount(expected).tolist()}
    done(*command, "c.csv", "--method", "kmeans")
    means = KernelKMeans(3, feature_map="nystroem", scale=False, random_state=3).fit_predict(X)
    np.testing.assert_array_equal(pd.read_csv("c.csv").cluster, means)


def test_chosen_columns_alone_decide(data):
    done("cluster", "rows.csv", "-k", 2, "--features", "area,place", "--out", "a.csv")
    done("cluster", "rows.csv", "-k", 2, "--drop", "key,day,note", "--out", "b.csv")
    X = TablePreparer(random_state=0).fit_transform(data[["area", "place"]])
    expected = SpectralClustering(2, scale=False, random_state=0).fit_predict(X)
    np.testing.assert_array_equal(pd.read_csv("a.csv").cluster, expected)
    dropped = TablePreparer(random_state=0).fit_transform(data[["place", "area"]])
    np.testing.assert_array_equal(
        pd.read_csv("b.csv").cluster,
        SpectralClustering(2, scale=False, random_state=0).fit_predict(dropped),
    )


def test_outliers_are_those_of_the_class(data):
    said = json.loads(
        done("outliers", "rows.parquet", "--id", "key", "--share", 0.1, "--out", "o.csv", "--json")
    )
    X = TablePreparer(random_state=0).fit_transform(data)
    machine = OneClassKernel(0.1, feature_map="nystroem", scale=False, random_state=0).fit(X)
    written = pd.read_csv("o.csv")
    assert written.columns.tolist() == ["key", "score", "is_outlier"]
    np.testing.assert_allclose(written.score, machine.score_samples(X), rtol=1e-12)
    np.testing.assert_array_equal(written.is_outlier, machine.predict(X) == -1)
    assert said == {"scores": "o.csv", "rows": 160, "outliers": 16}
    done("outliers", "rows.parquet", "--id", "key", "--share", 0.02, "--out", "few.csv")
    few = pd.read_csv("few.csv")
    np.testing.assert_allclose(few.score, written.score, rtol=1e-12)
    assert set(few.score[few.is_outlier]) == set(few.score.nsmallest(3))


def test_drift_of_tables_is_the_test_of_two_samples(data):
    new = table(120, seed=1, shift=2.0)
    new.assign(more=1)[["more", *new.columns[::-1]]].to_parquet("new.parquet", index=False)
    command = ("drift", "rows.parquet", "new.parquet", "--drop", "key", "--json")
    said = json.loads(done(*command, "--out", "d.csv"))
    expected = mmd_test(data, new.drop(columns="key"), random_state=0)
    assert said == {
        "p_value": expected.p_value,
        "rows": 120,
        "permutations": 199,
        "columns": "d.csv",
    }
    tests = pd.read_csv("d.csv").set_index("column")
    assert tests.index.tolist() == ["place", "area", "day", "note"]
    assert tests.adjusted_p_value["area"] <= 0.05 < tests.adjusted_p_value.drop("area").min()
    # Holm's method by its definition: the largest of the smaller p-values times the columns left.
    for name, p_value in tests.p_value.items():
        smaller = tests.p_value[tests.p_value <= p_value]
        steps = [p * (4 - (tests.p_value < p).sum()) for p in smaller]
        assert tests.adjusted_p_value[name] == pytest.approx(min(max(steps), 1.0))
    both = TablePreparer(random_state=0).fit(pd.concat([data, new.drop(columns="key")]))
    X, Y = (both.transform(rows)[:, both.origins_ == 1] for rows in (data, new[data.columns]))
    area = mmd_test(X, Y, n_features=50, n_permutations=199, random_state=0)
    assert tests.p_value["area"] == area.p_value
    assert tests.statistic["area"] == pytest.approx(area.statistics[1], rel=1e-6)


@pytest.mark.filterwarnings("ignore:columns are left out")
def test_a_table_does_not_differ_from_itself(data):
    assert "do not differ detectably: p-value" in done("drift", "rows.csv", "rows.csv")


def test_drift_of_a_model_is_its_test(data):
    rows = data[["place", "area"]]
    model = AutoKernelRegressor(random_state=0).fit(rows, rows.area.fillna(0))
    persistence.save(model, "model.skops", feature_names=["place", "area"])
    new = table(90, seed=1, shift=3.0)
    new.to_parquet("new.parquet", index=False)
    said = json.loads(done("drift", "model.skops", "new.parquet", "--json"))
    expected = drift_test(persistence.load("model.skops"), new[["place", "area"]], random_state=0)
    assert said == {"p_value": expected.p_value, "rows": 90, "permutations": 199}
    assert "must be left out" in refusal("drift", "model.skops", "new.parquet", "--out", "d.html")
    assert "--drop needs" in refusal("drift", "model.skops", "new.parquet", "--drop", "area")
    numbers = np.random.default_rng(0).normal(size=(60, 2))
    exact = KernelRegressor("nystroem", random_state=0).fit(numbers, numbers[:, 0])
    persistence.save(exact, "exact.skops")
    np.savez("new.npz", X=numbers + 1)
    assert "exact.skops and new.npz differ: p-value" in done("drift", "exact.skops", "new.npz")


def test_pages_show_figures_and_columns(data):
    table(90, seed=1, shift=3.0).to_parquet("new.parquet", index=False)
    done("cluster", "rows.parquet", "-k", 3, "--id", "key", "--out", "c.html")
    done("outliers", "rows.parquet", "--id", "key", "--out", "o.html")
    done("drift", "rows.parquet", "new.parquet", "--drop", "key", "--out", "d.html")
    clusters, outliers, drift = (Path(f"{name}.html").read_text("utf-8") for name in "cod")
    assert "<h1>Clusters: rows.parquet</h1>" in clusters
    assert [page.count("<figure>") for page in (clusters, outliers, drift)] == [3, 1, 5]
    assert "cluster 2" in clusters
    assert "Columns in which the clusters differ most" in clusters
    # The row with the smallest score stands first, under its name.
    X = TablePreparer(random_state=0).fit_transform(data)
    scores = (
        OneClassKernel(0.1, feature_map="nystroem", scale=False, random_state=0)
        .fit(X)
        .score_samples(X)
    )
    assert outliers.split("<td>")[1].startswith(f"r{scores.argmin()}<")
    assert "p-value, adjusted (Holm)" in drift
    assert drift.split("<td>")[1].startswith("area<")


@pytest.mark.filterwarnings("ignore:columns are left out")
@pytest.mark.parametrize("rows", [2, 3])
def test_pages_of_few_rows_are_written(rows):
    pd.DataFrame({"a": np.arange(rows), "b": ["x", "y", None][:rows]}).to_csv("t.csv", index=False)
    done("cluster", "t.csv", "-k", 2, "--out", "c.html")
    done("outliers", "t.csv", "--out", "o.html")
    done("drift", "t.csv", "t.csv", "--out", "d.html")
    titles = ("Clusters: t.csv", "Outliers: t.csv", "Drift: t.csv and t.csv")
    for name, title in zip("cod", titles, strict=True):
        assert f"<h1>{title}</h1>" in Path(f"{name}.html").read_text("utf-8")


def test_texts_alone_and_names_missing_are_enough(data):
    done("cluster", "rows.csv", "-k", 2, "--features", "note", "--out", "t.csv")
    np.savetxt("plain.csv", np.random.default_rng(0).normal(size=(30, 3)), delimiter=",")
    done("outliers", "plain.csv", "--out", "p.html")
    assert "needs a file with names" in refusal(
        "outliers", "plain.csv", "--drop", "a", "--out", "q.csv"
    )


@pytest.mark.filterwarnings("ignore:columns are left out")
def test_own_results_are_replaced_and_others_kept(data):
    for _ in range(2):
        done("cluster", "rows.csv", "-k", 2, "--id", "key", "--out", "c.csv")
    assert "is not a file of clusters of mercer" in refusal(
        "cluster", "rows.csv", "-k", 2, "--out", "c.csv"
    )
    pd.DataFrame({"age": [1], "cluster": [2]}).to_csv("mine.csv", index=False)
    command = ("cluster", "rows.csv", "-k", 2, "--out", "mine.csv")
    assert "--force" in refusal(*command)
    assert pd.read_csv("mine.csv").age.tolist() == [1]
    done(*command, "--force")
    assert len(pd.read_csv("mine.csv")) == 160
    for command in (("cluster", "rows.csv", "-k", 2), ("outliers", "rows.csv")):
        assert "must not name DATA" in refusal(*command, "--out", "rows.csv", "--force")
    assert "must not name NEW" in refusal("drift", "c.csv", "rows.csv", "--out", "rows.csv")


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        ("cluster nope.csv -k 2 --out z.csv", "there is no file nope.csv"),
        ("outliers none.csv --out z.csv", "none.csv holds a header and no row"),
        ("outliers none.parquet --out z.csv", "none.parquet holds columns and no row"),
        ("cluster rows.csv -k 161 --out z.csv", "-k must be at most the number of rows of DATA"),
        ("cluster rows.csv -k 0 --out z.csv", NOT_POSITIVE),
        ("cluster rows.csv -k 2 --drop aera --out z.csv", "did you mean 'area'"),
        ("cluster rows.csv -k 2 --id kye --out z.csv", "did you mean 'key'"),
        ("outliers rows.csv --features aera --out z.csv", "did you mean 'area'"),
        ("outliers rows.csv --share 1 --out z.csv", "--share must be above 0 and below 1; got 1"),
        ("outliers rows.csv --out z.png", "--out must end in one of"),
        ("outliers letter --out z.csv", "a table must have columns"),
        ("outliers named.csv --id score --out z.csv", "--id must not name 'score'"),
        ("drift rows.csv named.csv", "named.csv has no columns 'key', 'place'"),
        ("drift named.csv words.csv", "columns of the same types; score"),
    ],
)
def test_wrong_input_is_refused_in_a_sentence(data, command, reason):
    Path("none.csv").write_text("place,area\n")
    data[:0].to_parquet("none.parquet", index=False)
    Path("named.csv").write_text("score\n1\n2\n3\n")
    Path("words.csv").write_text("score\none\ntwo\n")
    assert reason in refusal(*command.split())
    assert not Path("z.csv").exists()
