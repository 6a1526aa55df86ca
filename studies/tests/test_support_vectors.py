"""The support vector machines that papers are compared with: both ways find the same machine."""

import numpy as np
import pytest

from mercer_studies.support_vectors import SupportVectorClassifier, SupportVectorRegressor


def rings(n=250, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3)) * [1, 2, 3]
    return X, np.where(np.hypot(X[:, 0], X[:, 1] / 2) < 1 + 0.2 * rng.normal(size=n), "in", "out")


@pytest.mark.parametrize("kernel", ["gaussian", "laplacian"])
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_libsvm_and_pairs_are_the_same_classifier(kernel, loss):
    X, y = rings()
    one, two = (
        SupportVectorClassifier(kernel, 0.5, C=4.0, loss=loss, solver=name, tol=1e-7).fit(X, y)
        for name in ("libsvm", "pairs")
    )
    new = rings(400, seed=1)[0]
    np.testing.assert_array_equal(one.predict(new), two.predict(new))
    assert one.n_support_ == pytest.approx(two.n_support_, abs=1)
    assert one.n_iter_ > 10 < two.n_iter_
    if loss == "squared_hinge":  # of one machine, so that its coefficients can be told apart
        plain = SupportVectorClassifier(kernel, 0.5, C=4.0, solver="pairs", tol=1e-7).fit(X, y)
        assert np.abs(plain.model_.dual_coef_).max() <= 4.0 < np.abs(two.model_.dual_coef_).max()


@pytest.mark.parametrize("kernel", ["gaussian", "laplacian"])
def test_libsvm_and_pairs_are_the_same_regressor(kernel):
    X, _ = rings()
    y = np.sin(X).sum(axis=1) + 7
    one, two = (
        SupportVectorRegressor(kernel, 0.5, C=4.0, epsilon=0.2, solver=name, tol=1e-6).fit(X, y)
        for name in ("libsvm", "pairs")
    )
    new = rings(100, seed=1)[0]
    np.testing.assert_allclose(one.predict(new), two.predict(new), atol=1e-4)
    assert one.n_support_ == pytest.approx(two.n_support_, abs=1)
    inside = np.abs(two.predict(X) - y) < 0.2 - 1e-3
    assert np.sum(inside) == pytest.approx(len(y) - two.n_support_, abs=2)


def test_errors_within_epsilon_need_no_support():
    X, _ = rings()
    model = SupportVectorRegressor(epsilon=5.0, solver="pairs").fit(X, np.sin(X[:, 0]))
    assert model.n_support_ == 0
    assert np.ptp(model.predict(X)) == 0


def test_settings_that_make_no_sense_are_refused():
    X, y = rings(30)
    with pytest.raises(ValueError, match="solver must be one of"):
        SupportVectorClassifier(solver="smo").fit(X, y)
    with pytest.raises(ValueError, match="loss must be one of"):
        SupportVectorClassifier(loss="epsilon").fit(X, y)
    with pytest.raises(ValueError, match="C must be positive"):
        SupportVectorRegressor(C=-1.0).fit(X, X[:, 0])
