"""Leading directions of many features, TEFM (T-F3)."""

import pickle
import tracemalloc

import numpy as np
import pytest

import mercer.maps.embedding
import mercer.maps.nested
from _conventions import parametrize_with_settings
from mercer.designs import Dense, Lazy
from mercer.kernels import Gaussian, Laplacian
from mercer.maps import (
    IdentityMap,
    Nystroem,
    RandomBinning,
    RandomFourier,
    SubspaceEmbedding,
)
from test_maps_base import MapLaws, dense


class EmbeddingLaws(MapLaws):
    def assert_same_map(self, one, other, X):
        # Rounding turns directions of nearly equal weight; inner products do not move.
        Z, Y = one.transform(X), other.transform(X)
        assert Z.dtype == Y.dtype
        np.testing.assert_allclose(Z @ Z.T, Y @ Y.T, atol=1e-9 if Z.dtype == np.float64 else 1e-4)


class TestGaussianSubspaceEmbedding(EmbeddingLaws):
    def make(self, **settings):
        return SubspaceEmbedding(n_components=6, gamma=0.3, random_state=1, **settings)


class TestHadamardSubspaceEmbedding(EmbeddingLaws):
    def make(self, **settings):
        return SubspaceEmbedding(
            n_components=6, gamma=0.3, sketch="srht", n_base=10, random_state=1, **settings
        )


class TestSubspaceEmbeddingOfBinning(EmbeddingLaws):
    def make(self, **settings):
        return SubspaceEmbedding(
            "binning", 5, kernel="laplacian", gamma=0.3, n_base=4, random_state=1, **settings
        )


class TestSubspaceEmbeddingOfNystroem(EmbeddingLaws):
    def make(self, **settings):
        return SubspaceEmbedding(
            "nystroem", 5, gamma=0.3, n_base=12, power=2, random_state=1, **settings
        )


class TestSubspaceEmbeddingOfFastfood(EmbeddingLaws):
    def make(self, **settings):
        return SubspaceEmbedding("fastfood", 5, gamma=0.3, n_base=12, random_state=1, **settings)


class BesideAMap:
    """Where the base is a map, it is the base that has the scale."""

    @pytest.mark.rounding
    @pytest.mark.parametrize("gamma", [0.7, [0.1, 0.2, 0.3, 0.4], "median"])
    def test_a_copy_at_another_scale_is_the_fresh_map_at_that_scale(self, feature_map, X, gamma):
        base = feature_map.base.with_gamma(gamma)
        expected = dense(self.make().set_params(base=base).fit_transform(X))
        for original in (feature_map, self.make().fit(X)):
            np.testing.assert_array_equal(original.with_gamma(gamma).fit_transform(X), expected)


class TestSubspaceEmbeddingOfAMap(BesideAMap, EmbeddingLaws):
    def make(self, **settings):
        base = RandomFourier(Gaussian(0.3), n_components=20, random_state=3)
        return SubspaceEmbedding(base, 6, random_state=1, **settings)


class TestSubspaceEmbeddingOfTheData(EmbeddingLaws):
    has_gamma = False

    def make(self, **settings):
        return SubspaceEmbedding("linear", 2, random_state=1, **settings)


@parametrize_with_settings(
    [SubspaceEmbedding(n_components=4)],
    [SubspaceEmbedding("binning", n_components=4, sketch="srht")],
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def test_examples_run(check_examples):
    check_examples(mercer.maps.embedding)


def smooth_data(seed, n=200, d=5):
    return np.random.default_rng(seed).normal(size=(n, d))


# What the subspace holds (T-F3).


@pytest.mark.rounding
@pytest.mark.parametrize("sketch", ["gaussian", "srht"])
@pytest.mark.parametrize("power", [0, 1, 2])
def test_the_basis_is_orthonormal_and_never_exceeds_the_base(sketch, power):
    X, kernel = smooth_data(0, 100), Gaussian(0.1)
    fitted = SubspaceEmbedding(
        n_components=15, kernel=kernel, sketch=sketch, power=power, random_state=0
    ).fit(X)
    Q, F, G = fitted.basis_, fitted.base_.transform(X), fitted.transform(X)
    np.testing.assert_allclose(Q.T @ Q, np.eye(15), atol=1e-13)
    np.testing.assert_allclose(G, F @ Q, atol=1e-13)
    assert np.linalg.eigvalsh(F @ F.T - G @ G.T).min() > -1e-12
    tail = np.linalg.norm(F - G @ Q.T, 2)
    assert tail >= np.linalg.svd(F, compute_uv=False)[15] * (1 - 1e-12)
    K = kernel(X)
    base_error = np.linalg.norm(K - F @ F.T, 2)
    assert np.linalg.norm(K - G @ G.T, 2) <= base_error + tail**2 + 1e-12


@pytest.mark.rounding
@pytest.mark.parametrize("sketch", ["gaussian", "srht"])
def test_the_basis_is_that_of_the_sketched_features(sketch):
    X = smooth_data(0, 90)
    settings = {"gamma": 0.1, "sketch": sketch, "random_state": 0}
    fitted = SubspaceEmbedding(n_components=15, power=2, **settings).fit(X)
    F = fitted.base_.transform(X)
    S = mercer.maps.sketch.sketch_from(sketch, passing=True)(fitted.key_, 90, 15).rows(0, 90)
    Y = F.T @ (F @ (F.T @ (F @ (F.T @ S))))
    Q = np.linalg.qr(Y)[0]
    np.testing.assert_allclose(fitted.basis_ @ fitted.basis_.T, Q @ Q.T, atol=1e-5)
    plain = SubspaceEmbedding(n_components=15, power=0, **settings).fit(X)
    Q = np.linalg.qr(F.T @ S)[0]
    np.testing.assert_allclose(plain.basis_ @ plain.basis_.T, Q @ Q.T, atol=1e-9)


def test_as_many_directions_as_the_base_has_lose_nothing():
    X = smooth_data(0, 60)
    for base, rank in (
        (RandomFourier(gamma=0.1, n_components=24, random_state=0), 24),
        (RandomFourier(gamma=0.1, n_components=100, random_state=0), 64),
        (Nystroem(gamma=0.1, n_components=20, random_state=0), 20),
        (IdentityMap(), 5),
    ):
        F = base.fit_transform(X)
        for sketch in ("gaussian", "srht"):
            G = SubspaceEmbedding(base, rank, sketch=sketch, random_state=1).fit_transform(X)
            np.testing.assert_allclose(G @ G.T, F @ F.T, atol=1e-9)


@pytest.mark.rounding
def test_more_directions_than_rows_stay_orthonormal():
    X = smooth_data(0, 10)
    base = RandomFourier(gamma=0.1, n_components=40, random_state=0)
    F = base.fit_transform(X)
    for sketch in ("gaussian", "srht"):
        fitted = SubspaceEmbedding(base, 30, sketch=sketch, random_state=0).fit(X)
        np.testing.assert_allclose(fitted.basis_.T @ fitted.basis_, np.eye(30), atol=1e-12)
        G = fitted.transform(X)
        np.testing.assert_allclose(G @ G.T, F @ F.T, atol=1e-12)


def test_expected_tail_is_below_its_bound():
    X, n_components, p = smooth_data(1, 100), 24, 8
    base = RandomFourier(gamma=0.2, n_components=96, form="pair", random_state=0)
    F = base.fit_transform(X)
    s = np.linalg.svd(F, compute_uv=False)
    for power in (0, 1):
        tails = []
        for seed in range(20):
            fitted = SubspaceEmbedding(base, n_components, power=power, random_state=seed).fit(X)
            tails.append(np.linalg.norm(F - F @ fitted.basis_ @ fitted.basis_.T, 2))
        k, e = n_components - p, 2 * power + 1
        first = (1 + np.sqrt(k / (p - 1))) * s[k] ** e
        rest = np.e * np.sqrt(n_components) / p * np.sqrt(np.sum(s[k:] ** (2 * e)))
        assert s[n_components] <= np.mean(tails) <= (first + rest) ** (1 / e)


def mean_errors(map_, X, K, n_seeds):
    errors = []
    for seed in range(n_seeds):
        Z = map_.set_params(random_state=seed).fit_transform(X)
        errors.append(np.linalg.norm(K - Z @ Z.T))
    return np.mean(errors)


def test_leading_directions_of_four_times_as_many_features_nearly_halve_the_error():
    X = smooth_data(2)
    K = Gaussian(0.1)(X)
    few = mean_errors(RandomFourier(gamma=0.1, n_components=40, form="pair"), X, K, 10)
    many = mean_errors(RandomFourier(gamma=0.1, n_components=160, form="pair"), X, K, 10)
    for sketch in ("gaussian", "srht"):
        leading = mean_errors(
            SubspaceEmbedding(n_components=40, gamma=0.1, sketch=sketch), X, K, 10
        )
        assert leading < 0.6 * few
        assert leading < 1.1 * many


def test_a_higher_power_leaves_less_behind_on_average():
    X = smooth_data(3, 100)
    base = RandomFourier(gamma=0.3, n_components=80, form="pair", random_state=0)
    F = base.fit_transform(X)
    tails = []
    for power in (0, 1, 2):
        bases = (
            SubspaceEmbedding(base, 20, power=power, random_state=seed).fit(X).basis_
            for seed in range(10)
        )
        tails.append(np.mean([np.linalg.norm(F - F @ Q @ Q.T, 2) for Q in bases]))
    assert tails[2] < tails[1] < tails[0]


# How it gets there.


@pytest.mark.rounding
@pytest.mark.parametrize("sketch", ["gaussian", "srht"])
@pytest.mark.parametrize("base", ["fourier", "binning"])
def test_rows_in_pieces_give_the_same_subspace(sketch, base, monkeypatch):
    X = smooth_data(4, 150)
    settings = {"gamma": 0.1, "sketch": sketch, "power": 1, "random_state": 0}
    whole = SubspaceEmbedding(base, 10, **settings)
    G = whole.fit_design(X).toarray()
    for pieces_of in (2000.0, 20_000.0):
        monkeypatch.setattr("mercer._runtime.arrays.CHUNK_BYTES", pieces_of)
        monkeypatch.setattr(mercer.maps.nested, "_CACHED_BYTES", 0)
        pieces = SubspaceEmbedding(base, 10, **settings)
        np.testing.assert_allclose(pieces.fit_design(X).toarray(), G, atol=1e-10)
        np.testing.assert_allclose(pieces.basis_, whole.basis_, atol=1e-10)
        np.testing.assert_allclose(pieces.transform(X), G, atol=1e-10)
        np.testing.assert_allclose(pieces.transform_block(X, [3, 1]), G[:, [3, 1]], atol=1e-10)


@pytest.mark.parametrize("sketch", ["gaussian", "srht"])
def test_the_features_of_the_base_are_never_held(sketch, monkeypatch):
    monkeypatch.setattr("mercer._runtime.arrays.CHUNK_BYTES", 2**20)
    monkeypatch.setattr(mercer.maps.nested, "_CACHED_BYTES", 2**20)
    X = smooth_data(5, 20_000, 3)
    map_ = SubspaceEmbedding(n_components=8, n_base=400, gamma=0.1, sketch=sketch, random_state=0)
    tracemalloc.start()
    map_.fit_design(X)
    map_.transform(X)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 0.2 * 8 * 20_000 * 400


@pytest.mark.parametrize("sketch", ["gaussian", "srht"])
def test_sketches_of_many_narrow_rows_are_never_held(sketch, monkeypatch):
    monkeypatch.setattr("mercer._runtime.arrays.CHUNK_BYTES", 2**20)
    monkeypatch.setattr(mercer.maps.nested, "_CACHED_BYTES", 0)
    X = smooth_data(5, 20_000, 60)
    tracemalloc.start()
    SubspaceEmbedding("linear", n_components=50, sketch=sketch, random_state=0).fit(X)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 0.5 * 8 * 20_000 * 50


def test_few_rows_pass_the_base_once(monkeypatch):
    calls = []
    transform = RandomFourier._transform
    monkeypatch.setattr(
        RandomFourier, "_transform", lambda self, X: calls.append(len(X)) or transform(self, X)
    )
    SubspaceEmbedding(n_components=8, power=2).fit_design(smooth_data(0, 50))
    assert calls == [50]
    monkeypatch.setattr(mercer.maps.nested, "_CACHED_BYTES", 0)
    SubspaceEmbedding(n_components=8, power=1).fit_design(smooth_data(0, 50))
    assert calls == [50] * 4


def test_a_design_that_fits_is_held(X, monkeypatch):
    map_ = SubspaceEmbedding(n_components=4, random_state=0)
    assert isinstance(map_.fit_design(X), Dense)
    assert isinstance(map_.design(X), Dense)
    monkeypatch.setattr(mercer.maps.nested, "_CACHED_BYTES", 0)
    monkeypatch.setattr("mercer.maps.base.available_memory", lambda: 1)
    assert isinstance(SubspaceEmbedding(n_components=4).fit_design(X), Lazy)
    monkeypatch.undo()


# The base.


def test_a_base_by_name_has_four_times_as_many_features_in_pairs(X):
    fitted = SubspaceEmbedding(n_components=5, kernel="laplacian", gamma=0.2, random_state=0).fit(X)
    assert fitted.base_.get_params()["form"] == "pair"
    assert fitted.base_.n_components == 20
    assert fitted.kernel_ == fitted.base_.kernel_ == Laplacian(0.2)
    assert SubspaceEmbedding(n_components=5, n_base=8).fit(X).base_.n_features_out_ == 8
    assert SubspaceEmbedding("nystroem", 5, n_base=8).fit(X).base_.n_components == 8
    assert not hasattr(SubspaceEmbedding("linear", 3).fit(X), "kernel_")


def test_a_base_that_is_a_map_is_copied_and_keeps_its_seed(X):
    base = RandomFourier(gamma=0.3, n_components=20, random_state=3)
    fitted = SubspaceEmbedding(base, 6, random_state=1, n_jobs=1).fit(X)
    assert fitted.base_ is not base
    assert base.n_jobs is None
    assert fitted.base_.n_jobs == 1
    assert fitted.base_.key_ == base.fit(X).key_
    base.set_params(random_state=None)
    one, two = (SubspaceEmbedding(base, 6, random_state=s).fit(X).base_.key_ for s in (1, 1))
    assert one == two != SubspaceEmbedding(base, 6, random_state=2).fit(X).base_.key_


def test_boxes_that_were_not_met_are_counted_and_told(X):
    fitted = SubspaceEmbedding(RandomBinning(gamma=9.0, n_components=8, random_state=0), 4).fit(X)
    assert fitted.design(X).n_missing == 0
    for method in (fitted.transform, fitted.design):
        with pytest.warns(UserWarning, match="of the bins of these rows were not met at fit"):
            method(X + 100)


def test_pickles_hold_no_frequencies(X):
    wide = np.hstack([X] * 50)
    leading = SubspaceEmbedding(n_components=4, n_base=400, random_state=0).fit(wide)
    assert len(pickle.dumps(leading)) < 8 * 4 * 400 + 5000


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"n_components": 0}, ValueError, "n_components must be at least 1; got 0"),
        ({"n_components": 2.0}, TypeError, "n_components must be an integer; got 2.0"),
        ({"n_base": 0}, ValueError, "n_base must be at least 1; got 0"),
        ({"n_base": 9}, ValueError, "n_base must be even for base='fourier', two .*; got 9"),
        ({"base": "linear", "n_base": 9}, ValueError, "n_base must be left out for base='linear'"),
        ({"base": "linear", "gamma": 2.0}, ValueError, "gamma must be left out .*; got 2.0"),
        ({"base": "rks"}, ValueError, "base must be one of 'binning', .*; got 'rks'"),
        ({"base": None}, ValueError, "base must be one of .*; got None"),
        ({"base": RandomFourier(), "n_base": 9}, ValueError, "n_base must be left out beside a ba"),
        ({"base": RandomFourier(), "gamma": 0.1}, ValueError, "gamma must be left out beside a ba"),
        ({"base": RandomFourier(), "kernel": "cauchy"}, ValueError, "kernel must be left out bes"),
        ({"kernel": "sigmoid"}, ValueError, "kernel must be one of .*; got 'sigmoid'"),
        ({"gamma": -1.0}, ValueError, "gamma must be positive and finite; got -1.0"),
        ({"sketch": "fjlt"}, ValueError, "sketch must be one of 'gaussian', 'srht'; got 'fjlt'"),
        ({"n_jobs": 0}, ValueError, "n_jobs must not be 0"),
        ({"random_state": -1}, ValueError, "random_state must be at least 0; got -1"),
    ],
)
def test_bad_settings_are_refused_in_one_sentence(settings, error, message, X):
    with pytest.raises(error, match=message):
        SubspaceEmbedding(**{"n_components": 3} | settings).fit(X)


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"power": -1}, ValueError, "power must be at least 0; got -1"),
        ({"power": 0.5}, TypeError, "power must be an integer or None; got 0.5"),
        ({"power": True}, TypeError, "power must be an integer or None; got True"),
        ({"base": "linear"}, ValueError, "at most the number of columns of the base, 4; got 5"),
    ],
)
def test_subspaces_that_make_no_sense_are_refused(settings, error, message, X):
    with pytest.raises(error, match=message):
        SubspaceEmbedding(n_components=5, **settings).fit(X)


def test_a_basis_that_would_not_fit_is_refused(X, monkeypatch):
    monkeypatch.setattr("mercer._runtime.arrays.available_memory", lambda: 1000)
    with pytest.raises(
        MemoryError, match=r"a basis of 5 directions in 20 columns needs .*; n_components=1"
    ):
        SubspaceEmbedding(n_components=5).fit(X)
