"""Kernel ridge regression by the kernel matrices of independent blocks."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.kernel_ridge import KernelRidge

from mercer import kernels
from mercer.compare import methods, selection
from mercer_studies.independent_blocks import BLOCKS, IndependentBlocks


def sample(n=150, d=3, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, d))
    return X, np.sin(3 * X[:, 0]) + X[:, 1] * X[:, 2] + 2.0


def blocks(size, **settings):
    settings = {"gamma": 0.7, "alpha": 1e-4, "scale": False, "random_state": 0, **settings}
    return IndependentBlocks(block_size=size, **settings)


@pytest.mark.parametrize("n", [7, 64, 150, 151])
@pytest.mark.parametrize("size", [1, 5, 16, 37])
def test_blocks_hold_each_row_once_and_have_from_r_to_below_2r_rows(n, size):
    X, y = sample(n)
    found = blocks(size).fit(X, y).blocks_
    np.testing.assert_array_equal(np.sort(np.concatenate(found)), np.arange(n))
    for block in found:
        assert min(size, n) <= len(block) < max(2 * size, n + 1)
        assert len(block) < 2 * size


def test_equal_rows_do_not_unbalance_the_blocks():
    X, y = np.ones((40, 2)), np.arange(40.0)
    assert {len(block) for block in blocks(10).fit(X, y).blocks_} == {10}


def test_one_block_is_kernel_ridge_with_centred_targets():
    X, y = sample()
    X_new = sample(30, seed=1)[0]
    model = blocks(len(X)).fit(X, y)
    kernel = kernels.Laplacian(0.7)
    reference = KernelRidge(alpha=150 * 1e-4, kernel="precomputed").fit(kernel(X), y - y.mean())
    expected = reference.predict(kernel(X_new, X)) + y.mean()
    np.testing.assert_allclose(model.predict(X_new), expected, rtol=1e-8)


def test_blocks_solve_the_kernel_matrix_without_entries_between_blocks():
    X, y = sample()
    model = blocks(20).fit(X, y)
    assert len(model.blocks_) > 3
    K = kernels.Laplacian(0.7)(X)
    label = np.empty(len(X))
    for number, block in enumerate(model.blocks_):
        label[block] = number
    K[label[:, None] != label] = 0.0
    dual = np.linalg.solve(K + 150 * 1e-4 * np.eye(len(X)), y - y.mean())
    np.testing.assert_allclose(model.dual_coef_[:, 0], dual, rtol=1e-8)
    np.testing.assert_allclose(model.predict_training(), K @ dual + y.mean(), rtol=1e-8)


def test_training_rows_are_routed_to_their_own_block():
    X, y = sample()
    model = blocks(20).fit(X, y)
    np.testing.assert_allclose(model.predict(X), model.predict_training(), rtol=1e-8)


def test_rows_in_any_order_and_number_are_predicted_alike():
    X, y = sample()
    X_new = sample(40, seed=1)[0]
    model = blocks(20, n_jobs=2).fit(X, y)
    whole = model.predict(X_new)
    order = np.random.default_rng(0).permutation(40)
    np.testing.assert_allclose(model.predict(X_new[order]), whole[order])
    np.testing.assert_allclose(model.predict(X_new[:1]), whole[:1])
    np.testing.assert_allclose(blocks(20, n_jobs=1).fit(X, y).predict(X_new), whole)


def test_outputs_are_independent_of_each_other():
    X, y = sample()
    both = blocks(20).fit(X, np.column_stack([y, y**2])).predict(X)
    np.testing.assert_allclose(both[:, 0], blocks(20).fit(X, y).predict(X))
    np.testing.assert_allclose(both[:, 1], blocks(20).fit(X, y**2).predict(X))


def test_classes_are_predicted_by_name():
    X, y = sample()
    names = np.array(["low", "middle", "high"])[np.digitize(y, [1.5, 2.5])]
    model = blocks(30, classify=True).fit(X, names)
    assert set(model.predict(X)) == set(names)
    assert np.mean(model.predict(X) == names) > 0.95


@pytest.mark.parametrize(("size", "error"), [(0, ValueError), (2.5, TypeError), (True, TypeError)])
def test_block_size_must_be_a_whole_number(size, error):
    with pytest.raises(error, match="block_size must be"):
        blocks(size).fit(*sample(20))


def test_memory_is_asked_for_before_it_is_taken(monkeypatch):
    monkeypatch.setattr("mercer._runtime.arrays.available_memory", lambda: 10_000)
    monkeypatch.setattr("mercer._runtime.arrays._LITTLE", 0)
    with pytest.raises(MemoryError, match="lower block_size"):
        blocks(100).fit(*sample())


def test_blocks_are_chosen_for_like_other_methods():
    X, y = sample()
    chosen = selection.Selection(X, y, "regression", seed=0, max_rows=80, n_jobs=1)
    choice = chosen.choose(BLOCKS)
    assert choice.kernel == "laplacian"
    assert choice.error < 0.5
    assert "blocks" not in methods.METHODS
