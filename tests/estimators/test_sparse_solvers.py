"""Sparse models by AsyDSSKL and with polish: they are the solvers' own results."""

from functools import partial

import numpy as np
import pytest

from mercer import SparseKernelRegressor
from mercer.losses import Correntropy, Squared
from mercer.penalties import L1
from mercer.problem import Problem
from mercer.solvers import (
    AsyncSVRG,
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


def test_names_of_solvers_that_remain_are_listed():
    with pytest.raises(ValueError, match=r"solver must be one of.*'asydsskl'.*; got 'boosting'"):
        SparseKernelRegressor(solver="boosting").fit(X, Y)


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
