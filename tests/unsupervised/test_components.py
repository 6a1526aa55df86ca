"""Kernel principal components against scikit-learn and dense singular vectors."""

import numpy as np
import pytest
from scipy import linalg
from sklearn import decomposition
from sklearn.datasets import make_moons

from mercer import kernels, maps
from mercer.unsupervised import KernelPCA, base, components

X, _ = make_moons(240, noise=0.1, random_state=0)
NEW = np.random.default_rng(1).normal(size=(30, 2))


def matched(found, expected):
    """``found`` with the signs of ``expected``, column by column."""
    return found * np.sign((found * expected).sum(axis=0))


@pytest.mark.parametrize("n", [240, 400])
@pytest.mark.parametrize("gamma", [0.3, 2.0])
def test_exact_components_equal_those_of_scikit_learn(n, gamma):
    X, _ = make_moons(n, noise=0.1, random_state=0)
    peer = decomposition.KernelPCA(6, kernel="rbf", gamma=gamma).fit(X)
    mine = KernelPCA(6, gamma=gamma, random_state=0, scale=False).fit(X)
    expected = peer.transform(NEW)
    np.testing.assert_allclose(matched(mine.transform(NEW), expected), expected, atol=1e-6)
    np.testing.assert_allclose(mine.eigenvalues_, peer.eigenvalues_, rtol=1e-8)
    np.testing.assert_allclose(
        matched(mine.transform(X), peer.transform(X)), peer.transform(X), atol=1e-6
    )


@pytest.mark.parametrize("n", [350, 900], ids=["LAPACK", "Lanczos"])
@pytest.mark.parametrize(
    "feature_map",
    [
        maps.Nystroem(gamma=0.5, n_components=60, random_state=0),
        maps.RandomFourier(gamma=0.5, n_components=40, random_state=0),
        maps.RandomFourier(gamma=0.5, n_components=600, random_state=0),
        maps.RandomBinning(gamma=0.5, n_components=8, random_state=0),
        maps.RandomBinning(gamma=0.5, n_components=128, random_state=0),
        maps.ExactKernel(gamma=0.5, whiten=True),
        maps.IdentityMap(),
    ],
    ids=lambda m: f"{type(m).__name__}-{m.get_params().get('n_components')}",
)
def test_components_of_any_map_equal_a_dense_svd(feature_map, n):
    X, _ = make_moons(n, noise=0.1, random_state=0)
    count = 2 if isinstance(feature_map, maps.IdentityMap) else 4
    pca = KernelPCA(count, feature_map=feature_map, random_state=0, scale=False)
    scores = pca.fit_transform(X)
    Z, new = pca.feature_map_.transform(X), pca.feature_map_.transform(NEW)
    Z, new = (z if isinstance(z, np.ndarray) else z.toarray() for z in (Z, new))
    mean = Z.mean(axis=0)
    left, values, right = np.linalg.svd(Z - mean, full_matrices=False)
    np.testing.assert_allclose(pca.eigenvalues_, values[:count] ** 2, rtol=1e-7)
    np.testing.assert_allclose(
        pca.explained_variance_ratio_, (values**2 / (values**2).sum())[:count], rtol=1e-6
    )
    expected = left[:, :count] * values[:count]
    np.testing.assert_allclose(matched(scores, expected), expected, atol=1e-5)
    expected = (new - mean) @ right[:count].T
    np.testing.assert_allclose(matched(pca.transform(NEW), expected), expected, atol=1e-5)
    np.testing.assert_allclose(scores, pca.transform(X), atol=1e-10)


def test_exact_shares_of_variance_are_those_of_the_centred_kernel_matrix():
    pca = KernelPCA(5, gamma=1.0, random_state=0, scale=False).fit(X)
    K = kernels.Gaussian(1.0)(X, X)
    centre = np.eye(len(X)) - 1 / len(X)
    values = np.linalg.eigvalsh(centre @ K @ centre)[::-1]
    np.testing.assert_allclose(pca.explained_variance_ratio_, values[:5] / values.sum(), rtol=1e-8)


def test_inverse_transform_is_ridge_regression_of_inputs_on_components():
    pca = KernelPCA(8, gamma=1.0, alpha=0.01, random_state=0, scale=False)
    T = pca.fit_transform(X)
    ridge = 0.01 * (T**2).sum() / T.shape[1]
    augmented = np.vstack([T, np.sqrt(ridge) * np.eye(8)])
    centred = np.vstack([X - X.mean(axis=0), np.zeros((8, 2))])
    weights = linalg.lstsq(augmented, centred)[0]
    found = pca.inverse_transform(pca.transform(NEW))
    np.testing.assert_allclose(found, pca.transform(NEW) @ weights + X.mean(axis=0), atol=1e-8)


def test_inputs_return_from_enough_components():
    pca = KernelPCA(40, gamma=1.0, alpha=1e-8, random_state=0, scale=False)
    assert abs(pca.inverse_transform(pca.fit_transform(X)) - X).max() < 1e-2


@pytest.mark.parametrize(
    "feature_map",
    [maps.ExactKernel(gamma=3.0), maps.RandomFourier(gamma=0.5, n_components=12)],
    ids=["exact", "fourier"],
)
def test_all_components_have_all_of_the_variance(feature_map):
    rows = X[:30]
    most = min(30, feature_map.fit(rows).n_features_out_)
    pca = KernelPCA(most, feature_map=feature_map, random_state=0, scale=False)
    scores = pca.fit_transform(rows)
    assert np.isfinite(scores).all()
    assert pca.explained_variance_ratio_.sum() == pytest.approx(1.0, abs=1e-8)
    assert (np.diff(pca.eigenvalues_) <= 1e-12).all()
    with pytest.raises(ValueError, match=f"n_components must be at most {most}"):
        KernelPCA(most + 1, feature_map=feature_map, random_state=0, scale=False).fit(rows)


@pytest.mark.parametrize("feature_map", ["exact", "nystroem", "binning"])
@pytest.mark.parametrize("n", [60, 600])
def test_equal_rows_have_components_of_zero(feature_map, n, dtype):
    rows = np.ones((n, 3), dtype=dtype)
    pca = KernelPCA(
        1, feature_map=feature_map, gamma=1.0, n_features=None, random_state=0, scale=False
    )
    scores = pca.fit_transform(rows)
    np.testing.assert_array_equal(pca.eigenvalues_, 0.0)
    np.testing.assert_array_equal(scores, 0.0)
    np.testing.assert_array_equal(pca.transform(rows + np.eye(1, 3, dtype=dtype) / 4), 0.0)
    np.testing.assert_allclose(pca.inverse_transform(scores), rows, atol=1e-10)


@pytest.mark.parametrize("feature_map", ["exact", "fourier"])
def test_float32_rows_give_float32_components(feature_map):
    kinds = [
        KernelPCA(3, feature_map=feature_map, gamma=1.0, random_state=0, scale=False).fit_transform(
            rows
        )
        for rows in (X, X.astype(np.float32))
    ]
    assert [kind.dtype for kind in kinds] == [np.float64, np.float32]
    np.testing.assert_allclose(matched(kinds[1], kinds[0]), kinds[0], atol=2e-5)


def test_close_eigenvalues_end_with_a_warning_and_not_an_error(monkeypatch):
    monkeypatch.setattr("mercer.unsupervised.base._RESTARTS", 1)
    monkeypatch.setattr("mercer.unsupervised.base._BASIS", 7)
    rows = np.random.default_rng(0).normal(size=(900, 30))
    with pytest.warns(UserWarning, match="leading eigenvalues lie too close together"):
        scores = KernelPCA(3, gamma=0.1, random_state=0, scale=False).fit_transform(rows)
    assert scores.shape == (900, 3)
    assert np.isfinite(scores).all()


def test_vectors_of_lanczos_that_do_not_fit_are_refused(monkeypatch):
    monkeypatch.setattr("mercer._runtime.arrays.available_memory", lambda: 1e5)
    with pytest.raises(MemoryError, match=r"Lanczos' method with 40 vectors of 900 numbers"):
        base.leading(lambda v: v, 900, 2, 0, 1e-6)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"n_components": 0}, "n_components must be"),
        ({"n_components": 2.5}, "n_components must be"),
        ({"alpha": 0.0}, "alpha must be"),
        ({"alpha": "small"}, "alpha must be"),
        ({"gamma": -1.0}, "gamma must be"),
        ({"kernel": "unheard"}, "kernel must be"),
        ({"feature_map": "unheard"}, "feature_map must be"),
    ],
)
def test_wrong_parameters_are_named(settings, sentence):
    with pytest.raises((ValueError, TypeError), match=sentence) as caught:
        KernelPCA(**settings, scale=False).fit(X)
    assert "\n" not in str(caught.value)


def test_components_of_another_number_are_refused_by_inverse_transform():
    pca = KernelPCA(2, gamma=1.0, scale=False).fit(X)
    with pytest.raises(ValueError, match="X must have 2 columns, one per component"):
        pca.inverse_transform(np.ones((3, 4)))


def test_names_of_components():
    pca = KernelPCA(2, gamma=1.0, scale=False).fit(X)
    assert list(pca.get_feature_names_out()) == ["kernelpca0", "kernelpca1"]


def test_examples_run(check_examples):
    check_examples(components)
