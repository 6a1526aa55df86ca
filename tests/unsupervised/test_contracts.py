"""Rules that all estimators without targets keep: scikit-learn's, rows, files and tables."""

import pickle

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.metrics import adjusted_rand_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from _conventions import parametrize_with_settings
from mercer import TablePreparer, maps, persistence
from mercer.kernels import NGram
from mercer.unsupervised import KernelKMeans, KernelPCA, OneClassKernel, SpectralClustering

KINDS = [
    KernelPCA(1, random_state=0),
    KernelPCA(1, feature_map="binning", n_features=16, random_state=0),
    KernelPCA(1, feature_map="fourier", n_features=16, random_state=0),
    KernelKMeans(2, n_init=2, random_state=0),
    KernelKMeans(2, feature_map="binning", n_features=16, random_state=0),
    SpectralClustering(2, n_features=64, random_state=0),
    SpectralClustering(2, feature_map="exact", random_state=0),
    OneClassKernel(tol=1e-10, random_state=0),
    OneClassKernel(feature_map="binning", n_features=16, random_state=0),
    OneClassKernel(feature_map="fourier", n_features=16, random_state=0),
]
FIRST = list({type(model): model for model in reversed(KINDS)}.values())  # of each class
MODELS = pytest.mark.parametrize(
    "model", KINDS, ids=lambda m: f"{type(m).__name__}-{m.feature_map}"
)


def answer(model, rows):
    for name in ("transform", "decision_function"):
        if hasattr(model, name):
            return getattr(model, name)(rows)
    return model.predict(rows)


def failing(model):
    """Checks of scikit-learn that a model cannot pass, and why; its own KMeans fails them too."""
    why = "starts are drawn among the rows that are given"
    kinds: tuple[str, ...] = ("dense", "sparse") if isinstance(model, KernelKMeans) else ()
    if isinstance(model, OneClassKernel) and model.feature_map == "fourier":
        why, kinds = (
            "the descent ends within tol, where rounding of scaled rows leads it",
            ("dense",),
        )
    return {f"check_sample_weight_equivalence_on_{kind}_data": why for kind in kinds}


@parametrize_with_settings(FIRST, [model for model in KINDS if model not in FIRST], failing)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@MODELS
def test_sparse_rows_give_the_answers_of_dense_ones(model, X):
    rows, model = abs(X), clone(model).set_params(scale=False)  # scalers of sparse rows differ
    dense = clone(model).fit(rows)
    for kind in (sparse.csr_array, sparse.csr_matrix, sparse.csc_array):
        found = clone(model).fit(kind(rows))
        np.testing.assert_allclose(answer(found, kind(rows)), answer(dense, rows), atol=1e-8)
        np.testing.assert_allclose(answer(found, rows), answer(dense, rows), atol=1e-8)


@MODELS
def test_copies_and_files_give_equal_answers(model, X, tmp_path):
    fitted = clone(model).fit(X)
    persistence.save(fitted, tmp_path / "model.skops")
    for copy in (pickle.loads(pickle.dumps(fitted)), persistence.load(tmp_path / "model.skops")):
        np.testing.assert_array_equal(answer(copy, X), answer(fitted, X))


@MODELS
def test_fitted_attributes_that_do_not_agree_are_refused(model, X):
    fitted = clone(model).fit(X)
    name = next(n for n in ("components_", "coef_", "_weights") if hasattr(fitted, n))
    state = fitted.__getstate__() | {name: np.ones((2, 7))}
    with pytest.raises(ValueError, match=f"{name} of a fitted {type(model).__name__} must be"):
        type(model)().__setstate__(state)


@MODELS
def test_seeds_repeat_answers(model, X):
    first, second = (clone(model).fit(X) for _ in range(2))
    np.testing.assert_array_equal(answer(first, X), answer(second, X))


@MODELS
def test_raw_tables_go_through_a_pipeline(model):
    rng = np.random.default_rng(0)
    first = rng.random(120) < 0.5
    table = pd.DataFrame(
        {
            "colour": np.where(first, "red", "blue"),
            "price": np.where(first, 1.0, 9.0) + rng.normal(size=120),
        }
    )
    table.loc[3, "price"] = np.nan
    pipe = make_pipeline(TablePreparer(), clone(model).set_params(scale=False)).fit(table)
    found = answer(pipe, table)
    assert len(found) == 120
    if hasattr(model, "n_clusters"):
        assert max((found == first).mean(), (found != first).mean()) > 0.95


@MODELS
def test_texts_are_refused_in_one_sentence(model):
    with pytest.raises(ValueError, match=r"X must hold numbers; .*TablePreparer\(\)"):
        clone(model).fit(["a word", "another word", "more"] * 10)


@pytest.mark.parametrize(
    "settings",
    [
        {"feature_map": "exact", "kernel": NGram()},
        {"feature_map": maps.HashedNGrams()},
        {"feature_map": "nystroem", "kernel": NGram(), "n_features": 20},
    ],
    ids=["exact", "hashed", "nystroem"],
)
@pytest.mark.parametrize("kind", [KernelPCA, KernelKMeans, SpectralClustering, OneClassKernel])
def test_texts_are_rows_of_maps_of_texts(kind, settings, tmp_path):
    texts = [f"the cat sat on mat {i}" for i in range(40)]
    texts += [f"stocks fell by {i} per cent" for i in range(40)]
    model = kind(2, **settings) if kind is not OneClassKernel else kind(0.2, **settings)
    fitted = model.set_params(random_state=0).fit(texts)
    persistence.save(fitted, tmp_path / "model.skops")
    found = answer(persistence.load(tmp_path / "model.skops"), texts)
    np.testing.assert_array_equal(found, answer(fitted, texts))
    if hasattr(model, "n_clusters"):
        assert adjusted_rand_score(found, np.repeat([0, 1], 40)) == 1.0
    elif kind is KernelPCA:
        assert abs(np.corrcoef(found[:, 0], np.repeat([0, 1], 40))[0, 1]) > 0.9
        with pytest.raises(ValueError, match="inverse_transform needs inputs that are numbers"):
            fitted.inverse_transform(found)
    else:
        assert fitted.decision_function(["@@##!!"])[0] < 0
    with pytest.raises(TypeError, match="X must be a sequence of texts"):
        fitted.fit(5.0)


@MODELS
def test_unfitted_models_say_so(model, X):
    with pytest.raises(NotFittedError):
        answer(clone(model), X)


@MODELS
def test_a_fit_that_fails_leaves_no_earlier_one(model, X):
    fitted = clone(model).fit(X)
    name = next(n for n in ("n_components", "n_clusters", "nu") if hasattr(model, n))
    with pytest.raises(ValueError, match=f"{name} must be"):
        fitted.set_params(**{name: 10**6}).fit(X)
    with pytest.raises(NotFittedError):
        answer(fitted, X)


@pytest.mark.parametrize("model", [m for m in KINDS if m.feature_map != "exact"], ids=repr)
def test_too_little_memory_is_refused_before_it_is_taken(model, monkeypatch):
    monkeypatch.setattr("mercer._runtime.arrays.available_memory", lambda: 1000)
    with pytest.raises(MemoryError, match="available"):
        clone(model).fit(np.random.default_rng(0).normal(size=(500, 20)))


@pytest.mark.parametrize("kind", [KernelPCA, KernelKMeans, SpectralClustering, OneClassKernel])
def test_number_of_features_of_the_map(kind, X):
    fitted = kind(feature_map="fourier", n_features=8, random_state=0)
    if kind is SpectralClustering:
        fitted.set_params(feature_map="nystroem")
    assert fitted.fit(abs(X)).feature_map_.n_features_out_ <= 16
    with pytest.raises(ValueError, match="n_features must be left out for feature_map='exact'"):
        kind(feature_map="exact", n_features=8).fit(X)
    with pytest.raises(ValueError, match="n_features must be at least 1"):
        kind(feature_map="fourier", n_features=0).fit(X)


class Listener:
    """Counts iterations, keeps the models of them, and stops or interrupts the fit after some."""

    def __init__(self, most, error=None):
        self.most, self.error, self.seen, self.calls = most, error, [], []

    def setup(self, estimator, context):
        self.calls.append("setup")

    def teardown(self, estimator, context):
        self.calls.append("teardown")

    def on_fit_task_begin(self, estimator, context):
        self.calls.append("begin")

    def on_fit_task_end(self, estimator, context, *, fitted_estimator):
        self.calls.append("end")
        if context.task_name != "iteration":
            return False
        self.seen.append(fitted_estimator)
        if len(self.seen) == self.most and self.error is not None:
            raise self.error
        return len(self.seen) == self.most


ITERATIVE = pytest.mark.parametrize(
    "model",
    [
        KernelKMeans(5, n_init=2, tol=0, random_state=0),
        OneClassKernel(feature_map="fourier", tol=1e-6, held_out=0.2, random_state=0),
    ],
    ids=lambda m: type(m).__name__,
)


@MODELS
def test_callbacks_hear_of_the_beginning_and_the_end(model, X):
    listener = Listener(10**6)
    heard = clone(model).set_callbacks(listener).fit(X)
    assert listener.calls[:2] == ["setup", "begin"]
    assert listener.calls[-2:] == ["end", "teardown"]
    np.testing.assert_array_equal(answer(heard, X), answer(clone(model).fit(X), X))


@ITERATIVE
def test_a_callback_stops_the_fit_at_the_model_that_it_saw(model):
    rows = np.random.default_rng(0).normal(size=(400, 3))
    listener = Listener(3)
    stopped = clone(model).set_callbacks(listener).fit(rows)
    assert len(listener.seen) == 3
    np.testing.assert_array_equal(answer(stopped, rows), answer(listener.seen[-1], rows))
    assert (answer(stopped, rows) != answer(clone(model).fit(rows), rows)).any()


@ITERATIVE
def test_an_interrupted_fit_leaves_a_model(model):
    rows = np.random.default_rng(0).normal(size=(400, 3))
    model = clone(model).set_callbacks(Listener(2, KeyboardInterrupt()))
    with pytest.raises(KeyboardInterrupt, match="the model holds the last iterate"):
        model.fit(rows)
    assert np.isfinite(answer(model, rows)).all()
    if isinstance(model, OneClassKernel):
        assert len(model.p_values(rows)) == 400


@MODELS
def test_units_of_inputs_change_no_answer(model):
    X = np.random.default_rng(0).normal(size=(60, 3)) * [1.0, 0.5, 2.0]
    units, shifts = np.array([1e6, 1.0, 1e-3]), np.array([1e7, 0.0, -1.0])
    one, other = clone(model).fit(X), clone(model).fit(X * units + shifts)
    np.testing.assert_allclose(answer(other, X * units + shifts), answer(one, X), atol=1e-5)
    np.testing.assert_allclose(one.scaler_.mean_, X.mean(axis=0))
    assert clone(model).set_params(scale=False).fit(X).scaler_ is None


@MODELS
def test_uneven_inputs_are_warned_of_without_a_scaler(model):
    X = np.random.default_rng(0).normal(size=(60, 2)) * [1e6, 1.0]
    with pytest.warns(UserWarning, match="inputs' scales differ by a factor of"):
        clone(model).set_params(scale=False).fit(X)


def test_a_model_of_an_earlier_version_without_a_scaler_predicts_as_before():
    X = np.random.default_rng(0).normal(size=(60, 2))
    model = KernelKMeans(2, scale=False, random_state=0).fit(X)
    del model.scaler_
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).predict(X), model.labels_)


@MODELS
def test_onnx_refuses_models_of_unlabelled_rows_in_a_sentence(model, X):
    from mercer.onnx import to_onnx

    for fitted in (clone(model).fit(X), make_pipeline(StandardScaler(), clone(model)).fit(X)):
        rule = f"got {type(model).__name__}, a model of unlabelled rows.*mercer.persistence"
        with pytest.raises(ValueError, match=rule):
            to_onnx(fitted)
