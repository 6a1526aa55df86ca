"""Laws of the sparse estimators, and of kernel machines with an l1 part in their penalty."""

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import ElasticNet as OtherElasticNet
from sklearn.linear_model import Lasso
from sklearn.model_selection import GridSearchCV
from typer.testing import CliRunner

from _conventions import parametrize_with_settings
from mercer import (
    KernelClassifier,
    KernelRegressor,
    SparseKernelClassifier,
    SparseKernelRegressor,
    persistence,
)
from mercer.cli.app import app
from mercer.estimators import sparse_models
from mercer.maps import Nystroem, RandomBinning, RandomFourier
from mercer.penalties import L1, L2
from test_estimators import _StopAfter, blobs, friedman

MAPS = ["fourier", "fastfood", "perceptron", "binning"]
QUICK = {"n_new": 30, "max_rounds": 3, "random_state": 0}


def _expected_to_fail(estimator):
    """Equal to the tolerance of the solver is not equal to the last digit."""
    if isinstance(estimator, SparseKernelRegressor):
        return {}
    check = "check_sample_weight_equivalence_on_{}_data"
    return {check.format(kind): "solutions differ within tol" for kind in ("dense", "sparse")}


@pytest.mark.filterwarnings("ignore:.*of the bins of these rows")  # checks have few rows
@parametrize_with_settings(
    [
        SparseKernelRegressor(**QUICK),
        SparseKernelClassifier("binning", loss="logistic", n_new=3, max_rounds=2, random_state=0),
    ],
    expected_failed_checks=_expected_to_fail,
)
def test_scikit_learn_conventions(estimator, check):
    check(estimator)


# -- the model -------------------------------------------------------------------------------


@pytest.mark.parametrize("feature_map", MAPS)
def test_every_sequence_of_random_functions_makes_a_sparse_model(feature_map):
    X, y = friedman()
    n_new = 8 if feature_map == "binning" else 60
    model = SparseKernelRegressor(feature_map, n_new=n_new, max_rounds=4, random_state=0).fit(X, y)
    assert model.score(X, y) > 0.85
    assert model.map_coef_.shape == (model.n_features_active_,)
    assert np.all(model.map_coef_ != 0)
    assert model.feature_map_.n_features_out_ == model.n_features_active_
    assert model.n_drawn_ <= 4 * n_new
    assert model.converged_
    assert 0 <= model.dual_gap_ + 1e-12 <= 2e-3 * np.var(y)
    assert model.rounds_["n_active"][-1] == model.n_features_active_
    assert np.all(np.diff(model.rounds_["objective"]) <= 1e-12)


def test_predictions_are_sums_over_the_active_features():
    X, y = friedman()
    model = SparseKernelRegressor(**QUICK).fit(X, y)
    Z = model.feature_map_.transform(model.scaler_.transform(X))
    np.testing.assert_allclose(model.predict(X), Z @ model.map_coef_ + model.intercept_)


def test_features_are_those_of_the_map_that_was_named():
    X, y = friedman()
    model = SparseKernelRegressor("fourier", gamma=0.1, n_new=20, max_rounds=1, random_state=0)
    Z = model.fit(X, y).feature_map_.transform(X)
    fourier = RandomFourier(gamma=0.1, n_components=20, scale=False, random_state=0)
    all_of_them = fourier.fit_transform(X)
    assert all(np.any(np.all(np.isclose(all_of_them, z[:, None]), axis=0)) for z in Z.T)


def test_one_round_is_the_kernel_machine_with_that_penalty():
    X, y = friedman()
    sparse = SparseKernelRegressor(
        "fourier", alpha=0.05, n_new=40, max_rounds=1, tol=1e-9, random_state=0
    ).fit(X, y)
    fourier = RandomFourier(n_components=40, scale=False)
    dense = KernelRegressor(fourier, penalty="l1", alpha=0.05, tol=1e-9, random_state=0).fit(X, y)
    np.testing.assert_allclose(sparse.predict(X), dense.predict(X), atol=1e-4)
    assert np.count_nonzero(dense.map_coef_) == sparse.n_features_active_


def test_multiclass_models_share_their_features():
    X, labels = blobs()
    names = np.array(["one", "three", "two"])[labels]
    model = SparseKernelClassifier(**QUICK).fit(X, names)
    assert model.classes_.tolist() == ["one", "three", "two"]
    assert model.map_coef_.shape == (3, model.n_features_active_)
    assert np.all(np.any(model.map_coef_ != 0, axis=0))
    assert model.score(X, names) > 0.8


def test_probabilities_of_logistic_models():
    X, labels = blobs()
    model = SparseKernelClassifier(loss="logistic", **QUICK).fit(X, labels)
    proba = model.predict_proba(X)
    np.testing.assert_allclose(proba.sum(axis=1), 1)
    np.testing.assert_array_equal(proba.argmax(axis=1), model.predict(X))


def test_float32_stays_float32():
    X, y = friedman(dtype=np.float32)
    model = SparseKernelRegressor(**QUICK).fit(X, y)
    assert model.predict(X).dtype == model.map_coef_.dtype == np.float32


@pytest.mark.rounding
@pytest.mark.parametrize("loss", ["squared", "huber"])
def test_the_same_seed_gives_the_same_model(loss):
    X, y = friedman()
    one, two = (SparseKernelRegressor(loss=loss, **QUICK).fit(X, y) for _ in range(2))
    np.testing.assert_array_equal(one.predict(X), two.predict(X))


def test_a_class_weight_is_a_sample_weight():
    X, labels = blobs(n_classes=2)
    weighted = SparseKernelClassifier(class_weight={0: 1, 1: 3}, alpha=0.01, **QUICK)
    by_row = SparseKernelClassifier(alpha=0.01, **QUICK).fit(X, labels, np.where(labels, 3.0, 1.0))
    np.testing.assert_allclose(
        weighted.fit(X, labels).decision_function(X), by_row.decision_function(X), atol=1e-6
    )


def test_a_model_without_weights_predicts_the_constant():
    X, y = friedman()
    for feature_map in ("fourier", "binning"):
        model = SparseKernelRegressor(feature_map, alpha=1e6, n_new=5, random_state=0).fit(X, y)
        assert model.n_features_active_ == 0
        np.testing.assert_allclose(model.predict(X), y.mean())
    same = SparseKernelRegressor(**QUICK).fit(X, np.full(len(X), 3.0))
    np.testing.assert_allclose(same.predict(X), 3.0)


# -- files -----------------------------------------------------------------------------------


@pytest.mark.parametrize("feature_map", MAPS)
def test_files_are_small_and_predict_the_same(feature_map, tmp_path):
    X, y = friedman()
    n_new = 8 if feature_map == "binning" else 60
    model = SparseKernelRegressor(feature_map, n_new=n_new, max_rounds=5, random_state=0).fit(X, y)
    size = persistence.save(model, tmp_path / "model.skops")
    assert size < 10_000 + 40 * model.n_features_active_
    for again in (persistence.load(tmp_path / "model.skops"), pickle.loads(pickle.dumps(model))):
        np.testing.assert_array_equal(again.predict(X), model.predict(X))


def test_files_do_not_grow_with_the_number_of_features_drawn(tmp_path):
    X, y = friedman()
    sizes, active = [], []
    for n_new in (50, 1000):
        model = SparseKernelRegressor(alpha=0.5, n_new=n_new, max_rounds=2, random_state=0)
        sizes.append(persistence.save(model.fit(X, y), tmp_path / "model.skops"))
        active.append(model.n_features_active_)
    assert abs(sizes[1] - sizes[0]) < 1000 + 40 * abs(active[1] - active[0])


# -- strength of the penalty -----------------------------------------------------------------


def test_the_default_strength_follows_the_scale_of_the_target():
    X, y = friedman()
    one, other = (SparseKernelRegressor(**QUICK).fit(X, scale * y) for scale in (1.0, 1e3))
    assert other.alpha_ == pytest.approx(1e3 * one.alpha_)
    np.testing.assert_allclose(other.predict(X), 1e3 * one.predict(X), rtol=1e-3)


def test_a_path_is_so_many_fits():
    X, y = friedman()
    model = SparseKernelRegressor(n_new=40, max_rounds=1, tol=1e-8, random_state=0)
    path = model.path(X, y, [0.05, 1.0, 0.2])
    assert [each.alpha_ for each in path] == [1.0, 0.2, 0.05]
    assert [each.n_features_active_ for each in path] == sorted(
        each.n_features_active_ for each in path
    )
    for each in path:
        alone = clone(model).set_params(alpha=each.alpha_).fit(X, y)
        np.testing.assert_allclose(each.predict(X), alone.predict(X), atol=1e-3)
    assert not hasattr(model, "map_coef_")


@pytest.mark.parametrize("seed", [None, np.random.RandomState(0)], ids=["none", "generator"])
def test_models_of_a_path_share_one_sequence_whatever_the_seed(seed):
    X, y = friedman()
    model = SparseKernelRegressor("fourier", n_new=30, max_rounds=1, random_state=seed)
    strong, weak = model.path(X, y, [0.3, 0.1])
    shared = np.isin(strong.feature_map_.addresses(), weak.feature_map_.addresses())
    assert shared.mean() > 0.7


def test_paths_of_classifiers_take_weights():
    X, labels = blobs()
    models = SparseKernelClassifier(**QUICK).path(X, labels, [0.1, 0.02], np.ones(len(X)))
    assert models[1].score(X, labels) >= models[0].score(X, labels)


@pytest.mark.parametrize("feature_map", ["fourier", "binning"])
def test_cross_validation_takes_the_strength_that_predicts_held_out_rows_best(feature_map):
    X, y = friedman()
    y = y + np.random.default_rng(0).normal(scale=2.0, size=len(y))
    model = SparseKernelRegressor(
        feature_map,
        alpha="cv",
        n_new=8 if feature_map == "binning" else 40,
        max_rounds=3,
        random_state=0,
    ).fit(X, y)
    path = model.alpha_path_
    assert model.alpha_ == path["alpha"][np.argmax(path["score"])]
    assert np.argmax(path["score"]) > 0
    alone = clone(model).set_params(alpha=model.alpha_).fit(X, y)
    np.testing.assert_array_equal(alone.predict(X), model.predict(X))
    assert not hasattr(alone, "alpha_path_")


def test_cross_validation_of_classes_gives_each_its_share():
    X, labels = blobs()
    model = SparseKernelClassifier(alpha="cv", n_new=15, max_rounds=2, random_state=0)
    model.fit(X, labels)
    assert model.score(X, labels) > 0.8


# -- going on --------------------------------------------------------------------------------


def test_a_warm_start_goes_on_drawing():
    X, y = friedman()
    settings = {"alpha": 0.05, "n_new": 20, "random_state": 0}
    long = SparseKernelRegressor(max_rounds=4, **settings).fit(X, y)
    model = SparseKernelRegressor(max_rounds=2, warm_start=True, **settings).fit(X, y)
    before = model.rounds_["objective"][-1]
    model.fit(X, y)
    assert model.n_drawn_ == long.n_drawn_ == 80
    assert model.rounds_["objective"][0] <= before + 1e-12
    np.testing.assert_allclose(model.predict(X), long.predict(X), atol=0.05 * y.std())
    model.set_params(gamma=0.7).fit(X, y)
    assert model.n_drawn_ == 40


def test_a_warm_start_with_other_outputs_begins_anew():
    X, y = friedman()
    model = SparseKernelRegressor(warm_start=True, **QUICK).fit(X, y)
    assert model.fit(X, np.column_stack([y, -y])).predict(X).shape == (len(X), 2)


def test_a_callback_can_stop_the_fit():
    X, y = friedman()
    model = SparseKernelRegressor(**QUICK).set_callbacks(_StopAfter(1)).fit(X, y)
    assert model.n_drawn_ == 30


def test_an_interrupted_fit_can_predict():
    X, y = friedman()
    model = SparseKernelRegressor(**QUICK).set_callbacks(_StopAfter(1, interrupt=True))
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, y)
    assert model.predict(X).shape == y.shape


def test_parameters_of_a_map_are_reached_and_searched():
    X, y = friedman()
    model = SparseKernelRegressor(RandomFourier(n_components=20), max_rounds=2, random_state=0)
    search = GridSearchCV(model, {"feature_map__gamma": [1e-4, 0.1]}, cv=2).fit(X, y)
    assert search.best_params_ == {"feature_map__gamma": 0.1}
    assert search.best_estimator_.rounds_["n_drawn"][0] == 20  # the map's own number


# -- what makes no sense ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (SparseKernelRegressor("nystroem"), "feature_map must be an endless sequence"),
        (SparseKernelRegressor("linear"), "feature_map must be an endless sequence"),
        (SparseKernelRegressor(RandomBinning(bins=64)), "feature_map must be an endless sequence"),
        (SparseKernelRegressor(Nystroem()), "feature_map must be an endless sequence"),
        (SparseKernelRegressor(penalty="l2"), "penalty must have an l1 part"),
        (SparseKernelRegressor(penalty=L2(0.1)), "penalty must have an l1 part"),
        (SparseKernelRegressor(penalty=L1(0.1), alpha=0.2), "alpha is given twice"),
        (SparseKernelRegressor(penalty="l1", l1_ratio=0.5), "l1_ratio must be left out"),
        (SparseKernelRegressor(solver="cg"), "solver must be one of 'auto', 'cd', 'async'"),
        (SparseKernelRegressor(n_new=0), "n_new must be at least 1"),
        (SparseKernelRegressor(max_rounds=0), "max_rounds must be at least 1"),
        (SparseKernelRegressor(alpha=-1.0), "alpha must be at least 0"),
        (SparseKernelRegressor(alpha="cv", validation_fraction=2), "validation_fraction must be"),
        (SparseKernelRegressor(loss="logistic"), "loss must be one for regression"),
    ],
    ids=lambda value: str(value)[:60],
)
def test_settings_that_make_no_sense_are_refused(model, message):
    with pytest.raises(ValueError, match=message):
        model.fit(*friedman(60))


def test_alpha_of_another_kind_is_refused():
    with pytest.raises(TypeError, match="alpha must be a number"):
        SparseKernelRegressor(alpha="best").fit(*friedman(60))


# -- kernel machines with an l1 part ---------------------------------------------------------


@pytest.mark.parametrize("feature_map", ["binning", "fourier", "nystroem", "linear"])
@pytest.mark.parametrize("penalty", ["l1", "elastic-net"])
def test_kernel_machines_leave_weights_at_zero(feature_map, penalty):
    X, labels = blobs(n_classes=2)
    model = KernelClassifier(
        feature_map, loss="squared_hinge", penalty=penalty, random_state=0, tol=1e-3
    ).fit(X, labels)
    assert model.solver_ == "cd"
    assert model.score(X, labels) > 0.8
    if feature_map != "linear":
        assert np.count_nonzero(model.map_coef_) < 0.8 * model.map_coef_.size


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_linear_regression_is_lasso_and_elastic_net(fit_intercept):
    X, y = friedman()
    settings = {"fit_intercept": fit_intercept}
    ours = KernelRegressor("linear", penalty="l1", alpha=0.1, scale=False, tol=1e-10, **settings)
    theirs = Lasso(0.1, tol=1e-10, **settings).fit(X, y)
    np.testing.assert_allclose(ours.fit(X, y).coef_, theirs.coef_, atol=1e-6)
    np.testing.assert_allclose(ours.intercept_, theirs.intercept_, atol=1e-6)
    ours = KernelRegressor(
        "linear", penalty="elastic-net", alpha=0.1, l1_ratio=0.3, scale=False, tol=1e-10, **settings
    )
    theirs = OtherElasticNet(0.1, l1_ratio=0.3, tol=1e-10, **settings).fit(X, y)
    np.testing.assert_allclose(ours.fit(X, y).coef_, theirs.coef_, atol=1e-6)


def test_the_command_line_fits_sparse_models(tmp_path):
    rows = np.random.default_rng(0).normal(size=(80, 3))
    table, out = tmp_path / "table.csv", tmp_path / "model.skops"
    np.savetxt(table, rows, delimiter=",", header="a,b,c", comments="")
    command = ["fit", str(table), "--target", "c", "--out", str(out), "--sparse"]
    done = CliRunner().invoke(app, [*command, "--n-components", "20"])
    assert done.exit_code == 0, done.output
    model = persistence.load(out)
    assert isinstance(model, SparseKernelRegressor)
    assert (model.n_new, model.random_state) == (20, 0)
    refused = CliRunner().invoke(app, [*command, "--gamma-path", "0.1,1"])
    assert refused.exit_code != 0


def test_the_default_strength_leaves_some_weights_and_not_all():
    X, y = friedman()
    model = KernelRegressor("fourier", n_components=200, penalty="l1", random_state=0).fit(X, y)
    assert 5 < np.count_nonzero(model.map_coef_) < 150


def test_examples_run(check_examples):
    check_examples(sparse_models)


@pytest.mark.parametrize("n_outputs", [1, 2])
def test_model_without_features_and_intercept_predicts_zero(n_outputs, rng):
    X = rng.normal(size=(30, 3))
    y = X[:, 0] if n_outputs == 1 else X[:, :2]
    model = SparseKernelRegressor(alpha=1e6, fit_intercept=False, max_rounds=2, random_state=0)
    assert model.fit(X, y).n_features_active_ == 0
    np.testing.assert_array_equal(model.predict(X), np.zeros_like(y))


def test_class_weights_seven_orders_apart_do_not_slow_the_solver():
    X, y = np.random.default_rng(0).normal(size=(50, 2)) * 20, np.arange(50) % 2
    weights = {0: 1000, 1: 1e-4}
    model = SparseKernelClassifier(class_weight=weights, max_rounds=1, max_iter=60, random_state=0)
    with pytest.warns(ConvergenceWarning, match="stopped the last round"):
        model.fit(X, y)
    assert model.n_iter_ < 60
    assert np.mean(model.predict(X) == 0) > 0.87
