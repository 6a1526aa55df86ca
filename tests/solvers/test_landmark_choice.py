"""The solver and the form of landmarks that "auto" takes, by rows, landmarks and outputs."""

import numpy as np
import pytest

from mercer import KernelRegressor, solvers


@pytest.mark.parametrize(
    ("n", "landmarks", "outputs", "wanted"),
    [
        (20_000, 2000, 1, True),
        (20_000, 2000, 3, True),
        (20_000, 2000, 4, False),  # each output costs a product, a factor serves all
        (19_999, 2000, 1, False),
        (20_000, 1000, 1, False),
    ],
)
def test_iterations_suit_many_rows_of_many_landmarks_and_few_outputs(n, landmarks, outputs, wanted):
    assert solvers.suits_iterations(n, landmarks, outputs) is wanted


@pytest.mark.parametrize("n_outputs", [1, 4])
def test_both_forms_are_the_same_machine(monkeypatch, n_outputs):
    monkeypatch.setattr(solvers, "_SOME_LANDMARKS", 40)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1200, 3))
    Y = np.column_stack([np.sin(X[:, 0] + k) for k in range(n_outputs)])
    given = {"n_components": 60, "alpha": 1e-4, "tol": 1e-10, "random_state": 0}
    found = KernelRegressor("nystroem", **given).fit(X, Y)
    assert found.feature_map_.whiten is (n_outputs == 4)
    assert (found.solver_ == "cg") is (n_outputs == 1)
    direct = KernelRegressor("nystroem", solver="cholesky", **given).fit(X, Y)
    np.testing.assert_allclose(found.predict(X), direct.predict(X), atol=1e-5)
