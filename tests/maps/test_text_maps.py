"""Hashed n-grams: mean and variance over hash functions, n-grams never put together (T-F12)."""

import pickle

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline

import mercer.maps.text
from mercer import KernelClassifier, KernelRegressor, maps, persistence
from mercer.kernels import Gaussian, NGram
from mercer.maps import HashedNGrams, Nystroem

STANDARD_ERRORS = 5.0
N_PAIRS = 20_000

TEXTS = [
    "the cat sat on the mat",
    "the cat ran off",
    "a dog sat on the cat, the dog!",
    "",
    "Über den Wolken",
    "the the the the",
]


def plain(**settings):
    return HashedNGrams(**({"normalize": False, "random_state": 0} | settings))


def test_examples_run(check_examples):
    check_examples(mercer.maps.text)


def products(x, y, n_components, signed):
    """Of many pairs of texts with x[j] and y[j] of the j-th of their words, which are their own."""
    texts = []
    for counts in (x, y):
        for pair in range(N_PAIRS):
            texts.append(" ".join(f"word{pair}x{j} " * count for j, count in enumerate(counts)))
    hashed = plain(orders=(1,), signed=signed, n_components=n_components)
    Z = hashed.fit_transform(texts).toarray()
    return (Z[:N_PAIRS] * Z[N_PAIRS:]).sum(axis=1)


@pytest.mark.parametrize("n_components", [4, 7])
def test_signed_products_are_unbiased_with_the_known_variance(n_components):
    x, y = np.array([3, 1, 0, 2]), np.array([1, 2, 2, 1])
    found = products(x, y, n_components, True)
    squares, own = np.outer(x**2, y**2), np.outer(x * y, x * y)
    variance = (squares + own).sum() - np.trace(squares + own)
    variance = variance / n_components
    assert abs(found.mean() - x @ y) < STANDARD_ERRORS * np.sqrt(variance / N_PAIRS)
    assert found.var() == pytest.approx(variance, rel=0.05)


def test_unsigned_products_are_biased_by_collisions():
    x, y, n_components = np.array([3, 1, 0, 2]), np.array([1, 2, 2, 1]), 5
    found = products(x, y, n_components, False)
    bias = (np.outer(x, y).sum() - x @ y) / n_components
    error = abs(found.mean() - (x @ y + bias))
    assert error < STANDARD_ERRORS * found.std() / np.sqrt(N_PAIRS)
    assert bias > 2 * STANDARD_ERRORS * found.std() / np.sqrt(N_PAIRS)


@pytest.mark.parametrize("signed", [True, False])
@pytest.mark.parametrize("analyzer", ["word", "char"])
def test_rolling_hashes_are_those_of_materialised_ngrams(analyzer, signed):
    joint = " " if analyzer == "word" else ""
    settings = {"analyzer": analyzer, "signed": signed, "n_components": 50}
    together = plain(orders=(2, 3), **settings).fit_transform(TEXTS).toarray()
    split = maps.HashedNGrams(analyzer=analyzer).fit(TEXTS)._tokens()
    for text, row in zip(TEXTS, together, strict=True):
        tokens, expected = split(text), np.zeros(50)
        for order in (2, 3):
            grams = [joint.join(tokens[i : i + order]) for i in range(len(tokens) - order + 1)]
            if grams:
                alone = plain(orders=(order,), **settings).fit_transform(grams)
                expected += alone.sum(axis=0)
        np.testing.assert_allclose(row, expected, atol=1e-12)


@pytest.mark.parametrize("normalize", [True, False])
@pytest.mark.parametrize("orders", [(1,), (1, 2, 3), (3,)])
@pytest.mark.parametrize("analyzer", ["word", "char"])
def test_without_collisions_products_are_the_ngram_kernel(normalize, orders, analyzer):
    settings = {"orders": orders, "analyzer": analyzer, "normalize": normalize}
    fitted = HashedNGrams(2**22, random_state=0, **settings).fit(TEXTS)
    Z = fitted.transform(TEXTS)
    assert fitted.kernel_ == NGram(**settings)
    np.testing.assert_allclose((Z @ Z.T).toarray(), NGram(**settings)(TEXTS), atol=1e-12)


def test_columns_and_signs_are_uniform():
    words = [f"w{i}" for i in range(20_000)]
    Z = plain(n_components=10, orders=(1,)).fit_transform(words)
    counts = np.bincount(Z.indices, minlength=10)
    assert abs(counts - 2000).max() < STANDARD_ERRORS * np.sqrt(2000 * 0.9)
    assert abs(Z.data.sum()) < STANDARD_ERRORS * np.sqrt(20_000)


@pytest.mark.rounding
def test_block_equals_columns_of_transform():
    fitted = plain(n_components=30).fit(TEXTS)
    Z = fitted.transform(TEXTS)
    assert isinstance(Z, sparse.csr_array)
    assert Z.shape == (6, 30)
    for columns in ([0], [29, 0, 3, 3], []):
        block = fitted.transform_block(TEXTS, columns)
        np.testing.assert_array_equal(block, Z.toarray()[:, np.array(columns, dtype=int)])


@pytest.mark.rounding
def test_texts_do_not_depend_on_each_other_or_on_their_pieces(monkeypatch):
    fitted = plain(n_components=30).fit(TEXTS)
    Z = fitted.transform(TEXTS).toarray()
    for i, text in enumerate(TEXTS):
        np.testing.assert_array_equal(fitted.transform([text]).toarray()[0], Z[i])
    monkeypatch.setattr(mercer.maps.text, "_PIECE", 10)
    np.testing.assert_array_equal(fitted.transform(TEXTS).toarray(), Z)
    monkeypatch.setattr(mercer.maps.text, "_REMEMBERED", 2)
    by_function = plain(n_components=30, analyzer=words).fit(TEXTS)
    np.testing.assert_array_equal(by_function.transform(TEXTS).toarray(), Z)
    np.testing.assert_array_equal(fitted.transform_block(TEXTS, np.arange(30)), Z)


@pytest.mark.rounding
@pytest.mark.parametrize(
    "form", [list, tuple, np.array, pd.Series, lambda texts: np.array(texts, dtype=object)]
)
def test_every_sequence_of_texts_is_the_same(form):
    expected = plain(n_components=30).fit_transform(TEXTS).toarray()
    Z = plain(n_components=30).fit_transform(form(TEXTS))
    np.testing.assert_array_equal(Z.toarray(), expected)


def words(text):
    return maps.HashedNGrams().fit([text])._tokens()(text)


@pytest.mark.rounding
def test_the_core_finds_the_tokens_that_a_function_finds():
    expected = plain(n_components=30, analyzer=words).fit_transform(TEXTS).toarray()
    np.testing.assert_array_equal(plain(n_components=30).fit_transform(TEXTS).toarray(), expected)


def test_a_function_may_find_the_tokens():
    stem = HashedNGrams(analyzer=initials, orders=(1, 2), normalize=False, random_state=0)
    Z = stem.fit_transform(["cat sat", "cup soup"])
    assert abs(Z[[0]] - Z[[1]]).sum() == 0
    assert not hasattr(stem, "kernel_")


def initials(text):
    return [word[0] for word in text.split()]


def test_stop_words_are_left_out_before_runs_are_formed():
    settings = {"stop_words": "english", "orders": (1, 2), "random_state": 0}
    Z = HashedNGrams(**settings).fit_transform(["the cat of the house", "cat house"])
    assert abs(Z[[0]] - Z[[1]]).sum() == 0


def test_state(tmp_path):
    fitted = plain(n_components=30, random_state=None).fit(TEXTS)
    Z = fitted.transform(TEXTS).toarray()
    again = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(again.transform(TEXTS).toarray(), Z)
    persistence.save(fitted, tmp_path / "m.skops")
    again = persistence.load(tmp_path / "m.skops")
    np.testing.assert_array_equal(again.transform(TEXTS).toarray(), Z)
    assert (clone(fitted).fit(TEXTS).transform(TEXTS).toarray() != Z).any()
    with pytest.raises(NotFittedError):
        clone(fitted).transform(TEXTS)
    assert list(fitted.get_feature_names_out()[:2]) == ["hashedngrams0", "hashedngrams1"]
    design = fitted.design(TEXTS)
    np.testing.assert_array_equal(design.toarray(), Z)
    assert fitted.bytes_per_row(np.float64) * len(TEXTS) > design.nbytes / 2


def reviews(n=300):
    rng = np.random.default_rng(0)
    good, bad = ["very good", "not bad", "lovely"], ["not good", "very bad", "awful"]
    y = rng.integers(0, 2, n)
    filler = ["it was", "the film", "and", "really", "a plot"]
    texts = [
        " ".join(
            [*rng.choice(filler, 4), rng.choice(good if label else bad), *rng.choice(filler, 3)]
        )
        for label in y
    ]
    return texts, y


@pytest.mark.parametrize(
    "settings",
    [
        {"feature_map": "ngrams"},
        {"feature_map": HashedNGrams(2**12)},
        {"feature_map": "nystroem", "kernel": "ngram", "n_components": 100},
        {"feature_map": Nystroem(NGram((1, 2)), n_components=100, landmarks="rpcholesky")},
        {"feature_map": Nystroem(0.5 * NGram((1, 2)), n_components=100, landmarks="leverage")},
    ],
    ids=str,
)
def test_estimators_take_texts(settings, tmp_path):
    texts, y = reviews()
    model = KernelClassifier(random_state=0, **settings).fit(texts[:200], y[:200])
    assert model.score(texts[200:], y[200:]) == 1.0
    assert model.scaler_ is None
    persistence.save(model, tmp_path / "m.skops")
    again = persistence.load(tmp_path / "m.skops")
    scores = model.decision_function(texts)
    np.testing.assert_array_equal(again.decision_function(np.array(texts)), scores)
    number = KernelRegressor(random_state=0, **settings).fit(pd.Series(texts[:200]), y[:200])
    assert number.score(texts[200:], y[200:]) > 0.7
    assert number.predict(texts).dtype == np.float64


def test_weights_continued_fits_and_cross_validation_of_texts():
    texts, y = reviews()
    counts = np.random.default_rng(0).integers(0, 3, len(y))
    model = KernelClassifier("ngrams", random_state=0, tol=1e-9, warm_start=True)
    weighted = model.fit(texts, y, sample_weight=counts).decision_function(texts)
    assert model.fit(texts, y, sample_weight=counts).n_iter_ <= 2
    repeated = clone(model).fit(np.repeat(texts, counts), np.repeat(y, counts))
    np.testing.assert_allclose(repeated.decision_function(texts), weighted, atol=1e-6)
    assert cross_val_score(KernelClassifier("ngrams", random_state=0), texts, y).mean() > 0.95
    pipeline = make_pipeline(HashedNGrams(random_state=0), KernelClassifier("linear", scale=False))
    assert pipeline.fit(texts, y).score(texts, y) == 1.0


def test_nystroem_of_texts_with_all_landmarks_is_the_kernel():
    for landmarks in ("uniform", TEXTS):
        Z = Nystroem(NGram(), landmarks=landmarks).fit_transform(TEXTS)
        np.testing.assert_allclose(Z @ Z.T, NGram()(TEXTS), atol=1e-9)
    fitted = Nystroem("ngram", n_components=3, random_state=0).fit(TEXTS)
    Z = fitted.transform(TEXTS)
    np.testing.assert_allclose(fitted.transform_block(TEXTS, [1, 0]), Z[:, [1, 0]], atol=1e-12)


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"n_components": 0}, ValueError, "n_components must be at least 1; got 0"),
        ({"n_components": 2**31}, ValueError, "n_components must be at most 2147483647; got"),
        ({"orders": (0,)}, ValueError, "orders must be at least 1; got 0"),
        ({"orders": ()}, ValueError, "orders must hold at least one integer"),
        ({"signed": 1}, TypeError, "signed must be True or False; got 1"),
        ({"normalize": "l2"}, TypeError, "normalize must be True or False; got 'l2'"),
        ({"analyzer": "words"}, ValueError, "analyzer must be one of 'word', 'char'; got 'words'"),
        ({"stop_words": "german"}, ValueError, "stop_words must be one of 'english'; got 'german'"),
        ({"analyzer": initials, "stop_words": "english"}, ValueError, "stop_words must be None"),
        ({"analyzer": lambda text: [1]}, TypeError, "analyzer must return a list of strings; .* 1"),
        ({"n_jobs": 0}, ValueError, "n_jobs must not be 0"),
        ({"random_state": -1}, ValueError, "random_state must be at least 0; got -1"),
    ],
)
def test_bad_settings_are_refused_in_one_sentence(settings, error, message):
    with pytest.raises(error, match=message):
        HashedNGrams(**settings).fit_transform(TEXTS)


@pytest.mark.parametrize(
    ("texts", "error", "message"),
    [
        ("one text", TypeError, "X must be a sequence of texts; got str"),
        ([], ValueError, "X must hold at least one text; got none"),
        ([["a"]], ValueError, "X must be a sequence of texts, with one dimension"),
        (["a", None], TypeError, "X must hold texts alone; got None in place 1"),
        (np.eye(2), ValueError, "X must be a sequence of texts, with one dimension"),
        ([1.0, 2.0], TypeError, "X must hold texts alone; got 1.0 in place 0"),
    ],
)
def test_what_is_no_text_is_refused_in_one_sentence(texts, error, message):
    for estimator in (HashedNGrams(), KernelClassifier("ngrams")):
        with pytest.raises(error, match=message):
            estimator.fit(texts, [0, 1])


def test_what_does_not_apply_is_refused():
    with pytest.raises(ValueError, match="gamma must be left out for feature_map='ngrams'"):
        KernelClassifier("ngrams", gamma=0.5).fit(TEXTS, range(6))
    with pytest.raises(ValueError, match="landmarks must not be 'kmeans' for texts"):
        Nystroem("ngram", n_components=2, landmarks="kmeans").fit(TEXTS)
    with pytest.raises(ValueError, match="gamma_path must be left out"):
        KernelClassifier("ngrams", gamma_path=[1.0]).fit(TEXTS, [0, 1] * 3)
    with pytest.raises(ValueError, match=r"inconsistent numbers of samples"):
        KernelClassifier("ngrams").fit(TEXTS, [0, 1])
    assert not maps.takes_text(Gaussian())


@pytest.mark.parametrize("analyzer", [lambda: ["a"], lambda text, order: [text]])
def test_analyzers_that_do_not_take_a_text_are_refused(analyzer):
    with pytest.raises(TypeError, match="analyzer must be a function of a text; got "):
        plain(analyzer=analyzer).fit(TEXTS)
