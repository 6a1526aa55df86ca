"""Laws of the columns of dense designs: chunks of rows, the cache, changes of the curvature."""

import numpy as np
import pytest

from mercer.designs import Dense, dense
from mercer.losses import Logistic, Squared, SquaredHinge
from mercer.penalties import L1
from mercer.problem import Problem, dual_gap
from mercer.solvers import CoordinateDescent
from mercer.solvers.coordinate import columns as coordinate_columns
from mercer.solvers.coordinate.columns import DenseColumns
from mercer.solvers.coordinate.gram import GramPool

N, D = 400, 30
FEW, MANY = np.array([7, 3, 21]), np.array([29, 0, *range(3, 25)])
MOST = np.array([20, *range(2, 11), *range(12, 20), 21])  # neighbours but for one


@pytest.fixture(autouse=True)
def short_chunks(monkeypatch):
    """Chunks of some ten rows, and caches that have room for no design."""
    monkeypatch.setattr(coordinate_columns, "_NEAR", 0)
    monkeypatch.setattr(dense, "_CHUNK", 8 * D * 17)
    monkeypatch.setattr(dense, "_WORTH_THREADS", 0)
    monkeypatch.setattr(dense, "_BLOCK", 8 * D * 23)


@pytest.fixture
def curvature(rng):
    """Of a squared hinge: rows beyond the margin have none."""
    return np.where(rng.random(N) < 0.7, 2.0, 0.0)


def columns_of(Z, n_jobs=1):
    return DenseColumns(Dense(Z, n_jobs))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("order", ["C", "F"])
def test_products_of_columns_are_those_of_the_array(dtype, order, curvature, rng):
    Z = np.array(rng.normal(size=(N, D)), dtype=dtype, order=order)
    exact, close = Z.astype(np.float64), 1e-13 if dtype == np.float64 else 2e-6
    v, sparse = rng.normal(size=N), np.zeros(D)
    columns = columns_of(Z)
    for ids in (FEW, MANY, MOST, np.sort(MOST)):  # cached, and taken from the design
        sparse[:] = 0
        sparse[ids] = rng.normal(size=len(ids))
        for h in (None, curvature, curvature + rng.random(N)):
            columns.set_curvature(h)
            weighted = exact if h is None else exact * h[:, None]
            gram = exact.T @ weighted / N
            np.testing.assert_allclose(
                columns.mean_products(ids), gram[np.ix_(ids, ids)], atol=1e-13
            )
            side = columns.mean_products(ids[:2], ids[2:])
            np.testing.assert_allclose(side, gram[np.ix_(ids[:2], ids[2:])], atol=1e-13)
            np.testing.assert_allclose(columns.means(ids), weighted.mean(axis=0)[ids], atol=close)
            columns.rough = True
            np.testing.assert_allclose(
                columns.mean_products(ids), gram[np.ix_(ids, ids)], atol=1e-5
            )
            columns.rough = False
        np.testing.assert_allclose(columns.matvec(sparse), exact @ sparse, atol=1e-13)
        np.testing.assert_allclose(columns.rmatvec(v), exact.T @ v, atol=close * N)
    np.testing.assert_allclose(columns.column_sqnorms(), (exact**2).sum(axis=0), rtol=1e-13)
    weights = rng.random(N)
    np.testing.assert_allclose(columns.column_sqnorms(weights), weights @ exact**2, rtol=1e-13)


@pytest.mark.parametrize("centred", [False, True])
def test_a_gram_matrix_changed_by_rows_is_that_of_the_new_curvature(centred, curvature, rng):
    Z = rng.normal(size=(N, D)) + 0.5
    pool = GramPool(columns_of(Z), centred)
    pool.set_curvature(curvature)
    pool.gram(FEW)
    for share in (0.1, 0.2, 0.9):
        rows = rng.random(N) < share
        pool.set_curvature(np.where(rows, 2.0 - pool.curvature, pool.curvature))
        ids, gram = pool.gram(np.append(FEW, 11))
        fresh = GramPool(columns_of(Z), centred)
        fresh.set_curvature(pool.curvature)
        other, expected = fresh.gram(ids)
        place = np.argsort(other)[np.argsort(np.argsort(ids))]
        np.testing.assert_allclose(gram, expected[np.ix_(place, place)], atol=1e-13)


@pytest.mark.parametrize("order", ["C", "F"])
def test_a_block_of_runs_of_neighbours_is_that_of_an_index(order, rng):
    Z = np.asarray(rng.normal(size=(11, 120)), order=order)
    for left_out in ([], [0], [60], [3, 119], [5, 6, 7, 90]):
        columns = np.setdiff1d(np.arange(120), left_out)
        np.testing.assert_array_equal(Dense(Z).block(columns), Z[:, columns])


def test_few_changed_rows_are_all_that_is_looked_at(curvature, rng, monkeypatch):
    columns = columns_of(rng.normal(size=(N, D)))
    columns.mean_products(FEW)
    after = curvature.copy()
    after[:5] = 2.0 - after[:5]
    counts = []
    before = Dense._over_rows

    def counted(design, call, width, n_rows, chunk):
        counts.append(n_rows)
        return before(design, call, width, n_rows, chunk)

    monkeypatch.setattr(Dense, "_over_rows", counted)
    assert columns.changes(FEW, curvature, after) is not None
    assert sum(counts) == 5
    assert columns.changes(FEW, curvature, curvature + rng.random(N)) is None


def test_a_full_cache_forgets_what_is_not_asked_for(rng, monkeypatch):
    Z = rng.normal(size=(N, D))
    monkeypatch.setattr(coordinate_columns, "_CACHE", 8 * N * 5)
    columns = columns_of(Z)
    for ids in ([0, 1, 2], [2, 3, 4], [9, 2, 8], range(6)):
        ids = np.array(ids)
        np.testing.assert_allclose(
            columns.mean_products(ids), Z[:, ids].T @ Z[:, ids] / N, atol=1e-13
        )
        assert len(columns._cached) <= 10


def test_a_working_set_is_settled_between_two_looks_at_all_columns(rng, monkeypatch):
    Z = rng.normal(size=(N, 400))
    y = np.where(Z[:, :5].sum(axis=1) + rng.normal(size=N) > 0, 1.0, -1.0)
    problem = Problem(Dense(Z), y, Logistic(), L1(0.04))
    fix_key = CoordinateDescent(tol=1e-9).solve(problem)
    monkeypatch.setattr(DenseColumns, "chosen", lambda columns, ids: None)
    plain = CoordinateDescent(tol=1e-9).solve(problem)
    assert fix_key.converged
    assert fix_key.n_iter < plain.n_iter
    np.testing.assert_allclose(fix_key.coef, plain.coef, atol=1e-5)


def test_columns_of_few_large_entries_get_weights_however_their_norms_are_estimated(rng):
    n = 20_000  # of which every tenth row is looked at
    Z = np.zeros((n, 6))
    Z[1::10, :3], Z[::10, 3] = 5.0 * rng.normal(size=(n // 10, 3)), 1.0
    y = Z @ [1.0, -1.0, 0.5, 1.0, 0.0, 0.0] + 0.1 * rng.normal(size=n)
    problem = Problem(Dense(Z), y, Squared(), L1(0.01))
    result = CoordinateDescent(tol=1e-8).solve(problem)
    assert result.converged
    np.testing.assert_array_equal(result.coef[:-1] != 0, [True] * 4 + [False] * 2)


@pytest.mark.rounding
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    "loss", [Squared(), Logistic(), SquaredHinge()], ids=lambda loss: loss.name
)
def test_threads_change_no_bit_of_a_dense_fit(loss, dtype, rng):
    Z = rng.normal(size=(N, D)).astype(dtype)
    y = np.where(Z[:, 0] + rng.normal(size=N) > 0, 1.0, -1.0)
    found = [
        CoordinateDescent(tol=1e-5).solve(Problem(Dense(Z, jobs), y, loss, L1(0.02)))
        for jobs in (1, 2, 5)
    ]
    for other in found[1:]:
        np.testing.assert_array_equal(other.coef, found[0].coef)
    problem = Problem(Dense(Z), y, loss, L1(0.02))
    assert dual_gap(problem.at(found[0].coef)) <= 2e-5 * problem.value(problem.initial())
