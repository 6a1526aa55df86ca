"""Laws of dual kernel machines: optimality, certificates, other solvers, threads, caches."""

import importlib

import numpy as np
import pytest
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import SVC, SVR

from _dual_machines import DUALS, KERNEL, smo, two_classes, with_small_sets
from mercer import _core
from mercer.kernels import Callable, Cauchy, Exponential, Gaussian, Laplacian, Matern
from mercer.solvers import BoxDual, PairwiseCD


@pytest.fixture
def small_sets(monkeypatch):
    with_small_sets(monkeypatch)


@pytest.mark.parametrize("name", [*DUALS, "epsilon"])
def test_pairs_are_the_plain_algorithm(name):
    X, y = two_classes(120)
    dual = BoxDual.epsilon_insensitive(X[:, 0], 2.0, 0.1) if name == "epsilon" else DUALS[name](y)
    found = PairwiseCD(tol=1e-8, n_jobs=1, dtype="float64").solve(dual, KERNEL, X)
    b = smo(KERNEL(X), dual, 1e-8)
    np.testing.assert_allclose(found.coef, dual.coef(b), atol=1e-6)
    assert abs(dual.coef(found.b).sum()) < 1e-10


@pytest.mark.rounding
def test_the_size_of_the_cache_changes_nothing():
    X, y = two_classes(1500)
    dual = BoxDual.hinge(y, 3.0)
    small, large = (
        PairwiseCD(tol=1e-4, n_jobs=1, cache_size=size).solve(dual, KERNEL, X)
        for size in (0.05, 100.0)
    )
    np.testing.assert_array_equal(small.b, large.b)
    assert small.n_iter == large.n_iter
    assert small.n_rows_made > large.n_rows_made
    assert large.n_rows_made <= 1500


def test_variables_at_a_bound_start_at_the_other_problem_s():
    y, b = np.array([1.0, 1.0, 1.0, -1.0]), np.array([2.0, 0.0, 1.0, -2.0])
    weak = BoxDual.hinge(y, 2.0)
    assert BoxDual.hinge(y, 5.0).start(weak, b).tolist() == [5.0, 0.0, 1.0, -5.0]
    assert BoxDual.hinge(y, 0.5).start(weak, b).tolist() == [0.5, 0.0, 0.5, -0.5]
    assert BoxDual.squared_hinge(y, 5.0).start(weak, b).tolist() == b.tolist()


def test_a_start_at_the_solution_of_a_like_problem_saves_updates():
    X, y = two_classes(500)
    machine = PairwiseCD(tol=1e-4, n_jobs=1).prepare(KERNEL, X)
    weak, strong = BoxDual.hinge(y, 2.0), BoxDual.hinge(y, 3.0)
    first, cold = machine.solve(weak), machine.solve(strong)
    again = machine.solve(weak, start=first.b)
    assert again.n_iter <= first.n_iter / 20
    warm = machine.solve(strong, start=strong.start(weak, first.b))
    assert warm.n_iter < cold.n_iter
    assert warm.objective == pytest.approx(cold.objective, rel=1e-4)
    beyond = machine.solve(weak, start=1e3 * first.b)
    assert beyond.objective == pytest.approx(first.objective, rel=1e-4)
    assert abs(beyond.b.sum()) < 1e-9
    for start in (np.zeros(499), np.full(500, np.nan)):
        with pytest.raises(ValueError, match="start must have 500 finite entries"):
            machine.solve(weak, start=start)


@pytest.mark.parametrize("C", [0.1, 30.0])
def test_pairs_are_libsvm(C):
    X, y = two_classes()
    dual = BoxDual.hinge(y, C)
    ours = PairwiseCD(tol=1e-6, dtype="float64").solve(dual, KERNEL, X)
    theirs = SVC(C=C, gamma=0.3, tol=1e-6).fit(X, y)
    np.testing.assert_allclose(ours.coef[theirs.support_], theirs.dual_coef_[0], atol=2e-3 * C)
    assert ours.intercept == pytest.approx(theirs.intercept_[0], abs=1e-4)
    np.testing.assert_allclose(ours.sums + ours.intercept, theirs.decision_function(X), atol=1e-4)
    b = np.zeros(len(y))
    b[theirs.support_] = theirs.dual_coef_[0]
    sums = KERNEL(X) @ b
    assert dual.value(ours.b, ours.sums) == pytest.approx(dual.value(b, sums), rel=1e-6)
    assert ours.dual_gap < 1e-4 * ours.objective
    assert np.array_equal(np.flatnonzero(ours.coef), np.sort(theirs.support_))


def test_squared_hinge_is_libsvm_with_a_ridge_on_the_kernel():
    X, y = two_classes()
    C, K = 2.0, KERNEL(X)
    theirs = SVC(C=1e8, kernel="precomputed", tol=1e-8).fit(K + np.eye(len(K)) / (2 * C), y)
    coef = np.zeros(len(y))
    coef[theirs.support_] = theirs.dual_coef_[0]
    ours = PairwiseCD(tol=1e-8, dtype="float64").solve(BoxDual.squared_hinge(y, C), KERNEL, X)
    np.testing.assert_allclose(ours.coef, coef, atol=1e-5)


def test_epsilon_insensitive_pairs_are_libsvm():
    X, _ = two_classes()
    y = np.sin(X[:, 0]) + X[:, 1]
    dual = BoxDual.epsilon_insensitive(y, 3.0, 0.1)
    ours = PairwiseCD(tol=1e-6, dtype="float64").solve(dual, KERNEL, X)
    theirs = SVR(C=3.0, gamma=0.3, epsilon=0.1, tol=1e-6).fit(X, y)
    np.testing.assert_allclose(ours.sums + ours.intercept, theirs.predict(X), atol=1e-4)
    assert -1e-9 < ours.dual_gap < 1e-4 * ours.objective


@pytest.mark.parametrize(
    "kernel",
    [
        Gaussian(0.3),
        Laplacian(0.4),
        Exponential(0.5),
        Matern(0.5),
        Cauchy(0.5),
        0.5 * Gaussian(0.3) + 2.0 * Laplacian(0.1),
        Callable(lambda X, Y: (1 + X @ Y.T) ** 2),
    ],
    ids=lambda kernel: type(kernel).__name__,
)
@pytest.mark.parametrize("kind", ["float32", "float64", "csr"])
def test_rows_are_those_of_the_kernel_matrix(kernel, kind):
    X, y = two_classes(100)
    X[np.random.default_rng(0).random(X.shape) < 0.3] = 0.0
    if kind == "csr":
        if isinstance(kernel, Callable):
            pytest.skip("a function of arrays")
        X = sparse.csr_array(X)
    else:
        X = X.astype(kind)
    held = "float64" if kind == "csr" else kind
    dual = BoxDual.squared_hinge(y, 1.0)
    solver = PairwiseCD(tol=1e-2, n_jobs=1, dtype=held, cache_size=0.05)
    found = solver.solve(dual, kernel, X)
    assert found.converged
    tolerance = 1e-4 if kind == "float32" else 1e-8
    np.testing.assert_allclose(found.sums, kernel(X) @ found.coef, atol=tolerance)


def test_a_precomputed_kernel_is_the_kernel():
    X, y = two_classes(600)
    dual = BoxDual.hinge(y, 3.0)
    for jobs in (1, 2):
        solver = PairwiseCD(tol=1e-7, n_jobs=jobs, dtype="float64")
        direct = solver.solve(dual, KERNEL, X)
        given = solver.solve(dual, "precomputed", KERNEL(X))
        np.testing.assert_allclose(given.sums, direct.sums, atol=1e-5)
        assert given.n_rows_made == 0 < direct.n_rows_made


def least(K, dual):
    """The least objective without a constant term, which is minus the least of the dual."""
    S, e = K + np.diag(dual.extra), np.eye(len(K))
    b = np.zeros(len(K))
    h = dual.linear.copy()
    for _ in range(20_000):
        i = np.argmax(np.abs(np.clip(b - h, dual.lower, dual.upper) - b))
        step = np.clip(b[i] - h[i] / S[i, i], dual.lower[i], dual.upper[i]) - b[i]
        b, h = b + step * e[i], h + step * S[i]
    return -dual.value(b, K @ b)


def test_gaps_are_certificates_wherever_the_variables_are(rng):
    X, y = two_classes(100)
    K = KERNEL(X)
    for name, make in DUALS.items():
        dual = make(y)
        best = least(K, dual)
        for _ in range(20):
            end = np.clip(dual.upper + dual.lower, -5, 5)
            b = rng.uniform(0, 1, 100) * end
            gap = dual.gap(b, K @ b)
            assert gap >= dual.primal(b, K @ b) - best - 1e-8, name
            assert gap >= dual.value(b, K @ b) + best - 1e-8, name
            loss = np.maximum(1 - y * (K @ b), 0)
            C = np.linspace(0, 4, 100) if "weighted" in name else 3.0
            loss = loss**2 if name == "squared_hinge" or "squares" in name else loss
            expected = 0.5 * b @ K @ b + np.sum(C * loss)
            assert dual.primal(b, K @ b) == pytest.approx(expected)


@pytest.mark.rounding
def test_problems_on_one_machine_share_kernel_rows():
    X, y = two_classes()
    machine = PairwiseCD(n_jobs=1).prepare(KERNEL, X)
    first = machine.solve(BoxDual.hinge(y, 3.0))
    again = machine.solve(BoxDual.hinge(y, 3.0))
    assert first.n_rows_made > 0 == again.n_rows_made
    np.testing.assert_array_equal(first.b, again.b)


def test_stopping_short_is_said_and_a_callback_can_stop():
    X, y = two_classes()
    dual = BoxDual.hinge(y, 100.0)
    with pytest.warns(ConvergenceWarning, match="max_iter=50"):
        found = PairwiseCD(max_iter=50, n_jobs=1).solve(dual, KERNEL, X)
    assert not found.converged
    assert found.n_iter <= 50 + 16
    stopped = PairwiseCD(n_jobs=1).solve(dual, KERNEL, X, lambda state: True)
    assert not stopped.converged
    assert len(stopped.trace) == 2


def test_a_tolerance_below_rounding_ends_all_the_same():
    X, y = two_classes(100)
    with pytest.warns(ConvergenceWarning, match=r"cannot get|stopped at max_iter"):
        found = PairwiseCD(tol=0.0, max_iter=300_000, n_jobs=1, dtype="float64").solve(
            BoxDual.squared_hinge(y, 3.0), KERNEL, X
        )
    assert found.dual_gap < 1e-10 * found.objective


def test_an_interrupt_leaves_a_usable_iterate(small_sets):
    X, y = two_classes()
    calls = []

    def rows(A, B):
        calls.append(len(A))
        if len(calls) == 12:
            raise KeyboardInterrupt
        return KERNEL(A, B)

    found = PairwiseCD(n_jobs=1, dtype="float64").solve(BoxDual.hinge(y, 3.0), Callable(rows), X)
    assert found.interrupted
    assert found.n_iter > 0 or np.any(found.b)
    np.testing.assert_allclose(found.sums, KERNEL(X) @ found.coef, atol=1e-10)
    assert found.dual_gap > 0


@pytest.mark.parametrize("n_jobs", [1, 3])
def test_errors_of_a_kernel_function_are_passed_on(n_jobs):
    X, y = two_classes(800)
    calls = []

    def kernel(A, B):
        calls.append(len(A))
        if len(calls) > 40:
            raise ZeroDivisionError("no kernel today")
        return KERNEL(A, B)

    with pytest.raises(ZeroDivisionError, match="no kernel today"):
        PairwiseCD(n_jobs=n_jobs).solve(BoxDual.hinge(y), Callable(kernel), X)


@pytest.mark.parametrize(
    ("settings", "match"),
    [
        ({"tol": -1.0}, "tol must be at least 0"),
        ({"cache_size": 0.0}, "cache_size must be positive"),
        ({"dtype": "float16"}, "dtype must be one of"),
        ({"max_iter": 0}, "max_iter must be at least 1"),
        ({"n_jobs": 0}, "n_jobs must not be 0"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings, match):
    with pytest.raises(ValueError, match=match):
        PairwiseCD(**settings)


def test_problems_that_make_no_sense_are_refused():
    X, y = two_classes(20)
    with pytest.raises(ValueError, match="-1 or 1"):
        BoxDual.hinge(np.arange(3.0))
    with pytest.raises(ValueError, match="C must be at least 0"):
        BoxDual.hinge(y, -1.0)
    with pytest.raises(ValueError, match="C must be at least 0"):
        BoxDual.squared_hinge(y, np.ones(3))
    with pytest.raises(ValueError, match="epsilon must be positive"):
        BoxDual.epsilon_insensitive(y, 1.0, -0.1)
    with pytest.raises(ValueError, match="20 rows"):
        PairwiseCD().solve(BoxDual.hinge(y[:9]), KERNEL, X)
    with pytest.raises(ValueError, match="square"):
        PairwiseCD().solve(BoxDual.hinge(y), "precomputed", X)
    with pytest.raises(ValueError, match="overflow"):
        PairwiseCD().solve(BoxDual.hinge(y), KERNEL, X * 1e200)


def test_the_core_refuses_arguments_that_do_not_fit():
    K, one = np.eye(4), np.ones(4)
    source = _core.KernelRows(K)
    assert source.n == 4
    with pytest.raises(ValueError, match="starts"):
        _core.GreedyDescent(source, np.array([0, 5]), 0, 1)
    with pytest.raises(ValueError, match="shape"):
        _core.KernelRows(K[:3].copy())
    with pytest.raises(ValueError, match="dtype"):
        _core.KernelRows("gaussian", K, one, one, 1.0, "float16", 1)
    with pytest.raises(ValueError, match="kernel must be one of"):
        _core.KernelRows("nothing", K, one, one, 1.0, "float32", 1)
    descent = _core.GreedyDescent(source, np.array([0, 4]), 0, 1)
    arrays = [one.copy() for _ in range(7)]
    for run in (descent.run, lambda *call: _core.descend_pairs(K, *call)):
        with pytest.raises(ValueError, match="upper"):
            run(*arrays[:2], np.ones(3), *arrays[3:], 0.1, 10)
    with pytest.raises(ValueError, match="rows must be below 4"):
        source.fill(np.array([4]), np.empty((1, 4)), 1)
    with pytest.raises(ValueError, match="out"):
        source.fill(np.array([1]), np.empty((2, 4)), 1)
    with pytest.raises(ValueError, match="places must be below 4 and not negative"):
        _core.add_rows(K, np.array([-1]), np.ones(1), one.copy(), 1)


@pytest.mark.parametrize("module", ["box", "pairs"])
def test_examples_run(module, check_examples):
    check_examples(importlib.import_module(f"mercer.solvers.dual.{module}"))
