"""LIBSVM text: what scikit-learn writes is read back, what is broken is named by its line."""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import sparse
from sklearn.datasets import dump_svmlight_file, load_svmlight_file

from _data import shared_data
from mercer import datasets
from mercer.datasets import DataError, Table

COMPRESS = {"": bytes, ".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress}
SVM = b"1 1:0.5 3:2\n-1 2:1\n1\n"


@pytest.fixture
def put(tmp_path):
    """Write bytes or text to a file of the given name."""

    def write(name, content):
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return write


@pytest.mark.parametrize("suffix", COMPRESS)
@pytest.mark.parametrize("name", ["data.svm", "data", "data.t", "data.txt"])
def test_libsvm_text_is_read_whatever_its_name_and_compression(put, name, suffix):
    table = datasets.read(put(name + suffix, COMPRESS[suffix](SVM)))
    assert isinstance(table.X, sparse.csr_array)
    np.testing.assert_array_equal(table.X.toarray(), [[0.5, 0, 2], [0, 1, 0], [0, 0, 0]])
    np.testing.assert_array_equal(table.y, [1, -1, 1])
    assert table.feature_names is None
    assert table.target_name is None


def test_compression_is_found_by_content_not_by_name(put):
    assert datasets.read(put("data.svm", lzma.compress(SVM))).X.shape == (3, 3)


@pytest.mark.parametrize(
    ("text", "X", "y"),
    [
        ("# head\n1 1:2 # tail 9:9\n\n2 2:3\n", [[2, 0], [0, 3]], [1, 2]),
        ("1 qid:3 1:2\n2 qid:4 2:3\n", [[2, 0], [0, 3]], [1, 2]),
        ("+1 1:2\r\n-1 2:3\r\n", [[2, 0], [0, 3]], [1, -1]),
        ("1 0:2 2:1\n2 1:3\n", [[2, 0, 1], [0, 3, 0]], [1, 2]),
        ("1.5 1:-2e-1 2:.5", [[-0.2, 0.5]], [1.5]),
        ("1:2 3:4\n2:1\n", [[2, 0, 4], [0, 1, 0]], None),
        ("1:2\n2:1\n\n\n", [[2, 0], [0, 1]], None),
        ("\n# unlabelled\n1:2\n2:1\n", None, None),
    ],
    ids=["comments", "qid", "crlf", "from 0", "floats", "unlabelled", "blank end", "blank start"],
)
def test_libsvm_variants(put, text, X, y):
    path = put("data.svm", text)
    if X is None:
        with pytest.raises(DataError, match="line 1: a blank line is ambiguous"):
            datasets.read(path)
        return
    table = datasets.read(path)
    np.testing.assert_array_equal(table.X.toarray(), X)
    assert (table.y is None) == (y is None)
    if y is not None:
        np.testing.assert_array_equal(table.y, y)


def test_indices_count_from_zero_when_told_so(put):
    path = put("data.svm", "1 1:2\n2 2:3\n")
    assert datasets.read(path).X.shape == (2, 2)
    table = datasets.read(path, zero_based=True)
    np.testing.assert_array_equal(table.X.toarray(), [[0, 2, 0], [0, 0, 3]])


def test_n_features_widens_libsvm_text(put):
    path = put("data.svm", SVM)
    assert datasets.read(path, n_features=7).X.shape == (3, 7)
    assert datasets.read(put("zeros.svm", "1\n2\n"), n_features=2).X.shape == (2, 2)


LIBSVM_FAULTS = {
    "not a label": ("1 1:2\ncat 1:2\n", "line 2: the label must be one number, got 'cat'"),
    "many labels": ("1,2 1:2\n", "line 1: the label must be one number, got '1,2'"),
    "no label": ("1 1:2\n\n1:2 2:3\n", "line 3: the label is missing"),
    "a label too many": ("1:2 2:3\n1 1:2\n", "line 2: a feature must read index:value, got '1'"),
    "no colon": ("1 1:2\n1 2\n", "line 2: a feature must read index:value, got '2'"),
    "index": ("1 1:2\n1 a:2\n", "line 2: a feature index must be an integer"),
    "negative index": ("1 -1:2\n1 1:1\n", "line 1: a feature index must be an integer of at least"),
    "large index": ("1 99999999999:2\n", "line 1: a feature index must be below 2147483647"),
    "value": ("1 1:2\n1 1:x\n", "line 2: a feature value must be a number, got '1:x'"),
    "no value": ("1 1: 2:3\n", "line 1: a feature value must be a number, got '1:'"),
    "after a query": ("1 qid:3 x:2\n", "line 1: a feature index must be an integer"),
    "twice": ("1 1:2 1:3\n", "line 1: feature indices must increase within a line, got 1 after 1"),
    "unsorted": ("1 1:1\n\n1 3:2 1:3\n", "line 3: feature indices must increase .* 1 after 3"),
    "nan": ("1 1:2\n# note\n1 2:nan\n", "line 3: a feature value must be finite, got nan"),
    "infinite": ("1 1:1e999\n", "line 1: a feature value must be finite, got inf"),
    "label nan": ("1 1:1\n\nnan 1:1\n", "line 3: a label must be finite, got nan"),
    "blank": ("1:2\n\n2:3\n", "line 2: a blank line is ambiguous"),
    "binary rubbish": (b"1 1:2\n1 \xff\xfe:3\n", "line 2: a feature index must be an integer"),
    "only comments": ("# nothing\n", "is empty"),
    "no feature": ("1\n-1\n", "no row holds a feature"),
}


@pytest.mark.parametrize("fault", LIBSVM_FAULTS)
def test_broken_libsvm_text_is_one_sentence_with_the_line(put, fault):
    content, message = LIBSVM_FAULTS[fault]
    with pytest.raises(DataError, match=message) as caught:
        datasets.read(put("data.svm", content))
    assert "\n" not in str(caught.value)
    assert "data.svm" in str(caught.value)


def test_libsvm_options_that_cannot_be_meant_are_errors(put):
    path = put("data.svm", "1 0:1 4:2\n")
    with pytest.raises(DataError, match="n_features=3 is smaller than the 5 features"):
        datasets.read(path, n_features=3)
    with pytest.raises(DataError, match="index 0 occurs"):
        datasets.read(path, zero_based=False)
    with pytest.raises(DataError, match="LIBSVM text, which takes no target, got 'y'"):
        datasets.read(path, "y")
    with pytest.raises(ValueError, match="n_features must be at least 1, got 0"):
        datasets.read(path, n_features=0)


@settings(max_examples=60, deadline=None)
@given(data=st.data(), zero_based=st.booleans())
def test_libsvm_text_written_by_scikit_learn_reads_back_equal(data, zero_based, tmp_path_factory):
    n, d = data.draw(st.integers(1, 6)), data.draw(st.integers(1, 5))
    numbers = st.floats(-1e6, 1e6, width=32) | st.just(0.0)
    X = data.draw(hnp.arrays(np.float64, (n, d), elements=numbers))
    y = data.draw(hnp.arrays(np.float64, n, elements=st.floats(-1e3, 1e3, width=32)))
    path = tmp_path_factory.mktemp("roundtrip") / "data.svm"
    dump_svmlight_file(X, y, str(path), zero_based=zero_based)
    table = datasets.read(path, n_features=d, zero_based=zero_based)
    # The writer prints 16 digits, one short of all that a number may have.
    np.testing.assert_allclose(table.X.toarray(), X, rtol=1e-15)
    np.testing.assert_allclose(table.y, y, rtol=1e-15)
    same, labels = load_svmlight_file(str(path), n_features=d, zero_based=zero_based)
    np.testing.assert_array_equal(table.X.toarray(), same.toarray())
    np.testing.assert_array_equal(table.y, labels)
    table.X.check_format(full_check=True)


# --- real files ----------------------------------------------------------------------------


def dense(table: Table) -> np.ndarray:
    return table.X.toarray()


def test_a9a_text_matches_its_arrays_and_its_test_part_needs_n_features():
    with np.load(shared_data("a9a.npz")) as arrays:
        train = datasets.read(shared_data("a9a.xz"))
        np.testing.assert_array_equal(dense(train), arrays["X_train"])
        np.testing.assert_array_equal(train.y, arrays["y_train"])
        assert datasets.read(shared_data("a9a.t.xz")).X.shape == (16281, 122)
        test = datasets.read(shared_data("a9a.t.xz"), n_features=123)
        np.testing.assert_array_equal(dense(test), arrays["X_test"])
        np.testing.assert_array_equal(test.y, arrays["y_test"])


def test_ijcnn1_text_matches_its_arrays():
    table = datasets.read(shared_data("ijcnn1.val.xz"))
    with np.load(shared_data("ijcnn1.npz")) as arrays:
        np.testing.assert_array_equal(dense(table).astype(np.float32), arrays["X_test"])
        np.testing.assert_array_equal(table.y, arrays["y_test"])


def test_letter_text_is_the_shipped_data_scaled():
    table = datasets.read(shared_data("letter.scale.t.xz"))
    letter = datasets.load("letter")
    np.testing.assert_allclose(dense(table), letter.X_test / 7.5 - 1, atol=1e-6)
    np.testing.assert_array_equal(table.y, letter.y_test)


def test_real_libsvm_text_reads_as_scikit_learn_reads_it_and_at_speed():
    path = shared_data("sector.scale.bz2")
    began = time.perf_counter()
    table = datasets.read(path)
    seconds = time.perf_counter() - began
    X, y = load_svmlight_file(str(path))
    assert (table.X != X).nnz == 0
    np.testing.assert_array_equal(table.y, y)
    # A million numbers; a second or two where nothing else runs, far more in a slow parser.
    assert seconds < 30, f"{os.path.getsize(path)} bytes took {seconds:.1f} s"
