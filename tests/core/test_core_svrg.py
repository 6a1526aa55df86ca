"""The core's asynchronous steps, on one thread, against the plainest code that does the same."""

import numpy as np
import pytest
from scipy import sparse

from mercer import _core
from mercer._runtime.random import Streams
from mercer.losses import LOSSES, Correntropy, Huber, Logistic
from mercer.solvers.async_svrg.inner import IN_CORE

pytestmark = pytest.mark.rounding

KEY, SLOT = 12345, 24
POINTWISE = [LOSSES[name]() for name in IN_CORE]
POINTWISE += [Huber(0.3), Correntropy(2.5)]


@pytest.fixture
def codes(rng):
    """60 rows in 5 grids of 4 bins; 4 is in no bin."""
    return rng.integers(5, size=(60, 5)).astype(np.uint8)


OFFSETS = np.arange(6) * 4


def dense_of(codes, dtype=np.float64):
    bins = codes[:, :, None] == np.arange(4)
    return (0.5 * bins.reshape(len(codes), -1)).astype(dtype)


def lists_of(Z):
    columns = sparse.csc_array(Z)
    return (
        columns.indptr.astype(np.int64),
        columns.indices.astype(np.uint32),
        columns.data.astype(np.float64),
        1.0,
    )


def views(codes):
    """Everything that the same matrix may be held as, by name."""
    Z = dense_of(codes)
    rows = sparse.csr_array(Z)
    index = rows.indices.astype(np.int32), rows.indptr.astype(np.int64)
    steps = _core.AsyncSteps
    return {
        "dense": steps.dense(Z),
        "sparse": steps.sparse(rows.data, *index, Z.shape[1]),
        "codes": steps.codes(codes, OFFSETS, 0.5, False),
        "kept_dense": steps.kept_dense(np.ascontiguousarray(Z.T)),
        "kept_lists": steps.kept_lists(*lists_of(Z), len(Z)),
        "dense32": steps.dense(Z.astype(np.float32)),
        "sparse32": steps.sparse(rows.data.astype(np.float32), *index, Z.shape[1]),
        "codes32": steps.codes(codes, OFFSETS, 0.5, True),
        "kept_dense32": steps.kept_dense(np.ascontiguousarray(Z.T, dtype=np.float32)),
    }


def slack(name):
    return 2e-6 if name.endswith("32") else 1e-12


class Task:
    """An objective with a snapshot somewhere and weights elsewhere."""

    def __init__(self, codes, rng, loss=None, fit_intercept=True, weighted=True):
        self.loss = loss or Logistic()
        self.Z = dense_of(codes)
        n, p = self.Z.shape
        self.full = np.column_stack([self.Z, np.ones(n)]) if fit_intercept else self.Z
        q = self.full.shape[1]
        self.y = rng.choice([-1.0, 1.0], size=n)
        self.weights = rng.uniform(0.2, 2.0, size=n) if weighted else None
        self.l1, self.l2 = rng.uniform(0, 0.02, size=q), rng.uniform(0, 0.05, size=q)
        self.l1[p:] = self.l2[p:] = 0.0
        self.steps = rng.uniform(0.3, 1.0, size=q)
        self.snapshot, self.start = rng.normal(size=q), rng.normal(size=q)
        self.gradient = self.full.T @ self.slopes(self.snapshot) / n

    def slopes(self, w):
        slopes = self.loss.gradient(self.full @ w, self.y)
        return slopes if self.weights is None else slopes * self.weights

    def value(self, w):
        losses = self.loss.value(self.full @ w, self.y)
        losses = losses if self.weights is None else losses * self.weights
        return losses.mean() + self.l1 @ np.abs(w) + 0.5 * self.l2 @ np.square(w)

    def given(self):
        return self.y, self.weights, self.loss.name, self.loss.parameter

    def core_slopes(self, view, kept):
        out = np.empty(len(self.y))
        u = self.full @ self.snapshot if kept else None
        view.slopes(*self.given(), self.snapshot.copy(), out, u, 2)
        return out

    def walk(self, view, kept, first, count, batch, width=1, n_threads=1):
        """The weights after a course, and the responses if they are kept."""
        slopes = self.core_slopes(view, kept)
        w = self.start.copy()
        u = self.full @ w if kept else None
        moves, finite = view.walk(
            *self.given(), w, slopes, u, self.gradient, self.steps, self.l1, self.l2,
            KEY, SLOT, first, count, batch, width, n_threads,
        )  # fmt: skip
        assert finite
        assert moves <= count * width
        return w, u

    def plain(self, first, count, batch, width=1, supports=None):
        """The same, a number at a time."""
        n, q = self.full.shape
        bits = Streams(KEY, np.arange(first, first + count)).bits(batch // 2 + 1, SLOT)
        words = np.stack([bits & 0xFFFFFFFF, bits >> np.uint64(32)], axis=2).reshape(count, -1)
        at_snapshot, w = self.slopes(self.snapshot), self.start.copy()
        for word in words:
            j = int(word[0]) * q >> 32
            among = np.arange(n)
            if supports is not None and j < supports.shape[1]:
                among = np.flatnonzero(supports[:, j])
            rows = among
            if batch < len(among):
                rows = among[[int(k) * len(among) >> 32 for k in word[1 : batch + 1]]]
            changes = self.slopes(w)[rows] - at_snapshot[rows]
            share = len(among) / n / max(1, len(rows))
            block = (j + np.arange(width)) % q
            v = share * changes @ self.full[np.ix_(rows, block)] + self.gradient[block]
            for k, slope in zip(block, v, strict=True):
                x = w[k] - self.steps[k] * slope
                x = np.sign(x) * max(abs(x) - self.steps[k] * self.l1[k], 0)
                w[k] = x / (1 + self.steps[k] * self.l2[k])
        return w


@pytest.mark.parametrize("loss", POINTWISE, ids=repr)
def test_slopes_are_those_of_the_python_formula(loss, rng):
    u = np.concatenate([rng.normal(scale=4, size=500), [0.0, 1.0, -1.0, 700.0, -700.0, 1e5, -1e5]])
    for y in (np.ones_like(u), -np.ones_like(u)):
        out = np.empty_like(u)
        _core.loss_slopes(loss.name, loss.parameter, u, y, out)
        np.testing.assert_allclose(out, loss.gradient(u, y), rtol=2e-14, atol=1e-300)


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("weighted", [True, False])
def test_every_view_has_the_slopes_of_the_matrix(weighted, fit_intercept, codes, rng):
    task = Task(codes, rng, None, fit_intercept, weighted)
    for name, view in views(codes).items():
        found = task.core_slopes(view, "kept" in name)
        np.testing.assert_allclose(found, task.slopes(task.snapshot), atol=slack(name))


@pytest.mark.parametrize("loss", POINTWISE, ids=repr)
def test_steps_over_all_rows_are_proximal_coordinate_descent(loss, codes, rng):
    task = Task(codes, rng, loss)
    expected = task.plain(7, 300, 60)
    for name, view in views(codes).items():
        for batch in (60, 1000):
            found, u = task.walk(view, "kept" in name, 7, 300, batch)
            np.testing.assert_allclose(found, expected, atol=slack(name))
            if u is not None:
                np.testing.assert_allclose(u, task.full @ found, atol=slack(name))


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize(("batch", "width"), [(1, 1), (7, 1), (8, 1), (33, 5), (4, 20)])
def test_steps_are_what_their_numbers_say(batch, width, fit_intercept, codes, rng):
    task = Task(codes, rng, None, fit_intercept)
    task.steps *= 0.2
    expected = task.plain(10**6, 200, batch, width)
    for name, view in views(codes).items():
        found, _ = task.walk(view, "kept" in name, 10**6, 200, batch, width)
        np.testing.assert_allclose(found, expected, atol=5 * slack(name))


@pytest.mark.parametrize("batch", [1, 5, 13])
def test_rows_come_from_the_support_of_the_column(batch, codes, rng):
    task = Task(codes, rng)
    expected = task.plain(0, 200, batch, 1, task.Z)
    for name, view in views(codes).items():
        view.draw_from(*lists_of(task.Z))
        found, _ = task.walk(view, "kept" in name, 0, 200, batch)
        np.testing.assert_allclose(found, expected, atol=5 * slack(name))


@pytest.mark.parametrize("in_support", [False, True])
def test_the_direction_is_unbiased_and_exact_at_the_snapshot(in_support, codes, rng):
    task = Task(codes, rng)
    task.l1[:] = task.l2[:] = 0.0
    n, q = task.full.shape
    exact = task.full.T @ task.slopes(task.start) / n
    view = views(codes)["dense"]
    if in_support:
        view.draw_from(*lists_of(task.Z))
    found = [[] for _ in range(q)]
    for t in range(8000):
        w, _ = task.walk(view, False, t, 1, 3)
        (j,) = np.flatnonzero(w != task.start)
        found[j].append((task.start[j] - w[j]) / task.steps[j])
    for j in range(q):
        error = np.std(found[j]) / np.sqrt(len(found[j]))
        assert abs(np.mean(found[j]) - exact[j]) <= 5 * error
    task.start = task.snapshot
    for t in range(100):
        w, _ = task.walk(view, False, t, 1, 3)
        (j,) = np.flatnonzero(w != task.start)
        assert w[j] == task.start[j] - task.steps[j] * task.gradient[j]


def in_blocks(task, first, count, batch, width, rows, scale):
    """Weights after steps along blocks with a Hessian, a number at a time."""
    n, q = task.full.shape
    H = task.full.T @ (rows[:, None] * task.full) / n
    bits = Streams(KEY, np.arange(first, first + count)).bits(batch // 2 + 1, SLOT)
    words = np.stack([bits & 0xFFFFFFFF, bits >> np.uint64(32)], axis=2).reshape(count, -1)
    at_snapshot, w = task.slopes(task.snapshot), task.start.copy()
    for word in words:
        number = int(word[0]) * -(-q // width) >> 32
        block = np.arange(number * width, min(q, (number + 1) * width))
        drawn = [int(k) * n >> 32 for k in word[1 : batch + 1]] if batch < n else np.arange(n)
        bent = rows * (task.full @ (w - task.snapshot))
        changes = (task.slopes(w) - at_snapshot - bent)[drawn]
        v = changes @ task.full[np.ix_(drawn, block)] / len(drawn)
        v += (task.gradient + H @ (w - task.snapshot))[block]
        old = w[block]
        for _ in range(2):
            for k, j in enumerate(block):
                bend = scale * H[j, j]
                pull = bend * w[j] - v[k] - scale * H[j, block] @ (w[block] - old)
                w[j] = np.sign(pull) * max(abs(pull) - task.l1[j], 0) / (bend + task.l2[j])
    return w


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize(("batch", "width"), [(1, 7), (8, 20), (60, 5), (33, 21)])
def test_steps_with_a_hessian_are_what_their_numbers_say(batch, width, fit_intercept, codes, rng):
    task = Task(codes, rng, None, fit_intercept)
    n, q = task.full.shape
    width, rows, scale = min(width, q), rng.uniform(0.1, 0.5, size=n), 2.0
    H = (task.full.T @ (rows[:, None] * task.full) / n).astype(np.float32)
    expected = in_blocks(task, 3, 100, batch, width, rows, scale)
    for name, view in views(codes).items():
        if "kept" in name:
            continue
        slopes, w = np.empty(n), task.start.copy()
        view.slopes(*task.given(), task.snapshot.copy(), slopes, None, 2, rows)
        view.walk(
            *task.given(), w, slopes, None, task.gradient, task.steps, task.l1, task.l2,
            KEY, SLOT, 3, 100, batch, width, 1, rows, H, task.snapshot, scale,
        )  # fmt: skip
        np.testing.assert_allclose(w, expected, atol=2e-5)  # the Hessian is float32


def test_halves_keep_eight_bits(rng):
    Z = rng.normal(size=(40, 37)).astype(np.float32)
    halves = (Z.view(np.uint32) >> 16).astype(np.uint16)
    cut = (Z.view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32)
    y, w = rng.choice([-1.0, 1.0], size=40), rng.normal(size=37)
    out = np.empty(40)
    _core.AsyncSteps.dense(halves).slopes(y, None, "logistic", 0.0, w, out, None, 1)
    expected = Logistic().gradient(cut.astype(np.float64) @ w, y)
    np.testing.assert_allclose(out, expected, atol=1e-5)


def test_several_threads_end_near_one(codes, rng):
    codes = rng.integers(5, size=(600, 5)).astype(np.uint8)
    task = Task(codes, rng)
    task.start = task.snapshot
    for name, view in views(codes).items():
        one, _ = task.walk(view, "kept" in name, 0, 3000, 32)
        for n_threads in (2, 5):
            found, u = task.walk(view, "kept" in name, 0, 3000, 32, 1, n_threads)
            # How far they get depends on who waits for whom.
            assert task.value(found) < 0.3 * task.value(task.start) + 0.7 * task.value(one)
            if u is not None:
                np.testing.assert_allclose(u, task.full @ found, atol=1e-5)


def test_numbers_out_of_range_are_noticed(codes, rng):
    task = Task(codes, rng, LOSSES["squared"]())
    task.steps[:] = 1e200
    slopes, w = task.slopes(task.snapshot), task.start.copy()
    view = views(codes)["dense"]
    moves, finite = view.walk(
        *task.given(), w, slopes, None, task.gradient, task.steps, task.l1, task.l2,
        KEY, SLOT, 0, 500, 4, 1, 2,
    )  # fmt: skip
    assert not finite
    assert moves < 500


def test_what_does_not_fit_is_refused(codes, rng):
    task = Task(codes, rng)
    view, Z = views(codes)["dense"], dense_of(codes)
    with pytest.raises(ValueError, match=r"loss must be one of squared, huber, .*; got hinge"):
        _core.loss_slopes("hinge", 0.0, np.ones(2), np.ones(2), np.empty(2))
    with pytest.raises(ValueError, match=r"w must have an entry per column.*; got 3"):
        view.slopes(*task.given(), np.ones(3), np.empty(60), None, 1)
    with pytest.raises(ValueError, match=r"y must have shape \(60\)"):
        view.slopes(np.ones(3), None, "squared", 0.0, np.ones(20), np.empty(60), None, 1)
    for batch, width in ((0, 1), (1, 0), (1, 22)):
        with pytest.raises(ValueError, match="batch and width must be at least 1"):
            task.walk(view, False, 0, 1, batch, width)
    view.draw_from(*lists_of(Z))
    with pytest.raises(ValueError, match="or 1 with supports"):
        task.walk(view, False, 0, 1, 2, 2)
    with pytest.raises(ValueError, match="an entry more than there are columns"):
        view.draw_from(*lists_of(Z[:, :5]))
    starts, rows, values, scale = lists_of(Z)
    with pytest.raises(ValueError, match="rows must ascend within a column"):
        _core.AsyncSteps.kept_lists(starts, rows[::-1].copy(), values, scale, 60)
    csr = sparse.csr_array(Z)
    index = csr.indices.astype(np.int32), csr.indptr.astype(np.int64)
    with pytest.raises(ValueError, match="indices must ascend within a row"):
        _core.AsyncSteps.sparse(csr.data, index[0] + np.int32(9), index[1], 20)
    with pytest.raises(ValueError, match="indptr must end with the number of entries"):
        _core.AsyncSteps.sparse(csr.data[:-1].copy(), index[0][:-1].copy(), index[1], 20)
    with pytest.raises(TypeError, match="rows must have dtype"):
        _core.AsyncSteps.dense(Z.astype(int))
