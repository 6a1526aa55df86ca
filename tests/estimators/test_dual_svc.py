"""What a user of the dual support vector machine may rely on."""

import pickle

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import make_classification
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import balanced_accuracy_score
from sklearn.model_selection import GridSearchCV
from sklearn.svm import SVC

from _conventions import parametrize_with_settings
from mercer import DualKernelSVC, persistence
from mercer.estimators import dual
from mercer.kernels import Gaussian, Laplacian
from mercer.solvers.dual import BoxDual, base, working_sets
from test_estimators import blobs

EXACT = {"tol": 1e-7, "n_jobs": 1}


@parametrize_with_settings(
    [DualKernelSVC()],
    [DualKernelSVC(loss="squared_hinge")],
    expected_failed_checks=lambda estimator: {
        f"check_sample_weight_equivalence_on_{kind}_data": "solutions differ within tol"
        for kind in ("dense", "sparse")
    },
)
def test_scikit_learn_conventions(estimator, check):
    check(estimator)


@pytest.mark.parametrize("C", [0.3, 50.0])
@pytest.mark.parametrize("weighted", [False, True])
def test_two_classes_with_an_intercept_are_svc(C, weighted):
    X, y = blobs(n_classes=2)
    weights = np.random.default_rng(0).uniform(0, 2, len(y)) if weighted else None
    ours = DualKernelSVC(solver="pairs", gamma=0.2, C=C, scale=False, tol=1e-6)
    theirs = SVC(C=C, gamma=0.2, tol=1e-6).fit(X, y, weights)
    ours.fit(X, y, weights)
    np.testing.assert_allclose(
        ours.decision_function(X), theirs.decision_function(X), atol=1e-4 * (1 + C)
    )
    np.testing.assert_array_equal(ours.support_, np.sort(theirs.support_))
    np.testing.assert_array_equal(ours.n_support_, theirs.n_support_)
    np.testing.assert_array_equal(ours.predict(X), theirs.predict(X))


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_the_gap_is_small_and_true(loss):
    X, y = blobs(n_classes=2)
    model = DualKernelSVC("laplacian", loss=loss, C=3.0, tol=1e-6).fit(X, y)
    f = model.decision_function(X)
    K = model.kernel_(model.support_vectors_)
    losses = np.maximum(1 - np.where(y == 1, 1, -1) * f, 0)
    value = 0.5 * model.dual_coef_ @ K @ model.dual_coef_
    value += 3.0 * np.sum(losses if loss == "hinge" else losses**2)
    assert model.objective_ == pytest.approx(value, rel=1e-5)
    assert -1e-6 < model.dual_gap_ < 1e-4 * value
    assert model.converged_


def test_several_classes_are_one_against_all_others():
    X, labels = blobs()
    names = np.array(["one", "three", "two"])[labels]
    model = DualKernelSVC(C=5.0, **EXACT).fit(X, names)
    assert model.classes_.tolist() == ["one", "three", "two"]
    assert model.dual_coef_.shape == (3, len(model.support_))
    assert model.n_support_.sum() == len(model.support_)
    for c in range(3):
        alone = DualKernelSVC(C=5.0, **EXACT).fit(X, labels == c)
        np.testing.assert_allclose(
            model.decision_function(X)[:, c], alone.decision_function(X), atol=1e-6
        )
    assert model.score(X, names) > 0.85


def test_weights_of_rows_and_classes():
    X, y = blobs(n_classes=2)
    weights = np.random.default_rng(0).integers(0, 3, len(y))
    repeated = DualKernelSVC(gamma=0.2, scale=False, **EXACT).fit(
        np.repeat(X, weights, axis=0), np.repeat(y, weights)
    )
    weighted = DualKernelSVC(gamma=0.2, scale=False, **EXACT).fit(X, y, weights)
    np.testing.assert_allclose(
        weighted.decision_function(X), repeated.decision_function(X), atol=1e-4
    )
    assert np.all(weights[weighted.support_] > 0)
    by_class = DualKernelSVC(class_weight={0: 1, 1: 3}, **EXACT).fit(X, y)
    by_row = DualKernelSVC(**EXACT).fit(X, y, np.where(y, 3.0, 1.0))
    np.testing.assert_allclose(by_class.decision_function(X), by_row.decision_function(X))


def test_sparse_rows_are_the_rows():
    X, y = blobs(n_classes=2)
    X[np.abs(X) < 0.5] = 0
    settings = {"gamma": 0.2, "scale": False, **EXACT}
    dense = DualKernelSVC(**settings).fit(X, y)
    csr = DualKernelSVC(**settings).fit(sparse.csr_array(X), y)
    assert sparse.issparse(csr.support_vectors_)
    np.testing.assert_allclose(
        csr.decision_function(sparse.csr_array(X)), dense.decision_function(X), atol=1e-4
    )


def test_a_precomputed_kernel_is_the_kernel():
    X, y = blobs()
    K = Gaussian(0.2)(X)
    new = Gaussian(0.2)(X[:50] + 0.1, X)
    direct = DualKernelSVC(Gaussian(0.2), scale=False, **EXACT).fit(X, y)
    given = DualKernelSVC("precomputed", **EXACT).fit(K, y)
    np.testing.assert_allclose(
        given.decision_function(new), direct.decision_function(X[:50] + 0.1), atol=1e-4
    )
    rows = np.arange(0, len(y), 2)
    some = np.zeros(len(y))
    some[rows] = 1
    part = DualKernelSVC("precomputed", **EXACT).fit(K, y, some)
    alone = DualKernelSVC("precomputed", **EXACT).fit(K[np.ix_(rows, rows)], y[rows])
    np.testing.assert_allclose(
        part.decision_function(new), alone.decision_function(new[:, rows]), atol=1e-6
    )
    search = GridSearchCV(DualKernelSVC("precomputed"), {"C": [0.1, 10.0]}, cv=3).fit(K, y)
    assert search.best_score_ > 0.8


def test_float32_stays_float32():
    X, y = blobs(n_classes=2, dtype=np.float32)
    model = DualKernelSVC(**EXACT).fit(X, y)
    assert model.decision_function(X).dtype == np.float32
    double = DualKernelSVC(**EXACT).fit(X.astype(np.float64), y)
    np.testing.assert_allclose(model.decision_function(X), double.decision_function(X), atol=1e-3)


@pytest.mark.parametrize(("n", "n_fits"), [(1100, 1), (800, 2)])
def test_large_coefficients_are_right_in_float64(n, n_fits, monkeypatch):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 2)).astype(np.float32)
    y = np.sin(2 * X[:, 0]) + X[:, 1] + 0.2 * rng.normal(size=n) > 0
    solved, fits = DualKernelSVC._solved, []
    monkeypatch.setattr(DualKernelSVC, "_solved", lambda *given: fits.append(1) or solved(*given))
    model = DualKernelSVC(Gaussian(2.0), scale=False, C=5e3, tol=1e-2).fit(X, y)
    assert np.linalg.norm(model.dual_coef_) > 25_000
    # Sums of more rows than a working set has are made in float64 anyway.
    assert len(fits) == n_fits
    assert model.converged_
    K = Gaussian(2.0)(X.astype(np.float64), model.support_vectors_)
    losses = np.maximum(1 - np.where(y, 1, -1) * (K @ model.dual_coef_ + model.intercept_), 0)
    value = 0.5 * model.dual_coef_ @ K[model.support_] @ model.dual_coef_ + 5e3 * losses.sum()
    assert model.objective_ == pytest.approx(value, rel=1e-6)
    assert model.dual_gap_ < 5e-3 * value


@pytest.mark.rounding
def test_one_thread_gives_the_same_model_every_time():
    X, y = blobs()
    one, two = (DualKernelSVC(n_jobs=1).fit(X, y) for _ in range(2))
    np.testing.assert_array_equal(one.decision_function(X), two.decision_function(X))


def test_models_survive_pickling_cloning_and_files(tmp_path):
    X, y = blobs()
    model = DualKernelSVC("laplacian", C=2.0, n_jobs=1).fit(X, y)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.decision_function(X), model.decision_function(X))
    persistence.save(model, tmp_path / "model.mercer")
    loaded = persistence.load(tmp_path / "model.mercer")
    np.testing.assert_array_equal(loaded.decision_function(X), model.decision_function(X))
    assert clone(model).get_params() == model.get_params()


def test_stopping_short_is_said_once():
    X, y = blobs()
    with pytest.warns(ConvergenceWarning, match="duality gap") as said:
        model = DualKernelSVC(C=100.0, max_iter=20).fit(X, y)
    assert len(said) == 1
    assert not model.converged_


def test_an_interrupt_leaves_a_model_that_predicts(monkeypatch):
    monkeypatch.setattr(working_sets, "SIZE", 16)
    X, y = blobs(n_classes=2)
    calls = []

    def kernel(A, B):
        calls.append(len(A))
        if len(calls) == 20:
            raise KeyboardInterrupt
        return Laplacian(0.3)(A, B)

    model = DualKernelSVC(kernel, C=100.0, **EXACT)
    with pytest.raises(KeyboardInterrupt, match="last iterate"):
        model.fit(X, y)
    assert np.any(model.dual_coef_)
    assert model.predict(X[:20]).shape == (20,)


@pytest.mark.parametrize(
    ("settings", "match"),
    [
        ({"C": 0.0}, "C must be positive"),
        ({"loss": "logistic"}, "loss must be one of 'hinge', 'squared_hinge'"),
        ({"solver": "greedy"}, "solver must be one of 'pairs'; got 'greedy'"),
        ({"kernel": "ngram"}, "rows of numbers"),
        ({"kernel": "precomputed"}, "square kernel matrix"),
        ({"kernel": "precomputed", "gamma": 2.0}, "gamma must be left out"),
        ({"cache_size": -1.0}, "cache_size must be positive"),
        ({"max_iter": 0}, "max_iter must be at least 1"),
    ],
)
def test_settings_that_make_no_sense_are_refused_in_one_sentence(settings, match):
    X, y = blobs()
    with pytest.raises(ValueError, match=match) as error:
        DualKernelSVC(**settings).fit(X, y)
    assert str(error.value).count(". ") == 0


def test_one_class_is_refused():
    with pytest.raises(ValueError, match="at least two classes"):
        DualKernelSVC().fit(np.ones((3, 1)), [1, 1, 1])


def test_examples_run(check_examples):
    check_examples(dual)


def test_solutions_do_not_depend_on_the_speed_of_the_machine(monkeypatch):
    """Looks at the objective, which the clock decides on, change no bit of the model."""
    rng = np.random.default_rng(3000)
    X = rng.normal(size=(3000, 3)).astype(np.float32)
    y = np.digitize(X[:, 0] * X[:, 1] + 0.2 * rng.normal(size=3000), [-0.4, 0.4])
    models = []
    for first, seconds in ((256, -1.0), (256, np.inf), (10**6, np.inf)):
        monkeypatch.setattr(base, "_CHUNK", first)
        monkeypatch.setattr(base, "_SECONDS", seconds)
        models.append(DualKernelSVC(n_jobs=1).fit(X, y))
    for other in models[1:]:
        assert other.n_iter_ == models[0].n_iter_
        np.testing.assert_array_equal(other.dual_coef_, models[0].dual_coef_)


@pytest.mark.parametrize("C", [1e-4, 0.003, 0.01])
def test_balanced_classes_are_told_apart_however_small_c_is(C):
    X, y = make_classification(600, 8, n_informative=4, weights=[0.8], random_state=0)
    model = DualKernelSVC(C=C, class_weight="balanced", solver="pairs").fit(X, y)
    assert balanced_accuracy_score(y, model.predict(X)) > 0.75
    assert abs(model.intercept_) < 0.5


def test_variables_that_rounding_keeps_from_their_ends_do_not_set_the_intercept():
    dual = BoxDual.hinge(np.array([1.0, -1.0, -1.0]), np.array([1e-3, 5e-4, 5e-4]))
    b = np.array([1e-3, -5e-4, -5e-4 * (1 - 1e-13)])
    sums = np.array([2e-4, 0.0, -2e-4])
    h = sums - [1, -1, -1]
    assert dual.intercept(b, sums) == pytest.approx(-(h[0] + h[2]) / 2)
