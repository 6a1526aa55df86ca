"""Gamma and ridge on more rows, where the loss of numbers still falls with their number."""

from dataclasses import replace

import numpy as np
import pytest

from mercer import AutoKernelClassifier, AutoKernelRegressor
from mercer.auto.growth import growing
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
    """A search that stands at settings, for the losses of a function of settings."""

    n_inputs = 3

    class Outcome:
        """Settings whose loss is surely less where it is so by a hundredth."""

        def __init__(self, loss):
            self.loss = loss

        def is_surely_less(self, other, n_errors):
            return self.loss < 0.99 * other.loss

    def outcome_of(self, settings):
        return self.Outcome(self.loss(settings))

    def __init__(self, settings, loss, n_rows=8000, most_fitted=4000):
        self.loss, self.stage = loss, self
        self.best = Record("rung 3", 1500, settings, loss(settings), 0.1, 1.0)
        self.bench = type("Bench", (), {"n_rows": n_rows, "most_fitted": most_fitted})

    def run(self, fall=0.5):
        """All trials, and the settings at the end."""
        waves, trials, found = growing(self, fall), [], None
        try:
            while True:
                wave = waves.send(found)
                trials += wave
                found = {}
                for trial in wave:
                    best = min(
                        (replace(trial.settings, ridge=ridge) for ridge in trial.ridges),
                        key=self.loss,
                    )
                    if np.isfinite(self.loss(best)):
                        found[trial.settings] = Record(
                            "more rows", 4000, best, self.loss(best), 0.1, 1.0
                        )
        except StopIteration as end:
            return trials, end.value


def bowl(gamma, ridge):
    return lambda s: 1.0 + np.log(s.gamma / gamma) ** 2 + np.log(s.ridge / ridge) ** 2 / 4


@pytest.mark.parametrize(("gamma", "ridge"), [(5.0, 1e-3), (1.0, 1e-5), (0.3, 1e-3), (3.0, 6e-5)])
def test_steps_lead_to_where_the_loss_is_least(gamma, ridge):
    chosen = Standing(GAUSSIAN, bowl(gamma, ridge), 4000).run()[1]
    assert abs(np.log(chosen.gamma / gamma)) <= 0.5 * np.log(3)
    assert abs(np.log(chosen.ridge / ridge)) <= np.log(4)


def test_settings_at_the_least_loss_cost_one_step_to_every_side():
    trials, chosen = Standing(GAUSSIAN, bowl(1.0, 1e-3)).run()
    assert chosen == GAUSSIAN
    tried = {(t.settings.gamma, ridge) for t in trials for ridge in t.ridges}
    assert len(trials) == 4
    assert len(tried) == sum(len(t.ridges) for t in trials) == 7


def test_steps_turn_where_one_side_has_no_more_to_give():
    """Down a valley, in which a wider kernel wants a weaker ridge."""

    def valley(s):
        along = np.log(s.ridge / 1e-3) / np.log(4) - 2 * np.log(s.gamma) / np.log(3)
        return 1.0 + along**2 + np.log(s.ridge / 1e-7) ** 2 / 50

    chosen = Standing(GAUSSIAN, valley, 4000).run()[1]
    assert valley(chosen) < 1.05 < valley(GAUSSIAN)


def test_a_narrower_kernel_may_be_behind_by_a_part_of_what_the_loss_will_fall():
    def level(s):
        return 1.0 + 0.02 * (s.gamma > 1.1) + (s.gamma > 2) + (s.ridge != 1e-3)

    assert Standing(GAUSSIAN, level).run(0.6)[1].gamma == pytest.approx(np.sqrt(3))
    assert Standing(GAUSSIAN, level).run(0.15)[1].gamma == 1.0
    assert Standing(GAUSSIAN, level, 4100).run(0.6)[1].gamma == 1.0


def test_settings_without_a_solution_end_the_steps():
    assert Standing(GAUSSIAN, lambda s: np.inf).run()[1] is None
    at_first = Standing(GAUSSIAN, lambda s: 1.0 if s == GAUSSIAN else np.inf)
    assert at_first.run()[1] == GAUSSIAN


def test_a_laplacian_has_gaussians_of_weak_ridges_beside_it_where_the_loss_falls_by_half():
    laplacian = Settings(gamma=1.0, ridge=0.03)

    def smooth(s):
        return 0.1 + s.ridge if s.kernel == "gaussian" else 1.0

    assert Standing(laplacian, smooth).run(0.5)[1].kernel == "gaussian"
    assert Standing(laplacian, smooth).run(0.4)[1].kernel == "laplacian"
    rough = Standing(laplacian, lambda s: 1.0 + (s.kernel == "gaussian"))
    assert rough.run(0.5)[1].kernel == "laplacian"


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


def test_trials_on_more_rows_follow_a_loss_that_falls(monkeypatch):
    """Not where noise decides, nor of classes."""
    monkeypatch.setattr(TUNING, "left_out_inputs", 0)
    X, y = rows(corners, 6, 2600)
    noisy = y + 10 * np.random.default_rng(1).normal(size=len(y))
    assert "more rows" in stages(AutoKernelRegressor(random_state=0).fit(X, y))
    model = AutoKernelRegressor(random_state=0).fit(X, noisy)
    of_more = model.search_results_["stage"] == "more rows"
    assert np.isnan(model.search_results_["loss"][of_more]).all()  # but for two that tell the fall
    of_classes = AutoKernelClassifier(random_state=0).fit(X, y > np.median(y))
    assert "more rows" not in stages(of_classes)
