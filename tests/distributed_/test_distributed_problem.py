"""Problems whose rows are on workers: the coefficients of solvers are those of all rows."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from _shards import Counted, D, Forgetful, N, cut, fitted_map, inputs, pair
from mercer import losses, maps, penalties, solvers
from mercer.distributed import Here, Run, Shard
from mercer.distributed.parts import At, Coding, DesignFacts, DesignPart
from mercer.distributed.problem import RemoteProblem
from mercer.estimators.preprocessing import Preprocessing
from mercer.problem import dual_gap, precision

NEWTON = solvers.NewtonCG(tol=1e-12)
CG = solvers.ConjugateGradient(tol=1e-12, space="columns")
SMOOTH = [
    losses.Squared(),
    losses.Logistic(),
    losses.SquaredHinge(),
    losses.SmoothHinge(),
    losses.Multinomial(),
    losses.Huber(0.7),
    losses.Expectile(0.8),
    losses.Poisson(),
    losses.Gamma(),
]
EDGES = [np.unique(np.linspace(0, N, q + 1).astype(int)).tolist() for q in range(1, 9)]


def _weights(rng):
    weights = rng.uniform(0.5, 3.0, size=N)
    weights[::7] = 0.0
    return weights


def _assert_same(local, remote, solver=NEWTON, alphas=None):
    if alphas is None:
        pairs = [(solver.solve(local), solver.solve(remote))]
    else:
        paths = [solver.solve_path(problem, alphas) for problem in (local, remote)]
        pairs = list(zip(*paths, strict=True))
    for one, other in pairs:
        scale = np.abs(one.coef).max()
        np.testing.assert_allclose(other.coef, one.coef, rtol=0, atol=1e-10 * scale)


# -- without a fault ---------------------------------------------------------------------------


@pytest.mark.parametrize("n_outputs", [0, 3])
@pytest.mark.parametrize("loss", SMOOTH, ids=lambda loss: loss.name)
def test_newtons_coefficients_are_those_of_all_rows(loss, n_outputs, rng):
    local, remote = pair(rng, loss, n_outputs, weights=_weights(rng))
    _assert_same(local, remote)
    assert remote.run.n_rebuilt == remote.run.n_wrong == 0


@pytest.mark.parametrize("loss", [losses.Sigmoid(), losses.Correntropy(2.0)])
def test_a_loss_that_is_not_convex_begins_where_its_surrogate_ends(loss, rng):
    _assert_same(*pair(rng, loss))


@pytest.mark.parametrize("edges", EDGES, ids=len)
def test_the_number_of_shards_does_not_matter(edges, rng):
    _assert_same(*pair(rng, losses.Logistic(), edges=edges))
    _assert_same(*pair(rng, losses.Squared(), edges=edges), CG)


@pytest.mark.parametrize("n_outputs", [0, 2])
@pytest.mark.parametrize("preconditioner", ["tempered", "jacobi", None])
@pytest.mark.parametrize("name", ["binning", "fourier"])
def test_conjugate_gradients_by_columns(name, preconditioner, n_outputs, rng):
    local, remote = pair(rng, losses.Squared(), n_outputs, weights=_weights(rng), name=name)
    cg = solvers.ConjugateGradient(tol=1e-12, space="columns", preconditioner=preconditioner)
    _assert_same(local, remote, cg)
    assert not remote.run.n_rebuilt


def test_a_path_of_strengths(rng):
    alphas = [1e-1, 1e-3, 1e-2]
    _assert_same(*pair(rng, losses.Squared(), name="binning"), CG, alphas)
    _assert_same(*pair(rng, losses.Logistic()), NEWTON, alphas)


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("name", ["linear", "fourier", "binning", "nystroem"])
def test_sparse_shards(name, fit_intercept, rng):
    for loss, solver in [(losses.Logistic(), NEWTON), (losses.Squared(), CG)]:
        local, remote = pair(rng, loss, sparse=True, name=name, fit_intercept=fit_intercept)
        _assert_same(local, remote, solver)


def test_shards_without_rows_of_a_class(rng):
    X = inputs(rng)
    X = X[np.argsort(X[:, 0])]
    y = np.repeat(["a", "b", "c"], N // 3)
    map_, loss = fitted_map(X), losses.Logistic()
    for coding, of_loss in [
        (Coding.classes(["a", "b", "c"]), loss),
        (Coding.classes(["a", "b", "c"], joint=True), losses.Multinomial()),
    ]:
        facts = DesignFacts(Preprocessing(None, map_), coding, of_loss, N, 1.0, np.float64, True)
        runs = [
            Run(Here(cut(X, y, edges=edges)), DesignPart, facts)
            for edges in [(0, N), (0, 30, 50, N)]
        ]
        one, other = (NEWTON.solve(RemoteProblem(run, facts, penalties.L2(0.1))) for run in runs)
        np.testing.assert_allclose(other.coef, one.coef, atol=1e-10)


def test_landmarks_with_the_norm_of_the_function(rng):
    def norm(map_):
        return penalties.RKHSNorm(1e-2, map_.design(map_.landmarks_).landmark_design())

    map_ = maps.Nystroem(gamma=0.5, n_components=12, random_state=0, whiten=False)
    local, remote = pair(rng, losses.Logistic(), name=map_, penalty=norm)
    _assert_same(local, remote)


def test_float32_is_as_right_as_it_is_on_one_machine(rng):
    local, remote = pair(rng, losses.Logistic(), dtype=np.float32)
    one, other = (solvers.NewtonCG(tol=1e-4).solve(problem).coef for problem in (local, remote))
    assert other.dtype == np.float32
    np.testing.assert_allclose(other, one, atol=1e-3 * np.abs(one).max())


@pytest.mark.parametrize("n_outputs", [0, 2])
def test_a_loss_with_a_kink_is_smoothed(n_outputs, rng):
    local, remote = pair(rng, losses.Quantile(0.8), n_outputs, weights=_weights(rng))
    one, other = (solvers.Smoothing(tol=1e-4).solve(problem) for problem in (local, remote))
    assert one.converged
    assert other.converged
    # Rounding decides where parabolas begin: the minimum agrees, and its gap is as small.
    assert local.value(other.coef) == pytest.approx(local.value(one.coef), rel=2e-4)
    theta = rng.normal(size=local.shape)
    assert dual_gap(remote.at(theta)) == pytest.approx(dual_gap(local.at(theta)), rel=1e-10)


@pytest.mark.parametrize("n_outputs", [0, 2])
def test_smooth_losses_have_the_start_of_their_quantile_without_a_request(n_outputs, rng):
    local, remote = pair(rng, losses.Quantile(0.8), n_outputs, weights=_weights(rng))
    for problem in (local, remote):
        first = problem.initial()
        smooth = problem.with_loss(losses.SmoothQuantile(0.8, 0.1))
        n_requests = 0 if problem is local else remote.run.n_requests
        np.testing.assert_array_equal(smooth.initial(), first)
        assert n_requests == (0 if problem is local else remote.run.n_requests)
        other = problem.with_loss(losses.SmoothQuantile(0.3, 0.1)).initial()
        anew = local.with_loss(losses.Quantile(0.3))
        np.testing.assert_allclose(other, anew.initial(), rtol=1e-12)
        assert np.all(other[-1] < first[-1])


@pytest.mark.parametrize("n_outputs", [0, 3])
def test_a_quantile_of_targets_takes_few_requests(n_outputs, rng):
    local, remote = pair(rng, losses.Quantile(0.8), n_outputs, weights=_weights(rng))
    np.testing.assert_allclose(remote.initial(), local.initial(), rtol=1e-12, atol=1e-12)
    assert remote.run.n_requests <= 22  # 60 bisections by 3 at once, the least and the largest


def test_smoothing_takes_the_local_steps(rng):
    local, remote = pair(rng, losses.Quantile(0.8))
    one, other = (solvers.Smoothing(tol=1e-2).solve(problem) for problem in (local, remote))
    assert other.n_iter <= one.n_iter
    np.testing.assert_allclose(local.responses(other.coef), local.responses(one.coef), atol=1e-2)


@pytest.mark.parametrize("loss", SMOOTH, ids=lambda loss: loss.name)
def test_what_a_point_tells_is_that_of_all_rows(loss, rng):
    n_outputs = 3 if loss.joint else 2
    local, remote = pair(rng, loss, n_outputs, weights=_weights(rng))
    assert remote.shape == local.shape
    assert remote.separable == local.separable
    theta, v = rng.normal(size=(2, *local.shape))
    one, other = local.at(theta), remote.at(theta)
    close = {"rtol": 1e-11, "atol": 1e-13}
    np.testing.assert_allclose(other.values, one.values, **close)
    np.testing.assert_allclose(other.gradient, one.gradient, **close)
    np.testing.assert_allclose(other.curvature_product(v), one.curvature_product(v), **close)
    np.testing.assert_allclose(other.diagonal(), one.diagonal(), **close)
    np.testing.assert_allclose(remote.initial(), local.initial(), **close)
    np.testing.assert_allclose(remote.reference(), local.reference(), **close)
    np.testing.assert_allclose(remote.mean_squares, local.mean_squares, **close)
    if local.separable:
        outputs, chosen = np.array([1]), np.arange(local.n_outputs) == 1
        np.testing.assert_allclose(
            other.curvature_product(v[:, outputs], outputs),
            one.curvature_product(v[:, outputs], outputs),
            **close,
        )
        mixed, expected = (p.at(theta).with_outputs(p.at(v), chosen) for p in (remote, local))
        np.testing.assert_allclose(mixed.gradient, expected.gradient, **close)
        np.testing.assert_allclose(
            mixed.curvature_product(v), expected.curvature_product(v), **close
        )


# -- what travels ------------------------------------------------------------------------------


@pytest.mark.parametrize(("loss", "solver"), [(losses.Squared(), CG), (losses.Logistic(), NEWTON)])
@pytest.mark.parametrize("n_outputs", [0, 3])
def test_a_step_sends_theta_and_nothing_of_as_many_entries_as_rows(loss, solver, n_outputs, rng):
    remote = pair(rng, loss, n_outputs, engine=Counted)[1]
    result, run = solver.solve(remote), remote.run
    theta, k = int(np.prod(remote.shape)), n_outputs or 1
    assert run.engine.largest <= theta + 1 < N
    looks = len(result.trace) + 2 if loss is not losses.Squared() else 4
    for ask, answered in {"evaluate": theta + k, "product": theta}.items():
        sent, received = run.words["sent", ask], run.words["received", ask]
        assert abs(received - sent) <= k * run.n_requests
        assert received % answered == 0 or n_outputs  # outputs leave when they are solved
    assert run.words["sent", "evaluate"] <= looks * theta
    small = sum(
        count for (_, ask), count in run.words.items() if ask not in ("evaluate", "product")
    )
    assert small <= remote.shape[0] * (1 + run.n_requests // 50) * k + 20 * k


def test_an_iteration_sends_one_direction(rng):
    remote, sent = pair(rng, losses.Squared(), name="binning")[1], []
    theta, words = int(np.prod(remote.shape)), remote.run.words

    def look(state):
        sent.append(
            [sum(words[way, ask] for way, ask in words if way == to) for to in ("sent", "received")]
        )

    cg = solvers.ConjugateGradient(tol=1e-10, space="columns", check_every=10)
    result = cg.solve(remote, callback=look)
    for iteration, change in enumerate(np.diff(sent, axis=0), 2):
        if iteration < result.n_iter:
            looks = 1 + (iteration % 10 == 0)  # a direction, and sometimes θ for the true residual
            assert change[0] == looks * theta
            assert change[1] == looks * theta + (looks - 1)  # and F


def test_an_evaluation_is_one_request(rng):
    remote = pair(rng, losses.Logistic())[1]
    remote.reference()
    before = remote.run.n_requests
    point = remote.at(rng.normal(size=remote.shape))
    assert point.value > 0
    assert np.any(point.gradient)
    assert np.all(point.values > 0)
    assert remote.run.n_requests == before + 1
    point.curvature_product(np.ones(remote.shape))
    assert remote.run.n_requests == before + 2


# -- faults ------------------------------------------------------------------------------------


@settings(max_examples=10, deadline=None)
@given(
    st.integers(0, 2**32 - 1),
    st.sampled_from([losses.Logistic(), losses.Multinomial(), losses.Squared(), losses.Huber(0.7)]),
    st.sampled_from([0, 3]),
    st.sampled_from([0.1, 0.5, 1.0]),
)
def test_states_that_are_lost_change_nothing(seed, loss, n_outputs, often):
    chance = np.random.default_rng(seed)

    def loses(request):
        return np.flatnonzero(chance.random(3) < often).tolist()

    local, remote = pair(
        np.random.default_rng(seed),
        loss,
        n_outputs,
        engine=lambda shards: Forgetful(shards, 3, loses),
    )
    _assert_same(local, remote)
    if often == 1.0 and not loss.quadratic:
        assert remote.run.n_rebuilt


def test_only_what_is_lost_is_made_again(rng):
    lost = {20: [0], 21: [1], 22: [0]}  # of five shards, 0, 2 and 4 are with the first worker
    local, remote = pair(
        rng,
        losses.Logistic(),
        engine=lambda shards: Forgetful(shards, 2, lambda request: lost.get(request, [])),
    )
    _assert_same(local, remote)
    assert 3 <= remote.run.n_rebuilt <= 8
    theta = int(np.prod(remote.shape))
    assert remote.run.words["sent", "truth"] <= 8 * theta


def test_a_point_that_is_refused_again_and_again_stays(rng):
    remote = pair(rng, losses.Logistic())[1]
    first = remote.at(rng.normal(size=remote.shape))
    product = first.curvature_product(np.ones(remote.shape))
    for _ in range(5):
        assert np.isfinite(remote.at(rng.normal(size=remote.shape)).value)
        np.testing.assert_array_equal(first.curvature_product(np.ones(remote.shape)), product)
    assert not remote.run.n_rebuilt


def test_a_wrong_state_is_noticed_and_made_again(rng):
    local, remote = pair(rng, losses.Logistic())
    point = remote.at(rng.normal(size=remote.shape))
    v = np.ones(remote.shape)
    right = local.at(point.theta).curvature_product(v)
    np.testing.assert_allclose(point.curvature_product(v), right, rtol=1e-11)
    engine, run = remote.run.engine, remote.run
    for number in range(engine.n_shards):
        part = engine.memory_of(number).part(run.id, number, lambda: None)
        part.held(point.responses.version).responses = part.y + 3.0
        part.held(point.responses.version)._curvature = None
    assert not np.allclose(point.curvature_product(v), right)

    def go_on():
        for _ in range(250):  # an audit each 50 products, of every shard in turn
            point.curvature_product(v)

    with pytest.warns(RuntimeWarning, match="the state of shard . was off by"):
        go_on()
    assert run.n_wrong == 1
    np.testing.assert_allclose(point.curvature_product(v), right, rtol=1e-11)


# -- refusals ----------------------------------------------------------------------------------


def test_what_needs_rows_here_is_refused(rng):
    local, remote = pair(rng, losses.Squared())
    assert "0.0" not in repr(remote.design)
    with pytest.raises(ValueError, match="space must be 'auto' or 'columns' where rows are on"):
        solvers.ConjugateGradient(space="rows").solve(remote)
    with pytest.raises(TypeError, match="rows are on workers; only means and extremes"):
        np.asarray(remote.y)
    with pytest.raises(TypeError, match="rows are on workers; got ndarray of this machine"):
        remote.row_mean(np.ones(N))
    one, other = remote.responses(np.ones(local.shape)), remote.responses(np.zeros(local.shape))
    with pytest.raises(NotImplementedError, match="of one point"):
        one - other
    with pytest.raises(NotImplementedError, match="needs all rows on one machine"):
        pair(rng, losses.Huber(1.0))[1].alpha_max()
    with pytest.raises(ValueError, match="theta must have shape"):
        remote.at(np.ones(2))
    assert remote.alpha_max() == local.alpha_max()


@pytest.mark.parametrize(
    ("coding", "target", "message"),
    [
        (Coding.classes(["a", "b"]), ["a", "c", "b"], "y must hold the 2 classes .* got 'c'"),
        (Coding.numbers([0.0, 0.0]), [1.0, 2.0, 3.0], r"y must have shape \(n, \*\(2,\)\)"),
        (Coding.numbers(), [1.0, np.nan, 3.0], "y must be finite in float64"),
    ],
)
def test_targets_that_do_not_fit_are_refused(coding, target, message, rng):
    X = rng.normal(size=(3, D))
    loss = losses.Logistic() if coding.classes_ is not None else losses.Squared()
    facts = DesignFacts(Preprocessing(None, fitted_map(X)), coding, loss, 3, 1.0, np.float64, True)
    with pytest.raises(ValueError, match=message):
        DesignPart(Shard(X, target), 0, facts)


def test_states_of_points_leave_those_of_steps_alone(rng):
    class Counting(DesignPart):
        def derived(self, truth):
            return self.design.matvec(truth)

        def advanced(self, state, update):
            return state + self.design.matvec(update)

        def size(self, state):
            return np.square(state).sum()

    local, remote = pair(rng, losses.Logistic(), kind=Counting)
    run, w = remote.run, np.ones(local.shape[0] - 1)
    expected = np.square(local.design.matvec(2 * w)).sum()
    run.total("size", version=0, truth=lambda number: w)
    for _ in range(4):
        assert remote.at(rng.normal(size=remote.shape)).value > 0
    assert run.total("size", version=1, update=w) == pytest.approx(expected)
    assert not run.n_rebuilt
    part = run.engine.memory_of(0).part(run.id, 0, lambda: None)
    assert [type(version) for version in part._states].count(At) == At.kept


# -- rounding ----------------------------------------------------------------------------------


@pytest.mark.parametrize("n_outputs", [0, 2])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("loss", [losses.Squared(), losses.Logistic(), losses.Poisson()])
def test_rounding_of_responses_is_estimated_as_on_one_machine(
    loss, dtype, n_outputs, rng, monkeypatch
):
    monkeypatch.setattr(precision, "_ROWS", 4 * N)  # a sample that is all rows, of both
    local, remote = pair(rng, loss, n_outputs, weights=_weights(rng), dtype=dtype)
    theta = 10 * rng.normal(size=local.shape).astype(dtype)
    rows = precision.sampled_rows(N)
    wide = remote.wide_sample(rows)
    assert wide.shape == remote.sample(rows)[0].shape == (local.n_rows, local.shape[0] - 1)
    assert wide.dtype == np.float64
    for of_wide in (None, wide):
        # Rows of shards are in the order of all rows.
        expected = precision.rounding(local, theta, of_wide)
        assert precision.rounding(remote, theta, of_wide) == pytest.approx(expected, rel=1e-4)
    np.testing.assert_allclose(precision.spread(remote), precision.spread(local), rtol=1e-5)
    assert precision.beyond_reach(remote) == precision.beyond_reach(local)


def test_a_sample_has_its_share_of_every_shard(rng):
    local, remote = pair(rng, losses.Squared(), edges=(0, 2, 2, 90, 120))
    design, y = remote.sample(np.arange(40))
    assert 40 <= len(y) <= 44
    assert design.shape == (len(y), local.shape[0] - 1)
    assert set(y) <= set(local.y)
    before = remote.run.n_requests
    remote.sample(np.arange(40))
    assert remote.run.n_requests == before
