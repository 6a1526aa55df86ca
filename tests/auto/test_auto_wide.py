"""Wide tables: inputs that a lasso leaves out, and models no worse than linear ones."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.linear_model import LassoCV, RidgeCV

from mercer import AutoKernelClassifier, AutoKernelRegressor, GradientScaler
from mercer.auto.parts import Split, leaf_parts
from mercer.auto.trials import Settings
from mercer.estimators.lasso_scales import lasso_scales

N = 400


def wide_rows(kind, d, n_test=600, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(N + n_test, d))
    signal = {
        "two inputs": lambda: 2 * X[:, 0] + X[:, 1],
        "all inputs": lambda: X @ rng.normal(size=d),
    }[kind]()
    return X, signal / signal.std() + 0.4 * rng.normal(size=len(X))


@pytest.mark.parametrize(
    ("kind", "d"),
    [
        ("two inputs", 150),
        ("all inputs", 150),
        pytest.param("two inputs", 2500, marks=pytest.mark.slow),
    ],
)
def test_a_wide_table_is_learned_as_well_as_by_lasso_and_ridge(kind, d):
    X, y = wide_rows(kind, d)
    fitted, fresh = slice(None, N), slice(N, None)
    model = AutoKernelRegressor(random_state=0).fit(X[fitted], y[fitted])
    squares = [
        np.square(other.fit(X[fitted], y[fitted]).predict(X[fresh]) - y[fresh])
        for other in (LassoCV(max_iter=3000, tol=1e-3), RidgeCV(np.logspace(-1, 4, 8)))
    ]
    own = np.square(model.predict(X[fresh]) - y[fresh])
    best = min(squares, key=np.mean)
    assert own.mean() <= best.mean() + 2 * best.std() / np.sqrt(len(best))
    if kind == "two inputs":
        assert set(np.argsort(model.feature_importances_)[-2:]) == {0, 1}


def test_classes_of_a_wide_table_are_those_of_the_inputs_that_matter():
    X, y = wide_rows("two inputs", 2500, seed=1)
    labels = np.where(y > 0, "above", "below")
    model = AutoKernelClassifier(random_state=0).fit(X[:N], labels[:N])
    assert model.score(X[N:], labels[N:]) > 0.8


def test_scales_of_a_lasso_are_zero_but_for_inputs_that_matter():
    X, y = wide_rows("two inputs", 300)
    scales = lasso_scales(X, y[:, None] - y.mean())
    assert scales[0] == 1
    assert 0.3 < scales[1] < 0.7
    assert np.count_nonzero(scales) < 60
    both = lasso_scales(X, np.column_stack([X[:, 2], X[:, 3]]))
    assert min(both[2:4]) > 0.9


def test_scales_of_a_lasso_are_those_of_sparse_rows():
    X, y = wide_rows("two inputs", 60)
    X[np.abs(X) < 1] = 0
    dense = lasso_scales(X, y[:, None])
    np.testing.assert_allclose(lasso_scales(sparse.csr_array(X), y[:, None]), dense, atol=0.02)


def test_scales_of_a_lasso_count_rows_by_their_weights():
    X, y = wide_rows("two inputs", 30)
    X, y = X[:300], y[:300]
    other = X[:, 7] - X[:, 7].mean()
    target = np.where(np.arange(300) % 3 == 0, y, 5 * other)[:, None]
    scales = lasso_scales(X, target, np.where(np.arange(300) % 3 == 0, 1.0, 1e-9))
    assert scales.argmax() == 0
    assert scales[7] < 0.2


def test_targets_without_a_signal_leave_equal_scales():
    X = np.zeros((50, 4))
    np.testing.assert_array_equal(lasso_scales(X, np.ones((50, 1))), np.ones(4))


def test_a_scaler_leaves_out_inputs_of_scale_zero():
    X, y = wide_rows("two inputs", 120)
    scaler = GradientScaler(kernel="linear", random_state=0).fit(X, y)
    Z = scaler.transform(X)
    kept = np.flatnonzero(scaler.scales_)
    assert Z.shape == (len(X), len(kept))
    np.testing.assert_allclose(Z, X[:, kept] * scaler.matrix_[kept])
    assert scaler.get_feature_names_out().tolist() == [f"x{place}" for place in kept]
    np.testing.assert_allclose(scaler.transform(sparse.csr_array(X)), Z)


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_leaves_are_cut_where_a_lasso_leaves_inputs_out(form):
    X, y = wide_rows("two inputs", 150)
    rows = np.arange(len(X))
    part = Split(form(X), y[:, None], "continuous", rows[:800], rows[800:], 0)
    parts = leaf_parts(part, Settings(scales="linear", power=1.0), 100, 4, 0.1)
    assert not part.scales(Settings(scales="linear", power=1.0)).all()
    assert len(parts) == 4


def test_turned_scales_do_not_go_with_a_lasso():
    with pytest.raises(ValueError, match="full must be False with kernel='linear'"):
        GradientScaler(kernel="linear", full=True).fit(np.eye(5), np.arange(5.0))
