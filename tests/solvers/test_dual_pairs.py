"""Pairs in working sets: the plain algorithm, rows with errors, threads and caches."""

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from _dual_machines import DUALS, KERNEL, smo, two_classes, with_small_sets
from mercer.kernels import Callable, Cauchy, Gaussian, Laplacian
from mercer.kernels.rows import scaled_rows
from mercer.solvers import BoxDual, PairwiseCD
from mercer.solvers.dual import base, rows


@pytest.fixture
def small_sets(monkeypatch):
    with_small_sets(monkeypatch)


@pytest.mark.rounding
@pytest.mark.parametrize("n", [900, 1500])
def test_threads_do_not_change_pairs(n):
    X, y = two_classes(n)
    svm, regression = BoxDual.hinge(y, 10.0), BoxDual.epsilon_insensitive(X[:, 0], 5.0, 0.05)
    for dual, kernel in ((svm, KERNEL), (svm, Gaussian(9.0)), (regression, KERNEL)):
        one, three = (PairwiseCD(n_jobs=jobs).solve(dual, kernel, X) for jobs in (1, 3))
        np.testing.assert_array_equal(one.b, three.b)
        np.testing.assert_array_equal(one.sums, three.sums)
        assert one.n_iter == three.n_iter > 100


@pytest.mark.parametrize("name", [*DUALS, "epsilon"])
@pytest.mark.parametrize("kind", ["float32", "float64", "precomputed"])
def test_pairs_in_working_sets_are_the_plain_algorithm(name, kind, small_sets):
    X, y = two_classes(120)
    dual = BoxDual.epsilon_insensitive(X[:, 0], 2.0, 0.1) if name == "epsilon" else DUALS[name](y)
    kernel, rows = ("precomputed", KERNEL(X)) if kind == "precomputed" else (KERNEL, X)
    dtype = "float32" if kind == "float32" else "float64"
    found = PairwiseCD(tol=1e-7, n_jobs=1, dtype=dtype).solve(dual, kernel, rows)
    b = smo(KERNEL(X), dual, 1e-8)
    np.testing.assert_allclose(found.coef, dual.coef(b), atol=1e-5)
    np.testing.assert_allclose(found.sums, KERNEL(X) @ found.coef, atol=1e-10)
    assert found.converged
    assert abs(dual.coef(found.b).sum()) < 1e-10
    assert np.all((found.b >= dual.lower) & (found.b <= dual.upper))


def test_rows_with_errors_lead_to_the_solution_of_the_kernel(small_sets, monkeypatch):
    X, y = two_classes(200)
    dual, add, made = BoxDual.hinge(y, 5.0), rows.PairRows.add, []

    def spoilt(self, some, steps, sums):
        add(self, some, 1.001 * steps, sums)

    def remade(self, coef):
        made.append(len(coef))
        return KERNEL(X) @ coef

    monkeypatch.setattr(rows.PairRows, "add", spoilt)
    monkeypatch.setattr(base.Machine, "_sums", remade)
    found = PairwiseCD(tol=1e-5, n_jobs=1).solve(dual, KERNEL, X)
    assert found.converged
    assert len(made) > 1
    assert dual.violation(found.b, KERNEL(X) @ found.b) <= 1.001e-5


def test_a_tolerance_below_the_errors_of_rows_ends_all_the_same(small_sets, monkeypatch):
    X, y = two_classes(200)
    dual, calls = BoxDual.hinge(y, 5.0), []

    def remade(self, coef):
        calls.append(len(coef))
        return KERNEL(X) @ coef + 0.01 * np.cos(len(calls) * np.arange(200.0))

    monkeypatch.setattr(base.Machine, "_sums", remade)
    with pytest.warns(ConvergenceWarning, match="cannot get"):
        found = PairwiseCD(n_jobs=1).solve(dual, KERNEL, X)
    assert 1 < len(calls) < 20
    assert found.optimality > 1e-3
    assert not found.converged


@pytest.mark.parametrize("shift", [0.0, 1e5])
def test_pairs_of_many_rows_meet_the_tolerance_in_float64(shift):
    X, y = two_classes(1500)
    X[700:900] = X[:200]
    dual = BoxDual.hinge(y, 20.0)
    found = PairwiseCD(n_jobs=1).solve(dual, KERNEL, X + shift)
    assert found.converged
    assert dual.violation(found.b, KERNEL(X) @ found.b) <= 1.01e-3


@pytest.mark.parametrize(
    "kernel", [Gaussian(0.3e-24), Laplacian([0.1e-12, 0.2e-12, 0.3e-12]), Cauchy(0.5e-12)]
)
def test_rows_in_float32_are_scaled_first(kernel):
    X, _ = two_classes(100)
    scaled = scaled_rows(kernel, 1e12 * X + 3e13)
    K = kernel(1e12 * X + 3e13)
    assert scaled.dtype == np.float32
    np.testing.assert_allclose(kernel.with_gamma(1.0)(scaled), K, atol=1e-5)
    assert scaled_rows(Gaussian(1.0), 1e12 * X) is None
    assert scaled_rows(Callable(lambda A, B: A @ B.T), X) is None


@pytest.mark.parametrize("room", [0, 100, 10**6])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_rows_are_added_whatever_is_kept_of_them(room, dtype, rng):
    X, _ = two_classes(150)
    K = KERNEL(X)
    n_bytes = room * 150 * np.dtype(dtype).itemsize
    kept = rows.PairRows(KERNEL, X, dtype, n_bytes, 2, single=dtype == "float32")
    assert kept.exact == (dtype == "float64")
    sums, expected = np.zeros(150), np.zeros(150)
    for _ in range(20):
        some, steps = rng.integers(0, 150, 90), rng.normal(size=90)
        kept.add(some, steps, sums)
        expected += steps @ K[some]
    np.testing.assert_allclose(sums, expected, atol=1e-3 if dtype == "float32" else 1e-10)
    some = np.array([3, 140, 3])
    tolerance = 1e-5 if dtype == "float32" else 1e-14
    np.testing.assert_allclose(kept.block(some), K[np.ix_(some, some)], atol=tolerance)
    assert kept.n_made >= 150
    assert (kept.n_made == 150) == (room > 150)
