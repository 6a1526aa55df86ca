"""The kernel of texts that counts what runs of words or characters they share."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from mercer._runtime.arrays import Matrix, row_chunks
from mercer._runtime.validation import flag, is_listed, name_from, positive_integer
from mercer.kernels.base import Kernel


@dataclass(frozen=True)
class NGram(Kernel):
    """Dot product, or cosine, of the n-gram counts of two texts.

    Data are sequences of strings: lists, one-dimensional arrays, columns of a data frame. Words are
    those of the ``CountVectorizer`` of scikit-learn: lower case, two letters or more.

    Parameters
    ----------
    orders : tuple of int, default=(1, 2, 3)
        Lengths n of the n-grams counted, each >= 1.
    analyzer : {"word", "char"}, default="word"
        Tokens of a text: words or characters.
    stop_words : {"english"} or None, default=None
        "english" leaves out the most common English words before n-grams are formed.
    normalize : bool, default=True
        Whether the vector of counts is scaled to length 1, so that k(x, x) is 1 for a text with an
        n-gram and 0 for a text without.

    Raises
    ------
    TypeError, ValueError
        If a parameter is invalid, or the data are not texts.

    Examples
    --------
    >>> from mercer.kernels import NGram
    >>> kernel = NGram(orders=(1, 2), normalize=False)
    >>> kernel(["the cat sat", "the cat ran off"], ["a cat sat"])
    array([[3.],
           [1.]])
    """

    orders: Any = (1, 2, 3)
    analyzer: str = "word"
    stop_words: str | None = None
    normalize: bool = True
    takes_text = True
    _other_maps: ClassVar[str] = "feature_map='ngrams' or 'nystroem'"
    _why_no_widths = "it is not a function of numbers"

    def __post_init__(self) -> None:
        object.__setattr__(self, "orders", checked_orders(self.orders))
        tokenizer(self.analyzer, self.stop_words)
        flag(self.normalize, "normalize")

    def diag(self, X: Matrix) -> NDArray:
        counts = self._counts(checked_texts(X, "X"), _numbering())
        return counts.multiply(counts).sum(axis=1)

    def _checked(self, X: Any, name: str) -> Matrix:
        return checked_texts(X, name)

    def _fill(self, out: NDArray, X: Matrix, Y: Matrix) -> None:
        x, y = self.counts(X, None if Y is X else Y)
        y = x if y is None else y
        for rows in row_chunks(x.shape[0], 24.0 * y.shape[0]):
            out[rows] = (x[rows] @ y.T).toarray()
        if Y is X:
            np.fill_diagonal(out, x.multiply(x).sum(axis=1))

    def counts(
        self, X: NDArray, Y: NDArray | None = None
    ) -> tuple[sparse.csr_array, sparse.csr_array | None]:
        """Rows whose inner products are the kernel: (n, D) and (m, D) for checked X and Y.

        There is a column for every n-gram of X and Y; the second one is None where Y is.
        """
        vocabulary = _numbering()
        y = None if Y is None else self._counts(Y, vocabulary)
        x = self._counts(X, vocabulary)
        if y is not None:
            shape = (y.shape[0], len(vocabulary))
            y = sparse.csr_array((y.data, y.indices, y.indptr), shape=shape)
        return x, y

    def _counts(self, texts: NDArray, vocabulary: dict[str, int]) -> sparse.csr_array:
        """The counts of each text's n-grams, which ``vocabulary`` numbers as they are met."""
        tokens = tokenizer(self.analyzer, self.stop_words)
        joint = " " if self.analyzer == "word" else ""
        indices: list[int] = []
        starts = [0]
        for text in texts:
            grams = ngrams(tokens(text), self.orders, joint)
            indices.extend(vocabulary[gram] for gram in grams)
            starts.append(len(indices))
        counts = sparse.csr_array(
            (np.ones(len(indices)), np.array(indices, dtype=np.int64), np.array(starts)),
            shape=(len(texts), len(vocabulary)),
        )
        counts.sum_duplicates()
        if self.normalize:
            lengths = np.sqrt(counts.multiply(counts).sum(axis=1))
            counts.data /= np.repeat(lengths, np.diff(counts.indptr))
        return counts


def tokenizer(analyzer: str, stop_words: str | None = None) -> Callable[[str], list[str]]:
    """The function that gives a text's words or characters in order, without the stop words.

    >>> tokenizer("word")("The cat sat.")
    ['the', 'cat', 'sat']
    """
    name_from(analyzer, ("word", "char"), "analyzer")
    if stop_words is not None:
        name_from(stop_words, ("english",), "stop_words")
        if analyzer == "char":
            raise ValueError(
                f"stop_words must be None for analyzer='char', which has no words; "
                f"got {stop_words!r}."
            )
    from sklearn.feature_extraction.text import CountVectorizer  # which few need

    return CountVectorizer(analyzer=analyzer, stop_words=stop_words).build_analyzer()


def ngrams(tokens: list[str], orders: Iterable[int], joint: str = " ") -> list[str]:
    """All runs of n consecutive tokens, put together with ``joint``, for every n of ``orders``.

    >>> ngrams(["to", "be", "or"], (1, 2))
    ['to', 'be', 'or', 'to be', 'be or']
    """
    return [joint.join(tokens[i : i + n]) for n in orders for i in range(len(tokens) - n + 1)]


def checked_orders(orders: Any) -> tuple[int, ...]:
    """``orders`` as a tuple of distinct integers of at least 1, in increasing order."""
    if not is_listed(orders):
        raise TypeError(f"orders must be a tuple of integers; got {orders!r}.")
    distinct = sorted({positive_integer(order, "orders") for order in orders})
    if not distinct:
        raise ValueError(f"orders must hold at least one integer; got {orders!r}.")
    return tuple(distinct)


def checked_texts(X: Matrix, name: str = "X") -> NDArray:
    """``X`` as a one-dimensional array of strings, dtype object."""
    if isinstance(X, (str, bytes)) or not hasattr(X, "__len__") or sparse.issparse(X):
        raise TypeError(f"{name} must be a sequence of texts; got {type(X).__name__}.")
    texts = np.asarray(X, dtype=object)
    if texts.ndim != 1:
        raise ValueError(
            f"{name} must be a sequence of texts, with one dimension; got shape {texts.shape}."
        )
    if not len(texts):
        raise ValueError(f"{name} must hold at least one text; got none.")
    for i, text in enumerate(texts):
        if not isinstance(text, str):
            raise TypeError(f"{name} must hold texts alone; got {text!r} in place {i}.")
    return texts


def _numbering() -> dict[str, int]:
    """A dictionary that assigns the next number to each new key."""
    numbers: defaultdict[str, int] = defaultdict()
    numbers.default_factory = numbers.__len__
    return numbers
