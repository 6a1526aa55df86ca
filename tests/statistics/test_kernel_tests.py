"""Permutation tests keep their level and find differences; statistics equal their definitions."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.pipeline import make_pipeline

from mercer import (
    AutoKernelRegressor,
    KernelRegressor,
    LocalKernelRegressor,
    TablePreparer,
    kernels,
)
from mercer.statistics import drift_test, hsic_test, mmd_test
from mercer.statistics.tests import _aggregated


def normal(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape)


# -- statistics ------------------------------------------------------------------------------------


def test_the_statistic_is_the_distance_of_mean_features():
    X, Y = normal(40, 3), normal(30, 3, seed=1)
    found = mmd_test(X, Y, gammas=[0.5, 2.0], feature_map="nystroem", n_features=70, random_state=0)
    for gamma, statistic in zip(found.gammas, found.statistics, strict=True):
        kernel = kernels.Gaussian(gamma=gamma)
        expected = kernel(X, X).mean() + kernel(Y, Y).mean() - 2 * kernel(X, Y).mean()
        assert statistic == pytest.approx(expected, rel=1e-6)


def test_the_covariance_is_that_of_centred_kernels():
    X, Y = normal(30, 2), normal(30, 1, seed=1)
    found = hsic_test(X, Y, gammas=[1.0], feature_map="nystroem", n_features=30, random_state=0)
    centre = np.eye(30) - 1 / 30
    matrices = [
        kernels.Gaussian(gamma=kernels.Gaussian("median").resolve(t).gamma)(t) for t in (X, Y)
    ]
    expected = np.trace(matrices[0] @ centre @ matrices[1] @ centre) / 30**2
    assert found.statistics[0] == pytest.approx(expected, rel=1e-6)


def test_p_values_are_ranks_among_permutations():
    found = _aggregated(np.array([[3.0, 1.0, 2.0, 3.0], [0.0, 5.0, 6.0, 7.0]]), [1.0, 2.0])
    np.testing.assert_allclose(found.p_values, [0.5, 1.0])
    # The least p-values are 1/2 (observed), 3/4, 1/2, 1/4: two permutations do as well or better.
    assert found.p_value == pytest.approx(3 / 4)
    assert found.n_permutations == 3


# -- level and power -------------------------------------------------------------------------------


@pytest.mark.parametrize("test", ["mmd", "hsic"])
def test_the_level_is_kept(test):
    rejected = 0
    repeats = 400
    for seed in range(repeats):
        X, Y = normal(30, 2, seed=2 * seed), normal(30, 2, seed=2 * seed + 1)
        how = {"n_features": 20, "n_permutations": 39, "random_state": seed, "n_jobs": 1}
        rejected += (mmd_test if test == "mmd" else hsic_test)(X, Y, **how).p_value <= 0.05
    # Within four standard errors of the level.
    assert abs(rejected / repeats - 0.05) < 4 * np.sqrt(0.05 * 0.95 / repeats)


def test_differences_of_scale_shape_and_dependence_are_found():
    X = normal(300, 2)
    for Y in (normal(300, 2, seed=1) + 0.4, 1.4 * normal(300, 2, seed=1), np.sign(X) * 0.8 * X**2):
        assert mmd_test(X, Y, random_state=0).p_value < 0.02
    Y = np.column_stack([np.abs(X[:, 0]) + 0.3 * normal(300, seed=2), normal(300, seed=3)])
    assert abs(np.corrcoef(X[:, 0], Y[:, 0])[0, 1]) < 0.2
    assert hsic_test(X, Y, random_state=0).p_value < 0.02


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_equal_rows_are_no_difference(dtype):
    rows = np.full((80, 2), 1.7, dtype=dtype)
    assert mmd_test(rows, rows[:50], random_state=0).p_value == 1.0
    assert hsic_test(rows, rows, random_state=0).p_value == 1.0


def test_differences_that_a_wide_kernel_hardly_sees_are_found():
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(200, 2)), rng.normal(size=(200, 2)) + 1.0
    assert mmd_test(X, Y, gammas=[1e-6], random_state=0).p_value < 0.05


def test_the_seed_decides_the_result():
    X, Y = normal(50, 2), normal(60, 2, seed=1) + 0.2
    one, again, other = (mmd_test(X, Y, random_state=seed) for seed in (0, 0, 1))
    assert one.p_value == again.p_value
    np.testing.assert_array_equal(one.statistics, again.statistics)
    assert (one.statistics != other.statistics).any()


# -- tables ----------------------------------------------------------------------------------------


def raw(n, seed, shift=0.0):
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "city": rng.choice(["Rome", "Oslo", None], n, p=[0.6 - shift, 0.3 + shift, 0.1]),
            "size": [f"{size:.0f} cm" for size in rng.gamma(9, 9, n)],
        }
    )


def test_raw_tables_are_compared():
    assert mmd_test(raw(300, 0), raw(300, 1, 0.4), random_state=0).p_value < 0.02
    assert mmd_test(raw(300, 0), raw(300, 1), random_state=0).p_value > 0.05
    table = raw(300, 0)
    assert hsic_test(table[["city"]], table[["city"]], random_state=0).p_value < 0.02


def test_sparse_rows_are_compared_as_dense_ones():
    X, Y = (sparse.random(60, 8, 0.4, random_state=seed, format="csr") for seed in (0, 1))
    dense = mmd_test(X.toarray(), Y.toarray(), gammas=[1.0], random_state=0)
    found = mmd_test(X, Y, gammas=[1.0], random_state=0)
    np.testing.assert_allclose(found.statistics, dense.statistics, rtol=1e-6)


def test_any_map_and_kernel_serve():
    X, Y = normal(100, 2), normal(100, 2, seed=1) + 1
    for feature_map in ("binning", "nystroem", "fastfood"):
        assert (
            mmd_test(
                X, Y, kernel=None, feature_map=feature_map, n_features=64, random_state=0
            ).p_value
            < 0.02
        )
    assert mmd_test(X, Y, kernel="laplacian", random_state=0).p_value < 0.02


# -- drift -----------------------------------------------------------------------------------------


def test_drift_of_the_inputs_of_a_model_is_found():
    table = raw(400, 0).assign(idle=normal(400))
    target = table["size"].str[:-3].astype(float) + 30 * (table.city == "Rome")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = AutoKernelRegressor(random_state=0).fit(table, target)
    same, moved = raw(200, 1), raw(200, 1, 0.4)
    for new, drifts in ((same, False), (moved, True)):
        p_value = drift_test(model, new.assign(idle=normal(200, seed=1)), random_state=0).p_value
        assert (p_value < 0.02) == drifts
    local = LocalKernelRegressor(leaf_size=50, random_state=0).fit(normal(300, 3), normal(300))
    assert drift_test(local, normal(100, 3, seed=1) + 1, random_state=0).p_value < 0.02


@pytest.mark.parametrize("n_labels", [2, 3, 40])
def test_labels_unknown_to_the_fit_are_a_drift(n_labels):
    rng = np.random.default_rng(0)
    x, labels = rng.normal(size=300), rng.integers(0, n_labels, 300)
    table = np.column_stack([x.astype(object), [f"l{label}" for label in labels]])
    machine = KernelRegressor("nystroem", n_components=300, random_state=0)
    model = make_pipeline(TablePreparer(), machine).fit(table, x + labels / n_labels)
    new = table[:80].copy()
    assert drift_test(model, new, random_state=0).p_value > 0.05
    new[:, 1] = "never met"
    assert drift_test(model, new, random_state=0).p_value < 0.05


# -- wrong input -----------------------------------------------------------------------------------


def test_wrong_input_is_refused_in_a_sentence():
    X = normal(20, 2)
    with pytest.raises(ValueError, match="Y must have at least 2 rows; got 1"):
        mmd_test(X, X[:1])
    with pytest.raises(ValueError, match="same number of columns; got 2 and 1"):
        mmd_test(X, X[:, :1])
    with pytest.raises(ValueError, match="X must be a matrix of finite numbers"):
        mmd_test(X, np.full((3, 2), np.nan))
    with pytest.raises(ValueError, match="same number of rows, 4 or more; got 20 and 3"):
        hsic_test(X, X[:3])
    with pytest.raises(ValueError, match="n_permutations must be"):
        mmd_test(X, X, n_permutations=0)
    with pytest.raises(ValueError, match="gamma must be"):
        mmd_test(X, X, gammas=[-1.0])
    with pytest.raises(ValueError, match="must keep training rows"):
        drift_test(KernelRegressor("fourier").fit(X, X[:, 0]), X)
    with pytest.raises(ValueError, match="feature_map must be one of"):
        mmd_test(X, X, feature_map="cosine")
