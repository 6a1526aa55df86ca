"""Small exact kernel machines of the core, against NumPy in float64."""

from __future__ import annotations

import numpy as np
import pytest

from _core_twins import LEVELS, run_at_level
from _covering import pairwise
from mercer import _core
from test_core_kernels import NAMES, PARAMETER, twin

pytestmark = pytest.mark.rounding

SIZES = [1, 0, 2, 7, 48, 49, 97, 300, 161, 24, 12, 13, 500]
SMOOTH = ("gaussian", "matern_5_2", "rational_power", "laplacian", "cauchy", "exponential")


class Problem:
    """Leaves of several sizes which share some rows, with k targets."""

    def __init__(self, rng, sizes=SIZES, n=400, d=5, k=2):
        self.X = rng.normal(size=(n, d)).astype(np.float32)
        self.order = np.concatenate(
            [np.empty(0, np.int64), *(rng.permutation(max(n, s))[:s] % n for s in sizes)]
        )
        self.starts = np.append(0, np.cumsum(sizes)).astype(np.int64)
        self.scale = rng.uniform(0.5, 1.5, d) / np.sqrt(d)
        self.targets = rng.normal(size=(n, k)) + np.arange(k) * 100
        self.weights = rng.uniform(0.2, 3.0, n)

    def rows(self, leaf):
        return self.order[self.starts[leaf] : self.starts[leaf + 1]]

    def solve(
        self, name="gaussian", ridges=(0.1, 2.0), *, weighted=True, fit=True, n_threads=2, tol=1e-6
    ):
        m, count, k, q = len(self.order), len(self.starts) - 1, self.targets.shape[1], len(ridges)
        coef, intercept = np.full((q, m, k), np.nan), np.full((q, count, k), np.nan)
        residual = np.full((q, count), np.nan)
        _core.solve_leaves(
            self.X, self.order, self.starts, name, PARAMETER, self.scale, self.targets,
            self.weights if weighted else None, np.array(ridges, float), fit, tol, coef,
            intercept, residual, n_threads,
        )  # fmt: skip
        return coef, intercept, residual


def exact(K, y, diagonal, fit):
    """Coefficients and intercepts of one leaf."""
    A = K + np.diag(diagonal)
    if not fit:
        return np.linalg.solve(A, y), np.zeros(y.shape[1])
    ones = np.ones((len(y), 1))
    whole = np.block([[A, ones], [ones.T, np.zeros((1, 1))]])
    found = np.linalg.solve(whole, np.vstack([y, np.zeros((1, y.shape[1]))]))
    return found[:-1], found[-1]


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", ["gaussian", "laplacian"])
def test_a_factor_serves_for_near_ridges_to_the_residual_asked_for(rng, name, weighted):
    problem = Problem(rng, sizes=[350, 40, 0, 500], n=600)
    ridges, tol = (0.3, 0.1, 1.0, 0.01, 0.5), 1e-3
    rough, _, residual = problem.solve(name, ridges, weighted=weighted, fit=False, tol=tol)
    fine, _, _ = problem.solve(name, ridges, weighted=weighted, fit=False)
    assert (residual <= tol).all()
    for leaf in (0, 1, 3):
        rows = problem.rows(leaf)
        K = twin(name, problem.X[rows], problem.X[rows], problem.scale).astype(float)
        part = slice(problem.starts[leaf], problem.starts[leaf + 1])
        for r, ridge in enumerate(ridges):
            diagonal = np.full(len(rows), ridge)
            if weighted:
                diagonal /= problem.weights[rows]
            y = problem.targets[rows]
            left = y - K @ rough[r, part] - diagonal[:, None] * rough[r, part]
            sizes = np.linalg.norm(left, axis=0) / np.linalg.norm(y, axis=0)
            assert (sizes <= 1.01 * tol + 1e-4).all()
            np.testing.assert_allclose(sizes.max(), residual[r, leaf], atol=1e-4)
            scale = np.abs(K @ fine[r, part]).max()
            np.testing.assert_allclose(K @ rough[r, part], K @ fine[r, part], atol=0.02 * scale)


def test_iterations_are_the_same_with_any_number_of_threads(rng):
    problem = Problem(rng, sizes=[350, 40, 400, 500], n=600)
    alone, together = (
        problem.solve(ridges=(0.3, 0.1), fit=False, tol=1e-3, n_threads=n)[0] for n in (1, 3)
    )
    np.testing.assert_array_equal(alone, together)


@pytest.mark.parametrize(
    ("name", "weighted", "fit"), pairwise(SMOOTH, [False, True], [False, True])
)
def test_leaves_are_solved_as_in_float64(rng, name, weighted, fit):
    problem = Problem(rng)
    ridges = (0.1, 2.0)
    coef, intercept, residual = problem.solve(name, ridges, weighted=weighted, fit=fit)
    assert (residual <= 1e-6).all()
    for leaf, size in enumerate(SIZES):
        if not size:
            np.testing.assert_array_equal(intercept[:, leaf], 0.0)
            continue
        rows = problem.rows(leaf)
        K = twin(name, problem.X[rows], problem.X[rows], problem.scale).astype(float)
        part = slice(problem.starts[leaf], problem.starts[leaf + 1])
        for r, ridge in enumerate(ridges):
            diagonal = ridge / problem.weights[rows] if weighted else np.full(size, ridge)
            a, b = exact(K, problem.targets[rows], diagonal, fit)
            np.testing.assert_allclose(coef[r, part], a, atol=3e-4 * np.abs(a).max() + 1e-14)
            np.testing.assert_allclose(intercept[r, leaf], b, rtol=1e-4, atol=1e-4)
            y = problem.targets[rows]
            left = y - intercept[r, leaf] - K @ coef[r, part] - diagonal[:, None] * coef[r, part]
            around = np.linalg.norm(y - y.mean(axis=0) if fit else y, axis=0)
            assert (np.linalg.norm(left, axis=0) <= 1e-4 * np.maximum(around, 1e-9)).all()
            if fit:
                assert np.abs(coef[r, part].sum(axis=0)).max() <= 1e-6 * (1 + np.abs(a).sum())


@pytest.mark.parametrize("k", [1, 2, 3, 4, 5, 11])
def test_outputs_are_solved_one_by_one(rng, k):
    """Whatever is done at once for several right-hand sides."""
    problem = Problem(rng, sizes=[150, 61], k=k)
    coef, intercept, residual = problem.solve("matern_3_2")
    assert (residual <= 1e-6).all()
    together = problem.targets
    for c in range(k):
        problem.targets = together[:, c : c + 1].copy()
        alone = problem.solve("matern_3_2")
        np.testing.assert_allclose(coef[..., c], alone[0][..., 0], atol=1e-5)
        np.testing.assert_allclose(intercept[..., c], alone[1][..., 0], rtol=1e-5)


@pytest.mark.parametrize("k", [1, 3])
def test_the_number_of_threads_and_the_other_leaves_change_no_bit(rng, k):
    problem = Problem(rng, k=k)
    one = problem.solve(n_threads=1)
    for n_threads in (2, 5, 64):
        for got, wanted in zip(problem.solve(n_threads=n_threads), one, strict=True):
            np.testing.assert_array_equal(got, wanted)
    leaf = SIZES.index(161)
    problem.order, wanted = problem.rows(leaf).copy(), one[0][:, problem.starts[leaf] :][:, :161]
    problem.starts = np.array([0, 161])
    np.testing.assert_array_equal(problem.solve()[0], wanted)


def test_a_matrix_that_has_no_factor_says_so(rng):
    """Distances are no positive definite kernel; the other ridge makes them one."""
    problem = Problem(rng, sizes=[60])
    coef, intercept, residual = problem.solve("sqeuclidean", (1e-3, 1e4))
    assert np.isinf(residual[0, 0])
    assert residual[1, 0] <= 1e-6
    np.testing.assert_array_equal(coef[0], 0.0)
    np.testing.assert_allclose(intercept[0, 0], problem.targets[problem.order].mean(axis=0))


def test_rows_that_are_too_long_or_no_numbers_leave_no_solution(rng):
    for bad in (np.inf, np.nan, 3e38):
        problem = Problem(rng, sizes=[30, 40], n=70)
        problem.order[:] = np.arange(70)
        problem.X[3] = bad
        _, _, residual = problem.solve()
        assert np.isinf(residual[:, 0]).all() or bad == 3e38
        assert (residual[:, 1] <= 1e-6).all()
    problem = Problem(rng, sizes=[30, 40], n=70)
    problem.order[:] = np.arange(70)
    problem.targets[3] = np.nan
    _, _, residual = problem.solve()
    assert np.isinf(residual[:, 0]).all()
    assert (residual[:, 1] <= 1e-6).all()


@pytest.mark.parametrize("unit", [1e-30, 1.0, 1e30])
def test_units_of_targets_do_not_matter(rng, unit):
    problem = Problem(rng, sizes=[100])
    coef, intercept, residual = problem.solve()
    problem.targets *= unit
    scaled = problem.solve()
    assert (scaled[2] <= 1e-6).all()
    assert (residual <= 1e-6).all()
    np.testing.assert_allclose(scaled[0] / unit, coef, atol=1e-6 * np.abs(coef).max())
    np.testing.assert_allclose(scaled[1] / unit, intercept, rtol=1e-6)


def test_equal_targets_need_no_coefficients(rng):
    problem = Problem(rng, sizes=[100])
    problem.targets[:] = 0.1
    coef, intercept, residual = problem.solve()
    assert (residual <= 1e-6).all()
    np.testing.assert_allclose(coef, 0.0, atol=1e-12)
    np.testing.assert_allclose(intercept, 0.1)


def test_refinement_helps_where_float32_is_short(rng):
    """Rows that are nearly the same, and a small ridge."""
    problem = Problem(rng, sizes=[600], n=600, d=2)
    _, _, residual = problem.solve("matern_3_2", (3e-3,))
    assert (residual <= 1e-6).all()


@pytest.mark.parametrize("shape", [(0, [0, 0]), (0, [0])])
def test_nothing_to_solve_is_no_error(rng, shape):
    m, starts = shape
    problem = Problem(rng, sizes=[])
    problem.order, problem.starts = np.empty(m, np.int64), np.array(starts, np.int64)
    coef, intercept, residual = problem.solve()
    assert coef.shape == (2, 0, 2)
    np.testing.assert_array_equal(intercept, 0.0)
    np.testing.assert_array_equal(residual, 0.0)


class Prediction:
    """Rows of which each is in some of the leaves, with a share."""

    def __init__(self, rng, sizes=SIZES, n=300, pairs=700, d=5, k=2, dtype=np.float32):
        self.leaves = Problem(rng, sizes, d=d, k=k)
        self.leaves.X = self.leaves.X.astype(dtype)
        self.X = rng.normal(size=(n, d)).astype(dtype)
        self.rows = rng.integers(0, n, pairs)
        self.of = np.sort(rng.integers(0, len(sizes), pairs))
        self.shares = rng.uniform(size=pairs)
        self.coef = rng.normal(size=(len(self.leaves.order), k))
        self.intercept = rng.normal(size=(len(sizes), k))

    def run(self, name="gaussian", n_threads=2):
        out = np.ones((len(self.X), self.coef.shape[1]))
        leaves = self.leaves
        assert _core.predict_leaves(
            self.X, self.rows, self.of, self.shares, leaves.X, leaves.order, leaves.starts, name,
            PARAMETER, leaves.scale, self.coef, self.intercept, out, n_threads,
        )  # fmt: skip
        return out

    def twin(self, name):
        out, leaves = np.ones((len(self.X), self.coef.shape[1])), self.leaves
        for leaf in np.unique(self.of):
            mine = self.of == leaf
            K = twin(name, self.X[self.rows[mine]], leaves.X[leaves.rows(leaf)], leaves.scale)
            part = slice(leaves.starts[leaf], leaves.starts[leaf + 1])
            made = K.astype(float) @ self.coef[part] + self.intercept[leaf]
            np.add.at(out, self.rows[mine], self.shares[mine, None] * made)
        return out


@pytest.mark.parametrize(
    ("name", "shape", "dtype"),
    pairwise(NAMES, [(1, 1), (5, 2), (16, 3), (43, 1), (70, 9)], [np.float32, np.float64]),
    ids=str,
)
def test_predictions_are_sums_over_leaves(rng, name, shape, dtype):
    """With few rows of a leaf, for which nothing is packed, and with many."""
    d, k = shape
    each, all_ = (2e-4, 1e-5) if dtype == np.float32 else (1e-12, 1e-13)
    for pairs in (0, 3, 40, 700):
        prediction = Prediction(rng, pairs=pairs, d=d, k=k, dtype=dtype)
        exact, found = prediction.twin(name), prediction.run(name)
        np.testing.assert_allclose(found, exact, atol=each * np.abs(exact).max())
        assert np.linalg.norm(found - exact) <= all_ * np.linalg.norm(exact)


@pytest.mark.parametrize("name", ["gaussian", "laplacian"])
def test_threads_and_parts_of_a_prediction_change_no_bit(rng, name, dtype):
    prediction = Prediction(rng, sizes=[300, 0, 200, 40], n=5000, pairs=9000, dtype=dtype)
    one = prediction.run(name, n_threads=1)
    for n_threads in (2, 7):
        np.testing.assert_array_equal(prediction.run(name, n_threads=n_threads), one)


def test_many_outputs_are_predicted_part_by_part(rng):
    """More values than are held at once."""
    prediction = Prediction(rng, sizes=[5, 9], n=50, pairs=2500, k=600)
    exact = prediction.twin("gaussian")
    assert np.linalg.norm(prediction.run() - exact) <= 1e-5 * np.linalg.norm(exact)


@pytest.mark.parametrize("pairs", [2, 400])
def test_rows_far_away_get_the_intercepts(rng, pairs):
    prediction = Prediction(rng, sizes=[50, 60], pairs=pairs)
    prediction.X *= np.float32(1e25)
    np.testing.assert_allclose(prediction.run("laplacian"), prediction.twin("laplacian"))
    np.testing.assert_allclose(prediction.run("matern_5_2"), prediction.twin("matern_5_2"))


@pytest.mark.parametrize("pairs", [2, 400])
def test_rows_that_are_no_numbers_are_refused(rng, pairs):
    prediction = Prediction(rng, sizes=[50, 60], pairs=pairs)
    prediction.X[prediction.rows[1]] = np.nan
    with pytest.raises(AssertionError):
        prediction.run()


def test_arguments_of_predictions_are_checked(rng):
    prediction = Prediction(rng, sizes=[50, 60], pairs=20)
    prediction.of[:] = [0] * 10 + [1] * 9 + [0]
    with pytest.raises(ValueError, match=r"leaves must never fall; got 0 after 1"):
        prediction.run()
    for of, rule in ((2, "below the number of leaves"), (-1, "below the number of leaves")):
        prediction.of[:] = of
        with pytest.raises(ValueError, match=f"leaves must be {rule}; got {of}"):
            prediction.run()
    prediction.of[:] = 0
    prediction.rows[3] = 300
    with pytest.raises(ValueError, match=r"rows must be below the number of rows of X; got 300"):
        prediction.run()
    prediction.rows[3] = 0
    prediction.leaves.order[0] = 400
    with pytest.raises(ValueError, match=r"order must be below the number of rows of landmarks"):
        prediction.run()


@pytest.mark.parametrize("level", LEVELS)
def test_every_level_solves(level):
    residual = run_at_level(level, """
import numpy as np
from mercer import _core
rng = np.random.default_rng(0)
X, y = rng.normal(size=(400, 7)).astype(np.float32), rng.normal(size=(400, 5))
starts = np.array([0, 1, 60, 400])
worst = 0.0
for kernel in ("gaussian", "rational_power", "laplacian"):
    coef, intercept = np.empty((1, 400, 5)), np.empty((1, 3, 5))
    residual = np.empty((1, 3))
    _core.solve_leaves(X, np.arange(400), starts, kernel, 1.5, np.full(7, 0.3), y, None,
                       np.array([0.1]), True, 1e-6, coef, intercept, residual, 2)
    worst = max(worst, residual.max(), np.abs(coef[0, 60:].sum(axis=0)).max())
    for rows in (np.arange(60, 63), np.arange(60, 400)):
        out = np.zeros_like(y)
        assert _core.predict_leaves(X, rows, np.full(len(rows), 2), np.ones(len(rows)), X,
                                    np.arange(400), starts, kernel, 1.5, np.full(7, 0.3), coef[0],
                                    intercept[0], out, 2)
        left = y[rows] - out[rows] - 0.1 * coef[0, rows]
        worst = max(worst, np.abs(left).max() / 100)
result = float(worst)
""")  # fmt: skip
    assert residual < 1e-5


def test_arguments_are_checked(rng):
    problem = Problem(rng, sizes=[30, 40])
    problem.order[5] = 400
    with pytest.raises(ValueError, match=r"order must be below the number of rows of X; got 400"):
        problem.solve()
    problem.order[5] = -1
    with pytest.raises(ValueError, match=r"order must be below"):
        problem.solve()
    problem.order[5] = 0
    for starts in ([0, 30, 60], [0, 50, 40, 70], [1, 30, 70], [0, 30, 71]):
        problem.starts = np.array(starts)
        with pytest.raises(ValueError, match=r"starts must"):
            problem.solve()
    problem.starts = np.array([0, 30, 70])
    for ridge in (0.0, -1.0, np.nan, np.inf):
        with pytest.raises(ValueError, match=r"ridges must be positive and finite"):
            problem.solve(ridges=(ridge,))
    problem.weights[7] = 0.0
    with pytest.raises(ValueError, match=r"weights must be positive and finite"):
        problem.solve()
    with pytest.raises(ValueError, match=r"kernel must be one of"):
        problem.solve("linear", weighted=False)
