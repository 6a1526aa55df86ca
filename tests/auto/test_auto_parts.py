"""The parts of the automatic choice: targets, splits, trials and what held-out rows tell."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from sklearn.datasets import make_friedman1
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import LinearRegression
from sklearn.metrics import log_loss

from mercer.auto import AutoKernelRegressor, LogTargetRegressor, course
from mercer.auto.calibration import Conformal
from mercer.auto.course import first_rungs, on_all_rows, on_leaves
from mercer.auto.goals import Classes, Numbers
from mercer.auto.leading import Outcome, Record, Stage
from mercer.auto.leaves import cut_for
from mercer.auto.machines import Machine, exact_responses
from mercer.auto.parts import Split, leaf_parts, splits
from mercer.auto.search import Search
from mercer.auto.targets import LogShift, log_shift, smeared
from mercer.auto.trials import Settings, feature_responses
from mercer.estimators.probabilities import Probabilities
from mercer.maps import IdentityMap

# trials


@pytest.mark.rounding
def test_exact_responses_are_kernel_ridge():
    rng = np.random.default_rng(0)
    X, target, held = rng.normal(size=(40, 3)), rng.normal(size=(40, 2)), rng.normal(size=(7, 3))
    ridges = [0.1, 0.001, 0.0001]
    [found] = exact_responses("laplacian", [Machine(0.5, X, held, target)], ridges, 1)
    for ridge, responses in zip(ridges, found, strict=True):
        theirs = KernelRidge(alpha=ridge, kernel="laplacian", gamma=0.5)
        np.testing.assert_allclose(responses, theirs.fit(X, target).predict(held), rtol=1e-6)


@pytest.mark.rounding
@pytest.mark.parametrize(("kernel", "theirs"), [("laplacian", "laplacian"), ("gaussian", "rbf")])
def test_machines_solved_together_are_kernel_ridge(kernel, theirs):
    rng, ridges = np.random.default_rng(0), [0.3, 0.01]
    machines = [
        Machine(
            gamma,
            rng.normal(size=(m, d)).astype(np.float32),
            rng.normal(size=(h, d)).astype(np.float32),
            rng.normal(size=(m, 2)),
        )
        for gamma, m, h, d in [(0.5, 40, 7, 3), (1.7, 90, 1, 2), (0.5, 1, 30, 3)]
    ]
    for machine, found in zip(machines, exact_responses(kernel, machines, ridges, 2), strict=True):
        for ridge, responses in zip(ridges, found, strict=True):
            model = KernelRidge(alpha=ridge, kernel=theirs, gamma=machine.gamma)
            expected = model.fit(machine.fitted, machine.target).predict(machine.held)
            np.testing.assert_allclose(responses, expected, atol=2e-4)


@pytest.mark.rounding
def test_machines_are_solved_alike_alone_and_together(monkeypatch):
    rng = np.random.default_rng(0)
    machines = [
        Machine(1.0, X[:300], X[300:], rng.normal(size=(300, 1)))
        for X in rng.normal(size=(3, 320, 4)).astype(np.float32)
    ]
    together = list(exact_responses("laplacian", machines, [0.1], 1))
    alone = [next(exact_responses("laplacian", [machine], [0.1], 1)) for machine in machines]
    np.testing.assert_array_equal(together, alone)
    monkeypatch.setattr("mercer.auto.machines._TOGETHER", 2 * 320 * 4)
    np.testing.assert_array_equal(list(exact_responses("laplacian", machines, [0.1], 2)), alone)


def test_feature_responses_are_ridge_of_the_features():
    rng = np.random.default_rng(0)
    X, target, held = rng.normal(size=(60, 3)), rng.normal(size=(60, 1)), rng.normal(size=(7, 3))
    found = feature_responses(IdentityMap(), X, held, target, [0.5, 5.0], 0.01)
    for ridge, responses in zip([0.5, 5.0], found, strict=True):
        w = np.linalg.solve(X.T @ X + ridge * np.eye(3), X.T @ target)
        np.testing.assert_allclose(responses, held @ w, atol=0.02)


# parts of the rows


@pytest.mark.parametrize("n", [5, 60, 5000])
def test_no_row_is_fitted_and_held_out(n):
    goal = Numbers(np.arange(float(n))[:, None])
    for fitted, held in splits(goal, 1, n):
        assert len(fitted)
        assert len(held)
        assert not set(fitted) & set(held)


def test_few_rows_are_all_held_out_once():
    held = [held for _, held in splits(Numbers(np.arange(60.0)[:, None]), 1, 60)]
    assert sorted(np.concatenate(held)) == list(range(60))


def test_every_class_has_its_share_of_the_first_rows():
    labels = np.repeat([0, 1, 2], [4000, 900, 100])
    [(fitted, held)] = splits(Classes(labels, 3), 1, 5000)
    for rows in (fitted[:500], held):
        shares = np.bincount(labels[rows], minlength=3) / len(rows)
        np.testing.assert_allclose(shares, [0.8, 0.18, 0.02], atol=0.005)


def test_the_rows_held_out_change_no_response():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(1500, 3)), rng.normal(size=1500)
    first = Search(X, y, Numbers(y[:, None]), 7, 1, np.inf)
    [(_, held)] = splits(first.goal, 7, 1500)
    other = y.copy()
    other[held] += 100.0
    second = Search(X, other, Numbers(y[:, None]), 7, 1, np.inf)
    for search in (first, second):
        first_rungs(search, [("robust", 0)], 3)
    losses = [[record.loss for record in search.records] for search in (first, second)]
    assert losses[0] == losses[1]


def test_trials_side_by_side_are_those_one_after_the_other():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(1500, 3)), rng.normal(size=1500)
    found = []
    for n_jobs in (1, 3):
        search = Search(X, y, Numbers(y[:, None]), 7, n_jobs, np.inf)
        first_rungs(search, [("robust", 0), ("quantile", 0)], 3)
        found.append([(record.settings, record.loss) for record in search.records])
    assert [settings for settings, _ in found[0]] == [settings for settings, _ in found[1]]
    np.testing.assert_allclose(*[[loss for _, loss in records] for records in found], rtol=1e-5)


def on_features(n_inputs, y_of, n=6000):
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, size=(n, n_inputs))
    y = y_of(X) + 0.1 * rng.normal(size=n)
    search = Search(X, y, Numbers(y[:, None]), 7, None, np.inf)
    first_rungs(search, [("robust", 0)], n_inputs)
    course.on_features(search, n_inputs)
    return search, [record for record in search.records if record.stage == "features"]


def test_features_are_tried_on_more_rows_and_gamma_goes_on_while_that_helps():
    search, records = on_features(3, lambda X: np.sign(np.sin(4 * X[:, 0])))
    assert {record.rows for record in records} == {4500}
    assert len(search.held_rows) == len(search.held_responses) == 1500
    plain = [record for record in records if record.settings.kernel == "laplacian"]
    ridge = plain[0].settings.ridge  # one more is tried at the best gamma, last
    climb = [(r.settings.gamma, r.loss) for r in plain if r.settings.ridge == ridge]
    factors = [gamma / climb[0][0] for gamma, _ in climb]
    losses = [loss for _, loss in climb]
    if losses[1] >= losses[0]:
        assert factors == [1, 2, 0.5]
    else:
        assert factors == [2.0**step for step in range(len(factors))]
        assert losses[:-1] == sorted(losses[:-1], reverse=True)
        assert losses[-1] >= losses[-2] or len(losses) == 4
    assert plain[-1].settings.gamma == climb[int(np.argmin(losses))][0]


# targets


def test_logarithms_come_back():
    y = np.array([-5.0, -1.0, 0.0, 0.5, 3.0, 800.0])
    shift = log_shift(y)
    np.testing.assert_allclose(shift.backward(shift.forward(y)), y, atol=1e-9)
    assert (np.diff(shift.forward(y)) > 0).all()
    assert shift.backward(np.array([1e9, -1e9])).tolist() == [800.0, -5.0]


def test_logarithms_start_at_the_least_target_that_is_not_negative():
    assert log_shift(np.array([0.0, 1.0, 3.0, 10.0, 11.0])).centre == 0.0
    assert log_shift(np.array([-1.0, 1.0, 3.0, 10.0, 11.0])).centre == 3.0


def test_targets_mostly_alike_are_measured_by_their_mean_deviation():
    assert log_shift(np.repeat([3.0, 5.0], [9, 1])) == LogShift(3.0, 0.2, 3.0, 5.0)
    assert log_shift(np.full(10, 3.0)) == LogShift(3.0, 1.0, 3.0, 3.0)


def test_logarithms_of_the_farthest_target_come_back_on_either_side():
    y = np.array([-800.0, -3.0, 0.0, 1.0, 5.0])
    shift = log_shift(y)
    np.testing.assert_allclose(shift.backward(shift.forward(y)), y, atol=1e-9)


def test_smearing_gives_means_not_medians():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20_000, 1))
    noise = rng.normal(size=20_000)
    y = np.exp(X[:, 0] + noise)
    model = LogTargetRegressor(LinearRegression(), 0 * noise).fit(X, y)
    residuals = model.shift_.forward(y) - model.regressor_.predict(X)
    smeared_model = LogTargetRegressor(LinearRegression(), residuals).fit(X, y)
    assert model.predict(X).mean() < 0.8 * y.mean()
    np.testing.assert_allclose(smeared_model.predict(X).mean(), y.mean(), rtol=0.2)


def test_smearing_without_residuals_turns_back():
    shift = log_shift(np.arange(1.0, 9.0))
    t = shift.forward(np.array([2.0, 5.0]))
    np.testing.assert_allclose(smeared(shift, t, np.zeros(3)), [2.0, 5.0])


def test_smearing_multiplies_by_the_mean_factor_of_the_residuals():
    shift = LogShift(centre=2.0, unit=3.0, low=2.0, high=1e9)
    residuals = np.array([-0.7, -0.1, 0.2, 0.4, 1.3])
    t = np.linspace(1.0, 4.0, 7)
    expected = 2.0 + 3.0 * (np.exp(t) * np.exp(residuals).mean() - 1.0)
    rng = np.random.default_rng(0)
    found = smeared(shift, t, rng.permutation(np.repeat(residuals, 100)))
    np.testing.assert_allclose(found, expected, rtol=1e-12)


@pytest.mark.parametrize("transform", ["identity", "log"])
def test_responses_turn_fits_of_the_target_back(transform):
    y = np.random.default_rng(0).lognormal(size=(50, 1))
    goal = Numbers(y)
    rows = np.arange(30)
    encoding = next(e for e in goal.encodings(rows) if e.transform == transform)
    truth = goal.truth(rows, transform)
    np.testing.assert_allclose(encoding.responses(encoding.target), truth, atol=1e-12)
    np.testing.assert_allclose(goal.losses(truth, rows, transform)[1], 0, atol=1e-6)


def test_targets_of_both_signs_without_long_tails_are_left_alone():
    y = np.random.default_rng(0).normal(size=(500, 1))
    assert [e.transform for e in Numbers(y).encodings(np.arange(500))] == ["identity"]


@pytest.mark.parametrize("n_classes", [2, 4])
def test_losses_of_classes_are_squares_and_wrong_shares(n_classes):
    labels = np.random.default_rng(0).integers(0, n_classes, 100)
    goal = Classes(labels, n_classes)
    rows = np.arange(100)
    truth = goal.truth(rows, "identity")
    losses, wrong = goal.losses(truth, rows, "identity")
    assert (losses == 0).all()
    assert wrong == 0
    assert (goal.losses(-truth, rows, "identity")[0] == 4).all()


# scales that machines learn


@pytest.mark.rounding
@pytest.mark.parametrize("power", [0.5, 1.0])
@pytest.mark.parametrize("kernel", ["laplacian", "gaussian"])
@pytest.mark.parametrize("scales", ["machine", "exponential"])
def test_scales_of_a_search_are_those_of_the_last_pipeline(scales, kernel, power):
    X, y = make_friedman1(700, 6, noise=0.5, random_state=0)
    settings = Settings(power=power, scales=scales, kernel=kernel)
    part = Split(X, y, "continuous", np.arange(600), np.arange(600, 700), 7)
    search = Search(X[:20], y[:20], Numbers(y[:20, None]), 7, None, np.inf)
    pipeline = AutoKernelRegressor()._recipe(search).pipeline(settings, 600, None, 0.02)
    scaler = pipeline[1].set_params(random_state=np.random.default_rng(7))
    scaler.fit(part.rows(settings)[0], y[:600])
    learned, by_cosines = (
        part.scales(replace(settings, scales=own)) for own in (scales, "cosines")
    )
    np.testing.assert_allclose(learned / learned.max(), scaler.scales_, rtol=1e-3)
    assert np.abs(by_cosines / by_cosines.max() - scaler.scales_).max() > 0.01


@pytest.mark.parametrize(
    ("n", "kernel"),
    [
        (2500, "laplacian"),
        (6000, "gaussian"),
        pytest.param(2500, "gaussian", marks=pytest.mark.slow),
        pytest.param(6000, "laplacian", marks=pytest.mark.slow),
    ],
)
def test_a_stage_ends_with_the_best_settings_in_scales_of_machines(n, kernel):
    X, y = make_friedman1(n, 6, noise=1.5, random_state=0)  # else gammas are tried once more
    search = Search(X, y, Numbers(y[:, None]), 7, None, np.inf)
    first_rungs(search, [("robust", 0), ("quantile", 0)], 6)
    leader = search.finalists[0]
    search.finalists = [replace(leader, turned=False, kernel=kernel, numbers="quantile")]
    if n == 2500:
        on_all_rows(search, 6)
    else:
        on_leaves(search, cut_for(n, 6))
    stage = [record for record in search.records if record.stage == search.records[-1].stage]
    tried = {record.settings for record in stage}

    def learned(scales):
        return {own for own in tried if own.scales == scales and own.transform == "identity"}

    [machine] = learned("machine")
    assert replace(machine, scales="cosines") in tried
    narrower = replace(machine, gamma=2 * machine.gamma, ridge=machine.ridge / 3)
    expected = {
        replace(own, scales="exponential", numbers=numbers)
        for own in (machine, narrower)
        for numbers in {machine.numbers, "robust" if n == 2500 else machine.numbers}
    }
    assert learned("exponential") == (expected if machine.kernel == "laplacian" else set())


def test_turned_inputs_get_no_scales_of_a_machine():
    X, y = make_friedman1(1500, 6, noise=0.5, random_state=0)
    search = Search(X, y, Numbers(y[:, None]), 7, None, np.inf)
    first_rungs(search, [("robust", 0)], 6)
    search.finalists = [replace(search.settings, power=1.0, turned=True)]
    on_all_rows(search, 6)
    learned = {r.settings for r in search.records if r.settings.scales != "cosines"}
    assert {settings.scales for settings in learned} <= {"left-out"}
    assert not any(settings.turned for settings in learned)


# Losses of 400 rows differ by 0.1 from row to row: a standard error is 0.005.
@pytest.mark.parametrize("fancier", ["machine", "exponential"])
@pytest.mark.parametrize(("gain", "leads"), [(0.003, False), (0.007, True)])
def test_scales_of_a_machine_have_to_be_better_by_more_than_noise(gain, leads, fancier):
    rng = np.random.default_rng(0)
    losses = rng.uniform(0.5, 1.5, 400)
    stage = Stage("rung 3", 2000, classes=False)
    for scales, less in (("cosines", 0.0), (fancier, gain)):
        noisy = losses + 0.1 * rng.normal(size=400) * (less > 0)
        noisy -= noisy.mean() - losses.mean() + less
        record = Record("rung 3", 2000, Settings(scales=scales), float(noisy.mean()), 0.1, 0.1)
        stage.add(Outcome(record, noisy[:, None], noisy))
    assert (stage.leader.record.settings.scales == fancier) is leads


@pytest.mark.parametrize(("gain", "leads"), [(0.02, False), (0.04, True)])
def test_long_tails_are_no_excuse_for_a_gain_of_scales_that_is_large(gain, leads):
    losses = np.random.default_rng(0).uniform(0.5, 1.5, 400)
    losses /= losses.mean()
    tails = np.zeros(400)
    tails[:2] = 100, -100  # a standard error of the difference of .35
    stage = Stage("rung 3", 2000, classes=False)
    for scales, own in (("cosines", losses), ("exponential", losses - gain + tails)):
        record = Record("rung 3", 2000, Settings(scales=scales), float(own.mean()), 0.1, 0.1)
        stage.add(Outcome(record, own[:, None], own))
    assert (stage.leader.record.settings.scales == "exponential") is leads


# A standard error of the difference is about .005: the kernel of cosines was chosen by held-out
# rows, that of scales by left-out errors by these.
@pytest.mark.parametrize(
    ("n", "scales", "gain", "leads"),
    [
        (2000, "cosines", 0.007, False),
        (2000, "cosines", 0.012, True),
        (2000, "machine", 0.012, False),
        (2000, "machine", 0.018, True),
        (2000, "left-out", 0.007, False),
        (2000, "left-out", 0.012, True),
        (900, "left-out", 0.018, False),  # in folds, held-out rows are rows of these errors
        (900, "left-out", 0.025, True),
    ],
)
def test_kernels_that_left_out_errors_chose_have_to_be_less_far_ahead(n, scales, gain, leads):
    rng = np.random.default_rng(0)
    losses = rng.uniform(0.5, 1.5, 400)
    stage = Stage("rung 3", n, classes=False)
    for kernel, own, less in (("laplacian", "cosines", 0.0), ("exponential", scales, gain)):
        noisy = losses + 0.1 * rng.normal(size=400) * (less > 0)
        noisy -= noisy.mean() - losses.mean() + less
        settings = Settings(kernel=kernel, scales=own)
        record = Record("rung 3", 2000, settings, float(noisy.mean()), 0.1, 0.1)
        stage.add(Outcome(record, noisy[:, None], noisy))
    assert (stage.leader.record.settings.kernel == "exponential") is leads


# what held-out rows tell


@pytest.mark.parametrize("n_classes", [2, 3])
def test_probabilities_sum_to_one_and_keep_the_winner(n_classes):
    rng = np.random.default_rng(0)
    responses = rng.normal(size=200) if n_classes == 2 else rng.dirichlet(np.ones(3), 200) * 2 - 1
    proba = Probabilities(0.03, 2.0)(responses)
    np.testing.assert_allclose(proba.sum(axis=1), 1)
    winners = (responses > 0).astype(int) if n_classes == 2 else responses.argmax(axis=1)
    np.testing.assert_array_equal(proba.argmax(axis=1), winners)


def test_calibration_undoes_overconfident_and_timid_responses():
    rng = np.random.default_rng(0)
    truth = rng.uniform(size=4000)
    labels = (rng.uniform(size=4000) < truth).astype(int)
    best = log_loss(labels, truth)
    for sharpness in (0.5, 3.0):
        responses = np.tanh(sharpness * np.arctanh(2 * truth - 1))
        calibrated = Probabilities.fitted(responses[:2000], labels[:2000])(responses[2000:])
        assert log_loss(labels[2000:], calibrated) < best + 0.02


def test_bounds_are_kept_by_new_rows_with_the_probability_asked_for():
    rng = np.random.default_rng(0)
    kept = [
        np.mean(rng.exponential(size=200) <= Conformal.of(rng.exponential(size=49)).bound(0.8))
        for _ in range(400)
    ]
    assert abs(np.mean(kept) - 0.8) < 0.015


def test_bounds_of_too_few_rows_are_infinite():
    assert Conformal.of(np.arange(8.0)).bound(0.9) == np.inf
    assert Conformal.of(np.arange(9.0)).bound(0.9) == 8
    assert Conformal(np.empty((0, 2))).bound(0.5).tolist() == [np.inf, np.inf]


def test_bound_is_the_least_score_of_enough_rank():
    # The probability that a new score is at most the k-th of m is k / (m + 1).
    for m in (1, 9, 19, 24, 99):
        conformal = Conformal.of(np.arange(1.0, m + 1))
        for percent in range(1, 100):
            rank = -(-percent * (m + 1) // 100)
            assert conformal.bound(percent / 100) == (rank if rank <= m else np.inf)


@pytest.mark.parametrize("coverage", [0.0, 1.0, -1, "high", True])
def test_coverages_that_make_no_sense_get_a_sentence(coverage):
    with pytest.raises((ValueError, TypeError), match="coverage must be"):
        Conformal.of(np.arange(9.0)).bound(coverage)


# smooth kernels


@pytest.mark.parametrize(("n", "leads"), [(2000, True), (200_000, False)])
def test_a_smooth_kernel_for_classes_has_to_be_further_ahead_the_more_rows_are_to_come(n, leads):
    rng = np.random.default_rng(0)
    stage = Stage("rung 3", n, classes=True)
    for kernel, losses in (
        ("laplacian", rng.uniform(0.9, 1.1, 500)),
        ("gaussian", rng.uniform(0.6, 0.8, 500)),
    ):
        settings = Settings(kernel=kernel)
        record = Record("rung 3", 2000, settings, float(losses.mean()), 0.1, 0.1)
        stage.add(Outcome(record, losses[:, None], losses))
    assert (stage.leader.record.settings.kernel == "gaussian") is leads


def test_the_leader_does_not_depend_on_the_order_of_trials():
    rng = np.random.default_rng(1)
    outcomes = []
    for gamma, transform, level in (
        (1.0, "identity", 0.5),
        (2.0, "identity", 0.48),
        (2.0, "log", 0.47),
    ):
        losses = level * rng.uniform(0.5, 1.5, 200)
        settings = Settings(gamma=gamma, transform=transform)
        record = Record("leaves", 800, settings, float(losses.mean()), 0.1, 0.1)
        outcomes.append(Outcome(record, losses[:, None], losses))
    leaders = set()
    for order in itertools.permutations(outcomes):
        stage = Stage("leaves", 800, classes=False)
        for outcome in order:
            stage.add(outcome)
        leaders.add(stage.leader.record.settings)
    assert len(leaders) == 1


# leaves


def test_leaves_get_smaller_with_more_rows_and_larger_with_more_inputs():
    sizes = [cut_for(n, 10).leaf_size for n in (25_000, 50_000, 100_000, 1_000_000)]
    assert sizes == sorted(sizes, reverse=True)
    assert cut_for(100_000, 500).leaf_size > cut_for(100_000, 10).leaf_size


def test_leaves_that_are_worth_little_more_than_other_rows_are_larger_and_fewer_trees():
    plain, wanted = cut_for(100_000, 10), cut_for(100_000, 10, worth=2.0)
    assert plain.leaf_size < wanted.leaf_size <= 2 * plain.leaf_size
    assert wanted.n_trees < plain.n_trees
    assert cut_for(100_000, 10, worth=1000.0) == plain


def test_a_cut_takes_no_more_time_than_there_is():
    for seconds in (0.1, 1.0, 10.0, 100.0):
        cut = cut_for(200_000, 10, np.inf, seconds, leaf_seconds=0.01, leaf_rows=800)
        assert cut.seconds(0.01, 800) <= seconds or cut.leaf_size == 100
    assert cut_for(200_000, 10, np.inf, 1e6, 0.01, 800).n_trees == 8


@pytest.mark.parametrize("n", [20_001, 300_000, 10**7])
def test_overlap_bounds_the_rows_of_all_leaves(n):
    cut = cut_for(n, 10)
    depth = np.log2(n / cut.leaf_size)
    assert 0 < cut.overlap <= 0.05
    assert (1 + 2 * cut.overlap) ** depth <= 1.6 * (1 + 1e-9)


def test_mean_response_of_all_leaves_that_answer_for_a_row():
    n = 3000
    X = np.random.default_rng(0).normal(size=(n, 2))
    search = Search(X, X[:, 0], Numbers(X[:, :1]), 3, 1, np.inf)
    whole = replace(search.parts[0], fitted=np.arange(n), held=np.arange(1))
    parts = leaf_parts(whole, Settings(), 200, 16, 0.05)
    bench = search.bench.on_leaves(parts)
    truth = np.concatenate([X[part.held, :1] for part in parts])
    np.testing.assert_allclose(bench.per_row(truth), X[bench.held, :1])
    assert np.unique(bench.places, return_counts=True)[1].max() >= 2
    for part in parts:
        assert not set(part.fitted) & set(part.held)
