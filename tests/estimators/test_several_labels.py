"""Several labels per row: one fit is a classifier for each label."""

import pickle

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.metrics import accuracy_score, get_scorer
from sklearn.model_selection import cross_val_score
from sklearn.multioutput import MultiOutputClassifier
from sklearn.utils import get_tags

import mercer
from mercer import KernelClassifier, LocalKernelClassifier

ALPHAS = [1e-4, 1e-3, 1e-2, 1e-1]
SETTINGS = {
    "exact": {},
    "nystroem": {"feature_map": "nystroem", "n_components": 40},
    "binning": {"feature_map": "binning"},
    "fourier": {"feature_map": "fourier"},
    "cg": {"solver": "cg", "feature_map": "fourier", "tol": 1e-10},
    "no intercept": {"fit_intercept": False},
    "l1": {"penalty": "l1", "alpha": 1e-3, "feature_map": "fourier", "tol": 1e-9},
    "alphas": {"alphas": ALPHAS},
    "alphas of features": {"alphas": ALPHAS, "feature_map": "nystroem", "n_components": 40},
    "alphas by accuracy": {"alphas": ALPHAS, "scoring": "accuracy"},
    "logistic": {"loss": "logistic", "tol": 1e-9},
    "logistic of features": {"loss": "logistic", "tol": 1e-9, "feature_map": "fourier"},
    "multinomial": {"loss": "multinomial", "tol": 1e-9},
    "squared hinge": {"loss": "squared_hinge", "tol": 1e-9},
    "smooth hinge": {"loss": "smooth_hinge", "tol": 1e-9},
}


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    X, T = rng.normal(size=(160, 4)), rng.normal(size=(50, 4))
    noise = rng.normal(size=(160, 3)) * [0.1, 0.5, 3.0]
    Y = np.sin(2 * X) @ rng.normal(size=(4, 3)) + noise > [0.0, 0.5, 1.5]
    return X, Y.astype(int), T


@pytest.fixture(scope="module")
def fitted(table):
    return KernelClassifier("exact").fit(*table[:2])


@pytest.mark.parametrize("name", SETTINGS)
@pytest.mark.parametrize("weighted", [False, True])
def test_one_fit_is_a_classifier_for_each_label(name, weighted, table):
    X, Y, T = table
    weights = np.random.default_rng(1).uniform(0.3, 3.0, len(X)) if weighted else None
    model = KernelClassifier(random_state=0, **SETTINGS[name])
    each = MultiOutputClassifier(clone(model)).fit(X, Y, sample_weight=weights)
    model.fit(X, Y, weights)
    np.testing.assert_array_equal(model.predict(T), each.predict(T))
    expected = np.column_stack([one.decision_function(T) for one in each.estimators_])
    np.testing.assert_allclose(model.decision_function(T), expected, rtol=0, atol=1e-6)
    expected = np.column_stack([proba[:, 1] for proba in each.predict_proba(T)])
    np.testing.assert_allclose(model.predict_proba(T), expected, rtol=0, atol=1e-6)
    strengths = [one.alpha_ for one in each.estimators_]
    np.testing.assert_array_equal(np.broadcast_to(model.alpha_, 3), strengths)
    assert model.score(X, Y) == each.score(X, Y)


@pytest.mark.parametrize("loss", ["squared", "logistic", "multinomial", "squared_hinge"])
@pytest.mark.parametrize("weighted", [False, True])
def test_leaves_are_those_of_a_classifier_for_each_label(loss, weighted, table):
    X, Y, T = table
    weights = np.random.default_rng(1).uniform(0.3, 3.0, len(X)) if weighted else None
    model = LocalKernelClassifier(loss=loss, leaf_size=60, n_trees=2, tol=1e-9, random_state=0)
    each = MultiOutputClassifier(clone(model)).fit(X, Y, sample_weight=weights)
    model.fit(X, Y, weights)
    assert model.n_leaves_ > 4
    np.testing.assert_array_equal(model.predict(T), each.predict(T))
    expected = np.column_stack([one.decision_function(T) for one in each.estimators_])
    np.testing.assert_allclose(model.decision_function(T), expected, rtol=0, atol=1e-6)
    expected = np.column_stack([proba[:, 1] for proba in each.predict_proba(T)])
    np.testing.assert_allclose(model.predict_proba(T), expected, rtol=0, atol=1e-6)
    assert get_tags(model).classifier_tags.multi_label


def test_one_strength_of_leaves_serves_all_labels(table):
    X, Y, _ = table
    model = LocalKernelClassifier(leaf_size=80, alphas=ALPHAS, random_state=0).fit(X, Y)
    assert model.path_["score"].shape == (4,)
    assert model.alpha_ == ALPHAS[model.path_["score"].argmax()]
    wide = LocalKernelClassifier(leaf_size=80, alphas=ALPHAS, random_state=0)
    wide.fit(X, np.column_stack([Y[:, 0], Y[:, 0]]))
    alone = LocalKernelClassifier(leaf_size=80, alphas=ALPHAS, random_state=0).fit(X, Y[:, 0])
    assert wide.path_["score"].shape == alone.path_["score"].shape


def test_every_label_has_its_own_strength(table):
    X, Y, T = table
    model = KernelClassifier("exact", alphas=ALPHAS).fit(X, Y)
    assert model.alpha_.shape == (3,)
    assert len(set(model.alpha_)) > 1
    assert model.path_["score"].shape == (4, 3)
    best = np.array(ALPHAS)[model.path_["score"].argmax(axis=0)]
    np.testing.assert_array_equal(model.alpha_, best)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict_proba(T), model.predict_proba(T))
    one = model.at_alpha(1e-2)
    assert one.alpha_ == 1e-2
    expected = KernelClassifier("exact", alpha=1e-2).fit(X, Y).decision_function(T)
    np.testing.assert_allclose(one.decision_function(T), expected, atol=1e-10)
    assert not hasattr(one, "predict_proba")


@pytest.mark.parametrize(
    "settings",
    [
        {"alphas": ALPHAS, "selection": "holdout"},
        {"gamma_path": [0.01, 0.1, 1.0]},
        {"alphas": ALPHAS, "gamma_path": [0.01, 0.1, 1.0]},
        {"selection": "leave-one-out"},
    ],
    ids=["held out", "gammas", "both", "criterion"],
)
def test_choices_of_strength_and_gamma_serve_all_labels(settings, table):
    X, Y, T = table
    model = KernelClassifier("exact", random_state=0, **settings).fit(X, Y)
    assert np.mean(model.predict(X) == Y) > 0.8
    assert model.predict_proba(T).shape == (50, 3)
    if "gamma_path" in settings:
        path = model.gamma_path_
        assert path["score"].shape == (3,)
        assert model.feature_map_.kernel_.gamma == path["gamma"][path["score"].argmax()]


def test_all_forms_of_indicators_give_one_model(table, fitted):
    X, Y, T = table
    expected = fitted.decision_function(T)
    frame = pd.DataFrame(Y, columns=["red", "green", "blue"])
    mixed = frame.astype({"red": bool, "green": float})
    for form in (Y.astype(bool), Y.astype(float), Y.tolist(), frame, mixed, sparse.csr_array(Y)):
        model = clone(fitted).fit(X, form)
        np.testing.assert_array_equal(model.decision_function(T), expected)
        np.testing.assert_array_equal(model.predict(T), fitted.predict(T))
    assert fitted.predict(T).dtype == Y.dtype
    assert clone(fitted).fit(X, Y.astype(bool)).predict(T).dtype == bool
    np.testing.assert_allclose(clone(fitted).fit(sparse.csr_array(X), Y).predict(X).shape, Y.shape)


def test_a_kernel_matrix_gives_the_same_labels(table):
    X, Y, T = table
    kernel = mercer.kernels.Gaussian(0.3)
    K, new = kernel(X), kernel(T, X)
    given = KernelClassifier("exact", kernel="precomputed")
    each = MultiOutputClassifier(given).fit(K, Y)
    expected = np.column_stack([proba[:, 1] for proba in each.predict_proba(new)])
    np.testing.assert_allclose(clone(given).fit(K, Y).predict_proba(new), expected, atol=1e-8)


@pytest.mark.parametrize("loss", ["squared", "logistic", "squared_hinge"])
def test_a_label_that_all_or_no_rows_have_is_constant(loss, table):
    X, Y, T = table
    Y = np.column_stack([np.zeros(len(Y), int), Y[:, 0], np.ones(len(Y), int)])
    model = KernelClassifier("exact", loss=loss).fit(X, Y)
    np.testing.assert_array_equal(model.predict(T)[:, 0], 0)
    np.testing.assert_array_equal(model.predict(T)[:, 2], 1)
    proba = model.predict_proba(T)
    assert proba[:, 0].max() < 0.05
    assert proba[:, 2].min() > 0.95
    alone = KernelClassifier("exact", loss=loss, tol=1e-6).fit(X, Y[:, 1])
    assert (model.predict(T)[:, 1] == alone.predict(T)).mean() > 0.95


def test_scorers_of_scikit_learn_take_labels_and_responses(table, fitted):
    X, Y, _ = table
    assert fitted.classes_.tolist() == [0, 1, 2]
    assert fitted.score(X, Y) == accuracy_score(Y, fitted.predict(X))
    for name in ("roc_auc", "average_precision", "f1_macro", "accuracy"):
        assert 0.5 < get_scorer(name)(fitted, X, Y) <= 1.0
    assert cross_val_score(fitted, X, Y, scoring="roc_auc_ovr", cv=3).mean() > 0.6
    tags = get_tags(fitted)
    assert tags.classifier_tags.multi_label
    assert tags.target_tags.multi_output


def test_files_give_the_same_and_refuse_damage(table, fitted, tmp_path):
    T = table[2]
    mercer.persistence.save(fitted, tmp_path / "labels.mercer")
    model = mercer.persistence.load(tmp_path / "labels.mercer")
    np.testing.assert_array_equal(model.predict_proba(T), fitted.predict_proba(T))
    np.testing.assert_array_equal(model.predict(T), fitted.predict(T))
    damages = [
        ("classes_", fitted.classes_[:2]),
        ("_values_", np.array([1, 2])),
        ("_probabilities_", fitted._probabilities_[:2]),
        ("_probabilities_", fitted._probabilities_[0]),
        ("_probabilities_", [None] * 3),
    ]
    for name, wrong in damages:
        damaged = pickle.loads(pickle.dumps(fitted))
        damaged.__dict__[name] = wrong
        with pytest.raises(ValueError, match=f"^{name} of a fitted .* must .*: fit it again"):
            pickle.loads(pickle.dumps(damaged))


def test_warm_starts_and_new_numbers_of_labels(table):
    X, Y, T = table
    model = KernelClassifier("fourier", solver="cg", warm_start=True, random_state=0).fit(X, Y)
    assert model.fit(X, Y).n_iter_ <= 1
    assert model.fit(X, Y[:, :2]).predict(T).shape == (50, 2)
    assert model.fit(X, Y[:, 0]).predict(T).shape == (50,)
    assert model.classes_.shape == (2,)


def test_shapley_values_have_an_output_per_label(table):
    X, Y, _ = table
    model = KernelClassifier("exact", kernel="gaussian").fit(X, Y)
    found = mercer.explain.shapley_values(model, X[:4], X[:20])
    assert np.asarray(found.values).shape == (4, 4, 3)
    assert list(found.output_names) == [0, 1, 2]


def test_onnx_refuses_several_labels_in_one_sentence(fitted):
    pytest.importorskip("onnx")
    with pytest.raises(ValueError, match="one label for a row; ONNX does not express several"):
        mercer.onnx.to_onnx(fitted)


def test_bad_labels_are_refused_in_one_sentence(table):
    X, Y, _ = table
    model, each = KernelClassifier(), r".*sklearn\.multioutput\.MultiOutputClassifier"
    rule = r"^y must hold 0 and 1 alone .* got .*"
    texts = np.where(Y, "yes", "no")
    for wrong, shown in ((Y + 1, "2"), (Y * 0.5, "0.5"), (texts, "'(yes|no)'"), (-Y, "-1")):
        with pytest.raises(ValueError, match=rf"{rule}{shown}{each}"):
            model.fit(X, wrong)
    with pytest.raises(ValueError, match="y has 1 missing label, the first in row 3"):
        model.fit(X, np.where(np.arange(480).reshape(160, 3) == 9, np.nan, Y))
    with pytest.raises(ValueError, match=r"as many columns in every row; .*MultiLabelBinarizer"):
        model.fit(X, [[1, 2]] + [[1]] * 159)
    for weight in ("balanced", {0: 1.0, 1: 2.0}):
        with pytest.raises(ValueError, match=rf"^class_weight must be None .* columns;{each}"):
            KernelClassifier(class_weight=weight).fit(X, Y)


@pytest.mark.parametrize(
    "model",
    [
        mercer.SparseKernelClassifier(),
        mercer.DoublySGDClassifier(),
        mercer.DualKernelSVC(),
    ],
    ids=lambda model: type(model).__name__,
)
def test_other_classifiers_name_the_remedy(model, table):
    said = rf"^y must have one label .* 3 columns, .*MultiOutputClassifier\({type(model).__name__}"
    with pytest.raises(ValueError, match=said):
        model.fit(*table[:2])
    tags = get_tags(model)
    assert not tags.classifier_tags.multi_label
    assert not tags.target_tags.multi_output
