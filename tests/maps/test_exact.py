"""Exact kernel machines and raw Nyström ones: the map, and the estimators on it."""

import pickle
import tracemalloc

import numpy as np
import pytest
from scipy import sparse
from sklearn.kernel_ridge import KernelRidge

import mercer.maps.exact
from _conventions import parametrize_with_settings
from mercer import KernelClassifier, KernelRegressor, config_context, persistence
from mercer.designs import KernelColumns
from mercer.kernels import NGram
from mercer.maps import ExactKernel, Nystroem
from mercer.penalties import L2
from mercer.solvers import ConjugateGradient
from test_maps_base import MapLaws

SOLVERS = ["cholesky", "cg", "block"]


def polynomial(X, Y):
    products = X @ Y.T
    return (1.0 + 0.1 * (products.toarray() if sparse.issparse(products) else products)) ** 2


class TestExactKernel(MapLaws):
    is_random = False
    may_be_lazy = False  # its design never holds the kernel

    def make(self, **settings):
        return ExactKernel(gamma=0.3, **settings)


class TestExactKernelOfAFunction(MapLaws):
    is_random = False
    has_gamma = False
    may_be_lazy = False

    def make(self, **settings):
        return ExactKernel(polynomial, **settings)


def test_examples_run(check_examples):
    check_examples(mercer.maps.exact)


class ExactRegressor(KernelRegressor):
    """Checks set n_components, which all rows rightly refuse."""

    n_components = property(lambda self: None, lambda self, value: None)


class ExactClassifier(KernelClassifier):
    n_components = property(lambda self: None, lambda self, value: None)


@parametrize_with_settings(
    [],
    [
        ExactRegressor("exact"),
        ExactRegressor("exact", alphas=[1e-4, 1e-2], selection="loo"),
        ExactClassifier("exact", solver="block"),
    ],
    expected_failed_checks=lambda _: {"check_set_params": "n_components is not to be set"},
)
def test_scikit_learn_conventions(estimator, check):
    check(estimator)


def waves(n=150, seed=0, dtype=np.float64):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-3, 3, size=(n, 2))
    return X.astype(dtype), (np.sin(2 * X).sum(axis=1) + 0.1 * rng.normal(size=n)).astype(dtype)


# the map


def test_the_design_is_symmetric_on_its_rows_alone(X, X_csr):
    for data in (X, X_csr):
        fitted = ExactKernel(gamma=0.3).fit(data)
        assert fitted.design(data).symmetric
        assert fitted.design(data.copy()).symmetric
        assert not fitted.design(data[:-1]).symmetric
        assert not fitted.design(data * 2).symmetric
        assert not fitted.design(data.astype(np.float32)).symmetric


def test_the_design_holds_nothing(X):
    design = ExactKernel(gamma=0.3).fit_design(X)
    assert isinstance(design, KernelColumns)
    assert design.nbytes == 0


# the machine


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("kernel", ["gaussian", "laplacian"])
def test_exact_regression_is_kernel_ridge_regression(kernel, solver):
    X, y = waves()
    X, y = X - X.mean(axis=0), y - y.mean()
    alpha = 1e-3
    settings = {"kernel": kernel, "gamma": 0.5, "alpha": alpha, "scale": False, "tol": 1e-10}
    ours = KernelRegressor("exact", solver=solver, fit_intercept=False, **settings).fit(X, y)
    name = "rbf" if kernel == "gaussian" else kernel
    theirs = KernelRidge(kernel=name, gamma=0.5, alpha=alpha * len(y)).fit(X, y)
    np.testing.assert_allclose(ours.predict(X), theirs.predict(X), atol=1e-7)
    np.testing.assert_allclose(ours.map_coef_, theirs.dual_coef_, atol=1e-5)


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("weighted", [False, True])
def test_the_intercept_is_that_of_a_constant_without_penalty(solver, weighted):
    X, y = waves()
    weights = np.random.default_rng(1).uniform(0.5, 2, len(y)) if weighted else np.ones(len(y))
    n_alpha, s = 1e-2 * weights.sum(), weights
    fitted = KernelRegressor("exact", gamma=0.5, alpha=1e-2, tol=1e-10, solver=solver)
    fitted.fit(X, y + 5, weights)
    K = fitted.feature_map_.kernel_(fitted.feature_map_.landmarks_)
    system = np.block([[K + n_alpha * np.diag(1 / s), np.ones((len(y), 1))], [np.ones(len(y)), 0]])
    truth = np.linalg.solve(system, np.append(y + 5, 0))
    np.testing.assert_allclose(fitted.intercept_, truth[-1], rtol=1e-7)
    np.testing.assert_allclose(fitted.predict(X), K @ truth[:-1] + truth[-1], atol=1e-7)


@pytest.mark.parametrize("kind", [KernelRegressor, KernelClassifier])
def test_all_rows_as_whitened_landmarks_are_the_exact_machine(kind, dtype):
    X, y = waves(dtype=dtype)
    y = y if kind is KernelRegressor else np.digitize(y, [-0.5, 0.5])
    settings = {"kernel": "laplacian", "gamma": 0.5, "alpha": 1e-3, "tol": 1e-7}
    if dtype == np.float32:
        settings["tol"] = 1e-4
    exact = kind("exact", **settings).fit(X, y)
    whitened = kind("nystroem", n_components=len(y), random_state=0, **settings).fit(X, y)
    respond = "predict" if kind is KernelRegressor else "decision_function"
    tolerance = 1e-6 if dtype == np.float64 else 2e-3
    new = waves(seed=1, dtype=dtype)[0]
    np.testing.assert_allclose(
        getattr(exact, respond)(new), getattr(whitened, respond)(new), atol=tolerance
    )


@pytest.mark.parametrize("loss", ["logistic", "multinomial", "squared_hinge"])
def test_other_losses_are_minimised_in_the_same_space(loss):
    X, y = waves(90)
    settings = {"loss": loss, "kernel": "laplacian", "gamma": 0.5, "alpha": 1e-2, "tol": 1e-7}
    labels = np.digitize(y, [-0.5, 0.5])
    exact = KernelClassifier("exact", **settings).fit(X, labels)
    whitened = KernelClassifier("nystroem", n_components=90, random_state=0, **settings)
    whitened.fit(X, labels)
    new = waves(seed=1)[0]
    np.testing.assert_allclose(
        exact.decision_function(new), whitened.decision_function(new), atol=1e-4
    )


@pytest.mark.parametrize("solver", [*SOLVERS, "auto"])
def test_raw_columns_give_the_whitened_solution(solver, monkeypatch):
    X, y = waves()
    settings = {"n_components": 40, "random_state": 0, "alpha": 1e-3, "tol": 1e-9}
    settings |= {"kernel": "laplacian", "gamma": 0.5}
    whitened = KernelRegressor("nystroem", solver="cholesky", **settings).fit(X, y)
    monkeypatch.setattr("mercer.solvers.forms._WHITENED", 39)
    raw = KernelRegressor("nystroem", solver=solver, **settings).fit(X, y)
    assert raw.feature_map_.normalization_ is None
    assert whitened.feature_map_.normalization_ is not None
    np.testing.assert_allclose(raw.predict(X), whitened.predict(X), atol=1e-5)


def test_whitening_stays_where_raw_columns_cannot_be_solved_for(monkeypatch):
    monkeypatch.setattr("mercer.solvers.forms._WHITENED", 10)
    X, y = waves()
    for settings in ({"penalty": "l1"}, {"loss": "huber"}, {"solver": "newton-cg"}):
        found = KernelRegressor("nystroem", n_components=20, alpha=1e-2, **settings).fit(X, y)
        assert found.feature_map_.normalization_ is not None
    few = KernelRegressor("nystroem", n_components=10).fit(X, y)
    assert few.feature_map_.normalization_ is not None


def test_a_penalty_of_the_weights_means_the_weights():
    X, y = waves(60)
    settings = {"gamma": 0.5, "tol": 1e-10, "scale": False, "fit_intercept": False}
    found = KernelRegressor("exact", penalty=L2(1e-2), **settings).fit(X, y)
    K = found.feature_map_.transform(X)
    truth = np.linalg.solve(K @ K / 60 + 1e-2 * np.eye(60), K @ y / 60)
    np.testing.assert_allclose(found.map_coef_, truth, atol=1e-8)


def test_an_l1_penalty_leaves_landmarks_out_of_predictions():
    X, y = waves()
    found = KernelRegressor("exact", penalty="l1", alpha=1e-3, tol=1e-4).fit(X, y)
    used = np.flatnonzero(found.map_coef_)
    assert 0 < len(used) < len(y) / 2
    simpler, coef = found.feature_map_.folded(found.map_coef_)
    assert simpler.landmarks_.shape == (len(used), 2)
    direct = found.feature_map_.transform(found.scaler_.transform(X)) @ found.map_coef_
    np.testing.assert_allclose(found.predict(X), direct + found.intercept_, atol=1e-12)
    assert coef.shape == (len(used),)


def test_large_weights_that_cancel_are_summed_in_float64():
    X, y = waves(dtype=np.float32)
    smooth = {"gamma": 0.05, "alpha": 1e-6, "tol": 1e-1, "solver": "cholesky"}
    found = KernelRegressor("exact", **smooth).fit(X, y)
    size = np.linalg.norm(found.map_coef_)
    assert size > 400
    scaled = found.scaler_.transform(X).astype(np.float64)
    landmarks = found.feature_map_.landmarks_.astype(np.float64)
    direct = found.feature_map_.kernel_(scaled, landmarks) @ found.map_coef_ + found.intercept_
    np.testing.assert_allclose(found.predict(X), direct, atol=1e-6 * size)


@pytest.mark.parametrize("solver", ["auto", *SOLVERS])
def test_texts_are_data_of_exact_and_raw_machines(solver):
    texts = ["the cat sat", "a cat ran", "the dog sat", "dogs ran off", "cat and dog", "no one"]
    stars = np.array([1.0, 2.0, 3.0, 4.0, 2.5, 0.0])
    settings = {"kernel": NGram(orders=(1, 2)), "alpha": 1e-2, "tol": 1e-9, "solver": solver}
    exact = KernelRegressor("exact", **settings).fit(texts, stars)
    K = NGram(orders=(1, 2))(texts)
    centred = stars - stars.mean()
    H = np.eye(6) - 1 / 6
    a = np.linalg.solve(H @ K @ H + 0.06 * np.eye(6), centred)
    truth = K @ H @ a
    np.testing.assert_allclose(exact.predict(texts), truth - truth.mean() + stars.mean(), atol=1e-7)
    raw = Nystroem(NGram(orders=(1, 2)), n_components=6, whiten=False, random_state=0)
    settings.pop("kernel")
    spanned = KernelRegressor(raw, **settings).fit(texts, stars)
    np.testing.assert_allclose(spanned.predict(texts), exact.predict(texts), atol=1e-5)


@pytest.mark.parametrize("solver", ["auto", "cg", "block"])
def test_a_machine_whose_matrix_does_not_fit_is_the_same_machine(solver):
    X, y = waves(1200)
    settings = {"kernel": "laplacian", "gamma": 0.5, "alpha": 1e-3, "tol": 1e-7, "solver": solver}
    whole = KernelRegressor("exact", **settings).fit(X, y)
    peaks = []
    for _ in range(2):  # the interpreter's own tables may grow by megabytes in one of them
        with config_context(max_memory="8MB"):  # the matrix takes 12 MB
            tracemalloc.start()
            capped = KernelRegressor("exact", **settings).fit(X, y)
            predicted = capped.predict(X)
            peaks.append(tracemalloc.get_traced_memory()[1])
            tracemalloc.stop()
        np.testing.assert_allclose(predicted, whole.predict(X), atol=1e-5)
    assert min(peaks) < 8 * 2**20


def test_a_matrix_that_does_not_fit_is_refused_with_what_would():
    X, y = waves(800)
    with (
        config_context(max_memory="3MB"),
        pytest.raises(MemoryError, match=r"800 rows .* needs .* MB .*; use solver='block'"),
    ):
        KernelRegressor("exact", solver="cholesky").fit(X, y)


# living with scikit-learn


@pytest.mark.rounding
def test_sparse_inputs_are_dense_inputs():
    X, y = waves()
    X[np.abs(X) < 1] = 0
    settings = {"scale": False, "alpha": 1e-3, "gamma": 0.5, "tol": 1e-9}
    a = KernelRegressor("exact", **settings).fit(X, y)
    b = KernelRegressor("exact", **settings).fit(sparse.csr_array(X), y)
    np.testing.assert_allclose(a.predict(X), b.predict(sparse.csr_array(X)), atol=1e-9)


@pytest.mark.parametrize(
    "feature_map", ["exact", Nystroem(n_components=30, whiten=False, random_state=0)]
)
def test_models_survive_files_and_pickles(feature_map, tmp_path):
    X, y = waves()
    saved = KernelRegressor(feature_map, alpha=1e-3, tol=1e-6).fit(X, y)
    persistence.save(saved, tmp_path / "m.skops")
    for again in (persistence.load(tmp_path / "m.skops"), pickle.loads(pickle.dumps(saved))):
        np.testing.assert_array_equal(again.predict(X), saved.predict(X))


@pytest.mark.rounding
def test_predictions_do_not_depend_on_chunks(monkeypatch):
    X, y = waves()
    found = KernelRegressor("exact", alpha=1e-3).fit(X, y)
    whole = found.predict(X)
    monkeypatch.setattr("mercer._runtime.arrays.row_chunks.__defaults__", (160,))
    np.testing.assert_allclose(found.predict(X), whole, atol=1e-12)


@pytest.mark.rounding
def test_a_warm_start_on_the_same_rows_goes_on_and_on_others_starts_anew():
    X, y = waves()
    found = KernelRegressor("exact", solver="block", alpha=1e-3, tol=1e-8, warm_start=True)
    map_ = found.fit(X, y).feature_map_
    assert found.fit(X, y).feature_map_ is map_
    other = waves(seed=1)
    found.fit(*other)
    assert found.feature_map_ is not map_
    anew = KernelRegressor("exact", solver="block", alpha=1e-3, tol=1e-8).fit(*other)
    np.testing.assert_allclose(found.predict(X), anew.predict(X), atol=1e-6)


def test_a_number_of_components_makes_no_sense_of_all_rows():
    with pytest.raises(ValueError, match="n_components must be left out"):
        KernelRegressor("exact", n_components=5).fit(*waves(20))


@pytest.mark.parametrize(("tol", "solved_in"), [(0.07, ["f4"]), (1e-3, ["f4", "f8"])])
def test_rounding_far_below_the_tolerance_is_no_reason_for_float64(
    tol, solved_in, monkeypatch, rng
):
    monkeypatch.setattr("mercer.estimators.precision.rounding", lambda *of: 1e-3)
    solve, dtypes = ConjugateGradient.solve, []

    def counted(self, problem, *rest):
        dtypes.append(problem.dtype.str[1:])
        return solve(self, problem, *rest)

    monkeypatch.setattr(ConjugateGradient, "solve", counted)
    X = rng.normal(size=(60, 2)).astype(np.float32)
    KernelRegressor("exact", solver=ConjugateGradient(tol)).fit(X, X[:, 0])
    assert dtypes == solved_in
