"""The one-class machine against scikit-learn's, and its laws on every map."""

import numpy as np
import pytest
from scipy.stats import spearmanr
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import roc_auc_score
from sklearn.svm import OneClassSVM

from mercer._runtime.random import key_from
from mercer.designs import Dense
from mercer.unsupervised import OneClassKernel, outliers

_RNG = np.random.default_rng(0)
X = np.vstack([_RNG.normal(size=(570, 2)), _RNG.uniform(-5, 5, size=(30, 2))])
NEW = _RNG.normal(size=(200, 2)) * 2
NAMES = ["exact", "nystroem", "fourier", "binning"]


def peer(nu, gamma, rows):
    """scikit-learn's machine, and its scores and offset in units of ``nu n``."""
    machine = OneClassSVM(nu=nu, gamma=gamma, tol=1e-6).fit(X)
    unit = nu * len(X)
    return machine.score_samples(rows) / unit, machine.offset_[0] / unit, machine.predict(rows)


@pytest.mark.parametrize("nu", [0.02, 0.1, 0.5])
@pytest.mark.parametrize("gamma", [0.05, 0.3])
def test_exact_machine_equals_that_of_scikit_learn(nu, gamma):
    model = OneClassKernel(nu, gamma=gamma, tol=1e-6, scale=False).fit(X)
    scores, offset, labels = peer(nu, gamma, NEW)
    assert spearmanr(model.score_samples(NEW), scores)[0] >= 0.99
    np.testing.assert_allclose(model.score_samples(NEW), scores, atol=1e-4)
    np.testing.assert_allclose(model.decision_function(NEW), scores - offset, atol=1e-4)
    assert (model.predict(NEW) == labels).mean() >= 0.99


@pytest.mark.parametrize("nu", [0.02, 0.1, 0.5])
@pytest.mark.parametrize("gamma", [0.05, 0.3])
def test_landmarks_at_all_rows_give_the_exact_machine(nu, gamma):
    model = OneClassKernel(
        nu,
        feature_map="nystroem",
        gamma=gamma,
        n_features=len(X),
        tol=1e-4 if nu == 0.02 else 1e-6,
        max_iter=5000,
        random_state=0,
        scale=False,
    ).fit(X)
    scores, offset, _ = peer(nu, gamma, NEW)
    assert spearmanr(model.score_samples(NEW), scores)[0] >= 0.99
    np.testing.assert_allclose(model.decision_function(NEW), scores - offset, atol=1e-3)


@pytest.mark.parametrize("feature_map", NAMES)
@pytest.mark.parametrize("nu", [0.004, 0.05, 0.3, 0.9])
def test_a_share_nu_of_the_rows_is_outside(feature_map, nu):
    model = OneClassKernel(nu, feature_map=feature_map, gamma=0.3, random_state=0, scale=False)
    outside = (model.fit_predict(X) == -1).sum()
    assert nu * len(X) - 1 < outside <= nu * len(X)
    found = model.decision_function(X)
    np.testing.assert_array_equal(model.predict(X) == -1, found < 0)
    np.testing.assert_allclose(found, model.score_samples(X) - model.offset_)


@pytest.mark.parametrize("feature_map", NAMES[1:])
@pytest.mark.parametrize("nu", [0.05, 0.3])
def test_the_gap_bounds_the_distance_to_the_minimum(feature_map, nu):
    """The objective of every w is at least the minimum, of every dual point at most that."""
    kind = OneClassKernel(nu, feature_map=feature_map, gamma=0.3, random_state=0, scale=False)
    coef, gap = kind.fit(X).coef_, kind.gap_
    fine = kind.set_params(tol=1e-5, max_iter=5000).fit(X)
    Z = fine.feature_map_.design(X).toarray()

    def objective(w):
        scores = Z @ w
        values = [
            np.maximum(rho - scores, 0).sum() / (nu * len(X)) - rho for rho in np.sort(scores)
        ]
        return w @ w / 2 + min(values)

    assert 0 <= gap <= 1e-3
    excess = objective(coef) - objective(fine.coef_)
    assert -2e-5 * (fine.coef_ @ fine.coef_) <= excess <= gap * (coef @ coef)


def test_offset_of_the_smoothed_hinge_solves_its_equation():
    rng = np.random.default_rng(0)
    for width in (1e-4, 0.1, 10.0):
        for nu in (0.01, 0.25, 0.9):
            scores = rng.normal(size=200)
            rows = outliers._Rows(Dense(scores[:, None]), nu, None)
            rho = rows.smooth_edge(scores, width)
            assert np.clip((rho - scores) / width, 0, 1).mean() == pytest.approx(nu, abs=1e-6)


@pytest.mark.parametrize("feature_map", ["exact", "linear"])
def test_a_weight_of_two_is_a_row_given_twice(feature_map):
    weights = np.random.default_rng(1).integers(0, 4, len(X)).astype(float)
    rows = X + 3.0  # the machine of the rows themselves wants their mean far from the origin
    model = OneClassKernel(0.1, feature_map=feature_map, tol=1e-6, max_iter=20_000, scale=False)
    repeated = clone(model).fit(rows.repeat(weights.astype(int), axis=0))
    weighted = clone(model).fit(rows, sample_weight=weights)
    np.testing.assert_allclose(weighted.offset_, repeated.offset_, rtol=1e-3)
    np.testing.assert_allclose(
        weighted.score_samples(NEW), repeated.score_samples(NEW), rtol=2e-3, atol=1e-5
    )
    equal = clone(model).fit(rows, sample_weight=np.full(len(X), 0.5))
    np.testing.assert_allclose(
        equal.score_samples(NEW), clone(model).fit(rows).score_samples(NEW), rtol=2e-3, atol=1e-5
    )


@pytest.mark.filterwarnings("ignore:.*not met at fit")
@pytest.mark.parametrize("feature_map", NAMES)
def test_p_values_of_rows_from_the_same_distribution_are_uniform(feature_map):
    model = OneClassKernel(
        0.1, feature_map=feature_map, gamma=0.3, held_out=0.4, random_state=0, scale=False
    )
    found = []
    for seed in range(25):
        rng = np.random.default_rng(seed)
        model.set_params(random_state=seed).fit(rng.normal(size=(150, 2)))
        found.append(model.p_values(rng.normal(size=(100, 2))))
        assert len(model.held_out_scores_) == 60
        assert (model.p_values([[9.0, 9.0]]) == 1 / 61).all()
    values = np.ravel(found)
    for level in (0.05, 0.2, 0.5):  # 2500 rows share 25 samples of 60 held-out rows
        assert abs((values <= level).mean() - level) < 3.5 * np.sqrt(level * (1 - level) / 1500)


def test_p_values_count_held_out_rows_by_their_weights():
    weights = np.random.default_rng(1).integers(1, 4, len(X)).astype(float)
    model = OneClassKernel(0.1, gamma=0.3, held_out=0.25, random_state=0, scale=False)
    model.fit(X, sample_weight=weights)
    held = np.random.default_rng(key_from(0)).permutation(len(X))[:150]
    scores, mine = model.score_samples(NEW), model.score_samples(X[held])
    below = [(weights[held] * (mine <= score)).sum() for score in scores]
    np.testing.assert_allclose(
        model.p_values(NEW), (1 + np.array(below)) / (1 + weights[held].sum())
    )
    fewer = clone(model).set_params(held_out=0.0).fit(np.delete(X, held, axis=0))
    assert len(fewer.coef_) == len(model.coef_) == 450


@pytest.mark.parametrize("feature_map", NAMES)
def test_rows_far_away_are_found(feature_map):
    labels = np.r_[np.zeros(570), np.ones(30)]
    model = OneClassKernel(
        0.1, feature_map=feature_map, gamma=0.3, random_state=0, scale=False
    ).fit(X)
    assert roc_auc_score(labels, -model.score_samples(X)) > 0.85


@pytest.mark.parametrize("feature_map", NAMES)
def test_float32_rows_give_about_the_same_scores(feature_map):
    model = OneClassKernel(
        0.1, feature_map=feature_map, gamma=0.3, tol=1e-4, random_state=0, scale=False
    )
    wide = model.fit(X).score_samples(NEW)
    narrow = model.fit(X.astype(np.float32)).score_samples(NEW.astype(np.float32))
    np.testing.assert_allclose(narrow, wide, atol=0.02 * wide.max())


def test_features_with_a_mean_of_zero_have_weights_of_zero():
    model = OneClassKernel(0.5, feature_map="linear", scale=False).fit(X - X.mean(axis=0))
    np.testing.assert_array_equal(model.coef_, 0.0)


def test_too_few_iterations_are_reported():
    model = OneClassKernel(
        0.1, feature_map="fourier", tol=1e-8, max_iter=1, random_state=0, scale=False
    )
    with pytest.warns(ConvergenceWarning, match="tol=1e-08; raise tol or max_iter=1"):
        model.fit(X)


def test_p_values_without_held_out_rows_are_refused_with_a_remedy():
    with pytest.raises(ValueError, match=r"held_out must be above 0 in the fit, such as 0\.2"):
        OneClassKernel(gamma=0.3, scale=False).fit(X).p_values(NEW)


def test_a_kernel_matrix_that_does_not_fit_is_refused_with_a_remedy(monkeypatch):
    monkeypatch.setattr("mercer._runtime.arrays.available_memory", lambda: 1e6)
    with pytest.raises(MemoryError, match=r"kernel matrix of 600 rows .* feature_map='nystroem'"):
        OneClassKernel(scale=False).fit(X)


def test_weights_that_do_not_fit_are_refused_with_a_remedy(monkeypatch):
    model = OneClassKernel(feature_map="binning", random_state=0, scale=False).fit(X)
    design = model.feature_map_.design(X)
    monkeypatch.setattr("mercer._runtime.arrays.available_memory", lambda: 1e5)
    with pytest.raises(MemoryError, match=r"L-BFGS on \d+ features .* a smaller n_features"):
        model._by_products(outliers._Rows(design, 0.1, None), 1e-3, 100)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"nu": 0.0}, "nu must be"),
        ({"nu": 1.0}, "nu must be a share of the rows"),
        ({"nu": "few"}, "nu must be"),
        ({"held_out": 1.0}, "held_out must be a share of the rows"),
        ({"held_out": -0.1}, "held_out must be at least 0"),
        ({"tol": -1.0}, "tol must be"),
        ({"max_iter": 0}, "max_iter must be"),
        ({"gamma": 0.0}, "gamma must be"),
        ({"feature_map": "unheard"}, "feature_map must be"),
    ],
)
def test_wrong_parameters_are_named(settings, sentence):
    with pytest.raises((ValueError, TypeError), match=sentence) as caught:
        OneClassKernel(**settings, scale=False).fit(X)
    assert "\n" not in str(caught.value)


def test_examples_run(check_examples):
    check_examples(outliers)
