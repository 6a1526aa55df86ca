"""Clusters against Lloyd's algorithm on explicit features, and against scikit-learn."""

import warnings

import numpy as np
import pytest
from sklearn import cluster
from sklearn.datasets import load_iris, load_wine, make_blobs, make_circles, make_moons
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score

from mercer import maps
from mercer.kernels import Gaussian, Laplacian
from mercer.unsupervised import KernelKMeans, SpectralClustering, clusters

MOONS = make_moons(300, noise=0.05, random_state=0)
SCENES = {  # rows, clusters, and a factor of the distance in the kernel
    "moons": (*MOONS, 2, 20.0),
    "circles": (*make_circles(300, noise=0.05, factor=0.5, random_state=0), 2, 30.0),
    "blobs": (*make_blobs(300, random_state=8), 3, 0.5),
}
MAPS = [
    maps.Nystroem(gamma=0.5, n_components=40, random_state=0),
    maps.RandomFourier(gamma=0.5, n_components=64, random_state=0),
    maps.RandomBinning(gamma=0.5, n_components=32, random_state=0),
    maps.ExactKernel(gamma=0.5),
    maps.ExactKernel(gamma=0.5, whiten=True),
]
BLOBS, _ = make_blobs(200, centers=5, cluster_std=2.0, random_state=3)


def starts(monkeypatch):
    """The clusters from which Lloyd's algorithm starts, as they are drawn."""
    seen, seeded = [], KernelKMeans._seeded

    def kept(*arguments):
        seen.append(seeded(*arguments))
        return seen[-1]

    monkeypatch.setattr(KernelKMeans, "_seeded", kept)
    return seen


def distances(gram, cross, labels, count):
    """Squared distances (m, k) less k(x, x) of rows to the means of clusters, by the kernel."""
    found = np.full((len(cross), count), np.inf)
    for k in range(count):
        inside = np.flatnonzero(labels == k)
        if len(inside):
            centre = gram[np.ix_(inside, inside)].mean()
            found[:, k] = centre - 2 * cross[:, inside].mean(axis=1)
    return found


def lloyd(gram, labels, count):
    """Kernel k-means by loops: the labels, and the inertia of every step."""
    inertias = []
    while True:
        apart = distances(gram, gram, labels, count) + np.diag(gram)[:, None]
        inertias.append(apart[np.arange(len(labels)), labels].sum())
        moved = apart.argmin(axis=1)
        if (moved == labels).all():
            return labels, inertias
        labels = moved


@pytest.mark.parametrize("feature_map", MAPS, ids=lambda m: type(m).__name__)
@pytest.mark.parametrize("count", [2, 6])
def test_kernel_k_means_is_lloyds_algorithm_in_the_space_of_the_features(
    feature_map, count, monkeypatch
):
    seen = starts(monkeypatch)
    model = KernelKMeans(
        count, feature_map=feature_map, n_init=3, tol=0, random_state=0, scale=False
    ).fit(BLOBS)
    fitted = model.feature_map_
    new = BLOBS[:40] + 0.3
    if type(fitted) is maps.ExactKernel and fitted.normalization_ is None:
        gram, cross = Gaussian(0.5)(BLOBS, BLOBS), Gaussian(0.5)(new, BLOBS)
    else:
        Z, z = (fitted.design(rows).toarray() for rows in (BLOBS, new))
        gram, cross = Z @ Z.T, z @ Z.T
    assert len(seen) == 3
    runs = [lloyd(gram, labels, count) for labels in seen]
    assert all((np.diff(inertias) <= 1e-9).all() for _, inertias in runs)
    labels, inertias = min(runs, key=lambda run: run[1][-1])
    np.testing.assert_array_equal(model.labels_, labels)
    assert model.inertia_ == pytest.approx(inertias[-1], rel=1e-9)
    assert model.n_iter_ == len(inertias)
    np.testing.assert_array_equal(model.predict(BLOBS), model.labels_)
    expected = distances(gram, cross, labels, count).argmin(axis=1)
    np.testing.assert_array_equal(model.predict(new), expected)


@pytest.mark.parametrize("feature_map", ["exact", "nystroem"])
def test_a_weight_of_two_is_a_row_given_twice_for_k_means(feature_map, monkeypatch):
    weights = np.random.default_rng(0).integers(0, 4, len(BLOBS))
    chosen = BLOBS[:50]
    map_ = maps.Nystroem(Gaussian(0.5), landmarks=chosen)
    settings = {"feature_map": "exact" if feature_map == "exact" else map_, "gamma": 0.5}
    if feature_map != "exact":
        settings.pop("gamma")
    first = np.random.default_rng(1).integers(0, 4, len(BLOBS))
    seeds = iter([first[weights > 0], first.repeat(weights)])
    monkeypatch.setattr(KernelKMeans, "_seeded", lambda *_: next(seeds))
    weighted = KernelKMeans(4, n_init=1, tol=0, **settings, scale=False).fit(
        BLOBS, sample_weight=weights
    )
    repeated = KernelKMeans(4, n_init=1, tol=0, **settings, scale=False).fit(
        BLOBS.repeat(weights, axis=0)
    )
    assert weighted.inertia_ == pytest.approx(repeated.inertia_, rel=1e-8)
    np.testing.assert_array_equal(weighted.labels_, repeated.predict(BLOBS))


@pytest.mark.parametrize("feature_map", ["exact", "fourier", "binning"])
def test_k_means_that_ends_early_keeps_labels_inertia_and_centres_of_one_iteration(feature_map):
    settings = {"feature_map": feature_map, "gamma": 0.5, "random_state": 0}
    early = KernelKMeans(8, n_init=1, tol=0.05, **settings, scale=False).fit(BLOBS)
    late = KernelKMeans(8, n_init=1, tol=0, **settings, scale=False).fit(BLOBS)
    assert early.n_iter_ < late.n_iter_
    assert late.inertia_ <= early.inertia_ <= 1.2 * late.inertia_
    np.testing.assert_array_equal(early.predict(BLOBS), early.labels_)


def test_k_means_of_the_inputs_themselves_is_as_good_as_that_of_scikit_learn():
    mine = KernelKMeans(5, feature_map="linear", n_init=20, random_state=0, scale=False).fit(BLOBS)
    peer = cluster.KMeans(5, n_init=20, random_state=0).fit(BLOBS)
    assert mine.inertia_ == pytest.approx(peer.inertia_, rel=1e-6)
    assert adjusted_rand_score(mine.labels_, peer.labels_) > 0.99


def test_starts_lie_farther_apart_than_rows_drawn_blindly(monkeypatch):
    seen = starts(monkeypatch)
    X, y = make_blobs(300, centers=6, cluster_std=0.05, random_state=0)
    KernelKMeans(6, gamma=0.1, n_init=10, random_state=0, scale=False).fit(X)
    assert np.mean([adjusted_rand_score(y, labels) > 0.99 for labels in seen]) >= 0.5


def test_as_many_clusters_as_rows_have_no_inertia():
    model = KernelKMeans(20, gamma=1.0, random_state=0, scale=False).fit(BLOBS[:20])
    assert sorted(model.labels_) == list(range(20))
    assert model.inertia_ == pytest.approx(0.0, abs=1e-9)


@pytest.mark.parametrize("feature_map", ["exact", "fourier", "binning"])
def test_clusters_of_equal_rows_do_not_fail(feature_map):
    model = KernelKMeans(3, feature_map=feature_map, gamma=1.0, random_state=0, scale=False)
    model.fit(np.ones((30, 2)))
    assert model.inertia_ == pytest.approx(0.0, abs=1e-6)
    np.testing.assert_array_equal(model.predict(np.ones((30, 2))), model.labels_)


def test_empty_clusters_take_no_rows():
    rows = np.repeat([[1.0, 1.0], [2.0, 2.0]], 10, axis=0)
    model = KernelKMeans(3, feature_map="linear", random_state=0, scale=False).fit(rows)
    assert len(set(model.labels_)) == 2
    assert model.predict([[0.0, 0.0]])[0] in model.labels_


def test_rows_of_zeros_under_a_linear_map_do_not_fail():
    KernelKMeans(2, feature_map="linear", random_state=0, scale=False).fit(np.zeros((10, 2)))


def test_too_few_iterations_are_reported():
    with pytest.warns(ConvergenceWarning, match="max_iter=1 iterations"):
        model = KernelKMeans(8, gamma=0.5, max_iter=1, n_init=1, random_state=0, scale=False).fit(
            BLOBS
        )
    assert model.n_iter_ == 1


@pytest.mark.parametrize("scene", SCENES)
@pytest.mark.parametrize("feature_map", ["exact", "nystroem"])
def test_spectral_clusters_equal_those_of_scikit_learn(scene, feature_map):
    X, _, count, gamma = SCENES[scene]
    peer = cluster.SpectralClustering(
        count, affinity="precomputed", assign_labels="kmeans", random_state=0
    ).fit_predict(Gaussian(gamma)(X, X))
    mine = SpectralClustering(
        count, feature_map=feature_map, kernel="gaussian", gamma=gamma, random_state=0, scale=False
    )
    if feature_map == "nystroem":
        mine.set_params(n_features=300)
    mine.fit(X)
    assert adjusted_rand_score(peer, mine.labels_) >= 0.98
    np.testing.assert_array_equal(mine.predict(X), mine.labels_)


@pytest.mark.parametrize("gamma", [0.05, 0.2, 0.5])
def test_overlapping_clusters_are_found_as_well_as_by_scikit_learn(gamma):
    X, y = make_blobs(300, cluster_std=[1.0, 2.5, 0.5], random_state=170)
    peer = cluster.SpectralClustering(3, affinity="precomputed", random_state=0)
    expected = peer.fit_predict(Gaussian(gamma)(X, X))  # does not scale rows to length 1
    mine = SpectralClustering(3, feature_map="exact", gamma=gamma, random_state=0, scale=False).fit(
        X
    )
    assert adjusted_rand_score(y, mine.labels_) >= adjusted_rand_score(y, expected)


@pytest.mark.parametrize("scene", ["moons", "blobs"])
def test_spectral_clusters_of_bins_equal_those_of_the_laplacian_kernel(scene):
    X, y, count, _ = SCENES[scene]
    gamma = {"moons": 10.0, "blobs": 0.5}[scene]
    mine = SpectralClustering(count, gamma=gamma, n_features=1024, random_state=0, scale=False).fit(
        X
    )
    peer = cluster.SpectralClustering(count, affinity="precomputed", random_state=0)
    expected = peer.fit_predict(Laplacian(gamma)(X, X))
    assert adjusted_rand_score(expected, mine.labels_) >= 0.98
    assert adjusted_rand_score(y, mine.labels_) >= 0.98
    np.testing.assert_array_equal(mine.predict(X), mine.labels_)


@pytest.mark.parametrize("n", [300, 900], ids=["LAPACK", "Lanczos"])
@pytest.mark.parametrize("feature_map", [MAPS[0], MAPS[2], MAPS[3]], ids=lambda m: type(m).__name__)
def test_eigenvalues_are_those_of_the_dense_normalised_similarity(feature_map, n):
    X, _ = make_moons(n, noise=0.1, random_state=1)
    model = SpectralClustering(4, feature_map=feature_map, random_state=0, scale=False).fit(X)
    Z = model.feature_map_.design(X).toarray()
    W = Z if feature_map is MAPS[3] else Z @ Z.T
    roots = np.sqrt(W.sum(axis=1))
    values, vectors = np.linalg.eigh(W / np.outer(roots, roots))
    np.testing.assert_allclose(model.eigenvalues_, values[::-1][:4], rtol=1e-4)
    assert model.eigenvalues_[0] == pytest.approx(1.0)
    rows = vectors[:, ::-1][:, :4]
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    found = model._embedded(model.feature_map_.design(X))
    np.testing.assert_allclose(abs(found @ found.T), abs(rows @ rows.T), atol=2e-2)


@pytest.mark.parametrize(
    ("scene", "feature_map"),
    [
        *[
            (scene, name)
            for scene in ("moons", "circles", "blobs")
            for name in ("exact", "nystroem")
        ],
        ("moons", "binning"),
        ("blobs", "binning"),
    ],
)
def test_the_eigengap_finds_a_gamma_that_separates(scene, feature_map):
    X, y, count, _ = SCENES[scene]
    model = SpectralClustering(
        count, feature_map=feature_map, gamma="eigengap", random_state=0, scale=False
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # more landmarks than rows
        model.fit(X)
    assert adjusted_rand_score(y, model.labels_) >= 0.98
    assert model.gamma == "eigengap"
    assert model.gamma_ > 0


@pytest.mark.parametrize("feature_map", ["binning", "exact"])
@pytest.mark.parametrize(("load", "least"), [(load_wine, 0.8), (load_iris, 0.6)])
def test_the_eigengap_takes_no_gamma_that_finds_single_rows(load, least, feature_map):
    X, y = load(return_X_y=True)
    model = SpectralClustering(
        3, feature_map=feature_map, gamma="eigengap", random_state=0, scale=False
    )
    labels = model.fit_predict((X - X.mean(axis=0)) / X.std(axis=0))
    assert normalized_mutual_info_score(y, labels) > least


def test_new_rows_take_the_cluster_of_their_neighbours():
    X, y = make_moons(600, noise=0.05, random_state=0)
    model = SpectralClustering(2, feature_map="exact", gamma=20.0, random_state=0, scale=False).fit(
        X[:400]
    )
    assert adjusted_rand_score(y[400:], model.predict(X[400:])) >= 0.98


def test_features_with_negative_sums_of_products_are_refused():
    X = np.random.default_rng(0).normal(size=(50, 2))
    rule = "feature_map must have features whose products .* sum to a positive number; .* of 50"
    with pytest.raises(ValueError, match=rule):
        SpectralClustering(2, feature_map="linear", scale=False).fit(X)


def test_negative_products_are_reported():
    with pytest.warns(UserWarning, match="negative products of rows"):
        SpectralClustering(2, feature_map="fourier", gamma=20.0, random_state=0, scale=False).fit(
            MOONS[0]
        )


@pytest.mark.parametrize(
    ("model", "sentence"),
    [
        (KernelKMeans(0, scale=False), "n_clusters must be"),
        (KernelKMeans(1000, scale=False), "n_clusters must be at most n_samples=200"),
        (KernelKMeans(2, n_init=0, scale=False), "n_init must be"),
        (KernelKMeans(2, max_iter=0, scale=False), "max_iter must be"),
        (KernelKMeans(2, gamma="eigengap", scale=False), "gamma must be"),
        (
            SpectralClustering(2, feature_map="linear", gamma="eigengap", scale=False),
            "gamma must be 'scale'",
        ),
        (KernelKMeans(2, kernel="unheard", scale=False), "kernel must be"),
        (SpectralClustering(2.0, scale=False), "n_clusters must be"),
        (SpectralClustering(2, n_init="auto", scale=False), "n_init must be"),
        (SpectralClustering(2, feature_map="unheard", scale=False), "feature_map must be"),
        (SpectralClustering(2, gamma=0.0, scale=False), "gamma must be"),
        (SpectralClustering(2, n_features=0, scale=False), "n_features must be"),
    ],
    ids=lambda value: repr(value)[:50],
)
def test_wrong_parameters_are_named(model, sentence):
    with pytest.raises((ValueError, TypeError), match=sentence) as caught:
        model.fit(BLOBS)
    assert "\n" not in str(caught.value)


def test_examples_run(check_examples):
    check_examples(clusters)
