"""Fits do not depend on rounding, the unit of an input or constant columns."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone, is_classifier

from mercer import (
    DoublySGDClassifier,
    KernelClassifier,
    KernelRegressor,
    LocalKernelClassifier,
    SparseKernelClassifier,
    solvers,
)
from mercer.distributed import Here, Shard
from mercer.distributed.models import fit_over
from mercer.estimators import probabilities
from mercer.explain import shapley_values
from mercer.persistence import load, save

MODELS = {
    "binning": KernelClassifier("binning", n_components=32, random_state=0),
    "exact": KernelClassifier("exact", kernel="laplacian"),
    "fourier": KernelClassifier("fourier", n_components=64, random_state=0),
    "local": LocalKernelClassifier(leaf_size=40, random_state=0),
    "doubly": DoublySGDClassifier(loss="squared", max_iter=5, random_state=0),
    "sparse": SparseKernelClassifier(max_rounds=8, random_state=0),
}


def table(seed=1, n=120):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    return X, (X[:, 0] + 0.7 * rng.normal(size=n) > 0).astype(int)


def in_another_unit(X, column=1):
    X = X.copy()
    X[:, column] = 1000 * X[:, column] + 77
    return X


def with_constants(X):
    return np.column_stack([X[:, :1], np.full(len(X), 7.1), X[:, 1:], np.zeros(len(X))])


def responses(model, X, y, X_as_fitted):
    model = clone(model).fit(X_as_fitted, y)
    return model.predict_proba(X_as_fitted) if is_classifier(model) else model.predict(X_as_fitted)


CHANGES = {
    "float32": lambda X: X.astype(np.float32),
    "unit": in_another_unit,
    "unit of the first": lambda X: in_another_unit(X, 0),
    "constants": with_constants,
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("name", MODELS)
def test_probabilities_survive_rounding_units_and_constant_columns(name, change):
    X, y = table()
    whole, changed = (responses(MODELS[name], X, y, rows) for rows in (X, CHANGES[change](X)))
    np.testing.assert_allclose(changed, whole, atol=1e-4)


@pytest.mark.parametrize("is_sparse", [False, True])
def test_rounding_and_units_change_the_half_of_few_rows(is_sparse):
    X, y = table(n=400)
    if is_sparse:
        X = sparse.random_array((400, 20), density=0.3, rng=np.random.default_rng(0), format="csr")
    target = np.where(y == 1, 1.0, -1.0)
    changes = [X.astype(np.float32), X * 1000] + ([] if is_sparse else [in_another_unit(X)])
    fitted = [
        probabilities._halves(probabilities.TrainingSample(rows, target))[0]
        for rows in [X, *changes]
    ]
    for other in fitted[1:]:
        assert len(np.setxor1d(fitted[0], other)) <= 4


REGRESSORS = [
    KernelRegressor("fourier", n_components=40, random_state=0),
    KernelRegressor("fourier", kernel="laplacian", n_components=40, scale=False, random_state=0),
    KernelRegressor("binning", gamma_path=[0.1, 1.0], n_components=20, random_state=0),
    KernelRegressor("binning", solver=solvers.BlockCoordinateDescent(), n_components=20,
                    random_state=0),
    KernelRegressor("fourier", selection="leave-one-out", n_components=40, random_state=0),
    KernelRegressor("tefm", n_components=10, random_state=0),
    KernelRegressor("exact", kernel="laplacian", selection="evidence"),
]  # fmt: skip


@pytest.mark.parametrize("model", REGRESSORS, ids=repr)
def test_constant_columns_change_no_regression(model):
    X, _ = table(n=60)
    y = np.sin(2 * X[:, 0]) + X[:, 1]
    more = with_constants(X)
    whole, changed = (clone(model).fit(rows, y) for rows in (X, more))
    assert (changed.n_features_in_, changed.feature_map_.n_features_in_) == (5, 5)
    np.testing.assert_allclose(changed.predict(more), whole.predict(X), atol=1e-6)


def test_a_gamma_per_input_stays_at_its_input_beside_constant_columns():
    X, _ = table(n=60)
    y, more = np.sin(2 * X[:, 0]), with_constants(X)
    model = KernelRegressor("fourier", gamma=[1.0, 0.1, 0.3], n_components=40, random_state=0)
    other = clone(model).set_params(gamma=[1.0, 9.0, 0.1, 0.3, 9.0])
    np.testing.assert_allclose(other.fit(more, y).predict(more), model.fit(X, y).predict(X))
    with pytest.raises(ValueError, match="gamma must have one entry per input; got 3 for 5"):
        model.fit(more, y)


def test_sparse_columns_without_an_entry_change_no_regression():
    rng = np.random.default_rng(0)
    X = sparse.random_array((80, 6), density=0.5, rng=rng, format="csr")
    more = sparse.csr_array(sparse.hstack([X[:, :2], sparse.csr_array((80, 1)), X[:, 2:]]))
    y, model = X.sum(axis=1), KernelRegressor("fourier", n_components=30, random_state=0)
    np.testing.assert_allclose(clone(model).fit(more, y).predict(more), model.fit(X, y).predict(X))


@pytest.mark.parametrize("feature_map", ["fourier", "binning", "exact"])
def test_machines_over_shards_and_files_leave_constant_columns_out(feature_map, tmp_path):
    X, _ = table(n=90)
    more, y = with_constants(X), np.sin(2 * X[:, 0])
    settings = {} if feature_map == "exact" else {"n_components": 30, "random_state": 0}
    model = KernelRegressor(feature_map, kernel="laplacian", tol=1e-8, **settings)
    if feature_map == "fourier":
        model.set_params(kernel="gaussian")
    shards = [Shard(more[i::3], y[i::3]) for i in range(3)]
    here, far = clone(model).fit(more, y), fit_over(clone(model), Here(shards))
    np.testing.assert_allclose(far.predict(more), here.predict(more), atol=1e-4)
    save(here, tmp_path / "model.mercer")
    np.testing.assert_array_equal(load(tmp_path / "model.mercer").predict(more), here.predict(more))


@pytest.mark.parametrize("feature_map", ["fourier", "binning", "exact"])
def test_constant_columns_have_no_shapley_values(feature_map):
    X, _ = table(n=60)
    more, y = with_constants(X), np.sin(2 * X[:, 0])
    settings = {} if feature_map == "exact" else {"n_components": 20, "random_state": 0}
    model = KernelRegressor(feature_map, **settings).fit(more, y)
    values = shapley_values(model, more[:3], more[:20]).values
    np.testing.assert_allclose(values[:, [1, 4]], 0, atol=1e-10)
