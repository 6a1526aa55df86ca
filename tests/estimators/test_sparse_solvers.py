"""Sparse models by boosting, by AsyDSSKL and with polish: they are the solvers' own results."""

from functools import partial

import numpy as np
import pytest

from mercer import SparseKernelClassifier, SparseKernelRegressor, persistence
from mercer.losses import Correntropy, Squared, SquaredHinge
from mercer.maps import Halfspaces
from mercer.penalties import L1
from mercer.problem import Problem
from mercer.solvers import (
    AsyncSVRG,
    BestOfSome,
    BestStump,
    Boosting,
    CoordinateDescent,
    Perceptrons,
    Stream,
    WorkingSet,
    polished,
)

pytestmark = pytest.mark.filterwarnings("ignore:.*bins of these rows", "ignore:.*stopped the last")
RNG = np.random.default_rng(0)
X = RNG.normal(size=(200, 3))
Y = np.where(X[:, 0] * X[:, 1] + 0.3 * RNG.normal(size=200) > 0, 1.0, -1.0)
SETTINGS = {"alpha": 5e-3, "scale": False, "random_state": 0}


def problem_of(loss):
    return partial(Problem, y=Y, loss=loss, penalty=L1(5e-3))


@pytest.mark.parametrize("name", ["perceptron", "stump", "fourier", "binning"])
def test_boosting_is_the_boosting_solver_with_the_source_of_the_map(name):
    model = SparseKernelClassifier(name, solver="boosting", max_rounds=8, n_new=20, **SETTINGS)
    model.fit(X, Y)
    drawn = model._map()[0].fit(X)
    source = {"perceptron": lambda: Perceptrons(X), "stump": lambda: BestStump(X)}.get(
        name, lambda: BestOfSome(drawn, X, 20)
    )()
    expected = Boosting(CoordinateDescent(tol=1e-3), max_rounds=8).solve(
        source, problem_of(SquaredHinge())
    )
    assert model.solver_ == "boosting"
    assert 1 <= model.n_features_active_ == expected.n_active <= 8
    objectives = [row.objective for row in expected.rounds]
    np.testing.assert_array_equal(model.rounds_["objective"], objectives)


def test_boosting_never_raises_the_objective_and_ends_where_no_feature_gets_a_weight():
    settings = SETTINGS | {"alpha": 0.1, "tol": 1e-6}
    model = SparseKernelClassifier("stump", solver="boosting", max_rounds=100, **settings)
    model.fit(X, Y)
    assert (np.diff(model.rounds_["objective"]) <= 1e-12).all()
    assert len(model.rounds_["time"]) < 100
    problem = problem_of(SquaredHinge())(model.feature_map_.design(X))
    slopes = problem.with_penalty(L1(0.1)).at(model._theta()).slopes
    best = BestStump(X).draw(0, 1, slopes)[1]
    assert np.abs(best.rmatvec(slopes)).max() <= 0.1 * (1 + 1e-2)


@pytest.mark.parametrize("alpha", [None, "cv"])
def test_boosted_models_of_classes_choose_alpha_and_survive_files(alpha, tmp_path):
    classes = np.digitize(X[:, 0], [-0.5, 0.5])
    model = SparseKernelClassifier("perceptron", solver="boosting", alpha=alpha, max_rounds=5)
    model.set_params(random_state=0).fit(X, classes)
    assert isinstance(model.feature_map_, Halfspaces)
    assert model.score(X, classes) > 0.8
    persistence.save(model, tmp_path / "model.skops")
    again = persistence.load(tmp_path / "model.skops")
    np.testing.assert_array_equal(again.decision_function(X), model.decision_function(X))


def test_asydsskl_is_the_papers_form_of_asynchronous_steps():
    form = AsyncSVRG.asydsskl(tol=0.1, max_iter=5, n_jobs=1)
    assert (form.margins, form.sampling, form.block_size) == ("recomputed", "uniform", 1)
    settings = SETTINGS | {"n_new": 30, "max_rounds": 2, "tol": 0.1, "max_iter": 5, "n_jobs": 1}
    named = SparseKernelRegressor(solver="asydsskl", **settings).fit(X, Y)
    given = SparseKernelRegressor(solver=form, **settings).fit(X, Y)
    assert named.solver_ == "async"
    np.testing.assert_array_equal(named.predict(X), given.predict(X))


def test_polish_drops_tiny_weights_and_lowers_the_objective():
    settings = SETTINGS | {"solver": "asydsskl", "n_new": 60, "max_rounds": 1, "tol": 0.1}
    rough = SparseKernelRegressor(**settings, n_jobs=1).fit(X, Y)
    fine = SparseKernelRegressor(**settings, n_jobs=1, polish=True).fit(X, Y)
    assert fine.n_features_active_ == len(fine.map_coef_) < rough.n_features_active_
    assert np.all(fine.map_coef_)
    values = [
        problem_of(Squared())(model.feature_map_.design(X)).value(model._theta())
        for model in (rough, fine)
    ]
    assert values[1] <= values[0]
    with pytest.raises(TypeError, match="polish must be True or False"):
        SparseKernelRegressor(polish="yes").fit(X, Y)


def test_a_model_without_features_is_polished():
    model = SparseKernelRegressor(polish=True, **SETTINGS | {"alpha": 100.0}).fit(X, Y)
    assert model.n_features_active_ == 0
    np.testing.assert_allclose(model.predict(X), Y.mean())


def test_polish_keeps_features_that_have_a_weight_in_any_output():
    Z = np.column_stack([Y, -np.sign(X[:, 2])])
    of = partial(Problem, y=Z, loss=Squared(), penalty=L1(2e-2))
    map_ = SparseKernelRegressor(random_state=0)._map()[0].fit(X)
    rough = WorkingSet(AsyncSVRG.asydsskl(tol=0.1, n_jobs=1), 40, 1).solve(Stream(map_, X), of)
    fine = polished(rough, of)
    assert fine.n_active <= rough.n_active
    assert fine.coef[:-1].any(axis=1).all()
    assert of(fine.design).value(fine.coef) <= of(rough.design).value(rough.coef)


@pytest.mark.filterwarnings("ignore:AsyncSVRG")
def test_a_step_length_is_refused_only_where_the_objective_of_a_constant_model_rises():
    targets = np.sin(X[:, 0]) + X[:, 1]
    map_ = SparseKernelRegressor(gamma=0.1, random_state=0)._map()[0].fit(X)
    design = Stream(map_, X).draw(0, 96)[1]
    solver = AsyncSVRG.asydsskl(tol=1e-6, max_iter=6, step_size=1.0, batch_size=4, n_jobs=1)
    bounded = Problem(design, targets, Correntropy(), L1(1e-3))
    result = solver.solve(bounded)  # its convex start diverges at this length
    assert result.trace[-1].objective < 0.3 * bounded.value(bounded.initial())
    with pytest.raises(ValueError, match=r"step_size must .* 'auto'|step_size='auto' chooses one"):
        solver.solve(bounded.with_loss(Squared()))
