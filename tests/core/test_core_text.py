"""Hashes of tokens and of their runs, against the plainest code that does the same."""

import hashlib
import re
from collections import Counter

import numpy as np
import pytest

import mercer.maps.text
from mercer import _core
from mercer.maps import HashedNGrams

TURN, WHOLE = 0x9E3779B97F4A7C15, 2**64
NO_HASHES = np.empty(0, np.uint64)

TEXTS = [
    "",
    "a",
    "the cat sat on the mat, the dog_1 on the cat",
    "Über den Wolken: naïve 東京 Ⅷ ½ x² ٣٤ é́ i̇ 𝐀𝐁 😀😀 ab",
    "ΣΑΣ ΟΔΟΣ \ud800\udfff \udc80x İstanbul ß",
    "x" * 127 + " " + "y" * 128 + " " + "z" * 129 + " " + "é" * 300 + " \t\n  end",
    "_ __ 0 00 - --",
]


def digest(token):
    encoded = token.encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.blake2b(encoded, digest_size=8).digest(), "little")


def mixed(bits):
    bits = (bits ^ (bits >> 33)) * 0xFF51AFD7ED558CCD % WHOLE
    bits = (bits ^ (bits >> 33)) * 0xC4CEB9FE1A85EC53 % WHOLE
    return bits ^ (bits >> 33)


def row(tokens, orders, key, n_columns, signs, normalize):
    """The hashed counts of one text, run by run."""
    runs = Counter()
    for order in orders:
        for i in range(len(tokens) - order + 1):
            value = 0
            for token in tokens[i : i + order]:
                value = (value * TURN + token) % WHOLE
            runs[(value + order) % WHOLE] += 1
    out = np.zeros(n_columns)
    for run, count in runs.items():
        bits = mixed(mixed((run + key[0]) % WHOLE) ^ key[1])
        sign = -1 if signs and bits & 1 else 1
        out[(bits >> 32) * n_columns >> 32] += sign * count
    length = np.sqrt(sum(count**2 for count in runs.values())) if normalize else 1.0
    return out / length if runs else out


@pytest.mark.parametrize("stop_words", [None, "english"])
@pytest.mark.parametrize("analyzer", ["word", "char"])
def test_tokens_are_those_of_scikit_learn_and_hashes_are_digests(analyzer, stop_words):
    if analyzer == "char" and stop_words:
        return
    tokens = HashedNGrams(analyzer=analyzer, stop_words=stop_words).fit(TEXTS)._tokens()
    for texts in (TEXTS, TEXTS[:3], [""], TEXTS * 100):
        expected = [[digest(token) for token in tokens(text)] for text in texts]
        for threads in (1, 3):
            hashes, starts = mercer.maps.text._token_hashes(
                np.array(texts, dtype=object), analyzer, stop_words, threads
            )
            np.testing.assert_array_equal(np.diff(starts), [len(hashes) for hashes in expected])
            assert hashes.tolist() == [value for text in expected for value in text]


def test_every_character_is_in_a_word_or_not_as_python_has_it():
    in_words = mercer.maps.text._in_words(0x110000)
    for code in [*range(0x3000), *range(0xD7F0, 0xE010), *range(0x1F000, 0x1F700), 0x10FFFF]:
        assert bool(in_words[code]) == bool(re.match(r"\w", chr(code))), hex(code)


def test_more_tokens_than_are_remembered_keep_their_hashes():
    words = [f"w{i}" for i in range(700_000)]
    text = np.array([" ".join(words), " ".join(words[:5])], dtype=object)
    hashes, starts = mercer.maps.text._token_hashes(text, "word", None, 1)
    assert starts.tolist() == [0, len(words), len(words) + 5]
    for i in (0, 1, 2047, 2048, 524_287, 524_288, 699_999):
        assert int(hashes[i]) == digest(words[i])
    np.testing.assert_array_equal(hashes[len(words) :], hashes[:5])


@pytest.mark.parametrize("normalize", [True, False])
@pytest.mark.parametrize("signs", [True, False])
@pytest.mark.parametrize(("orders", "n_columns"), [((1,), 5), ((1, 2, 3), 40), ((2, 7), 2**31 - 1)])
def test_hashed_runs_are_those_of_every_run_by_itself(orders, n_columns, signs, normalize):
    rng = np.random.default_rng(100)
    lengths = np.array([0, 1, 2, 30, 0, 8, 200, 1])
    starts = np.concatenate([[0], np.cumsum(lengths)])
    tokens = rng.integers(0, 2**64, 12, dtype=np.uint64)[rng.integers(0, 12, starts[-1])]
    key = rng.integers(0, 2**64, 2, dtype=np.uint64)
    told = tokens, starts, np.array(orders), key, n_columns, signs, normalize
    data, indices, indptr = _core.hashed_runs(*told, 1)
    assert (data != 0).all()
    for again, first in zip(_core.hashed_runs(*told, 3), (data, indices, indptr), strict=True):
        np.testing.assert_array_equal(again, first)
    small = n_columns < 1000
    for i in range(len(lengths)):
        of_text = [int(t) for t in tokens[starts[i] : starts[i + 1]]]
        entries = slice(indptr[i], indptr[i + 1])
        assert (np.diff(indices[entries]) > 0).all()
        if small:
            out = np.zeros(n_columns)
            out[indices[entries]] = data[entries]
            told = [int(k) for k in key]
            expected = row(of_text, orders, told, n_columns, signs, normalize)
            np.testing.assert_allclose(out, expected, rtol=1e-15)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"orders": np.array([0])}, "orders must rise from at least 1; got 0"),
        ({"orders": np.array([2, 2])}, "orders must rise from at least 1; got 2"),
        ({"n_columns": 0}, "n_columns must be at least 1 and below 2\\^31; got 0"),
        ({"starts": np.array([0, 9])}, "starts must rise from 0 to the number of tokens; got 9"),
    ],
)
def test_arguments_are_checked(change, message):
    arguments = {
        "tokens": np.arange(3, dtype=np.uint64), "starts": np.array([0, 3]),
        "orders": np.array([1]), "key": np.zeros(2, np.uint64), "n_columns": 3,
        "with_signs": True, "normalize": True, "n_threads": 1,
    }  # fmt: skip
    with pytest.raises(ValueError, match=message):
        _core.hashed_runs(**(arguments | change))
    with pytest.raises(ValueError, match="starts must rise from 0 to the number of characters"):
        _core.token_hashes(np.zeros(2, np.uint32), np.array([0, 3]), None, NO_HASHES, 1)
