"""Newton's method for the leaves of local machines in the core, against the losses in NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import mercer.solvers.local as local
from _core_twins import LEVELS, run_at_level
from mercer import LocalKernelClassifier, LocalKernelRegressor, _core
from mercer.losses import Huber, Logistic, Multinomial, SmoothHinge, SquaredHinge
from test_core_kernels import PARAMETER, twin

pytestmark = pytest.mark.rounding

SIZES = [150, 0, 49, 1, 260, 97]
LOSSES = [Logistic(), SquaredHinge(), SmoothHinge(), Huber(0.7), Multinomial()]
names = pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)


class Leaves:
    """Leaves of several sizes which share some rows, with k targets that rows tell partly."""

    def __init__(self, rng, loss, k=3, n=300, d=4):
        self.loss = loss
        self.X = rng.normal(size=(n, d)).astype(np.float32)
        self.order = np.concatenate([rng.permutation(n)[:size] for size in SIZES]).astype(np.int64)
        self.starts = np.append(0, np.cumsum(SIZES)).astype(np.int64)
        self.scale = np.full(d, 0.4)
        scores = np.sin(2 * self.X[:, :k]) + 0.4 * rng.normal(size=(n, k))
        if loss.name == "multinomial":
            self.targets = np.eye(k)[scores.argmax(axis=1)]
        elif loss.is_classification:
            self.targets = np.where(scores > 0.2 * np.arange(k), 1.0, -1.0)
        else:
            self.targets = scores * np.arange(1, k + 1) + 5.0
        self.weights = rng.uniform(0.2, 3.0, n)

    def minimised(self, ridges=(2.0, 0.1), *, weighted=False, fit=True, tol=1e-6, n_threads=2,
                  max_iter=100):  # fmt: skip
        q, m, count, k = len(ridges), len(self.order), len(SIZES), self.targets.shape[1]
        coef, intercept = np.full((q, m, k), np.nan), np.zeros((q, count, k))
        residual, steps = np.full((q, count), np.nan), np.zeros((q, count), np.int64)
        for leaf in range(count):
            y, s = self.part(leaf, weighted)
            if len(y):
                intercept[:, leaf] = self.loss.start(y, lambda v, s=s: np.average(v, 0, s))
        _core.minimise_leaves(
            self.X, self.order, self.starts, "gaussian", PARAMETER, self.scale, self.targets,
            self.weights if weighted else None, np.array(ridges), fit, self.loss.name,
            self.loss.parameter, tol, max_iter, coef, intercept, residual, steps, n_threads,
        )  # fmt: skip
        return coef, intercept, residual, steps

    def rows(self, leaf):
        return self.order[self.starts[leaf] : self.starts[leaf + 1]]

    def part(self, leaf, weighted):
        rows = self.rows(leaf)
        return self.targets[rows], self.weights[rows] if weighted else np.ones(len(rows))

    def residual(self, leaf, a, b, ridge, weighted, fit):
        """What is left of the equations of a leaf, relative to the constant model."""
        (y, s), X = self.part(leaf, weighted), self.X[self.rows(leaf)]
        K = twin("gaussian", X, X, self.scale).astype(float)

        def norms(a, b):
            slopes = s[:, None] * self.loss.gradient(K @ a + b, y)
            square = np.sum((slopes + ridge * a) ** 2 / s[:, None], axis=0)
            square += fit * slopes.sum(axis=0) ** 2 / s.sum()
            return np.sqrt(square.sum(keepdims=True) if self.loss.joint else square)

        start = self.loss.start(y, lambda v: np.average(v, 0, s)) if fit else np.zeros(y.shape[1])
        return (norms(a, b) / norms(0 * a, start)).max()


@pytest.mark.parametrize("fit", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
@names
def test_minima_are_those_of_the_losses_in_numpy(rng, loss, weighted, fit):
    leaves = Leaves(rng, loss)
    ridges = (2.0, 0.1)
    coef, intercept, residual, steps = leaves.minimised(ridges, weighted=weighted, fit=fit)
    large = [leaf for leaf, size in enumerate(SIZES) if size > 1]
    assert (residual[:, large] <= 1e-6).all()
    assert (steps[:, large] >= 1).all()
    assert steps.max() <= 30
    for leaf in large:
        part = slice(leaves.starts[leaf], leaves.starts[leaf + 1])
        for r, ridge in enumerate(ridges):
            left = leaves.residual(leaf, coef[r, part], intercept[r, leaf], ridge, weighted, fit)
            assert left < 1e-4  # float32 kernels
    np.testing.assert_array_equal(residual[:, 1], 0.0)  # no rows


@names
def test_a_loose_tol_has_products_in_float32_and_the_residual_it_tells(rng, loss):
    leaves, ridges, fine = Leaves(rng, loss), (2.0, 0.1), 2e-5
    for tol in (1e-2, 1e-3):
        coef, intercept, told, _ = leaves.minimised(ridges, weighted=True, tol=tol)
        assert told.max() <= tol
        for r, ridge in enumerate(ridges):
            for leaf in np.flatnonzero(np.array(SIZES) > 1):
                a = coef[r, leaves.starts[leaf] : leaves.starts[leaf + 1]]
                left = leaves.residual(leaf, a, intercept[r, leaf], ridge, True, True)
                assert abs(left - told[r, leaf]) <= fine


@names
def test_a_path_ends_where_each_strength_ends_alone(rng, loss):
    leaves = Leaves(rng, loss)
    path, alone = leaves.minimised((5.0, 0.3)), leaves.minimised((0.3,))
    scale = np.abs(alone[0]).max()
    np.testing.assert_allclose(path[0][1], alone[0][0], atol=1e-4 * scale)
    assert path[3][1, 4] < alone[3][0, 4] + 2  # and is a good start


@names
def test_threads_change_no_bit(rng, loss):
    leaves = Leaves(rng, loss)
    for one, three in zip(*(leaves.minimised(n_threads=n) for n in (1, 3)), strict=True):
        np.testing.assert_array_equal(one, three)


@pytest.mark.parametrize("loss", LOSSES[:-1], ids=lambda loss: loss.name)
def test_weak_penalties_need_factors_and_end_as_well(rng, loss):
    _, _, residual, _ = Leaves(rng, loss).minimised((0.01,), tol=1e-3)
    assert (residual[:, [0, 2, 4, 5]] <= 1e-3).all()


def test_too_few_steps_leave_a_residual(rng):
    leaves = Leaves(rng, Logistic())
    _, _, residual, steps = leaves.minimised((0.1,), max_iter=2)
    assert residual[0, 4] > 1e-6
    assert steps[0, 4] == 2


def test_responses_beyond_float32_are_told(rng):
    leaves = Leaves(rng, Huber(0.7))
    _, _, residual, _ = leaves.minimised((1e-4,), tol=1e-2)
    assert np.isinf(residual[0, 4])


@names
def test_no_outputs_are_nothing_to_minimise(rng, loss):
    X, residual, steps = rng.normal(size=(5, 2)), np.full((1, 1), np.nan), np.full((1, 1), -1)
    _core.minimise_leaves(
        X.astype(np.float32), np.arange(5), np.array([0, 5]), "gaussian", 1.0, np.ones(2),
        np.empty((5, 0)), None, np.ones(1), True, loss.name, loss.parameter, 1e-3, 9,
        np.empty((1, 5, 0)), np.empty((1, 1, 0)), residual, steps, 1,
    )  # fmt: skip
    assert residual == steps == 0


def test_an_unknown_loss_is_refused(rng):
    leaves = Leaves(rng, Logistic())
    leaves.loss = SquaredHinge()
    object.__setattr__(leaves.loss, "name", "quartic")
    with pytest.raises(ValueError, match=r"loss is unknown; got 'quartic'"):
        leaves.minimised()


@pytest.mark.parametrize("loss", ["logistic", "squared_hinge", "smooth_hinge", "multinomial"])
@pytest.mark.parametrize("n_classes", [2, 4])
def test_the_slow_way_leads_to_the_same_model(rng, loss, n_classes, monkeypatch):
    X = rng.normal(size=(600, 3)).astype(np.float32)
    y = np.digitize(X[:, 0] + np.sin(2 * X[:, 1]) + 0.3 * rng.normal(size=600), [-1, 0, 1])
    model = LocalKernelClassifier(
        loss=loss, leaf_size=100, n_trees=2, tol=1e-5, alpha=1e-3, random_state=0
    )
    y = y % n_classes
    fast = model.fit(X, y).decision_function(X)
    monkeypatch.setattr(local, "_NEWTON", ())
    slow = model.fit(X, y).decision_function(X)
    np.testing.assert_allclose(fast, slow, atol=2e-3 * np.abs(slow).max())


def test_leaves_that_the_core_leaves_are_solved_the_slow_way(rng, monkeypatch):
    X = rng.normal(size=(300, 3)).astype(np.float32)
    y = np.sin(X).sum(axis=1) + rng.standard_t(2, size=300)
    model = LocalKernelRegressor(loss="huber", leaf_size=100, n_trees=1, alpha=1e-2,
                                 tol=1e-5, random_state=0)  # fmt: skip
    whole = model.fit(X, y).predict(X)
    core = _core.minimise_leaves

    def lost(*arguments):
        core(*arguments)
        arguments[-3][:] = np.inf

    monkeypatch.setattr(_core, "minimise_leaves", lost)
    again = model.fit(X, y)
    np.testing.assert_allclose(again.predict(X), whole, atol=1e-3 * np.abs(whole).max())
    assert again.converged_


@pytest.mark.parametrize("level", LEVELS)
def test_every_level_minimises(level):
    residual = run_at_level(level, """
import numpy as np
from mercer import _core
rng = np.random.default_rng(0)
X = rng.normal(size=(300, 4)).astype(np.float32)
y = np.where(np.sin(2 * X[:, :3]) + 0.3 * rng.normal(size=(300, 3)) > 0, 1.0, -1.0)
starts = np.array([0, 100, 300])
result = 0.0
for loss in ("logistic", "squared_hinge", "smooth_hinge"):
    coef, intercept = np.empty((1, 300, 3)), np.zeros((1, 2, 3))
    residual, steps = np.empty((1, 2)), np.empty((1, 2), np.int64)
    _core.minimise_leaves(X, np.arange(300), starts, "gaussian", 1.5, np.full(4, 0.3), y, None,
                          np.array([0.1]), True, loss, 0.0, 1e-5, 100, coef, intercept, residual,
                          steps, 2)
    result = max(result, float(residual.max()))
""")  # fmt: skip
    assert residual <= 1e-5
