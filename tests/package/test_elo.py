"""benchmarks/elo.py: ratings follow the wins, whatever the number of splits and records."""

import runpy
from pathlib import Path

import numpy as np
import pytest

FILE = Path(__file__).parents[2] / "benchmarks" / "elo.py"

pytestmark = pytest.mark.skipif(not FILE.is_file(), reason="needs the whole repository")


@pytest.fixture(scope="module")
def elo():
    return runpy.run_path(str(FILE))


def run(data, contender, error, seed=0):
    return {"data": data, "rows": 9, "seed": seed, "contender": contender, "error": error}


def test_ratings_of_known_strengths_come_back(elo):
    known = np.array([1200.0, 1050.0, 750.0])
    odds = 10 ** ((known[:, None] - known) / 400)
    wins = 1e6 * odds / (1 + odds)
    np.fill_diagonal(wins, 0.0)
    np.testing.assert_allclose(elo["ratings"](wins), known, atol=0.01)


def test_a_table_counts_once_and_a_draw_for_both(elo):
    runs = [run("a", "x", 0.1, seed) for seed in range(4)]
    runs += [run("a", "y", error, seed) for seed, error in enumerate((0.2, 0.2, 0.05, 0.1))]
    runs += [run("b", "x", 0.3), run("b", "y", 0.2), run("c", "y", 0.2)]
    wins = elo["wins_of"](runs, ["x", "y"])
    np.testing.assert_allclose(wins[:, 0, 1], [0.625, 0.0, 0.0])
    np.testing.assert_allclose(wins[:, 1, 0], [0.375, 1.0, 0.0])


def test_ratings_are_finite_where_one_wins_all(elo):
    wins = np.array([[0.0, 5.0, 0.0], [0.0, 0.0, 5.0], [0.0, 0.0, 0.0]])
    found = elo["ratings"](wins)
    assert np.isfinite(found).all()
    assert found[0] > found[1] > found[2]
    assert found.mean() == pytest.approx(1000)


def test_intervals_hold_the_rating_and_shrink_with_tables(elo):
    rng = np.random.default_rng(0)

    def width(n):
        runs = [run(str(i), c, rng.normal(m)) for i in range(n) for c, m in (("x", 0), ("y", 0.5))]
        wins = elo["wins_of"](runs, ["x", "y"])
        low, high = elo["intervals"](wins, 200, 0.95, 0)
        assert (low < elo["ratings"](wins.sum(axis=0))).all()
        assert (elo["ratings"](wins.sum(axis=0)) < high).all()
        return high[0] - low[0]

    assert width(400) < 0.5 * width(25)


def test_stored_records_have_ratings(elo):
    lines = elo["rated"](draws=20)
    assert {"mercer auto", "LightGBM", "XGBoost", "CatBoost", "xRFM"} == {
        line["contender"] for line in lines
    }
    assert np.diff([float(line["Elo"]) for line in lines]).max() <= 0
