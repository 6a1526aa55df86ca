"""Machines that are solved to a few hundredths take less time, and stay right to that."""

import numpy as np
import pytest
from scipy import sparse

from mercer import AutoKernelClassifier, KernelRegressor
from mercer.auto.trials import Settings, feature_tol
from mercer.designs import FixedPointKernel, KernelColumns
from mercer.equations import equations
from mercer.kernels import Gaussian, Laplacian
from mercer.losses import Squared
from mercer.maps import ExactKernel
from mercer.penalties import RKHSNorm
from mercer.problem import Problem
from mercer.problem.precision import ENOUGH, beyond_reach
from mercer.solvers import Cholesky, ConjugateGradient, low_rank
from mercer.solvers.base import Clock
from mercer.solvers.low_rank import pivots_of

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

    growing = low_rank.GrowingFactor
    monkeypatch.setattr(low_rank, "GrowingFactor", factor)
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


@pytest.fixture
def float64_in_31_bits(monkeypatch):
    from mercer.solvers import krylov

    monkeypatch.setattr(krylov, "_FEW_ROWS", 100)


@pytest.mark.parametrize("kernel", [Gaussian(0.1), Laplacian(0.3)], ids=["gaussian", "laplacian"])
def test_responses_beyond_float32_are_those_of_float64(kernel, float64_in_31_bits, monkeypatch):
    n, ridge, tol = 900, 1e-4, 1e-3
    problem = noisy(n, ridge, kernel)
    X, y = problem.design.points(), problem.y
    machines = []
    share = ConjugateGradient.share

    def told(self, *arguments):
        machines.append(share(self, *arguments)[0])
        return share(self, *arguments)

    monkeypatch.setattr(ConjugateGradient, "share", told)
    model = KernelRegressor(ExactKernel(kernel), scale=False, alpha=ridge / n)
    model.set_params(solver=ConjugateGradient(tol)).fit(X, y)
    assert isinstance(machines[-1].design, FixedPointKernel)
    assert machines[-1].dtype == np.float64
    wide = KernelRegressor(ExactKernel(kernel), scale=False, alpha=ridge / n, solver=Cholesky())
    expected = wide.fit(X.astype(np.float64), y).predict(X)
    assert np.sqrt(np.mean((model.predict(X) - expected) ** 2)) < tol * y.std()


def test_true_residuals_have_entries_that_are_not_rounded(float64_in_31_bits):
    n, alpha = 300, 1e-5 / 300
    X, y = np.random.default_rng(0).normal(size=(n, 3)), np.ones(n)
    exact = KernelColumns(X, Gaussian(0.2))
    rounded = FixedPointKernel(exact)
    v = np.random.default_rng(1).normal(size=n)
    error = np.abs(rounded.matvec(v) - exact.matvec(v)).max()
    assert 1e-12 < error < 2.4e-10 * np.abs(v).sum()
    np.testing.assert_array_equal(rounded.exact.matvec(v), exact.matvec(v))
    found = [
        equations(Problem(design, y, Squared(), RKHSNorm(alpha, design))).residual(
            np.column_stack([v, v])
        )
        for design in (exact, rounded)
    ]
    np.testing.assert_allclose(found[1], found[0], rtol=0, atol=1e-12)


def test_float64_goes_on_from_the_solution_of_float32(float64_in_31_bits, monkeypatch):
    n, ridge = 900, 3e-3  # not beyond reach from the first, and too rough in the end
    problem = noisy(n, ridge)
    starts = []
    solve = ConjugateGradient.solve

    def told(self, problem, start=None, callback=None):
        starts.append((np.dtype(problem.dtype).name, start is not None))
        return solve(self, problem, start, callback)

    monkeypatch.setattr(ConjugateGradient, "solve", told)
    enough = {np.dtype(np.float32): 1e-6, np.dtype(np.float64): 1.0}
    monkeypatch.setattr("mercer.estimators.precision.ENOUGH", enough)
    monkeypatch.setattr("mercer.estimators.precision._SHARE_OF_TOL", 0.0)
    monkeypatch.setattr("mercer.estimators.precision.beyond_reach", lambda *_: False)
    model = KernelRegressor(ExactKernel("gaussian", 0.1), scale=False, alpha=ridge / n)
    model.set_params(solver=ConjugateGradient(1e-3)).fit(problem.design.points(), problem.y)
    assert starts == [("float32", False), ("float64", True)]
