"""Columns that tell whether two rows have the same label or whole number."""

import numpy as np
import pandas as pd
import pytest

from mercer import TablePreparer, config_context, persistence
from mercer.preparation import column_names, has_identities, read
from mercer.preparation.frames import frame_of
from mercer.preparation.numeric import MOST_IDENTITIES


def households(n=400, n_households=40, seed=0):
    rng = np.random.default_rng(seed)
    who = rng.integers(0, n_households, n)
    table = pd.DataFrame(
        {
            "household": [f"h{number:03d}" for number in who],
            "year": 1990 + rng.integers(0, 12, n),
            "price": rng.normal(size=n),
            "count": rng.integers(0, 5, n),
        }
    )
    return table, rng.normal(size=n_households)[who] + 0.1 * rng.normal(size=n)


def told_apart(table):
    frame = frame_of(table)
    return has_identities(read(frame, column_names(frame)), 20)


def columns_of(preparer, prefix):
    return [name for name in preparer.get_feature_names_out() if name.startswith(prefix)]


def test_labels_and_whole_numbers_that_repeat_have_a_column_each():
    table, y = households()
    preparer = TablePreparer(identities=True, random_state=0)
    Z = preparer.fit_transform(table, y)
    names = preparer.get_feature_names_out().tolist()
    assert len(columns_of(preparer, "household=h")) == table["household"].nunique()
    assert columns_of(preparer, "year=") == [f"year={year}" for year in range(1990, 2002)]
    assert "household:code" in names
    assert "year" in names
    assert columns_of(preparer, "count") == ["count"]  # 5 values: their distances tell them apart
    assert told_apart(table)
    assert not preparer.has_few_integers
    own = Z[:, names.index("year=1995")]
    np.testing.assert_array_equal(own, table["year"] == 1995)
    plain = TablePreparer(random_state=0)
    rest = plain.fit_transform(table, y)
    kept = [names.index(name) for name in plain.get_feature_names_out()]
    np.testing.assert_array_equal(Z[:, kept], rest)


def test_labels_of_one_row_and_unknown_ones_have_no_column():
    table, y = households()
    table.loc[0, "household"] = "alone"
    preparer = TablePreparer(identities=True, random_state=0).fit(table, y)
    assert "household=alone" not in columns_of(preparer, "household=")
    other = table.iloc[:2].assign(household=["alone", "new"], year=[1995, 2050])
    Z = preparer.transform(other)
    names = preparer.get_feature_names_out().tolist()
    of_households = [names.index(name) for name in columns_of(preparer, "household=")]
    of_years = [names.index(name) for name in columns_of(preparer, "year=")]
    assert not Z[:, of_households].any()
    assert Z[0, of_years].sum() == 1
    assert not Z[1, of_years].any()


def test_columns_in_which_most_rows_stand_alone_have_no_identities():
    rng = np.random.default_rng(0)
    table = pd.DataFrame(
        {"row": [f"r{i:04d}" for i in range(300)], "amount": rng.permutation(3000)[:300]}
    )
    table["other"] = rng.normal(size=300)
    with pytest.warns(UserWarning, match="left out"):
        preparer = TablePreparer(identities=True).fit(table, rng.normal(size=300))
    assert not told_apart(table)
    assert not any("=" in name for name in preparer.get_feature_names_out())


def test_at_most_a_thousand_values_of_a_column_have_one():
    rng = np.random.default_rng(0)
    n = 6000
    table = pd.DataFrame({"code": rng.integers(0, 1500, n), "x": rng.normal(size=n)})
    preparer = TablePreparer(identities=True).fit(table)
    assert len(columns_of(preparer, "code=")) == MOST_IDENTITIES
    counts = table["code"].value_counts()
    kept = [int(name.removeprefix("code=")) for name in columns_of(preparer, "code=")]
    assert counts[kept].min() >= counts.drop(kept).max()


def test_missing_whole_numbers_are_no_value():
    table, y = households()
    table["year"] = table["year"].astype(float)
    table.loc[:20, "year"] = np.nan
    preparer = TablePreparer(identities=True, random_state=0).fit(table, y)
    Z = preparer.transform(table)
    names = preparer.get_feature_names_out().tolist()
    of_years = [names.index(name) for name in columns_of(preparer, "year=") if "miss" not in name]
    assert len(of_years) == 12
    assert not Z[:21, of_years].any()


def test_a_file_holds_the_columns(tmp_path):
    table, y = households()
    preparer = TablePreparer(identities=True, random_state=0).fit(table, y)
    persistence.save(preparer, tmp_path / "preparer.mercer")
    loaded = persistence.load(tmp_path / "preparer.mercer")
    np.testing.assert_array_equal(loaded.transform(table), preparer.transform(table))


def test_whether_there_are_identities_is_true_or_false():
    with pytest.raises(TypeError, match="identities must be"):
        TablePreparer(identities="yes").fit(np.ones((3, 1)))


def test_columns_without_room_are_refused_before_they_are_made():
    table, y = households(4000, 900)
    with config_context(max_memory="20MB"), pytest.raises(MemoryError, match="identities=False"):
        TablePreparer(identities=True).fit(table, y)
