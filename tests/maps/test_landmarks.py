"""Choices of landmarks: the laws they are drawn by, and what they are better for (T-F10)."""

from itertools import permutations

import numpy as np
import pytest
from scipy import sparse

import mercer.maps.landmarks
from _conventions import parametrize_with_settings
from mercer import KernelClassifier, KernelRegressor, persistence
from mercer.kernels import Gaussian, Laplacian
from mercer.maps import Nystroem
from mercer.maps.landmarks import _leverage_rows, _pivots, _ridge_leverage, _thinned, chosen

STANDARD_ERRORS = 5.0
CHOICES = ["uniform", "kmeans", "leverage", "rpcholesky"]
DRAWN = ["uniform", "leverage", "rpcholesky"]


@parametrize_with_settings(
    [],
    [
        Nystroem(landmarks="kmeans", n_components=6),
        Nystroem(landmarks="leverage", n_components=6),
        Nystroem(landmarks="rpcholesky", n_components=6),
        Nystroem(whiten=False),
    ],
)
@pytest.mark.filterwarnings("ignore:n_components=6 exceeds")
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def uneven(n=400, seed=0):
    """Nine tenths in one place, the rest spread out: uniform landmarks miss most of it."""
    rng = np.random.default_rng(seed)
    crowd = 0.05 * rng.normal(size=(n - n // 10, 2))
    return np.vstack([crowd, rng.uniform(-4, 4, size=(n // 10, 2))])


def trace_error(X, kernel, landmarks, m, seed):
    fitted = Nystroem(kernel, n_components=m, landmarks=landmarks, random_state=seed).fit(X)
    return len(X) - (fitted.transform(X) ** 2).sum()


# What holds for all of them.


@pytest.mark.parametrize("kernel", [Gaussian(0.3), Laplacian([0.1, 0.2, 0.3, 0.4])], ids=repr)
@pytest.mark.parametrize("landmarks", CHOICES)
def test_never_exceeds_the_kernel_and_is_exact_on_landmarks(landmarks, kernel, X):
    fitted = Nystroem(kernel, n_components=15, landmarks=landmarks, random_state=0).fit(X)
    Z, L = fitted.transform(X), fitted.transform(fitted.landmarks_)
    assert np.linalg.eigvalsh(kernel(X) - Z @ Z.T).min() > -1e-9
    np.testing.assert_allclose(Z @ L.T, kernel(X, fitted.landmarks_), atol=1e-7)


@pytest.mark.parametrize("landmarks", CHOICES)
def test_every_row_a_landmark_is_the_kernel_itself(landmarks, X):
    Z = Nystroem(Gaussian(0.3), n_components=40, landmarks=landmarks).fit_transform(X)
    np.testing.assert_allclose(Z @ Z.T, Gaussian(0.3)(X), atol=1e-9)


@pytest.mark.parametrize("landmarks", DRAWN)
def test_drawn_landmarks_are_distinct_rows(landmarks):
    X = np.random.default_rng(0).normal(size=(300, 3))
    L = chosen(landmarks, Gaussian(0.5), X, 70, 3)
    assert L.shape == (70, 3)
    places = [np.flatnonzero((row == X).all(axis=1)) for row in L]
    assert len({int(place[0]) for place in places}) == 70


@pytest.mark.rounding
@pytest.mark.parametrize("landmarks", CHOICES)
def test_sparse_rows_and_float32_choose_alike(landmarks, X):
    X = X.astype(np.float32)
    expected = chosen(landmarks, Gaussian(0.3), X.astype(np.float64), 9, 3)
    for data in (X, sparse.csr_array(X)):
        L = chosen(landmarks, Gaussian(0.3), data, 9, 3)
        L = L.toarray() if sparse.issparse(L) else L
        np.testing.assert_allclose(L, expected, atol=1e-5)


@pytest.mark.rounding
@pytest.mark.parametrize("landmarks", ["uniform", "rpcholesky"])
def test_fewer_landmarks_are_the_first_of_more(landmarks):
    X = np.random.default_rng(0).normal(size=(500, 3))
    more = chosen(landmarks, Gaussian(0.5), X, 200, 7)
    for m in (1, 20, 64, 150):
        np.testing.assert_array_equal(chosen(landmarks, Gaussian(0.5), X, m, 7), more[:m])


@pytest.mark.parametrize(
    ("landmarks", "share"), [("kmeans", 0.8), ("leverage", 0.65), ("rpcholesky", 0.5)]
)
def test_error_is_below_that_of_uniform_landmarks_on_uneven_data(landmarks, share):
    X, kernel = uneven(), Gaussian(1.0)
    errors = {
        name: np.mean([trace_error(X, kernel, name, 30, seed) for seed in range(4)])
        for name in ("uniform", landmarks)
    }
    assert errors[landmarks] < share * errors["uniform"]


@pytest.mark.parametrize("landmarks", CHOICES)
def test_estimators_learn_from_chosen_landmarks(landmarks, tmp_path):
    X = uneven()
    y = np.sin(X).sum(axis=1)
    chooser = Nystroem(gamma=1.0, n_components=60, landmarks=landmarks, random_state=0)
    model = KernelRegressor(chooser, scale=False).fit(X, y)
    assert model.score(X, y) > (0.4 if landmarks == "uniform" else 0.7)
    persistence.save(model, tmp_path / "m.skops")
    again = persistence.load(tmp_path / "m.skops")
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    assert KernelClassifier(chooser).fit(X, y > 0).score(X, y > 0) > 0.8


# Randomly pivoted Cholesky.


def pivot_law(K):
    """Probability of every pair of first pivots, one after the other."""
    law = {}
    for i, j in permutations(range(len(K)), 2):
        left = np.diag(K) - K[:, i] ** 2 / K[i, i]
        law[i, j] = K[i, i] / np.trace(K) * left[j] / left.sum()
    return law


@pytest.mark.parametrize("block", [8, 64])
def test_pivots_follow_what_is_left_of_the_diagonal(block, monkeypatch):
    monkeypatch.setattr(mercer.maps.landmarks, "_BLOCK", block)
    X = np.array([[0.0], [0.3], [0.8], [2.5]])
    law = pivot_law(Gaussian(0.5)(X))
    assert sum(law.values()) == pytest.approx(1.0)
    n_draws, counts = 2000, dict.fromkeys(law, 0)
    for key in range(n_draws):
        first, second = _pivots(Gaussian(0.5), X, 2, key)
        counts[first, second] += 1
    for pair, share in law.items():
        deviation = np.sqrt(n_draws * share * (1 - share))
        assert abs(counts[pair] - n_draws * share) < STANDARD_ERRORS * deviation


@pytest.mark.rounding
def test_thinned_candidates_come_with_their_cholesky_factor():
    X = np.random.default_rng(0).normal(size=(20, 2))
    K = Gaussian(0.5)(X)
    accepted, factor = _thinned(K, np.ones(20), np.random.default_rng(1).random(20), 20)
    assert 2 < len(accepted) < 20
    np.testing.assert_allclose(factor @ factor.T, K[np.ix_(accepted, accepted)], atol=1e-12)
    fewer, _ = _thinned(K, np.ones(20), np.random.default_rng(1).random(20), 2)
    np.testing.assert_array_equal(fewer, accepted[:2])
    everyone, _ = _thinned(K, np.ones(20), np.zeros(20), 20)
    np.testing.assert_array_equal(everyone, np.arange(20))


def test_landmarks_stop_where_nothing_is_left():
    X = np.repeat(np.random.default_rng(0).normal(size=(5, 2)), 20, axis=0)
    fitted = Nystroem(Gaussian(0.5), n_components=50, landmarks="rpcholesky", random_state=0).fit(X)
    assert fitted.landmarks_.shape == (5, 2)
    Z = fitted.transform(X)
    np.testing.assert_allclose(Z @ Z.T, Gaussian(0.5)(X), atol=1e-10)


def test_error_of_pivots_is_near_the_best_of_that_rank():
    X, kernel = uneven(), Laplacian(0.3)
    best = np.linalg.eigvalsh(kernel(X))[:-40].sum()
    error = np.mean([trace_error(X, kernel, "rpcholesky", 40, seed) for seed in range(3)])
    assert best < error < 2.5 * best


# Leverage.


def exact_leverage(K, m):
    values, vectors = np.linalg.eigh(K)
    ridge = values[:-m].sum() / m
    return (vectors**2) @ (values / (values + ridge))


@pytest.mark.rounding
def test_leverage_from_all_rows_is_that_of_the_kernel_matrix():
    X = uneven(100)
    found = _ridge_leverage(Gaussian(1.0), X, np.arange(100), np.arange(100), np.ones(100), 10)
    np.testing.assert_allclose(found, exact_leverage(Gaussian(1.0)(X), 10), atol=1e-9)


@pytest.mark.rounding
def test_leverage_of_a_weighted_sample_counts_rows_that_it_stands_for():
    X = uneven(60)
    twice = np.vstack([X, X])
    exact = _ridge_leverage(Gaussian(1.0), twice, np.arange(60), np.arange(120), np.ones(120), 8)
    half = _ridge_leverage(
        Gaussian(1.0), twice, np.arange(60), np.arange(60), np.full(60, np.sqrt(2.0)), 8
    )
    np.testing.assert_allclose(half, exact, atol=1e-9)


def test_rows_are_drawn_in_proportion_to_their_leverage():
    X, n_draws = uneven(20), 2000
    scores = exact_leverage(Gaussian(1.0)(X), 10)
    counts = np.zeros(20)
    for key in range(n_draws):
        counts[_leverage_rows(Gaussian(1.0), X, 10, key)[0]] += 1
    share = scores / scores.sum()
    deviation = np.sqrt(n_draws * share * (1 - share))
    assert (abs(counts - n_draws * share) < STANDARD_ERRORS * deviation).all()
    assert share.max() > 2 * share.min()


def test_sampled_rows_stand_for_all_rows_that_were_seen(monkeypatch):
    # The square of a weight is the number of rows that a sampled row stands for.
    ratios = []

    def spy(kernel, X, rows, sample, weights, m):
        if len(sample) < len(X) and not (weights == 1).all():
            ratios.append(np.square(weights).sum() / (len(rows) / 2))
        return _ridge_leverage(kernel, X, rows, sample, weights, m)

    monkeypatch.setattr(mercer.maps.landmarks, "_ridge_leverage", spy)
    for key in range(60):
        _leverage_rows(Gaussian(1.0), uneven(320), 10, key)
    assert len(ratios) >= 60
    standard_error = np.std(ratios) / np.sqrt(len(ratios))
    assert abs(np.mean(ratios) - 1.0) < STANDARD_ERRORS * standard_error
    assert standard_error < 0.1


def test_leverage_of_many_rows_is_estimated_well():
    X = uneven(2000)
    scores = exact_leverage(Gaussian(1.0)(X), 40)
    spread = scores[1800:].sum() / scores.sum()
    assert spread > 0.5
    drawn = np.concatenate([_leverage_rows(Gaussian(1.0), X, 40, key) for key in range(5)])
    assert (drawn >= 1800).mean() > 0.5 * spread


# Clusters.


def test_centres_live_in_the_geometry_of_the_kernel():
    rng = np.random.default_rng(0)
    X = np.column_stack([np.repeat([0.0, 1.0], 50), 100.0 * rng.normal(size=100)])
    centres = chosen("kmeans", Gaussian([1e4, 1e-9]), X, 2, 3)
    np.testing.assert_allclose(np.sort(centres[:, 0]), [0.0, 1.0], atol=1e-9)


def test_centres_of_sparse_rows_are_dense(X_csr):
    fitted = Nystroem(gamma=0.3, n_components=7, landmarks="kmeans", random_state=0).fit(X_csr)
    assert isinstance(fitted.landmarks_, np.ndarray)
    assert fitted.transform(X_csr).shape == (40, fitted.n_features_out_)


# Memory.


@pytest.mark.parametrize(
    ("landmarks", "message"),
    [
        ("kmeans", "k-means with 9 centres of 4 inputs"),
        ("leverage", "leverage scores from 10 rows"),
        ("rpcholesky", "randomly pivoted Cholesky of 40 rows with 9 landmarks"),
    ],
)
def test_what_would_not_fit_is_refused(landmarks, message, X, monkeypatch):
    monkeypatch.setattr("mercer._runtime.arrays.available_memory", lambda: 100)
    with pytest.raises(MemoryError, match=f"{message} needs .* are available; (choose|n_comp)"):
        chosen(landmarks, Gaussian(0.3), X, 9, 3)
