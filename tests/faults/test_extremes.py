"""Extreme scales, strengths and data: every fit is right, or warned, or refused with a sentence."""

import warnings
from itertools import product

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

import _extremes_certified as certified
from _covering import pairwise
from _extremes import ALPHAS, GAMMAS, MAPS, WITHOUT_GAMMA, Case, References, data, judged
from mercer import DualKernelSVC, KernelClassifier, KernelRegressor, maps
from mercer.designs import Dense
from mercer.losses import Squared
from mercer.penalties import L2
from mercer.problem import Problem
from mercer.solvers import ConjugateGradient

VARIANTS = ("span", "hashed", "faded", "few-fourier", "compact", "stump")  # of other maps


@pytest.fixture
def smooth():
    """Rows in float32 and a target that a kernel machine can learn."""
    X = np.random.default_rng(0).normal(size=(200, 3)).astype(np.float32)
    return X, np.sin(X).sum(axis=1)


def wrong(cases):
    """Those of the cases that are neither right nor warned nor refused."""
    references = References()
    verdicts = [judged(case, references) for case in cases]
    return [verdict for verdict in verdicts if verdict.kind == "silent"], verdicts


def spread(name, gammas, alphas, solvers, form, combined=pairwise):
    """Ridge machines in which any two of type, gamma, solver and alpha meet."""
    gammas = gammas[:1] if name in WITHOUT_GAMMA else gammas
    cases = combined(("float32", "float64"), gammas, solvers, alphas)
    # Neighbours of one type and gamma share the reference's kernel matrix.
    return [
        Case(name, dtype, solver, gamma, alpha, *form)
        for dtype, gamma, solver, alpha in sorted(cases)
    ]


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=pytest.mark.slow) if name in VARIANTS else name for name in MAPS],
)
def test_responses_are_right_or_warned_over_scales_and_strengths(name):
    solvers, form = ("cholesky", "cg"), (True, False, False)
    silent, verdicts = wrong(spread(name, GAMMAS[::8], ALPHAS[::7], solvers, form, product))
    assert not silent
    assert np.mean([verdict.kind == "right" for verdict in verdicts]) > 0.6


@pytest.mark.parametrize("form", [(False, False, False), (True, True, True)])
@pytest.mark.parametrize("name", ["exact", "binning", "few-fourier"])
def test_responses_are_right_or_warned_without_intercept_and_with_weights(name, form):
    silent, _ = wrong(spread(name, GAMMAS[::12], ALPHAS[::10], ("cholesky", "block"), form))
    assert not silent


@pytest.mark.parametrize("loss", ["logistic", "squared_hinge"])
@pytest.mark.parametrize("name", ["exact", "fourier", "binning"])
def test_responses_of_classifiers_are_right_or_warned(name, loss):
    cases = [
        Case(name, dtype, "newton-cg", gamma, alpha, loss=loss)
        for dtype in ("float32", "float64")
        for gamma in GAMMAS[::24]
        for alpha in (1e-12, 1.0)
    ]
    assert not wrong(cases)[0]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_margins_of_support_vector_machines_are_right_or_warned(loss, dtype):
    for gamma in GAMMAS[::6]:
        for C in (1e-9, 1e-3, 1.0, 1e6, 1e12):
            verdict, reason = certified.dual(loss, dtype, gamma, C)
            assert verdict != "silent", (gamma, C, reason)


@pytest.mark.parametrize("map_", ["fourier", "fastfood"])
@pytest.mark.parametrize("loss", ["squared", "logistic", "squared_hinge"])
def test_steps_in_float32_are_those_in_float64_or_warned(loss, map_):
    for gamma in GAMMAS[::6]:
        for alpha in (0.0, 1e-12, 1e-3, 1e3):
            verdict, reason = certified.streaming(loss, map_, gamma, alpha)
            assert verdict != "silent", (gamma, alpha, reason)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("map_", ["fourier", "binning"])
@pytest.mark.parametrize("loss", ["squared", "logistic", "squared_hinge"])
def test_weights_of_sparse_machines_are_right_or_warned(loss, map_, dtype):
    for gamma in GAMMAS[::12]:
        for alpha in (1e-3, 1e-1, 1e6):
            verdict, reason = certified.sparse(loss, map_, dtype, gamma, alpha)
            assert verdict != "silent", (gamma, alpha, reason)


@pytest.mark.parametrize(
    "settings",
    [
        {"gamma": 1e-12, "alpha": 1e-13},
        {"gamma": 1e-12, "alpha": 1e-9},
        {"gamma": 0.5, "alpha": 1e-12, "fit_intercept": False, "scale": False},
    ],
)
def test_what_float32_cannot_carry_is_solved_in_float64(smooth, settings):
    X, y = smooth
    narrow = KernelRegressor("exact", **settings).fit(X, y)
    wide = KernelRegressor("exact", **settings).fit(X.astype(np.float64), y)
    assert narrow.predict(X).dtype == np.float32
    assert narrow.converged_
    assert wide.converged_
    np.testing.assert_allclose(narrow.predict(X), wide.predict(X), atol=1e-3)


def test_training_responses_are_those_of_the_equations(smooth):
    X, y = smooth
    for alpha in (1e-14, 1e-9):
        model = KernelRegressor("exact", gamma=1e-12, alpha=alpha).fit(X, y)
        residuals = len(y) * alpha * model.map_coef_
        spread = np.std(y)
        assert np.sqrt(np.mean((model.predict(X) - (y - residuals)) ** 2)) < 1e-2 * spread


@pytest.mark.parametrize("name", ["exact", "fourier", "nystroem", "binning"])
def test_ordinary_problems_stay_in_float32(smooth, name):
    X, y = smooth
    for alpha in (None, 1e-3, 1.0):
        assert (
            KernelRegressor(name, alpha=alpha, random_state=0).fit(X, y).map_coef_.dtype == X.dtype
        )


def test_a_path_of_strengths_has_the_digits_of_its_weakest(smooth):
    X, y = smooth
    settings = {"alphas": [1e-12, 1e-3], "gamma": 1e-6, "tol": 1e-3}
    narrow = KernelRegressor("exact", **settings).fit(X, y)
    wide = KernelRegressor("exact", **settings).fit(X.astype(np.float64), y)
    for alpha in settings["alphas"]:
        np.testing.assert_allclose(
            narrow.at_alpha(alpha).predict(X), wide.at_alpha(alpha).predict(X), atol=2e-2
        )


def test_where_float64_is_too_short_the_fit_says_so(smooth):
    X, y = smooth
    with pytest.warns(ConvergenceWarning, match="raise alpha"):
        model = KernelRegressor("exact", gamma=1e-12, alpha=1e-18).fit(X.astype(np.float64), y)
    assert not model.converged_


def test_without_memory_for_float64_a_rough_fit_in_float32_says_so(smooth, monkeypatch):
    def refuse(*arguments):
        raise MemoryError("rows in float64 need more than there is.")

    monkeypatch.setattr("mercer.estimators.preprocessing.Preprocessing.wide_design", refuse)
    X, y = smooth
    with pytest.warns(ConvergenceWarning, match="rounding in float32"):
        model = KernelRegressor("exact", gamma=1e-12, alpha=1e-9).fit(X, y)
    assert not model.converged_
    assert model.map_coef_.dtype == np.float32


def test_fine_features_of_float32_rows_are_those_of_float64_rows():
    X, y, X_new, _ = data(0, "float32")
    map_ = maps.RandomFourier(gamma=1e12, n_components=64, random_state=0)
    settings = {"alpha": 1e-3, "scale": False}
    narrow = KernelRegressor(map_, **settings).fit(X, y)
    wide = KernelRegressor(map_, **settings).fit(X.astype(np.float64), y)
    np.testing.assert_allclose(
        narrow.predict(X_new), wide.predict(X_new.astype(np.float64)), atol=1e-3
    )


@pytest.mark.parametrize("settings", [{"penalty": "l1"}, {"solver": "async", "n_jobs": 1}, {}])
@pytest.mark.parametrize("size", [1e-30, 1e30])
def test_the_unit_of_the_target_changes_nothing(smooth, settings, size):
    X, y = smooth
    model = KernelRegressor("fourier", random_state=0, **settings).fit(X, size * y.astype(float))
    assert model.score(X.astype(np.float64), size * y.astype(float)) > 0.95


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_target_that_has_no_squares_is_refused(smooth, dtype):
    X, y = smooth
    for size in (1e-200, 1e200):
        with pytest.raises(ValueError, match=r"y must have (finite )?sums of squares"):
            KernelRegressor("binning").fit(X.astype(dtype), size * y.astype(float))


def test_a_target_beyond_the_type_of_x_is_refused_in_one_sentence(smooth):
    X, y = smooth
    with pytest.raises(ValueError, match="y must be within the range of float32, the type of X"):
        KernelRegressor("binning").fit(X, 1e100 * y.astype(float))


def test_one_row_whose_target_float32_lacks_is_refused():
    X, y = np.ones((1, 2), np.float32), np.array([1e39])  # the difference from its mean is 0
    with pytest.raises(ValueError, match="y must be within the range of float32, the type of X"):
        KernelRegressor().fit(X, y)


def test_large_coefficients_of_a_moderate_fit_predict_without_overflow(smooth):
    X, y = smooth
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = KernelRegressor("exact", solver="cg").fit(X, 1e30 * y)
        assert model.score(X.astype(np.float64), 1e30 * y.astype(float)) > 0.95


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_decision_values_of_huge_dual_coefficients_are_those_of_their_kernel(dtype):
    X, y, _, _ = data(0, dtype, labels=True)
    model = DualKernelSVC(gamma=1e-9, C=1e9, scale=False, n_jobs=1, max_iter=10_000)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(X, y)
    rows = X.astype(np.longdouble)
    support = rows[model.support_]
    K = np.exp(-np.longdouble(1e-9) * ((rows[:, None] - support[None]) ** 2).sum(axis=2))
    responses = K @ model.dual_coef_ + model.intercept_
    np.testing.assert_allclose(model.decision_function(X), responses, atol=1e-2)


def test_a_dual_machine_that_float64_cannot_carry_says_so():
    X, y, _, _ = data(0, "float64", labels=True)
    with pytest.warns(ConvergenceWarning, match="C=1e"):
        model = DualKernelSVC(gamma=1e-12, C=1e15, scale=False, n_jobs=1).fit(X, y)
    assert not model.converged_


def test_conjugate_gradients_go_on_by_columns_where_those_by_rows_end():
    rng = np.random.default_rng(0)
    # Columns of alike rows: what the rows call solved, float32 columns do not.
    Z = (rng.integers(0, 2, size=(32, 640)) / np.sqrt(640)).astype(np.float32)
    problem = Problem(Dense(Z), rng.normal(size=32), Squared(), L2(1e-3))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        result = ConjugateGradient(tol=1e-8, space="rows").solve(problem)
    assert result.optimality < 1e-5


@pytest.mark.parametrize("offset", [0.0, 1e8])
def test_classifiers_say_when_duplicate_rows_have_contradictory_labels_or_not(offset):
    X = np.repeat(np.arange(4.0), 10)[:, None].astype(np.float32) * 64 + np.float32(offset)
    y = np.tile([0, 1], 20)
    model = KernelClassifier("exact", alpha=1e-12, gamma=1.0, scale=False).fit(X, y)
    np.testing.assert_allclose(model.decision_function(X), 0, atol=1e-3)
