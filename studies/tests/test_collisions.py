"""Collision statistics and the speed-up they promise, against their definitions."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.exceptions import NotFittedError

from mercer import KernelClassifier, KernelRegressor
from mercer.designs import Binned, Dense
from mercer.maps import Nystroem, RandomBinning
from mercer_studies.random_binning.collisions import (
    asymptotic_speedup,
    collisions,
    predicted_speedup,
)


def points(n=300, d=3, seed=0):
    return np.random.default_rng(seed).normal(size=(n, d))


def by_definition(map_, X):
    """D, density, κ̂, κ̄ and the shares of all bins, from the dense matrix."""
    present = map_.transform(X).toarray() > 0
    shares = present.mean(axis=0)
    per_grid = np.split(shares, np.cumsum(map_.n_bins_)[:-1])
    kappa_hat = np.mean([1 / grid.max() for grid in per_grid])
    held = shares[shares > 0]
    return len(held), held.mean(), kappa_hat, len(held) / len(per_grid), np.sort(held)


# collisions


@pytest.mark.parametrize("bins", ["exact", 64])
@pytest.mark.parametrize("gamma", [0.01, 0.5, 20.0])
def test_statistics_are_their_definitions(gamma, bins):
    X = points()
    map_ = RandomBinning(gamma=gamma, n_components=20, bins=bins, random_state=0)
    design = map_.fit_design(X)
    n_columns, density, kappa_hat, kappa_bar, shares = by_definition(map_, X)
    for source in (map_, design):
        found = collisions(source)
        assert (found.n_rows, found.n_grids, found.n_columns) == (300, 20, n_columns)
        assert found.n_nonzero == 300 * 20
        assert found.density == pytest.approx(density)
        assert found.kappa_hat == pytest.approx(kappa_hat)
        assert found.kappa_bar == pytest.approx(kappa_bar)
        assert found.largest_share == shares[-1]
        levels = list(found.quantiles)
        expected = np.quantile(shares, levels, method="inverted_cdf")
        np.testing.assert_allclose(list(found.quantiles.values()), expected)
        assert found.unseen is None


@pytest.mark.parametrize("seed", range(20))
def test_kappa_hat_never_exceeds_kappa_bar(seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rng.integers(1, 200), rng.integers(1, 5)))
    gamma = 10 ** rng.uniform(-4, 4)
    found = collisions(RandomBinning(gamma=gamma, n_components=8, random_state=seed).fit(X))
    assert 1 <= found.kappa_hat <= found.kappa_bar * (1 + 1e-12) <= len(X) * (1 + 1e-12)
    assert found.density == pytest.approx(1 / found.kappa_bar)


def test_kappa_hat_is_kappa_bar_where_all_bins_are_equally_full():
    codes = np.array([[0, 0, 1, 1], [0, 1, 2, 3]], dtype=np.uint8)
    found = collisions(Binned(codes, [0, 2, 6], scale=1.0))
    assert found.kappa_hat == found.kappa_bar == 3


def test_kappa_bar_grows_with_gamma_on_average_over_seeds():
    X = points()
    means = [
        np.mean(
            [
                collisions(
                    RandomBinning(gamma=gamma, n_components=16, random_state=seed).fit(X)
                ).kappa_bar
                for seed in range(10)
            ]
        )
        for gamma in (0.05, 0.1, 0.2, 0.4, 0.8)
    ]
    assert (np.diff(means) > 0).all()


def test_extreme_scales_give_the_extreme_statistics():
    X = points(50)
    wide = collisions(RandomBinning(gamma=1e-12, n_components=5, random_state=0).fit(X))
    assert (wide.kappa_hat, wide.kappa_bar, wide.density, wide.largest_share) == (1, 1, 1, 1)
    narrow = collisions(RandomBinning(gamma=1e9, n_components=5, random_state=0).fit(X))
    assert (narrow.kappa_hat, narrow.kappa_bar) == (50, 50)


@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array])
def test_unseen_share_is_that_of_absent_entries(make, monkeypatch):
    train, new = make(points(200)), make(points(90, seed=1))
    map_ = RandomBinning(gamma=1.0, n_components=16, random_state=0).fit(train)
    absent = 1 - map_.transform(new).nnz / (90 * 16)
    assert 0.01 < absent < 1 / 3
    assert collisions(map_, new).unseen == pytest.approx(absent)
    assert collisions(map_, train).unseen == 0
    monkeypatch.setattr("mercer._runtime.arrays.row_chunks.__defaults__", (1000,))
    assert collisions(map_, new).unseen == pytest.approx(absent)


def test_models_are_looked_at_through_their_scaler():
    X = points(200) * [1, 100, 0.01] + 5
    new = points(90, seed=1) * [1, 100, 0.01] + 5
    model = KernelRegressor(n_components=16, gamma=5.0, random_state=0).fit(X, X[:, 0])
    scaled = model.scaler_.transform(new)
    assert collisions(model, new).unseen == collisions(model.feature_map_, scaled).unseen > 1 / 3
    classes = KernelClassifier(n_components=16, gamma=5.0, random_state=0).fit(X, X[:, 0] > 5)
    assert collisions(classes).kappa_bar == collisions(model).kappa_bar


def test_hashed_bins_are_never_unseen():
    map_ = RandomBinning(gamma=9.0, n_components=4, bins=256, random_state=0).fit(points())
    assert collisions(map_, points(seed=1)).unseen == 0


def test_summary_says_the_figures():
    map_ = RandomBinning(gamma=0.3, n_components=16, random_state=0).fit(points())
    found = collisions(map_, points(seed=1))
    for text in (repr(found), found.summary(), str(found)):
        for figure in (300, 16, found.n_columns, f"{found.kappa_bar:.4g}"):
            assert str(figure) in text
    assert f"{found.unseen:.2%}" in found.summary()
    assert len(found.summary().splitlines()) == 5
    assert len(collisions(map_).summary().splitlines()) == 4


@pytest.mark.parametrize(
    ("model", "X", "error", "message"),
    [
        ("letter", None, TypeError, "model must be a KernelRegressor"),
        (Nystroem(), None, TypeError, "model must be a KernelRegressor"),
        (RandomBinning(), None, NotFittedError, "not fitted"),
        (KernelRegressor("binning"), None, NotFittedError, "not fitted"),
        (KernelRegressor("linear").fit(points(), points()[:, 0]), None, ValueError, "binning as"),
        (Dense(np.eye(3)), None, ValueError, "design of random binning"),
        (RandomBinning().fit_design(points()), points(), ValueError, "X must be left out"),
        (RandomBinning().fit(points()), points(d=2), ValueError, "features"),
        (RandomBinning().fit(points()), [[np.nan] * 3], ValueError, "NaN"),
    ],
)
def test_what_has_no_bins_is_refused_in_one_sentence(model, X, error, message):
    with pytest.raises(error, match=message):
        collisions(model, X)


def test_a_design_that_lacks_bins_is_refused():
    map_ = RandomBinning(gamma=0.3, n_components=16, random_state=0).fit(points())
    with pytest.raises(ValueError, match=r"one of 90 rows that lacks \d+ bins"):
        collisions(map_.design(points(90, seed=1)))


# speed-ups


def test_speedup_is_its_formula():
    threads, n_columns, nonzeros = np.array([1, 2, 7, 50]), 400, 20
    expected = threads / (1 + 19 * (threads - 1) / 399)
    np.testing.assert_allclose(predicted_speedup(threads, n_columns, nonzeros), expected)
    assert predicted_speedup([[1], [2]], [400, 500, 600], 20).shape == (2, 3)


@pytest.mark.parametrize(("n_columns", "nonzeros"), [(1, 1), (9, 1), (395, 10), (7600, 100)])
def test_speedup_starts_at_one_rises_and_ends_at_its_cap(n_columns, nonzeros):
    found = predicted_speedup(np.arange(1, n_columns + 1), n_columns, nonzeros)
    assert found[0] == 1
    assert found[-1] == pytest.approx(n_columns / nonzeros)
    assert (np.diff(found) >= -1e-12).all()
    assert (found <= np.arange(1, n_columns + 1) + 1e-12).all()
    assert predicted_speedup(10 * n_columns, n_columns, nonzeros) == found[-1]


def test_dense_features_promise_nothing():
    np.testing.assert_allclose(predicted_speedup([1, 4, 200], 200, 200), 1)


@pytest.mark.parametrize(("kappa_bar", "threads", "expected"),
                         [(76, 8, 7.4), (76, 16, 13.5), (76, 32, 23.1), (7, 32, 6.1)])  # fmt: skip
def test_speedup_of_worked_examples(kappa_bar, threads, expected):
    assert predicted_speedup(threads, kappa_bar * 40, 40) == pytest.approx(expected, rel=0.05)


def test_many_grids_come_to_the_limit():
    kappa_bar, n_grids = 30.0, 10**7
    for a in (0, 0.5, 1, 3):
        exact = predicted_speedup(a * kappa_bar + 1, kappa_bar * n_grids, n_grids)
        assert asymptotic_speedup(kappa_bar, a) == pytest.approx(exact, rel=0.04)
        formula = (a * kappa_bar + 1) / (1 + a)
        assert asymptotic_speedup(kappa_bar, a) == pytest.approx(formula)
    assert asymptotic_speedup(kappa_bar, 1) == (kappa_bar + 1) / 2
    assert asymptotic_speedup(kappa_bar, np.inf) == kappa_bar


def test_speedup_of_a_fit_is_that_of_its_columns():
    found = collisions(RandomBinning(gamma=0.5, n_components=16, random_state=0).fit(points()))
    assert found.speedup(1) == 1
    assert found.speedup(found.n_columns) == pytest.approx(found.kappa_bar)
    np.testing.assert_array_equal(
        found.speedup([2, 8]), predicted_speedup([2, 8], found.n_columns, 16)
    )


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: predicted_speedup(0, 10, 2), "threads must be at least 1"),
        (lambda: predicted_speedup(np.nan, 10, 2), "threads must be at least 1"),
        (lambda: predicted_speedup(2, 0, 2), "n_columns must be at least 1"),
        (lambda: predicted_speedup(2, 10, 11), "row_nonzeros must be at most n_columns"),
        (lambda: asymptotic_speedup(0.5, 1), "kappa_bar must be at least 1"),
        (lambda: asymptotic_speedup(2, -1), "a must be at least 0"),
        (lambda: asymptotic_speedup(2, np.nan), "a must be at least 0"),
    ],
)
def test_numbers_out_of_range_are_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_what_is_no_number_is_refused_with_its_name():
    with pytest.raises(TypeError, match="threads must be an array of numbers; got 'many'"):
        predicted_speedup("many", 10, 2)
