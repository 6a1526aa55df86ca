"""Machines that are solved to a few hundredths take less time, and stay right to that."""

import numpy as np
import pytest
from scipy import sparse

from mercer import AutoKernelClassifier, KernelRegressor
from mercer.auto.trials import Settings, feature_tol
from mercer.designs import FixedPointKernel, KernelColumns
from mercer.kernels import Gaussian, Laplacian
from mercer.losses import Squared
from mercer.maps import ExactKernel
from mercer.penalties import RKHSNorm
from mercer.problem import Problem
from mercer.problem.precision import ENOUGH, beyond_reach
from mercer.solvers import Cholesky, ConjugateGradient
from mercer.solvers.base import Clock
from mercer.solvers.preconditioners import pivots_of

pytestmark = pytest.mark.rounding


def noisy(n, ridge, kernel=None):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 4)).astype(np.float32)
    y = (np.sin(X[:, 0]) + 0.3 * rng.normal(size=n)).astype(np.float32)
    design = KernelColumns(X, kernel or Gaussian(0.1))
    return Problem(design, y, Squared(), RKHSNorm(ridge / n, design))


@pytest.mark.parametrize(("shift", "dtype"), [(0.3, np.float32), (1e-5, np.float64)])
def test_a_factor_grows_in_the_precision_that_the_shift_wants(shift, dtype, monkeypatch):
    grown = []

    def factor(*arguments):
        grown.append(arguments[-1])
        return growing(*arguments)

    from mercer.solvers import preconditioners

    growing = preconditioners.GrowingFactor
    monkeypatch.setattr(preconditioners, "GrowingFactor", factor)
    design = noisy(300, 1.0, Laplacian(0.5)).design
    F = pivots_of(design, 150, 7, shift=shift).astype(np.float64)
    assert np.dtype(grown[0]) == dtype
    # What FᵀF leaves of K is zero at the pivots, and nowhere negative.
    left = np.linalg.eigvalsh(design.toarray().astype(np.float64) - F.T @ F)
    assert left.min() > -1e-5
    assert np.sum(np.abs(np.diag(design.toarray() - F.T @ F)) < 1e-5) >= len(F)


@pytest.mark.parametrize(("noise", "is_rounded"), [(3.0, False), (6.0, True)])
def test_a_matrix_is_rounded_where_a_round_gains_much(noise, is_rounded):
    n = 600
    ridge = noise * FixedPointKernel.rounding(n)
    problem = noisy(n, ridge)
    machine = ConjugateGradient(0.02).share(problem, [ridge / n], Clock())[0]
    assert isinstance(machine.design, FixedPointKernel) == is_rounded
    assert ConjugateGradient(0.02).solve(problem).converged


def test_rough_answers_need_no_float64(monkeypatch):
    n, ridge = 800, 3e-4
    problem = noisy(n, ridge)
    assert beyond_reach(problem)
    assert beyond_reach(problem, ENOUGH[problem.dtype])
    assert not beyond_reach(problem, 0.3 * 0.02)
    dtypes = []
    solve = ConjugateGradient.solve

    def told(self, problem, *arguments):
        dtypes.append(problem.dtype)
        return solve(self, problem, *arguments)

    monkeypatch.setattr(ConjugateGradient, "solve", told)
    X, y = problem.design.points(), problem.y
    kernel = ExactKernel("gaussian", 0.1)
    for tol, dtype in [(0.02, np.float32), (0.001, np.float64)]:
        solver = ConjugateGradient(tol)
        model = KernelRegressor(kernel, scale=False, alpha=ridge / n, solver=solver).fit(X, y)
        assert dtypes.pop() == dtype
        wide = KernelRegressor(kernel, scale=False, alpha=ridge / n, solver=Cholesky())
        expected = wide.fit(X.astype(np.float64), y).predict(X.astype(np.float64))
        error = np.sqrt(np.mean((model.predict(X) - expected) ** 2))
        assert error < tol * y.std()


def test_features_are_fitted_as_they_were_tried():
    tols = [feature_tol(Settings(kernel=k), "classes") for k in ("laplacian", "linear")]
    assert tols == [0.03, 0.01]
    assert feature_tol(Settings(kernel="gaussian"), "continuous") == 0.01
    X = sparse.random_array((300, 30), density=0.2, format="csr", random_state=0)
    y = X[:, [3]].toarray().ravel() > 0
    model = AutoKernelClassifier(random_state=0).fit(X, y)
    tried = feature_tol(Settings(**model.best_settings_), "classes")
    assert 0 < model.kernel_machine_.tol <= tried  # a tenth of the error, where that is less
