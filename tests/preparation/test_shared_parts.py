"""Treatments of the same rows share parts, and are equal to those that share nothing."""

from itertools import product

import numpy as np
import pandas as pd
import pytest

from mercer.preparation import TablePreparer, read, treated
from mercer.preparation.frames import frame_of

N = 160
SETTINGS = [
    dict(zip(("numbers", "labels", "identities", "max_integers"), values, strict=True))
    for values in product(
        ("robust", "quantile"), ("codes", "numbers", "words", "plain"),
        (False, True), (0, 20),
    )
]  # fmt: skip


@pytest.fixture(scope="module")
def columns():
    rng = np.random.default_rng(0)
    words = np.array(["red", "blue", "old", "new", "small", "large", "house", "flat", "river"])
    frame = pd.DataFrame(
        {
            "x": rng.normal(size=2 * N),
            "few": rng.integers(0, 5, 2 * N),
            "day": pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 300, 2 * N), "D"),
            "kind": rng.choice(list("abc"), 2 * N),
            "name": rng.choice([f"n{i}" for i in range(30)], 2 * N),
            "size": [f"{v:.1f} m" for v in rng.uniform(1, 99, 2 * N)],
            "text": [" ".join(rng.choice(words, 6)) for _ in range(2 * N)],
        }
    )
    frame.loc[::9, "x"] = np.nan
    names = list(frame.columns)
    fitted = read(frame_of(frame[:N]), names)
    return fitted, read(frame_of(frame[N:]), names, fitted.reading()), rng.normal(size=N)


def of(settings, columns, *once):
    fitted, others, y = columns
    preparer = TablePreparer(random_state=np.random.default_rng(5), **settings)
    out = treated(preparer, fitted, others, y, None, None, *once)
    return *out, preparer.get_feature_names_out(fitted.names)


def test_shared_parts_change_no_bit(columns):
    kept, n_made = {}, 0

    def once(key, make):
        nonlocal n_made
        if key not in kept:
            kept[key] = make()
            n_made += 1
        return kept[key]

    for settings in SETTINGS:
        for shared, alone in zip(of(settings, columns, once), of(settings, columns), strict=True):
            np.testing.assert_array_equal(shared, alone)
    assert n_made < 3 * len(SETTINGS)  # of 12 parts and transforms for each
