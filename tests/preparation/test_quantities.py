"""Numbers that columns of texts begin with."""

import numpy as np
import pandas as pd
import pytest

from mercer import AutoKernelRegressor, TablePreparer, persistence
from mercer.preparation.columns import Labels
from mercer.preparation.numeric import Numbers
from mercer.preparation.quantities import Quantities, _folded, _read


def numbers_of(text):
    return [(quantity.low, quantity.high, quantity.unit) for quantity in _read(_folded(text))]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("23.4 kmpl", [(23.4, 23.4, "kmpl")]),
        ("1248 CC", [(1248, 1248, "cc")]),
        ("2100 - 2850", [(2100, 2850, "")]),
        ("$2,100 to $2,850", [(2100, 2850, "")]),
        ("5 lbs - 7 lbs", [(5, 7, "lbs")]),
        ("10,000+", [(10_000, 10_000, "")]),
        (">20", [(20, 20, "")]),
        ("12,50,000", [(1_250_000, 1_250_000, "")]),
        ("1,5 kg", [(1.5, 1.5, "kg")]),
        ("-3.5 °C", [(-3.5, -3.5, "")]),
        ("1.2 Lacs", [(1.2, 1.2, "lacs")]),
        ("34.46Sq. Meter", [(34.46, 34.46, "sqmeter")]),
        ("190Nm@ 1800-2000rpm", [(190, 190, "nm"), (1800, 2000, "rpm")]),
        ("1e3 m", [(1000, 1000, "m")]),
    ],
)
def test_numbers_ranges_and_units_are_read(text, expected):
    assert numbers_of(text) == expected


def column_of(texts, name="x"):
    """Table of one column, and how a preparer treats it."""
    table = pd.DataFrame({name: texts})
    preparer = TablePreparer("standard", max_labels=0).fit(table, np.arange(len(texts)) % 7 / 2)
    return preparer, table


def values_of(texts):
    """Numbers read from the texts, before they are scaled; None if there are none."""
    different = list(dict.fromkeys(texts))
    labels = Labels(different, np.array([different.index(text) for text in texts]))
    part = Quantities(Numbers("standard", False))
    if part.fit_transform(labels, np.arange(len(texts))) is None:
        return None
    return part._values(part._found(different))[labels.codes][:, part.kept]


def test_units_of_one_dimension_become_the_commonest_one():
    texts = [f"{i} kg" for i in range(50)] + ["500 g", "2.2 lbs", "3 hours"]
    np.testing.assert_allclose(
        values_of(texts)[-3:, 0], [0.5, 2.2 * 0.453592, np.nan], equal_nan=True
    )


def test_bare_numbers_are_in_the_commonest_unit():
    texts = [f"{i} m" for i in range(1, 50)] + ["7", "90 cm"]
    np.testing.assert_allclose(values_of(texts)[-2:, 0], [7.0, 0.9])


def test_bare_numbers_of_new_rows_are_in_the_unit_of_the_fit():
    fitted = pd.DataFrame({"mileage": [f"{i / 4} kmpl" for i in range(200)]})
    preparer = TablePreparer().fit(fitted)
    place = preparer.get_feature_names_out().tolist().index("mileage:kmpl")
    bare = pd.DataFrame({"mileage": [i / 4 for i in range(200)]})
    expected = preparer.transform(fitted)[:, place]
    for rows in (bare, bare.astype(str)):
        np.testing.assert_allclose(preparer.transform(rows)[:, place], expected)


def test_words_for_thousands_multiply():
    texts = [f"{i / 4} Lacs" for i in range(1, 50)] + ["2 Cr", "900 K"]
    np.testing.assert_allclose(values_of(texts)[-2:, 0], [200.0, 9.0])


def test_a_range_gives_its_middle_and_its_width():
    texts = [str(i) for i in range(60)] + ["10 - 20", "30-50", "7 to 8", "90 - 100"]
    values = values_of(texts)
    np.testing.assert_allclose(values[-4:], [[15, 10], [40, 20], [7.5, 1], [95, 10]])
    np.testing.assert_allclose(values[:60, 1], 0)


def test_texts_without_a_number_are_missing_numbers_and_marked():
    preparer, table = column_of([f"{i} cc" for i in range(40)] + ["not known", "none of it"])
    out = pd.DataFrame(preparer.transform(table), columns=preparer.get_feature_names_out())
    assert out["x:cc=missing"].tolist() == [0] * 40 + [1, 1]
    assert (out["x:cc"].iloc[40:] == 0).all()
    assert np.corrcoef(out["x:cc"][:40], np.arange(40))[0, 1] > 1 - 1e-12


@pytest.mark.parametrize(
    "texts",
    [
        [f"{i} {chr(97 + i % 26)}{chr(97 + i // 26)} street" for i in range(600)],  # addresses
        [f"{i:05d}" for i in range(60)] + ["unknown"],  # codes of the post
        [f"model {i}" for i in range(60)],
        [f"1.{i}.{i % 7}" for i in range(60)],  # versions
        [f"{i % 12 + 1}:{i:02d} h" for i in range(60)],  # times of the day
        ["3 rooms"] * 20 + ["none at all"] * 40,
    ],
)
def test_codes_names_and_addresses_are_no_numbers(texts):
    assert values_of(texts) is None


def test_one_number_with_a_unit_gives_the_same_predictions_as_the_number(rng):
    x = rng.integers(1, 1000, size=300)
    y = np.log(x) + 0.01 * rng.normal(size=300)
    as_text = pd.DataFrame({"x": [f"{value:,} km" for value in x]})
    scores = [
        AutoKernelRegressor(random_state=0).fit(table[:200], y[:200]).score(table[200:], y[200:])
        for table in (as_text, pd.DataFrame({"x": x}))
    ]
    assert scores[0] > 0.99
    assert scores[1] > 0.99


def test_the_labels_stay_beside_the_numbers():
    texts = ["2 BHK", "3 BHK", "4 Bedroom", "2 RK"] * 10
    table = pd.DataFrame({"size": texts})
    preparer = TablePreparer().fit(table)
    names = preparer.get_feature_names_out().tolist()
    assert names == ["size=2 BHK", "size=2 RK", "size=3 BHK", "size=4 Bedroom", "size:bhk"]
    codes = TablePreparer(labels="codes").fit(table).get_feature_names_out().tolist()
    assert codes == names[:4]


def test_words_bring_labels_that_share_them_together(rng):
    makers, models = ["Maruti", "Honda", "Tata", "Skoda"], [f"Model {i}" for i in range(40)]
    names = [f"{rng.choice(makers)} {rng.choice(models)}" for _ in range(600)]
    y = np.array([makers.index(name.split()[0]) for name in names]) + 0.1 * rng.normal(size=600)
    table = pd.DataFrame({"name": names})
    errors = {}
    for labels in ("codes", "words"):
        preparer = TablePreparer(labels=labels, target="continuous", random_state=0)
        fitted = preparer.fit_transform(table[:300], y[:300])
        held = preparer.transform(table[300:])
        coef, *_ = np.linalg.lstsq(np.c_[fitted, np.ones(300)], y[:300], rcond=None)
        errors[labels] = np.mean((np.c_[held, np.ones(300)] @ coef - y[300:]) ** 2)
    assert errors["words"] < 0.1 * errors["codes"]


def test_labels_must_be_one_of_three_ways():
    with pytest.raises(ValueError, match="labels must be one of 'codes', 'numbers', 'words'"):
        TablePreparer(labels="codez").fit([["a"], ["b"]])


def test_a_saved_preparer_reads_numbers_as_before(tmp_path):
    preparer, table = column_of([f"{i} - {i + i % 5} km" for i in range(50)])
    persistence.save(preparer, tmp_path / "preparer.skops")
    again = persistence.load(tmp_path / "preparer.skops")
    np.testing.assert_array_equal(again.transform(table), preparer.transform(table))
