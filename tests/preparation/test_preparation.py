"""What a table turns into, and what it never does."""

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import mercer
from _conventions import parametrize_with_settings
from _polars import pl
from mercer import TablePreparer, persistence
from mercer.preparation import numeric

TREATMENTS = ["robust", "standard", "quantile"]
EXPECTED = {
    "check_dataframe_column_names_consistency": "columns are found by their names",
    "check_sample_weight_equivalence_on_dense_data": "weights count in codes, not in scales",
}


@pytest.mark.filterwarnings("ignore:Skipping check check_array_api_input")
@parametrize_with_settings(
    [TablePreparer()],
    [TablePreparer("quantile", max_integers=10), TablePreparer("standard")],
    expected_failed_checks=lambda _: EXPECTED,
)
def test_scikit_learn_conventions(estimator, check):
    check(estimator)


def frame(n=200, seed=0):
    """A column of every kind, with some cells empty."""
    rng = np.random.default_rng(seed)
    dates = np.datetime64("2020-01-01") + rng.integers(0, 900, n).astype("timedelta64[D]")
    table = pd.DataFrame(
        {
            "age": rng.normal(40, 10, n),
            "rooms": rng.integers(1, 6, n),
            "owner": rng.random(n) < 0.4,
            "city": rng.choice(["Rome", "Oslo", "Lima"], n),
            "kind": pd.Categorical(rng.choice(["a", "b"], n)),
            "street": rng.choice([f"street {i}" for i in range(60)], n),
            "sold": pd.Series(dates).astype("datetime64[us]"),
        }
    )
    table.loc[::7, "age"] = np.nan
    table.loc[::11, "city"] = None
    table.loc[::13, "sold"] = pd.NaT
    return table


def column(preparer, table, name):
    names = preparer.get_feature_names_out().tolist()
    return preparer.transform(table)[:, names.index(name)]


# numbers


@pytest.mark.parametrize("treatment", TREATMENTS)
def test_every_column_has_mean_zero_and_variance_one(treatment):
    X = np.random.default_rng(0).lognormal(size=(500, 4))
    out = TablePreparer(treatment).fit_transform(X)
    np.testing.assert_allclose(out.mean(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(out.std(axis=0), 1)


def treated_alone(column, treatment):
    """The slow twin: one column, by its known numbers."""
    known = column[~np.isnan(column)]
    values = np.unique(known)
    if treatment != "standard" and len(values) == 2:
        return np.where(np.isnan(column), 0.5, column == values[1])
    if treatment == "standard":
        out = column.copy()
    elif treatment == "robust":
        low, middle, high = np.quantile(known, [0.25, 0.5, 0.75])
        out = (column - middle) / ((high - low) / numeric._NORMAL)
        out = out / np.sqrt(1 + (out / 3) ** 2)
    else:
        levels = np.linspace(0, 1, 201)
        quantiles = np.quantile(known, levels)
        values = np.unique(quantiles)
        out = np.interp(column, values, [levels[quantiles == v].mean() for v in values])
        out[np.isnan(column)] = np.nan
    return np.nan_to_num((out - np.nanmean(out)) / np.nanstd(out))


@pytest.mark.rounding
@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("treatment", TREATMENTS)
def test_numbers_are_those_of_every_column_by_itself(treatment, missing, monkeypatch):
    monkeypatch.setattr(numeric, "_CACHED", 1000)  # of some rows at a time
    rng = np.random.default_rng(0)
    X = np.column_stack(
        [rng.lognormal(size=(700, 2)), 3.0 * rng.integers(0, 2, 700), rng.integers(0, 9, 700)]
    )
    if missing:
        X[rng.random(X.shape) < 0.1] = np.nan
    before = X.copy()
    numbers = numeric.Numbers(treatment, False)
    out = numbers.fit_transform(X, np.arange(700))
    expected = np.column_stack([treated_alone(column, treatment) for column in X.T])
    np.testing.assert_allclose(out, expected, rtol=1e-9, atol=1e-9)
    np.testing.assert_array_equal(numbers.transform(X), out)
    np.testing.assert_array_equal(X, before)


@pytest.mark.parametrize("treatment", ["robust", "quantile"])
def test_one_wild_outlier_hardly_moves_the_other_rows(treatment):
    X = np.random.default_rng(0).normal(size=(500, 1))
    wild = X.copy()
    wild[0] = 1e12
    tame_out = TablePreparer(treatment).fit_transform(X)
    wild_out = TablePreparer(treatment).fit_transform(wild)
    assert np.abs(wild_out - tame_out)[1:].max() < 0.05
    assert np.abs(wild_out).max() < 5


@pytest.mark.parametrize("treatment", TREATMENTS)
def test_numbers_near_the_largest_stay_finite(treatment):
    X = np.array([[1e308], [-1e308], [0.0], [1.0]])
    if treatment == "standard":
        pytest.skip("a variance of such numbers does not exist")
    assert np.isfinite(TablePreparer(treatment).fit_transform(X)).all()


@pytest.mark.parametrize("treatment", TREATMENTS)
def test_order_is_kept(treatment):
    X = np.sort(np.random.default_rng(0).standard_cauchy(size=(300, 1)), axis=0)
    assert (np.diff(TablePreparer(treatment).fit_transform(X)[:, 0]) >= 0).all()


@pytest.mark.parametrize("treatment", ["robust", "quantile"])
def test_two_values_become_zero_and_one(treatment):
    X = np.array([[3.0], [7.0], [3.0], [3.0]])
    assert TablePreparer(treatment).fit_transform(X).ravel().tolist() == [0, 1, 0, 0]


def test_most_values_alike_does_not_blow_up_the_rest():
    X = np.r_[np.zeros(990), np.arange(1, 11)][:, None]
    out = TablePreparer().fit_transform(X)
    assert len(np.unique(out)) == 11
    assert out.max() < 15


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("treatment", TREATMENTS)
def test_precision_comes_out_as_it_went_in(treatment, dtype):
    X = np.random.default_rng(0).normal(size=(50, 3)).astype(dtype)
    preparer = TablePreparer(treatment).fit(X)
    assert preparer.transform(X).dtype == dtype
    twin = TablePreparer(treatment).fit_transform(X.astype(np.float64))
    np.testing.assert_allclose(preparer.transform(X), twin, atol=1e-5)


# what is missing


@pytest.mark.parametrize("treatment", TREATMENTS)
def test_missing_numbers_get_the_mean_and_a_mark(treatment):
    X = np.random.default_rng(0).normal(size=(60, 2))
    X[::5, 1] = np.nan
    preparer = TablePreparer(treatment).fit(X)
    assert preparer.get_feature_names_out().tolist() == ["x0", "x1", "x1=missing"]
    out = preparer.transform(X)
    assert (out[::5, 1] == 0).all()
    np.testing.assert_array_equal(out[:, 2], np.isnan(X[:, 1]))


def test_missing_at_predict_alone_gets_the_mean():
    table = frame()
    full = table.dropna()
    preparer = TablePreparer().fit(full)
    out = preparer.transform(table)
    assert np.isfinite(out).all()
    age = preparer.get_feature_names_out().tolist().index("age")
    assert (out[table["age"].isna(), age] == 0).all()


def test_a_whole_empty_column_and_an_empty_row_are_no_trouble():
    table = frame()
    table["nothing"] = None
    with pytest.warns(UserWarning, match=r"^columns are left out: 'nothing' is empty\.$"):
        preparer = TablePreparer().fit(table)
    assert "nothing" not in preparer.get_feature_names_out()
    empty = pd.DataFrame({name: [None] for name in table.columns})
    assert np.isfinite(preparer.transform(empty)).all()


# labels


def test_few_labels_become_a_column_each_and_unseen_ones_none():
    table = pd.DataFrame({"city": ["Rome", "Oslo", "Lima", "Rome"]})
    preparer = TablePreparer().fit(table, [0.5, 1.5, 2.0, 0.1])
    assert preparer.get_feature_names_out().tolist() == ["city=Lima", "city=Oslo", "city=Rome"]
    new = pd.DataFrame({"city": ["Bonn", "Rome", None]})
    assert preparer.transform(new).tolist() == [[0, 0, 0], [0, 0, 1], [0, 0, 0]]


@pytest.mark.parametrize("known", [["m", "f"], ["m", None], ["f", "m", "x"], ["f", "m", None]])
def test_unknown_labels_are_as_far_from_one_label_as_from_another(known):
    table = pd.DataFrame({"sex": [*known, *known], "size": np.arange(2.0 * len(known))})
    preparer = TablePreparer("standard").fit(table, table["size"] / 3)
    fitted = preparer.transform(table)[: len(known), 1:]
    new = [["other", 0.0], *([["", 0.0], [None, 0.0]] if None not in known else [])]
    for row in preparer.transform(pd.DataFrame(new, columns=["sex", "size"]))[:, 1:]:
        distances = np.linalg.norm(fitted - row, axis=1)
        np.testing.assert_allclose(distances, distances[0])
        assert distances[0] > 0


@pytest.mark.parametrize("known", [["m", "f"], ["m", None], ["f", "m", "x"], list("abcdefg")])
def test_unknown_labels_without_targets_are_as_far_as_labels_from_each_other(known):
    fitted = pd.DataFrame({"sex": known})
    preparer = TablePreparer().fit(fitted)
    rows = preparer.transform(fitted)
    unknown = preparer.transform(pd.DataFrame({"sex": ["other"]}))
    least = np.linalg.norm(rows[1] - rows[0])
    assert (np.linalg.norm(rows - unknown, axis=1) >= least * (1 - 1e-12)).all()


def test_missing_labels_of_the_fit_are_a_label():
    table = pd.DataFrame({"city": ["Rome", None, "Lima"]})
    preparer = TablePreparer().fit(table)
    assert column(preparer, table, "city=missing").tolist() == [0, 1, 0]


def test_few_whole_numbers_become_labels_when_asked():
    X = np.random.default_rng(0).integers(0, 4, size=(80, 1)).astype(float)
    out = TablePreparer(max_integers=4).fit(X)
    assert out.get_feature_names_out().tolist() == ["x0=0", "x0=1", "x0=2", "x0=3"]
    np.testing.assert_array_equal(out.transform(X).argmax(axis=1), X[:, 0])
    assert TablePreparer(max_integers=3).fit_transform(X).shape == (80, 1)


def test_codes_of_a_label_are_its_mean_target_drawn_to_that_of_all():
    labels = np.repeat([f"l{i}" for i in range(30)], 10).astype(object)
    y = np.random.default_rng(0).normal(size=300)
    preparer = TablePreparer(target="continuous").fit(labels[:, None], y)
    codes = preparer.transform(labels[:, None])[:, 0]
    expected = (y - y.mean()).reshape(30, 10).sum(axis=1).repeat(10) / 20
    np.testing.assert_allclose(np.corrcoef(codes, expected)[0, 1], 1)


def test_codes_of_the_fit_know_nothing_of_their_own_targets():
    rng = np.random.default_rng(0)
    ids = np.array([f"id {i}" for i in range(2000)], dtype=object)[:, None]
    y = rng.normal(size=2000)
    assert (TablePreparer().fit_transform(ids, y) == 0).all()
    some = rng.choice(ids[:100, 0], size=(2000, 1))
    assert abs(np.corrcoef(TablePreparer().fit_transform(some, y)[:, 0], y)[0, 1]) < 0.1


def test_a_code_for_every_class_of_more_than_two():
    table = frame()[["street"]]
    y = np.random.default_rng(0).choice(["x", "y", "z"], len(table))
    names = TablePreparer().fit(table, y).get_feature_names_out().tolist()
    assert names == ["street:code x", "street:code y", "street:code z"]


def test_many_labels_without_targets_are_counted():
    labels = np.repeat([f"l{i}" for i in range(30)], np.arange(1, 31)).astype(object)
    preparer = TablePreparer()
    out = preparer.fit_transform(labels[:, None])[:, 0]
    assert (np.diff(out) >= 0).all()
    assert len(np.unique(out)) == 30
    assert preparer.transform([["never met"]])[0, 0] < out.min()


# dates


def test_dates_become_days_and_places_in_year_week_and_day():
    hours = np.arange(0, 24 * 900, 5).astype("timedelta64[h]")
    table = pd.DataFrame({"when": np.datetime64("2020-01-01") + hours})
    preparer = TablePreparer("standard").fit(table)
    out = dict(zip(preparer.get_feature_names_out(), preparer.transform(table).T, strict=True))
    assert len(out) == 7
    assert (np.diff(out["when"]) > 0).all()
    moment = table["when"].dt
    np.testing.assert_allclose(out["when:day sin"], np.sin(2 * np.pi * moment.hour / 24), atol=1e-9)
    weekdays = np.round(out["when:week cos"][moment.hour == 0], 6)
    assert len(np.unique(weekdays)) == 4  # cos repeats but for one of the seven days


# columns that say nothing


def test_constant_and_repeated_columns_are_left_out():
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, 50))
    X = np.column_stack([a, np.full(50, 3.0), b, a, 2 * a + 1])
    names = TablePreparer("standard").fit(X).get_feature_names_out().tolist()
    assert names[:2] == ["x0", "x2"]
    assert "x1" not in names
    assert "x3" not in names


def test_a_table_of_constants_keeps_one_column():
    assert TablePreparer().fit_transform(np.ones((5, 3))).tolist() == [[0]] * 5


# one table, many forms


def test_pandas_polars_and_objects_are_one_table():
    table = frame()
    y = np.random.default_rng(1).normal(size=len(table))
    expected = TablePreparer(random_state=0).fit_transform(table, y)
    other = TablePreparer(random_state=0)
    np.testing.assert_allclose(other.fit_transform(pl.from_pandas(table), y), expected)
    objects = table.astype(object).to_numpy()
    np.testing.assert_allclose(TablePreparer(random_state=0).fit_transform(objects, y), expected)


@pytest.mark.parametrize("dtype", ["Int64", "Float64", "boolean", "float32", "int8"])
def test_nullable_and_short_types_of_pandas_are_numbers(dtype):
    table = pd.DataFrame({"a": pd.Series([0, 1, 0, 1, 1]).astype(dtype), "b": np.arange(5.0)})
    out = TablePreparer().fit_transform(table)
    assert out[:, 0].tolist() == [0, 1, 0, 1, 1]


def test_columns_are_what_they_were_at_fit():
    preparer = TablePreparer().fit(pd.DataFrame({"a": [1.0, 2.0, 4.0], "b": ["1", "2", "3"]}))
    as_text = preparer.transform(pd.DataFrame({"a": ["1", "2", "4"], "b": [1, 2.0, 3]}))
    as_were = preparer.transform(pd.DataFrame({"a": [1.0, 2.0, 4.0], "b": ["1", "2", "3"]}))
    np.testing.assert_array_equal(as_text, as_were)
    with pytest.raises(ValueError, match="column 'a' must hold numbers, as it did at fit"):
        preparer.transform(pd.DataFrame({"a": ["x"], "b": ["1"]}))


def test_sparse_rows_are_scaled_and_stay_sparse():
    X = sparse.random_array((60, 8), density=0.3, format="csr", random_state=0)
    out = TablePreparer().fit_transform(X)
    assert sparse.issparse(out)
    np.testing.assert_allclose(abs(out).max(axis=0).toarray().ravel(), 1)
    assert (out.indptr == X.indptr).all()


# the transformer


@pytest.mark.parametrize("treatment", TREATMENTS)
def test_rows_do_not_see_each_other(treatment):
    table = frame()
    y = np.arange(len(table), dtype=float)
    preparer = TablePreparer(treatment, max_integers=8, random_state=0).fit(table, y)
    whole = preparer.transform(table)
    parts = [preparer.transform(table.iloc[i : i + 50]) for i in range(0, 200, 50)]
    np.testing.assert_array_equal(np.concatenate(parts), whole)


def test_fit_transform_is_fit_then_transform_where_no_label_is_coded():
    table = frame().drop(columns="street")
    preparer = TablePreparer(random_state=0)
    np.testing.assert_array_equal(
        preparer.fit_transform(table), clone(preparer).fit(table).transform(table)
    )


def test_names_and_origins_tell_every_column():
    table = frame()
    preparer = TablePreparer(random_state=0).fit(table, np.arange(len(table), dtype=float))
    names = preparer.get_feature_names_out()
    assert len(names) == len(set(names)) == preparer.transform(table).shape[1]
    for name, origin in zip(names, preparer.origins_, strict=True):
        assert name.startswith(table.columns[origin])


@pytest.mark.rounding
def test_pickles_and_files_transform_alike(tmp_path):
    table = frame()
    preparer = TablePreparer("quantile", max_integers=6, random_state=0)
    preparer.fit(table, np.arange(len(table), dtype=float))
    expected = preparer.transform(table)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(preparer)).transform(table), expected)
    persistence.save(preparer, tmp_path / "p.skops", task="regression")
    np.testing.assert_array_equal(persistence.load(tmp_path / "p.skops").transform(table), expected)


def test_set_output_names_the_columns():
    table = frame()
    preparer = TablePreparer().set_output(transform="pandas").fit(table)
    assert preparer.transform(table).columns.tolist() == preparer.get_feature_names_out().tolist()


@pytest.mark.rounding
def test_one_seed_one_outcome():
    table, y = frame(), np.arange(200.0)
    first, second = (TablePreparer(random_state=3).fit_transform(table, y) for _ in range(2))
    np.testing.assert_array_equal(first, second)


def test_twenty_rows_are_enough_and_one_is_no_error():
    table = frame()
    assert np.isfinite(TablePreparer().fit_transform(table[:20], np.arange(20.0))).all()
    with pytest.warns(UserWarning, match="'rooms' has one value"):
        assert np.isfinite(TablePreparer().fit_transform(table[:1], np.zeros(1))).all()


def test_no_other_warning_comes_out_than_of_columns_left_out():
    table = frame()
    table["empty"] = np.nan
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for treatment in TREATMENTS:
            TablePreparer(treatment).fit(table).transform(table)
    told = {str(warning.message) for warning in caught}
    assert told == {"columns are left out: 'empty' is empty."}


def test_a_repeated_column_names_the_first_one():
    table = pd.DataFrame({"size": np.arange(40.0), "city": list("ab") * 20})
    table["again"], table["town"] = table["size"], table["city"]
    with pytest.warns(UserWarning, match="'again' repeats 'size'; 'town' repeats 'city'"):
        TablePreparer().fit(table, np.arange(40.0))


@pytest.mark.parametrize("kind", ["datetime64[s]", "category", "float64"])
def test_an_empty_column_of_any_kind_is_called_empty(kind):
    table = pd.DataFrame({"size": np.arange(40.0), "none": pd.Series([None] * 40, dtype=kind)})
    with pytest.warns(UserWarning, match="'none' is empty"):
        TablePreparer().fit(table, np.arange(40.0))


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"numbers": "log"}, "numbers must be one of 'robust', 'standard', 'quantile'; got 'log'"),
        ({"max_labels": -1}, "max_labels must be at least 0; got -1"),
        ({"max_integers": 2.5}, "max_integers must be an integer; got 2.5"),
        ({"indicators": "no"}, "indicators must be True or False; got 'no'"),
        ({"target": "y"}, "target must be one of"),
    ],
)
def test_settings_that_make_no_sense_get_a_sentence(settings, sentence):
    with pytest.raises((ValueError, TypeError), match=sentence):
        TablePreparer(**settings).fit([[0.0], [1.0]])


def test_tables_that_do_not_fit_get_a_sentence():
    table = np.zeros((99_999, 3), dtype=object)  # numbers of a type would be treated in pieces
    with (
        mercer.config_context(max_memory="1MB"),
        pytest.raises(MemoryError, match=r"treatment of 99999 rows of 3 columns needs 9.2 MB but"),
    ):
        TablePreparer().fit(table)


@pytest.mark.parametrize("form", ["array", "frame"])
def test_infinite_numbers_get_a_sentence(form):
    X = np.array([[0.0, 1.0], [1.0, np.inf]])
    X = X if form == "array" else pd.DataFrame(X, columns=["a", "b"])
    with pytest.raises(ValueError, match="infinity"):
        TablePreparer().fit(X)


def test_other_things_than_numbers_strings_and_dates_get_a_sentence():
    with pytest.raises(TypeError, match="column 'a' holds a list"):
        TablePreparer().fit(pd.DataFrame({"a": [[1], [2]]}))
    with pytest.raises(TypeError, match="column 'a' holds"):
        TablePreparer().fit(pl.DataFrame({"a": [[1], [2]]}))


@pytest.mark.parametrize("fitted_before", [False, True])
def test_a_preparer_is_unfitted_after_an_interrupted_fit(fitted_before, monkeypatch):
    preparer, X = TablePreparer(), np.random.default_rng(0).normal(size=(30, 2))
    if fitted_before:
        preparer.fit(X)

    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(numeric.Numbers, "fit_transform", interrupted)
    with pytest.raises(KeyboardInterrupt):
        preparer.fit(X)
    with pytest.raises(NotFittedError):
        preparer.transform(X)


def test_codes_of_copies_of_a_row_are_equal():
    rng = np.random.default_rng(0)
    names = rng.choice([f"k{i}" for i in range(40)], 90).astype(object)
    table = np.column_stack([names, rng.normal(size=(90, 2)).astype(object)])
    y = rng.normal(size=90)
    for given, target in ((table, y), (pd.DataFrame(table), y)):
        rows = np.tile(np.arange(90), 3)
        many = given[rows] if isinstance(given, np.ndarray) else given.iloc[rows]
        found = TablePreparer(random_state=0).fit_transform(many, target[rows])
        np.testing.assert_array_equal(found[:90], found[90:180])
        np.testing.assert_array_equal(found[:90], found[180:])
