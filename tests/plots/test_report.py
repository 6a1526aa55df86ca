"""A report says what its model knows, in one file that is whole, and takes no name for markup."""

import pickle
import re
import warnings
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, r2_score
from sklearn.pipeline import make_pipeline

from mercer import (
    AutoKernelClassifier,
    AutoKernelRegressor,
    DualKernelSVC,
    KernelClassifier,
    KernelRegressor,
    LocalKernelRegressor,
    SparseKernelRegressor,
    TablePreparer,
    persistence,
)
from mercer.auto.ledger import trials_of
from mercer.plots import page, report, report_words, write_report
from mercer.plots.report_use import Origin

pytest.importorskip("matplotlib")

HOSTILE = [
    "<script>alert(1)</script>",
    "$x^$ " + "a very long name " * 20,
    "line\nand \x00 control",
    "quote\" and 'single' & &amp;",
    "汉字",
]


class Page(HTMLParser):
    """Tags that are open, all that were met, and the texts."""

    EMPTY = frozenset({"meta", "br", "link"})

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.open, self.tags, self.ids, self.texts = [], [], [], []
        self.links = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        given = dict(attributes)
        self.ids += [given["id"]] if "id" in given else []
        self.links += [v for k, v in attributes if k in ("src", "href", "xlink:href")]
        if tag not in self.EMPTY:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.handle_starttag(tag, attributes)
        if tag not in self.EMPTY:
            self.open.pop()

    def handle_endtag(self, tag):
        assert self.open, tag
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)

    @property
    def text(self):
        return " ".join(" ".join(self.texts).split())


def written(tmp_path, model, *args, **kwargs):
    """A page about a model, which is well formed and takes nothing from elsewhere."""
    path = tmp_path / "page.html"
    write_report(model, path, *args, **kwargs)
    page = Page(path.read_text("utf-8"))
    assert not page.open
    assert "script" not in page.tags
    assert len(set(page.ids)) == len(page.ids)
    assert all(link.startswith(("#", "data:image/png;base64,")) for link in page.links)
    assert {link[1:] for link in page.links if link.startswith("#")} <= set(page.ids)
    return page


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 3))
    return X, np.sin(2 * X[:, 1]) + 0.3 * X[:, 0] + 0.1 * rng.normal(size=400)


@pytest.fixture(scope="module")
def frame(rows):
    X, _ = rows
    table = pd.DataFrame({name: X[:, j % 3] ** (1 + j) for j, name in enumerate(HOSTILE[:-1])})
    table[HOSTILE[-1]] = np.where(X[:, 0] > 0, "<b>", "a&b")
    return table


@pytest.fixture(scope="module")
def regressor(rows):
    X, y = rows
    return AutoKernelRegressor(random_state=0).fit(X[:300], y[:300])


def test_scores_are_those_of_the_rows_given(tmp_path, regressor, rows):
    X, y = rows
    page = written(tmp_path, regressor, X[300:], y[300:], title="Tides")
    assert page.text.count("Tides") == 2
    assert f"R² {r2_score(y[300:], regressor.predict(X[300:])):.4g}" in page.text
    for heading in ("How good it is", "Which inputs matter", "What was tried", "How to use it"):
        assert heading in page.text
    n_tried = len(trials_of(regressor.search_results_)["loss"])
    assert f"{n_tried} settings were tried" in page.text
    assert f"All {n_tried} trials" in page.text
    assert "stage of the search seconds share preparation" in page.text
    assert "exact kernel machine of 300 rows" in page.text


def test_the_page_draws_what_fits_the_task(tmp_path, regressor, rows):
    X, y = rows
    numbers = written(tmp_path, regressor, X[300:], y[300:]).text
    assert "Errors, true minus predicted, against predictions" in numbers
    assert "ROC curve" not in numbers
    assert "rung" not in numbers.lower()
    assert "stage 1" in numbers
    labels = np.where(y > 0, "high", "low")
    model = KernelClassifier(random_state=0).fit(X[:300], labels[:300])
    classes = written(tmp_path, model, X[300:], labels[300:]).text
    for words in ("ROC curve", "Predicted classes, as shares", "Probabilities against what came"):
        assert words in classes
    assert "task classification" in classes
    one = written(tmp_path, model, X[300:][y[300:] > 0], labels[300:][y[300:] > 0]).text
    assert "ROC curve" not in one


def test_without_rows_the_page_shows_predictions_of_held_out_rows(tmp_path, rows):
    X, y = rows
    labels = np.where(y > 0, "up", "down")
    classifier = AutoKernelClassifier(random_state=0).fit(X, labels)
    text = written(tmp_path, classifier).text
    assert f"On {len(classifier.held_out_['row'])} held-out rows" in text
    for words in ("ROC curve", "Predicted classes, as shares", "Probabilities against what came"):
        assert words in text
    held = classifier.held_out_
    np.testing.assert_array_equal(held["target"], labels[held["row"]])
    assert np.mean(held["target"] == held["predicted"]) == classifier.validation_score_
    assert held["probabilities"].shape == (len(held["row"]), 2)


def test_held_out_rows_of_numbers_are_drawn_and_are_no_part_of_files(tmp_path, regressor, rows):
    held, y = regressor.held_out_, rows[1]
    np.testing.assert_allclose(held["target"], y[held["row"]], rtol=1e-6)
    score = r2_score(held["target"], held["predicted"])
    assert score == pytest.approx(regressor.validation_score_, abs=1e-6)
    assert "Errors, true minus predicted, against predictions" in written(tmp_path, regressor).text
    assert not hasattr(pickle.loads(pickle.dumps(regressor)), "held_out_")
    persistence.save(regressor, tmp_path / "m.skops")
    again = persistence.load(tmp_path / "m.skops")
    assert not hasattr(again, "held_out_")
    assert "Errors, true minus predicted" not in written(tmp_path, again).text


def test_a_page_of_the_command_line_tells_rows_task_and_commands(tmp_path, regressor):
    origin = Origin("my model.skops", 1300, 2, "task: regression, the target has fractions")
    report.write_page(regressor, tmp_path / "page.html", None, None, None, origin)
    text = Page((tmp_path / "page.html").read_text("utf-8")).text
    assert "Fitted to 1 300 rows, 2 without a target left out." in text
    assert "Task: regression, the target has fractions." in text
    assert "mercer predict 'my model.skops' new.csv --out predictions.csv" in text


def test_without_rows_it_tells_what_the_search_held_out(tmp_path, regressor):
    page = written(tmp_path, regressor)
    assert "rows that the search held out" in page.text
    assert "No test rows were given" in page.text
    name, value, n_rows = report_words.validation(regressor)
    assert f"On {n_rows} rows" in page.text
    assert f"{name} {value:.4f}" in page.text


def test_classes_with_hostile_names_stay_names(tmp_path, frame, rows):
    y = np.where(rows[1] > 0, "<i>yes</i> $x^$", "no & never")
    model = AutoKernelClassifier(random_state=0).fit(frame[:300], y[:300])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        page = written(tmp_path, model, frame[300:], y[300:], title="<b>bold</b>")
    assert "i" not in page.tags
    assert "b" not in page.tags
    assert "<b>bold</b>" in page.text
    assert HOSTILE[0] in page.text
    assert "汉字" in page.text
    assert "<i>yes" in page.text
    assert "of no & never" in page.text
    assert "\x00" not in (tmp_path / "page.html").read_text("utf-8")
    assert f"accuracy {accuracy_score(y[300:], model.predict(frame[300:])):.4g}" in page.text


@pytest.mark.parametrize("n_classes", [3, 40])
def test_many_classes(tmp_path, n_classes):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 2))
    y = np.arange(400) % n_classes
    model = KernelClassifier("binning", random_state=0).fit(X, y)
    page = written(tmp_path, model, X, y[::-1])
    assert "The confusions that occur most often" in page.text
    assert ("as shares of the rows of every true class" in page.text) == (n_classes == 3)


def test_labels_that_the_model_has_not_seen(tmp_path, rows):
    X, y = rows
    model = KernelClassifier("binning", loss="logistic", random_state=0).fit(
        X, np.where(y > 0, 1, 2)
    )
    page = written(tmp_path, model, X, np.where(y > 0.5, 3, 2))
    assert "mean −log probability" not in page.text
    with pytest.raises(ValueError, match=r"y must hold classes of the model, which are \[1, 2\]"):
        write_report(model, tmp_path / "other.html", X, np.full(400, "2"))


def test_labels_of_several_outputs_are_refused(tmp_path, rows):
    X, y = rows
    model = KernelClassifier("binning", random_state=0).fit(X, y > 0)
    with pytest.raises(ValueError, match=r"y must have one label for every row; got shape .400, 2"):
        write_report(model, tmp_path / "page.html", X, np.column_stack([y, y]) > 0)


def _estimators():
    regressors = [
        KernelRegressor("fourier", alphas=[1e-5, 1e-3], solver="cg", random_state=0),
        KernelRegressor("exact", gamma_path=[0.1, 1.0], random_state=0),
        SparseKernelRegressor(n_new=16, max_rounds=4, random_state=0),
        LocalKernelRegressor(leaf_size=100, random_state=0),
        make_pipeline(TablePreparer(), KernelRegressor("binning", random_state=0)),
    ]
    classifiers = [DualKernelSVC(), LogisticRegression()]
    return [(m, False) for m in regressors] + [(m, True) for m in classifiers]


@pytest.mark.parametrize(("model", "is_classifier"), _estimators(), ids=lambda m: str(m)[:20])
def test_other_estimators_have_pages_too(tmp_path, rows, model, is_classifier):
    X, y = rows
    y = y > 0 if is_classifier else y
    model = model.fit(X[:300, :2], y[:300])
    page = written(tmp_path, model, X[300:, :2], y[300:])
    assert "standard error" in page.text
    assert "figure" in page.tags
    assert "How to use it" in written(tmp_path, model).text


def test_several_outputs_and_sparse_rows(tmp_path, rows):
    X, y = rows
    both = KernelRegressor("binning", random_state=0).fit(X, np.column_stack([y, -y]))
    assert "first output" in written(tmp_path, both, X, np.column_stack([y, -y])).text
    csr = sparse.csr_array(np.where(abs(X) > 1, X, 0))
    model = AutoKernelRegressor(random_state=0).fit(csr, y)
    assert "The model is linear in" in written(tmp_path, model, csr, y).text


@pytest.mark.parametrize(
    ("feature_map", "said"),
    [
        ("exact", "is the exact kernel machine of 400 rows"),
        ("nystroem", "is a kernel machine in the span of 50 landmarks"),
    ],
)
def test_pages_name_the_form_of_the_machine(rows, feature_map, said):
    X, y = rows
    settings = {"n_components": 50} if feature_map == "nystroem" else {}
    model = KernelRegressor(feature_map, **settings, random_state=0).fit(X, y)
    assert said in report_words._form(model)


def test_errors_are_one_sentence_and_leave_no_file(tmp_path, regressor, rows, monkeypatch):
    X, y = rows
    path = tmp_path / "page.html"
    with pytest.raises(TypeError, match="model must be a fitted estimator; got object"):
        write_report(object(), path)
    with pytest.raises(NotFittedError):
        write_report(AutoKernelRegressor(), path)
    with pytest.raises(ValueError, match="y must be given beside the other one"):
        write_report(regressor, path, X)
    with pytest.raises(ValueError, match="y must have the 400 rows of X; got 2"):
        write_report(regressor, path, X, y[:2])
    assert list(tmp_path.iterdir()) == []
    path.write_text("before")

    def fail(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(page, "write_atomically", fail)
    with pytest.raises(OSError, match="No space left"):
        write_report(regressor, path)
    assert path.read_text() == "before"


def test_a_model_that_cannot_be_pickled_has_a_page(tmp_path, rows):
    X, y = rows
    model = KernelRegressor("exact", kernel=lambda A, B: A @ B.T).fit(X, y)
    assert "unknown" in written(tmp_path, model).text


def test_the_page_is_the_same_but_for_time(tmp_path, regressor):
    pages = [str(written(tmp_path, regressor).texts) for _ in range(2)]
    pages = [re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d", "", each) for each in pages]
    assert pages[0] == pages[1]


def test_standard_errors_are_those_of_theory():
    rng = np.random.default_rng(0)
    y, predicted = rng.integers(2, size=2000), rng.integers(2, size=2000)
    scores = {s.name: s for s in report_words.measured(y, predicted, None, np.arange(2))}
    accuracy = scores["accuracy"]
    assert accuracy.value == np.mean(y == predicted)
    np.testing.assert_allclose(accuracy.error, 0.5 / np.sqrt(2000), rtol=0.25)
    many = {s.name: s for s in report_words.measured(*np.tile([y, predicted], 10), None, [0, 1])}
    np.testing.assert_allclose(many["accuracy"].error, 0.5 / np.sqrt(20_000), rtol=0.25)
    perfect = report_words.measured(y, y.astype(float))
    assert [s.error for s in perfect] == [0, 0, 0]
    proba = np.column_stack([1 - y, y]) * 0.8 + 0.1
    sure = {s.name: s for s in report_words.measured(y, y, proba, np.arange(2))}
    np.testing.assert_allclose(sure["mean −log probability"].value, -np.log(0.9))
    assert sure["area under the ROC curve"].value == 1
    np.testing.assert_allclose(sure["mean −log probability"].constant, np.log(2), rtol=1e-2)


def test_two_sets_of_trees_are_told_apart():
    from types import SimpleNamespace

    rng = np.random.default_rng(0)
    machine = LocalKernelRegressor(leaf_size=50, random_state=0).fit(
        rng.normal(size=(99, 2)), range(99)
    )
    chosen = {"numbers": "robust", "max_integers": 9, "power": 0.5, "turned": True}
    chosen |= {
        "labels": "words",
        "scales": "machine",
        "kernel": "laplacian",
        "gamma": 2.0,
        "ridge": 0.1,
    }
    model = SimpleNamespace(
        best_settings_=chosen | {"transform": "log"},
        partner_settings_=chosen | {"numbers": "quantile", "scales": "cosines"},
        search_results_={"loss": np.ones(1200)},
        interrupted_=True,
        kernel_machine_=machine,
    )
    words = report_words.words_of_choice(model)
    assert "4 trees cut 99 rows into" in words[4]
    assert words[1].startswith("Labels also count by the words")
    assert words[2] != words[9]
    assert "logarithm" in words[5]
    assert "ranks" in words[7]
    assert words[-1].startswith("The fit was interrupted")


def test_a_choice_in_words_names_what_was_chosen(regressor):
    words = " ".join(report_words.words_of_choice(regressor))
    chosen = regressor.best_settings_
    assert f"gamma {chosen['gamma']:.3g}" in words
    assert {"laplacian": "Laplacian", "gaussian": "Gaussian"}[chosen["kernel"]] in words


def test_tables_are_escaped_shortened_and_bounded():
    html = page.table(("<a>", "n"), [("<td>" * 100, 0.123456)] * 5, most=2)
    assert "&lt;a&gt;" in html
    assert "<td><td>" not in html
    assert "0.1235" in html
    assert "and 3 more" in html
