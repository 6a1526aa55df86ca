"""``mercer fit`` on tables as they come: columns by their use, gaps, texts, dates, odd CSV."""

import json
import logging
from inspect import signature
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.pipeline import Pipeline
from typer.testing import CliRunner

from mercer import AutoKernelRegressor, KernelRegressor, datasets, persistence
from mercer.cli import fit_options, options
from mercer.cli.app import app
from mercer.cli.summary import held_out_words
from mercer.plots import report

HOW = ("--map", "fourier", "--n-components", "20")


@pytest.fixture(autouse=True)
def _at_work(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def run(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def fit(*arguments):
    """A fit of plain settings that goes well: what it prints as JSON, and the model's file."""
    done = run("fit", *arguments, "--out", "m.skops", *HOW, "--json")
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout), persistence.load_saved("m.skops"), done.stderr


def refusal(*arguments):
    """The one sentence in which a command ends."""
    done = run(*arguments)
    assert done.exit_code in (1, 2), done.output
    assert done.stdout == ""
    *_, last = done.stderr.splitlines()
    assert last.startswith("mercer: ")
    assert "internal error" not in last
    return last


@pytest.fixture
def houses():
    rng = np.random.default_rng(0)
    table = pd.DataFrame(
        {
            "name": [f"house {i}" for i in range(90)],
            "city": rng.choice(["Rome", "Oslo"], 90),
            "area": rng.uniform(20, 90, 90),
            "sold": np.datetime64("2020-01-01") + rng.integers(0, 900, 90).astype("m8[D]"),
            "sure": rng.uniform(0.5, 2, 90),
        }
    )
    table["price"] = 100.0 * (table["city"] == "Rome") + table["area"] + 0.125
    table.loc[::9, "city"] = None
    table.loc[::7, "area"] = np.nan
    table.to_csv("houses.csv", index=False)
    table.to_parquet("houses.parquet")
    return table


@pytest.mark.parametrize("path", ["houses.csv", "houses.parquet"])
def test_plain_settings_take_texts_dates_and_gaps(path, houses):
    summary, saved, told = fit(path, "--target", "price", "--drop", "name")
    assert isinstance(saved.model, Pipeline)
    assert isinstance(saved.model["model"], KernelRegressor)
    assert told.count("mercer.TablePreparer") == 1
    assert summary["score"]["r2"] > 0.5
    inputs = houses[["city", "area", "sold", "sure"]]
    assert list(saved.model.feature_names_in_) == list(inputs)
    again = KernelRegressor("fourier", n_components=20, random_state=0)
    numbers = saved.model["preparer"].transform(inputs)
    expected = again.fit(numbers, houses["price"]).predict(numbers)
    np.testing.assert_allclose(saved.model.predict(inputs), expected, rtol=1e-6)


def test_numbers_without_gaps_need_no_treatment(houses):
    summary, saved, told = fit("houses.csv", "--target", "price", "--features", "sure")
    assert isinstance(saved.model, KernelRegressor)
    assert "TablePreparer" not in told
    assert (summary["d"], saved.feature_names) == (1, ["sure"])


def test_columns_are_left_out_by_their_use(houses):
    options = ("--drop", "sold, city", "--id", "name", "--weights", "sure")
    summary, saved, _ = fit("houses.csv", "--target", "price", *options)
    assert saved.feature_names == ["area"]
    assert (saved.settings["id"], saved.settings["drop"]) == (["name"], ["sold", "city"])
    assert summary["weights"] == "sure"


def test_weights_are_those_of_the_fit(houses):
    given = ("houses.csv", "--target", "price", "--features", "city")
    models = [fit(*given, *more)[1].model for more in ((), ("--weights", "sure"))]
    X = houses[["city"]]
    prepared = models[1]["preparer"].transform(X)
    again = KernelRegressor("fourier", n_components=20, random_state=0)
    again.fit(prepared, houses["price"], sample_weight=houses["sure"])
    np.testing.assert_allclose(models[1].predict(X), again.predict(prepared), rtol=1e-6)
    assert not np.allclose(models[0].predict(X), models[1].predict(X), rtol=1e-6)


def test_weights_and_groups_reach_automatic_models(houses, monkeypatch):
    seen = {}

    def plain_fit(self, X, y, sample_weight=None, groups=None):
        seen.update(weights=sample_weight, groups=groups, columns=list(X.column_names))
        raise KeyboardInterrupt

    monkeypatch.setattr(AutoKernelRegressor, "fit", plain_fit)
    given = ("--weights", "sure", "--groups", "city", "--drop", "name", "--out", "m")
    full = houses.dropna()
    full.to_csv("full.csv", index=False)
    assert run("fit", "full.csv", "--target", "price", *given).exit_code == 130
    np.testing.assert_allclose(seen["weights"], full["sure"])
    same = full["city"].to_numpy()[:, None] == full["city"].to_numpy()
    np.testing.assert_array_equal(seen["groups"][:, None] == seen["groups"], same)
    assert seen["columns"] == ["area", "sold"]


def test_rows_without_a_target_are_left_out_and_counted(houses):
    whole = houses.copy()
    whole.loc[[3, 5, 8], "price"] = None
    whole.to_csv("some.csv", index=False)
    whole.drop([3, 5, 8]).to_csv("known.csv", index=False)
    given = ("--target", "price", "--features", "area,city")
    summary, saved, told = fit("some.csv", *given)
    assert "left out: 3 rows whose target is missing" in told
    assert (summary["n"], summary["n_left_out"]) == (87, 3)
    X = houses[["area", "city"]]
    known = fit("known.csv", *given)[1]
    np.testing.assert_array_equal(saved.model.predict(X), known.model.predict(X))


WRONG = [
    (("--drop", "cty"), "--drop: houses.csv has no column 'cty'; did you mean 'city'?"),
    (("--drop", "x,y"), "--drop: houses.csv has no column 'x'"),
    (("--features", "area,aera"), "--features: houses.csv has no column 'aera'"),
    (("--id", "nam"), "did you mean 'name'?"),
    (("--features", "area,price"), "--features and --target must not both name 'price'"),
    (("--weights", "sure", "--drop", "sure"), "must not both name 'sure'"),
    (("--weights", "city"), "--weights must name a column of numbers; 'city' holds string"),
    (("--weights", "area"), "finite numbers of at least 0; 'area' holds others in 13 rows"),
    (("--groups", "city"), "--groups must be known of every row; 10 lack 'city'"),
    (("--groups", "name"), "--groups must be left out for KernelRegressor"),
    (("--drop", "name,city,area,sold,sure"), "no column left to learn from"),
    (("--scoring", "r2"), "--scoring must be left out beside options that say how"),
    (("--time", "sold"), "--time must be left out beside options that say how"),
    (("--scoring", "roc"), "--scoring knows no 'roc'; did you mean"),
    (("--map", "ngrams"), "a map of texts needs one column of texts, named by --features; got 5"),
    (("--report", "none/page.html"), "there is no folder none"),
]


@pytest.mark.usefixtures("houses")
@pytest.mark.parametrize(("more", "message"), WRONG, ids=[" ".join(w[0]) for w in WRONG])
def test_what_makes_no_sense_is_one_sentence(more, message, tmp_path):
    how = () if "--map" in more else HOW
    given = ("fit", "houses.csv", "--target", "price", "--out", "m.skops", *how)
    assert message in refusal(*given, *more)
    assert not (tmp_path / "m.skops").exists()


def test_nothing_said_of_the_target_lists_the_columns(houses):
    said = refusal("fit", "houses.csv", "--out", "m.skops")
    assert "name the column with --target, one of name, city, area, sold, sure, price." in said


def test_names_of_columns_need_columns_with_names():
    np.savez("plain.npz", X=np.eye(5), y=np.arange(5.0))
    Path("bare.csv").write_text("1,2\n2,3\n4,5\n")
    for data, reason in (
        ("plain.npz", "plain.npz is none"),
        ("bare.csv", "bare.csv has no header"),
        ("letter", "letter is a known data set"),
    ):
        target = ("--target", "1") if data == "bare.csv" else ()
        said = refusal("fit", data, *target, "--out", "m.skops", "--drop", "a")
        assert "--drop needs a file with names of columns" in said
        assert reason in said


CSV = {
    "byte order mark": "\ufeffa,b,y\n1,2,3.5\n2,3,4.5\n",
    "semicolons": "a;b;y\n1;2;3.5\n2;3;4.5\n",
    "decimal commas": "a;b;y\n1,0;2;3,5\n2,0;3;4,5\n",
    "quoted line ends": '"a",b,y\n1,2,"3.5"\n2,3,4.5\n',
    "blank lines": "\na,b,y\n\n1,2,3.5\n\n2,3,4.5\n\n",
    "windows": "a,b,y\r\n1,2,3.5\r\n2,3,4.5\r\n",
}


@pytest.mark.parametrize("text", CSV.values(), ids=CSV)
def test_dialects_of_csv_say_the_same(text, tmp_path):
    (tmp_path / "t.csv").write_text(text, encoding="utf-8", newline="")
    table = datasets.read("t.csv", "y")
    np.testing.assert_array_equal(table.X, [[1, 2], [2, 3]])
    np.testing.assert_array_equal(table.y, [3.5, 4.5])


def test_a_comma_in_a_text_is_no_decimal_one(tmp_path):
    (tmp_path / "t.csv").write_text("a;b;y\n1,5;2.5;x\n2,5;3;x,y\n")
    table = datasets.read("t.csv", "y", raw=True)
    assert table.X[:, 0].tolist() == ["1,5", "2,5"]
    assert table.y.tolist() == ["x", "x,y"]


def test_a_text_far_below_numbers_makes_a_column_of_texts(tmp_path, monkeypatch):
    monkeypatch.setattr(datasets.csv_text, "_BLOCK", 64)
    rows = [f"{i},{i},{i}.5" for i in range(100)]
    (tmp_path / "t.csv").write_text("\n".join(["a,code,y", *rows, "1,K1,2.5"]))
    assert datasets.read("t.csv", "y", raw=True).X[-1, 1] == "K1"
    assert datasets.read("t.csv", "y", raw=True).X[0, 1] == "0"
    with pytest.raises(datasets.DataError, match=r"Row #102: .*'K1'"):
        datasets.read("t.csv", "y")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("t.csv", b"", "t.csv is empty"),
        ("t.csv", b"a,y\n", "holds a header and no row"),
        ("t.csv", b"a,a,y\n1,2,3\n", "column name a is more than once"),
        ("t.csv", b"a,y\n1,\n2,\n", "the column 'y' is empty in all 2 rows"),
        ("t.csv", "a,y\nü,1\n".encode("latin-1"), "is not UTF-8 text"),
        ("t.csv", b"a,y\n1,2\n1,2,3\n", "Expected 2 columns, got 3"),
        ("t.parquet", b"", "t.parquet is empty"),
        ("t.parquet", b"PAR1PAR1", "is not a whole Parquet file"),
    ],
    ids=["empty", "header", "twice", "no target", "latin", "ragged", "0 bytes", "cut off"],
)
def test_files_that_are_no_tables_are_one_sentence(name, content, message, tmp_path):
    (tmp_path / name).write_bytes(content)
    assert message in refusal("fit", name, "--target", "y", "--out", "m.skops", *HOW)


def test_a_map_of_texts_takes_a_column_of_them(tmp_path):
    words = ["good film", "bad film", "a good one", "so bad"] * 10
    pd.DataFrame({"said": words, "y": ["+", "-"] * 20}).to_csv("said.csv", index=False)
    done = run("fit", "said.csv", "--target", "y", "--map", "ngrams", "--out", "m.skops")
    assert done.exit_code == 0, done.output
    done = run("predict", "m.skops", "said.csv", "--out", "p.csv", "--json")
    assert json.loads(done.stdout)["score"] == {"accuracy": 1}


# --- what is told ------------------------------------------------------------------------------


@pytest.fixture
def known_scores(monkeypatch):
    """Automatic models that know how they did on the rows held out."""
    plain = AutoKernelRegressor.fit

    def fit(self, X, y, **more):
        plain(self, X, y, **more)
        self.validation_score_, self.n_validation_rows_ = 0.75, 18
        return self

    monkeypatch.setattr(AutoKernelRegressor, "fit", fit)


@pytest.mark.usefixtures("known_scores")
def test_the_score_of_rows_held_out_stands_beside_that_of_the_training_rows(houses):
    told = run("fit", "houses.csv", "--target", "price", "--id", "name", "--out", "m.skops").stdout
    assert "r2 0.7500 on 18 rows held out in the search" in told
    assert "on the training rows (no test part" in told


@pytest.mark.parametrize("path", ["houses.csv", "numbers.parquet"])
def test_rows_held_out_by_time_are_told(path, houses):
    houses["day"] = (houses["sold"] - houses["sold"].min()).dt.days
    houses[["sure", "day", "price"]].to_parquet("numbers.parquet")
    how = ("--time", "sold", "--id", "name")
    how = how if path == "houses.csv" else ("--time", "day", "--out-of-core")
    given = ("fit", path, "--target", "price", *how, "--out", "m.skops")
    done = run(*given, "--report", "page.html", "--json")
    assert done.exit_code == 0, done.output
    column = "'sold'" if path == "houses.csv" else "1"
    summary = json.loads(done.stdout)
    assert summary["time"] == how[1]
    assert not summary["validation"]["cross_validated"]
    by = f"later by column {column} than all rows fitted"
    assert by in held_out_words(summary["validation"], "r2")
    assert by in " ".join(run("show", "m.skops").stdout.split())
    assert "they are later than all rows fitted" in Path("page.html").read_text("utf-8")


@pytest.mark.usefixtures("houses")
@pytest.mark.parametrize(
    ("how", "message"),
    [
        (("--time", "sld"), "--time: houses.csv has no column 'sld'; did you mean 'sold'?"),
        (("--time", "sold", "--drop", "sold"), "'sold' is named by --drop"),
        (("--time", "sold", "--features", "area"), "--features lacks 'sold'"),
        (("--time", "price"), "'price' is named by --target"),
        (("--time", "city"), "time must name a column of numbers or dates; 'city' holds texts"),
        (("--time", "area"), "time must name a column without missing cells; 'area' lacks 13 of"),
    ],
)
def test_columns_that_give_no_time_are_one_sentence(how, message):
    assert message in refusal("fit", "houses.csv", "--target", "price", "--out", "m.skops", *how)


def test_time_needs_columns_with_names():
    np.savez("rows.npz", X=np.eye(40), y=np.arange(40.0))
    said = refusal("fit", "rows.npz", "--time", "x0", "--out", "m.skops")
    assert "--time needs a file with names of columns" in said


@pytest.mark.usefixtures("houses")
def test_a_report_is_asked_of_the_model_and_the_test_part(monkeypatch):
    asked = []
    monkeypatch.setattr(report, "write_page", lambda *given: asked.append(given))
    summary, *_ = fit("houses.csv", "--target", "price", "--id", "name", "--report", "page.html")
    [(*arguments, origin)] = asked
    assert isinstance(arguments[0], Pipeline)
    assert str(arguments[1]) == summary["report"] == "page.html"
    assert arguments[2:] == [None, None, "price of houses"]
    assert (origin.model_file, origin.n_rows) == ("m.skops", 90)
    assert origin.task_note.startswith("task: regression, ")


def test_messages_of_the_library_are_lines_if_asked_for(houses, monkeypatch):
    plain = KernelRegressor.fit

    def fit_and_tell(self, X, y, **more):
        logging.getLogger("mercer").info("tree 1 of 2")
        return plain(self, X, y, **more)

    monkeypatch.setattr(KernelRegressor, "fit", fit_and_tell)
    given = ("fit", "houses.csv", "--target", "price", "--id", "name", "--out", "m.skops", *HOW)
    assert "tree 1 of 2" in run(*given, "--verbose").stderr.splitlines()
    assert "tree 1" not in run(*given).stderr
    assert not [h for h in logging.getLogger("mercer").handlers if isinstance(h, options._Messages)]


@pytest.mark.skipif(
    "scoring" not in signature(AutoKernelRegressor).parameters, reason="models have no scoring"
)
def test_an_automatic_model_is_chosen_by_the_score_that_is_named(houses):
    given = ("fit", "houses.csv", "--target", "price", "--id", "name", "--out", "m.skops")
    done = run(*given, "--scoring", "neg_mean_absolute_error", "--json")
    assert done.exit_code == 0, done.output
    assert persistence.load("m.skops").scoring == "neg_mean_absolute_error"
    assert next(iter(json.loads(done.stdout)["score"])) == "neg_mean_absolute_error"


def test_names_with_commas_stand_in_quotes():
    from mercer.cli.roles import names_in

    assert names_in(' a, "b, c",a') == ("a", "b, c")
    assert names_in(None) == ()
    assert fit_options.scorer_name("r2") == "r2"


def test_targets_of_money_are_numbers():
    area = np.random.default_rng(0).uniform(20, 200, 300)
    table = pd.DataFrame({"area": area, "price": [f"${900 * a:,.0f}" for a in area]})
    table.to_csv("flats.csv", index=False)
    told = run("fit", "flats.csv", "--target", "price", "--out", "m.skops")
    assert told.exit_code == 0
    assert "task: regression" in told.stderr
    assert "read as '$, 1,234.5'" in told.stderr
    table.loc[3, "price"] = ""
    table.to_csv("new.csv", index=False)
    told = run("predict", "m.skops", "new.csv", "--out", "p.csv", "--json")
    assert json.loads(told.stdout)["scored_rows"] == 299
    assert json.loads(told.stdout)["score"]["r2"] > 0.99
    table["price"] = "a lot"
    table.to_csv("new.csv", index=False)
    told = run("predict", "m.skops", "new.csv", "--out", "p.csv", "--json")
    assert "score" not in json.loads(told.stdout)


def test_targets_that_are_neither_numbers_nor_classes_are_refused():
    table = pd.DataFrame({"area": range(300), "note": [f"flat {i} here" for i in range(300)]})
    table.to_csv("flats.csv", index=False)
    sentence = refusal("fit", "flats.csv", "--target", "note", "--out", "m.skops")
    assert "300 different texts in 300 rows, such as flat 0 here: neither numbers nor" in sentence


def test_the_shipped_table_is_fitted_and_predicted_by_its_name():
    summary, saved, _ = fit("flats", "--target", "price", "--drop", "sold")
    assert (summary["data"], summary["n"], summary["d"]) == ("flats", 480, 7)
    assert saved.target == "price"
    assert fit("flats")[0]["target"] == "price"
    done = run("predict", "m.skops", "flats", "--id", "city", "--out", "p.csv")
    assert done.exit_code == 0, done.output
    assert "by the target that flats holds" in done.stdout
    assert list(pd.read_csv("p.csv")) == ["city", "prediction"]


def test_a_file_precedes_a_shipped_table_of_its_name(houses):
    Path("houses.csv").rename("flats")
    assert fit("flats", "--target", "price", "--features", "sure")[0]["n"] == len(houses)
