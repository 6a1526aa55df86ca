"""Hashed n-grams: texts as sparse counts in a fixed number of columns, without a vocabulary."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import KW_ONLY, dataclass, field
from functools import cache
from hashlib import blake2b
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray
from scipy import sparse

from mercer import _core, kernels
from mercer._runtime.arrays import check_memory, n_threads
from mercer._runtime.random import RandomStateLike, Slot, Streams
from mercer._runtime.state import State
from mercer._runtime.validation import check_function, flag, positive_integer
from mercer.designs import Design, Sparse
from mercer.kernels.text import checked_orders, checked_texts, tokenizer
from mercer.maps._documentation import SHARED, documented
from mercer.maps.base import FeatureMap
from mercer.maps.drawn import LAST_KEY

__all__ = ["HashedNGrams"]

_LARGEST = 2**31 - 1  # most columns, for 32-bit indices
_PIECE = 2**22  # characters of the texts hashed together
_BYTES_PER_CHARACTER = 64.0  # bytes of tokens, hashes and n-gram entries per character
_REMEMBERED = 2**20  # tokens whose hashes are cached
_ASCII, _UNICODE = 2**7, 0x110000  # code points


@documented(SHARED)
@dataclass(eq=False, repr=False)
class HashedNGrams(FeatureMap):
    """Counts of n-grams in hashed columns: z(x) . z(y) estimates the n-gram kernel of two texts.

    Data are sequences of strings: lists, one-dimensional arrays, columns of a data frame. Each run
    of n tokens, for n in ``orders``, is hashed to one of ``n_components`` columns and, unless
    ``signed`` is False, to a sign. The map stores the seed and no vocabulary, so that no n-gram is
    unknown. Over random hash functions the signed map is unbiased, with variance
    ``sum_{s != t} (x_s**2 y_t**2 + x_s y_s x_t y_t) / D`` for counts x and y; without signs
    ``sum_{s != t} x_s y_t / D`` is added to the mean.

    Parameters
    ----------
    n_components : int, default=262144
        Number of columns D, from 1 to 2**31 - 1.
    orders : tuple of int, default=(1, 2, 3)
        Lengths n of the n-grams counted, each >= 1.
    signed : bool, default=True
        Whether counts get random signs. Without them features are counts, and collisions of the
        hash bias the kernel.
    analyzer : {"word", "char"} or callable, default="word"
        Tokens of a text: words of two letters or more as in the ``CountVectorizer`` of
        scikit-learn, characters, or the list of strings that a function ``analyzer(text)`` returns.
        A function must be defined at module level for the map to be pickled.
    stop_words : {"english"} or None, default=None
        "english" leaves out the most common English words before n-grams are formed.
    normalize : bool, default=True
        Whether the vector of counts is scaled to length 1 before hashing, so that z(x) . z(y)
        estimates a cosine.
    {random_state}
    n_jobs : int or None, default=None
        Number of threads; None means all. A function as ``analyzer`` runs in one thread.

    Attributes
    ----------
    {n_features_out_}
    kernel_ : mercer.kernels.NGram
        Kernel of the n-grams; absent if ``analyzer`` is a function.
    key_ : int
        Key of the hash functions: with the parameters it determines all columns and signs.

    Raises
    ------
    ValueError, TypeError
        At ``fit``, if a parameter is invalid or the data are not texts.

    References
    ----------
    Weinberger, Dasgupta, Langford, Smola and Attenberg, Feature hashing for large scale multitask
    learning, ICML 2009.

    Examples
    --------
    >>> from mercer.maps import HashedNGrams
    >>> texts = ["the cat sat", "the cat ran"]
    >>> hashed = HashedNGrams(orders=(1, 2), normalize=False, random_state=0)
    >>> Z = hashed.fit_transform(texts)
    >>> (Z @ Z.T).toarray()
    array([[5., 3.],
           [3., 5.]])
    """

    n_components: int = 2**18
    orders: ArrayLike = (1, 2, 3)
    signed: bool = True
    analyzer: str | Callable[[str], list[str]] = "word"
    _: KW_ONLY
    stop_words: str | None = None
    normalize: bool = True
    random_state: RandomStateLike = None
    n_jobs: int | None = None

    _kept_settings: ClassVar = ("orders", "signed", "analyzer", "stop_words", "normalize")
    _orders_: Any = field(init=False)
    _signed_: bool = field(init=False)
    _analyzer_: Any = field(init=False)
    _stop_words_: str | None = field(init=False)
    _normalize_: bool = field(init=False)

    @property
    def takes_text(self) -> bool:
        return True

    def bytes_per_row(self, dtype: DTypeLike) -> float:
        return _BYTES_PER_CHARACTER * (1.0 + self._mean_length)

    def _checked(self, X: Any, reset: bool) -> NDArray:
        return checked_texts(X, "X")

    def _fit(self, X: NDArray) -> None:  # type: ignore[override]
        n_components = positive_integer(self.n_components, "n_components")
        if n_components > _LARGEST:
            raise ValueError(f"n_components must be at most {_LARGEST}; got {n_components}.")
        flag(self.signed, "signed")
        flag(self.normalize, "normalize")
        n_threads(self.n_jobs)
        self._orders_ = checked_orders(self.orders)
        self._tokens()
        if not callable(self.analyzer):
            self.kernel_ = kernels.NGram(
                self.orders, self.analyzer, self.stop_words, self.normalize
            )
        self.key_ = self._drawn_key()
        self.n_features_out_ = n_components
        self._mean_length = float(np.mean([len(text) for text in X]))

    def _transform(self, X: NDArray) -> sparse.csr_array:
        pieces = [self._hashed(X[rows]) for rows in _pieces(X)]
        n_bytes = sum(piece.data.nbytes + piece.indices.nbytes for piece in pieces)
        check_memory(n_bytes, f"hashing {len(X)} texts", "transform fewer texts at a time")
        return pieces[0] if len(pieces) == 1 else sparse.vstack(pieces, format="csr")

    def _block(self, X: NDArray, columns: NDArray[np.int64]) -> NDArray:
        out = np.empty((len(X), len(columns)))
        for rows in _pieces(X):
            out[rows] = self._hashed(X[rows])[:, columns].toarray()
        return out

    def _design(self, X: NDArray) -> Design:  # type: ignore[override]
        return Sparse(self._transform(X), self.n_jobs)

    def _check_state(self) -> None:
        super()._check_state()
        state = State(self)
        state.integer("n_features_out_", 1, _LARGEST)
        state.integer("key_", 0, LAST_KEY)
        state.flag("_signed_")
        state.flag("_normalize_")
        state.number("_mean_length", 0.0)
        checked_orders(self._orders_)
        self._tokens()

    def _tokens(self) -> Callable[[str], list[str]]:
        """The function that gives a text's tokens."""
        if not callable(self._analyzer_):
            return tokenizer(self._analyzer_, self._stop_words_)
        check_function(self._analyzer_, "analyzer", "a text")
        if self._stop_words_ is not None:
            raise ValueError(
                "stop_words must be None beside an analyzer that is a function; "
                f"got {self._stop_words_!r}."
            )
        return self._analyzer_

    def _hashed(self, texts: NDArray) -> sparse.csr_array:
        """The features of a few texts."""
        threads = n_threads(self.n_jobs)
        if callable(self._analyzer_):
            tokens, starts = _hashes_of_tokens(texts, self._tokens())
        else:
            tokens, starts = _token_hashes(texts, self._analyzer_, self._stop_words_, threads)
        key = Streams(self.key_, np.zeros(1, dtype=np.int64)).bits(2, Slot.SIGN)[0]
        orders = np.array(checked_orders(self._orders_), dtype=np.int64)
        width, settings = self.n_features_out_, (self._signed_, self._normalize_)
        data, indices, indptr = _core.hashed_runs(
            tokens, starts, orders, key, width, *settings, threads
        )
        if len(data) <= np.iinfo(np.int32).max:
            indptr = indptr.astype(np.int32)
        return sparse.csr_array((data, indices, indptr), shape=(len(texts), width))

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = tags.input_tags.two_d_array = False
        tags.input_tags.string = tags.input_tags.one_d_array = True
        tags.transformer_tags.preserves_dtype = []
        return tags


class _Hashes(dict[str, int]):
    """The 64-bit hash of every token that it is asked for."""

    def __missing__(self, token: Any) -> int:
        if not isinstance(token, str):
            raise TypeError(f"analyzer must return a list of strings; one of them is {token!r}.")
        digest = blake2b(token.encode("utf-8", "surrogatepass"), digest_size=8).digest()
        self[token] = value = int.from_bytes(digest, "little")
        return value


def _pieces(texts: NDArray) -> Iterator[slice]:
    """Consecutive texts of about ``_PIECE`` characters in all."""
    ends = np.cumsum([len(text) for text in texts])
    start = 0
    while start < len(texts):
        before = ends[start - 1] if start else 0
        stop = max(start + 1, int(np.searchsorted(ends, before + _PIECE, side="right")))
        yield slice(start, stop)
        start = stop


def _token_hashes(
    texts: NDArray, analyzer: str, stop_words: str | None, threads: int
) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    """Hashes of all tokens, text after text, and where each text starts, with the end.

    Tokens are those of ``tokenizer(analyzer, stop_words)``.
    """
    lowered = [text.lower() for text in texts]
    if analyzer == "char":
        lowered = [re.sub(r"\s\s+", " ", text) for text in lowered]
    starts = np.zeros(len(lowered) + 1, dtype=np.int64)
    np.cumsum([len(text) for text in lowered], out=starts[1:])
    together = "".join(lowered)
    encoding = "utf-32-le" if sys.byteorder == "little" else "utf-32-be"
    characters = np.array(memoryview(together.encode(encoding, "surrogatepass")).cast("I"))
    in_words = None
    if analyzer == "word":
        in_words = _in_words(_ASCII if together.isascii() else _UNICODE)
    skipped = np.empty(0, dtype=np.uint64) if stop_words is None else _english_hashes()
    return _core.token_hashes(characters, starts, in_words, skipped, threads)


@cache
def _in_words(n: int) -> NDArray[np.uint8]:
    """Flags of the first n code points: 1 for letters of words."""
    marks = np.zeros(n, dtype=np.uint8)
    for run in re.finditer(r"\w+", "".join(map(chr, range(n)))):
        marks[run.start() : run.end()] = 1
    return marks


@cache
def _english_hashes() -> NDArray[np.uint64]:
    """The hashes of the commonest English words, in increasing order."""
    known = _Hashes()
    from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS  # which few need

    return np.array(sorted(known[word] for word in ENGLISH_STOP_WORDS), dtype=np.uint64)


def _hashes_of_tokens(
    texts: NDArray, tokens: Callable[[str], list[str]]
) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    """Hashes of the tokens that a function finds in texts, and where each text starts."""
    known = _Hashes()
    parts, starts = [], np.zeros(len(texts) + 1, dtype=np.int64)
    for i, text in enumerate(texts):
        hashes = [known[token] for token in tokens(text)]
        parts.append(np.array(hashes, dtype=np.uint64))
        starts[i + 1] = starts[i] + len(hashes)
        if len(known) > _REMEMBERED:
            known.clear()
    return np.concatenate(parts), starts
