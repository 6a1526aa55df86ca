"""Tables without noise: settings are chosen where rows lie nearly as close as in the end."""

from dataclasses import replace

import numpy as np
import pytest

from mercer import AutoKernelClassifier, AutoKernelRegressor
from mercer.auto.fine import closer, fine_rows, other_views
from mercer.auto.leading import Record
from mercer.auto.trials import Settings, machine_responses
from mercer.auto.tuning import TUNING

GAUSSIAN = Settings(kernel="gaussian", gamma=1.0, ridge=1e-3)


def waves(X):
    return np.sin(5 * X[:, 0]) * np.cos(4 * X[:, 1]) + 0.5 * X[:, 0]


def arm(X):
    """Distance of the end of an arm of twisted links from a point, by its angles."""
    twists = np.random.default_rng(7).uniform(-np.pi / 2, np.pi / 2, X.shape[1])
    turn, end = np.tile(np.eye(3), (len(X), 1, 1)), np.zeros((len(X), 3))
    for angle, twist in zip(np.pi / 2 * X.T, twists, strict=True):
        about_z, about_x = np.zeros((len(X), 3, 3)), np.eye(3)
        about_z[:, 0, 0] = about_z[:, 1, 1] = np.cos(angle)
        about_z[:, 1, 0], about_z[:, 0, 1] = np.sin(angle), -np.sin(angle)
        about_z[:, 2, 2] = 1
        about_x[1:, 1:] = [[np.cos(twist), -np.sin(twist)], [np.sin(twist), np.cos(twist)]]
        turn = turn @ about_z @ about_x
        end += turn[:, :, 0] / X.shape[1]
    return np.linalg.norm(end - 0.1, axis=1)


def corners(X):
    kinks = np.abs(X) @ np.linspace(1, 0.2, X.shape[1])
    return kinks + 2 * np.maximum(X[:, 0], X[:, 1])


def rows(function, d, n, seed=0):
    X = np.random.default_rng(seed).uniform(-1, 1, (n, d))
    return X, function(X)


class Standing:
    """A search that stands at settings, for the losses of a function of gamma."""

    n_inputs = 3

    def __init__(self, settings, loss, n_rows=8000, most_fitted=4000):
        self.finalists, self.loss, self.records = [settings], loss, []
        self.best = Record("rung 3", 1500, settings, loss(settings), 0.1, 1.0)
        self.bench = type("Bench", (), {"n_rows": n_rows, "most_fitted": most_fitted})

    def run(self, waves):
        """All trials, and what the waves return."""
        trials, found = [], None
        try:
            while True:
                wave = waves.send(found)
                trials += wave
                found = {}
                for trial in wave:
                    ridges = [replace(trial.settings, ridge=ridge) for ridge in trial.ridges]
                    best = min(ridges, key=self.loss)
                    if np.isfinite(self.loss(best)):
                        record = Record("fine", 4000, best, self.loss(best), 0.1, 1.0)
                        found[trial.settings] = record
                        self.records += [replace(record, settings=each) for each in ridges]
        except StopIteration as end:
            return trials, end.value


def test_trials_fit_most_of_few_rows_and_a_bounded_number_of_many():
    least, most = TUNING.fine_rows
    assert [fine_rows(n) for n in (10_000, 10**6)] == [7000, most]
    assert fine_rows(3000) == least  # more than there are: all but those held out
    assert fine_rows(10**6, 0.25 * TUNING.fine_seconds) == most // 2
    assert fine_rows(10**6, -1.0) == 0


def test_narrower_kernels_are_followed_as_far_as_they_gain():
    standing = Standing(GAUSSIAN, lambda s: (np.log(s.gamma / 5.2)) ** 2 + 1.0)
    trials, chosen = standing.run(closer(standing))
    assert chosen.gamma == pytest.approx(3 * np.sqrt(3))
    assert max(t.settings.gamma for t in trials) == pytest.approx(9.0)
    ridges = {round(t.settings.gamma, 3): t.settings.ridge for t in trials[::-1]}
    assert ridges[1.732] > ridges[1.0]


def test_a_kernel_behind_by_little_is_chosen_if_it_is_narrower():
    level = Standing(GAUSSIAN, lambda s: 1.0 + 0.02 * (s.gamma > 1.1) + (s.gamma > 2))
    assert level.run(closer(level))[1].gamma == pytest.approx(np.sqrt(3))
    behind = Standing(GAUSSIAN, lambda s: 1.0 + 0.05 * (s.gamma > 1.1), 4100)
    assert behind.run(closer(behind))[1].gamma == 1.0


def test_wider_kernels_are_tried_where_narrower_ones_err_clearly_more():
    standing = Standing(GAUSSIAN, lambda s: 2.0 + np.log(s.gamma / 0.3) ** 2)
    assert standing.run(closer(standing))[1].gamma == pytest.approx(1 / 3)


def test_a_ridge_too_weak_for_the_iterations_is_raised():
    standing = Standing(GAUSSIAN, lambda s: s.gamma if s.ridge > 0.05 else np.inf)
    chosen = standing.run(closer(standing))[1]
    assert chosen.ridge > 0.05
    hopeless = Standing(GAUSSIAN, lambda s: np.inf)
    assert hopeless.run(closer(hopeless))[1] is None


def test_a_laplacian_has_gaussians_of_weak_ridges_beside_it():
    laplacian = Settings(gamma=1.0, ridge=0.03)
    smooth = Standing(laplacian, lambda s: s.ridge if s.kernel == "gaussian" else 1.0)
    views = smooth.run(other_views(smooth))[1]
    assert {view.kernel for view in views} == {"gaussian"}
    assert {view.ridge for view in views} == {1e-5}
    rough = Standing(laplacian, lambda s: 1.0 + (s.kernel == "gaussian"))
    assert {view.kernel for view in rough.run(other_views(rough))[1]} == {"laplacian"}


def test_ridges_of_a_path_are_those_of_single_machines(rng):
    X, held = rng.normal(size=(150, 2)), rng.normal(size=(20, 2))
    y, weights = np.column_stack([waves(X), X[:, 0]]), rng.uniform(0.5, 2.0, size=150)
    found = machine_responses(GAUSSIAN, X, held, y, [0.1, 0.001], 1e-10, weights)
    for ridge, responses in zip([0.1, 0.001], found, strict=True):
        K = np.exp(-((X[:, None] - X) ** 2).sum(axis=2)) + ridge * np.diag(1 / weights)
        ones = np.ones((150, 1))
        system = np.block([[K, ones], [ones.T, np.zeros((1, 1))]])
        solved = np.linalg.solve(system, np.vstack([y, np.zeros((1, 2))]))
        expected = np.exp(-((held[:, None] - X) ** 2).sum(axis=2)) @ solved[:-1] + solved[-1]
        np.testing.assert_allclose(responses, expected, atol=1e-6)


@pytest.mark.parametrize(("function", "d"), [(waves, 2), (arm, 8), (corners, 6)])
@pytest.mark.slow
def test_more_rows_never_make_a_model_without_noise_worse(function, d):
    X, y = rows(function, d, 2500)
    X_test, y_test = rows(function, d, 2000, seed=1)
    last = np.inf
    for n in (1250, 2500):
        model = AutoKernelRegressor(random_state=0).fit(X[:n], y[:n])
        squares = (model.predict(X_test) - y_test) ** 2
        error = squares.mean()
        assert error <= last + 2 * squares.std() / np.sqrt(len(squares))
        last = error
        if n < 2500:
            continue
        chosen = Settings(**model.best_settings_)
        treat = model.best_estimator_[:-1]
        fitted, held = (np.asarray(treat.transform(part)) for part in (X[:n], X_test))
        of_grid = []
        for factor in (0.25, 0.5, 1.0, 2.0, 4.0):
            at = replace(chosen, gamma=factor * chosen.gamma)
            ridges = [chosen.ridge * 4.0**power for power in (2, 1, 0, -1, -2)]
            target = (y[:n] - y[:n].mean())[:, None]
            for found in machine_responses(at, fitted, held, target, ridges, 1e-3):
                if found is not None:
                    of_grid.append(np.mean((found[:, 0] + y[:n].mean() - y_test) ** 2))
        # Errors below a thousandth of the deviation count as none.
        assert np.sqrt(error) <= max(1.03 * np.sqrt(min(of_grid)), 1e-3 * y.std())


def stages(model):
    return set(model.search_results_["stage"].tolist())


def test_classes_without_an_error_get_no_trials_of_small_errors(monkeypatch):
    """Classes of wide gaps, and of gaps that some rows lie within."""
    monkeypatch.setattr(TUNING, "left_out_inputs", 0)
    monkeypatch.setattr(TUNING, "fine_error", 1.0)
    X = np.random.default_rng(0).normal(size=(1100, 2))
    apart = X[np.abs(X[:, 0]) > 0.8]
    X = np.concatenate([apart + np.array([0, shift]) for shift in (0, 0.1, 0.3)])[:1100]
    y = X[:, 0] > 0
    clear = AutoKernelClassifier(random_state=0).fit(X, y)
    y[::50] = ~y[::50]
    unclear = AutoKernelClassifier(random_state=0).fit(X, y)
    assert stages(clear).isdisjoint({"views", "fine"})
    assert {"views", "fine"} <= stages(unclear)
