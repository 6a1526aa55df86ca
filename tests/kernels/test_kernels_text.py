"""The n-gram kernel counts what scikit-learn's vectorizers count."""

import pickle

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer

import mercer.kernels.text
from mercer import kernels
from mercer.kernels import NGram

TEXTS = [
    "The quick brown fox jumps over the lazy dog.",
    "The lazy dog sleeps; the fox jumps over it, the fox!",
    "Nothing at all in common",
    "the quick brown fox",
    "",
]


def test_examples_run(check_examples):
    check_examples(mercer.kernels.text)


@pytest.mark.parametrize("analyzer", ["word", "char"])
@pytest.mark.parametrize("orders", [(1,), (3,), (1, 2, 3)])
def test_counts_are_those_of_scikit_learn(analyzer, orders):
    counts = CountVectorizer(analyzer=analyzer, ngram_range=(orders[0], orders[-1]))
    Z = counts.fit_transform(TEXTS).astype(float)
    kernel = NGram(orders, analyzer, normalize=False)
    expected = (Z @ Z.T).toarray()
    np.testing.assert_array_equal(kernel(TEXTS), expected)
    np.testing.assert_array_equal(kernel(TEXTS[:2], TEXTS[1:]), expected[:2, 1:])
    np.testing.assert_array_equal(kernel.diag(TEXTS), np.diag(expected))


def test_normalized_is_the_cosine_of_the_counts():
    cosines = TfidfVectorizer(use_idf=False, ngram_range=(1, 3), stop_words="english")
    Z = cosines.fit_transform(TEXTS)
    kernel = NGram(stop_words="english")
    np.testing.assert_allclose(kernel(TEXTS), (Z @ Z.T).toarray(), rtol=0, atol=1e-14)
    np.testing.assert_array_equal(kernel(TEXTS).diagonal(), kernel.diag(TEXTS))
    np.testing.assert_allclose(kernel.diag(TEXTS), [1, 1, 1, 1, 0], rtol=1e-14)


def test_orders_need_not_be_consecutive():
    one, three = (NGram((n,), normalize=False)(TEXTS) for n in (1, 3))
    np.testing.assert_array_equal(NGram((3, 1), normalize=False)(TEXTS), one + three)
    assert NGram([3, 1, 1]) == NGram((1, 3))


def test_is_positive_semidefinite():
    assert np.linalg.eigvalsh(NGram()(TEXTS)).min() > -1e-12


@pytest.mark.parametrize(
    "form", [tuple, np.array, pd.Series, lambda t: pd.Series(t, dtype="string")]
)
def test_every_sequence_of_texts_is_data(form):
    np.testing.assert_array_equal(NGram()(form(TEXTS)), NGram()(TEXTS))


def test_is_a_value_with_a_name_and_no_scale():
    assert kernels.get("ngram") == NGram() == pickle.loads(pickle.dumps(NGram()))
    assert hash(NGram([1, 2])) == hash(NGram((1, 2)))
    with pytest.raises(ValueError, match="gamma must be left out beside kernel='ngram'"):
        kernels.get("ngram", 2.0)


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: NGram(orders=()), ValueError, r"orders must hold at least one integer; got \(\)"),
        (lambda: NGram(orders=(0,)), ValueError, "orders must be at least 1; got 0"),
        (lambda: NGram(orders=(1.5,)), TypeError, "orders must be an integer; got 1.5"),
        (lambda: NGram(orders=3), TypeError, "orders must be a tuple of integers; got 3"),
        (lambda: NGram(analyzer="line"), ValueError, "analyzer must be one of 'word', 'char'"),
        (lambda: NGram(stop_words="french"), ValueError, "stop_words must be one of 'english'"),
        (lambda: NGram((1,), "char", "english"), ValueError, "stop_words must be None for"),
        (lambda: NGram(normalize=1), TypeError, "normalize must be True or False; got 1"),
        (lambda: NGram()("a text"), TypeError, "X must be a sequence of texts; got str"),
        (lambda: NGram()(["a"], 3), TypeError, "Y must be a sequence of texts; got int"),
        (lambda: NGram()([["a", "b"]]), ValueError, r"one dimension; got shape \(1, 2\)"),
        (lambda: NGram()(["a", None]), TypeError, "texts alone; got None in place 1"),
        (lambda: NGram()([1.0, 2.0]), TypeError, "texts alone; got 1.0 in place 0"),
        (lambda: NGram()(sparse.eye_array(2)), TypeError, "a sequence of texts; got dia_array"),
    ],
)
def test_what_makes_no_sense_is_refused_in_one_sentence(make, error, message):
    with pytest.raises(error, match=message):
        make()
