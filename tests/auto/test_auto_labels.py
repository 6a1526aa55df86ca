"""Several labels per row of an automatic classifier: one search and one model for all of them."""

import pickle

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, make_multilabel_classification
from sklearn.metrics import accuracy_score, get_scorer
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.utils import get_tags

import mercer
from _landmarks import limit
from mercer import AutoKernelClassifier, KernelClassifier, LocalKernelClassifier
from mercer.auto import MeanClassifier, search
from mercer.auto.goals import Classes, Indicators
from mercer.auto.parts import splits
from mercer.auto.trials import Settings, log_odds
from mercer.auto.tuning import TUNING
from mercer.estimators.probabilities import Probabilities, SoftMax, log_loss
from mercer.explain import shapley_values
from mercer.plots import write_report


def few(patch):
    """The same search with fewer candidates, which all laws are about, in less time."""
    patch.setattr(TUNING, "powers", {"laplacian": (0.0, 1.0), "gaussian": (1.0,)})
    patch.setattr(TUNING, "folds", 3)


@pytest.fixture(autouse=True)
def few_treatments(monkeypatch):
    few(monkeypatch)


def labelled(n, seed=0, noise=(0.2, 0.5, 1.0)):
    """Rows whose labels depend on other inputs each, with unequal noise and shares."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4))
    signal = np.column_stack([np.sin(2 * X[:, 0]), X[:, 1], X[:, 0] * X[:, 2]])
    return X, (signal + rng.normal(size=(n, 3)) * noise > [0.0, 0.4, 1.0]).astype(int)


@pytest.fixture(scope="module")
def fitted():
    with pytest.MonkeyPatch.context() as patch:
        few(patch)
        X, Y = labelled(500)
        return AutoKernelClassifier(random_state=0).fit(X[:300], Y[:300]), X[300:], Y[300:]


@pytest.mark.parametrize("form", ["dense", "sparse", "leaves", "landmarks", "stages"])
def test_every_label_is_predicted_with_its_probability(form, monkeypatch):
    X, Y = labelled(3300)
    n = 400 if form in ("dense", "sparse") else 2500
    if form == "leaves":
        monkeypatch.setattr(TUNING, "exact_rows", 1000)
        monkeypatch.setattr(TUNING, "leaf_rows", (400, 400))
    if form in ("landmarks", "stages"):
        of_stages = {"least_of_stages": 2000, "stage_rows": (900, 900), "stage_landmarks": 5.0}
        more = of_stages if form == "stages" else {}
        limit(monkeypatch, 100, left_out_inputs=0, landmark_gain=9.0, **more)
    if form == "sparse":
        X = sparse.csr_array(np.where(abs(X) > 0.2, X, 0.0))
    model = AutoKernelClassifier(random_state=0).fit(X[:n], Y[:n])
    assert isinstance(model.kernel_machine_, LocalKernelClassifier) == (form == "leaves")
    assert ("landmarks" in model.search_results_["stage"]) == (form in ("landmarks", "stages"))
    new, truth = X[n:], Y[n:]
    predicted, proba = model.predict(new), model.predict_proba(new)
    assert predicted.shape == proba.shape == model.decision_function(new).shape == truth.shape
    np.testing.assert_array_equal(predicted, proba > 0.5)
    np.testing.assert_array_equal(predicted, model.best_estimator_.predict(new))
    constant = np.maximum(truth.mean(axis=0), 1 - truth.mean(axis=0))
    assert ((predicted == truth).mean(axis=0) > constant).all()
    shares = np.broadcast_to(Y[:n].mean(axis=0), truth.shape)
    assert log_loss(proba, truth) < 0.85 * log_loss(shares, truth)
    held = model.held_out_
    assert log_loss(proba, truth) == pytest.approx(
        log_loss(held["probabilities"], held["target"]), rel=0.15
    )
    assert model.score(new, truth) == accuracy_score(truth, predicted)
    assert model.score(new, truth) == pytest.approx(model.validation_score_, abs=0.1)


def test_columns_in_another_order_have_their_answers_in_that_order(fitted):
    model, new, _ = fitted
    X, Y = labelled(500)
    order = [2, 0, 1]
    other = AutoKernelClassifier(random_state=0).fit(X[:300], Y[:300, order])
    assert other.best_settings_ == model.best_settings_
    np.testing.assert_allclose(
        other.predict_proba(new), model.predict_proba(new)[:, order], atol=1e-5
    )


def test_held_out_log_loss_is_less_than_that_of_fixed_settings():
    X, Y = make_multilabel_classification(900, 10, n_classes=4, random_state=0)
    D = load_breast_cancer().data
    measured = (D[:, 10:14] > np.median(D[:, 10:14], axis=0)).astype(int)
    for rows, labels in ((X, Y), (np.delete(D, range(10, 14), axis=1), measured)):
        order = np.random.default_rng(0).permutation(len(rows))
        own, new = np.split(order, [len(rows) // 2])
        losses = [
            log_loss(model.fit(rows[own], labels[own]).predict_proba(rows[new]), labels[new])
            for model in (AutoKernelClassifier(random_state=0), KernelClassifier(random_state=0))
        ]
        assert losses[0] < losses[1]


def test_the_loss_of_a_search_is_the_mean_over_the_labels(fitted):
    rng = np.random.default_rng(0)
    labels, responses = rng.integers(0, 2, (50, 3)), rng.normal(size=(50, 3))
    rows, weights = rng.permutation(50)[:20], rng.uniform(0.5, 2.0, 50)
    for transform in ("identity", "log-odds"):
        for w in (None, weights / weights.mean()):
            losses, _ = Indicators(labels, w).losses(responses[rows], rows, transform)
            each = [
                Classes(column, 2, w).losses(own[rows, None], rows, transform)[0]
                for column, own in zip(labels.T, responses.T, strict=True)
            ]
            np.testing.assert_allclose(losses, np.mean(each, axis=0))
    all_right = ((responses > 0) == labels)[rows].all(axis=1)
    goal = Indicators(labels)
    assert goal.score(responses[rows], rows, "identity") == pytest.approx(all_right.mean())
    assert fitted[0].search_results_["loss"].shape == fitted[0].search_results_["error"].shape


@pytest.mark.parametrize("n", [300, 3000])
def test_few_rows_of_a_label_are_dealt_evenly(n):
    rng = np.random.default_rng(0)
    labels = (rng.uniform(size=(n, 4)) < [10 / n, 0.3, 1 - 15 / n, 0.6]).astype(int)
    parts = splits(Indicators(labels), 3, n)
    for fitted_rows, held in parts:
        share = len(held) / (len(held) + len(fitted_rows))
        for column in labels.T:
            minority = column == (column.mean() <= 0.5)
            wanted = share * minority[np.concatenate([held, fitted_rows])].sum()
            assert abs(minority[held].sum() - wanted) <= max(2.5, 0.4 * wanted)
            assert 0 < column[held].mean() < 1
            assert 0 < column[fitted_rows].mean() < 1


def test_a_column_of_one_label_is_that_label():
    X, Y = labelled(200)
    flat = AutoKernelClassifier(random_state=0).fit(X, Y[:, 0])
    with pytest.warns(UserWarning, match="column-vector"):
        column = AutoKernelClassifier(random_state=0).fit(X, Y[:, :1])
    np.testing.assert_array_equal(column.predict_proba(X), flat.predict_proba(X))


def test_all_forms_of_indicators_give_one_model(fitted):
    model, new, _ = fitted
    X, Y = labelled(500)
    X, Y = X[:300], Y[:300]
    frame = pd.DataFrame(Y, columns=["red", "green", "blue"])
    for form in (
        Y.astype(bool),
        Y.tolist(),
        frame,
        frame.astype({"red": float}),
        sparse.csr_array(Y),
    ):
        again = clone(model).fit(X, form)
        np.testing.assert_array_equal(again.predict_proba(new), model.predict_proba(new))
        np.testing.assert_array_equal(again.predict(new), model.predict(new))
    assert model.predict(new).dtype == Y.dtype
    assert clone(model).fit(X, Y.astype(bool)).predict(new).dtype == bool
    assert model.fit(X, Y[:, 0]).predict(new).shape == (200,)
    model.fit(X, Y)


def test_texts_are_coded_by_every_label():
    rng = np.random.default_rng(0)
    towns = rng.integers(0, 60, 400)
    X = pd.DataFrame({"town": [f"town {t}" for t in towns], "size": rng.normal(size=400)})
    Y = np.column_stack([rng.uniform(size=60) < 0.5, rng.uniform(size=60) < 0.5])[towns]
    model = AutoKernelClassifier(random_state=0).fit(X[:300], Y[:300])
    assert (model.predict(X[300:]) == Y[300:]).mean() > 0.85
    assert model.columns_["column"].tolist() == ["town", "size"]


def test_a_row_of_weight_0_is_left_out():
    X, Y = labelled(260)
    weights = np.random.default_rng(0).integers(0, 3, 260)
    model = AutoKernelClassifier(random_state=0).fit(X, Y, sample_weight=weights)
    kept = weights > 0
    few_rows = AutoKernelClassifier(random_state=0).fit(X[kept], Y[kept], weights[kept])
    np.testing.assert_array_equal(model.predict_proba(X), few_rows.predict_proba(X))


def test_groups_and_times_decide_which_rows_are_held_out():
    X, Y = labelled(300)
    groups = np.random.default_rng(1).integers(0, 40, 300)
    model = AutoKernelClassifier(random_state=0).fit(X, Y, groups=groups)
    assert model.predict_proba(X).shape == (300, 3)
    by_time = AutoKernelClassifier(time=3, random_state=0).fit(X, Y)
    assert by_time.n_validation_rows_ == 60


def test_labels_that_all_or_no_rows_have_are_constant():
    X, Y = labelled(200)
    Y = np.column_stack([np.zeros(200, int), Y[:, 0], np.ones(200, int)])
    model = AutoKernelClassifier(random_state=0).fit(X, Y)
    np.testing.assert_array_equal(model.predict(X)[:, [0, 2]], Y[:, [0, 2]])
    assert model.predict_proba(X)[:, 0].max() < 0.05
    assert (model.predict(X)[:, 1] == Y[:, 1]).mean() > 0.8


# scorers


@pytest.mark.parametrize("scoring", ["roc_auc", "f1_macro", "accuracy", "average_precision"])
def test_scorers_of_scikit_learn_choose_and_score(scoring):
    X, Y = labelled(300)
    model = AutoKernelClassifier(scoring=scoring, random_state=0).fit(X[:200], Y[:200])
    assert model.decision_threshold_ == 0.5
    expected = get_scorer(scoring)(model, X[200:], Y[200:])
    assert model.score(X[200:], Y[200:]) == expected
    assert model.validation_score_ == pytest.approx(expected, abs=0.15)


def test_a_scorer_that_takes_one_label_per_row_is_refused():
    X, Y = labelled(100)
    with pytest.raises(ValueError, match=r"scoring must .* ended in ValueError: .*multilabel"):
        AutoKernelClassifier(scoring="matthews_corrcoef").fit(X, Y)


def test_tools_of_scikit_learn_take_it(fitted):
    X, Y = labelled(150)
    model = fitted[0]
    tags = get_tags(model)
    assert tags.classifier_tags.multi_label
    assert tags.target_tags.multi_output
    assert model.classes_.tolist() == [0, 1, 2]
    pipeline = make_pipeline("passthrough", AutoKernelClassifier(random_state=0))
    assert cross_val_score(pipeline, X, Y, cv=2).mean() > 0.3


# log odds


def test_labels_that_overlap_are_fitted_by_the_logistic_loss():
    X, Y = labelled(1200, noise=(1.0, 1.5, 2.0))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TUNING, "log_odds_gain", 1.1)
        model = AutoKernelClassifier(random_state=0).fit(X[:1050], Y[:1050])
    assert model.best_settings_["transform"] == "log-odds"
    assert model.kernel_machine_.loss == "logistic"
    assert all(isinstance(map_, SoftMax) for map_ in model.probabilities_.maps)
    assert model.n_validation_rows_ == 1050  # each row left out in turn
    held, new = model.held_out_, model.predict_proba(X[1050:])
    promised = log_loss(held["probabilities"], held["target"])
    assert log_loss(new, Y[1050:]) == pytest.approx(promised, rel=0.15)
    assert log_loss(model.predict_proba(X[:1050]), Y[:1050]) < promised


def test_log_odds_of_labels_are_those_of_each():
    rng = np.random.default_rng(0)
    X, held = rng.normal(size=(60, 2)), rng.normal(size=(7, 2))
    target = np.where(rng.normal(size=(60, 3)) + X[:, :1] > 0, 1.0, -1.0)
    settings = Settings(kernel="gaussian", gamma=0.5)
    for place, found in enumerate(log_odds(settings, X, held, target, [0.3, 3.0])):
        each = [log_odds(settings, X, held, one[:, None], [0.3, 3.0])[place] for one in target.T]
        np.testing.assert_allclose(found, np.hstack(each), atol=0.02)


# files, interruptions, and what serves one label alone


def test_files_give_the_same_and_refuse_damage(fitted, tmp_path):
    model, new, _ = fitted
    mercer.persistence.save(model, tmp_path / "labels.mercer")
    for again in (
        mercer.persistence.load(tmp_path / "labels.mercer"),
        pickle.loads(pickle.dumps(model)),
    ):
        np.testing.assert_array_equal(again.predict_proba(new), model.predict_proba(new))
        np.testing.assert_array_equal(again.predict(new), model.predict(new))
    maps = model.probabilities_.maps
    for name, wrong in (
        ("probabilities_", Probabilities()),
        ("probabilities_", type(model.probabilities_)(maps[:2])),
        ("probabilities_", type(model.probabilities_)([None] * 3)),
        ("classes_", model.classes_[:2]),
    ):
        damaged = pickle.loads(pickle.dumps(model))
        damaged.__dict__[name] = wrong
        with pytest.raises(ValueError, match=r"of a fitted .* must .*: fit it again"):
            pickle.loads(pickle.dumps(damaged))


@pytest.mark.parametrize("after", [0, 3])
def test_an_interrupted_search_leaves_a_model_of_all_labels(monkeypatch, after):
    X, Y = labelled(300)
    calls, plain = iter(range(100)), search.Search._try

    def interrupted(self, *args):
        if next(calls) == after:
            raise KeyboardInterrupt
        return plain(self, *args)

    monkeypatch.setattr(search.Search, "_try", interrupted)
    with pytest.warns(UserWarning, match="fit was interrupted"):
        model = AutoKernelClassifier(random_state=0).fit(X, Y)
    assert model.predict(X).shape == model.predict_proba(X).shape == (300, 3)
    assert ((model.predict(X) == Y).mean(axis=0) > 0.7).all()


def test_importances_and_shapley_values_are_of_all_labels(fitted):
    model, new, _ = fitted
    assert model.feature_importances_.argmin() == 3
    found = shapley_values(model, new[:4])
    assert np.asarray(found.values).shape == (4, 4, 3)
    total = found.base_values + np.asarray(found.values).sum(axis=1)
    np.testing.assert_allclose(total, model.decision_function(new[:4]), atol=1e-3)


def test_a_report_of_held_out_rows_has_the_search_and_no_figures_of_classes(fitted, tmp_path):
    model, new, truth = fitted
    write_report(model, tmp_path / "page.html")
    assert "rows held out" in (tmp_path / "page.html").read_text()
    with pytest.raises(ValueError, match="y must have one label for every row; got shape"):
        write_report(model, tmp_path / "other.html", new, truth)


def test_what_takes_one_label_names_the_remedy(fitted):
    model, new, _ = fitted
    X, Y = labelled(100)
    with pytest.raises(ValueError, match=r"offset must be None for .* of several labels"):
        AutoKernelClassifier().fit(X, Y, offset=np.ones(len(X)))
    with pytest.raises(ValueError, match=r"predict_set needs one label .*MultiOutputClassifier"):
        model.predict_set(new)
    with pytest.raises(ValueError, match=r"class_weight must be None .*MultiOutputClassifier"):
        AutoKernelClassifier(class_weight="balanced").fit(X, Y)
    with pytest.raises(ValueError, match=r"y must hold 0 and 1 alone .*MultiOutputClassifier"):
        AutoKernelClassifier().fit(X, Y + 1)
    pytest.importorskip("onnx")
    with pytest.raises(ValueError, match="one label for a row; ONNX does not express several"):
        mercer.onnx.to_onnx(model)


def test_the_mean_of_pipelines_predicts_labels_of_the_mean_response():
    X, Y = labelled(300)
    pipelines = [
        make_pipeline(
            "passthrough", LocalKernelClassifier(leaf_size=100, n_trees=1, random_state=s)
        )
        for s in range(2)
    ]
    model = MeanClassifier(pipelines).fit(X, Y)
    responses = np.mean([p.decision_function(X) for p in model.pipelines_], axis=0)
    np.testing.assert_allclose(model.decision_function(X), responses, rtol=1e-6)
    np.testing.assert_array_equal(model.predict(X), responses > 0)
